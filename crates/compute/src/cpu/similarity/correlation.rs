//! Local correlation and its derivative in one pass.
//!
//! With `p = 2 w A / (B C)`, `q = p A / C` and `r = p f̄ − q m̄` at the centres of windows, and `Σ` over
//! the centres of the windows that a voxel is in (which are those in the window about the voxel, also at
//! the border), the derivative in the moving image is `−(f Σ p − m Σ q − Σ r) / Σ w`. That in the fixed image is
//! `−(m Σ p − f Σ q' − Σ r') / Σ w` with `q' = p A / B` and `r' = p m̄ − q' f̄`.
//!
//! A task takes some rows and slices. It goes from slice to slice: products of the voxels are summed
//! along y, then along z, then along x; the coefficients made of the sums are summed along x, y and z,
//! and make the derivative some slices behind. What is kept in between stays in the caches. The sums do not
//! depend on how the grid is cut into tasks.

use super::sliding::{Line, Room, Slide};
use super::tasks::{self, Cut, Task, about, load};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::lit::{Lit, joined, other_than};
use crate::cpu::simd::{LANES, Lanes, Vectors, kernel};
use crate::error::Result;

/// Bytes that a task shall keep, of the nearest cache that a thread has for itself.
const CACHE: usize = 768 << 10;

/// Rows from which the mean of the image is estimated.
const SAMPLED: usize = 1024;

/// Shared by all tasks.
pub(super) struct Job<'a> {
    pub(super) fixed: &'a [f32],
    pub(super) moving: &'a [f32],
    pub(super) weights: Option<&'a [f32]>,
    pub(super) dims: Dims,
    /// Below the sizes.
    pub(super) radius: [usize; 3],
    pub(super) noise: f32,
    /// The factor of the derivative.
    pub(super) scale: f32,
}

/// Numbers that are taken off the images, so that single precision is enough for sums of squares: near their
/// means, or those of their backgrounds, of which nothing is left then that would have to be summed.
#[derive(Clone, Copy)]
struct Centres {
    fixed: f32,
    moving: f32,
}

impl Centres {
    fn of(job: &Job<'_>) -> Self {
        let of =
            |image| background(image, job.dims, job.noise).unwrap_or_else(|| mean(image, job.dims));
        Self { fixed: of(job.fixed), moving: of(job.moving) }
    }
}

/// The fraction of the sampled voxels that has to be background for skipping it to pay.
const BACKGROUND: usize = 8;

/// By how much the mean square of the distance from the background may exceed the noise: variances in single
/// precision have errors of this many times 1e-7 of it.
const CONTRAST: f64 = 1e4;

/// The value of the first voxel, if many others have it and the rest are not far from it.
fn background(image: &[f32], dims: Dims, noise: f32) -> Option<f32> {
    let &value = image.first().filter(|v| v.is_finite())?;
    let step = (dims[1] * dims[2]).div_ceil(SAMPLED);
    let (mut same, mut count, mut squares) = (0, 0, 0.0);
    for row in image.chunks_exact(dims[0]).skip(step / 2).step_by(step) {
        same += row.iter().filter(|&&v| v == value).count();
        squares += row.iter().map(|&v| (v - value) * (v - value)).sum::<f32>() as f64;
        count += row.len();
    }
    let is_near = squares <= CONTRAST * f64::from(noise) * count as f64;
    (is_near && same * BACKGROUND >= count.max(1)).then_some(value)
}

/// The mean of some rows.
fn mean(image: &[f32], dims: Dims) -> f32 {
    let step = (dims[1] * dims[2]).div_ceil(SAMPLED);
    let (mut sum, mut count) = (0.0, 0usize);
    for row in image.chunks_exact(dims[0]).skip(step / 2).step_by(step) {
        let mut lanes = [0f64; 8];
        for eight in row.chunks(8) {
            lanes.iter_mut().zip(eight).for_each(|(lane, &value)| *lane += f64::from(value));
        }
        sum += lanes.iter().sum::<f64>();
        count += row.len();
    }
    let mean = (sum / count.max(1) as f64) as f32;
    if mean.is_finite() { mean } else { 0.0 }
}

