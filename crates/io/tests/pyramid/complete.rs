//! Levels that a file lacks.
#![allow(clippy::unwrap_used)]

use crate::common::{assert_reduced, each, formula, regions, whole};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume};
use voxalign_io::image::{DataType, Region, WriteOptions, write_volume};
use voxalign_io::pyramid::{
    CompleteOptions, Completion, Missing, Pixels, PyramidOptions, PyramidSource, PyramidToWrite,
    PyramidWriter, completed, open,
};

fn oblique(dims: [usize; 3]) -> Grid {
    let matrix = Matrix3::new(0.5, 0.1, 0.0, -0.1, 0.5, 0.0, 0.0, 0.0, -2.0);
    Grid::new(dims, Affine::new(matrix, Vector3::new(3.0, -4.0, 5.0))).unwrap()
}

fn value(x: usize, y: usize, z: usize) -> u32 {
    formula(x, y, z, 0) & 255
}

/// A volume of some name in which every pixel has another value than its neighbours.
fn image(folder: &Path, name: &str, dims: [usize; 3], kind: DataType) -> PathBuf {
    let path = folder.join(name);
    let image = Volume::from_fn(oblique(dims), |x, y, z| value(x, y, z) as f32);
    let options = WriteOptions { data_type: kind, ..Default::default() };
    write_volume(&path, &image, &options).unwrap();
    path
}

fn options(most: usize, tile: [usize; 3]) -> CompleteOptions {
    CompleteOptions { most_pixels: Some(most), tile: Some(tile), ..Default::default() }
}

fn opened(path: &Path) -> Box<dyn PyramidSource> {
    open(path, &PyramidOptions::default()).unwrap()
}

/// By several processes, one after the other in each step.
fn by(path: &Path, work: &Path, options: &CompleteOptions, ranks: usize) -> Box<dyn PyramidSource> {
    let all: Vec<_> =
        (0..ranks).map(|_| Completion::new(opened(path), work, options).unwrap()).collect();
    for step in 0..all[0].steps() {
        // Any order serves.
        for rank in (0..ranks).rev() {
            assert!(all[rank].build(step, rank, ranks, &|| false).unwrap());
        }
    }
    let sources = all.into_iter().enumerate().map(|(rank, one)| one.finish(rank).unwrap());
    sources.last().unwrap()
}

/// Names and bytes of all files of a folder.
fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut next) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = next.pop() {
        if path.is_dir() {
            next.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = fs::read(&path).unwrap();
            all.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
        }
    }
    all.sort();
    all
}

/// The file as it is, and levels down to the size that are means of each other.
fn check(path: &Path, whole_source: &dyn PyramidSource, most: usize) {
    let file = opened(path);
    let (info, own) = (whole_source.info(), file.info());
    assert_eq!((&info.path, info.data_type, info.offset), (&own.path, own.data_type, own.offset));
    for (level, given) in own.levels.iter().enumerate() {
        assert_eq!(info.levels[level].grid, given.grid);
        assert_eq!(whole(whole_source, level), whole(&*file, level));
        for region in regions(given.dims()) {
            let block = whole_source.block(level, &region).unwrap();
            assert_eq!(block, file.block(level, &region).unwrap());
        }
    }
    assert_reduced(whole_source);
    assert!(info.levels.last().unwrap().grid.len() <= most);
    let before = info.levels.len().max(own.levels.len() + 1) - 2;
    assert!(info.levels.len() == own.levels.len() || info.levels[before].grid.len() > most);
    assert!(info.levels.iter().all(|level| !level.slow));
}

