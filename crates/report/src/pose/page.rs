//! The report on a pose.

use super::pictures::{self, PosePictures};
use super::{PoseRecord, PoseViewRecord, unit};
use crate::affine::search;
use crate::drr::ct_name;
use crate::error::Result;
use crate::html::{escape, fixed, measured, number, table, thousands};
use crate::page::{self, Comparison, Heading, figure};
use crate::plot::{Plot, Point, Series, Shape};
use crate::sketch;
use crate::words;
use std::fmt::Write as _;
use voxalign_image::{Matrix3, Rotation3, Vector3};
use voxalign_register::projection::register::PARAMETERS;

/// What a report on a pose is made of.
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
    caption: "drag the slider or a picture: the X-ray image is on its left, the simulated image on its right. \
              Good: bones run on across the seam, and nothing jumps when the images blink; brightness and \
              instruments, contrast agent or a table that the CT does not have may differ.",
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
    let images = match record.views.len() {
        1 => "one X-ray image".to_owned(),
        n => format!("{n} X-ray images"),
    };
    let line = format!("{} by {images}", ct_name(&record.provenance));
    let heading =
        Heading { title: &format!("Pose of {line}"), heading: "Pose of a CT", line: &line };
    let shown = !record.views.is_empty() && !pictures.is_empty();
    let mut sections = vec![("verdict", "Verdict"), ("pose", "Pose")];
    if shown {
        sections.extend([
            ("fig-compare", "Compare"),
            ("fig-slices", "Images"),
            ("fig-edges", "Edges"),
        ]);
    }
    sections.extend([
        ("fig-landscape", "Landscape"),
        ("fig-cost", "Cost"),
        ("fig-geometry", "Geometry"),
        ("details", "Details"),
    ]);
    let mut page = page::begin(&run, &heading, &sections);
    page += &words::judged(&record.verdict, None);
    page += &words::cards(&run, cards(record));
    page += &pose(record);
    if shown {
        page += &page::comparison_of(&pictures::widths(record, pictures), &COMPARISON);
        page += &figure(
            "fig-slices",
            "X-ray images and simulated images",
            &pictures::slices(&record.views, pictures)?,
            "<b>How to read it:</b> each X-ray image beside the images that are simulated of the CT where it was \
             and where it was found. Bright is what absorbs most; both simulated images of a view have the same \
             black and white. Good: the image simulated after has the bones of the X-ray image in the same places.",
        );
        page += &figure(
            "fig-edges",
            "Edges of the simulated images over the X-ray images",
            &pictures::overlays(&record.views, pictures)?,
            "<b>How to read it:</b> the lines belong to the simulated image, the grey picture is the X-ray image. \
             Good: the lines lie on the borders of bones in the X-ray image all over; lines that are all on one \
             side of them mean a remaining offset.",
        );
    }
    page += &landscape(record);
    let similarity = record.parameters.get("similarity").or_else(|| record.parameters.get("cost"));
    page += &search(&record.stages, similarity);
    page += &geometry(record);
    page += &page::details(&run);
    page += &page::end();
    Ok(page)
}

/// The most telling numbers.
fn cards(record: &PoseRecord) -> Vec<words::Card> {
    let card = |name: &str, value: String, note: &str| (name.to_owned(), value, note.to_owned());
    let [now, then] = [record.translation_mm, record.start_translation_mm].map(Vector3::from);
    let turn = |rows: &[[f64; 4]; 3]| Matrix3::from_fn(|r, c| rows[r][c]);
    let between = turn(&record.start).transpose() * turn(&record.pose);
    let angle = Rotation3::from_matrix_unchecked(between).angle();
    let costs = measured(&[record.cost_after, record.cost_before]);
    let all = record.views.iter().map(|v| v.correlation_of_gradients);
    let least = all.filter(|v| v.is_finite()).reduce(f64::min);
    let mut cards = vec![
        card("CT moved by", format!("{} mm", fixed((now - then).norm(), 2)), "from the start"),
        card("CT turned by", format!("{}\u{b0}", fixed(angle.to_degrees(), 2)), "from the start"),
        card("Cost", costs[0].clone(), &format!("before: {}", costs[1])),
    ];
    cards.extend(least.map(|v| {
        let note = if record.views.len() > 1 { "in the view where it is least" } else { "" };
        card("Correlation of gradients", fixed(v, 3), note)
    }));
    cards
}

/// A parameter in words.
fn along(parameter: &str) -> String {
    match parameter.strip_prefix("rotation ") {
        Some(axis) => format!("Rotation about {axis}"),
        None => format!("Translation along {parameter}"),
    }
}

