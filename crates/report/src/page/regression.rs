//! The page of a kernel regression along a covariate.

pub use crate::record::regression::*;

use super::html::{Columns, DASH, Section, figure, note, panel, percent, section};
use super::{Page, words};
use crate::draw::axis::ends;
use crate::draw::slices::{self, MiddleSlices};
use crate::draw::{Axis, Key, Plot, Point, Series, Shape};
use crate::error::Result;
use crate::record::labels::chosen;
use crate::record::{Figure, When};
use crate::text::{escape, fixed, number, sentence};

/// The content of the page.
#[derive(Debug, Clone, Copy)]
pub struct RegressionReport<'a> {
    /// The record.
    pub record: &'a RegressionRecord,
    /// The atlases, in the order of the record.
    pub atlases: &'a [MiddleSlices],
}

/// The page as one HTML file that needs nothing else and has no script.
///
/// # Errors
/// [`ReportError::Png`](crate::ReportError::Png) where a picture cannot be compressed.
pub fn render(report: &RegressionReport<'_>) -> Result<String> {
    let record = report.record;
    let mut page = Page::default();
    page.add("", words::judged(&record.verdict, None));
    let headings: Vec<String> =
        record.atlases.iter().map(|a| format!("{} {}", record.covariate, number(a.at))).collect();
    let pictures: Vec<&MiddleSlices> = report.atlases.iter().collect();
    page.figure(
            "",
            "fig-atlases",
            "The atlases",
            &slices::table(&headings, &[("", pictures)])?,
            "middle slices of the mean shape and intensity at each value, all on the same grey scale. Anything \
             that grows or shrinks from left to right varies with the covariate. All are in one space of the \
             subjects\u{2019} mean position and size, so differences in overall size, which the affine maps \
             removed, do not show.",
        );
    page.add("", volumes(record));
    page.add("", counted(record));
    page.add("", parts(record));
    Ok(words::finish(page, &format!("Atlases over {}", record.covariate), &record.run()))
}

/// A plot for each label.
fn volumes(record: &RegressionRecord) -> Section {
    let shown = notable(&record.curves);
    let (mut body, mut others) = (String::new(), String::new());
    for (i, curve) in record.curves.iter().enumerate() {
        let point = |name: &str, at: f64, volume: f64| {
            let title =
                format!("{name}, {} {}: {} mm³", record.covariate, number(at), number(volume));
            Point::at(at, volume).titled(title)
        };
        let of_subjects = record
            .observations
            .iter()
            .filter_map(|p| Some(point(&p.name, p.value, *p.volumes.get(&curve.label)?)));
        let of_atlases = record
            .atlases
            .iter()
            .filter_map(|a| Some(point("atlas", a.at, *a.volumes.get(&curve.label)?)));
        let line = curve.points.iter().map(|[x, y]| Point::at(*x, *y));
        let series = |shape, colour, points| Series { shape, colour, points, ..Series::default() };
        let plot = Plot {
            title: [format!("Label {}", record.title(curve.label)), String::new()],
            across: Axis::new(&record.covariate),
            up: Axis::new("volume, mm³"),
            size: [480.0, 290.0],
            series: vec![
                series(Shape::Dots, 0, of_subjects.collect()),
                series(Shape::Curve, 0, line.collect()),
                series(Shape::Diamonds, 1, of_atlases.collect()),
            ],
            ..Plot::default()
        };
        *if shown.contains(&i) { &mut body } else { &mut others } += &panel(plot.svg());
    }
    if body.is_empty() && others.is_empty() {
        return Section::default();
    }
    let mut panels = format!("<div class=\"panels\">{body}</div>");
    if !others.is_empty() {
        panels += &note(&format!(
            "Of {} labels, the largest and those whose volume changes most are shown.",
            record.curves.len()
        ));
        panels += &format!(
            "<details><summary>The other labels</summary><div class=\"panels\">{others}</div></details>"
        );
    }
    let key = Key::new()
        .series(Shape::Dots, 0, "subjects, in their own space")
        .series(Shape::Curve, 0, "their kernel regression")
        .series(Shape::Diamonds, 1, "atlas, in the space of mean size");
    figure(
        "fig-volumes",
        "Volumes of labels",
        &(key.html() + &panels),
        "the curve is the weighted mean of the subjects\u{2019} volumes. The diamonds are volumes in the \
         atlases themselves, from the label with the most weight at each voxel: they follow the curve for large \
         labels, lie off it where the overall size of subjects varies with the covariate, and fall below it for \
         thin or small labels, which lose such a vote.",
    )
}

