//! `voxalign bench drr`: X-ray images of volumes over optimisation rules, threads per block and numbers of
//! pixels (Tornai 2014, chapter 2 and appendix C), and as the program renders them.

mod batch;
mod calls;
mod cpu;
mod files;
mod plan;
mod scene;
mod sweep;

use super::Size;
use super::files::write;
use crate::Host;
use batch::Batch;
use calls::Call;
use clap::{Args, ValueEnum};
use cpu::OnCpu;
use plan::Plan;
use scene::Sizes;
use serde::Serialize;
use std::path::PathBuf;
use sweep::{Over, Point};
use voxalign_compute::Memory;
use voxalign_compute::bench::rays::{Manner, Shot, timed};
use voxalign_compute::select::{AnyDevice, AnyRayVolume};
use voxalign_jobs::machine::{Auto, Running};
use voxalign_jobs::{Error, Result, check};
use voxalign_report::{HostRecord, Table};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The kernel with and without each of four optimisation rules
    Rules,
    /// The kernel over the number of threads per block, with one ray per thread, and in the default blocks
    Blocks,
    /// Kernel and whole call for the region, for 1024 random pixels, and for an empty launch
    Calls,
    /// Frames of 32 poses at once, with and without derivatives
    Batch,
    /// The CPU, with all threads and with one
    Cpu,
}

/// Arguments of `voxalign bench drr`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A digitally reconstructed radiograph (DRR) is the X-ray image of a volume: integrals of attenuation
along rays from a source to the pixels of a detector. The volumes are a trunk made of ellipsoids.

`rules`, `blocks` and `calls` use a region of 400x225 pixels of 0.4 mm in the middle of a detector of
750x750, 1536 mm from the source; the isocentre, the middle of the volume, is 1000 mm from it. Samples
are 0.521 mm apart. Every launch has a different pose (rotated by up to 15 degrees about each axis,
translated by up to 20 mm along each) and different random pixels; times are means and medians of
--repeat launches, of the kernel alone, all queued before the first one starts. The rules of Tornai
(2014, section 2.3.2) are left out one by one: 1 selection instead of branches, 2 texture memory,
3 fast division, 4 reciprocals; each time is for the best block size. `blocks` has one ray per thread
in one-dimensional blocks, as in the thesis, and then the default blocks: few rays are each shared by
several threads, and the rays of the whole region are in two-dimensional blocks. A CPU has neither
rules nor blocks: there `rules` and `blocks` give the time over the number of pixels.

A call is one image as the program requests it, in wall time until it is on the device. `batch` has
frames of 200x200 pixels of 2 mm, 1020 mm from the source with the isocentre at 850 mm, with 500
sample planes between source and detector, through 512x512x133 voxels of 0.703, 0.703 and 2.5 mm.
Samples inside are those in the volume; samples taken are those that are not skipped as empty space,
for rays on their own.

Examples:
  voxalign bench drr --device cuda --html drr.html --csv drr.csv
  voxalign bench drr --device cuda --parts blocks --volumes spine,long
  voxalign bench drr --quick --parts calls,cpu")]
pub(crate) struct DrrArgs {
    /// What to measure [default: all]
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Volumes of `rules` and `blocks` [default: spine]
    #[arg(long, value_enum, value_name = "VOLUME,...", value_delimiter = ',')]
    volumes: Vec<Sizes>,
    /// Make the voxels and the sample spacing of all volumes N times as large
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    coarser: u8,
    /// Fewer pixel counts, block sizes and launches
    #[arg(long)]
    quick: bool,
    /// Number of launches per measurement [default: 100 on a GPU, 10 on the CPU and with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,
    /// Write a row for every measurement
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write plots and tables; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// Times of launches, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
struct Times {
    #[serde(rename = "mean_us")]
    mean: f64,
    #[serde(rename = "median_us")]
    median: f64,
    #[serde(rename = "least_us")]
    least: f64,
}

impl Times {
    /// From seconds.
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let n = seconds.len().max(1);
        let at = |i: usize| seconds.get(i).map_or(0.0, |s| s * 1e6);
        let mean = seconds.iter().sum::<f64>() * 1e6 / n as f64;
        Self { mean, median: (at((n - 1) / 2) + at(n / 2)) / 2.0, least: at(0) }
    }
}

/// A table.
#[derive(Debug, Clone)]
struct Sheet {
    title: String,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    fn new<S: Into<String>>(title: String, headings: impl IntoIterator<Item = S>) -> Self {
        let headings = headings.into_iter().map(Into::into).collect();
        Self { title, headings, rows: Vec::new() }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

/// Where measurements are made.
struct Bench<'b> {
    device: &'b AnyDevice,
    /// Threads of the host.
    threads: usize,
    host: &'b dyn Host,
    plan: &'b Plan,
}

impl Bench<'_> {
    /// Whether there are kernels.
    fn is_gpu(&self) -> bool {
        matches!(self.device, AnyDevice::Cuda(_))
    }

