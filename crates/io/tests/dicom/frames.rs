//! Files of several frames, and how values are stored.

use crate::writer::*;
use voxalign_image::Vector3;
use voxalign_io::image::{
    DataType, GridSource, ReadOptions, read_info_from_bytes, read_labels_from_bytes,
    read_volume_from_bytes, read_volume_of,
};

fn group(tag: u32, items: Set, lengths: bool) -> (u32, V) {
    (tag, V::Items(vec![items], lengths))
}

/// An enhanced image whose frame `i` is slice `order[i]` of a stack, in each of `times`.
pub(crate) fn enhanced(order: &[usize], times: usize, lengths: bool) -> Set {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    for tag in [0x0020_0032, 0x0020_0037, 0x0028_0030] {
        set.remove(&tag);
    }
    let measures = Set::from([(0x0028_0030, ds(&[2.0, 0.5])), (0x0018_0050, ds(&[9.0]))]);
    let shared = Set::from([
        group(0x0028_9110, measures, lengths),
        group(0x0020_9116, Set::from([(0x0020_0037, ds(&AXIAL))]), lengths),
    ]);
    let mut frames = Vec::new();
    let mut bytes = Vec::new();
    for time in 0..times {
        for &k in order {
            let place = Set::from([(0x0020_0032, ds(&[1.0, 2.0, 3.0 + 4.0 * k as f64]))]);
            let scale = Set::from([
                (0x0028_1052, ds(&[10.0 * time as f64])),
                (0x0028_1053, ds(&[1.0 + k as f64])),
            ]);
            let content = Set::from([
                // Not looked at, to be jumped over.
                (0x0020_9056, text("1")),
                (0x0020_9128, V::Bytes(b"UL", (time as u32 + 1).to_le_bytes().to_vec())),
            ]);
            frames.push(Set::from([
                group(0x0020_9111, content, lengths),
                group(0x0020_9113, place, lengths),
                group(0x0028_9145, scale, lengths),
                // A sequence that is not looked at, with one in it.
                group(0x0018_9999, Set::from([group(0x0018_9998, Set::new(), false)]), false),
            ]));
            bytes.extend(pixels(k));
        }
    }
    set.insert(0x0028_0008, is((order.len() * times) as i64));
    set.insert(0x5200_9229, V::Items(vec![shared], lengths));
    set.insert(0x5200_9230, V::Items(frames, lengths));
    set.insert(0x7FE0_0010, V::Bytes(b"OW", bytes));
    set
}

fn value(i: usize) -> f32 {
    let k = i / 12;
    f32::from(stored(i % 4, i % 12 / 4, k)) * (1.0 + k as f32)
}

#[test]
fn frames_with_places_of_their_own_are_sorted() {
    for form in [Form::Explicit, Form::Implicit, Form::Deflated] {
        for lengths in [true, false] {
            let bytes = file(&enhanced(&[2, 0, 1], 1, lengths), form);
            let (volume, info) = read_volume_from_bytes("a.dcm", &bytes).unwrap();
            assert_eq!(info.dims, [4, 3, 3]);
            assert_eq!(volume.grid().spacing(), [0.5, 2.0, 4.0]);
            assert_eq!(volume.grid().origin(), Vector3::new(-1.0, -2.0, 3.0));
            let expected: Vec<f32> = (0..36).map(value).collect();
            assert_eq!(volume.data(), expected, "{form:?} {lengths}");
        }
    }
}

#[test]
fn frames_of_several_times_are_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    std::fs::write(&path, file(&enhanced(&[1, 0, 2], 3, false), Form::Explicit)).unwrap();
    for v in 0..3 {
        let options = ReadOptions { volume: Some(v), ..ReadOptions::default() };
        let (volume, info) = read_volume_of(&path, &options).unwrap();
        assert_eq!(info.dims, [4, 3, 3, 3]);
        let expected: Vec<f32> = (0..36).map(|i| value(i) + 10.0 * v as f32).collect();
        assert_eq!(volume.data(), expected);
    }
    let options = ReadOptions { volume: Some(3), ..ReadOptions::default() };
    assert!(read_volume_of(&path, &options).is_err());
}

fn message(set: &Set) -> String {
    read_volume_from_bytes("a.dcm", &file(set, Form::Explicit)).unwrap_err().to_string()
}

