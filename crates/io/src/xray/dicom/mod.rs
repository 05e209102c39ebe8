//! DICOM X-ray images: one file with all its frames.

mod elements;
mod field;
mod geometry;
mod signal;
mod study;
mod write;

pub use signal::Signal;
pub use study::{Series, Study};
pub(super) use write::write;

use super::Xray;
use super::grey::coarse;
use crate::error::Result;
use crate::image::Oddity;
use crate::image::dicom::{Pictures, tags};
use crate::source::Source;

/// Reads all frames.
pub(super) fn read(source: Source<'_>) -> Result<Xray> {
    let file = Pictures::open(source)?;
    let mut image = Xray::new(file.dims());
    let count = file.count();
    for frame in 0..count {
        let values = image.add_frame(file.path(), count)?;
        file.read(frame, values)?;
    }
    image.oddities = file.oddities().iter().cloned().map(Oddity::Other).collect();
    if file.is_inverted() {
        let words = "large values are dark (MONOCHROME1); they are inverted";
        image.say(Oddity::Inverted(words.into()));
    }
    if let Some(oddity) = file.bits().and_then(|bits| coarse(bits as u32)) {
        image.say(oddity);
    }
    image.pixel_size = pixel_size(&file, &mut image)?;
    image.times = times(&file)?;
    image.signal = signal::read(&file, &mut image)?;
    geometry::read(&file, &mut image)?;
    Ok(image)
}

/// Sizes of a pixel along columns and rows: on the detector, where the header says that.
fn pixel_size(file: &Pictures<'_>, image: &mut Xray) -> Result<Option<[f64; 2]>> {
    let known = [
        tags::IMAGER_PIXEL_SPACING,
        tags::IMAGE_PLANE_SPACING,
        tags::SCANNED_PIXEL_SPACING,
        tags::PIXEL_SPACING,
    ];
    for tag in known {
        // A row is below another one by the first number.
        let Some([down, along]) = file.exactly::<2>(tag)? else { continue };
        if !(down > 0.0 && along > 0.0) {
            let named = tags::written(tag);
            image.say(Oddity::Other(format!(
                "its pixel size {named} is {along} x {down} mm; not used"
            )));
            continue;
        }
        if tag == tags::PIXEL_SPACING {
            let words = "the size of a pixel is PixelSpacing (0028,0030), which may be that in the patient and not \
                         on the detector";
            image.say(Oddity::Other(words.into()));
        }
        return Ok(Some([along, down]));
    }
    Ok(None)
}

/// Seconds from the first frame to each.
fn times(file: &Pictures<'_>) -> Result<Option<Vec<f64>>> {
    let count = file.count();
    let steps = file.numbers(tags::FRAME_TIME_VECTOR)?;
    if count > 1 && steps.len() == count {
        let mut time = 0.0;
        let times = steps.iter().enumerate().map(|(i, step)| {
            // The first one is no step.
            time += if i == 0 { 0.0 } else { step / 1000.0 };
            time
        });
        return Ok(Some(times.collect()));
    }
    let step = file.numbers(tags::FRAME_TIME)?.first().map(|v| v / 1000.0);
    let rate = file.numbers(tags::CINE_RATE)?.first().map(|v| 1.0 / v);
    let step = step.filter(|v| *v > 0.0).or(rate.filter(|v| *v > 0.0 && v.is_finite()));
    Ok(step.filter(|_| count > 1).map(|step| (0..count).map(|i| i as f64 * step).collect()))
}
