//! Covectors at samples, by the linear map that carries the edges of an element to others, and by differences of an energy.

use voxalign_compute::Device;
use voxalign_compute::ops::tetrahedra::{Mesh, OUTSIDE, Placed, Samples};

use super::meshes::{HostMesh, There, Vector, determinant, kuhn};
use super::{cases, random};
use crate::support::assert_close;

/// Other positions of the nodes of a mesh: turned by a right angle, stretched, and each displaced at random.
pub(super) fn others(mesh: &HostMesh) -> Vec<f32> {
    let (n, by) = (mesh.count(), random(41, mesh.nodes.len()));
    let turned = [1, 2, 0].into_iter().flat_map(|a| &mesh.nodes[a * n..(a + 1) * n]);
    turned.zip(by).map(|(&x, by)| 1.25 * x + 0.2 * by + 3.0).collect()
}

pub(super) fn covectors_of<D: Device>(
    device: &D,
    there: &There<D>,
    nodes: &[f32],
    covectors: &[f32],
) -> Vec<f32> {
    let [nodes, covectors] = [nodes, covectors].map(|list| device.upload(list).unwrap());
    let mut out = device.alloc(3 * there.samples).unwrap();
    device.sample_covectors(&there.placed(), &nodes, &covectors, &mut out).unwrap();
    device.into_host(out).unwrap()
}

/// `Bᵀ c` in an element. `B` has the rows `b` with `b · y = x` for all edges `y` of the mesh and component `a` of the others.
fn pulled_back(mesh: &HostMesh, nodes: &[f32], element: usize, covector: Vector) -> Vector {
    let (y, x) = (mesh.edges(&mesh.nodes, element), mesh.edges(nodes, element));
    let transposed = [0, 1, 2].map(|a| [y[0][a], y[1][a], y[2][a]]);
    let volume = determinant(transposed);
    let b = |a: usize, j: usize| {
        let mut changed = transposed;
        changed[j] = [x[0][a], x[1][a], x[2][a]];
        determinant(changed) / volume
    };
    [0, 1, 2].map(|j| (0..3).map(|a| b(a, j) * covector[a]).sum())
}

fn vector(list: &[f32], i: usize) -> Vector {
    let n = list.len() / 3;
    [0, 1, 2].map(|a| f64::from(list[a * n + i]))
}

/// Covectors at samples.
pub(crate) fn covectors<D: Device>(device: &D) {
    for (name, mesh, samples) in cases() {
        let there = There::new(device, &mesh, &samples);
        let (n, nodes) = (there.samples, others(&mesh));
        let covectors = random(42, 3 * n);
        let mut expected = vec![0.0; 3 * n];
        for (i, element) in there.located(device).into_iter().enumerate() {
            if element == OUTSIDE {
                continue;
            }
            let found = pulled_back(&mesh, &nodes, element as usize, vector(&covectors, i));
            for (a, found) in found.into_iter().enumerate() {
                expected[a * n + i] = found;
            }
        }
        let found = covectors_of(device, &there, &nodes, &covectors);
        // Nodes of a box are rounded, its map is not.
        let tolerance = if mesh.kuhn.is_some() { 2e-6 } else { 2e-7 };
        assert_close(name, &found, &expected, tolerance);
        differences(device, name, &mesh, &samples.positions(), &there);
    }
}

/// The matrix of a quadratic energy, and what it adds to it for each unit of position.
const ENERGY: ([[f64; 3]; 3], Vector) =
    ([[0.05, 0.02, -0.01], [0.02, 0.08, 0.03], [-0.01, 0.03, 0.04]], [0.3, -0.7, 0.2]);

fn energy(x: Vector) -> f64 {
    let (matrix, linear) = ENERGY;
    (0..3)
        .map(|a| x[a] * ((0..3).map(|b| 0.5 * matrix[a][b] * x[b]).sum::<f64>() + linear[a]))
        .sum()
}

