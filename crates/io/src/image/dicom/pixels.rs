//! Decoding the pixel values of a frame.

use super::codec::{self, Damage};
use super::dataset::Pixels;
use super::header::{Header, Layout};
use super::stream::inflate;
use crate::error::{IoError, Result};
use crate::source::{Source, read_full};
use std::io::{BufRead, Read};
use std::ops::Range;
use voxalign_image::memory;

/// The values of some rows of a frame as they are stored, into `out`.
pub(super) fn rows(
    file: &Header,
    layout: &Layout,
    source: &Source<'_>,
    frame: usize,
    rows: Range<usize>,
    out: &mut Vec<f64>,
) -> Result<()> {
    let no_memory = |refused| IoError::memory(&file.path, refused);
    let count = rows.len() * layout.columns;
    out.clear();
    memory::resize(out, count, 0.0).map_err(no_memory)?;
    let first = rows.start * layout.columns;
    match &file.pixels {
        Pixels::None => Err(IoError::malformed(&file.path, "there are no pixels", "name an image")),
        Pixels::Plain { words, at, .. } => {
            let from = frame * layout.len() + first;
            if layout.allocated == 1 {
                let start = from / 8;
                let bytes =
                    plain(file, source, *at + start as u64, (from + count).div_ceil(8) - start)?;
                for (i, value) in out.iter_mut().enumerate() {
                    let bit = from - 8 * start + i;
                    *value = f64::from(bytes[bit / 8] >> (bit % 8) & 1);
                }
                return Ok(());
            }
            let size = layout.allocated / 8;
            if *words && size == 1 && file.syntax.big_endian {
                // Bytes are written as words, whose upper byte comes first.
                let start = from / 2 * 2;
                let mut bytes = plain(
                    file,
                    source,
                    *at + start as u64,
                    (from + count).next_multiple_of(2) - start,
                )?;
                bytes.chunks_exact_mut(2).for_each(<[u8]>::reverse);
                values(&bytes[from - start..], layout, false, out);
                return Ok(());
            }
            let bytes = plain(file, source, *at + (from * size) as u64, count * size)?;
            values(&bytes, layout, file.syntax.big_endian, out);
            Ok(())
        }
        Pixels::Fragments { .. } => {
            let packed = fragments(file, source, frame)?;
            let bytes = codec::unpack(file.syntax.packing, &packed, layout)
                .map_err(|damage| refused(file, frame, damage))?;
            let size = layout.allocated / 8;
            values(&bytes[first * size..(first + count) * size], layout, false, out);
            Ok(())
        }
    }
}

/// An error about a frame that cannot be unpacked.
fn refused(file: &Header, frame: usize, damage: Damage) -> IoError {
    let of = if file.pictures > 1 { format!(" (frame {frame})") } else { String::new() };
    match damage {
        Damage::Memory(refused) => IoError::memory(&file.path, refused),
        Damage::Wrong(problem) => IoError::malformed(
            &file.path,
            format!("{problem}{of}"),
            "the file is probably damaged: copy or download it again",
        ),
        Damage::Unsupported(what) => IoError::unsupported(
            &file.path,
            format!("{what}{of}"),
            "unpack the series first, for instance with `dcmdjpeg IN OUT` or `gdcmconv --raw`",
        ),
    }
}

/// Bytes of pixels that are not packed.
fn plain(file: &Header, source: &Source<'_>, at: u64, count: usize) -> Result<Vec<u8>> {
    let fail = |e| IoError::reading(&file.path, e);
    let mut bytes =
        memory::zeroed(count).map_err(|refused| IoError::memory(&file.path, refused))?;
    let mut reader: Box<dyn BufRead + Send + '_> = if file.syntax.deflated {
        let mut reader = inflate(source, file.begin)?;
        std::io::copy(&mut (&mut reader).take(at), &mut std::io::sink()).map_err(fail)?;
        reader
    } else {
        source.raw_with(at, count.clamp(1 << 10, 1 << 18))?
    };
    let n = read_full(&mut reader, &mut bytes).map_err(fail)?;
    if n < count {
        return Err(IoError::Truncated {
            path: file.path.clone(),
            expected: at.saturating_add(count as u64),
            found: at.saturating_add(n as u64),
        });
    }
    Ok(bytes)
}

/// The packed bytes of a frame.
fn fragments(file: &Header, source: &Source<'_>, frame: usize) -> Result<Vec<u8>> {
    let Pixels::Fragments { pieces, offsets } = &file.pixels else { return Ok(Vec::new()) };
    let frames = file.pictures;
    let own: Vec<(u64, u64)> = if frames == 1 {
        pieces.clone()
    } else if pieces.len() == frames {
        vec![pieces[frame]]
    } else if offsets.len() == frames && !pieces.is_empty() {
        // Counted from the begin of the first fragment's item.
        let base = pieces[0].0;
        let begin = base.saturating_add(offsets[frame]);
        let end = offsets.get(frame + 1).map_or(u64::MAX, |o| base.saturating_add(*o));
        pieces.iter().copied().filter(|(at, _)| (begin..end).contains(at)).collect()
    } else {
        return Err(IoError::unsupported(
            &file.path,
            format!(
                "{frames} frames are in {} fragments without a table that says which are whose",
                pieces.len()
            ),
            "unpack the series first, for instance with `gdcmconv --raw`",
        ));
    };
    let total = own.iter().fold(0u64, |n, (_, length)| n.saturating_add(*length));
    if own.is_empty() || total == 0 {
        return Err(IoError::malformed(
            &file.path,
            format!("there is no fragment of frame {frame}"),
            "the file is probably damaged: copy or download it again",
        ));
    }
    // No more than the file is long.
    let total = usize::try_from(total.min(source.length())).unwrap_or(usize::MAX);
    let mut packed = memory::room(total).map_err(|refused| IoError::memory(&file.path, refused))?;
    for (at, length) in own {
        packed.extend(plain(file, source, at, usize::try_from(length).unwrap_or(usize::MAX))?);
    }
    Ok(packed)
}

/// Stored values as numbers, without the bits that are not used.
fn values(bytes: &[u8], layout: &Layout, big_endian: bool, out: &mut [f64]) {
    macro_rules! each {
        ($ty:ty, $read:expr) => {
            for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(size_of::<$ty>())) {
                let mut own = [0; size_of::<$ty>()];
                own.copy_from_slice(bytes);
                let stored =
                    if big_endian { <$ty>::from_be_bytes(own) } else { <$ty>::from_le_bytes(own) };
                *value = $read(stored);
            }
        };
    }
    if layout.float {
        if layout.allocated == 64 {
            each!(f64, |v: f64| v);
        } else {
            each!(f32, f64::from);
        }
        return;
    }
    // The uppermost used bit becomes that of 32 bits, and the lowest the first.
    let (left, right) = (31 - layout.high, 32 - layout.stored);
    let number = |v: u32| {
        let v = v << left;
        if layout.signed { f64::from(v as i32 >> right) } else { f64::from(v >> right) }
    };
    match layout.allocated {
        8 => each!(u8, |v: u8| number(u32::from(v))),
        16 => each!(u16, |v: u16| number(u32::from(v))),
        _ => each!(u32, number),
    }
}