/// Writes the derivative in the moving image, and after it that in the fixed one if there are two. Gives `Σ w c`.
pub(super) fn run<const N: usize>(
    cpu: &Cpu,
    job: &Job<'_>,
    derivatives: [&mut [f32]; N],
) -> Result<f64> {
    let [_, ry, rz] = job.radius;
    let (centres, groups) = (Centres::of(job), groups(job));
    let bytes = [5, coefficients_of(N)].map(|n| Slide::bytes(job.dims[2], rz, n * groups));
    let cut = Cut { dims: job.dims, reach: [ry, rz], cache: CACHE, bytes };
    tasks::run(cpu, &cut, derivatives, |task| run_task::<N>(cpu.simd(), job, centres, task))
}

/// The number of coefficients of a window: `p`, and of each derivative `q` and `r`.
const fn coefficients_of(derivatives: usize) -> usize {
    1 + 2 * derivatives
}

/// Groups of sixteen numbers of a row and the zeros after it, at least the radius.
fn groups(job: &Job<'_>) -> usize {
    (job.dims[0] + job.radius[0]).div_ceil(LANES)
}

/// The images' values and their products, the centres taken off, where these are lit; zeros after the row.
#[inline(always)]
fn products<V: Vectors>(v: V, f: &[f32], m: &[f32], centres: Centres, lit: Lit, out: &mut [Lanes]) {
    let groups = out.len() / 5;
    let (of_f, rest) = out.split_at_mut(groups);
    let (of_m, rest) = rest.split_at_mut(groups);
    let (of_ff, rest) = rest.split_at_mut(groups);
    let (of_mm, of_fm) = rest.split_at_mut(groups);
    let (cf, cm) = (v.splat(centres.fixed), v.splat(centres.moving));
    for g in lit.0..lit.1 {
        let f = v.sub(load(v, f, g, centres.fixed), cf);
        let m = v.sub(load(v, m, g, centres.moving), cm);
        v.store(f, &mut of_f[g]);
        v.store(m, &mut of_m[g]);
        v.store(v.mul(f, f), &mut of_ff[g]);
        v.store(v.mul(m, m), &mut of_mm[g]);
        v.store(v.mul(f, m), &mut of_fm[g]);
    }
}

/// The numbers of voxels of the windows of a row.
struct Counts {
    /// Along x, and those along y times those along z that the others are made for.
    along_x: Room,
    others: usize,
    /// One over the number, and the noise of that many voxels.
    inverse: Room,
    noise: Room,
}

impl Counts {
    fn new(job: &Job<'_>, groups: usize) -> Self {
        let (nx, radius) = (job.dims[0], job.radius[0]);
        let mut along_x = Room::new(groups);
        for (x, count) in along_x.numbers().iter_mut().enumerate() {
            let window = about(&(x..x + 1), radius, nx);
            *count = window.end.saturating_sub(window.start).max(1) as f32;
        }
        Self { along_x, others: 0, inverse: Room::new(groups), noise: Room::new(groups) }
    }

    #[inline(always)]
    fn of_row<V: Vectors>(&mut self, v: V, others: usize, noise: f32) {
        if others == self.others {
            return;
        }
        self.others = others;
        let (one, others, noise) = (v.splat(1.0), v.splat(others as f32), v.splat(noise));
        let out = self.inverse.all_mut().iter_mut().zip(self.noise.all_mut());
        for (x, (inverse, of_window)) in self.along_x.all().iter().zip(out) {
            let count = v.mul(v.load(x), others);
            v.store(v.div(one, count), inverse);
            v.store(v.mul(count, noise), of_window);
        }
    }
}

