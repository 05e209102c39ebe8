//! Images that are spread over ranks, made ones.

use super::*;
use crate::Silent;
use crate::error::{RegisterError, Result};
use crate::linear::AffineOptions;
use crate::progress::{Event, Progress};
use crate::search::Objective;
use crate::search::distributed::{ListOptions, StrategyKind};
use crate::search::optimiser::OptimiserKind;
use crate::similarity::{Mi, Nmi, Similarity};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use voxalign_compute::comm::Communicator;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::joint::{Block, BlockRule, Halo, PixelsPerThread};
use voxalign_image::{Affine, Grid, Matrix3, Vector3};

/// An image in memory with scales that are means of 2 x 2 pixels.
struct Made {
    grids: Vec<Grid>,
    scales: Vec<Vec<u16>>,
    wide: bool,
    /// Whether only a disc in the middle counts.
    disc: bool,
}

impl Made {
    fn new(
        dims: [usize; 3],
        spacing: f64,
        scales: usize,
        wide: bool,
        of: impl Fn(Vector3<f64>) -> f64,
    ) -> Self {
        let matrix = Matrix3::from_diagonal(&Vector3::new(-spacing, -spacing, spacing));
        let to_world = |factor: f64| {
            let half = 0.5 * (factor - 1.0) * spacing;
            Affine::new(
                matrix * Matrix3::from_diagonal(&Vector3::new(factor, factor, 1.0)),
                Vector3::new(-half, -half, 0.0),
            )
        };
        let finest = Grid::new(dims, to_world(1.0)).unwrap();
        let most = if wide { 65535.0 } else { 255.0 };
        let [nx, ny, _] = dims;
        let value = |i: usize, j: usize| {
            let at = finest.index_to_world(Vector3::new(i as f64, j as f64, 0.0));
            (of(at).clamp(0.0, 1.0) * most).round() as u16
        };
        let mut values: Vec<u16> = (0..nx * ny).map(|k| value(k % nx, k / nx)).collect();
        let (mut grids, mut all, mut size) = (vec![finest.clone()], vec![values.clone()], [nx, ny]);
        for scale in 1..scales {
            let next = size.map(|n| n / 2);
            let mean = |k: usize| {
                let (i, j) = (2 * (k % next[0]), 2 * (k / next[0]));
                let sum: u32 = [(0, 0), (1, 0), (0, 1), (1, 1)]
                    .map(|(a, b)| u32::from(values[i + a + size[0] * (j + b)]))
                    .iter()
                    .sum();
                ((sum + 2) / 4) as u16
            };
            values = (0..next[0] * next[1]).map(mean).collect();
            size = next;
            grids.push(Grid::new([size[0], size[1], 1], to_world(f64::from(1 << scale))).unwrap());
            all.push(values.clone());
        }
        Self { grids, scales: all, wide, disc: false }
    }
}

impl ImageBlocks for Made {
    fn scales(&self) -> &[Grid] {
        &self.grids
    }

    fn is_wide(&self) -> bool {
        self.wide
    }

    fn read(&self, scale: usize, block: &Block) -> Result<PixelBlock> {
        let nx = self.grids[scale].dims()[0];
        let rows = (block.origin[1]..block.end(1)).flat_map(|y| {
            let begin = block.origin[0] + nx * y;
            self.scales[scale][begin..begin + block.dims[0]].iter()
        });
        Ok(match self.wide {
            true => PixelBlock::Words(rows.copied().collect()),
            false => PixelBlock::Bytes(rows.map(|&v| v as u8).collect()),
        })
    }

    fn mask(&self, scale: usize, block: &Block) -> Result<Option<Vec<u8>>> {
        let [nx, ny, _] = self.grids[scale].dims().map(|n| n as f64);
        let inside = |x: usize, y: usize| {
            let (dx, dy) = (x as f64 - nx / 2.0, y as f64 - ny / 2.0);
            u8::from(dx.hypot(dy) < 0.35 * nx.min(ny))
        };
        let all = (block.origin[1]..block.end(1))
            .flat_map(|y| (block.origin[0]..block.end(0)).map(move |x| inside(x, y)));
        Ok(self.disc.then(|| all.collect()))
    }
}

