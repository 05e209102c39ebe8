//! Similarities against sums over windows one voxel at a time, and their derivatives against differences.

mod pairs;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use voxalign_compute::ops::histogram::{Binning, ParzenBins};
use voxalign_compute::{Device, Dims};

use crate::support::{Random, Results, SIZES, assert_close, indices, len, offset};

pub(crate) use pairs::{
    COLUMNS, ROWS, bits_of_pairs, derivatives, found_derivatives, found_histogram, histogram,
    histogram_derivative, maps, outside_the_range, table,
};

const RADII: [[usize; 3]; 7] =
    [[0, 0, 0], [1, 1, 1], [2, 2, 2], [4, 4, 4], [2, 0, 3], [5, 9, 1], [20, 17, 20]];

/// Smooth images with noise, and of other scales; related to each other.
pub(crate) fn images(dims: Dims) -> [Vec<f64>; 2] {
    let mut random = Random::new(71);
    let noise: Vec<f64> = (0..len(dims)).map(|_| random.between(-1.0, 1.0)).collect();
    let value = |[x, y, z]: [usize; 3], i: usize| {
        let [x, y, z] = [x, y, z].map(|v| v as f64);
        (0.31 * x + 0.2 * y).sin() + (0.27 * y - 0.4 * z).cos() + 0.3 * noise[i]
    };
    let at = |p: [usize; 3]| offset(dims, p);
    let fixed = indices(dims).map(|p| 300.0 + 50.0 * value(p, at(p)));
    let other = |p: [usize; 3]| noise[(7 * at(p) + 3) % noise.len()];
    let moving = indices(dims).map(|p| -2.0 - value(p, at(p)).powi(2) + 0.5 * other(p));
    // What the devices see.
    [fixed.collect::<Vec<_>>(), moving.collect()].map(|image| single(&image))
}

/// The numbers that are those of single precision.
fn single(values: &[f64]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v as f32)).collect()
}

pub(crate) fn weights(dims: Dims) -> Vec<f64> {
    let mut random = Random::new(72);
    let all: Vec<f64> = (0..len(dims)).map(|_| random.between(-0.5, 1.5).clamp(0.0, 1.2)).collect();
    if all.iter().sum::<f64>() > 0.0 { single(&all) } else { vec![0.75; len(dims)] }
}

/// The voxels of a window.
fn window(dims: Dims, at: [usize; 3], radius: [usize; 3]) -> impl Iterator<Item = usize> {
    let range = |a: usize| at[a].saturating_sub(radius[a])..(at[a] + radius[a] + 1).min(dims[a]);
    let [x, y, z] = [range(0), range(1), range(2)];
    z.flat_map(move |z| {
        let x = x.clone();
        y.clone().flat_map(move |y| x.clone().map(move |x| offset(dims, [x, y, z])))
    })
}

/// The energy, and its derivative.
fn reference(
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    dims: Dims,
    radius: [usize; 3],
    noise: f64,
) -> (f64, Vec<f64>) {
    let total = w.map_or(len(dims) as f64, |w| w.iter().sum());
    let (mut energy, mut derivative) = (0.0, vec![0.0; len(dims)]);
    for at in indices(dims) {
        let i = offset(dims, at);
        let w = w.map_or(1.0, |w| w[i]);
        let (mut n, mut fs, mut ms) = (0.0, 0.0, 0.0);
        for j in window(dims, at, radius) {
            (n, fs, ms) = (n + 1.0, fs + f[j], ms + m[j]);
        }
        let (f_mean, m_mean) = (fs / n, ms / n);
        let (mut a, mut b, mut c) = (0.0, n * noise, n * noise);
        for j in window(dims, at, radius) {
            let (df, dm) = (f[j] - f_mean, m[j] - m_mean);
            (a, b, c) = (a + df * dm, b + df * df, c + dm * dm);
        }
        energy -= w * a * a / (b * c) / total;
        let (p, q) = (2.0 * w * a / (b * c), 2.0 * w * a * a / (b * c * c));
        for j in window(dims, at, radius) {
            derivative[j] -= (p * (f[j] - f_mean) - q * (m[j] - m_mean)) / total;
        }
    }
    (energy, derivative)
}

