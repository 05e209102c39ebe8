//! Reading parts of images.

use super::convert;
use super::decode::{self, PIECE, Plan};
use super::info::ImageInfo;
use super::options::Compression;
use super::region::Region;
use crate::error::{IoError, Result};
use crate::source::{Source, read_full};
use std::io::{BufRead, Read};
use std::sync::{Mutex, PoisonError};
use voxalign_image::memory;

/// Bytes that are read and left out rather than jumped over.
const SHORT: u64 = 1 << 18;

/// An opened image, of which any box of voxels of any volume can be read.
///
/// Only what is asked for is read where the values are not compressed. Of compressed values what lies
/// before is unpacked too; who asks for boxes in the order of the file has it unpacked once. Memory is
/// bounded by a piece of constant size; for DICOM by a frame.
pub trait ImageSource: Send + Sync + std::fmt::Debug {
    /// What the header says; `info().volumes()` is the number of volumes.
    fn info(&self) -> &ImageInfo;

    /// Scaled values of the voxels of a box in a volume, x fastest, into an array of their number.
    ///
    /// # Errors
    /// A region or volume that the image does not have; an array of another size; a file that ends
    /// before its values do or is damaged.
    fn read(&self, region: &Region, volume: usize, out: &mut [f32]) -> Result<()>;

    /// As [`read`](Self::read), labels.
    ///
    /// # Errors
    /// As [`read`](Self::read); a value that is not a whole number within 32 bits.
    fn read_labels(&self, region: &Region, volume: usize, out: &mut [i32]) -> Result<()>;

    /// What is known beside the image, of one volume or of all: nothing but of DICOM.
    ///
    /// # Errors
    /// A header that cannot be read any more.
    fn sidecar(&self, volume: Option<usize>) -> Result<Option<Sidecar>> {
        let _ = volume;
        Ok(None)
    }
}

/// What is known of an image beside its values and its geometry. Nothing in it names a patient.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sidecar {
    /// By the names and in the units of BIDS (seconds, degrees); axes are those of the image as it is written.
    pub facts: serde_json::Map<String, serde_json::Value>,
    /// For each volume its b-value in s/mm², and the direction along the image's axes as FSL has it: with x
    /// turned round where the axes are right-handed. Nothing where no volume has a direction.
    pub diffusion: Option<Vec<(f64, [f64; 3])>>,
    /// From a volume to the next, s.
    pub time_step_s: Option<f64>,
}

/// An image whose values follow each other in one file.
pub(crate) struct FileImage<'a> {
    plan: Plan,
    source: Source<'a>,
    /// Where the last reading of packed values stopped.
    stopped: Mutex<Option<Running<'a>>>,
}

impl std::fmt::Debug for FileImage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileImage").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// A stream of values and how many of its bytes were read.
struct Running<'a> {
    reader: Box<dyn BufRead + Send + 'a>,
    at: u64,
}

/// Where the voxels of a region lie among the stored values.
struct Runs {
    /// Values before the first voxel of the volume.
    first: usize,
    /// Values from one voxel to the next.
    step: usize,
    dims: [usize; 3],
    start: [usize; 3],
    /// Voxels that follow each other, and how often along y and z.
    length: usize,
    rows: usize,
    slices: usize,
}

impl Runs {
    fn new(info: &ImageInfo, region: &Region, volume: usize) -> Result<Runs> {
        let dims = info.grid.dims();
        let (first, step) = match info.components {
            0 | 1 => (volume * dims[0] * dims[1] * dims[2], 1),
            n if n == info.volumes() => (volume, n),
            n => {
                return Err(IoError::unsupported(
                    &info.path,
                    format!("it has {n} values per voxel and further axes {:?}", &info.dims[3..]),
                    "extract one volume first",
                ));
            }
        };
        let [mut length, mut rows, mut slices] = region.size;
        if length == dims[0] {
            length *= rows;
            rows = 1;
            if region.size[1] == dims[1] {
                length *= slices;
                slices = 1;
            }
        }
        Ok(Runs { first, step, dims, start: region.start, length, rows, slices })
    }

    /// The stored value at which each run begins.
    fn begins(&self) -> impl Iterator<Item = usize> + '_ {
        let [nx, ny, _] = self.dims;
        let [x, y, z] = self.start;
        (0..self.slices).flat_map(move |k| {
            (0..self.rows).map(move |j| self.first + (x + nx * (y + j + ny * (z + k))) * self.step)
        })
    }
}

