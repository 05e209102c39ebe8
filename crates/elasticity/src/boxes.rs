//! Boxes of tetrahedra.

use crate::error::{ElasticityError, Result};
use crate::locate::Located;
use voxalign_image::memory;
use voxalign_image::{Affine, Grid, Index, Matrix3, TetraMesh, Vector3, World};

/// The six orders of the axes in which a path goes from the lowest corner of a cell to the highest one: a tetrahedron
/// each (H. W. Kuhn 1960). Every second one is a mirror image.
const PATHS: [([usize; 3], bool); 6] = [
    ([0, 1, 2], false),
    ([0, 2, 1], true),
    ([1, 0, 2], true),
    ([1, 2, 0], false),
    ([2, 0, 1], false),
    ([2, 1, 0], true),
];

/// A box of cells, each cut into six tetrahedra of the same volume around its diagonal.
///
/// Neighbours share their faces, whatever the number of cells; a box with half the spacing cuts each tetrahedron into
/// eight, so that what is linear in the tetrahedra of the first is linear in those of the second. Where a point is takes no
/// search.
///
/// ```
/// use voxalign_elasticity::TetraBox;
/// use voxalign_image::Grid;
///
/// # fn main() -> Result<(), voxalign_elasticity::ElasticityError> {
/// let image = Grid::axis_aligned([64, 64, 32], [1.0, 1.0, 2.0])?;
/// let cells = TetraBox::over(&image, 16.0)?;
/// assert_eq!(cells.cells(), [4, 4, 4]);
/// let mesh = cells.mesh()?;
/// assert_eq!((mesh.vertices().len(), mesh.tetrahedra().len()), (5 * 5 * 5, 6 * 64));
/// assert!((mesh.volume() - 64.0f64.powi(3)).abs() < 1e-6);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TetraBox {
    /// A vertex at the centre of each of its voxels.
    vertices: Grid,
    /// Whether the axes are left-handed: then the other half of the tetrahedra are mirror images.
    mirrored: bool,
}

impl TetraBox {
    /// A box whose vertices are the centres of the voxels of a grid, at least two along each axis.
    ///
    /// # Errors
    /// [`ElasticityError::Flat`] for a grid with one voxel along an axis, [`ElasticityError::TooFine`] for one with more tetrahedra
    /// than can be numbered.
    pub fn new(vertices: Grid) -> Result<Self> {
        let dims = vertices.dims();
        if dims.contains(&1) {
            return Err(ElasticityError::Flat { dims });
        }
        check_count(dims.map(|n| n - 1))?;
        let mirrored = !vertices.is_right_handed();
        Ok(Self { vertices, mirrored })
    }

    /// The box that holds all voxels of an image to their outer sides, along the axes of the image, with as many cells
    /// along each as are nearest to a spacing, mm, and at least one.
    ///
    /// # Errors
    /// [`ElasticityError::Flat`] for an image with one voxel along an axis, [`ElasticityError::Spacing`] for a spacing that is not
    /// a number above 0, [`ElasticityError::TooFine`].
    pub fn over(image: &Grid, spacing: f64) -> Result<Self> {
        let (dims, voxel) = (image.dims(), image.spacing());
        if dims.contains(&1) {
            return Err(ElasticityError::Flat { dims });
        }
        let cells = counts(std::array::from_fn(|a| dims[a] as f64 * voxel[a]), spacing)?;
        let step = Vector3::from_fn(|a, _| dims[a] as f64 / cells[a] as f64);
        let first = image.index_to_world(Vector3::repeat(-0.5));
        let matrix = image.to_world().matrix * Matrix3::from_diagonal(&step);
        let to_world: Affine<Index, World> = Affine::new(matrix, first);
        Self::new(Grid::new(cells.map(|n| n + 1), to_world)?)
    }

    /// The grid whose voxels have a vertex at their centres.
    #[must_use]
    pub fn vertices(&self) -> &Grid {
        &self.vertices
    }

    /// Cells along the axes.
    #[must_use]
    pub fn cells(&self) -> [usize; 3] {
        self.vertices.dims().map(|n| n - 1)
    }

    /// The mesh: tetrahedra `6 c` to `6 c + 5` are those of cell `c`, with cells and vertices counted with x fastest.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn mesh(&self) -> Result<TetraMesh> {
        let (dims, cells) = (self.vertices.dims(), self.cells());
        let [x, y, z] = dims;
        let mut vertices = memory::room(self.vertices.len())?;
        for (k, j) in (0..z).flat_map(|k| (0..y).map(move |j| (k, j))) {
            let index = |i| Vector3::new(i as f64, j as f64, k as f64);
            vertices.extend((0..x).map(|i| self.vertices.index_to_world(index(i))));
        }
        let steps = [1, x, x * y];
        let mut tetrahedra = memory::room(6 * cells.iter().product::<usize>())?;
        for (k, j) in (0..cells[2]).flat_map(|k| (0..cells[1]).map(move |j| (k, j))) {
            for i in 0..cells[0] {
                let low = i + x * (j + y * k);
                for (axes, odd) in PATHS {
                    let first = low + steps[axes[0]];
                    let second = first + steps[axes[1]];
                    let mut corners =
                        [low, first, second, second + steps[axes[2]]].map(|n| n as u32);
                    if odd != self.mirrored {
                        corners.swap(1, 2);
                    }
                    tetrahedra.push(corners);
                }
            }
        }
        Ok(TetraMesh::new(vertices, tetrahedra)?)
    }

    /// The tetrahedron of the mesh that holds a point, mm, and the weights of its corners there; that which is nearest along
    /// the axes where none does, with weights below 0.
    #[must_use]
    pub fn locate(&self, point: Vector3<f64>) -> Located {
        let at = self.vertices.world_to_index(point);
        let cells = self.cells();
        let cell: [usize; 3] =
            std::array::from_fn(|a| (at[a].floor().max(0.0) as usize).min(cells[a] - 1));
        let within: [f64; 3] = std::array::from_fn(|a| at[a] - cell[a] as f64);
        let mut axes = [0, 1, 2];
        // Of equal parts the lower axis comes first.
        axes.sort_by(|&a, &b| within[b].total_cmp(&within[a]));
        let [first, second, third] = axes.map(|a| within[a]);
        let path = PATHS.iter().position(|(path, _)| *path == axes).unwrap_or(0);
        let mut weights = [1.0 - first, first - second, second - third, third];
        if PATHS[path].1 != self.mirrored {
            weights.swap(1, 2);
        }
        let number = cell[0] + cells[0] * (cell[1] + cells[1] * cell[2]);
        Located { tetrahedron: (6 * number + path) as u32, weights }
    }
}

