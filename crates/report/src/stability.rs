//! The record of a random permutation test of atlases, and its page.

use crate::error::Result;
use crate::frame;
use crate::html::{escape, fixed, table};
use crate::page::figure;
use crate::plot::{self, Plot, Point, Series, Shape};
use crate::provenance::Provenance;
use crate::record::{GridRecord, OutputRecord};
use crate::slices::{self, MiddleSlices};
use crate::words;
use serde::Serialize;
use std::collections::BTreeMap;
use voxalign_population::atlas::Spread;
use voxalign_register::Verdict;

/// All that is worth keeping of a random permutation test: what its `result.json` holds. Entropies
/// are in bits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StabilityRecord {
    /// Program, command, machine and inputs.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// All parameters, also those left at their default.
    pub parameters: serde_json::Value,
    /// The seed of the draws.
    pub seed: u64,
    /// The grid of all atlases.
    pub grid: GridRecord,
    /// The names of the subjects, in the order of sums.
    pub subjects: Vec<String>,
    /// The sizes, ascending.
    pub sizes: Vec<SizeRecord>,
    /// The part of the last mean entropy by which means of a stable atlas differ at most.
    pub stable_part: f64,
    /// The number of subjects from which on atlases are stable, where there is one.
    pub stable_from: Option<usize>,
    /// Wall time of each part in seconds.
    pub timings: BTreeMap<String, f64>,
    /// The most memory that the process held, bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The files that were written.
    pub outputs: Vec<OutputRecord>,
    /// Whether the test can be used, and why.
    pub verdict: Verdict,
}

/// The cohorts of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeRecord {
    /// How many subjects each has.
    pub size: usize,
    /// Whether these are all cohorts of this size that there are.
    pub all: bool,
    /// The entropies of the means after affine alignment alone.
    pub affine: Spread,
    /// The entropies of the atlases.
    pub atlas: Spread,
    /// The gradient energies of the means after affine alignment alone, 1/mm².
    pub gradient_affine: Spread,
    /// The gradient energies of the atlases, 1/mm².
    pub gradient_atlas: Spread,
    /// The cohorts.
    pub cohorts: Vec<CohortRecord>,
}

/// One cohort.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CohortRecord {
    /// The numbers of its subjects in the record, from 0.
    pub members: Vec<usize>,
    /// The entropy of their mean after affine alignment alone.
    pub entropy_affine: f64,
    /// The entropy of their atlas.
    pub entropy_atlas: f64,
    /// The gradient energy of that mean, 1/mm².
    pub gradient_energy_affine: f64,
    /// The gradient energy of their atlas, 1/mm².
    pub gradient_energy_atlas: f64,
    /// Whether the atlas can be used.
    pub good: bool,
}

impl StabilityRecord {
    /// The record as indented JSON with a newline at its end.
    #[must_use]
    pub fn to_json(&self) -> String {
        crate::record::json(self)
    }
}

/// The pictures of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct SizePictures {
    /// The size.
    pub size: usize,
    /// The mean of its first cohort after affine alignment alone.
    pub affine: MiddleSlices,
    /// The atlas of that cohort.
    pub atlas: MiddleSlices,
}

/// What the page is made of.
#[derive(Debug, Clone, Copy)]
pub struct StabilityReport<'a> {
    /// The record.
    pub record: &'a StabilityRecord,
    /// Pictures of some sizes.
    pub pictures: &'a [SizePictures],
}

/// The page as one HTML file that needs nothing else and has no script.
///
/// # Errors
/// [`ReportError::Png`](crate::ReportError::Png) where a picture cannot be compressed.
pub fn render(report: &StabilityReport<'_>) -> Result<String> {
    let (record, from) = (report.record, &report.record.provenance);
    let mut page = frame::head("Stability of the atlas", &from.line(), &from.host);
    page += &words::judged(&record.verdict, None);
    page += &cards(record);
    let headings: Vec<String> =
        report.pictures.iter().map(|p| format!("{} subjects", p.size)).collect();
    let rows = [
        ("Mean after affine alignment alone", report.pictures.iter().map(|p| &p.affine).collect()),
        ("Atlas", report.pictures.iter().map(|p| &p.atlas).collect()),
    ];
    if let Some(body) = slices::table(&headings, &rows)? {
        page += &figure(
            "fig-atlases",
            "One cohort of each size",
            &body,
            "<b>How to read it:</b> the first cohort that was drawn of each size; the same grey is the \
             same intensity in all. The mean after affine alignment alone blurs the more the more subjects it \
             has; the atlas keeps its borders, and no longer changes where it has enough of them.",
        );
    }
    page += &sharpness(record);
    page += &sizes(record);
    page += &frame::end(&from.host, &from.command);
    Ok(page)
}

