//! VTK XML of polygonal data, and what unstructured grids share with it: arrays as text, as base64, or appended.

mod coding;

use super::bytes::{AGAIN, Cursor, Number, Values, count, to_base64};
use super::cells::{Cells, Kind};
use super::parts::Parts;
use super::xml::{Piece, Start, Xml, append, write_text};
use super::{MeshSpace, WriteOptions};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use coding::Coding;
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use voxalign_image::{Mesh, Vector3, VertexData};

/// The beginning of what is appended.
const APPENDED: &[u8] = b"<AppendedData";

/// A `DataArray`.
#[derive(Debug)]
pub(crate) struct Array<'a> {
    /// The element that it is in.
    section: String,
    piece: usize,
    pub(crate) start: Start,
    text: Cow<'a, str>,
}

/// A `Piece` and what its `PointData` and `CellData` say of arrays.
#[derive(Debug, Default)]
struct Part {
    points: usize,
    directions: Vec<String>,
    cell_directions: Vec<String>,
}

/// The arrays and the pieces of a file.
#[derive(Debug)]
pub(crate) struct Opened<'b> {
    coding: Coding<'b>,
    arrays: Vec<Array<'b>>,
    pieces: Vec<Part>,
}

pub(crate) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let file = open(path, bytes, "PolyData")?;
    let mut parts = Parts::new(path, "");
    for piece in 0..file.pieces() {
        add_piece(piece, &file, &mut parts)?;
    }
    join_data(file.pieces(), &mut parts);
    file.state_space(&mut parts)?;
    Ok(parts)
}

/// Opens a file of a type of dataset, `PolyData` or `UnstructuredGrid`.
pub(crate) fn open<'b>(path: &'b Path, bytes: &'b [u8], dataset: &str) -> Result<Opened<'b>> {
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
    let (file, arrays, pieces) = document(path, head, cut.is_some(), dataset)?;
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
    Ok(Opened { coding: Coding { big, length, packed, appended }, arrays, pieces })
}

