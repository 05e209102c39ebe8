//! MetaImage files: `.mha` and `.mhd` with its data file. The world is LPS, as ITK reads them.

mod write;

pub(crate) use write::write;

use super::decode::{Plan, Start};
use super::info::{GridSource, ImageInfo};
use super::options::{ByteOrder, Compression, DataType, Format};
use super::text;
use crate::error::{IoError, Result, shorten};
use crate::source::Source;
use crate::text::printable;
use nalgebra::Vector3;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use voxalign_image::Grid;

/// The fields of a header and its length.
struct Fields {
    values: HashMap<String, String>,
    length: usize,
}

impl Fields {
    /// The value of the first of several names of a field.
    fn get(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|n| self.values.get(*n)).map(String::as_str)
    }

    fn is_true(&self, names: &[&str]) -> bool {
        self.get(names).is_some_and(|v| v.starts_with(['T', 't', '1']))
    }
}

fn fields(head: &[u8]) -> std::result::Result<Fields, String> {
    let mut values = HashMap::new();
    let mut at = 0;
    while let Some(end) = head.get(at..).and_then(|h| h.iter().position(|&b| b == b'\n')) {
        let line = String::from_utf8_lossy(&head[at..at + end]);
        at += end + 1;
        if line.trim().is_empty() {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(format!("the line '{}' is not 'Key = Value'", shorten(line.trim())));
        };
        let (key, value) = (key.trim().to_string(), value.trim().to_string());
        let last = key == "ElementDataFile";
        values.insert(key, value);
        if last {
            return Ok(Fields { values, length: at });
        }
    }
    // A last line without its line end.
    if let Some((key, value)) =
        String::from_utf8_lossy(head.get(at..).unwrap_or(&[])).split_once('=')
        && key.trim() == "ElementDataFile"
    {
        values.insert("ElementDataFile".into(), value.trim().to_string());
        return Ok(Fields { values, length: head.len() });
    }
    Err("the line 'ElementDataFile = …' that ends the header is missing".into())
}

/// Parses the header.
pub(crate) fn plan(source: &Source<'_>) -> Result<Plan> {
    let path = source.path();
    let wrong = |problem: String| {
        IoError::malformed(path, problem, "check that this is a complete MetaImage file")
    };
    let (head, _) = source.head(text::LARGEST_HEADER)?;
    let fields = fields(&head).map_err(&wrong)?;
    let mut oddities = Vec::new();
    if let Some(kind) = fields.get(&["ObjectType"]).filter(|k| *k != "Image") {
        return Err(wrong(format!(
            "it holds an object of the type '{}', not an image",
            shorten(kind)
        )));
    }
    let sizes = dims(&fields).map_err(&wrong)?;
    let grid = grid(&fields, &sizes, &mut oddities)
        .map_err(|p| IoError::malformed(path, p, "correct the geometry in the header first"))?;
    let element = fields.get(&["ElementType"]).unwrap_or_default();
    let (data_path, start) = place(&fields, path)?;
    let data_type =
        data_type(element).ok_or_else(|| text::unread_type(path, "the element type", element))?;
    let dimensions = sizes.len();
    let mut dims = text::with_depth(sizes);
    let channels = match fields.get(&["ElementNumberOfChannels"]) {
        Some(c) => text::sizes(c).map_err(&wrong)?.first().copied().unwrap_or(1),
        None => 1,
    };
    if channels > 1 {
        oddities.push(format!("every voxel has {channels} channels"));
        dims.push(channels);
    }
    let order = if fields.is_true(&["BinaryDataByteOrderMSB", "ElementByteOrderMSB"]) {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    };
    let binary = fields.get(&["BinaryData"]).is_none() || fields.is_true(&["BinaryData"]);
    let compression = match (fields.is_true(&["CompressedData"]), binary) {
        (true, _) => Compression::Zlib,
        (false, true) => Compression::None,
        (false, false) => Compression::Text,
    };
    let mut start = match start {
        Some(start) => start,
        None => Start::Stored(fields.length as u64),
    };
    if start == Start::AtEnd && compression != Compression::None {
        start = Start::Stored(0);
    }
    let form = GridSource::Directions;
    let files = text::files(path, &data_path);
    let mut info = ImageInfo {
        path: path.into(),
        data_path,
        files,
        format: Format::from_path(path)?,
        format_name: "MetaImage".into(),
        dims,
        dimensions,
        components: channels,
        data_type,
        byte_order: order,
        compression,
        slope: 1.0,
        intercept: 0.0,
        own_scales: false,
        volume_names: Vec::new(),
        grid,
        grid_source: form,
        qform_code: 0,
        sform_code: 0,
        qform: None,
        sform: None,
        form_difference_mm: None,
        intent: String::new(),
        description: printable(fields.get(&["Comment"]).unwrap_or_default(), &[]).into_owned(),
        extensions: Vec::new(),
        oddities: oddities.into_iter().map(Into::into).collect(),
    };
    info.describe_grid();
    Ok(Plan { info, start, skip: 0 })
}

