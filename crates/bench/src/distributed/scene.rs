//! The images: a smooth random texture that every rank makes for its own blocks, and a circle of it that is compared.

use super::texture::{Depth, Layers};
use std::ops::{AddAssign, Range};
use std::time::Instant;
use voxalign_compute::ops::joint::{
    Block, FixedPointMap, JointRule, MovingBins, NO_SAMPLE, PixelsPerThread, Window,
};
use voxalign_compute::{Device, Dims};
use voxalign_image::memory;
use voxalign_jobs::Result;

use rayon::prelude::*;

/// The radius of the mask over the smaller half axis.
const RADIUS: f64 = 0.9;
/// Pixels whose bins are made at a time.
const PIECE: usize = 4096;
/// Bytes that go to a device at a time.
const STRIP: usize = 64 << 20;

/// Seconds of making images: that of the pixels on the host, and that of bringing them to the device.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Spent {
    pub(super) making: f64,
    pub(super) uploading: f64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.making += other.making;
        self.uploading += other.uploading;
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
    fn bin<P: Depth>(&self, value: P) -> u8 {
        let value: u32 = value.into();
        ((value * self.bins as u32) >> P::BITS) as u8
    }

    /// Bins of the fixed image in the row `y` from `x` on.
    fn fixed<P: Depth>(&self, layers: &Layers<P>, y: usize, x: usize, out: &mut [u8]) {
        let inside = self.inside(y);
        let place = |at: usize| at.clamp(x, x + out.len()) - x;
        let (first, end) = (place(inside.start), place(inside.end));
        out[..first].fill(NO_SAMPLE);
        out[end..].fill(NO_SAMPLE);
        let mut piece = [P::default(); PIECE];
        let inside = &mut out[first..end];
        for (start, out) in (x + first..).step_by(PIECE).zip(inside.chunks_mut(PIECE)) {
            let piece = &mut piece[..out.len()];
            layers.row(y, start, piece);
            out.iter_mut().zip(piece).for_each(|(out, v)| *out = self.bin(*v));
        }
    }

    /// The bins of a block of the fixed image.
    ///
    /// # Errors
    /// What memory refuses.
    pub(super) fn fixed_part<P: Depth>(&self, block: &Block) -> Result<Vec<u8>> {
        let layers = P::layers()?;
        let mut out = memory::zeroed(block.len())?;
        rows(&mut out, block, |y, x, out| self.fixed::<P>(layers, y, x, out));
        Ok(out)
    }

    /// The pixels of a block of the moving image.
    ///
    /// # Errors
    /// What memory refuses.
    pub(super) fn moving_part<P: Depth>(&self, block: &Block) -> Result<Vec<P>> {
        let layers = P::layers()?;
        let mut out = P::zeros(block.len())?;
        rows(&mut out, block, |y, x, out| layers.row(y, x, out));
        Ok(out)
    }

    /// The bins of a block of the fixed image on a device.
    pub(super) fn fixed_block<P: Depth, D: Device>(
        &self,
        device: &D,
        block: &Block,
        spent: &mut Spent,
    ) -> Result<D::Buffer<u8>> {
        let layers = P::layers()?;
        in_strips(device, block, spent, |y, x, out: &mut [u8]| {
            self.fixed::<P>(layers, y, x, out);
        })
    }

    /// The pixels of a block of the moving image on a device.
    pub(super) fn moving_block<P: Depth, D: Device>(
        &self,
        device: &D,
        block: &Block,
        spent: &mut Spent,
    ) -> Result<D::Buffer<P>> {
        let layers = P::layers()?;
        in_strips(device, block, spent, |y, x, out: &mut [P]| layers.row(y, x, out))
    }

    /// Writes all pixels of the moving image.
    ///
    /// # Errors
    /// What memory refuses.
    pub(super) fn whole<P: Depth>(&self, out: &mut [P]) -> Result<()> {
        let layers = P::layers()?;
        rows(out, &Block::whole(self.dims()), |y, x, out| layers.row(y, x, out));
        Ok(())
    }
}

/// Makes the rows of a block by all threads.
fn rows<T: Send>(out: &mut [T], block: &Block, row: impl Fn(usize, usize, &mut [T]) + Sync) {
    let lines = out.par_chunks_mut(block.dims[0].max(1)).enumerate();
    lines.for_each(|(k, line)| row(block.origin[1] + k, block.origin[0], line));
}

/// A block that is made some rows at a time.
fn in_strips<D: Device, T: Depth>(
    device: &D,
    block: &Block,
    spent: &mut Spent,
    row: impl Fn(usize, usize, &mut [T]) + Sync,
) -> Result<D::Buffer<T>> {
    let [width, height, _] = block.dims;
    let mut out = device.alloc(block.len())?;
    if block.is_empty() {
        return Ok(out);
    }
    let most = (STRIP / (width * size_of::<T>())).clamp(1, height);
    let mut strip = T::zeros(most * width)?;
    for part in block.chunks([width, most, 1]) {
        let strip = &mut strip[..part.len()];
        let start = Instant::now();
        rows(strip, &part, &row);
        let made = Instant::now();
        device.upload_part(&mut out, block.place(part.origin), strip)?;
        *spent +=
            Spent { making: (made - start).as_secs_f64(), uploading: made.elapsed().as_secs_f64() };
    }
    let start = Instant::now();
    device.synchronize()?;
    spent.uploading += start.elapsed().as_secs_f64();
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
        SCENE.whole(&mut whole).unwrap();
        let cpu = Cpu::new(Some(1)).unwrap();
        let block = Block { origin: [777, 31, 0], dims: [4200, 20, 1] };
        let mut spent = Spent::default();
        let part = SCENE.moving_block::<u16, _>(&cpu, &block, &mut spent).unwrap();
        let part = cpu.download(&part).unwrap();
        assert_eq!(part, SCENE.moving_part::<u16>(&block).unwrap());
        for (k, row) in part.chunks(4200).enumerate() {
            let first = 5000 * (31 + k) + 777;
            assert_eq!(row, &whole[first..first + 4200]);
        }
        let fixed = SCENE.fixed_block::<u16, _>(&cpu, &block, &mut spent).unwrap();
        assert!(spent.making > 0.0 && spent.uploading > 0.0);
        let bins = FixedBins::new(0, u16::MAX, 64).unwrap();
        assert_eq!(cpu.download(&fixed).unwrap(), SCENE.fixed_part::<u16>(&block).unwrap());
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
        SCENE.whole(&mut whole).unwrap();
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
