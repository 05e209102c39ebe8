//! Isosurface extraction.

use crate::cases::{Case, Corner, cases, edge};
use voxalign_image::memory::{self, OutOfMemory};
use voxalign_image::{ImageError, Mesh, Vector3, Volume};

/// Vertices keep this distance from voxels' centres, as a fraction of an edge, so that every triangle has an area.
const APART: f64 = 0.005;
/// No vertex yet.
const NONE: u32 = u32::MAX;

/// The surface around all voxels whose value is at least `level`, linear between the centres of voxels, its faces
/// counterclockwise from outside; empty if there is no such voxel.
///
/// It is closed, also where these voxels reach the border of the image, which it follows half a voxel outside of their
/// centres, and a manifold: each edge has two faces, each vertex one fan of them. Voxels that touch along a diagonal
/// alone are apart. What is not a number is outside.
///
/// # Errors
/// [`ImageError::OutOfMemory`].
pub fn isosurface(image: &Volume<f32>, level: f32) -> Result<Mesh, ImageError> {
    let mut march = March::new(image, level)?;
    let (depth, all) = (image.dims()[2], cases());
    march.fill(0, 0);
    for z in 0..=depth {
        march.fill(z + 1, 1);
        march.slab(z, &all)?;
        march.advance();
    }
    let March { vertices, faces, .. } = march;
    let mesh = Mesh::new(vertices, faces)?;
    Ok(if image.grid().is_right_handed() { mesh } else { mesh.flipped() })
}

/// A walk through the cells of an image with a border of one voxel that is outside.
struct March<'a> {
    image: &'a Volume<f32>,
    level: f32,
    /// Voxels along a row and rows, with the border.
    size: [usize; 2],
    /// Which voxels of the lower and the upper slice of cells are inside.
    inside: [Vec<u8>; 2],
    /// The vertices on edges along x and y of both slices, and along z between them.
    along: [[Vec<u32>; 2]; 2],
    upwards: Vec<u32>,
    vertices: Vec<Vector3<f64>>,
    faces: Vec<[u32; 3]>,
}

impl<'a> March<'a> {
    fn new(image: &'a Volume<f32>, level: f32) -> Result<Self, OutOfMemory> {
        let [nx, ny, _] = image.dims();
        let size = [nx + 2, ny + 2];
        let flags = || memory::filled(size[0] * size[1], 0u8);
        let edges = || memory::filled(size[0] * size[1], NONE);
        Ok(Self {
            image,
            level,
            size,
            inside: [flags()?, flags()?],
            along: [[edges()?, edges()?], [edges()?, edges()?]],
            upwards: edges()?,
            vertices: Vec::new(),
            faces: Vec::new(),
        })
    }

    /// Sees which voxels of a slice are inside; slices are counted from the border.
    fn fill(&mut self, slice: usize, to: usize) {
        let [nx, ny, nz] = self.image.dims();
        self.inside[to].fill(0);
        if slice == 0 || slice > nz {
            return;
        }
        let rows = self.image.data()[(slice - 1) * nx * ny..][..nx * ny].chunks_exact(nx);
        let flags = self.inside[to].chunks_exact_mut(self.size[0]).skip(1);
        for (flags, row) in flags.zip(rows) {
            for (flag, value) in flags[1..].iter_mut().zip(row) {
                *flag = u8::from(*value >= self.level);
            }
        }
    }

    /// The upper slice becomes the lower one.
    fn advance(&mut self) {
        self.inside.swap(0, 1);
        self.along.swap(0, 1);
        self.along[1].iter_mut().for_each(|edges| edges.fill(NONE));
        self.upwards.fill(NONE);
    }

    /// All cells above a slice.
    fn slab(&mut self, z: usize, all: &[Case]) -> Result<(), OutOfMemory> {
        let [width, height] = self.size;
        for y in 0..height - 1 {
            for x in 0..width - 1 {
                let i = y * width + x;
                let four = |flags: &[u8]| {
                    flags[i] | flags[i + 1] << 1 | flags[i + width] << 2 | flags[i + width + 1] << 3
                };
                let inside = four(&self.inside[0]) | four(&self.inside[1]) << 4;
                if inside != 0 && inside != 255 {
                    self.cell([x, y, z], &all[usize::from(inside)])?;
                }
            }
        }
        Ok(())
    }

