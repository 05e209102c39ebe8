//! The pose of a CT by X-ray images: a search over poses from coarse to fine, how certain the result is, and its verdict.

mod certainty;
mod level;
mod options;
mod verdict;

pub use certainty::Uncertainty;
pub use options::{PoseOptions, Range};

use super::objective::View;
use crate::error::{RegisterError, Result};

use crate::progress::{Event, Progress};
use crate::random::Random;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::refine::{Candidate, refine};
use crate::search::{Objective, StageRecord, Steps, TracePoint};
use crate::verdict::Verdict;
use level::Level;
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_image::{Affine, Matrix3, Rotation3, Vector3, Volume};

/// What a pose is found of.
#[derive(Debug, Clone)]
pub struct PoseInput<'a> {
    /// Attenuations, 1/mm; outside of it is 0.
    pub ct: &'a Volume<f32>,
    /// X-ray images of it, in one room.
    pub views: Vec<View<'a>>,
    /// Where the search begins: from the room to the world of the CT. Rigid.
    pub start: Affine,
}

/// A pose, and how it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct PoseResult {
    /// From the room to the world of the CT, mm; rigid.
    pub transform: Affine,
    /// Where the search began.
    pub start: Affine,
    /// The point of the room about which rotations are counted: the middle of what attenuates, at the result, mm.
    pub centre: Vector3<f64>,
    /// The cost of the start and of the result at the finest scale.
    pub costs: [f64; 2],
    /// The cost of the result in each view.
    pub by_view: Vec<f64>,
    /// The correlation of the gradients of each view with those of the result, whatever was minimised.
    pub correlations: Vec<f64>,
    /// How certain the pose is.
    pub uncertainty: Uncertainty,
    /// The cost along each of six parameters through the result.
    pub landscape: Vec<Landscape>,
    /// The scales, coarse to fine.
    pub stages: Vec<StageRecord>,
    /// Steps of the optimiser that led to the result.
    pub iterations: usize,
    /// Simulated images of one view.
    pub renders: usize,
    /// The verdict.
    pub verdict: Verdict,
}

/// The cost along a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Landscape {
    /// Offsets from the result: mm, or radians.
    pub offsets: Vec<f64>,
    /// The costs there.
    pub costs: Vec<f64>,
}

/// The names of the six parameters: translations along the axes of the room, mm, and rotations about them, radians.
pub const PARAMETERS: [&str; 6] = ["x", "y", "z", "rotation x", "rotation y", "rotation z"];

/// The poses that are refined at each scale, the coarsest first; one at the finest.
const KEPT: [usize; 3] = [16, 6, 3];
/// How far away another place is, in pixels at the place of the CT.
const ELSEWHERE: f64 = 3.0;
/// The part of the pixels by which costs along parameters are shown.
const LANDSCAPE: f64 = 0.05;
/// Evaluations of a refinement with a gradient.
const EVALUATIONS: usize = 40;

/// Finds the pose of a CT by X-ray images.
///
/// # Errors
/// Options out of range; no views; images without contrast or with values that are no numbers; a CT that attenuates nothing; a
/// start that is not rigid, or from which no view sees the CT; what fails on the device.
pub fn register_pose<D: Device>(
    device: &D,
    input: &PoseInput<'_>,
    options: &PoseOptions,
    progress: &dyn Progress,
) -> Result<PoseResult> {
    options.check()?;
    let (middle, radius) = check(input)?;
    let centre = input.start.inverse()?.apply(middle);
    let model = Model {
        centre,
        frame: Matrix3::identity(),
        target: Matrix3::identity(),
        radius,
        flat: false,
    };
    let mut sizes = options.levels.clone();
    if sizes.is_empty() {
        sizes = level::sizes(input.ct, &input.views, centre);
    }
    let mut search = Search {
        input,
        options,
        progress,
        model,
        evaluations: 0,
        iterations: 0,
        stages: Vec::new(),
    };
    let start = Candidate { pose: model.pose_of(&input.start), cost: f64::INFINITY };
    let (mut candidates, mut rival) = (vec![start], None);
    let mut last = None;
    for (index, &size) in sizes.iter().enumerate() {
        let level = Level::new(device, input.ct, &input.views, size, centre)?;
        candidates = search.stage(&level, index, sizes.len(), &candidates)?;
        // The best one that is another place and not the same one less exactly.
        let best = candidates[0];
        let apart = |c: &&Candidate| search.distance(&best.pose, &c.pose) > ELSEWHERE * size;
        if candidates.len() > 1 {
            rival = candidates.iter().find(apart).map(|other| (best.cost, other.cost));
        }
        last = Some(level);
    }
    let Some(level) = last else { return Err(nothing("levels")) };
    search.finish(&level, candidates[0], rival)
}

