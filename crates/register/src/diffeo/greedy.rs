//! Greedy registration: the moving image flows towards the fixed one (Algorithm 2 of Ha 2011).
//!
//! At each iteration the force `F = ∂E/∂W · ∇W` on the warped image `W = M ∘ φ` is turned into a
//! velocity, `L v = F`, and `φ ← φ ∘ (id − ε v)` with `ε` such that the largest displacement is a given
//! part of a voxel. Where the moving image is cut off and shows nothing, there is no force. `W` is
//! always made of the image as it was read, with one interpolation.

use super::channel::{ChannelSimilarity, DeviceImage, both, coarser, factors_for, weights_at};
use super::moving_mask::MovingMask;
use super::multiscale::{Deformation, Iteration, Scale};
use super::options::DeformOptions;
use super::side::{Mover, Side};
use crate::error::Result;
use voxalign_compute::{Device, Dims};
use voxalign_image::Grid;

/// Fixed images and a side that flows towards them.
pub struct Pair<D: Device> {
    device: D,
    fixed: Vec<DeviceImage<D>>,
    mask: Option<DeviceImage<D>>,
    grid: Grid,
    /// The smallest spacing of the full grid, mm.
    finest: f64,
    at_scale: Vec<DeviceImage<D>>,
    weights: Option<D::Buffer<f32>>,
    side: Side<D>,
    moving_mask: Option<MovingMask<D>>,
}

impl<D: Device> Pair<D> {
    /// Fixed images on one grid, their mask, and the images that flow.
    #[must_use]
    pub fn new(
        device: D,
        fixed: Vec<DeviceImage<D>>,
        mask: Option<DeviceImage<D>>,
        grid: Grid,
        side: Side<D>,
    ) -> Self {
        let finest = finest(&grid);
        Self {
            device,
            fixed,
            mask,
            grid,
            finest,
            at_scale: Vec::new(),
            weights: None,
            side,
            moving_mask: None,
        }
    }

    /// The same with a mask of the moving images, before the first scale.
    #[must_use]
    pub fn with_moving_mask(self, moving_mask: Option<MovingMask<D>>) -> Self {
        Self { moving_mask, ..self }
    }

    /// The displacement, voxels of the full grid.
    #[must_use]
    pub fn into_field(self) -> (Dims, D::Buffer<f32>) {
        self.side.into_field()
    }
}

/// The smallest spacing of a grid along its axes of more than one voxel, mm.
#[must_use]
pub fn finest(grid: &Grid) -> f64 {
    let (spacing, dims) = (grid.spacing(), grid.dims());
    let finest = (0..3).filter(|&a| dims[a] > 1).map(|a| spacing[a]).fold(f64::MAX, f64::min);
    if finest < f64::MAX { finest } else { spacing[0] }
}

impl<D: Device> Deformation for Pair<D> {
    fn to_scale(&mut self, scale: &Scale) -> Result<()> {
        let target = self.finest * scale.factor as f64;
        let grid = coarser(&self.grid, factors_for(&self.grid, target))?;
        self.at_scale.clear();
        for image in &self.fixed {
            self.at_scale.push(image.at(&self.device, target)?);
        }
        let seen = self.side.to_grid(&self.device, &grid, target)?;
        let mask = weights_at(&self.device, self.mask.as_ref(), target)?;
        self.weights = both(&self.device, mask, seen)?;
        if let Some(mask) = &mut self.moving_mask {
            let (affine, field) = (self.side.affine(), &self.side.field);
            mask.to_scale(&self.device, &grid, affine, target, field, self.weights.as_ref())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        // The last scale may have been a coarse one.
        self.at_scale.clear();
        if self.side.dims != self.grid.dims() {
            self.side.to_grid(&self.device, &self.grid, self.finest)?;
        }
        Ok(())
    }
}

/// One greedy step.
pub struct Greedy<D: Device> {
    options: DeformOptions,
    metrics: Vec<ChannelSimilarity>,
    mover: Option<Mover<D>>,
}

impl<D: Device> Greedy<D> {
    /// With a metric for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>) -> Self {
        Self { options, metrics, mover: None }
    }
}

impl<D: Device> Iteration<Pair<D>> for Greedy<D> {
    fn to_scale(&mut self, pair: &Pair<D>, scale: &Scale) -> Result<()> {
        let target = pair.finest * scale.factor as f64;
        let grid = coarser(&pair.grid, factors_for(&pair.grid, target))?;
        self.mover = None;
        self.mover = Some(Mover::new(&pair.device, &grid, &self.options)?);
        Ok(())
    }

    fn iterate(&mut self, pair: &mut Pair<D>) -> Result<f64> {
        let Some(mover) = &mut self.mover else { return Ok(f64::NAN) };
        let device = &pair.device;
        pair.side.warp(device)?;
        let fixed = pair.at_scale.iter().map(|i| &i.values);
        let moved = pair.side.moved.iter().map(|m| &m.values);
        let weights = match &pair.moving_mask {
            Some(mask) => {
                let (field, dims) = (&pair.side.field, pair.side.dims);
                &mask.weights(device, field, dims, pair.weights.as_ref())?
            }
            None => &pair.weights,
        };
        let weights = weights.as_ref();
        let energy = mover.start(device, fixed, moved, &self.metrics, weights)?.wait()?;
        mover.adapt(energy, self.options.step_rule);
        mover.advance(device, &mut pair.side, &self.options)?;
        Ok(energy)
    }

    fn end_scale(&mut self, _: &mut Pair<D>) -> Result<Option<f64>> {
        match &mut self.mover {
            Some(mover) => mover.residual(),
            None => Ok(None),
        }
    }
}
