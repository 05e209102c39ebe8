//! `voxalign info`: shows the contents of a file and anything unusual about it.

use crate::args::{JsonArgs, caller};
use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Print, Table};
use crate::progress::{Printer, Talk};
use clap::Args;
use serde_json::{Value, json};
use voxalign_jobs::info::{Facts, Job, number};

/// Arguments of `voxalign info`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign info t1.nii.gz
  voxalign info out/affine.tfm --json
  voxalign info --header-only subjects/*.nii.gz
      of several files, one after the other; with --json a list
  voxalign info 1Warp.nii.gz
  voxalign info out/affine.fsl.mat --fixed-geometry fixed.nii.gz --moving-geometry moving.nii.gz
  voxalign info landmarks.csv
  voxalign info lh.pial.gii
  voxalign info sim/ap.png sim/views.toml")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    json: JsonArgs,
}

/// Shows the files. A file that cannot be read ends the command, after those before it.
pub(crate) fn run(args: InfoArgs) -> Result<Outcome, Failure> {
    let InfoArgs { job, json } = args;
    start_threads(None)?;
    job.check()?;
    let (caller, printer) = (caller("info", None), Printer::lines(Talk::Normal));
    let mut all = Vec::new();
    for (i, file) in job.files.iter().enumerate() {
        let facts = job.about(file, &caller, &printer)?;
        if json.json {
            all.push(facts);
            continue;
        }
        if i > 0 {
            output::line("");
        }
        print(&facts);
    }
    match &all[..] {
        [] => {}
        [only] => output::json(only)?,
        several => output::json(&several)?,
    }
    Ok(Outcome::Good)
}

/// Prints facts, and those of the parts below them.
fn print(facts: &Facts) {
    let mut table = Table::default();
    for (name, value) in &facts.rows() {
        let in_plane = (facts.flat && *name == "index_to_world").then(|| in_plane(value));
        let value = in_plane.as_ref().unwrap_or(value);
        let name = name.replace('_', " ");
        match value {
            Value::Null => {}
            Value::Array(list) if list.is_empty() => {
                table.row([name, "none".to_owned()]);
            }
            Value::Array(rows) if rows.iter().any(Value::is_array) => {
                for (i, row) in rows.iter().enumerate() {
                    let label = if i == 0 { name.as_str() } else { "" };
                    table.row([label.to_owned(), text(row)]);
                }
            }
            Value::Array(lines) if lines.iter().any(Value::is_string) => {
                for (i, line) in lines.iter().take(MOST_LINES).enumerate() {
                    let label = if i == 0 { name.as_str() } else { "" };
                    table.row([label.to_owned(), text(line)]);
                }
                if lines.len() > MOST_LINES {
                    let more = lines.len() - MOST_LINES;
                    table.row([String::new(), format!("and {more} more (--json has all)")]);
                }
            }
            _ => table.row([name, text(value)]),
        }
    }
    table.print_left();
    for (name, part) in &facts.parts {
        output::line(&format!("\n{name}"));
        print(part);
    }
}

/// Most lines of a list that people are shown.
const MOST_LINES: usize = 100;

/// The first two rows of a matrix, without the column of the third axis.
fn in_plane(matrix: &Value) -> Value {
    let row = |row: &Value| json!([row[0], row[1], row[3]]);
    json!([row(&matrix[0]), row(&matrix[1])])
}

/// A value for people.
fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Bool(b) => (if *b { "yes" } else { "no" }).to_owned(),
        Value::Number(n) => match n.as_f64() {
            Some(v) if n.is_f64() => number(v),
            _ => n.to_string(),
        },
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join("  "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_short() {
        assert_eq!(text(&json!([1.5, 2.0])), "1.5  2");
    }
}
