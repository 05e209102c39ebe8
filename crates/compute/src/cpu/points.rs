//! Affine maps of points on the CPU, and their bounds.

use super::{Cpu, CpuBuffer};
use crate::AffineMap;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Points;
use crate::ops::points::{NOWHERE, check_bounds, check_points, of_covectors};

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

impl Points for Cpu {
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
