//! Masks of the moving image: voxels to ignore, such as lesions, artefacts or structures that only one subject
//! has.
//!
//! What is outside of the mask takes part in nothing. Its values are [filled](fill) in from around
//! before the first scale, so that neither smoothing, nor windows, nor gradients next to it see what was
//! there; and at every iteration the mask is warped with the moving image, so that a voxel of the grid
//! counts where all that it shows is inside.

use super::images::{DeviceImage, Moved, finest};
use crate::error::{RegisterError, Result, Role};
use crate::there::uploaded;
use voxalign_compute::ops::elementwise::{constant, param, select, x};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, DeviceBuffer, Dims};
use voxalign_image::{Affine, Grid, ImageView};

/// The fraction of a voxel that has to be inside the mask to count.
const WHOLE: f32 = 0.99;
/// The fraction of a Gaussian that must be inside the known region to fill in its centre.
const KNOWN: f32 = 0.05;

/// A mask of the moving image, which flows with it.
pub struct MovingMask<D: Device> {
    /// 1 where the image counts, 0 elsewhere, on the grid of the image.
    image: DeviceImage<D>,
    /// The same at the current scale.
    moved: Option<Moved<D>>,
    /// The smallest value of a voxel that counts at the current scale.
    level: f32,
}

impl<D: Device> MovingMask<D> {
    /// Of a mask whose voxels above 0 count.
    ///
    /// # Errors
    /// [`EmptyMask`](RegisterError::EmptyMask) for one without any; memory that runs out.
    pub fn new<'a>(device: &D, mask: impl Into<ImageView<'a>>) -> Result<Self> {
        let mask = mask.into();
        let mut values = uploaded(device, mask)?;
        device.eval_in_place(&x(0).gt(0.0), &mut values, &[], &[], None)?;
        if device.reduce(&[&values], &[Reduction::Sum(0)])?[0] <= 0.0 {
            return Err(RegisterError::EmptyMask { role: Role::MovingMask });
        }
        let image = DeviceImage { grid: mask.grid().clone(), values, outside: 0.0, open: false };
        Ok(Self { image, moved: None, level: WHOLE })
    }

    /// The mask (0 and 1) on the grid of another image of the moving world.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn on(&self, device: &D, grid: &Grid) -> Result<D::Buffer<f32>> {
        let (from, to) = (self.image.grid.dims(), grid.dims());
        let mut out = device.alloc::<f32>(grid.len())?;
        if self.image.grid == *grid {
            device.copy(&self.image.values, &mut out)?;
            return Ok(out);
        }
        let map = Moved::<D>::map_of(grid, &Affine::identity(), &self.image.grid);
        let linear = Interpolation::Linear;
        device.warp_affine(&self.image.values, from, &map, to, linear, 0.0, &mut out)?;
        device.eval_in_place(&x(0).gt(param(0)), &mut out, &[], &[WHOLE], None)?;
        Ok(out)
    }

    /// Brings it to a scale with voxels of about `target` mm, of which `grid` is the grid, and `affine`
    /// leads from its world to that of the image. Where no voxel is whole at so coarse a scale, those
    /// count that are most so.
    ///
    /// # Errors
    /// [`NothingCounts`](RegisterError::NothingCounts) where nothing is left of the mask under `field`,
    /// voxels of `grid`, together with what the `others` let count; memory that runs out.
    pub fn to_scale(
        &mut self,
        device: &D,
        grid: &Grid,
        affine: &Affine,
        target: f64,
        field: &D::Buffer<f32>,
        others: Option<&D::Buffer<f32>>,
    ) -> Result<()> {
        let image = self.image.at(device, target)?;
        let moved = Moved::new(image, grid, affine);
        let mut warped = device.alloc::<f32>(grid.len())?;
        moved.warp_to(device, field, grid.dims(), &mut warped)?;
        let most = device.reduce(&[&warped], &[Reduction::Max(0)])?[0] as f32;
        let level = WHOLE * most.min(1.0);
        if let Some(others) = others {
            // What smoothing left beyond the border of another mask is not inside of it.
            let half = 0.5 * device.reduce(&[others], &[Reduction::Max(0)])?[0] as f32;
            let inside = select(x(1).gt(param(0)), x(0), constant(0.0));
            device.eval_in_place(&inside, &mut warped, &[others], &[half], None)?;
        }
        let left = device.reduce(&[&warped], &[Reduction::Max(0)])?[0] as f32;
        if left.is_nan() || left <= level || level <= 0.0 {
            return Err(RegisterError::NothingCounts);
        }
        self.level = level;
        self.moved = Some(moved);
        Ok(())
    }

    /// What voxels of the grid of the scale count under `field`: `others`, or 1, where all that a voxel
    /// shows of the moving image is inside of the mask, else 0.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn weights(
        &self,
        device: &D,
        field: &D::Buffer<f32>,
        dims: Dims,
        others: Option<&D::Buffer<f32>>,
    ) -> Result<Option<D::Buffer<f32>>> {
        let Some(moved) = &self.moved else { return Ok(None) };
        let mut weights = device.alloc::<f32>(dims.iter().product())?;
        moved.warp_to(device, field, dims, &mut weights)?;
        let inside = x(0).gt(param(0));
        match others {
            None => device.eval_in_place(&inside, &mut weights, &[], &[self.level], None)?,
            Some(others) => {
                let product = inside * x(1);
                device.eval_in_place(&product, &mut weights, &[others], &[self.level], None)?;
            }
        }
        Ok(Some(weights))
    }
}

