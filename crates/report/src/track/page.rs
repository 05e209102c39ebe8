//! The report on a sequence.

use super::TrackRecord;
use crate::drr::ct_name;
use crate::error::Result;
use crate::html::{escape, fixed, table, thousands};
use crate::page::{self, Heading, figure};
use crate::plot::{Plot, Point, Series, Shape};
use crate::pose::{PosePictures, pictures};
use crate::sketch;
use crate::words;
use std::fmt::Write as _;
use voxalign_image::Vector3;

/// What a report on a sequence is made of.
#[derive(Debug, Clone, Copy)]
pub struct TrackReport<'a> {
    /// The record.
    pub record: &'a TrackRecord,
    /// The images of the views of the last frame that has a pose, with those that are simulated for the start and for
    /// that pose; none where no frame has one.
    pub pictures: &'a [PosePictures<'a>],
}

/// Losses that are listed.
const LISTED: usize = 50;

/// The report as one HTML file that needs nothing else.
///
/// # Errors
/// [`ReportError::Pixels`](crate::ReportError::Pixels) where a picture has other pixels than it says,
/// [`ReportError::OutOfMemory`](crate::ReportError::OutOfMemory), [`ReportError::Png`](crate::ReportError::Png) where
/// a picture cannot be compressed.
pub fn render(report: &TrackReport<'_>) -> Result<String> {
    let TrackReport { record, pictures: shown } = report;
    let run = record.run();
    let line = format!(
        "{} over {} frames of {}",
        ct_name(&record.provenance),
        thousands(record.frames.len() as f64),
        match record.views.len() {
            1 => "one view".to_owned(),
            n => format!("{n} views"),
        }
    );
    let heading =
        Heading { title: &format!("Track of {line}"), heading: "Track of a CT", line: &line };
    let mut sections =
        vec![("verdict", "Verdict"), ("fig-motion", "Motion"), ("fig-likeness", "Likeness")];
    if !shown.is_empty() {
        sections.extend([("fig-slices", "Images"), ("fig-edges", "Edges")]);
    }
    sections.extend([("losses", "Losses"), ("details", "Details")]);
    let mut page = page::begin(&run, &heading, &sections);
    page += &words::judged(&record.verdict, None);
    page += &words::cards(&run, cards(record));
    page += &motion(record);
    page += &likeness(record);
    if !shown.is_empty() {
        page += &figure(
            "fig-slices",
            "The last frame with a pose",
            &pictures::slices(&record.views, shown)?,
            "<b>How to read it:</b> the X-ray images of the last frame that has a pose beside the images that are simulated \
             of the CT where the track began and where it is then. Good: the last picture has the bones of the first one in \
             the same places.",
        );
        page += &figure(
            "fig-edges",
            "Edges of the simulated images over the X-ray images",
            &pictures::overlays(&record.views, shown)?,
            "<b>How to read it:</b> the lines belong to the simulated image at the pose of this frame. Good: they lie on the \
             borders of bones in the X-ray image all over.",
        );
    }
    page += &losses(record);
    page += &page::details(&run);
    page += &page::end();
    Ok(page)
}

/// The most telling numbers.
fn cards(record: &TrackRecord) -> Vec<words::Card> {
    let card = |name: &str, value: String, note: &str| (name.to_owned(), value, note.to_owned());
    let good = || record.frames.iter().filter(|f| f.is_good());
    let first = Vector3::from(good().next().map_or([0.0; 3], |f| f.translation_mm));
    let moved = |f: &super::FrameRecord| (Vector3::from(f.translation_mm) - first).norm();
    let farthest = good().map(moved).fold(0.0, f64::max);
    let least = good().map(|f| f.least_correlation()).filter(|v| v.is_finite()).reduce(f64::min);
    let mut cards = vec![
        card("Frames", thousands(record.frames.len() as f64), ""),
        card("Without a pose", thousands(record.lost as f64), "the track was lost there"),
        card(
            "Farthest from the first frame",
            format!("{} mm", fixed(farthest, 2)),
            "the centre of rotations",
        ),
    ];
    if record.frames_per_second.is_finite() {
        let rate = fixed(record.frames_per_second, 1);
        cards.push(card("Frames a second", rate, "of those that were followed"));
    }
    cards.extend(
        least.map(|v| card("Least correlation of gradients", fixed(v, 3), "of frames with a pose")),
    );
    cards
}

/// Values over frames.
fn over_frames(title: &str, up: &str, series: Vec<Series>) -> String {
    let plot = Plot {
        title: title.to_owned(),
        across: "frame".to_owned(),
        up: up.to_owned(),
        size: [700.0, 260.0],
        places: Vec::new(),
        series,
    };
    plot.svg().map_or_else(String::new, |svg| format!("<div>{svg}</div>"))
}

