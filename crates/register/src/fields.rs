//! Inversion and Jacobian determinants of displacement fields.
//!
//! Fields come and go in mm of world space; the operators that work on them take voxels.

use crate::error::Result;
use rayon::prelude::*;
use voxalign_compute::Device;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::flow::Inversion;
use voxalign_image::{Displacement, Matrix3, Residuals, Transform, Vector3, VectorField, memory};

/// Voxels at a time.
const PIECE: usize = 1 << 12;

/// Multiplies vectors (all x, all y, all z) by a matrix, such as that from mm to voxels.
pub(crate) fn multiply(matrix: &Matrix3<f64>, vectors: &mut [f32]) {
    let n = vectors.len() / 3;
    if (0..3).all(|row| (0..3).all(|column| row == column || matrix[(row, column)] == 0.0)) {
        // Along the axes each component is scaled by itself, and most are mm already.
        for (axis, component) in vectors.chunks_mut(n.max(1)).take(3).enumerate() {
            let scale = matrix[(axis, axis)];
            if scale != 1.0 {
                component.par_chunks_mut(PIECE).for_each(|piece| {
                    piece.iter_mut().for_each(|v| *v = (scale * f64::from(*v)) as f32);
                });
            }
        }
        return;
    }
    let (x, rest) = vectors.split_at_mut(vectors.len() / 3);
    let (y, z) = rest.split_at_mut(rest.len() / 2);
    let pieces = x.par_chunks_mut(PIECE).zip(y.par_chunks_mut(PIECE)).zip(z.par_chunks_mut(PIECE));
    pieces.for_each(|((x, y), z)| {
        for ((x, y), z) in x.iter_mut().zip(y).zip(z) {
            let v = matrix * Vector3::new(f64::from(*x), f64::from(*y), f64::from(*z));
            (*x, *y, *z) = (v[0] as f32, v[1] as f32, v[2] as f32);
        }
    });
}

/// The displacements of a field on a device, in voxels of its grid.
fn in_voxels<D: Device>(device: &D, field: &VectorField) -> Result<D::Buffer<f32>> {
    let mut vectors = memory::copied(field.data())?;
    multiply(&field.grid().to_index().matrix, &mut vectors);
    Ok(device.upload_vec(vectors)?)
}

/// The inverse of a field on its own grid, and its accuracy at the voxels. The device finds it in single precision;
/// where that is not accurate enough, in mm, the host refines it in double precision.
///
/// # Errors
/// Memory that runs out. A field that folds is none: the residuals tell.
pub fn inverse<D: Device>(device: &D, forward: &Displacement) -> Result<(Displacement, Residuals)> {
    // Of what a voxel may be off, most is left to rounding.
    const PART: f64 = 0.5;
    let field = forward.field();
    let grid = field.grid();
    let spacing = grid.spacing();
    let used = if grid.is_2d() { &spacing[..2] } else { &spacing[..] };
    // The residual of the operator is in voxels, of which the longest counts most in mm.
    let longest = used.iter().fold(0.0, |a: f64, &b| a.max(b));
    let tolerance = PART * forward.tolerance() / longest;
    let how = Inversion { tolerance, ..Inversion::default() };
    let voxels = in_voxels(device, field)?;
    // Against the displacement itself is the best that is known of its inverse.
    let mut out = device.alloc(field.data().len())?;
    device.eval(&(-x(0)), &[&voxels], &[], None, &mut out)?;
    device.invert_field(&voxels, grid.dims(), how, &mut out)?;
    drop(voxels);
    let start = VectorField::new(grid.clone(), device.into_host(out)?)?;
    Ok(forward.inverse_near(start)?)
}

/// How exact the inverse of a field is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exactness {
    /// At the voxels of the inverse.
    pub at_voxels: Residuals,
    /// The way of the field's voxels there and back; those count as unconverged that end further than
    /// `far` from where they were.
    pub round_trip: Residuals,
    /// The longest side of a voxel, mm.
    pub far: f64,
    /// Voxels of the field.
    pub voxels: usize,
}

impl Exactness {
    /// Whether so many voxels do not map back, more than one in a thousand, that it is hardly an inverse.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.round_trip.unconverged * 1000 > self.voxels
    }
}

