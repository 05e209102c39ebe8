//! Whole measurements at small sizes.

use super::args::{Angles, Settings};
use super::results::{Results, expected_share};
use super::variants::{Extent, Strategy, Wanted, WindowName};
use super::{Crew, files, measured, sheets};
use crate::Host;
use std::sync::Mutex;
use voxalign_compute::cuda::Cuda;
use voxalign_compute::ops::joint::PixelsPerThread;
use voxalign_compute::select::{AnyDevice, DeviceChoice};
use voxalign_jobs::machine::{Auto, Machine, MachineOptions};
use voxalign_jobs::{Level, Listener, Result};
use voxalign_options::Text;
use voxalign_register::{Event, Progress};

/// Keeps what is told.
#[derive(Default)]
struct Quiet(Mutex<Vec<String>>);

impl Progress for Quiet {
    fn event(&self, _: &Event<'_>) {}
}

impl Listener for Quiet {
    fn tell(&self, _: Level, text: &Text) {
        self.0.lock().unwrap().push(text.to_string());
    }
}

impl Host for Quiet {
    fn line(&self, _: &str) {}

    fn machine(&self, options: MachineOptions, auto: Auto) -> Result<Machine> {
        Machine::start(options, auto)
    }

    fn team(&self, options: MachineOptions, _: Option<usize>) -> Result<Machine> {
        Machine::start(options, Auto::Cpu)
    }

