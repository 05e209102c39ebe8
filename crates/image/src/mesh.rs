//! Meshes of surfaces and curves.

mod topology;

use crate::error::{ImageError, Result};
use crate::memory;
use nalgebra::Vector3;

/// Cross products of two sides of a triangle that are below this share of the square of its longest side are
/// those of a triangle without area.
const FLAT: f64 = 1e-12;

/// Values at the vertices of a mesh: one after the other, the `components` of a vertex together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VertexData {
    /// The name.
    pub name: String,
    /// Values a vertex, at least 1.
    pub components: usize,
    /// All values: `components x vertices`.
    pub values: Vec<f32>,
    /// Whether the three components are a direction in the world (RAS), such as a normal, and not three numbers.
    pub is_direction: bool,
}

/// A surface of triangles, curves, or both, in world space (RAS+ mm), with values at the vertices.
///
/// Every vertex is finite, and every index that of a vertex. The corners of a face go round counterclockwise
/// where it is seen from outside. A vertex that no face and no line uses is a point by itself.
///
/// ```
/// use voxalign_image::{Mesh, Vector3};
///
/// # fn main() -> Result<(), voxalign_image::ImageError> {
/// let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.]].map(Vector3::from);
/// let mesh = Mesh::new(corners.into(), vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])?;
/// assert!(mesh.is_closed()?);
/// assert!((mesh.volume()?.unwrap_or(0.0) - 1.0 / 6.0).abs() < 1e-12);
/// // A curve along two of the edges.
/// let mesh = mesh.with_lines(vec![3], vec![0, 1, 2])?;
/// assert_eq!(mesh.length(), 1.0 + 2f64.sqrt());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mesh {
    vertices: Vec<Vector3<f64>>,
    faces: Vec<[u32; 3]>,
    line_ends: Vec<usize>,
    line_vertices: Vec<u32>,
    data: Vec<VertexData>,
}

impl Mesh {
    /// A surface: vertices, mm, and three of their indices a face. Without faces a set of points.
    ///
    /// # Errors
    /// [`ImageError::MeshVertex`] where a vertex is not finite, [`ImageError::MeshIndex`] where an index is that of
    /// no vertex.
    pub fn new(vertices: Vec<Vector3<f64>>, faces: Vec<[u32; 3]>) -> Result<Self> {
        check_finite(&vertices)?;
        for (number, face) in faces.iter().enumerate() {
            check_indices("face", number, face, vertices.len())?;
        }
        Ok(Self { vertices, faces, ..Self::default() })
    }

    /// The same mesh with these lines instead of its own: the vertices of all, one line after the other, and for
    /// each where it ends among them.
    ///
    /// # Errors
    /// [`ImageError::MeshLines`] where the ends do not rise to the number of the vertices, [`ImageError::MeshIndex`]
    /// where an index is that of no vertex.
    pub fn with_lines(mut self, line_ends: Vec<usize>, line_vertices: Vec<u32>) -> Result<Self> {
        let last = line_ends.last().copied().unwrap_or(0);
        if last != line_vertices.len() || !line_ends.is_sorted() {
            return Err(ImageError::MeshLines { last, found: line_vertices.len() });
        }
        for (number, line) in Lines::new(&line_ends, &line_vertices).enumerate() {
            check_indices("line", number, line, self.vertices.len())?;
        }
        (self.line_ends, self.line_vertices) = (line_ends, line_vertices);
        Ok(self)
    }

    /// The same mesh with these values at its vertices instead of its own.
    ///
    /// # Errors
    /// [`ImageError::MeshData`] where an array has another length than `components` times the number of vertices, or
    /// a direction other than three components.
    pub fn with_data(mut self, data: Vec<VertexData>) -> Result<Self> {
        check_data(&data, self.vertices.len())?;
        self.data = data;
        Ok(self)
    }

    /// Positions, mm.
    #[must_use]
    pub fn vertices(&self) -> &[Vector3<f64>] {
        &self.vertices
    }

    /// Three vertices a face.
    #[must_use]
    pub fn faces(&self) -> &[[u32; 3]] {
        &self.faces
    }

