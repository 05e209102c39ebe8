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
    /// Standard deviations by the curvature of the cost and by how much its derivative differs between parts of the pixels; not
    /// finite where the cost has no minimum there, or where there are too few pixels to tell.
    pub curvature: [f64; 6],
    /// Standard deviations of the results of restarts, which begin where the images of the body are a few pixels from those of the
    /// result, and farther along what the images hardly tell; none without two of them.
    pub restarts: Option<[f64; 6]>,
    /// How far each restart ended from the result in the images: the root mean square over the body in the view where it is most,
    /// mm at the place of the CT.
    pub apart: Vec<f64>,
}

/// Draws by which the derivative differs.
const DRAWS: usize = 8;
/// The part of the pixels of a draw, and what it is raised to where those are few.
const PART: [f64; 2] = [0.1, 0.5];
/// The pixels that a draw should have.
const ENOUGH: f64 = 512.0;

/// Of a pose in the terms of `model`, whose axes are those of the room; `objective` has the pixels that are compared.
pub(super) fn find<D: Device>(
    search: &mut Search<'_, '_, D>,
    level: &Level<'_, D>,
    objective: &XrayObjective<'_, D>,
    (model, best): (&Model, &Pose),
    centre: Vector3<f64>,
) -> Result<Uncertainty> {
    let transform = model.affine(best);
    let curvature = by_curvature(search, level, objective, (model, best), centre)?;
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
    Ok(Uncertainty { curvature, restarts, apart })
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
fn numbers(model: &Model, best: &Pose, centre: Vector3<f64>) -> Matrix6<f64> {
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

/// `H⁻¹ V H⁻¹`: with the curvature `H` of the cost and the variance `V` of its derivative. That is estimated by draws of a part `p` of
/// all pixels, whose variance is `1 − p` of what it would be with independent ones, and the number of pixels of a draw by that of those
/// that are compared times that of the cost.
fn by_curvature<D: Device>(
    search: &mut Search<'_, '_, D>,
    level: &Level<'_, D>,
    objective: &XrayObjective<'_, D>,
    (model, best): (&Model, &Pose),
    centre: Vector3<f64>,
) -> Result<[f64; 6]> {
    let by = 0.25 * level.size;
    let poses: Vec<Pose> = (0..12)
        .map(|i| {
            let mut q = [0.0; 6];
            q[i / 2] = if i % 2 == 0 { by } else { -by };
            model.moved(best, Freedom::Rigid, &q)
        })
        .collect();
    let ends = gradients(objective, model, &poses)?;
    search.evaluations += poses.len();
    let mut curvature = Matrix6::zeros();
    for i in 0..6 {
        curvature.set_column(i, &((ends[2 * i] - ends[2 * i + 1]) / (2.0 * by)));
    }
    let curvature = (curvature + curvature.transpose()) / 2.0;
    let all = objective.counted().max(1) as f64;
    let views = objective.views().max(1) as f64;
    let part = (ENOUGH * views / all).clamp(PART[0], PART[1]);
    let options = search.options;
    let compared = Compared::by(options, options.seed.wrapping_add(2000));
    // Every evaluation has other pixels.
    let compared = Compared { anew: true, ..compared };
    let draws = level.drawn(compared, part, &model.affine(best))?;
    let found = (0..DRAWS)
        .map(|_| Ok(gradients(&draws, model, &[*best])?[0]))
        .collect::<Result<Vec<Vector6<f64>>>>()?;
    search.evaluations += DRAWS;
    let n = DRAWS as f64;
    let mean = found.iter().sum::<Vector6<f64>>() / n;
    let variance: Matrix6<f64> =
        found.iter().map(|d| (d - mean) * (d - mean).transpose()).sum::<Matrix6<f64>>() / (n - 1.0);
    let none = [f64::INFINITY; 6];
    let drawn = draws.compared() as f64;
    if drawn >= all || curvature.symmetric_eigenvalues().min() <= 0.0 {
        return Ok(none);
    }
    let Some(inverse) = curvature.try_inverse() else { return Ok(none) };
    let of_all = drawn / objective.compared().max(1) as f64 / (1.0 - drawn / all);
    let to_numbers = numbers(model, best, centre) * inverse;
    let covariance = to_numbers * variance * to_numbers.transpose() * of_all;
    Ok(std::array::from_fn(|i| covariance[(i, i)].max(0.0).sqrt()))
}
