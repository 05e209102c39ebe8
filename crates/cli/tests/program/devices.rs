//! Which device computes: `devices`, `--device`, and the environment variable.

use crate::common::{Place, Run, grid, head};
use std::process::Command;
use voxalign_image::{Affine, Transform};
use voxalign_io::transform::{Geometry, write};

/// The end of a command, run as on a machine without GPU.
fn without_gpu(place: &Place, line: &str, device: Option<&str>) -> Run {
    let mut command: Command = place.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("CUDA_VISIBLE_DEVICES", "");
    if let Some(device) = device {
        command.env("VOXALIGN_DEVICE", device);
    }
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A small image `a.nii` and a transform `t.tfm`.
fn image_and_transform() -> Place {
    let place = Place::new();
    place.image("a.nii", &head(&grid([12, 10, 8], 10.0), &Affine::identity()));
    let shift = Transform::Affine(Affine::translation(voxalign_image::Vector3::new(5.0, 0.0, 0.0)));
    write(place.path("t.tfm"), &shift, &Geometry::default()).unwrap();
    place
}

const APPLY: &str = "apply -i a.nii -r a.nii -t t.tfm -o w.nii";

#[test]
fn devices_are_listed_without_a_gpu_too() {
    let place = Place::new();
    let run = without_gpu(&place, "devices", None).expect(0);
    for part in ["cpu\n", "threads", "vector instructions", "memory", "cuda cannot be used: "] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    assert!(run.out.contains("--device auto is cpu\n"));
    assert!(run.err.is_empty(), "{}", run.err);

    let json = without_gpu(&place, "devices --json", Some("cuda:1")).expect(0).json();
    assert!(json["cpu"]["threads"].as_u64().unwrap() > 0);
    assert!(json["cpu"]["memory_bytes"].as_u64().unwrap() > 0);
    assert_eq!(json["gpus"].as_array().unwrap().len(), 0);
    assert_eq!(json["cuda"]["usable"], false);
    assert!(json["cuda"]["problem"].as_str().unwrap().starts_with("cuda cannot be used: "));
    assert_eq!(json["auto"]["affine"], "cpu");
    assert_eq!(json["environment"], "cuda:1");

    // As the machine is: a usable GPU is what `auto` takes.
    let json = place.line("devices --json").expect(0).json();
    let usable = json["cuda"]["usable"].as_bool().unwrap();
    assert_eq!(json["auto"]["affine"].as_str().unwrap().starts_with("cuda:"), usable);
    assert!(place.names().is_empty());
}

#[test]
fn a_gpu_that_is_not_there_is_bad_input() {
    let place = image_and_transform();
    let hint = ["cuda cannot be used: ", "`--device cpu` works", "`voxalign devices`"];
    for line in [
        format!("{APPLY} --device cuda"),
        format!("{APPLY} --device cuda:7 --threads 1"),
        "affine a.nii a.nii -o out --device cuda".to_owned(),
        "demo -o out --device cuda".to_owned(),
        "bench --size 8 --device cuda".to_owned(),
    ] {
        let run = without_gpu(&place, &line, None).expect(2).says(&hint);
        assert!(run.err.contains("--device cuda") && run.out.is_empty(), "{}", run.err);
    }
    assert!(!place.path("w.nii").exists() && !place.path("out").exists());
    for bad in ["gpu", "cuda:", "cuda:x", "CPU"] {
        let run = without_gpu(&place, &format!("{APPLY} --device {bad}"), None);
        run.expect(2).says(&["--device", "use auto, cpu, cuda or cuda:N"]);
    }
}

#[test]
fn the_environment_sets_the_default() {
    let place = image_and_transform();
    without_gpu(&place, APPLY, Some("cuda"))
        .expect(2)
        .says(&["VOXALIGN_DEVICE=cuda: cuda cannot be used: ", "voxalign devices"]);
    without_gpu(&place, APPLY, Some("gpu"))
        .expect(2)
        .says(&["the environment variable VOXALIGN_DEVICE is 'gpu'", "use auto, cpu, cuda"]);
    without_gpu(&place, "devices", Some("gpu")).expect(2).says(&["VOXALIGN_DEVICE"]);
    let run = without_gpu(&place, APPLY, Some("cpu")).expect(0);
    assert!(run.out.starts_with("resampled on cpu ("), "{}", run.out);
    // The command line wins; an empty value is none; a command without a device does not look.
    without_gpu(&place, &format!("{APPLY} --device cpu"), Some("cuda")).expect(0);
    without_gpu(&place, &format!("{APPLY} --quiet"), Some("")).expect(0);
    without_gpu(&place, "info a.nii", Some("gpu")).expect(0);
    without_gpu(&place, "info a.nii --device cpu", None).expect(2).says(&["--device"]);
}

#[test]
fn auto_falls_back_to_the_cpu_and_says_so() {
    let place = Place::new();
    place.pair();
    let line = "affine fixed.nii.gz moving.nii.gz -o out --search local --init header --verbose";
    let run = without_gpu(&place, line, None);
    assert!(run.code < 2, "{}", run.err);
    for part in ["device: cpu (", "no GPU is used: cuda cannot be used: "] {
        assert!(run.err.contains(part), "{part} is not in\n{}", run.err);
    }
    assert!(run.out.contains("device: cpu ("), "{}", run.out);
    let text = std::fs::read_to_string(place.path("out/result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(record["host"]["device"].as_str().unwrap().starts_with("cpu ("));
    assert!(record["host"]["gpu"].is_null() && record["timings"]["device"].is_null());
    let html = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(html.contains("cpu ("), "the report does not name the device");
}

#[test]
fn points_have_no_device() {
    let place = image_and_transform();
    place.write("p.csv", "x,y,z\n1,2,3\n");
    let line = "apply -i p.csv -t t.tfm -o q.csv";
    without_gpu(&place, &format!("{line} --device cpu"), None).expect(2).says(&["--device is for"]);
    without_gpu(&place, line, Some("cuda")).expect(0);
}
