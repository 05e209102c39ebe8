//! Data terms: what drives a deformation, one file for each kind.
//!
//! A registration is pulled by a list of [`Attachment`]s. Each says what it [needs](Needs) of the maps, is shown
//! that [at every step](Maps), and answers with its energy and its [derivative](Gradient): derivatives at the samples
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
//! Each attachment has a weight of its own. The energy of images is that of its [similarity](mod@crate::similarity), of calibrated
//! intensities and without a unit: a mean over the voxels that are looked at, many of which may be air. That of landmarks is in
//! mm², so that their weight is one over mm². All go down one total energy, in which those of points are multiplied by the
//! [share](crate::model::Sources::share) of the object in these voxels: so a weight is against the mean over the object, and air
//! around the images changes nothing.
//!
//! What a model makes of all is one force: at every voxel of its grid the
//! derivative of the energy in the displacement of that voxel alone, by its smallest spacing, along the axes of
//! the grid. For images that is derivative times gradient; a covector at a point is shared out among the voxels
//! around it, by the adjoint of linear interpolation.
//!
//! Beside the kinds, [`images`] brings images to a scale, and [`moving_mask`] says what of them counts.
//!
//! # One of your own
//!
//! ```
//! # use voxalign_register::attachment::{Attachment, Gradient, Maps, Needs, Places, middle};
//! # use voxalign_register::multiscale::Scale;
//! # use voxalign_register::similarity::PendingEnergy;
//! # use voxalign_compute::{Memory, ops::*};
//! use voxalign_compute::Device;
//! use voxalign_compute::ops::elementwise::{param, x};
//! use voxalign_compute::ops::reduce::Reduction;
//! use voxalign_image::{Grid, Vector3};
//!
//! /// Brings points of the fixed world to one place of the moving one: `w Σ |xᵢ − c|² / n`, mm².
//! pub struct Gather<D: Device> {
//!     /// The points, mm; at least one.
//!     pub points: Vec<Vector3<f64>>,
//!     /// Where they belong, mm.
//!     pub place: Vector3<f64>,
//!     /// The factor of the energy, 1/mm².
//!     pub weight: f64,
//!     /// What is on the device at the scale at hand.
//!     places: Option<[Places<D>; 2]>,
//! }
//!
//! impl<D: Device> Gather<D> {
//!     /// The second derivative of the energy in each point, 1/mm².
//!     fn stiffness(&self) -> f32 {
//!         (2.0 * self.weight / self.points.len() as f64) as f32
//!     }
//! }
//!
//! impl<D: Device> Attachment<D> for Gather<D> {
//!     fn needs(&self) -> Needs<'_, D> {
//!         Needs { channels: 0..0, places: self.places.as_ref().map(|p| p.each_ref()) }
//!     }
//!
//!     fn to_scale(&mut self, device: &D, _: &Scale, _: &Grid, _: usize) -> voxalign_register::Result<()> {
//!         let stiffness = vec![self.stiffness(); self.points.len()];
//!         let fixed = Places::new(device, &self.points, middle(&self.points), stiffness)?;
//!         // No points of the moving world; carried points count from the place.
//!         let moving = Places::new(device, &[], self.place, Vec::new())?;
//!         self.places = Some([fixed, moving]);
//!         Ok(())
//!     }
//!
//!     fn evaluate(
//!         &mut self,
//!         device: &D,
//!         at: &Maps<'_, D>,
//!         out: &mut Gradient<'_, D>,
//!     ) -> voxalign_register::Result<PendingEnergy> {
//!         let Some(off) = at.carried[0] else { return Ok(PendingEnergy::default()) };
//!         let covectors = &mut *out.covectors[0];
//!         device.eval(&(x(0) * param(0)), &[off], &[self.stiffness()], None, covectors)?;
//!         let mut sum = device.alloc::<f64>(1)?;
//!         device.reduce_into(&[&*covectors, off], &[Reduction::Dot(0, 1)], &mut sum)?;
//!         Ok(PendingEnergy::arriving(device.arriving(&sum)?, 1.0).times(0.5))
//!     }
//!
//!     fn bytes(&self, _: &Grid) -> u64 {
//!         40 * self.points.len() as u64
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = voxalign_compute::cpu::Cpu::new(None)?;
//! let points = vec![Vector3::new(3.0, 0.0, 0.0), Vector3::new(5.0, 0.0, 0.0)];
//! let mut gather = Gather { points, place: Vector3::new(4.0, 0.0, 1.0), weight: 0.5, places: None };
//! let (scale, grid) = (Scale { factor: 1, iterations: 1 }, Grid::axis_aligned([4; 3], [2.0; 3])?);
//! gather.to_scale(&device, &scale, &grid, 1)?;
//! let carried = device.upload(&[-1.0f32, 1.0, 0.0, 0.0, -1.0, -1.0])?;
//! let (mut covectors, mut none) = (device.alloc(6)?, device.alloc(0)?);
//! let at = Maps { images: &[], carried: [Some(&carried), None] };
//! let covectors_ = [&mut covectors, &mut none];
//! let mut out = Gradient { derivatives: &mut [], reference_derivatives: &mut [], covectors: covectors_ };
//! assert_eq!(gather.evaluate(&device, &at, &mut out)?.wait()?, 1.0);
//! assert_eq!(device.into_host(covectors)?, [-0.5, 0.5, 0.0, 0.0, -0.5, -0.5]);
//! # Ok(())
//! # }
//! ```

