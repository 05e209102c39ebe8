//! Lists of points of other programs, wherever points are taken.

use crate::common::{Place, grid, head};
use std::fmt::Write as _;
use std::fs;
use voxalign_image::{Affine, Grid, Transform, Vector3};
use voxalign_io::points::{self, PointConvention, PointFormat, ReadOptions};
use voxalign_io::transform::{Geometry, write};

const PLACES: [[f64; 3]; 4] =
    [[5.0, 10.0, 8.0], [-25.0, 20.0, -10.0], [22.0, -30.0, 15.0], [10.0, 35.0, -28.0]];

/// Lists of the same points in the forms of every program, `NAME.EXTENSION`; gives the names.
fn lists(
    place: &Place,
    name: &str,
    grid: &Grid,
    at: impl Fn(Vector3<f64>) -> Vector3<f64>,
) -> Vec<String> {
    let mut text = [
        "x,y,z,label\n".to_owned(),
        "x,y,z,t,label,comment\n".to_owned(),
        "# Markups fiducial file version = 4.11\n# CoordinateSystem = 0\n\
         # columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n"
            .to_owned(),
        format!("point\n{}\n", PLACES.len()),
        format!("index\n{}\n", PLACES.len()),
        String::new(),
        "MNI Tag Point File\nVolumes = 1;\n\nPoints =\n".to_owned(),
    ];
    for (i, p) in PLACES.iter().enumerate() {
        let p = at(Vector3::from(*p));
        let (x, y, z) = (p[0], p[1], p[2]);
        let index = grid.world_to_index(p);
        let _ = writeln!(text[0], "{x},{y},{z},F-{i}");
        let _ = writeln!(text[1], "{},{},{z},0,{i},a comment", -x, -y);
        let _ = writeln!(text[2], "{i},{x},{y},{z},0,0,0,1,1,1,0,F-{i},,");
        let _ = writeln!(text[3], "{} {} {z}", -x, -y);
        let _ = writeln!(text[4], "{} {} {}", index[0], index[1], index[2]);
        let comma = if i == 0 { "" } else { ",\n" };
        let _ =
            write!(text[5], "{comma}{{\"label\": \"F-{i}\", \"position\": [{}, {}, {z}]}}", -x, -y);
        let _ = writeln!(text[6], " {x} {y} {z} 0 -1 -1 \"F-{i}\"");
    }
    text[5] = format!(
        "{{\"@schema\": \"a/markups-schema-v1.0.3.json#\", \"markups\": [{{\"type\": \"Fiducial\", \
         \"coordinateSystem\": \"LPS\", \"controlPoints\": [{}]}}]}}",
        text[5]
    );
    text[6].push_str(";\n");
    let ends = ["csv", "ants.csv", "fcsv", "point.txt", "index.txt", "mrk.json", "tag"];
    let names: Vec<_> = ends.iter().map(|end| format!("{name}.{end}")).collect();
    for (name, text) in names.iter().zip(&text) {
        place.write(name, text);
    }
    names
}

/// An image whose voxels are oblique and flipped.
fn oblique() -> Grid {
    let turn =
        Affine::from_rows([[-0.8, 0.6, 0.0, 3.0], [0.6, 0.8, 0.0, -2.0], [0.0, 0.0, 1.0, 5.0]]);
    grid([44, 46, 42], 4.0).moved(&turn).unwrap()
}

