//! Forces where displaced voxels are: the derivative of the interpolation, weighted at each voxel.

use super::cells::{load_some, store_some};
use crate::cpu::Cpu;
use crate::cpu::resample::flat::Flat;
use crate::cpu::resample::position::{BLOCK, Frame, Geometry};
use crate::cpu::resample::sample::Linear;
use crate::cpu::resample::warp::{Field, Rows, components, displacement, moved, row, task_rows};
use crate::cpu::simd::{LANES, Vectors, kernel};
use crate::ops::flow::units_in_order;
use crate::{AffineMap, Dims};

/// An image whose interpolation has derivatives.
pub(super) struct Source<'a> {
    src: &'a [f32],
    geometry: Geometry,
    flat: Option<Flat>,
    /// What each component of the output takes of the derivatives along the axes.
    units: [[f32; 3]; 3],
}

impl<'a> Source<'a> {
    /// Of an image, a map and units that have been checked.
    pub(super) fn new(
        cpu: &Cpu,
        src: &'a [f32],
        dims: Dims,
        map: &AffineMap,
        units: &[[f64; 3]; 3],
    ) -> Self {
        let geometry = Geometry::new(dims, map);
        let flat = Flat::of(cpu, src, &geometry);
        Self { src, geometry, flat, units: units_in_order(dims, units) }
    }

    /// The derivatives of the interpolation along the axes at local positions of a frame.
    #[inline(always)]
    fn derivatives<V: Vectors>(&self, v: V, frame: &Frame, p: [V::F; 3]) -> [V::F; 3] {
        let zero = v.splat(0.0);
        let strides = &self.geometry.strides;
        let inside = frame.inside(v, p);
        // Of an image of one voxel, which has no cell, there are none.
        if v.bits(inside) == 0 || self.src.len() == 1 {
            return [zero; 3];
        }
        let cells = frame.cells::<V, true>(v, p, strides);
        if let Some(flat) = &self.flat
            && flat.values(v, frame, &cells).is_some()
        {
            return [zero; 3];
        }
        let (_, mut d) = Linear::new(v, &cells).derivatives(v, self.src, strides);
        for a in 0..3 {
            d[a] = if strides[a] == 0 {
                zero
            } else {
                v.select(v.and(inside, frame.between(v, a, p[a])), d[a], zero)
            };
        }
        d
    }
}

/// `out[a] = derivative Σ units[a] ∂ src` where the voxels of a grid of sizes `dims` are displaced to. All arguments
/// have been checked.
pub(super) fn force_at(
    cpu: &Cpu,
    derivative: &[f32],
    source: &Source<'_>,
    field: &[f32],
    dims: Dims,
    out: &mut [f32],
) {
    let field = components(field);
    let rows = task_rows(dims);
    cpu.chunks_mut_3(out, rows * dims[0], |task, out| {
        let rows = Rows { first: task * rows, dims };
        force_rows(cpu.simd(), derivative, source, field, rows, out);
    });
}

kernel! {
    fn force_rows<V>(
        v,
        derivative: &[f32],
        source: &Source<'_>,
        field: Field<'_>,
        rows: Rows,
        out: [&mut [f32]; 3],
    ) {
        let nx = rows.dims[0];
        let linear = source.geometry.linear();
        let mut out = out;
        for i in 0..out[0].len() / nx {
            let (y, z) = rows.at(i);
            let start = source.geometry.row(y, z);
            for first in (0..nx).step_by(BLOCK) {
                let frame = source.geometry.frame_near(&start, first);
                let end = nx.min(first + BLOCK);
                for x in (first..end).step_by(LANES) {
                    let (count, here) = (LANES.min(end - x), i * nx + x);
                    let at = rows.first * nx + here;
                    let u = displacement(v, &field, at, count);
                    let p = moved(v, &linear, frame.along(v, x - first), u);
                    let d = source.derivatives(v, &frame, p);
                    let weight = load_some(v, &derivative[at..], count);
                    for (out, units) in out.iter_mut().zip(&source.units) {
                        let force = v.mul(weight, row(v, units, d));
                        store_some(v, force, &mut out[here..], count);
                    }
                }
            }
        }
    }
}
