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
pub use voxalign_register::diffeo::channel::Buffers;
use voxalign_register::diffeo::channel::{DeviceImage, Moved};
use voxalign_register::diffeo::multiscale::Scale;
use voxalign_register::similarity::PendingEnergy;

pub use greedy::Greedy;
pub use lddmm::Lddmm;
pub use symmetric::Symmetric;

/// Evaluates an expression with what makes the model of some options bound to a name; it is compiled for
/// each model.
macro_rules! on_model {
    ($options:expr, $metrics:expr, $grid:expr, |$make:ident| $body:expr) => {{
        use voxalign_register::diffeo::DeformModel;
        use $crate::atlas::matching::{Greedy, Lddmm, Symmetric};
        let (options, metrics, grid) = ($options, &$metrics, $grid);
        match options.model {
            DeformModel::Greedy => {
                let $make = || Greedy::new(options.clone(), metrics.clone(), grid);
                $body
            }
            DeformModel::Lddmm => {
                let $make = || Lddmm::new(options.clone(), metrics.clone(), grid);
                $body
            }
            DeformModel::Symmetric => {
                let $make = || Symmetric::new(options.clone(), metrics.clone(), grid);
                $body
            }
        }
    }};
}
pub(super) use on_model;

/// The template at a scale.
pub struct Template<D: Device> {
    /// Its grid.
    pub grid: Grid,
    /// Its values, one image a channel.
    pub channels: Vec<D::Buffer<f32>>,
}

/// A model of deformation, with what the subjects share.
///
/// A subject can be taken off the device between two calls: all that it has there are its
/// [buffers](Self::buffers), which may be empty meanwhile, and what else it keeps are
/// [numbers](Self::numbers).
pub trait Matching<D: Device>: Send {
    /// What a subject keeps.
    type State: Send;

    /// Whether voxels of a subject can be left out by a mask.
    fn takes_masks(&self) -> bool {
        true
    }

    /// How many fields that steps change a subject keeps, each of three numbers a voxel of the template.
    fn fields_each(&self) -> usize;

    /// Bytes that a subject keeps on the device at the finest scale, of a template of `template` voxels
    /// and images of `images` voxels in all.
    fn bytes_each(&self, template: u64, images: u64) -> u64 {
        4 * (3 * template * self.fields_each() as u64 + images)
    }

    /// Bytes that the subjects share at the finest scale, roughly.
    fn bytes_shared(&self, template: u64, channels: u64) -> u64;

    /// A subject that starts, and the map from the world of the atlas to that of its images.
    ///
    /// # Errors
    /// Memory that runs out.
    fn begin(&mut self, device: &D, affine: Affine) -> Result<Self::State>;

    /// Makes room for a scale, of which `grid` is the grid.
    ///
    /// # Errors
    /// Memory that runs out.
    fn to_scale(&mut self, device: &D, scale: &Scale, grid: &Grid) -> Result<()>;

    /// Brings a subject to the scale that the model was brought to, with its images there.
    ///
    /// # Errors
    /// Memory that runs out.
    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut Self::State,
    ) -> Result<()>;

    /// What a subject keeps on the device; always the same buffers in the same order at a scale.
    fn buffers<'s>(&self, state: &'s mut Self::State) -> Buffers<'s, D>;

    /// What a subject keeps beside its buffers.
    fn numbers(&self, state: &Self::State) -> Vec<f64> {
        let _ = state;
        Vec::new()
    }

    /// Gives a subject at the scale at hand the [numbers](Self::numbers) that it had before, and room for
    /// the buffers that belong to them.
    ///
    /// # Errors
    /// Memory that runs out.
    fn set_numbers(&self, device: &D, state: &mut Self::State, numbers: &[f64]) -> Result<()> {
        let _ = (device, state, numbers);
        Ok(())
    }

    /// Whether [`step`](Self::step) needs to be given where the subject is.
    fn needs_warped(&self) -> bool {
        false
    }

    /// Makes one step of a subject towards the template. `warped` is where the subject is, from
    /// [`warp`](Self::warp), where that is [needed](Self::needs_warped), and `weights` what its voxels count
    /// there. The energy before the step.
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
    ) -> Result<PendingEnergy>;

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
    fn precede(&mut self, _device: &D, _shift: &Shift<D>, _state: &mut Self::State) -> Result<()> {
        Ok(())
    }
}

/// A displacement of the template's grid with its inverse, voxels.
pub struct Shift<D: Device> {
    /// From points of the template that will be to those of the one that is.
    pub there: D::Buffer<f32>,
    /// And back.
    pub back: D::Buffer<f32>,
}
