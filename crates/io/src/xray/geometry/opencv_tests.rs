use super::*;
use proptest::prelude::*;
use voxalign_image::{Matrix3, Rotation3};

const YAML: &str = "%YAML:1.0
---
calibration_time: \"Wed 25 Nov 2026 [10:11\"
image_width: 640
image_height: 480
flags: 0
camera_matrix: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [ 2.0000000000000000e+03, 0., 320., 0.,
       2500., 240., 0., 0., 1. ]
distortion_coefficients: !!opencv-matrix
   rows: 1
   cols: 5
   dt: d
   data: [ 0., 0., -0., 0., 0. ]
image_points: !!opencv-matrix
   rows: 1
   cols: 2
   dt: \"2f\"
   data: [ .Nan, 1., 2., 3. ]
features:
   - { x:41, lbp:[ 0, 1 ] }
rvec: !!opencv-matrix
   rows: 3
   cols: 1
   dt: d
   data: [ 0., 0., 1.5707963267948966e+000 ]
tvec: [ 10., -20., 900. ]
";

const XML: &str = "<?xml version=\"1.0\"?>
<opencv_storage>
<calibration_time>\"Wed &amp; 25\"</calibration_time>
<cameraResolution>
  640 480</cameraResolution>
<cameraMatrix type_id=\"opencv-matrix\">
  <rows>3</rows>
  <cols>3</cols>
  <dt>d</dt>
  <data>
    2.0000000000000000e+003 0. 320. 0. 2500.
    240. 0. 0. 1.</data></cameraMatrix>
<dist_coeffs type_id=\"opencv-matrix\"><rows>0</rows><cols>0</cols><dt>d</dt><data></data></dist_coeffs>
<dist_coeffs_std_dev type_id=\"opencv-matrix\"><rows>1</rows><cols>1</cols><dt>d</dt><data>3.</data></dist_coeffs_std_dev>
<features><_><x>41</x><rows>7</rows></_></features>
<R type_id=\"opencv-matrix\"><rows>3</rows><cols>3</cols><dt>f</dt><data>0. -1. 0. 1. 0. 0. 0. 0. 1.</data></R>
<T type_id=\"opencv-matrix\"><rows>1</rows><cols>1</cols><dt>3d</dt><data>10. -20. 900.</data></T>
</opencv_storage>
";

fn read_text(text: &str) -> Result<Vec<View>> {
    read_from_bytes("cam.yml", text.as_bytes())
}

fn refused(text: &str) -> String {
    let error = read_text(text).unwrap_err().to_string();
    assert!(error.starts_with("'cam.yml': ") && error.len() < 600, "{error}");
    error
}

/// Where `K (R X + t)` is, and where a view shows it.
fn check_projection(view: &View, k: &Matrix3<f64>, r: &Matrix3<f64>, t: &Vector3<f64>) {
    let geometry = view.geometry(view.size().or(Some([640, 480]))).unwrap();
    for at in [[0.0; 3], [30.0, -40.0, 100.0], [-9.0, 8.0, -70.0], [200.0, 100.0, 5.0]] {
        let there = r * Vector3::from(at) + t;
        let seen = k * there;
        let found = geometry.project(Vector3::from(at));
        if there.z < 1.0 {
            assert!(found.is_none() || there.z > 0.0);
            continue;
        }
        let [column, row] = found.unwrap();
        let bound = 1e-9 * (1.0 + seen.amax() / there.z);
        let off = [column - seen.x / seen.z, row - seen.y / seen.z].map(f64::abs);
        assert!(off[0] < bound.max(1e-6) && off[1] < bound.max(1e-6), "{off:?}");
    }
}

