//! Reductions on the CPU.

use super::simd::{LANES, Lanes, Vectors, kernel};
use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len};
use crate::ops::Reduce;
use crate::ops::reduce::{Reduction, check};

/// The elements that are summed at once: few enough to stay in the L1 cache for all of the numbers. This affects
/// the rounding of the result.
const CHUNK: usize = 4096;

/// The chunks of a task.
const TASK: usize = 16;

impl Reduce for Cpu {
    fn reduce(&self, inputs: &[&CpuBuffer<f32>], what: &[Reduction]) -> Result<Vec<f64>> {
        let lengths: Vec<usize> = inputs.iter().map(|b| b.len()).collect();
        let n = check(&lengths, what)?;
        let chunks = n.div_ceil(CHUNK);
        let parts = self.collect(chunks.div_ceil(TASK), |task| {
            let mut parts = Vec::with_capacity(TASK * what.len());
            for chunk in (task * TASK..chunks).take(TASK) {
                let range = chunk * CHUNK..n.min((chunk + 1) * CHUNK);
                for &r in what {
                    let [a, b] = r.inputs().map(|i| &inputs[i].as_slice()[range.clone()]);
                    parts.push(reduce_chunk(self.simd(), r, a, b));
                }
            }
            parts
        });
        let mut result: Vec<f64> = what.iter().map(|&r| neutral(r)).collect();
        for part in parts.iter().flat_map(|p| p.chunks(what.len().max(1))) {
            for ((sum, &value), &r) in result.iter_mut().zip(part).zip(what) {
                *sum = joined(r, *sum, value);
            }
        }
        Ok(result)
    }

    fn reduce_into(
        &self,
        inputs: &[&CpuBuffer<f32>],
        what: &[Reduction],
        out: &mut CpuBuffer<f64>,
    ) -> Result<()> {
        check_len("output of a reduction", what.len(), out.len())?;
        out.as_mut_slice().copy_from_slice(&self.reduce(inputs, what)?);
        Ok(())
    }
}

/// The value of no elements.
fn neutral(r: Reduction) -> f64 {
    match r {
        Reduction::Min(_) => f64::INFINITY,
        Reduction::Max(_) => f64::NEG_INFINITY,
        _ => 0.0,
    }
}

/// Two parts put together; no part is a number that is not one, where that is left out.
fn joined(r: Reduction, a: f64, b: f64) -> f64 {
    match r {
        Reduction::Min(_) => a.min(b),
        Reduction::Max(_) | Reduction::MaxAbs(_) => a.max(b),
        _ => a + b,
    }
}

/// Sixteen elements of the chunk, padded beyond its end.
#[inline(always)]
fn load<V: Vectors>(v: V, from: &[f32], fill: f32) -> V::F {
    match from.first_chunk::<LANES>() {
        Some(all) => v.load(all),
        None => {
            let mut some: Lanes = [fill; LANES];
            some[..from.len()].copy_from_slice(from);
            v.load(&some)
        }
    }
}

kernel! {
    /// A reduction over a chunk; `b` is as long as `a`.
    fn reduce_chunk<V>(v, r: Reduction, a: &[f32], b: &[f32]) -> f64 {
        let mut sum = v.splat_wide(0.0);
        macro_rules! sum {
            ($x:ident, $y:ident => $value:expr) => {
                for (x, y) in a.chunks(LANES).zip(b.chunks(LANES)) {
                    let ($x, $y) = (v.widen(load(v, x, 0.0)), v.widen(load(v, y, 0.0)));
                    sum = v.add_wide(sum, $value);
                }
            };
            ($x:ident => $value:expr) => {
                for x in a.chunks(LANES) {
                    let $x = load(v, x, 0.0);
                    sum = v.add_wide(sum, $value);
                }
            };
        }
        match r {
            Reduction::Sum(_) => sum!(x => v.widen(x)),
            Reduction::SumAbs(_) => sum!(x => v.widen(v.abs(x))),
            Reduction::SumSquares(_) => sum!(x => {
                let x = v.widen(x);
                v.mul_wide(x, x)
            }),
            Reduction::CountNonFinite(_) => {
                let (one, zero) = (v.splat_wide(1.0), v.splat(0.0));
                let infinity = v.splat(f32::INFINITY);
                sum!(x => {
                    let finite = v.lt(v.abs(x), infinity);
                    v.sub_wide(one, v.widen(v.select(finite, v.splat(1.0), zero)))
                });
            }
            Reduction::Dot(..) => sum!(x, y => v.mul_wide(x, y)),
            Reduction::SumSquaredDifference(..) => sum!(x, y => {
                let d = v.sub_wide(x, y);
                v.mul_wide(d, d)
            }),
            Reduction::Min(_) | Reduction::Max(_) | Reduction::MaxAbs(_) => {
                let mut best = v.splat(neutral(r) as f32);
                for x in a.chunks(LANES) {
                    let x = load(v, x, f32::NAN);
                    best = match r {
                        Reduction::Min(_) => v.min(x, best),
                        Reduction::Max(_) => v.max(x, best),
                        _ => v.max(v.abs(x), best),
                    };
                }
                let mut lanes: Lanes = [0.0; LANES];
                v.store(best, &mut lanes);
                return lanes.into_iter().fold(neutral(r), |a, b| joined(r, a, f64::from(b)));
            }
        }
        let mut lanes = [0f64; LANES];
        v.store_wide(sum, &mut lanes);
        lanes.into_iter().sum()
    }
}
