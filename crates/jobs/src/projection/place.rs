//! The pose of the CT in the room, and its visibility in a view.

use crate::error::{Error, Result};
use crate::listener::{Level, Listener, reading};
use std::path::Path;
use voxalign_image::{Affine, Grid, Matrix3, Rotation3, Vector3, XrayGeometry};
use voxalign_io::transform::{self, Geometry};
use voxalign_options::text;
use voxalign_register::projection::pose_of;

/// How far lengths may be off in a rigid transform: the norm of `MᵀM - 1`. Files have rounded numbers.
const ROUNDED: f64 = 1e-3;
/// What is off by less is as exact as a matrix can be.
const EXACT: f64 = 1e-9;

/// The pose of a CT that is turned in the room about a point by angles about x, y and z, in that order, degrees, and then
/// moved, mm: from the room to the world of the CT.
pub(crate) fn in_room(centre: Vector3<f64>, degrees: [f64; 3], mm: [f64; 3]) -> Result<Affine> {
    Ok(pose_of(centre, degrees.map(f64::to_radians).into(), mm.into())?)
}

/// Reads a pose: a rigid transform from the room to the world of the CT.
///
/// Of a matrix that is rounded the nearest rotation is taken; what was at the middle of the CT stays there.
pub(crate) fn read_pose(path: &Path, ct: &Grid, listener: &dyn Listener) -> Result<Affine> {
    let read = reading(listener, || transform::read(path, &Geometry::default()))?;
    let at = |what: &str| Error::input(text!("'{}': {what}", path.display()));
    let map = read.to_affine().map_err(|e| at(&format!("{e}; give a rigid transform")))?;
    rigid(&map, ct.centre())
        .ok_or_else(|| at("the transform changes lengths or mirrors; give a rigid one"))
}

/// The rigid map nearest to one that is rigid but for rounding, by which a point comes from where it came from; nothing
/// where a map is not rigid.
fn rigid(map: &Affine, middle: Vector3<f64>) -> Option<Affine> {
    let off = (map.matrix.transpose() * map.matrix - Matrix3::identity()).norm();
    if off.is_nan() || off > ROUNDED || map.determinant() < 0.0 {
        return None;
    }
    if off <= EXACT {
        return Some(*map);
    }
    let from = map.inverse().ok()?.apply(middle);
    let rotation = *Rotation3::from_matrix(&map.matrix).matrix();
    Some(Affine::new(rotation, middle - rotation * from))
}

/// Whether the source of a view is within the CT.
pub(crate) fn is_within(view: &XrayGeometry, pose: &Affine, ct: &Grid) -> bool {
    ct.contains_index(ct.world_to_index(pose.apply(view.source())))
}

/// How far the CT may be moved or turned from where it is said to be, mm.
const ROOM: f64 = 100.0;

/// A view whose rays end behind the CT: a detector at an assumed distance is moved there, which changes no pixel but for what it cut;
/// of one whose distance is said it is told that it cuts the CT.
pub(crate) fn behind(
    (view, assumed): (XrayGeometry, bool),
    pose: &Affine,
    ct: &Grid,
    of: &str,
    listener: &dyn Listener,
) -> Result<XrayGeometry> {
    let to_room = pose.inverse()?;
    let depth = |corner| (to_room.apply(corner) - view.source()).dot(&view.normal());
    let farthest = ct.corners().into_iter().map(depth).fold(0.0, f64::max);
    let far = view.source_to_detector();
    if assumed && farthest + ROOM > far {
        return Ok(view.with_source_to_detector(farthest + ROOM)?);
    }
    if farthest > far {
        let cut = farthest - far;
        listener.say(
            Level::Warning,
            format!(
                "{of}: the detector is within the box of the CT, which reaches {cut:.0} mm behind it: what is there \
                 is not seen; check the distance from source to detector"
            ),
        );
    }
    Ok(view)
}

