//! Resampling of images against interpolation at each point by itself, in `f64`.

use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::resample::{Interpolation, antialias_sigma, downsampled_dims, grid_map};
use voxalign_compute::{AffineMap, Device, Dims, IDENTITY};

use crate::support::{
    Random, Results, SIZES, assert_bits_of_cpu, assert_close, indices, len, offset,
};

pub(crate) mod fields;
pub(crate) mod labels;

const KINDS: [Interpolation; 3] =
    [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic];

const OUTSIDE: f32 = -7.0;

/// Maps from a grid of any size to one of `dims`, with positions inside and outside.
pub(super) fn maps(dims: Dims) -> Vec<AffineMap> {
    let mut random = Random::new(11);
    let mut maps = vec![IDENTITY];
    // Turned, scaled, sheared and flipped; about the middle of the source.
    for size in [0.2, 0.05, 0.8] {
        let mut map = [[0.0; 4]; 3];
        for (a, row) in map.iter_mut().enumerate() {
            for (b, m) in row[..3].iter_mut().enumerate() {
                *m = if a == b { 1.0 } else { 0.0 } + random.between(-size, size);
            }
            row[3] = random.between(-0.4, 0.4) * dims[a] as f64 * size;
        }
        maps.push(map);
    }
    maps[3][0][0] *= -1.0;
    maps[3][0][3] += dims[0] as f64;
    // In the plane only, for flat images.
    maps.push([[0.8, 0.3, 0.0, 0.7], [-0.3, 0.9, 0.0, 1.6], [0.0, 0.0, 1.0, 0.0]]);
    // Large steps.
    maps.push([[3.7, 0.0, 0.1, 0.3], [0.1, -4.1, 0.0, 9.0], [0.0, 0.2, 2.3, -0.2]]);
    maps
}

pub(super) fn position(map: &AffineMap, p: [f64; 3]) -> [f64; 3] {
    map.map(|[x, y, z, offset]| x * p[0] + y * p[1] + z * p[2] + offset)
}

/// Whether a position is so near to a place where the value jumps that rounding decides.
fn is_at_jump(p: [f64; 3], dims: Dims, kind: Interpolation) -> bool {
    const NEAR: f64 = 1e-4;
    (0..3).any(|a| {
        let at_edge = (p[a] + 0.5).abs() < NEAR || (p[a] - dims[a] as f64 + 0.5).abs() < NEAR;
        at_edge
            || (kind == Interpolation::Nearest
                && ((p[a] + 0.5) - (p[a] + 0.5).round()).abs() < NEAR)
    })
}

pub(super) fn is_inside(p: [f64; 3], dims: Dims) -> bool {
    (0..3).all(|a| p[a] >= -0.5 && p[a] <= dims[a] as f64 - 0.5)
}

fn cubic_weight(t: f64) -> f64 {
    let t = t.abs();
    if t < 1.0 {
        2.0 / 3.0 - 0.5 * t * t * (2.0 - t)
    } else if t < 2.0 {
        (2.0 - t).powi(3) / 6.0
    } else {
        0.0
    }
}

fn mirrored(i: i64, n: usize) -> usize {
    let last = n as i64 - 1;
    if last == 0 {
        return 0;
    }
    let i = i.rem_euclid(2 * last);
    i.min(2 * last - i) as usize
}

/// The value of `src` (cubic: of the spline with these coefficients) at a position inside.
fn value(src: &[f64], dims: Dims, p: [f64; 3], kind: Interpolation) -> f64 {
    let p = [0, 1, 2].map(|a| p[a].clamp(0.0, dims[a] as f64 - 1.0));
    let (reach, weight): (i64, &dyn Fn(f64) -> f64) = match kind {
        Interpolation::Nearest => {
            let at = p.map(|p| (p + 0.5).floor() as usize);
            let at = [0, 1, 2].map(|a| at[a].min(dims[a] - 1));
            return src[offset(dims, at)];
        }
        Interpolation::Linear => (1, &|t| (1.0 - t.abs()).max(0.0)),
        _ => (2, &cubic_weight),
    };
    let cell = p.map(|p| p.floor() as i64);
    let mut sum = 0.0;
    for dz in 1 - reach..=reach {
        for dy in 1 - reach..=reach {
            for dx in 1 - reach..=reach {
                let d = [dx, dy, dz];
                let at = [0, 1, 2].map(|a| mirrored(cell[a] + d[a], dims[a]));
                let w: f64 = (0..3).map(|a| weight(p[a] - (cell[a] + d[a]) as f64)).product();
                sum += w * src[offset(dims, at)];
            }
        }
    }
    sum
}

