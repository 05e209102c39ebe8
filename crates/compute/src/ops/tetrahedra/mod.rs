//! Meshes of linear tetrahedra: where samples are in them, displacements of nodes carried to samples and forces at samples
//! carried to nodes, and what a displacement does to the elements.
//!
//! A point `x` in a tetrahedron with nodes `X_0 … X_3` has the barycentric weights `N_i` with `Σ N_i = 1` and
//! `x = Σ N_i X_i`; a value given at the nodes is `Σ N_i u_i` there. With a row of four such weights for each sample this is the product with a
//! sparse matrix `H`, of which nothing but the element of each sample is stored, or not even that: in a box of cells that are cut
//! alike ([`KuhnBox`]) weights are computed from the position alone.
//!
//! Nodes are three floats each: all x, then all y, then all z. Tetrahedra are the indices of four nodes each, one element after the other,
//! `6 V = det[X_1 − X_0, X_2 − X_0, X_3 − X_0] > 0`. Positions of samples and nodes are in the same space, such as mm; where
//! coordinates are large beside an element, an origin in the middle of the mesh keeps more of them in `f32`.

mod check;
mod lent;
mod lists;

use voxalign_compute_macros::forwarded;

use crate::device::Memory;
use crate::error::Result;

pub(crate) use check::{
    Way, check_bins, check_covectors, check_field, check_locate, check_nodes, check_pairs,
    check_placed, check_ratios, check_starts, check_strain, inverse_of, values_of,
};
pub use lent::{BinGrid, BinLists, Gather, Hint, KuhnBox, Mesh, Placed, Samples};
pub use lists::{Bins, SampleLists, neighbours};

/// The element of a sample that is in none.
pub const OUTSIDE: u32 = u32::MAX;

/// How far below zero weights may be in an element: samples on faces are in it, whatever rounding does.
pub const TOLERANCE: f64 = 1e-6;

/// The least weights of a sample that stays in the element of a [`Hint`]. Far more than the [tolerance](TOLERANCE), so that no other element
/// takes it as well, one a thousand times as high included.
pub const WITHIN: f64 = 2e-3;

/// The part of its size by which the box of an element is enlarged where it is put into bins.
pub(crate) const MARGIN: f64 = 1e-5;

/// How far below zero cell coordinates may be in a [`KuhnBox`].
pub(crate) const BORDER: f64 = 1e-6;

