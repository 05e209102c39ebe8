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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Interpolation, OutputOptions};
    use crate::{Silent, affine, apply};
    use voxalign_compute::Memory;
    use voxalign_compute::cuda::Cuda;
    use voxalign_compute::select::AnyDevice;
    use voxalign_image::{Affine, Grid, Transform, Volume};
    use voxalign_register::linear::{AffineOptions, Search};
    use voxalign_register::there::kept;

    /// An object of several blobs on a ground of `ground`.
    fn image(ground: f32, shift: f64) -> Volume<f32> {
        let grid = Grid::axis_aligned([26, 24, 20], [4.0; 3]).unwrap();
        Volume::from_fn(grid, |x, y, z| {
            let blob = |at: [f64; 3], width: f64| {
                let apart = [x, y, z].into_iter().zip(at).map(|(i, c)| i as f64 - c - shift);
                (-apart.map(|d| d * d).sum::<f64>() / width).exp()
            };
            let all =
                [([12.0, 11.0, 9.0], 40.0), ([8.0, 9.0, 7.0], 4.0), ([15.0, 14.0, 12.0], 6.0)];
            ground + all.iter().map(|(at, width)| 100.0 * blob(*at, *width)).sum::<f64>() as f32
        })
    }

    fn emulated() -> Option<Cuda> {
        let device = Cuda::emulated();
        if let Err(e) = &device {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
        }
        device.ok()
    }

    fn there(device: &Cuda, image: &Volume<f32>) -> Volume<f32> {
        let values = device.upload(image.data()).unwrap();
        kept(device, image.grid().clone(), values).unwrap()
    }

    #[test]
    fn what_is_outside_is_found_where_the_image_is() {
        let shift = Affine::translation([30.0, 0.0, 0.0].into());
        for ground in [0.0, 7.0, -1000.0] {
            let Some(device) = emulated() else { return };
            let mut here = image(ground, 0.0);
            here.data_mut()[5] = f32::NEG_INFINITY;
            here.data_mut()[6] = ground;
            let there = there(&device, &here);
            assert_eq!(background_on(&device, &there).unwrap(), background(&here));
            assert_eq!(background(&here), ground.min(0.0));
            let (grid, linear) = (here.grid().clone(), Interpolation::Linear);
            let shift = Transform::Affine(shift);
            let moved = |image| apply::image(&device, image, &grid, &shift, linear, None).unwrap();
            let (host, own) = (moved(&here), moved(&there));
            assert!(host.elsewhere().is_none() && own.elsewhere().is_some());
            assert_eq!(device.transfers().images_to_host, 0);
            let bits =
                |image: &Volume<f32>| image.data().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert!(bits(&host) == bits(&own));
            // That the one which was made came to the host was counted.
            assert_eq!(device.transfers().images_to_host, 4 * grid.len() as u64);
        }
    }

    #[test]
    fn a_job_takes_images_where_they_are() {
        let Some(device) = emulated() else { return };
        let options = AffineOptions { search: Search::Local, ..AffineOptions::default() };
        let written = OutputOptions::default();
        let any = AnyDevice::Cuda(device.clone());
        let images = [image(0.0, 0.0), image(0.0, 1.0)];
        let registered = |[fixed, moving]: [Volume<f32>; 2]| {
            let inputs = affine::Inputs::new(fixed, moving);
            affine::register(&any, &inputs, &options, &written, &Silent).unwrap()
        };
        let own = registered(images.each_ref().map(|image| there(&device, image)));
        assert_eq!(device.transfers().images_to_host, 0);
        assert!(own.views.after.image.elsewhere().is_some());
        let host = registered(images);
        assert_eq!(own.result.transform.rows(), host.result.transform.rows());
        assert_eq!(own.views.after.scores, host.views.after.scores);
        assert_eq!(own.views.before.scores, host.views.before.scores);
        assert!(own.views.after.image == host.views.after.image);
        assert_eq!(own.remarks.len(), host.remarks.len());
    }
}
