//! Corresponding points of a pair: reading, checks against the images, and distances before and after.

use crate::error::{Error, Result};
use crate::files;
use crate::listener::{Level, Listener};
use crate::options::{PointConvention, number};
use crate::place::{Mistaken, Place, has};
use std::path::Path;
use voxalign_image::{Grid, Transform, Vector3};
use voxalign_io::points::{self, PointInfo};
use voxalign_options::{Text, text};
use voxalign_register::Choice as _;
use voxalign_register::attachment::images::finest;
use voxalign_register::fit::{MapKind, PointPairs, fit_points};
use voxalign_register::limits::{LANDMARKS, LandmarkLimits};
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::{Figure, Figures, LandmarkRecord, When};

/// Reads the points of the fixed and of the moving image. Of images of two dimensions they are brought into the plane of
/// their slice. A column `weight` of the first says what each pair counts. One file of two volumes' points (MNI tags) has the
/// fixed ones first.
///
/// # Errors
/// What is wrong with a file, points without a position, lists of different lengths, all points of a list outside of their
/// image.
pub(crate) fn read_pairs(
    paths: [&Path; 2],
    convention: Option<PointConvention>,
    grids: [&Grid; 2],
    listener: &dyn Listener,
) -> Result<PointPairs> {
    let one_file = paths[0] == paths[1];
    let read = |side: usize| {
        let options = points::ReadOptions {
            convention: convention.map(Into::into),
            grid: Some(grids[side]),
            volume: None,
        };
        let (set, info) =
            files::points_of_pair(paths[side], &options, one_file.then_some(side), listener)?;
        if info.without_position > 0 {
            return Err(Error::input(text!(
                "'{}' has {} points without a position, so that it is not known which points belong together; place \
                 them, or delete them in both lists",
                paths[side].display(),
                info.without_position
            )));
        }
        Ok((set, info))
    };
    let (first, second) = (read(0)?, read(1)?);
    let infos = [first.1, second.1];
    let sets = [first.0, second.0];
    let counts = [sets[0].len(), sets[1].len()];
    for (path, count) in paths.iter().zip(counts) {
        if count == 0 {
            return Err(Error::input(text!("'{}' has no points", path.display())));
        }
    }
    if counts[0] != counts[1] {
        return Err(Error::input(text!(
            "'{}' has {} points, '{}' {}: points correspond line by line, so give the same number",
            paths[0].display(),
            counts[0],
            paths[1].display(),
            counts[1]
        )));
    }
    let mut pairs = PointPairs::new(&sets[0], &sets[1])?;
    let column = sets[0].columns().iter().find(|(name, _)| name.eq_ignore_ascii_case("weight"));
    if let Some((_, texts)) = column {
        let weight = |(i, text): (usize, &String)| {
            number(text).map_err(|e| {
                let path = paths[0].display();
                Error::input(text!("'{path}': the weight of point {}: {e}", i + 1))
            })
        };
        let each = texts.iter().enumerate().map(weight).collect::<Result<_>>()?;
        let of = |e| Error::from(e).at(format!("'{}', column weight", paths[0].display()));
        pairs = pairs.with_weights(each).map_err(of)?;
    }
    for (side, path) in paths.iter().enumerate() {
        check_place(pairs.points()[side], grids[side], (path, side), &infos[side])?;
    }
    for remark in remarks(&pairs, grids) {
        listener.say(Level::Warning, remark);
    }
    Ok(pairs.placed([&|p| on_slice(p, grids[0]), &|p| on_slice(p, grids[1])]))
}

const ROLES: [&str; 2] = ["fixed", "moving"];

/// A point of the plane of a slice, of a grid that has one.
fn on_slice(p: Vector3<f64>, grid: &Grid) -> Vector3<f64> {
    if !grid.is_2d() {
        return p;
    }
    let index = grid.world_to_index(p);
    grid.index_to_world(Vector3::new(index[0], index[1], 0.0))
}

