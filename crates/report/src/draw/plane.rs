//! Orthogonal planes through an image, in radiological orientation.
//!
//! Pictures are in the radiological convention: the patient's right is on the left of axial and
//! coronal pictures, the front on the left of sagittal ones. So each displayed axis runs, from left
//! to right and from top to bottom, towards decreasing world coordinates (R to L, A to P, S to I).

use voxalign_image::{Grid, Volume, memory};

/// Longest side of a picture of a volume, pixels: at least and at most.
const PIXELS_3D: [f64; 2] = [256.0, 400.0];
/// Longest side of the picture of an image of one slice, pixels: at least and at most.
const PIXELS_2D: [f64; 2] = [320.0, 640.0];
/// Longest side of a small picture, pixels.
const PIXELS_SMALL: f64 = 200.0;
/// A plane is left out when its picture would be thinner than this fraction of the longest side.
const THINNEST: f64 = 0.04;

/// A plane through a grid.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plane {
    /// `axial`, `coronal` or `sagittal`.
    pub(crate) name: &'static str,
    /// The voxel axis across it and the slice along that axis.
    pub(crate) axis: usize,
    pub(crate) slice: usize,
    /// The pixels along each side.
    across: Side,
    down: Side,
    /// The letters at the left, right, top and bottom of the picture; none for a 2D image, whose axes need not be
    /// those of a body.
    pub(crate) letters: Option<[char; 4]>,
}

/// The pixels along one side of a picture.
#[derive(Debug, Clone, PartialEq)]
struct Side {
    axis: usize,
    taps: Vec<Taps>,
    nearest: Vec<usize>,
    /// The index at the middle of each pixel, also beyond the first and the last voxel's centre.
    middle: Vec<f64>,
    /// The first and the last voxel that each pixel shows a part of.
    covered: Vec<[usize; 2]>,
}

/// The voxels that one pixel is made of.
#[derive(Debug, Clone, PartialEq)]
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

impl Side {
    /// `pixels` pixels over the `size` voxels of an axis, from its end if it is reversed.
    ///
    /// Linear interpolation, and where voxels are finer than pixels a triangle of two pixels' width.
    fn new(axis: usize, size: usize, pixels: usize, reversed: bool) -> Self {
        let ratio = size as f64 / pixels as f64;
        let reach = ratio.max(1.0);
        let mut side = Self {
            axis,
            taps: Vec::new(),
            nearest: Vec::new(),
            middle: Vec::new(),
            covered: Vec::new(),
        };
        for pixel in 0..pixels {
            let pixel = if reversed { pixels - 1 - pixel } else { pixel };
            let middle = (pixel as f64 + 0.5) * ratio - 0.5;
            let centre = middle.clamp(0.0, size as f64 - 1.0);
            let first = (centre - reach).ceil().max(0.0) as usize;
            let last = ((centre + reach).floor() as usize).min(size - 1);
            let mut weights: Vec<f32> = (first..=last)
                .map(|i| (1.0 - (i as f64 - centre).abs() / reach).max(0.0) as f32)
                .collect();
            let sum: f32 = weights.iter().sum();
            weights.iter_mut().for_each(|w| *w /= sum);
            side.taps.push(Taps { first, weights });
            side.nearest.push(((centre + 0.5).floor() as usize).min(size - 1));
            side.middle.push(middle);
            let start = ((pixel as f64 * ratio + 1e-6) as usize).min(size - 1);
            let end = (((pixel + 1) as f64 * ratio - 1e-6).ceil() as usize).clamp(start + 1, size);
            side.covered.push([start, end - 1]);
        }
        side
    }
}

/// The planes through an index that are worth a picture: axial, coronal, sagittal, in this order.
pub(crate) fn planes(grid: &Grid, centre: [usize; 3]) -> Vec<Plane> {
    planes_within(grid, centre, None)
}

/// Checks that there is memory for pictures of planes: they have no more pixels than screens, and what is made of
/// them is a few times as much.
///
/// # Errors
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory).
pub(crate) fn check_memory(planes: &[Plane]) -> crate::Result<()> {
    const PIXEL: usize = 64;
    let pixels: usize = planes.iter().map(|plane| plane.width() * plane.height()).sum();
    memory::room::<u8>(PIXEL * pixels)?;
    Ok(())
}

/// The planes of a small picture of an image of one slice: a single one.
pub(crate) fn small(grid: &Grid) -> Vec<Plane> {
    planes_within(grid, [0; 3], Some([PIXELS_SMALL; 2]))
}

