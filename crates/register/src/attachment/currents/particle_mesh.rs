//! Convolution of vector-valued Dirac masses by a kernel on a grid: splat, transform, multiply, transform back, gather
//! (L. K. Ha, 2011, section 3.3.1).
//!
//! The grid is a torus around all points, so large that what the kernel carries round it is nothing. Masses are spread
//! over the voxels around them, and the result is taken from these, both with the weights of the cubic B-spline: the
//! kernel is smoothed by the square of the weights' transform `W` on the way. Its transform is divided by that
//! square, so that the two take each other away but for what aliases, as in smooth particle mesh Ewald sums (U. Essmann et
//! al., J. Chem. Phys. 103, 1995). With linear weights the derivatives, which jump at voxels then, err by 5 to 20 per cent at three
//! to seven spacings a width.
//!
//! The sums are those of an energy of the grid, `g · K g`, with a symmetric `K`, and splatting is the exact adjoint of
//! gathering: so derivatives are the exact derivative of that energy, as far as single precision goes.

use crate::error::{RegisterError, Result};
use voxalign_compute::ops::pairwise::{KernelShape, RadialKernel};
use voxalign_compute::ops::splat::{Beyond, Lattice, Spline};
use voxalign_compute::ops::{SplatScheme, fourier};
use voxalign_compute::{Device, DeviceBuffer, Dims};
use voxalign_image::memory;

/// The least width of a kernel in spacings of the grid. From there on squared distances of shapes err by one per cent at
/// most, also of shapes that are near each other; derivatives by less than one per cent with a Gaussian, and by some two per cent with a
/// Cauchy kernel, whose transform falls off more slowly. At two spacings derivatives err by four and seven per cent, at one by a
/// third and more (`voxalign bench currents`; L. K. Ha, 2011, figure 3.4).
#[must_use]
pub fn narrowest(_shape: KernelShape) -> f64 {
    3.0
}

/// The width of a kernel in spacings of the grid that is taken where none is asked for: all err by less than one per cent.
#[must_use]
pub fn usual(shape: KernelShape) -> f64 {
    match shape {
        KernelShape::Gaussian => 3.0,
        KernelShape::Cauchy => 3.5,
    }
}

/// The kernel's value that is lost where the torus closes.
const NOTHING: f64 = 1e-7;
/// The most voxels of a grid.
pub(super) const MOST_VOXELS: usize = 1 << 28;

/// A grid around points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeshGrid {
    /// Sizes, of which a Fourier transform is quick.
    pub dims: Dims,
    /// Where voxel (0, 0, 0) is, mm.
    pub origin: [f64; 3],
    /// Spacing along all axes, mm.
    pub spacing: f64,
    /// Where points may be, mm.
    pub bounds: [[f64; 3]; 2],
}

/// The next number of factors 2, 3, 5 and 7 that is even, or 1.
fn quick(n: usize) -> usize {
    let is_quick = |mut n: usize| {
        for factor in [2, 3, 5, 7] {
            while n.is_multiple_of(factor) {
                n /= factor;
            }
        }
        n == 1
    };
    (n.max(2)..).find(|&n| n.is_multiple_of(2) && is_quick(n)).unwrap_or(n)
}

impl MeshGrid {
    /// A grid with a spacing around points from `bounds[0]` to `bounds[1]`, mm.
    ///
    /// # Errors
    /// [`RegisterError::Option`] where the kernel is too narrow for the spacing, or the grid would be too large.
    pub fn around(bounds: [[f64; 3]; 2], kernel: &RadialKernel, spacing: f64) -> Result<Self> {
        let least = narrowest(kernel.shape);
        let refused = |remedy: String| {
            RegisterError::option("kernel width", format!("{} mm", kernel.width), remedy)
        };
        // What is just as wide counts.
        let enough = kernel.width >= least * spacing * (1.0 - 1e-9);
        if !enough {
            return Err(refused(format!(
                "a grid of {spacing} mm needs a kernel of at least {} mm; give a wider kernel or a finer grid, \
                 or sum exactly",
                least * spacing
            )));
        }
        Self::of_any_width(bounds, kernel, spacing)
    }

