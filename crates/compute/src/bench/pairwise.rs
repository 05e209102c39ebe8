//! Measurements of sums over all pairs. Each point and weight is counted as read once and each sum as written
//! once; as there is work for every pair, arithmetic is the limit.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::pairwise::{KernelShape, RadialKernel};

/// The largest number of points on each side; otherwise an eighth of the voxels.
const MOST: usize = 16_384;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let device = bench.device;
    let points = (voxels("dims", bench.dims)? / 8).clamp(16, MOST);
    let numbers = |count: usize, factor: f32| -> Result<D::Buffer<f32>> {
        let mut list = room(count)?;
        list.extend((0..count).map(|i| factor * (i as f32 * 0.37 + (i % 97) as f32).sin()));
        device.upload_vec(list)
    };
    let (targets, sources) = (numbers(3 * points, 80.0)?, numbers(3 * points, 75.0)?);
    for components in [1, 3, 6] {
        let (moments, weights) =
            (numbers(components * points, 1.0)?, numbers(components * points, 0.9)?);
        let (mut out, mut derivatives) =
            (device.alloc(components * points)?, device.alloc(3 * points)?);
        for shape in [KernelShape::Gaussian, KernelShape::Cauchy] {
            let kernel = RadialKernel { shape, width: 10.0 };
            let name = format!("{shape:?}, {components} of {points} x {points}");
            let bytes = 4 * points * (6 + 2 * components);
            bench.measure("pairwise", name.clone(), bytes, || {
                device.pair_sums(&kernel, &targets, &sources, &weights, &mut out)
            })?;
            let bytes = bytes + 4 * points * (3 + components);
            bench.measure("pairwise", format!("{name}, with derivatives"), bytes, || {
                device.pair_sums_with_derivatives(
                    &kernel,
                    &targets,
                    &moments,
                    &sources,
                    &weights,
                    &mut out,
                    &mut derivatives,
                )
            })?;
        }
    }
    Ok(())
}
