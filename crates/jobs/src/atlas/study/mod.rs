//! Subjects in a common space, ready for atlases of any subset of them.

mod source;

use super::options::Exclude;
use crate::anatomy::{self, Common, Subject};
use crate::error::{Error, Result};
use crate::list::Entry;
use crate::listener::{Level, Listener, Quiet, check};
use crate::options::recorded;
use crate::run::{Caller, Clock, Input, Role, inputs as run_inputs};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use source::Files;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use voxalign_compute::comm::{Communicator, Team, balance};
use voxalign_compute::select::AnyDevice;
use voxalign_options::text;
use voxalign_population::PopulationError;
use voxalign_population::atlas::{
    AlignOptions, Aligned, Atlas, AtlasOptions, Checkpoints, Construction, Found, Judged,
    MemoryOptions, MemoryPlan, Source, Weighted, align, build, judge,
};
use voxalign_population::exchange::all_told;
use voxalign_register::attachment::images::finest;
use voxalign_register::{Choice, Progress, Verdict};
use voxalign_report::{InputRecord, SubjectRecord};

/// Which subjects, and how their atlases are made.
pub(super) struct Study<'a> {
    pub(super) entries: Vec<Entry>,
    /// What the entries have, where they are anatomies.
    pub(super) anatomies: Option<Anatomies>,
    pub(super) list: Option<&'a Path>,
    pub(super) caller: &'a Caller,
    pub(super) output: &'a Path,
    pub(super) align: AlignOptions,
    pub(super) options: AtlasOptions,
    pub(super) memory: MemoryOptions,
    pub(super) exclude: Vec<Exclude>,
    pub(super) listener: &'a dyn Listener,
}

/// What all anatomies of a study have.
pub(super) struct Anatomies {
    pub(super) common: Arc<Common>,
    /// The spacing of grids around shapes alone, mm, where one is asked for.
    pub(super) spacing: Option<f64>,
}

/// The subjects of a study in their common space, in the order of sums.
pub(super) struct Prepared<'l> {
    pub(super) entries: Vec<Entry>,
    pub(super) inputs: Vec<InputRecord>,
    pub(super) source: Files<'l>,
    pub(super) aligned: Aligned,
    /// What was left out, and why.
    pub(super) remarks: Vec<String>,
}

impl Prepared<'_> {
    /// The verdict on an atlas of these of the subjects, with their numbers, and which of them are unlike the others.
    pub(super) fn judge<'s>(
        &self,
        atlas: &Atlas,
        subjects: impl Iterator<Item = (usize, &'s SubjectRecord)>,
    ) -> (Verdict, Vec<bool>) {
        let judged: Vec<_> = subjects
            .map(|(number, subject)| Judged {
                name: &subject.name,
                deformation: &subject.verdict,
                affine: self.aligned.verdicts.get(number),
            })
            .collect();
        judge(atlas, &judged)
    }
}

/// Subjects in the order of sums, before they are aligned.
struct Listed {
    entries: Vec<Entry>,
    inputs: Vec<InputRecord>,
    /// The checksums of the files of each subject.
    sums: Vec<Vec<String>>,
    remarks: Vec<String>,
}

/// Where a run is saved, before it is known what it is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Saving<'a> {
    pub(super) folder: &'a Path,
    pub(super) every: std::time::Duration,
    pub(super) resume: bool,
    /// The kind of device that computes, as `--device` names it.
    pub(super) device: &'static str,
}

impl<'a> Saving<'a> {
    /// Whether there is something that a run can go on from.
    pub(super) fn exists(&self) -> bool {
        self.of("").exist()
    }

    /// The checkpoints of what `key` says.
    pub(super) fn of(&self, key: &'a str) -> Checkpoints<'a> {
        Checkpoints { folder: self.folder, every: self.every, key, device: self.device }
    }
}

/// The files of a subject.
fn of_entry(entry: &Entry) -> Vec<Input<'_>> {
    let mut files = match &entry.anatomy {
        Some(anatomy) => anatomy::files_of(anatomy),
        None => entry.channels.iter().map(|p| Input::new(Role::Channel, p)).collect(),
    };
    let others = [(Role::Mask, &entry.mask), (Role::Labels, &entry.labels)];
    files.extend(Input::those_given(&others));
    files
}

