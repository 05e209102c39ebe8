//! The record of a kernel regression along a covariate, and its page.

use crate::atlas::SubjectRecord;
use crate::error::Result;
use crate::figure::{Figure, Figures, When};
use crate::frame;
use crate::html::{escape, fixed, number, sentence, table};
use crate::labels::{chosen, title};
use crate::page::figure;
use crate::plot::{self, Plot, Point, Series, Shape};
use crate::provenance::Provenance;
use crate::record::{GridRecord, OutputRecord};
use crate::slices::{self, MiddleSlices};
use crate::words;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use voxalign_population::atlas::Sharpness;
use voxalign_register::Verdict;
use voxalign_register::multiscale::ScaleRecord;

/// All that is worth keeping of a kernel regression: what its `result.json` holds. Volumes are in
/// mm³.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegressionRecord {
    /// Program, command, machine and inputs.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The covariate.
    pub covariate: String,
    /// The standard deviation of the Gaussian kernel, in its units.
    pub bandwidth: f64,
    /// The grid of all atlases.
    pub grid: GridRecord,
    /// The subjects, in the order of sums.
    pub observations: Vec<ObservationRecord>,
    /// The atlases, in the order in which their values were given.
    pub atlases: Vec<ValueRecord>,
    /// For each label that was chosen the kernel regression of the subjects' volumes.
    pub curves: Vec<VolumeCurve>,
    /// The names of labels, where a table of names was given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub label_names: BTreeMap<i32, String>,
    /// Wall time of each part in seconds.
    pub timings: BTreeMap<String, f64>,
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Whether all atlases can be used, and why.
    pub verdict: Verdict,
}

/// A subject as it came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservationRecord {
    /// Its name.
    pub name: String,
    /// What it counts among the others, before the kernel.
    pub weight: f64,
    /// Its value of the covariate.
    pub value: f64,
    /// The volumes of its labels, in its own space; empty where it has no label map.
    pub volumes: BTreeMap<i32, f64>,
}

/// The atlas at a value of the covariate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueRecord {
    /// The value.
    pub at: f64,
    /// The folder of its files among the outputs.
    pub folder: String,
    /// How many subjects of equal weight its mean is worth (Kish).
    pub effective_number: f64,
    /// Those that count, with the weights they have here.
    pub subjects: Vec<SubjectRecord>,
    /// The volumes of the labels of the atlas, in its space.
    pub volumes: BTreeMap<i32, f64>,
    /// How sharp the template was before each iteration, and after the last one of each scale.
    pub sharpness: Vec<Sharpness>,
    /// The scales, coarse to fine.
    pub scales: Vec<ScaleRecord>,
    /// Named numbers, as those of an [atlas](crate::AtlasRecord).
    pub figures: Figures,
    /// Whether it can be used, and why.
    pub verdict: Verdict,
}

/// The volume of a label over the covariate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeCurve {
    /// The label.
    pub label: i32,
    /// Values of the covariate and volumes.
    pub points: Vec<[f64; 2]>,
}

impl RegressionRecord {
    /// The record as indented JSON with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::record::json(self)
    }

    /// A label with its name, where it has one.
    #[must_use]
    pub fn title(&self, label: i32) -> String {
        title(label, self.label_names.get(&label).map(String::as_str))
    }
}

/// What the page is made of.
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
    let from = &record.provenance;
    let title = format!("Atlases over {}", record.covariate);
    let mut page = frame::head(&title, &from.line(), &from.host);
    page += &words::judged(&record.verdict, None);
    let headings: Vec<String> =
        record.atlases.iter().map(|a| format!("{} {}", record.covariate, number(a.at))).collect();
    let pictures: Vec<&MiddleSlices> = report.atlases.iter().collect();
    if let Some(body) = slices::table(&headings, &[("", pictures)])? {
        page += &figure(
            "fig-atlases",
            "The atlases",
            &body,
            "<b>How to read it:</b> middle slices of the mean shape and intensity at each value; the \
             same grey is the same intensity in all. What grows or shrinks from left to right goes \
             with the covariate. All are in one space of the subjects\u{2019} mean position and size, \
             so that differences of the size of the whole, which the affine maps took out, do not show.",
        );
    }
    page += &volumes(record);
    page += &counted(record);
    page += &parts(record);
    page += &frame::end(&from.host, &from.command);
    Ok(page)
}

