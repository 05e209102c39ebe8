//! Counts and measures of surfaces and curves.

use serde::{Deserialize, Serialize};
use voxalign_image::memory::{self, OutOfMemory};
use voxalign_image::{ImageError, Mesh, Vector3};

/// Cosine of the angle between neighbouring faces from which on they count as folded onto each other.
const FOLDED: f64 = -0.94;

/// Measures of a surface, or of outlines where there is no face: components are then lines, cavities are lines
/// around holes, open edges are their ends, and the area is that within them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Vertices that faces have.
    pub vertices: usize,
    /// Triangles.
    pub triangles: usize,
    /// Parts that no edge connects.
    pub components: usize,
    /// Closed parts that are seen from inside: the surfaces of cavities, where the others are seen from outside.
    pub cavities: usize,
    /// Vertices - edges + triangles.
    pub euler: i64,
    /// The number of handles, of all components; none where the surface is not closed.
    pub genus: Option<u64>,
    /// Edges of one triangle alone.
    pub boundary_edges: usize,
    /// Edges of more than two triangles, or of two that do not agree on what is outside.
    pub non_manifold_edges: usize,
    /// Vertices whose triangles are more than one fan.
    pub non_manifold_vertices: usize,
    /// Triangles without area.
    pub degenerate_faces: usize,
    /// Edges whose two triangles are folded onto each other: their normals are more than 160 degrees apart; for
    /// lines, turns that are sharper.
    pub folded_edges: usize,
    /// Area, mm².
    pub area_mm2: f64,
    /// Of outlines their length, mm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_mm: Option<f64>,
    /// Volume within, mm³, cavities taken off; none where the surface is not closed.
    pub volume_mm3: Option<f64>,
}

/// A side of a face: its ends, the smaller one first, whether it runs that way, and the face.
type Side = (u32, u32, bool, u32);

impl Figures {
    /// Of a surface, or of the lines of a mesh without faces.
    ///
    /// # Errors
    /// [`ImageError::OutOfMemory`].
    pub fn of(mesh: &Mesh) -> Result<Self, ImageError> {
        let faces = mesh.faces();
        if faces.is_empty() && mesh.lines().next().is_some() {
            return Self::of_lines(mesh);
        }
        let mut figures = Self { triangles: faces.len(), area_mm2: mesh.area(), ..Self::default() };
        let corner = |i: u32| mesh.vertices().get(i as usize).copied().unwrap_or_default();
        let normal = |face: usize| {
            let [a, b, c] = faces[face].map(corner);
            (b - a).cross(&(c - a))
        };
        let (kept, _) = mesh.without_degenerate()?;
        figures.degenerate_faces = faces.len() - kept.faces().len();
        drop(kept);

        let mut sides: Vec<Side> = memory::room(3 * faces.len())?;
        for (number, &[a, b, c]) in (0u32..).zip(faces) {
            let side = |(p, q): (u32, u32)| (p.min(q), p.max(q), p < q, number);
            sides.extend([(a, b), (b, c), (c, a)].map(side));
        }
        sides.sort_unstable();
        let mut parts = Parts::new(faces.len())?;
        let mut edges = 0;
        for same in sides.chunk_by(|p, q| (p.0, p.1) == (q.0, q.1)) {
            edges += 1;
            for pair in same.windows(2) {
                parts.join(pair[0].3, pair[1].3);
            }
            match same {
                [_] => figures.boundary_edges += 1,
                [p, q] if p.2 != q.2 => {
                    let [m, n] = [normal(p.3 as usize), normal(q.3 as usize)];
                    let sizes = m.norm() * n.norm();
                    figures.folded_edges += usize::from(sizes > 0.0 && m.dot(&n) < FOLDED * sizes);
                }
                _ => figures.non_manifold_edges += 1,
            }
        }
        drop(sides);
        figures.fans(mesh)?;
        figures.euler = figures.vertices as i64 - edges + faces.len() as i64;
        let is_closed =
            !faces.is_empty() && figures.boundary_edges == 0 && figures.non_manifold_edges == 0;
        let centre = mesh.bounds().map_or_else(Vector3::zeros, |[low, high]| (low + high) / 2.0);
        let mut volumes = memory::filled(faces.len(), 0.0f64)?;
        for (number, face) in (0u32..).zip(faces) {
            let [a, b, c] = face.map(|i| corner(i) - centre);
            volumes[parts.of(number) as usize] += a.dot(&b.cross(&c)) / 6.0;
        }
        for number in 0..faces.len() as u32 {
            if parts.of(number) == number {
                figures.components += 1;
                figures.cavities += usize::from(is_closed && volumes[number as usize] < 0.0);
            }
        }
        if is_closed {
            figures.volume_mm3 = Some(volumes.iter().sum());
            let handles = 2 * figures.components as i64 - figures.euler;
            figures.genus =
                u64::try_from(handles / 2).ok().filter(|_| figures.is_closed_manifold());
        }
        Ok(figures)
    }

