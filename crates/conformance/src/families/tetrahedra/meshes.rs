//! Meshes for the checks, and plain versions of the operators.

use voxalign_compute::ops::simplices::{Incidence, incidence};
use voxalign_compute::ops::tetrahedra::{
    BinGrid, Bins, KuhnBox, Mesh, OUTSIDE, Placed, SampleLists, Samples,
};
use voxalign_compute::{AffineMap, Device, Dims};

use crate::support::Random;

pub(super) type Vector = [f64; 3];

/// From cells to the space of the nodes: oblique, and of other spacings along each axis.
pub(super) const CELLS: AffineMap =
    [[4.0, -1.5, 0.2, -11.0], [1.0, 5.0, 0.7, -8.0], [0.5, -0.4, 3.0, 2.0]];

/// From indices of voxels to that space.
pub(super) const VOXELS: AffineMap =
    [[1.3, -0.2, 0.1, -13.0], [0.1, 1.2, 0.0, -7.0], [0.0, 0.2, 1.5, 1.0]];

pub(super) fn apply(map: &AffineMap, p: Vector) -> Vector {
    map.map(|row| row[0] * p[0] + row[1] * p[1] + row[2] * p[2] + row[3])
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(super) fn determinant(columns: [Vector; 3]) -> f64 {
    let normal = cross(columns[1], columns[2]);
    (0..3).map(|a| columns[0][a] * normal[a]).sum()
}

/// The inverse of a map, by Cramer's rule.
pub(super) fn inverse(map: &AffineMap) -> AffineMap {
    let columns = [0, 1, 2].map(|c| [map[0][c], map[1][c], map[2][c]]);
    let volume = determinant(columns);
    let solve = |b: Vector| {
        [0, 1, 2].map(|k| {
            let mut changed = columns;
            changed[k] = b;
            determinant(changed) / volume
        })
    };
    let mut found = [[0.0; 4]; 3];
    for c in 0..3 {
        let mut unit = [0.0; 3];
        unit[c] = 1.0;
        for (row, value) in found.iter_mut().zip(solve(unit)) {
            row[c] = value;
        }
    }
    for (row, value) in found.iter_mut().zip(solve([map[0][3], map[1][3], map[2][3]])) {
        row[3] = -value;
    }
    found
}

/// A mesh of the host.
#[derive(Clone)]
pub(super) struct HostMesh {
    pub(super) nodes: Vec<f32>,
    pub(super) corners: Vec<u32>,
    pub(super) kuhn: Option<KuhnBox>,
}

/// A box of cells by the paths along permutations of the axes.
pub(super) fn kuhn(cells: [usize; 3]) -> HostMesh {
    let sizes = cells.map(|n| n + 1);
    let count: usize = sizes.iter().product();
    let mut nodes = vec![0.0; 3 * count];
    for i in 0..count {
        let at = [i % sizes[0], i / sizes[0] % sizes[1], i / sizes[0] / sizes[1]];
        for (a, x) in apply(&CELLS, at.map(|k| k as f64)).into_iter().enumerate() {
            nodes[a * count + i] = x as f32;
        }
    }
    let steps = [1, sizes[0], sizes[0] * sizes[1]];
    let paths = [
        ([0, 1, 2], false),
        ([0, 2, 1], true),
        ([1, 0, 2], true),
        ([1, 2, 0], false),
        ([2, 0, 1], false),
        ([2, 1, 0], true),
    ];
    let mut corners = Vec::new();
    for c in 0..cells.iter().product() {
        let at = [c % cells[0], c / cells[0] % cells[1], c / cells[0] / cells[1]];
        let low: usize = (0..3).map(|a| at[a] * steps[a]).sum();
        for (axes, is_odd) in paths {
            let (a, b) = (low + steps[axes[0]], low + steps[axes[0]] + steps[axes[1]]);
            let middle = if is_odd { [b, a] } else { [a, b] };
            let high = b + steps[axes[2]];
            corners.extend([low, middle[0], middle[1], high].map(|node| node as u32));
        }
    }
    HostMesh { nodes, corners, kuhn: Some(KuhnBox { cells, map: inverse(&CELLS) }) }
}

impl HostMesh {
    pub(super) fn count(&self) -> usize {
        self.nodes.len() / 3
    }

    pub(super) fn elements(&self) -> usize {
        self.corners.len() / 4
    }

    /// The same as any mesh, with nodes displaced at random by up to so much.
    pub(super) fn deformed(&self, by: f64) -> Self {
        let mut random = Random::new(21);
        let nodes =
            self.nodes.iter().map(|&x| (f64::from(x) + random.between(-by, by)) as f32).collect();
        Self { nodes, corners: self.corners.clone(), kuhn: None }
    }

    /// Three numbers a node at the corners of an element.
    pub(super) fn at(&self, list: &[f32], element: usize) -> [Vector; 4] {
        [0, 1, 2, 3].map(|k| {
            let node = self.corners[4 * element + k] as usize;
            [0, 1, 2].map(|a| f64::from(list[a * self.count() + node]))
        })
    }

    /// The edges from the first corner of an element.
    pub(super) fn edges(&self, list: &[f32], element: usize) -> [Vector; 3] {
        let x = self.at(list, element);
        [1, 2, 3].map(|k| [0, 1, 2].map(|a| x[k][a] - x[0][a]))
    }

    /// The weights of a point in an element, by Cramer's rule.
    pub(super) fn weights(&self, element: usize, p: Vector) -> [f64; 4] {
        let (edges, o) = (self.edges(&self.nodes, element), self.at(&self.nodes, element)[0]);
        let d = [0, 1, 2].map(|a| p[a] - o[a]);
        let volume = determinant(edges);
        let [a, b, c] = [0, 1, 2].map(|k| {
            let mut changed = edges;
            changed[k] = d;
            determinant(changed) / volume
        });
        [1.0 - a - b - c, a, b, c]
    }

    /// The first element that a point is in.
    pub(super) fn find(&self, p: Vector) -> u32 {
        let inside = |&e: &usize| self.weights(e, p).iter().all(|&w| w >= -1e-6);
        (0..self.elements()).find(inside).map_or(OUTSIDE, |e| e as u32)
    }

    /// Points in elements at random, half of them on corners, edges or faces, and some around the mesh.
    pub(super) fn points(&self, count: usize) -> Vec<f32> {
        let mut random = Random::new(22);
        let mut points = vec![0.0; 3 * count];
        for i in 0..count {
            let element = random.between(0.0, self.elements() as f64) as usize;
            let mut w = [0; 4].map(|_| random.unit());
            for (k, w) in w.iter_mut().enumerate() {
                // All 15 choices of corners, and inner points as often.
                if i % 2 == 0 && (i / 2 % 15 + 1) >> k & 1 == 0 {
                    *w = 0.0;
                }
            }
            let sum: f64 = w.iter().sum();
            let x = self.at(&self.nodes, element);
            for a in 0..3 {
                let inside: f64 = (0..4).map(|k| w[k] * x[k][a] / sum).sum();
                let beyond = if i % 11 == 10 { 60.0 } else { 0.0 };
                points[a * count + i] = (inside + random.between(-beyond, beyond)) as f32;
            }
        }
        points
    }
}

/// Samples of the host.
#[derive(Clone)]
pub(super) enum Where {
    Voxels(Dims),
    Points(Vec<f32>),
}

impl Where {
    /// The position of every sample.
    pub(super) fn positions(&self) -> Vec<Vector> {
        match self {
            Self::Voxels(dims) => crate::support::indices(*dims)
                .map(|at| apply(&VOXELS, at.map(|k| k as f64)))
                .collect(),
            Self::Points(points) => {
                let n = points.len() / 3;
                (0..n).map(|i| [0, 1, 2].map(|a| f64::from(points[a * n + i]))).collect()
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Voxels(dims) => crate::support::len(*dims),
            Self::Points(points) => points.len() / 3,
        }
    }
}

/// A mesh and samples on a device.
pub(super) struct There<D: Device> {
    nodes: D::Buffer<f32>,
    corners: D::Buffer<u32>,
    kuhn: Option<KuhnBox>,
    points: Option<D::Buffer<f32>>,
    dims: Dims,
    elements: D::Buffer<u32>,
    lists: SampleLists<D>,
    incidence: [D::Buffer<u32>; 2],
    pub(super) samples: usize,
}

/// Bins over a mesh; some of it is outside of them.
pub(super) fn bins<D: Device>(device: &D, mesh: &HostMesh) -> Bins<D> {
    let nodes = device.upload(&mesh.nodes).unwrap();
    let corners = device.upload(&mesh.corners).unwrap();
    let grid = BinGrid::between([-9.0, -5.0, 3.0], [3.0, 12.0, 12.0], mesh.elements());
    Bins::new(device, &Mesh { nodes: &nodes, corners: &corners, kuhn: None }, grid).unwrap()
}

impl<D: Device> There<D> {
    pub(super) fn new(device: &D, mesh: &HostMesh, samples: &Where) -> Self {
        let (points, dims) = match samples {
            Where::Voxels(dims) => (None, *dims),
            Where::Points(points) => (Some(device.upload(points).unwrap()), [0; 3]),
        };
        let count = samples.count();
        let [nodes, corners] = incidence(mesh.count(), &mesh.corners).unwrap();
        let mut there = Self {
            nodes: device.upload(&mesh.nodes).unwrap(),
            corners: device.upload(&mesh.corners).unwrap(),
            kuhn: mesh.kuhn,
            points,
            dims,
            elements: device.alloc(count).unwrap(),
            lists: SampleLists::new(device, &device.alloc(0).unwrap(), 0).unwrap(),
            incidence: [nodes, corners].map(|l| device.upload(&l).unwrap()),
            samples: count,
        };
        let bins = bins(device, mesh);
        let mut elements = device.alloc(count).unwrap();
        let bins = mesh.kuhn.is_none().then(|| bins.lists());
        device.locate(&there.mesh(), &there.samples(), bins, None, &mut elements).unwrap();
        there.lists = SampleLists::new(device, &elements, mesh.elements()).unwrap();
        there.elements = elements;
        there
    }

    pub(super) fn mesh(&self) -> Mesh<'_, D> {
        Mesh { nodes: &self.nodes, corners: &self.corners, kuhn: self.kuhn }
    }

    pub(super) fn samples(&self) -> Samples<'_, D> {
        match &self.points {
            Some(points) => Samples::points(points),
            None => Samples::voxels(self.dims, VOXELS),
        }
    }

    pub(super) fn placed(&self) -> Placed<'_, D> {
        let elements = self.kuhn.is_none().then_some(&self.elements);
        Placed { mesh: self.mesh(), samples: self.samples(), elements }
    }

    pub(super) fn located(&self, device: &D) -> Vec<u32> {
        device.download(&self.elements).unwrap()
    }

    pub(super) fn weights(&self, device: &D) -> Vec<f32> {
        let mut out = device.alloc(4 * self.samples).unwrap();
        device.weights(&self.placed(), &mut out).unwrap();
        device.into_host(out).unwrap()
    }

    pub(super) fn to_samples(&self, device: &D, values: &[f32], components: usize) -> Vec<f32> {
        let mut out = device.alloc(components * self.samples).unwrap();
        let values = device.upload(values).unwrap();
        device.to_samples(&self.placed(), &values, &mut out).unwrap();
        device.into_host(out).unwrap()
    }

    pub(super) fn to_nodes(&self, device: &D, values: &[f32], components: usize) -> Vec<f32> {
        let mut out = device.alloc(components * self.nodes_count()).unwrap();
        let values = device.upload(values).unwrap();
        let [starts, corners] = &self.incidence;
        let lists = self.lists.gather(Incidence { starts, corners });
        // Voxels in a box have no need of them.
        let lists = (self.kuhn.is_none() || self.points.is_some()).then_some(lists);
        device.to_nodes(&self.placed(), lists, &values, &mut out).unwrap();
        device.into_host(out).unwrap()
    }

    fn nodes_count(&self) -> usize {
        use voxalign_compute::DeviceBuffer;
        self.nodes.len() / 3
    }
}

/// The nodes and weights of samples, plainly; none outside. On faces, where elements share a value, any of them serves.
pub(super) fn rows(mesh: &HostMesh, samples: &Where) -> Vec<Option<([usize; 4], [f64; 4])>> {
    let row = |p: Vector| {
        let element = mesh.find(p);
        (element != OUTSIDE).then(|| {
            let w = mesh.weights(element as usize, p).map(|w| w.max(0.0));
            let sum: f64 = w.iter().sum();
            let nodes = [0, 1, 2, 3].map(|k| mesh.corners[4 * element as usize + k] as usize);
            (nodes, w.map(|w| w / sum))
        })
    };
    samples.positions().into_iter().map(row).collect()
}