/// An energy with its derivative.
type Expected = Arc<(f64, Vec<f64>)>;

/// The [`reference`] of the images of some size, in one order or the other, which takes longer than what it is compared with: it is the same for
/// all devices.
fn expected(exchanged: bool, weighted: bool, dims: Dims, radius: [usize; 3]) -> Expected {
    type Known = HashMap<(bool, bool, Dims, [usize; 3]), Expected>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let key = (exchanged, weighted, dims, radius);
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(&key).map(Arc::clone);
    found.unwrap_or_else(|| {
        let [f, m] = images(dims);
        let order = if exchanged { [&m[..], &f[..]] } else { [&f[..], &m[..]] };
        let weights = weighted.then(|| weights(dims));
        let made = Arc::new(reference(order, weights.as_deref(), dims, radius, 0.02));
        known().insert(key, Arc::clone(&made));
        made
    })
}

pub(crate) fn upload<D: Device>(device: &D, image: &[f64]) -> D::Buffer<f32> {
    device.upload_vec(image.iter().map(|&v| v as f32).collect()).unwrap()
}

fn found<D: Device>(
    device: &D,
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    dims: Dims,
    radius: [usize; 3],
    noise: f64,
) -> (f64, Vec<f32>) {
    let [f, m] = [f, m].map(|image| upload(device, image));
    let w = w.map(|w| upload(device, w));
    let mut derivative = device.alloc(len(dims)).unwrap();
    let mut energy = device.alloc(1).unwrap();
    device
        .local_correlation(&f, &m, w.as_ref(), dims, radius, noise, &mut derivative, &mut energy)
        .unwrap();
    (device.into_host(energy).unwrap()[0], device.into_host(derivative).unwrap())
}

pub(crate) fn local_correlation<D: Device>(device: &D) {
    for dims in SIZES {
        let [f, m] = images(dims);
        let images = [&f[..], &m[..]];
        let weights = weights(dims);
        for radius in RADII {
            for w in [None, Some(&weights[..])] {
                let name = format!("{dims:?} {radius:?} {}", w.is_some());
                let known = expected(false, w.is_some(), dims, radius);
                let (energy, derivative) = (known.0, &known.1);
                let (e, s) = found(device, images, w, dims, radius, 0.02);
                assert!((e - energy).abs() < 1e-5, "{name}: {e} instead of {energy}");
                let largest = derivative.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
                assert_close(&name, &s, derivative, 1e-4 * largest.max(1e-3 / len(dims) as f64));
            }
        }
    }
}

/// Images of which most is background, of the same value everywhere, in places of all kinds.
pub(crate) fn background<D: Device>(device: &D) {
    let blob = |[x, y, z]: [usize; 3], at: [f64; 3], radius: f64| {
        let d = [x as f64 - at[0], y as f64 - at[1], z as f64 - at[2]];
        d.iter().map(|d| d * d).sum::<f64>() < radius * radius
    };
    for dims in [[70, 15, 12], [40, 30, 6], [130, 14, 1]] {
        let [f, m] = images(dims);
        let centre = [0, 1, 2].map(|a| [0.7, 0.4, 0.5][a] * dims[a] as f64);
        let shown = |image: &[f64], value: f64, radius: f64| -> Vec<f64> {
            let voxels = indices(dims).zip(image);
            voxels.map(|(p, &v)| if blob(p, centre, radius) { v } else { value }).collect()
        };
        for (values, radii) in
            [([250.0, -3.0], [9.0, 7.0]), ([0.0, 0.0], [4.0, 12.0]), ([300.0, 0.5], [1.2, 6.0])]
        {
            let (f, m) = (shown(&f, values[0], radii[0]), shown(&m, values[1], radii[1]));
            let weights = weights(dims);
            for radius in [[2; 3], [1, 3, 2], [5, 2, 1], [1, 6, 2], [2, 1, 7]] {
                for w in [None, Some(&weights[..])] {
                    let name = format!("{dims:?} {values:?} {radius:?} {}", w.is_some());
                    let (energy, derivative) = reference([&f, &m], w, dims, radius, 0.5);
                    let (e, s) = found(device, [&f, &m], w, dims, radius, 0.5);
                    assert!((e - energy).abs() < 1e-5, "{name}: {e} instead of {energy}");
                    let largest = derivative.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
                    assert_close(
                        &name,
                        &s,
                        &derivative,
                        2e-4 * largest.max(1e-3 / len(dims) as f64),
                    );
                }
            }
        }
    }
}

