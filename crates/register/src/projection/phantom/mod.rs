//! Phantoms made of ellipsoids, whose line integrals are known exactly.
//!
//! Where ellipsoids overlap their values add: a skull is one of bone, and within it one that turns bone into
//! brain. Values are attenuations per mm, at some 70 keV.
//!
//! ```
//! use voxalign_image::{Affine, Grid, Matrix3, Vector3};
//! use voxalign_register::projection::phantom::{Ellipsoid, Phantom};
//!
//! // A ball of water with a smaller one of air in it.
//! let ball = |radius, value| Ellipsoid::new([0.0; 3], [radius; 3], value);
//! let phantom = Phantom::new(vec![ball(50.0, 0.02), ball(20.0, -0.02)]);
//! assert_eq!(phantom.value(Vector3::new(30.0, 0.0, 0.0)), 0.02);
//! // Through the middle 60 mm are water.
//! let (source, end) = (Vector3::new(0.0, -900.0, 0.0), Vector3::new(0.0, 600.0, 0.0));
//! assert!((phantom.integral(source, end) - 60.0 * 0.02).abs() < 1e-12);
//!
//! let to_world = Affine::new(Matrix3::identity() * 2.0, Vector3::repeat(-59.0));
//! let volume = phantom.volume(&Grid::new([60; 3], to_world)?)?;
//! assert_eq!((volume.get(30, 30, 30), volume.get(45, 30, 30)), (Some(&0.0), Some(&0.02)));
//! # Ok::<(), voxalign_register::RegisterError>(())
//! ```

mod anatomy;
mod voxels;

use nalgebra::{Matrix3, Rotation3, Vector3};

/// An ellipsoid of one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ellipsoid {
    /// Its centre, mm.
    pub centre: Vector3<f64>,
    /// Half the lengths of its axes, above 0, mm.
    pub half_axes: Vector3<f64>,
    /// Turns the axes of the world to its own.
    pub rotation: Rotation3<f64>,
    /// Its contribution to the attenuation, 1/mm.
    pub value: f64,
}

impl Ellipsoid {
    /// One along the axes of the world.
    #[must_use]
    pub fn new(centre: [f64; 3], half_axes: [f64; 3], value: f64) -> Self {
        let (centre, half_axes) = (Vector3::from(centre), Vector3::from(half_axes));
        Self { centre, half_axes, rotation: Rotation3::identity(), value }
    }

    /// The same rotated about its centre, by angles about x, then y, then z, radians.
    #[must_use]
    pub fn turned(self, angles: [f64; 3]) -> Self {
        let [x, y, z] = angles;
        Self { rotation: Rotation3::from_euler_angles(x, y, z) * self.rotation, ..self }
    }

    /// Whether a point is inside.
    #[must_use]
    pub fn contains(&self, point: Vector3<f64>) -> bool {
        (self.unit() * (point - self.centre)).norm_squared() <= 1.0
    }

    /// The length of the segment from `source` to `end` inside, mm.
    #[must_use]
    pub fn chord(&self, source: Vector3<f64>, end: Vector3<f64>) -> f64 {
        let (unit, ray) = (self.unit(), end - source);
        match crossed(unit * (source - self.centre), unit * ray, 1.0) {
            Some([enter, leave]) => (leave.min(1.0) - enter.max(0.0)).max(0.0) * ray.norm(),
            None => 0.0,
        }
    }

    /// The linear map from it, relative to its centre, to the unit ball.
    fn unit(&self) -> Matrix3<f64> {
        let inverse = self.half_axes.map(|a| 1.0 / a);
        Matrix3::from_diagonal(&inverse) * self.rotation.matrix().transpose()
    }
}

/// Where `p + t d` is in the ball of a radius about 0: from the first `t` to the second.
fn crossed(p: Vector3<f64>, d: Vector3<f64>, radius: f64) -> Option<[f64; 2]> {
    let square = d.norm_squared();
    // From where it is nearest to the middle.
    let nearest = -p.dot(&d) / square;
    let half = (radius * radius - (p + d * nearest).norm_squared()) / square;
    (half > 0.0).then(|| [nearest - half.sqrt(), nearest + half.sqrt()])
}

/// A sum of ellipsoids.
#[derive(Debug, Clone, PartialEq)]
pub struct Phantom {
    ellipsoids: Vec<Ellipsoid>,
}

impl Phantom {
    /// One of these ellipsoids.
    #[must_use]
    pub fn new(ellipsoids: Vec<Ellipsoid>) -> Self {
        Self { ellipsoids }
    }

    /// Its parts.
    #[must_use]
    pub fn ellipsoids(&self) -> &[Ellipsoid] {
        &self.ellipsoids
    }

    /// The attenuation at a point, per mm.
    #[must_use]
    pub fn value(&self, point: Vector3<f64>) -> f64 {
        self.ellipsoids.iter().filter(|e| e.contains(point)).map(|e| e.value).sum()
    }

    /// The exact integral along the segment from `source` to `end`.
    #[must_use]
    pub fn integral(&self, source: Vector3<f64>, end: Vector3<f64>) -> f64 {
        self.ellipsoids.iter().map(|e| e.value * e.chord(source, end)).sum()
    }
}

#[cfg(test)]
mod tests;
