//! Forces on the vertices of a body, of the forces at samples.

use super::Force;
use super::body::{DeviceMesh, Places};
use crate::error::Result;
use crate::model::solver::sparse::{SparseMatrix, Structure, cg};
use crate::model::solver::{Solver, cg::ConjugateGradients};
use std::sync::Arc;
use voxalign_compute::ops::elementwise::{constant, param, x};
use voxalign_compute::ops::sparse::Entries;
use voxalign_compute::ops::splat::{Beyond, Lattice};
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::Body;
use voxalign_image::{Affine, World, memory};

/// What is added to the diagonal of the normal matrix, as a part of its mean: forces at vertices that no sample tells
/// of are drawn to 0.
const REGULARISATION: f64 = 1e-3;

/// What is left of the right side of the normal equations, as a part of its norm.
pub(super) const RESIDUAL: f64 = 1e-4;

/// Iterations of their solution, at most.
pub(super) const ITERATIONS: usize = 200;

/// Brings forces from samples to vertices.
pub(super) struct NodalForces<D: Device> {
    how: How<D>,
    /// The force on each vertex, mN.
    pub(super) forces: D::Buffer<f32>,
}

enum How<D: Device> {
    Consistent,
    LeastSquares {
        solver: ConjugateGradients<D, SparseMatrix<D>>,
        right: D::Buffer<f32>,
        volumes: D::Buffer<f32>,
    },
    Nodes {
        /// The vertices in voxels of the grid of the samples.
        points: D::Buffer<f32>,
        volumes: D::Buffer<f32>,
    },
}

impl<D: Device> NodalForces<D> {
    pub(super) fn new(
        device: &D,
        force: Force,
        body: &Body,
        mesh: &DeviceMesh<D>,
        places: &Places<D>,
    ) -> Result<Self> {
        let volumes = || {
            let of = body.vertex_volumes()?;
            let n = of.len();
            let all: Vec<f32> = memory::collected((0..3 * n).map(|i| of[i % n] as f32))?;
            Ok::<_, crate::RegisterError>(device.upload_vec(all)?)
        };
        let how = match force {
            Force::Consistent => How::Consistent,
            Force::LeastSquares => How::LeastSquares {
                solver: normal(device, body, mesh, places)?,
                right: device.alloc(3 * mesh.vertices)?,
                volumes: volumes()?,
            },
            Force::Nodes => {
                let mut points = device.alloc(3 * mesh.vertices)?;
                let from_mesh: Affine<World, World> = mesh.to_mesh.inverse()?;
                let map = from_mesh.then(places.grid.to_index()).rows();
                device.map_points(&map, &mesh.nodes, &mut points)?;
                How::Nodes { points, volumes: volumes()? }
            }
        };
        let mut forces = device.alloc(3 * mesh.vertices)?;
        device.eval_in_place(&constant(0.0), &mut forces, &[], &[], None)?;
        Ok(Self { how, forces })
    }

    /// Makes the forces on vertices of the derivatives of the energy in the displacement of each sample, 1/mm. The energy is a mean
    /// over a volume, mm³, that is multiplied by a pressure, kPa; a sample stands for `sample` mm³.
    pub(super) fn gather(
        &mut self,
        device: &D,
        mesh: &DeviceMesh<D>,
        places: &Places<D>,
        derivatives: &D::Buffer<f32>,
        (volume, sample): (f64, f64),
        pressure: f64,
    ) -> Result<()> {
        // mN of a sample; and mN/mm³ there.
        let of_sample = (-pressure * volume) as f32;
        let density = (-pressure * volume / sample) as f32;
        let gather = || places.gather(mesh);
        match &mut self.how {
            How::Consistent => {
                device.to_nodes(&places.placed(mesh), gather(), derivatives, &mut self.forces)?;
                let scaled = x(0) * param(0);
                device.eval_in_place(&scaled, &mut self.forces, &[], &[of_sample], None)?;
            }
            How::LeastSquares { solver, right, volumes } => {
                device.to_nodes(&places.placed(mesh), gather(), derivatives, right)?;
                let mut solution = device.alloc(right.len())?;
                device.eval_in_place(&constant(0.0), &mut solution, &[], &[], None)?;
                solver.solve(right, &mut solution)?;
                let scaled = x(0) * x(1) * param(0);
                let inputs = [&solution, &*volumes];
                device.eval(&scaled, &inputs, &[density], None, &mut self.forces)?;
            }
            How::Nodes { points, volumes } => {
                let mut there = device.alloc(points.len())?;
                let lattice = Lattice::linear(places.grid.dims(), Beyond::Nothing);
                device.gather(derivatives, lattice, points, None, &mut there)?;
                let scaled = x(0) * x(1) * param(0);
                let inputs = [&there, &*volumes];
                device.eval(&scaled, &inputs, &[density], None, &mut self.forces)?;
            }
        }
        Ok(())
    }
}

/// The solver of the normal equations `(Hᵀ H + r) f = Hᵀ b`, where `H` carries values from vertices to samples.
fn normal<D: Device>(
    device: &D,
    body: &Body,
    mesh: &DeviceMesh<D>,
    places: &Places<D>,
) -> Result<ConjugateGradients<D, SparseMatrix<D>>> {
    let (elements, weights) = places.weights(device, mesh)?;
    let (pattern, tetrahedra, samples) = (body.pattern(), body.mesh().tetrahedra(), elements.len());
    let mut terms: Vec<f64> = memory::zeroed(16 * tetrahedra.len())?;
    for (s, &element) in elements.iter().enumerate() {
        let Some(terms) = terms.get_mut(16 * element as usize..).and_then(|t| t.get_mut(..16))
        else {
            continue;
        };
        let w: [f64; 4] = std::array::from_fn(|i| f64::from(weights[i * samples + s]));
        terms.iter_mut().enumerate().for_each(|(k, term)| *term += w[k / 4] * w[k % 4]);
    }
    let vertices = pattern.vertices();
    let mut values: Vec<f64> = memory::zeroed(pattern.columns().len())?;
    for (block, value) in values.iter_mut().enumerate() {
        *value = pattern.terms(block).iter().map(|&t| terms[t as usize]).sum();
    }
    let diagonal = |i: usize| pattern.block(i, i);
    let mean = (0..vertices).filter_map(diagonal).map(|b| values[b]).sum::<f64>() / vertices as f64;
    for block in (0..vertices).filter_map(diagonal) {
        values[block] += REGULARISATION * mean.max(f64::MIN_POSITIVE);
    }
    let rows: Vec<u32> = memory::collected(pattern.rows().iter().map(|&r| r as u32))?;
    let structure = Arc::new(Structure::new(device, &rows, pattern.columns())?);
    let values: Vec<f32> = memory::collected(values.iter().map(|&v| v as f32))?;
    let matrix = SparseMatrix::new(structure, Entries::Numbers, device.upload_vec(values)?);
    cg(device, matrix, 3, ITERATIONS, RESIDUAL)
}
