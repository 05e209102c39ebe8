//! The provenance of a result.

use super::{HostRecord, InputRecord, RunRecord};
use serde::{Deserialize, Serialize};
use voxalign_register::limits::Limits;

/// The beginning of every record: program, command, machine, inputs and the bounds of verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the layout of the record: [`RECORD_FORMAT`](crate::RECORD_FORMAT).
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
    /// The files that were read.
    pub inputs: Vec<InputRecord>,
    /// The bounds of verdicts, and the data that they were calibrated on; none in records of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

impl Default for Provenance {
    fn default() -> Self {
        RunRecord::default().into()
    }
}

impl From<RunRecord> for Provenance {
    fn from(run: RunRecord) -> Self {
        Self {
            format: run.format,
            program: run.program,
            version: run.version,
            command: run.command,
            date: run.date,
            host: run.host,
            inputs: run.inputs,
            limits: run.limits,
        }
    }
}

impl Provenance {
    /// A record with this and nothing else.
    pub(crate) fn into_run(self) -> RunRecord {
        RunRecord {
            format: self.format,
            program: self.program,
            version: self.version,
            command: self.command,
            date: self.date,
            host: self.host,
            inputs: self.inputs,
            limits: self.limits,
            ..RunRecord::default()
        }
    }
}
