//! Tetrahedral meshes.

use crate::error::{ImageError, Result};
use crate::memory;
use crate::mesh::{Mesh, VertexData, check_data, check_finite, check_indices};
use nalgebra::Vector3;

/// The corners of the four faces of a tetrahedron, counterclockwise where they are seen from outside; face `i` is the
/// one without corner `i`.
const FACES: [[usize; 3]; 4] = [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]];

/// The most tetrahedra of a mesh: their faces are numbered.
const MOST: usize = u32::MAX as usize / 4;

/// A mesh of tetrahedra in world space (RAS+ mm), with values at its vertices and in its tetrahedra.
///
/// Every vertex is finite, and every index that of a vertex. The first three corners of a tetrahedron with a volume
/// above 0 go round counterclockwise where they are seen from the fourth one: `det [b - a, c - a, d - a] > 0`.
/// Whether all volumes are above 0, and whether faces fit, is not promised: meshes come from files.
///
/// ```
/// use voxalign_image::{TetraMesh, Vector3};
///
/// # fn main() -> Result<(), voxalign_image::ImageError> {
/// let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.]].map(Vector3::from);
/// let mesh = TetraMesh::new(corners.into(), vec![[0, 1, 2, 3]])?;
/// assert!((mesh.volume() - 1.0 / 6.0).abs() < 1e-15);
/// let surface = mesh.surface()?;
/// assert!(surface.is_closed()? && surface.faces().len() == 4);
/// assert!((surface.volume()?.unwrap_or(0.0) - mesh.volume()).abs() < 1e-15);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TetraMesh {
    vertices: Vec<Vector3<f64>>,
    tetrahedra: Vec<[u32; 4]>,
    labels: Vec<i32>,
    vertex_data: Vec<VertexData>,
    cell_data: Vec<VertexData>,
}

impl TetraMesh {
    /// Vertices, mm, and four of their indices a tetrahedron.
    ///
    /// # Errors
    /// [`ImageError::MeshVertex`] where a vertex is not finite, [`ImageError::MeshIndex`] where an index is that of
    /// no vertex, [`ImageError::TetraCount`] for more tetrahedra than their faces can be numbered.
    pub fn new(vertices: Vec<Vector3<f64>>, tetrahedra: Vec<[u32; 4]>) -> Result<Self> {
        if tetrahedra.len() > MOST {
            return Err(ImageError::TetraCount { found: tetrahedra.len(), most: MOST });
        }
        check_finite(&vertices)?;
        for (number, corners) in tetrahedra.iter().enumerate() {
            check_indices("tetrahedron", number, corners, vertices.len())?;
        }
        Ok(Self { vertices, tetrahedra, ..Self::default() })
    }

    /// The same mesh with a label for each tetrahedron, such as that of its tissue.
    ///
    /// # Errors
    /// [`ImageError::TetraData`] where there is not one label for each tetrahedron.
    pub fn with_labels(mut self, labels: Vec<i32>) -> Result<Self> {
        if labels.len() != self.tetrahedra.len() {
            return Err(ImageError::TetraData {
                name: "labels".to_owned(),
                components: 1,
                tetrahedra: self.tetrahedra.len(),
                found: labels.len(),
            });
        }
        self.labels = labels;
        Ok(self)
    }

    /// The same mesh with these values at its vertices and in its tetrahedra instead of its own.
    ///
    /// # Errors
    /// [`ImageError::MeshData`] or [`ImageError::TetraData`] where an array has another length than `components` times the
    /// number of vertices or tetrahedra, or a direction other than three components.
    pub fn with_data(
        mut self,
        vertex_data: Vec<VertexData>,
        cell_data: Vec<VertexData>,
    ) -> Result<Self> {
        check_data(&vertex_data, self.vertices.len())?;
        check_data(&cell_data, self.tetrahedra.len()).map_err(of_tetrahedra)?;
        (self.vertex_data, self.cell_data) = (vertex_data, cell_data);
        Ok(self)
    }

    /// The same mesh with its vertices elsewhere.
    ///
    /// # Errors
    /// [`ImageError::MeshVertex`] where a vertex is not finite; [`ImageError::MeshData`] where their number is another.
    pub fn with_vertices(mut self, vertices: Vec<Vector3<f64>>) -> Result<Self> {
        check_finite(&vertices)?;
        if vertices.len() != self.vertices.len() {
            return Err(ImageError::MeshData {
                name: "vertices".to_owned(),
                components: 1,
                vertices: self.vertices.len(),
                found: vertices.len(),
            });
        }
        self.vertices = vertices;
        Ok(self)
    }

    /// Positions, mm.
    #[must_use]
    pub fn vertices(&self) -> &[Vector3<f64>] {
        &self.vertices
    }

