//! Self-similarity contexts against a plain reference, and their derivative against differences.

use voxalign_compute::ops::similarity::{Contexts, MOST_CONTEXT, NO_DIFFERENCE};
use voxalign_compute::{Device, Dims};

use super::similarity::{images, upload, weights};
use crate::support::{Results, SIZES, assert_close, indices, len, offset};

const NOISE: f64 = 0.02;

const SHAPES: [[usize; 2]; 5] = [[1, 1], [0, 1], [2, 1], [1, 2], [5, 3]];

fn shape([radius, distance]: [usize; 2]) -> Contexts {
    Contexts { radius, distance, noise: NOISE }
}

/// The images with their brightness between about 0 and 1.
fn calibrated(dims: Dims) -> [Vec<f64>; 2] {
    let [f, m] = images(dims);
    let single = |v: f64| f64::from(v as f32);
    let f = f.into_iter().map(|v| single((v - 150.0) / 300.0)).collect();
    [f, m.into_iter().map(|v| single((v + 7.0) / 6.0)).collect()]
}

/// The voxels that are some steps away along each axis, where these are in the image.
fn moved(dims: Dims, at: [usize; 3], by: [i64; 3]) -> Option<[usize; 3]> {
    let mut to = at;
    for a in 0..3 {
        let place = at[a] as i64 + by[a];
        to[a] = usize::try_from(place).ok().filter(|&place| place < dims[a])?;
    }
    Some(to)
}

/// The steps to what is compared: all pairs of neighbours that are not opposite, along axes of several voxels.
fn pairs(dims: Dims, distance: usize) -> Vec<[[i64; 3]; 2]> {
    let mut steps = Vec::new();
    for a in (0..3).filter(|&a| dims[a] > 1) {
        for sign in [1, -1] {
            let mut step = [0; 3];
            step[a] = sign * distance as i64;
            steps.push(step);
        }
    }
    let mut pairs = Vec::new();
    for (i, a) in steps.iter().enumerate() {
        for b in &steps[i + 1..] {
            if (0..3).all(|axis| a[axis] == 0 || b[axis] == 0) {
                pairs.push([*a, *b]);
            }
        }
    }
    pairs
}

/// The distances at a voxel, each a sum over the window about it.
fn distances(image: &[f64], dims: Dims, at: [usize; 3], of: &Contexts) -> Vec<f64> {
    let mut sums = Vec::new();
    for [a, b] in pairs(dims, of.distance) {
        let mut sum = 0.0;
        for p in window(dims, at, of.radius) {
            if let (Some(a), Some(b)) = (moved(dims, p, a), moved(dims, p, b)) {
                sum += (image[offset(dims, a)] - image[offset(dims, b)]).powi(2);
            }
        }
        sums.push(sum);
    }
    sums
}

fn window(dims: Dims, at: [usize; 3], radius: usize) -> Vec<[usize; 3]> {
    let reach = |a: usize| at[a].saturating_sub(radius)..(at[a] + radius + 1).min(dims[a]);
    let mut all = Vec::new();
    for z in reach(2) {
        for y in reach(1) {
            all.extend(reach(0).map(|x| [x, y, z]));
        }
    }
    all
}

/// The entries of a context, with what they are made of: the smallest distance's place, and the variance.
struct Entries {
    entries: Vec<f64>,
    t: Vec<f64>,
    least: usize,
    variance: f64,
}

fn entries(distances: &[f64], dims: Dims, of: &Contexts) -> Entries {
    let voxels = dims.iter().map(|&n| if n > 1 { 2 * of.radius + 1 } else { 1 }).product::<usize>();
    let mean = distances.iter().sum::<f64>() / distances.len() as f64;
    let variance = mean + of.noise * voxels as f64;
    let mut least = 0;
    for (k, d) in distances.iter().enumerate() {
        if *d < distances[least] {
            least = k;
        }
    }
    let t: Vec<f64> = distances.iter().map(|d| (d - distances[least]) / variance).collect();
    Entries { entries: t.iter().map(|t| (-t).exp()).collect(), t, least, variance }
}

