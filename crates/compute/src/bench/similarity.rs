//! Measurements of similarities and their derivatives.

use super::Bench;
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::histogram::{Binning, ParzenBins};
use crate::ops::reduce::Reduction;
use crate::ops::similarity::Contexts;

/// Bins along each axis of the joint histogram.
const BINS: usize = 64;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let (fixed, moving) = (bench.head()?, bench.image()?);
    let weights = device.upload_vec(vec![1f32; n])?;
    let mut derivative = device.alloc(n)?;
    let mut energy = device.alloc(1)?;
    for radius in [2, 4] {
        let name = format!("local correlation, radius {radius}");
        bench.measure("similarity", name, 12 * n, || {
            let (derivative, energy) = (&mut derivative, &mut energy);
            device.local_correlation(
                &fixed,
                &moving,
                None,
                dims,
                [radius; 3],
                10.0,
                derivative,
                energy,
            )
        })?;
    }
    let mut other = device.alloc(n)?;
    bench.measure("similarity", "local correlation, radius 2, of both", 16 * n, || {
        let (derivative, other, energy) = (&mut derivative, &mut other, &mut energy);
        device.local_correlation_of_both(
            &fixed, &moving, None, dims, [2; 3], 10.0, derivative, other, energy,
        )
    })?;
    drop(other);
    bench.measure("similarity", "local correlation, radius 2, weights", 16 * n, || {
        let (weights, derivative, energy) = (Some(&weights), &mut derivative, &mut energy);
        device.local_correlation(&fixed, &moving, weights, dims, [2; 3], 10.0, derivative, energy)
    })?;
    let contexts = Contexts { radius: 1, distance: 1, noise: 10.0 };
    bench.measure("similarity", "self-similarity contexts, radius 1", 12 * n, || {
        let (derivative, energy) = (&mut derivative, &mut energy);
        device.self_similarity(&fixed, &moving, None, dims, &contexts, derivative, energy)
    })?;
    let mut other = device.alloc(n)?;
    bench.measure("similarity", "self-similarity contexts, radius 1, of both", 16 * n, || {
        let (derivative, other, energy) = (&mut derivative, &mut other, &mut energy);
        device.self_similarity_of_both(
            &fixed, &moving, None, dims, &contexts, derivative, other, energy,
        )
    })?;
    drop(other);
    let range = device
        .reduce(&[&fixed, &moving], &[0, 1].map(Reduction::Min))?
        .into_iter()
        .zip(device.reduce(&[&fixed, &moving], &[0, 1].map(Reduction::Max))?)
        .map(|(low, high)| (low as f32, if high > low { high as f32 } else { low as f32 + 1.0 }))
        .collect::<Vec<_>>();
    let [(low, high), (least, most)] = range[..] else { return Ok(()) };
    let rows = Binning { low, high, bins: BINS };
    let columns = ParzenBins { low: least, high: most, count: BINS + 2 * ParzenBins::MARGIN };
    bench.measure("similarity", format!("pair histogram, {BINS} bins"), 8 * n, || {
        device.pair_histogram(&fixed, &moving, None, &rows, &columns).map(|_| ())
    })?;
    bench.measure("similarity", format!("pair histogram, {BINS} bins, weights"), 12 * n, || {
        device.pair_histogram(&fixed, &moving, Some(&weights), &rows, &columns).map(|_| ())
    })?;
    let table = vec![0.5; BINS * columns.count];
    bench.measure("similarity", format!("pair derivatives, {BINS} bins"), 12 * n, || {
        device.pair_derivatives(&fixed, &moving, None, &rows, &columns, &table, &mut derivative)
    })?;
    let mut mapped = device.alloc(n)?;
    bench.measure("similarity", format!("mapped values, {BINS} bins"), 12 * n, || {
        let (table, mapped) = (&table[..columns.count], &mut mapped);
        device.map_values(&moving, &columns, table, mapped, &mut derivative)
    })
}
