//! Windows along x, y and z in one pass over memory.
//!
//! A task takes some rows and slices of an image. It goes from slice to slice: rows are filtered along x, then
//! along y, and kept until all slices about one are there, which are filtered along z. What is kept in between
//! stays in the cache. Every sum is formed in the order of [`super::lines`], whose bits these are.

use std::ops::Range;

use rayon::prelude::*;

use super::Cpu;
use super::simd::{LANES, Lanes, Vectors, kernel};
use crate::Dims;

/// Bytes that a task shall keep, of the nearest cache that a thread has for itself.
const CACHE: usize = 384 << 10;

/// The largest radius of a window, voxels.
pub(super) const MOST_RADIUS: usize = 6;

/// Windows from the centre to one side, none of them empty; `[1]` leaves an axis as it is.
pub(super) struct Windows {
    weights: [Vec<f32>; 3],
}

/// Rows and slices of an image, and the rows of the result for each slice.
struct Task<'a> {
    from: &'a [f32],
    rows: Range<usize>,
    slices: Range<usize>,
    out: Vec<&'a mut [f32]>,
}

impl Windows {
    /// Those of three axes, where none has a radius above [`MOST_RADIUS`].
    pub(super) fn new(weights: [Vec<f32>; 3]) -> Option<Self> {
        let fits = weights.iter().all(|w| (1..=MOST_RADIUS + 1).contains(&w.len()));
        fits.then_some(Self { weights })
    }

    fn radius(&self, axis: usize) -> usize {
        self.weights[axis].len() - 1
    }

    /// Filters images of these sizes, one after the other.
    pub(super) fn filter(&self, cpu: &Cpu, src: &[f32], dims: Dims, out: &mut [f32]) {
        let [nx, ny, nz] = dims;
        let images = src.len() / (nx * ny * nz);
        let row = nx.div_ceil(LANES) * size_of::<Lanes>();
        // As many rows as fit in the cache, but enough that those about them are not most of the work.
        let (ry, rz) = (self.radius(1), self.radius(2));
        let fitting = CACHE.saturating_sub(2 * ry * row) / ((2 * rz + AT_ONCE + 1) * row);
        let tiles = ny.div_ceil(fitting.max(4 * ry).max(8));
        let rows = ny.div_ceil(tiles);
        let tiles = ny.div_ceil(rows);
        let wanted = (3 * cpu.threads()).div_ceil(tiles * images);
        let slices = match cpu.threads() {
            1 => nz,
            _ => nz.div_ceil(wanted).max(4 * rz).max(1),
        };
        let slabs = nz.div_ceil(slices);
        let mut tasks: Vec<Task<'_>> = Vec::with_capacity(images * slabs * tiles);
        for (from, out) in src.chunks(nx * ny * nz).zip(out.chunks_mut(nx * ny * nz)) {
            let first = tasks.len();
            tasks.extend((0..slabs * tiles).map(|task| {
                let (y, z) = (task % tiles * rows, task / tiles * slices);
                let (rows, slices) = (y..ny.min(y + rows), z..nz.min(z + slices));
                Task { from, rows, out: Vec::with_capacity(slices.len()), slices }
            }));
            for (z, slice) in out.chunks_mut(nx * ny).enumerate() {
                let of_slab = tasks[first + z / slices * tiles..].iter_mut();
                of_slab
                    .zip(slice.chunks_mut(nx * rows))
                    .for_each(|(task, rows)| task.out.push(rows));
            }
        }
        let run = |task: &mut Task<'_>| run_task(cpu.simd(), self, dims, task);
        if cpu.threads() == 1 {
            tasks.iter_mut().for_each(run);
        } else {
            cpu.install(|| tasks.par_iter_mut().with_max_len(1).for_each(run));
        }
    }
}

/// Evaluates an expression with the number of weights as a constant.
macro_rules! with_weights {
    ($weights:expr, |$k:ident| $body:expr) => {
        with_weights!(@ $weights, $k, $body, 1 2 3 4 5 6 7)
    };
    (@ $weights:expr, $k:ident, $body:expr, $($n:literal)*) => {
        match $weights.len() {
            $($n => { const $k: usize = $n; $body })*
            _ => unreachable!("windows are checked when they are made"),
        }
    };
}

