//! Atlases along a covariate, from files to files.

use crate::common::{Place, grid, names};
use std::fs;
use voxalign_image::{LabelMap, Vector3, Volume};
use voxalign_io::image::{read_labels, read_volume};

/// The radius of the cavity at an age, mm: it grows with age.
fn cavity(age: f64) -> f64 {
    10.0 + 0.6 * (age - 60.0)
}

/// Where in a flat head of an age a place is: 0 outside, 1 tissue, 2 the cavity; and its intensity,
/// with soft borders.
fn anatomy(p: Vector3<f64>, age: f64, shift: f64) -> (i32, f32) {
    let bump = 1.0 + 0.06 * (3.0 * p.y.atan2(p.x) + shift).sin();
    let outer = p.x.hypot(p.y * 0.85) / (62.0 * bump);
    let inner = (p.x - 4.0).hypot(p.y + 6.0 + shift) / cavity(age);
    let soft = |d: f64, size: f64| 1.0 / (1.0 + ((d - 1.0) * size / 1.5).exp());
    let spot = soft((p.x + 30.0).hypot(p.y - 20.0) / 9.0, 9.0);
    let value = 100.0 * soft(outer, 62.0) - 70.0 * soft(inner, cavity(age)) + 50.0 * spot;
    let label = if inner < 1.0 { 2 } else { i32::from(outer < 1.0) };
    (label, value as f32)
}

const AGES: [f64; 7] = [60.0, 63.0, 66.0, 69.0, 72.0, 75.0, 78.0];

/// Seven flat heads of ages from 60 to 78 with labels, and `list.csv`.
fn heads(place: &Place) {
    let grid = grid([64, 72, 1], 2.5);
    let mut list = "path,labels,Age,mass\n".to_owned();
    for (i, age) in AGES.into_iter().enumerate() {
        let shift = [0.0, 1.5, -1.0, 0.5, -1.5, 1.0, -0.5][i];
        let at = |x: usize, y: usize| {
            let world = grid.index_to_world(Vector3::new(x as f64, y as f64, 0.0));
            anatomy(world, age, shift)
        };
        let image = Volume::from_fn(grid.clone(), |x, y, _| at(x, y).1);
        let labels: LabelMap = Volume::from_fn(grid.clone(), |x, y, _| at(x, y).0);
        place.image(&format!("{i}.nii.gz"), &image);
        place.labels(&format!("l{i}.nii.gz"), &labels);
        list += &format!("{i}.nii.gz,l{i}.nii.gz,{age},{}\n", if i == 3 { "" } else { "1" });
    }
    place.write("list.csv", &list);
}

const HOW: &str = "--align none --schedule 2x20,1x10 --device cpu";

fn json(place: &Place, name: &str) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

#[test]
fn cavities_grow_along_the_ages() {
    let place = Place::new();
    heads(&place);
    let line =
        format!("atlas --list list.csv -o a --regress AGE --at 63,69.0,75 --bandwidth 3 {HOW}");
    let run = place.line(&line).expect(0);
    assert!(run.err.contains("atlas 2 of 3, age 69.0: 7 subjects"), "{}", run.err);
    let files = ["at_63", "at_69.0", "at_75", "report.html", "result.json", "volumes.csv"];
    assert_eq!(names(&place.path("a")), files);
    let images = [
        "atlas.nii.gz",
        "atlas_affine.nii.gz",
        "entropy.nii.gz",
        "labels.nii.gz",
        "log_jacobian.nii.gz",
        "variance.nii.gz",
    ];
    assert_eq!(names(&place.path("a/at_69.0")), images);

    let record = json(&place, "a/result.json");
    assert_eq!(record["verdict"]["good"], true);
    assert_eq!(record["covariate"], "age");
    for (atlas, age) in record["atlases"].as_array().unwrap().iter().zip([63.0, 69.0, 75.0]) {
        // The weights are Gaussian, and so is what they are worth.
        let (mut sum, mut squares) = (0.0, 0.0);
        for subject in atlas["subjects"].as_array().unwrap() {
            let weight = subject["weight"].as_f64().unwrap();
            let own = subject["covariates"]["age"].as_f64().unwrap();
            assert!((weight - (-0.5 * ((own - age) / 3.0f64).powi(2)).exp()).abs() < 1e-12);
            sum += weight;
            squares += weight * weight;
        }
        let effective = atlas["effective_number"].as_f64().unwrap();
        assert!((effective - sum * sum / squares).abs() < 1e-9, "{effective}");
        // The cavity of the atlas is as large as that of a head of that age: its weighted mean radius,
        // which the ages on either side keep where it is.
        let found = atlas["volumes"]["2"].as_f64().unwrap();
        let wanted = std::f64::consts::PI * cavity(age).powi(2) * 2.5;
        println!("{age}: {found} of {wanted} mm³");
        assert!((found / wanted - 1.0).abs() < 0.15, "{age}: {found} of {wanted}");
    }
    let labels = read_labels(place.path("a/at_75/labels.nii.gz")).unwrap();
    let count = labels.data().iter().filter(|l| **l == 2).count() as f64;
    let told = record["atlases"][2]["volumes"]["2"].as_f64().unwrap();
    assert!((told - count * 2.5f64.powi(3)).abs() < 1e-6);

    // What the table has: 7 subjects, the curve and 3 atlases for each of 2 labels.
    let table = fs::read_to_string(place.path("a/volumes.csv")).unwrap();
    let rows: Vec<_> = table.lines().collect();
    assert_eq!(rows[0], "what,name,age,label,volume_mm3");
    let of = |what: &str| rows.iter().filter(|r| r.starts_with(&format!("{what},"))).count();
    assert_eq!([of("subject"), of("regression"), of("atlas")], [14, 402, 6]);
    let page = fs::read_to_string(place.path("a/report.html")).unwrap();
    assert_eq!(page.matches("<img").count(), 3);
    assert!(page.contains("Label 2") && !page.contains("<script"));
}

