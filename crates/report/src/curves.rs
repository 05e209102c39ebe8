//! A page of measured curves: time over a parameter, on logarithmic axes, and tables.

use crate::frame;
use crate::html::{escape, table};
use crate::record::HostRecord;
use std::fmt::Write as _;

/// What a page of curves is made of.
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
    /// What is to be known to read the page.
    pub note: String,
    /// The plots.
    pub figures: Vec<CurveFigure>,
    /// The tables.
    pub tables: Vec<CurveTable>,
}

/// One plot.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveFigure {
    /// What is shown.
    pub title: String,
    /// What the horizontal axis is.
    pub axis: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Places and times in seconds, by place.
    pub points: Vec<(f64, f64)>,
    /// A time in seconds that does not depend on the place.
    pub level: Option<f64>,
}

/// One table; headings that begin with `#` are of columns of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveTable {
    /// What is shown.
    pub title: String,
    /// The headings.
    pub headings: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 750.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 330.0;
/// Colours that there are in the style sheet; further curves are dashed.
const COLOURS: usize = 6;

/// The page as one HTML file that needs nothing else and has no script.
#[must_use]
pub fn render(report: &CurvesReport<'_>) -> String {
    let mut page = frame::head(&report.title, &report.program, report.host);
    let _ = write!(page, "<p class=\"note\">{}</p>", escape(&report.note));
    for figure in &report.figures {
        if let Some(svg) = plot(figure) {
            let title = escape(&figure.title);
            let _ =
                write!(page, "<figure><h2>{title}</h2><div class=\"scroll\">{svg}</div></figure>");
        }
    }
    for t in &report.tables {
        let headings: Vec<&str> = t.headings.iter().map(String::as_str).collect();
        let rows: Vec<Vec<String>> =
            t.rows.iter().map(|r| r.iter().map(|c| escape(c)).collect()).collect();
        let body = table("facts", &headings, &rows);
        let title = escape(&t.title);
        let _ =
            write!(page, "<section><h2>{title}</h2><div class=\"scroll\">{body}</div></section>");
    }
    page + &frame::end(report.host, &report.command)
}

/// A range of logarithms with a little room, never empty.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let logs = values.filter(|v| v.is_finite() && *v > 0.0).map(f64::log10);
    let (low, high) = logs.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return None;
    }
    let room = 0.04 * (high - low).max(0.5);
    Some((low - room, high + room))
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

/// The plot; none where there is nothing to show.
fn plot(figure: &CurveFigure) -> Option<String> {
    let all = || figure.curves.iter();
    let (bottom, top) = range(all().flat_map(|c| c.points.iter().map(|p| p.1).chain(c.level)))?;
    // Wide enough for two lines of the grid, and so that noise does not look like a finding.
    let widen = (0.5 * (0.75 - (top - bottom))).max(0.0);
    let (bottom, top) = (bottom - widen, top + widen);
    let (left, right) =
        range(all().flat_map(|c| c.points.iter().map(|p| p.0))).unwrap_or((0.0, 1.0));
    let x = |v: f64| LEFT + (RIGHT - LEFT) * (v.log10() - left) / (right - left);
    let y = |v: f64| BOTTOM - (BOTTOM - TOP) * (v.log10() - bottom) / (top - bottom);
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&figure.title)
    );
    // Lines at 1, 2 and 5 of every power of ten; the powers alone where that is too many.
    let steps: &[f64] = if top - bottom > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    for power in bottom.floor() as i32..=top.ceil() as i32 {
        for step in steps {
            let v = step * 10f64.powi(power);
            if v.log10() < bottom || v.log10() > top {
                continue;
            }
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y(v) + 4.0,
                time(v),
                y = y(v)
            );
        }
    }
    let mut places: Vec<f64> = all().flat_map(|c| c.points.iter().map(|p| p.0)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places.iter().filter(|p| **p > 0.0) {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{place}</text>",
            BOTTOM + 18.0,
            x = x(*place)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 38.0,
        escape(&figure.axis)
    );
    for (i, curve) in figure.curves.iter().enumerate() {
        let dash = if i < COLOURS { "" } else { ";stroke-dasharray:6 4" };
        let style = format!("fill:none;stroke:var(--s{});stroke-width:2{dash}", i % COLOURS);
        let good = |v: &f64| v.is_finite() && *v > 0.0;
        let drawn: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter(|p| good(&p.0) && good(&p.1))
            .map(|p| (x(p.0), y(p.1)))
            .collect();
        let corners: Vec<String> = drawn.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(svg, "<polyline points=\"{}\" style=\"{style}\"/>", corners.join(" "));
        for (x, y) in drawn {
            let _ = write!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" style=\"fill:var(--s{})\"/>",
                i % COLOURS
            );
        }
        if let Some(level) = curve.level.filter(good) {
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" style=\"{style}\"/>",
                y = y(level)
            );
        }
        let row = TOP + 20.0 * i as f64 + 8.0;
        let _ = write!(
            svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{row:.1}\" y2=\"{row:.1}\" style=\"{style}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" style=\"fill:var(--ink)\">{}</text>",
            RIGHT + 16.0,
            RIGHT + 44.0,
            RIGHT + 52.0,
            row + 4.0,
            escape(&curve.name)
        );
    }
    svg += "</svg>";
    Some(svg)
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
        };
        let svg = plot(&figure).unwrap();
        assert!(svg.contains("a &lt; b") && svg.contains("x&amp;y") && svg.ends_with("</svg>"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(plot(&CurveFigure { curves: Vec::new(), ..figure }), None);
        assert_eq!([2.0, 0.001, 5e-5].map(time), ["2 s", "1 ms", "50 µs"]);
    }
}
