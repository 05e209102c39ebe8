//! Finite differences against differences one voxel at a time.

use voxalign_compute::{Device, Dims};

use crate::support::{
    Random, Results, SIZES, assert_bits_of_cpu, assert_close, indices, len, offset,
};

/// The derivative along an axis.
fn derivative(data: &[f32], dims: Dims, axis: usize, h: f64) -> Vec<f64> {
    let value = |mut at: [usize; 3], i: usize| {
        at[axis] = i;
        f64::from(data[offset(dims, at)])
    };
    let n = dims[axis];
    indices(dims)
        .map(|at| match at[axis] {
            _ if n == 1 => 0.0,
            0 => (value(at, 1) - value(at, 0)) / h,
            i if i == n - 1 => (value(at, i) - value(at, i - 1)) / h,
            i => (value(at, i + 1) - value(at, i - 1)) / (2.0 * h),
        })
        .collect()
}

const SPACINGS: [[f64; 3]; 2] = [[1.0, 1.0, 1.0], [0.7, -1.3, 4.2]];

fn found<D: Device>(device: &D, src: &[f32], dims: Dims, spacing: [f64; 3]) -> Vec<f32> {
    let src = device.upload(src).unwrap();
    let mut out = device.alloc(3 * len(dims)).unwrap();
    device.gradient(&src, dims, spacing, &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn gradient<D: Device>(device: &D) {
    for dims in SIZES {
        let src = Random::new(21).image(dims);
        for spacing in SPACINGS {
            let expected: Vec<f64> =
                (0..3).flat_map(|a| derivative(&src, dims, a, spacing[a])).collect();
            let name = format!("{dims:?} {spacing:?}");
            assert_close(&name, &found(device, &src, dims, spacing), &expected, 1e-3);
        }
    }
}

fn divergences<D: Device>(device: &D, field: &[f32], dims: Dims, spacing: [f64; 3]) -> Vec<f32> {
    let field = device.upload(field).unwrap();
    let mut out = device.alloc(len(dims)).unwrap();
    device.divergence(&field, dims, spacing, &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn divergence<D: Device>(device: &D) {
    for dims in SIZES {
        let (field, n) = (field(dims), len(dims));
        for spacing in SPACINGS {
            let d = [0, 1, 2].map(|a| derivative(&field[a * n..(a + 1) * n], dims, a, spacing[a]));
            let expected: Vec<f64> = (0..n).map(|i| d[0][i] + d[1][i] + d[2][i]).collect();
            let found = divergences(device, &field, dims, spacing);
            assert_close(&format!("{dims:?} {spacing:?}"), &found, &expected, 1e-5);
        }
    }
}

fn laplacians<D: Device>(device: &D, src: &[f32], dims: Dims, spacing: [f64; 3]) -> Vec<f32> {
    let src = device.upload(src).unwrap();
    let mut out = device.alloc(len(dims)).unwrap();
    device.laplacian(&src, dims, spacing, &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn laplacian<D: Device>(device: &D) {
    for dims in SIZES {
        let src = Random::new(24).image(dims);
        for spacing in SPACINGS {
            let expected: Vec<f64> = indices(dims)
                .map(|at| {
                    let value = |at| f64::from(src[offset(dims, at)]);
                    let mut sum = 0.0;
                    for a in 0..3 {
                        let (mut before, mut after) = (at, at);
                        before[a] = at[a].saturating_sub(1);
                        after[a] = (at[a] + 1).min(dims[a] - 1);
                        sum += (value(after) - 2.0 * value(at) + value(before))
                            / (spacing[a] * spacing[a]);
                    }
                    sum
                })
                .collect();
            let found = laplacians(device, &src, dims, spacing);
            assert_close(&format!("{dims:?} {spacing:?}"), &found, &expected, 2e-3);
        }
        // Nothing flows over the border, so the sum is zero; and that of a constant everywhere.
        let sum: f64 = laplacians(device, &src, dims, [1.0; 3]).iter().map(|&v| f64::from(v)).sum();
        assert!(sum.abs() < 1e-4 * len(dims) as f64, "{dims:?}: {sum}");
        let found = laplacians(device, &vec![0.1; len(dims)], dims, SPACINGS[1]);
        assert!(found.iter().all(|&v| v == 0.0));
    }
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

/// More than 65535 rows, more than the blocks of a GPU along an axis.
pub(crate) fn many_rows<D: Device>(device: &D) {
    let dims = [3, 300, 230];
    let src: Vec<f32> =
        indices(dims).map(|[x, y, z]| x as f32 + 2.0 * y as f32 - 3.0 * z as f32).collect();
    let found = found(device, &src, dims, [1.0; 3]);
    for (component, expected) in found.chunks(len(dims)).zip([1.0, 2.0, -3.0]) {
        assert!(component.iter().all(|&v| v == expected));
    }
}

fn determinants<D: Device>(device: &D, field: &[f32], dims: Dims) -> Vec<f32> {
    let field = device.upload(field).unwrap();
    let mut out = device.alloc(len(dims)).unwrap();
    device.jacobian_determinant(&field, dims, &mut out).unwrap();
    device.into_host(out).unwrap()
}

fn field(dims: Dims) -> Vec<f32> {
    let mut random = Random::new(22);
    (0..3 * len(dims)).map(|_| random.between(-1.0, 1.0) as f32).collect()
}

pub(crate) fn determinant<D: Device>(device: &D) {
    for dims in SIZES {
        let (field, n) = (field(dims), len(dims));
        let d: Vec<Vec<f64>> = (0..9)
            .map(|k| derivative(&field[k / 3 * n..(k / 3 + 1) * n], dims, k % 3, 1.0))
            .collect();
        let expected: Vec<f64> = (0..n)
            .map(|i| {
                let m = |r: usize, c: usize| d[3 * r + c][i] + if r == c { 1.0 } else { 0.0 };
                m(0, 0) * (m(1, 1) * m(2, 2) - m(1, 2) * m(2, 1))
                    - m(0, 1) * (m(1, 0) * m(2, 2) - m(1, 2) * m(2, 0))
                    + m(0, 2) * (m(1, 0) * m(2, 1) - m(1, 1) * m(2, 0))
            })
            .collect();
        assert_close(&format!("{dims:?}"), &determinants(device, &field, dims), &expected, 1e-4);
    }
}

/// The displacements of a linear map have its determinant everywhere.
pub(crate) fn determinant_of_linear_maps<D: Device>(device: &D) {
    let dims = [19, 8, 5];
    let field: Vec<f32> = (0..3)
        .flat_map(|a| indices(dims).map(move |i| [0.5, -0.25, -2.0][a] * i[a] as f32))
        .collect();
    let found = determinants(device, &field, dims);
    assert!(found.iter().all(|&v| v == -(1.5 * 0.75)));
}

pub(crate) fn errors<D: Device>(device: &D) {
    let src = device.alloc::<f32>(24).unwrap();
    let mut out = device.alloc::<f32>(24).unwrap();
    let mut out_3 = device.alloc::<f32>(72).unwrap();
    let dims = [4, 3, 2];
    assert!(device.gradient(&src, dims, [1.0; 3], &mut out).is_err());
    assert!(device.gradient(&src, [4, 3, 3], [1.0; 3], &mut out_3).is_err());
    assert!(device.gradient(&src, dims, [1.0, 0.0, 1.0], &mut out_3).is_err());
    assert!(device.gradient(&src, dims, [1.0, f64::NAN, 1.0], &mut out_3).is_err());
    assert!(device.divergence(&src, dims, [1.0; 3], &mut out).is_err());
    assert!(device.divergence(&out_3, dims, [1.0; 3], &mut out).is_ok());
    assert!(device.divergence(&out_3, dims, [f64::INFINITY, 1.0, 1.0], &mut out).is_err());
    assert!(device.laplacian(&src, dims, [1.0; 3], &mut out_3).is_err());
    assert!(device.laplacian(&src, dims, [1.0, 1.0, 0.0], &mut out).is_err());
    assert!(device.laplacian(&src, dims, [1.0, 1.0, 1e-30], &mut out).is_err());
    assert!(device.jacobian_determinant(&src, dims, &mut out).is_err());
    assert!(device.jacobian_determinant(&out_3, [4, 3, 0], &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    // The last has several tiles along each axis, of several slices.
    for dims in SIZES.into_iter().chain([[70, 41, 35]]) {
        let (src, u) = (Random::new(23).image(dims), field(dims));
        for spacing in SPACINGS {
            results.push((format!("gradient {dims:?}"), found(device, &src, dims, spacing)));
            results.push((format!("divergence {dims:?}"), divergences(device, &u, dims, spacing)));
            results.push((format!("Laplacian {dims:?}"), laplacians(device, &src, dims, spacing)));
        }
        results.push((format!("determinant {dims:?}"), determinants(device, &field(dims), dims)));
    }
    results
}
