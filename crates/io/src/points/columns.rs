//! Attributes of points, by the names of columns.

use voxalign_image::PointSet;

/// The columns of a set that a format holds, and those that it does not.
pub(super) struct Columns<'a> {
    set: &'a PointSet,
    taken: Vec<usize>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(set: &'a PointSet) -> Self {
        Self { set, taken: Vec::new() }
    }

    /// The first column of one of these names.
    pub(super) fn take(&mut self, names: &[&str]) -> Option<&'a [String]> {
        let columns = self.set.columns();
        let at = names.iter().find_map(|name| {
            columns.iter().position(|(column, _)| column.trim().eq_ignore_ascii_case(name))
        })?;
        self.taken.push(at);
        Some(&columns[at].1)
    }

    /// What is left out, a sentence each.
    pub(super) fn lost(&self, what: &str) -> Vec<String> {
        let columns = self.set.columns().iter().enumerate();
        let left = columns.filter(|(i, _)| !self.taken.contains(i));
        left.map(|(_, (name, _))| format!("{what} hold no column '{name}': it is left out"))
            .collect()
    }
}

/// Names of the column that tells points apart.
pub(super) const LABEL: [&str; 3] = ["label", "name", "landmark"];

/// Names of the column that says more about them.
pub(super) const DESCRIPTION: [&str; 3] = ["description", "desc", "comment"];

/// The text of a point; nothing where there is no column.
pub(super) fn text(column: Option<&[String]>, point: usize) -> &str {
    column.and_then(|values| values.get(point)).map_or("", String::as_str)
}
