//! Measurements of sorts. Each key and value is counted as read once and written once; a sort moves them once
//! for every eight bits of the key.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::SortKey;
use crate::ops::sort::KeyRange::{self, Approximate24, Full, Measured};

/// Keys made of numbers that look random.
fn random<K>(n: usize, make: impl Fn(u64) -> K) -> Result<Vec<K>> {
    let mixed = |i: u64| {
        let x = (i ^ (i >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB)
    };
    let mut keys = room(n)?;
    keys.extend((0..n as u64).map(|i| make(mixed(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))));
    Ok(keys)
}

fn pairs<D: Device, K: SortKey>(
    bench: &mut Bench<'_, D>,
    operator: &str,
    range: KeyRange<K>,
    make: impl Fn(u64) -> K,
) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let keys = device.upload_vec(random(n, make)?)?;
    let mut positions = room(n)?;
    positions.extend(0..n as u32);
    let values = device.upload_vec(positions)?;
    let (mut sorted_keys, mut sorted_values) = (device.alloc(n)?, device.alloc(n)?);
    let bytes = 2 * n * (size_of::<K>() + size_of::<u32>());
    bench.measure("sort", operator, bytes, || {
        device.sort_pairs(range, &keys, Some(&values), &mut sorted_keys, &mut sorted_values)
    })
}

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let unit = |bits: u64| (bits >> 40) as f32 / (1 << 24) as f32;
    pairs(bench, "u32 pairs", Full, |bits| (bits >> 32) as u32)?;
    pairs(bench, "u32 pairs, 24 bits measured", Measured, |bits| (bits >> 40) as u32)?;
    pairs(bench, "f32 pairs", Full, unit)?;
    pairs(bench, "f32 pairs, approximate", Approximate24, unit)?;
    pairs(bench, "u64 pairs", Full, |bits| bits)?;

    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let keys = device.upload_vec(random(n, |bits| (bits >> 32) as u32)?)?;
    let mut sorted = device.alloc(n)?;
    bench.measure("sort", "u32 keys", 8 * n, || device.sort_keys(Full, &keys, &mut sorted))?;

    let starts: Vec<u32> = (0..n as u32).step_by(1000).collect();
    let starts = device.upload_vec(starts)?;
    let mut positions = device.alloc(n)?;
    bench.measure("sort", "u32 pairs in segments of 1000", 12 * n, || {
        device.sort_segments(Full, &keys, None, &starts, &mut sorted, &mut positions)
    })
}
