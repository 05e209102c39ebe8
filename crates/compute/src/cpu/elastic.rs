//! The elastic operator on the CPU.
//!
//! A thread has a slab of slices and goes through it along z, in strips of rows that fit in its
//! cache, with a window of the last three slices: copies with a border of one voxel, which holds
//! zeros or the other end of the axis, so that no row is a special case. A sweep has a second
//! window, of slices whose even points are new, and is so done in one pass over memory.

use super::simd::{LANES, Lanes, Vectors, kernel};
use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::elastic::{
    Boundary, Elastic, ElasticOperator, Factors, check_eigenvalues, check_fields, check_omega,
    check_symbol,
};

/// What is made of the product `L v` of a row.
const PRODUCT: u8 = 0;
const RESIDUAL: u8 = 1;
const RELAX: u8 = 2;

/// The numbers of the windows of a thread, roughly: what fits in its cache.
const WINDOW: usize = 1 << 17;
/// The fewest slices of a slab: each reads some slices more.
const SLAB: usize = 8;
/// Numbers of a task that scales frequencies, roughly.
const TASK: usize = 1 << 14;

impl Elastic for Cpu {
    fn elastic_product(
        &self,
        operator: &ElasticOperator,
        v: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("field", v.len()), ("output", out.len())];
        let (n, factors) = check_fields(operator, dims, &lengths)?;
        let (grid, v) = (Grid { dims, boundary: operator.boundary }, v.as_slice());
        for (own, out) in out.as_mut_slice().chunks_exact_mut(n).enumerate() {
            let stage = Stage::new(grid, components(v, n), own, &factors);
            self.slabs(dims, out, |z, out| match factors.is_mixed {
                true => slab::<PRODUCT, true>(self.simd(), stage, &[], z, out),
                false => slab::<PRODUCT, false>(self.simd(), stage, &[], z, out),
            });
        }
        Ok(())
    }

    fn elastic_residual(
        &self,
        operator: &ElasticOperator,
        f: &CpuBuffer<f32>,
        v: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("force", f.len()), ("field", v.len()), ("output", out.len())];
        let (n, factors) = check_fields(operator, dims, &lengths)?;
        let (grid, v) = (Grid { dims, boundary: operator.boundary }, v.as_slice());
        let f = components(f.as_slice(), n);
        for (own, out) in out.as_mut_slice().chunks_exact_mut(n).enumerate() {
            let stage = Stage::new(grid, components(v, n), own, &factors);
            self.slabs(dims, out, |z, out| match factors.is_mixed {
                true => slab::<RESIDUAL, true>(self.simd(), stage, f[own], z, out),
                false => slab::<RESIDUAL, false>(self.simd(), stage, f[own], z, out),
            });
        }
        Ok(())
    }

    fn elastic_sweep(
        &self,
        operator: &ElasticOperator,
        omega: f64,
        f: &CpuBuffer<f32>,
        v: &CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("force", f.len()), ("field", v.len()), ("output", out.len())];
        let (n, factors) = check_fields(operator, dims, &lengths)?;
        check_omega(operator, dims, omega)?;
        let grid = Grid { dims, boundary: operator.boundary };
        let (f, out) = (components(f.as_slice(), n), out.as_mut_slice());
        if !factors.is_mixed {
            let v = components(v.as_slice(), n);
            for (own, out) in out.chunks_exact_mut(n).enumerate() {
                let (take, keep) = factors.relaxing(own, omega);
                let stage = Stage { take, keep, ..Stage::new(grid, v, own, &factors) };
                self.slabs(dims, out, |z, out| sweep_slab(self.simd(), stage, f[own], z, out));
            }
            return Ok(());
        }
        // The components reach each other across two axes: each colour of each has its pass.
        out.copy_from_slice(v.as_slice());
        let mut next = vec![0f32; n];
        for odd in [false, true] {
            for own in 0..3 {
                let stage = Stage {
                    take: factors.relaxing(own, omega).0,
                    odd,
                    ..Stage::new(grid, components(out, n), own, &factors)
                };
                self.slabs(dims, &mut next, |z, out| {
                    slab::<RELAX, true>(self.simd(), stage, f[own], z, out);
                });
                let out = &mut out[own * n..][..n];
                self.chunks_mut(out, TASK, |i, out| {
                    out.copy_from_slice(&next[i * TASK..][..out.len()]);
                });
            }
        }
        Ok(())
    }

    fn elastic_symbol(
        &self,
        operator: &ElasticOperator,
        spectra: &mut CpuBuffer<f32>,
        dims: Dims,
    ) -> Result<()> {
        check_symbol(operator, dims, spectra.len())?;
        let [along_x, along_y, along_z] = operator.symbol(dims);
        let width = dims[0] / 2 + 1;
        // One array for each part, twice for each frequency: for its real and its imaginary part.
        let part = |c: usize| -> Vec<f32> {
            along_x[..width].iter().flat_map(|part| [part[c]; 2]).collect()
        };
        let x = [part(0), part(1), part(2)];
        let rows = TASK.div_ceil(width);
        self.chunks_mut_3(spectra.as_mut_slice(), rows * 2 * width, |task, [u, v, w]| {
            let of = u.chunks_mut(2 * width).zip(v.chunks_mut(2 * width));
            for (i, ((u, v), w)) in of.zip(w.chunks_mut(2 * width)).enumerate() {
                let row = task * rows + i;
                let at = [along_y[row % dims[1]], along_z[row / dims[1]]];
                if operator.beta > 0.0 {
                    symbol_row(self.simd(), &x, at, operator.gamma as f32, [u, v, w]);
                } else {
                    let rest = operator.gamma as f32 + at[0][0] + at[1][0];
                    for row in [u, v, w] {
                        divide_row(self.simd(), &x[0], rest, row);
                    }
                }
            }
        });
        Ok(())
    }

    fn elastic_eigenvalues(
        &self,
        operator: &ElasticOperator,
        coefficients: &mut CpuBuffer<f32>,
        dims: Dims,
    ) -> Result<()> {
        check_eigenvalues(operator, dims, coefficients.len())?;
        let [x, y, z] = operator.eigenvalues(dims).map(|axis| {
            axis.into_iter().map(|v| (operator.alpha * v) as f32).collect::<Vec<f32>>()
        });
        let rows = TASK.div_ceil(dims[0]);
        self.chunks_mut(coefficients.as_mut_slice(), rows * dims[0], |task, out| {
            for (i, out) in out.chunks_exact_mut(dims[0]).enumerate() {
                let row = task * rows + i;
                let rest = operator.gamma as f32 + y[row % dims[1]] + z[row / dims[1] % dims[2]];
                divide_row(self.simd(), &x, rest, out);
            }
        });
        Ok(())
    }
}

