//! GIFTI surfaces: XML with base64 arrays, usually compressed.

use super::WriteOptions;
use super::bytes::{Base64, Cursor, Number, Values, count, read_exactly, to_base64};
use super::freesurfer::VolumeGeometry;
use super::parts::Parts;
use super::xml::{Piece, Start, Xml, append, write_text};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use crate::gzip::GzipWriter;
use crate::text;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use std::borrow::Cow;
use std::io::{self, BufReader, Write};
use std::path::Path;
use voxalign_image::{Affine, Mesh, Vector3};

/// One `DataArray`.
#[derive(Debug)]
struct Array<'a> {
    start: Start,
    text: Cow<'a, str>,
    meta: Vec<(String, String)>,
    systems: Vec<System>,
}

/// A coordinate system, and the matrix to another one.
#[derive(Debug, Default)]
struct System {
    from: String,
    to: String,
    matrix: String,
}

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let text = text::utf8(bytes).map_err(|what| IoError::malformed(path, what, text::SAVE_AS))?;
    let arrays = arrays(path, text)?;
    let mut encodings: Vec<&str> =
        arrays.iter().filter_map(|array| array.start.get("Encoding")).map(encoding).collect();
    encodings.sort_unstable();
    encodings.dedup();
    let mut parts = Parts::new(path, encodings.join(", "));
    let mut seen = [false; 2];
    // Points come first, wherever they are in the file.
    for array in arrays.iter().filter(|array| array.intent() == "POINTSET") {
        if std::mem::replace(&mut seen[0], true) {
            parts.say("there are several sets of points, of which the first was read");
            continue;
        }
        let (values, components) = array.values(path)?;
        three(&parts, "points", components)?;
        parts.add_vertices(&values)?;
        place(&mut parts, array)?;
    }
    if !seen[0] {
        let remedy = "name the surface it belongs to, such as a .surf.gii";
        return Err(IoError::malformed(path, "the file holds no coordinates of a surface", remedy));
    }
    for array in &arrays {
        match array.intent() {
            "POINTSET" => {}
            "TRIANGLE" if std::mem::replace(&mut seen[1], true) => {
                parts.say("there are several sets of triangles, of which the first was read");
            }
            "TRIANGLE" => {
                let (values, components) = array.values(path)?;
                three(&parts, "triangles", components)?;
                for face in values.indices(path)?.chunks_exact(3) {
                    if let [a, b, c] = *face {
                        parts.add_face([a, b, c])?;
                    }
                }
            }
            intent => {
                let (values, components) = array.values(path)?;
                let own = array.meta.iter().find(|(name, _)| name == "Name");
                let name = own.map_or_else(|| intent.to_lowercase(), |(_, value)| value.clone());
                if components > 0 && values.len() == parts.vertices.len() * components {
                    parts.add_data(name, components, &values, intent == "VECTOR")?;
                } else {
                    let name = shorten(&name);
                    parts.say(format!(
                        "'{name}' does not have one value per vertex and was left out"
                    ));
                }
            }
        }
    }
    Ok(parts)
}

/// All arrays of a document.
fn arrays<'a>(path: &'a Path, text: &'a str) -> Result<Vec<Array<'a>>> {
    let mut xml = Xml::new(path, text);
    let mut done = Vec::new();
    let mut array: Option<Array<'a>> = None;
    let (mut inside, mut words) = (String::new(), Cow::Borrowed(""));
    let mut name = String::new();
    let mut any = false;
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(start) => {
                (inside, words) = (start.name.clone(), Cow::Borrowed(""));
                any |= start.name == "GIFTI";
                match (start.name.as_str(), &mut array) {
                    ("DataArray", None) => {
                        let text = Cow::Borrowed("");
                        let (meta, systems) = (Vec::new(), Vec::new());
                        array = Some(Array { start, text, meta, systems });
                    }
                    ("CoordinateSystemTransformMatrix", Some(array)) => {
                        array.systems.push(System::default());
                    }
                    _ => {}
                }
            }
            Piece::Text(text) => {
                if !inside.is_empty() {
                    append(path, &mut words, text)?;
                }
            }
            Piece::End(ended) => {
                let own = ended == inside;
                let words = if own { std::mem::take(&mut words) } else { Cow::Borrowed("") };
                inside.clear();
                let Some(open) = &mut array else { continue };
                let trimmed = || words.trim().to_owned();
                let last = open.systems.last_mut();
                match (ended.as_str(), last) {
                    ("Name", _) => name = trimmed(),
                    ("Value", _) => open.meta.push((std::mem::take(&mut name), trimmed())),
                    ("DataSpace", Some(system)) => system.from = trimmed(),
                    ("TransformedSpace", Some(system)) => system.to = trimmed(),
                    ("MatrixData", Some(system)) => system.matrix = trimmed(),
                    ("Data", _) => open.text = words,
                    ("DataArray", _) => done.extend(array.take()),
                    _ => {}
                }
            }
        }
    }
    if xml.is_open() || !any {
        let problem = if any { "the file ends early" } else { "there is no <GIFTI> in it" };
        return Err(IoError::malformed(path, problem, super::bytes::AGAIN));
    }
    Ok(done)
}

