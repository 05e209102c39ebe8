//! The moving image flows towards the fixed one (Algorithm 2 of Ha 2011).
//!
//! At each step the force `F = ∂E/∂W · ∇W` on the warped image `W = M ∘ φ` is turned into a velocity,
//! `L v = F`, and `φ ← φ ∘ (id − ε v)` with `ε` such that the largest displacement is a given part of a
//! voxel. Where the moving image is cut off and shows nothing, there is no force. `W` is always made of the
//! image as it was read, with one interpolation.

use super::held::PointState;
use super::kinds::{Flow, Kind, Matching, StepRule};
use super::mover::{Kept, Mover, Way, has_memory, kept, of_model};
use super::solver::SolverKind;
use super::{Borrower, Buffers, Found, Model, Pull, Shift};
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

    fn bytes_per_voxel(self) -> u64 {
        88
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
    mover: Option<Mover<D>>,
}

/// A subject that flows.
pub struct GreedyState<D: Device> {
    affine: Affine,
    /// The images at the scale.
    moved: Vec<Moved<D>>,
    dims: Dims,
    /// The displacement, voxels of the grid.
    field: D::Buffer<f32>,
    /// What iterative solvers and adaptive steps start from.
    kept: Option<Kept<D>>,
    /// What points keep.
    points: PointState<D>,
}

impl<D: Device> GreedyModel<D> {
    /// On a grid.
    #[must_use]
    pub fn new(Greedy { flow }: Greedy, solver: SolverKind, grid: &Grid) -> Self {
        let has_memory = has_memory(&flow, &solver);
        Self { flow, solver, grid: grid.clone(), alone: false, has_memory, mover: None }
    }
}

impl<D: Device> Model<D> for GreedyModel<D> {
    type State = GreedyState<D>;

    fn fields_each(&self) -> usize {
        1 + usize::from(self.has_memory)
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        // Derivative, force, velocity; what solvers need for themselves; sums.
        4 * template * (20 + 2 * channels)
    }

    fn begin(&mut self, device: &D, affine: Affine) -> Result<GreedyState<D>> {
        let field = device.alloc(0)?;
        let (moved, points) = (Vec::new(), PointState::default());
        Ok(GreedyState { affine, moved, dims: [0; 3], field, kept: None, points })
    }

    fn begin_alone(&mut self, device: &D, affine: &Affine, _: usize) -> Result<GreedyState<D>> {
        (self.alone, self.has_memory) = (true, false);
        self.begin(device, *affine)
    }

    fn to_scale(&mut self, _: &Scale, grid: &Grid) {
        self.grid = grid.clone();
        self.mover = None;
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut GreedyState<D>,
    ) -> Result<()> {
        (state.kept, state.points) = (None, PointState::default());
        // The images on the grid are made where they are asked for.
        state.moved = Moved::all(images, &self.grid, &state.affine);
        if let Some(field) = onto(device, &state.field, state.dims, self.grid.dims())? {
            (state.field, state.dims) = (field, self.grid.dims());
        }
        Ok(())
    }

    fn buffers<'s>(&self, state: &'s mut GreedyState<D>) -> Buffers<'s, D> {
        let mut changing = vec![&mut state.field];
        changing.extend(state.kept.iter_mut().map(|k| &mut k.velocity));
        changing.extend(state.points.buffers());
        Buffers { changing, fixed: state.moved.iter_mut().map(|m| &mut m.image.values).collect() }
    }

    fn numbers(&self, state: &mut GreedyState<D>) -> Result<Vec<f64>> {
        let kept: Vec<f64> = state.kept.iter().flat_map(|k| [k.step, k.last_energy]).collect();
        Ok([vec![kept.len() as f64], kept, state.points.numbers()?].concat())
    }

    fn set_numbers(&self, device: &D, state: &mut GreedyState<D>, numbers: &[f64]) -> Result<()> {
        let (own, points) = of_model(numbers);
        state.kept = kept(device, state.dims, own)?;
        state.points = PointState::from_numbers(device, points)?;
        Ok(())
    }

    fn shown(&self, device: &D, state: &GreedyState<D>) -> Result<Option<D::Buffer<f32>>> {
        seen(device, &state.moved, &state.field, state.dims)
    }

    fn lend(&self, _: &D, state: &GreedyState<D>, work: &mut Borrower<'_, D>) -> Result<()> {
        work(&state.affine, &state.field)
    }

    fn needs_warped(&self) -> bool {
        true
    }

    fn step(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        state: &mut GreedyState<D>,
    ) -> Result<PendingEnergies> {
        let Pull { mut sources, fixed, warped, counts } = pull;
        let (memory, step) = (self.has_memory, self.flow.step);
        if self.mover.is_none() {
            self.mover = Some(Mover::new(device, &self.grid, &self.solver, step, self.alone)?);
        }
        let Some(mover) = &mut self.mover else { return Ok(PendingEnergies::default()) };
        if memory {
            mover.exchange(device, &mut state.kept, step)?;
        }
        let (grid, field, dims) = (&self.grid, &state.field, state.dims);
        let to_world = grid.to_world().then(&state.affine);
        let ways = [Way { to_grid: *grid.to_index(), from: None, field, to_world }];
        let (movers, points) = (std::slice::from_mut(mover), &mut state.points);
        let mut energies = counts.under(device, field, dims, |weights| {
            let pairs = fixed.iter().zip(warped);
            let images: Vec<_> = pairs
                .map(|(fixed, moved)| {
                    let (reference, reference_moves) = (fixed.values, false);
                    Images { reference, moved, weights, dims, reference_moves }
                })
                .collect();
            Mover::start(movers, device, &mut sources, &images, &ways, points)
        })?;
        if self.flow.step_rule == StepRule::Adaptive {
            energies = Mover::adapt(std::slice::from_mut(mover), energies)?;
        }
        mover.carry(device, &mut state.field, self.flow.total_sigma)?;
        if memory {
            mover.exchange(device, &mut state.kept, step)?;
        }
        Ok(energies)
    }

    fn told(&mut self, state: &mut GreedyState<D>, parts: &[f64]) {
        state.points.told(parts);
    }

    fn points_moved(&mut self, state: &mut GreedyState<D>) {
        state.points.moved();
    }

    fn residual(&mut self) -> Result<Option<f64>> {
        self.mover.as_mut().map_or(Ok(None), Mover::residual)
    }

    fn warp(
        &mut self,
        device: &D,
        state: &mut GreedyState<D>,
        out: &mut [D::Buffer<f32>],
    ) -> Result<()> {
        for (moved, out) in state.moved.iter().zip(out) {
            moved.warp_to(device, &state.field, state.dims, out)?;
        }
        Ok(())
    }

    fn warp_along(
        &mut self,
        device: &D,
        state: &mut GreedyState<D>,
        image: &Moved<D>,
        dims: Dims,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        image.warp_to(device, &state.field, dims, out)
    }

    fn displacement(&mut self, device: &D, state: &mut GreedyState<D>) -> Result<D::Buffer<f32>> {
        let mut field = device.alloc::<f32>(state.field.len())?;
        device.copy(&state.field, &mut field)?;
        Ok(field)
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

    fn conclude(self, device: &D, _: &Grid, state: GreedyState<D>) -> Result<Found<D>> {
        drop(self);
        let GreedyState { field, moved, .. } = state;
        drop(moved);
        // What an inversion starts from.
        let mut inverse = device.alloc::<f32>(field.len())?;
        device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
        Ok(Found { fields: [field, inverse], settled: false, mended: 0, path: None })
    }
}
