//! Distances between surfaces, between curves, and between points without correspondence.

use super::CompareError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use voxalign_image::{Mesh, Vector3, memory};

/// Distances between two meshes, mm: from every vertex of one to the nearest point of the other, in both
/// directions.
///
/// Vertices count by the area (of curves the length) of the elements around them, so that a mesh that is finer somewhere
/// does not count more there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeshScores {
    /// The mean of both ways.
    pub mean: f64,
    /// The 95th percentile of both ways: so much of either mesh is nearer to the other one.
    pub p95: f64,
    /// The largest distance of both ways, the Hausdorff distance of the vertices.
    pub hausdorff: f64,
    /// The mean from the first to the second mesh.
    pub there: f64,
    /// The mean from the second to the first.
    pub back: f64,
}

/// Compares two meshes by their distances. A mesh with faces is its surface, one with lines and no faces its curves, and one
/// with neither its points.
///
/// # Errors
/// [`CompareError::Points`] where one has no vertex that belongs to anything.
pub fn compare_meshes(a: &Mesh, b: &Mesh) -> Result<MeshScores, CompareError> {
    let [first, second] = [Elements::of(a)?, Elements::of(b)?];
    let there = distances(&first, &second)?;
    let back = distances(&second, &first)?;
    let mean = |list: &[(f64, f64)]| {
        let (sum, weights) = list.iter().fold((0.0, 0.0), |(s, w), d| (s + d.0 * d.1, w + d.1));
        sum / weights
    };
    let p95 = |list: &mut Vec<(f64, f64)>| {
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = list.iter().map(|d| d.1).sum();
        let mut sum = 0.0;
        let found = list.iter().find(|d| {
            sum += d.1;
            sum >= 0.95 * all
        });
        found.or(list.last()).map_or(f64::NAN, |d| d.0)
    };
    let [mut there, mut back] = [there, back];
    let means = [mean(&there), mean(&back)];
    let largest = there.iter().chain(&back).fold(0.0f64, |most, d| most.max(d.0));
    Ok(MeshScores {
        mean: 0.5 * (means[0] + means[1]),
        p95: p95(&mut there).max(p95(&mut back)),
        hausdorff: largest,
        there: means[0],
        back: means[1],
    })
}

/// The elements of a mesh with up to three corners each: triangles, segments or points.
pub(crate) struct Elements {
    pub(crate) corners: Vec<[Vector3<f64>; 3]>,
    /// Places with what they count.
    pub(crate) places: Vec<(Vector3<f64>, f64)>,
}

impl Elements {
    pub(crate) fn of(mesh: &Mesh) -> Result<Self, CompareError> {
        let vertices = mesh.vertices();
        let at = |i: u32| vertices.get(i as usize).copied().unwrap_or_else(Vector3::zeros);
        let mut weights: Vec<f64> = memory::room(vertices.len())?;
        weights.resize(vertices.len(), 0.0);
        let mut corners = Vec::new();
        let mut add = |indices: &[u32], size: f64| {
            for &i in indices {
                if let Some(weight) = weights.get_mut(i as usize) {
                    *weight += size / indices.len() as f64;
                }
            }
        };
        if !mesh.faces().is_empty() {
            for face in mesh.faces() {
                let x = face.map(at);
                add(face, 0.5 * (x[1] - x[0]).cross(&(x[2] - x[0])).norm());
                memory::push(&mut corners, x)?;
            }
        } else if mesh.lines().next().is_some() {
            for line in mesh.lines() {
                for pair in line.windows(2) {
                    let [a, b] = [at(pair[0]), at(pair[1])];
                    add(pair, (b - a).norm());
                    memory::push(&mut corners, [a, b, b])?;
                }
            }
        } else {
            for v in vertices {
                memory::push(&mut corners, [*v; 3])?;
            }
            weights.fill(1.0);
        }
        let counting = vertices.iter().copied().zip(weights).filter(|(_, w)| *w > 0.0);
        let places: Vec<_> = memory::collected(counting)?;
        if places.is_empty() {
            let why = "a mesh has no points, no curves and no faces with an area".to_owned();
            return Err(CompareError::Points { why });
        }
        Ok(Self { corners, places })
    }
}

