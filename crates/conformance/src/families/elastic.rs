//! The elastic operator against its definition, one voxel at a time, in `f64`.

use std::f64::consts::{PI, TAU};

use voxalign_compute::ops::elastic::{Boundary, ElasticOperator};
use voxalign_compute::ops::fourier::spectrum_len;
use voxalign_compute::{Device, Dims};

use crate::support::{
    Random, Results, SIZES, assert_bits_of_cpu, assert_close, indices, len, offset,
};

/// Both boundaries, with and without coupled components.
fn operators() -> Vec<ElasticOperator> {
    let mut list = Vec::new();
    for boundary in [Boundary::Zero, Boundary::Periodic] {
        for (beta, spacing) in [(0.0, [1.0; 3]), (0.0, [0.8, 1.3, 2.1]), (0.5, [0.9, 1.0, 1.4])] {
            list.push(ElasticOperator { alpha: 0.3, beta, gamma: 0.05, spacing, boundary });
        }
    }
    list
}

/// Sizes with several tiles, of even ones too.
fn sizes() -> impl Iterator<Item = Dims> {
    SIZES.into_iter().chain([[4, 6, 2], [64, 14, 8], [66, 28, 7], [130, 13, 38]])
}

fn field(dims: Dims, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..3 * len(dims)).map(|_| random.between(-2.0, 2.0) as f32).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// `L v` of one component at one voxel.
fn at(op: &ElasticOperator, v: &[f64], dims: Dims, own: usize, here: [usize; 3]) -> f64 {
    let n = len(dims);
    let value = |component: usize, steps: [i64; 3]| -> f64 {
        let mut place = [0; 3];
        for axis in 0..3 {
            let (size, i) = (dims[axis] as i64, here[axis] as i64 + steps[axis]);
            match op.boundary {
                Boundary::Zero if i < 0 || i >= size => return 0.0,
                _ => place[axis] = i.rem_euclid(size) as usize,
            }
        }
        v[component * n + offset(dims, place)]
    };
    let step = |axis: usize, by: i64| {
        let mut steps = [0; 3];
        steps[axis] = by;
        steps
    };
    let second = |axis: usize| {
        let h2 = op.spacing[axis].powi(2);
        let around = value(own, step(axis, -1)) + value(own, step(axis, 1));
        if dims[axis] == 1 { 0.0 } else { (around - 2.0 * value(own, [0; 3])) / h2 }
    };
    let mixed = |b: usize| {
        let mut sum = 0.0;
        for (p, q) in [(1, 1), (-1, -1), (1, -1), (-1, 1)] {
            let mut steps = [0; 3];
            steps[own] = p;
            steps[b] = q;
            sum += (p * q) as f64 * value(b, steps);
        }
        let flat = dims[own] == 1 || dims[b] == 1;
        if flat { 0.0 } else { sum / (4.0 * op.spacing[own] * op.spacing[b]) }
    };
    let mut result = op.gamma * value(own, [0; 3]) - op.beta * second(own);
    for axis in 0..3 {
        result -= op.alpha * second(axis);
        if axis != own {
            result -= op.beta * mixed(axis);
        }
    }
    result
}

fn expected_product(op: &ElasticOperator, v: &[f64], dims: Dims) -> Vec<f64> {
    (0..3).flat_map(|own| indices(dims).map(move |i| at(op, v, dims, own, i))).collect()
}

fn diagonal(op: &ElasticOperator, dims: Dims, own: usize) -> f64 {
    let weight = |a: usize| op.alpha + if a == own { op.beta } else { 0.0 };
    let axes = (0..3).filter(|&a| dims[a] > 1);
    op.gamma + axes.map(|a| 2.0 * weight(a) / op.spacing[a].powi(2)).sum::<f64>()
}

fn expected_sweep(op: &ElasticOperator, omega: f64, f: &[f64], v: &[f64], dims: Dims) -> Vec<f64> {
    let (mut v, n) = (v.to_vec(), len(dims));
    for colour in 0..2 {
        for own in 0..3 {
            let before = v.clone();
            for i in indices(dims).filter(|i| i.iter().sum::<usize>() % 2 == colour) {
                let k = own * n + offset(dims, i);
                let residual = f[k] - at(op, &before, dims, own, i);
                v[k] += omega / diagonal(op, dims, own) * residual;
            }
        }
    }
    v
}

