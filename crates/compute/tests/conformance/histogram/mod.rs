//! The `histogram` family against naive double-precision references.

mod binned;
mod joint;
mod samples;

use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{
    Binning, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme, Terms,
};
use voxalign_compute::{AffineMap, Dims};

use crate::support::Results;
use binned::{binned_sums_match, gradients_match};
use joint::{joint_matches, several_tiles_match};
use samples::{samples_are_grouped, values_are_counted};

on_devices!("histogram/samples.cu", "histogram/histogram.cu", "histogram/joint.cu";
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
        assert!(device.joint_histogram(JointScheme::Default, samples, view, &few, &maps).is_err());
        // More entries than a table may have.
        let options = LayoutOptions { binning: Binning { bins: 300, ..BINNING }, ..OPTIONS };
        let fixed = device.upload(&case.fixed).unwrap();
        let samples = &device.group_samples(&fixed, case.fixed_dims, None, &options).unwrap();
        let many = ParzenBins { count: 1 << 16, ..COLUMNS };
        let message = device
            .joint_histogram(JointScheme::Default, samples, view, &many, &maps)
            .unwrap_err()
            .to_string();
        assert!(message.contains("at most 2^24"), "{message}");
        let found = device.joint_gradient(samples, view, &many, &maps, &[vec![]]);
        assert!(found.unwrap_err().to_string().contains("at most 2^24"));
    });
}

/// The halves of numbers, as bits.
pub(crate) fn halves(numbers: &[f64]) -> Vec<f32> {
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
            let joint = device
                .joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &maps)
                .unwrap();
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
            let joint = device
                .joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &maps)
                .unwrap();
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