#[test]
fn levels_are_means_of_those_before() {
    let folder = tempfile::tempdir().unwrap();
    for (number, (dims, tile)) in [
        ([61, 47, 1], [16, 8, 1]),
        ([1, 300, 1], [16, 16, 1]),
        ([33, 1, 21], [8, 4, 8]),
        ([37, 21, 19], [8, 8, 8]),
        ([64, 32, 3], [16, 16, 2]),
    ]
    .into_iter()
    .enumerate()
    {
        for (name, kind, slow) in [
            ("a.nii", DataType::U8, false),
            ("b.nii.gz", DataType::I16, true),
            ("c.nrrd", DataType::U16, true),
        ] {
            let path = image(folder.path(), &format!("{number}{name}"), dims, kind);
            let file = opened(&path);
            let slow = slow && file.levels()[0].slow;
            let work = folder.path().join(format!("work{number}{name}"));
            let options = options(50, tile);
            let completion = Completion::new(file, &work, &options).unwrap();
            let made = completion.info().levels.len() - 1;
            assert!(made >= 2);
            assert_eq!(completion.steps(), made + usize::from(slow), "{name}");
            let found = by(&path, &work, &options, 1);
            check(&path, &*found, 50);
            // The bytes are the same whoever made them.
            let one = content(&work);
            for ranks in [2, 3] {
                let other = folder.path().join(format!("work{number}{name}{ranks}"));
                check(&path, &*by(&path, &other, &options, ranks), 50);
                assert!(content(&other) == one, "{dims:?} {name} {ranks}");
            }
        }
    }
}

#[test]
fn packed_files_are_slow_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "a.nii.gz", [40, 30, 20], DataType::U8);
    assert!(opened(&path).levels()[0].slow);
    // Small enough, and copied all the same.
    let options = options(1 << 20, [16, 16, 8]);
    let found = by(&path, folder.path(), &options, 1);
    assert_eq!((found.levels().len(), found.levels()[0].tile), (1, [16, 16, 8]));
    check(&path, &*found, 1 << 20);
    // Once it is copied the file is not read again.
    let completion = Completion::new(opened(&path), folder.path(), &options).unwrap();
    assert!(completion.folder().unwrap().join("complete.txt").is_file());
    let path = image(folder.path(), "a.nii", [40, 30, 20], DataType::U8);
    let completion = Completion::new(opened(&path), folder.path(), &options).unwrap();
    assert_eq!((completion.steps(), completion.folder()), (0, None));
    check(&path, &*completion.finish(0).unwrap(), 1 << 20);
}

#[test]
fn pyramids_that_stop_early_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let axes = Matrix3::from_diagonal(&Vector3::new(-0.001, -0.001, 0.001));
    let grid = Grid::new([201, 155, 1], Affine::new(axes, Vector3::zeros())).unwrap();
    for name in ["a.ome.zarr", "a.tif"] {
        let what = PyramidToWrite {
            tile: Some([32, 16, 1]),
            smallest: 101,
            ..PyramidToWrite::new(grid.clone(), DataType::I16)
        };
        let path = folder.path().join(name);
        let writer = PyramidWriter::create(&path, &what).unwrap();
        let all = Region::whole(grid.dims());
        let pixels = Pixels::U16(each(&all, |x, y, z| formula(x, y, z, 0) as u16));
        writer.write(&all, pixels.view()).unwrap();
        writer.finish().unwrap();
        assert_eq!(opened(&path).levels().len(), 2);
        let found = completed(opened(&path), folder.path(), &options(600, [16, 16, 1]), &|| false);
        let found = found.unwrap().unwrap();
        assert_eq!(found.levels().len(), 4);
        check(&path, &*found, 600);
    }
}

/// How often a step may be asked before it is stopped.
fn stopping(after: usize) -> impl Fn() -> bool {
    let asked = Cell::new(0);
    move || {
        asked.set(asked.get() + 1);
        asked.get() > after
    }
}

#[test]
fn what_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ranks) in [("a.nii.gz", 1), ("a.nii", 2)] {
        let path = image(folder.path(), name, [50, 41, 5], DataType::U8);
        let options = options(100, [8, 8, 4]);
        let at_once = folder.path().join(format!("once-{name}"));
        by(&path, &at_once, &options, 1);
        let expected = content(&at_once);
        let work = folder.path().join(format!("killed-{name}"));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (mut goes, mut tiles) = (0, 0);
        let found = loop {
            goes += 1;
            assert!(goes < 1000);
            // Another process, killed after some tiles; the next one begins anew.
            let completion = Completion::new(opened(&path), &work, &options).unwrap();
            let step = |step| {
                (0..ranks).all(|rank| {
                    pool.install(|| completion.build(step, rank, ranks, &stopping(3)).unwrap())
                })
            };
            let done = (0..completion.steps()).all(step);
            let now = content(&work).len();
            assert!(now >= tiles);
            tiles = now;
            if done {
                break completion.finish(0).unwrap();
            }
            // What a killed writer leaves is no tile; what nobody knows stays.
            let mut inside = content(&work).into_iter().map(|(name, _)| work.join(name));
            let chunk = inside.rfind(|p| p.file_name().unwrap() == "0");
            if let Some(chunk) = chunk {
                fs::write(chunk.with_file_name(".1.abcdef.voxalign.tmp"), b"half").unwrap();
            }
        };
        assert!(goes > 3, "{goes}");
        check(&path, &*found, 100);
        assert!(content(&work) == expected, "{name}");
    }
}

