//! Streamlines of MRtrix: scanner RAS.

use super::bytes::{AGAIN, Cursor, Number};
use super::parts::Parts;
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use std::path::Path;
use voxalign_image::{Mesh, Vector3};

const MAGIC: &[u8] = b"mrtrix tracks";

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let mut cursor = Cursor::new(path, bytes);
    if cursor.line().map(<[u8]>::trim_ascii) != Some(MAGIC) {
        let problem = "the file does not begin with 'mrtrix tracks'";
        return Err(IoError::malformed(path, problem, "check that it is the right file"));
    }
    let wrong = |problem: String| IoError::malformed(path, problem, AGAIN);
    let (mut kind, mut file, mut expected) = (None, None, None);
    loop {
        let line = cursor.text_line().ok_or_else(|| wrong("the header has no END".into()))?;
        let line = line.trim();
        if line == "END" {
            break;
        }
        match line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) {
            Some(("datatype", value)) => kind = Some(value.to_owned()),
            Some(("file", value)) => file = Some(value.to_owned()),
            Some(("count", value)) => expected = value.parse::<usize>().ok(),
            _ => {}
        }
    }
    let kind = kind.ok_or_else(|| wrong("the header has no datatype".into()))?;
    let (number, big) = match kind.as_str() {
        "Float32LE" | "Float32" => (Number::F32, false),
        "Float32BE" => (Number::F32, true),
        "Float64LE" | "Float64" => (Number::F64, false),
        "Float64BE" => (Number::F64, true),
        other => return Err(wrong(format!("the datatype is '{}'", shorten(other)))),
    };
    let file = file.ok_or_else(|| wrong("the header has no file".into()))?;
    let Some(offset) = file.strip_prefix('.').and_then(|offset| offset.trim().parse().ok()) else {
        let what = format!("the streamlines are in another place: '{}'", shorten(&file));
        let remedy = "convert it by `tckconvert`, so that they are in the file itself";
        return Err(IoError::unsupported(path, what, remedy));
    };
    let mut parts = Parts::new(path, format!("binary, {kind}"));
    let mut cursor = Cursor::new(path, bytes);
    cursor.take(offset)?;
    loop {
        let values = cursor.binary(number, 3, big).map_err(|_| {
            let remedy = "the file is cut short: copy it again, or let `tckgen` finish";
            IoError::malformed(path, "the streamlines have no end", remedy)
        })?;
        let point = Vector3::from_fn(|axis, _| values.at(axis));
        if point.iter().all(|v| v.is_nan()) {
            parts.add_line([])?;
        } else if point.iter().all(|v| v.is_infinite()) {
            break;
        } else {
            parts.add_line_point(point)?;
        }
    }
    if parts.line_ends.last().copied().unwrap_or(0) < parts.line_vertices.len() {
        parts.add_line([])?;
    }
    let found = parts.line_ends.len();
    if let Some(expected) = expected.filter(|&expected| expected != found) {
        parts.say(format!("the header says {expected} streamlines, and there are {found}"));
    }
    Ok(parts)
}

pub(super) fn write(path: &Path, mesh: &Mesh) -> Result<()> {
    let head = |offset: usize| {
        let count = mesh.lines().len();
        format!("mrtrix tracks\ndatatype: Float32LE\ncount: {count}\nfile: . {offset}\nEND\n")
    };
    // The offset is part of what it counts; values begin at a whole one.
    let offset = (head(0).len() + 20).next_multiple_of(4);
    atomic::write_file(path, |sink| {
        let head = head(offset);
        sink.write_all(head.as_bytes())?;
        sink.write_all(&vec![0; offset.saturating_sub(head.len())])?;
        let mut put = |v: Vector3<f64>| {
            v.iter().try_for_each(|value| sink.write_all(&(*value as f32).to_le_bytes()))
        };
        for line in mesh.lines() {
            for &i in line {
                put(mesh.vertices().get(i as usize).copied().unwrap_or_default())?;
            }
            put(Vector3::repeat(f64::NAN))?;
        }
        put(Vector3::repeat(f64::INFINITY))
    })
}
