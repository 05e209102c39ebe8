//! Meshes of tetrahedra against a search through all elements, and sums over all samples.

mod covectors;
mod meshes;

use voxalign_compute::Device;
use voxalign_compute::ops::tetrahedra::{
    BinGrid, Hint, Mesh, OUTSIDE, Placed, Samples, neighbours,
};

use crate::support::{Random, Results, assert_bits_of_cpu, assert_close};
pub(crate) use covectors::{covectors, covectors_of_nothing};
use meshes::{HostMesh, There, VOXELS, Where, bins, determinant, kuhn, rows};

/// Boxes, and any meshes, with samples in them.
fn cases() -> Vec<(&'static str, HostMesh, Where)> {
    let small = kuhn([3, 2, 4]);
    let any = small.deformed(0.4);
    let points = |mesh: &HostMesh, n: usize| Where::Points(mesh.points(n));
    vec![
        ("voxels in a box", small.clone(), Where::Voxels([17, 13, 11])),
        ("a slice in a box", kuhn([5, 4, 1]), Where::Voxels([19, 1, 9])),
        ("points in a box", small.clone(), points(&small, 700)),
        ("voxels in a mesh", any.clone(), Where::Voxels([9, 10, 7])),
        ("points in a mesh", any.clone(), points(&any, 500)),
        ("many points in one cell", kuhn([1, 1, 1]).deformed(0.2), points(&kuhn([1, 1, 1]), 900)),
    ]
}

fn random(seed: u64, n: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..n).map(|_| random.between(-2.0, 2.0) as f32).collect()
}

/// Elements in a box: those of the search where a point is within one, and one of those that share it elsewhere.
pub(crate) fn boxes<D: Device>(device: &D) {
    for (name, mesh, samples) in cases().into_iter().filter(|case| case.1.kuhn.is_some()) {
        let there = There::new(device, &mesh, &samples);
        let found = there.located(device);
        for (i, (&found, p)) in found.iter().zip(samples.positions()).enumerate() {
            let expected = mesh.find(p);
            if found == OUTSIDE || expected == OUTSIDE {
                // Rounding of the nodes moves the border.
                let near = [found, expected].into_iter().filter(|&e| e != OUTSIDE);
                for e in near {
                    let weights = mesh.weights(e as usize, p);
                    assert!(weights.iter().any(|w| w.abs() < 1e-5), "{name} {i}: {weights:?}");
                }
                continue;
            }
            let weights = mesh.weights(found as usize, p);
            assert!(weights.iter().all(|&w| w > -1e-5), "{name} {i}: {found} {weights:?}");
            let is_within = weights.iter().all(|&w| w > 1e-5);
            assert!(!is_within || found == expected, "{name} {i}: {found} {expected}");
        }
    }
}

/// Elements of any mesh: those of the search through all, on corners, edges and faces, too; with and without a hint.
pub(crate) fn located<D: Device>(device: &D) {
    for (name, mesh, samples) in cases().into_iter().filter(|case| case.1.kuhn.is_none()) {
        let expected: Vec<u32> = samples.positions().into_iter().map(|p| mesh.find(p)).collect();
        let there = There::new(device, &mesh, &samples);
        assert_eq!(there.located(device), expected, "{name}");
        assert!(expected.contains(&OUTSIDE), "{name}: none is outside");
        // Where samples would be after another deformation; some numbers are of no element.
        let mut before: Vec<u32> = expected.clone();
        for (i, element) in before.iter_mut().enumerate() {
            match i % 5 {
                0 => *element = OUTSIDE,
                1 => *element = (i * 7 % mesh.elements()) as u32,
                2 => *element = mesh.elements() as u32,
                _ => {}
            }
        }
        let elements = device.upload(&before).unwrap();
        let beside = device.upload(&neighbours(&mesh.corners).unwrap()).unwrap();
        let hint = Hint { elements: &elements, neighbours: &beside };
        let bins = bins(device, &mesh);
        let mut out = device.alloc(there.samples).unwrap();
        let lists = Some(bins.lists());
        device.locate(&there.mesh(), &there.samples(), lists, Some(hint), &mut out).unwrap();
        assert_eq!(device.into_host(out).unwrap(), expected, "{name}, with a hint");
    }
}

