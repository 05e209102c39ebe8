//! Bad input to a registration: one clear message, exit code 2, and nothing left behind.

use crate::common::{Place, Run, grid, head};
use serde_json::json;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};
use voxalign_image::{Affine, Vector3, Volume};

/// A place with a good pair.
fn place() -> Place {
    let place = Place::new();
    place.pair();
    place
}

/// Runs a registration that must be refused, and checks that nothing is left.
#[track_caller]
fn refused(place: &Place, arguments: &str, parts: &[&str]) -> Run {
    let before = place.names();
    let run = place.line(&format!("affine {arguments} -o new/out --no-report"));
    let run = run.expect(2).says(parts);
    assert_eq!(place.names(), before, "something is left");
    let errors = run.err.lines().filter(|l| l.starts_with("voxalign: error:")).count();
    assert_eq!(errors, 1, "{}", run.err);
    run
}

#[test]
fn files_that_are_no_images() {
    let place = place();
    refused(&place, "none.nii.gz moving.nii.gz", &["none.nii.gz", "check the path"]);
    refused(&place, "fixed.nii.gz none.nii.gz", &["none.nii.gz"]);
    place.write("text.nii", "this is no image");
    refused(&place, "text.nii moving.nii.gz", &["text.nii"]);
    place.write("picture.jpg", "JFIF and so on");
    refused(&place, "picture.jpg moving.nii.gz", &["picture.jpg", ".nii.gz"]);
    let whole = fs::read(place.path("fixed.nii.gz")).unwrap();
    fs::write(place.path("cut.nii.gz"), &whole[..whole.len() / 2]).unwrap();
    refused(&place, "cut.nii.gz moving.nii.gz", &["cut.nii.gz"]);
}

#[test]
fn arguments_that_are_missing() {
    let place = place();
    place.line("affine fixed.nii.gz moving.nii.gz").expect(2).says(&["-o DIR"]);
    place.line("affine fixed.nii.gz -o out").expect(2).says(&["MOVING"]);
    place.line("affine --quiet -o out").expect(2).says(&["FIXED"]);
    assert!(!place.path("out").exists());
}

/// Options of other programs get the word that helps, and a file that is not there is said to be missing.
#[test]
fn habits_from_other_programs() {
    let place = place();
    for line in
        ["affine -f fixed.nii.gz -m moving.nii.gz -o out", "deform --fixed a.nii --moving b.nii"]
    {
        let run =
            place.line(line).expect(2).says(&["unexpected argument", "FIXED MOVING", "Usage:"]);
        assert!(
            !run.err.contains("negative numbers") && !run.err.contains("--fixed-mask"),
            "{}",
            run.err
        );
    }
    place.line("affine -d 3 a.nii b.nii -o out").expect(2).says(&["'-d'", "leave it out"]);
    place.line("affine a.nii b.nii -o out -5").expect(2).says(&["--option=-3"]);
    let run = place.line("info -f fixed.nii.gz").expect(2);
    assert!(!run.err.contains("FIXED"), "{}", run.err);
    for name in ["none.tif", "none.png", "none.nii", "none.toml", "none.xyz", "none"] {
        place.line(&format!("info {name}")).expect(2).says(&[name, "check the path"]);
        let run =
            place.line(&format!("apply -i {name} -t a.tfm -o b.nii -r fixed.nii.gz")).expect(2);
        run.says(&[name, "check the path"]);
    }
    place.write("a.aff12.1D", "1 0 0 0 0 1 0 0 0 0 1 0\n");
    place
        .line("apply -i fixed.nii.gz -r fixed.nii.gz -t a.aff12.1D -o c.nii")
        .expect(2)
        .says(&["AFNI", "nitransforms"]);
}

