//! How X-ray images are simulated, and what is written.

use crate::error::{Error, Result};
use crate::options::by_names;
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::raycast::{Along, Filtering, Traversal};
use voxalign_image::Grid;
use voxalign_io::xray::Signal;
use voxalign_options::{Choice, text};

/// How rays go through voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Rays {
    /// Values interpolated linearly at equal steps.
    Trilinear,
    /// The same by the texture units of a GPU: faster, with weights of 8 bits.
    Texture,
    /// Exact lengths within voxels of constant value.
    Siddon,
    /// Values interpolated linearly within planes of voxels.
    Joseph,
}

/// What is kept of a ray.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Projection {
    /// The line integral, as X-rays are absorbed.
    Integral,
    /// The largest value on the ray (maximum intensity projection).
    Maximum,
}

/// What the values of an image are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Shown {
    /// What is absorbed: 0 where nothing is in the way, bone bright.
    Attenuation,
    /// What arrives, as a part of what was sent: exp(-attenuation), bone dark.
    Intensity,
}

/// A format of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Format {
    /// 16 bits, from the least to the largest value of all images of a view.
    Png,
    /// 32-bit floats.
    Tiff,
    /// 32-bit floats, placed where the detector is.
    Nifti,
    /// Secondary capture, 16 bits as of png.
    Dicom,
}

impl Format {
    pub(super) fn extension(self) -> &'static str {
        match self {
            Format::Png => "png",
            Format::Tiff => "tif",
            Format::Nifti => "nii.gz",
            Format::Dicom => "dcm",
        }
    }

    /// Whether values are whole numbers within a window.
    pub(super) fn has_window(self) -> bool {
        matches!(self, Format::Png | Format::Dicom)
    }
}

/// How images are simulated and written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Simulation"))]
#[serde(default)]
pub struct Simulation {
    /// How rays go through voxels [default: trilinear]
    #[cfg_attr(feature = "clap", arg(long, value_name = "HOW"))]
    pub rays: Option<Rays>,
    /// Distance of samples along rays, mm [default: half of the smallest spacing of the CT]
    #[cfg_attr(feature = "clap", arg(long, value_name = "MM"))]
    pub step: Option<f64>,
    /// What is kept of a ray [default: integral]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT"))]
    pub projection: Option<Projection>,
    /// What the values of the images are [default: attenuation]
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT"))]
    pub values: Option<Shown>,
    /// Poisson noise for this many photons per unobstructed pixel [default: none]
    #[cfg_attr(feature = "clap", arg(long, value_name = "COUNT"))]
    pub photons: Option<f64>,
    /// Random seed of the noise: the same seed gives the same noise [default: 0]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NUMBER"))]
    pub seed: Option<u64>,
    /// Formats of the images, separated by commas: png, tiff, nifti, dicom [default: png,nifti]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME,...", value_delimiter = ','))]
    #[serde(with = "by_names")]
    pub format: Vec<Format>,
}

impl Simulation {
    /// Refuses what would be ignored, and what cannot be.
    pub(super) fn check(&self) -> Result<()> {
        let exact = matches!(self.rays, Some(Rays::Siddon | Rays::Joseph));
        crate::options::refuse(
            exact && self.step.is_some(),
            "step",
            text!("`rays = trilinear` and texture"),
        )?;
        let maximum = self.projection == Some(Projection::Maximum);
        let is_for = || text!("`projection = integral`");
        crate::options::refuse(maximum && self.values.is_some(), "values", is_for())?;
        crate::options::refuse(maximum && self.photons.is_some(), "photons", is_for())?;
        crate::options::refuse(
            self.seed.is_some() && self.photons.is_none(),
            "seed",
            text!("`photons`"),
        )?;
        if self.step.is_some_and(|s| !(s > 0.0 && s.is_finite())) {
            return Err(Error::input(text!("`step`: give millimetres above 0")));
        }
        if self.photons.is_some_and(|p| !(1.0..=1e15).contains(&p)) {
            return Err(Error::input(text!(
                "`photons`: give a number from 1 to 1e15, such as 1e5"
            )));
        }
        Ok(())
    }

    /// How rays go through voxels on a device: only GPUs have texture units.
    pub(super) fn rays(&self, on_gpu: bool) -> Rays {
        match self.rays.unwrap_or(Rays::Trilinear) {
            Rays::Texture if !on_gpu => Rays::Trilinear,
            rays => rays,
        }
    }

    /// The same with the distance of samples.
    pub(super) fn traversal(&self, rays: Rays, ct: &Grid) -> Traversal {
        let usual = 0.5 * ct.spacing().into_iter().fold(f64::INFINITY, f64::min);
        let step = self.step.unwrap_or(usual);
        match rays {
            Rays::Trilinear => Traversal::trilinear(step),
            Rays::Texture => Traversal::Trilinear { step, filtering: Filtering::Texture },
            Rays::Siddon => Traversal::Siddon,
            Rays::Joseph => Traversal::Joseph,
        }
    }

    pub(super) fn along(&self) -> Along {
        match self.projection {
            Some(Projection::Maximum) => Along::Maximum,
            _ => Along::Integral,
        }
    }

    /// Whether the values of a file are whole numbers within a window.
    pub(super) fn has_window(&self) -> bool {
        self.formats().iter().any(|f| f.has_window())
    }

    /// The formats that are written, each once.
    pub(super) fn formats(&self) -> Vec<Format> {
        let mut all = Vec::new();
        for &format in &self.format {
            if !all.contains(&format) {
                all.push(format);
            }
        }
        if all.is_empty() { vec![Format::Png, Format::Nifti] } else { all }
    }

    /// How the values follow from the intensity of the X-rays, where they do.
    pub(super) fn signal(&self) -> Option<Signal> {
        match (self.along(), self.values) {
            (Along::Maximum, _) => None,
            (Along::Integral, Some(Shown::Intensity)) => Some(Signal::Intensity),
            (Along::Integral, _) => Some(Signal::Attenuation),
        }
    }

    /// What the values are called.
    pub(super) fn unit(&self) -> &'static str {
        match (self.along(), self.values) {
            (Along::Maximum, _) => "1/mm",
            (Along::Integral, Some(Shown::Intensity)) => "intensity",
            (Along::Integral, _) => "attenuation",
        }
    }
}
