//! OME-Zarr as zarr-python and ome-zarr write it, and damaged.
#![allow(clippy::unwrap_used)]

use crate::common::{assert_grey16, assert_reduced, data, each, formula, grey16, opened, regions};
use std::fs;
use std::path::{Path, PathBuf};
use voxalign_image::Vector3;
use voxalign_io::image::Region;
use voxalign_io::pyramid::{Missing, Pixels, PyramidFormat, PyramidOptions, open};

#[test]
fn every_codec_gives_the_values() {
    for name in [
        "v2_blosc_lz4",
        "v2_blosc_zstd_bits",
        "v2_blosc_blosclz",
        "v2_blosc_zlib",
        "v2_zlib",
        "v2_gzip",
        "v2_zstd",
        "v2_lz4",
        "v3_zstd",
        "v3_gzip",
        "v3_blosc",
        "v3_sharded",
        "v3_transposed",
    ] {
        let source = opened(&format!("{name}.zarr"));
        let format =
            if name.starts_with("v2") { PyramidFormat::OmeZarr2 } else { PyramidFormat::OmeZarr3 };
        assert_eq!(source.info().format, format);
        assert_grey16(&*source);
        assert_reduced(&*source);
        let grid = &source.levels()[0].grid;
        // Micrometres, x last.
        let spacing = grid.spacing().map(|s| s * 1e6).map(f64::round);
        assert_eq!(spacing, [250.0, 500.0, 2000.0], "{name}");
        assert_eq!(grid.orientation(), "LPS");
        let origin = Vector3::new(-0.003, -0.002, 0.001);
        assert!((grid.origin() - origin).norm() < 1e-12, "{name}: {}", grid.origin());
        assert!(source.info().pixel_size_known && source.info().oddities.is_empty());
    }
    assert_eq!(opened("v3_sharded.zarr").levels()[0].tile, [16, 16, 4]);
    assert_eq!(opened("v2_blosc_lz4.zarr").levels().len(), 2);
}

#[test]
fn byte_order_and_order_of_axes() {
    let source = opened("v2_big_endian_fortran.zarr");
    assert_grey16(&*source);
    let grid = &source.levels()[0].grid;
    assert_eq!((grid.dims(), grid.spacing()), ([40, 30, 1], [0.25, 0.5, 0.25]));
}

#[test]
fn channels_and_times_are_chosen() {
    let path = data("v2_tczyx.zarr");
    let said = open(&path, &PyramidOptions::default()).unwrap_err().to_string();
    assert!(said.contains("2 time points") && said.contains("`volume`"), "{said}");
    let value = |x, y, t, c| formula(x, y, 0, c + 3 * t) & 255;
    for time in 0..2 {
        let options = PyramidOptions { volume: Some(time), ..Default::default() };
        let source = open(&path, &options).unwrap();
        for region in regions([20, 17, 1]) {
            let expected = each(&region, |x, y, _| {
                let [r, g, b] = [0, 1, 2].map(|c| value(x, y, time, c));
                ((77 * r + 150 * g + 29 * b + 128) >> 8) as u8
            });
            assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(expected));
        }
        for channel in 0..3 {
            let options = PyramidOptions { channel: Some(channel), ..options.clone() };
            let source = open(&path, &options).unwrap();
            for region in regions([20, 17, 1]) {
                let expected = each(&region, |x, y, _| value(x, y, time, channel) as u8);
                assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(expected));
            }
        }
    }
    let options = PyramidOptions { volume: Some(2), ..Default::default() };
    assert!(open(&path, &options).is_err());
}

#[test]
fn missing_chunks_are_errors_or_background() {
    let path = data("v2_sparse.zarr");
    let region = Region { start: [0; 3], size: [16, 16, 1] };
    let source = open(&path, &PyramidOptions::default()).unwrap();
    let said = source.block(0, &region).unwrap_err().to_string();
    assert!(said.contains("v2_sparse.zarr/0/0/0") && said.contains("`missing`"), "{said}");
    // What is there is read all the same.
    let there = Region { start: [16, 0, 0], size: [24, 30, 1] };
    assert_eq!(source.block(0, &there).unwrap(), Pixels::U16(grey16(&there)));
    let options = PyramidOptions { missing: Missing::Background, ..Default::default() };
    let source = open(&path, &options).unwrap();
    for region in regions([40, 30, 1]) {
        let expected =
            each(&region, |x, y, _| if x < 16 && y < 16 { 9 } else { formula(x, y, 0, 0) as u16 });
        assert_eq!(source.block(0, &region).unwrap(), Pixels::U16(expected));
    }
}

