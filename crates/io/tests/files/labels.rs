//! Label maps with names and colours: what is written has the fields that other programs look for, and is read back.

use nalgebra::{Matrix3, Rotation3, Vector3};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use voxalign_image::{Affine, Grid, LabelMap, Volume};
use voxalign_io::IoError;
use voxalign_io::image::{
    Compression, DataType, WriteOptions, read_info, read_labels, write_labels, write_volume,
};
use voxalign_io::labels::{
    LabelError, LabelTable, default_colours, description_path, read_table, write_descriptions,
    write_nifti, write_segmentation,
};
use voxalign_io::names::{LabelNames, read_label_names, read_label_names_from_bytes};
use voxalign_io::staging::Staging;

fn grid(dims: [usize; 3], angles: [f64; 3], spacing: [f64; 3], origin: [f64; 3]) -> Grid {
    let r = Rotation3::from_euler_angles(angles[0], angles[1], angles[2]);
    let m = r.matrix() * Matrix3::from_diagonal(&Vector3::from(spacing));
    Grid::new(dims, Affine::new(m, origin.into())).unwrap()
}

/// Oblique, left-handed and anisotropic, each for itself and together; a slice.
fn grids() -> Vec<Grid> {
    vec![
        Grid::axis_aligned([7, 6, 5], [1.0; 3]).unwrap(),
        grid([7, 6, 5], [0.0; 3], [-1.0, 1.0, 1.0], [90.0, -126.0, -72.0]),
        grid([7, 6, 5], [0.3, -0.2, 1.1], [1.0; 3], [-4.5, 12.0, 33.25]),
        grid([7, 6, 5], [0.1, 0.2, 0.3], [0.5, -0.75, 4.0], [3.0, -70.0, 9.0]),
        grid([9, 1, 4], [0.0, 0.0, 1.5], [0.1, 3.0, -2.0], [-1e3, 1e-3, 0.0]),
        grid([8, 6, 1], [0.0; 3], [0.25, 0.25, 1.0], [0.0; 3]),
        grid([8, 6, 1], [0.4, 0.1, 0.0], [0.25, -0.3, 5.0], [7.0, 8.0, 9.0]),
    ]
}

fn table() -> LabelTable {
    LabelTable::with_colours([
        (1, "liver", Some([221, 130, 101])),
        (2, "Niere, links (é) \\ | := ~^&", None),
        (300, "left kidney", Some([0, 255, 1])),
    ])
    .unwrap()
}

/// All labels of the table and background, in an order that no flip leaves as it is.
fn map(grid: Grid) -> LabelMap {
    Volume::from_fn(grid, |x, y, z| [0, 1, 2, 300, 0, 1, 1][(x * x + 3 * y + 5 * z) % 7])
}

fn header(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap();
    let end = bytes.windows(2).position(|w| w == b"\n\n").unwrap();
    String::from_utf8(bytes[..end].to_vec()).unwrap()
}

fn files(folder: &Path) -> Vec<String> {
    let name =
        |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    let mut found: Vec<_> = std::fs::read_dir(folder).unwrap().map(name).collect();
    found.sort();
    found
}

#[test]
fn segmentations_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    for (i, grid) in grids().into_iter().enumerate() {
        for level in [0, 2] {
            let options = WriteOptions { compression_level: level, ..WriteOptions::default() };
            let path = folder.path().join(format!("{i}_{level}.seg.nrrd"));
            let map = map(grid.clone());
            write_segmentation(&path, &map, &table(), &options).unwrap();
            // Values and geometry, to the last bit.
            assert_eq!(read_labels(&path).unwrap(), map, "{grid}");
            assert_eq!(read_table(&path).unwrap(), table());
            let info = read_info(&path).unwrap();
            assert_eq!(info.data_type, DataType::I16);
            let packed = if level == 0 { Compression::None } else { Compression::Gzip };
            assert_eq!((info.compression, info.dims), (packed, grid.dims().to_vec()));
            // The same bytes every time.
            let bytes = std::fs::read(&path).unwrap();
            write_segmentation(&path, &map, &table(), &options).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }
}

