//! The anatomy-specific part of a registration: what is warped, measured and shown.

use super::file::Kind;
use super::job::{Job, carried_names, files_of, warped};
use super::matched::Matched;
use super::measures;
use super::prepared::Shown;
use super::read::{Data, Thing};
use crate::deform::{Carried, ChannelImages, Task};
use crate::error::Result;
use crate::files;
use crate::machine::Machine;
use crate::options::{Product, recorded};
use crate::pair::Views;
use crate::run::{self, Input, Output, Run};
use crate::staged::Staged;
use serde_json::{Value, json};
use std::sync::Arc;
use voxalign_image::{Mesh, PointSet, Transform, Volume, memory};
use voxalign_io::image::{self, DataType};
use voxalign_io::mesh;
use voxalign_io::points;
use voxalign_options::Text;
use voxalign_register::compare::distances_to;
use voxalign_register::diffeo::{Matching, Preparation};
use voxalign_register::limits::ANATOMY;
use voxalign_register::resample::MovingImage;
use voxalign_register::similarity::Similarity;
use voxalign_register::{Check, Choice, Remedy, Verdict};
use voxalign_report::anatomy::render;
use voxalign_report::deform::DeformReport;
use voxalign_report::{
    AnatomyRecord, AnatomyReport, ClassImages, Marks, ReportError, RunRecord, ShapeMeshes,
};

/// A class on the fixed grid, for the report.
pub(super) struct Class {
    name: String,
    fixed: Arc<Volume<f32>>,
    before: Volume<f32>,
    after: Volume<f32>,
}

/// A shape in the fixed world, for the report.
pub(super) struct Followed {
    /// Which of the things it is.
    thing: usize,
    before: Mesh,
    after: Mesh,
    distances: Vec<f32>,
}

/// What a registration of anatomies adds.
pub(super) struct OfAnatomies<'a> {
    pub(super) job: &'a Job,
    pub(super) matching: &'a Matching,
    pub(super) preparation: Preparation,
    pub(super) matched: &'a [Matched],
    pub(super) shown: Shown,
    /// The name of the first image.
    pub(super) first: Option<String>,
    /// Shapes and landmarks.
    pub(super) things: Vec<Thing>,
    /// The names and kinds of further images.
    pub(super) channels: Vec<(String, Kind)>,
    /// What to say beside the verdict.
    pub(super) remarks: Vec<String>,
    /// The finest spacing of the fixed grid, mm.
    pub(super) spacing: f64,
    /// Shapes that lie on each other's partner.
    pub(super) exchanged: Vec<String>,
    pub(super) classes: Vec<Class>,
    pub(super) followed: Vec<Followed>,
    /// Landmarks of the moving anatomy in the fixed world, each with which of the things it is.
    pub(super) marks: Vec<(usize, PointSet)>,
    pub(super) record: AnatomyRecord,
}