/// Refuses points that all lie outside of their image, with what they may be.
fn check_place(
    points: &[Vector3<f64>],
    grid: &Grid,
    (path, side): (&Path, usize),
    info: &PointInfo,
) -> Result<()> {
    let place = Place::of(points, grid);
    if !place.is_elsewhere() {
        return Ok(());
    }
    let role = ROLES[side];
    let lie = format!(
        "'{}': all {} points lie outside of the {role} image; ",
        path.display(),
        points.len()
    );
    Err(Error::input(Text::from(lie).and(remedy(place.mistaken, info))))
}

/// What helps where points lie elsewhere than their image.
#[must_use]
pub fn remedy(mistaken: Option<Mistaken>, info: &PointInfo) -> Text {
    let other = match info.convention {
        Some(points::PointConvention::Lps) => PointConvention::Ras,
        _ => PointConvention::Lps,
    };
    let turned = if other == PointConvention::Ras { "RAS" } else { "LPS" };
    match (mistaken, info.convention) {
        (Some(Mistaken::Exchanged), Some(_)) if info.assumed => {
            text!("they lie on it as {turned}: give `point_convention = {}`", other.name())
        }
        (Some(Mistaken::Exchanged), Some(said)) => text!(
            "they lie on it as {turned}, but the file states {said}: correct the file"
        ),
        (Some(Mistaken::Voxels), Some(_)) => {
            "they look like voxel indices: write them as an elastix list, with 'index' as its first line, their number \
             as the second, and then x y z of a point on each line, without commas"
                .into()
        }
        (Some(Mistaken::Centred), Some(_)) => {
            "they look as if they were relative to the centre of the image (FreeSurfer's tkRAS): bring them to scanner \
             coordinates first"
                .into()
        }
        (_, None) => "its voxel indices count in another image: check that the list belongs to this one, and that \
                      the image was not cropped or resampled since"
            .into(),
        (_, Some(_)) if info.assumed => {
            text!("check that the list belongs to this image, and that its points are world coordinates in mm, RAS unless \
                   `point_convention = lps` says otherwise")
        }
        (_, Some(said)) => text!(
            "check that the list belongs to this image; the file says that its points are {said} mm"
        ),
    }
}

/// What to say of points that lie outside of their images.
pub(crate) fn remarks(pairs: &PointPairs, grids: [&Grid; 2]) -> Vec<Text> {
    let of = |side: usize| {
        let points = pairs.points()[side];
        let outside = points.iter().filter(|p| !has(grids[side], grids[side].world_to_index(**p)));
        let count = outside.count();
        let lie = if count == 1 { "lies" } else { "lie" };
        (count > 0).then(|| {
            format!(
                "{count} of {} landmarks {lie} outside of the {} image",
                points.len(),
                ROLES[side]
            )
        })
    };
    // Of few points a fit leaves little whatever they are; a map of the plane is no mirror image of one in space.
    let fitted = (pairs.len() > 3 && !grids[0].is_2d())
        .then(|| fit_points(pairs, MapKind::Similarity, None).ok())
        .flatten();
    (0..2).filter_map(of).chain(fitted.and_then(|fit| fit.doubts())).map(Text::from).collect()
}

/// More landmarks than these are not compared with each other.
const MOST: usize = 4000;

/// Which points are with another in the wrong order: exchanging their partners leaves far less.
fn exchanged(places: &[[Vector3<f64>; 2]], clearly: f64) -> Vec<usize> {
    let own: Vec<f64> = places.iter().map(|[p, q]| (p - q).norm()).collect();
    let with = |i: usize| {
        (0..places.len()).any(|j| {
            let sum = own[i] + own[j];
            i != j && sum > clearly && {
                let other =
                    (places[i][0] - places[j][1]).norm() + (places[j][0] - places[i][1]).norm();
                other < LANDMARKS.exchanged_shorter * sum && sum - other > clearly
            }
        })
    };
    (0..places.len()).filter(|&i| with(i)).collect()
}

/// The mean distance of points from the partners of others.
fn mean_of_others(places: &[[Vector3<f64>; 2]]) -> Option<f64> {
    let n = places.len();
    let one = |i: usize| {
        let to = |j: usize| if i == j { 0.0 } else { (places[i][0] - places[j][1]).norm() };
        (0..n).map(to).sum::<f64>()
    };
    (n > 1).then(|| (0..n).map(one).sum::<f64>() / (n * (n - 1)) as f64)
}

