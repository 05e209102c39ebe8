//! Chunks that a region meets, read and put into place.

use super::array::Array;
use super::chain::{Damage, Shard};
use super::ome::Axes;
use super::places::Parts;
use crate::error::{IoError, Result};
use crate::image::Region;
use crate::pyramid::options::Missing;
use rayon::prelude::*;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use voxalign_image::memory;

/// A part of an array, and where its values go.
pub(super) struct Wanted<'a> {
    array: &'a Array,
    /// The first index along each axis, and the one after the last.
    part: Vec<Range<usize>>,
    /// Values from one to the next along each axis, in what is read into.
    steps: Vec<usize>,
}

/// The cells of a grid that a box meets, in their order, the last axis fastest. There may be as many as pixels, so that none is kept.
struct Cells(Vec<Range<usize>>);

impl Cells {
    fn new(part: &[Range<usize>], cell: &[usize]) -> Self {
        Self(part.iter().zip(cell).map(|(r, &c)| r.start / c..r.end.div_ceil(c)).collect())
    }

    fn len(&self) -> usize {
        self.0.iter().map(Range::len).product()
    }

    /// The numbers of one of them.
    fn at(&self, mut index: usize) -> Vec<usize> {
        let mut numbers = vec![0; self.0.len()];
        for (number, range) in numbers.iter_mut().zip(&self.0).rev() {
            *number = range.start + index % range.len();
            index /= range.len();
        }
        numbers
    }

    /// The numbers of so many of them at a time.
    fn batches(&self, size: usize) -> impl Iterator<Item = Vec<Vec<usize>>> + '_ {
        let end = self.len();
        let batch = move |from: usize| (from..end.min(from + size)).map(|i| self.at(i)).collect();
        (0..end).step_by(size).map(batch)
    }
}

impl<'a> Wanted<'a> {
    /// A region of some channels at a time, into `channel, z, y, x`.
    pub(super) fn new(
        array: &'a Array,
        axes: &Axes,
        time: usize,
        channels: Range<usize>,
        region: &Region,
    ) -> Self {
        let mut part = vec![0..1; array.shape.len()];
        let mut steps = vec![0; array.shape.len()];
        let mut step = 1;
        for (a, axis) in axes.space.iter().enumerate() {
            if let Some(axis) = *axis {
                part[axis] = region.start[a]..region.start[a] + region.size[a];
                steps[axis] = step;
            }
            step *= region.size[a];
        }
        if let Some(axis) = axes.channel {
            part[axis] = channels;
            steps[axis] = step;
        }
        if let Some(axis) = axes.time {
            part[axis] = time..time + 1;
        }
        Self { array, part, steps }
    }

    /// Reads the values in this machine's order of bytes.
    pub(super) fn read(&self, out: &mut [u8]) -> Result<()> {
        let files = Cells::new(&self.part, &self.array.chunk);
        if let Some(shard) = &self.array.shard {
            for index in 0..files.len() {
                self.shard(shard, &files.at(index), out)?;
            }
            return Ok(());
        }
        // As many chunks at once as there are threads: memory is theirs.
        for some in files.batches(rayon::current_num_threads().max(1)) {
            let read: Vec<_> = some.par_iter().map(|numbers| self.chunk(numbers)).collect();
            for (numbers, values) in some.iter().zip(read) {
                let first: Vec<usize> =
                    numbers.iter().zip(&self.array.chunk).map(|(n, c)| n * c).collect();
                self.place(&first, &self.array.chunk, values?.as_deref(), out);
            }
        }
        Ok(())
    }

    /// The values of a chunk; nothing where it was not written.
    fn chunk(&self, numbers: &[usize]) -> Result<Option<Vec<u8>>> {
        let array = self.array;
        let path = array.file(numbers);
        let Some(mut file) = self.file(&path)? else { return Ok(None) };
        let fail = |e| IoError::reading(&path, e);
        let length = file.metadata().map_err(fail)?.len();
        let mut packed = zeroed(&path, usize::try_from(length).unwrap_or(usize::MAX))?;
        read_exact(&path, &mut file, &mut packed)?;
        let values = array.chain.unpack(packed, &array.chunk, array.data_type);
        values.map(Some).map_err(|damage| refused(&path, "the chunk", damage))
    }

