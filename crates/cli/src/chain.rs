//! Chains of transforms from the command line.

use crate::args::{Grids, TransformArg};
use crate::failure::Failure;
use std::path::Path;
use voxalign_image::Transform;
use voxalign_io::IoError;
use voxalign_io::transform::{self, Geometry};

/// Reads a chain: a fixed point goes through the first transform, then the next.
///
/// A matrix of FSL is relative to two images. They are those `given`; where the chain is a single
/// transform, `usual` stands in for what is not given.
pub(crate) fn load(
    chain: &[TransformArg],
    given: &Grids,
    usual: &Grids,
) -> Result<Transform, Failure> {
    let mut parts = Vec::with_capacity(chain.len());
    let mut relative = Vec::new();
    for link in chain {
        if is_relative(&link.path) {
            relative.push(link);
        }
        if relative.len() > 1 {
            return Err(Failure::input(format!(
                "'{}' and '{}' are both relative to images, and each may be to others: convert \
                 them first, such as `voxalign convert A.mat A.tfm --fixed-geometry IMAGE \
                 --moving-geometry IMAGE`",
                relative[0].path.display(),
                link.path.display()
            )));
        }
        let grids = if chain.len() == 1 {
            // The file of an inverse goes the other way than the chain.
            let (fixed, moving) = if link.inverse {
                (&usual.moving, &usual.fixed)
            } else {
                (&usual.fixed, &usual.moving)
            };
            Grids {
                fixed: given.fixed.clone().or_else(|| fixed.clone()),
                moving: given.moving.clone().or_else(|| moving.clone()),
            }
        } else {
            given.clone()
        };
        parts.push(link.load(&grids.geometry())?);
    }
    Ok(Transform::Composite(parts).simplified())
}

/// Reads one transform; a missing geometry is explained in terms of the options.
pub(crate) fn read(path: &Path, geometry: &Geometry<'_>) -> Result<Transform, Failure> {
    match transform::read(path, geometry) {
        Err(e @ IoError::GeometryNeeded { .. }) => {
            Err(Failure::input(format!("{e}; give --fixed-geometry and --moving-geometry")))
        }
        other => Ok(other?),
    }
}

/// Whether a transform file cannot be read without the images it is between.
fn is_relative(path: &Path) -> bool {
    let none = Geometry::default();
    matches!(transform::read(path, &none), Err(IoError::GeometryNeeded { .. }))
}
