//! PNG and TIFF as other programs write them.

use std::io::Cursor;
use tiff::encoder::colortype::{
    ColorType, Gray8, Gray16, Gray32, Gray32Float, Gray64Float, GrayI16, RGB8, RGBA16,
};
use tiff::encoder::{Compression, DeflateLevel, TiffEncoder, TiffValue};
use tiff::tags::{ExtraSamples, PhotometricInterpretation, Predictor, Tag};
use voxalign_io::image::Oddity;
use voxalign_io::xray::{Xray, read_from_bytes};

/// A PNG of 3 x 2 pixels.
pub(crate) fn png(kind: png::ColorType, depth: png::BitDepth, bytes: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 3, 2);
    encoder.set_color(kind);
    encoder.set_depth(depth);
    if kind == png::ColorType::Indexed {
        encoder.set_palette(vec![0, 0, 0, 100, 100, 100, 255, 0, 0]);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(bytes).unwrap();
    writer.finish().unwrap();
    file
}

fn values(image: &Xray) -> Vec<f32> {
    assert_eq!((image.dims, image.frames, image.values.len()), ([3, 2], 1, 6));
    assert_eq!((image.pixel_size, image.geometry, image.missing_attribute()), (None, None, None));
    image.values.clone()
}

fn words(image: &Xray) -> String {
    image.oddities.iter().map(|o| format!("{o}; ")).collect()
}

#[test]
fn grey_png() {
    use png::{BitDepth, ColorType};
    let wide: Vec<u8> =
        [0u16, 1, 256, 1000, 65534, 65535].iter().flat_map(|v| v.to_be_bytes()).collect();
    let image =
        read_from_bytes("a.png", &png(ColorType::Grayscale, BitDepth::Sixteen, &wide)).unwrap();
    assert_eq!(values(&image), [0., 1., 256., 1000., 65534., 65535.]);
    assert!(image.oddities.is_empty());

    let image = read_from_bytes(
        "a.png",
        &png(ColorType::Grayscale, BitDepth::Eight, &[0, 1, 2, 3, 254, 255]),
    )
    .unwrap();
    assert_eq!(values(&image), [0., 1., 2., 3., 254., 255.]);
    assert!(
        matches!(&image.oddities[..], [Oddity::Coarse(said)] if said == "8 bits: 256 grey values")
    );

    // The extension may say nothing.
    let bits = png(ColorType::Grayscale, BitDepth::One, &[0b1010_0000, 0b0110_0000]);
    let image = read_from_bytes("picture", &bits).unwrap();
    assert_eq!(values(&image), [255., 0., 255., 0., 255., 255.]);
    assert_eq!(words(&image), "1 bit: 2 grey values; ");
}

#[test]
fn colours_and_opacity_of_png() {
    use png::{BitDepth, ColorType};
    let pairs = [10, 255, 20, 0, 30, 7, 40, 255, 50, 255, 60, 255];
    let image =
        read_from_bytes("a.png", &png(ColorType::GrayscaleAlpha, BitDepth::Eight, &pairs)).unwrap();
    assert_eq!(values(&image), [10., 20., 30., 40., 50., 60.]);
    assert!(matches!(image.oddities[..], [Oddity::Opacity(_), Oddity::Coarse(_)]));

    let mut red = [0; 18];
    red[0] = 100;
    red[15..].copy_from_slice(&[9, 9, 9]);
    let image = read_from_bytes("a.png", &png(ColorType::Rgb, BitDepth::Eight, &red)).unwrap();
    assert_eq!(values(&image), [29.9, 0., 0., 0., 0., 9.]);
    assert!(matches!(image.oddities[..], [Oddity::Colour(_), Oddity::Coarse(_)]));

    let wide: Vec<u8> = (0..24u16).flat_map(|v| (v / 4 * 1000).to_be_bytes()).collect();
    let image = read_from_bytes("a.png", &png(ColorType::Rgba, BitDepth::Sixteen, &wide)).unwrap();
    assert_eq!(values(&image), [0., 1000., 2000., 3000., 4000., 5000.]);
    assert!(matches!(image.oddities[..], [Oddity::Colour(_), Oddity::Opacity(_)]));

    let image =
        read_from_bytes("a.png", &png(ColorType::Indexed, BitDepth::Eight, &[0, 1, 2, 0, 0, 1]))
            .unwrap();
    assert_eq!(values(&image), [0., 100., 76.245, 0., 0., 100.]);
}

