//! The elastic operator on the GPU.

use std::sync::LazyLock;

use super::tiles::Tiles;
use super::{Arg, Cuda, CudaBuffer, Plain, Program, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::elastic::{
    Boundary, Elastic, ElasticOperator, Factors, check_eigenvalues, check_fields, check_sweep,
    check_symbol,
};

static PROGRAM: LazyLock<Program> =
    LazyLock::new(|| Program::new("elastic", include_str!("kernels/elastic.cu")));

/// The most slices of a tile; each tile reads one slice before and one after its own.
const SLICES: usize = 16;
/// The same for threads that have four voxels, of which there are fewer.
const SLICES_OF_FOURS: usize = 8;
/// The most slices of a tile of a sweep, which reads two before and two after its own.
const SLICES_OF_SWEEPS: usize = 64;
/// The most voxels along an axis of a sweep: it counts up to three times as many.
const MOST_SWEPT: usize = 1 << 30;
/// Threads of a block of a sweep along x and y.
const SWEEP_BLOCK: [usize; 2] = [32, 16];

/// Factors of differences, as the kernels have them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Constants {
    second: [[f32; 3]; 3],
    mixed: [[f32; 3]; 3],
    gamma: f32,
    take: [f32; 3],
    keep: [f32; 3],
    is_periodic: u32,
}

// SAFETY: 26 numbers of four bytes, in the order of the structure of the kernels.
unsafe impl Plain for Constants {}

impl Constants {
    fn new(operator: &ElasticOperator, factors: &Factors, omega: f64) -> Self {
        let Factors { second, mixed, gamma, .. } = *factors;
        let relaxing = [0, 1, 2].map(|own| factors.relaxing(own, omega));
        let (take, keep) = (relaxing.map(|r| r.0), relaxing.map(|r| r.1));
        let is_periodic = u32::from(operator.boundary == Boundary::Periodic);
        Self { second, mixed, gamma, take, keep, is_periodic }
    }
}

/// Frequencies, as the kernels have them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Frequencies {
    sizes: [u32; 3],
    is_coupled: u32,
    gamma: f32,
}

// SAFETY: five numbers of four bytes, in the order of the structure of the kernels.
unsafe impl Plain for Frequencies {}

impl Frequencies {
    fn new(sizes: Dims, operator: &ElasticOperator) -> Result<(Self, usize)> {
        let n: usize = sizes.iter().product();
        if u32::try_from(n).is_err() {
            let expected = "at most 2^32 - 1 frequencies in all";
            return Err(ComputeError::argument("sizes", format!("{sizes:?}"), expected));
        }
        let is_coupled = u32::from(operator.beta > 0.0);
        let gamma = operator.gamma as f32;
        Ok((Self { sizes: sizes.map(|n| n as u32), is_coupled, gamma }, n))
    }
}

/// A row of blocks for each component.
fn for_components(shape: Shape) -> Shape {
    Shape { grid: [shape.grid[0], 3, 1], ..shape }
}

impl Cuda {
    /// Runs a kernel that makes a field of fields, of whose lengths it is known that they fit the
    /// grid. `kernels` are those for components that depend on each other, and for one and for four
    /// voxels a thread where they do not.
    fn elastic(
        &self,
        kernels: [&str; 3],
        inputs: &[&CudaBuffer<f32>],
        dims: Dims,
        (operator, factors): (&ElasticOperator, &Factors),
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let (kernel, (tiles, shape)) = if factors.is_mixed {
            (kernels[0], Tiles::new(self, dims, 1)?)
        } else if dims[0].is_multiple_of(4) {
            (kernels[2], Tiles::of_fours(self, dims, SLICES_OF_FOURS)?)
        } else {
            (kernels[1], Tiles::new(self, dims, SLICES)?)
        };
        let mut args: Vec<Arg> = inputs.iter().map(|&input| input.into()).collect();
        let constants = Constants::new(operator, factors, 1.0);
        args.extend([Arg::of(tiles), Arg::of(constants), out.into()]);
        // SAFETY: the kernels have these parameters, and stay within the grid, for which the
        // callers have checked the lengths; fours begin at multiples of 16 bytes.
        unsafe { self.launch(&PROGRAM, kernel, for_components(shape), &args) }
    }
}

