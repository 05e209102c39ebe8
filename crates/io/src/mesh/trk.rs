//! Streamlines of TrackVis.
//!
//! Points are in millimetres along the axes of a volume from the *corner* of its first voxel; `vox_to_ras` maps indices
//! of voxels, which count from its *centre*: `p / size - 0.5` is an index. Where the letters of `voxel_order` are not
//! those of `vox_to_ras`, the volume's axes are turned first. See nibabel's `get_affine_trackvis_to_rasmm`.

use super::bytes::{Cursor, Number};
use super::parts::Parts;
use crate::atomic;
use crate::error::{IoError, Result};
use std::path::Path;
use voxalign_image::{Affine, Matrix3, Mesh, Vector3};

const HEAD: usize = 1000;
/// Bytes of a name, and names of a kind.
const NAME: usize = 20;
pub(super) const NAMES: usize = 10;

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let mut cursor = Cursor::new(path, bytes);
    let head = cursor.take(HEAD)?;
    if !head.starts_with(b"TRACK") {
        let problem = "the file does not begin with 'TRACK'";
        return Err(IoError::malformed(path, problem, "check that it is the right file"));
    }
    let big = Number::I32.value(&head[996..HEAD], false) != HEAD as f64;
    let number = |at: usize, kind: Number| kind.value(&head[at..at + kind.size()], big);
    let order = if big { "big" } else { "little" };
    let mut parts = Parts::new(path, format!("binary, 32-bit floats, {order} endian"));
    if number(996, Number::I32) != HEAD as f64 {
        return Err(
            parts.wrong(format!("the header says that it has {} bytes", number(996, Number::I32)))
        );
    }
    let [scalars, properties] = [36, 238].map(|at| number(at, Number::I16));
    if scalars < 0.0 || properties < 0.0 {
        return Err(parts.wrong(format!("{scalars} scalars and {properties} properties cannot be")));
    }
    let (scalars, properties) = (scalars as usize, properties as usize);
    let to_world = to_world(head, &number, &mut parts)?;
    let mut values: Vec<f32> = Vec::new();
    while !cursor.rest().is_empty() {
        let points = cursor.number(Number::I32, big)?;
        if points < 0.0 {
            return Err(parts.wrong(format!("a streamline of {points} points cannot be")));
        }
        let points = points as usize;
        let one = cursor.binary(Number::F32, points.saturating_mul(3 + scalars), big)?;
        for point in 0..points {
            let at = point * (3 + scalars);
            let p = Vector3::from_fn(|axis, _| one.at(at + axis));
            parts.add_line_point(to_world.apply(p))?;
            for scalar in 0..scalars {
                voxalign_image::memory::push(&mut values, one.at(at + 3 + scalar) as f32)
                    .map_err(|e| IoError::memory(path, e))?;
            }
        }
        parts.add_line([])?;
        cursor.take(4 * properties)?;
    }
    if properties > 0 {
        parts.say(format!("{properties} properties of whole streamlines were left out"));
    }
    let (expected, found) = (number(988, Number::I32), parts.line_ends.len());
    if expected != 0.0 && expected != found as f64 {
        parts.say(format!("the header says {expected} streamlines, and there are {found}"));
    }
    add_scalars(head, scalars, &values, &mut parts)?;
    Ok(parts)
}

/// The scalars as arrays: the number of components of one may be behind its name, as nibabel writes it.
fn add_scalars(head: &[u8], scalars: usize, values: &[f32], parts: &mut Parts<'_>) -> Result<()> {
    let mut first = 0;
    let names = head.get(38..38 + NAMES * NAME).unwrap_or_default();
    let mut names = names.chunks_exact(NAME);
    while first < scalars {
        let name = names.next().unwrap_or_default();
        let mut words = name.split(|&b| b == 0).map(String::from_utf8_lossy);
        let name = words.next().unwrap_or_default().into_owned();
        let components = words.next().and_then(|n| n.parse().ok()).unwrap_or(1usize);
        let components = components.clamp(1, scalars - first);
        let own = values.chunks_exact(scalars).flat_map(|all| {
            all.get(first..first + components).unwrap_or_default().iter().map(|&v| f64::from(v))
        });
        let own = voxalign_image::memory::collected(own);
        let own = super::bytes::Values::Text(own.map_err(|e| IoError::memory(parts.path, e))?);
        let name = if name.is_empty() { format!("scalar {first}") } else { name };
        parts.add_data(name, components, &own, false)?;
        first += components;
    }
    Ok(())
}

