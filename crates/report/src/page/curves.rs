//! A page of measured curves: time over a parameter, on logarithmic axes, and tables.

use super::html::{Columns, note, scroll, section};
use super::{Heading, Page, words};
use crate::draw::{Axis, KeyPlace, Marks, Plot, Point, Scale, Series, Shape};
use crate::record::HostRecord;
use crate::text::escape;

/// The content of a page of curves.
#[derive(Debug, Clone)]
pub struct CurvesReport<'a> {
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
    /// The plots.
    pub figures: Vec<CurveFigure>,
    /// The tables.
    pub tables: Vec<CurveTable>,
}

/// One plot.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveFigure {
    /// Alternative text.
    pub title: String,
    /// The label of the horizontal axis.
    pub axis: String,
    /// The curves.
    pub curves: Vec<Curve>,
    /// What goes up.
    pub up: Up,
}

/// The axes of a plot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Up {
    /// Times in seconds over a parameter, both logarithmic.
    #[default]
    Times,
    /// Times in seconds over a place in proportion, from 0 on.
    TimesInProportion,
    /// Numbers over a place, both in proportion and from 0 on, with this label.
    Numbers(String),
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Places and times in seconds, or what else goes up, by place.
    pub points: Vec<(f64, f64)>,
    /// A time in seconds that does not depend on the place.
    pub level: Option<f64>,
}

/// One table; headings that begin with `#` are of columns of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveTable {
    /// Alternative text.
    pub title: String,
    /// The headings.
    pub headings: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

/// The page as one HTML file that needs nothing else and has no script.
#[must_use]
pub fn render(report: &CurvesReport<'_>) -> String {
    let mut page = Page::default();
    page.text(&note(&escape(&report.note)));
    for figure in &report.figures {
        page.figure("", "", &figure.title, &scroll(plot(figure)), "");
    }
    for t in &report.tables {
        let table = t.headings.iter().enumerate().fold(Columns::of(&t.rows), |table, (i, name)| {
            table.column(name, |row| row.get(i).map_or_else(String::new, |cell| escape(cell)))
        });
        page.add("", section("", &t.title, &table.html("facts")));
    }
    words::machine(&mut page, report.host, &report.command);
    page.finish_plain(&Heading::of_machine(&report.title, &report.program, report.host))
}

/// A time as the axis has it.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 0.999 => (s, "s"),
        s if s >= 0.000_999 => (s * 1e3, "ms"),
        s => (s * 1e6, "µs"),
    };
    let digits = (value * 100.0).round() / 100.0;
    format!("{digits} {unit}")
}

/// The highest that goes up; 1 where nothing does.
fn highest(figure: &CurveFigure) -> f64 {
    let of = |c: &Curve| c.points.iter().map(|p| p.1).chain(c.level).collect::<Vec<_>>();
    let all = figure.curves.iter().flat_map(of).filter(|y| y.is_finite());
    let highest = all.fold(0.0, f64::max);
    if highest > 0.0 { highest } else { 1.0 }
}

/// The plot; none where there is nothing to show.
fn plot(figure: &CurveFigure) -> Option<String> {
    let points = |curve: &Curve| curve.points.iter().map(|&(x, y)| Point::at(x, y)).collect();
    let mut places: Vec<f64> =
        figure.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
    places.retain(|p| p.is_finite() && *p > 0.0);
    places.sort_by(f64::total_cmp);
    places.dedup();
    // A level is drawn over all places.
    let ends = match places.as_slice() {
        [] => [1.0, 10.0],
        [first, .., last] => [*first, *last],
        [only] => [*only; 2],
    };
    let from_zero = |label: &str, text| Axis {
        marks: Marks::Round,
        ends: Some([0.0, 1.05 * highest(figure)]),
        text,
        ..Axis::new(label)
    };
    let (across, up) = match &figure.up {
        Up::Times => {
            let across = Axis {
                scale: Scale::Logarithmic,
                marks: Marks::At(places),
                text: Some(|place| place.to_string()),
                ..Axis::new(&figure.axis)
            };
            let scale = Scale::Logarithmic;
            (across, Axis { scale, text: Some(time), ..Axis::new("time") })
        }
        Up::TimesInProportion => (Axis::new(&figure.axis), from_zero("time", Some(time))),
        Up::Numbers(label) => (Axis::new(&figure.axis), from_zero(label, None)),
    };
    // Lines of many points need no dots.
    let many = figure.up != Up::Times && figure.curves.iter().any(|c| c.points.len() > 24);
    let line = if many { Shape::Curve } else { Shape::Line };
    let series = figure.curves.iter().enumerate().flat_map(|(colour, curve)| {
        let of = |shape, points| Series { shape, colour, name: curve.name.clone(), points };
        let level = curve.level.iter().flat_map(|&y| ends.map(|x| Point::at(x, y)));
        [of(line, points(curve)), of(Shape::Curve, level.collect())]
    });
    let plot = Plot {
        what: figure.title.clone(),
        across,
        up,
        size: [960.0, 380.0],
        series: series.collect(),
        key: KeyPlace::Right,
        ..Plot::default()
    };
    plot.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_whole_and_escaped() {
        let curve =
            |name: &str, points: Vec<(f64, f64)>, level| Curve { name: name.into(), points, level };
        let figure = CurveFigure {
            title: "a < b".into(),
            axis: "blocks".into(),
            curves: vec![
                curve("x&y", vec![(64.0, 1e-3), (128.0, 2e-3), (256.0, f64::NAN)], None),
                curve("flat", Vec::new(), Some(5e-4)),
            ],
            up: Up::Times,
        };
        let svg = plot(&figure).unwrap();
        assert!(svg.contains("a &lt; b") && svg.contains("x&amp;y") && svg.ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(plot(&CurveFigure { curves: Vec::new(), ..figure.clone() }), None);
        // A place of 0 is shown where places are in proportion.
        let curves = vec![curve("at rest", vec![(0.0, 0.25), (90.0, 0.75)], None)];
        let up = Up::Numbers("share".into());
        let svg = plot(&CurveFigure { curves: curves.clone(), up, ..figure.clone() }).unwrap();
        assert!(svg.contains("share") && !svg.contains("logarithmic") && !svg.contains("NaN"));
        let svg = plot(&CurveFigure { curves, up: Up::TimesInProportion, ..figure }).unwrap();
        assert!(svg.contains("ms") && !svg.contains("logarithmic"));
        assert_eq!([2.0, 0.001, 5e-5].map(time), ["2 s", "1 ms", "50 µs"]);
    }
}
