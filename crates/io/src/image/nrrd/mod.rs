//! NRRD files: `.nrrd` and `.nhdr` with its data file.

mod geometry;
mod write;

pub(crate) use write::write;

use super::decode::{Plan, Start};
use super::info::ImageInfo;
use super::options::{ByteOrder, Compression, Format};
use super::text;
use crate::error::{IoError, Result, shorten};
use crate::source::Source;
use crate::text::printable;
use std::collections::HashMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// The largest header, bytes, where it goes on beyond that of other formats: a segmentation has some 500 for each segment.
const LARGEST_HEADER: usize = 1 << 26;

/// More fields than the format has, for a header that is none.
const MOST_FIELDS: usize = 1000;

/// The fields of a header, by lower-case names without blanks, and the header's length.
struct Fields {
    values: HashMap<String, String>,
    length: usize,
}

/// What takes pairs of keys and values as they stand.
type Pairs<'p> = &'p mut dyn FnMut(&str, &str);

/// What is wrong with a header, and whether more bytes might mend it.
struct Wrong {
    problem: String,
    at_end: bool,
}

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
}

fn fields(head: &[u8], pairs: Pairs<'_>) -> std::result::Result<Fields, Wrong> {
    if !head.starts_with(b"NRRD0") {
        return Err(Wrong { problem: "it does not begin with 'NRRD0'".into(), at_end: false });
    }
    let mut values = HashMap::new();
    let mut at = 0;
    let mut first = true;
    while at < head.len() {
        let end = head[at..].iter().position(|&b| b == b'\n').unwrap_or(head.len() - at);
        let line = String::from_utf8_lossy(&head[at..at + end]);
        at = (at + end + 1).min(head.len());
        let line = line.trim_end();
        if std::mem::take(&mut first) || line.starts_with('#') {
            continue;
        }
        if line.is_empty() {
            return Ok(Fields { values, length: at });
        }
        if let Some((key, value)) = line.split_once(":=") {
            pairs(key, value);
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            let problem = format!("the line '{}' is not 'field: value'", shorten(line));
            return Err(Wrong { problem, at_end: at == head.len() });
        };
        let key = key.trim().to_ascii_lowercase().replace(' ', "");
        values.insert(key, value.trim().to_string());
        if values.len() > MOST_FIELDS {
            let problem = format!("the header has more than {MOST_FIELDS} fields");
            return Err(Wrong { problem, at_end: false });
        }
    }
    if values.contains_key("datafile") {
        return Ok(Fields { values, length: at });
    }
    let problem = "the empty line that ends the header is missing".into();
    Err(Wrong { problem, at_end: true })
}

/// The header of a file, of which more is read as long as it goes on. A pair may be given several times, the last time
/// whole.
fn header(source: &Source<'_>, pairs: Pairs<'_>) -> Result<Fields> {
    let mut most = text::LARGEST_HEADER;
    loop {
        let (head, _) = source.head(most)?;
        let is_cut = head.len() == most && most < LARGEST_HEADER;
        match fields(&head, pairs) {
            Ok(fields) if !is_cut || fields.length < most => return Ok(fields),
            Err(wrong) if !is_cut || !wrong.at_end => {
                return Err(incomplete(source.path(), wrong.problem));
            }
            _ => most *= 8,
        }
    }
}

fn incomplete(path: &Path, problem: String) -> IoError {
    IoError::malformed(path, problem, "check that this is a complete NRRD file")
}

/// Gives the pairs of keys and values in a header; a pair may be given several times, the last time whole.
pub(crate) fn pairs(source: &Source<'_>, take: &mut dyn FnMut(&str, String)) -> Result<()> {
    header(source, &mut |key, value| take(key, unescaped(value))).map(|_| ())
}

/// A value with its line breaks and backslashes, which stand as `\n` and `\\`.
fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut letters = value.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('n')) => {
                out.push('\n');
                letters.next();
            }
            ('\\', Some('\\')) => {
                out.push('\\');
                letters.next();
            }
            _ => out.push(letter),
        }
    }
    out
}

