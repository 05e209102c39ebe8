//! Displacement fields: NIfTI as ITK and ANTs write them (five axes x, y, z, 1 and the components,
//! intent 1007, vectors in LPS millimetres), and NRRD and MetaImage with vectors in their voxels.

use super::Geometry;
use crate::error::{IoError, Result};
use crate::image::{Plan, VectorHeader, decode_floats, nifti_with_header, vectors, write_vectors};
use crate::source::Source;
use rayon::prelude::*;
use std::io::Write;
use std::path::Path;
use voxalign_image::{Displacement, Grid, Transform, VectorField, memory};

/// NIfTI's intent code of vectors.
const VECTOR: i32 = 1007;
/// NIfTI's intent code of displacements, whose world is NIfTI's own, RAS; ITK since 5.3 turns them.
const DISPLACEMENT: i32 = 1006;

/// Reads a NIfTI file.
pub(crate) fn read_nifti(source: &Source<'_>) -> Result<Transform> {
    let VectorHeader { header, plan } = nifti_with_header(source)?;
    check(&header.intent_name, header.intent_code, &plan, source.path())?;
    let data = decode_floats(&plan, source)?;
    transform(source.path(), plan.info.grid, data, header.intent_code == VECTOR)
}

/// Reads a NRRD or MetaImage file. Its vectors are in ITK's world, LPS, whatever that of its
/// geometry is: this is how ITK reads such files.
pub(crate) fn read_itk(source: &Source<'_>) -> Result<Transform> {
    let (data, info) = vectors(source)?;
    if info.components > 3 || (info.components == 2 && info.grid.dims()[2] > 1) {
        return Err(IoError::malformed(
            source.path(),
            format!("an image with the sizes {:?} is not a displacement field", info.dims),
            "a displacement field has 3 components per voxel, or 2 per pixel in 2D",
        ));
    }
    transform(source.path(), info.grid, data, true)
}

/// The transform of a field's components.
fn transform(path: &Path, grid: Grid, mut data: Vec<f32>, lps: bool) -> Result<Transform> {
    let n = grid.len();
    // A plane's field leaves the third coordinate alone.
    memory::resize(&mut data, 3 * n, 0.0).map_err(|refused| IoError::memory(path, refused))?;
    if lps {
        data[..2 * n].par_iter_mut().for_each(|v| *v = -*v);
    }
    if let Some(i) = data.par_iter().position_first(|v| !v.is_finite()) {
        return Err(IoError::malformed(
            path,
            format!("component {} of voxel {} is not a finite number", i / n, i % n),
            "the field is damaged: compute it again",
        ));
    }
    let field = VectorField::new(grid, data).map_err(|e| IoError::image(path, e))?;
    Ok(Transform::Displacement(Displacement::new(field)))
}

fn check(name: &str, intent: i32, plan: &Plan, path: &Path) -> Result<()> {
    let dims = &plan.info.dims;
    let remedy = "displacement fields are read as ITK and ANTs write them: sizes x, y, z, 1, 3 \
                  and intent 1007, vectors in LPS mm";
    if name.starts_with("NREG") {
        let what = "this is a NiftyReg transform, whose vectors follow another convention";
        return Err(IoError::unsupported(path, what, remedy));
    }
    if (2006..=2018).contains(&intent) || (dims.len() == 4 && dims[3] == 3) {
        let what = "this seems to be an FSL warp, whose vectors are in FSL coordinates";
        return Err(IoError::unsupported(path, what, remedy));
    }
    if intent != VECTOR && intent != DISPLACEMENT {
        let what = format!("the intent is {intent}, so this is not a vector field");
        return Err(IoError::malformed(path, what, remedy));
    }
    let good = dims.len() == 5 && dims[3] == 1 && (dims[4] == 3 || (dims[4] == 2 && dims[2] == 1));
    if !good {
        let what = format!("an image with the sizes {dims:?} is not a displacement field");
        return Err(IoError::malformed(path, what, remedy));
    }
    Ok(())
}

pub(crate) fn write(path: &Path, transform: &Transform, geometry: &Geometry<'_>) -> Result<()> {
    // A field that is on the grid is written as it is.
    let is_on = |grid: &Grid, fixed: &Grid| {
        let finest = grid.spacing().into_iter().fold(f64::INFINITY, f64::min);
        grid.approx_eq(fixed, 1e-3 * finest)
    };
    if let Transform::Displacement(d) = transform
        && geometry.fixed.is_none_or(|fixed| is_on(d.field().grid(), fixed))
    {
        return write_field(path, d.field());
    }
    let Some(fixed) = geometry.fixed else {
        return Err(IoError::GeometryNeeded {
            path: path.into(),
            format: "Displacement field",
            missing: "fixed",
        });
    };
    let field = transform.try_sampled(fixed).map_err(|e| IoError::image(path, e))?;
    write_field(path, &field)
}