fn found_product<D: Device>(device: &D, op: &ElasticOperator, v: &[f32], dims: Dims) -> Vec<f32> {
    let v = device.upload(v).unwrap();
    let mut out = device.alloc(3 * len(dims)).unwrap();
    device.elastic_product(op, &v, dims, &mut out).unwrap();
    device.into_host(out).unwrap()
}

fn found_residual<D: Device>(
    device: &D,
    op: &ElasticOperator,
    [f, v]: [&[f32]; 2],
    dims: Dims,
) -> Vec<f32> {
    let (f, v) = (device.upload(f).unwrap(), device.upload(v).unwrap());
    let mut out = device.alloc(3 * len(dims)).unwrap();
    device.elastic_residual(op, &f, &v, dims, &mut out).unwrap();
    device.into_host(out).unwrap()
}

fn found_sweep<D: Device>(
    device: &D,
    op: &ElasticOperator,
    omega: f64,
    [f, v]: [&[f32]; 2],
    dims: Dims,
) -> Vec<f32> {
    let (f, v) = (device.upload(f).unwrap(), device.upload(v).unwrap());
    let mut out = device.alloc(3 * len(dims)).unwrap();
    device.elastic_sweep(op, omega, &f, &v, dims, &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn product<D: Device>(device: &D) {
    for dims in sizes() {
        let v = field(dims, 41);
        for op in operators() {
            let expected = expected_product(&op, &wide(&v), dims);
            let found = found_product(device, &op, &v, dims);
            assert_close(&format!("product {dims:?} {op:?}"), &found, &expected, 1e-5);
        }
    }
}

pub(crate) fn residual<D: Device>(device: &D) {
    for dims in sizes() {
        let (f, v) = (field(dims, 42), field(dims, 43));
        for op in operators() {
            let product = expected_product(&op, &wide(&v), dims);
            let expected: Vec<f64> = wide(&f).iter().zip(product).map(|(f, p)| f - p).collect();
            let found = found_residual(device, &op, [&f, &v], dims);
            assert_close(&format!("residual {dims:?} {op:?}"), &found, &expected, 1e-5);
        }
    }
}

pub(crate) fn sweep<D: Device>(device: &D) {
    for dims in sizes() {
        let (f, v) = (field(dims, 44), field(dims, 45));
        for op in operators() {
            for omega in [0.9, op.relaxation(dims)] {
                let expected = expected_sweep(&op, omega, &wide(&f), &wide(&v), dims);
                let found = found_sweep(device, &op, omega, [&f, &v], dims);
                let name = format!("sweep {dims:?} {omega} {op:?}");
                assert_close(&name, &found, &expected, 1e-5);
            }
        }
    }
}

/// Sweeps end at the solution; with the best factor sooner than with 1.
pub(crate) fn sweeps_converge<D: Device>(device: &D) {
    let dims = [8, 6, 4];
    for op in operators() {
        // With what is constant, which takes the longest.
        let f: Vec<f32> = field(dims, 46).iter().map(|v| v + 3.0).collect();
        let norm = |v: &[f32]| v.iter().map(|&r| f64::from(r).powi(2)).sum::<f64>().sqrt();
        let needed = |omega: f64| {
            let mut v = vec![0.0; f.len()];
            for sweeps in 0..400 {
                if norm(&found_residual(device, &op, [&f, &v], dims)) < 1e-3 * norm(&f) {
                    return sweeps;
                }
                v = found_sweep(device, &op, omega, [&f, &v], dims);
            }
            400
        };
        let (best, plain) = (needed(op.relaxation(dims)), needed(1.0));
        assert!(3 * best < 2 * plain, "{op:?}: {best} sweeps, and {plain} with a factor of 1");
    }
}

/// What is multiplied by the symbol of the operator and then by its inverse is as before.
pub(crate) fn symbol<D: Device>(device: &D) {
    for dims in sizes() {
        let v = field(dims, 47);
        for op in operators().into_iter().filter(|op| op.boundary == Boundary::Periodic) {
            let f = found_product(device, &op, &v, dims);
            let mut spectra = device.alloc(3 * spectrum_len(dims).unwrap()).unwrap();
            device.forward(&device.upload(&f).unwrap(), dims, &mut spectra).unwrap();
            device.elastic_symbol(&op, &mut spectra, dims).unwrap();
            let mut out = device.alloc(v.len()).unwrap();
            device.inverse(&mut spectra, dims, &mut out).unwrap();
            let found = device.into_host(out).unwrap();
            // Rounding of the product counts 1 / gamma times in what is constant.
            assert_close(&format!("symbol {dims:?} {op:?}"), &found, &wide(&v), 1e-4);
            // The norm of the transforms may be the operator's.
            let mut spectra = device.alloc(3 * spectrum_len(dims).unwrap()).unwrap();
            device.forward(&device.upload(&f).unwrap(), dims, &mut spectra).unwrap();
            device.elastic_symbol(&op.times(len(dims) as f64), &mut spectra, dims).unwrap();
            let mut out = device.alloc(v.len()).unwrap();
            device.inverse_sum(&mut spectra, dims, &mut out).unwrap();
            let found = device.into_host(out).unwrap();
            assert_close(&format!("sum {dims:?} {op:?}"), &found, &wide(&v), 1e-4);
        }
    }
    // Its matrix is that of the operator on waves.
    let dims = [6, 5, 4];
    let op = ElasticOperator { spacing: [0.9, 1.0, 1.4], ..operators()[5] };
    for k in indices([4, 5, 4]) {
        let angle = [0, 1, 2].map(|a| TAU * k[a] as f64 / dims[a] as f64);
        let mut matrix = [[0.0; 3]; 3];
        for a in 0..3 {
            for b in 0..3 {
                let second = |a: usize| (2.0 - 2.0 * angle[a].cos()) / op.spacing[a].powi(2);
                let central = |a: usize| angle[a].sin() / op.spacing[a];
                matrix[a][b] = if a == b {
                    op.gamma + op.alpha * (second(0) + second(1) + second(2)) + op.beta * second(a)
                } else {
                    op.beta * central(a) * central(b)
                };
            }
        }
        let (u, n) = ([[0.3, -1.0], [2.0, 0.7], [-0.4, 0.1]], spectrum_len(dims).unwrap());
        let mut spectra = vec![0f32; 3 * n];
        let at = 2 * offset([4, 5, 4], k);
        for c in 0..3 {
            for part in 0..2 {
                let sum: f64 = (0..3).map(|b| matrix[c][b] * u[b][part]).sum();
                spectra[c * n + at + part] = sum as f32;
            }
        }
        let mut buffer = device.upload(&spectra).unwrap();
        device.elastic_symbol(&op, &mut buffer, dims).unwrap();
        let found = device.into_host(buffer).unwrap();
        for c in 0..3 {
            assert_close(&format!("{k:?}"), &found[c * n + at..][..2], &u[c], 1e-5);
        }
    }
}

/// As for the symbol, with sines.
pub(crate) fn eigenvalues<D: Device>(device: &D) {
    for dims in sizes() {
        let v = field(dims, 48);
        for op in operators().into_iter().filter(|op| op.boundary == Boundary::Zero) {
            if op.beta > 0.0 {
                continue;
            }
            let mut f = device.upload(&found_product(device, &op, &v, dims)).unwrap();
            device.sine(&mut f, dims).unwrap();
            device.elastic_eigenvalues(&op, &mut f, dims).unwrap();
            device.sine(&mut f, dims).unwrap();
            let found = device.into_host(f).unwrap();
            assert_close(&format!("eigenvalues {dims:?} {op:?}"), &found, &wide(&v), 1e-4);
        }
    }
    let (dims, op) = ([5, 4, 1], operators()[1]);
    let mut ones = device.upload(&[1f32; 60]).unwrap();
    device.elastic_eigenvalues(&op, &mut ones, dims).unwrap();
    let expected: Vec<f64> = (0..3)
        .flat_map(|_| indices(dims))
        .map(|k| {
            let along = |a: usize| {
                let angle = PI * (k[a] + 1) as f64 / (dims[a] + 1) as f64;
                (2.0 - 2.0 * angle.cos()) / op.spacing[a].powi(2)
            };
            1.0 / (op.gamma + op.alpha * (along(0) + along(1)))
        })
        .collect();
    assert_close("eigenvalues", &device.into_host(ones).unwrap(), &expected, 1e-5);
}

/// Differences are in the same order as on the CPU.
pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, differences, differences);
}