/// The energy, and the derivatives in both images.
fn found_of_both<D: Device>(
    device: &D,
    [first, second]: [&[f64]; 2],
    w: Option<&[f64]>,
    dims: Dims,
    radius: [usize; 3],
) -> (f64, Vec<f32>, Vec<f32>) {
    let [first, second] = [first, second].map(|image| upload(device, image));
    let w = w.map(|w| upload(device, w));
    let [mut a, mut b] = [0; 2].map(|_| device.alloc::<f32>(len(dims)).unwrap());
    let mut energy = device.alloc(1).unwrap();
    let (w, out) = (w.as_ref(), &mut energy);
    device
        .local_correlation_of_both(&first, &second, w, dims, radius, 0.02, &mut a, &mut b, out)
        .unwrap();
    let energy = device.into_host(energy).unwrap()[0];
    (energy, device.into_host(a).unwrap(), device.into_host(b).unwrap())
}

/// The derivatives in both images are those of either order; exchanging the images exchanges them, to the bit.
pub(crate) fn local_correlation_of_both<D: Device>(device: &D) {
    for dims in SIZES {
        let [f, m] = images(dims);
        let weights = weights(dims);
        for radius in RADII {
            for w in [None, Some(&weights[..])] {
                let name = format!("{dims:?} {radius:?} {}", w.is_some());
                let (energy, in_f, in_m) = found_of_both(device, [&f, &m], w, dims, radius);
                for (exchanged, found) in [(true, &in_f), (false, &in_m)] {
                    let known = expected(exchanged, w.is_some(), dims, radius);
                    let (expected, derivative) = (known.0, &known.1);
                    assert!((energy - expected).abs() < 1e-5, "{name}: {energy}, not {expected}");
                    let largest = derivative.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
                    // In the image of large values it is what is left of larger numbers.
                    let bound = 4e-4 * largest.max(1e-3 / len(dims) as f64);
                    assert_close(&name, found, derivative, bound);
                }
                let exchanged = found_of_both(device, [&m, &f], w, dims, radius);
                assert!(
                    exchanged == (energy, in_m, in_f),
                    "{name}: the order of the images counts"
                );
            }
        }
    }
    // Some 37 blocks of a GPU, each with a part of the energy: those of either order are not added alike.
    let dims = [60, 70, 9];
    let [f, m] = images(dims);
    for radius in [[2; 3], [5, 2, 1]] {
        let (energy, in_f, in_m) = found_of_both(device, [&f, &m], None, dims, radius);
        let exchanged = found_of_both(device, [&m, &f], None, dims, radius);
        assert_eq!(exchanged.0, energy, "{radius:?}: the order of the images counts");
        assert!(exchanged == (energy, in_m, in_f), "{radius:?}: the order of the images counts");
    }
}

/// Windows without any variance, and images far from zero.
pub(crate) fn flat_images<D: Device>(device: &D) {
    let dims = [37, 23, 11];
    let half = |value: f64| -> Vec<f64> {
        indices(dims).map(|[x, ..]| if x < 18 { value } else { value + 100.0 }).collect()
    };
    for radius in [[2; 3], [4; 3], [20; 3]] {
        let (f, m) = (half(1e4), half(-300.0));
        let images = [&f[..], &m[..]];
        let (energy, derivative) = reference(images, None, dims, radius, 1.0);
        let (e, s) = found(device, images, None, dims, radius, 1.0);
        assert!((e - energy).abs() < 1e-5, "{radius:?}: {e} instead of {energy}");
        let largest = derivative.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        // Each window is as near its largest correlation as the noise allows: little is left of it.
        assert_close("flat", &s, &derivative, 1e-2 * largest);
        let flat = vec![5.0; len(dims)];
        for images in [[&flat[..], &m[..]], [&f[..], &flat[..]], [&flat[..], &flat[..]]] {
            let (e, s) = found(device, images, None, dims, radius, 1.0);
            assert!(e.abs() < 1e-6, "{e}");
            assert!(s.iter().all(|v| v.abs() < 1e-6), "{radius:?}");
        }
    }
}

