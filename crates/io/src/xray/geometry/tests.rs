use super::*;
use proptest::prelude::*;
use voxalign_image::{CArm, Gantry, Matrix3, Rotation3, Vector3};

fn read_text(text: &str) -> Result<Vec<View>> {
    read_from_bytes("a.toml", text.as_bytes())
}

fn one(text: &str) -> View {
    let views = read_text(&format!("[[view]]\n{text}")).unwrap();
    assert_eq!(views.len(), 1);
    views[0].clone()
}

/// The message about a view.
fn refused(text: &str) -> String {
    let error = read_text(&format!("[[view]]\nname = 'one'\n{text}")).unwrap_err().to_string();
    assert!(error.starts_with("'a.toml': ") && error.len() < 600, "{error}");
    error
}

fn near(a: &XrayGeometry, b: &XrayGeometry, within: f64) -> bool {
    let [columns, rows] = a.dims().map(|n| n as f64 - 1.0);
    let places = |view: &XrayGeometry| {
        [view.source(), view.origin(), view.place(columns, 0.0), view.place(0.0, rows)]
    };
    a.dims() == b.dims() && places(a).iter().zip(places(b)).all(|(a, b)| (a - b).norm() < within)
}

fn arm() -> CArm {
    CArm {
        source_to_isocentre: 785.0,
        source_to_detector: 1200.0,
        isocentre: Vector3::new(12.0, -30.5, 101.0),
        primary: 30f64.to_radians(),
        secondary: -10f64.to_radians(),
        pixel_size: [0.4, 0.4],
        dims: [1024, 768],
        centre: None,
    }
}

const ARM: &str = "source_to_isocentre = 785\nsource_to_detector = 1200.0\nisocentre = [12, -30.5, 101]\n\
                   pixel = 0.4\nsize = [1024, 768]\n";

#[test]
fn every_form() {
    let view = one(&format!(
        "{ARM}primary = 30\nsecondary = -10.0\nname = 'front'\nregion = [1, 2, 30, 40]"
    ));
    assert_eq!((view.name.as_deref(), view.region), (Some("front"), Some([1, 2, 30, 40])));
    assert!(view.image.is_none() && view.has_geometry());
    let expected = arm().geometry().unwrap();
    assert!(near(&view.geometry(None).unwrap(), &expected, 1e-9));

    let lps = ARM.replace("[12, -30.5, 101]", "[-12, 30.5, 101]");
    let view = one(&format!("{lps}world = 'lps'\nprimary = 30\nsecondary = -10.0\n"));
    assert!(near(&view.geometry(None).unwrap(), &expected, 1e-9));
    let view = one(&format!("{ARM}gantry = 30\ncentre = [10, 20.5]").replace("0.4", "[0.4, 0.3]"));
    let aside = CArm { centre: Some([10.0, 20.5]), pixel_size: [0.4, 0.3], ..arm() };
    let machine = Gantry { arm: aside, angle: 30f64.to_radians() };
    assert!(near(&view.geometry(None).unwrap(), &machine.geometry().unwrap(), 1e-9));

    let plain = "source = [1, 1000, 2]\norigin = [100, -500, 50]\ncolumn = [-1, 0, 0]\nrow = [0, 0, -0.5]\nsize = [5, 4]";
    let v = |x, y, z| Vector3::new(x, y, z);
    let expected = XrayGeometry::new(
        v(1., 1000., 2.),
        v(100., -500., 50.),
        v(-1., 0., 0.),
        v(0., 0., -0.5),
        [5, 4],
    )
    .unwrap();
    assert!(near(&one(plain).geometry(None).unwrap(), &expected, 1e-9));
    let lps = "source = [-1, -1000, 2]\norigin = [-100, 500, 50]\ncolumn = [1, 0, 0]\nrow = [0, 0, -0.5]\nsize = [5, 4]";
    let view = one(&format!("{lps}\nworld = 'lps'"));
    assert!(near(&view.geometry(None).unwrap(), &expected, 1e-9));
}

