//! Fourier transforms on the CPU.
//!
//! Rows are transformed from real to complex numbers, then the columns along y and z, in panels of
//! neighbouring columns that are copied to working memory: rows of the panel are long pieces.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftPlanner};

use super::panels::{self, Panel};
use super::{Cpu, CpuBuffer};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Fourier;
use crate::ops::fourier::{check_factors, check_images, check_transform};

type Number = Complex<f32>;

/// Columns of a panel.
const PANEL: usize = 16;
/// Numbers of a task, roughly.
const TASK: usize = 1 << 14;
/// The number of lengths that are planned before the plans are discarded.
const MOST_PLANS: usize = 64;

/// Plans are the same for all devices: they depend on the length and the processor alone.
pub(super) struct Planners {
    real: RealFftPlanner<f32>,
    complex: FftPlanner<f32>,
    lengths: BTreeSet<usize>,
}

static PLANNERS: LazyLock<Mutex<Planners>> = LazyLock::new(|| Mutex::new(Planners::new()));

impl Planners {
    fn new() -> Self {
        Self { real: RealFftPlanner::new(), complex: FftPlanner::new(), lengths: BTreeSet::new() }
    }

    fn with<R>(n: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let mut planners = PLANNERS.lock().unwrap_or_else(PoisonError::into_inner);
        if planners.lengths.len() >= MOST_PLANS && !planners.lengths.contains(&n) {
            *planners = Self::new();
        }
        planners.lengths.insert(n);
        f(&mut planners)
    }

    fn to_complex(n: usize) -> Arc<dyn RealToComplex<f32>> {
        Self::with(n, |p| p.real.plan_fft_forward(n))
    }

    fn to_real(n: usize) -> Arc<dyn ComplexToReal<f32>> {
        Self::with(n, |p| p.real.plan_fft_inverse(n))
    }

    pub(super) fn complex(n: usize, inverse: bool) -> Arc<dyn Fft<f32>> {
        Self::with(n, |p| match inverse {
            false => p.complex.plan_fft_forward(n),
            true => p.complex.plan_fft_inverse(n),
        })
    }
}

impl Fourier for Cpu {
    fn forward(
        &self,
        src: &CpuBuffer<f32>,
        dims: Dims,
        spectrum: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let (n, images) = check_transform(dims, ("source", src.len()), spectrum.len())?;
        let spectra = spectrum.as_mut_slice();
        let len = spectra.len() / images;
        for (src, spectrum) in src.as_slice().chunks_exact(n).zip(spectra.chunks_exact_mut(len)) {
            forward(self, src, dims, spectrum);
        }
        Ok(())
    }

    fn inverse(
        &self,
        spectrum: &mut CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.inverses(spectrum, dims, |n| 1.0 / n as f64, out)
    }

    fn inverse_sum(
        &self,
        spectrum: &mut CpuBuffer<f32>,
        dims: Dims,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        self.inverses(spectrum, dims, |_| 1.0, out)
    }

    fn scale_spectrum(
        &self,
        spectrum: &mut CpuBuffer<f32>,
        dims: Dims,
        factors: &CpuBuffer<f32>,
    ) -> Result<()> {
        check_factors(dims, spectrum.len(), factors.len())?;
        let factors = factors.as_slice();
        for spectrum in spectrum.as_mut_slice().chunks_exact_mut(2 * factors.len()) {
            self.chunks_mut(spectrum, 2 * TASK, |i, numbers| {
                let factors = &factors[i * TASK..];
                for (number, factor) in numbers.as_chunks_mut().0.iter_mut().zip(factors) {
                    let [re, im]: &mut [f32; 2] = number;
                    *re *= factor;
                    *im *= factor;
                }
            });
        }
        Ok(())
    }

    fn sine(&self, data: &mut CpuBuffer<f32>, dims: Dims) -> Result<()> {
        let (n, _) = check_images(dims, ("data", data.len()))?;
        for image in data.as_mut_slice().chunks_exact_mut(n) {
            super::sine::sine(self, image, dims);
        }
        Ok(())
    }
}

/// The spectrum of `src`; lengths are those of `dims`.
pub(crate) fn forward(cpu: &Cpu, src: &[f32], dims: Dims, spectrum: &mut [f32]) {
    let [nx, ny, nz] = dims;
    let width = nx / 2 + 1;
    let plan = Planners::to_complex(nx);
    let rows = TASK.div_ceil(nx);
    cpu.chunks_mut(spectrum, rows * 2 * width, |task, out| {
        let mut line = vec![0.0; nx];
        let mut numbers = plan.make_output_vec();
        let mut scratch = plan.make_scratch_vec();
        let from = src[task * rows * nx..].chunks_exact(nx);
        for (out, from) in out.chunks_exact_mut(2 * width).zip(from) {
            line.copy_from_slice(from);
            // Fails only for wrong lengths, and these are what the plan has made.
            let _ = plan.process_with_scratch(&mut line, &mut numbers, &mut scratch);
            for (out, number) in out.as_chunks_mut().0.iter_mut().zip(&numbers) {
                *out = [number.re, number.im];
            }
        }
    });
    columns(cpu, spectrum, [width, ny, nz], false);
}