/// Values at samples, their weights, and a field.
pub(crate) fn samples<D: Device>(device: &D) {
    for (name, mesh, samples) in cases() {
        let (there, rows) = (There::new(device, &mesh, &samples), rows(&mesh, &samples));
        let n = there.samples;
        for components in [1, 3] {
            let values = random(31, components * mesh.count());
            let mut expected = vec![0.0; components * n];
            for (i, row) in rows.iter().enumerate() {
                for (c, (nodes, weights)) in
                    (0..components).flat_map(|c| row.iter().map(move |row| (c, *row)))
                {
                    let at = |k: usize| f64::from(values[c * mesh.count() + nodes[k]]);
                    expected[c * n + i] = (0..4).map(|k| weights[k] * at(k)).sum();
                }
            }
            let found = there.to_samples(device, &values, components);
            assert_close(&format!("{name}, {components}"), &found, &expected, 2e-5);
            if components == 3 {
                field(device, name, &there, &values, &expected);
            }
        }
        // Samples on faces have the same sums in all elements that share them, but not the same weights.
        let weights = there.weights(device);
        for (i, row) in rows.iter().enumerate() {
            let sum: f32 = (0..4).map(|k| weights[k * n + i]).sum();
            let expected = if row.is_some() { 1.0 } else { 0.0 };
            assert!((sum - expected).abs() < 1e-5, "{name} {i}: {sum}");
            assert!((0..4).all(|k| weights[k * n + i] >= 0.0), "{name} {i}");
        }
    }
}

fn field<D: Device>(device: &D, name: &str, there: &There<D>, values: &[f32], plain: &[f64]) {
    let (units, n) = ([[0.5, 0.1, 0.0], [-0.2, 0.8, 0.3], [0.0, 0.4, 1.5]], there.samples);
    let expected: Vec<f64> =
        (0..3 * n).map(|i| (0..3).map(|c| units[i / n][c] * plain[c * n + i % n]).sum()).collect();
    let mut out = device.alloc(3 * n).unwrap();
    let values = device.upload(values).unwrap();
    device.field(&there.placed(), &values, &units, &mut out).unwrap();
    assert_close(&format!("{name}, field"), &device.into_host(out).unwrap(), &expected, 5e-5);
}

/// Sums at nodes, which are the adjoint of values at samples.
pub(crate) fn nodes<D: Device>(device: &D) {
    for (name, mesh, samples) in cases() {
        let (there, rows) = (There::new(device, &mesh, &samples), rows(&mesh, &samples));
        let (n, count) = (there.samples, mesh.count());
        for components in [1, 3] {
            let values = random(32, components * n);
            let mut expected = vec![0.0; components * count];
            for c in 0..components {
                for (i, row) in rows.iter().enumerate() {
                    let Some((nodes, weights)) = row else { continue };
                    for k in 0..4 {
                        expected[c * count + nodes[k]] += weights[k] * f64::from(values[c * n + i]);
                    }
                }
            }
            let found = there.to_nodes(device, &values, components);
            assert_close(&format!("{name}, {components}"), &found, &expected, 3e-4);
        }
    }
}

/// Ratios of volumes and the least of them.
pub(crate) fn ratios<D: Device>(device: &D) {
    for (by, mesh) in [(0.3, kuhn([3, 2, 4])), (3.0, kuhn([7, 5, 6]).deformed(0.3))] {
        let u: Vec<f32> = random(33, mesh.nodes.len()).iter().map(|u| by * u).collect();
        let (found, least) = ratios_of(device, &mesh, &u);
        let expected: Vec<f64> = (0..mesh.elements())
            .map(|e| {
                let (x, u) = (mesh.edges(&mesh.nodes, e), mesh.edges(&u, e));
                let both = [0, 1, 2].map(|k| [0, 1, 2].map(|a| x[k][a] + u[k][a]));
                determinant(both) / determinant(x)
            })
            .collect();
        let most = expected.iter().fold(1.0f64, |most, v| most.max(v.abs()));
        assert_close("ratios", &found, &expected, 1e-5 * most);
        let smallest = found.iter().copied().fold(f32::INFINITY, f32::min);
        let first = found.iter().position(|&r| r == smallest).unwrap();
        assert_eq!(least, [f64::from(smallest), first as f64]);
    }
    // The first of several, and what is not a number before all.
    let mesh = kuhn([2, 2, 2]);
    let mut u = vec![0.0; mesh.nodes.len()];
    let (found, least) = ratios_of(device, &mesh, &u);
    assert!(found.iter().all(|&r| r == 1.0));
    assert_eq!(least, [1.0, 0.0]);
    u[mesh.corners[4 * 17 + 3] as usize] = f32::NAN;
    let (found, least) = ratios_of(device, &mesh, &u);
    let first = found.iter().position(|r| r.is_nan()).unwrap();
    assert_eq!(least, [f64::NEG_INFINITY, first as f64]);
    let none = HostMesh { nodes: vec![], corners: vec![], kuhn: None };
    assert_eq!(ratios_of(device, &none, &[]).1, [f64::INFINITY, 0.0]);
}

