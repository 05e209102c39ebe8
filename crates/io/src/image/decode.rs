//! Decoding voxel values, given a parsed header, in pieces of constant size.

use super::convert::{self, Scale};
use super::info::ImageInfo;
use super::options::{ByteOrder, Compression, DataType};
use crate::error::{IoError, Result};
use crate::gzip::GzipReader;
use crate::source::{Source, read_full};
use flate2::bufread::ZlibDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use voxalign_image::{Grid, memory};

/// Values decoded at a time.
pub(super) const PIECE: usize = 1 << 16;
/// Deflate cannot shrink data by more than this factor.
const LARGEST_RATIO: u64 = 1040;
/// Values for which memory is asked at first where the size of the data is not known.
const FIRST: usize = 1 << 24;

/// Where the values lie in their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// After so many stored bytes.
    Stored(u64),
    /// The file as a whole is unpacked; after so many unpacked bytes.
    Unpacked(u64),
    /// At the end of the file (unpacked values only).
    AtEnd,
}

/// A parsed header with all that is needed to read the values.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) info: ImageInfo,
    /// Where the values begin.
    pub(crate) start: Start,
    /// Unpacked bytes to leave out after that (NRRD's byte skip).
    pub(crate) skip: u64,
}

impl Plan {
    /// An error where the image has more than one volume.
    pub(crate) fn one_volume(&self) -> Result<()> {
        let volumes = self.info.volumes();
        if volumes == 1 {
            return Ok(());
        }
        Err(IoError::SeveralVolumes {
            path: self.info.path.clone(),
            dims: self.info.dims.clone(),
            volumes,
        })
    }

    /// Number of values along all axes and of their bytes.
    pub(crate) fn size(&self) -> Result<(usize, u64)> {
        let size = self.info.data_type.size();
        let count = self
            .info
            .dims
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .filter(|&n| n.checked_mul(size.max(4)).is_some_and(|b| b <= isize::MAX as usize));
        match count {
            Some(n) => Ok((n, (n * size) as u64)),
            None => Err(IoError::malformed(
                &self.info.path,
                format!(
                    "the image size {:?} is more than this machine can address",
                    self.info.dims
                ),
                "the header is probably damaged",
            )),
        }
    }

    /// The unpacked bytes of the values from so many bytes after their begin; checks the file's
    /// length against what is needed.
    pub(super) fn reader<'a>(
        &self,
        source: &Source<'a>,
        from: u64,
    ) -> Result<Box<dyn BufRead + Send + 'a>> {
        let detached =
            self.info.data_path != self.info.path && self.info.data_path != source.path();
        if !detached {
            return self.reader_of(source, from);
        }
        if source.is_memory() {
            return Err(IoError::unsupported(
                source.path(),
                format!("its values are in another file, '{}'", self.info.data_path.display()),
                "read it from disk",
            ));
        }
        self.reader_of(&Source::named_by(&self.info.path, &self.info.data_path)?, from)
    }

    fn reader_of<'a>(
        &self,
        source: &Source<'a>,
        from: u64,
    ) -> Result<Box<dyn BufRead + Send + 'a>> {
        let path = source.path();
        let length = source.length();
        let (_, needed) = self.size()?;
        let packed = self.info.compression != Compression::None;
        let before = match self.start {
            Start::Stored(n) | Start::Unpacked(n) => n.saturating_add(self.skip),
            Start::AtEnd => 0,
        };
        let all = needed.saturating_add(before);
        let possible = if packed { length.saturating_mul(LARGEST_RATIO) } else { length };
        let text = self.info.compression == Compression::Text;
        if (!text && all > possible) || (text && self.size()?.0 as u64 > length) {
            return Err(IoError::Truncated { path: path.into(), expected: all, found: length });
        }
        let (stored, unpacked) = match self.start {
            Start::Stored(n) => (n, self.skip),
            Start::Unpacked(n) if packed => (0, n.saturating_add(self.skip)),
            Start::Unpacked(n) => (n.saturating_add(self.skip), 0),
            Start::AtEnd => (length - needed, 0),
        };
        let (stored, unpacked) = match self.info.compression {
            Compression::None => (stored.saturating_add(from), unpacked),
            _ => (stored, unpacked.saturating_add(from)),
        };
        let raw = source.raw(stored)?;
        let mut reader: Box<dyn BufRead + Send + 'a> = match self.info.compression {
            Compression::Gzip => Box::new(BufReader::with_capacity(1 << 16, GzipReader::new(raw))),
            Compression::Zlib => Box::new(BufReader::with_capacity(1 << 16, ZlibDecoder::new(raw))),
            // What DICOM has is unpacked frame by frame.
            _ => raw,
        };
        let skipped = std::io::copy(&mut (&mut reader).take(unpacked), &mut std::io::sink())
            .map_err(|e| IoError::reading(path, e))?;
        if skipped < unpacked {
            return Err(IoError::Truncated { path: path.into(), expected: all, found: skipped });
        }
        Ok(reader)
    }

    pub(super) fn scale(&self) -> Scale {
        Scale { slope: self.info.slope, intercept: self.info.intercept }
    }

    /// Gives the bytes of the values to `take`, a piece at a time, each of whole values.
    fn pieces(&self, source: &Source<'_>, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut left, needed) = self.size()?;
        let path = &self.info.data_path;
        let mut reader = self.reader(source, 0)?;
        let size = self.info.data_type.size();
        let mut buffer = memory::zeroed(PIECE.min(left) * size)
            .map_err(|refused| IoError::memory(path, refused))?;
        let mut found = 0;
        while left > 0 {
            let piece = &mut buffer[..PIECE.min(left) * size];
            let n = read_full(&mut reader, piece).map_err(|e| IoError::reading(path, e))?;
            found += n as u64;
            if n < piece.len() {
                return Err(IoError::Truncated { path: path.clone(), expected: needed, found });
            }
            take(piece)?;
            left -= n / size;
        }
        self.verify(&mut reader)
    }

    /// Reads on to the checksum of packed data, past a little padding.
    pub(super) fn verify(&self, reader: &mut dyn BufRead) -> Result<()> {
        if matches!(self.info.compression, Compression::Gzip | Compression::Zlib) {
            std::io::copy(&mut reader.take(1 << 24), &mut std::io::sink())
                .map_err(|e| IoError::reading(&self.info.data_path, e))?;
        }
        Ok(())
    }
}