#[test]
fn frames_without_places_need_their_distances() {
    let mut set = slice("1.2.3", 0, [0.0, 0.0, 7.0]);
    set.insert(0x0028_0008, is(2));
    set.insert(0x7FE0_0010, V::Bytes(b"OW", [pixels(0), pixels(1)].concat()));
    let said = message(&set);
    assert!(said.contains("its 2 slices have no positions"), "{said}");
    // As doses have them.
    set.insert(0x3004_000C, ds(&[0.0, -2.5]));
    set.insert(0x3004_000E, ds(&[0.01]));
    let (volume, _) = read_volume_from_bytes("a.dcm", &file(&set, Form::Implicit)).unwrap();
    assert_eq!(volume.grid().origin()[2], 4.5);
    assert_eq!(volume.grid().spacing()[2], 2.5);
    assert_eq!(volume.data()[0], 0.5);
    assert_eq!(volume.data()[12], -0.5);
    // More functional groups than frames, and more frames than pixels.
    let mut wrong = enhanced(&[0, 1], 1, true);
    wrong.insert(0x0028_0008, is(1));
    assert!(message(&wrong).contains("1 frames, but functional groups for 2"));
    set.insert(0x0028_0008, is(1 << 30));
    assert!(message(&set).contains("ends early"));
    set.insert(0x0028_0008, V::Text(b"IS", "1A".into()));
    assert!(message(&set).contains("(0028,0008) has '1A', which is not a number"));
}

/// A slice of other values.
fn of(bits: [u16; 4], pixels: V) -> Set {
    let [allocated, stored, high, signed] = bits;
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_0100, V::U16(vec![allocated]));
    set.insert(0x0028_0101, V::U16(vec![stored]));
    set.insert(0x0028_0102, V::U16(vec![high]));
    set.insert(0x0028_0103, V::U16(vec![signed]));
    set.insert(0x7FE0_0010, pixels);
    set
}

#[test]
fn unused_bits_are_left_out() {
    let words: Vec<u16> = (0..12).map(|i| if i == 3 { 0xF801 } else { 0x0800 + i }).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|v| v.to_le_bytes()).collect();
    let read = |set: &Set, form| read_volume_from_bytes("a.dcm", &file(set, form)).unwrap();
    for form in [Form::Explicit, Form::Implicit, Form::Big] {
        let pixels = V::Bytes(b"OW", bytes.clone());
        let (volume, _) = read(&of([16, 12, 11, 0], pixels.clone()), form);
        assert_eq!(volume.data()[..4], [2048.0, 2049.0, 2050.0, 2049.0]);
        let (volume, info) = read(&of([16, 12, 11, 1], pixels.clone()), form);
        assert_eq!(volume.data()[..4], [-2048.0, -2047.0, -2046.0, -2047.0]);
        assert_eq!(info.data_type, DataType::I16);
        let (volume, _) = read(&of([16, 12, 15, 0], pixels), form);
        assert_eq!(volume.data()[..4], [128.0, 128.0, 128.0, 3968.0]);
    }
}

#[test]
fn values_of_other_sizes() {
    let read = |set: &Set, form| read_volume_from_bytes("a.dcm", &file(set, form)).unwrap();
    let count: Vec<u8> = (0..12).map(|i| i * 20).collect();
    let expected: Vec<f32> = count.iter().map(|&v| f32::from(v)).collect();
    for form in [Form::Explicit, Form::Implicit, Form::Big] {
        for kind in [b"OW", b"OB"] {
            let (volume, info) = read(&of([8, 8, 7, 0], V::Bytes(kind, count.clone())), form);
            assert_eq!(volume.data(), expected, "{form:?} {kind:?}");
            assert_eq!(info.data_type, DataType::U8);
        }
    }
    let long: Vec<u8> = (0..12).flat_map(|i: i32| (i * -100_000_000).to_le_bytes()).collect();
    let set = of([32, 32, 31, 1], V::Bytes(b"OW", long));
    let labels = read_labels_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
    assert_eq!(labels.data()[11], -1_100_000_000);
    // Bits, the lowest first.
    let set = of([1, 1, 0, 0], V::Bytes(b"OB", vec![0b1000_0101, 0b0000_1000]));
    let (volume, _) = read(&set, Form::Explicit);
    assert_eq!(volume.data(), [1., 0., 1., 0., 0., 0., 0., 1., 0., 0., 0., 1.]);
    // Floats.
    let mut set = of([32, 32, 31, 0], V::Bytes(b"OW", Vec::new()));
    set.remove(&0x7FE0_0010);
    let floats: Vec<u8> = (0..12).flat_map(|i| (i as f32 * 0.5).to_le_bytes()).collect();
    set.insert(0x7FE0_0008, V::Bytes(b"OF", floats));
    let (volume, info) = read(&set, Form::Explicit);
    assert_eq!(volume.data()[11], 5.5);
    assert_eq!(info.data_type, DataType::F32);
    let said = message(&of([12, 12, 11, 0], V::Bytes(b"OW", vec![0; 18])));
    assert!(said.contains("12 bits per value are not supported"), "{said}");
    let said = message(&of([16, 17, 11, 0], V::Bytes(b"OW", vec![0; 24])));
    assert!(said.contains("17 up to bit 11"), "{said}");
}

