//! The construction of an atlas, from files to files.

use super::outcome::geometry::{Variation, judged, of_template};
use super::outcome::subjects::{Subjects, label_names, without_older};
use super::outcome::{figures, images, write};
use super::study::{Building, Prepared, Saving, Study};
use crate::error::{Error, Result};
use crate::listener::Level;
use crate::machine::Machine;
use crate::options::refuse;
use crate::remedy::Speaker;
use crate::run::{Clock, Done, RECORD, REPORT, check_outputs, conclude, nothing_more, record};
use crate::staged::Staged;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use voxalign_compute::comm::{Communicator, Team};
use voxalign_compute::select::AnyDevice;
use voxalign_options::{Text, text};
use voxalign_population::atlas::{
    Atlas, Checkpoints, LabelFiles, MemoryOptions, Source as _, dry_run,
};
use voxalign_population::exchange::told_to_first;
use voxalign_register::attachment::images::finest;
use voxalign_report::{
    AtlasRecord, AtlasReport, GridRecord, RunRecord, SubjectRecord, TemplateMarks, TemplateShape,
};

/// The folder of checkpoints in that of the outputs.
const CHECKPOINTS: &str = "checkpoint";

/// An atlas that is to be built.
pub(super) struct One<'a> {
    pub(super) study: Study<'a>,
    /// Whether files are written for each subject.
    pub(super) subjects: bool,
    pub(super) report: bool,
    /// The time from one checkpoint to the next; none without checkpoints.
    pub(super) every: Option<Duration>,
    pub(super) resume: bool,
    /// How many processes hold subjects; none for as many as pay.
    pub(super) processes: Option<usize>,
}

