//! Every strategy, decomposition and number of ranks against whole images and one pixel after the other.

mod taylor;

use super::{
    ChunkOrder, Halo, Held, List, ListOptions, Peer, Plan, Replicated, Strategy as Sharing,
    StrategyKind, Streamed, Supply, Traffic, in_map,
};
use proptest::prelude::*;
use std::sync::Arc;
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::joint::{
    Block, BlockRule, Collect, FixedPointMap, Halo as Margin, JointRule, MessageLayout, Pixel,
    Window,
};
use voxalign_compute::{Device, Dims};
use voxalign_conformance::blocks::{Pair, Reference, table, turned};

fn part_of<T: Copy>(image: &[T], dims: Dims, block: &Block) -> Vec<T> {
    let pixels = (0..block.len()).map(|i| {
        let [nx, ny, _] = block.dims;
        let at = [i % nx, i / nx % ny, i / (nx * ny)];
        image[Block::whole(dims).place([0, 1, 2].map(|a| block.origin[a] + at[a]))]
    });
    pixels.collect()
}

/// Images of which chunks are asked for.
struct Images<P: Pixel> {
    pair: Pair<P>,
}

impl<P: Pixel> Supply<P> for Images<P> {
    fn fixed(&self, block: &Block) -> Result<Vec<u8>> {
        Ok(part_of(&self.pair.bins, self.pair.fixed, block))
    }

    fn moving(&self, block: &Block) -> Result<Vec<P>> {
        Ok(part_of(&self.pair.pixels, self.pair.moving, block))
    }
}

/// The strategy of a rank, on a device.
fn strategy_on<D: Device, P: Pixel>(
    device: D,
    kind: StrategyKind,
    options: ListOptions,
    pair: &Pair<P>,
    ranks: &Communicator,
    rule: BlockRule,
) -> Result<Box<dyn Sharing>> {
    let plan = Plan::new(kind, [pair.fixed, pair.moving], [ranks.rank(), ranks.size()], rule)?;
    if kind == StrategyKind::Streamed {
        // Chunks of some hundred pixels.
        let memory = 3 * 900;
        let images = Images { pair: pair.clone() };
        return Ok(Box::new(Streamed::new(device, plan, Box::new(images), memory)));
    }
    let fixed = device.upload_vec(part_of(&pair.bins, pair.fixed, &plan.fixed))?;
    let moving = device.upload_vec(part_of(&pair.pixels, pair.moving, &plan.moving))?;
    let mut whole = device.host_alloc(pair.pixels.len())?;
    whole.copy_from_slice(&pair.pixels);
    let held = Held::new(device, plan, fixed, moving)?;
    Ok(match kind {
        StrategyKind::Replicated | StrategyKind::Streamed => Box::new(Replicated::new(held)),
        StrategyKind::Halo(_) => Box::new(Halo::new(held, Arc::new(whole))?),
        StrategyKind::List(_) => Box::new(List::new(held, options)),
        StrategyKind::Peer(_) => Box::new(Peer::new(ranks, held)?),
    })
}

/// The same on a device of one thread.
fn strategy<P: Pixel>(
    kind: StrategyKind,
    options: ListOptions,
    pair: &Pair<P>,
    ranks: &Communicator,
    rule: BlockRule,
) -> Result<Box<dyn Sharing>> {
    strategy_on(Cpu::new(Some(1))?, kind, options, pair, ranks, rule)
}

