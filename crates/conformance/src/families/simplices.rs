//! Elements of meshes against plain formulas and finite differences.

use voxalign_compute::Device;
use voxalign_compute::ops::simplices::{Element, Incidence, incidence};

use crate::support::{Random, Results, assert_bits_of_cpu, assert_close};

/// Vertices and corners of a mesh of so many elements at random, which share vertices.
fn mesh(kind: Element, elements: usize) -> (Vec<f32>, Vec<u32>) {
    let mut random = Random::new(3);
    let points = elements / 2 + 4;
    let vertices = (0..3 * points).map(|_| random.between(-20.0, 20.0) as f32).collect();
    let index = |i: usize, k: usize| ((i * 7 + k * (i % 3 + 1)) % points) as u32;
    let corners =
        (0..kind.corners()).flat_map(|k| (0..elements).map(move |i| index(i, k))).collect();
    (vertices, corners)
}

fn found<D: Device>(
    device: &D,
    kind: Element,
    (vertices, corners): &(Vec<f32>, Vec<u32>),
) -> [Vec<f32>; 2] {
    let elements = corners.len() / kind.corners();
    let mut centres = device.alloc(3 * elements).unwrap();
    let mut moments = device.alloc(kind.components() * elements).unwrap();
    let (vertices, corners) = (device.upload(vertices).unwrap(), device.upload(corners).unwrap());
    device.measures(kind, &vertices, &corners, &mut centres, &mut moments).unwrap();
    [centres, moments].map(|b| device.into_host(b).unwrap())
}

fn covectors_of<D: Device>(
    device: &D,
    kind: Element,
    (vertices, corners): &(Vec<f32>, Vec<u32>),
    [by_centre, by_moment]: &[Vec<f32>; 2],
) -> Vec<f32> {
    let [starts, lists] = incidence(vertices.len() / 3, corners).unwrap();
    let (starts, lists) = (device.upload(&starts).unwrap(), device.upload(&lists).unwrap());
    let incidence = Incidence { starts: &starts, corners: &lists };
    let mut out = device.alloc(vertices.len()).unwrap();
    let (vertices, corners) = (device.upload(vertices).unwrap(), device.upload(corners).unwrap());
    let by = [by_centre, by_moment].map(|b| device.upload(b).unwrap());
    device
        .measure_covectors(kind, &vertices, &corners, &incidence, &by[0], &by[1], &mut out)
        .unwrap();
    device.into_host(out).unwrap()
}