/// Operators on meshes of tetrahedra.
///
/// Indices of nodes and elements have to be below their numbers; those that are not are taken for the last. Numbers are computed in `f64` and rounded once, in one order on all devices, so
/// that all give the same bits.
///
/// # Errors
/// All operators: wrong lengths; maps that are not finite; more than [`MOST_ELEMENTS`] elements.
#[forwarded]
pub trait Tetrahedra: Memory {
    /// The element of every sample: in a [`KuhnBox`] by its position; in any mesh, which needs `bins`, the one of the lowest number
    /// in which no weight is below `−`[`TOLERANCE`]. [`OUTSIDE`] where there is none. Elements without a positive volume have no samples.
    ///
    /// With a `hint` the element where each sample was before and the four beside it are tried first, and taken only
    /// where all weights are above [`WITHIN`]: among elements that do not overlap the answer is the same as without it.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`]; neither a box nor bins.
    fn locate(
        &self,
        mesh: &Mesh<'_, Self>,
        samples: &Samples<'_, Self>,
        bins: Option<BinLists<'_, Self>>,
        hint: Option<Hint<'_, Self>>,
        elements: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// The weights of every sample at the four nodes of its element: those of all samples at the first node, then at the second, and so on. Weights
    /// below zero, within the tolerance, become zero and the others less, so that their sum is 1. All are zero
    /// outside of the mesh.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn weights(&self, placed: &Placed<'_, Self>, out: &mut Self::Buffer<f32>) -> Result<()>;

    /// `out = H u`: the values of one or three components at samples, of those at nodes, with [`weights`](Self::weights). Zero outside of the mesh.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`]; another number of components.
    fn to_samples(
        &self,
        placed: &Placed<'_, Self>,
        values: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = L H u`, a displacement on the whole grid in the units of its voxels: `units` is the linear map `L` from
    /// the units of the mesh to voxels. In a box this is one pass that writes the field.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn field(
        &self,
        placed: &Placed<'_, Self>,
        displacements: &Self::Buffer<f32>,
        units: &[[f64; 3]; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = Hᵀ b`, the adjoint of [`to_samples`](Self::to_samples): the nodal sums of what is given at samples, one or three components. The
    /// samples of each element, or of each cell where every voxel is a sample of a [`KuhnBox`], are added up in a fixed order, and each node then adds its
    /// elements, or cells, in rising order: no atomics, and the same bits on any number of threads.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`]; another number of components; no lists where they are needed: but for voxels in a box.
    fn to_nodes(
        &self,
        placed: &Placed<'_, Self>,
        lists: Option<Gather<'_, Self>>,
        values: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = Bᵀ c` for the covector `c` of every sample, all x, all y, all z: given the derivative of an energy in `x`, that in `y`, where a sample at
    /// `y = Σ N_i Y_i` in the mesh is at `x = Σ N_i X_i` by other positions of the same nodes, `nodes`, such as those at rest. In an element
    /// `∂x/∂y = B` is constant: with its edges from the first corner, `y_k` in the mesh and `x_k` in the others,
    /// `Bᵀ c = Σ_k n_k (x_k · c) / (6 V)`, where `n_1 = y_2 × y_3`, `n_2 = y_3 × y_1` and `n_3 = y_1 × y_2`. In a [`KuhnBox`] the weights are
    /// those of its map, and so are their derivatives.
    ///
    /// On a face, where `B` jumps, it is that of the element of the sample. Zero outside of the mesh, and in elements without a positive volume in it.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn sample_covectors(
        &self,
        placed: &Placed<'_, Self>,
        nodes: &Self::Buffer<f32>,
        covectors: &Self::Buffer<f32>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Where the bins of each element begin in a list of all pairs of a bin and an element whose box meets it, by element; and the number of
    /// all pairs, one number. Offsets have no meaning where they do not fit. [`Bins::new`] makes bins of this, of the next two and of a sort.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn bin_offsets(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &mut Self::Buffer<u32>,
        count: &mut Self::Buffer<u64>,
    ) -> Result<()>;

    /// The pairs of a bin and an element, from the offset of each element on, in rising order of bins.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn bin_pairs(
        &self,
        mesh: &Mesh<'_, Self>,
        grid: &BinGrid,
        offsets: &Self::Buffer<u32>,
        bins: &mut Self::Buffer<u32>,
        elements: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// `starts[k]` is the number of keys below `k`, of keys in ascending order: where those of `k` begin.
    ///
    /// # Errors
    /// More keys or starts than `u32` can count.
    fn key_starts(&self, keys: &Self::Buffer<u32>, starts: &mut Self::Buffer<u32>) -> Result<()>;

    /// `J_e = V_e(X + U) / V_e(X)`, the volume of every displaced element over that of the mesh, and the least of them with its
    /// element, the first of several: `least` has two numbers, and is +∞ and 0 of no elements. What is not a number counts as −∞ there.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn ratios(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &Self::Buffer<f32>,
        ratios: &mut Self::Buffer<f32>,
        least: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// The small strain `ε = sym ∇u` of every element, six numbers each: all xx, then all yy, zz, yz, zx and xy, the last three as
    /// engineering shears (`ε_yz = ∂u_y/∂z + ∂u_z/∂y`); and the stress of von Mises, in the units of the shear moduli `shear`, one an element:
    /// `σ = μ √(2 ((ε_xx − ε_yy)² + (ε_yy − ε_zz)² + (ε_zz − ε_xx)²) + 3 (ε_yz² + ε_zx² + ε_xy²))`, which in an isotropic material depends on no other modulus.
    ///
    /// # Errors
    /// As said at [`Tetrahedra`].
    fn strain(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &Self::Buffer<f32>,
        shear: &Self::Buffer<f32>,
        strains: &mut Self::Buffer<f32>,
        mises: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// The parts in which the voxels of a cell are added up: the threads of a block.
pub(crate) const BLOCK: usize = 128;

/// The most elements of a mesh: places of their corners are counted in 31 bits.
pub const MOST_ELEMENTS: usize = i32::MAX as usize / 4;
