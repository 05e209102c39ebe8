//! Measurements of joint histograms in whole numbers. Counted as bytes are those of one fixed bin and one moving pixel of 8 bits; the rate in pixels
//! is half of that in bytes.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::joint::{
    Block, Brick, FixedBins, FixedPart, FixedPointMap, JointRule, MovingBins, Pixels, Window,
};
use crate::{AffineMap, DeviceBuffer};

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let head = bench.head()?;
    debug_assert_eq!(head.len(), n);
    let mut pixels = room(n)?;
    pixels.extend(device.into_host(head)?.iter().map(|&v| v as u8));
    let mut bins = vec![0; n];
    FixedBins::new(0, 255, 64)?.fill(&pixels, None, &mut bins)?;
    let (bins, pixels) = (device.upload_vec(bins)?, device.upload_vec(pixels)?);
    let block = Block::whole(dims);
    let fixed = FixedPart { block, bins: &bins, part: block };
    let brick = Brick::new(block, dims, Pixels::<D>::on_device::<u8>(&pixels));
    let moving_bins = MovingBins::new(0, 255, 64)?;
    for degrees in [0.0f64, 6.0, 90.0] {
        let (s, c) = degrees.to_radians().sin_cos();
        let (x, y) = ((dims[0] as f64 - 1.0) / 2.0, (dims[1] as f64 - 1.0) / 2.0);
        let map: AffineMap =
            [[c, -s, 0.0, x - c * x + s * y], [s, c, 0.0, y - s * x - c * y], [0.0, 0.0, 1.0, 0.0]];
        let map = FixedPointMap::new(&map)?;
        for (window, slopes) in
            [(Window::Plain, false), (Window::Cubic, false), (Window::Cubic, true)]
        {
            let rule = JointRule::new(map, dims, 64, moving_bins, window);
            let table = match slopes {
                true => Some(device.upload_vec(vec![1000; rule.entries()])?),
                false => None,
            };
            let mut out = device.alloc(rule.numbers(slopes))?;
            let what = if slopes { ", slopes" } else { "" };
            let name = format!("64x64 {window:?}{what}, {degrees} degrees").to_lowercase();
            bench.measure("joint", name, 2 * n, || {
                device.joint_add(&rule, &fixed, &[brick], table.as_ref(), &mut out)
            })?;
        }
    }
    Ok(())
}
