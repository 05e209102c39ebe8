//! Damaged files: an error or values, and never a panic.

use crate::dicom::angiogram;
use crate::pictures::{plain, png, tiff};
use crate::writer::{Form, file};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tiff::encoder::colortype::{Gray8, Gray16, Gray32Float, RGB8};
use tiff::encoder::{Compression, DeflateLevel};
use tiff::tags::{Predictor, Tag};
use voxalign_io::xray::{XrayToWrite, geometry, read_from_bytes, write};

fn written(name: &str, window: Option<[f64; 2]>, values: &[f32]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let image =
        XrayToWrite { window, pixel_size: Some([0.5; 2]), ..XrayToWrite::new(values, [3, 2]) };
    write(&path, &image).unwrap();
    std::fs::read(path).unwrap()
}

/// Files of all kinds, and how many bytes of their end may be missing.
pub(crate) fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let (deflate, none) = (Compression::Deflate(DeflateLevel::Fast), Predictor::None);
    let mut files: Vec<(&str, Vec<u8>)> = vec![
        ("a.png", png(png::ColorType::Grayscale, png::BitDepth::Eight, &[0, 1, 2, 3, 4, 5])),
        ("a.png", png(png::ColorType::Rgba, png::BitDepth::Sixteen, &[7; 48])),
        ("a.png", png(png::ColorType::Indexed, png::BitDepth::Two, &[0b0001_1000, 0])),
        ("a.png", written("a.png", None, &values[..6])),
        ("a.tif", tiff::<Gray8>(&[1; 6], Compression::Lzw, Predictor::Horizontal)),
        ("a.tif", tiff::<Gray16>(&[1; 6], Compression::Packbits, none)),
        ("a.tif", tiff::<Gray32Float>(&[1.5; 6], deflate, none)),
        ("a.tif", tiff::<RGB8>(&[9; 18], Compression::Uncompressed, none)),
        ("a.tif", plain::<Gray8>(&[1; 6], |page| page.rows_per_strip(1).unwrap())),
        ("a.tif", written("a.tif", None, &values)),
        ("a.tif", written("a.tif", Some([0.0, 9.0]), &values)),
        ("a.dcm", written("a.dcm", None, &values)),
        ("a.nii", written("a.nii", None, &values[..6])),
    ];
    for form in [Form::Explicit, Form::Implicit, Form::Deflated] {
        files.push(("a.dcm", file(&angiogram(2), form)));
    }
    files
}

/// Reads; errors have to name the file.
fn read(name: &str, bytes: &[u8]) -> bool {
    match read_from_bytes(name, bytes) {
        Ok(image) => {
            assert!(image.frames > 0);
            assert_eq!(image.values.len(), image.frames * image.dims[0] * image.dims[1]);
            assert!(image.geometry.is_none_or(|view| view.dims() == image.dims));
            assert!(image.times.is_none_or(|times| times.len() == image.frames));
            true
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(name) && message.len() < 1000, "{message}");
            false
        }
    }
}

#[test]
fn every_cut_is_read_or_refused() {
    for (name, bytes) in samples() {
        assert!(read(name, &bytes), "{:?}", read_from_bytes(name, &bytes));
        for n in 0..bytes.len() {
            let cut = read(name, &bytes[..n]);
            // The headers of TIFF files come after the values, in which what is left out may be the last page's
            // note; other files end with what is needed.
            assert!(
                !cut || name == "a.tif" || n + 1 == bytes.len(),
                "{name} {n} of {}",
                bytes.len()
            );
        }
    }
}

#[test]
fn flipped_bits_are_read_or_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rounds = std::env::var("VOXALIGN_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    for (name, bytes) in samples() {
        let flips = prop::collection::vec((0..bytes.len(), any::<u8>()), 1..4);
        for _ in 0..rounds {
            let mut damaged = bytes.clone();
            for (at, value) in flips.new_tree(&mut runner).unwrap().current() {
                damaged[at] ^= value;
            }
            read(name, &damaged);
        }
    }
}

#[test]
fn every_byte_may_be_any_extreme() {
    for (name, bytes) in samples() {
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                read(name, &damaged);
                // Numbers of two and of four bytes.
                for width in [2, 4] {
                    let mut damaged = bytes.clone();
                    damaged[at..].iter_mut().take(width).for_each(|b| *b = value);
                    read(name, &damaged);
                }
            }
        }
    }
}

/// A small TIFF of entries as they are given: tag, kind, count, value.
fn entries(list: &[(Tag, u16, u32, u32)]) -> Vec<u8> {
    let mut bytes = b"II*\0\x08\0\0\0".to_vec();
    bytes.extend((list.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in list {
        bytes.extend(tag.to_u16().to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 12]);
    bytes
}

#[test]
fn claims_of_a_header_are_held_against_the_file() {
    let page = |width, height, bits, size, compression| {
        entries(&[
            (Tag::ImageWidth, 4, 1, width),
            (Tag::ImageLength, 4, 1, height),
            (Tag::BitsPerSample, 3, 1, bits),
            (Tag::Compression, 3, 1, compression),
            (Tag::PhotometricInterpretation, 3, 1, 1),
            (Tag::StripOffsets, 4, 1, 8),
            (Tag::RowsPerStrip, 4, 1, height),
            (Tag::StripByteCounts, 4, 1, size),
        ])
    };
    for (bytes, said) in [
        (page(1 << 20, 1 << 20, 16, 20, 5), "which 118 bytes cannot hold"),
        (page(u32::MAX, u32::MAX, 16, 20, 5), "a.tif"),
        (page(10, 10, 8, 1 << 30, 1), "ends early: 1073741832 bytes are expected"),
        (page(10, 10, 8, 20, 1), "20 bytes of values instead of 100"),
        (page(0, 10, 8, 20, 1), "invalid dimensions"),
    ] {
        let error = read_from_bytes("a.tif", &bytes).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic in 0..6usize) {
        let heads: [&[u8]; 6] =
            [b"", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b"II+\0\x08\0\0\0", b"\x08\0\x05\0CS"];
        bytes.splice(..0, heads[magic].iter().copied());
        for name in ["a.png", "a.tif", "a.dcm", "a.nii", "a"] {
            read(name, &bytes);
        }
    }

    #[test]
    fn any_text_is_views_or_refused(text in "(\\[\\[view\\]\\]|K|R|t|source|size|image|projection|gantry|=|\\[|\\]|,|[0-9.e\"-]|\n| )*") {
        if let Err(error) = geometry::read_from_bytes("a.toml", text.as_bytes()) {
            let message = error.to_string();
            prop_assert!(message.contains("a.toml") && message.len() < 1000, "{}", message);
        }
    }
}