#[test]
fn files_as_opencv_writes_them() {
    let k = Matrix3::new(2000., 0., 320., 0., 2500., 240., 0., 0., 1.);
    let r = Matrix3::new(0., -1., 0., 1., 0., 0., 0., 0., 1.);
    let t = Vector3::new(10., -20., 900.);
    let flow = "K: !!opencv-matrix { rows:3, cols:3, dt:d, data:[ 2000., 0., 320., 0., 2500., 240., 0., 0., 1. ] }\n";
    let start = YAML.find("camera_matrix").unwrap();
    let end = YAML.find("distortion").unwrap();
    let with = |text: &str| format!("{}{text}{}", &YAML[..start], &YAML[end..]);
    for text in [
        YAML.to_owned(),
        YAML.replace('\n', "\r\n"),
        YAML.replace("%YAML:1.0\n---\n", ""),
        YAML.replace("%YAML:1.0", "%YAML 1.2\n# a comment: [\n"),
        YAML.replace("rows: 3\n", "rows: 3     # three\n"),
        with(flow),
        // A list of lists, and a list of lines.
        with("\"cameraMatrix\": [[2000, 0, 320], [0, 2500, 240],\n[0, 0, 1]]\n"),
        with(
            "camera_matrix:\n  cols: 3\n  rows: 3\n  data: [2000, 0, 320, 0, 2500, 240, 0, 0, 1]\n",
        ),
        YAML.replace("tvec: [ 10., -20., 900. ]", "T:\n- 10\n- -20\n- 900"),
        YAML.replace("image_width: 640\nimage_height: 480", "imageSize: [ 640, 480 ]"),
        // A rotation that is said twice, in two ways.
        format!("{YAML}R: [ 0, -1, 0, 1, 0, 0, 0, 0, 1 ]\n"),
        XML.to_owned(),
        XML.replace("<?xml version=\"1.0\"?>", "\n <!-- by hand -->"),
    ] {
        let views = read_text(&text).unwrap();
        let [view] = &views[..] else { panic!("{views:?}") };
        assert_eq!((view.size(), view.assumes_distance()), (Some([640, 480]), true));
        check_projection(view, &k, &r, &t);
    }
    let unsized_ = YAML.replace("image_width: 640\nimage_height: 480\n", "");
    assert_eq!(read_text(&unsized_).unwrap()[0].size(), None);
    // The pose of a single board is that of the camera.
    let pose = "extrinsic_parameters: !!opencv-matrix\n   rows: 1\n   cols: 6\n   dt: d\n   data: [ 0., 0., 1.5707963267948966, \
                10., -20., 900. ]\n";
    let board = format!("{}{pose}", &YAML[..YAML.find("rvec").unwrap()]);
    check_projection(&read_text(&board).unwrap()[0], &k, &r, &t);
}

