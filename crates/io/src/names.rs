//! Label names, from the tables that come with label maps.
//!
//! | form | a line |
//! |---|---|
//! | FreeSurfer's colour table (`FreeSurferColorLUT.txt`) | `17  Left-Hippocampus  220 216 20 0` |
//! | ITK-SNAP's label description file | `17  220 216 20  1 1 1  "Left Hippocampus"` |
//! | CSV or TSV, with a header line or without one | `17,Left Hippocampus` |
//! | a segmentation of 3D Slicer (`.seg.nrrd`), in its header | `Segment0_Name:=Left Hippocampus` |
//!
//! Lines that begin with `#` are comments in all of them. The form is seen from the content. Colours, where a form has them, come with
//! [`labels::read_table`](crate::labels::read_table).

use crate::error::{IoError, Result, shorten};
use crate::labels::seg;
use crate::source::Source;
use std::collections::BTreeMap;
use std::path::Path;

/// The names of labels, by label.
pub type LabelNames = BTreeMap<i32, String>;

/// What a table says of each label.
pub(crate) type Entries = BTreeMap<i32, Entry>;

/// What a table says of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Where the table has one that is valid.
    pub(crate) colour: Option<[u8; 3]>,
}

/// Largest size of a table, bytes.
const LARGEST: u64 = 1 << 26;
/// What a table looks like, for messages.
const FORMS: &str = "a table of label names is FreeSurfer's colour table, ITK-SNAP's label description \
                     file, a segmentation of 3D Slicer (.seg.nrrd), or CSV or TSV with a number and \
                     a name in each line, such as `17,Left Hippocampus`";
/// What columns of numbers and of names are called, without spaces and signs, in order of preference.
const NUMBERS: [&str; 12] = [
    "labelnumber",
    "number",
    "labelid",
    "labelvalue",
    "label",
    "index",
    "idx",
    "id",
    "value",
    "no",
    "key",
    "roi",
];
const NAMES: [&str; 10] = [
    "labelname",
    "name",
    "roiname",
    "structurename",
    "regionname",
    "structure",
    "region",
    "description",
    "anatomy",
    "label",
];

/// Reads the names of labels from a table.
///
/// # Errors
/// A missing file; a text that is not UTF-8; a line without a whole number and a name; two names for
/// one label; a table without any.
pub fn read_label_names(path: impl AsRef<Path>) -> Result<LabelNames> {
    read_entries(path.as_ref()).map(only_names)
}

/// As [`read_label_names`], from the bytes of a file; `name` appears in messages.
///
/// # Errors
/// As [`read_label_names`].
pub fn read_label_names_from_bytes(name: impl AsRef<Path>, bytes: &[u8]) -> Result<LabelNames> {
    of_source(&Source::memory(name.as_ref(), bytes)).map(only_names)
}

fn only_names(entries: Entries) -> LabelNames {
    entries.into_iter().map(|(label, entry)| (label, entry.name)).collect()
}

/// Reads what a table says of each label.
pub(crate) fn read_entries(path: &Path) -> Result<Entries> {
    of_source(&Source::open(path)?)
}

fn of_source(source: &Source<'_>) -> Result<Entries> {
    const NRRD: &[u8] = b"NRRD0";
    // The values of an image may be many more bytes than a table has.
    if source.head(NRRD.len())?.0 == NRRD {
        return seg::entries(source);
    }
    of_text(source.path(), &source.read_all(LARGEST)?)
}

fn of_text(path: &Path, bytes: &[u8]) -> Result<Entries> {
    let wrong = |problem: String| IoError::malformed(path, problem, FORMS);
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let remedy = "save it as UTF-8, in a spreadsheet as `CSV UTF-8`";
        return Err(IoError::malformed(path, "the text is in UTF-16", remedy));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes)
        .map_err(|_| IoError::malformed(path, "the text is not UTF-8", "save it as UTF-8 text"))?;
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim_end()))
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .collect();
    let Some(&(_, first)) = lines.first() else {
        return Err(wrong("it has no line with a label".to_owned()));
    };
    let mut names = Names::default();
    if snap(first).is_some() {
        for &(number, line) in &lines {
            names.add(number, snap(line)).map_err(wrong)?;
        }
    } else if let Some(sign) = [',', '\t', ';'].into_iter().find(|&s| separates(&lines, s)) {
        separated(&lines, sign, &mut names).map_err(wrong)?;
    } else {
        for &(number, line) in &lines {
            names.add(number, spaced(line)).map_err(wrong)?;
        }
    }
    if names.found.is_empty() {
        return Err(wrong("it has a header line only".to_owned()));
    }
    Ok(names.found.into_iter().map(|(label, (_, entry))| (label, entry)).collect())
}