impl Elastic for Cuda {
    fn elastic_product(
        &self,
        operator: &ElasticOperator,
        v: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("field", v.len()), ("output", out.len())];
        let (_, factors) = check_fields(operator, dims, &lengths)?;
        let kernels = ["coupled_product_of", "product", "product_of_fours"];
        self.elastic(kernels, &[v], dims, (operator, &factors), out)
    }

    fn elastic_residual(
        &self,
        operator: &ElasticOperator,
        f: &CudaBuffer<f32>,
        v: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("force", f.len()), ("field", v.len()), ("output", out.len())];
        let (_, factors) = check_fields(operator, dims, &lengths)?;
        let kernels = ["coupled_residual", "residual", "residual_of_fours"];
        self.elastic(kernels, &[f, v], dims, (operator, &factors), out)
    }

    fn elastic_sweep(
        &self,
        operator: &ElasticOperator,
        omega: f64,
        f: &CudaBuffer<f32>,
        v: &CudaBuffer<f32>,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let lengths = [("force", f.len()), ("field", v.len()), ("output", out.len())];
        let (_, factors) = check_sweep(operator, omega, dims, &lengths)?;
        let constants = Arg::of(Constants::new(operator, &factors, omega));
        let counts = dims.iter().all(|&n| n <= MOST_SWEPT);
        if !factors.is_mixed && !operator.lacks_colours(dims) && counts {
            let (tiles, shape) = Tiles::of_sweeps(self, dims, SLICES_OF_SWEEPS, SWEEP_BLOCK)?;
            let args = [f.into(), v.into(), Arg::of(tiles), constants, out.into()];
            // SAFETY: the parameters are those of the kernel, which stays within the grid; the
            // lengths were checked. Pairs are only read at once where rows have even lengths.
            return unsafe { self.launch(&PROGRAM, "sweep", for_components(shape), &args) };
        }
        let (tiles, shape) = Tiles::new(self, dims, 1)?;
        let mut other = self.alloc_unset::<f32>(v.len())?;
        if !factors.is_mixed {
            let passes =
                [(v.into(), Arg::from(&mut other)), ((&other).into(), Arg::from(&mut *out))];
            for (colour, (from, to)) in (0u32..).zip(passes) {
                let constants = constants.clone();
                let args = [f.into(), from, Arg::of(tiles), constants, colour.into(), to];
                // SAFETY: as above.
                unsafe { self.launch(&PROGRAM, "relax_colour", for_components(shape), &args)? };
            }
            return Ok(());
        }
        // A pass for each colour of each component, from one field to the other and back.
        for pass in 0..6u32 {
            let (from, to): (Arg, Arg) = match pass {
                0 => (v.into(), (&mut other).into()),
                1 | 3 | 5 => ((&other).into(), (&mut *out).into()),
                _ => ((&*out).into(), (&mut other).into()),
            };
            let (colour, own, constants) = (pass / 3, pass % 3, constants.clone());
            let args = [f.into(), from, Arg::of(tiles), constants, own.into(), colour.into(), to];
            // SAFETY: as above.
            unsafe { self.launch(&PROGRAM, "relax_coupled_colour", for_components(shape), &args)? };
        }
        Ok(())
    }

    fn elastic_symbol(
        &self,
        operator: &ElasticOperator,
        spectra: &mut CudaBuffer<f32>,
        dims: Dims,
    ) -> Result<()> {
        check_symbol(operator, dims, spectra.len())?;
        let sizes = [dims[0] / 2 + 1, dims[1], dims[2]];
        let (frequencies, n) = Frequencies::new(sizes, operator)?;
        let [x, y, z] = operator.symbol(dims).map(|axis| self.upload(axis.as_flattened()));
        let (x, y, z) = (x?, y?, z?);
        let args = [spectra.into(), (&x).into(), (&y).into(), (&z).into(), Arg::of(frequencies)];
        let shape = Shape::covering(n.div_ceil(2), 256);
        // SAFETY: the parameters are those of the kernel; the spectra have three times `n` numbers,
        // and each table as many parts as there are frequencies, or more.
        unsafe { self.launch(&PROGRAM, "symbol", shape, &args) }
    }

    fn elastic_eigenvalues(
        &self,
        operator: &ElasticOperator,
        coefficients: &mut CudaBuffer<f32>,
        dims: Dims,
    ) -> Result<()> {
        check_eigenvalues(operator, dims, coefficients.len())?;
        let (frequencies, n) = Frequencies::new(dims, operator)?;
        let [x, y, z] = operator.eigenvalues(dims).map(|axis| {
            let scaled = axis.into_iter().map(|v| (operator.alpha * v) as f32);
            self.upload_vec(scaled.collect())
        });
        let (x, y, z) = (x?, y?, z?);
        let args =
            [coefficients.into(), (&x).into(), (&y).into(), (&z).into(), Arg::of(frequencies)];
        let shape = for_components(Shape::covering(n, 256));
        // SAFETY: the parameters are those of the kernel; there are three times `n` coefficients,
        // and as many numbers in each table as the grid has along the axis.
        unsafe { self.launch(&PROGRAM, "eigenvalues", shape, &args) }
    }
}