/// `E(m + h v) − E(m − h v) = 2 h ⟨derivative, v⟩` but for the third power of `h`.
pub(crate) fn local_correlation_derivative<D: Device>(device: &D) {
    for (dims, radius) in [([37, 23, 11], [2; 3]), ([33, 21, 1], [4; 3]), ([70, 9, 6], [3, 5, 1])] {
        let [f, m] = images(dims);
        let weights = weights(dims);
        let direction: Vec<f64> = indices(dims)
            .map(|[x, y, z]| (0.2 * x as f64).cos() + (0.3 * y as f64 + 0.1 * z as f64).sin())
            .collect();
        for w in [None, Some(&weights[..])] {
            let moved =
                |h: f64| -> Vec<f64> { m.iter().zip(&direction).map(|(m, v)| m + h * v).collect() };
            let dot = |derivative: &mut dyn Iterator<Item = f64>| -> f64 {
                derivative.zip(&direction).map(|(s, v)| s * v).sum()
            };
            // In double precision the third power is seen.
            let of = |h: f64| reference([&f, &moved(h)], w, dims, radius, 0.05).0;
            let (_, derivative) = reference([&f, &m], w, dims, radius, 0.05);
            let exact = dot(&mut derivative.iter().copied());
            let error = |h: f64| ((of(h) - of(-h)) - 2.0 * h * exact).abs();
            let (large, small) = (error(0.02), error(0.01));
            assert!(small < 1e-4 * exact.abs(), "{dims:?}: {small} of {exact}");
            assert!((large / small - 8.0).abs() < 0.5, "{dims:?}: {large} and {small}");
            // And the device's own energies and derivative agree.
            let h = 0.02;
            let of = |h: f64| found(device, [&f, &moved(h)], w, dims, radius, 0.05).0;
            let (_, derivative) = found(device, [&f, &m], w, dims, radius, 0.05);
            let derivative = dot(&mut derivative.iter().map(|&s| f64::from(s)));
            let difference = (of(h) - of(-h)) / (2.0 * h);
            assert!(
                (difference - derivative).abs() < 1e-3 * derivative.abs() + 1e-5,
                "{dims:?} {}: {difference} instead of {derivative}",
                w.is_some()
            );
        }
    }
}

