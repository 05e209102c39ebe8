//! Writing NIfTI files.

use super::geometry;
use super::header::{NiftiHeader, Version, code_of};
use crate::atomic::Pending;
use crate::error::Result;
use crate::gzip::GzipWriter;
use crate::image::options::{ByteOrder, DataType, Format, WriteOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use voxalign_image::Grid;

/// Version 1 where its 16-bit sizes and 32-bit geometry suffice.
fn version(grid: &Grid) -> Version {
    let rows = grid.to_world().rows();
    let sizes = grid.dims().iter().all(|&d| d <= i16::MAX as usize);
    let geometry = rows.iter().flatten().all(|&v| (v as f32).is_finite());
    if sizes && geometry { Version::One } else { Version::Two }
}

fn header(grid: &Grid, data_type: DataType, single: bool, version: Version) -> NiftiHeader {
    let dims = grid.dims();
    let mut header = NiftiHeader {
        version,
        single,
        order: ByteOrder::Little,
        dim: [3, dims[0] as i64, dims[1] as i64, dims[2] as i64, 1, 1, 1, 1],
        datatype: code_of(data_type),
        bitpix: data_type.size() as i32 * 8,
        pixdim: [1.0; 8],
        vox_offset: if single { version.size() as f64 } else { 0.0 },
        slope: 1.0,
        intercept: 0.0,
        units: 2,
        description: String::new(),
        qform_code: 0,
        sform_code: 0,
        quaternion: [0.0; 3],
        offset: [0.0; 3],
        rows: [[0.0; 4]; 3],
        intent_code: 0,
        intent_name: String::new(),
        orient: 0,
        spm_origin: [0; 3],
    };
    geometry::set(&mut header, grid);
    header
}

/// Writes one file, compressed where its name ends in `.gz`.
fn file(
    path: &Path,
    level: u32,
    f: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Pending> {
    let packed = path.to_string_lossy().to_ascii_lowercase().ends_with(".gz");
    Pending::write(path, |sink| {
        if !packed {
            return f(sink);
        }
        let mut writer = GzipWriter::new(sink, level)?;
        f(&mut writer)?;
        writer.finish().map(|_| ())
    })
}

/// Writes a scalar image whose values `values` writes.
pub(crate) fn volume(
    path: &Path,
    grid: &Grid,
    data_type: DataType,
    options: &WriteOptions,
    values: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let single = Format::from_path(path)? == Format::Nifti;
    let header = of_volume(grid, data_type, single, options);
    write(path, &header, options.compression_level, values)
}

/// The header of one volume.
fn of_volume(
    grid: &Grid,
    data_type: DataType,
    single: bool,
    options: &WriteOptions,
) -> NiftiHeader {
    let mut header = header(grid, data_type, single, version(grid));
    header.description = options.description.clone().unwrap_or_default();
    if options.dimensions == 2 && grid.dims()[2] == 1 {
        header.dim[0] = 2;
    }
    header
}

/// Writes an image of labels as one file, intent 1002, that still has its temporary name.
pub(crate) fn labels(
    path: &Path,
    grid: &Grid,
    data_type: DataType,
    options: &WriteOptions,
    values: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<Pending> {
    let mut header = of_volume(grid, data_type, true, options);
    header.intent_code = 1002;
    one_file(path, &header, options.compression_level, values)
}

/// Writes several scalar volumes of one grid, which `values` writes.
pub(crate) fn volumes(
    path: &Path,
    grid: &Grid,
    (count, time_step_s): (usize, Option<f64>),
    options: &WriteOptions,
    values: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let single = Format::from_path(path)? == Format::Nifti;
    let own = version(grid);
    let own = if count > i16::MAX as usize { Version::Two } else { own };
    let mut header = header(grid, options.data_type, single, own);
    header.description = options.description.clone().unwrap_or_default();
    header.dim[0] = 4;
    header.dim[4] = count as i64;
    if let Some(step) = time_step_s {
        header.pixdim[4] = step;
        // Millimetres and seconds.
        header.units = 2 | 8;
    }
    write(path, &header, options.compression_level, values)
}

fn write(
    path: &Path,
    header: &NiftiHeader,
    level: u32,
    values: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    if header.single {
        return one_file(path, header, level, values)?.commit();
    }
    let bytes = header.to_bytes();
    let (header_path, image_path) = names(path);
    let image = file(&image_path, level, values)?;
    let head = file(&header_path, level, |w| w.write_all(&bytes))?;
    Pending::commit_pair(image, head)
}

/// Header and values in one file.
fn one_file(
    path: &Path,
    header: &NiftiHeader,
    level: u32,
    values: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<Pending> {
    let bytes = header.to_bytes();
    file(path, level, |w| {
        w.write_all(&bytes)?;
        values(w)
    })
}

/// The two names of a pair, from either.
fn names(path: &Path) -> (PathBuf, PathBuf) {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lower = name.to_ascii_lowercase();
    let (plain, gz) = match lower.strip_suffix(".gz") {
        Some(_) => (&name[..name.len() - 3], ".gz"),
        None => (&name[..], ""),
    };
    let stem = plain.rsplit_once('.').map_or(plain, |(s, _)| s);
    let with = |kind: &str| path.with_file_name(format!("{stem}.{kind}{gz}"));
    (with("hdr"), with("img"))
}

/// Writes a field of vectors: five axes with the components last, intent 1007.
pub(crate) fn write_vectors(
    path: &Path,
    grid: &Grid,
    components: usize,
    values: &dyn Fn(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let mut header = header(grid, DataType::F32, true, version(grid));
    header.dim[0] = 5;
    header.dim[5] = components as i64;
    header.intent_code = 1007;
    let bytes = (grid.len() * components * size_of::<f32>()) as u64;
    write(path, &header, WriteOptions::default().compression_level, values)
        .map_err(|e| e.needing(bytes))
}
