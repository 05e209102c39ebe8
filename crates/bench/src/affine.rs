//! The affine benchmark: registration, whole command, and one evaluation of the correlation ratio.

use crate::Host;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::Memory;
use voxalign_compute::ops::histogram::{JointScheme, Scheme};
use voxalign_compute::select::AnyDevice;
use voxalign_compute::select::DeviceChoice;
use voxalign_image::Volume;
use voxalign_io::image::read_volume;
use voxalign_jobs::check;
use voxalign_jobs::demo::Pair;
use voxalign_jobs::machine::Machine;
use voxalign_jobs::{Error, Result};
use voxalign_register::Silent;
use voxalign_register::linear::{
    AffineInput, AffineOptions, AffineResult, DeviceInput, register_affine,
    register_affine_on_device,
};
use voxalign_register::metric::level::LevelImages;
use voxalign_register::metric::range::robust_range;
use voxalign_register::metric::reference::correlation_ratio;
use voxalign_register::metric::{Level, LevelSettings};
use voxalign_register::search::Objective;
use voxalign_register::similarity::Cr;
use voxalign_report::Table;

/// Bins of the evaluations that are measured.
const BINS: usize = 256;

/// The affine job, seconds.
#[derive(Debug, Serialize)]
pub(super) struct AffineTimes {
    evaluations: usize,
    /// One evaluation of the correlation ratio at full resolution.
    evaluation: f64,
    /// With its derivative.
    evaluation_with_gradient: f64,
    /// As the formula is written.
    naive_evaluation: f64,
    /// The time of the search's evaluations by the reference formula.
    naive_search: f64,
    registration_cold: f64,
    registration_warm: f64,
    /// Of images that are in the memory of the device already.
    registration_on_device: f64,
    command_cold: f64,
    command_warm: f64,
    verdict_good: bool,
}

