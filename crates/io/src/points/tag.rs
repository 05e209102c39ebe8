//! Tags of MNI (.tag): points of one volume, or pairs of points of two. The world of MINC is RAS mm.
//! Source: the file format of MNI's Display and register, as `tagtoxfm` reads it.

use super::columns::{Columns, LABEL, text};
use super::{Gathered, PointFormat, PointInfo, ReadOptions, coordinate};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use nalgebra::Vector3;
use std::path::Path;
use voxalign_image::PointSet;

/// The columns of numbers that may follow coordinates. Weights are 0 where nobody has said any, so that they are no
/// weights of landmarks.
const NUMBERS: [&str; 3] = ["tag_weight", "structure_id", "patient_id"];

/// A word of the file with its line, or a text in quotes.
struct Word<'a> {
    line: usize,
    text: &'a str,
    quoted: bool,
}

/// Words, without comments; `=` and `;` are words.
fn words<'a>(path: &'a Path, text: &'a str) -> impl Iterator<Item = Result<Word<'a>>> {
    let mut rest = text;
    let mut line = 1;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| !c.is_whitespace())?;
            line += rest[..start].matches('\n').count();
            rest = &rest[start..];
            if !rest.starts_with(['%', '#']) {
                break;
            }
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        }
        let first = rest.chars().next()?;
        if first == '"' {
            let Some(end) = rest[1..].find('"') else {
                rest = "";
                let problem = format!("line {line}: a label begins with '\"' and does not end");
                return Some(Err(IoError::malformed(path, problem, "close the quotes")));
            };
            let text = &rest[1..=end];
            rest = &rest[end + 2..];
            let at = line;
            line += text.matches('\n').count();
            return Some(Ok(Word { line: at, text, quoted: true }));
        }
        let end = match first {
            '=' | ';' => 1,
            _ => {
                rest.find(|c: char| c.is_whitespace() || "=;\"%#".contains(c)).unwrap_or(rest.len())
            }
        };
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Ok(Word { line, text, quoted: false }))
    })
}

/// One point of each volume, and what goes with them.
#[derive(Default)]
struct Tag<'a> {
    line: usize,
    numbers: Vec<&'a str>,
    label: &'a str,
}

/// How many volumes the beginning of a file says, where it is one of tags.
pub(super) fn volumes(text: &str) -> Option<usize> {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    if !text.starts_with("MNI Tag Point File") {
        return None;
    }
    let (_, after) = text.split_once("Volumes")?;
    let number = after.trim_start().strip_prefix('=')?.trim_start();
    Some(if number.starts_with('2') { 2 } else { 1 })
}