/// From the places of one to the elements of another: each with what it counts.
fn distances(from: &Elements, to: &Elements) -> Result<Vec<(f64, f64)>, CompareError> {
    let tree = Tree::new(&to.corners)?;
    let each = from.places.par_iter().map(|(place, weight)| (tree.distance(place), *weight));
    Ok(memory::par_collected(each)?)
}

/// The distance of each point from the nearest point of a mesh, mm.
///
/// # Errors
/// [`CompareError::Points`] where the mesh has no vertex that belongs to anything.
pub fn distances_to(points: &[Vector3<f64>], mesh: &Mesh) -> Result<Vec<f64>, CompareError> {
    let elements = Elements::of(mesh)?;
    let tree = Tree::new(&elements.corners)?;
    Ok(memory::par_collected(points.par_iter().map(|place| tree.distance(place)))?)
}

/// The elements of a leaf.
const LEAF: usize = 8;

/// Boxes around boxes around elements.
pub(crate) struct Tree<'a> {
    elements: &'a [[Vector3<f64>; 3]],
    order: Vec<u32>,
    nodes: Vec<Node>,
}

struct Node {
    low: Vector3<f64>,
    high: Vector3<f64>,
    /// Of a leaf its elements, else nothing.
    range: std::ops::Range<usize>,
    /// Where its halves are.
    halves: Option<[usize; 2]>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(elements: &'a [[Vector3<f64>; 3]]) -> Result<Self, CompareError> {
        let order = memory::collected(0..elements.len() as u32)?;
        let mut tree = Self { elements, order, nodes: Vec::new() };
        tree.add(0..elements.len());
        Ok(tree)
    }

    /// Adds a node of elements; its number. Halves have half as many, so that it goes down a few dozen times.
    fn add(&mut self, range: std::ops::Range<usize>) -> usize {
        let (mut low, mut high) =
            (Vector3::repeat(f64::INFINITY), Vector3::repeat(f64::NEG_INFINITY));
        for &i in &self.order[range.clone()] {
            for x in &self.elements[i as usize] {
                (low, high) = (low.inf(x), high.sup(x));
            }
        }
        let number = self.nodes.len();
        self.nodes.push(Node { low, high, range: range.clone(), halves: None });
        if range.len() > LEAF {
            let axis = (high - low).imax();
            let elements = self.elements;
            let centre = |i: u32| elements[i as usize].iter().map(|x| x[axis]).sum::<f64>();
            let middle = range.len() / 2;
            self.order[range.clone()].select_nth_unstable_by(middle, |&a, &b| {
                centre(a).total_cmp(&centre(b)).then(a.cmp(&b))
            });
            let middle = range.start + middle;
            let halves = [self.add(range.start..middle), self.add(middle..range.end)];
            self.nodes[number].halves = Some(halves);
        }
        number
    }

    /// The distance to the nearest element.
    fn distance(&self, p: &Vector3<f64>) -> f64 {
        self.search(p).0.sqrt()
    }

    /// The nearest place of any element; nothing where there is none.
    pub(crate) fn nearest(&self, p: &Vector3<f64>) -> Option<Vector3<f64>> {
        let element = self.elements.get(self.search(p).1? as usize)?;
        Some(on_triangle(p, element))
    }

    /// The squared distance to the nearest element, and its number.
    fn search(&self, p: &Vector3<f64>) -> (f64, Option<u32>) {
        let (mut nearest, mut found) = (f64::INFINITY, None);
        let mut waiting = vec![(0.0, 0usize)];
        while let Some((away, number)) = waiting.pop() {
            if away >= nearest {
                continue;
            }
            let node = &self.nodes[number];
            match node.halves {
                None => {
                    for &i in &self.order[node.range.clone()] {
                        let away = to_triangle(p, &self.elements[i as usize]);
                        if away < nearest {
                            (nearest, found) = (away, Some(i));
                        }
                    }
                }
                Some(halves) => {
                    let mut both = halves.map(|half| (self.nodes[half].away(p), half));
                    // The nearer one is looked at first.
                    both.sort_by(|a, b| b.0.total_cmp(&a.0));
                    waiting.extend(both);
                }
            }
        }
        (nearest, found)
    }
}

