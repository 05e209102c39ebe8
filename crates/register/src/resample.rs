//! Resampling of images, label maps and transforms onto a reference grid, in one interpolation through any
//! transform.
//!
//! A transform maps points of the reference (the fixed image) to points of the moving one. A chain
//! with displacement fields is summed into one field first, on the reference grid, so that an image
//! is interpolated once however long the chain is.

use crate::error::Result;
use crate::there::{kept, uploaded};
use rayon::prelude::*;
use std::sync::Arc;
use voxalign_compute::ops::resample::{Interpolation, LabelInterpolation};
use voxalign_compute::{AffineMap, Device};
use voxalign_image::{
    Affine, Grid, ImageError, ImageView, Index, LabelMap, Matrix3, Transform, Vector3, VectorField,
    Volume, World, memory,
};

/// An image in the memory of a device, to be resampled any number of times.
pub struct MovingImage<'a, D: Device> {
    device: &'a D,
    grid: Grid,
    data: D::Buffer<f32>,
    /// Whether the image was in the memory of a device before.
    is_elsewhere: bool,
}

impl<'a, D: Device> MovingImage<'a, D> {
    /// Takes the image over, on the CPU without a copy; an image that others hold as well stays as it is.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(device: &'a D, image: impl Into<Arc<Volume<f32>>>) -> Result<Self> {
        let image = image.into();
        if image.elsewhere().is_some() {
            return Self::lent(device, (&*image).into());
        }
        let (grid, data) = Arc::unwrap_or_clone(image).into_parts();
        Ok(Self { device, grid, data: device.upload_vec(data)?, is_elsewhere: false })
    }

    /// A copy of an image that stays with its owner.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn lent(device: &'a D, image: ImageView<'_>) -> Result<Self> {
        let (grid, data) = (image.grid().clone(), uploaded(device, image)?);
        Ok(Self { device, grid, data, is_elsewhere: image.elsewhere().is_some() })
    }

    /// Whether the image was in the memory of a device before it was taken.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// The image on the `reference` grid, under a transform from world points of the reference to
    /// world points of the image; `outside` where the image is not defined.
    ///
    /// # Errors
    /// A linear part of the transform that cannot be inverted and stands before a field; memory that
    /// runs out.
    pub fn onto(
        &self,
        reference: &Grid,
        transform: &Transform,
        interpolation: Interpolation,
        outside: f32,
    ) -> Result<Volume<f32>> {
        let out = self.values_onto(reference, transform, interpolation, outside)?;
        Ok(Volume::new(reference.clone(), self.device.into_host(out)?)?)
    }

    /// The same, which stays on the device where that has memory of its own.
    ///
    /// # Errors
    /// As of [`onto`](Self::onto).
    pub fn kept_onto(
        &self,
        reference: &Grid,
        transform: &Transform,
        interpolation: Interpolation,
        outside: f32,
    ) -> Result<Volume<f32>> {
        let out = self.values_onto(reference, transform, interpolation, outside)?;
        kept(self.device, reference.clone(), out)
    }

    /// The values of the image on the `reference` grid, on the device.
    pub(crate) fn values_onto(
        &self,
        reference: &Grid,
        transform: &Transform,
        interpolation: Interpolation,
        outside: f32,
    ) -> Result<D::Buffer<f32>> {
        let way = Way::new(self.device, reference, transform, &self.grid)?;
        let (from, to) = (self.grid.dims(), reference.dims());
        let mut out = self.device.alloc::<f32>(reference.len())?;
        match &way.field {
            None => {
                self.device.warp_affine(
                    &self.data,
                    from,
                    &way.map,
                    to,
                    interpolation,
                    outside,
                    &mut out,
                )?;
            }
            Some(field) => {
                let map = &way.map;
                self.device.warp_field(
                    &self.data,
                    from,
                    map,
                    field,
                    to,
                    interpolation,
                    outside,
                    &mut out,
                )?;
            }
        }
        Ok(out)
    }
}

