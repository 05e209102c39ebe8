//! How certain a pose is: from the curvature of its cost, and from finding it again.

use super::level::Level;
use super::{Search, Tally};
use crate::error::Result;
use crate::random::Random;
use crate::search::Steps;
use crate::search::objective::Objective;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::refine::refine;
use nalgebra::{Matrix6, Vector6};
use voxalign_compute::Device;

/// How certain a pose is. All of six numbers: along the axes of the room, mm, and about them, radians.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    /// Standard deviations by the curvature of the cost and by how much its derivative differs between parts of the pixels; not
    /// finite where the cost has no minimum there.
    pub curvature: [f64; 6],
    /// Standard deviations of the results of restarts; none without two of them.
    pub restarts: Option<[f64; 6]>,
    /// How far each restart ended from the result: the root mean square over the body, mm.
    pub apart: Vec<f64>,
}

/// Draws by which the derivative differs.
const DRAWS: u64 = 8;
/// The part of the pixels of a draw.
const PART: f64 = 0.1;

pub(super) fn find<D: Device>(
    search: &mut Search<'_>,
    level: &Level<'_, D>,
    best: &Pose,
) -> Result<Uncertainty> {
    let curvature = by_curvature(search, level, best)?;
    let (mut steps, mut apart) = (Vec::new(), Vec::new());
    let (options, model) = (search.options, search.model);
    let mut random = Random::new(options.seed ^ 0x7265_7374_6172_7473);
    for again in 0..options.restarts {
        let mut q = [0.0; 6];
        q.iter_mut().for_each(|q| *q = (2.0 * random.uniform() - 1.0) * 2.0 * level.size);
        let from = model.moved(best, Freedom::Rigid, &q);
        let seed = options.seed.wrapping_add(1000 + again as u64);
        let (similarity, at) = (options.similarity, model.affine(best));
        // Half of the pixels at most, so that each restart has others.
        let sampling = Some(options.sampling.unwrap_or(0.5).min(0.5));
        let objective = level.objective(similarity, sampling, seed, &at)?;
        let how = Steps {
            first: 0.5 * level.size,
            longest: 4.0 * level.size,
            tolerance: 5e-3 * level.size,
            improvement: 1e-8,
            evaluations: 30,
        };
        let mut tally = Tally::new(search.progress);
        let kind = options.optimiser;
        let found =
            refine(&objective, &model, kind, &[from], Freedom::Rigid, how, &mut |all, part| {
                tally.count(all.iter().map(|e| e.cost), part)
            })?;
        search.evaluations += tally.evaluations;
        apart.push(search.distance(best, &found[0].pose));
        steps.push(between(&model, best, &found[0].pose));
    }
    let restarts = (steps.len() > 1).then(|| {
        let n = steps.len() as f64;
        let mean = steps.iter().sum::<Vector6<f64>>() / n;
        let squares: Vector6<f64> =
            steps.iter().map(|s| (s - mean).component_mul(&(s - mean))).sum();
        in_units((squares / (n - 1.0)).map(f64::sqrt), model.radius)
    });
    Ok(Uncertainty { curvature, restarts, apart })
}

/// Standard deviations of lengths as mm and radians.
fn in_units(deviations: Vector6<f64>, radius: f64) -> [f64; 6] {
    std::array::from_fn(|i| if i < 3 { deviations[i] } else { deviations[i] / radius })
}

/// The parameters that lead from a pose to another.
fn between(model: &Model, from: &Pose, to: &Pose) -> Vector6<f64> {
    let shift = to.translation - from.translation;
    let turn = voxalign_image::Rotation3::from_matrix(&(to.rotation * from.rotation.transpose()));
    let turn = turn.scaled_axis() * model.radius;
    Vector6::new(shift.x, shift.y, shift.z, turn.x, turn.y, turn.z)
}

/// `H⁻¹ V H⁻¹`: with the curvature `H` of the cost and the variance `V` of its derivative, which is that of draws of a part of the
/// pixels, times the part.
fn by_curvature<D: Device>(
    search: &mut Search<'_>,
    level: &Level<'_, D>,
    best: &Pose,
) -> Result<[f64; 6]> {
    let (options, model) = (search.options, search.model);
    let (similarity, at) = (options.similarity, model.affine(best));
    let objective = level.objective(similarity, options.sampling, options.seed, &at)?;
    let by = 0.25 * level.size;
    let poses: Vec<Pose> = (0..12)
        .map(|i| {
            let mut q = [0.0; 6];
            q[i / 2] = if i % 2 == 0 { by } else { -by };
            model.moved(best, Freedom::Rigid, &q)
        })
        .collect();
    let gradients = |objective: &dyn Objective, poses: &[Pose]| -> Result<Vec<Vector6<f64>>> {
        let maps: Vec<_> = poses.iter().map(|p| model.affine(p)).collect();
        let zeros = [0.0; 6];
        let found = objective.evaluate(&maps, true)?;
        let one = |(e, pose): (&crate::search::Evaluation, &Pose)| {
            let rows = e.gradient.unwrap_or([0.0; 12]);
            Vector6::from_vec(model.gradient(pose, Freedom::Rigid, &zeros, &rows))
        };
        Ok(found.iter().zip(poses).map(one).collect())
    };
    let ends = gradients(&objective, &poses)?;
    search.evaluations += poses.len();
    let mut curvature = Matrix6::zeros();
    for i in 0..6 {
        curvature.set_column(i, &((ends[2 * i] - ends[2 * i + 1]) / (2.0 * by)));
    }
    let curvature = (curvature + curvature.transpose()) / 2.0;
    let mut draws = Vec::new();
    for draw in 0..DRAWS {
        let seed = options.seed.wrapping_add(2000 + draw);
        let part = level.objective(similarity, Some(PART), seed, &at)?;
        draws.push((gradients(&part, &[*best])?[0], part.compared()));
        search.evaluations += 1;
    }
    let n = draws.len() as f64;
    let mean = draws.iter().map(|d| d.0).sum::<Vector6<f64>>() / n;
    let variance: Matrix6<f64> =
        draws.iter().map(|d| (d.0 - mean) * (d.0 - mean).transpose()).sum::<Matrix6<f64>>()
            / (n - 1.0);
    let part = draws[0].1 as f64 / objective.compared().max(1) as f64;
    let none = [f64::INFINITY; 6];
    if curvature.symmetric_eigenvalues().min() <= 0.0 {
        return Ok(none);
    }
    let Some(inverse) = curvature.try_inverse() else { return Ok(none) };
    let covariance = inverse * variance * inverse * part.min(1.0);
    let deviations = Vector6::from_fn(|i, _| covariance[(i, i)].max(0.0).sqrt());
    Ok(in_units(deviations, model.radius))
}
