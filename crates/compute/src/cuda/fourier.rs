//! Fourier transforms on the GPU by cuFFT, and on an emulated device by the CPU.

use super::cufft::{Failure, Kind, Layout};
use super::declare::{In, Out};
use super::lanes::Touch;
use super::{Cuda, CudaBuffer, Shape, Target};
use crate::Dims;
use crate::cpu::{self, Cpu};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::Fourier;
use crate::ops::fourier::{check_factors, check_images, check_transform};

kernels! { FOURIER = "fourier/fourier.cu";
    fn scale_spectrum[256](spectrum: &mut [f32], factors: &[f32], n: u64, each: u64);
    fn scale_image[256](image: &mut [f32], n: u64, factor: f32);
    fn real_to_complex[256](src: &[f32], numbers: &mut [f32], n: u64);
    fn complex_to_real[256](numbers: &[f32], out: &mut [f32], n: u64, factor: f32);
    fn extend_rows[256](image: &[f32], work: &mut [f32], n: u32, inner: u32, lines: u32);
    fn sine_of_rows[256](work: &[f32], image: &mut [f32], n: u32, inner: u32, lines: u32, scale: f32);
    fn extend_columns[256](image: &[f32], work: &mut [f32], n: u32, inner: u32, lines: u32);
    fn sine_of_columns[256](work: &[f32], image: &mut [f32], n: u32, inner: u32, lines: u32, scale: f32);
}

/// A kernel that continues lines.
type Extend = unsafe fn(&FOURIER, &Cuda, Shape, In<f32>, Out<f32>, u32, u32, u32) -> Result<()>;
/// A kernel that extracts sine transforms from the transforms of the odd continuations.
type Sine = unsafe fn(&FOURIER, &Cuda, Shape, In<f32>, Out<f32>, u32, u32, u32, f32) -> Result<()>;

impl Fourier for Cuda {
    fn forward(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        spectrum: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (n, images) = check_transform(dims, ("source", src.len()), spectrum.len())?;
        if dims[0] > 1 {
            return self.real_to_complex(src, (dims, images), spectrum);
        }
        let n = n * images;
        // A row of one voxel is its own spectrum: what is left is a complex transform.
        let shape = Shape::covering(n, 256);
        // SAFETY: there are n reals and n complex numbers.
        unsafe { FOURIER.real_to_complex(self, shape, src, &mut *spectrum, n as u64)? };
        self.complex_in_place(spectrum, (dims, images), false)
    }

    fn inverse(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.inverses(spectrum, dims, |n| 1.0 / n as f64, out)
    }

    fn inverse_sum(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        self.inverses(spectrum, dims, |_| 1.0, out)
    }

    fn scale_spectrum(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        factors: &CudaBuffer<f32>,
    ) -> Result<()> {
        let each = check_factors(dims, spectrum.len(), factors.len())? as u64;
        let n = spectrum.len() / 2;
        let shape = Shape::covering(n.div_ceil(2), 256);
        // SAFETY: there are n complex numbers, and factors for each of so many.
        unsafe { FOURIER.scale_spectrum(self, shape, spectrum, factors, n as u64, each) }
    }

    fn sine(&self, data: &mut CudaBuffer<f32>, dims: Dims) -> Result<()> {
        let (n, images) = check_images(dims, ("data", data.len()))?;
        for image in 0..images {
            for axis in (0..3).filter(|&axis| dims[axis] > 1) {
                let inner = dims[..axis].iter().product();
                self.sine_of_lines(data, image * n, n, dims[axis], inner)?;
            }
        }
        Ok(())
    }
}

/// The CPU that transforms in place of cuFFT on an emulated device.
fn host() -> Result<Cpu> {
    Cpu::new(Some(1))
}

/// The sizes of images, and their number.
type Images = (Dims, usize);

impl Cuda {
    /// Inverse transforms of one image or several, multiplied by `scale` of the number of voxels.
    fn inverses(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        scale: impl Fn(usize) -> f64,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (n, images) = check_transform(dims, ("output", out.len()), spectrum.len())?;
        let (scale, n) = (scale(n) as f32, n * images);
        if dims[0] > 1 {
            self.complex_to_real(spectrum, (dims, images), out)?;
            if scale == 1.0 {
                return Ok(());
            }
            let shape = Shape::covering(n.div_ceil(4), 256);
            // SAFETY: the image has n voxels.
            return unsafe { FOURIER.scale_image(self, shape, out, n as u64, scale) };
        }
        self.complex_in_place(spectrum, (dims, images), true)?;
        let shape = Shape::covering(n, 256);
        // SAFETY: there are n reals and n complex numbers.
        unsafe { FOURIER.complex_to_real(self, shape, &*spectrum, out, n as u64, scale) }
    }

