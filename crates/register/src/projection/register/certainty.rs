//! How certain a pose is: from the curvature of its cost, and from finding it again.

use super::level::{Compared, Level, WORTH};
use super::search::{Search, Tally};
use crate::error::Result;
use crate::projection::numbers::between;
use crate::projection::objective::XrayObjective;
use crate::random::Random;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::refine::refine;
use crate::search::{Evaluation, Objective, Steps};
use nalgebra::{Matrix6, Vector6};
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3};

/// How certain a pose is. All of six numbers: how far the [centre](super::PoseResult::centre) is moved along the axes of the room, mm,
/// and the CT turned about them, radians.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    /// Standard deviations by the curvature of the cost and by how much its derivative differs between blocks of pixels; not
    /// finite where the cost has no minimum there, or where there are too few pixels to tell.
    pub curvature: [f64; 6],
    /// Standard deviations of the results of restarts, which begin where the images of the body are a few pixels from those of the
    /// result, and farther along what the images hardly tell; none without two of them.
    pub restarts: Option<[f64; 6]>,
    /// How far each restart ended from the result in the images: the root mean square over the body in the view where it is most,
    /// mm at the place of the CT.
    pub apart: Vec<f64>,
    /// The covariance of the six numbers by the curvature of the cost and by blocks of pixels.
    pub by_blocks: Option<[[f64; 6]; 6]>,
    /// The covariance of the six numbers: that by the curvature of the cost, wider where restarts ended farther away; none where the cost
    /// has no minimum, or too few pixels tell.
    pub covariance: Option<[[f64; 6]; 6]>,
}

/// Columns and rows of blocks, in cells: of those sizes that have enough blocks the one counts that gives the largest deviations.
const BLOCKS: [usize; 4] = [1, 2, 4, 8];
/// How often the curvature is looked for over twice the distance.
const WIDER: usize = 3;
/// Blocks that a variance is estimated of at least.
const FEWEST: f64 = 24.0;
/// How many variances away most restarts have to end along a direction to count: chance gives less.
const FARTHER: f64 = 9.0;

/// Of a pose in the terms of `model`, whose axes are those of the room; `objective` has the pixels that are compared.
pub(super) fn find<D: Device>(
    search: &mut Search<'_, '_, D>,
    level: &Level<'_, D>,
    objective: &XrayObjective<'_, D>,
    (model, best): (&Model, &Pose),
    centre: Vector3<f64>,
) -> Result<Uncertainty> {
    let transform = model.affine(best);
    let found = by_curvature(search, level.size, objective, (model, best))?;
    let to_numbers = numbers(model, best, centre);
    let found = found.map(|variance| to_numbers * variance * to_numbers.transpose());
    let deviation =
        |variance: Matrix6<f64>| std::array::from_fn(|i| variance[(i, i)].max(0.0).sqrt());
    let curvature = found.map_or([f64::INFINITY; 6], deviation);
    let (mut steps, mut apart) = (Vec::new(), Vec::new());
    let options = search.options;
    let ways = ways(search, model, best, level.size)?;
    let mut random = Random::new(options.seed ^ 0x7265_7374_6172_7473);
    // Half of the pixels at most, so that each restart has others.
    let compared = Compared::by(options, options.seed.wrapping_add(1000));
    let part = level.fraction(Compared { worth: 0.5 * WORTH, ..compared }).min(0.5);
    let mut again = level.drawn(compared, part, &model.affine(best))?;
    for number in 0..options.restarts {
        let q = ways.iter().map(|way| way * (2.0 * random.uniform() - 1.0)).sum::<Vector6<f64>>();
        let from = model.moved(best, Freedom::Rigid, q.as_slice());
        if number > 0 {
            again.redraw()?;
        }
        let how = Steps {
            first: 0.5 * level.size,
            longest: 4.0 * level.size,
            tolerance: 5e-3 * level.size,
            improvement: 1e-8,
            evaluations: 40,
        };
        let mut tally = Tally::new(search.progress);
        let kind = options.optimiser;
        let found = refine(&again, model, kind, &[from], Freedom::Rigid, how, &mut |all, part| {
            tally.count(all.iter().map(|e| e.cost), part)
        })?;
        search.evaluations += tally.evaluations;
        apart.push(search.seen_from(&model.affine(best), &model.affine(&found[0].pose))?);
        steps.push(Vector6::from(between(&transform, &model.affine(&found[0].pose), centre)));
    }
    let restarts = (steps.len() > 1).then(|| {
        let n = steps.len() as f64;
        let mean = steps.iter().sum::<Vector6<f64>>() / n;
        let squares: Vector6<f64> =
            steps.iter().map(|s| (s - mean).component_mul(&(s - mean))).sum();
        (squares / (n - 1.0)).map(f64::sqrt).into()
    });
    let by_blocks = found.map(Into::into);
    let covariance = found.map(|variance| widened(variance, &steps).into());
    Ok(Uncertainty { curvature, restarts, apart, by_blocks, covariance })
}

