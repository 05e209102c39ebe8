//! Atlases at several values of a covariate.

mod gathered;
mod volumes;

use super::options::{At, Exclude, Regression as Options, RegressionOptions};
use super::outcome::{figures, images, write};
use super::study::{Prepared, Study, weighted_atlas};
use crate::error::{Error, Result};
use crate::files::labels;
use crate::list::Entry;
use crate::listener::Level;
use crate::machine::Machine;
use crate::options::refuse;
use crate::pair::label_names;
use crate::remedy::Speaker;
use crate::results::ResultFile;
use crate::run::{
    Clock, Done, RECORD, REPORT, check_outputs, conclude, nothing_more, record, written,
};
use crate::staged::Staged;
use gathered::Gathered;
use std::collections::BTreeMap;
use volumes::csv;
use voxalign_compute::comm::Team;
use voxalign_compute::select::AnyDevice;
use voxalign_io::names::LabelNames;
use voxalign_options::{Text, text};
use voxalign_population::atlas::{
    Kernel, MemoryPlan, effective_number, label_volumes, largest_labels, mean_overlap, most_weight,
};
use voxalign_register::limits::ATLAS;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::regression::{
    self, ObservationRecord, RegressionRecord, RegressionReport, ValueRecord, VolumeCurve,
};
use voxalign_report::{GridRecord, MiddleSlices, Provenance};

/// Points of the curve of a volume.
const CURVE: usize = 201;
/// Labels whose volumes are shown where none are chosen.
const LABELS: usize = 12;
const VOLUMES: &str = "volumes.csv";

/// The file that atlases along a covariate have, for pipelines; their images are in folders.
pub(super) fn results() -> ResultFile {
    ResultFile::of("volumes", VOLUMES, "Volumes of labels along the covariate")
}

/// Atlases along a covariate that are to be built.
pub(super) struct Regression<'a> {
    pub(super) study: Study<'a>,
    column: String,
    at: Vec<At>,
    kernel: Kernel,
    volumes: Vec<i32>,
    names: LabelNames,
}

/// What is kept of the atlas at a value.
struct Made {
    record: ValueRecord,
    slices: MiddleSlices,
}

impl<'a> Regression<'a> {
    /// The regression that was asked for; checks all that can be checked before a device is started.
    pub(super) fn new(args: &'a Options, column: &str, study: Study<'a>) -> Result<Self> {
        // The names of columns are in small letters.
        let column = column.to_lowercase();
        let Some(list) = study.list else {
            return Err(Error::input(text!(
                "`regress` {column} needs `list` FILE.csv, a list with a column '{column}' that \
                 has a number for each subject"
            )));
        };
        for entry in &study.entries {
            if !entry.covariates.contains_key(&column) {
                let mut others: Vec<_> =
                    study.entries.iter().flat_map(|e| e.covariates.keys()).collect();
                others.sort();
                others.dedup();
                let others: Vec<_> = others.into_iter().filter(|c| **c != column).collect();
                let known = match others.first() {
                    Some(_) => format!(
                        " (numeric columns: {})",
                        others.iter().map(|c| c.as_str()).collect::<Vec<_>>().join(", ")
                    ),
                    None => String::new(),
                };
                return Err(Error::input(text!(
                    "the list '{}': '{}' has no number in the column '{column}'{known}; add it, or \
                     leave the line out",
                    list.display(),
                    entry.name
                )));
            }
        }
        let RegressionOptions { at: values, bandwidth, volumes } =
            args.given.over(RegressionOptions::USUAL)?;
        for (i, at) in values.iter().enumerate() {
            if values[..i].iter().any(|other| other.value == at.value) {
                return Err(Error::input(text!(
                    "`at` has {} twice; give each value once",
                    at.text
                )));
            }
        }
        let with_labels = study.entries.iter().any(|e| e.labels.is_some());
        refuse(
            !volumes.is_empty() && !with_labels,
            "volumes",
            text!("lists with a column 'labels'"),
        )?;
        refuse(
            args.label_names.is_some() && !with_labels,
            "label_names",
            text!("lists with a column labels"),
        )?;
        let names = label_names(&args.label_names, study.listener)?;
        let kernel = Kernel::gaussian(bandwidth.unwrap_or_default())?;
        let all = Self { study, column, at: values, kernel, volumes, names };
        for at in &all.at {
            all.weights(&all.study.entries, at)?;
        }
        let names = all.names();
        let names = names.iter().map(String::as_str);
        check_outputs(all.study.output, names, all.study.files().into_iter())?;
        Ok(all)
    }

    /// What each subject counts at a value.
    fn weights(&self, entries: &[Entry], at: &At) -> Result<Vec<f64>> {
        let own: Vec<f64> = entries.iter().map(|e| e.weight).collect();
        Ok(self.kernel.weights(&self.values(entries), &own, at.value)?)
    }

