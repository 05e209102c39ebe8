//! Shapes against sums in double precision, one pair at a time.

use super::*;
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::simplices::Element;
use voxalign_image::Vector3;

fn cpu() -> Cpu {
    Cpu::new(Some(2)).unwrap()
}

/// A bumpy ball of so many rings, turned and moved by `off`, mm.
fn ball(rings: usize, radius: f64, off: f64) -> (Vec<Vector3<f64>>, Vec<[u32; 3]>) {
    let around = 2 * rings;
    let mut vertices = Vec::new();
    for i in 0..=rings {
        for j in 0..around {
            let (theta, phi) = (
                std::f64::consts::PI * i as f64 / rings as f64,
                std::f64::consts::TAU * j as f64 / around as f64,
            );
            let r = radius * (1.0 + 0.15 * (3.0 * theta).sin() * (2.0 * phi + off).cos());
            let (x, y) = (theta.sin() * phi.cos(), theta.sin() * phi.sin());
            vertices.push(Vector3::new(r * x + off, r * y - 0.5 * off, r * theta.cos() + 20.0));
        }
    }
    let index = |i: usize, j: usize| (i * around + j % around) as u32;
    let mut faces = Vec::new();
    for i in 0..rings {
        for j in 0..around {
            faces.push([index(i, j), index(i + 1, j), index(i + 1, j + 1)]);
            faces.push([index(i, j), index(i + 1, j + 1), index(i, j + 1)]);
        }
    }
    (vertices, faces)
}

/// A surface, curves and points of a ball, with and without orientation.
fn shapes(rings: usize, radius: f64, off: f64) -> Vec<Shape> {
    let (vertices, faces) = ball(rings, radius, off);
    let around = 2 * rings as u32;
    let lines: Vec<Vec<u32>> =
        (1..rings as u32).map(|i| (0..around).map(|j| i * around + j).collect()).collect();
    let curves =
        |oriented| Shape::curves(&vertices, lines.iter().map(Vec::as_slice), oriented).unwrap();
    vec![
        Shape::surface(&vertices, &faces, true).unwrap(),
        Shape::surface(&vertices, &faces, false).unwrap(),
        curves(true),
        curves(false),
        Shape::points(&vertices).unwrap(),
    ]
}

/// Centres and moments, plainly.
fn masses(shape: &Shape, vertices: &[Vector3<f64>]) -> Vec<(Vector3<f64>, Vec<f64>)> {
    match shape.elements() {
        Elements::Points(masses) => {
            vertices.iter().zip(masses).map(|(v, &m)| (*v, vec![f64::from(m)])).collect()
        }
        Elements::Simplices(kind, corners) => {
            let n = shape.len();
            let of = |i: usize| {
                let x: Vec<_> =
                    (0..kind.corners()).map(|k| vertices[corners[k * n + i] as usize]).collect();
                let centre = x.iter().sum::<Vector3<f64>>() / x.len() as f64;
                let d = match &x[..] {
                    [a, b, c] => 0.5 * (b - a).cross(&(c - a)),
                    _ => x[1] - x[0],
                };
                let moment = if matches!(kind, Element::Segment | Element::Triangle) {
                    vec![d[0], d[1], d[2]]
                } else {
                    // All nine numbers of the matrix.
                    let m = d * d.transpose() / d.norm().max(1e-300);
                    m.iter().copied().collect()
                };
                (centre, moment)
            };
            (0..n).map(of).collect()
        }
    }
}

/// The squared distance, in double precision.
fn expected(a: (&Shape, &[Vector3<f64>]), b: &Shape, kernel: &RadialKernel) -> f64 {
    let mut all = masses(a.0, a.1);
    let other = masses(b, b.vertices());
    all.extend(other.into_iter().map(|(c, m)| (c, m.iter().map(|v| -v).collect())));
    let mut sum = 0.0;
    for (c, m) in &all {
        for (d, o) in &all {
            sum += kernel.at((c - d).norm()) * m.iter().zip(o).map(|(a, b)| a * b).sum::<f64>();
        }
    }
    sum
}

fn moved(vertices: &[Vector3<f64>], by: f64) -> Vec<Vector3<f64>> {
    let wave = |v: &Vector3<f64>, a: usize| (0.3 * v[(a + 1) % 3] + a as f64).sin();
    vertices.iter().map(|v| v + by * Vector3::from_fn(|a, _| wave(v, a))).collect()
}

