//! Tracking of a CT over a sequence of X-ray images.

use super::body::PreparedCt;
use super::level::{Compared, Level};
use super::metal::Adapted;
use super::options::{PoseOptions, PoseSearch, Range};
use super::{PoseResult, check_views, rigid, search, verdict};
use crate::error::{RegisterError, Result};
use crate::limits::{POSE, TRACK};
use crate::progress::Progress;
use crate::projection::objective::View;
use crate::projection::similarity::XraySimilarity;
use crate::search::pose::Freedom;
use crate::search::refine::{Candidate, costs, refine};
use crate::search::{Evaluation, Steps};
use nalgebra::Rotation3;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3, XrayGeometry};

/// Options of a [`Tracker`].
#[derive(Debug, Clone, PartialEq)]
pub struct TrackOptions {
    /// How the first pose is found, and how a lost one is found again.
    pub pose: PoseOptions,
    /// The largest motion of the CT between two frames, along and about each axis: beyond it the track is lost.
    pub range: Range,
    /// The number of finest scales that are searched at each frame.
    pub scales: usize,
    /// The number of pixels of each view that are compared at each scale, where the options of the pose do not ask
    /// for a fraction of them.
    pub pixels: usize,
}

impl Default for TrackOptions {
    fn default() -> Self {
        let range = Range { translation: 10.0, rotation: 10f64.to_radians() };
        Self { pose: PoseOptions::default(), range, scales: 2, pixels: 4096 }
    }
}

impl TrackOptions {
    /// Checks the values.
    ///
    /// # Errors
    /// What is out of range, and what would do.
    pub fn check(&self) -> Result<()> {
        self.pose.check_all()?;
        let wrong =
            |option, value: String, remedy: &str| Err(RegisterError::option(option, value, remedy));
        if let Some(refine) = self.pose.refine {
            let value = crate::Choice::name(refine).to_owned();
            return wrong(
                "refine",
                value,
                "refine with the images of one moment, and follow with the result",
            );
        }
        let Range { translation, rotation } = self.range;
        let within = |value: f64, most: f64| value > 0.0 && value <= most;
        if !within(translation, 1000.0) || !within(rotation, 3.2) {
            let value = format!("{translation} mm and {:.1} degrees", rotation.to_degrees());
            return wrong(
                "frame_range",
                value,
                "give values above 0, at most 1000 mm and 180 degrees",
            );
        }
        if self.scales == 0 || self.pixels == 0 {
            let value = format!("{} scales and {} pixels", self.scales, self.pixels);
            return wrong("what is compared at a frame", value, "give one or more");
        }
        Ok(())
    }
}

/// Why a track is lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Loss {
    /// An image with one value only, or with values that are not finite: the number of its view, from 0.
    Blank(usize),
    /// No view sees the CT where it should be.
    Unseen,
    /// An image whose similarity to the simulated one is below a share of the usual: the number of its view, from
    /// 0.
    Unlike(usize),
    /// A view that leads to another pose than all do: its number, from 0.
    Contradicting(usize),
    /// The best pose is farther away than the CT may move between two frames.
    Far,
    /// Another pose, far from the best, explains the images nearly as well.
    Doubtful,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Blank(view) => write!(f, "view {} is empty", view + 1),
            Self::Unseen => f.write_str("no view sees the CT where it is expected"),
            Self::Unlike(view) => write!(f, "view {} does not look like the CT", view + 1),
            Self::Contradicting(view) => {
                write!(
                    f,
                    "view {} alone leads to a different pose than all views together",
                    view + 1
                )
            }
            Self::Far => f.write_str("the best pose is beyond the search range of a frame"),
            Self::Doubtful => {
                f.write_str("poses far from each other explain the images equally well")
            }
        }
    }
}

/// The state of a track at a frame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackStatus {
    /// The pose was searched far around, and found: the first frame, or one after a loss.
    Found,
    /// It was followed from the frame before.
    Followed,
    /// The track is lost: the pose is the last one that was good.
    Lost(Loss),
}

impl TrackStatus {
    /// Whether the pose is that of the frame.
    #[must_use]
    pub fn is_good(self) -> bool {
        !matches!(self, Self::Lost(_))
    }
}

