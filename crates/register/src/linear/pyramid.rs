//! The images at the scales of a registration.

use super::options::{AffineInput, Cost};
use crate::error::{RegisterError, Result};
use crate::metric::range::{mean_and_deviation, robust_range};
use voxalign_compute::ops::filter::Method;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, Memory};
use voxalign_image::{Grid, Vector3, Volume};

/// Standard deviation of the smoothing that goes with a sample spacing, as a part of it: a full
/// width at half maximum of one spacing.
const SIGMA_OF_SPACING: f64 = 0.425;
/// An axis is kept as it is where the wanted spacing is below this many times its own.
const KEEP: f64 = 1.3;
/// Fewest samples of an image that a registration can work with.
const FEWEST: usize = 16;

/// Host copies of the images at one scale.
pub(super) struct Scaled {
    pub(super) grid: Grid,
    pub(super) values: Vec<f32>,
    /// Fixed: weight; moving: mask. 0 where a voxel does not count.
    pub(super) weight: Option<Vec<f32>>,
}

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

/// Those stages that are not finer than the data, coarse to fine; at least one.
pub(super) fn usable_levels(levels: &[f64], fixed: &Grid, moving: &Grid) -> Vec<f64> {
    let finest = |g: &Grid| {
        (0..3).filter(|&a| g.dims()[a] > 1).map(|a| g.spacing()[a]).fold(f64::MAX, f64::min)
    };
    let data = finest(fixed).max(finest(moving));
    let mut usable: Vec<f64> = levels.iter().copied().filter(|&l| l >= 0.75 * data).collect();
    usable.sort_by(|a, b| b.total_cmp(a));
    usable.dedup();
    if usable.is_empty() {
        usable.push(data);
    }
    usable
}

/// Checks an image and brings its values to mean 0 and deviation 1 under `normal`, which is taken
/// from the image itself where `None`. Returns the copy and what it was divided by.
fn normalised(
    role: &'static str,
    image: &Volume<f32>,
    weight: Option<&[f32]>,
    normal: Option<(f64, f64)>,
) -> Result<(Vec<f32>, (f64, f64))> {
    let bad = image.data().iter().filter(|v| !v.is_finite()).count();
    if bad > 0 {
        return Err(RegisterError::NotFinite { role, count: bad });
    }
    let counted: Vec<f32>;
    let seen = match weight {
        Some(w) => {
            counted =
                image.data().iter().zip(w).filter(|(_, w)| **w > 0.0).map(|(v, _)| *v).collect();
            &counted
        }
        None => image.data(),
    };
    if seen.len() < FEWEST {
        return Err(RegisterError::TooFew { role, samples: seen.len(), needed: FEWEST });
    }
    let own = mean_and_deviation(seen);
    if own.1 <= 1e-6 * own.0.abs().max(f64::from(f32::MIN_POSITIVE)) {
        let within = if weight.is_some() { " inside its mask" } else { "" };
        return Err(RegisterError::Constant { role, value: own.0 as f32, within });
    }
    let (mean, deviation) = normal.unwrap_or(own);
    let values = image.data().iter().map(|&v| ((f64::from(v) - mean) / deviation) as f32).collect();
    Ok((values, (mean, deviation)))
}

fn mask_on(image: &Volume<f32>, mask: &Volume<f32>, role: &'static str) -> Result<()> {
    let voxel = image.grid().spacing().iter().copied().fold(f64::MAX, f64::min);
    if !mask.grid().approx_eq(image.grid(), 0.01 * voxel) {
        return Err(RegisterError::MaskGrid {
            role,
            mask: mask.grid().to_string(),
            image: image.grid().to_string(),
        });
    }
    Ok(())
}