fn encoding(name: &str) -> &'static str {
    match name {
        "ASCII" => "ASCII",
        "Base64Binary" => "base64",
        "GZipBase64Binary" => "base64 of packed bytes",
        _ => "another encoding",
    }
}

fn three(parts: &Parts<'_>, what: &str, components: usize) -> Result<()> {
    if components == 3 {
        return Ok(());
    }
    Err(parts.wrong(format!("the {what} have {components} numbers each, not 3")))
}

impl Array<'_> {
    fn intent(&self) -> &str {
        let intent = self.start.get("Intent").unwrap_or_default();
        intent.strip_prefix("NIFTI_INTENT_").unwrap_or(intent)
    }

    /// The values, those of a row together, and the number of columns.
    fn values(&self, path: &Path) -> Result<(Values<'static>, usize)> {
        let start = &self.start;
        let wrong = |problem: String| IoError::malformed(path, problem, super::bytes::AGAIN);
        let axes = count(path, "axes", start.get("Dimensionality"))?;
        if !(1..=6).contains(&axes) {
            return Err(wrong(format!("an array of {axes} axes cannot be")));
        }
        let mut dims = [1usize; 6];
        for (axis, dim) in dims.iter_mut().take(axes).enumerate() {
            *dim = count(path, "values", start.get(&format!("Dim{axis}")))?;
        }
        let rows = dims[0];
        let columns = dims[1..].iter().try_fold(1usize, |all, &dim| all.checked_mul(dim));
        let columns = columns.ok_or_else(|| wrong("an array is larger than can be".into()))?;
        let len = rows.checked_mul(columns).filter(|len| *len < usize::MAX / 8);
        let len = len.ok_or_else(|| wrong("an array is larger than can be".into()))?;
        let kind = start.need(path, "DataType")?;
        let number = match kind.strip_prefix("NIFTI_TYPE_").unwrap_or(kind) {
            "UINT8" => Number::U8,
            "INT8" => Number::I8,
            "INT16" => Number::I16,
            "UINT16" => Number::U16,
            "INT32" => Number::I32,
            "UINT32" => Number::U32,
            "INT64" => Number::I64,
            "UINT64" => Number::U64,
            "FLOAT32" => Number::F32,
            "FLOAT64" => Number::F64,
            other => return Err(wrong(format!("the type of an array is '{}'", shorten(other)))),
        };
        let big = start.get("Endian") == Some("BigEndian");
        let text = self.text.as_bytes();
        let (mut bytes, size) = (Vec::new(), len * number.size());
        let mut base64 = BufReader::with_capacity(1 << 14, Base64::new(text));
        let values = match start.get("Encoding").unwrap_or_default() {
            "ASCII" => match Cursor::new(path, text).text(len)? {
                Values::Text(values) => Values::Text(values),
                Values::Bytes { .. } => Values::Text(Vec::new()),
            },
            "Base64Binary" => {
                read_exactly(path, &mut base64, size, &mut bytes)?;
                Values::Bytes { bytes: Cow::Owned(bytes), number, big }
            }
            "GZipBase64Binary" => {
                // It is a zlib stream, whatever its name says; some write gzip.
                if text.trim_ascii_start().starts_with(b"H4s") {
                    read_exactly(path, &mut GzDecoder::new(base64), size, &mut bytes)?;
                } else if size > 0 {
                    read_exactly(path, &mut ZlibDecoder::new(base64), size, &mut bytes)?;
                }
                Values::Bytes { bytes: Cow::Owned(bytes), number, big }
            }
            "ExternalFileBinary" => {
                let file = shorten(start.get("ExternalFileName").unwrap_or_default());
                let what = format!("the values are in another file ('{file}')");
                let remedy = "write them into the file itself, for example by Connectome Workbench's \
                              `wb_command -gifti-convert GZIP_BASE64_BINARY`";
                return Err(IoError::unsupported(path, what, remedy));
            }
            other => return Err(wrong(format!("the encoding is '{}'", shorten(other)))),
        };
        if start.get("ArrayIndexingOrder") != Some("ColumnMajorOrder") || columns < 2 {
            return Ok((values, columns));
        }
        let turned = (0..len).map(|i| values.at(i / columns + i % columns * rows));
        let turned = voxalign_image::memory::collected(turned);
        Ok((Values::Text(turned.map_err(|e| IoError::memory(path, e))?), columns))
    }
}

