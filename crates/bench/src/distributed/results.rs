//! All that was measured.

use super::args::Settings;
use super::crew::{Crew, Needs};
use super::measure::{Found, Load};
use super::named;
use super::variants::Group;
use serde::Serialize;
use voxalign_compute::ops::joint::Halo;
use voxalign_jobs::machine::Machine;
use voxalign_register::search::distributed::StrategyKind;
use voxalign_report::HostRecord;

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    pub(super) version: &'static str,
    pub(super) device: String,
    pub(super) crew: String,
    pub(super) host: HostRecord,
    pub(super) size: [usize; 2],
    pub(super) bits: u8,
    pub(super) bins: usize,
    pub(super) repeats: usize,
    pub(super) ranks: Vec<usize>,
    /// Whose histograms all others have.
    pub(super) compared_with: String,
    pub(super) memory: Vec<MemoryRow>,
    pub(super) rows: Vec<Row>,
    pub(super) rounds: Vec<RoundRow>,
}

/// What a strategy has in memory.
#[derive(Debug, Clone, Serialize)]
pub(super) struct MemoryRow {
    pub(super) ranks: usize,
    pub(super) strategy: String,
    /// On the device of each rank.
    pub(super) bytes_of_ranks: Vec<u64>,
    /// On the host, beside that.
    pub(super) bytes_of_host: u64,
    pub(super) left_out: Option<String>,
}

impl MemoryRow {
    pub(super) fn new(group: &Group, ranks: usize, needs: &Needs) -> Self {
        Self {
            ranks,
            strategy: group.name(),
            bytes_of_ranks: needs.devices.clone(),
            bytes_of_host: needs.host,
            left_out: None,
        }
    }
}

/// A variant at an angle.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) ranks: usize,
    pub(super) strategy: &'static str,
    pub(super) variant: String,
    /// Whether it stands for its strategy, window and halo.
    pub(super) usual: bool,
    pub(super) window: &'static str,
    /// Those that were taken.
    pub(super) pixels_per_thread: &'static str,
    pub(super) degrees: f64,
    pub(super) milliseconds: f64,
    pub(super) least_milliseconds: f64,
    pub(super) samples: u64,
    pub(super) remote_reads: u64,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// The part of samples with pixels of other ranks; none where all ranks have all.
    pub(super) remote_share: Option<f64>,
    /// The same by the formula, where there is one.
    pub(super) expected_share: Option<f64>,
    pub(super) transactions: i64,
    pub(super) remote_transactions: i64,
    pub(super) loads: Vec<LoadRow>,
}

/// What a rank did with its time.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct LoadRow {
    pub(super) milliseconds: f64,
    pub(super) computing: f64,
    pub(super) communicating: f64,
    pub(super) waiting: f64,
}

impl From<&Load> for LoadRow {
    fn from(load: &Load) -> Self {
        Self {
            milliseconds: 1e3 * load.all,
            computing: 1e3 * load.computing(),
            communicating: 1e3 * load.communicating,
            waiting: 1e3 * load.waiting,
        }
    }
}

/// The exchange of the messages of a chunk, at one rank.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RoundRow {
    pub(super) ranks: usize,
    pub(super) variant: String,
    pub(super) degrees: f64,
    pub(super) rank: usize,
    pub(super) round: usize,
    /// When its own messages were ready, when those of all ranks were, and when they were exchanged, ms.
    pub(super) ready: f64,
    pub(super) all_ready: f64,
    pub(super) exchanged: f64,
    pub(super) bytes: u64,
}

/// The part of the samples that needs pixels of another rank (section 5 of the paper), of two and four equal blocks.
pub(super) fn expected_share(ranks: usize, degrees: f64) -> Option<f64> {
    let sector = matches!(ranks, 2 | 4).then_some(ranks as f64 / 360.0)?;
    Some((degrees * sector).min(1.0))
}

impl Results {
    pub(super) fn new(settings: &Settings, crew: &Crew, machine: &Machine) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            device: machine.name(),
            crew: crew.describe(),
            host: machine.record(),
            size: settings.size,
            bits: settings.bits,
            bins: settings.bins,
            repeats: settings.repeats,
            ranks: settings.ranks.clone(),
            compared_with: String::new(),
            memory: Vec::new(),
            rows: Vec::new(),
            rounds: Vec::new(),
        }
    }

    /// What was measured where, in words.
    pub(super) fn about(&self) -> String {
        let [x, y] = self.size;
        format!(
            "{x}x{y} pixels of {} bits, {} bins, means of {}; ranks are {}. Histograms are those of {}",
            self.bits, self.bins, self.repeats, self.crew, self.compared_with
        )
    }

    pub(super) fn add(&mut self, group: &Group, ranks: usize, found: &Found) {
        let mut points: Vec<_> = found.points.iter().collect();
        points.sort_by_key(|point| point.variant);
        for point in points {
            let variant = &group.variants[point.variant];
            let shared = !matches!(group.kind, StrategyKind::Replicated | StrategyKind::Streamed);
            // Larger halos spare some.
            let plain = shared && !matches!(group.kind, StrategyKind::Halo(Halo::Fraction(_)));
            self.rows.push(Row {
                ranks,
                strategy: named(group),
                variant: variant.name.clone(),
                usual: variant.usual,
                window: variant.window.name(),
                pixels_per_thread: point.pixels_per_thread.name(),
                degrees: point.degrees,
                milliseconds: 1e3 * point.mean(),
                least_milliseconds: 1e3
                    * point.seconds.iter().copied().fold(f64::INFINITY, f64::min),
                samples: point.traffic.samples,
                remote_reads: point.traffic.remote_reads,
                messages: point.traffic.messages,
                bytes: point.traffic.bytes,
                remote_share: shared.then(|| point.share()),
                expected_share: expected_share(ranks, point.degrees).filter(|_| plain),
                transactions: point.transactions[0],
                remote_transactions: point.transactions[1],
                loads: point.loads.iter().map(LoadRow::from).collect(),
            });
            self.rounds.extend(point.rounds.iter().map(|r| RoundRow {
                ranks,
                variant: variant.name.clone(),
                degrees: point.degrees,
                rank: r.rank,
                round: r.round,
                ready: 1e3 * r.times[0],
                all_ready: 1e3 * r.times[1],
                exchanged: 1e3 * r.times[2],
                bytes: r.bytes,
            }));
        }
    }

    /// The rows of each variant, over all angles.
    pub(super) fn variants(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|a, b| a.ranks == b.ranks && a.variant == b.variant)
    }

    /// The baseline of a variant: the usual one of `replicate` of as many ranks and the same window.
    pub(super) fn baseline(&self, of: &Row) -> Vec<&Row> {
        let same = |r: &&Row| (r.ranks, r.window) == (of.ranks, of.window);
        self.rows.iter().filter(same).filter(|r| r.strategy == "replicate" && r.usual).collect()
    }

    /// The number of the angle next to one.
    pub(super) fn nearest(&self, degrees: f64) -> usize {
        let Some(rows) = self.variants().next() else { return 0 };
        let off = |k: &usize| (rows[*k].degrees - degrees).abs();
        (0..rows.len()).min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0)
    }
}