/// Measures the affine job on the demo's pair, or on the files.
pub(super) fn measure(
    machine: &Machine,
    files: Option<&[PathBuf]>,
    host: &dyn Host,
) -> Result<AffineTimes> {
    let device = &machine.device;
    let (fixed, moving) = match files {
        Some([fixed, moving]) => (read_volume(fixed)?, read_volume(moving)?),
        _ => {
            let pair = Pair::load()?;
            (pair.fixed, pair.moving)
        }
    };
    let options = AffineOptions::default();
    let register = || {
        check(host)?;
        let start = Instant::now();
        let result =
            register_affine(device, &AffineInput::new(&fixed, &moving), &options, &Silent)?;
        Ok::<_, Error>((start.elapsed().as_secs_f64(), result))
    };
    let (registration_cold, result) = register()?;
    let (registration_warm, _) = register()?;
    let registration_on_device = already_there(device, &fixed, &moving, &options, host)?;
    let folder = tempfile::tempdir().map_err(|e| {
        Error::input(format!(
            "cannot create a folder: \
                                                                         {e}"
        ))
    })?;
    let command = || {
        check(host)?;
        whole_command(folder.path(), machine.choice(), machine.threads, files)
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
    let [evaluation, evaluation_with_gradient] = fast_evaluation(device, fixed, moving, &result)?;
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
fn already_there(
    device: &AnyDevice,
    fixed: &Volume<f32>,
    moving: &Volume<f32>,
    options: &AffineOptions,
    host: &dyn Host,
) -> Result<f64> {
    let images = AffineInput::new(fixed, moving);
    let images = DeviceInput::upload(device, &images)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        check(host)?;
        device.synchronize()?;
        let start = Instant::now();
        let result = register_affine_on_device(device, &images, options, &Silent)?;
        std::hint::black_box(result);
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Median seconds of one evaluation at full resolution, without and with its derivative.
fn fast_evaluation(
    device: &AnyDevice,
    fixed: Volume<f32>,
    moving: Volume<f32>,
    result: &AffineResult,
) -> Result<[f64; 2]> {
    let (fixed_grid, fixed) = fixed.into_parts();
    let (moving_grid, moving) = moving.into_parts();
    let images = LevelImages {
        fixed_grid,
        fixed: Arc::new(device.upload_vec(fixed)?),
        fixed_weight: None,
        share: 1.0,
        moving_grid,
        moving: Arc::new(device.upload_vec(moving)?),
        moving_mask: None,
    };
    let settings = LevelSettings {
        similarity: Cr { bins: BINS }.into(),
        border: 0.0,
        scheme: Scheme::default(),
        joint: JointScheme::Default,
    };
    let level = Level::new(device, images, settings)?;
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
fn whole_command(
    folder: &Path,
    device: DeviceChoice,
    threads: usize,
    files: Option<&[PathBuf]>,
) -> Result<f64> {
    let fail = |e: std::io::Error| {
        Error::Internal(format!(
            "the program could not be started: \
                                                              {e}"
        ))
    };
    let mut program = voxalign_jobs::invoked::again().map_err(fail)?;
    let start = Instant::now();
    let status = program
        .arg(if files.is_some() { "affine" } else { "demo" })
        .args(files.unwrap_or_default())
        .args(["--quiet", "--device", &device.to_string()])
        .args(["--threads", &threads.to_string(), "-o"])
        .arg(folder.join("out"))
        // The first run compiles the kernels of a GPU, as on a new machine.
        .env("VOXALIGN_KERNEL_CACHE", folder.join("kernels"))
        .stdin(Stdio::null())
        .status()
        .map_err(fail)?;
    let seconds = start.elapsed().as_secs_f64();
    match status.code() {
        Some(0 | 1) => Ok(seconds),
        _ => Err(Error::Internal(format!("the whole command ended with {status}"))),
    }
}

impl AffineTimes {
    /// Everything that was timed: name and seconds.
    pub(super) fn all(&self) -> [(&'static str, f64); 8] {
        [
            ("registration, cold", self.registration_cold),
            ("registration, warm", self.registration_warm),
            ("registration, images on the device", self.registration_on_device),
            ("whole command, cold", self.command_cold),
            ("whole command, warm", self.command_warm),
            ("correlation ratio, 256 bins: reference formula", self.naive_evaluation),
            ("correlation ratio, 256 bins: conflict-free", self.evaluation),
            (
                "correlation ratio, 256 bins: conflict-free, with derivative",
                self.evaluation_with_gradient,
            ),
        ]
    }

    /// Prints the tables.
    pub(super) fn print(&self, host: &dyn Host) {
        let mut table = Table::new(["affine, full search", "cold s", "warm s"]);
        let seconds = |v: f64| format!("{v:.2}");
        table.row([
            format!("registration alone, {} evaluations", self.evaluations),
            seconds(self.registration_cold),
            seconds(self.registration_warm),
        ]);
        table.row([
            "registration alone, images on the device".to_owned(),
            String::new(),
            format!("{:.3}", self.registration_on_device),
        ]);
        let (cold, warm) = (seconds(self.command_cold), seconds(self.command_warm));
        table.row(["whole command".to_owned(), cold, warm]);
        host.line("");
        crate::table(host, &table);
        let mut table = Table::new(["correlation ratio, 256 bins, full resolution", "ms", "ratio"]);
        for (name, seconds) in [
            ("reference formula: one thread, double precision", self.naive_evaluation),
            ("conflict-free", self.evaluation),
            ("conflict-free, with derivative", self.evaluation_with_gradient),
        ] {
            let ratio = format!("{:.1}", self.naive_evaluation / seconds);
            table.row([name.to_owned(), format!("{:.2}", seconds * 1e3), ratio]);
        }
        host.line("");
        crate::table(host, &table);
        host.line("");
        host.line(&format!(
            "the same evaluations by the reference formula would take {:.1} s, {:.0} times the registration",
            self.naive_search,
            self.naive_search / self.registration_warm
        ));
    }
}