/// The weights of the fixed image: mask and weight together.
fn fixed_weight(input: &AffineInput<'_>) -> Result<Option<Vec<f32>>> {
    if let Some(mask) = input.fixed_mask {
        mask_on(input.fixed, mask, "fixed mask")?;
    }
    if let Some(weight) = input.fixed_weight {
        mask_on(input.fixed, weight, "fixed weight")?;
        if let Some(v) = weight.data().iter().find(|v| !(v.is_finite() && **v >= 0.0)) {
            return Err(RegisterError::Option {
                option: "--fixed-weight",
                value: format!("an image with the value {v}"),
                remedy: "weights are finite and not negative".to_owned(),
            });
        }
    }
    let inside = |v: &f32| if *v > 0.0 { 1.0 } else { 0.0 };
    let weight: Option<Vec<f32>> = match (input.fixed_mask, input.fixed_weight) {
        (None, None) => None,
        (Some(m), None) => Some(m.data().iter().map(inside).collect()),
        (None, Some(w)) => Some(w.data().to_vec()),
        (Some(m), Some(w)) => {
            Some(m.data().iter().zip(w.data()).map(|(m, w)| inside(m) * w).collect())
        }
    };
    // Only the proportions of weights count.
    let Some(mut weight) = weight else { return Ok(None) };
    let largest = weight.iter().copied().fold(0.0, f32::max);
    if largest <= 0.0 {
        return Err(RegisterError::EmptyMask { role: "fixed mask or weight" });
    }
    weight.iter_mut().for_each(|v| *v /= largest);
    Ok(Some(weight))
}

fn moving_mask(input: &AffineInput<'_>) -> Result<Option<Vec<f32>>> {
    let Some(mask) = input.moving_mask else { return Ok(None) };
    mask_on(input.moving, mask, "moving mask")?;
    let inside: Vec<f32> = mask.data().iter().map(|&v| if v > 0.0 { 1.0 } else { 0.0 }).collect();
    if inside.iter().all(|&v| v <= 0.0) {
        return Err(RegisterError::EmptyMask { role: "moving mask" });
    }
    Ok(Some(inside))
}

/// Both images at all levels (given coarse to fine), coarse to fine.
///
/// For differences of intensities the moving image is normalised by the fixed one's numbers. For
/// the correlation ratio the fixed image is not smoothed: its values only name bins, and smoothing
/// makes values between two tissues name a third, which costs accuracy at the coarse stages.
pub(super) fn build<D: Device>(
    device: &D,
    input: &AffineInput<'_>,
    levels: &[f64],
    cost: Cost,
) -> Result<Vec<(Scaled, Scaled)>> {
    let flat = |g: &Grid| if g.is_2d() { 2 } else { 3 };
    let (fixed_dims, moving_dims) = (flat(input.fixed.grid()), flat(input.moving.grid()));
    if fixed_dims != moving_dims {
        return Err(RegisterError::Dimensions { fixed: fixed_dims, moving: moving_dims });
    }
    for (role, image) in [("fixed", input.fixed), ("moving", input.moving)] {
        let [x, y, _] = image.dims();
        if x < 2 || y < 2 {
            let axis = if x < 2 { 'x' } else { 'y' };
            return Err(RegisterError::FlatAxis { role, axis, dims: image.dims() });
        }
    }
    let weight = fixed_weight(input)?;
    let mask = moving_mask(input)?;
    let (fixed, normal) = normalised("fixed", input.fixed, weight.as_deref(), None)?;
    let (moving, _) =
        normalised("moving", input.moving, mask.as_deref(), (cost == Cost::Ssd).then_some(normal))?;
    let fixed_sigma = if cost == Cost::Cr { 0.0 } else { SIGMA_OF_SPACING };
    let fixed = one(device, input.fixed.grid(), fixed, weight, levels, fixed_sigma)?;
    let moving = one(device, input.moving.grid(), moving, mask, levels, SIGMA_OF_SPACING)?;
    Ok(fixed.into_iter().zip(moving).collect())
}

