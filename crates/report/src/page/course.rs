//! The convergence of a registration: costs over evaluations, energies over iterations.

use super::html::{Columns, Section, figure, scroll};
use crate::draw::axis::ends;
use crate::draw::{Axis, Band, KeyPlace, Marks, Plot, Point, Scale, Series, Shape, beside};
use crate::page::deform::{EnergyCurve, EnergyScale};
use crate::text::{escape, number, seconds, thousands};
use voxalign_register::search::StageRecord;

/// The least range of the axis of a stage, as a fraction of the range of all stages together.
const LEAST_RANGE: f64 = 0.05;

/// The course of a search by a cost of this name; `flat` where images are of two dimensions.
pub(crate) fn search(
    stages: &[StageRecord],
    cost: Option<&serde_json::Value>,
    flat: bool,
) -> Section {
    let mut names: Vec<&str> = stages.iter().map(|s| &*s.cost).filter(|c| !c.is_empty()).collect();
    names.dedup();
    let cost = match (names.len() > 1, cost.and_then(|c| c.as_str())) {
        (true, _) => format!("cost ({})", names.join(", then ")),
        (false, Some(name)) => format!("cost ({name})"),
        (false, None) => "cost".to_owned(),
    };
    let or =
        |html: String, none: &str| if html.is_empty() { format!("<p>{none}</p>") } else { html };
    let chart = or(scroll(costs(stages, &cost)), "No cost was recorded.");
    let table = or(super::affine::stages::table(stages, flat), "There were no stages.");
    figure(
        "fig-cost",
        "Cost over evaluations",
        &(chart + &table),
        "the lowest cost so far of the winning candidate, stage by stage from coarse to fine. In a good search \
         each curve falls steeply at first and ends flat. Costs of different stages are computed at different \
         resolutions, so each has its own axis. A curve that still falls at the end of the last stage may not \
         have converged.",
    )
}

/// One stage as it is drawn: evaluations and lowest cost so far.
fn curve(stage: &StageRecord) -> Vec<Point> {
    let point = |x: f64, y: f64| {
        let words = format!("cost {} after {} evaluations", number(y), thousands(x));
        Point::at(x, y).titled(format!("{}: {words}", stage.name))
    };
    let finite = stage.trace.iter().filter(|p| p.cost.is_finite());
    let mut points: Vec<Point> = finite.map(|p| point(p.evaluation as f64, p.cost)).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let end = stage.evaluations as f64;
    match points.last() {
        None => points = vec![point(0.0, stage.cost_start), point(end, stage.cost_end)],
        Some(last) if last.x < end => points.push(point(end, last.y)),
        Some(_) => {}
    }
    points.retain(|p| p.y.is_finite());
    points
}

/// The chart of costs: a plot for each stage side by side, each with its own axis (costs of different
/// stages are taken at different resolutions). `None` where no stage has a cost to draw.
fn costs(stages: &[StageRecord], cost: &str) -> Option<String> {
    let curves: Vec<Vec<Point>> = stages.iter().map(curve).collect();
    let range = |points: &mut dyn Iterator<Item = &Point>| ends(points.map(|p| p.y));
    let [low, high] = range(&mut curves.iter().flatten())?;
    let least = ((high - low) * LEAST_RANGE).max(high.abs().max(low.abs()) * 1e-4).max(1e-12);
    let plot = |(i, (stage, points)): (usize, (&StageRecord, Vec<Point>))| {
        let evaluations = points.last().map_or(0.0, |p| p.x).max(stage.evaluations as f64).max(1.0);
        // The curve sits low in a range that is widened, so that a small gain looks small.
        let ends = range(&mut points.iter()).map(|[low, high]| {
            let high = high.max(low + least);
            [low - 0.06 * (high - low), high + 0.06 * (high - low)]
        });
        let name = format!(
            "{}: {} evaluations, cost {} to {}, {}",
            stage.name,
            thousands(stage.evaluations as f64),
            number(stage.cost_start),
            number(stage.cost_end),
            seconds(stage.seconds),
        );
        Plot {
            title: [stage.name.clone(), seconds(stage.seconds)],
            across: Axis {
                marks: Marks::At(vec![0.0, evaluations]),
                ..Axis::new("cost evaluations within each stage")
            },
            up: Axis { ends, ..Axis::new(format!("{cost} (lower is better)")) },
            series: vec![Series { shape: Shape::Steps, colour: i % 6, name, points }],
            ..Plot::default()
        }
    };
    let plots: Vec<Plot> = stages.iter().zip(curves).enumerate().map(plot).collect();
    let what = "Cost over evaluations, one panel for each stage";
    beside("svg-cost", what, &plots, [960.0, 320.0])
}

