//! Bodies at rest under forces, against what is known of them.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use voxalign_elasticity::{
    Body, ElasticityError, Factor, Fixed, Material, Materials, TetraBox, equilibrium,
};
use voxalign_image::{Affine, Grid, Matrix3, Vector3, memory};

fn material() -> Materials {
    Materials::Uniform(Material::new(1000.0, 0.3, 1000.0).unwrap())
}

/// A box of cells with its lowest corner at 0.
fn block(cells: [usize; 3], edges: [f64; 3]) -> Body {
    let grid = Grid::axis_aligned(cells.map(|n| n + 1), edges).unwrap();
    Body::new(TetraBox::new(grid).unwrap().mesh().unwrap(), &material()).unwrap()
}

/// The corner of a cube that stands on its lowest face; numbers of an independent implementation (with scipy).
#[test]
fn a_cube_that_is_pulled_at_a_corner_is_known() {
    let body = block([2; 3], [5.0; 3]);
    let fixed = Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let mut forces = vec![Vector3::zeros(); 27];
    forces[26] = Vector3::new(1.0, 0.5, -0.25);
    let u = equilibrium(&body, &fixed, &[Vector3::zeros(); 27], &forces).unwrap();
    let expected = Vector3::new(0.829537204866, 0.318346322604, -0.339507555449);
    assert!((u[26] - expected).amax() < 1e-11, "{}", u[26]);
    let strain = body.strains(&u).unwrap()[47];
    let expected = [
        0.04751912489,
        -0.003795328493,
        -0.003920810986,
        0.008688026117,
        -0.003217018467,
        0.060569837807,
    ];
    assert!((0..6).all(|a| (strain[a] - expected[a]).abs() < 1e-11), "{strain:?}");
    let stress = body.von_mises(&u).unwrap();
    assert!((stress[0] / 2.747016444260e-2 - 1.0).abs() < 1e-11);
    assert!((stress[47] / 5.681658505795e-2 - 1.0).abs() < 1e-11);
    assert!((0..9).all(|i| u[i] == Vector3::zeros()));
}

/// A crooked block of two materials that is twisted at its foot and pulled everywhere: numbers of sfepy 2026.3 (R. Cimrman and others), with
/// linear tetrahedra on the same mesh and its direct solver.
#[test]
fn a_crooked_block_of_two_materials_is_that_of_sfepy() {
    let straight = block([3, 3, 4], [4.0, 5.0, 3.0]);
    let crooked = |x: &Vector3<f64>| {
        let of = |k: f64| 0.5 * (1.3 * x.x + k * x.y + 0.7 * k * k * x.z).sin();
        x + Vector3::new(of(1.1), of(0.6), if x.z == 0.0 { 0.0 } else { of(0.8) })
    };
    let vertices: Vec<_> = straight.mesh().vertices().iter().map(crooked).collect();
    let label = |corners: &[u32; 4]| {
        let x = corners.iter().map(|&c| straight.mesh().vertices()[c as usize].x).sum::<f64>();
        i32::from(x / 4.0 > 6.0)
    };
    let labels = straight.mesh().tetrahedra().iter().map(label).collect();
    let mesh = straight.mesh().clone().with_vertices(vertices).unwrap().with_labels(labels);
    let [soft, hard] =
        [(1500.0, 0.35), (9000.0, 0.45)].map(|(e, n)| Material::new(e, n, 1000.0).unwrap());
    let body = Body::new(mesh.unwrap(), &Materials::ByLabel(vec![(0, soft), (1, hard)])).unwrap();
    let fixed = Fixed::whose(body.mesh(), |x| x.z == 0.0).unwrap();
    let all = body.mesh().vertices();
    let given: Vec<_> = all
        .iter()
        .map(|x| Vector3::new(-0.02 * (x.y - 7.0), 0.02 * (x.x - 6.0), 0.01 * x.x))
        .collect();
    let forces: Vec<_> = all.iter().map(|x| Vector3::new(0.3, 0.1 * x.z, -0.2)).collect();
    let u = equilibrium(&body, &fixed, &given, &forces).unwrap();
    for (vertex, expected) in [
        (20, [0.172_025_148_530_301, 0.564_787_667_362_161, 0.091_497_411_326_917]),
        (46, [0.467_843_915_535_230, 1.024_716_079_269_864, -0.182_070_082_662_414]),
        (63, [0.693_361_735_000_916, 1.262_159_455_326_435, -0.288_219_062_550_409]),
        (79, [0.771_710_536_898_113, 1.595_006_059_810_464, -0.302_126_286_311_916]),
    ] {
        assert!((u[vertex] - Vector3::from(expected)).amax() < 1e-12, "{vertex} {}", u[vertex]);
    }
    let work: f64 =
        u.iter().zip(body.stiffness().unwrap().product(&u).unwrap()).map(|(u, f)| u.dot(&f)).sum();
    assert!((0.5 * work / 47.628_169_199_653_77 - 1.0).abs() < 1e-12, "{work}");
}

