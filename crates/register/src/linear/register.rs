//! The registration: start, stages, verdict.

use super::input::{DeviceInput, Source};
use super::model::{Freedom, Model, Pose};
use super::options::{AffineInput, AffineOptions, Init, Search};
use super::pyramid::{self, Moments, Scaled, moments};
use super::result::AffineResult;
use super::search::{Candidate, ELSEWHERE, Stage, Until, display, distinct, global, perturbed};
use super::verdict::{Findings, judge};
use crate::compare::field_overlap;
use crate::error::{RegisterError, Result};
use crate::metric::level::LevelImages;
use crate::metric::{Cost, CostSums};
use crate::metric::{Level, LevelSettings};
use crate::progress::{Event, Progress};
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_image::{Affine, Grid, Matrix3, Vector3};

/// Alignments apart from each other that are compared with all freedom at the second stage.
const RIVALS: usize = 4;

/// Alignments that compete once more at the third stage.
const FINALISTS: usize = 3;

/// The stages have a quarter, a half, and all of the bins (64, 128, 256, 256 in section 4.3 of Li
/// et al. 2015).
fn bins_of_stage(cost: Cost, full: usize, stages_to_go: usize) -> usize {
    match cost.sums() {
        CostSums::Moments => 1,
        _ => (full >> stages_to_go.saturating_sub(1).min(2)).max(full.min(16)),
    }
}

fn option(option: &'static str, value: impl ToString, remedy: &str) -> RegisterError {
    RegisterError::Option { option, value: value.to_string(), remedy: remedy.to_owned() }
}

/// The freedom that the degrees of freedom stand for.
fn freedom_of(dof: usize, flat: bool) -> Result<Freedom> {
    match (dof, flat) {
        (3, true) | (6, false) => Ok(Freedom::Rigid),
        (4 | 7, true) | (7, false) => Ok(Freedom::Similarity),
        (9, false) => Ok(Freedom::Scales),
        (6 | 9 | 12, true) | (12, false) => Ok(Freedom::Affine),
        (_, true) => Err(option("dof", dof, "for 2D images give 3, 4 or 6")),
        (_, false) => Err(option("dof", dof, "for 3D images give 6, 7, 9 or 12")),
    }
}

fn check(options: &AffineOptions) -> Result<()> {
    let most = options.cost.most_bins();
    if let Some(bins) = options.bins.filter(|b| !(4..=most).contains(b)) {
        return Err(option("bins", bins, &format!("give a number from 4 to {most}")));
    }
    if !(options.apodise >= 0.0 && options.apodise.is_finite()) {
        return Err(option("apodise", options.apodise, "give a length in mm, 0 or more"));
    }
    if let Some(levels) = &options.levels {
        let good = |l: &&f64| l.is_finite() && **l > 0.0;
        if levels.is_empty() || levels.iter().filter(good).count() != levels.len() {
            return Err(option("levels", format!("{levels:?}"), "give lengths in mm above 0"));
        }
    }
    let r = &options.range;
    let pi = std::f64::consts::PI + 1e-9;
    if r.angles.iter().any(|[a, b]| !(a <= b && *a >= -pi && *b <= pi)) {
        let degrees = r.angles.map(|a| a.map(f64::to_degrees));
        let remedy = "give ranges within -180 to 180 degrees, the smaller angle first";
        return Err(option("search angles", format!("{degrees:?}"), remedy));
    }
    for step in [r.coarse, r.fine] {
        let degrees = step.to_degrees();
        if !(degrees >= 4.999 && step <= pi) {
            return Err(option("search steps", degrees, "give steps from 5 to 180 degrees"));
        }
    }
    Ok(())
}

/// The freedoms that a stage opens one after the other.
fn sequence(largest: Freedom) -> Vec<Freedom> {
    let all = [Freedom::Rigid, Freedom::Similarity, Freedom::Scales, Freedom::Affine];
    let end = all.iter().position(|f| *f == largest).unwrap_or(3);
    if end == 0 { vec![Freedom::Rigid] } else { all[1..=end].to_vec() }
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
    let input = Box::new(DeviceInput::upload(device, input)?);
    let scales = Scales::new(device, Source::Own(input), options)?;
    register_scales(device, scales, options, progress)
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
    let scales = Scales::new(device, Source::Lent(input), options)?;
    register_scales(device, scales, options, progress)
}

/// Both images at all scales.
struct Scales<D: Device> {
    fixed_grid: Grid,
    moving_grid: Grid,
    /// Sample spacings, mm, coarse to fine.
    levels: Vec<f64>,
    images: Vec<(Scaled<D>, Scaled<D>)>,
}

