//! The elements of a mesh that currents and varifolds compare, with or without their orientation.

use crate::error::{RegisterError, Result};
use voxalign_compute::ops::simplices::Element;
use voxalign_image::Vector3;

/// The elements of a shape.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    /// Points, each with a mass.
    Points(Vec<f32>),
    /// Segments or triangles: the first corner of all, then the second of all, then the third.
    Simplices(Element, Vec<u32>),
}

/// A shape: vertices, mm, and the elements that they make.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    vertices: Vec<Vector3<f64>>,
    elements: Elements,
}

impl Shape {
    /// Points that count alike: each has one over their number, so that clouds of other numbers of points can be
    /// compared.
    ///
    /// # Errors
    /// No points, or one that is not finite.
    pub fn points(points: &[Vector3<f64>]) -> Result<Self> {
        let each = 1.0 / points.len().max(1) as f32;
        Self::new(points.to_vec(), Elements::Points(vec![each; points.len()]))
    }

    /// The triangles of a surface. Without orientation, which way round they are does not matter.
    ///
    /// # Errors
    /// No triangles; a corner that is no vertex; a vertex that is not finite.
    pub fn surface(vertices: &[Vector3<f64>], faces: &[[u32; 3]], oriented: bool) -> Result<Self> {
        let kind = if oriented { Element::Triangle } else { Element::UnorientedTriangle };
        let corners = (0..3).flat_map(|k| faces.iter().map(move |face| face[k])).collect();
        Self::new(vertices.to_vec(), Elements::Simplices(kind, corners))
    }

