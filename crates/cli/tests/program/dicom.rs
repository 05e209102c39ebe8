//! Series of DICOM files as images.

use crate::common::{Place, grid, head};
use crate::deform::record;
use std::fs;
use voxalign_image::{Affine, Volume};

/// An element: its tag, its kind and its text.
pub(crate) type Extra<'a> = (u32, &'a [u8; 2], &'a str);

/// A slice as an explicit little-endian DICOM file: elements of a tag, a kind and bytes of even number.
fn slice(series: &str, number: usize, image: &Volume<f32>, extra: &[Extra<'_>]) -> Vec<u8> {
    let [nx, ny, _] = image.dims();
    let text = |s: &str| {
        let mut bytes = s.as_bytes().to_vec();
        bytes.resize(bytes.len().next_multiple_of(2), b' ');
        bytes
    };
    let short = |n: usize| (n as u16).to_le_bytes().to_vec();
    let [sx, sy, _] = image.grid().spacing();
    let at = image.grid().index_to_world([0.0, 0.0, number as f64].into());
    let values = &image.data()[number * nx * ny..(number + 1) * nx * ny];
    let mut out = vec![0; 128];
    out.extend(b"DICM");
    let mut put = |tag: u32, kind: &[u8; 2], bytes: Vec<u8>| {
        out.extend(((tag >> 16) as u16).to_le_bytes());
        out.extend((tag as u16).to_le_bytes());
        out.extend(kind);
        if kind == b"OW" {
            out.extend([0, 0]);
            out.extend((bytes.len() as u32).to_le_bytes());
        } else {
            out.extend((bytes.len() as u16).to_le_bytes());
        }
        out.extend(bytes);
    };
    put(0x0002_0010, b"UI", text("1.2.840.10008.1.2.1"));
    put(0x0008_0060, b"CS", text("MR"));
    put(0x0020_000E, b"UI", text(series));
    // LPS: the axes of the grid run to the right, to the front and up.
    put(0x0020_0032, b"DS", text(&format!("{}\\{}\\{}", -at[0], -at[1], at[2])));
    put(0x0020_0037, b"DS", text("-1\\0\\0\\0\\-1\\0"));
    put(0x0028_0002, b"US", short(1));
    put(0x0028_0004, b"CS", text("MONOCHROME2"));
    put(0x0028_0010, b"US", short(ny));
    put(0x0028_0011, b"US", short(nx));
    put(0x0028_0030, b"DS", text(&format!("{sy}\\{sx}")));
    for (tag, n) in [(0x0028_0100, 16), (0x0028_0101, 16), (0x0028_0102, 15), (0x0028_0103, 1)] {
        put(tag, b"US", short(n));
    }
    extra.iter().for_each(|(tag, kind, value)| put(*tag, kind, text(value)));
    put(0x7FE0_0010, b"OW", values.iter().flat_map(|v| (*v as i16).to_le_bytes()).collect());
    out
}

pub(crate) fn write_series(place: &Place, folder: &str, series: &str, image: &Volume<f32>) {
    write_series_of(place, folder, series, image, &[]);
}

/// As [`write_series`], with more elements in each file.
pub(crate) fn write_series_of(
    place: &Place,
    folder: &str,
    series: &str,
    image: &Volume<f32>,
    extra: &[Extra<'_>],
) {
    fs::create_dir_all(place.path(folder)).unwrap();
    for k in 0..image.dims()[2] {
        let name = format!("{folder}/{series}.{:03}", image.dims()[2] - k);
        fs::write(place.path(&name), slice(series, k, image, extra)).unwrap();
    }
}

#[test]
fn a_folder_of_slices_is_an_image() {
    let place = Place::new();
    place.pair();
    let mut image = head(&grid([40, 36, 30], 4.0), &Affine::identity());
    image.data_mut().iter_mut().for_each(|v| *v = v.round());
    place.image("same.nii.gz", &image);
    write_series(&place, "scan", "1.2.3", &image);
    let facts = place.line("info scan --json").expect(0).json();
    assert_eq!(facts["dims"], serde_json::json!([40, 36, 30]));
    place.line("convert scan converted.nii.gz").expect(0);
    let score = place.line("compare same.nii.gz converted.nii.gz --json").expect(0).json();
    assert_eq!(score["images"]["rms"], 0.0, "{score}");
    let arguments = "moving.nii.gz --dof 6 --search local --no-report";
    place.line(&format!("affine scan {arguments} -o of_slices")).expect(0);
    place.line(&format!("affine same.nii.gz {arguments} -o of_file")).expect(0);
    let bytes = |folder: &str| fs::read(place.path(folder).join("affine.tfm")).unwrap();
    assert_eq!(bytes("of_slices"), bytes("of_file"));
    let input = record(&place, "of_slices")["inputs"][0].clone();
    assert!(input["path"] == "scan" && input["sha256"].as_str().unwrap().len() == 64, "{input}");
    fs::remove_file(place.path("scan/1.2.3.010")).unwrap();
    place.line("info scan").expect(2).says(&["scan", "slice"]);
}

#[test]
fn of_several_series_one_is_chosen() {
    let place = Place::new();
    let small = |n: usize| head(&grid([20, 18, n], 8.0), &Affine::identity());
    write_series(&place, "scans", "1.2.3", &small(10));
    write_series(&place, "scans", "1.2.4", &small(12));
    let list = place.line("info scans").expect(0).out;
    assert!(list.contains("1.2.3") && list.contains("1.2.4"), "{list}");
    place.line("convert scans out.nii.gz").expect(2).says(&["1.2.3", "1.2.4", "series"]);
    place.line("convert scans out.nii.gz --series 1.2.4").expect(0);
    let facts = place.line("info out.nii.gz --json").expect(0).json();
    assert_eq!(facts["dims"][2], 12);
    place.line("info scans --series 1").expect(0);
    place.line("info scans --series 9.9").expect(2).says(&["9.9"]);
}

/// Two volumes of the same slices, of which the values of the second are half as large and have fractions.
fn two_volumes(place: &Place, folder: &str, image: &Volume<f32>) {
    fs::create_dir_all(place.path(folder)).unwrap();
    for (time, slope) in [("1", "1"), ("2", "0.5")] {
        for k in 0..image.dims()[2] {
            // In the order of their numbers, as a data set has them; those of a patient are left out.
            let extra = [
                (0x0010_0010, b"PN", "DOE^JANE"),
                (0x0018_0080, b"DS", "2500"),
                (0x0020_0100, b"IS", time),
                (0x0028_1052, b"DS", "-3"),
                (0x0028_1053, b"DS", slope),
            ];
            let name = format!("{folder}/{time}.{k:03}");
            fs::write(place.path(&name), slice("1.2.3", k, image, &extra)).unwrap();
        }
    }
}

#[test]
fn volumes_with_scales_of_their_own_keep_their_values() {
    let place = Place::new();
    let mut image = head(&grid([20, 18, 10], 8.0), &Affine::identity());
    image.data_mut().iter_mut().for_each(|v| *v = v.round());
    two_volumes(&place, "scan", &image);
    let facts = place.line("info scan --json").expect(0).json();
    assert_eq!((&facts["volumes"], &facts["volume_names"][1]), (&2.into(), &"2.0".into()));
    place.line("convert scan all.nii.gz").expect(0);
    for (volume, slope) in [(0, 1.0), (1, 0.5)] {
        // Of the whole, and of one that is chosen.
        place.line(&format!("convert all.nii.gz one.nii --volume {volume}")).expect(0);
        place.line(&format!("convert scan own{volume}.nii --volume {volume}")).expect(0);
        for name in ["one.nii".to_owned(), format!("own{volume}.nii")] {
            let found = voxalign_io::image::read_volume(place.path(&name)).unwrap();
            let expected: Vec<f32> = image.data().iter().map(|v| v * slope - 3.0).collect();
            assert_eq!(found.data(), expected, "{name}");
        }
    }
    // Where integers are asked for, what they lose is said.
    let said = place.line("convert scan own1.nii --volume 1 --data-type u8").expect(0).err;
    assert!(said.contains("clamped"), "{said}");
}

#[test]
fn what_headers_say_is_beside_the_image() {
    let place = Place::new();
    let image = head(&grid([20, 18, 10], 8.0), &Affine::identity());
    two_volumes(&place, "scan", &image);
    place.line("convert scan all.nii.gz").expect(0);
    let text = fs::read_to_string(place.path("all.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&facts["Modality"], &facts["RepetitionTime"]), (&"MR".into(), &2.5.into()));
    assert!(!text.contains("DOE") && !place.path("all.bval").exists());
    // It is written again over itself, and over nothing else.
    place.line("convert scan all.nii.gz").expect(0);
    fs::write(place.path("other.json"), "{}").unwrap();
    place.line("convert scan other.nii").expect(2).says(&["other.json", "--no-bids"]);
    assert!(!place.path("other.nii").exists());
    place.line("convert scan other.nii --no-bids").expect(0);
    assert_eq!(fs::read_to_string(place.path("other.json")).unwrap(), "{}");
    place.line("convert other.nii again.nii --no-bids").expect(2).says(&["--no-bids"]);
    // Other formats have no such files, and hold one volume.
    place.line("convert scan one.nrrd --volume 0").expect(0);
    assert!(!place.path("one.json").exists());
    place.line("convert scan two.nrrd").expect(2).says(&["--volume"]);
}

#[test]
fn slices_that_are_missing_can_be_interpolated() {
    let place = Place::new();
    let image = head(&grid([20, 18, 10], 8.0), &Affine::identity());
    write_series(&place, "scan", "1.2.3", &image);
    fs::remove_file(place.path("scan/1.2.3.005")).unwrap();
    place.line("convert scan out.nii.gz").expect(2).says(&["missing", "--even"]);
    place.line("convert scan out.nii.gz --even").expect(0).says(&["interpolated to 10"]);
    let facts = place.line("info out.nii.gz --json").expect(0).json();
    assert_eq!(facts["dims"], serde_json::json!([20, 18, 10]));
    place.line("convert out.nii.gz again.nii.gz --even").expect(2).says(&["DICOM"]);
}