    /// The same where the kernel may be too narrow for the spacing: to measure how wrong sums are then.
    ///
    /// # Errors
    /// As [`around`](Self::around), but for that.
    pub fn of_any_width(
        bounds: [[f64; 3]; 2],
        kernel: &RadialKernel,
        spacing: f64,
    ) -> Result<Self> {
        let refused = |remedy: String| {
            RegisterError::option("kernel width", format!("{} mm", kernel.width), remedy)
        };
        let sizes = Self::sizes(&bounds, kernel, spacing);
        let voxels: f64 = sizes.iter().product();
        let fits = voxels <= MOST_VOXELS as f64;
        if !fits {
            let extent = (0..3).map(|a| bounds[1][a] - bounds[0][a]).fold(0.0, f64::max);
            return Err(refused(format!(
                "a grid of {spacing} mm around points that span {extent:.0} mm would have more than \
                 {MOST_VOXELS} voxels; give a wider kernel or a coarser grid"
            )));
        }
        let dims = sizes.map(|n| quick(n as usize));
        Ok(Self { dims, origin: bounds[0], spacing, bounds })
    }

    /// The voxels along each axis that are needed at least.
    pub(super) fn sizes(bounds: &[[f64; 3]; 2], kernel: &RadialKernel, spacing: f64) -> [f64; 3] {
        let reach = match kernel.shape {
            KernelShape::Gaussian => kernel.width * (-NOTHING.ln()).sqrt(),
            // It never ends: there is room for all distances twice.
            KernelShape::Cauchy => f64::INFINITY,
        };
        [0, 1, 2].map(|a| {
            let extent = bounds[1][a] - bounds[0][a];
            ((extent + reach.min(extent + 2.0 * spacing)) / spacing + 4.0).ceil()
        })
    }

    /// Whether points within these bounds are on the grid.
    #[must_use]
    pub fn holds(&self, bounds: &[[f64; 3]; 2]) -> bool {
        (0..3).all(|a| bounds[0][a] >= self.bounds[0][a] && bounds[1][a] <= self.bounds[1][a])
    }

    /// Its voxels.
    #[must_use]
    pub fn voxels(&self) -> usize {
        self.dims.iter().product()
    }
}

/// A kernel on a grid, on a device. Masses and sums have `components` components.
pub struct ParticleMesh<D: Device> {
    grid: MeshGrid,
    components: usize,
    /// The kernel's transform, by voxels.
    factors: D::Buffer<f32>,
    values: D::Buffer<f32>,
    spectrum: D::Buffer<f32>,
}

