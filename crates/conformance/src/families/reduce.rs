//! Reductions against sums in `f64`.

use voxalign_compute::Device;
use voxalign_compute::ops::reduce::Reduction::{
    self, CountNonFinite, Dot, Max, MaxAbs, Min, Sum, SumAbs, SumSquaredDifference, SumSquares,
};

use crate::support::{Random, Results};

const ALL: [Reduction; 13] = [
    Sum(0),
    SumSquares(1),
    SumAbs(0),
    Dot(0, 1),
    Dot(1, 1),
    SumSquaredDifference(1, 0),
    Min(0),
    Max(0),
    Min(1),
    Max(1),
    MaxAbs(0),
    MaxAbs(1),
    CountNonFinite(0),
];

const LENGTHS: [usize; 11] = [1, 2, 15, 16, 17, 100, 4095, 4096, 4097, 70_001, 2_300_007];

fn reference(what: Reduction, inputs: &[Vec<f32>; 2]) -> f64 {
    let [a, b] = what.inputs().map(|i| inputs[i].iter().map(|&v| f64::from(v)));
    let pairs = a.clone().zip(b);
    match what {
        Sum(_) => a.sum(),
        SumSquares(_) => a.map(|v| v * v).sum(),
        SumAbs(_) => a.map(f64::abs).sum(),
        Dot(..) => pairs.map(|(a, b)| a * b).sum(),
        SumSquaredDifference(..) => pairs.map(|(a, b)| (a - b).powi(2)).sum(),
        Min(_) => a.fold(f64::INFINITY, f64::min),
        Max(_) => a.fold(f64::NEG_INFINITY, f64::max),
        MaxAbs(_) => a.map(f64::abs).fold(0.0, f64::max),
        CountNonFinite(_) => a.filter(|v| !v.is_finite()).count() as f64,
        _ => unreachable!(),
    }
}

fn inputs(n: usize) -> [Vec<f32>; 2] {
    let mut random = Random::new(n as u64);
    [(-80.0, -20.0), (-1.0, 1000.0)]
        .map(|(low, high)| (0..n).map(|_| random.between(low, high) as f32).collect())
}

fn reduced<D: Device>(device: &D, inputs: &[Vec<f32>; 2], what: &[Reduction]) -> Vec<f64> {
    let [a, b] = [0, 1].map(|i| device.upload(&inputs[i]).unwrap());
    let host = device.reduce(&[&a, &b], what).unwrap();
    let mut out = device.alloc::<f64>(what.len()).unwrap();
    device.reduce_into(&[&a, &b], what, &mut out).unwrap();
    let on_device = device.into_host(out).unwrap();
    let same = host.iter().zip(&on_device).all(|(a, b)| a.to_bits() == b.to_bits());
    assert!(same && host.len() == what.len());
    host
}

pub(crate) fn all_at_once<D: Device>(device: &D) {
    for n in LENGTHS {
        let inputs = inputs(n);
        for (what, found) in ALL.into_iter().zip(reduced(device, &inputs, &ALL)) {
            let expected = reference(what, &inputs);
            let scale = expected.abs().max(n as f64);
            assert!(
                (found - expected).abs() < 1e-11 * scale,
                "{what:?} of {n}: {found}, {expected}"
            );
        }
    }
}

pub(crate) fn not_numbers<D: Device>(device: &D) {
    for &n in &LENGTHS[..10] {
        for at in [0, n / 2, n - 1] {
            let mut inputs = inputs(n);
            inputs[0][at] = f32::NAN;
            let what = [Sum(0), Min(0), Max(0), MaxAbs(0), CountNonFinite(0), Dot(0, 1), Sum(1)];
            let found = reduced(device, &inputs, &what);
            assert!(found[0].is_nan() && found[5].is_nan() && found[6].is_finite());
            let rest: Vec<f64> =
                inputs[0].iter().filter(|v| !v.is_nan()).map(|&v| f64::from(v)).collect();
            assert_eq!(found[1], rest.iter().copied().fold(f64::INFINITY, f64::min));
            assert_eq!(found[2], rest.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            assert_eq!(found[3], rest.iter().copied().map(f64::abs).fold(0.0, f64::max));
            assert_eq!(found[4], 1.0);
            inputs[0][at] = f32::NEG_INFINITY;
            let found = reduced(device, &inputs, &what);
            assert_eq!((found[0], found[1]), (f64::NEG_INFINITY, f64::NEG_INFINITY));
            assert_eq!((found[3], found[4]), (f64::INFINITY, 1.0));
        }
    }
}

pub(crate) fn no_elements<D: Device>(device: &D) {
    let found = reduced(device, &[vec![], vec![]], &ALL);
    for (what, found) in ALL.into_iter().zip(found) {
        let expected = match what {
            Min(_) => f64::INFINITY,
            Max(_) => f64::NEG_INFINITY,
            _ => 0.0,
        };
        assert_eq!(found, expected, "{what:?}");
    }
    assert!(device.reduce(&[], &[]).unwrap().is_empty());
}

pub(crate) fn many_inputs<D: Device>(device: &D) {
    let n = 9000;
    let images: Vec<Vec<f32>> = (0..20).map(|i| vec![i as f32 - 7.0; n]).collect();
    let buffers: Vec<_> = images.iter().map(|v| device.upload(v).unwrap()).collect();
    let mut what: Vec<Reduction> = (0..20).map(Sum).chain((0..20).map(Min)).collect();
    what.extend((0..20).map(|i| Dot(i, 19 - i)));
    let found = device.reduce(&buffers.iter().collect::<Vec<_>>(), &what).unwrap();
    for (what, found) in what.iter().zip(found) {
        let [a, b] = what.inputs().map(|i| i as f64 - 7.0);
        let expected = match what {
            Sum(_) => a * n as f64,
            Min(_) => a,
            _ => a * b * n as f64,
        };
        assert_eq!(found, expected, "{what:?}");
    }
}

/// Each number by itself has the bits that it has among the others.
pub(crate) fn one_by_one<D: Device>(device: &D) {
    // The last of the lengths for a few of them only.
    for (n, numbers) in [(70_001, &ALL[..]), (LENGTHS[10], &ALL[..2])] {
        let inputs = inputs(n);
        let together = reduced(device, &inputs, numbers);
        for (&what, expected) in numbers.iter().zip(together) {
            let found = reduced(device, &inputs, &[what])[0];
            assert_eq!(found.to_bits(), expected.to_bits(), "{what:?}: {found}, {expected}");
        }
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let a = device.alloc::<f32>(10).unwrap();
    let b = device.alloc::<f32>(11).unwrap();
    let mut out = device.alloc::<f64>(1).unwrap();
    assert!(device.reduce(&[&a, &b], &[Sum(0)]).is_err());
    assert!(device.reduce(&[&a], &[Sum(1)]).is_err());
    assert!(device.reduce(&[], &[Sum(0)]).is_err());
    assert!(device.reduce(&[&a, &a], &[Dot(0, 2)]).is_err());
    assert!(device.reduce_into(&[&a], &[Sum(0), Min(0)], &mut out).is_err());
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    LENGTHS
        .into_iter()
        .map(|n| {
            let found = reduced(device, &inputs(n), &ALL);
            let halves = |v: f64| {
                let bits = v.to_bits();
                [f32::from_bits((bits >> 32) as u32), f32::from_bits(bits as u32)]
            };
            (format!("{n}"), found.into_iter().flat_map(halves).collect())
        })
        .collect()
}
