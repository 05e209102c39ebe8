//! The record of simulated X-ray images.

use super::{GridRecord, ViewRecord};
use serde::{Deserialize, Serialize};
use voxalign_register::Verdict;
use voxalign_register::numbers::null_is_nan;

record! {
    /// All that is worth keeping of simulated X-ray images: what their `result.json` holds. Numbers that are not finite
    /// are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
    DrrRecord {
        /// The grid of the CT.
        pub grid: GridRecord,
        /// The images, in the order in which they were made.
        pub images: Vec<DrrImageRecord>,
    }
}

begun!(DrrRecord verdict: Verdict::new(Vec::new(), Vec::new()));

/// A simulated X-ray image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrrImageRecord {
    /// Its name, which distinguishes it from the others.
    pub name: String,
    /// Source and detector.
    pub view: ViewRecord,
    /// Rows of the 3x4 matrix from the room to the world of the CT, mm.
    pub pose: [[f64; 4]; 3],
    /// The rotation of the CT in the room relative to its own world, about axes through `centre_mm` along x, y and
    /// z, applied in this order, degrees.
    pub rotation_degrees: [f64; 3],
    /// The translation in the room after that along x, y and z, mm.
    pub translation_mm: [f64; 3],
    /// The centre of rotation, a point of the CT in its own world, mm.
    pub centre_mm: [f64; 3],
    /// The least value of a pixel.
    #[serde(deserialize_with = "null_is_nan")]
    pub least: f64,
    /// The largest value of a pixel.
    #[serde(deserialize_with = "null_is_nan")]
    pub most: f64,
    /// The quantity, such as `attenuation` (without a unit), `intensity`, `mm HU`.
    pub unit: String,
    /// The values that the smallest and the largest 16-bit number represent in PNG and DICOM files, from the
    /// smallest to the largest of all images of a view; none where no file has whole numbers.
    #[serde(default)]
    pub window: Option<[f64; 2]>,
    /// The files that hold it.
    pub files: Vec<String>,
}
