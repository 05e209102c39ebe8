//! The record of surfaces of many labels, and its page.

use crate::error::Result;
use crate::html::{escape, fixed, long, measured, table, thousands};
use crate::meshes::{Colour, Layer, Row, Scene, Sections};
use crate::page::{self, Heading};
use crate::provenance::Provenance;
use crate::record::{GridRecord, OutputRecord, RunRecord};
use crate::surface::SurfaceFound;
use crate::words;
use serde::Serialize;
use std::collections::BTreeMap;
use voxalign_image::{Mesh, Volume};
use voxalign_register::Verdict;

/// The surface of a label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelSurface {
    /// The label.
    pub label: i32,
    /// Its name, where a table has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The mesh, in the folder of the record.
    pub file: String,
    /// What was found.
    #[serde(flatten)]
    pub found: SurfaceFound,
}

impl LabelSurface {
    /// The label with its name.
    fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.label),
            None => format!("label {}", self.label),
        }
    }
}

/// All that is worth keeping of the surfaces of many labels: `result.json`. Numbers that are not finite are written as
/// `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurfacesRecord {
    /// Program, command, machine and inputs.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The grid of the label map.
    pub grid: GridRecord,
    /// The surfaces, in the order of their labels.
    pub surfaces: Vec<LabelSurface>,
    /// Wall time of each part in seconds.
    pub timings: BTreeMap<String, f64>,
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Whether all can be used, and why: each check with the labels that do not meet it.
    pub verdict: Verdict,
}

impl SurfacesRecord {
    /// A record without surfaces that begins with program, machine, inputs and parameters of another.
    #[must_use]
    pub fn new(mut run: RunRecord, grid: GridRecord) -> Self {
        let parameters = std::mem::take(&mut run.parameters);
        Self {
            provenance: Provenance::from(run),
            parameters,
            grid,
            surfaces: Vec::new(),
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
            verdict: Verdict::new(Vec::new(), Vec::new()),
        }
    }
}

/// What the page is made of.
#[derive(Debug, Clone, Copy)]
pub struct SurfacesReport<'a> {
    /// The record.
    pub record: &'a SurfacesRecord,
    /// What the surfaces are drawn upon.
    pub image: &'a Volume<f32>,
    /// The surfaces that were written, mm, as the record has them.
    pub meshes: &'a [Mesh],
}

/// The sections that the page links to.
const SECTIONS: [(&str, &str); 5] = [
    ("verdict", "Verdict"),
    ("fig-3d", "3D"),
    ("fig-sections", "Slices"),
    ("figures", "Figures"),
    ("details", "Details"),
];

/// The page as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where a
/// picture cannot be compressed.
pub fn render(report: &SurfacesReport<'_>) -> Result<String> {
    let record = report.record;
    let run = record.run();
    let base = |path: &str| escape(path.rsplit(['/', '\\']).next().unwrap_or(path));
    let of = run.inputs.first().map_or_else(|| "a label map".to_owned(), |i| base(&i.path));
    let count = record.surfaces.len();
    let flat = record.surfaces.iter().any(|s| s.found.surface.length_mm.is_some());
    let what = if flat { "Outlines" } else { "Surfaces" };
    let labels = if count == 1 { "label" } else { "labels" };
    let heading = Heading {
        title: &format!("{what} of {of}"),
        heading: what,
        line: &format!("{what} of {count} {labels} of {of}"),
    };
    let mut page = page::begin(&run, &heading, &SECTIONS);
    page += &words::judged(&record.verdict, None);
    page += &words::cards(&run, cards(record, flat));
    let layers = || {
        let named = record.surfaces.iter().zip(report.meshes).enumerate();
        named.map(|(i, (of, mesh))| Layer::new(of.title(), mesh, Colour::of(i))).collect::<Vec<_>>()
    };
    let caption =
        "<b>How to read it:</b> each label has a colour; after six colours the first comes again.";
    page += &Scene { layers: layers(), scale: None }.figure("fig-3d", "In 3D", caption)?;
    let rows = vec![Row { name: what.into(), image: report.image, layers: layers() }];
    let caption = "<b>How to read it:</b> the lines are where the surfaces cross the slices of the label map. Good ones \
                   follow the borders of the labels.";
    page += &Sections { rows }.figure("fig-sections", "Upon slices", caption)?;
    page += &figures(record, flat);
    page += &page::details(&run);
    page += &page::end();
    Ok(page)
}

fn cards(record: &SurfacesRecord, flat: bool) -> Vec<words::Card> {
    let all = || record.surfaces.iter().map(|s| &s.found.surface);
    let good = record.surfaces.iter().filter(|s| s.found.verdict.good).count();
    let amount = match flat {
        true => ("Lines".to_owned(), all().map(|f| f.components).sum::<usize>()),
        false => ("Triangles".to_owned(), all().map(|f| f.triangles).sum()),
    };
    vec![
        (
            "Labels".to_owned(),
            thousands(record.surfaces.len() as f64),
            format!("{} good", thousands(good as f64)),
        ),
        (amount.0, thousands(amount.1 as f64), String::new()),
    ]
}

/// A table of all labels.
fn figures(record: &SurfacesRecord, flat: bool) -> String {
    let of = |f: fn(&SurfaceFound) -> Option<f64>| -> Vec<String> {
        let values = record.surfaces.iter().map(|s| f(&s.found).unwrap_or(f64::NAN));
        measured(&values.collect::<Vec<_>>())
    };
    let (sizes, headings) = match flat {
        true => (
            [
                of(|s| s.surface.length_mm),
                of(|s| Some(s.surface.area_mm2)),
                of(|s| s.object.area_mm2),
            ],
            ["#Length, mm", "#Area, mm\u{b2}", "#Of pixels, mm\u{b2}"],
        ),
        false => (
            [
                of(|s| Some(s.surface.area_mm2)),
                of(|s| s.surface.volume_mm3),
                of(|s| Some(s.object.volume_mm3)),
            ],
            ["#Area, mm\u{b2}", "#Volume, mm\u{b3}", "#Of voxels, mm\u{b3}"],
        ),
    };
    let rows: Vec<Vec<String>> = record
        .surfaces
        .iter()
        .enumerate()
        .map(|(i, of)| {
            let (made, distance) = (&of.found.surface, &of.found.distance);
            let amount = if flat { made.vertices } else { made.triangles };
            vec![
                of.label.to_string(),
                escape(of.name.as_deref().unwrap_or("")),
                thousands(amount as f64),
                thousands(made.components as f64),
                sizes[0][i].clone(),
                sizes[1][i].clone(),
                sizes[2][i].clone(),
                fixed(distance.as_ref().map_or(0.0, |d| d.p95), 3),
                if of.found.verdict.good { "good" } else { "bad" }.to_owned(),
            ]
        })
        .collect();
    let headings = [
        "#Label",
        "Name",
        if flat { "#Vertices" } else { "#Triangles" },
        if flat { "#Lines" } else { "#Parts" },
        headings[0],
        headings[1],
        headings[2],
        "#95 % nearer than, mm",
        "Verdict",
    ];
    let mut out = "<section id=\"figures\"><h2>Figures</h2>".to_owned();
    out += &long(table("", &headings, &rows), &rows);
    out += "<p class=\"note\">The distance is that to the surface around the voxels as they are, both ways. What the verdict \
            on each label is of is in result.json.</p>";
    out + "</section>"
}
