//! What ran when: a row an engine, a box a task, as SVG and as a page.

use crate::chart::{decimals_for, ticks};
use crate::frame;
use crate::html::{escape, fixed, seconds, table};
use crate::record::HostRecord;
use std::fmt::Write as _;

/// Tasks on rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// What is shown.
    pub title: String,
    /// The names of the rows, such as those of queues or engines.
    pub rows: Vec<String>,
    /// The names of the stages, each with a colour of its own.
    pub stages: Vec<String>,
    /// The tasks.
    pub tasks: Vec<TimelineTask>,
    /// The least time that the stages would allow, seconds; drawn as a line.
    pub bound: Option<f64>,
}

/// A task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineTask {
    /// The row.
    pub row: usize,
    /// The stage.
    pub stage: usize,
    /// The number of the item.
    pub item: usize,
    /// Begin, seconds.
    pub start: f64,
    /// End, seconds.
    pub end: f64,
}

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
    /// What is to be known to read the page.
    pub note: String,
    /// The timelines; all are drawn to the same scale.
    pub timelines: Vec<Timeline>,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = 946.0;
/// Height of a row, and of its boxes.
const ROW: f64 = 26.0;
const BOX: f64 = 18.0;
/// Room for the axis and for the stages above.
const TOP: f64 = 50.0;
/// Colours that there are in the style sheet; further stages take them again.
const COLOURS: usize = 6;
/// Width of a digit in a box, pixels.
const DIGIT: f64 = 6.2;
/// Boxes that are drawn at most: beyond, nobody could tell them apart.
const MOST: usize = 6000;

impl Timeline {
    fn is_drawn(&self, task: &TimelineTask) -> bool {
        let times = task.start.is_finite() && task.end >= task.start && task.start >= 0.0;
        times && task.end.is_finite() && task.row < self.rows.len()
    }

    /// When the last task ended, seconds.
    #[must_use]
    pub fn end(&self) -> f64 {
        let tasks = self.tasks.iter().filter(|t| self.is_drawn(t));
        tasks.map(|t| t.end).fold(0.0, f64::max)
    }

    /// The timeline as SVG, from 0 to `span` seconds, or to its own end; none where there is nothing to
    /// draw. The colours are those of the style sheet of reports.
    #[must_use]
    pub fn svg(&self, span: Option<f64>) -> Option<String> {
        let end = span.filter(|s| s.is_finite()).unwrap_or(0.0).max(self.end());
        if end <= 0.0 {
            return None;
        }
        let height = TOP + ROW * self.rows.len() as f64 + 6.0;
        let x = |t: f64| LEFT + (RIGHT - LEFT) * t / end;
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{}\">",
            escape(&self.title)
        );
        let mut at = LEFT;
        for (i, stage) in self.stages.iter().enumerate() {
            let _ = write!(
                svg,
                "<rect class=\"key\" x=\"{at:.1}\" y=\"4\" width=\"12\" height=\"12\" rx=\"2\" \
                 style=\"fill:var(--s{})\"/><text x=\"{:.1}\" y=\"14\">{}</text>",
                i % COLOURS,
                at + 17.0,
                escape(stage)
            );
            at += 34.0 + 7.0 * stage.chars().count() as f64;
        }
        // Milliseconds where seconds would be mostly zeros.
        let (factor, unit) = if end < 2.0 { (1e3, "ms") } else { (1.0, "s") };
        let marks = ticks(0.0, end * factor);
        let decimals = decimals_for(&marks);
        for mark in &marks {
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} {unit}</text>",
                TOP - 6.0,
                height - 4.0,
                TOP - 12.0,
                fixed(*mark, decimals),
                x = x(mark / factor),
            );
        }
        for (i, row) in self.rows.iter().enumerate() {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" style=\"fill:var(--ink)\">{}</text>",
                LEFT - 8.0,
                TOP + ROW * i as f64 + ROW / 2.0 + 4.0,
                escape(row)
            );
        }
        for task in self.tasks.iter().filter(|t| self.is_drawn(t)).take(MOST) {
            let (from, to) = (x(task.start), x(task.end));
            let y = TOP + ROW * task.row as f64 + (ROW - BOX) / 2.0;
            let name = self.stages.get(task.stage).map_or("", String::as_str);
            let _ = write!(
                svg,
                "<rect class=\"task\" x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{BOX}\" \
                 rx=\"2\" style=\"fill:var(--s{});stroke:var(--panel);stroke-width:.6\"><title>{} {}: \
                 {} to {}</title></rect>",
                (to - from).max(0.6),
                task.stage % COLOURS,
                escape(name),
                task.item,
                seconds(task.start),
                seconds(task.end),
            );
            let number = task.item.to_string();
            if to - from > DIGIT * number.len() as f64 + 5.0 {
                let _ = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                     style=\"fill:var(--panel);font-size:11px;pointer-events:none\">{number}</text>",
                    (from + to) / 2.0,
                    y + BOX / 2.0 + 4.0
                );
            }
        }
        if let Some(bound) = self.bound.filter(|b| b.is_finite() && *b > 0.0 && *b <= end) {
            let _ = write!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" \
                 style=\"stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 4\"/>",
                TOP - 4.0,
                height - 2.0,
                x = x(bound)
            );
        }
        svg += "</svg>";
        Some(svg)
    }
}

