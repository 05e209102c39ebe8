//! Tables of views, made by `voxalign convert` of calibrations and X-ray images.

use crate::common::Place;
use crate::projection::{ct, json, place};
use std::fs;
use voxalign_image::{Matrix3, Vector3, XrayGeometry};
use voxalign_io::xray::{self, XrayToWrite, geometry};

/// Columns and rows.
const SIZE: [usize; 2] = [48, 40];

/// Two cameras around the CT as a MayaCam 2 file and one of OpenCV, and a matrix of plastimatch.
fn calibrations(place: &Place) {
    let k = [[200.0, 0.0, 23.5], [0.0, 210.0, 19.0], [0.0, 0.0, 1.0]];
    let front = Matrix3::new(1., 0., 0., 0., 0., -1., 0., 1., 0.);
    let side = Matrix3::new(0., 1., 0., 0., 0., -1., -1., 0., 0.);
    let list = |all: &[f64]| all.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(",");
    let rows = |m: &Matrix3<f64>| {
        let row = |r: usize| list(&[m[(r, 0)], m[(r, 1)], m[(r, 2)]]);
        [row(0), row(1), row(2)]
    };
    let t = |r: &Matrix3<f64>| Vector3::new(0.0, 0.0, 800.0) - r * ct().grid().centre();
    let column = |v: Vector3<f64>| v.iter().map(|v| format!("{v:?}\n")).collect::<String>();
    let maya = format!(
        "image size\n48,40\n\ncamera matrix\n{}\n\nrotation\n{}\n\ntranslation\n{}",
        k.map(|row| list(&row)).join("\n"),
        rows(&front).join("\n"),
        column(t(&front))
    );
    place.write("cam1.txt", &maya);
    let opencv = format!(
        "%YAML:1.0\n---\nimage_width: 48\nimage_height: 40\ncamera_matrix: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   \
         data: [ {} ]\nR: [ {} ]\nT: [ {} ]\n",
        list(k.as_flattened()),
        rows(&side).join(", "),
        list(t(&side).as_slice()),
    );
    place.write("cam2.yml", &opencv);
    let matrix =
        "63.5 31.5\n0 0.163 0 1\n0 0 -0.163 2\n-6e-4 0 0 0.6\n1000.0\n1630.0\n1.0 0.0 0.0\n";
    place.write("plasti.txt", matrix);
}

fn picture(place: &Place, name: &str, [columns, rows]: [usize; 2]) {
    let values: Vec<f32> = (0..columns * rows).map(|i| (i % 7) as f32).collect();
    xray::write(place.path(name), &XrayToWrite::new(&values, [columns, rows])).unwrap();
}

/// The geometries of a file, of images of this size where it says none.
fn geometries(place: &Place, name: &str, size: [usize; 2]) -> Vec<XrayGeometry> {
    let one = |view: &geometry::View| view.geometry(view.size().or(Some(size))).unwrap();
    geometry::read(place.path(name)).unwrap().iter().map(one).collect()
}

/// Points are seen at the same pixels.
fn check_same(a: &XrayGeometry, b: &XrayGeometry) {
    assert_eq!(a.dims(), b.dims());
    let centre = ct().grid().centre();
    for i in 0..27 {
        let at = Vector3::new(f64::from(i % 3), f64::from(i / 3 % 3), f64::from(i / 9));
        let point = centre + (at - Vector3::repeat(1.0)) * 70.0;
        let (p, q) = (a.project(point).unwrap(), b.project(point).unwrap());
        assert!((0..2).all(|i| (p[i] - q[i]).abs() < 1e-6), "{p:?} {q:?}");
    }
}

#[test]
fn a_table_has_the_rays_of_what_it_is_made_of() {
    let place = place();
    calibrations(&place);
    let line = "drr ct.nii.gz -o dcm --view ap,lateral --size 48,40 --format dicom --no-report --device cpu";
    place.line(line).expect(0);
    fs::create_dir(place.path("more")).unwrap();
    for (from, to) in
        [("views.toml", "old.toml"), ("ap.dcm", "ap.dcm"), ("lateral.dcm", "lateral.dcm")]
    {
        fs::copy(place.path("dcm").join(from), place.path("more").join(to)).unwrap();
    }
    picture(&place, "plasti.png", [128, 64]);
    for (files, images, size, names) in [
        ("cam1.txt cam2.yml", "", SIZE, &["cam1", "cam2"][..]),
        ("cam2.yml", "--image cam2.png", SIZE, &["cam2"]),
        ("plasti.txt", "--image plasti.png", [128, 64], &["plasti"]),
        ("plasti.txt", "", [128, 64], &["plasti"]),
        ("dcm/ap.dcm dcm/lateral.dcm", "", SIZE, &["ap", "lateral"]),
        ("more/old.toml cam1.txt", "", SIZE, &["ap", "lateral", "cam1"]),
    ] {
        picture(&place, "cam2.png", SIZE);
        place.line(&format!("convert {files} views.toml {images}")).expect(0);
        let found = geometries(&place, "views.toml", size);
        let expected: Vec<_> = files
            .split(' ')
            .flat_map(|file| match xray::read(place.path(file)) {
                Ok(image) => vec![image.geometry.unwrap()],
                Err(_) => geometries(&place, file, size),
            })
            .collect();
        assert_eq!((found.len(), names.len()), (expected.len(), expected.len()), "{files}");
        found.iter().zip(&expected).for_each(|(a, b)| check_same(a, b));
        let views = geometry::read(place.path("views.toml")).unwrap();
        let said: Vec<_> = views.iter().map(|view| view.name.clone().unwrap()).collect();
        assert_eq!(said, names);
        for view in &views {
            let named = files.contains("dcm") || !images.is_empty();
            let old = files.contains("old") && view.name.as_deref() != Some("cam1");
            assert_eq!(view.image.is_some(), named || old, "{files} {view:?}");
            assert!(view.image.as_ref().is_none_or(|image| image.is_file()), "{view:?}");
            let sized = view.size().is_some();
            assert_eq!(sized, files != "plasti.txt" || !images.is_empty());
        }
        place.line("info views.toml").expect(0);
    }
    place.line("info cam1.txt cam2.yml plasti.txt").expect(0);
}

