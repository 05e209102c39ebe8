//! Joint histograms and their derivative, alone and beside binned sums.

use voxalign_compute::AffineMap;
use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{JointScheme, Scheme, Terms};

use crate::cases::{
    COLUMNS, Case, OPTIONS, cases, close, image, naive_joint, naive_sums, with_device,
};

pub(crate) fn joint_matches<D: Histogram>(device: &D) {
    for case in cases() {
        with_device(device, &case, |samples, view| {
            let found = device
                .joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &[case.map])
                .unwrap();
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
pub(crate) fn several_tiles_match<D: Histogram>(device: &D) {
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
            let entry = |k: usize| ((k * 13) % 17) as f64 / 8.0 - 1.0;
            let derivatives =
                |_: usize, sums: &[f64]| -> Vec<f64> { (0..sums.len()).map(entry).collect() };
            let found =
                device.binned_gradient(terms, scheme, samples, view, &maps, &derivatives).unwrap();
            let sums = device.binned_sums(terms, scheme, samples, view, &maps).unwrap();
            let size = if joint { bins * COLUMNS.count } else { 0 };
            let tables = vec![(0..size).map(entry).collect::<Vec<_>>(); maps.len()];
            let (histograms, gradients) = if joint {
                (
                    device
                        .joint_histogram(JointScheme::Default, samples, view, &COLUMNS, &maps)
                        .unwrap(),
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
                        f(map).iter().enumerate().map(|(k, v)| v * entry(k)).sum()
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