/// Spline coefficients by solving for them, a line at a time.
fn coefficients(src: &[f32], dims: Dims) -> Vec<f64> {
    let mut data: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
    for axis in (0..3).filter(|&a| dims[a] > 1) {
        let n = dims[axis];
        for first in indices(dims).filter(|at| at[axis] == 0) {
            let place = |i: usize| {
                let mut at = first;
                at[axis] = i;
                offset(dims, at)
            };
            let samples: Vec<f64> = (0..n).map(|i| data[place(i)]).collect();
            // Gauss-Seidel on c[i] * 4/6 + (c[i-1] + c[i+1]) / 6 = s[i], mirrored.
            let mut c = samples.clone();
            for _ in 0..80 {
                for i in 0..n {
                    let (a, b) = (mirrored(i as i64 - 1, n), mirrored(i as i64 + 1, n));
                    c[i] = (6.0 * samples[i] - c[a] - c[b]) / 4.0;
                }
            }
            for (i, c) in c.into_iter().enumerate() {
                data[place(i)] = c;
            }
        }
    }
    data
}

/// Compares, except where rounding decides.
fn check(name: &str, found: &[f32], expected: &[Option<f64>], tolerance: f64) {
    let (found, expected): (Vec<f32>, Vec<f64>) =
        found.iter().zip(expected).filter_map(|(&f, e)| e.map(|e| (f, e))).unzip();
    assert_close(name, &found, &expected, tolerance);
}

/// What is expected at a position, unless rounding decides.
fn expected(src: &[f64], dims: Dims, p: [f64; 3], kind: Interpolation) -> Option<f64> {
    if is_at_jump(p, dims, kind) {
        None
    } else if is_inside(p, dims) {
        Some(value(src, dims, p, kind))
    } else {
        Some(f64::from(OUTSIDE))
    }
}

/// The source of each kind for the reference.
fn source(src: &[f32], dims: Dims, kind: Interpolation) -> Vec<f64> {
    match kind {
        Interpolation::Cubic => coefficients(src, dims),
        _ => src.iter().map(|&v| f64::from(v)).collect(),
    }
}

/// Sizes of source and output.
pub(super) fn pairs() -> Vec<(Dims, Dims)> {
    let mut pairs: Vec<(Dims, Dims)> = SIZES.iter().map(|&dims| (dims, dims)).collect();
    pairs.extend([
        ([37, 23, 11], [150, 7, 5]),
        ([4, 3, 2], [70, 5, 3]),
        ([64, 30, 1], [31, 67, 1]),
        // Rows of more than one frame.
        ([290, 4, 3], [530, 9, 2]),
    ]);
    pairs
}

fn warped<D: Device>(
    device: &D,
    src: &[f32],
    dims: Dims,
    map: &AffineMap,
    field: Option<&[f32]>,
    out_dims: Dims,
    kind: Interpolation,
) -> Vec<f32> {
    let src = device.upload(src).unwrap();
    let mut out = device.alloc(len(out_dims)).unwrap();
    match field {
        None => device.warp_affine(&src, dims, map, out_dims, kind, OUTSIDE, &mut out).unwrap(),
        Some(field) => {
            let field = device.upload(field).unwrap();
            device.warp_field(&src, dims, map, &field, out_dims, kind, OUTSIDE, &mut out).unwrap();
        }
    }
    device.into_host(out).unwrap()
}

pub(crate) fn affine<D: Device>(device: &D) {
    for (dims, out_dims) in pairs() {
        let src = Random::new(4).image(dims);
        for map in maps(dims) {
            for kind in KINDS {
                let reference = source(&src, dims, kind);
                let expected: Vec<_> = indices(out_dims)
                    .map(|i| expected(&reference, dims, position(&map, i.map(|i| i as f64)), kind))
                    .collect();
                let found = warped(device, &src, dims, &map, None, out_dims, kind);
                let name = format!("{kind:?} {dims:?} -> {out_dims:?} by {map:?}");
                check(&name, &found, &expected, 0.01);
            }
        }
    }
}

/// Displacements of a few voxels.
pub(super) fn field(dims: Dims, size: f64) -> Vec<f32> {
    let mut random = Random::new(5);
    (0..3 * len(dims)).map(|_| random.between(-size, size) as f32).collect()
}

pub(super) fn displaced(field: &[f32], dims: Dims, at: [usize; 3]) -> [f64; 3] {
    let i = offset(dims, at);
    [0, 1, 2].map(|a| at[a] as f64 + f64::from(field[a * len(dims) + i]))
}