impl One<'_> {
    /// Checks what can be checked before a device is started.
    pub(super) fn check(&self) -> Result<()> {
        let outputs = outputs(true, true).map(|o| o.1);
        check_outputs(self.study.output, outputs, self.study.files().into_iter())?;
        if self.study.entries.len() < 2 {
            return Err(Error::input("an atlas needs at least two images, but only one is given"));
        }
        if let Some(scratch) = self.study.memory.scratch.as_deref().filter(|s| !s.is_dir()) {
            return Err(Error::input(text!(
                "`scratch` '{}' is not a folder; create it, or give an existing one",
                scratch.display()
            )));
        }
        refuse(self.resume && self.every.is_none(), "resume", text!("runs with checkpoints"))
    }

    /// The files that it writes, but for those of single subjects.
    pub(super) fn names(&self) -> Vec<String> {
        let labels = self.study.entries.iter().any(|e| e.labels.is_some());
        outputs(labels, self.report).map(|o| o.1.to_owned()).collect()
    }

    /// Does it all.
    pub(super) fn run(
        &self,
        machine: &Machine,
        team: &Team<AnyDevice>,
    ) -> Result<Option<Done<AtlasRecord>>> {
        let folder = self.study.output.join(CHECKPOINTS);
        let device = match machine.device {
            AnyDevice::Cpu(_) => "cpu",
            AnyDevice::Cuda(_) => "cuda",
        };
        let (resume, folder) = (self.resume, folder.as_path());
        let saving = self.every.map(|every| Saving { folder, every, resume, device });
        match (self.whole(team, machine, saving), saving) {
            (Err(Error::Stopped), Some(saving)) if saving.exists() => {
                Err(Error::Saved(self.study.output.to_owned()))
            }
            (done, _) => done,
        }
    }

    fn whole(
        &self,
        team: &Team<AnyDevice>,
        machine: &Machine,
        saving: Option<Saving<'_>>,
    ) -> Result<Option<Done<AtlasRecord>>> {
        let (study, world) = (&self.study, team.ranks());
        let (mut clock, listener) = (Clock::start(), study.listener);
        let mut staged = Staged::shared(study.output, world, listener)?;
        // Until the checkpoint is gone too.
        let _claim = staged.claim();
        match (self.resume, saving.is_some_and(|s| s.exists())) {
            (true, false) => listener
                .say(Level::Normal, "there is no checkpoint; the run starts from the beginning"),
            (false, true) => listener.say(
                Level::Normal,
                text!(
                    "the run starts from the beginning, and its checkpoints replace those of an \
                 earlier run that was stopped; `resume` would continue that run"
                ),
            ),
            _ => {}
        }
        let (prepared, key) = study.prepare(team, &mut clock, saving)?;

        let labels = world.agree(staged.scratch("labels"))?;
        let labels = LabelFiles::new(&labels, &prepared.aligned.grid);
        let away = world.agree(staged.scratch("away"))?;
        let checkpoints = saving.map(|s| s.of(&key));
        let run = Run {
            study,
            prepared: &prepared,
            labels: &labels,
            away: &away,
            checkpoints: checkpoints.as_ref(),
        };
        // Those that hold no subjects wait for the others.
        let first = world.first(self.holding(team, &prepared)?)?;
        let done = match first {
            None => Ok((staged, None)),
            Some(ranks) => Team::new(team.devices().to_vec(), ranks)
                .map_err(Error::from)
                .and_then(|team| self.build(&team, &run, staged)),
        };
        let (mut staged, made) = world.agree(done)?;
        clock.lap("register");
        staged.gather(world)?;
        let done = match made {
            Some((atlas, subjects, variation)) if world.is_first() => {
                let run = record(study.caller, machine, Vec::new());
                let made = Made { atlas: &atlas, run, subjects, labels: &labels, variation };
                self.write(staged, clock, prepared, made).map(Some)
            }
            // What others wrote is there until the first has moved it.
            _ => Ok(None),
        };
        let done = world.agree(done)?;
        if let (Some(checkpoints), true) = (&checkpoints, world.is_first()) {
            checkpoints.remove()?;
        }
        Ok(done)
    }

    /// How many processes hold subjects: as many as are asked for, or as a dry run says.
    fn holding(&self, team: &Team<AnyDevice>, prepared: &Prepared<'_>) -> Result<usize> {
        let (all, listener) = (team.ranks().size(), self.study.listener);
        match self.processes {
            _ if all == 1 => return Ok(1),
            Some(processes) if processes <= all => return Ok(processes),
            Some(processes) => {
                return Err(Error::input(text!(
                    "`processes` is {processes}, but only {all} were started; start more, or leave \
                     it out"
                )));
            }
            None => {}
        }
        let (grid, count) = (&prepared.aligned.grid, prepared.entries.len());
        let channels = prepared.source.size(0)?.channels;
        let dry = dry_run(team, grid, count, channels, &self.study.options)?;
        listener.say(
            Level::Normal,
            format!(
                "dry run: {:.4} s per step of a subject, {:.4} s for the sum over {all} processes",
                dry.times.per_image,
                dry.times.node + dry.network
            ),
        );
        for p in &dry.plan.table {
            let best = if p.nodes == dry.plan.best.nodes { ", chosen" } else { "" };
            listener.say(
                Level::Normal,
                format!(
                    "  {} processes, at most {} subjects per device: {:.4} s per iteration \
                     predicted{best}",
                    p.nodes,
                    p.images_per_device,
                    p.total()
                ),
            );
        }
        Ok(dry.plan.best.nodes)
    }

    /// Builds the atlas with the processes that hold subjects, each of which writes what it finds for its
    /// own. The first of them has the records of all.
    fn build<'s>(
        &self,
        team: &Team<AnyDevice>,
        run: &Run<'_>,
        staged: Staged<'s>,
    ) -> Result<(Staged<'s>, Option<Built>)> {
        let &Run { study, prepared, labels, away, checkpoints } = run;
        let staged = Mutex::new(staged);
        let subjects = Subjects {
            device: &team.devices()[0],
            prepared,
            study,
            staged: &staged,
            writes: self.subjects,
            labels,
            records: Mutex::default(),
            variation: Variation::default(),
        };
        let scratch = study.memory.scratch.clone().unwrap_or_else(|| away.to_owned());
        let memory = MemoryOptions { scratch: Some(scratch), ..study.memory.clone() };
        let building = Building {
            options: &study.options,
            memory: &memory,
            checkpoints,
            resume: self.resume,
            progress: study.listener,
            planned: &|plans| study.say_plans(plans),
        };
        let atlas = building.build(team, prepared, &prepared.source, &|f| subjects.take(f))?;
        let Subjects { records, variation, .. } = subjects;
        let variation = variation.all(team.ranks(), &atlas.geometry)?;
        let records = records.into_inner().unwrap_or_else(PoisonError::into_inner);
        let records = gathered(team.ranks(), records)?;
        let staged = staged.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((staged, Some((atlas, records, variation))))
    }

    /// Writes all that is not of one subject, and ends the run.
    fn write(
        &self,
        mut staged: Staged<'_>,
        mut clock: Clock,
        prepared: Prepared<'_>,
        Made { atlas, run, subjects, labels: files, variation }: Made<'_>,
    ) -> Result<Done<AtlasRecord>> {
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
        write(&mut staged, "", atlas, labels.as_ref())?;
        let template = of_template(&prepared, atlas, variation)?;
        template.iter().try_for_each(|t| t.write(&mut staged))?;
        without_older(&mut staged, &prepared.entries, self.subjects);
        clock.lap("write");
        let overlap = [files.mean_overlap(&before)?, files.mean_overlap(&after)?];

        let (verdict, unlike) = prepared.judge(atlas, subjects.iter().enumerate());
        let verdict = judged(verdict, &subjects, finest(&prepared.aligned.grid));
        let run = RunRecord { inputs: prepared.inputs, ..run };
        let mut record = AtlasRecord::new(run, GridRecord::from(&prepared.aligned.grid));
        record.parameters = self.study.used(&prepared.aligned);
        record.subjects = subjects;
        record.geometry = template.iter().map(|t| t.record.clone()).collect();
        record.figures = figures(atlas, overlap);
        let told = atlas.correlations.iter().zip(&atlas.information);
        for (subject, (correlation, information)) in record.subjects.iter_mut().zip(told) {
            (subject.correlation, subject.information) = (*correlation, Some(*information));
        }
        let mut verdict = self.study.caller.worded(verdict, Speaker::Atlas);
        verdict.remarks.extend(prepared.remarks.into_iter().map(Text::from));
        record.verdict = verdict;
        for (subject, unlike) in record.subjects.iter_mut().zip(unlike) {
            subject.outlying = unlike;
        }
        record.sharpness = atlas.sharpness.clone();
        record.scales = atlas.scales.clone();
        record.plans = atlas.plans.clone();
        let files =
            outputs(labels.is_some(), self.report).map(|(role, name)| (role, name.to_owned()));
        let shapes = template.iter().map(|made| ("shape", made.file.clone()));
        let written: Vec<_> = files.chain(shapes).collect();
        conclude(staged, clock, record, (self.study.output, &written), nothing_more, |record| {
            let shapes = template.iter().filter(|t| !t.is_marks).map(|t| TemplateShape {
                name: &t.name,
                mesh: &t.mesh,
                variation: &t.variation,
            });
            let marks = template.iter().filter(|t| t.is_marks);
            let marks = marks.map(|t| TemplateMarks { name: &t.name, mesh: &t.mesh });
            voxalign_report::atlas::render(&AtlasReport {
                record,
                affine_mean: &atlas.affine_mean[0],
                template: &atlas.template[0],
                variance: &atlas.variance,
                entropy: &atlas.entropy,
                log_jacobian: &atlas.log_jacobian,
                labels: labels.as_ref(),
                snapshots: &atlas.snapshots,
                timeline: atlas.trace.as_ref(),
                shapes: &shapes.collect::<Vec<_>>(),
                marks: &marks.collect::<Vec<_>>(),
            })
        })
    }
}