/// The most telling numbers.
fn cards(record: &StabilityRecord) -> String {
    let (value, note) = match record.stable_from {
        Some(size) => (
            format!("{size} subjects"),
            format!(
                "from there on mean entropies differ by at most {} %",
                fixed(100.0 * record.stable_part, 1)
            ),
        ),
        None => (
            "not within this range".to_owned(),
            format!(
                "the last mean entropies still differ by more than {} %",
                fixed(100.0 * record.stable_part, 1)
            ),
        ),
    };
    let atlases: usize = record.sizes.iter().map(|s| s.cohorts.len()).sum();
    let card = |name: &str, value: &str, note: &str| {
        format!(
            "<div class=\"card\"><span>{name}</span><strong>{value}</strong><small>{note}</small></div>"
        )
    };
    format!(
        "<section id=\"highlights\" class=\"cards\" aria-label=\"Key figures\">{}{}{}</section>",
        card("Stable from", &value, &note),
        card("Atlases built", &atlases.to_string(), &format!("of {} sizes", record.sizes.len())),
        card("Subjects", &record.subjects.len().to_string(), "to draw from"),
    )
}

/// Spreads of the mean after affine alignment and of the atlas, of a size.
type Both = fn(&SizeRecord) -> [Spread; 2];

/// Means over the size: what is measured with its unit, and decimals.
fn over_size(
    record: &StabilityRecord,
    what: &str,
    unit: &str,
    decimals: usize,
    both: Both,
) -> String {
    let series = |colour, which: usize, name: &str| {
        let points = record.sizes.iter().map(|size| {
            let spread = both(size)[which];
            let deviation = spread.standard_deviation.unwrap_or(0.0);
            let title = format!(
                "{name}, {} subjects: {} ± {} {unit} over {} cohorts",
                size.size,
                fixed(spread.mean, decimals),
                fixed(deviation, decimals),
                spread.count
            );
            Point { x: size.size as f64, y: spread.mean, spread: deviation, title }
        });
        Series { shape: Shape::Means, colour, points: points.collect() }
    };
    let places: Vec<f64> = record.sizes.iter().map(|s| s.size as f64).collect();
    let every = places.len().div_ceil(24).max(1);
    let plot = Plot {
        title: format!("Mean {what} of atlases"),
        across: "subjects of a cohort".to_owned(),
        up: format!("{what}, {unit}"),
        size: [960.0, 360.0],
        places: places.into_iter().step_by(every).collect(),
        series: vec![series(1, 0, "after affine alignment alone"), series(0, 1, "atlas")],
    };
    plot.svg().map_or_else(String::new, |svg| format!("<div class=\"scroll\">{svg}</div>"))
}

/// Mean entropies and gradient energies over the size.
fn sharpness(record: &StabilityRecord) -> String {
    let key = plot::key(&[
        (Shape::Means, 1, "mean after affine alignment alone"),
        (Shape::Means, 0, "atlas by deformation"),
    ]);
    let entropy = over_size(record, "entropy", "bits", 3, |s| [s.affine, s.atlas]);
    let both: Both = |s| [s.gradient_affine, s.gradient_atlas];
    let gradient = over_size(record, "gradient energy", "1/mm²", 6, both);
    figure(
        "fig-sharpness",
        "Sharpness over the number of subjects",
        &format!("{entropy}{gradient}{key}"),
        "<b>How to read it:</b> means over the cohorts of each size; bars reach one standard deviation \
         up and down. Where the curve of the atlas levels off, more subjects no longer change it. Entropy \
         is low where there are few intensities: borders that come into line lower it, but \
         so does blur that makes all of an image one grey. The gradient energy tells these apart: it is \
         high where borders are sharp. Cohorts of nearly all subjects share most of them: the bars \
         of the largest sizes are short for that reason alone.",
    )
}

