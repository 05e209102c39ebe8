//! One image at the scales of a registration.

use super::prepare::{Normal, Normalised, Values, normalised};
use crate::error::{Result, Role};
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::filter::{GaussianMethod, SIGMA_NONE};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::Grid;

/// An axis is kept as it is where the wanted spacing is below this many times its own.
const KEEP: f64 = 1.3;
/// Smoothed weights below this count as none.
const NO_WEIGHT: f32 = 1e-3;

/// An image at one scale, on the device. Scales of the same grid share their buffers.
pub(super) struct Scaled<D: Device> {
    pub(super) grid: Grid,
    pub(super) values: Arc<D::Buffer<f32>>,
    /// Fixed: weight; moving: mask. 0 where a voxel does not count.
    pub(super) weight: Option<Arc<D::Buffer<f32>>>,
}

impl<D: Device> Clone for Scaled<D> {
    fn clone(&self) -> Self {
        Self {
            grid: self.grid.clone(),
            values: Arc::clone(&self.values),
            weight: self.weight.clone(),
        }
    }
}

/// An image on the scale of a registration, as fine as it was read.
pub(super) struct Finest<D: Device> {
    pub(super) image: Scaled<D>,
    /// The value that counts as background.
    background: f32,
    pub(super) normal: Normal,
}

impl<D: Device> Finest<D> {
    /// Of values as they were read, under the numbers of another image where these are `given`.
    pub(super) fn new(
        device: &D,
        (role, grid): (Role, Grid),
        values: Values<'_, D>,
        weight: Option<D::Buffer<f32>>,
        given: Option<Normal>,
    ) -> Result<Self> {
        let (Normalised { values, background }, normal) =
            normalised(device, role, values, weight.as_ref(), given)?;
        let (values, weight) = (Arc::new(values), weight.map(Arc::new));
        Ok(Self { image: Scaled { grid, values, weight }, background, normal })
    }

    /// The image at levels, coarse to fine.
    pub(super) fn at(&self, device: &D, levels: &[f64], sigma: f64) -> Result<Vec<Scaled<D>>> {
        one(device, self.image.clone(), self.background, levels, sigma)
    }

    /// The same values, all of which count.
    pub(super) fn unweighted(&self) -> Self {
        let image = Scaled { weight: None, ..self.image.clone() };
        Self { image, ..*self }
    }
}

/// One image at all levels, coarse to fine: each made from the next finer one.
fn one<D: Device>(
    device: &D,
    image: Scaled<D>,
    background: f32,
    levels: &[f64],
    sigma_of_spacing: f64,
) -> Result<Vec<Scaled<D>>> {
    let mut scaled: Vec<Scaled<D>> = Vec::with_capacity(levels.len());
    let mut source = image;
    for &level in levels.iter().rev() {
        let spacing = source.grid.spacing();
        let dims = source.grid.dims();
        let keep = |a: usize| dims[a] == 1 || level < KEEP * spacing[a];
        let wanted: [f64; 3] = std::array::from_fn(|a| if keep(a) { spacing[a] } else { level });
        if !(0..3).all(keep) {
            let mut target = source.grid.with_spacing(wanted)?;
            // Cells of interpolation need two voxels; a thin slab is not a slice.
            let thin = |a: usize| target.dims()[a] < 2 && dims[a] > 1;
            let wanted: [f64; 3] =
                std::array::from_fn(|a| if thin(a) { spacing[a] } else { wanted[a] });
            if (0..3).any(thin) {
                target = source.grid.with_spacing(wanted)?;
            }
            let sigma: [f64; 3] = std::array::from_fn(|a| {
                let blur = (level * level - spacing[a] * spacing[a]).max(0.0).sqrt();
                let shrinks = !keep(a) && wanted[a] > spacing[a];
                if shrinks { sigma_of_spacing * blur / spacing[a] } else { 0.0 }
            });
            let to = Shrink { device, grid: &source.grid, target: &target, sigma };
            source = to.image(&source.values, source.weight.as_deref(), background)?;
        }
        scaled.push(source.clone());
    }
    scaled.reverse();
    Ok(scaled)
}

/// Smoothing and resampling onto a coarser grid.
struct Shrink<'a, D: Device> {
    device: &'a D,
    grid: &'a Grid,
    target: &'a Grid,
    /// Voxels of the finer grid.
    sigma: [f64; 3],
}

impl<D: Device> Shrink<'_, D> {
    /// An image on the coarser grid.
    fn image(
        &self,
        values: &D::Buffer<f32>,
        weight: Option<&D::Buffer<f32>>,
        background: f32,
    ) -> Result<Scaled<D>> {
        let Some(weight) = weight else {
            return Ok(self.scaled(self.apply(values, background)?, None));
        };
        // What does not count must not blur into what does: the smoothed product of value and
        // weight over the smoothed weight (normalised convolution, Knutsson and Westin 1993).
        let mut product = self.device.alloc::<f32>(self.grid.len())?;
        let above = (x(0) - param(0)) * x(1);
        self.device.eval(&above, &[values, weight], &[background], None, &mut product)?;
        let mut values = self.apply(&product, 0.0)?;
        drop(product);
        let mut weight = self.apply(weight, 0.0)?;
        let ratio = select(x(1).lt(NO_WEIGHT), 0.0, x(0) / x(1)) + param(0);
        self.device.eval_in_place(&ratio, &mut values, &[&weight], &[background], None)?;
        let counted = select(x(0).lt(NO_WEIGHT), 0.0, x(0));
        self.device.eval_in_place(&counted, &mut weight, &[], &[], None)?;
        Ok(self.scaled(values, Some(weight)))
    }

    fn scaled(&self, values: D::Buffer<f32>, weight: Option<D::Buffer<f32>>) -> Scaled<D> {
        let (values, weight) = (Arc::new(values), weight.map(Arc::new));
        Scaled { grid: self.target.clone(), values, weight }
    }

    fn apply(&self, values: &D::Buffer<f32>, outside: f32) -> Result<D::Buffer<f32>> {
        let (device, dims) = (self.device, self.grid.dims());
        let mut out = device.alloc::<f32>(self.target.len())?;
        let map = self.target.to_world().then(self.grid.to_index()).rows();
        let smooth = if self.sigma.iter().all(|&s| s < SIGMA_NONE) {
            None
        } else {
            let mut smooth = device.alloc::<f32>(self.grid.len())?;
            device.gaussian(values, dims, self.sigma, GaussianMethod::Recursive, &mut smooth)?;
            Some(smooth)
        };
        let from = smooth.as_ref().unwrap_or(values);
        let to = self.target.dims();
        device.warp_affine(from, dims, &map, to, Interpolation::Linear, outside, &mut out)?;
        Ok(out)
    }
}
