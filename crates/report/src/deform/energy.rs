//! The energy over the iterations of all scales, as SVG and as a table.

use super::{EnergyCurve, EnergyScale};
use crate::chart::{decimals_for, ticks};
use crate::html::{escape, fixed, number, seconds, thousands};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 946.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 284.0;
/// Energies over more than this factor are drawn on a logarithmic axis.
const SPAN: f64 = 20.0;
/// Most points that are drawn of one curve.
const POINTS: usize = 400;
/// Colours that there are in the style sheet.
const COLOURS: usize = 6;

/// The vertical axis.
struct Axis {
    logarithmic: bool,
    low: f64,
    high: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = values
            .filter(|v| v.is_finite())
            .fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        if low > high {
            return None;
        }
        let logarithmic = low > 0.0 && high / low > SPAN;
        let (low, high) = if logarithmic { (low.log10(), high.log10()) } else { (low, high) };
        let least = high.abs().max(low.abs()).max(1e-9) * 1e-3;
        let room = (high - low).max(least) * 0.06;
        Some(Self { logarithmic, low: low - room, high: high + room })
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.logarithmic { value.log10() } else { value };
        TOP + (self.high - value) / (self.high - self.low) * (BOTTOM - TOP)
    }

    /// Values with a line of the grid, and their names.
    fn marks(&self) -> Vec<(f64, String)> {
        if !self.logarithmic {
            let marks = ticks(self.low, self.high);
            let decimals = decimals_for(&marks);
            let name = |m: f64| if m.abs() < 1e6 { fixed(m, decimals) } else { number(m) };
            return marks.into_iter().map(|m| (m, name(m))).collect();
        }
        let decades = self.high - self.low;
        let steps: &[f64] = if decades > 4.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let every = ((decades / 8.0).ceil() as i32).max(1);
        (self.low.floor() as i32..=self.high.ceil() as i32)
            .filter(|p| p % every == 0)
            .flat_map(|p| steps.iter().map(move |s| s * 10f64.powi(p)))
            .filter(|v| v.log10() >= self.low && v.log10() <= self.high)
            .map(|v| (v, number(v)))
            .collect()
    }
}

/// Iterations of a scale.
fn iterations(scale: &EnergyScale) -> usize {
    let all = scale.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0));
    all.max().unwrap_or(0)
}

/// The names of curves, in the order in which they first come.
fn names<'a>(curves: impl Iterator<Item = &'a EnergyCurve>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for curve in curves {
        if !names.contains(&curve.name.as_str()) {
            names.push(&curve.name);
        }
    }
    names
}

/// What a chart is called; all is HTML.
pub(crate) struct Labels<'a> {
    /// The identifier of the SVG.
    pub(crate) id: &'a str,
    /// What the vertical axis is.
    pub(crate) axis: &'a str,
    /// What is shown, in a few words.
    pub(crate) what: &'a str,
    /// The one curve that is drawn, where not all are.
    pub(crate) only: Option<&'a str>,
}

impl Labels<'_> {
    fn draws(&self, curve: &EnergyCurve) -> bool {
        self.only.is_none_or(|name| curve.name == name)
    }
}

/// A chart of the energy.
pub(crate) const ENERGY: Labels<'_> =
    Labels { id: "svg-energy", axis: "energy", what: "Energy", only: None };

