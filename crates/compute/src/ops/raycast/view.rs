//! The rays of a view.

use super::Traversal;
use crate::Dims;
use crate::error::{ComputeError, Result};

/// A source and a detector, in voxels of a volume and in the world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RayView {
    /// The source, the centre of the first pixel, and the steps from pixel to pixel along columns and rows; in voxels
    /// of the volume, 0 at the centre of its first.
    pub places: [[f64; 3]; 4],
    /// The same in the world where lengths are measured, mm.
    pub world: [[f64; 3]; 4],
}

/// The derivative of a function in a view, but for what does not depend on the weights: `[p][0]`, `[p][1]`, `[p][2]` are the sums over rays of
/// `w s`, `w u s` and `w v s`, with the weight `w` and the derivative `s` of the kind `p` of the ray of the pixel `(u, v)`.
pub type ViewDerivatives = [[f64; 3]; 6];

/// The kernel parameters of a view: the samples of the ray of the pixel `(u, v)` are at `p + k q`, in voxels, with
/// `p = place[0] + u place[1] + v place[2]`, `q = step[0] + u step[1] + v step[2]`, and `k` counted from a plane in
/// the middle of the volume, so that single precision is accurate enough.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct RayFrame {
    /// Of the pixel (0, 0), and what a column and a row add.
    pub place: [[f32; 3]; 3],
    /// The same of the steps.
    pub step: [[f32; 3]; 3],
    /// The squared length of a step, mm²: the factors of 1, u, v, u², u v, v².
    pub squares: [f32; 6],
    /// The least and the largest `k`.
    pub range: [f32; 2],
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// The most planes of samples between source and detector.
const MOST_PLANES: f64 = (1 << 22) as f64;
/// The fewest; less by what a quotient is rounded.
const FEWEST_PLANES: f64 = 2.0 - 1e-9;

impl RayView {
    /// The distance of the source from the plane of the detector in the world, mm.
    #[must_use]
    pub fn depth(&self) -> f64 {
        let [source, origin, column, row] = self.world;
        let normal = cross(column, row);
        dot(normal, sub(origin, source)).abs() / dot(normal, normal).sqrt()
    }

    /// The planes of samples: `Δt`, and the number of that in the middle of a volume, which counts as 0.
    fn planes(&self, dims: Dims, traversal: Traversal) -> Result<(f64, f64)> {
        let depth = self.depth();
        let [source, origin, column, row] = self.places;
        let normal = cross(column, row);
        let far = dot(normal, sub(origin, source));
        if !(depth > 0.0 && depth.is_finite() && far != 0.0 && far.is_finite()) {
            return Err(ComputeError::argument(
                "view",
                format!("{:?}", self.world),
                "a source outside the detector plane, and pixel axes that are not parallel",
            ));
        }
        let middle = dims.map(|n| (n as f64 - 1.0) / 2.0);
        let t = dot(normal, sub(middle, source)) / far;
        // As far apart as keeps the numbers of samples small where there are none.
        let step = match traversal {
            Traversal::Trilinear { step, .. } => step,
            Traversal::Siddon | Traversal::Joseph => depth / 1024.0,
        };
        let dt = step / depth;
        // Planes that are farther apart may leave out all of a volume that is in full view.
        if !(dt > 0.0 && (FEWEST_PLANES..MOST_PLANES).contains(&(1.0 / dt))) {
            return Err(ComputeError::argument(
                "step along rays",
                format!("{step} mm where the detector is {depth:.4} mm from the source"),
                "above 0, at most half of that distance, and at least a 2^22nd of it",
            ));
        }
        let middle = (t / dt).clamp(-MOST_PLANES, 2.0 * MOST_PLANES);
        Ok((dt, middle.round()))
    }

