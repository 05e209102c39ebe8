//! Writing DICOM secondary captures (PS3.3, A.8).

use super::elements::Elements;
use super::geometry::{Expressed, sides};
use super::signal::Signal;
use super::study::{Series, Study};
use crate::atomic;
use crate::error::{IoError, Result};
use crate::image::dicom::tags;
use crate::xray::window::Window;
use crate::xray::write::XrayToWrite;
use sha2::{Digest, Sha256};
use std::io;
use std::path::Path;
use voxalign_image::Vector3;

/// Values converted at a time.
const PIECE: usize = 1 << 16;
/// Secondary Capture Image Storage, and that of several frames of words.
const CAPTURE: &str = "1.2.840.10008.5.1.4.1.1.7";
const CAPTURES: &str = "1.2.840.10008.5.1.4.1.1.7.3";
/// Page Number Vector, and how many pages it may have: it has 64 KiB at most.
const PAGES: u32 = 0x0018_2001;
const MOST_PAGES: usize = 10_000;
/// What the implementation's UID is made of.
const IMPLEMENTATION: &[u8] = b"voxalign";

/// Writes all frames; whether the geometry is in it.
pub(in crate::xray) fn write(path: &Path, image: &XrayToWrite<'_>, window: Window) -> Result<bool> {
    let [columns, rows] = image.dims;
    let refused = |what: String| {
        IoError::unsupported(path, what, "write a TIFF file, or fewer frames to each file")
    };
    let words = [columns, rows].map(u16::try_from);
    let [Ok(columns), Ok(rows)] = words else {
        return Err(refused(format!(
            "DICOM has at most 65535 columns and rows, not {columns} x {rows}"
        )));
    };
    let bytes = u32::try_from(2 * image.values.len() as u64).ok().filter(|n| *n < u32::MAX - 1);
    let Some(bytes) = bytes else {
        let count = image.values.len();
        return Err(refused(format!("DICOM holds less than 4 GiB, and there are {count} values")));
    };
    if image.frames() > MOST_PAGES {
        return Err(refused(format!("at most {MOST_PAGES} frames are written to a DICOM file")));
    }
    let said = image.geometry.as_ref().and_then(|view| Expressed::of(view, image.isocentre));
    let class = if image.frames() > 1 { CAPTURES } else { CAPTURE };
    let uids = Uids::of(image, window);

    let mut set = Elements::default();
    let (series, number) = image.series.unzip();
    let study = series.and_then(|series| series.study.as_ref());
    let of_study = OfStudy(study);
    identity(&mut set, class, &uids, (series, of_study));
    of_study.put(&mut set, tags::PATIENT_NAME);
    of_study.put(&mut set, tags::PATIENT_ID);
    of_study.put_known(&mut set, tags::PATIENT_ID_ISSUER);
    of_study.put(&mut set, tags::PATIENT_BIRTH_DATE);
    of_study.put(&mut set, tags::PATIENT_SEX);
    acquisition(&mut set, image, said);
    let own = uids.together("study");
    set.uid(tags::STUDY_UID, study.and_then(Study::uid).unwrap_or(&own));
    set.uid(tags::SERIES_UID, &uids.together("series"));
    of_study.put(&mut set, tags::STUDY_ID);
    // Numbers of series of a study that is there are not known.
    let first = if study.and_then(Study::uid).is_some() { "" } else { "1" };
    set.text(tags::SERIES_NUMBER, b"IS", first);
    set.text(tags::INSTANCE_NUMBER, b"IS", &number.unwrap_or(1).to_string());
    let orientation = said.and(image.geometry).map(|view| {
        let ends = [view.column(), view.row()].map(|direction| sides(direction).0);
        format!("{}\\{}", ends[0], ends[1])
    });
    set.text(tags::PATIENT_ORIENTATION, b"CS", &orientation.unwrap_or_default());
    // Laterality.
    set.text(0x0020_0060, b"CS", "");
    pixels(&mut set, image, [columns, rows], window);
    if image.frames() > 1 {
        // Presentation LUT Shape.
        set.text(0x2050_0020, b"CS", "IDENTITY");
    }
    if let Some(said) = said {
        machine(&mut set, said);
    }
    set.long(tags::PIXELS, b"OW", bytes);

    let head = [meta(class, &uids), set.0].concat();
    atomic::write_file(path, |sink| {
        sink.write_all(&head)?;
        each_piece(image.values, window, |bytes| sink.write_all(bytes))
    })?;
    Ok(said.is_some())
}

