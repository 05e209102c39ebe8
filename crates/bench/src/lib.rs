//! Benchmarks on the machine at hand: the operators, with the fraction of the copy bandwidth that they reach,
//! and the jobs. They are part of the program, `voxalign bench`, which gives them a [`Host`] that starts
//! devices and takes the lines of the results.

mod affine;
mod atlas;
mod currents;
mod deform;
mod distributed;
mod drr;
mod elastic;
mod files;
mod histogram;
mod segment;
mod sheet;
mod splat;
mod stream;

use affine::AffineTimes;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;
use std::str::FromStr;
use voxalign_compute::ComputeError;
use voxalign_compute::bench::{self, Measurement, Settings};
use voxalign_image::memory::amount;
use voxalign_jobs::check;
use voxalign_jobs::machine::{Auto, Machine, MachineOptions, Running};
use voxalign_jobs::{Error, Listener, Result};
use voxalign_options::text;
use voxalign_report::Table;

/// The least size of an array on a GPU whose copy defines its bandwidth, bytes.
const GPU_COPY: usize = 256 << 20;

/// A program that measures.
pub trait Host: Listener {
    /// Takes a line of a result.
    fn line(&self, text: &str);

    /// Starts a device, and the threads beside it.
    ///
    /// # Errors
    /// A device that is not there.
    fn machine(&self, options: MachineOptions, auto: Auto) -> Result<Machine>;

    /// Starts the devices of all processes, of which this one has this many GPUs: the [team](Machine::team) of the
    /// machine.
    ///
    /// # Errors
    /// As of [`machine`](Self::machine).
    fn team(&self, options: MachineOptions, gpus: Option<usize>) -> Result<Machine>;

    /// Clears the progress display.
    fn finish(&self);
}

/// Gives a result as indented JSON.
fn json(host: &dyn Host, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Error::Internal(e.to_string()))?;
    host.line(&text);
    Ok(())
}

/// Gives a table.
fn table(host: &dyn Host, table: &Table) {
    host.line(table.render().trim_end_matches('\n'));
}

/// Arguments of `voxalign bench`.
#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Every operator is measured on data that is already on the device: the median of several warm runs,
in device time (on a GPU by its own events). MB counts each input as read once and each output as
written once (a filter along several axes once for each); the last column is the fraction of the
copy bandwidth of the device, measured in the same run: on the CPU with images of --size, on a
GPU with arrays that exceed its cache (256 MiB and more).
The affine registration is that of the pair of `voxalign demo`: the registration alone, in memory,
and the whole command including reading and writing, the first time (cold) and again (warm); `--pair`
names another pair. It is compared with one evaluation of the correlation ratio at full resolution,
and with the same evaluation computed directly from the formula, voxel by voxel in double precision,
which shows how long the whole search would take that way."
)]
pub struct BenchArgs {
    #[command(subcommand)]
    special: Option<Special>,
    /// Sizes of the images for the operators [default: 160x192x160, and 256x256x256 on a GPU]
    #[arg(long, value_name = "NxNxN")]
    size: Option<Size>,
    /// Measure the operators only
    #[arg(long, conflicts_with = "affine_only")]
    operators_only: bool,
    /// Measure these families of operators only, such as `filter,sort`, and not the affine
    /// registration
    #[arg(
        long,
        value_name = "FAMILY,...",
        value_delimiter = ',',
        value_parser = bench::FAMILIES,
        conflicts_with = "affine_only"
    )]
    only: Vec<String>,
    /// Measure the affine registration only
    #[arg(long, conflicts_with = "size")]
    affine_only: bool,
    /// Measure the affine registration of these images instead of the demo's
    #[arg(long, num_args = 2, value_names = ["FIXED", "MOVING"], conflicts_with_all = ["operators_only", "only"])]
    pair: Option<Vec<PathBuf>>,
    /// Write all measurements as a CSV table
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write all measurements as bars and tables; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// In-depth measurements, each a command of its own: `voxalign bench NAME`, with a file next to this one for its
/// arguments and its work.
#[derive(Debug, Clone, Subcommand)]
enum Special {
    /// All schemes for the correlation ratio and joint histograms, over their parameters
    Histogram(histogram::HistogramArgs),
    /// Deformable registration: iterations, whole registrations, overlap with every model
    Deform(deform::DeformBenchArgs),
    /// The iterations of an atlas of many images
    Atlas(Box<atlas::AtlasBenchArgs>),
    /// Streaming of many images: all models, synchronisations, operators
    Stream(stream::StreamBenchArgs),
    /// X-ray images of volumes: rules of optimisation, blocks of threads, frames a second
    Drr(drr::DrrArgs),
    /// Splatting of displaced voxels: every scheme and kind of field
    Splat(splat::SplatArgs),
    /// Distances of surfaces as currents: errors of the grid, times over the number of faces
    Currents(currents::CurrentsArgs),
    /// Elastic registration: interpolation, displacement, transfers, the steps of a whole registration
    Elastic(elastic::ElasticBenchArgs),
    /// Fast level sets: iterations from circles and squares, planner and evolution apart
    Segment(segment::SegmentBenchArgs),
    /// Joint histograms of images that are spread over ranks: strategies, angles, memory transactions
    Distributed(Box<distributed::DistributedArgs>),
}

