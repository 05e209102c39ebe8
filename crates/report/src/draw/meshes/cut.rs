//! Intersections of meshes with the planes of pictures.

use crate::draw::contour::chained;
use crate::draw::plane::Plane;
use std::collections::BTreeMap;
use voxalign_image::{Grid, Mesh, Vector3};

/// An edge by its two vertices, the smaller one first.
type Edge = (u32, u32);

/// The intersection of a mesh with a plane, in pixels of its picture.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Cut {
    /// Where faces cross it, and what of curves is near it.
    pub(super) lines: Vec<Vec<[f64; 2]>>,
    /// Points that are near it.
    pub(super) points: Vec<[f64; 2]>,
}

/// A plane with the way from the world to its pixels.
pub(super) struct Screen<'a> {
    grid: &'a Grid,
    plane: &'a Plane,
    /// The axis of each side, the index at the middle of the first pixel, and the pixels a voxel.
    sides: [(usize, f64, f64); 2],
    /// The largest distance of curves and points from the plane, voxels.
    near: f64,
}

impl<'a> Screen<'a> {
    /// Of a plane of a picture of an image on this grid.
    pub(super) fn new(grid: &'a Grid, plane: &'a Plane) -> Self {
        let sides = plane.sides().map(|(axis, middle)| {
            let first = middle.first().copied().unwrap_or_default();
            let step = match middle {
                [a, .., b] => (b - a) / (middle.len() - 1) as f64,
                _ => grid.dims()[axis] as f64,
            };
            (axis, first, 1.0 / step)
        });
        let spacing = grid.spacing()[plane.axis];
        // Half a voxel, or 1 mm where voxels are thin.
        let near =
            if grid.dims()[plane.axis] > 1 { (1.0 / spacing).max(0.5) } else { f64::INFINITY };
        Self { grid, plane, sides, near }
    }

    /// The pixel of an index, across and down.
    fn pixel(&self, index: Vector3<f64>) -> [f64; 2] {
        self.sides.map(|(axis, first, scale)| (index[axis] - first) * scale + 0.5)
    }

    /// The signed distance of an index from the plane, voxels; 0 counts as beyond it.
    fn height(&self, index: &Vector3<f64>) -> f64 {
        index[self.plane.axis] - self.plane.slice as f64
    }

    /// The intersection of a mesh.
    pub(super) fn cut(&self, mesh: &Mesh) -> Cut {
        let mut cut = Cut { lines: self.faces(mesh), points: Vec::new() };
        let at = |i: u32| mesh.vertices().get(i as usize).map(|v| self.grid.world_to_index(*v));
        for line in mesh.lines() {
            let mut part: Vec<[f64; 2]> = Vec::new();
            for &i in line {
                let Some(index) = at(i) else { continue };
                if self.height(&index).abs() <= self.near {
                    part.push(self.pixel(index));
                } else {
                    cut.keep(std::mem::take(&mut part));
                }
            }
            cut.keep(part);
        }
        if mesh.faces().is_empty() && mesh.line_ends().is_empty() {
            let indices = mesh.vertices().iter().map(|v| self.grid.world_to_index(*v));
            let near = indices.filter(|index| self.height(index).abs() <= self.near);
            cut.points = near.map(|index| self.pixel(index)).collect();
        }
        cut
    }

    /// The lines on which faces cross the plane.
    fn faces(&self, mesh: &Mesh) -> Vec<Vec<[f64; 2]>> {
        let [row_x, row_y, row_z] = self.grid.to_index().rows();
        let row = [row_x, row_y, row_z][self.plane.axis];
        let offset = row[3] - self.plane.slice as f64;
        let side = |i: u32| {
            let v = mesh.vertices().get(i as usize).copied().unwrap_or_default();
            row[0] * v[0] + row[1] * v[1] + row[2] * v[2] + offset >= 0.0
        };
        // For each edge that is crossed, the edges that lines go on to; more than two where sheets meet.
        let mut next: BTreeMap<Edge, Vec<Edge>> = BTreeMap::new();
        for face in mesh.faces() {
            let above = face.map(side);
            if above[0] == above[1] && above[1] == above[2] {
                continue;
            }
            let crossed = (0..3).filter(|&e| above[e] != above[(e + 1) % 3]).map(|e| {
                let (a, b) = (face[e], face[(e + 1) % 3]);
                (a.min(b), a.max(b))
            });
            if let [a, b] = crossed.collect::<Vec<_>>()[..]
                && a != b
            {
                next.entry(a).or_default().push(b);
                next.entry(b).or_default().push(a);
            }
        }
        let point = |(a, b): Edge| {
            let [p, q] = [a, b].map(|i| {
                let v = mesh.vertices().get(i as usize).copied().unwrap_or_default();
                self.grid.world_to_index(v)
            });
            let (from, to) = (self.height(&p), self.height(&q));
            let part = if from == to { 0.5 } else { (from / (from - to)).clamp(0.0, 1.0) };
            self.pixel(p + (q - p) * part)
        };
        chained(next, point)
    }
}