/// The cells along each axis that are nearest to a spacing over these lengths, both in mm, and at least one.
pub(crate) fn counts(lengths: [f64; 3], spacing: f64) -> Result<[usize; 3]> {
    if !(spacing > 0.0 && spacing.is_finite()) {
        return Err(ElasticityError::Spacing { spacing });
    }
    let cells = lengths.map(|length| ((length / spacing).round() as usize).max(1));
    check_count(cells)?;
    Ok(cells)
}

/// Checks that tetrahedra and their faces can be numbered.
fn check_count(cells: [usize; 3]) -> Result<()> {
    let count = cells.iter().try_fold(1usize, |n, &c| n.checked_mul(c));
    if count.is_none_or(|n| n > u32::MAX as usize / 32) {
        return Err(ElasticityError::TooFine { cells });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;

    fn two() -> TetraBox {
        TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3]).unwrap()).unwrap()
    }

    #[test]
    fn a_box_is_that_of_kuhn() {
        let mesh = two().mesh().unwrap();
        assert_eq!((mesh.vertices().len(), mesh.tetrahedra().len()), (27, 48));
        let first = [
            [0, 1, 4, 13],
            [0, 10, 1, 13],
            [0, 4, 3, 13],
            [0, 3, 12, 13],
            [0, 9, 10, 13],
            [0, 12, 9, 13],
        ];
        assert_eq!(&mesh.tetrahedra()[..6], &first);
        for e in 0..48 {
            let q = Quality::of(mesh.corners(e));
            assert!((q.volume - 125.0 / 6.0).abs() < 1e-10);
            assert!((q.mean_ratio - 0.755952629937).abs() < 1e-12, "{q:?}");
            assert!((q.radius_ratio - 0.717438935214).abs() < 1e-12, "{q:?}");
            assert!((q.dihedral_degrees[0] - 45.0).abs() < 1e-9);
            assert!((q.dihedral_degrees[1] - 90.0).abs() < 1e-9);
        }
        assert_eq!(mesh.faults().unwrap(), Vec::<Vec<u32>>::new());
        assert!(mesh.parts().unwrap().iter().all(|&part| part == 0));
        assert_eq!(mesh.boundary().unwrap().len(), 6 * 4 * 2);
    }

    /// Oblique, skewed and mirrored boxes have no inverted tetrahedra, and points are where the search over all says.
    #[test]
    fn points_are_found_in_any_box() {
        let matrix = Matrix3::new(3.0, 0.5, 0.0, -0.4, 2.0, 0.3, 0.2, 0.1, 4.0);
        for mirror in [1.0, -1.0] {
            let matrix = matrix * Matrix3::from_diagonal(&Vector3::new(mirror, 1.0, 1.0));
            let to_world = Affine::new(matrix, Vector3::new(10.0, -20.0, 5.0));
            let cells = TetraBox::new(Grid::new([4, 3, 5], to_world).unwrap()).unwrap();
            let mesh = cells.mesh().unwrap();
            for e in 0..mesh.tetrahedra().len() {
                assert!(voxalign_image::tetra::volume(mesh.corners(e)) > 0.0);
            }
            let mut state = 1u64;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) as f64 / (1u64 << 31) as f64
            };
            for _ in 0..500 {
                let index = Vector3::new(3.0 * random(), 2.0 * random(), 4.0 * random());
                let point = cells.vertices().index_to_world(index);
                let Located { tetrahedron, weights } = cells.locate(point);
                let corners = mesh.corners(tetrahedron as usize);
                let back: Vector3<f64> = corners.iter().zip(weights).map(|(c, w)| c * w).sum();
                assert!((back - point).norm() < 1e-12, "{point:?} {back:?}");
                assert!(weights.iter().all(|&w| w > -1e-12), "{weights:?}");
                assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn images_without_depth_are_refused() {
        let flat = Grid::axis_aligned([32, 32, 1], [1.0; 3]).unwrap();
        assert!(matches!(TetraBox::over(&flat, 4.0), Err(ElasticityError::Flat { .. })));
        let image = Grid::axis_aligned([2000; 3], [1.0; 3]).unwrap();
        for spacing in [1.0, 1e-9, 1e-300] {
            let error = TetraBox::over(&image, spacing).unwrap_err();
            assert!(matches!(error, ElasticityError::TooFine { .. }), "{error}");
        }
    }
}
