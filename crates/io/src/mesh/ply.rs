//! PLY: elements with properties, as text or binary.

use super::WriteOptions;
use super::bytes::{AGAIN, Cursor, Number, Values, count, index};
use super::parts::{Parts, stated_space};
use crate::atomic;
use crate::error::{IoError, Result, shorten};
use std::path::Path;
use voxalign_image::{Mesh, Vector3, VertexData, memory};

/// How numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Text,
    Binary { big: bool },
}

#[derive(Debug)]
struct Property {
    name: String,
    number: Number,
    /// Of a list the type of its length.
    list: Option<Number>,
}

#[derive(Debug)]
struct Element {
    name: String,
    count: usize,
    properties: Vec<Property>,
}

impl Coding {
    fn number(self, cursor: &mut Cursor<'_>, number: Number) -> Result<f64> {
        match self {
            Self::Text => cursor.text_number(),
            Self::Binary { big } => cursor.number(number, big),
        }
    }

    /// A list, or one number.
    fn values<'a>(self, cursor: &mut Cursor<'a>, property: &Property) -> Result<Values<'a>> {
        let len = match property.list {
            None => 1,
            Some(kind) => {
                let len = self.number(cursor, kind)?;
                index(cursor.path, len)? as usize
            }
        };
        match self {
            Self::Text => cursor.text(len),
            Self::Binary { big } => cursor.binary(property.number, len, big),
        }
    }
}

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let mut cursor = Cursor::new(path, bytes);
    let mut parts = Parts::new(path, "");
    let (coding, elements) = header(&mut cursor, &mut parts)?;
    let mut edges = Vec::new();
    for element in &elements {
        // Whatever an element holds takes bytes, so that a count beyond the file ends there.
        if element.properties.is_empty() {
            continue;
        }
        if element.count > cursor.rest().len() {
            let (name, n, left) = (shorten(&element.name), element.count, cursor.rest().len());
            return Err(
                parts.wrong(format!("{n} elements '{name}' are said to be in {left} bytes"))
            );
        }
        match element.name.as_str() {
            "vertex" => vertices(&mut cursor, coding, element, &mut parts)?,
            "face" | "tristrips" => faces(&mut cursor, coding, element, &mut parts)?,
            "edge" => edges = read_edges(&mut cursor, coding, element, &mut parts)?,
            name => {
                if element.count > 0 {
                    parts.say(format!("elements '{}' were left out", shorten(name)));
                }
                for _ in 0..element.count {
                    for property in &element.properties {
                        coding.values(&mut cursor, property)?;
                    }
                }
            }
        }
    }
    join(&edges, &mut parts)?;
    Ok(parts)
}

fn header(cursor: &mut Cursor<'_>, parts: &mut Parts<'_>) -> Result<(Coding, Vec<Element>)> {
    let path = parts.path;
    if cursor.line().map(<[u8]>::trim_ascii) != Some(b"ply") {
        let problem = "the file does not begin with 'ply'";
        return Err(IoError::malformed(path, problem, "check that it is the right file"));
    }
    let mut coding = None;
    let mut elements: Vec<Element> = Vec::new();
    loop {
        let Some(line) = cursor.text_line() else {
            return Err(parts.wrong("the header has no end_header"));
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["end_header"] => break,
            ["format", name, ..] => {
                coding = Some(match name {
                    "ascii" => Coding::Text,
                    "binary_little_endian" => Coding::Binary { big: false },
                    "binary_big_endian" => Coding::Binary { big: true },
                    other => {
                        return Err(parts.wrong(format!("the format is '{}'", shorten(other))));
                    }
                });
                parts.encoding = name.replace('_', " ");
            }
            ["comment" | "obj_info", ..] => {
                parts.stated = parts.stated.or_else(|| stated_space(&line));
            }
            ["element", name, number] => elements.push(Element {
                name: name.to_owned(),
                count: count(path, "elements", Some(number))?,
                properties: Vec::new(),
            }),
            ["property", ref rest @ ..] => {
                let property = property(path, rest)?;
                let Some(element) = elements.last_mut() else {
                    return Err(parts.wrong("a property comes before the first element"));
                };
                element.properties.push(property);
            }
            [] => {}
            _ => {
                let problem = format!("the line '{}' is not known", shorten(line.trim()));
                return Err(IoError::malformed(path, problem, "correct the header"));
            }
        }
    }
    let coding = coding.ok_or_else(|| parts.wrong("the header has no format"))?;
    Ok((coding, elements))
}

