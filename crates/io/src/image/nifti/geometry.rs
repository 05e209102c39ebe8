//! Geometry of NIfTI images: qform, sform, or the default without them.

use super::super::info::GridSource;
use super::header::{NiftiHeader, Version};
use nalgebra::{Matrix3, Quaternion, UnitQuaternion, Vector3};
use voxalign_image::{Affine, Grid, Index, World};

/// The geometry of a header and how it was found.
#[derive(Debug, Clone)]
pub(crate) struct Geometry {
    pub(crate) grid: Grid,
    pub(crate) source: GridSource,
    pub(crate) qform: Option<Grid>,
    pub(crate) sform: Option<Grid>,
    pub(crate) difference: Option<f64>,
    pub(crate) oddities: Vec<String>,
}

/// Finds the geometry; otherwise what is wrong.
///
/// A valid sform comes before a valid qform. Without either, the axes are taken to run to the
/// left, to the front and up with the middle of the image at the world's origin: what ANALYZE's
/// transverse orientation says, and what SPM, FSL and nibabel assume.
pub(crate) fn find(header: &NiftiHeader, dims: [usize; 3]) -> Result<Geometry, String> {
    let mut oddities = Vec::new();
    let factor = unit_factor(header, &mut oddities);
    let spacing = spacing(header, dims, factor, &mut oddities);
    let mut sform = None;
    let mut qform = None;
    let mut problems = Vec::new();
    if header.sform_code > 0 {
        match sform_affine(header, dims, factor, &mut oddities)
            .and_then(|a| Grid::new(dims, a).map_err(|e| e.to_string()))
        {
            Ok(grid) => sform = Some(grid),
            Err(e) => problems.push(format!("the sform is not valid: {e}")),
        }
    }
    if header.qform_code > 0 {
        match qform_affine(header, &spacing, factor, &mut oddities)
            .and_then(|a| Grid::new(dims, a).map_err(|e| e.to_string()))
        {
            Ok(grid) => qform = Some(grid),
            Err(e) => problems.push(format!("the qform is not valid: {e}")),
        }
    }
    let difference = match (&sform, &qform) {
        (Some(s), Some(q)) => Some(
            s.corners().iter().zip(q.corners()).map(|(a, b)| (a - b).norm()).fold(0., f64::max),
        ),
        _ => None,
    };
    if let (Some(d), Some(s)) = (difference, &sform) {
        let smallest = s.spacing().iter().fold(f64::MAX, |a, &b| a.min(b));
        if d > 0.01 * smallest {
            oddities.push(format!(
                "qform and sform disagree by {d:.3} mm at the corners; the sform is used"
            ));
        }
    }
    let (grid, source) = match (&sform, &qform) {
        (Some(s), _) => (s.clone(), GridSource::Sform),
        (None, Some(q)) => (q.clone(), GridSource::Qform),
        (None, None) if !problems.is_empty() => return Err(problems.join("; ")),
        (None, None) => assumed(header, dims, spacing?, &mut oddities)?,
    };
    if let Some(s) = &sform {
        let by_form = s.spacing();
        let off = |i: usize| {
            let p = header.pixdim[i + 1].abs() * factor;
            dims[i] > 1 && (p - by_form[i]).abs() > 1e-3 * by_form[i]
        };
        if (0..3).any(off) {
            oddities.push(format!(
                "the spacing of pixdim ({:.4}, {:.4}, {:.4}) differs from that of the sform \
                 ({:.4}, {:.4}, {:.4}); the sform is used",
                header.pixdim[1],
                header.pixdim[2],
                header.pixdim[3],
                by_form[0],
                by_form[1],
                by_form[2]
            ));
        }
    }
    oddities.extend(problems.into_iter().map(|p| format!("{p}; the other form is used")));
    Ok(Geometry { grid, source, qform, sform, difference, oddities })
}

/// Millimetres in the header's unit of length.
fn unit_factor(header: &NiftiHeader, oddities: &mut Vec<String>) -> f64 {
    let (name, factor) = match header.units & 7 {
        1 => ("metres", 1e3),
        3 => ("micrometres", 1e-3),
        _ => return 1.0,
    };
    let largest = (1..4).map(|i| header.pixdim[i].abs()).fold(0.0, f64::max);
    if largest * factor > 100.0 {
        oddities.push(format!(
            "the header gives {name} as the unit of length, which would make voxels of {} mm; \
             millimetres are assumed instead",
            largest * factor
        ));
        return 1.0;
    }
    oddities.push(format!("the unit of length is {name}; lengths are converted to millimetres"));
    factor
}

