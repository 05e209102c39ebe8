//! The report on a pose.

pub(crate) mod pictures;
#[cfg(test)]
mod tests;

pub use crate::record::pose::*;
pub use pictures::PosePictures;

use super::comparison::{Comparison, comparison_of};
use super::course::search;
use super::drr::ct_name;
use super::html::{Columns, Section, figure, known, matrix, panel, section};
use super::words::{Card, count};
use super::{Heading, Page};
use crate::draw::{Axis, Plot, Point, Series, Shape, sketch};
use crate::error::Result;
use crate::record::pose::unit;
use crate::text::{escape, fixed, measured, number, thousands};
use std::fmt::Write as _;
use voxalign_image::{Matrix3, Rotation3, Vector3};
use voxalign_register::projection::register::PARAMETERS;

/// The content of a report on a pose.
#[derive(Debug, Clone, Copy)]
pub struct PoseReport<'a> {
    /// The record.
    pub record: &'a PoseRecord,
    /// The images of the views in the order of the record; fewer where only the first ones are shown.
    pub pictures: &'a [PosePictures<'a>],
}

/// The comparison of X-ray images with simulated ones.
const COMPARISON: Comparison<'_> = Comparison {
    images: "X-ray image and simulated image",
    rows: &[(2, "X-ray image and simulated after"), (1, "X-ray image and simulated before")],
    first: "X-ray image",
    caption: "drag the slider or a picture: the X-ray image is on the left, the simulated image on the right. \
        Good: bones continue across the seam, and nothing jumps when the images blink; brightness may differ, \
        and so may instruments, contrast agent or a table that the CT does not show.",
};

/// The report as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::Pixels`](crate::ReportError::Pixels) where a picture has other pixels than it says,
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where
/// a picture cannot be compressed.
pub fn render(report: &PoseReport<'_>) -> Result<String> {
    let PoseReport { record, pictures } = report;
    let run = record.run();
    let mut page = Page::on(&run, cards(record));
    page.add("Pose", pose(record));
    if !record.views.is_empty() && !pictures.is_empty() {
        page.add("Compare", comparison_of(&pictures::widths(record, pictures), &COMPARISON));
        page.figure(
            "Images",
            "fig-slices",
            "X-ray images and simulated images",
            &pictures::slices(&record.views, pictures)?,
            "each X-ray image beside the images simulated from the CT at the start and at the result. Bright \
             means high attenuation; both simulated images of a view have the same grey scale. Good: in the \
             image simulated at the result the bones are where they are in the X-ray image.",
        );
        page.figure(
            "Edges",
            "fig-edges",
            "Edges of the simulated images over the X-ray images",
            &pictures::overlays(&record.views, pictures)?,
            "the lines are edges of the simulated image, the grey picture is the X-ray image. Good: the lines \
             lie on the borders of bones all over the X-ray image; lines that are all on one side of them mean \
             a remaining offset.",
        );
    }
    page.add("Landscape", landscape(record));
    let similarity = record.parameters.get("similarity").or_else(|| record.parameters.get("cost"));
    page.add("Cost", search(&record.stages, similarity, false));
    page.add("Geometry", geometry(record));
    let images = match record.views.len() {
        1 => "one X-ray image".to_owned(),
        n => count(n, "", "X-ray images"),
    };
    let line = format!("{} by {images}", ct_name(&record.provenance));
    Ok(page.finish(&run, &Heading::new(&format!("Pose of {line}"), "Pose of a CT", &line, &run)))
}

/// The most telling numbers.
fn cards(record: &PoseRecord) -> Vec<Card> {
    let [now, then] = [record.translation_mm, record.start_translation_mm].map(Vector3::from);
    let turn = |rows: &[[f64; 4]; 3]| Matrix3::from_fn(|r, c| rows[r][c]);
    let between = turn(&record.start).transpose() * turn(&record.pose);
    let angle = Rotation3::from_matrix_unchecked(between).angle();
    let costs = measured(&[record.cost_after, record.cost_before]);
    let all = record.views.iter().map(|v| v.correlation_of_gradients);
    let least = all.filter(|v| v.is_finite()).reduce(f64::min);
    let mut cards = vec![
        Card::new("CT translated by", fixed((now - then).norm(), 2) + " mm", "from the start"),
        Card::new("CT rotated by", fixed(angle.to_degrees(), 2) + "\u{b0}", "from the start"),
        Card::new("Cost", &*costs[0], format!("before: {}", costs[1])),
    ];
    cards.extend(least.map(|v| {
        let note = if record.views.len() > 1 { "in the worst view" } else { "" };
        Card::new("Gradient correlation", fixed(v, 3), note)
    }));
    cards
}

/// The name of a parameter.
fn along(parameter: &str) -> String {
    match parameter.strip_prefix("rotation ") {
        Some(axis) => format!("Rotation about {axis}"),
        None => format!("Translation along {parameter}"),
    }
}

