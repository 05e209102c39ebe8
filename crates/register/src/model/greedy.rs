//! The greedy model: the moving image flows towards the fixed one (Algorithm 2 of Ha 2011).
//!
//! At each step the force `F = ∂E/∂W · ∇W` on the warped image `W = M ∘ φ` is turned into a velocity,
//! `L v = F`, and `φ ← φ ∘ (id − ε v)` with `ε` such that the largest displacement is a given part of a
//! voxel. Where the moving image is cut off and shows nothing, there is no force. `W` is always made of the
//! image as it was read, with one interpolation.

use super::guard::Guard;
use super::held::{PointState, Way};
use super::kinds::{Kind, Matching};
use super::mover::{self, Flow, Kept, Mover, StepRule, has_memory};
use super::solver::SolverKind;
use super::{Borrower, Buffers, CohortModel, Found, Lent, Model, Pull, Shift, UseCohortModel};
use crate::attachment::images::{DeviceImage, Moved, onto, seen};
use crate::error::Result;
use crate::multiscale::Scale;
use crate::similarity::{Images, PendingEnergies};
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::flow::Step;
use voxalign_compute::{Device, DeviceBuffer, Dims};
use voxalign_image::{Affine, Grid};
use voxalign_options::Parameters;

/// The moving image flows to the fixed one.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Greedy {
    /// Its steps.
    #[parameter(flatten)]
    pub flow: Flow,
}

impl Kind for Greedy {
    type Model<D: Device> = GreedyModel<D>;

    fn model<D: Device>(self, matching: &Matching, grid: &Grid) -> GreedyModel<D> {
        GreedyModel::new(self, matching.solver, grid)
    }

    fn with_cohort<D: Device, U: UseCohortModel<D>>(
        self,
        matching: &Matching,
        work: U,
    ) -> Option<U::Out> {
        Some(work.with(|grid| self.model(matching, grid)))
    }

    fn bytes_per_voxel(self) -> u64 {
        100
    }
}

/// Greedy steps. The subjects share the derivative, the force, the velocity and what the solver needs.
pub struct GreedyModel<D: Device> {
    flow: Flow,
    solver: SolverKind,
    grid: Grid,
    /// Whether there is one subject only.
    alone: bool,
    /// Whether steps leave something that another subject must not find.
    has_memory: bool,
    /// Made at the first step of a scale.
    work: Option<Work<D>>,
}

/// The workspace of a step.
struct Work<D: Device> {
    mover: Mover<D>,
    /// Room for the images of the only subject, where they are.
    own: Vec<D::Buffer<f32>>,
}

/// A subject that flows.
pub struct GreedyState<D: Device> {
    affine: Affine,
    /// The images at the scale.
    moved: Vec<Moved<D>>,
    dims: Dims,
    /// The displacement, voxels of the grid.
    field: D::Buffer<f32>,
    /// The initial state of iterative solvers and adaptive steps.
    kept: Option<Kept<D>>,
    /// The state of points.
    points: PointState<D>,
    /// The lowest energy of the only subject at the scale.
    guard: Guard<D>,
}

impl<D: Device> GreedyModel<D> {
    /// On a grid.
    #[must_use]
    pub fn new(Greedy { flow }: Greedy, solver: SolverKind, grid: &Grid) -> Self {
        let has_memory = has_memory(&flow, &solver);
        Self { flow, solver, grid: grid.clone(), alone: false, has_memory, work: None }
    }
}

impl<D: Device> Model<D> for GreedyModel<D> {
    type State = GreedyState<D>;
    type Extra = ();

    fn begin(&mut self, device: &D, affine: &Affine, _: usize) -> Result<GreedyState<D>> {
        (self.alone, self.has_memory) = (true, false);
        self.begin_among(device, affine)
    }

    fn to_scale(&mut self, _: &Scale, grid: &Grid) {
        self.grid = grid.clone();
        self.work = None;
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut GreedyState<D>,
    ) -> Result<()> {
        (state.kept, state.points, state.guard) = (None, PointState::default(), Guard::default());
        // The images on the grid are made where they are asked for.
        state.moved = Moved::all(images, &self.grid, &state.affine);
        if let Some(field) = onto(device, &state.field, state.dims, self.grid.dims())? {
            (state.field, state.dims) = (field, self.grid.dims());
        }
        Ok(())
    }

    fn shown(&self, device: &D, state: &GreedyState<D>) -> Result<Option<D::Buffer<f32>>> {
        seen(device, &state.moved, 0, &state.field, state.dims)
    }

    fn lend(&self, _: &D, state: &GreedyState<D>, work: &mut Borrower<'_, D>) -> Result<()> {
        work(&state.affine, &state.field)
    }

