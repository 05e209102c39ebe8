//! The `histogram` family against naive double-precision references.

use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{
    Binning, LayoutOptions, MovingView, ParzenBins, SampleLayout, SampleSet, Scheme, Terms,
};
use voxalign_compute::{AffineMap, Dims};

use crate::support::Results;

on_devices!("samples.cu", "histogram.cu", "joint.cu";
    samples_are_grouped,
    values_are_counted,
    binned_sums_match,
    gradients_match,
    joint_matches,
    several_tiles_match,
    bad_input_is_an_error;
    same bits: bits
);

/// A smooth image with structure at several scales and some noise.
pub(crate) fn image(dims: Dims, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut data = Vec::new();
    for z in 0..dims[2] {
        for y in 0..dims[1] {
            for x in 0..dims[0] {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let noise = (state >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
                let (x, y, z) = (x as f64, y as f64, z as f64);
                let s = seed as f64;
                let v = (x * 0.31 + s).sin() + (y * 0.23).cos() * (z * 0.4 + s).sin() + 0.1 * noise;
                data.push(v as f32);
            }
        }
    }
    data
}

pub(crate) struct Case {
    pub(crate) fixed: Vec<f32>,
    pub(crate) fixed_dims: Dims,
    pub(crate) weights: Option<Vec<f32>>,
    pub(crate) moving: Vec<f32>,
    pub(crate) moving_dims: Dims,
    pub(crate) mask: Option<Vec<f32>>,
    pub(crate) border: [f64; 3],
    pub(crate) map: AffineMap,
    pub(crate) options: LayoutOptions,
}

pub(crate) const BINS: usize = 7;
pub(crate) const BINNING: Binning = Binning { low: -1.5, high: 1.5, bins: BINS };
pub(crate) const OPTIONS: LayoutOptions =
    LayoutOptions { binning: BINNING, workload: 100, keep_values: true };
pub(crate) const COLUMNS: ParzenBins = ParzenBins { low: -1.4, high: 1.3, count: 12 };

pub(crate) fn cases() -> Vec<Case> {
    let map = [
        [0.9317, 0.1123, -0.0431, 0.70137],
        [-0.0917, 1.0619, 0.0723, 1.30171],
        [0.0513, -0.0619, 0.9031, 0.40193],
    ];
    let flat =
        [[0.9317, 0.1123, 0.0, 0.70137], [-0.0917, 1.0619, 0.0, 1.30171], [0.0, 0.0, 1.0, 0.0]];
    let mut cases = Vec::new();
    for (fixed_dims, moving_dims, map) in [
        ([31, 17, 13], [29, 21, 11], map),
        ([67, 66, 3], [70, 60, 2], map),
        ([1, 1, 1], [2, 2, 2], map),
        ([3, 2, 5], [2, 5, 3], map),
        ([45, 37, 1], [41, 43, 1], flat),
    ] {
        for variant in 0..4 {
            let n: usize = fixed_dims.iter().product();
            let m: usize = moving_dims.iter().product();
            let ramp = |i: usize| ((i * 37) % 11) as f32 / 10.0;
            cases.push(Case {
                fixed: image(fixed_dims, 3),
                fixed_dims,
                weights: (variant & 1 == 1).then(|| (0..n).map(ramp).collect()),
                moving: image(moving_dims, 5),
                moving_dims,
                mask: (variant & 2 == 2).then(|| (0..m).map(ramp).collect()),
                border: if variant == 0 { [0.0; 3] } else { [3.0, 2.5, 1.5] },
                map,
                options: OPTIONS,
            });
        }
    }
    cases
}

/// Weight and value of the moving image at a position, in double precision.
fn sample(case: &Case, q: [f64; 3]) -> Option<(f64, f64)> {
    let dims = case.moving_dims;
    let flat = dims[2] == 1;
    let mut w = 1.0;
    for a in 0..3 {
        if a == 2 && flat {
            continue;
        }
        let last = dims[a] as f64 - 1.0;
        if !(q[a] >= 0.0 && q[a] <= last) {
            return None;
        }
        if case.border[a] > 0.0 {
            w *= (q[a].min(last - q[a]) / case.border[a]).min(1.0);
        }
    }
    let at = |data: &[f32]| {
        let mut sum = 0.0;
        for corner in 0..8 {
            let mut weight = 1.0;
            let mut i = [0usize; 3];
            for a in 0..3 {
                if a == 2 && flat {
                    weight *= if corner & 4 == 0 { 1.0 } else { 0.0 };
                    continue;
                }
                let low = (q[a].floor() as usize).min(dims[a] - 2);
                let f = q[a] - low as f64;
                let up = corner >> a & 1;
                weight *= if up == 1 { f } else { 1.0 - f };
                i[a] = low + up;
            }
            if weight != 0.0 {
                sum += weight * f64::from(data[(i[2] * dims[1] + i[1]) * dims[0] + i[0]]);
            }
        }
        sum
    };
    if let Some(mask) = &case.mask {
        w *= at(mask);
    }
    Some((w, at(&case.moving)))
}

/// Calls `f(bin, x, y, w)` for every sample that counts.
pub(crate) fn each_sample(case: &Case, map: &AffineMap, mut f: impl FnMut(usize, f64, f64, f64)) {
    let [nx, ny, nz] = case.fixed_dims;
    for z in 0..nz {
        for y in 0..ny {
            for x in 0..nx {
                let i = (z * ny + y) * nx + x;
                let v = case.weights.as_ref().map_or(1.0, |w| f64::from(w[i]));
                if v <= 0.0 {
                    continue;
                }
                let p = [x as f64, y as f64, z as f64];
                let q = map.map(|r| r[0] * p[0] + r[1] * p[1] + r[2] * p[2] + r[3]);
                if let Some((w, value)) = sample(case, q) {
                    f(
                        case.options.binning.bin(case.fixed[i]),
                        f64::from(case.fixed[i]),
                        value,
                        v * w,
                    );
                }
            }
        }
    }
}

pub(crate) fn naive_sums(case: &Case, terms: Terms, map: &AffineMap) -> Vec<f64> {
    let mut sums = vec![0.0; case.options.binning.bins * terms.count()];
    each_sample(case, map, |bin, x, y, w| {
        let values = match terms {
            Terms::Ratio => vec![1.0, y, y * y],
            Terms::Moments => vec![1.0, x, y, x * x, y * y, x * y],
        };
        for (k, v) in values.iter().enumerate() {
            sums[bin * terms.count() + k] += w * v;
        }
    });
    sums
}

pub(crate) fn naive_joint(case: &Case, map: &AffineMap) -> Vec<f64> {
    let mut h = vec![0.0; case.options.binning.bins * COLUMNS.count];
    each_sample(case, map, |bin, _, y, w| {
        let span = f64::from(COLUMNS.high) - f64::from(COLUMNS.low);
        let last = (COLUMNS.count - 3) as f64;
        let u = (y - f64::from(COLUMNS.low)) / span * (last - 2.0) + 2.0;
        let u = u.clamp(2.0, last);
        for c in 0..COLUMNS.count {
            let d = (u - c as f64).abs();
            let b = if d < 1.0 {
                2.0 / 3.0 - d * d + d * d * d / 2.0
            } else if d < 2.0 {
                (2.0 - d).powi(3) / 6.0
            } else {
                0.0
            };
            h[bin * COLUMNS.count + c] += w * b;
        }
    });
    h
}

pub(crate) fn with_device<D: Histogram, R>(
    device: &D,
    case: &Case,
    f: impl FnOnce(&D::Samples, &MovingView<'_, D>) -> R,
) -> R {
    let fixed = device.upload(&case.fixed).unwrap();
    let weights = case.weights.as_ref().map(|w| device.upload(w).unwrap());
    let samples =
        device.group_samples(&fixed, case.fixed_dims, weights.as_ref(), &case.options).unwrap();
    let values = device.upload(&case.moving).unwrap();
    let mask = case.mask.as_ref().map(|m| device.upload(m).unwrap());
    let view = MovingView {
        values: &values,
        mask: mask.as_ref(),
        dims: case.moving_dims,
        border: case.border,
    };
    f(&samples, &view)
}

pub(crate) fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1e-3f64, |a, b| a.max(b.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * scale, "{what}[{i}]: {f} against {e} (scale {scale})");
    }
}