#[test]
fn nifti_comes_back_with_its_descriptions() {
    let folder = tempfile::tempdir().unwrap();
    for (i, grid) in grids().into_iter().enumerate() {
        for end in ["nii", "nii.gz"] {
            let path = folder.path().join(format!("{i}.{end}"));
            let map = map(grid.clone());
            let text = write_nifti(&path, &map, &table(), &WriteOptions::default()).unwrap();
            assert_eq!(text, folder.path().join(format!("{i}_labels.txt")));
            let back = read_labels(&path).unwrap();
            assert_eq!(back.data(), map.data());
            // The header has 32 bits.
            assert!(back.grid().approx_eq(map.grid(), 2e-4), "{} {grid}", back.grid());
            assert_eq!(read_table(&text).unwrap(), table());
            let info = read_info(&path).unwrap();
            assert_eq!((info.intent.as_str(), info.data_type), ("1002 (label)", DataType::I16));
        }
    }
    // A slice may be an image of two dimensions.
    let path = folder.path().join("flat.nii.gz");
    let slice = map(grids()[5].clone());
    let options = WriteOptions { dimensions: 2, ..WriteOptions::default() };
    write_nifti(&path, &slice, &table(), &options).unwrap();
    assert_eq!(read_info(&path).unwrap().dimensions, 2);
    assert_eq!(read_labels(&path).unwrap().data(), slice.data());
}

/// The header is what Slicer's storage node writes for one layer.
#[test]
fn a_segmentation_has_the_fields_of_slicer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.seg.nrrd");
    let grid = grid([4, 3, 1], [0.0; 3], [0.5, -2.0, 3.0], [10.0, 20.0, -30.0]);
    let map = Volume::from_fn(grid, |x, _, _| i32::from(x == 1));
    let table =
        LabelTable::with_colours([(1, "a b", Some([255, 0, 51])), (7, "c\\d", None)]).unwrap();
    write_segmentation(&path, &map, &table, &WriteOptions::default()).unwrap();
    let header = header(&path);
    let lines: Vec<&str> = header.lines().collect();
    for expected in [
        "type: unsigned char",
        "dimension: 3",
        "space: left-posterior-superior",
        "sizes: 4 3 1",
        "space directions: (-0.5,0.0,0.0) (0.0,2.0,0.0) (0.0,0.0,3.0)",
        "kinds: domain domain domain",
        "encoding: gzip",
        "space origin: (-10.0,-20.0,-30.0)",
        "Segmentation_ContainedRepresentationNames:=Binary labelmap|",
        "Segmentation_ConversionParameters:=Reference image geometry|0.5;0.0;0.0;10.0;0.0;-2.0;0.0;20.0;0.0;0.0;3.0;\
         -30.0;0;0;0;1;0;3;0;2;0;0;|&",
        "Segmentation_MasterRepresentation:=Binary labelmap",
        "Segmentation_ReferenceImageExtentOffset:=0 0 0",
        "Segment0_ID:=Segment_1",
        "Segment0_Name:=a b",
        "Segment0_NameAutoGenerated:=0",
        "Segment0_Color:=1.000000 0.000000 0.200000",
        "Segment0_ColorAutoGenerated:=0",
        "Segment0_LabelValue:=1",
        "Segment0_Layer:=0",
        // Those of the whole layer also for a label that no voxel has.
        "Segment0_Extent:=0 3 0 2 0 0",
        "Segment1_Extent:=0 3 0 2 0 0",
        "Segment1_ID:=Segment_7",
        "Segment1_Name:=c\\\\d",
        "Segment1_LabelValue:=7",
    ] {
        assert!(lines.contains(&expected), "{expected}\n{header}");
    }
    assert!(lines.iter().any(|l| l.starts_with("Segment0_Tags:=TerminologyEntry:")), "{header}");
    assert!(!header.contains("Segment2_"));
}

#[test]
fn a_label_description_file_has_the_columns_of_itk_snap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    write_descriptions(&path, &table()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().nth(1).unwrap().contains("ITK-SnAP Label Description File"));
    let rows: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let numbers = |row: &str| -> Vec<u16> {
        row.split('"').next().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect()
    };
    assert_eq!(rows.len(), 4);
    assert_eq!(numbers(rows[0]), [0; 7]);
    assert_eq!(numbers(rows[1]), [1, 221, 130, 101, 1, 1, 1]);
    assert_eq!(numbers(rows[3]), [300, 0, 255, 1, 1, 1, 1]);
    assert!(rows[2].ends_with("\"Niere, links (é) \\ | := ~^&\""), "{}", rows[2]);
    let names = read_label_names(&path).unwrap();
    assert_eq!(names[&0], "Clear Label");
    assert_eq!(names[&300], "left kidney");
}