#[test]
fn points_of_every_program_go_through_apply() {
    let place = Place::new();
    let image = oblique();
    place.image("a.nii.gz", &head(&image, &Affine::identity()));
    let shift = Affine::translation(Vector3::new(10.0, 20.0, 30.0));
    write(place.path("t.tfm"), &Transform::Affine(shift), &Geometry::default()).unwrap();
    let read = |name: &str| points::read(place.path(name), &ReadOptions::default()).unwrap();
    for name in lists(&place, "p", &image, |p| p) {
        let indexed = if name.contains("index") { "--points-of a.nii.gz" } else { "" };
        let output = name.replacen("p.", "q.", 1);
        let run = place.line(&format!("apply -i {name} -t t.tfm -o {output} {indexed}")).expect(0);
        assert!(run.out.contains("4 points mapped"), "{}", run.out);
        assert_eq!(
            run.err.contains("header is that of ANTs"),
            name.contains("ants"),
            "{}",
            run.err
        );
        let (moved, info) = read(&output);
        for (p, q) in PLACES.iter().zip(moved.points()) {
            let off = (Vector3::from(*p) - shift.offset - q).norm();
            assert!(off < 1e-5, "{name}: {off}");
        }
        // Lists of indices become lists of points, as they leave their image.
        let format = read(&output).1.format;
        let expected = match &name[2..] {
            "csv" => PointFormat::Csv,
            "ants.csv" => PointFormat::Ants,
            "fcsv" => PointFormat::Fcsv,
            "mrk.json" => PointFormat::Markups,
            "tag" => PointFormat::Tag,
            _ => PointFormat::ElastixPoint,
        };
        assert_eq!(format, expected, "{name}");
        let convention = if name.ends_with("p.fcsv") || name == "p.csv" || name.ends_with("tag") {
            PointConvention::Ras
        } else {
            PointConvention::Lps
        };
        assert_eq!(info.convention, Some(convention), "{name}");
        if !name.contains("txt") {
            let labels = moved.columns().iter().find(|(name, _)| name == "label").unwrap();
            assert!(labels.1[2].ends_with('2'), "{name}: {labels:?}");
        }
        // All of them are the same list.
        let json = place
            .line(&format!("compare --points p.csv {name} --points-of a.nii.gz --json"))
            .expect(0)
            .json();
        assert!(json["landmarks"]["max"].as_f64().unwrap() < 1e-5, "{name}");
        let info = place.line(&format!("info {name} --points-of a.nii.gz --json")).expect(0).json();
        assert_eq!(info["points"], 4);
        assert_eq!(info["points_on_the_image"], 4, "{name}");
    }
    place.line("apply -i p.index.txt -t t.tfm -o r.csv").expect(2).says(&[
        "p.index.txt",
        "voxel indices",
        "--points-of",
    ]);
    // An option that the file speaks against is said.
    let run = place.line("apply -i p.mrk.json -t t.tfm -o r.csv --point-convention ras").expect(0);
    run.says(&["the file states that the coordinates are LPS"]);
    let (moved, info) = read("r.csv");
    assert_eq!(info.convention, Some(PointConvention::Ras));
    assert!((moved.points()[0] - Vector3::new(-5.0, -10.0, -22.0)).norm() < 1e-9);
    let run = place.line("apply -i p.ants.csv -t t.tfm -o s.csv --point-convention ras").expect(0);
    run.says(&["taken for RAS, as asked for"]);
    // Points elsewhere than their image, and none at all of them on it.
    place.write("far.csv", "x,y,z\n5,10,8\n900,1,1\n900,2,2\n");
    let far = "apply -t t.tfm -o f.csv --points-of a.nii.gz -i";
    place.line(&format!("{far} far.csv")).expect(0).says(&["1 of 3 points lie on the image"]);
    place.write("far.csv", "x,y,z\n800,10,8\n900,1,1\n900,2,2\n");
    place.line(&format!("{far} far.csv")).expect(1).says(&["the result means nothing"]);
}

#[test]
fn every_form_is_written() {
    let place = Place::new();
    let image = oblique();
    place.image("a.nii.gz", &head(&image, &Affine::identity()));
    let names = lists(&place, "p", &image, |p| p);
    for from in &names {
        for (to, more) in [
            ("o.csv", ""),
            ("o.csv", "--to-format ants"),
            ("o.fcsv", ""),
            ("o.fcsv", "--to-convention ras"),
            ("o.mrk.json", ""),
            ("o.txt", ""),
            ("o.pts", "--to-format index --points-of a.nii.gz"),
            ("o.tag", ""),
        ] {
            let own = from.contains("index") && !more.contains("points-of");
            let own = if own { "--points-of a.nii.gz" } else { "" };
            let run = place.line(&format!("convert {from} {to} {more} {own}")).expect(0);
            let lists = to.contains("txt") || to.contains("pts");
            let label = !from.contains("txt");
            assert_eq!(run.err.contains("no column 'label'"), lists && label, "{}", run.err);
            let options = ReadOptions { grid: Some(&image), ..ReadOptions::default() };
            let (set, _) = points::read(place.path(to), &options).unwrap();
            for (p, q) in PLACES.iter().zip(set.points()) {
                assert!((Vector3::from(*p) - q).norm() < 1e-5, "{from} {to}");
            }
        }
    }
    let before = place.names();
    for (line, said) in [
        ("convert p.csv no.txt --to-convention ras", &["LPS always"][..]),
        ("convert p.csv no.tag --to-convention lps", &["RAS always"]),
        ("convert p.csv no.txt --to-format index", &["--points-of"]),
        ("convert p.csv no.fcsv --points-of a.nii.gz", &["--points-of is for lists of voxel"]),
        ("convert p.index.txt no.csv", &["voxel indices", "--points-of"]),
        ("convert p.csv no.xlsx", &["no.xlsx"]),
        ("convert p.csv no.csv --volume 0", &["--volume"]),
        ("convert a.nii.gz no.nii --to-format csv", &["--to-format is for points"]),
    ] {
        place.line(line).expect(2).says(said);
        assert_eq!(place.names(), before, "{line}");
    }
    // Two volumes in one file.
    place.write(
        "two.tag",
        "MNI Tag Point File\nVolumes = 2;\nPoints =\n 1 2 3 4 5 6 \"a\"\n 7 8 9 7 8 9;\n",
    );
    place.line("convert two.tag one.csv").expect(2).says(&["--volume"]);
    place.line("convert two.tag one.csv --volume 1").expect(0);
    let text = fs::read_to_string(place.path("one.csv")).unwrap();
    assert_eq!(text, "x,y,z,label\n4,5,6,a\n7,8,9,\n");
    let json = place.line("compare --points two.tag two.tag --json").expect(0).json();
    assert_eq!(json["landmarks"]["distances"][1], 0.0);
    assert!(json["landmarks"]["max"].as_f64().unwrap() > 5.0);
}

