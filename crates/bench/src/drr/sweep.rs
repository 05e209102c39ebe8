//! Times over the number of pixels, the rules and the threads per block.

use super::plan::{Count, Plan};
use super::scene::{Camera, Poses};
use super::{Bench, Sheet, Times};
use serde::Serialize;
use voxalign_compute::bench::rays::{Blocks, Manner, Rules, Shot, usual};
use voxalign_compute::ops::raycast::Filtering;
use voxalign_compute::select::AnyRayVolume;
use voxalign_jobs::{Result, check};

/// The rules that are kept, by what their absence is called.
const KEPT: [(&str, Rules); 6] = [
    ("all rules", Rules::ALL),
    ("not 1", Rules { select: false, ..Rules::ALL }),
    ("not 2", Rules { texture: false, ..Rules::ALL }),
    ("not 3", Rules { fast: false, ..Rules::ALL }),
    ("not 4", Rules { inverse: false, ..Rules::ALL }),
    ("not 3, 4", Rules { fast: false, inverse: false, ..Rules::ALL }),
];
/// Those of figures 2.6 to 2.13.
const OF_BLOCKS: [usize; 2] = [0, 5];

/// One measurement.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Point {
    pub(super) volume: &'static str,
    pub(super) pixels: usize,
    /// Whether these are all of the region.
    pub(super) all: bool,
    /// The rules that the kernel keeps.
    pub(super) rules: &'static str,
    /// Whether rays are in blocks as operators do it, or one a thread in blocks in a row.
    pub(super) usual: bool,
    /// Threads of a block, and of a ray; none on the CPU.
    pub(super) block: Option<usize>,
    pub(super) share: Option<usize>,
    #[serde(flatten)]
    pub(super) times: Times,
}

impl Point {
    fn new(volume: &'static str, pixels: usize, all: bool) -> Self {
        let (rules, times) = (KEPT[0].0, Times::default());
        Self { volume, pixels, all, rules, usual: false, block: None, share: None, times }
    }

    /// A description of the number of pixels.
    pub(super) fn name(&self) -> String {
        if self.all { format!("{} (all)", self.pixels) } else { self.pixels.to_string() }
    }
}

/// The variables of a sweep: the rules, the threads per block, or both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Over {
    pub(super) rules: bool,
    pub(super) blocks: bool,
}

impl Over {
    /// The numbers of pixels.
    fn counts(self, plan: &Plan) -> Vec<Count> {
        let wanted = [(self.rules, &plan.rules), (self.blocks, &plan.blocks)];
        let all = wanted.into_iter().filter(|w| w.0).flat_map(|w| w.1);
        let mut counts: Vec<Count> = all.copied().collect();
        counts.sort_by_key(|&count| (count == Count::All, plan.pixels(count)));
        counts.dedup();
        counts
    }

    /// The kernels for a number of pixels.
    fn kernels(self, plan: &Plan, count: Count) -> Vec<(&'static str, Rules)> {
        let rules = self.rules && plan.rules.contains(&count);
        let blocks = self.blocks && plan.blocks.contains(&count);
        let is_wanted = |i: &usize| rules || blocks && OF_BLOCKS.contains(i);
        (0..KEPT.len()).filter(is_wanted).map(|i| KEPT[i]).collect()
    }
}

/// Measures every volume.
pub(super) fn measure(bench: &Bench<'_>, over: Over) -> Result<Vec<Point>> {
    let (plan, camera) = (bench.plan, Camera::region(bench.plan)?);
    let mut points = Vec::new();
    for sizes in &plan.volumes {
        check(bench.host)?;
        let scene = sizes.scene(plan.coarser)?;
        let volume = scene.on(bench.device)?;
        for count in over.counts(plan) {
            let n = plan.pixels(count);
            let mut poses = Poses::new(n as u64);
            let mut shot = || {
                let view = camera.view(&scene.grid, &poses.draw())?;
                Ok((view, camera.drawn(n, poses.seed())))
            };
            let shots = (0..plan.repeat).map(|_| shot()).collect::<Result<Vec<_>>>()?;
            let base = Point::new(sizes.name(), n, count == Count::All);
            let kernels = if bench.is_gpu() { over.kernels(plan, count) } else { Vec::new() };
            for (name, rules) in kernels {
                for &threads in &plan.threads {
                    let blocks = Blocks::Of(threads);
                    let usual = Manner::usual(camera.step, Filtering::Texture);
                    let manner = Manner { rules, blocks, ..usual };
                    let times = bench.times(&volume, &manner, &shots)?;
                    let (block, share) = (Some(threads), Some(1));
                    points.push(Point { rules: name, block, share, times, ..base });
                }
            }
            points.push(as_usual(bench, (&camera, &volume), shots, base)?);
        }
    }
    Ok(points)
}

/// As operators do it: those of the whole region in blocks of two dimensions.
fn as_usual(
    bench: &Bench<'_>,
    (camera, volume): (&Camera, &AnyRayVolume),
    mut shots: Vec<Shot>,
    base: Point,
) -> Result<Point> {
    if base.all {
        shots.iter_mut().for_each(|(_, pixels)| *pixels = camera.all());
    }
    let manner = Manner::usual(camera.step, Filtering::Texture);
    let times = bench.times(volume, &manner, &shots)?;
    let shape = shots.first().and_then(|(_, pixels)| usual(bench.device, pixels));
    let (block, share) = (shape.map(|s| s[0]), shape.map(|s| s[1]));
    Ok(Point { usual: true, block, share, times, ..base })
}

