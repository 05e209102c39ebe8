//! Rays, one sample or crossing at a time, in double precision and from the definitions alone.

use crate::support::{indices, offset};
use voxalign_compute::Dims;
use voxalign_compute::ops::raycast::{Along, Pixels, RayView, Traversal};

type Point = [f64; 3];

fn add(a: Point, b: Point, by: f64) -> Point {
    [a[0] + by * b[0], a[1] + by * b[1], a[2] + by * b[2]]
}

fn norm(a: Point) -> f64 {
    (a[0] * a[0] + a[1] * a[1] + a[2] * a[2]).sqrt()
}

/// A volume that is 0 outside.
pub(super) struct Volume<'a> {
    pub(super) values: &'a [f32],
    pub(super) dims: Dims,
}

impl Volume<'_> {
    fn at(&self, place: [i64; 3]) -> f64 {
        let inside = (0..3).all(|a| (0..self.dims[a] as i64).contains(&place[a]));
        if inside {
            f64::from(self.values[offset(self.dims, place.map(|p| p as usize))])
        } else {
            0.0
        }
    }

    /// The interpolated value and its gradient.
    fn linear(&self, x: Point) -> (f64, Point) {
        let base = x.map(|x| x.floor() as i64);
        let part = [0, 1, 2].map(|a| x[a] - x[a].floor());
        let (mut value, mut gradient) = (0.0, [0.0; 3]);
        for corner in indices([2, 2, 2]) {
            let v = self.at([0, 1, 2].map(|a| base[a] + corner[a] as i64));
            let weight = |a: usize| if corner[a] == 1 { part[a] } else { 1.0 - part[a] };
            let sign = |a: usize| if corner[a] == 1 { 1.0 } else { -1.0 };
            value += v * weight(0) * weight(1) * weight(2);
            gradient[0] += v * sign(0) * weight(1) * weight(2);
            gradient[1] += v * weight(0) * sign(1) * weight(2);
            gradient[2] += v * weight(0) * weight(1) * sign(2);
        }
        (value, gradient)
    }
}

/// The ray of a pixel: where it begins, where it leads in voxels, and its length in mm.
fn ray(view: &RayView, [u, v]: [usize; 2]) -> (Point, Point, f64) {
    let of = |p: &[Point; 4]| {
        let at = add(add(p[1], p[2], u as f64), p[3], v as f64);
        add(at, p[0], -1.0)
    };
    (view.places[0], of(&view.places), norm(of(&view.world)))
}

/// The samples of a ray: how far along, the value, and the length that it stands for.
fn samples(
    volume: &Volume<'_>,
    view: &RayView,
    at: [usize; 2],
    how: Traversal,
) -> Vec<(f64, f64, f64)> {
    let (source, d, length) = ray(view, at);
    let mut all = Vec::new();
    match how {
        Traversal::Trilinear { step, .. } => {
            let dt = step / view.depth();
            let mut j = 1.0;
            while j * dt <= 1.0 + 1e-9 {
                all.push((j * dt, volume.linear(add(source, d, j * dt)).0, dt * length));
                j += 1.0;
            }
        }
        Traversal::Siddon => {
            let mut ends = vec![0.0, 1.0];
            for a in 0..3 {
                for face in 0..=volume.dims[a] {
                    let t = (face as f64 - 0.5 - source[a]) / d[a];
                    if t > 0.0 && t < 1.0 {
                        ends.push(t);
                    }
                }
            }
            ends.sort_by(f64::total_cmp);
            for pair in ends.windows(2) {
                let middle = (pair[0] + pair[1]) / 2.0;
                let place = add(source, d, middle).map(|x| x.round() as i64);
                all.push((middle, volume.at(place), (pair[1] - pair[0]) * length));
            }
        }
        Traversal::Joseph => {
            let axis = (0..3).max_by(|&a, &b| d[a].abs().total_cmp(&d[b].abs())).unwrap();
            for plane in 0..volume.dims[axis] {
                let t = (plane as f64 - source[axis]) / d[axis];
                if t > 0.0 && t <= 1.0 {
                    let mut place = add(source, d, t);
                    place[axis] = plane as f64;
                    all.push((t, volume.linear(place).0, length / d[axis].abs()));
                }
            }
        }
    }
    all
}

pub(super) fn project(
    volume: &Volume<'_>,
    views: &[RayView],
    pixels: &Pixels,
    how: Traversal,
    along: Along,
) -> Vec<f64> {
    let one = |view: &RayView, i: usize| {
        let all = samples(volume, view, pixels.at(i), how);
        match along {
            Along::Integral => all.iter().map(|(_, value, length)| value * length).sum(),
            Along::Maximum => all.iter().fold(0.0, |most, (_, value, _)| value.max(most)),
        }
    };
    views.iter().flat_map(|view| (0..pixels.len()).map(move |i| one(view, i))).collect()
}

/// The derivative of `Σ weights · image` in the places of each view.
pub(super) fn derivative(
    volume: &Volume<'_>,
    views: &[RayView],
    pixels: &Pixels,
    step: f64,
    weights: &[f32],
) -> Vec<[Point; 4]> {
    let one = |(number, view): (usize, &RayView)| {
        let mut out = [[0.0; 3]; 4];
        for i in 0..pixels.len() {
            let at = pixels.at(i);
            let weight = f64::from(weights[number * pixels.len() + i]);
            let (source, d, _) = ray(view, at);
            for (t, _, length) in samples(volume, view, at, Traversal::trilinear(step)) {
                let (_, gradient) = volume.linear(add(source, d, t));
                for a in 0..3 {
                    let w = weight * length * gradient[a];
                    out[0][a] += w * (1.0 - t);
                    out[1][a] += w * t;
                    out[2][a] += w * t * at[0] as f64;
                    out[3][a] += w * t * at[1] as f64;
                }
            }
        }
        out
    };
    views.iter().enumerate().map(one).collect()
}