    /// The sine transforms of the lines of `n` voxels of an image of `voxels` voxels from `first` on,
    /// `inner` voxels apart; as many at once as the library takes.
    fn sine_of_lines(
        &self,
        data: &mut CudaBuffer<f32>,
        first: usize,
        voxels: usize,
        n: usize,
        inner: usize,
    ) -> Result<()> {
        // Numbers of one call of cuFFT, which takes no more than 2^31 of them; few where a test looks on.
        let most = if self.is_emulated() { 1 << 12 } else { 1 << 30 };
        // Two lines are transformed together.
        let most = 2 * (most / (2 * (n + 1))).max(1);
        let lines = voxels / n;
        if lines <= most {
            return self.sine_of_some(data, first, lines, n, inner);
        }
        let (blocks, each) = if inner == 1 { (1, lines) } else { (lines / inner, inner) };
        for block in 0..blocks {
            for start in (0..each).step_by(most) {
                let apart = if inner == 1 { n } else { 1 };
                let from = first + block * n * inner + start * apart;
                self.sine_of_some(data, from, most.min(each - start), n, inner)?;
            }
        }
        Ok(())
    }

    /// The same for this many lines: their odd continuations, two lines in a complex number, are Fourier
    /// transformed. (The library has no sine transforms.)
    fn sine_of_some(
        &self,
        data: &mut CudaBuffer<f32>,
        first: usize,
        lines: usize,
        n: usize,
        inner: usize,
    ) -> Result<()> {
        let size = |n: usize| {
            let expected = "at most 2^31 - 1 along an axis, and such lines in all";
            i32::try_from(n).map_err(|_| ComputeError::argument("sizes", n, expected))
        };
        let (pairs, period) = (lines.div_ceil(2), 2 * (n + 1));
        size(lines)?;
        size(period)?;
        let mut work = self.alloc_unset::<f32>(2 * period * pairs)?;
        let scale = (0.5 * (2.0 / (n + 1) as f64).sqrt()) as f32;
        let [along, across, count] = [n, inner, lines].map(|size| size as u32);
        // Threads are neighbours where the numbers are: along the rows, or across the columns.
        let (of_rows, other) = if inner == 1 { (n, pairs) } else { (pairs, n.div_ceil(8)) };
        let shape = Shape {
            grid: [of_rows.div_ceil(256) as u32, other.min(65535) as u32, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        let (extend, sine): (Extend, Sine) = match inner {
            1 => (FOURIER::extend_rows, FOURIER::sine_of_rows),
            _ => (FOURIER::extend_columns, FOURIER::sine_of_columns),
        };
        let (image, out) = (In::from_element(data, first), (&mut work).into());
        // SAFETY: the lines are those of the image, and there is room for `period` complex numbers of
        // every pair of lines.
        unsafe { extend(&FOURIER, self, shape, image, out, along, across, count)? };
        let layout =
            Layout { dims: [period, 1, 1], batch: pairs, stride: (inner > 1).then_some(pairs) };
        self.complex_lines(&mut work, layout)?;
        let (work, image) = ((&work).into(), Out::from_element(data, first));
        // SAFETY: as above; `data` is borrowed for change.
        unsafe { sine(&FOURIER, self, shape, work, image, along, across, count, scale) }
    }

    /// Transforms of one dimension, in place, not normalised.
    fn complex_lines(&self, numbers: &mut CudaBuffer<f32>, layout: Layout) -> Result<()> {
        if !self.is_emulated() {
            let numbers = numbers.changed_by();
            return self.transform(layout, Kind::ComplexToComplex, false, [numbers; 2]);
        }
        let mut values = self.download(numbers)?;
        let n = layout.dims[0];
        match layout.stride {
            Some(stride) => cpu::fourier::columns(&host()?, &mut values, [stride, n, 1], false),
            None => {
                let host = host()?;
                for line in values.chunks_mut(2 * n) {
                    cpu::fourier::columns(&host, line, [1, n, 1], false);
                }
            }
        }
        self.write(&values, numbers, 0)
    }

    fn real_to_complex(
        &self,
        src: &CudaBuffer<f32>,
        (dims, images): Images,
        spectrum: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        if !self.is_emulated() {
            let buffers = [src.read_by(), spectrum.changed_by()];
            return self.transform(
                Layout { dims, batch: images, stride: None },
                Kind::RealToComplex,
                false,
                buffers,
            );
        }
        let mut numbers = vec![0.0; spectrum.len()];
        let (values, len) = (self.download(src)?, numbers.len() / images);
        let sources = values.chunks(values.len() / images);
        for (src, numbers) in sources.zip(numbers.chunks_mut(len)) {
            cpu::fourier::forward(&host()?, src, dims, numbers);
        }
        self.write(&numbers, spectrum, 0)
    }

    /// Not normalised.
    fn complex_to_real(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        (dims, images): Images,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        if !self.is_emulated() {
            let buffers = [spectrum.changed_by(), out.changed_by()];
            return self.transform(
                Layout { dims, batch: images, stride: None },
                Kind::ComplexToReal,
                true,
                buffers,
            );
        }
        let mut numbers = self.download(spectrum)?;
        let mut image = vec![0.0; out.len()];
        let (len, n) = (numbers.len() / images, image.len() / images);
        for (numbers, image) in numbers.chunks_mut(len).zip(image.chunks_mut(n)) {
            cpu::fourier::inverse(&host()?, numbers, dims, 1.0, image);
        }
        // As cuFFT, which leaves nothing of use in the spectrum.
        self.write(&vec![f32::NAN; numbers.len()], spectrum, 0)?;
        self.write(&image, out, 0)
    }

    /// Not normalised.
    fn complex_in_place(
        &self,
        numbers: &mut CudaBuffer<f32>,
        (dims, images): Images,
        inverse: bool,
    ) -> Result<()> {
        if dims == [1; 3] {
            return Ok(());
        }
        if !self.is_emulated() {
            let buffers = [numbers.changed_by(); 2];
            return self.transform(
                Layout { dims, batch: images, stride: None },
                Kind::ComplexToComplex,
                inverse,
                buffers,
            );
        }
        let mut values = self.download(numbers)?;
        let len = values.len() / images;
        for values in values.chunks_mut(len) {
            cpu::fourier::columns(&host()?, values, dims, inverse);
        }
        self.write(&values, numbers, 0)
    }

    /// By cuFFT, between buffers whose lengths are those of the layout and the kind.
    fn transform(
        &self,
        layout: Layout,
        kind: Kind,
        inverse: bool,
        buffers: [Touch<'_>; 2],
    ) -> Result<()> {
        let (Some(stream), Target::Gpu(gpu)) = (self.stream(), &self.0.target) else {
            return Err(self.unsupported("a Fourier transform without a stream"));
        };
        let plans = &self.0.plans;
        let failed = |failure| match failure {
            Failure::Missing(reason) => ComputeError::Unavailable { backend: "cuFFT", reason },
            Failure::OutOfMemory => gpu.out_of_memory(0),
            Failure::Internal(message) | Failure::Failed(message) => {
                ComputeError::Backend { device: self.name(), message }
            }
        };
        // SAFETY: `stream` has made the context current; the plans end before the stream.
        let plan = || unsafe { plans.plan(layout, kind, stream) };
        let ready = match plan() {
            Err(Failure::OutOfMemory | Failure::Internal(_)) => {
                // The library takes its tables beside the pool, and keeps those of other plans.
                gpu.bind()?;
                plans.clear();
                gpu.make_room()?;
                plan()
            }
            other => other,
        }
        .map_err(failed)?;
        // Freed in the order of the stream: after the transform.
        let work = self.alloc_unset::<u64>(ready.work_bytes().div_ceil(8))?;
        let (addresses, own) = (buffers.map(|b| b.address), work.read_by().address);
        self.using(buffers.into_iter(), || {
            // SAFETY: the lengths were checked; the context is current.
            unsafe { ready.run(inverse, (addresses[0], addresses[1]), own) }.map_err(failed)
        })
    }
}
