//! What is written is read back: every format, every type, any geometry.

use nalgebra::{Matrix3, Rotation3, Vector3};
use proptest::prelude::*;
use std::path::Path;
use voxalign_image::{Affine, Grid, Volume};
use voxalign_io::image::{
    Compression, DataType, GridSource, WriteOptions, read_info, read_labels, read_volume,
    read_volume_from_bytes, read_volume_into, read_volume_with_info, write_labels, write_values,
    write_volume,
};

const NAMES: [&str; 9] =
    ["a.nii", "a.nii.gz", "a.hdr", "a.img", "a.hdr.gz", "a.mha", "a.mhd", "a.nrrd", "a.nhdr"];

fn grid(dims: [usize; 3], angles: [f64; 3], spacing: [f64; 3], origin: [f64; 3]) -> Grid {
    let r = Rotation3::from_euler_angles(angles[0], angles[1], angles[2]);
    let m = r.matrix() * Matrix3::from_diagonal(&Vector3::from(spacing));
    Grid::new(dims, Affine::new(m, origin.into())).unwrap()
}

fn image(grid: Grid) -> Volume<f32> {
    Volume::from_fn(grid, |x, y, z| ((x * 7 + y * 5 + z * 3) % 128) as f32)
}

fn options(data_type: DataType, compression_level: u32) -> WriteOptions {
    WriteOptions {
        data_type,
        description: Some("words é".into()),
        compression_level,
        ..WriteOptions::default()
    }
}

fn check(path: &Path, volume: &Volume<f32>) {
    let (back, info) = read_volume_with_info(path).unwrap();
    assert_eq!(back.data(), volume.data(), "{}", path.display());
    assert!(back.grid().approx_eq(volume.grid(), 2e-4), "{} {}", back.grid(), volume.grid());
    assert_eq!(read_info(path).unwrap().grid, info.grid);
    assert_eq!(info.description, "words é");
}

/// Memory that is there already gets the same values, and gives the same file.
#[test]
fn values_in_memory_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    // More than one piece of values.
    let volume = image(grid([70, 50, 23], [0.1, 0.2, 0.3], [1.0, 1.5, 2.0], [3.0, -70.0, 9.0]));
    let mut values = vec![7.0; volume.data().len()];
    for name in NAMES {
        for data_type in DataType::ALL {
            for level in [0, 3] {
                let options = options(data_type, level);
                let path = folder.path().join(name);
                write_volume(&path, &volume, &options).unwrap();
                let expected = std::fs::read(&path).unwrap();
                values.fill(f32::NAN);
                let info = read_volume_into(&path, &mut values).unwrap();
                assert_eq!(values, volume.data(), "{name} {data_type}");
                assert_eq!(info.data_type, data_type);
                write_values(&path, volume.grid(), &values, &options).unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), expected);
            }
        }
        let path = folder.path().join(name);
        let short = read_volume_into(&path, &mut values[1..]).unwrap_err().to_string();
        assert!(short.contains(name.split('.').next().unwrap()) && short.contains("80500"));
        assert!(
            write_values(&path, volume.grid(), &values[1..], &options(DataType::F32, 0)).is_err()
        );
    }
    // What is missing is seen, and a scale is applied.
    let path = folder.path().join("cut.nii");
    write_volume(&path, &volume, &options(DataType::F32, 0)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[112..116].copy_from_slice(&2.0f32.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    read_volume_into(&path, &mut values).unwrap();
    assert!(values.iter().zip(volume.data()).all(|(found, v)| *found == 2.0 * v));
    for cut in [bytes.len() - 3, 400] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        assert!(read_volume_into(&path, &mut values).is_err());
    }
}

#[test]
fn every_format_and_type() {
    let folder = tempfile::tempdir().unwrap();
    let volume = image(grid([7, 5, 4], [0.1, 0.2, 0.3], [-1.0, 1.5, 2.0], [3.0, -70.0, 9.0]));
    for name in NAMES {
        for data_type in DataType::ALL {
            for level in [0, 3] {
                let path = folder.path().join(name);
                write_volume(&path, &volume, &options(data_type, level)).unwrap();
                check(&path, &volume);
                assert_eq!(read_info(&path).unwrap().data_type, data_type);
                let labels = read_labels(&path).unwrap();
                assert_eq!(labels, read_volume(&path).unwrap().map(|&v| v as i32));
            }
        }
    }
}

