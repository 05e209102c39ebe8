//! Weights that cannot be: refused by what sums them up, and counted as nothing elsewhere, with the same
//! bits at every SIMD level.

use voxalign_compute::ops::histogram::{JointScheme, MOST_MASK, Scheme, Terms};
use voxalign_compute::ops::similarity::Contexts;
use voxalign_compute::{ComputeError, Device};

use crate::cases::{COLUMNS as OF_CASES, Case, OPTIONS, cases, halves, image, with_device};
use crate::families::similarity::{
    COLUMNS, ROWS, found_derivatives, found_histogram, images, table, upload, weights,
};
use crate::support::{Results, len};

/// Weights that cannot be, and what is said of them.
const ODD: [(f64, &str); 5] = [
    (f64::NAN, "not a number"),
    (f64::INFINITY, "infinite"),
    (f64::NEG_INFINITY, "infinite"),
    (-1e-30, "not negative"),
    (-4.0, "not negative"),
];

/// Weights are refused where samples are made of them.
pub(crate) fn samples<D: Device>(device: &D) {
    let dims = [41, 37, 19];
    let values = device.upload(&image(dims, 6)).unwrap();
    for (bad, said) in ODD {
        let n = len(dims);
        for at in [0, n / 2, n - 1] {
            let mut weights = vec![0.5f32; n];
            weights[at] = bad as f32;
            let weights = device.upload(&weights).unwrap();
            let found = device.group_samples(&values, dims, Some(&weights), &OPTIONS);
            let Err(error) = found else { panic!("{bad} at {at} is taken") };
            assert!(matches!(error, ComputeError::Argument { .. }), "{error:?}");
            let message = error.to_string();
            assert!(message.contains("weights") && message.contains(said), "{message}");
        }
    }
}

/// What sums weights up refuses them; what does not counts them 0.
pub(crate) fn similarities<D: Device>(device: &D) {
    let dims = [37, 23, 11];
    let [f, m] = images(dims);
    let (rows, columns) = (&ROWS[0], &COLUMNS[0]);
    let table = table(rows, columns);
    let n = len(dims);
    for (odd, said) in ODD {
        for at in [0, n / 2, n - 1] {
            let mut weights = weights(dims);
            weights[at] = odd;
            let [fixed, moving] = [&f, &m].map(|image| upload(device, image));
            let buffer = upload(device, &weights);
            let (mut derivative, mut energy) = (device.alloc(n).unwrap(), device.alloc(1).unwrap());
            let w = Some(&buffer);
            let histogram = device.pair_histogram(&fixed, &moving, w, rows, columns).err();
            let correlation = device
                .local_correlation(
                    &fixed,
                    &moving,
                    w,
                    dims,
                    [2; 3],
                    0.02,
                    &mut derivative,
                    &mut energy,
                )
                .err();
            let contexts = Contexts { radius: 1, distance: 1, noise: 0.02 };
            let contexts = device
                .self_similarity(&fixed, &moving, w, dims, &contexts, &mut derivative, &mut energy)
                .err();
            for error in [histogram, correlation, contexts] {
                let Some(error) = error else { panic!("{odd} at {at} is taken") };
                assert!(matches!(error, ComputeError::Argument { .. }), "{error:?}");
                let message = error.to_string();
                assert!(message.contains("weights") && message.contains(said), "{message}");
            }
            let found = found_derivatives(device, [&f, &m], Some(&weights), rows, columns, &table);
            weights[at] = 0.0;
            let expected =
                found_derivatives(device, [&f, &m], Some(&weights), rows, columns, &table);
            assert_eq!(found, expected, "{odd} at {at}");
        }
    }
}

pub(crate) fn bits_of_derivatives<D: Device>(device: &D) -> Results {
    let dims = [37, 23, 11];
    let [f, m] = images(dims);
    let mut weights = weights(dims);
    weights.iter_mut().step_by(13).zip(ODD.iter().cycle()).for_each(|(w, (odd, _))| *w = *odd);
    let table = table(&ROWS[0], &COLUMNS[0]);
    let derivatives =
        found_derivatives(device, [&f, &m], Some(&weights), &ROWS[0], &COLUMNS[0], &table);
    weights.iter_mut().for_each(|w| *w = if *w > 0.0 && w.is_finite() { *w } else { 0.0 });
    let sums = found_histogram(device, [&f, &m], Some(&weights), &ROWS[0], &COLUMNS[0]);
    vec![("derivatives".to_owned(), derivatives), ("histogram".to_owned(), halves(&sums))]
}

/// A case whose mask is 1, with some voxels of it that no mask should have.
fn odd_mask() -> Case {
    let mut case = cases().swap_remove(3);
    let n = case.moving.len();
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -3.0, -f32::NAN, f32::MAX, 9e9];
    let value = |i: usize| if i % 61 == 7 { odd[i / 61 % odd.len()] } else { 1.0 };
    case.mask = Some((0..n).map(value).collect());
    case
}

/// All that is made of samples under a mask.
fn under_mask<D: Device>(device: &D, case: &Case) -> Vec<(&'static str, Vec<f64>)> {
    with_device(device, case, |samples, view| {
        let maps = [case.map];
        let squares = |_: usize, sums: &[f64]| sums.to_vec();
        let (terms, scheme) = (Terms::Moments, Scheme::ConflictFree);
        let sums = device.binned_gradient(terms, scheme, samples, view, &maps, &squares).unwrap();
        let joint =
            device.joint_histogram(JointScheme::Default, samples, view, &OF_CASES, &maps).unwrap();
        let derivatives = device.joint_gradient(samples, view, &OF_CASES, &maps, &joint).unwrap();
        vec![
            ("sums", sums[0].0.clone()),
            ("gradient", sums[0].1.to_vec()),
            ("joint", joint[0].clone()),
            ("joint gradient", derivatives[0].to_vec()),
        ]
    })
}

/// Nothing overflows, wraps or becomes no number where a mask is none; beside such voxels nothing
/// counts, or no more than a mask may.
pub(crate) fn masks<D: Device>(device: &D) {
    let case = odd_mask();
    let found = under_mask(device, &case);
    let whole = Case { mask: None, ..odd_mask() };
    let whole = under_mask(device, &whole);
    let most = f64::from(MOST_MASK);
    for ((name, found), (_, whole)) in found.iter().zip(&whole) {
        assert!(found.iter().all(|v| v.is_finite()), "{name}: {found:?}");
        if *name == "joint" {
            let (sum, all) = (found.iter().sum::<f64>(), whole.iter().sum::<f64>());
            assert!(found.iter().all(|&v| v >= 0.0), "{name}: {found:?}");
            assert!(sum > 0.1 * all && sum < most * all, "{name}: {sum} of {all}");
        }
    }
}

pub(crate) fn bits_of_masks<D: Device>(device: &D) -> Results {
    let found = under_mask(device, &odd_mask());
    found.into_iter().map(|(name, numbers)| (name.to_owned(), halves(&numbers))).collect()
}
