//! Time-dependent velocities, and the flows that they generate.

use super::storage::{Kept, Storage};
use crate::attachment::images::finest;
use crate::error::Result;
use voxalign_compute::ops::flow::Step;
use voxalign_compute::ops::resample::grid_map;
use voxalign_compute::{Device, Dims};
use voxalign_image::Grid;

/// Velocities on a grid, constant over a time step each.
pub(super) struct Path<D: Device> {
    pub(super) time_steps: usize,
    pub(super) storage: Storage,
    pub(super) dims: Dims,
    /// Spacing along each axis in units of the smallest, in which velocities are.
    pub(super) spacing: [f64; 3],
    pub(super) velocities: Vec<Kept<D>>,
}

impl<D: Device> Path<D> {
    /// Before the first scale.
    pub(super) fn new(time_steps: usize, storage: Storage) -> Self {
        Self { time_steps, storage, dims: [0; 3], spacing: [1.0; 3], velocities: Vec::new() }
    }

    /// A step of time: forward or backward along a velocity.
    pub(super) fn step(&self, sign: f64) -> Step<'static, D> {
        let scale = self.spacing.map(|h| sign / (h * self.time_steps as f64));
        Step { scale, limit: None }
    }

    /// The displacement of `φ₁₀`, or backward of `φ₀₁`, voxels of the grid.
    pub(super) fn flow(&self, device: &D, backward: bool) -> Result<D::Buffer<f32>> {
        let len = 3 * self.dims.iter().product::<usize>();
        let mut room = self.room(device, len)?;
        let mut spare = device.alloc::<f32>(len)?;
        let mut field = device.alloc::<f32>(len)?;
        let step = self.step(if backward { 1.0 } else { -1.0 });
        for k in 0..self.time_steps {
            let j = if backward { self.time_steps - 1 - k } else { k };
            let v = self.velocities[j].view(device, &mut room)?;
            device.advance(&field, v, &step, self.dims, &mut spare)?;
            std::mem::swap(&mut field, &mut spare);
        }
        Ok(field)
    }

    /// The workspace to read a velocity: nothing where it is stored in single precision.
    pub(super) fn room(&self, device: &D, len: usize) -> Result<D::Buffer<f32>> {
        let len = if self.storage == Storage::Full { 0 } else { len };
        Ok(device.alloc(len)?)
    }

    /// Brings the velocities to another grid; the first time they are zero.
    pub(super) fn go_to(&mut self, device: &D, grid: &Grid) -> Result<()> {
        let smallest = finest(grid);
        let new = grid.spacing().map(|h| h / smallest);
        let (from, to, old) = (self.dims, grid.dims(), self.spacing);
        let (before, len) = (from.iter().product::<usize>(), 3 * grid.len());
        if from == [0; 3] {
            for _ in 0..self.time_steps {
                self.velocities.push(Kept::zero(device, len, self.storage)?);
            }
        } else if from != to {
            let (coarse, fine) = (device.alloc::<f32>(3 * before)?, device.alloc::<f32>(len)?);
            let mut v = self.room(device, 3 * before)?;
            let mut voxels = device.alloc::<f32>(3 * before)?;
            let mut onto = device.alloc::<f32>(len)?;
            let mut velocities = Vec::with_capacity(self.time_steps);
            for kept in self.velocities.drain(..) {
                let v = kept.view(device, &mut v)?;
                // Of no displacement at all, an advance is a scaling of each component.
                let step = Step { scale: old.map(|h| 1.0 / h), limit: None };
                device.advance(&coarse, v, &step, from, &mut voxels)?;
                device.resample_field(&voxels, from, &grid_map(from, to), to, &mut onto)?;
                let mut scaled = device.alloc::<f32>(len)?;
                device.advance(&fine, &onto, &Step { scale: new, limit: None }, to, &mut scaled)?;
                let mut kept = match self.storage {
                    Storage::Full => Kept::Single(device.alloc(0)?),
                    _ => Kept::zero(device, len, self.storage)?,
                };
                kept.set(device, scaled)?;
                velocities.push(kept);
            }
            self.velocities = velocities;
        }
        (self.dims, self.spacing) = (to, new);
        Ok(())
    }
}
