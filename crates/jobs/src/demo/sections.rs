//! Two sections of the same tissue in different stains, of any size, made block by block.
//!
//! What is at a point of the plane is a rule: a piece of tissue with structures of all sizes, from a quarter of the side down to some pixels, on a bright background.
//! The moving section shows it under an affine map, in another stain, and each has noise of its own.

use super::super::affine::Job;
use crate::error::{Error, Result};
use crate::listener::{Listener, check};
use crate::options::Distributed;
use crate::pair::PairPaths;
use rayon::prelude::*;
use std::path::Path;
use voxalign_image::{Affine, Grid, Matrix3, Transform, Vector3, memory};
use voxalign_io::image::{DataType, Region};
use voxalign_io::pyramid::{Pixels, PyramidToWrite, PyramidWriter};
use voxalign_io::transform::{Geometry, read};
use voxalign_options::{Chosen, text};

/// The side of a section, mm.
pub const SIDE_MM: f64 = 16.0;
/// By how much the moving section is turned, degrees.
pub const TURN: f64 = 14.0;
/// By how much it is stretched along x and y.
pub const SCALE: [f64; 2] = [1.03, 0.98];
/// By how much it is shifted along x and y, mm.
pub const SHIFT: [f64; 2] = [0.6, -0.4];

/// Sides that can be made, pixels.
pub const SIDES: [usize; 2] = [256, 200_000];
/// Pixels of the cells of the finest structures.
const FINEST: f64 = 6.0;
/// The ratio of the sizes of structures that follow each other.
const RATIO: f64 = 4.0;
/// Pixels of a tile, and rows that are made at once.
const TILE: usize = 512;

/// Two sections.
#[derive(Debug, Clone)]
pub struct Sections {
    side: usize,
    seed: u64,
}

impl Sections {
    /// Of so many pixels along each side.
    ///
    /// # Errors
    /// Sides that are not made.
    pub fn new(side: usize) -> Result<Self> {
        let [least, most] = SIDES;
        match (least..=most).contains(&side) {
            true => Ok(Self { side, seed: 0x5EC7 }),
            false => {
                Err(Error::input(text!("`size` is {side}; give pixels from {least} to {most}")))
            }
        }
    }

    /// The grid of the fixed section.
    fn grid(&self) -> Result<Grid> {
        let spacing = SIDE_MM / self.side as f64;
        let axes = Matrix3::from_diagonal(&Vector3::new(-spacing, -spacing, spacing));
        Ok(Grid::new([self.side, self.side, 1], Affine::new(axes, Vector3::zeros()))?)
    }

    /// From the fixed section to the moving one, mm.
    #[must_use]
    pub fn map(&self) -> Affine {
        let (s, c) = TURN.to_radians().sin_cos();
        let [x, y] = SCALE;
        let turn = Matrix3::new(c * x, -s * y, 0.0, s * x, c * y, 0.0, 0.0, 0.0, 1.0);
        let middle = Vector3::new(-0.5 * SIDE_MM, -0.5 * SIDE_MM, 0.0);
        Affine::about(turn, middle, Vector3::new(SHIFT[0], SHIFT[1], 0.0))
    }

    /// Writes both into a folder, and gives the job that registers them into another one.
    ///
    /// # Errors
    /// A folder that cannot be written, a wish to stop.
    pub fn write(&self, folder: &Path, output: &Path, listener: &dyn Listener) -> Result<Job> {
        let back = self.map().inverse()?;
        let plain = |value: f64| value;
        let other = |value: f64| 225.0 - 0.75 * value - 20.0 * (value / 30.0).sin();
        let fixed = folder.join("fixed.ome.zarr");
        let moving = folder.join("moving.ome.zarr");
        let identity = Affine::translation(Vector3::zeros());
        self.section(&fixed, (&identity, 1), &plain, listener)?;
        self.section(&moving, (&back, 2), &other, listener)?;
        let mut job = Job {
            paths: PairPaths::new(fixed, moving),
            output: output.to_owned(),
            ..Job::default()
        };
        job.distributed.distributed = Chosen::of(Distributed::AUTO);
        Ok(job)
    }

    fn section(
        &self,
        path: &Path,
        (to_tissue, noise): (&Affine, u64),
        stain: &(dyn Fn(f64) -> f64 + Sync),
        listener: &dyn Listener,
    ) -> Result<()> {
        let grid = self.grid()?;
        let mut what = PyramidToWrite::new(grid.clone(), DataType::U8);
        (what.tile, what.compression_level) = (Some([TILE, TILE, 1]), 1);
        let writer = PyramidWriter::create(path, &what)?;
        for y in (0..self.side).step_by(TILE) {
            check(listener)?;
            let rows = TILE.min(self.side - y);
            let mut pixels = memory::filled(rows * self.side, 0u8)?;
            pixels.par_chunks_mut(self.side).enumerate().for_each(|(row, out)| {
                self.row(&grid, y + row, (to_tissue, noise), stain, out);
            });
            let region = Region { start: [0, y, 0], size: [self.side, rows, 1] };
            writer.write(&region, Pixels::U8(pixels).view())?;
        }
        check(listener)?;
        Ok(writer.finish()?)
    }

