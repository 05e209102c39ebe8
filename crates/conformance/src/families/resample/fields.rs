//! Composition and resampling of displacement fields.

use voxalign_compute::ops::resample::{Interpolation, grid_map};
use voxalign_compute::{AffineMap, Device, Dims, IDENTITY};

use super::{displaced, field, maps, pairs, position, value};
use crate::support::{Results, assert_bits_of_cpu, assert_close, indices, len};

/// The displacement of a field at a position, that of the nearest point of the grid outside.
fn field_at(field: &[f64], dims: Dims, p: [f64; 3]) -> [f64; 3] {
    let n = len(dims);
    [0, 1, 2].map(|a| value(&field[a * n..(a + 1) * n], dims, p, Interpolation::Linear))
}

fn inverse(m: &AffineMap, u: [f64; 3]) -> [f64; 3] {
    // Cramer's rule.
    let det = |m: [[f64; 3]; 3]| {
        m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1])
            - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0])
            + m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0])
    };
    let linear = m.map(|r| [r[0], r[1], r[2]]);
    [0, 1, 2].map(|c| {
        let mut replaced = linear;
        for r in 0..3 {
            replaced[r][c] = u[r];
        }
        det(replaced) / det(linear)
    })
}

pub(crate) fn composition<D: Device>(device: &D) {
    for (outer_dims, dims) in pairs() {
        let (outer, inner) = (field(outer_dims, 3.0), field(dims, 1.5));
        let wide: Vec<f64> = outer.iter().map(|&v| f64::from(v)).collect();
        for map in maps(outer_dims) {
            let mut expected = vec![0.0; inner.len()];
            for (i, at) in indices(dims).enumerate() {
                let p = displaced(&inner, dims, at);
                let u = inverse(&map, field_at(&wide, outer_dims, position(&map, p)));
                for a in 0..3 {
                    expected[a * len(dims) + i] = p[a] - at[a] as f64 + u[a];
                }
            }
            let (outer, inner) = (device.upload(&outer).unwrap(), device.upload(&inner).unwrap());
            let mut out = device.alloc(3 * len(dims)).unwrap();
            device.compose_fields(&outer, outer_dims, &map, &inner, dims, &mut out).unwrap();
            let out = device.into_host(out).unwrap();
            assert_close(&format!("{outer_dims:?} after {dims:?}"), &out, &expected, 1e-3);
        }
    }
}

pub(crate) fn fields_on_other_grids<D: Device>(device: &D) {
    for (src_dims, dims) in pairs() {
        let src = field(src_dims, 3.0);
        let wide: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
        for map in maps(src_dims).into_iter().chain([grid_map(src_dims, dims)]) {
            let mut expected = vec![0.0; 3 * len(dims)];
            for (i, at) in indices(dims).enumerate() {
                let p = position(&map, at.map(|i| i as f64));
                let u = inverse(&map, field_at(&wide, src_dims, p));
                for a in 0..3 {
                    expected[a * len(dims) + i] = u[a];
                }
            }
            let src = device.upload(&src).unwrap();
            let mut out = device.alloc(3 * len(dims)).unwrap();
            device.resample_field(&src, src_dims, &map, dims, &mut out).unwrap();
            let out = device.into_host(out).unwrap();
            assert_close(&format!("{src_dims:?} on {dims:?}"), &out, &expected, 1e-3);
        }
    }
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    let (src, mut out) = (device.alloc::<f32>(24).unwrap(), device.alloc::<f32>(24).unwrap());
    let (field, mut out_3) = (device.alloc::<f32>(72).unwrap(), device.alloc::<f32>(72).unwrap());
    let flat = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]];
    assert!(device.compose_fields(&field, dims, &flat, &field, dims, &mut out_3).is_err());
    assert!(device.compose_fields(&field, dims, &IDENTITY, &src, dims, &mut out_3).is_err());
    assert!(device.compose_fields(&field, dims, &IDENTITY, &field, dims, &mut out).is_err());
    assert!(device.resample_field(&field, dims, &flat, dims, &mut out_3).is_err());
    assert!(device.resample_field(&field, dims, &IDENTITY, dims, &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for (outer_dims, dims) in pairs().into_iter().chain([([40, 30, 20], [70, 41, 35])]) {
        for map in maps(outer_dims) {
            let outer = device.upload(&field(outer_dims, 3.0)).unwrap();
            let inner = device.upload(&field(dims, 2.0)).unwrap();
            let mut out = device.alloc(3 * len(dims)).unwrap();
            device.compose_fields(&outer, outer_dims, &map, &inner, dims, &mut out).unwrap();
            results.push((format!("{dims:?} {map:?}"), device.into_host(out).unwrap()));
            let mut out = device.alloc(3 * len(dims)).unwrap();
            device.resample_field(&outer, outer_dims, &map, dims, &mut out).unwrap();
            results.push((format!("alone {dims:?} {map:?}"), device.into_host(out).unwrap()));
        }
    }
    results
}
