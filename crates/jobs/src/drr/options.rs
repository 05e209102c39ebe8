//! Options of the simulation and of its output.

use crate::error::Result;
use crate::options::{by_names, refuse};
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::raycast::{Along, Filtering, Traversal};
use voxalign_image::Grid;
use voxalign_io::xray::Signal;
use voxalign_options::{Choice, Chosen, Parameters, UseOf, text};

/// Distance of samples.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Samples {
    /// Sample spacing along rays, mm
    #[parameter(
        unit = "MM",
        above = 0.0,
        remedy = "give millimetres above 0",
        says = "half the smallest voxel spacing of the CT"
    )]
    pub step: Option<f64>,
}

/// Ray casting method.
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "rays", heading = "Simulation")]
pub enum Rays {
    /// Values interpolated linearly at equal steps.
    Trilinear(Samples),
    /// The same by the texture units of a GPU: faster, with weights of 8 bits.
    Texture(Samples),
    /// Exact lengths within voxels of constant value.
    Siddon,
    /// Values interpolated linearly within planes of voxels.
    Joseph,
}

/// How X-rays are detected.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Detection {
    /// Quantity stored in the pixels
    #[parameter(default = Shown::Attenuation, unit = "WHAT")]
    pub values: Shown,
    /// Poisson noise for this many photons per unobstructed pixel
    #[parameter(
        unit = "COUNT",
        least = 1.0,
        most = 1e15,
        remedy = "give a number from 1 to 1e15, such as 1e5",
        says = "none"
    )]
    pub photons: Option<f64>,
    /// Random seed of the noise: the same seed gives the same noise
    #[parameter(default = 0, unit = "NUMBER")]
    pub seed: u64,
}

/// Projection along each ray.
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "projection", heading = "Simulation")]
pub enum Projection {
    /// The line integral, as X-rays are absorbed.
    Integral(Detection),
    /// The largest value on the ray (maximum intensity projection).
    Maximum,
}

/// What is usual in a simulation.
#[derive(Debug)]
pub struct Simulated;

impl UseOf<Rays> for Simulated {
    fn usual() -> Option<Rays> {
        Some(Rays::TRILINEAR)
    }
}

impl UseOf<Projection> for Simulated {
    fn usual() -> Option<Projection> {
        Some(Projection::INTEGRAL)
    }
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
    /// Ray casting method.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub rays: Chosen<Rays, Simulated>,
    /// Projection along each ray.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub projection: Chosen<Projection, Simulated>,
    /// Formats of the images, separated by commas: png, tiff, nifti, dicom [default: png,nifti]
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME,...", value_delimiter = ','))]
    #[serde(with = "by_names")]
    pub format: Vec<Format>,
}

impl Simulation {
    /// What was given over what is usual: how rays go through voxels, and what is kept of them. What would be ignored is
    /// refused.
    pub(super) fn made(&self) -> Result<(Rays, Projection)> {
        let rays = self.rays.over(Rays::TRILINEAR)?;
        let projection = self.projection.over(Projection::INTEGRAL)?;
        rays.check()?;
        projection.check()?;
        let noisy = self.projection.has("photons");
        refuse(self.projection.has("seed") && !noisy, "seed", text!("`photons`"))?;
        Ok((rays, projection))
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
}

impl Rays {
    /// The same on a device: only GPUs have texture units.
    pub(super) fn on(self, gpu: bool) -> Self {
        match self {
            Rays::Texture(samples) if !gpu => Rays::Trilinear(samples),
            rays => rays,
        }
    }

    /// With the distance of samples in a CT.
    pub(super) fn traversal(self, ct: &Grid) -> Traversal {
        let usual = 0.5 * ct.spacing().into_iter().fold(f64::INFINITY, f64::min);
        match self {
            Rays::Trilinear(Samples { step }) => Traversal::trilinear(step.unwrap_or(usual)),
            Rays::Texture(Samples { step }) => {
                let (step, filtering) = (step.unwrap_or(usual), Filtering::Texture);
                Traversal::Trilinear { step, filtering }
            }
            Rays::Siddon => Traversal::Siddon,
            Rays::Joseph => Traversal::Joseph,
        }
    }
}

impl Projection {
    pub(super) fn along(self) -> Along {
        match self {
            Projection::Maximum => Along::Maximum,
            Projection::Integral(_) => Along::Integral,
        }
    }

    /// The photons per unobstructed pixel, where there is noise.
    pub(super) fn photons(self) -> Option<f64> {
        match self {
            Projection::Maximum => None,
            Projection::Integral(of) => of.photons,
        }
    }

    /// The seed of the noise.
    pub(super) fn seed(self) -> u64 {
        match self {
            Projection::Maximum => 0,
            Projection::Integral(of) => of.seed,
        }
    }

    /// How the values follow from the intensity of the X-rays, where they do.
    pub(super) fn signal(self) -> Option<Signal> {
        match self {
            Projection::Maximum => None,
            Projection::Integral(Detection { values: Shown::Intensity, .. }) => {
                Some(Signal::Intensity)
            }
            Projection::Integral(_) => Some(Signal::Attenuation),
        }
    }

    /// What the values are called.
    pub(super) fn unit(self) -> &'static str {
        match self.signal() {
            None => "1/mm",
            Some(Signal::Intensity) => "intensity",
            Some(_) => "attenuation",
        }
    }
}
