//! The pose of a CT from X-ray images: a coarse-to-fine search over poses, the uncertainty of the result, and
//! its verdict.

mod alone;
mod blocks;
mod body;
mod certainty;
mod elsewhere;
mod expected;
mod finish;
mod geometry;
mod landscape;
mod level;
mod metal;
mod options;
mod refine;
mod relation;
mod search;
mod suspects;
mod track;
mod verdict;

pub use blocks::Outlines;
pub use body::PreparedCt;
pub use certainty::Uncertainty;
pub use expected::ExpectedError;
pub use geometry::{Refined, RefinedView};
pub use landscape::{Landscape, PARAMETERS};
pub use level::Suspect;
pub use options::{Metal, PoseOptions, PoseRange, PoseSearch, Range, Refinement};
pub use relation::Response;
pub use track::{Loss, TrackOptions, TrackStatus, TrackView, Tracked, Tracker};
pub use verdict::{Evidence, Misfit};

use super::objective::View;
use crate::error::{RegisterError, Result, Role};
use crate::progress::Progress;
use crate::search::StageRecord;
use crate::search::refine::Candidate;
use crate::verdict::Verdict;
use voxalign_compute::Device;
use voxalign_image::{Affine, Matrix3, Rotation3, Vector3, Volume};

/// The data of a pose search.
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
    /// The point of the CT about which rotations are counted, in its own world, mm: see [`motion_of`](super::motion_of).
    pub centre: Vector3<f64>,
    /// The cost of the start and of the result at the finest scale.
    pub costs: [f64; 2],
    /// The cost of the result in each view.
    pub by_view: Vec<f64>,
    /// The correlation of the gradients of each view with those of the result, around the image of the CT, whatever was minimised.
    pub correlations: Vec<f64>,
    /// Evidence for the pose, independent of the similarity.
    pub evidence: Evidence,
    /// The centre of attenuation, in the world of the CT, mm.
    pub middle: Vector3<f64>,
    /// The geometry of each view, where it was refined together with the pose; the views of the result are these then.
    pub geometry: Vec<RefinedView>,
    /// How certain the pose is.
    pub uncertainty: Uncertainty,
    /// The cost along each of six parameters through the result; none where it was not asked for.
    pub landscape: Vec<Landscape>,
    /// The scales, coarse to fine.
    pub stages: Vec<StageRecord>,
    /// Steps of the optimiser that led to the result.
    pub iterations: usize,
    /// Simulated images of one view.
    pub renders: usize,
    /// Whether each pixel of a view shows what the CT does not, and was left out; none of a view that shows nothing of that kind.
    pub without: Vec<Option<Vec<bool>>>,
    /// The fraction of the pixels of each view.
    pub left_out: Vec<f64>,
    /// Whether the values of a view are a bent function of attenuations, and were straightened.
    pub straightened: Vec<bool>,
    /// The verdict.
    pub verdict: Verdict,
}

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
    PreparedCt::new(device, input.ct)?.register(&input.views, &input.start, options, progress)
}

