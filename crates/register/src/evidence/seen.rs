//! A pair of images prepared for evidence.

use super::image::Image;
use super::measures::{Measures, Relation, measure, relation};
use crate::limits::{AGREEMENT, KEPT};
use crate::verdict::{Check, Remedy};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use voxalign_image::{Affine, Grid, Index, Matrix3, Transform, Vector3};

/// Samples along the middle one of an image's extents, in 2D and in 3D. What is within the outline of a section is
/// told by few of them: with 48 only 3 of 6 pairs of stained sections that are right were told from wrong ones.
const ACROSS: [f64; 2] = [144.0, 48.0];
/// The shift of other alignments, as a fraction of the object's radius, and their rotation.
const FAR: f64 = 0.25;
const TURNED: f64 = 25.0;
/// The shift of near alignments, samples: the same part of the image in 2D and in 3D.
const NEAR: [f64; 2] = [6.0, 2.0];

/// Evidence for an alignment from two images.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Under the alignment.
    pub found: Measures,
    /// The mean of those shifted by two samples, of slices six.
    pub near: Measures,
    /// The largest of those shifted by a quarter of the object's radius, rotated by 25 degrees, and turned over.
    pub elsewhere: Measures,
    /// The largest of those mirrored, one of them refined by the cost where there was a search.
    pub mirrored: Measures,
    /// Under the headers alone.
    pub headers: Measures,
}

/// Added to edges and information, so that values near zero have little influence.
pub(crate) const LITTLE: f64 = 0.02;

impl Evidence {
    /// The leads of the alignment over others, and over its neighbours: for edges the difference as a fraction of
    /// what the others, and it itself, lack to 1; for tissue and information the logarithm of the ratio, that of
    /// tissue from -2 to 2.
    #[must_use]
    pub fn leads(&self) -> [f64; 6] {
        let (found, near, other) = (&self.found, &self.near, &self.elsewhere);
        let log = |a: f64, b: f64| ((a + LITTLE) / (b + LITTLE)).ln().clamp(-2.0, 2.0);
        [
            (found.edges - other.edges) / (1.0 - other.edges + LITTLE),
            ((found.edges - near.edges) / (found.edges + LITTLE)).clamp(-1.0, 1.0),
            log(found.tissue, other.tissue),
            log(found.tissue, near.tissue),
            log(found.information, other.information),
            log(found.information, near.information).clamp(-1.0, 1.0),
        ]
    }

    /// The leads in one number: above 0 for alignments that are right, below for such as chance gives.
    #[must_use]
    pub fn agreement(&self) -> f64 {
        let (weights, constant) = AGREEMENT;
        self.leads().iter().zip(weights).map(|(lead, weight)| lead * weight).sum::<f64>() + constant
    }

    /// The lead of the best mirrored alignment over this one: edges, as a fraction of what is missing to 1, and the
    /// logarithm of the ratio of information.
    #[must_use]
    pub fn mirrored_leads(&self) -> [f64; 2] {
        let (found, mirrored) = (&self.found, &self.mirrored);
        [
            (mirrored.edges - found.edges) / (1.0 - found.edges + LITTLE),
            ((mirrored.information + LITTLE) / (found.information + LITTLE)).ln(),
        ]
    }

    /// An explanation.
    #[must_use]
    pub fn words(&self) -> String {
        let pair = |what: &str, of: fn(&Measures) -> f64| {
            let all = [&self.found, &self.near, &self.elsewhere].map(of);
            format!("{what} {:.2}, {:.2} and {:.2}", all[0], all[1], all[2])
        };
        format!(
            "agreement of the images as registered, shifted a little, and at best elsewhere: {}; {}; {}",
            pair("edges", |m| m.edges),
            pair("information", |m| m.information),
            pair("information within tissue (nats)", |m| m.tissue),
        )
    }
}

/// The middle one of a grid's extents, of two the larger, mm; axes of one voxel do not count.
pub(crate) fn middle_extent(grid: &Grid) -> f64 {
    let mut e: Vec<f64> =
        (0..3).filter(|&a| grid.dims()[a] > 1).map(|a| grid.extent()[a]).collect();
    e.sort_by(f64::total_cmp);
    e.get(e.len() / 2).copied().unwrap_or(1.0)
}

/// Two images as evidence looks at them: some 48 samples along the middle extent, of slices 144, so that it takes as long for
/// every pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    fixed: Image,
    moving: Image,
    centre: Vector3<f64>,
    radius: f64,
    /// The same without masks, where there are some.
    whole: Option<Box<Seen>>,
}