impl Cpu {
    /// Inverse transforms of one image or several, multiplied by `scale` of the number of voxels.
    fn inverses(
        &self,
        spectrum: &mut CpuBuffer<f32>,
        dims: Dims,
        scale: impl Fn(usize) -> f64,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let (n, images) = check_transform(dims, ("output", out.len()), spectrum.len())?;
        let spectra = spectrum.as_mut_slice();
        let len = spectra.len() / images;
        for (spectrum, out) in
            spectra.chunks_exact_mut(len).zip(out.as_mut_slice().chunks_exact_mut(n))
        {
            inverse(self, spectrum, dims, scale(n) as f32, out);
        }
        Ok(())
    }
}

/// The image of a spectrum times `scale`; lengths are those of `dims`.
pub(crate) fn inverse(cpu: &Cpu, spectrum: &mut [f32], dims: Dims, scale: f32, out: &mut [f32]) {
    let [nx, ny, nz] = dims;
    let width = nx / 2 + 1;
    columns(cpu, spectrum, [width, ny, nz], true);
    let plan = Planners::to_real(nx);
    let (rows, spectrum) = (TASK.div_ceil(nx), &*spectrum);
    cpu.chunks_mut(out, rows * nx, |task, out| {
        let mut numbers = plan.make_input_vec();
        let mut scratch = plan.make_scratch_vec();
        let from = spectrum[task * rows * 2 * width..].chunks_exact(2 * width);
        for (out, from) in out.chunks_exact_mut(nx).zip(from) {
            for (number, &[re, im]) in numbers.iter_mut().zip(from.as_chunks().0) {
                *number = Complex::new(re, im);
            }
            // Those that a real line has not.
            numbers[0].im = 0.0;
            if nx.is_multiple_of(2) {
                numbers[nx / 2].im = 0.0;
            }
            let _ = plan.process_with_scratch(&mut numbers, out, &mut scratch);
            out.iter_mut().for_each(|v| *v *= scale);
        }
    });
}

/// Transforms complex numbers of these sizes along y and z, in place, not normalised.
pub(crate) fn columns(cpu: &Cpu, numbers: &mut [f32], [nx, ny, nz]: Dims, inverse: bool) {
    let numbers = numbers.as_chunks_mut::<2>().0;
    if ny > 1 {
        let plan = Planners::complex(ny, inverse);
        if nz >= 2 * cpu.threads() {
            cpu.chunks_mut(numbers, nx * ny, |_, slice| {
                let mut work = Work::new(&*plan);
                panels::each(slice, [nx, ny, PANEL], |panel| work.transform(&*plan, ny, panel));
            });
        } else {
            for slice in numbers.chunks_mut(nx * ny) {
                all_columns(cpu, slice, nx, ny, &*plan);
            }
        }
    }
    if nz > 1 {
        all_columns(cpu, numbers, nx * ny, nz, &*Planners::complex(nz, inverse));
    }
}

/// Transforms the columns of `n` rows of `width` numbers, on all threads.
fn all_columns(cpu: &Cpu, numbers: &mut [[f32; 2]], width: usize, n: usize, plan: &dyn Fft<f32>) {
    panels::for_each(
        cpu,
        numbers,
        [width, n, PANEL],
        || Work::new(plan),
        |work, panel| work.transform(plan, n, panel),
    );
}

/// Memory that a thread works in: the columns of a panel one after the other.
struct Work {
    lines: Vec<Number>,
    scratch: Vec<Number>,
}

impl Work {
    fn new(plan: &dyn Fft<f32>) -> Self {
        let zeros = |n: usize| vec![Complex::default(); n];
        Self { lines: zeros(PANEL * plan.len()), scratch: zeros(plan.get_inplace_scratch_len()) }
    }

    /// Transforms the columns of a panel of `n` rows.
    fn transform(&mut self, plan: &dyn Fft<f32>, n: usize, mut panel: Panel<'_, [f32; 2]>) {
        let lines = &mut self.lines[..panel.columns() * n];
        for i in 0..n {
            for (column, &mut [re, im]) in panel.row(i).iter_mut().enumerate() {
                lines[column * n + i] = Complex::new(re, im);
            }
        }
        plan.process_with_scratch(lines, &mut self.scratch);
        for i in 0..n {
            for (column, number) in panel.row(i).iter_mut().enumerate() {
                let value = lines[column * n + i];
                *number = [value.re, value.im];
            }
        }
    }
}
