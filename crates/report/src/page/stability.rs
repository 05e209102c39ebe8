//! The page of a random permutation test of atlases.

pub use crate::record::stability::{CohortRecord, SizeRecord, StabilityRecord};

use super::Page;
use super::html::{Columns, Section, figure, known, note, percent, scroll, section};
use super::words::{self, Card};
use crate::draw::slices::{self, MiddleSlices};
use crate::draw::{Axis, Key, Marks, Plot, Point, Series, Shape};
use crate::error::Result;
use crate::text::{escape, fixed};
use voxalign_population::atlas::Spread;

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

/// The content of the page.
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
    let record = report.record;
    let mut page = Page::default();
    page.add("", words::judged(&record.verdict, None));
    page.add("", words::large(&cards(record)));
    let headings: Vec<String> =
        report.pictures.iter().map(|p| format!("{} subjects", p.size)).collect();
    let rows = [
        ("Mean after affine alignment alone", report.pictures.iter().map(|p| &p.affine).collect()),
        ("Atlas", report.pictures.iter().map(|p| &p.atlas).collect()),
    ];
    page.figure(
            "",
            "fig-atlases",
            "One cohort of each size",
            &slices::table(&headings, &rows)?,
            "the first cohort that was drawn of each size, all on the same grey scale. The mean after affine \
             alignment alone gets more blurred with more subjects; the atlas keeps its borders, and stops \
             changing once it has enough subjects.",
        );
    page.add("", sharpness(record));
    page.add("", sizes(record));
    Ok(words::finish(page, "Stability of the atlas", &record.run()))
}

/// The most telling numbers.
fn cards(record: &StabilityRecord) -> [Card; 3] {
    let part = percent(record.stable_part, 1);
    let stable = match record.stable_from {
        Some(size) => (
            format!("{size} subjects"),
            format!("beyond this size mean entropies differ by at most {part}"),
        ),
        None => (
            "not within this range".to_owned(),
            format!("the last mean entropies still differ by more than {part}"),
        ),
    };
    let atlases: usize = record.sizes.iter().map(|s| s.cohorts.len()).sum();
    [
        Card::new("Stable from", stable.0, stable.1),
        Card::new("Atlases built", atlases.to_string(), format!("of {} sizes", record.sizes.len())),
        Card::new("Subjects", record.subjects.len().to_string(), "to draw from"),
    ]
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
        Series { shape: Shape::Means, colour, points: points.collect(), ..Series::default() }
    };
    let places: Vec<f64> = record.sizes.iter().map(|s| s.size as f64).collect();
    let every = places.len().div_ceil(24).max(1);
    let plot = Plot {
        title: [format!("Mean {what} of atlases"), String::new()],
        across: Axis {
            marks: Marks::At(places.into_iter().step_by(every).collect()),
            ..Axis::new("subjects per cohort")
        },
        up: Axis::new(format!("{what}, {unit}")),
        size: [960.0, 360.0],
        series: vec![series(1, 0, "after affine alignment alone"), series(0, 1, "atlas")],
        ..Plot::default()
    };
    scroll(plot.svg())
}

/// Mean entropies and gradient energies over the size.
fn sharpness(record: &StabilityRecord) -> Section {
    let key = Key::new()
        .series(Shape::Means, 1, "mean after affine alignment alone")
        .series(Shape::Means, 0, "atlas by deformation")
        .html();
    let entropy = over_size(record, "entropy", "bits", 3, |s| [s.affine, s.atlas]);
    let both: Both = |s| [s.gradient_affine, s.gradient_atlas];
    let gradient = over_size(record, "gradient energy", "1/mm²", 6, both);
    figure(
        "fig-sharpness",
        "Sharpness over the number of subjects",
        &format!("{entropy}{gradient}{key}"),
        "means over the cohorts of each size, with bars of one standard deviation up and down. Where the curve \
         of the atlas levels off, more subjects no longer change it. Entropy is low where there are few \
         intensities: aligned borders lower it, but so does blur that turns the whole image one grey. The \
         gradient energy tells these apart: it is high where borders are sharp. Cohorts of nearly all subjects \
         share most of them, so the bars of the largest sizes are short for that reason alone.",
    )
}

/// The table of the sizes.
fn sizes(record: &StabilityRecord) -> Section {
    let mut table = Columns::of(&record.sizes)
        .column("#Subjects", |s| s.size.to_string())
        .column("#Cohorts", |s| {
            format!("{}{}", s.cohorts.len(), if s.all { " (all)" } else { "" })
        });
    for (which, name) in ["#Affine: mean", "#Atlas: mean"].into_iter().enumerate() {
        let of = |s: &SizeRecord| [s.affine, s.atlas][which];
        table = table
            .column(name, |s| fixed(of(s).mean, 4))
            .column("#Variance", |s| known(of(s).variance, 6))
            .column("#Standard deviation", |s| known(of(s).standard_deviation, 4));
    }
    let bad = |s: &&SizeRecord| s.cohorts.iter().filter(|c| !c.good).count().to_string();
    let table = table.column("#Bad atlases", bad).html("");
    let subjects = escape(&record.subjects.join(", "));
    let note = note(&format!("Seed {}; subjects: {subjects}.", record.seed));
    section("sizes", "Entropy by size, bits", &(table + &note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{GridRecord, Provenance, RunRecord};
    use std::collections::BTreeMap;
    use voxalign_image::{Grid, Volume};
    use voxalign_register::Verdict;

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