/// Converts values to stored ones a piece at a time.
fn each_piece(
    values: &[f32],
    window: Window,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(2 * PIECE);
    for piece in values.chunks(PIECE) {
        bytes.clear();
        bytes.extend(piece.iter().flat_map(|&v| window.stored(v).to_le_bytes()));
        take(&bytes)?;
    }
    Ok(())
}

/// UIDs that are made of the content.
struct Uids {
    image: Sha256,
    /// Of all images that belong together.
    series: Sha256,
}

impl Uids {
    fn of(image: &XrayToWrite<'_>, window: Window) -> Self {
        let mut hash = Sha256::new();
        let mut add = |v: f64| hash.update(v.to_bits().to_le_bytes());
        let places = image.geometry.map(|g| [g.source(), g.origin(), g.column(), g.row()]);
        let numbers = places.iter().flatten().chain(&image.isocentre).flatten().copied();
        let size = image.pixel_size().unwrap_or_default();
        image.dims.iter().for_each(|&n| add(n as f64));
        [window.low, window.high].into_iter().chain(size).chain(numbers).for_each(&mut add);
        // Hashing does not fail.
        let _ = each_piece(image.values, window, |bytes| {
            hash.update(bytes);
            Ok(())
        });
        match image.series {
            Some((series, number)) => {
                let of_series = Sha256::new_with_prefix(&series.key);
                hash.update(number.to_le_bytes());
                hash.update(of_series.clone().finalize());
                Self { image: hash, series: of_series }
            }
            None => Self { series: hash.clone(), image: hash },
        }
    }

    fn instance(&self) -> String {
        uid(self.image.clone().chain_update("instance"))
    }

    /// That of a study or a series.
    fn together(&self, kind: &str) -> String {
        uid(self.series.clone().chain_update(kind))
    }
}

/// What is taken over of a study.
#[derive(Clone, Copy)]
struct OfStudy<'a>(Option<&'a Study>);

impl OfStudy<'_> {
    /// An attribute, empty where the study does not say it.
    fn put(self, set: &mut Elements, tag: u32) {
        let value = self.0.and_then(|study| study.value(tag));
        let kind = tags::representation(tag).unwrap_or(*b"LO");
        set.encoded(tag, &kind, value.unwrap_or_default());
    }

    /// An attribute, only where the study says it.
    fn put_known(self, set: &mut Elements, tag: u32) {
        if self.0.is_some_and(|study| study.value(tag).is_some()) {
            self.put(set, tag);
        }
    }
}

/// A UID of the kind that every UUID is (PS3.5, B.2), here one of a hash (RFC 9562, version 8).
fn uid(hash: Sha256) -> String {
    let sum = hash.finalize();
    let number = sum.iter().take(16).fold(0u128, |n, &byte| n << 8 | u128::from(byte));
    let number = number & !(0xF << 76) & !(0x3 << 62) | 0x8 << 76 | 0x2 << 62;
    format!("2.25.{number}")
}

/// What is before the data set (PS3.10, 7.1).
fn meta(class: &str, uids: &Uids) -> Vec<u8> {
    let mut set = Elements::default();
    set.long(0x0002_0001, b"OB", 2);
    set.0.extend([0, 1]);
    set.uid(0x0002_0002, class);
    set.uid(0x0002_0003, &uids.instance());
    set.uid(tags::TRANSFER_SYNTAX, "1.2.840.10008.1.2.1");
    set.uid(0x0002_0012, &uid(Sha256::new_with_prefix(IMPLEMENTATION)));
    set.text(0x0002_0013, b"SH", "VOXALIGN");
    let mut head = Elements(vec![0; 128]);
    head.0.extend(b"DICM");
    head.u32(tags::META_LENGTH, set.0.len() as u32);
    [head.0, set.0].concat()
}

