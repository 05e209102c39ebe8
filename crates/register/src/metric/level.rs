//! Two images at one scale, prepared for comparison under affine maps.

use super::range::robust_range_on;
use crate::error::{RegisterError, Result};
use crate::search::{Evaluation, Objective};
use crate::similarity::{CostAndDerivatives, Formula, OfSums, Similarity, overlap_term};
use std::sync::{Arc, OnceLock};
use voxalign_compute::ops::histogram::{
    Binning, JointScheme, LayoutOptions, MovingView, ParzenBins, SampleSet, Scheme,
    SumsAndGradient, Terms, check_weights,
};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{AffineMap, Device, DeviceBuffer};
use voxalign_image::{Affine, Grid};
use voxalign_options::Choice;

/// Most samples of a run: bounds the rounding of single-precision sums and balances the work.
pub const WORKLOAD: usize = 2048;
/// Quantiles that the histogram bins of an image span.
const QUANTILES: (f64, f64) = (0.002, 0.998);

/// How two images are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelSettings {
    /// The similarity, a function of sums.
    pub similarity: Similarity,
    /// Width of the border weighting, mm; at most a twentieth of the moving image's extent.
    pub border: f64,
    /// How binned sums are made.
    pub scheme: Scheme,
    /// How joint histograms are made.
    pub joint: JointScheme,
}

/// A similarity as a function of sums.
///
/// # Errors
/// One that is none, such as a local one.
pub(crate) fn of_sums(similarity: &Similarity) -> Result<OfSums> {
    similarity.of_sums().ok_or_else(|| {
        RegisterError::option(
            "similarity",
            similarity.name(),
            "it is only for deformations; for affine registration give cr, mi, nmi, ncc or ssd",
        )
    })
}

/// Largest fraction of the extent of the moving image that the border weighting takes on either side.
const BORDER_PART: f64 = 0.05;

/// The width of the border weighting along each axis, voxels.
fn border_of(moving: &Grid, border: f64) -> [f64; 3] {
    let spacing = moving.spacing();
    std::array::from_fn(|a| {
        (border / spacing[a]).min(BORDER_PART * (moving.dims()[a] as f64 - 1.0))
    })
}

/// The range of the values that count.
fn range_of<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    weight: Option<&D::Buffer<f32>>,
) -> Result<(f32, f32)> {
    let range = robust_range_on(device, values, weight, QUANTILES.0, QUANTILES.1)?;
    Ok(range.unwrap_or((0.0, 1.0)))
}

/// The images of a level on a device: values normalised to the same scale, on their grids.
pub struct LevelImages<D: Device> {
    /// Grid of the fixed image.
    pub fixed_grid: Grid,
    /// Its values.
    pub fixed: Arc<D::Buffer<f32>>,
    /// Its weights (mask and weight together), 0 where a voxel does not count.
    pub fixed_weight: Option<Arc<D::Buffer<f32>>>,
    /// The fraction of the fixed voxels that are samples, where others are left out by a weight of 0 to save work:
    /// 1 where none are.
    pub share: f64,
    /// Grid of the moving image.
    pub moving_grid: Grid,
    /// Its values.
    pub moving: Arc<D::Buffer<f32>>,
    /// Its mask, between 0 and 1.
    pub moving_mask: Option<Arc<D::Buffer<f32>>>,
}

/// Two images at one scale on a device.
pub struct Level<D: Device> {
    device: D,
    settings: LevelSettings,
    formula: Formula,
    fixed_grid: Grid,
    moving_grid: Grid,
    samples: D::Samples,
    sample_count: usize,
    moving: Arc<D::Buffer<f32>>,
    mask: Option<Arc<D::Buffer<f32>>>,
    columns: ParzenBins,
    /// Width of the border weighting along each axis of the moving image, voxels.
    border: [f64; 3],
    /// Sum of weights that a full overlap of the smaller image has.
    full_weight: f64,
}

