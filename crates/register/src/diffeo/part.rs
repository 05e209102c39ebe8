//! Images, and parts of them, prepared on a device.

use super::calibrate::{Calibration, TOP, foreground_threshold_on};
use super::clip::{IndexBox, crop_on};
use crate::attachment::images::{DeviceImage, reaches_border, reaches_border_on};
use crate::error::{RegisterError, Result, Role};
use crate::there::uploaded;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::{Grid, ImageView};

/// The calibrated value from which a voxel is tissue.
pub const TISSUE: f32 = 0.1;

/// An image with its background at 0 and its brightest tissue at 1.
///
/// # Errors
/// An image that is constant or has values that are not finite, of which `role` says which it is;
/// memory that runs out.
pub fn calibrated<'a, D: Device>(
    device: &D,
    role: Role,
    image: impl Into<ImageView<'a>>,
) -> Result<DeviceImage<D>> {
    calibrated_within(device, role, image.into(), None)
}

/// An image whose values are those that count, with 0 beyond it.
///
/// # Errors
/// An image with values that are not finite, of which `role` says which it is; memory that runs out.
pub fn as_it_is<'a, D: Device>(
    device: &D,
    role: Role,
    image: impl Into<ImageView<'a>>,
) -> Result<DeviceImage<D>> {
    Part::whole(device, image.into())?.unchanged(device, role)
}

fn check_finite<D: Device>(device: &D, role: Role, values: &D::Buffer<f32>) -> Result<()> {
    let bad = device.reduce(&[values], &[Reduction::CountNonFinite(0)])?[0];
    if bad > 0.0 {
        return Err(RegisterError::NotFinite { role, count: bad as usize });
    }
    Ok(())
}

/// As [`calibrated`]; what a mask (0 and 1) leaves out counts as background.
pub(super) fn calibrated_within<D: Device>(
    device: &D,
    role: Role,
    image: ImageView<'_>,
    mask: Option<&D::Buffer<f32>>,
) -> Result<DeviceImage<D>> {
    Part::whole(device, image)?.calibrated(device, role, mask)
}

/// An image, or a part of one, that is to be prepared on a device.
pub(super) struct Part<'a, D: Device> {
    grid: Grid,
    values: D::Buffer<f32>,
    /// The same where it is on the host.
    host: Option<ImageView<'a>>,
}

impl<'a, D: Device> Part<'a, D> {
    pub(super) fn whole(device: &D, image: ImageView<'a>) -> Result<Self> {
        let (grid, values) = (image.grid().clone(), uploaded(device, image)?);
        Ok(Self { grid, values, host: image.elsewhere().is_none().then_some(image) })
    }

    /// The part of an image that is on the device in a box.
    pub(super) fn within(device: &D, image: ImageView<'a>, to: &IndexBox) -> Result<Self> {
        let all = uploaded(device, image)?;
        let (grid, values) = crop_on(device, (image.grid(), &all), to)?;
        Ok(Self { grid, values, host: None })
    }

    pub(super) fn unchanged(self, device: &D, role: Role) -> Result<DeviceImage<D>> {
        let Self { grid, values, host } = self;
        check_finite(device, role, &values)?;
        let open = match host {
            Some(image) => reaches_border(image, |v| v > TISSUE),
            None => reaches_border_on(device, &values, grid.dims(), TISSUE)?,
        };
        Ok(DeviceImage { grid, values, outside: 0.0, open })
    }

    pub(super) fn calibrated(
        self,
        device: &D,
        role: Role,
        mask: Option<&D::Buffer<f32>>,
    ) -> Result<DeviceImage<D>> {
        let Self { grid, mut values, host } = self;
        check_finite(device, role, &values)?;
        // Tissue beyond a mask reaches the border as well.
        let mut unmasked = None;
        if mask.is_some() && host.is_none() {
            let mut copy = device.alloc::<f32>(values.len())?;
            device.copy(&values, &mut copy)?;
            unmasked = Some(copy);
        }
        if let (Some(mask), Some((low, _))) = (mask, foreground_threshold_on(device, &values)?) {
            let inside = select(x(1).gt(0.0), x(0), param(0));
            device.eval_in_place(&inside, &mut values, &[mask], &[low], None)?;
        }
        let calibration = Calibration::on(device, role, &values, None, TOP)?;
        calibration.apply_on(device, &mut values)?;
        if let Some(unmasked) = &mut unmasked {
            calibration.apply_on(device, unmasked)?;
        }
        let open = match host {
            Some(image) => reaches_border(image, |v| calibration.apply(v) > TISSUE),
            None => {
                let all = unmasked.as_ref().unwrap_or(&values);
                reaches_border_on(device, all, grid.dims(), TISSUE)?
            }
        };
        Ok(DeviceImage { grid, values, outside: 0.0, open })
    }
}
