//! The report on a registration of two anatomies: its deformation, tissue classes and shapes.

pub use crate::record::anatomy::{AnatomyRecord, ClassRecord, MarksRecord, ShapeRecord};

use super::Page;
use super::deform::{DeformReport, render_with};
use super::html::{Columns, Section, note, section};
use crate::draw::contour::{level_path, overlay};
use crate::draw::meshes::{Colour, Layer, Row, Scale, Scene, Sections, segments};
use crate::draw::plane::Plane;
use crate::draw::studio::Studio;
use crate::draw::{Key, check_grids, gallery};
use crate::error::Result;
use crate::text::{escape, fixed, thousands};
use voxalign_image::{Mesh, Vector3, Volume};

/// A class for pictures: both probabilities on the grid of the fixed image.
#[derive(Debug, Clone, Copy)]
pub struct ClassImages<'a> {
    /// Its name.
    pub name: &'a str,
    /// The fixed probability.
    pub fixed: &'a Volume<f32>,
    /// The moving one by the affine part alone.
    pub before: &'a Volume<f32>,
    /// The moving one by the result.
    pub after: &'a Volume<f32>,
}

/// A shape for pictures: the fixed one and the moving one in the fixed world.
#[derive(Debug, Clone, Copy)]
pub struct ShapeMeshes<'a> {
    /// Its name.
    pub name: &'a str,
    /// The fixed one.
    pub fixed: &'a Mesh,
    /// The moving one by the affine part alone.
    pub before: &'a Mesh,
    /// The moving one by the result.
    pub after: &'a Mesh,
    /// The distance of each of its vertices from the fixed shape, mm.
    pub distances: &'a [f32],
}

/// Landmarks for pictures, in the fixed world.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    /// Their name.
    pub name: &'a str,
    /// The fixed ones.
    pub fixed: &'a [Vector3<f64>],
    /// The moving ones by the result.
    pub after: &'a [Vector3<f64>],
}

/// The content of a report on anatomies.
#[derive(Debug, Clone)]
pub struct AnatomyReport<'a> {
    /// That of the deformation.
    pub deform: DeformReport<'a>,
    /// The classes.
    pub classes: Vec<ClassImages<'a>>,
    /// The shapes.
    pub shapes: Vec<ShapeMeshes<'a>>,
    /// The landmarks.
    pub marks: Vec<Marks<'a>>,
}

/// Where the border of a class is.
const BORDER: f64 = 0.5;

/// The report as one HTML file that needs nothing else.
///
/// # Errors
/// As of [`deform::render`](crate::deform::render); a probability on another grid.
pub fn render(report: &AnatomyReport<'_>) -> Result<String> {
    let record = report.deform.record;
    let grid = report.deform.images.fixed.grid();
    for class in &report.classes {
        check_grids(
            "fixed image",
            grid,
            &[
                ("fixed probability", class.fixed.grid()),
                ("moving probability (before)", class.before.grid()),
                ("moving probability (after)", class.after.grid()),
            ],
        )?;
    }
    let none = AnatomyRecord::default();
    let anatomy = record.anatomy.as_ref().unwrap_or(&none);
    render_with(&report.deform, |page, studio| {
        if !anatomy.classes.is_empty() {
            page.figure(
                "Classes",
                "fig-classes",
                "Classes",
                &(overlaps(&anatomy.classes) + &contours(studio, &report.classes)?),
                "the overlap is the fraction of the fixed class that the moving one covers; Dice is that of the \
                 regions where each probability is at least a half. Lines are where a probability is a half: \
                 blue for the fixed anatomy, orange for the moving one. Good alignment: the orange lines lie on \
                 the blue ones all around.",
            );
        }
        pictures(page, report)?;
        page.add("Distances", distances(anatomy));
        Ok(())
    })
}

/// The table of classes.
fn overlaps(classes: &[ClassRecord]) -> String {
    Columns::of(classes)
        .column("Class", |c| escape(&c.name))
        .column("#Volume, mm\u{b3}", |c| thousands(c.volume_fixed_mm3.round()))
        .column("#Moving, mm\u{b3}", |c| thousands(c.volume_after_mm3.round()))
        .column("#Overlap before", |c| fixed(c.overlap_before, 3))
        .column("#Overlap after", |c| fixed(c.overlap_after, 3))
        .column("#Dice before", |c| fixed(c.dice_before, 3))
        .column("#Dice after", |c| fixed(c.dice_after, 3))
        .html("classes")
}

