//! `voxalign bench`: measures the operators and the affine job on this machine.

use super::affine::register_only;
use super::demo::Pair;
use crate::args::{JsonArgs, RunArgs};
use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::output::{self, Table};
use clap::Args;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Instant;
use voxalign_compute::Memory;
use voxalign_compute::bench::{self, Measurement};
use voxalign_compute::cpu::Cpu;
use voxalign_register::linear::AffineOptions;

/// Arguments of `voxalign bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Every operator is measured on data already in memory: the median of several warm runs. GB/s counts
each input read once and each output written once; the last column is the part of the copy
bandwidth of this machine, measured in the same run. The affine job is the pair of `voxalign demo`:
the registration alone, in memory, and the whole command with reading and writing, first (cold) and
again (warm).")]
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
    registration_cold: f64,
    registration_warm: f64,
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
    let affine = if args.operators_only { None } else { Some(affine(&cpu)?) };
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

fn affine(cpu: &Cpu) -> Result<AffineTimes, Failure> {
    let pair = Pair::load()?;
    let options = AffineOptions::default();
    let register = || {
        interrupt::check()?;
        let start = Instant::now();
        let result = register_only(cpu, &pair.fixed, &pair.moving, &options)?;
        Ok::<_, Failure>((start.elapsed().as_secs_f64(), result))
    };
    let (registration_cold, result) = register()?;
    let (registration_warm, _) = register()?;
    let folder = tempfile::tempdir().map_err(|e| Failure::input(format!("no folder: {e}")))?;
    let command = || {
        interrupt::check()?;
        whole_command(folder.path(), cpu.threads())
    };
    Ok(AffineTimes {
        evaluations: result.stages.iter().map(|s| s.evaluations).sum(),
        registration_cold,
        registration_warm,
        command_cold: command()?,
        command_warm: command()?,
        verdict_good: result.verdict.good,
    })
}

/// Wall time of `voxalign demo` as a process of its own.
fn whole_command(folder: &Path, threads: usize) -> Result<f64, Failure> {
    let fail = |e: std::io::Error| Failure::Internal(format!("the program did not start: {e}"));
    let program = std::env::current_exe().map_err(fail)?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(["demo", "--quiet", "--threads", &threads.to_string(), "-o"])
        .arg(folder)
        .stdin(Stdio::null())
        .status()
        .map_err(fail)?;
    let seconds = start.elapsed().as_secs_f64();
    match status.code() {
        Some(0 | 1) => Ok(seconds),
        _ => Err(Failure::Internal(format!("`voxalign demo` ended with {status}"))),
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
        let mut table = Table::new(["affine, pair of the demo, full search", "cold s", "warm s"]);
        let seconds = |v: f64| format!("{v:.2}");
        table.row([
            format!("registration alone, {} evaluations", a.evaluations),
            seconds(a.registration_cold),
            seconds(a.registration_warm),
        ]);
        table.row(["whole command".to_owned(), seconds(a.command_cold), seconds(a.command_warm)]);
        output::line("");
        table.print();
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
