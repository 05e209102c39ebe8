//! Corresponding points, and the map of least squares that lays those of one world on those of the other.
//!
//! Sources: K. S. Arun, T. S. Huang, S. D. Blostein, *Least-squares fitting of two 3-D point sets*, IEEE
//! Transactions on Pattern Analysis and Machine Intelligence 9(5), 1987 (rotations by the singular value
//! decomposition); S. Umeyama, *Least-squares estimation of transformation parameters between two point
//! patterns*, ibid. 13(4), 1991 (the scale, and no reflection).

use crate::compare::CompareError;
use crate::error::{RegisterError, Result};
use voxalign_image::{Affine, Matrix3, PointSet, Vector3};

/// Points of the fixed and of the moving world, mm, RAS+: that of one index belongs to that of the same index.
#[derive(Debug, Clone, PartialEq)]
pub struct PointPairs {
    fixed: Vec<Vector3<f64>>,
    moving: Vec<Vector3<f64>>,
    /// For each pair; empty where all are 1.
    each: Vec<f64>,
}

impl PointPairs {
    /// Pairs that all count alike.
    ///
    /// # Errors
    /// [`PointCounts`](CompareError::PointCounts) for sets of different sizes; [`Points`](CompareError::Points)
    /// without points or with a coordinate that is not finite.
    pub fn new(fixed: &PointSet, moving: &PointSet) -> Result<Self> {
        let (first, second) = (fixed.len(), moving.len());
        if first != second {
            return Err(CompareError::PointCounts { first, second }.into());
        }
        if first == 0 {
            return Err(no_points("there are no landmarks".to_owned()));
        }
        let pairs = fixed.points().iter().zip(moving.points());
        let finite = |p: &Vector3<f64>| p.iter().all(|v| v.is_finite());
        if let Some(i) = pairs.into_iter().position(|(p, q)| !finite(p) || !finite(q)) {
            let why = format!("landmark {} has a coordinate that is not a finite number", i + 1);
            return Err(no_points(why));
        }
        let (fixed, moving) = (fixed.points().to_vec(), moving.points().to_vec());
        Ok(Self { fixed, moving, each: Vec::new() })
    }

    /// The same with weights of the pairs, 0 or more: how reliable they are beside each other. One of weight 0 is
    /// measured, and does nothing else.
    ///
    /// # Errors
    /// [`Option`](RegisterError::Option) where there are not as many as pairs, one is negative or not finite, or
    /// none is above 0.
    pub fn with_weights(mut self, each: Vec<f64>) -> Result<Self> {
        let wrong = |value: String, remedy: String| RegisterError::Option {
            option: "landmark weights",
            value,
            remedy,
        };
        if each.len() != self.len() {
            let remedy = format!("give one for each of the {} landmarks", self.len());
            return Err(wrong(format!("a list of {}", each.len()), remedy));
        }
        if let Some(w) = each.iter().find(|w| !(**w >= 0.0 && w.is_finite())) {
            return Err(wrong(w.to_string(), "give numbers of 0 or more".to_owned()));
        }
        if each.iter().all(|w| *w == 0.0) {
            return Err(wrong("0 for all of them".to_owned(), "give one above 0".to_owned()));
        }
        self.each = each;
        Ok(self)
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fixed.len()
    }

    /// Never: there is one pair at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fixed.is_empty()
    }

    /// The points of the fixed and of the moving world, mm.
    #[must_use]
    pub fn points(&self) -> [&[Vector3<f64>]; 2] {
        [&self.fixed, &self.moving]
    }

    /// What a pair counts.
    #[must_use]
    pub fn weight(&self, index: usize) -> f64 {
        self.each.get(index).copied().unwrap_or(1.0)
    }

    /// The same pairs at other places, such as those of a plane.
    #[must_use]
    pub fn placed(mut self, place: [&dyn Fn(Vector3<f64>) -> Vector3<f64>; 2]) -> Self {
        self.fixed.iter_mut().for_each(|p| *p = place[0](*p));
        self.moving.iter_mut().for_each(|p| *p = place[1](*p));
        self
    }
}

