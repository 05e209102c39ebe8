//! The record of a surface, and its page.

use crate::error::Result;
use crate::html::{escape, fixed, measured, number, sentence, table, thousands};
use crate::meshes::{Colour, Layer, Row, Scale, Scene, Sections};
use crate::page::{self, Heading};
use crate::provenance::Provenance;
use crate::record::{GridRecord, OutputRecord, RunRecord};
use crate::words;
use serde::Serialize;
use std::collections::BTreeMap;
use voxalign_image::{Mesh, Volume};
use voxalign_register::Verdict;
use voxalign_register::compare::MeshScores;
use voxalign_surface::Figures;

/// What a surface is of.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObjectRecord {
    /// Voxels inside.
    pub voxels: usize,
    /// Their volume, mm³.
    pub volume_mm3: f64,
    /// Of an image of two dimensions their area, mm².
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area_mm2: Option<f64>,
    /// Parts that there were, where only the largest was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<usize>,
    /// Voxels that were filled, where cavities were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled_voxels: Option<usize>,
    /// Whether it reaches the border of the image, where the surface is closed half a voxel outside.
    pub at_border: bool,
}

/// What was found of a surface, or of outlines of an image of two dimensions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurfaceFound {
    /// What the surface is of.
    pub object: ObjectRecord,
    /// The surface around the voxels as they are.
    pub isosurface: Figures,
    /// The surface that was written.
    pub surface: Figures,
    /// Most triangles that were asked for, where there was a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_triangles: Option<usize>,
    /// How far the two are apart, mm, where they are not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<MeshScores>,
    /// Whether the surface can be used, and why.
    pub verdict: Verdict,
}

/// All that is worth keeping of a surface: what is beside it as JSON. Numbers that are not finite are written as
/// `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurfaceRecord {
    /// Program, command, machine and inputs.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The grid of the image.
    pub grid: GridRecord,
    /// What the surface is of.
    pub object: ObjectRecord,
    /// The surface around the voxels as they are.
    pub isosurface: Figures,
    /// The surface that was written.
    pub surface: Figures,
    /// Most triangles that were asked for, where there was a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_triangles: Option<usize>,
    /// How far the two are apart, mm, where they are not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<MeshScores>,
    /// Wall time of each part in seconds.
    pub timings: BTreeMap<String, f64>,
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Whether the surface can be used, and why.
    pub verdict: Verdict,
}

impl SurfaceRecord {
    /// A record without a surface that begins with program, machine, inputs and parameters of another.
    #[must_use]
    pub fn new(mut run: RunRecord, grid: GridRecord) -> Self {
        let parameters = std::mem::take(&mut run.parameters);
        Self {
            provenance: Provenance::from(run),
            parameters,
            grid,
            object: ObjectRecord::default(),
            isosurface: Figures::default(),
            surface: Figures::default(),
            most_triangles: None,
            distance: None,
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
            verdict: Verdict::new(Vec::new(), Vec::new()),
        }
    }
}

/// What the page is made of.
#[derive(Debug, Clone, Copy)]
pub struct SurfaceReport<'a> {
    /// The record.
    pub record: &'a SurfaceRecord,
    /// What the surface is drawn upon.
    pub image: &'a Volume<f32>,
    /// The surface that was written, mm.
    pub mesh: &'a Mesh,
    /// The surface around the voxels as they are, mm.
    pub isosurface: &'a Mesh,
    /// How far each vertex of the surface is from it, mm, where the two are not the same.
    pub distances: Option<&'a [f32]>,
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
pub fn render(report: &SurfaceReport<'_>) -> Result<String> {
    let record = report.record;
    let run = record.run();
    let base = |path: &str| escape(path.rsplit(['/', '\\']).next().unwrap_or(path));
    let of = run.inputs.first().map_or_else(|| "an image".to_owned(), |i| base(&i.path));
    let written = run.outputs.first().map_or_else(|| "Surface".to_owned(), |o| base(&o.path));
    let heading = Heading {
        title: &format!("{written}: surface of {of}"),
        heading: "Surface",
        line: &format!("{written} of {of}{}", what(record)),
    };
    let mut page = page::begin(&run, &heading, &SECTIONS);
    page += &words::judged(&record.verdict, None);
    page += &words::cards(&run, cards(record));
    page += &solid(report)?;
    page += &slices(report)?;
    page += &figures(record);
    page += &page::details(&run);
    page += &page::end();
    Ok(page)
}

/// Which labels or which level, in words.
fn what(record: &SurfaceRecord) -> String {
    let parameters = &record.parameters;
    let labels = parameters["label"].as_array().map(|all| {
        let names: Vec<String> = all.iter().map(ToString::to_string).collect();
        let label = if names.len() == 1 { "label" } else { "labels" };
        format!(", {label} {}", names.join(", "))
    });
    let side = if parameters["below"] == true { "below" } else { "from" };
    let level = parameters["level"].as_f64().map(|v| format!(", {side} {}", number(v)));
    labels.or(level).unwrap_or_default()
}