fn nothing(option: &'static str) -> RegisterError {
    RegisterError::Option { option, value: "none".to_owned(), remedy: "give one".to_owned() }
}

/// What is known before any search: the middle of what attenuates, in the world of the CT, and how far it reaches.
fn check(input: &PoseInput<'_>) -> Result<(Vector3<f64>, f64)> {
    if input.views.is_empty() {
        return Err(nothing("X-ray images"));
    }
    for view in &input.views {
        let ([x, y], [w, h]) = view.counted()?;
        let [columns, rows] = view.geometry.dims();
        if view.image.len() != columns * rows {
            return Err(RegisterError::Option {
                option: "size of an X-ray image",
                value: format!("{} pixels", view.image.len()),
                remedy: format!("its geometry has {columns} x {rows}"),
            });
        }
        let counted = || (y..y + h).flat_map(|r| &view.image[r * columns + x..][..w]);
        let odd = counted().filter(|v| !v.is_finite()).count();
        if odd > 0 {
            return Err(RegisterError::NotFinite { role: "X-ray", count: odd });
        }
        let first = counted().next().copied().unwrap_or(0.0);
        if counted().all(|&v| v == first) {
            return Err(RegisterError::Constant { role: "X-ray", value: first, within: "" });
        }
    }
    let matrix = input.start.matrix;
    let off = (matrix.transpose() * matrix - Matrix3::identity()).norm();
    if off.is_nan() || off > 1e-4 {
        return Err(RegisterError::Option {
            option: "start",
            value: "a map that changes lengths".to_owned(),
            remedy: "give a rigid one (rotation and translation)".to_owned(),
        });
    }
    let grid = input.ct.grid();
    let [nx, ny, _] = grid.dims();
    let odd = input.ct.data().iter().filter(|v| !v.is_finite()).count();
    if odd > 0 {
        return Err(RegisterError::NotFinite { role: "CT", count: odd });
    }
    let (mut mass, mut sum, mut squares) = (0.0, Vector3::zeros(), Vector3::zeros());
    for (i, &value) in input.ct.data().iter().enumerate().filter(|(_, v)| **v > 0.0) {
        let at = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
        let m = f64::from(value);
        mass += m;
        sum += at * m;
        squares += at.component_mul(&at) * m;
    }
    if mass <= 0.0 {
        return Err(RegisterError::Constant { role: "CT", value: 0.0, within: "" });
    }
    let mean = sum / mass;
    let spread = squares / mass - mean.component_mul(&mean);
    let spacing = Vector3::from(grid.spacing());
    let variance = spread.dot(&spacing.component_mul(&spacing)).max(1.0);
    Ok((grid.index_to_world(mean), variance.sqrt()))
}

/// A search under way.
struct Search<'a> {
    input: &'a PoseInput<'a>,
    options: &'a PoseOptions,
    progress: &'a dyn Progress,
    model: Model,
    evaluations: usize,
    iterations: usize,
    stages: Vec<StageRecord>,
}

