//! Files of other programs, with geometry and values as nibabel 5.4 (NIfTI, ANALYZE) and SimpleITK
//! 2.5 (MetaImage, NRRD) read them. The files are found through `VOXALIGN_TEST_DATA` or in
//! `shared/data` beside the workspace.

use crate::common;

use voxalign_image::Vector3;
use voxalign_io::image::{
    ByteOrder, GridSource, read_info, read_labels, read_volume, read_volume_with_info,
};
use voxalign_io::points::{self, PointFormat, ReadOptions};

type Known = (&'static str, [usize; 3], [f64; 3], [f64; 3], [f64; 3], f64);

/// Name, sizes, world positions of the first voxel, of the end of the first axis and of the last
/// voxel, and the sum of all values.
const KNOWN: [Known; 28] = [
    (
        "itk/HeadMRVolume.mha",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [-188.0, 0.0, 0.0],
        [-188.0, -244.0, 164.0],
        3058332.0,
    ),
    (
        "itk/HeadMRVolume.mhd",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [-188.0, 0.0, 0.0],
        [-188.0, -244.0, 164.0],
        3058332.0,
    ),
    (
        "itk/HeadMRVolumeCompressed.mha",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [-188.0, 0.0, 0.0],
        [-188.0, -244.0, 164.0],
        3058332.0,
    ),
    (
        "itk/HeadMRVolumeWithDirection.mhd",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [-162.8128, 94.0, 0.0],
        [-284.8128, -117.3102, 164.0],
        3058332.0,
    ),
    (
        "itk/HeadMRVolumeWithDirection002.mhd",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [-188.0, 0.0, 0.0],
        [-188.0, -164.0, -244.0],
        3058332.0,
    ),
    (
        "itk/HeadMRVolumeWithDirection003.mhd",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 188.0],
        [244.0, -164.0, 188.0],
        3058332.0,
    ),
    (
        "itk/HeadMRVolumeWithDirection.nhdr",
        [48, 62, 42],
        [0.0, 0.0, 0.0],
        [-162.8127, 94.0, 0.0],
        [-284.8127, -117.3101, 164.0],
        3058332.0,
    ),
    (
        "itk/BigEndian.mhd",
        [24, 24, 1],
        [0.0, 0.0, 0.0],
        [-23.0, 0.0, 0.0],
        [-23.0, -23.0, 0.0],
        4923648.0,
    ),
    (
        "itk/LittleEndian.mhd",
        [24, 24, 1],
        [0.0, 0.0, 0.0],
        [-23.0, 0.0, 0.0],
        [-23.0, -23.0, 0.0],
        4923648.0,
    ),
    (
        "itk/SlopeInterceptUCHAR-midSlice.nrrd",
        [16, 16, 1],
        [0.0, 0.0, 0.0],
        [-30.0, 0.0, 0.0],
        [-30.0, -45.0, 0.0],
        7780.047163009644,
    ),
    (
        "itk/SlopeInterceptUCHAR.nii.gz",
        [16, 5, 16],
        [0.0, 0.0, 0.0],
        [-30.0, 0.0, 0.0],
        [-30.0, -20.0, 45.0],
        39006.23681640625,
    ),
    (
        "itk/LPSLabels.nii.gz",
        [256, 256, 124],
        [120.1166, -77.8649, -128.6971],
        [-118.6255, -70.7488, -138.8207],
        [-125.2515, 79.4915, 123.0478],
        3269322992.8691406,
    ),
    (
        "itk/LPSLabels_noqform.nii.gz",
        [256, 256, 124],
        [120.1166, -77.8649, -128.6971],
        [-118.6255, -70.7488, -138.8207],
        [-125.2515, 79.4915, 123.0478],
        3269322992.8691406,
    ),
    (
        "itk/LPSLabels_nosform.nii.gz",
        [256, 256, 124],
        [120.1166, -77.8649, -128.6971],
        [-118.6255, -70.7488, -138.8207],
        [-125.2515, 79.4915, 123.0477],
        3269322992.8691406,
    ),
    (
        "itk/r16slice.nii.gz",
        [256, 256, 1],
        [0.0, 0.0, 0.0],
        [-255.0, 0.0, 0.0],
        [-255.0, 255.0, 0.0],
        2385034.3625478204,
    ),
    (
        "nibabel/anatomical.nii",
        [33, 41, 25],
        [32.0, -40.0, -16.0],
        [-32.0, -40.0, -16.0],
        [-32.0, 40.0, 32.0],
        284166082.0,
    ),
    (
        "nibabel/reoriented_anat_moved.nii",
        [21, 26, 22],
        [-35.2979, -47.9776, -27.5994],
        [44.7021, -47.9776, -27.5994],
        [44.7021, 52.0224, 56.4006],
        32739769.449157715,
    ),
    (
        "nibabel/standard.nii.gz",
        [4, 5, 7],
        [0.0, 0.0, 0.0],
        [3.0, 0.0, 0.0],
        [3.0, 12.0, 12.0],
        7650.0,
    ),
    (
        "nifti_reader_js/air.img.gz",
        [79, 67, 64],
        [-75.7625, -110.7625, 84.4256],
        [-75.7625, 75.6383, 84.4256],
        [74.5071, 75.6383, -71.7625],
        11398461.247137904,
    ),
    (
        "nifti_reader_js/air2.hdr.gz",
        [79, 67, 64],
        [-75.7625, -110.7625, 84.4256],
        [-75.7625, 75.6383, 84.4256],
        [74.5071, 75.6383, -71.7625],
        11398461.247137904,
    ),
    (
        "nifti_reader_js/avg152T1_LR_nifti.nii.gz",
        [91, 109, 91],
        [90.0, -126.0, -72.0],
        [-90.0, -126.0, -72.0],
        [-90.0, 90.0, 108.0],
        74825382.0,
    ),
    (
        "nifti_reader_js/avg152T1_LR_nifti2.nii.gz",
        [91, 109, 91],
        [90.0, -126.0, -72.0],
        [-90.0, -126.0, -72.0],
        [-90.0, 90.0, 108.0],
        74825382.0,
    ),
    (
        "nifti_reader_js/big.nii.gz",
        [64, 64, 21],
        [0.0, 0.0, 0.0],
        [-252.0, 0.0, 0.0],
        [-252.0, 252.0, 120.0],
        11648.372022011292,
    ),
    (
        "nifti_reader_js/little.nii.gz",
        [64, 64, 21],
        [0.0, 0.0, 0.0],
        [-252.0, 0.0, 0.0],
        [-252.0, 252.0, 120.0],
        11648.372022011292,
    ),
    (
        "nifti_reader_js/with_extension.nii.gz",
        [161, 191, 151],
        [80.0, 80.0, 85.0],
        [-80.0, 80.0, 85.0],
        [-80.0, -110.0, -65.0],
        1472871.0,
    ),
    (
        "oro_nifti/avg152T1.hdr.gz",
        [91, 109, 91],
        [90.0, -126.0, -72.0],
        [-90.0, -126.0, -72.0],
        [-90.0, 90.0, 108.0],
        108149560600.32349,
    ),
    (
        "oro_nifti/mniLR.nii.gz",
        [91, 109, 91],
        [90.0, -126.0, -72.0],
        [-90.0, -126.0, -72.0],
        [-90.0, 90.0, 108.0],
        74825382.0,
    ),
    (
        "oro_nifti/mniRL.nii.gz",
        [91, 109, 91],
        [-90.0, -126.0, -72.0],
        [90.0, -126.0, -72.0],
        [90.0, 90.0, 108.0],
        74825382.0,
    ),
];