    /// The vertices of each line.
    #[must_use]
    pub fn lines(&self) -> Lines<'_> {
        Lines::new(&self.line_ends, &self.line_vertices)
    }

    /// Where each line ends among [`line_vertices`](Self::line_vertices).
    #[must_use]
    pub fn line_ends(&self) -> &[usize] {
        &self.line_ends
    }

    /// The vertices of all lines, one line after the other.
    #[must_use]
    pub fn line_vertices(&self) -> &[u32] {
        &self.line_vertices
    }

    /// Values at the vertices.
    #[must_use]
    pub fn data(&self) -> &[VertexData] {
        &self.data
    }

    /// Whether there are no vertices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vertices.is_empty()
    }

    /// The smallest and the largest coordinates of all vertices, mm; nothing where there are none.
    #[must_use]
    pub fn bounds(&self) -> Option<[Vector3<f64>; 2]> {
        let first = *self.vertices.first()?;
        Some(self.vertices.iter().fold([first; 2], |[low, high], v| [low.inf(v), high.sup(v)]))
    }

    /// The area of all faces, mm².
    #[must_use]
    pub fn area(&self) -> f64 {
        self.faces.iter().map(|face| doubled_area(self.corners(face)) / 2.0).sum()
    }

    /// The length of all lines, mm.
    #[must_use]
    pub fn length(&self) -> f64 {
        self.lines().flat_map(|line| line.windows(2)).map(|ends| self.distance(ends)).sum()
    }

    /// The number of edges that do not belong to exactly two faces; a face with a vertex twice has edges of its own.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn boundary_edges(&self) -> Result<usize> {
        let mut edges = memory::room(3 * self.faces.len())?;
        for &[a, b, c] in &self.faces {
            edges.extend([[a, b], [b, c], [c, a]].map(|[p, q]| [p.min(q), p.max(q)]));
        }
        edges.sort_unstable();
        Ok(edges.chunk_by(|a, b| a == b).filter(|same| same.len() != 2).count())
    }

    /// Whether every edge belongs to exactly two faces, and there is one.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn is_closed(&self) -> Result<bool> {
        Ok(!self.faces.is_empty() && self.boundary_edges()? == 0)
    }

    /// The volume within a closed surface, mm³: below 0 where its faces are seen from inside. Nothing where it is
    /// not closed.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn volume(&self) -> Result<Option<f64>> {
        if !self.is_closed()? {
            return Ok(None);
        }
        // About a point nearby: a surface far from the origin would lose digits.
        let centre = self.bounds().map_or_else(Vector3::zeros, |[low, high]| (low + high) / 2.0);
        let one = |face| {
            let [a, b, c] = self.corners(face).map(|corner| corner - centre);
            a.dot(&b.cross(&c)) / 6.0
        };
        Ok(Some(self.faces.iter().map(one).sum()))
    }

    /// The same surface seen from the other side: the corners of every face in the other order. Directions among
    /// the data stay.
    #[must_use]
    pub fn flipped(mut self) -> Self {
        self.faces.iter_mut().for_each(|face| face.swap(1, 2));
        self
    }

    /// The mesh without faces that have no area, without steps of length 0 along lines, and without lines of fewer
    /// than two points, and the numbers of faces, steps and lines removed. Vertices stay, including unused ones.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn without_degenerate(&self) -> Result<(Self, usize)> {
        let faces = self.faces.iter().filter(|face| !is_flat(self.corners(face))).copied();
        let faces = memory::collected(faces)?;
        let mut dropped = self.faces.len() - faces.len();
        let mut line_ends = memory::room(self.line_ends.len())?;
        let mut line_vertices: Vec<u32> = memory::room(self.line_vertices.len())?;
        for line in self.lines() {
            let start = line_vertices.len();
            line_vertices.extend(line.first());
            let steps = line.windows(2).filter(|ends| self.distance(ends) > 0.0);
            line_vertices.extend(steps.filter_map(|ends| ends.last()));
            let kept = line_vertices.len() - start;
            dropped += line.len() - kept;
            if kept < 2 {
                line_vertices.truncate(start);
                dropped += 1;
            } else {
                line_ends.push(line_vertices.len());
            }
        }
        let vertices = memory::copied(&self.vertices)?;
        Ok((Self { vertices, faces, line_ends, line_vertices, data: self.copied_data()? }, dropped))
    }

    /// The same mesh with every position replaced; all else stays, directions among the data included. Where the
    /// map reverses orientation (its determinant is below 0) the faces are seen from the other side then, and
    /// [`flipped`](Self::flipped) turns them back.
    ///
    /// # Errors
    /// [`ImageError::MeshVertex`] where a position is mapped to one that is not finite;
    /// [`ImageError::OutOfMemory`].
    pub fn map(&self, f: impl FnMut(&Vector3<f64>) -> Vector3<f64>) -> Result<Self> {
        let vertices = memory::collected(self.vertices.iter().map(f))?;
        check_finite(&vertices)?;
        Ok(Self {
            vertices,
            faces: memory::copied(&self.faces)?,
            line_ends: memory::copied(&self.line_ends)?,
            line_vertices: memory::copied(&self.line_vertices)?,
            data: self.copied_data()?,
        })
    }

    /// For each vertex, whether a face or a line has it.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn used(&self) -> Result<Vec<bool>> {
        let mut used = memory::filled(self.vertices.len(), false)?;
        for &i in self.faces.iter().flatten().chain(&self.line_vertices) {
            if let Some(one) = used.get_mut(i as usize) {
                *one = true;
            }
        }
        Ok(used)
    }

    /// The number of vertices that neither a face nor a line has.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn unused(&self) -> Result<usize> {
        Ok(self.used()?.iter().filter(|&&used| !used).count())
    }

    /// The corners of a face, mm.
    fn corners(&self, face: &[u32; 3]) -> [Vector3<f64>; 3] {
        face.map(|i| self.at(i))
    }

    /// The position of a vertex whose index was checked.
    fn at(&self, index: u32) -> Vector3<f64> {
        self.vertices.get(index as usize).copied().unwrap_or_default()
    }

    fn distance(&self, ends: &[u32]) -> f64 {
        match *ends {
            [a, b] => (self.at(b) - self.at(a)).norm(),
            _ => 0.0,
        }
    }

    fn copied_data(&self) -> Result<Vec<VertexData>> {
        let one = |array: &VertexData| {
            Ok(VertexData {
                name: array.name.clone(),
                values: memory::copied(&array.values)?,
                ..*array
            })
        };
        self.data.iter().map(one).collect()
    }
}

