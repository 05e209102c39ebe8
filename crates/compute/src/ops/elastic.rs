//! The elastic operator `L = −α ∇² − β ∇∇· + γ`, and in-place solvers of `L v = f`.
//!
//! `L` acts on vector fields: one buffer of `3 n` elements, all x, then all y, then all z components,
//! which are lengths in one unit (not voxels of each axis). The grid has the spacing `h` in that unit.
//! With `β = 0` it is the Helmholtz operator of eq. 2.2 of Ha (2011), on each component by itself;
//! with it, that of eq. 2.1 (Navier's equation of a linear elastic body). Both are printed there with
//! `+α` and `+β`, which is not definite; the signs here are those of step 6 of the LDDMM algorithm in
//! section 2.2.1.2.
//!
//! The differences: along one axis `∂ₐₐ v = (v[i+1] − 2 v[i] + v[i−1]) / hₐ²`; across two axes
//! `∂ₐ∂_b v` is the product of the central differences `(v[i+1] − v[i−1]) / (2 h)` of each. So
//! `(L v)ₐ = −α Σ_b ∂_bb vₐ − β (∂ₐₐ vₐ + Σ_{b≠a} ∂ₐ∂_b v_b) + γ vₐ`. With either boundary `L` is symmetric,
//! and positive definite for `α, β ≥ 0`, `γ > 0`. (For zero boundaries also for `γ = 0`, `α > 0`.) Along an
//! axis of size 1 there are no differences.

use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len, voxels};
use crate::ops::fourier::spectrum_len;
use voxalign_options::Choice;

/// The boundary condition: values beyond the border of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum Boundary {
    /// The velocity is zero beyond the border.
    ///
    /// From one voxel beyond it on.
    #[default]
    Zero,
    /// The grid is periodic.
    Periodic,
}

/// The constants of the operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ElasticOperator {
    /// Weight of the Laplacian, not negative.
    pub alpha: f64,
    /// Weight of the gradient of the divergence, not negative.
    pub beta: f64,
    /// Weight of the field itself, not negative.
    pub gamma: f64,
    /// Spacing of the grid along each axis, above zero.
    pub spacing: [f64; 3],
    /// The boundary condition.
    pub boundary: Boundary,
}

impl ElasticOperator {
    /// # Errors
    /// Constants that are negative or not finite, or that do not make the operator positive definite.
    pub fn check(&self) -> Result<()> {
        for (name, v) in [("alpha", self.alpha), ("beta", self.beta), ("gamma", self.gamma)] {
            if !(v.is_finite() && v >= 0.0) {
                return Err(ComputeError::argument(name, v, "finite and not negative"));
            }
        }
        if self.gamma == 0.0 && (self.alpha == 0.0 || self.boundary == Boundary::Periodic) {
            return Err(ComputeError::argument("gamma", 0, "above zero"));
        }
        match self.spacing.iter().find(|h| !(h.is_finite() && **h > 0.0)) {
            None => Ok(()),
            Some(h) => Err(ComputeError::argument("spacing", h, "finite and above zero")),
        }
    }

    /// The best factor for [`Elastic::elastic_sweep`] by the theory of D. Young ("Iterative methods
    /// for solving partial difference equations of elliptic type", Trans. AMS 76, 1954), from the
    /// spectral radius of Jacobi's iteration: `ω = 2 / (1 + √(1 − ρ²))` with
    /// `ρ = Σₐ 2 wₐ cos(π / (nₐ+1)) / (Σₐ 2 wₐ + γ)`, `wₐ = α / hₐ²`. With periodic boundaries, where
    /// the slowest wave is a constant, the cosines are 1.
    ///
    /// With `β > 0` each component has `β` on its own axis in its weights, and the slowest component
    /// counts. What couples the components is left out of account: the theory does not hold for it,
    /// but the factor is found to be near the best; and the sweep converges for any factor between 0
    /// and 2 (Ostrowski).
    /// Where a periodic axis has an odd size there are no two colours, and the factor is 1.
    #[must_use]
    pub fn relaxation(&self, dims: Dims) -> f64 {
        if self.lacks_colours(dims) {
            return 1.0;
        }
        let radius = |own: usize| {
            let (mut slowest, mut sum) = (0.0, self.gamma);
            for (axis, &n) in dims.iter().enumerate().filter(|(_, n)| **n > 1) {
                let weight = 2.0 * self.weight(own, axis);
                let cosine = match self.boundary {
                    Boundary::Zero => (std::f64::consts::PI / (n + 1) as f64).cos(),
                    Boundary::Periodic => 1.0,
                };
                slowest += weight * cosine;
                sum += weight;
            }
            if slowest > 0.0 { slowest / sum } else { 0.0 }
        };
        let radius = radius(0).max(radius(1)).max(radius(2));
        2.0 / (1.0 + (1.0 - radius * radius).max(0.0).sqrt())
    }

    /// Whether an axis is periodic and of odd size, so that neighbours have one colour.
    pub(crate) fn lacks_colours(&self, dims: Dims) -> bool {
        self.boundary == Boundary::Periodic && dims.iter().any(|&n| n > 1 && n % 2 == 1)
    }

