//! Colours for labels that have none.

use std::collections::HashSet;

/// The first colours: each as far as possible from those before it, in OKLab (Ottosson 2020) with twice the weight on
/// hue and saturation, from all colours that are neither near black, white nor grey. So the first few are far apart, however many
/// are taken. Numbers as in `#e6194b`.
const FIRST: [u32; 64] = [
    0xe6194b, 0x00ff00, 0x0000ff, 0x005f50, 0xc800ff, 0xffe1a5, 0x9ba5ff, 0x00ffff, 0x732d78,
    0xa56900, 0x5aa000, 0xff7ddc, 0x0a4ba0, 0x6405d2, 0xe1f500, 0xf5918c, 0x1ea5be, 0x87282d,
    0xffcdff, 0x73f096, 0xbe00a0, 0xa55fdc, 0xffa000, 0x556eff, 0xaa78a5, 0xa0aa6e, 0xff5f00,
    0x9bdcff, 0x5a6900, 0x00b487, 0x00a0ff, 0xff0f96, 0xff00e6, 0xb94178, 0x5f78aa, 0xb4f5d2,
    0xd2be19, 0x8200aa, 0x2d28c8, 0x5537a0, 0x7dd700, 0xc35a46, 0xe664ff, 0xdc9bff, 0x6e410f,
    0xff6996, 0xd2f08c, 0x4b4678, 0x008246, 0x9b2dff, 0xcd9664, 0x5000ff, 0x69cdc3, 0x005a7d,
    0xb40000, 0x824b64, 0x786ed2, 0xbe5ab4, 0x00d2ff, 0xf09bc8, 0x3c8c7d, 0x96c85a, 0x00c85f,
    0x8c005f,
];

/// Steps through the cube of colours, as parts of 2^32: the powers of 1 / 1.2207…, the root of x⁴ = x + 1, whose multiples fill a
/// cube evenly for any number of points (Roberts 2018).
const STEPS: [u32; 3] = [3_518_319_155, 2_882_110_345, 2_360_945_575];
/// The darkest value of a channel, and how many there are from it on.
const DARKEST: u32 = 30;
const LEVELS: u32 = 226;
/// What keeps colours from grey and from black: the least range of the channels, and the least of the brightest one.
const LEAST_RANGE: u8 = 48;
const LEAST_BRIGHTNESS: u8 = 110;

/// Colours, red, green and blue from 0 to 255, without an end. They are the same every time. The first 64 are easy to
/// tell apart; further ones lie ever closer together, and no two of the first 65535 are the same.
pub fn default_colours() -> impl Iterator<Item = [u8; 3]> {
    let further = (1u32..).map(|i| STEPS.map(|step| channel(i.wrapping_mul(step))));
    FIRST.into_iter().map(channels).chain(further.filter(|colour| is_plain(*colour)))
}

/// Red, green and blue of a number such as 0xe6194b.
fn channels(colour: u32) -> [u8; 3] {
    let [_, channels @ ..] = colour.to_be_bytes();
    channels
}

/// A value of a channel from a part of 2^32.
fn channel(part: u32) -> u8 {
    // Below 256, as the part has 24 bits here.
    (DARKEST + (((part >> 8) * LEVELS) >> 24)) as u8
}

/// Whether a colour is neither near grey nor near black.
fn is_plain(colour: [u8; 3]) -> bool {
    let least = colour.into_iter().fold(u8::MAX, u8::min);
    let most = colour.into_iter().fold(0, u8::max);
    most - least >= LEAST_RANGE && most >= LEAST_BRIGHTNESS
}

/// As [`default_colours`], without those that are taken.
pub(super) fn colours_besides(taken: &HashSet<[u8; 3]>) -> impl Iterator<Item = [u8; 3]> + '_ {
    default_colours().filter(|colour| !taken.contains(colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lightness and the two axes of colour, by Ottosson's matrices for sRGB.
    fn oklab(colour: [u8; 3]) -> [f64; 3] {
        let [r, g, b] = colour.map(|c| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
        let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
        let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
        [
            0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
            1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
            0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
        ]
    }

    fn distance(a: [u8; 3], b: [u8; 3]) -> f64 {
        let (a, b) = (oklab(a), oklab(b));
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// The least distance among the first colours. Differences of 0.02 are just seen side by side.
    #[test]
    fn the_first_are_far_apart() {
        let colours: Vec<_> = default_colours().take(64).collect();
        for (n, least) in [(6, 0.25), (12, 0.16), (20, 0.12), (32, 0.1), (64, 0.07)] {
            let found = (0..n)
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| distance(colours[i], colours[j]))
                .fold(f64::INFINITY, f64::min);
            assert!(found >= least, "{n} colours: {found}");
        }
        for colour in colours {
            let [l, a, b] = oklab(colour);
            assert!((0.42..0.93).contains(&l) && a.hypot(b) > 0.08, "{colour:?}");
        }
    }

    #[test]
    fn all_differ() {
        let all: HashSet<_> = default_colours().take(65535).collect();
        assert_eq!(all.len(), 65535);
        assert!(default_colours().skip(FIRST.len()).take(65535).all(is_plain));
        // They have not changed: files of two versions look the same.
        let some: Vec<_> =
            [0, 63, 64, 65534].iter().filter_map(|&n| default_colours().nth(n)).collect();
        assert_eq!(some[..2], [[230, 25, 75], [140, 0, 95]]);
        assert_eq!(some.len(), 4);
    }

    #[test]
    fn taken_ones_are_left_out() {
        let taken = HashSet::from([channels(FIRST[0]), channels(FIRST[2])]);
        let found: Vec<_> = colours_besides(&taken).take(3).collect();
        assert_eq!(found, [1, 3, 4].map(|n| channels(FIRST[n])));
    }
}