/// The spacing by pixdim in mm; otherwise what is wrong with it.
fn spacing(
    header: &NiftiHeader,
    dims: [usize; 3],
    factor: f64,
    oddities: &mut Vec<String>,
) -> Result<[f64; 3], String> {
    let needed = header.sform_code <= 0;
    let mut spacing = [1.0; 3];
    for a in 0..3 {
        let p = header.pixdim[a + 1];
        if p.is_finite() && p != 0.0 {
            if p < 0.0 && needed {
                oddities.push(format!(
                    "pixdim[{}] is {p}, a negative distance; its absolute value is used",
                    a + 1
                ));
            }
            spacing[a] = p.abs() * factor;
        } else if dims[a] > 1 {
            return Err(format!("pixdim[{}] (the voxel spacing) is {p}", a + 1));
        }
    }
    Ok(spacing)
}

fn sform_affine(
    header: &NiftiHeader,
    dims: [usize; 3],
    factor: f64,
    oddities: &mut Vec<String>,
) -> Result<Affine<Index, World>, String> {
    let mut affine = Affine::from_rows(header.rows.map(|row| row.map(|v| v * factor)));
    if dims[2] == 1 && affine.matrix.column(2).norm() == 0.0 {
        let normal = affine.matrix.column(0).cross(&affine.matrix.column(1));
        if normal.norm() > 0.0 {
            affine.matrix.set_column(2, &normal.normalize());
            oddities.push("the sform of this 2D image has no third axis; it is set to 1 mm".into());
        }
    }
    Ok(affine)
}

fn qform_affine(
    header: &NiftiHeader,
    spacing: &Result<[f64; 3], String>,
    factor: f64,
    oddities: &mut Vec<String>,
) -> Result<Affine<Index, World>, String> {
    let spacing = spacing.clone()?;
    let [b, c, d] = header.quaternion;
    let sum = b * b + c * c + d * d;
    if !sum.is_finite() {
        return Err(format!("the quaternion (b, c, d) = ({b}, {c}, {d}) is not a number"));
    }
    let quaternion = if sum < 1.0 {
        Quaternion::new((1.0 - sum).sqrt(), b, c, d)
    } else {
        if sum > 1.0 + 1e-4 {
            oddities.push(format!(
                "the quaternion of the qform has the length {:.5} instead of at most 1; it is \
                 normalised",
                sum.sqrt()
            ));
        }
        Quaternion::new(0.0, b, c, d)
    };
    let rotation = UnitQuaternion::from_quaternion(quaternion).to_rotation_matrix();
    let qfac = header.pixdim[0];
    if qfac != 1.0 && qfac != -1.0 {
        oddities.push(format!("pixdim[0] (qfac) is {qfac} instead of 1 or -1"));
    }
    let handed = if qfac < 0.0 { -1.0 } else { 1.0 };
    let scale = Vector3::new(spacing[0], spacing[1], spacing[2] * handed);
    let matrix = rotation.matrix() * Matrix3::from_diagonal(&scale);
    Ok(Affine::new(matrix, Vector3::from(header.offset) * factor))
}

/// World directions (columns) of the voxel axes by ANALYZE's orientation byte.
fn analyze_axes(orient: u8) -> Option<(Matrix3<f64>, &'static str)> {
    let (columns, name) = match orient {
        0 => ([[-1., 0., 0.], [0., 1., 0.], [0., 0., 1.]], "transverse"),
        1 => ([[-1., 0., 0.], [0., 0., 1.], [0., 1., 0.]], "coronal"),
        2 => ([[0., 1., 0.], [0., 0., 1.], [-1., 0., 0.]], "sagittal"),
        3 => ([[-1., 0., 0.], [0., -1., 0.], [0., 0., 1.]], "transverse flipped"),
        4 => ([[-1., 0., 0.], [0., 0., -1.], [0., 1., 0.]], "coronal flipped"),
        5 => ([[0., 1., 0.], [0., 0., -1.], [-1., 0., 0.]], "sagittal flipped"),
        _ => return None,
    };
    Some((Matrix3::from_columns(&columns.map(Vector3::from)), name))
}

