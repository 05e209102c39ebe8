//! What is written beside an image made of DICOM: a sidecar as BIDS has it, and b-values with directions as
//! FSL has them. Nothing that names a patient is in it.

use super::DicomImage;
use super::dataset::{self, DataSet};
use super::distinct::DISTINCTIONS;
use super::header::{Frame, Groups, Header};
use super::siemens::Csa;
use super::tags::{self, Tag};
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

/// The place of a distinction in [`DISTINCTIONS`].
fn distinction(name: &str) -> usize {
    DISTINCTIONS.iter().position(|d| *d == name).unwrap_or(0)
}

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
    encoding(&mut facts, &set, csa.as_ref(), header.size);
    if image.between.is_none()
        && let Some(times) = slice_times(image, &chosen[chosen.len().min(2) - 1])?
    {
        let repetition = facts.get("RepetitionTime").and_then(Value::as_f64).unwrap_or(f64::MAX);
        // Times that are not within a volume are counted in another way.
        if times.iter().all(|&t| t <= repetition) {
            facts.insert("SliceTiming".into(), times.into_iter().map(rounded).collect());
        }
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
    set: &DataSet,
    csa: Option<&Csa<'_>>,
    size: [usize; 2],
) {
    let (axis, steps) = match set.text(tags::PHASE_DIRECTION).as_deref() {
        Some("COL") => ("j", size[1]),
        Some("ROW") => ("i", size[0]),
        _ => return,
    };
    let csa = |name| csa?.numbers(name)?.first().copied();
    // Columns and rows of the image have the directions of the pictures that are stored.
    match csa("PhaseEncodingDirectionPositive") {
        Some(1.0) => _ = facts.insert("PhaseEncodingDirection".into(), json!(axis)),
        Some(0.0) => _ = facts.insert("PhaseEncodingDirection".into(), json!(format!("{axis}-"))),
        _ => _ = facts.insert("PhaseEncodingAxis".into(), json!(axis)),
    }
    let bandwidth = set.number(tags::SIEMENS_BANDWIDTH).ok().flatten();
    let bandwidth = bandwidth.or_else(|| csa("BandwidthPerPixelPhaseEncode"));
    if let Some(bandwidth) = bandwidth.filter(|&b| b > 0.0) {
        let spacing = 1.0 / (bandwidth * steps as f64);
        facts.insert("BandwidthPerPixelPhaseEncode".into(), rounded(bandwidth));
        facts.insert("ReconMatrixPE".into(), json!(steps));
        facts.insert("EffectiveEchoSpacing".into(), rounded(spacing));
        facts.insert("TotalReadoutTime".into(), rounded(spacing * (steps - 1) as f64));
    }
}

/// When each slice of a volume was acquired, s after the first of them. It is not to be the first volume where
/// there are others: of that, scanners that excite several slices at once may write times that are wrong.
fn slice_times(image: &DicomImage<'_>, volume: &[(usize, usize)]) -> Result<Option<Vec<f64>>> {
    let file = &image.files[volume[0].0];
    let set = dataset::parse(&image.source(volume[0].0)?)?.set;
    Ok(times(image, file, volume, &set))
}

fn times(
    image: &DicomImage<'_>,
    file: &Header,
    volume: &[(usize, usize)],
    set: &DataSet,
) -> Option<Vec<f64>> {
    let times: Vec<f64> =
        if file.pictures == 1 && file.frames.len() == volume.len() && volume.len() > 1 {
            // Of a mosaic, in the order of its tiles.
            let own = set.numbers(tags::SIEMENS_TIMES).ok().filter(|t| !t.is_empty());
            let times = own.or_else(|| Csa::of(set)?.numbers("MosaicRefAcqTimes"))?;
            volume.iter().map(|&(_, i)| times.get(i).copied()).collect::<Option<_>>()?
        } else if image.volumes.len() > 1 && set.text(tags::MANUFACTURER)?.starts_with("GE") {
            let at = distinction("trigger time");
            let time = |&frame: &(usize, usize)| {
                image.frame(frame).distinctions[at].as_ref()?.parse().ok()
            };
            volume.iter().map(time).collect::<Option<_>>()?
        } else {
            return None;
        };
    let first = times.iter().fold(f64::MAX, |a, &b| a.min(b));
    let last = times.iter().fold(f64::MIN, |a, &b| a.max(b));
    (last > first).then(|| times.iter().map(|t| (t - first) / 1000.0).collect())
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
