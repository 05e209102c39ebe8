//! Lists of subjects: images named on the command line, or a CSV file with a line for each.

use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A subject as it was listed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Its name: that of its first file without the extension, and a number where there are several.
    pub(crate) name: String,
    /// Its images, one a channel.
    pub(crate) channels: Vec<PathBuf>,
    pub(crate) mask: Option<PathBuf>,
    pub(crate) labels: Option<PathBuf>,
    pub(crate) weight: f64,
    /// The numbers of all other columns.
    pub(crate) covariates: BTreeMap<String, f64>,
}

impl Entry {
    fn of(path: PathBuf) -> Self {
        let (mask, labels, weight) = (None, None, 1.0);
        let (name, covariates) = (stem(&path), BTreeMap::new());
        Self { name, channels: vec![path], mask, labels, weight, covariates }
    }

    /// All of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let others = self.mask.iter().chain(&self.labels);
        self.channels.iter().chain(others).map(PathBuf::as_path)
    }
}

/// The name of a file without its extensions.
fn stem(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let known = [".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".img", ".hdr", ".gz"];
    let end = known.iter().find(|e| name.to_lowercase().ends_with(*e));
    let kept = name.len() - end.map_or(0, |e| e.len());
    // A name is a folder later on.
    name[..kept].chars().map(|c| if c == '/' || c == '\\' { '_' } else { c }).collect()
}

/// The images of the command line.
pub(crate) fn of_images(images: &[PathBuf]) -> Vec<Entry> {
    named_apart(images.iter().cloned().map(Entry::of).collect())
}

/// Gives subjects of one name numbers.
fn named_apart(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut taken = BTreeSet::new();
    for entry in &mut entries {
        let mut name = entry.name.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{}-{number}", entry.name);
            number += 1;
        }
        entry.name = name;
    }
    entries
}

/// The columns that are not numbers.
const PATHS: [&str; 3] = ["path", "mask", "labels"];

/// Reads a list: a header line with `path` and, in any order, `name`, `mask`, `labels`, `weight`,
/// `channel2`, `channel3`, ... and numbers of any name, such as `age`. Paths are relative to the folder
/// of the list. An empty field is none.
pub(crate) fn of_csv(list: &Path) -> Result<Vec<Entry>, Failure> {
    let wrong = |what: String| Failure::input(format!("the list '{}': {what}", list.display()));
    let reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(list);
    let mut reader = reader.map_err(|e| wrong(format!("it cannot be read: {e}")))?;
    let header = reader.headers().map_err(|e| wrong(e.to_string()))?.clone();
    let columns: Vec<String> =
        header.iter().map(|c| c.trim_start_matches('\u{feff}').to_lowercase()).collect();
    if !columns.iter().any(|c| c == "path") {
        return Err(wrong(format!(
            "it has no column 'path' (its columns are {}); write a header line such as `path,weight,age`, \
             with commas between the columns",
            columns.join(", ")
        )));
    }
    if let Some(twice) = columns.iter().enumerate().find(|(i, c)| columns[..*i].contains(c)) {
        return Err(wrong(format!("it has two columns '{}'", twice.1)));
    }
    let folder = list.parent().unwrap_or(Path::new(""));
    let mut entries = Vec::new();
    for (number, row) in reader.records().enumerate() {
        let line = number + 2;
        let row = row.map_err(|e| wrong(e.to_string()))?;
        entries
            .push(entry(&columns, &row, folder).map_err(|e| wrong(format!("line {line}: {e}")))?);
    }
    if entries.is_empty() {
        return Err(wrong("it has only a header line; add a line for each subject".into()));
    }
    let channels = entries[0].channels.len();
    if let Some(other) = entries.iter().find(|e| e.channels.len() != channels) {
        return Err(wrong(format!(
            "'{}' has {} channels but '{}' has {channels}; give all subjects the same channels",
            other.name,
            other.channels.len(),
            entries[0].name
        )));
    }
    Ok(named_apart(entries))
}

