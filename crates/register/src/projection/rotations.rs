//! Uniform grids of rotations.

use voxalign_image::{Matrix3, Rotation3};

/// The second ratio of super-Fibonacci spirals, the root of `x⁴ = x + 4`; the first is the root of 2.
const PSI: f64 = 1.533_751_168_755_204_3;

/// This many rotations, spread as evenly as possible (M. Alexa, *Super-Fibonacci spirals*, CVPR 2022).
pub(super) fn evenly(count: usize) -> impl Iterator<Item = Matrix3<f64>> {
    (0..count).map(move |i| {
        let s = i as f64 + 0.5;
        let (part, turn) = (s / count as f64, std::f64::consts::TAU * s);
        let (near, far) = (part.sqrt(), (1.0 - part).sqrt());
        let (a, b) = (turn / std::f64::consts::SQRT_2, turn / PSI);
        let [x, y, z, w] = [near * a.sin(), near * a.cos(), far * b.sin(), far * b.cos()];
        let q = nalgebra::Quaternion::new(w, x, y, z);
        let rotation: Rotation3<f64> = nalgebra::UnitQuaternion::from_quaternion(q).into();
        *rotation.matrix()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Vector3;

    #[test]
    fn every_rotation_has_one_nearby() {
        let all: Vec<_> = evenly(1000).collect();
        let mut random = crate::random::Random::new(1);
        for _ in 0..100 {
            let v = Vector3::from_fn(|_, _| random.normal()).normalize();
            let other = *Rotation3::new(v * std::f64::consts::PI * random.uniform()).matrix();
            let angle = |r: &Matrix3<f64>| {
                (((r.transpose() * other).trace() - 1.0) / 2.0).clamp(-1.0, 1.0).acos()
            };
            let least = all.iter().map(angle).fold(f64::INFINITY, f64::min).to_degrees();
            assert!(least < 25.0, "{least}");
        }
    }
}
