//! The adjoint, from the samples of rays, and how far single precision may be off.

use super::reference::{Of, Point, Sample, Volume, corners, inside, ray, samples};
use crate::support::len;
use voxalign_compute::ops::raycast::{Along, Pixels, RayView, Traversal, adjoint_units};
use voxalign_compute::{Device, Dims};

/// What a number is rounded by in single precision, of 1.
const ROUNDED: f64 = 1.0 / (1 << 24) as f64;
/// Roundings of a sample's weight: those of its parts (3) and their products (2), of the length of a step (six coefficients, six
/// operations, a root), and one to spare.
const OF_WEIGHTS: f64 = 16.0 * ROUNDED;
/// Roundings of the number of steps at which a ray meets a plane: a difference, an inverse, which some devices round to two units, and a
/// product.
const OF_CROSSINGS: f64 = 8.0 * ROUNDED;

/// Where the places of a view are numbers of few binary digits, single precision has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Places {
    Exact,
    Rounded,
}

/// Rays with weights.
#[derive(Clone, Copy)]
pub(super) struct Rays<'a> {
    pub(super) views: &'a [RayView],
    pub(super) pixels: &'a Pixels,
    pub(super) how: Traversal,
    pub(super) weights: &'a [f32],
}

/// A volume of sums over rays, and bounds for it.
struct Adjoint {
    /// The sums.
    values: Vec<f64>,
    /// How far each may be off where a device sums in fixed point and gives single precision.
    bounds: Vec<f64>,
    /// How far ⟨A x, w⟩ and ⟨x, Aᵀ w⟩ of one device may be apart, both of the same numbers of views: what is rounded is so for each
    /// ray by itself, and at the end for each voxel, so that squares add up.
    product: f64,
}

/// The largest sum of magnitudes over the axes of `a + u b + v c`.
fn magnitude(of: [[f32; 3]; 3], [u, v]: [f64; 2]) -> f64 {
    let along = |a: usize| {
        let [origin, column, row] = [0, 1, 2].map(|i| f64::from(of[i][a].abs()));
        origin + u * column + v * row
    };
    along(0).max(along(1)).max(along(2))
}

/// What the sums of rays are made of, each for all voxels: the sums, bounds of roundings, magnitudes and those of derivatives in
/// places.
#[derive(Clone, Copy, Default)]
struct Sums {
    value: f64,
    bound: f64,
    size: f64,
    derivative: f64,
}

