//! The solvers of the velocities against each other and against the operator.

use proptest::prelude::*;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::elastic::{Boundary, Elastic};
use voxalign_compute::{Device, Memory};
use voxalign_register::Choice;
use voxalign_register::RegisterError;
use voxalign_register::model::solver::sor::Relaxation;
use voxalign_register::model::solver::{
    Cg, Elasticity, Gaussian, Hybrid, Operator, Solver, SolverKind, Sor,
};

const SPACING: [f64; 3] = [1.0, 0.8, 1.5];

/// A field of some smooth and some rough forces.
fn force(dims: [usize; 3], phase: f32) -> Vec<f32> {
    let n: usize = dims.iter().product();
    let mut state = 7u32;
    (0..3 * n)
        .map(|i| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (x, y) = ((i % dims[0]) as f32, (i / dims[0] % dims[1]) as f32);
            let z = (i / (dims[0] * dims[1])) as f32;
            let smooth = (0.3 * x + phase).sin() + (0.2 * y + 0.1 * z).cos();
            smooth + 0.2 * ((state >> 8) as f32 / 16_777_216.0 - 0.5)
        })
        .collect()
}

/// A solver that is told parameters, those that it has, with a grid that ends unless it is told otherwise.
fn told(mut kind: SolverKind, parameters: &[(&str, &dyn ToString)]) -> SolverKind {
    kind.set("boundary", "zero").unwrap();
    for (name, value) in parameters {
        kind.set(name, &value.to_string()).unwrap();
    }
    kind
}

fn options(kind: SolverKind, boundary: Boundary, beta: f64) -> SolverKind {
    let kind =
        told(kind, &[("boundary", &boundary.name()), ("beta", &beta), ("solver_tolerance", &1e-5)]);
    // Without two colours the factor is 1, and sweeps are many.
    match kind {
        SolverKind::Sor(_) => {
            told(kind, &[("solver_iterations", &2000), ("boundary", &boundary.name())])
        }
        kind => kind,
    }
}

fn solved<D: Device>(
    device: &D,
    dims: [usize; 3],
    options: &SolverKind,
    forces: &[Vec<f32>],
) -> (Vec<f32>, f64) {
    let mut solver = options.build(device, dims, SPACING).unwrap();
    let mut v = device.alloc(forces[0].len()).unwrap();
    let mut residual = 0.0;
    for f in forces {
        let f = device.upload(f).unwrap();
        solver.solve(&f, &mut v).unwrap();
        residual = solver.residual(&f, &v).unwrap().unwrap();
    }
    (device.into_host(v).unwrap(), residual)
}

fn difference(a: &[f32], b: &[f32]) -> f64 {
    let square = |v: f64| v * v;
    let apart: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(a - b))).sum();
    (apart / b.iter().map(|&b| square(f64::from(b))).sum::<f64>()).sqrt()
}

/// All solvers give what the direct one gives, of which the operator makes the force again.
fn solvers_agree<D: Device>(device: &D, all_sizes: &[[usize; 3]]) {
    for &dims in all_sizes {
        for boundary in [Boundary::Zero, Boundary::Periodic] {
            for beta in [0.0, 0.02] {
                let name = format!("{dims:?} {boundary:?} {beta}");
                let forces = [force(dims, 0.0), force(dims, 0.01)];
                let direct = options(SolverKind::FFT, boundary, beta);
                let (exact, residual) = solved(device, dims, &direct, &forces);
                assert!(residual < 2e-5, "{name}: {residual}");
                for kind in [SolverKind::SOR, SolverKind::CG, SolverKind::HYBRID] {
                    // A few iterations a call converge over some calls.
                    let calls = if kind == SolverKind::HYBRID { 12 } else { 1 };
                    let last = std::iter::repeat_n(&forces[1], calls);
                    let forces: Vec<_> = forces[..1].iter().chain(last).cloned().collect();
                    let options = options(kind, boundary, beta);
                    let (found, residual) = solved(device, dims, &options, &forces);
                    let apart = difference(&found, &exact);
                    assert!(apart < 1e-3, "{name} {}: {apart}, {residual}", kind.name());
                }
            }
        }
    }
}

