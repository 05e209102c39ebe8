//! Files of other programs: tifffile, zarr-python, ome-zarr.

use crate::common::{
    assert_grey8, assert_grey16, assert_reduced, data, each, formula, opened, regions, whole,
};
use voxalign_image::Vector3;
use voxalign_io::image::{DataType, Oddity, Region};
use voxalign_io::pyramid::{PixelType, Pixels, PyramidFormat, PyramidOptions, open};

fn luminance(x: usize, y: usize, value: impl Fn(usize, usize, usize) -> u32) -> u8 {
    let [r, g, b] = [0, 1, 2].map(|c| value(x, y, c));
    ((77 * r + 150 * g + 29 * b + 128) >> 8) as u8
}

#[test]
fn tiles_and_strips_of_grey_values() {
    let source = opened("grey8_tiles.tif");
    assert_eq!(source.info().format, PyramidFormat::Tiff);
    assert_eq!((source.levels()[0].dims(), source.levels()[0].tile), ([70, 45, 1], [32, 16, 1]));
    assert!(!source.info().pixel_size_known);
    assert_grey8(&*source);
    let strips = opened("grey8_packbits_strips.tif");
    assert_eq!(strips.levels()[0].tile, [70, 7, 1]);
    for region in regions([70, 45, 1]) {
        let expected = each(&region, |x, y, z| formula(x, y, z, 0) as u8 / 32);
        assert_eq!(strips.block(0, &region).unwrap(), Pixels::U8(expected));
    }
}

#[test]
fn sixteen_bits_big_endian_with_a_predictor_and_a_resolution() {
    let source = opened("grey16_lzw_big_endian.btf");
    assert_eq!(source.info().format, PyramidFormat::BigTiff);
    assert_eq!(source.info().pixel_type, PixelType::U16);
    assert_grey16(&*source);
    let grid = &source.levels()[0].grid;
    assert!(source.info().pixel_size_known);
    assert_eq!(grid.spacing(), [0.0005, 0.001, 0.0005]);
    // The identity in LPS.
    assert_eq!(grid.orientation(), "LPS");
    assert_eq!(grid.origin().norm(), 0.0);
}

#[test]
fn levels_in_subifds_and_in_pages() {
    let source = opened("grey16_subifds.btf");
    assert_eq!(source.levels().len(), 3);
    assert_grey16(&*source);
    assert_reduced(&*source);
    let coarse = source.levels()[2].grid.origin();
    assert!((coarse - Vector3::new(-1.5 * 0.0005, -1.5 * 0.001, 0.0)).norm() < 1e-12, "{coarse}");
    let pages = opened("rgb8_pages.tif");
    assert_eq!((pages.levels().len(), pages.info().channels), (2, 3));
    for channel in 0..3 {
        let options = PyramidOptions { channel: Some(channel), ..Default::default() };
        assert_reduced(&*open(data("rgb8_pages.tif"), &options).unwrap());
    }
}

#[test]
fn colours_become_luminance_or_a_channel() {
    let value = |x, y, c| formula(x, y, 0, c) & 255;
    for name in ["rgb8_pages.tif", "rgb8_planes.tif"] {
        let source = opened(name);
        for region in regions([70, 45, 1]) {
            let expected = each(&region, |x, y, _| luminance(x, y, value));
            assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(expected), "{name}");
        }
        let colour = |o: &Oddity| matches!(o, Oddity::Colour(_));
        assert_eq!(source.info().oddities.iter().filter(|o| colour(o)).count(), 1);
        for channel in 0..3 {
            let options = PyramidOptions { channel: Some(channel), ..Default::default() };
            let source = open(data(name), &options).unwrap();
            for region in regions([70, 45, 1]) {
                let expected = each(&region, |x, y, _| value(x, y, channel) as u8);
                assert_eq!(source.block(0, &region).unwrap(), Pixels::U8(expected), "{name}");
            }
        }
        let options = PyramidOptions { channel: Some(3), ..Default::default() };
        let said = open(data(name), &options).unwrap_err().to_string();
        assert!(said.contains("no channel 3") && said.contains(name), "{said}");
    }
}

#[test]
fn jpeg_is_near_what_was_written() {
    let value = |x: usize, y: usize, c: usize| [2 * x, 3 * y, 200 - x - y][c] as i32;
    for channel in 0..3 {
        let options = PyramidOptions { channel: Some(channel), ..Default::default() };
        let source = open(data("rgb8_jpeg.tif"), &options).unwrap();
        let region = Region { start: [13, 9, 0], size: [50, 33, 1] };
        let Pixels::U8(found) = source.block(0, &region).unwrap() else { panic!() };
        let expected = each(&region, |x, y, _| value(x, y, channel));
        let worst = found.iter().zip(expected).map(|(&f, e)| (i32::from(f) - e).abs()).max();
        assert!(worst.unwrap() <= 8, "{channel}: {worst:?}");
    }
}

#[test]
fn signed_values_are_exact_and_floats_need_a_window() {
    let source = opened("int16_deflate_strips.tif");
    assert_eq!((source.info().data_type, source.info().offset), (DataType::I16, 32768));
    assert_grey16(&*source);
    let said = open(data("float32_tiles.tif"), &PyramidOptions::default()).unwrap_err().to_string();
    assert!(said.contains("f32") && said.contains("`window`"), "{said}");
    // Twice the values are whole numbers.
    let options = PyramidOptions { window: Some([0.0, 32767.5]), ..Default::default() };
    assert_grey16(&*open(data("float32_tiles.tif"), &options).unwrap());
}

#[test]
fn one_of_several_pages_is_chosen() {
    let said = open(data("pages.tif"), &PyramidOptions::default()).unwrap_err().to_string();
    assert!(said.contains("3 pages of the same size") && said.contains("`volume`"), "{said}");
    let options = PyramidOptions { volume: Some(2), ..Default::default() };
    let source = open(data("pages.tif"), &options).unwrap();
    let expected = each(&Region::whole([20, 17, 1]), |x, y, _| formula(x, y, 2, 0) as u8);
    assert_eq!(whole(&*source, 0), Pixels::U8(expected));
    let options = PyramidOptions { volume: Some(3), ..Default::default() };
    assert!(open(data("pages.tif"), &options).is_err());
}

#[test]
fn white_may_be_zero() {
    let source = opened("white_is_zero.tif");
    let expected = each(&Region::whole([20, 17, 1]), |x, y, _| 255 - formula(x, y, 0, 0) as u8);
    assert_eq!(whole(&*source, 0), Pixels::U8(expected));
    let found = &source.info().oddities;
    assert!(found.iter().any(|o| matches!(o, Oddity::Inverted(_))), "{found:?}");
    assert!(found.iter().any(|o| o.to_string().contains("Orientation is 3")), "{found:?}");
}

#[test]
fn descriptions_say_how_large_pixels_are() {
    for (name, size) in [("grey8.ome.tif", [0.0005, 0.00025]), ("aperio.tif", [0.000499, 0.000499])]
    {
        let source = opened(name);
        assert_grey8(&*source);
        let [x, y, _] = source.levels()[0].grid.spacing();
        assert!((x - size[0]).abs() + (y - size[1]).abs() < 1e-12, "{name}: {x} {y}");
        assert!(source.info().pixel_size_known);
    }
}
