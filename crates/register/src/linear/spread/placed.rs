//! Which strategy a scale takes.

use super::options::{Placement, SpreadOptions};
use super::register::SpreadInput;
use super::scales::Scales;
use crate::error::{RegisterError, Result};
use crate::search::distributed::{Estimate, Machine, Peer, Rates, StrategyKind, estimates};
use voxalign_compute::Device;
use voxalign_compute::comm::Communicator;
use voxalign_compute::ops::joint::FixedPointMap;
use voxalign_image::memory;

/// The strategy of a scale.
pub(super) struct Placed {
    pub(super) strategy: StrategyKind,
    pub(super) estimates: Vec<Estimate>,
}

/// What all ranks have, the same at every rank. Whether they read each other's memory is tried where that is to be decided.
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
    let decides = matches!(options.placement, Placement::Auto(_));
    let peers = decides && size > 1 && Peer::<D, u8>::works(ranks, device);
    Ok(Machine { ranks: size, device_memory, host_memory, peers, apart, rates })
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
        let needed = estimates.iter().find(|e| e.strategy == strategy).map(|e| e.device_bytes);
        return match (options.memory.device, needed) {
            (Some(limit), Some(needed)) if needed > limit => Err(RegisterError::option(
                "device_memory",
                memory::amount(limit),
                format!("this strategy needs {} on a device", memory::amount(needed)),
            )),
            _ => Ok(Placed { strategy, estimates }),
        };
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
