//! `voxalign bench splat`: all voxels of a grid, displaced by three kinds of field, by every scheme (L. K. Ha,
//! 2011, table 3.2).

use crate::files::{check, quoted, write};
use crate::sheet::{Sheet, ms};
use crate::{Host, Size};
use clap::Args;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use voxalign_compute::Memory;
use voxalign_compute::bench::splat::{FIELDS, FieldTime, times};
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::SplatScheme;
use voxalign_compute::ops::splat::Spline;
use voxalign_compute::select::AnyDevice;
use voxalign_jobs::machine::{Auto, Running};
use voxalign_jobs::{Result, check as stopped};
use voxalign_report::HostRecord;
use voxalign_report::curves::{CurvesReport, render};

/// Arguments of `voxalign bench splat`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Splatting is the adjoint of interpolation: every voxel of a grid adds its value to the eight voxels
around the point that a field maps it to. `random` fields map voxels anywhere, `diffeomorphic` ones
move them smoothly by some voxels, as in brain registration, and `singular` ones map all to one point:
table 3.2 of Ha (2011), whose best time of each row is the last column (NVIDIA GTX 260). Times are
medians of warm runs in device time, including clearing the sums and converting them to floats. All
schemes of a GPU give the same bits; the CPU has a scheme of its own. Memory is GPU memory, including
values, field and output.

Examples:
  voxalign bench splat --device cuda
  voxalign bench splat --size 64x64x64 --json")]
pub(crate) struct SplatArgs {
    /// Sizes of the grid [default: 144x192x160 and 160x224x160]
    #[arg(long, value_name = "NxNxN")]
    size: Vec<Size>,
    /// Leave out the CPU where a GPU is measured
    #[arg(long)]
    no_cpu: bool,
    /// Write a row for every measurement
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

/// The grids of the table, and the best times of its rows, in the order of the fields.
const PUBLISHED: [([usize; 3], [f64; 3]); 2] =
    [([144, 192, 160], [0.029, 0.014, 0.040]), ([160, 224, 160], [0.075, 0.021, 0.144])];

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    dims: [usize; 3],
    field: &'static str,
    /// `shared`, `atomic`, `sorted`, `cpu`, or `gathered` and `gathered on the cpu`.
    scheme: String,
    milliseconds: f64,
    /// Of a GPU, with values, field and output.
    bytes: Option<u64>,
    /// The best of the row that was published.
    published_milliseconds: Option<f64>,
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Results {
    version: &'static str,
    device: String,
    threads: usize,
    host: HostRecord,
    rows: Vec<Row>,
}

/// Measures and prints.
pub(super) fn run(args: &SplatArgs, host: &dyn Host) -> Result<()> {
    check(args.csv.as_deref(), args.html.as_deref(), None)?;
    let machine = host.machine(args.running.machine, Auto::Cpu)?;
    let mut sizes: Vec<[usize; 3]> = args.size.iter().map(|s| s.0).collect();
    if sizes.is_empty() {
        sizes = PUBLISHED.iter().map(|p| p.0).collect();
    }
    let mut rows = Vec::new();
    for dims in sizes {
        stopped(host)?;
        let is_gpu = matches!(machine.device, AnyDevice::Cuda(_));
        if is_gpu {
            let found = times(&machine.device, dims, &SplatScheme::ALL)?;
            rows.extend(found.iter().map(|t| Row::new(dims, t, true)));
        }
        if !(is_gpu && args.no_cpu) {
            stopped(host)?;
            let cpu = Cpu::new(Some(machine.threads))?;
            let found = times(&cpu, dims, &[SplatScheme::default()])?;
            rows.extend(found.iter().map(|t| Row::new(dims, t, false)));
        }
    }
    let results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: machine.device.name(),
        threads: machine.threads,
        host: machine.record(),
        rows,
    };
    let sheets = sheets(&results.rows);
    if let Some(path) = &args.csv {
        write(path, &csv(&results))?;
    }
    if let Some(path) = &args.html {
        let page = render(&CurvesReport {
            title: "Splatting".into(),
            program: format!("voxalign {}", results.version),
            host: &results.host,
            command: voxalign_jobs::invoked::command(),
            note: "Every voxel of a grid adds its value to the eight voxels around the point that a field maps \
                it to; times in milliseconds."
                .into(),
            figures: Vec::new(),
            tables: sheets.iter().map(|s| s.of_page(1)).collect(),
        });
        write(path, &page)?;
    }
    if args.json {
        return crate::json(host, &results);
    }
    host.line(&format!("voxalign {} on {}", results.version, results.device));
    sheets.iter().for_each(|sheet| sheet.print(host));
    Ok(())
}

