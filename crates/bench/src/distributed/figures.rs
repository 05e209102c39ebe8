//! The plots: figures 3 to 7 of the paper.

use super::results::{Results, Row};
use voxalign_report::curves::{Curve, CurveFigure, Up};

/// All plots.
pub(super) fn all(results: &Results) -> Vec<CurveFigure> {
    let several = || results.ranks.iter().copied().filter(|n| *n > 1);
    let mut figures = vec![baseline(results)];
    figures.extend(several().map(|n| {
        let shown = |r: &Row| r.usual && (r.strategy == "halo" || r.strategy == "replicate");
        times(results, n, "Figure 4: reads of host memory, by halo", &shown)
    }));
    figures.extend(several().flat_map(|n| accesses(results, n)));
    figures.extend(several().map(|n| {
        let shown = |r: &Row| r.strategy == "list";
        times(results, n, "Figure 6: variants of the list", &shown)
    }));
    figures.extend(several().map(|n| {
        let mut seen = Vec::new();
        // The first halo is the usual one.
        for rows in results.variants().filter(|rows| rows[0].ranks == n && rows[0].usual) {
            if !seen.iter().any(|(s, w, _)| (*s, *w) == (rows[0].strategy, rows[0].window)) {
                seen.push((rows[0].strategy, rows[0].window, rows[0].variant.clone()));
            }
        }
        let shown = |r: &Row| seen.iter().any(|(.., name)| *name == r.variant);
        times(results, n, "Figure 7: all strategies", &shown)
    }));
    figures.extend(several().filter_map(|n| shares(results, n)));
    figures.retain(|f| f.curves.iter().any(|c| c.points.len() > 1));
    figures
}

const AXIS: &str = "angle, degrees";

/// A curve over the angle.
fn curve(rows: &[Row], name: String, of: &dyn Fn(&Row) -> Option<f64>) -> Curve {
    let points = rows.iter().filter_map(|r| Some((r.degrees, of(r)?))).collect();
    Curve { name, points, level: None }
}

fn seconds(row: &Row) -> Option<f64> {
    Some(1e-3 * row.milliseconds)
}

fn baseline(results: &Results) -> CurveFigure {
    let of = results.variants().filter(|rows| rows[0].strategy == "replicate");
    let name = |rows: &[Row]| format!("{}, ranks: {}", rows[0].variant, rows[0].ranks);
    CurveFigure {
        title: "Figure 3: the baseline, whole moving images on every device".into(),
        axis: AXIS.into(),
        curves: of.map(|rows| curve(rows, name(rows), &seconds)).collect(),
        up: Up::TimesInProportion,
    }
}

/// Times of some variants with some ranks.
fn times(
    results: &Results,
    ranks: usize,
    title: &str,
    shown: &dyn Fn(&Row) -> bool,
) -> CurveFigure {
    let of = results.variants().filter(|rows| rows[0].ranks == ranks && shown(&rows[0]));
    CurveFigure {
        title: format!("{title}, ranks: {ranks}"),
        axis: AXIS.into(),
        curves: of.map(|rows| curve(rows, rows[0].variant.clone(), &seconds)).collect(),
        up: Up::TimesInProportion,
    }
}

/// Time and transactions of the usual halo, all and those of the host's memory.
fn accesses(results: &Results, ranks: usize) -> Vec<CurveFigure> {
    let is_halo = |rows: &&[Row]| rows[0].ranks == ranks && rows[0].strategy == "halo";
    let Some(first) = results.variants().find(is_halo) else { return Vec::new() };
    let sides = results.variants().filter(|rows| rows[0].ranks == ranks).filter(|rows| {
        let with = |name: &str| rows[0].variant.starts_with(name);
        rows[0].strategy == "halo"
            && (rows[0].variant == first[0].variant || with(&format!("{},", first[0].variant)))
    });
    let sides: Vec<&[Row]> = sides.collect();
    let all = |r: &Row| Some(r.transactions as f64);
    let remote = |r: &Row| Some(r.remote_transactions as f64);
    let mut curves = Vec::new();
    for rows in &sides {
        let side = &rows[0].pixels_per_thread;
        curves.push(curve(rows, format!("all, {side} per thread"), &all));
        curves.push(curve(rows, format!("host, {side} per thread"), &remote));
    }
    let time = |rows: &&[Row]| curve(rows, rows[0].variant.clone(), &seconds);
    vec![
        CurveFigure {
            title: format!("Figure 5: time with reads of host memory, ranks: {ranks}"),
            axis: AXIS.into(),
            curves: sides.iter().map(time).collect(),
            up: Up::TimesInProportion,
        },
        CurveFigure {
            title: format!("Figure 5: memory transactions of the kernels, ranks: {ranks}"),
            axis: AXIS.into(),
            curves,
            up: Up::Numbers("transactions".into()),
        },
    ]
}

/// The part of remote samples, and the formula.
fn shares(results: &Results, ranks: usize) -> Option<CurveFigure> {
    let of = |rows: &&[Row]| rows[0].ranks == ranks && rows[0].usual;
    let shared = |rows: &&[Row]| of(rows) && rows[0].remote_share.is_some();
    results.variants().find(shared)?;
    let mut curves: Vec<_> = results
        .variants()
        .filter(shared)
        .map(|rows| curve(rows, rows[0].variant.clone(), &|r| r.remote_share))
        .collect();
    let known = |rows: &&[Row]| shared(rows) && rows[0].expected_share.is_some();
    if let Some(rows) = results.variants().find(known) {
        curves.push(curve(rows, "formula".into(), &|r| r.expected_share));
    }
    Some(CurveFigure {
        title: format!("Samples whose pixels another rank has, ranks: {ranks}"),
        axis: AXIS.into(),
        curves,
        up: Up::Numbers("share".into()),
    })
}
