//! ITK's transforms by class name and parameters, and the change between its LPS world and RAS.

use crate::error::shorten;
use nalgebra::{Matrix3, Quaternion, Rotation3, UnitQuaternion, Vector3};
use voxalign_image::{Affine, Rigid, Similarity, Transform};

/// One transform of an ITK file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Record {
    /// The class with precision and dimensions, such as `AffineTransform_double_3_3`.
    pub(crate) class: String,
    pub(crate) parameters: Vec<f64>,
    /// The fixed parameters: the centre, for most.
    pub(crate) fixed: Vec<f64>,
}

/// Classes that are read, for messages.
pub(crate) const KNOWN: &str = "AffineTransform, MatrixOffsetTransformBase, Euler3DTransform, \
    VersorRigid3DTransform, VersorTransform, QuaternionRigidTransform, Similarity3DTransform, \
    ScaleTransform, TranslationTransform, IdentityTransform, CompositeTransform, and in 2D \
    Euler2DTransform, Rigid2DTransform, Similarity2DTransform";

/// Whether transforms of this class are read; fields and other precisions aside.
pub(crate) fn is_known(class: &str) -> bool {
    let name = class.split('_').next().unwrap_or_default();
    KNOWN.split([',', ' ']).any(|known| known == name)
}

/// Whether all transforms of a file are of the plane, by their classes; the mark of a composite says
/// nothing.
pub(crate) fn is_planar<'c>(classes: impl Iterator<Item = &'c str>) -> bool {
    let mut parts = classes.filter(|class| !class.starts_with("Composite")).peekable();
    parts.peek().is_some() && parts.all(|class| class.ends_with("_2_2"))
}

/// The classes of records.
pub(crate) fn classes(records: &[Record]) -> impl Iterator<Item = &str> {
    records.iter().map(|r| r.class.as_str())
}

/// LPS to RAS and back: the map changes its world on both sides.
pub(crate) fn swap_lps(affine: &Affine) -> Affine {
    let d = Matrix3::from_diagonal(&Vector3::new(-1.0, -1.0, 1.0));
    // Adding zero makes a negative zero positive.
    Affine::new((d * affine.matrix * d).add_scalar(0.0), (d * affine.offset).add_scalar(0.0))
}

fn swap(v: Vector3<f64>) -> Vector3<f64> {
    Vector3::new(0.0 - v[0], 0.0 - v[1], v[2])
}

/// The rotation by a quaternion in LPS as one in RAS: the half turn about z conjugates it.
fn swap_rotation(q: UnitQuaternion<f64>) -> UnitQuaternion<f64> {
    UnitQuaternion::new_unchecked(Quaternion::new(q.w, -q.i, -q.j, q.k))
}