#[test]
fn geometry_and_values() {
    let Some(folder) = common::real_files("io_robustness") else { return };
    for (name, dims, first, along, last, sum) in KNOWN {
        let volume = read_volume(folder.join(name)).unwrap();
        assert_eq!(volume.dims(), dims, "{name}");
        let at = |x: usize, y: usize, z: usize| {
            volume.grid().index_to_world(Vector3::new(x as f64, y as f64, z as f64))
        };
        let end = dims.map(|d| d - 1);
        for (found, known) in
            [(at(0, 0, 0), first), (at(end[0], 0, 0), along), (at(end[0], end[1], end[2]), last)]
        {
            assert!((found - Vector3::from(known)).norm() < 2e-4, "{name}: {found} {known:?}");
        }
        let found: f64 = volume.data().iter().map(|&v| f64::from(v)).sum();
        assert!((found - sum).abs() <= 1e-6 * sum.abs(), "{name}: sum {found} instead of {sum}");
    }
}

#[test]
fn expected_failures() {
    let Some(folder) = common::real_files("io_robustness") else { return };
    for (name, part) in [
        ("nifti_reader_js/not-nifti.nii", "not a NIfTI"),
        ("nifti_reader_js/5D_small.nii", "[1, 2, 3, 1, 3]"),
        ("nifti_reader_js/5D_zeros.nii.gz", "3 volumes"),
        ("nibabel/functional.nii", "20 volumes"),
        ("nibabel/example_nifti2.nii.gz", "2 volumes"),
        ("nibabel/row_major.dconn.nii", "100 volumes"),
        ("nibabel/analyze.hdr", "analyze.img' does not exist"),
        ("nibabel/nifti1.hdr", "nifti1.img' does not exist"),
        ("nibabel/nifti2.hdr", "nifti2.img' does not exist"),
        ("nibabel/test.mgz", "extension"),
        ("nibabel/tiny.mnc", "extension"),
        ("pydicom/no_meta.dcm", "not a DICOM file"),
        ("itk", "folder"),
    ] {
        let message = read_volume(folder.join(name)).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains(name), "'{part}' is not in: {message}");
    }
}