/// Iterations of a scale.
fn iterations(scale: &EnergyScale) -> usize {
    let all = scale.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0));
    all.max().unwrap_or(0)
}

/// The title of a chart of energies.
pub(crate) struct Labels<'a> {
    /// The identifier of the SVG.
    pub(crate) id: &'a str,
    /// The label of the vertical axis.
    pub(crate) axis: &'a str,
    /// Alternative text, in a few words.
    pub(crate) what: &'a str,
    /// The one curve that is drawn, where not all are.
    pub(crate) only: Option<&'a str>,
}

impl<'a> Labels<'a> {
    /// A chart of one curve alone, which is named as the axis is.
    pub(crate) const fn only(id: &'a str, what: &'a str, axis: &'a str) -> Self {
        Self { id, axis, what, only: Some(axis) }
    }
}

/// A chart of the energy.
pub(crate) const ENERGY: Labels<'_> =
    Labels { id: "svg-energy", axis: "energy", what: "Energy", only: None };

/// The chart of energies over the iterations of all scales, each of which begins where the previous one ended;
/// `None` where there is no energy to draw.
pub(crate) fn energies(scales: &[EnergyScale], labels: &Labels<'_>) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    let (mut bands, mut series) = (Vec::new(), Vec::new());
    let mut start = 0.0;
    for scale in scales {
        let end = start + iterations(scale).max(1) as f64;
        let (name, note) = (scale.name.clone(), seconds(scale.seconds));
        bands.push(Band { ends: [start, end], name, note });
        let drawn = |c: &&EnergyCurve| labels.only.is_none_or(|name| c.name == name);
        for curve in scale.curves.iter().filter(drawn) {
            let colour = names.iter().position(|n| *n == curve.name).unwrap_or_else(|| {
                names.push(&curve.name);
                names.len() - 1
            });
            let title = format!("{}, {}", scale.name, curve.name);
            let point = |&(x, y): &(usize, f64)| Point::at(start + x as f64, y).titled(&title);
            let points = curve.points.iter().map(point).collect();
            series.push(Series { shape: Shape::Course, colour, name: curve.name.clone(), points });
        }
        start = end;
    }
    let key = if names.len() > 1 { KeyPlace::Below } else { KeyPlace::Nowhere };
    let plot = Plot {
        id: labels.id.to_owned(),
        what: format!("{} over the iterations of all scales", labels.what),
        across: Axis { marks: Marks::Whole, ..Axis::new("iterations, all scales") },
        up: Axis { scale: Scale::BySpan, least: 1e-3, ..Axis::new(labels.axis) },
        size: [960.0, if names.len() > 1 { 364.0 } else { 340.0 }],
        bands,
        series,
        key,
        ..Plot::default()
    };
    plot.svg()
}

