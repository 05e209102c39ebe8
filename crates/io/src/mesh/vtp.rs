//! VTK XML of polygonal data: arrays as text, as base64, or appended.

use super::bytes::to_base64;
use super::bytes::{AGAIN, Base64, Cursor, Number, Values, count, read_exactly};
use super::cells::{Cells, Kind};
use super::parts::Parts;
use super::xml::{Piece, Start, Xml, append, write_text};
use super::{MeshSpace, WriteOptions};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use flate2::bufread::ZlibDecoder;
use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::path::Path;
use voxalign_image::{Mesh, VertexData};

/// The beginning of what is appended.
const APPENDED: &[u8] = b"<AppendedData";

/// How arrays are stored in a file.
#[derive(Debug)]
struct Coding<'b> {
    big: bool,
    /// The type of lengths.
    length: Number,
    packed: bool,
    /// What is appended, and whether as base64.
    appended: Option<(&'b [u8], bool)>,
}

/// A `DataArray`.
#[derive(Debug)]
struct Array<'a> {
    /// The element that it is in.
    section: String,
    piece: usize,
    start: Start,
    text: Cow<'a, str>,
}

/// A `Piece` and what its `PointData` says of arrays.
#[derive(Debug, Default)]
struct Part {
    points: usize,
    directions: Vec<String>,
}

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let malformed = |problem: &str| IoError::malformed(path, problem, AGAIN);
    // What is appended may be no text.
    let cut = bytes.windows(APPENDED.len()).position(|words| words == APPENDED);
    let head = std::str::from_utf8(&bytes[..cut.unwrap_or(bytes.len())])
        .map_err(|_| malformed("the XML has letters in another encoding than UTF-8"))?;
    let appended = match cut {
        None => None,
        Some(cut) => {
            let rest = &bytes[cut..];
            let begin = rest.iter().position(|&b| b == b'_');
            let begin = begin.ok_or_else(|| malformed("the appended data do not begin with _"))?;
            let tag = String::from_utf8_lossy(&rest[..begin]);
            let base64 = tag.contains("base64");
            Some((&rest[begin + 1..], base64))
        }
    };
    let (file, arrays, pieces) = document(path, head, cut.is_some())?;
    let mut parts = Parts::new(path, "");
    let packed = match file.get("compressor") {
        None | Some("") => false,
        Some("vtkZLibDataCompressor") => true,
        Some(other) => {
            let what = format!("arrays are packed by '{}'", shorten(other));
            let remedy = "write it with ZLib compression or without";
            return Err(IoError::unsupported(path, what, remedy));
        }
    };
    let long = file.get("header_type") == Some("UInt64");
    let length = if long { Number::U64 } else { Number::U32 };
    let big = file.get("byte_order") == Some("BigEndian");
    let coding = Coding { big, length, packed, appended };
    for piece in 0..pieces.len() {
        add_piece(piece, &pieces, &arrays, &coding, &mut parts)?;
    }
    join_data(&pieces, &mut parts);
    Ok(parts)
}

