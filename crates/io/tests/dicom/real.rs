//! Real files, with values as pydicom 3.0.2 reads them and geometry as SimpleITK 2.5 does: by
//! `pydicom.dcmread(f).pixel_array * RescaleSlope + RescaleIntercept` and
//! `SimpleITK.ImageSeriesReader` with `GetGDCMSeriesFileNames`.

use crate::common;
use std::io::Read;
use std::path::Path;
use voxalign_image::{Matrix3, Vector3, Volume};
use voxalign_io::image::{
    Compression, DataType, ImageInfo, ReadOptions, read_info, read_volume_from_bytes,
    read_volume_of, read_volume_with_info,
};

fn sum(volume: &Volume<f32>) -> f64 {
    volume.data().iter().map(|&v| f64::from(v)).sum()
}

fn range(volume: &Volume<f32>) -> (f32, f32) {
    let data = volume.data().iter();
    data.fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)))
}

fn at(volume: &Volume<f32>, [x, y, z]: [usize; 3]) -> f32 {
    let [nx, ny, _] = volume.grid().dims();
    volume.data()[x + nx * (y + ny * z)]
}

/// Sizes, spacing and sum; smallest and largest value; those of the pixels (5, 7), (30, 40) and of the
/// last.
type Known = (&'static str, [usize; 2], f64, f64, (f32, f32), [f32; 3]);

const MR: (f64, (f32, f32), [f32; 3]) = (2_125_338.0, (127.0, 2145.0), [533.0, 198.0, 862.0]);

const SINGLE: [Known; 8] = [
    ("CT_small.dcm", [128, 128], 0.661468, -1_950_906.0, (-896.0, 1167.0), [-829.0, 46.0, -115.0]),
    (
        "J2K_pixelrep_mismatch.dcm",
        [512, 512],
        0.431,
        -172_605_258.0,
        (-2000.0, 1896.0),
        [-2000.0; 3],
    ),
    ("MR_small.dcm", [64, 64], 0.3125, MR.0, MR.1, MR.2),
    ("MR_small_RLE.dcm", [64, 64], 0.3125, MR.0, MR.1, MR.2),
    ("MR_small_bigendian.dcm", [64, 64], 0.3125, MR.0, MR.1, MR.2),
    ("MR_small_expb.dcm", [64, 64], 0.3125, MR.0, MR.1, MR.2),
    ("MR_small_implicit.dcm", [64, 64], 0.3125, MR.0, MR.1, MR.2),
    ("MR_small_padded.dcm", [64, 64], 0.3125, MR.0, MR.1, MR.2),
];

/// Files that are refused, and the words.
const REFUSED: [(&str, &str); 6] = [
    ("ExplVR_BigEnd.dcm", "a colour image (3 samples per pixel, RGB)"),
    ("JPEG-lossy.dcm", "JPEG with loss and 12 bits per value is not supported"),
    ("MR_truncated.dcm", "the file ends early"),
    ("badVR.dcm", "(0028,0008) has '1A', which is not a number"),
    // pydicom reads its one frame; which of three places is that of it is not known.
    ("liver_1frame.dcm", "there are 1 frames, but functional groups for 3"),
    ("no_meta.dcm", "this is not a DICOM file"),
];

#[test]
fn single_files() {
    let Some(folder) = common::real_files("io_robustness/pydicom") else { return };
    for (name, [columns, rows], spacing, total, ends, values) in SINGLE {
        let (volume, info) = read_volume_with_info(folder.join(name)).unwrap();
        assert_eq!(info.dims, [columns, rows, 1], "{name}");
        assert!((volume.grid().spacing()[0] - spacing).abs() < 1e-9, "{name}");
        assert!((volume.grid().spacing()[1] - spacing).abs() < 1e-9, "{name}");
        assert_eq!(sum(&volume), total, "{name}");
        assert_eq!(range(&volume), ends, "{name}");
        let places = [[5, 7, 0], [30, 40, 0], [columns - 1, rows - 1, 0]];
        assert_eq!(places.map(|p| at(&volume, p)), values, "{name}");
        // The rest of the folder is of other series, or copies of this slice.
        let options = ReadOptions { alone: true, ..ReadOptions::default() };
        assert_eq!(read_volume_of(folder.join(name), &options).unwrap().0, volume);
    }
    let info = |name: &str| read_info(folder.join(name)).unwrap();
    assert_eq!(info("MR_small_RLE.dcm").compression, Compression::RunLengths);
    assert_eq!(info("J2K_pixelrep_mismatch.dcm").compression, Compression::Jpeg2000);
    let ct = info("CT_small.dcm");
    assert_eq!((ct.slope, ct.intercept, ct.data_type), (1.0, -1024.0, DataType::I16));
    let origin = ct.grid.origin() - Vector3::new(158.135803, 179.035797, -75.699997);
    assert!(origin.norm() < 1e-9);
    let tilted = info("J2K_pixelrep_mismatch.dcm").grid;
    // Columns of SimpleITK's direction, with x and y turned to RAS.
    let direction = Matrix3::new(
        -1.0,
        0.0,
        0.0,
        0.0,
        -0.927188410217308,
        -0.374595317587795,
        0.0,
        -0.374595317587795,
        0.927188410217308,
    );
    assert!((tilted.direction() - direction).norm() < 1e-4, "{}", tilted.direction());
}

#[test]
fn refused_files() {
    let Some(folder) = common::real_files("io_robustness/pydicom") else { return };
    for (name, words) in REFUSED {
        let said = read_volume_with_info(folder.join(name)).unwrap_err().to_string();
        assert!(said.contains(words) && said.contains(name), "{said}");
    }
    // Of seven series, one has to be chosen.
    let said = read_info(&folder).unwrap_err().to_string();
    assert!(said.contains("choose one as `series`, by its number or UID"), "{said}");
}

/// Unpacks a tar.gz; its files' names have no more than 100 bytes.
pub(crate) fn unpack(archive: &Path, into: &Path) {
    let packed = std::fs::File::open(archive).unwrap();
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let mut at = 0;
    while at + 512 <= bytes.len() && bytes[at] != 0 {
        let text = |from: usize, len: usize| {
            let field = &bytes[at + from..at + from + len];
            let end = field.iter().position(|&b| b == 0).unwrap_or(len);
            String::from_utf8_lossy(&field[..end]).trim().to_string()
        };
        let size = usize::from_str_radix(&text(124, 12), 8).unwrap();
        let name = text(0, 100);
        let name = Path::new(&name).file_name().unwrap().to_owned();
        if bytes[at + 156] == b'0' {
            std::fs::write(into.join(name), &bytes[at + 512..at + 512 + size]).unwrap();
        }
        at += 512 + size.next_multiple_of(512);
    }
}

/// A series, checked against sizes, spacing, and the positions of the first and the last slice in RAS.
fn check(
    folder: &Path,
    dims: [usize; 3],
    spacing: [f64; 3],
    ends: [[f64; 3]; 2],
) -> (Volume<f32>, ImageInfo) {
    let (volume, info) = read_volume_with_info(folder).unwrap();
    let grid = volume.grid();
    assert_eq!(grid.dims(), dims);
    let off = Vector3::from(grid.spacing()) - Vector3::from(spacing);
    assert!(off.amax() < 1e-6, "{:?}", grid.spacing());
    for (k, end) in [0, dims[2] - 1].into_iter().zip(ends) {
        let found = grid.index_to_world(Vector3::new(0.0, 0.0, k as f64));
        assert!((found - Vector3::from(end)).norm() < 1e-9, "{found}");
    }
    (volume, info)
}

#[test]
fn a_series_of_mr() {
    let Some(data) = common::real_files("dicom_series") else { return };
    let folder = tempfile::tempdir().unwrap();
    unpack(&data.join("PGBM-001_1992-04-02_T1post_24slices.tar.gz"), folder.path());
    let (volume, info) = check(
        folder.path(),
        [260, 320, 24],
        [0.6875, 0.6875, 6.499_999_911_226_572],
        [
            [83.300318105973, 115.80639758755, -61.452879924303],
            [92.558761223114, 91.13178125073, 85.705857258314],
        ],
    );
    assert_eq!(sum(&volume), 719_428_466.0);
    assert_eq!(range(&volume), (0.0, 2505.0));
    assert_eq!([0, 5, 23].map(|z| at(&volume, [100, 120, z])), [1428.0, 689.0, 523.0]);
    assert_eq!((info.data_type, info.format_name.as_str()), (DataType::U16, "DICOM MR"));
    // Columns of SimpleITK's direction, with x and y turned to RAS.
    let direction = Matrix3::new(
        -0.998_080_533_543_607_7,
        1.682_460_074_037_273e-11,
        0.061_929_383_666_458_32,
        -0.010_240_953_534_561_554,
        -0.986_232_432_795_974_3,
        -0.165_047_603_351_387_74,
        0.061_076_766_712_149_6,
        -0.165_365_015_953_599_06,
        0.984_339_392_723_188_5,
    );
    assert!((volume.grid().direction() - direction).norm() < 1e-7);
    // One of its files stands for the series.
    let one = folder.path().join("000007.dcm");
    assert_eq!(read_volume_with_info(one).unwrap().0, volume);
    // Without one of its files it is refused, and says what is missing.
    std::fs::remove_file(folder.path().join("000007.dcm")).unwrap();
    let said = read_info(folder.path()).unwrap_err().to_string();
    assert!(said.contains("slices are missing (about 1)"), "{said}");
    assert!(said.contains("000016.dcm") && said.contains("000022.dcm"), "{said}");
}

#[test]
fn a_series_of_uneven_slices() {
    let Some(data) = common::real_files("dicom_series") else { return };
    let folder = tempfile::tempdir().unwrap();
    unpack(&data.join("papaya_oblique_unevenspacing_19slices.tar.gz"), folder.path());
    let (volume, info) = check(
        folder.path(),
        [256, 256, 19],
        [0.859375, 0.859375, 6.996_615_142_823_715],
        [[110.5, 79.3063, -65.7575], [110.5, 96.2063, 59.0425]],
    );
    assert_eq!(sum(&volume), 210_038_390.0);
    assert_eq!(range(&volume), (0.0, 1059.0));
    assert_eq!([0, 5, 18].map(|z| at(&volume, [100, 120, z])), [230.0, 100.0, 235.0]);
    let said = info.oddities.iter().find(|o| o.contains("not quite evenly spaced")).unwrap();
    assert!(said.contains("6.9583 to 7.0575 mm"), "{said}");
}

#[test]
fn a_series_of_three_slices() {
    let Some(data) = common::real_files("io_robustness/itk/DicomSeries") else { return };
    let (volume, _) = check(
        &data,
        [256, 256, 3],
        [0.859375, 0.85939, 1.600_161_557_468_494_2],
        [[112.0, 21.688, 126.894], [112.0, 18.8578, 128.388]],
    );
    assert_eq!(sum(&volume), 7_426_230.0);
    assert_eq!(range(&volume), (0.0, 192.0));
    assert_eq!([0, 1, 2].map(|z| at(&volume, [100, 120, z])), [29.0, 42.0, 63.0]);
}

/// What was compressed with loss is as near to the original as with OpenJPEG (38.02): quantised values are taken from the
/// middle of what they stand for.
#[test]
fn loss_of_jpeg_2000_is_that_of_the_file() {
    let Some(folder) = common::real_files("dicom_scales") else { return };
    let [packed, exact] = ["CT1_J2KI.dcm", "CT1_J2KR.dcm"].map(|name| {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        read_volume_from_bytes(name, &bytes).unwrap().0.into_parts().1
    });
    assert_eq!(packed.len(), 512 * 512);
    let squares: f64 = packed.iter().zip(&exact).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    let rms = (squares / packed.len() as f64).sqrt();
    assert!(rms < 38.05, "{rms}");
}
