//! The uncertainty of a pose: from the curvature of its cost, and from restarts.

use super::geometry::{Frame, one};
use super::level::{Compared, Level, WORTH};
use super::options::{NUMBERS, Refinement};
use super::search::Search;
use super::verdict::Misfit;
use crate::error::Result;
use crate::projection::numbers::between;
use crate::projection::objective::XrayObjective;
use crate::projection::objective::scores::{Ends, Scores};
use crate::random::Random;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::stage::Stage;
use crate::search::{Evaluation, Objective, Steps};
use nalgebra::{DMatrix, DVector, Matrix6, Vector6};
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3};
use voxalign_options::Choice;

/// The uncertainty of a pose, in six numbers: translation of the [centre](super::PoseResult::centre) along the axes
/// of the room, mm, and rotation of the CT about them, radians.
#[derive(Debug, Clone, PartialEq)]
pub struct Uncertainty {
    /// Standard deviations from the curvature of the cost and the variation of its derivative between blocks of
    /// pixels; not finite where the cost has no minimum there, or where there are too few pixels.
    pub curvature: [f64; 6],
    /// Standard deviations of the results of restarts, which begin where the images of the body are a few pixels
    /// from those of the result, and farther along directions that the images hardly determine; none without two of
    /// them.
    pub restarts: Option<[f64; 6]>,
    /// The distance of the end of each restart from the result in the images: the root mean square over the body in
    /// the worst view, mm at the place of the CT.
    pub apart: Vec<f64>,
    /// The covariance of the six numbers by the curvature of the cost and by blocks of pixels.
    pub by_blocks: Option<[[f64; 6]; 6]>,
    /// The covariance of the six numbers: from the curvature of the cost, wider where restarts ended farther away;
    /// none where the cost has no minimum, or there are too few pixels.
    pub covariance: Option<[[f64; 6]; 6]>,
}

/// Columns and rows of blocks, in cells: of those sizes that have enough blocks the one counts that gives the largest deviations, by more
/// than chance.
const BLOCKS: [usize; 4] = [1, 2, 4, 8];
/// The standard deviation of each number of a pose that is not in its blocks, in pixels: images of coarse pixels are simulated of coarse voxels.
const FLOOR: f64 = 0.006;
/// How often the curvature is looked for over twice the distance.
const WIDER: usize = 3;
/// The number of standard deviations by which a variance of larger blocks has to exceed chance to count.
const CHANCE: f64 = 2.0;
/// Blocks that a variance is estimated of at least.
const FEWEST: f64 = 24.0;
/// The number of variances away that most restarts have to end along a direction to count: chance gives less.
const FARTHER: f64 = 9.0;

/// Of a pose in the terms of `model`, whose axes are those of the room; `objective` has the pixels that are compared.
pub(super) fn find<D: Device>(
    search: &mut Search<'_, '_, D>,
    level: &Level<'_, D>,
    objective: &XrayObjective<'_, D>,
    (model, best): (&Model, &Pose),
    centre: Vector3<f64>,
    frames: &[Frame],
) -> Result<Found> {
    let transform = model.affine(best);
    let curved = Curved::new(search, level.size, objective, (model, best), frames)?;
    let refined: Vec<usize> =
        search.options.refine.iter().flat_map(|r| r.numbers()).copied().collect();
    let all = curved.as_ref().and_then(|c| c.variance(&c.numbers(&refined)));
    let misfits = curved.as_ref().map_or_else(Vec::new, |curved| {
        let all = if frames.is_empty() { &[][..] } else { Refinement::ALL };
        // What was refined has a step to go where it does not stand still. Both at once tell nothing.
        let refine = search.options.refine;
        let told = all.iter().filter(|what| refine.is_none_or(|r| r == **what));
        told.filter_map(|what| curved.step(*what, &refined, frames)).collect()
    });
    let to_numbers = numbers(model, best, centre);
    let floor = Matrix6::identity() * (FLOOR * level.size).powi(2);
    let of_pose = |all: &DMatrix<f64>| all.fixed_view::<6, 6>(0, 0) + floor;
    let found = all.as_ref().map(of_pose);
    let found = found.map(|variance| to_numbers * variance * to_numbers.transpose());
    let geometries = all.map_or_else(Vec::new, |all| {
        let diagonal: Vec<f64> = all.diagonal().iter().skip(6).copied().collect();
        diagonal.chunks(refined.len().max(1)).map(<[f64]>::to_vec).collect()
    });
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
        let mut stage = Stage::new(model, options.optimiser, search.progress);
        let found = stage.refine(&again, &[from], Freedom::Rigid, how)?;
        search.evaluations += stage.evaluations;
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
    let uncertainty = Uncertainty { curvature, restarts, apart, by_blocks, covariance };
    Ok(Found { uncertainty, misfits, geometries })
}