/// The page as one HTML file that needs nothing else and has no script.
#[must_use]
pub fn render(report: &TimelineReport<'_>) -> String {
    let mut page = frame::head(&report.title, &report.program, report.host);
    let _ = write!(page, "<p class=\"note\">{}</p>", escape(&report.note));
    let span = report.timelines.iter().map(Timeline::end).fold(0.0, f64::max);
    let mut rows = Vec::new();
    for timeline in &report.timelines {
        let Some(svg) = timeline.svg(Some(span)) else { continue };
        let title = escape(&timeline.title);
        let _ = write!(page, "<figure><h2>{title}</h2><div class=\"scroll\">{svg}</div></figure>");
        let end = timeline.end();
        let bound = timeline.bound.filter(|b| *b > 0.0);
        rows.push(vec![
            title,
            seconds(end),
            bound.map_or_else(String::new, seconds),
            bound.map_or_else(String::new, |b| fixed(end / b, 2)),
        ]);
    }
    let headings = ["Run", "#Time", "#Bound", "#Time over bound"];
    let _ = write!(page, "<section><h2>Times</h2>{}</section>", table("facts", &headings, &rows));
    page + &frame::end(report.host, &report.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let task = |row, stage, item, start, end| TimelineTask { row, stage, item, start, end };
        Timeline {
            title: "a < b".into(),
            rows: vec!["upload".into(), "x&y".into()],
            stages: vec!["upload".into(), "execute".into()],
            tasks: vec![
                task(0, 0, 0, 0.0, 0.4),
                task(1, 1, 0, 0.4, 1.0),
                task(0, 0, 12_345, 0.4, 0.405),
                // Nothing to draw.
                task(7, 0, 1, 0.0, 1.0),
                task(0, 0, 2, f64::NAN, 1.0),
                task(0, 0, 3, 1.0, 0.5),
            ],
            bound: Some(0.8),
        }
    }

    #[test]
    fn boxes_have_their_place_colour_and_number() {
        let svg = timeline().svg(None).unwrap();
        assert_eq!(svg.matches("class=\"task\"").count(), 3);
        assert_eq!(svg.matches("class=\"key\"").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("x&amp;y") && !svg.contains("NaN"));
        // 0.4 s of 816 pixels, and the execution behind it.
        assert!(svg.contains("x=\"130.00\" y=\"54.0\" width=\"326.40\""), "{svg}");
        assert!(svg.contains("x=\"456.40\" y=\"80.0\" width=\"489.60\""), "{svg}");
        assert!(svg.contains(">0</text>") && !svg.contains(">12345</text>"));
        assert!(svg.contains("1000 ms") && svg.contains("stroke-dasharray"));
        assert!(timeline().svg(Some(20.0)).unwrap().contains("20 s"));
        assert_eq!(Timeline::default().svg(None), None);
    }
}
