//! The elastic operator on the GPU.

use super::declare::{In, Out};
use super::tiles::Tiles;
use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::elastic::{
    Boundary, Elastic, ElasticOperator, Factors, check_eigenvalues, check_fields, check_sweep,
    check_symbol,
};

kernels! { ELASTIC = "elastic/elastic.cu";
    fn product[256](v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn product_of_fours[256](v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn residual[256](f: &[f32], v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn residual_of_fours[256](f: &[f32], v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn coupled_product_of[256](v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn coupled_residual[256](f: &[f32], v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn relax_coupled_colour[256](
        f: &[f32], v: &[f32], tiles: Tiles, constants: Constants, own: u32, colour: u32, out: &mut [f32],
    );
    fn relax_colour[256](
        f: &[f32], v: &[f32], tiles: Tiles, constants: Constants, colour: u32, out: &mut [f32],
    );
    fn sweep[512](f: &[f32], v: &[f32], tiles: Tiles, constants: Constants, out: &mut [f32]);
    fn symbol[256](
        spectra: &mut [f32], along_x: &[f32], along_y: &[f32], along_z: &[f32], frequencies: Frequencies,
    );
    fn eigenvalues[256](
        coefficients: &mut [f32], along_x: &[f32], along_y: &[f32], along_z: &[f32], frequencies: Frequencies,
    );
}

/// A kernel of products.
type Product = unsafe fn(&ELASTIC, &Cuda, Shape, In<f32>, Tiles, Constants, Out<f32>) -> Result<()>;
/// A kernel of residuals.
type Residual =
    unsafe fn(&ELASTIC, &Cuda, Shape, In<f32>, In<f32>, Tiles, Constants, Out<f32>) -> Result<()>;

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

plain! {
    /// Factors of differences, as the kernels have them.
    struct Constants {
        second: [[f32; 3]; 3],
        mixed: [[f32; 3]; 3],
        gamma: f32,
        take: [f32; 3],
        keep: [f32; 3],
        is_periodic: u32,
    }
}

impl Constants {
    fn new(operator: &ElasticOperator, factors: &Factors, omega: f64) -> Self {
        let Factors { second, mixed, gamma, .. } = *factors;
        let relaxing = [0, 1, 2].map(|own| factors.relaxing(own, omega));
        let (take, keep) = (relaxing.map(|r| r.0), relaxing.map(|r| r.1));
        let is_periodic = u32::from(operator.boundary == Boundary::Periodic);
        Self { second, mixed, gamma, take, keep, is_periodic }
    }
}

plain! {
    /// Frequencies, as the kernels have them.
    struct Frequencies {
        sizes: [u32; 3],
        is_coupled: u32,
        gamma: f32,
    }
}

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
    /// The kernel that makes a field of fields, and how it divides the grid. `kernels` are those for
    /// components that depend on each other, and for one and for four voxels a thread where they do not.
    fn elastic<K: Copy>(
        &self,
        kernels: [K; 3],
        dims: Dims,
        factors: &Factors,
    ) -> Result<(K, Tiles, Shape)> {
        let (kernel, (tiles, shape)) = if factors.is_mixed {
            (kernels[0], Tiles::new(self, dims, 1)?)
        } else if dims[0].is_multiple_of(4) {
            (kernels[2], Tiles::of_fours(self, dims, SLICES_OF_FOURS)?)
        } else {
            (kernels[1], Tiles::new(self, dims, SLICES)?)
        };
        Ok((kernel, tiles, for_components(shape)))
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
        let kernels: [Product; 3] =
            [ELASTIC::coupled_product_of, ELASTIC::product, ELASTIC::product_of_fours];
        let (kernel, tiles, shape) = self.elastic(kernels, dims, &factors)?;
        let constants = Constants::new(operator, &factors, 1.0);
        // SAFETY: the kernels stay within the grid, and the lengths were checked; fours begin at
        // multiples of 16 bytes.
        unsafe { kernel(&ELASTIC, self, shape, v.into(), tiles, constants, out.into()) }
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
        let kernels: [Residual; 3] =
            [ELASTIC::coupled_residual, ELASTIC::residual, ELASTIC::residual_of_fours];
        let (kernel, tiles, shape) = self.elastic(kernels, dims, &factors)?;
        let constants = Constants::new(operator, &factors, 1.0);
        // SAFETY: as for `elastic_product`.
        unsafe { kernel(&ELASTIC, self, shape, f.into(), v.into(), tiles, constants, out.into()) }
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
        let constants = Constants::new(operator, &factors, omega);
        let counts = dims.iter().all(|&n| n <= MOST_SWEPT);
        if !factors.is_mixed && !operator.lacks_colours(dims) && counts {
            let (tiles, shape) = Tiles::of_sweeps(self, dims, SLICES_OF_SWEEPS, SWEEP_BLOCK)?;
            let shape = for_components(shape);
            // SAFETY: the kernel stays within the grid; the lengths were checked. Pairs are only read
            // at once where rows have even lengths.
            return unsafe { ELASTIC.sweep(self, shape, f, v, tiles, constants, out) };
        }
        let (tiles, shape) = Tiles::new(self, dims, 1)?;
        let shape = for_components(shape);
        let mut other = self.alloc_unset::<f32>(v.len())?;
        if !factors.is_mixed {
            // SAFETY: as above.
            return unsafe {
                ELASTIC.relax_colour(self, shape, f, v, tiles, constants, 0u32, &mut other)?;
                ELASTIC.relax_colour(self, shape, f, &other, tiles, constants, 1u32, out)
            };
        }
        // A pass for each colour of each component, from one field to the other and back.
        for pass in 0..6u32 {
            let (from, to): (In<f32>, Out<f32>) = match pass {
                0 => (v.into(), (&mut other).into()),
                1 | 3 | 5 => ((&other).into(), (&mut *out).into()),
                _ => ((&*out).into(), (&mut other).into()),
            };
            let (colour, own) = (pass / 3, pass % 3);
            // SAFETY: as above.
            unsafe {
                ELASTIC.relax_coupled_colour(
                    self, shape, f, from, tiles, constants, own, colour, to,
                )?;
            }
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
        let shape = Shape::covering(n.div_ceil(2), 256);
        // SAFETY: the spectra have three times `n` numbers, and each table as many parts as there are
        // frequencies, or more.
        unsafe { ELASTIC.symbol(self, shape, spectra, &x, &y, &z, frequencies) }
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
        let shape = for_components(Shape::covering(n, 256));
        // SAFETY: there are three times `n` coefficients, and as many numbers in each table as the
        // grid has along the axis.
        unsafe { ELASTIC.eigenvalues(self, shape, coefficients, &x, &y, &z, frequencies) }
    }
}
