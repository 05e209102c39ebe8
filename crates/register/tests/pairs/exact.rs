//! Landmarks that are right change nothing for the worse: neither what the images agree in, nor the error elsewhere.

use crate::common::{Random, real_data, shipped, thorough, volume};
use crate::deform::Told;
use crate::deform::scales;
use std::path::Path;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_image::{
    Affine, Displacement, Grid, Matrix3, PointSet, Transform, Vector3, VectorField, Volume,
};
use voxalign_register::attachment::Landmarks;
use voxalign_register::diffeo::{
    DeformInput, DeformModel, DeformResult, Matching, register_deformable,
};
use voxalign_register::resample::MovingImage;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Silent};

/// Two images with an affine start, and how far they are to be brought.
struct Case {
    name: &'static str,
    images: [Volume<f32>; 2],
    start: Affine,
    similarity: Similarity,
    /// The usual weight of the program.
    weight: f64,
    schedule: &'static [(usize, usize)],
}

fn options(case: &Case, model: DeformModel) -> Matching {
    Matching::of(model).told("schedule", scales(case.schedule)).told("time_steps", 5)
}

fn registered(case: &Case, model: DeformModel, landmarks: Option<Landmarks>) -> DeformResult {
    let device = Cpu::new(None).unwrap();
    let [fixed, moving] = &case.images;
    let mut input = DeformInput::new(fixed, moving, case.similarity, case.start);
    input.landmarks = landmarks;
    register_deformable(&device, &input, &options(case, model), &Silent).unwrap()
}

/// Places at random where the fixed image shows something.
fn points(image: &Volume<f32>, count: usize, random: &mut Random) -> Vec<Vector3<f64>> {
    let (grid, data) = (image.grid(), image.data());
    let largest = data.iter().fold(0f32, |a, b| a.max(*b));
    let mut found = Vec::new();
    while found.len() < count {
        let at = ((random.unit() * data.len() as f64) as usize).min(data.len() - 1);
        let [nx, ny, _] = grid.dims();
        let index = [at % nx, at / nx % ny, at / nx / ny];
        if data[at] > 0.25 * largest {
            found.push(grid.index_to_world(Vector3::from(index.map(|i| i as f64))));
        }
    }
    found
}

/// The energy of the images at the end of the finest scale.
fn of_images(found: &DeformResult) -> f64 {
    let last = found.scales.last().unwrap();
    let energies = last.parts.first().unwrap_or(&last.energies);
    *energies.last().unwrap()
}

fn mean_error(map: &Transform, truth: &Transform, points: &[Vector3<f64>]) -> f64 {
    let each = points.iter().map(|p| (map.apply(*p) - truth.apply(*p)).norm());
    each.sum::<f64>() / points.len() as f64
}

/// What ten exact landmarks do to the energy of the images, and to the error at two hundred other points, mm: by the field of the images alone,
/// each for some seeds. The largest rise of the energy as a part of its depth, and of the mean error.
fn harm(case: &Case, model: DeformModel, seeds: std::ops::Range<u64>) -> [f64; 2] {
    let alone = registered(case, model, None);
    let truth = alone.transform();
    let mut worst = [f64::NEG_INFINITY; 2];
    for seed in seeds {
        let mut random = Random::new(seed + 1);
        let fixed = points(&case.images[0], 10, &mut random);
        let moving: Vec<_> = fixed.iter().map(|p| truth.apply(*p)).collect();
        let landmarks =
            Landmarks::new(&PointSet::new(fixed.clone()), &PointSet::new(moving), case.weight);
        let found = registered(case, model, Some(landmarks.unwrap()));
        let others = points(&case.images[0], 200, &mut random);
        let rise = (of_images(&found) - of_images(&alone)) / of_images(&alone).abs();
        let map = found.transform();
        let errors = [&fixed, &others].map(|points| mean_error(&map, &truth, points));
        println!(
            "{} {} seed {seed}: images {:.4}, alone {:.4}; landmarks {:.3} mm, others {:.3} mm off \
             the field of images alone; {} iterations of {}; folded {}",
            case.name,
            model.name(),
            of_images(&found),
            of_images(&alone),
            errors[0],
            errors[1],
            found.scales.last().unwrap().energies.len(),
            alone.scales.last().unwrap().energies.len(),
            found.measures.folded,
        );
        assert_eq!(found.measures.folded, 0);
        worst[0] = worst[0].max(rise);
        worst[1] = worst[1].max(errors[1]);
    }
    worst
}

fn brains(images: [Volume<f32>; 2], schedule: &'static [(usize, usize)]) -> Case {
    let similarity = Similarity::LNCC;
    let start = Affine::identity();
    Case { name: "brains", images, start, similarity, weight: 3e-4, schedule }
}

/// The two brains that the program ships, at a coarse scale.
#[test]
fn exact_landmarks_do_no_harm() {
    let images = ["icbm152_t1.nii.gz", "colin27_brain.nii.gz"].map(shipped);
    let case = brains(images, &[(4, 40), (2, 20)]);
    for &model in DeformModel::ALL {
        let [energy, error] = harm(&case, model, 0..2);
        assert!(energy < 0.01, "{} raises the energy by {energy}", model.name());
        assert!(error < 0.5, "{} moves others by {error} mm", model.name());
    }
}

