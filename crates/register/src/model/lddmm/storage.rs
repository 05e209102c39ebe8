//! Storage of a path: which velocities and images over time are kept, and in which precision.

use crate::error::{RegisterError, Result};
use voxalign_compute::Device;
use voxalign_image::memory::amount;
use voxalign_options::Choice;

/// How velocities and images over time are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum Storage {
    /// Velocities in single precision, all images of the path.
    #[default]
    Full,
    /// Velocities in half precision, all images of the path.
    Half,
    /// Velocities in half precision; most images of the path are made again when they are needed.
    Checkpoints,
}

impl Storage {
    /// Bytes for `n` voxels, `steps` time steps and `channels` images, working memory included.
    #[must_use]
    pub fn bytes(self, n: u64, steps: u64, channels: u64) -> u64 {
        let velocity = if self == Storage::Full { 12 } else { 6 };
        let images = match self {
            Storage::Checkpoints => {
                segment_bytes(checkpoint_distance(steps, channels), steps, channels)
            }
            _ => 4 * channels * steps,
        };
        // Six fields and some images beside them, and as much for the solver as two fields.
        n * (velocity * steps + images + 8 * 12 + 4 * (4 + 4 * channels))
    }

    /// Checks that it fits into the free memory, where that is known. The storage affects the last digits of a
    /// result: it is chosen by the user, and never follows from the memory of the moment.
    ///
    /// # Errors
    /// [`RegisterError::Option`] with what is needed and the ways that fit.
    pub fn check(self, n: u64, steps: u64, channels: u64, free: Option<u64>) -> Result<()> {
        let needed = |s: Storage| s.bytes(n, steps, channels);
        let Some(free) = free.filter(|free| needed(self) > *free) else { return Ok(()) };
        let fit = Self::ALL.iter().filter(|s| needed(**s) <= free);
        let fit: Vec<String> =
            fit.map(|s| format!("{} ({})", s.name(), amount(needed(*s)))).collect();
        let help = if fit.is_empty() {
            "take fewer time steps, or end the schedule at a coarser scale".to_owned()
        } else {
            format!("give {}", fit.join(" or "))
        };
        Err(RegisterError::option(
            "path_storage",
            self.name(),
            format!(
                "it needs {} of memory, and {} are free; {help}",
                amount(needed(self)),
                amount(free)
            ),
        ))
    }
}

/// Bytes a voxel for the images of a segment of `every` time steps, and the displacements at the
/// beginning of all segments but the first, where there is none.
fn segment_bytes(every: u64, steps: u64, channels: u64) -> u64 {
    12 * (steps.div_ceil(every) - 1) + 4 * channels * every
}

/// The time steps from one checkpoint to the next that take the least memory.
pub(super) fn checkpoint_distance(steps: u64, channels: u64) -> u64 {
    (1..=steps.max(1)).min_by_key(|&every| segment_bytes(every, steps, channels)).unwrap_or(1)
}

/// A field of one time step.
pub(super) enum Kept<D: Device> {
    Single(D::Buffer<f32>),
    Half(D::Buffer<u16>),
}

impl<D: Device> Kept<D> {
    pub(super) fn zero(device: &D, len: usize, storage: Storage) -> Result<Self> {
        Ok(match storage {
            Storage::Full => Kept::Single(device.alloc(len)?),
            _ => Kept::Half(device.alloc(len)?),
        })
    }

    /// The field, where it is kept in single precision.
    pub(super) fn single(&mut self) -> Option<&mut D::Buffer<f32>> {
        match self {
            Kept::Single(v) => Some(v),
            Kept::Half(_) => None,
        }
    }

    /// The field in single precision, where it is kept or in `room`.
    pub(super) fn view<'a>(
        &'a self,
        device: &D,
        room: &'a mut D::Buffer<f32>,
    ) -> Result<&'a D::Buffer<f32>> {
        match self {
            Kept::Single(v) => Ok(v),
            Kept::Half(v) => {
                device.to_single(v, room)?;
                Ok(room)
            }
        }
    }

    /// Changes the field in place, or in `room`, where it is after [`view`](Self::view).
    pub(super) fn change(
        &mut self,
        device: &D,
        room: &mut D::Buffer<f32>,
        how: impl FnOnce(&mut D::Buffer<f32>) -> Result<()>,
    ) -> Result<()> {
        match self {
            Kept::Single(v) => how(v),
            Kept::Half(v) => {
                how(room)?;
                Ok(device.to_half(room, v)?)
            }
        }
    }

    pub(super) fn set(&mut self, device: &D, to: D::Buffer<f32>) -> Result<()> {
        match self {
            Kept::Single(v) => *v = to,
            Kept::Half(v) => device.to_half(&to, v)?,
        }
        Ok(())
    }
}