    /// The weight of the second difference along `axis` of component `own`.
    fn weight(&self, own: usize, axis: usize) -> f64 {
        let beta = if own == axis { self.beta } else { 0.0 };
        (self.alpha + beta) / self.spacing[axis].powi(2)
    }

    /// The factors of the differences on a grid.
    pub(crate) fn factors(&self, dims: Dims) -> Result<Factors> {
        self.check()?;
        let mut factors = Factors { gamma: self.gamma as f32, ..Factors::default() };
        for own in 0..3 {
            let mut diagonal = self.gamma;
            for axis in (0..3).filter(|&axis| dims[axis] > 1) {
                factors.second[own][axis] = self.weight(own, axis) as f32;
                diagonal += 2.0 * self.weight(own, axis);
                if own != axis && dims[own] > 1 {
                    let steps = 4.0 * self.spacing[own] * self.spacing[axis];
                    factors.mixed[own][axis] = (self.beta / steps) as f32;
                }
            }
            factors.diagonal[own] = diagonal;
            let finite = factors.second[own].iter().all(|w| w.is_finite());
            // A diagonal of zero happens where nothing but gamma counts, and that is too small.
            if !(finite && (diagonal as f32).is_normal() && (1.0 / diagonal as f32).is_normal()) {
                let expected =
                    "such that alpha, beta over its square, and gamma, fit 32-bit numbers";
                return Err(ComputeError::argument(
                    "spacing",
                    format!("{:?}", self.spacing),
                    expected,
                ));
            }
        }
        factors.is_mixed = factors.mixed.iter().flatten().any(|&m| m != 0.0);
        Ok(factors)
    }

    /// The eigenvalues of the second differences along each axis, in the order of the frequencies of
    /// the transform that belongs to the boundary, without the constants of the operator.
    pub(crate) fn eigenvalues(&self, dims: Dims) -> [Vec<f64>; 3] {
        [0, 1, 2].map(|axis| {
            let (n, h2) = (dims[axis], self.spacing[axis].powi(2));
            let angle = |k: usize| match self.boundary {
                Boundary::Zero => (k + 1) as f64 / (n + 1) as f64,
                Boundary::Periodic => 2.0 * k as f64 / n as f64,
            };
            let value = |k| (4.0 / h2) * (0.5 * std::f64::consts::PI * angle(k)).sin().powi(2);
            (0..n).map(|k| if n > 1 { value(k) } else { 0.0 }).collect()
        })
    }

    /// The operator times a number above zero.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let Self { alpha, beta, gamma, .. } = *self;
        Self { alpha: factor * alpha, beta: factor * beta, gamma: factor * gamma, ..*self }
    }

    /// The factors of the symbol of a periodic operator along each axis: for each frequency `[α S, β (S − C²), √β
    /// C]` with `S` the eigenvalue of minus the second difference and `√−1 C` that of the central difference. The
    /// symbol is the diagonal matrix of `dₐ = γ + Σ_b α S_b + β (Sₐ − Cₐ²)` plus the product of the vector `√β C`
    /// with itself, so that its inverse has no differences of nearly equal numbers.
    pub(crate) fn symbol(&self, dims: Dims) -> [Vec<[f32; 3]>; 3] {
        let eigenvalues = self.eigenvalues(dims);
        [0, 1, 2].map(|axis| {
            let n = dims[axis];
            let of = |(k, &s): (usize, &f64)| {
                // sin⁴(θ/2) and sin θ; the latter exactly zero at the highest frequency.
                let fourth = 0.25 * (s * self.spacing[axis]).powi(2);
                let angle = std::f64::consts::TAU * k as f64 / n as f64;
                let sine = if 2 * k == n { 0.0 } else { angle.sin() / self.spacing[axis] };
                [self.alpha * s, self.beta * fourth, self.beta.sqrt() * sine].map(|v| v as f32)
            };
            eigenvalues[axis].iter().enumerate().map(of).collect()
        })
    }
}

/// The factors of an operator, as kernels have them; zero along axes of one voxel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Factors {
    /// Of the second difference along each axis, for each component.
    pub(crate) second: [[f32; 3]; 3],
    /// Of the difference across the axes of the component and of another, for each component.
    pub(crate) mixed: [[f32; 3]; 3],
    /// Whether any of these is not zero.
    pub(crate) is_mixed: bool,
    /// Of the field itself.
    pub(crate) gamma: f32,
    /// The diagonal of the operator, for each component.
    pub(crate) diagonal: [f64; 3],
}

impl Factors {
    /// The result of relaxation by `omega` for a value `c` of component `own` with the sum `s` of the force and the
    /// neighbours' parts: `keep c + take s`. As `(take, keep)`, which match each other up to the rounding of the
    /// one that is rounded last.
    pub(crate) fn relaxing(&self, own: usize, omega: f64) -> (f32, f32) {
        let take = (omega / self.diagonal[own]) as f32;
        let around = 2.0 * self.second[own].iter().map(|&w| f64::from(w)).sum::<f64>();
        (take, (1.0 - f64::from(take) * (f64::from(self.gamma) + around)) as f32)
    }
}

