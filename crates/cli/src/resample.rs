//! Resampling onto a reference grid through any transform, with one interpolation.

use crate::args::Interpolation;
use crate::failure::Failure;
use rayon::prelude::*;
use voxalign_compute::ops::resample::{self, LabelRule};
use voxalign_compute::{AffineMap, Device};
use voxalign_image::{Affine, Grid, LabelMap, Transform, Vector3, Volume};

/// An image on the device that is to be resampled.
pub(crate) struct Source<'a, D: Device> {
    device: &'a D,
    grid: Grid,
    data: D::Buffer<f32>,
}

impl<'a, D: Device> Source<'a, D> {
    /// Takes the image over; on the CPU without a copy.
    pub(crate) fn new(device: &'a D, image: Volume<f32>) -> Result<Self, Failure> {
        let (grid, data) = image.into_parts();
        Ok(Self { device, grid, data: device.upload_vec(data)? })
    }

    /// The image on the reference grid; `outside` where it is not defined.
    pub(crate) fn onto(
        &self,
        reference: &Grid,
        transform: &Transform,
        interpolation: Interpolation,
        outside: f32,
    ) -> Result<Volume<f32>, Failure> {
        let rule = match interpolation {
            Interpolation::Nearest => resample::Interpolation::Nearest,
            Interpolation::Linear => resample::Interpolation::Linear,
            Interpolation::Cubic => resample::Interpolation::Cubic,
            Interpolation::Label => {
                return Err(Failure::input(
                    "--interpolation label is for label maps; use nearest, linear or cubic for \
                     an image",
                ));
            }
        };
        let way = Way::new(self.device, reference, transform, &self.grid)?;
        let (from, to) = (self.grid.dims(), reference.dims());
        let mut out = self.device.alloc::<f32>(reference.len())?;
        match &way.field {
            None => {
                self.device.warp_affine(&self.data, from, &way.map, to, rule, outside, &mut out)?;
            }
            Some(field) => {
                let map = &way.map;
                self.device
                    .warp_field(&self.data, from, map, field, to, rule, outside, &mut out)?;
            }
        }
        Ok(Volume::new(reference.clone(), self.device.into_host(out)?)?)
    }
}

/// The label map on the reference grid; `outside` where it is not defined.
pub(crate) fn labels<D: Device>(
    device: &D,
    moving: &LabelMap,
    reference: &Grid,
    transform: &Transform,
    interpolation: Interpolation,
    outside: i32,
) -> Result<LabelMap, Failure> {
    let rule = match interpolation {
        Interpolation::Nearest => LabelRule::Nearest,
        _ => LabelRule::Majority,
    };
    let way = Way::new(device, reference, transform, moving.grid())?;
    let data = device.upload(moving.data())?;
    let mut out = device.alloc::<i32>(reference.len())?;
    let (from, to) = (moving.dims(), reference.dims());
    device.warp_labels(&data, from, &way.map, way.field.as_ref(), to, rule, outside, &mut out)?;
    Ok(Volume::new(reference.clone(), device.into_host(out)?)?)
}

/// From reference index to moving index: `i -> map (i + u[i])`.
struct Way<D: Device> {
    map: AffineMap,
    field: Option<D::Buffer<f32>>,
}

impl<D: Device> Way<D> {
    fn new(
        device: &D,
        reference: &Grid,
        transform: &Transform,
        moving: &Grid,
    ) -> Result<Self, Failure> {
        // The map takes the affine parts, so that what is left for the field is small.
        let linear = linear_part(transform);
        let map = reference.to_world().then(&linear).then(moving.to_index()).rows();
        if transform.to_affine().is_ok() {
            return Ok(Self { map, field: None });
        }
        let back = linear.inverse()?.then(reference.to_index());
        let field = displacements(reference, transform, &back);
        Ok(Self { map, field: Some(device.upload_vec(field)?) })
    }
}

/// The product of the affine parts of a transform.
fn linear_part(transform: &Transform) -> Affine {
    match transform {
        Transform::Composite(parts) => {
            parts.iter().fold(Affine::identity(), |before, t| before.then(&linear_part(t)))
        }
        other => other.to_affine().unwrap_or_default(),
    }
}

/// `u[i] = back(transform(world of i)) - i` in voxels of the grid: all x, all y, all z.
fn displacements(grid: &Grid, transform: &Transform, back: &Affine) -> Vec<f32> {
    let [nx, ny, _] = grid.dims();
    let n = grid.len();
    let mut data = vec![0.0; 3 * n];
    let (x, rest) = data.split_at_mut(n);
    let (y, z) = rest.split_at_mut(n);
    let rows = x.par_chunks_mut(nx).zip(y.par_chunks_mut(nx)).zip(z.par_chunks_mut(nx));
    rows.enumerate().for_each(|(row, ((x, y), z))| {
        for i in 0..nx {
            let index = Vector3::new(i as f64, (row % ny) as f64, (row / ny) as f64);
            let u = back.apply(transform.apply(grid.index_to_world(index))) - index;
            (x[i], y[i], z[i]) = (u[0] as f32, u[1] as f32, u[2] as f32);
        }
    });
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::{Displacement, VectorField};

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
        let source = Source::new(&cpu, image).unwrap();
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
            vec![Transform::Affine(affine), field],
        ] {
            let transform = Transform::Composite(parts);
            let warped = warped_x(&transform);
            for (z, y, x) in [(0, 0, 0), (3, 4, 5), (6, 7, 8)] {
                let index = Vector3::new(x as f64, y as f64, z as f64);
                let expected = transform.apply(grid().index_to_world(index))[0];
                let found = f64::from(*warped.get(x, y, z).unwrap());
                assert!((found - expected).abs() < 0.01, "{found} {expected} {transform:?}");
            }
        }
    }

    #[test]
    fn images_have_no_label_interpolation() {
        let cpu = Cpu::new(Some(1)).unwrap();
        let source = Source::new(&cpu, Volume::filled(grid(), 0.0)).unwrap();
        let t = Transform::identity();
        assert!(source.onto(&grid(), &t, Interpolation::Label, 0.0).is_err());
        let map = Volume::filled(grid(), 7);
        let same = labels(&cpu, &map, &grid(), &t, Interpolation::Label, 0).unwrap();
        assert_eq!(same, map);
    }
}
