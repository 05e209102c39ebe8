//! The errors of this crate.

use crate::lattice::Neighbourhood;
use thiserror::Error;
use voxalign_compute::ComputeError;
use voxalign_image::memory::OutOfMemory;

/// What can be wrong with an image, a start or a parameter.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// An axis without points, or more points than can be counted.
    #[error("a lattice of {} x {} x {} points is not possible; give between 1 and 2^60 points", dims[0], dims[1], dims[2])]
    Dims {
        /// Sizes along x, y, z.
        dims: [usize; 3],
    },
    /// A neighbourhood of the plane in a volume, or the other way round.
    #[error(
        "{} neighbours are not of a lattice of {} x {} x {} points; use {}",
        neighbourhood.count(), dims[0], dims[1], dims[2], if dims[2] == 1 { "4 or 8" } else { "6, 18 or 26" }
    )]
    Neighbourhood {
        /// The neighbourhood.
        neighbourhood: Neighbourhood,
        /// Sizes along x, y, z.
        dims: [usize; 3],
    },
    /// Values that are not those of the lattice.
    #[error("{what} has {found} values, and the lattice {expected} points; give one a point")]
    Length {
        /// What has the values.
        what: &'static str,
        /// How many it has.
        found: usize,
        /// How many points there are.
        expected: usize,
    },
    /// A start that has no front.
    #[error("the initial set is {}; give one with points inside and points outside", if *inside == 0 { "empty" } else { "the whole image" })]
    NoFront {
        /// How many points are inside: none or all.
        inside: usize,
    },
    /// A value that is not a number.
    #[error(
        "{what} has the value {value} at point {index}, counted from 0; replace what is not finite"
    )]
    NotFinite {
        /// What has the value.
        what: &'static str,
        /// The value.
        value: f64,
        /// The number of the point, x fastest.
        index: usize,
    },
    /// An image in which nothing can be told apart.
    #[error("the image has the value {value} everywhere; there is nothing to tell apart")]
    Constant {
        /// The value.
        value: f64,
    },
    /// A parameter that cannot be.
    #[error("{name} is {value}; {remedy}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is possible.
        remedy: &'static str,
    },
    /// A mixture with more components than there are different values.
    #[error(
        "{components} components cannot be told apart among {values} different values; use fewer"
    )]
    Components {
        /// How many were asked for.
        components: usize,
        /// How many different values there are.
        values: usize,
    },
    /// More regions than can be.
    #[error("{regions} regions are too many; at most {most} can be told apart in this image")]
    Regions {
        /// How many were given.
        regions: usize,
        /// The most that can be.
        most: usize,
    },
    /// Whoever watches the evolution asked for its end.
    #[error("stopped")]
    Stopped,
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// What a device refused, or what failed on it.
    #[error(transparent)]
    Compute(#[from] ComputeError),
}

/// Result with [`SegmentError`].
pub type Result<T> = std::result::Result<T, SegmentError>;

/// Checks that there is one value a point.
pub(crate) fn same_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(SegmentError::Length { what, found, expected }) }
}

/// Checks that a parameter is a finite number above a bound.
pub(crate) fn above(
    name: &'static str,
    value: f64,
    least: f64,
    remedy: &'static str,
) -> Result<()> {
    if value.is_finite() && value > least {
        Ok(())
    } else {
        Err(SegmentError::Parameter { name, value, remedy })
    }
}

/// Checks that all values are finite.
pub(crate) fn finite(what: &'static str, values: &[f32]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(index) => {
            Err(SegmentError::NotFinite { what, value: f64::from(values[index]), index })
        }
    }
}

/// Checks that an image has one finite value a point, and not the same everywhere.
pub(crate) fn image(values: &[f32], points: usize) -> Result<()> {
    same_length("the image", values.len(), points)?;
    finite("the image", values)?;
    match values.iter().any(|v| *v != values[0]) {
        true => Ok(()),
        false => Err(SegmentError::Constant { value: f64::from(values[0]) }),
    }
}