/// One image at all levels, coarse to fine: each made from the next finer one.
fn one<D: Device>(
    device: &D,
    grid: &Grid,
    values: Vec<f32>,
    weight: Option<Vec<f32>>,
    levels: &[f64],
    sigma_of_spacing: f64,
) -> Result<Vec<Scaled>> {
    let background = robust_range(&values, 0.01, 0.99).map_or(0.0, |r| r.0);
    let mut scaled: Vec<Scaled> = Vec::with_capacity(levels.len());
    let mut first = Some((values, weight));
    for &level in levels.iter().rev() {
        let source_grid = scaled.last().map_or(grid, |s| &s.grid);
        let spacing = source_grid.spacing();
        let dims = source_grid.dims();
        let keep = |a: usize| dims[a] == 1 || level < KEEP * spacing[a];
        let wanted: [f64; 3] = std::array::from_fn(|a| if keep(a) { spacing[a] } else { level });
        let sigma: [f64; 3] = std::array::from_fn(|a| {
            let blur = (level * level - spacing[a] * spacing[a]).max(0.0).sqrt();
            if keep(a) { 0.0 } else { sigma_of_spacing * blur / spacing[a] }
        });
        let next = if (0..3).all(keep) {
            let (values, weight) = match (first.take(), scaled.last()) {
                (Some(own), _) => own,
                (None, Some(s)) => (s.values.clone(), s.weight.clone()),
                (None, None) => continue,
            };
            Scaled { grid: source_grid.clone(), values, weight }
        } else {
            let mut target = source_grid.with_spacing(wanted)?;
            // Cells of interpolation need two voxels; a thin slab is not a slice.
            let thin = |a: usize| target.dims()[a] < 2 && dims[a] > 1;
            let wanted: [f64; 3] =
                std::array::from_fn(|a| if thin(a) { spacing[a] } else { wanted[a] });
            if (0..3).any(thin) {
                target = source_grid.with_spacing(wanted)?;
            }
            let sigma: [f64; 3] =
                std::array::from_fn(|a| if wanted[a] > spacing[a] { sigma[a] } else { 0.0 });
            let (values, weight) = match (first.take(), scaled.last()) {
                (Some(own), _) => own,
                (None, Some(s)) => (s.values.clone(), s.weight.clone()),
                (None, None) => continue,
            };
            let to = Shrink { grid: source_grid, target: &target, sigma };
            let (values, weight) = match weight {
                None => (to.apply(device, values, background)?, None),
                Some(weight) => {
                    // What does not count must not blur into what does: the smoothed product of
                    // value and weight over the smoothed weight (normalised convolution, Knutsson
                    // and Westin 1993).
                    let product =
                        values.iter().zip(&weight).map(|(v, w)| (v - background) * w).collect();
                    let product = to.apply(device, product, 0.0)?;
                    let weight = to.apply(device, weight, 0.0)?;
                    let counted = |w: f32| if w < 1e-3 { 0.0 } else { w };
                    let values = product
                        .iter()
                        .zip(&weight)
                        .map(|(p, &w)| background + if counted(w) > 0.0 { p / w } else { 0.0 })
                        .collect();
                    (values, Some(weight.into_iter().map(counted).collect()))
                }
            };
            Scaled { grid: target, values, weight }
        };
        scaled.push(next);
    }
    scaled.reverse();
    Ok(scaled)
}

/// Smoothing and resampling onto a coarser grid.
struct Shrink<'a> {
    grid: &'a Grid,
    target: &'a Grid,
    /// Voxels of the finer grid.
    sigma: [f64; 3],
}

impl Shrink<'_> {
    fn apply<D: Device>(&self, device: &D, values: Vec<f32>, outside: f32) -> Result<Vec<f32>> {
        let dims = self.grid.dims();
        let source = device.upload_vec(values)?;
        let mut smooth = device.alloc::<f32>(self.grid.len())?;
        device.gaussian(&source, dims, self.sigma, Method::Recursive, &mut smooth)?;
        drop(source);
        let mut out = device.alloc::<f32>(self.target.len())?;
        device.warp_affine(
            &smooth,
            dims,
            &self.target.to_world().then(self.grid.to_index()).rows(),
            self.target.dims(),
            Interpolation::Linear,
            outside,
            &mut out,
        )?;
        Ok(Memory::into_host(device, out)?)
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

pub(super) fn moments(image: &Scaled) -> Moments {
    let (low, high) = robust_range(&image.values, 0.02, 0.98).unwrap_or((0.0, 1.0));
    let [nx, ny, _] = image.grid.dims();
    let mut n = 0.0;
    let mut s = Vector3::zeros();
    let mut ss = nalgebra::Matrix3::zeros();
    let origin = image.grid.centre();
    for (i, &v) in image.values.iter().enumerate() {
        let w = f64::from((v.min(high) - low).max(0.0))
            * image.weight.as_ref().map_or(1.0, |w| f64::from(w[i]));
        if w > 0.0 {
            let index = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / (nx * ny)) as f64);
            let p = image.grid.index_to_world(index) - origin;
            n += w;
            s += p * w;
            ss += p * p.transpose() * w;
        }
    }
    if n <= 0.0 {
        let radius = image.grid.extent().iter().fold(0.0f64, |a, &b| a.max(b)) / 4.0;
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
    }
}
