//! Markups of 3D Slicer (.mrk.json): points, and the control points of curves, lines, angles and planes.
//! Source: 3D Slicer's markups schema 1.0.

use super::columns::{Columns, DESCRIPTION, LABEL, text};
use super::fcsv::without_usual;
use super::{Gathered, PointConvention, PointFormat, PointInfo, ReadOptions};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use nalgebra::Vector3;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use voxalign_image::PointSet;

/// The schema of files that are written; 3D Slicer looks at it by its name.
const SCHEMA: &str = "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/\
                      Schema/markups-schema-v1.0.3.json#";

/// Largest size of a file, bytes: it is in memory as a whole.
const LARGEST: usize = 1 << 28;

const REMEDY: &str = "save it again from 3D Slicer, or correct the line";

#[derive(Deserialize)]
struct File {
    #[serde(rename = "@schema", default)]
    schema: Option<String>,
    markups: Vec<Markup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Markup {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    coordinate_system: Option<Value>,
    #[serde(default)]
    coordinate_units: Option<Value>,
    #[serde(default)]
    control_points: Vec<Point>,
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Point {
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, rename = "associatedNodeID")]
    associated_node_id: Option<String>,
    #[serde(default)]
    position: Option<Vec<f64>>,
    #[serde(default)]
    selected: Option<bool>,
    #[serde(default)]
    locked: Option<bool>,
    #[serde(default)]
    visibility: Option<bool>,
    #[serde(default)]
    position_status: Option<String>,
}