/// Makes room for `more` values: all `total` at once where the file's size vouches for them, else
/// twice what is there.
fn grow<T>(out: &mut Vec<T>, more: usize, total: usize, path: &Path) -> Result<()> {
    let needed = out.len() + more;
    if needed <= out.capacity() {
        return Ok(());
    }
    let target = total.min(needed.max(out.len() * 2).max(FIRST)).max(needed);
    let more = target - out.len();
    memory::ask::<T, ()>(target, || out.try_reserve_exact(more).ok())
        .map_err(|refused| IoError::memory(path, refused))
}

/// The scaled values of all axes.
pub(crate) fn floats(plan: &Plan, source: &Source<'_>) -> Result<Vec<f32>> {
    let info = &plan.info;
    let (count, needed) = plan.size()?;
    let mut out: Vec<f32> = Vec::new();
    if info.compression == Compression::Text {
        numbers(plan, source, |v| {
            grow(&mut out, 1, count, &info.path)?;
            out.push((v * info.slope + info.intercept) as f32);
            Ok(())
        })?;
        return Ok(out);
    }
    let native = ByteOrder::NATIVE == info.byte_order;
    if info.data_type == DataType::F32 && native && plan.scale() == Scale::NONE {
        // The values can be read where they will stay.
        let mut reader = plan.reader(source, 0)?;
        while out.len() < count {
            let start = out.len();
            let piece = (count - start).min(4 * PIECE);
            grow(&mut out, piece, count, &info.path)?;
            out.resize(start + piece, 0.0);
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut out[start..]);
            let n =
                read_full(&mut reader, bytes).map_err(|e| IoError::reading(&info.data_path, e))?;
            if n < bytes.len() {
                let found = (start * 4 + n) as u64;
                let path = info.data_path.clone();
                return Err(IoError::Truncated { path, expected: needed, found });
            }
        }
        plan.verify(&mut reader)?;
        return Ok(out);
    }
    plan.pieces(source, |bytes| {
        grow(&mut out, bytes.len() / info.data_type.size(), count, &info.path)?;
        convert::to_f32(bytes, info.data_type, info.byte_order, plan.scale(), &mut out);
        Ok(())
    })?;
    Ok(out)
}

