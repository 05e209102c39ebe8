//! FreeSurfer triangle surfaces.
//!
//! Coordinates are relative to the volume that a surface was made in (tkRAS). Its geometry is in the footer, and
//! brings them to the scanner's RAS: `R p + c_ras`, where the columns of `R` are the axes of the volume as FreeSurfer's
//! conformed volumes have them (`-xras`, `zras`, `-yras`). See `mri_info --tkr2scanner`.

use super::WriteOptions;
use super::bytes::{AGAIN, Cursor, Number};
use super::parts::Parts;
use crate::atomic;
use crate::error::{IoError, Result};
use std::path::Path;
use voxalign_image::{Matrix3, Mesh, Vector3};

const TRIANGLES: &[u8] = &[0xff, 0xff, 0xfe];
/// Tags of the footer.
const USE_REAL_RAS: f64 = 2.0;
const GEOMETRY: f64 = 20.0;

/// Where a volume is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VolumeGeometry {
    /// Directions of its axes, and its centre, as FreeSurfer names them.
    pub(super) x: Vector3<f64>,
    pub(super) y: Vector3<f64>,
    pub(super) z: Vector3<f64>,
    pub(super) c: Vector3<f64>,
}

impl Default for VolumeGeometry {
    /// That of a conformed volume about the origin.
    fn default() -> Self {
        Self { x: -Vector3::x(), y: -Vector3::z(), z: Vector3::y(), c: Vector3::zeros() }
    }
}

impl VolumeGeometry {
    /// From tkRAS to the scanner's RAS.
    pub(super) fn apply(&self, p: Vector3<f64>) -> Vector3<f64> {
        Matrix3::from_columns(&[-self.x, self.z, -self.y]) * p + self.c
    }
}

pub(super) fn read<'a>(path: &'a Path, bytes: &[u8]) -> Result<Parts<'a>> {
    let mut cursor = Cursor::new(path, bytes);
    if cursor.take(3)? != TRIANGLES {
        let what = "this is not a surface of triangles of FreeSurfer (its first bytes are others than ff ff fe)";
        let remedy = "convert it by `mris_convert` to a surface of triangles or to GIFTI";
        return Err(IoError::unsupported(path, what, remedy));
    }
    // Who made it, and an empty line.
    cursor.line();
    cursor.line();
    let mut parts = Parts::new(path, "binary, 32-bit floats, big endian");
    let [vertices, faces] = [(); 2].map(|()| cursor.number(Number::I32, true));
    let [vertices, faces] = [vertices?, faces?];
    if vertices < 0.0 || faces < 0.0 {
        return Err(parts.wrong(format!("{vertices} vertices and {faces} faces cannot be")));
    }
    let values = cursor.binary(Number::F32, (vertices as usize).saturating_mul(3), true)?;
    parts.add_vertices(&values)?;
    let values = cursor.binary(Number::I32, (faces as usize).saturating_mul(3), true)?;
    for face in values.indices(path)?.chunks_exact(3) {
        if let [a, b, c] = *face {
            parts.add_face([a, b, c])?;
        }
    }
    footer(&mut cursor, &mut parts)?;
    Ok(parts)
}

/// The geometry of the volume, which moves the vertices.
fn footer(cursor: &mut Cursor<'_>, parts: &mut Parts<'_>) -> Result<()> {
    let none = "the file does not give the geometry of its volume: the coordinates are relative to the centre of that";
    let mut tag = cursor.number(Number::I32, true).unwrap_or(0.0);
    let mut real = false;
    if tag == USE_REAL_RAS {
        real = cursor.number(Number::I32, true).unwrap_or(0.0) != 0.0;
        tag = cursor.number(Number::I32, true).unwrap_or(0.0);
    }
    if real {
        parts.frame = Some("scanner RAS".into());
        return Ok(());
    }
    parts.frame = Some("tkRAS".into());
    if tag != GEOMETRY {
        parts.say(none);
        return Ok(());
    }
    let mut valid = false;
    let mut geometry = VolumeGeometry::default();
    for _ in 0..8 {
        let Some(line) = cursor.text_line() else { break };
        let Some((name, value)) = line.split_once('=') else { break };
        let place = match name.trim() {
            "valid" => {
                valid = value.trim().starts_with('1');
                continue;
            }
            "xras" => &mut geometry.x,
            "yras" => &mut geometry.y,
            "zras" => &mut geometry.z,
            "cras" => &mut geometry.c,
            _ => continue,
        };
        let mut numbers = value.split_whitespace().map(str::parse);
        for axis in place.iter_mut() {
            *axis = match numbers.next() {
                Some(Ok(number)) => number,
                _ => {
                    let problem = format!("the footer's {} are not three numbers", name.trim());
                    return Err(IoError::malformed(parts.path, problem, AGAIN));
                }
            };
        }
    }
    if !valid {
        parts.say(none);
        return Ok(());
    }
    parts.vertices.iter_mut().for_each(|v| *v = geometry.apply(*v));
    Ok(())
}

pub(super) fn write(path: &Path, mesh: &Mesh, options: &WriteOptions) -> Result<()> {
    let centre = Vector3::from(options.centre);
    if !centre.iter().all(|c| c.is_finite()) {
        let problem = format!("the centre {:?} is not finite", options.centre);
        return Err(IoError::malformed(path, problem, "give three numbers, mm"));
    }
    atomic::write_file(path, |sink| {
        sink.write_all(TRIANGLES)?;
        sink.write_all(b"created by voxalign\n\n")?;
        for count in [mesh.vertices().len(), mesh.faces().len()] {
            sink.write_all(&(count as u32).to_be_bytes())?;
        }
        for vertex in mesh.vertices() {
            for value in (vertex - centre).iter() {
                sink.write_all(&(*value as f32).to_be_bytes())?;
            }
        }
        for index in mesh.faces().iter().flatten() {
            sink.write_all(&index.to_be_bytes())?;
        }
        for tag in [USE_REAL_RAS, 0.0, GEOMETRY] {
            sink.write_all(&(tag as i32).to_be_bytes())?;
        }
        let VolumeGeometry { x, y, z, .. } = VolumeGeometry::default();
        writeln!(sink, "valid = 1  # volume info valid")?;
        writeln!(sink, "filename = none")?;
        writeln!(sink, "volume = 256 256 256")?;
        for (name, v) in [
            ("voxelsize", Vector3::repeat(1.0)),
            ("xras  ", x),
            ("yras  ", y),
            ("zras  ", z),
            ("cras  ", centre),
        ] {
            // Without negative zeros.
            let [a, b, c] = [0, 1, 2].map(|i| v[i] + 0.0);
            writeln!(sink, "{name} = {a:.15e} {b:.15e} {c:.15e}")?;
        }
        Ok(())
    })
}