/// Nothing is waited for that may never come, and nothing read that has no end.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused() {
    let place = place();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap();
    assert!(made.success());
    place.image("ct.nii.gz", &crate::projection::ct());
    place.write("p.csv", "label,x,y,z\na,1,2,3\nb,30,2,3\nc,5,32,3\n");
    place
        .line("drr ct.nii.gz --view ap,lateral --size 24,20 --pixel 12 --no-report -o sim")
        .expect(0);
    for file in ["pipe", "/dev/zero"] {
        for line in [
            format!("drr fixed.nii.gz -o out --geometry {file}"),
            format!("drr fixed.nii.gz -o out --view ap --poses {file}"),
            format!("drr fixed.nii.gz -o out --view ap --pose {file}"),
            format!("pose fixed.nii.gz {file} --geometry {file} -o out"),
            format!("pose ct.nii.gz sim -o out --init points:p.csv,{file}"),
            format!("pose ct.nii.gz sim -o out --init points:{file},p.csv"),
            format!("affine --config {file} -o out"),
            format!("atlas --list {file} -o out"),
            format!("anatomy {file} {file} -o out"),
            format!("stack mean --list {file} -o out.nii.gz"),
            format!("affine fixed.nii.gz moving.nii.gz -o out --init {file}"),
            format!("affine fixed.nii.gz moving.nii.gz -o out --init landmarks:{file},{file}"),
            format!("apply -i {file} -r fixed.nii.gz -o out.nii.gz"),
            format!("info {file}"),
            format!("surface fixed_labels.nii.gz --each -o out --label-names {file}"),
            format!("compare --points {file} {file}"),
        ] {
            let words: Vec<_> = line.split(' ').collect();
            let mut child =
                place.command(&words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let start = Instant::now();
            while child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if child.try_wait().unwrap().is_none() {
                child.kill().unwrap();
                panic!("`{line}` waits");
            }
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "`{line}`: {said}");
            assert!(said.contains(file), "`{line}`: {said}");
        }
    }
}

#[test]
fn images_that_cannot_be_registered() {
    let place = place();
    let small = grid([20, 20, 20], 4.0);
    place.image("constant.nii.gz", &Volume::filled(small.clone(), 3.0));
    refused(&place, "constant.nii.gz moving.nii.gz", &["fixed image is constant (3"]);
    refused(&place, "fixed.nii.gz constant.nii.gz", &["moving image is constant"]);
    let mut holes = head(&small, &Affine::identity());
    holes.data_mut()[7] = f32::NAN;
    place.image("holes.nii.gz", &holes);
    refused(
        &place,
        "fixed.nii.gz holes.nii.gz",
        &["'holes.nii.gz'", "1 voxel that is NaN", "--replace-nan"],
    );
    place.image("flat.nii.gz", &head(&grid([40, 40, 1], 4.0), &Affine::identity()));
    refused(&place, "flat.nii.gz moving.nii.gz", &["2D", "3D"]);
}

#[test]
fn a_4d_image_is_refused() {
    let place = place();
    // A NIfTI header whose fourth axis is 2, with data for both volumes.
    let (x, y, z) = (4i16, 4i16, 4i16);
    let mut bytes = vec![0u8; 352 + 2 * 64];
    bytes[0..4].copy_from_slice(&348i32.to_le_bytes());
    for (i, n) in [4i16, x, y, z, 2, 1, 1, 1].iter().enumerate() {
        bytes[40 + 2 * i..42 + 2 * i].copy_from_slice(&n.to_le_bytes());
    }
    bytes[70..72].copy_from_slice(&2i16.to_le_bytes());
    bytes[72..74].copy_from_slice(&8i16.to_le_bytes());
    for i in 0..8 {
        bytes[76 + 4 * i..80 + 4 * i].copy_from_slice(&1f32.to_le_bytes());
    }
    bytes[108..112].copy_from_slice(&352f32.to_le_bytes());
    bytes[344..348].copy_from_slice(b"n+1\0");
    fs::write(place.path("four.nii"), &bytes).unwrap();
    refused(&place, "four.nii moving.nii.gz", &["four.nii", "2 volumes"]);
    let info = place.line("info four.nii").expect(0);
    assert!(info.out.contains("several volumes"), "{}", info.out);
    // One of its volumes can be taken out.
    place.line("convert four.nii second.nii --volume 1").expect(0);
    assert_eq!(place.line("info second.nii --json").expect(0).json()["dims"], json!([4, 4, 4]));
    place.line("convert four.nii third.nii --volume 2").expect(2).says(&["four.nii", "2"]);
    place.line("info four.nii --volume 0").expect(0);
    place.write("points.csv", "x,y,z\n1,2,3\n");
    place.line("info points.csv --volume 0").expect(2).says(&["--volume", "points.csv"]);
}

