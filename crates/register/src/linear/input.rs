//! The images of a registration in the memory of a device.

use super::options::AffineInput;
use super::prepare::{fixed_weight, moving_mask};
use crate::error::{RegisterError, Result, Role, check_grid};
use voxalign_compute::error::check_len;
use voxalign_compute::ops::elementwise::Expr;
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
    /// How much each voxel of the fixed image counts (not negative), on its grid.
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
        let on_grid = |image: ImageView<'_>, mask: Option<ImageView<'_>>, role| match mask {
            None => Ok(None),
            Some(mask) => {
                check_grid(role, mask, image.grid())?;
                Ok::<_, RegisterError>(Some(device.upload(mask.data())?))
            }
        };
        let fixed_mask = on_grid(input.fixed, input.fixed_mask, Role::FixedMask)?;
        let fixed_weight = on_grid(input.fixed, input.fixed_weight, Role::FixedWeight)?;
        let moving_mask = on_grid(input.moving, input.moving_mask, Role::MovingMask)?;
        Ok(Self {
            fixed_grid: input.fixed.grid().clone(),
            fixed: device.upload(input.fixed.data())?,
            fixed_mask,
            fixed_weight,
            moving_grid: input.moving.grid().clone(),
            moving: device.upload(input.moving.data())?,
            moving_mask,
        })
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

/// The images of a registration, which may be changed where they are its own.
pub(super) enum Source<'a, D: Device> {
    Own(Box<DeviceInput<D>>),
    Lent(&'a DeviceInput<D>),
    /// Lent, and masks and weights are left out.
    Unmasked(&'a DeviceInput<D>),
}

impl<'a, D: Device> Source<'a, D> {
    pub(super) fn input(&self) -> &DeviceInput<D> {
        match self {
            Self::Own(input) => input,
            Self::Lent(input) | Self::Unmasked(input) => input,
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
        }
    }

    /// The weight of the fixed image and the mask of the moving one.
    pub(super) fn masks(&self, device: &D) -> Result<[Option<D::Buffer<f32>>; 2]> {
        match self {
            Self::Own(_) | Self::Lent(_) => {
                let input = self.input();
                Ok([fixed_weight(device, input)?, moving_mask(device, input)?])
            }
            Self::Unmasked(_) => Ok([None, None]),
        }
    }

    /// The values of both images.
    pub(super) fn values(self) -> [Values<'a, D>; 2] {
        match self {
            Self::Own(input) => [Values::Own(input.fixed), Values::Own(input.moving)],
            Self::Lent(input) | Self::Unmasked(input) => {
                [Values::Lent(&input.fixed), Values::Lent(&input.moving)]
            }
        }
    }
}

/// The values of an image, which may be changed where they are the registration's own.
pub(super) enum Values<'a, D: Device> {
    Own(D::Buffer<f32>),
    Lent(&'a D::Buffer<f32>),
}

impl<D: Device> Values<'_, D> {
    pub(super) fn get(&self) -> &D::Buffer<f32> {
        match self {
            Self::Own(values) => values,
            Self::Lent(values) => values,
        }
    }

    /// An expression of each value, in place where that may be.
    pub(super) fn map(self, device: &D, expr: &Expr, params: &[f32]) -> Result<D::Buffer<f32>> {
        Ok(match self {
            Self::Own(mut values) => {
                device.eval_in_place(expr, &mut values, &[], params, None)?;
                values
            }
            Self::Lent(values) => {
                let mut out = device.alloc::<f32>(values.len())?;
                device.eval(expr, &[values], params, None, &mut out)?;
                out
            }
        })
    }
}
