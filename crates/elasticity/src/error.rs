//! The errors of this crate.

use thiserror::Error;
use voxalign_image::ImageError;
use voxalign_image::memory::OutOfMemory;

/// What can be wrong with a mesh, a material or a step.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ElasticityError {
    /// A mesh without tetrahedra.
    #[error("the mesh has no tetrahedra; give a volume mesh, or make one with a spacing")]
    Empty,
    /// Tetrahedra without volume or turned inside out.
    #[error(
        "{count} of {of} tetrahedra are flat or inverted: numbers {}; mend the mesh, or make one with a spacing",
        listed(numbers, *count)
    )]
    Inverted {
        /// The first ten numbers, counted from 0.
        numbers: Vec<usize>,
        /// How many there are.
        count: usize,
        /// Number of tetrahedra.
        of: usize,
    },
    /// Faces of three or more tetrahedra, or of two on the same side.
    #[error(
        "{count} faces do not fit: the tetrahedra {} share one that already has two sides; mend the mesh",
        listed(numbers, numbers.len())
    )]
    Faces {
        /// The tetrahedra of the first such face, counted from 0.
        numbers: Vec<usize>,
        /// How many faces there are.
        count: usize,
    },
    /// Vertices of no tetrahedron.
    #[error(
        "{count} vertices belong to no tetrahedron: numbers {}; leave them out",
        listed(numbers, *count)
    )]
    Unused {
        /// The first ten numbers, counted from 0.
        numbers: Vec<usize>,
        /// How many there are.
        count: usize,
    },
    /// A mesh of several parts that no face connects.
    #[error(
        "the mesh has {parts} parts that no face connects; tetrahedron {first} is the first of the second part; keep \
         one part, or connect them"
    )]
    Disconnected {
        /// Number of parts.
        parts: usize,
        /// A tetrahedron of the second part, counted from 0.
        first: usize,
    },
    /// A number of a material that cannot be.
    #[error("the {what} {value} of a material is not possible; {remedy}")]
    Material {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is possible.
        remedy: &'static str,
    },
    /// Labels of tetrahedra for which there is no material.
    #[error("label {label} of {count} tetrahedra has no material; give one for it")]
    NoMaterial {
        /// The label.
        label: i32,
        /// How many tetrahedra have it.
        count: usize,
    },
    /// Numbers of Newmark's method with which it is not stable.
    #[error(
        "Newmark's method is not stable with beta {beta} and gamma {gamma}; gamma must be at least 0.5 and beta at least \
         (0.5 + gamma)² / 4, such as 0.25 and 0.5"
    )]
    Newmark {
        /// Weight of the new acceleration in the displacement.
        beta: f64,
        /// Weight of the new acceleration in the velocity.
        gamma: f64,
    },
    /// An image of two dimensions.
    #[error(
        "a mesh of tetrahedra needs an image with depth, and this one has {dims:?} voxels; give a volume"
    )]
    Flat {
        /// Voxels along x, y, z.
        dims: [usize; 3],
    },
    /// Too many vertices or tetrahedra.
    #[error(
        "a mesh of {cells:?} cells has more tetrahedra than can be numbered; use a larger spacing"
    )]
    TooFine {
        /// Cells along x, y, z.
        cells: [usize; 3],
    },
    /// A problem of the mesh itself.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The memory could not be had.
    #[error("{0}; use a larger spacing of the mesh, or more memory")]
    OutOfMemory(#[from] OutOfMemory),
}

/// Result with [`ElasticityError`].
pub type Result<T> = std::result::Result<T, ElasticityError>;

/// How many numbers a message lists.
pub(crate) const LISTED: usize = 10;

fn listed(numbers: &[usize], count: usize) -> String {
    let list: Vec<_> = numbers.iter().map(usize::to_string).collect();
    let more = if count > numbers.len() { ", ..." } else { "" };
    format!("{}{more}", list.join(", "))
}