fn assumed(
    header: &NiftiHeader,
    dims: [usize; 3],
    spacing: [f64; 3],
    oddities: &mut Vec<String>,
) -> Result<(Grid, GridSource), String> {
    let analyze = header.version == Version::Analyze;
    let mut middle = Vector3::from_fn(|a, _| (dims[a] as f64 - 1.0) / 2.0);
    let origin = header.spm_origin;
    let plausible = |a: usize| origin[a] > -(dims[a] as i64) && origin[a] < 2 * dims[a] as i64;
    let spm = analyze && origin != [0; 3] && (0..3).all(plausible);
    let mut orient = if analyze { header.orient } else { 0 };
    if spm {
        middle = Vector3::from_fn(|a, _| origin[a] as f64 - 1.0);
        orient = 0;
    } else if analyze && origin != [0; 3] {
        oddities.push(format!(
            "the SPM origin {origin:?} lies far outside the image; it is \
                               ignored"
        ));
    }
    let (axes, name) = match analyze_axes(orient) {
        Some(known) => known,
        None => {
            oddities.push(format!("the orientation byte {orient} is not one of 0 to 5; 0 is used"));
            analyze_axes(0).ok_or("no orientation")?
        }
    };
    let what = if analyze { "ANALYZE files give no orientation" } else { "no qform and no sform" };
    oddities.push(if spm {
        format!(
            "{what}; left-anterior-superior axes are assumed (as SPM, FSL and nibabel do), with \
             the origin {origin:?} that SPM stored. Left and right cannot be told apart"
        )
    } else if orient == 0 {
        format!(
            "{what}; left-anterior-superior axes are assumed (as SPM, FSL and nibabel do), with \
             the world origin at the centre of the image. Left and right cannot be told apart"
        )
    } else {
        format!(
            "{what} except for the orientation byte ('{name}' slices), which is followed here (SPM \
             and nibabel ignore it); the world origin is set to the centre of the image. Left and \
             right cannot be told apart"
        )
    });
    let matrix = axes * Matrix3::from_diagonal(&Vector3::from(spacing));
    let grid = Grid::new(dims, Affine::new(matrix, Vector3::zeros() - matrix * middle));
    let source = if spm { GridSource::SpmOrigin } else { GridSource::Assumed };
    grid.map(|g| (g, source)).map_err(|e| e.to_string())
}

/// Fills the geometry fields of a header for a grid. The qform is set where it can hold the
/// grid, that is, where the voxel axes are at right angles.
pub(crate) fn set(header: &mut NiftiHeader, grid: &Grid) {
    let affine = grid.to_world();
    let spacing = grid.spacing();
    header.sform_code = 1;
    header.rows = affine.rows();
    let mut direction = grid.direction();
    let qfac = if direction.determinant() < 0.0 { -1.0 } else { 1.0 };
    direction.column_mut(2).scale_mut(qfac);
    header.pixdim[0] = qfac;
    header.pixdim[1..4].copy_from_slice(&spacing);
    header.qform_code = i32::from(grid.skewness() < 1e-4);
    if header.qform_code > 0 {
        let rotation = voxalign_image::transform::nearest_rotation(&direction);
        let q = UnitQuaternion::from_rotation_matrix(&rotation);
        let sign = if q.w < 0.0 { -1.0 } else { 1.0 };
        header.quaternion = [q.i * sign, q.j * sign, q.k * sign];
        header.offset = affine.offset.into();
    }
}

