//! Mesh decimation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use voxalign_image::memory::{self, OutOfMemory};
use voxalign_image::{ImageError, Matrix3, Mesh, Vector3};

/// End of a list of corners.
const END: u32 = u32::MAX;
/// The least cosine of the angle by which a face may rotate when an edge is collapsed.
const TURN: f64 = 0.2;
/// The least cosine between the normals of neighbouring faces that a collapse changes.
const FOLD: f64 = -0.7;
/// The largest ratio of a face's length to its height, relative to an equilateral one.
const SLIVER: f64 = 0.03;
/// The weight that keeps a new vertex near the middle of its edge, as a fraction of the weight of the planes around
/// it: within a plane every position is equally good.
const NEAR: f64 = 1e-3;

/// A surface of at most this many triangles, where that is possible without changing its topology, by collapsing
/// edges in the order of their cost: the squared distance to the planes of all original faces (M. Garland, P.
/// Heckbert 1997). A collapse that would flip a face, make a sliver or change the topology is not made; boundaries
/// stay. Without data at vertices and without lines.
///
/// # Errors
/// [`ImageError::OutOfMemory`].
pub fn decimated(mesh: &Mesh, triangles: usize) -> Result<Mesh, ImageError> {
    let mut work = Decimation::new(mesh)?;
    work.run(triangles)?;
    work.finish()
}

/// The sum of squared distances to planes: `x A x + 2 b x + c`.
#[derive(Debug, Clone, Copy, Default)]
struct Quadric {
    a: [f64; 6],
    b: Vector3<f64>,
    c: f64,
}

impl Quadric {
    fn of_plane(normal: &Vector3<f64>, at: &Vector3<f64>, weight: f64) -> Self {
        let n = normal;
        let d = -n.dot(at);
        let a = [n[0] * n[0], n[0] * n[1], n[0] * n[2], n[1] * n[1], n[1] * n[2], n[2] * n[2]];
        Self { a: a.map(|v| v * weight), b: n * (d * weight), c: d * d * weight }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            a: std::array::from_fn(|i| self.a[i] + other.a[i]),
            b: self.b + other.b,
            c: self.c + other.c,
        }
    }

    fn matrix(&self) -> Matrix3<f64> {
        let [xx, xy, xz, yy, yz, zz] = self.a;
        Matrix3::new(xx, xy, xz, xy, yy, yz, xz, yz, zz)
    }

    fn at(&self, x: &Vector3<f64>) -> f64 {
        (x.dot(&(self.matrix() * x)) + 2.0 * self.b.dot(x) + self.c).max(0.0)
    }

    /// The place that costs least, near another one where several do.
    fn best(&self, near: &Vector3<f64>) -> Vector3<f64> {
        let weight = NEAR * (self.a[0] + self.a[3] + self.a[5]);
        let matrix = self.matrix() + Matrix3::identity() * weight;
        let found = matrix.try_inverse().map(|inverse| inverse * (near * weight - self.b));
        found.filter(|x| x.iter().all(|v| v.is_finite())).unwrap_or(*near)
    }
}

/// An edge that may be collapsed; the cheapest one is the greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    cost: f64,
    ends: [u32; 2],
    /// How often the ends had changed.
    stamps: [u32; 2],
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .cost
            .total_cmp(&self.cost)
            .then(other.ends.cmp(&self.ends))
            .then(other.stamps.cmp(&self.stamps))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Decimation {
    /// About the middle of the mesh: squares keep their digits.
    positions: Vec<Vector3<f64>>,
    middle: Vector3<f64>,
    quadrics: Vec<Quadric>,
    stamps: Vec<u32>,
    /// Vertices at boundaries, and where surfaces meet.
    is_fixed: Vec<bool>,
    faces: Vec<[u32; 3]>,
    /// Faces that are gone have three times the same vertex.
    left: usize,
    /// The first of the corners of each vertex, and the next one of each corner: corners are numbered through the faces.
    first: Vec<u32>,
    next: Vec<u32>,
    heap: BinaryHeap<Candidate>,
}

