//! The construction of an atlas, from files to files.

use super::source::Files;
use super::table;
use crate::device::Machine;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::interrupt;
use crate::list::Entry;
use crate::output;
use crate::progress::{Printer, Talk};
use crate::registration::{self, Clock, Input, RECORD, check_outputs, peak_memory, write_text};
use crate::staging::Staging;
use serde_json::json;
use std::path::Path;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_compute::{Device, on_device};
use voxalign_image::{Affine, Displacement, Grid, LabelMap, Transform};
use voxalign_io::image::{self, DataType};
use voxalign_io::transform::{self, Geometry};
use voxalign_population::PopulationError;
use voxalign_population::atlas::{
    AlignOptions, Atlas, AtlasOptions, Found, Judged, align, build, judge, mean_overlap,
    most_frequent, root_mean_square,
};
use voxalign_register::Choice;
use voxalign_register::resample::labels_onto;
use voxalign_report::{AtlasRecord, GridRecord, OutputRecord, SubjectRecord};

/// Names of the files of an atlas.
const ATLAS: &str = "atlas.nii.gz";
const AFFINE_MEAN: &str = "atlas_affine.nii.gz";
const VARIANCE: &str = "variance.nii.gz";
const LOG_JACOBIAN: &str = "log_jacobian.nii.gz";
const LABELS: &str = "labels.nii.gz";

/// An atlas that is to be built.
pub(super) struct Job<'a> {
    pub(super) entries: Vec<Entry>,
    pub(super) list: Option<&'a Path>,
    pub(super) output: &'a Path,
    pub(super) align: AlignOptions,
    pub(super) options: AtlasOptions,
    /// Whether files are written for each subject.
    pub(super) subjects: bool,
    pub(super) talk: Talk,
}

/// Label maps on the grid of the atlas, by subject: after the affine map, and after the deformation.
#[derive(Default)]
struct Carried {
    before: Vec<LabelMap>,
    after: Vec<LabelMap>,
}

