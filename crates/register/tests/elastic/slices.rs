//! Volumes that are brought to slices.

use crate::bodies::{cells, error, grid, materials, pair, setting, tissue, truth};
use std::sync::Arc;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_elasticity::{Body, Fixed, TetraBox, fitted};
use voxalign_image::{Affine, Grid, LabelMap, Matrix3, Vector3, VectorField, Volume};
use voxalign_register::diffeo::{
    ElasticSetting, Intensities, SliceInput, SlicesInput, SlicesResult, register_slices,
};
use voxalign_register::limits::ELASTIC;
use voxalign_register::model::elastic::{
    BodyLevel, ElasticBody, ElasticResult, Force, Sampling, StepSolver,
};
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

/// Three slices through the middle across each other, whose flat dimensions are z, x and y.
pub(crate) fn slices(of: impl Fn(Vector3<f64>) -> f64) -> Vec<Volume<f32>> {
    let centre = grid().centre();
    let cut = |dims: [usize; 3], spacing: [f64; 3]| {
        let matrix = grid().direction() * Matrix3::from_diagonal(&Vector3::from(spacing));
        let middle = Vector3::from(dims.map(|n| (n as f64 - 1.0) / 2.0));
        let grid = Grid::new(dims, Affine::new(matrix, centre - matrix * middle)).unwrap();
        Volume::from_fn(grid.clone(), |i, j, k| {
            of(grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64))) as f32
        })
    };
    vec![
        cut([56, 52, 1], [1.0, 1.0, 3.0]),
        cut([1, 52, 50], [3.0, 1.0, 1.0]),
        cut([56, 1, 50], [1.0, 3.0, 1.0]),
    ]
}

fn deformed() -> Vec<Volume<f32>> {
    slices(|x| tissue(x + truth(x)))
}

fn input<'a>(slices: &'a [Volume<f32>], moving: &'a Volume<f32>) -> SlicesInput<'a> {
    let slices = slices.iter().map(SliceInput::new).collect();
    let mut input = SlicesInput::new(slices, moving, Similarity::SSD);
    input.intensities = Intensities::AsTheyAre;
    input
}

fn run(
    device: &Cpu,
    slices: &[Volume<f32>],
    setting: &ElasticSetting,
) -> (SlicesResult, ElasticResult) {
    let [_, moving] = pair();
    register_slices(device, &input(slices, &moving), setting, &Silent).unwrap()
}

fn cpu() -> Cpu {
    Cpu::new(Some(2)).unwrap()
}

fn told(result: &SlicesResult) {
    let scales: Vec<_> = result.deform.scales.iter().map(|s| s.energies.len()).collect();
    println!("{scales:?} steps, {:?}", result.evidence);
}

/// Three slices tell of a smooth deformation of all of a body.
#[test]
fn three_slices_bring_a_body_to_where_it_belongs() {
    let before = error(&VectorField::zeros(grid()));
    let (result, found) = run(&cpu(), &deformed(), &setting(6.0));
    let after = error(&result.deform.forward);
    println!("error {before:.3} to {after:.3} voxels");
    told(&result);
    assert!(before > 1.4 && after < 0.25 && before > 5.0 * after, "{before} {after}");
    let evidence = &result.evidence;
    for slice in &evidence.slices {
        assert!(slice.correlation[1] > 0.99 && slice.correlation[1] > slice.correlation[0]);
        assert!(slice.local[1] > 0.99 && slice.local[1] > slice.local[0] + 0.1, "{slice:?}");
        assert!(slice.local[1] > slice.elsewhere + 0.3, "{slice:?}");
    }
    assert!(evidence.folded == 0 && evidence.least_jacobian > 0.3 && evidence.least_ratio > 0.3);
    assert!(!evidence.stopped && evidence.inside.iter().all(|&i| i > 0.99));
    assert_eq!(found.cuts, 0);
    // The fields take each other back.
    let off = result.deform.measures.inverse_consistency.unwrap();
    assert!(off.mean < 0.05, "{off:?}");
    assert!(result.deform.verdict.good, "{}", result.deform.verdict.summary());
    // At vertices the inverse is their displacement.
    let inside = |i: usize| (found.body.mesh().vertices()[i] - grid().centre()).norm() < 14.0;
    for i in (0..found.state.displacements.len()).filter(|&i| inside(i)) {
        let at = result.deform.inverse.sample_clamped(found.body.mesh().vertices()[i]);
        assert!((at - found.state.displacements[i]).norm() < 0.3, "{at}");
    }
    // What a slice shows after it is what the transform says.
    let ([_, moving], after) = (pair(), &result.slices[0].after);
    let transform = result.deform.transform();
    for (i, j) in [(20, 20), (30, 25), (28, 40)] {
        let x = after.grid().index_to_world(Vector3::new(i as f64, j as f64, 0.0));
        let y = moving.grid().world_to_index(transform.apply(x));
        let nearest = y.map(|v| v.round() as usize);
        let value = moving.get(nearest.x, nearest.y, nearest.z).unwrap();
        assert!((after.get(i, j, 0).unwrap() - value).abs() < 0.15);
    }
}

