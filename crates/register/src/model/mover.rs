//! What moves a field: from what pulls to a velocity, and along it.

use super::options::{DeformOptions, StepRule};
use super::points::{Carried, Splat};
use super::pull::of_channels;
use super::solver::{self, Solver, SolverKind};
use crate::attachment::{Attachments, Gradient, Maps};
use crate::error::Result;
use crate::similarity::{Images, PendingEnergy};
use voxalign_compute::ops::elementwise::constant;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::{Limit, Step};
use voxalign_compute::{Device, Dims};
use voxalign_image::{Grid, Vector3};

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

/// Where a model carries points of one world to the other.
pub(super) type Carrier<'a> = dyn Fn(&[Vector3<f64>]) -> Result<Carried> + 'a;

/// Covectors that nothing has been written to.
fn covectors(of: &Carried) -> Vec<Vector3<f64>> {
    vec![Vector3::zeros(); of.to.len()]
}

/// Makes velocities of one side from what pulls it.
pub(super) struct Mover<D: Device> {
    solver: Box<dyn Solver<D>>,
    /// Spacing of the grid along each axis in units of the smallest.
    spacing: [f64; 3],
    dims: Dims,
    /// Room for the slopes of one attachment.
    slopes: Vec<D::Buffer<f32>>,
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
            slopes: Vec::new(),
            force: device.alloc(3 * n)?,
            velocity: device.alloc(3 * n)?,
            spare: if keeps_force { Some(device.alloc(3 * n)?) } else { None },
            norms: device.alloc(3)?,
            step,
            last_energy: f64::INFINITY,
        })
    }

    /// Finds the velocity that what pulls asks for, of `images` on the grid and of points that `carried`
    /// carries to the moving world; the energy, which is waited for by itself: the device has work meanwhile.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn start(
        &mut self,
        device: &D,
        attachments: &mut Attachments<D>,
        images: &[Images<'_, D>],
        carried: &Carrier<'_>,
    ) -> Result<PendingEnergy> {
        let (mut energy, mut pushed) = (PendingEnergy::default(), false);
        let mut splat = Splat::new(self.dims, self.spacing);
        for attachment in attachments {
            let needs = attachment.needs();
            let images = of_channels(images, &needs.channels)?;
            let there = carried(needs.fixed_points)?;
            let mut covectors = covectors(&there);
            let at = Maps { images, fixed_points: &there.to, moving_points: &[] };
            let mut out = Gradient {
                slopes: self.room_for(device, images.len())?,
                reference_slopes: &mut [],
                fixed_covectors: &mut covectors,
                moving_covectors: &mut [],
            };
            energy.add(attachment.evaluate(device, &at, &mut out)?);
            for (slope, image) in images.iter().enumerate() {
                self.push(device, image.moved, slope, &mut pushed)?;
            }
            splat.add(there.forces(&covectors), 1.0);
        }
        self.solve(device, splat, pushed)?;
        Ok(energy)
    }

    /// As [`start`](Self::start) for two sides of which each is the other's reference. Points of the fixed and of the
    /// moving world are carried to the other one; what pulls them pulls the side that leads there, and pushes the
    /// other.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn start_both(
        movers: &mut [Self; 2],
        device: &D,
        attachments: &mut Attachments<D>,
        images: &[Images<'_, D>],
        carried: [&Carrier<'_>; 2],
    ) -> Result<PendingEnergy> {
        let [first, second] = movers;
        let (mut energy, mut pushed) = (PendingEnergy::default(), [false; 2]);
        let mut splats = [&*first, &*second].map(|m| Splat::new(m.dims, m.spacing));
        for attachment in attachments {
            let needs = attachment.needs();
            let images = of_channels(images, &needs.channels)?;
            let (there, back) = (carried[0](needs.fixed_points)?, carried[1](needs.moving_points)?);
            let mut covectors = [covectors(&there), covectors(&back)];
            let [fixed_covectors, moving_covectors] = &mut covectors;
            let at = Maps { images, fixed_points: &there.to, moving_points: &back.to };
            let mut out = Gradient {
                slopes: first.room_for(device, images.len())?,
                reference_slopes: second.room_for(device, images.len())?,
                fixed_covectors,
                moving_covectors,
            };
            energy.add(attachment.evaluate(device, &at, &mut out)?);
            for (slope, image) in images.iter().enumerate() {
                first.push(device, image.moved, slope, &mut pushed[0])?;
                second.push(device, image.reference, slope, &mut pushed[1])?;
            }
            for (side, splat) in splats.iter_mut().enumerate() {
                let sign = [-1.0, 1.0][side];
                splat.add(there.forces(&covectors[0]), sign);
                splat.add(back.forces(&covectors[1]), -sign);
            }
        }
        let [splat, other] = splats;
        first.solve(device, splat, pushed[0])?;
        second.solve(device, other, pushed[1])?;
        Ok(energy)
    }

    /// Room for slopes; the same at each step of the same attachments.
    fn room_for(&mut self, device: &D, slopes: usize) -> Result<&mut [D::Buffer<f32>]> {
        let voxels = self.dims.iter().product();
        while self.slopes.len() < slopes {
            self.slopes.push(device.alloc(voxels)?);
        }
        Ok(&mut self.slopes[..slopes])
    }

    /// Adds the force of one of the slopes at hand to what has been pushed already.
    fn push(
        &mut self,
        device: &D,
        moved: &D::Buffer<f32>,
        slope: usize,
        pushed: &mut bool,
    ) -> Result<()> {
        let (slope, force) = (&self.slopes[slope], &mut self.force);
        device.force(slope, moved, self.dims, self.spacing, *pushed, force)?;
        *pushed = true;
        Ok(())
    }

    /// The velocity of the forces at points and of that at hand, where images have pushed, and its norms.
    fn solve(&mut self, device: &D, splat: Splat, pushed: bool) -> Result<()> {
        if !pushed {
            device.eval_in_place(&constant(0.0), &mut self.force, &[], &[], None)?;
        }
        splat.onto(device, &mut self.force)?;
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