/// The label map on the `reference` grid, as [`MovingImage::onto`] does it with an image.
///
/// # Errors
/// As [`MovingImage::onto`].
pub fn labels_onto<D: Device>(
    device: &D,
    moving: &LabelMap,
    reference: &Grid,
    transform: &Transform,
    rule: LabelInterpolation,
    outside: i32,
) -> Result<LabelMap> {
    let way = Way::new(device, reference, transform, moving.grid())?;
    let data = device.upload(moving.data())?;
    let mut out = device.alloc::<i32>(reference.len())?;
    let (from, to) = (moving.dims(), reference.dims());
    device.warp_labels(&data, from, &way.map, way.field.as_ref(), to, rule, outside, &mut out)?;
    Ok(Volume::new(reference.clone(), device.into_host(out)?)?)
}

/// Whether a voxel of the `reference` grid is covered by an image on the grid `moving` under a transform from world
/// points of the reference to those of the image: whether its centre is within the voxels of the image.
#[must_use]
pub fn meets(reference: &Grid, transform: &Transform, moving: &Grid) -> bool {
    let (dims, from) = (reference.dims(), moving.dims());
    let shows = |index: [usize; 3]| {
        let index = Vector3::from_fn(|a, _| index[a] as f64);
        let at = moving.to_index().apply(transform.apply(reference.index_to_world(index)));
        (0..3).all(|a| at[a] >= -0.5 && at[a] <= from[a] as f64 - 0.5)
    };
    // A lattice over all of the grid decides nearly always.
    const FEW: usize = 8;
    let few = |a: usize, i: usize| (2 * i + 1) * dims[a] / (2 * FEW);
    let lattice = (0..FEW * FEW * FEW)
        .any(|i| shows([few(0, i % FEW), few(1, i / FEW % FEW), few(2, i / (FEW * FEW))]));
    lattice
        || (0..dims[1] * dims[2])
            .into_par_iter()
            .any(|row| (0..dims[0]).any(|x| shows([x, row % dims[1], row / dims[1]])))
}

/// From reference index to moving index: `i -> map (i + u[i])`.
struct Way<D: Device> {
    map: AffineMap,
    field: Option<D::Buffer<f32>>,
}

impl<D: Device> Way<D> {
    fn new(device: &D, reference: &Grid, transform: &Transform, moving: &Grid) -> Result<Self> {
        let (map, field) = to_world(device, reference, transform)?;
        let field = field.map(|f| device.upload_vec(f)).transpose()?;
        Ok(Self { map: map.then(moving.to_index()).rows(), field })
    }
}

/// Where voxels of a grid are in a world.
type Places = Affine<Index, World>;

/// From reference index to moving world: `i -> map (i + u[i])`, with the field `u` on the host.
///
/// The map takes the affine parts and the field the others, one after the other: a field that
/// follows `i -> M (i + u[i])` adds `L⁻¹ w(M (i + u[i]))` to `u`, with the linear part `L` of `M`, and
/// an affine part becomes a part of `M`.
fn to_world<D: Device>(
    device: &D,
    reference: &Grid,
    transform: &Transform,
) -> Result<(Places, Option<Vec<f32>>)> {
    let mut parts = Vec::new();
    flatten(transform, &mut parts);
    let mut map = *reference.to_world();
    let mut field: Option<Vec<f32>> = None;
    for part in parts {
        match part {
            Transform::Displacement(next) => {
                let next = next.field();
                let back = map.matrix.try_inverse().ok_or_else(|| ImageError::Singular {
                    rows: map.rows(),
                    determinant: map.determinant(),
                })?;
                // Only where it is to be sampled is a field brought to the device.
                let before = field.take().map(|f| device.upload_vec(f)).transpose()?;
                let steps = sampled(device, next, &map, before.as_ref(), reference)?;
                let before = before.map(|f| device.into_host(f)).transpose()?;
                field = Some(moved_on(before, &steps.borrowed(), &back)?);
            }
            linear => map = map.then(&linear.to_affine()?),
        }
    }
    Ok((map, field))
}