kernel! {
    fn run_task<V>(v, windows: &Windows, dims: Dims, task: &mut Task<'_>) {
        let [nx, ny, nz] = dims;
        let groups = nx.div_ceil(LANES);
        let [wx, wy, wz] = &windows.weights;
        let [rx, ry, rz] = [0, 1, 2].map(|axis| windows.radius(axis));
        let (first, count) = (task.rows.start, task.rows.len());
        let about = first.saturating_sub(ry)..ny.min(task.rows.end + ry);
        let (slot, slots) = (count * groups, 2 * rz + AT_ONCE);
        let mut padded = vec![0f32; groups * LANES + 2 * rx];
        let mut along_x = vec![[0f32; LANES]; about.len() * groups];
        let mut kept = vec![[0f32; LANES]; slots * slot];
        let mut next = task.slices.start.saturating_sub(rz);
        let mut z = task.slices.start;
        for out in task.out.chunks_mut(AT_ONCE) {
            while next < nz.min(z + out.len() + rz) {
                let slice = &task.from[(next * ny + about.start) * nx..][..about.len() * nx];
                for (row, to) in slice.chunks_exact(nx).zip(along_x.chunks_exact_mut(groups)) {
                    with_weights!(wx, |K| along_row::<V, K>(v, row, wx, &mut padded, to));
                }
                let to = &mut kept[next % slots * slot..][..slot];
                let row = |y: isize| {
                    let y = y.clamp(0, ny as isize - 1) as usize - about.start;
                    &along_x[y * groups..][..groups]
                };
                with_weights!(wy, |K| {
                    let mut y = first as isize;
                    let mut blocks = to.chunks_exact_mut(AT_ONCE * groups);
                    for to in &mut blocks {
                        let to = |g, n, sum| v.store(sum, &mut to[n * groups + g]);
                        Rows::<K, AT_ONCE>::about(y, row).sums(v, wy, groups, to);
                        y += AT_ONCE as isize;
                    }
                    for to in blocks.into_remainder().chunks_exact_mut(groups) {
                        let to = |g: usize, _, sum| v.store(sum, &mut to[g]);
                        Rows::<K, 1>::about(y, row).sums(v, wy, groups, to);
                        y += 1;
                    }
                });
                next += 1;
            }
            for y in 0..count {
                let row = |z: isize| {
                    let z = z.clamp(0, nz as isize - 1) as usize;
                    &kept[z % slots * slot + y * groups..][..groups]
                };
                with_weights!(wz, |K| {
                    if let Ok(out) = <&mut [_; AT_ONCE]>::try_from(&mut *out) {
                        let to = |g, n: usize, sum| store_group(v, sum, &mut out[n][y * nx..][..nx], g);
                        Rows::<K, AT_ONCE>::about(z as isize, row).sums(v, wz, groups, to);
                    } else {
                        for (n, out) in out.iter_mut().enumerate() {
                            let to = |g, _, sum| store_group(v, sum, &mut out[y * nx..][..nx], g);
                            Rows::<K, 1>::about((z + n) as isize, row).sums(v, wz, groups, to);
                        }
                    }
                });
            }
            z += out.len();
        }
    }
}

/// Stores group `g` of a row, which may be cut at its end.
#[inline(always)]
fn store_group<V: Vectors>(v: V, value: V::F, row: &mut [f32], g: usize) {
    let to = &mut row[g * LANES..];
    match to.first_chunk_mut() {
        Some(to) => v.store(value, to),
        None => {
            let mut all = [0f32; LANES];
            v.store(value, &mut all);
            let n = to.len();
            to.copy_from_slice(&all[..n]);
        }
    }
}

/// Sums that are made at once, of rows that are mostly the same.
const AT_ONCE: usize = 4;

/// The rows that `N` windows of `K` weights to a side see, of neighbouring places.
struct Rows<'a, const K: usize, const N: usize>([&'a [Lanes]; 2 * MOST_RADIUS + AT_ONCE]);

impl<'a, const K: usize, const N: usize> Rows<'a, K, N> {
    const COUNT: usize = 2 * (K - 1) + N;

    /// Those of the windows about `place` and the places after it.
    #[inline(always)]
    fn about(place: isize, row: impl Fn(isize) -> &'a [Lanes]) -> Self {
        let of =
            |i| if i < Self::COUNT { row(place + i as isize - (K as isize - 1)) } else { &[][..] };
        Self(std::array::from_fn(of))
    }

    /// Hands the weighted sums on: of which group, of which window.
    #[inline(always)]
    fn sums<V: Vectors>(
        self,
        v: V,
        weights: &[f32],
        groups: usize,
        mut to: impl FnMut(usize, usize, V::F),
    ) {
        let weights: [V::F; K] = std::array::from_fn(|k| v.splat(weights[k]));
        let rows = self.0.map(|row| row.get(..groups).unwrap_or(&[]));
        for g in 0..groups {
            let at: [V::F; 2 * MOST_RADIUS + AT_ONCE] = std::array::from_fn(|i| {
                if i < Self::COUNT { v.load(&rows[i][g]) } else { v.splat(0.0) }
            });
            for n in 0..N {
                let centre = K - 1 + n;
                let mut sum = v.mul(weights[0], at[centre]);
                for k in 1..K {
                    let pair = v.add(at[centre - k], at[centre + k]);
                    sum = v.add(sum, v.mul(weights[k], pair));
                }
                to(g, n, sum);
            }
        }
    }
}

/// Filters a row; `padded` gets it with repeated ends.
#[inline(always)]
fn along_row<V: Vectors, const K: usize>(
    v: V,
    row: &[f32],
    weights: &[f32],
    padded: &mut [f32],
    out: &mut [Lanes],
) {
    let radius = K - 1;
    let (Some(&first), Some(&last)) = (row.first(), row.last()) else { return };
    padded[..radius].fill(first);
    padded[radius..][..row.len()].copy_from_slice(row);
    padded[radius + row.len()..].fill(last);
    for (g, out) in out.iter_mut().enumerate() {
        let window = &padded[g * LANES..][..LANES + 2 * radius];
        let at = |i: usize| v.load(window[i..][..LANES].first_chunk().unwrap_or(&[0.0; LANES]));
        let mut sum = v.mul(v.splat(weights[0]), at(radius));
        for k in 1..K {
            let pair = v.add(at(radius - k), at(radius + k));
            sum = v.add(sum, v.mul(v.splat(weights[k]), pair));
        }
        v.store(sum, out);
    }
}