impl Cpu {
    /// Calls `f` with the first slice and the output of every slab.
    fn slabs(&self, dims: Dims, out: &mut [f32], f: impl Fn(usize, &mut [f32]) + Send + Sync) {
        let slices = dims[2].div_ceil(2 * self.threads()).max(SLAB);
        self.chunks_mut(out, slices * dims[0] * dims[1], |i, out| f(i * slices, out));
    }
}

/// The components of a field.
fn components(field: &[f32], n: usize) -> [&[f32]; 3] {
    [&field[..n], &field[n..2 * n], &field[2 * n..]]
}

/// A grid and what is beyond it.
#[derive(Clone, Copy)]
struct Grid {
    dims: Dims,
    boundary: Boundary,
}

impl Grid {
    /// The place `at − before` along an axis; none beyond a border of zeros.
    #[inline(always)]
    fn place(&self, axis: usize, at: usize, before: usize) -> Option<usize> {
        let n = self.dims[axis];
        match self.boundary {
            Boundary::Zero => at.checked_sub(before).filter(|&i| i < n),
            Boundary::Periodic => Some((at + before * (n - 1)) % n),
        }
    }

    /// Sets the border of a row of the window.
    #[inline(always)]
    fn close(&self, row: &mut [f32]) {
        let nx = self.dims[0];
        [row[0], row[nx + 1]] = match self.boundary {
            Boundary::Zero => [0.0; 2],
            Boundary::Periodic => [row[nx], row[1]],
        };
    }
}

/// A pass for one component.
#[derive(Clone, Copy)]
struct Stage<'a> {
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
    fn new(grid: Grid, fields: [&'a [f32]; 3], own: usize, factors: &Factors) -> Self {
        let (second, mixed) = (factors.second[own], factors.mixed[own]);
        let gamma = factors.gamma;
        Self { grid, fields, own, second, mixed, gamma, take: 0.0, keep: 1.0, odd: false }
    }
}

/// Three slices with a border, of which the one at hand replaces the oldest.
struct Window {
    pitch: usize,
    rows: usize,
    data: Vec<f32>,
}

impl Window {
    /// The distance of rows: a border at each side, and whole vectors.
    fn pitch(nx: usize) -> usize {
        nx.next_multiple_of(LANES) + LANES
    }

    fn new(nx: usize, rows: usize) -> Self {
        let pitch = Self::pitch(nx);
        Self { pitch, rows, data: vec![0.0; 3 * pitch * rows] }
    }