/// Names alone come from the same files, as `--label-names` takes them.
#[test]
fn names_are_read_from_segmentations() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.seg.nrrd");
    write_segmentation(&path, &map(grids()[0].clone()), &table(), &WriteOptions::default())
        .unwrap();
    let expected: LabelNames =
        table().labels().iter().map(|l| (i32::from(l.value()), l.name().to_owned())).collect();
    assert_eq!(read_label_names(&path).unwrap(), expected);
    assert_eq!(read_label_names_from_bytes("b", &std::fs::read(&path).unwrap()).unwrap(), expected);
    // As Slicer writes several layers: sizes of four axes, no name of one segment, a colour that is none.
    let layers = "NRRD0004\ntype: unsigned char\ndimension: 4\nsizes: 2 1 1 1\n\
                  Segment0_ID:=Segment_1\nSegment0_LabelValue:=1\nSegment0_Layer:=0\nSegment0_Color:=2 0 0\n\
                  Segment1_ID:=x\nSegment1_Name:=cyst\\\\1\nSegment1_LabelValue:=2\nSegment1_Layer:=1\n\
                  Segment_Name:=nothing\nSegmentX_Name:=nothing\n\n\0\0";
    let path = folder.path().join("layers.seg.nrrd");
    std::fs::write(&path, layers).unwrap();
    let expected = LabelTable::new([(1, "Segment_1"), (2, "cyst\\1")]).unwrap();
    assert_eq!(read_table(&path).unwrap(), expected);
    for (from, to, said) in [
        (
            "Segment1_LabelValue:=2",
            "Segment1_LabelValue:=1",
            "'Segment_1' and 'cyst\\1' have both the label value 1",
        ),
        ("Segment1_LabelValue:=2\n", "", "segment 1 has the label value ''"),
        ("Segment1_LabelValue:=2", "Segment1_LabelValue:=2.5", "label value '2.5'"),
        ("Segment0_ID:=Segment_1\n", "", "segment 0 has no name"),
        ("Segment1_LabelValue:=2", "Segment1_LabelValue:=65536", "'cyst\\1' has the value 65536"),
        ("\n\n", "\n", "is not 'field: value'"),
    ] {
        std::fs::write(&path, layers.replacen(from, to, 1)).unwrap();
        let error = read_table(&path).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("layers.seg.nrrd"), "{error}");
    }
    let plain = folder.path().join("plain.nrrd");
    write_volume(&plain, &Volume::filled(grids()[0].clone(), 1.0), &WriteOptions::default())
        .unwrap();
    assert!(read_table(&plain).unwrap_err().to_string().contains("no segments"));
}

#[test]
fn colours_of_tables_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    let mut given = default_colours();
    let (first, second) = (given.next(), given.next());
    for (text, expected) in [
        (
            "# FreeSurfer\n0 Unknown 0 0 0 0\n17 Left-Hippocampus 220 216 20 0\n",
            [Some([220, 216, 20]), None],
        ),
        (
            "0 0 0 0 0 0 0 \"Clear Label\"\n17 220 216 20 1 1 1 \"Left-Hippocampus\"\n18 1 2 3 0.5 1 0 \"b\"\n",
            [Some([220, 216, 20]), Some([1, 2, 3])],
        ),
        ("17,Left-Hippocampus\n18,b\n", [first, second]),
        ("17 Left-Hippocampus\n18 b 1 2 300 0\n", [first, second]),
    ] {
        std::fs::write(&path, text).unwrap();
        let table = read_table(&path).unwrap();
        let found: Vec<_> = table.labels().iter().map(|l| Some(l.colour())).collect();
        let expected: Vec<_> = expected.into_iter().filter(Option::is_some).collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(table.get(17).unwrap().name(), "Left-Hippocampus");
        assert_eq!(table.get(0), None);
    }
    std::fs::write(&path, "0,background\n").unwrap();
    let error = read_table(&path).unwrap_err();
    assert!(matches!(&error, IoError::Labels { source, .. } if **source == LabelError::NoLabels));
    assert!(error.to_string().contains("t.txt"), "{error}");
}

