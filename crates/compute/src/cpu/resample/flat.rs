//! Flat regions of an image: between voxels of one value the interpolated value is known without a lookup.
//!
//! More than half of most medical images is background.

use rayon::prelude::*;

use super::position::{Cells, Frame, Geometry};
use crate::cpu::Cpu;
use crate::cpu::simd::Vectors;

/// The cells of a brick along an axis, as a power of two.
const BITS: u32 = 3;
const SIDE: usize = 1 << BITS;

/// Images of fewer voxels are looked up as they are.
const FEWEST: usize = 1 << 16;

/// The value of each brick of cells, and a number that is none where there are several.
pub(in crate::cpu) struct Flat {
    values: Vec<f32>,
    /// Bricks along x, and in a slice of bricks.
    strides: [i32; 2],
}

impl Flat {
    /// That of an image; none where it would not pay.
    pub(in crate::cpu) fn of(cpu: &Cpu, src: &[f32], geometry: &Geometry) -> Option<Self> {
        let [nx, ny, nz] = geometry.dims;
        if src.len() < FEWEST || nx * ny * nz != src.len() || nx < SIDE {
            return None;
        }
        let [bx, by, bz] = geometry.dims.map(|n| n.div_ceil(SIDE));
        let mut values = vec![f32::NAN; bx * by * bz];
        cpu.install(|| {
            values.par_chunks_mut(bx).enumerate().for_each(|(row, values)| {
                let cells = |brick: usize, n: usize| SIDE * brick..n.min(SIDE * (brick + 1) + 1);
                let (ys, zs) = (cells(row % by, ny), cells(row / by, nz));
                for (x, value) in values.iter_mut().enumerate() {
                    let xs = cells(x, nx);
                    let first = src[(zs.start * ny + ys.start) * nx + xs.start];
                    let same = |z: usize, y: usize| {
                        let row = &src[(z * ny + y) * nx..][..nx][xs.clone()];
                        row.iter().fold(true, |same, v| same & (*v == first))
                    };
                    if zs.clone().all(|z| ys.clone().all(|y| same(z, y))) {
                        *value = first;
                    }
                }
            });
        });
        let flat = values.iter().filter(|v| !v.is_nan()).count();
        (8 * flat >= values.len())
            .then_some(Self { values, strides: [bx as i32, (bx * by) as i32] })
    }

    /// The values in cells, where all of them are in flat bricks.
    #[inline(always)]
    pub(in crate::cpu) fn values<V: Vectors>(
        &self,
        v: V,
        frame: &Frame,
        cells: &Cells<V>,
    ) -> Option<V::F> {
        let brick =
            |a: usize| v.shift_right::<BITS>(v.add_int(cells.local[a], v.splat_int(frame.base[a])));
        let row = v.add_int(brick(0), v.mul_int(brick(1), v.splat_int(self.strides[0])));
        let index = v.add_int(row, v.mul_int(brick(2), v.splat_int(self.strides[1])));
        let values = v.gather(&self.values, index);
        (v.bits(v.eq(values, values)).count_ones() as usize == crate::cpu::simd::LANES)
            .then_some(values)
    }
}