/// The elements of a document: the root, all arrays, and all pieces.
fn document<'b>(
    path: &'b Path,
    head: &'b str,
    cut: bool,
    dataset: &str,
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
                        check_dataset(path, kind, dataset)?;
                        file = Some(start);
                    }
                    "Piece" => {
                        let points = count(path, "points", start.get("NumberOfPoints"))?;
                        pieces.push(Part { points, ..Part::default() });
                    }
                    "DataArray" | "Array" => {
                        let (section, piece) = (section.clone(), pieces.len());
                        open = Some(Array { section, piece, start, text: Cow::Borrowed("") });
                    }
                    name => {
                        section = name.to_owned();
                        if let Some(piece) = pieces.last_mut() {
                            let names = ["Normals", "Vectors"].map(|name| start.get(name));
                            let names = names.into_iter().flatten().map(str::to_owned);
                            match name {
                                "PointData" => piece.directions = names.collect(),
                                "CellData" => piece.cell_directions = names.collect(),
                                _ => {}
                            }
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

/// An error where a file holds another type of dataset.
fn check_dataset(path: &Path, kind: &str, dataset: &str) -> Result<()> {
    if kind == dataset {
        return Ok(());
    }
    let (wanted, remedy) = if dataset == "PolyData" {
        (
            "polygonal data",
            "extract the surface first, for example with ParaView's filter Extract Surface",
        )
    } else {
        ("unstructured grid", "give a mesh of tetrahedra, which is a .vtu file")
    };
    let what = format!("the file holds '{}', no {wanted}", shorten(kind));
    Err(IoError::unsupported(path, what, remedy))
}

impl<'b> Opened<'b> {
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The arrays of a section of a piece.
    pub(crate) fn own(
        &self,
        piece: usize,
        section: &'static str,
    ) -> impl Iterator<Item = &Array<'b>> {
        let own = move |array: &&Array<'b>| array.piece == piece + 1 && array.section == section;
        self.arrays.iter().filter(own)
    }

    /// An array of a section of a piece by its name.
    pub(crate) fn named(
        &self,
        piece: usize,
        section: &'static str,
        name: &str,
    ) -> Option<&Array<'b>> {
        self.own(piece, section).find(|array| array.start.get("Name") == Some(name))
    }

    /// The values of an array.
    pub(crate) fn values(&self, path: &Path, array: &Array<'_>) -> Result<Values<'static>> {
        self.coding.values(path, array)
    }

    /// Whether an array of a piece is marked as one of directions.
    pub(crate) fn is_direction(&self, piece: usize, array: &Array<'_>) -> bool {
        let name = array.start.get("Name").unwrap_or_default();
        self.pieces.get(piece).is_some_and(|part| {
            let cells = array.section == "CellData";
            let names = if cells { &part.cell_directions } else { &part.directions };
            names.iter().any(|n| n == name)
        })
    }

    /// Adds the points of a piece; the number of those before.
    pub(crate) fn add_points(&self, piece: usize, parts: &mut Parts<'_>) -> Result<usize> {
        let before = parts.vertices.len();
        if let Some(points) = self.own(piece, "Points").next() {
            let kind = points.start.get("type").unwrap_or_default().to_owned();
            let format = points.start.get("format").unwrap_or("ascii").to_owned();
            let packed = if self.coding.packed { ", packed" } else { "" };
            parts.encoding = format!("{format}, {kind}{packed}");
            parts.add_vertices(&self.values(parts.path, points)?)?;
        }
        let number = self.pieces.get(piece).map_or(0, |piece| piece.points);
        let found = parts.vertices.len() - before;
        if found != number {
            return Err(parts.wrong(format!("{number} points are expected, and there are {found}")));
        }
        Ok(before)
    }

    /// Adds the values at the points of a piece.
    pub(crate) fn add_point_data(&self, piece: usize, parts: &mut Parts<'_>) -> Result<()> {
        let number = self.pieces.get(piece).map_or(0, |piece| piece.points);
        for array in self.own(piece, "PointData") {
            let name = array.start.get("Name").unwrap_or_default();
            if array.start.get("type") == Some("String") {
                continue;
            }
            let components = array.components(parts.path)?;
            let values = self.values(parts.path, array)?;
            if components.checked_mul(number) != Some(values.len()) {
                let found = values.len();
                return Err(parts
                    .wrong(format!("'{}' has {found} values for {number} points", shorten(name))));
            }
            let is_direction = self.is_direction(piece, array);
            parts.add_data(name, components, &values, is_direction)?;
        }
        Ok(())
    }

    /// Notes the space of the dataset, which 3D Slicer says in a text: codes of letters, or bytes where VTK stored them.
    pub(crate) fn state_space(&self, parts: &mut Parts<'_>) -> Result<()> {
        for array in self.arrays.iter().filter(|array| array.section == "FieldData") {
            if array.start.get("Name") != Some("SPACE") {
                continue;
            }
            let text = match array.start.get("format").unwrap_or("ascii") {
                "ascii" => {
                    let codes = Cursor::new(parts.path, array.text.as_bytes()).all_text()?;
                    codes.iter().map(|code| code as u8).collect()
                }
                _ => self.coding.bytes(parts.path, array)?,
            };
            parts.stated = match String::from_utf8_lossy(&text).trim_matches('\0') {
                "RAS" => Some(MeshSpace::Ras),
                "LPS" => Some(MeshSpace::Lps),
                _ => parts.stated,
            };
        }
        Ok(())
    }
}

impl Array<'_> {
    /// Values a point or a cell.
    pub(crate) fn components(&self, path: &Path) -> Result<usize> {
        match self.start.get("NumberOfComponents") {
            None | Some("0") => Ok(1),
            some => count(path, "components", some),
        }
    }
}

/// Adds a piece to the mesh.
fn add_piece(piece: usize, file: &Opened<'_>, parts: &mut Parts<'_>) -> Result<()> {
    let path = parts.path;
    let before = file.add_points(piece, parts)?;
    for (section, kind) in [
        ("Verts", Kind::Vertices),
        ("Lines", Kind::Lines),
        ("Polys", Kind::Polygons),
        ("Strips", Kind::Strips),
    ] {
        let named = |name: &str| file.named(piece, section, name);
        let (Some(connectivity), Some(offsets)) = (named("connectivity"), named("offsets")) else {
            continue;
        };
        let offsets = file.values(path, offsets)?;
        let connectivity = file.values(path, connectivity)?;
        let mut cells = Cells::ended(path, &offsets, 0, &connectivity)?;
        cells.shift(path, before)?;
        cells.add(kind, parts)?;
    }
    for array in file.own(piece, "CellData") {
        let name = shorten(array.start.get("Name").unwrap_or_default());
        parts.say(format!("'{name}', values of cells, was left out"));
    }
    file.add_point_data(piece, parts)
}