/// Slices along the axis of a plane, as small pictures.
pub(crate) fn along(grid: &Grid, plane: &Plane, slices: &[usize]) -> Vec<Plane> {
    let at = |&slice: &usize| {
        let mut centre = [0; 3];
        centre[plane.axis] = slice;
        let planes = planes_within(grid, centre, Some([PIXELS_SMALL; 2]));
        planes.into_iter().find(|p| p.name == plane.name)
    };
    slices.iter().filter_map(at).collect()
}

/// The planes, with longest sides of between these numbers of pixels.
pub(crate) fn planes_within(
    grid: &Grid,
    centre: [usize; 3],
    pixels: Option<[f64; 2]>,
) -> Vec<Plane> {
    let dims = grid.dims();
    let extent = grid.extent();
    let axes = Axes::new(grid);
    let order = [("axial", 2, 0, 1), ("coronal", 1, 0, 2), ("sagittal", 0, 1, 2)];
    // The world axis that the image is thinnest along; its plane is always drawn.
    let thinnest = (0..3)
        .rev()
        .min_by(|&a, &b| {
            let (a, b) = (axes.voxel[a], axes.voxel[b]);
            (dims[a] > 1, extent[a])
                .partial_cmp(&(dims[b] > 1, extent[b]))
                .unwrap_or_else(|| a.cmp(&b))
        })
        .unwrap_or(2);
    let size = |world: usize| extent[axes.voxel[world]];
    let longest = (0..3)
        .filter(|&w| w != thinnest)
        .map(size)
        .fold(0.0, f64::max)
        .max(if dims[axes.voxel[thinnest]] > 1 { size(thinnest) } else { 0.0 });
    let wanted = |(_, normal, u, v): &(&str, usize, usize, usize)| {
        let thick = |w: usize| dims[axes.voxel[w]] > 1 && size(w) >= THINNEST * longest;
        *normal == thinnest || (thick(*u) && thick(*v))
    };
    let order: Vec<_> = order.into_iter().filter(wanted).collect();
    let limits = pixels.unwrap_or(if order.len() == 1 { PIXELS_2D } else { PIXELS_3D });
    let finest = order
        .iter()
        .flat_map(|&(_, _, u, v)| [u, v])
        .filter(|&w| dims[axes.voxel[w]] > 1)
        .map(|w| size(w) / dims[axes.voxel[w]] as f64)
        .fold(f64::INFINITY, f64::min);
    let pixel = longest / (longest / finest).clamp(limits[0], limits[1]);
    let side = |world: usize| {
        let axis = axes.voxel[world];
        let pixels = ((size(world) / pixel).round() as usize).clamp(1, limits[1] as usize + 1);
        Side::new(axis, dims[axis], pixels, axes.towards_positive[world])
    };
    const HIGH: [char; 3] = ['R', 'A', 'S'];
    const LOW: [char; 3] = ['L', 'P', 'I'];
    order
        .into_iter()
        .map(|(name, normal, u, v)| Plane {
            name,
            axis: axes.voxel[normal],
            slice: centre[axes.voxel[normal]].min(dims[axes.voxel[normal]] - 1),
            across: side(u),
            down: side(v),
            letters: (!grid.is_2d()).then_some([HIGH[u], LOW[u], HIGH[v], LOW[v]]),
        })
        .collect()
}

/// Which voxel axis is closest to each world axis, and whether it runs the same way.
struct Axes {
    voxel: [usize; 3],
    towards_positive: [bool; 3],
}

impl Axes {
    fn new(grid: &Grid) -> Self {
        let mut axes = Self { voxel: [0, 1, 2], towards_positive: [true; 3] };
        for (axis, letter) in grid.orientation().chars().enumerate().take(3) {
            let world = match letter {
                'L' | 'R' => 0,
                'P' | 'A' => 1,
                _ => 2,
            };
            axes.voxel[world] = axis;
            axes.towards_positive[world] = matches!(letter, 'R' | 'A' | 'S');
        }
        axes
    }
}

impl Plane {
    /// Width of its picture, pixels.
    pub(crate) fn width(&self) -> usize {
        self.across.taps.len()
    }

    /// Height of its picture, pixels.
    pub(crate) fn height(&self) -> usize {
        self.down.taps.len()
    }

    /// Width and height of its picture, pixels.
    pub(crate) fn size(&self) -> [usize; 2] {
        [self.width(), self.height()]
    }

    /// The values of an image on this plane, rows from the top; what is not a number becomes
    /// `fill`.
    pub(crate) fn draw(&self, image: &Volume<f32>, fill: f32) -> Vec<f32> {
        self.draw_values(image.data(), image.dims(), fill)
    }