#[test]
fn solvers_agree_on_the_cpu() {
    let cpu = Cpu::new(Some(2)).unwrap();
    solvers_agree(&cpu, &[[20, 18, 16], [17, 12, 1], [9, 1, 7], [13, 11, 8]]);
}

#[test]
fn solvers_agree_on_the_emulated_gpu() {
    match Cuda::emulated() {
        Ok(cuda) => solvers_agree(&cuda, &[[6, 5, 4]]),
        Err(e) => {
            assert!(std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none(), "{e}");
        }
    }
}

#[test]
fn the_best_factor_is_better_and_a_warm_start_is_shorter() {
    let (cpu, dims) = (Cpu::new(Some(2)).unwrap(), [24, 20, 18]);
    let operator = Operator::USUAL.on(SPACING);
    let of = Elasticity { operator, dims };
    let (first, second) = (force(dims, 0.0), force(dims, 0.02));
    let (first, second) = (cpu.upload(&first).unwrap(), cpu.upload(&second).unwrap());
    let solver = || Relaxation::new(&cpu, of, 1000, 1e-4).unwrap();
    let solve = |mut solver: Relaxation<Cpu>| {
        let mut v = cpu.alloc(3 * 24 * 20 * 18).unwrap();
        let cold = solver.solve(&first, &mut v).unwrap();
        (cold.iterations, solver.solve(&second, &mut v).unwrap().iterations)
    };
    let (best, plain) = (solve(solver()), solve(solver().with_factor(1.0)));
    assert!(2 * best.0 < plain.0, "{best:?} {plain:?}");
    assert!(best.1 < best.0 && plain.1 < plain.0, "{best:?} {plain:?}");
    let mut gradients =
        told(SolverKind::CG, &[("solver_tolerance", &1e-4)]).build(&cpu, dims, SPACING).unwrap();
    let mut v = cpu.alloc(3 * 24 * 20 * 18).unwrap();
    let cold = gradients.solve(&first, &mut v).unwrap();
    let warm = gradients.solve(&second, &mut v).unwrap();
    assert!(warm.iterations < cold.iterations, "{cold:?} {warm:?}");
    assert_eq!(gradients.solve(&second, &mut v).unwrap().iterations, 0);
}

#[test]
fn a_hybrid_solver_follows_the_force() {
    let (cpu, dims) = (Cpu::new(Some(2)).unwrap(), [24, 20, 18]);
    let of = |kind| told(kind, &[]);
    let other = force(dims, 2.0);
    let (exact, _) = solved(&cpu, dims, &of(SolverKind::FFT), std::slice::from_ref(&other));
    let mut solver = of(SolverKind::HYBRID).build(&cpu, dims, SPACING).unwrap();
    let mut v = cpu.alloc(3 * 24 * 20 * 18).unwrap();
    let f = cpu.upload(&force(dims, 0.0)).unwrap();
    assert_eq!(solver.solve(&f, &mut v).unwrap().iterations, 1);
    assert_eq!(solver.solve(&f, &mut v).unwrap().iterations, 2);
    let f = cpu.upload(&other).unwrap();
    let mut apart = difference(&cpu.download(&v).unwrap(), &exact);
    assert!(apart > 0.1, "{apart}");
    // Two calls of two sweeps leave less than half.
    for _ in 0..6 {
        for _ in 0..2 {
            assert_eq!(solver.solve(&f, &mut v).unwrap().iterations, 2);
        }
        let now = difference(&cpu.download(&v).unwrap(), &exact);
        assert!(now < 0.5 * apart, "{now} after {apart}");
        apart = now;
    }
    assert!(apart < 1e-3, "{apart}");
}

