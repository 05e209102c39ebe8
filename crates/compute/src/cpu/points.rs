//! Affine maps of points, their displacement by fields, and their bounds on the CPU.

use super::splat::{Field, Places, by_points, derivatives_of, value};
use super::{Cpu, CpuBuffer};
use crate::AffineMap;
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::points::{
    Bounds, Carriage, NOWHERE, check_bounds, check_carriage, check_pairs, check_points, check_push,
    of_covectors,
};
use crate::ops::splat::{Extent, Spline, around};
use crate::ops::{Points, Splat};

/// The points of a task.
const TASK: usize = 1 << 14;

impl Cpu {
    fn mapped(&self, map: &AffineMap, points: &[f32], count: usize, out: &mut [f32]) {
        if count == 0 {
            return;
        }
        let (x, rest) = points.split_at(count);
        let (y, z) = rest.split_at(count);
        for (out, &[a, b, c, d]) in out.chunks_exact_mut(count).zip(map) {
            self.chunks_mut(out, TASK, |task, out| {
                let at = task * TASK..task * TASK + out.len();
                let points = x[at.clone()].iter().zip(&y[at.clone()]).zip(&z[at]);
                for (out, ((&x, &y), &z)) in out.iter_mut().zip(points) {
                    *out = (a * f64::from(x) + b * f64::from(y) + c * f64::from(z) + d) as f32;
                }
            });
        }
    }
}

/// A carriage as it is computed with.
struct Carried<'a> {
    field: Field<'a>,
    places: Places<'a>,
    scale: [f64; 3],
    map: AffineMap,
}

impl<'a> Carried<'a> {
    fn new(carriage: &Carriage<'a, Cpu>, extent: Extent, points: &'a [f32]) -> Self {
        let Carriage { field, lattice, scale, map } = *carriage;
        let field = Field { values: field.as_slice(), voxels: extent.voxels, lattice };
        Self { field, places: Places::new(points, extent.points, None), scale, map }
    }

    /// Where a point is carried to.
    #[inline]
    fn there<const N: usize>(&self, i: usize) -> [f32; 3] {
        let Field { values, voxels, lattice } = self.field;
        let at = self.places.at(i);
        let cell = around::<N>(at, lattice.dims, lattice.beyond);
        let mut moved = at.map(f64::from);
        for (a, image) in values.chunks_exact(voxels).enumerate() {
            let by = cell.as_ref().map_or(0.0, |c| value(image, lattice.dims, c));
            moved[a] += self.scale[a] * f64::from(by);
        }
        let [x, y, z] = moved;
        self.map.map(|[a, b, c, d]| (a * x + b * y + c * z + d) as f32)
    }

    /// The derivative in a point, given that in where it is carried to.
    #[inline]
    fn back<const N: usize>(&self, i: usize, covectors: &[f32]) -> [f64; 3] {
        let Field { values, voxels, lattice } = self.field;
        let [x, y, z] = [0, 1, 2].map(|a| f64::from(covectors[a * self.places.count() + i]));
        let before =
            [0, 1, 2].map(|a| self.map[0][a] * x + self.map[1][a] * y + self.map[2][a] * z);
        let mut sum = [0.0f32; 3];
        if let Some(cell) = around::<N>(self.places.at(i), lattice.dims, lattice.beyond) {
            for (a, image) in values.chunks_exact(voxels).enumerate() {
                let moment = (self.scale[a] * before[a]) as f32;
                for (sum, derivative) in
                    sum.iter_mut().zip(derivatives_of(image, lattice.dims, &cell))
                {
                    *sum += moment * derivative;
                }
            }
        }
        [0, 1, 2].map(|a| before[a] + f64::from(sum[a]))
    }

    fn is_cubic(&self) -> bool {
        self.field.lattice.spline == Spline::Cubic
    }
}

/// Writes `f` of every point, one number per list.
fn written<const N: usize>(
    cpu: &Cpu,
    out: &mut [f32],
    count: usize,
    f: impl Fn(usize) -> [f32; N] + Send + Sync,
) -> Result<()> {
    by_points(cpu, out, count, |first, out| {
        for k in 0..out.first().map_or(0, |list| list.len()) {
            for (out, value) in out.iter_mut().zip(f(first + k)) {
                out[k] = value;
            }
        }
    })
}

impl Points for Cpu {
    fn carry_points(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check_carriage(carriage, points.len(), out.len())?;
        let carried = Carried::new(carriage, extent, points.as_slice());
        let (out, count) = (out.as_mut_slice(), extent.points);
        match carried.is_cubic() {
            false => written(self, out, count, |i| carried.there::<2>(i)),
            true => written(self, out, count, |i| carried.there::<4>(i)),
        }
    }