fn samples_are_grouped<D: Histogram>(device: &D) {
    for case in cases() {
        let weights = case.weights.as_deref();
        let expected = SampleLayout::new(&case.fixed, case.fixed_dims, weights, &OPTIONS).unwrap();
        with_device(device, &case, |samples, _| {
            assert_eq!(samples.len(), expected.len());
            assert_eq!(samples.is_empty(), expected.is_empty());
            assert_eq!(samples.bins(), BINS);
            let (found, expected) = (samples.total_weight(), expected.total_weight());
            assert!((found - expected).abs() <= 1e-9 * expected, "{found} {expected}");
        });
    }
    assert!(device.batch() > 0);
    let values = device.upload(&[0.5f32; 8]).unwrap();
    let short = device.upload(&[0.5f32; 7]).unwrap();
    let none = device.upload(&[0.0f32; 8]).unwrap();
    let group = |dims, weights, options| device.group_samples(&values, dims, weights, &options);
    assert_eq!(group([2, 2, 2], Some(&none), OPTIONS).unwrap().len(), 0);
    assert!(group([2, 2, 3], None, OPTIONS).is_err());
    assert!(group([2, 2, 2], Some(&short), OPTIONS).is_err());
    assert!(group([2, 2, 2], None, LayoutOptions { workload: 0, ..OPTIONS }).is_err());
    let binning = Binning { bins: 0, ..BINNING };
    assert!(group([2, 2, 2], None, LayoutOptions { binning, ..OPTIONS }).is_err());
}

