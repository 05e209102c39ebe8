//! A registration from files to files.

use crate::common::{Place, names};
use serde_json::Value;
use std::fs;
use voxalign_image::{Affine, Vector3};
use voxalign_io::image::{WriteOptions, read_info, read_volume, write_volume};
use voxalign_io::transform::{Geometry, read};

const FILES: [&str; 5] =
    ["affine.fsl.mat", "affine.tfm", "report.html", "result.json", "warped.nii.gz"];

/// Largest distance over the head between a transform found and the one made, mm.
fn error(found: &Affine, made: &Affine) -> f64 {
    let points: Vec<_> = (0..27)
        .map(|k| {
            Vector3::new((k % 3 - 1) as f64, (k / 3 % 3 - 1) as f64, (k / 9 - 1) as f64) * 40.0
        })
        .collect();
    found.largest_distance(made, &points)
}

fn record(place: &Place, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(folder).join("result.json")).unwrap()).unwrap()
}

/// A record without what may differ between two runs of the same job.
fn comparable(mut record: Value) -> Value {
    for key in ["date", "command", "host", "timings", "peak_memory_bytes", "outputs"] {
        record.as_object_mut().unwrap().remove(key);
    }
    for stage in record["stages"].as_array_mut().unwrap() {
        stage.as_object_mut().unwrap().remove("seconds");
    }
    record
}

#[test]
fn a_pair_is_registered_and_everything_written() {
    let place = Place::new();
    let made = place.pair();
    let run = place.line(
        "affine fixed.nii.gz moving.nii.gz -o new/out --fixed-labels fixed_labels.nii.gz \
         --moving-labels moving_labels.nii.gz",
    );
    let run = run.expect(0);
    for part in ["cost (nmi)", "mean Dice of 5 labels", "stage", "total", "verdict: good"] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    assert!(run.err.contains("evaluations"), "{}", run.err);
    assert!(!run.err.contains('\u{1b}') && !run.err.contains('\r'), "{}", run.err);
    let out = place.path("new/out");
    assert_eq!(names(&out), FILES);

    // Both transforms are read again and are the one that was made.
    let grids = ["fixed.nii.gz", "moving.nii.gz"].map(|n| read_volume(place.path(n)).unwrap());
    let geometry = Geometry { fixed: Some(grids[0].grid()), moving: Some(grids[1].grid()) };
    let itk = read(out.join("affine.tfm"), &Geometry::default()).unwrap().to_affine().unwrap();
    let fsl = read(out.join("affine.fsl.mat"), &geometry).unwrap().to_affine().unwrap();
    assert!(error(&itk, &made) < 1.0, "{}", error(&itk, &made));
    assert!(error(&itk, &fsl) < 1e-3, "{}", error(&itk, &fsl));
    let warped = read_volume(out.join("warped.nii.gz")).unwrap();
    assert!(warped.grid().approx_eq(grids[0].grid(), 1e-3));

    let record = record(&place, "new/out");
    assert_eq!(record["program"], "voxalign affine");
    assert_eq!(record["verdict"]["good"], true);
    assert_eq!(record["inputs"].as_array().unwrap().len(), 4);
    assert_eq!(record["parameters"]["dof"], 12);
    assert_eq!(record["outputs"].as_array().unwrap().len(), 5);
    let figures = &record["figures"];
    let figure = |name: &str| figures[name].as_f64().unwrap_or_else(|| panic!("{name}"));
    assert!(figure("label_overlap_after") > 0.9);
    assert!(figure("label_overlap_after") > figure("label_overlap_before"));
    assert!(figure("rms_after") < figure("rms_before"));
    assert!(figure("cost_after") < figure("cost_before"));
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("<html"), "the report is no page");
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let place = Place::new();
    place.pair();
    let mut results = Vec::new();
    for threads in ["1", "2", "4", "2"] {
        let line = format!(
            "affine fixed.nii.gz moving.nii.gz -o out{} --threads {threads} --quiet --no-report",
            results.len()
        );
        let run = place.line(&line).expect(0);
        assert!(run.out.is_empty() && run.err.is_empty(), "{}{}", run.out, run.err);
        let folder = format!("out{}", results.len());
        let bytes = |name: &str| fs::read(place.path(&folder).join(name)).unwrap();
        assert_eq!(names(&place.path(&folder)).len(), 4);
        results.push((
            bytes("affine.tfm"),
            bytes("affine.fsl.mat"),
            bytes("warped.nii.gz"),
            comparable(record(&place, &folder)),
        ));
    }
    for other in &results[1..] {
        assert!(other.0 == results[0].0 && other.1 == results[0].1, "the transforms differ");
        assert!(other.2 == results[0].2, "the images differ");
        assert_eq!(other.3, results[0].3);
    }
}

