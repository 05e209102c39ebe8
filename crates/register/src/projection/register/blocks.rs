//! Offsets between outlines of an X-ray image and of the simulated one, block by block: errors that a global
//! similarity hides, and that metal or a collimator elsewhere in the image does not disturb.

use super::level::{Level, Shown};
use crate::error::Result;
use nalgebra::{Matrix2, Vector2};
use voxalign_compute::Device;
use voxalign_image::{Affine, memory};

/// Columns and rows of a block, and the distance between blocks, pixels.
const SIDE: usize = 12;
const STRIDE: usize = 6;
/// The search range for outlines to either side, pixels, and the number of steps per pixel.
const REACH: i32 = 4;
const STEPS: i32 = 2;
/// The fraction of the blocks that see the CT, those with the strongest outlines, that count.
const STRONG: f64 = 0.5;

/// The agreement of the outlines of a view with those of the simulated image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlines {
    /// The distance of outlines in blocks from where the pose puts them, across the outline: the median, mm at the
    /// place of the CT. Blocks that have nothing in common give half of the search range, two pixels.
    pub apart: f64,
    /// The correlation of gradients within blocks: the median.
    pub alike: f64,
    /// The same with outlines as far away as is looked at: what chance gives.
    pub chance: f64,
    /// The number of blocks.
    pub blocks: usize,
}

/// An image of gradients.
struct Gradients {
    dims: [usize; 2],
    values: Vec<Vector2<f32>>,
}

impl Gradients {
    /// By differences over 3 x 3 pixels; 0 at the border, and no numbers next to pixels that are left out.
    fn new(dims: [usize; 2], image: &[f32], without: Option<&[bool]>) -> Result<Self> {
        let [w, h] = dims;
        let mut values = memory::filled(w * h, Vector2::zeros())?;
        for y in 1..h.saturating_sub(1) {
            for x in 1..w.saturating_sub(1) {
                let at = |dx: usize, dy: usize| image[(y + dy - 1) * w + x + dx - 1];
                let along = |a: [f32; 3], b: [f32; 3]| {
                    (b[0] - a[0] + 2.0 * (b[1] - a[1]) + b[2] - a[2]) / 8.0
                };
                let column = |i: usize| [at(i, 0), at(i, 1), at(i, 2)];
                let row = |i: usize| [at(0, i), at(1, i), at(2, i)];
                values[y * w + x] =
                    Vector2::new(along(column(0), column(2)), along(row(0), row(2)));
            }
        }
        for i in (0..w * h).filter(|&i| without.is_some_and(|w| w[i])) {
            let (x, y) = (i % w, i / w);
            for y in y.saturating_sub(1)..(y + 2).min(h) {
                let part = y * w + x.saturating_sub(1)..y * w + (x + 2).min(w);
                values[part].fill(Vector2::repeat(f32::NAN));
            }
        }
        Ok(Self { dims, values })
    }

    /// Linearly interpolated; none outside, and none where values are not finite.
    fn at(&self, x: f64, y: f64) -> Option<Vector2<f64>> {
        let [w, h] = self.dims;
        if !(x >= 0.0 && y >= 0.0 && x <= (w - 1) as f64 && y <= (h - 1) as f64) {
            return None;
        }
        let (i, j) = ((x as usize).min(w.max(2) - 2), (y as usize).min(h.max(2) - 2));
        let (u, v) = (x - i as f64, y - j as f64);
        let value = |i: usize, j: usize| self.values[j * w + i].map(f64::from);
        let row = |j: usize| value(i, j) * (1.0 - u) + value(i + 1, j) * u;
        let value = row(j) * (1.0 - v) + row(j + 1) * v;
        (!value.x.is_nan()).then_some(value)
    }
}

/// A block of a simulated image.
struct Block {
    corner: [usize; 2],
    energy: f64,
    /// Across its outlines.
    across: Vector2<f64>,
}

