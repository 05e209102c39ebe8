//! What moves a field: from the slopes of similarities to a velocity, and along it.

use super::options::{DeformOptions, StepRule};
use super::solver::{self, Solver, SolverKind};
use crate::attachment::images::ChannelSimilarity;
use crate::error::Result;
use crate::similarity::{Images, PendingEnergy};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::{Limit, Step};
use voxalign_compute::{Device, Dims};
use voxalign_image::Grid;

/// Smooths a displacement by a Gaussian, or hands it over as it is where the Gaussian has no width.
fn smooth_into<D: Device>(
    device: &D,
    from: &mut D::Buffer<f32>,
    dims: Dims,
    sigma: f64,
    to: &mut D::Buffer<f32>,
) -> Result<()> {
    if sigma > 0.0 {
        Ok(device.gaussian(from, dims, [sigma; 3], GaussianMethod::Narrow, to)?)
    } else {
        std::mem::swap(from, to);
        Ok(())
    }
}

/// What a [`Mover`] keeps for a registration while it serves another one.
pub(super) struct Kept<D: Device> {
    /// The last velocity.
    pub(super) velocity: D::Buffer<f32>,
    /// The step of the next advance, smallest voxels.
    pub(super) step: f64,
    /// The energy of the last step.
    pub(super) last_energy: f64,
}

/// What was kept between steps, with room for its velocity: a step and an energy, or nothing.
pub(super) fn kept<D: Device>(device: &D, dims: Dims, numbers: &[f64]) -> Result<Option<Kept<D>>> {
    let &[step, last_energy] = numbers else { return Ok(None) };
    let velocity = device.alloc(3 * dims.iter().product::<usize>())?;
    Ok(Some(Kept { velocity, step, last_energy }))
}

/// Whether a step of these options needs what the last one of the same subject left.
pub(super) fn has_memory(options: &DeformOptions) -> bool {
    let direct = matches!(options.solver.kind, SolverKind::Gaussian | SolverKind::Fft);
    !direct || options.step_rule == StepRule::Adaptive
}

/// Makes velocities of one side from its similarity to references.
pub(super) struct Mover<D: Device> {
    solver: Box<dyn Solver<D>>,
    /// Spacing of the grid along each axis in units of the smallest.
    spacing: [f64; 3],
    dims: Dims,
    slope: D::Buffer<f32>,
    force: D::Buffer<f32>,
    velocity: D::Buffer<f32>,
    /// Where a displacement is moved to; none where the force makes room.
    spare: Option<D::Buffer<f32>>,
    norms: D::Buffer<f64>,
    /// The step of the next advance, smallest voxels.
    step: f64,
    last_energy: f64,
}

impl<D: Device> Mover<D> {
    /// For a grid, with the largest step of the first advance, smallest voxels. The force outlives a step, and
    /// the [residual](Self::residual) is known after it, where there is room for that.
    ///
    /// # Errors
    /// Constants that cannot be, memory that runs out.
    pub(super) fn new(
        device: &D,
        grid: &Grid,
        options: &DeformOptions,
        step: f64,
        keeps_force: bool,
    ) -> Result<Self> {
        let dims = grid.dims();
        let used = |a: &usize| dims[*a] > 1;
        let lengths = grid.spacing();
        let smallest = (0..3).filter(used).map(|a| lengths[a]).fold(f64::MAX, f64::min);
        let spacing = lengths.map(|h| if smallest < f64::MAX { h / smallest } else { 1.0 });
        let n = grid.len();
        Ok(Self {
            solver: solver::build(device, dims, spacing, &options.solver)?,
            spacing,
            dims,
            slope: device.alloc(n)?,
            force: device.alloc(3 * n)?,
            velocity: device.alloc(3 * n)?,
            spare: if keeps_force { Some(device.alloc(3 * n)?) } else { None },
            norms: device.alloc(3)?,
            step,
            last_energy: f64::INFINITY,
        })
    }

