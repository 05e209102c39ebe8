//! The topology of meshes.

use super::Mesh;
use crate::error::Result;
use crate::memory;

impl Mesh {
    /// The number of parts that no face and no line connects; vertices that nothing uses are none.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`](crate::ImageError::OutOfMemory).
    pub fn components(&self) -> Result<usize> {
        let mut parents: Vec<u32> = memory::collected(0..self.vertices().len() as u32)?;
        for face in self.faces() {
            join(&mut parents, face);
        }
        for line in self.lines() {
            join(&mut parents, line);
        }
        let used = self.used()?;
        let mut roots = 0;
        for (i, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            roots += usize::from(parents[i] as usize == i);
        }
        Ok(roots)
    }

    /// The number of vertices at the place of another one before them.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`](crate::ImageError::OutOfMemory).
    pub fn duplicate_vertices(&self) -> Result<usize> {
        // 0 and -0 are one place.
        let bits = |v: f64| (v + 0.0).to_bits();
        let places = self.vertices().iter().map(|v| [bits(v[0]), bits(v[1]), bits(v[2])]);
        let mut places: Vec<[u64; 3]> = memory::collected(places)?;
        places.sort_unstable();
        Ok(places.chunk_by(|a, b| a == b).map(|same| same.len() - 1).sum())
    }

    /// The number of edges along which two faces go the same way: their sides do not agree. 0 of a surface all of whose
    /// faces are seen from one side.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`](crate::ImageError::OutOfMemory).
    pub fn contrary_edges(&self) -> Result<usize> {
        let mut edges = memory::room(3 * self.faces().len())?;
        for &[a, b, c] in self.faces() {
            edges.extend([[a, b], [b, c], [c, a]]);
        }
        edges.sort_unstable();
        Ok(edges.chunk_by(|a, b| a == b).filter(|same| same.len() > 1).count())
    }
}

/// The first vertex of a part, the smallest one.
fn root(parents: &mut [u32], mut i: u32) -> u32 {
    while parents[i as usize] != i {
        // Halves the way for those who come later.
        parents[i as usize] = parents[parents[i as usize] as usize];
        i = parents[i as usize];
    }
    i
}

fn join(parents: &mut [u32], vertices: &[u32]) {
    for pair in vertices.windows(2) {
        let [a, b] = [root(parents, pair[0]), root(parents, pair[1])];
        parents[a.max(b) as usize] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;

    #[test]
    fn parts_twins_and_sides() {
        let at = |x: f64, y: f64| Vector3::new(x, y, 0.0);
        let vertices = vec![
            at(0., 0.),
            at(1., 0.),
            at(0., 1.),
            at(1., 1.),
            at(5., 5.),
            at(-0.0, 0.),
            at(0., 0.),
        ];
        let mesh = Mesh::new(vertices, vec![[0, 1, 2], [1, 3, 2]]).unwrap();
        assert_eq!(mesh.components().unwrap(), 1);
        assert_eq!(mesh.duplicate_vertices().unwrap(), 2);
        assert_eq!(mesh.contrary_edges().unwrap(), 0);
        let mesh = mesh.with_lines(vec![2, 3], vec![4, 5, 6]).unwrap();
        assert_eq!(mesh.components().unwrap(), 3);
        let turned = Mesh::new(mesh.vertices().to_vec(), vec![[0, 1, 2], [1, 2, 3]]).unwrap();
        assert_eq!(turned.contrary_edges().unwrap(), 1);
        assert_eq!(Mesh::default().components().unwrap(), 0);
    }
}
