//! Elastic bodies on GPUs.

use crate::bodies::{error, input, materials, run, setting};
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_elasticity::{Body, Fixed, TetraBox};
use voxalign_image::{Grid, Volume};
use voxalign_register::Silent;
use voxalign_register::diffeo::{DeformResult, ElasticSetting, register_elastic};
use voxalign_register::model::elastic::{ElasticBody, ElasticResult, Force, Sampling, StepSolver};
use voxalign_register::multiscale::Schedule;

/// Fields of a GPU are within a hundredth of a voxel of those of the CPU, whatever solves for the steps.
#[test]
fn a_gpu_and_the_cpu_agree() {
    if !std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        eprintln!("skipped: a_gpu_and_the_cpu_agree needs a GPU; set VOXALIGN_TEST_DEVICE to cuda");
        return;
    }
    let gpu = Cuda::new(0).unwrap();
    for (step_solver, force, samples) in [
        (StepSolver::Direct, Force::Consistent, Sampling::All),
        (StepSolver::Cg, Force::Consistent, Sampling::All),
        (StepSolver::Inverse, Force::LeastSquares, Sampling::Lattice([16, 16, 14])),
        (StepSolver::Cg, Force::Nodes, Sampling::All),
        (StepSolver::Chebyshev, Force::Consistent, Sampling::All),
    ] {
        let mut setting = setting(6.0);
        setting.elastic.step_solver = step_solver;
        setting.elastic.force = force;
        setting.elastic.samples = samples;
        let (on_gpu, _) = run(&gpu, &setting);
        setting.elastic.step_solver = StepSolver::Direct;
        let (on_cpu, _) = run(&Cpu::new(None).unwrap(), &setting);
        let data = on_cpu.forward.data().iter().zip(on_gpu.forward.data());
        let most = data.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let after = error(&on_gpu.forward);
        println!("{step_solver:?} {force:?} {samples:?}: {most:.2e} mm apart, error {after:.3}");
        assert!(most < 0.015, "{step_solver:?} {force:?} {most}");
    }
}

/// Times of 15 steps between images of 512 x 512 x 136 voxels, without what comes before the first step and after the last one.
#[test]
#[ignore = "prints times, for which a GPU of one's own serves"]
fn times_of_large_images() {
    let grid = Grid::axis_aligned([512, 512, 136], [0.7, 0.7, 1.5]).unwrap();
    let image = |by: f64| {
        Volume::from_fn(grid.clone(), |i, j, k| {
            let [x, y, z] = [0.7 * i as f64 + by, 0.7 * j as f64, 1.5 * k as f64];
            let off = ((x - 180.0).powi(2) + (y - 180.0).powi(2) + (z - 100.0).powi(2)).sqrt();
            let texture = 0.1 * ((0.1 * x).sin() + (0.12 * y).cos() + (0.15 * z).sin());
            (1.0 / (1.0 + ((off - 80.0) / 3.0).exp()) * (0.7 + texture)) as f32
        })
    };
    let images = [image(4.0), image(0.0)];
    let input = input(&images);
    let cells = TetraBox::over(&grid, 27.5).unwrap();
    let body = Body::new(cells.mesh().unwrap(), &materials()).unwrap();
    let free = Fixed::none(body.mesh()).unwrap();
    let counts = (body.mesh().vertices().len(), body.mesh().tetrahedra().len());
    println!("{} vertices, {} tetrahedra", counts.0, counts.1);
    let mut setting = ElasticSetting::new(ElasticBody::new(body, free, Some(cells)));
    setting.elastic.tolerance = 0.0;
    setting.multiscale.schedule = Schedule::of(&[(1, 15)]);
    let mut time = |name: &str, run: &dyn Fn(&ElasticSetting) -> (DeformResult, ElasticResult)| {
        for samples in [Sampling::Lattice([20, 20, 15]), Sampling::All] {
            for step_solver in
                [StepSolver::Direct, StepSolver::Cg, StepSolver::Chebyshev, StepSolver::Inverse]
            {
                for timed in [false, true] {
                    setting.elastic.samples = samples;
                    setting.elastic.step_solver = step_solver;
                    setting.timed = timed;
                    let (result, found) = run(&setting);
                    let scale = &result.scales[0];
                    println!(
                        "{name} {samples} {step_solver:?}: 15 steps {:.2} ms, before them {:.2} s, energy {:.6} to {:.6}, {:?}",
                        1e3 * (scale.seconds - found.setup_seconds),
                        found.setup_seconds,
                        scale.energies[0],
                        scale.energies[14],
                        found.times.parts().map(|(name, s)| format!("{name} {:.2} ms", 1e3 * s))
                    );
                }
            }
        }
    };
    if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        let gpu = Cuda::new(0).unwrap();
        time("gpu", &|setting| register_elastic(&gpu, &input, setting, &Silent).unwrap());
    } else {
        let cpu = Cpu::new(Some(2)).unwrap();
        time("cpu", &|setting| register_elastic(&cpu, &input, setting, &Silent).unwrap());
    }
}
