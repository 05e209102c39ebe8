//! Meshes of whole cells whose surface is moved to that of the mask.

use crate::error::Result;
use crate::fit::Fitted;
use crate::quality::Quality;
use crate::sparse::corners;
use voxalign_image::{LabelMap, TetraMesh, Vector3, memory};

/// The farthest that a vertex goes, as a part of the shortest edge of a cell.
const FARTHEST: f64 = 0.4;

/// The mean ratio that every tetrahedron around a vertex that moves keeps, at least.
const LEAST: f64 = 0.2;

/// How often all vertices of the surface are moved.
const ROUNDS: usize = 3;

/// How often the way of a vertex is halved before it stays where it is.
const HALVINGS: usize = 5;

/// Places along the way of a vertex where the mask is looked at.
const LOOKS: usize = 16;

/// The standard deviation of the smoothing of the mask, as a part of the shortest edge of a cell; and at least so many voxels.
const SMOOTH: f64 = 0.25;
const SMOOTH_VOXELS: f64 = 0.5;

/// The mesh of a mask with its surface moved to where the smoothed mask is one half.
///
/// The vertices of the surface go along the gradient, at most 0.4 of the shortest edge of a cell from where they were. The way of one is
/// halved until the mean ratio of every tetrahedron around it is 0.2 or more. Vertices are moved in the order of their numbers, so that
/// the result has the same bits every time. `mask` is what `fitted` is of.
///
/// # Errors
/// [`ElasticityError::OutOfMemory`](crate::ElasticityError::OutOfMemory).
pub fn snapped(fitted: &Fitted, mask: &LabelMap) -> Result<TetraMesh> {
    let mesh = &fitted.mesh;
    let edge = fitted.cells.vertices().spacing().into_iter().fold(f64::INFINITY, f64::min);
    let smooth = Smooth::of(mask, edge * SMOOTH)?;
    let (firsts, around) = corners(mesh.tetrahedra(), mesh.vertices().len())?;
    let mut surface: Vec<u32> = mesh.boundary()?.into_iter().flatten().collect();
    surface.sort_unstable();
    surface.dedup();
    let mut vertices = memory::copied(mesh.vertices())?;
    for _ in 0..ROUNDS {
        for &vertex in &surface {
            let i = vertex as usize;
            let from = vertices[i];
            let way = smooth.way(from, edge * FARTHEST) + from - mesh.vertices()[i];
            let longest = way.norm().max(edge * FARTHEST);
            let target = mesh.vertices()[i] + way * (edge * FARTHEST / longest);
            let mut part = 1.0;
            for _ in 0..=HALVINGS {
                vertices[i] = from + (target - from) * part;
                let sound = |&corner: &u32| is_sound(mesh, &vertices, corner / 4);
                if around[firsts[i]..firsts[i + 1]].iter().all(sound) {
                    break;
                }
                vertices[i] = from;
                part /= 2.0;
            }
        }
    }
    Ok(mesh.clone().with_vertices(vertices)?)
}

/// Whether a tetrahedron has a shape that may be, with vertices that moved.
fn is_sound(mesh: &TetraMesh, vertices: &[Vector3<f64>], e: u32) -> bool {
    let corners = mesh.tetrahedra()[e as usize].map(|i| vertices[i as usize]);
    Quality::of(corners).mean_ratio >= LEAST
}

/// A mask after a Gaussian filter.
struct Smooth<'a> {
    mask: &'a LabelMap,
    values: Vec<f32>,
}

impl<'a> Smooth<'a> {
    /// With a standard deviation in mm.
    fn of(mask: &'a LabelMap, deviation: f64) -> Result<Self> {
        let inside = mask.data().iter().map(|&label| if label == 0 { 0.0 } else { 1.0 });
        let mut values = memory::collected(inside)?;
        let (dims, spacing) = (mask.dims(), mask.grid().spacing());
        let strides = [1, dims[0], dims[0] * dims[1]];
        for a in 0..3 {
            let kernel = gaussian((deviation / spacing[a]).max(SMOOTH_VOXELS), dims[a]);
            let mut line = memory::filled(dims[a], 0.0f32)?;
            let [b, c] = [(a + 1) % 3, (a + 2) % 3];
            for first in (0..dims[c]).flat_map(|k| (0..dims[b]).map(move |j| (j, k))) {
                let first = first.0 * strides[b] + first.1 * strides[c];
                for (i, value) in line.iter_mut().enumerate() {
                    *value = values[first + i * strides[a]];
                }
                for i in 0..dims[a] {
                    values[first + i * strides[a]] = filtered(&line, &kernel, i);
                }
            }
        }
        Ok(Self { mask, values })
    }

    /// The interpolated value at a point, mm; 0 far outside of the image.
    fn at(&self, point: Vector3<f64>) -> f64 {
        let index = self.mask.grid().world_to_index(point);
        let low = index.map(f64::floor);
        let part = index - low;
        let dims = self.mask.dims();
        let mut sum = 0.0;
        for corner in 0..8usize {
            let mut weight = 1.0;
            let mut offset = 0;
            let mut stride = 1;
            for a in 0..3 {
                let is_high = corner >> a & 1 == 1;
                weight *= if is_high { part[a] } else { 1.0 - part[a] };
                let voxel = low[a] + f64::from(u8::from(is_high));
                if !(voxel >= 0.0 && voxel < dims[a] as f64) {
                    weight = 0.0;
                }
                offset += stride * (voxel.max(0.0) as usize).min(dims[a] - 1);
                stride *= dims[a];
            }
            sum += weight * f64::from(self.values[offset]);
        }
        sum
    }

