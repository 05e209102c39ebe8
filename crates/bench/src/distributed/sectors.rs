//! Memory transactions of the kernels that count, from how they share pixels among their threads.
//!
//! A warp has 32 threads, each with its pixels; in every step they read the four corners of the cell of one sample each, by four loads. A load touches as
//! many sectors of 32 bytes of the moving image as the addresses of its threads lie in, and so many transactions it is counted as: caches, which spare
//! some of them, are not looked at.

use super::scene::Scene;
use voxalign_compute::ops::joint::{Block, JointRule, Walk};
use voxalign_register::search::distributed::{Plan, StrategyKind};

/// Tiles of which single warps are looked at.
const TILES: usize = 1 << 10;
/// Bytes of a sector.
const SECTOR: u64 = 32;

/// Moving pixels in one place, and the cells that are read there.
struct Source {
    stored: Block,
    cells: Block,
    remote: bool,
}

impl Source {
    /// A block that is read for all cells whose pixels it has.
    fn new(stored: Block, remote: bool) -> Self {
        let dims = stored.dims.map(|n| n.saturating_sub(1));
        Self { stored, cells: Block { dims: [dims[0], dims[1], 1], ..stored }, remote }
    }
}

/// Where the kernel of a strategy looks for moving pixels, in its order; those that others count for are nowhere.
fn sources(plan: &Plan) -> Vec<Source> {
    let whole = Block::whole(plan.moving_blocks.dims());
    let mut sources = vec![Source::new(plan.moving, false)];
    match plan.kind() {
        StrategyKind::Replicated | StrategyKind::List(_) => {}
        // As if all chunks were one.
        StrategyKind::Streamed => sources = vec![Source::new(whole, false)],
        StrategyKind::Halo(_) => sources.push(Source::new(whole, true)),
        StrategyKind::Peer(_) => {
            let others = (0..plan.moving_blocks.ranks()).filter(|&r| r != plan.rank);
            sources.extend(others.map(|rank| {
                let source = Source::new(plan.moving_of(rank), true);
                let cells = source.cells.common(&plan.moving_blocks.cells(rank));
                Source { cells, ..source }
            }));
        }
    }
    sources
}

/// The transactions of a rank, all and those of memory elsewhere than on its device.
///
/// Of many warps those at regular distances are looked at, so that their steps are about `most`; the sums are then those of all.
pub(super) fn transactions(
    scene: &Scene,
    plan: &Plan,
    rule: &JointRule,
    bytes: u64,
    most: usize,
) -> [i64; 2] {
    let walk = rule.pixels_per_thread.walk(&rule.map);
    let (tile, [steps_x, steps_y]) = (walk.tile(Walk::WARPS), walk.sides);
    let [width, height, _] = plan.fixed.dims;
    let tiles = [width.div_ceil(tile[0]), height.div_ceil(tile[1])];
    let all = (tiles[0] * tiles[1]).max(1);
    let each = (most / (steps_x * steps_y)).max(1);
    let warps = (each / TILES).max(each.div_ceil(all)).min(Walk::WARPS);
    let fewer = (all as f64 / (each / warps).max(1) as f64).max(1.0);
    // As far apart along x as along y, in pixels.
    let apart = (fewer * (tile[0] * tile[1]) as f64).sqrt();
    let across = ((apart / tile[0] as f64) as usize).clamp(1, tiles[0].max(1));
    let down = (fewer / across as f64).ceil() as usize;
    let (sources, mut touched) = (sources(plan), Vec::new());
    let (mut sums, mut looked) = ([0u64; 2], 0usize);
    for ty in (down.min(tiles[1]) / 2..tiles[1]).step_by(down) {
        for tx in (across / 2..tiles[0]).step_by(across) {
            for k in 0..warps {
                // Another one in each tile.
                let warp = (k * Walk::WARPS / warps + looked / warps) % Walk::WARPS;
                for step in 0..steps_x * steps_y {
                    let step = [step % steps_x, step / steps_x];
                    let lanes = (0..Walk::LANES).filter_map(|lane| {
                        let [x, y] = walk.pixel(Walk::WARPS, warp, lane, step);
                        let [x, y] = [tx * tile[0] + x, ty * tile[1] + y];
                        (x < width && y < height)
                            .then(|| [plan.fixed.origin[0] + x, plan.fixed.origin[1] + y])
                    });
                    let lanes = lanes.filter(|&[x, y]| scene.inside(y).contains(&x));
                    let found = load(rule, &sources, bytes, lanes, &mut touched);
                    sums = [sums[0] + found[0], sums[1] + found[1]];
                }
            }
            looked += warps;
        }
    }
    let all = (all * Walk::WARPS) as f64;
    sums.map(|n| (n as f64 * all / looked.max(1) as f64).round() as i64)
}

