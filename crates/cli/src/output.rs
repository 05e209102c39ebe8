//! All that the program prints: results to standard output, messages to standard error.
//!
//! A reader that closes the pipe early (`voxalign info x | head -1`) is no error; a full disk is.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// The first error of standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// A line of the result.
pub(crate) fn line(text: &str) {
    keep(writeln!(io::stdout().lock(), "{text}"));
}

/// Remembers the first error.
fn keep(result: io::Result<()>) {
    if let Err(error) = result {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Shows what clap has to say, to standard output for `--help` and `--version`.
pub(crate) fn clap(message: &clap::Error) {
    let shown = message.print();
    if !message.use_stderr() {
        keep(shown);
    }
}

/// Whether all lines got out.
///
/// # Errors
/// [`Failure::Output`], but not for a pipe that its reader closed.
pub(crate) fn finish() -> Result<(), Failure> {
    keep(io::stdout().flush());
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(e.to_string())),
        _ => Ok(()),
    }
}

/// A line about the work.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Something the user should look at although the work goes on.
pub(crate) fn warning(text: &str) {
    note(&format!("voxalign: warning: {text}"));
}

/// Why the work did not get done.
pub(crate) fn error(text: &str) {
    note(&format!("voxalign: error: {text}"));
}

/// A result as indented JSON.
///
/// # Errors
/// [`Failure::Internal`] where it has no JSON form.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Failure::Internal(e.to_string()))?;
    line(&text);
    Ok(())
}

/// A table for people: the first column to the left, the others to the right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Row before which a blank line is left.
    gaps: Vec<usize>,
}

impl Table {
    /// A table with its headings.
    pub(crate) fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Self {
        let mut table = Self::default();
        table.row(headings);
        table
    }

    /// Adds a row.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Leaves a blank line before the next row.
    pub(crate) fn gap(&mut self) {
        self.gaps.push(self.rows.len());
    }

    /// The table as text, columns aligned.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(c));
            cells.map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            if self.gaps.contains(&i) {
                text.push('\n');
            }
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let width = widths[c];
                if c == 0 {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("  {cell:>width$}"));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// Prints the table with all columns to the left.
    pub(crate) fn print_left(&self) {
        let first = self.rows.iter().filter_map(|r| r.first());
        let width = first.map(|s| s.chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let (name, rest) = row.split_first().map_or(("", &[][..]), |(n, r)| (n.as_str(), r));
            line(format!("{name:<width$}  {}", rest.join("  ")).trim_end());
        }
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        line(self.render().trim_end_matches('\n'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut t = Table::new(["", "before", "after"]);
        t.row(["Dice", "0.1", "0.7000"]);
        t.gap();
        t.row(["volume in mm³", "1"]);
        assert_eq!(
            t.render(),
            "               before   after\nDice              0.1  0.7000\n\nvolume in mm³       1\n"
        );
    }
}
