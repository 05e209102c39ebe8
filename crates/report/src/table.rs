//! Tables as plain text.

/// A table for people: the first column to the left, the others to the right.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Row before which a blank line is left.
    gaps: Vec<usize>,
}

impl Table {
    /// A table with its headings.
    #[must_use]
    pub fn new<S: Into<String>>(headings: impl IntoIterator<Item = S>) -> Self {
        let mut table = Self::default();
        table.row(headings);
        table
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Leaves a blank line before the next row.
    pub fn gap(&mut self) {
        self.gaps.push(self.rows.len());
    }

    /// The table as text, columns aligned.
    #[must_use]
    pub fn render(&self) -> String {
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

    /// The table as text with all columns to the left.
    #[must_use]
    pub fn render_left(&self) -> String {
        let first = self.rows.iter().filter_map(|r| r.first());
        let width = first.map(|s| s.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let (name, rest) = row.split_first().map_or(("", &[][..]), |(n, r)| (n.as_str(), r));
            text.push_str(format!("{name:<width$}  {}", rest.join("  ")).trim_end());
            text.push('\n');
        }
        text
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