/// The elements of a document: the root, all arrays, and all pieces.
fn document<'b>(
    path: &'b Path,
    head: &'b str,
    cut: bool,
) -> Result<(Start, Vec<Array<'b>>, Vec<Part>)> {
    let mut xml = Xml::new(path, head);
    let malformed = |problem: String| IoError::malformed(path, problem, AGAIN);
    let (mut file, mut arrays, mut pieces) = (None, Vec::new(), Vec::<Part>::new());
    let (mut section, mut open) = (String::new(), None::<Array<'b>>);
    let mut depth = 0;
    while let Some(piece) = xml.next()? {
        match piece {
            Piece::Start(start) => {
                if open.is_some() {
                    depth += 1;
                    continue;
                }
                match start.name.as_str() {
                    "VTKFile" => {
                        let kind = start.get("type").unwrap_or_default();
                        if kind != "PolyData" {
                            let what =
                                format!("the file holds '{}', no polygonal data", shorten(kind));
                            let remedy = "extract the surface first, for example with ParaView's filter Extract Surface";
                            return Err(IoError::unsupported(path, what, remedy));
                        }
                        file = Some(start);
                    }
                    "Piece" => {
                        let points = count(path, "points", start.get("NumberOfPoints"))?;
                        pieces.push(Part { points, directions: Vec::new() });
                    }
                    "DataArray" | "Array" => {
                        let (section, piece) = (section.clone(), pieces.len());
                        open = Some(Array { section, piece, start, text: Cow::Borrowed("") });
                    }
                    name => {
                        section = name.to_owned();
                        if let Some(piece) = pieces.last_mut().filter(|_| name == "PointData") {
                            let names = ["Normals", "Vectors"].map(|name| start.get(name));
                            piece.directions =
                                names.into_iter().flatten().map(str::to_owned).collect();
                        }
                    }
                }
            }
            Piece::Text(text) => {
                if let Some(array) = open.as_mut().filter(|_| depth == 0) {
                    append(path, &mut array.text, text)?;
                }
            }
            Piece::End(_) if depth > 0 => depth -= 1,
            Piece::End(name) => match open.take() {
                Some(array) => arrays.push(array),
                None if name == section => section.clear(),
                None => {}
            },
        }
    }
    if !cut && xml.is_open() {
        return Err(malformed("the file ends early".into()));
    }
    let file = file.ok_or_else(|| malformed("there is no <VTKFile> in it".into()))?;
    Ok((file, arrays, pieces))
}

/// Adds a piece to the mesh.
fn add_piece(
    piece: usize,
    pieces: &[Part],
    arrays: &[Array<'_>],
    coding: &Coding<'_>,
    parts: &mut Parts<'_>,
) -> Result<()> {
    let path = parts.path;
    let own = |section: &'static str| {
        arrays.iter().filter(move |array| array.piece == piece + 1 && array.section == section)
    };
    let before = parts.vertices.len();
    if let Some(points) = own("Points").next() {
        let kind = points.start.get("type").unwrap_or_default().to_owned();
        let format = points.start.get("format").unwrap_or("ascii").to_owned();
        parts.encoding = format!("{format}, {kind}{}", if coding.packed { ", packed" } else { "" });
        parts.add_vertices(&coding.values(path, points)?)?;
    }
    let number = pieces.get(piece).map_or(0, |piece| piece.points);
    let found = parts.vertices.len() - before;
    if found != number {
        return Err(parts.wrong(format!("{number} points are expected, and there are {found}")));
    }
    for (section, kind) in [
        ("Verts", Kind::Vertices),
        ("Lines", Kind::Lines),
        ("Polys", Kind::Polygons),
        ("Strips", Kind::Strips),
    ] {
        let named = |name: &str| own(section).find(|array| array.start.get("Name") == Some(name));
        let (Some(connectivity), Some(offsets)) = (named("connectivity"), named("offsets")) else {
            continue;
        };
        let offsets = coding.values(path, offsets)?;
        let connectivity = coding.values(path, connectivity)?;
        let mut cells = Cells::ended(path, &offsets, 0, &connectivity)?;
        cells.shift(path, before)?;
        cells.add(kind, parts)?;
    }
    for array in own("CellData") {
        let name = shorten(array.start.get("Name").unwrap_or_default());
        parts.say(format!("'{name}', values of cells, was left out"));
    }
    for array in own("PointData") {
        let name = array.start.get("Name").unwrap_or_default();
        if array.start.get("type") == Some("String") {
            continue;
        }
        let components = match array.start.get("NumberOfComponents") {
            None | Some("0") => 1,
            some => count(path, "components", some)?,
        };
        let values = coding.values(path, array)?;
        if components.checked_mul(number) != Some(values.len()) {
            let found = values.len();
            return Err(
                parts.wrong(format!("'{}' has {found} values for {number} points", shorten(name)))
            );
        }
        let directions = pieces.get(piece).map(|piece| &piece.directions);
        let is_direction = directions.is_some_and(|names| names.iter().any(|n| n == name));
        parts.add_data(name, components, &values, is_direction)?;
    }
    // 3D Slicer says the space in a text of the dataset.
    for array in arrays.iter().filter(|array| array.section == "FieldData") {
        if array.start.get("Name") == Some("SPACE") && array.start.get("format") == Some("ascii") {
            let codes = Cursor::new(path, array.text.as_bytes()).all_text()?;
            let text: String = codes.iter().map(|code| char::from(code as u8)).collect();
            parts.stated = match text.trim_matches('\0') {
                "RAS" => Some(MeshSpace::Ras),
                "LPS" => Some(MeshSpace::Lps),
                _ => parts.stated,
            };
        }
    }
    Ok(())
}

/// Makes one array of those that several pieces have; what not every piece has is left out.
fn join_data(pieces: &[Part], parts: &mut Parts<'_>) {
    if pieces.len() < 2 {
        return;
    }
    let mut joined: Vec<VertexData> = Vec::new();
    for array in std::mem::take(&mut parts.data) {
        let same = |other: &&mut VertexData| {
            other.name == array.name && other.components == array.components
        };
        match joined.iter_mut().find(same) {
            Some(other) => other.values.extend(array.values),
            None => joined.push(array),
        }
    }
    let vertices = parts.vertices.len();
    joined.retain(|array| {
        let all = array.values.len() == array.components * vertices;
        if !all {
            parts.say(format!(
                "'{}', which not every piece has, was left out",
                shorten(&array.name)
            ));
        }
        all
    });
    parts.data = joined;
}

impl<'b> Coding<'b> {
    fn values(&self, path: &Path, array: &'b Array<'_>) -> Result<Values<'b>> {
        let wrong = |problem: String| IoError::malformed(path, problem, AGAIN);
        let start = &array.start;
        let number = match start.need(path, "type")? {
            "Int8" => Number::I8,
            "UInt8" => Number::U8,
            "Int16" => Number::I16,
            "UInt16" => Number::U16,
            "Int32" => Number::I32,
            "UInt32" => Number::U32,
            "Int64" => Number::I64,
            "UInt64" => Number::U64,
            "Float32" => Number::F32,
            "Float64" => Number::F64,
            other => return Err(wrong(format!("the type of an array is '{}'", shorten(other)))),
        };
        let bytes = match start.get("format").unwrap_or("ascii") {
            "ascii" => {
                return match Cursor::new(path, array.text.as_bytes()).all_text()? {
                    Values::Text(values) => Ok(Values::Text(values)),
                    Values::Bytes { .. } => Ok(Values::Text(Vec::new())),
                };
            }
            "binary" => self.block(path, array.text.trim().as_bytes(), true)?,
            "appended" => {
                let offset = count(path, "bytes", start.get("offset"))?;
                let (all, base64) =
                    self.appended.ok_or_else(|| wrong("there is no <AppendedData>".into()))?;
                let rest = all.get(offset..).ok_or_else(|| {
                    wrong(format!("an array begins at {offset} of {} bytes", all.len()))
                })?;
                self.block(path, rest, base64)?
            }
            other => return Err(wrong(format!("the format of an array is '{}'", shorten(other)))),
        };
        if !bytes.len().is_multiple_of(number.size()) {
            return Err(wrong(format!("an array of {} bytes cannot be", bytes.len())));
        }
        Ok(Values::Bytes { bytes: Cow::Owned(bytes), number, big: self.big })
    }

    /// The bytes of an array, whose lengths come first.
    fn block(&self, path: &Path, bytes: &[u8], base64: bool) -> Result<Vec<u8>> {
        let mut whole = bytes;
        let mut decoded = Base64::new(bytes);
        let reader: &mut dyn Read = if base64 { &mut decoded } else { &mut whole };
        let wrong = |problem: String| IoError::malformed(path, problem, AGAIN);
        let fits = |claimed: usize| {
            if claimed <= bytes.len() {
                return Ok(());
            }
            Err(wrong(format!("{claimed} bytes are said to be in {}", bytes.len())))
        };
        let length = |reader: &mut dyn Read| {
            let mut bytes = Vec::new();
            read_exactly(path, reader, self.length.size(), &mut bytes)?;
            // Larger than can be counted is larger than the file.
            Ok(self.length.value(&bytes, self.big) as usize)
        };
        let mut done = Vec::new();
        let first = length(reader)?;
        if !self.packed {
            fits(first)?;
            read_exactly(path, reader, first, &mut done)?;
            return Ok(done);
        }
        fits(first.saturating_mul(self.length.size()))?;
        let [size, last] = [length(reader)?, length(reader)?];
        let mut sizes = Vec::new();
        for _ in 0..first {
            sizes.push(length(reader)?);
        }
        for (block, &packed) in sizes.iter().enumerate() {
            fits(packed)?;
            let mut piece = Vec::new();
            read_exactly(path, reader, packed, &mut piece)?;
            let expected = if block + 1 == first && last > 0 { last } else { size };
            read_exactly(path, &mut ZlibDecoder::new(&piece[..]), expected, &mut done)?;
        }
        Ok(done)
    }
}

