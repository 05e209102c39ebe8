//! Gaussians: the curvature and the normals of fronts, and smoothed images.

use crate::error::{Result, above, same_length};
use crate::front::Front;
use crate::lattice::Lattice;
use voxalign_image::memory;

/// How many standard deviations a Gaussian reaches.
const REACH: f64 = 3.0;

/// The most points that it reaches along an axis.
const MOST: f64 = 1000.0;

/// A Gaussian on a lattice, cut at three standard deviations, of sum 1. Beyond a border the value at the border continues.
#[derive(Debug, Clone)]
pub struct Gaussian {
    sigma: f64,
    spacing: [f64; 3],
    weights: [Vec<f64>; 3],
}

impl Gaussian {
    /// A standard deviation, in the unit of the spacing of the lattice.
    ///
    /// # Errors
    /// [`SegmentError::Parameter`](crate::SegmentError::Parameter) for one that is not above 0, or reaches more than 1000 points.
    pub fn new(lattice: &Lattice, sigma: f64, spacing: [f64; 3]) -> Result<Self> {
        let remedy = "give a number above 0";
        above("the standard deviation of the Gaussian", sigma, 0.0, remedy)?;
        let mut weights = [vec![1.0], vec![1.0], vec![1.0]];
        for (axis, &step) in spacing.iter().enumerate() {
            above("the spacing", step, 0.0, remedy)?;
            let points = sigma / step;
            let name = "the standard deviation of the Gaussian in points";
            above(name, MOST / REACH - points, 0.0, "give one of at most 333 points")?;
            if lattice.dims()[axis] > 1 {
                let radius = (REACH * points).ceil() as isize;
                let exponent = |i: isize| -0.5 * (i as f64 / points).powi(2);
                let all: Vec<f64> = (-radius..=radius).map(|i| exponent(i).exp()).collect();
                let sum: f64 = all.iter().sum();
                weights[axis] = all.into_iter().map(|w| w / sum).collect();
            }
        }
        Ok(Self { sigma, spacing, weights })
    }

    /// The standard deviation.
    #[must_use]
    pub fn sigma(&self) -> f64 {
        self.sigma
    }

    /// The Gaussian mean around a point of a function that is -1 inside and 1 outside.
    #[must_use]
    pub fn side(&self, front: &Front, point: usize) -> f64 {
        self.moments(front, point)[0]
    }

    /// The curvature of the front at a point of one of its lists, by how much more of what is around it is outside than inside (B. Merriman, J.
    /// Bence and S. Osher 1992): of a front through the point itself the mean of [`Gaussian::side`] is κ σ / √(2π) to the first order.
    ///
    /// A front is not through a point but between two, so that there is a part of 1 / σ² too much at an outer point and too little at an inner one,
    /// where the spacing is 1: what a front has to be bent for to move.
    #[must_use]
    pub fn curvature(&self, front: &Front, point: usize) -> f64 {
        self.side(front, point) * (std::f64::consts::TAU.sqrt() / self.sigma)
    }

    /// The unit normal of the front near a point, outwards: the direction of the gradient of the smoothed side. Zero where there is none.
    #[must_use]
    pub fn normal(&self, front: &Front, point: usize) -> [f64; 3] {
        let [_, first @ ..] = self.moments(front, point);
        let length = first.iter().map(|c| c * c).sum::<f64>().sqrt();
        if length > 1e-12 { first.map(|c| c / length) } else { [0.0; 3] }
    }

    /// The Gaussian share of the points around one that are in a set, 0 to 1.
    #[must_use]
    pub fn share(&self, lattice: &Lattice, point: usize, is_in: impl Fn(usize) -> bool) -> f64 {
        let mut sum = 0.0;
        self.visit(lattice, point, |other, weight, _| {
            if is_in(other) {
                sum += weight;
            }
        });
        sum
    }

    /// The sum of the side around a point, and those of side times distance along each axis.
    fn moments(&self, front: &Front, point: usize) -> [f64; 4] {
        let levels = front.levels();
        let mut sums = [0.0; 4];
        self.visit(front.lattice(), point, |other, weight, by| {
            let value = if levels[other] > 0 { weight } else { -weight };
            sums[0] += value;
            for a in 0..3 {
                sums[a + 1] += value * by[a] as f64 * self.spacing[a];
            }
        });
        sums
    }

    /// Calls for each point around one with its weight and difference, always in the same order.
    fn visit(&self, lattice: &Lattice, point: usize, mut call: impl FnMut(usize, f64, [isize; 3])) {
        let place = lattice.place(point);
        let [wx, wy, wz] = &self.weights;
        let by = |i: usize, w: &[f64]| i as isize - (w.len() / 2) as isize;
        for (k, wz_k) in wz.iter().enumerate() {
            for (j, wy_j) in wy.iter().enumerate() {
                for (i, wx_i) in wx.iter().enumerate() {
                    let by = [by(i, wx), by(j, wy), by(k, wz)];
                    call(lattice.clamped(place, by), wx_i * wy_j * wz_k, by);
                }
            }
        }
    }