#[test]
fn the_atlas_at_a_value_is_that_of_its_weights() {
    let place = Place::new();
    heads(&place);
    let line =
        format!("atlas --list list.csv -o a --regress age --at 66 --bandwidth 2 --volumes 2 {HOW}");
    place.line(&line).expect(0);
    let record = json(&place, "a/result.json");
    let subjects = record["atlases"][0]["subjects"].as_array().unwrap();
    // exp(-z²/2) is 1e-3 at 7.4 years.
    assert_eq!(subjects.len(), 5);
    let mut list = "path,labels,weight\n".to_owned();
    for subject in subjects {
        let name = subject["name"].as_str().unwrap();
        list += &format!("{name}.nii.gz,l{name}.nii.gz,{}\n", subject["weight"].as_f64().unwrap());
    }
    place.write("weights.csv", &list);
    place.line(&format!("atlas --list weights.csv -o b {HOW}")).expect(0);
    for name in [
        "atlas.nii.gz",
        "atlas_affine.nii.gz",
        "variance.nii.gz",
        "entropy.nii.gz",
        "log_jacobian.nii.gz",
    ] {
        let [a, b] =
            ["a/at_66", "b"].map(|f| read_volume(place.path(&format!("{f}/{name}"))).unwrap());
        assert!(a == b, "{name} differs");
    }
    let other = json(&place, "b/result.json");
    assert_eq!(record["atlases"][0]["figures"]["entropy_after"], other["figures"]["entropy_after"]);
    assert_eq!(record["atlases"][0]["verdict"], other["verdict"]);
}

#[test]
fn few_subjects_are_told() {
    let place = Place::new();
    heads(&place);
    let line = format!("atlas --list list.csv -o a --regress age --at 84 --bandwidth 3 {HOW}");
    place.line(&line).expect(0);
    let record = json(&place, "a/result.json");
    let effective = record["atlases"][0]["effective_number"].as_f64().unwrap();
    assert!(effective < 3.0, "{effective}");
    let remark = record["verdict"]["remarks"][0].as_str().unwrap();
    assert!(
        remark.contains("effective number of subjects is") && remark.contains("--bandwidth"),
        "{remark}"
    );
}

#[test]
fn bad_input_leaves_nothing() {
    let place = Place::new();
    heads(&place);
    place.write("bare.csv", "path,age\n0.nii.gz,60\n1.nii.gz,70\n");
    for (line, said) in [
        ("--list list.csv --regress age --at 65", "--bandwidth"),
        ("--list list.csv --regress age --bandwidth 3", "--at"),
        ("--list list.csv --at 65 --bandwidth 3", "--regress"),
        ("0.nii.gz 1.nii.gz --regress age --at 65 --bandwidth 3", "--list"),
        ("--list list.csv --regress age --at 65 --bandwidth 0", "above 0"),
        ("--list list.csv --regress age --at old --bandwidth 3", "'old' is not a number"),
        ("--list list.csv --regress age --at 65,65.0 --bandwidth 3", "65.0 twice"),
        ("--list list.csv --regress age --at 120 --bandwidth 3", "all weights vanish"),
        ("--list list.csv --regress age --at 78 --bandwidth 0.5", "only 1 of the 7 subjects"),
        (
            "--list list.csv --regress mass --at 1 --bandwidth 3",
            "'3' has no number in the column 'mass'",
        ),
        ("--list list.csv --regress iq --at 1 --bandwidth 3", "numeric columns: age, mass"),
        (
            "--list list.csv --regress age --at 65 --bandwidth 3 --volumes 9",
            "no label map has the label",
        ),
        ("--list bare.csv --regress age --at 65 --bandwidth 9 --volumes 1", "--volumes"),
        ("--list list.csv --regress age --at 65 --bandwidth 3 --stability 2..3", "--stability"),
    ] {
        let line = format!("atlas {line} -o a {HOW}");
        place.line(&line).expect(2).says(&[said]);
        assert!(!place.path("a").exists(), "{line}");
    }
}

#[test]
fn subjects_whose_labels_cannot_be_read_are_left_out_where_asked() {
    let place = Place::new();
    heads(&place);
    let whole = fs::read(place.path("l0.nii.gz")).unwrap();
    fs::write(place.path("l0.nii.gz"), &whole[..whole.len() / 2]).unwrap();
    let line = format!("atlas --list list.csv -o a --regress age --at 69 --bandwidth 3 {HOW}");
    place.line(&line).expect(2).says(&["l0.nii.gz"]);
    assert!(!place.path("a").exists());
    place.line(&format!("{line} --exclude unreadable")).expect(0);
    let record = json(&place, "a/result.json");
    let names: Vec<_> = record["observations"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), AGES.len() - 1, "{names:?}");
    let remarks = record["verdict"]["remarks"].to_string();
    assert!(remarks.contains("'0' was left out"), "{remarks}");
}