#[test]
fn cameras_see_what_opencv_says() {
    let k = "K = [[2000, 0, 320], [0, 2500.0, 240], [0, 0, 1]]";
    let r = Rotation3::from_euler_angles(0.3, -0.2, 0.1);
    let rows: Vec<Vec<f64>> =
        r.matrix().row_iter().map(|row| row.iter().copied().collect()).collect();
    let camera = format!("{k}\nR = {rows:?}\nt = [10, -20, 900]\nsize = [640, 480]");
    let matrix = Matrix3::new(2000., 0., 320., 0., 2500., 240., 0., 0., 1.);
    let seen = |point: Vector3<f64>| {
        let p = matrix * (r * point + Vector3::new(10., -20., 900.));
        [p.x / p.z, p.y / p.z]
    };
    let source = -(r.inverse() * Vector3::new(10., -20., 900.));
    for (more, flip, far) in [
        ("", 1.0, 1.5 * source.norm()),
        ("source_to_detector = 1234", 1.0, 1234.0),
        ("pixel = [0.5, 0.4]", 1.0, 1000.0),
        ("world = 'lps'\npixel = [0.5, 0.4]", -1.0, 1000.0),
    ] {
        let view = one(&format!("{camera}\n{more}"));
        assert_eq!(view.assumes_distance(), more.is_empty(), "{more}");
        let view = view.geometry(None).unwrap();
        assert!((view.source_to_detector() - far).abs() < 1e-6, "{more}");
        for point in [Vector3::zeros(), Vector3::new(30., -40., 100.), Vector3::new(-9., 8., -70.)]
        {
            let there = Vector3::new(flip * point.x, flip * point.y, point.z);
            let (found, expected) = (view.project(there).unwrap(), seen(point));
            assert!((found[0] - expected[0]).abs() < 1e-6 && (found[1] - expected[1]).abs() < 1e-6);
        }
    }
    let p = arm().geometry().unwrap().projection() * 7.0;
    let rows: Vec<Vec<f64>> = p.row_iter().map(|row| row.iter().copied().collect()).collect();
    let text = format!("projection = {rows:?}\nsize = [1024, 768]\nsource_to_detector = 1200");
    assert!(near(&one(&text).geometry(None).unwrap(), &arm().geometry().unwrap(), 1e-6));
    // The sign of a matrix says what is in front.
    let behind =
        (-p).row_iter().map(|row| row.iter().copied().collect()).collect::<Vec<Vec<f64>>>();
    let view = one(&format!("projection = {behind:?}\nsize = [9, 9]")).geometry(None).unwrap();
    assert!(view.project(arm().isocentre).is_none());
    assert!((view.source() - arm().geometry().unwrap().source()).norm() < 1e-6);
}

#[test]
fn distances_that_nothing_says_are_assumed() {
    let rows = "[[1, 2, 3, 4], [5, 6, 8, 8], [9, 10, 17, 12]]";
    let matrix = one(&format!("projection = {rows}\nsize = [4, 5]"));
    assert!(matrix.assumes_distance());
    let said = one(&format!("projection = {rows}\nsize = [4, 5]\nsource_to_detector = 900"));
    assert!(!said.assumes_distance());
    let plain = "source = [1, 1000, 2]\norigin = [100, -500, 50]\ncolumn = [-1, 0, 0]\nrow = [0, 0, -0.5]\nsize = [5, 4]";
    let arm_by = |angles: &str| one(&format!("{ARM}{angles}"));
    for view in [one(plain), arm_by("primary = 30\nsecondary = -10.0"), arm_by("gantry = 30")] {
        assert!(view.has_geometry() && !view.assumes_distance());
    }
    assert!(!one("image = '/abs/a.dcm'").assumes_distance());
    assert!(!View::new(arm().geometry().unwrap()).assumes_distance());
    let first = |text: &str| read_from_bytes("a.txt", text.as_bytes()).unwrap()[0].clone();
    assert!(first(MAYACAM).assumes_distance() && !first(MATRIX).assumes_distance());

    // Written and read again, it is still an assumption; a detector that was moved is none.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("views.toml");
    let assumed = matrix.geometry(None).unwrap();
    let moved = assumed.with_source_to_detector(2.0 * assumed.source_to_detector()).unwrap();
    write(&path, &[matrix, View::new(moved)]).unwrap();
    let again = read(&path).unwrap();
    assert_eq!([again[0].assumes_distance(), again[1].assumes_distance()], [true, false]);
    assert!(near(&again[1].geometry(None).unwrap(), &moved, 1e-9));
}

