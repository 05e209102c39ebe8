//! The subjects of an atlas, as a table and as a chart.

use super::SubjectRecord;
use crate::draw::{Axis, KeyPlace, Marks, Plot, Point, Series, Shape};
use crate::page::html::{Columns, DASH};
use crate::page::words::outcome;
use crate::text::{escape, fixed, number, thousands};
use std::cmp::Ordering;
use std::collections::BTreeSet;

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
    let mut table = Columns::of(worst_first(subjects))
        .column("Subject", |s| escape(&s.name))
        .column("Verdict", |s| verdict(s))
        .column("#Weight", |s| number(s.weight));
    for key in keys {
        let value =
            |s: &&SubjectRecord| s.covariates.get(key).map_or(String::new(), |v| number(*v));
        table = table.column(format!("#{key}"), value);
    }
    let information = |s: &&SubjectRecord| match s.information {
        Some(nats) => fixed(nats[1], 2),
        None => DASH.to_owned(),
    };
    table
        .column("#Correlation before", |s| fixed(s.correlation[0], 4))
        .column("#Correlation after", |s| fixed(s.correlation[1], 4))
        .column("#Information within the tissue, nats", information)
        .column("#Mean displacement, mm", |s| fixed(s.measures.mean_displacement, 2))
        .column("#Largest, mm", |s| fixed(s.measures.largest_displacement, 2))
        .column("#Smallest Jacobian", |s| fixed(s.measures.smallest_jacobian, 3))
        .column("#Largest Jacobian", |s| fixed(s.measures.largest_jacobian, 2))
        .column("#Folded voxels", |s| thousands(s.measures.folded as f64))
        .long("subjects sortable")
}

/// A description of whether a subject can be used.
fn verdict(subject: &SubjectRecord) -> String {
    match (subject.verdict.good, subject.outlying) {
        (false, unlike) => {
            let summary = subject.verdict.summary();
            let why = summary.strip_prefix("bad:").map_or("", str::trim);
            let unlike = if unlike { "; unlike the others" } else { "" };
            format!("{} <small>{}{unlike}</small>", outcome(false, "", "bad"), escape(why))
        }
        (true, true) => "<span class=\"warn\">! unlike the others</span>".to_owned(),
        _ => outcome(true, "good", ""),
    }
}

/// A description of how many subjects are outlying or cannot be used.
pub(super) fn remarkable(subjects: &[SubjectRecord]) -> String {
    let bad = subjects.iter().filter(|s| !s.verdict.good).count();
    let unlike = subjects.iter().filter(|s| s.verdict.good && s.outlying).count();
    match (bad, unlike) {
        (0, 0) => "all usable".to_owned(),
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
    let series = |shape, colour, name: &str, of: &dyn Fn(&SubjectRecord) -> Option<[f64; 2]>| {
        let points = sorted.iter().enumerate().filter_map(|(i, s)| {
            let ([before, after], [y, end]) = (s.correlation, of(s)?);
            let title =
                format!("{}: {} before, {} after", s.name, fixed(before, 4), fixed(after, 4));
            Some(Point { x: i as f64, y, spread: end - y, title })
        });
        Series { shape, colour, name: name.to_owned(), points: points.collect() }
    };
    let marked = |s: &SubjectRecord| s.outlying || !s.verdict.good;
    let after = |s: &SubjectRecord, wanted| (marked(s) == wanted).then_some([s.correlation[1]; 2]);
    let plot = Plot {
        id: "svg-subjects".to_owned(),
        what: "Correlation of each subject before and after".to_owned(),
        across: Axis {
            marks: Marks::None,
            ..Axis::new("subjects, by their correlation with the others")
        },
        up: Axis::new("correlation"),
        size: [960.0, 314.0],
        series: vec![
            series(Shape::Stems, 0, "", &|s| Some(s.correlation)),
            series(Shape::Spots, 1, "with the mean after affine alignment", &|s| {
                Some([s.correlation[0]; 2])
            }),
            series(Shape::Spots, 0, "with the atlas, as deformed", &|s| after(s, false)),
            series(Shape::Spots, 4, "of subjects to inspect", &|s| after(s, true)),
        ],
        key: KeyPlace::Below,
        ..Plot::default()
    };
    plot.svg()
}