/// The transform of a record, `None` for the mark that the records after it are one; otherwise
/// what is wrong.
pub(crate) fn parse(record: &Record) -> Result<Option<Transform>, String> {
    let name = shorten(&record.class);
    let mut words = record.class.split('_');
    let class = words.next().unwrap_or_default();
    let precision = words.next().unwrap_or("double");
    let dims: Vec<&str> = words.collect();
    let planar = match dims[..] {
        ["3", "3"] | [] => false,
        ["2", "2"] => true,
        _ => return Err(format!("the transform {name} has unknown dimensions")),
    };
    if !matches!(precision, "double" | "float") {
        return Err(format!("the transform {name} has an unknown precision"));
    }
    let p = &record.parameters[..];
    if !p.iter().chain(&record.fixed).all(|v| v.is_finite()) {
        return Err("a parameter is not a finite number".into());
    }
    let n = if planar { 2 } else { 3 };
    let need = |count: usize| {
        if p.len() == count {
            return Ok(());
        }
        Err(format!("{name} has {} parameters instead of {count}", p.len()))
    };
    let centre = || match record.fixed.len() {
        0 => Ok(Vector3::zeros()),
        k if k >= n => Ok(Vector3::from_fn(|i, _| if i < n { record.fixed[i] } else { 0.0 })),
        k => Err(format!("{name} has a centre of {k} numbers instead of {n}")),
    };
    let at = |i: usize| Vector3::new(p[i], p[i + 1], if planar { 0.0 } else { p[i + 2] });
    let affine = |m: Matrix3<f64>, t: Vector3<f64>| -> Result<Transform, String> {
        Ok(Transform::Affine(swap_lps(&Affine::about(m, centre()?, t))))
    };
    let rigid = |q: UnitQuaternion<f64>, t: Vector3<f64>| -> Result<Rigid, String> {
        Ok(Rigid { rotation: swap_rotation(q), centre: swap(centre()?), translation: swap(t) })
    };
    let turn = |angle: f64| UnitQuaternion::from_axis_angle(&Vector3::z_axis(), angle);
    let scaled = |rigid: Rigid, scale: f64| -> Result<Transform, String> {
        if scale > 0.0 {
            Ok(Transform::Similarity(Similarity { rigid, scale }))
        } else {
            Err(format!("the scale is {scale}"))
        }
    };
    let one = match (class, planar) {
        ("CompositeTransform", _) => {
            // Some programs write the parameters of one part in the place of all.
            need(0)?;
            return Ok(None);
        }
        ("IdentityTransform", _) => Transform::identity(),
        ("TranslationTransform", _) => {
            need(n)?;
            Transform::Affine(swap_lps(&Affine::translation(at(0))))
        }
        ("AffineTransform" | "MatrixOffsetTransformBase", false) => {
            need(12)?;
            affine(Matrix3::from_row_slice(&p[..9]), at(9))?
        }
        ("AffineTransform" | "MatrixOffsetTransformBase", true) => {
            need(6)?;
            affine(Matrix3::new(p[0], p[1], 0., p[2], p[3], 0., 0., 0., 1.), at(4))?
        }
        ("ScaleTransform", _) => {
            need(n)?;
            let mut scale = at(0);
            if planar {
                scale[2] = 1.0;
            }
            affine(Matrix3::from_diagonal(&scale), Vector3::zeros())?
        }
        ("Euler3DTransform", false) => {
            need(6)?;
            let x = Rotation3::from_axis_angle(&Vector3::x_axis(), p[0]);
            let y = Rotation3::from_axis_angle(&Vector3::y_axis(), p[1]);
            let z = Rotation3::from_axis_angle(&Vector3::z_axis(), p[2]);
            let zyx = record.fixed.get(3).is_some_and(|&f| f != 0.0);
            let r = if zyx { z * y * x } else { z * x * y };
            Transform::Rigid(rigid(UnitQuaternion::from_rotation_matrix(&r), at(3))?)
        }
        ("VersorRigid3DTransform", false) => {
            need(6)?;
            Transform::Rigid(rigid(versor(at(0)), at(3))?)
        }
        ("VersorTransform", false) => {
            need(3)?;
            Transform::Rigid(rigid(versor(at(0)), Vector3::zeros())?)
        }
        ("QuaternionRigidTransform", false) => {
            need(7)?;
            let q = Quaternion::new(p[3], p[0], p[1], p[2]);
            if q.norm() < 1e-12 {
                return Err("the quaternion is zero".into());
            }
            Transform::Rigid(rigid(UnitQuaternion::from_quaternion(q), at(4))?)
        }
        ("Similarity3DTransform", false) => {
            need(7)?;
            scaled(rigid(versor(at(0)), at(3))?, p[6])?
        }
        ("Euler2DTransform" | "Rigid2DTransform", true) => {
            need(3)?;
            Transform::Rigid(rigid(turn(p[0]), at(1))?)
        }
        ("Similarity2DTransform", true) => {
            need(4)?;
            // In the plane only: the third axis keeps its scale.
            let m = *turn(p[1]).to_rotation_matrix().matrix()
                * Matrix3::from_diagonal(&Vector3::new(p[0], p[0], 1.0));
            affine(m, at(2))?
        }
        _ => return Err(format!("transforms of the type {name} are not supported")),
    };
    Ok(Some(one))
}