#[test]
fn images_say_the_size() {
    let text = format!("{ARM}primary = 30\nsecondary = -10.0\nimage = 'front.png'")
        .replace("size = [1024, 768]", "");
    let views =
        read_from_bytes("folder/views.toml", format!("[[view]]\n{text}").as_bytes()).unwrap();
    let view = &views[0];
    assert_eq!((view.image.as_deref(), view.size()), (Some(Path::new("folder/front.png")), None));
    let found = view.geometry(Some([1024, 768])).unwrap();
    assert!(near(&found, &arm().geometry().unwrap(), 1e-9));
    let said = view.geometry(None).unwrap_err().to_string();
    assert!(
        said.contains("folder/views.toml")
            && said.contains("view 1: the size of the image is not known")
    );
    // Whoever has the image says the size, also where the table does not name it.
    let view = one(&text.replace("image = 'front.png'", ""));
    assert!(near(&view.geometry(Some([1024, 768])).unwrap(), &arm().geometry().unwrap(), 1e-9));
    assert!(view.geometry(None).unwrap_err().to_string().contains("give 'size = "));
    let view = one("image = '/abs/a.dcm'");
    assert!(!view.has_geometry() && view.image.as_deref() == Some(Path::new("/abs/a.dcm")));
    let said = view.geometry(Some([4, 4])).unwrap_err().to_string();
    assert!(said.contains("the positions of source and detector are missing"), "{said}");
    let view = one(&format!("{ARM}gantry = 0"));
    let said = view.geometry(Some([768, 1024])).unwrap_err().to_string();
    assert!(said.contains("the size is 1024 x 768 pixels, and the image has 768 x 1024"), "{said}");
}

#[test]
fn what_is_wrong_is_named() {
    let plain = "source = [1, 1000, 2]\norigin = [100, -500, 50]\ncolumn = [-1, 0, 0]\nrow = [0, 0, -0.5]\nsize = [5, 4]\n";
    let arm = format!("{ARM}primary = 30\nsecondary = -10.0\n");
    let camera = "K = [[2000, 0, 320], [0, 2500.0, 240], [0, 0, 1]]\nR = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]\n\
                  t = [10, -20, 900]\nsize = [640, 480]\n";
    let cases = [
        (
            plain.replace("origin", "orgin"),
            "view 1 ('one'): a view by its 'source' has no key 'orgin'; take it out; the keys are 'name'",
        ),
        (
            plain.replace("origin = [100, -500, 50]\n", ""),
            "a view by its 'source' needs 'origin', which is missing; give one of",
        ),
        (
            plain.replace("[1, 1000, 2]", "[1, 1000]"),
            "'source = [1, 1000]' has 2 values instead of 3; give x, y and z",
        ),
        (plain.replace("[1, 1000, 2]", "7"), "'source = 7' is not a list of 3; give x, y and z"),
        (
            plain.replace("[1, 1000, 2]", "[1, nan, 2]"),
            "'source = [1, nan, 2]' has nan, which is not a finite number",
        ),
        (plain.replace("[1, 1000, 2]", "[1, 'b', 2]"), "has \"b\", which is not a finite number"),
        (
            plain.replace("[5, 4]", "[5, 0]"),
            "'size = [5, 0]' has 0, which is not a count; give whole numbers above 0",
        ),
        (plain.replace("[5, 4]", "[5, 4.5]"), "has 4.5, which is not a count"),
        (plain.replace("[5, 4]", "[5, 4, 3]"), "has 3 values instead of 2"),
        (
            plain.replace("1000", "1e15"),
            "'source = [1, 1e15, 2]' is more than the 100 m of any room",
        ),
        (arm.replace("1200.0", "1e15"), "'source_to_detector = 1e15' is more than the 100 m"),
        (arm.replace("0.4", "1e300"), "'pixel = 1e300' is more than the 100 m of any room"),
        (
            arm.replace("primary = 30", "primary = 1e300"),
            "'primary = 1e300' is more than a turn; give an angle in degrees",
        ),
        (
            plain.replace("[0, 0, -0.5]", "[2, 0, 0]"),
            "the geometry has column and row steps that are parallel",
        ),
        (plain.replace("[100, -500, 50]", "[0, 1000, 0]"), "a source in the plane of the detector"),
        (plain.replace("[5, 4]", "[1048576, 1048576]"), "a detector of 1048576 x 1048576 pixels"),
        (
            format!("{plain}region = [0, 0, 6, 4]"),
            "a region of 6 x 4 pixels from (0, 0) of a detector of 5 x 4",
        ),
        (format!("{plain}region = [0, 0, 0, 4]"), "'region' has 0 x 4 pixels"),
        (format!("{plain}region = [0, -1, 3, 4]"), "has -1, which is not a count"),
        (
            format!("{plain}world = 'LPS'"),
            "'world = \"LPS\"' is not known; give \"ras\" or \"lps\"",
        ),
        (format!("{plain}image = ''"), "'image = \"\"' is not a text"),
        (format!("{plain}image = 7"), "'image = 7' is not a text; put letters between quotes"),
        (
            format!("{plain}gantry = 7"),
            "keys of a view by its 'source' and of a treatment machine; give one of",
        ),
        (format!("{arm}gantry = 7"), "keys of a C-arm and of a treatment machine"),
        (arm.replace("1200.0", "600"), "a detector 600 mm from the source"),
        (arm.replace("785", "-785"), "an isocentre -785 mm from it"),
        (arm.replace("0.4", "0"), "'pixel' is [0.0, 0.0] mm; give its size in mm"),
        (arm.replace("0.4", "[0.4]"), "'pixel = [0.4]' has 1 values instead of 2"),
        (
            arm.replace("-10.0", "'up'"),
            "'secondary = \"up\"' is not a number; give an angle in degrees",
        ),
        (arm.replace("primary = 30\n", ""), "a C-arm needs 'primary', which is missing"),
        (ARM.to_owned(), "it has 'isocentre', but no angle of a machine"),
        (
            format!("{camera}pixel = 0.5"),
            "by the lengths in 'K' the detector is 1000.0 and 1250.0 mm away",
        ),
        (format!("{camera}pixel = [0.5, 0.4]\nsource_to_detector = 1000"), "leave one of them out"),
        (
            format!("{camera}source_to_detector = -1000"),
            "-1000 mm: the detector is behind the source; give a number",
        ),
        (
            camera.replace("[0, 0, 1]]\nt", "[0, 0, 2]]\nt"),
            "'R' is not a rotation: it is off by 3.0000",
        ),
        (camera.replace("[0, 0, 1]]\nt", "[0, 0, -1]]\nt"), "with a determinant of -1.0000"),
        (camera.replace("[0, 0, 1]]\nR", "[0, 1, 1]]\nR"), "'K' is [[2000.0, 0.0, 320.0]"),
        (camera.replace("[[2000, 0, 320], ", "["), "has 2 values instead of 3"),
        (
            camera.replace("2000, 0, 320", "2000, 0"),
            "'K = [2000, 0]' has 2 values instead of 3; give 3 rows of 3 numbers",
        ),
        (
            "projection = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 1]]\nsize = [4, 4]".into(),
            "left 3 x 3 part cannot be inverted",
        ),
        (
            "projection = [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]\nsize = [4, 4]".into(),
            "cannot be inverted",
        ),
        ("size = [4, 4]".into(), "the positions of source and detector are missing; give one of"),
        ("image = 'a.png'\nsouce = [1, 2, 3]".into(), "a view without geometry has no key 'souce'"),
    ];
    for (text, said) in cases {
        let error = refused(&text);
        assert!(error.contains(said) && error.contains("view 1 ('one')"), "{said}\n{error}");
    }
}

