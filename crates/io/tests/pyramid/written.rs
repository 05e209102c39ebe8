//! Pyramids that this library writes.
#![allow(clippy::unwrap_used)]

use crate::common::{assert_reduced, each, formula};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Matrix3, Vector3};
use voxalign_io::image::{DataType, Region};
use voxalign_io::pyramid::{
    OmeVersion, Pixels, PixelsRef, PyramidFormat, PyramidOptions, PyramidToWrite, PyramidWriter,
    open,
};

fn lps(dims: [usize; 3], spacing: [f64; 3], origin: [f64; 3]) -> Grid {
    let signs = Vector3::new(-1.0, -1.0, 1.0);
    let matrix = Matrix3::from_diagonal(&Vector3::from(spacing).component_mul(&signs));
    Grid::new(dims, Affine::new(matrix, Vector3::from(origin))).unwrap()
}

/// The pixels of a region, all channels, as they are handed over.
fn pixels(kind: DataType, channels: usize, region: &Region) -> Pixels {
    let all = |c| each(region, move |x, y, z| formula(x, y, z, c));
    let values = (0..channels).flat_map(all);
    match kind {
        DataType::U8 | DataType::I8 => Pixels::U8(values.map(|v| v as u8).collect()),
        _ => Pixels::U16(values.map(|v| v as u16).collect()),
    }
}

/// Blocks of some whole tiles.
fn blocks(dims: [usize; 3], block: [usize; 3]) -> Vec<Region> {
    let mut all = Vec::new();
    for z in (0..dims[2]).step_by(block[2]) {
        for y in (0..dims[1]).step_by(block[1]) {
            for x in (0..dims[0]).step_by(block[0]) {
                let start = [x, y, z];
                let size = std::array::from_fn(|a| block[a].min(dims[a] - start[a]));
                all.push(Region { start, size });
            }
        }
    }
    all
}

fn write(path: &Path, what: &PyramidToWrite, several: usize) {
    let older = path.exists();
    let writer = PyramidWriter::create(path, what).unwrap();
    let level = &writer.levels()[0];
    let block = level.tile.map(|t| t * several);
    let mut regions = blocks(level.dims(), block);
    // Any order serves.
    regions.reverse();
    for region in &regions {
        writer.write(region, pixels(what.data_type, what.channels, region).view()).unwrap();
    }
    assert_eq!(path.exists(), older);
    writer.finish().unwrap();
    assert!(path.exists());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let mut all: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}

