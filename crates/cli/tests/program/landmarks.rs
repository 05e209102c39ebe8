//! Corresponding points: what starts an affine search, and what pulls in a deformation.

use crate::common::{Place, grid, head};
use crate::deform::{record, small};
use std::fmt::Write as _;
use voxalign_image::{Affine, AffineParameters, Vector3};

/// Places within the head, not in one plane.
const PLACES: [[f64; 3]; 7] = [
    [5.0, 10.0, 8.0],
    [-25.0, 20.0, -10.0],
    [22.0, -30.0, 15.0],
    [10.0, 35.0, -28.0],
    [-30.0, -25.0, 20.0],
    [0.0, 50.0, 10.0],
    [12.0, -8.0, 40.0],
];

/// Writes points, with a column of weights where there are some; `sign` is that of x and y.
fn points(
    place: &Place,
    name: &str,
    sign: f64,
    at: impl Fn(Vector3<f64>) -> Vector3<f64>,
    weights: &[f64],
) {
    let mut text = if weights.is_empty() { "x,y,z\n" } else { "x,y,z,weight\n" }.to_owned();
    for (i, p) in PLACES.iter().enumerate() {
        let p = at(Vector3::from(*p));
        let _ = write!(text, "{},{},{}", sign * p[0], sign * p[1], p[2]);
        let _ = weights.get(i).map_or(Ok(()), |w| write!(text, ",{w}"));
        text.push('\n');
    }
    place.write(name, &text);
}

/// A head, and another that is turned by 120 degrees about an oblique axis and moved.
fn turned(place: &Place) -> Affine {
    let parts = AffineParameters {
        rotation: third_of_a_turn(),
        translation: Vector3::new(9.0, -7.0, 12.0),
        ..AffineParameters::identity(Vector3::zeros())
    };
    let map = parts.to_affine();
    let back = map.inverse().unwrap();
    place.image("a.nii.gz", &head(&grid([38, 42, 38], 4.0), &Affine::identity()));
    place.image("b.nii.gz", &head(&grid([44, 44, 44], 4.0), &back));
    map
}

/// Angles of a turn by 120 degrees about the diagonal of the axes.
fn third_of_a_turn() -> Vector3<f64> {
    // It takes x to y, y to z and z to x: Rz Ry Rx with these.
    let quarter = std::f64::consts::FRAC_PI_2;
    Vector3::new(quarter, 0.0, quarter)
}

/// How far a recorded transform is from a map, mm at the corners of the head.
fn off(record: &serde_json::Value, map: &Affine) -> f64 {
    let rows = [0, 1, 2]
        .map(|r| [0, 1, 2, 3].map(|c| record["transform"]["matrix"][r][c].as_f64().unwrap()));
    Affine::from_rows(rows).largest_distance(map, &grid([30, 36, 30], 4.0).corners())
}