#[test]
fn colours_and_tables_are_refused() {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_0002, V::U16(vec![3]));
    set.insert(0x0028_0004, V::Text(b"CS", "RGB".into()));
    let said = message(&set);
    assert!(said.contains("a colour image (3 samples per pixel, RGB)"), "{said}");
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_0004, V::Text(b"CS", "PALETTE COLOR".into()));
    assert!(message(&set).contains("PALETTE COLOR"));
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_3000, V::Items(vec![Set::new()], false));
    assert!(message(&set).contains("Modality LUT"));
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0028_0004, V::Text(b"CS", "MONOCHROME1".into()));
    let info = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
    assert!(info.oddities.iter().any(|o| o.contains("MONOCHROME1")));
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.insert(0x0008_0008, V::Text(b"CS", "ORIGINAL\\PRIMARY\\M\\MOSAIC ".into()));
    let said = message(&set);
    assert!(said.contains("it is a mosaic") && said.contains("NumberOfImagesInMosaic"), "{said}");
}

#[test]
fn sequences_of_unknown_kind_are_written_without_kinds() {
    let mut set = enhanced(&[2, 0, 1], 1, true);
    let expected = read_volume_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap().0;
    for tag in [0x5200_9229, 0x5200_9230] {
        let only = Set::from([(tag, set[&tag].clone())]);
        // Without its own tag and length.
        let content = encode(&only, Form::Implicit).split_off(8);
        set.insert(tag, V::Bytes(b"UN", content));
    }
    let found = read_volume_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap().0;
    assert_eq!(found, expected);
}

#[test]
fn wrong_geometry_is_said() {
    let with = |tag, value| {
        let mut set = slice("1.2.3", 0, [0.0; 3]);
        set.insert(tag, value);
        message(&set)
    };
    assert!(with(0x0020_0037, ds(&[1.0, 0.0, 0.0, 1.0, 0.0, 0.0])).contains("right angle"));
    assert!(with(0x0020_0037, ds(&[1.0, 0.0])).contains("2 numbers instead of 6"));
    assert!(with(0x0020_0032, ds(&[1.0, 0.0])).contains("2 numbers instead of 3"));
    assert!(with(0x0020_0032, text("1\\NaN\\3")).contains("'NaN', which is not a number"));
    assert!(with(0x0028_0030, ds(&[0.0, 1.0])).contains("not a valid spacing"));
    assert!(with(0x0028_0010, V::U16(vec![0])).contains("0 rows"));
    assert!(with(0x0028_0103, V::U16(vec![2])).contains("2 instead of 0 or 1"));
}

#[test]
fn pictures_without_a_place_are_assumed_to_have_one() {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    for tag in [0x0020_0032, 0x0020_0037, 0x0028_0030] {
        set.remove(&tag);
    }
    set.insert(0x0018_1164, ds(&[0.25, 0.125]));
    let info = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
    assert_eq!((info.grid_source, info.dimensions), (GridSource::Assumed, 2));
    assert_eq!(info.grid.spacing(), [0.125, 0.25, 1.0]);
    assert_eq!(info.grid.orientation(), "LPS");
    assert!(info.oddities.iter().any(|o| o.contains("axes are assumed")), "{:?}", info.oddities);
    set.remove(&0x0018_1164);
    let info = read_info_from_bytes("a.dcm", &file(&set, Form::Explicit)).unwrap();
    assert!(info.oddities.iter().any(|o| o.contains("no PixelSpacing")), "{:?}", info.oddities);
}
