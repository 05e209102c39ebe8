//! Forces on the vertices of a body, of the forces at the pixels of slices.

use super::located::Located;
use crate::error::{RegisterError, Result};
use crate::model::elastic::Force;
use crate::model::elastic::body::DeviceMesh;
use crate::model::elastic::force::{ITERATIONS, RESIDUAL};
use crate::model::solver::sparse::{SparseMatrix, Structure, cg};
use crate::model::solver::{LinearOperator, Solver};
use std::sync::Arc;
use voxalign_compute::ops::elementwise::{constant, param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::simplices::Incidence;
use voxalign_compute::ops::sparse::{Csr, Entries};
use voxalign_compute::ops::tetrahedra::Mesh;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::Body;
use voxalign_image::memory;

/// The part of the areas that are shared out to vertices by which the diagonal of the normal matrix is raised: in a slice nothing tells what is in front of it
/// from what is behind it.
pub(super) const LUMPED: f64 = 0.5;

/// What it is raised by everywhere, as a part of the mean share: vertices without a pixel have a force of 0.
pub(super) const LEAST: f64 = 1e-6;

/// Brings forces from pixels to vertices.
pub(super) struct NodalForces<D: Device> {
    squares: Option<LeastSquares<D>>,
    /// The force on each vertex, mN.
    pub(super) forces: D::Buffer<f32>,
}

/// The normal equations `(Hᵀ A H + r V) f = Hᵀ b`, where `H` carries values from vertices to pixels, `A` has the areas of these, `V` what of the areas is
/// shared out to each vertex, the sums of the rows of `Hᵀ A H`, and `b` is what pulls at pixels. They change with every step, as pixels go to other places in the
/// mesh. Forces are `(1 + r) V f`: with any `r` their sum is that of all that pulls, and what is the same everywhere is kept.
struct LeastSquares<D: Device> {
    /// Every tetrahedron with four nodes of its own: which node of the mesh each of these is, and lists of them.
    own: [D::Buffer<u32>; 3],
    selected: [D::Buffer<u32>; 2],
    /// 1 where a node is the first, second, third and last of its tetrahedron, else 0: three components, and one.
    corner: [D::Buffer<f32>; 2],
    structure: Arc<Structure<D>>,
    /// The areas of pixels, in the largest, three times each, and once; 1 without.
    areas: Option<[D::Buffer<f32>; 2]>,
    /// The terms of each entry of the matrix.
    terms: [D::Buffer<u32>; 2],
    /// Where the numbers of vertices go, of the entries of the matrix: to the diagonal.
    diagonal: [D::Buffer<u32>; 2],
    vertices: usize,
    elements: usize,
    blocks: usize,
}

impl<D: Device> NodalForces<D> {
    /// For pixels with these areas, in the largest; 1 without.
    pub(super) fn new(
        device: &D,
        force: Force,
        body: &Body,
        mesh: &DeviceMesh<D>,
        areas: Option<Vec<f32>>,
    ) -> Result<Self> {
        let squares = match force {
            Force::Consistent => None,
            Force::LeastSquares => Some(LeastSquares::new(device, body, areas)?),
            Force::Nodes => return Err(no_nodes()),
        };
        let mut forces = device.alloc(3 * mesh.vertices)?;
        device.eval_in_place(&constant(0.0), &mut forces, &[], &[], None)?;
        Ok(Self { squares, forces })
    }

    /// Makes the forces on vertices of the derivatives of the energy in where each pixel is in the body at rest, carried to the body where it
    /// is, 1/mm. A vertex that moves takes the tissue away from under a pixel, so that the force has the sign of these derivatives. The energy
    /// is multiplied by `scale`, mN mm.
    pub(super) fn gather(
        &mut self,
        device: &D,
        mesh: &DeviceMesh<D>,
        located: &Located<D>,
        covectors: &D::Buffer<f32>,
        scale: f64,
    ) -> Result<()> {
        let (placed, lists) = (located.placed(mesh), located.gather(mesh));
        device.to_nodes(&placed, Some(lists), covectors, &mut self.forces)?;
        if let Some(squares) = &mut self.squares {
            squares.solve(device, located, &mut self.forces)?;
        }
        let scaled = x(0) * param(0);
        device.eval_in_place(&scaled, &mut self.forces, &[], &[scale as f32], None)?;
        Ok(())
    }
}

/// Between slices there is no force.
pub(super) fn no_nodes() -> RegisterError {
    let remedy = "vertices between slices see no force; give consistent or least-squares";
    RegisterError::option("force", "nodes", remedy)
}

impl<D: Device> LeastSquares<D> {
    fn new(device: &D, body: &Body, areas: Option<Vec<f32>>) -> Result<Self> {
        let (pattern, tetrahedra) = (body.pattern(), body.mesh().tetrahedra());
        let (n, blocks) = (4 * tetrahedra.len(), pattern.columns().len());
        let counted = |n: usize| memory::collected(0..n as u32);
        let nodes: Vec<u32> = memory::collected(tetrahedra.iter().flatten().copied())?;
        let own = [counted(n)?, counted(n + 1)?, counted(n)?];
        let is = |k: usize, node: usize| if node % 4 == k { 1.0f32 } else { 0.0 };
        let first: Vec<f32> = memory::collected((0..3 * n).map(|i| is(i / n, i % n)))?;
        let last: Vec<f32> = memory::collected((0..n).map(|i| is(3, i)))?;
        // Term 16 e + 4 i + j is at plane i of node 4 e + j.
        let at = |term: u32| (term / 4 % 4) * n as u32 + 4 * (term / 16) + term % 4;
        let (mut starts, mut list) = (memory::room(blocks + 1)?, memory::room(4 * n)?);
        for block in 0..blocks {
            starts.push(list.len() as u32);
            list.extend(pattern.terms(block).iter().map(|&t| at(t)));
        }
        starts.push(list.len() as u32);
        let vertices = pattern.vertices();
        let on_diagonal = memory::collected((0..vertices).map(|i| pattern.block(i, i)))?;
        let mut diagonal: Vec<u32> = memory::zeroed(blocks + 1)?;
        on_diagonal.iter().flatten().for_each(|&block| diagonal[block + 1] = 1);
        (0..blocks).for_each(|block| diagonal[block + 1] += diagonal[block]);
        let of = (0..vertices).filter(|&i| on_diagonal[i].is_some()).map(|i| i as u32);
        let of: Vec<u32> = memory::collected(of)?;
        let rows: Vec<u32> = memory::collected(pattern.rows().iter().map(|&r| r as u32))?;
        let [own, starts_of, corners] = own;
        let areas = match areas {
            Some(areas) => {
                let mut thrice = memory::room(3 * areas.len())?;
                (0..3).for_each(|_| thrice.extend_from_slice(&areas));
                Some([device.upload_vec(thrice)?, device.upload_vec(areas)?])
            }
            None => None,
        };
        Ok(Self {
            own: [device.upload(&own)?, device.upload(&starts_of)?, device.upload_vec(corners)?],
            selected: [device.upload(&starts_of)?, device.upload_vec(nodes)?],
            corner: [device.upload_vec(first)?, device.upload_vec(last)?],
            structure: Arc::new(Structure::new(device, &rows, pattern.columns())?),
            areas,
            terms: [device.upload_vec(starts)?, device.upload_vec(list)?],
            diagonal: [device.upload_vec(diagonal)?, device.upload_vec(of)?],
            blocks,
            vertices,
            elements: tetrahedra.len(),
        })
    }

    /// `Hᵀ A H` for pixels where they are by now.
    fn matrix(&self, device: &D, located: &Located<D>) -> Result<SparseMatrix<D>> {
        let (n, samples) = (4 * self.elements, located.count());
        // Every tetrahedron with nodes of its own, where they are.
        let ones = device.upload_vec(memory::filled(n, 1.0f32)?)?;
        let [rows, columns] = &self.selected;
        let entries = Entries::Numbers;
        let select = Csr { entries, width: self.vertices, rows, columns, values: &ones };
        let mut nodes = device.alloc(3 * n)?;
        device.product(&select, located.nodes(), &mut nodes)?;
        let [corners, starts, places] = &self.own;
        let lists = || located.gather_by(Incidence { starts, corners: places });
        let placed = || located.placed_in(Mesh { nodes: &nodes, corners, kuhn: None });
        // Products of the weights of pixels, summed up by tetrahedron.
        let mut terms: Vec<f32> = memory::room(4 * n)?;
        for (k, (corner, planes)) in self.corner.iter().zip([3, 1]).enumerate() {
            let mut weights = device.alloc(planes * samples)?;
            device.to_samples(&placed(), corner, &mut weights)?;
            if let Some(areas) = &self.areas {
                device.eval_in_place(&(x(0) * x(1)), &mut weights, &[&areas[k]], &[], None)?;
            }
            let mut sums = device.alloc(planes * n)?;
            device.to_nodes(&placed(), Some(lists()), &weights, &mut sums)?;
            terms.extend_from_slice(&device.into_host(sums)?);
        }
        let contributions = device.upload_vec(terms)?;
        let mut values = device.alloc(self.blocks)?;
        let [starts, list] = &self.terms;
        device.refill(entries, &contributions, starts, list, &mut values)?;
        Ok(SparseMatrix::new(Arc::clone(&self.structure), entries, values))
    }

    /// What is given at nodes, `Hᵀ b`, becomes the solution times the area that is shared out to each node.
    fn solve(
        &mut self,
        device: &D,
        located: &Located<D>,
        forces: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let mut matrix = self.matrix(device, located)?;
        // Weights of a pixel have the sum 1.
        let ones = device.upload_vec(memory::filled(3 * self.vertices, 1.0f32)?)?;
        let mut thrice = device.alloc(3 * self.vertices)?;
        matrix.product(device, &ones, &mut thrice)?;
        let ones = device.upload_vec(memory::filled(self.vertices, 1.0f32)?)?;
        let mut shares = device.alloc(self.vertices)?;
        matrix.product(device, &ones, &mut shares)?;
        let mean =
            device.reduce(&[&shares], &[Reduction::Sum(0)])?[0] / self.vertices.max(1) as f64;
        let least = (LEAST * mean).max(f64::from(f32::MIN_POSITIVE));
        let params = [LUMPED as f32, least as f32];
        device.eval_in_place(&(x(0) * param(0) + param(1)), &mut shares, &[], &params, None)?;
        let [rows, columns] = &self.diagonal;
        let (entries, width) = (Entries::Numbers, self.vertices);
        let onto = Csr { entries, width, rows, columns, values: &ones };
        let mut raised = device.alloc(self.blocks)?;
        device.product(&onto, &shares, &mut raised)?;
        device.eval_in_place(&(x(0) + x(1)), &mut matrix.values, &[&raised], &[], None)?;
        let mut solver = cg(device, matrix, 3, ITERATIONS, RESIDUAL)?;
        let mut solution = device.alloc(forces.len())?;
        device.eval_in_place(&constant(0.0), &mut solution, &[], &[], None)?;
        solver.solve(forces, &mut solution)?;
        let scaled = x(0) * x(1) * param(0);
        let params = [(1.0 + LUMPED) as f32];
        device.eval(&scaled, &[&solution, &thrice], &params, None, forces)?;
        Ok(())
    }
}
