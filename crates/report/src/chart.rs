//! The cost over evaluations as SVG.

use crate::html::{escape, fixed, number, seconds, thousands};
use std::fmt::Write as _;
use voxalign_register::search::StageRecord;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 84.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;
/// Room between the panels of two stages, with the numbers of the right one's axis.
const GAP: f64 = 64.0;
/// The least range of a panel's axis, as part of the range of all stages together.
const LEAST_RANGE: f64 = 0.05;
/// Most points that are drawn of one curve.
const POINTS: usize = 400;
/// Colours that there are in the style sheet (`--s0`, `--s1`, ...).
const COLOURS: usize = 6;

/// One stage as it is drawn: evaluations and lowest cost so far.
fn curve(stage: &StageRecord) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = stage
        .trace
        .iter()
        .filter(|p| p.cost.is_finite())
        .map(|p| (p.evaluation as f64, p.cost))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ends = [(0.0, stage.cost_start), (stage.evaluations as f64, stage.cost_end)];
    if points.is_empty() {
        points.extend(ends.into_iter().filter(|p| p.1.is_finite()));
    } else if let Some(&(x, y)) = points.last()
        && x < ends[1].0
    {
        points.push((ends[1].0, y));
    }
    if points.len() > POINTS {
        let step = points.len().div_ceil(POINTS);
        let last = points.len() - 1;
        let mut i = 0;
        points.retain(|_| {
            i += 1;
            (i - 1) % step == 0 || i - 1 == last
        });
    }
    points
}

/// Round numbers that span a range, some five of them.
pub(crate) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 4.0;
    let size = 10f64.powf(raw.log10().floor());
    if !(size.is_finite() && size > 0.0) {
        return vec![low];
    }
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * size)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(raw);
    let first = (low / step).ceil();
    (0..12)
        .map(|i| (first + f64::from(i)) * step)
        .take_while(|t| *t <= high + step * 1e-6)
        .collect()
}

