//! Plots with plain axes: points, curves, and means with their spread.

use crate::chart::{decimals_for, ticks};
use crate::html::{escape, fixed, number, thousands};
use std::fmt::Write as _;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A line through all points.
    Curve,
    /// Small dots.
    Dots,
    /// Diamonds, larger than dots.
    Diamonds,
    /// A line with dots and bars of the spread.
    Means,
}

/// What belongs together in a plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Series {
    pub(crate) shape: Shape,
    /// Number of its colour in the style sheet.
    pub(crate) colour: usize,
    pub(crate) points: Vec<Point>,
}

/// A point of a plot.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Half the length of its bar.
    pub(crate) spread: f64,
    /// What it is, for those that point at it.
    pub(crate) title: String,
}

/// A plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plot {
    /// Above it, where it is not empty, and for those that cannot see it.
    pub(crate) title: String,
    pub(crate) across: String,
    pub(crate) up: String,
    /// Width and height.
    pub(crate) size: [f64; 2],
    /// Places of marks on the axis across; round numbers where there are none.
    pub(crate) places: Vec<f64>,
    pub(crate) series: Vec<Series>,
}

const LEFT: f64 = 82.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;
/// How far the bars of one series are beside those of the next.
const ASIDE: f64 = 8.0;

/// The range of some numbers with room around them; none without any.
fn range(values: impl Iterator<Item = f64>, room: f64) -> Option<[f64; 2]> {
    let finite = values.filter(|v| v.is_finite());
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return None;
    }
    let width = (high - low).max(1e-6 * high.abs().max(low.abs())).max(1e-12);
    Some([low - room * width, high + room * width])
}

/// Numbers beside an axis, with the same decimals.
fn mark(value: f64, decimals: usize) -> String {
    match value.abs() {
        v if v >= 1e7 => number(value),
        v if v >= 1e4 && decimals == 0 => thousands(value),
        _ => fixed(value, decimals),
    }
}

impl Plot {
    /// The plot as SVG; none where no point can be drawn.
    pub(crate) fn svg(&self) -> Option<String> {
        let all = || self.series.iter().flat_map(|s| &s.points).filter(|p| p.y.is_finite());
        let [left, right] = range(all().map(|p| p.x).chain(self.places.iter().copied()), 0.03)?;
        let spread = |p: &Point| if p.spread.is_finite() { p.spread } else { 0.0 };
        let [low, high] = range(all().flat_map(|p| [p.y - spread(p), p.y + spread(p)]), 0.08)?;
        let [width, height] = self.size;
        let (end, floor) = (width - RIGHT, height - BOTTOM);
        let x = |v: f64| LEFT + (end - LEFT) * (v - left) / (right - left);
        let y = |v: f64| floor - (floor - TOP) * (v - low) / (high - low);
        let (centre, middle) = ((LEFT + end) / 2.0, (TOP + floor) / 2.0);
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{title}\"><text class=\"name\" x=\"{centre:.1}\" y=\"18\" \
             text-anchor=\"middle\">{title}</text>\
             <rect class=\"panel\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
             <text class=\"label\" x=\"{centre:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"label\" x=\"14\" y=\"{middle:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {middle:.1})\">{}</text>",
            end - LEFT,
            floor - TOP,
            height - 8.0,
            escape(&self.across),
            escape(&self.up),
            title = escape(&self.title),
        );
        let marks = ticks(low, high);
        let decimals = decimals_for(&marks);
        for value in marks {
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y(value) + 4.0,
                mark(value, decimals),
                y = y(value)
            );
        }
        let round = ticks(left, right);
        let places = if self.places.is_empty() { &round } else { &self.places };
        // Places that were given have the decimals they need.
        let decimals = if self.places.is_empty() { Some(decimals_for(places)) } else { None };
        for &value in places {
            let text = decimals.map_or_else(|| number(value), |d| mark(value, d));
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{floor:.1}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
                floor + 17.0,
                x = x(value)
            );
        }
        let means = self.series.iter().filter(|s| s.shape == Shape::Means).count();
        let mut drawn = 0;
        for series in &self.series {
            // Bars are beside each other.
            let mut aside = 0.0;
            if series.shape == Shape::Means {
                aside = ASIDE * (f64::from(drawn) - 0.5 * (means as f64 - 1.0));
                drawn += 1;
            }
            let x = |v: f64| x(v) + aside;
            let points = || series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite());
            let colour = format!("var(--s{})", series.colour);
            if matches!(series.shape, Shape::Curve | Shape::Means) {
                let corners: Vec<String> =
                    points().map(|p| format!("{:.1},{:.1}", x(p.x), y(p.y))).collect();
                let _ = write!(
                    svg,
                    "<polyline class=\"curve\" points=\"{}\" style=\"stroke:{colour}\"/>",
                    corners.join(" ")
                );
            }
            for p in points().filter(|_| series.shape != Shape::Curve) {
                let (px, py) = (x(p.x), y(p.y));
                let reach = spread(p);
                if series.shape == Shape::Means && reach > 0.0 {
                    let (top, bottom) = (y(p.y + reach), y(p.y - reach));
                    let (a, b) = (px - 3.5, px + 3.5);
                    let _ = write!(
                        svg,
                        "<path class=\"bars\" style=\"stroke:{colour};fill:none\" \
                         d=\"M{px:.1} {top:.1}V{bottom:.1}M{a:.1} {top:.1}H{b:.1}M{a:.1} {bottom:.1}H{b:.1}\"/>"
                    );
                }
                let title = escape(&p.title);
                if series.shape == Shape::Diamonds {
                    let _ = write!(
                        svg,
                        "<path d=\"M{px:.1} {:.1}l6 6l-6 6l-6 -6z\" \
                         style=\"fill:{colour};stroke:var(--panel)\"><title>{title}</title></path>",
                        py - 6.0
                    );
                } else {
                    let faint = if series.shape == Shape::Dots { ";fill-opacity:.55" } else { "" };
                    let _ = write!(
                        svg,
                        "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"3.5\" style=\"fill:{colour}{faint}\">\
                         <title>{title}</title></circle>"
                    );
                }
            }
        }
        Some(svg + "</svg>")
    }
}

