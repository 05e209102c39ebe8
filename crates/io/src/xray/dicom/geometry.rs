//! Source and detector in DICOM headers: of C-arms (PS3.3, C.8.7.5) and of treatment machines (C.8.8.2).

use super::field::Field;
use crate::error::Result;
use crate::image::Oddity;
use crate::image::dicom::{Pictures, tags};
use crate::xray::Xray;
use voxalign_image::{CArm, Gantry, ImageError, Vector3, XrayGeometry};

/// What keeps a header from having a geometry.
enum Gap {
    /// An attribute that is not there.
    Missing(&'static str),
    /// What is there and not understood.
    Said(String),
}

type Found<T> = std::result::Result<T, Gap>;

/// Sets the geometry, or what is missing for it.
pub(super) fn read(file: &Pictures<'_>, image: &mut Xray) -> Result<()> {
    let is_treatment = file.text(tags::MODALITY).as_deref() == Some("RTIMAGE")
        || !file.numbers(tags::SOURCE_TO_IMAGE)?.is_empty();
    let found = if is_treatment {
        gantry(file)?
    } else {
        match Field::read(file, image)? {
            Ok(field) => c_arm(file, field)?,
            Err(words) => Err(Gap::Said(words)),
        }
    };
    match found {
        Ok(view) => {
            moving(file, image)?;
            if let (false, Some(modality)) = (is_treatment, to_table(file)) {
                image.say(Oddity::Other(format!(
                    "DistanceSourceToPatient (0018,1111) of {modality} is the distance of the table, not of an isocentre: \
                     the origin is where the middle ray meets that side of the table, and each image has an origin of \
                     its own; give `geometry` for several together"
                )));
            }
            if let Some(said) = mirrored(file, &view) {
                image.say(Oddity::Other(said));
            }
            image.geometry = Some(view);
        }
        Err(Gap::Missing(name)) => image.missing = Some(name),
        Err(Gap::Said(words)) => {
            image.say(Oddity::Other(format!("{words}; the geometry in its header is not used")));
        }
    }
    Ok(())
}

/// So many numbers of an attribute, or its name.
macro_rules! needed {
    ($file:expr, $tag:expr, $name:literal) => {
        match $file.exactly($tag)? {
            Some(numbers) => numbers,
            None => return Ok(Err(Gap::Missing($name))),
        }
    };
}

fn made(view: std::result::Result<XrayGeometry, ImageError>) -> Found<XrayGeometry> {
    view.map_err(|e| match e {
        ImageError::Xray { what, .. } => Gap::Said(format!("its header says {what}")),
        other => Gap::Said(other.to_string()),
    })
}

/// The modality of an image whose distance to the patient ends at the table (PS3.3, C.8.7.8 and C.8.11.5), and not at an
/// isocentre as that of XA and RF does.
fn to_table(file: &Pictures<'_>) -> Option<String> {
    file.text(tags::MODALITY).filter(|m| ["CR", "DX", "MG", "PX", "IO"].contains(&m.as_str()))
}

/// The geometry of XA and RF images. The isocentre is the world's origin, unless its place in the patient is said. For
/// other machines, what [`to_table`] says.
fn c_arm(file: &Pictures<'_>, field: Field) -> Result<Found<XrayGeometry>> {
    let [far] = needed!(file, tags::SOURCE_TO_DETECTOR, "DistanceSourceToDetector (0018,1110)");
    let [near] = needed!(file, tags::SOURCE_TO_PATIENT, "DistanceSourceToPatient (0018,1111)");
    let [primary] = needed!(file, tags::PRIMARY_ANGLE, "PositionerPrimaryAngle (0018,1510)");
    let [secondary] = needed!(file, tags::SECONDARY_ANGLE, "PositionerSecondaryAngle (0018,1511)");
    let [down, along] = needed!(file, tags::IMAGER_PIXEL_SPACING, "ImagerPixelSpacing (0018,1164)");
    let place = file.exactly(tags::ISOCENTRE)?.unwrap_or([0.0; 3]);
    let arm = CArm {
        source_to_isocentre: near,
        source_to_detector: far,
        isocentre: in_patient(place),
        primary: primary.to_radians(),
        secondary: secondary.to_radians(),
        pixel_size: [along, down],
        dims: file.dims(),
        centre: None,
    };
    Ok(made(field.geometry(&arm)))
}

/// A place in the patient, which DICOM has in LPS.
fn in_patient([left, back, up]: [f64; 3]) -> Vector3<f64> {
    Vector3::new(-left, -back, up)
}

/// The geometry of RT images, in the world of the patient.
fn gantry(file: &Pictures<'_>) -> Result<Found<XrayGeometry>> {
    let [angle] = needed!(file, tags::GANTRY_ANGLE, "GantryAngle (300A,011E)");
    let [near] = needed!(file, tags::SOURCE_TO_AXIS, "RadiationMachineSAD (3002,0022)");
    let [far] = needed!(file, tags::SOURCE_TO_IMAGE, "RTImageSID (3002,0026)");
    let [down, along] =
        needed!(file, tags::IMAGE_PLANE_SPACING, "ImagePlanePixelSpacing (3002,0011)");
    let [x, y] = needed!(file, tags::IMAGE_POSITION_IEC, "RTImagePosition (3002,0012)");
    let place = needed!(file, tags::ISOCENTRE, "IsocenterPosition (300A,012C)");
    if let Some(words) = unusual(file)? {
        return Ok(Err(Gap::Said(words)));
    }
    // Where the receptor's own origin is beside the axis of the beam.
    let [aside, head, _] = file.exactly(tags::RECEPTOR_TRANSLATION)?.unwrap_or([0.0; 3]);
    let arm = CArm {
        source_to_isocentre: near,
        source_to_detector: far,
        isocentre: in_patient(place),
        primary: 0.0,
        secondary: 0.0,
        pixel_size: [along, down],
        dims: file.dims(),
        // The first pixel is at (x, y) mm; columns go on in x and rows back in y.
        centre: Some([-(x + aside) / along, (y + head) / down]),
    };
    Ok(made(Gantry { arm, angle: angle.to_radians() }.geometry()))
}

/// What of a treatment machine is not as [`Gantry`] has it.
fn unusual(file: &Pictures<'_>) -> Result<Option<String>> {
    if let Some(position) = file.text(tags::PATIENT_POSITION).filter(|p| p != "HFS") {
        return Ok(Some(format!("the patient lies as {position}; only HFS is supported")));
    }
    if let Some(axes) = file.exactly::<6>(tags::IMAGE_ORIENTATION_IEC)? {
        let usual = [1.0, 0.0, 0.0, 0.0, -1.0, 0.0];
        if axes.iter().zip(usual).any(|(a, b)| (a - b).abs() > 1e-4) {
            let words = format!("rows and columns of the image have the directions {axes:?}");
            return Ok(Some(words));
        }
    }
    for (tag, what) in [(tags::RECEPTOR_ANGLE, "detector"), (tags::SUPPORT_ANGLE, "table")] {
        let turned = file.numbers(tag)?.first().copied().unwrap_or(0.0) % 360.0;
        if turned != 0.0 {
            return Ok(Some(format!("the {what} is turned by {turned} degrees")));
        }
    }
    Ok(None)
}

/// Says where the arm turns between frames.
fn moving(file: &Pictures<'_>, image: &mut Xray) -> Result<()> {
    for tag in [tags::PRIMARY_INCREMENTS, tags::SECONDARY_INCREMENTS] {
        if file.count() > 1 && file.numbers(tag)?.iter().any(|step| *step != 0.0) {
            let words =
                "the arm turns while the frames are taken; the geometry is that of the first one";
            image.say(Oddity::Other(words.into()));
        }
    }
    Ok(())
}

/// Says where the header has another side of the patient at an end of rows or columns than the geometry has.
fn mirrored(file: &Pictures<'_>, view: &XrayGeometry) -> Option<String> {
    let said = file.text(tags::PATIENT_ORIENTATION)?;
    let mut ends = said.split('\\').map(|end| end.trim().chars().next());
    for (what, direction) in [("rows", view.column()), ("columns", view.row())] {
        let end = ends.next()??;
        let (side, other) = sides(direction);
        if end == other {
            return Some(format!(
                "PatientOrientation (0020,0020) '{said}' says that {what} go to {end}, and the angles of the \
                 machine that they go to {side}; the geometry may be mirrored"
            ));
        }
    }
    None
}

/// The side of the patient to which a direction goes most, and the one across, as DICOM names them.
pub(super) fn sides(direction: Vector3<f64>) -> (char, char) {
    let of = [('R', 'L'), ('A', 'P'), ('H', 'F')];
    let axis = direction.iamax();
    let (plus, minus) = of[axis];
    if direction[axis] < 0.0 { (minus, plus) } else { (plus, minus) }
}

/// The attributes that say a geometry; nothing where DICOM has none for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Expressed {
    /// A C-arm.
    Arm(CArm),
    /// A treatment machine.
    Machine { gantry: Gantry, first: [f64; 2] },
}

