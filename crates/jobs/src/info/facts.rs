//! Named facts about a file or about data in memory.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::path::Path;
use voxalign_image::Grid;

/// Facts in order, for people and programs alike. As data they are an object of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Names, such as `spacing_mm`, with values; what is null is known to be absent.
    pub list: Vec<(String, Value)>,
    /// Everything unusual, a sentence each; none where nothing was looked for.
    pub odd: Option<Vec<String>>,
    /// Whether people need no third axis in the map from index to world.
    pub flat: bool,
    /// The facts of parts, with headings: those of a composite transform, or the views of a file.
    pub parts: Vec<(String, Facts)>,
}

impl Facts {
    /// Of a file that holds this.
    pub(super) fn of_file(file: &Path, kind: &str) -> Self {
        let mut facts = Self::default();
        facts.put("file", file.display().to_string());
        facts.put("kind", kind);
        facts
    }

    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.list.push((name.to_owned(), value.into()));
    }

    /// Adds what is unusual, if anything: it was looked for.
    pub(super) fn strange(&mut self, odd: impl IntoIterator<Item = impl ToString>) {
        let all = self.odd.get_or_insert_default();
        all.extend(odd.into_iter().map(|odd| odd.to_string()));
    }

    /// Adds other facts of the same.
    pub(super) fn add(&mut self, other: Self) {
        self.list.extend(other.list);
        self.parts.extend(other.parts);
        if let Some(odd) = other.odd {
            self.strange(odd);
        }
    }

    /// The value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.list.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// All names with values; what is unusual comes last, as `odd`.
    #[must_use]
    pub fn rows(&self) -> Vec<(&str, Value)> {
        let list = self.list.iter().map(|(name, value)| (name.as_str(), value.clone()));
        list.chain(self.odd.as_ref().map(|odd| ("odd", json!(odd)))).collect()
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows().into_iter().map(|(name, value)| (name.to_owned(), value));
        let mut object: Map<_, _> = rows.collect();
        if !self.parts.is_empty() {
            let parts: Vec<_> = self.parts.iter().map(|(_, part)| part).collect();
            object.insert("parts".to_owned(), json!(parts));
        }
        object.serialize(to)
    }
}

/// A number in at most six decimals, without noise in its last digits.
#[must_use]
pub fn number(value: f64) -> String {
    let short = format!("{value:.6}");
    let short = short.trim_end_matches('0').trim_end_matches('.');
    match short {
        "-0" => "0".to_owned(),
        _ => short.to_owned(),
    }
}

/// The geometry of a grid.
///
/// ```
/// let grid = voxalign_image::Grid::axis_aligned([4, 5, 6], [1.0, 1.0, 2.5])?;
/// let facts = voxalign_jobs::info::of_grid(&grid);
/// assert_eq!(facts.get("spacing_mm"), Some(&serde_json::json!([1.0, 1.0, 2.5])));
/// # Ok::<(), voxalign_image::ImageError>(())
/// ```
#[must_use]
pub fn of_grid(grid: &Grid) -> Facts {
    let mut facts = Facts::default();
    facts.put("spacing_mm", grid.spacing().to_vec());
    facts.put("extent_mm", grid.extent().to_vec());
    facts.put("orientation", grid.orientation());
    facts.put("handedness", if grid.is_right_handed() { "right" } else { "left" });
    facts.put("obliqueness_degrees", grid.obliqueness().to_degrees());
    facts.put("skewness_degrees", grid.skewness().to_degrees());
    facts.put("origin_mm", grid.origin().as_slice().to_vec());
    facts.put("centre_mm", grid.centre().as_slice().to_vec());
    facts.put("index_to_world", json!(grid.to_world().rows()));
    facts
}

/// The range and the mean of values that are finite, and how many are not, which is a fact of the name `others`.
#[must_use]
pub fn of_values(values: &[f32], others: &str) -> (Facts, usize) {
    let mut facts = Facts::default();
    let finite = || values.iter().filter(|v| v.is_finite()).map(|&v| f64::from(v));
    let count = finite().count();
    let not_finite = values.len() - count;
    facts.put(others, not_finite);
    if count > 0 {
        let (low, high) = finite().fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        facts.put("smallest_value", low);
        facts.put("largest_value", high);
        facts.put("mean_value", finite().sum::<f64>() / count as f64);
        if low >= high {
            facts.strange([format!("the image is constant: {low} everywhere")]);
        }
    }
    (facts, not_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(2.0), "2");
        assert_eq!(number(-1e-12), "0");
        assert_eq!(number(0.1 + 0.2), "0.3");
    }
}