/// Which curves matter: all of a few; else the largest, and those that change most over the covariate.
fn notable(curves: &[VolumeCurve]) -> Vec<usize> {
    let volumes = |c: &VolumeCurve| c.points.iter().map(|p| p[1]).collect::<Vec<f64>>();
    let mean = |c: &VolumeCurve| volumes(c).iter().sum::<f64>() / c.points.len().max(1) as f64;
    let change = |c: &VolumeCurve| {
        let [low, high] = ends(volumes(c).into_iter()).unwrap_or_default();
        if high > 0.0 { (high - low) / high } else { f64::NAN }
    };
    let orders = [
        ("largest", curves.iter().map(mean).collect()),
        ("most changed", curves.iter().map(change).collect()),
    ];
    chosen(curves.len(), &orders).into_iter().map(|(i, _)| i).collect()
}

/// The table of the atlases.
fn counted(record: &RegressionRecord) -> Section {
    let entropy = |a: &ValueRecord| a.figures.at(Figure::Entropy, When::After).unwrap_or(f64::NAN);
    let mut table = Columns::of(&record.atlases)
        .column(format!("#{}", sentence(&record.covariate)), |a| number(a.at))
        .column("#Subjects that count", |a| a.subjects.len().to_string())
        .column("#Effective number", |a| fixed(a.effective_number, 1))
        .column("#Entropy, bits", |a| fixed(entropy(a), 3));
    for label in notable(&record.curves).into_iter().map(|i| record.curves[i].label) {
        let volume = |a: &&ValueRecord| match a.volumes.get(&label) {
            Some(volume) => number(volume.round()),
            None => DASH.to_owned(),
        };
        table = table.column(format!("#Label {}, mm³", record.title(label)), volume);
    }
    let table = table.column("Verdict", |a| escape(&a.verdict.summary())).html("");
    let note = note(&format!(
        "Weights are Gaussian with a standard deviation of {}; subjects of less than a thousandth of the largest \
         weight are left out. The effective number is the number of equally weighted subjects that \
         would give an equally precise mean.",
        number(record.bandwidth)
    ));
    section("counted", "Weights in each atlas", &(table + &note))
}