#[cfg(test)]
mod tests {
    use super::super::quaternion::in_single;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_turns_keep_their_angle_in_single_precision() {
        // Columns to the left, rows down: half a turn about an axis between two.
        for (x, z) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0)] {
            for turn in [0.0, 1e-7, 0.3, 1.1, 2.0] {
                let about = voxalign_image::Rotation3::from_euler_angles(0.0, 0.0, turn);
                let column = about * Vector3::new(x, 0.0, 0.0);
                let row = Vector3::new(0.0, 0.0, z);
                let matrix = Matrix3::from_columns(&[column, row, column.cross(&row)]) * 1.5;
                let grid = Grid::new(
                    [256, 256, 1],
                    Affine::new(matrix, Vector3::new(77.0, -377.0, 279.0)),
                )
                .unwrap();
                let mut written = header();
                set(&mut written, &grid);
                written.quaternion = in_single(written.quaternion).map(f64::from);
                let qform = qform_affine(&written, &Ok([1.5; 3]), 1.0, &mut Vec::new()).unwrap();
                let corner = [Vector3::new(255.0, 255.0, 0.0)];
                let off = qform.largest_distance(grid.to_world(), &corner);
                assert!(off < 1e-3, "{x} {z} {turn}: {off}");
            }
        }
    }

    fn header() -> NiftiHeader {
        let mut bytes = vec![0; 352];
        bytes[..4].copy_from_slice(&348i32.to_le_bytes());
        bytes[344..348].copy_from_slice(b"n+1\0");
        let mut header = NiftiHeader::parse(&bytes).unwrap();
        header.pixdim = [1.0; 8];
        header
    }

    proptest! {
        #[test]
        fn both_forms_hold_the_grid(
            angles in prop::array::uniform3(-3.1..3.1f64),
            spacing in prop::array::uniform3(0.1..5.0f64),
            origin in prop::array::uniform3(-100.0..100.0f64),
            flip in any::<bool>(),
        ) {
            let r = nalgebra::Rotation3::from_euler_angles(angles[0], angles[1], angles[2]);
            let mut s = Vector3::from(spacing);
            if flip {
                s[0] = -s[0];
            }
            let matrix = r.matrix() * Matrix3::from_diagonal(&s);
            let grid = Grid::new([40, 50, 60], Affine::new(matrix, origin.into())).unwrap();
            let mut header = header();
            set(&mut header, &grid);
            let found = find(&header, grid.dims()).unwrap();
            prop_assert!(found.sform.unwrap().approx_eq(&grid, 1e-9));
            prop_assert!(found.qform.unwrap().approx_eq(&grid, 1e-5));
            prop_assert!(found.oddities.is_empty(), "{:?}", found.oddities);
        }
    }

    #[test]
    fn disagreement_is_reported_and_the_sform_wins() {
        let grid = Grid::axis_aligned([4, 5, 6], [1.0, 2.0, 3.0]).unwrap();
        let mut h = header();
        set(&mut h, &grid);
        h.offset[1] += 2.5;
        let found = find(&h, grid.dims()).unwrap();
        assert_eq!(found.source, GridSource::Sform);
        assert!((found.difference.unwrap() - 2.5).abs() < 1e-9);
        assert!(found.oddities[0].contains("2.500 mm"), "{:?}", found.oddities);
        h.sform_code = 0;
        assert_eq!(find(&h, grid.dims()).unwrap().grid.origin()[1], 2.5);
        h.qform_code = 0;
        let none = find(&h, grid.dims()).unwrap();
        assert_eq!(none.source, GridSource::Assumed);
        assert_eq!(none.grid.orientation(), "LAS");
        assert!(none.grid.centre().norm() < 1e-12);
    }

    #[test]
    fn bad_values() {
        let grid = Grid::axis_aligned([4, 5, 6], [1.0, 2.0, 3.0]).unwrap();
        let mut h = header();
        set(&mut h, &grid);
        let mut long = h.clone();
        long.sform_code = 0;
        long.quaternion = [0.0, 0.0, 1.1];
        let found = find(&long, grid.dims()).unwrap();
        assert!(found.oddities[0].contains("normalised"));
        assert_eq!(found.grid.orientation(), "LPS");
        let mut nan = h.clone();
        nan.rows[1][1] = f64::NAN;
        let found = find(&nan, grid.dims()).unwrap();
        assert_eq!(found.source, GridSource::Qform);
        assert!(found.oddities.iter().any(|o| o.contains("sform is not valid")));
        nan.qform_code = 0;
        assert!(find(&nan, grid.dims()).unwrap_err().contains("sform"));
        let mut zero = h.clone();
        zero.sform_code = 0;
        zero.pixdim[2] = 0.0;
        assert!(find(&zero, grid.dims()).unwrap_err().contains("pixdim[2]"));
        zero.pixdim[2] = -2.0;
        assert!(find(&zero, grid.dims()).unwrap().oddities[0].contains("negative"));
        zero.pixdim[3] = 0.0;
        assert_eq!(find(&zero, [4, 5, 1]).unwrap().grid.spacing(), [1.0, 2.0, 1.0]);
    }

    #[test]
    fn units_are_converted_where_plausible() {
        let grid = Grid::axis_aligned([4, 5, 6], [0.001, 0.002, 0.003]).unwrap();
        let mut h = header();
        set(&mut h, &grid);
        h.units = 1;
        let found = find(&h, grid.dims()).unwrap();
        assert!((found.grid.spacing()[2] - 3.0).abs() < 1e-9);
        assert!(found.oddities[0].contains("metres"));
        h.pixdim[1..4].copy_from_slice(&[1.0; 3]);
        assert!(find(&h, grid.dims()).unwrap().oddities[0].contains("instead"));
    }
}