    /// The segments of curves, each a list of vertices. Without orientation, in which direction they run does not matter.
    ///
    /// # Errors
    /// A curve of fewer than two points; no curves; a vertex that there is not; one that is not finite.
    pub fn curves<'l>(
        vertices: &[Vector3<f64>],
        lines: impl Iterator<Item = &'l [u32]>,
        oriented: bool,
    ) -> Result<Self> {
        let kind = if oriented { Element::Segment } else { Element::UnorientedSegment };
        let [mut first, mut second] = [Vec::new(), Vec::new()];
        for (number, line) in lines.enumerate() {
            if line.len() < 2 {
                let value = format!("curve {} of {} points", number + 1, line.len());
                return Err(wrong(value, "leave out curves of fewer than two points"));
            }
            first.extend_from_slice(&line[..line.len() - 1]);
            second.extend_from_slice(&line[1..]);
        }
        first.append(&mut second);
        Self::new(vertices.to_vec(), Elements::Simplices(kind, first))
    }

    fn new(vertices: Vec<Vector3<f64>>, elements: Elements) -> Result<Self> {
        if let Some(i) = vertices.iter().position(|v| !v.iter().all(|x| x.is_finite())) {
            let value = format!("vertex {i} at {:?}", vertices[i].as_slice());
            return Err(wrong(value, "give finite coordinates, mm"));
        }
        let shape = Self { vertices, elements };
        if shape.is_empty() {
            return Err(wrong("no element".to_owned(), "give points, curves or surfaces"));
        }
        if let Elements::Simplices(_, corners) = &shape.elements
            && let Some(corner) = corners.iter().find(|&&c| c as usize >= shape.vertices.len())
        {
            let value = format!("vertex {corner} of {}", shape.vertices.len());
            return Err(wrong(value, "give indices below the number of vertices, counted from 0"));
        }
        Ok(shape)
    }

    /// The same elements with other vertex positions, mm.
    ///
    /// # Errors
    /// Another number of vertices; one that is not finite.
    pub fn with_vertices(&self, vertices: Vec<Vector3<f64>>) -> Result<Self> {
        if vertices.len() != self.vertices.len() {
            let value = format!("{} vertices", vertices.len());
            return Err(wrong(value, &format!("give {}", self.vertices.len())));
        }
        Self::new(vertices, self.elements.clone())
    }

    /// All elements of some shapes, which are made of the same; masses of points are added as they are.
    ///
    /// # Errors
    /// No shapes, or ones that are not made of the same.
    pub fn union(shapes: &[&Self]) -> Result<Self> {
        let Some((first, rest)) = shapes.split_first() else {
            return Err(wrong("an empty union".to_owned(), "give at least one shape"));
        };
        if rest.iter().any(|other| !first.is_like(other)) {
            let value = "a union of shapes with different elements".to_owned();
            return Err(wrong(value, "unite surfaces with surfaces, curves with curves"));
        }
        let vertices = shapes.iter().flat_map(|s| &s.vertices).copied().collect();
        let elements = match &first.elements {
            Elements::Points(_) => {
                let masses = shapes.iter().filter_map(|s| s.masses()).flatten();
                Elements::Points(masses.copied().collect())
            }
            Elements::Simplices(kind, _) => {
                let mut all = Vec::new();
                for corner in 0..kind.corners() {
                    let mut before = 0;
                    for shape in shapes {
                        if let Elements::Simplices(_, corners) = &shape.elements {
                            let each = &corners[corner * shape.len()..(corner + 1) * shape.len()];
                            all.extend(each.iter().map(|c| c + before));
                        }
                        before += shape.vertices.len() as u32;
                    }
                }
                Elements::Simplices(*kind, all)
            }
        };
        Self::new(vertices, elements)
    }

    /// Its vertices, mm.
    #[must_use]
    pub fn vertices(&self) -> &[Vector3<f64>] {
        &self.vertices
    }

    /// Its elements.
    #[must_use]
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// The masses of points; none of curves and surfaces.
    #[must_use]
    pub fn masses(&self) -> Option<&[f32]> {
        match &self.elements {
            Elements::Points(masses) => Some(masses),
            Elements::Simplices(..) => None,
        }
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::Points(masses) => masses.len(),
            Elements::Simplices(kind, corners) => corners.len() / kind.corners(),
        }
    }

    /// Whether there are none: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The share of each vertex in the mass, length or area of the shape; the corners of an element have equal
    /// shares.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.vertices.len()];
        match &self.elements {
            Elements::Points(masses) => {
                shares.iter_mut().zip(masses).for_each(|(s, m)| *s = f64::from(m.abs()));
            }
            Elements::Simplices(kind, corners) => {
                let (count, each) = (self.len(), kind.corners());
                for i in 0..count {
                    let of = |k: usize| corners[k * count + i] as usize;
                    let at = |k: usize| self.vertices[of(k)];
                    let size = match each {
                        2 => (at(1) - at(0)).norm(),
                        _ => 0.5 * (at(1) - at(0)).cross(&(at(2) - at(0))).norm(),
                    };
                    (0..each).for_each(|k| shares[of(k)] += size / each as f64);
                }
            }
        }
        let all: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|s| *s /= all.max(f64::MIN_POSITIVE));
        shares
    }

    /// The components of the elements' values.
    #[must_use]
    pub fn components(&self) -> usize {
        match &self.elements {
            Elements::Points(_) => 1,
            Elements::Simplices(kind, _) => kind.components(),
        }
    }

    /// Whether it can be compared with another one: both are made of the same.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (&self.elements, &other.elements) {
            (Elements::Points(_), Elements::Points(_)) => true,
            (Elements::Simplices(a, _), Elements::Simplices(b, _)) => a == b,
            _ => false,
        }
    }

    /// The bounds of vertices, mm.
    pub(super) fn bounds(vertices: &[Vector3<f64>]) -> [[f64; 3]; 2] {
        let mut bounds = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
        for v in vertices {
            for a in 0..3 {
                bounds[0][a] = bounds[0][a].min(v[a]);
                bounds[1][a] = bounds[1][a].max(v[a]);
            }
        }
        bounds
    }
}

fn wrong(value: String, remedy: &str) -> RegisterError {
    RegisterError::option("shape", value, remedy)
}