#[test]
fn what_is_no_table_of_views() {
    for (text, said) in [
        ("", "there is no view in it; write a table '[[view]]'"),
        ("# nothing\n", "there is no view in it"),
        ("view = 7", "there is no view in it"),
        ("view = [7]", "view 1 is not a table"),
        ("[view]\nsize = [1, 2]", "write '[[view]]' instead"),
        ("[[view]]\n[[views]]\n", "there is 'views' outside of a view"),
        ("[[view]]\nsize = [1,\n\nx", "line 4: "),
        ("[[view]]\nsize = [1, 2]\nsize = [1, 2]", "line 3: "),
        ("a,b,c\n1,2,3\n", "line 1: "),
    ] {
        let error = read_text(text).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("'a.toml'"), "{said}\n{error}");
    }
    let error = read_from_bytes("a.toml", b"\xff\xfe[\0").unwrap_err().to_string();
    assert!(error.contains("save it as UTF-8 text"), "{error}");
}

const MAYACAM: &str = "image size\n640,480\n\ncamera matrix\n2000,0,320\n0,2500,240\n0,0,1\n\nrotation\n1,0,0\n\
                       0,1,0\n0,0,1\n\ntranslation\n10\n-20\n900\n";

#[test]
fn mayacams() {
    for text in [MAYACAM.to_owned(), MAYACAM.replace('\n', "\r\n"), MAYACAM.replace(',', " , ")] {
        let views = read_from_bytes("cam.txt", text.as_bytes()).unwrap();
        let [view] = &views[..] else { panic!("{views:?}") };
        assert_eq!(view.size(), Some([640, 480]));
        let geometry = view.geometry(None).unwrap();
        let [column, row] = geometry.project(Vector3::zeros()).unwrap();
        assert!((column - (320.0 + 2000.0 / 90.0)).abs() < 1e-9, "{column}");
        assert!((row - (240.0 - 2500.0 / 45.0)).abs() < 1e-9, "{row}");
        assert!((geometry.source_to_detector() - 1.5 * geometry.source().norm()).abs() < 1e-6);
    }
    for (from, to, said) in [
        ("640,480", "640", "line 2: '640' is not 2 numbers of 'image size'"),
        ("640,480", "640,4.5", "the image size is 640 x 4.5"),
        ("640,480", "640,0", "the image size is 640 x 0"),
        ("10\n-20", "nan\n-20", "line 15: 'nan' is not 1 numbers"),
        ("-20\n900\n", "-20\n", "line 14: the block 'translation' is cut short"),
        ("rotation", "rotations", "line 9: 'rotations' is not a block of a MayaCam 2 file"),
        ("rotation\n1,0,0", "rotation\n2,0,0", "'rotation' is not a rotation"),
        ("translation\n10\n-20\n900\n", "", "there is no block 'translation'"),
        (
            "translation",
            "rotation\n1,0,0\n0,1,0\n0,0,1",
            "line 14: there is a second block 'rotation'",
        ),
        ("0,0,1\n\nrotation", "0,0,2\n\nrotation", "'camera matrix' is"),
    ] {
        let error = read_from_bytes("cam.txt", MAYACAM.replace(from, to).as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains(said) && error.contains("'cam.txt'"), "{said}\n{error}");
    }
}

