//! Affine maps of points on the CPU.

use super::{Cpu, CpuBuffer};
use crate::AffineMap;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Points;
use crate::ops::points::{check_points, of_covectors};

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
}
