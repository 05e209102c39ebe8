//! Inverses of fields.

use voxalign_compute::ops::flow::Inversion;
use voxalign_compute::{Device, Dims};

use super::{field_at, noise, sizes};
use crate::support::{indices, len};

/// Waves along all axes, of an amplitude in voxels.
pub(super) fn waves(dims: Dims, amplitude: f64, length: f64) -> Vec<f32> {
    let wave = |a: usize, at: [usize; 3]| {
        let k = std::f64::consts::TAU / length;
        let [x, y, z] = at.map(|i| i as f64 * k);
        let phase = a as f64;
        let value = (x + phase).sin() * (0.8 * y + 0.5).cos() + (z + 2.0 * phase + 0.3 * x).sin();
        // Nothing moves along an axis of one voxel.
        if dims[a] == 1 { 0.0 } else { (0.5 * amplitude * value) as f32 }
    };
    (0..3).flat_map(|a| indices(dims).map(move |at| wave(a, at))).collect()
}

/// The least and the largest determinant of the derivative.
fn determinants<D: Device>(device: &D, field: &[f32], dims: Dims) -> [f64; 2] {
    let mut out = device.alloc(len(dims)).unwrap();
    device.jacobian_determinant(&device.upload(field).unwrap(), dims, &mut out).unwrap();
    let found = device.into_host(out).unwrap();
    found.iter().fold([f64::MAX, f64::MIN], |[a, b], &d| [a.min(f64::from(d)), b.max(f64::from(d))])
}

/// Inverts, and checks what is said of the result by it.
fn check_inverse<D: Device>(device: &D, field: &[f32], dims: Dims, start: &[f32], all: bool) {
    let how = Inversion { tolerance: 1e-3, iterations: 60 };
    let buffer = device.upload(field).unwrap();
    let mut out = device.upload(start).unwrap();
    let said = device.invert_field(&buffer, dims, how, &mut out).unwrap();
    let w = device.into_host(out).unwrap();
    let n = len(dims);
    let (mut largest, mut unconverged) = (0f64, 0);
    for (i, at) in indices(dims).enumerate() {
        let p = [0, 1, 2].map(|a| at[a] as f64 + f64::from(w[a * n + i]));
        let u = field_at(field, dims, p);
        let r = (0..3).map(|a| (f64::from(w[a * n + i]) + u[a]).powi(2)).sum::<f64>().sqrt();
        largest = largest.max(r);
        unconverged += u64::from(r > how.tolerance);
    }
    assert!((largest - said.largest).abs() <= 1e-4 * largest + 2e-5, "{dims:?} {largest} {said:?}");
    assert!(unconverged.abs_diff(said.unconverged) * 100 <= n as u64, "{unconverged} {said:?}");
    if all {
        assert!(said.unconverged == 0 && said.largest <= 1e-3, "{dims:?} {said:?}");
        // A second time nothing changes.
        let mut again = device.upload(&w).unwrap();
        assert_eq!(device.invert_field(&buffer, dims, how, &mut again).unwrap(), said);
        assert_eq!(device.into_host(again).unwrap(), w);
    }
}

pub(crate) fn inverse_of_waves<D: Device>(device: &D) {
    for dims in sizes() {
        let field = waves(dims, 0.8, 12.0);
        let negative: Vec<f32> = field.iter().map(|u| -u).collect();
        check_inverse(device, &field, dims, &vec![0.0; field.len()], true);
        check_inverse(device, &field, dims, &negative, true);
    }
}

pub(crate) fn inverse_of_large_waves<D: Device>(device: &D) {
    let dims = [45, 38, 27];
    let field = waves(dims, 6.3, 40.0);
    let [least, most] = determinants(device, &field, dims);
    assert!(least > 0.0 && least < 0.3 && most > 2.0 && most < 4.0, "{least} {most}");
    let negative: Vec<f32> = field.iter().map(|u| -u).collect();
    check_inverse(device, &field, dims, &negative, true);
    check_inverse(device, &field, dims, &vec![0.0; field.len()], true);
}

/// Fields without inverse, whose end is said.
pub(crate) fn inverse_of_noise<D: Device>(device: &D) {
    for dims in [[23, 9, 8], [17, 12, 1]] {
        let field = noise(dims, 3, 3.0);
        check_inverse(device, &field, dims, &vec![0.0; field.len()], false);
    }
    let dims = [20, 4, 3];
    let mut field = waves(dims, 0.5, 12.0);
    field[100] = f32::NAN;
    let mut out = device.alloc(field.len()).unwrap();
    let how = Inversion::default();
    let said = device.invert_field(&device.upload(&field).unwrap(), dims, how, &mut out).unwrap();
    assert!(said.largest == f64::INFINITY && said.unconverged > 0, "{said:?}");
    let mut none = device.alloc(3).unwrap();
    let one = device.upload(&[1.0, -2.0, 0.5]).unwrap();
    let said = device.invert_field(&one, [1; 3], how, &mut none).unwrap();
    assert_eq!((said.largest, said.unconverged), (0.0, 0));
    assert_eq!(device.into_host(none).unwrap(), [-1.0, 2.0, -0.5]);
}