impl Decimation {
    fn new(mesh: &Mesh) -> Result<Self, ImageError> {
        let (vertices, faces) = (mesh.vertices(), mesh.faces());
        let middle = mesh.bounds().map_or_else(Vector3::zeros, |[low, high]| (low + high) / 2.0);
        let mut work = Self {
            positions: memory::collected(vertices.iter().map(|v| v - middle))?,
            middle,
            quadrics: memory::filled(vertices.len(), Quadric::default())?,
            stamps: memory::filled(vertices.len(), 0)?,
            is_fixed: memory::filled(vertices.len(), false)?,
            faces: memory::copied(faces)?,
            left: faces.len(),
            first: memory::filled(vertices.len(), END)?,
            next: memory::filled(3 * faces.len(), END)?,
            heap: BinaryHeap::new(),
        };
        if u32::try_from(3 * faces.len()).is_err() {
            return Err(OutOfMemory { bytes: u64::MAX, free: None }.into());
        }
        for (number, face) in work.faces.iter().enumerate() {
            for (corner, &v) in face.iter().enumerate() {
                let at = (3 * number + corner) as u32;
                work.next[at as usize] = work.first[v as usize];
                work.first[v as usize] = at;
            }
            let [a, b, c] = face.map(|v| work.positions[v as usize]);
            let normal = (b - a).cross(&(c - a));
            let size = normal.norm();
            if size > 0.0 {
                // A third of the area at each corner.
                let plane = Quadric::of_plane(&(normal / size), &a, size / 6.0);
                for &v in face {
                    let quadric = &mut work.quadrics[v as usize];
                    *quadric = quadric.plus(&plane);
                }
            }
        }
        Ok(work)
    }

    fn run(&mut self, triangles: usize) -> Result<(), OutOfMemory> {
        if self.left <= triangles {
            return Ok(());
        }
        let mut sides = memory::room(3 * self.faces.len())?;
        for &[a, b, c] in &self.faces {
            sides.extend([(a, b), (b, c), (c, a)].map(|(p, q)| [p.min(q), p.max(q)]));
        }
        sides.sort_unstable();
        let mut edges = memory::room(sides.len() / 2 + 1)?;
        for same in sides.chunk_by(|p, q| p == q) {
            if same.len() != 2 {
                same[0].iter().for_each(|&v| self.is_fixed[v as usize] = true);
            } else {
                memory::push(&mut edges, same[0])?;
            }
        }
        drop(sides);
        let mut all = memory::room(edges.len())?;
        all.extend(edges.iter().map(|&ends| self.candidate(ends)));
        drop(edges);
        self.heap = BinaryHeap::from(all);
        while self.left > triangles {
            let Some(candidate) = self.heap.pop() else { break };
            let is_current =
                (0..2).all(|i| self.stamps[candidate.ends[i] as usize] == candidate.stamps[i]);
            if is_current {
                self.collapse(candidate.ends)?;
            }
        }
        Ok(())
    }

    fn candidate(&self, ends: [u32; 2]) -> Candidate {
        let (quadric, place) = self.place(ends);
        // Among edges in a plane the shortest one goes first.
        let [p, q] = ends.map(|v| self.positions[v as usize]);
        let cost = quadric.at(&place) + 1e-9 * (p - q).norm_squared().powi(2);
        Candidate { cost, ends, stamps: ends.map(|v| self.stamps[v as usize]) }
    }

    fn place(&self, ends: [u32; 2]) -> (Quadric, Vector3<f64>) {
        let [p, q] = ends.map(|v| self.positions[v as usize]);
        let [a, b] = ends.map(|v| self.quadrics[v as usize]);
        let sum = a.plus(&b);
        (sum, sum.best(&((p + q) / 2.0)))
    }

    /// The faces around a vertex.
    fn around(&self, vertex: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.first[vertex as usize];
        std::iter::from_fn(move || {
            while at != END {
                let (corner, face) = (at, at / 3);
                at = self.next[corner as usize];
                if self.faces[face as usize].contains(&vertex)
                    && !is_gone(&self.faces[face as usize])
                {
                    return Some(face);
                }
            }
            None
        })
    }