#[test]
fn nothing_but_the_named_files_is_left() {
    for (name, files) in [
        ("a.b.nii.gz", &["a.b.nii.gz"][..]),
        ("a.b.hdr", &["a.b.hdr", "a.b.img"]),
        ("a.b.img.gz", &["a.b.hdr.gz", "a.b.img.gz"]),
        ("a.b.mhd", &["a.b.mhd", "a.b.zraw"]),
        ("a.b.nhdr", &["a.b.nhdr", "a.b.raw.gz"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let volume = image(Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap());
        write_volume(folder.path().join(name), &volume, &options(DataType::F32, 3)).unwrap();
        let mut found: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        found.sort();
        assert_eq!(found, files);
        for file in files.iter().filter(|f| !f.contains("raw")) {
            check(&folder.path().join(file), &volume);
        }
    }
}

#[test]
fn both_forms_of_nifti_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii.gz");
    let right = image(grid([7, 5, 4], [0.1, 0.2, 3.0], [-1.0, 1.5, 2.0], [3.0, -70.0, 9.0]));
    write_volume(&path, &right, &WriteOptions::default()).unwrap();
    let info = read_info(&path).unwrap();
    assert_eq!((info.qform_code, info.sform_code), (1, 1));
    assert_eq!(info.grid_source, GridSource::Sform);
    assert!(info.form_difference_mm.unwrap() < 1e-4);
    assert_eq!(info.compression, Compression::Gzip);
    assert!(info.oddities.iter().any(|o| o.contains("oblique")), "{:?}", info.oddities);
    let m = Matrix3::new(1.0, 0.2, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0);
    let skewed = image(Grid::new([3, 4, 5], Affine::new(m, Vector3::zeros())).unwrap());
    write_volume(&path, &skewed, &WriteOptions::default()).unwrap();
    let info = read_info(&path).unwrap();
    assert_eq!((info.qform_code, info.sform_code), (0, 1));
    assert!(info.oddities.iter().any(|o| o.contains("not orthogonal")), "{:?}", info.oddities);
    assert!(read_volume(&path).unwrap().grid().approx_eq(skewed.grid(), 1e-5));
}

#[test]
fn long_axes_need_nifti_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii");
    let volume = image(Grid::axis_aligned([40_000, 2, 1], [0.1, 0.1, 1.0]).unwrap());
    write_volume(&path, &volume, &options(DataType::U8, 3)).unwrap();
    assert_eq!(read_info(&path).unwrap().format_name, "NIfTI-2");
    check(&path, &volume);
}

#[test]
fn labels_take_the_smallest_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii.gz");
    for (largest, data_type) in [
        (255, DataType::U8),
        (256, DataType::I16),
        (40_000, DataType::U16),
        (1 << 20, DataType::I32),
        (-5, DataType::I16),
    ] {
        let mut labels = Volume::filled(Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap(), 0);
        labels.data_mut()[17] = largest;
        write_labels(&path, &labels, &WriteOptions::default()).unwrap();
        assert_eq!(read_info(&path).unwrap().data_type, data_type);
        assert_eq!(read_labels(&path).unwrap(), labels);
    }
}

#[test]
fn intensities_are_no_labels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii.gz");
    let mut volume = image(Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap());
    volume.data_mut()[3 * 4 * 2 + 3 + 2] = 0.5;
    write_volume(&path, &volume, &WriteOptions::default()).unwrap();
    let message = read_labels(&path).unwrap_err().to_string();
    assert!(message.contains("[2, 1, 2]") && message.contains("0.5"), "{message}");
}

#[test]
fn packed_bytes_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let volume = image(Grid::axis_aligned([100, 100, 60], [1.0; 3]).unwrap());
    for name in ["a.nii.gz", "a.nrrd", "a.mha"] {
        let path = folder.path().join(name);
        let bytes = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| write_volume(&path, &volume, &WriteOptions::default())).unwrap();
            std::fs::read(&path).unwrap()
        };
        let one = bytes(1);
        assert!(one == bytes(2) && one == bytes(5), "{name}");
        let (back, _) = read_volume_from_bytes(name, &one).unwrap();
        assert!(back.data() == volume.data());
    }
}