/// A plot for each label.
fn volumes(record: &RegressionRecord) -> String {
    let point = |x: f64, y: f64, title: String| Point { x, y, spread: 0.0, title };
    let shown = notable(&record.curves);
    let (mut body, mut others) = (String::new(), String::new());
    for (i, curve) in record.curves.iter().enumerate() {
        let said = |name: &str, at: f64, volume: f64| {
            format!("{name}, {} {}: {} mm³", record.covariate, number(at), number(volume))
        };
        let of_subjects = record.observations.iter().filter_map(|p| {
            let volume = *p.volumes.get(&curve.label)?;
            Some(point(p.value, volume, said(&p.name, p.value, volume)))
        });
        let of_atlases = record.atlases.iter().filter_map(|a| {
            let volume = *a.volumes.get(&curve.label)?;
            Some(point(a.at, volume, said("atlas", a.at, volume)))
        });
        let line = curve.points.iter().map(|[x, y]| point(*x, *y, String::new()));
        let series = |shape, colour, points| Series { shape, colour, points };
        let plot = Plot {
            title: format!("Label {}", record.title(curve.label)),
            across: record.covariate.clone(),
            up: "volume, mm³".to_owned(),
            size: [480.0, 290.0],
            places: Vec::new(),
            series: vec![
                series(Shape::Dots, 0, of_subjects.collect()),
                series(Shape::Curve, 0, line.collect()),
                series(Shape::Diamonds, 1, of_atlases.collect()),
            ],
        };
        if let Some(svg) = plot.svg() {
            let to = if shown.contains(&i) { &mut body } else { &mut others };
            let _ = write!(to, "<div>{svg}</div>");
        }
    }
    if body.is_empty() && others.is_empty() {
        return String::new();
    }
    let mut panels = format!("<div class=\"panels\">{body}</div>");
    if !others.is_empty() {
        let _ = write!(
            panels,
            "<p class=\"note\">Of {} labels, the largest and those whose volume changes most are shown.\
             </p><details><summary>The other labels</summary><div class=\"panels\">{others}</div>\
             </details>",
            record.curves.len()
        );
    }
    let key = plot::key(&[
        (Shape::Dots, 0, "subjects, in their own space"),
        (Shape::Curve, 0, "their kernel regression"),
        (Shape::Diamonds, 1, "atlas, in the space of mean size"),
    ]);
    figure(
        "fig-volumes",
        "Volumes of labels",
        &format!("{key}{panels}"),
        "<b>How to read it:</b> the curve is the weighted mean of the subjects\u{2019} volumes. The \
         diamonds are volumes in the atlases themselves, from the label with the most weight at each \
         voxel: they follow the curve where labels are large, lie off it where the sizes of whole \
         subjects go with the covariate, and fall below it for thin or small labels, which lose such a \
         vote.",
    )
}

/// Which curves matter: all of a few; else the largest, and those that change most over the covariate.
fn notable(curves: &[VolumeCurve]) -> Vec<usize> {
    let volumes = |c: &VolumeCurve| c.points.iter().map(|p| p[1]).collect::<Vec<f64>>();
    let mean = |c: &VolumeCurve| volumes(c).iter().sum::<f64>() / c.points.len().max(1) as f64;
    let change = |c: &VolumeCurve| {
        let all = volumes(c);
        let (low, high) = all.iter().fold((f64::MAX, 0f64), |(l, h), &v| (l.min(v), h.max(v)));
        if high > 0.0 { (high - low) / high } else { f64::NAN }
    };
    let orders = [
        ("largest", curves.iter().map(mean).collect()),
        ("most changed", curves.iter().map(change).collect()),
    ];
    chosen(curves.len(), &orders).into_iter().map(|(i, _)| i).collect()
}

/// The table of the atlases.
fn counted(record: &RegressionRecord) -> String {
    let first = format!("#{}", sentence(&record.covariate));
    let mut headings = vec![
        first,
        "#Subjects that count".to_owned(),
        "#Effective number".to_owned(),
        "#Entropy, bits".to_owned(),
    ];
    let curves: Vec<&VolumeCurve> =
        notable(&record.curves).into_iter().map(|i| &record.curves[i]).collect();
    headings.extend(curves.iter().map(|c| format!("#Label {}, mm³", record.title(c.label))));
    headings.push("Verdict".to_owned());
    let rows: Vec<Vec<String>> = record
        .atlases
        .iter()
        .map(|a| {
            let entropy = a.figures.at(Figure::Entropy, When::After).unwrap_or(f64::NAN);
            let mut row = vec![
                number(a.at),
                a.subjects.len().to_string(),
                fixed(a.effective_number, 1),
                fixed(entropy, 3),
            ];
            let volume = |c: &VolumeCurve| {
                a.volumes.get(&c.label).map_or_else(|| "\u{2013}".to_owned(), |v| number(v.round()))
            };
            row.extend(curves.iter().map(|c| volume(c)));
            row.push(escape(&a.verdict.summary()));
            row
        })
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    format!(
        "<section id=\"counted\"><h2>What counts in each atlas</h2>{}<p class=\"note\">Weights are \
         Gaussian with a standard deviation of {}; subjects of less than a thousandth of the largest \
         weight are left out. The effective number is the number of equally weighted subjects that \
         would give an equally precise mean.</p></section>",
        table("", &headings, &rows),
        number(record.bandwidth)
    )
}

/// A part in percent; one that is there is not 0.
fn percent(part: f64) -> String {
    if part < 5e-4 { "&lt;0.1 %".to_owned() } else { format!("{} %", fixed(100.0 * part, 1)) }
}

/// What each subject counts.
fn parts(record: &RegressionRecord) -> String {
    let mut headings = vec!["Subject".to_owned(), format!("#{}", sentence(&record.covariate))];
    headings.extend(record.atlases.iter().map(|a| format!("#At {}", number(a.at))));
    let mut all: Vec<&ObservationRecord> = record.observations.iter().collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value).then(a.name.cmp(&b.name)));
    let rows: Vec<Vec<String>> = all
        .into_iter()
        .map(|subject| {
            let mut row = vec![escape(&subject.name), number(subject.value)];
            row.extend(record.atlases.iter().map(|a| {
                let total: f64 = a.subjects.iter().map(|s| s.weight).sum();
                let found = a.subjects.iter().find(|s| s.name == subject.name);
                found.map_or_else(|| "\u{2013}".to_owned(), |s| percent(s.weight / total))
            }));
            row
        })
        .collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    format!(
        "<section id=\"weights\"><h2>Part of each subject</h2>{}</section>",
        table("", &headings, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;
    use voxalign_image::{Grid, Volume};
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