#[test]
fn stereo_pairs() {
    let pair = "%YAML:1.0\n---\nM1: [ 2000, 0, 320, 0, 2500, 240, 0, 0, 1 ]\nD1: [ 0, 0, 0, 0, 0 ]\nM2: [ 3000, 0, 310, 0, 3100, \
                250, 0, 0, 1 ]\nD2: [ 0, 0, 0, 0 ]\nR: [ 0, 0, 1, 0, 1, 0, -1, 0, 0 ]\nT: [ -800, 0, 900 ]\nR1: [ 1, 2, 3 ]\n";
    let views = read_text(pair).unwrap();
    let [first, second] = &views[..] else { panic!("{views:?}") };
    let k = Matrix3::new(2000., 0., 320., 0., 2500., 240., 0., 0., 1.);
    check_projection(first, &k, &Matrix3::identity(), &Vector3::zeros());
    let k = Matrix3::new(3000., 0., 310., 0., 3100., 250., 0., 0., 1.);
    let r = Matrix3::new(0., 0., 1., 0., 1., 0., -1., 0., 0.);
    check_projection(second, &k, &r, &Vector3::new(-800., 0., 900.));
    for (from, to, said) in [
        ("M2", "M3", "'M1' is the matrix of one of two cameras"),
        ("M1", "M0", "'M2' is the matrix of one of two cameras"),
        ("T: [ -800, 0, 900 ]\n", "", "'R' is there, and no translation"),
        ("D2: [ 0, 0,", "D2: [ 0, 0.1,", "'D2' has 0.1: the lens distorts"),
    ] {
        let error = refused(&pair.replace(from, to));
        assert!(error.contains(said), "{said}\n{error}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let rvec = &YAML[YAML.find("rvec").unwrap()..YAML.find("tvec").unwrap()];
    let long = vec!["1"; 100].join(", ");
    for (from, to, said) in [
        (
            "0., 0., -0., 0.",
            "0., 0., 1e-3, 0.",
            "'distortion_coefficients' has 0.001: the lens distorts; rays",
        ),
        ("flags: 0", "fisheye_model: 1", "'fisheye_model' has 1: the lens distorts"),
        ("camera_matrix", "camera_matrices", "there is no intrinsic matrix; a camera has"),
        (
            "flags: 0",
            "K: [ 1 ]",
            "there are both 'K' and 'camera_matrix', which mean the same; take one of them out",
        ),
        (
            "rows: 3\n   cols: 3",
            "rows: 2\n   cols: 3",
            "'camera_matrix' has 9 numbers, and 2 x 3 are 6; write it as OpenCV",
        ),
        ("rows: 3\n   cols: 3", "rows: 1\n   cols: 9", "'camera_matrix' is 1 x 9; give 3 x 3"),
        ("rows: 3\n   cols: 3", "cols: 3", "'camera_matrix' has no 'rows'"),
        ("rows: 3\n   cols: 3", "rows: 3\n   cols: -3", "'camera_matrix' has 'cols: -3'"),
        ("dt: d", "dt: q", "'camera_matrix' has 'dt: q'"),
        ("dt: d", "dt: 2d", "'camera_matrix' has 9 numbers, and 3 x 6 are 18"),
        ("2500., 240.", ".Nan, 240.", "'camera_matrix' has '.Nan', which is not a finite number"),
        ("2500., 240.", "1e999, 240.", "'camera_matrix' has '1e999', which is not a finite number"),
        (
            "2500., 240.",
            "-2500., 240.",
            "'camera_matrix' is [[2000.0, 0.0, 320.0], [0.0, -2500.0, 240.0]",
        ),
        ("[ 10., -20., 900. ]", "[ 10., -20. ]", "'tvec' is 2 numbers; give x, y and z in mm"),
        (
            "[ 10., -20., 900. ]",
            "[ 10., -20., 9e5 ]",
            "'tvec' is [10.0, -20.0, 900000.0], more than the 100 m",
        ),
        ("[ 10., -20., 900. ]", "here", "'tvec' has 'here', which is not a finite number"),
        ("[ 10., -20., 900. ]", &format!("[ {long} ]"), "'tvec' has more than 64 numbers"),
        ("tvec:", "tvec2:", "'rvec' is there, and no translation ('T' or 'tvec')"),
        (rvec, "", "'tvec' is there, and no rotation ('R' or 'rvec')"),
        (
            &YAML[YAML.find("rvec").unwrap()..],
            "",
            "the position of the camera is missing; a camera has",
        ),
        (rvec, "R: [ 2, 0, 0, 0, 1, 0, 0, 0, 1 ]\n", "'R' is not a rotation: it is off by 3.0000"),
        (
            rvec,
            "rvec: [ 0, 0, 90 ]\n",
            "'rvec' turns by 90, which is more than a turn; give the angle in radians",
        ),
        (rvec, "R: [ 1, 2 ]\n", "'R' is 2 numbers; give a rotation as 3 x 3"),
        (
            "flags: 0",
            "R: [ 0, 0, 0 ]",
            "'rvec' and 'R' are different rotations, by 1.0000; take out",
        ),
        (
            "image_width: 640",
            "image_width: 640.5",
            "'image_width' has 640.5, which is not a number of pixels",
        ),
        (
            "image_width: 640",
            "image_width: 0",
            "'image_width' has 0, which is not a number of pixels",
        ),
        ("image_width: 640\n", "", "'image_height' is there alone; give whole numbers"),
        (
            "flags: 0",
            "image_size: [ 480, 640 ]",
            "'image_size' is 480 x 640, and width and height are 640 x 480",
        ),
        ("flags: 0", "image_size: [ 480 ]", "'image_size' is not two numbers"),
        ("flags: 0", "flags", "line 6: 'flags' is not a key with a value"),
        ("---", "   3", "line 2: '3' belongs to no key"),
        ("flags: 0", "flags: [ 0", "it ends within the brackets of 'flags'"),
    ] {
        assert!(YAML.contains(from), "{from}");
        let error = refused(&YAML.replacen(from, to, 1));
        assert!(error.contains(said), "{said}\n{error}");
    }
    let many = "extrinsic_parameters: !!opencv-matrix\n   rows: 2\n   cols: 6\n   dt: d\n   data: [ 0,0,0,0,0,9, 0,0,0,0,0,9 ]\n";
    let error = refused(&format!("{}{many}", &YAML[..YAML.find("rvec").unwrap()]));
    assert!(error.contains("'extrinsic_parameters' has not the pose of one board"), "{error}");
    for (from, to, said) in [
        (
            "opencv_storage",
            "sba_storage",
            "it is XML of <sba_storage>, and that of OpenCV has <opencv_storage>",
        ),
        ("</T>", "</R>", "line 17: the XML is broken"),
        ("</opencv_storage>", "", "the XML is cut short"),
        ("0. 2500.", "0. &lt;2500.", "'cameraMatrix' has '&2500.', which is not a finite number"),
        (
            "<dt>f</dt><data>0. -1.",
            "<dt>f</dt><data>0. <b>-1.</b>",
            "'R' has 8 numbers, and 3 x 3 are 9",
        ),
    ] {
        assert!(XML.contains(from), "{from}");
        let error = refused(&XML.replace(from, to));
        assert!(error.contains(said), "{said}\n{error}");
    }
}

fn written(k: &Matrix3<f64>, r: &str, t: &Vector3<f64>, xml: bool) -> String {
    let all: Vec<f64> =
        k.row_iter().flat_map(|row| row.iter().copied().collect::<Vec<_>>()).collect();
    let words = |all: &[f64], between: &str| {
        all.iter().map(|v| format!("{v:e}")).collect::<Vec<_>>().join(between)
    };
    if xml {
        format!(
            "<opencv_storage><K type_id=\"opencv-matrix\"><rows>3</rows><cols>3</cols><dt>d</dt><data>{}</data></K>\
             <rvec>{r}</rvec><tvec>{}</tvec></opencv_storage>",
            words(&all, " "),
            words(t.as_slice(), "\n ")
        )
    } else {
        format!(
            "%YAML:1.0\n---\nK: !!opencv-matrix\n   rows: 3\n   cols: 3\n   dt: d\n   data: [ {} ]\nrvec: [ {r} ]\ntvec: [ {} ]\n",
            words(&all, ",\n       "),
            words(t.as_slice(), ", ")
        )
    }
}

proptest! {
    #[test]
    fn points_are_seen_where_k_r_t_has_them(
        f in prop::array::uniform2(100.0..1e4f64),
        c in prop::array::uniform2(-500.0..3000.0f64),
        axis in prop::array::uniform3(-1.8..1.8f64),
        t in (-500.0..500.0f64, -500.0..500.0f64, 300.0..2000.0f64),
        xml: bool,
    ) {
        let k = Matrix3::new(f[0], 0., c[0], 0., f[1], c[1], 0., 0., 1.);
        let t = Vector3::new(t.0, t.1, t.2);
        let r = axis.map(|v| format!("{v:e}")).join(if xml { " " } else { ", " });
        let views = read_text(&written(&k, &r, &t, xml)).unwrap();
        check_projection(&views[0], &k, Rotation3::from_scaled_axis(Vector3::from(axis)).matrix(), &t);
        // A table of it has the same rays.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("views.toml");
        write(&path, &views).unwrap();
        let again = read(&path).unwrap();
        check_projection(&again[0], &k, Rotation3::from_scaled_axis(Vector3::from(axis)).matrix(), &t);
        prop_assert!(again[0].assumes_distance());
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(%YAML:1.0\n|<opencv_storage>)?(K|R|T|camera_matrix|D|image_width|<K>|</K>|:|[ \n\\[\\]{},0-9.]|rows|data|!!opencv-matrix|\"|#|-){0,60}") {
        if let Err(error) = read_text(&text) {
            prop_assert!(error.to_string().len() < 700);
        }
    }
}
