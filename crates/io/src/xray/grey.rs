//! Conversion of image samples to one value per pixel.

use crate::image::Oddity;

/// Weights of red, green and blue in the luminance (ITU-R BT.601).
const LUMINANCE: [f64; 3] = [0.299, 0.587, 0.114];

/// What the samples of a pixel are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Samples {
    /// The first three are red, green and blue; otherwise the first is the value.
    pub(super) colour: bool,
    /// How many there are.
    pub(super) count: usize,
    /// Bits of each, where they are whole numbers.
    pub(super) bits: Option<u32>,
}

impl Samples {
    /// Fills `out` by pixel; `sample` gives a sample by the number of its pixel and its own.
    pub(super) fn fill(&self, out: &mut [f32], sample: impl Fn(usize, usize) -> f64) {
        for (pixel, to) in out.iter_mut().enumerate() {
            *to = if self.colour {
                let of = |c: usize| sample(pixel, c);
                LUMINANCE.iter().enumerate().map(|(c, weight)| weight * of(c)).sum::<f64>() as f32
            } else {
                sample(pixel, 0) as f32
            };
        }
    }

    /// What is unusual about them.
    pub(super) fn oddities(&self) -> Vec<Oddity> {
        let mut found = Vec::new();
        if self.colour {
            let words = "it is a colour image; its luminance is used";
            found.push(Oddity::Colour(words.into()));
        }
        if self.count > if self.colour { 3 } else { 1 } {
            let words = "it has opacity (an alpha channel), which is ignored";
            found.push(Oddity::Opacity(words.into()));
        }
        found.extend(self.bits.and_then(coarse));
        found
    }
}

/// Whole numbers of a few bits.
pub(super) fn coarse(bits: u32) -> Option<Oddity> {
    let unit = if bits == 1 { "bit" } else { "bits" };
    (1..=8)
        .contains(&bits)
        .then(|| Oddity::Coarse(format!("{bits} {unit}: {} grey values", 1u32 << bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grey_colours_keep_their_values() {
        let mut out = [0.0; 65536];
        Samples { colour: true, count: 3, bits: Some(16) }.fill(&mut out, |pixel, _| pixel as f64);
        assert!(out.iter().enumerate().all(|(v, &grey)| grey == v as f32));
        let mut red = [0.0];
        let samples = Samples { colour: true, count: 4, bits: Some(8) };
        samples.fill(&mut red, |_, c| if c == 0 { 200.0 } else { 0.0 });
        assert_eq!(red, [59.8]);
        let said = samples.oddities();
        assert!(matches!(said[..], [Oddity::Colour(_), Oddity::Opacity(_), Oddity::Coarse(_)]));
        assert_eq!(said[2], "8 bits: 256 grey values");
        assert!(Samples { colour: false, count: 1, bits: Some(16) }.oddities().is_empty());
    }
}
