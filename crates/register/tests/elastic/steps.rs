//! Steps that are too long, tetrahedra that collapse, and starts near rest.

use crate::bodies::{error, input, pair, run, setting};
use voxalign_compute::cpu::Cpu;
use voxalign_image::VectorField;
use voxalign_register::Silent;
use voxalign_register::diffeo::register_elastic;
use voxalign_register::model::elastic::{Coupling, StepSolver};
use voxalign_register::multiscale::Schedule;

fn cpu() -> Cpu {
    Cpu::new(Some(2)).unwrap()
}

/// Forces that lag make the body swing where steps are long; the step that is named serves, on the host and on the device.
#[test]
fn a_step_that_makes_the_body_swing_is_told_and_the_one_that_serves() {
    for solver in [StepSolver::Direct, StepSolver::Chebyshev] {
        let mut setting = setting(8.0);
        setting.elastic.coupling = Coupling::Explicit;
        setting.elastic.step_solver = solver;
        setting.elastic.time_step = 0.05;
        setting.elastic.force_scale = Some(100.0);
        setting.multiscale.schedule = Schedule::of(&[(2, 60)]);
        let images = pair();
        let told = register_elastic(&cpu(), &input(&images), &setting, &Silent);
        let error = told.expect_err("it swings").to_string();
        assert!(error.contains("swing") && error.contains("coupling = implicit"), "{error}");
        let serves = error.split("give ").nth(1).and_then(|rest| rest.split(' ').next());
        let serves: f64 = serves.unwrap().parse().unwrap();
        assert!(serves > 1e-4 && serves < 0.2, "{error}");
        setting.elastic.time_step = serves;
        let (result, _) = run(&cpu(), &setting);
        let energies = &result.scales[0].energies;
        assert!(energies.last().unwrap() < &(0.5 * energies[0]), "{serves} {energies:?}");
    }
}

/// A mesh that is finer than the samples of a coarse scale: some of its tetrahedra collapse there, are held, and the rest goes on.
#[test]
fn tetrahedra_that_collapse_do_not_end_a_run() {
    let before = error(&VectorField::zeros(crate::bodies::grid()));
    for solver in [StepSolver::Direct, StepSolver::Chebyshev] {
        let mut setting = setting(6.0);
        setting.elastic.step_solver = solver;
        setting.elastic.force_scale = Some(2000.0);
        setting.multiscale.schedule = Schedule::of(&[(4, 40)]);
        let (result, found) = run(&cpu(), &setting);
        let steps = &result.scales[0].motion;
        println!("{solver:?} {:?} {} of {before}", found.held, error(&result.forward));
        assert!(found.held.steps > 0, "nothing collapsed");
        assert!(steps.iter().all(|m| m.least_jacobian >= 0.05));
        assert_eq!(found.held.steps, steps.iter().filter(|m| m.held > 0).count());
        assert!(error(&result.forward) < before);
    }
}

/// A body that starts where it rests comes to rest at once, and one that starts near it soon.
#[test]
fn a_start_near_rest_takes_few_steps() {
    let mut setting = setting(8.0);
    let (cold, found) = run(&cpu(), &setting);
    let iterations = |scales: &[voxalign_register::multiscale::ScaleRecord]| {
        scales.iter().map(|s| s.energies.len()).sum::<usize>()
    };
    setting.start = Some(found.state.clone());
    setting.multiscale.schedule = Schedule::of(&[(1, 40)]);
    let (again, _) = run(&cpu(), &setting);
    let [cold_steps, steps] = [&cold, &again].map(|r| iterations(&r.scales));
    println!("{cold_steps} steps, then {steps}");
    assert!(steps <= 5 && 3 * steps <= cold_steps, "{steps} of {cold_steps}");
    assert!((error(&again.forward) - error(&cold.forward)).abs() < 0.02);
}
