//! What moves a field: from what pulls to a velocity, and along it.

use super::held::{Largest, PointState};
use super::kinds::{Flow, StepRule};
use super::points::{Held, between, by_smallest, lattice, reaches};
use super::pull::{Sources, of_channels};
use super::solver::{Solver, SolverKind};
use crate::attachment::images::finest;
use crate::attachment::{Gradient, Maps};
use crate::error::Result;
use crate::similarity::{Images, PendingEnergies};
use voxalign_compute::ops::elementwise::constant;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::{Limit, Step};
use voxalign_compute::ops::points::Bounds;
use voxalign_compute::{Device, Dims};
use voxalign_image::{Affine, Grid, Index, Vector3, World};

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

/// The numbers of a model, whose count is the first, and those of points after them.
pub(super) fn of_model(numbers: &[f64]) -> (&[f64], &[f64]) {
    let (count, rest) = numbers.split_first().map_or((0, numbers), |(n, rest)| (*n as usize, rest));
    rest.split_at(count.min(rest.len()))
}

/// Whether such a step needs what the last one of the same subject left.
pub(super) fn has_memory(flow: &Flow, solver: &SolverKind) -> bool {
    solver.starts_from_last() || flow.step_rule == StepRule::Adaptive
}

/// How points of one world get to the other one.
pub(super) struct Way<'a, D: Device> {
    /// From the world that they come from to voxels of the grid.
    pub(super) to_grid: Affine<World, Index>,
    /// The displacement of the grid that leads to the world they come from, where that moves.
    pub(super) from: Option<&'a D::Buffer<f32>>,
    /// The one that leads to the other world, voxels, and the map from voxels to there after it.
    pub(super) field: &'a D::Buffer<f32>,
    pub(super) to_world: Affine<Index, World>,
}

/// The part of the largest step that points make beside images: less than all of it, so that the largest velocity stays that of
/// the images, which sets the step, but where both pull at one place.
const BESIDE: f64 = 0.5;

/// How many times the largest step points alone may make, where several pull at one place.
const TOGETHER: f64 = 2.0;