/// A header of many megabytes, and both types of 16 bits.
#[test]
fn as_many_labels_as_there_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::axis_aligned([256, 256, 1], [1.0; 3]).unwrap();
    let map = Volume::from_fn(grid, |x, y, _| (x + 256 * y) as i32);
    let table = LabelTable::new((1..=65535).map(|v| (v, format!("region {v}")))).unwrap();
    let path = folder.path().join("all.seg.nrrd");
    write_segmentation(&path, &map, &table, &WriteOptions::default()).unwrap();
    assert_eq!(read_labels(&path).unwrap(), map);
    assert_eq!(read_table(&path).unwrap(), table);
    assert_eq!(read_info(&path).unwrap().data_type, DataType::U16);
    let image = folder.path().join("all.nii.gz");
    let text = write_nifti(&image, &map, &table, &WriteOptions::default()).unwrap();
    assert_eq!(read_labels(&image).unwrap().data(), map.data());
    assert_eq!(read_table(text).unwrap(), table);
    assert_eq!(read_info(&image).unwrap().data_type, DataType::U16);
}

#[test]
fn the_type_is_that_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let map = Volume::from_fn(grids()[0].clone(), |x, _, _| i32::from(x == 2));
    for (value, expected) in [(2, DataType::U8), (256, DataType::I16), (40000, DataType::U16)] {
        let table = LabelTable::new([(1, "a"), (value, "b")]).unwrap();
        for name in ["a.seg.nrrd", "a.nii"] {
            let path = folder.path().join(name);
            match name.ends_with("nrrd") {
                true => write_segmentation(&path, &map, &table, &WriteOptions::default()).unwrap(),
                false => drop(write_nifti(&path, &map, &table, &WriteOptions::default()).unwrap()),
            }
            assert_eq!(read_info(&path).unwrap().data_type, expected);
            assert_eq!(read_labels(&path).unwrap().data(), map.data());
        }
    }
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let options = WriteOptions::default();
    let grid = grids()[0].clone();
    for (value, index) in
        [(3, [2, 1, 4]), (-1, [6, 5, 0]), (65536 + 1, [0, 0, 0]), (i32::MIN, [0, 0, 1])]
    {
        let odd =
            Volume::from_fn(grid.clone(), |x, y, z| if [x, y, z] == index { value } else { 1 });
        let errors = [
            write_segmentation(at("a.seg.nrrd"), &odd, &table(), &options).unwrap_err(),
            write_nifti(at("a.nii.gz"), &odd, &table(), &options).unwrap_err(),
        ];
        for error in errors {
            let IoError::Labels { source, .. } = &error else { panic!("{error}") };
            assert_eq!(**source, LabelError::Unlisted { value, index });
            let said = error.to_string();
            assert!(said.contains(&format!("{index:?} has the value {value}")), "{said}");
        }
    }
    let map = map(grid);
    for name in ["a.nrrd", "seg.nrrd", "a.seg.nhdr", "a.nii.gz"] {
        let error = write_segmentation(at(name), &map, &table(), &options).unwrap_err();
        assert!(matches!(error, IoError::Unsupported { .. }), "{error}");
    }
    for name in ["a.hdr", "a.seg.nrrd", "a.mha"] {
        let error = write_nifti(at(name), &map, &table(), &options).unwrap_err();
        assert!(matches!(error, IoError::Unsupported { .. }), "{error}");
    }
    assert!(write_nifti(at("a.png"), &map, &table(), &options).is_err());
    let one = Volume::filled(Grid::axis_aligned([1; 3], [1.0; 3]).unwrap(), 1);
    let error = write_segmentation(at("one.seg.nrrd"), &one, &table(), &options).unwrap_err();
    assert!(error.to_string().contains("one voxel"), "{error}");
    assert_eq!(files(folder.path()), [] as [&str; 0]);
    // A folder in the place of the second file leaves the first as it was.
    std::fs::create_dir(at("b_labels.txt")).unwrap();
    assert!(write_nifti(at("b.nii.gz"), &map, &table(), &options).is_err());
    assert_eq!(files(folder.path()), ["b_labels.txt"]);
    let error = write_nifti(at("no/b.nii.gz"), &map, &table(), &options).unwrap_err().to_string();
    assert!(error.contains("create the folder"), "{error}");
}