    /// Four vertices a tetrahedron.
    #[must_use]
    pub fn tetrahedra(&self) -> &[[u32; 4]] {
        &self.tetrahedra
    }

    /// A label a tetrahedron, or none at all.
    #[must_use]
    pub fn labels(&self) -> &[i32] {
        &self.labels
    }

    /// Values at the vertices.
    #[must_use]
    pub fn vertex_data(&self) -> &[VertexData] {
        &self.vertex_data
    }

    /// Values in the tetrahedra.
    #[must_use]
    pub fn cell_data(&self) -> &[VertexData] {
        &self.cell_data
    }

    /// The corners of a tetrahedron, mm.
    ///
    /// # Panics
    /// Where there is no tetrahedron of this number.
    #[must_use]
    pub fn corners(&self, number: usize) -> [Vector3<f64>; 4] {
        self.tetrahedra[number].map(|i| self.vertices[i as usize])
    }

    /// The smallest and the largest coordinates of all vertices, mm; nothing where there are none.
    #[must_use]
    pub fn bounds(&self) -> Option<[Vector3<f64>; 2]> {
        let first = *self.vertices.first()?;
        Some(self.vertices.iter().fold([first; 2], |[low, high], v| [low.inf(v), high.sup(v)]))
    }

    /// The volume of all tetrahedra, mm³; inverted ones count below 0.
    #[must_use]
    pub fn volume(&self) -> f64 {
        (0..self.tetrahedra.len()).map(|e| volume(self.corners(e))).sum()
    }

    /// The faces of one tetrahedron alone, counterclockwise where they are seen from outside, in the order of the
    /// tetrahedra.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn boundary(&self) -> Result<Vec<[u32; 3]>> {
        let sides = self.sides()?;
        let mut alone = memory::room(sides.len())?;
        alone.extend(sides.chunk_by(|a, b| a.0 == b.0).filter(|s| s.len() == 1).map(|s| s[0].1));
        alone.sort_unstable();
        let mut faces = memory::room(alone.len())?;
        faces.extend(alone.iter().map(|&side| self.face(side)));
        Ok(faces)
    }

    /// The surface of the mesh: its boundary, with the vertices that it uses.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn surface(&self) -> Result<Mesh> {
        let mut faces = self.boundary()?;
        let mut numbers = memory::filled(self.vertices.len(), u32::MAX)?;
        let mut vertices = Vec::new();
        for index in faces.iter_mut().flatten() {
            let number = &mut numbers[*index as usize];
            if *number == u32::MAX {
                *number = vertices.len() as u32;
                vertices.push(self.vertices[*index as usize]);
            }
            *index = *number;
        }
        Mesh::new(vertices, faces)
    }

    /// For each tetrahedron the part of the mesh that it belongs to: tetrahedra that share a face are of one part, and
    /// parts are numbered from 0 in the order of their first tetrahedra.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn parts(&self) -> Result<Vec<u32>> {
        let sides = self.sides()?;
        let mut first: Vec<u32> = memory::collected(0..self.tetrahedra.len() as u32)?;
        for same in sides.chunk_by(|a, b| a.0 == b.0) {
            for pair in same.windows(2) {
                let [a, b] = [pair[0].1, pair[1].1].map(|side| root(&mut first, side / 4));
                let [low, high] = [a.min(b), a.max(b)];
                first[high as usize] = low;
            }
        }
        let mut numbers = memory::filled(first.len(), 0)?;
        let mut count = 0;
        for e in 0..first.len() {
            let of = root(&mut first, e as u32) as usize;
            if of == e {
                numbers[e] = count;
                count += 1;
            } else {
                numbers[e] = numbers[of];
            }
        }
        Ok(numbers)
    }

    /// Faces that cannot be those of a body: of three tetrahedra or more, or of two that lie on the same side of it; each
    /// with the numbers of its tetrahedra.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn faults(&self) -> Result<Vec<Vec<u32>>> {
        let sides = self.sides()?;
        let faulty = |same: &&[([u32; 3], u32)]| {
            let turns = |side: u32| is_even(self.face(side));
            same.len() > 2 || (same.len() == 2 && turns(same[0].1) == turns(same[1].1))
        };
        let all = sides.chunk_by(|a, b| a.0 == b.0).filter(faulty);
        Ok(all.map(|same| same.iter().map(|side| side.1 / 4).collect()).collect())
    }

    /// Which vertices tetrahedra use.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn used(&self) -> Result<Vec<bool>> {
        let mut used = memory::filled(self.vertices.len(), false)?;
        self.tetrahedra.iter().flatten().for_each(|&i| used[i as usize] = true);
        Ok(used)
    }

    /// The faces of all tetrahedra by their sorted vertices: number of the tetrahedron times 4, and that of its face.
    fn sides(&self) -> Result<Vec<([u32; 3], u32)>> {
        let mut sides = memory::room(4 * self.tetrahedra.len())?;
        for side in 0..4 * self.tetrahedra.len() as u32 {
            let mut corners = self.face(side);
            corners.sort_unstable();
            sides.push((corners, side));
        }
        sides.sort_unstable();
        Ok(sides)
    }

    fn face(&self, side: u32) -> [u32; 3] {
        let corners = self.tetrahedra[side as usize / 4];
        FACES[side as usize % 4].map(|i| corners[i])
    }
}

