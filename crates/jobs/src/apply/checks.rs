//! What is checked of images and options.

use crate::error::{Error, Result};
use crate::options::{Outside, refuse as refuse_one};
use voxalign_io::image::DataType;
use voxalign_options::text;

/// Most values of a label map that is told by their number alone.
const FEW: usize = 32;

/// Whether values are whole numbers that are few, or the same over regions: of two neighbours in a row that
/// are not 0, nearly all are equal. Scans of whole numbers have noise.
pub(super) fn looks_like_labels(values: &[f32], width: usize) -> bool {
    const SAME: f64 = 0.8;
    if values.iter().any(|v| v.fract() != 0.0) {
        return false;
    }
    let mut known: Vec<f32> = Vec::with_capacity(FEW + 1);
    for &value in values {
        if known.len() <= FEW && !known.contains(&value) {
            known.push(value);
        }
    }
    if (2..=FEW).contains(&known.len()) {
        return true;
    }
    let neighbours = values.chunks_exact(width.max(1)).flat_map(|row| row.windows(2));
    let (mut pairs, mut same) = (0usize, 0usize);
    for pair in neighbours.filter(|p| p[0] != 0.0 && p[1] != 0.0) {
        pairs += 1;
        same += usize::from(pair[0] == pair[1]);
    }
    pairs > 0 && same as f64 >= SAME * pairs as f64
}

/// Whether a value survives being stored.
pub(super) fn fits(value: f32, data_type: DataType) -> bool {
    let Some((low, high)) = data_type.range() else { return true };
    let value = f64::from(value);
    value.fract() == 0.0 && value >= low && value <= high
}

/// The label outside the moving map.
pub(super) fn label_outside(outside: Option<Outside>) -> Result<i32> {
    let Some(Outside(value)) = outside else { return Ok(0) };
    if value.fract() == 0.0 && value.abs() <= 16_777_216.0 {
        return Ok(value as i32);
    }
    Err(Error::input(text!(
        "`outside` is {value}; give a whole number, as the image is a label map"
    )))
}

/// Refuses the first option that is given, and would be ignored.
pub(super) fn refuse(options: &[(&'static str, bool)], is_for: &str) -> Result<()> {
    options.iter().try_for_each(|&(option, given)| refuse_one(given, option, is_for))
}
