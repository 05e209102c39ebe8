//! The images: a smooth random texture that every rank makes for its own blocks, and a circle of it that is compared.

use std::ops::Range;
use voxalign_compute::ops::joint::{
    Block, FixedPointMap, JointRule, MovingBins, NO_SAMPLE, Pixel, PixelsPerThread, Window,
};
use voxalign_compute::{Device, Dims};
use voxalign_image::memory;
use voxalign_jobs::Result;

use rayon::prelude::*;

/// The radius of the mask over the smaller half axis.
const RADIUS: f64 = 0.9;
/// Pixels of a side of the cells of the texture, and the weight of each; the weights add up to 8.
const OCTAVES: [(usize, u32); 3] = [(256, 4), (64, 2), (16, 2)];
/// One in the weights of interpolation.
const ONE: u32 = 1 << 12;
/// Pixels that are made at a time.
const PIECE: usize = 4096;
/// Bytes that go to a device at a time.
const STRIP: usize = 64 << 20;

/// What the value of a pixel is made of.
pub(super) trait Depth: Pixel {
    /// The upper bits of a value of 16 bits.
    fn of(value: u16) -> Self;
}

impl Depth for u8 {
    fn of(value: u16) -> Self {
        (value >> 8) as Self
    }
}

impl Depth for u16 {
    fn of(value: u16) -> Self {
        value
    }
}

/// Two equal images, and the circle that is compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// Pixels along x and y.
    pub(super) size: [usize; 2],
    /// The number of bins of each image.
    pub(super) bins: usize,
}

/// A number that looks random.
fn hash(octave: usize, x: usize, y: usize) -> u32 {
    let mut z = (octave as u64) << 56 ^ (y as u64) << 28 ^ x as u64;
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ z >> 31) as u32 >> 16
}

/// Weights of the upper point at the places within a cell: 3t² − 2t³.
fn weights(cell: usize, out: &mut [u32; OCTAVES[0].0]) {
    let n = cell as u64;
    for (t, weight) in (0..n).zip(out) {
        *weight = (u64::from(ONE) * (3 * t * t * n - 2 * t * t * t) / (n * n * n)) as u32;
    }
}

