//! Atlases that are streamed, stopped, resumed, and without subjects that do not serve.

use crate::common::{Place, Run, grid, head, names};
use std::fs;
use std::path::{Path, PathBuf};
use voxalign_image::{AffineParameters, Vector3, Volume};

/// Slices of heads in different places and sizes: `0.nii.gz`, `1.nii.gz`, ...
fn heads(place: &Place, count: u32) {
    let grid = grid([36, 40, 1], 5.0);
    for i in 0..count {
        let t = f64::from(i) - 0.5 * f64::from(count - 1);
        let way = AffineParameters {
            rotation: Vector3::new(0.0, 0.0, 0.05 * t),
            translation: Vector3::new(3.0 * t, 4.0 - 2.0 * t, 0.0),
            scale: Vector3::new(1.0 + 0.03 * t, 1.0 - 0.02 * t * t, 1.0),
            ..AffineParameters::identity(grid.centre())
        };
        place.image(&format!("{i}.nii.gz"), &head(&grid, &way.to_affine()));
    }
}

/// All files in a folder and its folders but the record and the report, which have times.
fn images(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|e| e != "json" && e != "html") {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The files of an atlas are those of another one, to the last bit.
#[track_caller]
fn assert_same(place: &Place, one: &str, other: &str) {
    let [a, b] = [one, other].map(|folder| images(&place.path(folder)));
    let names = |files: &[(PathBuf, Vec<u8>)]| -> Vec<_> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&a), names(&b), "{one} and {other}");
    assert!(a.len() > 5, "{:?}", names(&a));
    for ((name, a), (_, b)) in a.iter().zip(&b) {
        assert!(a == b, "{} of {one} and of {other} differ", name.display());
    }
    assert!(!place.path(&format!("{other}/checkpoint")).exists());
}

