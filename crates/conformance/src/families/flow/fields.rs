//! Forces, and what is said of fields voxel by voxel and in sums.

use voxalign_compute::{Device, Dims};

use super::{noise, sizes};
use crate::support::{Random, assert_close, indices, len, offset};

/// The difference along an axis.
fn difference(data: &[f64], dims: Dims, axis: usize, spacing: f64) -> Vec<f64> {
    indices(dims)
        .map(|at| {
            let (mut before, mut after) = (at, at);
            before[axis] = at[axis].saturating_sub(1);
            after[axis] = (at[axis] + 1).min(dims[axis] - 1);
            let distance = (after[axis] - before[axis]) as f64 * spacing;
            if distance == 0.0 {
                return 0.0;
            }
            (data[offset(dims, after)] - data[offset(dims, before)]) / distance
        })
        .collect()
}

fn second_difference(data: &[f64], dims: Dims, axis: usize, spacing: f64) -> Vec<f64> {
    indices(dims)
        .map(|at| {
            let (mut before, mut after) = (at, at);
            before[axis] = at[axis].saturating_sub(1);
            after[axis] = (at[axis] + 1).min(dims[axis] - 1);
            let ends = data[offset(dims, after)] + data[offset(dims, before)];
            (ends - 2.0 * data[offset(dims, at)]) / (spacing * spacing)
        })
        .collect()
}

pub(crate) fn force<D: Device>(device: &D) {
    for dims in sizes() {
        let (image, derivative) = (Random::new(1).image(dims), Random::new(2).image(dims));
        let wide: Vec<f64> = image.iter().map(|&v| f64::from(v)).collect();
        let spacing = [1.0, -2.5, 0.8];
        let start = noise(dims, 3, 1000.0);
        for add in [false, true] {
            let mut expected = Vec::new();
            for a in 0..3 {
                let differences = difference(&wide, dims, a, spacing[a]);
                expected
                    .extend(differences.iter().zip(&derivative).map(|(d, &s)| d * f64::from(s)));
            }
            if add {
                expected.iter_mut().zip(&start).for_each(|(e, &s)| *e += f64::from(s));
            }
            let (s, i) = (device.upload(&derivative).unwrap(), device.upload(&image).unwrap());
            let mut out = device.upload(&start).unwrap();
            device.force(&s, &i, dims, spacing, add, &mut out).unwrap();
            let found = device.into_host(out).unwrap();
            assert_close(&format!("force {dims:?} {add}"), &found, &expected, 2e-2);
        }
    }
}

pub(crate) fn norms<D: Device>(device: &D) {
    let of = |field: &[f32], scale: [f64; 3]| {
        let n = field.len() / 3;
        let mut out = [0f64; 3];
        for i in 0..n {
            let square: f64 =
                (0..3).map(|a| (scale[a] * f64::from(field[a * n + i])).powi(2)).sum();
            out = [out[0].max(square.sqrt()), out[1] + square.sqrt(), out[2] + square];
        }
        out
    };
    let run = |field: &[f32], scale| {
        let buffer = device.upload(field).unwrap();
        let mut out = device.upload(&[9.0, 9.0, 9.0]).unwrap();
        device.field_norms(&buffer, scale, &mut out).unwrap();
        device.into_host(out).unwrap()
    };
    for dims in sizes().chain([[100, 101, 3], [211, 97, 31]]) {
        for (scale, size) in
            [([1.0; 3], 3.0), ([0.5, 2.0, -1.0], 3.0), ([1e-30; 3], 1e-12), ([1.0; 3], 1e30)]
        {
            let field = noise(dims, 5, size);
            for (found, expected) in run(&field, scale).iter().zip(of(&field, scale)) {
                assert!((found / expected - 1.0).abs() < 1e-9, "{dims:?}: {found} {expected}");
            }
        }
    }
    assert_eq!(run(&[], [1.0; 3]), [0.0; 3]);
    // The largest anywhere.
    for at in [0, 3, 4095, 4096, 9998] {
        let mut field = vec![0.5; 3 * 9999];
        field[9999 + at] = -70.0;
        assert!((run(&field, [1.0; 3])[0] - (4900.5f64).sqrt()).abs() < 1e-9);
        field[at] = f32::NAN;
        assert!((run(&field, [1.0; 3])[0] - 0.75f64.sqrt()).abs() < 1e-9);
    }
}

