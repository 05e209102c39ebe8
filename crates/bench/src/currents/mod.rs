//! `voxalign bench currents`: distances of surfaces as currents, on a grid and pair by pair (L. K. Ha, 2011, figures 3.4
//! and 3.5).

mod errors;
mod shapes;
mod times;

use crate::files::{check, write};
use crate::sheet::{Sheet, ms};
use crate::{Host, Size};
use clap::{Args, ValueEnum};
use errors::ErrorPoint;
use serde::Serialize;
use std::path::PathBuf;
use times::TimePoint;
use voxalign_compute::Memory;
use voxalign_compute::select::AnyDevice;
use voxalign_jobs::check as stopped;
use voxalign_jobs::machine::{Auto, Running};
use voxalign_jobs::{Error, Result};
use voxalign_report::HostRecord;
use voxalign_report::curves::{Curve, CurveFigure, CurvesReport, Up, render};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Error of the grid over the kernel width in grid spacings
    Errors,
    /// Time of a distance with its derivative over the number of faces
    Times,
}

/// Arguments of `voxalign bench currents`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Surfaces are compared as currents: sums of a kernel over all pairs of their faces, computed pair by
pair or on a grid (splat, convolve, gather). `errors` gives the error of the grid in per cent of the
exact sum, for kernels of 1 to 10 grid spacings: for the norm of random points with random moments
(figure 3.4 of Ha, 2011), that of a surface, and the squared distance between two, each with its
derivative in the positions of the points. Registrations use grids from 3 spacings on. `times` gives
the time of one registration step, the squared distance and its derivative in every vertex, over the
number of faces (figure 3.5): on the default grid (3 spacings, 3.5 with --cauchy), pair by pair, and
pair by pair with a kernel of 60 mm; with narrow Gaussians, pairs that are too far apart are skipped.
Shapes are spheres with folds, 95x170x95 mm. Times are medians of warm runs.

Examples:
  voxalign bench currents --device cuda --html currents.html
  voxalign bench currents --parts errors
  voxalign bench currents --parts times --faces 20000,20000 --width 5")]
pub(crate) struct CurrentsArgs {
    /// What to measure [default: both]
    #[arg(long, value_enum, value_name = "PART,...", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Number of faces of the moving and the fixed surface, such as 20000,16000 [default: a list of
    /// pairs, up to these on the CPU and to 160535,127043 on a GPU]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    faces: Vec<u32>,
    /// Kernel width of `times`, mm
    #[arg(long, value_name = "MM", default_value_t = 3.6)]
    width: f64,
    /// Use the Cauchy kernel in `times` instead of the Gaussian
    #[arg(long)]
    cauchy: bool,
    /// Fewer widths, elements and faces
    #[arg(long)]
    quick: bool,
    /// Number of runs per measurement of `times`
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Write curves of the times and all tables; opens offline in any browser
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    html: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Print JSON, for programs; non-finite numbers become null
    #[arg(long)]
    json: bool,
}

/// Most faces of a surface.
const MOST_FACES: u32 = 4_000_000;

/// Pairs that are summed at most: what is more takes minutes on a CPU.
const MOST_PAIRS: [f64; 2] = [1e10, 1e12];

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: HostRecord,
    errors: Vec<ErrorPoint>,
    times: Vec<TimePoint>,
}

/// Measures and prints.
pub(super) fn run(args: &CurrentsArgs, host: &dyn Host) -> Result<()> {
    check(None, args.html.as_deref(), None)?;
    let wanted = |part| args.parts.is_empty() || args.parts.contains(&part);
    if !(args.width.is_finite() && (0.5..=200.0).contains(&args.width)) {
        return Err(Error::input(format!(
            "--width {} does not suit a surface of 170 mm; give 0.5 to 200 mm",
            args.width
        )));
    }
    if !matches!(args.faces.len(), 0 | 2) {
        return Err(Error::input("--faces takes two numbers, such as 20000,16000"));
    }
    if let Some(faces) = args.faces.iter().find(|f| !(100..=MOST_FACES).contains(*f)) {
        return Err(Error::input(format!(
            "--faces {faces}: give 100 to {MOST_FACES} for each surface"
        )));
    }
    if !args.faces.is_empty() && !wanted(Part::Times) {
        return Err(Error::input(
            "--faces is for the part times; add it to --parts, or leave --faces out",
        ));
    }
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let device = &machine.device;
    let is_gpu = matches!(device, AnyDevice::Cuda(_));
    let mut errors = Vec::new();
    if wanted(Part::Errors) {
        let all = [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
        let few = [1.0, 3.0, 4.0];
        let (elements, spacings) = if args.quick { (400, &few[..]) } else { (5000, &all[..]) };
        errors = errors::measure(device, elements, spacings, &|| stopped(host))?;
    }
    let mut times = Vec::new();
    if wanted(Part::Times) {
        let kernel = times::kernel(args.cauchy, args.width);
        let mut pairs = match args.faces[..] {
            [a, b] => vec![[a as usize, b as usize]],
            _ => sizes(args.quick, is_gpu),
        };
        pairs.dedup();
        for faces in pairs {
            stopped(host)?;
            let most = MOST_PAIRS[usize::from(is_gpu)];
            let found = times::measure(device, faces, kernel, args.repeat.into(), most)?;
            times.push(found);
        }
    }
    let results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: device.name(),
        threads: machine.threads,
        host: machine.record(),
        errors,
        times,
    };
    let sheets = results.sheets();
    if let Some(path) = &args.html {
        write(path, &results.page(&sheets))?;
    }
    if args.json {
        return crate::json(host, &results);
    }
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    sheets.iter().for_each(|sheet| sheet.print(host));
    Ok(())
}

