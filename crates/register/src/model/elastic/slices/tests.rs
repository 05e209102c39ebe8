use super::*;
use crate::attachment::images::DeviceImage;
use crate::model::elastic::Force;
use crate::model::elastic::body::vectors;
use nalgebra::{DMatrix, DVector};
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_elasticity::{Body, Fixed, Material, Materials, TetraBox};
use voxalign_image::{Index, Matrix3, World};

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

/// A grid that is turned by some angles around its centre.
fn turned(dims: [usize; 3], spacing: [f64; 3], angle: f64, centre: [f64; 3]) -> Grid {
    let (s, c) = angle.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0)
        * Matrix3::new(c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c);
    let matrix = turn * Matrix3::from_diagonal(&Vector3::from(spacing));
    let middle = Vector3::from(dims.map(|n| (n as f64 - 1.0) / 2.0));
    Grid::new(dims, Affine::<Index, World>::new(matrix, Vector3::from(centre) - matrix * middle))
        .unwrap()
}

fn voxel(grid: &Grid, i: usize) -> Vector3<f64> {
    let [nx, ny, _] = grid.dims();
    let index = Vector3::new((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
    grid.index_to_world(index)
}

fn image(device: &Cpu, grid: Grid, of: impl Fn(Vector3<f64>) -> f64) -> DeviceImage<Cpu> {
    let values: Vec<f32> = (0..grid.len()).map(|i| of(voxel(&grid, i)) as f32).collect();
    DeviceImage { values: device.upload(&values).unwrap(), grid, outside: 0.0, open: false }
}

fn texture(x: Vector3<f64>, phase: f64) -> f64 {
    0.5 + 0.15 * ((0.4 * x.x + phase).sin() + (0.5 * x.y).cos() + (0.3 * x.z + 0.2 * x.x).sin())
}

const CENTRE: [f64; 3] = [4.0, -6.0, 9.0];
const PRESSURE: f64 = 3.0;

/// Three slices of unlike pixels that reach out of the mesh, one of them with weights, and a volume.
struct Setup {
    device: Cpu,
    images: Vec<(Grid, Vec<f32>, Vec<f32>)>,
    volume: (Grid, Vec<f32>),
    affine: Affine,
    body: SliceBody<Cpu>,
}

impl Setup {
    fn new(similarity: Similarity, force: Force) -> Self {
        let device = Cpu::new(Some(2)).unwrap();
        let affine = Affine::new(
            Matrix3::new(1.02, 0.05, 0.0, -0.04, 0.98, 0.02, 0.01, 0.0, 1.03),
            Vector3::new(1.1, -0.7, 0.4),
        );
        let slices = [
            turned([25, 22, 1], [1.6, 1.7, 4.0], 0.2, CENTRE),
            turned([1, 20, 21], [3.0, 1.5, 1.6], -0.1, CENTRE),
            turned([24, 1, 19], [1.3, 1.0, 1.4], 0.35, CENTRE),
        ]
        .map(|grid| image(&device, grid, |x| texture(x, 0.0)));
        let weigh = |x: Vector3<f64>| (0.5 + 0.08 * (x.x - CENTRE[0])).clamp(0.0, 1.0);
        let weights = image(&device, slices[1].grid.clone(), weigh);
        let other = turned([30, 28, 26], [1.7, 1.8, 2.1], -0.1, affine.apply(CENTRE.into()).into());
        let moving = image(&device, other, |x| texture(x, 0.3));
        let given = [None, Some(&weights), None];
        let images = slices.iter().zip(given).map(|(slice, weights)| {
            let ones = || vec![1.0; slice.grid.len()];
            let weights = weights.map_or_else(ones, |w| device.download(&w.values).unwrap());
            (slice.grid.clone(), device.download(&slice.values).unwrap(), weights)
        });
        let images = images.collect();
        let volume = (moving.grid.clone(), device.download(&moving.values).unwrap());
        let around = turned([12; 3], [2.2, 2.1, 2.0], 0.15, CENTRE);
        let cells = TetraBox::over(&around, 8.0).unwrap();
        let material = Materials::Uniform(Material::new(1000.0, 0.3, 1000.0).unwrap());
        let body = Body::new(cells.mesh().unwrap(), &material).unwrap();
        let fixed = Fixed::none(body.mesh()).unwrap();
        let body = Arc::new(ElasticBody::new(body, fixed, Some(cells)));
        let weights = vec![None, Some(weights), None];
        let slices = SliceImages { slices: slices.into(), weights, moving, shown: None };
        let options = Elastic { force, force_scale: Some(PRESSURE), ..Elastic::USUAL };
        let how = (affine, similarity);
        let body = SliceBody::new(&device, slices, how, options, body, None).unwrap();
        Self { device, images, volume, affine, body }
    }

    fn mesh(&self) -> &voxalign_image::TetraMesh {
        self.body.body.finest().body.mesh()
    }

    /// Brings a scale to displacements of the vertices, mm; the mean over pixels, and the forces on the vertices, mN.
    fn at(&self, on: &mut OnScale<Cpu>, u: &[Vector3<f64>]) -> (f64, Vec<Vector3<f64>>) {
        let device = &self.device;
        let displacements = device.upload(&planes(u)).unwrap();
        on.located.update(device, &on.mesh, &displacements).unwrap();
        on.look(device).unwrap();
        let energy = on.compare(device, &self.body.similarity).unwrap();
        on.push(device, PRESSURE).unwrap();
        let forces = vectors(&device.download(&on.nodal.forces).unwrap());
        (energy.wait().unwrap(), forces)
    }
}

/// The first tetrahedron that holds a point, of all, with the weights of its corners.
fn brute(
    nodes: &[Vector3<f64>],
    tetrahedra: &[[u32; 4]],
    x: Vector3<f64>,
) -> Option<(usize, [f64; 4])> {
    tetrahedra.iter().enumerate().find_map(|(e, t)| {
        let [a, b, c, d] = t.map(|i| nodes[i as usize]);
        let inverse = Matrix3::from_columns(&[b - a, c - a, d - a]).try_inverse()?;
        let w = inverse * (x - a);
        let weights = [1.0 - w.sum(), w.x, w.y, w.z];
        weights.iter().all(|&w| w >= -1e-6).then_some((e, weights))
    })
}

/// Linear interpolation, zero beyond half a voxel outside.
fn interpolated((grid, values): &(Grid, Vec<f32>), world: Vector3<f64>) -> f64 {
    let (p, dims) = (grid.world_to_index(world), grid.dims());
    if (0..3).any(|a| p[a] < -0.5 || p[a] > dims[a] as f64 - 0.5) {
        return 0.0;
    }
    let q: [f64; 3] = std::array::from_fn(|a| p[a].clamp(0.0, (dims[a] - 1) as f64));
    let first = [0, 1, 2].map(|a| (q[a] as usize).min(dims[a] - 2));
    let mut sum = 0.0;
    for corner in 0..8usize {
        let step = [0, 1, 2].map(|a| corner >> a & 1);
        let weight = |a: usize| {
            let t = q[a] - first[a] as f64;
            if step[a] == 1 { t } else { 1.0 - t }
        };
        let [i, j, k] = [0, 1, 2].map(|a| first[a] + step[a]);
        let value = values[i + dims[0] * (j + dims[1] * k)];
        sum += weight(0) * weight(1) * weight(2) * f64::from(value);
    }
    sum
}

/// The energy of a squared difference, µJ, and the pixels that count.
fn reference(setup: &Setup, u: &[Vector3<f64>]) -> (f64, Vec<bool>) {
    let mesh = setup.mesh();
    let rest = mesh.vertices();
    let nodes: Vec<_> = rest.iter().zip(u).map(|(x, u)| x + u).collect();
    let (mut sum, mut all, mut area, mut counted) = (0.0, 0.0, 0.0, Vec::new());
    let mut whole = 0.0;
    for (grid, values, weights) in &setup.images {
        let of_pixel = samples::area(grid);
        for (i, (value, weight)) in values.iter().zip(weights).enumerate() {
            // Where a scale begins the body is at rest.
            if brute(rest, mesh.tetrahedra(), voxel(grid, i)).is_some() {
                area += of_pixel;
                whole += of_pixel * f64::from(*weight);
            }
            let found = brute(&nodes, mesh.tetrahedra(), voxel(grid, i));
            counted.push(found.is_some());
            let Some((e, w)) = found else { continue };
            let corners = mesh.tetrahedra()[e];
            let p = corners.iter().zip(w).map(|(&i, w)| rest[i as usize] * w).sum::<Vector3<f64>>();
            let moved = interpolated(&setup.volume, setup.affine.apply(p));
            let weight = of_pixel * f64::from(*weight);
            sum += weight * (moved - f64::from(*value)).powi(2);
            all += weight;
        }
    }
    // Slabs half as thick as cells, of six tetrahedra each, unless the pixels fill the body with less.
    let cell = 6.0 * mesh.volume() / mesh.tetrahedra().len() as f64;
    let volume = (mesh.volume() / area).min(0.5 * cell.cbrt()) * whole;
    (PRESSURE * volume * sum / all, counted)
}

/// Points of slices are in the tetrahedra that a search over all finds, while the body goes on and on.
#[test]
fn pixels_are_located_while_the_body_moves() {
    let setup = Setup::new(Similarity::SSD, Force::Consistent);
    let mut on = setup.body.scale(1).unwrap();
    let (mut random, n) = (Random(11), on.mesh.vertices);
    let points = on.pixels.points(&setup.device, &on.mesh.to_mesh).unwrap();
    let points = vectors(&setup.device.download(&points).unwrap());
    let mut u = vec![Vector3::zeros(); n];
    let (mut changed, mut before) = (0, Vec::new());
    for step in 0..12 {
        let shift = Vector3::new(0.5, -0.3, 0.4) * (step as f64).sin();
        u.iter_mut().zip(random.vectors(n, 0.15)).for_each(|(u, by)| *u += by + shift);
        setup.at(&mut on, &u);
        let nodes = vectors(&setup.device.download(on.located.nodes()).unwrap());
        let found = setup.device.download(on.located.elements()).unwrap();
        let expected: Vec<u32> = points
            .iter()
            .map(|&x| {
                brute(&nodes, setup.mesh().tetrahedra(), x).map_or(OUTSIDE, |(e, _)| e as u32)
            })
            .collect();
        assert_eq!(found, expected, "step {step}");
        let outside = found.iter().filter(|&&e| e == OUTSIDE).count();
        assert!(outside > 50 && outside < found.len() / 2, "{outside} of {}", found.len());
        changed += found.iter().zip(&before).filter(|(a, b)| a != b).count();
        before = found;
    }
    assert!(changed > 500, "{changed}");
}

/// The energy is that of a plain sum, and the consistent force is minus its derivative in every displacement.
#[test]
fn consistent_forces_pass_a_taylor_test_against_a_plain_sum() {
    let setup = Setup::new(Similarity::SSD, Force::Consistent);
    let mut on = setup.body.scale(1).unwrap();
    for seed in [7, 8, 9] {
        let mut random = Random(seed);
        let n = on.mesh.vertices;
        let u = random.vectors(n, 0.9);
        let (mean, forces) = setup.at(&mut on, &u);
        let (expected, counted) = reference(&setup, &u);
        let energy = mean * on.volume * PRESSURE;
        assert!((energy / expected - 1.0).abs() < 1e-4, "{energy} {expected}");
        assert!(counted.iter().any(|c| !c));
        let direction = random.vectors(n, 1.0);
        let along: f64 = -forces.iter().zip(&direction).map(|(f, d)| f.dot(d)).sum::<f64>();
        let step = 5e-4;
        let at = |t: f64| {
            let moved: Vec<_> = u.iter().zip(&direction).map(|(u, d)| u + d * t).collect();
            let (energy, now) = reference(&setup, &moved);
            assert_eq!(now, counted, "another seed, in which no pixel leaves the mesh");
            energy
        };
        let difference = (at(step) - at(-step)) / (2.0 * step);
        println!("seed {seed}: {along:.6} and {difference:.6}");
        assert!(
            along.abs() > 0.5 && (difference / along - 1.0).abs() < 2e-3,
            "{along} {difference}"
        );
        // Each vertex by itself.
        let largest = forces.iter().map(|f| f.norm()).fold(0.0, f64::max);
        for i in (0..n).filter(|&i| forces[i].norm() > 0.5 * largest).take(5) {
            let of = |t: f64| {
                let mut moved = u.clone();
                moved[i] += forces[i].normalize() * t;
                reference(&setup, &moved).0
            };
            let fall = (of(-step) - of(step)) / (2.0 * step);
            assert!((fall / forces[i].norm() - 1.0).abs() < 0.01, "{i}: {fall} {}", forces[i]);
        }
    }
}

/// The same of mutual information, by its own energies.
#[test]
fn forces_of_information_pass_a_taylor_test() {
    let setup = Setup::new(Similarity::MI, Force::Consistent);
    let mut on = setup.body.scale(1).unwrap();
    let (mut random, n) = (Random(7), on.mesh.vertices);
    let u = random.vectors(n, 0.9);
    let (_, forces) = setup.at(&mut on, &u);
    let direction = random.vectors(n, 1.0);
    let along: f64 = -forces.iter().zip(&direction).map(|(f, d)| f.dot(d)).sum::<f64>();
    let scale = on.volume * PRESSURE;
    let mut at = |t: f64| {
        let moved: Vec<_> = u.iter().zip(&direction).map(|(u, d)| u + d * t).collect();
        setup.at(&mut on, &moved).0 * scale
    };
    let step = 1e-3;
    let difference = (at(step) - at(-step)) / (2.0 * step);
    println!("{along:.6} and {difference:.6}");
    assert!(along.abs() > 0.1 && (difference / along - 1.0).abs() < 0.02, "{along} {difference}");
}

/// Least squares are those of dense normal equations where the pixels are.
#[test]
fn forces_by_least_squares_are_those_of_normal_equations() {
    let setup = Setup::new(Similarity::SSD, Force::LeastSquares);
    let mut on = setup.body.scale(1).unwrap();
    let mut consistent = Setup::new(Similarity::SSD, Force::Consistent).body.scale(1).unwrap();
    let n = on.mesh.vertices;
    let u = Random(5).vectors(n, 0.9);
    let (_, forces) = setup.at(&mut on, &u);
    let (_, right) = setup.at(&mut consistent, &u);
    let mesh = setup.mesh();
    let nodes: Vec<_> = mesh.vertices().iter().zip(&u).map(|(x, u)| x + u).collect();
    let largest = setup.images.iter().map(|(g, ..)| samples::area(g)).fold(0.0, f64::max);
    let mut normal = DMatrix::<f64>::zeros(n, n);
    for (grid, ..) in &setup.images {
        for i in 0..grid.len() {
            let found = brute(&nodes, mesh.tetrahedra(), voxel(grid, i));
            let Some((e, w)) = found else { continue };
            let corners = mesh.tetrahedra()[e].map(|c| c as usize);
            for (a, b) in (0..16).map(|k| (k / 4, k % 4)) {
                normal[(corners[a], corners[b])] += w[a] * w[b] * samples::area(grid) / largest;
            }
        }
    }
    let shares = &normal * DVector::repeat(n, 1.0);
    let raised = shares.map(|v| force::LUMPED * v + force::LEAST * shares.mean());
    let solved = (normal + DMatrix::from_diagonal(&raised)).cholesky().unwrap();
    let mut expected = vec![Vector3::zeros(); n];
    for a in 0..3 {
        let b = DVector::from_iterator(n, right.iter().map(|f| f[a]));
        let f = solved.solve(&b);
        (0..n).for_each(|i| expected[i][a] = (1.0 + force::LUMPED) * f[i] * shares[i]);
    }
    let most = expected.iter().map(|f| f.norm()).fold(0.0, f64::max);
    let off = forces.iter().zip(&expected).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
    println!("{off:.2e} of {most:.2e} mN");
    assert!(most > 1.0 && off < 2e-3 * most, "{off} {most}");
    // What pulls at the whole is the same either way.
    let sums = [&forces, &right].map(|f| f.iter().sum::<Vector3<f64>>());
    let all: f64 = right.iter().map(|f| f.norm()).sum();
    assert!((sums[0] - sums[1]).norm() < 1e-3 * all, "{} {}", sums[0], sums[1]);
}

/// The blocks of the coupling are no less than how fast forces fall along any displacement, of a squared difference that is 0.
#[test]
fn steps_count_on_no_less_than_forces_fall() {
    let setup = Setup::new(Similarity::SSD, Force::Consistent);
    let mut on = setup.body.scale(1).unwrap();
    let n = on.mesh.vertices;
    let zero = vec![Vector3::zeros(); n];
    setup.at(&mut on, &zero);
    // The slices show what the volume has there.
    setup.device.copy(&on.room.warped, &mut on.pixels.values).unwrap();
    let level = setup.body.body.finest();
    let blocks = setup.body.coupled(&on, level).unwrap().blocks().unwrap();
    for seed in 1..6 {
        let d = Random(seed).vectors(n, 0.02);
        let (_, forces) = setup.at(&mut on, &d);
        let fall: f64 = -forces.iter().zip(&d).map(|(f, d)| f.dot(d)).sum::<f64>();
        let counted: f64 = blocks.iter().zip(&d).map(|(b, d)| d.dot(&(b * d))).sum();
        println!("{fall:.3e} of {counted:.3e}");
        assert!(fall > 0.0 && fall < counted && counted < 20.0 * fall, "{fall} {counted}");
    }
}