/// More than 65535 rows.
pub(crate) fn many_rows<D: Device>(device: &D) {
    let dims = [3, 300, 230];
    let [f, m] = images(dims);
    let (energy, derivative) = reference([&f, &m], None, dims, [1; 3], 0.1);
    let (e, s) = found(device, [&f, &m], None, dims, [1; 3], 0.1);
    assert!((e - energy).abs() < 1e-5, "{e} instead of {energy}");
    let largest = derivative.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    assert_close("many rows", &s, &derivative, 3e-5 * largest);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    let image = |n: usize| device.alloc::<f32>(n).unwrap();
    let (f, m, mut derivative) = (image(24), image(24), image(24));
    let mut energy = device.alloc::<f64>(1).unwrap();
    let fails = |f: &D::Buffer<f32>, m, w: Option<&D::Buffer<f32>>, dims, noise, n, e| {
        let (mut derivative, mut energy) = (image(n), device.alloc::<f64>(e).unwrap());
        let alone =
            device.local_correlation(f, m, w, dims, [1; 3], noise, &mut derivative, &mut energy);
        let mut other = image(n);
        let both = device.local_correlation_of_both(
            f,
            m,
            w,
            dims,
            [1; 3],
            noise,
            &mut derivative,
            &mut other,
            &mut energy,
        );
        assert_eq!(alone.is_err(), both.is_err());
        alone.is_err()
    };
    let short = image(23);
    let zeros = image(24);
    assert!(fails(&short, &m, None, dims, 1.0, 24, 1));
    assert!(fails(&f, &short, None, dims, 1.0, 24, 1));
    assert!(fails(&f, &m, Some(&short), dims, 1.0, 24, 1));
    assert!(fails(&f, &m, Some(&zeros), dims, 1.0, 24, 1));
    assert!(fails(&f, &m, None, [4, 3, 0], 1.0, 24, 1));
    for noise in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60] {
        assert!(fails(&f, &m, None, dims, noise, 24, 1));
    }
    assert!(fails(&f, &m, None, dims, 1.0, 23, 1));
    assert!(fails(&f, &m, None, dims, 1.0, 24, 2));
    assert!(!fails(&f, &m, None, dims, 1.0, 24, 1));
    for n in [23, 25] {
        let (mut other, energy) = (image(n), &mut energy);
        let both = device.local_correlation_of_both(
            &f,
            &m,
            None,
            dims,
            [1; 3],
            1.0,
            &mut other,
            &mut derivative,
            energy,
        );
        assert!(both.is_err());
    }
    device
        .local_correlation(&f, &m, None, dims, [usize::MAX; 3], 1.0, &mut derivative, &mut energy)
        .unwrap();

    let rows = Binning { low: 0.0, high: 1.0, bins: 4 };
    let columns = ParzenBins { low: 0.0, high: 1.0, count: 8 };
    let histogram = |f, m, w: Option<&D::Buffer<f32>>, rows: &Binning, columns: &ParzenBins| {
        device.pair_histogram(f, m, w, rows, columns).is_err()
    };
    assert!(!histogram(&f, &m, None, &rows, &columns));
    assert!(histogram(&short, &m, None, &rows, &columns));
    assert!(histogram(&f, &m, Some(&short), &rows, &columns));
    let mut weights = vec![1.0; 24];
    assert!(!histogram(&f, &m, Some(&device.upload(&weights).unwrap()), &rows, &columns));
    weights[7] = -1e-6;
    assert!(histogram(&f, &m, Some(&device.upload(&weights).unwrap()), &rows, &columns));
    for bad in [
        Binning { bins: 0, ..rows },
        Binning { bins: 1 << 21, ..rows },
        Binning { low: f32::NAN, ..rows },
    ] {
        assert!(histogram(&f, &m, None, &bad, &columns));
    }
    for bad in [
        ParzenBins { count: 5, ..columns },
        ParzenBins { high: 0.0, ..columns },
        ParzenBins { high: f32::INFINITY, ..columns },
    ] {
        assert!(histogram(&f, &m, None, &rows, &bad));
    }
    let large = ParzenBins { count: 1 << 16, ..columns };
    assert!(histogram(&f, &m, None, &Binning { bins: 1 << 10, ..rows }, &large));
    let derivatives = |n: usize, entries: usize| {
        let mut derivative = image(n);
        device
            .pair_derivatives(&f, &m, None, &rows, &columns, &vec![0.0; entries], &mut derivative)
            .is_err()
    };
    assert!(!derivatives(24, 32) && derivatives(23, 32) && derivatives(24, 31));
    let map = |mapped: usize, derivative: usize, entries: usize, columns: &ParzenBins| {
        let (mut mapped, mut derivative) = (image(mapped), image(derivative));
        let table = vec![0.0; entries];
        device.map_values(&f, columns, &table, &mut mapped, &mut derivative).is_err()
    };
    assert!(!map(24, 24, 8, &columns) && map(23, 24, 8, &columns) && map(24, 25, 8, &columns));
    assert!(map(24, 24, 9, &columns) && map(24, 24, 5, &ParzenBins { count: 5, ..columns }));
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in [[37, 23, 11], [16, 16, 1], [70, 9, 6], [9, 61, 47]] {
        let [f, m] = images(dims);
        let weights = weights(dims);
        for radius in RADII {
            let w = (radius[0] % 2 == 0).then_some(&weights[..]);
            let (energy, mut values) = found(device, [&f, &m], w, dims, radius, 0.02);
            let bits = energy.to_bits();
            values.extend([bits as u32, (bits >> 32) as u32].map(f32::from_bits));
            results.push((format!("local correlation {dims:?} {radius:?}"), values));
        }
    }
    results
}
