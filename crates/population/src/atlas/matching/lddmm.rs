//! The image flows to the template along a path that is optimised as a whole.

use super::{Buffers, Matching, Template};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid};
use voxalign_register::diffeo::DeformOptions;
use voxalign_register::diffeo::channel::{ChannelSimilarity, DeviceImage};
use voxalign_register::diffeo::lddmm::{self, Pace, Path, Storage};
use voxalign_register::diffeo::multiscale::{Deformation, Iteration, Scale};
use voxalign_register::similarity::PendingEnergy;

/// Steps of gradient descent in the velocities of paths. The subjects share what a step needs; of
/// iterative solvers each call starts from nothing.
pub struct Lddmm<D: Device> {
    steps: lddmm::Lddmm<D>,
    time_steps: usize,
    grid: Grid,
    scale: Scale,
    is_ready: bool,
}

/// A subject with its path.
pub struct LddmmState<D: Device> {
    path: Path<D>,
    pace: Pace,
}

impl<D: Device> Lddmm<D> {
    /// On the grid of an atlas, with a similarity for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>, grid: &Grid) -> Self {
        let time_steps = options.time_steps;
        let scale = Scale { factor: 1, iterations: 0 };
        let steps = lddmm::Lddmm::new(options, metrics);
        Self { steps, time_steps, grid: grid.clone(), scale, is_ready: false }
    }
}

impl<D: Device> Matching<D> for Lddmm<D> {
    type State = LddmmState<D>;

    fn fields_each(&self) -> usize {
        self.time_steps
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        let velocities = 12 * template * self.time_steps as u64;
        let all = Storage::Full.bytes(template, self.time_steps as u64, channels);
        all - velocities + 4 * template * 6 * channels
    }

    fn begin(&mut self, device: &D, affine: Affine) -> Result<LddmmState<D>> {
        let (device, grid, none) = (device.clone(), self.grid.clone(), Vec::new);
        let path = Path::new(device, none(), none(), None, grid, affine, self.time_steps);
        // What does not fit leaves the device as it is, so that memory does not change a result.
        Ok(LddmmState { path: path.with_storage(Storage::Full), pace: Pace::default() })
    }

    fn to_scale(&mut self, _: &D, scale: &Scale, _: &Grid) -> Result<()> {
        self.scale = *scale;
        self.is_ready = false;
        Ok(())
    }

    fn refine(
        &mut self,
        _: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut LddmmState<D>,
    ) -> Result<()> {
        state.path.set_moving(images);
        state.path.to_scale(&self.scale)?;
        state.path.set_moving(Vec::new());
        state.pace = Pace::default();
        if !self.is_ready {
            self.steps.to_scale(&state.path, &self.scale)?;
            self.is_ready = true;
        }
        Ok(())
    }

    fn buffers<'s>(&self, state: &'s mut LddmmState<D>) -> Buffers<'s, D> {
        state.path.buffers()
    }

    fn numbers(&self, state: &LddmmState<D>) -> Vec<f64> {
        let Pace { rate, last_energy } = state.pace;
        std::iter::once(last_energy).chain(rate).collect()
    }

    fn set_numbers(&self, _: &D, state: &mut LddmmState<D>, numbers: &[f64]) -> Result<()> {
        if let Some(&last_energy) = numbers.first() {
            state.pace = Pace { rate: numbers.get(1).copied(), last_energy };
        }
        Ok(())
    }

    fn step(
        &mut self,
        _: &D,
        template: &Template<D>,
        _: &[D::Buffer<f32>],
        weights: Option<&D::Buffer<f32>>,
        state: &mut LddmmState<D>,
    ) -> Result<PendingEnergy> {
        state.path.set_weights(weights)?;
        state.path.set_references(template.channels.iter())?;
        let energy = self.steps.step(&mut state.path, &mut state.pace)?;
        state.path.clear_references();
        Ok(PendingEnergy::known(energy))
    }

    fn warp(
        &mut self,
        device: &D,
        state: &mut LddmmState<D>,
        out: &mut [D::Buffer<f32>],
    ) -> Result<()> {
        let (field, dims) = (state.path.displacement()?, state.path.dims());
        for (moved, out) in state.path.moved().iter().zip(out) {
            moved.warp_to(device, &field, dims, out)?;
        }
        Ok(())
    }

    fn displacement(&mut self, _: &D, state: &mut LddmmState<D>) -> Result<D::Buffer<f32>> {
        Ok(state.path.displacement()?)
    }
}