/// Differences of an energy where samples are by other positions, with its derivative where [`to_samples`] says that they are.
///
/// [`to_samples`]: voxalign_compute::ops::Tetrahedra::to_samples
fn differences<D: Device>(
    device: &D,
    name: &str,
    mesh: &HostMesh,
    positions: &[Vector],
    there: &There<D>,
) {
    const STEP: f64 = 0.5;
    let (n, nodes) = (there.samples, others(mesh));
    let carried = there.to_samples(device, &nodes, 3);
    let (matrix, linear) = ENERGY;
    let mut covectors = vec![0.0; 3 * n];
    for i in 0..n {
        let x = vector(&carried, i);
        for a in 0..3 {
            let slope: f64 = (0..3).map(|b| matrix[a][b] * x[b]).sum();
            covectors[a * n + i] = (slope + linear[a]) as f32;
        }
    }
    let mut expected = vec![0.0; 3 * n];
    for (i, element) in there.located(device).into_iter().enumerate() {
        if element == OUTSIDE {
            continue;
        }
        let corners = mesh.at(&nodes, element as usize);
        let at = |y: Vector| {
            let w = mesh.weights(element as usize, y);
            energy([0, 1, 2].map(|a| (0..4).map(|k| w[k] * corners[k][a]).sum()))
        };
        for a in 0..3 {
            let [mut less, mut more] = [positions[i]; 2];
            less[a] -= STEP;
            more[a] += STEP;
            expected[a * n + i] = (at(more) - at(less)) / (2.0 * STEP);
        }
    }
    let found = covectors_of(device, there, &nodes, &covectors);
    assert_close(&format!("{name}, differences"), &found, &expected, 1e-6);
}

/// Elements without a positive volume, numbers of no element, and positions and covectors that are no numbers.
pub(crate) fn covectors_of_nothing<D: Device>(device: &D) {
    let host = kuhn([2, 1, 1]);
    let mut corners = host.corners.clone();
    // The second element is turned inside out, the third flat.
    corners.swap(5, 6);
    corners[4 * 2 + 3] = corners[4 * 2];
    let last = host.elements() - 1;
    let elements = [0, 1, 2, 3, OUTSIDE, 1000, last as u32, 4];
    let n = elements.len();
    let mut covectors = random(43, 3 * n);
    for a in 0..3 {
        covectors[a * n + 5] = covectors[a * n + 6];
        covectors[a * n + 4] = f32::NAN;
    }
    let list = others(&host);
    let [nodes, others, covector] =
        [&host.nodes, &list, &covectors].map(|list| device.upload(list).unwrap());
    let (corners, elements) = (device.upload(&corners).unwrap(), device.upload(&elements).unwrap());
    // An element is all that matters.
    let points = device.upload(&vec![f32::NAN; 3 * n]).unwrap();
    let mut out = device.alloc(3 * n).unwrap();
    let mesh = Mesh { nodes: &nodes, corners: &corners, kuhn: None };
    let samples = Samples::points(&points);
    let placed = Placed { mesh, samples, elements: Some(&elements) };
    device.sample_covectors(&placed, &others, &covector, &mut out).unwrap();
    let found = device.into_host(out).unwrap();
    let mut expected = vec![0.0; 3 * n];
    for (i, element) in [(0, 0), (3, 3), (5, last), (6, last), (7, 4)] {
        let found = pulled_back(&host, &list, element, vector(&covectors, i));
        (0..3).for_each(|a| expected[a * n + i] = found[a]);
    }
    assert_close("elements and none", &found, &expected, 2e-7);
    let none = device.upload::<u32>(&[]).unwrap();
    let placed = Placed { mesh: Mesh { corners: &none, ..mesh }, ..placed };
    let mut out = device.upload(&vec![1.0; 3 * n]).unwrap();
    device.sample_covectors(&placed, &others, &covector, &mut out).unwrap();
    assert_eq!(device.into_host(out).unwrap(), vec![0.0; 3 * n], "no elements");
    // Positions as they are leave covectors in whole elements as they are.
    let there = There::new(device, &host, &super::Where::Voxels([4, 5, 3]));
    let covectors = random(44, 3 * there.samples);
    let found = covectors_of(device, &there, &host.nodes, &covectors);
    let n = there.samples;
    let located = there.located(device);
    let expected = |j: usize| if located[j % n] == OUTSIDE { 0.0 } else { covectors[j].into() };
    assert_close("as it is", &found, &(0..3 * n).map(expected).collect::<Vec<_>>(), 1e-6);
}