/// Checks the operator and the lengths of fields; the factors of the differences.
///
/// # Errors
/// As [`Elastic::elastic_product`].
pub(crate) fn check_fields(
    operator: &ElasticOperator,
    dims: Dims,
    fields: &[(&'static str, usize)],
) -> Result<(usize, Factors)> {
    let n = voxels("dims", dims)?;
    for &(what, len) in fields {
        check_len(what, 3 * n, len)?;
    }
    Ok((n, operator.factors(dims)?))
}

/// Checks what [`Elastic::elastic_sweep`] is given; as [`check_fields`].
///
/// # Errors
/// As there.
pub(crate) fn check_sweep(
    operator: &ElasticOperator,
    omega: f64,
    dims: Dims,
    fields: &[(&'static str, usize)],
) -> Result<(usize, Factors)> {
    let checked = check_fields(operator, dims, fields)?;
    if !(omega > 0.0 && omega < 2.0) {
        return Err(ComputeError::argument("omega", omega, "between 0 and 2"));
    }
    if omega > 1.0 && operator.lacks_colours(dims) {
        let expected = "at most 1 where a periodic axis has an odd size";
        return Err(ComputeError::argument("omega", omega, expected));
    }
    Ok(checked)
}

/// Checks what [`Elastic::elastic_symbol`] is given.
///
/// # Errors
/// As there.
pub(crate) fn check_symbol(operator: &ElasticOperator, dims: Dims, len: usize) -> Result<()> {
    voxels("dims", dims)?;
    check_len("spectra", 3 * spectrum_len(dims)?, len)?;
    operator.factors(dims)?;
    match operator.boundary {
        Boundary::Periodic => Ok(()),
        Boundary::Zero => Err(ComputeError::argument("boundary", "zero", "periodic")),
    }
}

/// Checks what [`Elastic::elastic_eigenvalues`] is given.
///
/// # Errors
/// As there.
pub(crate) fn check_eigenvalues(operator: &ElasticOperator, dims: Dims, len: usize) -> Result<()> {
    let n = voxels("dims", dims)?;
    check_len("coefficients", 3 * n, len)?;
    operator.factors(dims)?;
    if operator.boundary == Boundary::Periodic {
        return Err(ComputeError::argument("boundary", "periodic", "zero"));
    }
    if operator.beta > 0.0 {
        return Err(ComputeError::argument("beta", operator.beta, "zero"));
    }
    Ok(())
}

/// Products with the elastic operator, sweeps of relaxation, and its inverse in frequencies.
#[forwarded]
pub trait Elastic: Memory {
    /// `out = L v`.
    ///
    /// # Errors
    /// Wrong lengths or sizes; constants that [`ElasticOperator::check`] refuses.
    fn elastic_product(
        &self,
        operator: &ElasticOperator,
        v: &Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// `out = f − L v`.
    ///
    /// # Errors
    /// As [`elastic_product`](Self::elastic_product).
    fn elastic_residual(
        &self,
        operator: &ElasticOperator,
        f: &Self::Buffer<f32>,
        v: &Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// One iteration of red-black successive over-relaxation for `L v = f` with the factor
    /// `omega`, from `v` to `out`: first the points with even `x + y + z`, then the others, in one
    /// pass over memory (Algorithm 3 of Ha 2011). With `β > 0` the components are taken one after
    /// the other within a colour. A colour (of a component) is found from the values before it, also
    /// where it has neighbours of its own across the border of a periodic axis of odd size.
    ///
    /// # Errors
    /// As [`elastic_product`](Self::elastic_product); an `omega` not between 0 and 2; periodic
    /// boundaries with an odd size, which has no two colours, and an `omega` above 1.
    fn elastic_sweep(
        &self,
        operator: &ElasticOperator,
        omega: f64,
        f: &Self::Buffer<f32>,
        v: &Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Multiplies the spectra of the three components of a field, one after the other (see
    /// [`Fourier::forward`](super::Fourier::forward)), by the inverse of the 3x3 symbol of `L` with
    /// periodic boundaries: spectra of `f` become those of `v`.
    ///
    /// # Errors
    /// As [`elastic_product`](Self::elastic_product); an operator with zero boundaries.
    fn elastic_symbol(
        &self,
        operator: &ElasticOperator,
        spectra: &mut Self::Buffer<f32>,
        dims: Dims,
    ) -> Result<()>;

    /// Divides the sine coefficients of the three components of a field (see
    /// [`Fourier::sine`](super::Fourier::sine)) by the eigenvalues of `L` with zero boundaries and
    /// `β = 0`: `γ + α Σₐ (2 − 2 cos(π (kₐ+1) / (nₐ+1))) / hₐ²`, over the axes of more than one voxel.
    ///
    /// # Errors
    /// As [`elastic_product`](Self::elastic_product); periodic boundaries, or `β > 0`.
    fn elastic_eigenvalues(
        &self,
        operator: &ElasticOperator,
        coefficients: &mut Self::Buffer<f32>,
        dims: Dims,
    ) -> Result<()>;
}