impl<D: Device> ParticleMesh<D> {
    /// A kernel on a grid, corrected for what splatting and gathering smooth.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(
        device: &D,
        grid: MeshGrid,
        kernel: &RadialKernel,
        components: usize,
    ) -> Result<Self> {
        let (dims, n) = (grid.dims, grid.voxels());
        let len = fourier::spectrum_len(dims)?;
        let factors = match kernel.shape {
            KernelShape::Gaussian => by_axes(&grid, kernel, len / 2)?,
            KernelShape::Cauchy => transformed(device, &grid, kernel, len)?,
        };
        Ok(Self {
            grid,
            components,
            factors: device.upload_vec(factors)?,
            values: device.alloc(components * n)?,
            spectrum: device.alloc(components * len)?,
        })
    }

    /// The grid.
    #[must_use]
    pub fn grid(&self) -> &MeshGrid {
        &self.grid
    }

    /// Masses at points, voxels of the grid, on its voxels.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn splat(
        &self,
        device: &D,
        points: &D::Buffer<f32>,
        masses: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let scheme = SplatScheme::default();
        Ok(device.splat(masses, points, None, self.lattice(), scheme, out)?)
    }

    /// The convolution of masses on voxels with the kernel, in place.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn convolve(&mut self, device: &D, masses: &D::Buffer<f32>) -> Result<&D::Buffer<f32>> {
        let dims = self.grid.dims;
        device.forward(masses, dims, &mut self.spectrum)?;
        device.scale_spectrum(&mut self.spectrum, dims, &self.factors)?;
        device.inverse_sum(&mut self.spectrum, dims, &mut self.values)?;
        Ok(&self.values)
    }

    /// The result of the last convolution at points, and the derivative of its product with `moments` in the
    /// points, in voxels.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn gather(
        &self,
        device: &D,
        points: &D::Buffer<f32>,
        moments: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
        derivatives: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let (values, lattice) = (&self.values, self.lattice());
        Ok(device.gather_with_gradients(
            values,
            lattice,
            points,
            None,
            moments,
            out,
            derivatives,
        )?)
    }

    fn lattice(&self) -> Lattice {
        Lattice { dims: self.grid.dims, beyond: Beyond::Wrapped, spline: Spline::Cubic }
    }

    /// Room for masses on the grid.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn room(&self, device: &D) -> Result<D::Buffer<f32>> {
        Ok(device.alloc(self.components * self.grid.voxels())?)
    }

    /// The numbers that it has on the device.
    #[must_use]
    pub fn len(&self) -> usize {
        self.factors.len() + self.values.len() + self.spectrum.len()
    }

    /// Never: a grid has a voxel at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The factors of a kernel that is a product of kernels along each axis, and so is its transform.
fn by_axes(grid: &MeshGrid, kernel: &RadialKernel, numbers: usize) -> Result<Vec<f32>> {
    let dims = grid.dims;
    let [x, y, z] = dims.map(|n| {
        let transform = cosines(n, |i| kernel.at(i as f64 * grid.spacing));
        let of = |(t, w): (f64, f64)| t / (w * n as f64);
        transform.into_iter().zip(smoothing(n)).map(of).collect::<Vec<f64>>()
    });
    let mut factors = memory::room(numbers)?;
    for z in &z {
        for y in &y {
            factors.extend(x[..dims[0] / 2 + 1].iter().map(|x| (x * (y * z)) as f32));
        }
    }
    Ok(factors)
}

/// The transform of an even function on a circle of `n` voxels, given by its values at distances from 0 on.
fn cosines(n: usize, at: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = (0..=n / 2).map(at).collect();
    // What is nothing beside the middle is left out.
    while values.len() > 1 && values.last().is_some_and(|&v| v < 1e-18) {
        values.pop();
    }
    let turn = std::f64::consts::TAU / n as f64;
    let of = |k: usize| {
        let terms = values.iter().enumerate().skip(1).map(|(i, v)| {
            // The voxel across is there once.
            let times = if 2 * i == n { 1.0 } else { 2.0 };
            times * v * (turn * (k * i % n) as f64).cos()
        });
        values[0] + terms.sum::<f64>()
    };
    let half: Vec<f64> = (0..=n / 2).map(of).collect();
    (0..n).map(|k| half[k.min(n - k)]).collect()
}

/// The factors of any kernel, by its transform on the device.
fn transformed<D: Device>(
    device: &D,
    grid: &MeshGrid,
    kernel: &RadialKernel,
    len: usize,
) -> Result<Vec<f32>> {
    let (dims, n) = (grid.dims, grid.voxels());
    let [nx, ny, nz] = dims;
    // The kernel around voxel 0, along the shorter way round: rows that have been before are copied.
    let mut values: Vec<f32> = memory::room(n)?;
    let away = |i: usize, n: usize| i.min(n - i);
    let square = |i: usize| (i as f64 * grid.spacing).powi(2);
    for z in 0..nz {
        for y in 0..ny {
            let before = nx * (away(y, ny) + ny * away(z, nz));
            if before < values.len() {
                values.extend_from_within(before..before + nx);
                continue;
            }
            let plane = square(y) + square(z);
            let first = values.len();
            values.extend((0..=nx / 2).map(|x| kernel.at((plane + square(x)).sqrt()) as f32));
            for x in nx / 2 + 1..nx {
                let other = values[first + nx - x];
                values.push(other);
            }
        }
    }
    let mut spectrum = device.alloc(len)?;
    device.forward(&device.upload_vec(values)?, dims, &mut spectrum)?;
    // The kernel is even: its transform is real.
    let transform = device.into_host(spectrum)?;
    let weights: Vec<Vec<f64>> = dims.iter().map(|&n| smoothing(n)).collect();
    let mut factors: Vec<f32> = memory::room(len / 2)?;
    let row = nx / 2 + 1;
    for (k, number) in transform.chunks_exact(2).enumerate() {
        let at = [k % row, k / row % ny, k / (row * ny)];
        let smoothed: f64 = (0..3).map(|a| weights[a][at[a]]).product();
        factors.push((f64::from(number[0]) / (smoothed * n as f64)) as f32);
    }
    Ok(factors)
}