#[test]
fn other_files_and_choices_have_other_levels() {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    let small = options(100, [16, 16, 1]);
    let path = image(folder.path(), "a.nii.gz", [40, 30, 1], DataType::U8);
    let first = by(&path, &work, &small, 1);
    let kept = whole(&*first, 1);
    // Unknown things in the folder stay.
    fs::write(work.join("notes.txt"), b"mine").unwrap();
    let count = || fs::read_dir(&work).unwrap().count();
    assert_eq!(count(), 2);
    by(&path, &work, &small, 2);
    assert_eq!(count(), 2);
    // The same name with another content of the same size.
    let image = Volume::from_fn(oblique([40, 30, 1]), |x, y, z| (255 - value(x, y, z)) as f32);
    let as_bytes = WriteOptions { data_type: DataType::U8, ..Default::default() };
    write_volume(&path, &image, &as_bytes).unwrap();
    let second = by(&path, &work, &small, 1);
    assert_ne!(whole(&*second, 1), kept);
    check(&path, &*second, 100);
    assert_eq!(count(), 3);
    // Other options.
    by(&path, &work, &options(30, [16, 16, 1]), 1);
    by(&path, &work, &options(100, [16, 32, 1]), 1);
    assert_eq!(count(), 5);
    let float = folder.path().join("f.nii");
    write_volume(&float, &image, &WriteOptions::default()).unwrap();
    for window in [[0.0, 255.0], [0.0, 510.0]] {
        let read = PyramidOptions { window: Some(window), ..Default::default() };
        let source = open(&float, &read).unwrap();
        let found = completed(source, &work, &small, &|| false).unwrap().unwrap();
        assert_reduced(&*found);
    }
    assert_eq!(count(), 7);
    assert_eq!(fs::read(work.join("notes.txt")).unwrap(), b"mine");
    // The values of a header lie in another file.
    let header = folder.path().join("a.mhd");
    write_volume(&header, &image, &as_bytes).unwrap();
    let files = opened(&header).info().files.clone();
    assert_eq!(files.len(), 2);
    let before = whole(&*by(&header, &work, &small, 1), 2);
    let raw = files.iter().find(|f| **f != header).unwrap();
    let turned: Vec<u8> = fs::read(raw).unwrap().into_iter().rev().collect();
    if opened(&header).levels()[0].slow {
        return;
    }
    fs::write(raw, turned).unwrap();
    assert_ne!(whole(&*by(&header, &work, &small, 1), 2), before);
}

#[test]
fn missing_chunks_are_background_where_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let axes = Matrix3::from_diagonal(&Vector3::new(-0.001, -0.001, 0.001));
    let grid = Grid::new([70, 50, 1], Affine::new(axes, Vector3::zeros())).unwrap();
    let what =
        PyramidToWrite { tile: Some([16, 16, 1]), ..PyramidToWrite::new(grid, DataType::U8) };
    let path = folder.path().join("a.zarr");
    let writer = PyramidWriter::create(&path, &what).unwrap();
    let all = Region::whole([70, 50, 1]);
    writer.write(&all, Pixels::U8(each(&all, |x, y, z| value(x, y, z) as u8)).view()).unwrap();
    writer.finish().unwrap();
    fs::remove_file(path.join("0/1/2")).unwrap();
    let small = options(300, [16, 16, 1]);
    let work = folder.path().join("work");
    let error = completed(opened(&path), &work, &small, &|| false).unwrap_err().to_string();
    assert!(error.contains("a.zarr/0/1/2"), "{error}");
    let read = PyramidOptions { missing: Missing::Background, ..Default::default() };
    let source = open(&path, &read).unwrap();
    let found = completed(source, &work, &small, &|| false).unwrap().unwrap();
    assert_reduced(&*found);
    assert_eq!(found.levels().len(), 3);
    let hole = Region { start: [16, 8, 0], size: [8, 8, 1] };
    assert_eq!(found.block(1, &hole).unwrap(), Pixels::U8(vec![0; 64]));
    // Those of its own are never background.
    let completion = Completion::new(open(&path, &read).unwrap(), &work, &small).unwrap();
    fs::remove_file(completion.folder().unwrap().join("0/0/0")).unwrap();
    let source = completion.finish(1).unwrap();
    assert!(source.block(1, &hole).is_ok());
    assert!(source.block(1, &Region { start: [0; 3], size: [1; 3] }).is_err());
}

