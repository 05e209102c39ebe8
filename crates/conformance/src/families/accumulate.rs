//! Sums over many images against whole numbers, one voxel at a time.

use voxalign_compute::Device;
use voxalign_compute::ops::accumulate::MOST_UNITS;

use crate::support::{Random, Results, SIZES, assert_bits_of_cpu, len};

/// The sums of images, each times a factor.
fn found<D: Device>(device: &D, images: &[(Vec<f32>, f64)]) -> Vec<i64> {
    let mut sums = device.alloc::<i64>(images[0].0.len()).unwrap();
    for (image, factor) in images {
        device.add_fixed(&device.upload(image).unwrap(), *factor, &mut sums).unwrap();
    }
    device.into_host(sums).unwrap()
}

/// Some images with factors that take all of their bits, and ones that do not.
fn images(n: usize) -> Vec<(Vec<f32>, f64)> {
    let mut random = Random::new(7);
    let factors = [0.25, 3.0, 1e6, -7.5e9, 1e17];
    let image = |_| (0..n).map(|_| random.between(-2.0, 2.0) as f32).collect::<Vec<_>>();
    let images: Vec<Vec<f32>> = factors.iter().map(image).collect();
    images.into_iter().zip(factors).collect()
}

/// Whole numbers of any size, exactly: a product of `f64` numbers below 2^63 is one of `i128`.
pub(crate) fn sums<D: Device>(device: &D) {
    for dims in SIZES {
        let images = images(len(dims));
        let expected: Vec<i64> = (0..len(dims))
            .map(|i| {
                let whole = |(image, factor): &(Vec<f32>, f64)| {
                    let exact = f64::from(image[i]) * factor;
                    let below = exact.floor();
                    let up = match exact - below {
                        rest if rest > 0.5 => 1,
                        0.5 => (below as i128).rem_euclid(2),
                        _ => 0,
                    };
                    below as i128 + up
                };
                images.iter().map(whole).sum::<i128>() as i64
            })
            .collect();
        assert_eq!(found(device, &images), expected, "{dims:?}");
    }
}

pub(crate) fn rounding<D: Device>(device: &D) {
    let image = vec![0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 0.51, -2.51];
    assert_eq!(found(device, &[(image.clone(), 1.0)]), [0, 2, 2, 0, -2, 0, 1, -3]);
    // The same among numbers that are not small.
    let mut with_large = image;
    with_large.push(1e30);
    assert_eq!(found(device, &[(with_large, 1.0)])[..8], [0, 2, 2, 0, -2, 0, 1, -3]);
}

pub(crate) fn extremes<D: Device>(device: &D) {
    let image = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e30, 1e18];
    let most = MOST_UNITS as i64;
    let large = f64::from(1e18f32) as i64;
    assert_eq!(found(device, &[(image, 1.0)]), [0, most, -most, most, -most, large]);
    // Sums wrap around.
    let twice = vec![(vec![f32::MAX], 1.0), (vec![f32::MAX], 1.0)];
    assert_eq!(found(device, &twice), [i64::MIN]);
    let sums = device.upload(&[i64::MIN, -3, 0, 1, (1 << 60) + 1]).unwrap();
    let mut out = device.alloc(5).unwrap();
    device.fixed_to_float(&sums, 0.5, &mut out).unwrap();
    let expected = [-(62f32.exp2()), -1.5, 0.0, 0.5, 59f32.exp2()];
    assert_eq!(device.into_host(out).unwrap(), expected);
}

pub(crate) fn any_order<D: Device>(device: &D) {
    let mut images = images(1000);
    let first = found(device, &images);
    images.reverse();
    assert_eq!(found(device, &images), first);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let image = device.alloc::<f32>(4).unwrap();
    let (mut sums, mut short) = (device.alloc::<i64>(4).unwrap(), device.alloc::<i64>(3).unwrap());
    let mut out = device.alloc::<f32>(4).unwrap();
    assert!(device.add_fixed(&image, 1.0, &mut sums).is_ok());
    assert!(device.add_fixed(&image, 1.0, &mut short).is_err());
    assert!(device.add_fixed(&image, f64::NAN, &mut sums).is_err());
    assert!(device.fixed_to_float(&short, 1.0, &mut out).is_err());
    assert!(device.fixed_to_float(&sums, f64::INFINITY, &mut out).is_err());
    let none = device.alloc::<f32>(0).unwrap();
    let mut no_sums = device.alloc::<i64>(0).unwrap();
    assert!(device.add_fixed(&none, 1.0, &mut no_sums).is_ok());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    // The last has several tasks.
    for n in SIZES.into_iter().map(len).chain([100_000]) {
        let sums = found(device, &images(n));
        let sums = device.upload(&sums).unwrap();
        let mut out = device.alloc(n).unwrap();
        device.fixed_to_float(&sums, 1e-17, &mut out).unwrap();
        results.push((format!("{n}"), device.into_host(out).unwrap()));
    }
    results
}