/// The values of pixels of a row, from `first` on: bilinear between random numbers at the corners of cells, with smooth weights.
fn texture(y: usize, first: usize, out: &mut [u16]) {
    let mut sums = [0u32; PIECE];
    let mut weight = [0; OCTAVES[0].0];
    let mut line = [0u32; PIECE / OCTAVES[2].0 + 2];
    for (start, out) in (first..).step_by(PIECE).zip(out.chunks_mut(PIECE)) {
        let sums = &mut sums[..out.len()];
        sums.fill(0);
        for (octave, (cell, part)) in OCTAVES.into_iter().enumerate() {
            weights(cell, &mut weight);
            let (row, up) = (y / cell, weight[y % cell]);
            let left = start / cell;
            let points = (start + sums.len() - 1) / cell + 2 - left;
            for (k, point) in line[..points].iter_mut().enumerate() {
                let at = |row| hash(octave, left + k, row);
                *point = (at(row) * (ONE - up) + at(row + 1) * up) / ONE;
            }
            let (mut at, mut within) = (0, start % cell);
            for ends in line[..points].windows(2) {
                let count = (cell - within).min(sums.len() - at);
                let [low, high] = [ends[0] * part, ends[1] * part];
                let weights = &weight[within..within + count];
                for (sum, w) in sums[at..at + count].iter_mut().zip(weights) {
                    *sum += low * (ONE - w) + high * w;
                }
                (at, within) = (at + count, 0);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = (*sum >> 15) as u16;
        }
    }
}

impl Scene {
    /// The sizes of both images.
    pub(super) fn dims(&self) -> Dims {
        [self.size[0], self.size[1], 1]
    }

    fn centre(&self) -> [f64; 2] {
        self.size.map(|n| (n as f64 - 1.0) / 2.0)
    }

    /// The pixels of a row that are compared.
    pub(super) fn inside(&self, y: usize) -> Range<usize> {
        let [cx, cy] = self.centre();
        let radius = RADIUS * self.size[0].min(self.size[1]) as f64 / 2.0;
        let square = radius * radius - (y as f64 - cy) * (y as f64 - cy);
        if square < 0.0 {
            return 0..0;
        }
        let half = square.sqrt();
        (cx - half).ceil() as usize..(cx + half).floor() as usize + 1
    }

    /// The rotation by an angle, degrees, about the centre.
    pub(super) fn map(&self, degrees: f64) -> Result<FixedPointMap> {
        let ([cx, cy], (sin, cos)) = (self.centre(), degrees.to_radians().sin_cos());
        Ok(FixedPointMap::new(&[
            [cos, -sin, 0.0, cx - cos * cx + sin * cy],
            [sin, cos, 0.0, cy - sin * cx - cos * cy],
            [0.0, 0.0, 1.0, 0.0],
        ])?)
    }

    /// What is counted under a rotation.
    pub(super) fn rule<P: Depth>(
        &self,
        degrees: f64,
        window: Window,
        pixels_per_thread: PixelsPerThread,
    ) -> Result<JointRule> {
        let bins = MovingBins::new(0, ((1u32 << P::BITS) - 1) as u16, self.bins)?;
        let rule = JointRule::new(self.map(degrees)?, self.dims(), self.bins, bins, window);
        Ok(JointRule { pixels_per_thread, ..rule })
    }

    /// The bin of a pixel: that of `FixedBins` over all values.
    fn bin<P: Depth>(&self, value: u16) -> u8 {
        let value: u32 = P::of(value).into();
        ((value * self.bins as u32) >> P::BITS) as u8
    }

    /// Pixels of the row `y` from `x` on.
    pub(super) fn pixels<P: Depth>(&self, y: usize, x: usize, out: &mut [P]) {
        let mut piece = [0u16; PIECE];
        for (start, out) in (x..).step_by(PIECE).zip(out.chunks_mut(PIECE)) {
            let piece = &mut piece[..out.len()];
            texture(y, start, piece);
            out.iter_mut().zip(piece).for_each(|(out, v)| *out = P::of(*v));
        }
    }

    /// Bins of the fixed image in the row `y` from `x` on.
    pub(super) fn fixed<P: Depth>(&self, y: usize, x: usize, out: &mut [u8]) {
        let mut piece = [0u16; PIECE];
        let inside = self.inside(y);
        for (start, out) in (x..).step_by(PIECE).zip(out.chunks_mut(PIECE)) {
            let piece = &mut piece[..out.len()];
            texture(y, start, piece);
            for ((x, out), v) in (start..).zip(out).zip(piece) {
                *out = if inside.contains(&x) { self.bin::<P>(*v) } else { NO_SAMPLE };
            }
        }
    }

    /// The bins of a block of the fixed image on a device.
    pub(super) fn fixed_block<P: Depth, D: Device>(
        &self,
        device: &D,
        block: &Block,
    ) -> Result<D::Buffer<u8>> {
        in_strips(device, block, |y, x, out: &mut [u8]| self.fixed::<P>(y, x, out))
    }

    /// The pixels of a block of the moving image on a device.
    pub(super) fn moving_block<P: Depth, D: Device>(
        &self,
        device: &D,
        block: &Block,
    ) -> Result<D::Buffer<P>> {
        in_strips(device, block, |y, x, out: &mut [P]| self.pixels(y, x, out))
    }

    /// Writes all pixels of the moving image.
    pub(super) fn whole<P: Depth>(&self, out: &mut [P]) {
        let rows = out.par_chunks_mut(self.size[0]).enumerate();
        rows.for_each(|(y, row)| self.pixels(y, 0, row));
    }
}

/// A block that is made some rows at a time.
fn in_strips<D: Device, T: Depth>(
    device: &D,
    block: &Block,
    row: impl Fn(usize, usize, &mut [T]) + Sync,
) -> Result<D::Buffer<T>> {
    let [width, height, _] = block.dims;
    let mut out = device.alloc(block.len())?;
    if block.is_empty() {
        return Ok(out);
    }
    let rows = (STRIP / (width * size_of::<T>())).clamp(1, height);
    let mut strip = memory::filled(rows * width, T::default())?;
    for first in (0..height).step_by(rows) {
        let strip = &mut strip[..rows.min(height - first) * width];
        let lines = strip.par_chunks_mut(width).enumerate();
        lines.for_each(|(k, line)| row(block.origin[1] + first + k, block.origin[0], line));
        device.upload_part(&mut out, first * width, strip)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_compute::ops::joint::FixedBins;

    const SCENE: Scene = Scene { size: [5000, 70], bins: 64 };

    #[test]
    fn blocks_are_those_of_the_whole_image() {
        let mut whole = vec![0u16; 5000 * 70];
        SCENE.whole(&mut whole);
        let cpu = Cpu::new(Some(1)).unwrap();
        let block = Block { origin: [777, 31, 0], dims: [4200, 20, 1] };
        let part = SCENE.moving_block::<u16, _>(&cpu, &block).unwrap();
        let part = cpu.download(&part).unwrap();
        for (k, row) in part.chunks(4200).enumerate() {
            let first = 5000 * (31 + k) + 777;
            assert_eq!(row, &whole[first..first + 4200]);
        }
        let fixed = SCENE.fixed_block::<u16, _>(&cpu, &block).unwrap();
        let bins = FixedBins::new(0, u16::MAX, 64).unwrap();
        for (i, bin) in cpu.download(&fixed).unwrap().into_iter().enumerate() {
            let [x, y] = [777 + i % 4200, 31 + i / 4200];
            let expected = match SCENE.inside(y).contains(&x) {
                true => bins.bin(whole[5000 * y + x]),
                false => NO_SAMPLE,
            };
            assert_eq!(bin, expected);
        }
    }

    /// Neighbours differ little, and yet many values are there.
    #[test]
    fn the_texture_is_smooth_and_covers_many_bins() {
        let mut whole = vec![0u8; 5000 * 70];
        SCENE.whole(&mut whole);
        let steps = whole.chunks(5000).flat_map(|row| row.windows(2));
        let most = steps.map(|w| w[0].abs_diff(w[1])).max().unwrap();
        let down = (0..5000 * 69).map(|i| whole[i].abs_diff(whole[i + 5000])).max().unwrap();
        assert!((1..16).contains(&most) && (1..16).contains(&down), "{most} {down}");
        let mut seen = [false; 64];
        whole.iter().for_each(|v| seen[usize::from(v / 4)] = true);
        assert!(seen.iter().filter(|s| **s).count() > 32);
    }

    #[test]
    fn the_circle_stays_within_the_image_under_any_rotation() {
        let scene = Scene { size: [64, 80], bins: 8 };
        let mut inside = 0;
        for degrees in [0.0, 31.0, 90.0, 180.0] {
            let map = scene.map(degrees).unwrap();
            for y in 0..80 {
                for x in scene.inside(y) {
                    let q = map.coordinate([x, y, 0]);
                    assert!((0..=256 * 63).contains(&q[0]) && (0..=256 * 79).contains(&q[1]));
                    inside += 1;
                }
            }
        }
        let expected = 4.0 * std::f64::consts::PI * (0.9f64 * 32.0).powi(2);
        assert!((f64::from(inside) / expected - 1.0).abs() < 0.01);
    }
}