/// Writes the bytes of an array.
type Put<'m> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'm;

/// What is written of an array: its attributes, and its bytes.
struct Written<'m> {
    attributes: String,
    len: usize,
    put: Box<Put<'m>>,
}

fn written<'m, const N: usize>(
    kind: &str,
    name: &str,
    components: usize,
    len: usize,
    bytes: impl Fn() -> Box<dyn Iterator<Item = [u8; N]> + 'm> + 'm,
) -> Written<'m> {
    let mut escaped = Vec::new();
    // Into memory nothing fails.
    let _ = write_text(name, &mut escaped);
    let name = String::from_utf8_lossy(&escaped);
    let attributes = format!("type=\"{kind}\" Name=\"{name}\" NumberOfComponents=\"{components}\"");
    let put =
        Box::new(move |sink: &mut dyn Write| bytes().try_for_each(|one| sink.write_all(&one)));
    Written { attributes, len: len * N, put }
}

/// A section of a piece: its tag, and its arrays.
type Section<'m> = (String, Vec<Written<'m>>);

fn sections<'m>(mesh: &'m Mesh, space: MeshSpace) -> Vec<Section<'m>> {
    let data = mesh.data().iter().map(|array| {
        written("Float32", &array.name, array.components, array.values.len(), move || {
            let turned =
                move |(i, &value): (usize, &f32)| space.turn(array, i % array.components, value);
            Box::new(array.values.iter().enumerate().map(turned).map(f32::to_le_bytes))
        })
    });
    let direction = mesh.data().iter().filter(|array| array.is_direction);
    let mut tag = "PointData".to_owned();
    for array in direction {
        let kind =
            if array.name.to_ascii_lowercase().contains("normal") { "Normals" } else { "Vectors" };
        if !tag.contains(kind) {
            let mut name = Vec::new();
            let _ = write_text(&array.name, &mut name);
            tag += &format!(" {kind}=\"{}\"", String::from_utf8_lossy(&name));
        }
    }
    let points = written("Float64", "Points", 3, 3 * mesh.vertices().len(), move || {
        let vertices = mesh.vertices().iter().map(move |v| space.convert(*v));
        Box::new(vertices.flat_map(|v| [v[0], v[1], v[2]]).map(f64::to_le_bytes))
    });
    let lines = vec![
        written("Int64", "connectivity", 1, mesh.line_vertices().len(), move || {
            Box::new(mesh.line_vertices().iter().map(|&i| i64::from(i).to_le_bytes()))
        }),
        written("Int64", "offsets", 1, mesh.line_ends().len(), move || {
            Box::new(mesh.line_ends().iter().map(|&end| (end as i64).to_le_bytes()))
        }),
    ];
    let faces = vec![
        written("Int64", "connectivity", 1, 3 * mesh.faces().len(), move || {
            Box::new(mesh.faces().iter().flatten().map(|&i| i64::from(i).to_le_bytes()))
        }),
        written("Int64", "offsets", 1, mesh.faces().len(), move || {
            Box::new((1..=mesh.faces().len()).map(|n| (3 * n as i64).to_le_bytes()))
        }),
    ];
    vec![
        (tag, data.collect()),
        ("Points".to_owned(), vec![points]),
        ("Lines".to_owned(), lines),
        ("Polys".to_owned(), faces),
    ]
}

