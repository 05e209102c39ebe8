//! The coarse-to-fine search over poses.

use super::body::PreparedCt;
use super::level::{Compared, Level, at_point};
use super::options::{PoseOptions, PoseSearch, Range};
use super::verdict::{Asked, Looked};
use super::{PoseResult, nothing};
use crate::error::{RegisterError, Result};
use crate::progress::Progress;
use crate::projection::objective::View;
use crate::projection::rotations::evenly;
use crate::random::Random;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::refine::Candidate;
use crate::search::stage::{self, Stage};
use crate::search::{Evaluation, Objective, StageRecord, Steps};
use nalgebra::Vector2;
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_image::{Affine, Matrix3, Vector3};

/// The poses that are refined at each scale, the coarsest first; one at the finest.
const KEPT: [usize; 3] = [16, 6, 3];
/// Poses that a search over all rotations looks at, and those of them that are kept at each scale.
const EVERYWHERE: usize = 6000;
const KEPT_EVERYWHERE: [usize; 3] = [64, 16, 6];
/// Corners around a body.
const CORNERS: usize = 8;
/// A pose that moves by less than this fraction of a pixel between two refinements has converged, and the largest
/// number of refinements.
const STILL: f64 = 1e-3;
const AGAIN: usize = 6;
/// The shift of a pose at a finer scale, as a fraction of a pixel, below which still finer scales do not help.
const SETTLED: f64 = 0.01;
/// Evaluations of a refinement.
const EVALUATIONS: usize = 40;

/// How a geometry was changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// The distance of the detector from the source that was given, mm.
    pub(super) given: f64,
    /// Its shifts, mm.
    pub(super) shift: [f64; 2],
}

/// A search under way.
pub(super) struct Search<'a, 'd, D: Device> {
    pub(super) ct: &'a PreparedCt<'d, D>,
    pub(super) views: &'a [View<'a>],
    pub(super) start: Affine,
    pub(super) options: &'a PoseOptions,
    pub(super) progress: &'a dyn Progress,
    /// Parameters are along the axes of the room, with the CT as at the start.
    pub(super) model: Model,
    pub(super) evaluations: usize,
    pub(super) iterations: usize,
    pub(super) stages: Vec<StageRecord>,
    /// The number of steps begun, and the largest number of them.
    parts: [usize; 2],
    /// The least lead of the best pose over those elsewhere that were tried.
    pub(super) lead: Option<f64>,
    /// Further findings.
    pub(super) looked: Looked,
    /// Where the search begins, and how the geometries of its views were changed, where these were refined.
    pub(super) refined: Option<(Pose, Vec<Change>)>,
}

/// The work of a search.
#[derive(Debug, Default)]
pub(super) struct Work {
    evaluations: usize,
    iterations: usize,
    stages: Vec<StageRecord>,
    /// Parts that were begun.
    begun: usize,
}

/// The model of poses near a map, with parameters along the axes of the room and rotations about the place there of the
/// middle of the CT.
pub(super) fn model<D: Device>(ct: &PreparedCt<'_, D>, near: &Affine) -> Result<Model> {
    Ok(Model {
        centre: near.inverse()?.apply(ct.middle),
        frame: Matrix3::identity(),
        target: near.matrix,
        radius: ct.radius,
        flat: false,
    })
}