/// The points of a number of pixels of a volume.
fn groups(points: &[Point]) -> impl Iterator<Item = &[Point]> {
    points.chunk_by(|a, b| (a.volume, a.pixels, a.all) == (b.volume, b.pixels, b.all))
}

/// The fastest of a kernel in blocks in a row.
fn best<'p>(points: &'p [Point], rules: &str) -> Option<&'p Point> {
    let of_kernel = points.iter().filter(|p| p.rules == rules && !p.usual);
    of_kernel.min_by(|a, b| a.times.mean.total_cmp(&b.times.mean))
}

/// The points of a volume.
fn of_volume(points: &[Point], volume: &str) -> Vec<Point> {
    points.iter().filter(|p| p.volume == volume).copied().collect()
}

/// All tables of a volume.
pub(super) fn sheets(points: &[Point], volume: &str) -> Vec<Sheet> {
    let points = &of_volume(points, volume)[..];
    if points.iter().all(|p| p.usual) {
        return vec![plain(points, volume)];
    }
    let mut sheets: Vec<Sheet> = rules(points, volume).into_iter().collect();
    sheets.extend(OF_BLOCKS.iter().filter_map(|&i| over_threads(points, volume, KEPT[i].0)));
    sheets.push(best_blocks(points, volume));
    sheets
}

/// Without blocks: times over the number of pixels.
fn plain(points: &[Point], volume: &str) -> Sheet {
    let mut sheet = Sheet::new(
        format!("Time per image over its pixels, {volume} volume"),
        ["pixels", "mean us", "median us", "ns per pixel"],
    );
    for p in points {
        let each = format!("{:.1}", p.times.mean * 1e3 / p.pixels as f64);
        sheet.row([p.name(), us(p.times.mean), us(p.times.median), each]);
    }
    sheet
}

/// Table 2.3, and how much slower the best is without a rule.
fn rules(points: &[Point], volume: &str) -> Option<Sheet> {
    let headings = ["pixels".to_owned()].into_iter().chain(KEPT.map(|k| k.0.to_owned()));
    let mut sheet = Sheet::new(
        format!(
            "Kernel time over the rules, us (threads of the best blocks), {volume} volume (table 2.3)"
        ),
        headings,
    );
    for group in groups(points).filter(|g| best(g, KEPT[1].0).is_some()) {
        let all = best(group, KEPT[0].0)?;
        let cell = |(i, (name, _)): (usize, (&str, Rules))| {
            let Some(p) = best(group, name) else { return "-".to_owned() };
            let (time, threads) = (us(p.times.mean), p.block.unwrap_or(0));
            let more = (p.times.mean / all.times.mean - 1.0) * 100.0;
            if i == 0 {
                format!("{time} ({threads})")
            } else {
                format!("{time} ({threads}) {more:+.0} %")
            }
        };
        let cells = KEPT.into_iter().enumerate().map(cell);
        sheet.row([group[0].name()].into_iter().chain(cells));
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}

/// Figures 2.6 to 2.14 and C.1 to C.4 as a table.
fn over_threads(points: &[Point], volume: &str, rules: &str) -> Option<Sheet> {
    let of_kernel = |p: &&Point| p.rules == rules && !p.usual;
    let mut threads: Vec<usize> = points.iter().filter(of_kernel).filter_map(|p| p.block).collect();
    threads.sort_unstable();
    threads.dedup();
    let headings = ["pixels".to_owned()].into_iter().chain(threads.iter().map(usize::to_string));
    let mut sheet = Sheet::new(
        format!(
            "Kernel time over the threads per block, us, {rules}, {volume} volume (figures 2.6 to 2.14, C.1 to C.4)"
        ),
        headings,
    );
    for group in groups(points).filter(|g| best(g, rules).is_some()) {
        let cell = |&threads: &usize| {
            let found = group.iter().filter(of_kernel).find(|p| p.block == Some(threads));
            found.map_or_else(|| "-".to_owned(), |p| us(p.times.mean))
        };
        sheet.row([group[0].name()].into_iter().chain(threads.iter().map(cell)));
    }
    (!sheet.rows.is_empty()).then_some(sheet)
}

/// Table 2.4, and the default blocks compared with the best ones with one ray per thread.
fn best_blocks(points: &[Point], volume: &str) -> Sheet {
    let mut sheet = Sheet::new(
        format!(
            "Best blocks with one ray per thread (table 2.4), and default ones, {volume} volume"
        ),
        [
            "pixels",
            "threads",
            "mean us",
            "median us",
            "vs. 256",
            "default threads",
            "per ray",
            "mean us",
            "median us",
            "vs. the best",
        ],
    );
    for group in groups(points) {
        let (Some(best), Some(usual)) = (best(group, KEPT[0].0), group.iter().find(|p| p.usual))
        else {
            continue;
        };
        let naive =
            group.iter().find(|p| p.rules == best.rules && !p.usual && p.block == Some(256));
        let times = |a: f64, b: f64| format!("{:.2}", a / b);
        let number = |n: Option<usize>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        sheet.row([
            group[0].name(),
            number(best.block),
            us(best.times.mean),
            us(best.times.median),
            naive.map_or_else(|| "-".to_owned(), |n| times(n.times.mean, best.times.mean)),
            number(usual.block),
            number(usual.share),
            us(usual.times.mean),
            us(usual.times.median),
            times(best.times.mean, usual.times.mean),
        ]);
    }
    sheet
}

/// A time in microseconds.
pub(super) fn us(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
