//! What displacements do to elements.

use super::place::Elements;
use crate::cpu::simplices::{Vector, cross, dot, minus};
use crate::cpu::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::tetrahedra::{Mesh, check_ratios, check_strain};

/// The elements of a task.
const TASK: usize = 1024;

/// The edges from the first corner.
#[inline]
pub(super) fn edges([o, a, b, c]: [Vector; 4]) -> [Vector; 3] {
    [minus(a, o), minus(b, o), minus(c, o)]
}

/// Six times the volume.
#[inline]
fn volume([a, b, c]: [Vector; 3]) -> f64 {
    dot(a, cross(b, c))
}

/// The strain of an element: xx, yy, zz, yz, zx, xy.
#[inline]
fn strain_of(x: [Vector; 3], u: [Vector; 3]) -> [f64; 6] {
    let [a, b, c] = x;
    let normals = [cross(b, c), cross(c, a), cross(a, b)];
    let volume = dot(a, normals[0]);
    // The derivative of component `i` along axis `j`.
    let gradient = |i: usize, j: usize| {
        let sum = u[0][i] * normals[0][j] + u[1][i] * normals[1][j] + u[2][i] * normals[2][j];
        sum / volume
    };
    [
        gradient(0, 0),
        gradient(1, 1),
        gradient(2, 2),
        gradient(1, 2) + gradient(2, 1),
        gradient(2, 0) + gradient(0, 2),
        gradient(0, 1) + gradient(1, 0),
    ]
}

/// The stress of von Mises.
#[inline]
fn mises_of(shear: f64, [xx, yy, zz, yz, zx, xy]: [f64; 6]) -> f64 {
    let (a, b, c) = (xx - yy, yy - zz, zz - xx);
    let squares = 2.0 * (a * a + b * b + c * c) + 3.0 * (yz * yz + zx * zx + xy * xy);
    shear * squares.sqrt()
}

impl Cpu {
    /// As [`Tetrahedra::ratios`](crate::ops::Tetrahedra::ratios).
    pub(super) fn ratios_of(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CpuBuffer<f32>,
        ratios: &mut CpuBuffer<f32>,
        least: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        check_ratios(mesh, displacements.len(), ratios.len(), least.len())?;
        let (elements, u) = (Elements::new(mesh), displacements.as_slice());
        self.chunks_mut(ratios.as_mut_slice(), TASK, |task, ratios| {
            for (k, ratio) in ratios.iter_mut().enumerate() {
                let element = task * TASK + k;
                let rest = edges(elements.corners_of(element));
                let moved = edges(elements.at_corners(u, element));
                let both = [0, 1, 2].map(|e| [0, 1, 2].map(|a| rest[e][a] + moved[e][a]));
                *ratio = (volume(both) / volume(rest)) as f32;
            }
        });
        let mut found = [f64::INFINITY, 0.0];
        for (element, &ratio) in ratios.as_slice().iter().enumerate() {
            let value = if ratio.is_nan() { f64::NEG_INFINITY } else { f64::from(ratio) };
            if value < found[0] {
                found = [value, element as f64];
            }
        }
        least.as_mut_slice().copy_from_slice(&found);
        Ok(())
    }

    /// As [`Tetrahedra::strain`](crate::ops::Tetrahedra::strain).
    pub(super) fn strains_of(
        &self,
        mesh: &Mesh<'_, Self>,
        displacements: &CpuBuffer<f32>,
        shear: &CpuBuffer<f32>,
        strains: &mut CpuBuffer<f32>,
        mises: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = (displacements.len(), shear.len(), strains.len(), mises.len());
        let (_, n) = check_strain(mesh, lengths.0, lengths.1, lengths.2, lengths.3)?;
        let (elements, u) = (Elements::new(mesh), displacements.as_slice());
        let shear = shear.as_slice();
        let (xx, rest) = strains.as_mut_slice().split_at_mut(n);
        let (yy, rest) = rest.split_at_mut(n);
        let (zz, rest) = rest.split_at_mut(n);
        let (yz, rest) = rest.split_at_mut(n);
        let (zx, xy) = rest.split_at_mut(n);
        let all = [xx, yy, zz, yz, zx, xy, mises.as_mut_slice()];
        self.chunks_mut_of(all, TASK, |task, mut all| {
            for k in 0..all[0].len() {
                let element = task * TASK + k;
                let x = edges(elements.corners_of(element));
                let strain = strain_of(x, edges(elements.at_corners(u, element)));
                let mises = mises_of(f64::from(shear[element]), strain);
                for (out, value) in all.iter_mut().zip(strain.into_iter().chain([mises])) {
                    out[k] = value as f32;
                }
            }
        });
        Ok(())
    }
}
