//! Isocontours of 2D images.

use crate::isosurface::part;
use voxalign_image::memory::{self, OutOfMemory};
use voxalign_image::{ImageError, Mesh, Vector3, Volume};

/// No vertex.
const NONE: u32 = u32::MAX;

/// The outlines around all pixels of the first slice of an image whose value is at least `level`, linear between
/// the centres of pixels: closed lines, each with its first vertex repeated at its end, with the inside on their
/// left seen from the tip of the third axis of the grid. Empty if there is no such pixel.
///
/// No line meets itself or another one: pixels that touch along a diagonal alone are apart. Holes have lines of their own,
/// which go round the other way. Where pixels reach the border of the image, the line is half a pixel outside of their
/// centres. What is not a number is outside. (Marching squares, as [`isosurface`](crate::isosurface()) in two dimensions.)
///
/// # Errors
/// [`ImageError::OutOfMemory`].
pub fn outlines(image: &Volume<f32>, level: f32) -> Result<Mesh, ImageError> {
    let mut march = March::new(image, level)?;
    let [width, height] = march.size;
    for y in 0..height - 1 {
        for x in 0..width - 1 {
            march.cell(x, y)?;
        }
    }
    let (ends, mut line) = march.lines()?;
    if !image.grid().is_right_handed() {
        let mut start = 0;
        for &end in &ends {
            line[start..end].reverse();
            start = end;
        }
    }
    Mesh::new(march.vertices, Vec::new())?.with_lines(ends, line)
}

/// A walk through the cells of an image with a border of one pixel that is outside.
struct March<'a> {
    image: &'a Volume<f32>,
    level: f32,
    /// Pixels along a row and rows, with the border.
    size: [usize; 2],
    /// The vertices on edges along x and y.
    along: [Vec<u32>; 2],
    vertices: Vec<Vector3<f64>>,
    /// The vertex after each.
    next: Vec<u32>,
}

impl<'a> March<'a> {
    fn new(image: &'a Volume<f32>, level: f32) -> Result<Self, OutOfMemory> {
        let [nx, ny, _] = image.dims();
        let size = [nx + 2, ny + 2];
        let edges = || memory::filled(size[0] * size[1], NONE);
        let along = [edges()?, edges()?];
        Ok(Self { image, level, size, along, vertices: Vec::new(), next: Vec::new() })
    }

    /// The value of a pixel; none at the border around the image.
    fn value(&self, [x, y]: [usize; 2]) -> Option<f32> {
        let [nx, ny, _] = self.image.dims();
        let [x, y] = [x.wrapping_sub(1), y.wrapping_sub(1)];
        let is_in = x < nx && y < ny;
        is_in.then(|| self.image.data()[y * nx + x])
    }