/// The vertices of one line after the other.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    ends: std::slice::Iter<'a, usize>,
    vertices: &'a [u32],
    start: usize,
}

impl<'a> Lines<'a> {
    fn new(ends: &'a [usize], vertices: &'a [u32]) -> Self {
        Self { ends: ends.iter(), vertices, start: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u32];

    fn next(&mut self) -> Option<&'a [u32]> {
        let end = *self.ends.next()?;
        let line = self.vertices.get(self.start..end).unwrap_or_default();
        self.start = end;
        Some(line)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ends.size_hint()
    }
}

impl ExactSizeIterator for Lines<'_> {}

pub(crate) fn check_finite(vertices: &[Vector3<f64>]) -> Result<()> {
    match vertices.iter().position(|v| !v.iter().all(|c| c.is_finite())) {
        None => Ok(()),
        Some(vertex) => Err(ImageError::MeshVertex { vertex, position: vertices[vertex].into() }),
    }
}

pub(crate) fn check_indices(
    what: &'static str,
    number: usize,
    indices: &[u32],
    len: usize,
) -> Result<()> {
    match indices.iter().find(|&&i| i as usize >= len) {
        None => Ok(()),
        Some(&index) => Err(ImageError::MeshIndex { what, number, index, vertices: len }),
    }
}

pub(crate) fn check_data(data: &[VertexData], vertices: usize) -> Result<()> {
    for array in data {
        let expected = array.components.checked_mul(vertices);
        let three = !array.is_direction || array.components == 3;
        if array.components == 0 || !three || expected != Some(array.values.len()) {
            return Err(ImageError::MeshData {
                name: array.name.clone(),
                components: array.components,
                vertices,
                found: array.values.len(),
            });
        }
    }
    Ok(())
}

fn doubled_area([a, b, c]: [Vector3<f64>; 3]) -> f64 {
    (b - a).cross(&(c - a)).norm()
}

