//! How many subjects an atlas needs, from files to files.

use crate::common::{Place, grid, head, names};
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;
use voxalign_image::{AffineParameters, Vector3};

/// Six flat heads in different places, `0.nii.gz` to `5.nii.gz`.
fn heads(place: &Place) {
    let grid = grid([40, 48, 1], 4.0);
    for i in 0..6 {
        let t = f64::from(i) - 2.5;
        let way = AffineParameters {
            rotation: Vector3::new(0.0, 0.0, 0.05 * t),
            translation: Vector3::new(2.0 * t, -3.0 * t * t.signum(), 0.0),
            scale: Vector3::new(1.0 + 0.03 * t, 1.0 - 0.02 * t, 1.0),
            ..AffineParameters::identity(grid.centre())
        };
        place.image(&format!("{i}.nii.gz"), &head(&grid, &way.to_affine()));
    }
}

const IMAGES: &str = "0.nii.gz 1.nii.gz 2.nii.gz 3.nii.gz 4.nii.gz 5.nii.gz";
const HOW: &str = "--align none --schedule 2x10,1x5 --device cpu";

#[test]
fn entropies_of_random_cohorts() {
    let place = Place::new();
    heads(&place);
    let run = place
        .line(&format!("atlas {IMAGES} -o a --stability 2..4,6 --cohorts 5 --seed 3 {HOW}"))
        .expect(0);
    assert!(
        run.err.contains("6 of 6 subjects there is 1 cohort, fewer than the 5 requested"),
        "{}",
        run.err
    );
    assert_eq!(names(&place.path("a")), ["cohorts.csv", "report.html", "result.json", "sizes.csv"]);
    let text = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text("a/result.json")).unwrap();
    let sizes = record["sizes"].as_array().unwrap();
    let of = |key: &str| sizes.iter().map(|s| s[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("size"), [2, 3, 4, 6]);
    assert_eq!(of("all"), [false, false, false, true]);
    for size in sizes {
        let cohorts = size["cohorts"].as_array().unwrap();
        assert_eq!(cohorts.len(), if size["size"] == 6 { 1 } else { 5 });
        for key in ["affine", "atlas"] {
            let values: Vec<f64> =
                cohorts.iter().map(|c| c[format!("entropy_{key}")].as_f64().unwrap()).collect();
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            assert!((size[key]["mean"].as_f64().unwrap() - mean).abs() < 1e-12);
            let sum: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            match size[key]["variance"].as_f64() {
                Some(variance) => assert!((variance - sum / (n - 1.0)).abs() < 1e-12),
                None => assert_eq!(cohorts.len(), 1),
            }
        }
        // Atlases by deformation are sharper than blurred means.
        let mean = |key: &str| size[key]["mean"].as_f64().unwrap();
        println!("{}: {} {}", size["size"], mean("affine"), mean("atlas"));
        assert!(mean("atlas") < mean("affine"), "{size}");
        for cohort in cohorts {
            let members = cohort["members"].as_array().unwrap();
            assert_eq!(members.len() as u64, size["size"].as_u64().unwrap());
        }
    }
    assert_eq!(text("a/cohorts.csv").lines().count(), 1 + 16);
    assert_eq!(text("a/sizes.csv").lines().count(), 1 + 4);
    let page = text("a/report.html");
    assert_eq!(page.matches("<img").count(), 2 * 4);

    // The same seed, in another order and with other threads: the same cohorts, to the last bit. Other
    // sizes do not change those of one.
    let images = "4.nii.gz 5.nii.gz 0.nii.gz 3.nii.gz 1.nii.gz 2.nii.gz";
    place
        .line(&format!("atlas {images} -o b --stability 4 --cohorts 5 --seed 3 --threads 1 {HOW}"))
        .expect(0);
    let rows = |name: &str| -> Vec<String> {
        text(name).lines().filter(|l| l.starts_with("4,")).map(str::to_owned).collect()
    };
    assert_eq!(rows("a/cohorts.csv"), rows("b/cohorts.csv"));
    place.line(&format!("atlas {images} -o c --stability 4 --cohorts 5 {HOW}")).expect(0);
    assert_ne!(rows("a/cohorts.csv"), rows("c/cohorts.csv"));
}

#[test]
fn the_entropies_of_all_subjects_are_those_of_their_atlas() {
    let place = Place::new();
    heads(&place);
    place.line(&format!("atlas {IMAGES} -o a --stability 6 {HOW}")).expect(0);
    place.line(&format!("atlas {IMAGES} -o b {HOW}")).expect(0);
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
    };
    let (test, atlas) = (read("a/result.json"), read("b/result.json"));
    let cohort = &test["sizes"][0]["cohorts"][0];
    assert_eq!(cohort["entropy_affine"], atlas["figures"]["entropy_before"]);
    assert_eq!(cohort["entropy_atlas"], atlas["figures"]["entropy_after"]);
}

#[test]
fn cohorts_are_drawn_of_the_subjects_that_are_left() {
    let place = Place::new();
    heads(&place);
    let whole = fs::read(place.path("5.nii.gz")).unwrap();
    fs::write(place.path("5.nii.gz"), &whole[..whole.len() / 2]).unwrap();
    let line = format!("atlas {IMAGES} -o a --exclude unreadable {HOW}");
    place.line(&format!("{line} --stability 3,5 --cohorts 4")).expect(0);
    let text = fs::read_to_string(place.path("a/result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["subjects"].as_array().unwrap().len(), 5);
    for size in record["sizes"].as_array().unwrap() {
        for cohort in size["cohorts"].as_array().unwrap() {
            assert!(cohort["members"].as_array().unwrap().iter().all(|m| m.as_u64() < Some(5)));
        }
    }
    let remarks = record["verdict"]["remarks"].to_string();
    assert!(remarks.contains("'5' was left out"), "{remarks}");
    assert!(remarks.contains("for 5 of 5 subjects"), "{remarks}");

    // Six of five cannot be drawn.
    let run = place.line(&format!("{line} --stability 6").replace(" -o a", " -o b")).expect(2);
    run.says(&["there are 5 subjects; give numbers from 2 to 5"]);
    assert!(!place.path("b").exists());
}

#[test]
fn bad_input_leaves_nothing() {
    let place = Place::new();
    heads(&place);
    for (line, said) in [
        (format!("{IMAGES} --stability 2..7"), "there are 6 subjects"),
        (format!("{IMAGES} --stability 1..3"), "2 or more"),
        (format!("{IMAGES} --stability 5..3"), "3..5"),
        (format!("{IMAGES} --stability 2..3 --cohorts 0"), "--cohorts"),
        (format!("{IMAGES} --cohorts 5"), "--stability"),
        (format!("{IMAGES} --seed 5"), "--stability"),
    ] {
        place.line(&format!("atlas {line} -o a {HOW}")).expect(2).says(&[said]);
        assert!(!place.path("a").exists(), "{line}");
    }
}

/// An interrupt between or within atlases leaves nothing.
#[test]
#[cfg(unix)]
fn an_interrupt_leaves_nothing() {
    let place = Place::new();
    heads(&place);
    let how = "--align none --schedule 1x2000 --device cpu";
    let line = format!("atlas {IMAGES} -o a --stability 2..5 {how}");
    let words: Vec<_> = line.split_whitespace().collect();
    let mut command = place.command(&words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !place.path("a").exists() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
    }
    std::thread::sleep(Duration::from_millis(200));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.path("a").exists());
}
