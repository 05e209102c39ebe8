//! Subjects in a common space, ready for atlases of any of them: what a regression and a test of
//! stability begin with.

use super::source::Files;
use crate::failure::Failure;
use crate::interrupt;
use crate::list::Entry;
use crate::progress::{Printer, Talk};
use crate::registration::{self, Clock, Input};
use serde_json::json;
use std::path::Path;
use voxalign_compute::Device;
use voxalign_population::PopulationError;
use voxalign_population::atlas::{
    AlignOptions, Aligned, Atlas, AtlasOptions, Found, Weighted, align, build,
};
use voxalign_register::{Choice, Progress};
use voxalign_report::InputRecord;

/// Which subjects, and how their atlases are made.
pub(super) struct Study<'a> {
    pub(super) entries: Vec<Entry>,
    pub(super) list: Option<&'a Path>,
    pub(super) output: &'a Path,
    pub(super) align: AlignOptions,
    pub(super) options: AtlasOptions,
    pub(super) talk: Talk,
}

/// The subjects of a study in their common space, in the order of sums.
pub(super) struct Prepared {
    pub(super) entries: Vec<Entry>,
    pub(super) inputs: Vec<InputRecord>,
    pub(super) source: Files,
    pub(super) aligned: Aligned,
}

impl Study<'_> {
    /// All files that are read.
    pub(super) fn files(&self) -> Vec<&Path> {
        self.entries.iter().flat_map(Entry::files).chain(self.list).collect()
    }

    /// Reads the subjects and aligns them all.
    pub(super) fn prepare<D: Device>(
        &self,
        device: &D,
        printer: &Printer,
        clock: &mut Clock,
    ) -> Result<Prepared, Failure> {
        let mut all = Vec::new();
        for entry in &self.entries {
            let mut files: Vec<_> =
                entry.channels.iter().map(|p| Input::image("channel", p)).collect();
            files.extend(Input::those_given(&[("mask", &entry.mask), ("labels", &entry.labels)]));
            all.push((registration::inputs(&files)?, entry));
        }
        // The order of sums is that of the images themselves, however they were given.
        let sums = |records: &[InputRecord]| -> Vec<String> {
            records.iter().map(|i| i.sha256.clone()).collect()
        };
        all.sort_by(|(a, x), (b, y)| {
            sums(a).cmp(&sums(b)).then(x.weight.total_cmp(&y.weight)).then(x.name.cmp(&y.name))
        });
        let entries: Vec<Entry> = all.iter().map(|(_, e)| (*e).clone()).collect();
        let mut inputs: Vec<_> = all.into_iter().flat_map(|(records, _)| records).collect();
        if let Some(list) = self.list {
            inputs.extend(registration::inputs(&[Input::other("list", list)])?);
        }
        let mut source = Files::new(&entries, self.talk)?;
        clock.lap("read");
        let solver = &self.options.matching.solver;
        let aligned = align(device, &source, &self.align, solver, printer)?;
        source.place(&aligned.affines);
        interrupt::check()?;
        clock.lap("affine");
        Ok(Prepared { entries, inputs, source, aligned })
    }

    /// The parameters of the atlases, for the record.
    pub(super) fn parameters(&self) -> serde_json::Value {
        let (o, similarity) = (&self.options, self.options.similarity);
        let mut all = registration::matching_parameters(&o.matching, &[similarity]);
        let align =
            self.align.affine.as_ref().map(
                |a| json!({ "dof": a.dof, "cost": a.cost.name(), "rounds": self.align.rounds }),
            );
        if let Some(all) = all.as_object_mut() {
            all.insert("align".to_owned(), json!(align));
            all.insert("similarity".to_owned(), json!(similarity.name()));
            all.insert("centre".to_owned(), json!(o.centre));
        }
        all
    }
}

/// Builds the atlas of the subjects of a weight above 0: the only place where a regression and a test
/// of stability build one. `found` takes what is found for each subject, by its number among all.
pub(super) fn weighted_atlas<D: Device>(
    device: &D,
    prepared: &Prepared,
    options: &AtlasOptions,
    weights: &[f64],
    progress: &dyn Progress,
    found: &mut dyn FnMut(usize, Found) -> Result<(), Failure>,
) -> Result<Atlas, Failure> {
    let some = Weighted::new(&prepared.source, weights)?;
    let mut failed = None;
    let mut sink = |result: Found| {
        let number = some.numbers()[result.subject];
        found(number, result).map_err(|e| {
            let what = e.to_string();
            failed = Some(e);
            PopulationError::Input { file: prepared.entries[number].channels[0].clone(), what }
        })
    };
    let built = build(device, &prepared.aligned.grid, &some, options, progress, &mut sink);
    match (built, failed) {
        (_, Some(failure)) => Err(failure),
        (built, None) => Ok(built?),
    }
}