/// The inverse of a transform, part by part, and how exact that of each of its fields is, last field
/// first.
///
/// # Errors
/// A linear part without inverse; a field without inverse at more than one voxel in a thousand; memory
/// that runs out.
pub fn inverse_of<D: Device>(
    device: &D,
    transform: &Transform,
) -> Result<(Transform, Vec<Exactness>)> {
    let parts = match transform {
        Transform::Composite(parts) => &parts[..],
        one => std::slice::from_ref(one),
    };
    let mut all = Vec::new();
    let mut inverses = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        inverses.push(match part {
            Transform::Displacement(forward) => {
                let (backward, at_voxels) = inverse(device, forward)?;
                let grid = forward.field().grid();
                let voxels = grid.len();
                at_voxels.check(voxels)?;
                let spacing = grid.spacing();
                let used = if grid.is_2d() { &spacing[..2] } else { &spacing[..] };
                let far = used.iter().fold(0.0, |a: f64, &b| a.max(b));
                let round_trip = forward.round_trip(&backward, far)?;
                all.push(Exactness { at_voxels, round_trip, far, voxels });
                Transform::Displacement(backward)
            }
            linear => Transform::Affine(linear.to_affine()?.inverse()?),
        });
    }
    Ok((Transform::Composite(inverses).simplified(), all))
}

/// The determinant of the derivative of `x + u(x)` at every voxel, by central differences; not above
/// 0 where the field folds.
///
/// # Errors
/// Memory that runs out.
pub fn jacobian_determinants<D: Device>(device: &D, field: &VectorField) -> Result<Vec<f32>> {
    let voxels = in_voxels(device, field)?;
    let mut out = device.alloc::<f32>(field.grid().len())?;
    device.jacobian_determinant(&voxels, field.grid().dims(), &mut out)?;
    Ok(device.into_host(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::{Affine, Grid};

    fn cpu() -> Cpu {
        Cpu::new(Some(2)).unwrap()
    }

    fn wave(grid: Grid, size: f64) -> Displacement {
        let middle = grid.centre();
        Displacement::new(VectorField::from_world_fn(grid, |w| {
            let p = w - middle;
            let fade = (1.0 - (p.norm() / 24.0).powi(2)).max(0.0).powi(2);
            Vector3::new((p[1] / 6.0).sin(), (p[2] / 7.0).cos(), (p[0] / 5.0).sin()) * size * fade
        }))
    }

    fn oblique() -> Grid {
        let turn = voxalign_image::AffineParameters {
            rotation: Vector3::new(0.3, -0.2, 0.4),
            scale: Vector3::new(-1.0, 1.5, 3.0),
            ..voxalign_image::AffineParameters::identity(Vector3::zeros())
        };
        let at_zero = Grid::new([45, 33, 17], Affine::from_rows(turn.to_affine().rows())).unwrap();
        at_zero.moved(&Affine::translation(Vector3::new(5.0, -3.0, 80.0))).unwrap()
    }

    #[test]
    fn the_inverse_is_exact_in_mm() {
        for grid in [oblique(), Grid::axis_aligned([40, 30, 1], [1.2, 0.8, 5.0]).unwrap()] {
            let flat = grid.is_2d();
            let mut forward = wave(grid, 3.0);
            if flat {
                let mut field = forward.into_field();
                let n = field.grid().len();
                field.data_mut()[2 * n..].fill(0.0);
                forward = Displacement::new(field);
            }
            let (found, residuals) = inverse(&cpu(), &forward).unwrap();
            assert_eq!(residuals.unconverged, 0, "{residuals:?}");
            let (host, _) = forward.inverse_with_residuals().unwrap();
            let pairs = found.field().data().iter().zip(host.field().data());
            let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-3, "{apart}");
        }
    }

    #[test]
    fn folds_are_told() {
        let (_, residuals) = inverse(&cpu(), &wave(oblique(), 40.0)).unwrap();
        assert!(residuals.unconverged > 10 && residuals.largest > 0.1, "{residuals:?}");
        let determinants = jacobian_determinants(&cpu(), wave(oblique(), 40.0).field()).unwrap();
        assert!(determinants.iter().any(|&d| d < 0.0));
        let smooth = jacobian_determinants(&cpu(), wave(oblique(), 1.0).field()).unwrap();
        assert!(smooth.iter().all(|&d| d > 0.2 && d < 2.0));
    }
}
