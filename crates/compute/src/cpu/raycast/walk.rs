//! Ray traversal voxel by voxel: exact intersection lengths, planes of voxels, and the adjoint.

use crate::Dims;
use crate::ops::raycast::{RayFrame, Traversal};

/// The use of the samples of a ray.
pub(super) trait Visitor {
    /// A sample: the voxels that it is interpolated from with their weights, and the length that it represents, mm.
    fn sample(&mut self, voxels: &[(usize, f32)], length: f32);
}

/// Goes along the ray of the pixel `(u, v)`.
pub(super) fn walk(
    frame: &RayFrame,
    dims: Dims,
    how: Traversal,
    [u, v]: [f32; 2],
    visitor: &mut impl Visitor,
) {
    let (p, q) = (frame.place_of(u, v).map(f64::from), frame.step_of(u, v).map(f64::from));
    let length = frame.length_of(u, v);
    match how {
        Traversal::Trilinear { .. } => {
            let [first, last] = within(frame, dims, p, q, 1.0);
            let mut k = first.ceil();
            while k <= last {
                let at = [0, 1, 2].map(|a| p[a] + k * q[a]);
                linear(dims, at, length, visitor);
                k += 1.0;
            }
        }
        Traversal::Siddon => boxes(frame, dims, p, q, length, visitor),
        Traversal::Joseph => {
            let longest = |a: usize, b: usize| if q[b].abs() > q[a].abs() { b } else { a };
            let axis = longest(longest(0, 1), 2);
            let [first, last] = within(frame, dims, p, q, 1.0);
            let (inverse, length) = (1.0 / q[axis], (f64::from(length) / q[axis].abs()) as f32);
            let ends = [p[axis] + first * q[axis], p[axis] + last * q[axis]];
            // A hair wider, as what is at the ends counts by its own place.
            let low = (ends[0].min(ends[1]) - 0.5).floor().max(0.0) as usize;
            let high = (ends[0].max(ends[1]) + 0.5).ceil().min(dims[axis] as f64 - 1.0);
            if first > last || high < 0.0 {
                return;
            }
            for plane in low..=high as usize {
                let k = (plane as f64 - p[axis]) * inverse;
                if k > f64::from(frame.range[0]) && k <= f64::from(frame.range[1]) {
                    let mut at = [0, 1, 2].map(|a| p[a] + k * q[a]);
                    at[axis] = plane as f64;
                    linear(dims, at, length, visitor);
                }
            }
        }
    }
}

/// The least and the largest `k` within the range of the frame at which a ray is at most `beyond` voxels outside of the
/// centres; the first above the last where there is none. A ray along which a place stays is inside from the lower limit on and
/// before the upper one.
fn within(frame: &RayFrame, dims: Dims, p: [f64; 3], q: [f64; 3], beyond: f64) -> [f64; 2] {
    let mut ends = frame.range.map(f64::from);
    for a in 0..3 {
        let (low, high) = (-beyond, dims[a] as f64 - 1.0 + beyond);
        if q[a] == 0.0 {
            if !(low..high).contains(&p[a]) {
                return [1.0, 0.0];
            }
        } else {
            let (x, y) = ((low - p[a]) / q[a], (high - p[a]) / q[a]);
            ends = [ends[0].max(x.min(y)), ends[1].min(x.max(y))];
        }
    }
    ends
}

/// A sample of interpolated values.
fn linear(dims: Dims, at: [f64; 3], length: f32, visitor: &mut impl Visitor) {
    let base = at.map(f64::floor);
    let part = [0, 1, 2].map(|a| (at[a] - base[a]) as f32);
    let (mut voxels, mut n) = ([(0, 0.0); 8], 0);
    for corner in 0..8usize {
        let up = [corner & 1, corner >> 1 & 1, corner >> 2];
        let place = [0, 1, 2].map(|a| base[a] as i64 + up[a] as i64);
        if (0..3).all(|a| (0..dims[a] as i64).contains(&place[a])) {
            let weight = |a: usize| if up[a] == 1 { part[a] } else { 1.0 - part[a] };
            let [x, y, z] = place.map(|p| p as usize);
            voxels[n] = (x + dims[0] * (y + dims[1] * z), weight(0) * weight(1) * weight(2));
            n += 1;
        }
    }
    visitor.sample(&voxels[..n], length);
}

/// The voxels as boxes, from one face to the next (Siddon 1985; the incremental form of Amanatides and Woo 1987).
fn boxes(
    frame: &RayFrame,
    dims: Dims,
    p: [f64; 3],
    q: [f64; 3],
    length: f32,
    visitor: &mut impl Visitor,
) {
    let [first, last] = within(frame, dims, p, q, 0.5);
    if first >= last {
        return;
    }
    let mut voxel = [0usize; 3];
    // Where the ray leaves the voxel along each axis.
    let mut next = [f64::INFINITY; 3];
    let inverse = q.map(|q| 1.0 / q);
    let face = |a: usize, voxel: usize| {
        let up = if q[a] > 0.0 { 0.5 } else { -0.5 };
        (voxel as f64 + up - p[a]) * inverse[a]
    };
    for a in 0..3 {
        // A voxel is from its lower face on and before its upper one.
        let at = (p[a] + first * q[a] + 0.5).floor().clamp(0.0, dims[a] as f64 - 1.0);
        voxel[a] = at as usize;
        if q[a] != 0.0 {
            next[a] = face(a, voxel[a]);
        }
    }
    let mut k = first;
    loop {
        let axis = if next[0] <= next[1] && next[0] <= next[2] {
            0
        } else if next[1] <= next[2] {
            1
        } else {
            2
        };
        let end = next[axis].min(last);
        if end > k {
            let index = voxel[0] + dims[0] * (voxel[1] + dims[1] * voxel[2]);
            visitor.sample(&[(index, 1.0)], ((end - k) * f64::from(length)) as f32);
            k = end;
        }
        if next[axis] >= last {
            return;
        }
        let inside = if q[axis] > 0.0 {
            voxel[axis] += 1;
            voxel[axis] < dims[axis]
        } else {
            voxel[axis] = voxel[axis].wrapping_sub(1);
            voxel[axis] != usize::MAX
        };
        if !inside {
            return;
        }
        next[axis] = face(axis, voxel[axis]);
    }
}
