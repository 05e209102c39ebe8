//! The construction of an atlas, from files to files.

use super::prepared::{Building, Prepared, Saving, Study};
use super::subjects::{Subjects, dimensions, label_names};
use super::table;
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::output;
use crate::progress::Talk;
use crate::registration::{
    self, Clock, RECORD, REPORT, check_outputs, peak_memory, refuse, write_text,
};
use crate::staging::Staging;
use crate::team::{AnyTeam, on_team};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use voxalign_compute::Device;
use voxalign_compute::comm::{Communicator, Team};
use voxalign_image::LabelMap;
use voxalign_io::image::{self, DataType};
use voxalign_population::atlas::{Atlas, Judged, LabelFiles, judge, root_mean_square};
use voxalign_report::{
    AtlasRecord, AtlasReport, GridRecord, OutputRecord, RunRecord, SubjectRecord,
};

/// Names of the files of an atlas, with what they hold.
const ATLAS: &str = "atlas.nii.gz";
const AFFINE_MEAN: &str = "atlas_affine.nii.gz";
const VARIANCE: &str = "variance.nii.gz";
const ENTROPY: &str = "entropy.nii.gz";
const LOG_JACOBIAN: &str = "log_jacobian.nii.gz";
const LABELS: &str = "labels.nii.gz";
const OUTPUTS: [(&str, &str); 8] = [
    ("atlas", ATLAS),
    ("affine_mean", AFFINE_MEAN),
    ("variance", VARIANCE),
    ("entropy", ENTROPY),
    ("log_jacobian", LOG_JACOBIAN),
    ("labels", LABELS),
    ("report", REPORT),
    ("record", RECORD),
];

/// The folder of checkpoints in that of the outputs.
const CHECKPOINTS: &str = "checkpoint";

/// An atlas that is to be built.
pub(super) struct Job<'a> {
    pub(super) study: Study<'a>,
    /// Whether files are written for each subject.
    pub(super) subjects: bool,
    pub(super) report: bool,
    /// The time from one checkpoint to the next; none without checkpoints.
    pub(super) every: Option<Duration>,
    pub(super) resume: bool,
}