/// The sectors that the four loads of one step touch: by source, corner and number.
fn load(
    rule: &JointRule,
    sources: &[Source],
    bytes: u64,
    lanes: impl Iterator<Item = [usize; 2]>,
    touched: &mut Vec<(usize, u8, u64)>,
) -> [u64; 2] {
    touched.clear();
    let mut last = (usize::MAX, [u64::MAX; 4]);
    for [x, y] in lanes {
        let q = rule.map.coordinate([x, y, 0]);
        let cell = [0, 1].map(|a| ((q[a] >> 8) as usize).min(rule.moving[a] - 2));
        let at = [cell[0], cell[1], 0];
        let Some(k) = sources.iter().position(|s| s.cells.contains(at)) else { continue };
        let first = sources[k].stored.place(at) as u64;
        let row = sources[k].stored.dims[0] as u64;
        let sectors = [0, 1, row, row + 1].map(|corner| (first + corner) * bytes / SECTOR);
        // Most neighbours share them.
        if last != (k, sectors) {
            touched.extend((0..).zip(sectors).map(|(corner, sector)| (k, corner, sector)));
            last = (k, sectors);
        }
    }
    touched.sort_unstable();
    touched.dedup();
    let remote = touched.iter().filter(|(k, ..)| sources[*k].remote).count();
    [touched.len() as u64, remote as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use voxalign_compute::ops::joint::{BlockRule, Halo, PixelsPerThread, Window};

    const SCENE: Scene = Scene { size: [300, 290], bins: 16 };

    fn plan(kind: StrategyKind, rank: usize, ranks: usize) -> Plan {
        let dims = SCENE.dims();
        Plan::new(kind, [dims; 2], [rank, ranks], BlockRule::Balanced).unwrap()
    }

    /// Sets of sectors, one load after the other, of the whole image in one place.
    fn by_sets(rule: &JointRule, bytes: u64) -> i64 {
        let [width, height] = SCENE.size;
        let pixels = rule.pixels_per_thread.under(&rule.map);
        let [side_x, side_y] = pixels.sides();
        let mut loads = std::collections::BTreeMap::new();
        for y in 0..height {
            for x in SCENE.inside(y) {
                // Each warp by its place, and the step.
                let (warp, step) = match pixels {
                    PixelsPerThread::Tile => (
                        [x / 128 * 4 + x % 32 / 8, y / 64 * 4 + y % 16 / 4],
                        [x % 128 / 32, y % 64 / 16],
                    ),
                    PixelsPerThread::TallTile => (
                        [x / 64 * 4 + x % 16 / 4, y / 128 * 4 + y % 32 / 8],
                        [x % 64 / 16, y % 128 / 32],
                    ),
                    PixelsPerThread::Column => ([x / 4, y / 128], [x % 4, y % 4]),
                    _ => ([x / side_x / 32, y / side_y], [x % side_x, y % side_y]),
                };
                let q = rule.map.coordinate([x, y, 0]);
                let cell = [0, 1].map(|a| ((q[a] >> 8) as usize).min(rule.moving[a] - 2));
                for corner in 0..4 {
                    let at = cell[0] + corner % 2 + width * (cell[1] + corner / 2);
                    let key = (warp, step, corner);
                    let set: &mut BTreeSet<u64> = loads.entry(key).or_default();
                    set.insert(at as u64 * bytes / SECTOR);
                }
            }
        }
        loads.values().map(|set| set.len() as i64).sum()
    }

    #[test]
    fn sectors_are_those_of_sets() {
        let plan = plan(StrategyKind::Replicated, 0, 1);
        for sides in PixelsPerThread::ALL {
            for degrees in [0.0, 12.0, 45.0, 90.0, 133.0, 180.0] {
                let rule = SCENE.rule::<u8>(degrees, Window::Plain, sides).unwrap();
                for bytes in [1, 2] {
                    let found = transactions(&SCENE, &plan, &rule, bytes, usize::MAX);
                    assert_eq!(found, [by_sets(&rule, bytes), 0], "{sides:?} {degrees}");
                }
            }
        }
    }

    #[test]
    fn transactions_are_most_at_a_quarter_turn() {
        let plan = plan(StrategyKind::Replicated, 0, 1);
        let at = |degrees: f64| {
            let rule = SCENE.rule::<u8>(degrees, Window::Plain, PixelsPerThread::One).unwrap();
            transactions(&SCENE, &plan, &rule, 1, usize::MAX)[0]
        };
        let all: Vec<i64> = (0..=60).map(|k| at(3.0 * f64::from(k))).collect();
        let peak = (0..all.len()).max_by_key(|&k| all[k]).unwrap();
        assert!((29..=31).contains(&peak), "{peak} {all:?}");
        assert!(all[30] > 8 * all[0] && all[30] > 8 * all[60], "{all:?}");
    }

    #[test]
    fn sources_share_the_samples_and_a_part_of_the_warps_tells_of_all() {
        for kind in [StrategyKind::Halo(Halo::default()), StrategyKind::Peer(Halo::default())] {
            let rule = SCENE.rule::<u8>(180.0, Window::Plain, PixelsPerThread::One).unwrap();
            for rank in 0..2 {
                let [all, remote] =
                    transactions(&SCENE, &plan(kind, rank, 2), &rule, 1, usize::MAX);
                // The halo has one sample of each row, which four loads read.
                let rows = (0..SCENE.size[1]).filter(|&y| !SCENE.inside(y).is_empty()).count();
                assert!(remote > all / 2, "{all} {remote}");
                assert!((0..=4 * rows as i64).contains(&(all - remote)), "{all} {remote}");
                let rule = SCENE.rule::<u8>(70.0, Window::Plain, PixelsPerThread::One).unwrap();
                let [all, _] = transactions(&SCENE, &plan(kind, rank, 2), &rule, 1, usize::MAX);
                let [some, _] = transactions(&SCENE, &plan(kind, rank, 2), &rule, 1, 600);
                assert!((some as f64 / all as f64 - 1.0).abs() < 0.1, "{all} {some}");
            }
        }
        let rule = SCENE.rule::<u8>(180.0, Window::Plain, PixelsPerThread::One).unwrap();
        let list = plan(StrategyKind::List(Halo::default()), 0, 2);
        let [all, remote] = transactions(&SCENE, &list, &rule, 1, usize::MAX);
        assert!(remote == 0 && all < 2000, "others count: {all}");
    }
}