/// How far apart pairs are before and after a registration.
#[derive(Debug)]
pub(crate) struct Distances {
    /// Of every pair.
    all: Vec<LandmarkRecord>,
    /// The mean distance of mapped fixed points from the partners of others, mm; none of one.
    others: Option<f64>,
    /// Those that two by two are nearer to the partners of each other before the registration.
    exchanged: Vec<usize>,
    /// How many pull.
    pulling: usize,
}

impl Distances {
    /// By the maps before and after.
    pub(crate) fn of(
        pairs: &PointPairs,
        before: &Transform,
        after: &Transform,
        fixed_grid: &Grid,
    ) -> Self {
        let [fixed, moving] = pairs.points();
        let all = fixed.iter().zip(moving).enumerate();
        let record = |(i, (p, q)): (usize, (&Vector3<f64>, &Vector3<f64>))| LandmarkRecord {
            fixed_mm: (*p).into(),
            moving_mm: (*q).into(),
            weight: pairs.weight(i),
            before_mm: (before.apply(*p) - q).norm(),
            after_mm: (after.apply(*p) - q).norm(),
        };
        let pulls: Vec<usize> =
            (0..pairs.len()).filter(|&i| pairs.weight(i) > 0.0).take(MOST).collect();
        let place = |map: &Transform| -> Vec<[Vector3<f64>; 2]> {
            pulls.iter().map(|&i| [map.apply(fixed[i]), moving[i]]).collect()
        };
        let clearly = LANDMARKS.exchanged_voxels * finest(fixed_grid);
        let exchanged = exchanged(&place(before), clearly).into_iter().map(|k| pulls[k]).collect();
        let others = mean_of_others(&place(after));
        let all = all.map(record).collect();
        Self { all, others, exchanged, pulling: pulls.len() }
    }

    /// The weighted means before and after.
    fn means(&self) -> [f64; 2] {
        let total: f64 = self.all.iter().map(|l| l.weight).sum();
        let mean = |of: fn(&LandmarkRecord) -> f64| {
            self.all.iter().map(|l| l.weight * of(l)).sum::<f64>() / total.max(f64::MIN_POSITIVE)
        };
        [mean(|l| l.before_mm), mean(|l| l.after_mm)]
    }

    /// A verdict with what the points say that pulled: they are at most half as far apart as before, or within two voxels and no
    /// farther apart, or within one, or next to nothing of how far they spread; far nearer to their own partners than to those
    /// of others; and not in another order.
    pub(crate) fn judged(&self, verdict: Verdict, fixed: &Grid) -> Verdict {
        let [before, after] = self.means();
        let voxel = finest(fixed);
        let LandmarkLimits { nearer, voxels, of_others, near_others, exchanged, .. } = LANDMARKS;
        let most = (nearer * before).max(before.min(voxels * voxel)).max(voxel);
        let most = most.max(near_others * self.others.unwrap_or_default());
        let near = Check::at_most("mean distance of the landmarks", after, most).in_unit("mm");
        let own = self.others.map(|others| {
            let name = "mean distance of the landmarks, against that to the partners of others";
            let most = (of_others * others).max(voxels * voxel);
            Check::at_most(name, after, most).in_unit("mm").or(Remedy::Landmarks)
        });
        let part = self.exchanged.len() as f64 / self.pulling.max(1) as f64;
        let order = Check::at_most(
            "part of the landmarks that are nearer to each other's partners before the deformation",
            part,
            exchanged,
        );
        let mut verdict = verdict
            .with(Some(near.or(Remedy::Landmarks)))
            .with(own)
            .with(Some(order.or(Remedy::Landmarks)));
        if !self.exchanged.is_empty() {
            let which: Vec<_> =
                self.exchanged.iter().take(10).map(|i| (i + 1).to_string()).collect();
            let more = if self.exchanged.len() > 10 { " and more" } else { "" };
            verdict.remarks.push(text!(
                "landmarks {}{more} are nearer to each other's partners than to their own: look at the order of both lists",
                which.join(", ")
            ));
        }
        let (count, farther) = (self.all.len(), self.farther());
        if farther > 0 {
            let are = if farther == 1 { "is" } else { "are" };
            verdict.remarks.push(text!(
                "{farther} of {count} landmarks {are} farther apart than before by more than 1 mm: look at them"
            ));
        }
        verdict
    }