impl Job<'_> {
    /// Checks what can be checked before a device is started.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let outputs = OUTPUTS.iter().map(|o| o.1);
        check_outputs(self.study.output, outputs, self.study.files().into_iter())?;
        if self.study.entries.len() < 2 {
            return Err(Failure::input(format!(
                "an atlas needs two images at least, {} given",
                self.study.entries.len()
            )));
        }
        refuse(self.resume && self.every.is_none(), "--resume", "runs with checkpoints")
    }

    /// Does it all and prints the table.
    pub(super) fn run(&self, machine: &Machine, team: &AnyTeam) -> Result<Outcome, Failure> {
        on_team!(team, |team| self.run_on(team, machine))
    }

    fn run_on<D: Device>(&self, team: &Team<D>, machine: &Machine) -> Result<Outcome, Failure> {
        let (study, world) = (&self.study, team.ranks());
        let mut clock = Clock::start();
        let printer = study.printer();
        let staging = Staging::shared(study.output, world)?;
        let folder = study.output.join(CHECKPOINTS);
        let saving = self.every.map(|every| Saving { folder: &folder, every, resume: self.resume });
        if self.resume && !folder.exists() {
            let what = "there is no checkpoint; the run starts from the beginning";
            printer.say(Talk::Normal, what);
        }
        let (prepared, key) = study.prepare(team, &printer, &mut clock, saving)?;

        let labels = world.agree(staging.scratch("labels"))?;
        let labels = LabelFiles::new(&labels, &prepared.aligned.grid);
        let mut memory = study.memory.clone();
        if memory.scratch.is_none() {
            memory.scratch = Some(world.agree(staging.scratch("away"))?);
        }
        let staging = Mutex::new(staging);
        let subjects = Subjects {
            device: &team.devices()[0],
            prepared: &prepared,
            staging: &staging,
            writes: self.subjects,
            labels: &labels,
            records: Mutex::default(),
        };
        let checkpoints = saving.map(|s| s.of(&key));
        let building = Building {
            options: &study.options,
            memory: &memory,
            checkpoints: checkpoints.as_ref(),
            resume: self.resume,
            progress: &printer,
            planned: &|plans| study.say_plans(&printer, plans),
        };
        let built = building.build(team, &prepared, &prepared.source, &|f| subjects.take(f));
        if matches!(built, Err(Failure::Stopped)) && folder.exists() {
            printer.finish();
            return Err(Failure::Saved(study.output.to_owned()));
        }
        let atlas = built?;
        printer.finish();
        clock.lap("register");

        let records = subjects.records.into_inner().unwrap_or_else(PoisonError::into_inner);
        let records = gathered(world, records)?;
        let mut staging = staging.into_inner().unwrap_or_else(PoisonError::into_inner);
        staging.gather(world)?;
        let done = match world.is_first() {
            true => {
                let run = registration::record("voxalign atlas", machine, Vec::new());
                let made = Made { atlas: &atlas, run, subjects: records, labels: &labels };
                self.write(staging, clock, prepared, made)
            }
            // What others wrote is there until the first has moved it.
            false => Ok(Outcome::Good),
        };
        let outcome = world.agree(done)?;
        if let (Some(checkpoints), true) = (&checkpoints, world.is_first()) {
            checkpoints.remove()?;
        }
        Ok(outcome)
    }

    /// Writes all that is not of one subject, and ends the run.
    fn write(
        &self,
        mut staging: Staging,
        mut clock: Clock,
        prepared: Prepared,
        Made { atlas, run, subjects, labels: files }: Made<'_>,
    ) -> Result<Outcome, Failure> {
        let (mut before, mut after, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (number, entry) in prepared.entries.iter().enumerate() {
            if entry.labels.is_some() {
                let [first, last] = label_names(number);
                before.push(first);
                after.push(last);
                weights.push(entry.weight);
            }
        }
        let labels = files.most_weight(&after, &weights)?;
        self.images(&mut staging, atlas, labels.as_ref())?;
        clock.lap("write");
        let overlap = [files.mean_overlap(&before)?, files.mean_overlap(&after)?];

        let run = RunRecord { inputs: prepared.inputs, ..run };
        let mut record = AtlasRecord::new(run, GridRecord::from(&prepared.aligned.grid));
        record.parameters = self.study.parameters();
        record.subjects = subjects;
        figures(&mut record, atlas, overlap);
        for (subject, correlation) in record.subjects.iter_mut().zip(&atlas.correlations) {
            subject.correlation = *correlation;
        }
        let judged: Vec<_> = record
            .subjects
            .iter()
            .enumerate()
            .map(|(i, s)| Judged {
                name: &s.name,
                deformation: &s.verdict,
                affine: prepared.aligned.verdicts.get(i),
            })
            .collect();
        let (mut verdict, unlike) = judge(atlas, &judged);
        verdict.remarks.extend(prepared.remarks);
        record.verdict = verdict;
        for (subject, unlike) in record.subjects.iter_mut().zip(unlike) {
            subject.outlying = unlike;
        }
        record.sharpness = atlas.sharpness.clone();
        record.scales = atlas.scales.clone();
        record.plans = atlas.plans.clone();
        for (role, name) in OUTPUTS {
            let there = match name {
                LABELS => labels.is_some(),
                REPORT => self.report,
                _ => true,
            };
            if there {
                let path = staging.final_path(name).display().to_string();
                record.outputs.push(OutputRecord { role: role.to_owned(), path });
            } else {
                staging.without(name);
            }
        }
        if self.report {
            record.timings = clock.laps();
            record.peak_memory_bytes = peak_memory();
            let report = AtlasReport {
                record: &record,
                affine_mean: &atlas.affine_mean[0],
                template: &atlas.template[0],
                variance: &atlas.variance,
                entropy: &atlas.entropy,
                log_jacobian: &atlas.log_jacobian,
                labels: labels.as_ref(),
                snapshots: &atlas.snapshots,
                timeline: atlas.trace.as_ref(),
            };
            let html = voxalign_report::atlas::render(&report);
            let html = html.map_err(|e| Failure::Internal(e.to_string()))?;
            write_text(&mut staging, REPORT, &html)?;
            clock.lap("report");
        }
        clock.total();
        record.timings = clock.laps();
        record.peak_memory_bytes = peak_memory();
        write_text(&mut staging, RECORD, &record.to_json())?;
        staging.commit()?;
        let good = record.verdict.good;
        if self.study.talk > Talk::Quiet {
            table::print(&record, self.study.output);
        } else if !good {
            output::note(&format!("verdict: {}", record.verdict.summary()));
        }
        Ok(if good { Outcome::Good } else { Outcome::Bad })
    }

    fn images(
        &self,
        staging: &mut Staging,
        atlas: &Atlas,
        labels: Option<&LabelMap>,
    ) -> Result<(), Failure> {
        let dimensions = dimensions(atlas.variance.grid());
        let options = files::write_options(DataType::F32, dimensions);
        let numbered = |name: &str, c: usize| match c {
            0 => name.to_owned(),
            c => name.replace(".nii.gz", &format!("{}.nii.gz", c + 1)),
        };
        for (file, images) in [(ATLAS, &atlas.template), (AFFINE_MEAN, &atlas.affine_mean)] {
            for (c, volume) in images.iter().enumerate() {
                staging.write(&numbered(file, c), |path| {
                    image::write_volume(path, volume, &options)
                })?;
            }
        }
        for (file, volume) in [
            (VARIANCE, &atlas.variance),
            (ENTROPY, &atlas.entropy),
            (LOG_JACOBIAN, &atlas.log_jacobian),
        ] {
            staging.write(file, |path| image::write_volume(path, volume, &options))?;
        }
        if let Some(labels) = labels {
            let options = files::write_options(DataType::I32, dimensions);
            staging.write(LABELS, |path| image::write_labels(path, labels, &options))?;
        }
        Ok(())
    }
}

