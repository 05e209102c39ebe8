//! The images at the scales of a registration.

use super::input::Source;
use super::prepare::{fixed_weight, moving_mask, normalised};
use crate::error::{RegisterError, Result};
use crate::metric::Cost;
use crate::metric::range::robust_range;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::{param, select, x};
use voxalign_compute::ops::filter::{GaussianMethod, SIGMA_NONE};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::{Grid, Vector3};

/// Standard deviation of the smoothing that goes with a sample spacing, as a part of it: a full
/// width at half maximum of one spacing.
const SIGMA_OF_SPACING: f64 = 0.425;
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

/// The part of the data's spacing from which a stage is not finer than the data.
const NOT_FINER: f64 = 0.75;

/// The default stages for two images: 8, 4, 2 and 1 mm for heads; finer for small things, coarser
/// for large ones; without those finer than the data.
pub(super) fn default_levels(fixed: &Grid, moving: &Grid) -> Vec<f64> {
    let extent = |g: &Grid| {
        let mut e: Vec<f64> = (0..3).filter(|&a| g.dims()[a] > 1).map(|a| g.extent()[a]).collect();
        e.sort_by(f64::total_cmp);
        e.get(e.len() / 2).copied().unwrap_or(1.0)
    };
    let e = extent(fixed).min(extent(moving));
    let unit = if e < 128.0 {
        e / 128.0
    } else if e > 320.0 {
        e / 320.0
    } else {
        1.0
    };
    [8.0, 4.0, 2.0, 1.0].iter().map(|l| l * unit).collect()
}

/// The smallest spacing along an axis of more than one voxel, of the coarser of two grids, mm.
fn finest_of_both(fixed: &Grid, moving: &Grid) -> f64 {
    let finest = |g: &Grid| {
        (0..3).filter(|&a| g.dims()[a] > 1).map(|a| g.spacing()[a]).fold(f64::MAX, f64::min)
    };
    finest(fixed).max(finest(moving))
}

/// How much finer than the data stages may be said to be: lists that serve images of several
/// spacings are usual, and their finest stages are left out.
const FINER: f64 = 8.0;

/// Refuses stages that are finer than the data by more than a factor, or all finer than the data: the
/// first stage searches, which takes for ever on full images.
pub(super) fn check_levels(levels: &[f64], fixed: &Grid, moving: &Grid) -> Result<()> {
    let data = finest_of_both(fixed, moving);
    let coarsest = levels.iter().copied().fold(0.0, f64::max);
    let wrong = match levels.iter().find(|&&l| l < data / FINER) {
        Some(&level) => level,
        None if coarsest < NOT_FINER * data => coarsest,
        None => return Ok(()),
    };
    Err(RegisterError::Option {
        option: "levels",
        value: format!("{wrong} mm"),
        remedy: format!(
            "the images have voxels of {} mm; give spacings from there on, coarse to fine, such as \
             8,4,2,1, or leave the option out",
            (data * 1e4).round() / 1e4
        ),
    })
}

/// Those stages that are not finer than the data, coarse to fine; at least one.
pub(super) fn usable_levels(levels: &[f64], fixed: &Grid, moving: &Grid) -> Vec<f64> {
    let data = finest_of_both(fixed, moving);
    let mut usable: Vec<f64> = levels.iter().copied().filter(|&l| l >= NOT_FINER * data).collect();
    usable.sort_by(|a, b| b.total_cmp(a));
    usable.dedup();
    if usable.is_empty() {
        usable.push(data);
    }
    usable
}

