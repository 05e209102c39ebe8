//! Tables of what was measured, beside what was printed.

use super::Results;
use crate::files::quoted;
use crate::sheet::{Sheet, ms};
use serde::Serialize;
use std::fmt::Write as _;

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Measured {
    /// The part that it is of.
    pub(super) part: &'static str,
    pub(super) title: String,
    /// What the first column is.
    pub(super) of: &'static str,
    /// The numbers of a row, with their units.
    pub(super) quantities: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    /// What was done, such as a size.
    pub(super) what: String,
    /// Where.
    pub(super) on: String,
    /// Whether it is what the thesis prints.
    pub(super) published: bool,
    /// One a quantity, where it is known.
    pub(super) values: Vec<Option<f64>>,
}

impl Row {
    /// What was measured.
    pub(super) fn new(what: &str, on: &str, values: Vec<Option<f64>>) -> Self {
        Self { what: what.to_owned(), on: on.to_owned(), published: false, values }
    }

    /// What the thesis prints.
    pub(super) fn published(what: &str, on: &str, values: Vec<Option<f64>>) -> Self {
        Self { published: true, ..Self::new(what, &format!("thesis: {on}"), values) }
    }
}

impl Measured {
    /// For printing and for pages: after rows of one kind come those that were printed.
    pub(super) fn sheet(&self) -> Sheet {
        let headings = [self.of, "on"].into_iter().chain(self.quantities.iter().copied());
        let mut sheet = Sheet::new(self.title.clone(), headings);
        for row in &self.rows {
            // The digits are those of times.
            let number = |v: &Option<f64>| v.map_or_else(|| "-".to_owned(), |v| ms(v * 1e-3));
            let words = [row.what.clone(), row.on.clone()].into_iter();
            sheet.row(words.chain(row.values.iter().map(number)));
        }
        sheet
    }
}

/// A row for every number.
pub(super) fn csv(results: &Results) -> String {
    let mut text = "version,device,part,what,on,published,quantity,value\n".to_owned();
    let start = [results.version, &results.device].map(quoted).join(",");
    for table in &results.tables {
        for row in &table.rows {
            let words = [table.part, &row.what, &row.on].map(quoted).join(",");
            for (quantity, value) in table.quantities.iter().zip(&row.values) {
                let Some(value) = value else { continue };
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "{start},{words},{},{},{value}",
                    row.published,
                    quoted(quantity)
                );
            }
        }
    }
    text
}
