//! The inverse of a transform.
//!
//! A [`Job`] goes from file to file. In memory, [`chain::inverted`](crate::chain::inverted) does the same on a device that
//! already runs.
//!
//! ```no_run
//! use voxalign_jobs::{Silent, invert};
//!
//! # fn main() -> Result<(), voxalign_jobs::Error> {
//! let found = invert::Job::new("warp.nii.gz", "inverse.nii.gz").run(&Silent)?;
//! assert!(found.is_good());
//! # Ok(())
//! # }
//! ```

use crate::chain::inverted;
use crate::error::Result;
use crate::files::{self, Grids};
use crate::listener::Listener;
use crate::machine::host;
use crate::options::GeometryOptions;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_image::Residuals;
use voxalign_io::transform;
use voxalign_register::fields::Exactness;

/// A transform that is to be inverted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// The transform
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "FILE"))]
    pub transform: PathBuf,
    /// File for the inverse; its extension sets the format: .tfm or .txt (ITK text), .mat
    /// (ITK/ANTs), .h5 (ITK/ANTs, with its fields), .fsl or .fsl.mat (FSL), .nii.gz (displacement
    /// field)
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "FILE"))]
    pub output: PathBuf,
    /// The images that transform files are relative to.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

/// How exact the inverse is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inverted {
    /// Of each displacement field, last field first.
    pub fields: Vec<FieldExactness>,
}

/// How exact the inverse of a displacement field is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FieldExactness {
    /// The residuals at the voxels of the inverse.
    pub at_voxels: Distances,
    /// How far the field's voxels end from where they were after going there and back.
    pub round_trip: Distances,
    /// Voxels of the field.
    pub voxels: usize,
    /// Voxels that do not come back to within a voxel.
    pub lost: usize,
    /// Whether these are few enough, at most one in a thousand, for it to be an inverse.
    pub good: bool,
}

/// Distances of many voxels, mm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distances {
    /// The mean.
    pub mean_mm: f64,
    /// The largest.
    pub largest_mm: f64,
}

impl From<&Residuals> for Distances {
    fn from(residuals: &Residuals) -> Self {
        Self { mean_mm: residuals.mean, largest_mm: residuals.largest }
    }
}

impl From<&Exactness> for FieldExactness {
    fn from(exactness: &Exactness) -> Self {
        Self {
            at_voxels: (&exactness.at_voxels).into(),
            round_trip: (&exactness.round_trip).into(),
            voxels: exactness.voxels,
            lost: exactness.round_trip.unconverged,
            good: !exactness.is_bad(),
        }
    }
}

impl Inverted {
    /// Whether it is an inverse everywhere but at few voxels.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.fields.iter().all(|field| field.good)
    }
}

impl Job {
    /// The inverse of a transform file, as another file.
    pub fn new(transform: impl Into<PathBuf>, output: impl Into<PathBuf>) -> Self {
        let geometry = GeometryOptions::default();
        Self { transform: transform.into(), output: output.into(), geometry }
    }

    /// Writes the inverse.
    ///
    /// # Errors
    /// An output that is an input; what is wrong with a file; a linear part without inverse; a field without inverse at more
    /// than one voxel in a thousand; a file that cannot be written.
    pub fn run(&self, listener: &dyn Listener) -> Result<Inverted> {
        let inputs = std::iter::once(&self.transform).chain(self.geometry.paths());
        files::check_output(&self.output, inputs.map(PathBuf::as_path))?;
        let grids = self.geometry.grids(listener)?;
        let forward = files::transform(&self.transform, &grids.geometry(), listener)?.simplified();
        let name = self.transform.display().to_string();
        let (inverse, exactness) = inverted(&host()?, &forward, &name, listener)?;
        // The inverse goes from the moving to the fixed image.
        let turned = Grids { fixed: grids.moving, moving: grids.fixed };
        transform::write(&self.output, &inverse, &turned.geometry())?;
        Ok(Inverted { fields: exactness.iter().map(Into::into).collect() })
    }
}