/// The volume of a tetrahedron, mm³; below 0 where it is inverted.
#[must_use]
pub fn volume([a, b, c, d]: [Vector3<f64>; 4]) -> f64 {
    (b - a).dot(&(c - a).cross(&(d - a))) / 6.0
}

/// An error of values in tetrahedra, which were checked like values at vertices.
fn of_tetrahedra(error: ImageError) -> ImageError {
    match error {
        ImageError::MeshData { name, components, vertices, found } => {
            ImageError::TetraData { name, components, tetrahedra: vertices, found }
        }
        other => other,
    }
}

/// Whether an even number of exchanges sorts the corners of a face.
fn is_even([a, b, c]: [u32; 3]) -> bool {
    (u32::from(a > b) + u32::from(a > c) + u32::from(b > c)).is_multiple_of(2)
}

/// The first tetrahedron of a part.
fn root(first: &mut [u32], mut e: u32) -> u32 {
    while first[e as usize] != e {
        first[e as usize] = first[first[e as usize] as usize];
        e = first[e as usize];
    }
    e
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tetrahedra on both sides of a triangle, and a third one elsewhere.
    fn three() -> TetraMesh {
        let vertices = [
            [0., 0., 0.],
            [1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.],
            [1., 1., 1.],
            [5., 0., 0.],
            [6., 0., 0.],
            [5., 1., 0.],
            [5., 0., 2.],
            [9., 9., 9.],
        ];
        let tetrahedra = vec![[0, 1, 2, 3], [5, 6, 7, 8], [1, 2, 3, 4]];
        TetraMesh::new(vertices.map(Vector3::from).into(), tetrahedra).unwrap()
    }

    #[test]
    fn parts_faces_and_volumes_are_counted() {
        let mesh = three();
        assert_eq!(mesh.parts().unwrap(), [0, 1, 0]);
        assert_eq!(mesh.boundary().unwrap().len(), 6 + 4);
        assert_eq!(mesh.faults().unwrap(), Vec::<Vec<u32>>::new());
        assert_eq!(mesh.used().unwrap(), [[true; 9].as_slice(), &[false]].concat());
        assert!((mesh.volume() - (1.0 / 6.0 + 2.0 / 6.0 + 2.0 / 6.0)).abs() < 1e-15);
        let surface = mesh.surface().unwrap();
        assert_eq!((surface.vertices().len(), surface.faces().len()), (9, 10));
        assert!(surface.is_closed().unwrap() && surface.contrary_edges().unwrap() == 0);
        assert!((surface.volume().unwrap().unwrap() - mesh.volume()).abs() < 1e-14);
    }

    #[test]
    fn faces_that_cannot_be_are_named() {
        let vertices = three().vertices().to_vec();
        let twice = TetraMesh::new(vertices.clone(), vec![[0, 1, 2, 3], [0, 1, 2, 4]]).unwrap();
        assert_eq!(twice.faults().unwrap(), [[0, 1]]);
        let thrice = vec![[0, 1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5]];
        let thrice = TetraMesh::new(vertices.clone(), thrice).unwrap();
        assert_eq!(thrice.faults().unwrap(), [[0, 1, 2]]);
        let no_vertex = TetraMesh::new(vertices, vec![[0, 1, 2, 10]]).unwrap_err();
        assert!(
            no_vertex.to_string().starts_with("tetrahedron 0 has the vertex 10"),
            "{no_vertex}"
        );
    }

    #[test]
    fn data_have_a_value_for_each_vertex_and_tetrahedron() {
        let one =
            |n: usize| VertexData { components: 1, values: vec![0.0; n], ..Default::default() };
        assert!(three().with_data(vec![one(10)], vec![one(3)]).is_ok());
        assert!(three().with_data(vec![one(3)], vec![]).is_err());
        let error = three().with_data(vec![], vec![one(10)]).unwrap_err();
        assert!(matches!(error, ImageError::TetraData { tetrahedra: 3, found: 10, .. }), "{error}");
        assert!(three().with_labels(vec![1, 2]).is_err());
    }
}
