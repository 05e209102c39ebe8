//! The value outside of an image.

use crate::error::Result;
use rayon::prelude::*;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::ImageView;
use voxalign_register::there::uploaded;

/// The value outside of an image where none is given: 0, or the smallest value where at least a
/// hundredth of the voxels are below 0, as in CT.
#[must_use]
pub fn background<'i>(image: impl Into<ImageView<'i>>) -> f32 {
    let data = image.into().data();
    let below = data.par_iter().filter(|&&v| v < 0.0).count();
    if below * 100 < data.len() {
        return 0.0;
    }
    let smallest = |a: f32, b: f32| a.min(b);
    let finite = data.par_iter().copied().filter(|v| v.is_finite());
    finite.reduce(|| 0.0, smallest)
}

/// As [`background`], which is found on the device where the image is there.
///
/// # Errors
/// What fails on the device.
pub fn background_on<'i, D: Device>(device: &D, image: impl Into<ImageView<'i>>) -> Result<f32> {
    let image = image.into();
    if image.elsewhere().is_none() {
        return Ok(background(image));
    }
    let (values, count) = (uploaded(device, image)?, image.grid().len());
    let mut found = device.alloc::<f32>(count)?;
    device.eval(&x(0).lt(0.0), &[&values], &[], None, &mut found)?;
    let below = device.reduce(&[&found], &[Reduction::Sum(0)])?[0];
    if below * 100.0 < count as f64 {
        return Ok(0.0);
    }
    let finite = select(x(0).abs().le(f32::MAX), x(0), param(0));
    device.eval(&finite, &[&values], &[0.0], None, &mut found)?;
    Ok(device.reduce(&[&found], &[Reduction::Min(0)])?[0] as f32)
}
