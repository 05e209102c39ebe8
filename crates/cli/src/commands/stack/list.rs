//! Images as a table.

use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// Images, and their weights or none.
#[derive(Debug, PartialEq)]
pub(super) struct Images {
    pub(super) paths: Vec<PathBuf>,
    pub(super) weights: Vec<f64>,
}

impl Images {
    /// Reads a table with the column `path` and perhaps `weight`.
    pub(super) fn read(list: &Path) -> Result<Self, Failure> {
        let fail = |what: String| Failure::input(format!("'{}': {what}", list.display()));
        let read = |e: csv::Error| fail(format!("{e}; give a table with the column `path`"));
        let text = std::fs::read(list).map_err(|e| fail(format!("cannot read it: {e}")))?;
        // Spreadsheets mark their text.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let headings = reader.headers().map_err(read)?.clone();
        let place = |name: &str| headings.iter().position(|h| h == name);
        let unknown = headings.iter().find(|h| !["path", "weight"].contains(h));
        let Some(path_at) = place("path") else {
            return Err(fail("there is no column `path`; its first line has the headings".into()));
        };
        if let Some(heading) = unknown {
            return Err(fail(format!(
                "the column '{heading}' is not known; there may be `path` and `weight`"
            )));
        }
        let weight_at = place("weight");
        let folder = list.parent().unwrap_or(Path::new(""));
        let mut images = Self { paths: Vec::new(), weights: Vec::new() };
        for (i, row) in reader.records().enumerate() {
            let row = row.map_err(read)?;
            let line = i + 2;
            let path = row.get(path_at).filter(|p| !p.is_empty());
            let path = path.ok_or_else(|| fail(format!("line {line} has no path")))?;
            images.paths.push(folder.join(path));
            if let Some(at) = weight_at {
                let text = row.get(at).unwrap_or_default();
                let weight = text.parse::<f64>().ok().filter(|w| w.is_finite() && *w >= 0.0);
                images.weights.push(weight.ok_or_else(|| {
                    fail(format!("line {line}: '{text}' is no weight; give a number from 0 on"))
                })?);
            }
        }
        if images.paths.is_empty() {
            return Err(fail("it names no image".into()));
        }
        Ok(images)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Images::read(&path).map_err(|e| e.to_string())
        };
        let found = read("path,weight\na.nii,1\n \"b, c.nii\" , 0.5\n").unwrap();
        assert_eq!(found.weights, [1.0, 0.5]);
        assert_eq!(found.paths, ["a.nii", "b, c.nii"].map(|n| folder.path().join(n)));
        let found = read("\u{feff}path\n/x/a.nii\n").unwrap();
        assert_eq!((found.paths, found.weights), (vec![PathBuf::from("/x/a.nii")], Vec::new()));
        for (text, says) in [
            ("", "path"),
            ("path\n", "no image"),
            ("a.nii\nb.nii\n", "column `path`"),
            ("path,age\na,3\n", "'age'"),
            ("path,weight\na,-1\n", "line 2"),
            ("path,weight\na,1\nb,x\n", "line 3"),
            ("path,weight\n,1\n", "no path"),
            ("path,weight\na\n", "path"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says) && error.contains("list.csv"), "{text:?}: {error}");
        }
        assert!(Images::read(&folder.path().join("none.csv")).is_err());
    }
}
