//! The geometry of views as numbers beside those of a pose: how far the detector is from the source, and where it is in its plane.

use super::certainty;
use super::level::{Compared, Level};
use super::options::Refinement;
use super::search::Search;
use crate::error::{RegisterError, Result};
use crate::projection::objective::{View, XrayObjective};
use crate::search::Objective;
use crate::search::pose::{Freedom, Pose};
use crate::search::stage::Stage;
use voxalign_compute::Device;
use voxalign_image::{Vector3, XrayGeometry};
use voxalign_options::Choice;

/// Views that are needed to tell geometries from poses.
pub(super) const VIEWS: usize = 2;
/// Numbers of a view: the logarithm of its distance, and shifts along columns and rows. A unit of each moves the image of the body by
/// about a millimetre at the place of the CT.
pub(super) const NUMBERS: usize = 3;
/// The largest logarithm of a distance, and the largest shift, mm.
const MOST: [f64; 2] = [0.5, 1000.0];

/// A number of a geometry that was refined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refined {
    /// What it was, mm.
    pub given: f64,
    /// What it is, mm.
    pub found: f64,
    /// How far the truth is from that at most in 95 of 100, mm, as far as the images tell; infinite where they do not.
    pub within: f64,
}

/// The geometry of a view that was refined.
#[derive(Debug, Clone, PartialEq)]
pub struct RefinedView {
    /// All of it.
    pub geometry: XrayGeometry,
    /// The distance of the detector from the source, where it was refined.
    pub source_to_detector: Option<Refined>,
    /// How far the detector is shifted along its columns and rows from where it was given to be, where that was refined.
    pub shift: Option<[Refined; 2]>,
}

/// How the geometry of a view changes with its numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// The extent of the body, mm.
    radius: f64,
    magnification: f64,
    /// The distance of the detector from the source, mm.
    distance: f64,
}

impl Frame {
    /// Of a view of a body that has its middle at a place in the room.
    pub(super) fn new(view: &XrayGeometry, middle: Vector3<f64>, radius: f64) -> Self {
        let magnification = view.magnification(middle).unwrap_or(1.0);
        Self { radius, magnification, distance: view.source_to_detector() }
    }

    /// A unit of each number, mm: of the distance, and of the shifts.
    pub(super) fn units(self) -> [f64; NUMBERS] {
        [self.distance / self.radius, self.magnification, self.magnification]
    }

    /// A geometry with its numbers changed; changes of one view add up.
    pub(super) fn changed(self, view: &XrayGeometry, by: [f64; NUMBERS]) -> Result<XrayGeometry> {
        let log = (by[0] / self.radius).clamp(-MOST[0], MOST[0]);
        let shift = [1, 2].map(|i| by[i].clamp(-MOST[1], MOST[1]) * self.magnification);
        let (column, row) = (view.column(), view.row());
        let away = view.normal() * (view.source_to_detector() * log.exp_m1());
        let along = column.normalize() * shift[0] + row.normalize() * shift[1];
        let origin = view.origin() + away + along;
        Ok(XrayGeometry::new(view.source(), origin, column, row, view.dims())?)
    }

    /// The place of the detector beside those of the view as it was given, mm.
    pub(super) fn change(self, given: &XrayGeometry, by: [f64; NUMBERS]) -> Change {
        let shift = [1, 2].map(|i| by[i] * self.magnification);
        Change { given: given.source_to_detector(), shift }
    }

    /// What was found of a view, and the variances of those of its numbers that were refined.
    pub(super) fn refined(
        self,
        geometry: &XrayGeometry,
        change: Change,
        refine: Option<Refinement>,
        variance: [f64; NUMBERS],
    ) -> RefinedView {
        let within = |i: usize| 1.96 * variance[i].max(0.0).sqrt() * self.units()[i];
        let found = geometry.source_to_detector();
        let distance = Refined { given: change.given, found, within: within(0) };
        let shift =
            [0, 1].map(|i| Refined { given: 0.0, found: change.shift[i], within: within(1 + i) });
        let has = |what| refine == Some(what);
        RefinedView {
            geometry: *geometry,
            source_to_detector: has(Refinement::Distance).then_some(distance),
            shift: has(Refinement::PrincipalPoint).then_some(shift),
        }
    }
}

/// How a geometry was changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// The distance of the detector from the source that was given, mm.
    given: f64,
    /// Its shifts, mm.
    shift: [f64; 2],
}

/// Refuses views that tell nothing of geometries.
pub(super) fn check(refine: Option<Refinement>, views: &[View<'_>]) -> Result<()> {
    let Some(refine) = refine.filter(|_| views.len() < VIEWS) else { return Ok(()) };
    Err(RegisterError::option(
        "refine",
        refine.name(),
        "one view does not tell its geometry from the depth and the place of the CT: give another view, or leave it out",
    ))
}

/// The numbers of a view with one of them changed.
pub(super) fn one(number: usize, by: f64) -> [f64; NUMBERS] {
    let mut all = [0.0; NUMBERS];
    all[number] = by;
    all
}

impl<D: Device> Search<'_, '_, D> {
    /// How geometries change with their numbers.
    pub(super) fn frames(&self) -> Result<Vec<Frame>> {
        let middle = self.start.inverse()?.apply(self.ct.middle);
        let one = |view: &View<'_>| Frame::new(view.geometry, middle, self.ct.radius);
        Ok(self.views.iter().map(one).collect())
    }

    /// The pose and the numbers of each view by which the images agree best, near a pose, from coarse to fine scales.
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

/// Steps at a scale at most, and how often a step is tried with more damping.
const ROUNDS: usize = 20;
const DAMPED: usize = 8;
/// The damping that a scale begins with, as a part of the strongest curvature.
const DAMPING: f64 = 1e-6;
/// The longest step, mm, and the part of a pixel below which the numbers stand still.
const LONGEST: f64 = 30.0;
const STILL: f64 = 1e-3;
