//! A table that is both printed and shown in a page.

use crate::Host;
use voxalign_report::Table;
use voxalign_report::curves::CurveTable;

/// A table.
#[derive(Debug, Clone)]
pub(crate) struct Sheet {
    title: String,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Sheet {
    pub(crate) fn new<S: Into<String>>(
        title: impl Into<String>,
        headings: impl IntoIterator<Item = S>,
    ) -> Self {
        let headings = headings.into_iter().map(Into::into).collect();
        Self { title: title.into(), headings, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Gives it line by line, after an empty one.
    pub(crate) fn print(&self, host: &dyn Host) {
        host.line("");
        host.line(&self.title);
        let mut table = Table::new(self.headings.iter().cloned());
        self.rows.iter().for_each(|row| table.row(row.iter().cloned()));
        crate::table(host, &table);
    }

    /// For a page: all columns but the first ones hold numbers.
    pub(crate) fn of_page(&self, words: usize) -> CurveTable {
        let heading =
            |(i, h): (usize, &String)| if i < words { h.clone() } else { format!("#{h}") };
        CurveTable {
            title: self.title.clone(),
            headings: self.headings.iter().enumerate().map(heading).collect(),
            rows: self.rows.clone(),
        }
    }
}

/// A time in milliseconds, with digits that mean something.
pub(crate) fn ms(seconds: f64) -> String {
    let ms = seconds * 1e3;
    match ms {
        v if !v.is_finite() => "-".to_owned(),
        v if v < 10.0 => format!("{v:.3}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
