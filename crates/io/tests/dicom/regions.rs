//! Boxes of voxels are the same as crops of the whole.

use crate::frames::enhanced;
use crate::packed::{LOSSLESS, UNSIGNED_12, hex, packed};
use crate::writer::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::path::{Path, PathBuf};
use voxalign_io::image::{ReadOptions, Region, open, read_volume_of};

/// A series in every form, an image of three times, and packed frames.
fn images(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for form in [Form::Explicit, Form::Implicit, Form::Big, Form::Deflated] {
        let own = folder.join(format!("{form:?}"));
        std::fs::create_dir(&own).unwrap();
        write(&own, "a", &stack("1.2.3", 4), form);
        found.push(own);
    }
    let mut put = |name: &str, bytes: Vec<u8>| {
        let own = folder.join(name);
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("a.dcm"), bytes).unwrap();
        found.push(own.join("a.dcm"));
    };
    put("times", file(&enhanced(&[1, 0, 2], 3, false), Form::Explicit));
    put("deflated_times", file(&enhanced(&[1, 0, 2], 3, true), Form::Deflated));
    put("flat", file(&slice("1.2.3", 0, [0.0; 3]), Form::Implicit));
    for (syntax, frame) in [("70", LOSSLESS), ("90", UNSIGNED_12)] {
        let frame = hex(frame);
        let mut set = packed([16, 12, 11], false, &[&frame, &frame, &frame]);
        set.insert(0x0028_0008, is(3));
        set.insert(0x3004_000C, ds(&[0.0, 2.0, 4.0]));
        put(syntax, packed_file(&set, &format!("1.2.840.10008.1.2.4.{syntax}")));
    }
    let mut bits = slice("1.2.3", 0, [0.0; 3]);
    for (tag, value) in [(0x0028_0100, 1), (0x0028_0101, 1), (0x0028_0102, 0), (0x0028_0103, 0)] {
        bits.insert(tag, V::U16(vec![value]));
    }
    bits.insert(0x0028_0008, is(3));
    bits.insert(0x3004_000C, ds(&[0.0, 2.0, 4.0]));
    bits.insert(0x7FE0_0010, V::Bytes(b"OB", vec![0x5A, 0xC3, 0x99, 0x0F, 0x36]));
    put("bits", file(&bits, Form::Explicit));
    found
}

#[test]
fn regions_are_crops_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for path in images(folder.path()) {
        let image = open(&path, &ReadOptions::default()).unwrap();
        let volumes = image.info().volumes();
        for v in 0..volumes {
            let options = ReadOptions { volume: Some(v), ..ReadOptions::default() };
            let (whole, info) = read_volume_of(&path, &options).unwrap();
            assert_eq!(info.volumes(), volumes);
            let dims = whole.grid().dims();
            let axis = |n: usize| (0..n).prop_flat_map(move |start| (Just(start), 0..=n - start));
            let regions = (axis(dims[0]), axis(dims[1]), axis(dims[2]));
            for _ in 0..30 {
                let (x, y, z) = regions.new_tree(&mut runner).unwrap().current();
                let region = Region { start: [x.0, y.0, z.0], size: [x.1, y.1, z.1] };
                let mut out = vec![-1.0; region.len()];
                image.read(&region, v, &mut out).unwrap();
                let at = |i: usize, n: usize| i % n;
                let expected: Vec<f32> = (0..region.len())
                    .map(|i| {
                        let (i, j, k) = (at(i, x.1), at(i / x.1, y.1), i / x.1 / y.1);
                        whole.data()[x.0 + i + dims[0] * (y.0 + j + dims[1] * (z.0 + k))]
                    })
                    .collect();
                assert_eq!(out, expected, "{} {region:?}", path.display());
            }
        }
    }
}
