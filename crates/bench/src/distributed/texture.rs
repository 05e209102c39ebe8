//! A smooth random texture of any size that costs little more than a copy: the mean of two that repeat themselves, each after a number of pixels of its own.

use std::sync::OnceLock;
use voxalign_compute::ops::joint::Pixel;
use voxalign_image::memory;
use voxalign_jobs::Result;

/// A texture that repeats itself.
struct Layer {
    /// Pixels of a side of the cells of each octave; the last pixels of the period are the end of a cell of each.
    octaves: &'static [usize],
    /// Pixels after which it repeats itself, along both axes.
    period: usize,
}

/// Octaves of 64 and 16 pixels, and one of 256: the whole repeats itself after 87,296 pixels.
const LAYERS: [Layer; 2] =
    [Layer { octaves: &[64, 16], period: 64 * 31 }, Layer { octaves: &[256], period: 256 * 11 }];

/// One in the weights of interpolation.
const ONE: u32 = 1 << 12;

/// What the value of a pixel is made of.
pub(super) trait Depth: Pixel {
    /// The upper bits of a value of 16 bits.
    fn of(value: u16) -> Self;

    /// Of each two values the lower one of the whole numbers next to their mean.
    fn means(a: &[Self], b: &[Self], out: &mut [Self]);

    /// So many zeros, whose pages nobody has touched.
    ///
    /// # Errors
    /// What memory refuses.
    fn zeros(len: usize) -> Result<Vec<Self>>;

    /// The layers of the texture with such values.
    ///
    /// # Errors
    /// What memory refuses.
    fn layers() -> Result<&'static Layers<Self>>;
}

impl Depth for u8 {
    fn of(value: u16) -> Self {
        (value >> 8) as Self
    }

    fn means(a: &[Self], b: &[Self], out: &mut [Self]) {
        // Eight at a time, each of which stays within its byte.
        let (eights, last) = out.as_chunks_mut::<8>();
        let (a_eights, a_last) = a.as_chunks::<8>();
        let (b_eights, b_last) = b.as_chunks::<8>();
        for ((out, a), b) in eights.iter_mut().zip(a_eights).zip(b_eights) {
            let (a, b) = (u64::from_ne_bytes(*a), u64::from_ne_bytes(*b));
            let halves = ((a ^ b) >> 1) & 0x7f7f_7f7f_7f7f_7f7f;
            *out = ((a & b) + halves).to_ne_bytes();
        }
        for ((out, a), b) in last.iter_mut().zip(a_last).zip(b_last) {
            *out = (a & b) + ((a ^ b) >> 1);
        }
    }

    fn zeros(len: usize) -> Result<Vec<Self>> {
        Ok(memory::zeroed(len)?)
    }

    fn layers() -> Result<&'static Layers<Self>> {
        static KEPT: OnceLock<Layers<u8>> = OnceLock::new();
        Layers::kept(&KEPT)
    }
}

impl Depth for u16 {
    fn of(value: u16) -> Self {
        value
    }

    fn means(a: &[Self], b: &[Self], out: &mut [Self]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = (a & b) + ((a ^ b) >> 1);
        }
    }

    fn zeros(len: usize) -> Result<Vec<Self>> {
        Ok(memory::zeroed(len)?)
    }

    fn layers() -> Result<&'static Layers<Self>> {
        static KEPT: OnceLock<Layers<u16>> = OnceLock::new();
        Layers::kept(&KEPT)
    }
}

/// The pixels of a period of each layer.
pub(super) struct Layers<P>([Vec<P>; 2]);