/// A detector of 1630 mm, 1000 mm from the source to the axis, seen along the x of LPS.
const MATRIX: &str = "    6.35e+01     3.15e+01\n 0.0 2.13333333e-01 0.0 0.0\n 0.0 0.0 -2.13333333e-01 0.0\n\
                      -6.13496933e-04 0.0 0.0 6.13496933e-01\n1.0e+03\n1.63e+03\n 1.0 0.0 0.0\n";
const PARTS: &str = "Extrinsic\n 1 2 3 4\n 5 6 7 8\nIntrinsic\n 1 2\n";

#[test]
fn projection_matrices_of_plastimatch() {
    for text in [MATRIX.to_owned(), format!("{MATRIX}{PARTS}")] {
        let views = read_from_bytes("a.txt", text.as_bytes()).unwrap();
        let [view] = &views[..] else { panic!("{views:?}") };
        assert_eq!(view.size(), None);
        let said = view.geometry(None).unwrap_err().to_string();
        assert!(said.contains("give 'size = [columns, rows]'"), "{said}");
        let geometry = view.geometry(Some([128, 64])).unwrap();
        // LPS (1000, 0, 0) is RAS (-1000, 0, 0).
        assert!((geometry.source() - Vector3::new(-1000.0, 0.0, 0.0)).norm() < 1e-3);
        assert!((geometry.source_to_detector() - 1630.0).abs() < 1e-3);
        let [a, b] = geometry.pixel_size();
        assert!((a - 4.6875).abs() < 1e-3 && (b - 4.6875).abs() < 1e-3, "{a} {b}");
        let seen = |x, y, z| geometry.project(Vector3::new(x, y, z)).unwrap();
        let [column, row] = seen(0.0, 0.0, 0.0);
        assert!((column - 63.5).abs() < 1e-6 && (row - 31.5).abs() < 1e-6);
        // LPS y is RAS -y: to the right of the picture; z goes up.
        let [column, row] = seen(0.0, -10.0, 10.0);
        assert!(
            (column - 63.5 - 16.3 / 4.6875).abs() < 1e-5
                && (row - 31.5 + 16.3 / 4.6875).abs() < 1e-5
        );
    }
    // As version 1.9.4 writes it, with the normal away from the source.
    let other = "127.5 127.5\n0.0 -0.64 0.0 -78.0937451\n0.0 0.0 -0.64 51.36\n6.66666667e-04 0.0 0.0 0.585319016\n\
                 1000.0\n1500.0\n1.0 -0.0 -0.0\n";
    let view = &read_from_bytes("a.txt", other.as_bytes()).unwrap()[0];
    let geometry = view.geometry(Some([256, 256])).unwrap();
    // LPS (-878, -122, 80) is RAS (878, 122, 80).
    assert!((geometry.source() - Vector3::new(877.9785, 122.0215, 80.25)).norm() < 1e-3);
    assert!(geometry.project(Vector3::new(-122.0, 122.0, 80.0)).is_some());
    for (from, to, said) in [
        ("1.63e+03", "-1.63e+03", "the detector is -1630 mm from the source, which is behind it"),
        (" 1.0 0.0 0.0\n", " 1.0 0.0\n", "it has 18 numbers instead of 19"),
        (" 1.0 0.0 0.0\n", " 1.0 0.0 0.0 7\n", "there is '7' after its 19 numbers"),
        ("1.0e+03", "x", "'x' is not a number"),
        ("1.0e+03", "inf", "'inf' is not a number"),
        ("-6.13496933e-04", "0", "cannot be inverted"),
    ] {
        let error =
            read_from_bytes("a.txt", MATRIX.replace(from, to).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("'a.txt'"), "{said}\n{error}");
    }
}