/// Centres and moments, plainly.
fn expected(kind: Element, vertices: &[f64], corners: &[u32]) -> [Vec<f64>; 2] {
    let (n, elements, points) =
        (kind.corners(), corners.len() / kind.corners(), vertices.len() / 3);
    let mut centres = vec![0.0; 3 * elements];
    let mut moments = vec![0.0; kind.components() * elements];
    for i in 0..elements {
        let x = |k: usize, a: usize| vertices[a * points + corners[k * elements + i] as usize];
        let along = |k: usize, a: usize| x(k, a) - x(0, a);
        for a in 0..3 {
            centres[a * elements + i] = (0..n).map(|k| x(k, a)).sum::<f64>() / n as f64;
        }
        let d = [0, 1, 2].map(|a| match n {
            2 => along(1, a),
            _ => {
                let (b, c) = ((a + 1) % 3, (a + 2) % 3);
                0.5 * (along(1, b) * along(2, c) - along(1, c) * along(2, b))
            }
        });
        if kind.is_oriented() {
            for a in 0..3 {
                moments[a * elements + i] = d[a];
            }
        } else {
            let size = d.iter().map(|v| v * v).sum::<f64>().sqrt();
            let pairs =
                [(0, 0, 1.0), (1, 1, 1.0), (2, 2, 1.0), (0, 1, 2.0), (0, 2, 2.0), (1, 2, 2.0)];
            for (c, (a, b, times)) in pairs.into_iter().enumerate() {
                let product = if size > 0.0 { d[a] * d[b] / size } else { 0.0 };
                moments[c * elements + i] = f64::sqrt(times) * product;
            }
        }
    }
    [centres, moments]
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

pub(crate) fn measures<D: Device>(device: &D) {
    for kind in Element::ALL {
        for elements in [1, 5, 700] {
            let mesh = mesh(kind, elements);
            let [centres, moments] = found(device, kind, &mesh);
            let expected = expected(kind, &wide(&mesh.0), &mesh.1);
            assert_close("centres", &centres, &expected[0], 1e-5);
            assert_close("moments", &moments, &expected[1], 1e-3);
        }
    }
}

/// What is gathered is the derivative of `Σ (g · centres + h · moments)`.
pub(crate) fn covectors<D: Device>(device: &D) {
    for kind in Element::ALL {
        let mesh = mesh(kind, 60);
        let mut random = Random::new(8);
        let by = [3, kind.components()]
            .map(|c| (0..60 * c).map(|_| random.between(-1.0, 1.0) as f32).collect::<Vec<_>>());
        let covectors = covectors_of(device, kind, &mesh, &by);
        let energy = |vertices: &[f64]| -> f64 {
            let of = expected(kind, vertices, &mesh.1);
            let both = of.iter().zip(&by).flat_map(|(of, by)| of.iter().zip(by));
            both.map(|(x, &b)| x * f64::from(b)).sum()
        };
        let vertices = wide(&mesh.0);
        for (i, &covector) in covectors.iter().enumerate() {
            let at = |h: f64| {
                let mut moved = vertices.clone();
                moved[i] += h;
                energy(&moved)
            };
            let h = 1e-4;
            let derivative = (at(h) - at(-h)) / (2.0 * h);
            assert!(
                (f64::from(covector) - derivative).abs() < 1e-3,
                "{kind:?} {i}: {covector} {derivative}"
            );
        }
    }
}

/// The inner product of an unoriented element with itself is its squared size, whichever way round it is.
pub(crate) fn sizes<D: Device>(device: &D) {
    for (kind, plain) in [
        (Element::UnorientedSegment, Element::Segment),
        (Element::UnorientedTriangle, Element::Triangle),
    ] {
        let mut mesh = mesh(kind, 40);
        let [_, moments] = found(device, kind, &mesh);
        let [_, directions] = found(device, plain, &mesh);
        for i in 0..40 {
            let square =
                |of: &[f32]| of[i..].iter().step_by(40).map(|&v| f64::from(v).powi(2)).sum::<f64>();
            assert!(
                (square(&moments) - square(&directions)).abs() < 1e-4 * square(&moments).max(1.0)
            );
        }
        // The first two corners change places.
        let (first, rest) = mesh.1.split_at_mut(40);
        first.swap_with_slice(&mut rest[..40]);
        let [_, turned] = found(device, kind, &mesh);
        assert_close("turned", &turned, &wide(&moments), 1e-3);
    }
}

/// Elements without size give no number that is none; nothing of nothing is nothing.
pub(crate) fn nothing<D: Device>(device: &D) {
    for kind in Element::ALL {
        let mesh = (vec![1.0; 9], vec![0u32; kind.corners()]);
        let [_, moments] = found(device, kind, &mesh);
        assert!(moments.iter().all(|&m| m == 0.0));
        let by = [vec![1.0; 3], vec![1.0; kind.components()]];
        let covectors = covectors_of(device, kind, &mesh, &by);
        assert!(covectors.iter().all(|c| c.is_finite()));
        assert!((covectors[0] - 1.0).abs() < 1e-6, "all of what its centre gives");
        let none = (Vec::new(), Vec::new());
        assert!(found(device, kind, &none).iter().all(Vec::is_empty));
        assert!(covectors_of(device, kind, &none, &[Vec::new(), Vec::new()]).is_empty());
    }
}

pub(crate) fn errors<D: Device>(device: &D) {
    let kind = Element::Triangle;
    let vertices = device.alloc::<f32>(12).unwrap();
    let corners = device.alloc::<u32>(6).unwrap();
    let floats = |n: usize| device.alloc::<f32>(n).unwrap();
    let measure = |corners, centres: usize, moments: usize| {
        device.measures(kind, &vertices, corners, &mut floats(centres), &mut floats(moments))
    };
    assert!(measure(&corners, 6, 6).is_ok());
    assert!(measure(&corners, 6, 12).is_err());
    assert!(measure(&corners, 5, 6).is_err());
    assert!(measure(&device.alloc(5).unwrap(), 6, 6).is_err());
    // Elements of no vertices.
    let (none, mut six) = (floats(0), [floats(6), floats(6)]);
    let [centres, moments] = &mut six;
    assert!(device.measures(kind, &none, &corners, centres, moments).is_err());
    let (starts, lists) = (device.alloc::<u32>(4).unwrap(), device.alloc::<u32>(6).unwrap());
    let incidence = Incidence { starts: &starts, corners: &lists };
    let (by, mut out) = (floats(6), floats(12));
    let wrong = device.measure_covectors(kind, &vertices, &corners, &incidence, &by, &by, &mut out);
    assert!(wrong.is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for kind in Element::ALL {
        let mesh = mesh(kind, 5000);
        let by = found(device, kind, &mesh);
        results.push((format!("{kind:?}, covectors"), covectors_of(device, kind, &mesh, &by)));
        let [centres, moments] = by;
        results.push((format!("{kind:?}, centres"), centres));
        results.push((format!("{kind:?}, moments"), moments));
    }
    results
}