/// From the file's millimetres to the world.
fn to_world(
    head: &[u8],
    number: &dyn Fn(usize, Number) -> f64,
    parts: &mut Parts<'_>,
) -> Result<Affine> {
    let size = Vector3::from_fn(|axis, _| number(12 + 4 * axis, Number::F32));
    if !size.iter().all(|s| s.is_finite() && *s > 0.0) {
        let problem = format!("the voxels have the size {:?} mm", [size[0], size[1], size[2]]);
        return Err(parts.wrong(problem));
    }
    let entry = |row: usize, column: usize| number(440 + 16 * row + 4 * column, Number::F32);
    let mut matrix = Matrix3::from_fn(entry);
    let mut origin = Vector3::from_fn(|row, _| entry(row, 3));
    if entry(3, 3) == 0.0 {
        parts.say("the file has no vox_to_ras, which was taken for the identity: the streamlines are not in the world of any image");
        (matrix, origin) = (Matrix3::identity(), Vector3::zeros());
    }
    if !matrix.iter().chain(&origin).all(|v| v.is_finite()) || matrix.determinant() == 0.0 {
        return Err(parts.wrong("vox_to_ras cannot be inverted"));
    }
    let stated: Vec<u8> = head.get(948..951).unwrap_or_default().to_ascii_uppercase();
    let stated = if stated.iter().all(|&b| b == 0 || b == b' ') {
        parts.say("the file has no voxel_order, which was taken for LPS, as TrackVis does");
        b"LPS".to_vec()
    } else {
        stated
    };
    let axes = directions(&matrix);
    // Along each axis of `vox_to_ras`, the axis of the file, and whether it runs the other way.
    let mut turn = Matrix3::zeros();
    let mut shift = Vector3::repeat(-0.5);
    for (own, &(axis, positive)) in axes.iter().enumerate() {
        let letters = [b"RL", b"AP", b"SI"][axis];
        let Some(place) = stated.iter().position(|letter| letters.contains(letter)) else {
            let order = String::from_utf8_lossy(&stated).escape_debug().to_string();
            return Err(parts.wrong(format!("voxel_order is '{order}', not three directions")));
        };
        let same = (stated.get(place) == letters.first()) == positive;
        turn[(own, place)] = if same { 1.0 } else { -1.0 } / size[place];
        if !same {
            // Index 0 is the last voxel of the file's axis.
            shift[own] = number(6 + 2 * place, Number::I16) - 0.5;
        }
    }
    if turn.determinant() == 0.0 {
        return Err(parts.wrong("voxel_order names an axis twice"));
    }
    Ok(Affine::new(matrix * turn, matrix * shift + origin))
}

/// For each column of a matrix the world axis that it is closest to, and whether it runs along it; each once.
fn directions(matrix: &Matrix3<f64>) -> [(usize, bool); 3] {
    let share =
        |row: usize, column: usize| matrix[(row, column)].abs() / matrix.column(column).norm();
    let mut found = [None; 3];
    for _ in 0..3 {
        let mut best = (-1.0, 0, 0);
        for (row, column) in (0..9).map(|i| (i / 3, i % 3)) {
            let taken = found.iter().flatten().any(|&(r, _)| r == row);
            if !taken && found[column].is_none() && share(row, column) > best.0 {
                best = (share(row, column), row, column);
            }
        }
        let (_, row, column) = best;
        found[column] = Some((row, matrix[(row, column)] >= 0.0));
    }
    found.map(|axis| axis.unwrap_or((0, true)))
}

pub(super) fn write(path: &Path, mesh: &Mesh) -> Result<()> {
    // The volume is one of 1 mm about all points, so that coordinates are above 0.
    let [low, high] = mesh.bounds().unwrap_or_default();
    let corner = low.map(f64::floor);
    let dims = (high - corner).map(|extent| (extent.floor() + 1.0).min(32767.0) as i16);
    let data: Vec<_> = mesh.data().iter().take(NAMES).collect();
    let scalars: usize = data.iter().map(|array| array.components).sum();
    let Ok(count) = i16::try_from(scalars) else {
        let what = format!("the values at the vertices have {scalars} components");
        return Err(IoError::unsupported(path, what, "leave out some of them"));
    };
    let mut head = [0u8; HEAD];
    let mut put = |at: usize, bytes: &[u8]| {
        head.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    };
    put(0, b"TRACK");
    for axis in 0..3 {
        put(6 + 2 * axis, &dims[axis].to_le_bytes());
        put(12 + 4 * axis, &1f32.to_le_bytes());
        put(440 + 20 * axis, &1f32.to_le_bytes());
        put(452 + 16 * axis, &(corner[axis] as f32).to_le_bytes());
    }
    put(500, &1f32.to_le_bytes());
    put(36, &count.to_le_bytes());
    for (i, array) in data.iter().enumerate() {
        let number =
            if array.components > 1 { array.components.to_string() } else { String::new() };
        let most = NAME - 2 - number.len();
        let mut end = array.name.len().min(most);
        while !array.name.is_char_boundary(end) {
            end -= 1;
        }
        let name = array.name.get(..end).unwrap_or_default().replace('\0', "_");
        put(38 + NAME * i, format!("{name}\0{number}").as_bytes());
    }
    put(948, b"RAS");
    put(952, b"RAS");
    for (at, value) in [(956, 1f32), (972, 1f32)] {
        put(at, &value.to_le_bytes());
    }
    put(988, &(mesh.lines().len() as i32).to_le_bytes());
    put(992, &2i32.to_le_bytes());
    put(996, &(HEAD as i32).to_le_bytes());
    // What the header holds is what points are relative to.
    let corner = corner.map(|v| f64::from(v as f32)) - Vector3::repeat(0.5);
    atomic::write_file(path, |sink| {
        sink.write_all(&head)?;
        for line in mesh.lines() {
            sink.write_all(&(line.len() as i32).to_le_bytes())?;
            for &i in line {
                let i = i as usize;
                let p = mesh.vertices().get(i).copied().unwrap_or_default() - corner;
                for value in p.iter() {
                    sink.write_all(&(*value as f32).to_le_bytes())?;
                }
                for array in &data {
                    let start = i * array.components;
                    let own = array.values.get(start..start + array.components);
                    for value in own.unwrap_or_default() {
                        sink.write_all(&value.to_le_bytes())?;
                    }
                }
            }
        }
        Ok(())
    })
}
