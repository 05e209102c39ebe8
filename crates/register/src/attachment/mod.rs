//! What pulls: one file a kind.
//!
//! A registration is pulled by a list of [`Attachment`]s. Each says what it [needs](Needs) of the maps, is shown
//! that [at every step](Maps), and answers with its energy and its [derivative](Gradient): slopes at the samples
//! of images, or covectors at points. What that does to fields is the [model](crate::model)'s: it knows no kind.
//!
//! | kind | what pulls |
//! |---|---|
//! | [`ChannelSimilarity`] | images of a channel, by a similarity with a weight |
//! | [`Landmarks`] | corresponding points |
//! | [`Shapes`] | surfaces, curves and points without correspondence, as currents or varifolds |
//!
//! # Units
//!
//! Energies of all attachments are added as they are; each has a weight of its own. The energy of images is that
//! of its [similarity](mod@crate::similarity), of calibrated intensities and without a unit; that of points is in
//! mm², so that their weight is one over mm². What a model makes of both is one force: at every voxel of its grid the
//! derivative of the energy in the displacement of that voxel alone, by its smallest spacing, along the axes of
//! the grid. For images that is slope times gradient; a covector at a point is shared out among the voxels
//! around it, by the adjoint of linear interpolation.
//!
//! Beside the kinds, [`images`] brings images to a scale, and [`moving_mask`] says what of them counts.

mod channel;
pub mod currents;
pub mod images;
mod landmarks;
pub mod moving_mask;

use crate::error::Result;
use crate::multiscale::Scale;
use crate::similarity::{Images, PendingEnergy};
use std::ops::Range;
use voxalign_compute::Device;
use voxalign_image::{Grid, Vector3};

pub use channel::ChannelSimilarity;
pub use currents::Shapes;
pub use landmarks::Landmarks;

/// What pulls.
pub trait Attachment<D: Device>: Send {
    /// What it wants of the maps; the same at all steps of a scale.
    fn needs(&self) -> Needs<'_>;

    /// Goes to a scale, of which `grid` is the grid: its spacing, with the factor of the scale, is what a kernel
    /// takes its width from.
    ///
    /// # Errors
    /// What fails on the device.
    fn to_scale(&mut self, device: &D, scale: &Scale, grid: &Grid) -> Result<()> {
        let _ = (device, scale, grid);
        Ok(())
    }

    /// Its energy where the maps are, times its weight; writes all of its derivative to `out`. Waits for nothing
    /// that it need not wait for.
    ///
    /// # Errors
    /// What fails on the device.
    fn evaluate(
        &mut self,
        device: &D,
        at: &Maps<'_, D>,
        out: &mut Gradient<'_, D>,
    ) -> Result<PendingEnergy>;

    /// Bytes of the device that it takes at a scale with this grid, roughly, beside what the model
    /// keeps for it: slopes, images where they are, and the few numbers of points.
    fn bytes(&self, grid: &Grid) -> u64;
}

/// The attachments of a registration. The subjects of an atlas that share a device share them.
pub type Attachments<D> = Vec<Box<dyn Attachment<D>>>;

/// What an attachment wants of the maps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs<'a> {
    /// The channels whose images it looks at, where the map brings them.
    pub channels: Range<usize>,
    /// Points of the fixed world, mm, that the map pushes to the moving one.
    pub fixed_points: &'a [Vector3<f64>],
    /// Points of the moving world, mm, that the inverse pushes to the fixed one. Only models that treat both
    /// sides alike do so.
    pub moving_points: &'a [Vector3<f64>],
}

/// What an attachment [needs](Needs), where the maps have brought it.
pub struct Maps<'a, D: Device> {
    /// For each channel the images, on the grid of the model.
    pub images: &'a [Images<'a, D>],
    /// Where the fixed points are in the moving world, mm.
    pub fixed_points: &'a [Vector3<f64>],
    /// Where the moving points are in the fixed world, mm, by a model that treats both sides alike; else none. The
    /// energy is the mean of both ways then.
    pub moving_points: &'a [Vector3<f64>],
}

/// The derivative of an energy.
pub struct Gradient<'a, D: Device> {
    /// For each channel that was needed, the derivative in the values of the moved image.
    pub slopes: &'a mut [D::Buffer<f32>],
    /// The same in those of its reference, where that [moves](Images::reference_moves); else none.
    pub reference_slopes: &'a mut [D::Buffer<f32>],
    /// For each fixed point the derivative in where it [is](Maps::fixed_points), by mm along the axes of the
    /// moving world; zero before.
    pub fixed_covectors: &'a mut [Vector3<f64>],
    /// The same of the moving points, along the axes of the fixed world.
    pub moving_covectors: &'a mut [Vector3<f64>],
}