/// The chart; `None` where there is no energy to draw.
pub(crate) fn chart(scales: &[EnergyScale], labels: &Labels<'_>) -> Option<String> {
    let curves = || scales.iter().flat_map(|s| &s.curves).filter(|c| labels.draws(c));
    let axis = Axis::new(curves().flat_map(|c| c.points.iter().map(|p| p.1)))?;
    let names = names(curves());
    // Each scale begins where the one before ended.
    let lengths: Vec<f64> = scales.iter().map(|s| iterations(s).max(1) as f64).collect();
    let total: f64 = lengths.iter().sum();
    let x = |iteration: f64| LEFT + iteration / total * (RIGHT - LEFT);
    let middle = (TOP + BOTTOM) / 2.0;
    let kind = if axis.logarithmic { " (logarithmic)" } else { "" };
    let height = HEIGHT + if names.len() > 1 { 24.0 } else { 0.0 };
    let mut svg = format!(
        "<svg class=\"chart\" id=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{} over the iterations of all scales\">\
         <text class=\"label\" x=\"14\" y=\"{middle}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 14 {middle})\">{}{kind}</text>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">iterations, all \
         scales</text>",
        labels.id,
        labels.what,
        labels.axis,
        (LEFT + RIGHT) / 2.0,
        HEIGHT - 12.0
    );
    let mut start = 0.0;
    for (i, (scale, length)) in scales.iter().zip(&lengths).enumerate() {
        let (left, right) = (x(start), x(start + length));
        if i % 2 == 1 {
            let _ = write!(
                svg,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{:.1}\" \
                 height=\"{:.1}\"/>",
                right - left,
                BOTTOM - TOP
            );
        }
        let room = ((right - left) / 8.0) as usize;
        let name: String = scale.name.chars().take(room).collect();
        if room >= 3 || room >= scale.name.chars().count() {
            let time = seconds(scale.seconds);
            let _ = write!(
                svg,
                "<text class=\"name\" x=\"{:.1}\" y=\"18\" text-anchor=\"middle\">{}</text>",
                (left + right) / 2.0,
                escape(&name)
            );
            if room >= time.chars().count() {
                let _ = write!(
                    svg,
                    "<text class=\"tick\" x=\"{:.1}\" y=\"34\" text-anchor=\"middle\">{time}</text>",
                    (left + right) / 2.0
                );
            }
        }
        if i > 0 {
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{left:.1}\" y1=\"{:.1}\" \
                 y2=\"{BOTTOM}\" stroke-dasharray=\"4 3\"/>",
                TOP - 34.0
            );
        }
        start += length;
    }
    for (value, name) in axis.marks() {
        let y = axis.y(value);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for mark in ticks(0.0, total).into_iter().filter(|m| m.fract() == 0.0) {
        let _ = write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(mark),
            BOTTOM + 18.0,
            thousands(mark)
        );
    }
    let _ = write!(
        svg,
        "<rect class=\"panel\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>",
        RIGHT - LEFT,
        BOTTOM - TOP
    );
    let mut start = 0.0;
    for (scale, length) in scales.iter().zip(&lengths) {
        for curve in scale.curves.iter().filter(|c| labels.draws(c)) {
            let colour = names.iter().position(|n| *n == curve.name).unwrap_or(0) % COLOURS;
            let points: Vec<(f64, f64)> = thinned(&curve.points)
                .into_iter()
                .map(|(i, e)| (x(start + i as f64), axis.y(e)))
                .collect();
            let Some(first) = points.first() else { continue };
            let mut path = format!("M{:.1} {:.1}", first.0, first.1);
            for p in &points[1..] {
                let _ = write!(path, "L{:.1} {:.1}", p.0, p.1);
            }
            let title = escape(&format!("{}, {}", scale.name, curve.name));
            let _ = write!(
                svg,
                "<g class=\"stage s{colour}\"><title>{title}</title>\
                 <path class=\"curve\" d=\"{path}\"/>"
            );
            for p in [first, &points[points.len() - 1]] {
                let _ = write!(
                    svg,
                    "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                    p.0, p.1
                );
            }
            svg.push_str("</g>");
        }
        start += length;
    }
    if names.len() > 1 {
        let mut left = LEFT;
        for (i, name) in names.iter().enumerate() {
            let colour = i % COLOURS;
            let _ = write!(
                svg,
                "<g class=\"stage s{colour}\"><line x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{y}\" \
                 y2=\"{y}\" class=\"curve\"/></g><text x=\"{:.1}\" y=\"{}\">{}</text>",
                left + 26.0,
                left + 34.0,
                HEIGHT + 14.0,
                escape(name),
                y = HEIGHT + 10.0
            );
            left += 60.0 + 7.5 * name.chars().count() as f64;
        }
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// The finite points in order, at most some [`POINTS`] of them, with both ends.
fn thinned(points: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let mut out: Vec<_> = points.iter().copied().filter(|p| p.1.is_finite()).collect();
    out.sort_by_key(|p| p.0);
    let (step, last) = (out.len().div_ceil(POINTS).max(1), out.len().saturating_sub(1));
    let all = out.into_iter().enumerate();
    all.filter(|(i, _)| i % step == 0 || *i == last).map(|(_, p)| p).collect()
}

/// First and last value of each curve of each scale, one a row; `what` is the heading of the curves.
pub(crate) fn table(scales: &[EnergyScale], what: &str) -> String {
    let mut rows = Vec::new();
    for scale in scales {
        for (i, curve) in scale.curves.iter().enumerate() {
            let points = thinned(&curve.points);
            let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
            let once = |text: String| if i == 0 { text } else { String::new() };
            rows.push(vec![
                once(escape(&scale.name)),
                escape(&curve.name),
                once(thousands(iterations(scale) as f64)),
                number(first.1),
                number(last.1),
                once(seconds(scale.seconds)),
            ]);
        }
    }
    let head = ["Scale", what, "#Iterations", "#First", "#Last", "#Time"];
    crate::html::table("stages", &head, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(name: &str, curves: &[(&str, &[(usize, f64)])]) -> EnergyScale {
        let curve = |(name, points): &(&str, &[(usize, f64)])| EnergyCurve {
            name: (*name).to_owned(),
            points: points.to_vec(),
        };
        EnergyScale { name: name.into(), seconds: 0.5, curves: curves.iter().map(curve).collect() }
    }

    fn is_sound(svg: &str) {
        let lower = svg.to_lowercase();
        assert!(!lower.contains("nan") && !lower.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn scales_follow_each_other() {
        let scales = [
            scale("<8> mm", &[("total", &[(0, 9.0), (10, 5.0)]), ("a&b", &[(0, 8.0), (10, 4.0)])]),
            scale("4 mm", &[("total", &[(0, 6.0), (30, 4.5)])]),
        ];
        let svg = chart(&scales, &ENERGY).unwrap();
        is_sound(&svg);
        assert_eq!(svg.matches("<path class=\"curve\"").count(), 3);
        assert!(svg.contains("&lt;8&gt; mm") && svg.contains("a&amp;b"));
        assert!(!svg.contains("logarithmic"));
        // One curve alone keeps the lengths of the scales.
        let only = |name| chart(&scales, &Labels { only: Some(name), ..ENERGY });
        let one = only("a&b").unwrap();
        assert_eq!(one.matches("<path class=\"curve\"").count(), 1);
        let band = |svg: &str| svg.split("class=\"band\"").nth(1).map(|s| s[..30].to_owned());
        assert_eq!(band(&one), band(&svg));
        assert_eq!(only("none"), None);
        assert_eq!(table(&scales, "Energy").matches("<tr>").count(), 4);
    }

    #[test]
    fn large_spans_are_logarithmic_and_odd_ones_are_sound() {
        let wide = [scale("4 mm", &[("total", &[(0, 900.0), (10, 5.0), (20, 0.01)])])];
        assert!(chart(&wide, &ENERGY).unwrap().contains("logarithmic"));
        assert_eq!(chart(&[], &ENERGY), None);
        assert_eq!(chart(&[scale("x", &[("total", &[(1, f64::NAN)])])], &ENERGY), None);
        let odd: [&[(usize, f64)]; 6] = [
            &[(0, 0.0)],
            &[(5, -3.0), (5, -3.0)],
            &[(0, 1e300), (1, -1e300)],
            &[(0, f64::INFINITY), (1, 2.0)],
            &[(0, 1e-300), (7, 1e300)],
            &[],
        ];
        for points in odd {
            if let Some(svg) = chart(&[scale("s", &[("t", points)]), scale("", &[])], &ENERGY) {
                is_sound(&svg);
            }
        }
        let long: Vec<(usize, f64)> = (0..5001).map(|i| (i, 1.0 / (1 + i) as f64)).collect();
        let thin = thinned(&long);
        assert!(thin.len() <= POINTS + 1 && thin[thin.len() - 1].0 == 5000);
    }
}