/// A distance as it is decided.
fn between(a: &Shape, b: &Shape, kernel: RadialKernel, summation: Summation) -> ShapeDistance<Cpu> {
    let sums = decide(summation, &kernel, [a, b]).unwrap();
    let origin = Vector3::new(1.0, 2.0, 18.0);
    let [a, b] = [a, b].map(|s| Arc::new(s.clone()));
    ShapeDistance::new(&cpu(), a, b, origin, kernel, sums).unwrap()
}

const SUMMATIONS: [Summation; 3] = [Summation::Exact, Summation::Grid(1.5), Summation::Automatic];

#[test]
fn distances_are_those_of_all_pairs() {
    let device = cpu();
    for kernel in [KernelShape::Gaussian, KernelShape::Cauchy] {
        let kernel = RadialKernel { shape: kernel, width: 6.0 };
        for (a, b) in shapes(8, 12.0, 0.0).into_iter().zip(shapes(7, 11.0, 3.0)) {
            let vertices = a.vertices().to_vec();
            let exact = expected((&a, &vertices), &b, &kernel);
            for (summation, bound) in SUMMATIONS.into_iter().zip([1e-5, 5e-3, 1e-2]) {
                let mut distance = between(&a, &b, kernel, summation);
                let found = distance.evaluate_at(&device, &vertices).unwrap().squared;
                assert!(
                    (found - exact).abs() < bound * exact,
                    "{kernel:?} {summation:?}, {} components: {found} not {exact}",
                    a.components()
                );
            }
            let own = expected_norm(&a, &kernel);
            let mut distance = between(&a, &a, kernel, Summation::Automatic);
            let found = distance.target_norm(&device).unwrap();
            assert!((found - own).abs() < 1e-2 * own);
        }
    }
}

fn expected_norm(shape: &Shape, kernel: &RadialKernel) -> f64 {
    let all = masses(shape, shape.vertices());
    let mut sum = 0.0;
    for (c, m) in &all {
        for (d, o) in &all {
            sum += kernel.at((c - d).norm()) * m.iter().zip(o).map(|(a, b)| a * b).sum::<f64>();
        }
    }
    sum
}

/// What is left of the energy without its derivative is of second order in the step.
#[test]
fn covectors_are_derivatives() {
    let device = cpu();
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
    for (a, b) in shapes(8, 12.0, 0.0).into_iter().zip(shapes(7, 11.0, 3.0)) {
        let vertices = a.vertices().to_vec();
        let way: Vec<_> = moved(&vertices, 1.0).iter().zip(&vertices).map(|(m, v)| m - v).collect();
        let derivative_of = |covectors: &[Vector3<f64>]| {
            covectors.iter().zip(&way).map(|(c, w)| c.dot(w)).sum::<f64>()
        };
        let along =
            |h: f64| -> Vec<_> { vertices.iter().zip(&way).map(|(v, w)| v + h * w).collect() };
        let mut distance = between(&a, &b, kernel, Summation::Exact);
        let derivative =
            derivative_of(&distance.evaluate_at(&device, &vertices).unwrap().covectors);
        let start = expected((&a, &vertices), &b, &kernel);
        let mut last = f64::INFINITY;
        for h in [0.2, 0.05, 0.0125] {
            let energy = expected((&a, &along(h)), &b, &kernel);
            let rest = (energy - start - h * derivative).abs() / (h * derivative.abs());
            assert!(rest < 0.4 * last, "{} components: {rest} at {h}", a.components());
            last = rest;
        }
        assert!(last < 0.05, "{last}");
        // On the grid it is the derivative of the energy of the grid, with its jumps of derivative at voxels, and near the
        // exact one.
        let mut distance = between(&a, &b, kernel, Summation::Grid(1.5));
        let on_grid = distance.evaluate_at(&device, &vertices).unwrap();
        assert!((derivative_of(&on_grid.covectors) - derivative).abs() < 0.01 * derivative.abs());
        let h = 0.02;
        let ahead = distance.evaluate_at(&device, &along(h)).unwrap().squared;
        let back = distance.evaluate_at(&device, &along(-h)).unwrap().squared;
        let own = (ahead - back) / (2.0 * h);
        assert!(
            (own - derivative_of(&on_grid.covectors)).abs() < 5e-3 * own.abs(),
            "{own} {}",
            derivative_of(&on_grid.covectors)
        );
    }
}

