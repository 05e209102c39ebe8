//! The multi-resolution search (Jenkinson and Smith 2001; section 2.2 of Li et al. 2015).

use super::model::{Freedom, Model, Pose};
use super::options::AffineOptions;
use super::result::{StageRecord, TracePoint};
use super::rotations::{Rotations, angle, between, rotations};
use crate::error::{RegisterError, Result};
use crate::metric::Level;
use crate::optimize::{Bfgs, BfgsSettings};
use crate::progress::{Event, Progress};
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3};

/// Results of the fine rotation search that are refined, and how many of them are its local minima
/// at most.
const REFINED: usize = 24;
const MINIMA: usize = 14;
/// Candidates handed from the first stage to the second. (The paper has three; a head and its
/// mirror-like orientations fill three places at once.)
const HANDED_ON: usize = 5;
/// How far apart two alignments are, as a part of the object's radius, that are not the same one.
pub(super) const ELSEWHERE: f64 = 0.3;
/// Perturbations of the second stage.
const TURN: f64 = 9.0;
const ZOOMS: [f64; 4] = [-0.2, -0.1, 0.1, 0.2];

/// When a refinement ends, in samples of its stage.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// A step is shorter than this, or two in a row gain next to nothing: enough for what is refined
    /// further.
    Gain(f64),
    /// A step is shorter than this, whatever it gains: a result. Where the cost is flat, gains end a
    /// search far from its minimum, and rounding decides where.
    Step(f64),
}

/// A pose with its cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) pose: Pose,
    pub(super) cost: f64,
}

/// The work of one stage.
pub(super) struct Stage<'a, D: Device> {
    level: &'a Level<D>,
    model: &'a Model,
    progress: &'a dyn Progress,
    spacing: f64,
    evaluations: usize,
    best: f64,
    trace: Vec<TracePoint>,
    /// Part of the stage that was done before what is being done now, and the part that that is.
    done: (f64, f64),
    what: &'static str,
}