    fn pull_back(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &CpuBuffer<f32>,
        covectors: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let extent = check_carriage(carriage, points.len(), out.len())?;
        check_points(&carriage.map, points.len(), covectors.len())?;
        let carried = Carried::new(carriage, extent, points.as_slice());
        let (out, of, count) = (out.as_mut_slice(), covectors.as_slice(), extent.points);
        match carried.is_cubic() {
            false => written(self, out, count, |i| carried.back::<2>(i, of).map(|v| v as f32)),
            true => written(self, out, count, |i| carried.back::<4>(i, of).map(|v| v as f32)),
        }
    }

    fn push_points(
        &self,
        carriage: &Carriage<'_, Self>,
        points: &CpuBuffer<f32>,
        covectors: &CpuBuffer<f32>,
        reach: &CpuBuffer<f32>,
        stiffness: &CpuBuffer<f32>,
        bounds: &[Bounds],
        out: &mut [&mut CpuBuffer<f32>],
    ) -> Result<()> {
        let each = [covectors, reach, stiffness].map(|list| list.len());
        let fields: Vec<usize> = out.iter().map(|o| o.len()).collect();
        let extent = check_push(carriage, points.len(), each, bounds.len(), &fields)?;
        let carried = Carried::new(carriage, extent, points.as_slice());
        let (count, of) = (extent.points, covectors.as_slice());
        let [reach, stiffness] = [reach, stiffness].map(|list| list.as_slice());
        let of_point = |list: &[f32], i: usize| [list[i], list[count + i], list[2 * count + i]];
        let mut forces = self.alloc::<f32>(3 * count)?;
        for (bounds, out) in bounds.iter().zip(out) {
            let held = |i: usize, f| bounds.held(f, of_point(reach, i), of_point(stiffness, i));
            let list = forces.as_mut_slice();
            match carried.is_cubic() {
                false => written(self, list, count, |i| held(i, carried.back::<2>(i, of)))?,
                true => written(self, list, count, |i| held(i, carried.back::<4>(i, of)))?,
            }
            self.add_splat(&forces, points, carriage.lattice, out)?;
        }
        Ok(())
    }

    fn pull_pairs(
        &self,
        points: &CpuBuffer<f32>,
        to: &CpuBuffer<f32>,
        stiffness: &CpuBuffer<f32>,
        covectors: &mut CpuBuffer<f32>,
        add: bool,
        energy: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        let (k, all) = (stiffness.len(), energy.len());
        check_pairs(points.len(), to.len(), k, covectors.len(), all)?;
        let [points, to, stiffness] = [points, to, stiffness].map(|list| list.as_slice());
        let (n, covectors) = (points.len(), covectors.as_mut_slice());
        self.chunks_mut(covectors, TASK, |task, out| {
            for (k, out) in out.iter_mut().enumerate() {
                let i = task * TASK + k;
                *out = stiffness[i] * (points[i] - to[i]);
            }
        });
        let covectors = &*covectors;
        let parts = self.collect(n.div_ceil(TASK), |task| {
            let of = |i: usize| f64::from(covectors[i]) * f64::from(points[i] - to[i]);
            (task * TASK..n.min((task + 1) * TASK)).map(of).sum::<f64>()
        });
        let sum = 0.5 * parts.into_iter().sum::<f64>();
        for energy in energy.as_mut_slice() {
            *energy = sum + if add { *energy } else { 0.0 };
        }
        Ok(())
    }

    fn map_points(
        &self,
        map: &AffineMap,
        points: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let count = check_points(map, points.len(), out.len())?;
        self.mapped(map, points.as_slice(), count, out.as_mut_slice());
        Ok(())
    }

    fn map_covectors(
        &self,
        map: &AffineMap,
        covectors: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let count = check_points(map, covectors.len(), out.len())?;
        self.mapped(&of_covectors(map), covectors.as_slice(), count, out.as_mut_slice());
        Ok(())
    }

    fn point_bounds(&self, points: &CpuBuffer<f32>, out: &mut CpuBuffer<f64>) -> Result<()> {
        let count = check_bounds(points.len(), out.len())?;
        let points = points.as_slice();
        let parts = self.collect(count.div_ceil(TASK), |task| {
            let mut found = NOWHERE;
            for i in task * TASK..count.min((task + 1) * TASK) {
                let at = [0, 1, 2].map(|a| f64::from(points[a * count + i]));
                if at.iter().all(|v| v.is_finite()) {
                    for (a, v) in at.into_iter().enumerate() {
                        found[1 + a] = found[1 + a].min(v);
                        found[4 + a] = found[4 + a].max(v);
                    }
                } else {
                    found[0] += 1.0;
                }
            }
            found
        });
        let out = out.as_mut_slice();
        out.copy_from_slice(&NOWHERE);
        for part in parts {
            out[0] += part[0];
            for a in 0..3 {
                out[1 + a] = out[1 + a].min(part[1 + a]);
                out[4 + a] = out[4 + a].max(part[4 + a]);
            }
        }
        Ok(())
    }
}