/// `drr` and `pose` take the table, and find with it what they find with the calibrations.
#[test]
fn poses_are_those_by_the_calibrations() {
    let place = place();
    calibrations(&place);
    place.line("convert cam1.txt cam2.yml views.toml").expect(0);
    place.line("drr ct.nii.gz -o sim --geometry views.toml --no-report --device cpu").expect(0);
    place
        .line("convert cam1.txt cam2.yml views.toml --image sim/cam1.png --image sim/cam2.png")
        .expect(0);
    let find = |views: &str, out: &str| {
        let line = format!(
            "pose ct.nii.gz {views} -o {out} --init-rotation 2,0,-1 --starts 1 --restarts 1 --search local --no-report --device cpu"
        );
        let run = place.line(&line);
        assert!([0, 1].contains(&run.code), "{}", run.err);
        json(&place, &format!("{out}/result.json"))["pose"].clone()
    };
    let table = find("--geometry views.toml", "a");
    let files = find("sim/cam1.png sim/cam2.png --geometry cam1.txt --geometry cam2.yml", "b");
    assert!(table.is_array() && table == files, "{table} {files}");
}

#[test]
fn what_makes_no_table() {
    let place = place();
    calibrations(&place);
    picture(&place, "a.png", SIZE);
    picture(&place, "b.png", [30, 40]);
    place.write("own.toml", "[[view]]\nname = 'x'\nimage = 'a.png'\nsource = [0, 900, 0]\norigin = [0, -500, 0]\ncolumn = [1, 0, 0]\nrow = [0, 0, -1]\n");
    let before = place.names();
    for (line, said) in [
        (
            "cam1.txt cam2.yml out.tfm",
            "'cam1.txt' to 'cam2.yml' are 2 files, and 'out.tfm' is made of one",
        ),
        ("ct.nii.gz cam1.txt cam2.yml", "'ct.nii.gz' to 'cam1.txt' are 2 files"),
        (
            "cam1.txt out.tfm",
            "'cam1.txt' holds views of X-ray images, and 'out.tfm' is not a table",
        ),
        (
            "ct.nii.gz out.nii.gz --image a.png",
            "--image is for views, but 'ct.nii.gz' holds images; leave it out",
        ),
        (
            "cam1.txt out.toml --volume 0",
            "--volume is for images and points, but 'cam1.txt' holds views",
        ),
        (
            "a.png out.toml",
            "'a.png': its geometry is unknown; give a calibration, and this image by --image",
        ),
        ("none.txt out.toml", "'none.txt': "),
        (
            "cam1.txt own.toml out.toml --image a.png --image a.png",
            "'own.toml': a view has the image 'a.png'; leave --image out",
        ),
        (
            "cam1.txt cam2.yml out.toml --image a.png",
            "there are 2 views and 1 images by --image; give an image for each view",
        ),
        (
            "cam1.txt out.toml --image b.png",
            "'cam1.txt': the size is 48 x 40 pixels, and the image has 30 x 40",
        ),
        ("cam1.txt out.toml --image none.png", "'none.png': "),
        ("cam1.txt own.toml own.toml", "'own.toml' is both an input and an output"),
        ("cam1.txt no/out.toml", "the folder 'no' does not exist"),
    ] {
        let run = place.line(&format!("convert {line}")).expect(2);
        assert!(run.err.contains(said), "{line}\n{}", run.err);
        assert_eq!(place.names(), before, "{line}");
    }
    // Names with odd letters, and a table that is there already.
    for name in ["a b.png", "été \"1\".png", "-x.png"] {
        fs::copy(place.path("a.png"), place.path(name)).unwrap();
        let image = format!("--image={name}");
        place.run(&["convert", "cam1.txt", "out.toml", &image]).expect(0);
        let view = &geometry::read(place.path("out.toml")).unwrap()[0];
        assert_eq!(view.image.as_ref().unwrap().file_name().unwrap().to_str(), Some(name));
        assert_eq!(format!("{}.png", view.name.as_ref().unwrap()), name);
        let dry = ["pose", "ct.nii.gz", "-o", "o", "--geometry", "out.toml", "--dry-run"];
        place.run(&dry).expect(0);
    }
}

/// Tables of sequences, and those of older versions, name no images: what to do is said.
#[test]
fn folders_whose_tables_name_no_images() {
    let place = place();
    place.line("drr ct.nii.gz -o sim --view ap --size 48,40 --no-report --device cpu").expect(0);
    let table = fs::read_to_string(place.path("sim/views.toml")).unwrap();
    place.write("sim/views.toml", &table.replace("image = \"ap.png\"\n", ""));
    assert!(geometry::read(place.path("sim/views.toml")).unwrap()[0].image.is_none());
    place.line("pose ct.nii.gz sim -o out --device cpu").expect(2).says(&[
        "'sim/views.toml': its views name no images; give a sequence as --stream sim, and otherwise name the images after the CT, \
         with --geometry sim/views.toml",
    ]);
    let dry = "pose ct.nii.gz sim/ap.png --geometry sim/views.toml -o out --dry-run";
    place.line(dry).expect(0);
    assert!(!place.path("out").exists());
}
