//! Registrations that corresponding points pull, alone or with images.

use crate::common::Random;
use crate::deform::Told;
use crate::deform::{fft, scales};
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_image::{Affine, Grid, Matrix3, PointSet, Vector3, VectorField, Volume};
use voxalign_register::attachment::Landmarks;
use voxalign_register::compare::compare_landmarks;
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, StepRule, register_deformable,
};
use voxalign_register::model::solver::SolverKind;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

/// An oblique grid of voxels of 2 by 2 by 3 mm about the middle of the world.
fn grid() -> Grid {
    let turn = Matrix3::new(0.8, -0.6, 0.0, 0.6, 0.8, 0.0, 0.0, 0.0, 1.0);
    let to_world = turn * Matrix3::from_diagonal(&Vector3::new(2.0, 2.0, 3.0));
    Grid::new([40, 44, 28], Affine::new(to_world, -to_world * Vector3::new(19.5, 21.5, 13.5)))
        .unwrap()
}

/// The head start of the moving image: it is turned and moved.
fn start() -> Affine {
    let turn = Matrix3::new(0.995, 0.0998, 0.0, -0.0998, 0.995, 0.0, 0.0, 0.0, 1.05);
    Affine::new(turn, Vector3::new(3.0, -4.0, 2.0))
}

/// A smooth displacement of some mm, before the start.
fn displaced(p: Vector3<f64>) -> Vector3<f64> {
    let wave = |a: f64, b: f64| (a / 19.0).sin() * (b / 23.0 + 0.4).cos();
    p + 5.0 * Vector3::new(wave(p[1], p[2]), wave(p[2], p[0]), 0.8 * wave(p[0], p[1]))
}

/// A ball with a bright shell: inside, images alone see nothing.
fn ball(p: Vector3<f64>) -> f32 {
    let edge = |r: f64| 1.0 / (1.0 + ((p.norm() - r) / 1.5).exp());
    (0.6 * edge(32.0) + 0.4 * (edge(32.0) - edge(26.0))) as f32
}

/// The moving image, and the fixed one that [`displaced`] and [`start`] make of it.
fn images() -> [Volume<f32>; 2] {
    let (grid, back) = (grid(), start().inverse().unwrap());
    let world = |x: usize, y: usize, z: usize| {
        grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64))
    };
    let fixed = Volume::from_fn(grid.clone(), |x, y, z| ball(displaced(world(x, y, z))));
    let moving = Volume::from_fn(grid.clone(), |x, y, z| ball(back.apply(world(x, y, z))));
    [fixed, moving]
}

/// Points within the ball and where they belong.
fn pairs(count: usize, seed: u64) -> [PointSet; 2] {
    let mut random = Random::new(seed);
    let mut point = || loop {
        let p = 24.0 * Vector3::new(random.sign(), random.sign(), random.sign());
        if p.norm() < 24.0 {
            return p;
        }
    };
    let fixed: Vec<_> = (0..count).map(|_| point()).collect();
    let moving = fixed.iter().map(|&p| start().apply(displaced(p))).collect();
    [PointSet::new(fixed), PointSet::new(moving)]
}

fn options(model: DeformModel) -> Matching {
    Matching { solver: fft(), ..Matching::of(model) }
        .told("schedule", scales(&[(4, 80), (2, 80), (1, 60)]))
        .told("step_rule", StepRule::Adaptive.name())
        .told("convergence", 0.0)
        .told("total_sigma", 0.0)
        .told("lddmm_sigma", 0.1)
        .told("time_steps", 5)
}

/// Registers with images of a weight and landmarks of another.
fn registered<D: Device>(
    device: &D,
    [fixed, moving]: [&Volume<f32>; 2],
    [of_images, of_points]: [f64; 2],
    [p, q]: &[PointSet; 2],
    options: &Matching,
) -> DeformResult {
    registered_within(
        device,
        [fixed, moving],
        [of_images, of_points],
        &[p.clone(), q.clone()],
        (options, false),
    )
}

