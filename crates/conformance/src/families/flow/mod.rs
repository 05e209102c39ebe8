//! Flows of fields against interpolation and differences of each voxel, in `f64`.

mod displaced;
mod fields;
mod halves;
mod inverse;
mod steps;

use voxalign_compute::ops::flow::{Inversion, Limit, Step};
use voxalign_compute::{Device, DeviceBuffer, Dims, IDENTITY};

use crate::support::{Random, Results, SIZES, assert_bits_of_cpu, len, offset};
pub(crate) use displaced::{
    force_at, force_at_is_a_derivative, force_at_voxels, force_at_what_is_not_finite,
};
pub(crate) use fields::{blends, energies, force, lengths, norms, overshoot};
pub(crate) use halves::halves;
use inverse::waves;
pub(crate) use inverse::{inverse_of_large_waves, inverse_of_noise, inverse_of_waves};
use steps::velocities;
pub(crate) use steps::{advance, advance_by_a_limit, advance_of_what_is_not_finite};

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

/// Sizes with rows of several vectors and what is left over.
fn sizes() -> impl Iterator<Item = Dims> {
    SIZES.into_iter().chain([[40, 7, 5], [48, 5, 1], [16, 3, 4], [1, 64, 3]])
}

pub(crate) fn errors<D: Device>(device: &D) {
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
        let limit = Some(Limit { largest: &largest, index, step, most: f64::INFINITY });
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
    let units = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    let mut at = |derivative, src, src_dims, map, field, dims, units| {
        device.force_at(derivative, src, src_dims, map, field, dims, units, &mut out)
    };
    assert!(at(&image, &image, dims, &IDENTITY, &field, dims, &units).is_ok());
    assert!(at(&image, &image, [4, 6, 1], &IDENTITY, &field, dims, &units).is_ok());
    assert!(at(&field, &image, dims, &IDENTITY, &field, dims, &units).is_err());
    assert!(at(&image, &field, dims, &IDENTITY, &field, dims, &units).is_err());
    assert!(at(&image, &image, dims, &IDENTITY, &image, dims, &units).is_err());
    assert!(at(&image, &image, [4, 3, 3], &IDENTITY, &field, dims, &units).is_err());
    assert!(at(&image, &image, [4, 6, 0], &IDENTITY, &field, dims, &units).is_err());
    assert!(at(&image, &image, [1 << 20; 3], &IDENTITY, &field, dims, &units).is_err());
    assert!(at(&image, &image, dims, &IDENTITY, &field, [4, 3, 3], &units).is_err());
    assert!(at(&image, &image, dims, &IDENTITY, &field, [4, 0, 6], &units).is_err());
    let mut bad = IDENTITY;
    bad[1][2] = f64::NAN;
    assert!(at(&image, &image, dims, &bad, &field, dims, &units).is_err());
    for unit in [f64::NAN, f64::NEG_INFINITY, 1e39] {
        let wrong = [units[0], units[1], [0.0, unit, 1.0]];
        let units = &wrong;
        assert!(
            device
                .force_at(&image, &image, dims, &IDENTITY, &field, dims, units, &mut out)
                .is_err()
        );
    }
    let at_short =
        device.force_at(&image, &image, dims, &IDENTITY, &field, dims, &units, &mut short);
    assert!(at_short.is_err());
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
    assert!(device.to_single(&halves, &mut out).is_err());
    assert_eq!(halves.len(), 71);
}

/// Fields and forces are those of the CPU, bit for bit.
pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
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

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = displaced::bits(device);
    for dims in sizes() {
        let u = device.upload(&noise(dims, 1, 4.0)).unwrap();
        let mut norms = device.alloc(3).unwrap();
        device.field_norms(&u, [1.0, 0.7, 1.3], &mut norms).unwrap();
        results.push((format!("norms {dims:?}"), doubles(&device.download(&norms).unwrap())));
        for (i, velocity) in velocities(dims).iter().enumerate() {
            let limit = Limit { largest: &norms, index: 0, step: 4.0, most: f64::INFINITY };
            let step = Step { scale: [0.9, 1.0, 0.8], limit: (i % 2 == 1).then_some(limit) };
            let v = device.upload(velocity).unwrap();
            let mut out = device.alloc(velocity.len()).unwrap();
            device.advance(&u, &v, &step, dims, &mut out).unwrap();
            results.push((format!("advance {dims:?} {i}"), device.into_host(out).unwrap()));
        }
        let [derivative, image] =
            [2, 3].map(|s| device.upload(&Random::new(s).image(dims)).unwrap());
        let mut out = device.upload(&noise(dims, 5, 10.0)).unwrap();
        device.force(&derivative, &image, dims, [1.0, 2.0, 0.7], true, &mut out).unwrap();
        results.push((format!("force {dims:?}"), device.into_host(out).unwrap()));
        let mut lengths = device.alloc(len(dims)).unwrap();
        device.field_lengths(&u, [1.0, 2.0, 0.7], &mut lengths).unwrap();
        let mut out = device.upload(&noise(dims, 6, 2.0)).unwrap();
        device.blend_fields(Some(&u), &lengths, &mut out).unwrap();
        device.blend_fields(None, &derivative, &mut out).unwrap();
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