/// The errors of the squared distance and of its gradient on a grid, of the root of mean squares of the exact one.
fn errors(pair: &[Shape; 2], kernel: &RadialKernel, spacing: f64) -> [f64; 2] {
    let device = cpu();
    let [a, b] = pair;
    let of = |summation| {
        let mut distance = between(a, b, *kernel, summation);
        distance.evaluate_at(&device, a.vertices()).unwrap()
    };
    let (exact, found) = (of(Summation::Exact), of(Summation::Grid(spacing)));
    let off = found.covectors.iter().zip(&exact.covectors).map(|(f, e)| (f - e).norm_squared());
    let size = exact.covectors.iter().map(|e| e.norm_squared()).sum::<f64>();
    let distance = (found.squared - exact.squared).abs() / exact.squared;
    [distance, (off.sum::<f64>() / size).sqrt()]
}

#[test]
fn grids_err_less_than_a_per_cent() {
    for shape in [KernelShape::Gaussian, KernelShape::Cauchy] {
        let kernel = RadialKernel { shape, width: 6.0 };
        for (a, b) in shapes(9, 12.0, 0.0).into_iter().zip(shapes(8, 11.0, 3.0)) {
            let name = format!("{shape:?}, {} components, {} elements", a.components(), a.len());
            let pair = [a, b];
            for spacings in [narrowest(shape), 5.0, 7.0] {
                let [distance, gradient] = errors(&pair, &kernel, kernel.width / spacings);
                println!("{name}, {spacings} spacings: {distance:.1e} and {gradient:.1e}");
                assert!(distance < 0.01 && gradient < 0.01);
            }
        }
    }
}

#[test]
fn orientation_matters_where_it_is_asked_for() {
    let device = cpu();
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
    let (vertices, faces) = ball(6, 10.0, 0.0);
    let turned: Vec<[u32; 3]> = faces.iter().map(|f| [f[0], f[2], f[1]]).collect();
    let squared = |oriented| {
        let shape = Shape::surface(&vertices, &faces, oriented).unwrap();
        let target = Shape::surface(&vertices, &turned, oriented).unwrap();
        let norm = expected_norm(&shape, &kernel);
        let mut distance = between(&shape, &target, kernel, Summation::Exact);
        distance.evaluate_at(&device, &vertices).unwrap().squared / norm
    };
    assert!((squared(true) - 4.0).abs() < 1e-4);
    assert!(squared(false).abs() < 1e-4);
}

#[test]
fn what_makes_no_pair_is_refused() {
    let (vertices, faces) = ball(4, 10.0, 0.0);
    let surface = Arc::new(Shape::surface(&vertices, &faces, true).unwrap());
    let points = Arc::new(Shape::points(&vertices).unwrap());
    let said = |r: Result<Shapes<Cpu>>| r.err().unwrap().to_string();
    let options = ShapeOptions::default();
    assert!(said(Shapes::new(surface.clone(), points, options)).contains("surfaces with surfaces"));
    let narrow = ShapeOptions { width: 0.0, ..options };
    assert!(said(Shapes::new(surface.clone(), surface.clone(), narrow)).contains("kernel width"));
    let free = ShapeOptions { weight: -1.0, ..options };
    assert!(said(Shapes::new(surface.clone(), surface.clone(), free)).contains("weight"));
    let said = |r: Result<Shape>| r.unwrap_err().to_string();
    assert!(said(Shape::surface(&vertices, &[[0, 1, 999]], true)).contains("999"));
    assert!(said(Shape::surface(&vertices, &[], true)).contains("no element"));
    assert!(said(Shape::points(&[])).contains("no element"));
    assert!(said(Shape::points(&[Vector3::new(0.0, f64::NAN, 0.0)])).contains("vertex 0"));
    assert!(said(Shape::curves(&vertices, [&[1u32][..]].into_iter(), true)).contains("1 points"));
    // A grid that is too coarse for the kernel.
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 3.0 };
    let said = |summation, kernel| {
        decide(summation, kernel, [&surface, &surface]).unwrap_err().to_string()
    };
    assert!(said(Summation::Grid(1.5), &kernel).contains("wider kernel"));
    let none = RadialKernel { width: 0.0, ..kernel };
    for summation in [Summation::Automatic, Summation::Exact, Summation::Grid(1.5)] {
        assert!(said(summation, &none).contains("kernel width"));
    }
    let mut distance = between(&surface, &surface, kernel, Summation::Exact);
    let mut wrong = vertices.clone();
    wrong[3].y = f64::NAN;
    for vertices in [&vertices[1..], &wrong] {
        let said = distance.evaluate_at(&cpu(), vertices).unwrap_err().to_string();
        assert!(said.contains("finite positions"), "{said}");
    }
}

