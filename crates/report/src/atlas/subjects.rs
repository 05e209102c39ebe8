//! The subjects of an atlas, as a table and as a chart.

use super::SubjectRecord;
use crate::chart::{decimals_for, ticks};
use crate::html::{self, escape, fixed, number, table, thousands};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 946.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 250.0;
/// The radius of a dot, pixels: with few subjects, and with many.
const RADII: [f64; 2] = [4.0, 1.8];

/// The subjects in the order of the page: those that cannot be used first, then those unlike the
/// others, then by their correlation with those, the lowest first.
pub(super) fn worst_first(subjects: &[SubjectRecord]) -> Vec<&SubjectRecord> {
    let mut sorted: Vec<&SubjectRecord> = subjects.iter().collect();
    let rank = |s: &SubjectRecord| if !s.verdict.good { 0 } else { 2 - i32::from(s.outlying) };
    sorted.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| lower(a, b)));
    sorted
}

/// By the correlation with the others; what is not a number is the lowest.
fn lower(a: &SubjectRecord, b: &SubjectRecord) -> Ordering {
    let [a, b] = [a, b].map(|s| s.correlation[1]);
    b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(&b))
}

/// The table, worst first.
pub(super) fn rows(subjects: &[SubjectRecord]) -> String {
    let keys: BTreeSet<&String> = subjects.iter().flat_map(|s| s.covariates.keys()).collect();
    let columns: Vec<String> = keys.iter().map(|k| format!("#{k}")).collect();
    let mut headings = vec!["Subject", "Verdict", "#Weight"];
    headings.extend(columns.iter().map(String::as_str));
    headings.extend([
        "#Correlation before",
        "#Correlation after",
        "#Information within the tissue, nats",
        "#Mean displacement, mm",
        "#Largest, mm",
        "#Smallest Jacobian",
        "#Largest Jacobian",
        "#Folded voxels",
    ]);
    let row = |s: &SubjectRecord| {
        let m = &s.measures;
        let mut cells = vec![escape(&s.name), verdict(s), number(s.weight)];
        let value = |key: &String| s.covariates.get(key).map_or(String::new(), |v| number(*v));
        cells.extend(keys.iter().map(|k| value(k)));
        cells.extend([
            fixed(s.correlation[0], 4),
            fixed(s.correlation[1], 4),
            s.information.map_or_else(|| "\u{2013}".to_owned(), |nats| fixed(nats[1], 2)),
            fixed(m.mean_displacement, 2),
            fixed(m.largest_displacement, 2),
            fixed(m.smallest_jacobian, 3),
            fixed(m.largest_jacobian, 2),
            thousands(m.folded as f64),
        ]);
        cells
    };
    let rows: Vec<Vec<String>> = worst_first(subjects).into_iter().map(row).collect();
    html::long(table("subjects sortable", &headings, &rows), &rows)
}

/// Whether a subject can be used, in words.
fn verdict(subject: &SubjectRecord) -> String {
    match (subject.verdict.good, subject.outlying) {
        (false, unlike) => {
            let summary = subject.verdict.summary();
            let why = summary.strip_prefix("bad:").map_or("", str::trim);
            let unlike = if unlike { "; unlike the others" } else { "" };
            format!(
                "<span class=\"fail\">\u{2717} bad</span> <small>{}{unlike}</small>",
                escape(why)
            )
        }
        (true, true) => "<span class=\"warn\">! unlike the others</span>".to_owned(),
        _ => "<span class=\"pass\">\u{2713} good</span>".to_owned(),
    }
}

/// How many subjects are outlying or cannot be used, in words.
pub(super) fn remarkable(subjects: &[SubjectRecord]) -> String {
    let bad = subjects.iter().filter(|s| !s.verdict.good).count();
    let unlike = subjects.iter().filter(|s| s.verdict.good && s.outlying).count();
    match (bad, unlike) {
        (0, 0) => "all can be used".to_owned(),
        (0, n) => format!("{n} unlike the others"),
        (n, 0) => format!("{n} cannot be used"),
        (n, m) => format!("{n} cannot be used, {m} unlike the others"),
    }
}

/// The correlations of the subjects before and after, the lowest on the left; none where there is no
/// number.
pub(super) fn chart(subjects: &[SubjectRecord]) -> Option<String> {
    let mut sorted: Vec<&SubjectRecord> =
        subjects.iter().filter(|s| s.correlation[1].is_finite()).collect();
    sorted.sort_by(|a, b| lower(a, b));
    let all = || sorted.iter().flat_map(|s| s.correlation).filter(|c| c.is_finite());
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return None;
    }
    let room = ((high - low) * 0.08).max(0.005);
    let (low, high) = (low - room, (high + room).min(high.max(1.0)));
    let step = (RIGHT - LEFT) / sorted.len() as f64;
    let y = |v: f64| TOP + (high - v) / (high - low) * (BOTTOM - TOP);
    let radius = (step / 3.0).clamp(RADII[1], RADII[0]);
    let middle = (TOP + BOTTOM) / 2.0;
    let mut svg = format!(
        "<svg class=\"chart\" id=\"svg-subjects\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Correlation of each subject before and after\">\
         <text class=\"label\" x=\"14\" y=\"{middle}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 14 {middle})\">correlation</text>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">subjects, by their \
         correlation with the others</text>\
         <g class=\"stage s1\"><circle class=\"dot\" cx=\"{LEFT}\" cy=\"12\" r=\"4\"/></g>\
         <text x=\"{:.1}\" y=\"16\">with the mean after affine alignment</text>\
         <g class=\"stage s0\"><circle class=\"dot\" cx=\"{:.1}\" cy=\"12\" r=\"4\"/></g>\
         <text x=\"{:.1}\" y=\"16\">with the atlas, as deformed</text>",
        (LEFT + RIGHT) / 2.0,
        HEIGHT - 12.0,
        LEFT + 10.0,
        LEFT + 230.0,
        LEFT + 240.0,
    );
    let marks = ticks(low, high);
    let decimals = decimals_for(&marks);
    for mark in marks {
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y(mark) + 4.0,
            fixed(mark, decimals),
            y = y(mark),
        );
    }
    for (i, subject) in sorted.iter().enumerate() {
        let x = LEFT + (i as f64 + 0.5) * step;
        let [before, after] = subject.correlation;
        let _ = write!(
            svg,
            "<g><title>{}: {} before, {} after</title>",
            escape(&subject.name),
            fixed(before, 4),
            fixed(after, 4)
        );
        if before.is_finite() {
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\
                 <g class=\"stage s1\"><circle class=\"dot\" cx=\"{x:.1}\" cy=\"{:.1}\" \
                 r=\"{radius:.1}\"/></g>",
                y(before),
                y(after),
                y(before)
            );
        }
        let marked = subject.outlying || !subject.verdict.good;
        let colour = if marked { " style=\"fill:var(--bad)\"" } else { "" };
        let _ = write!(
            svg,
            "<g class=\"stage s0\"><circle class=\"dot\" cx=\"{x:.1}\" cy=\"{:.1}\" \
             r=\"{:.1}\"{colour}/></g></g>",
            y(after),
            if marked { radius.max(3.0) } else { radius }
        );
    }
    let _ = write!(
        svg,
        "<rect class=\"panel\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/></svg>",
        RIGHT - LEFT,
        BOTTOM - TOP
    );
    Some(svg)
}