/// The borders of all classes over the fixed image.
fn contours(studio: &Studio<'_>, classes: &[ClassImages<'_>]) -> Result<String> {
    if classes.is_empty() {
        return Ok(String::new());
    }
    let lines = |class: &str, plane: &Plane, of: &[&Volume<f32>]| {
        let mut path = String::new();
        for one in of {
            let values: Vec<f64> = plane.draw(one, 0.0).iter().map(|v| f64::from(*v)).collect();
            path += &level_path(&values, plane, BORDER, 0.1);
        }
        overlay(class, plane, &path)
    };
    let ours: Vec<_> = classes.iter().map(|c| c.fixed).collect();
    let theirs = [
        classes.iter().map(|c| c.before).collect::<Vec<_>>(),
        classes.iter().map(|c| c.after).collect(),
    ];
    let mut out = String::new();
    for (row, name) in ["Before", "After"].into_iter().enumerate() {
        let draw = |_: usize, at: usize| studio.fixed_picture(at);
        let over = |_: usize, at: usize| {
            let plane = &studio.planes[at];
            lines("over class fixed", plane, &ours)
                + &lines("over class moving", plane, &theirs[row])
        };
        let id = if row == 0 { "class-before" } else { "class-after" };
        out += &gallery::rows(&studio.planes, id, &[name], draw, over)?;
    }
    Ok(out + &Key::new().line("#3cbeff", "fixed").line("#ff8c00", "moving").html())
}

/// Shapes over slices, and in 3D.
fn pictures(page: &mut Page, report: &AnatomyReport<'_>) -> Result<()> {
    let image = report.deform.images.fixed;
    let rows = [("Before", false), ("After", true)].map(|(name, result)| {
        let layers = report.shapes.iter().flat_map(|s| {
            let moving = if result { s.after } else { s.before };
            [
                Layer::new(format!("{}, fixed", s.name), s.fixed, Colour::Blue),
                Layer::new(format!("{}, moving", s.name), moving, Colour::Orange),
            ]
        });
        Row { name: name.into(), image, layers: layers.collect() }
    });
    if !report.shapes.is_empty() {
        page.sections(
            "Shapes over slices",
            &Sections { rows: rows.into() },
            "Shapes over slices",
            "where the shapes cut the slices of the fixed image: blue for the fixed anatomy, orange for the \
             moving one. Good alignment: the orange lines lie on the blue ones, and both follow the border of \
             their structure.",
        )?;
    }
    let mut pairs = Vec::new();
    for marks in &report.marks {
        pairs.push((marks.name, segments(marks.fixed, marks.after)?));
    }
    let mut layers = Vec::new();
    for s in &report.shapes {
        let fixed = Layer::new(format!("{}, fixed", s.name), s.fixed, Colour::Blue);
        layers.push(fixed.with_opacity(0.35));
        let before = Layer::new(format!("{}, moving before", s.name), s.before, Colour::Grey);
        layers.push(before.hidden());
        let after = Layer::new(format!("{}, moving after", s.name), s.after, Colour::Orange);
        layers.push(after.with_values(s.distances));
    }
    for (name, pairs) in &pairs {
        layers.push(Layer::new(format!("{name}, from fixed to moving"), pairs, Colour::Yellow));
    }
    let scale =
        (!report.shapes.is_empty()).then(|| Scale::new("distance to the fixed shape", "mm"));
    page.solid(
        &Scene { layers, scale },
        "Shapes in 3D",
        "the fixed shapes in pale blue, and the moving ones mapped onto them, coloured by the distance of each \
         vertex from the fixed shape. Dark parts match; bright parts still differ.",
    )
}

/// The tables of shapes and landmarks; nothing where there are none.
fn distances(anatomy: &AnatomyRecord) -> Section {
    let shapes = Columns::of(&anatomy.shapes)
        .column("Name", |s| escape(&s.name))
        .column("Kind", |s| escape(&s.kind))
        .column("#Mean before, mm", |s| fixed(s.before.mean, 2))
        .column("#95 %", |s| fixed(s.before.p95, 2))
        .column("#Hausdorff", |s| fixed(s.before.hausdorff, 2))
        .column("#Mean after, mm", |s| fixed(s.after.mean, 2))
        .column("#95 %", |s| fixed(s.after.p95, 2))
        .column("#Hausdorff", |s| fixed(s.after.hausdorff, 2))
        .column("#Mean allowed, mm", |s| fixed(s.bound_mm, 2))
        .html("shapes");
    let marks = Columns::of(&anatomy.landmarks)
        .column("Landmarks", |l| escape(&l.name))
        .column("#Pairs", |l| l.count.to_string())
        .column("#Mean before, mm", |l| fixed(l.mean_before_mm, 2))
        .column("#Mean after, mm", |l| fixed(l.mean_after_mm, 2))
        .column("#Largest after, mm", |l| fixed(l.largest_after_mm, 2))
        .html("marks");
    if shapes.is_empty() && marks.is_empty() {
        return Section::default();
    }
    let note = note(
        "Distances are between the fixed shape and the moving one mapped onto it, in both directions, each \
         vertex weighted by the area or length around it: the mean, the 95th percentile and the largest. They \
         are not the energy that was minimised, but for shapes that drove the registration they show how well \
         these were matched, not how good the result is elsewhere.",
    );
    section("shapes", "Shapes", &(shapes + &marks + &note))
}
