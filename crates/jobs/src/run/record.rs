//! The part of `result.json` common to all registrations.

use super::{Caller, Role};
use crate::error::Result;
use crate::listener::{Listener, reading};
use crate::machine::Machine;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use voxalign_image::Grid;
use voxalign_io::IoError;
use voxalign_io::checksum::{sha256_file, sha256_files};
use voxalign_io::image::{self, Format, ImageInfo, ReadOptions};
use voxalign_options::Choice;
use voxalign_register::limits::Limits;
use voxalign_report::{GridRecord, InputRecord, RunRecord};

/// The times of the parts of a run.
pub(crate) struct Clock {
    start: Instant,
    last: Instant,
    /// Seconds of what was done before.
    before: f64,
    laps: BTreeMap<String, f64>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { start: now, last: now, before: 0.0, laps: BTreeMap::new() }
    }

    /// Counts a part that was done before.
    pub(crate) fn add(&mut self, name: &str, seconds: f64) {
        self.laps.insert(name.to_owned(), seconds);
        self.before += seconds;
    }

    /// Notes how long something took within a part.
    pub(crate) fn note(&mut self, name: String, seconds: f64) {
        self.laps.insert(name, seconds);
    }

    /// Ends a part; parts of one name add up.
    pub(crate) fn lap(&mut self, name: &str) {
        let now = Instant::now();
        *self.laps.entry(name.to_owned()).or_default() += (now - self.last).as_secs_f64();
        self.last = now;
    }

    /// Ends the run.
    pub(crate) fn total(&mut self) {
        self.laps.insert("total".to_owned(), self.before + self.start.elapsed().as_secs_f64());
    }

    /// The parts so far, seconds.
    pub(crate) fn laps(&self) -> BTreeMap<String, f64> {
        self.laps.clone()
    }
}

/// A file that is read, and what it is.
#[derive(Debug, Clone)]
pub(crate) struct Input<'a> {
    role: Role,
    path: &'a Path,
    /// Which of several images in it.
    which: ReadOptions,
}

impl<'a> Input<'a> {
    pub(crate) fn new(role: Role, path: &'a Path) -> Self {
        Self { role, path, which: ReadOptions::default() }
    }

    /// One of several images in the file.
    pub(crate) fn of(self, which: ReadOptions) -> Self {
        Self { which, ..self }
    }

    /// The files of options that were given.
    pub(crate) fn those_given(
        options: &[(Role, &'a Option<PathBuf>)],
    ) -> impl Iterator<Item = Self> {
        options.iter().filter_map(|&(role, p)| Some(Self::new(role, p.as_deref()?)))
    }

    /// Whether it is this file.
    pub(crate) fn is_file(&self, path: &Path) -> bool {
        self.path == path
    }

    /// Whether it is what the library calls so.
    pub(crate) fn is(&self, role: voxalign_register::Role) -> bool {
        use voxalign_register::Role as Of;
        let all = [
            (Of::Fixed, Role::Fixed),
            (Of::Moving, Role::Moving),
            (Of::FixedMask, Role::FixedMask),
            (Of::MovingMask, Role::MovingMask),
            (Of::FixedWeight, Role::FixedWeight),
        ];
        all.contains(&(role, self.role))
    }

    /// What it is, for a record.
    pub(crate) fn name(&self) -> &'static str {
        self.role.name()
    }

    /// What it is.
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Whether it is an image or a label map.
    pub(crate) fn is_image(&self) -> bool {
        self.role.is_image()
    }

    /// Which of several images in it.
    pub(crate) fn which(&self) -> &ReadOptions {
        &self.which
    }

    /// The file.
    pub(crate) fn path(&self) -> &'a Path {
        self.path
    }
}

/// The files that were read, with their checksums and, where they are images, their geometry. The
/// values of an image that are in a file of their own are an input too; the slices of a DICOM series are one.
pub(crate) fn inputs(files: &[Input<'_>], listener: &dyn Listener) -> Result<Vec<InputRecord>> {
    let mut records = Vec::new();
    for Input { role, path, which } in files {
        let info = role.is_image().then(|| {
            reading(listener, || image::read_info_of(path, which)).map_err(|e| e.choosing(*role))
        });
        let (info, role) = (info.transpose()?, role.name());
        let slices = info.as_ref().filter(|i| i.format == Format::Dicom).map(|i| &i.files);
        let mut add = |role: String, path: &Path, grid: Option<&Grid>| {
            let sha256 = reading::<_, IoError>(listener, || match slices {
                Some(slices) => sha256_files(slices),
                None => sha256_file(path),
            })?;
            let path = path.display().to_string();
            records.push(InputRecord {
                sha256_of: None,
                role,
                path,
                sha256,
                grid: grid.map(GridRecord::from),
            });
            Ok::<_, crate::Error>(())
        };
        add(role.to_owned(), path, info.as_ref().map(|i| &i.grid))?;
        let apart = |i: &ImageInfo| i.data_path != i.path && i.format != Format::Dicom;
        if let Some(info) = info.as_ref().filter(|i| apart(i)) {
            let named_by = |e: crate::Error| e.at(format!("'{}'", path.display()));
            add(format!("{role}_data"), &info.data_path, None).map_err(named_by)?;
        }
    }
    Ok(records)
}

/// The record of a run that begins now: who runs it, machine and inputs.
pub(crate) fn record(caller: &Caller, machine: &Machine, inputs: Vec<InputRecord>) -> RunRecord {
    RunRecord {
        program: caller.program.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: caller.command.clone(),
        date: date(SystemTime::now()),
        host: machine.record(),
        inputs,
        limits: Some(Limits::default()),
        ..RunRecord::default()
    }
}

/// The value outside of an image for a record, whose numbers are finite: `nan` by its name.
pub(crate) fn outside(value: f32) -> serde_json::Value {
    if value.is_nan() { "nan".into() } else { value.into() }
}

/// The most memory that the process held, bytes, where the system tells.
pub(crate) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|k| k * 1024)
}

/// A point in time as RFC 3339 in UTC, such as `2026-01-31T12:00:00Z`.
fn date(time: SystemTime) -> String {
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
