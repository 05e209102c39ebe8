//! Forces where displaced voxels are, against the derivative of the interpolation at each, in `f64`, and against
//! differences of warped images.

use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{AffineMap, Device, Dims, IDENTITY};

use super::value;
use crate::families::resample::{displaced, field, is_inside, maps, pairs, position};
use crate::support::{Random, Results, assert_close, indices, len, offset};

type Units = [[f64; 3]; 3];

/// Units that tell rows from columns.
const UNITS: Units = [[0.7, -0.2, 0.3], [0.1, -1.1, 0.4], [-0.5, 0.6, 0.9]];

/// The grid of an image that is mostly background, with bricks of one value, and one that it is warped to.
const SPARSE: (Dims, Dims) = ([48, 40, 36], [41, 33, 30]);

/// Noise, or within a background for [`SPARSE`].
fn image(dims: Dims, seed: u64) -> Vec<f32> {
    let mut image = Random::new(seed).image(dims);
    if dims == SPARSE.0 {
        for (v, at) in image.iter_mut().zip(indices(dims)) {
            if (0..3).map(|a| (at[a] as f64 - 18.0).powi(2)).sum::<f64>() > 144.0 {
                *v = 3.0;
            }
        }
    }
    image
}

/// Derivatives of an energy.
fn derivative(dims: Dims) -> Vec<f32> {
    let mut random = Random::new(21);
    (0..len(dims)).map(|_| random.between(-1.0, 1.0) as f32).collect()
}

/// Displacements, none out of the plane of a flat image.
fn displacements(dims: Dims, out_dims: Dims) -> Vec<f32> {
    let mut field = field(out_dims, 2.0);
    if dims[2] == 1 {
        field[2 * len(out_dims)..].fill(0.0);
    }
    field
}

fn found<D: Device>(
    device: &D,
    derivative: &[f32],
    (src, dims): (&[f32], Dims),
    map: &AffineMap,
    (field, out_dims): (&[f32], Dims),
    units: &Units,
) -> Vec<f32> {
    let [derivative, src, field] = [derivative, src, field].map(|v| device.upload(v).unwrap());
    let mut out = device.upload(&vec![9.0; 3 * len(out_dims)]).unwrap();
    device.force_at(&derivative, &src, dims, map, &field, out_dims, units, &mut out).unwrap();
    device.into_host(out).unwrap()
}

/// The derivatives along the axes of the interpolation at a position: as it is linear along an axis within a cell,
/// those are the differences of its values at the two ends of the cell.
fn gradient(src: &[f32], dims: Dims, p: [f64; 3]) -> [f64; 3] {
    [0, 1, 2].map(|a| {
        let last = (dims[a] - 1) as f64;
        if !is_inside(p, dims) || last == 0.0 || p[a] < 0.0 || p[a] > last {
            return 0.0;
        }
        let (mut low, mut high) = (p, p);
        low[a] = p[a].floor().min(last - 1.0);
        high[a] = low[a] + 1.0;
        value(src, dims, high) - value(src, dims, low)
    })
}

/// Whether a position is so near to where the derivative jumps that rounding decides.
fn is_at_jump(p: [f64; 3], dims: Dims) -> bool {
    const NEAR: f64 = 1e-4;
    (0..3).any(|a| {
        let n = dims[a] as f64;
        let at_edge = (p[a] + 0.5).abs() < NEAR || (p[a] - n + 0.5).abs() < NEAR;
        at_edge || (dims[a] > 1 && (p[a] - p[a].round()).abs() < NEAR)
    })
}

pub(crate) fn force_at<D: Device>(device: &D) {
    // Positions outside, in the outer half voxel along some axes, and within.
    let mut kinds = [0; 3];
    for (dims, out_dims) in pairs().into_iter().chain([SPARSE]) {
        let (src, derivative) = (image(dims, 22), derivative(out_dims));
        let (field, n) = (displacements(dims, out_dims), len(out_dims));
        for map in maps(dims) {
            let to = (&field[..], out_dims);
            let mut found = found(device, &derivative, (&src, dims), &map, to, &UNITS);
            let mut expected = vec![0.0; 3 * n];
            for (i, at) in indices(out_dims).enumerate() {
                let p = position(&map, displaced(&field, out_dims, at));
                if is_at_jump(p, dims) {
                    (0..3).for_each(|a| found[a * n + i] = 0.0);
                    continue;
                }
                let within = (0..3).all(|a| p[a] >= 0.0 && p[a] <= (dims[a] - 1) as f64);
                kinds[usize::from(is_inside(p, dims)) + usize::from(within)] += 1;
                let g = gradient(&src, dims, p);
                for a in 0..3 {
                    let sum: f64 = (0..3).map(|b| UNITS[b][a] * g[b]).sum();
                    expected[a * n + i] = f64::from(derivative[i]) * sum;
                }
            }
            assert_close(&format!("{dims:?} -> {out_dims:?} by {map:?}"), &found, &expected, 0.01);
        }
    }
    assert!(kinds.iter().all(|&count| count > 10_000), "{kinds:?}");
}

/// The part of space, between kinks and jumps of the interpolation, that a position is in: along each axis a cell, the
/// outer half voxel before or after all of them, or what is beyond.
fn part(p: [f64; 3], dims: Dims) -> [i64; 3] {
    [0, 1, 2].map(|a| {
        let n = dims[a] as f64;
        if p[a] < -0.5 {
            -2
        } else if p[a] > n - 0.5 {
            dims[a] as i64
        } else if dims[a] == 1 {
            0
        } else {
            p[a].floor().clamp(-1.0, n - 1.0) as i64
        }
    })
}