/// The coefficients of a row where it is lit, given the sums of its windows; gives `Σ w c`.
#[inline(always)]
fn coefficients<V: Vectors, const N: usize>(
    v: V,
    sums: &[Lanes],
    counts: &Counts,
    weights: &[f32],
    lit: Lit,
    out: &mut [Lanes],
) -> f64 {
    let groups = out.len() / coefficients_of(N);
    let (p_out, qr_out) = out.split_at_mut(groups);
    let (of_f, rest) = sums.split_at(groups);
    let (of_m, rest) = rest.split_at(groups);
    let (of_ff, rest) = rest.split_at(groups);
    let (of_mm, of_fm) = rest.split_at(groups);
    let (inverse, noise) = (&counts.inverse.all()[..groups], &counts.noise.all()[..groups]);
    let (zero, one) = (v.splat(0.0), v.splat(1.0));
    let mut energy = v.splat_wide(0.0);
    for g in lit.0..lit.1 {
        let (f, m) = (v.load(&of_f[g]), v.load(&of_m[g]));
        let (inverse, noise) = (v.load(&inverse[g]), v.load(&noise[g]));
        let (f_mean, m_mean) = (v.mul(f, inverse), v.mul(m, inverse));
        // Of two derivatives either image is the first: exchanging them changes no bit.
        let product = if N == 1 { v.mul(f_mean, m) } else { v.mul(v.mul(f, m), inverse) };
        let a = v.sub(v.load(&of_fm[g]), product);
        let b = v.add(v.max(v.sub(v.load(&of_ff[g]), v.mul(f_mean, f)), zero), noise);
        let c = v.add(v.max(v.sub(v.load(&of_mm[g]), v.mul(m_mean, m)), zero), noise);
        let (over_b, over_c) = (v.div(one, b), v.div(one, c));
        // In this order no number is far from one over the variances.
        let (a_b, a_c) = (v.mul(a, over_b), v.mul(a, over_c));
        let w = load(v, weights, g, 0.0);
        energy = v.add_wide(energy, v.widen(v.mul(w, v.mul(a_b, a_c))));
        let p = match N {
            1 => v.mul(v.mul(v.add(w, w), a_b), over_c),
            _ => v.mul(w, v.add(v.mul(a_b, over_c), v.mul(a_c, over_b))),
        };
        v.store(p, &mut p_out[g]);
        let sides = [(a_c, f_mean, m_mean), (a_b, m_mean, f_mean)];
        for (side, (ratio, other, own)) in sides.into_iter().take(N).enumerate() {
            let q = v.mul(p, ratio);
            v.store(q, &mut qr_out[2 * side * groups + g]);
            v.store(
                v.sub(v.mul(p, other), v.mul(q, own)),
                &mut qr_out[(2 * side + 1) * groups + g],
            );
        }
    }
    let mut lanes = [0f64; LANES];
    v.store_wide(energy, &mut lanes);
    lanes.into_iter().sum()
}

/// A row of the derivative in the image `m`, given the sums of its coefficients where they are lit.
#[inline(always)]
fn derivatives<V: Vectors>(
    v: V,
    ([p, q, r], lit): ([&[Lanes]; 3], Lit),
    [f, m]: [&[f32]; 2],
    [cf, cm]: [f32; 2],
    scale: f32,
    out: &mut [f32],
) {
    let (cf, cm) = (v.splat(cf), v.splat(cm));
    let scale = v.splat(scale);
    for (g, out) in out.chunks_mut(LANES).enumerate() {
        if g < lit.0 || g >= lit.1 {
            out.fill(0.0);
            continue;
        }
        let f = v.sub(load(v, f, g, 0.0), cf);
        let m = v.sub(load(v, m, g, 0.0), cm);
        let derivative = v.sub(v.mul(f, v.load(&p[g])), v.mul(m, v.load(&q[g])));
        let derivative = v.mul(v.sub(derivative, v.load(&r[g])), scale);
        match out.first_chunk_mut::<LANES>() {
            Some(out) => v.store(derivative, out),
            None => {
                let mut lanes: Lanes = [0.0; LANES];
                v.store(derivative, &mut lanes);
                out.copy_from_slice(&lanes[..out.len()]);
            }
        }
    }
}

