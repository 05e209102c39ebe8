//! Smoothing of surfaces.

use rayon::prelude::*;
use voxalign_image::memory;
use voxalign_image::{ImageError, Mesh, Vector3};

/// The steps of an iteration: towards the mean of the neighbours, and back by a little more.
const STEPS: [f64; 2] = [0.5, -0.526];

/// A surface, or closed lines where there is no face, smoothed this many times by a low-pass filter that does not
/// shrink it (G. Taubin 1995): each vertex moves half of the way to the mean of its neighbours, then 0.526 of the
/// way back. Vertices at a boundary and at the ends of lines stay where they are, as do all connections.
///
/// # Errors
/// [`ImageError::OutOfMemory`].
pub fn smoothed(mesh: &Mesh, iterations: usize) -> Result<Mesh, ImageError> {
    let mut from = memory::copied(mesh.vertices())?;
    let near = Neighbours::of(mesh)?;
    let mut to = memory::copied(&from)?;
    for step in (0..iterations).flat_map(|_| STEPS) {
        to.par_iter_mut().enumerate().with_min_len(4096).for_each(|(i, to)| {
            let at = from[i];
            *to = match near.of_vertex(i) {
                [] => at,
                all => {
                    let sum: Vector3<f64> = all.iter().map(|&j| from[j as usize]).sum();
                    at + step * (sum / all.len() as f64 - at)
                }
            };
        });
        std::mem::swap(&mut from, &mut to);
    }
    drop(to);
    let mut moved = from.into_iter();
    mesh.map(|v| moved.next().unwrap_or(*v))
}

/// The neighbours of each vertex; none of those at a boundary.
struct Neighbours {
    ends: Vec<usize>,
    all: Vec<u32>,
}

impl Neighbours {
    fn of(mesh: &Mesh) -> Result<Self, ImageError> {
        if mesh.faces().is_empty() {
            return Self::of_lines(mesh);
        }
        // A vertex within a surface is as often the first end of a side of a face as it has neighbours.
        let mut sides = memory::room(3 * mesh.faces().len())?;
        for &[a, b, c] in mesh.faces() {
            sides.extend([(a, b), (b, c), (c, a)]);
        }
        sides.par_sort_unstable();
        let is_there = |a: u32, b: u32| sides.binary_search(&(a, b)).is_ok();
        let mut ends = memory::room(mesh.vertices().len())?;
        let mut all: Vec<u32> = memory::room(sides.len())?;
        let mut rest = sides.as_slice();
        for i in 0..mesh.vertices().len() as u32 {
            let (own, others) = rest.split_at(rest.iter().take_while(|s| s.0 == i).count());
            rest = others;
            // Every side has another one in the other direction, or is at a boundary.
            if own.iter().all(|&(a, b)| is_there(b, a)) {
                all.extend(own.iter().map(|s| s.1));
            }
            ends.push(all.len());
        }
        Ok(Self { ends, all })
    }

    /// The one before and the one after, of vertices within one line alone.
    fn of_lines(mesh: &Mesh) -> Result<Self, ImageError> {
        let mut steps = memory::room(2 * mesh.line_vertices().len())?;
        for step in mesh.lines().flat_map(|line| line.windows(2)) {
            steps.extend([(step[0], step[1]), (step[1], step[0])]);
        }
        steps.par_sort_unstable();
        let mut ends = memory::room(mesh.vertices().len())?;
        let mut all: Vec<u32> = memory::room(steps.len())?;
        let mut rest = steps.as_slice();
        for i in 0..mesh.vertices().len() as u32 {
            let (own, others) = rest.split_at(rest.iter().take_while(|s| s.0 == i).count());
            rest = others;
            if own.len() == 2 {
                all.extend(own.iter().map(|s| s.1));
            }
            ends.push(all.len());
        }
        Ok(Self { ends, all })
    }

    fn of_vertex(&self, i: usize) -> &[u32] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.all[start..self.ends[i]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Figures, isosurface};
    use voxalign_image::{Grid, Volume};

    #[test]
    fn stairs_go_and_the_volume_stays() {
        let grid = Grid::axis_aligned([30, 30, 30], [1.0; 3]).unwrap();
        let ball = Volume::from_fn(grid, |x, y, z| {
            let far = [x, y, z].map(|c| (c as f64 - 14.5).powi(2)).iter().sum::<f64>().sqrt();
            f32::from(u8::from(far <= 10.0))
        });
        let rough = isosurface(&ball, 0.5).unwrap();
        let smooth = smoothed(&rough, 20).unwrap();
        let centre = Vector3::repeat(14.5);
        let spread = |mesh: &Mesh| {
            let radii: Vec<f64> = mesh.vertices().iter().map(|v| (v - centre).norm()).collect();
            let mean = radii.iter().sum::<f64>() / radii.len() as f64;
            (radii.iter().map(|r| (r - mean).powi(2)).sum::<f64>() / radii.len() as f64).sqrt()
        };
        assert!(spread(&smooth) < 0.5 * spread(&rough), "{} {}", spread(&smooth), spread(&rough));
        let volume = |mesh: &Mesh| Figures::of(mesh).unwrap().volume_mm3.unwrap();
        assert!((volume(&smooth) / volume(&rough) - 1.0).abs() < 0.01);
        assert_eq!(smoothed(&rough, 0).unwrap(), rough);
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one.install(|| smoothed(&rough, 20)).unwrap(), smooth);
    }

    #[test]
    fn boundaries_stay() {
        let at = [[0., 0., 0.], [2., 0., 0.], [2., 2., 0.], [0., 2., 0.], [1., 1., 1.]];
        let faces = vec![[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]];
        let mesh = Mesh::new(at.map(Vector3::from).into(), faces).unwrap();
        let smooth = smoothed(&mesh, 3).unwrap();
        assert_eq!(smooth.vertices()[..4], mesh.vertices()[..4]);
        assert!(smooth.vertices()[4][2] < 1.0);
    }
}