/// What all ranks made.
struct Made<'m> {
    atlas: &'m Atlas,
    run: RunRecord,
    subjects: Vec<SubjectRecord>,
    /// The label maps of the subjects on the grid of the atlas.
    labels: &'m LabelFiles,
}

/// The records of the subjects of all ranks, in their order, at the first rank.
fn gathered(
    world: &Communicator,
    mut own: Vec<(usize, SubjectRecord)>,
) -> Result<Vec<SubjectRecord>, Failure> {
    if world.size() > 1 {
        let internal = |e: serde_json::Error| Failure::Internal(e.to_string());
        let text = world.agree(serde_json::to_vec(&own).map_err(internal))?;
        let blocks = world.gather(&text, 0)?.unwrap_or_default();
        own.clear();
        for block in blocks {
            let some: Vec<(usize, SubjectRecord)> =
                serde_json::from_slice(&block).map_err(internal)?;
            own.extend(some);
        }
    }
    own.sort_by_key(|(number, _)| *number);
    Ok(own.into_iter().map(|(_, record)| record).collect())
}

fn figures(record: &mut AtlasRecord, atlas: &Atlas, overlap: [Option<f64>; 2]) {
    for (when, end) in [("before", atlas.ends[0]), ("after", atlas.ends[1])] {
        record.figures.insert(format!("entropy_{when}"), end.entropy);
        record.figures.insert(format!("gradient_energy_{when}"), end.gradient_energy);
    }
    record.figures.insert("log_jacobian_rms".into(), root_mean_square(&atlas.log_jacobian));
    for (when, dice) in [("before", overlap[0]), ("after", overlap[1])] {
        if let Some(dice) = dice {
            record.figures.insert(format!("label_overlap_{when}"), dice);
        }
    }
}