/// Fills the voxels that a mask (0 and 1) excludes from their surroundings: by Gaussian means of the known voxels,
/// narrow ones first (normalised convolution; H. Knutsson, C.-F. Westin, "Normalized and differential convolution",
/// CVPR 1993). The excluded values of the image have no influence.
///
/// # Errors
/// Memory that runs out.
pub fn fill<D: Device>(
    device: &D,
    image: &mut DeviceImage<D>,
    mask: &D::Buffer<f32>,
) -> Result<()> {
    let (dims, spacing) = (image.grid.dims(), image.grid.spacing());
    let finest = finest(&image.grid);
    let n = mask.len();
    let mut known = device.alloc::<f32>(n)?;
    device.copy(mask, &mut known)?;
    let inside = select(x(1).gt(0.0), x(0), constant(0.0));
    device.eval_in_place(&inside, &mut image.values, &[mask], &[], None)?;
    let (mut means, mut parts) = (device.alloc::<f32>(n)?, device.alloc::<f32>(n)?);
    let longest = (0..3).map(|a| dims[a] as f64 * spacing[a] / finest).fold(1.0, f64::max);
    let mut width = 1.0;
    while width < longest && device.reduce(&[&known], &[Reduction::Min(0)])?[0] <= 0.0 {
        let sigma = spacing.map(|h| width * finest / h);
        device.gaussian(&image.values, dims, sigma, GaussianMethod::Recursive, &mut means)?;
        device.gaussian(&known, dims, sigma, GaussianMethod::Recursive, &mut parts)?;
        // Of what is not known yet, where enough of the Gaussian is: x1 known, x2 means, x3 parts.
        let enough = x(3).gt(param(0));
        let filled = select(enough.clone(), x(2) / x(3).max(param(0)), constant(0.0));
        let values = select(x(1).gt(0.0), x(0), filled);
        let inputs = [&known, &means, &parts];
        device.eval_in_place(&values, &mut image.values, &inputs, &[KNOWN], None)?;
        let more = x(0).max(x(1).gt(param(0)));
        device.eval_in_place(&more, &mut known, &[&parts], &[KNOWN], None)?;
        width *= 2.0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::Volume;

    /// A ball of radius 5 in the middle of a grid of 24 voxels.
    fn hole(x: usize, y: usize, z: usize) -> bool {
        [x, y, z].into_iter().map(|i| (i as f64 - 11.5).powi(2)).sum::<f64>() < 25.0
    }

    fn grid() -> Grid {
        Grid::axis_aligned([24; 3], [1.0, 1.0, 2.0]).unwrap()
    }

    fn mask() -> Volume<f32> {
        Volume::from_fn(grid(), |x, y, z| f32::from(u8::from(!hole(x, y, z))))
    }

    fn filled(device: &Cpu, content: impl Fn(usize, usize, usize) -> f32) -> Vec<f32> {
        let values = Volume::from_fn(grid(), content);
        let values = device.upload(values.data()).unwrap();
        let mut image = DeviceImage { grid: grid(), values, outside: 0.0, open: false };
        let mask = MovingMask::new(device, &mask()).unwrap().on(device, &grid()).unwrap();
        fill(device, &mut image, &mask).unwrap();
        device.into_host(image.values).unwrap()
    }

    #[test]
    fn what_is_filled_in_comes_from_around() {
        let device = Cpu::new(Some(2)).unwrap();
        let ramp = |x: usize, _: usize, _: usize| 0.2 + 0.02 * x as f32;
        let found = filled(&device, ramp);
        for (content, name) in [(7.0, "bright"), (f32::MAX, "largest"), (-3.0, "dark")] {
            let other =
                filled(&device, |x, y, z| if hole(x, y, z) { content } else { ramp(x, y, z) });
            assert!(other == found, "{name}");
        }
        for (i, &v) in found.iter().enumerate() {
            let (x, y, z) = (i % 24, i / 24 % 24, i / 576);
            let (expected, most) = (ramp(x, y, z), if hole(x, y, z) { 0.04 } else { 0.0 });
            assert!((v - expected).abs() <= most, "{v} for {expected} at {x} {y} {z}");
        }
    }

    #[test]
    fn a_voxel_counts_where_all_that_it_shows_does() {
        let device = Cpu::new(Some(2)).unwrap();
        let n = grid().len();
        let mut mask = MovingMask::new(&device, &mask()).unwrap();
        // Half a voxel to the right.
        let mut field = vec![0f32; 3 * n];
        field[..n].fill(0.5);
        let field = device.upload(&field).unwrap();
        let others: Vec<f32> = (0..n).map(|i| (i % 3) as f32 * 0.5).collect();
        let weight = device.upload(&others).unwrap();
        let unit = Affine::identity();
        mask.to_scale(&device, &grid(), &unit, 1.0, &field, Some(&weight)).unwrap();
        let found = mask.weights(&device, &field, [24; 3], Some(&weight)).unwrap().unwrap();
        for (i, v) in device.into_host(found).unwrap().into_iter().enumerate() {
            let (x, y, z) = (i % 24, i / 24 % 24, i / 576);
            // Half a voxel beyond the last centre is still the last voxel.
            let shows = !hole(x, y, z) && (x == 23 || !hole(x + 1, y, z));
            assert_eq!(v, if shows { others[i] } else { 0.0 }, "{x} {y} {z}");
        }
        // Nothing is left where all else counts for nothing.
        let none = device.upload(&vec![0f32; n]).unwrap();
        let found = mask.to_scale(&device, &grid(), &unit, 1.0, &field, Some(&none));
        assert!(matches!(found, Err(RegisterError::NothingCounts)));
        let empty = MovingMask::new(&device, &Volume::filled(grid(), 0.0));
        assert!(matches!(empty, Err(RegisterError::EmptyMask { role: Role::MovingMask })));
    }

    #[test]
    fn where_no_coarse_voxel_is_whole_the_nearest_to_it_count() {
        let device = Cpu::new(Some(2)).unwrap();
        let thin = Volume::from_fn(grid(), |x, _, _| f32::from(u8::from(x == 11)));
        let mut mask = MovingMask::new(&device, &thin).unwrap();
        let coarse = super::super::images::coarser(&grid(), [4, 4, 2]).unwrap();
        let field = device.alloc::<f32>(3 * coarse.len()).unwrap();
        mask.to_scale(&device, &coarse, &Affine::identity(), 4.0, &field, None).unwrap();
        let found = mask.weights(&device, &field, coarse.dims(), None).unwrap().unwrap();
        let found = device.into_host(found).unwrap();
        let counted = found.iter().filter(|v| **v == 1.0).count();
        assert!(counted > 0 && counted < coarse.len() / 3, "{counted} of {}", coarse.len());
    }
}