impl<P: Depth> Layers<P> {
    fn kept(place: &'static OnceLock<Self>) -> Result<&'static Self> {
        if let Some(layers) = place.get() {
            return Ok(layers);
        }
        // Made twice where two threads come at once, and the same.
        let [fine, coarse] = &LAYERS;
        let made = Self([fine.pixels()?, coarse.pixels()?]);
        Ok(place.get_or_init(|| made))
    }

    /// Pixels of the row `y` from `x` on.
    pub(super) fn row(&self, y: usize, x: usize, out: &mut [P]) {
        let mut done = 0;
        while done < out.len() {
            let [a, b] = [0, 1].map(|k| {
                let period = LAYERS[k].period;
                let row = y % period * period;
                &self.0[k][row + (x + done) % period..row + period]
            });
            let count = a.len().min(b.len()).min(out.len() - done);
            P::means(&a[..count], &b[..count], &mut out[done..done + count]);
            done += count;
        }
    }
}

impl Layer {
    /// The pixels of a period: bilinear between random numbers at the corners of cells, with smooth weights, of all octaves alike.
    fn pixels<P: Depth>(&self) -> Result<Vec<P>> {
        let n = self.period;
        let mut out = memory::filled(n * n, P::default())?;
        let weights: Vec<_> = self.octaves.iter().map(|&cell| weights(cell)).collect();
        let mut sums = memory::filled(n, 0u32)?;
        for (y, row) in out.chunks_mut(n).enumerate() {
            sums.fill(0);
            for (&cell, weights) in self.octaves.iter().zip(&weights) {
                let cells = n / cell;
                let up = weights[y % cell];
                let point = |k: usize| {
                    let at = |row: usize| hash(cell, k % cells, row % cells);
                    (at(y / cell) * (ONE - up) + at(y / cell + 1) * up) / ONE
                };
                let mut low = point(0);
                for (k, sums) in sums.chunks_mut(cell).enumerate() {
                    let high = point(k + 1);
                    for (sum, w) in sums.iter_mut().zip(weights) {
                        *sum += (low * (ONE - w) + high * w) / ONE;
                    }
                    low = high;
                }
            }
            for (out, sum) in row.iter_mut().zip(&sums) {
                *out = P::of((*sum / self.octaves.len() as u32) as u16);
            }
        }
        Ok(out)
    }
}

/// A number of 16 bits that looks random.
fn hash(octave: usize, x: usize, y: usize) -> u32 {
    let mut z = (octave as u64) << 48 ^ (y as u64) << 24 ^ x as u64;
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ z >> 31) as u32 >> 16
}

/// Weights of the upper point at the places within a cell: 3t² − 2t³.
fn weights(cell: usize) -> Vec<u32> {
    let n = cell as u64;
    let weight = |t: u64| (u64::from(ONE) * (3 * t * t * n - 2 * t * t * t) / (n * n * n)) as u32;
    (0..n).map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_end_with_a_cell_of_each_octave() {
        for layer in &LAYERS {
            assert!(layer.octaves.iter().all(|cell| layer.period.is_multiple_of(*cell)));
        }
    }

    /// A row in one piece and in several, across the ends of periods, and each pixel by itself.
    #[test]
    fn pixels_do_not_depend_on_the_piece() {
        let layers = u16::layers().unwrap();
        let mut all = vec![0; 9000];
        layers.row(5000, 60_000, &mut all);
        for (start, piece) in (0..).step_by(777).zip(all.chunks(777)) {
            let mut found = vec![0; piece.len()];
            layers.row(5000, 60_000 + start, &mut found);
            assert_eq!(found, piece);
        }
        for (x, &found) in (60_000..).zip(&all).step_by(13) {
            let of = |k: usize| {
                let n = LAYERS[k].period;
                u32::from(layers.0[k][5000 % n * n + x % n])
            };
            assert_eq!(u32::from(found), (of(0) + of(1)) / 2);
        }
    }

    #[test]
    fn means_of_eight_are_those_of_each() {
        let a: Vec<u8> = (0..=255).chain([0, 255, 255]).collect();
        for shift in 0..=255 {
            let b: Vec<u8> = a.iter().map(|v| v.wrapping_mul(7).wrapping_add(shift)).collect();
            let mut out = vec![0; a.len()];
            u8::means(&a, &b, &mut out);
            for (out, (a, b)) in out.iter().zip(a.iter().zip(&b)) {
                assert_eq!(u32::from(*out), (u32::from(*a) + u32::from(*b)) / 2);
            }
        }
    }

    /// No shift by the blocks of common sizes gives the same image again.
    #[test]
    fn shifted_images_differ() {
        let layers = u8::layers().unwrap();
        let row = |y: usize, x: usize| {
            let mut row = [0; 256];
            layers.row(y, x, &mut row);
            row
        };
        for shift in [1, 1536, 4096, 12_288, 24_576, 32_768, 65_536, 73_728, 135_168] {
            let same = (0..8).filter(|k| row(300 * k, 0) == row(300 * k, shift)).count();
            let down = (0..8).filter(|k| row(0, 300 * k) == row(shift, 300 * k)).count();
            assert_eq!((same, down), (0, 0), "{shift}");
        }
    }
}