/// The images of a masked registration without their masks. The region inside a mask may fit by chance, while
/// nothing outside it has any influence.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Unmasked {
    /// The least part of an image's foreground that its mask keeps.
    pub kept: f64,
    /// Evidence of the whole images.
    pub evidence: Evidence,
}

impl Unmasked {
    /// The agreement of the whole images, where masks keep so little of them that it counts.
    pub(crate) fn agreement(&self) -> Option<f64> {
        (self.kept < KEPT).then(|| self.evidence.agreement())
    }

    /// Whether the whole images agree, where that counts.
    pub(crate) fn check(&self, least: f64) -> Option<Check> {
        let name = "agreement of the whole images, without their masks";
        Some(Check::at_least(name, self.agreement()?, least).or(Remedy::WiderMask))
    }
}

impl Seen {
    /// The spacing that images are looked at with, mm.
    #[must_use]
    pub fn spacing(fixed: &Grid, moving: &Grid) -> f64 {
        let flat = fixed.dims()[2] == 1;
        middle_extent(fixed).min(middle_extent(moving)) / ACROSS[usize::from(!flat)]
    }

    /// Two images at about that spacing: grid, values, and which of them count (above 0.5).
    #[must_use]
    pub fn new(
        fixed: (Grid, Vec<f32>, Option<Vec<f32>>),
        moving: (Grid, Vec<f32>, Option<Vec<f32>>),
    ) -> Self {
        let fixed = Image::new(fixed.0, fixed.1, fixed.2);
        let moving = Image::new(moving.0, moving.1, moving.2);
        let (centre, radius) = fixed.object();
        Self { fixed, moving, centre, radius, whole: None }
    }

    /// With the same images on the same grids without their masks.
    #[must_use]
    pub(crate) fn beside(self, whole: Seen) -> Self {
        Self { whole: Some(Box::new(whole)), ..self }
    }

    /// The images without their masks, where there are some.
    pub(crate) fn whole(&self) -> Option<&Seen> {
        self.whole.as_deref()
    }

    /// Evidence of the whole images where masks exclude part of them, as [`evidence`](Self::evidence).
    #[must_use]
    pub fn unmasked(&self, map: &Affine, headers: &Affine) -> Option<Unmasked> {
        let whole = self.whole()?;
        Some(Unmasked { kept: self.kept(whole), evidence: whole.evidence(map, headers) })
    }

    /// The least part of an image's foreground that its mask keeps.
    fn kept(&self, whole: &Seen) -> f64 {
        let part = |own: &Image, whole: &Image| {
            let object = || (0..whole.values.len()).filter(|&i| whole.values[i] > whole.threshold);
            let kept = object().filter(|&i| own.counts(i)).count();
            kept as f64 / object().count().max(1) as f64
        };
        part(&self.fixed, &whole.fixed).min(part(&self.moving, &whole.moving))
    }

    /// The measures of one alignment, fixed world to moving world.
    #[must_use]
    pub fn measures(&self, map: &Affine) -> Measures {
        measure(&self.fixed, &self.moving, &self.of_voxels(map))
    }

    /// How the intensities of both images go together under an alignment, fixed world to moving world; none where
    /// hardly any tissue overlaps.
    #[must_use]
    pub fn relation(&self, map: &Affine) -> Option<Relation> {
        relation(&self.fixed, &self.moving, &self.of_voxels(map))
    }

    fn of_voxels(&self, map: &Affine) -> Affine<Index, Index> {
        self.fixed.grid.to_world().then(map).then(self.moving.grid.to_index())
    }

    /// Evidence for an alignment and for that of the headers, fixed world to moving world.
    #[must_use]
    pub fn evidence(&self, map: &Affine, headers: &Affine) -> Evidence {
        let of = |before: &[Affine]| -> Vec<Measures> {
            before.par_iter().map(|b| self.measures(&b.then(map))).collect()
        };
        let most =
            |all: Vec<Measures>| all.into_iter().fold(Measures::default(), Measures::or_more);
        let near = NEAR[usize::from(!self.fixed.flat())];
        Evidence {
            found: self.measures(map),
            near: Measures::mean(&of(&self.shifted(|a| near * self.fixed.spacing[a]))),
            elsewhere: most(of(&self.elsewhere())),
            mirrored: most(of(&self.mirrored())),
            headers: self.measures(headers),
        }
    }

    /// Whether the background of the fixed and of the moving image is bright, as that of sections in bright field is.
    pub(crate) fn bright_backgrounds(&self) -> [bool; 2] {
        [self.fixed.inverted, self.moving.inverted]
    }