    /// The way from a point to where the value is one half, along the gradient, no longer than a length, mm; all of that length
    /// where the value is not one half on it, and none where there is no gradient.
    fn way(&self, point: Vector3<f64>, length: f64) -> Vector3<f64> {
        let step = length / 8.0;
        let gradient = Vector3::from_fn(|a, _| {
            let mut along = Vector3::zeros();
            along[a] = step;
            self.at(point + along) - self.at(point - along)
        });
        let size = gradient.norm();
        if size < 1e-9 {
            return Vector3::zeros();
        }
        let start = self.at(point) - 0.5;
        let direction = gradient * (-start.signum() / size);
        let mut before = start;
        for look in 1..=LOOKS {
            let at = length * look as f64 / LOOKS as f64;
            let now = self.at(point + direction * at) - 0.5;
            if now == 0.0 || (now > 0.0) != (start > 0.0) {
                let back = now / (now - before) * length / LOOKS as f64;
                return direction * (at - back);
            }
            before = now;
        }
        direction * length
    }
}

/// One side of a Gaussian kernel from its middle, whose whole sum is 1; not longer than a line.
fn gaussian(deviation: f64, dims: usize) -> Vec<f64> {
    let radius = ((3.0 * deviation).ceil() as usize).min(dims);
    let of = |i: usize| (-0.5 * (i as f64 / deviation).powi(2)).exp();
    let sum = of(0) + 2.0 * (1..=radius).map(of).sum::<f64>();
    (0..=radius).map(|i| of(i) / sum).collect()
}

/// The filtered value of a line, outside of which all is 0.
fn filtered(line: &[f32], kernel: &[f64], i: usize) -> f32 {
    let mut sum = kernel[0] * f64::from(line[i]);
    for (offset, weight) in kernel.iter().enumerate().skip(1) {
        let before = i.checked_sub(offset).map_or(0.0, |j| line[j]);
        let after = line.get(i + offset).copied().unwrap_or(0.0);
        sum += weight * (f64::from(before) + f64::from(after));
    }
    sum as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check, fitted};
    use voxalign_image::{Affine, Grid, Matrix3};

    #[test]
    fn the_surface_of_a_ball_becomes_round() {
        let matrix = Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.5));
        let grid =
            Grid::new([40, 40, 27], Affine::new(matrix, Vector3::new(19.5, -19.5, -19.5))).unwrap();
        let radius = 14.0;
        let mask = LabelMap::from_fn(grid.clone(), |x, y, z| {
            let place = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            i32::from(place.norm() < radius)
        });
        let fitted = fitted(&mask, 4.0).unwrap();
        let mesh = snapped(&fitted, &mask).unwrap();
        check(&mesh).unwrap();
        assert_eq!(mesh, snapped(&fitted, &mask).unwrap());
        let error = |mesh: &TetraMesh| {
            let surface = mesh.surface().unwrap();
            let off = surface.vertices().iter().map(|v| (v.norm() - radius).abs());
            off.sum::<f64>() / surface.vertices().len() as f64
        };
        let (before, after) = (error(&fitted.mesh), error(&mesh));
        assert!(after < 0.35 && after < 0.4 * before, "{before} {after}");
        let edge = fitted.cells.vertices().spacing().into_iter().fold(f64::INFINITY, f64::min);
        for (old, new) in fitted.mesh.vertices().iter().zip(mesh.vertices()) {
            assert!((old - new).norm() <= 0.4 * edge + 1e-12);
        }
        for e in 0..mesh.tetrahedra().len() {
            assert!(Quality::of(mesh.corners(e)).mean_ratio >= LEAST);
        }
        // The vertices are on the ball, so that flat faces between them leave some of it out.
        let volume = 4.0 / 3.0 * std::f64::consts::PI * radius.powi(3);
        let part = mesh.volume() / volume;
        assert!((0.94..1.0).contains(&part), "{part}");
    }

    #[test]
    fn a_flat_surface_is_met() {
        let grid = Grid::axis_aligned([24, 24, 24], [1.0; 3]).unwrap();
        // A face at 5.5 mm that cells of 4.2 mm cannot meet on the other side.
        let mask = LabelMap::from_fn(grid, |x, _, _| i32::from(x >= 6));
        let smooth = Smooth::of(&mask, 1.0).unwrap();
        for x in [4.4, 5.2, 6.3, 7.0] {
            let way = smooth.way(Vector3::new(x, 12.0, 12.0), 2.0);
            assert!((x + way.x - 5.5).abs() < 0.02 && way.yz().norm() < 1e-6, "{x} {way}");
        }
        assert_eq!(smooth.way(Vector3::repeat(-90.0), 2.0), Vector3::zeros());
        let far = smooth.way(Vector3::new(3.0, 12.0, 12.0), 2.0);
        assert!((far.norm() - 2.0).abs() < 1e-12, "{far}");
    }
}