#[test]
fn levels_of_ome_zarr() {
    let source = opened("by_ome_zarr.zarr");
    assert_grey16(&*source);
    assert_eq!(source.levels()[1].dims(), [20, 15, 1]);
    assert!(!source.info().pixel_size_known);
}

#[test]
fn floats_need_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    fs::create_dir_all(path.join("0")).unwrap();
    let said = r#"{"multiscales": [{"version": "0.4", "axes": [{"name": "y", "type": "space"},
        {"name": "x", "type": "space"}], "datasets": [{"path": "0", "coordinateTransformations":
        [{"type": "scale", "scale": [1, 1]}]}]}]}"#;
    fs::write(path.join(".zattrs"), said).unwrap();
    let array = r#"{"zarr_format": 2, "shape": [5, 7], "chunks": [5, 4], "dtype": "<f4", "fill_value": "NaN",
        "order": "C", "filters": null, "compressor": null}"#;
    fs::write(path.join("0/.zarray"), array).unwrap();
    let values = (0..20u16).flat_map(|v| (f32::from(v) / 4.0).to_le_bytes());
    fs::write(path.join("0/0.0"), values.collect::<Vec<u8>>()).unwrap();
    let said = open(&path, &PyramidOptions::default()).unwrap_err().to_string();
    assert!(said.contains("f32") && said.contains("`window`"), "{said}");
    let options = PyramidOptions {
        window: Some([0.0, 65535.0 / 4.0]),
        missing: Missing::Background,
        ..Default::default()
    };
    let source = open(&path, &options).unwrap();
    // What was not written is no number, which becomes 0.
    let expected =
        each(&Region::whole([7, 5, 1]), |x, y, _| if x < 4 { (4 * y + x) as u16 } else { 0 });
    assert_eq!(crate::common::whole(&*source, 0), Pixels::U16(expected));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A copy that can be damaged.
fn copied(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    copy(&data(name), &path);
    (folder, path)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            all.push(entry.path());
        }
    }
    all.sort();
    all
}

fn read_all(path: &Path) -> Result<(), String> {
    let source = open(path, &PyramidOptions::default()).map_err(|e| e.to_string())?;
    for level in 0..source.levels().len() {
        let dims = source.levels()[level].dims();
        let region = Region { start: [0; 3], size: dims.map(|n| n.min(64)) };
        source.block(level, &region).map_err(|e| e.to_string())?;
    }
    Ok(())
}

#[test]
fn a_cut_chunk_is_named() {
    for name in [
        "v2_blosc_lz4",
        "v2_zlib",
        "v2_gzip",
        "v2_zstd",
        "v2_lz4",
        "v3_zstd",
        "v3_sharded",
        "v3_transposed",
    ] {
        let (_folder, path) = copied(&format!("{name}.zarr"));
        let all = files(&path);
        let chunk = all
            .iter()
            .rfind(|f| !f.ends_with("zarr.json") && !f.to_string_lossy().contains("/.z"))
            .unwrap();
        let bytes = fs::read(chunk).unwrap();
        for keep in [0, 3, bytes.len() / 2, bytes.len() - 1] {
            fs::write(chunk, &bytes[..keep]).unwrap();
            let said = read_all(&path).unwrap_err();
            assert!(said.contains(&*chunk.to_string_lossy()), "{name}, {keep}: {said}");
        }
    }
}

#[test]
fn damaged_files_are_read_or_refused() {
    let mut refused = 0;
    for name in
        ["v2_blosc_zstd_bits", "v2_blosc_blosclz", "v2_lz4", "v2_zstd", "v3_sharded", "v3_blosc"]
    {
        let (_folder, path) = copied(&format!("{name}.zarr"));
        let mut state = 7u32;
        for file in files(&path) {
            let bytes = fs::read(&file).unwrap();
            for _ in 0..25 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let mut damaged = bytes.clone();
                let at = (state >> 8) as usize
                    % if state & 1 == 0 { bytes.len() } else { bytes.len().min(64) };
                damaged[at] = (state >> 24) as u8;
                fs::write(&file, &damaged).unwrap();
                if let Err(said) = read_all(&path) {
                    refused += 1;
                    assert!(said.contains(&*path.to_string_lossy()) && said.len() < 1500, "{said}");
                }
            }
            fs::write(&file, &bytes).unwrap();
        }
    }
    assert!(refused > 300, "{refused}");
}