impl Task for OfAnatomies<'_> {
    const CHOOSES_SIMILARITY: bool = false;

    fn parameters(&self, outside: f32, _: Similarity, _: &voxalign_image::Affine) -> Value {
        let (job, preparation) = (self.job, self.preparation);
        let mut all = json!({
            "affine": job.start().to_string(),
            "anatomy": self.matched.iter().map(Matched::parameters).collect::<Vec<_>>(),
            "clip": preparation.clip,
            "outside": run::outside(outside),
            "interpolation": job.written.interpolation().name(),
        });
        let Some(given) = all.as_object_mut() else { return all };
        if let Some(init) = &job.init {
            given.insert("init".to_owned(), json!(init.to_string()));
        }
        if self.matched.iter().any(|m| m.kind == Kind::Image) {
            given.insert("histogram_match".to_owned(), json!(preparation.histogram_match));
        }
        if self.shown == Shown::Drawing {
            given.insert("spacing".to_owned(), json!(self.spacing));
        }
        // Those of similarities are said with each image.
        given.extend(recorded(self.matching, &[]));
        all
    }

    fn files(&self) -> Vec<Input<'_>> {
        self.job.files(self.matched)
    }

    fn warped(&self) -> Option<String> {
        self.first.as_deref().map(warped)
    }

    fn outputs(&self) -> Vec<Output> {
        files_of(self.matched)
    }

    fn carried(
        &mut self,
        found: Carried<'_>,
        machine: &Machine,
        run: &Run<'_>,
        staged: &mut Staged<'_>,
    ) -> Result<()> {
        let Carried { start, whole, back, channels, fixed, .. } = found;
        let writes = run.writes(Product::Warped);
        let before = Transform::Affine(start);
        for (channel, (name, kind)) in channels.into_iter().zip(&self.channels) {
            let ChannelImages { images: [ours, theirs], .. } = channel;
            let outside = match kind {
                Kind::Probability => 0.0,
                _ => run.output.outside().unwrap_or_else(|| files::background(&*theirs)),
            };
            let moving = MovingImage::new(&machine.device, theirs)?;
            let interpolation = run.output.interpolation().of_image()?;
            let after = moving.onto(fixed, whole, interpolation, outside)?;
            if writes {
                let options =
                    files::write_options(DataType::F32, if fixed.is_2d() { 2 } else { 3 });
                staged.write(&warped(name), |path| image::write_volume(path, &after, &options))?;
            }
            if *kind == Kind::Probability {
                let before = moving.onto(fixed, &before, interpolation, outside)?;
                self.record.classes.push(measures::class(name, &ours, [&before, &after]));
                let name = name.clone();
                self.classes.push(Class { name, fixed: ours, before, after });
            }
        }
        let by_affine = start.inverse()?;
        let mirrors = start.determinant() < 0.0;
        for (i, thing) in self.things.iter().enumerate() {
            let [there, there_not] = carried_names(&thing.of);
            match &thing.data {
                [Data::Mesh(ours), Data::Mesh(theirs)] => {
                    let before = measures::carried(theirs, |p| by_affine.apply(p), mirrors)?;
                    let after = measures::carried(theirs, |p| back.apply(p), mirrors)?;
                    let record = measures::shape(&thing.of, ours, [&before, &after], self.spacing)?;
                    self.record.shapes.push(record);
                    if writes {
                        let over = measures::carried(ours, |p| whole.apply(p), mirrors)?;
                        for (name, mesh) in [(&there, &after), (&there_not, &over)] {
                            write_mesh(staged, name, mesh)?;
                        }
                    }
                    if run.output.wants_report() {
                        let far =
                            distances_to(after.vertices(), ours)?.into_iter().map(|d| d as f32);
                        let distances = memory::collected(far)?;
                        self.followed.push(Followed { thing: i, before, after, distances });
                    }
                }
                [Data::Landmarks(ours), Data::Landmarks(theirs)] => {
                    self.record.landmarks.extend(measures::marks(thing, [&before, whole])?);
                    let after = theirs.map(|p| back.apply(*p));
                    if writes {
                        let over = ours.map(|p| whole.apply(*p));
                        write_list(staged, &there, &after)?;
                        write_list(staged, &there_not, &over)?;
                    }
                    self.marks.push((i, after));
                }
                _ => {}
            }
        }
        self.exchanged = measures::exchanged(&self.things, &start);
        Ok(())
    }

    fn judged(&mut self, verdict: Verdict, views: &Views, record: &mut RunRecord) -> Verdict {
        let AnatomyRecord { classes, shapes, .. } = &self.record;
        let mut verdict =
            measures::judged(verdict, (classes, shapes), &self.exchanged, self.spacing);
        let dice = |view: &voxalign_register::scores::Resampled| {
            view.scores.labels.as_ref().and_then(|l| l.mean_dice)
        };
        if let (Some(before), Some(after)) = (dice(&views.before), dice(&views.after)) {
            let name = "mean Dice of the labels";
            let check = Check::at_least(name, after, before - ANATOMY.dice_loss)
                .or(Remedy::OtherAffinePart);
            verdict = verdict.with(Some(check));
        }
        verdict.remarks.extend(self.remarks.drain(..).map(Text::from));
        record.anatomy = Some(self.record.clone());
        verdict
    }

    fn report(&self, report: &DeformReport<'_>) -> Result<String, ReportError> {
        let classes = self.classes.iter().map(|c| ClassImages {
            name: &c.name,
            fixed: &c.fixed,
            before: &c.before,
            after: &c.after,
        });
        let shapes = self.followed.iter().filter_map(|f| {
            let thing = self.things.get(f.thing)?;
            let Data::Mesh(fixed) = &thing.data[0] else { return None };
            let (name, before, after) = (&*thing.of.name, &f.before, &f.after);
            Some(ShapeMeshes { name, fixed, before, after, distances: &f.distances })
        });
        let marks = self.marks.iter().filter_map(|(i, after)| {
            let thing = self.things.get(*i)?;
            let (name, fixed) = (&*thing.of.name, thing.data[0].places());
            Some(Marks { name, fixed, after: after.points() })
        });
        let (classes, shapes, marks) = (classes.collect(), shapes.collect(), marks.collect());
        render(&AnatomyReport { deform: *report, classes, shapes, marks })
    }
}

/// Writes a mesh, or points as a list where its name says so.
pub(crate) fn write_list(staged: &mut Staged<'_>, name: &str, list: &PointSet) -> Result<()> {
    let options = points::WriteOptions::default();
    staged.write(name, |path| points::write(path, list, &options).map(|_| ()))
}

pub(crate) fn write_mesh(staged: &mut Staged<'_>, name: &str, mesh: &Mesh) -> Result<()> {
    if name.ends_with(".csv") {
        let points = PointSet::new(memory::copied(mesh.vertices())?);
        return write_list(staged, name, &points);
    }
    staged.write(name, |path| mesh::write(path, mesh, &mesh::WriteOptions::default()))
}