/// On the device, without waits: the same as with them, times a factor, and again at every run.
#[test]
fn the_device_has_the_same_without_waits() {
    let device = cpu();
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
    let upload = |distance: &ShapeDistance<Cpu>, at: &[Vector3<f64>]| {
        let _ = distance;
        let origin = Vector3::new(1.0, 2.0, 18.0);
        let list: Vec<f32> =
            (0..3).flat_map(|a| at.iter().map(move |v| (v[a] - origin[a]) as f32)).collect();
        device.upload(&list).unwrap()
    };
    for (a, b) in shapes(8, 12.0, 0.0).into_iter().zip(shapes(7, 11.0, 3.0)) {
        for summation in [Summation::Exact, Summation::Grid(1.5)] {
            // It wanders off: at the third step it leaves its room, of which is known at the fourth.
            let way = |step: usize| -> Vec<Vector3<f64>> {
                let by = Vector3::new([0.0, 1.0, 3.5, 6.0, 8.5, 11.0][step], 0.0, 0.2);
                a.vertices().iter().map(|v| v + by).collect()
            };
            let run = || {
                let mut distance = between(&a, &b, kernel, summation);
                let mut covectors = device.upload(&vec![9f32; 3 * a.vertices().len()]).unwrap();
                let step = |step| {
                    let at = upload(&distance, &way(step));
                    let energy = distance.evaluate(&device, &at, 0.25, &mut covectors).unwrap();
                    (energy.wait().unwrap(), device.download(&covectors).unwrap())
                };
                (0..6).map(step).collect::<Vec<_>>()
            };
            let found = run();
            assert!(found == run(), "other bits at another run");
            let mut fresh = between(&a, &b, kernel, summation);
            for (step, (energy, covectors)) in found.into_iter().enumerate() {
                let expected = fresh.evaluate_at(&device, &way(step)).unwrap();
                let name = format!("{} components, {summation:?}, step {step}", a.components());
                assert!((energy - 0.25 * expected.squared).abs() < 2e-5 * energy, "{name}");
                let n = a.vertices().len();
                let most = expected.covectors.iter().map(|c| c.norm()).fold(0.0, f64::max);
                for (i, covector) in expected.covectors.iter().enumerate() {
                    let of = Vector3::from_fn(|a, _| f64::from(covectors[a * n + i]));
                    assert!((of - 0.25 * covector).norm() < 2e-5 * most, "{name}, vertex {i}");
                }
            }
        }
    }
}

/// Vertices that are no place do not pass for a small energy, and are refused at the next step.
#[test]
fn what_is_no_place_is_told() {
    let device = cpu();
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
    for a in shapes(6, 12.0, 0.0) {
        for summation in [Summation::Exact, Summation::Grid(2.0)] {
            let mut distance = between(&a, &a, kernel, summation);
            let n = a.vertices().len();
            let mut list = vec![1f32; 3 * n];
            let mut covectors = device.alloc(3 * n).unwrap();
            let good = device.upload(&list).unwrap();
            list[n / 2] = f32::NAN;
            let bad = device.upload(&list).unwrap();
            let mut at = |at| distance.evaluate(&device, at, 1.0, &mut covectors);
            assert!(at(&good).unwrap().wait().unwrap().is_finite());
            let energy = at(&bad).unwrap().wait().unwrap();
            assert!(!energy.is_finite() || energy > 1e300, "{energy}");
            if summation != Summation::Exact {
                assert!(at(&good).unwrap_err().to_string().contains("not finite"));
            }
        }
    }
}

/// A shape that goes where no grid holds both is summed pair by pair from then on.
#[test]
fn far_shapes_end_no_run() {
    let device = cpu();
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
    let a = shapes(6, 12.0, 0.0).remove(0);
    let mut distance = between(&a, &a, kernel, Summation::Grid(2.0));
    let norm = distance.target_norm(&device).unwrap();
    let at = |by: f64| -> Vec<Vector3<f64>> {
        a.vertices().iter().map(|v| v + Vector3::new(by, by, by)).collect()
    };
    for by in [0.0, 40.0, 4e4, 40.0] {
        let squared = distance.evaluate_at(&device, &at(by)).unwrap().squared;
        let expected = if by > 0.0 { 2.0 * norm } else { 0.0 };
        assert!((squared - expected).abs() < 5e-3 * norm, "{by}: {squared}, not {expected}");
        assert_eq!(distance.sums().is_exact(), by > 1e3 || distance.sums().is_exact());
    }
    assert!(distance.sums().is_exact());
}