/// `mount -t tmpfs -o size=512k tmpfs /mnt` makes such a folder.
#[test]
#[ignore = "needs a disk of half a megabyte, VOXALIGN_SMALL_DISK"]
fn a_full_disk_is_told() {
    let small = PathBuf::from(std::env::var_os("VOXALIGN_SMALL_DISK").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "a.nii", [2000, 1500, 1], DataType::U8);
    let options = CompleteOptions { compression_level: 0, ..options(10_000, [64, 64, 1]) };
    let error = completed(opened(&path), &small, &options, &|| false).unwrap_err().to_string();
    println!("{error}");
    assert!(error.starts_with("cannot keep levels in the folder"), "{error}");
    assert!(error.contains("the disk is full") && error.contains("bytes), or name"), "{error}");
    // What is there is whole.
    let kept = content(&small);
    assert!(kept.len() > 20);
    let chunk = |name: &Path| name.file_name().unwrap().to_string_lossy().parse::<usize>().is_ok();
    assert!(kept.iter().all(|(name, bytes)| !chunk(name) || bytes.len() == 4096));
}

#[test]
fn what_is_not_done_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "a.nii", [40, 30, 1], DataType::U8);
    let new = |options: &CompleteOptions, work: &Path| {
        Completion::new(opened(&path), work, options).map_err(|e| e.to_string())
    };
    let good = options(100, [16, 16, 1]);
    let completion = new(&good, folder.path()).unwrap();
    // Two tiles for 20 x 15, one for 10 x 8.
    assert_eq!((completion.steps(), completion.bytes()), (2, 768));
    assert!(completion.build(2, 0, 1, &|| false).is_err());
    assert!(completion.build(0, 0, 1, &|| false).unwrap());
    let error = completion.finish(0).unwrap_err().to_string();
    assert!(error.contains("was not written"), "{error}");
    assert!(completed(opened(&path), folder.path(), &good, &|| true).unwrap().is_none());
    for bad in [options(0, [16, 16, 1]), options(100, [0, 16, 1]), options(100, [1 << 20; 3])] {
        assert!(new(&bad, folder.path()).unwrap_err().contains("are asked for"));
    }
    let bad = CompleteOptions { compression_level: 10, ..good.clone() };
    assert!(new(&bad, folder.path()).is_err());
    // A file has the folder's name.
    let error = new(&good, &path).unwrap_err();
    assert!(error.contains("a.nii"), "{error}");
    // An image is no place for its own levels.
    let axes = Matrix3::from_diagonal(&Vector3::new(-1.0, -1.0, 1.0));
    let grid = Grid::new([40, 30, 1], Affine::new(axes, Vector3::zeros())).unwrap();
    let zarr = folder.path().join("b.zarr");
    let writer = PyramidWriter::create(&zarr, &PyramidToWrite::new(grid, DataType::U8)).unwrap();
    writer.write(&Region::whole([40, 30, 1]), Pixels::U8(vec![7; 1200]).view()).unwrap();
    writer.finish().unwrap();
    let error = Completion::new(opened(&zarr), &zarr.join("work"), &good).unwrap_err().to_string();
    assert!(error.contains("within the image"), "{error}");
    assert!(!zarr.join("work").exists());
}
