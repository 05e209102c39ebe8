//! Folders as they come from discs: lists without a series, copies, slices that are nearly even.

use crate::writer::*;
use voxalign_image::Vector3;
use voxalign_io::image::{
    GridSource, ReadOptions, read_info, read_info_from_bytes, read_volume, read_volume_from_bytes,
    read_volume_of,
};

#[test]
fn a_list_of_files_without_a_series_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &stack("1.2.3", 3), Form::Explicit);
    let list = Set::from([(0x0008_0018, V::Text(b"UI", "9.9".into()))]);
    std::fs::write(folder.path().join("INDEX"), file(&list, Form::Explicit)).unwrap();
    let info = read_info(folder.path()).unwrap();
    assert_eq!(info.dims, [4, 3, 3]);
    assert!(
        info.oddities.iter().any(|o| o.contains("'INDEX' is the first")),
        "{:?}",
        info.oddities
    );
}

/// One bad file leaves the rest readable.
#[test]
fn a_file_that_is_cut_before_its_series_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &stack("1.2.3", 3), Form::Explicit);
    let whole = file(&stack("1.2.3", 1)[0], Form::Explicit);
    let series = whole.windows(5).position(|w| w == b"1.2.3").unwrap();
    for end in [140, 151, series - 8, series + 1] {
        std::fs::write(folder.path().join("bad"), &whole[..end]).unwrap();
        let info = read_info(folder.path()).unwrap();
        assert_eq!(info.dims, [4, 3, 3], "{end}");
        let said = |o: &voxalign_io::image::Oddity| o.contains("damaged ('bad' is the first)");
        assert!(info.oddities.iter().any(said), "{end}: {:?}", info.oddities);
    }
}

#[test]
fn copies_of_a_slice_are_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let sets = stack("1.2.3", 3);
    let files = write(folder.path(), "a", &sets, Form::Explicit);
    std::fs::copy(&files[1], folder.path().join("copy of a slice.dcm")).unwrap();
    let info = read_info(folder.path()).unwrap();
    assert_eq!(info.dims, [4, 3, 3]);
    assert!(
        info.oddities.iter().any(|o| o.contains("are copies of others")),
        "{:?}",
        info.oddities
    );
    // Other values under the same name are no copy.
    let mut other = sets[1].clone();
    other.insert(0x7FE0_0010, V::Bytes(b"OW", pixels(7)));
    std::fs::write(folder.path().join("copy of a slice.dcm"), file(&other, Form::Explicit))
        .unwrap();
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("several slices are at the same place"), "{said}");
}

#[test]
fn volumes_that_are_a_hair_apart_are_no_missing_slices() {
    let folder = tempfile::tempdir().unwrap();
    let mut sets = Vec::new();
    for time in 0..2 {
        for (k, mut set) in stack("1.2.3", 4).into_iter().enumerate() {
            set.insert(0x0008_0018, V::Text(b"UI", format!("1.2.3.{time}.{k}")));
            set.insert(
                0x0020_0032,
                ds(&[-10.0, -20.0, 30.0 + 3.0 * k as f64 + 0.002 * time as f64]),
            );
            set.insert(0x0020_0100, is(time));
            sets.push(set);
        }
    }
    write(folder.path(), "a", &sets, Form::Explicit);
    let info = read_info(folder.path()).unwrap();
    assert_eq!(info.dims, [4, 3, 4, 2]);
    assert!((info.grid.spacing()[2] - 3.0).abs() < 1e-3);
}

#[test]
fn the_thickness_that_is_assumed_is_said() {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    let read = |set: &Set| read_info_from_bytes("a.dcm", &file(set, Form::Explicit)).unwrap();
    assert!(read(&set).oddities.iter().any(|o| o.contains("1 mm is assumed")));
    set.insert(0x0018_0050, ds(&[4.0]));
    assert!(!read(&set).oddities.iter().any(|o| o.contains("assumed")));
    assert_eq!(read(&set).grid.spacing()[2], 4.0);
}

