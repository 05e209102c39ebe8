//! FLIRT matrices.
//!
//! A 4x4 matrix that maps the moving (`-in`) image's scaled voxel coordinates in mm to those of
//! the fixed (`-ref`) image. Scaled voxel coordinates are index times spacing, with the first axis
//! counted from the other end where the voxel axes are right-handed ("neurological").

use super::Geometry;
use crate::error::{IoError, Result};
use nalgebra::{Matrix3, Matrix4, Vector3};
use std::fmt::Write;
use std::path::Path;
use voxalign_image::{Affine, Grid, Index, Transform, World};

/// From index to FSL coordinates.
/// The millimetres of FSL along the axes of a grid.
enum Fsl {}

fn index_to_fsl(grid: &Grid) -> Affine<Index, Fsl> {
    let spacing = grid.spacing();
    let mut affine = Affine::new(Matrix3::from_diagonal(&Vector3::from(spacing)), Vector3::zeros());
    if grid.is_right_handed() {
        affine.matrix[(0, 0)] = -spacing[0];
        affine.offset[0] = (grid.dims()[0] as f64 - 1.0) * spacing[0];
    }
    affine
}

fn world_to_fsl(grid: &Grid) -> Affine<World, Fsl> {
    grid.to_index().then(&index_to_fsl(grid))
}

fn grids<'a>(path: &Path, geometry: &Geometry<'a>) -> Result<(&'a Grid, &'a Grid)> {
    let missing = match (geometry.fixed, geometry.moving) {
        (Some(fixed), Some(moving)) => return Ok((fixed, moving)),
        (None, Some(_)) => "fixed",
        (Some(_), None) => "moving",
        (None, None) => "fixed and the moving",
    };
    Err(IoError::GeometryNeeded { path: path.into(), format: "FSL", missing })
}

pub(crate) fn parse(path: &Path, bytes: &[u8], geometry: &Geometry<'_>) -> Result<Transform> {
    let wrong = |problem: String| {
        IoError::malformed(
            path,
            problem,
            "transforms are read from ITK text (.tfm, .txt), ITK/ANTs .mat and .h5, FLIRT matrices \
             and NIfTI displacement fields",
        )
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|_| wrong("this is not a transform file of a known format".into()))?;
    let values: Vec<f64> = text
        .split_whitespace()
        .take(17)
        .map(|w| w.parse::<f64>().ok().filter(|v| v.is_finite()))
        .collect::<Option<_>>()
        .unwrap_or_default();
    if values.len() != 16 {
        return Err(wrong("this is neither a 4x4 matrix of numbers nor an ITK transform".into()));
    }
    let m = Matrix4::from_row_slice(&values);
    let last = [m[(3, 0)], m[(3, 1)], m[(3, 2)], m[(3, 3)] - 1.0];
    if last.iter().any(|v| v.abs() > 1e-5) {
        return Err(wrong(format!(
            "the last row of the matrix is {} {} {} {} instead of 0 0 0 1",
            m[(3, 0)],
            m[(3, 1)],
            m[(3, 2)],
            m[(3, 3)]
        )));
    }
    let (fixed, moving) = grids(path, geometry)?;
    let fail = |e| IoError::image(path, e);
    let backward = Affine::from_homogeneous(&m).inverse().map_err(fail)?;
    let fsl_to_moving = world_to_fsl(moving).inverse().map_err(fail)?;
    Ok(Transform::Affine(world_to_fsl(fixed).then(&backward).then(&fsl_to_moving)))
}

pub(crate) fn format(
    path: &Path,
    transform: &Transform,
    geometry: &Geometry<'_>,
) -> Result<String> {
    let fail = |e| IoError::image(path, e);
    let (fixed, moving) = grids(path, geometry)?;
    let affine = transform.to_affine().map_err(|_| {
        IoError::unsupported(
            path,
            "an FSL matrix cannot hold a displacement field",
            "write it as .nii.gz",
        )
    })?;
    let backward = affine.inverse().map_err(fail)?;
    let fsl_to_moving = world_to_fsl(moving).inverse().map_err(fail)?;
    let m = fsl_to_moving.then(&backward).then(&world_to_fsl(fixed)).to_homogeneous();
    let mut out = String::new();
    for r in 0..4 {
        let row: Vec<String> = (0..4).map(|c| format!("{:.12}", m[(r, c)])).collect();
        let _ = writeln!(out, "{}", row.join("  "));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grids() -> [Grid; 2] {
        let left = Affine::new(
            Matrix3::from_diagonal(&Vector3::new(-2.0, 2.0, 2.0)),
            Vector3::new(90.0, -126.0, -72.0),
        );
        let r = nalgebra::Rotation3::from_euler_angles(0.1, 0.2, -0.1);
        let right = Affine::new(
            r.matrix() * Matrix3::from_diagonal(&Vector3::new(1.0, 1.5, 3.0)),
            Vector3::new(-60.0, -70.0, -50.0),
        );
        [Grid::new([91, 109, 91], left).unwrap(), Grid::new([120, 90, 40], right).unwrap()]
    }

    #[test]
    fn fsl_round_trip() {
        let path = Path::new("a.fsl");
        let [a, b] = grids();
        let t = Transform::Affine(Affine::from_rows([
            [1.1, 0.1, 0., 5.],
            [-0.1, 0.9, 0.05, -7.],
            [0., 0.1, 1., 3.],
        ]));
        for (fixed, moving) in [(&a, &b), (&b, &a), (&a, &a), (&b, &b)] {
            let geometry = Geometry { fixed: Some(fixed), moving: Some(moving) };
            let text = format(path, &t, &geometry).unwrap();
            let back = parse(path, text.as_bytes(), &geometry).unwrap();
            let p = Vector3::new(30.0, -40.0, 50.0);
            assert!((back.apply(p) - t.apply(p)).norm() < 1e-8);
        }
    }

    /// The identity of FSL coordinates carries the first voxel of the one image to that of the
    /// other where both are stored the same way, and to the other end where they are not.
    #[test]
    fn the_convention() {
        let [las, _] = grids();
        let ras = Grid::axis_aligned([91, 109, 91], [2.0; 3]).unwrap();
        let text = b"1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n";
        let geometry = Geometry { fixed: Some(&las), moving: Some(&ras) };
        let t = parse(Path::new("a.mat"), text, &geometry).unwrap();
        let first = t.apply(las.index_to_world(Vector3::zeros()));
        assert!((ras.world_to_index(first) - Vector3::new(90.0, 0.0, 0.0)).norm() < 1e-9);
        let same = Geometry { fixed: Some(&las), moving: Some(&las) };
        let t = parse(Path::new("a.mat"), text, &same).unwrap();
        assert!((t.apply(Vector3::x()) - Vector3::x()).norm() < 1e-9);
    }

    #[test]
    fn what_is_missing_or_wrong() {
        let [a, _] = grids();
        let path = Path::new("x.mat");
        let one = Geometry { fixed: Some(&a), moving: None };
        let text = b"1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n";
        let message = parse(path, text, &one).unwrap_err().to_string();
        assert!(message.contains("x.mat") && message.contains("moving"), "{message}");
        let both = Geometry { fixed: Some(&a), moving: Some(&a) };
        for bad in ["1 2 3", "a b c", "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 2", &"0 ".repeat(16)] {
            assert!(parse(path, bad.as_bytes(), &both).is_err(), "{bad}");
        }
        assert!(parse(path, b"0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1", &both).is_err());
    }
}
