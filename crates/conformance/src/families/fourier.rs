//! Fourier transforms against sums over all voxels, in `f64`.

use std::f64::consts::{PI, TAU};

use voxalign_compute::ops::fourier::spectrum_len;
use voxalign_compute::{Device, Dims};

use crate::support::{Random, Results, SIZES, assert_close, indices, len, offset};

/// Sizes for round trips: primes, powers, mixed, and flat ones.
const LARGER: [Dims; 7] = [
    [64, 32, 16],
    [61, 37, 19],
    [97, 101, 1],
    [1, 64, 45],
    [1000, 1, 1],
    [1, 1, 127],
    [48, 50, 60],
];

fn transformed<D: Device>(device: &D, src: &[f32], dims: Dims) -> Vec<f32> {
    let buffer = device.upload(src).unwrap();
    let mut spectrum = device.alloc(spectrum_len(dims).unwrap()).unwrap();
    device.forward(&buffer, dims, &mut spectrum).unwrap();
    device.into_host(spectrum).unwrap()
}

fn back<D: Device>(device: &D, spectrum: &[f32], dims: Dims) -> Vec<f32> {
    let mut buffer = device.upload(spectrum).unwrap();
    let mut out = device.alloc(len(dims)).unwrap();
    device.inverse(&mut buffer, dims, &mut out).unwrap();
    device.into_host(out).unwrap()
}

/// The transform along each axis as a sum, cut to the frequencies that are kept.
fn reference(src: &[f32], dims: Dims) -> Vec<f64> {
    let mut data: Vec<[f64; 2]> = src.iter().map(|&v| [f64::from(v), 0.0]).collect();
    for axis in 0..3 {
        let n = dims[axis];
        data = indices(dims)
            .map(|at| {
                let mut sum = [0.0; 2];
                for i in 0..n {
                    let mut from = at;
                    from[axis] = i;
                    let [re, im] = data[offset(dims, from)];
                    let (sin, cos) = (-TAU * (at[axis] * i % n) as f64 / n as f64).sin_cos();
                    sum[0] += re * cos - im * sin;
                    sum[1] += re * sin + im * cos;
                }
                sum
            })
            .collect();
    }
    let kept = |at: &[usize; 3]| at[0] <= dims[0] / 2;
    indices(dims).filter(kept).flat_map(|at| data[offset(dims, at)]).collect()
}

pub(crate) fn forward<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain([[13, 7, 5], [1, 1, 2], [1, 5, 3], [31, 2, 2]]) {
        let src = Random::new(4).image(dims);
        let expected = reference(&src, dims);
        let largest = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        let found = transformed(device, &src, dims);
        assert_close(&format!("forward {dims:?}"), &found, &expected, 1e-6 * largest);
    }
}

pub(crate) fn round_trip<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain(LARGER) {
        let src = Random::new(5).image(dims);
        let found = back(device, &transformed(device, &src, dims), dims);
        let expected: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
        assert_close(&format!("round trip {dims:?}"), &found, &expected, 3e-4);
    }
}

/// Images one after the other are transformed as if each were alone.
pub(crate) fn several_images<D: Device>(device: &D) {
    for dims in SIZES {
        let (n, numbers) = (len(dims), spectrum_len(dims).unwrap());
        let src = Random::new(10).image([3 * n, 1, 1]);
        let buffer = device.upload(&src).unwrap();
        let mut spectra = device.alloc(3 * numbers).unwrap();
        device.forward(&buffer, dims, &mut spectra).unwrap();
        let found = device.download(&spectra).unwrap();
        for (i, src) in src.chunks(n).enumerate() {
            let alone: Vec<f64> =
                transformed(device, src, dims).iter().map(|&v| f64::from(v)).collect();
            let largest = alone.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            let found = &found[i * numbers..][..numbers];
            assert_close(&format!("image {i} of {dims:?}"), found, &alone, 1e-6 * largest);
        }
        let mut out = device.alloc(3 * n).unwrap();
        device.inverse(&mut spectra, dims, &mut out).unwrap();
        let expected: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
        assert_close(&format!("{dims:?}"), &device.into_host(out).unwrap(), &expected, 3e-4);
    }
}

