//! The image flows to the template by greedy steps (Algorithm 2 of Ha 2011).

use super::{Buffers, Matching, Shift, Template};
use crate::error::Result;
use voxalign_compute::ops::flow::Step;
use voxalign_compute::ops::resample::grid_map;
use voxalign_compute::{Device, Dims};
use voxalign_image::{Affine, Grid};
use voxalign_register::diffeo::channel::{ChannelSimilarity, DeviceImage, Moved};
use voxalign_register::diffeo::multiscale::Scale;
use voxalign_register::diffeo::side::{Kept, Mover};
use voxalign_register::diffeo::solver::SolverKind;
use voxalign_register::diffeo::{DeformOptions, StepRule};
use voxalign_register::similarity::PendingEnergy;

/// Greedy steps. The subjects share the slope, the force, the velocity and what the solver needs.
pub struct Greedy<D: Device> {
    options: DeformOptions,
    metrics: Vec<ChannelSimilarity>,
    grid: Grid,
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
}

impl<D: Device> Greedy<D> {
    /// On the grid of an atlas, with a similarity for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>, grid: &Grid) -> Self {
        Self { options, metrics, grid: grid.clone(), mover: None }
    }

    fn has_memory(&self) -> bool {
        has_memory(&self.options)
    }

    fn is_adaptive(&self) -> bool {
        self.options.step_rule == StepRule::Adaptive
    }
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

impl<D: Device> Matching<D> for Greedy<D> {
    type State = GreedyState<D>;

    fn fields_each(&self) -> usize {
        1 + usize::from(self.has_memory())
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        // Slope, force, velocity; what solvers and local correlation need for themselves; sums.
        4 * template * (20 + 8 * channels)
    }

    fn begin(&mut self, device: &D, affine: Affine) -> Result<GreedyState<D>> {
        let field = device.alloc(0)?;
        Ok(GreedyState { affine, moved: Vec::new(), dims: [0; 3], field, kept: None })
    }

    fn to_scale(&mut self, device: &D, _: &Scale, grid: &Grid) -> Result<()> {
        self.grid = grid.clone();
        self.mover = None;
        self.mover = Some(Mover::new(device, grid, &self.options)?);
        Ok(())
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut GreedyState<D>,
    ) -> Result<()> {
        state.moved.clear();
        state.kept = None;
        for image in images {
            // The image on the grid is made where it is asked for.
            state.moved.push(Moved::without_values(device, image, &self.grid, &state.affine)?);
        }
        let (from, to) = (state.dims, self.grid.dims());
        if from == to {
            return Ok(());
        }
        let mut field = device.alloc::<f32>(3 * self.grid.len())?;
        if from != [0; 3] {
            device.resample_field(&state.field, from, &grid_map(from, to), to, &mut field)?;
        }
        state.field = field;
        state.dims = to;
        Ok(())
    }

    fn buffers<'s>(&self, state: &'s mut GreedyState<D>) -> Buffers<'s, D> {
        let mut changing = vec![&mut state.field];
        changing.extend(state.kept.iter_mut().map(|k| &mut k.velocity));
        Buffers { changing, fixed: state.moved.iter_mut().map(|m| &mut m.image.values).collect() }
    }

    fn numbers(&self, state: &GreedyState<D>) -> Vec<f64> {
        state.kept.iter().flat_map(|k| [k.step, k.last_energy]).collect()
    }

    fn set_numbers(&self, device: &D, state: &mut GreedyState<D>, numbers: &[f64]) -> Result<()> {
        state.kept = kept(device, state.dims, numbers)?;
        Ok(())
    }

    fn needs_warped(&self) -> bool {
        true
    }

    fn step(
        &mut self,
        device: &D,
        template: &Template<D>,
        warped: &[D::Buffer<f32>],
        weights: Option<&D::Buffer<f32>>,
        state: &mut GreedyState<D>,
    ) -> Result<PendingEnergy> {
        let (memory, adaptive) = (self.has_memory(), self.is_adaptive());
        let Some(mover) = &mut self.mover else { return Ok(PendingEnergy::default()) };
        if memory {
            mover.exchange(device, &mut state.kept, self.options.step)?;
        }
        let references = template.channels.iter();
        let mut energy = mover.start(device, references, warped.iter(), &self.metrics, weights)?;
        if adaptive {
            let known = energy.wait()?;
            mover.adapt(known, self.options.step_rule);
            energy = PendingEnergy::known(known);
        }
        mover.carry(device, &mut state.field, self.options.total_sigma)?;
        if memory {
            mover.exchange(device, &mut state.kept, self.options.step)?;
        }
        Ok(energy)
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
        Ok(image.warp_to(device, &state.field, dims, out)?)
    }

    fn displacement(&mut self, device: &D, state: &mut GreedyState<D>) -> Result<D::Buffer<f32>> {
        let mut field = device.alloc::<f32>(3 * state.dims.iter().product::<usize>())?;
        device.copy(&state.field, &mut field)?;
        Ok(field)
    }

    fn takes_shifts(&self) -> bool {
        true
    }

    fn precede(&mut self, device: &D, shift: &Shift<D>, state: &mut GreedyState<D>) -> Result<()> {
        let mut out = device.alloc::<f32>(3 * state.dims.iter().product::<usize>())?;
        let step = Step { scale: [1.0; 3], limit: None };
        device.advance(&state.field, &shift.there, &step, state.dims, &mut out)?;
        state.field = out;
        Ok(())
    }
}
