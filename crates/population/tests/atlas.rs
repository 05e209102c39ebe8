//! Atlases of made populations whose mean is known.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_image::{Affine, Grid, Vector3, Volume};
use voxalign_population::PopulationError;
use voxalign_population::atlas::{Atlas, AtlasOptions, Found, Images, InMemory, Subject, build};
use voxalign_register::diffeo::multiscale::Scale;
use voxalign_register::diffeo::{DeformModel, DeformSimilarity};
use voxalign_register::{RegisterError, Silent};

/// A slice of a head, at a place in mm about its centre: 0 outside, 1 at most.
fn head(p: Vector3<f64>) -> f64 {
    let edge = |r: f64| 1.0 / (1.0 + (12.0 * (r - 1.0)).exp());
    let ellipse = |cx: f64, cy: f64, a: f64, b: f64| {
        edge((((p[0] - cx) / a).powi(2) + ((p[1] - cy) / b).powi(2) + (p[2] / 30.0).powi(2)).sqrt())
    };
    0.5 * ellipse(0., 0., 50., 60.) + 0.4 * ellipse(-16., 8., 10., 22.)
        - 0.3 * ellipse(16., 8., 10., 22.)
        + 0.2 * ellipse(0., -35., 25., 12.)
}

/// The displacement of a subject, mm; those of the subjects `2 i` and `2 i + 1` take each other back
/// nearly.
fn displaced(subject: usize, p: Vector3<f64>) -> Vector3<f64> {
    let (kind, sign) = (subject / 2, if subject.is_multiple_of(2) { 1.0 } else { -1.0 });
    let (a, b) = (0.05 + 0.01 * kind as f64, 0.9 * kind as f64);
    let (u, v) = ((a * p[1] + b).sin(), (a * p[0] - b).cos());
    p + sign * 4.0 * Vector3::new(u, v, 0.0)
}

fn grid(nz: usize) -> Grid {
    let plain = Grid::axis_aligned([64, 72, nz], [2.0; 3]).unwrap();
    Grid::new(plain.dims(), Affine::new(plain.to_world().matrix, -plain.centre())).unwrap()
}

fn subject(number: usize, nz: usize) -> (Subject, Images) {
    let grid = grid(nz);
    let volume = Volume::from_fn(grid.clone(), |x, y, z| {
        let p = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        (1000.0 * head(displaced(number, p))) as f32
    });
    let name = format!("subject {number}");
    let images = Images { channels: vec![Arc::new(volume)], mask: None };
    (Subject { name, weight: 1.0, affine: Affine::identity() }, images)
}

fn population(count: usize, nz: usize) -> Vec<(Subject, Images)> {
    (0..count).map(|i| subject(i, nz)).collect()
}

fn options(model: DeformModel) -> AtlasOptions {
    let scale = |factor, iterations| Scale { factor, iterations };
    let mut options = AtlasOptions::of(model);
    options.matching.schedule = vec![scale(2, 40), scale(1, 30)];
    options.similarity = DeformSimilarity::Ssd;
    options
}

fn built(cpu: &Cpu, all: Vec<(Subject, Images)>, options: &AtlasOptions) -> (Atlas, Vec<Found>) {
    let grid = all[0].1.channels[0].grid().clone();
    let source = InMemory::new(all);
    let mut found = Vec::new();
    let mut sink = |f: Found| {
        found.push(f);
        Ok(())
    };
    let atlas = build(cpu, &grid, &source, options, &Silent, &mut sink).unwrap();
    (atlas, found)
}

/// The root of the mean squared difference from the true mean, after calibration as subjects are.
fn error(image: &Volume<f32>) -> f64 {
    let grid = image.grid().clone();
    let truth = Volume::from_fn(grid.clone(), |x, y, z| {
        head(grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64))) as f32
    });
    let top = truth.data().iter().fold(0f32, |a, &b| a.max(b));
    let sum: f64 =
        image.data().iter().zip(truth.data()).map(|(&a, &b)| f64::from(a - b / top).powi(2)).sum();
    (sum / grid.len() as f64).sqrt()
}

fn rms(image: &Volume<f32>) -> f64 {
    let sum: f64 = image.data().iter().map(|&v| f64::from(v).powi(2)).sum();
    (sum / image.data().len() as f64).sqrt()
}

fn check_model(model: DeformModel) {
    let cpu = Cpu::new(None).unwrap();
    let (atlas, found) = built(&cpu, population(6, 1), &options(model));
    let [before, after] = atlas.ends;
    println!(
        "{model:?}: error {:.4} -> {:.4}, entropy {:.3} -> {:.3}, gradient {:.6} -> {:.6}, mean log \
         Jacobian {:.4}, of one {:.4}",
        error(&atlas.affine_mean[0]),
        error(&atlas.template[0]),
        before.entropy,
        after.entropy,
        before.gradient_energy,
        after.gradient_energy,
        rms(&atlas.log_jacobian),
        found[0].measures.log_jacobian_sd,
    );
    assert!(error(&atlas.template[0]) < 0.5 * error(&atlas.affine_mean[0]));
    assert!(after.entropy < before.entropy);
    assert!(after.gradient_energy > 1.2 * before.gradient_energy);
    // The mean displacement is zero, which leaves the second order of the changes of volume.
    assert!(rms(&atlas.log_jacobian) < 0.25 * found[0].measures.log_jacobian_sd);
    assert_eq!(found.len(), 6);
    for f in &found {
        assert!(f.verdict.good, "{:?}", f.verdict);
        assert!(f.correlation[1] > f.correlation[0], "{:?}", f.correlation);
    }
    assert!(rms(&atlas.variance) < 0.01);
}

