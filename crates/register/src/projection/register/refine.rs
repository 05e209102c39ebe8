//! Joint refinement of the pose and the geometry of its views.

use super::certainty;
use super::geometry::Frame;
use super::level::{Compared, Level};
use super::options::NUMBERS;
use super::search::Search;
use crate::error::{RegisterError, Result};
use crate::projection::objective::{View, XrayObjective};
use crate::search::Objective;
use crate::search::pose::{Freedom, Pose};
use crate::search::stage::Stage;
use voxalign_compute::Device;
use voxalign_image::XrayGeometry;

/// Steps at a scale at most, and how often a step is tried with more damping.
const ROUNDS: usize = 20;
const DAMPED: usize = 8;
/// The initial damping at a scale, as a fraction of the strongest curvature.
const DAMPING: f64 = 1e-6;
/// The longest step, mm, and the part of a pixel below which the numbers stand still.
const LONGEST: f64 = 30.0;
const STILL: f64 = 1e-3;

impl<D: Device> Search<'_, '_, D> {
    /// How geometries change with their numbers.
    pub(super) fn frames(&self) -> Result<Vec<Frame>> {
        let middle = self.start.inverse()?.apply(self.ct.middle);
        let one = |view: &View<'_>| Frame::new(view.geometry, middle, self.ct.radius);
        Ok(self.views.iter().map(one).collect())
    }

    /// The pose and the geometry parameters of each view with the best agreement near a pose, from coarse to fine
    /// scales.
    pub(super) fn refine_geometry(
        &mut self,
        levels: &[Level<'_, D>],
        best: &Pose,
    ) -> Result<(Pose, Vec<[f64; NUMBERS]>)> {
        let frames = self.frames()?;
        let mut found = (*best, vec![[0.0; NUMBERS]; frames.len()]);
        for level in levels {
            found = self.refine_at(level, &frames, found)?;
        }
        Ok(found)
    }

    /// The same at one scale, by damped steps of Newton's method.
    fn refine_at(
        &mut self,
        level: &Level<'_, D>,
        frames: &[Frame],
        (mut pose, mut all): (Pose, Vec<[f64; NUMBERS]>),
    ) -> Result<(Pose, Vec<[f64; NUMBERS]>)> {
        let options = self.options;
        let of: Vec<usize> = options.refine.iter().flat_map(|r| r.numbers()).copied().collect();
        let numbers = certainty::numbers_of(frames.len(), &of);
        let model = self.model;
        let compared = Compared { anew: false, ..Compared::by(options, options.seed) };
        let mut objective = level.objective(compared, &model.affine(&pose))?;
        let given: Vec<XrayGeometry> =
            (0..frames.len()).map(|view| *objective.geometry(view)).collect();
        let place = |objective: &mut XrayObjective<'_, D>, all: &[[f64; NUMBERS]]| {
            for (view, ((frame, given), by)) in frames.iter().zip(&given).zip(all).enumerate() {
                objective.take_from(view, &frame.changed(given, *by)?);
            }
            Ok::<_, RegisterError>(())
        };
        place(&mut objective, &all)?;
        let mut stage = Stage::new(&model, options.optimiser, self.progress);
        let mut cost = objective.evaluate(&[model.affine(&pose)], false)?[0].cost;
        let in_pose = certainty::curvature(&objective, (&model, &pose), 0.25 * level.size)?;
        self.evaluations += 12;
        let mut damping = DAMPING;
        for round in 0..ROUNDS {
            let by = certainty::FINE * level.size;
            let scores = certainty::scores(&objective, (&model, &pose), by, frames)?;
            self.evaluations += certainty::OF_SCORES;
            let (derivatives, bent) = certainty::bent(&scores, &in_pose);
            let derivatives = derivatives.select_rows(&numbers);
            let bent = bent.select_rows(&numbers).select_columns(&numbers).symmetric_eigen();
            let most = bent.eigenvalues.amax();
            let mut moved = None;
            for _ in 0..DAMPED {
                let along = bent.eigenvectors.transpose() * &derivatives;
                let step = along.zip_map(&bent.eigenvalues, |derivative, bend| {
                    -derivative / (bend.max(0.0) + damping * most).max(f64::MIN_POSITIVE)
                });
                let mut step = &bent.eigenvectors * step;
                let length = step.norm();
                if length > LONGEST {
                    step *= LONGEST / length;
                }
                let there = model.moved(&pose, Freedom::Rigid, &step.as_slice()[..6]);
                let mut changed = all.clone();
                for (i, number) in numbers.iter().enumerate().skip(6) {
                    changed[(number - 6) / NUMBERS][(number - 6) % NUMBERS] += step[i];
                }
                place(&mut objective, &changed)?;
                let now = objective.evaluate(&[model.affine(&there)], false)?[0].cost;
                let part = (round + 1) as f64 / ROUNDS as f64;
                stage.count(std::iter::once(now), part)?;
                if now < cost {
                    (pose, all, cost) = (there, changed, now);
                    damping = (0.1 * damping).max(f64::EPSILON);
                    moved = Some(step.norm());
                    break;
                }
                damping = (10.0 * damping).max(1e-9);
            }
            if moved.is_none_or(|by| by < STILL * level.size) {
                break;
            }
        }
        self.evaluations += stage.evaluations + 1;
        self.iterations += stage.evaluations;
        Ok((pose, all))
    }
}