/// The scaled values of all axes, into an array of their number.
pub(crate) fn floats_into(plan: &Plan, source: &Source<'_>, out: &mut [f32]) -> Result<()> {
    let info = &plan.info;
    let (count, needed) = plan.size()?;
    if count != out.len() {
        return Err(IoError::malformed(
            &info.path,
            format!("it has {count} voxels, but {} are expected", out.len()),
            "bring all images onto one grid first",
        ));
    }
    let mut done = 0;
    if info.compression == Compression::Text {
        return numbers(plan, source, |v| {
            out[done] = (v * info.slope + info.intercept) as f32;
            done += 1;
            Ok(())
        });
    }
    if info.data_type == DataType::F32
        && ByteOrder::NATIVE == info.byte_order
        && plan.scale() == Scale::NONE
    {
        let mut reader = plan.reader(source, 0)?;
        let n = read_full(&mut reader, bytemuck::cast_slice_mut(out))
            .map_err(|e| IoError::reading(&info.data_path, e))?;
        if n < size_of_val(out) {
            let (path, found) = (info.data_path.clone(), n as u64);
            return Err(IoError::Truncated { path, expected: needed, found });
        }
        return plan.verify(&mut reader);
    }
    let mut values =
        memory::room(PIECE.min(count)).map_err(|refused| IoError::memory(&info.path, refused))?;
    plan.pieces(source, |bytes| {
        values.clear();
        convert::to_f32(bytes, info.data_type, info.byte_order, plan.scale(), &mut values);
        out[done..done + values.len()].copy_from_slice(&values);
        done += values.len();
        Ok(())
    })
}

/// The labels of all axes.
pub(crate) fn labels(plan: &Plan, source: &Source<'_>) -> Result<Vec<i32>> {
    let info = &plan.info;
    let (count, _) = plan.size()?;
    let mut out: Vec<i32> = Vec::new();
    let bad = |i: usize, value: f64| not_a_label(&info.data_path, &info.grid, i, value);
    if info.compression == Compression::Text {
        numbers(plan, source, |v| {
            let v = v * info.slope + info.intercept;
            let label = convert::label(v).ok_or_else(|| bad(out.len(), v))?;
            grow(&mut out, 1, count, &info.path)?;
            out.push(label);
            Ok(())
        })?;
        return Ok(out);
    }
    plan.pieces(source, |bytes| {
        let start = out.len();
        grow(&mut out, bytes.len() / info.data_type.size(), count, &info.path)?;
        convert::to_i32(bytes, info.data_type, info.byte_order, plan.scale(), &mut out)
            .map_err(|(i, value)| bad(start + i, value))
    })?;
    Ok(out)
}

fn not_a_label(path: &Path, grid: &Grid, i: usize, value: f64) -> IoError {
    let [nx, ny, _] = grid.dims();
    IoError::NotALabel { path: path.into(), index: [i % nx, i / nx % ny, i / nx / ny], value }
}

/// Numbers written as text, separated by blanks or commas.
pub(super) fn numbers(
    plan: &Plan,
    source: &Source<'_>,
    mut take: impl FnMut(f64) -> Result<()>,
) -> Result<()> {
    let path = &plan.info.data_path;
    let (count, _) = plan.size()?;
    let mut reader = plan.reader(source, 0)?;
    let mut word = Vec::new();
    let mut found = 0;
    let mut ended = false;
    while found < count && !ended {
        let mut byte = [0];
        let n = read_full(&mut reader, &mut byte).map_err(|e| IoError::reading(path, e))?;
        ended = n == 0;
        if !ended && !byte[0].is_ascii_whitespace() && byte[0] != b',' {
            if word.len() > 64 {
                let problem = format!("the text after value {found} is not a number");
                return Err(IoError::malformed(path, problem, "the data are probably damaged"));
            }
            word.push(byte[0]);
        } else if !word.is_empty() {
            let text = String::from_utf8_lossy(&word);
            let value = text.parse::<f64>().map_err(|_| {
                let problem = format!("value {found} is '{text}', which is not a number");
                IoError::malformed(path, problem, "the data are probably damaged")
            })?;
            take(value)?;
            found += 1;
            word.clear();
        }
    }
    if found < count {
        let problem = format!("{count} values are expected, but the file has {found}");
        return Err(IoError::malformed(path, problem, "copy or download the file again"));
    }
    Ok(())
}
