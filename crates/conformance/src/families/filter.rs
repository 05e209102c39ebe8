//! The filters against sums over all voxels of each line, in `f64`.

use voxalign_compute::ops::filter::{GaussianMethod, Recursion, SIGMA_NONE};
use voxalign_compute::{Device, Dims};

use crate::support::{Random, Results, SIZES, assert_close, indices, len, offset};

/// `data` filtered along an axis: `weight(i, j)` is that of voxel `j` in voxel `i`, before the
/// weights of each voxel are divided by their sum; `j` goes beyond the ends, where the nearest
/// voxel stands for it if `reach` is above zero.
fn along(
    data: &[f64],
    dims: Dims,
    axis: usize,
    reach: i64,
    weight: impl Fn(i64, i64) -> f64,
) -> Vec<f64> {
    let n = dims[axis] as i64;
    indices(dims)
        .map(|at| {
            let (mut sum, mut total) = (0.0, 0.0);
            for j in -reach..n + reach {
                let mut from = at;
                from[axis] = j.clamp(0, n - 1) as usize;
                let w = weight(at[axis] as i64, j);
                sum += w * data[offset(dims, from)];
                total += w;
            }
            sum / total
        })
        .collect()
}

fn gaussian_reference(src: &[f32], dims: Dims, sigma: [f64; 3]) -> Vec<f64> {
    let mut data: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
    for axis in 0..3 {
        if dims[axis] > 1 && sigma[axis] >= SIGMA_NONE {
            let reach = (8.0 * sigma[axis]).ceil() as i64;
            data = along(&data, dims, axis, reach, |i, j| {
                (-0.5 * ((i - j) as f64 / sigma[axis]).powi(2)).exp()
            });
        }
    }
    data
}

const SIGMAS: [[f64; 3]; 5] =
    [[0.5, 0.6, 0.3], [1.0, 1.0, 1.0], [2.5, 0.0, 4.0], [0.0, 3.0, 0.7], [9.0, 0.1, 17.0]];

const METHODS: [GaussianMethod; 3] =
    [GaussianMethod::Fir, GaussianMethod::Recursive, GaussianMethod::Narrow];

