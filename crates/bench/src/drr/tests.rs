use super::plan::Count;
use super::*;
use std::sync::Mutex;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::cuda::Cuda;
use voxalign_jobs::machine::{Machine, MachineOptions};
use voxalign_jobs::{Level, Listener, Silent};
use voxalign_options::Text;
use voxalign_register::{Event, Progress};

/// A program that keeps its lines.
struct Lines(Mutex<Vec<String>>);

impl Progress for Lines {
    fn event(&self, _: &Event<'_>) {}
}

impl Listener for Lines {
    fn tell(&self, level: Level, text: &Text) {
        Silent.tell(level, text);
    }
}

impl Host for Lines {
    fn line(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn machine(&self, options: MachineOptions, auto: Auto) -> Result<Machine> {
        Machine::start(options, auto)
    }

    fn team(&self, _: MachineOptions, _: Option<usize>) -> Result<Machine> {
        Err(Error::input("no processes"))
    }

    fn finish(&self) {}
}

/// What takes an emulated device some seconds.
fn tiny() -> Plan {
    let counts = vec![Count::Some(40), Count::All];
    Plan {
        repeat: 2,
        coarser: 16,
        volumes: vec![Sizes::Spine, Sizes::Long],
        region: [12, 9],
        rules: counts.clone(),
        blocks: [vec![Count::Some(20)], counts].concat(),
        threads: vec![10, 14, 64, 256],
        poses: 2,
        frame: 10,
    }
}

fn measured(device: &AnyDevice) -> (Results, String, String) {
    let (plan, host) = (tiny(), Lines(Mutex::default()));
    let mut results = Results::new(device, 1, HostRecord::default(), &plan);
    let bench = Bench { device, threads: 1, host: &host, plan: &plan };
    bench.measure(&[], &mut results).unwrap();
    let sheets = results.sheets(&plan).unwrap();
    print(&results, &plan, &sheets, &host);
    let html = files::html(&results, &plan, &sheets);
    (results, host.0.into_inner().unwrap().join("\n"), html)
}

#[test]
fn a_gpu_has_all_tables() {
    let cuda = match Cuda::emulated() {
        Ok(cuda) => cuda,
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_EMULATION").is_some();
            assert!(!required, "the kernels of the GPU cannot be tested: {e}");
            eprintln!("skipped: {e}");
            return;
        }
    };
    let (results, out, html) = measured(&AnyDevice::Cuda(cuda));
    // Two volumes; six kernels of two numbers of pixels, two of the third, and usual blocks, of each.
    assert_eq!(results.points.len(), 2 * (4 * (2 * 6 + 2) + 3));
    assert!(results.points.iter().all(|p| p.times.mean > 0.0 && p.times.median > 0.0));
    assert!(results.points.iter().all(|p| p.block.is_some() && p.share.is_some()));
    assert_eq!(results.calls.len(), 2 * 4);
    assert!(results.calls.iter().all(|c| c.kernel.is_some_and(|k| k.mean > 0.0)));
    assert_eq!((results.batch.len(), results.cpu.len()), (4, 2));
    for words in
        ["table 2.3", "table 2.4", "figures 2.6 to 2.14", "108 (all)", "not 3, 4", "frames/s"]
    {
        assert!(out.contains(words), "{words} is not in\n{out}");
    }
    assert_eq!(html.matches("<svg").count(), 2 * 3);
    let csv = files::csv(&results);
    assert_eq!(csv.lines().count(), 1 + results.points.len() + 2 * 8 + 4 + 2);
}

#[test]
fn a_cpu_has_what_applies() {
    let (results, out, html) = measured(&AnyDevice::Cpu(Cpu::new(Some(1)).unwrap()));
    assert_eq!(results.points.len(), 2 * 3);
    assert!(results.points.iter().all(|p| p.usual && p.block.is_none() && p.times.mean > 0.0));
    assert_eq!((results.calls.len(), results.batch.len()), (4, 3));
    assert!(out.contains("are for GPUs") && out.contains("ns per pixel"), "{out}");
    assert!(!out.contains("table 2.") && !html.contains("<svg"));
    let [planes, inside, taken] = results.batch_samples;
    assert!((planes - 500.0).abs() < 1.5 && inside < planes, "{planes} {inside}");
    assert!(taken > 0.3 * inside && taken < 0.95 * inside, "{taken} {inside}");
    // Nothing is beside a volume.
    let nothing = results.calls.last().unwrap();
    assert_eq!(nothing.samples[1..], [0.0; 2]);
    let whole = &results.calls[0];
    assert!(whole.samples[2] > 0.5 * whole.samples[1], "{whole:?}");
}

#[test]
fn times_are_means_and_medians() {
    let times = Times::of(vec![4e-6, 1e-6, 2e-6, 9e-6]);
    assert!((times.mean - 4.0).abs() < 1e-9 && (times.median - 3.0).abs() < 1e-9);
    assert!((times.least - 1.0).abs() < 1e-9);
    assert_eq!(Times::of(vec![3e-6]).median, 3.0);
    assert_eq!(Times::of(Vec::new()), Times::default());
}