    fn finish(&self) {}
}

fn settings(size: [usize; 2], ranks: &[usize], angles: usize) -> Settings {
    Settings {
        size,
        bits: 8,
        bins: 32,
        ranks: ranks.to_vec(),
        wanted: Wanted {
            strategies: Strategy::USUAL.to_vec(),
            extent: Extent::All,
            halos: vec![0.0, 0.25],
            chunks: vec![48, 29],
            streams: vec![2, 1],
            pixels_per_thread: vec![PixelsPerThread::One],
            windows: vec![WindowName::Plain],
        },
        angles: Angles::steps(angles).0,
        repeats: 1,
        device_memory: None,
        once: false,
    }
}

fn measure(settings: &Settings) -> Result<Results> {
    let one = MachineOptions { device: Some(DeviceChoice::Cpu), threads: Some(1) };
    let machine = Machine::start(one, Auto::Cpu)?;
    let crew = Crew::threads(&machine, settings.ranks.iter().copied().max().unwrap(), false)?;
    match settings.bits {
        8 => measured::<u8>(settings, &crew, &machine, &Quiet::default()),
        _ => measured::<u16>(settings, &crew, &machine, &Quiet::default()),
    }
}

#[test]
fn all_variants_are_measured_and_shares_are_those_of_the_formula() {
    let settings = settings([200, 200], &[1, 2, 3, 4], 13);
    let results = measure(&settings).unwrap();
    // The baseline, two halos, the list and its seven variants, reads of other devices.
    let variants = 1 + 2 + 8 + 1;
    assert_eq!(results.rows.len(), 13 * (1 + 3 * variants));
    assert_eq!(results.compared_with, "whole images on one rank");
    let samples = results.rows[0].samples;
    for row in &results.rows {
        assert_eq!(row.samples, samples);
        assert_eq!(row.loads.len(), row.ranks);
        assert!(row.milliseconds > 0.0 && row.least_milliseconds <= row.milliseconds);
        // A rank of a list may have no pixel of its own samples.
        assert!(row.transactions >= row.remote_transactions);
        assert!(row.transactions > 0 || row.strategy == "list");
        assert_eq!(row.messages > 0, row.bytes > 0);
        assert!(row.strategy == "list" || row.messages == 0);
        for load in &row.loads {
            let parts = load.computing + load.communicating + load.waiting;
            assert!((parts - load.milliseconds).abs() <= 1e-6 * load.milliseconds.max(1.0));
        }
        let Some(share) = row.remote_share else {
            assert!(row.strategy == "replicate" && row.remote_transactions == 0);
            continue;
        };
        // One pixel more than the block is here, of 90 pixels of a radius.
        let formula = [2, 4].contains(&row.ranks) && !row.variant.contains("25 %");
        assert_eq!(row.expected_share.is_some(), formula, "{}", row.variant);
        if let Some(expected) = row.expected_share {
            assert!((share - expected).abs() < 0.03, "{} {share} {expected}", row.degrees);
        } else {
            assert!((0.0..=1.0).contains(&share));
        }
    }
    let of = |strategy: &str, ranks| -> Vec<u64> {
        let rows = results.rows.iter().filter(|r| r.strategy == strategy && r.usual);
        rows.filter(|r| r.ranks == ranks).map(|r| r.remote_reads + r.messages).collect()
    };
    for ranks in [2, 3, 4] {
        assert_eq!(of("list", ranks), of("peer", ranks));
        assert_eq!(of("list", ranks), of("halo", ranks)[..13]);
    }
    let rounds = results.rounds.iter().filter(|r| r.ranks == 4 && r.variant == "list");
    // Blocks of 100x100 pixels have nine chunks.
    assert_eq!(rounds.count(), 4 * 9);
}

#[test]
fn transactions_of_the_baseline_are_most_at_a_quarter_turn() {
    let mut settings = settings([200, 200], &[1], 37);
    settings.wanted.strategies = vec![Strategy::Replicate];
    let results = measure(&settings).unwrap();
    let peak = results.rows.iter().max_by_key(|r| r.transactions).unwrap();
    assert!((85.0..=95.0).contains(&peak.degrees), "{}", peak.degrees);
}

#[test]
fn tables_and_files_are_complete() {
    let mut settings = settings([120, 90], &[1, 2], 5);
    settings.bits = 16;
    settings.wanted.windows = vec![WindowName::Plain, WindowName::Cubic];
    let results = measure(&settings).unwrap();
    let sheets = sheets::all(&results);
    // Times of one and of two ranks, speed-up, shares, traffic, loads, chunks, memory.
    assert_eq!(sheets.len(), 8);
    let csv = files::csv(&results);
    assert_eq!(csv.lines().count(), 1 + results.rows.len());
    assert_eq!(results.rows.len(), 5 * 2 * (1 + 12));
    let columns = |line: &str| {
        // Commas between quotes are in odd parts.
        let plain = line.split('"').step_by(2);
        1 + plain.map(|part| part.matches(',').count()).sum::<usize>()
    };
    let first = columns(csv.lines().next().unwrap());
    assert!(first == 24 && csv.lines().all(|line| columns(line) == first), "{csv}");
    let trace = files::trace(&results);
    let loads: usize = results.rows.iter().map(|r| r.loads.len()).sum();
    assert!(trace.lines().all(|line| columns(line) == 18), "{trace}");
    assert_eq!(trace.lines().count(), 1 + loads + results.rounds.len());
    let html = files::html(&results, &sheets);
    for figure in 3..=7 {
        assert!(html.contains(&format!("Figure {figure}")), "{figure}");
    }
    for words in ["Speed-up", "formula", "Loads of ranks", "Memory"] {
        assert!(html.to_lowercase().contains(&words.to_lowercase()), "{words}");
    }
    assert!(!html.contains("NaN") && !html.contains("<script"));
}

#[test]
fn a_single_evaluation_compares_strategies_with_each_other() {
    let mut settings = settings([257, 130], &[2], 2);
    settings.angles = vec![30.0];
    settings.once = true;
    settings.wanted.strategies.remove(0);
    settings.wanted.extent = Extent::Usual;
    let results = measure(&settings).unwrap();
    assert_eq!(results.rows.len(), 4);
    assert_eq!(results.compared_with, "'halo 1 pixel' on 2 ranks");
    assert_eq!(results.memory.len(), 4);
    assert!(results.memory.iter().all(|m| m.left_out.is_none() && m.bytes_of_ranks.len() == 2));
}

#[test]
fn what_does_not_fit_is_left_out_before_anything_is_allocated() {
    let mut settings = settings([1 << 20, 1 << 20], &[2], 2);
    settings.once = true;
    settings.angles = vec![30.0];
    let error = measure(&settings).unwrap_err().to_string();
    for words in ["replicate: 3.0 TiB", "halo 1 pixel", "list", "peer", "are needed", "free"] {
        assert!(error.contains(words), "{words} is not in {error}");
    }
}

/// Chunks that are made as they are asked for have the histograms of images that are there; with a limit of the device nothing else is left.
#[test]
fn what_is_streamed_has_the_histograms_of_whole_images() {
    let mut settings = settings([400, 300], &[1, 2, 4], 5);
    settings.wanted.strategies = vec![Strategy::Replicate, Strategy::Stream];
    for bits in [8, 16] {
        settings.bits = bits;
        // Chunks of some thousand pixels.
        settings.device_memory = None;
        let whole = measure(&settings).unwrap();
        assert_eq!(whole.compared_with, "whole images on one rank");
        assert_eq!(whole.rows.len(), 5 * 3 * 2);
        settings.device_memory = Some(50_000);
        let results = measure(&settings).unwrap();
        assert_eq!(results.compared_with, "'stream' on 1 ranks");
        assert_eq!(results.rows.len(), 5 * 3);
        for (row, same) in
            results.rows.iter().zip(whole.rows.iter().filter(|r| r.strategy == "stream"))
        {
            assert_eq!(
                (row.strategy, row.samples, row.remote_share),
                ("stream", whole.rows[0].samples, None)
            );
            assert_eq!((row.ranks, row.transactions), (same.ranks, same.transactions));
            assert!(row.transactions > 0 && row.remote_transactions == 0);
        }
        for m in &results.memory {
            let why = m.left_out.as_deref().unwrap_or("--device-memory is 49 KiB");
            assert!(why.contains("--device-memory is"), "{why}");
            assert_eq!(m.left_out.is_none(), m.strategy == "stream", "{m:?}");
            assert!(m.left_out.is_some() || m.bytes_of_ranks.iter().all(|&b| b <= 50_000));
        }
    }
}

/// Two ranks with the kernels of a GPU, emulated where the environment does not name one.
#[test]
#[allow(clippy::print_stderr)] // a test that is skipped says so
fn gpus_have_the_histograms_too() {
    let named = std::env::var("VOXALIGN_TEST_DEVICE").is_ok_and(|name| name == "cuda");
    let open = || if named { Cuda::new(0) } else { Cuda::emulated() };
    let devices = match (open(), open()) {
        (Ok(a), Ok(b)) => [a, b].map(AnyDevice::Cuda).to_vec(),
        (Err(e), _) | (_, Err(e)) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            return eprintln!("skipped: {e}");
        }
    };
    let one = MachineOptions { device: Some(DeviceChoice::Cpu), threads: Some(1) };
    let machine = Machine::start(one, Auto::Cpu).unwrap();
    let mut settings = settings([70, 50], &[1, 2], 3);
    settings.wanted.pixels_per_thread = vec![PixelsPerThread::FourByFour, PixelsPerThread::One];
    let crew = Crew::Threads(devices);
    let results = measured::<u8>(&settings, &crew, &machine, &Quiet::default()).unwrap();
    // The second kind of threads with each strategy, of the first halo alone.
    assert_eq!(results.rows.len(), 3 * (2 + 2 + 3 + 9 + 2));
    assert!(results.memory.iter().all(|m| m.left_out.is_none()), "{:?}", results.memory);
}

#[test]
fn the_formula_is_that_of_the_paper() {
    let close = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-12;
    assert!(close(expected_share(2, 90.0), 0.5) && close(expected_share(2, 180.0), 1.0));
    assert!(close(expected_share(4, 45.0), 0.5) && close(expected_share(4, 120.0), 1.0));
    assert_eq!((expected_share(1, 10.0), expected_share(3, 10.0)), (None, None));
}
