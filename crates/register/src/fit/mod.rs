//! Least-squares maps between corresponding points.
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

    /// The same with weights of the pairs, 0 or more: their relative reliability. A pair of weight 0 is measured
    /// only.
    ///
    /// # Errors
    /// [`Option`](RegisterError::Option) where there are not as many as pairs, one is negative or not finite, or
    /// none is above 0.
    pub fn with_weights(mut self, each: Vec<f64>) -> Result<Self> {
        let wrong = |value: String, remedy: String| {
            RegisterError::option("landmark weights", value, remedy)
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

    /// The weight of a pair.
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
            Self::Line => "a translation and the smallest rotation of one line onto the other",
            Self::Rigid => "a rigid map",
            Self::Similarity => "a similarity map",
            Self::Scales => "a rigid map with three scale factors",
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

/// The residual of a fit, as a fraction of the spread of points, from which on they hardly belong together.
const DISORDER: f64 = 0.4;

impl PointFit {
    /// Reasons to doubt that the points belong together, if there are any.
    #[must_use]
    pub fn doubts(&self) -> Option<String> {
        if self.mirrored {
            return Some(
                "the landmarks of one image fit a mirror image of those of the other better: check that left \
                 and right are not swapped and that both lists are in the same order"
                    .to_owned(),
            );
        }
        (self.rms > DISORDER * self.spread).then(|| {
            format!(
                "after the fit the landmarks are {:.1} mm apart (root mean square), which is a lot for points \
                 that spread over {:.1} mm: check that both lists are in the same order",
                self.rms, self.spread
            )
        })
    }
}

/// The extent across, as a part of that along, below which points count as being in one line or plane: with
/// points that are 1 mm off and 50 mm apart, a turn or a scale across would be nothing but their errors.
const FLAT: f64 = 0.05;
/// The strength of the prior that draws an affine map to the similarity, as a fraction of the largest spread
/// squared: it determines what points in a thin slab do not, and moves others by less than a thousandth of a voxel.
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
            "{pairs} of landmarks; a map of {of} images needs at least {least}"
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
    /// The number of axes along which both sets have an extent.
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
mod tests;
