//! A page with a timeline.

pub use crate::draw::{Timeline, TimelineTask};

use super::html::{Columns, note, scroll, section};
use super::{Heading, Page, words};
use crate::record::HostRecord;
use crate::text::{escape, fixed, seconds};

/// A page of timelines, below each other.
#[derive(Debug, Clone)]
pub struct TimelineReport<'a> {
    /// The heading.
    pub title: String,
    /// Program and version.
    pub program: String,
    /// The machine and the device.
    pub host: &'a HostRecord,
    /// The command with its arguments, as it was given.
    pub command: Vec<String>,
    /// A note for the reader.
    pub note: String,
    /// The timelines; all are drawn to the same scale.
    pub timelines: Vec<Timeline>,
}

/// The page as one HTML file that needs nothing else and has no script.
#[must_use]
pub fn render(report: &TimelineReport<'_>) -> String {
    let mut page = Page::default();
    page.text(&note(&escape(&report.note)));
    let span = report.timelines.iter().map(Timeline::end).fold(0.0, f64::max);
    for timeline in &report.timelines {
        page.figure("", "", &timeline.title, &scroll(timeline.svg(Some(span))), "");
    }
    let bound = |timeline: &Timeline| timeline.bound.filter(|b| *b > 0.0);
    let over = |timeline: &Timeline| bound(timeline).map(|b| fixed(timeline.end() / b, 2));
    let times = Columns::of(&report.timelines)
        .column("Run", |t| escape(&t.title))
        .column("#Time", |t| seconds(t.end()))
        .column("#Bound", |t| bound(t).map_or_else(String::new, seconds))
        .column("#Time over bound", |t| over(t).unwrap_or_default())
        .html("facts");
    page.add("", section("", "Times", &times));
    words::machine(&mut page, report.host, &report.command);
    page.finish_plain(&Heading::of_machine(&report.title, &report.program, report.host))
}