/// Where the volume is does not matter, if the affine map says it.
#[test]
fn an_affine_map_leads_to_the_volume() {
    let (s, c) = 0.4f64.sin_cos();
    let turn = Matrix3::new(c, 0.0, s, 0.0, 1.0, 0.0, -s, 0.0, c);
    let affine = Affine::new(turn, Vector3::new(30.0, -12.0, 7.0));
    let ([_, moving], images) = (pair(), deformed());
    let mut setting = setting(6.0);
    setting.multiscale.schedule = Schedule::of(&[(2, 30)]);
    let (plain, _) = run(&cpu(), &images, &setting);
    let moving = moving.with_grid(grid().moved(&affine).unwrap()).unwrap();
    let moved = SlicesInput { affine, ..input(&images, &moving) };
    let (moved, _) = register_slices(&cpu(), &moved, &setting, &Silent).unwrap();
    assert!(moved.deform.forward.grid().approx_eq(&grid(), 1e-6));
    let data = plain.deform.forward.data().iter().zip(moved.deform.forward.data());
    let most = data.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(most < 0.02, "{most}");
    assert!(error(&moved.deform.forward) < 0.6);
    // A point of the slices goes to the same tissue.
    let x = grid().centre() + Vector3::new(3.0, -2.0, 4.0);
    let [a, b] = [&plain, &moved].map(|r| r.deform.transform().apply(x));
    assert!((affine.apply(a) - b).norm() < 0.03, "{a} {b}");
    let back = moved.deform.inverse_transform().unwrap().apply(b);
    assert!((back - x).norm() < 0.1, "{back} {x}");
}

/// Another contrast in the slices than in the volume.
#[test]
fn information_serves_where_contrasts_differ() {
    let contrast = |v: f64| 0.9 - 0.7 * v + 0.25 * (7.0 * v).sin();
    let slices = slices(|x| contrast(tissue(x + truth(x))));
    let ([_, moving], mut setting) = (pair(), setting(6.0));
    setting.elastic.force_scale = Some(1.0);
    let with = SlicesInput { similarity: Similarity::MI.with_bins(32), ..input(&slices, &moving) };
    let (result, _) = register_slices(&cpu(), &with, &setting, &Silent).unwrap();
    let (before, after) = (error(&VectorField::zeros(grid())), error(&result.deform.forward));
    println!("error {before:.3} to {after:.3} voxels");
    told(&result);
    assert!(after < 0.5, "{after}");
    let evidence = &result.evidence.slices;
    assert!(evidence.iter().all(|s| s.local[1] > s.local[0] && s.local[1] > s.elsewhere + 0.2));
}