/// With the linear part of the map as units the force is the derivative of the warped image by the displacement. Within a
/// cell that is a cubic polynomial along any line, of which differences over two distances give the very derivative.
pub(crate) fn force_at_is_a_derivative<D: Device>(device: &D) {
    const STEP: f32 = 1.0 / 16.0;
    let outside = 400.0;
    let (mut checked, mut changing, mut all) = (0, 0, 0);
    let grids = [([37, 23, 11], [40, 25, 9]), ([64, 30, 1], [31, 37, 1]), ([5, 1, 35], [9, 3, 30])];
    for (dims, out_dims) in grids {
        let (src, field) = (image(dims, 23), displacements(dims, out_dims));
        let (n, on_device) = (len(out_dims), device.upload(&src).unwrap());
        let warped = |map: &AffineMap, field: &[f32]| {
            let field = device.upload(field).unwrap();
            let mut out = device.alloc(n).unwrap();
            let kind = Interpolation::Linear;
            device
                .warp_field(&on_device, dims, map, &field, out_dims, kind, outside, &mut out)
                .unwrap();
            device.into_host(out).unwrap()
        };
        for map in maps(dims) {
            let units = map.map(|[x, y, z, _]| [x, y, z]);
            let to = (&field[..], out_dims);
            let force = found(device, &vec![1.0; n], (&src, dims), &map, to, &units);
            for a in 0..3 {
                let moved = [-2.0, -1.0, 1.0, 2.0].map(|steps| {
                    let mut field = field.clone();
                    field[a * n..][..n].iter_mut().for_each(|u| *u += steps * STEP);
                    field
                });
                let values = [0, 1, 2, 3].map(|k| warped(&map, &moved[k]));
                for (i, at) in indices(out_dims).enumerate() {
                    let p = [0, 3].map(|k| position(&map, displaced(&moved[k], out_dims, at)));
                    all += 1;
                    if p.iter().any(|&p| is_at_jump(p, dims))
                        || part(p[0], dims) != part(p[1], dims)
                    {
                        continue;
                    }
                    let v = [0, 1, 2, 3].map(|k| f64::from(values[k][i]));
                    let difference =
                        (8.0 * (v[2] - v[1]) - (v[3] - v[0])) / (12.0 * f64::from(STEP));
                    let force = f64::from(force[a * n + i]);
                    assert!(
                        (force - difference).abs() < 0.02,
                        "{dims:?} by {map:?}, {at:?} along {a}: {force}, differences {difference}"
                    );
                    checked += 1;
                    changing += usize::from(difference.abs() > 1.0);
                }
            }
        }
    }
    assert!(checked > all / 4 && changing > all / 10, "{changing} of {checked} of {all}");
}

/// At a voxel it is the derivative towards the next one, at the last one that from the voxel before.
pub(crate) fn force_at_voxels<D: Device>(device: &D) {
    for (dims, _) in pairs() {
        let (src, derivative, n) = (image(dims, 24), derivative(dims), len(dims));
        let zero = vec![0.0; 3 * n];
        let mut units = Units::default();
        for b in 0..3 {
            // The derivative along one axis in each component, times its number.
            units = units.map(|_| [0.0; 3]);
            units[b] = [1.0, 2.0, 4.0];
            let to = (&zero[..], dims);
            let found = found(device, &derivative, (&src, dims), &IDENTITY, to, &units);
            for (i, at) in indices(dims).enumerate() {
                let (mut low, mut high) = (at, at);
                low[b] = at[b].min(dims[b].saturating_sub(2));
                high[b] = (low[b] + 1).min(dims[b] - 1);
                let force = derivative[i] * (src[offset(dims, high)] - src[offset(dims, low)]);
                let forces = [0, 1, 2].map(|a| found[a * n + i]);
                assert_eq!(forces, [force, 2.0 * force, 4.0 * force], "{dims:?} {at:?} along {b}");
            }
        }
    }
}

/// Displacements that are not finite, or far away, give no force, and leave others as they are.
pub(crate) fn force_at_what_is_not_finite<D: Device>(device: &D) {
    let dims = [35, 8, 7];
    let (src, derivative, n) = (image(dims, 25), derivative(dims), len(dims));
    let field = displacements(dims, dims);
    let mut damaged = field.clone();
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, f32::MAX, -1e9];
    for (k, u) in damaged.iter_mut().enumerate().filter(|(k, _)| k % 13 == 5) {
        *u = bad[k % 6];
    }
    let of =
        |field| found(device, &derivative, (&src, dims), &maps(dims)[1], (field, dims), &UNITS);
    let (whole, found) = (of(&field), of(&damaged));
    for i in 0..n {
        let is_damaged = (0..3).any(|a| (a * n + i) % 13 == 5);
        for a in 0..3 {
            let expected = if is_damaged { 0.0 } else { whole[a * n + i] };
            assert_eq!(found[a * n + i], expected, "component {a} of voxel {i}");
        }
    }
    assert!(whole.iter().filter(|&&force| force != 0.0).count() > n);
}

pub(super) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    // The last has several tasks.
    for (dims, out_dims) in pairs().into_iter().chain([SPARSE, ([45, 37, 29], [70, 41, 35])]) {
        let (src, derivative) = (image(dims, 26), derivative(out_dims));
        let field = displacements(dims, out_dims);
        for map in maps(dims) {
            let to = (&field[..], out_dims);
            let found = found(device, &derivative, (&src, dims), &map, to, &UNITS);
            results.push((format!("force at {dims:?} {out_dims:?} {map:?}"), found));
        }
    }
    results
}
