//! What a job says before it runs, and as JSON after it; one image of a file that holds several.

use crate::common::{Place, grid, head, motion};
use std::fs;
use voxalign_image::Affine;
use voxalign_io::image::read_volume;

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let place = Place::new();
    place.pair();
    let before = place.names();
    for (line, reads, writes) in [
        ("affine fixed.nii.gz moving.nii.gz -o out", 2, 5),
        ("affine fixed.nii.gz moving.nii.gz -o out --outputs warped --no-report", 2, 2),
        ("deform fixed.nii.gz moving.nii.gz -o out --model symmetric", 2, 7),
        ("deform fixed.nii.gz moving.nii.gz -o out --model lddmm --outputs warp", 2, 3),
        ("elastic fixed.nii.gz moving.nii.gz -o out", 2, 8),
        ("atlas fixed.nii.gz moving.nii.gz -o out", 2, 7),
        ("stack mean fixed.nii.gz fixed.nii.gz -o out.nii.gz", 2, 2),
        ("stack smooth fixed.nii.gz moving.nii.gz -o out --sigma 2", 2, 3),
    ] {
        let on_one_grid =
            line.replace("moving.nii.gz -o out --sigma", "moved.nii.gz -o out --sigma");
        if on_one_grid != line {
            fs::copy(place.path("fixed.nii.gz"), place.path("moved.nii.gz")).unwrap();
        }
        let run = place.line(&format!("{on_one_grid} --dry-run")).expect(0);
        let count = |what: &str| run.out.lines().filter(|l| l.starts_with(what)).count();
        assert_eq!((count("would read"), count("would write")), (reads, writes), "{}", run.out);
        assert!(run.out.contains("memory") && run.out.contains("40 x 44 x 40"), "{}", run.out);
        let plan = place.line(&format!("{on_one_grid} --dry-run --json")).expect(0).json();
        assert_eq!(plan["reads"].as_array().unwrap().len(), reads);
        assert_eq!(plan["writes"].as_array().unwrap().len(), writes);
        let _ = fs::remove_file(place.path("moved.nii.gz"));
    }
    assert_eq!(place.names(), before);
    place.line("affine fixed.nii.gz none.nii.gz -o out --dry-run").expect(2).says(&["none.nii.gz"]);
    place.line("affine fixed.nii.gz moving.nii.gz -o out --dof 5x --dry-run").expect(2);
}

/// The estimate is above what a run takes, and not far above.
#[test]
fn the_memory_that_is_said_is_near_that_which_is_taken() {
    let place = Place::new();
    let dims = [120, 130, 110];
    place.image("a.nii", &head(&grid(dims, 1.4), &Affine::identity()));
    place.image("b.nii", &head(&grid(dims, 1.4), &motion().inverse().unwrap()));
    for line in [
        "affine a.nii b.nii -o out",
        "deform a.nii b.nii -o out --schedule 4x2,1x1",
        "elastic a.nii b.nii -o out --schedule 4x2,1x1",
    ] {
        let line = format!("{line} --device cpu --threads 2 --json");
        let plan = place.line(&format!("{line} --dry-run")).expect(0).json();
        let run = place.line(&line);
        let said = plan["memory_bytes"].as_f64().unwrap();
        let taken = run.json()["peak_memory_bytes"].as_f64().unwrap();
        println!("{line}: said {said:.3e}, taken {taken:.3e}");
        assert!(taken < 1.2 * said && said < 2.5 * taken, "said {said:.3e}, taken {taken:.3e}");
    }
}

#[test]
fn every_job_gives_its_record_as_json() {
    let place = Place::new();
    place.pair();
    place.write("list.csv", "path,age\nfixed.nii.gz,60\nmoving.nii.gz,70\n");
    let short = "--schedule 2x2 --device cpu";
    for (line, record) in [
        ("affine fixed.nii.gz moving.nii.gz -o a --device cpu".to_owned(), "a/result.json"),
        (format!("deform fixed.nii.gz moving.nii.gz -o d --affine none {short}"), "d/result.json"),
        (format!("atlas fixed.nii.gz moving.nii.gz -o t --spacing 8 {short}"), "t/result.json"),
        (
            format!(
                "atlas --list list.csv -o r --spacing 8 --align none --regress age --at 65 --bandwidth 5 {short}"
            ),
            "r/result.json",
        ),
        ("stack mean fixed.nii.gz fixed.nii.gz -o m.nii.gz".to_owned(), "m.nii.gz.json"),
    ] {
        let run = place.line(&format!("{line} --json"));
        assert!(run.code < 2, "{}", run.err);
        // Nothing but the record, as it is in the folder.
        assert_eq!(run.out, fs::read_to_string(place.path(record)).unwrap(), "{line}");
        if let Some(good) = run.json()["verdict"]["good"].as_bool() {
            assert_eq!(run.code, i32::from(!good));
        }
    }
}

#[test]
fn one_volume_of_several_is_registered() {
    let place = Place::new();
    place.pair();
    // Two volumes in one file: the header of NIfTI says so at bytes 40 and on.
    let single = read_volume(place.path("moving.nii.gz")).unwrap();
    place.image("one.nii", &single);
    let mut bytes = fs::read(place.path("one.nii")).unwrap();
    let values = bytes.split_off(352);
    bytes[40..42].copy_from_slice(&4i16.to_le_bytes());
    bytes[48..50].copy_from_slice(&2i16.to_le_bytes());
    let nothing = vec![0; values.len()];
    fs::write(place.path("two.nii"), [bytes, nothing, values].concat()).unwrap();

    let said = place.line("affine fixed.nii.gz two.nii -o out --device cpu").expect(2);
    assert!(said.err.contains("--moving-volume"), "{}", said.err);
    let line = "affine fixed.nii.gz two.nii -o out --device cpu --moving-volume 1";
    place.line(line).expect(0);
    place.line("affine fixed.nii.gz one.nii -o single --device cpu").expect(0);
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(bytes("out/affine.tfm") == bytes("single/affine.tfm"));
    let record: serde_json::Value = serde_json::from_slice(&bytes("out/result.json")).unwrap();
    assert_eq!(record["parameters"]["moving_volume"], 1);
    assert_eq!(record["inputs"][1]["role"], "moving");
    let line = "affine fixed.nii.gz two.nii -o out --moving-volume 2";
    place.line(line).expect(2).says(&["two.nii"]);
    place.line("affine fixed.nii.gz one.nii -o out --moving-series 3").expect(2).says(&["one.nii"]);
}
