//! `voxalign bench histogram`: the design space of the histograms behind the similarities.

mod application;
mod files;

use super::Size;
use crate::Host;
use application::Application;
use clap::Args;
use std::path::PathBuf;
use voxalign_compute::ComputeError;
use voxalign_compute::bench::explore::{Axis, Effort, Exploration, Figure, Pair, Point, explore};
use voxalign_image::Volume;
use voxalign_io::image::read_volume;
use voxalign_jobs::check;
use voxalign_jobs::machine::{Auto, Running};
use voxalign_jobs::{Error, Result};
use voxalign_report::Table;

/// Arguments of `voxalign bench histogram`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
One evaluation of the similarity, in device time (the median of several warm runs, including the
transfer of the result to the host), over blocks, threads, bins and workload, for every scheme of the
correlation ratio and every method for joint histograms: figures 6 to 14 and 17 of Li et al. (2015).
Then the cost of each stage of grouping the samples (tables 7 to 9), and whole registrations with
each scheme (figures 15 and 16) of the pair of `voxalign demo`, or of --pair. A `-` marks combinations
that do not fit the device. The images of the figures are synthetic heads of --size, unless --pair
names others; those are compared as their headers place them.")]
pub(crate) struct HistogramArgs {
    /// Sizes of the images of the figures [default: 256x256x160, and 96x96x64 on the CPU]
    #[arg(long, value_name = "NxNxN", conflicts_with = "pair")]
    size: Option<Size>,
    /// Measure on these images
    #[arg(long, num_args = 2, value_names = ["FIXED", "MOVING"])]
    pair: Option<Vec<PathBuf>>,
    /// Fewer points on each axis and fewer runs
    #[arg(long)]
    quick: bool,
    /// Leave out the whole registrations
    #[arg(long)]
    no_application: bool,
    /// Write a row for every measurement
    #[arg(long, value_name = "FILE.csv", help_heading = "Output")]
    csv: Option<PathBuf>,
    /// Write plots and tables; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
}

/// All that was measured.
struct Results {
    device: String,
    images: String,
    found: Exploration,
    applications: Vec<Application>,
}

/// Measures and prints.
pub(crate) fn run(args: &HistogramArgs, host: &dyn Host) -> Result<()> {
    super::files::check(args.csv.as_deref(), args.html.as_deref(), args.pair.as_deref())?;
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let volumes = match args.pair.as_deref() {
        Some([fixed, moving]) => Some((read_volume(fixed)?, read_volume(moving)?)),
        _ => None,
    };
    let (pair, images) = match &volumes {
        Some((fixed, moving)) => (pair_of(fixed, moving), "the images of --pair".to_owned()),
        None => {
            let small = machine.gpu().is_none();
            let usual = if small { [96, 96, 64] } else { [256, 256, 160] };
            let size = args.size.map_or(usual, |s| s.0);
            (Pair::synthetic(size), format!("synthetic heads, {}", Size(size)))
        }
    };
    if [pair.fixed_dims, pair.moving_dims].iter().any(|d| d[0] < 2 || d[1] < 2) {
        return Err(Error::input("the images need at least 2 voxels along x and y"));
    }
    let effort = if args.quick { Effort::QUICK } else { Effort::FULL };
    let mut stopped = None;
    let mut go_on = || {
        check(host).map_err(|e| {
            stopped = Some(e);
            ComputeError::argument("the measurement", "interrupted", "left to finish")
        })
    };
    let found = explore(&machine.device, &pair, effort, &mut go_on);
    let found = match (found, stopped) {
        (_, Some(e)) => return Err(e),
        (found, None) => found?,
    };
    let applications = if args.no_application {
        Vec::new()
    } else {
        let missing = &found.missing;
        application::measure(&machine.device, volumes.as_ref(), missing, host)?
    };
    let results = Results { device: machine.name(), images, found, applications };
    if let Some(path) = &args.csv {
        super::files::write(path, &files::csv(&results))?;
    }
    if let Some(path) = &args.html {
        super::files::write(path, &files::html(&results, &machine.record()))?;
    }
    print(&results, host);
    Ok(())
}