#[test]
fn no_force_makes_no_velocity() {
    let (cpu, dims) = (Cpu::new(Some(1)).unwrap(), [7, 6, 5]);
    let f = cpu.alloc(630).unwrap();
    for kind in [SolverKind::FFT, SolverKind::SOR, SolverKind::CG, SolverKind::HYBRID] {
        for beta in [0.0, 0.1] {
            let options = told(kind, &[("beta", &beta)]);
            let mut solver = options.build(&cpu, dims, SPACING).unwrap();
            let mut v = cpu.alloc(630).unwrap();
            for _ in 0..2 {
                solver.solve(&f, &mut v).unwrap();
                assert_eq!(cpu.download(&v).unwrap(), vec![0.0; 630]);
                assert_eq!(solver.residual(&f, &v).unwrap(), Some(0.0));
            }
        }
    }
}

#[test]
fn wrong_options_are_named() {
    let cpu = Cpu::new(Some(1)).unwrap();
    let usual = SolverKind::HYBRID;
    let operator = |operator: Operator| SolverKind::from(Hybrid { operator, ..Hybrid::USUAL });
    for (name, options) in [
        ("alpha", operator(Operator { alpha: -1.0, ..Operator::USUAL })),
        ("beta", operator(Operator { beta: f64::NAN, ..Operator::USUAL })),
        ("gamma", operator(Operator { gamma: f64::INFINITY, ..Operator::USUAL })),
        (
            "gamma",
            operator(Operator { gamma: 0.0, boundary: Boundary::Periodic, ..Operator::USUAL }),
        ),
        ("solver_iterations", Hybrid { solver_iterations: Some(0), ..Hybrid::USUAL }.into()),
        ("solver_iterations", Sor { solver_iterations: 0, ..Sor::USUAL }.into()),
        ("solver_tolerance", Cg { solver_tolerance: 0.0, ..Cg::USUAL }.into()),
        ("sigma", Gaussian { sigma: 0.0 }.into()),
    ] {
        match options.build(&cpu, [4; 3], [1.0; 3]) {
            Err(RegisterError::Option(wrong)) => assert_eq!(wrong.name(), name),
            other => panic!("{name}: {:?}", other.map(|_| ())),
        }
    }
    assert!(usual.build(&cpu, [4, 0, 4], [1.0; 3]).is_err());
    assert!(usual.build(&cpu, [4; 3], [0.0; 3]).is_err());
    assert_eq!(SolverKind::HYBRID.name(), "hybrid");
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// `<L u, v> = <u, L v>`, and `<L v, v>` is above zero.
    #[test]
    fn the_operator_is_symmetric_and_positive_definite(
        dims in prop::array::uniform3(1usize..7),
        spacing in prop::array::uniform3(0.5f64..3.0),
        constants in prop::array::uniform3(0.0f64..2.0),
        periodic: bool,
        seed: u32,
    ) {
        let cpu = Cpu::new(Some(1)).unwrap();
        let operator = Operator {
            alpha: constants[0],
            beta: constants[1],
            gamma: 0.01 + constants[2],
            boundary: if periodic { Boundary::Periodic } else { Boundary::Zero },
        }
        .on(spacing);
        let n = 3 * dims.iter().product::<usize>();
        let mut state = seed;
        let mut random = || -> Vec<f32> {
            (0..n)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 8) as f32 / 16_777_216.0 - 0.5
                })
                .collect()
        };
        let product = |v: &[f32]| {
            let mut out = cpu.alloc(n).unwrap();
            cpu.elastic_product(&operator, &cpu.upload(v).unwrap(), dims, &mut out).unwrap();
            cpu.into_host(out).unwrap()
        };
        let (u, v) = (random(), random());
        let (lu, lv) = (product(&u), product(&v));
        let size = (dot(&lu, &lu) * dot(&v, &v)).sqrt().max(1e-6);
        prop_assert!((dot(&lu, &v) - dot(&u, &lv)).abs() < 1e-5 * size);
        prop_assert!(dot(&lv, &v) > 0.0 || dot(&v, &v) == 0.0);
    }
}
