//! `voxalign bench deform`: iterations, whole registrations, the gain from multiple scales, and the label
//! overlap of every model, similarity and solver.

mod files;
mod iterations;
mod multiscale;
mod overlap;
mod pair;
mod whole;

use super::Size;
use super::files::write;
use crate::Host;
use voxalign_jobs::files::check_output;
use voxalign_jobs::machine::{Auto, Machine, Running};
use voxalign_jobs::{Error, Result};
use voxalign_report::Table;

use clap::{Args, ValueEnum};
use iterations::IterationTime;
use multiscale::ScalesWorth;
use overlap::Overlap;
use pair::Images;
use serde::Serialize;
use std::path::PathBuf;
use voxalign_register::Choice;
use voxalign_register::diffeo::DeformModel;
use voxalign_register::model::solver::SolverKind;
use voxalign_register::similarity::Similarity;
use whole::WholeTime;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// One iteration at full resolution for every model and solver
    Iterations,
    /// Whole registrations with the default options of each model
    Whole,
    /// Time that multiple scales save in reaching the energy of the finest scale alone
    Multiscale,
    /// Overlap of labels for every model, similarity and solver (long; needs --labels)
    Overlap,
}

/// Arguments of `voxalign bench deform`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Times are wall times, with the images already in the memory of the program (or of the device). An
iteration is the median over several at full resolution, warm. The images are synthetic heads of
--size, unless --pair names others; those are first aligned by an affine registration, which is not
timed. `multiscale` runs the finest scale alone, and then reports when the full schedule reaches the
same energy there (Ha 2011, section 2.4.2). `overlap` registers with every model, similarity and
solver, with all other options at their defaults, and compares the labels.")]
pub(crate) struct DeformBenchArgs {
    /// Sizes of the images [default: 128x128x128, and 256x256x256 on a GPU]
    #[arg(long, value_name = "NxNxN", conflicts_with = "pair")]
    size: Option<Size>,
    /// Measure on these images
    #[arg(long, num_args = 2, value_names = ["FIXED", "MOVING"])]
    pair: Option<Vec<PathBuf>>,
    /// Label maps of the two images, for `overlap`
    #[arg(long, num_args = 2, value_names = ["FIXED", "MOVING"], requires = "pair")]
    labels: Option<Vec<PathBuf>>,
    /// Labels below this do not count in the mean overlap
    #[arg(long, value_name = "LABEL", requires = "labels")]
    smallest_label: Option<i32>,
    /// Labels with at most this many voxels in one of the maps do not count in the mean overlap
    #[arg(long, value_name = "N", default_value_t = 0, requires = "labels")]
    min_voxels: usize,
    /// What to measure [default: iterations,whole,multiscale, or overlap with --labels]
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Only these models
    #[arg(long, value_name = "MODEL,...", value_delimiter = ',', value_enum)]
    models: Vec<DeformModel>,
    /// Only these similarities (`overlap`; the others measure lncc and ssd)
    #[arg(long, value_name = "SIM,...", value_delimiter = ',', value_enum)]
    similarities: Vec<Similarity>,
    /// Only these solvers
    #[arg(long, value_name = "SOLVER,...", value_delimiter = ',', value_enum)]
    solvers: Vec<SolverKind>,
    /// Write a row for every measurement
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// Which of the possible ones are wanted.
struct Wanted<'h> {
    host: &'h dyn Host,
    models: Vec<DeformModel>,
    similarities: Vec<Similarity>,
    solvers: Vec<SolverKind>,
}

impl<'h> Wanted<'h> {
    fn new(args: &DeformBenchArgs, host: &'h dyn Host) -> Self {
        fn chosen<T: Choice>(given: &[T]) -> Vec<T> {
            T::ALL.iter().filter(|t| given.is_empty() || given.contains(t)).copied().collect()
        }
        Self {
            host,
            models: chosen(&args.models),
            similarities: match &args.similarities[..] {
                [] => Similarity::ALL.iter().filter(|s| s.has_energy()).copied().collect(),
                given => chosen(given),
            },
            solvers: chosen(&args.solvers),
        }
    }
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: voxalign_report::HostRecord,
    images: String,
    iterations: Vec<IterationTime>,
    whole: Vec<WholeTime>,
    multiscale: Vec<ScalesWorth>,
    overlap: Vec<Overlap>,
}

/// Measures and prints.
pub(super) fn run(args: &DeformBenchArgs, host: &dyn Host) -> Result<()> {
    let mut parts = args.parts.clone();
    if parts.is_empty() {
        parts = match args.labels {
            Some(_) => vec![Part::Overlap],
            None => vec![Part::Iterations, Part::Whole, Part::Multiscale],
        };
    }
    if parts.contains(&Part::Overlap) && args.labels.is_none() {
        return Err(Error::input(
            "--parts overlap compares labels; give --pair and --labels, two label maps",
        ));
    }
    if let Some(path) = &args.csv {
        let inputs = args.pair.iter().chain(&args.labels).flatten().map(PathBuf::as_path);
        check_output(path, inputs)?;
    }
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let results = measure(&machine, args, &parts, host)?;
    if let Some(path) = &args.csv {
        write(path, &files::csv(&results))?;
    }
    if args.json {
        crate::json(host, &results)?;
    } else {
        print(&results, host);
    }
    Ok(())
}

fn measure(
    machine: &Machine,
    args: &DeformBenchArgs,
    parts: &[Part],
    host: &dyn Host,
) -> Result<Results> {
    let device = &machine.device;
    let images = match args.pair.as_deref() {
        Some([fixed, moving]) => Images::read(device, fixed, moving)?,
        _ => {
            let usual = if machine.gpu().is_some() { 256 } else { 128 };
            Images::synthetic(args.size.map_or([usual; 3], |s| s.0))?
        }
    };
    let wanted = Wanted::new(args, host);
    let mut results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: machine.name(),
        threads: machine.threads,
        host: machine.record(),
        images: images.name.clone(),
        iterations: Vec::new(),
        whole: Vec::new(),
        multiscale: Vec::new(),
        overlap: Vec::new(),
    };
    if parts.contains(&Part::Iterations) {
        results.iterations = iterations::measure(device, &images, &wanted)?;
    }
    if parts.contains(&Part::Whole) {
        results.whole = whole::measure(device, &images, &wanted)?;
    }
    if parts.contains(&Part::Multiscale) {
        results.multiscale = multiscale::measure(device, &images, &wanted)?;
    }
    if let (true, Some([fixed, moving])) = (parts.contains(&Part::Overlap), args.labels.as_deref())
    {
        let labels =
            overlap::Labels::read(host, fixed, moving, args.smallest_label, args.min_voxels)?;
        results.overlap = overlap::measure(device, &images, &labels, &wanted)?;
    }
    Ok(results)
}

fn print(results: &Results, host: &dyn Host) {
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    host.line(&results.images);
    for table in [
        iterations::table(&results.iterations),
        whole::table(&results.whole),
        multiscale::table(&results.multiscale),
        overlap::table(&results.overlap),
    ]
    .into_iter()
    .flatten()
    {
        host.line("");
        crate::table(host, &table);
    }
}