/// How far the corners of the detector and the source may be from where they are by the attributes, mm.
const NEAR: f64 = 1e-4;

impl Expressed {
    /// How a geometry is said, about an isocentre that is known. Where it is not, a C-arm turns about the world's origin,
    /// and the isocentre of a treatment machine is the point of the beam's axis next to that.
    pub(super) fn of(view: &XrayGeometry, isocentre: Option<Vector3<f64>>) -> Option<Self> {
        let arm = Self::arm(view, isocentre.unwrap_or_default());
        arm.or_else(|| Self::machine(view, isocentre.unwrap_or_else(|| on_axis(view))))
    }

    fn arm(view: &XrayGeometry, isocentre: Vector3<f64>) -> Option<Self> {
        let to = view.normal();
        let arm = CArm {
            source_to_isocentre: near(view, isocentre),
            source_to_detector: view.source_to_detector(),
            isocentre,
            primary: (-to.x).atan2(to.y),
            secondary: to.z.clamp(-1.0, 1.0).asin(),
            pixel_size: view.pixel_size(),
            dims: view.dims(),
            centre: None,
        };
        arm.geometry().ok().filter(|other| same(view, other)).map(|_| Self::Arm(arm))
    }

    fn machine(view: &XrayGeometry, isocentre: Vector3<f64>) -> Option<Self> {
        let to = view.normal();
        let [u, v] = view.project(isocentre)?;
        let [along, down] = view.pixel_size();
        let arm = CArm {
            source_to_isocentre: near(view, isocentre),
            source_to_detector: view.source_to_detector(),
            isocentre,
            primary: 0.0,
            secondary: 0.0,
            pixel_size: [along, down],
            dims: view.dims(),
            centre: Some([u, v]),
        };
        let gantry = Gantry { arm, angle: to.x.atan2(-to.y) };
        let other = gantry.geometry().ok().filter(|other| same(view, other));
        other.map(|_| Self::Machine { gantry, first: [-u * along, v * down] })
    }

