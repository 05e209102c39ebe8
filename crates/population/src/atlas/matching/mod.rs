//! How an image is matched to the template, step by step: one file a model of deformation.
//!
//! A registration of a pair runs to its end before the next one begins. Here all images make one step,
//! the template is averaged anew, and so on (Algorithm 5 of Ha 2011): what a registration keeps from
//! one step to the next is a *state* for each subject, and what it needs during a step alone is shared
//! by all (section 2.3.9).

mod greedy;
mod lddmm;
mod symmetric;

use crate::error::Result;
use voxalign_compute::{Device, Dims};
use voxalign_image::{Affine, Grid};
use voxalign_register::diffeo::channel::{DeviceImage, Moved, PendingEnergy};
use voxalign_register::diffeo::multiscale::Scale;

pub use greedy::Greedy;
pub use lddmm::Lddmm;
pub use symmetric::Symmetric;

/// The template at a scale.
pub struct Template<D: Device> {
    /// Its grid.
    pub grid: Grid,
    /// Its values, one image a channel.
    pub channels: Vec<D::Buffer<f32>>,
}

/// A model of deformation, with what the subjects share.
pub trait Matching<D: Device>: Send {
    /// What a subject keeps.
    type State: Send;

    /// Whether voxels of a subject can be left out by a mask.
    fn takes_masks(&self) -> bool {
        true
    }

    /// A subject that starts: its calibrated images at full resolution, and the map from the world of
    /// the atlas to theirs.
    ///
    /// # Errors
    /// Maps that the model cannot use; memory that runs out.
    fn begin(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        affine: Affine,
    ) -> Result<Self::State>;

    /// Makes room for a scale, of which `grid` is the grid.
    ///
    /// # Errors
    /// Memory that runs out.
    fn to_scale(&mut self, device: &D, scale: &Scale, grid: &Grid) -> Result<()>;

    /// Brings a subject to the scale that the model was brought to.
    ///
    /// # Errors
    /// Memory that runs out.
    fn refine(&mut self, device: &D, state: &mut Self::State) -> Result<()>;

    /// Makes one step of a subject towards the template. `warped` is where the subject is, from
    /// [`warp`](Self::warp), and `weights` what its voxels count there. The energy before the step.
    ///
    /// # Errors
    /// What fails on the device.
    fn step(
        &mut self,
        device: &D,
        template: &Template<D>,
        warped: &[D::Buffer<f32>],
        weights: Option<&D::Buffer<f32>>,
        state: &mut Self::State,
    ) -> Result<PendingEnergy<D>>;

    /// The images of a subject on the grid of the template, where they are now.
    ///
    /// # Errors
    /// What fails on the device.
    fn warp(
        &mut self,
        device: &D,
        state: &mut Self::State,
        out: &mut [D::Buffer<f32>],
    ) -> Result<()>;

    /// Another image of a subject on the grid of the template, of sizes `dims`.
    ///
    /// # Errors
    /// What fails on the device.
    fn warp_along(
        &mut self,
        device: &D,
        state: &mut Self::State,
        image: &Moved<D>,
        dims: Dims,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let field = self.displacement(device, state)?;
        Ok(image.warp_to(device, &field, dims, out)?)
    }

    /// The displacement of a subject, voxels of the grid of the scale: points of the template, before
    /// the affine map.
    ///
    /// # Errors
    /// Memory that runs out.
    fn displacement(&mut self, device: &D, state: &mut Self::State) -> Result<D::Buffer<f32>>;

    /// Whether a displacement can go [in front](Self::precede) of that of a subject before the end.
    fn takes_shifts(&self) -> bool {
        false
    }

    /// Lets a displacement of the template's grid go in front of that of a subject, where the model
    /// [can](Self::takes_shifts).
    ///
    /// # Errors
    /// What fails on the device.
    fn precede(
        &mut self,
        _device: &D,
        _shift: &D::Buffer<f32>,
        _state: &mut Self::State,
    ) -> Result<()> {
        Ok(())
    }
}
