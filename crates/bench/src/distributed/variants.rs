//! What is compared: strategies, each with its options.

use clap::ValueEnum;
use std::str::FromStr;
use voxalign_compute::ops::joint::{Collect, Halo, MessageLayout, PixelsPerThread, Window};
use voxalign_register::search::distributed::{ChunkOrder, ListOptions, StrategyKind};

/// A way to reach the moving pixels of other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Strategy {
    /// The whole moving image on every device: the baseline
    Replicate,
    /// The own block with a halo on the device, the rest read from host memory
    Halo,
    /// The own block; samples of others' pixels are sent to their rank, which counts them
    List,
    /// The own block; others' pixels are read from the devices that have them
    Peer,
    /// Nothing: chunks of both images pass through the device, made as they are asked for
    Stream,
}

impl Strategy {
    /// Those that keep images.
    pub(super) const USUAL: [Self; 4] = [Self::Replicate, Self::Halo, Self::List, Self::Peer];
}

/// How many variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Extent {
    /// All of them
    All,
    /// One of each strategy, and every halo
    Usual,
}

/// Pixels of a thread of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side(pub(super) PixelsPerThread);

impl FromStr for Side {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |p: &PixelsPerThread| p.name() == text;
        let found = PixelsPerThread::ALL.into_iter().find(named).map(Side);
        let all = PixelsPerThread::ALL.map(PixelsPerThread::name).join(", ");
        found.ok_or_else(|| format!("use one of {all}"))
    }
}

/// The window over bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WindowName {
    /// A sample counts as 1 in its bin
    Plain,
    /// A sample counts by the four weights of a cubic spline
    Cubic,
}

impl WindowName {
    pub(super) fn window(self) -> Window {
        match self {
            Self::Plain => Window::Plain,
            Self::Cubic => Window::Cubic,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Cubic => "cubic",
        }
    }
}

/// A strategy with its options.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) strategy: Strategy,
    /// What distinguishes it, in words.
    pub(super) name: String,
    pub(super) pixels_per_thread: PixelsPerThread,
    pub(super) window: WindowName,
    pub(super) list: ListOptions,
    /// Whether it is the one of its strategy, window and halo that stands for it.
    pub(super) usual: bool,
}

/// Variants of which ranks have the same in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    pub(super) kind: StrategyKind,
    pub(super) variants: Vec<Variant>,
}

impl Group {
    /// The strategy.
    pub(super) fn strategy(&self) -> Strategy {
        match self.kind {
            StrategyKind::Replicated => Strategy::Replicate,
            StrategyKind::Streamed => Strategy::Stream,
            StrategyKind::Halo(_) => Strategy::Halo,
            StrategyKind::List(_) => Strategy::List,
            StrategyKind::Peer(_) => Strategy::Peer,
        }
    }

    /// What ranks have in memory, in words.
    pub(super) fn name(&self) -> String {
        match self.kind {
            StrategyKind::Halo(Halo::Fraction(part)) => format!("halo {:.0} %", 100.0 * part),
            StrategyKind::Halo(Halo::Pixels(_)) => "halo 1 pixel".into(),
            _ => words(self.strategy()).into(),
        }
    }
}

pub(super) fn words(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Replicate => "replicate",
        Strategy::Halo => "halo",
        Strategy::List => "list",
        Strategy::Peer => "peer",
        Strategy::Stream => "stream",
    }
}

/// What is asked for; the first of each list is the usual one.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) strategies: Vec<Strategy>,
    pub(super) extent: Extent,
    /// Halos, as fractions of the block; 0 is the one pixel that interpolation needs.
    pub(super) halos: Vec<f64>,
    pub(super) chunks: Vec<usize>,
    pub(super) streams: Vec<usize>,
    pub(super) pixels_per_thread: Vec<PixelsPerThread>,
    pub(super) windows: Vec<WindowName>,
}

impl Wanted {
    /// The usual list.
    fn list(&self) -> ListOptions {
        let first = |values: &[usize], usual| values.first().copied().unwrap_or(usual);
        let usual = ListOptions::default();
        let chunk = first(&self.chunks, usual.chunk[0]);
        ListOptions {
            chunk: [chunk, chunk, 1],
            streams: first(&self.streams, usual.streams),
            ..usual
        }
    }

    /// All lists that differ from the usual one, in one thing each but for the layouts of compacted messages, with words for it.
    fn lists(&self) -> Vec<(String, ListOptions)> {
        let usual = self.list();
        let structures = MessageLayout::Structures;
        let mut all = vec![
            ("array of structures".to_owned(), ListOptions { layout: structures, ..usual }),
            ("compacted".into(), ListOptions { collect: Collect::Compacted, ..usual }),
            (
                "compacted, array of structures".into(),
                ListOptions { collect: Collect::Compacted, layout: structures, ..usual },
            ),
            ("through the host".into(), ListOptions { direct: false, ..usual }),
            ("plain order".into(), ListOptions { order: ChunkOrder::Plain, ..usual }),
        ];
        for &streams in self.streams.iter().skip(1) {
            all.push((format!("streams: {streams}"), ListOptions { streams, ..usual }));
        }
        for &chunk in self.chunks.iter().skip(1) {
            let options = ListOptions { chunk: [chunk, chunk, 1], ..usual };
            all.push((format!("chunks of {chunk}x{chunk}"), options));
        }
        all
    }