    /// As [`draw`](Self::draw), of values on a grid of these sizes.
    pub(crate) fn draw_values(&self, data: &[f32], dims: [usize; 3], fill: f32) -> Vec<f32> {
        let (start, across, down) = self.strides(dims);
        let rows = dims[self.down.axis];
        let width = self.width();
        let mut lines = vec![0f32; rows * width];
        for (row, line) in lines.chunks_exact_mut(width).enumerate() {
            let base = start + row * down;
            for (value, taps) in line.iter_mut().zip(&self.across.taps) {
                for (i, weight) in taps.weights.iter().enumerate() {
                    let v = data[base + (taps.first + i) * across];
                    *value += weight * if v.is_finite() { v } else { fill };
                }
            }
        }
        let mut picture = vec![0f32; width * self.height()];
        for (line, taps) in picture.chunks_exact_mut(width).zip(&self.down.taps) {
            for (i, weight) in taps.weights.iter().enumerate() {
                let from = &lines[(taps.first + i) * width..][..width];
                line.iter_mut().zip(from).for_each(|(value, v)| *value += weight * v);
            }
        }
        picture
    }

    /// The values of the nearest voxels, rows from the top: for regions and masks.
    pub(crate) fn nearest<T: Copy>(&self, image: &Volume<T>) -> Vec<T> {
        let data = image.data();
        self.nearest_of(image.dims(), |voxel| data[voxel])
    }

    /// The same of what there is in each voxel of a grid of these sizes, by its number.
    pub(crate) fn nearest_of<T>(&self, dims: [usize; 3], at: impl Fn(usize) -> T) -> Vec<T> {
        let (start, across, down) = self.strides(dims);
        let mut all = Vec::with_capacity(self.width() * self.height());
        for row in &self.down.nearest {
            all.extend(self.across.nearest.iter().map(|i| at(start + row * down + i * across)));
        }
        all
    }

    /// Which pixels show a part of a voxel whose value is of some kind.
    pub(crate) fn any(&self, image: &Volume<f32>, kind: impl Fn(f32) -> bool) -> Vec<bool> {
        let (start, across, down) = self.strides(image.dims());
        let data = image.data();
        let mut out = Vec::with_capacity(self.width() * self.height());
        for rows in &self.down.covered {
            for columns in &self.across.covered {
                out.push((rows[0]..=rows[1]).any(|row| {
                    (columns[0]..=columns[1])
                        .any(|column| kind(data[start + row * down + column * across]))
                }));
            }
        }
        out
    }

    /// The voxel axes to the right and down, each with the index at the middle of every pixel.
    pub(crate) fn sides(&self) -> [(usize, &[f64]); 2] {
        [(self.across.axis, &self.across.middle), (self.down.axis, &self.down.middle)]
    }

    /// The first voxel of the plane, and the steps along a row and from row to row.
    fn strides(&self, dims: [usize; 3]) -> (usize, usize, usize) {
        let step = [1, dims[0], dims[0] * dims[1]];
        (self.slice * step[self.axis], step[self.across.axis], step[self.down.axis])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, Matrix3, Vector3};