fn values_are_counted<D: Histogram>(device: &D) {
    let mut values = image([83, 71, 29], 4);
    let n = values.len();
    values[5] = f32::NAN;
    values[7] = f32::INFINITY;
    values[11] = f32::NEG_INFINITY;
    values[13] = -3.0e38;
    values[17] = 3.0e38;
    // Ends of bins and of the range.
    (0..=8u8).for_each(|i| values[20 + usize::from(i)] = f32::from(i) * 0.25 - 1.0);
    let weights: Vec<f32> =
        (0..n).map(|i| if i % 97 == 0 { f32::NAN } else { (i % 5) as f32 - 1.0 }).collect();
    let buffer = device.upload(&values).unwrap();
    let of_weights = device.upload(&weights).unwrap();
    for (low, high) in
        [(-1.0, 1.0), (-0.37, 0.731), (-3.0e38, 3.0e38), (0.1, 0.100_001), (5.0, 6.0)]
    {
        for bins in [1, 7, 8, 2048, 65536] {
            for weighted in [false, true] {
                let mut expected = (0, 0, vec![0u64; bins]);
                for (&v, &w) in values.iter().zip(&weights) {
                    let counts = v.is_finite() && (!weighted || w > 0.0);
                    if !counts {
                        continue;
                    }
                    if v < low {
                        expected.0 += 1;
                    } else if v > high {
                        expected.1 += 1;
                    } else {
                        let (v, low, high) = (f64::from(v), f64::from(low), f64::from(high));
                        let bin = ((v - low) * (bins as f64 / (high - low))) as usize;
                        expected.2[bin.min(bins - 1)] += 1;
                    }
                }
                let weights = weighted.then_some(&of_weights);
                let found = device.value_counts(&buffer, weights, low, high, bins).unwrap();
                assert_eq!(found.total(), expected.0 + expected.1 + expected.2.iter().sum::<u64>());
                assert_eq!((found.below, found.above, found.counts), expected, "{low} {high}");
            }
        }
    }
    let empty = device.alloc::<f32>(0).unwrap();
    assert_eq!(device.value_counts(&empty, None, 0.0, 1.0, 3).unwrap().total(), 0);
    assert!(device.value_counts(&buffer, Some(&empty), 0.0, 1.0, 3).is_err());
    for (low, high, bins) in [(1.0, 1.0, 3), (f32::NAN, 1.0, 3), (0.0, 1.0, 0), (0.0, 1.0, 1 << 17)]
    {
        assert!(device.value_counts(&buffer, None, low, high, bins).is_err());
    }
}

