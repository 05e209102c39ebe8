//! `demo` and `bench`: the real pair that comes with the program.

use crate::common::{Place, grid, head, motion, names};
use voxalign_image::{Affine, Vector3};

#[test]
fn the_demo_finds_the_way_back() {
    let place = Place::new();
    let run = place.line("demo --threads 2").expect(0);
    for part in ["ICBM 152", "25, -40 and 60 degrees", "mean Dice of 2 labels", "verdict: good"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let out = place.path("voxalign-demo");
    let expected =
        ["affine.fsl.mat", "affine.tfm", "inputs", "report.html", "result.json", "warped.nii.gz"];
    assert_eq!(names(&out), expected);
    let text = std::fs::read_to_string(out.join("result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let figure = |name: &str| record["figures"][name].as_f64().unwrap();
    // With the headers as they were before they were moved, Dice is 0.69.
    assert!(figure("label_overlap_after") > 0.67, "{}", figure("label_overlap_after"));
    assert!(figure("label_overlap_before") < 0.4);

    // It can be run again over its own results.
    place.line("demo --quiet --no-report").expect(0);
    assert!(!out.join("report.html").exists(), "the report is that of another run");

    // And by the inverse the fixed labels come onto the moving image.
    place
        .line(
            "apply -i voxalign-demo/inputs/fixed_labels.nii.gz \
             -r voxalign-demo/inputs/moving.nii.gz -t inverse:voxalign-demo/affine.tfm \
             -o l.nii.gz --interpolation label",
        )
        .expect(0);
    let line = "compare voxalign-demo/inputs/moving_labels.nii.gz l.nii.gz --labels --json \
                --smallest-label 2";
    let dice = place.line(line).expect(0).json()["labels"]["mean_dice"].as_f64().unwrap();
    assert!(dice > 0.65, "{dice}");
}

#[test]
fn the_demo_of_x_rays_finds_the_pose() {
    let place = Place::new();
    let run = place.line("demo drr --device cpu --threads 2").expect(0);
    for part in ["6, -4 and 9 degrees", "8, -6 and 11 mm", "verdict: good"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let read = |name: &str| -> serde_json::Value {
        let path = place.path(&format!("voxalign-demo-drr/{name}"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    // Both map the room to the CT.
    let (truth, found) = (read("inputs/xrays/result.json"), read("result.json"));
    let row =
        |pose: &serde_json::Value, r: usize| [0, 1, 2, 3].map(|c| pose[r][c].as_f64().unwrap());
    let map =
        |pose: &serde_json::Value| -> Affine { Affine::from_rows([0, 1, 2].map(|r| row(pose, r))) };
    let off = map(&found["pose"]).largest_distance(
        &map(&truth["images"][0]["pose"]),
        &[Vector3::zeros(), Vector3::new(50.0, -50.0, 50.0)],
    );
    println!("{off} mm");
    assert!(off < 0.3, "{off}");
    // The numbers are those by which it was moved, and the error is said.
    let numbers = |key: &str| -> Vec<f64> { serde_json::from_value(found[key].clone()).unwrap() };
    let near = |key: &str, truth: [f64; 3]| {
        numbers(key).iter().zip(truth).all(|(a, b)| (a - b).abs() < 0.1)
    };
    assert!(near("translation_mm", [8.0, -6.0, 11.0]), "{:?}", numbers("translation_mm"));
    assert!(near("rotation_degrees", [6.0, -4.0, 9.0]), "{:?}", numbers("rotation_degrees"));
    assert!(run.out.lines().any(|l| l.starts_with("error: 0.")), "{}", run.out);
    place.line("demo drr --interpolation cubic").expect(2).says(&["--interpolation"]);
}

#[test]
fn bench_measures() {
    let place = Place::new();
    let json = place.line("bench --size 24x20x16 --operators-only --json").expect(0).json();
    let operators = json["operators"].as_array().unwrap();
    assert!(operators.len() > 1);
    assert!(operators.iter().all(|o| o["gb_per_s"].as_f64().unwrap() > 0.0));
    assert!(json["affine"].is_null());
    assert!(place.names().is_empty());
    let grid = grid([60, 64, 56], 3.0);
    place.image("a.nii", &head(&grid, &Affine::identity()));
    place.image("b.nii", &head(&grid, &motion()));
    let run = place.line("bench --affine-only --pair a.nii b.nii").expect(0);
    assert!(run.out.contains("whole command"), "{}", run.out);
    assert_eq!(place.names(), ["a.nii", "b.nii"]);
}

/// What no memory holds is said before anything is made, and takes no time.
#[test]
fn bench_of_too_large_images() {
    let place = Place::new();
    for line in [
        "bench --size 99999x99999x99999 --operators-only --only sort",
        "bench --size 99999x99999x99999 --operators-only",
        "bench --size 3000000x3000000x1 --only reduce --csv b.csv",
    ] {
        let run = place.line(&format!("{line} --device cpu")).expect(2);
        run.says(&["too large", "they need at least", "GiB free", "give a smaller --size"]);
        assert!(place.names().is_empty(), "{line}");
    }
    place.line("bench --size 18446744073709551615x2x2 --only sort").expect(2);
}

#[test]
fn bench_writes_files() {
    let place = Place::new();
    let line = "bench --size 12x10x8 --operators-only --device cpu --csv b.csv --html b.html";
    place.line(line).expect(0);
    assert_eq!(place.names(), ["b.csv", "b.html"]);
    let csv = std::fs::read_to_string(place.path("b.csv")).unwrap();
    let mut rows = csv.lines();
    assert!(rows.next().unwrap().starts_with("version,device,family,operator,size,bytes,"));
    let copy = rows.next().unwrap();
    assert!(copy.contains(",memory,copy,12x10x8,7680,"), "{copy}");
    assert!(copy.contains(",\"cpu (") && rows.count() > 20, "{csv}");
    let html = std::fs::read_to_string(place.path("b.html")).unwrap();
    assert!(html.matches("<svg").count() > 4 && html.ends_with("</html>\n"));
    assert!(!html.contains("://") && !html.contains("<script"), "the page is not on its own");

    // What cannot be written is said before anything is measured.
    place.line("bench --csv no/b.csv").expect(2).says(&["'no' does not exist"]);
    place.line("bench --csv b.html --html b.html").expect(2).says(&["same file"]);
    place.line("bench --pair a.nii b.csv --csv b.csv").expect(2).says(&["an input and an output"]);
    place.line("bench --affine-only --size 8").expect(2).says(&["--size"]);
    place.line("bench nothing").expect(2).says(&["nothing"]);
}

#[test]
fn the_demo_of_anatomies_brings_tissues_and_hulls_together() {
    let place = Place::new();
    let run = place.line("demo anatomy --device cpu --threads 2").expect(0);
    for part in ["25, -40 and 60 degrees", "grey", "hull", "verdict: good"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let out = place.path("voxalign-demo-anatomy");
    let text = std::fs::read_to_string(out.join("result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    for class in record["anatomy"]["classes"].as_array().unwrap() {
        let of = |key: &str| class[key].as_f64().unwrap();
        assert!(of("overlap_after") > of("overlap_before") && of("dice_after") > 0.85, "{class}");
    }
    let hull = &record["anatomy"]["shapes"][0];
    assert!(hull["after"]["mean"].as_f64().unwrap() < hull["before"]["mean"].as_f64().unwrap());
    // The files that it lists can be run again.
    let inputs = "voxalign-demo-anatomy/inputs";
    let line = format!("anatomy {inputs}/fixed.toml {inputs}/moving.toml --dry-run -o out");
    place.line(&line).expect(0);
    place.line("demo anatomy --interpolation label").expect(2).says(&["--interpolation"]);
}

#[test]
fn the_demo_of_a_breast_finds_where_its_tissue_was() {
    let place = Place::new();
    let run = place.line("demo elastic --device cpu --threads 2").expect(0);
    for part in ["press it by 16 mm", "cells of 10 mm", "verdict: good", "mean Dice"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let error = |when: &str| -> f64 {
        let start = format!("error over the breast {when}: ");
        let line = run.out.lines().find_map(|l| l.strip_prefix(&start)).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    };
    let (before, after) = (error("before"), error("after"));
    println!("{before} to {after} mm");
    assert!(before > 1.5 && after < 0.25 * before, "{before} {after}");
    let out = place.path("voxalign-demo-elastic");
    let expected = [
        "affine.fsl.mat",
        "affine.tfm",
        "inputs",
        "inverse_warp.nii.gz",
        "mesh.vtu",
        "report.html",
        "result.json",
        "warp.nii.gz",
        "warped.nii.gz",
    ];
    assert_eq!(names(&out), expected);
    // What it says of the error is so by other means: the true displacement carries the labels to those of the fixed image.
    let dice = |warp: &str| {
        place
            .line(&format!(
                "apply -i voxalign-demo-elastic/inputs/moving_labels.nii.gz \
                 -r voxalign-demo-elastic/inputs/fixed.nii.gz -t voxalign-demo-elastic/{warp} \
                 -o l.nii.gz --interpolation label"
            ))
            .expect(0);
        let line =
            "compare voxalign-demo-elastic/inputs/fixed_labels.nii.gz l.nii.gz --labels --json";
        place.line(line).expect(0).json()["labels"]["mean_dice"].as_f64().unwrap()
    };
    let (truth, found) = (dice("inputs/true_warp.nii.gz"), dice("warp.nii.gz"));
    println!("Dice {truth} by the truth, {found} by what was found");
    assert!(truth > 0.95 && found > 0.85 && found < truth, "{truth} {found}");
}

#[test]
fn sections_are_found_where_they_belong() {
    let place = Place::new();
    let run = place.line("demo sections --size 1500 -o out --threads 2").expect(0);
    let line = run.out.lines().find(|line| line.starts_with("error: ")).unwrap();
    let pixels: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(pixels < 0.5, "{line}");
    for name in
        ["inputs/fixed.ome.zarr", "inputs/moving.ome.zarr", "warped.ome.zarr", "report.html"]
    {
        assert!(place.path(&format!("out/{name}")).exists(), "{name}");
    }
    let run = place.line("demo sections --size 100 -o small").expect(2);
    assert!(run.err.contains("--size is 100; give pixels from 256 to 200000"), "{}", run.err);
    assert!(!place.path("small").exists());
    place.line("demo --size 500 -o small").expect(2);
}