fn record(place: &Place, folder: &str) -> serde_json::Value {
    let text = fs::read_to_string(place.path(folder).join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn streamed_from_host_and_disk() {
    let place = Place::new();
    heads(&place, 5);
    fs::create_dir(place.path("scratch")).unwrap();
    let line =
        "atlas 0.nii.gz 1.nii.gz 2.nii.gz 3.nii.gz 4.nii.gz --schedule 2x5,1x4 --device cpu -o";
    let run = place.line(&format!("{line} a")).expect(0);
    run.says(&["memory: all 5 subjects stay on the device"]);
    let streams = |folder: &str| {
        let report = fs::read_to_string(place.path(folder).join("report.html")).unwrap();
        report.contains(">upload<") && report.contains(">download<")
    };
    assert!(!streams("a"));
    for (folder, options, level) in [
        ("b", "--device-memory 1KiB", "the memory of the host"),
        ("c", "--device-memory 1KiB --host-memory 0", "disk"),
        ("d", "--device-memory 1KiB --host-memory 1kB --scratch scratch", "disk"),
    ] {
        let plan = format!("5 are streamed from {level} at every iteration");
        let run = place.line(&format!("{line} {folder} {options}")).expect(0);
        run.says(&["memory: 0 of 5 subjects stay on the device", &plan]);
        assert_same(&place, "a", folder);
        assert!(streams(folder), "{folder} has no timeline");
        let plans = &record(&place, folder)["plans"];
        assert_eq!(plans[0]["level"], if level == "disk" { "disk" } else { "host" });
        assert_eq!(names(&place.path(folder)), names(&place.path("a")));
    }
    assert!(names(&place.path("scratch")).is_empty());
    place
        .line(&format!("{line} e --device-memory 1KiB --host-memory 0 --scratch nowhere"))
        .expect(2)
        .says(&["--scratch 'nowhere' is not a folder"]);
    place.line(&format!("{line} e --device-memory little")).expect(2).says(&["--device-memory"]);
    assert!(!place.path("e").exists());
}

#[test]
fn no_report() {
    let place = Place::new();
    heads(&place, 2);
    let line = "atlas 0.nii.gz 1.nii.gz -o a --schedule 2x3 --device cpu";
    place.line(line).expect(0);
    assert!(place.path("a/report.html").exists() && place.path("a/entropy.nii.gz").exists());
    // The page of an older result goes.
    place.line(&format!("{line} --no-report")).expect(0);
    assert!(!place.path("a/report.html").exists());
}

#[test]
fn unreadable_subjects() {
    let place = Place::new();
    heads(&place, 4);
    let whole = fs::read(place.path("3.nii.gz")).unwrap();
    fs::write(place.path("cut.nii.gz"), &whole[..whole.len() / 2]).unwrap();
    // One whose header can be read, as its beginning fills more than a block.
    let noise = |x: usize, y: usize, _| ((x * 7919 + y * 104_729) % 65_537) as f32;
    place.image("late.nii.gz", &Volume::from_fn(grid([300, 300, 1], 1.0), noise));
    let whole = fs::read(place.path("late.nii.gz")).unwrap();
    fs::write(place.path("late.nii.gz"), &whole[..whole.len() / 10 * 9]).unwrap();
    let options = "-o a --schedule 2x3 --device cpu";
    let two = "atlas 0.nii.gz 1.nii.gz 2.nii.gz";
    for bad in ["cut.nii.gz", "none.nii.gz", "late.nii.gz"] {
        let run = place.line(&format!("{two} {bad} {options}")).expect(2);
        let run = run.says(&[bad, "--exclude unreadable leaves such subjects out"]);
        assert_eq!(run.err.matches(bad).count(), 1, "{}", run.err);
        assert!(!place.path("a").exists());
    }
    let line = format!("{two} cut.nii.gz none.nii.gz {options} --exclude unreadable");
    place.line(&line).expect(0).says(&["'cut' was left out: ", "'none' was left out: "]);
    let record = record(&place, "a");
    let remarks = record["verdict"]["remarks"].to_string();
    for part in ["'cut' was left out: ", "'none' was left out: "] {
        assert!(remarks.contains(part), "{remarks}");
    }
    assert_eq!(record["subjects"].as_array().unwrap().len(), 3);
    assert_eq!(names(&place.path("a/subjects")), ["0", "1", "2"]);
    // Those that are left have the atlas that they have alone.
    place.line(&format!("{two} -o b --schedule 2x3 --device cpu")).expect(0);
    assert_same(&place, "b", "a");

    // Too few are left.
    let line = format!("atlas 0.nii.gz cut.nii.gz {options} --exclude unreadable");
    place.line(&line).expect(2).says(&["needs at least two images, but only 1 can be used"]);

    // A label map that cannot be read is found before the work, not after it.
    fs::copy(place.path("cut.nii.gz"), place.path("labels.nii.gz")).unwrap();
    place.write(
        "list.csv",
        "path,labels\n0.nii.gz,\n1.nii.gz,\n2.nii.gz,\n3.nii.gz,labels.nii.gz\n",
    );
    let line = "atlas --list list.csv -o c --schedule 2x3 --device cpu";
    let run = place.line(line).expect(2).says(&["labels.nii.gz", "--exclude unreadable"]);
    assert!(!run.err.contains("atlas:"), "{}", run.err);
    place.line(&format!("{line} --exclude unreadable")).expect(0);
    assert_same(&place, "b", "c");
}

#[test]
fn subjects_that_do_not_belong() {
    let place = Place::new();
    heads(&place, 6);
    let square = Volume::from_fn(grid([36, 40, 1], 5.0), |x, y, _| {
        if (6..16).contains(&x) && (8..34).contains(&y) { 40.0 + (x * y % 7) as f32 } else { 0.0 }
    });
    place.image("square.nii.gz", &square);
    let all = "atlas 0.nii.gz 1.nii.gz 2.nii.gz 3.nii.gz 4.nii.gz 5.nii.gz";
    let options = "--schedule 2x3 --device cpu";
    place
        .line(&format!("{all} square.nii.gz -o a --exclude outlying {options}"))
        .expect(0)
        .says(&["'square' was left out: it is unlike the others"]);
    let record = record(&place, "a");
    let remarks = record["verdict"]["remarks"].to_string();
    assert!(remarks.contains("'square' was left out: it is unlike the others"), "{remarks}");
    let subjects = record["subjects"].as_array().unwrap();
    let names: Vec<_> = subjects.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert!(names.len() == 6 && !names.contains(&"square"), "{names:?}");
    // The others have the atlas that they have alone.
    place.line(&format!("{all} -o b --exclude outlying {options}")).expect(0);
    assert_same(&place, "b", "a");
}

#[cfg(unix)]
mod stopped {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// An atlas of some hundred iterations.
    const LINE: &str = "atlas 0.nii.gz 1.nii.gz 2.nii.gz --schedule 4x60,2x60,1x30 --convergence 0 --device cpu \
                        --checkpoint-every 0";

    fn start(place: &Place, line: &str) -> Child {
        let words: Vec<_> = line.split_whitespace().collect();
        let mut command = place.command(&words);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for something of a run that goes on.
    #[track_caller]
    fn wait_for(run: &mut Child, what: impl Fn() -> bool) {
        let begun = Instant::now();
        while !what() {
            assert!(run.try_wait().unwrap().is_none(), "the run has ended");
            assert!(begun.elapsed() < Duration::from_secs(120), "waited in vain");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops a run as Ctrl-C does.
    fn interrupt(run: Child) -> Run {
        let id = run.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let output = run.wait_with_output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::new(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Leaves a checkpoint in `folder`, of a run that was interrupted.
    fn interrupted(place: &Place, line: &str, folder: &str) {
        let mut run = start(place, line);
        let current = place.path(folder).join("checkpoint/current");
        wait_for(&mut run, || current.exists());
        interrupt(run).expect(130).says(&["stopped", "--resume", folder]);
        assert!(current.exists());
        assert_eq!(names(&place.path(folder)), ["checkpoint"]);
    }

    #[test]
    fn killed_at_any_moment() {
        let place = Place::new();
        heads(&place, 3);
        let whole = Instant::now();
        place.line(&format!("{LINE} -o whole")).expect(0);
        let whole = whole.elapsed();
        let kills = std::env::var("VOXALIGN_KILLS").ok().and_then(|n| n.parse().ok());
        let kills: u32 = kills.unwrap_or(4);
        let (mut hit, mut gone_on) = (0, 0);
        for i in 0..kills {
            let folder = format!("k{i}");
            // Killed, resumed, killed again, and resumed.
            for again in 0..2 {
                let there = place.path(&folder).join("checkpoint/current").exists();
                gone_on += u32::from(there);
                let resume = if again > 0 { "--resume" } else { "" };
                let mut run = start(&place, &format!("{LINE} -o {folder} {resume}"));
                let part = (f64::from(i) + 0.3 + 0.4 * f64::from(again)) / f64::from(kills);
                std::thread::sleep(whole.mul_f64(part));
                run.kill().unwrap();
                hit += u32::from(run.wait().unwrap().code().is_none());
            }
            let there = place.path(&folder).join("checkpoint/current").exists();
            gone_on += u32::from(there);
            let run = place.line(&format!("{LINE} -o {folder} --resume")).expect(0);
            assert!(!there || !run.err.contains("there is no checkpoint"), "{}", run.err);
            // What killed runs left of their files is gone.
            let left = names(&place.path(&folder));
            assert!(!left.iter().any(|n| n.starts_with('.')), "{left:?}");
            assert_same(&place, "whole", &folder);
        }
        println!("{whole:.2?} long, {hit} of {} killed, {gone_on} went on", 2 * kills);
        assert!(hit > 0 && gone_on > 0, "{hit} killed, {gone_on} went on");
    }

    #[test]
    fn interrupted_and_resumed() {
        let place = Place::new();
        heads(&place, 3);
        place.line(&format!("{LINE} -o whole")).expect(0);
        interrupted(&place, &format!("{LINE} -o a"), "a");
        let saved = || {
            let files = images(&place.path("a"));
            assert!(files.len() > 3);
            files
        };
        let before = saved();

        // Another run does not go on from it, and does it no harm.
        let other = "this checkpoint is from a run with different images or options";
        let images = LINE.replace("1.nii.gz", "");
        for line in [
            format!("{LINE} -o a --resume --step 0.1"),
            format!("{LINE} -o a --resume --align rigid"),
            format!("{LINE} -o a --resume --spacing 4"),
            format!("{images} -o a --resume"),
        ] {
            place.line(&line).expect(2).says(&[other]);
            assert!(saved() == before, "{line}");
        }
        let never = format!("{LINE} -o a --resume --checkpoint-every never");
        place.line(&never).expect(2).says(&["--resume"]);

        // On other threads, from disk and in another order it goes on.
        let line = LINE.replace("0.nii.gz 1.nii.gz", "1.nii.gz 0.nii.gz");
        let options = "--resume --threads 1 --device-memory 1 --host-memory 0";
        let run = place.line(&format!("{line} -o a {options}")).expect(0);
        assert!(!run.err.contains("no checkpoint"), "{}", run.err);
        assert_same(&place, "whole", "a");

        // Nothing to go on from.
        place
            .line(&format!("{LINE} -o b --resume"))
            .expect(0)
            .says(&["there is no checkpoint; the run starts from the beginning"]);
        assert_same(&place, "whole", "b");
    }

    #[test]
    fn started_anew_over_a_checkpoint() {
        let place = Place::new();
        heads(&place, 3);
        let line = LINE.replace("4x60", "4x50");
        place.line(&format!("{line} -o whole")).expect(0);
        interrupted(&place, &format!("{LINE} -o a"), "a");
        // A file of somebody else in the folder of checkpoints.
        place.write("a/checkpoint/a/mine.bin", "mine");
        // Killed before it has a checkpoint of its own.
        let aligned = || fs::read(place.path("a/checkpoint/aligned.state")).unwrap_or_default();
        let before = aligned();
        let mut run = start(&place, &format!("{} -o a", line.replace("every 0", "every 60")));
        wait_for(&mut run, || aligned() != before && !aligned().is_empty());
        run.kill().unwrap();
        let said = run.wait_with_output().unwrap().stderr;
        assert!(String::from_utf8_lossy(&said).contains("the run starts from the beginning"));
        place.line(&format!("{line} -o a --resume")).expect(0);
        assert_eq!(fs::read(place.path("a/checkpoint/a/mine.bin")).unwrap(), b"mine");
        fs::remove_dir_all(place.path("a/checkpoint")).unwrap();
        let left = names(&place.path("a"));
        assert!(!left.iter().any(|n| n.starts_with('.')), "{left:?}");
        assert_same(&place, "whole", "a");
    }

    /// Copies a folder and the folders in it.
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            if path.is_dir() { copy(&path, &to) } else { fs::copy(&path, &to).map(drop).unwrap() }
        }
    }

    #[test]
    fn damaged_checkpoints() {
        let place = Place::new();
        heads(&place, 3);
        place.line(&format!("{LINE} -o whole")).expect(0);
        interrupted(&place, &format!("{LINE} -o kept"), "kept");
        let resumed = |folder: &str, files: &[&str]| {
            copy(&place.path("kept"), &place.path(folder));
            for file in files {
                let path = place.path(folder).join("checkpoint").join(file);
                let mut bytes = fs::read(&path).unwrap();
                let at = bytes.len() * 2 / 3;
                bytes[at] ^= 4;
                fs::write(path, bytes).unwrap();
            }
            place.line(&format!("{LINE} -o {folder} --resume"))
        };
        // Of the newer place, whichever it is, and of both.
        let subjects = ["a/subject-1.state", "b/subject-1.state"];
        let runs = [0, 1].map(|i| resumed(&format!("s{i}"), &subjects[i..=i]).expect(0));
        let warned = runs.map(|run| run.err.contains("warning: the last checkpoint is damaged"));
        assert!(warned[0] != warned[1], "{warned:?}");
        assert_same(&place, "whole", "s0");
        assert_same(&place, "whole", "s1");
        resumed("both", &subjects).expect(2).says(&[
            "no checkpoint is intact",
            "a/subject-1.state",
            "b/subject-1.state",
            "without --resume",
        ]);
        let run = resumed("aligned", &["aligned.state", "current"]).expect(0);
        run.says(&["aligned.state' is damaged", "its copy is used"]);
        assert_same(&place, "whole", "aligned");
        resumed("unaligned", &["aligned.state", "aligned-copy.state"]).expect(2).says(&[
            "this checkpoint is damaged",
            "aligned.state",
            "without --resume",
        ]);
        for folder in ["both", "unaligned"] {
            assert_eq!(names(&place.path(folder)), ["checkpoint"]);
        }
    }
}
