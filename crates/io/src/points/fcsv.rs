//! Fiducials of 3D Slicer in comma-separated lines (.fcsv): lines of `#` say what the columns are and in which world.
//! Source: 3D Slicer's documentation of the module Markups.

use super::columns::{Columns, DESCRIPTION, LABEL, text};
use super::{Gathered, PointConvention, PointFormat, PointInfo, ReadOptions, coordinate};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use nalgebra::Vector3;
use std::io;
use std::path::Path;
use voxalign_image::PointSet;

/// The columns of files that do not say theirs.
const COLUMNS: &str = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID";

/// What a value of these columns is where nobody has changed it, and what the columns are called here.
const USUAL: [(&str, &str, &str); 3] =
    [("vis", "visibility", "1"), ("sel", "selected", "1"), ("lock", "locked", "0")];

/// The status of a point that has a position: what comes after the last column of newer files.
const DEFINED: &str = "2";

/// What the lines of `#` say.
#[derive(Default)]
struct Head<'a> {
    columns: Option<&'a str>,
    stated: Option<PointConvention>,
}

/// Whether a text begins with lines of `#` as fiducials have them.
pub(super) fn is_head(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.map_while(|line| line.strip_prefix('#')).map(str::trim_start);
    let known = ["Markups fiducial", "Fiducial List", "columns", "CoordinateSystem"];
    said.take(20).any(|said| known.iter().any(|beginning| said.starts_with(beginning)))
}

fn head<'a>(path: &Path, text: &'a str) -> Result<Head<'a>> {
    let mut head = Head::default();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(said) = line.trim_start().strip_prefix('#') else { continue };
        let Some((key, value)) = said.split_once('=') else { continue };
        // A table program leaves commas behind.
        let (key, value) = (key.trim(), value.trim());
        match key {
            "columns" => head.columns = Some(value),
            "CoordinateSystem" => {
                let stated = match value.trim_end_matches([',', ' ']) {
                    "0" | "RAS" => PointConvention::Ras,
                    "1" | "LPS" => PointConvention::Lps,
                    "2" | "IJK" => {
                        let what = format!("line {number}: its points are voxel indices (IJK)");
                        let remedy = "save them again in RAS or LPS, or as an elastix list that begins with 'index'";
                        return Err(IoError::unsupported(path, what, remedy));
                    }
                    other => {
                        let problem = format!(
                            "line {number}: the coordinate system '{}' is not known",
                            shorten(other)
                        );
                        return Err(IoError::malformed(path, problem, "write RAS or LPS"));
                    }
                };
                if head.stated.is_some_and(|before| before != stated) {
                    let problem = format!(
                        "line {number} states another coordinate system than an earlier line"
                    );
                    return Err(IoError::malformed(path, problem, "leave one of them"));
                }
                head.stated = Some(stated);
            }
            _ => {}
        }
    }
    Ok(head)
}

pub(super) fn read(
    path: &Path,
    text: &str,
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    let head = head(path, text)?;
    let mut info = PointInfo::new(PointFormat::Fcsv);
    let convention = info.world(head.stated, options);
    if head.stated.is_none() && options.convention.is_none() {
        info.say(
            "it has no line '# CoordinateSystem': its points were taken for RAS, as 3D Slicer does",
        );
    }
    let columns: Vec<&str> = head.columns.unwrap_or(COLUMNS).split(',').map(str::trim).collect();
    // What a table program adds.
    let used = columns.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    let columns = &columns[..used];
    let at = |name: &str| columns.iter().position(|column| column.eq_ignore_ascii_case(name));
    let places = ["x", "y", "z"].map(at);
    let [Some(x), Some(y), Some(z)] = places else {
        let problem = "its line '# columns' names no x, y and z";
        let remedy = format!("write '# columns = {COLUMNS}'");
        return Err(IoError::malformed(path, problem, remedy));
    };
    let mut names = vec!["label", "description"];
    let mut from = vec![at("label"), at("desc")];
    for (column, name, _) in USUAL {
        names.push(name);
        from.push(at(column));
    }
    names.push("associatedNodeID");
    from.push(at("associatedNodeID"));
    let mut gathered = Gathered::new(path, &names);
    let mut undefined: Vec<String> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        if text.trim_start().starts_with('#') {
            continue;
        }
        let remedy = "write one point a line, with the columns that '# columns' names";
        let Some(record) = values(text) else { continue };
        if record.iter().all(str::is_empty) {
            continue;
        }
        if record.len() <= x.max(y).max(z) {
            let problem = format!(
                "line {line}: there are {} values where the coordinates are to be",
                record.len()
            );
            return Err(IoError::malformed(path, problem, remedy));
        }
        let of = |at: Option<usize>| at.and_then(|at| record.get(at)).unwrap_or_default();
        // Newer versions write whether the position was ever set, and a number more.
        let status = record.get(used).filter(|_| record.len() == used + 2);
        if status.is_some_and(|status| status != DEFINED) {
            undefined.push(of(at("label")).to_owned());
            continue;
        }
        let mut p = Vector3::zeros();
        for (one, at) in p.iter_mut().zip([x, y, z]) {
            *one = coordinate(path, &format_args!("line {line}"), of(Some(at)))?;
        }
        gathered.add(convention.convert(p), from.iter().map(|&at| of(at)))?;
    }
    without_usual(&mut gathered);
    info.leave_out(&undefined);
    Ok((gathered.finish()?, info))
}