fn differences<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in sizes().chain([[70, 41, 35]]) {
        let (f, v) = (field(dims, 49), field(dims, 50));
        for op in operators() {
            let name = format!("{dims:?} {op:?}");
            results.push((format!("product {name}"), found_product(device, &op, &v, dims)));
            let residual = found_residual(device, &op, [&f, &v], dims);
            results.push((format!("residual {name}"), residual));
            let omega = op.relaxation(dims);
            let sweep = found_sweep(device, &op, omega, [&f, &v], dims);
            results.push((format!("sweep {name}"), sweep));
        }
    }
    results
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = differences(device);
    for dims in sizes() {
        for op in operators() {
            if op.boundary == Boundary::Periodic {
                let spectra: Vec<f32> = field([spectrum_len(dims).unwrap(), 1, 1], 51);
                let mut spectra = device.upload(&spectra).unwrap();
                device.elastic_symbol(&op, &mut spectra, dims).unwrap();
                results.push((format!("symbol {dims:?}"), device.into_host(spectra).unwrap()));
            } else if op.beta == 0.0 {
                let mut numbers = device.upload(&field(dims, 52)).unwrap();
                device.elastic_eigenvalues(&op, &mut numbers, dims).unwrap();
                results.push((format!("eigenvalues {dims:?}"), device.into_host(numbers).unwrap()));
            }
        }
    }
    results
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    let v = device.alloc::<f32>(72).unwrap();
    let f = device.alloc::<f32>(72).unwrap();
    let mut out = device.alloc::<f32>(72).unwrap();
    let mut short = device.alloc::<f32>(71).unwrap();
    let zero = ElasticOperator {
        alpha: 0.01,
        beta: 0.0,
        gamma: 0.001,
        spacing: [1.0; 3],
        boundary: Boundary::Zero,
    };
    let periodic = ElasticOperator { boundary: Boundary::Periodic, ..zero };
    assert!(device.elastic_product(&zero, &v, dims, &mut out).is_ok());
    assert!(device.elastic_product(&zero, &short, dims, &mut out).is_err());
    assert!(device.elastic_product(&zero, &v, dims, &mut short).is_err());
    assert!(device.elastic_product(&zero, &v, [4, 3, 0], &mut out).is_err());
    for wrong in [
        ElasticOperator { alpha: -0.1, ..zero },
        ElasticOperator { beta: f64::NAN, ..zero },
        ElasticOperator { gamma: f64::INFINITY, ..zero },
        ElasticOperator { gamma: 0.0, ..periodic },
        ElasticOperator { alpha: 0.0, gamma: 0.0, ..zero },
        ElasticOperator { spacing: [1.0, 0.0, 1.0], ..zero },
        ElasticOperator { spacing: [1.0, -1.0, 1.0], ..zero },
        ElasticOperator { spacing: [1.0, 1e-30, 1.0], ..zero },
    ] {
        assert!(device.elastic_product(&wrong, &v, dims, &mut out).is_err(), "{wrong:?}");
        assert!(device.elastic_residual(&wrong, &f, &v, dims, &mut out).is_err(), "{wrong:?}");
        assert!(device.elastic_sweep(&wrong, 1.0, &f, &v, dims, &mut out).is_err(), "{wrong:?}");
    }
    assert!(device.elastic_residual(&zero, &short, &v, dims, &mut out).is_err());
    assert!(device.elastic_sweep(&zero, 1.0, &f, &short, dims, &mut out).is_err());
    for omega in [0.0, -1.0, 2.0, f64::NAN] {
        assert!(device.elastic_sweep(&zero, omega, &f, &v, dims, &mut out).is_err(), "{omega}");
    }
    assert!(device.elastic_sweep(&zero, 1.5, &f, &v, dims, &mut out).is_ok());
    assert!(device.elastic_sweep(&periodic, 1.5, &f, &v, dims, &mut out).is_err());
    assert!(device.elastic_sweep(&periodic, 1.0, &f, &v, dims, &mut out).is_ok());
    assert!(device.elastic_sweep(&periodic, 1.5, &f, &v, [4, 6, 1], &mut out).is_ok());
    let mut spectra = device.alloc::<f32>(108).unwrap();
    assert!(device.elastic_symbol(&periodic, &mut spectra, dims).is_ok());
    assert!(device.elastic_symbol(&zero, &mut spectra, dims).is_err());
    assert!(device.elastic_symbol(&periodic, &mut out, dims).is_err());
    assert!(device.elastic_eigenvalues(&zero, &mut out, dims).is_ok());
    assert!(device.elastic_eigenvalues(&zero, &mut spectra, dims).is_err());
    assert!(device.elastic_eigenvalues(&periodic, &mut out, dims).is_err());
    let mixed = ElasticOperator { beta: 0.1, ..zero };
    assert!(device.elastic_eigenvalues(&mixed, &mut out, dims).is_err());
}