    fn cell(&mut self, at: [usize; 3], case: &Case) -> Result<(), OutOfMemory> {
        let mut middles = [NONE; 4];
        for (middle, polygon) in middles.iter_mut().zip(&case.middles) {
            let mut sum = Vector3::zeros();
            for &number in polygon {
                let vertex = self.vertex(at, number)?;
                sum += self.vertices[vertex as usize];
            }
            *middle = self.push(sum / polygon.len() as f64)?;
        }
        for triangle in &case.triangles {
            let mut face = [0; 3];
            for (index, corner) in face.iter_mut().zip(triangle) {
                *index = match *corner {
                    Corner::Edge(number) => self.vertex(at, number)?,
                    Corner::Middle(number) => middles[usize::from(number)],
                };
            }
            memory::push(&mut self.faces, face)?;
        }
        Ok(())
    }

    /// The vertex on an edge of a cell, created on demand.
    fn vertex(&mut self, cell: [usize; 3], number: u8) -> Result<u32, OutOfMemory> {
        let edge = edge(number);
        let start: [usize; 3] =
            std::array::from_fn(|a| cell[a] + usize::from(edge.corner >> a & 1));
        let i = start[1] * self.size[0] + start[0];
        let found = match edge.axis {
            2 => self.upwards[i],
            axis => self.along[usize::from(edge.corner >> 2)][axis][i],
        };
        if found != NONE {
            return Ok(found);
        }
        let mut end = start;
        end[edge.axis] += 1;
        let mut index = Vector3::from_fn(|a, _| start[a] as f64 - 1.0);
        index[edge.axis] += self.part(start, end);
        let vertex = self.push(self.image.grid().index_to_world(index))?;
        match edge.axis {
            2 => self.upwards[i] = vertex,
            axis => self.along[usize::from(edge.corner >> 2)][axis][i] = vertex,
        }
        Ok(vertex)
    }

    /// Where on the way from one voxel to the next the level is.
    fn part(&self, start: [usize; 3], end: [usize; 3]) -> f64 {
        let [nx, ny, nz] = self.image.dims();
        let value = |at: [usize; 3]| {
            let [x, y, z] = at.map(|c| c.wrapping_sub(1));
            let is_in = x < nx && y < ny && z < nz;
            is_in.then(|| self.image.data()[(z * ny + y) * nx + x])
        };
        part(self.level, value(start), value(end))
    }

    fn push(&mut self, vertex: Vector3<f64>) -> Result<u32, OutOfMemory> {
        let index = u32::try_from(self.vertices.len()).ok().filter(|i| *i != NONE);
        let index = index.ok_or(OutOfMemory { bytes: u64::MAX, free: None })?;
        memory::push(&mut self.vertices, vertex)?;
        Ok(index)
    }
}

