//! The direct solver: division by the operator's symbol in the Fourier domain.
//!
//! With periodic boundaries the frequencies are those of Fourier; with boundaries of zeros and
//! components that do not depend on each other, sines. Where they do depend on each other sines are
//! not the eigenvectors, and the exact solution is found by conjugate gradients for which the sines
//! are the approximate inverse: a few iterations.

use voxalign_compute::Device;
use voxalign_compute::ops::elastic::{Boundary, ElasticOperator};
use voxalign_compute::ops::fourier::spectrum_len;
use voxalign_options::Parameters;

use super::cg::ConjugateGradients;
use super::{Elasticity, Kind, LinearOperator, Operator, Solution, Solver};
use crate::error::Result;

/// The relative residual at which coupled components with boundaries of zeros count as exact.
const EXACT: f64 = 1e-6;
/// The most iterations that they get; some tens are needed.
const ITERATIONS: usize = 500;

/// The operator is inverted in frequencies. Those of a grid that repeats itself are some times faster to find than sines.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Fft {
    /// Its constants.
    #[parameter(flatten, default = Operator { boundary: Boundary::Periodic, ..Operator::USUAL })]
    pub operator: Operator,
}

impl Kind for Fft {
    fn operator(&self) -> Option<&Operator> {
        Some(&self.operator)
    }

    fn transform_length(&self, n: usize) -> Option<usize> {
        match self.operator.boundary {
            Boundary::Periodic => n.is_multiple_of(2).then_some(n),
            Boundary::Zero => Some(n + 1),
        }
    }

    fn build<D: Device>(
        &self,
        device: &D,
        dims: [usize; 3],
        spacing: [f64; 3],
    ) -> Result<Box<dyn Solver<D>>> {
        Ok(Box::new(Direct::new(device, self.operator.of(dims, spacing))?))
    }

    fn starts_from_last(&self) -> bool {
        false
    }
}

/// The exact solution.
pub struct Direct<D: Device> {
    device: D,
    of: Elasticity,
    method: Method<D>,
    /// For residuals, once one was asked for.
    work: Option<D::Buffer<f32>>,
}

enum Method<D: Device> {
    Fourier(D::Buffer<f32>),
    Sine(Sines),
    Coupled(Box<ConjugateGradients<D, Elasticity>>),
}

impl<D: Device> Direct<D> {
    /// For an operator on a grid.
    ///
    /// # Errors
    /// Sizes that make no grid; memory that runs out.
    pub fn new(device: &D, of: Elasticity) -> Result<Self> {
        let method = match of.operator.boundary {
            Boundary::Periodic => Method::Fourier(device.alloc(3 * spectrum_len(of.dims)?)?),
            Boundary::Zero => {
                let operator = ElasticOperator { beta: 0.0, ..of.operator };
                let sines = Sines { operator, dims: of.dims };
                if of.operator.beta > 0.0 {
                    let len = of.len();
                    let solver = ConjugateGradients::new(device, of, len, ITERATIONS, EXACT)?;
                    Method::Coupled(Box::new(solver.with_inverse(Box::new(sines), len)?))
                } else {
                    Method::Sine(sines)
                }
            }
        };
        Ok(Self { device: device.clone(), of, method, work: None })
    }
}

/// The inverse of the operator with boundaries of zeros and independent components.
#[derive(Debug)]
struct Sines {
    operator: ElasticOperator,
    dims: [usize; 3],
}

impl<D: Device> LinearOperator<D> for Sines {
    fn product(&mut self, device: &D, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<()> {
        device.copy(f, v)?;
        device.sine(v, self.dims)?;
        device.elastic_eigenvalues(&self.operator, v, self.dims)?;
        Ok(device.sine(v, self.dims)?)
    }
}

impl<D: Device> Solver<D> for Direct<D> {
    fn solve(&mut self, f: &D::Buffer<f32>, v: &mut D::Buffer<f32>) -> Result<Solution> {
        let Self { device, of, .. } = self;
        match &mut self.method {
            Method::Fourier(spectra) => {
                device.forward(f, of.dims, spectra)?;
                // The operator takes the norm of the transforms with it.
                let voxels = of.dims.iter().product::<usize>() as f64;
                device.elastic_symbol(&of.operator.times(voxels), spectra, of.dims)?;
                device.inverse_sum(spectra, of.dims, v)?;
            }
            Method::Sine(sines) => sines.product(device, f, v)?,
            Method::Coupled(solver) => return solver.solve(f, v),
        }
        Ok(Solution { iterations: 1, residual: None })
    }

    fn residual(&mut self, f: &D::Buffer<f32>, v: &D::Buffer<f32>) -> Result<Option<f64>> {
        let work = match self.work.take() {
            Some(work) => work,
            None => self.device.alloc(self.of.len())?,
        };
        let work = self.work.insert(work);
        self.of.relative_residual(&self.device, f, v, work).map(Some)
    }
}