impl<'a, 'd, D: Device> Search<'a, 'd, D> {
    pub(super) fn new(
        ct: &'a PreparedCt<'d, D>,
        views: &'a [View<'a>],
        start: Affine,
        options: &'a PoseOptions,
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        let model = model(ct, &start)?;
        Ok(Self {
            ct,
            views,
            start,
            options,
            progress,
            model,
            evaluations: 0,
            iterations: 0,
            stages: Vec::new(),
            parts: [0, 0],
            lead: None,
            looked: Looked::default(),
            refined: None,
        })
    }

    /// The same search by views whose geometry was refined, from the pose that was found with it.
    pub(super) fn again(self, views: &'a [View<'a>], pose: Pose, changes: Vec<Change>) -> Self {
        Self {
            views,
            lead: None,
            looked: Looked::default(),
            refined: Some((pose, changes)),
            ..self
        }
    }

    /// A search after another one, whose work counts.
    pub(super) fn after(self, before: Work) -> Self {
        let Work { evaluations, iterations, stages, begun } = before;
        Self { evaluations, iterations, stages, parts: [begun, begun], ..self }
    }

    /// The log of the work.
    pub(super) fn work(self) -> Work {
        let Self { evaluations, iterations, stages, parts: [begun, _], .. } = self;
        Work { evaluations, iterations, stages, begun }
    }

    /// Expects this many scales, and the steps besides.
    pub(super) fn expect(&mut self, scales: usize, asked: Asked) {
        let landscape = usize::from(self.options.landscape);
        self.parts[1] = self.parts[0] + scales + 2 + usize::from(asked.thorough) + landscape;
    }

    /// Searches at scales, coarse to fine, and then at finer ones until the pose converges; the CT is prepared for
    /// all of them. Returns the scales that were used, and the best pose.
    pub(super) fn stages(
        &mut self,
        sizes: &[f64],
        finer: &[f64],
    ) -> Result<(Vec<Level<'a, D>>, Candidate)> {
        let start = self.refined.as_ref().map(|(pose, _)| *pose);
        let start = start.unwrap_or_else(|| self.model.pose_of(&self.start));
        let start = Candidate { pose: start, cost: f64::INFINITY };
        let (ct, mut candidates, mut levels) = (self.ct, vec![start], Vec::new());
        for (index, &size) in sizes.iter().chain(finer).enumerate() {
            let level = Level::new(ct.at(size)?, self.views, size, self.model.centre)?;
            let before = candidates[0].pose;
            candidates = self.stage(&level, index, sizes.len(), &candidates)?;
            levels.push(level);
            let moved = self.distance(&before, &candidates[0].pose);
            if index >= sizes.len() && moved < SETTLED * size {
                break;
            }
        }
        Ok((levels, candidates[0]))
    }

    /// Searches at scales, and looks at the result from all sides.
    pub(super) fn run(mut self, sizes: &[f64], finer: &[f64], asked: Asked) -> Result<PoseResult> {
        if self.refined.is_none() {
            self.expect(sizes.len() + finer.len(), asked);
        }
        let (levels, best) = self.stages(sizes, finer)?;
        self.look(&levels, best, sizes.len(), asked)
    }

    /// Tests the result of scales against competing poses; this many scales are the default ones.
    pub(super) fn look(
        mut self,
        levels: &[Level<'a, D>],
        best: Candidate,
        usual: usize,
        asked: Asked,
    ) -> Result<PoseResult> {
        let fine = levels.last().ok_or_else(|| nothing("levels"))?;
        // The finest scale tells little more.
        let coarse = &levels[..(usual - 1).max(1)];
        self.part("poses elsewhere", |all| all.elsewhere(coarse, &best.pose))?;
        if asked.thorough {
            self.part("other rotations and images", |all| {
                all.looked.turned = all.turned(coarse, &best.pose)?;
                all.looked.suspect = all.suspect(coarse, &best.pose)?;
                Ok(())
            })?;
        }
        let usual = &levels[usual.min(levels.len()) - 1];
        self.finish([fine, usual], best, asked)
    }

    /// Does a step besides the scales, which listeners and the record treat like a scale.
    pub(super) fn part<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (began, before) = (Instant::now(), self.evaluations);
        self.begin(name);
        let done = work(self)?;
        let (evaluations, seconds) = (self.evaluations - before, began.elapsed().as_secs_f64());
        let best = self.stages.last().map_or(f64::NAN, |stage| stage.cost_end);
        let record = StageRecord {
            name: name.to_owned(),
            spacing: self.stages.last().map_or([f64::NAN; 3], |stage| stage.spacing),
            samples: self.stages.last().map_or(0, |stage| stage.samples),
            dof: vec![6],
            candidates: [1, 1],
            evaluations,
            cost_start: best,
            cost_end: best,
            seconds,
            ..StageRecord::default()
        };
        self.stages.push(record.told(self.progress));
        Ok(done)
    }

    /// Reports the start of a step.
    fn begin(&mut self, name: &str) {
        let [index, count] = self.parts;
        self.parts[0] += 1;
        stage::begin(self.progress, name, index, count);
    }

    /// A pose, and others within a range around it, this many in all.
    pub(super) fn around(&self, start: Pose, range: Range, count: usize, seed: u64) -> Vec<Pose> {
        let mut random = Random::new(seed);
        let mut poses = vec![start];
        while poses.len() < count {
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

    /// A pose, and others of all rotations, with translations within the range.
    fn everywhere(&self, start: Pose) -> Vec<Pose> {
        let mut random = Random::new(self.options.seed);
        let mut poses = vec![start];
        for rotation in evenly(EVERYWHERE.max(self.options.starts)) {
            let by = Vector3::from_fn(|_, _| 2.0 * random.uniform() - 1.0);
            let by = by * self.options.range.radians().translation;
            let moved = self.model.moved(&start, Freedom::Rigid, by.as_slice());
            poses.push(Pose { rotation, ..moved });
        }
        poses
    }

    /// The best poses that are apart from each other, best first.
    pub(super) fn distinct(&self, all: Vec<Candidate>, apart: f64, most: usize) -> Vec<Candidate> {
        stage::distinct(all, apart, most, |a, b| self.distance(a, b))
    }

    /// The distance between poses: the root mean square over the body, mm.
    pub(super) fn distance(&self, a: &Pose, b: &Pose) -> f64 {
        distance(self.ct.radius, a, b)
    }

    fn stage(
        &mut self,
        level: &Level<'_, D>,
        index: usize,
        count: usize,
        before: &[Candidate],
    ) -> Result<Vec<Candidate>> {
        let (options, model, name) = (self.options, self.model, format!("{:.3} mm", level.size));
        let mut stage = Stage::new(&model, options.optimiser, self.progress);
        self.begin(&name);
        let full = options.search == PoseSearch::Full;
        let keeps = if full { KEPT_EVERYWHERE } else { KEPT };
        let compared = Compared::by(options, options.seed.wrapping_add(index as u64 + 1));
        let objective = level.objective(compared, &self.model.affine(&before[0].pose))?;
        let poses = match (index, before) {
            (0, _) if self.refined.is_some() => vec![before[0].pose],
            (0, [start]) if full => self.everywhere(start.pose),
            (0, [start]) => {
                self.around(start.pose, options.range.radians(), options.starts, options.seed)
            }
            _ => before.iter().map(|c| c.pose).collect(),
        };
        let looked = look(&mut stage, &objective, &poses)?;
        let cost_start = looked[0].cost;
        if !looked.iter().any(|c| c.cost.is_finite()) {
            return Err(RegisterError::NothingSeen);
        }
        let last = index + 1 >= count;
        let kept = keeps.get(index).copied().unwrap_or(2);
        let poses: Vec<Pose> = match last && index > 0 {
            true => vec![self.distinct(looked, 0.0, 1)[0].pose],
            false => self.distinct(looked, level.size, kept).iter().map(|c| c.pose).collect(),
        };
        let how = steps(level.size, last);
        let mut refined = stage.refine(&objective, &poses, Freedom::Rigid, how)?;
        if last && index > 0 {
            // Coarse scales may lead away from a good start.
            let start = model.pose_of(&self.start);
            let cost = stage.costs(&objective, &[start], seen)?[0].cost;
            self.iterations += 1;
            if cost < refined[0].cost {
                refined.extend(stage.refine(&objective, &[start], Freedom::Rigid, how)?);
            }
        }
        if last {
            self.settle(&objective, level.size, &mut refined, &mut stage)?;
        }
        let all = self.distinct(refined, level.size, keeps[0]);
        let best = all[0];
        // Of all rotations some always look alike at the coarsest scale.
        if !full || index > 0 {
            self.rivals(&best, &all, level.size)?;
        }
        let next = if last { 1 } else { keeps.get(index + 1).copied().unwrap_or(2) };
        let kept: Vec<Candidate> = all.into_iter().take(next).collect();
        self.evaluations += stage.evaluations;
        self.iterations += stage.iterations;
        self.stages.push(stage.end(StageRecord {
            name,
            spacing: [level.size; 3],
            samples: objective.compared(),
            dof: vec![6],
            candidates: [poses.len(), kept.len()],
            cost_start,
            cost_end: best.cost,
            ..StageRecord::default()
        }));
        Ok(kept)
    }

    /// The distance between poses in the images: the root mean square over the body in the worst view, mm at the
    /// place of the CT. Motion along the rays of a single view is visible in none.
    pub(super) fn seen_apart(&self, a: &Pose, b: &Pose) -> Result<f64> {
        self.seen_from(&self.model.affine(a), &self.model.affine(b))
    }

    /// As [`seen_apart`](Self::seen_apart) of maps.
    pub(super) fn seen_from(&self, a: &Affine, b: &Affine) -> Result<f64> {
        Ok(self.seen_each(a, b)?.into_iter().fold(0.0, f64::max))
    }

    /// The same in each view.
    pub(super) fn seen_each(&self, a: &Affine, b: &Affine) -> Result<Vec<f64>> {
        let (a, b) = (self.places(a)?, self.places(b)?);
        let each = a.chunks(CORNERS).zip(b.chunks(CORNERS)).map(|(a, b)| {
            let squares = a.iter().zip(b).map(|(a, b)| (a - b).norm_squared());
            (squares.sum::<f64>() / CORNERS as f64).sqrt()
        });
        Ok(each.collect())
    }

    /// Where corners around the body are in each view under a map, mm at the place of the CT; infinitely far where they are behind the
    /// source.
    pub(super) fn places(&self, map: &Affine) -> Result<Vec<Vector2<f64>>> {
        let back = map.inverse()?;
        let reach = self.ct.radius / 3f64.sqrt();
        let place = |view: &View<'_>, corner: usize| {
            let sign = |axis: usize| if corner >> axis & 1 == 1 { reach } else { -reach };
            let point = self.ct.middle + Vector3::from_fn(|axis, _| sign(axis));
            let seen = view.geometry.project(back.apply(point));
            let far = Vector2::repeat(f64::INFINITY);
            seen.map_or(far, |at| Vector2::from(at) * at_point(view, self.model.centre))
        };
        Ok(self.views.iter().flat_map(|v| (0..CORNERS).map(move |c| place(v, c))).collect())
    }

    /// Refines the best of some poses again until it converges.
    fn settle(
        &self,
        objective: &dyn Objective,
        size: f64,
        refined: &mut [Candidate],
        stage: &mut Stage<'_>,
    ) -> Result<()> {
        let order = |a: &&mut Candidate, b: &&mut Candidate| a.cost.total_cmp(&b.cost);
        let Some(best) = refined.iter_mut().min_by(order) else { return Ok(()) };
        for _ in 0..AGAIN {
            let found = stage.refine(objective, &[best.pose], Freedom::Rigid, steps(size, true))?;
            let moved = self.distance(&best.pose, &found[0].pose);
            if found[0].cost < best.cost {
                *best = found[0];
            }
            if moved < STILL * size {
                break;
            }
        }
        Ok(())
    }
}