    /// The mean distance of the foreground of the fixed image from its centre, mm.
    pub(crate) fn radius(&self) -> f64 {
        self.radius
    }

    /// The foreground of the fixed image that counts, world mm.
    pub(crate) fn foreground(&self) -> Vec<Vector3<f64>> {
        let Image { values, threshold, .. } = &self.fixed;
        let inside = (0..values.len())
            .filter(|&i| values[i] > *threshold && self.fixed.counts(i))
            .map(|i| self.fixed.grid.index_to_world(self.fixed.index(i)));
        inside.collect()
    }

    /// The same with the moving image resampled onto the grid of the fixed one by a transform from the fixed to the
    /// moving world; voxels that map outside it do not count.
    pub(crate) fn through(&self, transform: &Transform) -> Self {
        let grid = self.fixed.grid.clone();
        let at = |i: usize| {
            let p = transform.apply(grid.index_to_world(self.fixed.index(i)));
            self.moving.at(self.moving.grid.world_to_index(p))
        };
        let found: Vec<Option<f32>> =
            (0..self.fixed.values.len()).into_par_iter().map(at).collect();
        let values = found.iter().map(|v| v.unwrap_or_default()).collect();
        let weight = found.iter().map(|v| f32::from(v.is_some())).collect();
        let whole = self.whole.as_ref().map(|whole| Box::new(whole.through(transform)));
        Self { moving: Image::new(grid, values, Some(weight)), whole, ..self.clone() }
    }

    fn axes(&self) -> impl Iterator<Item = (usize, Vector3<f64>)> + use<> {
        let direction = self.fixed.grid.direction();
        let count = if self.fixed.flat() { 2 } else { 3 };
        (0..count).map(move |a| (a, direction.column(a).into_owned()))
    }

    fn shifted(&self, by: impl Fn(usize) -> f64) -> Vec<Affine> {
        self.axes()
            .flat_map(|(a, axis)| {
                [-1.0, 1.0].map(|sign| Affine::translation(axis * (sign * by(a))))
            })
            .collect()
    }

    /// Other alignments, as maps of the fixed world into itself.
    fn elsewhere(&self) -> Vec<Affine> {
        let mut all = self.shifted(|_| FAR * self.radius);
        let axes: Vec<Vector3<f64>> = match self.fixed.flat() {
            true => {
                let [x, y] = [0, 1].map(|a| self.fixed.grid.direction().column(a).into_owned());
                vec![x.cross(&y)]
            }
            false => self.axes().map(|(_, axis)| axis).collect(),
        };
        for axis in axes {
            for degrees in [-TURNED, TURNED, 180.0] {
                let turn = nalgebra::Rotation3::new(axis.normalize() * f64::to_radians(degrees));
                all.push(Affine::about(*turn.matrix(), self.centre, Vector3::zeros()));
            }
        }
        all
    }