    /// The vertices that faces connect with one, in order.
    fn neighbours(&self, vertex: u32) -> Vec<u32> {
        let mut all: Vec<u32> = self
            .around(vertex)
            .flat_map(|f| self.faces[f as usize])
            .filter(|v| *v != vertex)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Makes one vertex of the two ends, where that is allowed.
    fn collapse(&mut self, [kept, gone]: [u32; 2]) -> Result<(), OutOfMemory> {
        if self.is_fixed[kept as usize] || self.is_fixed[gone as usize] {
            return Ok(());
        }
        let [near, far] = [kept, gone].map(|v| self.neighbours(v));
        let shared: Vec<u32> =
            near.iter().copied().filter(|v| far.binary_search(v).is_ok()).collect();
        // The two faces of the edge have one vertex more each; any other one that both ends know would become an edge of
        // four faces. A tetrahedron would become flat.
        if shared.len() != 2 || near.len() + far.len() - shared.len() - 2 < 3 {
            return Ok(());
        }
        let (quadric, place) = self.place([kept, gone]);
        let (mut dead, mut changed) = (Vec::new(), Vec::new());
        for (own, other) in [(kept, gone), (gone, kept)] {
            for face in self.around(own) {
                let corners = self.faces[face as usize];
                if corners.contains(&other) {
                    if own == kept {
                        dead.push(face);
                    }
                    continue;
                }
                let before = corners.map(|v| self.positions[v as usize]);
                let after =
                    corners.map(|v| if v == own { place } else { self.positions[v as usize] });
                if !may_become(&before, &after) {
                    return Ok(());
                }
                changed.push((
                    corners.map(|v| if v == gone { kept } else { v }),
                    normal(&after).normalize(),
                ));
            }
        }
        if dead.len() != 2 || self.would_fold(&changed, [kept, gone]) {
            return Ok(());
        }
        for face in dead {
            self.faces[face as usize] = [0; 3];
            self.left -= 1;
        }
        // The corners of the vertex that goes are the other's from now on.
        let mut last = END;
        let mut at = self.first[gone as usize];
        while at != END {
            let face = &mut self.faces[at as usize / 3];
            if !is_gone(face) {
                face[at as usize % 3] = kept;
            }
            (last, at) = (at, self.next[at as usize]);
        }
        if last != END {
            self.next[last as usize] = self.first[kept as usize];
            self.first[kept as usize] = self.first[gone as usize];
            self.first[gone as usize] = END;
        }
        self.positions[kept as usize] = place;
        self.quadrics[kept as usize] = quadric;
        self.stamps[kept as usize] += 1;
        self.stamps[gone as usize] = u32::MAX;
        self.unlink(kept);
        let all = self.neighbours(kept);
        if self.heap.capacity() - self.heap.len() < all.len() {
            let more = self.heap.len().max(1024);
            let heap = &mut self.heap;
            memory::ask::<Candidate, _>(more, || heap.try_reserve(more).ok())?;
        }
        for v in all {
            let candidate = self.candidate([kept.min(v), kept.max(v)]);
            self.heap.push(candidate);
        }
        Ok(())
    }

    /// Whether faces that a collapse changes would overlap each other, or those around them. They have their new
    /// normals, and the vertex that is kept.
    fn would_fold(&self, changed: &[([u32; 3], Vector3<f64>)], [kept, gone]: [u32; 2]) -> bool {
        changed.iter().enumerate().any(|(i, (face, normal_of_face))| {
            let shares = |other: &[u32; 3]| face.iter().filter(|v| other.contains(v)).count() == 2;
            let beside = changed[..i].iter().filter(|(other, _)| shares(other)).map(|(_, n)| *n);
            // Across the side that is opposite to the vertex.
            let others =
                face.iter().find(|v| **v != kept).into_iter().flat_map(|v| self.around(*v));
            let across = others
                .map(|f| self.faces[f as usize])
                .filter(|other| !other.contains(&kept) && !other.contains(&gone) && shares(other));
            let across =
                across.map(|other| normal(&other.map(|v| self.positions[v as usize])).normalize());
            beside.chain(across).any(|n| normal_of_face.dot(&n) < FOLD)
        })
    }

    /// Takes corners of faces that are gone out of a vertex' list.
    fn unlink(&mut self, vertex: u32) {
        let mut before = END;
        let mut at = self.first[vertex as usize];
        while at != END {
            let on = self.next[at as usize];
            if is_gone(&self.faces[at as usize / 3]) {
                match before {
                    END => self.first[vertex as usize] = on,
                    corner => self.next[corner as usize] = on,
                }
            } else {
                before = at;
            }
            at = on;
        }
    }

    /// The remaining mesh.
    fn finish(self) -> Result<Mesh, ImageError> {
        let mut to = memory::filled(self.positions.len(), END)?;
        let (mut vertices, mut faces) = (Vec::new(), memory::room(self.left)?);
        for face in self.faces.iter().filter(|face| !is_gone(face)) {
            let mut named = [0; 3];
            for (name, &v) in named.iter_mut().zip(face) {
                if to[v as usize] == END {
                    to[v as usize] = vertices.len() as u32;
                    memory::push(&mut vertices, self.positions[v as usize] + self.middle)?;
                }
                *name = to[v as usize];
            }
            faces.push(named);
        }
        Mesh::new(vertices, faces)
    }
}

fn is_gone(face: &[u32; 3]) -> bool {
    face[0] == face[1] && face[1] == face[2]
}

fn normal([a, b, c]: &[Vector3<f64>; 3]) -> Vector3<f64> {
    (b - a).cross(&(c - a))
}

/// Whether a face may change like this: it is not flipped, and not a sliver unless it was one.
fn may_become(before: &[Vector3<f64>; 3], after: &[Vector3<f64>; 3]) -> bool {
    let shape = |corners: &[Vector3<f64>; 3], size: f64| {
        let [a, b, c] = corners;
        let longest =
            (b - a).norm_squared().max((c - b).norm_squared()).max((a - c).norm_squared());
        if longest > 0.0 { size / longest } else { 0.0 }
    };
    let [old, new] = [normal(before), normal(after)];
    let [was, is] = [old.norm(), new.norm()];
    if is <= 0.0 {
        return false;
    }
    let turned = was > 0.0 && old.dot(&new) < TURN * was * is;
    let [was, is] = [shape(before, was), shape(after, is)];
    !turned && is >= SLIVER.min(was)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, isosurface, smoothed};
    use voxalign_image::{Grid, Volume};

