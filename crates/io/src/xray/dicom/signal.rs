//! The relation of pixel values to X-ray intensity (PS3.3, C.8.7.1.1.2 and C.8.11.3.1.2).

use crate::error::{Result, shorten};
use crate::image::Oddity;
use crate::image::dicom::{Pictures, tags};
use crate::xray::Xray;

/// How values follow from the intensity of the X-rays that arrive, as a header says it of the values as they are read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Signal {
    /// Proportional to the intensity: bone is dark.
    Intensity,
    /// The logarithm of the intensity, but for a factor and an offset: bone is dark.
    LogIntensity,
    /// The same with the sign turned: bone is bright, and values add up along rays.
    Attenuation,
    /// They fall linearly with the intensity: bone is bright.
    FallingIntensity {
        /// The value where nothing arrives.
        dark: f32,
    },
}

/// The signal of the values that [`Pictures::read`] gives; nothing where the header does not say it.
pub(super) fn read(file: &Pictures<'_>, image: &mut Xray) -> Result<Option<Signal>> {
    let linear = match file.text(tags::INTENSITY_RELATION).as_deref() {
        Some("LIN") => true,
        Some("LOG") => false,
        // Values for a display, such as those of DISP, say nothing of what arrived.
        _ => return Ok(None),
    };
    let sign = file.numbers(tags::INTENSITY_SIGN)?;
    let rising = match sign[..] {
        [] | [1.0] => true,
        [-1.0] => false,
        _ => {
            let words: Vec<String> = sign.iter().map(f64::to_string).collect();
            image.say(Oddity::Other(format!(
                "PixelIntensityRelationshipSign (0028,1041) is '{}' and neither 1 nor -1; what its values say of the \
                 X-rays is not known",
                shorten(&words.join("\\"))
            )));
            return Ok(None);
        }
    };
    // The sign is that of stored values.
    let rising = rising ^ file.is_inverted() ^ file.falls();
    Ok(match (linear, rising) {
        (true, true) => Some(Signal::Intensity),
        // Floats have no largest value that could be that.
        (true, false) => file.largest().map(|v| Signal::FallingIntensity { dark: v as f32 }),
        (false, true) => Some(Signal::LogIntensity),
        (false, false) => Some(Signal::Attenuation),
    })
}