fn property(path: &Path, words: &[&str]) -> Result<Property> {
    let number = |name: &str| {
        Ok(match name {
            "char" | "int8" => Number::I8,
            "uchar" | "uint8" => Number::U8,
            "short" | "int16" => Number::I16,
            "ushort" | "uint16" => Number::U16,
            "int" | "int32" => Number::I32,
            "uint" | "uint32" => Number::U32,
            "float" | "float32" => Number::F32,
            "double" | "float64" => Number::F64,
            other => {
                let problem = format!("the type of a property is '{}'", shorten(other));
                return Err(IoError::malformed(path, problem, AGAIN));
            }
        })
    };
    match *words {
        ["list", len, kind, name] => {
            Ok(Property { name: name.into(), number: number(kind)?, list: Some(number(len)?) })
        }
        [kind, name] => Ok(Property { name: name.into(), number: number(kind)?, list: None }),
        _ => Err(IoError::malformed(path, "a property has no type and name", AGAIN)),
    }
}

fn vertices(
    cursor: &mut Cursor<'_>,
    coding: Coding,
    element: &Element,
    parts: &mut Parts<'_>,
) -> Result<()> {
    let path = parts.path;
    let refused = |e| IoError::memory(path, e);
    let find =
        |name: &str| element.properties.iter().position(|p| p.name == name && p.list.is_none());
    let places = ["x", "y", "z"].map(find);
    let [Some(x), Some(y), Some(z)] = places else {
        return Err(parts.wrong("the vertices have no properties x, y and z"));
    };
    let normal = match ["nx", "ny", "nz"].map(find) {
        [Some(x), Some(y), Some(z)] => Some([x, y, z]),
        _ => None,
    };
    if !parts.vertices.is_empty() {
        return Err(parts.wrong("there are several elements 'vertex'"));
    }
    let mut columns: Vec<Vec<f32>> = element.properties.iter().map(|_| Vec::new()).collect();
    let mut row = vec![0.0; element.properties.len()];
    for _ in 0..element.count {
        for ((property, place), column) in element.properties.iter().zip(&mut row).zip(&mut columns)
        {
            if property.list.is_some() {
                coding.values(cursor, property)?;
                continue;
            }
            *place = coding.number(cursor, property.number)?;
            if !["x", "y", "z"].contains(&property.name.as_str()) {
                memory::push(column, *place as f32).map_err(refused)?;
            }
        }
        let at = |i: usize| row.get(i).copied().unwrap_or_default();
        parts.add_vertex(Vector3::new(at(x), at(y), at(z)))?;
    }
    if let Some(places) = normal {
        let [nx, ny, nz] =
            places.map(|i| columns.get_mut(i).map(std::mem::take).unwrap_or_default());
        let all = nx.iter().zip(&ny).zip(&nz).flat_map(|((x, y), z)| [*x, *y, *z]);
        let mut values = memory::room(3 * nx.len()).map_err(refused)?;
        values.extend(all);
        let name = "normals".to_owned();
        parts.data.push(VertexData { name, components: 3, values, is_direction: true });
    }
    for (i, (property, values)) in element.properties.iter().zip(columns).enumerate() {
        let other = [x, y, z].contains(&i) || normal.is_some_and(|places| places.contains(&i));
        if !other && property.list.is_none() {
            let name = property.name.clone();
            parts.data.push(VertexData { name, components: 1, values, is_direction: false });
        }
    }
    Ok(())
}

fn faces(
    cursor: &mut Cursor<'_>,
    coding: Coding,
    element: &Element,
    parts: &mut Parts<'_>,
) -> Result<()> {
    let path = parts.path;
    let strips = element.name == "tristrips";
    for _ in 0..element.count {
        for property in &element.properties {
            let values = coding.values(cursor, property)?;
            let own = ["vertex_indices", "vertex_index"].contains(&property.name.as_str());
            if !own || property.list.is_none() {
                continue;
            }
            if !strips {
                parts.add_polygon(&values.indices(path)?)?;
                continue;
            }
            // Strips one after the other, with -1 between them.
            let mut strip = Vec::new();
            for value in values.iter().chain([-1.0]) {
                if value == -1.0 {
                    parts.add_strip(&strip)?;
                    strip.clear();
                } else {
                    memory::push(&mut strip, index(path, value)?)
                        .map_err(|e| IoError::memory(path, e))?;
                }
            }
        }
    }
    if strips && element.count > 0 {
        parts.say("strips were cut into triangles");
    }
    Ok(())
}

