//! Writing MetaImage files.

use crate::atomic::Pending;
use crate::error::Result;
use crate::image::options::{DataType, Format, WriteOptions};
use crate::image::text;
use crate::image::write::{Container, Values, data_file, packed};
use std::fmt::Write as _;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use voxalign_image::Grid;

/// Writes a scalar image whose values `values` writes.
pub(crate) fn write(
    path: &Path,
    grid: &Grid,
    data_type: DataType,
    options: &WriteOptions,
    values: Values<'_>,
) -> Result<()> {
    let level = options.compression_level;
    let data = |w: &mut dyn Write| packed(values, w, level, Container::Zlib);
    if Format::from_path(path)? == Format::MetaImage {
        let head = |length| header(grid, data_type, options, "LOCAL", length);
        let all = Pending::write(path, |w| {
            // The header gives the packed length, which is known at the end; its text keeps its
            // size.
            let start = head(0);
            w.write_all(start.as_bytes())?;
            data(w)?;
            let length = w.stream_position()? - start.len() as u64;
            w.seek(SeekFrom::Start(0))?;
            w.write_all(head(length).as_bytes())
        })?;
        return all.commit();
    }
    let (data_path, name) = data_file(path, if level == 0 { "raw" } else { "zraw" });
    let mut length = 0;
    let values = Pending::write(&data_path, |w| {
        let mut counter = Counter { sink: w, count: 0 };
        data(&mut counter)?;
        length = counter.count;
        Ok(())
    })?;
    let head = header(grid, data_type, options, &name, length);
    let head = Pending::write(path, |w| w.write_all(head.as_bytes()))?;
    Pending::commit_pair(values, head)
}

/// Counts the bytes that pass.
struct Counter<'a> {
    sink: &'a mut dyn Write,
    count: u64,
}

impl Write for Counter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.sink.write(bytes)?;
        self.count += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn header(
    grid: &Grid,
    data_type: DataType,
    options: &WriteOptions,
    data_file: &str,
    packed_length: u64,
) -> String {
    let packed = options.compression_level > 0;
    let dims = grid.dims();
    let spacing = grid.spacing();
    let (axes, origin) = text::lps_axes(grid);
    let mut out = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(out, "{key} = {value}");
    };
    let join = |v: &[f64]| v.iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(" ");
    line("ObjectType", "Image");
    line("NDims", "3");
    if let Some(text) = &options.description {
        line("Comment", &text.replace(['\n', '\r'], " "));
    }
    line("BinaryData", "True");
    line("BinaryDataByteOrderMSB", "False");
    line("CompressedData", if packed { "True" } else { "False" });
    if packed {
        line("CompressedDataSize", &format!("{packed_length:020}"));
    }
    let directions: Vec<f64> =
        (0..3).flat_map(|a| (axes[a] / spacing[a]).iter().copied().collect::<Vec<_>>()).collect();
    line("TransformMatrix", &join(&directions));
    line("Offset", &join(origin.as_slice()));
    line("CenterOfRotation", "0 0 0");
    line("ElementSpacing", &join(&spacing));
    line("DimSize", &format!("{} {} {}", dims[0], dims[1], dims[2]));
    line("ElementType", type_name(data_type));
    line("ElementDataFile", data_file);
    out
}

fn type_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::U8 => "MET_UCHAR",
        DataType::I8 => "MET_CHAR",
        DataType::U16 => "MET_USHORT",
        DataType::I16 => "MET_SHORT",
        DataType::U32 => "MET_UINT",
        DataType::I32 => "MET_INT",
        DataType::U64 => "MET_ULONG_LONG",
        DataType::I64 => "MET_LONG_LONG",
        DataType::F32 => "MET_FLOAT",
        DataType::F64 => "MET_DOUBLE",
    }
}
