//! The report on the tracking of a sequence.

pub use crate::record::track::{FrameRecord, Sequence, TrackRecord};

use super::drr::ct_name;
use super::html::{Columns, Section, figure, note, panel, section};
use super::pose::{PosePictures, pictures};
use super::words::{Card, count};
use super::{Heading, Page};
use crate::draw::{Axis, Key, Plot, Point, Series, Shape};
use crate::error::Result;
use crate::text::{escape, fixed, thousands};
use voxalign_image::Vector3;

/// The content of a report on a sequence.
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
    let mut page = Page::on(&run, cards(record));
    page.add("Motion", motion(record));
    page.add("Similarity", likeness(record));
    if !shown.is_empty() {
        page.figure(
            "Images",
            "fig-slices",
            "The last frame with a pose",
            &pictures::slices(&record.views, shown)?,
            "the X-ray images of the last frame with a pose beside the images simulated from the CT at the \
             start of the track and at the pose of this frame. Good: in the last picture the bones are where \
             they are in the first.",
        );
        page.figure(
            "Edges",
            "fig-edges",
            "Edges of the simulated images over the X-ray images",
            &pictures::overlays(&record.views, shown)?,
            "the lines are edges of the simulated image at the pose of this frame. Good: they lie on the \
             borders of bones all over the X-ray image.",
        );
    }
    page.add("Losses", losses(record));
    let views = match record.views.len() {
        1 => "one view".to_owned(),
        n => count(n, "", "views"),
    };
    let frames = thousands(record.frames.len() as f64);
    let line = format!("{} over {frames} frames of {views}", ct_name(&record.provenance));
    Ok(page.finish(&run, &Heading::new(&format!("Track of {line}"), "Track of a CT", &line, &run)))
}

/// The most telling numbers.
fn cards(record: &TrackRecord) -> Vec<Card> {
    let good = || record.frames.iter().filter(|f| f.is_good());
    let first = Vector3::from(good().next().map_or([0.0; 3], |f| f.translation_mm));
    let moved = |f: &FrameRecord| (Vector3::from(f.translation_mm) - first).norm();
    let farthest = good().map(moved).fold(0.0, f64::max);
    let least = good().map(|f| f.least_correlation()).filter(|v| v.is_finite()).reduce(f64::min);
    let mut cards = vec![
        Card::new("Frames", thousands(record.frames.len() as f64), ""),
        Card::new("Without a pose", thousands(record.lost as f64), "where the track was lost"),
        Card::new(
            "Largest motion from the first frame",
            format!("{} mm", fixed(farthest, 2)),
            "of the centre of rotation",
        ),
    ];
    if record.frames_per_second.is_finite() {
        let rate = fixed(record.frames_per_second, 1);
        cards.push(Card::new("Frames per second", rate, "of tracked frames"));
    }
    cards.extend(
        least.map(|v| {
            Card::new("Lowest gradient correlation", fixed(v, 3), "of frames with a pose")
        }),
    );
    cards
}

/// Values over frames.
fn over_frames(title: &str, up: &str, series: Vec<Series>) -> String {
    let plot = Plot {
        title: [title.to_owned(), String::new()],
        across: Axis::new("frame"),
        up: Axis::new(up),
        size: [700.0, 260.0],
        series,
        ..Plot::default()
    };
    panel(plot.svg())
}

/// A series of some frames, each with its value; `said` is the text for a value.
fn series<'a>(
    (shape, colour): (Shape, usize),
    frames: impl Iterator<Item = (&'a FrameRecord, f64)>,
    said: impl Fn(&FrameRecord, f64) -> String,
) -> Series {
    let point = |(f, y): (&FrameRecord, f64)| {
        Point::at(f.frame as f64, y).titled(format!("frame {}: {}", f.frame, said(f, y)))
    };
    Series { shape, colour, points: frames.map(point).collect(), ..Series::default() }
}

/// The six parameters over frames.
fn motion(record: &TrackRecord) -> Section {
    let parts = |good: bool| record.frames.iter().filter(move |f| f.is_good() == good);
    let plot = |title: &str, up: &str, of: fn(&FrameRecord) -> [f64; 3]| {
        let said = |_: &FrameRecord, y: f64| fixed(y, 3);
        let curve =
            |axis: usize| series((Shape::Curve, axis), parts(true).map(|f| (f, of(f)[axis])), said);
        let why = |f: &FrameRecord, _: f64| f.reason.clone().unwrap_or_else(|| "lost".to_owned());
        let lost = series((Shape::Diamonds, 3), parts(false).map(|f| (f, 0.0)), why);
        over_frames(title, up, [0, 1, 2].map(curve).into_iter().chain([lost]).collect())
    };
    let moved = plot("Translation along x, y, z", "mm", |f| f.translation_mm);
    let turned = plot("Rotation about x, y, z", "degrees", |f| f.rotation_degrees);
    let names = ["x", "y", "z"].iter().enumerate();
    let key = names.fold(Key::new(), |key, (i, name)| key.series(Shape::Curve, i, name));
    let key = key.series(Shape::Diamonds, 3, "no pose").html();
    figure(
        "fig-motion",
        "Motion of the CT in the room",
        &format!("<div class=\"panels\">{moved}{turned}</div>{key}"),
        "translation and rotation of the CT in the room relative to its own world, about the centre of \
         rotation. Good: smooth curves. Diamonds are frames without a pose; a step beside them is motion that \
         happened meanwhile.",
    )
}

/// How alike X-ray and simulated images are, and what frames took.
fn likeness(record: &TrackRecord) -> Section {
    let mut key = Key::new();
    let mut curves = Vec::new();
    for (i, view) in record.views.iter().enumerate() {
        let found = record.frames.iter().filter_map(|f| Some((f, *f.correlations.get(i)?)));
        let finite = found.filter(|(_, y)| y.is_finite());
        curves.push(series((Shape::Curve, i % 4), finite, |_, y| fixed(y, 3)));
        key = key.series(Shape::Curve, i % 4, &view.view.name);
    }
    let curves = over_frames("Gradient correlation of each view", "correlation", curves);
    let followed = record.frames.iter().filter(|f| f.status == "followed");
    let times = series((Shape::Dots, 0), followed.map(|f| (f, f.milliseconds)), |_, y| {
        format!("{} ms", fixed(y, 2))
    });
    let times = over_frames("Time of tracked frames", "ms", vec![times]);
    figure(
        "fig-likeness",
        "Gradient correlation and time",
        &format!("<div class=\"panels\">{curves}{times}</div>{}", key.html()),
        "the correlation of the gradients of each X-ray image with those of the simulated one. Good: the same \
         height throughout. A frame far below the usual level is lost.",
    )
}

/// The frames without a pose.
fn losses(record: &TrackRecord) -> Section {
    let lost: Vec<_> = record.frames.iter().filter(|f| !f.is_good()).collect();
    let mut out = Columns::of(lost.iter().take(LISTED))
        .column("#Frame", |f| f.frame.to_string())
        .column("Why", |f| escape(f.reason.as_deref().unwrap_or_default()))
        .html("lost");
    if lost.is_empty() {
        out += "<p>None.</p>";
    } else if lost.len() > LISTED {
        out += &note(&format!("And {} more.", lost.len() - LISTED));
    }
    if let Some(why) = &record.ended {
        out += &note(&format!("The sequence ended early: {}.", escape(why)));
    }
    section("losses", "Frames without a pose", &out)
}
