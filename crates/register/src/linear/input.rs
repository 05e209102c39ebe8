//! The images of an affine registration in device memory.

use super::options::AffineInput;
use super::prepare::{Values, fixed_weight, moving_mask};
use super::prepared::{Prepared, PreparedFixed};
use crate::error::{Result, Role, check_grid};
use crate::there::uploaded;
use voxalign_compute::error::check_len;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::{Grid, ImageView};

/// The images of an affine registration on a device, as [`AffineInput`] holds them on the host:
/// values as they were read, one a voxel, x fastest.
pub struct DeviceInput<D: Device> {
    /// Grid of the image that stays.
    pub fixed_grid: Grid,
    /// Its values.
    pub fixed: D::Buffer<f32>,
    /// Voxels of the fixed image that count (above 0), on its grid.
    pub fixed_mask: Option<D::Buffer<f32>>,
    /// The weights of the voxels of the fixed image (not negative), on its grid.
    pub fixed_weight: Option<D::Buffer<f32>>,
    /// Grid of the image that is to be moved onto the fixed one.
    pub moving_grid: Grid,
    /// Its values.
    pub moving: D::Buffer<f32>,
    /// Voxels of the moving image that count (above 0), on its grid.
    pub moving_mask: Option<D::Buffer<f32>>,
}

impl<D: Device> DeviceInput<D> {
    /// Copies images to a device.
    ///
    /// # Errors
    /// Masks on other grids than their images, memory that runs out.
    pub fn upload(device: &D, input: &AffineInput<'_>) -> Result<Self> {
        let (fixed, moving) = (input.fixed, input.moving);
        let fixed_mask = upload_mask(device, fixed, input.fixed_mask, Role::FixedMask)?;
        let fixed_weight = upload_mask(device, fixed, input.fixed_weight, Role::FixedWeight)?;
        let moving_mask = upload_mask(device, moving, input.moving_mask, Role::MovingMask)?;
        Ok(Self {
            fixed_grid: input.fixed.grid().clone(),
            fixed: uploaded(device, input.fixed)?,
            fixed_mask,
            fixed_weight,
            moving_grid: input.moving.grid().clone(),
            moving: uploaded(device, input.moving)?,
            moving_mask,
        })
    }

    /// The mask of the fixed image and its weight.
    fn weights(&self) -> [Option<&D::Buffer<f32>>; 2] {
        [self.fixed_mask.as_ref(), self.fixed_weight.as_ref()]
    }

    /// Checks that every buffer has the length of its grid.
    pub(super) fn check(&self) -> Result<()> {
        let (fixed, moving) = (self.fixed_grid.len(), self.moving_grid.len());
        let len = |what, expected, buffer: Option<&D::Buffer<f32>>| {
            buffer.map_or(Ok(()), |b| check_len(what, expected, b.len()))
        };
        len("fixed image", fixed, Some(&self.fixed))?;
        len("fixed mask", fixed, self.fixed_mask.as_ref())?;
        len("fixed weight", fixed, self.fixed_weight.as_ref())?;
        len("moving image", moving, Some(&self.moving))?;
        len("moving mask", moving, self.moving_mask.as_ref())?;
        Ok(())
    }
}

/// A moving image on a device, as it was read, and its mask.
pub(super) struct DeviceMoving<D: Device> {
    pub(super) grid: Grid,
    pub(super) values: D::Buffer<f32>,
    pub(super) mask: Option<D::Buffer<f32>>,
}

impl<D: Device> DeviceMoving<D> {
    /// Copies an image to a device.
    ///
    /// # Errors
    /// A mask on another grid, memory that runs out.
    pub(super) fn upload(
        device: &D,
        image: ImageView<'_>,
        mask: Option<ImageView<'_>>,
    ) -> Result<Self> {
        let mask = upload_mask(device, image, mask, Role::MovingMask)?;
        Ok(Self { grid: image.grid().clone(), values: uploaded(device, image)?, mask })
    }
}