fn real(data: &Path) -> Vec<Case> {
    let oasis = data.join("brains_oasis_miccai2012");
    let lung = data.join("lung_ct_elastix");
    let hippocampus = data.join("atlas3d_msd_hippocampus/images");
    let pair = |folder: &Path, names: [&str; 2]| names.map(|name| volume(folder.join(name)));
    let between = |images: &[Volume<f32>; 2]| {
        // Centres of mass.
        let centre = |image: &Volume<f32>| {
            let ([nx, ny, _], mut sum, mut all) = (image.grid().dims(), Vector3::zeros(), 0.0);
            let low = image.data().iter().fold(f32::INFINITY, |a, b| a.min(*b));
            for (i, v) in image.data().iter().enumerate() {
                let index = [i % nx, i / nx % ny, i / nx / ny].map(|i| i as f64);
                let v = f64::from(v - low);
                sum += v * image.grid().index_to_world(Vector3::from(index));
                all += v;
            }
            sum / all
        };
        Affine::translation(centre(&images[1]) - centre(&images[0]))
    };
    let case = |name, images: [Volume<f32>; 2], schedule| Case {
        name,
        start: between(&images),
        images,
        similarity: Similarity::LNCC,
        weight: 3e-4,
        schedule,
    };
    let brains = pair(&oasis, ["1000_SS.nii.gz", "1001_SS.nii.gz"]);
    let lungs = pair(&lung, ["3DCT_lung_baseline.mha", "3DCT_lung_followup.mha"]);
    let crops = pair(&hippocampus, ["hippocampus_001.nii.gz", "hippocampus_011.nii.gz"]);
    vec![
        case("brains", brains, &[(4, 100), (2, 100)][..]),
        case("lungs", lungs, &[(4, 100), (2, 100)][..]),
        case("hippocampi", crops, &[(4, 100), (2, 100), (1, 50)][..]),
    ]
}

/// Forty splits of one of three data sets with all models: a table, for whoever asks for it.
fn of_real(name: &str) {
    let Some(data) = real_data("exact landmarks of real images") else { return };
    let seeds = std::env::var("VOXALIGN_TEST_SPLITS").ok().and_then(|s| s.parse().ok());
    for case in real(&data).into_iter().filter(|case| case.name == name) {
        for &model in DeformModel::ALL {
            let [energy, error] = harm(&case, model, 0..seeds.unwrap_or(40));
            println!(
                "{} {}: the energy of images rises by {:.2} % at most, others are {error:.3} mm off",
                case.name,
                model.name(),
                100.0 * energy
            );
        }
    }
}

#[test]
#[ignore = "a table that takes long"]
fn exact_landmarks_of_real_brains() {
    of_real("brains");
}

#[test]
#[ignore = "a table that takes long"]
fn exact_landmarks_of_real_lungs() {
    of_real("lungs");
}

#[test]
#[ignore = "a table that takes long"]
fn exact_landmarks_of_real_hippocampi() {
    of_real("hippocampi");
}

/// A chest CT under a known warp: ten landmarks that are right bring the rest no farther from it.
#[test]
fn exact_landmarks_of_a_known_warp() {
    let Some(data) = real_data("exact_landmarks_of_a_known_warp") else { return };
    let whole = volume(data.join("lung_4dct_plastimatch/t0.nii.gz"));
    // Every third voxel of a slice, and every second slice, with air at 0.
    let (grid, [nx, ny, _]) = (whole.grid(), whole.grid().dims());
    let (steps, dims) = ([3, 3, 2], [84, 84, 62]);
    let matrix =
        grid.to_world().matrix * Matrix3::from_diagonal(&Vector3::from(steps.map(|s| s as f64)));
    let to_world = Affine::new(matrix, grid.index_to_world(Vector3::zeros()));
    let coarse = Grid::new(dims, to_world).unwrap();
    let at = |x: usize, y: usize, z: usize| (z * steps[2] * ny + y * steps[1]) * nx + x * steps[0];
    let moving = Volume::from_fn(coarse.clone(), |x, y, z| {
        (whole.data()[at(x, y, z)] + 1000.0).clamp(0.0, 2000.0)
    });
    let middle = coarse.centre();
    let truth = |p: Vector3<f64>| {
        let q = (p - middle) / 45.0;
        p + 6.0 * Vector3::new(q[1].sin() * q[2].cos(), (q[2] + 0.5).sin(), q[0].sin() * q[1].cos())
    };
    let field = VectorField::from_world_fn(coarse.clone(), |p| truth(p) - p);
    let truth = Transform::Displacement(Displacement::new(field));
    let device = Cpu::new(None).unwrap();
    let fixed = MovingImage::new(&device, moving.clone()).unwrap();
    let fixed = fixed.onto(&coarse, &truth, Interpolation::Linear, 0.0).unwrap();
    let case = Case {
        name: "chest",
        images: [fixed, moving],
        start: Affine::identity(),
        similarity: Similarity::LNCC,
        weight: 3e-4,
        schedule: &[(4, 60), (2, 40), (1, 15)],
    };
    for &model in DeformModel::ALL {
        let alone = registered(&case, model, None).transform();
        for seed in 0..if thorough() { 2 } else { 1 } {
            let mut random = Random::new(seed + 11);
            let used = points(&case.images[0], 10, &mut random);
            let others = points(&case.images[0], 300, &mut random);
            let there = used.iter().map(|p| truth.apply(*p)).collect();
            let sets = [PointSet::new(used.clone()), PointSet::new(there)];
            let landmarks = Landmarks::new(&sets[0], &sets[1], case.weight).unwrap();
            let with = registered(&case, model, Some(landmarks)).transform();
            let error = |map: &Transform, points: &[Vector3<f64>]| mean_error(map, &truth, points);
            let [without, others] = [error(&alone, &others), error(&with, &others)];
            let [before, used] = [error(&alone, &used), error(&with, &used)];
            println!(
                "chest {}: landmarks {before:.3} -> {used:.3} mm, others {without:.3} -> {others:.3}",
                model.name()
            );
            assert!(others < 1.02 * without + 0.01 && used < before, "{}", model.name());
        }
    }
}
