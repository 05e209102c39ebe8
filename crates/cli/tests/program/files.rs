//! `info` and `convert`.

use crate::common::{Place, grid, head};
use voxalign_image::{Affine, Volume};
use voxalign_io::image::{DataType, read_info, read_labels, read_volume};

#[test]
fn info_of_an_image() {
    let place = Place::new();
    place.image("a.nii.gz", &head(&grid([20, 24, 18], 4.0), &Affine::identity()));
    let run = place.line("info a.nii.gz").expect(0);
    for part in ["20  24  18", "spacing mm", "4  4  4", "RAS", "f32", "gzip", "largest value"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let json = place.line("info a.nii.gz --json").expect(0).json();
    assert_eq!(json["dims"], serde_json::json!([20, 24, 18]));
    assert_eq!(json["voxels_not_finite"], 0);
    assert_eq!(json["odd"], serde_json::json!([]));
    let header = place.line("info a.nii.gz --json --header-only").expect(0).json();
    assert!(header.get("mean_value").is_none());
}

/// Several files: one after the other, and a list for programs; what cannot be read comes after what can.
#[test]
fn info_of_several_files() {
    let place = Place::new();
    place.pair();
    place.write("points.csv", "x,y,z\n1,2,3\n");
    let run = place.line("info fixed.nii.gz moving.nii.gz points.csv --json").expect(0);
    let all: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|f| f["file"].as_str()).collect();
    assert_eq!(names, ["fixed.nii.gz", "moving.nii.gz", "points.csv"].map(Some));
    let one = place.line("info points.csv --json").expect(0).out;
    assert!(serde_json::from_str::<serde_json::Value>(&one).unwrap().is_object());
    let run = place.line("info points.csv missing.nii").expect(2);
    assert!(run.out.contains("points.csv") && run.err.contains("missing.nii"), "{}", run.err);
    place.line("info").expect(2);
}

#[test]
fn info_says_what_is_odd() {
    let place = Place::new();
    let mut image = Volume::filled(grid([4, 4, 4], 1.0), 2.0);
    place.image("constant.nii", &image);
    assert!(place.line("info constant.nii").expect(0).out.contains("constant"));
    image.data_mut()[3] = f32::NAN;
    place.image("nan.nii", &image);
    assert!(place.line("info nan.nii").expect(0).out.contains("--replace-nan"));
    // Axes of another handedness are usual, and MetaImage has no codes.
    let mirror = voxalign_image::Matrix3::from_diagonal(&voxalign_image::Vector3::new(-1., 1., 1.));
    let las = voxalign_image::Grid::new([4, 5, 6], Affine::new(mirror, Default::default()));
    let las = Volume::from_fn(las.unwrap(), |x, _, _| x as f32);
    place.image("las.nii", &las);
    place.image("las.mha", &las);
    for (name, codes) in [("las.nii", true), ("las.mha", false)] {
        let json = place.line(&format!("info {name} --json")).expect(0).json();
        assert_eq!(json["odd"], serde_json::json!([]), "{name}");
        assert!(json["notes"][0].as_str().unwrap().contains("left-handed"), "{name}");
        let said = place.line(&format!("info {name}")).expect(0).out;
        assert_eq!(said.contains("sform code"), codes, "{said}");
    }
    place.line("info none.nii").expect(2).says(&["none.nii"]);
    place.line("info folder").expect(2).says(&["folder", "check the path"]);
    place.write("words", "words");
    place.line("info words").expect(2).says(&["not that of an image", "transform", "points"]);
}

#[test]
fn a_plane_has_a_matrix_of_two_rows() {
    let place = Place::new();
    let plane = Volume::from_fn(grid([9, 7, 1], 2.5), |x, y, _| (x * y) as f32);
    let options = voxalign_io::image::WriteOptions {
        dimensions: 2,
        ..voxalign_io::image::WriteOptions::default()
    };
    voxalign_io::image::write_volume(place.path("a.nii"), &plane, &options).unwrap();
    let said = place.line("info a.nii").expect(0).out;
    let at = said.lines().position(|l| l.starts_with("index to world")).unwrap();
    let row = |i: usize| said.lines().nth(at + i).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(row(0), ["index", "to", "world", "2.5", "0", "-10"]);
    assert_eq!(row(1), ["0", "2.5", "-7.5"]);
    assert!(row(2)[0].chars().all(char::is_alphabetic), "{:?}", row(2));
}

#[test]
fn info_of_points() {
    let place = Place::new();
    place.write("p.csv", "name,x,y,z\nnose,1,2,3\near,-4,5,6\n");
    let json = place.line("info p.csv --json").expect(0).json();
    assert_eq!(json["points"], 2);
    assert_eq!(json["smallest_mm"], serde_json::json!([-4.0, 2.0, 3.0]));
    assert_eq!(json["further_columns"], serde_json::json!(["name"]));
}