    /// An image after convolution.
    ///
    /// # Errors
    /// [`SegmentError::Length`](crate::SegmentError::Length), [`SegmentError::OutOfMemory`](crate::SegmentError::OutOfMemory).
    pub fn smoothed(&self, lattice: &Lattice, values: &[f32]) -> Result<Vec<f64>> {
        same_length("the image", values.len(), lattice.len())?;
        let mut from = memory::collected(values.iter().map(|v| f64::from(*v)))?;
        let mut to = memory::zeroed(values.len())?;
        for (axis, weights) in self.weights.iter().enumerate() {
            let radius = (weights.len() / 2) as isize;
            for (point, to) in to.iter_mut().enumerate() {
                let place = lattice.place(point);
                let mut by = [0; 3];
                *to = 0.0;
                for (i, weight) in weights.iter().enumerate() {
                    by[axis] = i as isize - radius;
                    *to += weight * from[lattice.clamped(place, by)];
                }
            }
            std::mem::swap(&mut from, &mut to);
        }
        Ok(from)
    }
}

/// The gradient of an image at a point by central differences; at a border the value there continues.
#[must_use]
pub(crate) fn gradient(
    lattice: &Lattice,
    values: &[f64],
    spacing: [f64; 3],
    point: usize,
) -> [f64; 3] {
    let place = lattice.place(point);
    std::array::from_fn(|axis| {
        let mut by = [0; 3];
        by[axis] = 1;
        let after = values[lattice.clamped(place, by)];
        by[axis] = -1;
        (after - values[lattice.clamped(place, by)]) / (2.0 * spacing[axis])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::Neighbourhood;

    fn ball(lattice: &Lattice, radius: f64, spacing: [f64; 3]) -> Front {
        let set: Vec<bool> = (0..lattice.len())
            .map(|p| {
                let place = lattice.place(p);
                let from: [f64; 3] = std::array::from_fn(|a| {
                    (place[a] as f64 - (lattice.dims()[a] as f64 - 1.0) / 2.0) * spacing[a]
                });
                from.iter().map(|c| c * c).sum::<f64>() <= radius * radius
            })
            .collect();
        Front::new(lattice, &set).unwrap()
    }

    /// The mean over both lists, whose points are half a step off on either side, is the curvature of a disc or ball.
    #[test]
    fn the_curvature_of_discs_and_balls_is_found() {
        for (dims, kind, spacing, radius, sigma) in [
            ([81, 81, 1], Neighbourhood::Four, [1.0; 3], 25.0, 4.0),
            ([81, 81, 1], Neighbourhood::Eight, [0.5, 0.5, 1.0], 12.5, 2.0),
            ([41, 41, 41], Neighbourhood::Six, [1.0; 3], 14.0, 2.5),
        ] {
            let lattice = Lattice::new(dims, kind).unwrap();
            let gaussian = Gaussian::new(&lattice, sigma, spacing).unwrap();
            let front = ball(&lattice, radius, spacing);
            let mean = |list: &[usize]| {
                let sum: f64 = list.iter().map(|p| gaussian.curvature(&front, *p)).sum();
                sum / list.len() as f64
            };
            let found = (mean(front.inner()) + mean(front.outer())) / 2.0;
            let expected = (lattice.dimension() - 1) as f64 / radius;
            assert!((found / expected - 1.0).abs() < 0.12, "{dims:?}: {found}, not {expected}");
            for &point in front.outer() {
                let place = lattice.place(point);
                let normal = gaussian.normal(&front, point);
                let radial: f64 = (0..3)
                    .map(|a| {
                        (place[a] as f64 - (dims[a] as f64 - 1.0) / 2.0) * spacing[a] * normal[a]
                    })
                    .sum();
                assert!(radial > 0.97 * radius, "{radial}");
            }
        }
    }

    #[test]
    fn smoothing_keeps_sums_within_and_planes_everywhere() {
        let lattice = Lattice::new([31, 21, 1], Neighbourhood::Four).unwrap();
        let gaussian = Gaussian::new(&lattice, 2.0, [1.0, 1.0, 1.0]).unwrap();
        let mut values = vec![0.0; lattice.len()];
        values[lattice.point([15, 10, 0])] = 1.0;
        let smooth = gaussian.smoothed(&lattice, &values).unwrap();
        assert!((smooth.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let peak = smooth[lattice.point([15, 10, 0])];
        assert!((peak * std::f64::consts::TAU * 4.0 - 1.0).abs() < 0.01, "{peak}");
        let ramp: Vec<f32> = (0..lattice.len()).map(|p| lattice.place(p)[0] as f32).collect();
        let smooth = gaussian.smoothed(&lattice, &ramp).unwrap();
        let middle = lattice.point([15, 3, 0]);
        assert!((smooth[middle] - 15.0).abs() < 1e-9);
        let slope = gradient(&lattice, &smooth, [0.5, 1.0, 1.0], middle);
        assert!((slope[0] - 2.0).abs() < 1e-9 && slope[1].abs() < 1e-9 && slope[2] == 0.0);
    }

    #[test]
    fn widths_that_cannot_be_are_refused() {
        let lattice = Lattice::new([4, 4, 1], Neighbourhood::Four).unwrap();
        for sigma in [0.0, -1.0, f64::NAN, f64::INFINITY, 500.0] {
            assert!(Gaussian::new(&lattice, sigma, [1.0; 3]).is_err(), "{sigma}");
        }
        assert!(Gaussian::new(&lattice, 1.0, [1.0, 0.0, 1.0]).is_err());
    }
}