/// Makes one array of those that several pieces have; what not every piece has is left out.
pub(crate) fn join_data(pieces: usize, parts: &mut Parts<'_>) {
    if pieces < 2 {
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

/// Writes the bytes of an array.
type Put<'m> = dyn Fn(&mut dyn Write) -> io::Result<()> + 'm;

/// What is written of an array: its attributes, and its bytes.
pub(crate) struct Written<'m> {
    attributes: String,
    len: usize,
    put: Box<Put<'m>>,
}

pub(crate) fn written<'m, const N: usize>(
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
pub(crate) type Section<'m> = (String, Vec<Written<'m>>);

/// Values at points or in cells: the section of that name.
pub(crate) fn data_section<'m>(
    name: &str,
    data: &'m [VertexData],
    space: MeshSpace,
) -> Section<'m> {
    let arrays = data.iter().map(|array| {
        written("Float32", &array.name, array.components, array.values.len(), move || {
            let turned =
                move |(i, &value): (usize, &f32)| space.turn(array, i % array.components, value);
            Box::new(array.values.iter().enumerate().map(turned).map(f32::to_le_bytes))
        })
    });
    let mut tag = name.to_owned();
    for array in data.iter().filter(|array| array.is_direction) {
        let kind =
            if array.name.to_ascii_lowercase().contains("normal") { "Normals" } else { "Vectors" };
        if !tag.contains(kind) {
            let mut name = Vec::new();
            let _ = write_text(&array.name, &mut name);
            tag += &format!(" {kind}=\"{}\"", String::from_utf8_lossy(&name));
        }
    }
    (tag, arrays.collect())
}

/// The section of the positions, mm.
pub(crate) fn points_section(vertices: &[Vector3<f64>], space: MeshSpace) -> Section<'_> {
    let points = written("Float64", "Points", 3, 3 * vertices.len(), move || {
        let vertices = vertices.iter().map(move |v| space.convert(*v));
        Box::new(vertices.flat_map(|v| [v[0], v[1], v[2]]).map(f64::to_le_bytes))
    });
    ("Points".to_owned(), vec![points])
}

fn sections<'m>(mesh: &'m Mesh, space: MeshSpace) -> Vec<Section<'m>> {
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
        data_section("PointData", mesh.data(), space),
        points_section(mesh.vertices(), space),
        ("Lines".to_owned(), lines),
        ("Polys".to_owned(), faces),
    ]
}

pub(crate) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    let counts = format!(
        "NumberOfPoints=\"{}\" NumberOfVerts=\"0\" NumberOfLines=\"{}\" NumberOfStrips=\"0\" \
         NumberOfPolys=\"{}\"",
        mesh.vertices().len(),
        mesh.lines().len(),
        mesh.faces().len()
    );
    let sections = sections(mesh, options.space);
    write_sections(path, ["PolyData", &counts], &sections, options.space, options.as_text)
}

/// Writes a file of one piece, whose dataset and whose counts come first.
pub(crate) fn write_sections(
    path: &Path,
    [dataset, counts]: [&str; 2],
    sections: &[Section<'_>],
    space: MeshSpace,
    inline: bool,
) -> Result<()> {
    atomic::write_file(path, |sink| {
        let codes: Vec<String> = space.to_string().bytes().map(|code| code.to_string()).collect();
        write!(
            sink,
            "<?xml version=\"1.0\"?>\n\
             <VTKFile type=\"{dataset}\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">\n\
             <{dataset}>\n<FieldData>\n\
             <Array type=\"String\" Name=\"SPACE\" NumberOfTuples=\"1\" format=\"ascii\">{} 0</Array>\n\
             </FieldData>\n\
             <Piece {counts}>\n",
            codes.join(" ")
        )?;
        let mut offset = 0;
        for (tag, arrays) in sections {
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
        writeln!(sink, "</Piece>\n</{dataset}>")?;
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