/// Two images as their headers place them.
fn pair_of(fixed: &Volume<f32>, moving: &Volume<f32>) -> Pair {
    let map = fixed.grid().to_world().then(moving.grid().to_index());
    Pair {
        fixed: finite(fixed.data()),
        fixed_dims: fixed.grid().dims(),
        moving: finite(moving.data()),
        moving_dims: moving.grid().dims(),
        map: map.rows(),
    }
}

/// Values that are not finite count as none.
fn finite(values: &[f32]) -> Vec<f32> {
    values.iter().map(|v| if v.is_finite() { *v } else { 0.0 }).collect()
}

/// Milliseconds of a measurement.
fn milliseconds(point: Option<&Point>) -> String {
    match point {
        None => String::new(),
        Some(p) => p.seconds.map_or_else(|| "-".into(), |s| format!("{:.3}", s * 1e3)),
    }
}

/// A figure as a table: headings, and a row for every scheme.
fn rows_of(figure: &Figure) -> (Vec<String>, Vec<Vec<String>>) {
    let places = figure.places();
    let mut headings = vec![format!("ms over {}", figure.axis.name())];
    headings.extend(places.iter().map(usize::to_string));
    let rows = figure.schemes().into_iter().map(|scheme| {
        let of_scheme = || figure.points.iter().filter(|p| p.scheme == scheme);
        let mut row = vec![scheme.to_owned()];
        row.extend(places.iter().map(|&at| {
            // Where a scheme has no such parameter, its one time holds for all.
            let fits = |p: &&Point| p.at(figure.axis).is_none_or(|a| a == at);
            milliseconds(of_scheme().find(fits))
        }));
        row
    });
    let rows = rows.collect();
    (headings, rows)
}

const SORTING: [&str; 5] =
    ["grouping of samples", "voxels", "kernel us", "voxels/us", "with transfer us"];

fn sorting_rows(results: &Results) -> Vec<Vec<String>> {
    let row = |s: &voxalign_compute::bench::explore::Sorting| {
        vec![
            format!("stage {}", s.stage),
            s.voxels.to_string(),
            format!("{:.0}", s.kernel * 1e6),
            format!("{:.1}", s.voxels as f64 / (s.kernel * 1e6)),
            format!("{:.0}", s.overall * 1e6),
        ]
    };
    results.found.sorting.iter().map(row).collect()
}

const APPLICATION: [&str; 5] = ["whole registration", "cost", "seconds", "evaluations", "RMS"];

/// A note on the last column of the applications.
const RMS_NOTE: &str = "RMS: root mean square difference (equation 5) between the intensities, as stored in the \
    files, of the registered moving image and the fixed image, over the voxels of the fixed image that map into \
    the moving one";

fn application_rows(results: &Results) -> Vec<Vec<String>> {
    results.applications.iter().map(Application::row).collect()
}

fn print_table(
    host: &dyn Host,
    headings: impl IntoIterator<Item = String>,
    rows: Vec<Vec<String>>,
) {
    let mut table = Table::new(headings);
    rows.into_iter().for_each(|r| table.row(r));
    crate::table(host, &table);
}

fn print(results: &Results, host: &dyn Host) {
    host.line(&format!(
        "voxalign {} on {}; {}",
        env!("CARGO_PKG_VERSION"),
        results.device,
        results.images
    ));
    if !results.found.missing.is_empty() {
        host.line(&format!("need a GPU: {}", results.found.missing.join(", ")));
    }
    let mut why: Vec<&str> = Vec::new();
    for figure in &results.found.figures {
        host.line("");
        host.line(&figure.title);
        let (headings, rows) = rows_of(figure);
        print_table(host, headings, rows);
        why.extend(figure.points.iter().filter_map(|p| p.why_not.as_deref()));
    }
    if let Some(first) = why.first() {
        host.line("");
        host.line(&format!("-: {} combinations do not fit, such as: {first}", why.len()));
    }
    host.line("");
    host.line("Overhead of grouping (tables 7 to 9)");
    print_table(host, SORTING.map(String::from), sorting_rows(results));
    if !results.applications.is_empty() {
        host.line("");
        host.line("Whole registrations (figures 15 and 16)");
        print_table(host, APPLICATION.map(String::from), application_rows(results));
        host.line(RMS_NOTE);
    }
}

/// The name of the axis on a plot.
fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::Blocks => "blocks",
        Axis::Threads => "threads per block",
        Axis::Bins => "bins",
        Axis::Workload => "workload limit, samples per run",
    }
}
