//! What a registration leaves in `result.json`.

use super::job::{Job, Paths};
use crate::args::Interpolation;
use crate::failure::Failure;
use clap::ValueEnum;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use voxalign_compute::ops::histogram::Scheme;
use voxalign_image::Grid;
use voxalign_io::checksum::sha256_file;
use voxalign_register::linear::{AffineOptions, AffineResult, Init, Search};
use voxalign_report::{GridRecord, InputRecord, RunRecord, TransformRecord};

/// The times of the parts of a run.
pub(super) struct Clock {
    start: Instant,
    last: Instant,
    /// Seconds of what was done before.
    before: f64,
    laps: BTreeMap<String, f64>,
}

impl Clock {
    pub(super) fn start() -> Self {
        let now = Instant::now();
        Self { start: now, last: now, before: 0.0, laps: BTreeMap::new() }
    }

    /// Counts a part that was done before.
    pub(super) fn add(&mut self, name: &str, seconds: f64) {
        self.laps.insert(name.to_owned(), seconds);
        self.before += seconds;
    }

    /// Ends a part.
    pub(super) fn lap(&mut self, name: &str) {
        let now = Instant::now();
        self.laps.insert(name.to_owned(), (now - self.last).as_secs_f64());
        self.last = now;
    }

    /// Ends the run.
    pub(super) fn total(&mut self) {
        self.laps.insert("total".to_owned(), self.before + self.start.elapsed().as_secs_f64());
    }

    /// The parts so far, seconds.
    pub(super) fn laps(&self) -> BTreeMap<String, f64> {
        self.laps.clone()
    }
}

/// The files that were read, with their checksums.
pub(super) fn inputs(paths: &Paths, config: Option<&Path>) -> Result<Vec<InputRecord>, Failure> {
    let record = |role: &str, path: &Path, is_image: bool| {
        let grid = if is_image { Some(crate::files::grid(path)?) } else { None };
        Ok(InputRecord {
            role: role.to_owned(),
            path: path.display().to_string(),
            sha256: sha256_file(path)?,
            grid: grid.as_ref().map(GridRecord::from),
        })
    };
    let images = paths.all().into_iter().map(|(role, path)| record(role, path, true));
    let config = config.into_iter().map(|path| record("config", path, false));
    images.chain(config).collect()
}

/// The record but for transform, figures, outputs and times.
pub(super) fn record(
    job: &Job<'_>,
    options: &AffineOptions,
    result: &AffineResult,
    inputs: Vec<InputRecord>,
) -> RunRecord {
    let command = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    RunRecord {
        program: job.program.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        date: date(SystemTime::now()),
        host: job.machine.record(),
        inputs,
        parameters: parameters(job, options, result),
        stages: result.stages.clone(),
        verdict: result.verdict.clone(),
        ..RunRecord::default()
    }
}

/// The transform in words, about the middle of the fixed image.
pub(super) fn transform(result: &AffineResult, fixed: &Grid) -> TransformRecord {
    TransformRecord::new(&result.transform, fixed.centre())
}

/// All parameters, also those left at their default.
fn parameters(job: &Job<'_>, options: &AffineOptions, result: &AffineResult) -> serde_json::Value {
    let init = match (&options.init, &job.method.init) {
        (_, Some(choice)) => choice.name(),
        (Init::Header, _) => "header".into(),
        (Init::Centre, _) => "centre".into(),
        (Init::Moments, _) => "moments".into(),
        (Init::Identity, _) => "identity".into(),
        (Init::Given(_), _) => "given".into(),
    };
    let search = match options.search {
        Search::Full => "full",
        Search::Local => "local",
        Search::None => "none",
    };
    // Without the noise of the way to radians and back.
    let degrees = |r: f64| (r.to_degrees() * 1e9).round() / 1e9;
    json!({
        "dof": options.dof,
        "cost": options.cost.name(),
        "bins": options.bins,
        "scheme": result.scheme.map(Scheme::name),
        "init": init,
        "search": search,
        "search_angles_degrees": options.range.angles.map(|r| r.map(degrees)),
        "search_steps_degrees": [degrees(options.range.coarse), degrees(options.range.fine)],
        "levels_mm": options.levels,
        "apodise_mm": options.apodise,
        "interpolation": name_of(job.interpolation()),
        "outside": job.outside(),
    })
}

fn name_of(interpolation: Interpolation) -> String {
    let value = interpolation.to_possible_value();
    value.map_or_else(String::new, |v| v.get_name().to_owned())
}

/// The most memory that the process held, bytes, where the system tells.
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|k| k * 1024)
}

/// A point in time as RFC 3339 in UTC, such as `2026-01-31T12:00:00Z`.
pub(super) fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Days to a date of the proleptic Gregorian calendar whose years begin in March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates() {
        let at = |s: u64| date(UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_704_067_199), "2023-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