#[test]
fn options_reach_the_registration() {
    let place = Place::new();
    let made = place.pair();
    place.write(
        "job.toml",
        "fixed = 'fixed.nii.gz'\nmoving = 'moving.nii.gz'\ndof = 6\ncost = 'ncc'\n\
         levels = [8, 4]\nsearch = 'local'\nreport = false\noutside = -5\n",
    );
    place.line("affine --config job.toml -o out --dof 7 --init centre").expect(0);
    let record = record(&place, "out");
    let parameters = &record["parameters"];
    assert_eq!(parameters["dof"], 7);
    assert_eq!(parameters["cost"], "ncc");
    assert_eq!(parameters["init"], "centre");
    assert_eq!(parameters["search"], "local");
    assert_eq!(parameters["levels_mm"], serde_json::json!([8.0, 4.0]));
    assert_eq!(parameters["outside"], -5.0);
    assert_eq!(parameters["search_steps_degrees"][0], 60.0);
    let roles: Vec<_> =
        record["inputs"].as_array().unwrap().iter().map(|i| i["role"].clone()).collect();
    assert_eq!(roles, ["fixed", "moving", "config"]);
    assert!(!place.path("out/report.html").exists());
    // Seven degrees of freedom: one scale, no shear.
    let scale = record["transform"]["scale"].as_array().unwrap();
    let scale: Vec<f64> = scale.iter().map(|s| s.as_f64().unwrap()).collect();
    assert!((scale[0] - scale[1]).abs() < 1e-6 && (scale[0] - scale[2]).abs() < 1e-6, "{scale:?}");

    // A result as the start of another run, which only scores it.
    let line = "affine fixed.nii.gz moving.nii.gz -o again --init out/affine.tfm --search none \
                --no-report --quiet";
    place.line(line);
    let none = Geometry::default();
    let first = read(place.path("out/affine.tfm"), &none).unwrap().to_affine().unwrap();
    let again = read(place.path("again/affine.tfm"), &none).unwrap().to_affine().unwrap();
    assert!(error(&first, &again) < 1e-4, "{}", error(&first, &again));
    assert!(error(&first, &made) < 10.0);
}

#[test]
fn masks_and_weights_are_taken() {
    let place = Place::new();
    let made = place.pair();
    let mut arguments = "affine fixed.nii.gz moving.nii.gz -o out --no-report --quiet \
                         --fixed-mask fixed_labels.nii.gz --moving-mask moving_labels.nii.gz \
                         --fixed-weight fixed.nii.gz"
        .to_owned();
    place.line(&arguments).expect(0);
    let found = read(place.path("out/affine.tfm"), &Geometry::default()).unwrap();
    let off = error(&found.to_affine().unwrap(), &made);
    assert!(off < 2.0, "{off}");
    arguments = arguments.replace("--quiet", "--verbose");
    let run = place.line(&arguments).expect(0);
    assert!(run.err.contains("fixed:") && run.out.contains("verdict"), "{}{}", run.out, run.err);
}

#[test]
fn what_a_reader_should_know_is_in_the_record() {
    let place = Place::new();
    place.pair();
    // Labels that agree before, as their headers say, and not after.
    fs::copy(place.path("fixed_labels.nii.gz"), place.path("wrong.nii.gz")).unwrap();
    // CT: outside of the image is air.
    let ct = read_volume(place.path("moving.nii.gz")).unwrap().map(|v| (10.0 * v).round() - 1000.0);
    place.image("ct.nii.gz", &ct);
    let line = "affine fixed.nii.gz ct.nii.gz -o out --no-report --fixed-labels fixed_labels.nii.gz \
                --moving-labels wrong.nii.gz";
    place.line(line).expect(0);
    let record = record(&place, "out");
    assert_eq!(record["parameters"]["outside"], -1000.0);
    let remarks = record["verdict"]["remarks"].to_string();
    assert!(remarks.contains("labels overlap less"), "{remarks}");
    let warped = read_volume(place.path("out/warped.nii.gz")).unwrap();
    assert!(warped.data().contains(&-1000.0) && !warped.data().contains(&0.0));
}