/// Whether a triangle has no area, up to the rounding of its coordinates.
fn is_flat(corners: [Vector3<f64>; 3]) -> bool {
    let [a, b, c] = corners;
    let longest = (b - a).norm_squared().max((c - b).norm_squared()).max((a - c).norm_squared());
    doubled_area(corners) <= FLAT * longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tetrahedron() -> Mesh {
        let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.]].map(Vector3::from);
        Mesh::new(corners.into(), vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]).unwrap()
    }

    fn values(components: usize, len: usize, is_direction: bool) -> VertexData {
        VertexData { name: "v".into(), components, values: vec![0.5; len], is_direction }
    }

    #[test]
    fn what_cannot_be_is_said() {
        let three = vec![Vector3::zeros(); 3];
        let said = |result: Result<Mesh>| result.unwrap_err().to_string();
        let bad = Mesh::new(three.clone(), vec![[0, 1, 2], [0, 3, 1]]);
        assert_eq!(
            said(bad),
            "face 1 has the vertex 3, but there are 3 vertices, counted from 0; correct the index"
        );
        let mut nan = three.clone();
        nan[1][2] = f64::NAN;
        assert!(said(Mesh::new(nan, vec![])).contains("vertex 1 is at [0.0, 0.0, NaN]"));
        let mesh = Mesh::new(three, vec![[0, 1, 2]]).unwrap();
        for (ends, vertices, part) in [
            (vec![2], vec![0, 9], "line 0 has the vertex 9"),
            (vec![3], vec![0, 1], "end at 3"),
            (vec![2, 1], vec![0], "end at 1"),
            (vec![], vec![0], "end at 0"),
        ] {
            let text = said(mesh.clone().with_lines(ends, vertices));
            assert!(text.contains(part), "{text}");
        }
        for wrong in [values(2, 5, false), values(0, 0, false), values(2, 6, true)] {
            let text = said(mesh.clone().with_data(vec![wrong]));
            assert!(text.contains("the data \"v\""), "{text}");
        }
        assert!(mesh.with_data(vec![values(3, 9, true), values(2, 6, false)]).is_ok());
    }

    #[test]
    fn measures_of_a_tetrahedron() {
        let mesh = tetrahedron();
        assert!(mesh.is_closed().unwrap());
        assert!((mesh.volume().unwrap().unwrap() - 1.0 / 6.0).abs() < 1e-15);
        assert!((mesh.area() - (1.5 + 3f64.sqrt() / 2.0)).abs() < 1e-12);
        assert_eq!(mesh.bounds().unwrap(), [Vector3::zeros(), Vector3::repeat(1.0)]);
        assert!(mesh.clone().flipped().volume().unwrap().unwrap() < 0.0);
        assert_eq!(mesh.clone().flipped().flipped(), mesh);
        let open = Mesh::new(mesh.vertices().to_vec(), mesh.faces()[1..].to_vec()).unwrap();
        assert_eq!((open.boundary_edges().unwrap(), open.volume().unwrap()), (3, None));
        assert!(Mesh::default().bounds().is_none() && !Mesh::default().is_closed().unwrap());
        // A mirror turns the inside out, and `flipped` turns it back.
        let mirrored = mesh.map(|v| Vector3::new(-v[0], v[1], v[2])).unwrap();
        assert_eq!(mirrored.faces(), mesh.faces());
        assert!(mirrored.volume().unwrap().unwrap() < 0.0);
        assert!(mirrored.flipped().volume().unwrap().unwrap() > 0.0);
        assert!(matches!(mesh.map(|v| v / 0.0), Err(ImageError::MeshVertex { vertex: 0, .. })));
    }

    #[test]
    fn lines_and_their_lengths() {
        let mesh = tetrahedron().with_lines(vec![2, 2, 5], vec![0, 1, 3, 0, 2]).unwrap();
        assert_eq!(mesh.lines().len(), 3);
        assert_eq!(mesh.lines().collect::<Vec<_>>(), [&[0, 1][..], &[], &[3, 0, 2]]);
        assert_eq!(mesh.length(), 3.0);
        let mut more = mesh.vertices().to_vec();
        more.push(Vector3::x());
        let alone = Mesh::new(more, vec![]).unwrap().with_lines(vec![2], vec![0, 3]).unwrap();
        assert_eq!(alone.used().unwrap(), [true, false, false, true, false]);
        assert_eq!(alone.unused().unwrap(), 3);
    }

    #[test]
    fn what_has_no_extent_goes() {
        let at = |x: f64, y: f64| Vector3::new(x, y, 0.0);
        let vertices = vec![at(0., 0.), at(1., 0.), at(2., 0.), at(0., 1.), at(1., 0.)];
        let mesh = Mesh::new(vertices, vec![[0, 1, 2], [0, 1, 3], [1, 4, 3], [0, 0, 3]]).unwrap();
        let mesh = mesh.with_lines(vec![3, 5, 6], vec![0, 1, 4, 1, 4, 2]).unwrap();
        let mesh = mesh.with_data(vec![values(1, 5, false)]).unwrap();
        let (kept, dropped) = mesh.without_degenerate().unwrap();
        assert_eq!(kept.faces(), [[0, 1, 3]]);
        assert_eq!(kept.lines().collect::<Vec<_>>(), [[0, 1]]);
        // Three faces, a step of the first line, the second line with its step, and the third.
        assert_eq!(dropped, 3 + 1 + 2 + 1);
        assert_eq!((kept.vertices(), kept.data()), (mesh.vertices(), mesh.data()));
        assert_eq!(kept.without_degenerate().unwrap(), (kept, 0));
    }

    proptest! {
        #[test]
        fn measures_move_along(
            v in prop::collection::vec(prop::array::uniform3(-50.0..50.0f64), 4),
            shift in prop::array::uniform3(-1e3..1e3f64),
        ) {
            let faces = tetrahedron().faces().to_vec();
            let mesh = Mesh::new(v.into_iter().map(Vector3::from).collect(), faces).unwrap();
            let moved = mesh.map(|p| p + Vector3::from(shift)).unwrap();
            prop_assert!((moved.area() - mesh.area()).abs() < 1e-6);
            let [a, b] = [&mesh, &moved].map(|m| m.volume().unwrap().unwrap());
            prop_assert!((a - b).abs() < 1e-6);
            prop_assert!((mesh.flipped().volume().unwrap().unwrap() + a).abs() < 1e-9);
        }
    }
}
