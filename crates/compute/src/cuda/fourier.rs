//! Fourier transforms on the GPU: by cuFFT, or on an emulated device by the CPU.

use std::sync::LazyLock;

use super::cufft::{Failure, Kind};
use super::{Cuda, CudaBuffer, Program, Shape};
use crate::Dims;
use crate::cpu::{self, Cpu};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::Fourier;
use crate::ops::fourier::{check_factors, check_transform};

static PROGRAM: LazyLock<Program> =
    LazyLock::new(|| Program::new("fourier", include_str!("kernels/fourier.cu")));

impl Fourier for Cuda {
    fn forward(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        spectrum: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_transform(dims, ("source", src.len()), spectrum.len())?;
        if dims[0] > 1 {
            return self.real_to_complex(src, dims, spectrum);
        }
        // A row of one voxel is its own spectrum: what is left is a complex transform.
        let args = [src.into(), (&mut *spectrum).into(), (n as u64).into()];
        // SAFETY: the parameters are those of the kernel; it has n reals and n complex numbers.
        unsafe { self.launch(&PROGRAM, "real_to_complex", Shape::covering(n, 256), &args)? };
        self.complex_in_place(spectrum, dims, false)
    }

    fn inverse(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_transform(dims, ("output", out.len()), spectrum.len())?;
        let scale = (1.0 / n as f64) as f32;
        if dims[0] > 1 {
            self.complex_to_real(spectrum, dims, out)?;
            let args = [out.into(), (n as u64).into(), scale.into()];
            let shape = Shape::covering(n.div_ceil(4), 256);
            // SAFETY: the parameters are those of the kernel; the image has n voxels.
            return unsafe { self.launch(&PROGRAM, "scale_image", shape, &args) };
        }
        self.complex_in_place(spectrum, dims, true)?;
        let args = [(&*spectrum).into(), out.into(), (n as u64).into(), scale.into()];
        // SAFETY: the parameters are those of the kernel; it has n reals and n complex numbers.
        unsafe { self.launch(&PROGRAM, "complex_to_real", Shape::covering(n, 256), &args) }
    }

    fn scale_spectrum(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        factors: &CudaBuffer<f32>,
    ) -> Result<()> {
        let n = check_factors(dims, spectrum.len(), factors.len())?;
        let args = [spectrum.into(), factors.into(), (n as u64).into()];
        let shape = Shape::covering(n.div_ceil(2), 256);
        // SAFETY: the parameters are those of the kernel; there are n factors and complex numbers.
        unsafe { self.launch(&PROGRAM, "scale_spectrum", shape, &args) }
    }
}

/// The CPU that transforms in place of cuFFT on an emulated device.
fn host() -> Result<Cpu> {
    Cpu::new(Some(1))
}

impl Cuda {
    fn real_to_complex(
        &self,
        src: &CudaBuffer<f32>,
        dims: Dims,
        spectrum: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        if !self.is_emulated() {
            let buffers = (src.address(), spectrum.address());
            return self.transform(dims, Kind::RealToComplex, false, buffers);
        }
        let mut numbers = vec![0.0; spectrum.len()];
        cpu::fourier::forward(&host()?, &self.download(src)?, dims, &mut numbers);
        self.write(&numbers, spectrum, 0)
    }

    /// Not normalised.
    fn complex_to_real(
        &self,
        spectrum: &mut CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        if !self.is_emulated() {
            let buffers = (spectrum.address(), out.address());
            return self.transform(dims, Kind::ComplexToReal, true, buffers);
        }
        let mut numbers = self.download(spectrum)?;
        let mut image = vec![0.0; out.len()];
        cpu::fourier::inverse(&host()?, &mut numbers, dims, 1.0, &mut image);
        // As cuFFT, which leaves nothing of use in the spectrum.
        self.write(&vec![f32::NAN; numbers.len()], spectrum, 0)?;
        self.write(&image, out, 0)
    }

    /// Not normalised.
    fn complex_in_place(
        &self,
        numbers: &mut CudaBuffer<f32>,
        dims: Dims,
        inverse: bool,
    ) -> Result<()> {
        if dims == [1; 3] {
            return Ok(());
        }
        if !self.is_emulated() {
            let buffers = (numbers.address(), numbers.address());
            return self.transform(dims, Kind::ComplexToComplex, inverse, buffers);
        }
        let mut values = self.download(numbers)?;
        cpu::fourier::columns(&host()?, &mut values, dims, inverse);
        self.write(&values, numbers, 0)
    }

    /// By cuFFT, between buffers whose lengths are those of the sizes and the kind.
    fn transform(&self, dims: Dims, kind: Kind, inverse: bool, buffers: (u64, u64)) -> Result<()> {
        let Some(stream) = self.stream() else {
            return Err(self.unsupported("a Fourier transform without a stream"));
        };
        let work = |bytes: usize| {
            let buffer = self.alloc_unset::<u64>(bytes.div_ceil(8))?;
            let address = buffer.address();
            Ok((buffer, address))
        };
        // SAFETY: the lengths were checked; `stream` has made the context current.
        let done = unsafe { self.0.plans.run((dims, kind, inverse), stream, buffers, work) };
        match done {
            Ok(done) => done,
            Err(Failure::Missing(reason)) => {
                Err(ComputeError::Unavailable { backend: "cuFFT", reason })
            }
            Err(Failure::Failed(message)) => {
                Err(ComputeError::Backend { device: self.name(), message })
            }
        }
    }
}
