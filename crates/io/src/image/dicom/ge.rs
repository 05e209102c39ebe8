//! Private attributes of GE scanners.

use super::dataset::DataSet;
use super::header::Frame;
use super::tags;
use nalgebra::Vector3;

/// Whether a file is of such a scanner.
pub(super) fn made(set: &DataSet) -> bool {
    set.text(tags::MANUFACTURER).is_some_and(|maker| maker.to_ascii_uppercase().starts_with("GE "))
}

/// What an image shows, where the standard's attributes do not say it.
pub(super) fn component(set: &DataSet) -> Option<&'static str> {
    if !made(set) {
        return None;
    }
    match set.number(tags::GE_COMPONENT).ok()?? as i64 {
        1 => Some("PHASE"),
        2 => Some("REAL"),
        3 => Some("IMAGINARY"),
        // Series of field maps have the field and the magnitude, which this tells from each other.
        0 => match set.number(tags::GE_COLLAPSE).ok()?? as i64 {
            2 => Some("MAGNITUDE"),
            0 if set.text(tags::GE_SEQUENCE)? == "B0map" => Some("FIELDMAP"),
            _ => None,
        },
        _ => None,
    }
}

/// The b-value in s/mm², beyond which a file may count in millions how it was computed.
pub(super) fn b_value(set: &DataSet) -> Option<f64> {
    let b = set.number(tags::GE_B).ok()??;
    (b >= 0.0).then_some(b % 1e6)
}

/// The gradient as it is written, along frequency, phase and slice; nothing where it is none.
fn gradient(set: &DataSet) -> Option<Vector3<f64>> {
    let axis = |tag| set.number(tag).ok().flatten();
    let v = Vector3::new(
        axis(tags::GE_GRADIENT_X)?,
        axis(tags::GE_GRADIENT_Y)?,
        axis(tags::GE_GRADIENT_Z)?,
    );
    (v.norm() > 1e-3).then_some(v)
}

/// The direction of the gradient, LPS, where it can be told: of axial slices of someone who lies supine with the
/// head first, where phases are encoded along columns.
pub(super) fn direction(
    set: &DataSet,
    orientation: Option<&[Vector3<f64>; 2]>,
) -> Option<Vector3<f64>> {
    let [along, down] = orientation?;
    let normal = along.cross(down);
    let axial = normal.z.abs() > normal.x.abs().max(normal.y.abs());
    let columns = set.text(tags::PHASE_DIRECTION)?.starts_with("COL");
    if !axial || !columns || set.text(tags::PATIENT_POSITION)? != "HFS" {
        return None;
    }
    let v = gradient(set)?;
    Some(normal * v.z - along * v.x - down * v.y)
}

/// Whether phases are encoded against the direction of rows or columns: only newer scanners write it.
pub(super) fn reversed(set: &DataSet) -> Option<bool> {
    match set.text(tags::PHASE_REORDERING)?.as_str() {
        "LINEAR" => Some(true),
        "REVERSE_LINEAR" => Some(false),
        _ => None,
    }
}

/// The time between lines of an echo-planar image as if all of k-space had been acquired one by one, s: whole shots
/// of 2 lines are acquired, or of 4 where a part of k-space is left out.
pub(super) fn echo_spacing(set: &DataSet) -> Option<f64> {
    let options = set.text(tags::SCAN_OPTIONS)?;
    let has = |name: &str| options.split('\\').any(|word| word.trim() == name);
    if !has("EPI_GEMS") {
        return None;
    }
    let spacing = set.number(tags::GE_ECHO_SPACING).ok()??;
    let matrix = set.numbers(tags::ACQUISITION_MATRIX).ok()?;
    let lines = matrix.get(2..4)?.iter().fold(0.0, |a: f64, &b| a.max(b));
    let part = set.number(tags::GE_ACCELERATION).ok().flatten().filter(|f| *f > 0.0 && *f <= 1.0);
    let round = if has("PFF") { 4.0 } else { 2.0 };
    // The part has 6 digits, so that 80 / 3 lines are not rounded up for them.
    let acquired = (lines * part.unwrap_or(1.0) / round - 1e-3).ceil() * round;
    let spacing = (acquired - 1.0) * spacing * 1e-6 / (lines - 1.0);
    (lines > 1.0 && spacing > 0.0 && spacing < 0.1).then_some(spacing)
}

/// The pause after each volume, s, which the repetition time of the header does not contain.
pub(super) fn pause(set: &DataSet) -> Option<f64> {
    let pause = set.number(tags::GE_PAUSE).ok().flatten().filter(|p| *p > 0.0)?;
    // It is written with the precision of 32 bits.
    made(set).then_some((pause * 1e6).round() / 1e6)
}

/// What is odd about the frames of a file.
pub(super) fn oddities(set: &DataSet, frames: &[Frame]) -> Vec<String> {
    let mut found: Vec<String> = polarity(set).into_iter().collect();
    let lost =
        |f: &Frame| f.diffusion.b_value.is_some_and(|b| b > 0.0) && f.diffusion.direction.is_none();
    if made(set) && gradient(set).is_some() && frames.iter().any(lost) {
        found.push(
            "directions of diffusion of GE are along frequency, phase and slice, which can be told for axial \
             slices with phases along columns and a patient in HFS; here they are left out"
                .into(),
        );
    }
    found
}

/// What is odd about the rows of images whose phases were encoded both ways.
fn polarity(set: &DataSet) -> Option<String> {
    if !made(set) || !set.text(tags::GE_SEQUENCE_FILE)?.contains("epi_pepolar") {
        return None;
    }
    let which = match set.number(tags::GE_POLARITY).ok()?? as i64 {
        1 => "all",
        2 => "the first and every other one",
        3 => "the second and every other one",
        _ => return None,
    };
    Some(format!(
        "phases of volumes were encoded both ways (epi_pepolar), and this sequence stores those of reversed phases \
         ({which}) with their rows turned round, which its headers do not say; they are read as they are stored"
    ))
}
