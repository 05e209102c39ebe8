//! The page of a surface.

pub use crate::record::surface::{ObjectRecord, SurfaceFound, SurfaceRecord};

use super::html::{Columns, DASH, Section, file_name, section, table};
use super::words::Card;
use super::{Heading, Page};
use crate::draw::meshes::{Colour, Layer, Row, Scale, Scene, Sections};
use crate::error::Result;
use crate::text::{fixed, measured, number, sentence, thousands};
use voxalign_image::{Mesh, Volume};
use voxalign_surface::Figures;

/// The content of the page.
#[derive(Debug, Clone, Copy)]
pub struct SurfaceReport<'a> {
    /// The record.
    pub record: &'a SurfaceRecord,
    /// The image that the surface is drawn over.
    pub image: &'a Volume<f32>,
    /// The surface that was written, mm.
    pub mesh: &'a Mesh,
    /// The surface around the voxels as they are, mm.
    pub isosurface: &'a Mesh,
    /// The distance of each vertex of the surface from it, mm, where the two are not the same.
    pub distances: Option<&'a [f32]>,
}

/// The page as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where a
/// picture cannot be compressed.
pub fn render(report: &SurfaceReport<'_>) -> Result<String> {
    let record = report.record;
    let run = record.run();
    let mut page = Page::on(&run, cards(record));
    solid(&mut page, report)?;
    let layers = vec![Layer::new("surface", report.mesh, Colour::Blue)];
    let rows = vec![Row { name: "Surface".into(), image: report.image, layers }];
    page.sections(
        "Slices",
        &Sections { rows },
        "Over slices",
        "the lines are where the surface crosses the slices. A good surface follows the border of its \
         structure; in a label map, the labels of the surface are bright and the others grey.",
    )?;
    page.add("Figures", figures(record));
    let of = run.inputs.first().map_or_else(|| "an image".to_owned(), |i| file_name(&i.path));
    let written = run.outputs.first().map_or_else(|| "Surface".to_owned(), |o| file_name(&o.path));
    let line = format!("{written} of {of}{}", what(record));
    Ok(page.finish(
        &run,
        &Heading::new(&format!("{written}: surface of {of}"), "Surface", &line, &run),
    ))
}

/// A description of the labels or the level.
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

fn cards(record: &SurfaceRecord) -> Vec<Card> {
    let surface = &record.surface;
    let with = |value: f64, unit: &str| format!("{}\u{a0}{unit}", measured(&[value]).concat());
    let (cubic, square) = (|v| with(v, "mm\u{b3}"), |v| with(v, "mm\u{b2}"));
    let vertices = format!("{} vertices", thousands(surface.vertices as f64));
    if let Some(length) = surface.length_mm {
        let of_pixels = record.object.area_mm2;
        let note = of_pixels.map_or_else(String::new, |a| format!("of pixels: {}", square(a)));
        return vec![
            Card::new("Lines", thousands(surface.components as f64), vertices),
            Card::new("Length", with(length, "mm"), ""),
            Card::new("Area", square(surface.area_mm2), note),
        ];
    }
    let mut cards = vec![
        Card::new("Triangles", thousands(surface.triangles as f64), vertices),
        Card::new("Area", square(surface.area_mm2), ""),
    ];
    if let Some(volume) = surface.volume_mm3 {
        let note = format!("of voxels: {}", cubic(record.object.volume_mm3));
        cards.push(Card::new("Volume", cubic(volume), note));
    }
    cards
}

/// The surface in 3D, coloured by its distance to the isosurface where they differ.
fn solid(page: &mut Page, report: &SurfaceReport<'_>) -> Result<()> {
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
            "the surface, coloured by the distance of each vertex from the exact surface of the voxels, which \
             can be shown as well."
        }
        None => "the exact surface of the voxels.",
    };
    page.solid(&Scene { layers, scale }, "In 3D", caption)
}

/// A table of all figures.
fn figures(record: &SurfaceRecord) -> Section {
    let (exact, made) = (&record.isosurface, &record.surface);
    let count = |name: &str, of: fn(&Figures) -> usize| {
        let both = [exact, made].map(|f| thousands(of(f) as f64));
        [vec![name.to_owned()], both.to_vec()].concat()
    };
    let size = |name: &str, of: fn(&Figures) -> Option<f64>| {
        let both = [exact, made].map(|f| of(f).unwrap_or(f64::NAN));
        [vec![name.to_owned()], measured(&both)].concat()
    };
    let genus = [exact, made].map(|f| f.genus.map_or(DASH.to_owned(), |g| g.to_string()));
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

/// The section of measures: the table, and the distance of the written surface from that of the voxels.
fn table_of(record: &SurfaceRecord, [exact, made]: [&str; 2], rows: &[Vec<String>]) -> Section {
    let names = [exact, made].map(|name| format!("#{}", sentence(name)));
    let mut out = table("", &["Figure", &names[0], &names[1]], rows);
    if let Some(d) = &record.distance {
        let rows =
            [("Mean", d.mean), ("95th percentile", d.p95), ("Largest (Hausdorff)", d.hausdorff)];
        out += &format!("<h3>Distance between {exact} and {made}</h3>");
        out += &Columns::of(rows)
            .column("Distance", |(name, _)| (*name).to_owned())
            .column("#mm", |(_, value)| fixed(*value, 3))
            .html("");
    }
    section("figures", "Figures", &out)
}
