//! The tetrahedron that holds a point.

use crate::error::Result;
use voxalign_image::{Matrix3, TetraMesh, Vector3, memory};

/// Weights down to this much below 0 are those of a point in the tetrahedron, so that no rounding loses one on a face.
const INSIDE: f64 = -1e-6;

/// What is added to the bounding box of a tetrahedron on each side, as a part of its size: more than [`INSIDE`] lets points leave it.
const MARGIN: f64 = 1e-5;

/// The edge of a bin, as a multiple of the edge of a cube that has the mean volume of a tetrahedron.
const BIN: f64 = 2.0;

/// At most so many bins a tetrahedron: a thin mesh may fill little of its bounding box.
const BINS: usize = 8;

/// Where a point is in a mesh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located {
    /// The number of the tetrahedron.
    pub tetrahedron: u32,
    /// The barycentric weights of its four corners at the point; their sum is 1.
    pub weights: [f64; 4],
}

impl Located {
    /// The weighted sum of values at the vertices of the mesh.
    ///
    /// # Panics
    /// Where the tetrahedron has a vertex without a value.
    #[must_use]
    pub fn interpolated(&self, tetrahedra: &[[u32; 4]], values: &[Vector3<f64>]) -> Vector3<f64> {
        let corners = tetrahedra[self.tetrahedron as usize];
        corners.iter().zip(self.weights).map(|(&i, w)| values[i as usize] * w).sum()
    }
}

/// The tetrahedra of any mesh, listed by the cubes of a lattice that they meet.
///
/// A point is in the tetrahedron with the lowest number of those that hold it, with weights down to -1e-6 counted as 0: what is
/// found does not depend on the lattice.
///
/// ```
/// use voxalign_elasticity::{Bins, TetraBox};
/// use voxalign_image::{Grid, Vector3};
///
/// # fn main() -> Result<(), voxalign_elasticity::ElasticityError> {
/// let mesh = TetraBox::new(Grid::axis_aligned([3; 3], [5.0; 3])?)?.mesh()?;
/// let bins = Bins::new(&mesh)?;
/// let found = bins.locate(Vector3::new(4.0, 3.0, 2.0));
/// assert_eq!(found.map(|l| l.tetrahedron), Some(0));
/// assert_eq!(bins.locate(Vector3::repeat(11.0)), None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Bins {
    /// The lowest corner of the lattice and the highest one of the mesh, mm.
    bounds: [Vector3<f64>; 2],
    /// Edge of a cube, mm.
    edge: f64,
    dims: [usize; 3],
    /// Where the list of each bin begins, and the end of the last one.
    starts: Vec<usize>,
    /// The tetrahedra of all bins, in rising order in each.
    members: Vec<u32>,
    shapes: Vec<Shape>,
}

/// What gives the weights of a point in a tetrahedron.
#[derive(Debug, Clone, Copy)]
struct Shape {
    first: Vector3<f64>,
    /// The inverse of the matrix whose columns are the edges from the first corner; zero for a flat tetrahedron.
    inverse: Matrix3<f64>,
}

impl Shape {
    fn of([a, b, c, d]: [Vector3<f64>; 4]) -> Self {
        let inverse = Matrix3::from_columns(&[b - a, c - a, d - a]).try_inverse();
        // With a matrix of NaN no point has weights that count.
        Self { first: a, inverse: inverse.unwrap_or_else(|| Matrix3::repeat(f64::NAN)) }
    }

    fn weights(&self, point: Vector3<f64>) -> [f64; 4] {
        let w = self.inverse * (point - self.first);
        [1.0 - w.sum(), w.x, w.y, w.z]
    }

    /// The weights of a point that it holds, none of them below 0.
    fn holds(&self, point: Vector3<f64>) -> Option<[f64; 4]> {
        let weights = self.weights(point);
        if !weights.iter().all(|&w| w >= INSIDE) {
            return None;
        }
        let clamped = weights.map(|w| w.max(0.0));
        let sum: f64 = clamped.iter().sum();
        Some(clamped.map(|w| w / sum))
    }
}

