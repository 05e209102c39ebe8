//! The measurements as files.

use super::{Operator, Results, Size};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use voxalign_jobs::files::check_output;
use voxalign_jobs::{Error, Result};
use voxalign_report::bench::{Bar, BenchReport, Family, render};

/// Checks that the files can be written, before anything is measured.
pub(super) fn check(
    csv: Option<&Path>,
    html: Option<&Path>,
    pair: Option<&[PathBuf]>,
) -> Result<()> {
    for path in csv.iter().chain(&html) {
        check_output(path, pair.unwrap_or_default().iter().map(PathBuf::as_path))?;
    }
    if csv.is_some() && csv == html {
        return Err(Error::input("--csv and --html name the same file; give each its own"));
    }
    Ok(())
}

/// Writes a file, whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    Ok(voxalign_io::atomic::write_file(path, |w| w.write_all(text.as_bytes()))?)
}

const COLUMNS: &str = "version,device,family,operator,size,bytes,milliseconds,\
                       nanoseconds_per_voxel,gb_per_s,of_copy_bandwidth";

/// All measurements; the affine job has its times alone.
pub(super) fn csv(results: &Results) -> String {
    let mut text = format!("{COLUMNS}\n");
    let start = format!("{},{}", quoted(results.version), quoted(&results.device));
    for o in &results.operators {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{start},{},{},{},{},{:.6},{:.6},{:.4},{:.5}",
            quoted(&o.family),
            quoted(&o.operator),
            Size(o.dims),
            o.bytes,
            o.milliseconds,
            o.nanoseconds_per_voxel,
            o.gb_per_s,
            o.of_copy_bandwidth
        );
    }
    for (name, seconds) in results.affine.iter().flat_map(|times| times.all()) {
        let _ = writeln!(text, "{start},affine,{},,,{:.6},,,", quoted(name), seconds * 1e3);
    }
    text
}

/// A cell: in quotes where it would be read as several.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// The page.
pub(super) fn html(results: &Results) -> String {
    let mut families: Vec<Family> = Vec::new();
    for o in &results.operators {
        if families.last().is_none_or(|f| f.name != o.family) {
            families.push(Family { name: o.family.clone(), bars: Vec::new() });
        }
        if let Some(family) = families.last_mut() {
            family.bars.push(bar(o));
        }
    }
    let job = results.affine.iter().flat_map(|t| t.all());
    render(&BenchReport {
        program: format!("voxalign {}", results.version),
        host: &results.host,
        command: voxalign_jobs::invoked::command(),
        families,
        job: job.map(|(name, seconds)| (name.to_owned(), seconds)).collect(),
    })
}

fn bar(o: &Operator) -> Bar {
    Bar {
        name: o.operator.clone(),
        size: Size(o.dims).to_string(),
        seconds: o.milliseconds * 1e-3,
        gb_per_s: o.gb_per_s,
        of_copy: o.of_copy_bandwidth,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stay_one() {
        assert_eq!(quoted("a + b"), "a + b");
        assert_eq!(quoted("cpu (2 threads, Avx2)"), "\"cpu (2 threads, Avx2)\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
