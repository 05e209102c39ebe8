//! Measurements of the histogram-like sums.

use super::Bench;
use crate::AffineMap;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::histogram::{
    Binning, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme, Terms,
};
use crate::ops::reduce::Reduction;

/// Counts as bytes: four for the place of a sample and four for the value of the moving image.
const BYTES: usize = 8;

/// Maps that are given at once.
const AT_ONCE: usize = 8;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    if dims[0] < 2 || dims[1] < 2 {
        return Ok(());
    }
    let n = voxels("dims", dims)?;
    let moving = bench.head()?;
    let range = device.reduce(&[&moving], &[Reduction::Min(0), Reduction::Max(0)])?;
    let (low, high) = (range[0] as f32, range[1] as f32);
    let high = if high > low { high } else { low + 1.0 };
    // A small turn about the middle, so that rows of the fixed image cross those of the moving one.
    let (c, s) = (0.1f64.cos(), 0.1f64.sin());
    let (x, y) = (dims[0] as f64 / 2.0, dims[1] as f64 / 2.0);
    let map: AffineMap = [
        [c, -s, 0.0, x - c * x + s * y + 0.3],
        [s, c, 0.0, y - s * x - c * y + 0.3],
        [0.0, 0.0, 1.0, 0.0],
    ];
    let view = MovingView { values: &moving, mask: None, dims, border: [2.0; 3] };
    let samples = |bins: usize| {
        let binning = Binning { low, high, bins };
        let options = LayoutOptions { binning, workload: 2048, keep_values: true };
        device.group_samples(&moving, dims, None, &options)
    };
    bench
        .measure("histogram", "group samples, 256 bins", BYTES * n, || samples(256).map(|_| ()))?;
    bench.measure("histogram", "count values, 2048 bins", 4 * n, || {
        device.value_counts(&moving, None, low, high, 2048).map(|_| ())
    })?;
    let of_256 = samples(256)?;
    let ones = |_: usize, sums: &[f64]| vec![1.0; sums.len()];
    for (scheme, terms, gradient, name) in [
        (Scheme::ConflictFree, Terms::Ratio, false, "correlation ratio conflict_free"),
        (Scheme::ConflictFree, Terms::Ratio, true, "correlation ratio conflict_free, gradient"),
        (Scheme::Direct, Terms::Ratio, false, "correlation ratio direct"),
        (Scheme::ConflictFree, Terms::Moments, false, "moments"),
        (Scheme::ConflictFree, Terms::Moments, true, "moments, gradient"),
    ] {
        bench.measure("histogram", name, BYTES * n, || {
            if gradient {
                let found = device.binned_gradient(terms, scheme, &of_256, &view, &[map], &ones);
                found.map(|_| ())
            } else {
                device.binned_sums(terms, scheme, &of_256, &view, &[map]).map(|_| ())
            }
        })?;
    }
    // Several maps at once: what a map takes when nothing waits for the host in between.
    let maps = [map; AT_ONCE];
    for gradient in [false, true] {
        let derivatives = if gradient { ", gradient" } else { "" };
        let name = format!("correlation ratio conflict_free{derivatives}, each of {AT_ONCE} maps");
        let (terms, scheme) = (Terms::Ratio, Scheme::ConflictFree);
        bench.measure_each("histogram", name, BYTES * n, AT_ONCE, || {
            if gradient {
                let found = device.binned_gradient(terms, scheme, &of_256, &view, &maps, &ones);
                found.map(|_| ())
            } else {
                device.binned_sums(terms, scheme, &of_256, &view, &maps).map(|_| ())
            }
        })?;
    }
    let of_64 = samples(64)?;
    let columns = ParzenBins { low, high, count: 64 + 2 * ParzenBins::MARGIN };
    bench.measure("histogram", "joint 64x64, cubic windows", BYTES * n, || {
        device.joint_histogram(JointScheme::Default, &of_64, &view, &columns, &[map]).map(|_| ())
    })?;
    let name = format!("joint 64x64, cubic windows, each of {AT_ONCE} maps");
    bench.measure_each("histogram", name, BYTES * n, AT_ONCE, || {
        device.joint_histogram(JointScheme::Default, &of_64, &view, &columns, &maps).map(|_| ())
    })?;
    let table = vec![vec![0.5; 64 * columns.count]];
    bench.measure("histogram", "joint 64x64, gradient", BYTES * n, || {
        device.joint_gradient(&of_64, &view, &columns, &[map], &table).map(|_| ())
    })
}
