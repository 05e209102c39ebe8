//! Series of single slices: order, geometry, scales, and what is refused.

use crate::writer::*;
use voxalign_image::Vector3;
use voxalign_io::IoError;
use voxalign_io::image::{
    ByteOrder, Compression, Format, GridSource, ReadOptions, Region, list_series, open, read_info,
    read_info_of, read_labels, read_volume, read_volume_from_bytes, read_volume_into_hashing_of,
    read_volume_of, read_volume_with_info,
};

fn choose(series: &str) -> ReadOptions {
    ReadOptions { series: Some(series.into()), ..ReadOptions::default() }
}

fn alone() -> ReadOptions {
    ReadOptions { alone: true, ..ReadOptions::default() }
}

/// The values of a stack of `count` slices.
fn values(count: usize) -> Vec<f32> {
    let n = ROWS * COLUMNS;
    (0..n * count).map(|i| f32::from(stored(i % COLUMNS, i % n / COLUMNS, i / n))).collect()
}

#[test]
fn slices_are_sorted_in_every_form() {
    for form in
        [Form::Explicit, Form::Implicit, Form::Big, Form::Deflated, Form::Bare, Form::BareImplicit]
    {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path(), "a", &stack("1.2.3", 5), form);
        let (volume, info) = read_volume_with_info(folder.path()).unwrap();
        assert_eq!(volume.data(), values(5), "{form:?}");
        assert_eq!(info.dims, [4, 3, 5]);
        assert_eq!((info.format, info.grid_source), (Format::Dicom, GridSource::Slices));
        assert_eq!(info.format_name, "DICOM CT");
        assert_eq!(info.description, "made for a test");
        assert_eq!(info.byte_order == ByteOrder::Big, form == Form::Big);
        assert_eq!(info.compression == Compression::Deflate, form == Form::Deflated);
        assert_eq!(info.files.len(), 5);
        let grid = volume.grid();
        assert_eq!(grid.spacing(), [0.5, 2.0, 3.0]);
        assert_eq!(grid.orientation(), "LPS");
        let last = grid.index_to_world(Vector3::new(3.0, 2.0, 4.0));
        assert!((last - Vector3::new(8.5, 16.0, 42.0)).norm() < 1e-12, "{last}");
        // The anisotropy is all that is said.
        assert_eq!(info.oddities.len(), 1, "{:?}", info.oddities);
        // One file stands for its series, or is read alone.
        assert_eq!(read_volume(&files[3]).unwrap(), volume);
        let (one, info) = read_volume_of(&files[3], &alone()).unwrap();
        assert_eq!(one.data(), &values(5)[36..48]);
        assert_eq!((info.dims, info.dimensions), (vec![4, 3, 1], 2));
        let bytes = std::fs::read(&files[3]).unwrap();
        assert_eq!(read_volume_from_bytes("x.dcm", &bytes).unwrap().0, one);
        assert_eq!(read_volume_from_bytes("IM3", &bytes).unwrap().0, one);
        // Parts.
        let image = open(folder.path(), &ReadOptions::default()).unwrap();
        let region = Region { start: [1, 1, 2], size: [2, 2, 3] };
        let mut out = vec![0.0; 12];
        image.read(&region, 0, &mut out).unwrap();
        let expected = (0..12).map(|i| f32::from(stored(1 + i % 2, 1 + i / 2 % 2, 2 + i / 4)));
        assert_eq!(out, expected.collect::<Vec<_>>());
        let labels = read_labels(folder.path()).unwrap();
        assert!(labels.data().iter().zip(volume.data()).all(|(&l, &v)| l as f32 == v));
    }
}

