//! The driver of an affine registration, including the fallbacks for bad results.

use super::input::{DeviceInput, DeviceMoving, Source};
use super::options::{AffineInput, AffineOptions, Rescue};
use super::prepared::PreparedFixed;
use super::problem::Problem;
use super::rescue::rescued;
use super::result::AffineResult;
use super::stages::search;
use crate::error::Result;
use crate::metric::level::of_sums;
use crate::progress::Progress;
use voxalign_compute::Device;
use voxalign_image::ImageView;
use voxalign_options::{Choice, Parameters};

fn check(options: &AffineOptions) -> Result<()> {
    let similarity = options.first_similarity();
    of_sums(&similarity)?;
    similarity.check()?;
    options.check()?;
    options.search.check()?;
    options.optimiser.check()?;
    Ok(())
}

/// Registers the moving image to the fixed image by an affine map.
///
/// The result maps fixed world to moving world (RAS+ mm). It has the same bits for any number of
/// threads, and at every run on a GPU. Outside of the moving image nothing counts. Method: see the
/// [module](crate::linear).
///
/// # Errors
/// [`Option`](crate::RegisterError::Option) for options out of range; an error that names the image
/// for images that are constant, not finite, too small (fewer than 16 voxels that count), flat along
/// another axis than the last, or of different dimension, and for masks that are empty or on another
/// grid than their image; [`NoOverlap`](crate::RegisterError::NoOverlap) at the start;
/// [`Compute`](crate::RegisterError::Compute) when memory runs out;
/// [`Stopped`](crate::RegisterError::Stopped) when the listener asks for it.
pub fn register_affine<D: Device>(
    device: &D,
    input: &AffineInput<'_>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    check(options)?;
    let source = || Ok(Source::Own(Box::new(DeviceInput::upload(device, input)?)));
    registered(device, &source, options, progress)
}

/// As [`register_affine`], of images that are on the device already.
///
/// # Errors
/// As [`register_affine`], and buffers that do not have the length of their grids.
pub fn register_affine_on_device<D: Device>(
    device: &D,
    input: &DeviceInput<D>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    check(options)?;
    registered(device, &|| Ok(Source::Lent(input)), options, progress)
}

impl<D: Device> PreparedFixed<D> {
    /// Registers a moving image to it, of which only voxels where the `mask` is above 0 count.
    ///
    /// # Errors
    /// As of [`register_affine`](super::register_affine).
    pub fn register<'a>(
        &self,
        moving: impl Into<ImageView<'a>>,
        mask: Option<ImageView<'a>>,
        options: &AffineOptions,
        progress: &dyn Progress,
    ) -> Result<AffineResult> {
        check(options)?;
        let moving = moving.into();
        let source = || {
            let moving = DeviceMoving::upload(&self.device, moving, mask)?;
            Ok(Source::Prepared(self, Box::new(moving)))
        };
        registered(&self.device, &source, options, progress)
    }
}

/// Registers, and tries other ways where the result is bad.
fn registered<'a, D: Device + 'a>(
    device: &D,
    source: &dyn Fn() -> Result<Source<'a, D>>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    let problem = Problem::new(device, source()?, options)?;
    let found = search(device, problem, options, progress)?;
    if found.verdict.good || options.rescue == Rescue::Off || !options.search.moves() {
        return Ok(found);
    }
    rescued(device, source, options, progress, found)
}