/// A transform as one field: the displacements `T(x) - x` of the voxels of the `reference` grid, mm in
/// world axes.
///
/// # Errors
/// As [`MovingImage::onto`].
pub fn displacements<D: Device>(
    device: &D,
    reference: &Grid,
    transform: &Transform,
) -> Result<VectorField> {
    let (map, field) = to_world(device, reference, transform)?;
    let n = reference.len();
    let mut data = field.map_or_else(|| memory::zeroed(3 * n), Ok)?;
    let start = *reference.to_world();
    let [nx, ny, _] = reference.dims();
    let (x, rest) = data.split_at_mut(n);
    let (y, z) = rest.split_at_mut(n);
    let rows = x.par_chunks_mut(nx).zip(y.par_chunks_mut(nx)).zip(z.par_chunks_mut(nx));
    rows.enumerate().for_each(|(row, ((x, y), z))| {
        for i in 0..x.len() {
            let index = Vector3::new(i as f64, (row % ny) as f64, (row / ny) as f64);
            let moved = index + Vector3::new(f64::from(x[i]), f64::from(y[i]), f64::from(z[i]));
            let step = map.apply(moved) - start.apply(index);
            (x[i], y[i], z[i]) = (step[0] as f32, step[1] as f32, step[2] as f32);
        }
    });
    Ok(VectorField::new(reference.clone(), data)?)
}

/// The parts of a transform in their order.
fn flatten<'a>(transform: &'a Transform, parts: &mut Vec<&'a Transform>) {
    match transform {
        Transform::Composite(inner) => inner.iter().for_each(|t| flatten(t, parts)),
        one => parts.push(one),
    }
}

/// The components of displacements in mm.
enum Steps<'a> {
    /// Those of a field as it is.
    Field(&'a [f32]),
    Sampled([Vec<f32>; 3]),
}

impl Steps<'_> {
    fn borrowed(&self) -> [&[f32]; 3] {
        match self {
            Steps::Field(all) => {
                let (x, rest) = all.split_at(all.len() / 3);
                let (y, z) = rest.split_at(rest.len() / 2);
                [x, y, z]
            }
            Steps::Sampled([x, y, z]) => [x, y, z],
        }
    }
}

/// The displacements of a field at the world positions `map (i + u[i])`; zero outside its grid.
fn sampled<'a, D: Device>(
    device: &D,
    field: &'a VectorField,
    map: &Places,
    before: Option<&D::Buffer<f32>>,
    reference: &Grid,
) -> Result<Steps<'a>> {
    let own = field.grid();
    if before.is_none() && own.dims() == reference.dims() && map == own.to_world() {
        return Ok(Steps::Field(field.data()));
    }
    let map = map.then(own.to_index()).rows();
    let (from, to) = (own.dims(), reference.dims());
    let rule = Interpolation::Linear;
    let mut components = [Vec::new(), Vec::new(), Vec::new()];
    for (component, values) in field.data().chunks(own.len()).zip(&mut components) {
        let component = device.upload(component)?;
        let mut out = device.alloc::<f32>(reference.len())?;
        match before {
            None => device.warp_affine(&component, from, &map, to, rule, 0.0, &mut out)?,
            Some(u) => device.warp_field(&component, from, &map, u, to, rule, 0.0, &mut out)?,
        }
        *values = device.into_host(out)?;
    }
    Ok(Steps::Sampled(components))
}

