//! Atlases of made populations whose mean is known.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod checkpoints;
mod geometry;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::cpu::{Cpu, Simd};
use voxalign_image::{Affine, Grid, Vector3, Volume};
use voxalign_population::PopulationError;
use voxalign_population::atlas::{
    Atlas, AtlasOptions, Bytes, Checkpoints, Construction, Found, Geometry, Images, InMemory,
    Level, MemoryOptions, Subject, build, unheard,
};
use voxalign_register::diffeo::DeformModel;
use voxalign_register::model::solver::SolverKind;
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Choice, Event, Progress, RegisterError};

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
    let images = Images { channels: vec![Arc::new(volume)], mask: None, as_they_are: Vec::new() };
    (Subject { name, weight: 1.0, affine: Affine::identity() }, images)
}

fn population(count: usize, nz: usize) -> Vec<(Subject, Images)> {
    (0..count).map(|i| subject(i, nz)).collect()
}

fn options(model: DeformModel) -> AtlasOptions {
    let mut options = AtlasOptions::of(model);
    options.matching.multiscale.schedule = Schedule::of(&[(2, 40), (1, 30)]);
    options.similarity = Similarity::SSD;
    options
}

/// How an atlas is made beside its options.
#[derive(Clone, Default)]
struct How<'a> {
    memory: MemoryOptions,
    checkpoints: Option<&'a Checkpoints<'a>>,
    resume: bool,
    /// What the subjects have beside images.
    geometry: Vec<Geometry>,
    /// After how many iterations the listener asks to stop.
    stop: Option<usize>,
}

/// Asks to stop after so many iterations.
struct Until(Option<usize>, AtomicUsize);