/// First and last value of each curve of each scale, one a row; `what` is the heading of the curves.
pub(crate) fn table(scales: &[EnergyScale], what: &str) -> String {
    let rows = scales.iter().flat_map(|scale| {
        let curves = scale.curves.iter().enumerate();
        curves.filter_map(move |(i, curve)| {
            let finite = || curve.points.iter().filter(|p| p.1.is_finite());
            let (first, last) = (finite().min_by_key(|p| p.0)?, finite().max_by_key(|p| p.0)?);
            Some((i == 0, scale, curve, [first.1, last.1]))
        })
    });
    let once = |new: bool, text: String| if new { text } else { String::new() };
    Columns::of(rows)
        .column("Scale", |&(new, scale, ..)| once(new, escape(&scale.name)))
        .column(what, |(_, _, curve, _)| escape(&curve.name))
        .column("#Iterations", |&(new, scale, ..)| once(new, thousands(iterations(scale) as f64)))
        .column("#First", |(.., ends)| number(ends[0]))
        .column("#Last", |(.., ends)| number(ends[1]))
        .column("#Time", |&(new, scale, ..)| once(new, seconds(scale.seconds)))
        .html("stages")
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_register::search::TracePoint;

    fn stage(name: &str, trace: &[(usize, f64)], start: f64, end: f64) -> StageRecord {
        StageRecord {
            name: name.into(),
            spacing: [8.0; 3],
            samples: 1000,
            cost: String::new(),
            bins: 16,
            dof: vec![6, 12],
            candidates: [8, 3],
            evaluations: 100,
            cost_start: start,
            cost_end: end,
            seconds: 0.1,
            trace: trace
                .iter()
                .map(|&(evaluation, cost)| TracePoint { evaluation, cost })
                .collect(),
        }
    }

    fn is_sound(svg: &str) {
        let lower = svg.to_lowercase();
        assert!(!lower.contains("nan") && !lower.contains("inf"), "{svg}");
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn a_panel_and_a_curve_for_each_stage() {
        let stages = [
            stage("8 mm", &[(1, 0.9), (20, 0.7), (90, 0.5)], 0.9, 0.5),
            stage("<4> mm", &[(1, 0.6), (50, 0.4)], 0.95, 0.4),
        ];
        let svg = costs(&stages, "cr & co").unwrap();
        is_sound(&svg);
        assert_eq!(svg.matches("class=\"curve\"").count(), 2);
        assert!(svg.contains("&lt;4&gt; mm") && svg.contains("cr &amp; co"));
    }

    #[test]
    fn odd_traces_draw_nothing_odd() {
        let odd = [
            stage("empty", &[], 0.5, 0.4),
            stage("void", &[(1, f64::NAN), (2, f64::INFINITY)], f64::NAN, f64::NAN),
            stage("flat", &[(0, 0.3), (0, 0.3)], 0.3, 0.3),
            StageRecord { evaluations: 0, ..stage("none", &[], f64::NAN, 0.2) },
            stage("far", &[(1, -1e9), (2, -2e9)], 0.0, 0.0),
        ];
        is_sound(&costs(&odd, "cost").unwrap());
        for one in &odd {
            if let Some(svg) = costs(std::slice::from_ref(one), "cost") {
                is_sound(&svg);
            } else {
                assert_eq!(one.name, "void");
            }
        }
        assert!(costs(&[], "cost").is_none());
    }

    fn scale(name: &str, curves: &[(&str, &[(usize, f64)])]) -> EnergyScale {
        let curve = |(name, points): &(&str, &[(usize, f64)])| EnergyCurve {
            name: (*name).to_owned(),
            points: points.to_vec(),
        };
        EnergyScale { name: name.into(), seconds: 0.5, curves: curves.iter().map(curve).collect() }
    }

    #[test]
    fn scales_follow_each_other() {
        let scales = [
            scale("<8> mm", &[("total", &[(0, 9.0), (10, 5.0)]), ("a&b", &[(0, 8.0), (10, 4.0)])]),
            scale("4 mm", &[("total", &[(0, 6.0), (30, 4.5)])]),
        ];
        let svg = energies(&scales, &ENERGY).unwrap();
        is_sound(&svg);
        assert_eq!(svg.matches("<path class=\"curve\"").count(), 3);
        assert!(svg.contains("&lt;8&gt; mm") && svg.contains("a&amp;b"));
        assert!(!svg.contains("logarithmic"));
        // One curve alone keeps the lengths of the scales.
        let only = |name| energies(&scales, &Labels { only: Some(name), ..ENERGY });
        let one = only("a&b").unwrap();
        assert_eq!(one.matches("<path class=\"curve\"").count(), 1);
        let band = |svg: &str| svg.split("class=\"band\"").nth(1).map(|s| s[..30].to_owned());
        assert_eq!(band(&one), band(&svg));
        assert_eq!(only("none"), None);
        assert_eq!(table(&scales, "Energy").matches("<tr>").count(), 4);
        let wide = [scale("4 mm", &[("total", &[(0, 900.0), (10, 5.0), (20, 0.01)])])];
        assert!(energies(&wide, &ENERGY).unwrap().contains("logarithmic"));
        assert_eq!(energies(&[], &ENERGY), None);
        assert_eq!(energies(&[scale("x", &[("total", &[(1, f64::NAN)])])], &ENERGY), None);
    }
}