fn no_points(why: String) -> RegisterError {
    CompareError::Points { why }.into()
}

/// A family of maps, from few to many degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapKind {
    /// Translations.
    Translation,
    /// A line is laid on a line by the smallest turn: what points in a line determine.
    Line,
    /// Rotations and translations: 6 degrees of freedom, in the plane 3.
    Rigid,
    /// And one scale: 7, in the plane 4.
    Similarity,
    /// And one scale for each axis of the world: 9.
    Scales,
    /// All affine maps: 12, in the plane 6.
    Affine,
}

impl MapKind {
    /// In words, such as `a rigid map`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Translation => "a translation",
            Self::Line => "a translation and the smallest turn of a line onto a line",
            Self::Rigid => "a rigid map",
            Self::Similarity => "a rigid map with one scale",
            Self::Scales => "a rigid map with three scales",
            Self::Affine => "an affine map",
        }
    }
}

/// A plane, as a frame whose third axis is its normal, and a point in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plane {
    /// Orthonormal axes as columns.
    pub frame: Matrix3<f64>,
    /// A point of the plane, world mm.
    pub origin: Vector3<f64>,
}

/// A map that was fitted to pairs of points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointFit {
    /// Fixed world to moving world, mm; it never mirrors.
    pub map: Affine,
    /// The family it is of: the one that was asked for, or the largest one within it that the points determine.
    pub kind: MapKind,
    /// Whether a reflection would leave less than half of the distance: left and right may be exchanged in one
    /// of the lists, or the pairs in disorder. Then no more than a similarity is fitted.
    pub mirrored: bool,
    /// The distance that is left: root of the weighted mean of squares, mm.
    pub rms: f64,
    /// The spread of the moving points about their centre, likewise.
    pub spread: f64,
}

/// The distance that a fit leaves, as a part of the spread of points, from which on they hardly belong together.
const DISORDER: f64 = 0.4;

impl PointFit {
    /// What speaks against that the points belong together, if something does.
    #[must_use]
    pub fn doubts(&self) -> Option<String> {
        if self.mirrored {
            return Some(
                "the landmarks of one image are more like the mirror image of those of the other: check that left and \
                 right are not exchanged and that both lists have the same order"
                    .to_owned(),
            );
        }
        (self.rms > DISORDER * self.spread).then(|| {
            format!(
                "laid on each other, the landmarks are {:.1} mm apart (root mean square), which is much for points \
                 that spread over {:.1} mm: check that both lists have the same order",
                self.rms, self.spread
            )
        })
    }
}

/// The extent across, as a part of that along, below which points count as being in one line or plane: with
/// points that are 1 mm off and 50 mm apart, a turn or a scale across would be nothing but their errors.
const FLAT: f64 = 0.05;
/// How far an affine map is drawn to the similarity, as a part of the largest spread squared: it says what
/// points in a thin slab do not, and moves others by less than a thousandth of a voxel.
const RIDGE: f64 = 1e-5;
/// Rounds of the alternation between rotation and three scales.
const ROUNDS: usize = 200;

