//! Measurements of labels of four regions: patches of them all over the image, under the scores of the first iteration.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::front::{Layout, Units};
use crate::ops::regions::{Scores, Weights};

/// The side of a patch.
const SIDE: usize = 8;

const LABELS: usize = 4;

/// The standard deviation of the Gaussian that shares are from.
const SIGMA: f64 = 3.0;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let layout = Layout::new(dims, 1)?;
    let image = bench.image()?;
    let mut start: Vec<u8> = room(n)?;
    start.extend((0..n).map(|p| {
        let at = [p % dims[0], p / dims[0] % dims[1], p / (dims[0] * dims[1])];
        (at.into_iter().map(|c| c / SIDE).sum::<usize>() % LABELS) as u8
    }));
    let labels = device.upload_vec(start)?;
    let mut next = device.alloc::<u8>(n)?;
    let units = Units::between(-200.0, 200.0, n);
    let mut sums = device.alloc::<i64>(2 * LABELS)?;
    let means = device.upload(&[-100.0, -30.0, 30.0, 100.0])?;
    let mut scratch = device.alloc::<f32>(n)?;
    let mut shares = device.alloc::<f32>(LABELS * n)?;
    let mut changed = device.alloc::<i64>(1)?;
    let weights = Weights::new(device, &layout, SIGMA, [1.0; 3])?;

    bench.measure("regions", "sums", 5 * n, || {
        device.label_sums(&image, &labels, units, &mut sums)
    })?;
    bench.measure("regions", "shares of a label", 5 * n, || {
        let (scratch, shares) = (&mut scratch, &mut shares);
        device.label_shares(&layout, &weights.around(), 1, &labels, scratch, shares)
    })?;
    for (name, bytes, is_curved) in [("scan", 6, false), ("scan with curvature", 14, true)] {
        let scores = Scores {
            image: Some(&image),
            means: Some(&means),
            given: None,
            shares: is_curved.then_some(&shares),
            weight: 50.0,
        };
        bench.measure("regions", name, bytes * n, || {
            device.label_scan(&layout, &scores, 1, &labels, &mut next, &mut changed)
        })?;
    }
    Ok(())
}
