//! Displacement fields between files, in mm, and operators, in voxels.

use crate::failure::Failure;
use rayon::prelude::*;
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::ops::{Flow, Stencil};
use voxalign_image::{Displacement, Matrix3, Residuals, Vector3, VectorField};

/// Voxels at a time.
const PIECE: usize = 1 << 12;

/// The CPU with the threads of this command.
fn cpu() -> Result<Cpu, Failure> {
    Ok(Cpu::new(Some(rayon::current_num_threads()))?)
}

/// The vectors of a field multiplied by a matrix.
fn times(field: &VectorField, matrix: &Matrix3<f64>) -> Vec<f32> {
    let n = field.grid().len();
    let mut out = vec![0.0; 3 * n];
    let (x, rest) = out.split_at_mut(n);
    let (y, z) = rest.split_at_mut(n);
    let pieces = x.par_chunks_mut(PIECE).zip(y.par_chunks_mut(PIECE)).zip(z.par_chunks_mut(PIECE));
    pieces.enumerate().for_each(|(piece, ((x, y), z))| {
        for i in 0..x.len() {
            let v: Vector3<f64> = matrix * field.get(piece * PIECE + i);
            (x[i], y[i], z[i]) = (v[0] as f32, v[1] as f32, v[2] as f32);
        }
    });
    out
}

/// The inverse of a field on its own grid, and how exact it is. The operator on the CPU finds it in
/// single precision; where that is not exact enough, in mm, the search goes on in double precision.
pub(crate) fn inverted(forward: &Displacement) -> Result<(Displacement, Residuals), Failure> {
    // Of what a voxel may be off, most is left to rounding.
    const PART: f64 = 0.5;
    let field = forward.field();
    let grid = field.grid();
    let cpu = cpu()?;
    let spacing = grid.spacing();
    let used = if grid.is_2d() { &spacing[..2] } else { &spacing[..] };
    // The residual of the operator is in voxels, of which the longest counts most in mm.
    let longest = used.iter().fold(0.0, |a: f64, &b| a.max(b));
    let tolerance = PART * forward.tolerance() / longest;
    let how = Inversion { tolerance, ..Inversion::default() };
    let voxels = cpu.upload_vec(times(field, &grid.to_index().matrix))?;
    // Against the displacement itself is the best that is known of its inverse.
    let mut out = cpu.upload_vec(times(field, &-grid.to_index().matrix))?;
    cpu.invert_field(&voxels, grid.dims(), how, &mut out)?;
    drop(voxels);
    let start = VectorField::new(grid.clone(), cpu.into_host(out)?)?;
    Ok(forward.inverse_near(start))
}

/// The determinant of the derivative of `x + u(x)` at every voxel, by central differences.
pub(crate) fn jacobian_determinants(field: &VectorField) -> Result<Vec<f32>, Failure> {
    let cpu = cpu()?;
    let voxels = cpu.upload_vec(times(field, &field.grid().to_index().matrix))?;
    let mut out = cpu.alloc::<f32>(field.grid().len())?;
    cpu.jacobian_determinant(&voxels, field.grid().dims(), &mut out)?;
    Ok(cpu.into_host(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::{Affine, Grid};

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
        let at_zero = Grid::new([45, 33, 17], turn.to_affine()).unwrap();
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
            let (inverse, residuals) = inverted(&forward).unwrap();
            assert_eq!(residuals.unconverged, 0, "{residuals:?}");
            let (host, _) = forward.inverse_with_residuals();
            let pairs = inverse.field().data().iter().zip(host.field().data());
            let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-3, "{apart}");
        }
    }

    #[test]
    fn folds_are_told() {
        let (_, residuals) = inverted(&wave(oblique(), 40.0)).unwrap();
        assert!(residuals.unconverged > 10 && residuals.largest > 0.1, "{residuals:?}");
        let determinants = jacobian_determinants(wave(oblique(), 40.0).field()).unwrap();
        assert!(determinants.iter().any(|&d| d < 0.0));
        let smooth = jacobian_determinants(wave(oblique(), 1.0).field()).unwrap();
        assert!(smooth.iter().all(|&d| d > 0.2 && d < 2.0));
    }
}
