use super::*;
use proptest::prelude::*;
use voxalign_image::Affine;

fn with(name: &str, text: &str, options: &ReadOptions<'_>) -> Result<(PointSet, PointInfo)> {
    read_from_bytes(name, text.as_bytes(), options)
}

fn parse(text: &str) -> Result<PointSet> {
    Ok(with("p.csv", text, &ReadOptions::default())?.0)
}

fn said(info: &PointInfo, part: &str) -> bool {
    info.oddities.iter().any(|oddity| oddity.contains(part))
}

#[test]
fn lists_of_other_programs_are_told() {
    for (text, part) in [
        ("x;y;z\n1;2;3\n", "separated by semicolons; write it comma-separated"),
        ("x\ty\tz\n1\t2\t3\n", "separated by tabs"),
        ("1 2 3\n4 5 6\n", "separated by spaces"),
        ("a\n1\n", "0 columns named 'x'"),
        ("# my points\nx,y,z\n1,2,3\n", "its first line is a comment; write it"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn columns_in_any_order() {
    let p = parse("name, Z,y ,X\na,3,2,1\n\"b, c\",6,5,4\n").unwrap();
    assert_eq!(p.points(), [Vector3::new(1., 2., 3.), Vector3::new(4., 5., 6.)]);
    assert_eq!(p.columns(), [("name".into(), vec!["a".into(), "b, c".into()])]);
    let lps = ReadOptions::in_convention(PointConvention::Lps);
    let (set, _) = with("p.csv", "\u{feff}x,y,z,n\n1,2,3,0\n", &lps).unwrap();
    assert_eq!(set.points()[0], Vector3::new(-1., -2., 3.));
    assert!(parse("x,y,z\n").unwrap().is_empty());
}

#[test]
fn the_header_of_ants_means_lps() {
    let text = "x,y,z,t,label,comment\n1,2,3,0,7,a nose\n";
    let (set, info) = with("p.csv", text, &ReadOptions::default()).unwrap();
    assert_eq!(set.points()[0], Vector3::new(-1., -2., 3.));
    assert_eq!(
        (info.format, info.convention, info.assumed),
        (PointFormat::Ants, Some(PointConvention::Lps), true)
    );
    assert!(said(&info, "whose points are LPS: they were taken for that"));
    let ras = ReadOptions::in_convention(PointConvention::Ras);
    let (set, info) = with("p.csv", text, &ras).unwrap();
    assert_eq!(set.points()[0], Vector3::new(1., 2., 3.));
    assert!(said(&info, "taken for RAS, as asked for"));
    let lps = ReadOptions::in_convention(PointConvention::Lps);
    assert!(with("p.csv", text, &lps).unwrap().1.oddities.is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.csv");
    let ants = WriteOptions { format: Some(PointFormat::Ants), ..WriteOptions::default() };
    assert!(write(&path, &set, &ants).unwrap().is_empty());
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, "x,y,z,t,label,comment\n-1,-2,3,0,7,a nose\n");
    // What is RAS does not look like a list of ANTs.
    write(&path, &set, &WriteOptions::default()).unwrap();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "t,x,y,z,label,comment\n0,1,2,3,7,a nose\n"
    );
    assert_eq!(read(&path, &ReadOptions::default()).unwrap().0, set);
    // Names that are no numbers become comments.
    let named = parse("x,y,z,label,more\n1,2,3,F-1,q\n").unwrap();
    let lost = write(&path, &named, &ants).unwrap();
    assert_eq!(lost, ["lists of ANTs hold no column 'more': it is left out"]);
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, "x,y,z,t,label,comment\n-1,-2,3,0,1,F-1\n");
}

#[test]
fn errors_name_the_line() {
    for (text, part) in [
        ("", "'x'"),
        ("a,b,c\n1,2,3\n", "'x'"),
        ("x,y,z,x\n1,2,3,4\n", "2 columns"),
        ("x,y,z\n1,2,3\n1,nan,3\n", "line 3"),
        ("x,y,z\n1,2\n", "p.csv"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("p.csv"), "{message}");
    }
}

#[test]
fn points_in_a_plane_have_no_z() {
    let p = parse("name,y,x\na,2,1\nb,4,3\n").unwrap();
    assert!(p.is_2d());
    assert_eq!(p.points(), [Vector3::new(1., 2., 0.), Vector3::new(3., 4., 0.)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.csv");
    for convention in [PointConvention::Ras, PointConvention::Lps] {
        let options = WriteOptions { convention: Some(convention), ..WriteOptions::default() };
        write(&path, &p, &options).unwrap();
        assert_eq!(read(&path, &ReadOptions::in_convention(convention)).unwrap().0, p);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x,y,name\n-1,-2,a\n-3,-4,b\n");
    let error = parse("x,z\n1,2\n").unwrap_err().to_string();
    assert!(
        error.contains("0 columns named 'y'") && error.contains("of 2D images 'x,y'"),
        "{error}"
    );
    for bytes in [&b"\xff\xfex\0,\0y\0"[..], b"x,y,n\n1,2,\xe9\n"] {
        let error = read_from_bytes("p.csv", bytes, &ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("save it as UTF-8 text"), "{error}");
    }
    let (set, _) = with("p.txt", "point\n2\n1 2\n3 4\n", &ReadOptions::default()).unwrap();
    assert!(set.is_2d() && set.points()[1] == Vector3::new(-3., -4., 0.));
}

const MARKUPS: &str = r#"{"@schema": "https://x/markups-schema-v1.0.3.json#", "markups": [{"type": "Fiducial",
 "coordinateSystem": "LPS", "coordinateUnits": "mm", "controlPoints": [
 {"id": "1", "label": "nose", "description": "tip", "position": [1, 2, 3.5], "orientation": [-1,0,0,0,-1,0,0,0,1],
  "selected": true, "locked": true, "visibility": true, "positionStatus": "defined"},
 {"id": "2", "label": "ear", "position": [0.0, 0.0, 0.0], "positionStatus": "undefined"},
 {"id": "3", "label": "chin", "position": [-4e1, 5, 6]}]}]}"#;

#[test]
fn markups_of_slicer() {
    let (set, info) = with("p.mrk.json", MARKUPS, &ReadOptions::default()).unwrap();
    assert_eq!(set.points(), [Vector3::new(-1., -2., 3.5), Vector3::new(40., -5., 6.)]);
    assert_eq!(set.columns()[0], ("label".into(), vec!["nose".into(), "chin".into()]));
    let names: Vec<_> = set.columns().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["label", "description", "locked"]);
    assert_eq!((info.without_position, info.convention), (1, Some(PointConvention::Lps)));
    assert!(said(&info, "1 points have no position in the file and were left out: 'ear'"));
    // What the file says is believed.
    let ras = ReadOptions::in_convention(PointConvention::Ras);
    let (same, info) = with("p.mrk.json", MARKUPS, &ras).unwrap();
    assert_eq!(same, set);
    assert!(said(&info, "the file states that the coordinates are LPS"));
    let other = MARKUPS.replace("\"LPS\"", "\"RAS\"").replace("Fiducial", "Curve");
    let (set, info) = with("p.mrk.json", &other, &ReadOptions::default()).unwrap();
    assert_eq!(set.points()[0], Vector3::new(1., 2., 3.5));
    assert!(said(&info, "markup 1 is a 'Curve'"));
    let two = MARKUPS.replace("6]}]}]}", "6]}]}, {\"name\": \"B\", \"coordinateSystem\": \"0\", \"controlPoints\": [{\"position\": [1,1,1]}]}]}");
    let (set, info) = with("p.mrk.json", &two, &ReadOptions::default()).unwrap();
    assert_eq!(set.points()[2], Vector3::new(1., 1., 1.));
    assert!(said(&info, "2 markups") && said(&info, "some of its markups are LPS"));
    assert_eq!(set.columns().last().unwrap().1, ["1", "1", "B"]);
}

