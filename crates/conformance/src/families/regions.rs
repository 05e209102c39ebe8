//! Labels of several regions against one point at a time.

use voxalign_compute::ops::front::{Layout, Units};
use voxalign_compute::ops::regions::{Scores, Weights};
use voxalign_compute::{Device, Dims};

use super::front::cases::{SIZES, axes, neighbours};
use crate::support::{Random, Results, assert_bits_of_cpu, len};

/// How many labels there are; the last has no point.
const LABELS: usize = 5;

/// An image, its labels, and what is given for each label and point.
struct Case {
    image: Vec<f32>,
    labels: Vec<u8>,
    given: Vec<f32>,
}

impl Case {
    fn new(dims: Dims, seed: u64) -> Self {
        let (mut random, n) = (Random::new(seed), len(dims));
        let mut numbers = |n: usize, most: f64| -> Vec<f64> {
            (0..n).map(|_| random.between(0.0, most)).collect()
        };
        let labels = numbers(n, LABELS as f64 - 1.0);
        Self {
            image: numbers(n, 100.0).into_iter().map(|v| v.round() as f32 - 40.0).collect(),
            labels: labels.into_iter().map(|l| l.floor().min(LABELS as f64 - 2.0) as u8).collect(),
            given: numbers(n * LABELS, 8.0).into_iter().map(|v| v.round() as f32).collect(),
        }
    }
}

const MEANS: [f64; LABELS] = [-30.0, 20.5, 0.0, 55.0, 7.0];

fn units() -> Units {
    Units { offset: 3.0, scale: 4.0, squares: 1.0 }
}

/// Sums of whole units.
pub(crate) fn sums<D: Device>(device: &D) {
    for dims in SIZES {
        let case = Case::new(dims, 3);
        let image = device.upload(&case.image).unwrap();
        let labels = device.upload(&case.labels).unwrap();
        // Of fewer labels: points of others do not count.
        for count in [LABELS, 2, 256] {
            let mut expected = vec![0i64; 2 * count];
            for (value, label) in case.image.iter().zip(&case.labels) {
                let at = 2 * usize::from(*label);
                if at < expected.len() {
                    expected[at] += 1;
                    expected[at + 1] += 4 * (*value as i64 - 3);
                }
            }
            // What was there is gone.
            let mut found = device.upload_vec(vec![7i64; 2 * count]).unwrap();
            device.label_sums(&image, &labels, units(), &mut found).unwrap();
            assert_eq!(device.into_host(found).unwrap(), expected, "{dims:?} {count}");
        }
    }
}

/// Shares by a sum over all points of a box.
pub(crate) fn shares<D: Device>(device: &D) {
    for dims in SIZES {
        let (layout, case) = (Layout::new(dims, 1).unwrap(), Case::new(dims, 5));
        let (sigma, spacing) = (1.4, [1.0, 0.8, 1.5]);
        let weights = Weights::new(device, &layout, sigma, spacing).unwrap();
        let labels = device.upload(&case.labels).unwrap();
        let mut scratch = device.alloc(len(dims)).unwrap();
        let mut shares = device.upload_vec(vec![9.0f32; LABELS * len(dims)]).unwrap();
        device
            .label_shares(&layout, &weights.around(), 2, &labels, &mut scratch, &mut shares)
            .unwrap();
        let found = device.into_host(shares).unwrap();
        let axis = |a: usize| -> Vec<f64> {
            let points = sigma / spacing[a];
            let radius = if dims[a] > 1 { (3.0 * points).ceil() as isize } else { 0 };
            let all = (-radius..=radius).map(|i| (-0.5 * (i as f64 / points).powi(2)).exp());
            let sum: f64 = all.clone().sum();
            all.map(|w| w / sum).collect()
        };
        let [x, y, z] = [0, 1, 2].map(axis);
        let at = |from: usize, k: usize, weights: &[f64], n: usize| {
            (from + k).saturating_sub(weights.len() / 2).min(n - 1)
        };
        for point in 0..len(dims) {
            let from = [point % dims[0], point / dims[0] % dims[1], point / (dims[0] * dims[1])];
            let mut expected = 0.0;
            for (k, wz) in z.iter().enumerate() {
                for (j, wy) in y.iter().enumerate() {
                    for (i, wx) in x.iter().enumerate() {
                        let place = at(from[0], i, &x, dims[0])
                            + dims[0]
                                * (at(from[1], j, &y, dims[1])
                                    + dims[1] * at(from[2], k, &z, dims[2]));
                        expected += wx * wy * wz * f64::from(u8::from(case.labels[place] == 2));
                    }
                }
            }
            let own = f64::from(found[2 * len(dims) + point]);
            assert!((own - expected).abs() < 1e-5, "{dims:?} {point}: {own}, not {expected}");
        }
        // Nothing else is written.
        let others = (0..LABELS).filter(|l| *l != 2);
        for label in others {
            assert!(found[label * len(dims)..][..len(dims)].iter().all(|v| *v == 9.0));
        }
    }
}

