//! Lists of subjects: images named on the command line, or a CSV file with a line for each.

use crate::anatomy::{Anatomy, is_anatomy};
use crate::error::{Error, Result};
use crate::listener::Listener;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use voxalign_options::text;

/// A subject as it was listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its name: that of its first file without the extension, and a number where there are several.
    pub name: String,
    /// Its images, one a channel.
    pub channels: Vec<PathBuf>,
    /// What counts of them, above 0.
    pub mask: Option<PathBuf>,
    /// What it is made of, where its file lists that instead of being an image.
    pub anatomy: Option<Anatomy>,
    /// A label map, to report the overlap.
    pub labels: Option<PathBuf>,
    /// What it counts.
    pub weight: f64,
    /// The numbers of all other columns.
    pub covariates: BTreeMap<String, f64>,
}

impl Entry {
    fn of(path: PathBuf) -> Self {
        let (mask, labels, weight, anatomy) = (None, None, 1.0, None);
        let (name, covariates) = (stem(&path), BTreeMap::new());
        Self { name, channels: vec![path], mask, labels, weight, covariates, anatomy }
    }

    /// All of its files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let others = self.mask.iter().chain(&self.labels);
        let parts = self.anatomy.iter().flat_map(|a| &a.parts);
        let parts = parts.flat_map(|p| p.source.paths().into_iter().chain(p.source.names()));
        self.channels.iter().chain(others).map(PathBuf::as_path).chain(parts)
    }
}

/// The most bytes that a file system has for a name.
const LONGEST: usize = 255;

/// Refuses what cannot be the name of a subject, which is that of its folder later on: on any system, and on one
/// line of a message.
fn check_name(name: &str) -> Result<(), String> {
    let why = match name {
        "" => "it is empty".to_owned(),
        "." | ".." => "it denotes an existing folder".to_owned(),
        _ if name.contains(['/', '\\']) => "it contains a slash".to_owned(),
        _ if name.chars().any(char::is_control) => {
            "it contains a line break or another control character".to_owned()
        }
        _ if name.len() > LONGEST => format!("it has {} bytes, more than {LONGEST}", name.len()),
        _ => return Ok(()),
    };
    let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
    let dots = if name.chars().count() > 40 { "..." } else { "" };
    Err(format!(
        "'{shown}{dots}' cannot be the name of a subject, which is also that of its folder: {why}"
    ))
}

/// The name of a file without its extensions.
pub(crate) fn stem(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let known =
        [".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", ".img", ".hdr", ".gz", ".toml"];
    let end = known.iter().find(|e| name.to_lowercase().ends_with(*e));
    name[..name.len() - end.map_or(0, |e| e.len())].to_owned()
}

/// Images as they are named, one a subject.
///
/// # Errors
/// Names that cannot be those of subjects.
pub fn of_images(images: &[PathBuf]) -> Result<Vec<Entry>> {
    let mut entries: Vec<_> = images.iter().cloned().map(Entry::of).collect();
    name_apart(entries.iter_mut());
    for entry in &entries {
        check_name(&entry.name).map_err(|e| {
            Error::input(text!(
                "the image '{}': {e}; rename the file, or give a list with a column 'name' by `list`",
                entry.channels[0].display().to_string().escape_debug()
            ))
        })?;
    }
    Ok(entries)
}

/// Reads the anatomies among what was listed: files that end in `.toml`.
///
/// # Errors
/// What is wrong with one; images and anatomies in one list.
pub(crate) fn read_anatomies(entries: &mut [Entry], listener: &dyn Listener) -> Result<()> {
    let Some(first) = entries.iter().flat_map(|e| &e.channels).find(|path| is_anatomy(path)) else {
        return Ok(());
    };
    let first = first.display().to_string();
    for entry in entries {
        let [path] = &*entry.channels else {
            return Err(Error::input(text!(
                "'{first}' is an anatomy file, but '{}' has several channels; list them as [[image]] in a file \
                 of an anatomy",
                entry.name
            )));
        };
        if !is_anatomy(path) {
            return Err(Error::input(text!(
                "'{first}' is an anatomy file, but '{}' is not; give only anatomy files or only images",
                path.display()
            )));
        }
        entry.anatomy = Some(Anatomy::read(path, listener)?);
    }
    Ok(())
}