const FCSV: &str = "# Markups fiducial file version = 4.11\n# CoordinateSystem = LPS\n\
     # columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n\
     vtkMRMLMarkupsFiducialNode_0,1,2,3,0,0,0,1,1,1,0,\"a, b\",,\n\
     2,-4,5,6e0,0,0,0,1,1,0,0,F-2,tip,vtkMRMLScalarVolumeNode1,2,0\n\
     3,0,0,0,0,0,0,1,1,1,0,F-3,,,0,0\n";

#[test]
fn fiducials_of_slicer() {
    let (set, info) = with("p.fcsv", FCSV, &ReadOptions::default()).unwrap();
    assert_eq!(set.points(), [Vector3::new(-1., -2., 3.), Vector3::new(4., -5., 6.)]);
    assert_eq!(set.columns()[0], ("label".into(), vec!["a, b".into(), "F-2".into()]));
    let names: Vec<_> = set.columns().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["label", "description", "selected", "associatedNodeID"]);
    assert_eq!(info.without_position, 1);
    for (system, expected) in
        [("0", 1.0), ("RAS", 1.0), ("1", -1.0), ("LPS", -1.0), ("LPS,,,,,", -1.0)]
    {
        let text = FCSV.replace("= LPS", &format!("= {system}"));
        let (set, _) = with("p.fcsv", &text, &ReadOptions::default()).unwrap();
        assert_eq!(set.points()[0][0], expected);
    }
    let bare = "# columns = label,x,y,z,sel,vis\nL,1,2,3,1,1\n";
    let (set, info) = with("p.fcsv", bare, &ReadOptions::default()).unwrap();
    assert_eq!((set.points()[0][0], set.columns()[0].1[0].as_str()), (1.0, "L"));
    assert!(said(&info, "no line '# CoordinateSystem'") && info.assumed);
    // A short row has no status.
    let short = "# Markups fiducial file version = 4.6\n# CoordinateSystem = 0\n1,1,2,3\n";
    assert_eq!(with("p.fcsv", short, &ReadOptions::default()).unwrap().0.len(), 1);
}