/// Findings on a pose and on the geometries of its views.
pub(super) struct Found {
    pub(super) uncertainty: Uncertainty,
    /// Findings on the parameters that were not refined.
    pub(super) misfits: Vec<Misfit>,
    /// The variances of the refined numbers of each view, in the order of the options.
    pub(super) geometries: Vec<Vec<f64>>,
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

/// The largest distance of the start of restarts, in pixels in the images, and in space along directions that the
/// images hardly determine.
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

/// The cost around a pose and the geometries of its views: its derivative, its curvature, and the contributions of
/// blocks of pixels to each.
pub(super) struct Curved {
    derivatives: DVector<f64>,
    /// The curvature in the pose alone.
    in_pose: Matrix6<f64>,
    bent: DMatrix<f64>,
    scores: Vec<Scores>,
}

impl Curved {
    /// At a pose; with the geometries of the views where there are frames. None where the cost has no minimum in the pose.
    fn new<D: Device>(
        search: &mut Search<'_, '_, D>,
        size: f64,
        objective: &XrayObjective<'_, D>,
        (model, best): (&Model, &Pose),
        frames: &[Frame],
    ) -> Result<Option<Self>> {
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
        let by = if frames.is_empty() { by } else { FINE * size };
        let scores = scores(objective, (model, best), by, frames)?;
        search.evaluations += OF_SCORES;
        let (derivatives, all) = self::bent(&scores, &bent);
        Ok(Some(Self { derivatives, in_pose: bent, bent: all, scores }))
    }

    /// The numbers of a pose and those of its geometries that are named.
    fn numbers(&self, of: &[usize]) -> Vec<usize> {
        numbers_of((self.derivatives.len() - 6) / NUMBERS, of)
    }

    /// The inverse of the curvature in some parameters; none where it has no minimum.
    fn inverse(&self, numbers: &[usize]) -> Option<DMatrix<f64>> {
        if numbers.len() == 6 {
            return Some(DMatrix::from_iterator(6, 6, self.in_pose.try_inverse()?.iter().copied()));
        }
        let part = self.bent.select_rows(numbers).select_columns(numbers);
        Some(part.cholesky()?.inverse())
    }

    /// `H⁻¹ V H⁻¹` for some parameters: with the curvature `H` of the cost and the variance `V` of its derivative,
    /// which is the sum over blocks of their squared contributions (the sandwich estimator, P. J. Huber 1967; by
    /// blocks, as errors of neighbours are correlated). The variance of pixel draws is included, as blocks contain
    /// only drawn pixels. None where there is no minimum, or too few blocks.
    fn variance(&self, numbers: &[usize]) -> Option<DMatrix<f64>> {
        let inverse = self.inverse(numbers)?;
        let n = numbers.len();
        let (mut found, mut most, mut first) = (None, 0.0, None);
        for side in BLOCKS {
            let (mut sum, mut count) = (DMatrix::zeros(n, n), 0.0);
            for (squares, blocks) in self.scores.iter().map(|s| s.squares(side)) {
                sum += squares.select_rows(numbers).select_columns(numbers);
                count += blocks as f64;
            }
            if count < FEWEST.max(2.0 * n as f64) {
                continue;
            }
            // As many of them are spent on the numbers.
            let variance = &inverse * sum * &inverse * (count / (count - n as f64));
            let whiten = match &first {
                Some(whiten) => whiten,
                None => {
                    let Some(whiten) = variance.clone().try_inverse() else { continue };
                    &*first.insert(whiten)
                }
            };
            let times = (whiten * &variance).trace() / n as f64;
            // A few blocks differ by chance.
            if times > most * (1.0 + CHANCE * (2.0 / count).sqrt()) {
                (found, most) = (Some(variance), times);
            }
        }
        found
    }