/// Copies what goes with an image to a device.
fn upload_mask<D: Device>(
    device: &D,
    image: ImageView<'_>,
    mask: Option<ImageView<'_>>,
    role: Role,
) -> Result<Option<D::Buffer<f32>>> {
    let Some(mask) = mask else { return Ok(None) };
    check_grid(role, mask, image.grid())?;
    Ok(Some(uploaded(device, mask)?))
}

/// The images of a registration, which may be changed where they are its own.
pub(super) enum Source<'a, D: Device> {
    Own(Box<DeviceInput<D>>),
    Lent(&'a DeviceInput<D>),
    /// Lent, and masks and weights are left out.
    Unmasked(&'a DeviceInput<D>),
    /// A fixed image that is kept, and a moving one.
    Prepared(&'a PreparedFixed<D>, Box<DeviceMoving<D>>),
    /// The same, and masks and weights are left out.
    PreparedUnmasked(&'a PreparedFixed<D>, Box<DeviceMoving<D>>),
}

/// The parts of the fixed image in a source.
pub(super) enum FixedSide<'a, D: Device> {
    /// Values as they were read, and what they weigh.
    Read(Values<'a, D>, Option<D::Buffer<f32>>),
    Prepared(&'a Prepared<D>),
}

/// Both images, as a pyramid takes them.
pub(super) struct Sides<'a, D: Device> {
    pub(super) fixed: FixedSide<'a, D>,
    /// Values and mask.
    pub(super) moving: (Values<'a, D>, Option<D::Buffer<f32>>),
}

impl<'a, D: Device> Source<'a, D> {
    /// The grids of the fixed and of the moving image.
    pub(super) fn grids(&self) -> [&Grid; 2] {
        match self {
            Self::Own(input) => [&input.fixed_grid, &input.moving_grid],
            Self::Lent(input) | Self::Unmasked(input) => [&input.fixed_grid, &input.moving_grid],
            Self::Prepared(fixed, moving) | Self::PreparedUnmasked(fixed, moving) => {
                [fixed.grid(), &moving.grid]
            }
        }
    }

    /// The same images, all of whose voxels count.
    pub(super) fn without_masks(self) -> Self {
        match self {
            Self::Own(mut input) => {
                (input.fixed_mask, input.fixed_weight, input.moving_mask) = (None, None, None);
                Self::Own(input)
            }
            Self::Lent(input) | Self::Unmasked(input) => Self::Unmasked(input),
            Self::Prepared(fixed, moving) | Self::PreparedUnmasked(fixed, moving) => {
                Self::PreparedUnmasked(fixed, moving)
            }
        }
    }

    /// The values of both images, and what they weigh.
    ///
    /// # Errors
    /// Buffers of other lengths than their grids, weights that cannot be, masks that keep nothing.
    pub(super) fn sides(self, device: &D) -> Result<Sides<'a, D>> {
        match self {
            Self::Own(input) => {
                input.check()?;
                let weight = fixed_weight(device, input.weights())?;
                let mask = moving_mask(device, input.moving_mask.as_ref())?;
                let DeviceInput { fixed, moving, .. } = *input;
                let fixed = FixedSide::Read(Values::Own(fixed), weight);
                Ok(Sides { fixed, moving: (Values::Own(moving), mask) })
            }
            Self::Lent(input) | Self::Unmasked(input) => {
                input.check()?;
                let (weight, mask) = match self {
                    Self::Unmasked(_) => (None, None),
                    _ => (
                        fixed_weight(device, input.weights())?,
                        moving_mask(device, input.moving_mask.as_ref())?,
                    ),
                };
                let fixed = FixedSide::Read(Values::Lent(&input.fixed), weight);
                Ok(Sides { fixed, moving: (Values::Lent(&input.moving), mask) })
            }
            Self::Prepared(fixed, moving) => {
                let mask = moving_mask(device, moving.mask.as_ref())?;
                let fixed = FixedSide::Prepared(fixed.weighted());
                Ok(Sides { fixed, moving: (Values::Own(moving.values), mask) })
            }
            Self::PreparedUnmasked(fixed, moving) => {
                let fixed = FixedSide::Prepared(fixed.unweighted());
                Ok(Sides { fixed, moving: (Values::Own(moving.values), None) })
            }
        }
    }
}