impl Cut {
    /// Keeps a part of a curve: as a line, or a point where it is one.
    fn keep(&mut self, part: Vec<[f64; 2]>) {
        match part[..] {
            [] => {}
            [one] => self.points.push(one),
            _ => self.lines.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::plane::planes;
    use voxalign_image::{Affine, Matrix3};

    fn tetrahedron(scale: f64) -> Mesh {
        let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.]];
        let corners = corners.map(|c| Vector3::from(c) * scale);
        Mesh::new(corners.into(), vec![[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]).unwrap()
    }

    #[test]
    fn a_cut_is_a_closed_line_where_the_surface_is_closed() {
        // Flipped and anisotropic: one voxel is 2 x 1 x 4 mm.
        let matrix = Matrix3::new(-2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 4.0);
        let grid =
            Grid::new([20, 40, 10], Affine::new(matrix, Vector3::new(40.0, 0.0, 0.0))).unwrap();
        let plane = &planes(&grid, [10, 20, 2])[0];
        assert_eq!((plane.name, plane.slice), ("axial", 2));
        let cut = Screen::new(&grid, plane).cut(&tetrahedron(32.0));
        assert_eq!((cut.lines.len(), cut.points.len()), (1, 0));
        let line = &cut.lines[0];
        assert_eq!((line.len(), line[0]), (4, line[3]));
        // At z = 8 mm the cut has the corners (0, 0), (24, 0) and (0, 24) mm; x grows to the left, y upwards.
        let scale = plane.width() as f64 / 40.0;
        let expect = |x: f64, y: f64| [(42.0 - 1.0 - x) * scale, (39.5 - y) * scale];
        let mut found: Vec<_> = line[..3].to_vec();
        let mut wanted = [expect(0.0, 0.0), expect(24.0, 0.0), expect(0.0, 24.0)].to_vec();
        for list in [&mut found, &mut wanted] {
            list.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
        }
        let far = found.iter().zip(&wanted).map(|(a, b)| (a[0] - b[0]).hypot(a[1] - b[1]));
        assert!(far.fold(0.0, f64::max) < 1e-9, "{found:?} {wanted:?}");
    }

    #[test]
    fn open_surfaces_curves_and_points() {
        let grid = Grid::axis_aligned([20, 20, 20], [1.0; 3]).unwrap();
        let plane = &planes(&grid, [10, 10, 4])[0];
        let screen = Screen::new(&grid, plane);
        let closed = tetrahedron(12.0);
        let open = Mesh::new(closed.vertices().to_vec(), closed.faces()[..3].to_vec()).unwrap();
        let cut = screen.cut(&open);
        assert_eq!((cut.lines.len(), cut.lines[0].len()), (1, 3));
        // Three sheets that meet in an edge: all of their lines are drawn.
        let at = |x: f64, y: f64, z: f64| Vector3::new(x, y, z);
        let vertices =
            vec![at(5., 5., 0.), at(5., 5., 9.), at(9., 5., 4.), at(2., 9., 4.), at(2., 1., 4.)];
        let fan = Mesh::new(vertices, vec![[0, 1, 2], [0, 1, 3], [0, 1, 4]]).unwrap();
        let steps: usize = screen.cut(&fan).lines.iter().map(|l| l.len() - 1).sum();
        assert_eq!(steps, 3);
        let mut curve =
            vec![at(1., 1., 0.), at(2., 1., 3.5), at(3., 1., 4.), at(4., 1., 9.), at(5., 1., 4.)];
        let mesh = Mesh::new(curve.clone(), vec![]).unwrap();
        let lines = mesh.clone().with_lines(vec![5], vec![0, 1, 2, 3, 4]).unwrap();
        let cut = screen.cut(&lines);
        assert_eq!((cut.lines.len(), cut.lines[0].len(), cut.points.len()), (1, 2, 1));
        assert_eq!(screen.cut(&mesh).points.len(), 3);
        curve.clear();
        assert_eq!(screen.cut(&Mesh::default()), Cut::default());
    }
}