/// A field of a plane is written as one of two dimensions, which is what ITK and ANTs take for 2D
/// images, if it leaves the third coordinate alone.
fn write_field(path: &Path, field: &VectorField) -> Result<()> {
    let n = field.grid().len();
    let planar = field.grid().is_2d() && field.data()[2 * n..].iter().all(|&v| v == 0.0);
    let components = if planar { 2 } else { 3 };
    let values = |w: &mut dyn Write| {
        let mut bytes = Vec::new();
        for (c, component) in field.data().chunks(n).take(components).enumerate() {
            let sign = if c < 2 { -1.0 } else { 1.0 };
            for piece in component.chunks(1 << 16) {
                bytes.clear();
                bytes.extend(piece.iter().flat_map(|v| (sign * v).to_le_bytes()));
                w.write_all(&bytes)?;
            }
        }
        Ok(())
    };
    write_vectors(path, field.grid(), components, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform;
    use nalgebra::Vector3;
    use voxalign_image::Affine;

    fn grid() -> Grid {
        let r = nalgebra::Rotation3::from_euler_angles(0.3, 0.2, -0.1);
        let m = r.matrix() * nalgebra::Matrix3::from_diagonal(&Vector3::new(-1.0, 1.5, 3.0));
        Grid::new([6, 7, 8], Affine::new(m, Vector3::new(3.0, 4.0, 5.0))).unwrap()
    }

    #[test]
    fn fields_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let field = VectorField::from_world_fn(grid(), |p| p * 0.1 + Vector3::new(1.0, 2.0, 3.0));
        let t = Transform::Displacement(Displacement::new(field.clone()));
        for name in ["w.nii.gz", "w.nii"] {
            let path = folder.path().join(name);
            transform::write(&path, &t, &Geometry::default()).unwrap();
            let Transform::Displacement(d) = transform::read(&path, &Geometry::default()).unwrap()
            else {
                panic!("no field");
            };
            assert_eq!(d.field().data(), field.data());
            assert!(d.field().grid().approx_eq(field.grid(), 1e-5));
        }
    }

    #[test]
    fn fields_of_another_grid_are_sampled_on_the_fixed_grid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.nii.gz");
        let fixed = grid();
        let [x, y, z] = fixed.spacing();
        let fine = fixed.with_spacing([x, y, z / 3.0]).unwrap();
        let linear = |p: Vector3<f64>| p * 0.1 + Vector3::new(1.0, 2.0, 3.0);
        let field = Displacement::new(VectorField::from_world_fn(fine.clone(), linear));
        for on in [&fixed, &fine] {
            let geometry = Geometry { fixed: Some(on), moving: None };
            transform::write(&path, &Transform::Displacement(field.clone()), &geometry).unwrap();
            let Transform::Displacement(d) = transform::read(&path, &Geometry::default()).unwrap()
            else {
                panic!("no field");
            };
            assert!(d.field().grid().approx_eq(on, 1e-4));
            let expected = VectorField::from_world_fn(on.clone(), linear);
            for (a, b) in d.field().data().iter().zip(expected.data()) {
                assert!((a - b).abs() < 1e-4, "{a} is not {b}");
            }
        }
    }

    #[test]
    fn other_transforms_are_sampled_on_the_fixed_grid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.nii.gz");
        let a = Affine::from_rows([[1.1, 0., 0., 2.], [0., 0.9, 0.1, 3.], [0., 0., 1., 4.]]);
        let t = Transform::Affine(a);
        let none = transform::write(&path, &t, &Geometry::default()).unwrap_err();
        assert!(none.to_string().contains("fixed"));
        let g = grid();
        let geometry = Geometry { fixed: Some(&g), moving: None };
        transform::write(&path, &t, &geometry).unwrap();
        let back = transform::read(&path, &geometry).unwrap();
        let p = g.index_to_world(Vector3::new(2.5, 3.0, 4.5));
        assert!((back.apply(p) - t.apply(p)).norm() < 1e-4);
    }

    #[test]
    fn scalar_images_are_no_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("i.nii");
        let image = voxalign_image::Volume::filled(grid(), 1.0);
        crate::image::write_volume(&path, &image, &Default::default()).unwrap();
        let message = transform::read(&path, &Geometry::default()).unwrap_err().to_string();
        assert!(message.contains("intent"), "{message}");
    }
}