    /// Of lines.
    fn of_lines(mesh: &Mesh) -> Result<Self, ImageError> {
        let at = |i: u32| mesh.vertices().get(i as usize).copied().unwrap_or_default();
        let mut steps = memory::filled(mesh.vertices().len(), 0u32)?;
        let mut used = memory::filled(mesh.vertices().len(), false)?;
        let mut figures = Self { length_mm: Some(mesh.length()), ..Self::default() };
        let (mut areas, mut edges) = (Vec::new(), 0);
        let centre = mesh.bounds().map_or_else(Vector3::zeros, |[low, high]| (low + high) / 2.0);
        for line in mesh.lines().filter(|line| !line.is_empty()) {
            figures.components += 1;
            let mut area = Vector3::zeros();
            for step in line.windows(2) {
                edges += 1;
                area += (at(step[0]) - centre).cross(&(at(step[1]) - centre)) / 2.0;
                step.iter().for_each(|&i| steps[i as usize] += 1);
            }
            line.iter().for_each(|&i| used[i as usize] = true);
            let is_closed = line.len() > 2 && line.first() == line.last();
            figures.boundary_edges += if is_closed { 0 } else { 2 };
            // Around a closed line the second vertex comes after the last one.
            let round = line.iter().chain(line.get(1).filter(|_| is_closed)).map(|&i| at(i));
            let [mut before, mut last] = [None, None];
            for place in round {
                if let (Some(a), Some(b)) = (before, last) {
                    let [there, on]: [Vector3<f64>; 2] = [b - a, place - b];
                    let sizes = there.norm() * on.norm();
                    let folds = sizes > 0.0 && there.dot(&on) < FOLDED * sizes;
                    figures.folded_edges += usize::from(folds);
                }
                (before, last) = (last, Some(place));
            }
            memory::push(&mut areas, area)?;
        }
        figures.vertices = used.iter().filter(|u| **u).count();
        figures.euler = figures.vertices as i64 - edges;
        figures.non_manifold_vertices = steps.iter().filter(|n| **n > 2).count();
        let all: Vector3<f64> = areas.iter().sum();
        figures.area_mm2 = all.norm();
        figures.cavities = areas.iter().filter(|a| a.dot(&all) < 0.0).count();
        Ok(figures)
    }

    /// Whether every edge has two faces that agree on what is outside, and every vertex one fan of faces; of lines whether
    /// all are closed and none meets another one.
    #[must_use]
    pub fn is_closed_manifold(&self) -> bool {
        (self.triangles > 0 || self.length_mm.is_some())
            && self.boundary_edges == 0
            && self.non_manifold_edges == 0
            && self.non_manifold_vertices == 0
    }