#[test]
fn images_far_apart_need_a_start() {
    let place = place();
    let far = Affine::translation(Vector3::new(900.0, 0.0, 0.0));
    let there = grid([40, 40, 40], 4.0).moved(&far).unwrap();
    place.image("far.nii.gz", &head(&there, &far.inverse().unwrap()));
    let arguments = "fixed.nii.gz far.nii.gz --init header --search local";
    refused(&place, arguments, &["do not overlap", "--init centre"]);
}

#[test]
fn masks_and_labels() {
    let place = place();
    place.image("mask.nii.gz", &Volume::filled(grid([10, 10, 10], 4.0), 1.0));
    let pair = "fixed.nii.gz moving.nii.gz";
    refused(&place, &format!("{pair} --fixed-mask mask.nii.gz"), &["mask", "10x10x10"]);
    refused(&place, &format!("{pair} --moving-mask mask.nii.gz"), &["mask", "10x10x10"]);
    refused(&place, &format!("{pair} --fixed-weight mask.nii.gz"), &["weight", "10x10x10"]);
    refused(&place, &format!("{pair} --fixed-mask none.nii"), &["--fixed-mask", "none.nii"]);
    let empty = Volume::filled(grid([40, 44, 40], 4.0), 0.0);
    place.image("empty.nii.gz", &empty);
    refused(&place, &format!("{pair} --fixed-mask empty.nii.gz"), &["selects no voxel"]);
    let one = format!("{pair} --fixed-labels fixed_labels.nii.gz");
    refused(&place, &one, &["--moving-labels", "both or neither"]);
    let swapped = "--fixed-labels moving_labels.nii.gz --moving-labels fixed_labels.nii.gz";
    refused(&place, &format!("{pair} {swapped}"), &["--fixed-labels", "grids differ"]);
    let intensities = "--fixed-labels fixed.nii.gz --moving-labels moving.nii.gz";
    refused(&place, &format!("{pair} {intensities}"), &["not a whole number"]);
}

#[test]
fn options_out_of_range() {
    let place = place();
    let pair = "fixed.nii.gz moving.nii.gz";
    refused(&place, &format!("{pair} --dof 5"), &["--dof is 5", "6, 7, 9 or 12"]);
    refused(&place, &format!("{pair} --bins 1"), &["--bins"]);
    let line = |option: &str| place.line(&format!("affine {pair} -o out {option}")).expect(2);
    let run = line("--bins -3").says(&["-3", "--option=-3"]);
    assert!(!run.err.contains("-- -3"), "{}", run.err);
    line("--bins=-3").says(&["--bins", "'-3'", "give a whole number"]);
    line("--bins x").says(&["--bins", "'x'", "give a whole number"]);
    refused(&place, &format!("{pair} --interpolation label"), &["label maps"]);
    place.write("bad.tfm", "no transform");
    refused(&place, &format!("{pair} --init bad.tfm"), &["--init", "bad.tfm"]);
    for levels in ["1e-9", "8,4,1e-9", "2"] {
        let said = ["--levels is", "voxels of 4 mm", "8,4,2,1"];
        refused(&place, &format!("{pair} --levels {levels}"), &said);
    }
    for both in ["-q -v", "--verbose --quiet"] {
        line(both).says(&["--quiet", "cannot be used with", "--verbose"]);
    }
    line("--report --no-report").says(&["--report", "cannot be used with", "--no-report"]);
    assert!(!place.path("out").exists());
}