    /// An image whose values are one world coordinate.
    fn coordinate(grid: &Grid, world: usize) -> Volume<f32> {
        Volume::from_fn(grid.clone(), |x, y, z| {
            grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64))[world] as f32
        })
    }

    #[test]
    fn pictures_are_radiological_however_the_axes_run() {
        let flips = [
            Matrix3::identity(),
            Matrix3::new(-1., 0., 0., 0., -1., 0., 0., 0., 2.),
            Matrix3::new(0., 0., 1.5, -1., 0., 0., 0., 1., 0.),
            Matrix3::new(0., 1., 0., 0., 0., -1., -3., 0., 0.),
            tilt() * Matrix3::new(0., 1., 0., 0., 0., -1., -1.2, 0., 0.),
        ];
        for matrix in flips {
            let to_world = Affine::new(matrix, Vector3::new(3.0, 4.0, -5.0));
            let grid = Grid::new([20, 24, 28], to_world).unwrap();
            let list = planes(&grid, [10, 12, 14]);
            let names: Vec<_> = list.iter().map(|p| p.name).collect();
            assert_eq!(names, ["axial", "coronal", "sagittal"]);
            for plane in &list {
                let (u, v) = match plane.name {
                    "axial" => (0, 1),
                    "coronal" => (0, 2),
                    _ => (1, 2),
                };
                let [left, _, _, bottom] = plane.letters.unwrap();
                assert_eq!((left, bottom), (['R', 'A', 'S'][u], ['L', 'P', 'I'][v]));
                let (w, h) = (plane.width(), plane.height());
                let across = plane.draw(&coordinate(&grid, u), 0.0);
                let down = plane.draw(&coordinate(&grid, v), 0.0);
                let middle = h / 2 * w;
                assert!(across[middle] > across[middle + w - 1], "{matrix} {}", plane.name);
                assert!(down[w / 2] > down[(h - 1) * w + w / 2], "{matrix} {}", plane.name);
            }
        }
    }

    /// A slight rotation about all axes.
    fn tilt() -> Matrix3<f64> {
        let parts = voxalign_image::AffineParameters {
            rotation: Vector3::new(0.2, -0.15, 0.25),
            ..voxalign_image::AffineParameters::identity(Vector3::zeros())
        };
        parts.to_affine().matrix
    }

    #[test]
    fn anisotropic_voxels_keep_their_proportions() {
        let grid = Grid::axis_aligned([100, 100, 20], [1.0, 1.0, 5.0]).unwrap();
        for plane in planes(&grid, [50, 50, 10]) {
            assert_eq!((plane.width(), plane.height()), (256, 256), "{}", plane.name);
        }
        let grid = Grid::axis_aligned([100, 50, 20], [1.0, 1.0, 2.0]).unwrap();
        let sizes: Vec<_> = planes(&grid, [0; 3]).iter().map(|p| (p.width(), p.height())).collect();
        assert_eq!(sizes, [(256, 128), (256, 102), (128, 102)]);
    }

    #[test]
    fn flat_images_have_one_plane() {
        let flat = Grid::axis_aligned([64, 32, 1], [1.0, 1.0, 80.0]).unwrap();
        let list = planes(&flat, [0; 3]);
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].name, list[0].width(), list[0].height()), ("axial", 320, 160));
        assert_eq!(list[0].letters, None);
        let sagittal = Grid::axis_aligned([1, 64, 32], [1.0; 3]).unwrap();
        assert_eq!(planes(&sagittal, [0; 3])[0].name, "sagittal");
        let slab = Grid::axis_aligned([256, 256, 3], [1.0; 3]).unwrap();
        assert_eq!(planes(&slab, [0; 3]).len(), 1);
        for dims in [[1, 1, 1], [7, 1, 1], [1, 7, 1], [1, 1, 7]] {
            let grid = Grid::axis_aligned(dims, [1.0, 2.0, 3.0]).unwrap();
            let list = planes(&grid, [0; 3]);
            assert_eq!(list.len(), 1, "{dims:?}");
            let picture = list[0].draw(&Volume::filled(grid, 2.0), 0.0);
            assert!(!picture.is_empty() && picture.iter().all(|v| (v - 2.0).abs() < 1e-6));
        }
    }

    #[test]
    fn finer_voxels_are_averaged() {
        let grid = Grid::axis_aligned([4000, 2000, 1], [0.1, 0.1, 1.0]).unwrap();
        let image = Volume::from_fn(grid.clone(), |x, y, _| ((x + y) % 2) as f32);
        let plane = &planes(&grid, [0; 3])[0];
        assert_eq!((plane.width(), plane.height()), (640, 320));
        let picture = plane.draw(&image, 0.0);
        assert!(picture.iter().all(|v| (v - 0.5).abs() < 0.05));
        assert_eq!(plane.nearest(&image.map(|_| 7)), vec![7; 640 * 320]);
    }

    #[test]
    fn single_voxels_are_marked_at_any_size_of_pixels() {
        for dims in [[1000, 800, 1], [10, 8, 1]] {
            let grid = Grid::axis_aligned(dims, [1.0; 3]).unwrap();
            let image =
                Volume::from_fn(grid.clone(), |x, y, _| if (x, y) == (3, 5) { -1.0 } else { 1.0 });
            let plane = &planes(&grid, [0; 3])[0];
            let marks = plane.any(&image, |v| v <= 0.0);
            assert_eq!(marks.len(), plane.width() * plane.height());
            let count = marks.iter().filter(|m| **m).count();
            let pixels = plane.width() as f64 / dims[0] as f64;
            let wanted = (pixels * pixels).max(1.0);
            assert!(count as f64 >= wanted && count as f64 <= 4.0 * wanted, "{count} {wanted}");
            let [(axis, middles), _] = plane.sides();
            assert_eq!((axis, middles.len()), (0, plane.width()));
            // R is on the left: the first pixel shows the last voxel.
            assert!(middles[0] > dims[0] as f64 - 1.6 && middles[0] > middles[1]);
        }
    }

    #[test]
    fn what_is_not_a_number_is_filled() {
        let grid = Grid::axis_aligned([8, 8, 1], [1.0; 3]).unwrap();
        let image = Volume::from_fn(grid.clone(), |x, _, _| if x < 4 { f32::NAN } else { 1.0 });
        let picture = planes(&grid, [0; 3])[0].draw(&image, 0.0);
        assert!(picture.iter().all(|v| v.is_finite()));
        assert_eq!((picture[0], picture[319]), (1.0, 0.0));
    }
}
