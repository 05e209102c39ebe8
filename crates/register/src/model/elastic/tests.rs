use super::force::NodalForces;
use super::*;
use crate::attachment::ChannelSimilarity;
use crate::model::Sources;
use crate::similarity::Similarity;
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::Tetrahedra;
use voxalign_elasticity::{Material, Materials, TetraBox};
use voxalign_image::{Index, Matrix3, Vector3, World};

/// Numbers for tests, the same every time.
struct Random(u64);

impl Random {
    /// From -1 to 1.
    fn number(&mut self) -> f64 {
        let (factor, more) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(more);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn vectors(&mut self, n: usize, size: f64) -> Vec<Vector3<f64>> {
        (0..n).map(|_| Vector3::from_fn(|_, _| size * self.number())).collect()
    }
}

/// A grid that is turned by some angles.
fn turned(dims: [usize; 3], spacing: [f64; 3], angle: f64, origin: [f64; 3]) -> Grid {
    let (s, c) = angle.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0)
        * Matrix3::new(c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c);
    let matrix = turn * Matrix3::from_diagonal(&Vector3::from(spacing));
    Grid::new(dims, Affine::<Index, World>::new(matrix, Vector3::from(origin))).unwrap()
}

fn values(grid: &Grid, phase: f64) -> Vec<f32> {
    let [nx, ny, _] = grid.dims();
    let at = |i: usize| {
        let index = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
        let x = grid.index_to_world(index);
        0.5 + 0.15 * ((0.4 * x.x + phase).sin() + (0.5 * x.y).cos() + (0.3 * x.z + 0.2 * x.x).sin())
    };
    (0..grid.len()).map(|i| at(i) as f32).collect()
}

/// A pair of images with a body between them.
struct Setup {
    device: Cpu,
    level: BodyLevel,
    mesh: DeviceMesh<Cpu>,
    places: Places<Cpu>,
    reference: Vec<f32>,
    moved: Vec<Moved<Cpu>>,
    affine: Affine,
    similarity: Similarity,
}

const PRESSURE: f64 = 3.0;

impl Setup {
    fn new(in_box: bool, similarity: Similarity) -> Self {
        let device = Cpu::new(Some(2)).unwrap();
        let grid = turned([14, 12, 11], [2.0, 2.2, 2.5], 0.2, [5.0, -8.0, 3.0]);
        let cells = TetraBox::over(&grid, 9.0).unwrap();
        let material = Materials::Uniform(Material::new(1000.0, 0.3, 1000.0).unwrap());
        let body = Body::new(cells.mesh().unwrap(), &material).unwrap();
        let fixed = Fixed::none(body.mesh()).unwrap();
        let cells = in_box.then_some(cells);
        let level = BodyLevel { factor: 1, body: Arc::new(body), fixed, cells };
        let mesh = DeviceMesh::new(&device, &level).unwrap();
        let places = Places::new(&device, &mesh, &grid).unwrap();
        let affine = Affine::new(
            Matrix3::new(1.02, 0.05, 0.0, -0.04, 0.98, 0.02, 0.01, 0.0, 1.03),
            Vector3::new(1.1, -0.7, 0.4),
        );
        let other = turned([24, 22, 20], [1.7, 1.8, 2.1], -0.1, [-2.0, -12.0, -2.0]);
        let image = DeviceImage {
            values: device.upload(&values(&other, 0.3)).unwrap(),
            grid: other,
            outside: 0.0,
            open: false,
        };
        let reference = values(&grid, 0.0);
        let moved = Moved::all(vec![image], &grid, &affine);
        Self { device, level, mesh, places, reference, moved, affine, similarity }
    }

    fn volume(&self) -> f64 {
        self.places.grid.len() as f64 * self.places.grid.voxel_volume()
    }