/// A variance, wider along those directions in which most restarts ended much farther from the result than it lets expect.
fn widened(variance: Matrix6<f64>, steps: &[Vector6<f64>]) -> Matrix6<f64> {
    let (Some(root), false) = (variance.cholesky(), steps.is_empty()) else { return variance };
    let root = root.l();
    let white: Option<Vec<_>> = steps.iter().map(|s| root.solve_lower_triangular(s)).collect();
    let Some(white) = white else { return variance };
    let found = white.iter().map(|w| w * w.transpose()).sum::<Matrix6<f64>>().symmetric_eigen();
    let mut wider = variance;
    for way in found.eigenvectors.column_iter() {
        let mut squares: Vec<f64> = white.iter().map(|w| w.dot(&way).powi(2)).collect();
        squares.sort_by(f64::total_cmp);
        // One that ended elsewhere says nothing of this place.
        let times = squares[(squares.len() - 1) / 2];
        if times > FARTHER {
            let way = root * way;
            wider += way * way.transpose() * times;
        }
    }
    wider
}

/// Pixels that restarts begin away at most, in the images, and in space along what the images hardly tell.
const BESIDE: [f64; 2] = [2.0, 10.0];

/// Six ways in the parameters, at right angles, along each of which the images of the body move by so much; along those that move
/// them little as far as makes sense.
fn ways<D: Device>(
    search: &Search<'_, '_, D>,
    model: &Model,
    best: &Pose,
    size: f64,
) -> Result<[Vector6<f64>; 6]> {
    let here = search.places(&model.affine(best))?;
    let mut columns = Vec::new();
    for axis in 0..6 {
        let mut q = [0.0; 6];
        q[axis] = 0.1 * size;
        let there = search.places(&model.affine(&model.moved(best, Freedom::Rigid, &q)))?;
        let moves = there.iter().zip(&here).map(|(b, a)| (b - a) / (0.1 * size));
        columns.push(moves.collect::<Vec<_>>());
    }
    let corners = here.len().max(1) as f64;
    let product = |i: usize, j: usize| {
        let pairs = columns[i].iter().zip(&columns[j]);
        pairs.map(|(a, b)| a.dot(b)).sum::<f64>() / corners
    };
    let all = Matrix6::from_fn(product);
    if all.iter().any(|v| !v.is_finite()) {
        return Ok(std::array::from_fn(|axis| Vector6::ith(axis, BESIDE[0] * size)));
    }
    let found = all.symmetric_eigen();
    Ok(std::array::from_fn(|i| {
        let moves = found.eigenvalues[i].max(0.0).sqrt();
        let by = (BESIDE[0] / moves.max(1e-9)).min(BESIDE[1]) * size;
        // The sign of an axis is nobody's choice.
        let axis = found.eigenvectors.column(i).into_owned();
        let largest = axis[axis.iamax()];
        axis * (by * largest.signum())
    }))
}

/// How the six numbers of the motion of a point of the CT, mm and radians, change with the parameters of a model at a pose.
pub(super) fn numbers(model: &Model, best: &Pose, centre: Vector3<f64>) -> Matrix6<f64> {
    let from = model.affine(best);
    let by = 1e-3;
    let column = |axis: usize| {
        let mut q = [0.0; 6];
        q[axis] = by;
        let to = model.affine(&model.moved(best, Freedom::Rigid, &q));
        Vector6::from(between(&from, &to, centre)) / by
    };
    Matrix6::from_columns(&std::array::from_fn::<_, 6, _>(column))
}