/// The names that were found, with the lines they are in.
#[derive(Default)]
struct Names {
    found: BTreeMap<i32, (usize, Entry)>,
}

impl Names {
    fn add(&mut self, line: usize, one: Option<(i32, Entry)>) -> std::result::Result<(), String> {
        let Some((label, entry)) = one else {
            return Err(format!("line {line} has no whole number with a name"));
        };
        if let Some((first, other)) = self.found.get(&label)
            && other.name != entry.name
        {
            return Err(format!(
                "the label {label} is called '{}' in line {first} and '{}' in line {line}",
                shorten(&other.name),
                shorten(&entry.name)
            ));
        }
        self.found.entry(label).or_insert((line, entry));
        Ok(())
    }
}

/// A name without what tables have around it; none where nothing is left.
pub(crate) fn cleaned(name: &str) -> Option<String> {
    let name = name.trim().trim_matches('"').trim();
    let plain: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    (!plain.is_empty()).then_some(plain)
}

/// A colour of three whole numbers up to 255.
fn colour(numbers: &[&str]) -> Option<[u8; 3]> {
    let numbers: Option<Vec<u8>> = numbers.iter().map(|n| n.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// A line of ITK-SNAP: seven numbers, and a name in quotes.
fn snap(line: &str) -> Option<(i32, Entry)> {
    let (numbers, quoted) = line.trim().split_once('"')?;
    let name = quoted.strip_suffix('"')?;
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    let all = numbers.len() == 7 && numbers.iter().all(|n| n.parse::<f64>().is_ok());
    let label = numbers.first()?.parse().ok().filter(|_| all)?;
    let colour = numbers.get(1..4).and_then(colour);
    Some((label, Entry { name: cleaned(name)?, colour }))
}

/// A line of words: a number and a name; what follows it, where that is three numbers or four, is the
/// colour of FreeSurfer.
fn spaced(line: &str) -> Option<(i32, Entry)> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let label = words.first()?.parse().ok()?;
    words.remove(0);
    let numbers = words.iter().rev().take_while(|w| w.parse::<f64>().is_ok()).count();
    let mut rgb = None;
    if numbers >= 3 && words.len() > numbers.min(4) {
        let last = words.split_off(words.len() - numbers.min(4));
        rgb = last.get(..3).and_then(colour);
    }
    Some((label, Entry { name: cleaned(&words.join(" "))?, colour: rgb }))
}

/// Whether a sign stands between the values of nearly all lines.
fn separates(lines: &[(usize, &str)], sign: char) -> bool {
    lines.iter().filter(|(_, line)| line.contains(sign)).count() * 10 >= lines.len() * 9
}

/// Lines of values with a sign between them; where the first has no number, it says what the columns are.
fn separated(
    lines: &[(usize, &str)],
    sign: char,
    names: &mut Names,
) -> std::result::Result<(), String> {
    let values = |line: &str| -> Vec<String> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter(sign as u8)
            .trim(csv::Trim::All)
            .from_reader(line.as_bytes());
        let record = reader.records().next().and_then(std::result::Result::ok);
        record.map_or_else(Vec::new, |r| r.iter().map(str::to_owned).collect())
    };
    let whole = |text: &str| text.parse::<i32>().ok();
    let first = values(lines[0].1);
    let has_header = !first.iter().any(|v| whole(v).is_some());
    let (number, name) = if has_header {
        let plain: Vec<String> = first
            .iter()
            .map(|v| v.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect())
            .collect();
        let find = |known: &[&str], not: Option<usize>| {
            let at =
                |word: &&str| plain.iter().position(|p| p == *word).filter(|i| Some(*i) != not);
            known.iter().find_map(at)
        };
        // In `Index,Label` the label is the name, in `Label,Name` the number.
        let name = find(&NAMES[..9], None);
        let number = match find(&NUMBERS, name) {
            Some(at) if name.is_none() && plain[at] == "label" => {
                find(&NUMBERS, Some(at)).or(Some(at))
            }
            other => other,
        };
        let name = name.or_else(|| find(&NAMES, number));
        match (number, name) {
            (Some(number), Some(name)) => (number, name),
            _ => {
                return Err(format!(
                    "its first line is '{}', and does not say which columns have the numbers and the \
                     names",
                    shorten(lines[0].1)
                ));
            }
        }
    } else {
        let number = first.iter().position(|v| whole(v).is_some()).unwrap_or(0);
        let name = (0..first.len()).find(|&i| i != number && first[i].parse::<f64>().is_err());
        (number, name.unwrap_or(1))
    };
    for &(line, text) in &lines[usize::from(has_header)..] {
        let values = values(text);
        let value = |i: usize| values.get(i).map(String::as_str).unwrap_or_default();
        let entry = cleaned(value(name)).map(|name| Entry { name, colour: None });
        let one = whole(value(number)).zip(entry);
        names.add(line, one)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<LabelNames> {
        read_label_names_from_bytes("names.txt", text.as_bytes())
    }

    fn names(list: &[(i32, &str)]) -> LabelNames {
        list.iter().map(|(label, name)| (*label, (*name).to_owned())).collect()
    }

    #[test]
    fn all_forms() {
        let expected = names(&[(0, "Unknown"), (17, "Left-Hippocampus")]);
        for text in [
            "#$Id: FreeSurferColorLUT.txt\n\n#No. Label Name: R G B A\n\n0   Unknown    0   0   0   0\n\
             17  Left-Hippocampus                        220 216 20  0\n",
            "0\tUnknown\t0\t0\t0\t0\r\n17\tLeft-Hippocampus\t220\t216\t20\t0\r\n",
            "################\n# ITK-SnAP Label Description File\n    0     0    0    0        0  0  0    \
             \"Unknown\"\n   17   220  216   20        1  1  1    \"Left-Hippocampus\"\n",
            "0,Unknown\n17,Left-Hippocampus\n",
            "\u{feff}Label Number,Label Name,Class\n0,Unknown,None\n17,Left-Hippocampus,\n",
            "number\tname\n0\tUnknown\n17\tLeft-Hippocampus\n",
            "name;colour;index\nUnknown;1 2 3;0\n\"Left-Hippocampus\";x;17\n",
            "Index,Label\n0,Unknown\n17,Left-Hippocampus\n",
            "Label,Description\n0,Unknown\n17,Left-Hippocampus\n",
            "Left-Hippocampus,17\nUnknown,0\n",
            "0 Unknown\n17 Left-Hippocampus\n17 Left-Hippocampus\n",
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn names_of_several_words() {
        let expected = names(&[(47, "Right Hippocampus, all"), (48, "Area 4 a")]);
        for text in [
            "47,\"Right Hippocampus, all\"\n48,Area 4 a\n",
            "47 0 0 0 1 1 1 \"Right Hippocampus, all\"\n48 9 9 9 1 1 1 \"Area 4 a\"\n",
            "47\tRight Hippocampus, all\n48\tArea 4 a\n",
            "47 Right Hippocampus, all\n48 Area 4 a\n",
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_table_is_told() {
        for (text, said) in [
            ("", "no line with a label"),
            ("# nothing\n", "no line with a label"),
            ("number,name\n", "header line only"),
            ("number,colour\n1,red\n", "which columns"),
            ("1,a\nx,b\n", "line 2"),
            ("1,a\n2,\n", "line 2"),
            ("1 a\n1 b\n", "the label 1 is called 'a' in line 1 and 'b' in line 2"),
            ("1 0 0 0 1 1 1 \"a\"\n2 b\n", "line 2"),
            ("1.5 a\n", "line 1"),
            ("99999999999 a\n", "line 1"),
        ] {
            let e = read(text).unwrap_err().to_string();
            assert!(e.contains(said) && e.contains("names.txt"), "{text:?}: {e}");
        }
        let utf16: Vec<u8> = [0xff, 0xfe, b'1', 0].into();
        let e = read_label_names_from_bytes("n.csv", &utf16).unwrap_err().to_string();
        assert!(e.contains("UTF-16") && e.contains("CSV UTF-8"), "{e}");
        assert!(read_label_names_from_bytes("n.csv", b"1,Gro\xdf\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_panic(text in "[\\PC\\n\\t\"#,;0-9]{0,200}") {
            let _ = read(&text);
        }

        #[test]
        fn csv_gives_what_was_written(
            list in proptest::collection::btree_map(any::<i32>(), "[A-Za-z][A-Za-z ,]{0,15}[a-z]", 1..20)
        ) {
            let text: String = list.iter().map(|(l, n)| format!("{l},\"{n}\"\n")).collect();
            prop_assert_eq!(read(&text).unwrap(), list);
        }
    }
}
