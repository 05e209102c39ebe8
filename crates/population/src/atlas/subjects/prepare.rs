//! Prepared images of subjects: calibrated, on the device.

use super::source::Images;
use crate::error::{PopulationError, Result};
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Affine, Grid, memory};
use voxalign_register::attachment::images::finest;
use voxalign_register::attachment::images::{DeviceImage, Moved};
use voxalign_register::diffeo::{as_it_is, calibrated};
use voxalign_register::{RegisterError, Role};

/// The images of a subject at full resolution.
pub(in crate::atlas) struct Prepared<D: Device> {
    pub(in crate::atlas) images: Vec<DeviceImage<D>>,
    /// The voxels that count, where not all do: those inside its mask, and inside a field of view that ends within
    /// tissue.
    pub(in crate::atlas) mask: Option<DeviceImage<D>>,
}

/// Calibrates the images of a subject; `file` is for errors.
pub(in crate::atlas) fn prepared<D: Device>(
    device: &D,
    loaded: &Images,
    file: &std::path::Path,
) -> Result<Prepared<D>> {
    let images = calibrated_channels(device, loaded, file)?;
    let mut mask = match &loaded.mask {
        Some(mask) => Some(mask_on(device, mask, &loaded.channels[0], file)?),
        None => None,
    };
    if mask.is_none() && images.iter().any(|i| i.open) {
        let ones = memory::filled(images[0].grid.len(), 1.0)?;
        let (grid, values) = (images[0].grid.clone(), device.upload_vec(ones)?);
        mask = Some(DeviceImage { grid, values, outside: 0.0, open: false });
    }
    Ok(Prepared { images, mask })
}

/// The images of a subject at full resolution, calibrated; `file` is for errors.
fn calibrated_channels<D: Device>(
    device: &D,
    images: &Images,
    file: &std::path::Path,
) -> Result<Vec<DeviceImage<D>>> {
    let on = |(channel, volume): (usize, &std::sync::Arc<voxalign_image::Volume<f32>>)| {
        let image = match images.as_they_are.contains(&channel) {
            true => as_it_is(device, Role::Subject, &**volume),
            false => calibrated(device, Role::Subject, &**volume),
        };
        image.map_err(|e| of_file(e, file))
    };
    images.channels.iter().enumerate().map(on).collect()
}

/// An image on a grid, after a displacement of that grid and an affine map.
pub(in crate::atlas) fn onto<D: Device>(
    device: &D,
    image: &DeviceImage<D>,
    grid: &Grid,
    affine: &Affine,
    field: &D::Buffer<f32>,
) -> Result<D::Buffer<f32>> {
    let image = image.at(device, finest(grid))?;
    let moved = Moved::new(image, grid, affine);
    let mut out = device.alloc::<f32>(grid.len())?;
    moved.warp_to(device, field, grid.dims(), &mut out)?;
    Ok(out)
}

/// An error of an image, with its file.
pub(in crate::atlas) fn of_file(error: RegisterError, file: &std::path::Path) -> PopulationError {
    match error {
        RegisterError::Compute(error) => error.into(),
        other => PopulationError::Subject { file: file.to_owned(), source: Box::new(other) },
    }
}

/// A mask as 0 and 1, on the grid of its image.
fn mask_on<D: Device>(
    device: &D,
    mask: &voxalign_image::Volume<f32>,
    image: &voxalign_image::Volume<f32>,
    file: &std::path::Path,
) -> Result<DeviceImage<D>> {
    if !mask.grid().approx_eq(image.grid(), 1e-3) {
        return Err(PopulationError::OtherGrid {
            file: file.to_owned(),
            what: "its mask",
            found: mask.grid().to_string(),
            other: file.to_owned(),
            expected: image.grid().to_string(),
        });
    }
    let mut values = device.upload(mask.data())?;
    device.eval_in_place(&x(0).gt(0.0), &mut values, &[], &[], None)?;
    if device.reduce(&[&values], &[Reduction::Sum(0)])?[0] <= 0.0 {
        return Err(PopulationError::Input {
            file: file.to_owned(),
            what: "its mask selects no voxel; at least some of its values must be above 0"
                .to_owned(),
        });
    }
    Ok(DeviceImage { grid: mask.grid().clone(), values, outside: 0.0, open: false })
}

/// Lets a voxel count only where all that its value was interpolated from does.
pub(in crate::atlas) fn whole<D: Device>(device: &D, weights: &mut D::Buffer<f32>) -> Result<()> {
    Ok(device.eval_in_place(&x(0).gt(0.99), weights, &[], &[], None)?)
}