#[test]
fn a_2d_pair() {
    let place = Place::new();
    let turn = voxalign_image::AffineParameters {
        translation: Vector3::new(6.0, -4.0, 0.0),
        rotation: Vector3::new(0.0, 0.0, 0.2),
        ..voxalign_image::AffineParameters::identity(Vector3::zeros())
    }
    .to_affine();
    let flat = crate::common::grid([80, 84, 1], 2.0);
    place.image("a.nii.gz", &crate::common::head(&flat, &Affine::identity()));
    place.image("b.nii.gz", &crate::common::head(&flat, &turn.inverse().unwrap()));
    place.line("affine a.nii.gz b.nii.gz -o out --dof 3").expect(0);
    let found = read(place.path("out/affine.tfm"), &Geometry::default()).unwrap();
    let found = found.to_affine().unwrap();
    let points: Vec<_> =
        [(-30., -40.), (30., -20.), (20., 50.)].map(|(x, y)| Vector3::new(x, y, 0.0)).to_vec();
    let off = found.largest_distance(&turn, &points);
    assert!(off < 0.7, "{off}");
    place.line("affine a.nii.gz b.nii.gz -o no --dof 12").expect(2).says(&["3, 4 or 6"]);

    // A file of three dimensions keeps them; one of two gives results of two.
    let tfm = |folder: &str| fs::read_to_string(place.path(folder).join("affine.tfm")).unwrap();
    let dimensions = |name: &str| read_info(place.path(name)).unwrap().dimensions;
    assert!(tfm("out").contains("double_3_3") && dimensions("out/warped.nii.gz") == 3);
    let options = WriteOptions { dimensions: 2, ..WriteOptions::default() };
    let slice = read_volume(place.path("a.nii.gz")).unwrap();
    write_volume(place.path("a2.nii.gz"), &slice, &options).unwrap();
    assert_eq!(dimensions("a2.nii.gz"), 2);
    place.line("affine a2.nii.gz b.nii.gz -o flat --dof 3").expect(0);
    assert!(tfm("flat").contains("AffineTransform_double_2_2"), "{}", tfm("flat"));
    let again = read(place.path("flat/affine.tfm"), &Geometry::default()).unwrap();
    assert!(again.to_affine().unwrap().largest_distance(&found, &points) < 1e-9);
    assert_eq!(dimensions("flat/warped.nii.gz"), 2);
    place.line("apply -i b.nii.gz -r a2.nii.gz -t flat/affine.tfm -o w.nii.gz").expect(0);
    assert_eq!(dimensions("w.nii.gz"), 2);
    let values = |name: &str| read_volume(place.path(name)).unwrap().into_parts().1;
    assert_eq!(values("w.nii.gz"), values("out/warped.nii.gz"));
    place.line("convert a2.nii.gz c.nii").expect(0);
    assert_eq!(dimensions("c.nii"), 2);
}

/// Two images without a common anatomy: the verdict is bad, the results are there.
#[test]
fn a_bad_verdict_is_exit_code_1() {
    let place = Place::new();
    place.pair();
    let mut state = 1u32;
    let noise =
        voxalign_image::Volume::from_fn(crate::common::grid([30, 30, 30], 4.0), |_, _, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32
        });
    place.image("noise.nii.gz", &noise);
    let run = place.line("affine fixed.nii.gz noise.nii.gz -o out").expect(1);
    assert!(run.out.contains("verdict: bad"), "{}", run.out);
    assert_eq!(names(&place.path("out")), FILES);
    assert_eq!(record(&place, "out")["verdict"]["good"], false);
    let run = place.line("affine fixed.nii.gz noise.nii.gz -o out --quiet").expect(1);
    assert!(run.err.starts_with("verdict: bad: ") && run.err.lines().count() == 1, "{}", run.err);
    assert!(run.out.is_empty(), "{}", run.out);
}

/// An interrupt during the search leaves nothing.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let place = Place::new();
    place.pair();
    let before = place.names();
    let mut child = place
        .command(&["affine", "fixed.nii.gz", "moving.nii.gz", "-o", "out", "--threads", "1"])
        .args(["--search-steps", "60,5", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !place.path("out").exists() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(20));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{status}");
    assert_eq!(place.names(), before);
}

/// The file in docs/ names every option, and gives the defaults: with it and without it the result
/// is the same.
#[test]
fn the_documented_configuration_is_complete_and_the_default() {
    let text = include_str!("../../../../docs/affine.toml");
    let place = Place::new();
    place.pair();
    let help = place.line("affine --help").expect(0).out;
    let options = help.lines().filter_map(|l| {
        let rest = l.trim_start().strip_prefix("-o, ").unwrap_or(l.trim_start());
        let rest = rest.strip_prefix("-q, ").or(rest.strip_prefix("-v, ")).unwrap_or(rest);
        rest.strip_prefix("--")?.split([' ', ',']).next()
    });
    for option in options.filter(|o| !["config", "help", "version"].contains(o)) {
        assert!(text.contains(&format!("{option} = ")), "{option} is not in docs/affine.toml");
    }
    place.write("defaults.toml", text);
    place.line("affine fixed.nii.gz moving.nii.gz -o a --no-report").expect(0);
    place.line("affine fixed.nii.gz moving.nii.gz -o b --config defaults.toml").expect(0);
    assert_eq!(record(&place, "a")["parameters"], record(&place, "b")["parameters"]);
    assert_eq!(names(&place.path("b")), FILES);
    let bytes = |folder: &str| fs::read(place.path(folder).join("affine.tfm")).unwrap();
    assert_eq!(bytes("a"), bytes("b"));
}