/// Least squares and every solver bring the body there, and a mesh that is not a box.
#[test]
fn forces_and_solvers_serve() {
    let with = |force, step_solver| {
        // A dense inverse takes its time.
        let mut setting = setting(if step_solver == StepSolver::Inverse { 9.0 } else { 6.0 });
        (setting.elastic.force, setting.elastic.step_solver) = (force, step_solver);
        error(&run(&cpu(), &deformed(), &setting).0.deform.forward)
    };
    for (force, solver) in [
        (Force::LeastSquares, StepSolver::Direct),
        (Force::Consistent, StepSolver::Cg),
        (Force::Consistent, StepSolver::Inverse),
    ] {
        let after = with(force, solver);
        println!("{force:?} {solver:?}: {after:.3} voxels");
        assert!(after < 0.3, "{force:?} {solver:?} {after}");
    }
    let grid = grid();
    let mask = LabelMap::from_fn(grid.clone(), |i, j, k| {
        let x = grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64));
        i32::from((x - grid.centre()).norm() < 22.0)
    });
    let body = Body::new(fitted(&mask, 6.0).unwrap().mesh, &materials()).unwrap();
    let fixed = Fixed::none(body.mesh()).unwrap();
    let mut setting = setting(6.0);
    setting.body = Arc::new(ElasticBody::new(body, fixed, None));
    let (result, _) = run(&cpu(), &deformed(), &setting);
    told(&result);
    let after = error(&result.deform.forward);
    println!("of a mask: {after:.3} voxels");
    assert!(after < 0.25, "{after}");
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let images = deformed();
    for (solver, force) in
        [(StepSolver::Direct, Force::Consistent), (StepSolver::Cg, Force::LeastSquares)]
    {
        let with = |threads| {
            let mut setting = setting(8.0);
            (setting.elastic.step_solver, setting.elastic.force) = (solver, force);
            setting.multiscale.schedule = Schedule::of(&[(2, 6), (1, 3)]);
            run(&Cpu::new(Some(threads)).unwrap(), &images, &setting).0
        };
        let one = with(1);
        for threads in [2, 3] {
            let other = with(threads);
            assert!(one.deform.forward == other.deform.forward);
            assert!(one.deform.inverse == other.deform.inverse);
            assert!(one.slices == other.slices && one.evidence == other.evidence);
        }
    }
}

/// The kernels of a GPU, emulated, do as the CPU.
#[test]
fn the_emulated_gpu_agrees() {
    let on_gpu = std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|d| d.starts_with("cuda"));
    let cuda = match if on_gpu { Cuda::new(0) } else { Cuda::emulated() } {
        Ok(cuda) => cuda,
        Err(error) => {
            assert!(std::env::var("VOXALIGN_REQUIRE_EMULATION").is_err(), "{error}");
            println!("skipped: the_emulated_gpu_agrees needs a C++ compiler: {error}");
            return;
        }
    };
    let ([_, moving], images) = (pair(), deformed());
    for (force, step_solver) in
        [(Force::Consistent, StepSolver::Cg), (Force::LeastSquares, StepSolver::Direct)]
    {
        let mut setting = setting(12.0);
        (setting.elastic.force, setting.elastic.step_solver) = (force, step_solver);
        setting.multiscale.schedule = Schedule::of(&[(3, 3)]);
        let (input, on_cpu) = (input(&images, &moving), run(&cpu(), &images, &setting).0);
        let on_gpu = register_slices(&cuda, &input, &setting, &Silent).unwrap().0;
        let data = on_cpu.deform.forward.data().iter().zip(on_gpu.deform.forward.data());
        let most = data.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        println!("{force:?} {step_solver:?}: {most:.2e} mm apart");
        assert!(on_cpu.deform.forward.data().iter().any(|v| v.abs() > 0.5));
        assert!(most < 0.01, "{force:?} {most}");
    }
}

/// A body goes on from where it was, with coarse meshes at coarse scales too.
#[test]
fn bodies_are_tracked() {
    let (fine, coarse) = (cells(6.0), cells(12.0));
    let body = ElasticBody::new(fine.0, fine.1, Some(fine.2)).with_level(BodyLevel {
        factor: 2,
        body: Arc::new(coarse.0),
        fixed: coarse.1,
        cells: Some(coarse.2),
    });
    let mut setting = ElasticSetting { body: Arc::new(body), ..setting(6.0) };
    let images = deformed();
    let (result, found) = run(&cpu(), &images, &setting);
    let after = error(&result.deform.forward);
    let cold = result.deform.scales.last().unwrap().energies.last().copied().unwrap();
    setting.multiscale.schedule = Schedule::of(&[(1, 40)]);
    setting.start = Some(found.state);
    let (again, _) = run(&cpu(), &images, &setting);
    let warm = again.deform.scales[0].energies[0];
    println!("{after:.3} voxels, energy {cold:.3e} goes on at {warm:.3e}");
    assert!(after < 0.25 && warm < 1.2 * cold, "{after} {cold} {warm}");
    assert!(error(&again.deform.forward) < 1.1 * after);
    // A coarse scale alone leaves the state of the finest mesh as well.
    setting.multiscale.schedule = Schedule::of(&[(2, 3)]);
    let (_, coarse) = run(&cpu(), &images, &setting);
    assert_eq!(
        coarse.state.displacements.len(),
        setting.start.as_ref().unwrap().displacements.len()
    );
}