/// Whether a ray of a view may meet the CT: no only where all of it is beside the detector or behind the source.
pub(crate) fn may_see(view: &XrayGeometry, pose: &Affine, ct: &Grid) -> Result<bool> {
    let to_room = pose.inverse()?;
    let dims = ct.dims();
    // Values fall to 0 within a voxel beyond the outermost centres.
    let corner = |k: usize| {
        let end = |a: usize| if k >> a & 1 == 1 { dims[a] as f64 } else { -1.0 };
        to_room.apply(ct.index_to_world(Vector3::from_fn(|a, _| end(a))))
    };
    let seen: Vec<_> = (0..8).filter_map(|k| view.project(corner(k))).collect();
    if seen.len() < 8 {
        return Ok(!seen.is_empty());
    }
    Ok((0..2).all(|a| {
        let values = || seen.iter().map(|p| p[a]);
        let (least, most) =
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
        most > -0.5 && least < view.dims()[a] as f64 - 0.5
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;
    use voxalign_image::CArm;

    #[test]
    fn assumed_detectors_go_behind_the_ct() {
        let ct = Grid::axis_aligned([50, 50, 50], [2.0; 3]).unwrap();
        let (x, z, middle) = (Vector3::x(), Vector3::z(), ct.centre());
        let source = middle - 500.0 * Vector3::y();
        let view = XrayGeometry::new(source, middle - 20.0 * (x + z), x, z, [41, 41]).unwrap();
        let of = |assumed| behind((view, assumed), &Affine::identity(), &ct, "a", &Silent).unwrap();
        assert_eq!(of(false), view);
        let moved = of(true);
        assert!(moved.source_to_detector() > 550.0, "{}", moved.source_to_detector());
        let point = middle + Vector3::new(7.0, 3.0, -5.0);
        let pairs = view.project(point).unwrap().into_iter().zip(moved.project(point).unwrap());
        assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) < 1e-9);
        // One that is behind it anyway stays.
        let far = view.with_source_to_detector(900.0).unwrap();
        assert_eq!(behind((far, true), &Affine::identity(), &ct, "a", &Silent).unwrap(), far);
    }

    #[test]
    fn rounded_rotations_become_exact_about_the_middle() {
        let middle = Vector3::new(40.0, -90.0, 700.0);
        let exact = in_room(Vector3::new(1.0, 2.0, 3.0), [20.0, -30.0, 140.0], [5.0, 6.0, -7.0]);
        let exact = exact.unwrap();
        let rounded = |v: f64| (v * 1e4).round() / 1e4;
        let map = Affine::new(exact.matrix.map(rounded), exact.offset);
        let found = rigid(&map, middle).unwrap();
        let off = (found.matrix.transpose() * found.matrix - Matrix3::identity()).norm();
        assert!(off < 1e-12, "{off}");
        assert!((found.matrix - exact.matrix).norm() < 1e-4);
        let from = map.inverse().unwrap().apply(middle);
        assert!((found.apply(from) - middle).norm() < 1e-9);
        // What is exact stays as it is; what is not a rotation is refused.
        assert_eq!(rigid(&exact, middle), Some(exact));
        let scaled = |by: f64| Affine::new(exact.matrix * by, exact.offset);
        assert!(
            rigid(&scaled(1.0002), middle).is_some() && rigid(&scaled(1.001), middle).is_none()
        );
        assert!(rigid(&scaled(-1.0), middle).is_none());
        assert!(rigid(&scaled(f64::NAN), middle).is_none());
    }

    #[test]
    fn what_a_view_sees() {
        let ct = Grid::axis_aligned([20, 20, 20], [5.0; 3]).unwrap();
        let arm = CArm {
            source_to_isocentre: 700.0,
            source_to_detector: 1000.0,
            isocentre: ct.centre(),
            primary: 0.3,
            secondary: 0.1,
            pixel_size: [1.0; 2],
            dims: [100, 80],
            centre: None,
        };
        let view = arm.geometry().unwrap();
        let moved = |x: f64| in_room(ct.centre(), [0.0; 3], [x, 0.0, 0.0]).unwrap();
        for (x, seen) in [(0.0, true), (60.0, true), (200.0, false), (-200.0, false)] {
            assert_eq!(may_see(&view, &moved(x), &ct).unwrap(), seen, "{x}");
            assert!(!is_within(&view, &moved(x), &ct));
        }
        // A part of the detector within the picture of the CT; the CT about the source, and behind it.
        assert!(may_see(&view.part([50, 40], [1, 1]).unwrap(), &moved(0.0), &ct).unwrap());
        let at = |by: f64| {
            let to: Vector3<f64> = (view.source() - ct.centre()) * by;
            in_room(ct.centre(), [0.0; 3], to.into()).unwrap()
        };
        assert!(is_within(&view, &at(1.0), &ct) && may_see(&view, &at(1.0), &ct).unwrap());
        assert!(!may_see(&view, &at(1.5), &ct).unwrap());
    }
}
