//! Several runs at once, runs that are stopped, and limits that the system sets.
#![cfg(target_os = "linux")]

use crate::common::{Place, Run, grid, head, motion, names};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use voxalign_image::Affine;

/// Two images of one head.
fn inputs() -> Place {
    let place = Place::new();
    let grid = grid([60, 64, 56], 3.0);
    place.image("a.nii", &head(&grid, &Affine::identity()));
    place.image("b.nii", &head(&grid, &motion()));
    place
}

fn start(place: &Place, line: &str) -> Child {
    let mut command = place.command(&line.split_whitespace().collect::<Vec<_>>());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Looks once a millisecond, for a minute at most.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let so = (0..60_000).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(Duration::from_millis(1));
        }
        so
    });
    assert!(so, "{what}");
}

/// Waits for the end.
#[track_caller]
fn ended(mut child: Child) -> Run {
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    let mut run = Run { code: -1, out: String::new(), err: String::new() };
    child.stdout.take().unwrap().read_to_string(&mut run.out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut run.err).unwrap();
    run.code = child.wait().unwrap().code().unwrap_or(-1);
    run
}

fn hidden(folder: &Path) -> Vec<String> {
    if !folder.is_dir() {
        return Vec::new();
    }
    names(folder).into_iter().filter(|n| n.starts_with('.')).collect()
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Whether a run has begun to write into a folder.
fn has_begun(folder: &Path) -> bool {
    hidden(folder).iter().any(|n| n.starts_with(".voxalign-") && folder.join(n).is_dir())
}

const LONG: &str = "affine a.nii b.nii -o out --levels 6,3 -q";
const SHORT: &str = "affine a.nii b.nii -o out --search local --levels 8 -q";

#[test]
fn the_second_into_one_folder_is_refused() {
    let place = inputs();
    let out = place.path("out");
    let mut first = start(&place, LONG);
    wait_until("it begins", || has_begun(&out));
    // It lives, and takes its time.
    send(&first, Signal::SIGSTOP);
    let others = [
        SHORT,
        "deform a.nii b.nii -o out --affine none",
        "atlas a.nii b.nii -o out --resume",
        "stack normalise a.nii b.nii -o out",
        "stack max a.nii b.nii -o out/max.nii -q",
    ];
    let runs = others.map(|line| place.line(line));
    for run in &runs[..4] {
        assert_eq!(run.code, 2, "{}", run.err);
        assert!(
            run.err.contains("another run of voxalign is writing to the folder 'out'"),
            "{}",
            run.err
        );
        assert!(run.err.contains("-o"), "{}", run.err);
    }
    // A file of its own takes nothing from it.
    assert_eq!(runs[4].code, 0, "{}", runs[4].err);
    assert_eq!(names(&out).iter().filter(|n| !n.starts_with('.')).count(), 2);
    // Killed, it refuses nobody any more, and what it leaves goes at once.
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(has_begun(&out));
    place.line(SHORT);
    assert!(out.join("result.json").exists());
    assert_eq!(hidden(&out), [""; 0]);
}

#[test]
fn a_short_run_leaves_a_long_one_its_files() {
    let place = inputs();
    let out = place.path("out");
    let long = start(&place, LONG);
    wait_until("it begins", || has_begun(&out));
    send(&long, Signal::SIGSTOP);
    // As if nothing had changed in it for days.
    for name in hidden(&out) {
        let file = fs::File::open(out.join(&name)).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    }
    place.line("stack max a.nii b.nii -o out/max.nii -q").expect(0);
    place.line("convert a.nii out/c.nii").expect(0);
    assert!(has_begun(&out), "the folder of the long run is gone");
    send(&long, Signal::SIGCONT);
    let long = ended(long);
    assert!(long.code < 2 && out.join("result.json").exists(), "{}", long.err);
    assert_eq!(hidden(&out), [""; 0]);
}

#[test]
fn a_pipe_is_no_image() {
    let place = inputs();
    for name in ["pipe.nii.gz", "pipe.tfm"] {
        std::process::Command::new("mkfifo").arg(place.path(name)).status().unwrap();
    }
    let before = place.names();
    for line in [
        "affine pipe.nii.gz b.nii -o out",
        "affine a.nii b.nii -o out --fixed-mask pipe.nii.gz",
        "affine a.nii b.nii -o out --fixed-labels pipe.nii.gz --moving-labels pipe.nii.gz",
        "deform a.nii b.nii -o out --affine pipe.tfm",
        "atlas a.nii pipe.nii.gz -o out",
        "apply -i a.nii -r pipe.nii.gz -o out.nii",
        "stack mean a.nii pipe.nii.gz -o out.nii",
        "info pipe.nii.gz",
    ] {
        let run = place.line(line).expect(2).says(&["'pipe.", "this is a pipe"]);
        assert!(run.err.contains("write what comes out of it to a file"), "{}", run.err);
        assert_eq!(place.names(), before, "{line}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error() {
    let place = inputs();
    let before = place.names();
    for line in [
        "convert a.nii out.nii.gz",
        "convert a.nii out.mhd",
        "stack max a.nii b.nii -o out.nii",
        "stack normalise a.nii b.nii -o out",
        "affine a.nii b.nii -o out --search local --levels 8 -q",
        "deform a.nii b.nii -o out --affine none --schedule 4x3 --similarity ssd -q",
        "atlas a.nii b.nii -o out --align none --similarity ssd --schedule 4x3 -q \
         --checkpoint-every never",
    ] {
        let words = format!("ulimit -f 16; exec {} {line}", env!("CARGO_BIN_EXE_voxalign"));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &words]).current_dir(place.path("")).stdin(Stdio::null());
        let output = shell.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {:?} {err}", output.status);
        assert!(err.contains("limit on the size of files"), "{line}: {err}");
        assert!(!err.contains(".voxalign"), "{line}: {err}");
        assert_eq!(place.names(), before, "{line}");
    }
}
