//! Shared parts of jobs: inputs and outputs, the record and the report, and the end of a run.

mod files;
mod record;

pub(crate) use crate::role::Role;
pub use files::{Caller, Done, Read};
pub(crate) use files::{IntoBids, Run, conclude, nothing_more, written};
pub(crate) use record::{Clock, Input, inputs, outside, peak_memory, record};

use crate::error::{Error, Result};
use crate::options::Product;
use crate::staged::Staged;
use std::borrow::Cow;
use std::path::Path;
use voxalign_image::{Affine, Transform};
use voxalign_io::transform::{self, Geometry};
use voxalign_register::RegisterError;

/// Names of files that every registration leaves.
pub(crate) const TRANSFORM: &str = "affine.tfm";
pub(crate) const TRANSFORM_FSL: &str = "affine.fsl.mat";
pub(crate) const WARPED: &str = "warped.nii.gz";
pub(crate) const RECORD: &str = "result.json";
pub(crate) const REPORT: &str = "report.html";

/// A file that a registration can leave.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// What it is, for the record.
    role: &'static str,
    name: Cow<'static, str>,
    /// What has to be asked for to get it; nothing for record and report.
    product: Option<Product>,
}

impl Output {
    pub(crate) const fn new(
        role: &'static str,
        name: &'static str,
        product: Option<Product>,
    ) -> Self {
        Self { role, name: Cow::Borrowed(name), product }
    }

    /// The same of a name that is made of one that was given.
    pub(crate) fn named(role: &'static str, name: String, product: Option<Product>) -> Self {
        Self { role, name: Cow::Owned(name), product }
    }

    /// What it is, for the record.
    pub(crate) fn role(&self) -> &'static str {
        self.role
    }

    /// Its name in the folder.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What has to be asked for to get it.
    pub(crate) fn product(&self) -> Option<Product> {
        self.product
    }

    /// The same in a folder among the results.
    pub(crate) fn within(self, folder: &str) -> Self {
        Self { name: Cow::Owned(format!("{folder}/{}", self.name)), ..self }
    }
}

/// No output may be one of the inputs.
pub(crate) fn check_outputs<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str>,
    inputs: impl Iterator<Item = &'a Path> + Clone,
) -> Result<()> {
    for output in names.map(|name| folder.join(name)).filter(|path| path.exists()) {
        crate::files::check_output(&output, inputs.clone())?;
    }
    Ok(())
}

/// The same of what is [written].
pub(crate) fn check_written(
    folder: &Path,
    written: &[(&'static str, String)],
    inputs: &[Input<'_>],
) -> Result<()> {
    check_outputs(folder, written.iter().map(|w| w.1.as_str()), inputs.iter().map(Input::path))
}

/// Writes an affine transform for ITK and for FSL.
pub(crate) fn write_affine(
    staged: &mut Staged<'_>,
    transform: &Affine,
    dimensions: usize,
    geometry: &Geometry<'_>,
) -> Result<()> {
    let transform = Transform::Affine(*transform);
    staged.write(TRANSFORM, |path| {
        // Tools for images of two dimensions take transforms of two dimensions only.
        if dimensions != 2 || !transform::write_itk_2d(path, &transform)? {
            transform::write(path, &transform, geometry)?;
        }
        Ok(())
    })?;
    staged.write(TRANSFORM_FSL, |path| transform::write(path, &transform, geometry))
}

/// An error of a registration, with the file that it is about, where it is one.
pub(crate) fn blamed(error: RegisterError, inputs: &[Input<'_>]) -> Error {
    let file = error.role().and_then(|role| inputs.iter().find(|i| i.is(role)));
    let failure = Error::from(error);
    match file {
        Some(input) => failure.at(format!("'{}'", input.path().display())),
        None => failure,
    }
}