/// The rotation by the vector part of a unit quaternion.
fn versor(v: Vector3<f64>) -> UnitQuaternion<f64> {
    let w = (1.0 - v.norm_squared()).max(0.0).sqrt();
    UnitQuaternion::from_quaternion(Quaternion::new(w, v[0], v[1], v[2]))
}

/// The transform that the records of a file are.
pub(crate) fn combine(records: &[Record]) -> Result<Transform, String> {
    let mut kinds = Vec::with_capacity(records.len());
    for (i, record) in records.iter().enumerate() {
        kinds.push(parse(record).map_err(|e| format!("transform {i}: {e}"))?);
    }
    join(kinds)
}

/// The transform that those of a file are; `None` is the mark of a composite.
///
/// ITK keeps a composite as a queue: the last one listed is applied first to a point.
pub(crate) fn join(kinds: Vec<Option<Transform>>) -> Result<Transform, String> {
    let composite = matches!(kinds.first(), Some(None));
    let mut parts = Vec::new();
    for kind in kinds.into_iter().skip(usize::from(composite)) {
        match kind {
            Some(t) => parts.push(t),
            None => return Err("a CompositeTransform within another one is not supported".into()),
        }
    }
    match (composite, parts.len()) {
        (true, 0) => Err("the file has a CompositeTransform without its parts".into()),
        (false, 0) => Err("the file lists no transform".into()),
        (false, 1) => Ok(parts.swap_remove(0)),
        (false, n) => Err(format!(
            "the file lists {n} transforms without a CompositeTransform that joins them"
        )),
        (true, _) => {
            parts.reverse();
            Ok(if parts.len() == 1 { parts.swap_remove(0) } else { Transform::Composite(parts) })
        }
    }
}

/// The records of a transform; otherwise why there are none.
pub(crate) fn records(transform: &Transform) -> Result<Vec<Record>, String> {
    let one = |class: &str, parameters: Vec<f64>, fixed: Vec<f64>| Record {
        class: format!("{class}_double_3_3"),
        parameters,
        fixed,
    };
    let vector = |v: Vector3<f64>| v.iter().copied().collect::<Vec<_>>();
    let affine = |a: &Affine| {
        let lps = swap_lps(a);
        let mut p: Vec<f64> = lps.matrix.transpose().iter().copied().collect();
        p.extend(lps.offset.iter());
        one("AffineTransform", p, vec![0.0; 3])
    };
    Ok(vec![match transform {
        Transform::Rigid(t) => {
            let (x, y, z) = euler_zxy(&swap_rotation(t.rotation).to_rotation_matrix());
            let mut p = vec![x, y, z];
            p.extend(vector(swap(t.translation)));
            one("Euler3DTransform", p, vector(swap(t.centre)))
        }
        Transform::Similarity(t) => {
            let q = swap_rotation(t.rigid.rotation);
            let sign = if q.w < 0.0 { -1.0 } else { 1.0 };
            // Close to a half turn the vector part alone gives an inexact rotation.
            if q.w.abs() < 1e-3 || t.scale <= 0.0 {
                return Ok(vec![affine(&t.to_affine())]);
            }
            let mut p = vec![q.i * sign, q.j * sign, q.k * sign];
            p.extend(vector(swap(t.rigid.translation)));
            p.push(t.scale);
            one("Similarity3DTransform", p, vector(swap(t.rigid.centre)))
        }
        Transform::Affine(a) => affine(a),
        Transform::Composite(parts) if parts.is_empty() => affine(&Affine::identity()),
        Transform::Composite(parts) => {
            let mut out = vec![one("CompositeTransform", Vec::new(), Vec::new())];
            let mut flat = Vec::new();
            flatten(parts, &mut flat);
            for part in flat.into_iter().rev() {
                out.extend(records(part)?);
            }
            return Ok(out);
        }
        _ => return Err("a displacement field cannot be written as parameters".into()),
    }])
}