/// What splatting and gathering do to the frequencies of an axis of `n` voxels: `sinc⁸(π k / n)`.
fn smoothing(n: usize) -> Vec<f64> {
    let of = |k: usize| {
        let x = std::f64::consts::PI * k.min(n - k) as f64 / n as f64;
        if x > 0.0 { (x.sin() / x).powi(8) } else { 1.0 }
    };
    (0..n).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_leave_room_for_the_kernel() {
        let bounds = [[-10.0, 0.0, 5.0], [20.0, 7.0, 5.0]];
        let kernel = |shape| RadialKernel { shape, width: 6.0 };
        let gaussian = MeshGrid::around(bounds, &kernel(KernelShape::Gaussian), 2.0).unwrap();
        assert!(gaussian.dims.iter().zip([30.0, 7.0, 0.0]).all(|(&n, extent)| {
            n.is_multiple_of(2) && n as f64 * 2.0 >= extent + f64::min(24.0, extent)
        }));
        let cauchy = MeshGrid::around(bounds, &kernel(KernelShape::Cauchy), 2.0).unwrap();
        assert!(cauchy.dims[0] >= 30 && cauchy.dims[1] >= 8);
        assert!(gaussian.holds(&bounds) && !gaussian.holds(&[[-11.0, 0.0, 5.0], [0.0; 3]]));
        // Too narrow, and too large.
        let error = MeshGrid::around(bounds, &kernel(KernelShape::Gaussian), 2.1);
        assert!(error.unwrap_err().to_string().contains("wider kernel"));
        let far = [[0.0; 3], [1e5; 3]];
        assert!(MeshGrid::around(far, &kernel(KernelShape::Gaussian), 2.0).is_err());
        assert_eq!([1, 2, 3, 11, 13, 97, 127].map(quick), [2, 2, 4, 12, 14, 98, 128]);
    }

    /// A product of transforms along the axes is the transform of the product.
    #[test]
    fn gaussians_are_transformed_by_axes() {
        let cpu = voxalign_compute::cpu::Cpu::new(Some(1)).unwrap();
        let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
        let bounds = [[-10.0, 0.0, 5.0], [20.0, 7.0, 5.0]];
        let grid = MeshGrid::around(bounds, &kernel, 2.0).unwrap();
        let len = fourier::spectrum_len(grid.dims).unwrap();
        let found = by_axes(&grid, &kernel, len / 2).unwrap();
        let expected = transformed(&cpu, &grid, &kernel, len).unwrap();
        let most = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
        assert!(found.len() == expected.len() && most > 0.0);
        // That of the device is in single precision, and divided by small numbers at high frequencies.
        let weights = grid.dims.map(smoothing);
        let row = grid.dims[0] / 2 + 1;
        for (k, (a, b)) in found.iter().zip(&expected).enumerate() {
            let at = [k % row, k / row % grid.dims[1], k / (row * grid.dims[1])];
            let smoothed: f64 = (0..3).map(|a| weights[a][at[a]]).product();
            assert!(f64::from((a - b).abs()) * smoothed < 1e-6 * f64::from(most), "{k}: {a} {b}");
        }
    }
}