impl Job<'_> {
    /// Checks what can be checked before a device is started.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let inputs: Vec<&Path> =
            self.entries.iter().flat_map(Entry::files).chain(self.list).collect();
        let outputs = [ATLAS, AFFINE_MEAN, VARIANCE, LOG_JACOBIAN, LABELS, RECORD];
        check_outputs(self.output, outputs.into_iter(), inputs.into_iter())?;
        if self.entries.len() < 2 {
            return Err(Failure::input(format!(
                "an atlas needs two images at least, {} given",
                self.entries.len()
            )));
        }
        Ok(())
    }

    /// Does it all and prints the table.
    pub(super) fn run(&self, machine: &Machine) -> Result<Outcome, Failure> {
        on_device!(&machine.device, |device| self.run_on(device, machine))
    }

    fn run_on<D: Device>(&self, device: &D, machine: &Machine) -> Result<Outcome, Failure> {
        let mut clock = Clock::start();
        let mut all = Vec::new();
        for entry in &self.entries {
            let mut of_entry: Vec<_> =
                entry.channels.iter().map(|p| Input::image("channel", p)).collect();
            of_entry
                .extend(Input::those_given(&[("mask", &entry.mask), ("labels", &entry.labels)]));
            all.push((registration::inputs(&of_entry)?, entry));
        }
        // The order of sums is that of the images themselves, however they were given.
        all.sort_by(|(a, x), (b, y)| {
            let sums = |r: &[voxalign_report::InputRecord]| -> Vec<String> {
                r.iter().map(|i| i.sha256.clone()).collect()
            };
            sums(a).cmp(&sums(b)).then(x.weight.total_cmp(&y.weight)).then(x.name.cmp(&y.name))
        });
        let entries: Vec<Entry> = all.iter().map(|(_, e)| (*e).clone()).collect();
        let mut records: Vec<_> = all.into_iter().flat_map(|(r, _)| r).collect();
        if let Some(list) = self.list {
            records.extend(registration::inputs(&[Input::other("list", list)])?);
        }
        let mut source = Files::new(&entries, self.talk)?;
        clock.lap("read");

        let mut staging = Staging::new(self.output)?;
        let printer = Printer::new(self.talk);
        let solver = &self.options.matching.solver;
        let aligned = align(device, &source, &self.align, solver, &printer)?;
        source.place(&aligned.affines);
        interrupt::check()?;
        clock.lap("affine");

        let run = registration::record("voxalign atlas", machine, records);
        let mut record = AtlasRecord::new(run, GridRecord::from(&aligned.grid));
        record.parameters = self.parameters();
        let mut carried = Carried::default();
        let mut failed = None;
        let mut sink = |found: Found| {
            let entry = &entries[found.subject];
            let affine = &aligned.affines[found.subject];
            record.subjects.push(subject(entry, affine, &found));
            self.subject(device, &mut staging, entry, affine, found, &mut carried).map_err(|e| {
                let what = e.to_string();
                failed = Some(e);
                PopulationError::Input { file: entry.channels[0].clone(), what }
            })
        };
        let built = build(device, &aligned.grid, &source, &self.options, &printer, &mut sink);
        let atlas = match (built, failed) {
            (_, Some(failure)) => return Err(failure),
            (built, None) => built?,
        };
        printer.finish();
        clock.lap("register");

        self.images(&mut staging, &atlas)?;
        let labels = most_frequent(&carried.after);
        match &labels {
            Some(labels) => {
                let options = files::write_options(DataType::I32, dimensions(&aligned.grid));
                staging.write(LABELS, |path| image::write_labels(path, labels, &options))?;
            }
            None => staging.without(LABELS),
        }
        clock.lap("write");
        let overlap = [mean_overlap(&carried.before)?, mean_overlap(&carried.after)?];
        self.figures(&mut record, &atlas, overlap);
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
                affine: aligned.verdicts.get(i),
            })
            .collect();
        let (verdict, unlike) = judge(&atlas, &judged);
        record.verdict = verdict;
        for (subject, unlike) in record.subjects.iter_mut().zip(unlike) {
            subject.outlying = unlike;
        }
        record.sharpness = atlas.sharpness;
        record.scales = atlas.scales;
        self.finish(staging, clock, record, labels.is_some())
    }

    fn parameters(&self) -> serde_json::Value {
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

    /// Writes what was found for a subject, and carries its labels.
    fn subject<D: Device>(
        &self,
        device: &D,
        staging: &mut Staging,
        entry: &Entry,
        affine: &Affine,
        found: Found,
        carried: &mut Carried,
    ) -> Result<(), Failure> {
        let grid = found.jacobian.grid().clone();
        let name = |file: &str| format!("subjects/{}/{file}", entry.name);
        let warp = Transform::Displacement(Displacement::new(found.forward));
        if self.subjects {
            let inverse = Transform::Displacement(Displacement::new(found.inverse));
            for (file, field) in [("warp.nii.gz", &warp), ("inverse_warp.nii.gz", &inverse)] {
                staging.write(&name(file), |path| {
                    transform::write(path, field, &Geometry::default())
                })?;
            }
            let affine = Transform::Affine(*affine);
            staging.write(&name("affine.tfm"), |path| {
                if !grid.is_2d() || !transform::write_itk_2d(path, &affine)? {
                    transform::write(path, &affine, &Geometry::default())?;
                }
                Ok(())
            })?;
            let options = files::write_options(DataType::F32, dimensions(&grid));
            for (c, warped) in found.warped.iter().enumerate() {
                let file = match c {
                    0 => name("warped.nii.gz"),
                    c => name(&format!("warped{}.nii.gz", c + 1)),
                };
                staging.write(&file, |path| image::write_volume(path, warped, &options))?;
            }
            staging.write(&name("jacobian.nii.gz"), |path| {
                image::write_volume(path, &found.jacobian, &options)
            })?;
        }
        if let Some(labels) = &entry.labels {
            let labels = files::labels(labels)?;
            let nearest = LabelInterpolation::Nearest;
            let linear = Transform::Affine(*affine);
            carried.before.push(labels_onto(device, &labels, &grid, &linear, nearest, 0)?);
            let whole = Transform::Composite(vec![warp, linear]);
            carried.after.push(labels_onto(device, &labels, &grid, &whole, nearest, 0)?);
        }
        Ok(())
    }

    fn images(&self, staging: &mut Staging, atlas: &Atlas) -> Result<(), Failure> {
        let options = files::write_options(DataType::F32, dimensions(atlas.variance.grid()));
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
        for (file, volume) in [(VARIANCE, &atlas.variance), (LOG_JACOBIAN, &atlas.log_jacobian)] {
            staging.write(file, |path| image::write_volume(path, volume, &options))?;
        }
        Ok(())
    }

    fn figures(&self, record: &mut AtlasRecord, atlas: &Atlas, overlap: [Option<f64>; 2]) {
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

    fn finish(
        &self,
        mut staging: Staging,
        mut clock: Clock,
        mut record: AtlasRecord,
        labels: bool,
    ) -> Result<Outcome, Failure> {
        let outputs = [
            ("atlas", ATLAS),
            ("affine_mean", AFFINE_MEAN),
            ("variance", VARIANCE),
            ("log_jacobian", LOG_JACOBIAN),
            ("labels", LABELS),
            ("record", RECORD),
        ];
        for (role, name) in outputs.into_iter().filter(|o| labels || o.1 != LABELS) {
            let path = staging.final_path(name).display().to_string();
            record.outputs.push(OutputRecord { role: role.to_owned(), path });
        }
        clock.total();
        record.timings = clock.laps();
        record.peak_memory_bytes = peak_memory();
        write_text(&mut staging, RECORD, &record.to_json())?;
        staging.commit()?;
        let good = record.verdict.good;
        if self.talk > Talk::Quiet {
            table::print(&record, self.output);
        } else if !good {
            output::note(&format!("verdict: {}", record.verdict.summary()));
        }
        Ok(if good { Outcome::Good } else { Outcome::Bad })
    }
}

fn dimensions(grid: &Grid) -> usize {
    if grid.is_2d() { 2 } else { 3 }
}

fn subject(entry: &Entry, affine: &Affine, found: &Found) -> SubjectRecord {
    let rows = affine.rows();
    SubjectRecord {
        name: entry.name.clone(),
        weight: entry.weight,
        covariates: entry.covariates.clone(),
        affine: [rows[0], rows[1], rows[2], [0.0, 0.0, 0.0, 1.0]],
        correlation: [f64::NAN; 2],
        measures: found.measures,
        mended: found.mended,
        outlying: false,
        verdict: found.verdict.clone(),
    }
}