/// The same, on the part of the grid that shows something, or all of it.
fn registered_within<D: Device>(
    device: &D,
    [fixed, moving]: [&Volume<f32>; 2],
    [of_images, of_points]: [f64; 2],
    [p, q]: &[PointSet; 2],
    (options, clip): (&Matching, bool),
) -> DeformResult {
    let mut input = DeformInput::new(fixed, moving, Similarity::SSD, start());
    input.preparation.clip = clip;
    input.channels[0].weight = of_images;
    if of_points > 0.0 {
        input.landmarks = Some(Landmarks::new(p, q, of_points).unwrap());
    }
    register_deformable(device, &input, options, &Silent).unwrap()
}

/// The mean distance of pairs after a result, and back, mm.
fn apart(found: &DeformResult, [p, q]: &[PointSet; 2]) -> [f64; 2] {
    let there = found.transform();
    let back = found.inverse_transform().unwrap();
    let there = compare_landmarks(&p.map(|p| there.apply(*p)), q).unwrap();
    let back = compare_landmarks(&q.map(|q| back.apply(*q)), p).unwrap();
    [there.mean, back.mean]
}

fn before([p, q]: &[PointSet; 2]) -> f64 {
    compare_landmarks(&p.map(|p| start().apply(*p)), q).unwrap().mean
}

#[test]
fn points_alone_are_brought_together() {
    let device = Cpu::new(None).unwrap();
    let ([fixed, moving], pairs) = (images(), pairs(20, 5));
    for &model in DeformModel::ALL {
        let found = registered(&device, [&fixed, &moving], [0.0, 1.0], &pairs, &options(model));
        let (before, after) = (before(&pairs), apart(&found, &pairs));
        println!(
            "{}: {before:.2} mm to {:.3}, back {:.3}; Jacobian {:.3} to {:.2}; {}",
            model.name(),
            after[0],
            after[1],
            found.measures.smallest_jacobian,
            found.measures.largest_jacobian,
            found.verdict.summary()
        );
        assert!(before > 2.0);
        assert!(after.iter().all(|&d| d < 0.15 * before), "{after:?}");
        assert_eq!(found.measures.folded, 0);
    }
}

/// Points within what looks alike everywhere follow the landmarks, and the images are still aligned.
#[test]
fn points_help_images() {
    let device = Cpu::new(None).unwrap();
    let ([fixed, moving], pulling, others) = (images(), pairs(25, 5), pairs(200, 6));
    for &model in DeformModel::ALL {
        let found =
            |weights| registered(&device, [&fixed, &moving], weights, &pulling, &options(model));
        let (images, both) = (found([1.0, 0.0]), found([1.0, 0.01]));
        let [alone, with] = [&images, &both].map(|f| apart(f, &pulling)[0]);
        let [alone_of_others, with_of_others] = [&images, &both].map(|f| apart(f, &others)[0]);
        println!(
            "{}: landmarks {alone:.2} mm with images alone, {with:.2} with both; other points \
             {alone_of_others:.2} and {with_of_others:.2}",
            model.name()
        );
        assert!(with < 0.5 * alone, "{with} of {alone}");
        assert!(with_of_others < alone_of_others);
        assert_eq!(both.measures.folded, 0);
    }
}

fn short(model: DeformModel) -> Matching {
    options(model).told("schedule", scales(&[(4, 4), (2, 3)])).told("time_steps", 3)
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let ([fixed, moving], pairs) = (images(), pairs(60, 5));
    for &model in DeformModel::ALL {
        let bits = |threads| {
            let device = Cpu::new(Some(threads)).unwrap();
            let images = [&fixed, &moving];
            let found = registered(&device, images, [1.0, 0.1], &pairs, &short(model));
            let bits = |f: &VectorField| f.data().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let energies: Vec<f64> = found.scales.iter().flat_map(|s| s.energies.clone()).collect();
            (bits(&found.forward), bits(&found.inverse), energies)
        };
        let expected = bits(1);
        for threads in [1, 2, 3] {
            assert!(bits(threads) == expected, "{} with {threads} threads", model.name());
        }
    }
}

