//! The files of X-ray images and poses: names of views, windows of sequences, frames, series, and what is wrong with them.

use crate::common::{Place, grid, names};
use crate::dicom::{Extra, write_series, write_series_of};
use crate::projection::{ct, json, place};
use std::fs;
use voxalign_image::Volume;
use voxalign_io::xray::{self, XrayToWrite};

/// A view from the front.
const ARM: &str = "size = [48, 40]\nsource_to_isocentre = 800.0\nsource_to_detector = 1200.0\n\
                   isocentre = [0.0, 0.0, 0.0]\npixel = 6.0\n";

/// The names of files that a run is said to write.
fn planned(place: &Place, line: &str) -> Vec<String> {
    let plan = place.line(&format!("{line} --dry-run --json")).expect(0).json();
    let writes = plan["writes"].as_array().unwrap().iter();
    let mut all: Vec<_> =
        writes.map(|w| w.as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect();
    all.sort();
    all
}

fn values(place: &Place, name: &str) -> Vec<f32> {
    xray::read(place.path(name)).unwrap().values
}

/// Each view has files of its own, whatever it is called; a dry run says them as they are.
#[test]
fn views_have_files_of_their_own() {
    let place = place();
    let names_of_views = ["v 1.5", "v/1.5", "v_1.5_2", "../x", "V_1.5"];
    let table: String = names_of_views
        .iter()
        .enumerate()
        .map(|(i, name)| {
            format!("[[view]]\nname = '{name}'\n{ARM}primary = {}.0\nsecondary = 0.0\n", 10 * i)
        })
        .collect();
    place.write("views.toml", &table);
    let line = "drr ct.nii.gz -o a --geometry views.toml --format nifti,png,nifti --device cpu --no-report";
    let said = planned(&place, line);
    place.line(line).expect(0);
    assert_eq!(names(&place.path("a")), said);
    assert_eq!(said.len(), 2 * 5 + 2);
    let record = json(&place, "a/result.json");
    let images = record["images"].as_array().unwrap();
    let found: Vec<_> = images.iter().map(|i| i["name"].as_str().unwrap()).collect();
    assert_eq!(found, ["v_1.5", "v_1.5_3", "v_1.5_2", "_x", "V_1.5_4"]);
    for image in images {
        let name = image["name"].as_str().unwrap();
        let files = [format!("{name}.nii.gz"), format!("{name}.png")];
        assert_eq!(image["files"], serde_json::json!(files));
        assert_eq!(image["view"]["name"], name);
    }
    // Of images without views' names, those of the files count: two are called alike.
    fs::create_dir(place.path("b")).unwrap();
    for (from, to) in [("v_1.5", "ap.front"), ("v_1.5_2", "b/ap.front")] {
        let to = place.path(&format!("{to}.nii.gz"));
        fs::copy(place.path(&format!("a/{from}.nii.gz")), to).unwrap();
    }
    let bare: String = [0, 20]
        .map(|angle| format!("[[view]]\n{ARM}primary = {angle}.0\nsecondary = 0.0\n"))
        .concat();
    place.write("bare.toml", &bare);
    let line = "pose ct.nii.gz ap.front.nii.gz b/ap.front.nii.gz --geometry bare.toml -o c --device cpu \
                --starts 1 --restarts 0 --levels 8";
    let said = planned(&place, line);
    assert!(place.line(line).code < 2);
    assert_eq!(names(&place.path("c")), said);
    assert!(said.contains(&"drr_ap.front.nii.gz".to_owned()), "{said:?}");
    assert!(said.contains(&"drr_ap.front_2.nii.gz".to_owned()), "{said:?}");
}

/// All images of a view share the window of their 16 bits, which is in the record.
#[test]
fn a_sequence_has_one_window() {
    let place = place();
    place.write("poses.csv", "rotation_z,translation_y\n0,0\n90,0\n0,-150\n");
    let line = "drr ct.nii.gz -o a --size 40,30 --view ap,lateral --poses poses.csv --device cpu --no-report \
                --format png,nifti,dicom --values intensity --photons 1e4";
    place.line(line).expect(0);
    let record = json(&place, "a/result.json");
    for view in ["ap", "lateral"] {
        let of = |key: &str| -> Vec<serde_json::Value> {
            let images = record["images"].as_array().unwrap().iter();
            images.filter(|i| i["view"]["name"] == view).map(|i| i[key].clone()).collect()
        };
        let numbers = |key: &str| of(key).iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>();
        let least = numbers("least").into_iter().fold(f64::INFINITY, f64::min);
        let most = numbers("most").into_iter().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(of("window"), vec![serde_json::json!([least, most]); 3]);
        for number in 0..3 {
            let name = format!("a/{view}_{number:04}");
            let exact = values(&place, &format!("{name}.nii.gz"));
            // The same window, so the same steps.
            for (kind, steps) in [("png", 0.51), ("dcm", 0.6)] {
                let found = values(&place, &format!("{name}.{kind}"));
                let off = found.iter().zip(&exact).map(|(a, b)| f64::from((a - b).abs()));
                let off = off.fold(0.0, f64::max) / ((most - least) / 65535.0);
                assert!(off < steps, "{name}.{kind}: {off}");
            }
        }
    }
    // Floats have no window.
    place.line("drr ct.nii.gz -o b --size 40,30 --format tiff --device cpu --no-report").expect(0);
    assert!(json(&place, "b/result.json")["images"][0]["window"].is_null());
}

/// One of several frames is a single image, and one of several series a single CT.
#[test]
fn one_of_several_is_chosen() {
    let place = place();
    let line =
        "drr ct.nii.gz -o x --view ap,lateral --size 48,40 --format nifti --device cpu --no-report";
    place.line(line).expect(0);
    let [ap, lateral] = ["ap", "lateral"].map(|v| values(&place, &format!("x/{v}.nii.gz")));
    let frames = [lateral.clone(), ap.clone(), lateral].concat();
    xray::write(place.path("run.tif"), &XrayToWrite::new(&frames, [48, 40])).unwrap();
    let table = fs::read_to_string(place.path("x/views.toml")).unwrap();
    let (front, _) = table.split_once("\n\n").unwrap();
    place.write("front.toml", front);
    let how = "--device cpu --starts 1 --restarts 0 --levels 8,4 --no-report";
    let pose = |ct: &str, xrays: &str, views: &str, more: &str| {
        place.line(&format!("pose {ct} {xrays} --geometry {views} {how} {more}"))
    };
    let said = ["run.tif", "3 frames", "--frame", "from 0 to 2"];
    pose("ct.nii.gz", "run.tif", "front.toml", "-o a").expect(2).says(&said);
    let said = ["run.tif", "no frame 3", "--frame from 0 to 2"];
    pose("ct.nii.gz", "run.tif", "front.toml", "--frame 3 -o a").expect(2).says(&said);
    let said = ["x/ap.nii.gz", "no frame 1", "frame 0 is its only one"];
    pose("ct.nii.gz", "x/ap.nii.gz", "front.toml", "--frame 1 -o a").expect(2).says(&said);
    let said = ["--frame has 2 numbers", "images is 1"];
    pose("ct.nii.gz", "run.tif", "front.toml", "--frame 1,0 -o a").expect(2).says(&said);
    assert!(!place.path("a").exists());
    let bytes = |folder: &str| fs::read(place.path(&format!("{folder}/affine.tfm"))).unwrap();
    assert!(pose("ct.nii.gz", "run.tif", "front.toml", "--frame 1 -o a").code < 2);
    assert!(pose("ct.nii.gz", "x/ap.nii.gz", "front.toml", "-o b").code < 2);
    assert!(bytes("a") == bytes("b"));
    assert_eq!(json(&place, "a/result.json")["parameters"]["frame"], serde_json::json!([1]));
    // A number for each image.
    let both = "run.tif x/lateral.nii.gz";
    assert!(pose("ct.nii.gz", both, "x/views.toml", "--frame 1,0 -o c").code < 2);
    assert!(pose("ct.nii.gz", "x/ap.nii.gz x/lateral.nii.gz", "x/views.toml", "-o d").code < 2);
    assert!(bytes("c") == bytes("d"));

    let whole = ct().map(|v| v.round());
    place.image("whole.nii.gz", &whole);
    let other = Volume::from_fn(grid([20, 18, 10], 4.0), |_, _, _| -1000.0f32);
    write_series(&place, "scans", "1.2.3", &whole);
    write_series(&place, "scans", "1.2.4", &other);
    let line = "--size 48,40 --format nifti --device cpu --no-report";
    let said = ["scans", "1.2.3", "--series", "choose one"];
    place.line(&format!("drr scans -o e {line}")).expect(2).says(&said);
    place.line(&format!("drr scans -o e {line} --dry-run")).expect(2).says(&said);
    pose("scans", "x/ap.nii.gz", "front.toml", "-o e").expect(2).says(&said);
    place.line(&format!("drr scans -o e {line} --series 1.2.3")).expect(0);
    place.line(&format!("drr whole.nii.gz -o f {line}")).expect(0);
    assert!(values(&place, "e/ap.nii.gz") == values(&place, "f/ap.nii.gz"));
    assert_eq!(json(&place, "e/result.json")["parameters"]["series"], "1.2.3");
    let plan = place.line(&format!("drr scans -o g {line} --series 1 --dry-run --json")).expect(0);
    assert_eq!(plan.json()["reads"][0]["dims"], serde_json::json!(whole.dims()));

    // Two volumes of one file, as MetaImage has them.
    let [nx, ny, nz] = whole.dims();
    let mut file = format!(
        "ObjectType = Image\nNDims = 4\nDimSize = {nx} {ny} {nz} 2\nElementType = MET_FLOAT\n\
         ElementSpacing = 4 4 4 1\nElementByteOrderMSB = False\nElementDataFile = LOCAL\n"
    )
    .into_bytes();
    let values: Vec<f32> =
        vec![-1000.0; nx * ny * nz].into_iter().chain(whole.data().to_vec()).collect();
    file.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    fs::write(place.path("two.mha"), file).unwrap();
    place.line(&format!("drr two.mha -o h {line}")).expect(2).says(&["two.mha", "--volume"]);
    place
        .line(&format!("drr two.mha -o h {line} --volume 2"))
        .expect(2)
        .says(&["two.mha", "0 to 1"]);
    place.line(&format!("drr two.mha -o h {line} --volume 0")).expect(2).says(&["absorbs"]);
    place.line(&format!("drr two.mha -o h {line} --volume 1")).expect(0);
    assert_eq!(json(&place, "h/result.json")["parameters"]["volume"], 1);
}

/// What is wrong with an image is told with its name, and leaves nothing.
#[test]
fn images_that_tell_nothing() {
    let place = place();
    let line = "drr ct.nii.gz -o x --size 48,40 --format nifti --device cpu --no-report";
    place.line(line).expect(0);
    let good = values(&place, "x/ap.nii.gz");
    let write = |name: &str, values: &[f32]| {
        xray::write(place.path(name), &XrayToWrite::new(values, [48, 40])).unwrap();
    };
    let mut holes = good.clone();
    holes[5] = f32::NAN;
    write("holes.tif", &holes);
    write("dark.tif", &good.iter().map(|v| -v).collect::<Vec<_>>());
    write("flat.tif", &vec![3.0; good.len()]);
    let how = "--geometry x/views.toml --starts 1 --restarts 0 --device cpu --no-report";
    for (line, said) in [
        ("holes.tif", vec!["holes.tif", "1 pixel is NaN or infinite", "--region"]),
        ("holes.tif --pixels intensity", vec!["holes.tif", "1 pixel is NaN"]),
        (
            "dark.tif --pixels intensity",
            vec!["dark.tif", "largest value is 0,", "--pixels attenuation"],
        ),
        ("flat.tif", vec!["flat.tif", "all pixels are 3"]),
        ("x/ap.nii.gz --levels 500", vec!["--levels", "500", "give smaller ones"]),
    ] {
        place.line(&format!("pose ct.nii.gz {line} {how} -o a")).expect(2).says(&said);
        assert!(!place.path("a").exists(), "{line}");
    }
    // What does not count may be anything.
    let region = "--levels 8 --region 0,1,48,39";
    assert!(place.line(&format!("pose ct.nii.gz holes.tif {how} {region} -o a")).code < 2);
}

/// `info` tells X-ray images and their views as it does every other file.
#[test]
fn info_reads_images_and_views() {
    let place = place();
    place
        .line("drr ct.nii.gz --view ap,lateral --format png,tiff --device cpu --no-report -o sim")
        .expect(0);
    let record = json(&place, "sim/result.json");
    for (name, kind) in [("sim/ap.png", "X-ray image"), ("sim/ap.tif", "X-ray image")] {
        let said = place.line(&format!("info {name} --json")).expect(0).json();
        assert_eq!(said["kind"], kind);
        let most = record["images"][0]["most"].as_f64().unwrap();
        let found = said["largest_value"].as_f64().unwrap();
        assert!((found - most).abs() < 1e-3 * most, "{name}: {found} and {most}");
    }
    let said = place.line("info sim/views.toml --json").expect(0).json();
    assert_eq!(said["views"], 2);
    let first = &said["parts"][0];
    assert_eq!(first["name"], "ap");
    let length = |v: &serde_json::Value| {
        let at = |i: usize| v[i].as_f64().unwrap();
        (0..3)
            .map(|i| (at(i) - first["detector_centre_mm"][i].as_f64().unwrap()).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let distance = first["source_to_detector_mm"].as_f64().unwrap();
    assert!((length(&first["source_mm"]) - distance).abs() < 1.0);
    let run = place.line("info sim/views.toml sim/ap.png").expect(0);
    assert!(run.out.contains("view 'lateral'") && run.out.contains("X-ray image"), "{}", run.out);
    place.write("other.toml", "similarity = 'mi'\n");
    place.line("info other.toml").expect(2).says(&["other.toml", "similarity"]);
    place.line("info sim/ap.png --volume 0").expect(2);
}

/// A TIFF file of 8 x 8 pixels, in which one entry is a text that is longer than the file.
fn with_long_text(tag: u16) -> Vec<u8> {
    let entries: [(u16, u32); 11] = [
        (256, 8),
        (257, 8),
        (258, 8),
        (259, 1),
        (262, 1),
        (270, 200),
        (273, 200),
        (277, 1),
        (278, 8),
        (279, 64),
        (339, 1),
    ];
    let mut bytes = b"II*\0\x08\0\0\0\x0b\0".to_vec();
    for (name, value) in entries {
        let (kind, count) = if name == tag { (2, 0x7FFF_FFFF) } else { (4u16, 1u32) };
        bytes.extend(name.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes.resize(200, 0);
    bytes.extend(0..64);
    bytes
}

/// What is wrong with a file is said once, in words of the program.
#[test]
fn long_texts_of_tiff_are_refused_in_one_line() {
    let place = Place::new();
    fs::write(place.path("good.tif"), with_long_text(0)).unwrap();
    place.line("info good.tif").expect(0);
    for tag in [270, 273, 277, 278, 279, 339] {
        fs::write(place.path("a.tif"), with_long_text(tag)).unwrap();
        let run = place.line("info a.tif").expect(2);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        run.says(&["a.tif", &format!("the tag {tag} claims a text of 2147483647 bytes")]);
    }
}

/// The bytes of an element of a DICOM file with a short length, without what fills it up; none where there is none.
fn element(bytes: &[u8], tag: u32) -> Option<&[u8]> {
    let halves = [(tag >> 16) as u16, tag as u16].map(u16::to_le_bytes);
    let at = bytes.windows(4).position(|w| w == halves.as_flattened())?;
    let length = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
    let value = bytes[at + 8..at + 8 + length].trim_ascii_end();
    Some(value.strip_suffix(b"\0").unwrap_or(value))
}

/// The images of a run are one series of the CT's study, and the same bytes each time, wherever the files lie.
#[test]
fn a_run_is_a_series_of_dicom() {
    let place = place();
    let mut volume = ct();
    volume.data_mut().iter_mut().for_each(|v| *v = v.round());
    let study: [Extra<'_>; 2] =
        [(0x0010_0010, b"PN", "Doe^Jane"), (0x0020_000D, b"UI", "1.2.840.1")];
    write_series_of(&place, "scan", "1.2.3", &volume, &study);
    fs::create_dir(place.path("moved")).unwrap();
    write_series_of(&place, "moved/there", "1.2.3", &volume, &study);
    place.write("poses.csv", "rotation_z\n0\n90\n0\n");
    let line = "--size 40,30 --view ap,pa,lateral --poses poses.csv --device cpu --no-report --format dicom,png";
    for (ct, folder) in [("scan", "a"), ("moved/there", "b"), ("ct.nii.gz", "c")] {
        place.line(&format!("drr {ct} -o {folder} {line}")).expect(0);
    }
    let files: Vec<_> = ["ap", "pa", "lateral"]
        .iter()
        .flat_map(|view| (0..3).map(move |n| format!("{view}_{n:04}.dcm")))
        .collect();
    let of = |folder: &str, name: &str| fs::read(place.path(folder).join(name)).unwrap();
    let (mut series, mut instances) = (Vec::new(), Vec::new());
    for (i, name) in files.iter().enumerate() {
        let (bytes, other) = (of("a", name), of("c", name));
        assert!(bytes == of("b", name), "{name}");
        assert_eq!(element(&bytes, 0x0010_0010).unwrap(), b"Doe^Jane");
        assert_eq!(element(&bytes, 0x0020_000D).unwrap(), b"1.2.840.1");
        assert_eq!(element(&bytes, 0x0020_0013).unwrap(), (i + 1).to_string().as_bytes());
        assert!(element(&bytes, 0x0008_103E).unwrap().starts_with(b"Digitally reconstructed"));
        assert!(element(&other, 0x0020_000D).unwrap().starts_with(b"2.25."));
        assert_eq!(element(&other, 0x0010_0010).unwrap(), b"");
        for bytes in [&bytes, &other] {
            // Of the C-arm and of the treatment machine: as it is by default.
            let distance = [0x0018_1111, 0x3002_0022].iter().find_map(|&tag| element(bytes, tag));
            assert_eq!(distance.unwrap(), b"1000", "{name}");
            series.push(element(bytes, 0x0020_000E).unwrap().to_vec());
            instances.push(element(bytes, 0x0008_0018).unwrap().to_vec());
        }
    }
    for all in [&mut series, &mut instances] {
        all.sort();
        all.dedup();
    }
    assert_eq!((series.len(), instances.len()), (2, 2 * files.len()));
}

/// Without `--pixels` a header says what values are; with it, it is told where it says otherwise.
#[test]
fn headers_say_what_pixels_are() {
    let place = place();
    let line = "drr ct.nii.gz -o x --size 48,40 --view ap,pa --values intensity --format dicom,nifti --device cpu \
                --no-report";
    place.line(line).expect(0);
    let pose = |what: &str, folder: &str| {
        let how = "--device cpu --starts 1 --restarts 0 --levels 8 --no-report";
        let run = place.line(&format!("pose ct.nii.gz {what} {how} -o {folder}"));
        assert!(run.code < 2, "{}", run.err);
        (run.err, json(&place, &format!("{folder}/result.json"))["parameters"]["pixels"].clone())
    };
    let (said, pixels) = pose("x/ap.dcm x/pa.dcm", "a");
    assert!(pixels == "intensity" && !said.contains("(0028,1040)"), "{said}");
    let (said, pixels) = pose("x/ap.dcm x/pa.dcm --pixels attenuation", "b");
    assert!(
        pixels == "attenuation" && said.contains("values are intensities (0028,1040)"),
        "{said}"
    );
    let (said, pixels) = pose("x/ap.dcm x/pa.nii.gz --geometry x/views.toml", "c");
    assert_eq!(pixels, serde_json::json!(["intensity", "attenuation"]), "{said}");
}
