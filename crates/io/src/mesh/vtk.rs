//! Legacy VTK: polygonal data, and surface cells of unstructured grids.

use super::bytes::{AGAIN, Cursor, Number, Values, count};
use super::cells::{CellValues, Cells, Kind, add_typed};
use super::parts::{Parts, stated_space};
use super::{MeshSpace, WriteOptions};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use std::io::{self, Write};
use std::path::Path;
use voxalign_image::{Mesh, Vector3, VertexData, memory};

/// What values belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Dataset,
    Points,
    Cells,
}

/// What is read of a file.
pub(crate) struct Reader<'a, 'b> {
    cursor: Cursor<'b>,
    pub(crate) parts: Parts<'a>,
    binary: bool,
    /// Whether cells have offsets and connectivity.
    offsets: bool,
    of: Of,
    /// How many points or cells values are for.
    number: usize,
    pub(crate) cells: Option<Cells>,
    pub(crate) types: Option<Values<'b>>,
    /// Values of cells, where they are wanted.
    pub(crate) cell_values: Option<Vec<CellValues<'b>>>,
}

pub(crate) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let Reader { mut parts, cells, types, .. } = dataset(path, bytes, false)?;
    match (cells, types) {
        (Some(cells), Some(types)) => add_typed(&cells, &types, &mut parts)?,
        (Some(_), None) => return Err(parts.wrong("there are CELLS without CELL_TYPES")),
        _ => {}
    }
    Ok(parts)
}

/// All sections of a file; values of cells where they are wanted.
pub(crate) fn dataset<'a, 'b>(
    path: &'a Path,
    bytes: &'b [u8],
    with_cell_values: bool,
) -> Result<Reader<'a, 'b>>
where
    'a: 'b,
{
    let mut cursor = Cursor::new(path, bytes);
    let first = cursor.text_line().unwrap_or_default();
    let Some(version) = first.strip_prefix("# vtk DataFile Version") else {
        let problem = "the file does not begin with '# vtk DataFile Version'";
        return Err(IoError::malformed(path, problem, "check that it is the right file"));
    };
    let major: u32 = version.trim().split('.').next().unwrap_or_default().parse().unwrap_or(0);
    let title = cursor.text_line().unwrap_or_default();
    let coding = cursor.text_line().unwrap_or_default();
    let binary = match coding.trim().to_ascii_uppercase().as_str() {
        "ASCII" => false,
        "BINARY" => true,
        other => {
            let problem = format!("line 3 is '{}', not ASCII or BINARY", shorten(other));
            return Err(IoError::malformed(path, problem, AGAIN));
        }
    };
    let mut parts = Parts::new(path, if binary { "binary" } else { "ASCII" });
    parts.stated = stated_space(&title);
    let (of, offsets) = (Of::Dataset, major >= 5);
    let (cells, types) = (None, None);
    let cell_values = with_cell_values.then(Vec::new);
    let mut reader =
        Reader { cursor, parts, binary, offsets, of, number: 0, cells, types, cell_values };
    reader.sections()?;
    Ok(reader)
}