    /// The covariate of each subject.
    fn values(&self, entries: &[Entry]) -> Vec<f64> {
        let of = |e: &Entry| e.covariates.get(&self.column).copied().unwrap_or(f64::NAN);
        entries.iter().map(of).collect()
    }

    /// The files that it writes.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = [RECORD, REPORT, VOLUMES].map(str::to_owned).to_vec();
        for at in &self.at {
            names.extend(images(true).map(|(_, name)| format!("{}/{name}", at.folder())));
        }
        names
    }

    /// Does it all.
    pub(super) fn run(
        &self,
        machine: &Machine,
        team: &Team<AnyDevice>,
    ) -> Result<Done<RegressionRecord>> {
        let (mut clock, listener) = (Clock::start(), self.study.listener);
        let mut staged = Staged::new(self.study.output, listener)?;
        // Before anything that takes long.
        let mut volumes = self.measured()?;
        self.labels(&volumes)?;
        clock.lap("volumes");
        let prepared = self.study.prepare(team, &mut clock, None)?.0;
        volumes.retain(|name, _| prepared.entries.iter().any(|e| e.name == *name));
        let labels = self.labels(&volumes)?;
        let observed = self.observations(&prepared.entries, &volumes);
        let mut made = Vec::new();
        for (i, at) in self.at.iter().enumerate() {
            let weights = self.weights(&prepared.entries, at)?;
            listener.say(
                Level::Normal,
                format!(
                    "atlas {} of {}, {} {}: {} subjects, effective number {:.1}",
                    i + 1,
                    self.at.len(),
                    self.column,
                    at.text,
                    weights.iter().filter(|w| **w > 0.0).count(),
                    effective_number(&weights)
                ),
            );
            made.push(self.one(team, &prepared, at, &weights, &mut staged)?);
            clock.lap("register");
        }
        let (atlases, slices): (Vec<_>, Vec<_>) =
            made.into_iter().map(|m| (m.record, m.slices)).unzip();
        let run = record(self.study.caller, machine, prepared.inputs);
        let record = RegressionRecord {
            provenance: Provenance::from(run),
            parameters: self.study.used(&prepared.aligned),
            covariate: self.column.clone(),
            bandwidth: self.kernel.bandwidth(),
            grid: GridRecord::from(&prepared.aligned.grid),
            curves: self.curves(&observed, &labels),
            label_names: self.names.clone(),
            observations: observed,
            verdict: self.verdict(&atlases, prepared.remarks),
            atlases,
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
        };
        self.finish(staged, clock, record, &slices)
    }

    /// The volumes of each subject's labels, by its name; of those that have a map, which can be read where others
    /// are to be left out.
    fn measured(&self) -> Result<BTreeMap<String, BTreeMap<i32, f64>>> {
        let mut all = BTreeMap::new();
        for entry in &self.study.entries {
            let Some(path) = &entry.labels else { continue };
            match labels(path, self.study.listener) {
                Ok(map) => {
                    all.insert(entry.name.clone(), label_volumes(&map));
                }
                Err(failure @ (Error::Stopped | Error::Memory(_))) => return Err(failure),
                Err(_) if self.study.exclude.contains(&Exclude::Unreadable) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(all)
    }

    /// The subjects with the volumes of their labels.
    fn observations(
        &self,
        entries: &[Entry],
        volumes: &BTreeMap<String, BTreeMap<i32, f64>>,
    ) -> Vec<ObservationRecord> {
        let one = |(entry, value): (&Entry, f64)| ObservationRecord {
            name: entry.name.clone(),
            weight: entry.weight,
            value,
            volumes: volumes.get(&entry.name).cloned().unwrap_or_default(),
        };
        entries.iter().zip(self.values(entries)).map(one).collect()
    }

    /// The labels whose volumes are told.
    fn labels(&self, volumes: &BTreeMap<String, BTreeMap<i32, f64>>) -> Result<Vec<i32>> {
        if self.volumes.is_empty() {
            return Ok(largest_labels(&volumes.values().cloned().collect::<Vec<_>>(), LABELS));
        }
        for label in &self.volumes {
            if !volumes.values().any(|v| v.contains_key(label)) {
                return Err(Error::input(text!(
                    "`volumes`: no label map has the label {label}; leave it out, or choose another"
                )));
            }
        }
        Ok(self.volumes.clone())
    }

    /// The kernel regression of the volumes over the covariate. A subject whose map lacks a label has
    /// none of it; one without a map says nothing.
    fn curves(&self, observed: &[ObservationRecord], labels: &[i32]) -> Vec<VolumeCurve> {
        let mapped: Vec<_> = observed.iter().filter(|o| !o.volumes.is_empty()).collect();
        let values: Vec<f64> = mapped.iter().map(|o| o.value).collect();
        let own: Vec<f64> = mapped.iter().map(|o| o.weight).collect();
        let all = || values.iter().copied().chain(self.at.iter().map(|a| a.value));
        let (low, high) =
            (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let curve = |&label: &i32| {
            let volumes: Vec<f64> =
                mapped.iter().map(|o| o.volumes.get(&label).copied().unwrap_or(0.0)).collect();
            let at = |i: usize| low + (high - low) * i as f64 / (CURVE - 1) as f64;
            let point = |i| {
                let y = self.kernel.regression(&values, &own, &volumes, at(i))?;
                Some([at(i), y])
            };
            VolumeCurve { label, points: (0..CURVE).filter_map(point).collect() }
        };
        labels.iter().map(curve).collect()
    }

    /// Builds the atlas at a value and writes its images.
    fn one(
        &self,
        team: &Team<AnyDevice>,
        prepared: &Prepared<'_>,
        at: &At,
        weights: &[f64],
        staged: &mut Staged<'_>,
    ) -> Result<Made> {
        let mut gathered = Gathered::default();
        let device = &team.devices()[0];
        let study = &self.study;
        let mut found = |number: usize, found| {
            gathered.take((device, study), prepared, number, weights[number], found)
        };
        let planned = |plans: &[MemoryPlan]| self.study.say_plans(plans);
        let building = self.study.building(self.study.listener, &planned);
        let atlas = weighted_atlas(team, prepared, &building, weights, &mut found)?;
        let gathered = gathered.ordered();
        let labels = most_weight(&gathered.after, &gathered.weights);
        write(staged, &format!("{}/", at.folder()), &atlas, labels.as_ref())?;

        let overlap = [mean_overlap(&gathered.before)?, mean_overlap(&gathered.after)?];
        let subjects = gathered.numbers.iter().copied().zip(&gathered.subjects);
        let (verdict, unlike) = prepared.judge(&atlas, subjects);
        let verdict = study.caller.worded(verdict, Speaker::Atlas);
        let mut subjects = gathered.subjects;
        let told = atlas.correlations.iter().zip(&atlas.information);
        for ((subject, (correlation, information)), unlike) in
            subjects.iter_mut().zip(told).zip(unlike)
        {
            (subject.correlation, subject.outlying) = (*correlation, unlike);
            subject.information = Some(*information);
        }
        let record = ValueRecord {
            at: at.value,
            folder: at.folder(),
            effective_number: effective_number(weights),
            subjects,
            volumes: labels.as_ref().map(label_volumes).unwrap_or_default(),
            figures: figures(&atlas, overlap),
            verdict,
            sharpness: atlas.sharpness,
            scales: atlas.scales,
        };
        Ok(Made { record, slices: MiddleSlices::of(&atlas.template[0]) })
    }

    fn finish(
        &self,
        mut staged: Staged<'_>,
        clock: Clock,
        record: RegressionRecord,
        slices: &[MiddleSlices],
    ) -> Result<Done<RegressionRecord>> {
        staged.write_text(VOLUMES, &csv(&record)?)?;
        let of_atlas = |atlas: &ValueRecord| {
            let folder = atlas.folder.clone();
            let all = images(!atlas.volumes.is_empty());
            all.map(move |(role, name)| (role, format!("{folder}/{name}")))
        };
        let own = record.atlases.iter().flat_map(of_atlas);
        let written = written(own.chain([("volumes", VOLUMES.to_owned())]), true);
        conclude(staged, clock, record, (self.study.output, &written), nothing_more, |record| {
            regression::render(&RegressionReport { record, atlases: slices })
        })
    }

    /// The verdict on all atlases.
    fn verdict(&self, atlases: &[ValueRecord], left_out: Vec<String>) -> Verdict {
        let column = &self.column;
        let bad: Vec<String> =
            atlases.iter().filter(|a| !a.verdict.good).map(|a| a.folder.clone()).collect();
        let check = Check::none("atlases that cannot be used", bad.len() as u64).of(bad);
        let mut remarks: Vec<_> = left_out.into_iter().map(Text::from).collect();
        for atlas in atlases {
            if atlas.effective_number < ATLAS.effective_number {
                remarks.push(text!(
                "{column} {}: the effective number of subjects is {:.1}, so this atlas shows a few \
                 subjects rather than the population; use a larger `bandwidth`, or more subjects \
                 near {}",
                atlas.at, atlas.effective_number, atlas.at
            ));
            }
            for check in atlas.verdict.checks.iter().filter(|c| !c.passed) {
                remarks.push(text!("{column} {}: {}", atlas.at, check.words()));
            }
            remarks
                .extend(atlas.verdict.remarks.iter().map(|r| text!("{column} {}: {r}", atlas.at)));
        }
        let verdict = Verdict::new(vec![check.or(Remedy::LookAtAtlases)], remarks);
        self.study.caller.worded(verdict, Speaker::Atlas)
    }
}
