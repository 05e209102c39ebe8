//! What a step is given: what pulls, and at what.

use super::Attachments;
use crate::attachment::Attachment;
use crate::attachment::images::DeviceImage;
use crate::attachment::moving_mask::MovingMask;
use crate::error::{RegisterError, Result};
use crate::similarity::Images;
use std::ops::Range;
use voxalign_compute::{Device, Dims};
use voxalign_image::Grid;

/// The data terms, which has been brought [to the scale](Attachment::to_scale).
pub struct Sources<'a, D: Device> {
    /// The data terms all subjects of a device.
    pub shared: &'a mut Attachments<D>,
    /// The data terms this one alone.
    pub own: &'a mut Attachments<D>,
    /// What the energy of points is multiplied by: the part of the voxels that images are looked at in which the
    /// object has.
    pub share: f64,
}

impl<'a, D: Device> Sources<'a, D> {
    /// All of them, in the same order at each step.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Box<dyn Attachment<D>>> {
        self.shared.iter_mut().chain(self.own.iter_mut())
    }
}

/// The data terms a subject at a step, and at what.
pub struct Pull<'a, D: Device> {
    /// The data terms.
    pub sources: Sources<'a, D>,
    /// The images that the subject is compared with, one a channel: for a pair they stay, of an atlas they are the
    /// template of the moment.
    pub fixed: &'a [FixedImage<'a, D>],
    /// Where the subject's images are, from [`warp`](super::Model::warp), for a model that
    /// [needs](super::Model::needs_warped) to be told.
    pub warped: &'a [D::Buffer<f32>],
    /// What voxels count.
    pub counts: Counts<'a, D>,
}

/// The images of the channels that an attachment looks at.
///
/// # Errors
/// Channels that there are not.
pub(super) fn of_channels<'i, 'a, D: Device>(
    images: &'i [Images<'a, D>],
    channels: &Range<usize>,
) -> Result<&'i [Images<'a, D>]> {
    images.get(channels.clone()).ok_or_else(|| {
        RegisterError::option(
            "channel",
            channels.end.saturating_sub(1),
            format!("there are {}, counted from 0", images.len()),
        )
    })
}

/// An image that a subject is compared with, at the scale at hand.
pub struct FixedImage<'a, D: Device> {
    /// Its grid: that of the model, but for models that bring both images [elsewhere](super::Model::samples).
    pub grid: &'a Grid,
    /// Its values.
    pub values: &'a D::Buffer<f32>,
    /// The value outside of its grid.
    pub outside: f32,
    /// Whether what is beyond its grid is unknown.
    pub open: bool,
}

impl<D: Device> Clone for FixedImage<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for FixedImage<'_, D> {}

impl<'a, D: Device> From<&'a DeviceImage<D>> for FixedImage<'a, D> {
    fn from(image: &'a DeviceImage<D>) -> Self {
        let DeviceImage { grid, values, outside, open } = image;
        Self { grid, values, outside: *outside, open: *open }
    }
}

/// What voxels of the grid count at a step.
pub struct Counts<'a, D: Device> {
    /// What they count wherever the subject is; 1 where there is none.
    pub given: Option<&'a D::Buffer<f32>>,
    /// What counts of the moving images, which flows with them.
    pub moving: Option<&'a MovingMask<D>>,
}

impl<D: Device> Clone for Counts<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Counts<'_, D> {}

impl<D: Device> Counts<'_, D> {
    /// Everything counts.
    pub const ALL: Self = Self { given: None, moving: None };

    /// Does something with what voxels count where the moving images are displaced by `field`.
    ///
    /// # Errors
    /// What fails on the device; what the work returns.
    pub fn under<R>(
        &self,
        device: &D,
        field: &D::Buffer<f32>,
        dims: Dims,
        work: impl FnOnce(Option<&D::Buffer<f32>>) -> Result<R>,
    ) -> Result<R> {
        match self.moving {
            None => work(self.given),
            Some(mask) => work(mask.weights(device, field, dims, self.given)?.as_ref()),
        }
    }
}