impl<'a, D: Device> Stage<'a, D> {
    pub(super) fn new(
        level: &'a Level<D>,
        model: &'a Model,
        spacing: f64,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            level,
            model,
            progress,
            spacing,
            evaluations: 0,
            best: f64::INFINITY,
            trace: Vec::new(),
            done: (0.0, 1.0),
            what: "",
        }
    }

    /// Names the next part of the work and how much of the stage it is.
    pub(super) fn part(&mut self, what: &'static str, from: f64, to: f64) {
        self.what = what;
        self.done = (from, to - from);
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
            done: (self.done.0 + self.done.1 * part).clamp(0.0, 1.0),
            evaluations: self.evaluations,
            best: self.best,
            what: self.what,
        });
        if self.progress.stop() { Err(RegisterError::Stopped) } else { Ok(()) }
    }

    /// The costs of poses, without derivatives.
    pub(super) fn costs(&mut self, poses: &[Pose]) -> Result<Vec<Candidate>> {
        let mut found = Vec::with_capacity(poses.len());
        let size = self.level.batch();
        for (i, batch) in poses.chunks(size).enumerate() {
            let maps: Vec<Affine> = batch.iter().map(|p| self.model.affine(p)).collect();
            let costs = self.level.evaluate(&maps, false)?;
            let done = ((i + 1) * size) as f64 / poses.len() as f64;
            self.count(costs.iter().map(|e| e.cost), done.min(1.0))?;
            found.extend(
                batch.iter().zip(&costs).map(|(&pose, e)| Candidate { pose, cost: e.cost }),
            );
        }
        Ok(found)
    }

    /// Refines many poses side by side: every round evaluates one point of each search together.
    pub(super) fn refine(
        &mut self,
        poses: &[Pose],
        freedom: Freedom,
        until: Until,
    ) -> Result<Vec<Candidate>> {
        let (step, improvement) = match until {
            Until::Gain(step) => (step, 3e-4 * step),
            Until::Step(step) => (step, 0.0),
        };
        let settings = BfgsSettings {
            first_step: 0.5 * self.spacing,
            longest_step: 4.0 * self.spacing,
            tolerance: step * self.spacing,
            improvement,
            evaluations: 60,
        };
        let zeros = vec![0.0; self.model.parameters(freedom)];
        let mut searches: Vec<Bfgs> = poses.iter().map(|_| Bfgs::new(&zeros, settings)).collect();
        loop {
            let asked: Vec<(usize, Vec<f64>)> = searches
                .iter()
                .enumerate()
                .filter_map(|(i, s)| s.ask().map(|q| (i, q.to_vec())))
                .collect();
            if asked.is_empty() {
                break;
            }
            for batch in asked.chunks(self.level.batch()) {
                let maps: Vec<Affine> = batch
                    .iter()
                    .map(|(i, q)| self.model.affine(&self.model.moved(&poses[*i], freedom, q)))
                    .collect();
                let costs = self.level.evaluate(&maps, true)?;
                let finished = 1.0 - asked.len() as f64 / searches.len() as f64;
                self.count(costs.iter().map(|e| e.cost), finished)?;
                for ((i, q), e) in batch.iter().zip(&costs) {
                    let rows = e.gradient.unwrap_or([0.0; 12]);
                    let g = self.model.gradient(&poses[*i], freedom, q, &rows);
                    searches[*i].tell(e.cost, &g);
                }
            }
        }
        Ok(poses
            .iter()
            .zip(&searches)
            .map(|(pose, s)| {
                let (q, cost) = s.best();
                Candidate { pose: self.model.moved(pose, freedom, q), cost }
            })
            .collect())
    }

    /// The record of the stage.
    pub(super) fn record(
        self,
        dof: Vec<usize>,
        candidates: [usize; 2],
        cost_start: f64,
        cost_end: f64,
        seconds: f64,
    ) -> StageRecord {
        let name = format!("{} mm", display(self.spacing));
        self.progress.event(&Event::StageEnd {
            name: &name,
            evaluations: self.evaluations,
            start: cost_start,
            best: cost_end,
            seconds,
        });
        StageRecord {
            name,
            spacing: self.level.fixed_grid().spacing(),
            samples: self.level.samples(),
            bins: self.level.settings().bins,
            dof,
            candidates,
            evaluations: self.evaluations,
            cost_start,
            cost_end,
            seconds,
            trace: self.trace,
        }
    }
}