#[test]
fn headers_in_words() {
    let Some(folder) = common::real_files("io_robustness") else { return };
    let info = |name: &str| read_info(folder.join(name)).unwrap();
    let oblique = info("itk/LPSLabels.nii.gz");
    assert_eq!(oblique.grid_source, GridSource::Sform);
    assert!(oblique.form_difference_mm.unwrap() < 1e-3);
    assert!(oblique.oddities.iter().any(|o| o.contains("oblique: 22.69 degrees")));
    assert_eq!(info("itk/LPSLabels_nosform.nii.gz").grid_source, GridSource::Qform);
    assert_eq!(info("nifti_reader_js/big.nii.gz").byte_order, ByteOrder::Big);
    assert_eq!(info("nifti_reader_js/with_extension.nii.gz").extensions[0].size, 384);
    assert_eq!(info("nibabel/example_nifti2.nii.gz").format_name, "NIfTI-2");
    let analyze = info("oro_nifti/avg152T1.hdr.gz");
    assert_eq!(analyze.format_name, "ANALYZE 7.5");
    assert_eq!(analyze.grid_source, GridSource::SpmOrigin);
    assert!(analyze.oddities.iter().any(|o| o.contains("Left and right cannot be told")));
    // Both byte orders and packings of one image.
    let first = read_volume(folder.join("itk/LittleEndian.hdr")).unwrap();
    for name in ["BigEndian", "BigEndianCompressed", "LittleEndianCompressed"] {
        let (other, info) = read_volume_with_info(folder.join(format!("itk/{name}.hdr"))).unwrap();
        assert_eq!(other, first, "{name}");
        assert!(info.oddities.iter().any(|o| o.contains("'coronal'")), "{:?}", info.oddities);
    }
}

/// The same brain stored to the left and to the right has the same value at a world position.
#[test]
fn storage_order_does_not_matter() {
    let Some(folder) = common::real_files("io_robustness") else { return };
    let left = read_volume(folder.join("oro_nifti/mniLR.nii.gz")).unwrap();
    let right = read_volume(folder.join("oro_nifti/mniRL.nii.gz")).unwrap();
    for p in [[20.0, 10.0, 30.0], [-36.0, -50.0, 8.0], [44.0, -20.0, -10.0]] {
        let value = |v: &voxalign_image::Volume<f32>| {
            let i = v.grid().world_to_index(Vector3::from(p));
            *v.get(i[0].round() as usize, i[1].round() as usize, i[2].round() as usize).unwrap()
        };
        let mirrored = {
            let i = right.grid().world_to_index(Vector3::new(-p[0], p[1], p[2]));
            *right.get(i[0].round() as usize, i[1].round() as usize, i[2].round() as usize).unwrap()
        };
        // These two files differ in the data: the one is the mirror image of the other.
        assert!(value(&left) == value(&right) || value(&left) == mirrored);
    }
}

#[test]
fn labels() {
    let Some(folder) = common::real_files("io_robustness") else { return };
    // Scaled by 1697.98, so no labels.
    let message = read_labels(folder.join("itk/LPSLabels.nii.gz")).unwrap_err().to_string();
    assert!(message.contains("whole number"), "{message}");
    let labels = read_labels(folder.join("nifti_reader_js/with_extension.nii.gz")).unwrap();
    assert!(labels.data().iter().all(|&v| v == 0 || v == 1));
}

/// elastix' own landmarks, with the places that SimpleITK finds for them.
#[test]
fn lists_of_indices_of_elastix() {
    let Some(folder) = common::real_files("lung_ct_elastix") else { return };
    let read = |name: &str| {
        let grid = read_info(folder.join(format!("3DCT_lung_{name}.mha"))).unwrap().grid;
        let options = ReadOptions { grid: Some(&grid), ..ReadOptions::default() };
        let path = folder.join(format!("3DCT_lung_{name}.txt"));
        let said = points::read(&path, &ReadOptions::default()).unwrap_err().to_string();
        assert!(said.contains("voxel indices"), "{said}");
        let (set, info) = points::read(&path, &options).unwrap();
        assert_eq!((info.format, set.len()), (PointFormat::ElastixIndex, 10));
        set.points().to_vec()
    };
    let (baseline, followup) = (read("baseline"), read("followup"));
    let near = |p: Vector3<f64>, q: [f64; 3]| assert!((p - Vector3::from(q)).norm() < 1e-6, "{p}");
    near(baseline[0], [25.423, 24.68, -1149.5]);
    near(baseline[9], [71.867, -28.594, -1357.0]);
    near(followup[9], [71.675, -23.327, -1324.5]);
    let apart: f64 = baseline.iter().zip(&followup).map(|(p, q)| (p - q).norm()).sum();
    assert!((apart / 10.0 - 34.856_161_870_654_41).abs() < 1e-6);
}