/// Weights and masks keep what is wrong in part of the images from pulling.
#[test]
fn what_does_not_count_does_not_pull() {
    let spot = |x: Vector3<f64>| (x - grid().centre() - Vector3::new(8.0, -6.0, 0.0)).norm() < 6.0;
    let wrong = slices(|x| if spot(x) { 0.9 } else { tissue(x + truth(x)) });
    let weights = slices(|x| f64::from(!spot(x)));
    let [_, moving] = pair();
    let mut with = input(&wrong, &moving);
    let setting = setting(6.0);
    let (plain, _) = register_slices(&cpu(), &with, &setting, &Silent).unwrap();
    with.slices = wrong.iter().zip(&weights).map(|(s, w)| SliceInput::new(s).weighted(w)).collect();
    let (weighted, _) = register_slices(&cpu(), &with, &setting, &Silent).unwrap();
    let [a, b] = [&plain, &weighted].map(|r| error(&r.deform.forward));
    println!("{a:.3} voxels, with weights {b:.3}");
    assert!(b < 0.3 && a > 2.0 * b, "{a} {b}");
    let counted = weights[0].data().iter().filter(|w| **w > 0.0).count();
    assert_eq!(weighted.evidence.slices[0].pixels, counted);
    // The same of the volume.
    let grid = grid();
    let at = |i: usize, j: usize, k: usize| {
        grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64))
    };
    let far = |i, j, k| (at(i, j, k) - grid.centre() - Vector3::new(-9.0, 3.0, 0.0)).norm() > 6.0;
    let lesion =
        Volume::from_fn(
            grid.clone(),
            |i, j, k| {
                if far(i, j, k) { tissue(at(i, j, k)) as f32 } else { 0.0 }
            },
        );
    let mask = Volume::from_fn(grid.clone(), |i, j, k| f32::from(far(i, j, k)));
    let images = deformed();
    let mut with = input(&images, &lesion);
    let (plain, _) = register_slices(&cpu(), &with, &setting, &Silent).unwrap();
    with.moving_mask = Some((&mask).into());
    let (masked, _) = register_slices(&cpu(), &with, &setting, &Silent).unwrap();
    let [a, b] = [&plain, &masked].map(|r| error(&r.deform.forward));
    println!("{a:.3} voxels, with a mask {b:.3}");
    assert!(b < 0.3 && a > 2.0 * b, "{a} {b}");
}

