//! From stored values to one channel of 8 or 16 bits.

use super::options::PyramidOptions;
use super::pixel::{Pixel, PixelType};
use crate::error::{IoError, Result};
use crate::image::{DataType, Oddity};
use std::ops::Range;
use std::path::Path;

/// Weights of red, green and blue in the luminance, of 256 (ITU-R BT.601, rounded).
pub(super) const WEIGHTS: [u32; 3] = [77, 150, 29];

/// Which channels become the one that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channels {
    /// One of them.
    One(usize),
    /// The luminance of the first three.
    Luminance,
}

/// How stored values become pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grey {
    pub(super) stored: DataType,
    pub(super) channels: Channels,
    window: Option<[f64; 2]>,
    inverted: bool,
}

impl Grey {
    /// For an image of so many channels of a type, as the options say.
    pub(super) fn new(
        path: &Path,
        stored: DataType,
        channels: usize,
        options: &PyramidOptions,
    ) -> Result<Self> {
        let chosen = match (options.channel, channels) {
            (Some(number), all) if number < all => Channels::One(number),
            (Some(number), all) => {
                return Err(IoError::malformed(
                    path,
                    format!("there is no channel {number}: the image has {all}"),
                    format!("choose one of 0 to {} as `channel`", all.saturating_sub(1)),
                ));
            }
            (None, 1) => Channels::One(0),
            (None, 3 | 4) => Channels::Luminance,
            (None, all) => {
                return Err(IoError::malformed(
                    path,
                    format!("the image has {all} channels, of which none is chosen"),
                    format!("choose one of 0 to {} as `channel`", all.saturating_sub(1)),
                ));
            }
        };
        let window = window(path, stored, options)?;
        Ok(Self { stored, channels: chosen, window, inverted: false })
    }

    /// The same of an image in which 0 is white.
    pub(super) fn inverted(self) -> Self {
        Self { inverted: true, ..self }
    }

    /// The type of pixels.
    pub(super) fn pixel_type(&self) -> PixelType {
        match self.stored {
            DataType::U8 | DataType::I8 => PixelType::U8,
            _ => PixelType::U16,
        }
    }

    /// What is unusual about the values.
    pub(super) fn oddities(&self) -> Vec<Oddity> {
        let mut found = Vec::new();
        if self.channels == Channels::Luminance {
            let words =
                "it has several channels; their luminance is used, as that of red, green and blue";
            found.push(Oddity::Colour(words.into()));
        }
        if self.inverted {
            let words = "large values are dark (white is zero); they are inverted";
            found.push(Oddity::Inverted(words.into()));
        }
        found
    }

    /// The numbers of the channels that are needed.
    pub(super) fn needed(&self) -> Range<usize> {
        match self.channels {
            Channels::Luminance => 0..3,
            Channels::One(number) => number..number + 1,
        }
    }

    /// What a pixel is subtracted by to have the stored value, where that is exact.
    pub(super) fn offset(&self) -> i32 {
        match self.stored {
            DataType::I8 => 1 << 7,
            DataType::I16 => 1 << 15,
            _ => 0,
        }
    }

    /// Whether pixels have the bits of stored values but for the highest one; nothing where they have others.
    pub(super) fn same_bits(&self) -> Option<bool> {
        match self.stored {
            DataType::U8 | DataType::U16 if !self.inverted => Some(false),
            DataType::I8 | DataType::I16 if !self.inverted => Some(true),
            _ => None,
        }
    }

    /// Fills pixels from stored values in this machine's order of bytes. `at(pixel, channel)` is the number of a value;
    /// the channel is the how manieth of those that are [needed](Self::needed).
    pub(super) fn fill<P: Pixel>(
        &self,
        bytes: &[u8],
        at: impl Fn(usize, usize) -> usize,
        out: &mut [P],
    ) {
        macro_rules! of {
            ($ty:ty, $code:expr) => {{
                const SIZE: usize = std::mem::size_of::<$ty>();
                self.each(out, |pixel, c| {
                    let mut own = [0; SIZE];
                    own.copy_from_slice(&bytes[SIZE * at(pixel, c)..][..SIZE]);
                    $code(<$ty>::from_ne_bytes(own))
                })
            }};
        }
        match self.stored {
            DataType::U8 => of!(u8, u32::from),
            DataType::U16 => of!(u16, u32::from),
            DataType::I8 => of!(i8, |v| (i32::from(v) + (1 << 7)) as u32),
            DataType::I16 => of!(i16, |v| (i32::from(v) + (1 << 15)) as u32),
            DataType::U32 => of!(u32, |v| self.code(f64::from(v))),
            DataType::I32 => of!(i32, |v| self.code(f64::from(v))),
            DataType::U64 => of!(u64, |v| self.code(v as f64)),
            DataType::I64 => of!(i64, |v| self.code(v as f64)),
            DataType::F32 => of!(f32, |v| self.code(f64::from(v))),
            DataType::F64 => of!(f64, |v| self.code(v)),
        }
    }

    /// Fills pixels of scaled values.
    pub(super) fn fill_floats<P: Pixel>(&self, values: &[f32], channel: usize, out: &mut [P]) {
        let at = |pixel: usize, c: usize| c * channel + pixel;
        let offset = f64::from(self.offset());
        let exact = self.window.is_none();
        self.each(out, |pixel, c| {
            let value = f64::from(values[at(pixel, c)]);
            if exact { (value + offset) as u32 } else { self.code(value) }
        });
    }