impl<D: Device> Scales<D> {
    fn new(device: &D, source: Source<'_, D>, options: &AffineOptions) -> Result<Self> {
        let input = source.input();
        let (fixed_grid, moving_grid) = (input.fixed_grid.clone(), input.moving_grid.clone());
        freedom_of(options.dof, fixed_grid.is_2d())?;
        let wanted = options.levels.clone();
        if let Some(wanted) = &wanted {
            pyramid::check_levels(wanted, &fixed_grid, &moving_grid)?;
        }
        let levels = wanted.unwrap_or_else(|| pyramid::default_levels(&fixed_grid, &moving_grid));
        let levels = pyramid::usable_levels(&levels, &fixed_grid, &moving_grid);
        let images = pyramid::build(device, source, &levels, options.cost)?;
        Ok(Self { fixed_grid, moving_grid, levels, images })
    }
}

fn register_scales<D: Device>(
    device: &D,
    scales: Scales<D>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    let Scales { fixed_grid, moving_grid, levels, mut images } = scales;
    let (fixed_grid, moving_grid) = (&fixed_grid, &moving_grid);
    let flat = fixed_grid.is_2d();
    let largest = freedom_of(options.dof, flat)?;
    let (fixed_moments, moving_moments) = match images.first() {
        Some((f, m)) => (moments(device, f)?, moments(device, m)?),
        None => return Err(option("levels", "empty", "give at least one spacing in mm")),
    };
    let model = Model {
        centre: fixed_moments.centre,
        frame: if flat { slice_frame(fixed_grid) } else { Matrix3::identity() },
        target: if flat { slice_frame(moving_grid) } else { Matrix3::identity() },
        radius: fixed_moments.radius,
        flat,
    };
    let masked = images.first().is_some_and(|(f, m)| f.weight.is_some() || m.weight.is_some());
    let start_map = start(&options.init, fixed_grid, moving_grid, &fixed_moments, &moving_moments)?;
    let start_pose = model.pose_of(&start_map);
    let headers = start(&Init::Header, fixed_grid, moving_grid, &fixed_moments, &moving_moments)?;
    let headers_pose = model.pose_of(&headers);
    if !matches!(options.init, Init::Moments) {
        let overlap = field_overlap(fixed_grid, moving_grid, &start_map);
        if overlap <= 0.0 {
            return Err(RegisterError::NoOverlap { start: describe(&options.init) });
        }
    }

    let scheme = options.scheme.unwrap_or_default();
    let full_bins = options.bins.unwrap_or_else(|| options.cost.default_bins());
    let count = levels.len();
    // Poses further apart than this (mm at the model's radius) are other alignments.
    let elsewhere = ELSEWHERE * model.radius;
    let mut candidates = vec![Candidate { pose: start_pose, cost: f64::INFINITY }];
    let mut stages = Vec::with_capacity(count);
    let mut rivals: Vec<Candidate> = Vec::new();
    let mut cost_before = f64::INFINITY;
    let mut cost_start = f64::INFINITY;
    let mut final_overlap = 0.0;
    for (index, &spacing) in levels.iter().enumerate() {
        let began = Instant::now();
        let name = format!("{} mm", display(spacing));
        let (counts, value) = ("evaluations", "cost");
        progress.event(&Event::StageStart { index, count, name: &name, counts, value });
        let (fixed, moving) = images.remove(0);
        let settings = LevelSettings {
            cost: options.cost,
            bins: bins_of_stage(options.cost, full_bins, count - 1 - index),
            border: options.apodise,
            scheme,
            joint: options.joint,
        };
        let level = Level::new(device, level_images(fixed, moving), settings)?;
        let mut stage = Stage::new(&level, &model, spacing, progress);
        let entered = candidates.len();
        stage.part("start", 0.0, 0.0);
        let at_start = stage.costs(&[start_pose])?[0].cost;
        let mut opened = Vec::new();
        if options.search == Search::None {
            candidates = stage.costs(&[start_pose])?;
        } else {
            let common = if largest == Freedom::Rigid { largest } else { Freedom::Similarity };
            let scaling = common == Freedom::Similarity;
            let last = index + 1 == count;
            if index == 0 {
                candidates = if options.search == Search::Full {
                    opened.push(model.parameters(if scaling {
                        Freedom::TranslationScale
                    } else {
                        Freedom::Translation
                    }));
                    global(&mut stage, &start_pose, options, scaling, largest)?
                } else {
                    let axes = matches!(options.init, Init::Moments) && !flat;
                    let poses = if axes {
                        principal_starts(&start_pose, &fixed_moments, &moving_moments)
                    } else {
                        vec![start_pose]
                    };
                    stage.part("refinement", 0.0, 1.0);
                    let refined = stage.refine(&poses, common, Until::Gain(0.02))?;
                    distinct(refined, &model, spacing, 1)
                };
                opened.push(model.parameters(common));
                if options.search == Search::Full && largest != common {
                    opened.push(model.parameters(largest));
                }
            }
            if options.search == Search::Full && (index == 1 || (last && index == 0)) {
                stage.part("candidates and their neighbours", 0.0, 0.6);
                let mut poses: Vec<Pose> =
                    candidates.iter().flat_map(|c| perturbed(&c.pose, flat, scaling)).collect();
                poses.extend([start_pose, headers_pose]);
                let refined = stage.refine(&poses, common, Until::Gain(0.02))?;
                opened.push(model.parameters(common));
                rivals = distinct(refined, &model, elsewhere, RIVALS);
                if largest != common {
                    // A wrong orientation can be ahead as long as the right one lacks freedom.
                    stage.part("candidates with all degrees of freedom", 0.6, 0.8);
                    let poses: Vec<Pose> = rivals.iter().map(|c| c.pose).collect();
                    let free = stage.refine(&poses, largest, Until::Gain(0.02))?;
                    rivals = distinct(free, &model, elsewhere, RIVALS);
                    opened.push(model.parameters(largest));
                }
                // The next stage sees more: the best of them compete there once more.
                let kept = if last { 1 } else { FINALISTS };
                candidates = rivals.iter().take(kept).copied().collect();
            } else if options.search == Search::Local && index == 1 {
                let poses: Vec<Pose> = candidates.iter().map(|c| c.pose).collect();
                stage.part("refinement", 0.0, 0.8);
                candidates = stage.refine(&poses, common, Until::Gain(0.01))?;
                opened.push(model.parameters(common));
            }
            let freedoms = match index {
                _ if (last && index < 2) || index == 2 => sequence(largest),
                0 | 1 => Vec::new(),
                _ => vec![largest],
            };
            stage.part("refinement", 0.8, 1.0);
            let finals: Vec<Candidate> =
                if freedoms.is_empty() { Vec::new() } else { candidates.split_off(1) };
            for freedom in freedoms {
                let until = match (last, freedom == largest) {
                    (true, true) => Until::Step(0.005),
                    (true, false) => Until::Gain(0.005),
                    (false, _) => Until::Gain(0.01),
                };
                let poses: Vec<Pose> = candidates.iter().map(|c| c.pose).collect();
                candidates = stage.refine(&poses, freedom, until)?;
                opened.push(model.parameters(freedom));
            }
            if !finals.is_empty() {
                let poses: Vec<Pose> = finals.iter().map(|c| c.pose).collect();
                let refined = stage.refine(&poses, largest, Until::Gain(0.01))?;
                rivals = distinct([candidates, refined].concat(), &model, elsewhere, RIVALS);
                candidates = rivals.iter().take(1).copied().collect();
            }
        }
        if index + 1 == count {
            cost_start = at_start;
            cost_before = level.evaluate(&[headers], false)?[0].cost;
            for (pose, cost) in [(start_pose, cost_start), (headers_pose, cost_before)] {
                // The result is never worse than the start and the headers.
                if options.search != Search::None && cost < candidates[0].cost {
                    let refined = stage.refine(&[pose], largest, Until::Step(0.005))?;
                    candidates = distinct([refined, candidates].concat(), &model, 0.0, 1);
                }
            }
            final_overlap = level.evaluate(&[model.affine(&candidates[0].pose)], false)?[0].overlap;
        }
        let best = candidates[0];
        let seconds = began.elapsed().as_secs_f64();
        let numbers = [entered, candidates.len()];
        stages.push(stage.record(opened, numbers, at_start, best.cost, seconds));
    }

    let best = candidates[0];
    let transform = model.affine(&best.pose);
    // A full search that knows of no other alignment at all leads by everything.
    let rival = (options.search == Search::Full)
        .then(|| rivals.first().map(|best| (best.cost, rivals.get(1).map(|r| r.cost))))
        .flatten();
    let bins = stages.last().map_or(1, |s| s.bins);
    let verdict = judge(&Findings {
        cost: options.cost,
        cost_before,
        cost_start,
        cost_after: best.cost,
        sampled_overlap: final_overlap,
        field_overlap: field_overlap(fixed_grid, moving_grid, &transform),
        transform,
        model,
        rival,
        searched: options.search != Search::None,
        masked,
        compared: match options.search {
            Search::Full if options.range.is_full(flat) => None,
            Search::Full => Some("only rotations within the given search angles were tried"),
            Search::Local => Some("only alignments near the start were tried (local search)"),
            Search::None => Some("no other alignment was tried (no search)"),
        },
        samples: stages.last().map_or(0, |s| s.samples),
        bins,
        corners: fixed_grid.corners(),
    });
    Ok(AffineResult {
        transform,
        start: start_map,
        cost_before,
        cost_start,
        cost_after: best.cost,
        dof: model.parameters(largest),
        bins: (options.cost.default_bins() > 1).then_some(bins),
        levels,
        scheme: (options.cost.sums() != CostSums::Joint).then_some(scheme),
        overlap: field_overlap(fixed_grid, moving_grid, &transform),
        stages,
        verdict,
    })
}

