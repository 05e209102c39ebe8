//! Robust ranges of intensities.

use crate::error::Result;
use rayon::prelude::*;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::histogram::ValueCounts;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer};

/// Values of a part that a thread looks at.
const PART: usize = 1 << 16;
/// Bins of each look at the values.
const BINS: usize = 2048;

/// The range of the finite values between two quantiles (0 to 1), by two passes of a histogram, or `None` if there
/// is no finite value. Where the quantiles coincide, the full range.
#[must_use]
pub fn robust_range(values: &[f32], low: f64, high: f64) -> Option<(f32, f32)> {
    // Counts, and the ends of ranges, are the same in any order.
    let parts = || values.par_chunks(PART);
    let finite = |part| <[f32]>::iter(part).copied().filter(|v| v.is_finite());
    let ends =
        |part| finite(part).fold((f32::MAX, f32::MIN), |(min, max), v| (v.min(min), v.max(max)));
    let wider = |a: (f32, f32), b: (f32, f32)| (a.0.min(b.0), a.1.max(b.1));
    let (min, max) = parts().map(ends).reduce(|| (f32::MAX, f32::MIN), wider);
    if min > max {
        return None;
    }
    // Which of two zeros was met first depends on the threads.
    let (min, max) = (min + 0.0, max + 0.0);
    let none = || ValueCounts { below: 0, above: 0, counts: vec![0; BINS] };
    let count = |low: f32, high: f32| {
        let found = parts().fold(none, |found, part| counted(found, finite(part), low, high));
        Ok::<_, std::convert::Infallible>(found.reduce(none, both))
    };
    match narrowed((min, max), low, high, count) {
        Ok(range) => Some(range),
        Err(never) => match never {},
    }
}

/// Counts finite values and adds them to the bins of earlier ones.
pub(crate) fn counted(
    mut found: ValueCounts,
    values: impl Iterator<Item = f32>,
    low: f32,
    high: f32,
) -> ValueCounts {
    let (start, span) = (f64::from(low), f64::from(high) - f64::from(low));
    let bins = found.counts.len();
    let scale = bins as f64 / span;
    for v in values {
        if v < low {
            found.below += 1;
        } else if v > high {
            found.above += 1;
        } else {
            let bin = ((f64::from(v) - start) * scale) as usize;
            found.counts[bin.min(bins - 1)] += 1;
        }
    }
    found
}

fn both(mut a: ValueCounts, b: ValueCounts) -> ValueCounts {
    a.below += b.below;
    a.above += b.above;
    a.counts.iter_mut().zip(b.counts).for_each(|(a, b)| *a += b);
    a
}

/// As [`robust_range`], of values on a device: of the finite ones whose weight (if given) is above
/// 0.
///
/// # Errors
/// Weights of another number than the values, memory that runs out.
pub fn robust_range_on<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    weights: Option<&D::Buffer<f32>>,
    low: f64,
    high: f64,
) -> Result<Option<(f32, f32)>> {
    let ends = [Reduction::Min(0), Reduction::Max(0)];
    let found = match weights {
        None => device.reduce(&[values], &ends)?,
        Some(w) => device.reduce(&[&masked(device, values, w, f32::NAN)?], &ends)?,
    };
    // Infinite ends: leave out what is not finite.
    let found = if found.iter().any(|v| v.is_infinite()) && !values.is_empty() {
        let mut finite = device.alloc::<f32>(values.len())?;
        let is_finite = x(0).abs().le(f32::MAX);
        device.eval(
            &select(is_finite, x(0), param(0)),
            &[values],
            &[f32::NAN],
            None,
            &mut finite,
        )?;
        let finite = match weights {
            None => finite,
            Some(w) => masked(device, &finite, w, f32::NAN)?,
        };
        device.reduce(&[&finite], &ends)?
    } else {
        found
    };
    let (min, max) = (found[0], found[1]);
    if min > max {
        return Ok(None);
    }
    robust_range_within(device, values, weights, (min as f32, max as f32), low, high).map(Some)
}