/// The energy, and its derivative in the moving image by the chain rule, step by step.
fn reference([f, m]: [&[f64]; 2], w: Option<&[f64]>, dims: Dims, of: &Contexts) -> (f64, Vec<f64>) {
    let total = w.map_or(len(dims) as f64, |w| w.iter().sum());
    let pairs = pairs(dims, of.distance);
    let (mut energy, mut derivative) = (0.0, vec![0.0; len(dims)]);
    if pairs.is_empty() {
        return (energy, derivative);
    }
    let (count, none) = (pairs.len() as f64, f64::from(NO_DIFFERENCE));
    for at in indices(dims) {
        let w = w.map_or(1.0, |w| w[offset(dims, at)]) / (total * count);
        let fixed = entries(&distances(f, dims, at, of), dims, of);
        let moving = entries(&distances(m, dims, at, of), dims, of);
        // In t_k first, then in each distance, then in the values.
        let mut in_t = vec![0.0; pairs.len()];
        for k in 0..pairs.len() {
            let difference = fixed.entries[k] - moving.entries[k];
            let length = difference.hypot(none);
            energy += w * (length - none);
            in_t[k] = w * difference / length * moving.entries[k];
        }
        for (j, [a, b]) in pairs.iter().enumerate() {
            let mut in_distance = 0.0;
            for k in 0..pairs.len() {
                let own = f64::from(u8::from(j == k)) - f64::from(u8::from(j == moving.least));
                in_distance += in_t[k] * (own - moving.t[k] / count) / moving.variance;
            }
            for p in window(dims, at, of.radius) {
                if let (Some(a), Some(b)) = (moved(dims, p, *a), moved(dims, p, *b)) {
                    let (a, b) = (offset(dims, a), offset(dims, b));
                    let pull = 2.0 * in_distance * (m[a] - m[b]);
                    derivative[a] += pull;
                    derivative[b] -= pull;
                }
            }
        }
    }
    (energy, derivative)
}

fn found<D: Device>(
    device: &D,
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    dims: Dims,
    of: &Contexts,
) -> (f64, Vec<f32>) {
    let [f, m] = [f, m].map(|image| upload(device, image));
    let w = w.map(|w| upload(device, w));
    let mut derivative = device.upload(&vec![7f32; len(dims)]).unwrap();
    let mut energy = device.alloc(1).unwrap();
    device.self_similarity(&f, &m, w.as_ref(), dims, of, &mut derivative, &mut energy).unwrap();
    (device.into_host(energy).unwrap()[0], device.into_host(derivative).unwrap())
}

fn compare<D: Device>(
    device: &D,
    images: [&[f64]; 2],
    w: Option<&[f64]>,
    dims: Dims,
    of: &Contexts,
) {
    let name = format!("{dims:?} {of:?} {}", w.is_some());
    let (energy, derivative) = reference(images, w, dims, of);
    let (e, s) = found(device, images, w, dims, of);
    assert!((e - energy).abs() < 1e-6, "{name}: {e} instead of {energy}");
    let largest = derivative.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    // Where entries hardly differ, the derivative changes fast with their difference.
    assert_close(&name, &s, &derivative, 2e-4 * largest.max(1e-3 / len(dims) as f64));
}

pub(crate) fn matches<D: Device>(device: &D) {
    for dims in SIZES {
        let [f, m] = calibrated(dims);
        let weights = weights(dims);
        for of in SHAPES.map(shape).into_iter().filter(|of| of.radius < 3 || len(dims) < 2000) {
            for w in [None, Some(&weights[..])] {
                compare(device, [&f, &m], w, dims, &of);
            }
        }
    }
}

