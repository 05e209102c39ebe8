//! Values as 16-bit integers, and the attributes that restore them.

use std::fmt::{self, Display, Formatter};

/// The largest stored value.
const LARGEST: f64 = u16::MAX as f64;
/// What a note of this library begins with.
const MARK: &str = "voxalign";

/// The values that 0 and 65535 stand for; those between are even steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Window {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Window {
    /// A window of finite numbers, the second above the first, whose steps are above 0.
    pub(super) fn new([low, high]: [f64; 2]) -> Option<Self> {
        let window = Self { low, high };
        let step = window.step();
        (low.is_finite() && high.is_finite() && step.is_finite() && step > 0.0).then_some(window)
    }

    /// From the least to the largest value, of those that are numbers; 1 wide where they are all the same.
    pub(super) fn of(values: &[f32]) -> Self {
        let finite = || values.iter().copied().filter(|v| v.is_finite());
        let low = f64::from(finite().reduce(f32::min).unwrap_or(0.0));
        let high = f64::from(finite().reduce(f32::max).unwrap_or(1.0));
        // The next whole number may be the same float.
        Self::new([low, high]).unwrap_or(Self { low, high: low + low.abs().max(1.0) })
    }

    /// The distance of neighbouring stored values.
    pub(super) fn step(&self) -> f64 {
        (self.high - self.low) / LARGEST
    }

    /// What is stored for a value; the nearest end for those outside, 0 for what is not a number.
    pub(super) fn stored(&self, value: f32) -> u16 {
        ((f64::from(value) - self.low) / self.step()).round().clamp(0.0, LARGEST) as u16
    }

    /// Whether a value is outside, or no number.
    pub(super) fn is_outside(&self, value: f32) -> bool {
        !(self.low..=self.high).contains(&f64::from(value))
    }

    /// The value of what is stored.
    pub(super) fn value(&self, stored: f64) -> f32 {
        (self.low + stored / LARGEST * (self.high - self.low)) as f32
    }
}

/// What pictures say that have no fields for it, as text of theirs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Note {
    pub(super) window: Option<Window>,
    /// Sizes of a pixel along columns and rows, mm.
    pub(super) pixel_size: Option<[f64; 2]>,
}

impl Note {
    /// The note in a text, where it is one of this library; an error where it says no numbers.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        let mut words = text.trim_end_matches('\0').split_ascii_whitespace();
        if words.next() != Some(MARK) {
            return None;
        }
        let mut note = Self::default();
        while let Some(key) = words.next() {
            let numbers: Option<[f64; 2]> = words
                .next()
                .zip(words.next())
                .and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
            let known = match (key, numbers) {
                ("window", Some(ends)) => {
                    note.window = Window::new(ends);
                    note.window.is_some()
                }
                ("pixel", Some(sizes)) if sizes.iter().all(|s| s.is_finite() && *s > 0.0) => {
                    note.pixel_size = Some(sizes);
                    true
                }
                _ => false,
            };
            if !known {
                let text = crate::error::shorten(text);
                return Some(Err(format!("its note '{text}' is damaged; it is not looked at")));
            }
        }
        Some(Ok(note))
    }
}

impl Display for Note {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(MARK)?;
        if let Some(Window { low, high }) = self.window {
            write!(f, " window {low:?} {high:?}")?;
        }
        if let Some([a, b]) = self.pixel_size {
            write!(f, " pixel {a:?} {b:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_and_what_is_outside() {
        let window = Window::new([-1.0, 3.0]).unwrap();
        assert_eq!(
            [-1.0, 3.0, -7.0, 99.0, f32::NAN].map(|v| window.stored(v)),
            [0, 65535, 0, 65535, 0]
        );
        assert_eq!([0.0, 65535.0].map(|v| window.value(v)), [-1.0, 3.0]);
        assert!([-1.5, 3.5, f32::NAN, f32::INFINITY].iter().all(|&v| window.is_outside(v)));
        assert!([-1.0, 0.0, 3.0].iter().all(|&v| !window.is_outside(v)));
        for ends in [[1.0, 1.0], [2.0, 1.0], [f64::NAN, 1.0], [0.0, f64::INFINITY], [0.0, 5e-324]] {
            assert_eq!(Window::new(ends), None, "{ends:?}");
        }
        assert_eq!(Window::new([f64::MIN, f64::MAX]), None);
    }

    #[test]
    fn any_values_have_a_window() {
        for (values, ends) in [
            (&[][..], [0.0, 1.0]),
            (&[f32::NAN], [0.0, 1.0]),
            (&[2.0, 2.0], [2.0, 4.0]),
            (&[-3e38, 3e38], [f64::from(-3e38f32), f64::from(3e38f32)]),
            (&[1e30], [f64::from(1e30f32), 2.0 * f64::from(1e30f32)]),
            (&[f32::NEG_INFINITY, -1.0, 4.0], [-1.0, 4.0]),
        ] {
            let Window { low, high } = Window::of(values);
            assert_eq!([low, high], ends);
        }
    }

    #[test]
    fn damaged_notes() {
        assert_eq!(Note::parse("made by another program"), None);
        assert_eq!(Note::parse(""), None);
        assert_eq!(Note::parse("voxalign\0").unwrap(), Ok(Note::default()));
        for text in
            ["window 1", "window 2 1", "window a 3", "pixel 1 -1", "pixel nan 1", "more 1 2"]
        {
            let said = Note::parse(&format!("voxalign {text}")).unwrap().unwrap_err();
            assert!(said.contains(text), "{said}");
        }
    }

    proptest! {
        #[test]
        fn notes_come_back(low in -1e30..1e30f64, wide in 1e-3..1e30f64, pixel: bool) {
            let window = Window::new([low, low + wide]);
            let note = Note { window, pixel_size: pixel.then_some([wide, 0.1 + wide]) };
            prop_assert_eq!(Note::parse(&note.to_string()).unwrap().unwrap(), note);
        }

        #[test]
        fn values_come_back_within_half_a_step(low in -1e3..1e3f64, wide in 1e-2..1e4f64, at in 0.0..1.0f64) {
            let window = Window::new([low, low + wide]).unwrap();
            let value = (low + at * wide) as f32;
            let back = window.value(f64::from(window.stored(value)));
            let rounding = f64::from(value.abs().max(low.abs() as f32)) * 1e-6;
            prop_assert!(f64::from((back - value).abs()) <= 0.5 * window.step() + rounding);
            prop_assert_eq!(window.stored(back), window.stored(value));
        }
    }
}