/// The weight of each subject.
fn parts(record: &RegressionRecord) -> Section {
    let mut all: Vec<&ObservationRecord> = record.observations.iter().collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value).then(a.name.cmp(&b.name)));
    let mut table = Columns::of(all)
        .column("Subject", |subject| escape(&subject.name))
        .column(format!("#{}", sentence(&record.covariate)), |subject| number(subject.value));
    for atlas in &record.atlases {
        let total: f64 = atlas.subjects.iter().map(|s| s.weight).sum();
        table = table.column(format!("#At {}", number(atlas.at)), |subject| {
            let found = atlas.subjects.iter().find(|s| s.name == subject.name);
            // A part that is there is not 0.
            match found.map(|s| s.weight / total) {
                None => DASH.to_owned(),
                Some(part) if part < 5e-4 => "&lt;0.1 %".to_owned(),
                Some(part) => percent(part, 1),
            }
        });
    }
    section("weights", "Weight of each subject", &table.html(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::atlas::SubjectRecord;
    use crate::record::{Figures, GridRecord, Provenance, RunRecord};
    use std::collections::BTreeMap;
    use voxalign_image::{Grid, Volume};
    use voxalign_register::Verdict;
    use voxalign_register::measures::FieldMeasures;

    #[test]
    fn the_page_is_whole_and_escaped() {
        let grid = Grid::axis_aligned([12, 10, 8], [2.0; 3]).unwrap();
        let observed = |name: &str, value: f64, volume: f64| ObservationRecord {
            name: name.to_owned(),
            weight: 1.0,
            value,
            volumes: [(4, volume)].into(),
        };
        let subject = |name: &str, weight: f64| SubjectRecord {
            name: name.to_owned(),
            weight,
            covariates: BTreeMap::new(),
            affine: [[0.0; 4]; 4],
            correlation: [0.9, 0.95],
            information: Some([0.8, 0.9]),
            measures: FieldMeasures::default(),
            mended: 0,
            outlying: false,
            anatomy: Default::default(),
            verdict: Verdict::default(),
        };
        let at = |at: f64, weights: [f64; 2]| ValueRecord {
            at,
            folder: format!("at_{at}"),
            effective_number: 1.5,
            subjects: vec![subject("<b>", weights[0]), subject("c", weights[1])],
            volumes: [(4, 1234.4)].into(),
            sharpness: Vec::new(),
            scales: Vec::new(),
            figures: Figures::default(),
            verdict: Verdict::new(Vec::new(), Vec::new()),
        };
        let record = RegressionRecord {
            provenance: Provenance::from(RunRecord::default()),
            parameters: serde_json::Value::Null,
            covariate: "<age>".to_owned(),
            bandwidth: 2.5,
            grid: GridRecord::from(&grid),
            observations: vec![observed("<b>", 60.0, 1e3), observed("c", 70.0, 2e3)],
            atlases: vec![at(62.5, [3.0, 1.0]), at(70.0, [0.0003, 1.0])],
            curves: vec![VolumeCurve { label: 4, points: vec![[60.0, 1e3], [70.0, 2e3]] }],
            label_names: BTreeMap::from([(4, "<third ventricle>".to_owned())]),
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
            verdict: Verdict::default(),
        };
        let slices = [1.0, 2.0].map(|v| MiddleSlices::of(&Volume::filled(grid.clone(), v)));
        let page = render(&RegressionReport { record: &record, atlases: &slices }).unwrap();
        assert!(
            !page.contains("<age>") && !page.contains("<b>c") && page.contains("&lt;age&gt; 62.50")
        );
        assert_eq!(page.matches("<img").count(), 2 * 3);
        // Two subjects and two atlases.
        assert_eq!([page.matches("<circle").count(), page.matches("l6 6").count()], [2, 2]);
        assert!(page.contains(">75.0 %<") && page.contains(">&lt;0.1 %<"), "{page}");
        assert!(page.contains(">1234<") && !page.contains("NaN"));
        assert!(page.contains("Label 4 &lt;third ventricle&gt;") && !page.contains("<third"));
        assert!(!page.contains("<details><summary>The other"));
        // Of many labels some are shown, and the others can be unfolded.
        let curve = |label: i32| VolumeCurve {
            label,
            points: vec![[60.0, 10.0 * f64::from(label)], [70.0, 10.0 * f64::from(label + 1)]],
        };
        let many = RegressionRecord { curves: (1..=100).map(curve).collect(), ..record.clone() };
        let found = notable(&many.curves);
        assert_eq!(found, [0, 1, 2, 3, 96, 97, 98, 99]);
        let page = render(&RegressionReport { record: &many, atlases: &slices }).unwrap();
        assert!(page.contains("Of 100 labels") && page.contains("<summary>The other labels"));
        assert_eq!(page.matches("<th scope=\"col\" class=\"n\">Label").count(), 8);
        for tag in ["div", "section", "figure", "table", "svg"] {
            let count = |text: &str| page.matches(text).count();
            assert_eq!(count(&format!("<{tag}")), count(&format!("</{tag}>")), "{tag}");
        }
        let json: serde_json::Value = serde_json::from_str(&record.to_json()).unwrap();
        assert_eq!(json["atlases"][0]["volumes"]["4"], 1234.4);
        assert_eq!(json["format"], crate::RECORD_FORMAT);
    }
}