/// All levels of all channels are those of the formula and means of each other.
fn check(path: &Path, what: &PyramidToWrite) {
    for channel in 0..what.channels {
        let options = PyramidOptions {
            channel: (what.channels > 1).then_some(channel),
            ..Default::default()
        };
        let source = open(path, &options).unwrap();
        let info = source.info();
        assert_eq!((info.data_type, info.channels), (what.data_type, what.channels));
        let whole = Region::whole(what.grid.dims());
        let n = whole.len();
        let found = source.block(0, &whole).unwrap();
        match (pixels(what.data_type, what.channels, &whole), found) {
            (Pixels::U8(all), Pixels::U8(own)) => assert_eq!(all[channel * n..][..n], own),
            (Pixels::U16(all), Pixels::U16(own)) => assert_eq!(all[channel * n..][..n], own),
            _ => panic!("another type"),
        }
        assert!(source.levels()[0].grid.approx_eq(&what.grid, 1e-9));
        let sizes = |l: usize| source.levels()[l].dims().into_iter().max().unwrap();
        let last = source.levels().len() - 1;
        assert!(sizes(last) <= what.smallest && (last == 0 || sizes(last - 1) > what.smallest));
        assert_reduced(&*source);
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let flat = lps([141, 75, 1], [0.00025, 0.0005, 0.00025], [0.0; 3]);
    let deep = lps([37, 21, 19], [0.002, 0.002, 0.005], [1.0, -2.0, 3.5]);
    let kinds = [DataType::U8, DataType::U16, DataType::I8, DataType::I16];
    for (kind, level) in kinds.into_iter().zip([2, 0, 9, 1]) {
        for (name, grid, channels, version) in [
            ("a.tif", &flat, 1, OmeVersion::V04),
            ("a.btf", &flat, 3, OmeVersion::V04),
            ("a.ome.zarr", &flat, 1, OmeVersion::V04),
            ("b.zarr", &flat, 3, OmeVersion::V05),
            ("c.zarr", &deep, 1, OmeVersion::V05),
            ("d.zarr", &deep, 2, OmeVersion::V04),
        ] {
            let what = PyramidToWrite {
                channels,
                tile: Some(if grid.is_2d() { [32, 16, 1] } else { [16, 8, 8] }),
                compression_level: level,
                ome_version: version,
                smallest: 20,
                ..PyramidToWrite::new(grid.clone(), kind)
            };
            let path = folder.path().join(name);
            write(&path, &what, 1 + level as usize % 2);
            check(&path, &what);
        }
    }
    let format = |name: &str, options: &PyramidOptions| {
        open(folder.path().join(name), options).unwrap().info().format
    };
    let one = PyramidOptions { channel: Some(0), ..Default::default() };
    assert_eq!(format("a.tif", &Default::default()), PyramidFormat::Tiff);
    assert_eq!(format("a.btf", &one), PyramidFormat::BigTiff);
    assert_eq!(format("a.ome.zarr", &Default::default()), PyramidFormat::OmeZarr2);
    assert_eq!(format("b.zarr", &one), PyramidFormat::OmeZarr3);
    // Older ones were replaced, and nothing else is left.
    assert_eq!(
        names(folder.path()),
        ["a.btf", "a.ome.zarr", "a.tif", "b.zarr", "c.zarr", "d.zarr"]
    );
}

#[test]
fn colours_of_a_volume_become_luminance() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let what = PyramidToWrite {
        channels: 3,
        tile: Some([8, 8, 4]),
        ..PyramidToWrite::new(lps([21, 18, 11], [1.0; 3], [0.0; 3]), DataType::U16)
    };
    write(&path, &what, 1);
    let source = open(&path, &PyramidOptions::default()).unwrap();
    for region in crate::common::regions([21, 18, 11]) {
        let expected = each(&region, |x, y, z| {
            let [r, g, b] = [0, 1, 2].map(|c| formula(x, y, z, c) & 65535);
            ((77 * r + 150 * g + 29 * b + 128) >> 8) as u16
        });
        assert_eq!(source.block(0, &region).unwrap(), Pixels::U16(expected), "{region:?}");
    }
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(of) = folders.pop() {
        for entry in std::fs::read_dir(of).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                all.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn several_write_one_and_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for version in [OmeVersion::V04, OmeVersion::V05] {
        let what = PyramidToWrite {
            tile: Some([16, 16, 8]),
            ome_version: version,
            smallest: 20,
            ..PyramidToWrite::new(lps([70, 45, 20], [1.0; 3], [0.0; 3]), DataType::U16)
        };
        let alone = folder.path().join("alone.zarr");
        write(&alone, &what, 2);
        let path = folder.path().join(format!("several_{version:?}.zarr"));
        let first = PyramidWriter::create(&path, &what).unwrap();
        let place = first.place().to_owned();
        const RANKS: usize = 3;
        let barrier = std::sync::Barrier::new(RANKS);
        std::thread::scope(|scope| {
            for rank in 1..RANKS {
                let (barrier, what, place, path) = (&barrier, &what, &place, &path);
                scope.spawn(move || {
                    let writer = PyramidWriter::join(path, place, what).unwrap();
                    share(&writer, what, rank, RANKS, barrier);
                    // Whoever has joined does not finish.
                    assert!(writer.finish_reduced().is_err());
                });
            }
            share(&first, &what, 0, RANKS, &barrier);
        });
        assert!(!path.exists());
        first.finish_reduced().unwrap();
        check(&path, &what);
        let [a, b] = [&alone, &path].map(|p| contents(p));
        assert_eq!(a.len(), b.len());
        for ((name, one), (other, two)) in a.iter().zip(&b) {
            // The name of the image is in its metadata.
            let root = name.components().count() == 1;
            assert!(name == other && (one == two || root), "{}", name.display());
        }
    }
    let what = PyramidToWrite::new(lps([70, 45, 1], [1.0; 3], [0.0; 3]), DataType::U16);
    let said = PyramidWriter::join(folder.path().join("a.tif"), folder.path(), &what).unwrap_err();
    assert!(said.to_string().contains("written by one process"), "{said}");
    let gone = folder.path().join("gone");
    let said = PyramidWriter::join(folder.path().join("a.zarr"), &gone, &what).unwrap_err();
    assert!(said.to_string().contains("does not see it"), "{said}");
}

fn share(
    writer: &PyramidWriter,
    what: &PyramidToWrite,
    rank: usize,
    ranks: usize,
    barrier: &std::sync::Barrier,
) {
    let level = &writer.levels()[0];
    for region in blocks(level.dims(), level.tile).iter().skip(rank).step_by(ranks) {
        writer.write(region, pixels(what.data_type, what.channels, region).view()).unwrap();
    }
    for level in 1..writer.levels().len() {
        barrier.wait();
        writer.reduce(level, rank, ranks).unwrap();
    }
    barrier.wait();
}

#[test]
fn nothing_is_left_of_what_was_not_finished() {
    let folder = tempfile::tempdir().unwrap();
    let what = PyramidToWrite {
        tile: Some([16, 16, 1]),
        smallest: 20,
        ..PyramidToWrite::new(lps([70, 45, 1], [1.0; 3], [0.0; 3]), DataType::U8)
    };
    for name in ["a.zarr", "a.tif"] {
        let path = folder.path().join(name);
        write(&path, &what, 1);
        let before = names(folder.path());
        let first = Region { start: [0; 3], size: [16, 16, 1] };
        let tile = pixels(DataType::U8, 1, &first);
        // Dropped, and finished too early.
        let writer = PyramidWriter::create(&path, &what).unwrap();
        writer.write(&first, tile.view()).unwrap();
        let busy = PyramidWriter::create(&path, &what).unwrap_err().to_string();
        assert!(busy.contains(name), "{busy}");
        drop(writer);
        assert_eq!(names(folder.path()), before);
        let writer = PyramidWriter::create(&path, &what).unwrap();
        writer.write(&first, tile.view()).unwrap();
        let said = writer.finish().unwrap_err().to_string();
        assert!(said.contains("of level 0 was not written") && said.contains(name), "{said}");
        assert!(!said.contains(".voxalign"), "{said}");
        assert_eq!(names(folder.path()), before);
        check(&path, &what);
        // Killed: what is left is hidden, and goes with the next one.
        let writer = PyramidWriter::create(&path, &what).unwrap();
        writer.write(&first, tile.view()).unwrap();
        writer.abandon();
        assert_ne!(names(folder.path()), before);
        check(&path, &what);
        write(&path, &what, 1);
        assert_eq!(names(folder.path()), before);
    }
    let other = folder.path().join("mine.zarr");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("diary.txt"), b"x").unwrap();
    let said = PyramidWriter::create(&other, &what).unwrap_err().to_string();
    assert!(said.contains("no OME-Zarr") && other.join("diary.txt").exists(), "{said}");
    let missing = folder.path().join("none/a.zarr");
    assert!(PyramidWriter::create(missing, &what).unwrap_err().to_string().contains("a.zarr"));
}