/// Brings the points to the scanner's RAS.
fn place(parts: &mut Parts<'_>, array: &Array<'_>) -> Result<()> {
    let short = |name: &str| name.strip_prefix("NIFTI_XFORM_").unwrap_or(name).to_owned();
    let from = array.systems.first().map_or("UNKNOWN".to_owned(), |system| short(&system.from));
    parts.frame = Some(if from.is_empty() { "UNKNOWN".into() } else { shorten(&from) });
    let mut chosen = None;
    for system in &array.systems {
        let matrix = matrix(parts, &system.matrix)?;
        let is_identity = matrix.rows() == Affine::<_, _>::rows(&identity());
        let to = short(&system.to);
        if to == "SCANNER_ANAT" && from != "SCANNER_ANAT" && chosen.is_none() {
            chosen = Some(matrix);
        } else if !is_identity {
            parts.say(format!("the matrix to {} was not applied", shorten(&to)));
        }
    }
    if let Some(matrix) = chosen {
        if matrix.rows() != identity().rows() {
            parts.say(format!(
                "the coordinates were brought from {from} to SCANNER_ANAT by the matrix of the file"
            ));
        }
        parts.vertices.iter_mut().for_each(|v| *v = matrix.apply(*v));
        return Ok(());
    }
    if from == "SCANNER_ANAT" {
        return Ok(());
    }
    volume(parts, array)
}

fn identity() -> Affine {
    Affine::identity()
}

/// FreeSurfer's geometry of the volume, for coordinates that are relative to it.
fn volume(parts: &mut Parts<'_>, array: &Array<'_>) -> Result<()> {
    let mut geometry = VolumeGeometry::default();
    let mut any = false;
    for (letter, place) in [
        ("X", &mut geometry.x),
        ("Y", &mut geometry.y),
        ("Z", &mut geometry.z),
        ("C", &mut geometry.c),
    ] {
        for (axis, value) in ["R", "A", "S"].iter().zip(place.iter_mut()) {
            let wanted = format!("VolGeom{letter}_{axis}");
            let Some((_, text)) = array.meta.iter().find(|(name, _)| *name == wanted) else {
                continue;
            };
            *value = text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
                parts.wrong(format!("{wanted} is '{}', which is not a number", shorten(text)))
            })?;
            any |= letter == "C";
        }
    }
    if any {
        let c = geometry.c;
        if geometry != VolumeGeometry::default() {
            parts.say(format!(
                "FreeSurfer's centre of the volume ({} {} {}) was added to the coordinates",
                c[0], c[1], c[2]
            ));
        }
        parts.vertices.iter_mut().for_each(|v| *v = geometry.apply(*v));
    }
    Ok(())
}

fn matrix(parts: &Parts<'_>, text: &str) -> Result<Affine> {
    if text.is_empty() {
        return Ok(identity());
    }
    let values = Cursor::new(parts.path, text.as_bytes()).all_text()?;
    if values.len() != 16 {
        return Err(parts.wrong(format!("a matrix has {} numbers, not 16", values.len())));
    }
    let matrix =
        Affine::from_rows([0, 1, 2].map(|row| [0, 1, 2, 3].map(|i| values.at(4 * row + i))));
    if !matrix.is_finite() {
        return Err(parts.wrong("a matrix has a number that is not finite"));
    }
    Ok(matrix)
}