/// The sine transform of images, along each axis as a sum.
pub(crate) fn sine<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain([[13, 7, 5], [1, 1, 2], [1, 5, 3], [31, 2, 2]]) {
        for images in [1, 3] {
            let n = len(dims);
            let src = Random::new(11).image([images * n, 1, 1]);
            let mut expected: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
            for image in expected.chunks_mut(n) {
                for axis in (0..3).filter(|&a| dims[a] > 1) {
                    let (before, m) = (image.to_vec(), dims[axis] + 1);
                    for (k, at) in indices(dims).enumerate() {
                        let term = |i: usize| {
                            let mut from = at;
                            from[axis] = i;
                            let turns = (i + 1) * (at[axis] + 1) % (2 * m);
                            before[offset(dims, from)] * (PI * turns as f64 / m as f64).sin()
                        };
                        let sum: f64 = (0..dims[axis]).map(term).sum();
                        image[k] = sum * (2.0 / m as f64).sqrt();
                    }
                }
            }
            let mut buffer = device.upload(&src).unwrap();
            device.sine(&mut buffer, dims).unwrap();
            let largest = expected.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
            let found = device.into_host(buffer).unwrap();
            let name = format!("sine {dims:?}, {images}");
            assert_close(&name, &found, &expected, 1e-6 * largest);
        }
    }
}

/// The root mean square of the errors of two sine transforms, as a part of that of the values.
const SHARE: f64 = 1e-6;

pub(crate) fn sine_is_its_own_inverse<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain(LARGER) {
        let src = Random::new(12).image(dims);
        let mut buffer = device.upload(&src).unwrap();
        device.sine(&mut buffer, dims).unwrap();
        let energy = |v: &[f32]| v.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
        let (found, expected) = (energy(&device.download(&buffer).unwrap()), energy(&src));
        assert!((found - expected).abs() < 1e-5 * expected, "{dims:?}: {found}, {expected}");
        device.sine(&mut buffer, dims).unwrap();
        let expected: Vec<f64> = src.iter().map(|&v| f64::from(v)).collect();
        let found = device.into_host(buffer).unwrap();
        let errors: Vec<f32> = found.iter().zip(&src).map(|(a, b)| a - b).collect();
        let share = (energy(&errors) / energy(&src)).sqrt();
        assert!(share < SHARE, "{dims:?}: errors are {share} of the values");
        // Each error is the sum of many roundings of either sign, none of which is much of it: as if drawn
        // from a normal distribution, whose deviation d is the root of their mean square, below SHARE times
        // that of the values. One of N is beyond t d with a probability of at most N erfc(t / sqrt(2)),
        // which for t = sqrt(2 ln N) + 1 is about exp(-sqrt(2 ln N)) / 2t: 0.004 for N = 256, 0.0006 for
        // 1.4e5. Few numbers cannot be beyond it, as none of N is beyond sqrt(N) d.
        let count = src.len() as f64;
        let rms = (energy(&src) / count).sqrt();
        let bound = SHARE * rms * ((2.0 * count.ln()).sqrt() + 1.0);
        assert_close(&format!("{dims:?}"), &found, &expected, bound);
    }
}

/// A wave has one frequency, and a frequency is a wave.
pub(crate) fn waves<D: Device>(device: &D) {
    for dims in [[12, 9, 7], [7, 8, 1], [1, 6, 5]] {
        let kept = [dims[0] / 2 + 1, dims[1], dims[2]];
        for cycles in indices(kept) {
            let angle = |at: [usize; 3]| -> f64 {
                (0..3).map(|a| TAU * (at[a] * cycles[a]) as f64 / dims[a] as f64).sum()
            };
            let wave: Vec<f32> = indices(dims).map(|at| (0.3 + angle(at)).cos() as f32).collect();
            let spectrum = transformed(device, &wave, dims);
            // Its own mirror image where twice the frequency is none.
            let mirrored = [0, 1, 2].map(|a| (dims[a] - cycles[a]) % dims[a]);
            let n = len(dims) as f64;
            for (k, at) in indices(kept).enumerate() {
                let mut expected = [0.0; 2];
                if at == cycles {
                    expected = [0.5 * n * 0.3f64.cos(), 0.5 * n * 0.3f64.sin()];
                }
                if at == mirrored {
                    expected[0] += 0.5 * n * 0.3f64.cos();
                    expected[1] -= 0.5 * n * 0.3f64.sin();
                }
                let name = format!("{dims:?} cycles {cycles:?} frequency {at:?}");
                assert_close(&name, &spectrum[2 * k..2 * k + 2], &expected, 1e-5 * n);
            }
            let expected: Vec<f64> = wave.iter().map(|&v| f64::from(v)).collect();
            assert_close("wave", &back(device, &spectrum, dims), &expected, 1e-5);
        }
    }
}