/// Sizes along x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size([usize; 3]);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Option<Vec<usize>> = text.split('x').map(|p| p.trim().parse().ok()).collect();
        match parts.as_deref() {
            Some(&[n]) if n > 0 => Ok(Size([n; 3])),
            Some(&[x, y, z]) if x > 0 && y > 0 && z > 0 => Ok(Size([x, y, z])),
            _ => Err("give sizes such as 160x192x160, or one number for all axes".into()),
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.0[0], self.0[1], self.0[2])
    }
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: voxalign_report::HostRecord,
    operators: Vec<Operator>,
    affine: Option<AffineTimes>,
}

/// An operator.
#[derive(Debug, Serialize)]
struct Operator {
    family: String,
    operator: String,
    dims: [usize; 3],
    bytes: u64,
    milliseconds: f64,
    nanoseconds_per_voxel: f64,
    gb_per_s: f64,
    of_copy_bandwidth: f64,
}

impl BenchArgs {
    /// How it runs.
    #[must_use]
    pub fn running(&self) -> Running {
        match &self.special {
            Some(Special::Histogram(args)) => args.running,
            Some(Special::Deform(args)) => args.running,
            Some(Special::Atlas(args)) => args.running,
            Some(Special::Stream(args)) => args.running,
            Some(Special::Drr(args)) => args.running,
            Some(Special::Splat(args)) => args.running,
            Some(Special::Currents(args)) => args.running,
            Some(Special::Elastic(args)) => args.running,
            Some(Special::Segment(args)) => args.running,
            Some(Special::Distributed(args)) => args.running,
            None => self.running,
        }
    }
}

impl From<&Measurement> for Operator {
    fn from(m: &Measurement) -> Self {
        Self {
            family: m.family.to_owned(),
            operator: m.operator.clone(),
            dims: m.dims,
            bytes: m.bytes,
            milliseconds: m.seconds * 1e3,
            nanoseconds_per_voxel: m.ns_per_voxel(),
            gb_per_s: m.gb_per_s,
            of_copy_bandwidth: m.of_copy,
        }
    }
}

/// Measures and prints.
///
/// # Errors
/// What cannot be measured, or written.
pub fn run(args: &BenchArgs, host: &dyn Host) -> Result<()> {
    if let Some(special) = &args.special {
        return match special {
            Special::Histogram(args) => histogram::run(args, host),
            Special::Deform(args) => deform::run(args, host),
            Special::Atlas(args) => atlas::run(args, host),
            Special::Stream(args) => stream::run(args, host),
            Special::Drr(args) => drr::run(args, host),
            Special::Splat(args) => splat::run(args, host),
            Special::Currents(args) => currents::run(args, host),
            Special::Elastic(args) => elastic::run(args, host),
            Special::Segment(args) => segment::run(args, host),
            Special::Distributed(args) => distributed::run(args, host),
        };
    }
    files::check(args.csv.as_deref(), args.html.as_deref(), args.pair.as_deref())?;
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let operators =
        if args.affine_only { Vec::new() } else { operators(&machine, &settings(args, &machine))? };
    check(host)?;
    let affine = if args.operators_only || !args.only.is_empty() {
        None
    } else {
        Some(affine::measure(&machine, args.pair.as_deref(), host)?)
    };
    let results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: machine.name(),
        threads: machine.threads,
        host: machine.record(),
        operators,
        affine,
    };
    if let Some(path) = &args.csv {
        files::write(path, &files::csv(&results))?;
    }
    if let Some(path) = &args.html {
        files::write(path, &files::html(&results))?;
    }
    if args.json {
        json(host, &results)?;
    } else {
        print(&results, host);
    }
    Ok(())
}

/// Defaults that suit the device.
fn settings(args: &BenchArgs, machine: &Machine) -> Settings {
    let gpu = machine.gpu();
    let usual = if gpu.is_some() { [256; 3] } else { [160, 192, 160] };
    let dims = args.size.map_or(usual, |s| s.0);
    // Four times the cache, so that most of the array is not in it.
    let copy_bytes = gpu.map_or(0, |g| GPU_COPY.max(4 * g.l2_cache as usize));
    Settings { dims, copy_bytes, families: args.only.clone() }
}

fn operators(machine: &Machine, settings: &Settings) -> Result<Vec<Operator>> {
    // Said before anything is made, and in the words of the options.
    settings.check_memory(&machine.device).map_err(|error| {
        let ComputeError::OutOfMemory { device, bytes, free: Some(free) } = error else {
            return error.into();
        };
        Error::Input(text!(
            "images of {} are too large: they need at least {} of memory, and {device} has {} free; give a \
             smaller `size`",
            Size(settings.dims),
            amount(bytes),
            amount(free),
        ))
    })?;
    let measured = bench::run(&machine.device, settings)?;
    Ok(measured.iter().map(Operator::from).collect())
}

fn print(results: &Results, host: &dyn Host) {
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    if !results.operators.is_empty() {
        let headings =
            ["family: operator", "size", "ms", "ns/voxel", "MB", "GB/s", "of copy bandwidth"];
        let mut table = Table::new(headings);
        for o in &results.operators {
            table.row([
                format!("{}: {}", o.family, o.operator),
                Size(o.dims).to_string(),
                format!("{:.4}", o.milliseconds),
                format!("{:.3}", o.nanoseconds_per_voxel),
                format!("{:.1}", o.bytes as f64 * 1e-6),
                format!("{:.2}", o.gb_per_s),
                format!("{:.0} %", o.of_copy_bandwidth * 100.0),
            ]);
        }
        host.line("");
        crate::table(host, &table);
    }
    if let Some(times) = &results.affine {
        times.print(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!("32".parse(), Ok(Size([32; 3])));
        assert_eq!("1x2x3".parse(), Ok(Size([1, 2, 3])));
        for bad in ["", "0", "1x2", "axbxc", "-1"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
