//! Boxes of voxels, as [`ImageSource`](voxalign_io::image::ImageSource) reads them, are the same as crops
//! of the whole image.

use crate::common;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, Volume};
use voxalign_io::gzip::GzipWriter;
use voxalign_io::image::{
    DataType, ReadOptions, Region, WriteOptions, open, read_info, read_labels_of, read_volume,
    read_volume_into_hashing_of, read_volume_of, write_volume,
};

const DIMS: [usize; 3] = [7, 5, 4];
/// Formats by their names, and whether they are compressed.
const NAMES: [(&str, u32); 12] = [
    ("a.nii", 0),
    ("a.nii.gz", 1),
    ("a.hdr", 0),
    ("b.hdr.gz", 1),
    ("a.nrrd", 0),
    ("b.nrrd", 3),
    ("a.nhdr", 0),
    ("b.nhdr", 3),
    ("a.mha", 0),
    ("b.mha", 3),
    ("a.mhd", 0),
    ("b.mhd", 3),
];

fn region(dims: [usize; 3]) -> impl Strategy<Value = Region> {
    let axis = |n: usize| (0..n).prop_flat_map(move |start| (Just(start), 0..=n - start));
    (axis(dims[0]), axis(dims[1]), axis(dims[2]))
        .prop_map(|(x, y, z)| Region { start: [x.0, y.0, z.0], size: [x.1, y.1, z.1] })
}

/// The voxels of a region among those of a volume.
fn crop(all: &[f32], dims: [usize; 3], region: &Region) -> Vec<f32> {
    let [sx, sy, sz] = region.start;
    let [nx, ny, nz] = region.size;
    let mut out = Vec::new();
    for z in sz..sz + nz {
        for y in sy..sy + ny {
            let row = dims[0] * (y + dims[1] * z);
            out.extend(&all[row + sx..row + sx + nx]);
        }
    }
    out
}

fn written(folder: &Path, dims: [usize; 3], kind: DataType) -> Vec<(PathBuf, Volume<f32>)> {
    let grid = Grid::axis_aligned(dims, [1.0, 2.0, 3.0]).unwrap();
    let volume = Volume::from_fn(grid, |x, y, z| (x + 10 * y) as f32 + 50.0 * z as f32);
    NAMES
        .iter()
        .map(|(name, level)| {
            let path = folder.join(format!("{}_{kind}_{name}", dims[2]));
            let options = WriteOptions {
                data_type: kind,
                compression_level: *level,
                dimensions: if dims[2] == 1 { 2 } else { 3 },
                ..WriteOptions::default()
            };
            write_volume(&path, &volume, &options).unwrap();
            (path, volume.clone())
        })
        .collect()
}

#[test]
fn regions_are_crops_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for kind in [DataType::U8, DataType::I16, DataType::F32, DataType::F64] {
        for dims in [DIMS, [7, 5, 1]] {
            files.extend(written(folder.path(), dims, kind));
        }
    }
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for (path, volume) in &files {
        let image = open(path, &ReadOptions::default()).unwrap();
        assert_eq!(image.info().volumes(), 1);
        let dims = volume.grid().dims();
        assert_eq!(read_volume(path).unwrap().data(), volume.data());
        // One source for all of them, forwards and backwards.
        for _ in 0..24 {
            let region = region(dims).new_tree(&mut runner).unwrap().current();
            let mut out = vec![-1.0; region.len()];
            image.read(&region, 0, &mut out).unwrap();
            assert_eq!(out, crop(volume.data(), dims, &region), "{} {region:?}", path.display());
            let mut labels = vec![-1; region.len()];
            image.read_labels(&region, 0, &mut labels).unwrap();
            assert!(labels.iter().zip(&out).all(|(&l, &v)| l as f32 == v), "{}", path.display());
        }
    }
}

/// A NIfTI file of `volumes` volumes, and one of NRRD with as many components.
fn several(folder: &Path, volumes: usize) -> Vec<PathBuf> {
    let n = DIMS.iter().product::<usize>();
    let grid = Grid::axis_aligned(DIMS, [1.0, 2.0, 3.0]).unwrap();
    let one = Volume::from_fn(grid, |_, _, _| 0.0);
    let plain = folder.join("one.nii");
    write_volume(
        &plain,
        &one,
        &WriteOptions { data_type: DataType::I16, ..WriteOptions::default() },
    )
    .unwrap();
    let mut bytes = std::fs::read(&plain).unwrap();
    bytes.truncate(352);
    bytes[40..42].copy_from_slice(&4i16.to_le_bytes());
    bytes[48..50].copy_from_slice(&(volumes as i16).to_le_bytes());
    // A slope and an intercept, to be applied to every volume.
    bytes[112..116].copy_from_slice(&0.5f32.to_le_bytes());
    bytes[116..120].copy_from_slice(&3.0f32.to_le_bytes());
    bytes.extend((0..n * volumes).flat_map(|v| (v as i16).to_le_bytes()));
    let paths = [folder.join("four.nii"), folder.join("four.nii.gz")];
    std::fs::write(&paths[0], &bytes).unwrap();
    let mut packed = GzipWriter::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut packed, &bytes).unwrap();
    std::fs::write(&paths[1], packed.finish().unwrap()).unwrap();
    paths.to_vec()
}