impl Bins {
    /// The bins of a mesh, for points in it where its vertices are now. A flat tetrahedron holds no point.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`](crate::ElasticityError::OutOfMemory).
    pub fn new(mesh: &TetraMesh) -> Result<Self> {
        let count = mesh.tetrahedra().len();
        let [low, high] = mesh.bounds().unwrap_or([Vector3::zeros(); 2]);
        let margin = (high - low) * MARGIN;
        let bounds = [low - margin, high + margin];
        let (edge, dims) = lattice(bounds, mesh.volume().abs(), count);
        let mut bins = Self {
            bounds,
            edge,
            dims,
            starts: memory::zeroed(dims.iter().product::<usize>() + 1)?,
            members: Vec::new(),
            shapes: memory::collected((0..count).map(|e| Shape::of(mesh.corners(e))))?,
        };
        bins.fill(mesh)?;
        Ok(bins)
    }

    /// The tetrahedron with the lowest number that holds a point, mm, and the weights there, none below 0; nothing where none does.
    #[must_use]
    pub fn locate(&self, point: Vector3<f64>) -> Option<Located> {
        let [low, high] = self.bounds;
        // A point that is not finite is in none.
        if !(0..3).all(|a| point[a] >= low[a] && point[a] <= high[a]) {
            return None;
        }
        let bin = self.number(self.cell(point));
        let list = &self.members[self.starts[bin]..self.starts[bin + 1]];
        list.iter().find_map(|&tetrahedron| {
            let weights = self.shapes[tetrahedron as usize].holds(point)?;
            Some(Located { tetrahedron, weights })
        })
    }

    /// Lists the tetrahedra, by counting them first.
    fn fill(&mut self, mesh: &TetraMesh) -> Result<()> {
        let count = mesh.tetrahedra().len();
        for e in 0..count {
            self.visit(mesh.corners(e), |bins, bin| bins.starts[bin + 1] += 1);
        }
        for bin in 1..self.starts.len() {
            self.starts[bin] += self.starts[bin - 1];
        }
        let all = self.starts.last().copied().unwrap_or(0);
        self.members = memory::zeroed(all)?;
        let mut next = memory::copied(&self.starts)?;
        for e in 0..count {
            self.visit(mesh.corners(e), |bins, bin| {
                bins.members[next[bin]] = e as u32;
                next[bin] += 1;
            });
        }
        Ok(())
    }

    /// Calls for each bin that the bounding box of a tetrahedron meets.
    fn visit(&mut self, corners: [Vector3<f64>; 4], mut call: impl FnMut(&mut Self, usize)) {
        let low = corners.iter().fold(corners[0], |low, c| low.inf(c));
        let high = corners.iter().fold(corners[0], |high, c| high.sup(c));
        let margin = (high - low) * MARGIN;
        let [from, to] = [self.cell(low - margin), self.cell(high + margin)];
        for z in from[2]..=to[2] {
            for y in from[1]..=to[1] {
                for x in from[0]..=to[0] {
                    let bin = self.number([x, y, z]);
                    call(self, bin);
                }
            }
        }
    }

    fn cell(&self, point: Vector3<f64>) -> [usize; 3] {
        std::array::from_fn(|a| {
            // Numbers below 0 become 0.
            let at = ((point[a] - self.bounds[0][a]) / self.edge) as usize;
            at.min(self.dims[a] - 1)
        })
    }

    fn number(&self, [x, y, z]: [usize; 3]) -> usize {
        x + self.dims[0] * (y + self.dims[1] * z)
    }
}

