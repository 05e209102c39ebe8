//! Surfaces of many labels, one each.

use super::object::{Object, labels_of, no_label};
use super::{Job, ObjectOptions, Options};
use crate::Job as _;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, check, reading};
use crate::machine::Machine;
use crate::pair::label_names;
use crate::remedy::Speaker;
use crate::run::{
    Caller, Clock, Done, check_written, conclude, inputs, nothing_more, record, written,
};
use crate::staged::Staged;
use serde_json::json;
use voxalign_image::{LabelMap, Mesh, Volume, memory};
use voxalign_io::image;
use voxalign_io::mesh::{self, WriteOptions};
use voxalign_io::names::LabelNames;
use voxalign_options::{Text, text};
use voxalign_register::{Check, Verdict};
use voxalign_report::surfaces::{LabelSurface, SurfacesRecord, SurfacesReport, render};
use voxalign_report::{GridRecord, RunRecord};

/// Most bytes of a label's name in that of a file.
const NAME: usize = 80;

/// A label of which a surface is made.
#[derive(Debug, Clone)]
pub(super) struct Labelled {
    label: i32,
    name: Option<String>,
    /// The name of the mesh in the folder.
    file: String,
}

impl Job {
    /// Checks the outputs whose names are known before labels are read.
    pub(super) fn check_folder(&self, caller: &Caller) -> Result<()> {
        let wanted = self.options.made()?.0.label;
        let labels = wanted.iter().map(|&label| self.labelled(label, None, false));
        let labels: Vec<_> = labels.collect();
        let written = self.written_each(&labels);
        check_written(&self.output, &written, &self.files(caller))
    }

    /// What is written: meshes, the report where there is one, and the record.
    pub(super) fn written_each(&self, labels: &[Labelled]) -> Vec<(&'static str, String)> {
        written(labels.iter().map(|l| ("surface", l.file.clone())), self.options.report)
    }

    fn labelled(&self, label: i32, names: Option<&LabelNames>, flat: bool) -> Labelled {
        let name = names.and_then(|names| names.get(&label)).cloned();
        let usual = if flat { "vtk" } else { "gii" };
        let ending = self.options.format.as_deref().unwrap_or(usual);
        let file = match name.as_deref().map(plain).filter(|name| !name.is_empty()) {
            Some(name) => format!("label_{label}_{name}.{ending}"),
            None => format!("label_{label}.{ending}"),
        };
        Labelled { label, name, file }
    }

    /// The map, the names of labels, and of which labels surfaces are made.
    pub(super) fn wanted_labels(
        &self,
        listener: &dyn Listener,
    ) -> Result<(LabelMap, LabelNames, Vec<Labelled>)> {
        let read = || image::read_labels_of(&self.image, &self.which.options());
        let map = reading(listener, read)?;
        let names = label_names(&self.options.label_names, listener)?;
        let found = labels_of(&map);
        let mut labels: Vec<i32> = match &*self.options.made()?.0.label {
            [] => found.iter().copied().filter(|l| *l != 0).collect(),
            wanted => wanted.to_vec(),
        };
        labels.sort_unstable();
        labels.dedup();
        let at = format!("'{}'", self.image.display());
        if labels.is_empty() {
            return Err(Error::input(text!(
                "{at}: the label map has no label but 0: there is nothing to make a surface of"
            )));
        }
        if let Some(missing) = labels.iter().find(|label| !found.contains(label)) {
            return Err(no_label(*missing, &found).at(&at));
        }
        let flat = map.grid().is_2d();
        let labels: Vec<_> =
            labels.into_iter().map(|l| self.labelled(l, Some(&names), flat)).collect();
        if let Some(first) = labels.first() {
            self.options.check_lines(&self.output.join(&first.file), flat)?;
        }
        Ok((map, names, labels))
    }

