//! The difference of self-similarity contexts and its derivative in one pass.
//!
//! With `t_k = (D_k − min D) / V` and the entry `c_k = exp(−t_k)` of the moving image, and `δ_k` what is left of
//! that of the fixed one, `h_k = w φ′(δ_k) c_k` is the derivative of a voxel's energy in `t_k`, and that in `D_k` is
//! `g_k = (h_k − [D_k is the smallest] Σ h − Σ h t / K) / V`. Its sums over windows, `b_k` at `p`, act on the
//! voxels that are compared there: `2 b_k (I(p + a) − I(p + b))` on the one at `p + a`, and as much against it on that at `p + b`.
//!
//! The derivative in the fixed image, where it is asked for too, is that with both images exchanged; what they have in common is made once.
//!
//! A task takes some rows and slices, and goes from slice to slice as local correlation does. Neither a sum nor the order in
//! which a voxel is acted on depends on how the grid is cut into tasks.

use super::sliding::{Line, Room, Slide};
use super::tasks::{self, Cut, Task, about, load};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::lit::{self, Lit, joined, other_than};
use crate::cpu::simd::{LANES, Lanes, Vectors, kernel};
use crate::error::Result;
use crate::ops::similarity::{Contexts, NEIGHBOURS, NO_DIFFERENCE, compared};

/// The most entries of a context.
const MOST: usize = 12;

/// Bytes that a task shall keep.
const CACHE: usize = 2 << 20;

/// Shared by all tasks.
pub(super) struct Job<'a> {
    images: [&'a [f32]; 2],
    weights: Option<&'a [f32]>,
    dims: Dims,
    radius: [usize; 3],
    distance: [usize; 3],
    /// The noise of a whole window.
    noise: f32,
    pairs: Vec<[usize; 2]>,
    /// The weight of an entry of a voxel.
    scale: f64,
}

impl<'a> Job<'a> {
    /// Of the fixed and the moving image, and the sum of the weights.
    pub(super) fn new(
        images: [&'a [f32]; 2],
        weights: Option<&'a [f32]>,
        dims: Dims,
        contexts: &Contexts,
        total: f64,
    ) -> Self {
        let ([radius, distance], pairs) = (contexts.along(dims), compared(dims));
        let scale = 1.0 / (total * pairs.len().max(1) as f64);
        let noise = contexts.noise_of_patch(dims);
        Self { images, weights, dims, radius, distance, noise, pairs, scale }
    }

    /// Groups of sixteen numbers of a row and the zeros after it, at least the radius.
    fn groups(&self) -> usize {
        (self.dims[0] + self.radius[0]).div_ceil(LANES)
    }

    /// The row that leads from a row to its neighbour along y or z, or is the row itself; none outside.
    fn row_of(&self, neighbour: usize, [y, z]: [usize; 2]) -> Option<[usize; 2]> {
        let (axis, up) = NEIGHBOURS[neighbour];
        let step = |at: usize, a: usize| match up {
            true => (at + self.distance[a] < self.dims[a]).then_some(at + self.distance[a]),
            false => at.checked_sub(self.distance[a]),
        };
        match axis {
            0 => Some([y, z]),
            1 => Some([step(y, 1)?, z]),
            _ => Some([y, step(z, 2)?]),
        }
    }

    fn row<'i>(&self, image: &'i [f32], [y, z]: [usize; 2]) -> &'i [f32] {
        let [nx, ny, _] = self.dims;
        &image[(y + z * ny) * nx..][..nx]
    }
}

/// Writes the derivative in the moving image, and after it that in the fixed one if there are two. Gives the energy.
pub(super) fn run<const N: usize>(
    cpu: &Cpu,
    job: &Job<'_>,
    mut derivatives: [&mut [f32]; N],
) -> Result<f64> {
    derivatives.iter_mut().for_each(|derivative| derivative.fill(0.0));
    if job.pairs.is_empty() {
        return Ok(0.0);
    }
    let images = job.pairs.len() * job.groups();
    let bytes = [2, N].map(|of| Slide::bytes(job.dims[2], job.radius[2], of * images));
    let reach = [1, 2].map(|a| job.radius[a] + job.distance[a]);
    let cut = Cut { dims: job.dims, reach, cache: CACHE, bytes };
    let sum = tasks::run(cpu, &cut, derivatives, |task| run_task::<N>(cpu.simd(), job, task))?;
    Ok(sum * job.scale)
}

