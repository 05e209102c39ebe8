//! Points of a template that moves itself: their positions under a subject's map, and the covectors at them.

use super::points::{between, lattice};
use crate::error::Result;
use voxalign_compute::ops::points::Carriage;
use voxalign_compute::{AffineMap, Device, DeviceBuffer, Dims};
use voxalign_image::{Affine, Grid, Vector3};

/// Points of the world of a grid, on their way to another world: by a displacement of the grid, voxels, and an affine map after it.
pub struct TemplatePoints<D: Device> {
    dims: Dims,
    /// Where they are, voxels.
    at: D::Buffer<f32>,
    /// From voxels to mm from the origin of the other world.
    there: AffineMap,
    /// From mm of the world of the grid to voxels.
    to_grid: AffineMap,
}

impl<D: Device> TemplatePoints<D> {
    /// Points, mm from `origin`, all x, then all y, then all z; their targets are relative to `other`.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn new(
        device: &D,
        grid: &Grid,
        affine: &Affine,
        points: &D::Buffer<f32>,
        [origin, other]: [&Vector3<f64>; 2],
    ) -> Result<Self> {
        let to_grid = between(grid.to_index(), origin, &Vector3::zeros());
        let mut at = device.alloc::<f32>(points.len())?;
        device.map_points(&to_grid, points, &mut at)?;
        let there = between(&grid.to_world().then(affine), &Vector3::zeros(), other);
        Ok(Self { dims: grid.dims(), at, there, to_grid })
    }

    fn carriage<'a>(&self, field: &'a D::Buffer<f32>) -> Carriage<'a, D> {
        Carriage { field, lattice: lattice(self.dims), scale: [1.0; 3], map: self.there }
    }

    /// Their targets, mm.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn carried(&self, device: &D, field: &D::Buffer<f32>) -> Result<D::Buffer<f32>> {
        let mut there = device.alloc::<f32>(self.at.len())?;
        device.carry_points(&self.carriage(field), &self.at, &mut there)?;
        Ok(there)
    }

    /// The derivative in the positions of the points, per mm, given `covectors` at their targets.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn pulled_back(
        &self,
        device: &D,
        field: &D::Buffer<f32>,
        covectors: &D::Buffer<f32>,
    ) -> Result<D::Buffer<f32>> {
        let len = self.at.len();
        let [mut by_voxels, mut by_mm] = [device.alloc::<f32>(len)?, device.alloc::<f32>(len)?];
        device.pull_back(&self.carriage(field), &self.at, covectors, &mut by_voxels)?;
        device.map_covectors(&self.to_grid, &by_voxels, &mut by_mm)?;
        Ok(by_mm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::Matrix3;

    /// What is pulled back is the derivative of what covectors say of carried points.
    #[test]
    fn pulled_back_is_the_derivative() {
        let device = Cpu::new(Some(2)).unwrap();
        let turned = Matrix3::new(1.2, 0.3, 0.0, -0.2, 1.5, 0.1, 0.0, 0.2, 2.0);
        let grid = Grid::new([9, 8, 7], Affine::new(turned, Vector3::new(-3.0, 5.0, 1.0))).unwrap();
        let other = Matrix3::new(0.9, 0.1, 0.0, 0.0, 1.1, -0.2, 0.1, 0.0, 1.0);
        let affine = Affine::new(other, Vector3::new(20.0, 0.0, -4.0));
        let field: Vec<f32> = (0..3 * grid.len()).map(|i| (i as f32 * 0.61).sin() * 0.3).collect();
        let field = device.upload(&field).unwrap();
        let (origin, to) = (Vector3::new(1.0, 9.0, 5.0), Vector3::new(22.0, 8.0, 2.0));
        let count = 6;
        let point = |i: usize| {
            let index = Vector3::new(1.3 + i as f64, 5.7 - 0.8 * i as f64, 2.2 + 0.6 * i as f64);
            grid.index_to_world(index) - origin
        };
        let way = |i: usize, a: usize| ((3 * i + a) as f64 * 1.7).cos();
        let listed = |of: &dyn Fn(usize, usize) -> f64| -> Vec<f32> {
            (0..3)
                .flat_map(|a| (0..count).map(move |i| (i, a)))
                .map(|(i, a)| of(i, a) as f32)
                .collect()
        };
        let covectors = listed(&|i, a| ((i + 5 * a) as f64 * 0.9).sin());
        let at = |t: f64| {
            let places = device.upload(&listed(&|i, a| point(i)[a] + t * way(i, a))).unwrap();
            TemplatePoints::new(&device, &grid, &affine, &places, [&origin, &to]).unwrap()
        };
        let value = |t: f64| -> f64 {
            let there = device.into_host(at(t).carried(&device, &field).unwrap()).unwrap();
            there.iter().zip(&covectors).map(|(p, c)| f64::from(*p) * f64::from(*c)).sum()
        };
        let c = device.upload(&covectors).unwrap();
        let found = at(0.0).pulled_back(&device, &field, &c).unwrap();
        let found = device.into_host(found).unwrap();
        let found: f64 =
            found.iter().zip(listed(&way)).map(|(g, w)| f64::from(*g) * f64::from(w)).sum();
        let expected = (value(1e-2) - value(-1e-2)) / 2e-2;
        assert!((found - expected).abs() < 3e-3 * expected.abs(), "{found} is not {expected}");
        assert!(expected.abs() > 0.1);
    }
}