impl<D: Device> Level<D> {
    /// Groups the samples of the fixed image.
    ///
    /// # Errors
    /// If memory is short, or sizes and buffers disagree; weights or a mask that are negative or not
    /// finite.
    pub fn new(device: &D, images: LevelImages<D>, settings: LevelSettings) -> Result<Self> {
        let weight = images.fixed_weight.as_deref();
        let (low, high) = range_of(device, &images.fixed, weight)?;
        let of_sums = of_sums(&settings.similarity)?;
        let binned = !matches!(of_sums.formula, Formula::Moments(_));
        let binning = Binning { low, high, bins: of_sums.bins };
        let options = LayoutOptions { binning, workload: WORKLOAD, keep_values: !binned };
        let dims = images.fixed_grid.dims();
        let samples = device.group_samples(&images.fixed, dims, weight, &options)?;
        let sample_count = samples.len();
        let mean_weight = samples.total_weight() / sample_count.max(1) as f64;
        let border = border_of(&images.moving_grid, settings.border);
        // What the moving image can give at most: its extent between voxel centres less what the
        // border weighting takes, and less what its mask takes.
        let dims = images.moving_grid.dims();
        let counted: f64 = (0..3)
            .map(|a| {
                let length = dims[a] as f64 - 1.0;
                match border[a] {
                    _ if dims[a] == 1 => 1.0,
                    b if 2.0 * b <= length => length - b,
                    b => length * length / (4.0 * b),
                }
            })
            .product();
        let mask = images.moving_mask.as_deref();
        let masked = match mask {
            None => 1.0,
            Some(m) => {
                let what = [Reduction::Sum(0), Reduction::Min(0), Reduction::CountNonFinite(0)];
                let found = device.reduce(&[m], &what)?;
                check_weights("moving mask", found[1], found[2] as u64)?;
                found[0] / m.len().max(1) as f64
            }
        };
        // Slices have no thickness that matters: areas are compared.
        let size = |g: &Grid| {
            let s = g.spacing();
            s[0] * s[1] * if images.fixed_grid.is_2d() { 1.0 } else { s[2] }
        };
        let in_fixed_voxels =
            counted * masked * images.share * size(&images.moving_grid) / size(&images.fixed_grid);
        let full_weight = (sample_count as f64).min(in_fixed_voxels) * mean_weight;
        let (low, high) = range_of(device, &images.moving, mask)?;
        let high = if high > low { high } else { low + 1.0 };
        let columns = ParzenBins { low, high, count: of_sums.bins + 2 * ParzenBins::MARGIN };
        Ok(Self {
            device: device.clone(),
            settings,
            formula: of_sums.formula,
            samples,
            sample_count,
            moving: images.moving,
            mask: images.moving_mask,
            columns,
            full_weight: full_weight.max(f64::MIN_POSITIVE),
            border,
            fixed_grid: images.fixed_grid,
            moving_grid: images.moving_grid,
        })
    }

    /// Grid of the fixed image at this scale.
    #[must_use]
    pub fn fixed_grid(&self) -> &Grid {
        &self.fixed_grid
    }

    /// Grid of the moving image at this scale.
    #[must_use]
    pub fn moving_grid(&self) -> &Grid {
        &self.moving_grid
    }

    /// Number of samples of the fixed image.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.sample_count
    }

    /// How the images are compared.
    #[must_use]
    pub fn settings(&self) -> &LevelSettings {
        &self.settings
    }

    /// Fixed index to moving index under a world transform.
    fn index_map(&self, transform: &Affine) -> AffineMap {
        self.fixed_grid.to_world().then(transform).then(self.moving_grid.to_index()).rows()
    }

    fn binned(
        &self,
        view: &MovingView<'_, D>,
        maps: &[AffineMap],
        gradient: bool,
        terms: Terms,
        f: fn(&[f64]) -> CostAndDerivatives,
    ) -> Result<Vec<Evaluation>> {
        let scheme = self.settings.scheme;
        let count = terms.count();
        let (samples, full) = (&self.samples, self.full_weight);
        // The cost of some sums, with the term for small overlaps, its derivatives and the overlap.
        let with_overlap = |sums: &[f64]| {
            let mut found = f(sums);
            let overlap = sums.iter().step_by(count).sum::<f64>() / full;
            let (lack, derivative) = overlap_term(overlap);
            found.cost += lack;
            if derivative != 0.0 {
                found.derivatives.iter_mut().step_by(count).for_each(|s| *s += derivative / full);
            }
            (found, overlap)
        };
        if gradient {
            // Cost and overlap of every map, known once its derivatives are.
            let known: Vec<OnceLock<(f64, f64)>> = maps.iter().map(|_| OnceLock::new()).collect();
            let derivatives = |i: usize, sums: &[f64]| {
                let (found, overlap) = with_overlap(sums);
                if let Some(place) = known.get(i) {
                    place.get_or_init(|| (found.cost, overlap));
                }
                found.derivatives
            };
            let all =
                self.device.binned_gradient(terms, scheme, samples, view, maps, &derivatives)?;
            let evaluation = |((sums, g), known): (&SumsAndGradient, &OnceLock<_>)| {
                let (cost, overlap) = *known.get_or_init(|| {
                    let (found, overlap) = with_overlap(sums);
                    (found.cost, overlap)
                });
                Evaluation { cost, gradient: Some(self.to_world(g)), overlap }
            };
            Ok(all.iter().zip(&known).map(evaluation).collect())
        } else {
            let all = self.device.binned_sums(terms, scheme, samples, view, maps)?;
            let evaluation = |sums: &Vec<f64>| {
                let (found, overlap) = with_overlap(sums);
                Evaluation { cost: found.cost, gradient: None, overlap }
            };
            Ok(all.iter().map(evaluation).collect())
        }
    }

    fn joint(
        &self,
        view: &MovingView<'_, D>,
        maps: &[AffineMap],
        gradient: bool,
        f: fn(&[f64], usize) -> CostAndDerivatives,
    ) -> Result<Vec<Evaluation>> {
        let columns = &self.columns;
        let (scheme, samples) = (self.settings.joint, &self.samples);
        let joints = self.device.joint_histogram(scheme, samples, view, columns, maps)?;
        let mut evaluations = Vec::with_capacity(maps.len());
        let mut tables = Vec::with_capacity(maps.len());
        for joint in &joints {
            let mut found = f(joint, columns.count);
            let overlap = joint.iter().sum::<f64>() / self.full_weight;
            let (lack, derivative) = overlap_term(overlap);
            found.derivatives.iter_mut().for_each(|s| *s += derivative / self.full_weight);
            evaluations.push(Evaluation { cost: found.cost + lack, gradient: None, overlap });
            tables.push(found.derivatives);
        }
        if gradient {
            let all = self.device.joint_gradient(&self.samples, view, columns, maps, &tables)?;
            for (e, g) in evaluations.iter_mut().zip(all) {
                e.gradient = Some(self.to_world(&g));
            }
        }
        Ok(evaluations)
    }

    fn to_world(&self, of_map: &[f64; 12]) -> [f64; 12] {
        to_world(of_map, [&self.fixed_grid, &self.moving_grid])
    }
}