/// The pose with its uncertainty.
fn pose(record: &PoseRecord) -> Section {
    let sure = |value: Option<f64>| match value {
        Some(value) if !value.is_finite() => "unknown".to_owned(),
        value => known(value, 3),
    };
    let six = |mm: &[f64; 3], degrees: &[f64; 3]| [*mm, *degrees].concat();
    let values = six(&record.translation_mm, &record.rotation_degrees);
    let began = six(&record.start_translation_mm, &record.start_rotation_degrees);
    let certain = &record.uncertainty;
    let mut out = "<p>How the CT is moved from its own world to the room, so that its simulated images match \
        those that were taken.</p>"
        .to_owned();
    out += &Columns::of(PARAMETERS.iter().enumerate())
        .column("Motion of the CT in the room", |(i, name)| {
            format!("{}, {}", along(name), unit(*i))
        })
        .column("#Start", |(i, _)| fixed(began[*i], 3))
        .column("#Result", |(i, _)| fixed(values[*i], 3))
        .column("#Standard deviation, from the curvature of the cost", |(i, _)| {
            sure(Some(certain.curvature[*i]))
        })
        .column("#Standard deviation of the restarts", |(i, _)| {
            sure(certain.restarts.map(|r| r[*i]))
        })
        .html("pose");
    let _ = write!(out, "<p>{}</p>", escape(&record.expected()));
    for words in record.views.iter().filter_map(PoseViewRecord::refined_words) {
        let _ = write!(out, "<p>Refined: {}</p>", escape(&words));
    }
    let largest = |all: &[f64]| fixed(all.iter().copied().fold(0.0, f64::max), 2);
    out += &Columns::of(record.expected_error.iter().skip(1))
        .column("Target", |e| escape(&e.name))
        .column("#95 % within, mm", |e| fixed(e.within_mm, 2))
        .column("#In the plane of a view, at most", |e| largest(&e.in_plane_mm))
        .column("#In the depth of a view, at most", |e| largest(&e.depth_mm))
        .html("targets");
    let centre = record.centre_mm.map(|v| fixed(v, 1)).join(", ");
    let _ = write!(
        out,
        "<p class=\"note\">Rotated first, about axes along x, y and z in this order through the point \
         ({centre})\u{a0}mm of the CT in its own world, then translated: as <code>drr</code> takes it."
    );
    let numbers = certain.curvature.iter().chain(certain.restarts.iter().flatten());
    if numbers.into_iter().any(|v| !v.is_finite()) {
        out += " Unknown: the cost has no minimum along this parameter, or too few pixels count.";
    }
    if !certain.restarts_apart_mm.is_empty() {
        let apart: Vec<String> = certain.restarts_apart_mm.iter().map(|v| fixed(*v, 3)).collect();
        let _ = write!(
            out,
            " Searches that began near the result ended {} mm from it (root mean square over the body).",
            apart.join(", ")
        );
    }
    let _ = write!(
        out,
        " The search took {} steps and {} simulated images.</p>",
        thousands(record.iterations as f64),
        thousands(record.renders as f64)
    );
    for (open, what, id, [x, y, z]) in [
        (true, "Matrix of the pose", "matrix", record.pose),
        (false, "Matrix of the start", "matrix-start", record.start),
    ] {
        let what = format!("{what}, room to the world of the CT");
        out += &matrix(open, &what, id, &[x, y, z, [0.0, 0.0, 0.0, 1.0]]);
    }
    section("pose", "The pose", &out)
}

/// The cost along each parameter.
fn landscape(record: &PoseRecord) -> Section {
    let mut panels = String::new();
    for line in &record.landscape {
        let ends = line.offsets.iter().zip(&line.costs);
        let points: Vec<Point> = ends.map(|(x, y)| Point::at(*x, *y)).collect();
        let finite = points.iter().filter(|p| p.x.is_finite());
        let here = finite.min_by(|a, b| a.x.abs().total_cmp(&b.x.abs())).cloned();
        let title = |p: Point| {
            let title = format!("the result: cost {}", number(p.y));
            p.titled(title)
        };
        let series = |shape, colour, points| Series { shape, colour, points, ..Series::default() };
        let plot = Plot {
            title: [along(&line.parameter), String::new()],
            across: Axis::new(format!("offset, {}", line.unit)),
            up: Axis::new("cost"),
            size: [350.0, 240.0],
            series: vec![
                series(Shape::Curve, 0, points),
                series(Shape::Diamonds, 1, here.map(title).into_iter().collect()),
            ],
            ..Plot::default()
        };
        panels += &panel(plot.svg());
    }
    let body = match panels.as_str() {
        "" => "<p>No cost was recorded.</p>".to_owned(),
        panels => format!("<div class=\"panels six\">{panels}</div>"),
    };
    figure(
        "fig-landscape",
        "Cost around the result",
        &body,
        "the cost with one parameter changed and the others kept at the result, which the diamond marks. Good: \
         the diamond is at the bottom of a steep valley. A flat valley is a direction that the images hardly \
         determine, such as that from the source to the detector of a single view; other valleys are where a \
         search from elsewhere may end.",
    )
}

/// Sources, detectors and CT.
fn geometry(record: &PoseRecord) -> Section {
    let views: Vec<_> = record.views.iter().map(|v| &v.view).collect();
    let corners = sketch::corners(&record.grid, &record.pose);
    let drawn = sketch::sketches(&views, corners.as_ref());
    if drawn.is_empty() {
        return Section::default();
    }
    figure(
        "fig-geometry",
        "Geometry",
        &(drawn + &sketch::key(&views)),
        "the sources (dots), the rays to the corners of the detectors and the bounding box of the CT at the \
         result (grey), in room coordinates: from above with x to the right and y upwards, from the side with y \
         to the right and z upwards. Views that are far apart in angle determine the pose better than views \
         from nearly the same side.",
    )
}