#[test]
fn they_start_a_search_however_far_the_images_are_turned() {
    let place = Place::new();
    let map = turned(&place);
    assert!((map.matrix.trace()).abs() < 1e-9, "120 degrees: {}", map.matrix);
    points(&place, "f.csv", 1.0, |p| p, &[]);
    // Some millimetres off, as clicked.
    let off_by = |p: Vector3<f64>| {
        map.apply(p) + Vector3::new((p[0]).sin(), (p[1]).cos(), (p[2]).sin()) * 2.0
    };
    points(&place, "m.csv", 1.0, off_by, &[]);
    let line = "affine a.nii.gz b.nii.gz --search local --dof 6 --cost ncc --init";
    let lost = place.line(&format!("{line} header -o lost --no-report"));
    assert!(lost.code == 1 || off(&record(&place, "lost"), &map) > 10.0, "{}", lost.out);
    let found = place.line(&format!("{line} landmarks:f.csv,m.csv -o out")).expect(0);
    assert!(found.out.contains("mean distance of 7 landmarks, mm"), "{}", found.out);
    let record = record(&place, "out");
    assert!(off(&record, &map) < 1.0, "{}", off(&record, &map));
    let figures = &record["figures"];
    let at = |name: &str| figures[format!("landmark_distance_{name}_mm_after")].as_f64().unwrap();
    assert!(at("mean") < 3.5 && at("median") <= at("largest") && at("largest") < 4.0, "{figures}");
    assert!(figures["landmark_distance_mean_mm_before"].as_f64().unwrap() > 20.0);
    assert_eq!(record["landmarks"].as_array().unwrap().len(), 7);
    let inputs = record["inputs"].as_array().unwrap();
    let roles: Vec<_> = inputs.iter().map(|i| i["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["fixed", "moving", "init_fixed_landmarks", "init_moving_landmarks"]);
    assert!(inputs.iter().all(|i| i["sha256"].as_str().unwrap().len() == 64));
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("<section id=\"landmarks\">"));
    // Of another convention, with all freedom, and by a deformation's own affine part.
    points(&place, "fl.csv", -1.0, |p| p, &[]);
    points(&place, "ml.csv", -1.0, |p| map.apply(p), &[]);
    let lps = "--init landmarks:fl.csv,ml.csv --point-convention lps --no-report";
    place
        .line(&format!("affine a.nii.gz b.nii.gz --search none --cost ncc {lps} -o lps"))
        .expect(0);
    let error = off(&self::record(&place, "lps"), &map);
    assert!(error < 0.1, "{error}");
    let deform = "deform a.nii.gz b.nii.gz --schedule 4x2 --similarity ssd";
    place.line(&format!("{deform} {lps} -o both"));
    let error = off(&self::record(&place, "both"), &map);
    assert!(error < 4.0, "{error}");
}

#[test]
fn what_they_do_not_determine_is_said() {
    let place = Place::new();
    let map = turned(&place);
    points(&place, "f.csv", 1.0, |p| Vector3::new(p[0], p[1], 5.0), &[]);
    points(&place, "m.csv", 1.0, |p| map.apply(Vector3::new(p[0], p[1], 5.0)), &[]);
    let line = "affine a.nii.gz b.nii.gz --search none --cost ncc --no-report --init";
    let found = place.line(&format!("{line} landmarks:f.csv,m.csv -o flat")).expect(0);
    assert!(found.out.contains("coplanar or collinear"), "{}", found.out);
    assert!(off(&record(&place, "flat"), &map) < 0.1);
    // Left for right.
    points(&place, "f.csv", 1.0, |p| p, &[]);
    points(&place, "m.csv", 1.0, |p| Vector3::new(-p[0], p[1], p[2]), &[]);
    let found = place.line(&format!("{line} landmarks:f.csv,m.csv -o mirrored"));
    assert!(
        found.out.contains("mirror image") && found.out.contains("left and right"),
        "{}",
        found.out
    );
    // No plane in space has to be told of its third coordinate.
    place.write("two.csv", "x,y,z\n1,2,3\n4,5,6\n");
    place
        .line(&format!("{line} landmarks:two.csv,two.csv -o no"))
        .expect(2)
        .says(&["2 pairs of landmarks", "at least 3"]);
}

/// Where a point of `a.nii.gz` is in `b.nii.gz`, of the small pair: that of the bend inverted.
fn bent(p: Vector3<f64>) -> Vector3<f64> {
    let bend = |p: Vector3<f64>| {
        Vector3::new((p[1] / 25.0).sin(), (p[2] / 22.0).cos(), (p[0] / 24.0).sin()) * 3.0
    };
    (0..50).fold(p, |q, _| p - bend(q))
}

#[test]
fn they_pull_in_every_model() {
    let place = Place::new();
    small(&place);
    // The last two are measured only.
    points(&place, "f.csv", 1.0, |p| p, &[1.0, 1.0, 2.0, 1.0, 1.0, 0.0, 0.0]);
    // By 5 mm more than the images say.
    points(&place, "m.csv", 1.0, |p| bent(p) + Vector3::new(5.0, 0.0, 0.0), &[]);
    let line = "deform a.nii.gz b.nii.gz --affine none --no-report --schedule 4x30,2x20";
    let mean = |folder: &str| {
        let record = record(&place, folder);
        ["before", "after"].map(|when| {
            record["figures"][format!("landmark_distance_mean_mm_{when}")].as_f64().unwrap()
        })
    };
    for model in ["greedy", "symmetric", "lddmm"] {
        let mut last = f64::INFINITY;
        for weight in ["0.001", "1"] {
            let of = format!(
                "--model {model} --landmarks f.csv m.csv --landmark-weight {weight} --point-convention ras"
            );
            let run = place.line(&format!("{line} {of} -o out"));
            assert!(
                run.code < 2 && run.out.contains("mean distance of 7 landmarks"),
                "{}",
                run.err
            );
            let [before, after] = mean("out");
            println!("{model}, {weight}: {before:.2} mm to {after:.2}");
            assert!(after < 0.9 * last, "{model} {weight}: {before} {after}");
            last = after;
        }
        let record = record(&place, "out");
        assert_eq!(record["parameters"]["landmark_weight"], 1.0);
        assert_eq!(record["landmarks"][2]["weight"], 2.0);
        let checks = record["verdict"]["checks"].as_array().unwrap();
        let check = checks.iter().find(|c| c["name"] == "mean distance of the landmarks").unwrap();
        assert_eq!((&check["passed"], &check["unit"]), (&true.into(), &"mm".into()));
    }
    // As data: the same from a file of options, and what is planned.
    place.write(
        "job.toml",
        "landmarks = ['f.csv', 'm.csv']\nlandmark-weight = 1\nmodel = 'lddmm'\npoint-convention = 'ras'\n",
    );
    place.line(&format!("{line} --config job.toml -o again"));
    let parameters = |folder| record(&place, folder)["parameters"].clone();
    assert_eq!((mean("again"), parameters("again")), (mean("out"), parameters("out")));
    let plan =
        place.line(&format!("{line} --config job.toml -o again --dry-run --json")).expect(0).json();
    let roles: Vec<_> =
        plan["reads"].as_array().unwrap().iter().map(|r| r["role"].clone()).collect();
    assert!(
        roles.contains(&"fixed_landmarks".into()) && roles.contains(&"moving_landmarks".into())
    );
}

#[test]
fn landmarks_that_stay_apart_are_a_bad_verdict() {
    let place = Place::new();
    small(&place);
    points(&place, "f.csv", 1.0, bent, &[]);
    // The images go where they belong, away from these, which hardly pull.
    points(&place, "m.csv", 1.0, |p| p, &[]);
    let line = "deform a.nii.gz b.nii.gz --affine none --schedule 4x40,2x20 -o out --landmarks f.csv m.csv";
    let run = place.line(&format!("{line} --landmark-weight 1e-6")).expect(1);
    assert!(run.out.contains("bad: mean distance of the landmarks"), "{}", run.out);
    assert!(run.out.contains("farther apart than before"), "{}", run.out);
    let tried = ["try: check that the points of both lists of --landmarks", "--landmark-weight"];
    assert!(tried.iter().all(|t| run.out.contains(t)), "{}", run.out);
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(
        page.contains("<section id=\"landmarks\">") && page.contains("Landmark distance mean, mm")
    );
}

#[test]
fn bad_lists_are_refused_with_what_helps() {
    let place = Place::new();
    small(&place);
    let good = |name: &str| points(&place, name, 1.0, |p| p, &[]);
    good("f.csv");
    place.write("three.csv", "x,y,z\n1,2,3\n4,5,6\n7,8,9\n");
    place.write("none.csv", "x,y,z\n");
    place.write("nan.csv", "x,y,z\n1,2,3\n4,nan,6\n7,8,9\n");
    place.write("weights.csv", "x,y,z,weight\n1,2,3,1\n4,5,6,much\n7,8,9,1\n");
    place.write("negative.csv", "x,y,z,weight\n1,2,3,1\n4,5,6,-1\n7,8,9,1\n");
    place.write("far.csv", "x,y,z\n1000,0,0\n1000,9,0\n1000,0,9\n");
    place.write("one_off.csv", "x,y,z\n1000,2,3\n4,5,6\n7,8,9\n");
    let line = "deform a.nii.gz b.nii.gz --affine none --schedule 4x2 -o out";
    for (files, said) in [
        ("f.csv three.csv", &["'f.csv' has 7 points, 'three.csv' 3", "--landmarks"][..]),
        ("none.csv none.csv", &["'none.csv' has no points"]),
        ("three.csv nan.csv", &["nan.csv", "line 3", "not a number"]),
        ("three.csv nowhere.csv", &["nowhere.csv"]),
        ("weights.csv three.csv", &["weight of point 2", "'much' is not a number"]),
        ("negative.csv three.csv", &["negative.csv", "-1", "0 or more"]),
        (
            "far.csv three.csv",
            &["all 3 points lie outside of the fixed image", "--point-convention lps"],
        ),
    ] {
        place.line(&format!("{line} --landmarks {files}")).expect(2).says(said);
        assert!(!place.path("out").exists(), "{files}");
        let init = files.replace(' ', ",");
        let affine = format!("affine a.nii.gz b.nii.gz -o out --init landmarks:{init}");
        place.line(&affine).expect(2);
        assert!(!place.path("out").exists(), "{files}");
    }
    // One of them outside is odd, and no more.
    let run = place.line(&format!("{line} --landmarks one_off.csv three.csv"));
    assert!(
        run.code < 2 && run.err.contains("1 of 3 landmarks lies outside of the fixed image"),
        "{}",
        run.err
    );
    // An image far from the origin: where points were counted in voxels, or mirrored, is told.
    let shift = Affine::translation(Vector3::new(300.0, 400.0, 0.0));
    place.image(
        "c.nii.gz",
        &head(&grid([40, 40, 40], 4.0).moved(&shift).unwrap(), &shift.inverse().unwrap()),
    );
    place.write("voxels.csv", "x,y,z\n20,20,20\n25,20,20\n20,25,20\n");
    place.write("lps.csv", "x,y,z\n-300,-400,0\n-310,-400,0\n-300,-410,0\n");
    let line = "deform c.nii.gz c.nii.gz --affine none --schedule 4x2 -o no --landmarks";
    place
        .line(&format!("{line} voxels.csv voxels.csv"))
        .expect(2)
        .says(&["look like voxel indices"]);
    place
        .line(&format!("{line} lps.csv lps.csv"))
        .expect(2)
        .says(&["they lie on it as LPS", "--point-convention lps"]);
    let line = "deform a.nii.gz b.nii.gz -o no";
    for (options, said) in [
        ("--landmark-weight 1", "--landmark-weight is for --landmarks"),
        ("--point-convention lps", "--point-convention is for points"),
        ("--landmarks f.csv f.csv --landmark-weight 0", "above 0"),
        ("--landmarks f.csv", "2 values required"),
        ("--affine none --init centre", "--init is for an affine registration that comes first"),
        ("--init landmarks:f.csv", "give two files"),
    ] {
        place.line(&format!("{line} {options}")).expect(2).says(&[said]);
    }
    let run = place.line("affine a.nii.gz b.nii.gz -o no --point-convention lps");
    run.expect(2).says(&["--point-convention is for the points of --init"]);
    assert!(!place.path("no").exists());
}
