//! Help, versions, and what clap refuses.

use crate::common::Place;

pub(crate) const COMMANDS: [&str; 21] = [
    "affine",
    "deform",
    "elastic",
    "anatomy",
    "atlas",
    "drr",
    "pose",
    "segment",
    "demo",
    "apply",
    "invert",
    "compose",
    "compare",
    "stack",
    "surface",
    "info",
    "convert",
    "bench",
    "devices",
    "completions",
    "man",
];

#[test]
fn every_command_has_help() {
    let place = Place::new();
    let top = place.line("--help").expect(0);
    assert!(top.out.contains("Exit codes: 0 done"), "{}", top.out);
    for command in COMMANDS {
        assert!(top.out.contains(&format!("\n  {command}")), "{command}");
        let help = place.run(&[command, "--help"]).expect(0);
        assert!(help.out.contains("Usage: voxalign"), "{}", help.out);
        assert!(help.err.is_empty(), "{}", help.err);
        let short = place.run(&[command, "-h"]).expect(0);
        assert!(short.out.len() <= help.out.len());
    }
    for command in [
        "affine",
        "deform",
        "elastic",
        "anatomy",
        "drr",
        "pose",
        "segment",
        "apply",
        "invert",
        "compose",
        "compare",
        "stack",
        "surface",
        "info",
        "convert",
        "devices",
        "completions",
        "man",
    ] {
        let help = place.run(&[command, "--help"]);
        assert!(help.out.contains("Examples:"), "{command}");
    }
}

#[test]
fn the_help_of_affine_has_units_and_defaults() {
    let help = Place::new().line("affine --help").expect(0).out;
    for word in ["mm", "degrees", "[default: 60,18]", "affine.fsl.mat", "--config", "Exit codes"] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
}

#[test]
fn the_help_of_deform_has_groups_files_and_uses() {
    let help = Place::new().line("deform --help").expect(0).out;
    for word in [
        "Method:",
        "Smoothness:",
        "Schedule:",
        "Masks and labels:",
        "Output:",
        "Running:",
        "[default: 4x100,2x100,1x50; for an atlas",
        "-t out/warp.nii.gz -t out/affine.tfm",
        "antsApplyTransforms",
        "1InverseWarp",
        "Exit codes",
    ] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
}

#[test]
fn the_help_of_x_ray_images_has_groups_and_defaults() {
    let place = Place::new();
    for (command, words) in [
        (
            "drr",
            [
                "Simulation:",
                "[default: 1.5 times the distance to the isocentre]",
                "NAME_0000",
                "views.toml",
            ],
        ),
        ("pose", ["Registration:", "[default: gradient-ncc]", "--frame <N,...>", "ct_to_room.tfm"]),
    ] {
        let help = place.run(&[command, "--help"]).expect(0).out;
        let shared =
            ["CT:", "Views:", "Which image:", "Output:", "--config", "--series", "Exit codes"];
        // Where lines break does not matter.
        let flowing = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words.iter().chain(&shared) {
            assert!(flowing.contains(word), "{word} is not in\n{help}");
        }
    }
}

/// Where something is computed on a device one can say which; elsewhere the option is unknown.
#[test]
fn the_commands_that_compute_have_a_device() {
    let place = Place::new();
    for command in COMMANDS {
        let help = place.run(&[command, "--help"]).expect(0).out;
        let computes = [
            "affine", "deform", "elastic", "anatomy", "atlas", "drr", "pose", "segment", "demo",
            "apply", "stack", "surface", "bench",
        ];
        let computes = computes.contains(&command);
        assert_eq!(help.contains("--device <auto|cpu|cuda|cuda:N>"), computes, "{command}");
        assert_eq!(help.contains("for apply, drr,"), computes, "{command}");
    }
}

#[test]
fn versions() {
    let place = Place::new();
    let version = env!("CARGO_PKG_VERSION");
    assert!(place.line("--version").expect(0).out.contains(version));
    assert!(place.line("affine --version").expect(0).out.contains(version));
}

#[test]
fn bad_command_lines_end_with_2() {
    let place = Place::new();
    place.run(&[]).expect(2).says(&["Usage"]);
    place.line("afine").expect(2).says(&["unrecognized subcommand", "affine"]);
    place.line("affine a b -o c --doff 6").expect(2).says(&["--doff", "--dof"]);
    place.line("affine a b -o c --cost xx").expect(2).says(&["xx", "cr", "nmi"]);
    place.line("affine a b -o c --threads 0").expect(2).says(&["--threads"]);
    place.line("affine a b -o c --apodise -1").expect(2).says(&["--apodise"]);
    place.line("affine a b -o c --search-angles 200").expect(2).says(&["-180 to 180"]);
    place.line("affine a b -o c --search-steps 60").expect(2).says(&["60,18"]);
    place.line("affine a b -o c --levels 1,2").expect(2).says(&["coarse to fine"]);
    place.line("affine a b -o c --init nowhere.tfm").expect(2).says(&["moments", "file"]);
    place.line("affine a b c -o d").expect(2).says(&["unexpected argument 'c'"]);
    place.line("deform a b -o c --schedule 4").expect(2).says(&["--schedule", "4x100,2x100,1x50"]);
    place.line("deform a b -o c --channel a b lncc").expect(2).says(&["--channel", "4 values"]);
    place.line("apply -i a.nii -o b.nii").expect(2).says(&["REFERENCE"]);
    place.line("compare a.nii").expect(2).says(&["WARPED"]);
    place.line("compare --points a.csv").expect(2).says(&["2 values"]);
    place.line("bench --size 0").expect(2).says(&["160x192x160"]);
    assert!(place.names().is_empty(), "{:?}", place.names());
}
