//! Writing TIFF files.

use crate::xray::window::{Note, Window};
use std::io::{self, Seek, Write};
use tiff::TiffError;
use tiff::encoder::colortype::{ColorType, Gray16, Gray32Float};
use tiff::encoder::{Rational, TiffEncoder, TiffKind, TiffKindBig, TiffKindStandard, TiffValue};
use tiff::tags::{ResolutionUnit, Tag};

/// Files of this size and more have places of 64 bits, bytes; some is left for what is beside the values.
const LARGE: u64 = (1 << 32) - (1 << 24);

/// Writes all frames, each a page, as floats of 32 bits or scaled to 16 bits.
pub(in crate::xray) fn write(
    sink: impl Write + Seek,
    values: &[f32],
    dims: [usize; 2],
    note: Note,
) -> io::Result<()> {
    let size = if note.window.is_some() { 2 } else { 4 };
    let large = (values.len() as u64).saturating_mul(size) >= LARGE;
    let done = match (large, note.window) {
        (false, None) => floats::<_, TiffKindStandard>(sink, values, dims, note),
        (true, None) => floats::<_, TiffKindBig>(sink, values, dims, note),
        (false, Some(window)) => words::<_, TiffKindStandard>(sink, values, dims, note, window),
        (true, Some(window)) => words::<_, TiffKindBig>(sink, values, dims, note, window),
    };
    done.map_err(|e| match e {
        TiffError::IoError(e) => e,
        other => io::Error::other(other.to_string()),
    })
}

fn floats<W: Write + Seek, K: TiffKind>(
    sink: W,
    values: &[f32],
    dims: [usize; 2],
    note: Note,
) -> Result<(), TiffError> {
    pages::<W, Gray32Float, K>(sink, values, dims, note, |strip, out| out.extend_from_slice(strip))
}

fn words<W: Write + Seek, K: TiffKind>(
    sink: W,
    values: &[f32],
    dims: [usize; 2],
    note: Note,
    window: Window,
) -> Result<(), TiffError> {
    pages::<W, Gray16, K>(sink, values, dims, note, |strip, out| {
        out.extend(strip.iter().map(|&v| window.stored(v)));
    })
}

fn pages<W: Write + Seek, C: ColorType, K: TiffKind>(
    sink: W,
    values: &[f32],
    dims: [usize; 2],
    note: Note,
    convert: impl Fn(&[f32], &mut Vec<C::Inner>),
) -> Result<(), TiffError>
where
    [C::Inner]: TiffValue,
{
    let [columns, rows] = dims.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let mut encoder = TiffEncoder::<W, K>::new_generic(sink)?;
    let mut strip = Vec::new();
    for frame in values.chunks_exact(dims[0] * dims[1]) {
        let mut page = encoder.new_image::<C>(columns, rows)?;
        page.encoder().write_tag(Tag::ImageDescription, note.to_string().as_str())?;
        if let Some([x, y]) = note.pixel_size.map(|size| size.map(per_centimetre)) {
            page.resolution_unit(ResolutionUnit::Centimeter);
            page.x_resolution(x);
            page.y_resolution(y);
        }
        let mut left = frame;
        while !left.is_empty() {
            let count = usize::try_from(page.next_strip_sample_count()).unwrap_or(usize::MAX);
            let (now, later) = left.split_at(count.clamp(1, left.len()));
            strip.clear();
            convert(now, &mut strip);
            page.write_strip(&strip)?;
            left = later;
        }
        page.finish()?;
    }
    Ok(())
}

/// Pixels of this size, mm, in a centimetre.
fn per_centimetre(size: f64) -> Rational {
    const OF: f64 = 10_000.0;
    Rational { n: (10.0 / size * OF).round() as u32, d: OF as u32 }
}
