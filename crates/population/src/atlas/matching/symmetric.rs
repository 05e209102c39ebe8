//! Image and template both flow to a middle.

use super::greedy::{has_memory, kept};
use super::{Buffers, Matching, Shift, Template};
use crate::error::Result;
use voxalign_compute::{Device, IDENTITY};
use voxalign_image::{Affine, Grid};
use voxalign_register::diffeo::DeformOptions;
use voxalign_register::diffeo::channel::{ChannelSimilarity, DeviceImage, Moved};
use voxalign_register::diffeo::multiscale::{Deformation, Iteration, Scale};
use voxalign_register::diffeo::side::Kept;
use voxalign_register::diffeo::symmetric::{self, Middle};
use voxalign_register::similarity::PendingEnergy;

/// Symmetric steps. All middles have one grid, that of the template: an affine map goes to the side of
/// the subject as a whole. So the subjects share what a step needs.
pub struct Symmetric<D: Device> {
    options: DeformOptions,
    steps: symmetric::Symmetric<D>,
    whole: Grid,
    scale: Scale,
    grid: Grid,
    is_ready: bool,
}

/// A subject with its middle.
pub struct SymmetricState<D: Device> {
    middle: Middle<D>,
    affine: Affine,
    /// The inverse of the template's displacement to the middle.
    undone: D::Buffer<f32>,
    /// What iterative solvers and adaptive steps start from.
    kept: [Option<Kept<D>>; 2],
}

impl<D: Device> Symmetric<D> {
    /// On the grid of an atlas, with a similarity for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>, grid: &Grid) -> Self {
        let scale = Scale { factor: 1, iterations: 0 };
        let (whole, grid) = (grid.clone(), grid.clone());
        let steps = symmetric::Symmetric::new(options.clone(), metrics);
        Self { options, steps, whole, scale, grid, is_ready: false }
    }
}

impl<D: Device> Matching<D> for Symmetric<D> {
    type State = SymmetricState<D>;

    fn takes_masks(&self) -> bool {
        false
    }

    fn fields_each(&self) -> usize {
        3 + 2 * usize::from(has_memory(&self.options))
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        // As for greedy steps, twice; and both sides' scratch.
        4 * template * (46 + 12 * channels)
    }

    fn begin(&mut self, device: &D, affine: Affine) -> Result<SymmetricState<D>> {
        let middle = Middle::on_fixed_grid(device.clone(), &self.whole, &affine)?;
        Ok(SymmetricState { middle, affine, undone: device.alloc(0)?, kept: [None, None] })
    }

    fn to_scale(&mut self, _: &D, scale: &Scale, grid: &Grid) -> Result<()> {
        self.scale = *scale;
        self.grid = grid.clone();
        self.is_ready = false;
        Ok(())
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut SymmetricState<D>,
    ) -> Result<()> {
        state.middle.set_moving(images);
        state.middle.to_scale(&self.scale)?;
        state.middle.set_moving(Vec::new());
        if !self.is_ready {
            self.steps.to_scale(&state.middle, &self.scale)?;
            self.is_ready = true;
        }
        state.middle.clear_scratch()?;
        // Inversions begin at nothing, and from then on at what the last one found.
        state.undone = device.alloc(3 * self.grid.len())?;
        state.kept = [None, None];
        Ok(())
    }

    fn buffers<'s>(&self, state: &'s mut SymmetricState<D>) -> Buffers<'s, D> {
        let mut all = state.middle.buffers();
        all.changing.push(&mut state.undone);
        all.changing.extend(state.kept.iter_mut().flatten().map(|k| &mut k.velocity));
        all
    }

    fn numbers(&self, state: &SymmetricState<D>) -> Vec<f64> {
        state.kept.iter().flatten().flat_map(|k| [k.step, k.last_energy]).collect()
    }

    fn set_numbers(
        &self,
        device: &D,
        state: &mut SymmetricState<D>,
        numbers: &[f64],
    ) -> Result<()> {
        let mut pairs = numbers.chunks(2);
        for place in &mut state.kept {
            *place = kept(device, self.grid.dims(), pairs.next().unwrap_or_default())?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        device: &D,
        template: &Template<D>,
        _: &[D::Buffer<f32>],
        _: Option<&D::Buffer<f32>>,
        state: &mut SymmetricState<D>,
    ) -> Result<PendingEnergy> {
        let mut images = Vec::with_capacity(template.channels.len());
        for channel in &template.channels {
            let mut values = device.alloc::<f32>(template.grid.len())?;
            device.copy(channel, &mut values)?;
            let grid = template.grid.clone();
            images.push(DeviceImage { grid, values, outside: 0.0, open: false });
        }
        state.middle.make_scratch()?;
        state.middle.set_fixed(images.into_iter())?;
        state.middle.look_at_moving()?;
        let memory = has_memory(&self.options);
        let energy = self.steps.step(&mut state.middle, &mut state.kept, memory)?;
        state.middle.clear_scratch()?;
        Ok(PendingEnergy::known(energy))
    }

    fn warp(
        &mut self,
        device: &D,
        state: &mut SymmetricState<D>,
        out: &mut [D::Buffer<f32>],
    ) -> Result<()> {
        let field = state.middle.displacement(&self.grid, &mut state.undone)?;
        for (moved, out) in state.middle.moving().iter().zip(out) {
            let map = Moved::<D>::map_of(&self.grid, &state.affine, &moved.image.grid);
            moved.warp_along(device, &map, &field, self.grid.dims(), out)?;
        }
        Ok(())
    }

    fn displacement(&mut self, _: &D, state: &mut SymmetricState<D>) -> Result<D::Buffer<f32>> {
        Ok(state.middle.displacement(&self.grid, &mut state.undone)?)
    }

    fn takes_shifts(&self) -> bool {
        true
    }

    fn precede(
        &mut self,
        device: &D,
        shift: &Shift<D>,
        state: &mut SymmetricState<D>,
    ) -> Result<()> {
        // A point of the middle shows the template where it did, which has another name now.
        let dims = self.grid.dims();
        let mut out = device.alloc::<f32>(3 * self.grid.len())?;
        let mut all = state.middle.buffers();
        let Some(to_template) = all.changing.first_mut() else { return Ok(()) };
        device.compose_fields(&shift.back, dims, &IDENTITY, to_template, dims, &mut out)?;
        std::mem::swap(*to_template, &mut out);
        Ok(())
    }
}