/// The derivatives in both images are those of two calls, to the bit, and so is the energy.
pub(crate) fn of_both<D: Device>(device: &D) {
    for dims in SIZES.into_iter().chain([[70, 40, 12]]) {
        let [f, m] = calibrated(dims);
        let weights = weights(dims);
        for of in [[1, 1], [2, 1], [1, 2]].map(shape) {
            for w in [None, Some(&weights[..])] {
                let name = format!("{dims:?} {of:?} {}", w.is_some());
                let both = found_of_both(device, [&f, &m], w, dims, &of);
                let (energy, in_m) = found(device, [&f, &m], w, dims, &of);
                let (exchanged, in_f) = found(device, [&m, &f], w, dims, &of);
                assert_eq!(energy, exchanged, "{name}: the order of the images counts");
                assert!(both == (energy, in_f, in_m), "{name}: both at once is something else");
            }
        }
    }
}

/// The energy, and the derivatives in both images.
fn found_of_both<D: Device>(
    device: &D,
    images: [&[f64]; 2],
    w: Option<&[f64]>,
    dims: Dims,
    of: &Contexts,
) -> (f64, Vec<f32>, Vec<f32>) {
    let [first, second] = images.map(|image| upload(device, image));
    let w = w.map(|w| upload(device, w));
    let [mut a, mut b] = [0; 2].map(|_| device.upload(&vec![7f32; len(dims)]).unwrap());
    let mut energy = device.alloc(1).unwrap();
    let (w, out) = (w.as_ref(), &mut energy);
    device.self_similarity_of_both(&first, &second, w, dims, of, &mut a, &mut b, out).unwrap();
    let energy = device.into_host(energy).unwrap()[0];
    (energy, device.into_host(a).unwrap(), device.into_host(b).unwrap())
}

/// Images of which most is background, of a value of its own in each, where nothing is computed on the host.
pub(crate) fn background<D: Device>(device: &D) {
    for dims in [[70, 15, 12], [130, 14, 1]] {
        let centre = [0, 1, 2].map(|a| [0.7, 0.4, 0.5][a] * dims[a] as f64);
        let shown = |image: Vec<f64>, value: f64, radius: f64| -> Vec<f64> {
            let is_in = |p: [usize; 3]| {
                let d = [0, 1, 2].map(|a| (p[a] as f64 - centre[a]).powi(2));
                d.iter().sum::<f64>() < radius * radius
            };
            indices(dims).zip(image).map(|(p, v)| if is_in(p) { v } else { value }).collect()
        };
        for radii in [[9.0, 7.0], [4.0, 12.0]] {
            let [f, m] = calibrated(dims);
            let (f, m) = (shown(f, 0.0, radii[0]), shown(m, 0.25, radii[1]));
            for of in [[1, 1], [2, 1], [1, 2]].map(shape) {
                compare(device, [&f, &m], None, dims, &of);
            }
        }
    }
}

/// The same image has no difference, whatever its scale where there is no noise to speak of; a flat one has no derivative.
pub(crate) fn alike<D: Device>(device: &D) {
    let dims = [37, 23, 11];
    let [f, _] = calibrated(dims);
    let of = Contexts { noise: 1e-9, ..shape([1, 1]) };
    let (energy, derivative) = found(device, [&f, &f], None, dims, &of);
    assert!(energy == 0.0 && derivative.iter().all(|v| *v == 0.0), "{energy}");
    // The negative in another scale looks alike: that is what contexts are for.
    let negative: Vec<f64> = f.iter().map(|v| 0.75 - 0.5 * v).collect();
    let (energy, _) = found(device, [&f, &negative], None, dims, &of);
    assert!(energy < 1e-6, "{energy}");
    let flat = vec![0.5; len(dims)];
    let (energy, derivative) = found(device, [&f, &flat], None, dims, &of);
    assert!(energy > 0.1 && derivative.iter().all(|v| *v == 0.0), "{energy}");
}