/// The map of a family that lays the fixed points on the moving ones with the least weighted sum of squared
/// distances; of images of two dimensions within their `planes`, that of the fixed and of the moving slice.
///
/// Points that do not determine a map of the family (in one plane for scales and shears, in one line for
/// rotations, in one place) give one of the largest family that they do determine, which is
/// [said](PointFit::kind).
///
/// # Errors
/// [`Points`](CompareError::Points) where fewer than 3 pairs (in the plane 2) have a weight above 0.
///
/// ```
/// use voxalign_image::{PointSet, Vector3};
/// use voxalign_register::fit::{MapKind, PointPairs, fit_points};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let corner = [[0.0, 0.0, 0.0], [50.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 30.0]];
/// let fixed = PointSet::new(corner.map(Vector3::from).to_vec());
/// // A quarter turn about z.
/// let moving = fixed.map(|p| Vector3::new(-p[1], p[0], p[2] + 5.0));
/// let found = fit_points(&PointPairs::new(&fixed, &moving)?, MapKind::Rigid, None)?;
/// assert!((found.map.apply(Vector3::x()) - Vector3::new(0.0, 1.0, 5.0)).norm() < 1e-9);
/// assert!(found.rms < 1e-9 && !found.mirrored);
/// # Ok(())
/// # }
/// ```
pub fn fit_points(
    pairs: &PointPairs,
    asked: MapKind,
    planes: Option<[Plane; 2]>,
) -> Result<PointFit> {
    let used: Vec<usize> = (0..pairs.len()).filter(|&i| pairs.weight(i) > 0.0).collect();
    let least = if planes.is_some() { 2 } else { 3 };
    if used.len() < least {
        let (n, of) = (used.len(), if planes.is_some() { "2D" } else { "3D" });
        let pairs = if n == 1 { "1 pair" } else { &format!("{n} pairs") };
        return Err(no_points(format!(
            "{pairs} of landmarks; a map of {of} images takes {least} at least"
        )));
    }
    let total: f64 = used.iter().map(|&i| pairs.weight(i)).sum();
    let sets = pairs.points();
    // Places in the frames, whose third axis counts in space only.
    let local = |side: usize, p: Vector3<f64>| match planes {
        Some(planes) => {
            let q = planes[side].frame.transpose() * (p - planes[side].origin);
            Vector3::new(q[0], q[1], 0.0)
        }
        None => p,
    };
    let mean = |side: usize| {
        let sum: Vector3<f64> =
            used.iter().map(|&i| pairs.weight(i) * local(side, sets[side][i])).sum();
        sum / total
    };
    let centres = [mean(0), mean(1)];
    let mut m =
        Moments { fixed: Matrix3::zeros(), moving: Matrix3::zeros(), both: Matrix3::zeros() };
    for &i in &used {
        let weight = pairs.weight(i) / total;
        let [x, y] = [0, 1].map(|side| local(side, sets[side][i]) - centres[side]);
        m.fixed += weight * x * x.transpose();
        m.moving += weight * y * y.transpose();
        m.both += weight * y * x.transpose();
    }
    let flat = planes.is_some();
    let determined = match (m.extents(), flat) {
        (0, _) => MapKind::Translation,
        (1, false) => MapKind::Line,
        (2, false) | (1, true) => MapKind::Similarity,
        _ => MapKind::Affine,
    };
    let mut kind = asked.min(determined);
    let mirrored = match flat {
        true => m.mirrored_in_plane(),
        false => m.mirrored(),
    };
    if mirrored {
        kind = kind.min(MapKind::Similarity);
    }
    let mut linear = m.linear(kind, flat);
    if linear.determinant() <= 0.0 {
        kind = kind.min(MapKind::Similarity);
        linear = m.linear(kind, flat);
    }
    let map = match planes {
        None => Affine::new(linear, centres[1] - linear * centres[0]),
        Some([fixed, moving]) => {
            let linear = moving.frame * linear * fixed.frame.transpose();
            let at = |plane: Plane, centre| plane.origin + plane.frame * centre;
            Affine::new(linear, at(moving, centres[1]) - linear * at(fixed, centres[0]))
        }
    };
    let left = used.iter().map(|&i| {
        let apart = local(1, map.apply(sets[0][i])) - local(1, sets[1][i]);
        pairs.weight(i) / total * apart.norm_squared()
    });
    let rms = left.sum::<f64>().sqrt();
    Ok(PointFit { map, kind, mirrored, rms, spread: m.moving.trace().max(0.0).sqrt() })
}