/// Scans of every label, under scores of each kind.
pub(crate) fn scans<D: Device>(device: &D) {
    for dims in SIZES {
        for axes in axes(dims) {
            let (layout, case) = (Layout::new(dims, axes).unwrap(), Case::new(dims, 11));
            let image = device.upload(&case.image).unwrap();
            let of_labels = device.upload(&MEANS).unwrap();
            let given = device.upload(&case.given).unwrap();
            let n = len(dims);
            let shared: Vec<f32> = case.given.iter().map(|v| (v - 4.0) / 8.0).collect();
            let shares = device.upload(&shared).unwrap();
            for (by_means, weight) in
                [(true, None), (false, None), (true, Some(900.0)), (false, Some(3.0))]
            {
                let scores = Scores {
                    image: by_means.then_some(&image),
                    means: by_means.then_some(&of_labels),
                    given: (!by_means).then_some(&given),
                    shares: weight.is_some().then_some(&shares),
                    weight: weight.unwrap_or(0.0),
                };
                let score = |point: usize, label: u8| {
                    let at = usize::from(label) * n + point;
                    let fit = match by_means {
                        true => -(MEANS[usize::from(label)] - f64::from(case.image[point])).powi(2),
                        false => f64::from(case.given[at]),
                    };
                    fit + weight.unwrap_or(0.0) * f64::from(shared[at])
                };
                let mut labels = device.upload(&case.labels).unwrap();
                let mut next = device.alloc(n).unwrap();
                let mut changed = device.alloc::<i64>(1).unwrap();
                let (mut expected, mut count) = (case.labels.clone(), 0);
                for label in [4, 0, 3, 1, 2, 0] {
                    let before = expected.clone();
                    for (point, own) in expected.iter_mut().enumerate() {
                        let near =
                            neighbours(&layout, point).into_iter().any(|p| before[p] == label);
                        if *own != label && near && score(point, label) > score(point, *own) {
                            *own = label;
                            count += 1;
                        }
                    }
                    device
                        .label_scan(&layout, &scores, label, &labels, &mut next, &mut changed)
                        .unwrap();
                    std::mem::swap(&mut labels, &mut next);
                    let name = format!("{dims:?} {axes} {by_means} {weight:?} {label}");
                    assert_eq!(device.download(&labels).unwrap(), expected, "{name}");
                    assert_eq!(device.download(&changed).unwrap(), [count], "{name}");
                }
            }
        }
    }
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn errors<D: Device>(device: &D) {
    let layout = Layout::new([20, 17, 1], 1).unwrap();
    let n = layout.points();
    let image = device.alloc::<f32>(n).unwrap();
    let short = device.alloc::<f32>(n - 1).unwrap();
    let labels = device.alloc::<u8>(n).unwrap();
    let mut next = device.alloc::<u8>(n).unwrap();
    let mut bad = device.alloc::<u8>(n + 1).unwrap();
    let mut changed = device.alloc::<i64>(1).unwrap();
    let mut many = device.alloc::<i64>(2).unwrap();
    let mut odd = device.alloc::<i64>(3).unwrap();
    let mut large = device.alloc::<i64>(2 * 257).unwrap();
    assert!(device.label_sums(&image, &labels, units(), &mut many).is_ok());
    assert!(device.label_sums(&short, &labels, units(), &mut many).is_err());
    assert!(device.label_sums(&image, &labels, units(), &mut odd).is_err());
    assert!(device.label_sums(&image, &labels, units(), &mut large).is_err());
    let none = Units { scale: 0.0, ..units() };
    assert!(device.label_sums(&image, &labels, none, &mut many).is_err());

    for (sigma, spacing) in [(0.0, [1.0; 3]), (40.0, [1.0; 3]), (1.0, [1.0, f64::NAN, 1.0])] {
        assert!(Weights::new(device, &layout, sigma, spacing).is_err());
    }
    let weights = Weights::new(device, &layout, 1.0, [1.0; 3]).unwrap();
    let other = Layout::new([20, 17, 3], 1).unwrap();
    let deep = Weights::new(device, &other, 1.0, [1.0; 3]).unwrap();
    let mut scratch = device.alloc::<f32>(n).unwrap();
    let mut shares = device.alloc::<f32>(3 * n).unwrap();
    let (around, of_others) = (weights.around(), deep.around());
    let mut share = |around, label, labels| {
        device.label_shares(&layout, around, label, labels, &mut scratch, &mut shares)
    };
    assert!(share(&around, 2, &labels).is_ok());
    assert!(share(&around, 3, &labels).is_err());
    assert!(share(&around, 0, &bad).is_err());
    assert!(share(&of_others, 0, &labels).is_err());

    let of_labels = device.upload(&[0.0f64, 1.0, 2.0]).unwrap();
    let given = device.alloc::<f32>(3 * n).unwrap();
    let two = device.alloc::<f32>(2 * n).unwrap();
    let none = Scores { image: None, means: None, given: None, shares: None, weight: 0.0 };
    let by_means = Scores { image: Some(&image), means: Some(&of_labels), ..none };
    let by_given = Scores { given: Some(&given), ..none };
    let mut scan = |scores: &Scores<'_, D>, label| {
        device.label_scan(&layout, scores, label, &labels, &mut next, &mut changed)
    };
    assert!(scan(&by_means, 2).is_ok() && scan(&by_given, 2).is_ok());
    assert!(scan(&Scores { shares: Some(&given), weight: 1.0, ..by_means }, 2).is_ok());
    let wrong = [
        (by_means, 3),
        (by_given, 3),
        (none, 0),
        (Scores { given: Some(&given), ..by_means }, 0),
        (Scores { given: Some(&short), ..none }, 0),
        (Scores { image: Some(&short), means: Some(&of_labels), ..none }, 0),
        (Scores { shares: Some(&two), ..by_means }, 0),
        (Scores { shares: Some(&given), weight: f64::NAN, ..by_means }, 0),
    ];
    for (k, (scores, label)) in wrong.iter().enumerate() {
        assert!(scan(scores, *label).is_err(), "{k}");
    }
    assert!(device.label_scan(&layout, &by_means, 0, &labels, &mut bad, &mut changed).is_err());
    assert!(device.label_scan(&layout, &by_means, 0, &labels, &mut next, &mut many).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in SIZES.into_iter().chain([[150, 90, 1], [40, 33, 26]]) {
        let most = *axes(dims).end();
        let (layout, case) = (Layout::new(dims, most).unwrap(), Case::new(dims, 21));
        let image = device.upload(&case.image).unwrap();
        let weights = Weights::new(device, &layout, 1.7, [1.0, 0.9, 1.2]).unwrap();
        let mut labels = device.upload(&case.labels).unwrap();
        let mut next = device.alloc(len(dims)).unwrap();
        let mut scratch = device.alloc(len(dims)).unwrap();
        let mut shares = device.alloc(LABELS * len(dims)).unwrap();
        let mut changed = device.alloc::<i64>(1).unwrap();
        let of_labels = device.upload(&MEANS).unwrap();
        let (image, means) = (Some(&image), Some(&of_labels));
        for _ in 0..3 {
            for label in 0..LABELS as u8 {
                device
                    .label_shares(
                        &layout,
                        &weights.around(),
                        label,
                        &labels,
                        &mut scratch,
                        &mut shares,
                    )
                    .unwrap();
            }
            let scores = Scores { image, means, given: None, shares: Some(&shares), weight: 700.0 };
            for label in (0..LABELS as u8).rev() {
                device
                    .label_scan(&layout, &scores, label, &labels, &mut next, &mut changed)
                    .unwrap();
                std::mem::swap(&mut labels, &mut next);
            }
        }
        let mut found: Vec<f32> = device.into_host(shares).unwrap();
        found.extend(device.into_host(labels).unwrap().into_iter().map(f32::from));
        found.extend(device.into_host(changed).unwrap().into_iter().map(|c| c as f32));
        results.push((format!("{dims:?}"), found));
    }
    results
}