    /// The device's times of images.
    fn times(&self, volume: &AnyRayVolume, manner: &Manner, shots: &[Shot]) -> Result<Times> {
        check(self.host)?;
        Ok(Times::of(timed(self.device, volume, manner, shots)?.seconds))
    }

    fn measure(&self, parts: &[Part], results: &mut Results) -> Result<()> {
        let wanted = |part| parts.is_empty() || parts.contains(&part);
        let over = Over { rules: wanted(Part::Rules), blocks: wanted(Part::Blocks) };
        if over.rules || over.blocks {
            results.points = sweep::measure(self, over)?;
        }
        if wanted(Part::Calls) {
            results.calls = calls::measure(self)?;
        }
        if wanted(Part::Batch) {
            (results.batch, results.batch_samples) = batch::measure(self)?;
        }
        if wanted(Part::Cpu) {
            results.cpu = cpu::measure(self)?;
        }
        Ok(())
    }
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: HostRecord,
    repeat: usize,
    coarser: usize,
    region: [usize; 2],
    /// Over pixels, rules and blocks.
    points: Vec<Point>,
    calls: Vec<Call>,
    batch: Vec<Batch>,
    /// Of a ray on average: between source and detector, inside, taken.
    batch_samples: [f64; 3],
    cpu: Vec<OnCpu>,
}

/// Measures and prints.
pub(super) fn run(args: &DrrArgs, host: &dyn Host) -> Result<()> {
    super::files::check(args.csv.as_deref(), args.html.as_deref(), None)?;
    let over = [Part::Rules, Part::Blocks];
    if !args.volumes.is_empty()
        && !args.parts.is_empty()
        && !over.iter().any(|part| args.parts.contains(part))
    {
        return Err(Error::input(
            "--volumes is for the parts rules and blocks; add one of them to --parts, or leave it out",
        ));
    }
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let mut plan = if args.quick { Plan::quick() } else { Plan::default() };
    if machine.gpu().is_none() {
        plan.repeat = 10;
    }
    plan.repeat = args.repeat.map_or(plan.repeat, usize::from);
    plan.coarser = args.coarser.into();
    if !args.volumes.is_empty() {
        plan.volumes.clone_from(&args.volumes);
        plan.volumes.dedup();
    }
    let mut results = Results::new(&machine.device, machine.threads, machine.record(), &plan);
    let bench = Bench { device: &machine.device, threads: machine.threads, host, plan: &plan };
    bench.measure(&args.parts, &mut results)?;
    let sheets = results.sheets(&plan)?;
    if let Some(path) = &args.csv {
        write(path, &files::csv(&results))?;
    }
    if let Some(path) = &args.html {
        write(path, &files::html(&results, &plan, &sheets))?;
    }
    if args.json {
        return crate::json(host, &results);
    }
    print(&results, &plan, &sheets, host);
    Ok(())
}

/// A note for the reader of the tables.
fn note(plan: &Plan) -> String {
    let [columns, rows] = plan.region;
    format!(
        "A region of {columns}x{rows} pixels of 0.4 mm, 1536 mm from the source with the isocentre at 1000 mm; \
         samples {:.3} mm apart; each of {} launches per measurement has a different pose and different pixels.",
        0.521 * plan.coarser as f64,
        plan.repeat
    )
}

impl Results {
    /// Nothing measured yet.
    fn new(device: &AnyDevice, threads: usize, host: HostRecord, plan: &Plan) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            device: device.name(),
            threads,
            host,
            repeat: plan.repeat,
            coarser: plan.coarser,
            region: plan.region,
            points: Vec::new(),
            calls: Vec::new(),
            batch: Vec::new(),
            batch_samples: [0.0; 3],
            cpu: Vec::new(),
        }
    }

    /// All tables.
    fn sheets(&self, plan: &Plan) -> Result<Vec<Sheet>> {
        let mut sheets = Vec::new();
        let has = |name: &str| self.points.iter().any(|p| p.volume == name);
        for sizes in plan.volumes.iter().filter(|v| has(v.name())) {
            sheets.extend(sweep::sheets(&self.points, sizes.name()));
        }
        sheets.extend(calls::sheet(&self.calls));
        let words = batch::scene(plan.coarser)?.words();
        sheets.extend(batch::sheet(&self.batch, self.batch_samples, &words));
        sheets.extend(cpu::sheet(&self.cpu, plan.region[0] * plan.region[1]));
        Ok(sheets)
    }
}

fn print(results: &Results, plan: &Plan, sheets: &[Sheet], host: &dyn Host) {
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    host.line(&note(plan));
    if !results.points.is_empty() && results.points.iter().all(|p| p.block.is_none()) {
        host.line("Rules and blocks of threads are for GPUs: give --device cuda for them.");
    }
    for sheet in sheets {
        host.line("");
        host.line(&sheet.title);
        let mut table = Table::new(sheet.headings.iter().cloned());
        sheet.rows.iter().for_each(|row| table.row(row.iter().cloned()));
        crate::table(host, &table);
    }
}

#[cfg(test)]
mod tests;
