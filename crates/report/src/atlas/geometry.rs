//! What the template has beside images: pictures, and how far the subjects are from it.

use super::AtlasRecord;
use super::page::AtlasReport;
use crate::anatomy::ShapeRecord;
use crate::error::Result;
use crate::html::{escape, fixed, table, thousands};
use crate::meshes::{Colour, Layer, Row, Scale, Scene, Sections};

/// Shapes upon slices of the template, and in 3D; nothing where there are none.
pub(super) fn pictures(report: &AtlasReport<'_>) -> Result<String> {
    let mut html = String::new();
    if !report.shapes.is_empty() {
        let shapes = report.shapes.iter().enumerate();
        let layers = shapes.map(|(i, s)| Layer::new(s.name, s.mesh, Colour::of(i)));
        let row = Row { name: "Atlas".into(), image: report.template, layers: layers.collect() };
        html += &Sections { rows: vec![row] }.figure(
            "fig-sections",
            "Shapes upon slices",
            "<b>How to read it:</b> where the shapes of the template cut its slices. Good: each line lies on the border of \
             what it is the surface of, in the mean image of all subjects.",
        )?;
    }
    if report.shapes.is_empty() && report.marks.is_empty() {
        return Ok(html);
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
    html += &Scene { layers, scale }.figure(
        "fig-3d",
        "Shapes in 3D",
        "<b>How to read it:</b> the shapes of the template, coloured by how far each place is carried to the subjects, the \
         root mean square over them after their affine maps. Dark places are alike in all subjects; what shines differs \
         most between them.",
    )?;
    Ok(html)
}

/// The tables of shapes and landmarks; nothing where there are none.
pub(super) fn distances(record: &AtlasRecord) -> String {
    if record.geometry.is_empty() {
        return String::new();
    }
    let (mut shapes, mut marks) = (Vec::new(), Vec::new());
    for g in &record.geometry {
        let all = || record.subjects.iter();
        let of = all().filter_map(|s| {
            let shape = s.anatomy.shapes.iter().find(|shape| shape.name == g.name)?;
            Some((&*s.name, shape))
        });
        let of: Vec<(&str, &ShapeRecord)> = of.collect();
        let mean = |of: &dyn Fn(&ShapeRecord) -> f64, all: &[(&str, &ShapeRecord)]| {
            all.iter().map(|s| of(s.1)).sum::<f64>() / all.len().max(1) as f64
        };
        let worst = of.iter().max_by(|a, b| a.1.after.mean.total_cmp(&b.1.after.mean));
        if let Some((name, worst)) = worst {
            shapes.push(vec![
                escape(&g.name),
                escape(&g.kind),
                escape(&g.from),
                thousands(g.vertices as f64),
                fixed(g.variation_mm, 2),
                fixed(mean(&|s| s.before.mean, &of), 2),
                fixed(mean(&|s| s.after.mean, &of), 2),
                fixed(mean(&|s| s.after.p95, &of), 2),
                fixed(worst.after.mean, 2),
                escape(name),
                fixed(worst.bound_mm, 2),
            ]);
        }
        let of = all().filter_map(|s| {
            let found = s.anatomy.landmarks.iter().find(|marks| marks.name == g.name)?;
            Some((&*s.name, found))
        });
        let of: Vec<_> = of.collect();
        let worst = of.iter().max_by(|a, b| a.1.largest_after_mm.total_cmp(&b.1.largest_after_mm));
        if let Some((name, worst)) = worst {
            let count = of.len() as f64;
            let before = of.iter().map(|m| m.1.mean_before_mm).sum::<f64>() / count;
            let after = of.iter().map(|m| m.1.mean_after_mm).sum::<f64>() / count;
            marks.push(vec![
                escape(&g.name),
                g.vertices.to_string(),
                fixed(g.variation_mm, 2),
                fixed(before, 2),
                fixed(after, 2),
                fixed(worst.largest_after_mm, 2),
                escape(name),
            ]);
        }
    }
    let mut html = "<section id=\"geometry\"><h2>Shapes of the subjects</h2>".to_owned();
    if !shapes.is_empty() {
        let head = [
            "Name",
            "Kind",
            "Triangles or lines of",
            "#Vertices",
            "#Variation, mm",
            "#Mean before, mm",
            "#Mean after, mm",
            "#95 %",
            "#Worst subject, mm",
            "Which",
            "#Mean allowed, mm",
        ];
        html += &table("shapes", &head, &shapes);
    }
    if !marks.is_empty() {
        let head = [
            "Landmarks",
            "#Points",
            "#Variation, mm",
            "#Mean before, mm",
            "#Mean after, mm",
            "#Largest, mm",
            "Of which",
        ];
        html += &table("marks", &head, &marks);
    }
    html + "<p class=\"note\">Distances are those of the shape of the template, carried to each subject by its affine map \
            alone and by its deformation, from the shape of the subject itself: the mean over the subjects, in their worlds. \
            The variation is how far places of the template are carried after the affine maps, the root mean square over \
            places and subjects.</p></section>"
}
