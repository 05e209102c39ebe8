//! Two images that a known displacement is between, and a mesh over them.

use rayon::prelude::*;
use voxalign_compute::ops::tetrahedra::{BinGrid, KuhnBox, Mesh};
use voxalign_compute::{AffineMap, Device};
use voxalign_image::{Affine, Grid, Index, Matrix3, Vector3, VectorField, Volume, World, memory};
use voxalign_jobs::elastic::of_image;
use voxalign_jobs::{Error, Result};
use voxalign_register::model::elastic::ElasticBody;

/// The field of view, mm.
const SIDES: [f64; 3] = [358.4, 358.4, 272.0];

/// The radii of the body, mm.
const RADII: [f64; 3] = [140.0, 120.0, 100.0];

/// How far the middle of the body is pushed, mm, and how wide the push is.
const PUSH: [f64; 3] = [6.0, -4.0, 5.0];
const WIDTH: f64 = 60.0;

/// A grid of so many points over the field of view.
pub(super) fn grid(dims: [usize; 3]) -> Result<Grid> {
    let spacing = Vector3::from_fn(|a, _| SIDES[a] / dims[a] as f64);
    Ok(Grid::new(dims, Affine::new(Matrix3::from_diagonal(&spacing), spacing / 2.0))?)
}

/// From the middle of the field of view, mm.
fn off(x: Vector3<f64>) -> Vector3<f64> {
    x - Vector3::from(SIDES) / 2.0
}

/// The displacement from a point of the fixed image to that of the moving one, mm.
pub(super) fn truth(x: Vector3<f64>) -> Vector3<f64> {
    Vector3::from(PUSH) * (-off(x).norm_squared() / (2.0 * WIDTH * WIDTH)).exp()
}

/// How far out a place in the body is: 1 on its surface.
fn radius(x: Vector3<f64>) -> f64 {
    off(x).component_div(&Vector3::from(RADII)).norm()
}

/// The moving image at a place, 0 to 1.
fn tissue(x: Vector3<f64>) -> f64 {
    let texture =
        (0.16 * x.x).sin() + (0.14 * x.y + 0.06 * x.z).sin() + (0.18 * x.z - 0.05 * x.x).cos();
    (0.55 + 0.12 * texture) / (1.0 + ((radius(x) - 1.0) * 40.0).exp())
}

fn volume(grid: &Grid, of: impl Fn(Vector3<f64>) -> f64 + Sync) -> Result<Volume<f32>> {
    let [nx, ny, _] = grid.dims();
    let mut data: Vec<f32> = memory::zeroed(grid.len())?;
    data.par_chunks_mut(nx).enumerate().for_each(|(row, out)| {
        for (i, out) in out.iter_mut().enumerate() {
            let index = Vector3::new(i as f64, (row % ny) as f64, (row / ny) as f64);
            *out = of(grid.index_to_world(index)) as f32;
        }
    });
    Ok(Volume::new(grid.clone(), data)?)
}

/// The moving image.
pub(super) fn moving(dims: [usize; 3]) -> Result<Volume<f32>> {
    volume(&grid(dims)?, tissue)
}

/// The fixed image.
pub(super) fn fixed(dims: [usize; 3]) -> Result<Volume<f32>> {
    volume(&grid(dims)?, |x| tissue(x + truth(x)))
}

/// The mean distance of displacements from the truth over the body, mm, at points of a lattice.
pub(super) fn error(found: &VectorField) -> Result<f64> {
    let lattice = grid([40, 40, 30])?;
    let [nx, ny, _] = lattice.dims();
    let (mut sum, mut count) = (0.0, 0usize);
    for i in 0..lattice.len() {
        let index = [i % nx, i / nx % ny, i / (nx * ny)].map(|v| v as f64);
        let x = lattice.index_to_world(Vector3::from(index));
        if radius(x) < 0.95 {
            sum += (found.sample_clamped(x) - truth(x)).norm();
            count += 1;
        }
    }
    Ok(sum / count.max(1) as f64)
}

/// A box of cells over the field of view, of one soft tissue.
pub(super) fn body(dims: [usize; 3], spacing: f64) -> Result<ElasticBody> {
    of_image(&grid(dims)?, spacing, Default::default()).map_err(|e| e.at("--mesh-spacing"))
}

/// The mesh of such a body on a device, with coordinates from its middle.
pub(super) struct MeshOn<D: Device> {
    nodes: D::Buffer<f32>,
    corners: D::Buffer<u32>,
    kuhn: KuhnBox,
    to_mesh: Affine,
    pub(super) vertices: usize,
    pub(super) tetrahedra: usize,
    /// The displacement of each vertex, mm: all x, all y, all z.
    pub(super) displacements: Vec<f32>,
}

impl<D: Device> MeshOn<D> {
    /// Of a body that is a box.
    pub(super) fn new(device: &D, body: &ElasticBody) -> Result<Self> {
        let level = body.finest();
        let (mesh, cells) = (level.body.mesh(), level.cells.as_ref());
        let cells = cells.ok_or_else(|| Error::Internal("a mesh that is no box".into()))?;
        let middle = Vector3::from(SIDES) / 2.0;
        let planes = |of: &dyn Fn(&Vector3<f64>) -> Vector3<f64>| {
            let all = (0..3).flat_map(|a| mesh.vertices().iter().map(move |v| of(v)[a] as f32));
            memory::collected(all)
        };
        let corners = memory::collected(mesh.tetrahedra().iter().flatten().copied())?;
        let map = Affine::<World, World>::translation(middle).then(cells.vertices().to_index());
        Ok(Self {
            nodes: device.upload_vec(planes(&|v| v - middle)?)?,
            corners: device.upload_vec(corners)?,
            kuhn: KuhnBox { cells: cells.cells(), map: map.rows() },
            to_mesh: Affine::translation(-middle),
            vertices: mesh.vertices().len(),
            tetrahedra: mesh.tetrahedra().len(),
            displacements: planes(&|v| truth(*v))?,
        })
    }

    /// As a box.
    pub(super) fn as_box(&self) -> Mesh<'_, D> {
        Mesh { nodes: &self.nodes, corners: &self.corners, kuhn: Some(self.kuhn) }
    }

    /// As any mesh.
    pub(super) fn as_any(&self) -> Mesh<'_, D> {
        Mesh { kuhn: None, ..self.as_box() }
    }

    /// Bins of it.
    pub(super) fn bins(&self) -> BinGrid {
        let high = SIDES.map(|side| side / 2.0);
        BinGrid::between(high.map(|side| -side), high, self.tetrahedra)
    }

    /// From the indices of a grid to its coordinates.
    pub(super) fn map(&self, grid: &Grid) -> AffineMap {
        let map: Affine<Index, World> = grid.to_world().then(&self.to_mesh);
        map.rows()
    }
}

/// Displacements in mm, as they are.
pub(super) const MM: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