/// `u[i] + back w[i]` with the steps `w`: all x, all y, all z.
fn moved_on(
    before: Option<Vec<f32>>,
    steps: &[&[f32]; 3],
    back: &Matrix3<f64>,
) -> Result<Vec<f32>> {
    /// Voxels at a time.
    const PIECE: usize = 1 << 12;
    let n = steps[0].len();
    let mut data = before.map_or_else(|| memory::zeroed(3 * n), Ok)?;
    let (x, rest) = data.split_at_mut(n);
    let (y, z) = rest.split_at_mut(n);
    let pieces = x.par_chunks_mut(PIECE).zip(y.par_chunks_mut(PIECE)).zip(z.par_chunks_mut(PIECE));
    pieces.enumerate().for_each(|(piece, ((x, y), z))| {
        let [wx, wy, wz] = steps.map(|s| &s[piece * PIECE..][..x.len()]);
        for i in 0..x.len() {
            let w = back * Vector3::new(f64::from(wx[i]), f64::from(wy[i]), f64::from(wz[i]));
            x[i] += w[0] as f32;
            y[i] += w[1] as f32;
            z[i] += w[2] as f32;
        }
    });
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::Displacement;

    fn grid() -> Grid {
        Grid::axis_aligned([9, 8, 7], [1.0, 2.0, 1.5]).unwrap()
    }

    /// World x of the moving image at the world position that a reference voxel is mapped to.
    fn warped_x(transform: &Transform) -> Volume<f32> {
        let cpu = Cpu::new(Some(2)).unwrap();
        let moving = Grid::axis_aligned([40, 40, 40], [1.0; 3])
            .unwrap()
            .moved(&Affine::translation(Vector3::repeat(-12.0)))
            .unwrap();
        let image = Volume::from_fn(moving.clone(), |x, _, _| x as f32 - 12.0);
        let source = MovingImage::new(&cpu, image).unwrap();
        source.onto(&grid(), transform, Interpolation::Linear, f32::NAN).unwrap()
    }

    #[test]
    fn chains_with_fields_sample_where_the_transform_says() {
        let affine = Affine::from_rows([[1.1, 0.1, 0., 2.], [0., 0.9, 0.1, -1.], [0., 0., 1., 1.]]);
        let field = VectorField::from_world_fn(grid(), |w| {
            Vector3::new((w[1] / 5.0).sin(), 0.3 * w[2] / 9.0, (w[0] / 7.0).cos())
        });
        let field = Transform::Displacement(Displacement::new(field));
        for parts in [
            vec![Transform::Affine(affine)],
            vec![field.clone()],
            vec![field.clone(), Transform::Affine(affine)],
            vec![Transform::Affine(affine), field.clone()],
            vec![Transform::Affine(affine), field.clone(), Transform::Affine(affine), field],
        ] {
            let transform = Transform::Composite(parts);
            let warped = warped_x(&transform);
            for (z, y, x) in [(0, 0, 0), (3, 4, 5), (6, 7, 8)] {
                let index = Vector3::new(x as f64, y as f64, z as f64);
                let expected = transform.apply(grid().index_to_world(index))[0];
                let found = f64::from(*warped.get(x, y, z).unwrap());
                assert!((found - expected).abs() < 0.01, "{found} {expected} {transform:?}");
            }
            let cpu = Cpu::new(Some(2)).unwrap();
            let field = displacements(&cpu, &grid(), &transform).unwrap();
            let sampled = transform.sampled(&grid());
            let apart = field.data().iter().zip(sampled.data()).map(|(a, b)| (a - b).abs());
            assert!(apart.fold(0.0, f32::max) < 1e-3, "{transform:?}");
        }
    }

    #[test]
    fn outside_of_its_grid_a_field_moves_nothing() {
        // The field covers a part of the reference only, with an end that is not zero.
        let small = Grid::axis_aligned([4, 4, 3], [1.0, 2.0, 1.5]).unwrap();
        let field = VectorField::from_world_fn(small, |_| Vector3::new(2.0, 0.0, 0.0));
        let field = Transform::Displacement(Displacement::new(field));
        for parts in [vec![field.clone()], vec![field.clone(), field]] {
            let transform = Transform::Composite(parts);
            let warped = warped_x(&transform);
            for (z, y, x) in [(0, 0, 0), (2, 3, 3), (2, 3, 4), (2, 4, 3), (3, 3, 3), (6, 7, 8)] {
                let index = Vector3::new(x as f64, y as f64, z as f64);
                let expected = transform.apply(grid().index_to_world(index))[0];
                let found = f64::from(*warped.get(x, y, z).unwrap());
                assert!((found - expected).abs() < 1e-3, "{found} {expected} {transform:?}");
            }
        }
    }

    #[test]
    fn labels_stay_where_nothing_moves() {
        let cpu = Cpu::new(Some(1)).unwrap();
        let t = Transform::identity();
        let map = Volume::filled(grid(), 7);
        let same = labels_onto(&cpu, &map, &grid(), &t, LabelInterpolation::Majority, 0).unwrap();
        assert_eq!(same, map);
    }
}
