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
    /// A label with two materials.
    #[error("label {label} has more than one material; give it once")]
    RepeatedLabel {
        /// The label.
        label: i32,
    },
    /// A label to be fixed that no tetrahedron has.
    #[error(
        "label {label} is to be fixed, and no tetrahedron has it; give one of those of the mesh"
    )]
    NoLabel {
        /// The label.
        label: i32,
    },
    /// A vertex to be fixed that does not exist.
    #[error(
        "vertex {number} is to be fixed, but there are {vertices} vertices, counted from 0; correct the number"
    )]
    NoVertex {
        /// Its number.
        number: u32,
        /// Number of vertices.
        vertices: usize,
    },
    /// A body at rest under forces that may move as a whole.
    #[error(
        "the body can move as a whole: {fixed} of its vertices are fixed; fix at least three that are not on a line"
    )]
    Loose {
        /// How many vertices are fixed.
        fixed: usize,
    },
    /// Too many tetrahedra for a matrix.
    #[error(
        "the mesh has {found} tetrahedra, and at most {most} can have a matrix; use a coarser one"
    )]
    TooMany {
        /// Number of tetrahedra.
        found: usize,
        /// The most that can be.
        most: usize,
    },
    /// A matrix that has no Cholesky factor.
    #[error(
        "the matrix of {unknowns} unknowns is not positive definite; fix vertices, take a shorter time step, or make the mesh better"
    )]
    NotDefinite {
        /// Number of rows.
        unknowns: usize,
    },
    /// A factor with more entries than can be numbered.
    #[error(
        "the factor of a matrix of {unknowns} unknowns has too many entries; use a coarser mesh"
    )]
    FactorSize {
        /// Number of rows.
        unknowns: usize,
    },
    /// The solution of a linear system is not one.
    #[error(
        "a linear system was solved to {residual:e} of its right side, which is above {most:e}; make the worst tetrahedra of the mesh \
         better, or bring the stiffness of the materials closer together"
    )]
    Residual {
        /// The norm of what is left over that of the right side.
        residual: f64,
        /// The most that it may be.
        most: f64,
    },
    /// A step of time or a damping that cannot be.
    #[error("the {what} {value} of the motion is not possible; {remedy}")]
    Motion {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What is possible.
        remedy: &'static str,
    },
    /// A step that inverts a tetrahedron however short it is made.
    #[error(
        "tetrahedron {tetrahedron} is at {ratio:.3} of its volume after {halvings} halvings of the step; use a shorter time step, \
         less force, a stiffer material, or a coarser mesh"
    )]
    Inverts {
        /// The tetrahedron, counted from 0.
        tetrahedron: usize,
        /// Its volume over that at rest.
        ratio: f64,
        /// How often the step was halved.
        halvings: u32,
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
    /// A spacing of cells that cannot be.
    #[error("cells cannot have a spacing of {spacing} mm; give a number above 0")]
    Spacing {
        /// The spacing, mm.
        spacing: f64,
    },
    /// A mask without a body, or whose body is too thin for the cells.
    #[error(
        "no cell of {spacing} mm is at least half in the {voxels} voxels of the mask; use a smaller spacing, or another mask"
    )]
    NoBody {
        /// The spacing that was asked for, mm.
        spacing: f64,
        /// Voxels of the mask.
        voxels: usize,
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
