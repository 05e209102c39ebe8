//! Images that may be in the memory of a device already.

use crate::diffeo::calibrate::{foreground_threshold, foreground_threshold_on};
use crate::error::Result;
use voxalign_compute::{Device, Kept};
use voxalign_image::{Grid, ImageView, Volume};

/// A buffer with the values of an image: a copy within the memory of the device where they are there, else from the host.
///
/// # Errors
/// Memory that runs out, what fails on the device.
pub fn uploaded<'a, D: Device>(
    device: &D,
    image: impl Into<ImageView<'a>>,
) -> Result<D::Buffer<f32>> {
    let image = image.into();
    if let Some(values) = image.elsewhere()
        && let Some(buffer) = device.here(&**values)?
    {
        return Ok(buffer);
    }
    Ok(device.upload(image.bring()?)?)
}

/// The content of a buffer as an image, which stays in the memory of the device where it has its own.
///
/// # Errors
/// A buffer of another length than the grid, what fails on the device.
pub fn kept<D: Device>(device: &D, grid: Grid, values: D::Buffer<f32>) -> Result<Volume<f32>> {
    Ok(match device.kept(values)? {
        Kept::Here(values) => Volume::new(grid, values)?,
        Kept::Elsewhere(values) => Volume::of_elsewhere(grid, values)?,
    })
}

/// The value that the foreground of an image [is above](foreground_threshold), which is looked for where the image is.
pub(crate) fn foreground<D: Device>(device: &D, image: ImageView<'_>) -> Result<Option<f32>> {
    let found = match image.elsewhere() {
        None => foreground_threshold(image.data()),
        Some(_) => foreground_threshold_on(device, &uploaded(device, image)?)?,
    };
    Ok(found.map(|(_, above)| above))
}

/// The number of voxels of an image that are above a value, in each slice along each axis, which are counted where the image
/// is.
pub(crate) fn slice_counts<D: Device>(
    device: &D,
    image: ImageView<'_>,
    above: f32,
) -> Result<[Vec<u64>; 3]> {
    Ok(match image.elsewhere() {
        None => voxalign_compute::ops::values::slice_counts(image.data(), image.dims(), above)?,
        Some(_) => device.slice_counts(&uploaded(device, image)?, image.dims(), above)?,
    })
}