    /// The file of a chunk; nothing where it may be missing.
    fn file(&self, path: &Path) -> Result<Option<File>> {
        match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => match self.array.missing {
                Missing::Background => Ok(None),
                Missing::Error => Err(IoError::malformed(
                    path,
                    "the file of this chunk is missing",
                    "copy the image again; where chunks of background were left out, choose `missing` as background",
                )),
            },
            Err(e) => Err(IoError::reading(path, e)),
        }
    }

    /// Reads the parts of a file that are wanted.
    fn shard(&self, shard: &Shard, numbers: &[usize], out: &mut [u8]) -> Result<()> {
        let array = self.array;
        let path = array.file(numbers);
        let begin: Vec<usize> = numbers.iter().zip(&array.chunk).map(|(n, c)| n * c).collect();
        let Some(mut file) = self.file(&path)? else {
            self.place(&begin, &array.chunk, None, out);
            return Ok(());
        };
        let index = self.index(shard, &path, &mut file)?;
        let across: Vec<usize> = array.chunk.iter().zip(&shard.inner).map(|(c, i)| c / i).collect();
        // Within the file.
        let part: Vec<Range<usize>> = self
            .part
            .iter()
            .zip(&begin)
            .zip(&array.chunk)
            .map(|((r, &b), &c)| r.start.saturating_sub(b)..(r.end - b).min(c))
            .collect();
        let parts = Cells::new(&part, &shard.inner);
        for some in parts.batches(rayon::current_num_threads().max(1)) {
            let read: Vec<_> = some
                .par_iter()
                .map(|at| {
                    let number = at.iter().zip(&across).fold(0, |n, (i, a)| n * a + i);
                    self.inner(shard, &path, number, index.get(number).copied())
                })
                .collect();
            for (at, values) in some.iter().zip(read) {
                let first: Vec<usize> =
                    (0..at.len()).map(|a| begin[a] + at[a] * shard.inner[a]).collect();
                self.place(&first, &shard.inner, values?.as_deref(), out);
            }
        }
        Ok(())
    }

    /// Where the parts of a file are: their first byte and their length.
    fn index(&self, shard: &Shard, path: &Path, file: &mut File) -> Result<Parts> {
        let wrong = |problem: String| refused(path, "the index of the shard", problem.into());
        let fail = |e| IoError::reading(path, e);
        let meta = file.metadata().map_err(fail)?;
        if let Some(known) = self.array.places.of(path, &meta) {
            return Ok(known);
        }
        let length = meta.len();
        let parts = self.array.chunk.iter().zip(&shard.inner).map(|(c, i)| c / i).product();
        let size = shard.index_size(parts).filter(|&size| size as u64 <= length);
        let Some(size) = size else {
            return Err(wrong(format!("the file has {length} bytes, which are too few for it")));
        };
        let at = if shard.index_first { 0 } else { length - size as u64 };
        file.seek(SeekFrom::Start(at)).map_err(fail)?;
        let mut bytes = zeroed(path, size)?;
        read_exact(path, file, &mut bytes)?;
        let bytes = shard
            .index
            .bytes(bytes, parts * 16)
            .map_err(|damage| refused(path, "the index of the shard", damage))?;
        let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let found =
            memory::collected(bytes.chunks_exact(16).map(|b| (number(&b[..8]), number(&b[8..]))))
                .map_err(|refused| IoError::memory(path, refused))?;
        let found = Parts::new(found);
        self.array.places.keep(path, &meta, &found);
        Ok(found)
    }

    /// The values of a part of a shard; nothing where the index says that there are none.
    fn inner(
        &self,
        shard: &Shard,
        path: &Path,
        number: usize,
        entry: Option<(u64, u64)>,
    ) -> Result<Option<Vec<u8>>> {
        let what = format!("part {number} of the shard");
        let (at, length) = match entry {
            None | Some((u64::MAX, u64::MAX)) => return Ok(None),
            Some(entry) => entry,
        };
        let fail = |e| IoError::reading(path, e);
        let mut file = File::open(path).map_err(fail)?;
        let all = file.metadata().map_err(fail)?.len();
        if at.checked_add(length).is_none_or(|end| end > all) {
            let problem = format!("its {length} bytes from {at} are not within the file of {all}");
            return Err(refused(path, &what, problem.into()));
        }
        file.seek(SeekFrom::Start(at)).map_err(fail)?;
        let mut packed = zeroed(path, usize::try_from(length).unwrap_or(usize::MAX))?;
        read_exact(path, &mut file, &mut packed)?;
        let values = shard.chain.unpack(packed, &shard.inner, self.array.data_type);
        values.map(Some).map_err(|damage| refused(path, &what, damage))
    }

    /// Copies what is wanted of values that begin at an index of the array; of none, the fill value.
    fn place(&self, first: &[usize], shape: &[usize], values: Option<&[u8]>, out: &mut [u8]) {
        let size = self.array.data_type.size();
        let axes = shape.len();
        let common: Vec<Range<usize>> = (0..axes)
            .map(|a| self.part[a].start.max(first[a])..self.part[a].end.min(first[a] + shape[a]))
            .collect();
        if common.iter().any(Range::is_empty) {
            return;
        }
        let mut from_steps = vec![1; axes];
        for a in (0..axes - 1).rev() {
            from_steps[a] = from_steps[a + 1] * shape[a + 1];
        }
        let last = axes - 1;
        let run = common[last].len();
        let mut at: Vec<usize> = common.iter().map(|r| r.start).collect();
        loop {
            let from: usize = (0..axes).map(|a| (at[a] - first[a]) * from_steps[a]).sum();
            let to: usize = (0..axes).map(|a| (at[a] - self.part[a].start) * self.steps[a]).sum();
            match values {
                Some(values) if self.steps[last] == 1 => {
                    out[to * size..(to + run) * size]
                        .copy_from_slice(&values[from * size..(from + run) * size]);
                }
                _ => (0..run).for_each(|i| {
                    let value =
                        values.map_or(&self.array.fill[..], |v| &v[(from + i) * size..][..size]);
                    out[(to + i * self.steps[last]) * size..][..size].copy_from_slice(value);
                }),
            }
            // The next run.
            let mut axis = last;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                at[axis] += 1;
                if at[axis] < common[axis].end {
                    break;
                }
                at[axis] = common[axis].start;
            }
        }
    }
}

fn zeroed(path: &Path, length: usize) -> Result<Vec<u8>> {
    memory::zeroed(length).map_err(|refused| IoError::memory(path, refused))
}

fn read_exact(path: &Path, file: &mut File, bytes: &mut [u8]) -> Result<()> {
    file.read_exact(bytes).map_err(|e| IoError::reading(path, e))
}

fn refused(path: &Path, what: &str, damage: Damage) -> IoError {
    match damage {
        Damage::Memory(refused) => IoError::memory(path, refused),
        Damage::Wrong(problem) => IoError::malformed(
            path,
            format!("{what} is damaged: {problem}"),
            "copy or download it again",
        ),
    }
}
