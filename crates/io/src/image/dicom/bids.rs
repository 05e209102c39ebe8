//! What is written beside an image made of DICOM: a sidecar as BIDS has it, and b-values with directions as
//! FSL has them. Nothing that names a patient is in it.

use super::DicomImage;
use super::dataset::{self, DataSet};
use super::distinct::distinction;
use super::ge;
use super::header::{Frame, Groups};
use super::siemens::Csa;
use super::tags::{self, Tag};
use super::timing::slice_times;
use crate::error::Result;
use crate::image::Sidecar;
use nalgebra::Vector3;
use serde_json::{Map, Value, json};

/// Texts that are taken as they are.
const TEXTS: [(&str, Tag); 14] = [
    ("Modality", tags::MODALITY),
    ("Manufacturer", tags::MANUFACTURER),
    ("ManufacturersModelName", tags::MODEL),
    ("SoftwareVersions", tags::SOFTWARE),
    ("PatientPosition", tags::PATIENT_POSITION),
    ("MRAcquisitionType", tags::ACQUISITION_KIND),
    ("SeriesDescription", tags::SERIES_DESCRIPTION),
    ("ProtocolName", tags::PROTOCOL),
    ("ScanningSequence", tags::SCANNING_SEQUENCE),
    ("SequenceVariant", tags::SEQUENCE_VARIANT),
    ("ScanOptions", tags::SCAN_OPTIONS),
    ("SequenceName", tags::SEQUENCE_NAME),
    ("InPlanePhaseEncodingDirectionDICOM", tags::PHASE_DIRECTION),
    ("Units", tags::UNITS),
];

/// Numbers, the sequences in which files of many frames have them, and the factor to the unit of BIDS.
const NUMBERS: [(&str, Tag, Tag, f64); 14] = [
    ("MagneticFieldStrength", tags::FIELD_STRENGTH, 0, 1.0),
    ("ImagingFrequency", tags::IMAGING_FREQUENCY, 0, 1.0),
    ("SeriesNumber", tags::SERIES_NUMBER, 0, 1.0),
    ("AcquisitionNumber", tags::ACQUISITION_NUMBER, 0, 1.0),
    ("SliceThickness", tags::SLICE_THICKNESS, tags::MEASURES_SEQUENCE, 1.0),
    ("SpacingBetweenSlices", tags::SPACING_BETWEEN_SLICES, tags::MEASURES_SEQUENCE, 1.0),
    ("SAR", tags::SAR, 0, 1.0),
    ("NumberOfAverages", tags::AVERAGES, 0, 1.0),
    ("EchoNumber", tags::ECHO_NUMBERS, 0, 1.0),
    ("RepetitionTime", tags::REPETITION_TIME, tags::TIMING_SEQUENCE, 1e-3),
    ("InversionTime", tags::INVERSION_TIME, 0, 1e-3),
    ("FlipAngle", tags::FLIP_ANGLE, tags::TIMING_SEQUENCE, 1.0),
    ("EchoTrainLength", tags::ECHO_TRAIN, tags::TIMING_SEQUENCE, 1.0),
    ("PixelBandwidth", tags::PIXEL_BANDWIDTH, 0, 1.0),
];

/// What does not follow each other by the repetition time.
const NOT_IN_TIME: [&str; 7] = [
    "segment",
    "echo time",
    "inversion time",
    "image type",
    "dimension index",
    "trigger time",
    "energy window",
];

/// A number without the digits that its factor adds.
fn rounded(value: f64) -> Value {
    let value = (value * 1e9).round() / 1e9;
    if value.fract() == 0.0 && value.abs() < 1e15 { json!(value as i64) } else { json!(value) }
}

pub(super) fn sidecar(image: &DicomImage<'_>, volume: Option<usize>) -> Result<Sidecar> {
    let chosen = match volume {
        Some(one) => &image.volumes[one..=one],
        None => &image.volumes[..],
    };
    let (file, first) = chosen[0][0];
    let header = &image.files[file];
    let set = dataset::parse(&image.source(file)?)?.set;
    let frame = &header.frames[first];
    let own = set.items(tags::PER_FRAME_GROUPS).get(frame.number);
    let groups = Groups([own, set.item(tags::SHARED_GROUPS), Some(&set)]);
    let csa = Csa::of(&set);
    let mut facts = Map::new();
    for (name, tag) in TEXTS {
        if let Some(text) = set.text(tag) {
            let words: Vec<&str> = text.split('\\').map(str::trim).collect();
            facts
                .insert(name.into(), if words.len() == 1 { json!(words[0]) } else { json!(words) });
        }
    }
    if let Some(kind) = &frame.distinctions[distinction("image type")] {
        facts.insert("ImageType".into(), json!(kind.split('\\').collect::<Vec<_>>()));
    }
    for (name, tag, sequence, factor) in NUMBERS {
        let number = groups.numbers(sequence, tag).ok().and_then(|v| v.first().copied());
        if let Some(number) = number {
            facts.insert(name.into(), rounded(number * factor));
        }
    }
    // Milliseconds, where all that is written has the same.
    let at = distinction("echo time");
    let echoes = |v: &Vec<(usize, usize)>| image.frame(v[0]).distinctions[at].clone();
    let echo = frame.distinctions[at].as_ref().and_then(|e| e.parse::<f64>().ok());
    if let Some(echo) = echo.filter(|_| chosen.iter().all(|v| echoes(v) == echoes(&chosen[0]))) {
        facts.insert("EchoTime".into(), rounded(echo / 1000.0));
    }
    encoding(&mut facts, &groups, &set, csa.as_ref(), header.size);
    let mut repetition = facts.get("RepetitionTime").and_then(Value::as_f64);
    if let (Some(time), Some(pause)) = (&mut repetition, ge::pause(&set)) {
        *time += pause;
        facts.insert("RepetitionTime".into(), rounded(*time));
        facts.insert("DelayTime".into(), rounded(pause));
    }
    if image.between.is_none()
        && let Some(times) = slice_times(image, &chosen[chosen.len().min(2) - 1], repetition)?
    {
        facts.insert("SliceTiming".into(), times.into_iter().map(rounded).collect());
    }
    facts.insert("ConversionSoftware".into(), json!("voxalign"));
    facts.insert("ConversionSoftwareVersion".into(), json!(env!("CARGO_PKG_VERSION")));
    let in_time = image.info.volumes() > 1
        && volume.is_none()
        && !image.by.iter().any(|what| NOT_IN_TIME.contains(what));
    let time_step_s = facts
        .get("RepetitionTime")
        .and_then(Value::as_f64)
        .filter(|_| in_time && header.modality == "MR");
    Ok(Sidecar { facts, diffusion: diffusion(image, chosen), time_step_s })
}