    /// Reflections about the middle of the object, across each axis of the grid.
    fn mirrored(&self) -> Vec<Affine> {
        let reflected = |(_, axis): (usize, Vector3<f64>)| {
            let matrix = Matrix3::identity() - axis * axis.transpose() * 2.0;
            Affine::about(matrix, self.centre, Vector3::zeros())
        };
        self.axes().map(reflected).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::AFFINE;
    use voxalign_image::Volume;

    fn blobs(grid: &Grid, seed: u64, invert: bool) -> Vec<f32> {
        let mut state = seed;
        let mut next = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        let spots: Vec<(Vector3<f64>, f64)> = (0..24)
            .map(|_| (Vector3::new(next(), next(), next()) * 60.0 - Vector3::repeat(30.0), next()))
            .collect();
        let image = Volume::from_fn(grid.clone(), |x, y, z| {
            let p = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            let out = Vector3::new(p[0] / 34.0, p[1] / 42.0, p[2] / 38.0).norm();
            let object = 0.3 * ((1.0 - out) * 8.0).clamp(0.0, 1.0);
            let sum: f64 =
                spots.iter().map(|(c, w)| w * (-(p - c).norm_squared() / 50.0).exp()).sum();
            let v = object + if object > 0.0 { 0.7 * sum.min(1.0) } else { 0.0 };
            (if invert && object > 0.0 { object * (1.6 - v) / 0.3 } else { v }) as f32
        });
        image.into_parts().1
    }

    fn seen(seeds: [u64; 2], invert: bool) -> Seen {
        let to_world = Affine::new(Matrix3::identity() * 2.0, Vector3::repeat(-47.0));
        let grid = Grid::new([48, 48, 48], to_world).unwrap();
        let fixed = blobs(&grid, seeds[0], false);
        let moving = blobs(&grid, seeds[1], invert);
        Seen::new((grid.clone(), fixed, None), (grid, moving, None))
    }

    #[test]
    fn what_belongs_together_leads_and_what_does_not_does_not() {
        for invert in [false, true] {
            let found = seen([7, 7], invert).evidence(&Affine::identity(), &Affine::identity());
            assert!(found.leads()[2] > 10.0 * AFFINE.tissue, "{found:?}");
            assert!(found.near.edges < found.found.edges - 0.1, "{found:?}");
            assert!(found.agreement() > 2.0, "{} {found:?}", found.agreement());
            let wrong = seen([7, 8], invert).evidence(&Affine::identity(), &Affine::identity());
            assert!(wrong.found.tissue < 1.3 * wrong.elsewhere.tissue + 0.05, "{wrong:?}");
            // An outline that fits is not enough.
            assert!(wrong.leads()[2] < AFFINE.tissue, "{:?} {wrong:?}", wrong.leads());
            assert!(wrong.found.overlap > 0.99 && wrong.found.foreground > 0.95, "{wrong:?}");
        }
    }

    /// What is on a bright ground is judged as the same on a dark one.
    #[test]
    fn bright_backgrounds_are_no_foreground() {
        let to_world = Affine::new(Matrix3::identity() * 2.0, Vector3::repeat(-47.0));
        let grid = Grid::new([48, 48, 48], to_world).unwrap();
        let (dark, other) = (blobs(&grid, 7, false), blobs(&grid, 8, false));
        let bright = |image: &[f32]| image.iter().map(|v| 2.0 - v).collect::<Vec<_>>();
        let of = |fixed: &[f32], moving: &[f32]| {
            Seen::new((grid.clone(), fixed.to_vec(), None), (grid.clone(), moving.to_vec(), None))
        };
        let here = Affine::identity();
        assert_eq!(of(&bright(&dark), &dark).bright_backgrounds(), [true, false]);
        let expected = of(&dark, &dark).evidence(&here, &here);
        for seen in [of(&bright(&dark), &dark), of(&bright(&dark), &bright(&dark))] {
            let found = seen.evidence(&here, &here);
            assert!((found.found.tissue - expected.found.tissue).abs() < 0.05, "{found:?}");
            assert!((found.found.foreground - expected.found.foreground).abs() < 0.02);
            assert!((found.agreement() - expected.agreement()).abs() < 1.0, "{found:?}");
        }
        let wrong = of(&bright(&dark), &other).evidence(&here, &here);
        assert!(wrong.found.tissue < 1.3 * wrong.elsewhere.tissue + 0.05, "{wrong:?}");
        // Whether a line rises is that of the values themselves.
        let line = |seen: &Seen| seen.relation(&here).unwrap().line;
        assert!(line(&of(&bright(&dark), &bright(&dark))) > 0.99);
        assert!(line(&of(&bright(&dark), &dark)) < 0.01);
    }

    #[test]
    fn a_line_is_told_from_other_relations() {
        let here = Affine::identity();
        let same = seen([7, 7], false).relation(&here).unwrap();
        assert!(same.line > 0.99 && same.linearity() > 0.99, "{same:?}");
        // Falling intensities, some of them cut off, are no rising line, however much they explain.
        let inverted = seen([7, 7], true).relation(&here).unwrap();
        assert!(inverted.line < 0.01 && inverted.any > 0.5, "{inverted:?}");
        // Of other insides only the rim goes together, which is no line by chance.
        let other = seen([7, 8], false).relation(&here).unwrap();
        assert!(other.line < 0.05 && other.any < 0.2, "{other:?}");
        assert!(seen([7, 7], false).relation(&Affine::translation(Vector3::repeat(1e4))).is_none());
    }

    #[test]
    fn a_mirrored_image_is_seen() {
        let seen = seen([7, 7], false);
        let mirror =
            Affine::new(Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.0)), Vector3::zeros());
        let found = seen.evidence(&mirror, &mirror);
        assert!(found.mirrored.edges > found.found.edges + 0.2, "{found:?}");
    }

    #[test]
    fn nothing_in_common_is_nothing() {
        let far = Affine::translation(Vector3::repeat(1e4));
        assert_eq!(seen([7, 7], false).evidence(&far, &far).found, Measures::default());
    }
}