/// The pairs of surfaces that are measured.
fn sizes(quick: bool, is_gpu: bool) -> Vec<[usize; 2]> {
    if quick {
        return vec![[400, 320], [1600, 1280]];
    }
    let mut sizes = vec![[1000, 800], [2000, 1600], [5000, 4000], [10_000, 8000], [20_000, 16_000]];
    if is_gpu {
        sizes.extend([[50_000, 40_000], [100_000, 80_000], [160_535, 127_043]]);
    }
    sizes
}

impl Results {
    fn sheets(&self) -> Vec<Sheet> {
        let mut sheets = Vec::new();
        for of_kernel in self.errors.chunk_by(|a, b| a.kernel == b.kernel) {
            let Some(first) = of_kernel.first() else { continue };
            let scenes: Vec<&[ErrorPoint]> = of_kernel.chunk_by(|a, b| a.what == b.what).collect();
            let headings = scenes.iter().flat_map(|s| {
                let what = s.first().map_or("", |p| p.what);
                [what.to_owned(), "gradient".to_owned()]
            });
            let mut sheet = Sheet::new(
                format!("Errors of the grid, per cent, {} kernel (figure 3.4)", first.kernel),
                std::iter::once("width / spacing".to_owned()).chain(headings),
            );
            for k in 0..scenes.first().map_or(0, |s| s.len()) {
                let per_cent = |v: f64| {
                    if v < 1e-4 { format!("{:.5}", 100.0 * v) } else { format!("{:.3}", 100.0 * v) }
                };
                let of = |s: &&[ErrorPoint]| {
                    s.get(k).map_or([f64::NAN; 2], |p| [p.value, p.gradient]).map(per_cent)
                };
                let n = scenes.first().and_then(|s| s.get(k)).map_or(f64::NAN, |p| p.spacings);
                sheet.row(std::iter::once(n.to_string()).chain(scenes.iter().flat_map(of)));
            }
            sheets.push(sheet);
        }
        if let Some(first) = self.times.first() {
            let mut sheet = Sheet::new(
                format!(
                    "Squared distance and derivative, ms, {} kernel of {} mm (figure 3.5)",
                    first.kernel, first.width
                ),
                [
                    "faces",
                    "pairs",
                    "grid",
                    "on the grid",
                    "off by",
                    "to begin",
                    "pair by pair",
                    "60 mm",
                ],
            );
            for t in &self.times {
                let time = |s: Option<f64>| s.map_or_else(|| "-".to_owned(), ms);
                sheet.row([
                    format!("{}, {}", t.faces[0], t.faces[1]),
                    format!("{:.2e}", t.pairs),
                    Size(t.grid).to_string(),
                    ms(t.grid_seconds),
                    t.off.map_or_else(|| "-".to_owned(), |v| format!("{:.4} %", 100.0 * v)),
                    ms(t.start_seconds),
                    time(t.exact_seconds),
                    time(t.all_pairs_seconds),
                ]);
            }
            sheets.push(sheet);
        }
        sheets
    }

    fn page(&self, sheets: &[Sheet]) -> String {
        let curve = |name: &str, of: &dyn Fn(&TimePoint) -> Option<f64>| Curve {
            name: name.into(),
            points: self
                .times
                .iter()
                .filter_map(|t| of(t).map(|s| (t.faces[0] as f64, s)))
                .collect(),
            level: None,
        };
        let curves = vec![
            curve("on the grid", &|t| Some(t.grid_seconds)),
            curve("pair by pair", &|t| t.exact_seconds),
            curve("pair by pair, 60 mm", &|t| t.all_pairs_seconds),
        ];
        let figures = if self.times.is_empty() {
            Vec::new()
        } else {
            let title = "Squared distance and derivative".into();
            let axis = "faces of the moving surface".into();
            vec![CurveFigure { title, axis, curves, up: Up::Times }]
        };
        render(&CurvesReport {
            title: "Distances of surfaces".into(),
            program: format!("voxalign {}", self.version),
            host: &self.host,
            command: voxalign_jobs::invoked::command(),
            note: "Surfaces as currents, spheres with folds of 95x170x95 mm; the grid has 3 spacings per kernel \
                width, 3.5 with the Cauchy kernel.".into(),
            figures,
            tables: sheets.iter().map(|s| s.of_page(1)).collect(),
        })
    }
}
