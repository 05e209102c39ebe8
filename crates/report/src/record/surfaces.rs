//! The record of surfaces of many labels.

use super::surface::SurfaceFound;
use super::{GridRecord, OutputRecord, Provenance};
use serde::Serialize;
use std::collections::BTreeMap;
use voxalign_register::Verdict;

/// The surface of a label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelSurface {
    /// The label.
    pub label: i32,
    /// Its name, where a table has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The mesh, in the folder of the record.
    pub file: String,
    /// What was found.
    #[serde(flatten)]
    pub found: SurfaceFound,
}

impl LabelSurface {
    /// The label with its name.
    pub(crate) fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.label),
            None => format!("label {}", self.label),
        }
    }
}

/// All that is worth keeping of the surfaces of many labels: `result.json`. Numbers that are not finite are written as
/// `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SurfacesRecord {
    /// Program, command, machine and inputs.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The grid of the label map.
    pub grid: GridRecord,
    /// The surfaces, in the order of their labels.
    pub surfaces: Vec<LabelSurface>,
    /// Wall time of each part in seconds.
    pub timings: BTreeMap<String, f64>,
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Whether all can be used, and why: each check with the labels that do not meet it.
    pub verdict: Verdict,
}
