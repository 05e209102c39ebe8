//! The record of an operator over many images.

use crate::record::{GridRecord, HostRecord, InputRecord, OutputRecord, RunRecord};
use serde::Serialize;
use std::collections::BTreeMap;

/// All that is worth keeping of an operator over many images. Numbers that are not finite are written as
/// `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StackRecord {
    /// Version of this layout: [`RECORD_FORMAT`](crate::RECORD_FORMAT).
    pub format: u32,
    /// The program.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The command with its arguments, as it was given.
    pub command: Vec<String>,
    /// When the run began: RFC 3339, UTC.
    pub date: String,
    /// The machine.
    pub host: HostRecord,
    /// The files that were read, images in the order of the command.
    pub inputs: Vec<InputRecord>,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The grid of all images.
    pub grid: GridRecord,
    /// Named numbers: `images`, `total_energy`.
    pub figures: BTreeMap<String, f64>,
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
    pub fn new(run: RunRecord, grid: GridRecord) -> Self {
        Self {
            format: run.format,
            program: run.program,
            version: run.version,
            command: run.command,
            date: run.date,
            host: run.host,
            inputs: run.inputs,
            parameters: run.parameters,
            grid,
            figures: BTreeMap::new(),
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
        }
    }

    /// The record as indented JSON with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        // All keys are strings and no field's serialiser fails, so there is always a text.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}