pub(super) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    let sections = sections(mesh, options.space);
    let inline = options.as_text;
    atomic::write_file(path, |sink| {
        let codes: Vec<String> =
            options.space.to_string().bytes().map(|code| code.to_string()).collect();
        write!(
            sink,
            "<?xml version=\"1.0\"?>\n\
             <VTKFile type=\"PolyData\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">\n\
             <PolyData>\n<FieldData>\n\
             <Array type=\"String\" Name=\"SPACE\" NumberOfTuples=\"1\" format=\"ascii\">{} 0</Array>\n\
             </FieldData>\n\
             <Piece NumberOfPoints=\"{}\" NumberOfVerts=\"0\" NumberOfLines=\"{}\" NumberOfStrips=\"0\" \
             NumberOfPolys=\"{}\">\n",
            codes.join(" "),
            mesh.vertices().len(),
            mesh.lines().len(),
            mesh.faces().len()
        )?;
        let mut offset = 0;
        for (tag, arrays) in &sections {
            writeln!(sink, "<{tag}>")?;
            for array in arrays {
                let attributes = &array.attributes;
                if inline {
                    write!(sink, "<DataArray {attributes} format=\"binary\">")?;
                    let mut bytes = (array.len as u64).to_le_bytes().to_vec();
                    (array.put)(&mut bytes)?;
                    to_base64(&bytes, sink)?;
                    writeln!(sink, "</DataArray>")?;
                } else {
                    writeln!(
                        sink,
                        "<DataArray {attributes} format=\"appended\" offset=\"{offset}\"/>"
                    )?;
                    offset += 8 + array.len;
                }
            }
            let name = tag.split(' ').next().unwrap_or_default();
            writeln!(sink, "</{name}>")?;
        }
        writeln!(sink, "</Piece>\n</PolyData>")?;
        if !inline {
            sink.write_all(b"<AppendedData encoding=\"raw\">\n_")?;
            for array in sections.iter().flat_map(|(_, arrays)| arrays) {
                sink.write_all(&(array.len as u64).to_le_bytes())?;
                (array.put)(sink)?;
            }
            sink.write_all(b"\n</AppendedData>\n")?;
        }
        writeln!(sink, "</VTKFile>")
    })
}
