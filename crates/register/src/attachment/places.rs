//! Points in world coordinates on a device.

use crate::error::Result;
use std::marker::PhantomData;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::{Vector3, memory};

/// Points of the fixed and of the moving world that a data term needs carried to the other one.
///
/// On a device, points are `3 k` floats: all x, then all y, then all z, in mm from an origin of their world that is near to
/// them, so that floats tell them apart.
pub struct Places<D: Device> {
    origin: Vector3<f64>,
    at: D::Buffer<f32>,
    stiffness: Vec<f32>,
    device: PhantomData<D>,
}

impl<D: Device> Places<D> {
    /// Points, mm, with the stiffness of each: at least as large as the second derivative of the energy in where it is, along any
    /// direction, 1/mm².
    ///
    /// # Errors
    /// Memory.
    pub fn new(
        device: &D,
        points: &[Vector3<f64>],
        origin: Vector3<f64>,
        stiffness: Vec<f32>,
    ) -> Result<Self> {
        let at = device.upload_vec(relative(points, &origin)?)?;
        Ok(Self { origin, at, stiffness, device: PhantomData })
    }

    /// From where coordinates count, mm of the world.
    #[must_use]
    pub fn origin(&self) -> &Vector3<f64> {
        &self.origin
    }

    /// The points.
    #[must_use]
    pub fn at(&self) -> &D::Buffer<f32> {
        &self.at
    }

    /// The stiffness of each point, 1/mm².
    #[must_use]
    pub fn stiffness(&self) -> &[f32] {
        &self.stiffness
    }

    /// Their number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at.len() / 3
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
}

/// Points relative to an origin: all x, then all y, then all z.
///
/// # Errors
/// Memory.
pub fn relative(points: &[Vector3<f64>], origin: &Vector3<f64>) -> Result<Vec<f32>> {
    let mut list = memory::room(3 * points.len())?;
    for a in 0..3 {
        list.extend(points.iter().map(|p| (p[a] - origin[a]) as f32));
    }
    Ok(list)
}

/// The middle of the bounds of points, mm; the world's origin where there are none.
#[must_use]
pub fn middle(points: &[Vector3<f64>]) -> Vector3<f64> {
    let Some(&first) = points.first() else { return Vector3::zeros() };
    let (low, high) =
        points.iter().fold((first, first), |(low, high), p| (low.inf(p), high.sup(p)));
    0.5 * (low + high)
}