    /// Counts the vertices, and those whose faces are more than one fan.
    fn fans(&mut self, mesh: &Mesh) -> Result<(), OutOfMemory> {
        let mut around: Vec<(u32, u32, u32)> = memory::room(3 * mesh.faces().len())?;
        for &[a, b, c] in mesh.faces() {
            around.extend([(a, b, c), (b, c, a), (c, a, b)]);
        }
        around.sort_unstable();
        for same in around.chunk_by(|p, q| p.0 == q.0) {
            self.vertices += 1;
            // The number of fans: sides opposite to the vertex that are joined at their ends.
            let mut fans = same.len();
            let mut group: Vec<usize> = (0..same.len()).collect();
            let root = |group: &[usize], mut i: usize| {
                while group[i] != i {
                    i = group[i];
                }
                i
            };
            for i in 0..same.len() {
                // Sorted by where sides begin: the one that begins where this one ends.
                let from = same.partition_point(|s| s.1 < same[i].2);
                let on = same[from..].iter().take_while(|s| s.1 == same[i].2).count();
                for j in from..from + on {
                    let (p, q) = (root(&group, i), root(&group, j));
                    if p != q {
                        group[p.max(q)] = p.min(q);
                        fans -= 1;
                    }
                }
            }
            self.non_manifold_vertices += usize::from(fans > 1);
        }
        Ok(())
    }
}

/// Sets of faces that are joined; a set is known by its smallest face.
struct Parts(Vec<u32>);

impl Parts {
    fn new(len: usize) -> Result<Self, OutOfMemory> {
        Ok(Self(memory::collected(0..len as u32)?))
    }

    fn of(&mut self, mut i: u32) -> u32 {
        while self.0[i as usize] != i {
            let on = self.0[self.0[i as usize] as usize];
            self.0[i as usize] = on;
            i = on;
        }
        i
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tetrahedron(shift: f64) -> (Vec<Vector3<f64>>, Vec<[u32; 3]>) {
        let at = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.]];
        let vertices = at.map(|c| Vector3::from(c) + Vector3::repeat(shift)).into();
        (vertices, vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
    }

    #[test]
    fn a_tetrahedron_and_what_can_be_wrong_with_it() {
        let (vertices, faces) = tetrahedron(0.0);
        let of = |vertices: &[Vector3<f64>], faces: &[[u32; 3]]| {
            Figures::of(&Mesh::new(vertices.to_vec(), faces.to_vec()).unwrap()).unwrap()
        };
        let good = of(&vertices, &faces);
        assert!(good.is_closed_manifold());
        assert_eq!((good.vertices, good.components, good.euler, good.genus), (4, 1, 2, Some(0)));
        assert!((good.volume_mm3.unwrap() - 1.0 / 6.0).abs() < 1e-12);

        let open = of(&vertices, &faces[1..]);
        assert_eq!((open.boundary_edges, open.volume_mm3, open.genus), (3, None, None));
        let mut turned = faces.clone();
        turned[2].swap(0, 1);
        assert_eq!(of(&vertices, &turned).non_manifold_edges, 3);
        let inside_out: Vec<_> = faces.iter().map(|&[a, b, c]| [a, c, b]).collect();
        assert_eq!(of(&vertices, &inside_out).cavities, 1);

        // Two that share a vertex, and two that share an edge.
        let (mut all, other) = tetrahedron(0.0);
        all.extend(tetrahedron(-3.0).0.iter().skip(1).copied());
        let shared = other.iter().map(|f| f.map(|i| if i == 0 { 0 } else { i + 3 }));
        let both: Vec<_> = faces.iter().copied().chain(shared).collect();
        let found = of(&all, &both);
        assert_eq!((found.non_manifold_vertices, found.non_manifold_edges), (1, 0));
        assert!(!found.is_closed_manifold() && found.genus.is_none());
        let shared = faces.iter().map(|f| f.map(|i| if i < 2 { i } else { i + 3 }));
        let both: Vec<_> = faces.iter().copied().chain(shared).collect();
        assert_eq!(of(&all, &both).non_manifold_edges, 1);

        // A square that is folded over.
        let flat = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0.1, 0.9, 0.]].map(Vector3::from);
        assert_eq!(of(&flat, &[[0, 1, 2], [1, 0, 3]]).folded_edges, 1);
        assert_eq!(of(&flat, &[[0, 1, 1]]).degenerate_faces, 1);
        assert!(!of(&[], &[]).is_closed_manifold());
    }
}