fn dims(fields: &Fields) -> std::result::Result<Vec<usize>, String> {
    let Some(sizes) = fields.get(&["DimSize"]) else { return Err("DimSize is missing".into()) };
    let sizes = text::sizes(sizes).map_err(|e| format!("DimSize: {e}"))?;
    let count = fields.get(&["NDims"]).and_then(|n| n.parse::<usize>().ok());
    if count != Some(sizes.len()) || !(2..=text::LARGEST_AXES).contains(&sizes.len()) {
        return Err(format!(
            "NDims is {}, but DimSize has {} sizes",
            fields.get(&["NDims"]).map_or("missing".into(), shorten),
            sizes.len()
        ));
    }
    Ok(sizes)
}

fn grid(
    fields: &Fields,
    sizes: &[usize],
    oddities: &mut Vec<String>,
) -> std::result::Result<Grid, String> {
    let n = sizes.len();
    let list = |names: &[&str], count: usize| match fields.get(names) {
        None => Ok(None),
        Some(value) => match text::numbers(value) {
            Ok(v) if v.len() == count => Ok(Some(v)),
            Ok(v) => Err(format!("{} has {} values instead of {count}", names[0], v.len())),
            Err(e) => Err(format!("{}: {e}", names[0])),
        },
    };
    let spacing = match list(&["ElementSpacing"], n)? {
        Some(s) => s,
        None => match list(&["ElementSize"], n)? {
            Some(s) => s,
            None => {
                oddities.push("no ElementSpacing; 1 mm is assumed".into());
                vec![1.0; n]
            }
        },
    };
    if let Some(bad) = spacing.iter().take(3).find(|s| **s <= 0.0) {
        return Err(format!("ElementSpacing has {bad}, which is not a valid spacing"));
    }
    let origin = list(&["Offset", "Position", "Origin"], n)?.unwrap_or_else(|| vec![0.0; n]);
    let matrix = list(&["TransformMatrix", "Rotation", "Orientation"], n * n)?;
    if matrix.is_none() {
        oddities.push("no TransformMatrix; left-posterior-superior axes are assumed".into());
    }
    // Row i of the matrix is the direction of axis i.
    let used = n.min(3);
    let axes: Vec<_> = (0..used)
        .map(|a| {
            let along = |c: usize| match &matrix {
                Some(m) if c < used => m[a * n + c],
                Some(_) => 0.0,
                None => f64::from(u8::from(a == c)),
            };
            Vector3::new(-along(0), -along(1), along(2)) * spacing[a]
        })
        .collect();
    let at = |c: usize| if c < used { origin[c] } else { 0.0 };
    text::grid(&sizes[..used], &axes, Vector3::new(-at(0), -at(1), at(2)))
}

/// The data file, and where the values begin if not right after the header.
fn place(fields: &Fields, path: &Path) -> Result<(PathBuf, Option<Start>)> {
    let name = fields.get(&["ElementDataFile"]).unwrap_or_default();
    if name.eq_ignore_ascii_case("local") {
        return Ok((path.into(), None));
    }
    if name.is_empty() || name.starts_with("LIST") || name.contains('%') {
        return Err(IoError::unsupported(
            path,
            format!("values in several files ('{}') are not supported", shorten(name)),
            "write the image as one file first",
        ));
    }
    let start = match fields.get(&["HeaderSize"]).map(str::parse::<i64>) {
        None => Start::Stored(0),
        Some(Ok(-1)) => Start::AtEnd,
        Some(Ok(n)) if n >= 0 => Start::Stored(n as u64),
        Some(_) => {
            return Err(IoError::malformed(
                path,
                "HeaderSize is neither -1 nor a number of bytes",
                "correct the header",
            ));
        }
    };
    Ok((text::beside(path, name), Some(start)))
}

/// A type by its MetaImage name. `MET_LONG` has 4 bytes by the format.
fn data_type(name: &str) -> Option<DataType> {
    Some(match name {
        "MET_CHAR" | "MET_ASCII_CHAR" => DataType::I8,
        "MET_UCHAR" => DataType::U8,
        "MET_SHORT" => DataType::I16,
        "MET_USHORT" => DataType::U16,
        "MET_INT" | "MET_LONG" => DataType::I32,
        "MET_UINT" | "MET_ULONG" => DataType::U32,
        "MET_LONG_LONG" => DataType::I64,
        "MET_ULONG_LONG" => DataType::U64,
        "MET_FLOAT" => DataType::F32,
        "MET_DOUBLE" => DataType::F64,
        _ => return None,
    })
}