/// Slices of another place show in what is left to see, however the body bends.
#[test]
fn slices_of_another_place_do_not_agree() {
    let by = Vector3::new(2.0, 16.0, -9.0);
    let about = |x: Vector3<f64>| {
        let off = x - grid().centre();
        tissue(grid().centre() + Vector3::new(off.y, -off.z, off.x) + by)
    };
    for pressure in [100.0, 0.5] {
        let mut setting = setting(6.0);
        setting.elastic.force_scale = Some(pressure);
        let right = run(&cpu(), &deformed(), &setting).0;
        let wrong = run(&cpu(), &slices(about), &setting).0;
        println!("{pressure} kPa");
        told(&right);
        told(&wrong);
        for (right, wrong) in right.evidence.slices.iter().zip(&wrong.evidence.slices) {
            assert!(right.local[1] > 0.95 && wrong.local[1] < 0.8, "{right:?} {wrong:?}");
            assert!(wrong.correlation[1] < right.correlation[1] - 0.1, "{right:?} {wrong:?}");
        }
        assert!(right.deform.verdict.good && !right.evidence.stopped);
        assert!(right.evidence.least_ratio > ELASTIC.volume);
        assert!(!wrong.deform.verdict.good, "{}", wrong.deform.verdict.summary());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let ([_, moving], images) = (pair(), deformed());
    type Change<'c> = &'c dyn for<'a> Fn(&mut ElasticSetting, &mut SlicesInput<'a>);
    let with = |images: &[Volume<f32>], change: Change<'_>| {
        let (mut setting, mut input) = (setting(12.0), input(images, &moving));
        change(&mut setting, &mut input);
        register_slices(&cpu(), &input, &setting, &Silent).err().unwrap().to_string()
    };
    let refused = |change: Change<'_>| with(&images, change);
    let said = refused(&|_, input| input.slices.clear());
    assert!(said.contains("slice") && said.contains("none"), "{said}");
    let said = refused(&|_, input| input.similarity = Similarity::LNCC);
    assert!(said.contains("lncc") && said.contains("neighbouring"), "{said}");
    let said = refused(&|_, input| input.similarity = Similarity::named("ncc").unwrap());
    assert!(said.contains("ncc"), "{said}");
    let said = refused(&|setting, _| setting.elastic.force = Force::Nodes);
    assert!(said.contains("force") && said.contains("least-squares"), "{said}");
    let said = refused(&|setting, _| setting.elastic.samples = Sampling::Lattice([8, 8, 8]));
    assert!(said.contains("8x8x8"), "{said}");
    let said = refused(&|setting, _| setting.elastic.newmark.gamma = 0.4);
    assert!(said.contains("0.4"), "{said}");
    let said = refused(&|setting, _| setting.start = Some(Default::default()));
    assert!(said.contains("0 vectors"), "{said}");
    let said = refused(&|_, input| {
        input.affine = Affine::new(Matrix3::identity() * 20.0, Vector3::zeros())
    });
    assert!(said.contains("affine"), "{said}");
    // One slice of three is wrong, and named.
    let replaced = |other: Volume<f32>| {
        let mut images = deformed();
        images[1] = other;
        images
    };
    let said = with(&replaced(moving.clone()), &|_, _| {});
    assert!(said.contains("slice 2 of 3 of 40 x 36 x 30"), "{said}");
    let flat = Grid::axis_aligned([30, 1, 1], [1.0; 3]).unwrap();
    let said = with(&replaced(Volume::filled(flat, 1.0)), &|_, _| {});
    assert!(said.contains("slice 2 of 3 of 30 x 1 x 1"), "{said}");
    let mut bad = images[1].clone();
    bad.data_mut()[7] = f32::NAN;
    let said = with(&replaced(bad), &|_, _| {});
    assert!(said.contains("slice 2 of 3 with 1 value"), "{said}");
    let constant = Volume::filled(images[1].grid().clone(), 0.5f32);
    let said = with(&replaced(constant), &|_, input| input.intensities = Intensities::Calibrated);
    assert!(said.contains("slice 2 of 3 that is 0.5 everywhere"), "{said}");
    let far = images[1].grid().moved(&Affine::translation(Vector3::repeat(300.0))).unwrap();
    let far = images[1].clone().with_grid(far).unwrap();
    let said = with(&replaced(far), &|_, _| {});
    assert!(
        said.contains("slice 2 of 3, around (") && said.contains("no pixel in the mesh"),
        "{said}"
    );
    // Weights of another grid, and of nothing.
    let other = images[0].clone();
    let none = Volume::filled(images[1].grid().clone(), 0.0f32);
    let weigh = |weights: &Volume<f32>| {
        let mut input = input(&images, &moving);
        input.slices[1] = SliceInput::new(&images[1]).weighted(weights);
        register_slices(&cpu(), &input, &setting(12.0), &Silent).err().unwrap().to_string()
    };
    let said = weigh(&other);
    assert!(said.contains("slice 2 of 3") && said.contains("weights"), "{said}");
    let said = weigh(&none);
    assert!(said.contains("slice 2 of 3") && said.contains("weight above 0"), "{said}");
    // A mask of the volume that leaves nothing of a slice, and one of another grid.
    let masked = |mask: &Volume<f32>| {
        let mut input = input(&images, &moving);
        input.moving_mask = Some(mask.into());
        register_slices(&cpu(), &input, &setting(12.0), &Silent).err().unwrap().to_string()
    };
    let corner = Volume::from_fn(grid(), |i, j, k| f32::from(i < 4 && j < 4 && k < 4));
    let said = masked(&corner);
    assert!(said.contains("slice 1 of 3") && said.contains("moving image"), "{said}");
    let said = masked(&images[0]);
    assert!(said.contains("moving mask"), "{said}");
    let flat = images[0].clone();
    let two = input(&images, &flat);
    let said = register_slices(&cpu(), &two, &setting(12.0), &Silent).err().unwrap().to_string();
    assert!(said.contains("moving") && said.contains("volume"), "{said}");
    // A volume of one value.
    let even = Volume::filled(grid(), 2.0f32);
    let mut one = input(&images, &even);
    one.intensities = Intensities::Calibrated;
    let said = register_slices(&cpu(), &one, &setting(12.0), &Silent).err().unwrap().to_string();
    assert!(said.contains("moving image is constant"), "{said}");
}

