//! Streams of raw frames, as sent by cameras, grabbers and other programs.

use crate::error::{IoError, Result};
use crate::source::read_full;
use std::io::Read;
use std::path::PathBuf;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 16;

/// Data type of raw frames, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// Unsigned 8-bit integers.
    U8,
    /// Unsigned 16-bit integers.
    U16,
    /// 32-bit floats.
    F32,
}

impl FrameType {
    /// Bytes of one value.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            FrameType::U8 => 1,
            FrameType::U16 => 2,
            FrameType::F32 => 4,
        }
    }
}

/// Frames of one size out of a stream that has nothing else: columns fastest, row 0 the top, no header.
///
/// ```
/// use voxalign_io::xray::{FrameType, Frames};
///
/// let stream = [1u8, 2, 3, 4, 5, 6, 7, 8];
/// let mut frames = Frames::new(&stream[..], [2, 2], FrameType::U8)?;
/// let mut frame = [0.0; 4];
/// while frames.next_into(&mut frame)? {
///     println!("frame {}: {frame:?}", frames.count());
/// }
/// assert_eq!((frames.count(), frame), (2, [5.0, 6.0, 7.0, 8.0]));
/// # Ok::<(), voxalign_io::IoError>(())
/// ```
#[derive(Debug)]
pub struct Frames<R> {
    reader: R,
    name: PathBuf,
    dims: [usize; 2],
    kind: FrameType,
    values: usize,
    count: u64,
}

impl<R: Read> Frames<R> {
    /// Frames of `[columns, rows]` from a stream, which messages call `standard input`.
    ///
    /// # Errors
    /// A frame without pixels, or with more than can be counted.
    pub fn new(reader: R, dims: [usize; 2], kind: FrameType) -> Result<Self> {
        let name = PathBuf::from("standard input");
        let bytes = dims[0].checked_mul(dims[1]).filter(|n| n.checked_mul(kind.size()).is_some());
        let Some(values) = bytes.filter(|n| *n > 0) else {
            let problem = format!("frames of {} x {} pixels", dims[0], dims[1]);
            return Err(IoError::malformed(&name, problem, "give the columns and rows of frames"));
        };
        Ok(Self { reader, name, dims, kind, values, count: 0 })
    }

    /// The same with another name in messages.
    #[must_use]
    pub fn named(self, name: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Columns and rows.
    #[must_use]
    pub fn dims(&self) -> [usize; 2] {
        self.dims
    }

    /// How many whole frames were read.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Reads the next frame into an array of `columns x rows` values; `false` at the end of the stream. It waits for
    /// bytes that are not there yet.
    ///
    /// # Errors
    /// An array of another size; a stream that cannot be read, or ends in the middle of a frame.
    pub fn next_into(&mut self, out: &mut [f32]) -> Result<bool> {
        let [columns, rows] = self.dims;
        if out.len() != self.values {
            return Err(IoError::malformed(
                &self.name,
                format!("a frame has {columns} x {rows} pixels, but {} are expected", out.len()),
                "give the size of the frames",
            ));
        }
        let size = self.kind.size();
        let (mut piece, mut done) = ([0; PIECE], 0);
        for out in out.chunks_mut(PIECE / size) {
            let bytes = &mut piece[..out.len() * size];
            let n =
                read_full(&mut self.reader, bytes).map_err(|e| IoError::reading(&self.name, e))?;
            done += n;
            if done == 0 {
                return Ok(false);
            }
            if n < bytes.len() {
                return Err(IoError::malformed(
                    &self.name,
                    format!(
                        "the stream ends in the middle of a frame: after {} whole frames there are {done} bytes of \
                         the {} of another one of {columns} x {rows} pixels",
                        self.count,
                        self.values * size
                    ),
                    "give the size and the type of the frames that are sent, and send whole ones",
                ));
            }
            convert(bytes, self.kind, out);
        }
        self.count += 1;
        Ok(true)
    }
}

fn convert(bytes: &[u8], kind: FrameType, out: &mut [f32]) {
    match kind {
        FrameType::U8 => out.iter_mut().zip(bytes).for_each(|(to, &v)| *to = f32::from(v)),
        FrameType::U16 => {
            for (to, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *to = f32::from(u16::from_le_bytes(*bytes));
            }
        }
        FrameType::F32 => {
            for (to, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *to = f32::from_le_bytes(*bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{self, Write as _};

    /// A reader that gives a few bytes at a time, and is interrupted.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = out.len().min(7);
            self.0.read(&mut out[..n])
        }
    }

    fn all(bytes: &[u8], dims: [usize; 2], kind: FrameType) -> Result<Vec<Vec<f32>>> {
        let mut frames = Frames::new(Slow(bytes, false), dims, kind)?;
        let (mut found, mut frame) = (Vec::new(), vec![0.0; dims[0] * dims[1]]);
        while frames.next_into(&mut frame)? {
            found.push(frame.clone());
        }
        // The end stays the end.
        assert!(!frames.next_into(&mut frame)?);
        assert_eq!(frames.count(), found.len() as u64);
        Ok(found)
    }

    #[test]
    fn large_frames() {
        let dims = [300, 401];
        let mut bytes = Vec::new();
        for i in 0..2 * 300 * 401u32 {
            bytes.write_all(&(i as f32).to_le_bytes()).unwrap();
        }
        let frames = all(&bytes, dims, FrameType::F32).unwrap();
        assert_eq!(frames.len(), 2);
        let found = frames.iter().flatten().enumerate();
        assert!(found.clone().count() == 240_600 && found.into_iter().all(|(i, &v)| v == i as f32));
    }

    #[test]
    fn bad_sizes() {
        for dims in [[0, 4], [4, 0], [usize::MAX, 2], [usize::MAX / 3, 1]] {
            assert!(Frames::new(io::empty(), dims, FrameType::F32).is_err(), "{dims:?}");
        }
        let mut frames = Frames::new(io::empty(), [4, 3], FrameType::U8).unwrap().named("pipe");
        let said = frames.next_into(&mut [0.0; 11]).unwrap_err().to_string();
        assert!(said.contains("'pipe'") && said.contains("4 x 3 pixels, but 11"), "{said}");
    }

    proptest! {
        #[test]
        fn frames_come_as_they_were_sent(
            columns in 1..5usize,
            rows in 1..5usize,
            kind in prop_oneof![Just(FrameType::U8), Just(FrameType::U16), Just(FrameType::F32)],
            values in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|&v| match kind {
                    FrameType::U8 => vec![v],
                    FrameType::U16 => (u16::from(v) * 257).to_le_bytes().to_vec(),
                    FrameType::F32 => (f32::from(v) / 3.0).to_le_bytes().to_vec(),
                })
                .collect();
            let one = columns * rows;
            match all(&bytes, [columns, rows], kind) {
                Ok(frames) => {
                    prop_assert_eq!(values.len(), frames.len() * one);
                    for (&found, &v) in frames.iter().flatten().zip(&values) {
                        let expected = match kind {
                            FrameType::U8 => f32::from(v),
                            FrameType::U16 => f32::from(v) * 257.0,
                            FrameType::F32 => f32::from(v) / 3.0,
                        };
                        prop_assert_eq!(found, expected);
                    }
                }
                Err(error) => {
                    let (whole, rest) = (values.len() / one, values.len() % one * kind.size());
                    let part = format!("after {whole} whole frames there are {rest} bytes of the");
                    prop_assert!(rest > 0 && error.to_string().contains(&part), "{}", error);
                }
            }
        }
    }
}