/// The pose of a frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracked {
    /// The number of the frame, from 0.
    pub frame: usize,
    /// From the room to the world of the CT, mm; rigid.
    pub transform: Affine,
    /// The state of the track at the frame.
    pub status: TrackStatus,
    /// The cost; not finite where there is none.
    pub cost: f64,
    /// The correlation of the gradients of each view with those of the simulated one.
    pub correlations: Vec<f64>,
    /// The distance of the pose that each view alone leads to from that of all views, in its image, mm at the place
    /// of the CT; none for a single view, and for a frame without images.
    pub alone: Vec<f64>,
    /// Steps of the optimiser.
    pub iterations: usize,
    /// Simulated images of one view.
    pub renders: usize,
    /// The fraction of the pixels of each view that were left out as not in the CT; none where the frame was
    /// compared as it is.
    pub left_out: Vec<f64>,
    /// The time that it took, seconds.
    pub seconds: f64,
    /// Of the first frame, and of those that were searched far around: all that was found.
    pub search: Option<Box<PoseResult>>,
}

/// A view of a sequence: where its images are taken from, and the part of them that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackView {
    /// Source and detector.
    pub geometry: XrayGeometry,
    /// The first column and row and the numbers of columns and rows that count; all where there is none.
    pub region: Option<[usize; 4]>,
}

/// The weight of the last frame in the usual correlation.
const NEW: f64 = 0.1;
/// Evaluations of a refinement of a frame at a scale.
const EVALUATIONS: usize = 25;
/// The same by each view alone, from the pose of all.
const EVALUATIONS_ALONE: usize = 12;

/// Tracks a CT over a sequence of X-ray images: the first pose is searched over a wide range, the others from the
/// previous one and from its extrapolation by a steady motion. A lost track is reported at once; from then on each
/// frame is searched over a wide range around the last good pose until one is found again.
pub struct Tracker<'a, 'd, D: Device> {
    ct: &'a mut PreparedCt<'d, D>,
    views: Vec<TrackView>,
    options: TrackOptions,
    start: Affine,
    /// The last two good poses, the last one first; less where there are none, or a gap is between them.
    last: Vec<Affine>,
    /// The usual gradient correlation in each view; none before the first frame.
    usual: Vec<f64>,
    /// The standard deviation of the image of the body in each view, mm at the place of the CT, by the first pose.
    sure: Vec<f64>,
    frames: usize,
}

impl<'a, 'd, D: Device> Tracker<'a, 'd, D> {
    /// Of views in one room; the search begins at `start`, from the room to the world of the CT, rigid.
    ///
    /// # Errors
    /// Options out of range; no views; a start that is not rigid.
    pub fn new(
        ct: &'a mut PreparedCt<'d, D>,
        views: Vec<TrackView>,
        start: &Affine,
        options: TrackOptions,
    ) -> Result<Self> {
        options.check()?;
        if views.is_empty() {
            return Err(super::nothing("X-ray images"));
        }
        let start = ct.rigid_start(start)?;
        Ok(Self {
            ct,
            views,
            options,
            start,
            last: Vec::new(),
            usual: Vec::new(),
            sure: Vec::new(),
            frames: 0,
        })
    }

    /// The pose of the next frame: an image of each view, attenuations, row by row.
    ///
    /// # Errors
    /// Images of other sizes than their geometry says; what fails on the device.
    pub fn next(&mut self, images: &[&[f32]], progress: &dyn Progress) -> Result<Tracked> {
        let began = Instant::now();
        if images.len() != self.views.len() {
            return Err(RegisterError::option(
                "number of X-ray images",
                images.len(),
                format!("give one for each of the {} views", self.views.len()),
            ));
        }
        let views = self.views.clone();
        let all: Vec<View<'_>> = views
            .iter()
            .zip(images)
            .map(|(v, image)| View {
                geometry: &v.geometry,
                image,
                region: v.region,
                without: None,
            })
            .collect();
        let mut found = match blank(&all)? {
            Some(view) => self.nothing(Loss::Blank(view)),
            None => self.one(&all, progress)?,
        };
        found.seconds = began.elapsed().as_secs_f64();
        found.frame = self.frames;
        self.frames += 1;
        if found.status.is_good() {
            self.start = found.transform;
            self.last.insert(0, found.transform);
            self.last.truncate(2);
            if self.usual.is_empty() {
                self.usual.clone_from(&found.correlations);
            }
            for (usual, &now) in self.usual.iter_mut().zip(&found.correlations) {
                *usual += NEW * (now - *usual);
            }
        } else {
            self.last.clear();
        }
        Ok(found)
    }

