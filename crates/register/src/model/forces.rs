//! Forces: the derivatives of the data terms on a grid.

use super::held::{PointState, Way};
use super::points::Held;
use super::pull::Sources;
use crate::attachment::images::finest;
use crate::error::Result;
use crate::similarity::{Images, PendingEnergies};
use voxalign_compute::ops::elementwise::constant;
use voxalign_compute::ops::points::Bounds;
use voxalign_compute::{Device, Dims};
use voxalign_image::Grid;

/// Makes a force of derivatives and covectors: at every voxel the derivative of the energy in its displacement, by the
/// smallest voxel. Where both sides move, in opposite directions and equally far, it is that of the first: half of the force on that side, less half
/// of the force on the other one.
pub(super) struct Forces<D: Device> {
    pub(super) dims: Dims,
    /// Spacing of the grid along each axis in units of the smallest.
    pub(super) spacing: [f64; 3],
    /// The length of the smallest voxel, mm.
    pub(super) smallest: f64,
    /// The number of sides that move.
    pub(super) sides: usize,
    /// The force.
    pub(super) sum: D::Buffer<f32>,
    /// Whether something was added to it since the sum began.
    is_set: bool,
    /// Room for the derivatives of one attachment, of each side.
    pub(super) derivatives: Vec<Vec<D::Buffer<f32>>>,
}

impl<D: Device> Forces<D> {
    /// Of a grid, on one side or on both.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn new(device: &D, grid: &Grid, sides: usize) -> Result<Self> {
        let smallest = finest(grid);
        Ok(Self {
            dims: grid.dims(),
            spacing: grid.spacing().map(|h| h / smallest),
            smallest,
            sides,
            sum: device.alloc(3 * grid.len())?,
            is_set: false,
            derivatives: (0..sides).map(|_| Vec::new()).collect(),
        })
    }

    /// Begins a new sum.
    pub(super) fn begin(&mut self) {
        self.is_set = false;
    }

    /// Adds the force on a side of an image that has moved, by the derivative in its values.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn push(
        &mut self,
        device: &D,
        side: usize,
        derivative: &D::Buffer<f32>,
        moved: &D::Buffer<f32>,
    ) -> Result<()> {
        let adds = std::mem::replace(&mut self.is_set, true);
        // Differences along axes that are turned round, of voxels twice as long.
        let sign = if side == 0 { 1.0 } else { -1.0 };
        let spacing = self.spacing.map(|h| sign * self.sides as f64 * h);
        Ok(device.force(derivative, moved, self.dims, spacing, adds, &mut self.sum)?)
    }

    /// Ends the sum of images: where there were none, the force is zero.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn end(&mut self, device: &D) -> Result<()> {
        if !self.is_set {
            device.eval_in_place(&constant(0.0), &mut self.sum, &[], &[], None)?;
        }
        Ok(())
    }

    /// Evaluates what pulls: makes the forces of images, and the covectors of the points that are held, where the `ways` from
    /// each side to the other carry them. Of two sides each is the other's reference.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn pull(
        &mut self,
        device: &D,
        sources: &mut Sources<'_, D>,
        images: &[Images<'_, D>],
        ways: &[Way<'_, D>],
        points: &mut PointState<D>,
    ) -> Result<PendingEnergies> {
        for held in &mut points.held {
            for (held, way) in held.iter_mut().zip(ways) {
                held.carry(device, way.field, self.dims)?;
            }
        }
        let points =
            points.held.iter_mut().map(|held| held.iter_mut().map(Held::carried).collect());
        let mut room = std::mem::take(&mut self.derivatives);
        self.begin();
        let energies = sources.evaluate(device, images, points, &mut room, |channels, room| {
            for (i, image) in images[channels].iter().enumerate() {
                let moved = [image.moved, image.reference];
                for (side, (derivatives, moved)) in room.iter().zip(moved).enumerate() {
                    self.push(device, side, &derivatives[i], moved)?;
                }
            }
            Ok(())
        })?;
        self.derivatives = room;
        self.end(device)?;
        Ok(energies)
    }

    /// Adds the forces of the points that are held, within bounds; what pulls points pulls the side that leads to
    /// where they go, and pushes the other.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn push_points(
        &mut self,
        device: &D,
        ways: &[Way<'_, D>],
        points: &PointState<D>,
        bounds: &Bounds,
    ) -> Result<()> {
        for held in &points.held {
            for (side, (held, way)) in held.iter().zip(ways).enumerate() {
                let Some([reach, stiffness]) = &held.reach else { continue };
                // Of two sides the fixed one is the first, and fixed points go to the moving one.
                let sign = if self.sides == 2 && side == 0 { -1.0 } else { 1.0 };
                let bounds = Bounds { factors: bounds.factors.map(|f| sign * f), ..*bounds };
                let carriage = held.carriage(way.field, self.dims);
                device.push_points(
                    &carriage,
                    held.at(),
                    &held.covectors,
                    reach,
                    stiffness,
                    &[bounds],
                    &mut [&mut self.sum],
                )?;
            }
        }
        Ok(())
    }
}