/// A section with an outline, layers and spots, at a place in mm.
fn section(p: Vector3<f64>) -> f64 {
    let (x, y) = (p.x + 7.0, p.y + 6.0);
    let r = (x * x / 1.3 + y * y).sqrt() + 0.4 * (3.0 * y.atan2(x)).sin();
    let tissue = 1.0 / (1.0 + ((r - 4.5) * 6.0).exp());
    let layers = 0.5 + 0.5 * (3.0 * r + 0.7 * x).sin();
    let spots = (5.0 * x + (2.0 * y).sin()).sin() * (4.0 * y + (3.0 * x).cos()).sin();
    let fine = (31.0 * x).sin() * (27.0 * y + 3.0 * x).sin();
    0.06 + tissue * (0.3 + 0.3 * layers + 0.12 * spots + 0.06 * fine)
}

/// The true map from fixed to moving world.
fn truth() -> Affine {
    let (s, c) = 0.3f64.sin_cos();
    let matrix =
        Matrix3::new(1.04 * c, -0.98 * s + 0.02, 0.0, 1.03 * s, 0.99 * c, 0.0, 0.0, 0.0, 1.0);
    Affine::about(matrix, Vector3::new(-7.0, -6.0, 0.0), Vector3::new(0.43, -0.31, 0.0))
}

fn pair(wide: bool) -> [Made; 2] {
    let map = truth();
    // Another contrast than that of the fixed image.
    let fixed = Made::new([1400, 1200, 1], 0.01, 2, wide, move |p| section(map.apply(p)));
    let moving = Made::new([1300, 1250, 1], 0.0104, 2, wide, |p| section(p) * (1.9 - section(p)));
    [fixed, moving]
}

fn options(strategy: StrategyKind) -> SpreadOptions {
    // What is streamed passes in many chunks; all others hold their images.
    let device = (strategy == StrategyKind::Streamed).then_some(300_000);
    SpreadOptions {
        affine: AffineOptions::default(),
        similarity: Similarity::Nmi(Nmi { bins: 64 }),
        placement: Placement::Given(strategy),
        memory: SpreadMemory { device, host: None },
        blocks: BlockRule::default(),
        list: ListOptions { chunk: [300, 256, 1], ..ListOptions::default() },
        pixels_per_thread: PixelsPerThread::default(),
    }
}