fn ratios_of<D: Device>(device: &D, mesh: &HostMesh, u: &[f32]) -> (Vec<f32>, Vec<f64>) {
    let (nodes, corners) =
        (device.upload(&mesh.nodes).unwrap(), device.upload(&mesh.corners).unwrap());
    let mut out = device.alloc(mesh.elements()).unwrap();
    let (u, mut least) = (device.upload(u).unwrap(), device.alloc(2).unwrap());
    let mesh = Mesh { nodes: &nodes, corners: &corners, kuhn: None };
    device.ratios(&mesh, &u, &mut out, &mut least).unwrap();
    (device.into_host(out).unwrap(), device.into_host(least).unwrap())
}

/// Strains and stresses, by the gradient that carries the edges of an element to their displacements.
pub(crate) fn strain<D: Device>(device: &D) {
    let mesh = kuhn([3, 2, 4]).deformed(0.3);
    let (u, m) = (random(34, mesh.nodes.len()), mesh.elements());
    let shear: Vec<f32> = (0..m).map(|e| 0.5 + (e % 7) as f32).collect();
    let [strains, mises] = strains_of(device, &mesh, &u, &shear);
    let (mut expected, mut stresses) = (vec![0.0; 6 * m], vec![0.0; m]);
    for e in 0..m {
        let (x, u) = (mesh.edges(&mesh.nodes, e), mesh.edges(&u, e));
        // Rows of the matrix of edges times the gradient of component `i` are its displacements.
        let transposed = [0, 1, 2].map(|a| [x[0][a], x[1][a], x[2][a]]);
        let gradient = |i: usize, j: usize| {
            let mut changed = transposed;
            changed[j] = [u[0][i], u[1][i], u[2][i]];
            determinant(changed) / determinant(transposed)
        };
        let shears = [(1, 2), (2, 0), (0, 1)];
        for k in 0..3 {
            expected[k * m + e] = gradient(k, k);
            let (i, j) = shears[k];
            expected[(3 + k) * m + e] = gradient(i, j) + gradient(j, i);
        }
        let strain = [0, 1, 2, 3, 4, 5].map(|k| expected[k * m + e]);
        // Any other modulus gives the same.
        let (mu, lambda) = (f64::from(shear[e]), 3.0);
        let pressure = lambda * (strain[0] + strain[1] + strain[2]);
        let normal = [0, 1, 2].map(|k| pressure + 2.0 * mu * strain[k]);
        let half: f64 = (0..3).map(|k| 0.5 * (normal[k] - normal[(k + 1) % 3]).powi(2)).sum();
        let tau: f64 = (3..6).map(|k| 3.0 * (mu * strain[k]).powi(2)).sum();
        stresses[e] = (half + tau).sqrt();
    }
    assert_close("strains", &strains, &expected, 1e-4);
    assert_close("stresses", &mises, &stresses, 5e-3);
}

fn strains_of<D: Device>(device: &D, mesh: &HostMesh, u: &[f32], shear: &[f32]) -> [Vec<f32>; 2] {
    let (nodes, corners) =
        (device.upload(&mesh.nodes).unwrap(), device.upload(&mesh.corners).unwrap());
    let [u, shear] = [u, shear].map(|list| device.upload(list).unwrap());
    let [mut strains, mut mises] = [6, 1].map(|c| device.alloc(c * mesh.elements()).unwrap());
    let mesh = Mesh { nodes: &nodes, corners: &corners, kuhn: None };
    device.strain(&mesh, &u, &shear, &mut strains, &mut mises).unwrap();
    [strains, mises].map(|b| device.into_host(b).unwrap())
}