#[test]
fn both_files_of_a_result_are_moved() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(grids()[3].clone());
    let mut staging = Staging::new(folder.path()).unwrap();
    let write = |path: &Path| write_nifti(path, &map, &table(), &WriteOptions::default()).map(drop);
    staging.write_image("segmentation.nii.gz", write).unwrap();
    let write = |path: &Path| write_segmentation(path, &map, &table(), &WriteOptions::default());
    staging.write("segmentation.seg.nrrd", write).unwrap();
    assert!(read_labels(folder.path().join("segmentation.nii.gz")).is_err());
    staging.commit().unwrap();
    let expected = ["segmentation.nii.gz", "segmentation.seg.nrrd", "segmentation_labels.txt"];
    assert_eq!(files(folder.path()), expected);
    let text = description_path(folder.path().join("segmentation.nii.gz"));
    assert_eq!(read_table(text).unwrap(), table());
}

#[test]
fn names_of_description_files() {
    for (image, expected) in [
        ("a.nii.gz", "a_labels.txt"),
        ("out/a.b.NII.GZ", "out/a.b_labels.txt"),
        ("é.nii", "é_labels.txt"),
        ("a", "a_labels.txt"),
    ] {
        assert_eq!(description_path(image), Path::new(expected));
    }
}

/// Other images of labels are written as they were.
#[test]
fn label_maps_without_names_have_no_intent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii");
    write_labels(&path, &map(grids()[0].clone()), &WriteOptions::default()).unwrap();
    assert_eq!(read_info(&path).unwrap().intent, "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_table_and_grid(
        dims in [1..9usize, 1..9usize, 1..5usize].prop_filter("one voxel", |d| d.iter().product::<usize>() > 1),
        angles in [-3.0..3.0, -1.5..1.5, -3.0..3.0f64],
        spacing in [0.01..9.0f64, 0.01..9.0f64, 0.01..9.0f64],
        flips in [any::<bool>(), any::<bool>(), any::<bool>()],
        origin in [-1e3..1e3f64, -1e3..1e3f64, -1e3..1e3f64],
        labels in proptest::collection::btree_map(
            1..=65535i32, ("[!-~&&[^\"]][ -~é肝&&[^\"]]{0,9}[!-~&&[^\"]]", any::<[u8; 3]>()), 1..20),
        seed in any::<u32>(),
    ) {
        let spacing = std::array::from_fn(|a| if flips[a] { -spacing[a] } else { spacing[a] });
        let grid = grid(dims, angles, spacing, origin);
        let table = LabelTable::with_colours(
            labels.iter().map(|(v, (n, c))| (*v, n.clone(), Some(*c)))).unwrap();
        let values: Vec<i32> = std::iter::once(0).chain(labels.keys().copied()).collect();
        let map = Volume::from_fn(grid, |x, y, z| {
            let mixed = (seed ^ (x + 31 * y + 977 * z) as u32).wrapping_mul(2_654_435_769) >> 8;
            values[mixed as usize % values.len()]
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.seg.nrrd");
        write_segmentation(&path, &map, &table, &WriteOptions::default()).unwrap();
        prop_assert_eq!(&read_labels(&path).unwrap(), &map);
        prop_assert_eq!(&read_table(&path).unwrap(), &table);
        let path = folder.path().join("a.nii.gz");
        let text = write_nifti(&path, &map, &table, &WriteOptions::default()).unwrap();
        let back = read_labels(&path).unwrap();
        prop_assert_eq!(back.data(), map.data());
        prop_assert!(back.grid().approx_eq(map.grid(), 1e-3), "{} {}", back.grid(), map.grid());
        prop_assert_eq!(&read_table(&text).unwrap(), &table);
        let names: BTreeMap<i32, String> = labels.into_iter().map(|(v, (n, _))| (v, n)).collect();
        let mut found = read_label_names(&text).unwrap();
        found.remove(&0);
        prop_assert_eq!(found, names);
    }
}