impl Row {
    fn new(dims: [usize; 3], time: &FieldTime, is_gpu: bool) -> Self {
        let n = dims.iter().product::<usize>();
        let scheme = match (time.scheme, is_gpu) {
            (Some(scheme), true) => format!("{scheme:?}").to_lowercase(),
            (Some(_), false) => "cpu".to_owned(),
            (None, true) => "gathered".to_owned(),
            (None, false) => "gathered on the cpu".to_owned(),
        };
        let beside = |s: SplatScheme| s.bytes(n, n, Spline::Linear);
        let published = PUBLISHED.iter().find(|p| p.0 == dims && time.scheme.is_some());
        let number = FIELDS.iter().position(|&f| f == time.field);
        Self {
            dims,
            field: time.field,
            scheme,
            milliseconds: time.seconds * 1e3,
            bytes: is_gpu.then(|| 20 * n as u64 + time.scheme.map_or(0, beside)),
            published_milliseconds: published
                .zip(number)
                .and_then(|(p, k)| p.1.get(k).map(|s| s * 1e3)),
        }
    }
}

/// A table for each grid, and what the schemes take.
fn sheets(rows: &[Row]) -> Vec<Sheet> {
    let mut sheets = Vec::new();
    for of_grid in rows.chunk_by(|a, b| a.dims == b.dims) {
        let Some(first) = of_grid.first() else { continue };
        let mut schemes: Vec<&str> = Vec::new();
        for row in of_grid {
            if !schemes.contains(&row.scheme.as_str()) {
                schemes.push(&row.scheme);
            }
        }
        let headings = std::iter::once("field, ms").chain(schemes.iter().copied());
        let mut sheet = Sheet::new(
            Size(first.dims).to_string(),
            headings.chain(["published, best"]).map(str::to_owned),
        );
        let of = |field: &str, scheme: &str| {
            of_grid.iter().find(|r| r.field == field && r.scheme == scheme)
        };
        for field in FIELDS {
            let time =
                |scheme: &&str| of(field, scheme).map_or(f64::NAN, |r| r.milliseconds * 1e-3);
            let mut cells = vec![field.to_owned()];
            cells.extend(schemes.iter().map(|s| ms(time(s))));
            let published = of_grid.iter().find(|r| r.field == field);
            let published = published.and_then(|r| r.published_milliseconds);
            cells.push(published.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}")));
            sheet.row(cells);
        }
        let mut cells = vec!["memory, MiB".to_owned()];
        cells.extend(schemes.iter().map(|s| {
            let bytes = of(FIELDS[0], s).and_then(|r| r.bytes);
            bytes.map_or_else(|| "-".to_owned(), |b| format!("{:.0}", b as f64 / (1 << 20) as f64))
        }));
        cells.push("-".to_owned());
        sheet.row(cells);
        sheets.push(sheet);
    }
    sheets
}

/// A row for every measurement.
fn csv(results: &Results) -> String {
    let mut text = "version,device,size,field,scheme,milliseconds,bytes\n".to_owned();
    for r in &results.rows {
        let bytes = r.bytes.map_or_else(String::new, |b| b.to_string());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{:.6},{bytes}",
            quoted(results.version),
            quoted(&results.device),
            Size(r.dims),
            r.field,
            r.scheme,
            r.milliseconds
        );
    }
    text
}