impl Node {
    /// The squared distance of its box.
    fn away(&self, p: &Vector3<f64>) -> f64 {
        (self.low - p).sup(&(p - self.high)).sup(&Vector3::zeros()).norm_squared()
    }
}

/// The squared distance to a segment.
fn to_segment(p: &Vector3<f64>, a: &Vector3<f64>, b: &Vector3<f64>) -> f64 {
    let along = b - a;
    let length = along.norm_squared();
    let t = if length > 0.0 { ((p - a).dot(&along) / length).clamp(0.0, 1.0) } else { 0.0 };
    (p - a - t * along).norm_squared()
}

/// The squared distance to a triangle, which may be a segment or a point.
fn to_triangle(p: &Vector3<f64>, [a, b, c]: &[Vector3<f64>; 3]) -> f64 {
    let sides = to_segment(p, a, b).min(to_segment(p, b, c)).min(to_segment(p, c, a));
    let normal = (b - a).cross(&(c - a));
    let size = normal.norm_squared();
    if size <= 0.0 {
        return sides;
    }
    // Whether the point is above the inside.
    let inside = [(a, b), (b, c), (c, a)]
        .iter()
        .all(|(x, y)| (*y - *x).cross(&(p - *x)).dot(&normal) >= 0.0);
    if inside { (p - a).dot(&normal).powi(2) / size } else { sides }
}

/// The nearest place of a segment.
fn on_segment(p: &Vector3<f64>, a: &Vector3<f64>, b: &Vector3<f64>) -> Vector3<f64> {
    let along = b - a;
    let length = along.norm_squared();
    let t = if length > 0.0 { ((p - a).dot(&along) / length).clamp(0.0, 1.0) } else { 0.0 };
    a + t * along
}

