//! Composition of several transforms into one.
//!
//! A [`Job`] goes from files to a file. In memory, a [`Chain`] of transforms does the same on a device that already runs.
//!
//! ```no_run
//! use voxalign_jobs::{Silent, compose};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let transforms = vec!["warp.nii.gz".parse()?, "inverse:affine.mat".parse()?];
//! compose::Job::new(transforms, "both.nii.gz").run(&Silent)?;
//! # Ok(())
//! # }
//! ```

use crate::chain::{Chain, Link, own_grid};
use crate::error::{Error, Result};
use crate::files::{self, Grids};
use crate::listener::{Level, Listener};
use crate::machine::host;
use crate::options::GeometryOptions;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_image::Transform;
use voxalign_io::transform::{self, TransformFormat};
use voxalign_options::text;

/// Transforms that are to become one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Job {
    /// A transform: FILE, or inverse:FILE (or ANTs' `[FILE,1]`) for its inverse; a fixed point goes
    /// through the first -t, then the next
    #[cfg_attr(
        feature = "clap",
        arg(short, long = "transform", value_name = "FILE", num_args = 1.., required = true)
    )]
    #[serde(rename = "transform")]
    pub transforms: Vec<Link>,
    /// File for the result; its extension sets the format: .tfm or .txt (ITK text), .mat
    /// (ITK/ANTs), .h5 (ITK/ANTs, with its fields), .fsl or .fsl.mat (FSL), .nii.gz (displacement
    /// field)
    #[cfg_attr(feature = "clap", arg(short, long, value_name = "FILE"))]
    pub output: PathBuf,
    /// The images that transform files are relative to.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

/// What the transforms became.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Composed {
    /// Whether it is one matrix; else a displacement field is in it.
    pub is_affine: bool,
}

impl Job {
    /// The composition of transforms, as a file.
    pub fn new(transforms: Vec<Link>, output: impl Into<PathBuf>) -> Self {
        Self { transforms, output: output.into(), geometry: GeometryOptions::default() }
    }

    /// Writes the composition.
    ///
    /// # Errors
    /// No transform; an output that is an input; what is wrong with a file; a transform that cannot be inverted where that is
    /// needed; a file that cannot be written.
    pub fn run(&self, listener: &dyn Listener) -> Result<Composed> {
        if self.transforms.is_empty() {
            return Err(Error::input(text!(
                "`transform` is missing: give the transforms to compose"
            )));
        }
        let transforms = self.transforms.iter().map(|t| &t.path);
        let inputs = transforms.chain(self.geometry.paths());
        files::check_output(&self.output, inputs.map(PathBuf::as_path))?;
        let mut grids = self.geometry.grids(listener)?;
        let chain = Chain::load(&self.transforms, &grids, &Grids::default(), listener)?;
        let whole = chain.into_transform(&host()?, listener)?;
        // ITK's HDF5 keeps the parts as they are.
        let as_field = TransformFormat::from_path(&self.output)? != TransformFormat::ItkHdf5;
        if as_field && grids.fixed.is_none() && matches!(whole, Transform::Composite(_)) {
            grids.fixed = own_grid(&whole).cloned();
            if let Some(grid) = &grids.fixed {
                let note = text!(
                    "the result is on the grid of the first displacement field, {grid}; use \
                     `fixed_geometry` for another grid"
                );
                listener.say(Level::Normal, note);
            }
        }
        transform::write(&self.output, &whole, &grids.geometry())?;
        Ok(Composed { is_affine: whole.to_affine().is_ok() })
    }
}
