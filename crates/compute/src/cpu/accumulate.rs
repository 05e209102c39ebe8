//! Sums over many images on the CPU.

use super::simd::kernel;
use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Accumulate;
use crate::ops::accumulate::{MOST_UNITS, check_accumulate};

/// The voxels of a task.
const TASK: usize = 1 << 15;
/// The values that are looked at together.
const BLOCK: usize = 64;

/// Numbers below this have a fraction left: added to it, they are rounded to whole numbers.
const LAST_FRACTION: f64 = (1u64 << 52) as f64;
/// The middle between two powers of two, so that the sum of it and a number of either sign has the
/// spacing 1.
const MIDDLE: f64 = 1.5 * LAST_FRACTION;

/// The contribution of a value.
fn units(value: f64) -> i64 {
    value.clamp(-MOST_UNITS, MOST_UNITS).round_ties_even() as i64
}

kernel! {
    fn add<V>(v, image: &[f32], factor: f64, sums: &mut [i64]) {
        let _ = v;
        for (sums, image) in sums.chunks_mut(BLOCK).zip(image.chunks(BLOCK)) {
            let mut values = [0.0f64; BLOCK];
            let mut small = true;
            for (value, &x) in values.iter_mut().zip(image) {
                *value = f64::from(x) * factor;
                // Not where it is not a number, either.
                small &= value.abs() < 0.5 * LAST_FRACTION;
            }
            if small {
                for (sum, value) in sums.iter_mut().zip(&values) {
                    let units = (value + MIDDLE).to_bits().wrapping_sub(MIDDLE.to_bits());
                    *sum = sum.wrapping_add(units as i64);
                }
            } else {
                for (sum, &value) in sums.iter_mut().zip(&values) {
                    *sum = sum.wrapping_add(units(value));
                }
            }
        }
    }
}

impl Accumulate for Cpu {
    fn add_fixed(
        &self,
        image: &CpuBuffer<f32>,
        factor: f64,
        sums: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        check_accumulate(image.len(), factor, sums.len())?;
        let (simd, image) = (self.simd(), image.as_slice());
        self.chunks_mut(sums.as_mut_slice(), TASK, |task, sums| {
            add(simd, &image[task * TASK..][..sums.len()], factor, sums);
        });
        Ok(())
    }

    fn fixed_to_float(
        &self,
        sums: &CpuBuffer<i64>,
        factor: f64,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_accumulate(out.len(), factor, sums.len())?;
        let sums = sums.as_slice();
        self.chunks_mut(out.as_mut_slice(), TASK, |task, out| {
            for (out, &sum) in out.iter_mut().zip(&sums[task * TASK..]) {
                *out = (sum as f64 * factor) as f32;
            }
        });
        Ok(())
    }
}
