//! Comma-separated values with a header line.

use super::columns::{Columns, DESCRIPTION, LABEL, text};
use super::{PointConvention, PointFormat, PointInfo, ReadOptions, coordinate};
use crate::atomic;
use crate::error::{IoError, Result};
use nalgebra::Vector3;
use std::io;
use std::path::Path;
use voxalign_image::{PointSet, memory};

/// Reads a header line with columns `x`, `y`, `z` (in any case and order; further columns are kept as text), then one
/// point a line. Points of 2D images have `x` and `y` alone.
pub(super) fn read(
    path: &Path,
    text: &str,
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let wrong = |e: csv::Error| {
        IoError::malformed(
            path,
            e.to_string(),
            "give every line the same number of values as the header",
        )
    };
    let header = reader.headers().map_err(wrong)?.clone();
    if header.len() == 1 {
        not_csv(path, &header[0])?;
    }
    let mut columns = Vec::new();
    for name in ["x", "y", "z"] {
        let found: Vec<usize> = (0..header.len())
            .filter(|&i| header.get(i).is_some_and(|h| h.eq_ignore_ascii_case(name)))
            .collect();
        match found[..] {
            [only] => columns.push(only),
            // Points in a plane.
            [] if name == "z" => {}
            _ => {
                let problem = format!("the header line has {} columns named '{name}'", found.len());
                let remedy =
                    "begin with a line such as 'x,y,z' (of 2D images 'x,y'), coordinates in mm";
                return Err(IoError::malformed(path, problem, remedy));
            }
        }
    }
    let (mut info, convention) = world(&header, options);
    let mut further: Vec<(String, Vec<String>)> = Vec::new();
    let further_at: Vec<usize> = (0..header.len()).filter(|i| !columns.contains(i)).collect();
    for &i in &further_at {
        further.push((header.get(i).unwrap_or_default().into(), Vec::new()));
    }
    let mut points = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let mut point = Vector3::zeros();
        for (value, &i) in point.iter_mut().zip(&columns) {
            let line = record.position().map_or(0, csv::Position::line);
            let text = record.get(i).unwrap_or_default();
            *value = coordinate(path, &format_args!("line {line}"), text)?;
        }
        memory::push(&mut points, convention.convert(point))
            .map_err(|refused| IoError::memory(path, refused))?;
        for ((_, values), &i) in further.iter_mut().zip(&further_at) {
            memory::push(values, record.get(i).unwrap_or_default().into())
                .map_err(|refused| IoError::memory(path, refused))?;
        }
    }
    let set = PointSet::with_columns(points, further).map_err(|e| IoError::image(path, e))?;
    let in_plane = columns.len() < 3;
    if in_plane && info.format == PointFormat::Ants {
        info.say("it has no column z, so its points are those of a 2D image");
    }
    Ok((if in_plane { set.in_plane() } else { set }, info))
}

/// The convention: that which is asked for, else LPS where the header is that of ANTs, else RAS.
fn world(header: &csv::StringRecord, options: &ReadOptions<'_>) -> (PointInfo, PointConvention) {
    let names: Vec<String> = header.iter().map(str::to_ascii_lowercase).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ants = matches!(names[..], ["x", "y", "z", "t", ..] | ["x", "y", "t", ..]);
    let mut info = PointInfo::new(if ants { PointFormat::Ants } else { PointFormat::Csv });
    info.assumed = true;
    let convention = match (ants, options.convention) {
        (true, None) => {
            info.say(
                "its header is that of ANTs' lists, whose points are LPS: they were taken for that",
            );
            PointConvention::Lps
        }
        (true, Some(PointConvention::Ras)) => {
            info.say(
                "its header is that of ANTs' lists, whose points are LPS; they were taken for RAS, as asked for",
            );
            PointConvention::Ras
        }
        (_, asked) => asked.unwrap_or_default(),
    };
    info.convention = Some(convention);
    (info, convention)
}

