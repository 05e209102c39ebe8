//! The expected registration error at points of the CT.

use super::PoseResult;
use nalgebra::{Matrix3, Matrix3x6, Matrix6, Vector3};
use voxalign_image::XrayGeometry;

/// The distance of a point of the CT from where the pose puts it in the room, mm: its 95th percentile, as far as
/// the images tell.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedError {
    /// In space.
    pub within: f64,
    /// In the plane of each view, at the place of the point.
    pub in_plane: Vec<f64>,
    /// Along the ray of each view.
    pub depth: Vec<f64>,
}

/// The factor of a standard deviation within which 95 of 100 are.
const NORMAL: f64 = 1.96;

/// The length that a normal vector of this covariance stays below in 95 of 100: its square as a multiple of a chi-squared variable with the
/// same mean and variance (F. E. Satterthwaite 1946), whose quantile is that of E. B. Wilson and M. M. Hilferty 1931.
fn length(covariance: &Matrix3<f64>) -> f64 {
    let (sum, squares) = (covariance.trace(), (covariance * covariance).trace());
    if sum <= 0.0 || squares <= 0.0 {
        return 0.0;
    }
    let freedoms = sum * sum / squares;
    let part = 2.0 / (9.0 * freedoms);
    let quantile = freedoms * (1.0 - part + 1.645 * part.sqrt()).powi(3);
    (squares / sum * quantile).sqrt()
}

/// The covariance of the place in the room of a point `from` the centre, of that of six numbers.
fn at(covariance: &Matrix6<f64>, from: Vector3<f64>) -> Matrix3<f64> {
    let mut motion = Matrix3x6::zeros();
    motion.fixed_view_mut::<3, 3>(0, 0).copy_from(&Matrix3::identity());
    motion.fixed_view_mut::<3, 3>(0, 3).copy_from(&-from.cross_matrix());
    motion * covariance * motion.transpose()
}

impl PoseResult {
    /// The expected error of a point, in the world of the CT, in space and for each view; none where the images do
    /// not determine it.
    #[must_use]
    pub fn expected_error<'a>(
        &self,
        point: Vector3<f64>,
        views: impl IntoIterator<Item = &'a XrayGeometry>,
    ) -> Option<ExpectedError> {
        let covariance = Matrix6::from(self.uncertainty.covariance?);
        let back = self.transform.inverse().ok()?;
        let place = back.apply(point);
        let found = at(&covariance, place - back.apply(self.centre));
        let (mut in_plane, mut depth) = (Vec::new(), Vec::new());
        for view in views {
            let ray = (place - view.source()).normalize();
            let across = Matrix3::identity() - ray * ray.transpose();
            in_plane.push(length(&(across * found * across)));
            depth.push(NORMAL * ray.dot(&(found * ray)).max(0.0).sqrt());
        }
        Some(ExpectedError { within: length(&found), in_plane, depth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn ninety_five_of_a_hundred_are_within() {
        let mut random = Random::new(3);
        for sides in [[1.0, 1.0, 1.0], [1.0, 0.2, 3.0], [0.01, 0.01, 2.0]] {
            let covariance = Matrix3::from_diagonal(&Vector3::from(sides.map(|s| s * s)));
            let most = length(&covariance);
            let mut count = 0;
            for _ in 0..4000 {
                let v = Vector3::from_fn(|a, _| sides[a] * random.normal());
                count += usize::from(v.norm() <= most);
            }
            assert!((3740..3860).contains(&count), "{sides:?} {count}");
        }
    }

    #[test]
    fn a_turn_moves_what_is_far_from_the_centre() {
        // Turns about z alone, by a hundredth.
        let mut covariance = Matrix6::zeros();
        covariance[(5, 5)] = 1e-4;
        let found = at(&covariance, Vector3::new(50.0, 0.0, 20.0));
        assert!((found[(1, 1)].sqrt() - 0.5).abs() < 1e-12 && found[(0, 0)].abs() < 1e-12);
        assert!(found[(2, 2)].abs() < 1e-12);
    }
}