/// As [`robust_range_on`], where the smallest and the largest of the values that count are known.
///
/// # Errors
/// As [`robust_range_on`].
pub fn robust_range_within<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    weights: Option<&D::Buffer<f32>>,
    ends: (f32, f32),
    low: f64,
    high: f64,
) -> Result<(f32, f32)> {
    narrowed(ends, low, high, |min, max| Ok(device.value_counts(values, weights, min, max, BINS)?))
}

/// The values where the weight is above 0, `other` elsewhere.
pub(crate) fn masked<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    weights: &D::Buffer<f32>,
    other: f32,
) -> Result<D::Buffer<f32>> {
    let mut out = device.alloc::<f32>(values.len())?;
    let inside = select(x(1).gt(0.0), x(0), param(0));
    device.eval(&inside, &[values, weights], &[other], None, &mut out)?;
    Ok(out)
}

/// The range between two quantiles of values from `full.0` to `full.1`, which `count` counts in
/// [`BINS`] bins over a range.
fn narrowed<E>(
    full: (f32, f32),
    low: f64,
    high: f64,
    count: impl Fn(f32, f32) -> std::result::Result<ValueCounts, E>,
) -> std::result::Result<(f32, f32), E> {
    let (mut min, mut max) = full;
    // A few extreme values can leave everything else in one bin: look again at that part.
    for _ in 0..16 {
        let span = f64::from(max) - f64::from(min);
        if span <= 0.0 {
            break;
        }
        let found = count(min, max)?;
        let total = found.total();
        let find = |quantile: f64| {
            let wanted = (quantile * total as f64) as u64;
            let mut sum = found.below;
            for (i, &c) in found.counts.iter().enumerate() {
                sum += c;
                if sum > wanted {
                    return i;
                }
            }
            BINS - 1
        };
        let (a, b) = (find(low), find(high));
        let width = span / BINS as f64;
        let new_min = (f64::from(min) + a as f64 * width) as f32;
        let new_max = (f64::from(min) + (b + 1) as f64 * width) as f32;
        let narrow = b - a < BINS / 8;
        (min, max) = (new_min.max(full.0), new_max.min(full.1));
        if !narrow {
            break;
        }
    }
    Ok(if max > min { (min, max) } else { full })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

    #[test]
    fn outliers_do_not_count() {
        let mut v: Vec<f32> = (0..100_000).map(|i| (i % 1000) as f32).collect();
        v[7] = 1e30;
        v[8] = -1e30;
        v[9] = f32::NAN;
        let device = Cpu::new(Some(2)).unwrap();
        let on_device = |v: &[f32], low, high| {
            robust_range_on(&device, &device.upload(v).unwrap(), None, low, high).unwrap()
        };
        let (a, b) = robust_range(&v, 0.01, 0.99).unwrap();
        assert_eq!(on_device(&v, 0.01, 0.99), Some((a, b)));
        assert!((a - 10.0).abs() < 5.0 && (b - 990.0).abs() < 5.0, "{a} {b}");
        assert_eq!(robust_range(&[f32::NAN], 0.0, 1.0), None);
        assert_eq!(robust_range(&[3.0; 5], 0.1, 0.9), Some((3.0, 3.0)));
        let mostly_zero: Vec<f32> = (0..1000).map(|i| if i < 995 { 0.0 } else { 1.0 }).collect();
        assert_eq!(robust_range(&mostly_zero, 0.01, 0.99), Some((0.0, 1.0)));
        assert_eq!(on_device(&mostly_zero, 0.01, 0.99), Some((0.0, 1.0)));
        assert_eq!(on_device(&[f32::NAN], 0.0, 1.0), None);
        assert_eq!(on_device(&[], 0.0, 1.0), None);
        v[10] = f32::INFINITY;
        let weights: Vec<f32> = (0..v.len()).map(|i| (i % 3) as f32).collect();
        let counted: Vec<f32> =
            v.iter().zip(&weights).filter(|(_, w)| **w > 0.0).map(|(v, _)| *v).collect();
        let (values, weights) = (device.upload(&v).unwrap(), device.upload(&weights).unwrap());
        let found = robust_range_on(&device, &values, Some(&weights), 0.1, 0.8).unwrap();
        assert_eq!(found, robust_range(&counted, 0.1, 0.8));
    }
}
