//! Compressed frames: run-length encoding, JPEG and JPEG 2000.

use super::header::Layout;
use super::tags::Packing;
use jpeg_decoder::{Decoder, PixelFormat};
use voxalign_image::memory::{self, OutOfMemory};

/// Why a frame is not unpacked.
#[derive(Debug)]
pub(super) enum Damage {
    Memory(OutOfMemory),
    /// What is wrong with its bytes.
    Wrong(String),
    /// What is not supported.
    Unsupported(String),
}

impl From<String> for Damage {
    fn from(problem: String) -> Self {
        Damage::Wrong(problem)
    }
}

impl From<OutOfMemory> for Damage {
    fn from(refused: OutOfMemory) -> Self {
        Damage::Memory(refused)
    }
}

/// Pixels that a frame may have, and those for each of its packed bytes: no memory is asked for by the
/// size that a header claims alone.
pub(super) const PIXELS: usize = 1 << 22;
pub(super) const PIXELS_OF_A_BYTE: usize = 1 << 8;

/// The values of a frame, little-endian, `allocated` bits each.
pub(super) fn unpack(packing: Packing, bytes: &[u8], layout: &Layout) -> Result<Vec<u8>, Damage> {
    if layout.len() > bytes.len().saturating_mul(PIXELS_OF_A_BYTE).saturating_add(PIXELS) {
        return Err(Damage::Wrong(format!(
            "the header says {} x {} pixels, which the {} bytes of a packed frame cannot hold",
            layout.columns,
            layout.rows,
            bytes.len()
        )));
    }
    match packing {
        Packing::None => Ok(memory::copied(bytes)?),
        Packing::Rle => run_lengths(bytes, layout),
        Packing::Jpeg => jpeg(bytes, layout),
        Packing::Jpeg2000 => jpeg2000(bytes, layout),
    }
}

/// Run lengths of each byte of the values, the upper one first (PS3.5, annex G).
fn run_lengths(bytes: &[u8], layout: &Layout) -> Result<Vec<u8>, Damage> {
    let size = layout.allocated / 8;
    let word = |i: usize| -> Option<usize> {
        let word = bytes.get(4 * i..4 * i + 4)?.first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*word)).ok()
    };
    let segments = word(0).ok_or_else(|| "a frame of run lengths has no header".to_string())?;
    if size == 0 || segments != size {
        return Err(
            format!("a frame of run lengths has {segments} segments instead of {size}").into()
        );
    }
    let mut out = memory::zeroed(layout.len() * size)?;
    for segment in 0..size {
        let begin = word(segment + 1).unwrap_or(0);
        let end = if segment + 1 < size { word(segment + 2).unwrap_or(0) } else { bytes.len() };
        let Some(mut packed) = bytes.get(begin.max(64)..end) else {
            return Err(
                format!("segment {segment} of a frame of run lengths is not within it").into()
            );
        };
        let mut place = size - 1 - segment;
        let mut left = layout.len();
        while left > 0 {
            let Some((&control, rest)) = packed.split_first() else {
                return Err(format!("a frame of run lengths ends {left} values early").into());
            };
            packed = rest;
            let count = match control {
                0..=127 => usize::from(control) + 1,
                128 => continue,
                _ => 257 - usize::from(control),
            };
            let (source, stride) = if control < 128 { (count, 1) } else { (1, 0) };
            let Some(values) = packed.get(..source) else {
                return Err(format!("a frame of run lengths ends {left} values early").into());
            };
            for i in 0..count.min(left) {
                out[place] = values[i * stride];
                place += size;
            }
            left -= count.min(left);
            packed = &packed[source..];
        }
    }
    Ok(out)
}

/// An error about sizes that are not those of the header.
fn other_size(width: usize, height: usize, layout: &Layout) -> Damage {
    Damage::Wrong(format!(
        "a packed frame has {width} x {height} pixels, but the header says {} x {}",
        layout.columns, layout.rows
    ))
}

/// Sequential JPEG of 8 bits, and lossless JPEG.
fn jpeg(bytes: &[u8], layout: &Layout) -> Result<Vec<u8>, Damage> {
    if let Some((_, bits)) = precision(bytes).filter(|(kind, bits)| *kind != 0xC3 && *bits > 8) {
        let what = format!("JPEG with loss and {bits} bits per value is not supported");
        return Err(Damage::Unsupported(what));
    }
    let fail = |e: jpeg_decoder::Error| match e {
        jpeg_decoder::Error::Unsupported(what) => {
            Damage::Unsupported(format!("this kind of JPEG is not supported ({what:?})"))
        }
        other => Damage::Wrong(format!("a JPEG frame is damaged ({other})")),
    };
    let mut decoder = Decoder::new(bytes);
    decoder.set_max_decoding_buffer_size(layout.len().saturating_mul(2));
    decoder.read_info().map_err(fail)?;
    let Some(info) = decoder.info() else {
        return Err("a JPEG frame has no header".to_string().into());
    };
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    if (width, height) != (layout.columns, layout.rows) {
        return Err(other_size(width, height, layout));
    }
    let from = match info.pixel_format {
        PixelFormat::L8 => 1,
        PixelFormat::L16 => 2,
        _ => return Err(Damage::Wrong("a JPEG frame has colours, but the header has none".into())),
    };
    let mut values = decoder.decode().map_err(fail)?;
    if from == 2 && cfg!(target_endian = "big") {
        values.chunks_exact_mut(2).for_each(<[u8]>::reverse);
    }
    resize(values, from, layout)
}