/// The chart: a panel for each stage side by side, each with its own axis of costs (costs of
/// different stages are taken at different resolutions). `None` where no stage has a cost to draw.
pub(crate) fn costs(stages: &[StageRecord], cost: &str) -> Option<String> {
    let curves: Vec<_> = stages.iter().map(curve).collect();
    let (low, high) = range(curves.iter().flatten())?;
    let least = ((high - low) * LEAST_RANGE).max(high.abs().max(low.abs()) * 1e-4).max(1e-12);
    let panel = (WIDTH - LEFT + GAP) / stages.len() as f64 - GAP;
    let panel = panel.max(GAP / 2.0);
    let width = LEFT + stages.len() as f64 * (panel + GAP) - GAP + 4.0;
    let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
    let mut svg = format!(
        "<svg class=\"chart\" id=\"svg-cost\" viewBox=\"0 0 {width:.0} {HEIGHT}\" role=\"img\" \
         aria-label=\"Cost over evaluations, one panel for each stage\">\
         <text class=\"label\" x=\"14\" y=\"{middle}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 14 {middle})\">{} (lower is better)</text>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">\
         cost evaluations within each stage</text>",
        escape(cost),
        (LEFT + width) / 2.0,
        HEIGHT - 8.0
    );
    for (i, (stage, points)) in stages.iter().zip(&curves).enumerate() {
        let left = LEFT + i as f64 * (panel + GAP);
        let _ = write!(
            svg,
            "<g class=\"stage s{}\"><title>{}: {} evaluations, cost {} to {}, {}</title>",
            i % COLOURS,
            escape(&stage.name),
            thousands(stage.evaluations as f64),
            number(stage.cost_start),
            number(stage.cost_end),
            seconds(stage.seconds),
        );
        draw_panel(&mut svg, stage, points, least, (left, panel));
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Some(svg)
}

/// Lowest and highest cost.
fn range<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> Option<(f64, f64)> {
    points.fold(None, |range, &(_, cost)| match range {
        None => Some((cost, cost)),
        Some((low, high)) => Some((cost.min(low), cost.max(high))),
    })
}

/// One stage's panel with its axes and its curve.
fn draw_panel(
    svg: &mut String,
    stage: &StageRecord,
    points: &[(f64, f64)],
    least: f64,
    (left, width): (f64, f64),
) {
    let bottom = HEIGHT - BOTTOM;
    let centre = left + width / 2.0;
    let evaluations = points.last().map_or(0.0, |p| p.0).max(stage.evaluations as f64).max(1.0);
    let room = ((width + GAP) / 8.5) as usize;
    let name: String = stage.name.chars().take(room.max(3)).collect();
    let _ = write!(
        svg,
        "<rect class=\"panel\" x=\"{left:.1}\" y=\"{TOP}\" width=\"{width:.1}\" \
         height=\"{:.1}\"/>\
         <text class=\"name\" x=\"{centre:.1}\" y=\"18\" text-anchor=\"middle\">{}</text>\
         <text class=\"tick\" x=\"{centre:.1}\" y=\"34\" text-anchor=\"middle\">{}</text>\
         <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">0</text>\
         <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
        bottom - TOP,
        escape(&name),
        seconds(stage.seconds),
        left,
        bottom + 16.0,
        left + width,
        bottom + 16.0,
        thousands(evaluations),
    );
    let (Some((low, high)), Some(first), Some(end)) =
        (range(points.iter()), points.first(), points.last())
    else {
        return;
    };
    // The curve sits low in a range that is widened, so that a small gain looks small.
    let high = high.max(low + least);
    let margin = (high - low) * 0.06;
    let (low, high) = (low - margin, high + margin);
    let y_of = |cost: f64| TOP + (high - cost) / (high - low) * (bottom - TOP);
    let x_of = |evaluation: f64| left + 5.0 + evaluation / evaluations * (width - 10.0).max(1.0);
    let marks = ticks(low, high);
    let decimals = decimals_for(&marks);
    for mark in &marks {
        let y = y_of(*mark);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left + width,
            left - 6.0,
            y + 4.0,
            if mark.abs() < 1e6 { fixed(*mark, decimals) } else { number(*mark) }
        );
    }
    let mut path = format!("M{:.1} {:.1}", x_of(first.0), y_of(first.1));
    for point in &points[1..] {
        let _ = write!(path, "H{:.1}V{:.1}", x_of(point.0), y_of(point.1));
    }
    let _ = write!(svg, "<path class=\"curve\" d=\"{path}\"/>");
    for (what, point) in [("first", first), ("last", end)] {
        let _ = write!(
            svg,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\">\
             <title>{}, {what}: cost {} after {} evaluations</title></circle>",
            x_of(point.0),
            y_of(point.1),
            escape(&stage.name),
            number(point.1),
            thousands(point.0)
        );
    }
}

/// How many decimals tell neighbouring ticks apart.
pub(crate) fn decimals_for(marks: &[f64]) -> usize {
    let step = marks.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
    if !step.is_finite() || step <= 0.0 {
        return 4;
    }
    (0..8usize)
        .find(|d| {
            let scaled = step * 10f64.powi(*d as i32);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0) && scaled.round() >= 1.0
        })
        .unwrap_or(8)
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

    #[test]
    fn long_traces_are_thinned_but_keep_their_ends() {
        let trace: Vec<_> = (0..5001).map(|i| (i, 1.0 / (i + 1) as f64)).collect();
        let points = curve(&stage("long", &trace, 1.0, 0.0));
        assert!(points.len() <= POINTS + 1);
        assert_eq!((points[0].0, points[points.len() - 1].0), (0.0, 5000.0));
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let marks = ticks(0.113, 0.871);
        assert!(marks.len() >= 3 && marks.iter().all(|t| (0.113..=0.8711).contains(t)));
        assert_eq!(decimals_for(&marks), 1);
        assert_eq!(decimals_for(&ticks(0.12, 0.13)), 4);
        assert_eq!(ticks(1.0, 1.0), vec![1.0]);
    }
}
