//! Images and maps that sums over overlaps are tested with, and those sums one sample at a time.

use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{Binning, LayoutOptions, MovingView, ParzenBins, Terms};
use voxalign_compute::{AffineMap, Dims};

/// A smooth image with structure at several scales and some noise.
#[must_use]
pub fn image(dims: Dims, seed: u64) -> Vec<f32> {
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

/// Two images, and a map from the fixed to the moving one.
#[derive(Debug, Clone)]
pub struct Case {
    /// Values of the fixed image, x fastest.
    pub fixed: Vec<f32>,
    /// Its sizes.
    pub fixed_dims: Dims,
    /// Its weights, if it has some.
    pub weights: Option<Vec<f32>>,
    /// Values of the moving image, x fastest.
    pub moving: Vec<f32>,
    /// Its sizes.
    pub moving_dims: Dims,
    /// Its mask, if it has one.
    pub mask: Option<Vec<f32>>,
    /// Width of the border weighting along each axis, voxels.
    pub border: [f64; 3],
    /// Fixed index to moving index.
    pub map: AffineMap,
    /// How the samples are laid out.
    pub options: LayoutOptions,
}

/// Bins of the fixed image.
pub const BINS: usize = 7;
/// Their range.
pub const BINNING: Binning = Binning { low: -1.5, high: 1.5, bins: BINS };
/// Options with these bins, and a workload that is small.
pub const OPTIONS: LayoutOptions =
    LayoutOptions { binning: BINNING, workload: 100, keep_values: true };
/// Columns of the moving image.
pub const COLUMNS: ParzenBins = ParzenBins { low: -1.4, high: 1.3, count: 12 };

/// Images of several sizes, each with and without weights and a mask.
#[must_use]
pub fn cases() -> Vec<Case> {
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
pub fn each_sample(case: &Case, map: &AffineMap, mut f: impl FnMut(usize, f64, f64, f64)) {
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

/// Binned sums of a case under a map.
#[must_use]
pub fn naive_sums(case: &Case, terms: Terms, map: &AffineMap) -> Vec<f64> {
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

/// The joint histogram of a case under a map, over [`COLUMNS`].
#[must_use]
pub fn naive_joint(case: &Case, map: &AffineMap) -> Vec<f64> {
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

/// Calls `f` with a case on a device.
///
/// # Panics
/// Where the device cannot have it.
pub fn with_device<D: Histogram, R>(
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

/// Asserts that numbers are within `tolerance` times the largest of the expected ones.
///
/// # Panics
/// Unless they are.
pub fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1e-3f64, |a, b| a.max(b.abs()));
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= tolerance * scale, "{what}[{i}]: {f} against {e} (scale {scale})");
    }
}

/// The halves of numbers, as bits.
#[must_use]
pub fn halves(numbers: &[f64]) -> Vec<f32> {
    let bits = numbers.iter().map(|v| v.to_bits());
    bits.flat_map(|b| [b as u32, (b >> 32) as u32]).map(f32::from_bits).collect()
}
