//! Rotation and flips of an image relative to the detector (PS3.3, C.8.11.4).

use crate::error::{Result, shorten};
use crate::image::Oddity;
use crate::image::dicom::{Pictures, tags};
use crate::xray::Xray;
use voxalign_image::{CArm, ImageError, XrayGeometry};

/// What was done to the picture of the detector: turned clockwise, then mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Field {
    /// Quarter turns, 0 to 3.
    quarters: u8,
    /// Left and right are exchanged.
    mirrored: bool,
}

impl Field {
    /// What the header says, with an oddity where it says that something was done; an error in words where that is not understood.
    pub(super) fn read(
        file: &Pictures<'_>,
        image: &mut Xray,
    ) -> Result<std::result::Result<Self, String>> {
        let turned = file.exactly::<1>(tags::VIEW_ROTATION)?.map_or(0.0, |[degrees]| degrees);
        let Some(quarters) = [0.0, 90.0, 180.0, 270.0].iter().position(|&v| v == turned) else {
            return Ok(Err(format!(
                "FieldOfViewRotation (0018,7032) is {turned}; only 0, 90, 180 and 270 are supported"
            )));
        };
        let mirrored = match file.text(tags::VIEW_FLIP).as_deref() {
            None | Some("NO") => false,
            Some("YES") => true,
            Some(other) => {
                return Ok(Err(format!(
                    "FieldOfViewHorizontalFlip (0018,7034) is '{}'; only YES and NO are supported",
                    shorten(other)
                )));
            }
        };
        let field = Self { quarters: quarters as u8, mirrored };
        let mut done = Vec::new();
        if quarters > 0 {
            done.push(format!("turned clockwise by {turned} degrees (0018,7032)"));
        }
        if mirrored {
            done.push("mirrored from left to right (0018,7034)".to_owned());
        }
        if !done.is_empty() {
            image.say(Oddity::Other(format!(
                "the picture of the detector was {}; it is read as it is stored, and a geometry of its header is that \
                 of the stored picture",
                done.join(", then ")
            )));
        }
        Ok(Ok(field))
    }

    /// The geometry of the stored picture, where `arm` has its columns, rows and sizes of pixels.
    pub(super) fn geometry(self, arm: &CArm) -> std::result::Result<XrayGeometry, ImageError> {
        let swap = |[a, b]: [usize; 2]| if self.quarters % 2 == 1 { [b, a] } else { [a, b] };
        let [along, down] = arm.pixel_size;
        let pixel_size = if self.quarters % 2 == 1 { [down, along] } else { [along, down] };
        let detector = CArm { dims: swap(arm.dims), pixel_size, ..*arm }.geometry()?;
        let [columns, rows] = detector.dims().map(|n| n as f64 - 1.0);
        let (column, row) = (detector.column(), detector.row());
        // Where the first pixel comes from, and where steps to the next column and row lead there.
        let (first, next_column, next_row) = match self.quarters {
            0 => (detector.origin(), column, row),
            1 => (detector.place(0.0, rows), -row, column),
            2 => (detector.place(columns, rows), -column, -row),
            _ => (detector.place(columns, 0.0), row, -column),
        };
        let last = first + next_column * (arm.dims[0] as f64 - 1.0);
        let (first, next_column) =
            if self.mirrored { (last, -next_column) } else { (first, next_column) };
        XrayGeometry::new(detector.source(), first, next_column, next_row, arm.dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Vector3;

    #[test]
    fn pixels_keep_their_places() {
        let arm = CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1000.0,
            isocentre: Vector3::zeros(),
            primary: 0.4,
            secondary: -0.2,
            pixel_size: [0.5, 0.25],
            dims: [4, 3],
            centre: None,
        };
        let detector = arm.geometry().unwrap();
        // The picture of the detector as a table of places, turned and mirrored as pictures are.
        let mut table: Vec<Vec<_>> = (0..3)
            .map(|r| (0..4).map(|c| detector.place(f64::from(c), f64::from(r))).collect())
            .collect();
        for quarters in 0..4u8 {
            for mirrored in [false, true] {
                let mut stored = table.clone();
                if mirrored {
                    stored.iter_mut().for_each(|line| line.reverse());
                }
                let dims = [stored[0].len(), stored.len()];
                let pixel_size = if quarters % 2 == 1 { [0.25, 0.5] } else { [0.5, 0.25] };
                let field = Field { quarters, mirrored };
                let view = field.geometry(&CArm { dims, pixel_size, ..arm }).unwrap();
                assert!((view.source() - detector.source()).norm() < 1e-9);
                assert_eq!(view.dims(), dims);
                for (r, line) in stored.iter().enumerate() {
                    for (c, &place) in line.iter().enumerate() {
                        let off = (view.place(c as f64, r as f64) - place).norm();
                        assert!(off < 1e-9, "{field:?} {c} {r} {off}");
                    }
                }
            }
            // Clockwise: what was the lowest line of a column is first in its line.
            let width = table[0].len();
            let rows: Vec<_> = table.iter().rev().collect();
            table = (0..width).map(|c| rows.iter().map(|line| line[c]).collect()).collect();
        }
    }
}
