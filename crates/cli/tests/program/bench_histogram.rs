//! `voxalign bench histogram` as a program.

// A check that does not hold is a panic.

use std::process::Command;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_voxalign"))
        .args(["bench", "histogram"])
        .args(args)
        .env_remove("VOXALIGN_DEVICE")
        .output()
        .unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn the_cpu_shows_its_schemes_and_names_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let [csv, html] = ["h.csv", "h.html"].map(|n| folder.path().join(n));
    let (code, out, err) = run(&[
        "--quick",
        "--no-application",
        "--size",
        "24x20x9",
        "--csv",
        csv.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("conflict_free") && out.contains("need a GPU: global_atomic"), "{out}");
    let csv = std::fs::read_to_string(csv).unwrap();
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().count() > 10 && columns == 12, "{csv}");
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("<svg") && !html.contains("NaN") && !html.contains("<script"));
}

#[test]
fn bad_options_are_errors() {
    for args in [&["--size", "1x5x5"][..], &["--size", "x"], &["--pair", "no", "no"], &["--bins"]] {
        let (code, _, err) = run(args);
        assert_eq!(code, Some(2), "{args:?}: {err}");
        assert!(err.contains("error"), "{err}");
    }
}
