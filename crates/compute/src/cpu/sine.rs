//! Sine transforms on the CPU.
//!
//! A line of `n` numbers, continued as an odd function of period `2 (n + 1)`, has a Fourier transform
//! of imaginary numbers, `−2 √−1` times its sine transform. Two lines are transformed at once: one
//! as real parts, the other as imaginary parts. Lines across rows are taken in panels of neighbouring
//! columns, so that the memory is read in long pieces.

use realfft::num_complex::Complex;
use rustfft::Fft;

use super::Cpu;
use super::fourier::Planners;
use super::panels::{self, Panel};
use crate::Dims;

/// Lines that a thread has in hand: even, for there are two in a transform.
const PANEL: usize = 16;
/// Voxels of a task, roughly.
const TASK: usize = 1 << 15;

/// Transforms an image of these sizes in place.
pub(super) fn sine(cpu: &Cpu, image: &mut [f32], [nx, ny, nz]: Dims) {
    if nx > 1 {
        let plan = Planners::complex(2 * (nx + 1), false);
        let rows = PANEL * TASK.div_ceil(nx * PANEL).min((ny * nz).div_ceil(PANEL));
        cpu.chunks_mut(image, rows * nx, |_, rows| {
            let mut work = Work::new(&*plan, nx);
            for rows in rows.chunks_mut(PANEL * nx) {
                work.transform_rows(&*plan, rows, nx);
            }
        });
    }
    for (n, width) in [(ny, nx), (nz, nx * ny)] {
        if n == 1 {
            continue;
        }
        let plan = Planners::complex(2 * (n + 1), false);
        panels::for_each(
            cpu,
            image,
            [width, n, PANEL],
            || Work::new(&*plan, n),
            |work, panel| work.transform_panel(&*plan, n, panel),
        );
    }
}

/// Memory that a thread works in: pairs of lines, one after the other.
struct Work {
    lines: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    scale: f32,
}

impl Work {
    fn new(plan: &dyn Fft<f32>, n: usize) -> Self {
        let zeros = |n: usize| vec![Complex::default(); n];
        Self {
            lines: zeros(PANEL / 2 * plan.len()),
            scratch: zeros(plan.get_inplace_scratch_len()),
            scale: (0.5 * (2.0 / (n + 1) as f64).sqrt()) as f32,
        }
    }

    /// Sets the numbers `i` of pair `pair`, of lines of `n`, and their mirror images.
    #[inline(always)]
    fn put(&mut self, pair: usize, n: usize, i: usize, a: f32, b: f32) {
        let line = &mut self.lines[pair * 2 * (n + 1)..][..2 * (n + 1)];
        line[i + 1] = Complex::new(a, b);
        line[2 * n + 1 - i] = Complex::new(-a, -b);
    }

    /// Transforms the lines of `pairs` pairs.
    fn run(&mut self, plan: &dyn Fft<f32>, pairs: usize) {
        let lines = &mut self.lines[..pairs * plan.len()];
        for line in lines.chunks_exact_mut(plan.len()) {
            line[0] = Complex::default();
            line[plan.len() / 2] = Complex::default();
        }
        plan.process_with_scratch(lines, &mut self.scratch);
    }

    /// The numbers `i` of the transforms of a pair.
    #[inline(always)]
    fn get(&self, pair: usize, n: usize, i: usize) -> [f32; 2] {
        let number = self.lines[pair * 2 * (n + 1) + i + 1];
        [-number.im * self.scale, number.re * self.scale]
    }

    /// Transforms the columns of a panel of `n` rows.
    fn transform_panel(&mut self, plan: &dyn Fft<f32>, n: usize, mut panel: Panel<'_, f32>) {
        for i in 0..n {
            for (pair, numbers) in panel.row(i).chunks(2).enumerate() {
                self.put(pair, n, i, numbers[0], numbers.get(1).copied().unwrap_or(0.0));
            }
        }
        self.run(plan, panel.columns().div_ceil(2));
        for i in 0..n {
            for (pair, numbers) in panel.row(i).chunks_mut(2).enumerate() {
                numbers.copy_from_slice(&self.get(pair, n, i)[..numbers.len()]);
            }
        }
    }

    /// Transforms at most [`PANEL`] rows.
    fn transform_rows(&mut self, plan: &dyn Fft<f32>, rows: &mut [f32], n: usize) {
        let pairs = (rows.len() / n).div_ceil(2);
        for (pair, rows) in rows.chunks(2 * n).enumerate() {
            let (a, b) = rows.split_at(n);
            for (i, &a) in a.iter().enumerate() {
                self.put(pair, n, i, a, b.get(i).copied().unwrap_or(0.0));
            }
        }
        self.run(plan, pairs);
        for (pair, rows) in rows.chunks_mut(2 * n).enumerate() {
            let (a, b) = rows.split_at_mut(n);
            for (i, a) in a.iter_mut().enumerate() {
                *a = self.get(pair, n, i)[0];
            }
            for (i, b) in b.iter_mut().enumerate() {
                *b = self.get(pair, n, i)[1];
            }
        }
    }
}