    /// What one step of the geometries would gain in addition to the refined parameters; none where the images do
    /// not determine it.
    fn step(&self, what: Refinement, refined: &[usize], frames: &[Frame]) -> Option<Misfit> {
        let mut of = refined.to_vec();
        of.extend(what.numbers().iter().filter(|i| !refined.contains(i)));
        let numbers = self.numbers(&of);
        let (inverse, variance) = (self.inverse(&numbers)?, self.variance(&numbers)?);
        let derivatives =
            DVector::from_iterator(numbers.len(), numbers.iter().map(|&i| self.derivatives[i]));
        let step = -(inverse * derivatives);
        let sure = (0..6).map(|i| variance[(i, i)].max(0.0)).sum::<f64>().sqrt();
        let views = (numbers.len() - 6) / of.len();
        let by = (0..views).zip(frames).map(|(view, frame)| {
            let mut all = [[0.0; 2]; NUMBERS];
            for (i, &number) in of.iter().enumerate() {
                let (at, unit) = (6 + view * of.len() + i, frame.units()[number]);
                all[number] = [step[at], variance[(at, at)].max(0.0).sqrt()].map(|v| v * unit);
            }
            all
        });
        Some(Misfit { what, moves: step.rows(0, 6).norm(), sure, by: by.collect() })
    }
}

/// The indices of the parameters of a pose and of the named geometry parameters of this many views, among all.
pub(super) fn numbers_of(views: usize, of: &[usize]) -> Vec<usize> {
    let each = (0..views).flat_map(|view| of.iter().map(move |i| 6 + NUMBERS * view + i));
    (0..6).chain(each).collect()
}

/// The contribution of each part of the images to the parameters of a pose and of the geometries of all views.
pub(super) fn scores<D: Device>(
    objective: &XrayObjective<'_, D>,
    (model, best): (&Model, &Pose),
    by: f64,
    frames: &[Frame],
) -> Result<Vec<Scores>> {
    let (map, poses) = (model.affine(best), beside(model, best, by));
    let mut all = Vec::with_capacity(objective.views());
    for view in 0..objective.views() {
        let geometry = *objective.geometry(view);
        let place = |i: usize| (geometry, model.affine(&poses[i]));
        let mut ends: Vec<Ends> =
            (0..6).map(|axis| Some([place(2 * axis), place(2 * axis + 1)])).collect();
        for (of, frame) in frames.iter().enumerate() {
            for number in 0..NUMBERS {
                let end = |by| frame.changed(&geometry, one(number, by));
                ends.push(match of == view {
                    true => Some([(end(-by)?, map), (end(by)?, map)]),
                    false => None,
                });
            }
        }
        all.push(objective.scores(view, &map, &ends, by)?);
    }
    Ok(all)
}

/// The derivative of the cost and its curvature, by that in the pose alone: what is not of a parabola would hide what a pose nearly makes up for,
/// which is bent a thousandth as much as what it does not.
pub(super) fn bent(scores: &[Scores], in_pose: &Matrix6<f64>) -> (DVector<f64>, DMatrix<f64>) {
    let n = scores.first().map_or(6, |s| s.metric.nrows());
    let (mut derivatives, mut metric) = (DVector::zeros(n), DMatrix::zeros(n, n));
    for one in scores {
        derivatives += one.derivatives();
        metric += &one.metric;
    }
    let of_pose: Matrix6<f64> = metric.fixed_view::<6, 6>(0, 0).into_owned();
    let times = of_pose.try_inverse().map_or(1.0, |back| (back * in_pose).trace() / 6.0);
    (derivatives, metric * if times > 0.0 { times } else { 1.0 })
}

/// Evaluations of scores, of each view alike.
pub(super) const OF_SCORES: usize = 1 + 12 + 2 * NUMBERS;
/// The part of a pixel over which images differ where geometries are free.
pub(super) const FINE: f64 = 0.05;