#[test]
fn notes_of_others_are_left_alone() {
    for (text, said, size) in [
        ("made elsewhere", "", None),
        ("voxalign window 1 0", "its note 'voxalign window 1 0' is damaged", None),
        ("voxalign pixel 0.5 0.25", "", Some([0.5, 0.25])),
    ] {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 1, 1);
        encoder.set_depth(png::BitDepth::Sixteen);
        encoder.add_text_chunk("Comment".into(), text.into()).unwrap();
        encoder.add_text_chunk("Title".into(), "voxalign window 0 1".into()).unwrap();
        encoder.write_header().unwrap().write_image_data(&[1, 0]).unwrap();
        let image = read_from_bytes("a.png", &file).unwrap();
        assert_eq!((image.values[0], image.pixel_size), (256.0, size));
        assert_eq!(image.oddities.is_empty(), said.is_empty());
        assert!(words(&image).contains(said), "{}", words(&image));
    }
}

/// A TIFF of 3 x 2 pixels.
pub(crate) fn tiff<C: ColorType>(
    values: &[C::Inner],
    with: Compression,
    predictor: Predictor,
) -> Vec<u8>
where
    [C::Inner]: TiffValue,
{
    let mut file = Cursor::new(Vec::new());
    let encoder = TiffEncoder::new(&mut file).unwrap();
    let mut encoder = encoder.with_compression(with).with_predictor(predictor);
    encoder.write_image::<C>(3, 2, values).unwrap();
    file.into_inner()
}

/// The same without compression, with a change of the page.
pub(crate) fn plain<C: ColorType>(
    values: &[C::Inner],
    change: impl Fn(
        &mut tiff::encoder::ImageEncoder<
            '_,
            &mut Cursor<Vec<u8>>,
            C,
            tiff::encoder::TiffKindStandard,
        >,
    ),
) -> Vec<u8>
where
    [C::Inner]: TiffValue,
{
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    let mut page = encoder.new_image::<C>(3, 2).unwrap();
    change(&mut page);
    page.write_data(values).unwrap();
    file.into_inner()
}

#[test]
fn values_of_tiff() {
    let none = Compression::Uncompressed;
    let with =
        [none, Compression::Lzw, Compression::Packbits, Compression::Deflate(DeflateLevel::Fast)];
    for with in with {
        for predictor in [Predictor::None, Predictor::Horizontal] {
            if predictor == Predictor::Horizontal && with == none {
                continue;
            }
            let file = tiff::<Gray16>(&[0, 1, 256, 1000, 65534, 65535], with, predictor);
            for name in ["a.tif", "a.TIFF", "page"] {
                let image = read_from_bytes(name, &file).unwrap();
                assert_eq!(values(&image), [0., 1., 256., 1000., 65534., 65535.]);
                assert!(image.oddities.is_empty());
            }
            let file = tiff::<Gray8>(&[0, 1, 2, 3, 254, 255], with, predictor);
            let image = read_from_bytes("a.tif", &file).unwrap();
            assert_eq!(values(&image), [0., 1., 2., 3., 254., 255.]);
            assert!(matches!(image.oddities[..], [Oddity::Coarse(_)]));
        }
        let floats = [0.0, -1.5, 1e30, 3.25, f32::INFINITY, 7.0];
        let file = tiff::<Gray32Float>(&floats, with, Predictor::None);
        let image = read_from_bytes("a.tif", &file).unwrap();
        assert_eq!(values(&image), floats);
        assert!(image.oddities.is_empty());
    }
    let read = |file: Vec<u8>| values(&read_from_bytes("a.tif", &file).unwrap());
    let found = read(tiff::<GrayI16>(&[-5, 4, 3, 2, 1, -32768], none, Predictor::None));
    assert_eq!(found, [-5., 4., 3., 2., 1., -32768.]);
    let found = read(tiff::<Gray32>(&[1 << 20, 4, 3, 2, 1, 0], none, Predictor::None));
    assert_eq!(found, [1048576., 4., 3., 2., 1., 0.]);
    let file = tiff::<Gray64Float>(&[0.5, 4., 3., 2., 1., 0.], none, Predictor::None);
    assert!(words(&read_from_bytes("a.tif", &file).unwrap()).contains("64-bit floats"));
    assert_eq!(read(file), [0.5, 4., 3., 2., 1., 0.]);
}

