//! Affine maps of points and their bounds, one point at a time.

use voxalign_compute::{AffineMap, Device};

use crate::support::{Random, Results, assert_bits_of_cpu};

on_devices!(
    "points/points.cu";
    points, covectors, adjoint, bounds, errors, bits_of_the_cpu;
    same bits: bits
);

const MAP: AffineMap =
    [[1.25, -0.3, 0.02, -90.5], [0.4, 2.1, 0.07, 126.25], [-0.11, 0.05, -3.0, 1e3]];

/// One point, some, and more than a task.
const COUNTS: [usize; 5] = [0, 1, 5, 700, 40_000];

fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..3 * count).map(|_| random.between(-200.0, 200.0) as f32).collect()
}

fn mapped<D: Device>(device: &D, list: &[f32]) -> [Vec<f32>; 2] {
    let (mut points, mut covectors) =
        (device.alloc(list.len()).unwrap(), device.alloc(list.len()).unwrap());
    let list = device.upload(list).unwrap();
    device.map_points(&MAP, &list, &mut points).unwrap();
    device.map_covectors(&MAP, &list, &mut covectors).unwrap();
    [points, covectors].map(|b| device.into_host(b).unwrap())
}

/// Rounded once: the nearest number of single precision to that of double precision.
fn expected(list: &[f32], row: impl Fn(usize) -> [f64; 4]) -> Vec<f32> {
    let n = list.len() / 3;
    let of = |a: usize, i: usize| {
        let [x, y, z] = [0, 1, 2].map(|b| f64::from(list[b * n + i]));
        let [p, q, r, s] = row(a);
        (p * x + q * y + r * z + s) as f32
    };
    (0..3).flat_map(|a| (0..n).map(move |i| (a, i))).map(|(a, i)| of(a, i)).collect()
}

fn points<D: Device>(device: &D) {
    for count in COUNTS {
        let list = random(5, count);
        assert_eq!(mapped(device, &list)[0], expected(&list, |a| MAP[a]), "{count}");
    }
}

fn covectors<D: Device>(device: &D) {
    for count in COUNTS {
        let list = random(6, count);
        let transposed = |a: usize| [MAP[0][a], MAP[1][a], MAP[2][a], 0.0];
        assert_eq!(mapped(device, &list)[1], expected(&list, transposed), "{count}");
    }
}

/// `⟨A p, c⟩ = ⟨p, Aᵀ c⟩`.
fn adjoint<D: Device>(device: &D) {
    let (points, covectors) = (random(7, 50), random(8, 50));
    let [at, _] = mapped(device, &points);
    let [_, back] = mapped(device, &covectors);
    let dot = |a: &[f32], b: &[f32], moved: bool| -> f64 {
        let by = |i: usize| if moved { MAP[i / 50][3] } else { 0.0 };
        a.iter().zip(b).enumerate().map(|(i, (a, b))| (f64::from(*a) - by(i)) * f64::from(*b)).sum()
    };
    let (there, here) = (dot(&at, &covectors, true), dot(&back, &points, false));
    assert!((there - here).abs() < 1e-6 * 50.0 * 3.0 * 200.0 * 600.0, "{there} {here}");
}

fn bounds_of<D: Device>(device: &D, list: &[f32]) -> Vec<f64> {
    let mut out = device.upload(&[5.0f64; 7]).unwrap();
    device.point_bounds(&device.upload(list).unwrap(), &mut out).unwrap();
    device.into_host(out).unwrap()
}

fn bounds<D: Device>(device: &D) {
    for count in COUNTS {
        let mut list = random(10, count);
        let expected = |list: &[f32]| {
            let along = |a: usize| (0..count).map(move |i| a * count + i);
            let is_finite = |i: usize| (0..3).all(|a| list[a * count + i].is_finite());
            let off = (0..count).filter(|&i| !is_finite(i)).count();
            let mut ends = vec![off as f64];
            for least in [true, false] {
                ends.extend((0..3).map(|a| {
                    let values = along(a).filter(|i| is_finite(i % count)).map(|i| list[i]);
                    f64::from(match least {
                        true => values.fold(f32::INFINITY, f32::min),
                        false => values.fold(f32::NEG_INFINITY, f32::max),
                    })
                }));
            }
            ends
        };
        assert_eq!(bounds_of(device, &list), expected(&list), "{count}");
        if count > 5 {
            for (i, value) in
                [(3, f32::NAN), (count + 4, f32::INFINITY), (3 * count - 1, f32::NEG_INFINITY)]
            {
                list[i] = value;
            }
            let found = bounds_of(device, &list);
            assert!(found == expected(&list) && found[0] == 3.0, "{found:?}");
        }
    }
}

fn errors<D: Device>(device: &D) {
    let points = device.alloc::<f32>(6).unwrap();
    let floats = |n: usize| device.alloc::<f32>(n).unwrap();
    assert!(device.map_points(&MAP, &points, &mut floats(6)).is_ok());
    assert!(device.map_points(&MAP, &points, &mut floats(3)).is_err());
    assert!(device.map_points(&MAP, &floats(5), &mut floats(5)).is_err());
    assert!(device.map_covectors(&MAP, &points, &mut floats(9)).is_err());
    let seven = |n: usize| device.alloc::<f64>(n).unwrap();
    assert!(device.point_bounds(&points, &mut seven(7)).is_ok());
    assert!(device.point_bounds(&points, &mut seven(6)).is_err());
    assert!(device.point_bounds(&floats(4), &mut seven(7)).is_err());
    let mut broken = MAP;
    broken[1][2] = f64::NAN;
    assert!(device.map_points(&broken, &points, &mut floats(6)).is_err());
    assert!(device.map_covectors(&broken, &points, &mut floats(6)).is_err());
}

fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for count in COUNTS {
        let [points, covectors] = mapped(device, &random(9, count));
        results.push((format!("{count} points"), points));
        results.push((format!("{count} covectors"), covectors));
    }
    results
}