#[test]
fn uneven_slices_are_interpolated_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Set> = [0.0, 2.0, 4.0, 10.0]
        .iter()
        .enumerate()
        .map(|(k, &z)| slice("1.2.3", k, [1.0, 2.0 + 0.1 * z, 5.0 + z]))
        .collect();
    write(folder.path(), "a", &sets, Form::Explicit);
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("`even`"), "{said}");
    let options = ReadOptions { even: true, ..ReadOptions::default() };
    let (volume, info) = read_volume_of(folder.path(), &options).unwrap();
    assert_eq!(info.dims, [4, 3, 6]);
    assert!(info.unscaled_type().is_none());
    assert!(
        info.oddities.iter().any(|o| o.contains("are interpolated to 6")),
        "{:?}",
        info.oddities
    );
    for (z, expected) in [(0, 0.0), (2, 200.0), (3, 200.0 + 100.0 / 3.0), (5, 300.0)] {
        let value = volume.data()[12 * z];
        assert!((value - (expected - 50.0)).abs() < 1e-4, "{z}: {value}");
        let at = volume.grid().index_to_world(Vector3::new(0.0, 0.0, z as f64));
        let height = 2.0 * z as f64;
        let place = Vector3::new(-1.0, -2.0 - 0.1 * height, 5.0 + height);
        assert!((at - place).norm() < 1e-9, "{at}");
    }
    // What is even already stays as it is.
    let even = tempfile::tempdir().unwrap();
    write(even.path(), "a", &stack("1.2.3", 3), Form::Explicit);
    let plain = read_volume(even.path()).unwrap();
    assert_eq!(read_volume_of(even.path(), &options).unwrap().0, plain);
}

/// A tomogram of nuclear medicine: the place of the first slice is that of the detector.
fn tomogram(spacing: f64) -> Set {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    set.remove(&0x0020_0032);
    set.remove(&0x0020_0037);
    let detector = Set::from([(0x0020_0032, ds(&[1.0, 2.0, 30.0])), (0x0020_0037, ds(&AXIAL))]);
    set.insert(0x0054_0022, V::Items(vec![detector], true));
    set.insert(0x0008_0008, V::Text(b"CS", "ORIGINAL\\PRIMARY\\RECON TOMO\\EMISSION".into()));
    set.insert(0x0008_0060, V::Text(b"CS", "NM".into()));
    set.insert(0x0018_0088, ds(&[spacing]));
    set.insert(0x0028_0008, is(3));
    set.insert(0x0054_0080, V::U16(vec![1, 2, 3]));
    set.insert(0x7FE0_0010, V::Bytes(b"OW", [0, 1, 2].map(pixels).concat()));
    set
}

#[test]
fn a_tomogram_of_nuclear_medicine_is_a_volume() {
    for (spacing, first) in [(4.0, 30.0), (-4.0, 22.0)] {
        let bytes = file(&tomogram(spacing), Form::Explicit);
        let (volume, info) = read_volume_from_bytes("a.dcm", &bytes).unwrap();
        assert_eq!((info.dims, info.grid_source), (vec![4, 3, 3], GridSource::Slices));
        assert_eq!(volume.grid().origin(), Vector3::new(-1.0, -2.0, first));
        assert_eq!(volume.grid().spacing(), [0.5, 2.0, 4.0]);
        let of_first = if spacing > 0.0 { -50.0 } else { 150.0 };
        assert_eq!(volume.data()[0], of_first);
    }
}

#[test]
fn a_real_world_mapping_counts_where_there_is_no_rescale() {
    let mut set = slice("1.2.3", 0, [0.0; 3]);
    let mapping = Set::from([(0x0040_9224, V::F64(vec![5.0])), (0x0040_9225, V::F64(vec![0.5]))]);
    set.insert(0x0040_9096, V::Items(vec![mapping], true));
    let read = |set: &Set| read_volume_from_bytes("a.dcm", &file(set, Form::Explicit)).unwrap();
    let (volume, info) = read(&set);
    assert_eq!(volume.data()[0], -20.0);
    assert!(info.oddities.iter().any(|o| o.contains("real-world mapping")), "{:?}", info.oddities);
    set.insert(0x0028_1053, ds(&[2.0]));
    let (volume, info) = read(&set);
    assert_eq!(volume.data()[0], -100.0);
    assert!(!info.oddities.iter().any(|o| o.contains("real-world mapping")));
}
