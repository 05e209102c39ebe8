//! Requests that are wrong, and files that are damaged.

#![allow(clippy::unwrap_used)]

use crate::common::{data, opened};
use voxalign_io::image::Region;
use voxalign_io::pyramid::{PixelsMut, PyramidOptions, PyramidSource, open_tiff_bytes};

fn said(source: &dyn PyramidSource, level: usize, region: Region, n: usize) -> String {
    let mut out = vec![0u8; n];
    source.read(level, &region, PixelsMut::U8(&mut out)).unwrap_err().to_string()
}

#[test]
fn requests_are_checked() {
    let source = opened("grey8_tiles.tif");
    let region = |start, size| Region { start, size };
    let words = said(&*source, 1, region([0; 3], [1; 3]), 1);
    assert!(words.contains("no level 1") && words.contains("grey8_tiles.tif"), "{words}");
    for (wrong, n) in [
        (region([0; 3], [0, 1, 1]), 0),
        (region([69, 0, 0], [2, 1, 1]), 2),
        (region([usize::MAX, 0, 0], [2, 1, 1]), 2),
        (region([0, 0, 1], [1, 1, 1]), 1),
    ] {
        let words = said(&*source, 0, wrong, n);
        assert!(words.contains("not within level 0"), "{words}");
        assert!(source.block(0, &wrong).is_err());
    }
    assert!(source.block(0, &region([0; 3], [usize::MAX; 3])).is_err());
    let words = said(&*source, 0, region([0; 3], [2, 2, 1]), 5);
    assert!(words.contains("4 pixels, but 5"), "{words}");
    let mut wide = [0u16; 4];
    let words = source.read(0, &region([0; 3], [2, 2, 1]), PixelsMut::U16(&mut wide)).unwrap_err();
    assert!(words.to_string().contains("the pixels are u8"), "{words}");
}

/// Reads all levels; what is said where that fails.
fn read_all(bytes: &[u8]) -> Result<(), String> {
    let options = PyramidOptions::default();
    let source = open_tiff_bytes("a.tif", bytes, &options).map_err(|e| e.to_string())?;
    for level in 0..source.levels().len() {
        let dims = source.levels()[level].dims();
        // Corners, whatever the sizes.
        for corner in [[0; 3], [dims[0] - 1, dims[1] - 1, 0]] {
            let region = Region { start: corner, size: [1; 3] };
            source.block(level, &region).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

#[test]
fn a_cut_file_names_its_tile() {
    for name in ["grey8_tiles.tif", "rgb8_jpeg.tif"] {
        let bytes = std::fs::read(data(name)).unwrap();
        let words = read_all(&bytes[..bytes.len() - 100]).unwrap_err();
        assert!(words.contains("a.tif") && words.contains("tile "), "{words}");
        assert!(words.contains("the file ends early"), "{words}");
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    let mut refused = 0;
    for name in [
        "grey8_tiles.tif",
        "grey8_packbits_strips.tif",
        "grey16_lzw_big_endian.btf",
        "grey16_subifds.btf",
        "rgb8_planes.tif",
        "rgb8_pages.tif",
        "rgb8_jpeg.tif",
        "pages.tif",
    ] {
        let bytes = std::fs::read(data(name)).unwrap();
        for length in (0..bytes.len()).step_by(97) {
            refused += usize::from(read_all(&bytes[..length]).is_err());
        }
        let mut state = 1u32;
        for _ in 0..400 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut damaged = bytes.clone();
            // Where directories are, mostly: at the begin or near the end.
            let near = (state >> 8) as usize % 600;
            let at = if state & 1 == 0 { near } else { bytes.len() - 1 - near % bytes.len() };
            damaged[at % bytes.len()] = (state >> 24) as u8;
            refused += usize::from(read_all(&damaged).is_err());
        }
    }
    assert!(refused > 500, "{refused}");
}

/// A classic file of one tile that claims sizes.
fn claiming(columns: u32, rows: u32, tile: u32, offsets: u32) -> Vec<u8> {
    let mut bytes = b"II\x2a\0\x08\0\0\0".to_vec();
    let tags: [(u16, u32, u32); 9] = [
        (256, 1, columns),
        (257, 1, rows),
        (258, 1, 8),
        (259, 1, 8),
        (262, 1, 1),
        (322, 1, tile),
        (323, 1, tile),
        (324, offsets, 8),
        (325, offsets, 8),
    ];
    bytes.extend((tags.len() as u16).to_le_bytes());
    for (tag, count, value) in tags {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(4u16.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 4]);
    bytes
}

/// A BigTIFF of 16 x 16 pixels without compression, in one tile that is said to be 2^62 wide.
fn of_a_wide_tile() -> Vec<u8> {
    let mut bytes = b"II\x2b\0\x08\0\0\0".to_vec();
    bytes.extend(16u64.to_le_bytes());
    let tags: [(u16, u64); 9] = [
        (256, 16),
        (257, 16),
        (258, 8),
        (259, 1),
        (262, 1),
        (322, 1 << 62),
        (323, 16),
        (324, 16),
        (325, 128),
    ];
    bytes.extend((tags.len() as u64).to_le_bytes());
    for (tag, value) in tags {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(16u16.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 8]);
    bytes
}

#[test]
fn claims_ask_for_no_memory() {
    // 2^40 pixels in a file of some hundred bytes: as one tile, as many, and with places beyond the file.
    for file in [
        claiming(1 << 20, 1 << 20, 1 << 20, 1),
        claiming(1 << 20, 1 << 20, 1 << 4, 1),
        claiming(1 << 20, 1 << 20, 1 << 4, u32::MAX),
        claiming(u32::MAX, u32::MAX, u32::MAX, 1),
        claiming(0, 5, 16, 1),
        claiming(5, 5, 0, 1),
        of_a_wide_tile(),
    ] {
        let words = read_all(&file).unwrap_err();
        assert!(words.contains("a.tif") && words.len() < 600, "{words}");
    }
}

#[test]
fn many_directories_share_no_list_of_tiles() {
    // 2000 directories that all claim the same list of places of 100 thousand tiles.
    let tiles = 100_000u32;
    let entries: [(u16, u32, u32); 9] = [
        (256, 1, 16 * tiles),
        (257, 1, 16),
        (258, 1, 8),
        (259, 1, 1),
        (262, 1, 1),
        (322, 1, 16),
        (323, 1, 16),
        (324, tiles, 8),
        (325, tiles, 8),
    ];
    let length = 2 + 12 * entries.len() as u32 + 4;
    let mut at = 8 + 4 * tiles;
    let mut bytes = b"II\x2a\0".to_vec();
    bytes.extend(at.to_le_bytes());
    bytes.extend(vec![0; 4 * tiles as usize]);
    for _ in 0..2000 {
        bytes.extend((entries.len() as u16).to_le_bytes());
        for (tag, count, value) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(4u16.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        at += length;
        bytes.extend(at.to_le_bytes());
    }
    let words = read_all(&bytes).unwrap_err();
    assert!(words.contains("the directories claim"), "{words}");
}