pub(crate) fn errors<D: Device>(device: &D) {
    let host = kuhn([2, 1, 1]);
    let (nodes, corners) =
        (device.upload(&host.nodes).unwrap(), device.upload(&host.corners).unwrap());
    let floats = |n: usize| device.alloc::<f32>(n).unwrap();
    let (points, mut elements) = (floats(15), device.alloc::<u32>(5).unwrap());
    let samples = Samples::points(&points);
    let of_box = Mesh { nodes: &nodes, corners: &corners, kuhn: host.kuhn };
    let any = Mesh { kuhn: None, ..of_box };
    assert!(device.locate(&of_box, &samples, None, None, &mut elements).is_ok());
    assert!(device.locate(&any, &samples, None, None, &mut elements).is_err(), "no bins");
    let mut few = device.alloc::<u32>(4).unwrap();
    assert!(device.locate(&of_box, &samples, None, None, &mut few).is_err());
    let mut wrong = host.kuhn.unwrap();
    wrong.cells = [1, 1, 1];
    let wrong = Mesh { kuhn: Some(wrong), ..of_box };
    assert!(device.locate(&wrong, &samples, None, None, &mut elements).is_err(), "other cells");
    let mut map = VOXELS;
    map[0][0] = f64::NAN;
    let voxels = Samples::voxels([5, 1, 1], map);
    assert!(device.locate(&of_box, &voxels, None, None, &mut elements).is_err());
    let placed = Placed { mesh: any, samples, elements: None };
    assert!(device.weights(&placed, &mut floats(20)).is_err(), "no elements");
    let placed = Placed { mesh: of_box, samples, elements: None };
    assert!(device.weights(&placed, &mut floats(20)).is_ok());
    assert!(device.weights(&placed, &mut floats(15)).is_err());
    let to = |values: usize, out: usize| {
        device.to_samples(&placed, &floats(values), &mut floats(out)).is_ok()
    };
    assert!(to(12, 5) && to(36, 15));
    assert!(!to(36, 5) && !to(24, 10));
    assert!(
        device.to_nodes(&placed, None, &floats(15), &mut floats(36)).is_err(),
        "points have lists"
    );
    let flat = Samples::voxels([5, 2, 1], [[0.0; 4]; 3]);
    let placed = Placed { mesh: of_box, samples: flat, elements: None };
    assert!(device.to_nodes(&placed, None, &floats(30), &mut floats(36)).is_err(), "no inverse");
    let pull = |nodes: usize, covectors: usize, out: usize| {
        let (nodes, covectors, mut out) = (floats(nodes), floats(covectors), floats(out));
        device.sample_covectors(&placed, &nodes, &covectors, &mut out).is_ok()
    };
    assert!(pull(36, 30, 30));
    assert!(!pull(39, 30, 30) && !pull(36, 33, 33) && !pull(36, 30, 27));
    let unplaced = Placed { mesh: any, ..placed };
    assert!(
        device.sample_covectors(&unplaced, &floats(36), &floats(30), &mut floats(30)).is_err(),
        "no elements"
    );
    let mut ratios = floats(12);
    assert!(device.ratios(&any, &floats(36), &mut ratios, &mut device.alloc(2).unwrap()).is_ok());
    assert!(device.ratios(&any, &floats(36), &mut ratios, &mut device.alloc(1).unwrap()).is_err());
    assert!(device.strain(&any, &floats(36), &floats(12), &mut floats(72), &mut ratios).is_ok());
    assert!(device.strain(&any, &floats(36), &floats(11), &mut floats(72), &mut ratios).is_err());
    let grid = BinGrid { edge: 0.0, ..BinGrid::between([0.0; 3], [1.0; 3], 12) };
    let (mut offsets, mut count) = (device.alloc(12).unwrap(), device.alloc(1).unwrap());
    assert!(device.bin_offsets(&any, &grid, &mut offsets, &mut count).is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for (name, mesh, samples) in cases() {
        let there = There::new(device, &mesh, &samples);
        let elements = there.located(device).iter().map(|&e| e as f32).collect();
        results.push((format!("{name}, elements"), elements));
        results.push((format!("{name}, weights"), there.weights(device)));
        for components in [1, 3] {
            let at = |of: &str| format!("{name}, {of}, {components}");
            let values = random(35, components * mesh.count());
            results.push((at("samples"), there.to_samples(device, &values, components)));
            let values = random(36, components * there.samples);
            results.push((at("nodes"), there.to_nodes(device, &values, components)));
        }
        let values = random(40, 3 * there.samples);
        let found = covectors::covectors_of(device, &there, &covectors::others(&mesh), &values);
        results.push((format!("{name}, covectors"), found));
        let u = random(37, mesh.nodes.len());
        let (ratios, least) = ratios_of(device, &mesh, &u);
        let [strains, mises] = strains_of(device, &mesh, &u, &random(38, mesh.elements()));
        results.push((format!("{name}, ratios"), ratios));
        results.push((format!("{name}, least"), least.iter().map(|&v| v as f32).collect()));
        results.push((format!("{name}, strains"), strains));
        results.push((format!("{name}, stresses"), mises));
    }
    results
}