/// Times of 15 steps of three slices of 512 x 512 pixels in a mesh of 7500 tetrahedra.
#[test]
#[ignore = "prints times, for which a machine of one's own serves"]
fn times_of_large_slices() {
    let grid = Grid::axis_aligned([180, 180, 180], [2.0; 3]).unwrap();
    let of = |p: Vector3<f64>| {
        let off = (p - Vector3::repeat(179.0)).norm();
        let texture = 0.1 * ((0.1 * p.x).sin() + (0.12 * p.y).cos() + (0.15 * p.z).sin());
        (1.0 / (1.0 + ((off - 120.0) / 3.0).exp()) * (0.7 + texture)) as f32
    };
    let volume = |grid: &Grid, by: f64| {
        Volume::from_fn(grid.clone(), |i, j, k| {
            let p = grid.index_to_world(Vector3::new(i as f64, j as f64, k as f64));
            of(p + Vector3::new(by, 0.0, 0.0))
        })
    };
    let cut = |dims: [usize; 3]| {
        let spacing = 0.7;
        let origin = Vector3::from(dims.map(|n| 179.0 - 0.5 * spacing * (n as f64 - 1.0)));
        Grid::new(dims, Affine::new(Matrix3::identity() * spacing, origin)).unwrap()
    };
    let slices: Vec<_> =
        [[512, 512, 1], [512, 1, 512], [1, 512, 512]].map(|dims| volume(&cut(dims), 4.0)).into();
    let moving = volume(&grid, 0.0);
    let cells = TetraBox::over(&grid, 34.0).unwrap();
    let body = Body::new(cells.mesh().unwrap(), &materials()).unwrap();
    let free = Fixed::none(body.mesh()).unwrap();
    let counts = (body.mesh().vertices().len(), body.mesh().tetrahedra().len());
    println!("{} vertices, {} tetrahedra", counts.0, counts.1);
    let mut setting = ElasticSetting::new(ElasticBody::new(body, free, Some(cells)));
    setting.elastic.tolerance = 0.0;
    setting.multiscale.schedule = Schedule::of(&[(1, 15)]);
    let (input, device) = (input(&slices, &moving), Cpu::new(Some(2)).unwrap());
    for (similarity, force, step_solver) in [
        (Similarity::SSD, Force::Consistent, StepSolver::Direct),
        (Similarity::SSD, Force::Consistent, StepSolver::Cg),
        (Similarity::MI, Force::Consistent, StepSolver::Cg),
        (Similarity::SSD, Force::LeastSquares, StepSolver::Cg),
    ] {
        for timed in [false, true] {
            let input = SlicesInput { similarity, ..input.clone() };
            (setting.elastic.force, setting.elastic.step_solver) = (force, step_solver);
            setting.timed = timed;
            let began = std::time::Instant::now();
            let (result, found) = register_slices(&device, &input, &setting, &Silent).unwrap();
            let scale = &result.deform.scales[0];
            println!(
                "{similarity:?} {force:?} {step_solver:?}: 15 steps {:.0} ms, before them {:.2} s, all {:.2} s, energy {:.6} to {:.6}, {:?}",
                1e3 * (scale.seconds - found.setup_seconds),
                found.setup_seconds,
                began.elapsed().as_secs_f64(),
                scale.energies[0],
                scale.energies[14],
                found.times.parts().map(|(name, s)| format!("{name} {:.0} ms", 1e3 * s))
            );
        }
    }
}