#[test]
fn names_need_no_extension() {
    let folder = tempfile::tempdir().unwrap();
    for (k, set) in stack("1.2.3", 3).iter().enumerate() {
        std::fs::write(folder.path().join(format!("IM{k}")), file(set, Form::Explicit)).unwrap();
    }
    std::fs::write(folder.path().join("readme.txt"), "what this is").unwrap();
    std::fs::write(folder.path().join("zz.dcm"), "").unwrap();
    std::fs::create_dir(folder.path().join("more")).unwrap();
    let (volume, info) = read_volume_with_info(folder.path()).unwrap();
    assert_eq!(volume.data(), values(3));
    assert!(
        info.oddities.iter().any(|o| o.contains("2 files") && o.contains("'readme.txt'")),
        "{:?}",
        info.oddities
    );
    let file = folder.path().join("IM1");
    assert_eq!(read_volume(&file).unwrap(), volume);
    assert_eq!(Format::of_input(&file).unwrap(), Format::Dicom);
    assert_eq!(Format::of_input(folder.path()).unwrap(), Format::Dicom);
    assert!(Format::from_path(&file).is_err());
    let mut out = vec![0.0; 36];
    let (_, sums) =
        read_volume_into_hashing_of(folder.path(), &ReadOptions::default(), &mut out).unwrap();
    assert_eq!(out, values(3));
    assert_eq!(sums.len(), 3);
    assert_eq!(sums[1].1, voxalign_io::checksum::sha256_file(&file).unwrap());
}

#[test]
fn every_slice_has_its_own_scale() {
    let folder = tempfile::tempdir().unwrap();
    let mut sets = stack("1.2.3", 3);
    for (k, set) in sets.iter_mut().enumerate() {
        set.insert(0x0028_1052, ds(&[-1024.0]));
        set.insert(0x0028_1053, ds(&[0.5 + k as f64]));
    }
    write(folder.path(), "a", &sets, Form::Explicit);
    let (volume, info) = read_volume_with_info(folder.path()).unwrap();
    let expected: Vec<f32> =
        values(3).iter().enumerate().map(|(i, v)| v * (0.5 + (i / 12) as f32) - 1024.0).collect();
    assert_eq!(volume.data(), expected);
    assert_eq!((info.slope, info.intercept), (1.0, 0.0));
    assert!(info.oddities.iter().any(|o| o.contains("scales of their own")));
    let said = read_labels(folder.path()).unwrap_err().to_string();
    assert!(said.contains("not a whole number"), "{said}");
    sets.iter_mut().for_each(|set| _ = set.insert(0x0028_1053, ds(&[2.0])));
    write(folder.path(), "a", &sets, Form::Explicit);
    let info = read_info(folder.path()).unwrap();
    assert_eq!((info.slope, info.intercept), (2.0, -1024.0));
    sets[1].insert(0x0028_1053, ds(&[0.0]));
    write(folder.path(), "a", &sets, Form::Explicit);
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("RescaleSlope (0028,1053) is 0"), "{said}");
}

/// What is said of a series with slices at such heights.
fn said(positions: &[[f64; 3]]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Set> = positions.iter().enumerate().map(|(k, p)| slice("1.2.3", k, *p)).collect();
    write(folder.path(), "a", &sets, Form::Explicit);
    let error = read_info(folder.path()).unwrap_err();
    assert!(matches!(error, IoError::Malformed { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains(&folder.path().display().to_string()), "{said}");
    said
}

fn heights<const N: usize>(z: [f64; N]) -> Vec<[f64; 3]> {
    z.iter().map(|&z| [0.0, 0.0, z]).collect()
}

#[test]
fn what_is_no_even_stack_is_refused() {
    let missing = said(&heights([0.0, 3.0, 6.0, 12.0, 15.0]));
    assert!(missing.contains("about 1"), "{missing}");
    assert!(missing.contains("6.000 mm (a002.dcm) and 12.000 mm (a001.dcm)"), "{missing}");
    assert!(missing.contains("put the missing files"), "{missing}");
    let many = said(&heights([0.0, 3.0, 12.0, 15.0, 21.0, 24.0]));
    assert!(many.contains("about 3"), "{many}");
    let doubled = said(&heights([0.0, 3.0, 3.0, 6.0]));
    assert!(doubled.contains("same place, at 3.000 mm (a001.dcm, a002.dcm)"), "{doubled}");
    let uneven = said(&heights([0.0, 3.0, 7.0, 10.0]));
    assert!(uneven.contains("3.000 to 4.000 mm apart"), "{uneven}");
    assert!(uneven.contains("`even`"), "{uneven}");
    let crooked = said(&[[0.0, 0.0, 0.0], [2.0, 0.0, 3.0], [0.0, 0.0, 6.0]]);
    assert!(crooked.contains("not on a straight line"), "{crooked}");
    let flat = said(&[[0.0, 0.0, 0.0], [30.0, 0.0, 3.0]]);
    assert!(flat.contains("off their normal"), "{flat}");
    let mut no_place = stack("1.2.3", 2);
    no_place.iter_mut().for_each(|s| _ = s.remove(&0x0020_0032));
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &no_place, Form::Explicit);
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("its 2 slices have no positions"), "{said}");
}