/// A length without needless digits.
pub(super) fn display(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The global search of the first stage: coarse rotations with a local search each, fine rotations
/// evaluated once from the coarse ones' neighbours, the best local minima refined. Returns distinct
/// candidates, best first.
pub(super) fn global<D: Device>(
    stage: &mut Stage<'_, D>,
    start: &Pose,
    options: &AffineOptions,
    scaling: bool,
    largest: Freedom,
) -> Result<Vec<Candidate>> {
    let flat = stage.model.flat;
    let local = if scaling { Freedom::TranslationScale } else { Freedom::Translation };
    let coarse: Vec<Pose> = rotations(&options.range, options.range.coarse, flat)
        .iter()
        .map(|r| Pose { rotation: r * start.rotation, ..*start })
        .collect();
    stage.part("coarse rotations", 0.0, 0.45);
    let coarse = stage.refine(&coarse, local, Until::Gain(0.05))?;
    stage.part("fine rotations", 0.45, 0.8);
    let fine = between(
        &rotations(&options.range, options.range.fine, flat),
        start,
        &coarse,
        options.range.coarse / 2.0,
    );
    let mut all = stage.costs(&fine)?;
    all.extend(coarse.iter().copied());
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut picked = pick(&all, 1.6 * options.range.fine);
    if !picked.iter().any(|p| angle(&p.pose.rotation, &start.rotation) < 1e-3) {
        // The start itself is always among the candidates: coarse results keep their order.
        picked.push(coarse[0]);
    }
    stage.part("best rotations", 0.8, 0.9);
    let poses: Vec<Pose> = picked.iter().map(|c| c.pose).collect();
    let freedom = if scaling { Freedom::Similarity } else { Freedom::Rigid };
    let refined = stage.refine(&poses, freedom, Until::Gain(0.02))?;
    let elsewhere = ELSEWHERE * stage.model.radius;
    let refined = distinct(refined, stage.model, stage.spacing, REFINED);
    if largest == freedom {
        return Ok(distinct(refined, stage.model, elsewhere, HANDED_ON));
    }
    // A wrong orientation can be ahead as long as the right one lacks freedom.
    stage.part("best rotations with all degrees of freedom", 0.9, 1.0);
    let poses: Vec<Pose> = refined.iter().map(|c| c.pose).collect();
    let free = stage.refine(&poses, largest, Until::Gain(0.05))?;
    Ok(distinct(free, stage.model, elsewhere, HANDED_ON))
}

/// Candidates for refinement, from all that were evaluated, best first: local minima (nothing
/// better within `apart` radians), and the best of the rest that are as far from those picked.
fn pick(all: &[Candidate], apart: f64) -> Vec<Candidate> {
    // Close in angle is a large trace of one rotation's transpose times the other.
    let close = 1.0 + 2.0 * apart.cos();
    let rotations = Rotations::new(all.iter().map(|c| &c.pose.rotation));
    let mut picked: Vec<Candidate> = Vec::new();
    for (i, c) in all.iter().enumerate() {
        if picked.len() >= MINIMA {
            break;
        }
        if !rotations.any_near(i, &c.pose.rotation, close) {
            picked.push(*c);
        }
    }
    for c in all {
        if picked.len() >= REFINED {
            break;
        }
        if !picked.iter().any(|p| p.pose.rotation.dot(&c.pose.rotation) > close) {
            picked.push(*c);
        }
    }
    picked
}

/// The best candidates that are not the same place, best first.
pub(super) fn distinct(
    mut candidates: Vec<Candidate>,
    model: &Model,
    spacing: f64,
    most: usize,
) -> Vec<Candidate> {
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut kept: Vec<Candidate> = Vec::new();
    for c in candidates {
        if kept.len() >= most {
            break;
        }
        if kept.iter().all(|k| apart(&k.pose, &c.pose, model) > spacing) {
            kept.push(c);
        }
    }
    kept
}

/// How far two poses are apart, mm at the model's radius.
pub(super) fn apart(a: &Pose, b: &Pose, model: &Model) -> f64 {
    let turn = angle(&a.rotation, &b.rotation) * model.radius;
    let zoom = (a.log_scale - b.log_scale).norm() * model.radius;
    ((a.translation - b.translation).norm_squared() + turn * turn + zoom * zoom).sqrt()
}

/// A candidate and its neighbours: turned by 9 degrees about each axis, zoomed by 0.1 and 0.2.
pub(super) fn perturbed(pose: &Pose, flat: bool, scaling: bool) -> Vec<Pose> {
    let mut poses = vec![*pose];
    for axis in if flat { 2..3 } else { 0..3 } {
        for sign in [-1.0, 1.0] {
            let mut turn = Vector3::zeros();
            turn[axis] = sign * TURN.to_radians();
            let rotation = nalgebra::Rotation3::new(turn).matrix() * pose.rotation;
            poses.push(Pose { rotation, ..*pose });
        }
    }
    if scaling {
        for zoom in ZOOMS {
            let mut p = *pose;
            for a in 0..if flat { 2 } else { 3 } {
                p.log_scale[a] += (1.0f64 + zoom).ln();
            }
            poses.push(p);
        }
    }
    poses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perturbations_as_in_the_paper() {
        let pose = Pose::at(Vector3::zeros());
        assert_eq!(perturbed(&pose, false, true).len(), 11);
        assert_eq!(perturbed(&pose, false, false).len(), 7);
        assert_eq!(perturbed(&pose, true, true).len(), 7);
    }
}