pub(super) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    let packed = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"));
    atomic::write_file(path, |sink| {
        if !packed {
            return document(mesh, options, sink);
        }
        let mut gzip = GzipWriter::new(sink, options.compression_level);
        document(mesh, options, gzip.as_mut().map_err(|e| io::Error::from(e.kind()))?)?;
        gzip?.finish().map(drop)
    })
}

fn document(mesh: &Mesh, options: &WriteOptions, sink: &mut dyn Write) -> io::Result<()> {
    let arrays = 1 + usize::from(!mesh.faces().is_empty()) + mesh.data().len();
    write!(
        sink,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE GIFTI SYSTEM \"http://www.nitrc.org/frs/download.php/115/gifti.dtd\">\n\
         <GIFTI Version=\"1.0\" NumberOfDataArrays=\"{arrays}\">\n<MetaData/>\n<LabelTable/>\n"
    )?;
    let system = "<CoordinateSystemTransformMatrix>\n\
         <DataSpace><![CDATA[NIFTI_XFORM_SCANNER_ANAT]]></DataSpace>\n\
         <TransformedSpace><![CDATA[NIFTI_XFORM_SCANNER_ANAT]]></TransformedSpace>\n\
         <MatrixData>1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1</MatrixData>\n\
         </CoordinateSystemTransformMatrix>\n";
    let level = options.compression_level;
    let vertices = mesh.vertices().iter().flat_map(floats).flat_map(f32::to_le_bytes);
    let shape = [mesh.vertices().len(), 3];
    array(sink, ["POINTSET", "FLOAT32"], "", system, shape, level, vertices)?;
    if !mesh.faces().is_empty() {
        let faces = mesh.faces().iter().flatten().flat_map(|i| i.to_le_bytes());
        array(sink, ["TRIANGLE", "INT32"], "", "", [mesh.faces().len(), 3], level, faces)?;
    }
    for data in mesh.data() {
        let intent = if data.is_direction { "VECTOR" } else { "NONE" };
        let values = data.values.iter().flat_map(|v| v.to_le_bytes());
        let shape = [mesh.vertices().len(), data.components];
        array(sink, [intent, "FLOAT32"], &data.name, "", shape, level, values)?;
    }
    sink.write_all(b"</GIFTI>\n")
}

fn floats(v: &Vector3<f64>) -> [f32; 3] {
    [v[0] as f32, v[1] as f32, v[2] as f32]
}

/// Writes one array.
fn array(
    sink: &mut dyn Write,
    [intent, kind]: [&str; 2],
    name: &str,
    system: &str,
    [rows, columns]: [usize; 2],
    level: u32,
    bytes: impl Iterator<Item = u8>,
) -> io::Result<()> {
    let axes = if columns == 1 { 1 } else { 2 };
    let columns = if columns == 1 { String::new() } else { format!(" Dim1=\"{columns}\"") };
    write!(
        sink,
        "<DataArray Intent=\"NIFTI_INTENT_{intent}\" DataType=\"NIFTI_TYPE_{kind}\" \
         ArrayIndexingOrder=\"RowMajorOrder\" Dimensionality=\"{axes}\" Dim0=\"{rows}\"{columns} \
         Encoding=\"GZipBase64Binary\" Endian=\"LittleEndian\" ExternalFileName=\"\" \
         ExternalFileOffset=\"0\">\n<MetaData>"
    )?;
    if !name.is_empty() {
        write!(sink, "<MD><Name>Name</Name><Value>")?;
        write_text(name, sink)?;
        write!(sink, "</Value></MD>")?;
    }
    write!(sink, "</MetaData>\n{system}<Data>")?;
    let mut packer = GzipWriter::zlib(Vec::new(), level)?;
    let mut piece = Vec::with_capacity(1 << 16);
    for byte in bytes {
        piece.push(byte);
        if piece.len() == piece.capacity() {
            packer.write_all(&piece)?;
            piece.clear();
        }
    }
    packer.write_all(&piece)?;
    to_base64(&packer.finish()?, sink)?;
    sink.write_all(b"</Data>\n</DataArray>\n")
}