fn level_images<D: Device>(fixed: Scaled<D>, moving: Scaled<D>) -> LevelImages<D> {
    LevelImages {
        fixed_grid: fixed.grid,
        fixed: fixed.values,
        fixed_weight: fixed.weight,
        moving_grid: moving.grid,
        moving: moving.values,
        moving_mask: moving.weight,
    }
}

fn describe(init: &Init) -> String {
    match init {
        Init::Header => "the headers as they are",
        Init::Centre => "image centres aligned",
        Init::Moments => "centres of mass aligned",
        Init::Identity => "voxel grids aligned",
        Init::Given(_) => "the given transform",
    }
    .to_owned()
}

/// A right-handed orthonormal frame whose first two axes span a slice.
fn slice_frame(grid: &Grid) -> Matrix3<f64> {
    let axes = grid.direction();
    let x = axes.column(0).into_owned();
    let y = axes.column(1).into_owned();
    let y = (y - x * x.dot(&y)).normalize();
    Matrix3::from_columns(&[x, y, x.cross(&y)])
}

/// The start transform, fixed world to moving world.
fn start(
    init: &Init,
    fixed: &Grid,
    moving: &Grid,
    fixed_moments: &Moments,
    moving_moments: &Moments,
) -> Result<Affine> {
    let plane = if fixed.is_2d() { plane_to_plane(fixed, moving) } else { Matrix3::identity() };
    Ok(match init {
        Init::Given(a) => {
            a.inverse()?;
            *a
        }
        Init::Header => {
            let t = Affine::about(plane, fixed.centre(), Vector3::zeros());
            if fixed.is_2d() {
                // Only what lies in the plane is the header's: the slices are laid on each other.
                let normal = slice_frame(moving).column(2).into_owned();
                let off = (moving.centre() - t.apply(fixed.centre())).dot(&normal);
                Affine::new(t.matrix, t.offset + normal * off)
            } else {
                t
            }
        }
        Init::Centre => Affine::about(plane, fixed.centre(), moving.centre() - fixed.centre()),
        Init::Moments => {
            let shift = moving_moments.centre - fixed_moments.centre;
            Affine::about(plane, fixed_moments.centre, shift)
        }
        Init::Identity => grids_laid(fixed, moving),
    })
}