impl<'a> FileImage<'a> {
    pub(crate) fn new(plan: Plan, source: Source<'a>) -> FileImage<'a> {
        FileImage { plan, source, stopped: Mutex::new(None) }
    }

    /// Gives the bytes of the values of a region to `take`, in pieces of whole values.
    fn bytes(
        &self,
        region: &Region,
        volume: usize,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let info = &self.plan.info;
        let size = info.data_type.size();
        let runs = Runs::new(info, region, volume)?;
        let no_memory = |refused| IoError::memory(&info.path, refused);
        let voxels = runs.length.min(PIECE.div_ceil(runs.step));
        let mut buffer = memory::zeroed(voxels * runs.step * size).map_err(no_memory)?;
        let packed = info.compression != Compression::None;
        let mut running =
            self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take().filter(|_| packed);
        for begin in runs.begins() {
            let mut left = runs.length;
            let mut stream = self.move_to((begin * size) as u64, running.take(), packed)?;
            while left > 0 {
                let now = left.min(voxels);
                // The last voxel of all has no values of other volumes after it.
                let values = if now == left { (now - 1) * runs.step + 1 } else { now * runs.step };
                let piece = &mut buffer[..values * size];
                self.fill(&mut stream, piece)?;
                if runs.step == 1 {
                    take(piece)?;
                } else {
                    for voxel in piece.chunks(runs.step * size) {
                        take(&voxel[..size])?;
                    }
                }
                left -= now;
            }
            running = Some(stream);
        }
        let (_, all) = self.plan.size()?;
        match running {
            Some(mut stream) if stream.at == all => self.plan.verify(&mut stream.reader),
            Some(stream) if packed => {
                *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A stream whose next byte of values is `at`: the one that there is, where it is not beyond.
    fn move_to(&self, at: u64, running: Option<Running<'a>>, packed: bool) -> Result<Running<'a>> {
        match running {
            Some(mut stream) if stream.at <= at && (packed || at - stream.at <= SHORT) => {
                let between = at - stream.at;
                let n =
                    std::io::copy(&mut (&mut stream.reader).take(between), &mut std::io::sink())
                        .map_err(|e| IoError::reading(&self.plan.info.data_path, e))?;
                stream.at += n;
                if n < between { Err(self.cut(stream.at)) } else { Ok(stream) }
            }
            _ => Ok(Running { reader: self.plan.reader(&self.source, at)?, at }),
        }
    }

    fn fill(&self, stream: &mut Running<'_>, bytes: &mut [u8]) -> Result<()> {
        let n = read_full(&mut stream.reader, bytes)
            .map_err(|e| IoError::reading(&self.plan.info.data_path, e))?;
        stream.at += n as u64;
        if n < bytes.len() { Err(self.cut(stream.at)) } else { Ok(()) }
    }

    fn cut(&self, found: u64) -> IoError {
        let expected = self.plan.size().map_or(u64::MAX, |(_, bytes)| bytes);
        IoError::Truncated { path: self.plan.info.data_path.clone(), expected, found }
    }

    /// Gives the scaled values of a region that are stored as text to `take`.
    fn text(
        &self,
        region: &Region,
        volume: usize,
        mut take: impl FnMut(f64) -> Result<()>,
    ) -> Result<()> {
        let info = &self.plan.info;
        let runs = Runs::new(info, region, volume)?;
        let mut begins = runs.begins();
        let mut begin = begins.next();
        let mut at = 0;
        decode::numbers(&self.plan, &self.source, |v| {
            if let Some(from) = begin.filter(|&from| at >= from) {
                if (at - from) % runs.step == 0 {
                    take(v * info.slope + info.intercept)?;
                }
                if at - from == (runs.length - 1) * runs.step {
                    begin = begins.next();
                }
            }
            at += 1;
            Ok(())
        })
    }
}

impl ImageSource for FileImage<'_> {
    fn info(&self) -> &ImageInfo {
        &self.plan.info
    }

    fn read(&self, region: &Region, volume: usize, out: &mut [f32]) -> Result<()> {
        let info = &self.plan.info;
        region.check(info, volume, out.len())?;
        if region.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        if info.compression == Compression::Text {
            return self.text(region, volume, |v| {
                out[done] = v as f32;
                done += 1;
                Ok(())
            });
        }
        let mut values =
            memory::room(PIECE).map_err(|refused| IoError::memory(&info.path, refused))?;
        self.bytes(region, volume, |bytes| {
            values.clear();
            convert::to_f32(bytes, info.data_type, info.byte_order, self.plan.scale(), &mut values);
            out[done..done + values.len()].copy_from_slice(&values);
            done += values.len();
            Ok(())
        })
    }

    fn read_labels(&self, region: &Region, volume: usize, out: &mut [i32]) -> Result<()> {
        let info = &self.plan.info;
        region.check(info, volume, out.len())?;
        if region.is_empty() {
            return Ok(());
        }
        let mut done = 0;
        let bad = |i: usize, value| not_a_label(info, region, i, value);
        if info.compression == Compression::Text {
            return self.text(region, volume, |v| {
                out[done] = convert::label(v).ok_or_else(|| bad(done, v))?;
                done += 1;
                Ok(())
            });
        }
        let mut values =
            memory::room(PIECE).map_err(|refused| IoError::memory(&info.path, refused))?;
        self.bytes(region, volume, |bytes| {
            values.clear();
            let (kind, order) = (info.data_type, info.byte_order);
            convert::to_i32(bytes, kind, order, self.plan.scale(), &mut values)
                .map_err(|(i, value)| bad(done + i, value))?;
            out[done..done + values.len()].copy_from_slice(&values);
            done += values.len();
            Ok(())
        })
    }
}

/// An error about voxel `i` of a region, whose value is not a label.
pub(crate) fn not_a_label(info: &ImageInfo, region: &Region, i: usize, value: f64) -> IoError {
    let [nx, ny, _] = region.size;
    let within = [i % nx, i / nx % ny, i / nx / ny];
    let index = std::array::from_fn(|a| region.start[a] + within[a]);
    IoError::NotALabel { path: info.data_path.clone(), index, value }
}