#[test]
fn text_encoding_and_skips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nhdr");
    let head = "NRRD0004\n# c\ntype: short\ndimension: 2\nsizes: 2 3\nspacings: 2 3\n";
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("a.nhdr", &format!("{head}encoding: text\nline skip: 1\ndata file: a.txt\n"));
    put("a.txt", "no data\n1 2 3\n4,5 -6");
    let volume = read_volume(&path).unwrap();
    assert_eq!(volume.data(), [1., 2., 3., 4., 5., -6.]);
    assert_eq!(volume.grid().spacing(), [2.0, 3.0, 1.0]);
    assert_eq!(volume.grid().orientation(), "LPS");
    put("a.nhdr", &format!("{head}encoding: raw\nendian: big\nbyte skip: -1\ndata file: a.raw\n"));
    std::fs::write(folder.path().join("a.raw"), b"xyz\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06")
        .unwrap();
    assert_eq!(read_volume(&path).unwrap().data(), [1., 2., 3., 4., 5., 6.]);
    put("a.txt", "no data\n1 2 3\n4,5");
    put("a.nhdr", &format!("{head}encoding: text\nline skip: 1\ndata file: a.txt\n"));
    assert!(
        read_volume(&path)
            .unwrap_err()
            .to_string()
            .contains("6 values are expected, but the file has 5")
    );
}

#[test]
fn vectors_are_several_volumes() {
    let text = "NRRD0004\ntype: uchar\ndimension: 4\nspace: RAS\nsizes: 3 2 2 2\n\
                space directions: none (1,0,0) (0,1,0) (0,0,1)\nencoding: raw\n\n";
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend([0; 24]);
    let message = read_volume_from_bytes("a.nrrd", &bytes).unwrap_err().to_string();
    assert!(message.contains("[2, 2, 2, 3]") && message.contains("--volume 0"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_geometry(
        dims in prop::array::uniform3(1usize..7),
        angles in prop::array::uniform3(-3.1..3.1f64),
        spacing in prop::array::uniform3(0.2..4.0f64),
        origin in prop::array::uniform3(-200.0..200.0f64),
        flip in any::<bool>(),
        which in 0..NAMES.len(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut spacing = spacing;
        if flip {
            spacing[1] = -spacing[1];
        }
        let volume = image(grid(dims, angles, spacing, origin));
        let path = folder.path().join(NAMES[which]);
        write_volume(&path, &volume, &options(DataType::F32, 3)).unwrap();
        check(&path, &volume);
        let exact = ["mha", "mhd", "nrrd", "nhdr"].iter().any(|e| NAMES[which].ends_with(e));
        let back = read_info(&path).unwrap().grid;
        prop_assert!(!exact || back.approx_eq(volume.grid(), 1e-10));
    }

    #[test]
    fn any_floats(values in prop::collection::vec(any::<f32>(), 60)) {
        let folder = tempfile::tempdir().unwrap();
        let grid = Grid::axis_aligned([3, 4, 5], [1.0; 3]).unwrap();
        let volume = Volume::new(grid, values).unwrap();
        for name in NAMES {
            let path = folder.path().join(name);
            write_volume(&path, &volume, &WriteOptions::default()).unwrap();
            let back = read_volume(&path).unwrap();
            let same = back.data().iter().zip(volume.data()).all(|(a, b)| a.to_bits() == b.to_bits());
            prop_assert!(same);
        }
    }
}

/// What single precision cannot say makes a file of version 2, not one that nobody reads.
#[test]
fn an_origin_beyond_single_precision_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("far.nii");
    let far = Affine::translation(Vector3::new(1e300, 0.0, 0.0));
    let grid = Grid::axis_aligned([3, 4, 5], [1.0, 2.0, 3.0]).unwrap().moved(&far).unwrap();
    let image = Volume::filled(grid.clone(), 1.0);
    write_volume(&path, &image, &WriteOptions::default()).unwrap();
    assert_eq!(*read_volume(&path).unwrap().grid(), grid);
}
