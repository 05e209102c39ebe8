//! Covectors at samples, from other positions of the nodes to those of the mesh.

use super::place::Places;
use super::strain::edges;
use crate::cpu::simplices::{Vector, cross, dot, minus, vector};
use crate::cpu::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::tetrahedra::{KuhnBox, Placed, check_covectors};

/// A covector in an element, by its edges in the mesh and those of the other positions; none in one without a positive volume.
#[inline]
fn in_element(mesh: [Vector; 3], others: [Vector; 3], covector: Vector) -> Option<Vector> {
    let [a, b, c] = mesh;
    let normals = [cross(b, c), cross(c, a), cross(a, b)];
    let volume = dot(a, normals[0]);
    if volume.is_nan() || volume <= 0.0 {
        return None;
    }
    let along = others.map(|edge| dot(edge, covector));
    let component =
        |i: usize| along[0] * normals[0][i] + along[1] * normals[1][i] + along[2] * normals[2][i];
    Some([0, 1, 2].map(|i| component(i) / volume))
}

/// A covector in a box, by the other positions of the nodes of a path along these axes.
#[inline]
fn in_box(kuhn: &KuhnBox, axes: [usize; 3], others: [Vector; 4], covector: Vector) -> Vector {
    let mut by_cells = [0.0; 3];
    for (k, axis) in axes.into_iter().enumerate() {
        by_cells[axis] = dot(minus(others[k + 1], others[k]), covector);
    }
    let [x, y, z] = &kuhn.map;
    [0, 1, 2].map(|i| x[i] * by_cells[0] + y[i] * by_cells[1] + z[i] * by_cells[2])
}

impl Cpu {
    /// As [`Tetrahedra::sample_covectors`](crate::ops::Tetrahedra::sample_covectors).
    pub(super) fn covectors_of_samples(
        &self,
        placed: &Placed<'_, Self>,
        nodes: &CpuBuffer<f32>,
        covectors: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let way = check_covectors(placed, nodes.len(), covectors.len(), out.len())?;
        let places = Places::new(placed, &way);
        let (nodes, covectors) = (nodes.as_slice(), covectors.as_slice());
        let (elements, count) = (&places.elements, places.elements.points);
        self.three_of_samples(out.as_mut_slice(), |i| {
            let covector = vector(covectors, way.samples, i);
            if let Some(kuhn) = &places.kuhn {
                let path = places.path(kuhn, i)?;
                let others = path.nodes.map(|node| vector(nodes, count, node));
                return Some(in_box(kuhn, path.axes, others, covector));
            }
            let element = places.element(i)?;
            let mesh = edges(elements.corners_of(element));
            in_element(mesh, edges(elements.at_corners(nodes, element)), covector)
        });
        Ok(())
    }
}