/// The nearest place of a triangle, which may be a segment or a point.
fn on_triangle(p: &Vector3<f64>, [a, b, c]: &[Vector3<f64>; 3]) -> Vector3<f64> {
    let normal = (b - a).cross(&(c - a));
    let size = normal.norm_squared();
    let sides = [(a, b), (b, c), (c, a)];
    let above =
        |(x, y): &(&Vector3<f64>, &Vector3<f64>)| (*y - *x).cross(&(p - *x)).dot(&normal) >= 0.0;
    if size > 0.0 && sides.iter().all(above) {
        return p - (p - a).dot(&normal) / size * normal;
    }
    let places = sides.map(|(x, y)| on_segment(p, x, y));
    let away = |q: &Vector3<f64>| (p - q).norm_squared();
    let [mut nearest, second, third] = places;
    for place in [second, third] {
        if away(&place) < away(&nearest) {
            nearest = place;
        }
    }
    nearest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_places_are_as_far_as_distances_say() {
        let corners = [[0.0; 3], [4.0, 0.0, 0.5], [0.0, 4.0, 0.0], [5.0, 5.0, 2.0]];
        let corners = corners.map(Vector3::from);
        let mesh = Mesh::new(corners.into(), vec![[0, 1, 2], [1, 3, 2]]).unwrap();
        let elements = Elements::of(&mesh).unwrap();
        let tree = Tree::new(&elements.corners).unwrap();
        for i in 0..60 {
            let t = f64::from(i);
            let p = 6.0 * Vector3::new((1.3 * t).sin(), (0.7 * t).cos(), (2.1 * t).sin());
            let off = (tree.nearest(&p).unwrap() - p).norm();
            assert!((off - tree.distance(&p)).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn every_vertex_has_its_distance() {
        let corners = [[0.0; 3], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]].map(Vector3::from);
        let mesh = Mesh::new(corners.into(), vec![[0, 1, 2]]).unwrap();
        let places = [[1.0, 1.0, 3.0], [5.0, 0.0, 0.0], [-3.0, -4.0, 0.0]].map(Vector3::from);
        let points = Mesh::new(places.into(), Vec::new()).unwrap();
        assert_eq!(distances_to(points.vertices(), &mesh).unwrap(), [3.0, 1.0, 5.0]);
        assert!(distances_to(mesh.vertices(), &Mesh::default()).is_err());
    }

    fn square(z: f64, cuts: usize) -> Mesh {
        let at = |i: usize| 10.0 * i as f64 / cuts as f64;
        let vertices = (0..=cuts)
            .flat_map(|y| (0..=cuts).map(move |x| Vector3::new(at(x), at(y), z)))
            .collect();
        let index = |x: usize, y: usize| (x + y * (cuts + 1)) as u32;
        let faces = (0..cuts)
            .flat_map(|y| (0..cuts).map(move |x| (x, y)))
            .flat_map(|(x, y)| {
                let [a, b, c, d] =
                    [index(x, y), index(x + 1, y), index(x + 1, y + 1), index(x, y + 1)];
                [[a, b, c], [a, c, d]]
            })
            .collect();
        Mesh::new(vertices, faces).unwrap()
    }

    #[test]
    fn planes_lie_as_far_apart_everywhere() {
        let scores = compare_meshes(&square(0.0, 3), &square(2.5, 7)).unwrap();
        for found in [scores.mean, scores.p95, scores.hausdorff, scores.there, scores.back] {
            assert!((found - 2.5).abs() < 1e-12);
        }
    }

    #[test]
    fn the_tree_finds_what_all_elements_say() {
        let (a, b) = (
            square(0.0, 9),
            square(1.0, 11)
                .map(|v| {
                    v + Vector3::new(
                        0.3 * v[1],
                        (v[0] * 0.7).sin(),
                        0.2 * v[0] * (v[1] * 0.5).cos(),
                    )
                })
                .unwrap(),
        );
        let elements = Elements::of(&b).unwrap();
        let tree = Tree::new(&elements.corners).unwrap();
        for p in a.vertices() {
            let all = elements.corners.iter().map(|x| to_triangle(p, x)).fold(f64::MAX, f64::min);
            assert_eq!(tree.distance(p), all.sqrt());
        }
    }

    #[test]
    fn distances_to_a_triangle_are_those_to_its_points() {
        let x = [Vector3::zeros(), Vector3::new(4.0, 0.0, 1.0), Vector3::new(1.0, 3.0, 0.0)];
        for p in [[1.0, 1.0, 5.0], [-2.0, -1.0, 0.5], [6.0, 1.0, 1.0], [2.0, 4.0, -3.0]] {
            let p = Vector3::from(p);
            let mut nearest = f64::INFINITY;
            for i in 0..=400 {
                for j in 0..=400 - i {
                    let (s, t) = (f64::from(i) / 400.0, f64::from(j) / 400.0);
                    let q = x[0] + s * (x[1] - x[0]) + t * (x[2] - x[0]);
                    nearest = nearest.min((p - q).norm());
                }
            }
            assert!((to_triangle(&p, &x).sqrt() - nearest).abs() < 1e-3);
        }
    }

    #[test]
    fn curves_points_and_nothing() {
        let line = |y: f64| {
            let vertices = (0..5).map(|i| Vector3::new(f64::from(i), y, 0.0)).collect();
            Mesh::new(vertices, Vec::new()).unwrap().with_lines(vec![5], (0..5).collect()).unwrap()
        };
        assert!((compare_meshes(&line(0.0), &line(3.0)).unwrap().mean - 3.0).abs() < 1e-12);
        let points = Mesh::new(vec![Vector3::new(2.5, 4.0, 0.0)], Vec::new()).unwrap();
        let scores = compare_meshes(&points, &line(0.0)).unwrap();
        // From the point to the line, and from the line to the point.
        assert!((scores.there - 4.0).abs() < 1e-12 && scores.hausdorff > 4.5);
        let places = [Vector3::zeros(), Vector3::new(1.5, 2.0, 0.0), Vector3::new(7.0, 0.0, 4.0)];
        assert_eq!(distances_to(&places, &line(0.0)).unwrap(), [0.0, 2.0, 5.0]);
        let nothing = Mesh::new(Vec::new(), Vec::new()).unwrap();
        assert!(compare_meshes(&nothing, &points).is_err());
        assert!(distances_to(&places, &nothing).is_err());
    }
}