pub(crate) fn lengths<D: Device>(device: &D) {
    for dims in sizes() {
        let (field, scale) = (noise(dims, 7, 3.0), [1.0, 0.5, -2.0]);
        let n = len(dims);
        let mut out = device.upload(&vec![9f32; n]).unwrap();
        device.field_lengths(&device.upload(&field).unwrap(), scale, &mut out).unwrap();
        for (i, found) in device.into_host(out).unwrap().into_iter().enumerate() {
            let square: f64 =
                (0..3).map(|a| (scale[a] * f64::from(field[a * n + i])).powi(2)).sum();
            assert!((f64::from(found) - square.sqrt()).abs() < 1e-6 * square.sqrt(), "{dims:?}");
        }
    }
}

pub(crate) fn overshoot<D: Device>(device: &D) {
    for dims in sizes() {
        let (mut field, n) = (noise(dims, 7, 9.0), len(dims));
        // Nearly on the border, and on it.
        field[0] = -1e-5;
        field[n - 1] = 0.0;
        let mut out = device.upload(&vec![9f32; n]).unwrap();
        device.field_overshoot(&device.upload(&field).unwrap(), dims, &mut out).unwrap();
        let found = device.into_host(out).unwrap();
        for (i, at) in indices(dims).enumerate() {
            let away = |a: usize| {
                let p = at[a] as f64 + f64::from(field[a * n + i]);
                p - p.clamp(0.0, (dims[a] - 1) as f64)
            };
            let expected = (0..3).map(|a| away(a).powi(2)).sum::<f64>().sqrt();
            assert!((f64::from(found[i]) - expected).abs() < 1e-5 * expected.max(0.1), "{dims:?}");
        }
        field[n / 2] = f32::NAN;
        let mut out = device.alloc(n).unwrap();
        device.field_overshoot(&device.upload(&field).unwrap(), dims, &mut out).unwrap();
        assert!(device.into_host(out).unwrap()[n / 2].is_nan());
    }
}

pub(crate) fn blends<D: Device>(device: &D) {
    for dims in sizes() {
        let (field, other, n) = (noise(dims, 7, 3.0), noise(dims, 8, 3.0), len(dims));
        let weight = Random::new(9).image(dims);
        let up = |v: &[f32]| device.upload(v).unwrap();
        for to_zero in [false, true] {
            let mut out = up(&field);
            let towards = up(&other);
            let towards = (!to_zero).then_some(&towards);
            device.blend_fields(towards, &up(&weight), &mut out).unwrap();
            for (i, found) in device.into_host(out).unwrap().into_iter().enumerate() {
                let to = if to_zero { 0.0 } else { f64::from(other[i]) };
                let (from, part) = (f64::from(field[i]), f64::from(weight[i % n]));
                let expected = from + part * (to - from);
                let size = (1.0 + part.abs()) * (from.abs() + to.abs());
                assert!((f64::from(found) - expected).abs() < 1e-6 * size, "{dims:?}");
            }
        }
    }
}

pub(crate) fn energies<D: Device>(device: &D) {
    for dims in sizes() {
        let field = noise(dims, 6, 2.0);
        let (scale, spacing) = ([1.0, 0.5, -2.0], [1.0, 0.7, 2.0]);
        let (mut harmonic, mut bending) = (0.0, 0.0);
        for (a, component) in field.chunks(len(dims)).enumerate() {
            let data: Vec<f64> = component.iter().map(|&v| scale[a] * f64::from(v)).collect();
            let squares = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
            for b in 0..3 {
                let first = difference(&data, dims, b, spacing[b]);
                harmonic += squares(&first);
                for c in 0..3 {
                    bending += match b == c {
                        true => squares(&second_difference(&data, dims, b, spacing[b])),
                        false => squares(&difference(&first, dims, c, spacing[c])),
                    };
                }
            }
        }
        let buffer = device.upload(&field).unwrap();
        let mut out = device.alloc::<f64>(2).unwrap();
        device.field_energies(&buffer, dims, scale, spacing, &mut out).unwrap();
        let found = device.into_host(out).unwrap();
        for (found, expected) in found.iter().zip([harmonic, bending]) {
            assert!((found - expected).abs() <= 1e-5 * expected, "{dims:?}: {found} {expected}");
        }
    }
}
