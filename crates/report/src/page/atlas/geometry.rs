//! The shapes and landmarks of a template: pictures, and distances of the subjects from them.

use super::{AtlasRecord, AtlasReport};
use crate::draw::meshes::{Colour, Layer, Row, Scale, Scene, Sections};
use crate::error::Result;
use crate::page::Page;
use crate::page::html::{Columns, Section, note, section};
use crate::record::anatomy::AnatomyRecord;
use crate::record::atlas::TemplateRecord;
use crate::text::{escape, fixed, thousands};

/// Shapes over slices of the template, and in 3D; nothing where there are none.
pub(super) fn pictures(page: &mut Page, report: &AtlasReport<'_>) -> Result<()> {
    if !report.shapes.is_empty() {
        let shapes = report.shapes.iter().enumerate();
        let layers = shapes.map(|(i, s)| Layer::new(s.name, s.mesh, Colour::of(i)));
        let row = Row { name: "Atlas".into(), image: report.template, layers: layers.collect() };
        page.sections(
            "Shapes",
            &Sections { rows: vec![row] },
            "Shapes over slices",
            "where the shapes of the template cut its slices. Good: each line follows the border of its \
             structure in the mean image of all subjects.",
        )?;
    }
    if report.shapes.is_empty() && report.marks.is_empty() {
        return Ok(());
    }
    let mut layers = Vec::new();
    for s in report.shapes {
        layers.push(Layer::new(s.name, s.mesh, Colour::Blue).with_values(s.variation));
    }
    for m in report.marks {
        layers.push(Layer::new(m.name, m.mesh, Colour::Yellow));
    }
    let varies = !report.shapes.is_empty();
    let scale = varies.then(|| Scale::new("variation over the subjects", "mm"));
    page.solid(
        &Scene { layers, scale },
        "Shapes in 3D",
        "the shapes of the template, coloured by how far each vertex is displaced to reach the subjects: the \
         root mean square over the subjects, after their affine maps. Dark parts are alike in all subjects; \
         bright parts differ most between them.",
    )
}

/// An item of the template's geometry with the mean over all subjects, and with the worst subject after
/// registration.
struct Spread<'a, T> {
    of: &'a TemplateRecord,
    all: Vec<&'a T>,
    worst: &'a T,
    name: &'a str,
}

impl<T> Spread<'_, T> {
    /// The mean of a number over the subjects.
    fn mean(&self, of: impl Fn(&T) -> f64) -> String {
        fixed(self.all.iter().map(|one| of(one)).sum::<f64>() / self.all.len() as f64, 2)
    }
}

/// The items of the template's geometry that subjects have measures of: those that `find` returns for its name.
fn spreads<'a, T>(
    record: &'a AtlasRecord,
    find: impl Fn(&'a AnatomyRecord, &str) -> Option<&'a T>,
    after: impl Fn(&T) -> f64,
) -> Vec<Spread<'a, T>> {
    let spread = |of: &'a TemplateRecord| {
        let subjects = record.subjects.iter();
        let all = subjects.filter_map(|s| Some((&*s.name, find(&s.anatomy, &of.name)?)));
        let all: Vec<(&str, &T)> = all.collect();
        let (name, worst) = all.iter().copied().max_by(|a, b| after(a.1).total_cmp(&after(b.1)))?;
        Some(Spread { of, all: all.into_iter().map(|(_, one)| one).collect(), worst, name })
    };
    record.geometry.iter().filter_map(spread).collect()
}

/// The tables of shapes and landmarks; nothing where there are none.
pub(super) fn distances(record: &AtlasRecord) -> Section {
    if record.geometry.is_empty() {
        return Section::default();
    }
    let shapes = spreads(record, |a, n| a.shapes.iter().find(|s| s.name == n), |s| s.after.mean);
    let shapes = Columns::of(shapes)
        .column("Name", |s| escape(&s.of.name))
        .column("Kind", |s| escape(&s.of.kind))
        .column("Triangles or lines of", |s| escape(&s.of.from))
        .column("#Vertices", |s| thousands(s.of.vertices as f64))
        .column("#Variation, mm", |s| fixed(s.of.variation_mm, 2))
        .column("#Mean before, mm", |s| s.mean(|shape| shape.before.mean))
        .column("#Mean after, mm", |s| s.mean(|shape| shape.after.mean))
        .column("#95 %", |s| s.mean(|shape| shape.after.p95))
        .column("#Worst subject, mm", |s| fixed(s.worst.after.mean, 2))
        .column("Which", |s| escape(s.name))
        .column("#Mean allowed, mm", |s| fixed(s.worst.bound_mm, 2))
        .html("shapes");
    let marks = spreads(
        record,
        |a, n| a.landmarks.iter().find(|m| m.name == n),
        |marks| marks.largest_after_mm,
    );
    let marks = Columns::of(marks)
        .column("Landmarks", |m| escape(&m.of.name))
        .column("#Points", |m| m.of.vertices.to_string())
        .column("#Variation, mm", |m| fixed(m.of.variation_mm, 2))
        .column("#Mean before, mm", |m| m.mean(|marks| marks.mean_before_mm))
        .column("#Mean after, mm", |m| m.mean(|marks| marks.mean_after_mm))
        .column("#Largest, mm", |m| fixed(m.worst.largest_after_mm, 2))
        .column("Of which", |m| escape(m.name))
        .html("marks");
    let note = note(
        "Distances are between the template shape, mapped to each subject by its affine map alone and by its \
         deformation, and the shape of that subject: the mean over the subjects, in their worlds. The variation \
         is how far vertices of the template are displaced after the affine maps, the root mean square over \
         vertices and subjects.",
    );
    section("geometry", "Shapes of the subjects", &(shapes + &marks + &note))
}