    /// Structures from large to small ones, which are fainter.
    fn octaves(&self) -> Vec<Octave> {
        let finest = FINEST * SIDE_MM / self.side as f64;
        let (mut all, mut cell, mut height) = (Vec::new(), SIDE_MM / 4.0, 170.0);
        while cell > finest {
            all.push(Octave::new(cell, self.seed + 1 + all.len() as u64, height));
            cell /= RATIO;
            height = f64::max(0.6 * height, 45.0);
        }
        all.push(Octave::new(finest, self.seed + 1 + all.len() as u64, 45.0));
        all
    }

    /// A row of pixels.
    fn row(
        &self,
        grid: &Grid,
        y: usize,
        (to_tissue, noise): (&Affine, u64),
        stain: &(dyn Fn(f64) -> f64 + Sync),
        out: &mut [u8],
    ) {
        let at =
            |x: usize| to_tissue.apply(grid.index_to_world(Vector3::new(x as f64, y as f64, 0.0)));
        let first = at(0);
        let step = (at(self.side - 1) - first) / (self.side - 1) as f64;
        let mut outline = Octave::new(SIDE_MM / 3.0, self.seed, 1.0);
        let mut octaves = self.octaves();
        for (x, out) in out.iter_mut().enumerate() {
            let p = [0, 1].map(|a| first[a] + step[a] * x as f64);
            // In sides from the middle.
            let [u, v] = p.map(|c| c / SIDE_MM + 0.5);
            let edge = 0.34 + 0.2 * outline.at(p);
            let tissue = match u * u / 1.3 + v * v < edge * edge {
                false => 238.0,
                true => {
                    let sum: f64 = octaves.iter_mut().map(|o| o.at(p)).sum();
                    stain((120.0 + sum).clamp(15.0, 225.0)).clamp(10.0, 232.0)
                }
            };
            let grain = hash(x as i64, y as i64, self.seed ^ (noise << 32)) - 0.5;
            *out = (tissue + 8.0 * grain).round() as u8;
        }
    }

    /// How far the corner of the fixed section is from where it belongs that is farthest, pixels.
    ///
    /// # Errors
    /// A result that is not there.
    pub fn error(&self, folder: &Path) -> Result<f64> {
        let found: Transform = read(folder.join(crate::run::TRANSFORM), &Geometry::default())?;
        let (grid, map) = (self.grid()?, self.map());
        let far = grid.corners().map(|p| (found.apply(p) - map.apply(p)).norm());
        Ok(far.into_iter().fold(0.0, f64::max) * self.side as f64 / SIDE_MM)
    }
}

/// A number from 0 to 1 of two whole ones.
fn hash(x: i64, y: i64, seed: u64) -> f64 {
    let mut h = (x as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ (y as u64).wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
        ^ seed.wrapping_mul(0x1656_67B1_9E37_79F9);
    h ^= h >> 29;
    h = h.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h ^= h >> 32;
    (h >> 11) as f64 / (1u64 << 53) as f64
}

/// Smooth noise with cells of one size.
struct Octave {
    cell: f64,
    seed: u64,
    /// From the lowest to the highest value, whose middle is 0.
    height: f64,
    /// The cell that was looked at last, and the numbers of its corners.
    last: [i64; 2],
    corners: [f64; 4],
}

impl Octave {
    fn new(cell: f64, seed: u64, height: f64) -> Self {
        Self { cell, seed, height, last: [i64::MAX; 2], corners: [0.0; 4] }
    }

    fn at(&mut self, p: [f64; 2]) -> f64 {
        let q = p.map(|c| c / self.cell);
        let low = q.map(f64::floor);
        let here = low.map(|c| c as i64);
        if here != self.last {
            let [i, j] = here;
            self.corners = [[i, j], [i + 1, j], [i, j + 1], [i + 1, j + 1]]
                .map(|[i, j]| hash(i, j, self.seed));
            self.last = here;
        }
        let [s, t] = [0, 1].map(|a| {
            let part = q[a] - low[a];
            part * part * (3.0 - 2.0 * part)
        });
        let [a, b, c, d] = self.corners;
        let (upper, lower) = (a + s * (b - a), c + s * (d - c));
        self.height * (upper + t * (lower - upper) - 0.5)
    }
}