/// What is said where a text of the metadata is another one.
fn with(name: &str, file: &str, from: &str, to: &str) -> String {
    let (_folder, path) = copied(name);
    let file = path.join(file);
    let text = fs::read_to_string(&file).unwrap();
    let compact: String = text.split_whitespace().collect();
    assert!(compact.contains(from), "{compact}");
    fs::write(&file, compact.replacen(from, to, 1)).unwrap();
    let said = read_all(&path).unwrap_err();
    assert!(said.contains(name) && said.len() < 1000, "{said}");
    said
}

#[test]
fn wrong_metadata_is_refused_in_words() {
    let v2 = "v2_blosc_lz4.zarr";
    let says = |said: String, words: &str| assert!(said.contains(words), "{said}");
    says(with(v2, "0/.zarray", "\"shape\":[7,30,40]", "\"shape\":[0,30,40]"), "[0, 30, 40]");
    says(with(v2, "0/.zarray", "\"shape\":[7,30,40]", "\"shape\":[7,30]"), "chunks have the sizes");
    says(with(v2, "0/.zarray", "\"chunks\":[4,16,32]", "\"chunks\":[4,0,32]"), "[4, 0, 32]");
    says(with(v2, "0/.zarray", "\"chunks\":[4,16,32]", "\"chunks\":[4,16,33]"), "bytes of values");
    says(with(v2, "0/.zarray", "<u2", "<c8"), "values of the type");
    says(with(v2, "0/.zarray", "\"blosc\"", "\"zfpy\""), "the compressor");
    says(with(v2, "0/.zarray", "\"fill_value\":0", "\"fill_value\":-1"), "the fill value -1");
    says(with(v2, "1/.zarray", "<u2", "<i2"), "all levels are of one type");
    says(
        with(v2, ".zattrs", "\"scale\":[2.0,0.5,0.25]", "\"scale\":[2.0,0.0,0.25]"),
        "the scale 0 ",
    );
    says(
        with(v2, ".zattrs", "\"scale\":[4.0,1.0,0.5]", "\"scale\":[4.0,1.0,0.25]"),
        "correct its `scale`",
    );
    says(with(v2, ".zattrs", "\"path\":\"0\"", "\"path\":\"../0\""), "'../0'");
    says(with(v2, ".zattrs", "\"path\":\"0\"", "\"path\":\"1\""), "level 1 has the sizes");
    says(with(v2, ".zattrs", "micrometer", "parsec"), "'parsec'");
    says(with(v2, ".zattrs", "\"name\":\"y\"", "\"name\":\"x\""), "twice");
    says(with(v2, ".zattrs", "multiscales", "labels"), "no 'multiscales'");
    let v3 = "v3_sharded.zarr";
    says(
        with(v3, "0/zarr.json", "\"chunk_shape\":[4,16,16]", "\"chunk_shape\":[4,16,15]"),
        "parts of",
    );
    says(with(v3, "0/zarr.json", "\"crc32c\"", "\"gzip\""), "the shards");
    says(with(v3, "0/zarr.json", "\"regular\"", "\"rectilinear\""), "the grid of chunks");
}

#[test]
fn claims_ask_for_no_memory() {
    let v2 = "v2_blosc_lz4.zarr";
    // Sizes of which no memory could hold the whole; what is asked for is a corner.
    let huge = "\"shape\":[16,1048576,1048576]";
    let said = with("v2_zlib.zarr", "0/.zarray", "\"shape\":[5,17,33]", huge);
    assert!(said.contains("the file of this chunk is missing"), "{said}");
    let huge = "\"shape\":[1048576,1048576,1048576]";
    let said = with(v2, "0/.zarray", "\"shape\":[7,30,40]", huge);
    assert!(said.contains("the array has the sizes"), "{said}");
    let said = with(v2, "0/.zarray", "\"chunks\":[4,16,32]", "\"chunks\":[1048576,1048576,32]");
    assert!(said.contains("chunks of some megabytes"), "{said}");
    let said = with(v2, "0/.zarray", "\"chunks\":[4,16,32]", "\"chunks\":[1024,1024,1024]");
    assert!(said.contains("cannot hold"), "{said}");
    let huge = "\"chunk_shape\":[1099511627776,32,32]";
    let said = with("v3_sharded.zarr", "0/zarr.json", "\"chunk_shape\":[8,32,32]", huge);
    assert!(said.contains("have parts of"), "{said}");
}
