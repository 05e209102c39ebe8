//! Middle slices of a template, kept as it sharpens.

use crate::error::Result;
use serde::{Deserialize, Serialize};
use voxalign_image::{Affine, Grid, Index, Vector3, Volume, World};

/// The middle slices of a template before an iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The ratio of voxel lengths to those of the finest grid.
    pub factor: usize,
    /// The number of the iteration at its scale, from 0; that of the template before it, as in
    /// [`Sharpness`](crate::atlas::Sharpness).
    pub iteration: usize,
    /// A slice across each voxel axis, in their order; of an image of one slice that slice alone.
    pub slices: Vec<Slice>,
}

/// One slice of an image with its place in the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The voxel axis across it.
    pub axis: usize,
    /// Voxels along each axis, 1 along that across the slice.
    pub dims: [usize; 3],
    /// Rows of the 3x4 matrix from the slice's voxel index to the world (RAS+ mm).
    pub to_world: [[f64; 4]; 3],
    /// The values, the first axis fastest; what was no finite number is 0, as files of text have no
    /// word for it.
    pub values: Vec<f32>,
}

impl Snapshot {
    /// The middle slices of a template at a scale.
    #[must_use]
    pub fn of(template: &Volume<f32>, factor: usize, iteration: usize) -> Self {
        let dims = template.dims();
        let axes = match (0..3).rev().find(|&a| dims[a] == 1) {
            Some(flat) => flat..flat + 1,
            None => 0..3,
        };
        Self { factor, iteration, slices: axes.map(|a| Slice::middle(template, a)).collect() }
    }
}

impl Slice {
    /// The slice in the middle of an axis, of an even number the first of the two.
    fn middle(image: &Volume<f32>, axis: usize) -> Self {
        let (whole, grid) = (image.dims(), image.grid());
        let mut start = [0; 3];
        start[axis] = (whole[axis] - 1) / 2;
        let mut dims = whole;
        dims[axis] = 1;
        let [nx, ny, nz] = dims;
        let mut values = Vec::with_capacity(nx * ny * nz);
        for z in start[2]..start[2] + nz {
            for y in start[1]..start[1] + ny {
                let row = (z * whole[1] + y) * whole[0] + start[0];
                let line = &image.data()[row..row + nx];
                values.extend(line.iter().map(|v| if v.is_finite() { *v } else { 0.0 }));
            }
        }
        let first = Vector3::from(start.map(|i| i as f64));
        let first = grid.index_to_world(first);
        let to_world = Affine::<Index, World>::new(grid.to_world().matrix, first).rows();
        Self { axis, dims, to_world, values }
    }

    /// The slice as an image of one slice.
    ///
    /// # Errors
    /// Sizes that do not fit the values, a matrix that cannot be inverted: of a slice that was read
    /// from a broken file.
    pub fn volume(&self) -> Result<Volume<f32>> {
        let grid = Grid::new(self.dims, Affine::from_rows(self.to_world))?;
        Ok(Volume::new(grid, self.values.clone())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Matrix3;

    /// An image whose value is `x + 10 y + 100 z` of the index.
    fn numbered(grid: &Grid) -> Volume<f32> {
        Volume::from_fn(grid.clone(), |x, y, z| (x + 10 * y + 100 * z) as f32)
    }

    #[test]
    fn slices_are_the_middle_ones_at_their_place() {
        let matrix = Matrix3::new(0.0, 0.0, 2.0, -1.5, 0.0, 0.0, 0.1, 3.0, 0.0);
        let grid = Grid::new([5, 4, 7], Affine::new(matrix, Vector3::new(3.0, -4.0, 5.0))).unwrap();
        let image = numbered(&grid);
        let snapshot = Snapshot::of(&image, 4, 12);
        assert_eq!((snapshot.factor, snapshot.iteration, snapshot.slices.len()), (4, 12, 3));
        for (axis, slice) in snapshot.slices.iter().enumerate() {
            let middle = [2, 1, 3][axis];
            assert_eq!((slice.axis, slice.dims[axis]), (axis, 1));
            let volume = slice.volume().unwrap();
            let [nx, ny, nz] = volume.dims();
            for (x, y, z) in (0..nx * ny * nz).map(|i| (i % nx, i / nx % ny, i / (nx * ny))) {
                let mut index = [x, y, z];
                index[axis] += middle;
                let [i, j, k] = index;
                assert_eq!(volume.get(x, y, z), image.get(i, j, k));
                let point =
                    |x: usize, y: usize, z: usize| Vector3::new(x as f64, y as f64, z as f64);
                let wanted = grid.index_to_world(point(i, j, k));
                let found = volume.grid().index_to_world(point(x, y, z));
                assert!((wanted - found).norm() < 1e-12, "{axis} {wanted} {found}");
            }
        }
    }

    #[test]
    fn an_image_of_one_slice_is_its_own_snapshot() {
        for dims in [[6, 5, 1], [6, 1, 5], [1, 6, 5]] {
            let image = numbered(&Grid::axis_aligned(dims, [1.0, 2.0, 3.0]).unwrap());
            let snapshot = Snapshot::of(&image, 1, 0);
            assert_eq!(snapshot.slices.len(), 1);
            assert_eq!(snapshot.slices[0].volume().unwrap(), image);
        }
    }

    #[test]
    fn text_brings_it_back() {
        let grid = Grid::axis_aligned([3, 4, 2], [1.0, 0.3, 2.0]).unwrap();
        let mut image = Volume::from_fn(grid, |x, y, z| 1.0 / (1 + x + 3 * y + z) as f32);
        image.data_mut()[0] = f32::NAN;
        let snapshot = Snapshot::of(&image, 2, 5);
        let text = serde_json::to_string(&snapshot).unwrap();
        let back: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(back, snapshot);
        assert_eq!(back.slices[2].values[0], 0.0);
        let broken = Slice { dims: [3, 4, 5], ..back.slices[2].clone() };
        assert!(broken.volume().is_err());
    }
}