/// A word on a list of points whose header line, without any comma, tells that it is of another kind.
fn not_csv(path: &Path, line: &str) -> Result<()> {
    let remedy = "write it comma-separated, with 'x,y,z' as its first line";
    if line.starts_with('#') {
        return Err(IoError::malformed(path, "its first line is a comment", remedy));
    }
    let separated = [(";", "semicolons"), ("\t", "tabs"), (" ", "spaces")];
    if let Some((_, name)) = separated.iter().find(|(sign, _)| line.contains(sign)) {
        let numbers = line.split_whitespace().all(|word| word.parse::<f64>().is_ok());
        let remedy = match numbers {
            true => {
                "write it comma-separated, with 'x,y,z' as its first line; or, of an elastix list, 'point' or 'index' \
                 as its first line and the number of points as its second"
            }
            false => remedy,
        };
        return Err(IoError::malformed(
            path,
            format!("the values are separated by {name}"),
            remedy,
        ));
    }
    Ok(())
}

/// Writes columns `x`, `y`, and, but for points in a plane, `z`; then the further ones. A column `t` would make the header
/// that of ANTs, whose points are LPS: of others it comes first.
pub(super) fn write(
    path: &Path,
    points: &PointSet,
    convention: PointConvention,
) -> Result<Vec<String>> {
    atomic::write_file(path, |sink| {
        let mut writer = csv::Writer::from_writer(sink);
        let axes = if points.is_2d() { 2 } else { 3 };
        let columns = points.columns();
        let time = convention == PointConvention::Ras
            && columns.first().is_some_and(|(name, _)| name.eq_ignore_ascii_case("t"));
        let (first, rest) = columns.split_at(usize::from(time));
        let header = ["x", "y", "z"].into_iter().take(axes);
        let header = first.iter().map(|(n, _)| n.as_str()).chain(header);
        writer.write_record(header.chain(rest.iter().map(|(n, _)| n.as_str())))?;
        for (i, &p) in points.points().iter().enumerate() {
            let p = convention.convert(p);
            let mut record = csv::StringRecord::new();
            for (_, values) in first {
                record.push_field(values.get(i).map_or("", String::as_str));
            }
            p.iter().take(axes).for_each(|v| record.push_field(&v.to_string()));
            for (_, values) in rest {
                record.push_field(values.get(i).map_or("", String::as_str));
            }
            writer.write_record(&record)?;
        }
        writer.flush().map_err(io::Error::other)
    })?;
    Ok(Vec::new())
}

/// Writes what ANTs reads: `x,y,z,t,label,comment`, where labels are whole numbers. Other names of points become
/// comments, and their labels count from 1.
pub(super) fn write_ants(path: &Path, points: &PointSet) -> Result<Vec<String>> {
    let mut columns = Columns::new(points);
    let time = columns.take(&["t"]);
    let label = columns.take(&LABEL);
    let numbers = label.is_some_and(|all| all.iter().all(|v| v.parse::<i64>().is_ok()));
    let comment = if numbers { columns.take(&DESCRIPTION) } else { label };
    let lost = columns.lost("lists of ANTs");
    atomic::write_file(path, |sink| {
        let mut writer = csv::Writer::from_writer(sink);
        let axes = if points.is_2d() { 2 } else { 3 };
        let header = ["x", "y", "z"].into_iter().take(axes);
        writer.write_record(header.chain(["t", "label", "comment"]))?;
        for (i, &p) in points.points().iter().enumerate() {
            let p = PointConvention::Lps.convert(p);
            let mut record = csv::StringRecord::new();
            p.iter().take(axes).for_each(|v| record.push_field(&v.to_string()));
            record.push_field(time.map_or("0", |_| text(time, i)));
            match numbers {
                true => record.push_field(text(label, i)),
                false => record.push_field(&(i + 1).to_string()),
            }
            record.push_field(text(comment, i));
            writer.write_record(&record)?;
        }
        writer.flush().map_err(io::Error::other)
    })?;
    Ok(lost)
}