/// What two names must not share: some file systems do not tell capitals from small letters.
fn folded(name: &str) -> String {
    name.to_lowercase()
}

/// Gives subjects that have the same name from their files numbers.
fn name_apart<'a>(entries: impl Iterator<Item = &'a mut Entry>) {
    apart_from(BTreeSet::new(), entries);
}

/// The same, apart from names that are taken.
fn apart_from<'a>(mut taken: BTreeSet<String>, entries: impl Iterator<Item = &'a mut Entry>) {
    for entry in entries {
        let mut name = entry.name.clone();
        let mut number = 2;
        while !taken.insert(folded(&name)) {
            name = format!("{}-{number}", entry.name);
            number += 1;
        }
        entry.name = name;
    }
}

/// A line of a list.
struct Line {
    number: u64,
    entry: Entry,
    /// Whether it has a name of its own, and not that of its file.
    named: bool,
}

/// Names that are subjects' own are taken as they are, and those of files apart from them.
fn named(mut lines: Vec<Line>) -> Result<Vec<Entry>, String> {
    let mut taken: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for Line { number, entry, .. } in lines.iter().filter(|l| l.named) {
        if let Some((first, other)) = taken.get(&folded(&entry.name)) {
            let same = if *other == entry.name {
                ""
            } else {
                ", which some file systems do not distinguish"
            };
            return Err(format!(
                "line {number}: the name '{}' is taken by line {first} ('{other}'){same}; give each subject a name \
                 of its own",
                entry.name
            ));
        }
        taken.insert(folded(&entry.name), (*number, entry.name.clone()));
    }
    let unnamed = lines.iter_mut().filter(|l| !l.named).map(|l| &mut l.entry);
    apart_from(taken.into_keys().collect(), unnamed);
    for Line { number, entry, named } in &lines {
        check_name(&entry.name).map_err(|e| {
            let remedy =
                if *named { "give another name" } else { "give a name in a column 'name'" };
            format!("line {number}: {e}; {remedy}")
        })?;
    }
    Ok(lines.into_iter().map(|l| l.entry).collect())
}

/// The columns that are not numbers.
const PATHS: [&str; 3] = ["path", "mask", "labels"];

/// Reads a list: a header line with `path` and, in any order, `name`, `mask`, `labels`, `weight`,
/// `channel2`, `channel3`, ... and numbers of any name, such as `age`. Paths are relative to the folder
/// of the list. An empty field is none.
///
/// # Errors
/// What is wrong with the list, with the line.
pub fn of_csv(list: &Path) -> Result<Vec<Entry>> {
    let wrong = |what: String| Error::input(text!("the list '{}': {what}", list.display()));
    let text = voxalign_io::text::read(list)?;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| wrong(e.to_string()))?.clone();
    let columns: Vec<String> = header.iter().map(str::to_lowercase).collect();
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
    let mut lines = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| wrong(e.to_string()))?;
        let number = row.position().map_or(0, csv::Position::line);
        let (entry, named) =
            entry(&columns, &row, folder).map_err(|e| wrong(format!("line {number}: {e}")))?;
        lines.push(Line { number, entry, named });
    }
    if lines.is_empty() {
        return Err(wrong("it has only a header line; add a line for each subject".into()));
    }
    let entries = named(lines).map_err(wrong)?;
    let channels = entries[0].channels.len();
    if let Some(other) = entries.iter().find(|e| e.channels.len() != channels) {
        return Err(wrong(format!(
            "'{}' has {} channels but '{}' has {channels}; give all subjects the same channels",
            other.name,
            other.channels.len(),
            entries[0].name
        )));
    }
    Ok(entries)
}