kernel! {
    fn run_task<V, const N: usize>(
        v, job: &Job<'_>, centres: Centres, task: &mut Task<'_, N>,
    ) {
        let [nx, ny, nz] = job.dims;
        let [rx, ry, rz] = job.radius;
        let row = |y: usize, z: usize| (y + z * ny) * nx..(y + z * ny + 1) * nx;
        // Rows and slices of the windows that are needed, and of their voxels.
        let (rows, slices) = (task.rows.clone(), task.slices.clone());
        let (centre_rows, centre_slices) = (about(&rows, ry, ny), about(&slices, rz, nz));
        let (voxel_rows, voxel_slices) =
            (about(&centre_rows, ry, ny), about(&centre_slices, rz, nz));
        let groups = groups(job);
        let (five, several) = ((5, groups), (coefficients_of(N), groups));
        let mut voxels_y = Slide::new(ny, ry, voxel_rows.start, 1, five);
        let mut voxels_z = Slide::new(nz, rz, voxel_slices.start, centre_rows.len(), five);
        let mut voxels_x = Line::new(rx, five);
        let mut windows_x = Line::new(rx, several);
        let mut windows_y = Slide::new(ny, ry, centre_rows.start, 1, several);
        let mut windows_z = Slide::new(nz, rz, centre_slices.start, rows.len(), several);
        let mut counts = Counts::new(job, groups);
        let [mut sums, mut sums_of_windows] =
            [5, coefficients_of(N)].map(|n| Room::new(n * groups));
        let ones = vec![1f32; nx];
        let (mut centre_z, mut out_z) = (centre_slices.start, slices.start);
        for z in voxel_slices {
            let mut centre_y = centre_rows.start;
            for y in voxel_rows.clone() {
                let (f, m) = (&job.fixed[row(y, z)], &job.moving[row(y, z)]);
                let lit = joined(other_than(f, centres.fixed), other_than(m, centres.moving));
                products(v, f, m, centres, lit, voxels_y.slot(y, 0, lit));
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
                let mut out_y = rows.start;
                for y in centre_rows.clone() {
                    let i = y - centre_rows.start;
                    let lit = voxels_z.lit(centre_z, i);
                    voxels_z.sum(v, centre_z, i, voxels_x.rows(lit));
                    let lit = voxels_x.lit(lit);
                    voxels_x.sum(v, lit, sums.all_mut());
                    let [y_window, z_window] =
                        [about(&(y..y + 1), ry, ny), about(&(centre_z..centre_z + 1), rz, nz)];
                    counts.of_row(v, y_window.len() * z_window.len(), job.noise);
                    let weights = job.weights.map_or(&ones[..], |w| &w[row(y, centre_z)]);
                    let out = windows_x.rows(lit);
                    let energy =
                        coefficients::<V, N>(v, sums.all(), &counts, weights, lit, out);
                    if rows.contains(&y) && slices.contains(&centre_z) {
                        task.energy[centre_z - slices.start][y - rows.start] = energy;
                    }
                    let lit = windows_x.lit(lit);
                    windows_x.sum(v, lit, windows_y.slot(y, 0, lit));
                    windows_y.given(v, y, 0);
                    while out_y < rows.end && windows_y.last(out_y) <= y {
                        let i = out_y - rows.start;
                        let lit = windows_y.lit(out_y, 0);
                        windows_y.sum(v, out_y, 0, windows_z.slot(centre_z, i, lit));
                        windows_z.given(v, centre_z, i);
                        out_y += 1;
                    }
                }
                while out_z < slices.end && windows_z.last(out_z) <= centre_z {
                    for i in 0..rows.len() {
                        let at = row(rows.start + i, out_z);
                        windows_z.sum(v, out_z, i, sums_of_windows.all_mut());
                        let lit = windows_z.lit(out_z, i);
                        let mut images = [&job.fixed[at.clone()], &job.moving[at]];
                        let mut centres = [centres.fixed, centres.moving];
                        let sums = sums_of_windows.all();
                        let of = |n: usize| &sums[n * groups..(n + 1) * groups];
                        for (side, out) in task.derivatives.iter_mut().enumerate() {
                            let out = &mut out[out_z - slices.start][i * nx..(i + 1) * nx];
                            let sums = [of(0), of(2 * side + 1), of(2 * side + 2)];
                            derivatives(v, (sums, lit), images, centres, job.scale, out);
                            images.reverse();
                            centres.reverse();
                        }
                    }
                    out_z += 1;
                }
                centre_z += 1;
            }
        }
    }
}
