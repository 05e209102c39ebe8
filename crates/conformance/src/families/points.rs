//! Affine maps of points, displacements that carry them and their bounds, one point at a time.

use voxalign_compute::ops::points::{Bounds, Carriage};
use voxalign_compute::ops::splat::Lattice;
use voxalign_compute::{AffineMap, Device, Dims};

use crate::families::splat::{GRIDS, lattices, places, weights};
use crate::support::{Random, Results, assert_bits_of_cpu, assert_close, len, offset};

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

pub(crate) fn points<D: Device>(device: &D) {
    for count in COUNTS {
        let list = random(5, count);
        assert_eq!(mapped(device, &list)[0], expected(&list, |a| MAP[a]), "{count}");
    }
}

pub(crate) fn covectors<D: Device>(device: &D) {
    for count in COUNTS {
        let list = random(6, count);
        let transposed = |a: usize| [MAP[0][a], MAP[1][a], MAP[2][a], 0.0];
        assert_eq!(mapped(device, &list)[1], expected(&list, transposed), "{count}");
    }
}

/// `⟨A p, c⟩ = ⟨p, Aᵀ c⟩`.
pub(crate) fn adjoint<D: Device>(device: &D) {
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

const SCALE: [f64; 3] = [0.7, -1.2, 0.4];

/// Points in and around a grid, covectors, and a displacement, of which forces are on a scale of their own.
struct Scene {
    dims: Dims,
    field: Vec<f32>,
    points: Vec<f32>,
    covectors: Vec<f32>,
    reach: Vec<f32>,
    stiffness: Vec<f32>,
}

impl Scene {
    fn new(dims: Dims, count: usize) -> Self {
        let mut random = Random::new(31);
        let mut list = |n: usize, low: f64, high: f64| -> Vec<f32> {
            (0..n).map(|_| random.between(low, high) as f32).collect()
        };
        let points = list(3 * count, -0.7, 0.7);
        let place =
            |i: usize| 0.5 * (dims[i / count] as f32 - 1.0) + dims[i / count] as f32 * points[i];
        Self {
            dims,
            field: list(3 * len(dims), -1.5, 1.5),
            points: (0..3 * count).map(place).collect(),
            covectors: list(3 * count, -2.0, 2.0),
            reach: list(3 * count, 0.01, 0.3),
            stiffness: list(3 * count, 0.0, 5.0),
        }
    }

    fn count(&self) -> usize {
        self.points.len() / 3
    }

    /// By `f64`: where a point goes, and the derivative there of what covectors say of that.
    fn expected(&self, i: usize, lattice: Lattice) -> [[f64; 3]; 2] {
        let (n, count) = (len(self.dims), self.count());
        let at = places(&self.points, None)[i];
        let covector = [0, 1, 2].map(|a| f64::from(self.covectors[a * count + i]));
        let before = [0, 1, 2].map(|a| (0..3).map(|r| MAP[r][a] * covector[r]).sum::<f64>());
        let (mut to, mut force) = (at, before);
        for (index, weight, derivative) in weights(at, lattice) {
            for a in 0..3 {
                let by = SCALE[a] * f64::from(self.field[a * n + offset(self.dims, index)]);
                to[a] += weight * by;
                (0..3).for_each(|b| force[b] += derivative[b] * by * before[a]);
            }
        }
        let row = |r: [f64; 4]| r[0] * to[0] + r[1] * to[1] + r[2] * to[2] + r[3];
        [MAP.map(row), force]
    }

    fn carried<D: Device>(&self, device: &D, lattice: Lattice) -> [Vec<f32>; 2] {
        let [field, points, covectors] =
            [&self.field, &self.points, &self.covectors].map(|l| device.upload(l).unwrap());
        let carriage = Carriage { field: &field, lattice, scale: SCALE, map: MAP };
        let [mut to, mut force] = [0, 1].map(|_| device.alloc(self.points.len()).unwrap());
        device.carry_points(&carriage, &points, &mut to).unwrap();
        device.pull_back(&carriage, &points, &covectors, &mut force).unwrap();
        [to, force].map(|b| device.into_host(b).unwrap())
    }

    fn pushed<D: Device>(
        &self,
        device: &D,
        lattice: Lattice,
        bounds: &[Bounds],
        before: f32,
    ) -> Vec<Vec<f32>> {
        let lists = [&self.field, &self.points, &self.covectors, &self.reach, &self.stiffness];
        let [field, points, covectors, reach, stiffness] =
            lists.map(|list| device.upload(list).unwrap());
        let carriage = Carriage { field: &field, lattice, scale: SCALE, map: MAP };
        let mut out: Vec<_> = bounds
            .iter()
            .map(|_| device.upload(&vec![before; self.field.len()]).unwrap())
            .collect();
        let mut fields: Vec<_> = out.iter_mut().collect();
        device
            .push_points(&carriage, &points, &covectors, &reach, &stiffness, bounds, &mut fields)
            .unwrap();
        out.into_iter().map(|o| device.into_host(o).unwrap()).collect()
    }
}

/// Bounds of two fields, one without a pace.
fn two_bounds() -> [Bounds; 2] {
    let first = Bounds {
        factors: [-1.0, 0.5, -0.25],
        step: 0.4,
        pace: Some(0.3),
        share: 0.2,
        stiffness: 1.5,
    };
    [first, Bounds { factors: [1.0, 0.0, 2.0], pace: None, ..first }]
}

pub(crate) fn carried<D: Device>(device: &D) {
    for dims in GRIDS {
        let scene = Scene::new(dims, 60);
        for lattice in lattices(dims) {
            let found = scene.carried(device, lattice);
            for (found, what) in found.iter().zip(0..) {
                let of = |k: usize| scene.expected(k % 60, lattice)[what][k / 60];
                let expected: Vec<f64> = (0..180).map(of).collect();
                assert_close(&format!("{what} of {lattice:?}"), found, &expected, 2e-4);
            }
        }
    }
    // Points that are nowhere are not carried, and none are.
    let lattice = Lattice::linear([3, 2, 2], Default::default());
    let mut scene = Scene::new(lattice.dims, 1);
    scene.points[0] = f32::NAN;
    assert!(scene.carried(device, lattice)[0].iter().all(|v| v.is_nan()));
    assert!(scene.carried(device, lattice)[1].iter().all(|v| v.is_finite()));
    assert!(Scene::new(lattice.dims, 0).carried(device, lattice)[0].is_empty());
}

/// Forces are the derivative of what covectors say of carried points, held back as the trait has it.
pub(crate) fn pushed<D: Device>(device: &D) {
    for dims in GRIDS {
        // As few as one block of a GPU takes, with linear and with cubic weights, and more.
        for count in [0, 1, 16, 60, 200] {
            let (scene, n) = (Scene::new(dims, count), len(dims));
            for lattice in lattices(dims) {
                let all = two_bounds();
                let mut expected = [vec![2.0; 3 * n], vec![2.0; 3 * n]];
                for i in 0..count {
                    let [_, pulled] = scene.expected(i, lattice);
                    for (bounds, expected) in all.iter().zip(&mut expected) {
                        let f = [0, 1, 2].map(|a| bounds.factors[a] * pulled[a]);
                        let length = f.iter().map(|v| v * v).sum::<f64>().sqrt();
                        let (w, m, s) = (bounds.share, bounds.step, bounds.stiffness);
                        for a in 0..3 {
                            let [r, k] = [&scene.reach, &scene.stiffness]
                                .map(|list| f64::from(list[a * count + i]));
                            let left = match bounds.pace {
                                Some(p) => (w / (1.0 + p * w * s * k)).min(m / (p * r * length)),
                                None => (1.0 / (s * k)).min(m / (r * length)),
                            };
                            for (index, weight, _) in
                                weights(places(&scene.points, None)[i], lattice)
                            {
                                expected[a * n + offset(dims, index)] += weight * f[a] * left;
                            }
                        }
                    }
                }
                let found = scene.pushed(device, lattice, &all, 2.0);
                for (found, expected) in found.iter().zip(&expected) {
                    let most = expected.iter().fold(1.0f64, |m, e| m.max(e.abs()));
                    assert_close(&format!("{count} of {lattice:?}"), found, expected, 1e-4 * most);
                }
                // Each field has what it has alone.
                for (k, bounds) in all.into_iter().enumerate() {
                    assert_eq!(scene.pushed(device, lattice, &[bounds], 2.0)[0], found[k]);
                }
            }
        }
    }
}

fn paired<D: Device>(device: &D, count: usize, add: bool) -> (Vec<f32>, f64) {
    let [points, to, stiffness] =
        [11, 12, 13].map(|seed| device.upload(&random(seed, count)).unwrap());
    let mut covectors = device.alloc(3 * count).unwrap();
    let mut energy = device.upload(&[1.5e6]).unwrap();
    device.pull_pairs(&points, &to, &stiffness, &mut covectors, add, &mut energy).unwrap();
    (device.into_host(covectors).unwrap(), device.into_host(energy).unwrap()[0])
}

pub(crate) fn pairs<D: Device>(device: &D) {
    for count in COUNTS {
        let [points, to, stiffness] = [11, 12, 13].map(|seed| random(seed, count));
        let apart: Vec<f32> = points.iter().zip(&to).map(|(p, q)| p - q).collect();
        let expected: Vec<f32> = apart.iter().zip(&stiffness).map(|(d, k)| k * d).collect();
        let products = expected.iter().zip(&apart).map(|(c, d)| f64::from(*c) * f64::from(*d));
        let (sum, size) = products.fold((0.0, 1.0), |(s, m), p| (s + 0.5 * p, m + p.abs()));
        for (add, before) in [(false, 0.0), (true, 1.5e6)] {
            let (covectors, energy) = paired(device, count, add);
            assert_eq!(covectors, expected, "{count}");
            assert!((energy - before - sum).abs() < 1e-12 * (size + before), "{energy} {sum}");
        }
    }
}

fn bounds_of<D: Device>(device: &D, list: &[f32]) -> Vec<f64> {
    let mut out = device.upload(&[5.0f64; 7]).unwrap();
    device.point_bounds(&device.upload(list).unwrap(), &mut out).unwrap();
    device.into_host(out).unwrap()
}

pub(crate) fn bounds<D: Device>(device: &D) {
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

pub(crate) fn errors<D: Device>(device: &D) {
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
    let voxels = floats(18);
    let by = |field, scale| Carriage {
        field,
        lattice: Lattice::linear([3, 2, 1], Default::default()),
        scale,
        map: MAP,
    };
    let carriage = by(&voxels, SCALE);
    assert!(device.carry_points(&carriage, &points, &mut floats(6)).is_ok());
    assert!(device.carry_points(&carriage, &points, &mut floats(9)).is_err());
    assert!(device.carry_points(&by(&points, SCALE), &points, &mut floats(6)).is_err());
    assert!(device.carry_points(&by(&voxels, [f64::NAN; 3]), &points, &mut floats(6)).is_err());
    assert!(device.pull_back(&carriage, &points, &points, &mut floats(6)).is_ok());
    assert!(device.pull_back(&carriage, &points, &voxels, &mut floats(6)).is_err());
    let push = |reach: &D::Buffer<f32>, bounds: &[Bounds], lengths: &[usize]| {
        let mut out: Vec<_> = lengths.iter().map(|&n| floats(n)).collect();
        let mut out: Vec<_> = out.iter_mut().collect();
        device.push_points(&carriage, &points, &points, reach, &points, bounds, &mut out)
    };
    let [bounds, second] = two_bounds();
    assert!(push(&points, &[bounds], &[18]).is_ok());
    assert!(push(&voxels, &[bounds], &[18]).is_err());
    assert!(push(&points, &[bounds], &[17]).is_err());
    assert!(push(&points, &[bounds], &[18, 18]).is_err());
    assert!(push(&points, &[], &[]).is_err());
    assert!(push(&points, &[bounds, second, bounds], &[18; 3]).is_err());
    let pull = |to: &D::Buffer<f32>, energies: usize| {
        let mut energy = device.alloc::<f64>(energies).unwrap();
        device.pull_pairs(&points, to, &points, &mut floats(6), false, &mut energy)
    };
    assert!(pull(&points, 1).is_ok());
    assert!(pull(&voxels, 1).is_err());
    assert!(pull(&points, 2).is_err());
    let mut broken = MAP;
    broken[1][2] = f64::NAN;
    assert!(device.map_points(&broken, &points, &mut floats(6)).is_err());
    assert!(device.map_covectors(&broken, &points, &mut floats(6)).is_err());
}

pub(crate) fn bits_of_the_cpu<D: Device>(device: &D) {
    assert_bits_of_cpu(device, bits, bits);
}

pub(crate) fn bits<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for count in COUNTS {
        let [points, covectors] = mapped(device, &random(9, count));
        results.push((format!("{count} points"), points));
        results.push((format!("{count} covectors"), covectors));
        results.push((format!("{count} pairs"), paired(device, count, false).0));
    }
    for dims in GRIDS {
        for count in [16, 200] {
            let scene = Scene::new(dims, count);
            for lattice in lattices(dims) {
                let name = |what: &str| format!("{what} of {count}, {lattice:?}");
                let [to, force] = scene.carried(device, lattice);
                results.push((name("places"), to));
                results.push((name("forces"), force));
                for field in scene.pushed(device, lattice, &two_bounds(), 1.0) {
                    results.push((name("fields"), field));
                }
            }
        }
    }
    results
}