#[test]
fn small_unevenness_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Set> = [0.0, 3.0, 6.1, 9.0]
        .iter()
        .enumerate()
        .map(|(k, &z)| slice("1.2.3", k, [0.0, 0.0, z]))
        .collect();
    write(folder.path(), "a", &sets, Form::Explicit);
    let info = read_info(folder.path()).unwrap();
    assert_eq!(info.grid.spacing()[2], 3.0);
    let said = info.oddities.iter().find(|o| o.contains("not quite evenly")).unwrap();
    assert!(said.contains("off by up to 0.1000 mm"), "{said}");
}

#[test]
fn a_tilted_gantry_shears_the_grid() {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Set> =
        (0..4).map(|k| slice("1.2.3", k, [1.0, 2.0 - k as f64, 5.0 + 3.0 * k as f64])).collect();
    write(folder.path(), "a", &sets, Form::Explicit);
    let (volume, info) = read_volume_with_info(folder.path()).unwrap();
    for k in 0..4 {
        let at = volume.grid().index_to_world(Vector3::new(0.0, 0.0, f64::from(k)));
        let expected = Vector3::new(-1.0, f64::from(k) - 2.0, 5.0 + 3.0 * f64::from(k));
        assert!((at - expected).norm() < 1e-12, "{at}");
    }
    assert!(info.oddities.iter().any(|o| o.contains("tilt of the gantry of 18.43")));
    assert_eq!(volume.data(), values(4));
}

#[test]
fn oblique_slices_keep_their_place() {
    // Coronal, from front to back, and rotated by 30 degrees about z.
    let (c, s) = (30f64.to_radians().cos(), 30f64.to_radians().sin());
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Set> = (0..3)
        .map(|k| {
            let d = 1.5 * k as f64;
            let mut set = slice("1.2.3", k, [10.0 - s * d, 20.0 + c * d, 30.0]);
            set.insert(0x0020_0037, ds(&[c, s, 0.0, 0.0, 0.0, -1.0]));
            set
        })
        .collect();
    write(folder.path(), "a", &sets, Form::Explicit);
    let grid = read_info(folder.path()).unwrap().grid;
    assert!(
        (grid.index_to_world(Vector3::zeros()) - Vector3::new(-10.0, -20.0, 30.0)).norm() < 1e-9
    );
    let x = grid.index_to_world(Vector3::new(1.0, 0.0, 0.0));
    assert!((x - Vector3::new(-10.0 - 0.5 * c, -20.0 - 0.5 * s, 30.0)).norm() < 1e-9);
    assert!((grid.spacing()[2] - 1.5).abs() < 1e-9 && grid.skewness() < 1e-9);
}

#[test]
fn several_series_are_listed_and_one_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &stack("1.2.3", 3), Form::Explicit);
    let mut second = stack("1.2.4", 4);
    for set in &mut second {
        set.insert(0x0020_0011, is(2));
        set.insert(0x0008_103E, text("another"));
    }
    // A localiser of the second series, in another direction.
    let mut scout = slice("1.2.4", 9, [0.0; 3]);
    scout.insert(0x0020_0011, is(2));
    scout.insert(0x0020_0037, ds(&[1.0, 0.0, 0.0, 0.0, 0.0, -1.0]));
    let files = write(folder.path(), "b", &second, Form::Implicit);
    write(folder.path(), "c", &[scout], Form::Explicit);
    let error = read_info(folder.path()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("there are 3 series"), "{said}");
    assert!(
        said.contains("1: CT 'made for a test', 3 slices of 4 x 3 in 3 files, 1.2.3"),
        "{said}"
    );
    assert!(said.contains("2: CT 'another', 4 slices of 4 x 3 in 4 files, 1.2.4"), "{said}");
    assert!(matches!(error, IoError::SeveralSeries { ref series, .. } if series.len() == 3));
    let listed = list_series(folder.path()).unwrap();
    assert_eq!(listed.len(), 3);
    assert_eq!((listed[1].number, listed[1].frames, listed[1].size), (2, 4, [4, 3]));
    for name in ["1", "1.2.3"] {
        let (volume, _) = read_volume_of(folder.path(), &choose(name)).unwrap();
        assert_eq!(volume.data(), values(3));
    }
    assert_eq!(read_volume_of(folder.path(), &choose("2")).unwrap().0.data(), values(4));
    assert_eq!(read_info_of(folder.path(), &choose("3")).unwrap().dims, [4, 3, 1]);
    assert_eq!(read_volume(&files[1]).unwrap().data(), values(4));
    let said = read_info_of(folder.path(), &choose("1.2.4")).unwrap_err().to_string();
    assert!(said.contains("images of 2 sizes, directions or spacings"), "{said}");
    let said = read_info_of(folder.path(), &choose("7")).unwrap_err().to_string();
    assert!(said.contains("there is no series '7'"), "{said}");
}