fn binned_sums_match<D: Histogram>(device: &D) {
    for case in cases() {
        with_device(device, &case, |samples, view| {
            for terms in [Terms::Ratio, Terms::Moments] {
                let expected = naive_sums(&case, terms, &case.map);
                for scheme in [Scheme::ConflictFree, Scheme::Direct] {
                    let what = format!("{terms:?} {scheme:?} {:?}", case.fixed_dims);
                    let maps = [case.map; 2];
                    let found = device.binned_sums(terms, scheme, samples, view, &maps).unwrap();
                    assert_eq!(found.len(), 2);
                    found.iter().for_each(|sums| close(sums, &expected, 2e-5, &what));
                    let zeros = |_: usize, sums: &[f64]| vec![0.0; sums.len()];
                    let found = device
                        .binned_gradient(terms, scheme, samples, view, &maps, &zeros)
                        .unwrap();
                    assert_eq!(found.len(), 2);
                    for (sums, gradient) in &found {
                        close(sums, &expected, 2e-5, &what);
                        assert_eq!(*gradient, [0.0; 12]);
                    }
                }
                let none =
                    device.binned_sums(terms, Scheme::ConflictFree, samples, view, &[]).unwrap();
                assert!(none.is_empty());
            }
        });
    }
}

/// The derivatives agree with differences of the naive sums.
fn gradients_match<D: Histogram>(device: &D) {
    for case in cases() {
        with_device(device, &case, |samples, view| {
            for terms in [Terms::Ratio, Terms::Moments] {
                // The derivative of every sum by itself: one map a sum.
                let size = BINS * terms.count();
                let maps = vec![case.map; size];
                let get = |scheme| -> Vec<f64> {
                    let one = |i: usize, sums: &[f64]| -> Vec<f64> {
                        (0..sums.len()).map(|k| f64::from(u8::from(k == i))).collect()
                    };
                    let found =
                        device.binned_gradient(terms, scheme, samples, view, &maps, &one).unwrap();
                    found.iter().flat_map(|(_, gradient)| *gradient).collect()
                };
                let fast = get(Scheme::ConflictFree);
                close(&fast, &get(Scheme::Direct), 1e-5, "fast against direct");
                let mut expected = vec![0.0; fast.len()];
                for e in 0..12 {
                    let h = 1e-7;
                    let moved = |s: f64| {
                        let mut map = case.map;
                        map[e / 4][e % 4] += s;
                        naive_sums(&case, terms, &map)
                    };
                    let (up, down) = (moved(h), moved(-h));
                    for k in 0..up.len() {
                        expected[k * 12 + e] = (up[k] - down[k]) / (2.0 * h);
                    }
                }
                if case.moving_dims[2] == 1 {
                    // A flat image does not tell of the third row.
                    for (i, v) in expected.iter().enumerate() {
                        assert!(i % 12 < 8 || *v == 0.0);
                    }
                }
                // Without border weighting a sum jumps where a sample leaves the image, which
                // neither sees: the steps above are too small for that.
                close(&fast, &expected, 2e-4, "gradient");
                // A function of all sums, whose slopes are known from the sums only.
                let scheme = Scheme::ConflictFree;
                let half_squares = |_: usize, sums: &[f64]| sums.to_vec();
                let found = device
                    .binned_gradient(terms, scheme, samples, view, &maps[..1], &half_squares)
                    .unwrap();
                let mut total = [0.0; 12];
                for (sum, row) in found[0].0.iter().zip(fast.chunks(12)) {
                    total.iter_mut().zip(row).for_each(|(t, v)| *t += sum * v);
                }
                close(&found[0].1, &total, 1e-4, "all slopes");
            }
        });
    }
}

fn joint_matches<D: Histogram>(device: &D) {
    for case in cases() {
        with_device(device, &case, |samples, view| {
            let found = device.joint_histogram(samples, view, &COLUMNS, &[case.map]).unwrap();
            let expected = naive_joint(&case, &case.map);
            close(&found[0], &expected, 2e-5, "joint");
            let table: Vec<f64> =
                (0..expected.len()).map(|i| ((i * 13) % 17) as f64 / 8.0 - 1.0).collect();
            let f = |map: &AffineMap| -> f64 {
                naive_joint(&case, map).iter().zip(&table).map(|(h, t)| h * t).sum()
            };
            let found = device
                .joint_gradient(samples, view, &COLUMNS, &[case.map], std::slice::from_ref(&table))
                .unwrap();
            let expected: Vec<f64> = (0..12)
                .map(|e| {
                    let h = 1e-7;
                    let moved = |s: f64| {
                        let mut map = case.map;
                        map[e / 4][e % 4] += s;
                        f(&map)
                    };
                    (moved(h) - moved(-h)) / (2.0 * h)
                })
                .collect();
            close(&found[0], &expected, 5e-4, "joint gradient");
        });
    }
}