/// The values of a line, of which those with commas are in quotes; nothing of an empty line.
fn values(line: &str) -> Option<csv::StringRecord> {
    let mut record = csv::StringRecord::new();
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .trim(csv::Trim::All)
        .buffer_capacity(line.len() + 1)
        .from_reader(line.as_bytes());
    // A line of UTF-8 has no record that cannot be read.
    matches!(reader.read_record(&mut record), Ok(true)).then_some(record)
}

/// Leaves out columns in which every value is the usual one.
pub(super) fn without_usual(gathered: &mut Gathered<'_>) {
    let usual = |name: &str| USUAL.iter().find(|(_, own, _)| *own == name).map(|usual| usual.2);
    gathered.columns.retain(|(name, values)| {
        usual(name).is_none_or(|usual| values.iter().any(|v| !v.is_empty() && v != usual))
    });
}

impl PointInfo {
    /// Notes points that have no position, by their labels.
    pub(super) fn leave_out(&mut self, labels: &[String]) {
        self.without_position = labels.len();
        if labels.is_empty() {
            return;
        }
        let some: Vec<_> = labels.iter().take(5).map(|l| format!("'{}'", shorten(l))).collect();
        let more = if labels.len() > 5 { ", …" } else { "" };
        self.say(format!(
            "{} points have no position in the file and were left out: {}{more}",
            labels.len(),
            some.join(", ")
        ));
    }
}

pub(super) fn write(
    path: &Path,
    set: &PointSet,
    convention: PointConvention,
) -> Result<Vec<String>> {
    let mut columns = Columns::new(set);
    let label = columns.take(&LABEL);
    let description = columns.take(&DESCRIPTION);
    let flags = USUAL.map(|(_, name, usual)| (columns.take(&[name]), usual));
    let node = columns.take(&["associatedNodeID"]);
    let mut lost = columns.lost("3D Slicer's fiducials");
    if set.is_2d() {
        lost.push("3D Slicer's fiducials have three coordinates: the third is 0".to_owned());
    }
    atomic::write_file(path, |sink| {
        writeln!(sink, "# Markups fiducial file version = 5.0")?;
        writeln!(sink, "# CoordinateSystem = {convention}")?;
        writeln!(sink, "# columns = {COLUMNS}")?;
        let mut writer = csv::Writer::from_writer(sink);
        for (i, &p) in set.points().iter().enumerate() {
            let p = convention.convert(p);
            let number = (i + 1).to_string();
            let mut record = csv::StringRecord::new();
            record.push_field(&number);
            p.iter().for_each(|v| record.push_field(&v.to_string()));
            ["0", "0", "0", "1"].iter().for_each(|v| record.push_field(v));
            for (flag, usual) in flags {
                let said = text(flag, i);
                record.push_field(if said.is_empty() { usual } else { said });
            }
            record.push_field(if label.is_some() { text(label, i) } else { &number });
            record.push_field(text(description, i));
            record.push_field(text(node, i));
            writer.write_record(&record)?;
        }
        writer.flush().map_err(io::Error::other)
    })?;
    Ok(lost)
}
