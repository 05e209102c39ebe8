//! The page of a benchmark: bars for each family of operators, and a table of everything.

use crate::frame;
use crate::html::{escape, fixed, number, seconds, table, title};
use crate::record::HostRecord;
use std::fmt::Write as _;

/// What a page on a benchmark is made of.
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
    /// The part of the copy bandwidth of the device that this is.
    pub of_copy: f64,
}

const WIDTH: f64 = 960.0;
/// Where the bars begin and end; names are on their left, figures on their right.
const LEFT: f64 = 330.0;
const RIGHT: f64 = 730.0;
const ROW: f64 = 26.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 12.0;

/// The page as one HTML file that needs nothing else and has no script.
#[must_use]
pub fn render(report: &BenchReport<'_>) -> String {
    let mut page = frame::head("Benchmark", &report.program, report.host);
    if !report.families.is_empty() {
        page += "<p class=\"note\">The length of a bar is the fraction of the copy bandwidth of \
                                  the device that the operator reaches, both measured in the same \
                                  run; the line is the copy itself. An \
                 operator counts each input read once and each output written once.</p>";
    }
    for family in report.families.iter().filter(|f| !f.bars.is_empty()) {
        let _ = write!(
            page,
            "<figure><h2>{}</h2><div class=\"scroll\">{}</div></figure>",
            escape(&title(&family.name)),
            bars(family)
        );
    }
    if !report.job.is_empty() {
        let rows: Vec<_> = report.job.iter().map(|(n, s)| vec![escape(n), seconds(*s)]).collect();
        page += "<section><h2>Affine registration</h2>";
        page += &table("facts", &["Part", "#Time"], &rows);
        page += "</section>";
    }
    page += &operators(report);
    page + &frame::end(report.host, &report.command)
}

fn operators(report: &BenchReport<'_>) -> String {
    let mut rows = Vec::new();
    for family in &report.families {
        for bar in &family.bars {
            rows.push(vec![
                format!("{}: {}", escape(&family.name), escape(&bar.name)),
                escape(&bar.size),
                milliseconds(bar.seconds),
                fixed(bar.gb_per_s, 1),
                percent(bar.of_copy),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let headings = ["Operator", "Size", "#ms", "#GB/s", "#Of copy bandwidth"];
    format!("<section><h2>Operators</h2>{}</section>", table("operators", &headings, &rows))
}

fn milliseconds(seconds: f64) -> String {
    fixed(seconds * 1e3, if seconds < 1e-2 { 4 } else { 2 })
}

fn percent(part: f64) -> String {
    format!("{} %", fixed(part * 100.0, 0))
}

/// The bars of a family; all families have the same scale unless an operator is beyond the copy.
fn bars(family: &Family) -> String {
    let finite = |v: f64| if v.is_finite() && v > 0.0 { v } else { 0.0 };
    let longest = family.bars.iter().map(|b| finite(b.of_copy)).fold(1.0, f64::max);
    let height = TOP + ROW * family.bars.len() as f64 + BOTTOM;
    let place = |part: f64| LEFT + (RIGHT - LEFT) * part / longest;
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}: part of the copy bandwidth\">",
        escape(&family.name)
    );
    for quarter in 0..=4 {
        let part = f64::from(quarter) * 0.25;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"{}/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - BOTTOM,
            if quarter == 4 { " style=\"stroke:var(--soft)\"" } else { "" },
            TOP - 8.0,
            percent(part),
            x = place(part),
        );
    }
    for (i, bar) in family.bars.iter().enumerate() {
        let y = TOP + ROW * i as f64;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\" style=\"fill:var(--ink)\">{}\
             </text><rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\" \
             style=\"fill:var(--accent)\"/><text x=\"{:.1}\" y=\"{base:.1}\">{} ms, {} GB/s, {}\
             </text>",
            LEFT - 8.0,
            escape(&bar.name),
            y + 5.0,
            (place(finite(bar.of_copy)) - LEFT).max(1.0),
            ROW - 10.0,
            RIGHT + 10.0,
            milliseconds(bar.seconds),
            number(bar.gb_per_s),
            percent(bar.of_copy),
            base = y + ROW / 2.0 + 4.0,
        );
    }
    svg + "</svg>"
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
