//! Rays, one sample or crossing at a time, in double precision and from the definitions alone.

use crate::support::{indices, offset};
use voxalign_compute::Dims;
use voxalign_compute::ops::raycast::{Along, Pixels, RayView, Traversal};

pub(super) type Point = [f64; 3];

pub(super) fn add(a: Point, b: Point, by: f64) -> Point {
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

/// The number of a voxel, if it is inside.
pub(super) fn inside(dims: Dims, place: [i64; 3]) -> Option<usize> {
    let is_inside = (0..3).all(|a| (0..dims[a] as i64).contains(&place[a]));
    is_inside.then(|| offset(dims, place.map(|p| p as usize)))
}

/// The voxels about a place, those outside as well, with their weights and the derivatives of these.
pub(super) fn corners(x: Point) -> impl Iterator<Item = ([i64; 3], f64, Point)> {
    let base = x.map(|x| x.floor() as i64);
    let part = [0, 1, 2].map(|a| x[a] - x[a].floor());
    indices([2, 2, 2]).map(move |corner| {
        let weight = |a: usize| if corner[a] == 1 { part[a] } else { 1.0 - part[a] };
        let sign = |a: usize| if corner[a] == 1 { 1.0 } else { -1.0 };
        let of_weight = [
            sign(0) * weight(1) * weight(2),
            weight(0) * sign(1) * weight(2),
            weight(0) * weight(1) * sign(2),
        ];
        let place = [0, 1, 2].map(|a| base[a] + corner[a] as i64);
        (place, weight(0) * weight(1) * weight(2), of_weight)
    })
}

impl Volume<'_> {
    fn at(&self, place: [i64; 3]) -> f64 {
        inside(self.dims, place).map_or(0.0, |i| f64::from(self.values[i]))
    }

    /// The interpolated value and its gradient.
    fn linear(&self, x: Point) -> (f64, Point) {
        let (mut value, mut gradient) = (0.0, [0.0; 3]);
        for (place, weight, of_weight) in corners(x) {
            let v = self.at(place);
            value += v * weight;
            gradient = add(gradient, of_weight, v);
        }
        (value, gradient)
    }

    fn value(&self, sample: &Sample) -> f64 {
        match sample.of {
            Of::Place(place) => self.linear(place).0,
            Of::Voxel(voxel) => self.at(voxel),
        }
    }
}

/// The ray of a pixel: where it begins, where it leads in voxels, and its length in mm.
pub(super) fn ray(view: &RayView, [u, v]: [usize; 2]) -> (Point, Point, f64) {
    let of = |p: &[Point; 4]| {
        let at = add(add(p[1], p[2], u as f64), p[3], v as f64);
        add(at, p[0], -1.0)
    };
    (view.places[0], of(&view.places), norm(of(&view.world)))
}

/// What a sample is of: interpolated values, or a whole voxel.
#[derive(Clone, Copy)]
pub(super) enum Of {
    Place(Point),
    Voxel([i64; 3]),
}

/// A sample of a ray.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// How far along, of a whole voxel its middle.
    pub(super) t: f64,
    pub(super) of: Of,
    /// The length that it stands for, mm.
    pub(super) length: f64,
}

/// The axis along which a ray goes farthest, the first of several.
pub(super) fn longest(d: Point) -> usize {
    (1..3).fold(0, |most, a| if d[a].abs() > d[most].abs() { a } else { most })
}

/// The samples of a ray, but for those outside at which every voxel has no weight.
pub(super) fn samples(dims: Dims, view: &RayView, at: [usize; 2], how: Traversal) -> Vec<Sample> {
    let (source, d, length) = ray(view, at);
    let mut all = Vec::new();
    match how {
        Traversal::Trilinear { step, .. } => {
            let dt = step / view.depth();
            let mut j = 1.0;
            while j * dt <= 1.0 + 1e-9 {
                let place = add(source, d, j * dt);
                // All others are 0.
                if (0..3).all(|a| (-1.0..=dims[a] as f64).contains(&place[a])) {
                    all.push(Sample { t: j * dt, of: Of::Place(place), length: dt * length });
                }
                j += 1.0;
            }
        }
        Traversal::Siddon => {
            let mut ends = vec![0.0, 1.0];
            for a in 0..3 {
                for face in 0..=dims[a] {
                    let t = (face as f64 - 0.5 - source[a]) / d[a];
                    if t > 0.0 && t < 1.0 {
                        ends.push(t);
                    }
                }
            }
            ends.sort_by(f64::total_cmp);
            for pair in ends.windows(2) {
                let t = (pair[0] + pair[1]) / 2.0;
                // A voxel has its lower faces.
                let of = Of::Voxel(add(source, d, t).map(|x| (x + 0.5).floor() as i64));
                all.push(Sample { t, of, length: (pair[1] - pair[0]) * length });
            }
        }
        Traversal::Joseph => {
            let axis = longest(d);
            for plane in 0..dims[axis] {
                let t = (plane as f64 - source[axis]) / d[axis];
                if t > 0.0 && t <= 1.0 {
                    let mut place = add(source, d, t);
                    place[axis] = plane as f64;
                    let length = length / d[axis].abs();
                    all.push(Sample { t, of: Of::Place(place), length });
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
        let all = samples(volume.dims, view, pixels.at(i), how);
        let all = all.iter().map(|sample| (volume.value(sample), sample.length));
        match along {
            Along::Integral => all.map(|(value, length)| value * length).sum(),
            Along::Maximum => all.fold(0.0, |most, (value, _)| value.max(most)),
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
            for Sample { t, length, .. } in
                samples(volume.dims, view, at, Traversal::trilinear(step))
            {
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