/// The values of an image at the neighbours of a row, zeros after the row, and 1 where there is such a neighbour along x.
struct Around {
    values: [Room; 6],
    is_there: [bool; 6],
    inside: [Room; 2],
}

impl Around {
    fn new(job: &Job<'_>, groups: usize) -> Self {
        let (nx, d) = (job.dims[0], job.distance[0]);
        let mut inside = [Room::new(groups), Room::new(groups)];
        for x in 0..nx {
            inside[0].numbers()[x] = f32::from(u8::from(x + d < nx));
            inside[1].numbers()[x] = f32::from(u8::from(x >= d));
        }
        Self { values: std::array::from_fn(|_| Room::new(groups)), is_there: [false; 6], inside }
    }

    fn read(&mut self, job: &Job<'_>, image: &[f32], at: [usize; 2]) {
        let (nx, d) = (job.dims[0], job.distance[0].min(job.dims[0]));
        for (n, values) in self.values.iter_mut().enumerate() {
            let row = job.row_of(n, at).map(|at| job.row(image, at));
            self.is_there[n] = row.is_some() && job.dims[NEIGHBOURS[n].0] > 1;
            let (Some(row), to) = (row, &mut values.numbers()[..nx]) else { continue };
            match n {
                0 => to[..nx - d].copy_from_slice(&row[d..]),
                1 => to[d..].copy_from_slice(&row[..nx - d]),
                _ => to.copy_from_slice(row),
            }
        }
    }

    /// The difference of two neighbours in a group of voxels, 0 where one of them is outside.
    #[inline(always)]
    fn difference<V: Vectors>(&self, v: V, [a, b]: [usize; 2], g: usize) -> V::F {
        let value = |n: usize| v.load(&self.values[n].all()[g]);
        let difference = v.sub(value(a), value(b));
        match a.min(b) {
            n @ (0 | 1) => v.mul(difference, v.load(&self.inside[n].all()[g])),
            _ => difference,
        }
    }
}

/// The squares of all differences of a row where it is lit.
#[inline(always)]
fn squares<V: Vectors>(v: V, job: &Job<'_>, around: &Around, lit: Lit, out: &mut [Lanes]) {
    let groups = out.len() / job.pairs.len();
    for (pair, out) in job.pairs.iter().zip(out.chunks_exact_mut(groups)) {
        if lit.0 >= lit.1 {
            continue;
        }
        if pair.iter().any(|&n| !around.is_there[n]) {
            out[lit.0..lit.1].fill([0.0; LANES]);
            continue;
        }
        for (g, out) in (lit.0..lit.1).zip(&mut out[lit.0..lit.1]) {
            let difference = around.difference(v, *pair, g);
            v.store(v.mul(difference, difference), out);
        }
    }
}

/// `exp(−t)` of at most [`MOST`]: the Taylor polynomial of a sixteenth of `t`, to the sixteenth power.
#[inline(always)]
fn exp_of_minus<V: Vectors>(v: V, t: V::F) -> V::F {
    const TERMS: [f32; 10] = [
        -1.0 / 362_880.0,
        1.0 / 40_320.0,
        -1.0 / 5_040.0,
        1.0 / 720.0,
        -1.0 / 120.0,
        1.0 / 24.0,
        -1.0 / 6.0,
        0.5,
        -1.0,
        1.0,
    ];
    let s = v.mul(t, v.splat(1.0 / 16.0));
    let mut power = v.splat(TERMS[0]);
    for term in &TERMS[1..] {
        power = v.add(v.mul(power, s), v.splat(*term));
    }
    for _ in 0..4 {
        power = v.mul(power, power);
    }
    power
}

