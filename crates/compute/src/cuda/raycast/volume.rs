//! Volumes for ray casting in GPU memory.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::{RAYCAST, Volume};
use crate::Dims;
use crate::cuda::Texture;
use crate::cuda::{Cuda, CudaBuffer, Shape, Target};
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::raycast::{Traversable, bricks, check_ray_volume, leaps};

/// A volume for rays in the memory of a GPU.
#[derive(Debug)]
pub struct CudaRayVolume {
    pub(super) dims: Dims,
    /// With a border of zeros, a voxel wide.
    pub(super) values: CudaBuffer<f32>,
    /// How far rays may skip, for each brick.
    pub(super) leaps: CudaBuffer<f32>,
    /// A copy of the values for texture units, once it was asked for; none within where there is none of these sizes.
    texture: Mutex<Option<Option<Texture>>>,
}

impl Traversable for CudaRayVolume {
    fn dims(&self) -> Dims {
        self.dims
    }
}

/// The kernel parameters of a volume.
pub(super) fn parameter(dims: Dims, texture: u64) -> Volume {
    Volume { texture, dims: dims.map(|n| n as u32), bricks: bricks(dims).map(|n| n as u32) }
}

impl Cuda {
    /// A volume with its border and its map of bricks; texture units get their copy when they are first asked for.
    pub(super) fn padded_volume(
        &self,
        values: &CudaBuffer<f32>,
        dims: Dims,
    ) -> Result<CudaRayVolume> {
        let n = check_ray_volume(values.len(), dims)?;
        let padded = dims.iter().map(|n| n + 2).product();
        let bricks = bricks(dims);
        let mut with_border = self.alloc_unset(padded)?;
        let mut occupied = self.alloc::<u32>(bricks.iter().product())?;
        let parameter = parameter(dims, 0);
        // SAFETY: `n` values are read, as many as were checked; the border makes `padded` of them; every voxel has its
        // cells within the bricks.
        unsafe {
            let shape = Shape::covering(padded, 256);
            RAYCAST.padded(self, shape, values, parameter, &mut with_border)?;
            let shape = Shape::covering(n, 256);
            RAYCAST.occupied(self, shape, values, parameter, &mut occupied)?;
        }
        let leaps = self.upload(&leaps(&self.into_host(occupied)?, bricks)?)?;
        Ok(CudaRayVolume { dims, values: with_border, leaps, texture: Mutex::default() })
    }

    /// The texture of a copy of a volume, which is made on first use; none where the device has no textures of
    /// these sizes. An emulated device rounds positions instead, and checks for the memory of the copy all the
    /// same.
    pub(super) fn texture(&self, volume: &CudaRayVolume) -> Result<Option<u64>> {
        let mut made = volume.texture.lock().unwrap_or_else(PoisonError::into_inner);
        let is_emulated = self.is_emulated();
        let object = |texture: &Option<Texture>| match texture {
            Some(texture) => Some(texture.object()),
            None => is_emulated.then_some(0),
        };
        if let Some(made) = &*made {
            return Ok(object(made));
        }
        let bytes = volume.values.bytes();
        let refused = |free| ComputeError::TextureMemory { device: self.name(), bytes, free };
        let held = self.0.ledger.live.load(Ordering::Relaxed);
        self.limit().grant(bytes, held).map_err(|free| refused(Some(free)))?;
        let texture = match &self.0.target {
            Target::Gpu(gpu) => {
                // Whoever uses the values next comes after the copy, in whatever stream.
                let read = volume.values.copied_by();
                // SAFETY: the buffer has the sizes.
                let copy = self.using(std::iter::once(read), || unsafe {
                    gpu.texture(read.address, volume.dims.map(|n| n + 2))
                });
                copy.map_err(|error| match error {
                    ComputeError::OutOfMemory { free, .. } => refused(free),
                    other => other,
                })?
            }
            Target::Emulated(_) => None,
        };
        Ok(object(made.insert(texture)))
    }
}
