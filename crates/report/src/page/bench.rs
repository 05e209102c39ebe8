//! The page of a benchmark: bars for each family of operators, and a table of all measurements.

use super::html::{Columns, note, percent, scroll, section};
use super::{Heading, Page, words};
use crate::draw::axis::ends;
use crate::draw::{RowBox, Rows};
use crate::record::HostRecord;
use crate::text::{escape, fixed, number, seconds, title};

/// The content of a page on a benchmark.
#[derive(Debug, Clone)]
pub struct BenchReport<'a> {
    /// Program and version.
    pub program: String,
    /// The machine and the device.
    pub host: &'a HostRecord,
    /// The command with its arguments, as it was given.
    pub command: Vec<String>,
    /// The operators, by family.
    pub families: Vec<Family>,
    /// Parts of a whole job and their times in seconds; none where no job was measured.
    pub job: Vec<(String, f64)>,
}

/// A family of operators.
#[derive(Debug, Clone)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// Its operators.
    pub bars: Vec<Bar>,
}

/// The measurement of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The operator and its variant.
    pub name: String,
    /// The sizes of the output, such as `256x256x256`.
    pub size: String,
    /// The time of one call, seconds.
    pub seconds: f64,
    /// The bytes that have to be moved over the time, in 10^9 bytes a second.
    pub gb_per_s: f64,
    /// Its fraction of the copy bandwidth of the device.
    pub of_copy: f64,
}

/// The page as one HTML file that needs nothing else and has no script.
#[must_use]
pub fn render(report: &BenchReport<'_>) -> String {
    let mut page = Page::default();
    if !report.families.is_empty() {
        page.text(&note(
            "The length of a bar is the operator\u{2019}s bandwidth as a fraction of the device\u{2019}s copy \
             bandwidth, both measured in the same run; the line is the copy itself. Each input is counted as \
             read once and each output as written once.",
        ));
    }
    for family in &report.families {
        page.figure("", "", &title(&family.name), &scroll(bars(family)), "");
    }
    let job = Columns::of(&report.job)
        .column("Part", |(name, _)| escape(name))
        .column("#Time", |(_, time)| seconds(*time))
        .html("facts");
    page.add("", section("", "Affine registration", &job));
    let all = report.families.iter().flat_map(|f| f.bars.iter().map(move |bar| (f, bar)));
    let operators = Columns::of(all)
        .column("Operator", |(f, bar)| format!("{}: {}", escape(&f.name), escape(&bar.name)))
        .column("Size", |(_, bar)| escape(&bar.size))
        .column("#ms", |(_, bar)| milliseconds(bar.seconds))
        .column("#GB/s", |(_, bar)| fixed(bar.gb_per_s, 1))
        .column("#Fraction of copy bandwidth", |(_, bar)| percent(bar.of_copy, 0))
        .html("operators");
    page.add("", section("", "Operators", &operators));
    words::machine(&mut page, report.host, &report.command);
    page.finish_plain(&Heading::of_machine("Benchmark", &report.program, report.host))
}

fn milliseconds(seconds: f64) -> String {
    fixed(seconds * 1e3, if seconds < 1e-2 { 4 } else { 2 })
}

/// The bars of a family; all families have the same scale unless an operator is beyond the copy.
fn bars(family: &Family) -> Option<String> {
    let part = |bar: &Bar| if bar.of_copy > 0.0 { 100.0 * bar.of_copy } else { 0.0 };
    let longest = ends(family.bars.iter().map(part).filter(|p| p.is_finite()))?[1];
    let said = |bar: &Bar| {
        let (time, rate) = (milliseconds(bar.seconds), number(bar.gb_per_s));
        format!("{time} ms, {rate} GB/s, {}", percent(bar.of_copy, 0))
    };
    let shown = |(row, bar): (usize, &Bar)| RowBox {
        row,
        ends: [0.0, part(bar).min(longest)],
        ..RowBox::default()
    };
    let rows = Rows {
        what: format!("{}: fraction of the copy bandwidth", family.name),
        rows: family.bars.iter().map(|bar| [bar.name.clone(), said(bar)]).collect(),
        boxes: family.bars.iter().enumerate().map(shown).collect(),
        end: longest.max(100.0),
        unit: "%".to_owned(),
        line: Some(100.0),
        room: [330.0, 230.0],
        ..Rows::default()
    };
    rows.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::GpuRecord;

    fn bar(name: &str, of_copy: f64) -> Bar {
        Bar {
            name: name.into(),
            size: "8x8x8".into(),
            seconds: 1e-4,
            gb_per_s: 100.0 * of_copy,
            of_copy,
        }
    }

    #[test]
    fn a_page_has_a_plot_for_each_family_and_loads_nothing() {
        let host = HostRecord {
            threads: 2,
            device: "cuda:0 (<GPU>)".into(),
            gpu: Some(GpuRecord { nvrtc: "12.8".into(), ..GpuRecord::default() }),
            ..HostRecord::default()
        };
        let report = BenchReport {
            program: "voxalign 1".into(),
            host: &host,
            command: vec!["voxalign".into(), "bench".into()],
            families: vec![
                Family { name: "memory".into(), bars: vec![bar("copy", 1.0), bar("far", 3.0)] },
                Family { name: "odd".into(), bars: vec![bar("a & b", f64::NAN)] },
                Family { name: "none".into(), bars: Vec::new() },
            ],
            job: vec![("whole command".into(), 1.5)],
        };
        let page = render(&report);
        assert_eq!(page.matches("<svg").count(), 2);
        for part in ["cuda:0 (&lt;GPU&gt;)", "a &amp; b", "NVRTC 12.8", "1.50 s", "0.1000 ms"] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        for part in ["://", "src=", "<script", "NaN", "inf\""] {
            assert!(!page.contains(part), "{part} is in the page");
        }
        assert_eq!(page.matches("<figure").count(), page.matches("</figure>").count());
    }
}