/// The table of the sizes.
fn sizes(record: &StabilityRecord) -> String {
    let headings = [
        "#Subjects",
        "#Cohorts",
        "#Affine: mean",
        "#Variance",
        "#Standard deviation",
        "#Atlas: mean",
        "#Variance",
        "#Standard deviation",
        "#Bad atlases",
    ];
    let known = |value: Option<f64>, digits| {
        value.map_or_else(|| "\u{2013}".to_owned(), |v| fixed(v, digits))
    };
    let rows: Vec<Vec<String>> = record
        .sizes
        .iter()
        .map(|s| {
            let all = if s.all { " (all)" } else { "" };
            let mut row = vec![s.size.to_string(), format!("{}{all}", s.cohorts.len())];
            for spread in [s.affine, s.atlas] {
                row.push(fixed(spread.mean, 4));
                row.push(known(spread.variance, 6));
                row.push(known(spread.standard_deviation, 4));
            }
            row.push(s.cohorts.iter().filter(|c| !c.good).count().to_string());
            row
        })
        .collect();
    format!(
        "<section id=\"sizes\"><h2>Entropy by size, bits</h2>{}<p class=\"note\">Seed {}; subjects: \
         {}.</p></section>",
        table("", &headings, &rows),
        record.seed,
        escape(&record.subjects.join(", "))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;
    use voxalign_image::{Grid, Volume};

    #[test]
    fn the_page_is_whole_and_escaped() {
        let grid = Grid::axis_aligned([12, 10, 1], [2.0; 3]).unwrap();
        let size = |size: usize, values: &[f64]| {
            let cohort = |&value: &f64| CohortRecord {
                members: (0..size).collect(),
                entropy_affine: value + 1.0,
                entropy_atlas: value,
                gradient_energy_affine: 0.01 * value,
                gradient_energy_atlas: 0.02 * value,
                good: value < 5.0,
            };
            let spread =
                |plus: f64| Spread::of(&values.iter().map(|v| v + plus).collect::<Vec<_>>());
            SizeRecord {
                size,
                all: values.len() == 1,
                affine: spread(1.0),
                atlas: spread(0.0),
                gradient_affine: spread(0.0),
                gradient_atlas: spread(0.0),
                cohorts: values.iter().map(cohort).collect(),
            }
        };
        let record = StabilityRecord {
            provenance: Provenance::from(RunRecord::default()),
            parameters: serde_json::Value::Null,
            seed: 7,
            grid: GridRecord::from(&grid),
            subjects: vec!["<a>".to_owned(), "b".to_owned(), "c".to_owned()],
            sizes: vec![size(2, &[4.0, 5.5, 4.5]), size(3, &[4.25])],
            stable_part: 0.002,
            stable_from: Some(2),
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
            verdict: Verdict::default(),
        };
        let slices = MiddleSlices::of(&Volume::filled(grid, 1.0));
        let pictures = [SizePictures { size: 2, affine: slices.clone(), atlas: slices }];
        let page = render(&StabilityReport { record: &record, pictures: &pictures }).unwrap();
        assert!(page.contains("&lt;a&gt;, b, c") && !page.contains("<a>"));
        assert!(page.contains("<strong>2 subjects</strong>") && page.contains("1 (all)"));
        assert_eq!(page.matches("<img").count(), 2);
        assert_eq!(page.matches("<svg").count(), 2);
        // One bar for each of two series in both plots: a single cohort has no spread.
        assert_eq!(page.matches("class=\"bars\"").count(), 4);
        for tag in ["div", "section", "figure", "table", "svg"] {
            let count = |text: &str| page.matches(text).count();
            assert_eq!(count(&format!("<{tag}")), count(&format!("</{tag}>")), "{tag}");
        }
        let none = StabilityRecord { stable_from: None, sizes: Vec::new(), ..record };
        let page = render(&StabilityReport { record: &none, pictures: &[] }).unwrap();
        assert!(page.contains("not within this range") && !page.contains("NaN"));
    }
}