#[test]
fn damage_is_said_of_the_series_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a", &stack("1.2.3", 3), Form::Explicit);
    let files = write(folder.path(), "b", &stack("1.2.4", 3), Form::Explicit);
    let bytes = std::fs::read(&files[1]).unwrap();
    std::fs::write(&files[1], &bytes[..bytes.len() - 10]).unwrap();
    let error = read_info_of(folder.path(), &choose("1.2.4")).unwrap_err();
    assert!(matches!(error, IoError::Truncated { .. }), "{error}");
    assert!(error.to_string().contains("b001.dcm"), "{error}");
    let error = read_info(&files[1]).unwrap_err();
    assert!(matches!(error, IoError::Truncated { .. }), "{error}");
    // The other series can be read, by its name and by one of its files.
    assert_eq!(read_volume(folder.path().join("a001.dcm")).unwrap().data(), values(3));
    let (volume, _) = read_volume_of(folder.path(), &choose("1.2.3")).unwrap();
    assert_eq!(volume.data(), values(3));
}

#[test]
fn images_of_several_times_are_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let mut sets = Vec::new();
    for time in [2, 1] {
        for (k, mut set) in stack("1.2.3", 3).into_iter().enumerate() {
            set.insert(0x0020_0100, is(time));
            set.insert(0x0020_0013, is(time * 10 + k as i64));
            set.insert(0x0028_1052, ds(&[1000.0 * time as f64]));
            sets.push(set);
        }
    }
    write(folder.path(), "a", &sets, Form::Explicit);
    let info = read_info(folder.path()).unwrap();
    assert_eq!((info.dims.clone(), info.volumes()), (vec![4, 3, 3, 2], 2));
    let by = info.oddities.iter().find(|o| o.contains("temporal position")).unwrap();
    assert!(by.contains("2 volumes"), "{by}");
    let error = read_volume(folder.path()).unwrap_err();
    assert!(matches!(error, IoError::SeveralVolumes { volumes: 2, .. }), "{error}");
    for v in 0..2 {
        let options = ReadOptions { volume: Some(v), ..ReadOptions::default() };
        let (volume, _) = read_volume_of(folder.path(), &options).unwrap();
        let expected: Vec<f32> = values(3).iter().map(|x| x + 1000.0 * (v as f32 + 1.0)).collect();
        assert_eq!(volume.data(), expected);
    }
}

#[test]
fn folders_without_images_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("this is a folder without DICOM images"), "{said}");
    let zarr = tempfile::tempdir().unwrap();
    std::fs::write(zarr.path().join(".zgroup"), "{}").unwrap();
    let said = read_info(zarr.path()).unwrap_err().to_string();
    assert!(said.contains("this is a Zarr folder"), "{said}");
    let mut report = slice("1.2.3", 0, [0.0; 3]);
    report.remove(&0x7FE0_0010);
    let files = write(folder.path(), "a", &[report], Form::Explicit);
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("without DICOM images"), "{said}");
    let said = read_info(&files[0]).unwrap_err().to_string();
    assert!(said.contains("holds no image"), "{said}");
    std::fs::write(folder.path().join("x.dcm"), "not this").unwrap();
    let said = read_info(folder.path().join("x.dcm")).unwrap_err().to_string();
    assert!(said.contains("not a DICOM file") && said.contains("dcm2niix"), "{said}");
}
