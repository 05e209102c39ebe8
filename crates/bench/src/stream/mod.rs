//! `voxalign bench stream`: the streaming models on stages of adjustable cost, with and without a forced
//! synchronisation, and on operators over many images (Ha 2011, section 4.7).

mod disk;
mod files;
mod functions;
mod synthetic;

use super::Size;
use super::files::write;
use crate::Host;
use clap::{Args, ValueEnum};
use functions::Function;
use serde::Serialize;
use std::path::PathBuf;
use synthetic::{Point, Traces};
use voxalign_jobs::files::check_output;
use voxalign_jobs::machine::{Auto, Machine, Running};
use voxalign_jobs::{Error, Result};
use voxalign_population::stream::{Listener, StreamOptions};
use voxalign_report::Table;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// All models over the ratio of execution to transfer, 0.1 to 10
    Ratio,
    /// All models over the position of a forced synchronisation within the execution
    Synchronisation,
    /// Maximum, energy, average, normalisation and Gaussian
    Functions,
    /// Reading, computing and writing, each alone and streamed; needs --disk
    Disk,
}

/// Arguments of `voxalign bench stream`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The stages of `ratio` and `synchronisation` are upload, execution and download of images of --size:
on a GPU real copies from page-locked memory, and as many kernels as it takes to fill the requested
execution time; on the CPU pauses. An engine does one thing at a time. Times are per image, averaged
over --images; the bound is that of the slowest stage. In `synchronisation` the execution takes as
long as both copies, and a host program that waits in the middle of it is imitated: it submits nothing
until the device is idle. `functions` gives U, E and D run one after the other, for all images.

`disk` makes files in the folder of --disk, plain and compressed. Reading (by all readers), computing
and writing are each measured alone, then streamed together. No schedule can beat the bound, the
largest of: the slowest of the three; the CPU time of all three, shared among the cores; and the sum
of the times that reading and writing wait for the disk, as they share it. Execution times at a given
ratio to reading and writing are spent by `an engine of its own`, which needs no core (on a GPU, the
GPU), and by the cores. Files that were just written may come from the page cache: give images that
together exceed the machine's memory to measure the disk itself.")]
pub(crate) struct StreamBenchArgs {
    /// Sizes of the images [default: 64x64x64, and 256x256x256 on a GPU]
    #[arg(long, value_name = "NxNxN")]
    size: Option<Size>,
    /// Number of images [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    images: Option<u32>,
    /// What to measure [default: all]
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Folder for the files of the part disk, which are removed afterwards
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Write a row for every measurement
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Draw a timeline of every model with a synchronisation in the middle
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// Stops where the user asks for it.
struct Watch<'h>(&'h dyn Host);

impl Listener for Watch<'_> {
    fn stop(&self) -> bool {
        self.0.stop()
    }
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: voxalign_report::HostRecord,
    dims: [usize; 3],
    images: usize,
    ratio: Vec<Point>,
    synchronisation: Vec<Point>,
    functions: Vec<Function>,
    disk: Vec<disk::Row>,
    #[serde(skip)]
    traces: Traces,
}

/// Measures and prints.
pub(super) fn run(args: &StreamBenchArgs, host: &dyn Host) -> Result<()> {
    for path in args.csv.iter().chain(&args.html) {
        check_output(path, [])?;
    }
    if let Some(folder) = args.disk.as_ref().filter(|d| !d.is_dir()) {
        let name = folder.display();
        return Err(Error::input(format!("--disk '{name}' does not exist; create the folder")));
    }
    let named = args.parts.contains(&Part::Disk);
    if named && args.disk.is_none() {
        return Err(Error::input("--parts disk needs --disk, a folder for its files"));
    }
    if args.disk.is_some() && !named && !args.parts.is_empty() {
        return Err(Error::input(
            "--disk is for the part disk; add it to --parts, or leave it out",
        ));
    }
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let results = measure(&machine, args, host)?;
    if let Some(path) = &args.csv {
        write(path, &files::csv(&results))?;
    }
    if let Some(path) = &args.html {
        write(path, &files::html(&results))?;
    }
    if args.json {
        crate::json(host, &results)?;
    } else {
        print(&results, host);
    }
    Ok(())
}