/// The position of a level between two values: halfway at borders and beside NaN.
pub(crate) fn part(level: f32, from: Option<f32>, to: Option<f32>) -> f64 {
    let part = match (from, to) {
        (Some(a), Some(b)) => {
            let [level, a, b] = [level, a, b].map(f64::from);
            (level - a) / (b - a)
        }
        _ => 0.5,
    };
    if part.is_nan() { 0.5 } else { part.clamp(APART, 1.0 - APART) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Figures;
    use proptest::prelude::*;
    use voxalign_image::{Affine, Grid, Matrix3};

    /// A grid that is oblique, anisotropic and, where it is asked for, flipped.
    fn oblique(dims: [usize; 3], flipped: bool) -> Grid {
        let (s, c) = 0.4f64.sin_cos();
        let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0)
            * Matrix3::new(1.0, 0.0, 0.0, 0.0, c, -s, 0.0, s, c);
        let size = Vector3::new(if flipped { -0.8 } else { 0.8 }, 1.0, 2.5);
        let matrix = turn * Matrix3::from_diagonal(&size);
        Grid::new(dims, Affine::new(matrix, Vector3::new(-30.0, 12.0, 55.0))).unwrap()
    }

    #[test]
    fn a_ball_on_any_grid_has_its_volume_and_place() {
        for flipped in [false, true] {
            let grid = oblique([40, 32, 16], flipped);
            let centre = grid.centre();
            let ball = Volume::from_fn(grid.clone(), |x, y, z| {
                let at = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
                (10.0 - (at - centre).norm()) as f32
            });
            let mesh = isosurface(&ball, 0.0).unwrap();
            let figures = Figures::of(&mesh).unwrap();
            assert!(figures.is_closed_manifold(), "{figures:?}");
            assert_eq!((figures.components, figures.genus), (1, Some(0)));
            let volume = figures.volume_mm3.unwrap() / (4.0 / 3.0 * std::f64::consts::PI * 1000.0);
            assert!((volume - 1.0).abs() < 0.02, "{volume}");
            let far = mesh.vertices().iter().map(|v| ((v - centre).norm() - 10.0).abs());
            assert!(far.fold(0.0, f64::max) < 0.15);
        }
    }

    #[test]
    fn borders_are_closed_and_lie_half_a_voxel_outside() {
        let grid = Grid::axis_aligned([3, 4, 5], [1.0, 2.0, 3.0]).unwrap();
        let full = Volume::filled(grid, 1.0);
        let mesh = isosurface(&full, 0.5).unwrap();
        let [low, high] = mesh.bounds().unwrap();
        assert_eq!((low, high), (Vector3::new(-0.5, -1.0, -1.5), Vector3::new(2.5, 7.0, 13.5)));
        let figures = Figures::of(&mesh).unwrap();
        assert!(figures.is_closed_manifold() && figures.volume_mm3.unwrap() > 0.0);
        assert!(isosurface(&full, 2.0).unwrap().is_empty());
        let nan = Volume::filled(full.grid().clone(), f32::NAN);
        assert!(isosurface(&nan, 0.5).unwrap().is_empty());
    }

    #[test]
    fn a_ring_has_a_hole_and_a_shell_a_cavity() {
        let grid = Grid::axis_aligned([9, 9, 3], [1.0; 3]).unwrap();
        let ring = Volume::from_fn(grid, |x, y, z| {
            let (x, y) = (x.abs_diff(4), y.abs_diff(4));
            f32::from(u8::from(z == 1 && (2..=3).contains(&x.max(y))))
        });
        let figures = Figures::of(&isosurface(&ring, 0.5).unwrap()).unwrap();
        assert_eq!((figures.components, figures.euler, figures.genus), (1, 0, Some(1)));
        let grid = Grid::axis_aligned([7, 7, 7], [1.0; 3]).unwrap();
        let shell = Volume::from_fn(grid, |x, y, z| {
            let far = x.abs_diff(3).max(y.abs_diff(3)).max(z.abs_diff(3));
            f32::from(u8::from((1..=2).contains(&far)))
        });
        let mesh = isosurface(&shell, 0.5).unwrap();
        let figures = Figures::of(&mesh).unwrap();
        assert_eq!((figures.components, figures.cavities, figures.genus), (2, 1, Some(0)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Noise has all cases, at the border, too.
        #[test]
        fn any_voxels_give_a_closed_manifold(seed in any::<u64>(), density in 0.05..0.95f64) {
            let mut state = seed | 1;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let grid = oblique([7, 6, 5], seed % 2 == 0);
            let image = Volume::from_fn(grid, |_, _, _| (density - next()) as f32);
            let mesh = isosurface(&image, 0.0).unwrap();
            if !mesh.is_empty() {
                let figures = Figures::of(&mesh).unwrap();
                prop_assert!(figures.is_closed_manifold(), "{:?}", figures);
                prop_assert!(figures.volume_mm3.unwrap() > 0.0);
                prop_assert_eq!(figures.degenerate_faces, 0);
            }
        }
    }
}
