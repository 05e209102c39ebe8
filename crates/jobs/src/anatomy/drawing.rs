//! Images drawn from anatomies that have no ordinary image, for the affine registration and the report.

use super::read::{Data, Own};
use crate::error::{Error, Result};
use voxalign_compute::Memory;
use voxalign_compute::ops::Filter;
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::select::AnyDevice;
use voxalign_image::{Affine, Grid, Matrix3, Mesh, Vector3, Volume, memory};
use voxalign_options::text;

/// Voxels along the longest side of shapes, where no spacing is asked for.
const ACROSS: f64 = 80.0;
/// What is left free around shapes, as a part of their longest side, and in widths of kernels.
const MARGIN: (f64, f64) = (0.25, 2.0);
/// By how much pictures of shapes are smoothed, voxels.
const SMOOTH: f64 = 1.0;
/// The most voxels of a grid around shapes.
const MOST: f64 = (1u64 << 29) as f64;

/// The value of one of several things: none is near to another, nor to nothing.
fn value(number: usize, of: usize) -> f32 {
    match of {
        0 | 1 => 1.0,
        n => 0.4 + 0.6 * number as f32 / (n - 1) as f32,
    }
}

/// The classes of one side, each with a value of its own: `Σ vᵢ pᵢ`.
pub(super) fn of_classes<'a>(
    classes: impl ExactSizeIterator<Item = &'a Volume<f32>>,
) -> Result<Volume<f32>> {
    let count = classes.len();
    let mut sum: Option<Volume<f32>> = None;
    for (i, class) in classes.enumerate() {
        let factor = value(i, count);
        match &mut sum {
            None => sum = Some(class.try_map(|p| factor * p)?),
            Some(sum) => {
                for (v, p) in sum.data_mut().iter_mut().zip(class.data()) {
                    *v += factor * p;
                }
            }
        }
    }
    sum.ok_or_else(|| Error::Internal("no class to draw".into()))
}