/// The edge of the cubes, mm, and their number along each axis.
fn lattice([low, high]: [Vector3<f64>; 2], volume: f64, count: usize) -> (f64, [usize; 3]) {
    let size = high - low;
    let mean = (volume / count.max(1) as f64).cbrt();
    let longest = size.max();
    if !(longest > 0.0 && longest.is_finite()) {
        return (1.0, [1; 3]);
    }
    let mut edge = (BIN * mean).max(longest * 1e-6);
    let most = (BINS * count).max(1) as f64;
    loop {
        let dims = size.map(|s| (s / edge).ceil().max(1.0));
        if dims.product() <= most {
            return (edge, std::array::from_fn(|a| dims[a] as usize));
        }
        edge *= 1.25;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TetraBox;
    use crate::tests::Random;
    use voxalign_image::Grid;

    /// The rule, over all tetrahedra.
    fn brute(mesh: &TetraMesh, point: Vector3<f64>) -> Option<Located> {
        (0..mesh.tetrahedra().len()).find_map(|e| {
            let weights = Shape::of(mesh.corners(e)).holds(point)?;
            Some(Located { tetrahedron: e as u32, weights })
        })
    }

    fn cells() -> TetraBox {
        TetraBox::new(Grid::axis_aligned([4, 5, 3], [2.0, 3.0, 4.0]).unwrap()).unwrap()
    }

    #[test]
    fn bins_find_what_the_search_over_all_finds() {
        let mut random = Random(3);
        let mesh = cells().mesh().unwrap();
        let moved = mesh.vertices().iter().map(|v| v + random.vector() * 0.4).collect();
        let mesh = mesh.with_vertices(moved).unwrap();
        let bins = Bins::new(&mesh).unwrap();
        let mut inside = 0;
        for _ in 0..2000 {
            let point = Vector3::new(3.0, 6.0, 4.0)
                + random.vector().component_mul(&Vector3::new(4.0, 7.0, 5.0));
            let found = bins.locate(point);
            assert_eq!(found, brute(&mesh, point), "{point:?}");
            if let Some(found) = found {
                inside += 1;
                let back = found.interpolated(mesh.tetrahedra(), mesh.vertices());
                assert!((back - point).norm() < 1e-4, "{found:?}");
            }
        }
        assert!((500..2000).contains(&inside), "{inside}");
        // Vertices, middles of edges and of faces belong to several tetrahedra.
        for e in 0..mesh.tetrahedra().len() {
            let [a, b, c, _] = mesh.corners(e);
            for point in [a, (a + b) / 2.0, (a + b + c) / 3.0] {
                let found = bins.locate(point).unwrap();
                assert_eq!(Some(found), brute(&mesh, point));
                assert!(found.tetrahedron as usize <= e);
                let back = found.interpolated(mesh.tetrahedra(), mesh.vertices());
                assert!((back - point).norm() < 1e-4);
            }
        }
    }

    #[test]
    fn a_box_and_bins_agree() {
        let cells = cells();
        let mesh = cells.mesh().unwrap();
        let bins = Bins::new(&mesh).unwrap();
        let mut random = Random(5);
        for _ in 0..1000 {
            let point = Vector3::new(3.0, 6.0, 4.0)
                + random.vector().component_mul(&Vector3::new(3.0, 6.0, 4.0));
            let (a, b) = (cells.locate(point), bins.locate(point).unwrap());
            assert_eq!(a.tetrahedron, b.tetrahedron);
            assert!((0..4).all(|i| (a.weights[i] - b.weights[i]).abs() < 1e-12));
        }
        // On vertices another tetrahedron may be found, with the same values.
        for &point in mesh.vertices() {
            for found in [cells.locate(point), bins.locate(point).unwrap()] {
                let back = found.interpolated(mesh.tetrahedra(), mesh.vertices());
                assert!((back - point).norm() < 1e-12);
            }
        }
    }

    #[test]
    fn what_is_nowhere_is_not_found() {
        let empty = Bins::new(&TetraMesh::default()).unwrap();
        assert_eq!(empty.locate(Vector3::zeros()), None);
        let bins = Bins::new(&cells().mesh().unwrap()).unwrap();
        assert_eq!(bins.locate(Vector3::repeat(f64::NAN)), None);
        assert_eq!(bins.locate(Vector3::new(-0.1, 1.0, 1.0)), None);
        let corners = [[0., 0., 0.], [1., 0., 0.], [0., 1., 0.], [1., 1., 0.]].map(Vector3::from);
        let flat = TetraMesh::new(corners.into(), vec![[0, 1, 2, 3]]).unwrap();
        assert_eq!(Bins::new(&flat).unwrap().locate(Vector3::zeros()), None);
    }
}