/// A curve of the frames that have a value; `title` says what it is, at its last point.
fn curve(
    record: &TrackRecord,
    colour: usize,
    title: &str,
    value: impl Fn(&super::FrameRecord) -> f64,
) -> Series {
    let points = record.frames.iter().filter(|f| f.is_good()).map(|f| {
        let (x, y) = (f.frame as f64, value(f));
        Point { x, y, spread: 0.0, title: format!("{title}, frame {}: {}", f.frame, fixed(y, 3)) }
    });
    Series { shape: Shape::Curve, colour, points: points.collect() }
}

/// Marks of lost frames at a height.
fn marks(record: &TrackRecord, y: f64) -> Series {
    let points = record.frames.iter().filter(|f| !f.is_good()).map(|f| Point {
        x: f.frame as f64,
        y,
        spread: 0.0,
        title: format!("frame {}: {}", f.frame, f.reason.as_deref().unwrap_or("lost")),
    });
    Series { shape: Shape::Diamonds, colour: 3, points: points.collect() }
}

/// The six parameters over frames.
fn motion(record: &TrackRecord) -> String {
    let mut out = String::new();
    for (title, up, rotation) in
        [("Translation along x, y, z", "mm", false), ("Rotation about x, y, z", "degrees", true)]
    {
        let mut series: Vec<Series> = (0..3)
            .map(|axis| {
                let name = format!(
                    "{} {}",
                    if rotation { "rotation" } else { "translation" },
                    ["x", "y", "z"][axis]
                );
                curve(record, axis, &name, |f| {
                    if rotation { f.rotation_degrees[axis] } else { f.translation_mm[axis] }
                })
            })
            .collect();
        series.push(marks(record, 0.0));
        out += &over_frames(title, up, series);
    }
    let key: String = ["x", "y", "z", "no pose"]
        .iter()
        .enumerate()
        .map(|(i, name)| sketch::mark(i, name))
        .collect();
    figure(
        "fig-motion",
        "Motion of the CT in the room",
        &format!("<div class=\"panels\">{out}</div><div class=\"key\">{key}</div>"),
        "<b>How to read it:</b> how far the CT is moved and turned in the room from where it lies in its own world, about \
         the centre of rotations. Good: smooth curves. Diamonds are frames without a pose; a step beside them is a motion \
         that happened meanwhile.",
    )
}

/// How alike X-ray and simulated images are, and what frames took.
fn likeness(record: &TrackRecord) -> String {
    let series: Vec<Series> = (0..record.views.len())
        .map(|view| {
            let points = record.frames.iter().filter_map(|f| {
                let y = *f.correlations.get(view).filter(|v| v.is_finite())?;
                let title = format!("frame {}: {}", f.frame, fixed(y, 3));
                Some(Point { x: f.frame as f64, y, spread: 0.0, title })
            });
            Series { shape: Shape::Curve, colour: view % 4, points: points.collect() }
        })
        .collect();
    let key: String =
        record.views.iter().enumerate().map(|(i, v)| sketch::mark(i % 4, &v.view.name)).collect();
    let mut out = over_frames("Correlation of gradients, each view", "correlation", series);
    let followed = record.frames.iter().filter(|f| f.status == "followed");
    let points = followed.map(|f| Point {
        x: f.frame as f64,
        y: f.milliseconds,
        spread: 0.0,
        title: format!("frame {}: {} ms", f.frame, fixed(f.milliseconds, 2)),
    });
    let times = Series { shape: Shape::Dots, colour: 0, points: points.collect() };
    out += &over_frames("Time of frames that were followed", "ms", vec![times]);
    figure(
        "fig-likeness",
        "Likeness and time",
        &format!("<div class=\"panels\">{out}</div><div class=\"key\">{key}</div>"),
        "<b>How to read it:</b> the correlation of the gradients of each X-ray image with those of the simulated one. Good: the \
         same height all along. A frame far below what is usual is lost.",
    )
}

/// The frames without a pose.
fn losses(record: &TrackRecord) -> String {
    let mut out = "<section id=\"losses\"><h2>Frames without a pose</h2>".to_owned();
    let lost: Vec<_> = record.frames.iter().filter(|f| !f.is_good()).collect();
    if lost.is_empty() {
        out += "<p>None.</p>";
    } else {
        let row = |f: &&super::FrameRecord| {
            vec![f.frame.to_string(), f.reason.clone().unwrap_or_default()]
        };
        let rows: Vec<Vec<String>> = lost.iter().take(LISTED).map(row).collect();
        out += &table("lost", &["#Frame", "Why"], &rows);
        if lost.len() > LISTED {
            let _ = write!(out, "<p class=\"note\">And {} more.</p>", lost.len() - LISTED);
        }
    }
    if let Some(why) = &record.ended {
        let _ = write!(out, "<p class=\"note\">The sequence ended early: {}.</p>", escape(why));
    }
    out + "</section>"
}