    /// The kernel parameters.
    ///
    /// # Errors
    /// A step that is not above 0, longer than half of the distance from source to detector, or shorter than 2^-22 of it; a source in
    /// the plane of the detector; numbers that are not finite.
    pub fn frame(&self, dims: Dims, traversal: Traversal) -> Result<RayFrame> {
        let (dt, zero) = self.planes(dims, traversal)?;
        let t = zero * dt;
        let [source, origin, column, row] = self.places;
        let ray = sub(origin, source);
        let at = |a: usize| source[a] + t * ray[a];
        let single = |v: [f64; 3], by: f64| v.map(|x| (x * by) as f32);
        let [source, origin, c, r] = self.world;
        let o = sub(origin, source);
        let squares =
            [dot(o, o), 2.0 * dot(o, c), 2.0 * dot(o, r), dot(c, c), 2.0 * dot(c, r), dot(r, r)];
        let range = match traversal {
            // The least whole number above the source; a hair beyond the detector is on it.
            Traversal::Trilinear { .. } => [1.0 - zero, (1.0 / dt + 1e-9).floor() - zero],
            Traversal::Siddon | Traversal::Joseph => [-zero, 1.0 / dt - zero],
        };
        let frame = RayFrame {
            place: [[at(0) as f32, at(1) as f32, at(2) as f32], single(column, t), single(row, t)],
            step: [single(ray, dt), single(column, dt), single(row, dt)],
            squares: squares.map(|s| (s * dt * dt) as f32),
            range: range.map(|k| k as f32),
        };
        let mut all = frame.place.iter().chain(&frame.step).flatten().chain(&frame.squares);
        if all.any(|x| !x.is_finite()) {
            return Err(ComputeError::argument(
                "view",
                "too far away",
                "finite in single precision",
            ));
        }
        Ok(frame)
    }

    /// The derivative of a function in the four places of this view in voxels, from its [derivatives](ViewDerivatives) by `Trilinear`.
    ///
    /// # Errors
    /// As [`frame`](Self::frame).
    pub fn derivative(
        &self,
        dims: Dims,
        step: f64,
        derivatives: &ViewDerivatives,
    ) -> Result<[[f64; 3]; 4]> {
        let (dt, zero) = self.planes(dims, Traversal::trilinear(step))?;
        let t = zero * dt;
        let mut out = [[0.0; 3]; 4];
        for a in 0..3 {
            let (at, along) = (derivatives[a], derivatives[3 + a]);
            out[0][a] = (1.0 - t) * at[0] - dt * along[0];
            out[1][a] = t * at[0] + dt * along[0];
            out[2][a] = t * at[1] + dt * along[1];
            out[3][a] = t * at[2] + dt * along[2];
        }
        Ok(out)
    }
}

impl RayFrame {
    /// The number of its numbers.
    pub const NUMBERS: usize = size_of::<Self>() / size_of::<f32>();

    /// All of its numbers, in the order of its fields.
    pub fn numbers(&self) -> impl Iterator<Item = f32> {
        let pairs = self.place.into_iter().chain(self.step).flatten();
        pairs.chain(self.squares).chain(self.range)
    }

    /// Where the ray of a pixel is at `k = 0`, voxels.
    #[must_use]
    #[inline]
    pub fn place_of(&self, u: f32, v: f32) -> [f32; 3] {
        [0, 1, 2].map(|a| self.place[0][a] + u * self.place[1][a] + v * self.place[2][a])
    }

    /// The step along the ray of a pixel, voxels.
    #[must_use]
    #[inline]
    pub fn step_of(&self, u: f32, v: f32) -> [f32; 3] {
        [0, 1, 2].map(|a| self.step[0][a] + u * self.step[1][a] + v * self.step[2][a])
    }

    /// The length of a step on the ray of a pixel, mm.
    #[must_use]
    #[inline]
    pub fn length_of(&self, u: f32, v: f32) -> f32 {
        let s = &self.squares;
        (s[0] + u * (s[1] + u * s[3] + v * s[4]) + v * (s[2] + v * s[5])).max(0.0).sqrt()
    }

    /// A lower bound of the step along its fastest axis, voxels, over all pixels of a rectangle; 0 if none is
    /// found.
    pub(super) fn fastest_at_least(&self, low: [f32; 2], high: [f32; 2]) -> f64 {
        self.fastest_within(low, high, 16)
    }

