//! `voxalign bench elastic`: the parts of a registration by an elastic body and the whole of it (M. H. Mousazadeh, 2011,
//! chapter 5).

mod operators;
mod products;
mod registration;
mod scene;
mod sheets;
mod transfers;

use crate::Host;
use crate::Size;
use crate::files::{check, write};
use clap::{Args, ValueEnum};
use serde::Serialize;
use sheets::Measured;
use std::path::PathBuf;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::select::AnyDevice;
use voxalign_compute::{ComputeError, Device, Memory};
use voxalign_jobs::machine::{Auto, Machine, Running};
use voxalign_jobs::{Error, Result, check as stopped};
use voxalign_register::model::elastic::Sampling;
use voxalign_report::HostRecord;
use voxalign_report::curves::{CurvesReport, render};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Trilinear interpolation by grid size (table 5.1)
    Interpolation,
    /// Displacement of grid points by shape functions, by grid size (tables 5.2 and 5.4)
    Displacement,
    /// Products of dense matrices (table 5.3 and figure 5.2)
    Product,
    /// Displacement with transfers, by kind of host memory (figure 5.3)
    Memory,
    /// The steps of a whole registration (table 5.5)
    Registration,
}

/// Arguments of `voxalign bench elastic`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The tables of Mousazadeh (2011, chapter 5), with the figures that are printed there (NVIDIA GTX 480;
one thread of an Intel Core i5 650) in rows of their own. Images are made: a body with a smooth
texture in a field of view of 358x358x272 mm, and the same pushed by a known displacement of at most
8.8 mm. The mesh is a box of cells of six tetrahedra: with the default spacing 7776 of them for
`registration` (the thesis has 7502), and 2304 in cells 1.5 times as large for `displacement` and
`memory` (2335).

Times of operators are medians of warm runs in device time, on data that is already there, on the
chosen device and on the CPU, with all threads and with one. Operations are counted as in the thesis:
43 a point for interpolation, 59 a point for displacement, 2 N^3 for a product. `interpolation` reads
the image at the points of a regular grid, and at points that a field displaces. `displacement` is
measured in the box, where the tetrahedron of a point follows from its place, and in the same mesh as
any other, where tetrahedra are located once. `product` multiplies a symmetric N x N matrix with N
vectors, and with one, as a step with --step-solver inverse does; on the CPU up to N = 512. `memory`
has wall times of sending the displacements of the vertices, the kernel, and fetching those of 819200
points; on the CPU `handed over` memory changes hands without a copy. Mapped and write-combined
memory, which the thesis has as well, are not used here.

`registration` makes 15 iterations between the images at full resolution, ms per iteration of each
part; the force includes the gradient of the image, which the thesis has in the interpolation. Errors
are mean distances from the known displacement, mm.

Examples:
  voxalign bench elastic --device cuda --html elastic.html --csv elastic.csv
  voxalign bench elastic --parts registration --size 512x512x136 --samples all
  voxalign bench elastic --parts interpolation,displacement --no-cpu --device cuda")]
pub(crate) struct ElasticBenchArgs {
    /// What to measure [default: all]
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Size of the images of `interpolation` and `registration` [default: 512x512x136, and 256x256x68
    /// for `registration` on the CPU]
    #[arg(long, value_name = "NxNxN")]
    size: Option<Size>,
    /// Where the images pull in `registration` [default: 20x20x15,all]
    #[arg(long, value_name = "NxMxK|all,...", value_delimiter = ',')]
    samples: Vec<Sampling>,
    /// Edge length of the cells of the mesh of `registration`, mm; those of `displacement` and `memory` are
    /// 1.5 times as large
    #[arg(long, value_name = "MM", default_value_t = 30.0, value_parser = voxalign_jobs::options::positive)]
    mesh_spacing: f64,
    /// Number of runs per measurement [default: 9, and 3 registrations on a GPU, 1 on the CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Leave out the CPU where a GPU is measured
    #[arg(long)]
    no_cpu: bool,
    /// Write a row for every number
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write the tables as a page; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// The size of the images of the thesis.
const PUBLISHED_SIZE: [usize; 3] = [512, 512, 136];

/// The size of the images of a registration on the CPU.
const CPU_SIZE: [usize; 3] = [256, 256, 68];

/// The cells of the smaller mesh over those of the registration.
const COARSER: f64 = 1.5;

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: HostRecord,
    tables: Vec<Measured>,
}

/// How it is measured.
struct Plan<'a> {
    host: &'a dyn Host,
    machine: &'a Machine,
    /// CPUs beside the device, or as it: with all threads, and with one.
    cpus: Vec<Cpu>,
    size: Option<[usize; 3]>,
    samples: Vec<Sampling>,
    spacing: f64,
    repeat: Option<usize>,
}

/// A measurement on a device, which it names.
trait OnDevice {
    fn on<D: Device>(&mut self, device: &D, name: &str) -> Result<()>;
}

