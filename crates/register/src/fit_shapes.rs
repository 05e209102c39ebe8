//! Affine maps between shapes without correspondence.
//!
//! The nearest places of both shapes take the part of corresponding points, in turn with the least-squares map between
//! these (P. J. Besl, N. D. McKay, *A method for registration of 3-D shapes*, IEEE Transactions on Pattern Analysis and
//! Machine Intelligence 14(2), 1992), here in both directions: rigid maps first, from several starts, then those of the
//! family that is asked for.

use crate::compare::meshes::{Elements, Tree};
use crate::error::Result;
use crate::fit::{MapKind, PointPairs, fit_points};
use rayon::prelude::*;
use voxalign_image::{Affine, Matrix3, Mesh, PointSet, Vector3, memory};

/// Places of each shape that are looked at: from every start, and from the best one.
const PLACES: [usize; 2] = [300, 2000];
/// Rounds of nearest places and least squares at most: rigid ones from every start, and others from the best one.
const ROUNDS: [usize; 2] = [40, 80];
/// A map has settled where it moves places by less than this part of their distance.
const SETTLED: f64 = 1e-3;

/// Where the search begins.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ShapeStart {
    /// With centres, those of shapes of one name, and principal axes laid on each other, and with coordinates as they are.
    #[default]
    Moments,
    /// With this map alone.
    Given(Affine),
}

/// A map that was fitted to shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShapeFit {
    /// Fixed world to moving world, mm; it never mirrors.
    pub map: Affine,
    /// The root mean square distance of nearest places that is left, mm, in the moving world.
    pub rms: f64,
}

/// The map of a family that lays each fixed shape on the moving one of the same index, and corresponding points on each other.
///
/// # Errors
/// No shapes and no points; a shape without elements; fewer than three places in all.
pub fn fit_shapes(
    shapes: &[[&Mesh; 2]],
    points: Option<&PointPairs>,
    kind: MapKind,
    start: &ShapeStart,
) -> Result<ShapeFit> {
    let mut elements = Vec::with_capacity(shapes.len());
    for [fixed, moving] in shapes {
        elements.push([Elements::of(fixed)?, Elements::of(moving)?]);
    }
    let mut trees = Vec::with_capacity(shapes.len());
    for [fixed, moving] in &elements {
        trees.push([Tree::new(&fixed.corners)?, Tree::new(&moving.corners)?]);
    }
    let search = Search { elements: &elements, trees: &trees, points };
    let starts = match start {
        ShapeStart::Given(map) => vec![*map],
        ShapeStart::Moments => search.starts()?,
    };
    let mut best: Option<ShapeFit> = None;
    for start in starts {
        let found = search.settle(start, MapKind::Rigid, PLACES[0], ROUNDS[0])?;
        if best.is_none_or(|best| found.rms < best.rms) {
            best = Some(found);
        }
    }
    let from = best.map_or_else(Affine::identity, |best| best.map);
    let rigid = search.settle(from, MapKind::Rigid, PLACES[1], ROUNDS[0])?;
    if kind <= MapKind::Rigid {
        return Ok(rigid);
    }
    let found = search.settle(rigid.map, kind, PLACES[1], ROUNDS[1])?;
    Ok(if found.rms <= rigid.rms { found } else { rigid })
}

struct Search<'a> {
    elements: &'a [[Elements; 2]],
    trees: &'a [[Tree<'a>; 2]],
    points: Option<&'a PointPairs>,
}

/// The centre and the covariance of places by what they count.
fn moments(places: &[(Vector3<f64>, f64)]) -> (Vector3<f64>, Matrix3<f64>, f64) {
    let total: f64 = places.iter().map(|p| p.1).sum();
    let centre = places.iter().map(|p| p.1 * p.0).sum::<Vector3<f64>>() / total;
    let spread = |p: &(Vector3<f64>, f64)| p.1 * (p.0 - centre) * (p.0 - centre).transpose();
    (centre, places.iter().map(spread).sum::<Matrix3<f64>>() / total, total)
}

/// Axes of a covariance, from the longest to the shortest, right-handed.
fn axes(covariance: Matrix3<f64>) -> Matrix3<f64> {
    let found = covariance.symmetric_eigen();
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| found.eigenvalues[b].total_cmp(&found.eigenvalues[a]));
    let [x, y] = [order[0], order[1]].map(|i| found.eigenvectors.column(i).into_owned());
    Matrix3::from_columns(&[x, y, x.cross(&y)])
}