#[test]
fn one_of_several_volumes_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let n = DIMS.iter().product::<usize>();
    for path in several(folder.path(), 3) {
        assert_eq!(read_info(&path).unwrap().volumes(), 3);
        let refused = read_volume(&path).unwrap_err().to_string();
        assert!(refused.contains("(3 volumes)"), "{refused}");
        for v in 0..3 {
            let options = ReadOptions { volume: Some(v), ..ReadOptions::default() };
            let (read, info) = read_volume_of(&path, &options).unwrap();
            let expected: Vec<f32> = (0..n).map(|i| (v * n + i) as f32 * 0.5 + 3.0).collect();
            assert_eq!(read.data(), expected, "{}", path.display());
            assert_eq!(info.volumes(), 3);
            let mut into = vec![0.0; n];
            let (_, sums) = read_volume_into_hashing_of(&path, &options, &mut into).unwrap();
            assert_eq!((into, sums.len()), (expected.clone(), 1));
            let image = open(&path, &options).unwrap();
            let region = Region { start: [1, 2, 1], size: [3, 2, 2] };
            let mut out = vec![0.0; region.len()];
            image.read(&region, v, &mut out).unwrap();
            assert_eq!(out, crop(&expected, DIMS, &region));
        }
        let options = ReadOptions { volume: Some(3), ..ReadOptions::default() };
        let said = read_labels_of(&path, &options).unwrap_err().to_string();
        assert!(said.contains("no volume 3") && said.contains("0 to 2"), "{said}");
        let options = ReadOptions { series: Some("1".into()), ..ReadOptions::default() };
        let said = read_volume_of(&path, &options).unwrap_err().to_string();
        assert!(said.contains("this is a NIfTI image"), "{said}");
    }
}

#[test]
fn components_and_text_are_read_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let head = |encoding: &str| {
        format!(
            "NRRD0004\ntype: short\ndimension: 4\nsizes: 3 4 2 2\nendian: little\nencoding: {encoding}\n\
             space directions: none (1,0,0) (0,1,0) (0,0,1)\nspace: right-anterior-superior\n\n"
        )
    };
    let raw: Vec<u8> = (0..48i16).flat_map(i16::to_le_bytes).collect();
    let text = (0..48).map(|v| v.to_string()).collect::<Vec<_>>().join(" ");
    let region = Region { start: [1, 0, 1], size: [2, 2, 1] };
    for (name, bytes) in [
        ("raw.nrrd", [head("raw").into_bytes(), raw].concat()),
        ("text.nrrd", [head("ascii"), text].concat().into_bytes()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let image = open(&path, &ReadOptions::default()).unwrap();
        for component in 0..3 {
            let mut out = vec![0.0; 4];
            image.read(&region, component, &mut out).unwrap();
            let expected: Vec<f32> =
                [9, 10, 13, 14].iter().map(|voxel| (3 * voxel + component) as f32).collect();
            assert_eq!(out, expected, "{name}");
            let options = ReadOptions { volume: Some(component), ..ReadOptions::default() };
            assert_eq!(
                read_volume_of(&path, &options).unwrap().0.data()[15],
                (45 + component) as f32
            );
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for (path, _) in written(folder.path(), DIMS, DataType::I16) {
        let image = open(&path, &ReadOptions::default()).unwrap();
        let say = |start, size, volume, room| {
            let mut out = vec![0.0; room];
            image.read(&Region { start, size }, volume, &mut out).unwrap_err().to_string()
        };
        assert!(say([0, 0, 3], [1, 1, 2], 0, 2).contains("is not within"));
        assert!(say([usize::MAX, 0, 0], [2, 1, 1], 0, 2).contains("is not within"));
        assert!(say([0; 3], [1; 3], 1, 1).contains("no volume 1"));
        assert!(say([0; 3], [2, 1, 1], 0, 1).contains("has 2 voxels"));
        // A file that becomes shorter after it was opened.
        let info = image.info().clone();
        let bytes = std::fs::read(&info.data_path).unwrap();
        std::fs::write(&info.data_path, &bytes[..bytes.len() - 40]).unwrap();
        let said = say([0; 3], DIMS, 0, 140);
        assert!(
            said.contains("ends early") || said.contains("cut short") || said.contains("damaged"),
            "{said}"
        );
    }
}

#[test]
fn regions_of_real_files_are_crops() {
    let Some(folder) = common::real_files("io_robustness") else { return };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for name in [
        "itk/HeadMRVolumeCompressed.mha",
        "itk/HeadMRVolume.mhd",
        "itk/HeadMRVolumeWithDirection.nhdr",
        "itk/BigEndian.hdr",
        "oro_nifti/avg152T1.hdr.gz",
        "nifti_reader_js/big.nii.gz",
    ] {
        let path = folder.join(name);
        let whole = read_volume(&path).unwrap();
        let image = open(&path, &ReadOptions::default()).unwrap();
        let dims = whole.grid().dims();
        for _ in 0..6 {
            let region = region(dims).new_tree(&mut runner).unwrap().current();
            let mut out = vec![0.0; region.len()];
            image.read(&region, 0, &mut out).unwrap();
            assert_eq!(out, crop(whole.data(), dims, &region), "{name} {region:?}");
        }
    }
}