/// An affine displacement of the border is that of the whole body, whatever the mesh inside.
#[test]
fn the_patch_test_holds() {
    let body = block([3; 3], [1.0; 3]);
    let inside = |x: &Vector3<f64>| x.iter().all(|&c| c > 0.5 && c < 2.5);
    let mut state = 5u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as f64 / (1u64 << 31) as f64 * 0.4 - 0.2
    };
    let moved = |x: &Vector3<f64>| if inside(x) { x.map(|c| c + random()) } else { *x };
    let vertices = body.mesh().vertices().iter().map(moved).collect();
    let body =
        Body::new(body.mesh().clone().with_vertices(vertices).unwrap(), &material()).unwrap();
    let gradient = Matrix3::new(0.02, 0.05, 0.0, 0.0, -0.03, 0.04, 0.01, 0.0, 0.03);
    let exact: Vec<_> = body.mesh().vertices().iter().map(|x| gradient * x).collect();
    let border = Fixed::whose(body.mesh(), |x| !inside(x)).unwrap();
    let forces = vec![Vector3::zeros(); exact.len()];
    let found = equilibrium(&body, &border, &exact, &forces).unwrap();
    for (found, exact) in found.iter().zip(&exact) {
        assert!((found - exact).amax() < 1e-14, "{found} {exact}");
    }
}

/// `u = sin(πx) sin(πy) sin(πz) (1, 2, -1)` in a cube of 1 mm: the error is of second order.
#[test]
fn errors_are_of_second_order() {
    use std::f64::consts::PI;
    let amplitude = Vector3::new(1.0, 2.0, -1.0);
    let sines = |x: Vector3<f64>| x.map(|c| (PI * c).sin());
    let exact = |x: Vector3<f64>| amplitude * sines(x).product();
    let [lambda, mu] = Material::new(1000.0, 0.3, 1000.0).unwrap().lame_kpa();
    let force = |x: Vector3<f64>| {
        let (s, c) = (sines(x), x.map(|c| (PI * c).cos()));
        let second = Matrix3::from_fn(|i, j| {
            PI * PI * if i == j { -s.product() } else { c[i] * c[j] * s[3 - i - j] }
        });
        second * amplitude * -(lambda + mu) + exact(x) * (3.0 * mu * PI * PI)
    };
    // A rule that is exact for polynomials of second degree.
    let (far, near) = (0.138_196_601_125_010_5, 0.585_410_196_624_968_5);
    let rule: [[f64; 4]; 4] =
        std::array::from_fn(|q| std::array::from_fn(|i| if i == q { near } else { far }));
    let error = |n: usize| {
        let body = block([n; 3], [1.0 / n as f64; 3]);
        let at = |values: [Vector3<f64>; 4], q: &[f64; 4]| -> Vector3<f64> {
            values.iter().zip(q).map(|(v, w)| v * *w).sum()
        };
        let mut forces = vec![Vector3::zeros(); body.mesh().vertices().len()];
        for (e, corners) in body.mesh().tetrahedra().iter().enumerate() {
            for q in &rule {
                let density =
                    force(at(body.mesh().corners(e), q)) * (body.elements()[e].volume / 4.0);
                corners.iter().zip(q).for_each(|(&i, w)| forces[i as usize] += density * *w);
            }
        }
        let border = |x: &Vector3<f64>| x.iter().any(|&c| !(1e-9..=1.0 - 1e-9).contains(&c));
        let fixed = Fixed::whose(body.mesh(), border).unwrap();
        let zeros = vec![Vector3::zeros(); forces.len()];
        let u = equilibrium(&body, &fixed, &zeros, &forces).unwrap();
        let mut sum = 0.0;
        for (e, corners) in body.mesh().tetrahedra().iter().enumerate() {
            for q in &rule {
                let off =
                    at(corners.map(|i| u[i as usize]), q) - exact(at(body.mesh().corners(e), q));
                sum += body.elements()[e].volume / 4.0 * off.norm_squared();
            }
        }
        sum.sqrt()
    };
    let errors = [4, 8, 16].map(error);
    assert!((errors[0] - 0.2190).abs() < 1e-4 && (errors[1] - 0.06604).abs() < 1e-5, "{errors:?}");
    let orders = [(errors[0] / errors[1]).log2(), (errors[1] / errors[2]).log2()];
    println!("errors {errors:?}, orders {orders:?}");
    assert!(orders[0] > 1.7 && orders[1] > 1.9, "{orders:?}");
}