    /// The energy, µJ, and the forces on the vertices, mN, of displacements in mm.
    fn at(&self, u: &[Vector3<f64>], force: Force) -> (f64, Vec<Vector3<f64>>) {
        let Self { device, mesh, places, .. } = self;
        let (grid, n) = (&places.grid, places.grid.len());
        let displacements = device.upload(&body::planes(u)).unwrap();
        let mut field = device.alloc(3 * n).unwrap();
        let placed = places.placed(mesh);
        device.field(&placed, &displacements, &places.units(), &mut field).unwrap();
        let mut warped = device.alloc(n).unwrap();
        self.moved[0].warp_to(device, &field, grid.dims(), &mut warped).unwrap();
        let reference = device.upload(&self.reference).unwrap();
        let (dims, weights, reference_moves) = (grid.dims(), None, false);
        let images =
            [Images { reference: &reference, moved: &warped, weights, dims, reference_moves }];
        let (channel, weight) = (0, 1.0);
        let similarity = self.similarity;
        let mut shared: crate::attachment::Attachments<Cpu> =
            vec![Box::new(ChannelSimilarity { channel, similarity, weight })];
        let own = &mut Vec::new();
        let counted_volume = self.volume();
        let mut sources = Sources { shared: &mut shared, own, share: 1.0, counted_volume };
        let (mut room, mut out) = ([Vec::new()], device.alloc(3 * n).unwrap());
        let pair = (&self.moved[..], &self.affine);
        let energies =
            forces(device, &mut sources, &images, pair, &field, &mut room, &mut out).unwrap();
        let mut nodal = NodalForces::new(device, force, &self.level.body, mesh, places).unwrap();
        let volumes = (counted_volume, grid.voxel_volume());
        nodal.gather(device, mesh, places, &out, volumes, PRESSURE).unwrap();
        let energy = energies.wait().unwrap().total * counted_volume * PRESSURE;
        (energy, body::vectors(&device.download(&nodal.forces).unwrap()))
    }
}

/// The consistent force is minus the derivative of the energy in every displacement.
#[test]
fn consistent_forces_pass_a_taylor_test() {
    for in_box in [true, false] {
        for similarity in [Similarity::SSD, Similarity::LNCC, Similarity::MI] {
            let setup = Setup::new(in_box, similarity);
            let mut random = Random(7);
            let n = setup.mesh.vertices;
            let u = random.vectors(n, 0.8);
            let (_, forces) = setup.at(&u, Force::Consistent);
            assert!(forces.iter().any(|f| f.norm() > 1.0), "{similarity:?}");
            let direction = random.vectors(n, 1.0);
            let along: f64 = -forces.iter().zip(&direction).map(|(f, d)| f.dot(d)).sum::<f64>();
            // The remainder of a first order expansion falls as the square of the step.
            let energy = |t: f64| {
                let moved: Vec<_> = u.iter().zip(&direction).map(|(u, d)| u + d * t).collect();
                setup.at(&moved, Force::Consistent).0
            };
            let step = 2e-3;
            let difference = (energy(step) - energy(-step)) / (2.0 * step);
            let off = (difference / along - 1.0).abs();
            println!("{in_box} {similarity:?}: {along:.6} and {difference:.6}");
            assert!(off < 5e-3, "{in_box} {similarity:?}: {along} {difference}");
        }
    }
}