/// The kind and the bits per value that the frame header of a JPEG says.
fn precision(bytes: &[u8]) -> Option<(u8, u8)> {
    let mut at = 2;
    loop {
        let &[marker, kind, high, low, bits] = bytes.get(at..)?.first_chunk::<5>()?;
        if marker != 0xFF {
            return None;
        }
        match kind {
            0xFF => at += 1,
            0xC0..=0xCF if !matches!(kind, 0xC4 | 0xC8 | 0xCC) => return Some((kind, bits)),
            _ => at += 2 + usize::from(u16::from_be_bytes([high, low])),
        }
    }
}

/// The codestream of JPEG 2000 data: some programs leave it in the boxes of a JP2 file (ISO 15444-1, annex I).
fn codestream(bytes: &[u8]) -> Option<&[u8]> {
    const BEGINNING: [u8; 4] = [0xFF, 0x4F, 0xFF, 0x51];
    if bytes.starts_with(&BEGINNING) {
        return Some(bytes);
    }
    if bytes.get(4..8)? != b"jP  " {
        return None;
    }
    let mut rest = bytes;
    loop {
        let (&length, after) = rest.split_first_chunk::<4>()?;
        let (kind, after) = after.split_first_chunk::<4>()?;
        let (begin, length) = match u32::from_be_bytes(length) {
            // The last box ends with the file; a long one says its length in 64 bits.
            0 => (8, rest.len()),
            1 => (16, usize::try_from(u64::from_be_bytes(*after.first_chunk::<8>()?)).ok()?),
            n => (8, usize::try_from(n).ok()?),
        };
        let content = rest.get(begin..length.min(rest.len()))?;
        if kind == b"jp2c" {
            return content.starts_with(&BEGINNING).then_some(content);
        }
        rest = rest.get(length..)?;
    }
}

/// JPEG 2000 of one component.
fn jpeg2000(bytes: &[u8], layout: &Layout) -> Result<Vec<u8>, Damage> {
    use hayro_jpeg2000::{DecodeSettings, DecoderContext, Image};
    let wrong = |what: &str| Damage::Wrong(format!("a JPEG 2000 frame {what}"));
    let bytes = codestream(bytes).ok_or_else(|| wrong("does not begin as one"))?;
    // The sizes are looked at before anything is asked for by them (ISO 15444-1, A.5.1).
    let word = |i: usize| -> Option<usize> {
        let word = bytes.get(8 + 4 * i..)?.first_chunk::<4>()?;
        usize::try_from(u32::from_be_bytes(*word)).ok()
    };
    let sizes: Option<Vec<usize>> = (0..8).map(word).collect();
    let Some(&[x, y, x0, y0, tile_x, tile_y, _, _]) = sizes.as_deref() else {
        return Err(wrong("ends within its header"));
    };
    let (width, height) = (x.saturating_sub(x0), y.saturating_sub(y0));
    if (width, height) != (layout.columns, layout.rows) {
        return Err(other_size(width, height, layout));
    }
    let tiles = x.div_ceil(tile_x.max(1)).saturating_mul(y.div_ceil(tile_y.max(1)));
    if tile_x == 0 || tile_y == 0 || tiles > 65_535 {
        return Err(wrong(&format!("has tiles of {tile_x} x {tile_y} pixels")));
    }
    let Some(&[0, 1, kind]) = bytes.get(40..43) else {
        return Err(wrong("has several components, but the header says 1"));
    };
    let (signed, bits) = (kind & 0x80 != 0, u32::from(kind & 0x7F) + 1);
    if bits > 16 {
        return Err(Damage::Unsupported(format!(
            "JPEG 2000 with {bits} bits per value is not supported"
        )));
    }
    let damaged = |e: hayro_jpeg2000::DecodeError| wrong(&format!("is damaged ({e})"));
    let settings = DecodeSettings { strict: true, ..DecodeSettings::default() };
    let image = Image::new(bytes, &settings).map_err(damaged)?;
    let mut context = DecoderContext::default();
    let found = image.decode(&mut context).map_err(damaged)?;
    let [component] = found.components() else {
        return Err(wrong("has several components, but the header says 1"));
    };
    // Values of 8 or 16 bits, between the least and the largest that their bits can say.
    let half = 1i32 << (bits - 1);
    let (low, high) = if signed { (-half, half - 1) } else { (0, 2 * half - 1) };
    // The decoder shifts signed ones as it does unsigned ones.
    let shift = if signed { half } else { 0 };
    let whole = |v: &f32| (v.round() as i32 - shift).clamp(low, high);
    let size = if bits > 8 { 2 } else { 1 };
    let mut values = memory::room(component.samples().len().saturating_mul(size))?;
    match size {
        1 => values.extend(component.samples().iter().map(|v| whole(v) as u8)),
        _ => {
            values.extend(component.samples().iter().flat_map(|v| (whole(v) as u16).to_le_bytes()))
        }
    }
    resize(values, size, layout)
}

/// Values of `from` bytes as such of the layout's size; larger ones are not cut.
fn resize(values: Vec<u8>, from: usize, layout: &Layout) -> Result<Vec<u8>, Damage> {
    let to = layout.allocated / 8;
    if values.len() != layout.len().saturating_mul(from) || to < from {
        return Err(format!(
            "a packed frame has {} bytes of {from} per value, which are not {} values of {} bits",
            values.len(),
            layout.len(),
            layout.allocated
        )
        .into());
    }
    if to == from {
        return Ok(values);
    }
    let mut out = memory::zeroed(layout.len() * to)?;
    for (to, from) in out.chunks_exact_mut(to).zip(values.chunks_exact(from)) {
        to[..from.len()].copy_from_slice(from);
    }
    Ok(out)
}