pub(crate) fn by_field<D: Device>(device: &D) {
    for (dims, out_dims) in pairs() {
        let src = Random::new(6).image(dims);
        let mut field = field(out_dims, 2.0);
        if dims[2] == 1 {
            field[2 * len(out_dims)..].fill(0.0);
        }
        for map in maps(dims) {
            for kind in KINDS {
                let reference = source(&src, dims, kind);
                let expected: Vec<_> = indices(out_dims)
                    .map(|i| {
                        let p = position(&map, displaced(&field, out_dims, i));
                        expected(&reference, dims, p, kind)
                    })
                    .collect();
                let found = warped(device, &src, dims, &map, Some(&field), out_dims, kind);
                let name = format!("{kind:?} {dims:?} -> {out_dims:?} by a field and {map:?}");
                check(&name, &found, &expected, 0.01);
            }
        }
    }
}

/// At integer positions the values of the voxels come back, whatever the neighbours are.
pub(crate) fn exact_at_voxels<D: Device>(device: &D) {
    for dims in SIZES {
        let src: Vec<f32> = Random::new(7).image(dims).iter().map(|v| v * 1.234e-3).collect();
        let zero = vec![0.0; 3 * len(dims)];
        for kind in [Interpolation::Nearest, Interpolation::Linear] {
            assert_eq!(warped(device, &src, dims, &IDENTITY, None, dims, kind), src, "{dims:?}");
            assert_eq!(warped(device, &src, dims, &IDENTITY, Some(&zero), dims, kind), src);
        }
        let flip = [0, 1, 2].map(|a| {
            let mut row = [0.0; 4];
            row[a] = -1.0;
            row[3] = dims[a] as f64 - 1.0;
            row
        });
        let mut turned = src.clone();
        turned.reverse();
        assert_eq!(warped(device, &src, dims, &flip, None, dims, Interpolation::Linear), turned);
    }
}

/// Constants stay exactly, and so the mask of the inside is exact.
pub(crate) fn constants_stay<D: Device>(device: &D) {
    for dims in SIZES {
        for map in maps(dims) {
            let src = vec![0.1; len(dims)];
            let field = field(dims, 0.7);
            for field in [None, Some(&field[..])] {
                let found = warped(device, &src, dims, &map, field, dims, Interpolation::Linear);
                assert!(found.iter().all(|&v| v == 0.1 || v == OUTSIDE), "{dims:?} {map:?}");
            }
        }
    }
}

/// Positions far away, huge or not numbers are outside, and nothing is read there.
pub(crate) fn far_positions<D: Device>(device: &D) {
    let dims = [9, 8, 7];
    let src = Random::new(8).image(dims);
    for far in [1e3, 1e9, 1e30, 1e300, -1e3, -1e9, -1e30, -1e300] {
        for axis in 0..3 {
            let mut map = IDENTITY;
            map[axis][3] = far;
            for kind in KINDS {
                let found = warped(device, &src, dims, &map, None, dims, kind);
                assert!(found.iter().all(|&v| v == OUTSIDE));
                let zero = vec![0.0; 3 * len(dims)];
                let found = warped(device, &src, dims, &map, Some(&zero), dims, kind);
                assert!(found.iter().all(|&v| v == OUTSIDE));
            }
            let mut map = IDENTITY;
            map[axis][axis] = far;
            for kind in KINDS {
                let found = warped(device, &src, dims, &map, None, dims, kind);
                for (i, &v) in indices(dims).zip(&found) {
                    let here = src[offset(dims, i)];
                    assert!(if i[axis] == 0 {
                        kind == Interpolation::Cubic || v == here
                    } else {
                        v == OUTSIDE
                    });
                }
            }
        }
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, f32::MAX, f32::MIN] {
        for axis in 0..3 {
            let mut field = vec![0.0; 3 * len(dims)];
            field[axis * len(dims)..(axis + 1) * len(dims)].fill(bad);
            for kind in KINDS {
                let found = warped(device, &src, dims, &IDENTITY, Some(&field), dims, kind);
                assert!(found.iter().all(|&v| v == OUTSIDE), "{bad} {kind:?}");
            }
            let outer = device.upload(&vec![1.0; 3 * len(dims)]).unwrap();
            let inner = device.upload(&field).unwrap();
            let mut out = device.alloc(3 * len(dims)).unwrap();
            device.compose_fields(&outer, dims, &IDENTITY, &inner, dims, &mut out).unwrap();
        }
    }
}

pub(crate) fn prefilter<D: Device>(device: &D) {
    // Among them lines too long for the shared memory of a GPU.
    for dims in SIZES.into_iter().chain([[1800, 2, 3], [3, 1790, 2], [2, 1, 1795]]) {
        let src = Random::new(10).image(dims);
        let mut data = device.upload(&src).unwrap();
        device.bspline_prefilter(&mut data, dims).unwrap();
        let found = device.into_host(data).unwrap();
        assert_close(&format!("{dims:?}"), &found, &coefficients(&src, dims), 2e-3);
        let kind = Interpolation::CubicCoefficients;
        let again = warped(device, &found, dims, &IDENTITY, None, dims, kind);
        let src: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
        assert_close(&format!("{dims:?} through the voxels"), &again, &src, 1e-3);
    }
}

