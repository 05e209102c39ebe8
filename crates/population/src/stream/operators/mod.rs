//! Operators over many images (Ha 2011, section 4.3.1): [`Mimo`] makes an image of each, [`Miso`] one result of
//! all, [`SlidingWindow`] an image of each and its neighbours.

mod correlation;
mod energy;
mod extreme;
mod mean;
mod normalise;
mod product;
mod smooth;
mod variance;
mod window;

pub use correlation::Correlation;
pub use energy::{Energies, Energy};
pub use extreme::{Extreme, LargestValue};
pub use mean::Mean;
pub use normalise::{Normalise, Numbers, Target};
pub use product::Product;
pub use smooth::Smooth;
pub use variance::Variance;
pub use window::WindowMean;

use crate::error::{PopulationError, Result};
use voxalign_compute::{Device, Dims};

/// Facts about the images before they are loaded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stack {
    /// Sizes, voxels.
    pub dims: Dims,
    /// Spacing, mm.
    pub spacing: [f64; 3],
    /// The number of images.
    pub count: usize,
}

impl Stack {
    /// The voxels of an image.
    #[must_use]
    pub fn voxels(&self) -> usize {
        self.dims.iter().product()
    }
}

/// Multiple inputs, multiple outputs: an image of each image.
pub trait Mimo<D: Device>: Sync {
    /// Memory that is made once for each queue.
    type Work: Send;

    /// Makes it.
    ///
    /// # Errors
    /// Too little memory; an option that does not suit the images.
    fn workspace(&self, device: &D, stack: &Stack) -> Result<Self::Work>;

    /// Whether numbers are downloaded to the host in the middle, by [`measure`](Self::measure): a single-threaded
    /// host program would stall for it.
    fn synchronises(&self) -> bool {
        false
    }

    /// Numbers of an image that are needed on the host.
    ///
    /// # Errors
    /// What fails on the device.
    fn measure(&self, device: &D, image: &D::Buffer<f32>) -> Result<Vec<f64>> {
        let _ = (device, image);
        Ok(Vec::new())
    }

    /// Makes the image `out` of `image` and its numbers.
    ///
    /// # Errors
    /// What fails on the device.
    fn apply(
        &self,
        device: &D,
        image: &D::Buffer<f32>,
        numbers: &[f64],
        work: &mut Self::Work,
        out: &mut D::Buffer<f32>,
    ) -> Result<()>;
}

/// Multiple inputs, a single output: an image or a few numbers. The result is the same for any order of the
/// images.
pub trait Miso<D: Device>: Sync {
    /// The accumulated result so far.
    type State: Send;
    /// The result.
    type Output;

    /// The state before the first image.
    ///
    /// # Errors
    /// Too little memory; an option that does not suit the images.
    fn start(&self, device: &D, stack: &Stack) -> Result<Self::State>;

    /// Adds image number `item`.
    ///
    /// # Errors
    /// What fails on the device.
    fn add(
        &self,
        device: &D,
        item: usize,
        image: &D::Buffer<f32>,
        state: &mut Self::State,
    ) -> Result<()>;

    /// The result of all images.
    ///
    /// # Errors
    /// What fails on the device.
    fn finish(&self, device: &D, stack: &Stack, state: Self::State) -> Result<Self::Output>;
}

/// The images of a window on the device.
pub struct Window<'w, D: Device> {
    /// In order; fewer at the ends of the series.
    pub images: &'w [&'w D::Buffer<f32>],
    /// The place among them of the image that is worked on.
    pub centre: usize,
    /// Its number.
    pub item: usize,
}

/// An image of each image and its neighbours in the series.
pub trait SlidingWindow<D: Device>: Sync {
    /// Memory that is made once for each queue.
    type Work: Send;

    /// The number of neighbours used on each side.
    fn radius(&self) -> usize;

    /// As [`Mimo::workspace`].
    ///
    /// # Errors
    /// As there.
    fn workspace(&self, device: &D, stack: &Stack) -> Result<Self::Work>;

    /// As [`Mimo::synchronises`].
    fn synchronises(&self) -> bool {
        false
    }

    /// As [`Mimo::measure`].
    ///
    /// # Errors
    /// As there.
    fn measure(&self, device: &D, window: &Window<'_, D>) -> Result<Vec<f64>> {
        let _ = (device, window);
        Ok(Vec::new())
    }

    /// As [`Mimo::apply`].
    ///
    /// # Errors
    /// As there.
    fn apply(
        &self,
        device: &D,
        window: &Window<'_, D>,
        numbers: &[f64],
        work: &mut Self::Work,
        out: &mut D::Buffer<f32>,
    ) -> Result<()>;
}

/// The units of a sum in fixed point, as a power of two: as small as they can be for `most` to fit.
fn units(most: f64) -> f64 {
    /// Two bits for the sign and for what rounding adds.
    const BITS: i32 = 61;
    let exponent = if most > 0.0 { most.log2().ceil() as i32 } else { 0 };
    // Not beyond what `f64` has, however small the values.
    f64::from((BITS - exponent).clamp(-1000, 1000)).exp2()
}

fn option(option: &'static str, value: impl ToString, remedy: &str) -> PopulationError {
    PopulationError::option(option, value, remedy)
}