/// Images of several tiles, with few bins and with more than samples; maps under which the part of
/// the moving image that a tile meets is small, large, and nothing at all.
fn several_tiles_match<D: Histogram>(device: &D) {
    let small = cases()[0].map;
    let mut large = small.map(|row| row.map(|v| 2.3 * v));
    large[1][3] -= 40.0;
    let mut outside = small;
    outside[2][3] = 500.0;
    for (bins, weights, mask) in
        [(7, false, false), (300, true, false), (6000, false, true), (300_000, true, false)]
    {
        // Counting very many bins takes its time on an emulated device.
        let many = bins > 10_000;
        let fixed_dims = match bins {
            // More tiles than a warp has lanes.
            7 => [129, 97, 17],
            _ if many => [21, 13, 7],
            _ => [45, 39, 21],
        };
        let moving_dims = [83, 64, 37];
        let n: usize = fixed_dims.iter().product();
        let m: usize = moving_dims.iter().product();
        let ramp = |i: usize| ((i * 37) % 11) as f32 / 10.0;
        let mut case = Case {
            fixed: image(fixed_dims, 3),
            fixed_dims,
            weights: weights.then(|| (0..n).map(ramp).collect()),
            moving: image(moving_dims, 5),
            moving_dims,
            mask: mask.then(|| (0..m).map(ramp).collect()),
            border: [6.0, 4.0, 5.0],
            map: small,
            options: OPTIONS,
        };
        case.options.binning.bins = bins;
        let joint = !many;
        let maps = if many { vec![small] } else { vec![small, outside, large] };
        with_device(device, &case, |samples, view| {
            let what = |name: &str| format!("{name}, {bins} bins");
            let terms = if weights { Terms::Moments } else { Terms::Ratio };
            let scheme = Scheme::ConflictFree;
            let slope = |k: usize| ((k * 13) % 17) as f64 / 8.0 - 1.0;
            let slopes =
                |_: usize, sums: &[f64]| -> Vec<f64> { (0..sums.len()).map(slope).collect() };
            let found =
                device.binned_gradient(terms, scheme, samples, view, &maps, &slopes).unwrap();
            let sums = device.binned_sums(terms, scheme, samples, view, &maps).unwrap();
            let size = if joint { bins * COLUMNS.count } else { 0 };
            let tables = vec![(0..size).map(slope).collect::<Vec<_>>(); maps.len()];
            let (histograms, gradients) = if joint {
                (
                    device.joint_histogram(samples, view, &COLUMNS, &maps).unwrap(),
                    device.joint_gradient(samples, view, &COLUMNS, &maps, &tables).unwrap(),
                )
            } else {
                Default::default()
            };
            for (i, map) in maps.iter().enumerate() {
                let expected = naive_sums(&case, terms, map);
                close(&sums[i], &expected, 2e-5, &what("sums"));
                assert!(sums[i] == found[i].0);
                let derivative = |f: &dyn Fn(&AffineMap) -> Vec<f64>| -> Vec<f64> {
                    let of = |map: &AffineMap| -> f64 {
                        f(map).iter().enumerate().map(|(k, v)| v * slope(k)).sum()
                    };
                    // One entry of each kind is enough here.
                    let h = 1e-7;
                    [1, 7, 8]
                        .map(|e: usize| {
                            let moved = |s: f64| {
                                let mut map = *map;
                                map[e / 4][e % 4] += s;
                                of(&map)
                            };
                            (moved(h) - moved(-h)) / (2.0 * h)
                        })
                        .to_vec()
                };
                let three = |g: &[f64; 12]| [1, 7, 8].map(|e: usize| g[e]);
                let expected = derivative(&|map| naive_sums(&case, terms, map));
                close(&three(&found[i].1), &expected, 5e-4, &what("gradient"));
                if joint {
                    let expected = naive_joint(&case, map);
                    close(&histograms[i], &expected, 2e-5, &what("joint"));
                    let expected = derivative(&|map| naive_joint(&case, map));
                    close(&three(&gradients[i]), &expected, 1e-3, &what("joint gradient"));
                }
            }
        });
    }
}

