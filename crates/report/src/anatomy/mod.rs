//! The report on a registration of two anatomies: that of its deformation, and what became of classes and shapes.

mod record;

pub use record::{AnatomyRecord, ClassRecord, MarksRecord, ShapeRecord};

use crate::contour::{add, level_lines, overlay, simplified};
use crate::deform::{DeformReport, render_with};
use crate::error::Result;
use crate::gallery;
use crate::html::{escape, fixed, table, thousands};
use crate::meshes::{Colour, Layer, Row, Scale, Scene, Sections, segments};
use crate::page::{check_grids, figure};
use crate::plane::Plane;
use crate::studio::Studio;
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
    /// How far its vertices are from the fixed one, mm.
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

/// What a report on anatomies is made of.
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
    let mut sections = Vec::new();
    if !anatomy.classes.is_empty() {
        sections.push(("fig-classes", "Classes"));
    }
    if !report.shapes.is_empty() {
        sections.push(("fig-sections", "Shapes upon slices"));
    }
    if !report.shapes.is_empty() || !report.marks.is_empty() {
        sections.push(("fig-3d", "3D"));
    }
    if !anatomy.shapes.is_empty() || !anatomy.landmarks.is_empty() {
        sections.push(("shapes", "Distances"));
    }
    render_with(&report.deform, &sections, |studio| {
        let mut html = String::new();
        if !anatomy.classes.is_empty() {
            html += &figure(
                "fig-classes",
                "Classes",
                &format!("{}{}", overlaps(&anatomy.classes), contours(studio, &report.classes)?),
                "<b>How to read it:</b> the overlap is the part of the fixed class that the moving one covers, Dice that of \
                 where both are a half or more. Lines are where a probability is a half: blue of the fixed anatomy, \
                 orange of the moving one. Good alignment: orange lines lie on the blue ones, all around.",
            );
        }
        html += &pictures(report)?;
        if !anatomy.shapes.is_empty() || !anatomy.landmarks.is_empty() {
            html += &distances(anatomy);
        }
        Ok(html)
    })
}

/// The table of classes.
fn overlaps(classes: &[ClassRecord]) -> String {
    let rows: Vec<_> = classes
        .iter()
        .map(|c| {
            vec![
                escape(&c.name),
                thousands(c.volume_fixed_mm3.round()),
                thousands(c.volume_after_mm3.round()),
                fixed(c.overlap_before, 3),
                fixed(c.overlap_after, 3),
                fixed(c.dice_before, 3),
                fixed(c.dice_after, 3),
            ]
        })
        .collect();
    let head = [
        "Class",
        "#Volume, mm\u{b3}",
        "#Moving, mm\u{b3}",
        "#Overlap before",
        "#Overlap after",
        "#Dice before",
        "#Dice after",
    ];
    table("classes", &head, &rows)
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
            for line in level_lines(&values, plane.width(), plane.height(), BORDER) {
                // Centres of pixels are half a pixel from their corners.
                let line: Vec<[f64; 2]> = line.iter().map(|p| p.map(|v| v + 0.5)).collect();
                add(&mut path, &simplified(&line, 0.1));
            }
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
        let over = |plane: &Plane| {
            lines("over class fixed", plane, &ours)
                + &lines("over class moving", plane, &theirs[row])
        };
        let id = if row == 0 { "class-before" } else { "class-after" };
        out += &gallery::rows(&studio.planes, id, &[name], draw, over)?;
    }
    out += "<div class=\"key\"><span class=\"line\" style=\"background:#3cbeff\"></span>fixed\
            <span class=\"line\" style=\"background:#ff8c00\"></span>moving</div>";
    Ok(out)
}

/// Shapes upon slices, and in 3D.
fn pictures(report: &AnatomyReport<'_>) -> Result<String> {
    let mut html = String::new();
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
        html += &Sections { rows: rows.into() }.figure(
            "fig-sections",
            "Shapes upon slices",
            "<b>How to read it:</b> where shapes cut the slices of the fixed image: blue of the fixed anatomy, orange of \
             the moving one. Good alignment: orange lines lie on the blue ones, and both on what they are the border of.",
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
    html += &Scene { layers, scale }.figure(
        "fig-3d",
        "Shapes in 3D",
        "<b>How to read it:</b> the fixed shapes in pale blue, and the moving ones brought to them, coloured by how far \
         each place is from the fixed shape. What is dark is followed; what shines is where the shapes differ still.",
    )?;
    Ok(html)
}

/// The tables of shapes and landmarks.
fn distances(anatomy: &AnatomyRecord) -> String {
    let mut rows = Vec::new();
    for s in &anatomy.shapes {
        let mut row = vec![escape(&s.name), escape(&s.kind)];
        for scores in [&s.before, &s.after] {
            row.extend([scores.mean, scores.p95, scores.hausdorff].map(|v| fixed(v, 2)));
        }
        row.push(fixed(s.bound_mm, 2));
        rows.push(row);
    }
    let mut html = "<section id=\"shapes\"><h2>Shapes</h2>".to_owned();
    if !rows.is_empty() {
        let head = [
            "Name",
            "Kind",
            "#Mean before, mm",
            "#95 %",
            "#Hausdorff",
            "#Mean after, mm",
            "#95 %",
            "#Hausdorff",
            "#Mean allowed, mm",
        ];
        html += &table("shapes", &head, &rows);
    }
    let rows: Vec<_> = anatomy
        .landmarks
        .iter()
        .map(|l| {
            vec![
                escape(&l.name),
                l.count.to_string(),
                fixed(l.mean_before_mm, 2),
                fixed(l.mean_after_mm, 2),
                fixed(l.largest_after_mm, 2),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let head =
            ["Landmarks", "#Pairs", "#Mean before, mm", "#Mean after, mm", "#Largest after, mm"];
        html += &table("marks", &head, &rows);
    }
    html + "<p class=\"note\">Distances are those of the fixed shape and of the moving one brought to it, both ways, each \
            vertex by the area or length around it: their mean, the distance that 95 % are within, and the largest. They \
            are not the energy that was made smaller, but of shapes that pulled they say how well these were followed, not \
            how good the result is elsewhere.</p></section>"
}
