//! Tiles of regions.

use super::super::pixel::{Pixel, Pixels, PixelsRef};
use crate::image::Region;
use voxalign_image::memory;

/// The numbers of the tiles of a region, x fastest.
pub(super) fn within(region: &Region, tile: [usize; 3]) -> Vec<[usize; 3]> {
    let of =
        |a: usize| region.start[a] / tile[a]..(region.start[a] + region.size[a]).div_ceil(tile[a]);
    let mut all = Vec::new();
    for z in of(2) {
        for y in of(1) {
            all.extend(of(0).map(|x| [x, y, z]));
        }
    }
    all
}

/// A tile that begins somewhere in a block, all channels of it; zeros beyond the block.
pub(super) fn cut(
    block: PixelsRef<'_>,
    size: [usize; 3],
    at: [usize; 3],
    tile: [usize; 3],
) -> memory::Result<Pixels> {
    Ok(match block {
        PixelsRef::U8(pixels) => Pixels::U8(cut_of(pixels, size, at, tile)?),
        PixelsRef::U16(pixels) => Pixels::U16(cut_of(pixels, size, at, tile)?),
    })
}

fn cut_of<P: Pixel>(
    block: &[P],
    size: [usize; 3],
    at: [usize; 3],
    tile: [usize; 3],
) -> memory::Result<Vec<P>> {
    let one = size[0] * size[1] * size[2];
    let channels = block.len() / one.max(1);
    let own = tile[0] * tile[1] * tile[2];
    let mut out: Vec<P> = memory::zeroed(channels * own)?;
    let inside: [usize; 3] = std::array::from_fn(|a| tile[a].min(size[a] - at[a]));
    for (from, to) in block.chunks_exact(one.max(1)).zip(out.chunks_exact_mut(own)) {
        for z in 0..inside[2] {
            for y in 0..inside[1] {
                let begin = at[0] + size[0] * (at[1] + y + size[1] * (at[2] + z));
                let end = tile[0] * (y + tile[1] * z);
                to[end..end + inside[0]].copy_from_slice(&from[begin..begin + inside[0]]);
            }
        }
    }
    Ok(out)
}

/// The bytes of pixels, in little-endian order; of signed types the highest bit turned round.
pub(super) fn bytes(pixels: PixelsRef<'_>, signed: bool) -> memory::Result<Vec<u8>> {
    match pixels {
        PixelsRef::U8(pixels) => {
            let flip = if signed { 1 << 7 } else { 0 };
            memory::collected(pixels.iter().map(|p| p ^ flip))
        }
        PixelsRef::U16(pixels) => {
            let flip = if signed { 1 << 15 } else { 0 };
            let mut out = memory::room(2 * pixels.len())?;
            out.extend(pixels.iter().flat_map(|p| (p ^ flip).to_le_bytes()));
            Ok(out)
        }
    }
}
