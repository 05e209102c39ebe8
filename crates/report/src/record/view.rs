//! The geometry of X-ray images in records.

use serde::{Deserialize, Serialize};
use voxalign_image::XrayGeometry;

/// How an X-ray image was taken: the places of source and detector in the room, mm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ViewRecord {
    /// The name of the view.
    pub name: String,
    /// The place of the source, mm.
    pub source: [f64; 3],
    /// The centre of the first pixel, mm.
    pub origin: [f64; 3],
    /// The step from a pixel to that of the next column, mm.
    pub column: [f64; 3],
    /// The step from a pixel to that of the next row, mm.
    pub row: [f64; 3],
    /// Columns and rows.
    pub size: [usize; 2],
    /// From the source to the plane of the detector, mm.
    pub source_to_detector_mm: f64,
    /// The sizes of a pixel along columns and rows, mm.
    pub pixel_mm: [f64; 2],
}

impl ViewRecord {
    /// The record of a geometry under a name.
    #[must_use]
    pub fn new(name: impl Into<String>, view: &XrayGeometry) -> Self {
        Self {
            name: name.into(),
            source: view.source().into(),
            origin: view.origin().into(),
            column: view.column().into(),
            row: view.row().into(),
            size: view.dims(),
            source_to_detector_mm: view.source_to_detector(),
            pixel_mm: view.pixel_size(),
        }
    }

    /// The record of a region of its detector.
    pub(crate) fn part(&self, [x, y, columns, rows]: [usize; 4]) -> Self {
        let place = |a: usize| self.origin[a] + self.column[a] * x as f64 + self.row[a] * y as f64;
        Self { origin: [0, 1, 2].map(place), size: [columns, rows], ..self.clone() }
    }

    /// Width and height of a picture of it in true proportion, mm.
    pub(crate) fn extent(&self) -> [f64; 2] {
        [0, 1].map(|a| self.size[a] as f64 * self.pixel_mm[a])
    }
}

impl From<(&str, &XrayGeometry)> for ViewRecord {
    fn from((name, view): (&str, &XrayGeometry)) -> Self {
        Self::new(name, view)
    }
}