/// A beam that is clamped at one end, against S. P. Timoshenko's theory.
#[test]
fn a_cantilever_bends_as_that_of_timoshenko() {
    let (length, height, width, nu): (f64, f64, f64, f64) = (10.0, 1.0, 0.25, 0.3);
    let (area, inertia) = (height * width, width * height * height * height / 12.0);
    let shear = 10.0 * (1.0 + nu) / (12.0 + 11.0 * nu);
    let modulus = 1.0 / (2.0 * (1.0 + nu));
    let load = 1e-5;
    let theory: f64 =
        load * length.powi(3) / (3.0 * inertia) + load * length / (shear * modulus * area);
    let deflection = |n: usize| {
        let cells = [10 * n, n / 4, n];
        let body = block(
            cells,
            [length / cells[0] as f64, width / cells[1] as f64, height / cells[2] as f64],
        );
        let fixed = Fixed::whose(body.mesh(), |x| x.x == 0.0).unwrap();
        let vertices = body.mesh().vertices();
        let end: Vec<usize> =
            (0..vertices.len()).filter(|&i| vertices[i].x > length - 1e-9).collect();
        let mut forces = vec![Vector3::zeros(); vertices.len()];
        // As a constant traction has it, but for the corners: the sum counts far from the end.
        end.iter().for_each(|&i| forces[i].z = load / end.len() as f64);
        let zeros = vec![Vector3::zeros(); forces.len()];
        let u = equilibrium(&body, &fixed, &zeros, &forces).unwrap();
        end.iter().map(|&i| u[i].z).sum::<f64>() / end.len() as f64
    };
    let errors = [4, 8, 14].map(|n| deflection(n) / theory - 1.0);
    println!("errors {errors:?}");
    assert!(errors[0].abs() > errors[1].abs() && errors[1].abs() > errors[2].abs(), "{errors:?}");
    assert!(errors[2].abs() < 0.03, "{errors:?}");
}

/// An oblique body that is pulled in many places.
fn pulled() -> (Body, Fixed, Vec<Vector3<f64>>) {
    let matrix = Matrix3::new(3.0, 0.5, 0.0, -0.4, 2.0, 0.3, 0.2, 0.1, 4.0);
    let grid = Grid::new([9, 8, 7], Affine::new(matrix, Vector3::new(10.0, -20.0, 5.0))).unwrap();
    let body = Body::new(TetraBox::new(grid).unwrap().mesh().unwrap(), &material()).unwrap();
    let fixed = Fixed::vertices(body.mesh(), &[0, 1, 9, 80]).unwrap();
    let forces = body.mesh().vertices().iter().map(|x| x.map(|c| (3.0 * c).sin())).collect();
    (body, fixed, forces)
}

#[test]
fn solutions_have_the_same_bits_on_any_number_of_threads() {
    let (body, fixed, forces) = pulled();
    let zeros = vec![Vector3::zeros(); forces.len()];
    let solve = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let u = equilibrium(&body, &fixed, &zeros, &forces).unwrap();
            let stress = body.von_mises(&u).unwrap();
            let bits = u.iter().flatten().chain(&stress).map(|c| c.to_bits()).collect::<Vec<_>>();
            (bits, body.stiffness().unwrap())
        })
    };
    let one = solve(1);
    for threads in [2, 8] {
        assert!(solve(threads) == one, "{threads} threads");
    }
    assert!(solve(1) == one);
}

#[test]
fn what_has_no_solution_is_said() {
    let (body, _, forces) = pulled();
    let zeros = vec![Vector3::zeros(); forces.len()];
    let free = Fixed::none(body.mesh()).unwrap();
    let error = equilibrium(&body, &free, &zeros, &forces).unwrap_err();
    assert_eq!(error, ElasticityError::Loose { fixed: 0 });
    let negative = body.stiffness().unwrap().combined(-1.0, |_| 0.0).unwrap();
    let error = Factor::new(negative).unwrap_err();
    assert_eq!(error, ElasticityError::NotDefinite { unknowns: 3 * forces.len() });
    let sound = body.stiffness().unwrap().combined(1.0, |_| 1.0).unwrap();
    let factor = Factor::new(sound).unwrap();
    assert!(factor.entries() > 3 * forces.len());
    let mut endless = memory::copied(&forces).unwrap();
    endless[5].y = f64::INFINITY;
    assert!(matches!(factor.solve(&endless), Err(ElasticityError::Residual { .. })));
    assert_eq!(factor.solve(&zeros).unwrap(), zeros);
}
