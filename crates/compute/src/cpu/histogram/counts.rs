//! Histogram counts.

use crate::cpu::{Cpu, CpuBuffer};
use crate::error::Result;
use crate::host::zeroed;
use crate::ops::histogram::{ValueCounts, check_value_counts};

/// Values that one task counts at least.
const FEWEST: usize = 1 << 16;
/// And at most: counts of a task are of 32 bits.
const MOST: usize = 1 << 26;

/// The counts as [`value_counts`](crate::ops::Histogram::value_counts) defines them. Whole numbers:
/// the same however the values are shared among the threads.
pub(super) fn value_counts(
    cpu: &Cpu,
    values: &CpuBuffer<f32>,
    weights: Option<&CpuBuffer<f32>>,
    low: f32,
    high: f32,
    bins: usize,
) -> Result<ValueCounts> {
    let values = values.as_slice();
    let weights = weights.map(CpuBuffer::as_slice);
    check_value_counts(values.len(), weights.map(<[f32]>::len), low, high, bins)?;
    let (start, span) = (f64::from(low), f64::from(high) - f64::from(low));
    let scale = bins as f64 / span;
    let size = values.len().div_ceil(4 * cpu.threads()).clamp(FEWEST, MOST);
    let parts = cpu.try_collect(values.len().div_ceil(size), |task| {
        let range = task * size..values.len().min((task + 1) * size);
        // Neighbours are often alike: several tables in turn, so that an addition does not wait
        // for the one before.
        let mut tables = zeroed::<u32>(4 * bins)?;
        let (mut below, mut above) = (0u64, 0u64);
        let mut count = |table: usize, v: f32| {
            if v >= low && v <= high {
                let bin = ((f64::from(v) - start) * scale) as usize;
                tables[table * bins + bin.min(bins - 1)] += 1;
            } else if v.is_finite() {
                below += u64::from(v < low);
                above += u64::from(v > high);
            }
        };
        match weights {
            None => {
                for (i, &v) in values[range].iter().enumerate() {
                    count(i % 4, v);
                }
            }
            Some(w) => {
                let counted = values[range.clone()].iter().zip(&w[range]);
                for (i, (&v, _)) in counted.enumerate().filter(|(_, (_, w))| **w > 0.0) {
                    count(i % 4, v);
                }
            }
        }
        Ok((below, above, tables))
    })?;
    let mut all = ValueCounts { below: 0, above: 0, counts: zeroed(bins)? };
    for (below, above, tables) in parts {
        all.below += below;
        all.above += above;
        for table in tables.chunks_exact(bins) {
            all.counts.iter_mut().zip(table).for_each(|(t, &c)| *t += u64::from(c));
        }
    }
    Ok(all)
}