    /// The isocentre, mm.
    pub(super) fn isocentre(&self) -> Vector3<f64> {
        match self {
            Self::Arm(arm) => arm.isocentre,
            Self::Machine { gantry, .. } => gantry.arm.isocentre,
        }
    }
}

/// How far the isocentre is from the source along the beam's axis, mm: no farther than the detector by rounding alone.
fn near(view: &XrayGeometry, isocentre: Vector3<f64>) -> f64 {
    let near = view.normal().dot(&(isocentre - view.source()));
    let far = view.source_to_detector();
    if (near - far).abs() < NEAR { near.min(far) } else { near }
}

/// The point of the beam's axis next to the world's origin, or on the detector where the origin is not before it.
fn on_axis(view: &XrayGeometry) -> Vector3<f64> {
    let to = view.normal();
    let (near, far) = (-to.dot(&view.source()), view.source_to_detector());
    view.source() + to * if near > 0.0 && near <= far { near } else { far }
}

/// Whether two geometries have the source and the corners of the detector at the same places.
fn same(a: &XrayGeometry, b: &XrayGeometry) -> bool {
    let [columns, rows] = a.dims().map(|n| n as f64 - 1.0);
    let corners = [[0.0, 0.0], [columns, 0.0], [0.0, rows]];
    let apart = corners.map(|[c, r]| (a.place(c, r) - b.place(c, r)).norm());
    let steps = [(a.column() - b.column()).norm(), (a.row() - b.row()).norm()];
    let all = apart.into_iter().chain(steps).chain([(a.source() - b.source()).norm()]);
    all.fold(0.0, f64::max) < NEAR
}