impl Plan<'_> {
    /// Runs of a measurement.
    fn runs(&self) -> usize {
        self.repeat.unwrap_or(9)
    }

    /// Images of the sizes that are asked for, or of these.
    fn size_or(&self, usual: [usize; 3]) -> [usize; 3] {
        self.size.unwrap_or(usual)
    }

    /// Measures on the GPU, where that is the device, and on the CPU, with all threads and with one.
    fn everywhere(&self, what: &mut impl OnDevice) -> Result<()> {
        if let AnyDevice::Cuda(_) = self.machine.device {
            stopped(self.host)?;
            what.on(&self.machine.device, &self.machine.device.name())?;
        }
        for cpu in &self.cpus {
            stopped(self.host)?;
            what.on(cpu, &threads(cpu.threads()))?;
        }
        Ok(())
    }

    fn measure(&self, part: Part) -> Result<Measured> {
        match part {
            Part::Interpolation => operators::interpolation(self),
            Part::Displacement => operators::displacement(self),
            Part::Product => products::measure(self),
            Part::Memory => transfers::measure(self),
            Part::Registration => registration::measure(self),
        }
    }
}

/// The CPU with so many threads, in words.
fn threads(count: usize) -> String {
    if count == 1 { "CPU, 1 thread".to_owned() } else { format!("CPU, {count} threads") }
}

/// Measures and prints.
pub(super) fn run(args: &ElasticBenchArgs, host: &dyn Host) -> Result<()> {
    check(args.csv.as_deref(), args.html.as_deref(), None)?;
    let wanted = |part: &Part| args.parts.is_empty() || args.parts.contains(part);
    let is_for = |option: &str, parts: &[Part], names: &str| {
        if parts.iter().any(wanted) {
            return Ok(());
        }
        Err(Error::input(format!(
            "{option} is for the parts {names}; add one of them to --parts, or leave {option} out"
        )))
    };
    if args.size.is_some() {
        let parts = [Part::Interpolation, Part::Registration];
        is_for("--size", &parts, "interpolation and registration")?;
    }
    if !args.samples.is_empty() {
        is_for("--samples", &[Part::Registration], "registration")?;
    }
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let mut counts = vec![machine.threads, 1];
    counts.dedup();
    if args.no_cpu && machine.gpu().is_some() {
        counts.clear();
    }
    let cpus =
        counts.into_iter().map(|n| Cpu::new(Some(n))).collect::<Result<_, ComputeError>>()?;
    let mut samples = args.samples.clone();
    if samples.is_empty() {
        samples = vec![Sampling::Lattice([20, 20, 15]), Sampling::All];
    }
    samples.dedup();
    let plan = Plan {
        host,
        machine: &machine,
        cpus,
        size: args.size.map(|s| s.0),
        samples,
        spacing: args.mesh_spacing,
        repeat: args.repeat.map(usize::from),
    };
    let parts = Part::value_variants().iter().filter(|part| wanted(part));
    let tables = parts.map(|&part| plan.measure(part)).collect::<Result<_>>()?;
    let results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: machine.device.name(),
        threads: machine.threads,
        host: machine.record(),
        tables,
    };
    if let Some(path) = &args.csv {
        write(path, &sheets::csv(&results))?;
    }
    if let Some(path) = &args.html {
        write(path, &page(&results))?;
    }
    if args.json {
        return crate::json(host, &results);
    }
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    results.tables.iter().for_each(|table| table.sheet().print(host));
    Ok(())
}

fn page(results: &Results) -> String {
    render(&CurvesReport {
        title: "Elastic registration".into(),
        program: format!("voxalign {}", results.version),
        host: &results.host,
        command: voxalign_jobs::invoked::command(),
        note: "The parts of a registration by an elastic body, beside the figures of Mousazadeh (2011, chapter 5).".into(),
        figures: Vec::new(),
        tables: results.tables.iter().map(|t| t.sheet().of_page(2)).collect(),
    })
}

/// The median of the seconds that a device takes for some work: of so many runs after one that does not count. Short work is
/// done several times in a run.
fn timed<D: Device>(
    device: &D,
    runs: usize,
    mut work: impl FnMut() -> voxalign_compute::Result<()>,
) -> Result<f64> {
    /// Runs are no shorter, s, where that many calls suffice.
    const SHORT: f64 = 1e-3;
    const MOST_CALLS: usize = 64;
    work()?;
    let once = device.seconds(&mut work)?;
    let calls = ((SHORT / once).ceil() as usize).clamp(1, MOST_CALLS);
    let mut all = || (0..calls).try_for_each(|_| work());
    let mut times = Vec::new();
    for _ in 0..runs {
        times.push(device.seconds(&mut all)? / calls as f64);
    }
    Ok(median(times))
}

/// The median, the upper one of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
