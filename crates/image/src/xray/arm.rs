//! Geometries of C-arms and treatment machines.

use super::XrayGeometry;
use crate::error::Result;
use nalgebra::{Rotation3, Vector3};

/// A C-arm, with the angles of its detector about the patient as DICOM has them (Positioner Primary and Secondary
/// Angle). At 0 the detector is in front of the patient and the source behind; the image is shown with the patient's left on
/// its right, and with the head up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CArm {
    /// From the source to the isocentre, mm.
    pub source_to_isocentre: f64,
    /// From the source to the detector, mm.
    pub source_to_detector: f64,
    /// The point that stays where it is when the arm turns, mm.
    pub isocentre: Vector3<f64>,
    /// Turns the detector to the patient's left (LAO); to the right (RAO) below 0. Radians.
    pub primary: f64,
    /// Turns the detector to the head (cranial); to the feet (caudal) below 0. Radians.
    pub secondary: f64,
    /// Sizes of a pixel along columns and rows, mm.
    pub pixel_size: [f64; 2],
    /// Columns and rows.
    pub dims: [usize; 2],
    /// The column and row that the ray through the isocentre meets; the middle of the detector where there is none.
    pub centre: Option<[f64; 2]>,
}

impl CArm {
    /// Its geometry.
    ///
    /// # Errors
    /// As [`XrayGeometry::new`]; a detector that is not farther from the source than the isocentre.
    pub fn geometry(&self) -> Result<XrayGeometry> {
        // About the long axis of the patient to the left: from the front (+y) to -x.
        let primary = Rotation3::from_axis_angle(&Vector3::z_axis(), self.primary);
        // About the axis from right to left, which the first angle turned: from the front to the head.
        let secondary = Rotation3::from_axis_angle(&Vector3::x_axis(), self.secondary);
        let turn = primary * secondary;
        let to_detector = turn * Vector3::y();
        self.with(to_detector, turn * -Vector3::x(), turn * -Vector3::z())
    }

    fn with(
        &self,
        to_detector: Vector3<f64>,
        column: Vector3<f64>,
        row: Vector3<f64>,
    ) -> Result<XrayGeometry> {
        let (near, far) = (self.source_to_isocentre, self.source_to_detector);
        // Not so where one is not a number, either.
        if !(near > 0.0 && far >= near) {
            return Err(super::wrong(
                &format!(
                    "a detector {far} mm from the source and an isocentre {near} mm from it, so the detector is \
                     in front of the isocentre or behind the source"
                ),
                "give distances above 0, with the detector no nearer than the isocentre",
            ));
        }
        let middle = [0, 1].map(|a| (self.dims[a] as f64 - 1.0) / 2.0);
        let [u, v] = self.centre.unwrap_or(middle);
        let (column, row) = (column * self.pixel_size[0], row * self.pixel_size[1]);
        let source = self.isocentre - to_detector * near;
        let origin = source + to_detector * far - column * u - row * v;
        XrayGeometry::new(source, origin, column, row, self.dims)
    }
}

/// A machine whose source rotates about the long axis of a patient who lies supine, head first (LINAC, simulator).
/// The image is seen from the source (beam's eye view), with the head up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gantry {
    /// Distances, isocentre and detector; the angles are not looked at.
    pub arm: CArm,
    /// IEC 61217: 0 with the source in front of the patient, a quarter turn with the source at the patient's left.
    /// Radians.
    pub angle: f64,
}

impl Gantry {
    /// The angle of a picture from the front (AP).
    pub const AP: f64 = 0.0;
    /// The angle of a picture from the patient's right to the left.
    pub const LATERAL: f64 = -std::f64::consts::FRAC_PI_2;

    /// Its geometry.
    ///
    /// # Errors
    /// As [`CArm::geometry`].
    pub fn geometry(&self) -> Result<XrayGeometry> {
        let turn = Rotation3::from_axis_angle(&Vector3::z_axis(), self.angle);
        let to_detector = turn * -Vector3::y();
        // Seen from the source, the head up: the patient's left is on the right at 0.
        self.arm.with(to_detector, turn * -Vector3::x(), -Vector3::z())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_2;

    fn arm() -> CArm {
        CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1000.0,
            isocentre: Vector3::new(1.0, 2.0, 3.0),
            primary: 0.0,
            secondary: 0.0,
            pixel_size: [0.5, 0.25],
            dims: [201, 401],
            centre: None,
        }
    }

    fn near(a: Vector3<f64>, b: [f64; 3]) {
        assert!((a - Vector3::from(b)).norm() < 1e-9, "{a} {b:?}");
    }

    #[test]
    fn angles_of_a_c_arm_are_those_of_dicom() {
        let front = arm().geometry().unwrap();
        near(front.source(), [1.0, -698.0, 3.0]);
        near(front.centre(), [1.0, 302.0, 3.0]);
        // The patient's left is on the right, the head is up.
        let [column, row] = front.project(Vector3::new(-9.0, 2.0, 13.0)).unwrap();
        assert!(column > 100.0 && row < 200.0, "{column} {row}");
        assert!((front.magnification(arm().isocentre).unwrap() - 1.0 / 0.7).abs() < 1e-12);

        let left = CArm { primary: FRAC_PI_2, ..arm() }.geometry().unwrap();
        near(left.centre(), [-299.0, 2.0, 3.0]);
        let head = CArm { secondary: FRAC_PI_2, ..arm() }.geometry().unwrap();
        near(head.centre(), [1.0, 2.0, 303.0]);
        let both = CArm { primary: FRAC_PI_2, secondary: 0.1, ..arm() }.geometry().unwrap();
        near(both.centre(), [1.0 - 300.0 * 0.1f64.cos(), 2.0, 3.0 + 300.0 * 0.1f64.sin()]);
        let aside = CArm { centre: Some([0.0, 10.0]), ..arm() }.geometry().unwrap();
        let [column, row] = aside.project(arm().isocentre).unwrap();
        assert!(column.abs() < 1e-9 && (row - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_gantry_turns_the_source_to_the_left() {
        let at = |angle| Gantry { arm: arm(), angle }.geometry().unwrap();
        near(at(Gantry::AP).source(), [1.0, 702.0, 3.0]);
        near(at(FRAC_PI_2).source(), [-699.0, 2.0, 3.0]);
        let lateral = at(Gantry::LATERAL);
        near(lateral.source(), [701.0, 2.0, 3.0]);
        // From the right: the front is on the right.
        let [column, row] = lateral.project(Vector3::new(1.0, 12.0, 13.0)).unwrap();
        assert!(column > 100.0 && row < 200.0, "{column} {row}");
        let [column, _] = at(0.0).project(Vector3::new(-9.0, 2.0, 3.0)).unwrap();
        assert!(column > 100.0);
    }

    #[test]
    fn detectors_behind_the_source_are_refused() {
        for (near, far) in [(700.0, 600.0), (700.0, -1000.0), (-5.0, 10.0), (f64::NAN, 1.0)] {
            let arm = CArm { source_to_isocentre: near, source_to_detector: far, ..arm() };
            assert!(arm.geometry().is_err(), "{near} {far}");
            assert!(Gantry { arm, angle: 0.0 }.geometry().is_err());
        }
    }
}