impl<D: Device> PreparedCt<'_, D> {
    /// Finds its pose by X-ray images of it in one room; the search begins at `start`, which maps the room to the world of the
    /// CT and is rigid.
    ///
    /// # Errors
    /// As [`register_pose`].
    pub fn register(
        &mut self,
        views: &[View<'_>],
        start: &Affine,
        options: &PoseOptions,
        progress: &dyn Progress,
    ) -> Result<PoseResult> {
        options.check_all()?;
        check_views(views)?;
        let start = self.rigid_start(start)?;
        let sizes = self.sizes(views, &start, options)?;
        let finer = self.finer(views, &start, options, &sizes)?;
        self.prepare(&sizes)?;
        self.prepare(&finer)?;
        geometry::check(options.refine, views)?;
        let mut adapted = vec![metal::Adapted::default(); views.len()];
        let mut before = search::Work::default();
        for round in 0.. {
            let compared: Vec<_> =
                adapted.iter().zip(views).map(|(a, view)| a.view(view)).collect();
            let mut search =
                search::Search::new(self, &compared, start, options, progress)?.after(before);
            search.expect(sizes.len() + finer.len(), verdict::Asked::default());
            let (levels, best) = search.stages(&sizes, &finer)?;
            if round < metal::ROUNDS && options.adapts() {
                let size = levels.last().map_or(f64::NAN, |level| level.size);
                let now = search.adapted(views, size, &search.model.affine(&best.pose))?;
                if now.iter().zip(&adapted).any(|(now, before)| now.differs(before)) {
                    before = search.work();
                    adapted = now;
                    continue;
                }
            }
            let mut result = self.conclude(search, (&levels, best), (&sizes, &finer))?;
            for (number, (adapted, view)) in adapted.into_iter().zip(views).enumerate() {
                result.verdict.remarks.extend(adapted.remarks(number, view));
                result.left_out[number] = adapted.left_out(view);
                result.without[number] = adapted.without;
                result.straightened[number] = adapted.image.is_some();
            }
            return Ok(result);
        }
        Err(nothing("rounds"))
    }

    /// The result of the stages of a search, with the geometry refined where that is asked for, and checked against
    /// competing poses.
    fn conclude<'a>(
        &self,
        mut search: search::Search<'a, '_, D>,
        (levels, best): (&[level::Level<'a, D>], Candidate),
        (sizes, finer): (&[f64], &[f64]),
    ) -> Result<PoseResult> {
        let asked = verdict::Asked::default();
        let (views, options) = (search.views, search.options);
        if options.refine.is_none() {
            return search.look(levels, best, sizes.len(), asked);
        }
        search.expect(sizes.len() + finer.len() + 1, asked);
        let (pose, numbers) =
            search.part("geometry", |all| all.refine_geometry(levels, &best.pose))?;
        let frames = search.frames()?;
        let all = || views.iter().zip(&frames).zip(&numbers);
        let refined = all()
            .map(|((view, frame), by)| frame.changed(view.geometry, *by))
            .collect::<Result<Vec<_>>>()?;
        let changes = all().map(|((view, frame), by)| frame.change(view.geometry, *by)).collect();
        let views: Vec<_> =
            views.iter().zip(&refined).map(|(view, geometry)| View { geometry, ..*view }).collect();
        search.again(&views, pose, changes).run(sizes, finer, asked)
    }

    /// The pixel sizes of scales beyond those of a search at which a pose is refined until it converges, mm; none
    /// where the scales are given.
    fn finer(
        &self,
        views: &[View<'_>],
        start: &Affine,
        options: &PoseOptions,
        sizes: &[f64],
    ) -> Result<Vec<f64>> {
        let Some(&last) = sizes.last().filter(|_| options.levels.is_none()) else {
            return Ok(Vec::new());
        };
        Ok(level::finer(views, start.inverse()?.apply(self.middle), last))
    }

    /// The sizes of pixels of the scales of a search, coarse to fine, mm.
    fn sizes(&self, views: &[View<'_>], start: &Affine, options: &PoseOptions) -> Result<Vec<f64>> {
        if let Some(levels) = &options.levels {
            return Ok(levels.0.clone());
        }
        Ok(level::sizes(self.ct, views, start.inverse()?.apply(self.middle)))
    }

    /// The rigid map that is nearest to a start, where it is one but for rounding.
    fn rigid_start(&self, start: &Affine) -> Result<Affine> {
        let (matrix, wrong) = (start.matrix, |value: &str| {
            RegisterError::option("start", value, "give a rigid one (rotation and translation)")
        });
        let off = (matrix.transpose() * matrix - Matrix3::identity()).norm();
        if off.is_nan() || off > 1e-4 || start.offset.iter().any(|v| !v.is_finite()) {
            return Err(wrong("a map that scales lengths"));
        }
        if matrix.determinant() < 0.0 {
            return Err(wrong("a map that mirrors"));
        }
        let centre = start.inverse()?.apply(self.middle);
        Ok(rigid(start, centre))
    }
}

/// The nearest rigid map that maps a point to the same place: rounding goes.
fn rigid(map: &Affine, centre: Vector3<f64>) -> Affine {
    let rotation = *Rotation3::from_matrix(&map.matrix).matrix();
    Affine::new(rotation, map.apply(centre) - rotation * centre)
}

fn nothing(option: &'static str) -> RegisterError {
    RegisterError::option(option, "none", "give one")
}

/// Checks what is known of X-ray images before any search.
fn check_views(views: &[View<'_>]) -> Result<()> {
    if views.is_empty() {
        return Err(nothing("X-ray images"));
    }
    for view in views {
        let ([x, y], [w, h]) = view.counted()?;
        let [columns, rows] = view.geometry.dims();
        if view.image.len() != columns * rows {
            return Err(RegisterError::option(
                "size of an X-ray image",
                format!("{} pixels", view.image.len()),
                format!("its geometry has {columns} x {rows}"),
            ));
        }
        let lines = || (y..y + h).map(|r| &view.image[r * columns + x..][..w]);
        let odd: usize = lines().map(|l| l.iter().filter(|v| !v.is_finite()).count()).sum();
        if odd > 0 {
            return Err(RegisterError::NotFinite { role: Role::Xray, count: odd });
        }
        let places = (y..y + h).flat_map(|r| r * columns + x..r * columns + x + w);
        let counts = |i: &usize| view.without.is_none_or(|without| !without[*i]);
        let mut values = places.filter(counts).map(|i| view.image[i]);
        let Some(first) = values.next() else {
            return Err(RegisterError::option(
                "mask of an X-ray image",
                "all pixels",
                "leave fewer pixels out",
            ));
        };
        if values.all(|v| v == first) {
            return Err(RegisterError::Constant { role: Role::Xray, value: first, within: "" });
        }
    }
    Ok(())
}