/// The direction in which phases are encoded, and how fast.
fn encoding(
    facts: &mut Map<String, Value>,
    groups: &Groups<'_>,
    set: &DataSet,
    csa: Option<&Csa<'_>>,
    size: [usize; 2],
) {
    let of_frame = groups.item(tags::FIELD_OF_VIEW_SEQUENCE);
    let direction = of_frame.and_then(|item| item.text(tags::PHASE_DIRECTION));
    let direction = direction.or_else(|| set.text(tags::PHASE_DIRECTION));
    let (axis, steps) = match direction.as_deref() {
        Some("COL" | "COLUMN") => ("j", size[1]),
        Some("ROW") => ("i", size[0]),
        _ => return,
    };
    let maker = set.text(tags::MANUFACTURER).unwrap_or_default().to_ascii_lowercase();
    let siemens = maker.starts_with("siemens");
    let own = |tag| {
        let found = groups.numbers(tags::SIEMENS_FRAME_SEQUENCE, tag).ok();
        found.filter(|_| siemens)?.first().copied()
    };
    let csa = |name| csa?.numbers(name)?.first().copied();
    let forward =
        match csa("PhaseEncodingDirectionPositive").or_else(|| own(tags::SIEMENS_PHASE_SIGN)) {
            Some(sign) if sign == 1.0 || sign == 0.0 => Some(sign == 1.0),
            _ if ge::made(set) => ge::reversed(set).map(|reversed| !reversed),
            _ => None,
        };
    // Columns and rows of the image have the directions of the pictures that are stored.
    match forward {
        Some(true) => _ = facts.insert("PhaseEncodingDirection".into(), json!(axis)),
        Some(false) => _ = facts.insert("PhaseEncodingDirection".into(), json!(format!("{axis}-"))),
        None => _ = facts.insert("PhaseEncodingAxis".into(), json!(axis)),
    }
    let bandwidth = set.number(tags::SIEMENS_BANDWIDTH).ok().flatten();
    let bandwidth = bandwidth
        .or_else(|| csa("BandwidthPerPixelPhaseEncode"))
        .or_else(|| own(tags::SIEMENS_FRAME_BANDWIDTH))
        .filter(|&b| b > 0.0);
    if let Some(bandwidth) = bandwidth {
        facts.insert("BandwidthPerPixelPhaseEncode".into(), rounded(bandwidth));
    }
    let spacing = match bandwidth {
        Some(bandwidth) => Some(1.0 / (bandwidth * steps as f64)),
        None if ge::made(set) => ge::echo_spacing(set),
        None => None,
    };
    if let Some(spacing) = spacing {
        facts.insert("ReconMatrixPE".into(), json!(steps));
        facts.insert("EffectiveEchoSpacing".into(), rounded(spacing));
        facts.insert("TotalReadoutTime".into(), rounded(spacing * (steps - 1) as f64));
    }
}

/// b-values in s/mm², and directions along the axes of the image, the first turned round where these are
/// right-handed.
fn diffusion(
    image: &DicomImage<'_>,
    chosen: &[Vec<(usize, usize)>],
) -> Option<Vec<(f64, [f64; 3])>> {
    let axes = image.info.grid.direction();
    let right_handed = image.info.grid.is_right_handed();
    let found: Option<Vec<(f64, [f64; 3])>> = chosen
        .iter()
        .map(|volume| {
            let Frame { diffusion, .. } = image.frame(volume[0]);
            let b = diffusion.b_value?;
            let lps = diffusion.direction.unwrap_or_else(Vector3::zeros);
            let world = Vector3::new(-lps.x, -lps.y, lps.z);
            let along = axes.transpose() * world;
            let x = if right_handed { -along.x } else { along.x };
            Some((b, [x, along.y, along.z]))
        })
        .collect();
    let found = found?;
    found.iter().any(|(b, v)| *b > 0.0 && *v != [0.0; 3]).then_some(found)
}