#[test]
fn landmarks_of_every_program_start_and_pull() {
    let place = Place::new();
    let (fixed, moving) = (grid([38, 42, 38], 4.0), oblique());
    let shift = Affine::translation(Vector3::new(4.0, -6.0, 3.0));
    place.image("a.nii.gz", &head(&fixed, &Affine::identity()));
    place.image("b.nii.gz", &head(&moving, &shift.inverse().unwrap()));
    let of_fixed = lists(&place, "f", &fixed, |p| p);
    let of_moving = lists(&place, "m", &moving, |p| shift.apply(p));
    let line = "affine a.nii.gz b.nii.gz --search none --cost ncc --no-report -o out --init";
    for (f, m) in of_fixed.iter().zip(&of_moving) {
        place.line(&format!("{line} landmarks:{f},{m} --json")).expect(0);
        let record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(place.path("out/result.json")).unwrap())
                .unwrap();
        let after = record["figures"]["landmark_distance_largest_mm_after"].as_f64().unwrap();
        let before = record["figures"]["landmark_distance_largest_mm_before"].as_f64().unwrap();
        assert!(
            after < 1e-3 && (before - shift.offset.norm()).abs() < 1e-3,
            "{f}: {before} {after}"
        );
    }
    // Of different programs, and one file of two volumes.
    let mut tags = "MNI Tag Point File\nVolumes = 2;\nPoints =\n".to_owned();
    for p in PLACES {
        let q = shift.apply(Vector3::from(p));
        let _ = writeln!(tags, "{} {} {} {} {} {}", p[0], p[1], p[2], q[0], q[1], q[2]);
    }
    place.write("pairs.tag", &format!("{tags};\n"));
    let deform =
        "deform a.nii.gz b.nii.gz --affine none --schedule 4x2 --similarity ssd --no-report -o d";
    for files in ["f.index.txt m.mrk.json", "pairs.tag pairs.tag"] {
        let run = place.line(&format!("{deform} --landmarks {files}"));
        assert!(run.code < 2 && run.out.contains("mean distance of 4 landmarks"), "{}", run.err);
    }
}

#[test]
fn lists_that_mislead_are_refused() {
    let place = Place::new();
    place.image("a.nii.gz", &head(&grid([38, 42, 38], 4.0), &Affine::identity()));
    let names = lists(&place, "p", &grid([38, 42, 38], 4.0), |p| p);
    let undefined = fs::read_to_string(place.path("p.mrk.json")).unwrap();
    let undefined = undefined.replacen("\"F-1\"", "\"F-1\", \"positionStatus\": \"undefined\"", 1);
    place.write("undefined.mrk.json", &undefined);
    place.write("far.txt", "index\n4\n500 1 1\n501 1 1\n502 1 1\n503 2 2\n");
    place.write("cut.txt", "point\n4\n1 2 3\n");
    place.write("far.fcsv", "# Markups fiducial file version = 4\n# CoordinateSystem = LPS\n1,900,2,3,0,0,0,1,1,1,0,a,,\n");
    let before = place.names();
    let line = "deform a.nii.gz a.nii.gz --affine none --schedule 4x2 -o out --landmarks";
    for (files, said) in [
        ("undefined.mrk.json p.csv", &["undefined.mrk.json", "1 points without a position"][..]),
        (
            "far.txt p.csv",
            &["far.txt", "outside of the fixed image", "voxel indices count in another"],
        ),
        ("cut.txt p.csv", &["cut.txt", "4 points, but 1 follow"]),
        ("far.fcsv far.fcsv", &["the file says that its points are LPS"]),
    ] {
        place.line(&format!("{line} {files}")).expect(2).says(said);
        assert_eq!(place.names(), before);
    }
    let json = place.line("info undefined.mrk.json --json").expect(0).json();
    assert_eq!((&json["points"], &json["points_without_position"]), (&3.into(), &1.into()));
    assert!(json["odd"][0].as_str().unwrap().contains("'F-1'"), "{}", json["odd"]);
    place.line("compare --points undefined.mrk.json p.csv").expect(2).says(&["without a position"]);
    assert_eq!(names.len(), 7);
}