    /// How many are farther apart than before by more than a millimetre.
    fn farther(&self) -> usize {
        self.all.iter().filter(|l| l.after_mm > l.before_mm + 1.0).count()
    }

    /// Adds them to a record.
    pub(crate) fn note(self, figures: &mut Figures) -> Vec<LandmarkRecord> {
        for (when, of) in [
            (When::Before, (|l| l.before_mm) as fn(&LandmarkRecord) -> f64),
            (When::After, |l| l.after_mm),
        ] {
            let mut sorted: Vec<f64> = self.all.iter().map(of).collect();
            sorted.sort_by(f64::total_cmp);
            let (n, sum) = (sorted.len(), sorted.iter().sum::<f64>());
            let (Some(low), Some(high)) = (sorted.get((n - 1) / 2), sorted.get(n / 2)) else {
                continue;
            };
            figures.set_at(Figure::LandmarkMean, when, sum / n as f64);
            figures.set_at(Figure::LandmarkMedian, when, 0.5 * (low + high));
            figures.set_at(Figure::LandmarkLargest, when, sorted[n - 1]);
        }
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, PointSet};

    /// Twelve points in disorder, moved by 4 mm before; after, each is as far as it was times `left`.
    fn judged(order: impl Fn(usize) -> usize, left: f64) -> Verdict {
        let place = |i: usize| {
            let [x, y, z] = [i * 37 % 101, i * 53 % 89, i * 71 % 97].map(|v| v as f64);
            Vector3::new(x, y, z)
        };
        let set = |of: &dyn Fn(usize) -> Vector3<f64>| PointSet::new((0..12).map(of).collect());
        let shift = Vector3::new(4.0, 0.0, 0.0);
        let moving = set(&|i| place(order(i)) + shift);
        let pairs = PointPairs::new(&set(&place), &moving).unwrap();
        let before = Transform::Affine(Affine::identity());
        let after = Transform::Affine(Affine::translation(shift * (1.0 - left)));
        let grid = Grid::axis_aligned([100; 3], [1.0; 3]).unwrap();
        let found = Distances::of(&pairs, &before, &after, &grid);
        let near: Vec<LandmarkRecord> = found
            .all
            .iter()
            .map(|l| LandmarkRecord { after_mm: l.before_mm * left, ..*l })
            .collect();
        let found = Distances { all: near, ..found };
        found.judged(Verdict::new(Vec::new(), Vec::new()), &grid)
    }

    #[test]
    fn landmarks_in_another_order_are_bad_however_far_they_were_pulled() {
        let right = judged(|i| i, 0.3);
        assert!(right.good && right.remarks.is_empty(), "{right:?}");
        // Half of what they were apart, as a strong pull leaves: 30 mm and more.
        let reversed = judged(|i| 11 - i, 0.45);
        let failed: Vec<_> = reversed.checks.iter().filter(|c| !c.passed).collect();
        assert_eq!(failed.len(), 2, "{}", reversed.summary());
        assert!(failed[0].name.contains("partners of others") && failed[0].value > 20.0);
        // Pulled onto each other they are still in the wrong order.
        let strong = judged(|i| 11 - i, 0.01);
        assert!(!strong.good && strong.summary().contains("each other's partners"));
        assert!(strong.remarks.iter().any(|r| r.contains("1, 2, 3")), "{:?}", strong.remarks);
        let cycle = judged(|i| (i + 5) % 12, 0.45);
        assert!(!cycle.good, "{cycle:?}");
        // One pair of twelve is said, and is more than a tenth of them.
        let two = judged(|i| [7, 1, 2, 3, 4, 5, 6, 0, 8, 9, 10, 11][i], 0.3);
        assert!(two.remarks.iter().any(|r| r.contains("landmarks 1, 8 are nearer")), "{two:?}");
    }
}