    fn fastest_within(&self, low: [f32; 2], high: [f32; 2], deeper: u32) -> f64 {
        // Steps are linear over the detector: what is least along an axis is at a corner, or 0 on the way from one to another.
        let steps = corners(low, high).map(|[u, v]| self.step_of(u, v).map(f64::from));
        let least = |a: usize| {
            let ends = steps.iter().map(|q| q[a]);
            let (from, to) = ends
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), q| (from.min(q), to.max(q)));
            from.max(-to).max(0.0)
        };
        let found = (0..3).map(least).fold(0.0, f64::max);
        if found > 0.0 || deeper == 0 {
            return found;
        }
        // No ray stands still, but along each axis some do: parts are told apart.
        let halves = [0, 1].map(|a| {
            let middle = 0.5 * (low[a] + high[a]);
            [[low[a], middle], [middle, high[a]]]
        });
        let mut least = f64::INFINITY;
        for [left, right] in halves[0] {
            for [top, bottom] in halves[1] {
                least = least.min(self.fastest_within([left, top], [right, bottom], deeper - 1));
            }
        }
        least
    }
}

/// The corners of a rectangle.
pub(super) fn corners(low: [f32; 2], high: [f32; 2]) -> [[f32; 2]; 4] {
    [low, [high[0], low[1]], [low[0], high[1]], high]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::raycast::{Pixels, adjoint_units};

    /// A source at the origin of voxels of these sizes, mm, and a detector about an axis.
    fn view(towards: [f64; 3], pixel: f64, spacing: [f64; 3]) -> RayView {
        let across = if towards[2].abs() < 0.9 { [0.0, 0.0, 1.0] } else { [1.0, 0.0, 0.0] };
        let column = cross(towards, across);
        let size = dot(column, column).sqrt();
        let column = column.map(|x| x / size * pixel);
        let row = cross(towards, column);
        let origin = [0, 1, 2].map(|a| 100.0 * towards[a] - column[a] - row[a]);
        let world = [[0.0; 3], origin, column, row];
        RayView { places: world.map(|p| [0, 1, 2].map(|a| p[a] / spacing[a])), world }
    }

    #[test]
    fn steps_are_at_least_as_fast_as_that() {
        for (towards, pixel) in [
            ([0.0, 0.0, 1.0], 1.0),
            ([0.6, 0.0, 0.8], 50.0),
            ([0.577_350_3, 0.577_350_2, 0.577_350_3], 400.0),
            ([0.0, -1.0, 0.0], 3000.0),
        ] {
            for spacing in [[1.0; 3], [1.0, 1.0, 50.0], [0.3, 20.0, 1.0]] {
                let view = view(towards, pixel, spacing);
                let frame = view.frame([9, 9, 9], Traversal::trilinear(0.7)).unwrap();
                let found = frame.fastest_at_least([0.0; 2], [2.0; 2]);
                let mut least = f64::INFINITY;
                for i in 0..=200u16 {
                    for j in 0..=200u16 {
                        let [u, v] = [i, j].map(|x| f32::from(x) * 0.01);
                        let q = frame.step_of(u, v).map(|q| f64::from(q.abs()));
                        least = least.min(q.into_iter().fold(0.0, f64::max));
                    }
                }
                assert!(found > 0.0 && found <= least * 1.001, "{towards:?} {found} {least}");
            }
        }
    }

    /// The ray in the middle goes along voxels that are a hundred times as long as those of the rays at the ends.
    #[test]
    fn sums_have_room_in_fixed_point() {
        let view = view([0.0, 0.0, 1.0], 100.0, [1.0, 1.0, 100.0]);
        let pixels = Pixels::region([0, 1], [3, 1]);
        for how in [Traversal::trilinear(0.01), Traversal::Siddon, Traversal::Joseph] {
            let frame = view.frame([3, 3, 3], how).unwrap();
            let units = adjoint_units(3.0, &[frame], &pixels);
            // All of the ray within reach of one voxel: 200 mm.
            let middle = 3.0 * 200.0 * units;
            assert!(middle < i64::MAX as f64 && middle > 2f64.powi(40), "{how:?} {middle}");
        }
    }
}
