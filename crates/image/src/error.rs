//! The errors of this crate.

use crate::memory::OutOfMemory;
use thiserror::Error;

/// Errors of geometry, sizes and transforms.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// An axis has no voxels.
    #[error("the image size {dims:?} has an axis without voxels; every axis needs at least 1")]
    EmptyAxis {
        /// Sizes along x, y, z.
        dims: [usize; 3],
    },
    /// The number of voxels does not fit the address space.
    #[error("the image size {dims:?} has more voxels than this machine can address")]
    TooLarge {
        /// Sizes along x, y, z.
        dims: [usize; 3],
    },
    /// A spacing that is none.
    #[error("the spacing {spacing:?} mm is not valid; every spacing must be a number above 0")]
    Spacing {
        /// Spacings along x, y, z, mm.
        spacing: [f64; 3],
    },
    /// The affine has a NaN or infinite entry.
    #[error("the index-to-world affine has an entry that is not a finite number: {rows:?}")]
    NotFinite {
        /// The affine's rows.
        rows: [[f64; 4]; 3],
    },
    /// A matrix cannot be inverted.
    #[error(
        "the matrix {rows:?} cannot be inverted (determinant {determinant:e}); \
         a voxel axis of zero length or two parallel axes are the usual causes"
    )]
    Singular {
        /// The affine's rows.
        rows: [[f64; 4]; 3],
        /// Its determinant.
        determinant: f64,
    },
    /// Data and grid disagree.
    #[error("the grid has {expected} voxels, but there are {found} values")]
    LengthMismatch {
        /// The number that the grid needs.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// Two grids that must agree do not.
    #[error("the grids differ: {first} against {second}")]
    GridMismatch {
        /// A description of the first grid.
        first: String,
        /// A description of the second grid.
        second: String,
    },
    /// A displacement field could not be inverted to the asked accuracy.
    #[error(
        "the displacement field could not be inverted: after {iterations} iterations \
         {unconverged} voxels are still off by up to {largest:.3} mm; the field probably folds"
    )]
    NotInvertible {
        /// Iterations made.
        iterations: usize,
        /// Voxels over the tolerance.
        unconverged: usize,
        /// The largest error, mm.
        largest: f64,
    },
    /// A geometry of an X-ray image that cannot be.
    #[error("the geometry of the X-ray image has {what}; {remedy}")]
    Xray {
        /// The problem.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// A transform that is not linear was used where a matrix is needed.
    #[error("the transform is not affine: it holds a displacement field")]
    NotAffine,
    /// Not enough memory for the values.
    #[error("{0}; use smaller images, fewer threads, or more memory")]
    OutOfMemory(#[from] OutOfMemory),
    /// The point set's columns differ in length.
    #[error("the column {name:?} has {found} values for {expected} points")]
    ColumnLength {
        /// Column name.
        name: String,
        /// Number of points.
        expected: usize,
        /// Values in the column.
        found: usize,
    },
    /// A vertex of a mesh is nowhere.
    #[error(
        "vertex {vertex} is at {position:?}, which is not finite; every coordinate must be finite"
    )]
    MeshVertex {
        /// The vertex, counted from 0.
        vertex: usize,
        /// Its coordinates.
        position: [f64; 3],
    },
    /// A face, a line or a tetrahedron of a mesh has a vertex that does not exist.
    #[error(
        "{what} {number} has the vertex {index}, but there are {vertices} vertices, counted from 0; \
         correct the index"
    )]
    MeshIndex {
        /// `face`, `line` or `tetrahedron`.
        what: &'static str,
        /// Which, counted from 0.
        number: usize,
        /// The index of the vertex.
        index: u32,
        /// Number of vertices.
        vertices: usize,
    },
    /// The ends of the lines of a mesh do not fit their vertices.
    #[error(
        "the lines end at {last} of {found} vertices; their ends must increase up to the number of vertices"
    )]
    MeshLines {
        /// The last end.
        last: usize,
        /// Number of vertices of all lines.
        found: usize,
    },
    /// The values at the vertices of a mesh have another number than their vertices.
    #[error(
        "the data {name:?} have {found} values of {components} components for {vertices} vertices; \
         each vertex needs at least 1 component, a direction 3, and each component a value"
    )]
    MeshData {
        /// The name.
        name: String,
        /// Values a vertex.
        components: usize,
        /// Number of vertices.
        vertices: usize,
        /// Number of values.
        found: usize,
    },
    /// The values in the tetrahedra of a mesh have another number than the tetrahedra.
    #[error(
        "the data {name:?} have {found} values of {components} components for {tetrahedra} tetrahedra; \
         each tetrahedron needs at least 1 component, a direction 3, and each component a value"
    )]
    TetraData {
        /// The name.
        name: String,
        /// Values a tetrahedron.
        components: usize,
        /// Number of tetrahedra.
        tetrahedra: usize,
        /// Number of values.
        found: usize,
    },
    /// A mesh has too many tetrahedra.
    #[error(
        "the mesh has {found} tetrahedra, and at most {most} can be numbered; use a coarser one"
    )]
    TetraCount {
        /// Number of tetrahedra.
        found: usize,
        /// The most that can be.
        most: usize,
    },
    /// Values that are not on the host cannot be brought there.
    #[error("the image is in the memory of a device, and cannot be copied from there: {0}")]
    Elsewhere(String),
}

/// Result with [`ImageError`].
pub type Result<T> = std::result::Result<T, ImageError>;