/// Exchanging images and landmarks inverts what the symmetric model finds.
#[test]
fn exchanged_they_give_the_inverse() {
    let device = Cpu::new(None).unwrap();
    let ([fixed, moving], [p, q]) = (images(), pairs(20, 5));
    let options = short(DeformModel::SYMMETRIC);
    let run = |fixed: &Volume<f32>, moving: &Volume<f32>, p: &PointSet, q: &PointSet, start| {
        let mut input = DeformInput::new(fixed, moving, Similarity::SSD, start);
        input.landmarks = Some(Landmarks::new(p, q, 0.05).unwrap());
        register_deformable(&device, &input, &options, &Silent).unwrap()
    };
    let one = run(&fixed, &moving, &p, &q, start());
    let other = run(&moving, &fixed, &q, &p, start().inverse().unwrap());
    let energies = |f: &DeformResult| -> Vec<f64> {
        f.scales.iter().flat_map(|s| s.energies.clone()).collect()
    };
    for (a, b) in energies(&one).iter().zip(energies(&other)) {
        assert!((a - b).abs() < 1e-5 * a.abs(), "{a} {b}");
    }
    // Both fields were made on one grid, and are interpolated on two.
    let (there, back) = (one.transform(), other.inverse_transform().unwrap());
    let apart = compare_landmarks(&p.map(|p| there.apply(*p)), &p.map(|p| back.apply(*p))).unwrap();
    assert!(apart.median < 0.03 && apart.max < 0.5, "{apart:?}");
}

/// In the plane points stay in the plane.
#[test]
fn in_the_plane() {
    let device = Cpu::new(None).unwrap();
    let grid = Grid::axis_aligned([64, 56, 1], [1.5, 1.5, 5.0]).unwrap();
    let image = |shift: f64| {
        Volume::from_fn(grid.clone(), |x, y, _| {
            let d = Vector3::new(x as f64 - 32.0 - shift, y as f64 - 28.0, 0.0);
            (-d.norm_squared() / 200.0).exp() as f32
        })
    };
    let mut random = Random::new(3);
    let fixed: Vec<_> = (0..12)
        .map(|_| Vector3::new(48.0 + 25.0 * random.sign(), 42.0 + 20.0 * random.sign(), 0.0))
        .collect();
    let moving = fixed.iter().map(|p| p + 3.0 * Vector3::new((p[1] / 15.0).sin(), 0.5, 0.0));
    let pairs = [PointSet::new(moving.clone().collect()), PointSet::new(fixed)];
    let [q, p] = pairs.each_ref();
    for &model in DeformModel::ALL {
        let [fixed, moving] = [image(0.0), image(1.0)];
        let mut input = DeformInput::new(&fixed, &moving, Similarity::SSD, Affine::identity());
        input.channels[0].weight = 0.0;
        input.landmarks = Some(Landmarks::new(p, q, 1.0).unwrap());
        let found = register_deformable(&device, &input, &options(model), &Silent).unwrap();
        let there = found.transform();
        let after = compare_landmarks(&p.map(|p| there.apply(*p)), q).unwrap().mean;
        let before = compare_landmarks(p, q).unwrap().mean;
        println!("{}: {before:.2} mm to {after:.3}", model.name());
        assert!(after < 0.15 * before);
        let n = grid.len();
        assert!(found.forward.data()[2 * n..].iter().all(|v| *v == 0.0), "{}", model.name());
        assert_eq!(found.measures.folded, 0);
    }
}

#[test]
fn what_nothing_pulls_is_refused() {
    let device = Cpu::new(None).unwrap();
    let [fixed, moving] = images();
    let mut input = DeformInput::new(&fixed, &moving, Similarity::SSD, start());
    input.channels[0].weight = 0.0;
    let options = short(DeformModel::GREEDY);
    let said = register_deformable(&device, &input, &options, &Silent).unwrap_err().to_string();
    assert!(said.contains("a pair of images with the weight 0"), "{said}");
}