/// A failure that all ranks found, told by the first of them.
fn of_all(world: &Communicator, failure: Error) -> Error {
    if world.is_first() { failure } else { Error::Peer(failure.to_string()) }
}

/// Why a subject was not read; what says nothing of its file excludes nobody.
#[derive(Serialize, Deserialize)]
enum Unread {
    Stopped,
    Memory(String),
    File(String),
}

impl From<Error> for Unread {
    fn from(failure: Error) -> Self {
        match failure {
            Error::Stopped => Self::Stopped,
            Error::Memory(why) => Self::Memory(why.to_string()),
            other => Self::File(other.to_string()),
        }
    }
}

impl<'a> Study<'a> {
    /// All files that are read.
    pub(super) fn files(&self) -> Vec<&Path> {
        self.entries
            .iter()
            .flat_map(Entry::files)
            .chain(self.list)
            .chain(self.caller.config.as_deref())
            .collect()
    }

    /// All files that are read, with what they are.
    pub(super) fn inputs(&self) -> Vec<Input<'_>> {
        let mut all: Vec<_> = self.entries.iter().flat_map(of_entry).collect();
        all.extend(self.list.map(|path| Input::new(Role::List, path)));
        all.extend(self.caller.config.as_deref().map(|path| Input::new(Role::Config, path)));
        all
    }

    /// Reads the subjects and aligns them all; with checkpoints, where that was not done before. Gives the
    /// key of the run beside them.
    pub(super) fn prepare(
        &self,
        team: &Team<AnyDevice>,
        clock: &mut Clock,
        saving: Option<Saving<'_>>,
    ) -> Result<(Prepared<'a>, String)> {
        let (world, listener) = (team.ranks(), self.listener);
        let Listed { mut entries, inputs, sums, mut remarks } = self.listed(world)?;
        let key = self.key(&entries, &sums);
        let anatomies = world.agree(self.read_anatomies(&entries))?;
        let mut source = Files::new(&entries, anatomies, listener, world.size())?;
        clock.lap("read");
        let checkpoints = saving.map(|s| s.of(&key));
        let kept = match (&checkpoints, saving.is_some_and(|s| s.resume)) {
            (Some(checkpoints), true) => world.agree(checkpoints.read_aligned(listener))?,
            _ => None,
        };
        let aligned = match kept {
            Some(aligned) => {
                listener.say(Level::Normal, "the common space of the stopped run is used");
                aligned
            }
            None => {
                let solver = &self.options.matching.solver;
                let aligned = align(team, &source, &self.align, solver, listener)?;
                if let Some(checkpoints) = &checkpoints {
                    let first = world.is_first();
                    let done = if first { checkpoints.write_aligned(&aligned) } else { Ok(()) };
                    world.agree(done)?;
                }
                aligned
            }
        };
        for (number, entry) in entries.iter().enumerate() {
            if !aligned.kept.contains(&number) {
                let remark = format!("'{}' was left out: it is unlike the others", entry.name);
                listener.say(Level::Warning, &remark);
                remarks.push(remark);
            }
        }
        entries = aligned.kept.iter().map(|&k| entries[k].clone()).collect();
        source.keep(&aligned.kept);
        source.place(&aligned.affines);
        check(listener)?;
        clock.lap("affine");
        Ok((Prepared { entries, inputs, source, aligned, remarks }, key))
    }

    /// What the subjects have that are anatomies; none where they are images.
    fn read_anatomies(&self, entries: &[Entry]) -> Result<Vec<Subject>> {
        let Some(Anatomies { common, spacing }) = &self.anatomies else { return Ok(Vec::new()) };
        let read = |entry: &Entry| {
            check(self.listener)?;
            match &entry.anatomy {
                Some(anatomy) => Subject::read(common, anatomy, *spacing, self.listener),
                None => Err(Error::Internal("an anatomy without its file".into())),
            }
        };
        let all = entries.iter().map(read).collect::<Result<Vec<_>>>()?;
        anatomy::check_all(&all, self.listener)?;
        Ok(all)
    }

    /// The subjects in the order of sums, which is that of the images themselves, however they were given.
    fn listed(&self, world: &Communicator) -> Result<Listed> {
        let own = balance::share(self.entries.len(), world.size(), world.rank());
        let looked: Vec<Result<Vec<InputRecord>, Unread>> = self.entries[own]
            .par_iter()
            .map(|entry| self.look(entry).map_err(Unread::from))
            .collect();
        let looked = all_told(world, &looked)?.into_iter().flatten();
        let (mut all, mut remarks) = (Vec::new(), Vec::new());
        for (entry, records) in self.entries.iter().zip(looked) {
            match records {
                Ok(records) => all.push((records, entry)),
                Err(Unread::Stopped) => return Err(of_all(world, Error::Stopped)),
                Err(Unread::Memory(why)) => return Err(of_all(world, Error::Memory(why.into()))),
                Err(Unread::File(why)) if self.exclude.contains(&Exclude::Unreadable) => {
                    remarks.push(format!("'{}' was left out: {why}", entry.name));
                }
                Err(Unread::File(why)) => {
                    let error = text!("{why}; `exclude = unreadable` leaves such subjects out");
                    return Err(of_all(world, Error::input(error)));
                }
            }
        }
        for remark in &remarks {
            self.listener.say(Level::Warning, remark);
        }
        if all.len() < 2 {
            let why =
                format!("an atlas needs at least two images, but only {} can be used", all.len());
            return Err(of_all(world, Error::input(why)));
        }
        let sums = |records: &[InputRecord]| -> Vec<String> {
            records.iter().map(|i| i.sha256.clone()).collect()
        };
        all.sort_by(|(a, x), (b, y)| {
            sums(a).cmp(&sums(b)).then(x.weight.total_cmp(&y.weight)).then(x.name.cmp(&y.name))
        });
        let entries = all.iter().map(|(_, e)| (*e).clone()).collect();
        let of_each = all.iter().map(|(records, _)| sums(records)).collect();
        let mut inputs: Vec<_> = all.into_iter().flat_map(|(records, _)| records).collect();
        if let Some(list) = self.list {
            inputs.extend(run_inputs(&[Input::new(Role::List, list)], self.listener)?);
        }
        if let Some(config) = &self.caller.config {
            inputs.extend(run_inputs(&[Input::new(Role::Config, config)], self.listener)?);
        }
        Ok(Listed { entries, inputs, sums: of_each, remarks })
    }

    /// What is known of the files of a subject. Its labels are read, as they are needed at the end only;
    /// where unreadable files are to be left out, all are.
    fn look(&self, entry: &Entry) -> Result<Vec<InputRecord>> {
        let records = run_inputs(&of_entry(entry), self.listener)?;
        if self.exclude.contains(&Exclude::Unreadable) {
            for path in entry.channels.iter().chain(&entry.mask) {
                crate::files::image(path, &Quiet(self.listener))?;
            }
        }
        if let Some(labels) = &entry.labels {
            crate::files::labels(labels, self.listener)?;
        }
        Ok(records)
    }

    /// What a run is of: a checkpoint of another one is refused.
    fn key(&self, entries: &[Entry], sums: &[Vec<String>]) -> String {
        let subject = |(e, sums): (&Entry, &Vec<String>)| json!([e.name, e.weight, sums]);
        let subjects: Vec<_> = entries.iter().zip(sums).map(subject).collect();
        let grid = self.align.grid.as_ref().map(|g| json!([g.dims(), g.to_world().rows()]));
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "parameters": self.parameters(),
            "spacing": self.align.spacing,
            "grid": grid,
            "outlying": self.align.exclude_outlying,
            "subjects": subjects,
        })
        .to_string()
    }

    /// The parameters of the atlases as they were used, for the record: with what was decided when the images were
    /// known.
    pub(super) fn used(&self, aligned: &Aligned) -> serde_json::Value {
        let mut all = self.parameters();
        if let Some(all) = all.as_object_mut() {
            all.insert("spacing_mm".to_owned(), json!(finest(&aligned.grid)));
        }
        all
    }

    /// The parameters of the atlases, as far as they are known before the images.
    fn parameters(&self) -> serde_json::Value {
        let (o, similarity) = (&self.options, self.options.similarity);
        let told: &[_] = if self.anatomies.is_some() { &[] } else { &[similarity] };
        let mut all = recorded(&o.matching, told);
        let align = match &self.align.affine {
            Some(a) => {
                let cost = a.first_similarity();
                let mut align = cost.as_json();
                align.insert("dof".to_owned(), json!(a.dof));
                align.insert("cost".to_owned(), json!(cost.name()));
                align.insert("rounds".to_owned(), json!(self.align.rounds));
                json!(align)
            }
            None => json!("none"),
        };
        all.insert("align".to_owned(), align);
        match &self.anatomies {
            Some(of) => all.insert("anatomy".to_owned(), of.common.parameters()),
            None => all.insert("similarity".to_owned(), json!(similarity.name())),
        };
        all.insert("centre".to_owned(), json!(o.centre));
        let exclude: Vec<_> = self.exclude.iter().map(|e| e.name()).collect();
        all.insert("exclude".to_owned(), json!(exclude));
        json!(all)
    }

    /// How one of several atlases is built.
    pub(super) fn building<'b>(
        &'b self,
        progress: &'b dyn Progress,
        planned: &'b (dyn Fn(&[MemoryPlan]) + Sync),
    ) -> Building<'b> {
        let (options, memory) = (&self.options, &self.memory);
        Building { options, memory, checkpoints: None, resume: false, progress, planned }
    }

    /// Says where the subjects are between iterations.
    pub(super) fn say_plans(&self, plans: &[MemoryPlan]) {
        for (i, plan) in plans.iter().enumerate() {
            let device = if plans.len() > 1 { format!("device {i}: ") } else { String::new() };
            self.listener.say(Level::Normal, format!("memory: {device}{plan}"));
        }
    }
}

