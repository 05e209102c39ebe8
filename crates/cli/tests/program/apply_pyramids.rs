//! Images of any size through transforms.

use crate::common::Place;
use voxalign_image::{Affine, Grid, Matrix3, Transform, Vector3, Volume};
use voxalign_io::image::{DataType, Region, read_info, read_volume};
use voxalign_io::pyramid::{
    Pixels, PyramidOptions, PyramidSource, PyramidToWrite, PyramidWriter, open,
};
use voxalign_io::transform::{Geometry, write};

pub(crate) fn lps(dims: [usize; 3], spacing: f64) -> Grid {
    let axes = Matrix3::from_diagonal(&Vector3::new(-spacing, -spacing, spacing));
    Grid::new(dims, Affine::new(axes, Vector3::zeros())).unwrap()
}

fn value(x: usize, y: usize) -> u8 {
    let wave = (x as f64 / 9.0).sin() * (y as f64 / 13.0).cos();
    (120.0 + 100.0 * wave) as u8 + ((x * 7 + y * 3) % 11) as u8
}

pub(crate) fn section(place: &Place, name: &str, grid: &Grid, channels: usize) {
    let mut what = PyramidToWrite::new(grid.clone(), DataType::U8);
    (what.tile, what.channels) = (Some([64, 64, 1]), channels);
    let writer = PyramidWriter::create(place.path(name), &what).unwrap();
    let [nx, ny, _] = grid.dims();
    let pixel = |c: usize, i: usize| value(i % nx, i / nx).wrapping_add(40 * c as u8);
    let pixels = (0..channels).flat_map(|c| (0..nx * ny).map(move |i| pixel(c, i))).collect();
    writer.write(&Region::whole(grid.dims()), Pixels::U8(pixels).view()).unwrap();
    writer.finish().unwrap();
}

fn opened(place: &Place, name: &str) -> Box<dyn PyramidSource> {
    open(place.path(name), &PyramidOptions::default()).unwrap()
}

fn bytes(source: &dyn PyramidSource, level: usize) -> Vec<u8> {
    match source.block(level, &Region::whole(source.levels()[level].dims())).unwrap() {
        Pixels::U8(pixels) => pixels,
        Pixels::U16(_) => panic!("16 bits"),
    }
}

fn save(place: &Place, name: &str, affine: Affine) {
    write(place.path(name), &Transform::Affine(affine), &Geometry::default()).unwrap();
}

fn place() -> Place {
    let place = Place::new();
    section(&place, "m.ome.zarr", &lps([700, 430, 1], 0.001), 1);
    section(&place, "m.tif", &lps([700, 430, 1], 0.001), 1);
    section(&place, "r.tif", &lps([610, 520, 1], 0.0011), 1);
    let (s, c) = 0.2f64.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
    let about = Vector3::new(-0.3, -0.2, 0.0);
    save(&place, "t.tfm", Affine::about(turn, about, Vector3::new(0.02, -0.01, 0.0)));
    place
}