/// The kernels of a GPU, emulated, do as the CPU.
#[test]
fn the_emulated_gpu_agrees() {
    let Ok(cuda) = Cuda::emulated() else {
        assert!(std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none(), "no C++ compiler");
        println!("skipped: there is no C++ compiler");
        return;
    };
    let ([fixed, moving], pairs, cpu) = (images(), pairs(20, 5), Cpu::new(None).unwrap());
    for &model in DeformModel::ALL {
        let options = short(model).told("schedule", scales(&[(4, 3)]));
        let images = [&fixed, &moving];
        let one = registered(&cpu, images, [1.0, 0.1], &pairs, &options);
        let other = registered(&cuda, images, [1.0, 0.1], &pairs, &options);
        let apart = one.forward.data().iter().zip(other.forward.data());
        let apart = apart.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        println!("{}: {apart:e} mm apart", model.name());
        assert!(apart < 0.02, "{apart}");
    }
}

/// The same image with air around it, on all sides.
fn in_air(image: &Volume<f32>, voxels: usize) -> Volume<f32> {
    let (grid, dims) = (image.grid(), image.grid().dims());
    let corner = grid.index_to_world(Vector3::repeat(-(voxels as f64)));
    let to_world = Affine::new(grid.to_world().matrix, corner);
    let grid = Grid::new(dims.map(|n| n + 2 * voxels), to_world).unwrap();
    Volume::from_fn(grid, |x, y, z| {
        let at = [x, y, z].map(|i| i.wrapping_sub(voxels));
        let inside = (0..3).all(|a| at[a] < dims[a]);
        if inside { image.data()[(at[2] * dims[1] + at[1]) * dims[0] + at[0]] } else { 0.0 }
    })
}

/// A weight is against what the images agree in where there is something to see: air around them changes nothing.
#[test]
fn air_around_images_changes_nothing() {
    let device = Cpu::new(None).unwrap();
    let (images, pairs) = (images(), pairs(10, 5));
    let padded = images.each_ref().map(|image| in_air(image, 16));
    // Beside images that know better: landmarks that are all off by the same vector.
    let off = Vector3::new(3.0, -2.0, 2.0);
    let wrong = [pairs[0].clone(), pairs[1].map(|q| q + off)];
    for &model in DeformModel::ALL {
        let options = Matching { solver: SolverKind::GAUSSIAN, ..options(model) }
            .told("schedule", scales(&[(4, 40), (2, 40)]));
        let options = match model {
            DeformModel::Lddmm(_) => Matching { solver: fft(), ..options },
            _ => options,
        };
        let found = |[fixed, moving]: &[Volume<f32>; 2]| {
            apart(&registered(&device, [fixed, moving], [1.0, 1e-4], &wrong, &options), &wrong)[0]
        };
        let (before, whole, in_air) = (before(&wrong), found(&images), found(&padded));
        println!("{}: {before:.3} mm to {whole:.3}, in air {in_air:.3}", model.name());
        assert!((whole - in_air).abs() < 0.05 * before, "{whole} and {in_air}");
        assert!(whole < 0.9 * before && in_air < 0.9 * before);
    }
}

/// What is computed on has all points, also where the images show nothing.
#[test]
fn points_beyond_the_foreground_are_reached() {
    let device = Cpu::new(None).unwrap();
    let [fixed, moving] = images().map(|image| in_air(&image, 24));
    // Beyond the ball and the guard around it.
    let at = Vector3::new(0.0, 0.0, 90.0);
    let pairs = [at, at + Vector3::new(0.0, 25.0, 0.0)];
    let off = Vector3::new(2.0, 1.0, -1.0);
    let pairs = [
        PointSet::new(pairs.to_vec()),
        PointSet::new(pairs.iter().map(|p| start().apply(p + off)).collect()),
    ];
    let options = options(DeformModel::GREEDY);
    let found = registered_within(&device, [&fixed, &moving], [1.0, 0.1], &pairs, (&options, true));
    let after = apart(&found, &pairs);
    println!("{:.2} mm to {after:?}", before(&pairs));
    assert!(after.iter().all(|d| *d < 0.3), "{after:?}");
    let alone = registered_within(&device, [&fixed, &moving], [1.0, 0.0], &pairs, (&options, true));
    assert!(alone.clipped.end()[2] < found.clipped.end()[2]);
}
