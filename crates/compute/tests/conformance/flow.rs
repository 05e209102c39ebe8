//! Flows of fields against interpolation and differences of each voxel, in `f64`.

use voxalign_compute::ops::flow::{Inversion, Limit, Step};
use voxalign_compute::{Device, DeviceBuffer, Dims};

use crate::support::{
    Random, Results, SIZES, assert_bits_of_cpu, assert_close, indices, len, offset,
};

on_devices!(
    "flow.cu", "force.cu", "halves.cu", "norms.cu";
    advance, advance_by_a_limit, advance_of_what_is_not_finite, force, norms, lengths,
    overshoot, blends, energies, halves,
    inverse_of_waves, inverse_of_large_waves, inverse_of_noise, bits_of_the_cpu, errors;
    same bits: bits
);

/// A vector field of noise.
fn noise(dims: Dims, seed: u64, size: f64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..3 * len(dims)).map(|_| random.between(-size, size) as f32).collect()
}

/// The value at a position, that of the nearest point of the grid outside.
fn value(data: &[f32], dims: Dims, p: [f64; 3]) -> f64 {
    let (mut low, mut f) = ([0; 3], [0.0; 3]);
    for a in 0..3 {
        let q = p[a].clamp(0.0, (dims[a] - 1) as f64);
        low[a] = (q as usize).min(dims[a].saturating_sub(2));
        f[a] = q - low[a] as f64;
    }
    let mut sum = 0.0;
    for corner in 0..8 {
        let (mut at, mut weight) = (low, 1.0);
        for a in 0..3 {
            let upper = corner >> a & 1;
            at[a] = (low[a] + upper).min(dims[a] - 1);
            weight *= if upper == 1 { f[a] } else { 1.0 - f[a] };
        }
        sum += weight * f64::from(data[offset(dims, at)]);
    }
    sum
}

fn field_at(field: &[f32], dims: Dims, p: [f64; 3]) -> [f64; 3] {
    let n = len(dims);
    [0, 1, 2].map(|a| value(&field[a * n..(a + 1) * n], dims, p))
}

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

/// Sizes with rows of several vectors and what is left over.
fn sizes() -> impl Iterator<Item = Dims> {
    SIZES.into_iter().chain([[40, 7, 5], [48, 5, 1], [16, 3, 4], [1, 64, 3]])
}