#[test]
fn what_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let flat = lps([70, 45, 1], [1.0; 3], [0.0; 3]);
    let plain = PyramidToWrite::new(flat.clone(), DataType::U8);
    let said = |name: &str, what: &PyramidToWrite| {
        PyramidWriter::create(folder.path().join(name), what).unwrap_err().to_string()
    };
    assert!(said("a.png", &plain).contains("extension is not known"));
    let ras = Grid::axis_aligned([70, 45, 1], [1.0; 3]).unwrap();
    let other = PyramidToWrite { grid: ras, ..plain.clone() };
    assert!(said("a.zarr", &other).contains("RAS"));
    let other = PyramidToWrite { data_type: DataType::F32, ..plain.clone() };
    assert!(said("a.zarr", &other).contains("8 or 16 bits"));
    let other = PyramidToWrite { tile: Some([16, 0, 1]), ..plain.clone() };
    assert!(said("a.zarr", &other).contains("[16, 0, 1]"));
    let other = PyramidToWrite { tile: Some([24, 16, 1]), ..plain.clone() };
    assert!(said("a.tif", &other).contains("multiples of 16"));
    let other = PyramidToWrite { channels: 2, ..plain.clone() };
    assert!(said("a.tif", &other).contains("2 channels"));
    let other = PyramidToWrite { grid: lps([5, 5, 5], [1.0; 3], [0.0; 3]), ..plain.clone() };
    assert!(said("a.tif", &other).contains("5 slices"));
    let other = PyramidToWrite { grid: lps([5, 5, 1], [1.0; 3], [9.0, 0.0, 0.0]), ..plain.clone() };
    assert!(said("a.tif", &other).contains("no origin"));
    let thick = lps([70, 45, 1], [1.0, 1.0, 5.0], [0.0; 3]);
    let other = PyramidToWrite { grid: thick, ..plain.clone() };
    assert!(said("a.tif", &other).contains("no thickness of a slice, and it is 5 mm"));
    let other = PyramidToWrite { ome_version: OmeVersion::V05, ..plain.clone() };
    assert!(said("a.tif", &other).contains("a version of OME-Zarr"));
    assert!(names(folder.path()).is_empty());
    let what = PyramidToWrite { tile: Some([16, 16, 1]), smallest: 50, ..plain };
    let writer = PyramidWriter::create(folder.path().join("a.zarr"), &what).unwrap();
    for (share, count) in [(0, 0), (2, 2)] {
        let said = writer.reduce(1, share, count).unwrap_err().to_string();
        assert!(said.contains(&format!("the share {share} of {count}")), "{said}");
    }
    let wrong = |start, size: [usize; 3], n: usize| {
        let pixels = vec![0u8; n];
        let region = Region { start, size };
        writer.write(&region, PixelsRef::U8(&pixels)).unwrap_err().to_string()
    };
    assert!(wrong([1, 0, 0], [16, 16, 1], 256).contains("whole tiles"));
    assert!(wrong([0, 0, 0], [15, 16, 1], 240).contains("whole tiles"));
    assert!(wrong([64, 32, 0], [16, 13, 1], 208).contains("whole tiles"));
    assert!(wrong([0, 0, 0], [16, 16, 1], 255).contains("255 pixels"));
    let region = Region { start: [0; 3], size: [16, 16, 1] };
    assert!(writer.write(&region, PixelsRef::U16(&[0; 256])).is_err());
    assert!(writer.reduce(0, 0, 1).is_err() && writer.reduce(9, 0, 1).is_err());
}