mod channel;
pub mod currents;
pub mod images;
mod landmarks;
pub mod moving_mask;
mod places;

use crate::error::Result;
use crate::multiscale::Scale;
use crate::similarity::{Images, PendingEnergy};
use std::ops::Range;
use voxalign_compute::Device;
use voxalign_image::Grid;

pub use channel::ChannelSimilarity;
pub use currents::Shapes;
pub use landmarks::{LandmarkAttachment, Landmarks};
pub use places::{Places, middle, relative};

/// The data terms.
pub trait Attachment<D: Device>: Send {
    /// The maps that it needs at the scale that it [was set to](Self::to_scale); the same at all steps of the
    /// scale.
    fn needs(&self) -> Needs<'_, D>;

    /// Sets the scale with its `grid`, whose spacing, with the factor of the scale, determines kernel widths.
    /// `sides` is the number of worlds, 1 or 2, whose points the model carries to the other one.
    ///
    /// # Errors
    /// What fails on the device.
    fn to_scale(&mut self, device: &D, scale: &Scale, grid: &Grid, sides: usize) -> Result<()> {
        let _ = (device, scale, grid, sides);
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

    /// Forgets all earlier steps at this scale: the next one gives the same bits as the first step of a newly
    /// created attachment. For data terms of one of many subjects, which are created anew where there is no room to
    /// keep them.
    ///
    /// # Errors
    /// What fails on the device.
    fn forget(&mut self, device: &D) -> Result<()> {
        let _ = device;
        Ok(())
    }

    /// The second derivative of the energy in the value of a voxel, times the number of voxels, where it is the same everywhere.
    fn curvature(&self) -> Option<f64> {
        None
    }

    /// Of images, [`Kind::leaves_out_what_left`](crate::similarity::Kind::leaves_out_what_left).
    fn leaves_out_what_left(&self) -> bool {
        false
    }

    /// Bytes of device memory needed at a scale with this grid, roughly, beyond what the model keeps for it:
    /// derivatives, images where they are, and the few numbers of points.
    fn bytes(&self, grid: &Grid) -> u64;
}

/// The attachments of a registration. The subjects of an atlas that share a device share them.
pub type Attachments<D> = Vec<Box<dyn Attachment<D>>>;

/// The maps that a data term needs.
pub struct Needs<'a, D: Device> {
    /// The channels whose warped images it uses.
    pub channels: Range<usize>,
    /// Points of the fixed world that the map pushes to the moving one, and points of the moving world that the inverse pushes to
    /// the fixed one. Only models that treat both sides alike do the latter; the origin of the others is
    /// where carried points count from.
    pub places: Option<[&'a Places<D>; 2]>,
}

impl<D: Device> Needs<'_, D> {
    /// Images of some channels.
    #[must_use]
    pub fn images(channels: Range<usize>) -> Self {
        Self { channels, places: None }
    }
}

/// What a data term [needs](Needs), as the maps have warped it.
pub struct Maps<'a, D: Device> {
    /// For each channel the images, on the grid of the model.
    pub images: &'a [Images<'a, D>],
    /// Where the points of each side are in the world of the other, mm from the origin of [its points](Needs::places): of
    /// the fixed ones, and of the moving ones by a model that treats both sides alike. The energy is the mean of both ways then.
    pub carried: [Option<&'a D::Buffer<f32>>; 2],
}

/// The derivative of an energy.
pub struct Gradient<'a, D: Device> {
    /// For each channel that was needed, the derivative in the values of the moved image.
    pub derivatives: &'a mut [D::Buffer<f32>],
    /// The same in those of its reference, where that [moves](Images::reference_moves); else none.
    pub reference_derivatives: &'a mut [D::Buffer<f32>],
    /// For each point that was [carried](Maps::carried), on either side, the derivative in where it is, by mm along the axes of
    /// that world, all of it to be written; of no length where it was not.
    pub covectors: [&'a mut D::Buffer<f32>; 2],
}