#[test]
fn sections_are_those_of_the_whole_image() {
    let place = place();
    // The same as an image in memory.
    let grid = lps([700, 430, 1], 0.001);
    let image = Volume::from_fn(grid, |x, y, _| f32::from(value(x, y)));
    place.image_as("m.nii.gz", &image, DataType::U8);
    for rule in ["nearest", "linear", "cubic"] {
        let line = |from: &str, to: &str| {
            let run = place.line(&format!(
                "apply -i {from} -r r.tif -t t.tfm -o {to} --interpolation {rule} --threads 2"
            ));
            run.expect(0)
        };
        line("m.nii.gz", "whole.nii.gz");
        let expected = read_volume(place.path("whole.nii.gz")).unwrap();
        assert!(expected.grid().approx_eq(&opened(&place, "r.tif").levels()[0].grid, 1e-6));
        for (from, to) in [
            ("m.ome.zarr", "w.ome.zarr"),
            ("m.tif", "w.tif"),
            ("m.nii.gz", "v.zarr"),
            ("m.tif", "w.nii"),
        ] {
            let run = line(from, to);
            assert!(run.out.contains("resampled on"), "{}", run.out);
            let found: Vec<f32> = if to == "w.nii" {
                let info = read_info(place.path(to)).unwrap();
                let kind = if rule == "nearest" { DataType::U8 } else { DataType::F32 };
                assert_eq!((info.data_type, info.dimensions), (kind, 2));
                read_volume(place.path(to)).unwrap().data().to_vec()
            } else {
                let source = opened(&place, to);
                assert!(source.levels().len() > 1 && source.info().data_type == DataType::U8);
                bytes(&*source, 0).into_iter().map(f32::from).collect()
            };
            let rounded = |v: &f32| v.round_ties_even().clamp(0.0, 255.0);
            let off =
                expected.data().iter().zip(&found).map(|(a, b)| (rounded(a) - rounded(b)).abs());
            let off: Vec<f32> = off.collect();
            let differ = off.iter().filter(|&&d| d > 0.0).count();
            if rule == "nearest" {
                assert!(differ * 10_000 < off.len(), "{to} {differ}");
            } else {
                assert!(off.iter().all(|&d| d <= 1.0) && differ * 500 < off.len(), "{to} {differ}");
            }
            assert!(found.iter().filter(|&&v| v > 0.0).count() > found.len() / 2);
        }
    }
    assert!(!place.names().iter().any(|name| name.starts_with('.')), "{:?}", place.names());
}

#[test]
fn the_identity_keeps_pixels_and_channels() {
    let place = place();
    section(&place, "c.ome.zarr", &lps([300, 200, 1], 0.001), 3);
    section(&place, "five.zarr", &lps([300, 200, 1], 0.001), 5);
    for (from, to, channels) in [
        ("m.tif", "a.ome.zarr", 1),
        ("m.ome.zarr", "a.btf", 1),
        ("c.ome.zarr", "b.tif", 3),
        ("five.zarr", "b.zarr", 5),
    ] {
        let run = place.line(&format!("apply -i {from} -r {from} -o {to}")).expect(0);
        assert!(!run.err.contains("luminance"), "{}", run.err);
        for channel in 0..channels {
            let options =
                PyramidOptions { channel: (channels > 1).then_some(channel), ..Default::default() };
            let [a, b] = [from, to].map(|name| open(place.path(name), &options).unwrap());
            assert_eq!(b.info().channels, channels);
            assert!(a.levels()[0].grid.approx_eq(&b.levels()[0].grid, 1e-6));
            assert!(bytes(&*a, 0) == bytes(&*b, 0), "{to} {channel}");
        }
    }
    let run = place.line("apply -i c.ome.zarr -r c.ome.zarr -o c.nii").expect(0);
    assert!(run.err.contains("luminance"), "{}", run.err);
    // An older result is replaced, another folder is not.
    place.line("apply -i m.tif -r m.tif -o a.ome.zarr --data-type i16").expect(0);
    assert_eq!(opened(&place, "a.ome.zarr").info().data_type, DataType::I16);
    std::fs::create_dir(place.path("mine.zarr")).unwrap();
    place.write("mine.zarr/notes.txt", "mine");
    place
        .line("apply -i m.tif -r m.tif -o mine.zarr")
        .expect(2)
        .says(&["mine.zarr", "no OME-Zarr"]);
    assert_eq!(std::fs::read(place.path("mine.zarr/notes.txt")).unwrap(), b"mine");
}

