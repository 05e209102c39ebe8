//! Timelines: a row for each engine, a box for each task.

use super::rows::{RowBox, Rows};
use crate::text::seconds;

/// Tasks on rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// Alternative text.
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

impl Timeline {
    /// The tasks that can be drawn.
    fn drawn(&self) -> impl Iterator<Item = &TimelineTask> {
        self.tasks.iter().filter(|task| {
            let times = task.start.is_finite() && task.end >= task.start && task.start >= 0.0;
            times && task.end.is_finite() && task.row < self.rows.len()
        })
    }

    /// When the last task ended, seconds.
    #[must_use]
    pub fn end(&self) -> f64 {
        self.drawn().map(|t| t.end).fold(0.0, f64::max)
    }

    /// The timeline as SVG, from 0 to `span` seconds, or to its own end; none where there is nothing to
    /// draw. The colours are those of the [style sheet](super::STYLE) of charts.
    #[must_use]
    pub fn svg(&self, span: Option<f64>) -> Option<String> {
        let end = span.filter(|s| s.is_finite()).unwrap_or(0.0).max(self.end());
        // Milliseconds where seconds would be mostly zeros.
        let (factor, unit) = if end < 2.0 { (1e3, "ms") } else { (1.0, "s") };
        let shown = |task: &TimelineTask| RowBox {
            row: task.row,
            ends: [task.start, task.end].map(|t| factor * t),
            colour: task.stage,
            text: task.item.to_string(),
            title: format!(
                "{} {}: {} to {}",
                self.stages.get(task.stage).map_or("", String::as_str),
                task.item,
                seconds(task.start),
                seconds(task.end)
            ),
        };
        let rows = Rows {
            what: self.title.clone(),
            rows: self.rows.iter().map(|name| [name.clone(), String::new()]).collect(),
            boxes: self.drawn().map(shown).collect(),
            key: self.stages.clone(),
            end: factor * end,
            unit: unit.to_owned(),
            line: self.bound.filter(|b| *b > 0.0).map(|b| factor * b),
            room: [130.0, 14.0],
        };
        rows.svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_have_their_place_colour_and_number() {
        let task = |row, stage, item, start, end| TimelineTask { row, stage, item, start, end };
        let timeline = Timeline {
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
        };
        let svg = timeline.svg(None).unwrap();
        assert_eq!(svg.matches("class=\"task\"").count(), 3);
        assert_eq!(svg.matches("class=\"key\"").count(), 2);
        assert!(svg.contains("a &lt; b") && svg.contains("x&amp;y") && !svg.contains("NaN"));
        // 0.4 s of 816 pixels, and the execution behind it.
        assert!(svg.contains("x=\"130.0\" y=\"54.0\" width=\"326.4\""), "{svg}");
        assert!(svg.contains("x=\"456.4\" y=\"80.0\" width=\"489.6\""), "{svg}");
        assert!(svg.contains(">0</text>") && !svg.contains(">12345</text>"));
        assert!(svg.contains("1000 ms") && svg.contains("class=\"limit\""));
        assert!(timeline.svg(Some(20.0)).unwrap().contains("20 s"));
        assert_eq!(Timeline::default().svg(None), None);
    }
}
