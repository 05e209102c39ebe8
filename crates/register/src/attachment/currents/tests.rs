//! Shapes against sums in double precision, one pair at a time.

use super::*;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::simplices::Element;

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
                let mut distance =
                    ShapeDistance::new(&device, a.clone(), b.clone(), kernel, summation).unwrap();
                let found = distance.evaluate(&device, &vertices).unwrap().squared;
                assert!(
                    (found - exact).abs() < bound * exact,
                    "{kernel:?} {summation:?}, {} components: {found} not {exact}",
                    a.components()
                );
            }
            let own = expected_norm(&a, &kernel);
            let (one, other, summation) = (a.clone(), a.clone(), Summation::Automatic);
            let found = ShapeDistance::new(&device, one, other, kernel, summation);
            let found = found.unwrap().target_norm(&device).unwrap();
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

/// What is left of the energy without its slope is of second order in the step.
#[test]
fn covectors_are_derivatives() {
    let device = cpu();
    let kernel = RadialKernel { shape: KernelShape::Gaussian, width: 6.0 };
    for (a, b) in shapes(8, 12.0, 0.0).into_iter().zip(shapes(7, 11.0, 3.0)) {
        let vertices = a.vertices().to_vec();
        let way: Vec<_> = moved(&vertices, 1.0).iter().zip(&vertices).map(|(m, v)| m - v).collect();
        let slope_of = |covectors: &[Vector3<f64>]| {
            covectors.iter().zip(&way).map(|(c, w)| c.dot(w)).sum::<f64>()
        };
        let along =
            |h: f64| -> Vec<_> { vertices.iter().zip(&way).map(|(v, w)| v + h * w).collect() };
        let mut distance =
            ShapeDistance::new(&device, a.clone(), b.clone(), kernel, Summation::Exact).unwrap();
        let slope = slope_of(&distance.evaluate(&device, &vertices).unwrap().covectors);
        let start = expected((&a, &vertices), &b, &kernel);
        let mut last = f64::INFINITY;
        for h in [0.2, 0.05, 0.0125] {
            let energy = expected((&a, &along(h)), &b, &kernel);
            let rest = (energy - start - h * slope).abs() / (h * slope.abs());
            assert!(rest < 0.4 * last, "{} components: {rest} at {h}", a.components());
            last = rest;
        }
        assert!(last < 0.05, "{last}");
        // On the grid it is the derivative of the energy of the grid, with its jumps of slope at voxels, and near the
        // exact one.
        let grid = Summation::Grid(1.5);
        let mut distance = ShapeDistance::new(&device, a.clone(), b.clone(), kernel, grid).unwrap();
        let on_grid = distance.evaluate(&device, &vertices).unwrap();
        assert!((slope_of(&on_grid.covectors) - slope).abs() < 0.01 * slope.abs());
        let h = 0.02;
        let ahead = distance.evaluate(&device, &along(h)).unwrap().squared;
        let back = distance.evaluate(&device, &along(-h)).unwrap().squared;
        let own = (ahead - back) / (2.0 * h);
        assert!(
            (own - slope_of(&on_grid.covectors)).abs() < 5e-3 * own.abs(),
            "{own} {}",
            slope_of(&on_grid.covectors)
        );
    }
}

/// The errors of the squared distance and of its gradient on a grid, of the root of mean squares of the exact one.
fn errors(pair: &[Shape; 2], kernel: &RadialKernel, spacing: f64) -> [f64; 2] {
    let device = cpu();
    let [a, b] = pair;
    let of = |summation| {
        let mut distance =
            ShapeDistance::new(&device, a.clone(), b.clone(), *kernel, summation).unwrap();
        distance.evaluate(&device, a.vertices()).unwrap()
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
        let mut distance =
            ShapeDistance::new(&device, shape, target, kernel, Summation::Exact).unwrap();
        distance.evaluate(&device, &vertices).unwrap().squared / norm
    };
    assert!((squared(true) - 4.0).abs() < 1e-4);
    assert!(squared(false).abs() < 1e-4);
}

#[test]
fn what_makes_no_pair_is_refused() {
    let (vertices, faces) = ball(4, 10.0, 0.0);
    let surface = Shape::surface(&vertices, &faces, true).unwrap();
    let points = Shape::points(&vertices).unwrap();
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
    let grid = Summation::Grid(1.5);
    let mut coarse = ShapeDistance::new(&cpu(), surface.clone(), surface, kernel, grid).unwrap();
    assert!(coarse.evaluate(&cpu(), &vertices).unwrap_err().to_string().contains("wider kernel"));
}
