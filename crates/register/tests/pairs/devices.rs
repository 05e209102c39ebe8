//! The same registration on other devices gives the same answer.

use crate::common::*;
use crate::control::{self, Apart};
use crate::deform::Told;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::Volume;
use voxalign_register::diffeo::{
    ChannelInput, DeformInput, DeformModel, Matching, Preparation, register_deformable,
};
use voxalign_register::linear::{AffineOptions, AffineResult, Search, register_affine};
use voxalign_register::model::solver::SolverKind;
use voxalign_register::multiscale::Schedule;
use voxalign_register::numbers::Levels;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

/// How far a device may be from the CPU anywhere in the head, mm.
const AGREEMENT: f64 = 0.05;
/// How far fields may be apart in any case, on average, mm.
const NOTHING: f64 = 1e-4;
/// How far costs may be apart.
const COSTS: f64 = 1e-5;

/// The GPU that the environment names, if it does.
fn gpu(test: &str) -> Option<Cuda> {
    if std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda")) {
        return Some(Cuda::new(0).unwrap());
    }
    eprintln!("skipped: {test} needs a GPU; set VOXALIGN_TEST_DEVICE to cuda");
    None
}

/// Registers on the GPU three times and on the CPU once; fails unless the GPU gives the same bits
/// every time and the CPU's answer: as near as that, or as three times what the last place of the
/// values moves the CPU's own, where that is further.
fn compare(
    cuda: &Cuda,
    name: &str,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
) {
    let expected = register(fixed, moving, options);
    let run = || register_affine(cuda, &input(fixed, moving), options, &Silent).unwrap();
    let found = run();
    let bits = |r: &AffineResult| {
        let evaluations: Vec<usize> = r.stages.iter().map(|s| s.evaluations).collect();
        (r.transform.rows(), r.cost_after.to_bits(), evaluations)
    };
    for _ in 0..2 {
        assert_eq!(bits(&run()), bits(&found), "{name}: other bits in another run");
    }
    let apart = Apart::of(fixed, moving, &found.transform, &expected.transform);
    let control = control::affine(fixed, moving, options, &expected.transform);
    println!(
        "{name}: GPU and CPU differ by {:.4} mm at most, the CPU from itself by {:.4}; costs {:.6} and {:.6}, by \
         the reference {:.1e} apart, those of the CPU {:.1e}",
        apart.mm, control.mm, found.cost_after, expected.cost_after, apart.cost, control.cost
    );
    assert!((found.cost_after - expected.cost_after).abs() <= COSTS, "{name}: costs");
    assert!(apart.mm <= AGREEMENT.max(3.0 * control.mm), "{name}: {apart:?}, {control:?}");
    assert!(apart.cost <= COSTS.max(3.0 * control.cost), "{name}: {apart:?}, {control:?}");
    assert_eq!(found.scheme, expected.scheme, "{name}");
    assert_eq!(found.verdict.good, expected.verdict.good, "{name}");
}

#[test]
fn a_gpu_agrees_on_shipped_images() {
    let Some(cuda) = gpu("a_gpu_agrees_on_shipped_images") else { return };
    // One head and the same moved, with noise and bias: there the best transform is one point.
    // Between two people many transforms are equally good to a cost that is not the default.
    let head = shipped("colin27_t1.nii.gz");
    let mut random = Random::new(7);
    let truth = random_affine(&mut random, head.grid().centre());
    let grid = padded(head.grid(), 40.0);
    let mut moved = resample(&head, &truth.inverse().unwrap(), grid, Interpolation::Linear);
    spoil(&mut moved, &mut random);
    for cost in [Similarity::CR, Similarity::NMI, Similarity::MI, Similarity::NCC, Similarity::SSD]
    {
        let options = AffineOptions { similarity: Some(cost), ..AffineOptions::default() };
        compare(&cuda, &format!("moved head, {cost:?}"), &head, &moved, &options);
    }
    let brains = ["icbm152_t1.nii.gz", "colin27_brain.nii.gz"].map(shipped);
    compare(&cuda, "two brains", &brains[0], &brains[1], &AffineOptions::default());
    let rigid = AffineOptions { dof: 6, ..AffineOptions::default() };
    compare(&cuda, "two brains, rigid", &brains[1], &brains[0], &rigid);
}

#[test]
fn a_gpu_agrees_on_real_images() {
    let Some(cuda) = gpu("a_gpu_agrees_on_real_images") else { return };
    let Some(data) = real_data("a_gpu_agrees_on_real_images") else { return };
    let folder = data.join("brains_oasis_miccai2012");
    for (f, m) in [
        ("1000", "1001"),
        ("1003", "1006"),
        ("1007", "1128"),
        ("1008", "1113"),
        ("1116", "1122"),
        ("1003", "1023"),
        ("1004", "1024"),
    ] {
        let [fixed, moving] = [f, m].map(|id| volume(folder.join(format!("{id}_SS.nii.gz"))));
        compare(&cuda, &format!("{f}<-{m}"), &fixed, &moving, &AffineOptions::default());
    }
    let [f, m] = ["1000", "1001"].map(|id| folder.join(format!("{id}_fullhead_2mm.nii.gz")));
    if f.exists() && m.exists() {
        compare(&cuda, "full heads", &volume(f), &volume(m), &AffineOptions::default());
    }
}