/// The derivatives of the cost in the parameters at poses.
fn gradients(
    objective: &dyn Objective,
    model: &Model,
    poses: &[Pose],
) -> Result<Vec<Vector6<f64>>> {
    let maps: Vec<Affine> = poses.iter().map(|p| model.affine(p)).collect();
    let found = objective.evaluate(&maps, true)?;
    let one = |(e, pose): (&Evaluation, &Pose)| {
        let rows = e.gradient.unwrap_or([0.0; 12]);
        Vector6::from_vec(model.gradient(pose, Freedom::Rigid, &[0.0; 6], &rows))
    };
    Ok(found.iter().zip(poses).map(one).collect())
}

/// The curvature of a cost in the parameters at a pose.
pub(super) fn curvature(
    objective: &dyn Objective,
    (model, best): (&Model, &Pose),
    by: f64,
) -> Result<Matrix6<f64>> {
    let ends = gradients(objective, model, &beside(model, best, by))?;
    let mut curvature = Matrix6::zeros();
    for i in 0..6 {
        curvature.set_column(i, &((ends[2 * i + 1] - ends[2 * i]) / (2.0 * by)));
    }
    Ok((curvature + curvature.transpose()) / 2.0)
}

/// Poses on either side along each parameter.
fn beside(model: &Model, best: &Pose, by: f64) -> Vec<Pose> {
    let one = |i: usize| {
        let mut q = [0.0; 6];
        q[i / 2] = if i & 1 == 0 { -by } else { by };
        model.moved(best, Freedom::Rigid, &q)
    };
    (0..12).map(one).collect()
}

/// `H⁻¹ V H⁻¹` in the parameters of the model: with the curvature `H` of the cost and the variance `V` of its derivative, which is the sum
/// over blocks of the squares of what they say (the sandwich estimator, P. J. Huber 1967; with blocks, as neighbours err together). Draws of
/// pixels are in it, as blocks have only what was drawn. None where there is no minimum, or too few blocks.
fn by_curvature<D: Device>(
    search: &mut Search<'_, '_, D>,
    size: f64,
    objective: &XrayObjective<'_, D>,
    (model, best): (&Model, &Pose),
) -> Result<Option<Matrix6<f64>>> {
    let mut by = 0.25 * size;
    let mut bent = curvature(objective, (model, best), by)?;
    search.evaluations += 12;
    for _ in 0..WIDER {
        if bent.symmetric_eigenvalues().min() > 0.0 {
            break;
        }
        // What is rough nearby may have a minimum all the same.
        by *= 2.0;
        bent = curvature(objective, (model, best), by)?;
        search.evaluations += 12;
    }
    if bent.symmetric_eigenvalues().min() <= 0.0 {
        return Ok(None);
    }
    let poses = beside(model, best, by);
    let map = |i: usize| model.affine(&poses[i]);
    let ends = std::array::from_fn(|axis| [map(2 * axis), map(2 * axis + 1)]);
    let scores = objective.scores(&model.affine(best), &ends, by)?;
    search.evaluations += 13;
    let Some(inverse) = bent.try_inverse() else { return Ok(None) };
    let (mut found, mut most): (Option<Matrix6<f64>>, f64) = (None, 0.0);
    let mut first = None;
    for side in BLOCKS {
        let (mut sum, mut count) = (Matrix6::zeros(), 0.0);
        for (squares, blocks) in scores.iter().map(|s| s.squares(side)) {
            sum += squares;
            count += blocks as f64;
        }
        if count < FEWEST {
            continue;
        }
        // Six of them are spent on the pose.
        let variance = inverse * sum * inverse * (count / (count - 6.0));
        let whiten = match first {
            Some(whiten) => whiten,
            None => {
                let Some(whiten) = variance.try_inverse() else { continue };
                *first.insert(whiten)
            }
        };
        let times = (whiten * variance).trace() / 6.0;
        if times > most {
            (found, most) = (Some(variance), times);
        }
    }
    Ok(found)
}
