//! STL: triangles, each with its own vertices.

use super::WriteOptions;
use super::bytes::{Cursor, Number};
use super::parts::{Parts, stated_space};
use crate::atomic;
use crate::error::{IoError, Result};
use std::path::Path;
use voxalign_image::{Mesh, Vector3, memory};

/// Bytes before the triangles of a binary file, and of a triangle.
const HEAD: usize = 84;
const TRIANGLE: usize = 50;

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let count = bytes.get(80..HEAD).map(|count| Number::U32.value(count, false) as usize);
    let length = count.and_then(|n| n.checked_mul(TRIANGLE)).and_then(|n| n.checked_add(HEAD));
    let text = bytes.starts_with(b"solid");
    // A binary file may begin as one of text.
    let parts = if text && length != Some(bytes.len()) {
        of_text(path, bytes)
    } else {
        of_numbers(path, bytes, count.unwrap_or(0))
    }?;
    merged(parts)
}

fn of_numbers<'a>(path: &'a Path, bytes: &[u8], count: usize) -> Result<Parts<'a>> {
    let mut parts = Parts::new(path, "binary, 32-bit floats");
    let mut cursor = Cursor::new(path, bytes);
    parts.stated = stated_space(&String::from_utf8_lossy(cursor.take(HEAD)?));
    let triangles = cursor.take(count.saturating_mul(TRIANGLE))?;
    if !cursor.rest().is_empty() {
        let left = cursor.rest().len();
        parts.say(format!("{left} bytes after the last triangle were left out"));
    }
    for triangle in triangles.chunks_exact(TRIANGLE) {
        let mut corners = Cursor::new(path, triangle);
        corners.take(12)?;
        parts.add_vertices(&corners.binary(Number::F32, 9, false)?)?;
    }
    Ok(parts)
}

fn of_text<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let mut parts = Parts::new(path, "ASCII");
    let mut cursor = Cursor::new(path, bytes);
    let (mut solids, mut corners, mut ended) = (0, 0usize, true);
    // Corners beyond the third, which make more triangles.
    let mut more = 0;
    while let Some(line) = cursor.line() {
        let mut words = Cursor::new(path, line);
        match words.word().unwrap_or_default().to_ascii_lowercase().as_slice() {
            b"solid" => {
                solids += 1;
                ended = false;
                let title = String::from_utf8_lossy(line);
                parts.stated = parts.stated.or_else(|| stated_space(&title));
            }
            b"endsolid" => ended = true,
            b"outer" => corners = 0,
            b"vertex" => {
                let mut vertex = Vector3::zeros();
                for axis in vertex.iter_mut() {
                    *axis = words.text_number().map_err(|_| {
                        let line = cursor.line_number();
                        let problem = format!("line {line}: a vertex needs three numbers");
                        IoError::malformed(path, problem, "correct the line")
                    })?;
                }
                corners += 1;
                if corners > 3 {
                    more += 1;
                    let at = parts.vertices.len();
                    // The first corner of the loop is that of its first triangle.
                    let first =
                        at.checked_sub(3 * (corners - 3)).and_then(|i| parts.vertices.get(i));
                    let pair = first.copied().zip(parts.vertices.last().copied());
                    if let Some((first, last)) = pair {
                        parts.add_vertex(first)?;
                        parts.add_vertex(last)?;
                    }
                }
                parts.add_vertex(vertex)?;
            }
            b"endloop" if corners < 3 => {
                let line = cursor.line_number();
                return Err(parts.wrong(format!("line {line}: a loop has {corners} corners")));
            }
            _ => {}
        }
    }
    if !ended || !parts.vertices.len().is_multiple_of(3) {
        return Err(parts.wrong("the file ends before its last solid does"));
    }
    if solids > 1 {
        parts.say(format!("{solids} solids were joined"));
    }
    if more > 0 {
        parts.say(format!("loops of more than three corners were cut into {more} more triangles"));
    }
    Ok(parts)
}

/// Makes one vertex of those that have the same bits; faces are three vertices each, one after the other.
fn merged(mut parts: Parts<'_>) -> Result<Parts<'_>> {
    let path = parts.path;
    let refused = |e| IoError::memory(path, e);
    let found = parts.vertices.len();
    if u32::try_from(found).is_err() {
        return Err(parts.wrong("there are more corners than 32 bits can count"));
    }
    // A negative zero is a zero.
    let bits = |v: &Vector3<f64>| [0, 1, 2].map(|axis| (v[axis] + 0.0).to_bits());
    let keyed = parts.vertices.iter().zip(0u32..).map(|(v, i)| (bits(v), i));
    let mut keyed = memory::collected(keyed).map_err(refused)?;
    keyed.sort_unstable();
    // The first of each, in the order of the file.
    let mut same = memory::zeroed::<u32>(found).map_err(refused)?;
    for group in keyed.chunk_by(|a, b| a.0 == b.0) {
        let first = group.first().map_or(0, |one| one.1);
        for &(_, i) in group {
            if let Some(place) = same.get_mut(i as usize) {
                *place = first;
            }
        }
    }
    drop(keyed);
    let mut vertices = Vec::new();
    for i in 0..found {
        let first = same[i] as usize;
        same[i] = if first == i {
            memory::push(&mut vertices, parts.vertices[i]).map_err(refused)?;
            (vertices.len() - 1) as u32
        } else {
            same[first]
        };
    }
    let faces = same.chunks_exact(3).filter_map(|face| face.try_into().ok());
    parts.faces = memory::collected(faces).map_err(refused)?;
    if vertices.len() < found {
        let left = vertices.len();
        parts.say(format!("{found} corners at the same places were joined into {left} vertices"));
    }
    parts.vertices = vertices;
    Ok(parts)
}

pub(super) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    if mesh.faces().is_empty() && !mesh.is_empty() {
        let what = "STL holds triangles only, and the mesh has none";
        return Err(IoError::unsupported(
            path,
            what,
            "write .vtk, .vtp or .ply, which hold points",
        ));
    }
    let mut head = [0; 80];
    let title = format!("voxalign SPACE={}", options.space);
    head.iter_mut().zip(title.bytes()).for_each(|(to, from)| *to = from);
    atomic::write_file(path, |sink| {
        sink.write_all(&head)?;
        sink.write_all(&(mesh.faces().len() as u32).to_le_bytes())?;
        for face in mesh.faces() {
            let corner = |i: u32| mesh.vertices().get(i as usize).copied().unwrap_or_default();
            let [a, b, c] = face.map(|i| options.space.convert(corner(i)));
            let normal = (b - a).cross(&(c - a)).try_normalize(0.0).unwrap_or_default();
            for value in [normal, a, b, c].iter().flatten() {
                sink.write_all(&(*value as f32).to_le_bytes())?;
            }
            sink.write_all(&[0; 2])?;
        }
        Ok(())
    })
}