/// The files of an atlas, with what they are; of subjects with labels, and with a report.
fn outputs(labels: bool, report: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let page = report.then_some(("report", REPORT));
    images(labels).chain(page).chain([("record", RECORD)])
}

/// An atlas, the records of its subjects at the first process, and how far its shapes vary.
type Built = (Atlas, Vec<SubjectRecord>, Vec<Vec<f32>>);

/// What a process builds its part of an atlas from.
#[derive(Clone, Copy)]
struct Run<'r> {
    study: &'r Study<'r>,
    prepared: &'r Prepared<'r>,
    labels: &'r LabelFiles,
    /// The folder for subjects on disk, where none is named.
    away: &'r Path,
    checkpoints: Option<&'r Checkpoints<'r>>,
}

/// What all ranks made.
struct Made<'m> {
    atlas: &'m Atlas,
    run: RunRecord,
    subjects: Vec<SubjectRecord>,
    /// The label maps of the subjects on the grid of the atlas.
    labels: &'m LabelFiles,
    /// For each shape of the template how far its vertices vary, mm.
    variation: Vec<Vec<f32>>,
}

/// The records of the subjects of all ranks, in their order, at the first rank.
fn gathered(
    world: &Communicator,
    mut own: Vec<(usize, SubjectRecord)>,
) -> Result<Vec<SubjectRecord>> {
    if world.size() > 1 {
        own = told_to_first(world, &own)?.into_iter().flatten().collect();
    }
    own.sort_by_key(|(number, _)| *number);
    Ok(own.into_iter().map(|(_, record)| record).collect())
}