fn run(images: &[Made; 2], ranks: usize, options: &SpreadOptions) -> Vec<SpreadResult> {
    std::thread::scope(|scope| {
        let start = |rank: Communicator| {
            scope.spawn(move || {
                let device = Cpu::new(Some(1)).unwrap();
                let input = SpreadInput { fixed: &images[0], moving: &images[1] };
                register_spread(&device, &rank, input, options, &Silent).unwrap()
            })
        };
        let threads: Vec<_> = Communicator::local(ranks).into_iter().map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

/// The largest distance of corners from where they belong, pixels of the fixed image.
fn off(found: &Affine) -> f64 {
    let grid =
        Grid::new([1400, 1200, 1], Affine::new(Matrix3::identity() * -0.01, Vector3::zeros()))
            .unwrap();
    let far = |p: Vector3<f64>| (found.apply(p) - truth().apply(p)).xy().norm() / 0.01;
    grid.corners().map(far).into_iter().fold(0.0, f64::max)
}

#[test]
fn sections_are_aligned_and_the_bits_do_not_depend_on_ranks() {
    let images = pair(false);
    let alone = run(&images, 1, &options(StrategyKind::Replicated)).remove(0);
    println!(
        "{:.3} pixels off at a corner, cost {:?}, {:?}",
        off(&alone.transform),
        alone.costs,
        alone.stages.iter().map(|s| s.evaluations).collect::<Vec<_>>()
    );
    let coarse = off(&alone.whole.as_ref().unwrap().transform);
    assert!(
        off(&alone.transform) < 0.1 && coarse > off(&alone.transform),
        "{coarse} {:?}",
        alone.transform
    );
    let judged = alone.judged.as_ref().unwrap();
    assert!(judged.verdict.good, "{:?}", judged.verdict);
    assert_eq!(alone.stages.len(), 2);
    let some = Halo::Pixels(40);
    for (ranks, strategy) in [
        (2, StrategyKind::Halo(some)),
        (3, StrategyKind::List(Halo::default())),
        (4, StrategyKind::Peer(some)),
        (1, StrategyKind::Streamed),
        (2, StrategyKind::Streamed),
    ] {
        for (rank, found) in run(&images, ranks, &options(strategy)).into_iter().enumerate() {
            assert_eq!(found.transform, alone.transform, "{strategy:?} {rank}");
            assert_eq!(found.costs, alone.costs);
            let scale = &found.scales[1];
            let mut peer = scale.estimates.iter();
            let peer = peer.find(|e| matches!(e.strategy, StrategyKind::Peer(_))).unwrap();
            // As where the strategy is chosen; what is streamed had little memory.
            assert_eq!(scale.machine.peers, ranks > 1);
            assert_eq!(peer.serves, strategy != StrategyKind::Streamed);
            assert_eq!(found.whole.is_some(), rank == 0);
            let samples = |r: &SpreadResult| r.scales.iter().map(|s| s.traffic.samples).collect();
            let all: [Vec<u64>; 2] = [samples(&found), samples(&alone)];
            assert_eq!(all[0], all[1]);
        }
    }
}

/// What memory allows decides, and not the bits.
#[test]
fn the_model_takes_what_fits() {
    let images = pair(false);
    let auto = |ranks: usize, device: u64, host: Option<u64>| {
        let placement = Placement::Auto(Halo::Pixels(16));
        let memory = SpreadMemory { device: Some(device), host };
        let options = SpreadOptions { placement, memory, ..options(StrategyKind::Replicated) };
        run(&images, ranks, &options)
    };
    let roomy = auto(1, 1 << 30, None).remove(0);
    let names =
        |found: &SpreadResult| found.scales.iter().map(|s| s.strategy.name()).collect::<Vec<_>>();
    assert_eq!(names(&roomy), ["replicate", "replicate"]);
    // The images of the finest scale have 1.7 and 1.6 million pixels.
    for (ranks, device, host, name) in [
        (1, 1_500_000, None, "stream"),
        (1, 400_000, Some(0), "stream"),
        (2, 1_900_000, None, "peer"),
    ] {
        for found in auto(ranks, device, host) {
            assert_eq!(names(&found)[1], name);
            assert_eq!(found.transform, roomy.transform, "{ranks} {device}");
            let taken = &found.scales[1];
            assert_eq!(taken.estimates[0].strategy, taken.strategy);
            assert!(taken.estimates[0].device_bytes <= device);
        }
    }
}

#[test]
fn sixteen_bits_and_a_search_without_derivatives() {
    let images = pair(true);
    let mut options = options(StrategyKind::Replicated);
    options.affine.optimiser = OptimiserKind::Powell(Default::default());
    let found = run(&images, 2, &options).remove(0);
    println!(
        "{:.3} pixels off, {:?}",
        off(&found.transform),
        found.stages.iter().map(|s| s.evaluations).collect::<Vec<_>>()
    );
    assert!(off(&found.transform) < 0.3, "{}", off(&found.transform));
}

/// The derivative is that of the cost: exact sums of slopes against differences.
#[test]
fn the_derivative_is_that_of_the_cost() {
    for (wide, similarity) in [
        (false, Similarity::Mi(Mi { bins: 32 })),
        (true, options(StrategyKind::Replicated).similarity),
    ] {
        // No sample leaves the moving image, or enters it.
        let mut images = pair(wide);
        images[0].disc = true;
        let options = SpreadOptions { similarity, ..options(StrategyKind::Replicated) };
        let ranks = Communicator::single();
        let input = SpreadInput { fixed: &images[0], moving: &images[1] };
        let device = Cpu::new(Some(2)).unwrap();
        let (spread, cost) =
            register::at_finest(&device, &ranks, input, &options, StrategyKind::Replicated)
                .unwrap();
        let objective = register::objective(
            &ranks,
            &spread,
            cost,
            [&images[0].grids[0], &images[1].grids[0]],
            &Silent,
        );
        let at = truth().then(&Affine::about(
            Matrix3::new(1.01, 0.02, 0.0, -0.015, 0.99, 0.0, 0.0, 0.0, 1.0),
            Vector3::new(-7.0, -6.0, 0.0),
            Vector3::new(0.05, -0.04, 0.0),
        ));
        let gradient = objective.evaluate(&[at], true).unwrap()[0].gradient.unwrap();
        let (mut worst, mut largest) = (0.0f64, 0.0f64);
        for entry in [0, 1, 3, 4, 5, 7] {
            let step = if entry % 4 == 3 { 0.003 } else { 0.0005 };
            let moved = |by: f64| {
                let mut rows = at.rows();
                rows[entry / 4][entry % 4] += by;
                Affine::from_rows(rows)
            };
            let found = objective.evaluate(&[moved(step), moved(-step)], false).unwrap();
            let difference = (found[0].cost - found[1].cost) / (2.0 * step);
            let scale = if entry % 4 == 3 { 1.0 } else { 7.0 };
            worst = worst.max((difference - gradient[entry]).abs() / scale);
            largest = largest.max(difference.abs() / scale);
        }
        println!("{worst:.2e} of {largest:.2e}");
        assert!(worst < 0.03 * largest, "{worst} {largest}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let images = pair(false);
    let constant = Made::new([64, 64, 1], 0.01, 1, false, |_| 0.5);
    let refused = |input: SpreadInput<'_>, options: &SpreadOptions, part: &str| {
        let device = Cpu::new(Some(1)).unwrap();
        let error = register_spread(&device, &Communicator::single(), input, options, &Silent);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    let usual = options(StrategyKind::Replicated);
    let [fixed, moving] = &images;
    refused(SpreadInput { fixed: &constant, moving }, &usual, "constant");
    let ncc = SpreadOptions { similarity: Similarity::Ncc(Default::default()), ..usual.clone() };
    refused(SpreadInput { fixed, moving }, &ncc, "give mi or nmi");
    let bins = SpreadOptions { similarity: Similarity::Mi(Mi { bins: 200 }), ..usual.clone() };
    refused(SpreadInput { fixed, moving }, &bins, "2 to 128");
    for (bytes, part) in [(1000, "give at least"), (300_000, "this strategy needs")] {
        let memory = SpreadMemory { device: Some(bytes), host: None };
        refused(SpreadInput { fixed, moving }, &SpreadOptions { memory, ..usual.clone() }, part);
    }
    // Before anything is searched: of 1.7 and 1.6 million pixels, for one rank, for two, and for any number of them.
    let scales = [&fixed.grids[..], &moving.grids[..]];
    let fits = |ranks: Option<usize>, bytes: u64| {
        let memory = SpreadMemory { device: Some(bytes), host: None };
        check_memory(ranks, scales, false, &SpreadOptions { memory, ..usual.clone() }).is_ok()
    };
    for (ranks, least) in [(Some(1), 3_305_000), (Some(2), 2_465_000), (None, 1_625_000)] {
        assert!(fits(ranks, least) && !fits(ranks, least - 1), "{ranks:?}");
    }
}

/// A listener that asks to stop after some evaluations, where there are any.
struct Stops(Option<AtomicUsize>);

impl Progress for Stops {
    fn event(&self, _: &Event<'_>) {}

    fn stop(&self) -> bool {
        let left =
            |n: &AtomicUsize| n.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_err();
        self.0.as_ref().is_some_and(left)
    }
}

#[test]
fn ranks_stop_together() {
    let images = pair(false);
    let options = options(StrategyKind::Replicated);
    let stopped = std::thread::scope(|scope| {
        let start = |rank: Communicator| {
            let (images, options) = (&images, &options);
            scope.spawn(move || {
                let device = Cpu::new(Some(1)).unwrap();
                let input = SpreadInput { fixed: &images[0], moving: &images[1] };
                // Not the first rank, which searches alone before.
                let stops = Stops((rank.rank() == 1).then(|| AtomicUsize::new(3)));
                let found = register_spread(&device, &rank, input, options, &stops);
                matches!(found, Err(RegisterError::Stopped))
            })
        };
        let threads: Vec<_> = Communicator::local(3).into_iter().map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(stopped, [true; 3]);
}
