//! A prepared fixed image that is reused for many moving images.

use super::prepare::{Values, fixed_weight};
use super::scales::{Finest, Scaled};
use crate::error::{Result, Role, check_grid};
use crate::there::uploaded;
use std::sync::{Mutex, PoisonError};
use voxalign_compute::Device;
use voxalign_image::{Grid, ImageView};

/// An image with all scales that were asked for.
pub(super) struct Prepared<D: Device> {
    finest: Finest<D>,
    made: Mutex<Vec<Made<D>>>,
}

/// The image at levels, and what these were made with.
struct Made<D: Device> {
    /// Voxel sizes, mm.
    levels: Vec<f64>,
    /// The smoothing of the image, in voxel sizes of a level.
    sigma: f64,
    scales: Vec<Scaled<D>>,
}

impl<D: Device> Prepared<D> {
    fn new(finest: Finest<D>) -> Self {
        Self { finest, made: Mutex::default() }
    }

    pub(super) fn finest(&self) -> &Finest<D> {
        &self.finest
    }

    /// The image at levels, coarse to fine: made once.
    pub(super) fn at(&self, device: &D, levels: &[f64], sigma: f64) -> Result<Vec<Scaled<D>>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = made.iter().find(|made| made.levels == levels && made.sigma == sigma) {
            return Ok(made.scales.clone());
        }
        let scales = self.finest.at(device, levels, sigma)?;
        made.push(Made { levels: levels.to_vec(), sigma, scales: scales.clone() });
        Ok(scales)
    }
}

/// A fixed image that stays on a device with its scales, for the affine registration of many moving ones.
///
/// What is found is what [`register_affine`](super::register_affine) finds, to the bit. The image takes 4 bytes a voxel of the
/// device, twice that where voxels are weighted, and what its scales take, which is 4 bytes a voxel of each.
///
/// ```no_run
/// use voxalign_compute::cpu::Cpu;
/// use voxalign_image::Volume;
/// use voxalign_register::Silent;
/// use voxalign_register::linear::{AffineOptions, PreparedFixed};
///
/// fn all(template: &Volume<f32>, scans: &[Volume<f32>]) -> voxalign_register::Result<()> {
///     let fixed = PreparedFixed::new(&Cpu::new(None)?, template, None, None)?;
///     for scan in scans {
///         let found = fixed.register(scan, None, &AffineOptions::default(), &Silent)?;
///         println!("{}", found.verdict.summary());
///     }
///     Ok(())
/// }
/// ```
pub struct PreparedFixed<D: Device> {
    pub(super) device: D,
    grid: Grid,
    weighted: Prepared<D>,
    /// The image of which all voxels count, where masks or weights keep some.
    unweighted: Option<Prepared<D>>,
}

impl<D: Device> PreparedFixed<D> {
    /// Brings an image to a device. Only voxels where the `mask` is above 0 count, and they count by their `weight`; both are on
    /// its grid.
    ///
    /// # Errors
    /// An image that is constant, not finite, or has fewer than 16 voxels that count; masks and weights on another grid, that
    /// keep nothing or cannot be; memory that runs out.
    pub fn new<'a>(
        device: &D,
        image: impl Into<ImageView<'a>>,
        mask: Option<ImageView<'a>>,
        weight: Option<ImageView<'a>>,
    ) -> Result<Self> {
        let image = image.into();
        let grid = image.grid().clone();
        for (role, of) in [(Role::FixedMask, mask), (Role::FixedWeight, weight)] {
            of.map_or(Ok(()), |of| check_grid(role, of, &grid))?;
        }
        let upload = |of: Option<ImageView<'a>>| of.map(|of| uploaded(device, of)).transpose();
        let (mask, weight) = (upload(mask)?, upload(weight)?);
        let weight = fixed_weight(device, [mask.as_ref(), weight.as_ref()])?;
        let prepared = |weight: Option<D::Buffer<f32>>| {
            let values = Values::Own(uploaded(device, image)?);
            let finest = Finest::new(device, (Role::Fixed, grid.clone()), values, weight, None)?;
            Ok::<_, crate::RegisterError>(Prepared::new(finest))
        };
        let unweighted = weight.is_some().then(|| prepared(None)).transpose()?;
        let weighted = prepared(weight)?;
        Ok(Self { device: device.clone(), grid, weighted, unweighted })
    }

    /// The grid of the image.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(super) fn weighted(&self) -> &Prepared<D> {
        &self.weighted
    }

    pub(super) fn unweighted(&self) -> &Prepared<D> {
        self.unweighted.as_ref().unwrap_or(&self.weighted)
    }
}
