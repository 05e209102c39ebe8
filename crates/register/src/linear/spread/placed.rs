//! Which strategy a scale takes.

use super::options::{Placement, SpreadOptions};
use super::register::SpreadInput;
use super::scales::{self, Scales};
use crate::error::{RegisterError, Result};
use crate::search::distributed::{Estimate, Machine, Peer, Rates, StrategyKind, estimates};
use voxalign_compute::Device;
use voxalign_compute::comm::Communicator;
use voxalign_compute::ops::joint::FixedPointMap;
use voxalign_image::{Grid, memory};

/// The strategy of a scale.
pub(super) struct Placed {
    pub(super) strategy: StrategyKind,
    pub(super) estimates: Vec<Estimate>,
}

/// What all ranks have, the same at every rank. Whether they read each other's memory is tried.
pub(super) fn machine<D: Device>(
    device: &D,
    ranks: &Communicator,
    options: &SpreadOptions,
) -> Result<Machine> {
    let size = ranks.size();
    let apart = device.has_own_memory();
    let free = device.memory().free.unwrap_or(1 << 32);
    let host = memory::host().free.unwrap_or(1 << 32);
    // Ranks may all be on one machine, and without memory of their own share it.
    let of_device = if apart { free / 10 * 7 } else { free / 2 / size as u64 };
    let of_device = options.memory.device.unwrap_or(of_device);
    let of_host = options.memory.host.unwrap_or(host / 2 / size as u64);
    // The least of all: the largest of what is taken away from a large number.
    let mut least = [of_device, of_host].map(|bytes| -(bytes as f64));
    ranks.all_reduce_max(&mut least)?;
    let [device_memory, host_memory] = least.map(|bytes| (-bytes) as u64);
    let rates = if apart { Rates::GPU } else { Rates::CPU };
    let peers = size > 1 && Peer::<D, u8>::works(ranks, device);
    Ok(Machine { ranks: size, device_memory, host_memory, peers, apart, rates })
}

/// Refuses memory of devices in which a strategy that was given has no room at full resolution, where it needs most. Where the number of
/// ranks is not known, that is what any number of them needs. Images are given by their scales, fine to coarse; `wide` are moving pixels of
/// 16 bits.
///
/// # Errors
/// Too little memory; sizes that are refused.
pub fn check_memory(
    ranks: Option<usize>,
    [fixed, moving]: [&[Grid]; 2],
    wide: bool,
    options: &SpreadOptions,
) -> Result<()> {
    let (Placement::Given(strategy), Some(limit)) = (options.placement, options.memory.device)
    else {
        return Ok(());
    };
    let Some(&finest) = scales::plan(fixed, moving).finer.last() else { return Ok(()) };
    let dims = [&fixed[finest.fixed], &moving[finest.moving]].map(Grid::dims);
    let pixel = if wide { 2 } else { 1 };
    let needed = match (ranks, strategy) {
        (Some(ranks), _) => {
            let machine = Machine {
                ranks,
                device_memory: limit,
                host_memory: 0,
                peers: false,
                apart: true,
                rates: Rates::CPU,
            };
            let how = (strategy.halo(), options.blocks, &options.list);
            let map = FixedPointMap::new(&voxalign_compute::IDENTITY)?;
            let all = estimates(&machine, dims, pixel, &map, how)?;
            needed(&all, strategy)
        }
        // Blocks get smaller, the whole image does not.
        (None, StrategyKind::Replicated) => {
            dims[1].iter().product::<usize>().checked_mul(pixel).map(|bytes| bytes as u64)
        }
        (None, _) => None,
    };
    has_room(limit, needed)
}

/// What a strategy needs of a device.
fn needed(estimates: &[Estimate], strategy: StrategyKind) -> Option<u64> {
    estimates.iter().find(|e| e.strategy == strategy).map(|e| e.device_bytes)
}

fn has_room(limit: u64, needed: Option<u64>) -> Result<()> {
    match needed {
        Some(needed) if needed > limit => Err(RegisterError::option(
            "device_memory",
            memory::amount(limit),
            format!(
                "this strategy needs {} on a device; give as much, or another strategy",
                memory::amount(needed)
            ),
        )),
        _ => Ok(()),
    }
}

/// The strategy of a scale under the map from which it begins.
pub(super) fn placed(
    machine: &Machine,
    input: SpreadInput<'_>,
    scales: Scales,
    map: &FixedPointMap,
    options: &SpreadOptions,
) -> Result<Placed> {
    let halo = match options.placement {
        Placement::Given(strategy) => strategy.halo(),
        Placement::Auto(halo) => halo,
    };
    let dims = [&input.fixed.scales()[scales.fixed], &input.moving.scales()[scales.moving]]
        .map(|grid| grid.dims());
    let pixel = if input.moving.is_wide() { 2 } else { 1 };
    let estimates = estimates(machine, dims, pixel, map, (halo, options.blocks, &options.list))?;
    if let Placement::Given(strategy) = options.placement {
        if let Some(limit) = options.memory.device {
            has_room(limit, needed(&estimates, strategy))?;
        }
        return Ok(Placed { strategy, estimates });
    }
    match estimates.first().filter(|e| e.serves) {
        Some(first) => Ok(Placed { strategy: first.strategy, estimates }),
        None => Err(RegisterError::option(
            "device_memory",
            memory::amount(machine.device_memory),
            "give more: no strategy can do with that",
        )),
    }
}