fn cards(record: &SurfaceRecord) -> Vec<words::Card> {
    let surface = &record.surface;
    let cubic = |mm3: f64| format!("{}\u{a0}mm\u{b3}", measured(&[mm3]).concat());
    let square = |mm2: f64| format!("{}\u{a0}mm\u{b2}", measured(&[mm2]).concat());
    if let Some(length) = surface.length_mm {
        let of_pixels = record.object.area_mm2;
        let note = of_pixels.map_or_else(String::new, |a| format!("of pixels: {}", square(a)));
        return vec![
            (
                "Lines".to_owned(),
                thousands(surface.components as f64),
                format!("{} vertices", thousands(surface.vertices as f64)),
            ),
            (
                "Length".to_owned(),
                format!("{}\u{a0}mm", measured(&[length]).concat()),
                String::new(),
            ),
            ("Area".to_owned(), square(surface.area_mm2), note),
        ];
    }
    let mut cards = vec![
        (
            "Triangles".to_owned(),
            thousands(surface.triangles as f64),
            format!("{} vertices", thousands(surface.vertices as f64)),
        ),
        ("Area".to_owned(), square(surface.area_mm2), String::new()),
    ];
    if let Some(volume) = surface.volume_mm3 {
        let note = format!("of voxels: {}", cubic(record.object.volume_mm3));
        cards.push(("Volume".to_owned(), cubic(volume), note));
    }
    cards
}

/// The surface in 3D, coloured by its distance to the isosurface where they differ.
fn solid(report: &SurfaceReport<'_>) -> Result<String> {
    let mut surface = Layer::new("surface", report.mesh, Colour::Blue);
    surface.values = report.distances;
    let mut layers = vec![surface];
    if report.distances.is_some() {
        let exact = Layer::new("isosurface", report.isosurface, Colour::Orange);
        layers.push(exact.with_opacity(0.4).hidden());
    }
    let scale = report.distances.is_some().then(|| Scale::new("distance to the isosurface", "mm"));
    let caption = match report.distances {
        Some(_) => {
            "<b>How to read it:</b> the surface, coloured by how far each vertex is from the surface around \
             the voxels as they are, which can be shown beside it."
        }
        None => "<b>How to read it:</b> the surface around the voxels as they are.",
    };
    Scene { layers, scale }.figure("fig-3d", "In 3D", caption)
}

/// The surface upon slices.
fn slices(report: &SurfaceReport<'_>) -> Result<String> {
    let layers = vec![Layer::new("surface", report.mesh, Colour::Blue)];
    let rows = vec![Row { name: "Surface".into(), image: report.image, layers }];
    let caption = "<b>How to read it:</b> the lines are where the surface crosses the slices. A \
                   good surface follows the border of what it is of; of labels, those it is of are bright and others \
                   grey.";
    Sections { rows }.figure("fig-sections", "Upon slices", caption)
}

/// A table of all figures.
fn figures(record: &SurfaceRecord) -> String {
    let (exact, made) = (&record.isosurface, &record.surface);
    let count = |name: &str, of: fn(&Figures) -> usize| {
        let both = [exact, made].map(|f| thousands(of(f) as f64));
        [vec![name.to_owned()], both.to_vec()].concat()
    };
    let size = |name: &str, of: fn(&Figures) -> Option<f64>| {
        let both = [exact, made].map(|f| of(f).unwrap_or(f64::NAN));
        [vec![name.to_owned()], measured(&both)].concat()
    };
    let genus = [exact, made].map(|f| f.genus.map_or("\u{2013}".to_owned(), |g| g.to_string()));
    if made.length_mm.is_some() {
        let rows = vec![
            count("Vertices", |f| f.vertices),
            count("Lines", |f| f.components),
            count("Lines around holes", |f| f.cavities),
            count("Open ends", |f| f.boundary_edges),
            count("Places where lines meet", |f| f.non_manifold_vertices),
            count("Folds", |f| f.folded_edges),
            size("Length, mm", |f| f.length_mm),
            size("Area, mm\u{b2}", |f| Some(f.area_mm2)),
        ];
        return table_of(record, ["exact outlines", "outlines"], &rows);
    }
    let rows = vec![
        count("Triangles", |f| f.triangles),
        count("Vertices", |f| f.vertices),
        count("Parts", |f| f.components),
        count("Cavities", |f| f.cavities),
        [vec!["Handles (genus)".to_owned()], genus.to_vec()].concat(),
        vec!["Euler number".to_owned(), exact.euler.to_string(), made.euler.to_string()],
        count("Open edges", |f| f.boundary_edges),
        count("Edges where surfaces meet", |f| f.non_manifold_edges),
        count("Vertices where surfaces meet", |f| f.non_manifold_vertices),
        count("Folded edges", |f| f.folded_edges),
        size("Area, mm\u{b2}", |f| Some(f.area_mm2)),
        size("Volume, mm\u{b3}", |f| f.volume_mm3),
    ];
    table_of(record, ["isosurface", "surface"], &rows)
}

/// The section of figures: the table, and how far what is written is from what the voxels say.
fn table_of(record: &SurfaceRecord, [exact, made]: [&str; 2], rows: &[Vec<String>]) -> String {
    let mut out = "<section id=\"figures\"><h2>Figures</h2>".to_owned();
    let names = [exact, made].map(|name| format!("#{}", sentence(name)));
    out += &table("", &["Figure", &names[0], &names[1]], rows);
    if let Some(d) = &record.distance {
        let rows: Vec<Vec<String>> = [
            ("Mean", d.mean),
            ("95 % of both are nearer than", d.p95),
            ("Largest (Hausdorff)", d.hausdorff),
        ]
        .map(|(name, value)| vec![name.to_owned(), fixed(value, 3)])
        .into();
        out += &format!("<h3>Distance between {exact} and {made}</h3>");
        out += &table("", &["Distance", "#mm"], &rows);
    }
    out + "</section>"
}