    /// The lines through the cell between four pixels.
    fn cell(&mut self, x: usize, y: usize) -> Result<(), OutOfMemory> {
        // Counterclockwise; edge `i` is from corner `i` to the next.
        let corners = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1]];
        let inside = corners.map(|at| self.value(at).is_some_and(|v| v >= self.level));
        for i in 0..4 {
            if inside[i] || !inside[(i + 1) % 4] {
                continue;
            }
            // A run of corners inside begins after edge `i`: the line comes in where the run ends.
            let last = (1..4).find(|n| !inside[(i + 1 + n) % 4]).unwrap_or(3);
            let from = self.vertex(corners, (i + last) % 4)?;
            let to = self.vertex(corners, i)?;
            self.next[from as usize] = to;
        }
        Ok(())
    }

    /// The vertex on an edge of a cell, created on demand.
    fn vertex(&mut self, corners: [[usize; 2]; 4], edge: usize) -> Result<u32, OutOfMemory> {
        let (a, b) = (corners[edge], corners[(edge + 1) % 4]);
        let (start, end) = (a.min(b), a.max(b));
        let axis = usize::from(start[0] == end[0]);
        let i = start[1] * self.size[0] + start[0];
        let found = self.along[axis][i];
        if found != NONE {
            return Ok(found);
        }
        let mut index = Vector3::new(start[0] as f64 - 1.0, start[1] as f64 - 1.0, 0.0);
        index[axis] += part(self.level, self.value(start), self.value(end));
        let vertex = u32::try_from(self.vertices.len()).ok().filter(|i| *i != NONE);
        let vertex = vertex.ok_or(OutOfMemory { bytes: u64::MAX, free: None })?;
        memory::push(&mut self.vertices, self.image.grid().index_to_world(index))?;
        memory::push(&mut self.next, NONE)?;
        self.along[axis][i] = vertex;
        Ok(vertex)
    }

    /// Where lines end, and their vertices; each begins with its first one.
    fn lines(&mut self) -> Result<(Vec<usize>, Vec<u32>), OutOfMemory> {
        let (mut ends, mut all) = (Vec::new(), Vec::new());
        for start in 0..self.next.len() as u32 {
            let mut at = start;
            while let Some(next) = self.next.get_mut(at as usize).filter(|n| **n != NONE) {
                memory::push(&mut all, at)?;
                at = std::mem::replace(next, NONE);
            }
            if ends.last().copied().unwrap_or(0) < all.len() {
                memory::push(&mut all, start)?;
                memory::push(&mut ends, all.len())?;
            }
        }
        Ok((ends, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, smoothed};
    use proptest::prelude::*;
    use std::f64::consts::PI;
    use voxalign_image::{Affine, Grid, Matrix3};

    /// A grid that is oblique, anisotropic and, where asked for, flipped.
    fn turned(dims: [usize; 2], flipped: bool) -> Grid {
        let (s, c) = 0.4f64.sin_cos();
        let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
        let size = Vector3::new(if flipped { -0.5 } else { 0.5 }, 0.7, 1.0);
        let matrix = turn * Matrix3::from_diagonal(&size);
        Grid::new([dims[0], dims[1], 1], Affine::new(matrix, Vector3::new(-3.0, 8.0, 2.0))).unwrap()
    }

    fn disc(grid: &Grid, radius: f64) -> Volume<f32> {
        let centre = grid.centre();
        Volume::from_fn(grid.clone(), |x, y, z| {
            let at = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            (radius - (at - centre).norm()) as f32
        })
    }

    /// Twice the area that a line goes round counterclockwise, seen from above.
    fn twice_area(mesh: &Mesh, line: &[u32]) -> f64 {
        let at = |i: u32| mesh.vertices()[i as usize];
        line.windows(2).map(|s| at(s[0])[0] * at(s[1])[1] - at(s[0])[1] * at(s[1])[0]).sum()
    }

    #[test]
    fn a_disc_has_its_length_and_area_and_its_inside_on_the_left() {
        for flipped in [false, true] {
            let grid = turned([60, 44], flipped);
            let mesh = outlines(&disc(&grid, 10.0), 0.0).unwrap();
            let lines: Vec<_> = mesh.lines().collect();
            assert_eq!(lines.len(), 1);
            assert_eq!(lines[0].first(), lines[0].last());
            assert!((mesh.length() / (20.0 * PI) - 1.0).abs() < 0.005, "{}", mesh.length());
            let area = twice_area(&mesh, lines[0]) / 2.0;
            assert!((area / (100.0 * PI) - 1.0).abs() < 0.005, "{area}");
            let far = mesh.vertices().iter().map(|v| ((v - grid.centre()).norm() - 10.0).abs());
            assert!(far.fold(0.0, f64::max) < 0.05);
            let figures = Figures::of(&mesh).unwrap();
            assert!(figures.is_closed_manifold(), "{figures:?}");
            assert!((figures.area_mm2 - area).abs() < 1e-9);
            assert_eq!((figures.components, figures.cavities, figures.volume_mm3), (1, 0, None));
        }
    }

    #[test]
    fn stairs_of_labels_are_smoothed_and_keep_the_area() {
        let grid = turned([60, 44], false);
        let labels = disc(&grid, 10.0).map(|v| f32::from(u8::from(*v >= 0.0)));
        let stairs = outlines(&labels, 0.5).unwrap();
        let round = smoothed(&stairs, 15).unwrap();
        let [a, b] = [&stairs, &round].map(|m| Figures::of(m).unwrap());
        let wanted = [20.0 * PI, 100.0 * PI];
        assert!(a.length_mm.unwrap() > 1.04 * wanted[0], "{a:?}");
        assert!((b.length_mm.unwrap() / wanted[0] - 1.0).abs() < 0.02, "{b:?}");
        assert!((b.area_mm2 / wanted[1] - 1.0).abs() < 0.02, "{b:?}");
        assert_eq!(round.line_vertices(), stairs.line_vertices());
    }

    #[test]
    fn holes_go_round_the_other_way_and_diagonals_are_apart() {
        let grid = Grid::axis_aligned([9, 9, 1], [1.0; 3]).unwrap();
        let ring = Volume::from_fn(grid, |x, y, _| {
            f32::from(u8::from((2..=3).contains(&x.abs_diff(4).max(y.abs_diff(4)))))
        });
        let mesh = outlines(&ring, 0.5).unwrap();
        let areas: Vec<f64> = mesh.lines().map(|l| twice_area(&mesh, l)).collect();
        assert!(areas.len() == 2 && areas[0] > 0.0 && areas[1] < 0.0, "{areas:?}");
        let figures = Figures::of(&mesh).unwrap();
        assert_eq!((figures.components, figures.cavities), (2, 1));
        // Squares of 7 and 3 pixels with their corners cut.
        assert_eq!(figures.area_mm2, 49.0 - 0.5 - (9.0 - 0.5));
        let grid = Grid::axis_aligned([2, 2, 1], [1.0, 2.0, 1.0]).unwrap();
        let two = Volume::new(grid.clone(), vec![1.0, 0.0, 0.0, 1.0]).unwrap();
        let mesh = outlines(&two, 0.5).unwrap();
        assert_eq!((mesh.lines().count(), mesh.vertices().len()), (2, 8));
        // The border is half a pixel outside.
        let full = outlines(&Volume::filled(grid.clone(), 1.0), 0.5).unwrap();
        let [low, high] = full.bounds().unwrap();
        assert_eq!((low, high), (Vector3::new(-0.5, -1.0, 0.0), Vector3::new(1.5, 3.0, 0.0)));
        assert!(outlines(&Volume::filled(grid.clone(), 1.0), 2.0).unwrap().is_empty());
        assert!(outlines(&Volume::filled(grid, f32::NAN), 0.0).unwrap().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Noise has all cases, at the border, too.
        #[test]
        fn any_pixels_give_closed_lines_that_do_not_meet(seed in any::<u64>(), density in 0.05..0.95f64) {
            let mut state = seed | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let image = Volume::from_fn(turned([9, 7], seed % 2 == 0), |_, _, _| (density - next()) as f32);
            let mesh = outlines(&image, 0.0).unwrap();
            if !mesh.is_empty() {
                let figures = Figures::of(&mesh).unwrap();
                prop_assert!(figures.is_closed_manifold(), "{:?}", figures);
                prop_assert_eq!(figures.vertices, mesh.vertices().len());
                let all: f64 = mesh.lines().map(|l| twice_area(&mesh, l) / 2.0).sum();
                prop_assert!(all > 0.0 && (all - figures.area_mm2).abs() < 1e-9);
            }
        }
    }
}