/// The steps of a refinement at a scale.
pub(super) fn steps(size: f64, last: bool) -> Steps {
    Steps {
        first: 0.5 * size,
        longest: 4.0 * size,
        // What an image hardly tells, such as the depth of a single view, is found by small gains.
        tolerance: if last { 2e-4 } else { 2e-2 } * size,
        improvement: if last { 1e-12 } else { 1e-5 },
        evaluations: if last { 3 * EVALUATIONS } else { EVALUATIONS },
    }
}

/// The distance between poses of a body of this radius: the root mean square over it, mm.
pub(super) fn distance(radius: f64, a: &Pose, b: &Pose) -> f64 {
    let turn = a.rotation.transpose() * b.rotation;
    let angle = ((turn.trace() - 1.0) / 2.0).clamp(-1.0, 1.0).acos();
    (a.translation - b.translation).norm().hypot(angle * radius)
}

/// The cost of an evaluation; that of a pose that no view sees is infinite.
pub(super) fn seen(e: &Evaluation) -> f64 {
    if e.overlap > 0.0 { e.cost } else { f64::INFINITY }
}

/// The costs of poses that a stage begins with.
pub(super) fn look(
    stage: &mut Stage<'_>,
    objective: &dyn Objective,
    poses: &[Pose],
) -> Result<Vec<Candidate>> {
    stage.part("", 0.0, 0.0);
    let found = stage.costs(objective, poses, seen)?;
    stage.part("", 0.0, 1.0);
    Ok(found)
}