impl Progress for Until {
    fn event(&self, event: &Event<'_>) {
        if let Event::Step { .. } = event {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn stop(&self) -> bool {
        self.0.is_some_and(|most| self.1.load(Ordering::Relaxed) >= most)
    }
}

fn try_build(
    team: &Team<Cpu>,
    all: Vec<(Subject, Images)>,
    options: &AtlasOptions,
    how: &How<'_>,
) -> Result<(Atlas, Vec<Found>), PopulationError> {
    let grid = all
        .first()
        .map_or_else(|| grid(1), |a| a.1.channels.first().map_or(grid(1), |c| c.grid().clone()));
    let source = InMemory::new(all).with_geometry(how.geometry.clone());
    let found = Mutex::new(Vec::new());
    let sink = |f: Found| {
        found.lock().unwrap().push(f);
        Ok(())
    };
    let construction = Construction {
        team,
        grid: &grid,
        source: &source,
        options,
        memory: &how.memory,
        checkpoints: how.checkpoints,
        resume: how.resume,
        progress: &Until(how.stop, AtomicUsize::new(0)),
        planned: &unheard,
    };
    let atlas = build(&construction, &sink)?;
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|f| f.subject);
    Ok((atlas, found))
}

fn alone(cpu: &Cpu) -> Team<Cpu> {
    Team::new(vec![cpu.clone()], Communicator::single()).unwrap()
}

fn built(cpu: &Cpu, all: Vec<(Subject, Images)>, options: &AtlasOptions) -> (Atlas, Vec<Found>) {
    try_build(&alone(cpu), all, options, &How::default()).unwrap()
}

/// All that is told of an atlas is the same, but for times and memory.
fn assert_same((a, of_a): &(Atlas, Vec<Found>), (b, of_b): &(Atlas, Vec<Found>), what: &str) {
    assert!(a.template == b.template, "{what}");
    assert!(a.affine_mean == b.affine_mean, "{what}");
    assert!(a.variance == b.variance, "{what}");
    assert!(a.entropy == b.entropy, "{what}");
    assert!(a.log_jacobian == b.log_jacobian, "{what}");
    assert!(a.correlations == b.correlations, "{what}");
    assert!(a.sharpness == b.sharpness, "{what}");
    assert!(a.snapshots == b.snapshots, "{what}");
    assert!(a.geometry == b.geometry, "{what}");
    let energies = |a: &Atlas| a.scales.iter().map(|s| s.energies.clone()).collect::<Vec<_>>();
    assert_eq!(energies(a), energies(b), "{what}");
    assert!(of_a == of_b, "{what}");
}

fn short(model: DeformModel) -> AtlasOptions {
    let mut short = options(model);
    short.matching.multiscale.schedule.0.iter_mut().for_each(|s| s.iterations = 4);
    short
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
    for (f, [before, after]) in found.iter().zip(&atlas.correlations) {
        assert!(f.verdict.good, "{:?}", f.verdict);
        assert!(after > before, "{before} {after}");
    }
    assert!(rms(&atlas.variance) < 0.01);
}

#[test]
fn greedy() {
    check_model(DeformModel::GREEDY);
}

#[test]
fn symmetric() {
    check_model(DeformModel::SYMMETRIC);
}

#[test]
fn lddmm() {
    check_model(DeformModel::LDDMM);
}

/// Without taking back the mean displacement there is a bias.
#[test]
fn centring_takes_the_bias_away() {
    let cpu = Cpu::new(None).unwrap();
    let centred = options(DeformModel::SYMMETRIC);
    let biased = AtlasOptions { centre: false, ..centred.clone() };
    let [with, without] =
        [centred, biased].map(|o| rms(&built(&cpu, population(6, 1), &o).0.log_jacobian));
    println!("mean log Jacobian {with:.4} centred, {without:.4} not");
    assert!(with < 0.3 * without);
}

#[test]
fn the_same_bits_in_any_order_on_any_threads() {
    let mut short = options(DeformModel::GREEDY);
    short.matching.multiscale.schedule.0.iter_mut().for_each(|s| s.iterations = 6);
    let all = population(4, 9);
    let first = built(&Cpu::new(Some(1)).unwrap(), all.clone(), &short);
    for (threads, turn) in [(2, 1), (3, 2)] {
        let mut turned = all.clone();
        turned.rotate_left(turn);
        let cpu = Cpu::new(Some(threads)).unwrap().with_simd(Simd::Scalar).unwrap();
        let again = built(&cpu, turned, &short);
        assert!(again.0.template == first.0.template);
        assert!(again.0.variance == first.0.variance);
        assert!(again.0.log_jacobian == first.0.log_jacobian);
        for (i, found) in again.1.iter().enumerate() {
            let same = &first.1[(i + turn) % 4];
            assert!((&found.forward, &found.inverse) == (&same.forward, &same.inverse));
        }
    }
}

/// A subject that counts ten times as much draws the template.
#[test]
fn weights_count() {
    let cpu = Cpu::new(None).unwrap();
    let mut all = population(2, 1);
    let (even, _) = built(&cpu, all.clone(), &options(DeformModel::GREEDY));
    all[0].0.weight = 9.0;
    let (drawn, found) = built(&cpu, all.clone(), &options(DeformModel::GREEDY));
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
    let (clean, _) = built(&cpu, all.clone(), &options(DeformModel::GREEDY));
    let image = Arc::clone(&all[1].1.channels[0]);
    let grid = image.grid().clone();
    let sick = Volume::from_fn(grid.clone(), |x, y, z| {
        if lesion(&grid, x, y) { 0.0 } else { *image.get(x, y, z).unwrap() }
    });
    all[1].1.channels[0] = Arc::new(sick);
    let (hurt, _) = built(&cpu, all.clone(), &options(DeformModel::GREEDY));
    let mask = Volume::from_fn(grid.clone(), |x, y, _| f32::from(u8::from(!lesion(&grid, x, y))));
    all[1].1.mask = Some(Arc::new(mask));
    let (masked, _) = built(&cpu, all, &options(DeformModel::GREEDY));
    let [clean, hurt, masked] = [clean, hurt, masked].map(|a| error(&a.template[0]));
    println!("error {clean:.4}, with the lesion {hurt:.4}, with its mask {masked:.4}");
    assert!(hurt > 1.5 * clean);
    assert!(masked - clean < 0.25 * (hurt - clean));
}

#[test]
fn bad_input() {
    let cpu = Cpu::new(None).unwrap();
    let run = |all: Vec<(Subject, Images)>| {
        let options = options(DeformModel::GREEDY);
        try_build(&alone(&cpu), all, &options, &How::default()).unwrap_err()
    };
    assert!(matches!(run(population(1, 1)), PopulationError::Images { .. }));
    let mut all = population(3, 1);
    all[1].0.weight = 0.0;
    assert!(run(all).to_string().contains("subject 1: its weight is 0"));
    let mut all = population(3, 1);
    all[2].1.channels[0] = Arc::new(Volume::from_fn(grid(1), |_, _, _| 3.0));
    assert!(run(all).to_string().starts_with("'subject 2': "));
    let mut all = population(3, 1);
    all[1].1.mask = Some(Arc::new(Volume::from_fn(grid(1), |_, _, _| 0.0)));
    assert!(run(all).to_string().contains("selects no voxel"));
    let mut all = population(2, 1);
    all[1].1.channels.clear();
    assert!(run(all).to_string().contains("0 channels"));
    let mut options = options(DeformModel::GREEDY);
    options.matching.model.set("step", "0").unwrap();
    let failed = try_build(&alone(&cpu), population(2, 1), &options, &How::default());
    assert!(matches!(failed, Err(PopulationError::Register(RegisterError::Option { .. }))));
}

const MODELS: [DeformModel; 3] = [DeformModel::GREEDY, DeformModel::SYMMETRIC, DeformModel::LDDMM];

/// Options under which every kind of state is kept between steps.
fn with_memory(model: DeformModel) -> AtlasOptions {
    let mut options = short(model);
    options.matching.solver = SolverKind::HYBRID;
    options.matching.model.set("step_rule", "adaptive").unwrap();
    options
}

fn masked(all: &mut [(Subject, Images)]) {
    let grid = all[1].1.channels[0].grid().clone();
    let mask = Volume::from_fn(grid, |x, _, _| f32::from(u8::from(x > 20)));
    all[1].1.mask = Some(Arc::new(mask));
}

/// Subjects that leave the device between steps give what those give that stay.
#[test]
fn streamed_from_host_and_disk() {
    let cpu = Cpu::new(Some(2)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for model in MODELS {
        for options in [short(model), with_memory(model)] {
            let mut all = population(5, 3);
            if model != DeformModel::SYMMETRIC {
                masked(&mut all);
            }
            let in_core = built(&cpu, all.clone(), &options);
            assert!(in_core.0.plans[0].in_core() && in_core.0.trace.is_none());
            let full = in_core.0.plans[0].device_bytes;
            let (mut some, mut none) = (false, false);
            for (device, host, level) in [
                (full / 10 * 8, u64::MAX, Level::Host),
                (full / 10 * 8, 0, Level::Disk),
                (1, 0, Level::Disk),
            ] {
                let memory = MemoryOptions {
                    device_memory: Some(Bytes(device)),
                    host_memory: Some(Bytes(host)),
                    scratch: Some(folder.path().to_owned()),
                };
                let how = How { memory, ..How::default() };
                let streamed = try_build(&alone(&cpu), all.clone(), &options, &how).unwrap();
                let plan = streamed.0.plans[0];
                if !plan.in_core() {
                    assert_eq!(plan.level, level, "{plan}");
                    assert!(streamed.0.trace.is_some());
                }
                some |= plan.resident > 0 && !plan.in_core();
                none |= plan.resident == 0;
                assert_same(&streamed, &in_core, &format!("{model:?} {plan}"));
            }
            assert!(none);
            println!("{model:?}: some resident {some}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// However many ranks and devices share the subjects, the bits are the same.
#[test]
fn ranks_and_devices() {
    let cpu = Cpu::new(Some(1)).unwrap();
    for model in MODELS {
        let mut all = population(5, 1);
        if model != DeformModel::SYMMETRIC {
            masked(&mut all);
        }
        let options = short(model);
        let whole = built(&cpu, all.clone(), &options);
        for (ranks, devices) in [(1, 2), (2, 1), (3, 2), (6, 1)] {
            let all = &all;
            let (cpu, options) = (&cpu, &options);
            let mut found: Vec<(Atlas, Vec<Found>)> = std::thread::scope(|scope| {
                let threads: Vec<_> = Communicator::local(ranks)
                    .into_iter()
                    .map(|rank| {
                        scope.spawn(move || {
                            let team = Team::new(vec![cpu.clone(); devices], rank).unwrap();
                            try_build(&team, all.clone(), options, &How::default()).unwrap()
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().unwrap()).collect()
            });
            let of_all: Vec<Found> =
                found.iter_mut().flat_map(|f| std::mem::take(&mut f.1)).collect();
            assert!(of_all == whole.1, "{model:?} {ranks} {devices}");
            let (first, others) = found.split_first().unwrap();
            for other in others {
                assert!(other.0.template == first.0.template);
                assert!(other.0.entropy == first.0.entropy);
            }
            let first = (first.0.clone(), of_all);
            assert_same(&first, &whole, &format!("{model:?} {ranks} {devices}"));
        }
    }
}

/// A rank that fails ends all of them, with the reason.
#[test]
fn a_rank_that_fails() {
    let said: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = Communicator::local(3)
            .into_iter()
            .map(|rank| {
                scope.spawn(move || {
                    let cpu = Cpu::new(Some(1)).unwrap();
                    let mut all = population(5, 1);
                    all[3].1.channels[0] = Arc::new(Volume::from_fn(grid(1), |_, _, _| 3.0));
                    let team = Team::new(vec![cpu], rank).unwrap();
                    let options = short(DeformModel::GREEDY);
                    try_build(&team, all, &options, &How::default()).unwrap_err().to_string()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(said[1].starts_with("'subject 3': "), "{said:?}");
    for other in [&said[0], &said[2]] {
        assert!(other.contains("rank 1 failed: 'subject 3'"), "{said:?}");
    }
}
