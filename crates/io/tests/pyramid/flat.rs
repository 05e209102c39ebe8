//! Images and pictures as pyramids of one level.
#![allow(clippy::unwrap_used)]

use crate::common::{each, formula, regions};
use voxalign_image::{Affine, Grid, Matrix3, Vector3, Volume};
use voxalign_io::image::{DataType, Region, WriteOptions, write_volume};
use voxalign_io::pyramid::{Missing, Pixels, PyramidFormat, PyramidOptions, open};

#[test]
fn volumes_are_read_in_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Matrix3::new(0.5, 0.1, 0.0, -0.1, 0.5, 0.0, 0.0, 0.0, -2.0);
    let affine = Affine::new(matrix, Vector3::new(3.0, -4.0, 5.0));
    let grid = Grid::new([19, 13, 7], affine).unwrap();
    let value = |x, y, z| (formula(x, y, z, 0) & 255) as f32;
    for (name, kind, shift) in [
        ("a.nii", DataType::U8, 0.0),
        ("a.nii.gz", DataType::U16, 7000.0),
        ("a.mha", DataType::I16, -200.0),
        ("a.nrrd", DataType::I8, -128.0),
    ] {
        let image = Volume::from_fn(grid.clone(), |x, y, z| value(x, y, z) + shift);
        let path = folder.path().join(name);
        let options = WriteOptions { data_type: kind, ..Default::default() };
        write_volume(&path, &image, &options).unwrap();
        let source = open(&path, &PyramidOptions::default()).unwrap();
        assert_eq!((source.info().format, source.levels().len()), (PyramidFormat::Image, 1));
        assert!(source.levels()[0].grid.approx_eq(&grid, 1e-3), "{name}");
        for region in regions([19, 13, 7]) {
            let offset = source.info().offset as f32;
            let expected = each(&region, |x, y, z| value(x, y, z) + shift + offset);
            let expected = match kind {
                DataType::U8 | DataType::I8 => {
                    Pixels::U8(expected.iter().map(|&v| v as u8).collect())
                }
                _ => Pixels::U16(expected.iter().map(|&v| v as u16).collect()),
            };
            assert_eq!(source.block(0, &region).unwrap(), expected, "{name} {region:?}");
        }
    }
    let path = folder.path().join("floats.nii");
    let image = Volume::from_fn(grid, |x, y, z| value(x, y, z) / 2.0);
    write_volume(&path, &image, &WriteOptions::default()).unwrap();
    assert!(open(&path, &PyramidOptions::default()).is_err());
    let options = PyramidOptions { window: Some([0.0, 32767.5]), ..Default::default() };
    let source = open(&path, &options).unwrap();
    let region = Region { start: [1, 2, 3], size: [5, 4, 3] };
    let expected = each(&region, |x, y, z| value(x, y, z) as u16);
    assert_eq!(source.block(0, &region).unwrap(), Pixels::U16(expected));
    let options = PyramidOptions { missing: Missing::Background, ..options };
    assert!(open(&path, &options).unwrap_err().to_string().contains("leave `missing` out"));
}

#[test]
fn pictures_are_held_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.png");
    let value = |x, y, c| formula(x, y, 0, c) as u8;
    let mut bytes = Vec::new();
    for y in 0..13 {
        for x in 0..19 {
            bytes.extend([0, 1, 2, 3].map(|c| value(x, y, c)));
        }
    }
    let mut encoder = png::Encoder::new(std::fs::File::create(&path).unwrap(), 19, 13);
    encoder.set_color(png::ColorType::Rgba);
    let unit = png::Unit::Meter;
    encoder.set_pixel_dims(Some(png::PixelDimensions { xppu: 2000, yppu: 1000, unit }));
    encoder.write_header().unwrap().write_image_data(&bytes).unwrap();
    let source = open(&path, &PyramidOptions::default()).unwrap();
    assert_eq!(source.levels()[0].grid.spacing(), [0.5, 1.0, 0.5]);
    for region in regions([19, 13, 1]) {
        let expected = each(&region, |x, y, _| {
            let [r, g, b] = [0, 1, 2].map(|c| u32::from(value(x, y, c)));
            ((77 * r + 150 * g + 29 * b + 128) >> 8) as u8
        });
        assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(expected));
    }
    let options = PyramidOptions { channel: Some(2), ..Default::default() };
    let source = open(&path, &options).unwrap();
    let region = Region { start: [3, 4, 0], size: [5, 6, 1] };
    let expected = each(&region, |x, y, _| value(x, y, 2));
    assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(expected));
    std::fs::write(folder.path().join("b.png"), b"no picture").unwrap();
    assert!(open(folder.path().join("b.png"), &PyramidOptions::default()).is_err());
}

#[test]
fn the_real_section_is_read() {
    let root = std::env::var_os("VOXALIGN_TEST_DATA").map(std::path::PathBuf::from);
    let root = root.unwrap_or_else(|| {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data")
    });
    let path = root.join("histology_cc10_16Mpx/01-CC10.jpg");
    if !path.exists() {
        assert!(
            std::env::var_os("VOXALIGN_REQUIRE_DATA").is_none(),
            "{} is missing",
            path.display()
        );
        println!("skipped: {} is not there", path.display());
        return;
    }
    let source = open(&path, &PyramidOptions::default()).unwrap();
    let [nx, ny, nz] = source.levels()[0].dims();
    assert!(nx * ny > 10_000_000 && nz == 1, "{nx} x {ny}");
    let region = Region { start: [nx / 2, ny / 2, 0], size: [512, 512, 1] };
    let Pixels::U8(pixels) = source.block(0, &region).unwrap() else { panic!("of 8 bits") };
    // Tissue: neither black nor white.
    let mean = pixels.iter().map(|&p| f64::from(p)).sum::<f64>() / pixels.len() as f64;
    assert!((30.0..250.0).contains(&mean), "{mean}");
}
