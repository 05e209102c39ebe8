//! What a deformation model needs for several subjects beyond what it needs for a pair.

use super::Model;
use crate::attachment::images::Moved;
use crate::error::Result;
use voxalign_compute::{Device, Memory};
use voxalign_image::{Affine, Grid};

/// The device buffers of a subject from one step to the next.
pub struct Buffers<'s, D: Device> {
    /// Buffers that steps change.
    pub changing: Vec<&'s mut D::Buffer<f32>>,
    /// Buffers that steps only read: the moving images at the current scale.
    pub fixed: Vec<&'s mut D::Buffer<f32>>,
}

/// A displacement of the template's grid with its inverse, voxels.
pub struct Shift<D: Device> {
    /// From points of the template that will be to those of the one that is.
    pub there: D::Buffer<f32>,
    /// And back.
    pub back: D::Buffer<f32>,
}

/// Work with the displacement of a subject and its images.
pub type Lent<'w, D> = dyn FnMut(&<D as Memory>::Buffer<f32>, &[Moved<D>]) -> Result<()> + 'w;

/// A model of several subjects, with what they share.
///
/// A subject can be taken off the device between two calls: all that it has there are its
/// [buffers](Self::buffers), which may be empty meanwhile, and what else it keeps are
/// [numbers](Self::numbers).
pub trait CohortModel<D: Device>: Model<D> {
    /// A subject of several that starts, and the map from the world of the template to that of its images.
    ///
    /// # Errors
    /// Memory that runs out.
    fn begin_among(&mut self, device: &D, affine: &Affine) -> Result<Self::State>;

    /// The lengths of the [buffers](Self::buffers) of a subject that steps change on a grid, but for those of points.
    fn changing_lengths(&self, grid: &Grid) -> Vec<usize>;

    /// Bytes that a subject keeps on the device at the finest scale, of a template on a grid and images of `images` voxels in
    /// all.
    fn bytes_each(&self, grid: &Grid, images: u64) -> u64 {
        4 * (self.changing_lengths(grid).iter().sum::<usize>() as u64 + images)
    }

    /// Bytes that the subjects share at the finest scale, for a template of `template` voxels, roughly, in addition
    /// to those of [attachments](crate::attachment::Attachment::bytes).
    fn bytes_shared(&self, template: u64, channels: u64) -> u64;

    /// Why voxels of a subject cannot be left out by a mask, with what helps, where they cannot.
    fn refuses_masks(&self) -> Option<&'static str> {
        None
    }

    /// The device buffers of a subject; always the same ones in the same order at a scale.
    fn buffers<'s>(&self, state: &'s mut Self::State) -> Buffers<'s, D>;

    /// The state of a subject apart from its buffers; waits for its last step.
    ///
    /// # Errors
    /// What failed on the device.
    fn numbers(&self, state: &mut Self::State) -> Result<Vec<f64>> {
        let _ = state;
        Ok(Vec::new())
    }

    /// Gives a subject at the current scale the [numbers](Self::numbers) that it had before, and room for the
    /// buffers that belong to them.
    ///
    /// # Errors
    /// Memory that runs out.
    fn set_numbers(&self, device: &D, state: &mut Self::State, numbers: &[f64]) -> Result<()> {
        let _ = (device, state, numbers);
        Ok(())
    }

    /// Whether [`step`](Model::step) needs to be given where the subject is.
    fn needs_warped(&self) -> bool {
        false
    }

    /// Is told that points which pull a subject have moved by themselves, as those of a template do: what was found of
    /// where they were is looked at anew by the next step.
    fn points_moved(&mut self, state: &mut Self::State) {
        let _ = state;
    }

    /// Lends the displacement of a subject, voxels of the grid of the scale: points of the template, before the affine map.
    /// With it go the images of the subject at the scale.
    ///
    /// # Errors
    /// Memory that runs out; what the work returns.
    fn lend_displacement(
        &mut self,
        device: &D,
        state: &mut Self::State,
        work: &mut Lent<'_, D>,
    ) -> Result<()>;

    /// The images of a subject on the grid of the template, where they are now.
    ///
    /// # Errors
    /// What fails on the device.
    fn warp(
        &mut self,
        device: &D,
        state: &mut Self::State,
        grid: &Grid,
        out: &mut [D::Buffer<f32>],
    ) -> Result<()> {
        self.lend_displacement(device, state, &mut |field, images| {
            let mut all = images.iter().zip(&mut *out);
            all.try_for_each(|(image, out)| image.warp_to(device, field, grid.dims(), out))
        })
    }

    /// Whether a displacement can go [in front](Self::precede) of that of a subject before the end.
    fn takes_shifts(&self) -> bool {
        false
    }

    /// Lets a displacement of the template's grid go in front of that of a subject, where the model
    /// [can](Self::takes_shifts).
    ///
    /// # Errors
    /// What fails on the device.
    fn precede(&mut self, device: &D, shift: &Shift<D>, state: &mut Self::State) -> Result<()> {
        let _ = (device, shift, state);
        Ok(())
    }
}

/// Work with a model of several subjects, of some kind.
pub trait UseCohortModel<D: Device> {
    /// The result.
    type Out;

    /// Does it; `make` makes models on a grid.
    fn with<M: CohortModel<D>>(self, make: impl Fn(&Grid) -> M + Sync) -> Self::Out;
}