    /// The pose of a frame; where it would be lost, by what of its images can be of the CT.
    fn one(&mut self, views: &[View<'_>], progress: &dyn Progress) -> Result<Tracked> {
        let (found, tried) = self.attempt(views, progress)?;
        let good = |found: &Tracked| {
            let certain = found.search.as_ref().is_none_or(|search| search.verdict.good);
            found.status.is_good() && certain
        };
        let Some((at, size)) = tried.filter(|_| !good(&found) && self.options.pose.adapts()) else {
            return Ok(found);
        };
        let search = search::Search::new(self.ct, views, at, &self.options.pose, progress)?;
        let adapted = search.adapted(views, size, &at)?;
        if !adapted.iter().any(Adapted::is_other) {
            return Ok(Tracked { renders: found.renders + views.len(), ..found });
        }
        let others: Vec<View<'_>> =
            adapted.iter().zip(views).map(|(a, view)| a.view(view)).collect();
        let (mut again, _) = self.attempt(&others, progress)?;
        let (iterations, renders) = (found.iterations, found.renders + views.len());
        if !good(&again) {
            let (iterations, renders) = (iterations + again.iterations, renders + again.renders);
            return Ok(Tracked { iterations, renders, ..found });
        }
        if let Some(search) = &mut again.search {
            let all = adapted.iter().zip(views).enumerate();
            search.verdict.remarks.extend(all.flat_map(|(i, (a, view))| a.remarks(i, view)));
        }
        again.left_out = adapted.iter().zip(views).map(|(a, view)| a.left_out(view)).collect();
        Ok(Tracked {
            iterations: iterations + again.iterations,
            renders: renders + again.renders,
            ..again
        })
    }

    /// The pose of a frame, followed or searched, and the pose that was looked at with the size of the pixels; none where none was.
    fn attempt(
        &mut self,
        views: &[View<'_>],
        progress: &dyn Progress,
    ) -> Result<(Tracked, Option<(Affine, f64)>)> {
        if self.last.is_empty() {
            self.search(views, progress)
        } else {
            self.follow(views, progress)
        }
    }

    /// A frame without a pose: the last good one stays.
    fn nothing(&self, loss: Loss) -> Tracked {
        Tracked {
            frame: 0,
            transform: self.start,
            status: TrackStatus::Lost(loss),
            cost: f64::NAN,
            correlations: vec![f64::NAN; self.views.len()],
            alone: Vec::new(),
            iterations: 0,
            renders: 0,
            left_out: Vec::new(),
            seconds: 0.0,
            search: None,
        }
    }

    /// The view whose image is less similar to the simulated one than usual.
    fn unlike(&self, correlations: &[f64]) -> Option<usize> {
        let pairs = correlations.iter().zip(&self.usual);
        // What is not a number is unlike anything.
        let alike = |now: f64, usual: f64| now >= TRACK.share * usual;
        pairs.enumerate().find(|(_, (now, usual))| !alike(**now, **usual)).map(|(i, _)| i)
    }

    /// The view that leads to another pose than all do, of pixels of this size at the place of the CT, mm.
    fn contradicting(&self, alone: &[f64], size: f64) -> Option<usize> {
        let allowed = |view: usize| {
            let sure = self.sure.get(view).copied().unwrap_or(f64::INFINITY);
            (TRACK.alone * size).hypot((TRACK.alone_deviations * sure).min(size))
        };
        // What is not a number agrees with nothing.
        let agrees = |(view, apart): (usize, f64)| apart <= allowed(view);
        alone.iter().copied().enumerate().find(|of| !agrees(*of)).map(|(view, _)| view)
    }

    /// Searches far around the last good pose, or the start.
    fn search(
        &mut self,
        views: &[View<'_>],
        progress: &dyn Progress,
    ) -> Result<(Tracked, Option<(Affine, f64)>)> {
        let first = self.usual.is_empty();
        let mut options = self.options.pose.clone();
        if !first {
            (options.restarts, options.landscape) = (0, false);
            // The last good pose is not far.
            options.search = PoseSearch::Local;
        }
        let sizes = self.ct.sizes(views, &self.start, &options)?;
        self.ct.prepare(&sizes)?;
        let share = if first { 1.0 } else { TRACK.share };
        let asked = verdict::Asked { alike: POSE.alike * share, thorough: first };
        let search = search::Search::new(self.ct, views, self.start, &options, progress)?;
        let found = match search.run(&sizes, &[], asked) {
            Ok(found) => found,
            Err(RegisterError::NothingSeen) if !first => {
                return Ok((self.nothing(Loss::Unseen), None));
            }
            Err(other) => return Err(other),
        };
        // As of frames that are followed.
        let size = sizes.last().copied().ok_or_else(|| super::nothing("levels"))?;
        let centre = found.transform.inverse()?.apply(self.ct.middle);
        let level = Level::new(self.ct.at(size)?, views, size, centre)?;
        let seed = options.seed.wrapping_add(self.options.scales as u64);
        let worth = self.options.pixels as f64;
        let similarity = XraySimilarity::GradientNcc;
        let compared = Compared { similarity, worth, anew: false, ..Compared::by(&options, seed) };
        let shown = level.objective(compared, &found.transform)?.by_view(&found.transform)?;
        let correlations: Vec<f64> = shown.iter().map(|c| 1.0 - c).collect();
        let compared = Compared { similarity: options.similarity, ..compared };
        let (alone, renders) = self.alone(views, (&level, &found.transform), compared, progress)?;
        // The first pose is taken as it is, and its verdict is told.
        let status = match self.unlike(&correlations) {
            Some(view) => TrackStatus::Lost(Loss::Unlike(view)),
            None if first => TrackStatus::Found,
            None if !found.verdict.good => TrackStatus::Lost(Loss::Doubtful),
            None => match self.contradicting(&alone, size) {
                Some(view) => TrackStatus::Lost(Loss::Contradicting(view)),
                None => TrackStatus::Found,
            },
        };
        if first {
            self.sure.clone_from(&found.evidence.sure);
        }
        let tried = (found.transform, size);
        let tracked = Tracked {
            frame: 0,
            transform: if status.is_good() { found.transform } else { self.start },
            status,
            cost: found.costs[1],
            correlations,
            alone,
            iterations: found.iterations,
            renders: found.renders + renders,
            left_out: Vec::new(),
            seconds: 0.0,
            search: Some(Box::new(found)),
        };
        Ok((tracked, Some(tried)))
    }

    /// The distance of the pose that each view alone leads to from that of all views, in its image, mm, and the
    /// number of images that took.
    fn alone(
        &self,
        views: &[View<'_>],
        (level, at): (&Level<'_, D>, &Affine),
        compared: Compared,
        progress: &dyn Progress,
    ) -> Result<(Vec<f64>, usize)> {
        let compared = Compared { anew: false, ..compared };
        let mut search = search::Search::new(self.ct, views, *at, &self.options.pose, progress)?;
        let place = (&search.model.clone(), &search.model.pose_of(at));
        let alone = search.alone(level, place, (compared, EVALUATIONS_ALONE))?;
        Ok((alone, search.evaluations * views.len()))
    }

    /// Searches near the pose before, and near that to which a steady motion leads.
    fn follow(
        &mut self,
        views: &[View<'_>],
        progress: &dyn Progress,
    ) -> Result<(Tracked, Option<(Affine, f64)>)> {
        let options = &self.options;
        let mut sizes = self.ct.sizes(views, &self.start, &options.pose)?;
        sizes.drain(..sizes.len().saturating_sub(options.scales));
        self.ct.prepare(&sizes)?;
        let before = self.last[0];
        let model = search::model(self.ct, &before)?;
        let mut poses = vec![model.pose_of(&before)];
        if let Some(older) = self.last.get(1) {
            let steady = before.then(&older.inverse()?).then(&before);
            poses.push(model.pose_of(&rigid(&steady, model.centre)));
        }
        let (mut evaluations, mut iterations) = (0, 0);
        let mut best = Candidate { pose: poses[0], cost: f64::INFINITY };
        let (mut correlations, mut alone, mut renders) = (Vec::new(), Vec::new(), 0);
        for (number, &size) in sizes.iter().enumerate() {
            let last = number + 1 == sizes.len();
            let level = Level::new(self.ct.at(size)?, views, size, model.centre)?;
            let seed = options.pose.seed.wrapping_add(number as u64 + 1);
            let worth = options.pixels as f64;
            let compared = Compared { worth, ..Compared::by(&options.pose, seed) };
            let objective = level.objective(compared, &before)?;
            let mut told = |found: usize| {
                evaluations += found;
                if progress.stop() { Err(RegisterError::Stopped) } else { Ok(()) }
            };
            if poses.len() > 1 {
                let told = &mut |e: &[Evaluation], _| told(e.len());
                let all = costs(&objective, &model, &poses, search::seen, told)?;
                let at = usize::from(all[1].cost < all[0].cost);
                poses = vec![poses[at]];
            }
            let steps = Steps {
                first: 0.5 * size,
                longest: 4.0 * size,
                tolerance: if last { 5e-3 } else { 2e-2 } * size,
                improvement: if last { 1e-7 } else { 1e-5 },
                evaluations: EVALUATIONS,
            };
            let kind = options.pose.optimiser;
            let found =
                refine(&objective, &model, kind, &poses, Freedom::Rigid, steps, &mut |e, _| {
                    iterations += 1;
                    told(e.len())
                })?;
            best = found[0];
            poses = vec![best.pose];
            if last {
                let at = model.affine(&best.pose);
                let gradients = XraySimilarity::GradientNcc;
                let costs = match compared.similarity == gradients && !compared.anew {
                    true => objective.by_view(&at)?,
                    false => {
                        let shown = Compared { similarity: gradients, anew: false, ..compared };
                        level.objective(shown, &at)?.by_view(&at)?
                    }
                };
                correlations = costs.iter().map(|c| 1.0 - c).collect();
                evaluations += 1;
                (alone, renders) = self.alone(views, (&level, &at), compared, progress)?;
            }
        }
        let found = model.affine(&best.pose);
        let found = rigid(&found, found.inverse()?.apply(self.ct.middle));
        let size = sizes.last().copied().unwrap_or(f64::INFINITY);
        let loss = match self.unlike(&correlations) {
            Some(view) => Some(Loss::Unlike(view)),
            None if !best.cost.is_finite() => Some(Loss::Unseen),
            None if !within(options.range, [&before, &found], self.ct.middle)? => Some(Loss::Far),
            None => self.contradicting(&alone, size).map(Loss::Contradicting),
        };
        let tracked = Tracked {
            frame: 0,
            transform: if loss.is_none() { found } else { before },
            status: loss.map_or(TrackStatus::Followed, TrackStatus::Lost),
            cost: best.cost,
            correlations,
            alone,
            iterations,
            renders: evaluations * views.len() + renders,
            left_out: Vec::new(),
            seconds: 0.0,
            search: None,
        };
        Ok((tracked, best.cost.is_finite().then_some((found, size))))
    }
}

/// Whether a CT with this middle moved by no more than a range along and about each axis of the room, from one pose to another.
fn within(range: Range, [before, after]: [&Affine; 2], middle: Vector3<f64>) -> Result<bool> {
    let [from, to] = [before.inverse()?, after.inverse()?];
    let moved = to.apply(middle) - from.apply(middle);
    let turned = Rotation3::from_matrix_unchecked(to.matrix * before.matrix).scaled_axis();
    Ok(moved.amax() <= range.translation && turned.amax() <= range.rotation)
}

/// The view whose image shows nothing, if there is one.
fn blank(views: &[View<'_>]) -> Result<Option<usize>> {
    for (number, view) in views.iter().enumerate() {
        match check_views(std::slice::from_ref(view)) {
            Ok(()) => {}
            Err(RegisterError::Constant { .. } | RegisterError::NotFinite { .. }) => {
                return Ok(Some(number));
            }
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::AffineParameters;

    #[test]
    fn the_range_of_a_frame_holds_along_and_about_each_axis() {
        let range = TrackOptions::default().range;
        let middle = Vector3::new(120.0, -80.0, 40.0);
        // From the room to a CT that was turned about its middle, and moved.
        let of = |degrees: [f64; 3], translation: [f64; 3]| {
            let rotation = Vector3::from(degrees).map(f64::to_radians);
            let translation = translation.into();
            let placed =
                AffineParameters { rotation, translation, ..AffineParameters::identity(middle) };
            placed.to_affine().inverse().unwrap()
        };
        let before = of([0.0, 0.0, 40.0], [5.0, 5.0, 5.0]);
        let moves = |degrees, translation| {
            within(range, [&before, &of(degrees, translation)], middle).unwrap()
        };
        // As far along all three axes as along one.
        assert!(moves([0.0, 0.0, 49.0], [14.0, -4.0, 14.0]));
        assert!(!moves([0.0, 0.0, 40.0], [15.5, 5.0, 5.0]));
        assert!(!moves([0.0, 0.0, 51.0], [5.0, 5.0, 5.0]));
    }
}