#[test]
fn every_image_format() {
    let place = Place::new();
    let turned = grid([9, 8, 7], 2.0).moved(&crate::common::motion()).unwrap();
    let image = Volume::from_fn(turned, |x, y, z| (x + 10 * y + 100 * z) as f32);
    place.image_as("a.nii.gz", &image, DataType::I16);
    for name in ["b.nii", "b.hdr", "b.mha", "b.mhd", "b.nrrd", "b.nhdr"] {
        place.run(&["convert", "a.nii.gz", name]).expect(0);
        let back = read_volume(place.path(name)).unwrap();
        assert_eq!(back.data(), image.data(), "{name}");
        assert!(back.grid().approx_eq(image.grid(), 1e-3), "{name}");
        assert_eq!(read_info(place.path(name)).unwrap().data_type, DataType::I16, "{name}");
    }
}

#[test]
fn types_and_nan() {
    let place = Place::new();
    let mut image = Volume::filled(grid([4, 4, 4], 1.0), 2.6);
    image.data_mut()[5] = f32::NAN;
    image.data_mut()[6] = 300.0;
    place.image("a.nii", &image);
    place.line("convert a.nii b.nii --data-type u8").expect(2).says(&["NaN", "--replace-nan 0"]);
    assert!(!place.path("b.nii").exists());
    place.line("convert a.nii b.nii --data-type u8 --replace-nan 7").expect(0);
    let b = read_volume(place.path("b.nii")).unwrap();
    assert_eq!((b.data()[0], b.data()[5], b.data()[6]), (3.0, 7.0, 255.0));
    // Labels that 32-bit floats cannot hold stay as they are.
    let labels = Volume::filled(grid([2, 2, 2], 1.0), 16_777_217);
    place.labels("l.nii", &labels);
    place.line("convert l.nii m.nii.gz").expect(0);
    assert_eq!(read_labels(place.path("m.nii.gz")).unwrap().data(), labels.data());
}

#[test]
fn points_between_conventions() {
    let place = Place::new();
    place.write("p.csv", "x,y,z,name\n1,2,3,nose\n");
    place.line("convert p.csv q.csv --to-convention lps").expect(0);
    let text = std::fs::read_to_string(place.path("q.csv")).unwrap();
    assert!(text.contains("-1,-2,3,nose"), "{text}");
    place.line("convert p.csv q.csv --replace-nan 0").expect(2).says(&["is for images"]);
}

#[test]
fn conversions_that_make_no_sense() {
    let place = Place::new();
    place.image("a.nii", &Volume::filled(grid([4, 4, 4], 1.0), 2.0));
    place.line("convert a.nii a.csv").expect(2).says(&["cannot be converted to"]);
    place.line("convert a.nii a.tfm").expect(2).says(&["cannot be converted to"]);
    place.line("convert a.nii a.jpg").expect(2).says(&["a.jpg"]);
    place.line("convert a.nii folder/b.nii").expect(2).says(&["create it first"]);
    assert_eq!(place.names(), ["a.nii"]);
}

/// A full disk behind standard output is an error, a closed pipe is none.
#[cfg(target_os = "linux")]
#[test]
fn what_standard_output_does_not_take() {
    use std::process::Stdio;
    let place = Place::new();
    place.image("a.nii", &head(&grid([9, 8, 7], 9.0), &Affine::identity()));
    for line in [&["info", "a.nii"][..], &["info", "a.nii", "--json"], &["--help"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = place.command(line).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{line:?}: {said}");
        assert!(said.contains("standard output") && said.lines().count() == 1, "{said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.command(line).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line:?}");
        assert!(output.stderr.is_empty(), "{line:?}");
    }
}

#[test]
fn whole_numbers_that_lose_something_are_said() {
    let place = Place::new();
    place.image("a.nii", &head(&grid([9, 8, 7], 9.0), &Affine::identity()));
    place.line("convert a.nii b.nii --data-type u8").expect(0).says(&["stored as u8", "rounded"]);
    let run = place.line("convert b.nii c.nii --data-type i16").expect(0);
    assert!(run.err.is_empty(), "{}", run.err);
}

#[test]
fn what_other_programs_convert_is_said() {
    let place = Place::new();
    std::fs::create_dir(place.path("series")).unwrap();
    for (name, hint) in [
        ("series", "DICOM"),
        ("scan.mgz", "mri_convert"),
        ("scan.mnc", "mnc2nii"),
        ("slice.dcm", "dcm2niix"),
        ("slide.JPG", "SimpleITK"),
        ("slide.png", "SimpleITK"),
        ("slide.tif", "SimpleITK"),
        ("scan.nrrd.gz", "gunzip"),
        ("affine.aff12.1D", "nitransforms"),
        ("scan+orig.HEAD", "3dAFNItoNIFTI"),
    ] {
        if name != "series" {
            place.write(name, "x");
        }
        let hint = [hint, name];
        // Pictures may be X-ray images, which `info` reads.
        let of_info =
            if hint[0] == "SimpleITK" && !name.ends_with("JPG") { &hint[1..] } else { &hint };
        place.line(&format!("info {name}")).expect(2).says(of_info);
        place.line(&format!("affine {name} {name} -o out")).expect(2).says(&hint);
    }
    place.image("a.nii", &head(&grid([9, 8, 7], 9.0), &Affine::identity()));
}