/// Where forces are linear in the tetrahedra, least squares give these; at vertices they are what is there.
#[test]
fn forces_at_vertices_are_those_at_samples() {
    for in_box in [true, false] {
        let setup = Setup::new(in_box, Similarity::SSD);
        let Setup { device, level, mesh, places, .. } = &setup;
        let linear = |x: &Vector3<f64>| Vector3::new(0.1 * x.x, 0.2 * x.y - 1.0, 0.3);
        let nodes: Vec<_> = level.body.mesh().vertices().iter().map(linear).collect();
        let there = device.upload(&body::planes(&nodes)).unwrap();
        let mut samples = device.alloc(3 * places.grid.len()).unwrap();
        device.to_samples(&places.placed(mesh), &there, &mut samples).unwrap();
        let volumes = level.body.vertex_volumes().unwrap();
        for (force, most) in [(Force::LeastSquares, 0.02), (Force::Nodes, 1e-4)] {
            let mut nodal = NodalForces::new(device, force, &level.body, mesh, places).unwrap();
            nodal.gather(device, mesh, places, &samples, (2.0, 2.0), -1.0).unwrap();
            let found = body::vectors(&device.download(&nodal.forces).unwrap());
            let mut seen = 0;
            for (i, found) in found.iter().enumerate() {
                // Vertices outside of the image have no force where they are.
                let at = places.grid.world_to_index(level.body.mesh().vertices()[i]);
                let last = places.grid.dims().map(|n| (n - 1) as f64);
                if !(0..3).all(|a| at[a] > 0.5 && at[a] < last[a] - 0.5) {
                    continue;
                }
                seen += 1;
                let expected = nodes[i] * volumes[i];
                let off = (found - expected).norm() / expected.norm();
                assert!(off < most, "{force:?} {i}: {found} {expected}");
            }
            assert!(seen > 5, "{seen}");
        }
    }
}

/// A box and the same mesh without knowledge of it give the same.
#[test]
fn a_box_needs_no_search() {
    let [in_box, searched] = [true, false].map(|b| Setup::new(b, Similarity::SSD));
    let u = Random(3).vectors(in_box.mesh.vertices, 0.8);
    let (a, b) = (in_box.at(&u, Force::Consistent), searched.at(&u, Force::Consistent));
    assert!((a.0 / b.0 - 1.0).abs() < 1e-6);
    let most = a.1.iter().map(|f| f.norm()).fold(0.0, f64::max);
    for (a, b) in a.1.iter().zip(&b.1) {
        assert!((a - b).norm() < 1e-4 * most, "{a} {b}");
    }
}

/// What goes to a mesh of which a part is held does not come there crushed, and far from that part it is what it was.
#[test]
fn a_mesh_that_is_held_elsewhere_is_not_crushed() {
    let grid = Grid::axis_aligned([31, 11, 11], [2.0; 3]).unwrap();
    let material = Materials::Uniform(Material::new(1000.0, 0.3, 1000.0).unwrap());
    let level = |spacing: f64, held: f64| {
        let cells = TetraBox::over(&grid, spacing).unwrap();
        let body = Body::new(cells.mesh().unwrap(), &material).unwrap();
        let fixed = Fixed::whose(body.mesh(), |x| x.x < held).unwrap();
        BodyLevel { factor: 1, body: Arc::new(body), fixed, cells: Some(cells) }
    };
    let (from, to) = (level(10.0, -1.0), level(5.0, 22.0));
    let n = from.body.mesh().vertices().len();
    let all = |v: [f64; 3]| vec![Vector3::from(v); n];
    for by in [[-5.0, 0.0, 0.0], [-60.0, 20.0, 5.0], [1.0, 0.5, 0.0]] {
        let (velocities, accelerations) = (all([1.0, 0.0, 0.0]), all([0.0; 3]));
        let state =
            voxalign_elasticity::State { displacements: all(by), velocities, accelerations };
        let there = body::carried(&from, &state, &to).unwrap();
        let least = to.body.least_ratio(&there.displacements).unwrap().ratio;
        assert!(least >= 0.1, "{by:?} {least}");
        let held = to.fixed.mask().iter().zip(&there.displacements).filter(|(held, _)| **held);
        assert!(held.clone().all(|(_, u)| *u == Vector3::zeros()) && held.count() > 20);
        // Far away, and where nothing would have been crushed.
        for (x, u) in to.body.mesh().vertices().iter().zip(&there.displacements) {
            if by[0] > -20.0 && x.x > 45.0 {
                assert!((u - Vector3::from(by)).norm() < 1e-9, "{by:?} {x} {u}");
            }
        }
    }
}
