//! Pictures of values of tetrahedra on slices.

use super::key::Key;
use super::picture::{Picture, ramp, sequential, sequential_style};
use super::plane::Plane;
use super::studio::Studio;
use crate::error::Result;
use crate::text::plain;
use voxalign_image::{Grid, Matrix3, TetraMesh, Vector3};

/// Colours of values; the rest of a palette are greys.
const COLOURS: usize = 128;

/// Weights down to this much below 0 are those of a point within.
const INSIDE: f64 = 1e-9;

/// The values of tetrahedra over the fixed image, from 0 to `reach`, with their key, under a name.
pub(crate) fn pictures(
    studio: &Studio<'_>,
    name: &str,
    mesh: &TetraMesh,
    values: &[f32],
    reach: f64,
) -> Result<String> {
    let all = sequential();
    let colours: Vec<_> =
        (0..COLOURS).map(|i| ramp(&all, i as f64 / (COLOURS - 1) as f64)).collect();
    let window = studio.fixed_window;
    let body = studio.grid("strain", &[name], |_, plane, drawn| {
        let which = tetrahedra(studio.grid_of_fixed(), plane, mesh);
        let greys = drawn.fixed.iter().map(|&v| window.unit(v));
        Picture::painted(plane.size(), greys, 0.5, &colours, |i| {
            let value = f64::from(*values.get(which[i]? as usize)?);
            let part = (value / reach).clamp(0.0, 1.0);
            value.is_finite().then(|| (part * (COLOURS - 1) as f64).round() as usize)
        })
    })?;
    let reach = plain(reach);
    Ok(body + &Key::new().ramp(&sequential_style(), ["0", &reach]).html())
}

/// The tetrahedron at the middle of each pixel of a plane, the lowest of several.
fn tetrahedra(grid: &Grid, plane: &Plane, mesh: &TetraMesh) -> Vec<Option<u32>> {
    let [(across, columns), (down, rows)] = plane.sides();
    let mut found = vec![None; columns.len() * rows.len()];
    let slice = plane.slice as f64;
    for (number, corners) in mesh.tetrahedra().iter().enumerate() {
        let at = corners.map(|i| {
            mesh.vertices().get(i as usize).map_or_else(Vector3::zeros, |v| grid.world_to_index(*v))
        });
        let ends = |axis: usize| {
            let of = at.iter().map(|p| p[axis]);
            [of.clone().fold(f64::INFINITY, f64::min), of.fold(f64::NEG_INFINITY, f64::max)]
        };
        let [low, high] = ends(plane.axis);
        if slice < low || slice > high {
            continue;
        }
        let edges = Matrix3::from_columns(&[at[1] - at[0], at[2] - at[0], at[3] - at[0]]);
        let Some(inverse) = edges.try_inverse() else { continue };
        let (xs, ys) = (within(columns, ends(across)), within(rows, ends(down)));
        for y in ys {
            for x in xs.clone() {
                let mut point = Vector3::zeros();
                (point[plane.axis], point[across], point[down]) = (slice, columns[x], rows[y]);
                let w = inverse * (point - at[0]);
                let least = w.min().min(1.0 - w.sum());
                let place = &mut found[y * columns.len() + x];
                if least >= -INSIDE && place.is_none() {
                    *place = Some(number as u32);
                }
            }
        }
    }
    found
}

/// The numbers of the middles of pixels, which rise or fall, between two ends.
fn within(middles: &[f64], [low, high]: [f64; 2]) -> std::ops::Range<usize> {
    let falls = middles.first() > middles.last();
    let count = |of: &dyn Fn(f64) -> bool| middles.partition_point(|&m| of(m));
    match falls {
        false => count(&|m| m < low)..count(&|m| m <= high),
        true => count(&|m| m > high)..count(&|m| m >= low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::plane::planes;
    use voxalign_image::Affine;

    /// Against a search over all tetrahedra with the volumes that a point makes with their faces.
    #[test]
    fn pixels_have_the_tetrahedron_that_holds_them() {
        let matrix = Matrix3::new(-2.0, 0.0, 0.3, 0.2, 1.5, 0.0, 0.0, 0.1, 3.0);
        let grid =
            Grid::new([20, 24, 12], Affine::new(matrix, Vector3::new(9.0, -4.0, 2.0))).unwrap();
        let corner = |i: usize| {
            let index =
                Vector3::from_fn(|a, _| if i >> a & 1 == 1 { 15.3 - 4.0 * a as f64 } else { 2.6 });
            grid.index_to_world(index)
        };
        // A cell in six tetrahedra.
        let paths = [[1, 3], [1, 5], [2, 3], [2, 6], [4, 5], [4, 6]];
        let cells = paths.map(|[a, b]| [0, a, b, 7]);
        let mesh = TetraMesh::new((0..8).map(corner).collect(), cells.into()).unwrap();
        let volume = |p: [Vector3<f64>; 4]| (p[1] - p[0]).dot(&(p[2] - p[0]).cross(&(p[3] - p[0])));
        for plane in planes(&grid, [9, 8, 4]) {
            let found = tetrahedra(&grid, &plane, &mesh);
            let [(across, columns), (down, rows)] = plane.sides();
            let (mut inside, mut outside) = (0, 0);
            for (i, place) in found.iter().enumerate() {
                let mut index = Vector3::zeros();
                index[plane.axis] = plane.slice as f64;
                (index[across], index[down]) =
                    (columns[i % columns.len()], rows[i / columns.len()]);
                let point = grid.index_to_world(index);
                let holds = |e: &usize| {
                    let corners = mesh.corners(*e);
                    let whole = volume(corners);
                    (0..4).all(|c| {
                        let mut of = corners;
                        of[c] = point;
                        volume(of) / whole >= -1e-9
                    })
                };
                assert_eq!(*place, (0..6).find(holds).map(|e| e as u32), "{} {i}", plane.name);
                if place.is_some() { inside += 1 } else { outside += 1 }
            }
            assert!(inside > 100 && outside > 100, "{inside} {outside}");
        }
    }
}
