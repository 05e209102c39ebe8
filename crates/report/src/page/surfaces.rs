//! The page of surfaces of many labels.

pub use crate::record::surfaces::{LabelSurface, SurfacesRecord};

use super::html::{Columns, Section, file_name, note, section};
use super::words::{self, Card};
use super::{Heading, Page};
use crate::draw::meshes::{Colour, Layer, Row, Scene, Sections};
use crate::error::Result;
use crate::record::surface::SurfaceFound;
use crate::text::{escape, fixed, measured, thousands};
use voxalign_image::{Mesh, Volume};

/// The content of the page.
#[derive(Debug, Clone, Copy)]
pub struct SurfacesReport<'a> {
    /// The record.
    pub record: &'a SurfacesRecord,
    /// The image that the surfaces are drawn over.
    pub image: &'a Volume<f32>,
    /// The surfaces that were written, mm, as the record has them.
    pub meshes: &'a [Mesh],
}

/// The page as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where a
/// picture cannot be compressed.
pub fn render(report: &SurfacesReport<'_>) -> Result<String> {
    let record = report.record;
    let run = record.run();
    let flat = record.surfaces.iter().any(|s| s.found.surface.length_mm.is_some());
    let what = if flat { "Outlines" } else { "Surfaces" };
    let mut page = Page::on(&run, cards(record, flat));
    let layers = || {
        let named = record.surfaces.iter().zip(report.meshes).enumerate();
        named.map(|(i, (of, mesh))| Layer::new(of.title(), mesh, Colour::of(i))).collect::<Vec<_>>()
    };
    let caption = "each label has a colour; the six colours repeat.";
    page.solid(&Scene { layers: layers(), scale: None }, "In 3D", caption)?;
    let rows = vec![Row { name: what.into(), image: report.image, layers: layers() }];
    let caption = "the lines are where the surfaces cross the slices of the label map. Good surfaces follow the \
        borders of the labels.";
    page.sections("Slices", &Sections { rows }, "Over slices", caption)?;
    page.add("Figures", figures(record, flat));
    let of = run.inputs.first().map_or_else(|| "a label map".to_owned(), |i| file_name(&i.path));
    let labels = words::count(record.surfaces.len(), "label", "labels");
    let line = format!("{what} of {labels} of {of}");
    Ok(page.finish(&run, &Heading::new(&format!("{what} of {of}"), what, &line, &run)))
}

fn cards(record: &SurfacesRecord, flat: bool) -> Vec<Card> {
    let all = || record.surfaces.iter().map(|s| &s.found.surface);
    let good = record.surfaces.iter().filter(|s| s.found.verdict.good).count();
    let (name, amount) = match flat {
        true => ("Lines", all().map(|f| f.components).sum::<usize>()),
        false => ("Triangles", all().map(|f| f.triangles).sum()),
    };
    let good = format!("{} good", thousands(good as f64));
    vec![
        Card::new("Labels", thousands(record.surfaces.len() as f64), good),
        Card::new(name, thousands(amount as f64), ""),
    ]
}

/// A table of all labels.
fn figures(record: &SurfacesRecord, flat: bool) -> Section {
    let of = |f: fn(&SurfaceFound) -> Option<f64>| -> Vec<String> {
        let values = record.surfaces.iter().map(|s| f(&s.found).unwrap_or(f64::NAN));
        measured(&values.collect::<Vec<_>>())
    };
    let table = Columns::of(&record.surfaces)
        .column("#Label", |s| s.label.to_string())
        .column("Name", |s| escape(s.name.as_deref().unwrap_or("")));
    let parts = |s: &&LabelSurface| thousands(s.found.surface.components as f64);
    let area = of(|s| Some(s.surface.area_mm2));
    let table = match flat {
        true => table
            .column("#Vertices", |s| thousands(s.found.surface.vertices as f64))
            .column("#Lines", parts)
            .cells("#Length, mm", of(|s| s.surface.length_mm))
            .cells("#Area, mm\u{b2}", area)
            .cells("#Area of the pixels, mm\u{b2}", of(|s| s.object.area_mm2)),
        false => table
            .column("#Triangles", |s| thousands(s.found.surface.triangles as f64))
            .column("#Parts", parts)
            .cells("#Area, mm\u{b2}", area)
            .cells("#Volume, mm\u{b3}", of(|s| s.surface.volume_mm3))
            .cells("#Volume of the voxels, mm\u{b3}", of(|s| Some(s.object.volume_mm3))),
    };
    let far = |s: &&LabelSurface| fixed(s.found.distance.as_ref().map_or(0.0, |d| d.p95), 3);
    let table = table
        .column("#95th percentile, mm", far)
        .column("Verdict", |s| if s.found.verdict.good { "good" } else { "bad" }.to_owned())
        .long("");
    let note = note(
        "Distances are to the exact surface of the voxels, in both directions. The checks behind the verdict on \
         each label are in result.json.",
    );
    section("figures", "Figures", &(table + &note))
}