/// The group 0008.
fn identity(
    set: &mut Elements,
    class: &str,
    uids: &Uids,
    (series, study): (Option<&Series>, OfStudy<'_>),
) {
    study.put_known(set, tags::CHARACTER_SET);
    set.text(tags::IMAGE_TYPE, b"CS", "DERIVED\\SECONDARY");
    set.uid(0x0008_0016, class);
    set.uid(tags::SOP_INSTANCE, &uids.instance());
    study.put(set, tags::STUDY_DATE);
    study.put(set, tags::STUDY_TIME);
    study.put(set, tags::ACCESSION_NUMBER);
    set.text(tags::MODALITY, b"CS", "OT");
    // Synthetic.
    set.text(0x0008_0064, b"CS", "SYN");
    set.text(tags::MANUFACTURER, b"LO", "voxalign");
    study.put(set, tags::REFERRING_PHYSICIAN);
    study.put_known(set, tags::STUDY_DESCRIPTION);
    if let Some(series) = series {
        set.text(tags::SERIES_DESCRIPTION, b"LO", &series.description);
    }
}

/// The group 0018.
fn acquisition(set: &mut Elements, image: &XrayToWrite<'_>, said: Option<Expressed>) {
    if let Some(Expressed::Arm(arm)) = said {
        set.decimals(tags::SOURCE_TO_DETECTOR, &[arm.source_to_detector]);
        set.decimals(tags::SOURCE_TO_PATIENT, &[arm.source_to_isocentre]);
    }
    if let Some([along, down]) = image.pixel_size() {
        set.decimals(tags::IMAGER_PIXEL_SPACING, &[down, along]);
    }
    if let Some(Expressed::Arm(arm)) = said {
        set.decimals(tags::PRIMARY_ANGLE, &[arm.primary.to_degrees()]);
        set.decimals(tags::SECONDARY_ANGLE, &[arm.secondary.to_degrees()]);
    }
    if image.frames() > 1 {
        let pages: Vec<String> = (1..=image.frames()).map(|n| n.to_string()).collect();
        set.text(PAGES, b"IS", &pages.join("\\"));
    }
}

/// The group 0028.
fn pixels(set: &mut Elements, image: &XrayToWrite<'_>, [columns, rows]: [u16; 2], window: Window) {
    set.u16(tags::SAMPLES, 1);
    set.text(tags::PHOTOMETRIC, b"CS", "MONOCHROME2");
    if image.frames() > 1 {
        set.text(tags::FRAMES, b"IS", &image.frames().to_string());
        // Frame Increment Pointer: to the numbers of pages.
        set.tag(0x0028_0009, PAGES);
    }
    set.u16(tags::ROWS, rows);
    set.u16(tags::COLUMNS, columns);
    set.u16(tags::BITS_ALLOCATED, 16);
    set.u16(tags::BITS_STORED, 16);
    set.u16(tags::HIGH_BIT, 15);
    set.u16(tags::PIXEL_REPRESENTATION, 0);
    // Burned In Annotation.
    set.text(0x0028_0301, b"CS", "NO");
    let relation = match image.signal {
        Some(Signal::Intensity) => Some(("LIN", 1)),
        Some(Signal::LogIntensity) => Some(("LOG", 1)),
        Some(Signal::Attenuation) => Some(("LOG", -1)),
        // The value without X-rays has no attribute.
        Some(Signal::FallingIntensity { .. }) | None => None,
    };
    if let Some((relation, sign)) = relation {
        set.text(tags::INTENSITY_RELATION, b"CS", relation);
        set.i16(tags::INTENSITY_SIGN, sign);
    }
    let (low, high) = (window.low, window.high);
    set.decimals(0x0028_1050, &[low + (high - low) / 2.0]);
    set.decimals(0x0028_1051, &[high - low]);
    set.decimals(tags::INTERCEPT, &[low]);
    set.decimals(tags::SLOPE, &[window.step()]);
    set.text(0x0028_1054, b"LO", "US");
    // Windows narrower than 1 are none otherwise.
    set.text(0x0028_1056, b"CS", "LINEAR_EXACT");
}

/// The groups of treatment machines, of which other machines may have the place of the isocentre.
fn machine(set: &mut Elements, said: Expressed) {
    if let Expressed::Machine { gantry, first } = said {
        let arm = gantry.arm;
        let [along, down] = arm.pixel_size;
        set.decimals(tags::IMAGE_ORIENTATION_IEC, &[1.0, 0.0, 0.0, 0.0, -1.0, 0.0]);
        set.decimals(tags::IMAGE_PLANE_SPACING, &[down, along]);
        set.decimals(tags::IMAGE_POSITION_IEC, &first);
        set.decimals(tags::SOURCE_TO_AXIS, &[arm.source_to_isocentre]);
        set.decimals(tags::SOURCE_TO_IMAGE, &[arm.source_to_detector]);
        // From 0 on, as machines say it.
        let angle = gantry.angle.to_degrees();
        set.decimals(tags::GANTRY_ANGLE, &[if angle < 0.0 { angle + 360.0 } else { angle }]);
    }
    let p = said.isocentre();
    if matches!(said, Expressed::Machine { .. }) || p != Vector3::zeros() {
        set.decimals(tags::ISOCENTRE, &[-p.x, -p.y, p.z]);
    }
}