/// The contexts of sixteen voxels: `D`, the smallest of these, `t`, the entries, and one over `V`.
struct Context<V: Vectors> {
    distances: [V::F; MOST],
    least: V::F,
    t: [V::F; MOST],
    entries: [V::F; MOST],
    over: V::F,
}

#[inline(always)]
fn context<V: Vectors>(v: V, sums: &[Lanes], count: usize, noise: f32, g: usize) -> Context<V> {
    let groups = sums.len() / count;
    let zero = v.splat(0.0);
    let mut distances = [zero; MOST];
    let (mut least, mut sum) = (v.splat(f32::INFINITY), zero);
    for k in 0..count {
        distances[k] = v.load(&sums[k * groups + g]);
        least = v.min(distances[k], least);
        sum = v.add(sum, distances[k]);
    }
    let variance = v.add(v.mul(sum, v.splat(1.0 / count as f32)), v.splat(noise));
    let over = v.div(v.splat(1.0), variance);
    let (mut t, mut entries) = ([zero; MOST], [zero; MOST]);
    for k in 0..count {
        t[k] = v.mul(v.sub(distances[k], least), over);
        entries[k] = exp_of_minus(v, t[k]);
    }
    Context { distances, least, t, entries, over }
}

/// The derivatives of the energy in each distance of a row where it is lit, those of the moving image and after them those of the fixed one
/// if there are two, given the distances of both; gives the energy.
#[inline(always)]
fn coefficients<V: Vectors, const N: usize>(
    v: V,
    job: &Job<'_>,
    sums: &[Lanes],
    weights: &[f32],
    lit: Lit,
    out: &mut [Lanes],
) -> f64 {
    let count = job.pairs.len();
    let groups = out.len() / (N * count);
    let (of_fixed, of_moving) = sums.split_at(count * groups);
    let zero = v.splat(0.0);
    let none = v.splat(NO_DIFFERENCE);
    let square = v.mul(none, none);
    let mut energy = v.splat_wide(0.0);
    for g in lit.0..lit.1 {
        let fixed = context(v, of_fixed, count, job.noise, g);
        let moving = context(v, of_moving, count, job.noise, g);
        let w = load(v, weights, g, 0.0);
        let (mut size, mut along) = (zero, [zero; MOST]);
        for k in 0..count {
            let difference = v.sub(fixed.entries[k], moving.entries[k]);
            let length = v.sqrt(v.add(v.mul(difference, difference), square));
            size = v.add(size, v.sub(length, none));
            along[k] = v.div(difference, length);
        }
        energy = v.add_wide(energy, v.widen(v.mul(w, size)));
        for (which, out) in out.chunks_exact_mut(count * groups).enumerate() {
            // In the fixed image the difference has the other sign.
            let (context, sign) = if which == 0 { (&moving, 1.0) } else { (&fixed, -1.0) };
            let entry = |k: usize| v.mul(v.mul(along[k], v.splat(sign)), context.entries[k]);
            derivative(v, job, context, entry, (w, g), out);
        }
    }
    let mut lanes = [0f64; LANES];
    v.store_wide(energy, &mut lanes);
    lanes.into_iter().sum()
}

/// The derivative in the distances of a context of sixteen voxels in group `g` of a row, given their weights and, without these, the
/// derivative in each `t`.
#[inline(always)]
fn derivative<V: Vectors>(
    v: V,
    job: &Job<'_>,
    of: &Context<V>,
    in_t: impl Fn(usize) -> V::F,
    (w, g): (V::F, usize),
    out: &mut [Lanes],
) {
    let (count, zero) = (job.pairs.len(), v.splat(0.0));
    let groups = out.len() / count;
    let (mut sum, mut sum_t, mut h) = (zero, zero, [zero; MOST]);
    for k in 0..count {
        h[k] = in_t(k);
        sum = v.add(sum, h[k]);
        sum_t = v.add(sum_t, v.mul(h[k], of.t[k]));
    }
    let factor = v.mul(v.mul(w, v.splat(job.scale as f32)), of.over);
    let mean_t = v.mul(sum_t, v.splat(1.0 / count as f32));
    let mut left = v.splat(1.0);
    for k in 0..count {
        // The first of those that are the smallest.
        let is_least = v.select(v.eq(of.distances[k], of.least), left, zero);
        left = v.sub(left, is_least);
        let g_k = v.sub(v.sub(h[k], v.mul(is_least, sum)), mean_t);
        v.store(v.mul(factor, g_k), &mut out[k * groups + g]);
    }
}