/// A subject, and whether it has a name of its own.
fn entry(
    columns: &[String],
    row: &csv::StringRecord,
    folder: &Path,
) -> Result<(Entry, bool), String> {
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
            "name" => name = Some(field.to_owned()),
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
    let named = name.is_some();
    entry.name = name.unwrap_or_else(|| stem(&path));
    entry.channels = std::iter::once(path).chain(further.into_values()).collect();
    Ok((entry, named))
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
        let names = |images: &[PathBuf]| -> Vec<_> {
            of_images(images).unwrap().into_iter().map(|e| e.name).collect()
        };
        assert_eq!(names(&images), ["a", "a-2", "a-2-2"]);
        // Some file systems do not tell capitals from small letters.
        assert_eq!(
            names(&["A.nii", "a.nii", "\u{c9}.nii", "\u{e9}.mha"].map(PathBuf::from)),
            ["A", "a-2", "\u{c9}", "\u{e9}-2"]
        );
    }

    /// What is a folder, a path, or nothing.
    const BAD_NAMES: [(&str, &str); 9] = [
        ("..", "'..' cannot be the name of a subject"),
        (".", "'.' cannot be the name of a subject"),
        ("a/b", "a slash"),
        ("../../etc/x", "a slash"),
        ("a\\b", "a slash"),
        ("a\nb", "a line break"),
        ("a\tb", "control character"),
        ("a\u{7f}b", "control character"),
        ("a\u{0}b", "UTF-16"),
    ];

    #[test]
    fn names_that_are_no_folders_are_refused_by_their_line() {
        let long = "n".repeat(256);
        for (name, said) in BAD_NAMES.iter().copied().chain([(long.as_str(), "256 bytes")]) {
            let error = read(&format!("path,name\na,x\nb,\"{name}\"\n")).unwrap_err();
            assert!(error.contains(said), "{name:?}: {error}");
            assert!(error.contains("line 3") || said == "UTF-16", "{name:?}: {error}");
            assert!(
                !error.contains('\n') && !error.contains('\t') && error.len() < 300,
                "{error:?}"
            );
        }
        assert!(read(&format!("path,name\na,{}\n", &long[1..])).is_ok());
        // An empty field is none: the name is that of the file.
        assert_eq!(read("path,name\nx/y.nii,\n").unwrap()[0].name, "y");
        // Names that come from files.
        for (path, said) in [
            ("x/.nii.gz", "it is empty"),
            ("x/..nii", "'.' cannot"),
            ("...nii", "'..' cannot"),
            ("a\\b.nii", "a slash"),
            ("\"a\nb.nii\"", "a line break"),
        ] {
            let error = read(&format!("path\na\n{path}\n")).unwrap_err();
            assert!(error.contains("line 3") && error.contains(said), "{path}: {error}");
            let image = PathBuf::from(path.trim_matches('"'));
            let error = of_images(&[image]).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("`list`"), "{path}: {error}");
        }
    }

    #[test]
    fn no_two_subjects_have_one_name() {
        let error = read("path,name\na,x\nb,y\nc,x\n").unwrap_err();
        assert!(error.contains("line 4: the name 'x' is taken by line 2"), "{error}");
        let error = read("path,name\na,Anna\nb,anna\n").unwrap_err();
        assert!(
            error.contains("line 3") && error.contains("line 2 ('Anna'), which some file systems"),
            "{error}"
        );
        // Those of files give way, wherever they are.
        let names: Vec<_> =
            read("path,name\nx.nii,\nb,X\n").unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["x-2", "X"]);
    }

    #[test]
    fn lists_in_other_encodings_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.csv");
        let wide: Vec<u8> = std::iter::once('\u{feff}')
            .chain("path,age\na,1\n".chars())
            .flat_map(|c| (c as u16).to_le_bytes())
            .collect();
        for (bytes, said) in [(&wide[..], "UTF-16"), (b"path,name\na,M\xfcller\n", "line 2")] {
            std::fs::write(&path, bytes).unwrap();
            let error = of_csv(&path).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("save"), "{error}");
            assert!(error.contains("list.csv") && error.contains("UTF-8"), "{error}");
        }
        std::fs::write(&path, b"\xef\xbb\xbfpath\na\n").unwrap();
        assert_eq!(of_csv(&path).unwrap().len(), 1);
    }
}