#[test]
fn colours_and_kinds_of_tiff() {
    let grey = |v: &[u8]| -> Vec<u8> { v.iter().flat_map(|&v| [v, v, v]).collect() };
    let file = tiff::<RGB8>(&grey(&[1, 2, 3, 4, 5, 6]), Compression::Lzw, Predictor::Horizontal);
    let image = read_from_bytes("a.tif", &file).unwrap();
    assert_eq!(values(&image), [1., 2., 3., 4., 5., 6.]);
    assert!(matches!(image.oddities[..], [Oddity::Colour(_), Oddity::Coarse(_)]));
    let wide: Vec<u16> = (0..6).flat_map(|v| [v * 1000, v * 1000, v * 1000, 9]).collect();
    let image = read_from_bytes(
        "a.tif",
        &tiff::<RGBA16>(&wide, Compression::Uncompressed, Predictor::None),
    )
    .unwrap();
    assert_eq!(values(&image), [0., 1000., 2000., 3000., 4000., 5000.]);
    assert!(matches!(image.oddities[..], [Oddity::Colour(_), Oddity::Opacity(_)]));

    let file = plain::<Gray16>(&[0, 1, 2, 65535, 65534, 7], |page| {
        let white = PhotometricInterpretation::WhiteIsZero.to_u16();
        page.encoder().write_tag(Tag::PhotometricInterpretation, white).unwrap();
    });
    let image = read_from_bytes("a.tif", &file).unwrap();
    assert_eq!(values(&image), [65535., 65534., 65533., 0., 1., 65528.]);
    assert!(matches!(image.oddities[..], [Oddity::Inverted(_)]));

    let file = plain::<Gray16>(&[0, 1, 2, 3, 4, 5], |page| {
        page.encoder().write_tag(Tag::Orientation, 4u16).unwrap();
    });
    let image = read_from_bytes("a.tif", &file).unwrap();
    assert_eq!(values(&image), [0., 1., 2., 3., 4., 5.]);
    assert!(words(&image).contains("its Orientation is 4"), "{}", words(&image));

    // A value and its opacity.
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    let mut page = encoder.new_image::<Gray16>(3, 2).unwrap();
    page.extra_samples(&[ExtraSamples::UnassociatedAlpha]).unwrap();
    page.write_data(&[1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9]).unwrap();
    let image = read_from_bytes("a.tif", &file.into_inner()).unwrap();
    assert_eq!(values(&image), [1., 2., 3., 4., 5., 6.]);
    assert!(matches!(image.oddities[..], [Oddity::Opacity(_)]));
}

