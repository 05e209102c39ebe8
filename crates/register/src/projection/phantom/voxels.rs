//! Phantoms as voxel volumes.

use super::{Ellipsoid, Phantom, crossed};
use crate::error::Result;
use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;
use voxalign_image::{Grid, Volume, memory};

/// Places along each axis at which a voxel at a border is looked at.
const PARTS: usize = 5;

/// An ellipsoid in voxels: a voxel is at `at + x step[0] + y step[1] + z step[2]` from the unit ball.
struct Shape {
    at: Vector3<f64>,
    steps: [Vector3<f64>; 3],
    /// No part of a voxel is farther from its middle.
    reach: f64,
    value: f64,
}

impl Shape {
    fn new(ellipsoid: &Ellipsoid, grid: &Grid) -> Self {
        let unit = ellipsoid.unit();
        let matrix: Matrix3<f64> = unit * grid.to_world().matrix;
        let steps = [0, 1, 2].map(|a| matrix.column(a).into_owned());
        let at = unit * (grid.index_to_world(Vector3::zeros()) - ellipsoid.centre);
        let reach = steps.iter().map(|s| s.norm() / 2.0).sum();
        Self { at, steps, reach, value: ellipsoid.value }
    }

    /// The part of a voxel that is inside.
    fn part(&self, voxel: Vector3<f64>) -> f64 {
        let offset = |i: usize| (i as f64 + 0.5) / PARTS as f64 - 0.5;
        let mut inside = 0usize;
        for z in 0..PARTS {
            for y in 0..PARTS {
                let row = voxel + self.steps[2] * offset(z) + self.steps[1] * offset(y);
                let is_in = |x: &usize| (row + self.steps[0] * offset(*x)).norm_squared() <= 1.0;
                inside += (0..PARTS).filter(is_in).count();
            }
        }
        inside as f64 / (PARTS * PARTS * PARTS) as f64
    }

    /// Adds the row of voxels (y, z).
    fn add(&self, y: usize, z: usize, row: &mut [f64]) {
        let first = self.at + self.steps[1] * y as f64 + self.steps[2] * z as f64;
        // The voxels that are nearer to the middle than a radius.
        let nearer = |radius: f64| match crossed(first, self.steps[0], radius) {
            Some([enter, leave]) if radius > 0.0 => {
                let end = (leave.floor() + 1.0).clamp(0.0, row.len() as f64) as usize;
                (enter.ceil().clamp(0.0, row.len() as f64) as usize).min(end)..end
            }
            _ => 0..0,
        };
        // A hair farther and nearer, as places are rounded.
        let (touched, full) = (nearer(1.0 + self.reach + 1e-9), nearer(1.0 - self.reach - 1e-9));
        let full = if full.is_empty() { touched.end..touched.end } else { full };
        for x in (touched.start..full.start).chain(full.end..touched.end) {
            row[x] += self.value * self.part(first + self.steps[0] * x as f64);
        }
        row[full].iter_mut().for_each(|v| *v += self.value);
    }
}

impl Phantom {
    /// The attenuations on a grid, per mm: each voxel has the mean of a lattice of places in it where a border goes
    /// through it.
    ///
    /// Images by interpolation of a [`head`](Phantom::head) of voxels up to 1.5 mm and a [`body`](Phantom::body) up to 2.5 mm differ from the
    /// [`integral`](Phantom::integral)s by less than 0.5 % of their range (root mean square), and by less than 2 % where no
    /// silhouette is within two pixels.
    ///
    /// # Errors
    /// Too little memory.
    pub fn volume(&self, grid: &Grid) -> Result<Volume<f32>> {
        let [nx, ny, _] = grid.dims();
        let shapes: Vec<Shape> = self.ellipsoids.iter().map(|e| Shape::new(e, grid)).collect();
        let mut data = memory::zeroed::<f32>(grid.len())?;
        data.par_chunks_mut(nx).enumerate().for_each_init(
            || vec![0.0; nx],
            |row, (number, out)| {
                row.fill(0.0);
                for shape in &shapes {
                    shape.add(number % ny, number / ny, row);
                }
                for (out, value) in out.iter_mut().zip(row) {
                    *out = *value as f32;
                }
            },
        );
        Ok(Volume::new(grid.clone(), data)?)
    }
}