    /// Does it all for each label by itself: one mesh a label, one record and one report, in a folder.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn run_each(
        &self,
        machine: &Machine,
        caller: &Caller,
        listener: &dyn Listener,
    ) -> Result<Done<SurfacesRecord>> {
        if !self.options.each {
            return Err(Error::input(text!("give `each` for one surface per label, in a folder")));
        }
        self.check(caller, listener)?;
        let mut clock = Clock::start();
        let files = self.files(caller);
        let read = inputs(&files, listener)?;
        let (map, _, labels) = self.wanted_labels(listener)?;
        let written = self.written_each(&labels);
        check_written(&self.output, &written, &files)?;
        clock.lap("read");
        let (object, shape) = self.options.made()?;
        let mut staged = Staged::new(&self.output, listener)?;
        let space = self.options.space.unwrap_or_default().into();
        let options = WriteOptions { space, ..WriteOptions::default() };
        let mut records: Vec<LabelSurface> = memory::room(labels.len())?;
        let mut meshes: Vec<Mesh> = Vec::new();
        for of in labels {
            check(listener)?;
            let wanted = ObjectOptions { label: vec![of.label], ..object.clone() };
            let at = |e: Error| e.at(format!("label {}", of.label));
            let found = Object::of_labels(&map, &wanted.label).map_err(at)?;
            let making = self.making(machine, listener, (&wanted, &shape));
            let (shaped, mut found) = making.make(found, &mut clock).map_err(at)?;
            found.verdict = caller.worded(found.verdict, Speaker::Surface);
            let said = format!("{}: {}", of.file, found.verdict.summary());
            listener.say(Level::Verbose, &said);
            staged.write(&of.file, |path| mesh::write(path, &shaped.mesh, &options))?;
            clock.lap("write");
            if self.options.report {
                memory::push(&mut meshes, shaped.mesh)?;
            }
            let Labelled { label, name, file } = of;
            records.push(LabelSurface { label, name, file, found });
        }
        let run = RunRecord {
            parameters: self.parameters_each(&records)?,
            ..record(caller, machine, read)
        };
        let mut record = SurfacesRecord::new(run, GridRecord::from(map.grid()));
        record.verdict = caller.worded(together(&records), Speaker::Surface);
        record.surfaces = records;
        conclude(staged, clock, record, (&self.output, &written), nothing_more, |record| {
            let image: Volume<f32> = map.try_map(|&l| shade(l))?;
            drop(map);
            Ok::<_, Error>(render(&SurfacesReport { record, image: &image, meshes: &meshes })?)
        })
    }

    /// The parameters as they were used, also those left at their default.
    fn parameters_each(&self, records: &[LabelSurface]) -> Result<serde_json::Value> {
        let Options { each, format, label_names, .. } = &self.options;
        let mut all = self.parameters()?;
        all["label"] = records.iter().map(|r| r.label).collect();
        all["each"] = json!(each);
        all["format"] = json!(format);
        all["label_names"] = json!(label_names.as_ref().map(|p| p.display().to_string()));
        Ok(all)
    }
}

/// How bright a label is drawn: 0 is black, neighbours differ.
fn shade(label: i32) -> f32 {
    match label {
        0 => 0.0,
        l => 0.3 + 0.7 * (l.wrapping_mul(37).rem_euclid(64) as f32 / 63.0),
    }
}

/// The name of a label as that of a file.
fn plain(name: &str) -> String {
    let fits = |c: char| if c.is_alphanumeric() || "-+".contains(c) { c } else { '_' };
    let mut out = String::new();
    for c in name.trim().chars().map(fits) {
        if out.len() + c.len_utf8() > NAME {
            break;
        }
        out.push(c);
    }
    out
}

/// The verdict on all: each check with the labels that do not meet it, and what is remarked of several.
fn together(records: &[LabelSurface]) -> Verdict {
    let mut checks: Vec<Check> = Vec::new();
    let named = |r: &LabelSurface| r.label.to_string();
    let names = records.first().map(|r| r.found.verdict.checks.iter().map(|c| c.name.clone()));
    for name in names.into_iter().flatten() {
        let of = |r: &LabelSurface| r.found.verdict.checks.iter().find(|c| c.name == name).cloned();
        let failed: Vec<_> =
            records.iter().filter_map(|r| Some((named(r), of(r).filter(|c| !c.passed)?))).collect();
        let remedy = failed.iter().find_map(|(_, check)| check.remedy_code);
        let which = failed.into_iter().map(|(label, _)| label).collect::<Vec<_>>();
        let check = Check::none(format!("labels beyond the bound of: {name}"), which.len() as u64);
        let check = check.of(which);
        checks.push(match remedy {
            Some(remedy) => check.or(remedy),
            None => check,
        });
    }
    let mut remarks = Vec::new();
    let mut remark = |what: Text, holds: &dyn Fn(&LabelSurface) -> bool| {
        let of: Vec<_> = records.iter().filter(|r| holds(r)).map(named).collect();
        if !of.is_empty() {
            remarks.push(text!("{what}: {}", of.join(", ")));
        }
    };
    remark(
        text!("labels that reach the border of the image, where their surfaces are closed"),
        &|r| r.found.object.at_border,
    );
    remark(
        text!(
            "labels whose surfaces have several parts (`largest_component` and `fill_holes` leave one)"
        ),
        &|r| r.found.surface.components > 1,
    );
    Verdict::new(checks, remarks)
}
