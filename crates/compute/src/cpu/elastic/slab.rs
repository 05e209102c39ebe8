//! Products with the elastic operator on a slab of slices, and relaxation sweeps over it.

use super::window::{Grid, Window, across, around};
use crate::cpu::simd::{LANES, Lanes, Vectors, kernel};
use crate::ops::elastic::Factors;

/// The use of the product `L v` of a row.
pub(super) const PRODUCT: u8 = 0;
pub(super) const RESIDUAL: u8 = 1;
pub(super) const RELAX: u8 = 2;

/// The numbers of the windows of a thread, roughly: what fits in its cache.
const WINDOW: usize = 1 << 17;
/// A pass for one component.
#[derive(Clone, Copy)]
pub(super) struct Stage<'a> {
    grid: Grid,
    /// All components, or where they do not depend on each other the component three times.
    fields: [&'a [f32]; 3],
    own: usize,
    second: [f32; 3],
    mixed: [f32; 3],
    gamma: f32,
    /// Of relaxation: the factors of the residual (or of force and neighbours), and of the value
    /// itself; and which points.
    take: f32,
    keep: f32,
    odd: bool,
}

impl<'a> Stage<'a> {
    pub(super) fn new(grid: Grid, fields: [&'a [f32]; 3], own: usize, factors: &Factors) -> Self {
        let (second, mixed) = (factors.second[own], factors.mixed[own]);
        let gamma = factors.gamma;
        Self { grid, fields, own, second, mixed, gamma, take: 0.0, keep: 1.0, odd: false }
    }

    pub(super) fn relaxing(self, take: f32, keep: f32) -> Self {
        Self { take, keep, ..self }
    }

    pub(super) fn of_colour(self, odd: bool) -> Self {
        Self { odd, ..self }
    }
}

/// `((after − here) − (here − before)) factor`
#[inline(always)]
fn second<V: Vectors>(v: V, before: &Lanes, here: V::F, after: &Lanes, factor: V::F) -> V::F {
    v.mul(v.sub(v.sub(v.load(after), here), v.sub(here, v.load(before))), factor)
}

/// A row computed by `MODE`; for relaxation, the points with even x if `even`, else the others, with the rest
/// unchanged.
#[inline(always)]
fn row<V: Vectors, const MODE: u8, const MIXED: bool>(
    v: V,
    stage: &Stage<'_>,
    [here, back, front, below, above]: [&[f32]; 5],
    across: [([&[f32]; 4], f32); 2],
    f: &[f32],
    even: bool,
    out: &mut [f32],
) {
    let groups = out.len().div_ceil(LANES);
    let left = &here.as_chunks::<LANES>().0[..groups];
    let middle = &here[1..].as_chunks::<LANES>().0[..groups];
    let right = &here[2..].as_chunks::<LANES>().0[..groups];
    let back = &back[1..].as_chunks::<LANES>().0[..groups];
    let front = &front[1..].as_chunks::<LANES>().0[..groups];
    let below = &below[1..].as_chunks::<LANES>().0[..groups];
    let above = &above[1..].as_chunks::<LANES>().0[..groups];
    let factors = [v.splat(stage.second[0]), v.splat(stage.second[1]), v.splat(stage.second[2])];
    let (gamma, take, keep) = (v.splat(stage.gamma), v.splat(stage.take), v.splat(stage.keep));
    let mut odd: Lanes = [0.0; LANES];
    odd.iter_mut().skip(1).step_by(2).for_each(|lane| *lane = 1.0);
    let (odd, half) = (v.load(&odd), v.splat(0.5));
    let chosen = if even { v.lt(odd, half) } else { v.lt(half, odd) };
    for i in 0..groups {
        let c = v.load(&middle[i]);
        let (from, to) = (i * LANES, (i * LANES + LANES).min(out.len()));
        let force = || match f.as_chunks::<LANES>().0.get(i) {
            Some(force) => v.load(force),
            None => {
                let mut force = [0.0; LANES];
                force[..to - from].copy_from_slice(&f[from..to]);
                v.load(&force)
            }
        };
        let value = if MODE == RELAX && !MIXED {
            // Differences would gain nothing: the value itself is rounded at each step.
            let both =
                |a: &Lanes, b: &Lanes, factor: V::F| v.mul(v.add(v.load(a), v.load(b)), factor);
            let mut sum = v.add(force(), both(&left[i], &right[i], factors[0]));
            sum = v.add(sum, both(&back[i], &front[i], factors[1]));
            sum = v.add(sum, both(&below[i], &above[i], factors[2]));
            v.select(chosen, v.add(v.mul(c, keep), v.mul(sum, take)), c)
        } else {
            let mut sum = second(v, &left[i], c, &right[i], factors[0]);
            sum = v.add(sum, second(v, &back[i], c, &front[i], factors[1]));
            sum = v.add(sum, second(v, &below[i], c, &above[i], factors[2]));
            if MIXED {
                for (rows, factor) in &across {
                    let [a, b, c, d] = rows.map(|row| &row.as_chunks::<LANES>().0[i]);
                    let ahead = v.sub(v.load(a), v.load(b));
                    let behind = v.sub(v.load(c), v.load(d));
                    sum = v.add(sum, v.mul(v.sub(ahead, behind), v.splat(*factor)));
                }
            }
            let product = v.sub(v.mul(gamma, c), sum);
            match MODE {
                PRODUCT => product,
                RESIDUAL => v.sub(force(), product),
                _ => {
                    let residual = v.sub(force(), product);
                    v.select(chosen, v.add(c, v.mul(residual, take)), c)
                }
            }
        };
        match out.as_chunks_mut::<LANES>().0.get_mut(i) {
            Some(out) => v.store(value, out),
            None => {
                let mut lanes = [0.0; LANES];
                v.store(value, &mut lanes);
                out[from..to].copy_from_slice(&lanes[..to - from]);
            }
        }
    }
}

kernel! {
    /// The component of a stage computed by `MODE`, for the slices from `first` on.
    pub(super) fn slab<V, const MODE: u8, const MIXED: bool>(
        v,
        stage: Stage<'_>,
        f: &[f32],
        first: usize,
        out: &mut [f32],
    ) {
        let (grid, own) = (stage.grid, stage.own);
        let [nx, ny, _] = grid.dims;
        let others = [(own + 1) % 3, (own + 2) % 3];
        let others = [others[0].min(others[1]), others[0].max(others[1])];
        let strip = (WINDOW / (if MIXED { 9 } else { 3 } * Window::pitch(nx))).max(4).min(ny);
        let slices = out.len() / (nx * ny);
        for y in (0..ny).step_by(strip) {
            let rows = strip.min(ny - y);
            let window = || Window::new(nx, rows + 2);
            let count = if MIXED { 3 } else { 1 };
            let mut windows: Vec<Window> = (0..count).map(|_| window()).collect();
            for k in 0..slices + 2 {
                let from = grid.place(2, first + k, 1);
                for (c, window) in windows.iter_mut().enumerate() {
                    let field = stage.fields[if MIXED { c } else { own }];
                    window.take(k, grid, field, from, (y, 1));
                }
                if k < 2 {
                    continue;
                }
                let (z, slice) = (k - 1, k - 2);
                for j in 0..rows {
                    let near = around(&windows[if MIXED { own } else { 0 }], z, j + 1);
                    let empty: [&[f32]; 4] = [&[]; 4];
                    let mut differences = [(empty, 0.0); 2];
                    if MIXED {
                        for (to, other) in differences.iter_mut().zip(others) {
                            *to = (across(&windows[other], own, other, z, j + 1), stage.mixed[other]);
                        }
                    }
                    let even = ((y + j + first + slice) % 2 == 1) == stage.odd;
                    let f = match MODE {
                        PRODUCT => f,
                        _ => &f[((first + slice) * ny + y + j) * nx..][..nx],
                    };
                    let out = &mut out[(slice * ny + y + j) * nx..][..nx];
                    row::<V, MODE, MIXED>(v, &stage, near, differences, f, even, out);
                }
            }
        }
    }
}

kernel! {
    /// Both colours of a component that does not depend on the others, for the slices from `first`.
    pub(super) fn sweep_slab<V>(v, stage: Stage<'_>, f: &[f32], first: usize, out: &mut [f32]) {
        let (grid, field) = (stage.grid, stage.fields[stage.own]);
        let [nx, ny, _] = grid.dims;
        let strip = (WINDOW / (6 * Window::pitch(nx))).max(4).min(ny);
        let slices = out.len() / (nx * ny);
        let none: [([&[f32]; 4], f32); 2] = [([&[]; 4], 0.0); 2];
        for y in (0..ny).step_by(strip) {
            let rows = strip.min(ny - y);
            let mut old = Window::new(nx, rows + 4);
            let mut even = Window::new(nx, rows + 4);
            for k in 0..slices + 4 {
                old.take(k, grid, field, grid.place(2, first + k, 2), (y, 2));
                if k < 2 {
                    continue;
                }
                // The even points of the slice before.
                let z = grid.place(2, first + k - 1, 2);
                for j in 1..rows + 3 {
                    let to = even.row_mut(k - 1, j);
                    let Some((z, y)) = z.zip(grid.place(1, y + j, 2)) else {
                        to.fill(0.0);
                        continue;
                    };
                    let (near, f) = (around(&old, k - 1, j), &f[(z * ny + y) * nx..][..nx]);
                    let is_even = (y + z) % 2 == 0;
                    row::<V, RELAX, false>(v, &stage, near, none, f, is_even, &mut to[1..=nx]);
                    grid.close(to);
                }
                if k < 4 {
                    continue;
                }
                // The odd points of the slice before that.
                let slice = k - 4;
                for j in 0..rows {
                    let near = around(&even, k - 2, j + 2);
                    let (y, z) = (y + j, first + slice);
                    let f = &f[(z * ny + y) * nx..][..nx];
                    let out = &mut out[(slice * ny + y) * nx..][..nx];
                    row::<V, RELAX, false>(v, &stage, near, none, f, (y + z) % 2 == 1, out);
                }
            }
        }
    }
}