fn bad_input_is_an_error<D: Histogram>(device: &D) {
    let case = &cases()[1];
    with_device(device, case, |samples, view| {
        let mut map = case.map;
        map[1][2] = f64::NAN;
        let sums = |view: &MovingView<'_, D>, map: &AffineMap| {
            device.binned_sums(Terms::Ratio, Scheme::ConflictFree, samples, view, &[*map])
        };
        assert!(sums(view, &map).is_err());
        let wrong = MovingView { dims: [29, 21, 12], ..*view };
        assert!(sums(&wrong, &case.map).is_err());
        let thin = MovingView { dims: [1, 29 * 21, 11], ..*view };
        assert!(sums(&thin, &case.map).is_err());
        let border = MovingView { border: [f64::NAN; 3], ..*view };
        assert!(sums(&border, &case.map).is_err());
        let few = |_: usize, _: &[f64]| vec![1.0; 2];
        let scheme = Scheme::ConflictFree;
        let found = device.binned_gradient(Terms::Ratio, scheme, samples, view, &[case.map], &few);
        assert!(found.is_err());
        let maps = [case.map];
        assert!(device.joint_gradient(samples, view, &COLUMNS, &maps, &[]).is_err());
        assert!(device.joint_gradient(samples, view, &COLUMNS, &maps, &[vec![0.0; 3]]).is_err());
        let few = ParzenBins { count: 4, ..COLUMNS };
        assert!(device.joint_histogram(samples, view, &few, &maps).is_err());
    });
}

/// The halves of numbers, as bits.
fn halves(numbers: &[f64]) -> Vec<f32> {
    let bits = numbers.iter().map(|v| v.to_bits());
    bits.flat_map(|b| [b as u32, (b >> 32) as u32]).map(f32::from_bits).collect()
}

fn bits<D: Histogram>(device: &D) -> Results {
    let mut results = Results::new();
    for case in [&cases()[3], &cases()[7]] {
        with_device(device, case, |samples, view| {
            let mut add = |name: &str, numbers: &[f64]| {
                results.push((format!("{name} {:?}", case.fixed_dims), halves(numbers)));
            };
            let maps = [case.map];
            let squares = |_: usize, sums: &[f64]| sums.to_vec();
            for terms in [Terms::Ratio, Terms::Moments] {
                let scheme = Scheme::ConflictFree;
                let found =
                    device.binned_gradient(terms, scheme, samples, view, &maps, &squares).unwrap();
                add("sums", &found[0].0);
                add("gradient", &found[0].1);
            }
            let joint = device.joint_histogram(samples, view, &COLUMNS, &maps).unwrap();
            let gradient = device.joint_gradient(samples, view, &COLUMNS, &maps, &joint).unwrap();
            add("joint", &joint[0]);
            add("joint gradient", &gradient[0]);
        });
    }
    results
}

/// Any number of threads, any SIMD level, one map or many at once: the same bits.
#[test]
fn the_same_bits() {
    let dims = [90, 70, 65];
    let case = Case {
        fixed: image(dims, 1),
        fixed_dims: dims,
        weights: None,
        moving: image(dims, 2),
        moving_dims: dims,
        mask: None,
        border: [4.0; 3],
        map: cases()[0].map,
        options: OPTIONS,
    };
    let all = |device: &Cpu, maps: usize| {
        with_device(device, &case, |samples, view| {
            let maps = vec![case.map; maps];
            let table = vec![naive_joint(&case, &case.map); maps.len()];
            let scheme = Scheme::ConflictFree;
            let squares = |_: usize, sums: &[f64]| sums.to_vec();
            let binned = |terms| {
                let found = device.binned_gradient(terms, scheme, samples, view, &maps, &squares);
                found.unwrap().swap_remove(0)
            };
            let (ratio, moments) = (binned(Terms::Ratio), binned(Terms::Moments));
            let joint = device.joint_histogram(samples, view, &COLUMNS, &maps).unwrap();
            let gradient = device.joint_gradient(samples, view, &COLUMNS, &maps, &table).unwrap();
            (ratio, moments, joint[0].clone(), gradient[0])
        })
    };
    let first = all(&Cpu::new(Some(1)).unwrap(), 1);
    for threads in [1, 2, 4] {
        for maps in [1, 5] {
            for simd in Simd::available() {
                let device = Cpu::new(Some(threads)).unwrap().with_simd(simd).unwrap();
                assert_eq!(all(&device, maps), first, "{threads} threads, {maps} maps, {simd:?}");
            }
        }
    }
}