/// Both images at all levels (given coarse to fine), coarse to fine.
///
/// For differences of intensities the moving image is normalised by the fixed one's numbers. For
/// the correlation ratio the fixed image is not smoothed: its values only name bins, and smoothing
/// makes values between two tissues name a third, which costs accuracy at the coarse stages.
pub(super) fn build<D: Device>(
    device: &D,
    source: Source<'_, D>,
    levels: &[f64],
    cost: Cost,
) -> Result<Vec<(Scaled<D>, Scaled<D>)>> {
    let input = source.input();
    let flat = |g: &Grid| if g.is_2d() { 2 } else { 3 };
    let (fixed_dims, moving_dims) = (flat(&input.fixed_grid), flat(&input.moving_grid));
    if fixed_dims != moving_dims {
        return Err(RegisterError::Dimensions { fixed: fixed_dims, moving: moving_dims });
    }
    for (role, grid) in [("fixed", &input.fixed_grid), ("moving", &input.moving_grid)] {
        let [x, y, _] = grid.dims();
        if x < 2 || y < 2 {
            let axis = if x < 2 { 'x' } else { 'y' };
            return Err(RegisterError::FlatAxis { role, axis, dims: grid.dims() });
        }
    }
    input.check()?;
    let weight = fixed_weight(device, input)?;
    let mask = moving_mask(device, input)?;
    let (fixed_grid, moving_grid) = (input.fixed_grid.clone(), input.moving_grid.clone());
    let [fixed, moving] = source.values();
    let (fixed, normal) = normalised(device, "fixed", fixed, weight.as_ref(), None)?;
    let given = (cost == Cost::Ssd).then_some(normal);
    let (moving, _) = normalised(device, "moving", moving, mask.as_ref(), given)?;
    let scaled = |grid: Grid, values, weight: Option<_>| Scaled {
        grid,
        values: Arc::new(values),
        weight: weight.map(Arc::new),
    };
    let fixed_sigma = if cost == Cost::Cr { 0.0 } else { SIGMA_OF_SPACING };
    let finest = scaled(fixed_grid, fixed.values, weight);
    let fixed = one(device, finest, fixed.background, levels, fixed_sigma)?;
    let finest = scaled(moving_grid, moving.values, mask);
    let moving = one(device, finest, moving.background, levels, SIGMA_OF_SPACING)?;
    Ok(fixed.into_iter().zip(moving).collect())
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

/// Centre of mass (world mm), root-mean-square distance from it, and principal axes (columns, by
/// falling spread) of an image: voxels count by weight times how far they are above the
/// background.
pub(super) struct Moments {
    pub(super) centre: Vector3<f64>,
    pub(super) radius: f64,
    pub(super) axes: nalgebra::Matrix3<f64>,
}

/// The moments of an image, which is read back for it.
pub(super) fn moments<D: Device>(device: &D, image: &Scaled<D>) -> Result<Moments> {
    let values = device.download(&image.values)?;
    let weight = image.weight.as_ref().map(|w| device.download(w)).transpose()?;
    Ok(moments_of(&image.grid, &values, weight.as_deref()))
}

fn moments_of(grid: &Grid, values: &[f32], weight: Option<&[f32]>) -> Moments {
    let (low, high) = robust_range(values, 0.02, 0.98).unwrap_or((0.0, 1.0));
    let [nx, ny, _] = grid.dims();
    let mut n = 0.0;
    let mut s = Vector3::zeros();
    let mut ss = nalgebra::Matrix3::zeros();
    let origin = grid.centre();
    for (i, &v) in values.iter().enumerate() {
        let w = f64::from((v.min(high) - low).max(0.0)) * weight.map_or(1.0, |w| f64::from(w[i]));
        if w > 0.0 {
            let index = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / (nx * ny)) as f64);
            let p = grid.index_to_world(index) - origin;
            n += w;
            s += p * w;
            ss += p * p.transpose() * w;
        }
    }
    if n <= 0.0 {
        let radius = grid.extent().iter().fold(0.0f64, |a, &b| a.max(b)) / 4.0;
        return Moments { centre: origin, radius, axes: nalgebra::Matrix3::identity() };
    }
    let mean = s / n;
    let spread = ss / n - mean * mean.transpose();
    let radius = spread.trace().max(1e-12).sqrt();
    let eigen = spread.symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
    let axes =
        nalgebra::Matrix3::from_columns(&order.map(|k| eigen.eigenvectors.column(k).into_owned()));
    Moments { centre: origin + mean, radius, axes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_fit_the_data() {
        let head = Grid::axis_aligned([182, 218, 182], [1.0; 3]).unwrap();
        assert_eq!(default_levels(&head, &head), [8.0, 4.0, 2.0, 1.0]);
        let two = Grid::axis_aligned([91, 109, 91], [2.0; 3]).unwrap();
        let levels = default_levels(&head, &two);
        assert_eq!(usable_levels(&levels, &head, &two), [8.0, 4.0, 2.0]);
        let thick = Grid::axis_aligned([182, 218, 36], [1.0, 1.0, 5.0]).unwrap();
        assert_eq!(usable_levels(&levels, &thick, &head), [8.0, 4.0, 2.0, 1.0]);
        let crop = Grid::axis_aligned([35, 51, 35], [1.0; 3]).unwrap();
        let levels = usable_levels(&default_levels(&crop, &crop), &crop, &crop);
        assert!(levels.len() == 2 && levels[0] < 3.0, "{levels:?}");
        let slides = Grid::axis_aligned([4473, 3679, 1], [1.0; 3]).unwrap();
        let levels = default_levels(&slides, &slides);
        assert!(levels[0] > 80.0 && levels[3] > 10.0);
        assert_eq!(usable_levels(&[0.1], &head, &head), [1.0]);
        assert!(check_levels(&[8.0, 4.0, 2.0, 1.0], &head, &two).is_ok());
        assert!(check_levels(&[0.75], &head, &head).is_ok());
        for bad in [&[1e-9][..], &[8.0, 4.0, 1e-9], &[0.7], &[1e-300]] {
            let said = check_levels(bad, &head, &head).unwrap_err().to_string();
            assert!(said.contains("levels is") && said.contains("voxels of 1 mm"), "{said}");
        }
    }
}