    fn bean() -> Mesh {
        let grid = Grid::axis_aligned([36, 30, 24], [1.0, 1.0, 1.5]).unwrap();
        let image = Volume::from_fn(grid, |x, y, z| {
            let [x, y, z] = [x as f64 - 17.0, y as f64 - 14.0, 1.5 * (z as f64 - 11.0)];
            let bent = y - 0.03 * x * x + 3.0;
            (1.0 - (x * x / 190.0 + bent * bent / 49.0 + z * z / 60.0)) as f32
        });
        isosurface(&image, 0.0).unwrap()
    }

    #[test]
    fn fewer_triangles_are_the_same_surface() {
        let mesh = smoothed(&bean(), 5).unwrap();
        let whole = Figures::of(&mesh).unwrap();
        for target in [mesh.faces().len() / 2, 500, 100] {
            let few = decimated(&mesh, target).unwrap();
            let figures = Figures::of(&few).unwrap();
            assert!(few.faces().len() <= target && few.faces().len() + 2 >= target);
            assert!(figures.is_closed_manifold() && figures.genus == Some(0), "{figures:?}");
            assert_eq!((figures.folded_edges, figures.vertices), (0, few.vertices().len()));
            let change = figures.volume_mm3.unwrap() / whole.volume_mm3.unwrap() - 1.0;
            assert!(change.abs() < if target > 400 { 0.01 } else { 0.04 }, "{target}: {change}");
        }
        assert_eq!(decimated(&mesh, 1_000_000).unwrap().faces().len(), mesh.faces().len());
        // It ends where nothing more can go.
        let least = decimated(&mesh, 0).unwrap();
        assert!(Figures::of(&least).unwrap().is_closed_manifold() && least.faces().len() >= 4);
    }

    #[test]
    fn planes_lose_all_but_their_corners_and_keep_their_place() {
        let grid = Grid::axis_aligned([12, 12, 12], [1.0; 3]).unwrap();
        let cube = isosurface(&Volume::filled(grid, 1.0), 0.5).unwrap();
        let few = decimated(&cube, 60).unwrap();
        let volume = |m: &Mesh| Figures::of(m).unwrap().volume_mm3.unwrap();
        assert!(
            (volume(&few) / volume(&cube) - 1.0).abs() < 1e-3,
            "{} {}",
            volume(&few),
            volume(&cube)
        );
    }

    #[test]
    fn open_surfaces_keep_their_boundary_and_handles_stay() {
        let mesh = bean();
        let half: Vec<_> = mesh
            .faces()
            .iter()
            .copied()
            .filter(|f| f.iter().any(|v| mesh.vertices()[*v as usize][0] > 17.0))
            .collect();
        let open = Mesh::new(mesh.vertices().to_vec(), half).unwrap();
        let few = decimated(&open, 400).unwrap();
        let [before, after] = [&open, &few].map(|m| Figures::of(m).unwrap());
        assert_eq!(before.boundary_edges, after.boundary_edges);
        assert_eq!((before.euler, after.non_manifold_edges), (after.euler, 0));
        let grid = Grid::axis_aligned([26, 26, 9], [1.0; 3]).unwrap();
        let ring = Volume::from_fn(grid, |x, y, z| {
            let [x, y, z] = [x as f64 - 12.5, y as f64 - 12.5, z as f64 - 4.0];
            (3.0 - (x.hypot(y) - 8.0).hypot(z)) as f32
        });
        let ring = decimated(&isosurface(&ring, 0.0).unwrap(), 80).unwrap();
        let figures = Figures::of(&ring).unwrap();
        assert!(figures.is_closed_manifold() && figures.genus == Some(1), "{figures:?}");
    }
}