/// Parseval: the sum of squares is that of the spectrum, with the frequencies left out.
pub(crate) fn energy<D: Device>(device: &D) {
    for dims in LARGER {
        let src = Random::new(6).image(dims);
        let spectrum = transformed(device, &src, dims);
        let width = dims[0] / 2 + 1;
        let mut sum = 0.0;
        for (k, number) in spectrum.chunks(2).enumerate() {
            let x = k % width;
            let twice = x > 0 && 2 * x < dims[0];
            let square: f64 = number.iter().map(|&v| f64::from(v).powi(2)).sum();
            sum += if twice { 2.0 } else { 1.0 } * square;
        }
        let expected: f64 = src.iter().map(|&v| f64::from(v).powi(2)).sum();
        let found = sum / len(dims) as f64;
        assert!((found - expected).abs() < 1e-5 * expected, "{dims:?}: {found}, {expected}");
    }
}

/// Factors act on their frequencies; those of a shifted difference give that difference.
pub(crate) fn scale<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain([[61, 37, 19]]) {
        let (src, numbers) = (Random::new(7).image(dims), spectrum_len(dims).unwrap());
        let mut random = Random::new(8);
        let factors: Vec<f32> =
            (0..numbers / 2).map(|_| random.between(-2.0, 2.0) as f32).collect();
        let before = transformed(device, &src, dims);
        let mut spectrum = device.upload(&before).unwrap();
        let buffer = device.upload(&factors).unwrap();
        device.scale_spectrum(&mut spectrum, dims, &buffer).unwrap();
        let after = device.into_host(spectrum).unwrap();
        for (k, (a, b)) in after.iter().zip(&before).enumerate() {
            assert_eq!(*a, b * factors[k / 2], "{dims:?}: number {k}");
        }
        // The mean of both neighbours along y, around the border.
        let kept = [dims[0] / 2 + 1, dims[1], dims[2]];
        let cosines: Vec<f32> =
            indices(kept).map(|k| (TAU * k[1] as f64 / dims[1] as f64).cos() as f32).collect();
        let mut spectrum = device.upload(&before).unwrap();
        device.scale_spectrum(&mut spectrum, dims, &device.upload(&cosines).unwrap()).unwrap();
        let found = back(device, &device.into_host(spectrum).unwrap(), dims);
        let expected: Vec<f64> = indices(dims)
            .map(|[x, y, z]| {
                let value = |y: usize| f64::from(src[offset(dims, [x, y % dims[1], z])]);
                0.5 * (value(y + 1) + value(y + dims[1] - 1))
            })
            .collect();
        assert_close(&format!("neighbours {dims:?}"), &found, &expected, 3e-4);
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [5, 3, 2];
    let image = device.alloc::<f32>(30).unwrap();
    let mut out = device.alloc::<f32>(30).unwrap();
    let mut short = device.alloc::<f32>(29).unwrap();
    let mut spectrum = device.alloc::<f32>(36).unwrap();
    let factors = device.alloc::<f32>(18).unwrap();
    assert_eq!(spectrum_len(dims).unwrap(), 36);
    assert!(device.forward(&image, [5, 3, 3], &mut spectrum).is_err());
    assert!(device.forward(&image, [5, 0, 3], &mut spectrum).is_err());
    assert!(device.forward(&image, [usize::MAX; 3], &mut spectrum).is_err());
    assert!(device.forward(&short, dims, &mut spectrum).is_err());
    assert!(device.forward(&image, dims, &mut short).is_err());
    assert!(device.inverse(&mut short, dims, &mut out).is_err());
    assert!(device.inverse(&mut spectrum, dims, &mut short).is_err());
    assert!(device.forward(&image, [5, 3, 1], &mut spectrum).is_ok());
    assert!(device.forward(&image, [5, 1, 1], &mut short).is_err());
    let mut none = device.alloc::<f32>(0).unwrap();
    assert!(device.forward(&none, dims, &mut spectrum).is_err());
    assert!(device.sine(&mut none, dims).is_err());
    assert!(device.sine(&mut short, dims).is_err());
    assert!(device.sine(&mut short, [29, 0, 1]).is_err());
    assert!(device.scale_spectrum(&mut short, dims, &factors).is_err());
    assert!(device.scale_spectrum(&mut spectrum, dims, &image).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in SIZES.into_iter().chain(LARGER) {
        let src = Random::new(9).image(dims);
        let spectrum = transformed(device, &src, dims);
        results.push((format!("inverse {dims:?}"), back(device, &spectrum, dims)));
        results.push((format!("forward {dims:?}"), spectrum));
        let mut buffer = device.upload(&src).unwrap();
        device.sine(&mut buffer, dims).unwrap();
        results.push((format!("sine {dims:?}"), device.into_host(buffer).unwrap()));
    }
    results
}