/// The smallest rotation that lays the plane of a flat fixed image onto that of the moving one.
fn plane_to_plane(fixed: &Grid, moving: &Grid) -> Matrix3<f64> {
    let a = slice_frame(fixed).column(2).into_owned();
    let mut b = slice_frame(moving).column(2).into_owned();
    if a.dot(&b) < 0.0 {
        b = -b;
    }
    nalgebra::Rotation3::rotation_between(&a, &b).map_or_else(Matrix3::identity, |r| *r.matrix())
}

/// The headers' orientations and origins ignored: first voxel on first voxel and axis on axis, in
/// mm. Where one grid is left-handed and the other is not, the fixed x axis is read backwards, so
/// that nothing is mirrored.
fn grids_laid(fixed: &Grid, moving: &Grid) -> Affine {
    let mut axes = fixed.direction();
    let mut origin = fixed.origin();
    if fixed.is_right_handed() != moving.is_right_handed() {
        let length = fixed.spacing()[0] * (fixed.dims()[0] as f64 - 1.0);
        origin += axes.column(0) * length;
        axes.column_mut(0).neg_mut();
    }
    let inverse = axes.try_inverse().unwrap_or_else(Matrix3::identity);
    let matrix = moving.direction() * inverse;
    Affine::new(matrix, moving.origin() - matrix * origin)
}

/// The start and the four ways in which principal axes can be laid on each other without a
/// reflection.
fn principal_starts(start: &Pose, fixed: &Moments, moving: &Moments) -> Vec<Pose> {
    let mut poses = vec![*start];
    for signs in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
        let mut axes = moving.axes;
        axes.column_mut(0).scale_mut(signs[0]);
        axes.column_mut(1).scale_mut(signs[1]);
        let mut rotation = axes * fixed.axes.transpose();
        if rotation.determinant() < 0.0 {
            axes.column_mut(2).neg_mut();
            rotation = axes * fixed.axes.transpose();
        }
        poses.push(Pose { rotation, ..*start });
    }
    poses
}