impl Search<'_> {
    /// The poses of the coarsest scale: the start, and others within the range.
    fn starts(&self, start: Pose) -> Vec<Pose> {
        let mut random = Random::new(self.options.seed);
        let mut poses = vec![start];
        let range = self.options.range;
        while poses.len() < self.options.starts {
            let mut q = [0.0; 6];
            for (i, q) in q.iter_mut().enumerate() {
                let most =
                    if i < 3 { range.translation } else { range.rotation * self.model.radius };
                *q = (2.0 * random.uniform() - 1.0) * most;
            }
            poses.push(self.model.moved(&start, Freedom::Rigid, &q));
        }
        poses
    }

    /// The best poses that are apart from each other, best first.
    fn distinct(&self, mut all: Vec<Candidate>, apart: f64, most: usize) -> Vec<Candidate> {
        all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        let mut kept: Vec<Candidate> = Vec::new();
        for one in all {
            if kept.len() >= most {
                break;
            }
            if kept.iter().all(|k| self.distance(&k.pose, &one.pose) > apart) {
                kept.push(one);
            }
        }
        kept
    }

    /// How far poses are apart: the root mean square over the body, mm.
    fn distance(&self, a: &Pose, b: &Pose) -> f64 {
        let turn = a.rotation.transpose() * b.rotation;
        let angle = ((turn.trace() - 1.0) / 2.0).clamp(-1.0, 1.0).acos();
        (a.translation - b.translation).norm().hypot(angle * self.model.radius)
    }

    fn stage<D: Device>(
        &mut self,
        level: &Level<'_, D>,
        index: usize,
        count: usize,
        before: &[Candidate],
    ) -> Result<Vec<Candidate>> {
        let (began, name) = (Instant::now(), format!("{:.3} mm", level.size));
        self.progress.event(&Event::StageStart {
            index,
            count,
            name: &name,
            counts: "evaluations",
            value: "cost",
            share: 1.0 / count as f64,
        });
        let options = self.options;
        let seed = options.seed.wrapping_add(index as u64 + 1);
        let (similarity, sampling) = (options.similarity, options.sampling);
        let at = self.model.affine(&before[0].pose);
        let objective = level.objective(similarity, sampling, seed, &at)?;
        let mut tally = Tally::new(self.progress);
        let looked = match (index, before) {
            (0, [start]) => self.costs(&objective, &self.starts(start.pose), &mut tally)?,
            _ => {
                let poses: Vec<_> = before.iter().map(|c| c.pose).collect();
                self.costs(&objective, &poses, &mut tally)?
            }
        };
        let cost_start = looked[0].cost;
        if !looked.iter().any(|c| c.cost.is_finite()) {
            return Err(RegisterError::NothingSeen);
        }
        let last = index + 1 == count;
        let kept = KEPT.get(index).copied().unwrap_or(2);
        let poses: Vec<Pose> = match last && index > 0 {
            true => vec![self.distinct(looked, 0.0, 1)[0].pose],
            false => self.distinct(looked, level.size, kept).iter().map(|c| c.pose).collect(),
        };
        let steps = Steps {
            first: 0.5 * level.size,
            longest: 4.0 * level.size,
            tolerance: if last { 2e-3 } else { 2e-2 } * level.size,
            improvement: if last { 1e-9 } else { 1e-5 },
            evaluations: EVALUATIONS,
        };
        let refined = refine(
            &objective,
            &self.model,
            options.optimiser,
            &poses,
            Freedom::Rigid,
            steps,
            &mut |found, part| {
                self.iterations += 1;
                tally.count(found.iter().map(|e| e.cost), part)
            },
        )?;
        let next = KEPT.get(index + 1).copied().unwrap_or(2);
        let best = self.distinct(refined, level.size, if last { 1 } else { next });
        self.evaluations += tally.evaluations;
        let samples = objective.compared();
        self.progress.event(&Event::StageEnd {
            name: &name,
            evaluations: tally.evaluations,
            start: cost_start,
            best: best[0].cost,
            seconds: began.elapsed().as_secs_f64(),
        });
        self.stages.push(StageRecord {
            name,
            spacing: [level.size; 3],
            samples,
            bins: 0,
            dof: vec![6],
            candidates: [poses.len(), best.len()],
            evaluations: tally.evaluations,
            cost_start,
            cost_end: best[0].cost,
            seconds: began.elapsed().as_secs_f64(),
            trace: tally.trace,
        });
        Ok(best)
    }

    fn costs(
        &self,
        objective: &dyn Objective,
        poses: &[Pose],
        tally: &mut Tally<'_>,
    ) -> Result<Vec<Candidate>> {
        let mut all = Vec::with_capacity(poses.len());
        for batch in poses.chunks(objective.batch()) {
            let maps: Vec<Affine> = batch.iter().map(|p| self.model.affine(p)).collect();
            let found = objective.evaluate(&maps, false)?;
            tally.count(found.iter().map(|e| e.cost), 0.0)?;
            // A pose that no view sees is none.
            let cost = |e: &crate::search::Evaluation| {
                if e.overlap > 0.0 { e.cost } else { f64::INFINITY }
            };
            all.extend(
                batch.iter().zip(&found).map(|(&pose, e)| Candidate { pose, cost: cost(e) }),
            );
        }
        Ok(all)
    }

    /// The result, how certain it is, and the verdict.
    fn finish<D: Device>(
        mut self,
        level: &Level<'_, D>,
        best: Candidate,
        rival: Option<(f64, f64)>,
    ) -> Result<PoseResult> {
        let transform = rigid(&self.model.affine(&best.pose));
        let options = self.options;
        let (similarity, sampling) = (options.similarity, options.sampling);
        let objective = level.objective(similarity, sampling, options.seed, &transform)?;
        let ends = objective.evaluate(&[self.input.start, transform], false)?;
        let uncertainty = certainty::find(&mut self, level, &best.pose)?;
        // For a picture.
        let part = sampling.unwrap_or(LANDSCAPE).min(LANDSCAPE);
        let rough = level.objective(similarity, Some(part), options.seed, &transform)?;
        let landscape = self.landscape(&rough, &best.pose, level.size)?;
        let gradients = crate::projection::XraySimilarity::GradientNcc;
        let shown = level.objective(gradients, None, options.seed, &transform)?;
        let correlations: Vec<f64> = shown.by_view(&transform)?.iter().map(|c| 1.0 - c).collect();
        let by_view = objective.by_view(&transform)?;
        self.evaluations += 2;
        let centre = transform.inverse()?.apply(self.input.start.apply(self.model.centre));
        let mut result = PoseResult {
            transform,
            start: self.input.start,
            centre,
            costs: [ends[0].cost, ends[1].cost],
            by_view,
            correlations,
            uncertainty,
            landscape,
            stages: self.stages,
            iterations: self.iterations,
            renders: self.evaluations * self.input.views.len(),
            verdict: Verdict::new(Vec::new(), Vec::new()),
        };
        result.verdict = verdict::judge(&result, ends[1].overlap, rival, level.size);
        Ok(result)
    }

    fn landscape(
        &mut self,
        objective: &dyn Objective,
        best: &Pose,
        size: f64,
    ) -> Result<Vec<Landscape>> {
        const POINTS: i32 = 20;
        let (reach, radius) = (16.0 * size, self.model.radius);
        let places: Vec<f64> =
            (-POINTS..=POINTS).map(|i| reach * f64::from(i) / f64::from(POINTS)).collect();
        (0..6)
            .map(|axis| {
                let pose = |&by: &f64| {
                    let mut q = [0.0; 6];
                    q[axis] = by;
                    self.model.moved(best, Freedom::Rigid, &q)
                };
                let poses: Vec<Pose> = places.iter().map(pose).collect();
                let found = self.costs(objective, &poses, &mut Tally::new(self.progress))?;
                self.evaluations += poses.len();
                let unit = if axis < 3 { 1.0 } else { 1.0 / radius };
                Ok(Landscape {
                    offsets: places.iter().map(|p| p * unit).collect(),
                    costs: found.iter().map(|c| c.cost).collect(),
                })
            })
            .collect()
    }
}

/// The nearest rigid map: rounding goes.
fn rigid(map: &Affine) -> Affine {
    Affine::new(*Rotation3::from_matrix(&map.matrix).matrix(), map.offset)
}

/// Evaluations of a stage, and the best of them.
pub(super) struct Tally<'a> {
    progress: &'a dyn Progress,
    evaluations: usize,
    best: f64,
    trace: Vec<TracePoint>,
}

impl<'a> Tally<'a> {
    fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, evaluations: 0, best: f64::INFINITY, trace: Vec::new() }
    }

    fn count(&mut self, costs: impl Iterator<Item = f64>, part: f64) -> Result<()> {
        for cost in costs {
            self.evaluations += 1;
            if cost < self.best {
                self.best = cost;
                self.trace.push(TracePoint { evaluation: self.evaluations, cost });
            }
        }
        self.progress.event(&Event::Step {
            done: part.clamp(0.0, 1.0),
            evaluations: self.evaluations,
            best: self.best,
            what: "",
        });
        if self.progress.stop() { Err(RegisterError::Stopped) } else { Ok(()) }
    }
}