#[test]
fn colours_in_planes_of_their_own() {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    let mut page = encoder.image_directory().unwrap();
    let planes: Vec<u64> =
        (1..=3u8).map(|c| page.write_data(&[10 * c, 20, 30, 40, 50, 60][..]).unwrap()).collect();
    for (tag, value) in [
        (Tag::ImageWidth, 3u16),
        (Tag::ImageLength, 2),
        (Tag::BitsPerSample, 8),
        (Tag::PhotometricInterpretation, 2),
        (Tag::SamplesPerPixel, 3),
        (Tag::RowsPerStrip, 2),
        (Tag::PlanarConfiguration, 2),
    ] {
        page.write_tag(tag, value).unwrap();
    }
    let planes: Vec<u32> = planes.iter().map(|at| u32::try_from(*at).unwrap()).collect();
    page.write_tag(Tag::StripOffsets, &planes[..]).unwrap();
    page.write_tag(Tag::StripByteCounts, &[6u32; 3][..]).unwrap();
    page.finish().unwrap();
    let image = read_from_bytes("a.tif", &file.into_inner()).unwrap();
    let first = (0.299 * 10.0 + 0.587 * 20.0 + 0.114 * 30.0) as f32;
    assert_eq!(values(&image), [first, 20., 30., 40., 50., 60.]);
}

#[test]
fn pages_of_tiff() {
    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    for page in 0..3u8 {
        encoder.write_image::<Gray8>(2, 2, &[page, 1, 2, 3]).unwrap();
    }
    let mut small = encoder.new_image::<Gray8>(1, 1).unwrap();
    small.encoder().write_tag(Tag::NewSubfileType, 1u32).unwrap();
    small.write_data(&[9]).unwrap();
    let image = read_from_bytes("a.tif", &file.into_inner()).unwrap();
    assert_eq!((image.dims, image.frames), ([2, 2], 3));
    assert_eq!(image.frame(2).unwrap(), [2., 1., 2., 3.]);
    assert_eq!(image.frame(3), None);
    assert!(words(&image).contains("1 pages are small copies"));

    let mut file = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new_big(&mut file).unwrap();
    encoder.write_image::<Gray8>(2, 2, &[0; 4]).unwrap();
    encoder.write_image::<Gray8>(3, 1, &[0; 3]).unwrap();
    let said = read_from_bytes("a.tif", &file.into_inner()).unwrap_err().to_string();
    assert!(said.contains("page 2 has 3 x 1 pixels, but the one before has 2 x 2"), "{said}");
}

#[test]
fn what_is_not_read_says_what_helps() {
    let palette = plain::<Gray8>(&[0; 6], |page| {
        page.encoder().write_tag(Tag::PhotometricInterpretation, 3u16).unwrap();
    });
    let packed = plain::<Gray8>(&[0; 6], |page| {
        page.encoder().write_tag(Tag::Compression, 7u16).unwrap();
    });
    let mut few = plain::<Gray8>(&[0; 6], |_| {});
    let at = few.windows(10).position(|w| w == b"\x02\x01\x03\0\x01\0\0\0\x08\0").unwrap();
    few[at + 8] = 1;
    for (name, bytes, said, remedy) in [
        ("a.tif", palette, "RGBPalette", "save it with 8 or 16 bits of grey"),
        ("a.tif", packed, "JPEG", "without compression or with LZW"),
        ("a.tif", few, "values of 1 bits are not supported", "save it with 8 or 16 bits"),
        ("a.tif", b"II*\0".to_vec(), "ends early", "copy or download"),
        ("a.png", b"II*\0".to_vec(), "not a valid PNG file", "copy or download"),
        ("a.png", b"\x89PNG\r\n".to_vec(), "ends early", "copy or download"),
        ("a.png", vec![7; 100], "not a valid PNG file", "copy or download"),
        ("a.tif", vec![7; 100], "not a valid TIFF file", "copy or download"),
        ("a.jpg", vec![7; 100], "not known for an X-ray image", "converted to PNG or TIFF"),
        ("a", vec![7; 2], "not known for an X-ray image", "use one of .png"),
    ] {
        let error = read_from_bytes(name, &bytes).unwrap_err().to_string();
        assert!(error.starts_with(&format!("'{name}'")), "{error}");
        assert!(error.contains(said) && error.contains(remedy), "{error}");
    }
}