/// The key of series: colour, shape and what each is.
pub(crate) fn key(series: &[(Shape, usize, &str)]) -> String {
    let mut out = "<div class=\"key\">".to_owned();
    for (shape, colour, name) in series {
        let line = matches!(shape, Shape::Curve | Shape::Means);
        let style = match shape {
            Shape::Dots => "width:8px;height:8px;border-radius:50%;opacity:.55",
            Shape::Diamonds => "width:9px;height:9px;border-radius:0;transform:rotate(45deg)",
            _ if line => "",
            _ => "width:8px",
        };
        let _ = write!(
            out,
            "<span><span class=\"line\" style=\"background:var(--s{colour});vertical-align:middle;{style}\">\
             </span>&nbsp; {}</span>",
            escape(name)
        );
    }
    out + "</div>"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(series: Vec<Series>, places: Vec<f64>) -> Plot {
        let [title, across, up] = ["a < b", "age & more", "mm³"].map(str::to_owned);
        Plot { title, across, up, size: [470.0, 260.0], places, series }
    }

    fn point(x: f64, y: f64, spread: f64) -> Point {
        Point { x, y, spread, title: "<it>".to_owned() }
    }

    #[test]
    fn plots_are_whole_and_escaped() {
        let points =
            vec![point(60.0, 1e4, 50.0), point(70.0, 2e4, f64::NAN), point(80.0, f64::NAN, 0.0)];
        for shape in [Shape::Curve, Shape::Dots, Shape::Diamonds, Shape::Means] {
            let series = Series { shape, colour: 1, points: points.clone() };
            let svg = plot(vec![series], Vec::new()).svg().unwrap();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(!svg.contains("<it>") && svg.contains("age &amp; more"));
            let drawn = svg.matches("<circle").count() + svg.matches("l6 6").count();
            assert_eq!(drawn, if shape == Shape::Curve { 0 } else { 2 });
            assert_eq!(svg.matches("class=\"bars\"").count(), usize::from(shape == Shape::Means));
        }
    }

    #[test]
    fn places_are_in_proportion() {
        let points = vec![point(0.0, 1.0, 0.0), point(5.0, 2.0, 0.0), point(10.0, 3.0, 0.0)];
        let series = Series { shape: Shape::Dots, colour: 0, points };
        let svg = plot(vec![series], vec![0.0, 5.0, 10.0]).svg().unwrap();
        let numbers = |name: &str| -> Vec<f64> {
            let parts = svg.split("<circle cx=\"").skip(1);
            let of = |part: &str| {
                let text = if name == "cx" { part } else { part.split("cy=\"").nth(1).unwrap() };
                text.split('"').next().unwrap().parse().unwrap()
            };
            parts.map(of).collect()
        };
        for name in ["cx", "cy"] {
            let found = numbers(name);
            assert!((found[1] - (found[0] + found[2]) / 2.0).abs() < 0.11, "{found:?}");
            assert!((found[0] > found[2]) == (name == "cy"), "{found:?}");
        }
    }

    #[test]
    fn what_has_no_range_is_drawn_all_the_same() {
        let one = Series { shape: Shape::Means, colour: 0, points: vec![point(3.0, 0.0, 0.0)] };
        assert!(plot(vec![one], Vec::new()).svg().unwrap().contains("<circle"));
        let none =
            Series { shape: Shape::Dots, colour: 0, points: vec![point(3.0, f64::NAN, 0.0)] };
        assert_eq!(plot(vec![none], Vec::new()).svg(), None);
        assert_eq!(plot(Vec::new(), vec![1.0]).svg(), None);
    }
}
