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
    let hint = ["cuda cannot be used: ", "--device cpu works", "`voxalign devices`"];
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

#[cfg(not(feature = "mpi"))]
#[test]
fn a_build_without_mpi_says_so_under_a_launcher() {
    let place = Place::new();
    let output = place.command(&["devices"]).env("OMPI_COMM_WORLD_SIZE", "4").output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}");
    for part in ["started as one of 4", "OMPI_COMM_WORLD_SIZE", "--features mpi", "threads"] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
}

/// The end of `mpirun` with these arguments; none where there is no `mpirun`.
#[cfg(feature = "mpi")]
fn mpirun(place: &Place, arguments: &[&str]) -> Option<Run> {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe"]).args(arguments);
    command.current_dir(place.path("")).env_remove("VOXALIGN_DEVICE");
    match command.stdin(std::process::Stdio::null()).output() {
        Ok(output) => Some(Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(e) => {
            let required = std::env::var_os("VOXALIGN_REQUIRE_MPI").is_some();
            assert!(!required, "mpirun cannot be started: {e}");
            eprintln!("skipped: mpirun cannot be started: {e}");
            None
        }
    }
}

#[cfg(feature = "mpi")]
#[test]
fn processes_find_each_other() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_voxalign");
    for size in [1, 2, 4] {
        let number = size.to_string();
        let Some(run) = mpirun(&place, &["-np", &number, program, "devices"]) else { return };
        let run = run.expect(0);
        // One of them prints.
        assert_eq!(run.out.matches("--device auto is").count(), 1, "{}", run.out);
        for rank in 0..size {
            assert!(run.out.contains(&format!("rank {rank} of {size}")), "{}", run.out);
        }
        assert!(run.out.contains("sums over all processes are exact"), "{}", run.out);
    }
    let Some(run) = mpirun(&place, &["-np", "3", program, "devices", "--json"]) else { return };
    let json = run.expect(0).json();
    assert_eq!(json["processes"]["ranks"].as_array().unwrap().len(), 3);
    assert_eq!(json["processes"]["ranks"][2]["rank"], 2);
    assert_eq!(json["processes"]["exact_sums"], true);
}

#[cfg(feature = "mpi")]
#[test]
fn the_failure_of_one_process_ends_all() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_voxalign");
    let good = ["-np", "1", program, "devices"];
    let bad = ["-np", "1", "env", "VOXALIGN_DEVICE=gpu", program, "devices"];
    let line = [&good[..], &[":"], &bad[..], &[":"], &good[..]].concat();
    let Some(run) = mpirun(&place, &line) else { return };
    let run = run.expect(2);
    let said = "voxalign: error: rank 1 of 3: the environment variable VOXALIGN_DEVICE is 'gpu'";
    assert_eq!(run.err.matches("voxalign: error:").count(), 1, "{}", run.err);
    run.says(&[said]);
}