#[test]
fn lists_of_elastix() {
    let list = "point\n2\n1 2 3\n 4.5 5  6\n";
    let (set, info) = with("p.txt", list, &ReadOptions::default()).unwrap();
    assert_eq!(set.points(), [Vector3::new(-1., -2., 3.), Vector3::new(-4.5, -5., 6.)]);
    assert!(info.oddities.is_empty() && !info.assumed);
    let grid = Grid::new(
        [9, 8, 7],
        Affine::from_rows([[-2., 0., 0., 5.], [0., 1., 0., 0.], [0., 0., 3., 1.]]),
    )
    .unwrap();
    let there = ReadOptions { grid: Some(&grid), ..ReadOptions::default() };
    let index = list.replace("point", "index");
    let (set, info) = with("p.txt", &index, &there).unwrap();
    assert_eq!(set.points()[0], Vector3::new(3., 2., 10.));
    assert_eq!(info.convention, None);
    let error = with("p.txt", &index, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("voxel indices") && error.contains("`points_of`"), "{error}");
    let (bare, info) = with("p.txt", "2\n1 2 3\n4.5 5 6\n", &there).unwrap();
    assert_eq!(bare, set);
    assert!(said(&info, "elastix takes such a list for indices"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.pts");
    let format = Some(PointFormat::ElastixIndex);
    let options = WriteOptions { format, grid: Some(&grid), ..WriteOptions::default() };
    write(&path, &set, &options).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "index\n2\n1 2 3\n4.5 5 6\n");
    assert!(write(&path, &set, &WriteOptions { format, ..WriteOptions::default() }).is_err());
    let ras = WriteOptions { convention: Some(PointConvention::Ras), ..WriteOptions::default() };
    let error = write(&path, &set, &ras).unwrap_err().to_string();
    assert!(error.contains("LPS always"), "{error}");
    let printed = "Point\t0\t; InputIndex = [ 1 2 3 ]\t; InputPoint = [ 1 2 3 ]\t; OutputIndexFixed = [ 4 5 6 ]\t\
                   ; OutputPoint = [ 10.5 20 30 ]\t; Deformation = [ 9 18 27 ]\n";
    let (set, info) = with("outputpoints.txt", printed, &ReadOptions::default()).unwrap();
    assert_eq!(set.points(), [Vector3::new(-10.5, -20., 30.)]);
    assert!(said(&info, "OutputPoint"));
}

const TAG: &str = "MNI Tag Point File\nVolumes = 2;\n% a comment\n% another = one;\n\nPoints =\n\
     1 2 3 4 5 6 0 -1 -1 \"nose\"\n -7 8 9 10 11 12 0.5 1 -1 \"\";\n";

#[test]
fn tags_of_mni() {
    let of = |volume| ReadOptions { volume: Some(volume), ..ReadOptions::default() };
    let (first, info) = with("p.tag", TAG, &of(0)).unwrap();
    assert_eq!(first.points(), [Vector3::new(1., 2., 3.), Vector3::new(-7., 8., 9.)]);
    assert_eq!((info.volumes, info.convention), (2, Some(PointConvention::Ras)));
    let names: Vec<_> = first.columns().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["label", "tag_weight", "structure_id", "patient_id"]);
    let (second, _) = with("p.tag", TAG, &of(1)).unwrap();
    assert_eq!(second.points()[1], Vector3::new(10., 11., 12.));
    let one = "MNI Tag Point File\nVolumes = 1;\n\nPoints =\n 1 2 3 \"a\"\n 4 5 6 \"b\";\n";
    let (set, _) = with("p.tag", one, &ReadOptions::default()).unwrap();
    assert_eq!(set.columns(), [("label".into(), vec!["a".into(), "b".into()])]);
    let bare = "MNI Tag Point File\nVolumes = 1;\nPoints =\n 1 2 3\n 4 5 6;";
    assert_eq!(with("p.tag", bare, &ReadOptions::default()).unwrap().0.len(), 2);
    for (text, options, part) in [
        (TAG, ReadOptions::default(), "points of two volumes"),
        (TAG, of(2), "volume 2 is asked for"),
        (one, of(1), "volume 1 is asked for"),
        (one, of(0), "leave `volume` out"),
    ] {
        let error = with("p.tag", text, &options).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_is_wrong_with_a_list_is_said_once() {
    let grid = Grid::axis_aligned([5; 3], [1.0; 3]).unwrap();
    let options = ReadOptions { grid: Some(&grid), ..ReadOptions::default() };
    let markups = |from: &str, to: &str| MARKUPS.replace(from, to);
    let fcsv = |from: &str, to: &str| FCSV.replace(from, to);
    let tag = |from: &str, to: &str| TAG.replace("= 2", "= 1").replace(from, to);
    let lists: Vec<(&str, String, &[&str])> = vec![
        ("a.txt", "point\n3\n1 2 3\n4 5 6\n".into(), &["there are 3 points, but 2 follow"]),
        ("a.txt", "index\n1\n1 2 3\n4 5 6\n".into(), &["there are 1 points, but 2 follow"]),
        ("a.txt", "point\n18446744073709551615\n1 2 3\n".into(), &["but 1 follow"]),
        ("a.txt", "point\n184467440737095516150\n1 2 3\n".into(), &["line 2", "not the number"]),
        ("a.txt", "point\n1 2 3\n".into(), &["line 2", "'1 2 3' is not the number"]),
        ("a.txt", "point\n".into(), &["'' is not the number"]),
        ("a.txt", "point\n1\n1 2 nan\n".into(), &["line 3", "'nan' is not a number"]),
        ("a.txt", "point\n1\n1 2 3 4\n".into(), &["line 3", "4 coordinates"]),
        ("a.txt", "point\n2\n1 2 3\n1 2\n".into(), &["line 4", "2 coordinates"]),
        ("a.txt", "point\n2\n1 2 3\nx,y,z\n".into(), &["line 4", "'x,y,z' is not a number"]),
        (
            "a.txt",
            "Point\t0 ; OutputPoint = [ 1 2 ] ;\nPoint 1 ;\n".into(),
            &["line 2", "OutputPoint"],
        ),
        ("a.txt", "Point\t0 ; OutputPoint = [ 1 2 inf ]\n".into(), &["line 1", "'inf'"]),
        (
            "a.csv",
            "x,y,z\n1,2,3\npoint\n2\n".into(),
            &["line: 3", "same number of values as the header"],
        ),
        ("a.fcsv", fcsv(",2,3,", ",nan,3,"), &["line 4", "'nan'"]),
        ("a.fcsv", fcsv("id,x,y,z", "id,x,y"), &["names no x, y and z"]),
        ("a.fcsv", fcsv("= LPS", "= 2"), &["line 2", "IJK", "'index'"]),
        ("a.fcsv", fcsv("= LPS", "= MNI"), &["line 2", "'MNI'", "RAS or LPS"]),
        ("a.fcsv", fcsv("= LPS", "= LPS\n# CoordinateSystem = RAS"), &["line 3", "another"]),
        ("a.fcsv", fcsv("2,-4,5,6e0", "2,-4\n9,9"), &["line 5", "2 values"]),
        ("a.json", markups("[1, 2, 3.5]", "[1, 2]"), &["control point 1 ('nose')", "three"]),
        ("a.json", markups("[1, 2, 3.5]", "null"), &["control point 1 ('nose')"]),
        ("a.json", markups("[1, 2, 3.5]", "[1, NaN, 2]"), &["line 3"]),
        ("a.json", markups("3.5", "1e999"), &["line 3"]),
        ("a.json", markups("\"LPS\"", "\"IJK\""), &["'IJK'", "save it in LPS"]),
        ("a.json", markups("\"coordinateSystem\": \"LPS\", ", ""), &["coordinateSystem"]),
        ("a.json", markups("\"mm\"", "\"cm\""), &["'cm'", "mm"]),
        ("a.json", markups("v1.0.3", "v2.0"), &["2.0", "version 1"]),
        ("a.json", "{\"points\": []}".into(), &["markups"]),
        ("a.json", format!("{{\"markups\": {}", "[".repeat(100_000)), &["markups"]),
        ("a.json", MARKUPS[..300].into(), &["save it again"]),
        ("a.tag", tag("0 -1 -1", "0 -1"), &["line 7", "8 numbers"]),
        ("a.tag", tag("5 6 0 -1 -1", "5"), &["line 7", "a point has 5 numbers; 3"]),
        ("a.tag", TAG.replace("= 2", "= 3"), &["line 2", "'3' volumes"]),
        ("a.tag", tag(" \"nose\"", " \"nose").replace("\"\"", ""), &["a label begins"]),
        ("a.tag", TAG.replace("Points =\n", "Points\n"), &["'Points' is not expected"]),
        ("a.tag", "MNI Tag Point File\nVolumes = 1;\nPoints =\n1 2 3\n".into(), &["ends before"]),
        (
            "a.tag",
            "MNI Tag Point File\nVolumes = 1;\nPoints =\n1 x 3;\n".into(),
            &["line 4", "'x'"],
        ),
        (
            "a.tag",
            "MNI Tag Point File\nVolumes = 1;\nPoints =\n1 2 3;\nx,y,z\n".into(),
            &["line 5"],
        ),
    ];
    for (name, text, parts) in lists {
        let error = with(name, &text, &options).unwrap_err().to_string();
        assert!(error.contains(name) && error.len() < 600, "{error}");
        assert!(parts.iter().all(|part| error.contains(part)), "{parts:?} not in {error}");
        assert!(error.contains("; "), "it has a remedy: {error}");
    }
}

#[test]
fn a_name_that_says_otherwise_is_told() {
    let (_, info) = with("p.csv", FCSV, &ReadOptions::default()).unwrap();
    assert!(said(&info, "by its name the file would be CSV; by its content it is 3D Slicer"));
    let (_, info) = with("p.json", MARKUPS, &ReadOptions::default()).unwrap();
    assert!(!said(&info, "by its name"));
    let folder = tempfile::tempdir().unwrap();
    for (name, text, list) in [
        ("a.txt", "point\n0\n", true),
        ("b.txt", "#Insight Transform File V1.0\nTransform: A\n", false),
        ("c.txt", "1 0 0 0\n0 1 0 0\n", false),
        ("d.json", MARKUPS, true),
        ("e.json", "{\"a\": 1}", false),
        ("f.fcsv", FCSV, true),
        ("g", TAG, true),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(is_list(&path), list, "{name}");
    }
    assert!(!is_list(&folder.path().join("none")));
    let set = PointSet::default();
    let error = write(folder.path().join("a.xyz"), &set, &WriteOptions::default()).unwrap_err();
    assert!(error.to_string().contains(".mrk.json"), "{error}");
    assert!(!folder.path().join("a.xyz").exists());
}

proptest! {
    // Every file is brought to the disk.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn round_trip(p in prop::collection::vec(prop::array::uniform3(-1e3..1e3f64), 0..20)) {
        let folder = tempfile::tempdir().unwrap();
        let names = (0..p.len()).map(|i| format!("point {i}, éà")).collect();
        let points: Vec<_> = p.into_iter().map(Vector3::from).collect();
        let columns = if points.is_empty() { vec![] } else { vec![("label".into(), names)] };
        let set = PointSet::with_columns(points, columns).unwrap();
        for (name, conventions) in [
            ("p.csv", &[PointConvention::Ras, PointConvention::Lps][..]),
            ("p.fcsv", &[PointConvention::Ras, PointConvention::Lps]),
            ("p.mrk.json", &[PointConvention::Ras, PointConvention::Lps]),
            ("p.txt", &[PointConvention::Lps]),
            ("p.tag", &[PointConvention::Ras]),
        ] {
            let path = folder.path().join(name);
            for &convention in conventions {
                let written = WriteOptions { convention: Some(convention), ..Default::default() };
                let lost = write(&path, &set, &written).unwrap();
                let (read, info) = read(&path, &ReadOptions::in_convention(convention)).unwrap();
                prop_assert_eq!(read.points(), set.points());
                prop_assert!(info.oddities.is_empty(), "{:?}", info.oddities);
                if name == "p.txt" {
                    prop_assert_eq!(lost.len(), set.columns().len());
                } else {
                    prop_assert_eq!(read.columns(), set.columns());
                    prop_assert!(lost.is_empty());
                }
            }
        }
    }
}
