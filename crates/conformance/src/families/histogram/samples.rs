//! Grouping of samples, and counts of values.

use voxalign_compute::ops::Histogram;
use voxalign_compute::ops::histogram::{Binning, LayoutOptions, SampleLayout, SampleSet};

use crate::cases::{BINNING, BINS, OPTIONS, cases, image, with_device};

pub(crate) fn samples_are_grouped<D: Histogram>(device: &D) {
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

pub(crate) fn values_are_counted<D: Histogram>(device: &D) {
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
