//! Nuclear medicine slices in one file, which gives the position of the first only.

use super::dataset::DataSet;
use super::tags;

/// The distance from each to the next along the normal, and
/// the number of each frame's slice.
pub(super) fn of(set: &DataSet, count: usize) -> Result<Option<(f64, Vec<f64>)>, String> {
    let kind = set.text(tags::IMAGE_TYPE).unwrap_or_default();
    let is_tomogram = set.text(tags::MODALITY).as_deref() == Some("NM")
        && set.item(tags::DETECTOR_SEQUENCE).is_some()
        && kind.split('\\').any(|word| word.trim() == "RECON TOMO");
    if !is_tomogram {
        return Ok(None);
    }
    let mut step = None;
    for tag in [tags::SPACING_BETWEEN_SLICES, tags::SLICE_THICKNESS] {
        if step.is_none() {
            step = set.number(tag)?.filter(|&v| v != 0.0);
        }
    }
    let slices = set.numbers(tags::SLICE_VECTOR)?;
    let places = match slices.len() == count {
        true => slices.iter().map(|n| n - slices[0]).collect(),
        false => (0..count).map(|n| n as f64).collect(),
    };
    Ok(step.map(|step| (step, places)))
}
