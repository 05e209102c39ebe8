//! The record of surfaces of many labels.

use super::GridRecord;
use super::surface::SurfaceFound;
use serde::Serialize;
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
    /// The results.
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

record! {
    /// All that is worth keeping of the surfaces of many labels: `result.json`. Numbers that are not finite are written as
    /// `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    SurfacesRecord {
        /// The grid of the label map.
        pub grid: GridRecord,
        /// The surfaces, in the order of their labels.
        pub surfaces: Vec<LabelSurface>,
    }
}

begun!(SurfacesRecord verdict: Verdict::new(Vec::new(), Vec::new()));