#[test]
fn what_cannot_be_resampled_leaves_nothing() {
    let place = place();
    save(&place, "up.tfm", Affine::translation(Vector3::new(0.0, 0.0, 2.0)));
    save(&place, "far.tfm", Affine::translation(Vector3::new(50.0, 0.0, 0.0)));
    let grid = Grid::axis_aligned([50, 40, 1], [0.01; 3]).unwrap();
    place.image_as("ras.nii.gz", &Volume::filled(grid, 1.0), DataType::U8);
    std::fs::copy(place.path("m.tif"), place.path("cut.tif")).unwrap();
    let cut = std::fs::OpenOptions::new().write(true).open(place.path("cut.tif")).unwrap();
    let length = cut.metadata().unwrap().len();
    cut.set_len(length / 2).unwrap();
    let names = place.names();
    let refused = |line: &str, parts: &[&str]| {
        place.line(&format!("apply {line}")).expect(2).says(parts);
        assert_eq!(place.names(), names, "{line}");
    };
    refused("-i m.tif -r m.tif -t up.tfm -o w.tif", &["out of the plane", "2.0000 mm"]);
    refused("-i m.tif -r ras.nii.gz -o w.zarr", &["w.zarr", "axes of the image are"]);
    refused("-i m.tif -r m.tif -o w.zarr --data-type f32", &["w.zarr", "8 or 16 bits"]);
    refused("-i m.tif -r m.tif -o w.zarr --outside -1", &["--outside", "u8"]);
    refused("-i m.tif -r m.tif -o w.zarr --interpolation label", &["label"]);
    refused("-i m.tif -r m.tif -o m.tif", &["both an input and an output"]);
    refused("-i m.ome.zarr -r m.tif -o m.ome.zarr", &["both an input and an output"]);
    refused("-i m.tif -r m.tif -o w.jpg", &["w.jpg", ".nii.gz", ".tif", ".zarr"]);
    refused("-i none.zarr -r m.tif -o w.tif", &["none.zarr", "check the path"]);
    refused("-i m.tif -r none.tif -o w.tif", &["none.tif", "check the path"]);
    refused("-i m.tif -r m.tif -o none/w.tif", &["none"]);
    refused("-i cut.tif -r m.tif -o w.tif", &["cut.tif"]);
    // A hole.
    std::fs::remove_file(place.path("m.ome.zarr/0/6/9")).unwrap();
    refused("-i m.ome.zarr -r m.tif -o w.zarr", &["m.ome.zarr/0/6/9"]);
    refused("-i m.ome.zarr -r m.tif -o w.nii", &["m.ome.zarr/0/6/9"]);
    // Nothing of the image is on the grid: that is written, and said.
    let run = place.line("apply -i m.tif -r r.tif -t far.tfm -o far.tif --outside 9").expect(1);
    assert!(run.err.contains("shows anything of 'm.tif'"), "{}", run.err);
    assert!(bytes(&*opened(&place, "far.tif"), 0).iter().all(|&v| v == 9));
}

/// `info` tells levels and pixel sizes of images in blocks, and `convert` what writes them anew.
#[test]
fn info_and_convert_know_images_in_blocks() {
    let place = Place::new();
    let grid = lps([700, 430, 1], 0.001);
    section(&place, "m.ome.zarr", &grid, 1);
    section(&place, "m.tif", &grid, 3);
    for (name, format, channels) in [("m.ome.zarr", "OME-Zarr (Zarr 2)", 1), ("m.tif", "TIFF", 3)] {
        let said = place.line(&format!("info {name} --json")).expect(0).json();
        assert_eq!((&said["format"], &said["channels"]), (&format.into(), &channels.into()));
        assert_eq!(said["dims"], serde_json::json!([700, 430]));
        assert_eq!(said["levels"], serde_json::json!([[700, 430], [350, 215], [175, 108]]));
        assert_eq!((&said["data_type"], &said["pixel_size_known"]), (&"u8".into(), &true.into()));
        let size = said["spacing_mm"][0].as_f64().unwrap();
        assert!((size - 0.001).abs() < 1e-9, "{name}: {size}");
    }
    let run = place.line("info m.ome.zarr").expect(0);
    assert!(run.out.contains("350  215") && run.out.contains("none"), "{}", run.out);
    place.line("info m.ome.zarr --series 1").expect(2).says(&["--series is for DICOM"]);
    let run = place.line("convert m.ome.zarr m.nii.gz").expect(2);
    run.says(&["m.ome.zarr", "OME-Zarr", "voxalign apply", "--reference"]);
    place.line("apply -i m.ome.zarr -r m.ome.zarr -o m.nii.gz").expect(0);
    assert_eq!(read_info(place.path("m.nii.gz")).unwrap().grid.dims(), [700, 430, 1]);
}
