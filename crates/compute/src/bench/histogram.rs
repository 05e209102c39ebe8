//! Measurements of the histogram-like sums.

use super::Bench;
use crate::AffineMap;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::histogram::{
    Binning, LayoutOptions, MovingView, ParzenBins, SampleLayout, Scheme, Terms,
};

/// Counts as bytes: four for the place of a sample and four for the value of the moving image.
const BYTES: usize = 8;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    if dims[0] < 2 || dims[1] < 2 {
        return Ok(());
    }
    let n = voxels("dims", dims)?;
    let moving = bench.image()?;
    let fixed = device.download(&moving)?;
    let (low, high) = fixed.iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
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
        device.prepare_samples(SampleLayout::new(&fixed, dims, None, &options)?)
    };
    bench
        .measure("histogram", "group samples, 256 bins", BYTES * n, || samples(256).map(|_| ()))?;
    let of_256 = samples(256)?;
    for (scheme, terms, gradient, name) in [
        (Scheme::ConflictFree, Terms::Ratio, false, "correlation ratio conflict_free"),
        (Scheme::ConflictFree, Terms::Ratio, true, "correlation ratio conflict_free, gradient"),
        (Scheme::Direct, Terms::Ratio, false, "correlation ratio direct"),
        (Scheme::ConflictFree, Terms::Moments, false, "moments"),
        (Scheme::ConflictFree, Terms::Moments, true, "moments, gradient"),
    ] {
        bench.measure("histogram", name, BYTES * n, || {
            device.binned_sums(terms, scheme, &of_256, &view, &[map], gradient).map(|_| ())
        })?;
    }
    let of_64 = samples(64)?;
    let columns = ParzenBins { low, high, count: 64 + 2 * ParzenBins::MARGIN };
    bench.measure("histogram", "joint 64x64, cubic windows", BYTES * n, || {
        device.joint_histogram(&of_64, &view, &columns, &[map]).map(|_| ())
    })?;
    let table = vec![vec![0.5; 64 * columns.count]];
    bench.measure("histogram", "joint 64x64, gradient", BYTES * n, || {
        device.joint_gradient(&of_64, &view, &columns, &[map], &table).map(|_| ())
    })
}