/// The convention that a markup states.
fn stated(path: &Path, number: usize, markup: &Markup) -> Result<Option<PointConvention>> {
    let said = match &markup.coordinate_system {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    match said.as_str() {
        "RAS" | "0" => Ok(Some(PointConvention::Ras)),
        "LPS" | "1" => Ok(Some(PointConvention::Lps)),
        _ => {
            let what = format!(
                "the coordinate system '{}' of markup {number} is neither LPS nor RAS",
                shorten(&said)
            );
            Err(IoError::unsupported(path, what, "save it in LPS from 3D Slicer"))
        }
    }
}

/// Coordinates are mm, which a file need not say.
fn check_units(path: &Path, markup: &Markup) -> Result<()> {
    let units = match &markup.coordinate_units {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::String(text)) => text.clone(),
        // A coded entry: value, scheme, meaning.
        Some(Value::Array(parts)) => parts.first().map(value_text).unwrap_or_default(),
        Some(other) => other.to_string(),
    };
    if units.is_empty() || units == "mm" {
        return Ok(());
    }
    let what = format!("its coordinates are in '{}', not in mm", shorten(&units));
    Err(IoError::unsupported(path, what, "save it in mm"))
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn read(
    path: &Path,
    text: &str,
    options: &ReadOptions<'_>,
) -> Result<(PointSet, PointInfo)> {
    if text.len() > LARGEST {
        let problem = format!("the file has {} bytes, which is too many for markups", text.len());
        return Err(IoError::malformed(path, problem, "check that it is the right file"));
    }
    let file: File = serde_json::from_str(text).map_err(|e| {
        let problem = format!("it is not a file of markups: {}", shorten_error(&e.to_string()));
        IoError::malformed(path, problem, REMEDY)
    })?;
    let mut info = PointInfo::new(PointFormat::Markups);
    if let Some((_, version)) =
        file.schema.as_deref().and_then(|s| s.split_once("markups-schema-v"))
        && !version.starts_with("1.")
    {
        let what = format!("version '{}' of markups is not known", shorten(version));
        return Err(IoError::unsupported(path, what, "save it as version 1 from 3D Slicer"));
    }
    let several = file.markups.len() > 1;
    let mut gathered = Gathered::new(
        path,
        &["label", "description", "visibility", "selected", "locked", "associatedNodeID", "markup"],
    );
    let mut undefined = Vec::new();
    let mut conventions = Vec::new();
    let flag = |value: Option<bool>| value.map_or("", |v| if v { "1" } else { "0" });
    for (number, markup) in (1..).zip(&file.markups) {
        check_units(path, markup)?;
        let stated = stated(path, number, markup)?;
        // Said once.
        let before = info.oddities.len();
        let convention = info.world(stated, options);
        if number > 1 {
            info.oddities.truncate(before);
        }
        if stated.is_none() && options.convention.is_none() {
            let problem = format!("markup {number} does not state its coordinate system");
            let remedy =
                "add \"coordinateSystem\": \"LPS\" or \"RAS\" to it, or give `point_convention`";
            return Err(IoError::malformed(path, problem, remedy));
        }
        conventions.push(convention);
        match markup.kind.as_deref() {
            None | Some("Fiducial") => {}
            Some(kind) => info.say(format!(
                "markup {number} is a '{}': its control points are the points",
                shorten(kind)
            )),
        }
        let name = if several {
            markup.name.clone().unwrap_or_else(|| number.to_string())
        } else {
            String::new()
        };
        for (at, point) in (1..).zip(&markup.control_points) {
            let label = point.label.as_deref().unwrap_or_default();
            let status = point.position_status.as_deref().unwrap_or("defined");
            if status != "defined" {
                undefined.push(label.to_owned());
                continue;
            }
            let Some(&[x, y, z]) = point.position.as_deref() else {
                let problem = format!(
                    "control point {at} ('{}') of markup {number} has no position of three numbers",
                    shorten(label)
                );
                return Err(IoError::malformed(path, problem, REMEDY));
            };
            let p = Vector3::new(x, y, z);
            if !p.iter().all(|v| v.is_finite()) {
                let problem = format!(
                    "control point {at} ('{}') of markup {number} is at {:?}",
                    shorten(label),
                    [x, y, z]
                );
                return Err(IoError::malformed(path, problem, REMEDY));
            }
            let texts = [
                label,
                point.description.as_deref().unwrap_or_default(),
                flag(point.visibility),
                flag(point.selected),
                flag(point.locked),
                point.associated_node_id.as_deref().unwrap_or_default(),
                &name,
            ];
            gathered.add(convention.convert(p), texts)?;
        }
    }
    if several {
        info.say(format!("it has {} markups, whose points follow each other", file.markups.len()));
    }
    if conventions.iter().any(|c| Some(*c) != info.convention) {
        info.say("some of its markups are LPS and some are RAS: each was taken for what it says");
    }
    without_usual(&mut gathered);
    info.leave_out(&undefined);
    Ok((gathered.finish()?, info))
}

/// The words of the parser, of a length that can be read.
fn shorten_error(text: &str) -> String {
    if text.chars().count() <= 200 { text.to_owned() } else { text.chars().take(200).collect() }
}

pub(super) fn write(
    path: &Path,
    set: &PointSet,
    convention: PointConvention,
) -> Result<Vec<String>> {
    let mut columns = Columns::new(set);
    let label = columns.take(&LABEL);
    let description = columns.take(&DESCRIPTION);
    let node = columns.take(&["associatedNodeID"]);
    let flags = [("visibility", true), ("selected", true), ("locked", false)]
        .map(|(name, usual)| (columns.take(&[name]), usual));
    let mut lost = columns.lost("markups");
    if set.is_2d() {
        lost.push("markups have three coordinates: the third is 0".to_owned());
    }
    let mut points = Vec::new();
    for (i, &p) in set.points().iter().enumerate() {
        let number = (i + 1).to_string();
        let [visibility, selected, locked] = flags.map(|(flag, usual)| match text(flag, i) {
            "1" | "true" => true,
            "0" | "false" => false,
            _ => usual,
        });
        let label = if label.is_some() { text(label, i) } else { &number };
        points.push(json!({
            "id": number,
            "label": label,
            "description": text(description, i),
            "associatedNodeID": text(node, i),
            "position": convention.convert(p).as_slice(),
            "selected": selected,
            "locked": locked,
            "visibility": visibility,
            "positionStatus": "defined",
        }));
    }
    let file = json!({
        "@schema": SCHEMA,
        "markups": [{
            "type": "Fiducial",
            "coordinateSystem": convention.to_string(),
            "coordinateUnits": "mm",
            "locked": false,
            "fixedNumberOfControlPoints": false,
            "labelFormat": "%N-%d",
            "lastUsedControlPointNumber": set.len(),
            "controlPoints": points,
        }],
    });
    atomic::write_file(path, |sink| {
        serde_json::to_writer_pretty(&mut *sink, &file).map_err(io::Error::other)?;
        sink.write_all(b"\n")
    })?;
    Ok(lost)
}