    fn step(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        state: &mut GreedyState<D>,
    ) -> Result<PendingEnergies> {
        let Pull { mut sources, fixed, warped, counts } = pull;
        let (memory, step, alone) = (self.has_memory, self.flow.step, self.alone);
        if self.work.is_none() {
            let image = |_: &_| Ok(device.alloc(self.grid.len())?);
            let images = state.moved.iter().filter(|_| alone).map(image);
            let own = images.collect::<Result<_>>()?;
            let mover = Mover::new(device, &self.grid, &self.solver, step, (1, alone))?;
            self.work = Some(Work { mover, own });
        }
        let Some(Work { mover, own }) = &mut self.work else {
            return Ok(PendingEnergies::default());
        };
        let GreedyState { affine, moved, dims, field, kept, points, guard } = state;
        for (moved, out) in moved.iter().zip(own.iter_mut()) {
            moved.warp_to(device, field, *dims, out)?;
        }
        let warped = if alone { &**own } else { warped };
        if memory {
            mover.exchange(device, kept, step)?;
        }
        mover.fraction = guard.factor();
        let to_world = self.grid.to_world().then(affine);
        let ways = [Way { to_grid: *self.grid.to_index(), from: None, field, to_world }];
        let now = if alone { seen(device, moved, 0, field, *dims)? } else { None };
        let mut energies = counts.under(device, field, *dims, now, |weights| {
            let pairs = fixed.iter().zip(warped);
            let images: Vec<_> = pairs
                .map(|(fixed, moved)| {
                    let (reference, dims, reference_moves) = (fixed.values, *dims, false);
                    Images { reference, moved, weights, dims, reference_moves }
                })
                .collect();
            mover.start(device, &mut sources, &images, &ways, points)
        })?;
        if self.flow.step_rule == StepRule::Adaptive {
            energies = mover.adapt(energies)?;
        }
        // Points alone have steps of their own.
        if alone && energies.has_images {
            energies = guard.look(device, [&*field], energies)?;
        }
        mover.carry(device, [field], self.flow.total_sigma)?;
        if memory {
            mover.exchange(device, kept, step)?;
        }
        Ok(energies)
    }

    fn told(&mut self, state: &mut GreedyState<D>, parts: &[f64]) {
        state.points.told(parts);
    }

    fn review(&mut self, device: &D, state: &mut GreedyState<D>, energy: f64) -> Result<()> {
        state.guard.review(device, [&mut state.field], energy)
    }

    fn settling(&self, state: &GreedyState<D>) -> usize {
        state.guard.settling()
    }

    fn settle(&mut self, state: &mut GreedyState<D>) {
        state.guard.settle();
    }

    fn end_scale(&mut self, device: &D, state: &mut GreedyState<D>) -> Result<()> {
        state.guard.end(device, [&mut state.field])
    }

    fn put_back(&self, state: &GreedyState<D>) -> Option<f64> {
        state.guard.put_back()
    }

    fn residual(&mut self) -> Result<Option<f64>> {
        self.work.as_mut().map_or(Ok(None), |work| work.mover.residual())
    }

    fn conclude(self, device: &D, _: &Grid, state: GreedyState<D>) -> Result<Found<D>> {
        drop(self);
        let GreedyState { field, moved, guard, .. } = state;
        drop((moved, guard));
        // What an inversion starts from.
        let mut inverse = device.alloc::<f32>(field.len())?;
        device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
        Ok(Found { fields: [field, inverse], settled: false, mended: 0, path: None, extra: () })
    }
}

impl<D: Device> CohortModel<D> for GreedyModel<D> {
    fn changing_lengths(&self, grid: &Grid) -> Vec<usize> {
        vec![3 * grid.len(); 1 + usize::from(self.has_memory)]
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        // Derivative, force, velocity; what solvers need for themselves; sums.
        4 * template * (20 + 2 * channels)
    }

    fn begin_among(&mut self, device: &D, affine: &Affine) -> Result<GreedyState<D>> {
        let (affine, field) = (*affine, device.alloc(0)?);
        let (moved, points, guard) = (Vec::new(), PointState::default(), Guard::default());
        Ok(GreedyState { affine, moved, dims: [0; 3], field, kept: None, points, guard })
    }

    fn buffers<'s>(&self, state: &'s mut GreedyState<D>) -> Buffers<'s, D> {
        let mut changing = vec![&mut state.field];
        changing.extend(state.kept.iter_mut().map(|k| &mut k.velocity));
        changing.extend(state.points.buffers());
        Buffers { changing, fixed: state.moved.iter_mut().map(|m| &mut m.image.values).collect() }
    }

    fn numbers(&self, state: &mut GreedyState<D>) -> Result<Vec<f64>> {
        mover::numbers(state.kept.as_ref(), &mut state.points)
    }

    fn set_numbers(&self, device: &D, state: &mut GreedyState<D>, numbers: &[f64]) -> Result<()> {
        let GreedyState { dims, kept, points, .. } = state;
        mover::set_numbers(device, *dims, numbers, kept, points)
    }

    fn needs_warped(&self) -> bool {
        true
    }

    fn points_moved(&mut self, state: &mut GreedyState<D>) {
        state.points.moved();
    }

    fn lend_displacement(
        &mut self,
        _: &D,
        state: &mut GreedyState<D>,
        work: &mut Lent<'_, D>,
    ) -> Result<()> {
        work(&state.field, &state.moved)
    }

    fn takes_shifts(&self) -> bool {
        true
    }

    fn precede(&mut self, device: &D, shift: &Shift<D>, state: &mut GreedyState<D>) -> Result<()> {
        let mut out = device.alloc::<f32>(state.field.len())?;
        let step = Step { scale: [1.0; 3], limit: None };
        device.advance(&state.field, &shift.there, &step, state.dims, &mut out)?;
        state.field = out;
        Ok(())
    }
}