pub(crate) fn resizing<D: Device>(device: &D) {
    for dims in SIZES {
        let src = device.upload(&Random::new(12).image(dims)).unwrap();
        for factors in [[2, 2, 2], [1, 3, 1], [2, 1, 5]] {
            let out_dims = downsampled_dims(dims, factors);
            let map = grid_map(dims, out_dims);
            let mut smooth = device.alloc(len(dims)).unwrap();
            let sigma = antialias_sigma(&map);
            device.gaussian(&src, dims, sigma, GaussianMethod::Recursive, &mut smooth).unwrap();
            let smooth = device.into_host(smooth).unwrap();
            let expected =
                warped(device, &smooth, dims, &map, None, out_dims, Interpolation::Linear);
            let mut out = device.alloc(len(out_dims)).unwrap();
            device.resize(&src, dims, &map, out_dims, OUTSIDE, &mut out).unwrap();
            let out = device.into_host(out).unwrap();
            assert_eq!(out, expected);
            assert!(out.iter().all(|&v| v != OUTSIDE), "the field of view is the same");
        }
    }
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
    assert_bits_of_cpu(device, larger, larger);
}

/// More than 65535 rows, more than the blocks of a GPU along an axis.
pub(crate) fn many_rows<D: Device>(device: &D) {
    let dims = [3, 300, 230];
    let src = Random::new(14).image(dims);
    let zero = vec![0.0; 3 * len(dims)];
    for field in [None, Some(&zero[..])] {
        let found = warped(device, &src, dims, &IDENTITY, field, dims, Interpolation::Linear);
        assert!(found == src);
    }
}

/// Several tiles along each axis, of several slices.
fn larger<D: Device>(device: &D) -> Results {
    let (dims, out_dims) = ([45, 37, 29], [70, 41, 35]);
    let (src, u) = (Random::new(15).image(dims), field(out_dims, 4.0));
    let mut results = Results::new();
    let maps = maps(dims);
    for (map, kind) in maps.iter().zip(KINDS.into_iter().cycle()).skip(1) {
        for field in [None, Some(&u[..])] {
            let name = format!("{kind:?} {map:?}");
            results.push((name, warped(device, &src, dims, map, field, out_dims, kind)));
        }
    }
    let mut data = device.upload(&src).unwrap();
    device.bspline_prefilter(&mut data, dims).unwrap();
    results.push(("prefilter".into(), device.into_host(data).unwrap()));
    results
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    let kind = Interpolation::Linear;
    let src = device.alloc::<f32>(24).unwrap();
    let short = device.alloc::<f32>(23).unwrap();
    let mut out = device.alloc::<f32>(24).unwrap();
    let field = device.alloc::<f32>(72).unwrap();
    let mut bad = IDENTITY;
    bad[1][2] = f64::NAN;
    assert!(device.warp_affine(&src, dims, &bad, dims, kind, 0.0, &mut out).is_err());
    assert!(device.warp_affine(&short, dims, &IDENTITY, dims, kind, 0.0, &mut out).is_err());
    assert!(device.warp_affine(&src, dims, &IDENTITY, [4, 3, 3], kind, 0.0, &mut out).is_err());
    assert!(device.warp_affine(&src, [0, 3, 2], &IDENTITY, dims, kind, 0.0, &mut out).is_err());
    let huge = [1 << 20, 1 << 20, 1 << 20];
    assert!(device.warp_affine(&src, huge, &IDENTITY, dims, kind, 0.0, &mut out).is_err());
    assert!(device.warp_field(&src, dims, &IDENTITY, &src, dims, kind, 0.0, &mut out).is_err());
    assert!(device.warp_field(&src, dims, &bad, &field, dims, kind, 0.0, &mut out).is_err());
    assert!(device.bspline_prefilter(&mut out, [4, 3, 3]).is_err());
    assert!(device.resize(&src, dims, &bad, dims, 0.0, &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for (dims, out_dims) in pairs() {
        let src = Random::new(13).image(dims);
        let u = field(out_dims, 2.0);
        for map in maps(dims) {
            for kind in KINDS {
                for field in [None, Some(&u[..])] {
                    let name = format!("{kind:?} {dims:?} {out_dims:?} {map:?}");
                    results.push((name, warped(device, &src, dims, &map, field, out_dims, kind)));
                }
            }
        }
    }
    results
}