/// How an atlas is built.
pub(super) struct Building<'a> {
    pub(super) options: &'a AtlasOptions,
    pub(super) memory: &'a MemoryOptions,
    pub(super) checkpoints: Option<&'a Checkpoints<'a>>,
    pub(super) resume: bool,
    pub(super) progress: &'a dyn Progress,
    pub(super) planned: &'a (dyn Fn(&[MemoryPlan]) + Sync),
}

impl Building<'_> {
    /// Builds the atlas of subjects of a source. `found` takes what is found for each subject of this rank,
    /// from the threads of its devices.
    pub(super) fn build(
        &self,
        team: &Team<AnyDevice>,
        prepared: &Prepared<'_>,
        source: &dyn Source,
        found: &(dyn Fn(Found) -> Result<()> + Sync),
    ) -> Result<Atlas> {
        let failed = Mutex::new(None);
        let sink = |result: Found| {
            let file = source.label(result.subject);
            found(result).map_err(|e| {
                let what = e.to_string();
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                PopulationError::Input { file, what }
            })
        };
        let construction = Construction {
            team,
            grid: &prepared.aligned.grid,
            source,
            options: self.options,
            memory: self.memory,
            checkpoints: self.checkpoints,
            resume: self.resume,
            progress: self.progress,
            planned: self.planned,
        };
        let built = build(&construction, &sink);
        match (built, failed.into_inner().unwrap_or_else(PoisonError::into_inner)) {
            (_, Some(failure)) => Err(failure),
            (built, None) => Ok(built?),
        }
    }
}

/// Builds the atlas of the subjects of a weight above 0: the only place where a regression and a test
/// of stability build one. `found` takes what is found for each subject, by its number among all, in any order.
pub(super) fn weighted_atlas(
    team: &Team<AnyDevice>,
    prepared: &Prepared<'_>,
    building: &Building<'_>,
    weights: &[f64],
    found: &mut (dyn FnMut(usize, Found) -> Result<()> + Send),
) -> Result<Atlas> {
    let some = Weighted::new(&prepared.source, weights)?;
    let found = Mutex::new(found);
    let take = |result: Found| {
        let number = some.numbers()[result.subject];
        found.lock().unwrap_or_else(PoisonError::into_inner)(number, result)
    };
    building.build(team, prepared, &some, &take)
}