#[test]
fn how_sums_are_made_is_decided_once_and_can_be_told() {
    let [a, b] = [shapes(8, 12.0, 0.0).remove(0), shapes(40, 80.0, 3.0).remove(0)];
    let kernel = |width| RadialKernel { shape: KernelShape::Gaussian, width };
    let automatic = Summation::Automatic;
    for width in [0.3, 3.0, 40.0] {
        let found = decide(automatic, &kernel(width), [&a, &b]).unwrap();
        assert_eq!(found, decide(automatic, &kernel(width), [&b, &a]).unwrap());
        assert_eq!(found.is_exact(), width < 5.0, "{width}");
        assert_eq!(too_large(automatic, &kernel(width), [&a, &b]), None);
    }
    assert_eq!(decide(automatic, &kernel(30.0), [&b, &b]).unwrap(), Sums::Grid { spacing: 10.0 });
    // Some ten thousand elements of a quarter of a metre, by tenths of a millimetre.
    let large = shapes(100, 120.0, 0.0).remove(0);
    let said = too_large(automatic, &kernel(0.3), [&large, &large]).unwrap();
    assert!(said.voxels > 1e9 && said.pairs > 1e9 && said.to_string().contains("pairs"));
    assert_eq!(too_large(Summation::Exact, &kernel(0.3), [&large, &large]), None);
    assert!(decide(automatic, &kernel(0.3), [&large, &large]).unwrap().is_exact());
    assert!(decide(Summation::Grid(0.1), &kernel(0.3), [&large, &large]).is_err());
}

/// The stiffness that a registration by shapes goes by is above what the energy has, along ways that are smooth and rough.
#[test]
fn stiffness_bounds_the_second_derivative() {
    let device = Cpu::new(Some(1)).unwrap();
    let (vertices, faces) = ball(9, 12.0, 0.0);
    let points = Shape::points(&vertices).unwrap();
    let surface = |v: &[Vector3<f64>]| Shape::surface(v, &faces, true).unwrap();
    let lines: Vec<Vec<u32>> =
        (0..6).map(|l| (12 * l..12 * l + 12).map(|i| i as u32).collect()).collect();
    let curves =
        |v: &[Vector3<f64>]| Shape::curves(v, lines.iter().map(Vec::as_slice), true).unwrap();
    let near = moved(&vertices, 0.4);
    let kernel = |width| RadialKernel { shape: KernelShape::Gaussian, width };
    let pairs = [
        (points, Shape::points(&near).unwrap()),
        (surface(&vertices), surface(&near)),
        (curves(&vertices), curves(&near)),
    ];
    for (shape, target) in pairs {
        for width in [4.0, 8.0] {
            let mut distance = between(&shape, &target, kernel(width), Summation::Exact);
            let norms =
                expected_norm(&shape, &kernel(width)) + expected_norm(&target, &kernel(width));
            let (shape, target) = (Arc::new(shape.clone()), Arc::new(target.clone()));
            let options = ShapeOptions { width, ..ShapeOptions::default() };
            let shapes = Shapes::<Cpu>::new(Arc::clone(&shape), target, options).unwrap();
            let stiffness = shapes.stiffness(&shape, width, 1);
            for way in 0..3 {
                let by = |i: usize| match way {
                    0 => Vector3::new(1.0, 0.0, 0.0),
                    1 => Vector3::new(
                        (0.3 * vertices[i][1]).sin(),
                        0.5,
                        (0.2 * vertices[i][0]).cos(),
                    ),
                    _ => Vector3::new((i as f64 * 1.7).sin(), (i as f64 * 2.9).cos(), 0.3),
                };
                let h = 0.05;
                let mut energy = |t: f64| {
                    let at: Vec<_> =
                        vertices.iter().enumerate().map(|(i, v)| v + t * by(i)).collect();
                    distance.evaluate_at(&device, &at).unwrap().squared / norms
                };
                let second = (energy(h) - 2.0 * energy(0.0) + energy(-h)) / (h * h);
                let bound: f64 = stiffness
                    .iter()
                    .enumerate()
                    .map(|(i, s)| f64::from(*s) * by(i).norm_squared())
                    .sum();
                println!("width {width}, way {way}: {second:.5} of at most {bound:.5}");
                assert!(second <= bound, "{second} above {bound}");
            }
        }
    }
}