/// Weighted second moments of points about their centres, mm².
struct Moments {
    /// `Σ w x x'`.
    fixed: Matrix3<f64>,
    /// `Σ w y y'`.
    moving: Matrix3<f64>,
    /// `Σ w y x'`.
    both: Matrix3<f64>,
}

/// The singular value decomposition `U S V'`, with falling singular values.
fn decomposed(matrix: Matrix3<f64>) -> Option<(Matrix3<f64>, Vector3<f64>, Matrix3<f64>)> {
    let svd = matrix.svd(true, true);
    Some((svd.u?, svd.singular_values, svd.v_t?))
}

/// The rotation `R` with the largest `trace(R' M)`, and that trace.
fn rotation(matrix: Matrix3<f64>) -> (Matrix3<f64>, f64) {
    let Some((u, s, v_t)) = decomposed(matrix) else { return (Matrix3::identity(), 0.0) };
    let sign = if (u * v_t).determinant() < 0.0 { -1.0 } else { 1.0 };
    let signs = Matrix3::from_diagonal(&Vector3::new(1.0, 1.0, sign));
    (u * signs * v_t, s[0] + s[1] + sign * s[2])
}

impl Moments {
    /// Along how many axes both sets have an extent.
    fn extents(&self) -> usize {
        let of = |moments: Matrix3<f64>| {
            let mut spreads = moments.symmetric_eigenvalues().map(|v| v.max(0.0).sqrt());
            spreads.as_mut_slice().sort_by(|a, b| b.total_cmp(a));
            match spreads[0] > 1e-6 {
                true => spreads.iter().filter(|s| **s > FLAT * spreads[0]).count(),
                false => 0,
            }
        };
        of(self.fixed).min(of(self.moving))
    }

    /// Whether a reflection with a scale leaves less than half of the distance that a rotation with one leaves.
    fn halves(&self, turned: f64, reflected: f64) -> bool {
        let left = |trace: f64| self.moving.trace() - trace * trace / self.fixed.trace().max(1e-12);
        reflected > turned && left(reflected) < 0.25 * left(turned)
    }

    fn mirrored(&self) -> bool {
        let Some((u, s, v_t)) = decomposed(self.both) else { return false };
        let extent = self.extents() == 3;
        extent && (u * v_t).determinant() < 0.0 && self.halves(s[0] + s[1] - s[2], s.sum())
    }

    fn mirrored_in_plane(&self) -> bool {
        let h = &self.both;
        let turned = (h[(0, 0)] + h[(1, 1)]).hypot(h[(1, 0)] - h[(0, 1)]);
        let reflected = (h[(0, 0)] - h[(1, 1)]).hypot(h[(1, 0)] + h[(0, 1)]);
        self.extents() == 2 && self.halves(turned, reflected)
    }

