//! `voxalign bench`: measures the operators and the affine job on this machine.

use super::affine::register_only;
use super::demo::Pair;
use crate::args::{JsonArgs, RunArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{self, Table};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::Memory;
use voxalign_compute::bench::{self, Measurement};
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::histogram::Scheme;
use voxalign_image::Volume;
use voxalign_io::image::read_volume;
use voxalign_register::Silent;
use voxalign_register::linear::{
    AffineInput, AffineOptions, AffineResult, Cost, DeviceInput, register_affine_on_device,
};
use voxalign_register::metric::level::LevelImages;
use voxalign_register::metric::range::robust_range;
use voxalign_register::metric::reference::correlation_ratio;
use voxalign_register::metric::{Level, LevelSettings};

/// Bins of the evaluations that are measured.
const BINS: usize = 256;

/// Arguments of `voxalign bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every operator is measured on data already in memory: the median of several warm runs. GB/s counts
each input read once and each output written once; the last column is the part of the copy
bandwidth of this machine, measured in the same run. The affine job is the pair of `voxalign demo`:
the registration alone, in memory, and the whole command with reading and writing, first (cold) and
again (warm); `--pair` takes another. Beside it stands one evaluation of the correlation ratio at
full resolution, and the same as the formula is written, one voxel after the other in double
precision; from the latter, how long the whole search would take that way.")]
pub(crate) struct BenchArgs {
    /// Sizes of the images for the operators
    #[arg(long, value_name = "NxNxN", default_value = "160x192x160")]
    size: Size,
    /// Measure the operators only
    #[arg(long, conflicts_with = "affine_only")]
    operators_only: bool,
    /// Measure the affine job only
    #[arg(long)]
    affine_only: bool,
    /// Measure the affine job on these images instead of the demo's
    #[arg(long, num_args = 2, value_names = ["FIXED", "MOVING"])]
    pair: Option<Vec<PathBuf>>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    json: JsonArgs,
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
            _ => Err("give sizes such as 160x192x160, or one number".into()),
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
    operators: Vec<Operator>,
    affine: Option<AffineTimes>,
}

/// An operator.
#[derive(Debug, Serialize)]
struct Operator {
    family: String,
    operator: String,
    dims: [usize; 3],
    milliseconds: f64,
    nanoseconds_per_voxel: f64,
    gb_per_s: f64,
    of_copy_bandwidth: f64,
}

impl From<&Measurement> for Operator {
    fn from(m: &Measurement) -> Self {
        Self {
            family: m.family.to_owned(),
            operator: m.operator.clone(),
            dims: m.dims,
            milliseconds: m.seconds * 1e3,
            nanoseconds_per_voxel: m.ns_per_voxel(),
            gb_per_s: m.gb_per_s,
            of_copy_bandwidth: m.of_copy,
        }
    }
}

/// The affine job, seconds.
#[derive(Debug, Serialize)]
struct AffineTimes {
    evaluations: usize,
    /// One evaluation of the correlation ratio at full resolution.
    evaluation: f64,
    /// With its derivative.
    evaluation_with_gradient: f64,
    /// As the formula is written.
    naive_evaluation: f64,
    /// What the search's evaluations would take that way.
    naive_search: f64,
    registration_cold: f64,
    registration_warm: f64,
    /// Of images that are in the memory of the device already.
    registration_on_device: f64,
    command_cold: f64,
    command_warm: f64,
    verdict_good: bool,
}

/// Measures and prints.
pub(crate) fn run(args: &BenchArgs) -> Result<Outcome, Failure> {
    let cpu = args.run.cpu()?;
    let operators = if args.affine_only {
        Vec::new()
    } else {
        bench::run(&cpu, args.size.0)?.iter().map(Operator::from).collect()
    };
    interrupt::check()?;
    let affine = if args.operators_only { None } else { Some(affine(&cpu, args.pair.as_deref())?) };
    let results = Results {
        version: env!("CARGO_PKG_VERSION"),
        device: cpu.name(),
        threads: cpu.threads(),
        operators,
        affine,
    };
    if args.json.json {
        output::json(&results)?;
    } else {
        print(&results);
    }
    Ok(Outcome::Good)
}

fn affine(cpu: &Cpu, files: Option<&[PathBuf]>) -> Result<AffineTimes, Failure> {
    let (fixed, moving) = match files {
        Some([fixed, moving]) => (read_volume(fixed)?, read_volume(moving)?),
        _ => {
            let pair = Pair::load()?;
            (pair.fixed, pair.moving)
        }
    };
    let options = AffineOptions::default();
    let register = || {
        interrupt::check()?;
        let start = Instant::now();
        let result = register_only(cpu, &fixed, &moving, &options)?;
        Ok::<_, Failure>((start.elapsed().as_secs_f64(), result))
    };
    let (registration_cold, result) = register()?;
    let (registration_warm, _) = register()?;
    let registration_on_device = on_device(cpu, &fixed, &moving, &options)?;
    let folder = tempfile::tempdir().map_err(|e| Failure::input(format!("no folder: {e}")))?;
    let command = || {
        interrupt::check()?;
        whole_command(folder.path(), cpu.threads(), files)
    };
    let naive_evaluation = {
        let range = robust_range(fixed.data(), 0.002, 0.998).unwrap_or((0.0, 1.0));
        let start = Instant::now();
        let cost = correlation_ratio(&fixed, &moving, &result.transform, range, BINS);
        std::hint::black_box(cost);
        start.elapsed().as_secs_f64()
    };
    let samples: usize = result.stages.iter().map(|s| s.samples * s.evaluations).sum();
    let naive_search = naive_evaluation * samples as f64 / fixed.grid().len() as f64;
    let [evaluation, evaluation_with_gradient] = fast_evaluation(cpu, fixed, moving, &result)?;
    Ok(AffineTimes {
        evaluation,
        evaluation_with_gradient,
        naive_evaluation,
        naive_search,
        evaluations: result.stages.iter().map(|s| s.evaluations).sum(),
        registration_cold,
        registration_warm,
        registration_on_device,
        command_cold: command()?,
        command_warm: command()?,
        verdict_good: result.verdict.good,
    })
}

/// Median seconds of the registration of images that are on the device.
fn on_device(
    cpu: &Cpu,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
) -> Result<f64, Failure> {
    let images =
        AffineInput { fixed, moving, fixed_mask: None, moving_mask: None, fixed_weight: None };
    let images = DeviceInput::upload(cpu, &images)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        interrupt::check()?;
        let start = Instant::now();
        let result = register_affine_on_device(cpu, &images, options, &Silent)?;
        std::hint::black_box(result);
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Median seconds of one evaluation at full resolution, without and with its derivative.
fn fast_evaluation(
    cpu: &Cpu,
    fixed: Volume<f32>,
    moving: Volume<f32>,
    result: &AffineResult,
) -> Result<[f64; 2], Failure> {
    let (fixed_grid, fixed) = fixed.into_parts();
    let (moving_grid, moving) = moving.into_parts();
    let images = LevelImages {
        fixed_grid,
        fixed: Arc::new(cpu.upload_vec(fixed)?),
        fixed_weight: None,
        moving_grid,
        moving: Arc::new(cpu.upload_vec(moving)?),
        moving_mask: None,
    };
    let settings =
        LevelSettings { cost: Cost::Cr, bins: BINS, border: 0.0, scheme: Scheme::default() };
    let level = Level::new(cpu, images, settings)?;
    let mut medians = [0.0; 2];
    for (median, gradient) in medians.iter_mut().zip([false, true]) {
        let mut times = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            std::hint::black_box(level.evaluate(&[result.transform], gradient)?);
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        *median = times[times.len() / 2];
    }
    Ok(medians)
}

/// Wall time of `voxalign demo`, or of `voxalign affine` on the files, as a process of its own.
fn whole_command(folder: &Path, threads: usize, files: Option<&[PathBuf]>) -> Result<f64, Failure> {
    let fail = |e: std::io::Error| Failure::Internal(format!("the program did not start: {e}"));
    let program = std::env::current_exe().map_err(fail)?;
    let start = Instant::now();
    let status = Command::new(program)
        .arg(if files.is_some() { "affine" } else { "demo" })
        .args(files.unwrap_or_default())
        .args(["--quiet", "--threads", &threads.to_string(), "-o"])
        .arg(folder)
        .stdin(Stdio::null())
        .status()
        .map_err(fail)?;
    let seconds = start.elapsed().as_secs_f64();
    match status.code() {
        Some(0 | 1) => Ok(seconds),
        _ => Err(Failure::Internal(format!("the whole command ended with {status}"))),
    }
}

fn print(results: &Results) {
    output::line(&format!("voxalign {} on {}", results.version, results.device));
    if !results.operators.is_empty() {
        let headings = ["family: operator", "size", "ms", "ns/voxel", "GB/s", "of copy bandwidth"];
        let mut table = Table::new(headings);
        for o in &results.operators {
            table.row([
                format!("{}: {}", o.family, o.operator),
                Size(o.dims).to_string(),
                format!("{:.3}", o.milliseconds),
                format!("{:.3}", o.nanoseconds_per_voxel),
                format!("{:.2}", o.gb_per_s),
                format!("{:.0} %", o.of_copy_bandwidth * 100.0),
            ]);
        }
        output::line("");
        table.print();
    }
    if let Some(a) = &results.affine {
        let mut table = Table::new(["affine, full search", "cold s", "warm s"]);
        let seconds = |v: f64| format!("{v:.2}");
        table.row([
            format!("registration alone, {} evaluations", a.evaluations),
            seconds(a.registration_cold),
            seconds(a.registration_warm),
        ]);
        table.row([
            "registration alone, images on the device".to_owned(),
            String::new(),
            seconds(a.registration_on_device),
        ]);
        table.row(["whole command".to_owned(), seconds(a.command_cold), seconds(a.command_warm)]);
        output::line("");
        table.print();
        let mut table = Table::new(["correlation ratio, 256 bins, full resolution", "ms", "ratio"]);
        for (name, seconds) in [
            ("as written: one thread, double precision", a.naive_evaluation),
            ("conflict-free", a.evaluation),
            ("conflict-free, with derivative", a.evaluation_with_gradient),
        ] {
            let ratio = format!("{:.1}", a.naive_evaluation / seconds);
            table.row([name.to_owned(), format!("{:.1}", seconds * 1e3), ratio]);
        }
        output::line("");
        table.print();
        output::line("");
        output::line(&format!(
            "the same evaluations as written would take {:.1} s, {:.0} times the registration",
            a.naive_search,
            a.naive_search / a.registration_warm
        ));
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