impl Adjoint {
    fn new(Volume { values, dims }: &Volume<'_>, rays: Rays<'_>, places: Places) -> Self {
        let Rays { views, pixels, how, weights } = rays;
        let (n, dims) = (len(*dims), *dims);
        let mut sums = vec![Sums::default(); n];
        let mut squares = 0.0;
        let frames: Vec<_> = views.iter().map(|view| view.frame(dims, how).unwrap()).collect();
        let most = weights.iter().fold(0.0f32, |most, w| most.max(w.abs()));
        let half_a_unit = 0.5 / adjoint_units(most, &frames, pixels);
        let size = dims.iter().max().map_or(1.0, |&n| n as f64) + 2.0;
        for (number, &weight) in weights.iter().enumerate() {
            let (view, frame) = (&views[number / pixels.len()], &frames[number / pixels.len()]);
            let at = pixels.at(number % pixels.len());
            let (_, d, length) = ray(view, at);
            let (dt, first) = match how {
                Traversal::Trilinear { step, .. } => (step / view.depth(), 1.0),
                Traversal::Siddon | Traversal::Joseph => (1.0 / 1024.0, 0.0),
            };
            // The number of steps from the middle to a place of the ray.
            let steps = |t: f64| (t / dt + f64::from(frame.range[0]) - first).abs();
            let pixel = at.map(|x| x as f64);
            let (place, step) = (magnitude(frame.place, pixel), magnitude(frame.step, pixel));
            // How far places may be off, voxels: the numbers of the frame are rounded, and so are their products and sums.
            let off = |t: f64| match places {
                Places::Exact => 0.0,
                Places::Rounded => ROUNDED * (3.0 * place + 3.0 * steps(t) * step + 2.0 * size),
            };
            // How far the place at which a plane is met may be off, as part of the ray.
            let moved = |t: f64| OF_CROSSINGS * steps(t) * dt;
            let farthest = d.iter().map(|d| d.abs()).sum::<f64>();
            let all = samples(dims, view, at, how);
            let weight = f64::from(weight);
            let mut of_ray = 0.0;
            let mut add = |voxel: usize, part: Sums| {
                let Sums { value, bound, size, derivative } = part;
                let sum = &mut sums[voxel];
                *sum = Sums {
                    value: sum.value + weight * value,
                    bound: sum.bound + weight.abs() * bound,
                    size: sum.size + weight.abs() * size,
                    derivative: sum.derivative + weight.abs() * derivative,
                };
                // Both ways, and what is rounded as values are interpolated and added up along the ray.
                let along = ROUNDED * ((all.len() + 8) as f64 * size + 4.0 * derivative);
                of_ray += f64::from(values[voxel].abs()) * weight.abs() * (2.0 * bound + along);
            };
            for &Sample { t, of, length } in &all {
                match of {
                    Of::Place(x) => {
                        let off = match how {
                            Traversal::Joseph => 2.0 * off(t) + moved(t) * farthest,
                            _ => off(t),
                        };
                        for (voxel, part, derivative) in corners(x) {
                            let Some(voxel) = inside(dims, voxel) else { continue };
                            let derivative =
                                derivative.iter().map(|s| s.abs()).sum::<f64>() * length;
                            let size = length * part;
                            let bound = OF_WEIGHTS * size + off * derivative;
                            add(voxel, Sums { value: size, bound, size, derivative });
                        }
                    }
                    Of::Voxel(voxel) => {
                        let Some(voxel) = inside(dims, voxel) else { continue };
                        let bound = OF_WEIGHTS * length;
                        add(voxel, Sums { value: length, bound, size: length, derivative: 0.0 });
                    }
                }
            }
            if how == Traversal::Siddon {
                for (voxel, part) in crossings(dims, &all, (d, length), &off, &moved) {
                    add(voxel, Sums { bound: length * part, ..Sums::default() });
                }
            }
            let touched = 8.0 * all.len() as f64;
            squares += (of_ray + touched * half_a_unit).powi(2);
        }
        // Of each voxel in fixed point and then in single precision.
        let touched = 8.0 * size * weights.len() as f64;
        let last = |sum: &Sums| ROUNDED * sum.value.abs();
        let bound = |sum: &Sums| sum.bound + touched * half_a_unit + last(sum);
        squares +=
            sums.iter().zip(*values).map(|(s, x)| (last(s) * f64::from(*x)).powi(2)).sum::<f64>();
        Self {
            values: sums.iter().map(|sum| sum.value).collect(),
            bounds: sums.iter().map(bound).collect(),
            product: squares.sqrt(),
        }
    }
}

/// For the voxels at both sides of each face that a ray meets, by how much of the ray that may be off: because of the place along
/// the axis across the face, and because of the number of steps.
fn crossings(
    dims: Dims,
    all: &[Sample],
    (d, length): (Point, f64),
    off: &dyn Fn(f64) -> f64,
    moved: &dyn Fn(f64) -> f64,
) -> Vec<(usize, f64)> {
    let mut found = Vec::new();
    for pair in all.windows(2) {
        let [Of::Voxel(a), Of::Voxel(b)] = [pair[0].of, pair[1].of] else { continue };
        let t = pair[0].t + 0.5 * pair[0].length / length;
        // At an edge or a corner they differ along several axes.
        let by = (0..3).filter(|&axis| a[axis] != b[axis]).map(|axis| off(t) / d[axis].abs());
        let by = by.fold(0.0, f64::max) + moved(t);
        for voxel in [a, b] {
            found.extend(inside(dims, voxel).map(|voxel| (voxel, by)));
        }
    }
    found
}

/// Checks the sum for every voxel, and that ⟨A x, w⟩ = ⟨x, Aᵀ w⟩ of what the device makes of both.
pub(super) fn check<D: Device>(device: &D, volume: &Volume<'_>, rays: Rays<'_>, places: Places) {
    let Rays { views, pixels, how, weights } = rays;
    let (values, dims) = (volume.values, volume.dims);
    let expected = Adjoint::new(volume, rays, places);
    let mut out = device.alloc(len(dims)).unwrap();
    let on_device = device.upload(weights).unwrap();
    device.backproject(&on_device, views, pixels, how, dims, &mut out).unwrap();
    let back = device.into_host(out).unwrap();
    let name = format!("{}: {dims:?} {how:?}", device.name());
    for (i, (&found, value)) in back.iter().zip(&expected.values).enumerate() {
        let (off, bound) = ((f64::from(found) - value).abs(), expected.bounds[i]);
        assert!(off <= bound, "{name} voxel {i}: {found} {value}, off by {off:e} of {bound:e}");
    }
    let image = super::found(device, (values, dims), views, pixels, how, Along::Integral);
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let [ahead, behind] = [dot(weights, &image), dot(values, &back)];
    let (off, bound) = ((ahead - behind).abs(), expected.product);
    assert!(off <= bound, "{name}: {ahead} {behind}, off by {off:e} of {bound:e}");
}