/// Velocities that are noise, so that all neighbours are needed, and of one sign, small and large.
fn velocities(dims: Dims) -> Vec<Vec<f32>> {
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

fn advance<D: Device>(device: &D) {
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

fn advance_by_a_limit<D: Device>(device: &D) {
    let dims = [19, 6, 5];
    let (field, velocity) = (noise(dims, 1, 5.0), noise(dims, 2, 4.0));
    let (u, v) = (device.upload(&field).unwrap(), device.upload(&velocity).unwrap());
    let scale = [1.0, 0.5, 2.0];
    for (largest, step, only_down, factor) in [
        (8.0, 1.0, false, 0.125),
        (8.0, 1.0, true, 0.125),
        (0.25, 0.5, false, 2.0),
        (0.25, 0.5, true, 1.0),
        (0.0, 0.5, false, 0.0),
        (0.0, 0.5, true, 1.0),
        (0.0, 0.0, true, 0.0),
        (f64::NAN, 0.5, true, 0.0),
        (f64::INFINITY, 0.5, false, 0.0),
    ] {
        let largest = device.upload(&[3.0, largest, 7.0]).unwrap();
        let limit = Some(Limit { largest: &largest, index: 1, step, only_down });
        let mut out = device.alloc(field.len()).unwrap();
        device.advance(&u, &v, &Step { scale, limit }, dims, &mut out).unwrap();
        let expected = advanced(&field, &velocity, scale.map(|s| factor * s), dims);
        assert_close("advance by a limit", &device.into_host(out).unwrap(), &expected, 1e-4);
    }
}

/// Nothing is read outside, and other voxels are as they should be.
fn advance_of_what_is_not_finite<D: Device>(device: &D) {
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

fn force<D: Device>(device: &D) {
    for dims in sizes() {
        let (image, slope) = (Random::new(1).image(dims), Random::new(2).image(dims));
        let wide: Vec<f64> = image.iter().map(|&v| f64::from(v)).collect();
        let spacing = [1.0, -2.5, 0.8];
        let start = noise(dims, 3, 1000.0);
        for add in [false, true] {
            let mut expected = Vec::new();
            for a in 0..3 {
                let differences = difference(&wide, dims, a, spacing[a]);
                expected.extend(differences.iter().zip(&slope).map(|(d, &s)| d * f64::from(s)));
            }
            if add {
                expected.iter_mut().zip(&start).for_each(|(e, &s)| *e += f64::from(s));
            }
            let (s, i) = (device.upload(&slope).unwrap(), device.upload(&image).unwrap());
            let mut out = device.upload(&start).unwrap();
            device.force(&s, &i, dims, spacing, add, &mut out).unwrap();
            let found = device.into_host(out).unwrap();
            assert_close(&format!("force {dims:?} {add}"), &found, &expected, 2e-2);
        }
    }
}

fn norms<D: Device>(device: &D) {
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

fn lengths<D: Device>(device: &D) {
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

fn overshoot<D: Device>(device: &D) {
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

fn blends<D: Device>(device: &D) {
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

fn energies<D: Device>(device: &D) {
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

/// All numbers of half precision, and what lies between them.
fn halves<D: Device>(device: &D) {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let mut singles = device.alloc::<f32>(all.len()).unwrap();
    device.of_half(&device.upload(&all).unwrap(), &mut singles).unwrap();
    let singles = device.into_host(singles).unwrap();
    let expected = |bits: u16| {
        let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let magnitude = match exponent {
            0 => mantissa * 2f64.powi(-24),
            31 if mantissa == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + mantissa / 1024.0) * 2f64.powi(exponent - 15),
        };
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    };
    for &bits in &all {
        let (found, expected) = (f64::from(singles[usize::from(bits)]), expected(bits));
        assert!(found.is_nan() == expected.is_nan(), "{bits:x}: {found}");
        if !found.is_nan() {
            assert_eq!(found.to_bits(), expected.to_bits(), "{bits:x}");
        }
    }
    // The least and the greatest finite number, and those between two numbers.
    let (mut numbers, mut nearest) = (
        vec![f32::MAX, f32::MIN, 1e-40, -0.0, 65519.99, 65520.0],
        vec![0x7c00, 0xfc00, 0, 0x8000, 0x7bff, 0x7c00],
    );
    for bits in 0..0x7bff_u16 {
        let middle = 0.5 * (singles[usize::from(bits)] + singles[usize::from(bits) + 1]);
        numbers.extend([
            singles[usize::from(bits)],
            middle.next_down(),
            middle,
            middle.next_up(),
            -middle,
        ]);
        let even = bits + (bits & 1);
        nearest.extend([bits, bits, even, bits + 1, even | 0x8000]);
    }
    for length in [numbers.len(), 1, 5, 8, 17] {
        let mut out = device.alloc::<u16>(length).unwrap();
        device.to_half(&device.upload(&numbers[..length]).unwrap(), &mut out).unwrap();
        assert!(device.into_host(out).unwrap() == nearest[..length], "halves");
        let mut back = device.alloc::<f32>(length).unwrap();
        device.of_half(&device.upload(&nearest[..length]).unwrap(), &mut back).unwrap();
        let back = device.into_host(back).unwrap();
        assert!(back.iter().zip(&nearest).all(|(&v, &h)| f64::from(v) == expected(h)));
    }
    let mut out = device.alloc::<u16>(1).unwrap();
    device.to_half(&device.upload(&[f32::NAN]).unwrap(), &mut out).unwrap();
    assert_eq!(device.into_host(out).unwrap()[0] & 0x7e00, 0x7e00);
}

/// Waves along all axes, of an amplitude in voxels.
fn waves(dims: Dims, amplitude: f64, length: f64) -> Vec<f32> {
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

fn inverse_of_waves<D: Device>(device: &D) {
    for dims in sizes() {
        let field = waves(dims, 0.8, 12.0);
        let negative: Vec<f32> = field.iter().map(|u| -u).collect();
        check_inverse(device, &field, dims, &vec![0.0; field.len()], true);
        check_inverse(device, &field, dims, &negative, true);
    }
}

fn inverse_of_large_waves<D: Device>(device: &D) {
    let dims = [45, 38, 27];
    let field = waves(dims, 6.3, 40.0);
    let [least, most] = determinants(device, &field, dims);
    assert!(least > 0.0 && least < 0.3 && most > 2.0 && most < 4.0, "{least} {most}");
    let negative: Vec<f32> = field.iter().map(|u| -u).collect();
    check_inverse(device, &field, dims, &negative, true);
    check_inverse(device, &field, dims, &vec![0.0; field.len()], true);
}

/// Fields without inverse, whose end is said.
fn inverse_of_noise<D: Device>(device: &D) {
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

fn errors<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    let image = device.alloc::<f32>(24).unwrap();
    let field = device.alloc::<f32>(72).unwrap();
    let mut out = device.alloc::<f32>(72).unwrap();
    let mut short = device.alloc::<f32>(71).unwrap();
    let step = || Step { scale: [1.0; 3], limit: None };
    assert!(device.advance(&image, &field, &step(), dims, &mut out).is_err());
    assert!(device.advance(&field, &image, &step(), dims, &mut out).is_err());
    assert!(device.advance(&field, &field, &step(), dims, &mut short).is_err());
    assert!(device.advance(&field, &field, &step(), [0, 3, 2], &mut out).is_err());
    let bad = Step { scale: [1.0, f64::NAN, 1.0], limit: None };
    assert!(device.advance(&field, &field, &bad, dims, &mut out).is_err());
    let largest = device.upload(&[1.0, 2.0]).unwrap();
    for (index, step) in [(2, 1.0), (0, f64::INFINITY)] {
        let limit = Some(Limit { largest: &largest, index, step, only_down: true });
        let bad = Step { scale: [1.0; 3], limit };
        assert!(device.advance(&field, &field, &bad, dims, &mut out).is_err());
    }
    for tolerance in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let how = Inversion { tolerance, iterations: 3 };
        assert!(device.invert_field(&field, dims, how, &mut out).is_err());
    }
    assert!(device.invert_field(&image, dims, Inversion::default(), &mut out).is_err());
    assert!(device.invert_field(&field, dims, Inversion::default(), &mut short).is_err());
    for spacing in [[1.0, 0.0, 1.0], [f64::NAN, 1.0, 1.0]] {
        assert!(device.force(&image, &image, dims, spacing, false, &mut out).is_err());
        let mut two = device.alloc::<f64>(2).unwrap();
        assert!(device.field_energies(&field, dims, [1.0; 3], spacing, &mut two).is_err());
    }
    assert!(device.force(&field, &image, dims, [1.0; 3], false, &mut out).is_err());
    assert!(device.force(&image, &field, dims, [1.0; 3], false, &mut out).is_err());
    assert!(device.force(&image, &image, dims, [1.0; 3], true, &mut short).is_err());
    let mut three = device.alloc::<f64>(3).unwrap();
    assert!(device.field_norms(&short, [1.0; 3], &mut three).is_err());
    assert!(device.field_norms(&field, [1.0, f64::NAN, 1.0], &mut three).is_err());
    assert!(device.field_energies(&field, dims, [1.0; 3], [1.0; 3], &mut three).is_err());
    let mut two = device.alloc::<f64>(2).unwrap();
    assert!(device.field_norms(&field, [1.0; 3], &mut two).is_err());
    assert!(device.field_energies(&image, dims, [1.0; 3], [1.0; 3], &mut two).is_err());
    assert!(device.field_lengths(&field, [1.0; 3], &mut out).is_err());
    assert!(device.field_overshoot(&field, dims, &mut out).is_err());
    assert!(device.blend_fields(None, &field, &mut out).is_err());
    assert!(device.blend_fields(Some(&image), &image, &mut out).is_err());
    let mut halves = device.alloc::<u16>(71).unwrap();
    assert!(device.to_half(&field, &mut halves).is_err());
    assert!(device.of_half(&halves, &mut out).is_err());
    assert_eq!(halves.len(), 71);
}

/// Fields and forces are those of the CPU, bit for bit.
fn bits_of_the_cpu<D: Device>(device: &D) {
    fn fields<D: Device>(device: &D) -> Results {
        let of_sums = |name: &str| ["norms", "energies"].iter().any(|sum| name.starts_with(sum));
        let mut results = bits(device);
        // An axis of one voxel may come first or last in sums of three numbers. A factor follows from
        // a norm, which is a sum.
        results.retain(|(name, _)| !of_sums(name) && !(name.starts_with("inverse [1,")));
        results
    }
    assert_bits_of_cpu(device, fields, fields);
}

/// The bits of doubles, as two singles each.
fn doubles(values: &[f64]) -> Vec<f32> {
    let parts = |v: &f64| [v.to_bits() as u32, (v.to_bits() >> 32) as u32];
    values.iter().flat_map(parts).map(f32::from_bits).collect()
}

fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in sizes() {
        let u = device.upload(&noise(dims, 1, 4.0)).unwrap();
        let mut norms = device.alloc(3).unwrap();
        device.field_norms(&u, [1.0, 0.7, 1.3], &mut norms).unwrap();
        results.push((format!("norms {dims:?}"), doubles(&device.download(&norms).unwrap())));
        for (i, velocity) in velocities(dims).iter().enumerate() {
            let limit = Limit { largest: &norms, index: 0, step: 4.0, only_down: true };
            let step = Step { scale: [0.9, 1.0, 0.8], limit: (i % 2 == 1).then_some(limit) };
            let v = device.upload(velocity).unwrap();
            let mut out = device.alloc(velocity.len()).unwrap();
            device.advance(&u, &v, &step, dims, &mut out).unwrap();
            results.push((format!("advance {dims:?} {i}"), device.into_host(out).unwrap()));
        }
        let [slope, image] = [2, 3].map(|s| device.upload(&Random::new(s).image(dims)).unwrap());
        let mut out = device.upload(&noise(dims, 5, 10.0)).unwrap();
        device.force(&slope, &image, dims, [1.0, 2.0, 0.7], true, &mut out).unwrap();
        results.push((format!("force {dims:?}"), device.into_host(out).unwrap()));
        let mut lengths = device.alloc(len(dims)).unwrap();
        device.field_lengths(&u, [1.0, 2.0, 0.7], &mut lengths).unwrap();
        let mut out = device.upload(&noise(dims, 6, 2.0)).unwrap();
        device.blend_fields(Some(&u), &lengths, &mut out).unwrap();
        device.blend_fields(None, &slope, &mut out).unwrap();
        let mut beyond = device.alloc(len(dims)).unwrap();
        device.field_overshoot(&u, dims, &mut beyond).unwrap();
        results.push((format!("overshoot {dims:?}"), device.into_host(beyond).unwrap()));
        results.push((format!("lengths {dims:?}"), device.into_host(lengths).unwrap()));
        results.push((format!("blend {dims:?}"), device.into_host(out).unwrap()));
        let mut two = device.alloc(2).unwrap();
        device.field_energies(&u, dims, [1.0; 3], [1.0, 2.0, 0.7], &mut two).unwrap();
        results.push((format!("energies {dims:?}"), doubles(&device.into_host(two).unwrap())));
        let field = device.upload(&waves(dims, 1.0, 11.0)).unwrap();
        for (field, iterations) in [(&field, 30), (&u, 4)] {
            let mut out = device.alloc(3 * len(dims)).unwrap();
            let how = Inversion { tolerance: 1e-4, iterations };
            let said = device.invert_field(field, dims, how, &mut out).unwrap();
            let name = format!("inverse {dims:?}");
            results.push((name.clone(), device.into_host(out).unwrap()));
            results.push((name, doubles(&[said.largest, said.unconverged as f64])));
        }
    }
    results
}