/// What the windows about a row do to a neighbour of it, where they are lit; `room` is as long as a row with zeros.
#[inline(always)]
fn act<V: Vectors>(
    v: V,
    job: &Job<'_>,
    around: &Around,
    neighbour: usize,
    (sums, lit): (&[Lanes], Lit),
    room: &mut Room,
    out: &mut [f32],
) {
    let groups = sums.len() / job.pairs.len();
    let all = &mut room.all_mut()[..groups];
    for g in lit.0..lit.1 {
        let mut sum = v.splat(0.0);
        for (k, pair) in job.pairs.iter().enumerate() {
            let other = match *pair {
                [a, b] if a == neighbour => b,
                [a, b] if b == neighbour => a,
                _ => continue,
            };
            if around.is_there[other] {
                let difference = around.difference(v, [neighbour, other], g);
                sum = v.add(sum, v.mul(v.load(&sums[k * groups + g]), difference));
            }
        }
        v.store(v.add(sum, sum), &mut all[g]);
    }
    let (nx, d) = (job.dims[0], job.distance[0].min(job.dims[0]));
    let (from, to) = (nx.min(lit.0 * LANES), nx.min(lit.1 * LANES));
    let numbers = &room.numbers()[..nx];
    match neighbour {
        0 => add(&numbers[from..to.min(nx - d).max(from)], &mut out[(from + d).min(nx)..]),
        1 => {
            let from = from.max(d).min(to);
            add(&numbers[from..to], &mut out[from.saturating_sub(d)..]);
        }
        _ => add(&numbers[from..to], &mut out[from..]),
    }
}

#[inline(always)]
fn add(from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}

/// Where a row and those around it are other than the first voxel of the image: elsewhere all differences are zero. Groups
/// next to these too, as neighbours and windows along x reach there.
fn lit_of(job: &Job<'_>, image: &[f32], at: [usize; 2], groups: usize) -> Lit {
    let value = image.first().copied().unwrap_or_default();
    // The first two are the row itself.
    let rows = (1..6).filter_map(|n| job.row_of(n, at));
    let lit = rows.map(|at| other_than(job.row(image, at), value)).fold(lit::NOTHING, joined);
    let reach = job.distance[0].div_ceil(LANES);
    if lit.0 >= lit.1 {
        return lit::NOTHING;
    }
    (lit.0.saturating_sub(reach), groups.min(lit.1 + reach))
}

