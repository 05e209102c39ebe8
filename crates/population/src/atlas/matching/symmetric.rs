//! Image and template both flow to a middle.

use super::{Matching, Template};
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid};
use voxalign_register::diffeo::DeformOptions;
use voxalign_register::diffeo::channel::{ChannelSimilarity, DeviceImage, Moved, PendingEnergy};
use voxalign_register::diffeo::multiscale::{Deformation, Iteration, Scale};
use voxalign_register::diffeo::symmetric::{self, Middle};

/// Symmetric steps. What a step needs is made for each subject at each scale, as every middle has a
/// grid of its own.
pub struct Symmetric<D: Device> {
    options: DeformOptions,
    metrics: Vec<ChannelSimilarity>,
    whole: Grid,
    scale: Scale,
    grid: Grid,
    _device: std::marker::PhantomData<fn(D)>,
}

/// A subject with its middle.
pub struct SymmetricState<D: Device> {
    middle: Middle<D>,
    steps: symmetric::Symmetric<D>,
    affine: Affine,
    /// The inverse of the template's displacement to the middle.
    undone: D::Buffer<f32>,
}

impl<D: Device> Symmetric<D> {
    /// On the grid of an atlas, with a similarity for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>, grid: &Grid) -> Self {
        let scale = Scale { factor: 1, iterations: 0 };
        let (whole, grid) = (grid.clone(), grid.clone());
        Self { options, metrics, whole, scale, grid, _device: std::marker::PhantomData }
    }
}

impl<D: Device> Matching<D> for Symmetric<D> {
    type State = SymmetricState<D>;

    fn takes_masks(&self) -> bool {
        false
    }

    fn begin(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        affine: Affine,
    ) -> Result<SymmetricState<D>> {
        // The template is exchanged at every step; here its place counts.
        let blank = |_: &DeviceImage<D>| -> Result<DeviceImage<D>> {
            let (grid, values) = (self.whole.clone(), device.alloc(self.whole.len())?);
            Ok(DeviceImage { grid, values, outside: 0.0, open: false })
        };
        let blanks = images.iter().map(blank).collect::<Result<Vec<_>>>()?;
        let middle = Middle::new(device.clone(), blanks, images, None, &affine)?;
        let steps = symmetric::Symmetric::new(self.options.clone(), self.metrics.clone());
        Ok(SymmetricState { middle, steps, affine, undone: device.alloc(0)? })
    }

    fn to_scale(&mut self, _: &D, scale: &Scale, grid: &Grid) -> Result<()> {
        self.scale = *scale;
        self.grid = grid.clone();
        Ok(())
    }

    fn refine(&mut self, device: &D, state: &mut SymmetricState<D>) -> Result<()> {
        state.middle.to_scale(&self.scale)?;
        state.steps.to_scale(&state.middle, &self.scale)?;
        state.undone = device.alloc(0)?;
        Ok(())
    }

    fn step(
        &mut self,
        device: &D,
        template: &Template<D>,
        _: &[D::Buffer<f32>],
        _: Option<&D::Buffer<f32>>,
        state: &mut SymmetricState<D>,
    ) -> Result<PendingEnergy<D>> {
        let mut images = Vec::with_capacity(template.channels.len());
        for channel in &template.channels {
            let mut values = device.alloc::<f32>(template.grid.len())?;
            device.copy(channel, &mut values)?;
            let grid = template.grid.clone();
            images.push(DeviceImage { grid, values, outside: 0.0, open: false });
        }
        state.middle.set_fixed(images.into_iter())?;
        Ok(PendingEnergy::known(state.steps.iterate(&mut state.middle)?))
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
}