pub(super) fn read(
    path: &Path,
    text: &str,
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    let mut info = PointInfo::new(PointFormat::Tag);
    info.world(None, options);
    let wrong = |line: usize, problem: &str| {
        let remedy = "write 'Volumes = 1;', 'Points =', a point a line, and ';' at the end";
        IoError::malformed(path, format!("line {line}: {problem}"), remedy)
    };
    let after = text.find('\n').map_or("", |end| &text[end..]);
    let mut words = words(path, after);
    let mut next = |what: &str| -> Result<Word<'_>> {
        words.next().unwrap_or_else(|| {
            let problem = format!("the file ends before {what}");
            Err(IoError::malformed(path, problem, "copy it again: its points end with ';'"))
        })
    };
    let mut volumes = 1;
    loop {
        let key = next("'Points ='")?;
        let equals = next("'Points ='")?;
        if equals.text != "=" {
            return Err(wrong(key.line, &format!("'{}' is not expected here", shorten(key.text))));
        }
        if key.text == "Points" {
            break;
        }
        if key.text != "Volumes" {
            return Err(wrong(key.line, &format!("'{}' is not expected here", shorten(key.text))));
        }
        let number = next("the number of volumes")?;
        volumes = match number.text {
            "1" => 1,
            "2" => 2,
            other => {
                let problem = format!("'{}' volumes; there are 1 or 2", shorten(other));
                return Err(wrong(number.line, &problem));
            }
        };
        if next("';'")?.text != ";" {
            return Err(wrong(number.line, "there is no ';' after the number of volumes"));
        }
    }
    info.volumes = volumes;
    let chosen = match (volumes, options.volume) {
        (_, None) if volumes == 2 => {
            let problem = "it has the points of two volumes";
            let remedy = "say which as `volume` (0 or 1), for example with `voxalign convert IN.tag OUT.csv --volume 0`";
            return Err(IoError::malformed(path, problem, remedy));
        }
        (_, Some(volume)) if volume >= volumes => {
            let problem = format!("volume {volume} is asked for, but it has points of {volumes}");
            return Err(IoError::malformed(path, problem, "volumes are counted from 0"));
        }
        (_, volume) => volume.unwrap_or(0),
    };
    let mut gathered = Gathered::new(path, &["label", NUMBERS[0], NUMBERS[1], NUMBERS[2]]);
    let mut add = |tag: Tag<'_>| -> Result<()> {
        let least = 3 * volumes;
        // Coordinates alone, or a weight, a structure and a patient more.
        let given = tag.numbers.len();
        if given != least && given != least + 3 {
            return Err(wrong(
                tag.line,
                &format!(
                    "a point has {given} numbers; {least} are coordinates, and none or three may follow"
                ),
            ));
        }
        let mut p = Vector3::zeros();
        let place = format!("line {}", tag.line);
        for (i, word) in tag.numbers.iter().enumerate() {
            let value = coordinate(path, &place, word)?;
            if let Some(one) = i.checked_sub(3 * chosen).and_then(|axis| p.get_mut(axis)) {
                *one = value;
            }
        }
        let numbers = tag.numbers.get(least..).unwrap_or_default();
        let of = |i: usize| numbers.get(i).copied().unwrap_or_default();
        gathered.add(p, [tag.label, of(0), of(1), of(2)])
    };
    // A point ends where its line does, with its label, or with the list.
    let mut tag = Tag::default();
    loop {
        let word = next("the ';' after its points")?;
        let begins = word.text != ";" || word.quoted;
        if !tag.numbers.is_empty() && (!begins || word.line != tag.line) && !word.quoted {
            add(std::mem::take(&mut tag))?;
        }
        if !begins {
            break;
        }
        if word.quoted {
            tag.label = word.text;
            if tag.numbers.is_empty() {
                return Err(wrong(word.line, "a label has no point before it"));
            }
            add(std::mem::take(&mut tag))?;
            continue;
        }
        tag.line = word.line;
        tag.numbers.push(word.text);
        if tag.numbers.len() > 9 {
            return Err(wrong(word.line, "a point has more than 9 numbers"));
        }
    }
    if let Some(Ok(word)) = words.next() {
        return Err(wrong(word.line, "something follows the end of the points"));
    }
    for column in [NUMBERS[0], NUMBERS[1], NUMBERS[2]] {
        gathered.columns.retain(|(name, values)| {
            name != column || values.iter().any(|v| v.parse::<f64>().is_ok_and(|v| v != 0.0))
        });
    }
    Ok((gathered.finish()?, info))
}

pub(super) fn write(path: &Path, set: &PointSet) -> Result<Vec<String>> {
    let mut columns = Columns::new(set);
    let label = columns.take(&LABEL);
    let numbers = NUMBERS.map(|name| columns.take(&[name]));
    let mut lost = columns.lost("MNI tags");
    if set.is_2d() {
        lost.push("MNI tags have three coordinates: the third is 0".to_owned());
    }
    if label.is_some_and(|all| all.iter().any(|l| l.contains(['"', '\n']))) {
        lost.push("MNI tags hold no quotes within labels: they become single ones".to_owned());
    }
    atomic::write_file(path, |sink| {
        writeln!(sink, "MNI Tag Point File\nVolumes = 1;\n\nPoints =")?;
        for (i, p) in set.points().iter().enumerate() {
            write!(sink, " {} {} {}", p[0], p[1], p[2])?;
            for column in numbers {
                let number = text(column, i).parse::<f64>().ok().filter(|v| v.is_finite());
                write!(sink, " {}", number.unwrap_or(0.0))?;
            }
            if label.is_some() {
                let text = text(label, i).replace('"', "'").replace('\n', " ");
                write!(sink, " \"{text}\"")?;
            }
            writeln!(sink)?;
        }
        writeln!(sink, ";")
    })?;
    Ok(lost)
}
