//! Means over the voxels of a finer grid with the same field of view.

use crate::error::{ImageError, Result};
use crate::field::VectorField;
use crate::grid::Grid;
use crate::memory;
use crate::volume::Volume;
use rayon::prelude::*;
use std::borrow::Cow;

impl Grid {
    /// How many voxels of this grid there are in one of `coarser` along each axis, where each of these is divided into whole voxels of this
    /// one.
    ///
    /// # Errors
    /// [`ImageError::GridMismatch`] where that is not so.
    pub fn parts_of(&self, coarser: &Grid) -> Result<[usize; 3]> {
        let mismatch = || {
            let (first, second) = (self.to_string(), coarser.to_string());
            ImageError::GridMismatch { first, second }
        };
        let (fine, coarse) = (self.dims(), coarser.dims());
        if (0..3).any(|a| fine[a] % coarse[a] != 0) {
            return Err(mismatch());
        }
        let parts = [0, 1, 2].map(|a| fine[a] / coarse[a]);
        let spacing = coarser.spacing();
        let divided = coarser.with_spacing([0, 1, 2].map(|a| spacing[a] / parts[a] as f64))?;
        let tolerance = 0.01 * self.spacing().into_iter().fold(f64::INFINITY, f64::min);
        if divided.approx_eq(self, tolerance) { Ok(parts) } else { Err(mismatch()) }
    }
}

impl Volume<f32> {
    /// The mean within each voxel of a coarser grid, whose voxels this one [divides](Grid::parts_of); itself where that is its own grid.
    ///
    /// # Errors
    /// [`ImageError::GridMismatch`] for another grid, [`ImageError::OutOfMemory`].
    pub fn averaged_on(&self, coarser: &Grid) -> Result<Cow<'_, Self>> {
        let parts = self.grid().parts_of(coarser)?;
        if parts == [1; 3] {
            return Ok(Cow::Borrowed(self));
        }
        let mut out = memory::zeroed(coarser.len())?;
        average(self.bring()?, self.dims(), parts, &mut out);
        Self::new(coarser.clone(), out).map(Cow::Owned)
    }
}

impl VectorField {
    /// The mean within each voxel of a coarser grid, whose voxels this one [divides](Grid::parts_of); itself where that is its own grid.
    ///
    /// # Errors
    /// [`ImageError::GridMismatch`] for another grid, [`ImageError::OutOfMemory`].
    pub fn averaged_on(&self, coarser: &Grid) -> Result<Cow<'_, Self>> {
        let (fine, parts) = (self.grid(), self.grid().parts_of(coarser)?);
        if parts == [1; 3] {
            return Ok(Cow::Borrowed(self));
        }
        let mut out = memory::zeroed(coarser.len().saturating_mul(3))?;
        let components = out.chunks_exact_mut(coarser.len());
        for (out, values) in components.zip(self.data().chunks_exact(fine.len())) {
            average(values, fine.dims(), parts, out);
        }
        Self::new(coarser.clone(), out).map(Cow::Owned)
    }
}

/// The means of `values`, on a grid of these sizes, over blocks of `parts` voxels.
fn average(values: &[f32], dims: [usize; 3], parts: [usize; 3], out: &mut [f32]) {
    let [nx, ny] = [dims[0] / parts[0], dims[1] / parts[1]];
    let count = parts.iter().product::<usize>() as f64;
    out.par_chunks_mut(nx).enumerate().for_each(|(line, out)| {
        let first = [line % ny * parts[1], line / ny * parts[2]];
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum = 0.0;
            for z in first[1]..first[1] + parts[2] {
                for y in first[0]..first[0] + parts[1] {
                    let start = (z * dims[1] + y) * dims[0] + i * parts[0];
                    let row = &values[start..start + parts[0]];
                    sum += row.iter().map(|&v| f64::from(v)).sum::<f64>();
                }
            }
            *out = (sum / count) as f32;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::Affine;
    use nalgebra::{Matrix3, Vector3};

    fn grids() -> [Grid; 2] {
        let turn = nalgebra::Rotation3::from_euler_angles(0.1, -0.2, 0.3);
        let matrix = turn.matrix() * Matrix3::from_diagonal(&Vector3::new(-1.0, 2.0, 6.0));
        let coarse = Grid::new([3, 2, 4], Affine::new(matrix, Vector3::new(5.0, 1.0, -7.0)));
        let coarse = coarse.unwrap();
        let fine = coarse.with_spacing([1.0, 1.0, 2.0]).unwrap();
        [coarse, fine]
    }

    #[test]
    fn each_voxel_gets_the_mean_of_its_own() {
        let [coarse, fine] = grids();
        assert_eq!(fine.parts_of(&coarse).unwrap(), [1, 2, 3]);
        let image = Volume::from_fn(fine.clone(), |x, y, z| (100 * x + 10 * y + z) as f32);
        let means = image.averaged_on(&coarse).unwrap();
        let expected = |x: usize, y: usize, z: usize| {
            100.0 * x as f32 + 10.0 * (2.0 * y as f32 + 0.5) + 3.0 * z as f32 + 1.0
        };
        assert_eq!(*means, Volume::from_fn(coarse.clone(), expected));
        assert!(matches!(means.averaged_on(&coarse).unwrap(), Cow::Borrowed(_)));
        // What is linear in the world is at the centres what it is on average.
        let linear = |p: Vector3<f64>| Vector3::new(p.x + p.z, 2.0 * p.y - p.x, 3.0 - p.z);
        let field = VectorField::from_world_fn(fine, linear);
        let field = field.averaged_on(&coarse).unwrap();
        let at_centres = VectorField::from_world_fn(coarse, linear);
        for (a, b) in field.data().iter().zip(at_centres.data()) {
            assert!((a - b).abs() < 1e-4, "{a} is not {b}");
        }
    }

    #[test]
    fn grids_that_do_not_divide_are_errors() {
        let [coarse, fine] = grids();
        assert_eq!(coarse.parts_of(&coarse).unwrap(), [1; 3]);
        let shifted = fine.moved(&Affine::translation(Vector3::new(0.5, 0.0, 0.0))).unwrap();
        let other = coarse.with_spacing([1.0, 1.0, 2.5]).unwrap();
        for grid in [shifted, other] {
            let image = Volume::filled(grid.clone(), 0.0);
            assert!(matches!(image.averaged_on(&coarse), Err(ImageError::GridMismatch { .. })));
            assert!(VectorField::zeros(grid).averaged_on(&coarse).is_err());
        }
        assert!(coarse.parts_of(&fine).is_err());
    }
}