/// Makes velocities of one side from what pulls it.
pub(super) struct Mover<D: Device> {
    solver: Box<dyn Solver<D>>,
    /// Spacing of the grid along each axis in units of the smallest.
    spacing: [f64; 3],
    dims: Dims,
    /// Room for the derivatives of one attachment.
    derivatives: Vec<D::Buffer<f32>>,
    force: D::Buffer<f32>,
    velocity: D::Buffer<f32>,
    /// Where a displacement is moved to; none where the force makes room.
    spare: Option<D::Buffer<f32>>,
    norms: D::Buffer<f64>,
    /// The length of the smallest voxel, mm.
    smallest: f64,
    /// The step of the next advance, smallest voxels.
    step: f64,
    /// Whether the velocity at hand is that of points alone, a unit of which is a voxel.
    of_points: bool,
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
        solver: &SolverKind,
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
            solver: solver.build(device, dims, spacing)?,
            spacing,
            dims,
            derivatives: Vec::new(),
            force: device.alloc(3 * n)?,
            velocity: device.alloc(3 * n)?,
            spare: if keeps_force { Some(device.alloc(3 * n)?) } else { None },
            norms: device.alloc(3)?,
            smallest: finest(grid),
            step,
            of_points: false,
            last_energy: f64::INFINITY,
        })
    }

    /// Finds the velocities that what pulls asks for, of `images` on the grid and of points, which go the `ways` from each
    /// side to the other. One mover moves the moving side. Of two, each is the other's reference: what pulls points pulls the side that leads to where they go, and
    /// pushes the other. The energies are waited for by themselves: the device has work meanwhile.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn start(
        movers: &mut [Self],
        device: &D,
        sources: &mut Sources<'_, D>,
        images: &[Images<'_, D>],
        ways: &[Way<'_, D>],
        state: &mut PointState<D>,
    ) -> Result<PendingEnergies> {
        Self::hold(movers, device, sources, ways, state)?;
        let share = sources.share;
        let energies = Self::pull(movers, device, sources, images, ways, state)?;
        if !state.held.is_empty() {
            Self::push_by_points(movers, device, ways, share, energies.has_images, state)?;
        }
        for mover in movers.iter_mut() {
            mover.solve(device)?;
        }
        if !state.held.is_empty() {
            state.last = movers
                .iter()
                .map(|m| Ok(Largest::Arriving(device.arriving(&m.norms)?)))
                .collect::<Result<_>>()?;
        }
        Ok(energies)
    }

    /// Evaluates what pulls: makes the force of images, and the covectors where points are carried to.
    fn pull(
        movers: &mut [Self],
        device: &D,
        sources: &mut Sources<'_, D>,
        images: &[Images<'_, D>],
        ways: &[Way<'_, D>],
        state: &mut PointState<D>,
    ) -> Result<PendingEnergies> {
        let mut energies = PendingEnergies::default();
        let (mut pushed, mut all_held, share) = (false, state.held.iter_mut(), sources.share);
        for attachment in sources.all() {
            let needs = attachment.needs();
            let images = of_channels(images, &needs.channels)?;
            let held = needs.places.and_then(|_| all_held.next());
            let has_points = held.is_some();
            let [mut first_none, mut second_none] = [device.alloc(0)?, device.alloc(0)?];
            let mut carried = [None, None];
            let mut covectors = [&mut first_none, &mut second_none];
            let (first, second) = movers.split_at_mut(1);
            let Some(first) = first.first_mut() else { continue };
            for (side, (held, way)) in held.into_iter().flatten().zip(ways).enumerate() {
                held.carry(device, way.field, first.dims)?;
                carried[side] = Some(&held.there);
                covectors[side] = &mut held.covectors;
            }
            let derivatives = first.room_for(device, images.len())?;
            let reference_derivatives = match second.first_mut() {
                Some(second) => second.room_for(device, images.len())?,
                None => &mut [],
            };
            let mut out = Gradient { derivatives, reference_derivatives, covectors };
            let energy = attachment.evaluate(device, &Maps { images, carried }, &mut out)?;
            match has_points {
                true => energies.points.push(energy.times(share)),
                false => energies.images.add(energy),
            }
            for (derivative, image) in images.iter().enumerate() {
                for (mover, moved) in movers.iter_mut().zip([image.moved, image.reference]) {
                    mover.push(device, moved, derivative, pushed)?;
                }
                pushed = true;
            }
        }
        energies.has_images = pushed;
        if !pushed {
            for mover in movers.iter_mut() {
                device.eval_in_place(&constant(0.0), &mut mover.force, &[], &[], None)?;
            }
        }
        Ok(energies)
    }

    /// Adds the forces of points to those of images, where there are some, held back to the pace of these.
    fn push_by_points(
        movers: &mut [Self],
        device: &D,
        ways: &[Way<'_, D>],
        share: f64,
        has_images: bool,
        state: &mut PointState<D>,
    ) -> Result<()> {
        let mut last: Vec<f64> = Vec::new();
        if has_images && state.last.is_empty() {
            for mover in movers.iter_mut() {
                mover.solve(device)?;
                last.push(device.download(&mover.norms)?.first().copied().unwrap_or_default());
            }
        }
        for largest in state.last.drain(..) {
            last.push(largest.wait()?);
        }
        let count = movers.len();
        let stiffness = count as f64 / state.trust.factor();
        let mut bounds = Vec::new();
        for (m, mover) in movers.iter_mut().enumerate() {
            let pace = last.get(m).filter(|l| has_images && **l > 0.0).map(|l| mover.step / l);
            mover.of_points = pace.is_none();
            let step = mover.step * if mover.of_points { 1.0 } else { BESIDE };
            let factors = by_smallest(mover.dims, mover.spacing, 1.0);
            bounds.push(Bounds { factors, step, pace, share, stiffness });
        }
        for held in &state.held {
            for (side, (held, way)) in held.iter().zip(ways).enumerate() {
                let Some([reach, stiffness]) = &held.reach else { continue };
                // The second of two moves the moving side, to which fixed points go.
                let sign = |m: usize| if count == 1 || m != side { 1.0 } else { -1.0 };
                let signed = |(m, b): (usize, &Bounds)| Bounds {
                    factors: b.factors.map(|f| sign(m) * f),
                    ..*b
                };
                let bounds: Vec<Bounds> = bounds.iter().enumerate().map(signed).collect();
                let Some(dims) = movers.first().map(|m| m.dims) else { continue };
                let carriage = held.carriage(way.field, dims);
                let mut forces: Vec<_> = movers.iter_mut().map(|m| &mut m.force).collect();
                device.push_points(
                    &carriage,
                    held.at(),
                    &held.covectors,
                    reach,
                    stiffness,
                    &bounds,
                    &mut forces,
                )?;
            }
        }
        Ok(())
    }

    /// Brings the points of all attachments to where forces act on them; at the first step of a scale, and where they have
    /// [moved](PointState::moved), it looks how far forces reach.
    fn hold(
        movers: &mut [Self],
        device: &D,
        sources: &mut Sources<'_, D>,
        ways: &[Way<'_, D>],
        state: &mut PointState<D>,
    ) -> Result<()> {
        let Some(mover) = movers.first_mut() else { return Ok(()) };
        let begins = state.held.is_empty();
        let mut number = 0;
        let mut stiffness = Vec::new();
        for attachment in sources.all() {
            let Some(places) = attachment.needs().places else { continue };
            if begins {
                let mut all = Vec::new();
                for (side, way) in ways.iter().enumerate().take(2) {
                    let [from, to] = [places[side], places[1 - side]];
                    let to_grid = between(&way.to_grid, from.origin(), &Vector3::zeros());
                    let map = between(&way.to_world, &Vector3::zeros(), to.origin());
                    all.push(Held::new(device, from.at(), &to_grid, map)?);
                }
                state.held.push(all);
                let each = places.iter().zip(ways).map(|(p, _)| p.stiffness().to_vec());
                stiffness.push(each.collect::<Vec<_>>());
            }
            if let Some(held) = state.held.get_mut(number) {
                for (held, way) in held.iter_mut().zip(ways) {
                    if let Some(field) = way.from {
                        held.follow(device, field, lattice(mover.dims))?;
                    }
                }
            }
            number += 1;
        }
        if !begins || state.held.is_empty() {
            return Ok(());
        }
        let held = state.held.iter_mut().flatten();
        let points = held.zip(stiffness.iter().flatten().map(Vec::as_slice)).collect();
        let Self { solver, force, velocity, dims, smallest, .. } = mover;
        reaches(device, *dims, *smallest, points, [force, velocity], |force, velocity| {
            solver.restart();
            solver.solve(force, velocity)?;
            Ok(())
        })?;
        solver.restart();
        Ok(())
    }

    /// Room for derivatives; the same at each step of the same attachments.
    fn room_for(&mut self, device: &D, derivatives: usize) -> Result<&mut [D::Buffer<f32>]> {
        let voxels = self.dims.iter().product();
        while self.derivatives.len() < derivatives {
            self.derivatives.push(device.alloc(voxels)?);
        }
        Ok(&mut self.derivatives[..derivatives])
    }

    /// Adds the force of one of the derivatives at hand to what has been pushed already.
    fn push(
        &mut self,
        device: &D,
        moved: &D::Buffer<f32>,
        derivative: usize,
        pushed: bool,
    ) -> Result<()> {
        let (derivative, force) = (&self.derivatives[derivative], &mut self.force);
        Ok(device.force(derivative, moved, self.dims, self.spacing, pushed, force)?)
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
        let (step, most) = match self.of_points {
            false => (self.step, f64::INFINITY),
            true => (TOGETHER * self.step, 1.0),
        };
        let limit = Limit { largest: &self.norms, index: 0, step, most };
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

    /// Adapts the step of the sides of a subject to the energy at hand, which is known then.
    ///
    /// # Errors
    /// What failed on the device.
    pub(super) fn adapt(movers: &mut [Self], energies: PendingEnergies) -> Result<PendingEnergies> {
        let (energies, total) = energies.known()?;
        for mover in movers {
            if total > mover.last_energy {
                mover.step *= 0.5;
            }
            mover.last_energy = total;
        }
        Ok(energies)
    }

    /// The relative residual of the last solution.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn residual(&mut self) -> Result<Option<f64>> {
        self.solver.residual(&self.force, &self.velocity)
    }
}