/// What `work` gives at each of some ranks.
fn all<R: Send>(size: usize, work: impl Fn(Communicator) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let start = |ranks| scope.spawn(|| work(ranks));
        let threads: Vec<_> = Communicator::local(size).into_iter().map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn kinds(margin: Margin) -> [StrategyKind; 5] {
    [
        StrategyKind::Replicated,
        StrategyKind::Halo(margin),
        StrategyKind::List(margin),
        StrategyKind::Peer(margin),
        StrategyKind::Streamed,
    ]
}

/// Checks all strategies of one case; the traffic of each.
fn check<P: Pixel>(
    pair: &Pair<P>,
    rule: &JointRule,
    ranks: usize,
    blocks: BlockRule,
    margin: Margin,
    options: ListOptions,
) -> [Traffic; 5] {
    let table = (rule.window == Window::Cubic).then(|| table(rule, 8));
    let expected = Reference::new(pair, rule, table.as_deref());
    kinds(margin).map(|kind| {
        let found = all(ranks, |ranks| {
            let strategy = strategy(kind, options, pair, &ranks, blocks).unwrap();
            let counts = strategy.sums(&ranks, rule, None).unwrap();
            let slopes = table.as_deref().map(|t| strategy.sums(&ranks, rule, Some(t)).unwrap());
            (counts, slopes)
        });
        for (counts, slopes) in &found {
            let whole: Vec<i128> = counts.counts().iter().map(|&n| i128::from(n)).collect();
            assert_eq!(whole, expected.counts, "{kind:?}");
            assert_eq!(counts.traffic.samples, expected.samples);
            if let Some(slopes) = slopes {
                let mut found = slopes.slopes().unwrap();
                found.elsewhere = 0;
                assert_eq!(found, expected.slopes, "{kind:?}");
            }
        }
        found[0].0.traffic
    })
}

fn check_traffic(traffic: [Traffic; 5], ranks: usize, axes: u64) {
    let [replicated, halo, list, peer, streamed] = traffic;
    assert_eq!(streamed.remote_reads + streamed.messages, 0);
    assert_eq!(replicated.remote_reads + replicated.messages + halo.messages + peer.messages, 0);
    assert_eq!(halo.remote_reads, peer.remote_reads);
    assert_eq!(list.messages, halo.remote_reads, "a message for each remote read");
    assert!(list.bytes >= (1 + 4 * axes) * list.messages);
    assert!(ranks > 1 || halo.remote_reads == 0);
}

fn some_rule<P: Pixel + TryFrom<u32>>(
    pair: &Pair<P>,
    (angle, scale, shift): (f64, f64, f64),
    cubic: bool,
) -> JointRule {
    let window = if cubic { Window::Cubic } else { Window::Plain };
    JointRule { most_at_once: 700, ..pair.rule(turned(pair, angle, scale, shift), 19, window) }
}

fn margins() -> impl Strategy<Value = Margin> {
    prop_oneof![
        (0usize..4).prop_map(Margin::Pixels),
        (0.0f64..1.0).prop_map(Margin::Fraction),
        Just(Margin::Pixels(1000)),
    ]
}

fn options() -> impl Strategy<Value = ListOptions> {
    ((1usize..30, 1usize..30, 1usize..3), 0usize..16, 1usize..4).prop_map(
        |((x, y, z), k, streams)| ListOptions {
            chunk: [x, y, z],
            layout: [MessageLayout::Arrays, MessageLayout::Structures][k % 2],
            collect: [Collect::Atomic, Collect::Compacted][k / 2 % 2],
            order: [ChunkOrder::Plain, ChunkOrder::Reflected][k / 4 % 2],
            streams,
            direct: k / 8 % 2 == 0,
        },
    )
}

fn motions() -> impl Strategy<Value = (f64, f64, f64)> {
    (0.0..std::f64::consts::TAU, 0.6f64..1.6, prop_oneof![Just(0.0), -9.0f64..9.0, Just(500.0)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn sections_have_the_counts_of_whole_images(
        fixed in (1usize..40, 1usize..40), moving in (1usize..40, 1usize..40), seed: u16, motion in motions(),
        ranks in 1usize..=6, along_x: bool, margin in margins(), options in options(), wide: bool, cubic: bool,
    ) {
        let (fixed, moving) = ([fixed.0, fixed.1, 1], [moving.0, moving.1, 1]);
        let blocks = if along_x { BlockRule::AlongX } else { BlockRule::Balanced };
        let traffic = if wide {
            let pair = Pair::<u16>::new(fixed, moving, u64::from(seed));
            check(&pair, &some_rule(&pair, motion, cubic), ranks, blocks, margin, options)
        } else {
            let pair = Pair::<u8>::new(fixed, moving, u64::from(seed));
            check(&pair, &some_rule(&pair, motion, cubic), ranks, blocks, margin, options)
        };
        check_traffic(traffic, ranks, 2);
    }

    #[test]
    fn volumes_have_the_counts_of_whole_images(
        fixed in (1usize..14, 1usize..14, 1usize..9), moving in (1usize..14, 1usize..14, 2usize..9), seed: u16,
        motion in motions(), ranks in 1usize..=6, along_x: bool, margin in margins(), options in options(), wide: bool,
        cubic: bool,
    ) {
        let (fixed, moving) = ([fixed.0, fixed.1, fixed.2], [moving.0, moving.1, moving.2]);
        let blocks = if along_x { BlockRule::AlongX } else { BlockRule::Balanced };
        let traffic = if wide {
            let pair = Pair::<u16>::new(fixed, moving, u64::from(seed));
            check(&pair, &some_rule(&pair, motion, cubic), ranks, blocks, margin, options)
        } else {
            let pair = Pair::<u8>::new(fixed, moving, u64::from(seed));
            check(&pair, &some_rule(&pair, motion, cubic), ranks, blocks, margin, options)
        };
        check_traffic(traffic, ranks, 3);
    }
}

/// Equal images with a circular mask of 0.9 of the half axis, turned about the centre: what is read from elsewhere is zero at rest, and all of the half
/// that another rank has at 180 degrees.
#[test]
fn remote_reads_grow_with_the_angle() {
    let n = 60;
    let mut pair = Pair::<u8>::new([n, n, 1], [n, n, 1], 4);
    for (i, bin) in pair.bins.iter_mut().enumerate() {
        let off = |v: usize| v as f64 - (n as f64 - 1.0) / 2.0;
        let inside = off(i % n).hypot(off(i / n)) <= 0.45 * n as f64;
        *bin = if inside { (i % pair.count) as u8 } else { 255 };
    }
    for ranks in [2, 4] {
        let mut shares = Vec::new();
        for degrees in (0..=180).step_by(30) {
            let rule = some_rule(&pair, (f64::from(degrees).to_radians(), 1.0, 0.0), false);
            let margin = Margin::Pixels(0);
            let traffic =
                check(&pair, &rule, ranks, BlockRule::Balanced, margin, ListOptions::default());
            check_traffic(traffic, ranks, 2);
            shares.push(traffic[1].remote_reads as f64 / traffic[1].samples as f64);
            // β = min(α N / 2π, 1) (section 5); the halo of a pixel and the border of blocks take a little away.
            let formula = (f64::from(degrees) / 360.0 * ranks as f64).min(1.0);
            let off = shares[shares.len() - 1] - formula;
            assert!(off.abs() < 0.05, "{ranks} ranks, {degrees} degrees: {off}");
        }
        assert!(shares[0] == 0.0);
    }
}

/// Samples without a mask, beyond the image, and of ranks without blocks.
#[test]
fn nothing_is_nothing() {
    let mut pair = Pair::<u8>::new([3, 2, 1], [2, 3, 1], 1);
    let away = some_rule(&pair, (0.0, 1.0, 900.0), true);
    let traffic =
        check(&pair, &away, 6, BlockRule::AlongX, Margin::Pixels(0), ListOptions::default());
    assert!(traffic.iter().all(|t| *t == Traffic::default()));
    pair.bins.fill(255);
    let rule = some_rule(&pair, (0.0, 1.0, 0.0), true);
    let traffic =
        check(&pair, &rule, 5, BlockRule::AlongX, Margin::Pixels(0), ListOptions::default());
    assert!(traffic.iter().all(|t| *t == Traffic::default()));
}

/// What fails at one rank, fails at all, and nobody waits.
#[test]
fn a_failure_is_that_of_all() {
    let pair = Pair::<u8>::new([20, 20, 1], [20, 20, 1], 1);
    let rule = some_rule(&pair, (1.0, 1.0, 0.0), true);
    for kind in kinds(Margin::Pixels(0)) {
        let found = all(3, |ranks| {
            let options = ListOptions { chunk: [4, 4, 1], ..ListOptions::default() };
            let strategy = strategy(kind, options, &pair, &ranks, BlockRule::Balanced).unwrap();
            // One of them has a number that is refused.
            let mut table = table(&rule, 2);
            table[5] = if ranks.rank() == 1 { i32::MAX } else { 0 };
            strategy.sums(&ranks, &rule, Some(&table))
        });
        for (rank, found) in found.into_iter().enumerate() {
            match (rank, found) {
                (1, Err(CommError::Device(_))) | (0 | 2, Err(CommError::Peer { rank: 1, .. })) => {}
                (rank, found) => panic!("{kind:?}: rank {rank} has {found:?}"),
            }
        }
    }
    let identity = FixedPointMap::new(&voxalign_compute::IDENTITY).unwrap();
    assert!(rule.under(identity).map == identity);
}

/// All strategies on the GPU that the environment names, or with its kernels emulated.
#[test]
#[allow(clippy::print_stderr)] // a test that is skipped says so
fn gpus_have_the_counts_of_whole_images() {
    let open = |_| match std::env::var("VOXALIGN_TEST_DEVICE") {
        Ok(name) if name == "cuda" => Cuda::new(0),
        _ => Cuda::emulated(),
    };
    // Emulated, each rank has a device of its own.
    let devices = match (0..3).map(open).collect::<voxalign_compute::Result<Vec<_>>>() {
        Ok(devices) => devices,
        Err(e) if std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none() => {
            return eprintln!("skipped: {e}");
        }
        Err(e) => panic!("the kernels of the GPU cannot be tested: {e}"),
    };
    let pair = Pair::<u8>::new([45, 33, 1], [40, 39, 1], 9);
    for (k, angle) in [0.0, 1.2, 3.0].into_iter().enumerate() {
        let rule = some_rule(&pair, (angle, 1.0, 0.5), true);
        let table = table(&rule, 8);
        let expected = Reference::new(&pair, &rule, Some(&table));
        let options = ListOptions {
            chunk: [8, 6, 1],
            layout: [MessageLayout::Arrays, MessageLayout::Structures][k % 2],
            collect: [Collect::Atomic, Collect::Compacted][k % 2],
            direct: k != 2,
            ..ListOptions::default()
        };
        for kind in kinds(Margin::Pixels(2)) {
            let blocks = BlockRule::Balanced;
            let found = all(3, |ranks| {
                let device = devices[ranks.rank()].clone();
                let strategy = strategy_on(device, kind, options, &pair, &ranks, blocks).unwrap();
                let counts = strategy.sums(&ranks, &rule, None).unwrap();
                (counts, strategy.sums(&ranks, &rule, Some(&table)).unwrap().slopes().unwrap())
            });
            for (counts, mut slopes) in found {
                slopes.elsewhere = 0;
                let whole: Vec<i128> = counts.counts().iter().map(|&n| i128::from(n)).collect();
                assert!(whole == expected.counts && slopes == expected.slopes, "{kind:?} {angle}");
            }
        }
    }
}

/// A rank has its block of both images, the halo, room for messages, and counts: no more at any time.
#[test]
#[allow(clippy::print_stderr)] // a test that is skipped says so
fn a_rank_takes_its_blocks_halos_and_buffers() {
    let devices =
        match (0..9).map(|_| Cuda::emulated()).collect::<voxalign_compute::Result<Vec<_>>>() {
            Ok(devices) => devices,
            Err(e) if std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_none() => {
                return eprintln!("skipped: {e}");
            }
            Err(e) => panic!("the kernels of the GPU cannot be tested: {e}"),
        };
    let pair = Pair::<u16>::new([150, 120, 1], [140, 130, 1], 5);
    let rule = some_rule(&pair, (0.7, 1.0, 0.5), true);
    let table = table(&rule, 8);
    let options = ListOptions { chunk: [16, 16, 1], streams: 2, ..ListOptions::default() };
    let mut devices = devices.into_iter();
    for kind in [
        StrategyKind::Halo(Margin::Pixels(3)),
        StrategyKind::List(Margin::Pixels(0)),
        StrategyKind::Streamed,
    ] {
        let devices: Vec<_> = devices.by_ref().take(3).collect();
        let blocks = BlockRule::Balanced;
        let found = all(3, |ranks| {
            let device = &devices[ranks.rank()];
            let strategy =
                strategy_on(device.clone(), kind, options, &pair, &ranks, blocks).unwrap();
            strategy.sums(&ranks, &rule, None).unwrap();
            strategy.sums(&ranks, &rule, Some(&table)).unwrap();
            device.pool().peak
        });
        for (rank, peak) in found.into_iter().enumerate() {
            let plan = Plan::new(kind, [pair.fixed, pair.moving], [rank, 3], blocks).unwrap();
            let images = (plan.fixed.len() + 2 * plan.moving.len()) as u64;
            let messages = match kind {
                StrategyKind::List(_) => options.memory(&plan),
                // What `strategy_on` gives it, or the smallest chunk with what it meets.
                StrategyKind::Streamed => 2 * 4 * 1024,
                _ => 0,
            };
            let images = if kind == StrategyKind::Streamed { 0 } else { images };
            let numbers = rule.numbers(false).max(rule.numbers(true)) as u64;
            let counts = 8 * numbers * options.streams as u64 + 4 * table.len() as u64;
            let most = images + messages + counts;
            assert!(peak <= most, "{kind:?}, rank {rank}: {peak} bytes of {most}");
            assert!(peak >= images, "{kind:?}, rank {rank}: {peak} bytes are not counted");
        }
    }
}