    /// Finds the velocity that makes the images of a side more similar to the references; the energy, which
    /// is waited for by itself: the device has work meanwhile.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn start<'a>(
        &mut self,
        device: &D,
        references: impl Iterator<Item = &'a D::Buffer<f32>>,
        moved: impl Iterator<Item = &'a D::Buffer<f32>>,
        metrics: &[ChannelSimilarity],
        weights: Option<&D::Buffer<f32>>,
    ) -> Result<PendingEnergy> {
        let mut energy = PendingEnergy::default();
        for (c, ((reference, moved), metric)) in references.zip(moved).zip(metrics).enumerate() {
            let (dims, reference_moves) = (self.dims, false);
            let images = Images { reference, moved, weights, dims, reference_moves };
            energy.add(metric.start(device, images, &mut self.slope)?);
            self.push(device, moved, c)?;
        }
        self.solve(device)?;
        Ok(energy)
    }

    /// As [`start`](Self::start) for two sides of which each is the other's reference; the mean of their
    /// energies.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn start_both<'a>(
        movers: &mut [Self; 2],
        device: &D,
        moved: [impl Iterator<Item = &'a D::Buffer<f32>>; 2],
        metrics: &[ChannelSimilarity],
        weights: Option<&D::Buffer<f32>>,
    ) -> Result<PendingEnergy> {
        let ([first, second], [first_moved, second_moved]) = (movers, moved);
        let mut energy = PendingEnergy::default();
        let (dims, reference_moves) = (first.dims, true);
        for (c, (pair, metric)) in first_moved.zip(second_moved).zip(metrics).enumerate() {
            let (moved, reference) = pair;
            let images = Images { reference, moved, weights, dims, reference_moves };
            let slopes = [&mut first.slope, &mut second.slope];
            energy.add(metric.start_both(device, images, slopes)?);
            first.push(device, moved, c)?;
            second.push(device, reference, c)?;
        }
        first.solve(device)?;
        second.solve(device)?;
        Ok(energy)
    }

    /// The force of the slope at hand, that of a channel.
    fn push(&mut self, device: &D, moved: &D::Buffer<f32>, channel: usize) -> Result<()> {
        let (spacing, force) = (self.spacing, &mut self.force);
        Ok(device.force(&self.slope, moved, self.dims, spacing, channel > 0, force)?)
    }

    /// The velocity of the force at hand, and its norms.
    fn solve(&mut self, device: &D) -> Result<()> {
        self.solver.solve(&self.force, &mut self.velocity)?;
        Ok(device.field_norms(&self.velocity, [1.0; 3], &mut self.norms)?)
    }

    /// Moves a displacement along the last velocity, `φ ← φ ∘ (id + s v)`, and smooths it where that is asked
    /// for.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn carry(
        &mut self,
        device: &D,
        field: &mut D::Buffer<f32>,
        total_sigma: f64,
    ) -> Result<()> {
        let none = device.alloc(0)?;
        let place = self.spare.as_mut().unwrap_or(&mut self.force);
        let mut spare = std::mem::replace(place, none);
        let moved = device.advance(field, &self.velocity, &self.next_step(), self.dims, &mut spare);
        if moved.is_ok() {
            smooth_into(device, &mut spare, self.dims, total_sigma, field)?;
        }
        *self.spare.as_mut().unwrap_or(&mut self.force) = spare;
        Ok(moved?)
    }

    /// The step along the last velocity: against the force, in voxels along each axis.
    fn next_step(&self) -> Step<'_, D> {
        let limit = Limit { largest: &self.norms, index: 0, step: self.step };
        Step { scale: self.spacing.map(|h| -1.0 / h), limit: Some(limit) }
    }

    /// Exchanges what is kept from one step of a registration to the next: the velocity, from which
    /// solvers start, and the step. None stands for a registration that begins: of the velocity a new
    /// one is made then.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn exchange(
        &mut self,
        device: &D,
        other: &mut Option<Kept<D>>,
        first: f64,
    ) -> Result<()> {
        match other {
            Some(kept) => {
                std::mem::swap(&mut self.velocity, &mut kept.velocity);
                std::mem::swap(&mut self.step, &mut kept.step);
                std::mem::swap(&mut self.last_energy, &mut kept.last_energy);
                self.solver.start_from_last();
            }
            None => {
                let velocity = device.alloc(3 * self.dims.iter().product::<usize>())?;
                let velocity = std::mem::replace(&mut self.velocity, velocity);
                let (step, last_energy) = (self.step, self.last_energy);
                *other = Some(Kept { velocity, step, last_energy });
                (self.step, self.last_energy) = (first, f64::INFINITY);
                self.solver.restart();
            }
        }
        Ok(())
    }

    /// Adapts the step to the energy at hand.
    pub(super) fn adapt(&mut self, energy: f64, rule: StepRule) {
        if rule == StepRule::Adaptive && energy > self.last_energy {
            self.step *= 0.5;
        }
        self.last_energy = energy;
    }

    /// The relative residual of the last solution.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn residual(&mut self) -> Result<Option<f64>> {
        self.solver.residual(&self.force, &self.velocity)
    }
}