/// Writes pyramids into the folder that a variable names, for `tools/make_pyramids.py --check`.
#[test]
#[ignore = "for other programs to read"]
fn for_other_programs() {
    let folder = PathBuf::from(std::env::var_os("VOXALIGN_PYRAMIDS").unwrap());
    let flat = lps([1041, 775, 1], [0.00025, 0.0005, 0.00025], [0.0; 3]);
    let deep = lps([137, 121, 69], [0.002, 0.002, 0.005], [1.0, -2.0, 3.5]);
    for (name, grid, kind, version, channels) in [
        ("grey8.tif", &flat, DataType::U8, OmeVersion::V04, 1),
        ("grey16.btf", &flat, DataType::U16, OmeVersion::V04, 1),
        ("colours.tif", &flat, DataType::U8, OmeVersion::V04, 3),
        ("grey16_v04.zarr", &flat, DataType::U16, OmeVersion::V04, 1),
        ("grey8_v05.zarr", &flat, DataType::U8, OmeVersion::V05, 1),
        ("grey_signed_v05.zarr", &deep, DataType::I16, OmeVersion::V05, 1),
        ("grey16_deep_v04.zarr", &deep, DataType::U16, OmeVersion::V04, 1),
        ("colours_v04.zarr", &deep, DataType::U8, OmeVersion::V04, 3),
    ] {
        let what = PyramidToWrite {
            channels,
            ome_version: version,
            smallest: 100,
            ..PyramidToWrite::new(grid.clone(), kind)
        };
        write(&folder.join(name), &what, 1);
        check(&folder.join(name), &what);
    }
}

/// An image of 65536 x 65536 pixels (or of as many as a variable says) in bounded memory.
#[test]
#[ignore = "takes minutes and a gigabyte of the disk"]
fn an_image_of_four_thousand_megapixels() {
    let side = std::env::var("VOXALIGN_PYRAMID_SIDE").map_or(65536, |s| s.parse().unwrap());
    let folder = match std::env::var_os("VOXALIGN_PYRAMIDS") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::temp_dir(),
    };
    let value = |x: usize, y: usize| ((x >> 5) ^ (y >> 4)) as u8;
    let block = 4096;
    for name in ["huge.zarr", "huge.btf"] {
        let path = folder.join(name);
        let what = PyramidToWrite {
            tile: Some([1024, 1024, 1]),
            compression_level: 1,
            ..PyramidToWrite::new(lps([side, side, 1], [0.0005; 3], [0.0; 3]), DataType::U8)
        };
        let began = std::time::Instant::now();
        let writer = PyramidWriter::create(&path, &what).unwrap();
        for region in blocks([side, side, 1], [block, block, 1]) {
            let mut pixels = Vec::with_capacity(region.len());
            for y in 0..region.size[1] {
                let y = region.start[1] + y;
                pixels.extend((0..region.size[0]).map(|x| value(region.start[0] + x, y)));
            }
            writer.write(&region, PixelsRef::U8(&pixels)).unwrap();
        }
        let written = began.elapsed();
        writer.finish().unwrap();
        let finished = began.elapsed();
        let source = open(&path, &PyramidOptions::default()).unwrap();
        let began = std::time::Instant::now();
        let mut read = 0;
        for start in [[0; 3], [side / 3, side / 2, 0], [side - 5000, side - 3000, 0]] {
            let region = Region { start, size: [3000, 3000, 1] };
            let expected = Pixels::U8(each(&region, |x, y, _| value(x, y)));
            assert!(source.block(0, &region).unwrap() == expected);
            read += region.len();
        }
        let levels = source.levels().len();
        assert!(source.levels()[levels - 1].dims()[0] <= 256);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
        println!(
            "{name}: {levels} levels, written in {written:?}, finished after {finished:?}, {read} pixels read and \
             compared in {:?}, {peak}",
            began.elapsed()
        );
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir_all(&path);
    }
}