/// The bounds of all shapes and points.
fn bounds(things: &[Own<'_>]) -> Option<[Vector3<f64>; 2]> {
    let mut all = things.iter().flat_map(|t| t.data.places());
    let first = *all.next()?;
    Some(all.fold([first; 2], |[low, high], v| [low.inf(v), high.sup(v)]))
}

/// The spacing of grids around shapes, mm: a part of their longest side.
pub(super) fn usual_spacing(things: &[Own<'_>]) -> f64 {
    let longest = bounds(things).map_or(1.0, |[low, high]| (high - low).max());
    // Two digits.
    let spacing = (longest / ACROSS).max(1e-3);
    let unit = 10f64.powf(spacing.log10().floor() - 1.0);
    (spacing / unit).ceil() * unit
}

/// A grid around shapes and points.
pub(super) fn around(things: &[Own<'_>], spacing: f64) -> Result<Grid> {
    let [low, high] =
        bounds(things).ok_or_else(|| Error::Internal("neither images nor shapes".into()))?;
    let widest = things.iter().filter(|t| t.of.kind.is_shape()).map(|t| t.of.width);
    let widest = widest.fold(0.0, f64::max);
    let margin = (MARGIN.0 * (high - low).max()).max(MARGIN.1 * widest).max(4.0 * spacing);
    let sizes = (high - low).map(|v| ((v + 2.0 * margin) / spacing).ceil() + 1.0);
    if sizes.product() > MOST {
        return Err(Error::input(text!(
            "`spacing` is {spacing}, which makes a grid of {:.0} x {:.0} x {:.0} voxels around the shapes; give more",
            sizes[0],
            sizes[1],
            sizes[2]
        )));
    }
    let middle = 0.5 * (low + high);
    let origin = middle - 0.5 * spacing * sizes.map(|n| n - 1.0);
    let dims = [0, 1, 2].map(|a| sizes[a] as usize);
    Ok(Grid::new(dims, Affine::new(Matrix3::identity() * spacing, origin))?)
}

/// Shapes and points on a grid: closed surfaces filled, everything else as lines and skins, each with a value
/// of its own, smoothed by a voxel.
pub(super) fn of_shapes(
    device: &AnyDevice,
    things: &[Own<'_>],
    grid: &Grid,
) -> Result<Volume<f32>> {
    let mut values = memory::filled(grid.len(), 0f32)?;
    let drawn: Vec<_> = things.iter().filter(|t| !t.data.places().is_empty()).collect();
    for (i, thing) in drawn.iter().enumerate() {
        let mut canvas = Canvas { grid, values: &mut values, value: value(i, drawn.len()) };
        match thing.data {
            Data::Mesh(mesh) => canvas.mesh(mesh)?,
            other => other.places().iter().for_each(|p| canvas.point(*p)),
        }
    }
    let values = device.upload_vec(values)?;
    let mut smooth = device.alloc::<f32>(grid.len())?;
    device.gaussian(&values, grid.dims(), [SMOOTH; 3], GaussianMethod::Fir, &mut smooth)?;
    Ok(Volume::new(grid.clone(), device.into_host(smooth)?)?)
}

/// What is drawn on.
struct Canvas<'a> {
    grid: &'a Grid,
    values: &'a mut [f32],
    value: f32,
}

impl Canvas<'_> {
    /// A voxel of these coordinates, where it is one.
    fn voxel(&mut self, at: [f64; 3]) {
        let dims = self.grid.dims();
        if (0..3).all(|a| at[a] >= 0.0 && at[a] < dims[a] as f64) {
            let [x, y, z] = at.map(|v| v as usize);
            let here = &mut self.values[(z * dims[1] + y) * dims[0] + x];
            *here = here.max(self.value);
        }
    }

    fn point(&mut self, p: Vector3<f64>) {
        let index = self.grid.world_to_index(p);
        self.voxel([0, 1, 2].map(|a| index[a].round()));
    }

    fn mesh(&mut self, mesh: &Mesh) -> Result<()> {
        let place = |i: u32| mesh.vertices().get(i as usize).copied().unwrap_or_default();
        if mesh.is_closed()? {
            return self.fill(mesh);
        }
        let step = 0.5 * self.grid.spacing()[0];
        let steps = |length: f64| (length / step).ceil().max(1.0);
        for face in mesh.faces() {
            let [a, b, c] = face.map(place);
            let n = steps((b - a).norm().max((c - a).norm()).max((c - b).norm()));
            for i in 0..=n as usize {
                for j in 0..=(n as usize - i) {
                    let [u, v] = [i as f64 / n, j as f64 / n];
                    self.point(a + u * (b - a) + v * (c - a));
                }
            }
        }
        for ends in mesh.lines().flat_map(|line| line.windows(2)) {
            let [a, b] = [place(ends[0]), place(ends[1])];
            let n = steps((b - a).norm());
            for i in 0..=n as usize {
                self.point(a + i as f64 / n * (b - a));
            }
        }
        if mesh.faces().is_empty() && mesh.lines().next().is_none() {
            mesh.vertices().iter().for_each(|p| self.point(*p));
        }
        Ok(())
    }

    /// The inside of a closed surface: along each row of voxels, what lies between two crossings of it.
    fn fill(&mut self, mesh: &Mesh) -> Result<()> {
        let [nx, ny, nz] = self.grid.dims();
        // Rows go through no vertex, as few coordinates are such numbers.
        let [off_y, off_z] = [1.234_567e-4, 2.718_28e-4];
        let corner = |i: u32| {
            self.grid.world_to_index(mesh.vertices().get(i as usize).copied().unwrap_or_default())
        };
        let mut crossings: Vec<(u32, f32)> = Vec::new();
        for face in mesh.faces() {
            let [a, b, c] = face.map(corner);
            let range = |k: usize, off: f64, most: usize| {
                let [low, high] = [a[k].min(b[k]).min(c[k]), a[k].max(b[k]).max(c[k])];
                let first = (low - off).ceil().max(0.0) as usize;
                let end = ((high - off).floor() + 1.0).clamp(0.0, most as f64) as usize;
                first..end.max(first)
            };
            let doubled = (b[1] - a[1]) * (c[2] - a[2]) - (b[2] - a[2]) * (c[1] - a[1]);
            if doubled == 0.0 {
                continue;
            }
            for z in range(2, off_z, nz) {
                for y in range(1, off_y, ny) {
                    let [py, pz] = [y as f64 + off_y, z as f64 + off_z];
                    let of = |p: &Vector3<f64>, q: &Vector3<f64>| {
                        (p[1] - py) * (q[2] - pz) - (p[2] - pz) * (q[1] - py)
                    };
                    let weights = [of(&b, &c), of(&c, &a), of(&a, &b)].map(|w| w / doubled);
                    if weights.iter().all(|w| *w >= 0.0) {
                        let x = weights[0] * a[0] + weights[1] * b[0] + weights[2] * c[0];
                        memory::push(&mut crossings, ((z * ny + y) as u32, x as f32))?;
                    }
                }
            }
        }
        crossings.sort_unstable_by(|p, q| p.0.cmp(&q.0).then(p.1.total_cmp(&q.1)));
        for row in crossings.chunk_by(|p, q| p.0 == q.0) {
            for inside in row.chunks_exact(2) {
                let [from, to] = [inside[0].1.ceil().max(0.0), inside[1].1.floor()];
                let row = inside[0].0 as usize * nx;
                for x in from as usize..((to + 1.0).clamp(0.0, nx as f32) as usize) {
                    let here = &mut self.values[row + x];
                    *here = here.max(self.value);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A box of these half sides about a place.
    fn block(half: Vector3<f64>, at: Vector3<f64>) -> Mesh {
        let corner = |i: usize| {
            let side = |a: usize| if i >> a & 1 == 1 { half[a] } else { -half[a] };
            at + Vector3::new(side(0), side(1), side(2))
        };
        let faces = vec![
            [0, 2, 1],
            [1, 2, 3],
            [4, 5, 6],
            [5, 7, 6],
            [0, 1, 4],
            [1, 5, 4],
            [2, 6, 3],
            [3, 6, 7],
            [0, 4, 2],
            [2, 4, 6],
            [1, 3, 5],
            [3, 7, 5],
        ];
        Mesh::new((0..8).map(corner).collect(), faces).unwrap()
    }

    #[test]
    fn closed_surfaces_are_filled() {
        let grid = Grid::axis_aligned([30, 28, 26], [2.0; 3]).unwrap();
        let mesh = block(Vector3::new(11.0, 9.0, 7.0), Vector3::new(25.3, 26.1, 24.7));
        assert!(mesh.volume().unwrap().unwrap() > 0.0);
        let mut values = vec![0f32; grid.len()];
        Canvas { grid: &grid, values: &mut values, value: 0.7 }.mesh(&mesh).unwrap();
        let volume = values.iter().filter(|v| **v > 0.0).count() as f64 * grid.voxel_volume();
        let expected = 22.0 * 18.0 * 14.0;
        assert!((volume / expected - 1.0).abs() < 0.15, "{volume} against {expected}");
        // Open ones have a skin.
        let open = Mesh::new(mesh.vertices().to_vec(), mesh.faces()[2..].to_vec()).unwrap();
        let mut skin = vec![0f32; grid.len()];
        Canvas { grid: &grid, values: &mut skin, value: 0.7 }.mesh(&open).unwrap();
        let count = |all: &[f32]| all.iter().filter(|v| **v > 0.0).count();
        assert!(count(&skin) > 100 && count(&skin) < count(&values), "{}", count(&skin));
    }

    #[test]
    fn values_are_apart() {
        let all: Vec<f32> = (0..4).map(|i| value(i, 4)).collect();
        assert!(all.windows(2).all(|w| w[1] - w[0] > 0.1) && all[0] > 0.3 && all[3] == 1.0);
        assert_eq!(value(0, 1), 1.0);
    }
}