/// The whole path of a registration through the kernels of the GPU, on the host: a short one, on
/// voxels of 12 mm, so that the answers may differ by as much more as the voxels are larger.
#[test]
fn the_emulated_gpu_agrees() {
    let cuda = match Cuda::emulated() {
        Ok(cuda) => cuda,
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            return;
        }
    };
    let cpu = Cpu::new(None).unwrap();
    let fixed = shipped("icbm152_t1.nii.gz");
    let moving = shipped("colin27_brain.nii.gz");
    for cost in [Similarity::CR, Similarity::NMI, Similarity::NCC] {
        let options = AffineOptions {
            similarity: Some(cost),
            search: Search::Local,
            levels: Some(Levels(vec![16.0, 12.0])),
            ..AffineOptions::default()
        };
        let input = input(&fixed, &moving);
        let expected = register_affine(&cpu, &input, &options, &Silent).unwrap();
        let found = register_affine(&cuda, &input, &options, &Silent).unwrap();
        let (_, largest) = error_inside(&fixed, &found.transform, &expected.transform);
        assert!(largest <= 12.0 * AGREEMENT, "{cost:?}: {largest} mm");
    }
    // Steps have a length in voxels: near the optimum they go to and fro, and what differs between devices
    // grows.
    let affine = register(&fixed, &moving, &AffineOptions::default()).transform;
    for similarity in [Similarity::NMI, Similarity::LNCC] {
        let schedule = Schedule::of(&[(6, 30)]);
        let options = Matching::of(DeformModel::SYMMETRIC).told("schedule", schedule);
        let input = DeformInput::new(&fixed, &moving, similarity, affine);
        let found = register_deformable(&cuda, &input, &options, &Silent).unwrap();
        let expected = register_deformable(&cpu, &input, &options, &Silent).unwrap();
        let mean = control::mean_apart(&found.forward, &expected.forward);
        println!("{}: {mean:.6} mm apart", similarity.name());
        assert!(mean <= NOTHING, "{}: {mean} mm", similarity.name());
    }
}

/// Every model with every solver and similarity gives the same bits at every run on the GPU, and
/// the deformation of the CPU: to a fiftieth of a voxel, to a twentieth of itself, and to three times what a
/// change of the last place moves the CPU's own.
#[test]
fn deformations() {
    let Some(cuda) = gpu("deformations") else { return };
    let cpu = Cpu::new(None).unwrap();
    let (fixed, moving) = (shipped("icbm152_t1.nii.gz"), shipped("colin27_brain.nii.gz"));
    let affine = register(&fixed, &moving, &AffineOptions::default()).transform;
    let lncc = Similarity::LNCC;
    let mut cases = Vec::new();
    for model in [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM] {
        let usual = Matching::of(model);
        for kind in [
            SolverKind::GAUSSIAN,
            SolverKind::FFT,
            SolverKind::SOR,
            SolverKind::CG,
            SolverKind::HYBRID,
        ] {
            if model == DeformModel::LDDMM && kind == SolverKind::GAUSSIAN {
                continue;
            }
            let solver = kind;
            let schedule = Schedule::of(&[(4, 30), (2, 10), (1, 3)]);
            cases.push((lncc, Matching { solver, ..usual.clone() }.told("schedule", schedule)));
        }
        for similarity in [Similarity::SSD, Similarity::MI, Similarity::NMI] {
            let schedule = Schedule::of(&[(4, 30)]);
            cases.push((similarity, usual.clone().told("schedule", schedule)));
        }
    }
    for (similarity, options) in cases {
        let name =
            format!("{} {} {}", options.model.name(), similarity.name(), options.solver.name());
        let channel = || vec![ChannelInput::new(&fixed, &moving, similarity)];
        let input = DeformInput {
            channels: channel(),
            fixed_mask: None,
            moving_mask: None,
            landmarks: None,
            shapes: Vec::new(),
            affine,
            preparation: Preparation::default(),
        };
        let on_gpu = || register_deformable(&cuda, &input, &options, &Silent).unwrap();
        let (one, other) = (on_gpu(), on_gpu());
        assert!(one.forward == other.forward && one.inverse == other.inverse, "{name}: bits");
        let expected = register_deformable(&cpu, &input, &options, &Silent).unwrap();
        let mean = control::mean_apart(&one.forward, &expected.forward);
        let moved = expected.measures.mean_displacement;
        let images = [&fixed, &moving];
        let own = control::deformation(images, affine, similarity, &options, &expected);
        println!(
            "{name}: {mean:.5} mm apart, the CPU from itself {own:.5}; moved by {moved:.2} mm"
        );
        let factor = options.multiscale.scales().last().map_or(1, |s| s.factor);
        let voxel = fixed.grid().spacing()[0] * factor as f64;
        assert!(mean < 0.02 * voxel, "{name}: {mean} mm, voxels of {voxel} mm");
        assert!(mean < 0.05 * moved, "{name}: {mean} of {moved} mm");
        assert!(mean <= (3.0 * own).max(NOTHING), "{name}: {mean} mm, the CPU's own {own}");
    }
}
