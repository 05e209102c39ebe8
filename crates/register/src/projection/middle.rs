//! Poses that put the CT in the middle of the views.

use crate::error::Result;
use voxalign_image::{Affine, Grid, Matrix3, Vector3, XrayGeometry};

/// The assumed distance of the CT from the source where nothing determines it, as a fraction of the distance of the
/// detector.
const BETWEEN: f64 = 2.0 / 3.0;

/// A pose with the rotation of another one that puts the CT where the rays through the centres of the views come
/// nearest to each other; for one view, at the distance from the source that it had. The region of a view that
/// counts is given by its first column and row, and numbers of columns and rows; all of it without one.
///
/// # Errors
/// A pose that has no inverse.
pub fn in_the_middle<'a>(
    pose: &Affine,
    ct: &Grid,
    views: impl Iterator<Item = (&'a XrayGeometry, Option<[usize; 4]>)>,
) -> Result<Affine> {
    let was = pose.inverse()?.apply(ct.centre());
    let (mut all, mut sum, mut rays) = (Matrix3::zeros(), Vector3::zeros(), Vec::new());
    for (view, region) in views {
        let [x, y, w, h] = region.unwrap_or([0, 0, view.dims()[0], view.dims()[1]]);
        let middle = |first: usize, count: usize| first as f64 + (count as f64 - 1.0) / 2.0;
        let ray: Vector3<f64> =
            (view.place(middle(x, w), middle(y, h)) - view.source()).normalize();
        let across = Matrix3::identity() - ray * ray.transpose();
        all += across;
        sum += across * view.source();
        rays.push((view, ray));
    }
    let alike = |rays: &[(&XrayGeometry, Vector3<f64>)]| {
        rays.iter().all(|(_, ray)| ray.cross(&rays[0].1).norm() < 0.1)
    };
    let place = match rays.first() {
        None => return Ok(*pose),
        Some((view, ray)) if alike(&rays) => {
            let far = view.source_to_detector();
            let depth = (was - view.source()).dot(&view.normal());
            let depth = if depth > 0.1 * far && depth < far { depth } else { BETWEEN * far };
            view.source() + ray * (depth / ray.dot(&view.normal()))
        }
        Some(_) => all.try_inverse().map_or(was, |inverse| inverse * sum),
    };
    Ok(Affine::new(pose.matrix, ct.centre() - pose.matrix * place))
}

#[cfg(test)]
mod tests {
    use super::super::points::tests::arm;
    use super::*;
    use crate::projection::pose_of;

    #[test]
    fn the_ct_is_put_in_the_middle_of_the_views() {
        let ct = Grid::axis_aligned([40, 50, 60], [1.0; 3]).unwrap();
        let turn = Vector3::new(0.2, 0.4, 0.5);
        let far = pose_of(ct.centre(), turn, Vector3::new(900.0, 0.0, 0.0)).unwrap();
        for views in [vec![arm(0.0), arm(1.5)], vec![arm(0.3)]] {
            let all = views.iter().map(|v| (v, None));
            let found = in_the_middle(&far, &ct, all).unwrap();
            assert_eq!(found.matrix, far.matrix);
            for view in &views {
                let at = view.project(found.inverse().unwrap().apply(ct.centre())).unwrap();
                assert!((at[0] - 399.5).abs() < 1e-6 && (at[1] - 399.5).abs() < 1e-6, "{at:?}");
            }
        }
    }
}