fn blocks(simulated: &Gradients, image: &[f32]) -> Vec<Block> {
    let [w, h] = simulated.dims;
    let mut all = Vec::new();
    let corners = |n: usize| (0..=n.saturating_sub(SIDE)).step_by(STRIDE);
    if w < SIDE || h < SIDE {
        return all;
    }
    for y in corners(h) {
        for x in corners(w) {
            let (mut seen, mut tensor) = (0, Matrix2::zeros());
            for j in y..y + SIDE {
                for i in x..x + SIDE {
                    let g = simulated.values[j * w + i].map(f64::from);
                    if g.x.is_nan() {
                        continue;
                    }
                    tensor += g * g.transpose();
                    seen += usize::from(image[j * w + i] > 0.0);
                }
            }
            let energy = tensor.trace();
            if 2 * seen < SIDE * SIDE || energy <= 0.0 {
                continue;
            }
            let found = tensor.symmetric_eigen();
            let across = found.eigenvectors.column(found.eigenvalues.imax()).into_owned();
            all.push(Block { corner: [x, y], energy, across });
        }
    }
    all.sort_by(|a, b| b.energy.total_cmp(&a.energy));
    let strong = (STRONG * all.len() as f64).ceil() as usize;
    all.truncate(strong);
    all
}

/// The correlation of the gradients of a block with those of the X-ray image, shifted by this many pixels.
fn correlation(block: &Block, simulated: &Gradients, taken: &Gradients, by: f64) -> Option<f64> {
    let w = simulated.dims[0];
    let [x, y] = block.corner;
    let (mut n, mut sums) = (0.0, [Vector2::zeros(); 2]);
    let mut products = [0.0; 3];
    for j in y..y + SIDE {
        for i in x..x + SIDE {
            let s = simulated.values[j * w + i].map(f64::from);
            if s.x.is_nan() {
                continue;
            }
            let place = Vector2::new(i as f64, j as f64) + block.across * by;
            let Some(t) = taken.at(place.x, place.y) else { continue };
            n += 1.0;
            sums[0] += s;
            sums[1] += t;
            products[0] += s.dot(&t);
            products[1] += s.dot(&s);
            products[2] += t.dot(&t);
        }
    }
    if 2.0 * n < (SIDE * SIDE) as f64 {
        return None;
    }
    let [st, ss, tt] = products;
    let (a, b) = (sums[0] / n, sums[1] / n);
    let size = ((ss - n * a.dot(&a)) * (tt - n * b.dot(&b))).sqrt();
    let both = st - n * a.dot(&b);
    Some(if size > 0.0 { both / size } else { 0.0 })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Of an X-ray image and the simulated one; `size` is that of a pixel, mm.
fn outlines(shown: &Shown, size: f64) -> Result<Outlines> {
    let (dims, without) = (shown.dims, shown.without.as_deref());
    let of_blocks = Gradients::new(dims, &shown.simulated, without)?;
    let taken = Gradients::new(dims, &shown.taken, without)?;
    let all = blocks(&of_blocks, &shown.simulated);
    let (mut apart, mut alike, mut chance) = (Vec::new(), Vec::new(), Vec::new());
    for block in &all {
        let ends = REACH * STEPS;
        let at = |step: i32| {
            let by = f64::from(step) / f64::from(STEPS);
            correlation(block, &of_blocks, &taken, by).unwrap_or(-1.0)
        };
        let found: Vec<f64> = (-ends..=ends).map(at).collect();
        let mut best = 0;
        for (i, &c) in found.iter().enumerate() {
            if c > found[best] {
                best = i;
            }
        }
        let mut step = best as f64 - f64::from(ends);
        if best > 0 && best + 1 < found.len() {
            let [a, b, c] = [found[best - 1], found[best], found[best + 1]];
            let bend = a - 2.0 * b + c;
            step += if bend < 0.0 { 0.5 * (a - c) / bend } else { 0.0 };
        }
        apart.push(step.abs() / f64::from(STEPS) * size);
        alike.push(found[ends as usize]);
        chance.push(0.5 * (found[0] + found[found.len() - 1]));
    }
    let blocks = all.len();
    Ok(Outlines { apart: median(apart), alike: median(alike), chance: median(chance), blocks })
}

impl<D: Device> Level<'_, D> {
    /// The agreement of outlines in each view at a pose.
    pub(super) fn outlines(&self, at: &Affine) -> Result<Vec<Outlines>> {
        let all = self.simulated(at)?;
        all.iter().map(|shown| outlines(shown, self.size)).collect()
    }
}