/// Parses the header.
pub(crate) fn plan(source: &Source<'_>) -> Result<Plan> {
    let path = source.path();
    let wrong = |problem: String| incomplete(path, problem);
    let fields = header(source, &mut |_, _| {})?;
    let field = |name: &str| {
        fields.get(name).ok_or_else(|| wrong(format!("the field '{name}' is missing")))
    };
    let sizes = text::sizes(field("sizes")?).map_err(|e| wrong(format!("sizes: {e}")))?;
    if field("dimension")?.parse() != Ok(sizes.len()) || sizes.len() > text::LARGEST_AXES {
        return Err(wrong(format!(
            "the dimension is {}, but there are {} sizes",
            shorten(field("dimension")?),
            sizes.len()
        )));
    }
    let name = field("type")?;
    let data_type = text::type_of(name).ok_or_else(|| text::unread_type(path, "the type", name))?;
    let compression = encoding(field("encoding")?, path)?;
    let mut oddities = Vec::new();
    let byte_order = match fields.get("endian") {
        Some("big") => ByteOrder::Big,
        Some("little") => ByteOrder::Little,
        Some(other) => return Err(wrong(format!("endian is '{}'", shorten(other)))),
        None => {
            if data_type.size() > 1 && compression != Compression::Text {
                oddities.push("the byte order is not given; little-endian is assumed".into());
            }
            ByteOrder::Little
        }
    };
    let place = geometry::find(&fields, &sizes, &mut oddities).map_err(|problem| {
        IoError::malformed(path, problem, "correct the geometry in the header first")
    })?;
    let (data_path, mut start) = data_place(&fields, source)?;
    let mut skip = 0;
    match fields.get("byteskip").map(str::parse::<i64>) {
        None => {}
        Some(Ok(-1)) if compression == Compression::None => start = Start::AtEnd,
        Some(Ok(n)) if n >= 0 => skip = n as u64,
        Some(_) => return Err(wrong("the byte skip is neither -1 nor a number of bytes".into())),
    }
    let files = text::files(path, &data_path);
    let mut info = ImageInfo {
        path: path.into(),
        data_path,
        files,
        format: Format::from_path(path)?,
        format_name: "NRRD".into(),
        dims: place.dims,
        dimensions: place.dimensions,
        components: place.components,
        data_type,
        byte_order,
        compression,
        slope: 1.0,
        intercept: 0.0,
        own_scales: false,
        volume_names: Vec::new(),
        grid: place.grid,
        grid_source: place.source,
        qform_code: 0,
        sform_code: 0,
        qform: None,
        sform: None,
        form_difference_mm: None,
        intent: String::new(),
        description: printable(fields.get("content").unwrap_or_default(), &[]).into_owned(),
        extensions: Vec::new(),
        oddities: oddities.into_iter().map(Into::into).collect(),
    };
    info.describe_grid();
    Ok(Plan { info, start, skip })
}

fn encoding(name: &str, path: &Path) -> Result<Compression> {
    match name.to_ascii_lowercase().as_str() {
        "raw" => Ok(Compression::None),
        "gz" | "gzip" => Ok(Compression::Gzip),
        "txt" | "text" | "ascii" => Ok(Compression::Text),
        other => Err(IoError::unsupported(
            path,
            format!("the encoding '{}' is not supported", shorten(other)),
            "convert the file to raw or gzip encoding",
        )),
    }
}

/// The file of the values and where they begin in it.
fn data_place(fields: &Fields, source: &Source<'_>) -> Result<(PathBuf, Start)> {
    let path = source.path();
    let lines = match fields.get("lineskip").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(n)) if n <= 100_000 => n,
        Some(_) => {
            return Err(IoError::malformed(
                path,
                "the line skip is not a number of lines",
                "correct the header",
            ));
        }
    };
    let Some(name) = fields.get("datafile") else {
        let mut at = fields.length as u64;
        if lines > 0 {
            at += line_end(source, at, lines)?;
        }
        return Ok((path.into(), Start::Stored(at)));
    };
    if name.is_empty() || name.starts_with("LIST") || name.contains('%') {
        return Err(IoError::unsupported(
            path,
            format!("values in several files ('{}') are not supported", shorten(name)),
            "write the image as one file first",
        ));
    }
    let data = text::beside(path, name);
    // Bytes in memory have no files beside them.
    let on_disk = lines > 0 && !source.is_memory();
    let at = if on_disk { line_end(&Source::named_by(path, &data)?, 0, lines)? } else { 0 };
    Ok((data, Start::Stored(at)))
}

/// Bytes of the next lines of a file.
fn line_end(source: &Source<'_>, from: u64, lines: usize) -> Result<u64> {
    let mut reader = source.raw(from)?;
    let mut total = 0;
    for _ in 0..lines {
        total += reader.skip_until(b'\n').map_err(|e| IoError::reading(source.path(), e))? as u64;
    }
    Ok(total)
}