    /// A row of slice `z`, from its border on.
    #[inline(always)]
    fn row(&self, z: usize, row: usize) -> &[f32] {
        &self.data[(z % 3 * self.rows + row) * self.pitch..][..self.pitch]
    }

    #[inline(always)]
    fn row_mut(&mut self, z: usize, row: usize) -> &mut [f32] {
        &mut self.data[(z % 3 * self.rows + row) * self.pitch..][..self.pitch]
    }

    /// Takes slice `z` of the window from slice `from` of a field; row 0 is row `y − halo`.
    #[inline(always)]
    fn take(
        &mut self,
        z: usize,
        grid: Grid,
        field: &[f32],
        from: Option<usize>,
        (y, halo): (usize, usize),
    ) {
        let [nx, ny, _] = grid.dims;
        for j in 0..self.rows {
            let row = self.row_mut(z, j);
            match from.zip(grid.place(1, y + j, halo)) {
                Some((z, y)) => {
                    row[1..=nx].copy_from_slice(&field[(z * ny + y) * nx..][..nx]);
                    grid.close(row);
                }
                None => row.fill(0.0),
            }
        }
    }
}

/// The rows around one: itself, before and after it along y, and along z.
#[inline(always)]
fn around(window: &Window, z: usize, row: usize) -> [&[f32]; 5] {
    [
        window.row(z, row),
        window.row(z, row - 1),
        window.row(z, row + 1),
        window.row(z - 1, row),
        window.row(z + 1, row),
    ]
}

/// The four rows whose differences are those of component `other` across its axis and axis `own`.
#[inline(always)]
fn across(window: &Window, own: usize, other: usize, z: usize, row: usize) -> [&[f32]; 4] {
    match own + other {
        1 => {
            let (front, back) = (window.row(z, row + 1), window.row(z, row - 1));
            [&front[2..], front, &back[2..], back]
        }
        2 => {
            let (above, below) = (window.row(z + 1, row), window.row(z - 1, row));
            [&above[2..], above, &below[2..], below]
        }
        _ => [
            &window.row(z + 1, row + 1)[1..],
            &window.row(z + 1, row - 1)[1..],
            &window.row(z - 1, row + 1)[1..],
            &window.row(z - 1, row - 1)[1..],
        ],
    }
}

/// `((after − here) − (here − before)) factor`
#[inline(always)]
fn second<V: Vectors>(v: V, before: &Lanes, here: V::F, after: &Lanes, factor: V::F) -> V::F {
    v.mul(v.sub(v.sub(v.load(after), here), v.sub(here, v.load(before))), factor)
}

/// A row of what `MODE` says; of relaxation, the points with even x if `even`, else the others, with
/// the rest as it is.
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
    /// What `MODE` says of the component of a stage, for the slices from `first` on.
    fn slab<V, const MODE: u8, const MIXED: bool>(
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
    fn sweep_slab<V>(v, stage: Stage<'_>, f: &[f32], first: usize, out: &mut [f32]) {
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

kernel! {
    /// `out / (x + rest)`
    fn divide_row<V>(v, x: &[f32], rest: f32, out: &mut [f32]) {
        let _ = v;
        for (out, x) in out.iter_mut().zip(x) {
            *out /= x + rest;
        }
    }
}

kernel! {
    /// The inverse of the symbol at a row of frequencies: see [`ElasticOperator::symbol`].
    fn symbol_row<V>(
        v,
        x: &[Vec<f32>; 3],
        at: [[f32; 3]; 2],
        gamma: f32,
        spectra: [&mut [f32]; 3],
    ) {
        let _ = v;
        let ([y, z], [f0, f1, f2]) = (at, spectra);
        let rest = gamma + y[0] + z[0];
        let n = f0.len();
        let (f1, f2) = (&mut f1[..n], &mut f2[..n]);
        let (x0, x1, x2) = (&x[0][..n], &x[1][..n], &x[2][..n]);
        for i in 0..n {
            let common = rest + x0[i];
            let inverse = [1.0 / (common + x1[i]), 1.0 / (common + y[1]), 1.0 / (common + z[1])];
            let c = [x2[i], y[2], z[2]];
            let g = [f0[i] * inverse[0], f1[i] * inverse[1], f2[i] * inverse[2]];
            let above = c[0] * g[0] + c[1] * g[1] + c[2] * g[2];
            let below = c[0] * c[0] * inverse[0] + c[1] * c[1] * inverse[1] + c[2] * c[2] * inverse[2];
            let s = above / (1.0 + below);
            f0[i] = g[0] - c[0] * inverse[0] * s;
            f1[i] = g[1] - c[1] * inverse[1] * s;
            f2[i] = g[2] - c[2] * inverse[2] * s;
        }
    }
}