fn measure(machine: &Machine, args: &StreamBenchArgs, host: &dyn Host) -> Result<Results> {
    let device = &machine.device;
    let usual = if machine.gpu().is_some() { 256 } else { 64 };
    let dims = args.size.map_or([usual; 3], |s| s.0);
    let images = args.images.unwrap_or(32) as usize;
    let wanted = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: machine.name(),
        threads: machine.threads,
        host: machine.record(),
        dims,
        images,
        ratio: Vec::new(),
        synchronisation: Vec::new(),
        functions: Vec::new(),
        disk: Vec::new(),
        traces: Vec::new(),
    };
    if wanted(Part::Ratio) || wanted(Part::Synchronisation) {
        let load = synthetic::Load::new((device, host), machine.gpu().is_some(), dims)?;
        if wanted(Part::Ratio) {
            results.ratio = load.over_ratios(images)?;
        }
        if wanted(Part::Synchronisation) {
            (results.synchronisation, results.traces) = load.over_places(images)?;
        }
    }
    if wanted(Part::Functions) {
        results.functions = functions::in_memory((device, host), dims, images)?;
    }
    if let Some(folder) = args.disk.as_ref().filter(|_| wanted(Part::Disk)) {
        let gpu = machine.gpu().is_some();
        let options = StreamOptions { readers: machine.readers(), ..StreamOptions::default() };
        results.disk = disk::measure((device, host), gpu, dims, images, folder, options)?;
    }
    Ok(results)
}

/// Milliseconds of an image of every model, over what was varied.
fn curves(title: &str, images: usize, points: &[Point]) -> Option<Table> {
    let first = points.first()?;
    let here = |p: &&Point| p.at == first.at;
    let models = points.iter().filter(here).map(|p| p.model.clone());
    let mut table = Table::new(
        [title.to_owned(), "bound".to_owned()].into_iter().chain(models).collect::<Vec<_>>(),
    );
    let per_image = |s: f64| format!("{:.3}", s * 1e3 / images as f64);
    for row in points.chunk_by(|a, b| a.at == b.at) {
        let mut cells = vec![format!("{:.2}", row[0].at), per_image(row[0].bound)];
        cells.extend(row.iter().map(|p| per_image(p.seconds)));
        table.row(cells);
    }
    Some(table)
}

/// Milliseconds of all images.
fn table(title: &str, found: &[Function]) -> Option<Table> {
    let first = found.first()?;
    let stages = first.stages.iter().map(|s| s.0.clone());
    let models = first.models.iter().map(|m| m.0.clone());
    let headings = [title.to_owned()].into_iter().chain(stages).chain(models);
    let mut table = Table::new(headings.collect::<Vec<_>>());
    for f in found {
        let times = f.stages.iter().chain(&f.models).map(|t| format!("{:.1}", t.1 * 1e3));
        table.row([f.name.to_owned()].into_iter().chain(times).collect::<Vec<_>>());
    }
    Some(table)
}

/// Milliseconds of all images, and how near the stream is to its bound.
fn disk_table(rows: &[disk::Row]) -> Option<Table> {
    rows.first()?;
    let mut table = Table::new([
        "files",
        "work",
        "R",
        "E",
        "W",
        "CPU / cores",
        "bound",
        "streamed",
        "to bound",
    ]);
    for r in rows {
        let times =
            [r.read.seconds, r.compute.seconds, r.write.seconds, r.shared, r.bound, r.streamed];
        let cells = [r.files.to_owned(), r.work.clone()].into_iter();
        let cells = cells.chain(times.map(|s| format!("{:.1}", s * 1e3)));
        let part = format!("{:+.0} %", (r.streamed / r.bound - 1.0) * 100.0);
        table.row(cells.chain([part]).collect::<Vec<_>>());
    }
    Some(table)
}

fn print(results: &Results, host: &dyn Host) {
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    let (images, size) = (results.images, Size(results.dims));
    host.line(&format!("{images} images of {size}"));
    for (what, table) in [
        (
            "ms per image over the ratio of execution to transfer, E / (U + D)",
            curves("E/(U+D)", images, &results.ratio),
        ),
        (
            "ms per image over the position of a synchronisation, E1 / (E1 + E2)",
            curves("E1/E", images, &results.synchronisation),
        ),
        ("ms for all images between host and device", table("function", &results.functions)),
        (
            "ms for all images between files, each stage alone and streamed",
            disk_table(&results.disk),
        ),
    ] {
        if let Some(table) = table {
            host.line("");
            host.line(what);
            crate::table(host, &table);
        }
    }
}