/// Carries a derivative in the map from indices of the fixed to those of the moving image to one in the world transform: the index map is `V T U`
/// with `U` fixed index to world and `V` moving world to index, so that `dC/dT = V^T (dC/dA) U^T` (with `U` homogeneous).
pub(crate) fn to_world(of_map: &[f64; 12], [fixed, moving]: [&Grid; 2]) -> [f64; 12] {
    let v = &moving.to_index().matrix;
    let u = fixed.to_world();
    let g = nalgebra::Matrix3x4::from_row_slice(of_map);
    let left = v.transpose() * g;
    let mut out = [0.0; 12];
    for r in 0..3 {
        for c in 0..3 {
            out[4 * r + c] = (0..3).map(|k| left[(r, k)] * u.matrix[(c, k)]).sum::<f64>()
                + left[(r, 3)] * u.offset[c];
        }
        out[4 * r + 3] = left[(r, 3)];
    }
    out
}

impl<D: Device> Objective for Level<D> {
    fn batch(&self) -> usize {
        self.device.batch().max(1)
    }

    fn evaluate(&self, transforms: &[Affine], gradient: bool) -> Result<Vec<Evaluation>> {
        let maps: Vec<AffineMap> = transforms.iter().map(|t| self.index_map(t)).collect();
        let view = MovingView {
            values: &*self.moving,
            mask: self.mask.as_deref(),
            dims: self.moving_grid.dims(),
            border: self.border,
        };
        match self.formula {
            Formula::Ratio(f) => self.binned(&view, &maps, gradient, Terms::Ratio, f),
            Formula::Moments(f) => self.binned(&view, &maps, gradient, Terms::Moments, f),
            Formula::Joint(f) => self.joint(&view, &maps, gradient, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::similarity::Cr;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::{Matrix3, Vector3};

    /// Images on the host: fixed and moving with their weights.
    struct Images {
        fixed_grid: Grid,
        fixed: Vec<f32>,
        fixed_weight: Option<Vec<f32>>,
        moving_grid: Grid,
        moving: Vec<f32>,
        moving_mask: Option<Vec<f32>>,
    }

    impl Images {
        fn upload(self, device: &Cpu) -> LevelImages<Cpu> {
            let up = |v| Arc::new(device.upload_vec(v).unwrap());
            LevelImages {
                fixed_grid: self.fixed_grid,
                fixed: up(self.fixed),
                fixed_weight: self.fixed_weight.map(up),
                share: 1.0,
                moving_grid: self.moving_grid,
                moving: up(self.moving),
                moving_mask: self.moving_mask.map(up),
            }
        }
    }

    fn images(masks: bool) -> Images {
        let r = nalgebra::Rotation3::from_euler_angles(0.2, -0.1, 0.3);
        let scale = Matrix3::from_diagonal(&Vector3::new(-1.5, 2.0, 2.5));
        let to_world = Affine::new(r.matrix() * scale, Vector3::new(20.0, -30.0, -25.0));
        let fixed_grid = Grid::new([30, 28, 20], to_world).unwrap();
        let shifted = Affine::new(scale * 1.1, Vector3::new(18.0, -28.0, -22.0));
        let moving_grid = Grid::new([27, 25, 19], shifted).unwrap();
        let value = |w: Vector3<f64>, phase: f64| {
            ((w[0] * 0.15 + phase).sin() + (w[1] * 0.12).cos() * (w[2] * 0.17 + phase).sin()) as f32
        };
        let make = |g: &Grid, phase: f64| {
            voxalign_image::Volume::from_fn(g.clone(), |x, y, z| {
                value(g.index_to_world(Vector3::new(x as f64, y as f64, z as f64)), phase)
            })
            .into_parts()
            .1
        };
        let ramp = |n: usize| Some((0..n).map(|i| (i % 7) as f32 / 6.0).collect::<Vec<_>>());
        let smooth = voxalign_image::Volume::from_fn(moving_grid.clone(), |x, y, z| {
            ((x + y + z) as f32 / 60.0).min(1.0)
        });
        Images {
            fixed: make(&fixed_grid, 0.3),
            fixed_weight: if masks { ramp(fixed_grid.len()) } else { None },
            moving: make(&moving_grid, 0.7),
            moving_mask: masks.then(|| smooth.into_parts().1),
            fixed_grid,
            moving_grid,
        }
    }

    /// Taylor test: `cost(T + h d) = cost(T) + h g.d + O(h^2)` for every similarity.
    #[test]
    fn gradients_are_derivatives() {
        let device = Cpu::new(Some(1)).unwrap();
        let t = Affine::from_rows([
            [1.05, 0.08, -0.03, 1.0],
            [-0.06, 0.97, 0.05, -2.0],
            [0.04, -0.02, 1.02, 1.5],
        ]);
        for &similarity in Similarity::ALL.iter().filter(|s| s.of_sums().is_some()) {
            for masks in [false, true] {
                let settings = LevelSettings {
                    similarity: similarity.with_bins(24),
                    border: 6.0,
                    scheme: Scheme::default(),
                    joint: JointScheme::Default,
                };
                let level = Level::new(&device, images(masks).upload(&device), settings).unwrap();
                let at = level.evaluate(&[t], true).unwrap().remove(0);
                let g = at.gradient.unwrap();
                for e in 0..12 {
                    let h = if e % 4 == 3 { 2e-2 } else { 1e-3 };
                    let moved = |s: f64| {
                        let mut rows = t.rows();
                        rows[e / 4][e % 4] += s;
                        level.evaluate(&[Affine::from_rows(rows)], false).unwrap()[0].cost
                    };
                    let derivative = (moved(h) - moved(-h)) / (2.0 * h);
                    let scale = if e % 4 == 3 { 0.01 } else { 0.3 };
                    assert!(
                        (derivative - g[e]).abs() < 0.03 * (derivative.abs() + scale),
                        "{similarity:?} masks {masks} entry {e}: {derivative} against {}",
                        g[e]
                    );
                }
            }
        }
    }

    /// The fast cost is that of the formula as written down.
    #[test]
    fn the_reference_agrees() {
        let device = Cpu::new(Some(2)).unwrap();
        let source = images(false);
        let volume = |g: &Grid, v: &[f32]| voxalign_image::Volume::new(g.clone(), v.to_vec());
        let fixed = volume(&source.fixed_grid, &source.fixed).unwrap();
        let moving = volume(&source.moving_grid, &source.moving).unwrap();
        let source = source.upload(&device);
        let range = range_of(&device, &source.fixed, None).unwrap();
        let settings = LevelSettings {
            similarity: Cr { bins: 64 }.into(),
            border: 0.0,
            scheme: Scheme::ConflictFree,
            joint: JointScheme::Default,
        };
        let level = Level::new(&device, source, settings).unwrap();
        for k in 0..5 {
            let k = f64::from(k);
            let t = Affine::translation(Vector3::new(1.237 * k, 0.71 * k, -0.53 * k));
            let naive = super::super::reference::correlation_ratio(&fixed, &moving, &t, range, 64);
            let fast = level.evaluate(&[t], false).unwrap()[0].cost;
            assert!((naive - fast).abs() < 2e-4, "{naive} {fast}");
        }
    }

    #[test]
    fn the_schemes_agree() {
        let device = Cpu::new(Some(1)).unwrap();
        let cost = |scheme, t: Affine| {
            let settings = LevelSettings {
                similarity: Cr { bins: 64 }.into(),
                border: 4.0,
                scheme,
                joint: JointScheme::Default,
            };
            let level = Level::new(&device, images(false).upload(&device), settings).unwrap();
            level.evaluate(&[t], false).unwrap()[0].cost
        };
        for shift in [0.0, 3.0, 9.0] {
            let t = Affine::translation(Vector3::new(shift, -shift, 0.5 * shift));
            let (a, b) = (cost(Scheme::ConflictFree, t), cost(Scheme::Direct, t));
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
}