#[test]
fn greedy() {
    check_model(DeformModel::Greedy);
}

#[test]
fn symmetric() {
    check_model(DeformModel::Symmetric);
}

#[test]
fn lddmm() {
    check_model(DeformModel::Lddmm);
}

/// Without taking back the mean displacement there is a bias.
#[test]
fn centring_takes_the_bias_away() {
    let cpu = Cpu::new(None).unwrap();
    let centred = options(DeformModel::Symmetric);
    let biased = AtlasOptions { centre: false, ..centred.clone() };
    let [with, without] =
        [centred, biased].map(|o| rms(&built(&cpu, population(6, 1), &o).0.log_jacobian));
    println!("mean log Jacobian {with:.4} centred, {without:.4} not");
    assert!(with < 0.3 * without);
}

#[test]
fn the_same_bits_in_any_order_on_any_threads() {
    let mut short = options(DeformModel::Greedy);
    short.matching.schedule.iter_mut().for_each(|s| s.iterations = 6);
    let all = population(4, 9);
    let first = built(&Cpu::new(Some(1)).unwrap(), all.clone(), &short);
    for (threads, turn) in [(2, 1), (3, 2)] {
        let mut turned = all.clone();
        turned.rotate_left(turn);
        let cpu = Cpu::new(Some(threads)).unwrap().with_simd(Simd::Scalar).unwrap();
        let again = built(&cpu, turned, &short);
        assert_eq!(again.0.template, first.0.template);
        assert_eq!(again.0.variance, first.0.variance);
        assert_eq!(again.0.log_jacobian, first.0.log_jacobian);
        for (i, found) in again.1.iter().enumerate() {
            let same = &first.1[(i + turn) % 4];
            assert_eq!((&found.forward, &found.inverse), (&same.forward, &same.inverse));
        }
    }
}

/// A subject that counts ten times as much draws the template.
#[test]
fn weights_count() {
    let cpu = Cpu::new(None).unwrap();
    let mut all = population(2, 1);
    let (even, _) = built(&cpu, all.clone(), &options(DeformModel::Greedy));
    all[0].0.weight = 9.0;
    let (drawn, found) = built(&cpu, all.clone(), &options(DeformModel::Greedy));
    assert!(error(&drawn.template[0]) > 1.5 * error(&even.template[0]));
    let [of_it, of_other] = [0, 1].map(|i| found[i].measures.mean_displacement);
    println!("displacements {of_it:.3} and {of_other:.3} mm");
    assert!((of_other / of_it - 9.0).abs() < 1.5);
}

/// Where a subject is masked, the others alone make the template.
#[test]
fn masks_count() {
    let cpu = Cpu::new(None).unwrap();
    let mut all = population(4, 1);
    let lesion = |g: &Grid, x: usize, y: usize| {
        (g.index_to_world(Vector3::new(x as f64, y as f64, 0.0)) - Vector3::new(20., -15., 0.))
            .norm()
            < 9.0
    };
    let (clean, _) = built(&cpu, all.clone(), &options(DeformModel::Greedy));
    let image = Arc::clone(&all[1].1.channels[0]);
    let grid = image.grid().clone();
    let sick = Volume::from_fn(grid.clone(), |x, y, z| {
        if lesion(&grid, x, y) { 0.0 } else { *image.get(x, y, z).unwrap() }
    });
    all[1].1.channels[0] = Arc::new(sick);
    let (hurt, _) = built(&cpu, all.clone(), &options(DeformModel::Greedy));
    let mask = Volume::from_fn(grid.clone(), |x, y, _| f32::from(u8::from(!lesion(&grid, x, y))));
    all[1].1.mask = Some(Arc::new(mask));
    let (masked, _) = built(&cpu, all, &options(DeformModel::Greedy));
    let [clean, hurt, masked] = [clean, hurt, masked].map(|a| error(&a.template[0]));
    println!("error {clean:.4}, with the lesion {hurt:.4}, with its mask {masked:.4}");
    assert!(hurt > 1.5 * clean);
    assert!(masked - clean < 0.25 * (hurt - clean));
}

#[test]
fn bad_input() {
    let cpu = Cpu::new(None).unwrap();
    let run = |all: Vec<(Subject, Images)>| {
        let (grid, source) = (grid(1), InMemory::new(all));
        let mut sink = |_: Found| Ok(());
        build(&cpu, &grid, &source, &options(DeformModel::Greedy), &Silent, &mut sink).unwrap_err()
    };
    assert!(matches!(run(population(1, 1)), PopulationError::Option { option: "images", .. }));
    let mut all = population(3, 1);
    all[1].0.weight = 0.0;
    assert!(run(all).to_string().contains("subject 1: its weight is 0"));
    let mut all = population(3, 1);
    all[2].1.channels[0] = Arc::new(Volume::from_fn(grid(1), |_, _, _| 3.0));
    assert!(run(all).to_string().starts_with("subject 2: "));
    let mut all = population(3, 1);
    all[1].1.mask = Some(Arc::new(Volume::from_fn(grid(1), |_, _, _| 0.0)));
    assert!(run(all).to_string().contains("selects no voxel"));
    let mut all = population(2, 1);
    all[1].1.channels.clear();
    assert!(run(all).to_string().contains("0 channels"));
    let mut options = options(DeformModel::Greedy);
    options.matching.step = 0.0;
    let source = InMemory::new(population(2, 1));
    let failed = build(&cpu, &grid(1), &source, &options, &Silent, &mut |_: Found| Ok(()));
    assert!(matches!(failed, Err(PopulationError::Register(RegisterError::Option { .. }))));
}
