//! The record of an operator over many images.

use crate::figure::Figures;
use crate::provenance::Provenance;
use crate::record::{GridRecord, OutputRecord, RunRecord};
use serde::Serialize;
use std::collections::BTreeMap;

/// All that is worth keeping of an operator over many images. Numbers that are not finite are written as
/// `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
}

impl StackRecord {
    /// A record that begins with program, machine and inputs of another.
    #[must_use]
    pub fn new(mut run: RunRecord, grid: GridRecord) -> Self {
        let parameters = std::mem::take(&mut run.parameters);
        Self {
            provenance: Provenance::from(run),
            parameters,
            grid,
            figures: Figures::default(),
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
        }
    }

    /// The record as indented JSON with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::record::json(self)
    }
}