    /// The rotation about the centres, and the scale that goes with it.
    fn turned(&self, flat: bool) -> (Matrix3<f64>, f64) {
        let h = &self.both;
        let (turn, trace) = match flat {
            true => {
                let (cos, sin) = (h[(0, 0)] + h[(1, 1)], h[(1, 0)] - h[(0, 1)]);
                let size = cos.hypot(sin);
                let (c, s) = if size > 0.0 { (cos / size, sin / size) } else { (1.0, 0.0) };
                (Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0), size)
            }
            false => rotation(*h),
        };
        let scale = trace / self.fixed.trace().max(1e-12);
        (turn, if scale > 0.0 { scale } else { 1.0 })
    }

    /// The linear part of the best map of a family.
    fn linear(&self, kind: MapKind, flat: bool) -> Matrix3<f64> {
        let (turn, scale) = self.turned(flat);
        // Within a plane nothing happens across it.
        let across = if flat { 1.0 } else { scale };
        let similarity = turn * Matrix3::from_diagonal(&Vector3::new(scale, scale, across));
        match kind {
            MapKind::Translation => Matrix3::identity(),
            MapKind::Line => self.line(),
            MapKind::Rigid => turn,
            MapKind::Similarity => similarity,
            MapKind::Scales if !flat => self.scaled(turn, scale),
            MapKind::Scales | MapKind::Affine => {
                let ridge = RIDGE * self.fixed.trace();
                let (mut fixed, mut both) = (self.fixed, self.both);
                if flat {
                    (fixed[(2, 2)], both[(2, 2)]) = (1.0, 1.0);
                }
                let fixed = fixed + ridge * Matrix3::identity();
                let both = both + ridge * similarity;
                fixed.try_inverse().map_or(similarity, |inverse| both * inverse)
            }
        }
    }

    /// The smallest turn of the line of the fixed points onto that of the moving ones.
    fn line(&self) -> Matrix3<f64> {
        let Some((u, _, v_t)) = decomposed(self.both) else { return Matrix3::identity() };
        let (from, to) = (v_t.row(0).transpose(), u.column(0).into_owned());
        let opposite = || {
            // Half a turn about any axis across.
            let across = from.cross(&Vector3::ith(from.iamin(), 1.0)).normalize();
            2.0 * across * across.transpose() - Matrix3::identity()
        };
        nalgebra::Rotation3::rotation_between(&from, &to).map_or_else(opposite, |r| *r.matrix())
    }

    /// Rotation and three scales, each the best for the other in turn.
    fn scaled(&self, mut turn: Matrix3<f64>, scale: f64) -> Matrix3<f64> {
        let mut scales = Vector3::repeat(scale);
        for _ in 0..ROUNDS {
            let along = turn.transpose() * self.both;
            scales = Vector3::from_fn(|a, _| {
                (along[(a, a)] / self.fixed[(a, a)].max(1e-12)).max(0.05 * scale)
            });
            turn = rotation(self.both * Matrix3::from_diagonal(&scales)).0;
        }
        turn * Matrix3::from_diagonal(&scales)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use voxalign_image::{AffineParameters, Grid};

    fn cloud(random: &mut Random, count: usize, extent: [f64; 3]) -> PointSet {
        let mut point = || Vector3::from_fn(|a, _| extent[a] * (2.0 * random.uniform() - 1.0));
        PointSet::new((0..count).map(|_| point()).collect())
    }

    /// A map of a family, with turns by any angle.
    fn known(random: &mut Random, kind: MapKind) -> Affine {
        let mut sign = || 2.0 * random.uniform() - 1.0;
        let (turn, shift) = (3.1 * sign(), 80.0 * sign());
        let scales = Vector3::from_fn(|_, _| 1.0 + 0.2 * sign());
        let shears = Vector3::from_fn(|_, _| 0.1 * sign());
        let parts = AffineParameters {
            translation: Vector3::new(shift, -40.0, 12.0),
            rotation: Vector3::new(turn, 0.9 * sign(), 3.0 * sign()),
            ..AffineParameters::identity(Vector3::new(5.0, -9.0, 20.0))
        };
        match kind {
            MapKind::Rigid => parts,
            MapKind::Similarity => AffineParameters { scale: Vector3::repeat(scales[0]), ..parts },
            MapKind::Scales => AffineParameters { scale: scales, ..parts },
            _ => AffineParameters { scale: scales, shear: shears, ..parts },
        }
        .to_affine()
    }

    fn pairs(fixed: &PointSet, map: &Affine) -> PointPairs {
        PointPairs::new(fixed, &fixed.map(|p| map.apply(*p))).unwrap()
    }

    /// The corners of a head.
    fn corners() -> [Vector3<f64>; 8] {
        let grid = Grid::axis_aligned([46, 55, 46], [4.0; 3]).unwrap();
        grid.moved(&Affine::translation(-grid.centre())).unwrap().corners()
    }

    #[test]
    fn known_maps_are_found_again() {
        let mut random = Random::new(4);
        let kinds = [
            (MapKind::Rigid, 3),
            (MapKind::Similarity, 3),
            (MapKind::Scales, 4),
            (MapKind::Affine, 4),
        ];
        for (kind, least) in kinds {
            for trial in 0..60 {
                let fixed = cloud(&mut random, least + trial % 9, [70.0, 90.0, 60.0]);
                let map = known(&mut random, kind);
                let found = fit_points(&pairs(&fixed, &map), kind, None).unwrap();
                if found.kind < kind {
                    // By chance nearly in one plane.
                    assert!(trial % 9 < 2, "{found:?}");
                    continue;
                }
                let error = found.map.largest_distance(&map, &corners());
                assert!(error < 0.1 && found.rms < 0.01 && !found.mirrored, "{kind:?} {error}");
            }
        }
    }

    #[test]
    fn errors_of_points_average_out_and_weights_count() {
        let mut random = Random::new(9);
        let fixed = cloud(&mut random, 200, [70.0, 90.0, 60.0]);
        for kind in [MapKind::Rigid, MapKind::Similarity, MapKind::Scales, MapKind::Affine] {
            let map = known(&mut random, kind);
            let mut off = || Vector3::from_fn(|_, _| random.normal());
            let moving = fixed.map(|p| map.apply(*p) + off());
            let clean = PointPairs::new(&fixed, &moving).unwrap();
            let found = fit_points(&clean, kind, None).unwrap();
            let error = found.map.largest_distance(&map, &corners());
            assert!(error < 1.2 && (found.rms - 3f64.sqrt()).abs() < 0.2, "{kind:?} {error}");
            // Every second pair is wrong, and counts for nothing.
            let (mut wrong, mut weights) = (moving.points().to_vec(), vec![2.0; 200]);
            for i in (0..200).step_by(2) {
                (wrong[i], weights[i]) = (Vector3::new(999.0, 0.0, 0.0), 0.0);
            }
            let wrong = PointPairs::new(&fixed, &PointSet::new(wrong)).unwrap();
            let found = fit_points(&wrong.with_weights(weights).unwrap(), kind, None).unwrap();
            let error = found.map.largest_distance(&map, &corners());
            assert!(error < 1.6, "{kind:?} {error}");
        }
    }

    #[test]
    fn what_points_do_not_determine_is_left_out() {
        let mut random = Random::new(2);
        let map = known(&mut random, MapKind::Rigid);
        for (extent, expected) in [
            ([70.0, 90.0, 1.0], MapKind::Similarity),
            ([70.0, 0.0, 0.0], MapKind::Line),
            ([0.0; 3], MapKind::Translation),
        ] {
            let turn = known(&mut random, MapKind::Rigid);
            let fixed = cloud(&mut random, 12, extent).map(|p| turn.apply(*p));
            let given = pairs(&fixed, &map);
            for asked in [MapKind::Rigid, MapKind::Affine] {
                let found = fit_points(&given, asked, None).unwrap();
                assert_eq!(found.kind, asked.min(expected), "{extent:?}");
                let lies = (found.map.matrix.determinant() - 1.0).abs() < 1e-6;
                assert!(found.rms < 1e-6 && lies && !found.mirrored, "{found:?}");
            }
        }
        // A line that is turned round.
        let line = PointSet::new((0..4).map(|i| Vector3::new(f64::from(i), 0.0, 0.0)).collect());
        let back = PointPairs::new(&line, &line.map(|p| -p)).unwrap();
        let found = fit_points(&back, MapKind::Rigid, None).unwrap();
        assert!(found.rms < 1e-9 && found.map.matrix.determinant() > 0.99, "{found:?}");
    }

    #[test]
    fn mirror_images_are_seen_and_not_fitted() {
        let mut random = Random::new(5);
        let fixed = cloud(&mut random, 8, [70.0, 90.0, 60.0]);
        let mut off = || random.normal();
        let moving = fixed.map(|p| Vector3::new(-p[0] + off(), p[1] + off(), p[2] + off()));
        let given = PointPairs::new(&fixed, &moving).unwrap();
        for (asked, expected) in
            [(MapKind::Rigid, MapKind::Rigid), (MapKind::Affine, MapKind::Similarity)]
        {
            let found = fit_points(&given, asked, None).unwrap();
            assert!(found.mirrored && found.map.determinant() > 0.0, "{found:?}");
            assert_eq!(found.kind, expected);
        }
        let plane = Plane { frame: Matrix3::identity(), origin: Vector3::zeros() };
        let flat = given.placed([&|p| Vector3::new(p[0], p[1], 0.0); 2]);
        assert!(fit_points(&flat, MapKind::Affine, Some([plane; 2])).unwrap().mirrored);
    }

    #[test]
    fn in_a_plane() {
        let mut random = Random::new(6);
        // Slices that stand in space, each with its own frame.
        let frames = [0.3, -1.1].map(|a| {
            let turn = known(&mut random, MapKind::Rigid).matrix;
            Plane { frame: turn, origin: Vector3::new(a * 50.0, 3.0, -8.0) }
        });
        for (kind, least) in [(MapKind::Rigid, 2), (MapKind::Similarity, 2), (MapKind::Affine, 3)] {
            for count in least..9 {
                let (angle, size) =
                    (3.0 * (2.0 * random.uniform() - 1.0), 1.0 + 0.3 * random.uniform());
                let (c, s) = (angle.cos(), angle.sin());
                let inner = match kind {
                    MapKind::Rigid => Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0),
                    MapKind::Similarity => Matrix3::new(
                        size * c,
                        -size * s,
                        0.0,
                        size * s,
                        size * c,
                        0.0,
                        0.0,
                        0.0,
                        1.0,
                    ),
                    _ => Matrix3::new(c, -0.8 * s, 0.0, s, size * c, 0.0, 0.0, 0.0, 1.0),
                };
                let places = cloud(&mut random, count, [80.0, 60.0, 0.0]);
                let on = |plane: Plane, p: Vector3<f64>| plane.origin + plane.frame * p;
                let fixed = places.map(|p| on(frames[0], *p));
                let to = |p: Vector3<f64>| on(frames[1], inner * p + Vector3::new(9.0, -4.0, 0.0));
                let moving = places.map(|p| to(*p));
                let given = PointPairs::new(&fixed, &moving).unwrap();
                let found = fit_points(&given, kind, Some(frames)).unwrap();
                if found.kind < kind {
                    assert_eq!(count, least, "{found:?}");
                    continue;
                }
                let at = Vector3::new(70.0, -60.0, 0.0);
                let error = (found.map.apply(on(frames[0], at)) - to(at)).norm();
                assert!(error < 0.05 && found.rms < 0.01, "{kind:?} {count} {error}");
            }
        }
    }

    #[test]
    fn what_is_no_pair_is_refused() {
        let [none, one, two] = [0, 1, 2].map(|n| PointSet::new(vec![Vector3::zeros(); n]));
        let nan = PointSet::new(vec![Vector3::new(0.0, f64::NAN, 0.0); 2]);
        let said = |r: Result<PointPairs>| r.unwrap_err().to_string();
        assert!(said(PointPairs::new(&one, &two)).contains('2'));
        assert!(said(PointPairs::new(&two, &nan)).contains("landmark 1"));
        assert!(said(PointPairs::new(&none, &none)).contains("no landmarks"));
        let good = PointPairs::new(&two, &two).unwrap();
        assert!(said(good.clone().with_weights(vec![1.0])).contains("each of the 2"));
        assert!(said(good.clone().with_weights(vec![1.0, -1.0])).contains("-1"));
        assert!(said(good.clone().with_weights(vec![0.0; 2])).contains("above 0"));
        let few = fit_points(&good, MapKind::Rigid, None).unwrap_err().to_string();
        assert!(few.contains("2 pairs of landmarks") && few.contains("takes 3 at least"), "{few}");
    }
}
