//! Binned sums and their derivative.

use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{Scheme, Terms};

use crate::cases::{BINS, cases, close, naive_sums, with_device};

pub(crate) fn binned_sums_match<D: Histogram>(device: &D) {
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
pub(crate) fn gradients_match<D: Histogram>(device: &D) {
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
                // A function of all sums, whose derivatives are known from the sums only.
                let scheme = Scheme::ConflictFree;
                let half_squares = |_: usize, sums: &[f64]| sums.to_vec();
                let found = device
                    .binned_gradient(terms, scheme, samples, view, &maps[..1], &half_squares)
                    .unwrap();
                let mut total = [0.0; 12];
                for (sum, row) in found[0].0.iter().zip(fast.chunks(12)) {
                    total.iter_mut().zip(row).for_each(|(t, v)| *t += sum * v);
                }
                close(&found[0].1, &total, 1e-4, "all derivatives");
            }
        });
    }
}
