//! The record of an operator over many images.

use super::{Figures, GridRecord, OutputRecord, Provenance};
use serde::Serialize;
use std::collections::BTreeMap;
use voxalign_register::Verdict;

/// All that is worth keeping of an operator over many images. Numbers that are not finite are written as
/// `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StackRecord {
    /// Program, command, machine and inputs, images in the order of the command.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The grid of all images.
    pub grid: GridRecord,
    /// Named numbers: `images`, `total_energy`.
    pub figures: Figures,
    /// Wall time of each part in seconds: `device`, `stream`, `write`, `total`, and of the stream how long
    /// each of its stages was at work: `stream_read`, `stream_execute`, ...
    pub timings: BTreeMap<String, f64>,
    /// The peak memory of the process, bytes, where the system reports it.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// That nothing was to be judged; it is not written.
    #[serde(skip)]
    pub verdict: Verdict,
}

judged!(StackRecord);
begun!(StackRecord verdict: Verdict::new(Vec::new(), Vec::new()));
