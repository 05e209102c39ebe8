//! Windowed sums along x, y and z in one pass over memory.
//!
//! A task takes some rows and slices of an image. It goes from slice to slice: rows are filtered along x, then
//! along y, and kept until all slices about one are there, which are filtered along z. What is kept in between
//! stays in the cache. Every sum is formed in the order of [`super::lines`], whose bits these are.

use std::ops::Range;

use rayon::prelude::*;

use super::Cpu;
use super::lit::{Lit, NOTHING, joined, other_than};
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
        // The groups of each row that are not zero, be they of a row along x or of one that is kept.
        let mut lit_x = vec![NOTHING; about.len()];
        let mut lit = vec![NOTHING; slots * count];
        let mut next = task.slices.start.saturating_sub(rz);
        let mut z = task.slices.start;
        for out in task.out.chunks_mut(AT_ONCE) {
            while next < nz.min(z + out.len() + rz) {
                let slice = &task.from[(next * ny + about.start) * nx..][..about.len() * nx];
                let rows = slice.chunks_exact(nx).zip(along_x.chunks_exact_mut(groups));
                for ((row, to), lit) in rows.zip(&mut lit_x) {
                    *lit = lit_groups(row);
                    with_weights!(wx, |K| along_row::<V, K>(v, row, wx, &mut padded, *lit, to));
                }
                let lit = &mut lit[next % slots * count..][..count];
                for (y, lit) in lit.iter_mut().enumerate() {
                    let (from, to) = ((first + y).saturating_sub(ry), ny.min(first + y + ry + 1));
                    *lit = both(&lit_x[from - about.start..to - about.start]);
                }
                let to = &mut kept[next % slots * slot..][..slot];
                let row = |y: isize| {
                    let y = y.clamp(0, ny as isize - 1) as usize - about.start;
                    &along_x[y * groups..][..groups]
                };
                with_weights!(wy, |K| {
                    let (mut y, mut lit) = (first as isize, &lit[..]);
                    to.fill([0.0; LANES]);
                    let mut blocks = to.chunks_exact_mut(AT_ONCE * groups);
                    for to in &mut blocks {
                        let (some, rest) = lit.split_at(AT_ONCE);
                        let to = |g, n, sum| v.store(sum, &mut to[n * groups + g]);
                        Rows::<K, AT_ONCE>::about(y, row).sums(v, wy, both(some), to);
                        (y, lit) = (y + AT_ONCE as isize, rest);
                    }
                    for (to, lit) in blocks.into_remainder().chunks_exact_mut(groups).zip(lit) {
                        let to = |g: usize, _, sum| v.store(sum, &mut to[g]);
                        Rows::<K, 1>::about(y, row).sums(v, wy, *lit, to);
                        y += 1;
                    }
                });
                next += 1;
            }
            for y in 0..count {
                let (low, high) = (z.saturating_sub(rz), nz.min(z + out.len() + rz));
                let lit = (low..high).map(|z| lit[z % slots * count + y]).reduce(joined);
                let lit = lit.unwrap_or(NOTHING);
                // What is not filled below is zero.
                let dark = [0..nx.min(lit.0.saturating_mul(LANES)), nx.min(lit.1 * LANES)..nx];
                for range in dark.into_iter().filter(|range| !range.is_empty()) {
                    out.iter_mut().for_each(|out| out[y * nx..][..nx][range.clone()].fill(0.0));
                }
                let row = |z: isize| {
                    let z = z.clamp(0, nz as isize - 1) as usize;
                    &kept[z % slots * slot + y * groups..][..groups]
                };
                with_weights!(wz, |K| {
                    if let Ok(out) = <&mut [_; AT_ONCE]>::try_from(&mut *out) {
                        let to = |g, n: usize, sum| store_group(v, sum, &mut out[n][y * nx..][..nx], g);
                        Rows::<K, AT_ONCE>::about(z as isize, row).sums(v, wz, lit, to);
                    } else {
                        for (n, out) in out.iter_mut().enumerate() {
                            let to = |g, _, sum| store_group(v, sum, &mut out[y * nx..][..nx], g);
                            Rows::<K, 1>::about((z + n) as isize, row).sums(v, wz, lit, to);
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
        let first = place - (K as isize - 1);
        let mut rows = [&[][..]; 2 * MOST_RADIUS + AT_ONCE];
        for i in 0..Self::COUNT {
            rows[i] = row(first + i as isize);
        }
        Self(rows)
    }

    /// Hands the weighted sums on: of which group, of which window.
    #[inline(always)]
    fn sums<V: Vectors>(
        self,
        v: V,
        weights: &[f32],
        lit: Lit,
        mut to: impl FnMut(usize, usize, V::F),
    ) {
        if lit.0 >= lit.1 {
            return;
        }
        let (mut of, mut rows) = ([v.splat(0.0); K], self.0);
        for k in 0..K {
            of[k] = v.splat(weights[k]);
        }
        let weights = of;
        for i in 0..Self::COUNT {
            rows[i] = &rows[i][..lit.1];
        }
        for g in lit.0..lit.1 {
            let mut at = [v.splat(0.0); 2 * MOST_RADIUS + AT_ONCE];
            for i in 0..Self::COUNT {
                at[i] = v.load(&rows[i][g]);
            }
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

fn both(rows: &[Lit]) -> Lit {
    rows.iter().copied().fold(NOTHING, joined)
}

/// The groups of a row that are not zero once it is filtered along x.
#[inline(always)]
fn lit_groups(row: &[f32]) -> Lit {
    match other_than(row, 0.0) {
        NOTHING => NOTHING,
        // A window reaches into the groups beside.
        (first, end) => (first.saturating_sub(1), row.len().div_ceil(LANES).min(end + 1)),
    }
}

/// Filters a row; `padded` gets it with repeated ends.
#[inline(always)]
fn along_row<V: Vectors, const K: usize>(
    v: V,
    row: &[f32],
    weights: &[f32],
    padded: &mut [f32],
    lit: Lit,
    out: &mut [Lanes],
) {
    out.fill([0.0; LANES]);
    if lit.0 >= lit.1 {
        return;
    }
    let radius = K - 1;
    let (Some(&first), Some(&last)) = (row.first(), row.last()) else { return };
    padded[..radius].fill(first);
    padded[radius..][..row.len()].copy_from_slice(row);
    padded[radius + row.len()..].fill(last);
    for (g, out) in out.iter_mut().enumerate().take(lit.1).skip(lit.0) {
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