fn read_edges(
    cursor: &mut Cursor<'_>,
    coding: Coding,
    element: &Element,
    parts: &mut Parts<'_>,
) -> Result<Vec<[u32; 2]>> {
    let mut edges = Vec::new();
    for _ in 0..element.count {
        let mut edge = [None; 2];
        for property in &element.properties {
            let values = coding.values(cursor, property)?;
            match property.name.as_str() {
                "vertex1" => edge[0] = Some(index(parts.path, values.at(0))?),
                "vertex2" => edge[1] = Some(index(parts.path, values.at(0))?),
                _ => {}
            }
        }
        let [Some(a), Some(b)] = edge else {
            return Err(parts.wrong("the edges have no properties vertex1 and vertex2"));
        };
        memory::push(&mut edges, [a, b]).map_err(|e| IoError::memory(parts.path, e))?;
    }
    Ok(edges)
}

/// Makes lines of edges that follow each other.
fn join(edges: &[[u32; 2]], parts: &mut Parts<'_>) -> Result<()> {
    for chain in edges.chunk_by(|a, b| a[1] == b[0]) {
        let first = chain.first().map(|edge| edge[0]);
        parts.add_line(first.into_iter().chain(chain.iter().map(|edge| edge[1])))?;
    }
    Ok(())
}

pub(super) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    let edges = || mesh.lines().flat_map(|line| line.windows(2));
    // One direction has the names that programs look for.
    let normal = mesh.data().iter().position(|array| array.is_direction);
    atomic::write_file(path, |sink| {
        writeln!(sink, "ply\nformat binary_little_endian 1.0")?;
        writeln!(sink, "comment voxalign SPACE={}", options.space)?;
        writeln!(sink, "element vertex {}", mesh.vertices().len())?;
        writeln!(sink, "property double x\nproperty double y\nproperty double z")?;
        for (i, array) in mesh.data().iter().enumerate() {
            if normal == Some(i) {
                writeln!(sink, "property float nx\nproperty float ny\nproperty float nz")?;
                continue;
            }
            let plain = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
            let name: String = array.name.chars().map(plain).collect();
            // Not that of a coordinate.
            let taken = ["", "x", "y", "z", "nx", "ny", "nz"].contains(&name.as_str());
            let name = if taken { format!("value_{name}") } else { name };
            if array.components == 1 {
                writeln!(sink, "property float {name}")?;
            } else {
                for component in 0..array.components {
                    writeln!(sink, "property float {name}_{component}")?;
                }
            }
        }
        if !mesh.faces().is_empty() {
            writeln!(sink, "element face {}", mesh.faces().len())?;
            writeln!(sink, "property list uchar int vertex_indices")?;
        }
        if mesh.lines().len() > 0 {
            writeln!(sink, "element edge {}", edges().count())?;
            writeln!(sink, "property int vertex1\nproperty int vertex2")?;
        }
        writeln!(sink, "end_header")?;
        for (i, vertex) in mesh.vertices().iter().enumerate() {
            for value in options.space.convert(*vertex).iter() {
                sink.write_all(&value.to_le_bytes())?;
            }
            for array in mesh.data() {
                let start = i * array.components;
                let own = array.values.get(start..start + array.components).unwrap_or_default();
                for (component, &value) in own.iter().enumerate() {
                    let value = options.space.turn(array, component, value);
                    sink.write_all(&value.to_le_bytes())?;
                }
            }
        }
        for face in mesh.faces() {
            sink.write_all(&[3])?;
            face.iter().try_for_each(|i| sink.write_all(&i.to_le_bytes()))?;
        }
        for index in edges().flatten() {
            sink.write_all(&index.to_le_bytes())?;
        }
        Ok(())
    })
}