/// `E(m + h v) − E(m − h v) = 2 h ⟨derivative, v⟩` but for the third power of `h`, which is small enough for no other distance to
/// become the smallest: in double precision.
pub(crate) fn derivative<D: Device>(device: &D) {
    for (dims, of) in [([13, 11, 9], [1, 1]), ([19, 14, 1], [1, 1]), ([15, 9, 6], [2, 2])] {
        let (of, [f, m], weights) = (shape(of), calibrated(dims), weights(dims));
        let direction: Vec<f64> = indices(dims)
            .map(|[x, y, z]| (0.9 * x as f64).cos() + (1.3 * y as f64 + 0.7 * z as f64).sin())
            .collect();
        let (_, derivative) = found(device, [&f, &m], Some(&weights), dims, &of);
        let dot: f64 = derivative.iter().zip(&direction).map(|(d, v)| f64::from(*d) * v).sum();
        let h = 1e-7;
        let energy = |h: f64| {
            let m: Vec<f64> = m.iter().zip(&direction).map(|(m, v)| m + h * v).collect();
            reference([&f, &m], Some(&weights), dims, &of).0
        };
        let difference = (energy(h) - energy(-h)) / (2.0 * h);
        assert!((difference - dot).abs() < 1e-3 * dot.abs(), "{dims:?}: {difference}, not {dot}");
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let dims = [4, 3, 2];
    let image = |n: usize| device.alloc::<f32>(n).unwrap();
    let (f, short) = (image(24), image(23));
    let fails = |m: &D::Buffer<f32>, w: Option<&D::Buffer<f32>>, dims, of: Contexts, n, e| {
        let (mut derivative, mut energy) = (image(n), device.alloc::<f64>(e).unwrap());
        device.self_similarity(&f, m, w, dims, &of, &mut derivative, &mut energy).is_err()
    };
    let usual = shape([1, 1]);
    assert!(!fails(&f, None, dims, usual, 24, 1));
    assert!(fails(&short, None, dims, usual, 24, 1));
    assert!(fails(&f, Some(&short), dims, usual, 24, 1));
    assert!(fails(&f, Some(&image(24)), dims, usual, 24, 1));
    assert!(fails(&f, None, [4, 3, 0], usual, 24, 1));
    assert!(fails(&f, None, dims, usual, 23, 1) && fails(&f, None, dims, usual, 24, 2));
    for noise in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60] {
        assert!(fails(&f, None, dims, Contexts { noise, ..usual }, 24, 1));
    }
    for [radius, distance] in [[1, 0], [MOST_CONTEXT + 1, 1], [1, MOST_CONTEXT + 1]] {
        assert!(fails(&f, None, dims, shape([radius, distance]), 24, 1));
    }
    let both = |lengths: [usize; 2]| {
        let ([mut a, mut b], mut energy) = (lengths.map(image), device.alloc::<f64>(1).unwrap());
        let (of, out) = (&usual, &mut energy);
        device.self_similarity_of_both(&f, &f, None, dims, of, &mut a, &mut b, out).is_err()
    };
    assert!(!both([24, 24]) && both([23, 24]) && both([24, 23]));
    // Windows and neighbours that reach beyond the image.
    assert!(!fails(&f, None, dims, shape([MOST_CONTEXT, MOST_CONTEXT]), 24, 1));
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in [[37, 23, 11], [16, 16, 1], [70, 9, 6], [9, 61, 47]] {
        let [f, m] = calibrated(dims);
        let weights = weights(dims);
        for of in SHAPES.map(shape) {
            let w = (of.radius % 2 == 0).then_some(&weights[..]);
            let (energy, mut values) = found(device, [&f, &m], w, dims, &of);
            let bits = energy.to_bits();
            values.extend([bits as u32, (bits >> 32) as u32].map(f32::from_bits));
            results.push((format!("contexts {dims:?} {of:?}"), values));
        }
    }
    results
}