/// The record in 2D of a map that keeps the x-y plane, `None` for another.
pub(crate) fn record_2d(affine: &Affine) -> Option<Record> {
    let Affine { matrix: m, offset: t, .. } = swap_lps(affine);
    let third = [m[(0, 2)], m[(1, 2)], m[(2, 0)], m[(2, 1)], m[(2, 2)] - 1.0, t[2]];
    third.iter().all(|v| v.abs() < 1e-6).then(|| Record {
        class: "AffineTransform_double_2_2".into(),
        parameters: vec![m[(0, 0)], m[(0, 1)], m[(1, 0)], m[(1, 1)], t[0], t[1]],
        fixed: vec![0.0; 2],
    })
}

/// The parts of composites within composites, in their order.
pub(crate) fn flatten<'a>(parts: &'a [Transform], out: &mut Vec<&'a Transform>) {
    for part in parts {
        match part {
            Transform::Composite(inner) => flatten(inner, out),
            other => out.push(other),
        }
    }
}

/// The angles of `Rz Rx Ry`, ITK's order.
fn euler_zxy(r: &Rotation3<f64>) -> (f64, f64, f64) {
    let m = r.matrix();
    let x = m[(2, 1)].clamp(-1.0, 1.0).asin();
    if m[(2, 0)].hypot(m[(2, 2)]) > 1e-9 {
        (x, (-m[(2, 0)]).atan2(m[(2, 2)]), (-m[(0, 1)]).atan2(m[(1, 1)]))
    } else {
        // At x = 90 degrees only the sum of the other two counts.
        (x, 0.0, m[(1, 0)].atan2(m[(0, 0)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(class: &str, parameters: &[f64], fixed: &[f64]) -> Record {
        Record { class: class.into(), parameters: parameters.into(), fixed: fixed.into() }
    }

    fn one(class: &str, parameters: &[f64], fixed: &[f64]) -> Transform {
        parse(&record(class, parameters, fixed)).unwrap().unwrap()
    }

    fn near(a: Vector3<f64>, b: [f64; 3]) {
        assert!((a - Vector3::from(b)).norm() < 1e-12, "{a:?} {b:?}");
    }

    #[test]
    fn the_world_is_lps() {
        let t = one("TranslationTransform_double_3_3", &[1.0, 2.0, 3.0], &[]);
        near(t.apply(Vector3::zeros()), [-1.0, -2.0, 3.0]);
        // A quarter turn in LPS, x to y, about the LPS point (10, 0, 0).
        let q = std::f64::consts::FRAC_PI_2;
        let t = one("Euler3DTransform_double_3_3", &[0., 0., q, 0., 0., 0.], &[10., 0., 0.]);
        // LPS (11, 0, 0) goes to (10, 1, 0).
        near(t.apply(Vector3::new(-11.0, 0.0, 0.0)), [-10.0, -1.0, 0.0]);
        let m = one("AffineTransform_float_2_2", &[0., -1., 1., 0., 5., 0.], &[10., 0.]);
        near(m.apply(Vector3::new(-11.0, 0.0, 7.0)), [-15.0, -1.0, 7.0]);
        let s = one("Similarity2DTransform_double_2_2", &[2., q, 0., 0.], &[10., 0.]);
        near(s.apply(Vector3::new(-11.0, 0.0, 7.0)), [-10.0, -2.0, 7.0]);
    }

    #[test]
    fn the_last_of_a_composite_is_first() {
        let shift = record("TranslationTransform_double_3_3", &[0., 0., 1.], &[]);
        let double = record("ScaleTransform_double_3_3", &[2., 2., 2.], &[0., 0., 0.]);
        let head = record("CompositeTransform_double_3_3", &[], &[]);
        let t = combine(&[head.clone(), shift.clone(), double.clone()]).unwrap();
        near(t.apply(Vector3::new(0., 0., 5.)), [0., 0., 11.]);
        assert!(combine(&[shift, double]).unwrap_err().contains("without a CompositeTransform"));
        assert!(combine(&[head]).unwrap_err().contains("without its parts"));
        let odd = record("CompositeTransform_double_3_3", &[2., 2., 2.], &[0.; 3]);
        assert!(combine(&[odd]).unwrap_err().contains("3 parameters"));
        let none = combine(&records(&Transform::Composite(vec![])).unwrap()).unwrap();
        assert_eq!(none, Transform::identity());
        assert!(combine(&[]).is_err());
    }

    #[test]
    fn bad_records() {
        for (class, parameters, fixed) in [
            ("AffineTransform_double_3_3", &[1.0; 11][..], &[][..]),
            ("AffineTransform_double_3_3", &[f64::NAN; 12], &[]),
            ("AffineTransform_double_3_3", &[1.0; 12], &[0.0]),
            ("AffineTransform_double_3_2", &[1.0; 12], &[]),
            ("AffineTransform_long_3_3", &[1.0; 12], &[]),
            ("BSplineTransform_double_3_3", &[], &[]),
            ("Euler3DTransform_double_2_2", &[0.0; 6], &[]),
            ("QuaternionRigidTransform_double_3_3", &[0.0; 7], &[]),
            ("Similarity3DTransform_double_3_3", &[0.0; 7], &[]),
        ] {
            assert!(parse(&record(class, parameters, fixed)).is_err(), "{class}");
        }
    }

    proptest! {
        #[test]
        fn transforms_are_their_records(
            axis in prop::array::uniform3(-3.0..3.0f64),
            centre in prop::array::uniform3(-90.0..90.0f64),
            translation in prop::array::uniform3(-30.0..30.0f64),
            scale in 0.3..3.0f64,
            m in prop::array::uniform9(-2.0..2.0f64),
        ) {
            let rotation = UnitQuaternion::from_scaled_axis(Vector3::from(axis));
            let rigid =
                Rigid { rotation, centre: centre.into(), translation: translation.into() };
            let affine = Affine::new(Matrix3::from_row_slice(&m), translation.into());
            let all = vec![
                Transform::Rigid(rigid),
                Transform::Similarity(Similarity { rigid, scale }),
                Transform::Affine(affine),
            ];
            for t in all.iter().cloned().chain([Transform::Composite(all.clone())]) {
                let back = combine(&records(&t).unwrap()).unwrap();
                for p in [[0.0; 3], [50.0, -60.0, 70.0]] {
                    let p = Vector3::from(p);
                    prop_assert!((back.apply(p) - t.apply(p)).norm() < 1e-8, "{t:?}");
                }
            }
        }
    }

    #[test]
    fn half_and_quarter_turns() {
        for axis in [Vector3::x(), Vector3::y(), Vector3::z(), Vector3::new(1., 1., 0.)] {
            for angle in [std::f64::consts::PI, std::f64::consts::FRAC_PI_2] {
                let rotation = UnitQuaternion::from_scaled_axis(axis.normalize() * angle);
                let (centre, translation) = (Vector3::x(), Vector3::y());
                let rigid = Rigid { rotation, centre, translation };
                for t in [
                    Transform::Rigid(rigid),
                    Transform::Similarity(Similarity { rigid, scale: 2.0 }),
                ] {
                    let back = combine(&records(&t).unwrap()).unwrap();
                    let p = Vector3::new(30., 40., 50.);
                    assert!((back.apply(p) - t.apply(p)).norm() < 1e-9, "{t:?} {back:?}");
                }
            }
        }
    }
}