    /// What is measured with some ranks; one rank has nothing to fetch from others: the baseline, and what is streamed.
    pub(super) fn groups(&self, ranks: usize) -> Vec<Group> {
        let kinds = self.strategies.iter().flat_map(|strategy| match strategy {
            Strategy::Replicate => vec![StrategyKind::Replicated],
            Strategy::Stream => vec![StrategyKind::Streamed],
            _ if ranks == 1 => Vec::new(),
            Strategy::Halo => self.halos.iter().map(|&h| StrategyKind::Halo(margin(h))).collect(),
            Strategy::List => vec![StrategyKind::List(Halo::default())],
            Strategy::Peer => vec![StrategyKind::Peer(Halo::default())],
        });
        kinds.map(|kind| self.group(kind)).collect()
    }

    fn group(&self, kind: StrategyKind) -> Group {
        let mut group = Group { kind, variants: Vec::new() };
        let is_first_halo = match kind {
            StrategyKind::Halo(halo) => self.halos.first().is_some_and(|&h| margin(h) == halo),
            _ => true,
        };
        let all = self.extent == Extent::All;
        for &window in &self.windows {
            let about = match window {
                WindowName::Plain => "",
                WindowName::Cubic => ", cubic window",
            };
            let sides = if is_first_halo { self.pixels_per_thread.len() } else { 1 };
            for (k, &pixels) in self.pixels_per_thread.iter().enumerate().take(sides) {
                let mut name = group.name() + about;
                if k > 0 {
                    name += &format!(", {} per thread", pixels.name());
                }
                group.variants.push(Variant {
                    strategy: group.strategy(),
                    name,
                    pixels_per_thread: pixels,
                    window,
                    list: self.list(),
                    usual: k == 0,
                });
            }
            if !(all && matches!(kind, StrategyKind::List(_))) {
                continue;
            }
            for (differs, list) in self.lists() {
                group.variants.push(Variant {
                    strategy: Strategy::List,
                    name: format!("list{about}, {differs}"),
                    pixels_per_thread: self.pixels_per_thread[0],
                    window,
                    list,
                    usual: false,
                });
            }
        }
        group
    }
}

/// The halo of a fraction.
fn margin(fraction: f64) -> Halo {
    if fraction > 0.0 { Halo::Fraction(fraction) } else { Halo::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_one_rank_has_the_baseline_alone() {
        let wanted = Wanted {
            strategies: Strategy::value_variants().to_vec(),
            extent: Extent::All,
            halos: vec![0.0, 0.1, 0.5],
            chunks: vec![64, 32],
            streams: vec![4, 1],
            pixels_per_thread: PixelsPerThread::ALL.to_vec(),
            windows: vec![WindowName::Plain, WindowName::Cubic],
        };
        let groups = wanted.groups(2);
        assert_eq!(groups.len(), 1 + 3 + 1 + 1 + 1);
        let variants: Vec<_> = groups.iter().flat_map(|g| &g.variants).collect();
        let names: BTreeSet<_> = variants.iter().map(|v| &v.name).collect();
        // By pixels of a thread, of the first halo alone; halos; lists.
        assert_eq!(names.len(), 2 * (8 + 8 + 1 + 1 + 8 + 7 + 8 + 8));
        assert_eq!(names.len(), variants.len());
        assert_eq!(variants.iter().filter(|v| v.usual).count(), 2 * 7);
        let one = wanted.groups(1);
        let kinds: Vec<_> = one.iter().map(|g| g.kind).collect();
        assert_eq!(kinds, [StrategyKind::Replicated, StrategyKind::Streamed]);
        let lists: Vec<_> = variants.iter().filter(|v| v.strategy == Strategy::List).collect();
        let options: Vec<_> = lists.iter().map(|v| v.list).collect();
        assert!(options.iter().any(|o| o.collect == Collect::Compacted && o.streams == 4));
        assert_eq!(options.iter().filter(|o| !o.direct).count(), 2);
        assert!(options.iter().any(|o| o.streams == 1) && options[0].chunk == [64, 64, 1]);
    }

    #[test]
    fn sides_are_named() {
        for pixels in PixelsPerThread::ALL {
            assert_eq!(pixels.name().parse(), Ok(Side(pixels)));
        }
        assert!("2x2".parse::<Side>().is_err());
    }
}