/// The pose with its uncertainty.
fn pose(record: &PoseRecord) -> String {
    let known = |value: Option<f64>| match value {
        None => "\u{2013}".to_owned(),
        Some(value) if value.is_finite() => fixed(value, 3),
        Some(_) => "unknown".to_owned(),
    };
    let six = |mm: &[f64; 3], degrees: &[f64; 3]| mm.iter().chain(degrees).copied().collect();
    let values: Vec<f64> = six(&record.translation_mm, &record.rotation_degrees);
    let began: Vec<f64> = six(&record.start_translation_mm, &record.start_rotation_degrees);
    let certain = &record.uncertainty;
    let rows: Vec<Vec<String>> = PARAMETERS
        .iter()
        .enumerate()
        .map(|(i, name)| {
            vec![
                format!("{}, {}", along(name), unit(i)),
                fixed(began[i], 3),
                fixed(values[i], 3),
                known(Some(certain.curvature[i])),
                known(certain.restarts.map(|r| r[i])),
            ]
        })
        .collect();
    let headings = [
        "Of the CT in the room",
        "#Start",
        "#Result",
        "#Standard deviation, by the curvature of the cost",
        "#Standard deviation, of restarts",
    ];
    let mut out = format!(
        "<section id=\"pose\"><h2>The pose</h2><p>How the CT is moved in the room from where it lies in \
         its own world, so that its simulated images are those that were taken.</p>{}",
        table("pose", &headings, &rows)
    );
    let _ = write!(out, "<p>{}</p>", escape(&record.expected()));
    for words in record.views.iter().filter_map(PoseViewRecord::refined_words) {
        let _ = write!(out, "<p>Refined: {}</p>", escape(&words));
    }
    if record.expected_error.len() > 1 {
        let rows: Vec<Vec<String>> = record.expected_error[1..]
            .iter()
            .map(|e| {
                let largest = |all: &[f64]| fixed(all.iter().copied().fold(0.0, f64::max), 2);
                vec![
                    e.name.clone(),
                    fixed(e.within_mm, 2),
                    largest(&e.in_plane_mm),
                    largest(&e.depth_mm),
                ]
            })
            .collect();
        let headings = [
            "Target",
            "#Within, mm (95 of 100)",
            "#In the plane of a view, at most",
            "#In the depth of a view, at most",
        ];
        out += &table("targets", &headings, &rows);
    }
    let [x, y, z] = record.centre_mm.map(|v| fixed(v, 1));
    let _ = write!(
        out,
        "<p class=\"note\">Turned first, about axes along x, y and z in this order through the point ({x}, {y}, {z})\u{a0}mm \
         of the CT in its own world, then moved: as <code>drr</code> takes it."
    );
    let numbers = certain.curvature.iter().chain(certain.restarts.iter().flatten());
    if numbers.into_iter().any(|v| !v.is_finite()) {
        out += " Unknown: the cost has no minimum along this parameter, or too few pixels tell.";
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
        " {} steps led to the result, with {} simulated images.</p>",
        thousands(record.iterations as f64),
        thousands(record.renders as f64)
    );
    for (open, what, id, rows) in [
        (" open", "Matrix of the pose", "matrix", record.pose),
        ("", "Matrix of the start", "matrix-start", record.start),
    ] {
        let [x, y, z] = rows;
        let _ = write!(
            out,
            "<details{open}><summary>{what}, room to the world of the CT, RAS+ mm</summary>\
             <div class=\"code\"><button type=\"button\" class=\"copy\" hidden>Copy</button>\
             <pre id=\"{id}\">{}</pre></div></details>",
            words::matrix(&[x, y, z, [0.0, 0.0, 0.0, 1.0]])
        );
    }
    out + "</section>"
}

/// The cost along each parameter.
fn landscape(record: &PoseRecord) -> String {
    let mut panels = String::new();
    for line in &record.landscape {
        let point =
            |(x, y): (&f64, &f64)| Point { x: *x, y: *y, spread: 0.0, title: String::new() };
        let points: Vec<Point> = line.offsets.iter().zip(&line.costs).map(point).collect();
        let here = points
            .iter()
            .filter(|p| p.x.is_finite())
            .min_by(|a, b| a.x.abs().total_cmp(&b.x.abs()));
        let result =
            here.map(|p| Point { title: format!("the result: cost {}", number(p.y)), ..p.clone() });
        let series = |shape, colour, points| Series { shape, colour, points };
        let plot = Plot {
            title: along(&line.parameter),
            across: format!("offset, {}", line.unit),
            up: "cost".to_owned(),
            size: [350.0, 240.0],
            places: Vec::new(),
            series: vec![
                series(Shape::Curve, 0, points),
                series(Shape::Diamonds, 1, result.into_iter().collect()),
            ],
        };
        if let Some(svg) = plot.svg() {
            let _ = write!(panels, "<div>{svg}</div>");
        }
    }
    if panels.is_empty() {
        panels = "<p>No cost was recorded.</p>".to_owned();
    }
    figure(
        "fig-landscape",
        "Cost around the result",
        &format!("<div class=\"panels six\">{panels}</div>"),
        "<b>How to read it:</b> the cost where one parameter differs from the result, which the diamond marks, and \
         the others do not. Good: the diamond is at the lowest place of a steep valley. A flat valley is a \
         direction in which the images say little, such as that from the source to the detector of a single view; \
         further valleys are where a search from elsewhere may end.",
    )
}

/// Sources, detectors and CT.
fn geometry(record: &PoseRecord) -> String {
    let views: Vec<_> = record.views.iter().map(|v| &v.view).collect();
    let corners = sketch::corners(&record.grid, &record.pose);
    let drawn = sketch::sketches(&views, corners.as_ref());
    if drawn.is_empty() {
        return String::new();
    }
    figure(
        "fig-geometry",
        "Geometry",
        &format!("{drawn}{}", sketch::key(&views)),
        "<b>How to read it:</b> the sources (dots), the rays to the corners of the detectors and the box of the CT \
         at the result (grey), in the room: from above with x to the right and y upwards, from the side with y to \
         the right and z upwards. Views that are far apart in angle say more than those from nearly the same side.",
    )
}
