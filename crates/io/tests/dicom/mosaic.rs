//! Mosaics of Siemens: the slices of a volume beside each other in one picture.

use crate::writer::*;
use voxalign_image::Vector3;
use voxalign_io::image::{ReadOptions, open, read_info, read_volume_of, read_volume_with_info};

/// Slices of 4 x 3 pixels, of which two are in a row of the picture.
const SLICES: usize = 3;

/// The mosaic of three slices whose first pixel of the first slice is at `first`.
pub(crate) fn mosaic(number: usize, first: [f64; 3]) -> Set {
    let at = |x: usize, y: usize| match x / COLUMNS + 2 * (y / ROWS) {
        k if k < SLICES => stored(x % COLUMNS, y % ROWS, k) + 1000 * number as i16,
        _ => 0,
    };
    let (wide, high) = (2 * COLUMNS, 2 * ROWS);
    let bytes = (0..wide * high).flat_map(|i| at(i % wide, i / wide).to_le_bytes()).collect();
    // The place that is written is that of the picture, which has the same middle as the first slice.
    let [x, y, z] = first;
    let picture = [x - 0.5 * 2.0, y - 2.0 * 1.5, z];
    let mut set = slice("1.2.3", number, picture);
    set.insert(0x0008_0008, V::Text(b"CS", "ORIGINAL\\PRIMARY\\M\\ND\\MOSAIC".into()));
    set.insert(0x0008_0060, V::Text(b"CS", "MR".into()));
    set.insert(0x0008_0070, text("SIEMENS"));
    set.insert(0x0018_0080, ds(&[2000.0]));
    set.insert(0x0018_0088, ds(&[5.0]));
    set.insert(0x0019_0010, text("SIEMENS MR HEADER"));
    set.insert(0x0019_100A, V::U16(vec![SLICES as u16]));
    set.insert(0x0019_1029, V::F64(vec![0.0, 1000.0, 500.0]));
    set.insert(0x0020_0012, is(number as i64));
    set.insert(0x0028_0010, V::U16(vec![high as u16]));
    set.insert(0x0028_0011, V::U16(vec![wide as u16]));
    set.insert(0x7FE0_0010, V::Bytes(b"OW", bytes));
    set
}

fn values(number: usize) -> Vec<f32> {
    let all = (0..SLICES).flat_map(|k| (0..12).map(move |i| stored(i % 4, i / 4, k)));
    all.map(|v| f32::from(v + 1000 * number as i16)).collect()
}

#[test]
fn a_mosaic_is_a_volume() {
    for form in [Form::Explicit, Form::Implicit, Form::Deflated] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", &[mosaic(1, [10.0, 20.0, 30.0])], form);
        let (volume, info) = read_volume_with_info(folder.path()).unwrap();
        assert_eq!(info.dims, [4, 3, 3]);
        assert_eq!(volume.data(), values(1));
        assert_eq!(volume.grid().spacing(), [0.5, 2.0, 5.0]);
        assert_eq!(volume.grid().origin(), Vector3::new(-10.0, -20.0, 30.0));
    }
}

#[test]
fn a_series_of_mosaics_is_four_dimensional() {
    let folder = tempfile::tempdir().unwrap();
    let sets = [1, 2, 10].map(|n| mosaic(n, [10.0, 20.0, 30.0]));
    write(folder.path(), "a", &sets, Form::Explicit);
    assert_eq!(read_info(folder.path()).unwrap().dims, [4, 3, 3, 3]);
    for (v, n) in [1, 2, 10].into_iter().enumerate() {
        let options = ReadOptions { volume: Some(v), ..ReadOptions::default() };
        assert_eq!(read_volume_of(folder.path(), &options).unwrap().0.data(), values(n));
    }
    let image = open(folder.path(), &ReadOptions::default()).unwrap();
    let side = image.sidecar(None).unwrap().unwrap();
    assert_eq!(side.facts["SliceTiming"], serde_json::json!([0, 1, 0.5]));
    assert_eq!(side.time_step_s, Some(2.0));
}

#[test]
fn mosaics_that_contradict_themselves_are_refused() {
    let said = |set: &Set| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", std::slice::from_ref(set), Form::Explicit);
        read_info(folder.path()).unwrap_err().to_string()
    };
    let good = mosaic(1, [0.0; 3]);
    let mut set = good.clone();
    set.remove(&0x0019_100A);
    assert!(said(&set).contains("NumberOfImagesInMosaic"), "{}", said(&set));
    set.insert(0x0019_100A, V::U16(vec![10]));
    assert!(said(&set).contains("do not divide a picture of 8 x 6"), "{}", said(&set));
    let mut set = good;
    set.remove(&0x0018_0088);
    assert!(said(&set).contains("SpacingBetweenSlices"), "{}", said(&set));
}