    fn each<P: Pixel>(&self, out: &mut [P], code: impl Fn(usize, usize) -> u32) {
        let most = if self.pixel_type() == PixelType::U8 { 255 } else { 65535 };
        match self.channels {
            Channels::One(_) if self.inverted => out
                .iter_mut()
                .enumerate()
                .for_each(|(i, p)| *p = P::from_low_bits(most - code(i, 0).min(most))),
            Channels::One(_) => {
                out.iter_mut().enumerate().for_each(|(i, p)| *p = P::from_low_bits(code(i, 0)));
            }
            Channels::Luminance => {
                let code = |i: usize, c: usize| match self.inverted {
                    true => most - code(i, c).min(most),
                    false => code(i, c),
                };
                out.iter_mut().enumerate().for_each(|(i, p)| {
                    *p = P::from_low_bits(luminance(code(i, 0), code(i, 1), code(i, 2)));
                });
            }
        }
    }

    /// The number of 16 bits that a value has in the window.
    fn code(&self, value: f64) -> u32 {
        let [low, high] = self.window.unwrap_or([0.0, 65535.0]);
        // A value that is not a number becomes 0, as what is below the window does.
        ((value - low) / (high - low) * 65535.0 + 0.5).floor().clamp(0.0, 65535.0) as u32
    }
}

/// The luminance of integers of up to 16 bits.
pub(super) fn luminance(red: u32, green: u32, blue: u32) -> u32 {
    (WEIGHTS[0] * red + WEIGHTS[1] * green + WEIGHTS[2] * blue + 128) >> 8
}

/// The window, where the type needs one.
fn window(path: &Path, stored: DataType, options: &PyramidOptions) -> Result<Option<[f64; 2]>> {
    let exact = stored.is_integer() && stored.size() <= 2;
    match options.window {
        Some([low, high]) if !(low < high && (high - low).is_finite()) => Err(IoError::malformed(
            path,
            format!("the window from {low} to {high} has no width"),
            "give two numbers as `window`, the lower one first",
        )),
        Some(_) if exact => Err(IoError::malformed(
            path,
            format!("a window is given, but the values are {stored}, which are taken as they are"),
            "leave the `window` out",
        )),
        None if !exact => Err(IoError::malformed(
            path,
            format!("the values are {stored}, which are not taken as they are"),
            "say as `window` which values become 0 and 65535",
        )),
        window => Ok(window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(stored: DataType, channels: usize, options: &PyramidOptions) -> Result<Grey> {
        Grey::new(Path::new("a"), stored, channels, options)
    }

    #[test]
    fn grey_colours_keep_their_values_and_the_rule_is_that_of_the_page() {
        for v in 0..=65535 {
            assert_eq!(luminance(v, v, v), v);
        }
        assert_eq!(luminance(255, 0, 0), (77 * 255 + 128) / 256);
        assert_eq!(luminance(0, 255, 0), (150 * 255 + 128) / 256);
        assert_eq!(luminance(0, 0, 255), (29 * 255 + 128) / 256);
    }

    #[test]
    fn integers_of_16_bits_are_exact() {
        let options = PyramidOptions::default();
        let values: Vec<i16> = vec![i16::MIN, -1, 0, 1, i16::MAX];
        let rule = grey(DataType::I16, 1, &options).unwrap();
        let mut out = [0u16; 5];
        rule.fill(bytemuck::cast_slice(&values), |p, _| p, &mut out);
        assert_eq!(out, [0, 32767, 32768, 32769, 65535]);
        assert_eq!(rule.offset(), 32768);
        let floats: Vec<f32> = values.iter().map(|&v| f32::from(v)).collect();
        let mut again = [0u16; 5];
        rule.fill_floats(&floats, 5, &mut again);
        assert_eq!(again, out);
        let small: Vec<i8> = vec![-128, 0, 127];
        let mut bytes = [0u8; 3];
        let rule = grey(DataType::I8, 1, &options).unwrap();
        rule.fill(bytemuck::cast_slice(&small), |p, _| p, &mut bytes);
        assert_eq!(bytes, [0, 128, 255]);
    }

    #[test]
    fn a_window_rounds_half_up_and_clamps() {
        let options = PyramidOptions { window: Some([0.0, 65535.0]), ..Default::default() };
        let rule = grey(DataType::F32, 1, &options).unwrap();
        let values = [-1.0f32, 0.49, 0.5, 1.5, 65534.5, 70000.0, f32::NAN, f32::INFINITY];
        let mut out = [9u16; 8];
        rule.fill(bytemuck::cast_slice(&values), |p, _| p, &mut out);
        assert_eq!(out, [0, 0, 1, 2, 65535, 65535, 0, 65535]);
    }

    #[test]
    fn what_would_be_ignored_or_is_missing_is_an_error() {
        let none = PyramidOptions::default();
        let windowed = PyramidOptions { window: Some([0.0, 1.0]), ..none.clone() };
        let said = |r: Result<Grey>| r.unwrap_err().to_string();
        assert!(said(grey(DataType::U16, 1, &windowed)).contains("leave the `window` out"));
        assert!(said(grey(DataType::F32, 1, &none)).contains("which values become 0 and 65535"));
        let flat = PyramidOptions { window: Some([1.0, 1.0]), ..none.clone() };
        assert!(said(grey(DataType::F32, 1, &flat)).contains("no width"));
        assert!(said(grey(DataType::U8, 2, &none)).contains("2 channels"));
        let second = PyramidOptions { channel: Some(1), ..none };
        assert_eq!(grey(DataType::U8, 2, &second).unwrap().needed(), 1..2);
        assert!(said(grey(DataType::U8, 1, &second)).contains("no channel 1"));
    }
}
