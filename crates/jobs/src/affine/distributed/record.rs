//! The part of the record that is of blocks and ranks.

use super::super::Job;
use crate::error::Result;
use crate::options::Distributed;
use crate::run::peak_memory;
use serde_json::{Value, json};
use voxalign_compute::Memory;
use voxalign_compute::comm::Communicator;
use voxalign_compute::select::AnyDevice;
use voxalign_options::Choice;
use voxalign_population::exchange::all_told;
use voxalign_register::linear::spread::{SpreadResult, SpreadScale};
use voxalign_register::search::distributed::Estimate;
use voxalign_report::{
    BlockScaleRecord, DistributedRecord, EstimateRecord, PyramidRecord, RankRecord, RunRecord,
};

/// All ranks: processes, or the devices of a single one.
pub(super) fn ranks(world: &Communicator, devices: &[AnyDevice]) -> Result<Vec<RankRecord>> {
    let peak = peak_memory();
    let of = |name: String, device: &AnyDevice| RankRecord {
        name,
        device: device.name(),
        peak_memory_bytes: peak,
        device_peak_bytes: device.memory().peak,
    };
    if world.size() == 1 {
        let thread = |device| of("a thread of one process".to_owned(), device);
        return Ok(match devices {
            [one] => vec![of(world.name(), one)],
            all => all.iter().map(thread).collect(),
        });
    }
    let own: Vec<_> = devices.iter().take(1).map(|device| of(world.name(), device)).collect();
    Ok(all_told(world, &own)?.concat())
}

/// How many ranks there were, and what they did, in a line.
pub(super) fn in_words(ranks: usize, spread: &SpreadResult) -> String {
    let mut names: Vec<_> = spread.scales.iter().map(|scale| scale.strategy.name()).collect();
    names.dedup();
    said(ranks, &names)
}

fn said(ranks: usize, strategies: &[&str]) -> String {
    let ranks = if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") };
    match strategies {
        [one] => format!("{ranks}, strategy {one}"),
        all => format!("{ranks}, strategies from coarse to fine: {}", all.join(", ")),
    }
}

/// The record.
pub(super) fn record(
    kind: Distributed,
    (ranks, images): (Vec<RankRecord>, Vec<PyramidRecord>),
    spread: &SpreadResult,
    whole: [[usize; 3]; 2],
) -> DistributedRecord {
    DistributedRecord {
        asked: kind.name().to_owned(),
        ranks,
        images,
        whole,
        scales: spread.scales.iter().map(scale).collect(),
        moved_mm: spread.moved,
    }
}

fn scale(scale: &SpreadScale) -> BlockScaleRecord {
    BlockScaleRecord {
        dims: scale.dims,
        strategy: scale.strategy.name().to_owned(),
        samples: scale.traffic.samples,
        remote_reads: scale.traffic.remote_reads,
        messages: scale.traffic.messages,
        message_bytes: scale.traffic.bytes,
        device_memory_bytes: scale.machine.device_memory,
        host_memory_bytes: scale.machine.host_memory,
        peers: scale.machine.peers,
        estimates: scale.estimates.iter().map(estimate).collect(),
    }
}

fn estimate(estimate: &Estimate) -> EstimateRecord {
    EstimateRecord {
        strategy: estimate.strategy.name().to_owned(),
        device_bytes: estimate.device_bytes,
        host_bytes: estimate.host_bytes,
        remote: estimate.remote,
        seconds: estimate.seconds,
        serves: estimate.serves,
    }
}

/// Adds the options of images in blocks to those of the record.
pub(super) fn add_parameters(record: &mut RunRecord, job: &Job, kind: Distributed) -> Result<()> {
    let Some(all) = record.parameters.as_object_mut() else { return Ok(()) };
    let how = &job.distributed;
    let mut add = |name: &str, value: Value| all.insert(name.to_owned(), value);
    add("distributed", json!(kind.name()));
    for (name, value) in kind.as_json() {
        add(&name, value);
    }
    let memory = how.memory()?;
    add("device_memory", json!(memory.device));
    add("host_memory", json!(memory.host));
    add("fixed_channel", json!(how.fixed_channel));
    add("moving_channel", json!(how.moving_channel));
    add("fixed_window", json!(how.fixed_window.map(|w| w.0)));
    add("moving_window", json!(how.moving_window.map(|w| w.0)));
    add("missing", json!(how.missing.map_or("error", Choice::name)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::said;

    #[test]
    fn ranks_and_strategies_are_one_line() {
        assert_eq!(said(1, &["stream"]), "1 rank, strategy stream");
        let said = said(2, &["replicate", "peer"]);
        assert_eq!(said, "2 ranks, strategies from coarse to fine: replicate, peer");
    }
}