fn entry(columns: &[String], row: &csv::StringRecord, folder: &Path) -> Result<Entry, String> {
    let mut path = None;
    let mut name = None;
    let mut further = BTreeMap::new();
    let mut entry = Entry::of(PathBuf::new());
    for (column, field) in columns.iter().zip(row).filter(|(_, f)| !f.is_empty()) {
        let number = || {
            let parsed = field.parse::<f64>().ok().filter(|v| v.is_finite());
            parsed.ok_or_else(|| format!("'{field}' in the column '{column}' is not a number"))
        };
        match column.as_str() {
            "name" => name = Some(field.replace(['/', '\\'], "_")),
            "path" => path = Some(folder.join(field)),
            "mask" => entry.mask = Some(folder.join(field)),
            "labels" => entry.labels = Some(folder.join(field)),
            "weight" => {
                entry.weight = number()?;
                if entry.weight <= 0.0 {
                    return Err(format!("the weight {field} is not above 0; leave the line out"));
                }
            }
            other => match other.strip_prefix("channel").and_then(|n| n.parse::<usize>().ok()) {
                Some(n) if n >= 2 => {
                    further.insert(n, folder.join(field));
                }
                Some(_) => {
                    return Err(format!("the column '{other}': channels count from channel2"));
                }
                None => {
                    entry.covariates.insert(other.to_owned(), number()?);
                }
            },
        }
    }
    let path = path.ok_or(format!("it has no {}", PATHS[0]))?;
    if let Some((i, n)) = further.keys().enumerate().find(|(i, n)| **n != i + 2) {
        return Err(format!("it has a channel{n}, but no channel{}", i + 2));
    }
    entry.name = name.unwrap_or_else(|| stem(&path));
    entry.channels = std::iter::once(path).chain(further.into_values()).collect();
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Entry>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.csv");
        std::fs::write(&path, text).unwrap();
        of_csv(&path).map_err(|e| e.to_string()).map(|mut entries| {
            let strip = |p: &mut PathBuf| *p = p.strip_prefix(folder.path()).unwrap().to_owned();
            for e in &mut entries {
                e.channels.iter_mut().chain(&mut e.mask).chain(&mut e.labels).for_each(strip);
            }
            entries
        })
    }

    #[test]
    fn lists() {
        let text = "path,weight,Age,mask,channel2,labels\n a.nii.gz , 2,71.5,,t2/a.nii,l.nii\n\
                    b/a.nii.gz,,60,m.nii,t2/b.nii,\n";
        let found = read(text).unwrap();
        assert_eq!((found[0].name.as_str(), found[1].name.as_str()), ("a", "a-2"));
        assert_eq!(found[0].channels, ["a.nii.gz", "t2/a.nii"].map(PathBuf::from));
        assert_eq!((found[0].weight, found[1].weight), (2.0, 1.0));
        assert_eq!(found[0].covariates["age"], 71.5);
        assert_eq!((&found[0].mask, found[1].mask.as_deref()), (&None, Some(Path::new("m.nii"))));
        assert_eq!(found[0].labels.as_deref(), Some(Path::new("l.nii")));
    }

    #[test]
    fn what_is_wrong_with_a_list_is_said() {
        for (text, said) in [
            ("file,age\na,3\n", "no column 'path'"),
            ("path;age\na;3\n", "with commas"),
            ("path\n", "only a header line"),
            ("path,age\na,old\n", "line 2: 'old' in the column 'age' is not a number"),
            ("path,weight\na,1\nb,0\n", "line 3: the weight 0 is not above 0"),
            ("path,channel2\na,b\nc,\n", "'c' has 1 channels"),
            ("path,channel3\na,b\n", "no channel2"),
            ("path,age,age\na,1,1\n", "two columns 'age'"),
            ("path,age\n,1\n", "line 2: it has no path"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }

    #[test]
    fn names_of_images() {
        let images = ["x/a.nii.gz", "y/a.nii", "a-2.mha"].map(PathBuf::from);
        let names: Vec<_> = of_images(&images).into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["a", "a-2", "a-2-2"]);
    }
}