impl Search<'_> {
    /// All places of a side, each shape with as much as every other one.
    fn all(&self, side: usize) -> Vec<(Vector3<f64>, f64)> {
        let mut all = Vec::new();
        for pair in self.elements {
            let places = &pair[side].places;
            let total: f64 = places.iter().map(|p| p.1).sum();
            all.extend(places.iter().map(|p| (p.0, p.1 / total)));
        }
        if let Some(points) = self.points {
            let of = points.points()[side];
            let each = 1.0 / of.len().max(1) as f64;
            all.extend(of.iter().map(|p| (*p, each)));
        }
        all
    }

    /// Rigid maps from which a search begins.
    fn starts(&self) -> Result<Vec<Affine>> {
        let [fixed, moving] = [self.all(0), self.all(1)].map(|all| moments(&all));
        let mut starts = vec![Affine::identity(), Affine::translation(moving.0 - fixed.0)];
        // Centres of shapes of one name, and corresponding points, belong together.
        let centres = |side: usize| {
            let of = |pair: &[Elements; 2]| moments(&pair[side].places).0;
            let mut all: Vec<_> = self.elements.iter().map(of).collect();
            all.extend(self.points.iter().flat_map(|p| p.points()[side]));
            PointSet::new(all)
        };
        let [one, other] = [centres(0), centres(1)];
        if one.len() >= 3 {
            let pairs = PointPairs::new(&one, &other)?;
            starts.push(fit_points(&pairs, MapKind::Rigid, None)?.map);
        }
        let [from, to] = [axes(fixed.1), axes(moving.1)];
        for signs in [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]] {
            let turned =
                Matrix3::from_diagonal(&Vector3::new(signs[0], signs[1], signs[0] * signs[1]));
            let turn = to * turned * from.transpose();
            starts.push(Affine::about(turn, fixed.0, moving.0 - fixed.0));
        }
        Ok(starts)
    }

    /// Nearest places and least squares in turn.
    fn settle(
        &self,
        start: Affine,
        kind: MapKind,
        places: usize,
        rounds: usize,
    ) -> Result<ShapeFit> {
        let mut at = self.measured(start, places)?.0;
        for _ in 0..rounds {
            let (_, pairs) = self.measured(at.map, places)?;
            let found = fit_points(&pairs, kind, None)?.map;
            if found.determinant().partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
                break;
            }
            let next = self.measured(found, places)?.0;
            let gain = at.rms - next.rms;
            if next.rms < at.rms {
                at = next;
            }
            if gain < SETTLED * at.rms {
                break;
            }
        }
        Ok(at)
    }

    /// The distance under a map, and the pairs of nearest places.
    fn measured(&self, map: Affine, places: usize) -> Result<(ShapeFit, PointPairs)> {
        let back = map.inverse()?;
        let [mut ours, mut theirs] = [Vec::new(), Vec::new()];
        let mut each: Vec<f64> = Vec::new();
        for (pair, trees) in self.elements.iter().zip(self.trees) {
            for side in 0..2 {
                let all = &pair[side].places;
                let step = all.len().div_ceil(places);
                let total: f64 = all.iter().step_by(step).map(|p| p.1).sum();
                let some: Vec<_> = all.iter().step_by(step).copied().collect();
                let nearest = |(p, weight): &(Vector3<f64>, f64)| {
                    let [q, pair] = match side {
                        0 => {
                            let q = trees[1].nearest(&map.apply(*p))?;
                            [q, *p]
                        }
                        _ => [*p, trees[0].nearest(&back.apply(*p))?],
                    };
                    Some((pair, q, weight / total))
                };
                let found: Vec<_> = memory::par_collected(some.par_iter().map(nearest))?;
                for (p, q, weight) in found.into_iter().flatten() {
                    ours.push(p);
                    theirs.push(q);
                    each.push(weight);
                }
            }
        }
        if let Some(points) = self.points {
            let [a, b] = points.points();
            let total: f64 = (0..points.len()).map(|i| points.weight(i)).sum();
            for (i, (p, q)) in a.iter().zip(b).enumerate() {
                ours.push(*p);
                theirs.push(*q);
                // As much as both sides of a shape.
                each.push(2.0 * points.weight(i) / total);
            }
        }
        let sum: f64 = each.iter().sum();
        let off = ours.iter().zip(&theirs).zip(&each);
        let squares: f64 = off.map(|((p, q), w)| w * (map.apply(*p) - q).norm_squared()).sum();
        let rms = (squares / sum).sqrt();
        let pairs = PointPairs::new(&PointSet::new(ours), &PointSet::new(theirs))?;
        Ok((ShapeFit { map, rms }, pairs.with_weights(each)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::AffineParameters;

    /// A bent ellipsoid with this many rings, as points.
    fn shape(rings: usize, at: Vector3<f64>) -> Mesh {
        use std::f64::consts::{PI, TAU};
        let place = |i: usize, j: usize| {
            let (t, p) = (PI * i as f64 / rings as f64, TAU * j as f64 / (2 * rings) as f64);
            let d = Vector3::new(20.0 * t.sin() * p.cos(), 9.0 * t.sin() * p.sin(), 13.0 * t.cos());
            at + d + Vector3::new(0.0, 0.02 * d[0] * d[0], 0.01 * d[1] * d[2])
        };
        let vertices: Vec<_> =
            (0..=rings).flat_map(|i| (0..2 * rings).map(move |j| place(i, j))).collect();
        let index = |i: usize, j: usize| (i * 2 * rings + j % (2 * rings)) as u32;
        let faces = (0..rings).flat_map(|i| (0..2 * rings).map(move |j| (i, j)));
        let faces = faces.flat_map(|(i, j)| {
            let [a, b, c, d] = [index(i, j), index(i + 1, j), index(i + 1, j + 1), index(i, j + 1)];
            [[a, b, c], [a, c, d]]
        });
        Mesh::new(vertices, faces.collect()).unwrap()
    }

    #[test]
    fn known_maps_are_found_whatever_the_turn() {
        let places = [Vector3::new(-30.0, 5.0, 0.0), Vector3::new(28.0, -10.0, 12.0)];
        for turn in [[0.1, -0.2, 0.15], [0.0, 0.0, 2.6], [1.9, 0.4, -1.2]] {
            let truth = AffineParameters {
                rotation: Vector3::from(turn),
                translation: Vector3::new(120.0, -60.0, 35.0),
                scale: Vector3::new(1.08, 0.95, 1.02),
                ..AffineParameters::identity(Vector3::zeros())
            };
            let truth = truth.to_affine();
            let fixed = places.map(|at| shape(16, at));
            let moving = places.map(|at| shape(14, at).map(|p| truth.apply(*p)).unwrap());
            let pairs: Vec<_> = fixed.iter().zip(&moving).map(|(f, m)| [f, m]).collect();
            let found = fit_shapes(&pairs, None, MapKind::Affine, &ShapeStart::Moments).unwrap();
            let off = fixed.iter().flat_map(Mesh::vertices);
            let off = off.map(|p| (found.map.apply(*p) - truth.apply(*p)).norm());
            let off = off.fold(0.0, f64::max);
            println!("{turn:?}: {off:.3} mm at most, {:.3} mm left", found.rms);
            assert!(off < 1.5 && found.rms < 0.4, "{off} {}", found.rms);
        }
    }

    #[test]
    fn names_say_what_belongs_together() {
        // Two alike, of which each is laid on the one of its index, and points that are the only sign of a turn.
        let [a, b] = [Vector3::new(-40.0, 0.0, 0.0), Vector3::new(40.0, 0.0, 0.0)];
        let fixed = [shape(10, a), shape(10, b)];
        let pairs = [[&fixed[0], &fixed[0]], [&fixed[1], &fixed[1]]];
        let found = fit_shapes(&pairs, None, MapKind::Rigid, &ShapeStart::Moments).unwrap();
        assert!(found.rms < 1e-6, "{}", found.rms);
        let exchanged = [[&fixed[0], &fixed[1]], [&fixed[1], &fixed[0]]];
        let start = ShapeStart::Given(Affine::identity());
        let stuck = fit_shapes(&exchanged, None, MapKind::Rigid, &start).unwrap();
        assert!(stuck.rms > 2.0, "{}", stuck.rms);
        assert!(fit_shapes(&[], None, MapKind::Rigid, &ShapeStart::Moments).is_err());
    }
}
