//! Steps of a flow.

use voxalign_compute::ops::flow::{Limit, Step};
use voxalign_compute::{Device, Dims};

use super::{field_at, noise, sizes};
use crate::support::{assert_close, indices, len};

fn advanced(field: &[f32], velocity: &[f32], scale: [f64; 3], dims: Dims) -> Vec<f64> {
    let n = len(dims);
    let mut out = vec![0.0; 3 * n];
    for (i, at) in indices(dims).enumerate() {
        let s = [0, 1, 2].map(|a| scale[a] * f64::from(velocity[a * n + i]));
        let u = field_at(field, dims, [0, 1, 2].map(|a| at[a] as f64 + s[a]));
        for a in 0..3 {
            out[a * n + i] = s[a] + u[a];
        }
    }
    out
}

/// Velocities that are noise, so that all neighbours are needed, and of one sign, small and large.
pub(super) fn velocities(dims: Dims) -> Vec<Vec<f32>> {
    let mut all: Vec<Vec<f32>> = [0.9, 1.0, 3.7, 100.0].map(|size| noise(dims, 7, size)).into();
    for signs in 0..8 {
        let mut one = noise(dims, 8, 0.99);
        for (a, component) in one.chunks_mut(len(dims)).enumerate() {
            let sign = if signs >> a & 1 == 1 { -1.0 } else { 1.0 };
            component.iter_mut().for_each(|v| *v = sign * v.abs());
        }
        all.push(one);
    }
    // Whole voxels, and none.
    all.push(noise(dims, 9, 2.4).iter().map(|v| v.round()).collect());
    all.push(vec![0.0; 3 * len(dims)]);
    all
}

pub(crate) fn advance<D: Device>(device: &D) {
    for dims in sizes() {
        let field = noise(dims, 1, 20.0);
        let buffer = device.upload(&field).unwrap();
        for velocity in velocities(dims) {
            for scale in [[1.0; 3], [0.5, -0.25, 1.0]] {
                let step = Step { scale, limit: None };
                let v = device.upload(&velocity).unwrap();
                let mut out = device.alloc(field.len()).unwrap();
                device.advance(&buffer, &v, &step, dims, &mut out).unwrap();
                let expected = advanced(&field, &velocity, scale, dims);
                let found = device.into_host(out).unwrap();
                assert_close(&format!("advance {dims:?}"), &found, &expected, 2e-4);
            }
        }
    }
}

pub(crate) fn advance_by_a_limit<D: Device>(device: &D) {
    let dims = [19, 6, 5];
    let (field, velocity) = (noise(dims, 1, 5.0), noise(dims, 2, 4.0));
    let (u, v) = (device.upload(&field).unwrap(), device.upload(&velocity).unwrap());
    let scale = [1.0, 0.5, 2.0];
    for (largest, step, most, factor) in [
        (8.0, 1.0, f64::INFINITY, 0.125),
        (8.0, 1.0, 0.1, 0.1),
        (0.25, 0.5, 3.0, 2.0),
        (0.0, 0.5, 3.0, 0.0),
        (0.0, 0.0, f64::INFINITY, 0.0),
        (f64::NAN, 0.5, 3.0, 0.0),
        (f64::INFINITY, 0.5, 3.0, 0.0),
    ] {
        let largest = device.upload(&[3.0, largest, 7.0]).unwrap();
        let limit = Some(Limit { largest: &largest, index: 1, step, most });
        let mut out = device.alloc(field.len()).unwrap();
        device.advance(&u, &v, &Step { scale, limit }, dims, &mut out).unwrap();
        let expected = advanced(&field, &velocity, scale.map(|s| factor * s), dims);
        assert_close("advance by a limit", &device.into_host(out).unwrap(), &expected, 1e-4);
    }
}

/// Nothing is read outside, and other voxels are as they should be.
pub(crate) fn advance_of_what_is_not_finite<D: Device>(device: &D) {
    let dims = [35, 5, 4];
    let field = noise(dims, 1, 5.0);
    let mut velocity = noise(dims, 2, 0.9);
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30];
    for (i, v) in velocity.iter_mut().enumerate().filter(|(i, _)| i % 13 == 5) {
        *v = bad[i % 4];
    }
    let (u, v) = (device.upload(&field).unwrap(), device.upload(&velocity).unwrap());
    let mut out = device.alloc(field.len()).unwrap();
    device.advance(&u, &v, &Step { scale: [1.0; 3], limit: None }, dims, &mut out).unwrap();
    let found = device.into_host(out).unwrap();
    let n = len(dims);
    let expected = advanced(
        &field,
        &velocity.iter().map(|v| v.clamp(-1e6, 1e6)).collect::<Vec<_>>(),
        [1.0; 3],
        dims,
    );
    for i in 0..n {
        for a in 0..3 {
            let (f, s) = (found[a * n + i], velocity[a * n + i]);
            if s.is_nan() {
                assert!(f.is_nan());
            } else if s.abs() > 1e20 {
                assert_eq!(f, s);
            } else if (0..3).all(|b| !velocity[b * n + i].is_nan()) {
                assert!((f64::from(f) - expected[a * n + i]).abs() < 1e-4);
            }
        }
    }
}