#[test]
fn tables_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("views.toml");
    let forms = [
        format!("{ARM}primary = 30\nsecondary = -10.0\n"),
        format!("{ARM}gantry = 30\ncentre = [3, 4.5]\nname = 'a \"b\" \\ é'\n"),
        "source = [1, 1000, 2]\norigin = [100, -500, 50]\ncolumn = [-1, 0, 0]\nrow = [0, 0, -0.5]\nimage = 'sub/x.png'".into(),
        "projection = [[1, 2, 3, 4], [5, 6, 8, 8], [9, 10, 17, 12]]\nsize = [4, 5]\nworld = 'lps'\nregion = [1, 1, 2, 2]".into(),
        "image = '/elsewhere/b.dcm'".into(),
    ];
    let text: String = forms.iter().map(|form| format!("[[view]]\n{form}\n")).collect();
    std::fs::write(&path, &text).unwrap();
    let views = read(&path).unwrap();
    assert_eq!(views.len(), 5);
    let again = folder.path().join("again.toml");
    write(&again, &views).unwrap();
    let text = std::fs::read_to_string(&again).unwrap();
    assert!(
        text.contains("image = \"sub/x.png\"") && text.contains("\"/elsewhere/b.dcm\""),
        "{text}"
    );
    for (a, b) in views.iter().zip(read(&again).unwrap()) {
        assert_eq!(
            (&a.name, &a.image, a.region, a.size()),
            (&b.name, &b.image, b.region, b.size())
        );
        assert_eq!(a.has_geometry(), b.has_geometry());
        if a.has_geometry() {
            let size = a.size().or(Some([40, 50]));
            assert!(near(&a.geometry(size).unwrap(), &b.geometry(size).unwrap(), 1e-9));
        }
    }
    let error = write(&again, &[]).unwrap_err().to_string();
    assert!(error.contains("there are no views to write"), "{error}");
    let mut view = View::new(arm().geometry().unwrap());
    view.image = Some("beside.png".into());
    assert!(write(folder.path().join("no/such.toml"), &[view]).is_err());
}

proptest! {
    #[test]
    fn any_view_comes_back(
        name in prop::option::of(".{1,20}"),
        image in prop::option::of("[a-z \"\\\\é]{1,8}"),
        source in prop::array::uniform3(-1e4..1e4f64),
        steps in prop::array::uniform3(0.01..2.0f64),
        turn in prop::array::uniform3(-3.0..3.0f64),
        dims in prop::array::uniform2(1..5000usize),
    ) {
        let turn = Rotation3::from_scaled_axis(Vector3::from(turn));
        let source = Vector3::from(source);
        let origin = source + turn * Vector3::new(-100.0, 30.0, 1000.0 * steps[2]);
        let [column, row] = [turn * Vector3::x() * steps[0], turn * Vector3::y() * steps[1]];
        let geometry = XrayGeometry::new(source, origin, column, row, dims).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("views.toml");
        let mut view = View::new(geometry);
        view.name = name;
        view.image = image.map(|image| folder.path().join(image));
        view.region = Some([0, 0, dims[0], 1]);
        write(&path, &[view.clone(), view.clone()]).unwrap();
        let read = read(&path).unwrap();
        prop_assert_eq!(&read, &[view.clone(), view]);
        prop_assert_eq!(read[0].geometry(None).unwrap(), geometry);
    }
}