kernel! {
    fn run_task<V, const N: usize>(v, job: &Job<'_>, task: &mut Task<'_, N>) {
        let [nx, ny, nz] = job.dims;
        let ([rx, ry, rz], [_, dy, dz]) = (job.radius, job.distance);
        let count = job.pairs.len();
        // Rows and slices that act on those of the task, of the contexts that they are summed of, and of what these are.
        let (rows, slices) = (task.rows.clone(), task.slices.clone());
        let (acting_rows, acting_slices) = (about(&rows, dy, ny), about(&slices, dz, nz));
        let (centre_rows, centre_slices) =
            (about(&acting_rows, ry, ny), about(&acting_slices, rz, nz));
        let (voxel_rows, voxel_slices) =
            (about(&centre_rows, ry, ny), about(&centre_slices, rz, nz));
        let groups = job.groups();
        let (both, found) = ((2 * count, groups), (N * count, groups));
        let mut voxels_y = Slide::new(ny, ry, voxel_rows.start, 1, both);
        let mut voxels_z = Slide::new(nz, rz, voxel_slices.start, centre_rows.len(), both);
        let mut voxels_x = Line::new(rx, both);
        let mut windows_x = Line::new(rx, found);
        let mut windows_y = Slide::new(ny, ry, centre_rows.start, 1, found);
        let mut windows_z = Slide::new(nz, rz, centre_slices.start, acting_rows.len(), found);
        let (mut sums, mut sums_of_windows) =
            (Room::new(2 * count * groups), Room::new(N * count * groups));
        let (mut around, mut room) = (Around::new(job, groups), Room::new(groups));
        let ones = vec![1f32; nx];
        let (mut centre_z, mut acting_z) = (centre_slices.start, acting_slices.start);
        for z in voxel_slices {
            let mut centre_y = centre_rows.start;
            for y in voxel_rows.clone() {
                let lit = job.images.iter().map(|image| lit_of(job, image, [y, z], groups));
                let lit = lit.fold(lit::NOTHING, joined);
                let slot = voxels_y.slot(y, 0, lit);
                for (image, out) in job.images.iter().zip(slot.chunks_exact_mut(count * groups)) {
                    if lit.0 < lit.1 {
                        around.read(job, image, [y, z]);
                        squares(v, job, &around, lit, out);
                    }
                }
                voxels_y.given(v, y, 0);
                while centre_y < centre_rows.end && voxels_y.last(centre_y) <= y {
                    let i = centre_y - centre_rows.start;
                    let lit = voxels_y.lit(centre_y, 0);
                    voxels_y.sum(v, centre_y, 0, voxels_z.slot(z, i, lit));
                    voxels_z.given(v, z, i);
                    centre_y += 1;
                }
            }
            while centre_z < centre_slices.end && voxels_z.last(centre_z) <= z {
                let mut acting_y = acting_rows.start;
                for y in centre_rows.clone() {
                    let i = y - centre_rows.start;
                    let lit = voxels_z.lit(centre_z, i);
                    voxels_z.sum(v, centre_z, i, voxels_x.rows(lit));
                    let lit = voxels_x.lit(lit);
                    voxels_x.sum(v, lit, sums.all_mut());
                    let weights = job.weights.map_or(&ones[..], |w| job.row(w, [y, centre_z]));
                    let out = windows_x.rows(lit);
                    let energy = coefficients::<V, N>(v, job, sums.all(), weights, lit, out);
                    if rows.contains(&y) && slices.contains(&centre_z) {
                        task.energy[centre_z - slices.start][y - rows.start] = energy;
                    }
                    let lit = windows_x.lit(lit);
                    windows_x.sum(v, lit, windows_y.slot(y, 0, lit));
                    windows_y.given(v, y, 0);
                    while acting_y < acting_rows.end && windows_y.last(acting_y) <= y {
                        let i = acting_y - acting_rows.start;
                        let lit = windows_y.lit(acting_y, 0);
                        windows_y.sum(v, acting_y, 0, windows_z.slot(centre_z, i, lit));
                        windows_z.given(v, centre_z, i);
                        acting_y += 1;
                    }
                }
                while acting_z < acting_slices.end && windows_z.last(acting_z) <= centre_z {
                    for y in acting_rows.clone() {
                        let i = y - acting_rows.start;
                        let lit = windows_z.lit(acting_z, i);
                        if lit.0 >= lit.1 {
                            continue;
                        }
                        windows_z.sum(v, acting_z, i, sums_of_windows.all_mut());
                        let of_windows = sums_of_windows.all().chunks_exact(count * groups);
                        for (which, sums) in of_windows.enumerate() {
                            around.read(job, job.images[1 - which], [y, acting_z]);
                            for n in 0..6 {
                                let at = job.row_of(n, [y, acting_z]);
                                let at = at.filter(|_| around.is_there[n]);
                                let Some([to_y, to_z]) = at else { continue };
                                if !rows.contains(&to_y) || !slices.contains(&to_z) {
                                    continue;
                                }
                                let out = &mut task.derivatives[which][to_z - slices.start];
                                let out = &mut out[(to_y - rows.start) * nx..][..nx];
                                act(v, job, &around, n, (sums, lit), &mut room, out);
                            }
                        }
                    }
                    acting_z += 1;
                }
                centre_z += 1;
            }
        }
    }
}