fn smoothed<D: Device>(
    device: &D,
    src: &[f32],
    dims: Dims,
    sigma: [f64; 3],
    method: GaussianMethod,
) -> Vec<f32> {
    let buffer = device.upload(src).unwrap();
    let mut out = device.alloc(src.len()).unwrap();
    device.gaussian(&buffer, dims, sigma, method, &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn gaussian<D: Device>(device: &D) {
    for dims in SIZES {
        let src = Random::new(1).image(dims);
        for sigma in SIGMAS {
            let expected = gaussian_reference(&src, dims, sigma);
            for (method, tolerance) in [
                (GaussianMethod::Fir, 1e-3),
                (GaussianMethod::Recursive, 0.4),
                (GaussianMethod::Narrow, 0.4),
            ] {
                let found = smoothed(device, &src, dims, sigma, method);
                // Of a range of 250.
                assert_close(
                    &format!("{method:?} {dims:?} {sigma:?}"),
                    &found,
                    &expected,
                    tolerance,
                );
            }
        }
    }
}

pub(crate) fn gaussian_of_constant<D: Device>(device: &D) {
    for dims in SIZES {
        for sigma in [[0.5; 3], [3.0; 3], [40.0, 0.0, 100.0]] {
            for method in METHODS {
                let found = smoothed(device, &vec![100.0; len(dims)], dims, sigma, method);
                assert_close("constant", &found, &vec![100.0; len(dims)], 1e-4);
            }
        }
    }
}

/// What is not all of the Gaussian is within a thousandth of its peak for every width from 0.7 on.
pub(crate) fn gaussian_impulse<D: Device>(device: &D) {
    let dims = [257, 1, 1];
    let mut src = vec![0.0; 257];
    src[128] = 1.0;
    for sigma in [0.7, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0] {
        let expected = gaussian_reference(&src, dims, [sigma; 3]);
        for method in [GaussianMethod::Recursive, GaussianMethod::Narrow] {
            let found = smoothed(device, &src, dims, [sigma; 3], method);
            let name = format!("{method:?} impulse {sigma}");
            assert_close(&name, &found, &expected, 0.001 * expected[128]);
        }
    }
}

/// Fields and images are summed over the same windows on every device: to rounding, for every radius
/// that narrow ones have, along all axes or some.
pub(crate) fn narrow_windows<D: Device>(device: &D) {
    for dims in [[21, 18, 19], [65, 40, 1], [9, 1, 33], [70, 3, 5]] {
        for images in [1, 3] {
            let mut random = Random::new(8);
            let all: Vec<Vec<f32>> = (0..images).map(|_| random.image(dims)).collect();
            for sigma in
                [[0.2, 0.3, 0.5], [0.7; 3], [1.0; 3], [1.5, 0.0, 1.1], [1.732; 3], [1.79; 3]]
            {
                let expected: Vec<f64> =
                    all.iter().flat_map(|image| narrow_reference(image, dims, sigma)).collect();
                let buffer = device.upload(&all.concat()).unwrap();
                let mut out = device.alloc(images * len(dims)).unwrap();
                device.gaussian(&buffer, dims, sigma, GaussianMethod::Narrow, &mut out).unwrap();
                let found = device.into_host(out).unwrap();
                assert_close(&format!("{images} {dims:?} {sigma:?}"), &found, &expected, 1e-4);
            }
        }
    }
}

/// The sum over all neighbours within 3.9 sigma.
fn narrow_reference(src: &[f32], dims: Dims, sigma: [f64; 3]) -> Vec<f64> {
    let mut data: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
    for axis in 0..3 {
        if dims[axis] > 1 && sigma[axis] >= SIGMA_NONE {
            data = along(&data, dims, axis, 8, |i, j| {
                let widths = (i - j) as f64 / sigma[axis];
                if widths.abs() <= 3.9 { (-0.5 * widths * widths).exp() } else { 0.0 }
            });
        }
    }
    data
}

/// Lines of more than one segment, block or chunk, wherever those are cut, agree with the whole
/// sums of the filter's own impulse response.
pub(crate) fn long_lines<D: Device>(device: &D) {
    for n in [31, 32, 33, 64, 95, 129, 260, 513, 1030, 2051, 2600, 5121] {
        for (axis, lines) in [(0, 3), (1, 2), (1, 9), (2, 1)] {
            let mut dims = [1; 3];
            dims[axis] = n;
            dims[(axis + 2) % 3] = lines;
            let src = Random::new(n as u64).image(dims);
            for sigma in [4.2, 30.0] {
                let all: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
                let expected = recursion_reference(&all, dims, axis, sigma);
                let mut sigmas = [0.0; 3];
                sigmas[axis] = sigma;
                let found = smoothed(device, &src, dims, sigmas, GaussianMethod::Recursive);
                assert_close(&format!("{dims:?} sigma {sigma}"), &found, &expected, 1e-4);
            }
        }
    }
}

/// The recursion as its definition has it, with edges repeated by long lines of them.
fn recursion_reference(src: &[f64], dims: Dims, axis: usize, sigma: f64) -> Vec<f64> {
    let (n, r) = (dims[axis], Recursion::gaussian(sigma));
    let pad = (15.0 * sigma) as usize;
    let mut out = vec![0.0; src.len()];
    for at in indices(dims).filter(|at| at[axis] == 0) {
        let place = |i: usize| {
            let mut at = at;
            at[axis] = i;
            offset(dims, at)
        };
        let x: Vec<f64> =
            (0..n + 2 * pad).map(|i| src[place(i.saturating_sub(pad).min(n - 1))]).collect();
        let value = |v: &[f64], i: usize| v.get(i).copied().unwrap_or(0.0);
        let (mut y, mut z) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        for i in 0..x.len() {
            for k in 0..4.min(i + 1) {
                y[i] += r.forward[k] * x[i - k];
            }
            for k in 1..5.min(i + 1) {
                y[i] -= r.feedback[k - 1] * y[i - k];
            }
        }
        for i in (0..x.len()).rev() {
            for k in 1..5 {
                z[i] += r.backward[k - 1] * value(&x, i + k) - r.feedback[k - 1] * value(&z, i + k);
            }
        }
        for i in 0..n {
            out[place(i)] = y[pad + i] + z[pad + i];
        }
    }
    out
}

/// Windows longer than what a thread has, with running sums that begin anywhere.
pub(crate) fn long_boxes<D: Device>(device: &D) {
    for n in [33, 256, 257, 700, 1500] {
        for axis in 0..3 {
            let mut dims = [2; 3];
            dims[axis] = n;
            let src = Random::new(n as u64).image(dims);
            let all: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
            for radius in [1, 15, 40, 300] {
                let expected =
                    along(
                        &all,
                        dims,
                        axis,
                        0,
                        |i, j| {
                            if (i - j).abs() <= radius { 1.0 } else { 0.0 }
                        },
                    );
                let mut radii = [0; 3];
                radii[axis] = radius as usize;
                let buffer = device.upload(&src).unwrap();
                let mut out = device.alloc(src.len()).unwrap();
                device.box_mean(&buffer, dims, radii, &mut out).unwrap();
                let found = device.into_host(out).unwrap();
                assert_close(&format!("box {dims:?} {radius}"), &found, &expected, 1e-4);
            }
        }
    }
}

pub(crate) fn box_mean<D: Device>(device: &D) {
    for dims in SIZES {
        let src = Random::new(2).image(dims);
        for radius in [[1, 1, 1], [2, 0, 3], [0, 40, 1], [7, 3, usize::MAX]] {
            let mut expected: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
            for axis in 0..3 {
                let r = i64::try_from(radius[axis]).unwrap_or(i64::MAX);
                expected =
                    along(
                        &expected,
                        dims,
                        axis,
                        0,
                        |i, j| {
                            if (i - j).abs() <= r { 1.0 } else { 0.0 }
                        },
                    );
            }
            let buffer = device.upload(&src).unwrap();
            let mut out = device.alloc(src.len()).unwrap();
            device.box_mean(&buffer, dims, radius, &mut out).unwrap();
            let found = device.into_host(out).unwrap();
            assert_close(&format!("box {dims:?} {radius:?}"), &found, &expected, 1e-4);
        }
    }
}

/// Images one after the other have the bits that each has alone, wherever they are among the others;
/// on a GPU those of a field, of three or more, are the same to rounding.
pub(crate) fn several_images<D: Device>(device: &D) {
    let alike = |images: usize| images < 3 || device.name().starts_with("cpu");
    for (dims, images) in [
        ([1, 1, 1], 2),
        ([5, 4, 3], 3),
        ([33, 21, 1], 3),
        ([1, 19, 18], 2),
        ([37, 23, 11], 5),
        ([76, 20, 9], 3),
    ] {
        let mut random = Random::new(4);
        let all: Vec<Vec<f32>> = (0..images).map(|_| random.image(dims)).collect();
        let joined = device.upload(&all.concat()).unwrap();
        for sigma in SIGMAS.into_iter().chain([[0.5, 2.0, 0.4], [0.0; 3]]) {
            for method in METHODS {
                let each: Vec<Vec<f32>> =
                    all.iter().map(|image| smoothed(device, image, dims, sigma, method)).collect();
                let mut out = device.alloc(images * len(dims)).unwrap();
                device.gaussian(&joined, dims, sigma, method, &mut out).unwrap();
                let found = device.into_host(out).unwrap();
                let name = format!("{dims:?} {sigma:?} {method:?}");
                if alike(images) {
                    assert_eq!(found, each.concat(), "{name}");
                } else {
                    let expected: Vec<_> = each.concat().iter().map(|&v| f64::from(v)).collect();
                    assert_close(&name, &found, &expected, 1e-4);
                }
                let mut moved = all.clone();
                moved.rotate_left(1);
                let mut out = device.alloc(images * len(dims)).unwrap();
                let moved = device.upload(&moved.concat()).unwrap();
                device.gaussian(&moved, dims, sigma, method, &mut out).unwrap();
                let mut again = device.into_host(out).unwrap();
                again.rotate_right(len(dims));
                assert_eq!(again, found, "{name}, in another order");
            }
        }
        let radius = [2, 1, 3];
        let each: Vec<Vec<f32>> = all
            .iter()
            .map(|image| {
                let mut out = device.alloc(image.len()).unwrap();
                device.box_mean(&device.upload(image).unwrap(), dims, radius, &mut out).unwrap();
                device.into_host(out).unwrap()
            })
            .collect();
        let mut out = device.alloc(images * len(dims)).unwrap();
        device.box_mean(&joined, dims, radius, &mut out).unwrap();
        assert_eq!(device.into_host(out).unwrap(), each.concat(), "box {dims:?}");
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let src = device.alloc::<f32>(24).unwrap();
    let mut out = device.alloc::<f32>(24).unwrap();
    let mut short = device.alloc::<f32>(23).unwrap();
    let dims = [4, 3, 2];
    for method in METHODS {
        assert!(device.gaussian(&src, [4, 3, 3], [1.0; 3], method, &mut out).is_err());
        assert!(device.gaussian(&src, [4, 0, 3], [1.0; 3], method, &mut out).is_err());
        assert!(device.gaussian(&src, [usize::MAX; 3], [1.0; 3], method, &mut out).is_err());
        assert!(device.gaussian(&src, dims, [1.0; 3], method, &mut short).is_err());
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(device.gaussian(&src, dims, [0.0, bad, 1.0], method, &mut out).is_err());
        }
    }
    let none = device.alloc::<f32>(0).unwrap();
    for method in METHODS {
        let mut half = device.alloc::<f32>(36).unwrap();
        assert!(device.gaussian(&src, dims, [1.0; 3], method, &mut half).is_err());
        assert!(device.gaussian(&none, dims, [1.0; 3], method, &mut out).is_err());
    }
    for sigma in [1e12, f64::MAX] {
        let found = device.gaussian(&src, dims, [0.0, 1.0, sigma], GaussianMethod::Fir, &mut out);
        assert!(found.unwrap_err().to_string().contains("65536"));
    }
    assert!(device.box_mean(&src, dims, [1; 3], &mut short).is_err());
    assert!(device.box_mean(&short, dims, [1; 3], &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in SIZES {
        let src = Random::new(3).image(dims);
        for sigma in SIGMAS {
            for method in METHODS {
                let name = format!("gaussian {method:?} {dims:?} {sigma:?}");
                results.push((name, smoothed(device, &src, dims, sigma, method)));
            }
        }
        let buffer = device.upload(&src).unwrap();
        let mut out = device.alloc(src.len()).unwrap();
        device.box_mean(&buffer, dims, [2, 3, 1], &mut out).unwrap();
        results.push((format!("box {dims:?}"), device.into_host(out).unwrap()));
    }
    results
}
