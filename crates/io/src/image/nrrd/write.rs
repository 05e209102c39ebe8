//! Writing NRRD files, in LPS as ITK and 3D Slicer do.

use crate::atomic::Pending;
use crate::error::Result;
use crate::image::options::{DataType, Format, WriteOptions};
use crate::image::text;
use crate::image::write::{Container, Values, data_file, packed};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use voxalign_image::Grid;

/// Writes a scalar image whose values `values` writes, with pairs of keys and values in its header.
pub(crate) fn write(
    path: &Path,
    grid: &Grid,
    (data_type, pairs): (DataType, &[(String, String)]),
    options: &WriteOptions,
    values: Values<'_>,
) -> Result<()> {
    let level = options.compression_level;
    let data = |w: &mut dyn Write| packed(values, w, level, Container::Gzip);
    if Format::from_path(path)? == Format::Nrrd {
        let head = header(grid, (data_type, pairs), options, None);
        let all = Pending::write(path, |w| {
            w.write_all(head.as_bytes())?;
            data(w)
        })?;
        return all.commit();
    }
    let (data_path, name) = data_file(path, if level == 0 { "raw" } else { "raw.gz" });
    let head = header(grid, (data_type, pairs), options, Some(&name));
    let values = Pending::write(&data_path, |w| data(w))?;
    let head = Pending::write(path, |w| w.write_all(head.as_bytes()))?;
    Pending::commit_pair(values, head)
}

fn header(
    grid: &Grid,
    (data_type, pairs): (DataType, &[(String, String)]),
    options: &WriteOptions,
    data_file: Option<&str>,
) -> String {
    let [nx, ny, nz] = grid.dims();
    let (axes, origin) = text::lps_axes(grid);
    let vector = |v: &nalgebra::Vector3<f64>| format!("({:?},{:?},{:?})", v[0], v[1], v[2]);
    let mut out = String::from("NRRD0004\n");
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(out, "{key}: {value}");
    };
    if let Some(text) = &options.description {
        line("content", &text.replace(['\n', '\r'], " "));
    }
    line("type", type_name(data_type));
    line("dimension", "3");
    line("space", "left-posterior-superior");
    line("sizes", &format!("{nx} {ny} {nz}"));
    line("space directions", &axes.iter().map(vector).collect::<Vec<_>>().join(" "));
    line("kinds", "domain domain domain");
    line("endian", "little");
    line("encoding", if options.compression_level == 0 { "raw" } else { "gzip" });
    line("space origin", &vector(&origin));
    if let Some(name) = data_file {
        line("data file", name);
    }
    for (key, value) in pairs {
        // As the format has it: no key has a colon, and a value is one line.
        let value = value.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(out, "{key}:={value}");
    }
    out.push('\n');
    out
}

fn type_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::U8 => "unsigned char",
        DataType::I8 => "signed char",
        DataType::U16 => "unsigned short",
        DataType::I16 => "short",
        DataType::U32 => "unsigned int",
        DataType::I32 => "int",
        DataType::U64 => "unsigned long long int",
        DataType::I64 => "long long int",
        DataType::F32 => "float",
        DataType::F64 => "double",
    }
}