impl<'b> Reader<'_, 'b> {
    /// The words of the next line that is not empty.
    fn words(&mut self) -> Option<Vec<String>> {
        self.cursor.skip_space();
        let line = self.cursor.text_line()?;
        Some(line.split_whitespace().map(str::to_owned).collect())
    }

    fn count(&self, what: &str, text: Option<&String>) -> Result<usize> {
        count(self.parts.path, what, text.map(String::as_str))
    }

    fn sections(&mut self) -> Result<()> {
        let mut any = false;
        while let Some(words) = self.words() {
            let keyword = words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
            match keyword.as_str() {
                "DATASET" => {
                    self.dataset(words.get(1))?;
                    any = true;
                }
                _ if !any && keyword != "FIELD" && keyword != "METADATA" => {
                    let problem = format!("'{}' comes before DATASET", shorten(&keyword));
                    return Err(self.parts.wrong(problem));
                }
                "POINTS" => {
                    let points = self.count("points", words.get(1))?;
                    let values = self.array(words.get(2), points.saturating_mul(3))?;
                    if !self.parts.vertices.is_empty() {
                        return Err(self.parts.wrong("there are several sets of POINTS"));
                    }
                    self.parts.add_vertices(&values)?;
                    let name = words.get(2).map(|word| word.to_ascii_lowercase());
                    let name = name.unwrap_or_default();
                    self.parts.encoding = format!("{}, {name}", self.parts.encoding);
                }
                "VERTICES" => self.cells_of(&words)?.add(Kind::Vertices, &mut self.parts)?,
                "LINES" => self.cells_of(&words)?.add(Kind::Lines, &mut self.parts)?,
                "POLYGONS" => self.cells_of(&words)?.add(Kind::Polygons, &mut self.parts)?,
                "TRIANGLE_STRIPS" => self.cells_of(&words)?.add(Kind::Strips, &mut self.parts)?,
                "CELLS" => self.cells = Some(self.cells_of(&words)?),
                "CELL_TYPES" => {
                    let cells = self.count("cells", words.get(1))?;
                    self.types = Some(self.array(Some(&"int".to_owned()), cells)?);
                }
                "POINT_DATA" | "CELL_DATA" => {
                    self.of = if keyword == "POINT_DATA" { Of::Points } else { Of::Cells };
                    self.number = self.count("values", words.get(1))?;
                    let vertices = self.parts.vertices.len();
                    if self.of == Of::Points && self.number != vertices {
                        let n = self.number;
                        return Err(self
                            .parts
                            .wrong(format!("{n} values are for {vertices} points")));
                    }
                }
                "METADATA" => self.skip_metadata(),
                _ => self.attribute(&keyword, &words)?,
            }
        }
        if any { Ok(()) } else { Err(self.parts.wrong("there is no DATASET")) }
    }

    fn dataset(&self, name: Option<&String>) -> Result<()> {
        let name = name.map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        if ["POLYDATA", "UNSTRUCTURED_GRID"].contains(&name.as_str()) {
            return Ok(());
        }
        let what = format!("the dataset is '{}', which is not a mesh", shorten(&name));
        let remedy = match self.cell_values {
            None => "give polygonal data; images are read from NIfTI, NRRD and MetaImage",
            Some(_) => "give an unstructured grid of tetrahedra",
        };
        Err(IoError::unsupported(self.parts.path, what, remedy))
    }

    /// Names, units and the like, up to an empty line.
    fn skip_metadata(&mut self) {
        while self.cursor.line().is_some_and(|line| !line.trim_ascii().is_empty()) {}
    }

    /// The cells of a section.
    fn cells_of(&mut self, words: &[String]) -> Result<Cells> {
        let path = self.parts.path;
        let number = self.count("cells", words.get(1))?;
        let size = self.count("values", words.get(2))?;
        if !self.offsets {
            let values = self.array(Some(&"int".to_owned()), size)?;
            return Cells::counted(path, &values, number);
        }
        let mut arrays = Vec::new();
        for (wanted, len) in [("OFFSETS", number), ("CONNECTIVITY", size)] {
            let words = self.words().unwrap_or_default();
            if words.first().is_none_or(|word| !word.eq_ignore_ascii_case(wanted)) {
                return Err(self.parts.wrong(format!("there is no {wanted} where it should be")));
            }
            arrays.push(self.array(words.get(1), len)?);
        }
        match &arrays[..] {
            [offsets, connectivity] => Cells::ended(path, offsets, 1, connectivity),
            _ => Ok(Cells::default()),
        }
    }

    /// An array of a type and a length.
    fn array(&mut self, kind: Option<&String>, len: usize) -> Result<Values<'b>> {
        let kind = kind.map(|kind| kind.to_ascii_lowercase()).unwrap_or_default();
        let number = match kind.as_str() {
            "char" | "signed_char" | "vtktypeint8" => Number::I8,
            "unsigned_char" | "vtktypeuint8" => Number::U8,
            "short" | "vtktypeint16" => Number::I16,
            "unsigned_short" | "vtktypeuint16" => Number::U16,
            "int" | "vtkidtype" | "vtktypeint32" => Number::I32,
            "unsigned_int" | "vtktypeuint32" => Number::U32,
            "long" | "vtktypeint64" => Number::I64,
            "unsigned_long" | "vtktypeuint64" => Number::U64,
            "float" => Number::F32,
            "double" => Number::F64,
            "bit" if self.binary => {
                let bytes = self.cursor.take(len.div_ceil(8))?;
                let bit = |i: usize| {
                    f64::from(bytes.get(i / 8).is_some_and(|byte| byte >> (7 - i % 8) & 1 == 1))
                };
                let bits = memory::collected((0..len).map(bit));
                return Ok(Values::Text(bits.map_err(|e| IoError::memory(self.parts.path, e))?));
            }
            "bit" => Number::U8,
            other => {
                let problem = format!("'{}' is not a type of numbers", shorten(other));
                return Err(self.parts.wrong(problem));
            }
        };
        if self.binary { self.cursor.binary(number, len, true) } else { self.cursor.text(len) }
    }

    /// Skips texts: each on its own line, or preceded by its length, whose first two bits say how long that is.
    fn skip_texts(&mut self, len: usize) -> Result<()> {
        for _ in 0..len {
            if !self.binary {
                if self.cursor.line().is_none() {
                    return Err(self.parts.wrong("the file ends within texts"));
                }
                continue;
            }
            let first = self.cursor.take(1)?.first().copied().unwrap_or_default();
            let more = [7, 3, 1, 0][usize::from(first >> 6)];
            let rest = self.cursor.take(more)?;
            let first = usize::from(first & 63);
            let length =
                rest.iter().fold(first, |n, &byte| n.saturating_mul(256) | usize::from(byte));
            self.cursor.take(length)?;
        }
        Ok(())
    }

    /// Values at points or cells.
    fn attribute(&mut self, keyword: &str, words: &[String]) -> Result<()> {
        let name = words.get(1).map(|name| decoded(name)).unwrap_or_default();
        let number = self.number;
        let (components, kind, is_direction) = match keyword {
            "FIELD" => return self.field(words),
            "SCALARS" => {
                let components = match words.get(3) {
                    None => 1,
                    some => self.count("components", some)?,
                };
                // A table of colours may be named on a line of its own.
                let mut ahead = self.cursor.clone();
                ahead.skip_space();
                if ahead
                    .rest()
                    .get(..12)
                    .is_some_and(|word| word.eq_ignore_ascii_case(b"LOOKUP_TABLE"))
                {
                    ahead.line();
                    self.cursor = ahead;
                }
                (components, words.get(2).cloned(), false)
            }
            "LOOKUP_TABLE" => {
                let size = self.count("colours", words.get(2))?;
                let kind = if self.binary { "unsigned_char" } else { "float" };
                self.array(Some(&kind.to_owned()), size.saturating_mul(4))?;
                return Ok(());
            }
            "COLOR_SCALARS" => {
                let kind = if self.binary { "unsigned_char" } else { "float" };
                (self.count("components", words.get(2))?, Some(kind.to_owned()), false)
            }
            "VECTORS" | "NORMALS" => (3, words.get(2).cloned(), true),
            "TENSORS" => (9, words.get(2).cloned(), false),
            "TENSORS6" => (6, words.get(2).cloned(), false),
            "TEXTURE_COORDINATES" => {
                (self.count("components", words.get(2))?, words.get(3).cloned(), false)
            }
            "GLOBAL_IDS" | "PEDIGREE_IDS" => (1, words.get(2).cloned(), false),
            other => {
                let line = self.cursor.line_number();
                let problem = format!("line {line}: '{}' is not known", shorten(other));
                return Err(self.parts.wrong(problem));
            }
        };
        let values = self.array(kind.as_ref(), number.saturating_mul(components))?;
        self.keep(name, components, values, is_direction)
    }

    /// Any number of arrays.
    fn field(&mut self, words: &[String]) -> Result<()> {
        for _ in 0..self.count("arrays", words.get(2))? {
            let mut words = self.words().unwrap_or_default();
            while words.first().is_some_and(|word| word == "METADATA") {
                self.skip_metadata();
                words = self.words().unwrap_or_default();
            }
            let [name, components, tuples, kind] = &words[..] else {
                return Err(self.parts.wrong("a field has no array where it should"));
            };
            let components = self.count("components", Some(components))?;
            let tuples = self.count("values", Some(tuples))?;
            let len = components.saturating_mul(tuples);
            if ["string", "utf8_string"].contains(&kind.as_str()) {
                let before = self.cursor.rest();
                self.skip_texts(len)?;
                // VTK keeps the space of a dataset when it writes it again; surfaces have it in the title alone.
                if name == "SPACE" && self.of == Of::Dataset && self.cell_values.is_some() {
                    let used = before.len() - self.cursor.rest().len();
                    let text = String::from_utf8_lossy(before.get(..used).unwrap_or_default());
                    let letters = text.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
                    let stated = stated_space(&format!("SPACE={letters}"));
                    self.parts.stated = stated.or(self.parts.stated);
                }
                continue;
            }
            let values = self.array(Some(kind), len)?;
            if self.of == Of::Points && tuples != self.number {
                let (name, n) = (shorten(name), self.number);
                self.parts
                    .say(format!("'{name}' has {tuples} values for {n} points and was left out"));
            } else {
                self.keep(decoded(name), components, values, false)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, name: String, n: usize, values: Values<'b>, direction: bool) -> Result<()> {
        match (self.of, &mut self.cell_values) {
            (Of::Points, _) if n > 0 => self.parts.add_data(name, n, &values, direction),
            (Of::Cells, Some(kept)) => {
                let is_direction = direction && n == 3;
                kept.push(CellValues { name, components: n, values, is_direction });
                Ok(())
            }
            (Of::Cells, None) => {
                self.parts.say(format!("'{}', values of cells, was left out", shorten(&name)));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A name without `%20` and the like.
fn decoded(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A name of one word.
fn encoded(name: &str) -> String {
    if name.is_empty() {
        return "values".to_owned();
    }
    let plain = |b: u8| b.is_ascii_graphic() && b != b'%' && b != b'"';
    name.bytes()
        .map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Writes numbers as an ASCII or a binary file has them.
pub(crate) struct Writer<'a> {
    pub(crate) sink: &'a mut dyn Write,
    text: bool,
    written: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(sink: &'a mut dyn Write, text: bool) -> Self {
        Self { sink, text, written: 0 }
    }

    /// The beginning of a file, and the positions of its points.
    pub(crate) fn points(
        &mut self,
        dataset: &str,
        vertices: &[Vector3<f64>],
        space: MeshSpace,
    ) -> io::Result<()> {
        let coding = if self.text { "ASCII" } else { "BINARY" };
        let points = vertices.len();
        writeln!(
            self.sink,
            "# vtk DataFile Version 3.0\nvoxalign SPACE={space}\n{coding}\nDATASET {dataset}\n\
             POINTS {points} double"
        )?;
        for vertex in vertices {
            space.convert(*vertex).iter().try_for_each(|value| self.double(*value))?;
        }
        self.end()
    }

    fn double(&mut self, value: f64) -> io::Result<()> {
        if self.text {
            self.word(&format!("{value:?}"))
        } else {
            self.sink.write_all(&value.to_be_bytes())
        }
    }

    fn float(&mut self, value: f32) -> io::Result<()> {
        if self.text {
            self.word(&format!("{value:?}"))
        } else {
            self.sink.write_all(&value.to_be_bytes())
        }
    }

    pub(crate) fn int(&mut self, value: i32) -> io::Result<()> {
        if self.text {
            self.word(&value.to_string())
        } else {
            self.sink.write_all(&value.to_be_bytes())
        }
    }

    fn word(&mut self, word: &str) -> io::Result<()> {
        self.written += 1;
        let space = if self.written.is_multiple_of(9) { '\n' } else { ' ' };
        write!(self.sink, "{word}{space}")
    }

    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.written = 0;
        self.sink.write_all(b"\n")
    }
}

pub(crate) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    atomic::write_file(path, |sink| {
        write_to(&mut Writer::new(sink, options.as_text), mesh, options.space)
    })
}

fn write_to(to: &mut Writer<'_>, mesh: &Mesh, space: MeshSpace) -> io::Result<()> {
    to.points("POLYDATA", mesh.vertices(), space)?;
    if mesh.lines().len() > 0 {
        let lines = mesh.lines().len();
        writeln!(to.sink, "LINES {lines} {}", lines + mesh.line_vertices().len())?;
        for line in mesh.lines() {
            to.int(line.len() as i32)?;
            line.iter().try_for_each(|&i| to.int(i as i32))?;
        }
        to.end()?;
    }
    if !mesh.faces().is_empty() {
        let faces = mesh.faces().len();
        writeln!(to.sink, "POLYGONS {faces} {}", 4 * faces)?;
        for face in mesh.faces() {
            to.int(3)?;
            face.iter().try_for_each(|&i| to.int(i as i32))?;
        }
        to.end()?;
    }
    if mesh.data().is_empty() {
        return Ok(());
    }
    writeln!(to.sink, "POINT_DATA {}", mesh.vertices().len())?;
    write_data(to, mesh.data(), space)
}

/// Values at points or in cells: directions first.
pub(crate) fn write_data(
    to: &mut Writer<'_>,
    data: &[VertexData],
    space: MeshSpace,
) -> io::Result<()> {
    for array in data.iter().filter(|array| array.is_direction) {
        let normal = array.name.to_ascii_lowercase().contains("normal");
        let keyword = if normal { "NORMALS" } else { "VECTORS" };
        writeln!(to.sink, "{keyword} {} float", encoded(&array.name))?;
        for (i, &value) in array.values.iter().enumerate() {
            to.float(space.turn(array, i % 3, value))?;
        }
        to.end()?;
    }
    let others = || data.iter().filter(|array| !array.is_direction);
    if others().count() > 0 {
        writeln!(to.sink, "FIELD FieldData {}", others().count())?;
    }
    for array in others() {
        let tuples = array.values.len() / array.components.max(1);
        writeln!(to.sink, "{} {} {tuples} float", encoded(&array.name), array.components)?;
        array.values.iter().try_for_each(|&value| to.float(value))?;
        to.end()?;
    }
    Ok(())
}
