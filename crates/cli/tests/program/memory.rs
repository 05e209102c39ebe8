//! Under limits of memory a command does its work, or says what it lacks and leaves nothing.
//! `tools/check_memory.py` does so with every command, and finer steps.
#![cfg(target_os = "linux")]

use crate::common::{Place, Run, grid, head, names};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use voxalign_image::{Affine, Matrix3, Vector3};

/// The steps of a ladder, KiB.
const STEP: usize = 2500;

/// Runs a line of words with so many KiB of address space.
fn limited(place: &Place, kib: usize, line: &str) -> Run {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\"", &kib.to_string()])
        .arg(env!("CARGO_BIN_EXE_voxalign"))
        .args(line.split_whitespace())
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .env_remove("VOXALIGN_DEVICE")
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The lowest limit at which the program starts at all.
fn start(place: &Place) -> usize {
    let starts = |kib: &usize| {
        let run = limited(place, *kib, "--version");
        run.code == 0 && !run.out.is_empty()
    };
    (8_000..).step_by(1000).find(starts).unwrap()
}

/// The images and transforms below a folder, with their names.
fn results(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for name in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            results(&path, found);
        } else if name.ends_with(".nii.gz") || name.ends_with(".tfm") {
            found.push((path.display().to_string(), fs::read(path).unwrap()));
        }
    }
}

fn results_of(place: &Place) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    results(&place.path("out"), &mut found);
    fs::remove_dir_all(place.path("out")).unwrap();
    found
}

/// Climbs from the lowest limit to the first at which the work is done, and gives that run.
fn climb(place: &Place, line: &str) -> Run {
    let line = format!("{line} -o out --threads 2");
    let before = place.names();
    let code = place.line(&line).code;
    assert!((0..2).contains(&code), "code {code}");
    let whole = results_of(place);
    for (refused, kib) in (start(place)..).step_by(STEP).enumerate() {
        let run = limited(place, kib, &line);
        if run.code != 2 {
            assert_eq!(run.code, code, "{kib} KiB, {line}: {}", run.err);
            assert!(results_of(place) == whole, "{kib} KiB: other files");
            assert!(refused > 0, "there was memory for all from the start");
            return run;
        }
        assert!(run.err.contains("memory"), "{kib} KiB: {}", run.err);
        assert!(run.err.contains("iB") || run.err.contains("bytes"), "{kib} KiB: {}", run.err);
        assert_eq!(place.names(), before, "{kib} KiB left something: {}", run.err);
    }
    unreachable!("limits have no end");
}

#[test]
fn an_affine_registration_says_what_it_lacks() {
    let place = Place::new();
    place.pair();
    climb(&place, "affine fixed.nii.gz moving.nii.gz --search none --cost nmi");
}

#[test]
fn a_deformation_says_what_it_lacks() {
    let place = Place::new();
    place.pair();
    let options = "--affine none --schedule 4x3,2x2 --outputs warp,warped";
    climb(&place, &format!("deform fixed.nii.gz moving.nii.gz {options}"));
    climb(&place, &format!("deform fixed.nii.gz moving.nii.gz {options} --model symmetric"));
}

/// The best affine transform, with which the verdict compares a start that was given, takes more memory
/// than such a deformation: it is not left out where there is none.
#[test]
fn a_start_that_is_far_off_is_told_whatever_memory_there_is() {
    let place = Place::new();
    let fixed = grid([30, 32, 28], 6.0);
    let image = head(&fixed, &Affine::identity());
    place.image("a.nii.gz", &image);
    let off = fixed.moved(&Affine::translation(Vector3::new(48.0, 0.0, 0.0))).unwrap();
    place.image("b.nii.gz", &image.with_grid(off).unwrap());
    let options = "--affine none --schedule 4x3,2x2 --similarity mi --outputs warp --no-report";
    let run = climb(&place, &format!("deform a.nii.gz b.nii.gz {options}"));
    assert!(
        run.out.contains("shared information, as a fraction of that under the best"),
        "{}",
        run.out
    );
}

/// The C library's reserve of addresses for a new thread takes nothing from those that start later.
#[test]
fn what_fits_a_limit_fits_every_larger_one() {
    let place = Place::new();
    place.pair();
    let first = start(&place);
    let line = "apply -i moving.nii.gz -r fixed.nii.gz -o out.nii.gz --threads 2";
    let runs = (first..first + 260_000).step_by(STEP).map(|kib| (kib, limited(&place, kib, line)));
    let mut enough = runs.skip_while(|(_, run)| run.code == 2).peekable();
    assert!(enough.peek().is_some());
    for (kib, run) in enough {
        assert_eq!(run.code, 0, "{kib} KiB: {}", run.err);
    }
}

/// What the program needs as it begins, such as a longer stack and the thread that waits for interrupts, is there or
/// is asked for with words: a limit at which it would crash is some pages wide.
#[test]
fn no_limit_is_a_crash_at_the_start() {
    let place = Place::new();
    place.pair();
    let first = start(&place);
    let line = "apply -i moving.nii.gz -r fixed.nii.gz -o out.nii.gz --threads 2";
    for kib in (first - 1000..first + 7000).step_by(16) {
        let run = limited(&place, kib, line);
        assert_eq!(run.code, 2, "{kib} KiB: {}", run.err);
        assert!(run.err.contains("memory"), "{kib} KiB: {}", run.err);
    }
}

#[test]
fn an_atlas_says_what_it_lacks() {
    let place = Place::new();
    for i in 0..3 {
        let moved = Affine::new(Matrix3::identity(), Vector3::new(f64::from(i), 0.0, 0.0));
        place.image(&format!("{i}.nii.gz"), &head(&grid([30, 32, 28], 6.0), &moved));
    }
    climb(
        &place,
        "atlas 0.nii.gz 1.nii.gz 2.nii.gz --align none --schedule 2x2 --no-report \
                    --checkpoint-every never",
    );
}

#[test]
fn a_stack_says_what_it_lacks() {
    let place = Place::new();
    place.pair();
    climb(&place, "stack normalise fixed.nii.gz fixed_labels.nii.gz");
}

#[test]
fn a_surface_says_what_it_lacks() {
    let place = Place::new();
    let fine = grid([120, 124, 120], 1.5);
    place.image("head.nii", &head(&fine, &Affine::identity()));
    let line = "surface head.nii --level 60 --sigma 2 --keep 0.5 -o out.vtp --threads 2";
    let before = place.names();
    let code = place.line(line).code;
    assert!((0..2).contains(&code), "code {code}");
    let whole = fs::read(place.path("out.vtp")).unwrap();
    for name in ["out.vtp", "out.vtp.json"] {
        fs::remove_file(place.path(name)).unwrap();
    }
    for (refused, kib) in (start(&place)..).step_by(STEP).enumerate() {
        let run = limited(&place, kib, line);
        if run.code != 2 {
            assert_eq!(run.code, code, "{kib} KiB: {}", run.err);
            assert!(fs::read(place.path("out.vtp")).unwrap() == whole, "{kib} KiB");
            assert!(refused > 4, "there was memory for all from the start");
            return;
        }
        assert!(run.err.contains("memory"), "{kib} KiB: {}", run.err);
        assert_eq!(place.names(), before, "{kib} KiB left something: {}", run.err);
    }
}