/// Libraries name parameters, the program its options: what a message calls an option is one of the
/// command.
#[test]
fn messages_name_options_that_the_command_has() {
    let place = place();
    place.image("flat.nii.gz", &head(&grid([40, 40, 1], 4.0), &Affine::identity()));
    for (line, says) in [
        ("atlas fixed.nii.gz -o out", "an atlas needs at least two images, but only one is given"),
        (
            "atlas fixed.nii.gz flat.nii.gz -o out",
            "some of the images are 2D and others are 3D; give images that are all 2D or all 3D",
        ),
        (
            "atlas fixed.nii.gz moving.nii.gz -o out --model lddmm --time-steps 2000",
            "--time-steps is 2000; give a number from 1 to 1000",
        ),
        (
            "affine fixed.nii.gz moving.nii.gz -o out --bins 1",
            "--bins is 1; give a number from 8 to 512",
        ),
        (
            "deform fixed.nii.gz moving.nii.gz -o out --affine none --step 3",
            "--step is 3; give a number of voxels above 0 and up to 2",
        ),
        (
            "stack mean fixed.nii.gz fixed.nii.gz fixed.nii.gz --weights 1,2 -o out.nii.gz",
            "--weights is a list of 2 for 3 images; give one for each image",
        ),
        (
            "stack variance fixed.nii.gz -o out.nii.gz",
            "1 image is given; a variance needs at least",
        ),
    ] {
        let run = place.line(line).expect(2).says(&[says]);
        let command = line.split(' ').next().unwrap();
        let help = place.run(&[command, "--help"]).expect(0).out;
        let words = run.err.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        for word in words.filter(|w| w.starts_with("--") && w.len() > 2) {
            assert!(help.contains(word), "{command} has no {word}: {}", run.err);
        }
    }
}

#[test]
fn configuration_files() {
    let place = place();
    let pair = "fixed.nii.gz moving.nii.gz";
    let with = |text: &str, parts: &[&str]| {
        place.write("job.toml", text);
        refused(&place, &format!("{pair} --config job.toml"), parts);
    };
    with("doff = 6", &["job.toml", "unknown key 'doff'", "did you mean 'dof'"]);
    with("fixedmask = 'a'", &["unknown key 'fixedmask'", "'fixed-mask'"]);
    with("cost = 'xx'", &["job.toml", "xx", "nmi"]);
    with("dof = 5", &["--dof is 5"]);
    with("dof = 'six'", &["job.toml", "dof", "'six'", "give a whole number"]);
    with("dof = {a = 1}", &["job.toml", "--dof is", "give a text, a number"]);
    with("dof = ", &["job.toml", "line 1"]);
    with("quiet = 1", &["--quiet is 1", "give true or false"]);
    refused(&place, &format!("{pair} --config none.toml"), &["none.toml"]);
}

#[test]
fn places_that_cannot_be_written() {
    let place = place();
    place.write("file", "");
    let run = place.line("affine fixed.nii.gz moving.nii.gz -o file/out --no-report");
    run.expect(2).says(&["file/out", "cannot write"]);
    let run = place.line("affine fixed.nii.gz moving.nii.gz -o file --no-report").expect(2);
    assert!(!run.err.contains(".voxalign"), "{}", run.err);
    run.says(&["'file'", "cannot write"]);
    let run = place.line("convert fixed.nii.gz file/a.nii").expect(2);
    assert!(!run.err.contains(".tmp"), "{}", run.err);
    assert_eq!(fs::read(place.path("file")).unwrap(), b"");
}

#[test]
fn inputs_are_not_overwritten() {
    let place = place();
    fs::create_dir(place.path("out")).unwrap();
    fs::copy(place.path("moving.nii.gz"), place.path("out/warped.nii.gz")).unwrap();
    let before = fs::read(place.path("out/warped.nii.gz")).unwrap();
    let run = place.line("affine fixed.nii.gz out/../out/warped.nii.gz -o out");
    run.expect(2).says(&["input and an output"]);
    assert_eq!(fs::read(place.path("out/warped.nii.gz")).unwrap(), before);
    place.write("t.tfm", "");
    place
        .line("apply -i moving.nii.gz -r fixed.nii.gz -t t.tfm -o ./moving.nii.gz")
        .expect(2)
        .says(&["input and an output"]);
    place.line("invert -t t.tfm -o ./t.tfm").expect(2).says(&["input and an output"]);
    place.line("convert fixed.nii.gz fixed.nii.gz").expect(2).says(&["input and an output"]);
}
