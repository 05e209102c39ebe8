//! Segmentations of bad input: one clear message, exit code 2, and nothing left behind; what is said before a run.

use crate::common::{Place, grid};
use crate::segment::oblique;
use std::fs;
use voxalign_image::Volume;

#[test]
fn bad_input_is_one_error_and_leaves_nothing() {
    let place = Place::new();
    let flat = grid([20, 18, 1], 1.0);
    let half = |x: usize, _: usize, _: usize| if x < 9 { 1.0 } else { 5.0 };
    let image = Volume::from_fn(flat.clone(), half);
    place.image("flat.nii.gz", &image);
    place.image("solid.nii.gz", &Volume::from_fn(oblique(), half));
    place.image("constant.nii.gz", &Volume::filled(flat.clone(), 7.0));
    place.image("none.nii.gz", &Volume::filled(flat.clone(), 0.0));
    place.image("all.nii.gz", &Volume::filled(flat.clone(), 1.0));
    place.image("other.nii.gz", &Volume::filled(grid([20, 18, 1], 2.0), 1.0));
    place.image("tiny.nii.gz", &Volume::from_fn(grid([2, 2, 1], 1.0), |x, _, _| x as f32));
    let odd = Volume::from_fn(flat.clone(), |x, y, z| match (x, y) {
        (4, 2) | (5, 2) => f32::NAN,
        (7, 9) => f32::INFINITY,
        _ => half(x, y, z),
    });
    place.image("nan.nii.gz", &odd);
    place.write("text.nii", "this is no image");
    let before = place.names();
    for (line, parts) in [
        ("missing.nii.gz", &["missing.nii.gz"][..]),
        ("text.nii", &["text.nii"]),
        ("constant.nii.gz", &["constant.nii.gz", "has the value 7 everywhere"]),
        ("constant.nii.gz --force edge", &["has the value 7 everywhere"]),
        ("constant.nii.gz --force geodesic-regions", &["constant.nii.gz"]),
        ("constant.nii.gz --regions 3", &["has the value 7 everywhere"]),
        ("nan.nii.gz", &["nan.nii.gz", "3 voxels", "NaN", "[4, 2, 0]", "--replace-nan"]),
        ("flat.nii.gz --force speed --speed nan.nii.gz", &["--speed", "nan.nii.gz", "3 voxels"]),
        (
            "flat.nii.gz --force speed --speed other.nii.gz",
            &["--speed", "another grid", "voxalign apply"],
        ),
        ("flat.nii.gz --force speed --speed solid.nii.gz", &["another grid"]),
        ("flat.nii.gz --force speed", &["--force speed needs a field", "--speed FILE"]),
        ("flat.nii.gz --speed all.nii.gz", &["--speed is for --force speed"]),
        ("flat.nii.gz --init mask", &["--initial-mask FILE"]),
        (
            "flat.nii.gz --init mask --initial-mask none.nii.gz",
            &["the start is empty", "--initial-mask"],
        ),
        (
            "flat.nii.gz --init mask --initial-mask all.nii.gz",
            &["the whole image", "--initial-mask"],
        ),
        (
            "flat.nii.gz --init mask --initial-mask other.nii.gz",
            &["--initial-mask", "another grid"],
        ),
        ("flat.nii.gz --initial-mask all.nii.gz", &["--initial-mask is for --init mask"]),
        ("flat.nii.gz --prior-mask none.nii.gz", &["the start is empty", "--prior-mask"]),
        ("flat.nii.gz --prior-mask other.nii.gz", &["--prior-mask", "another grid"]),
        ("flat.nii.gz --prior-mask all.nii.gz --init box", &["--prior-mask is for --init dense"]),
        ("flat.nii.gz --init circle --init-centre 900,0", &["the start is empty", "--init-centre"]),
        ("flat.nii.gz --init circle --init-size 900", &["the whole image", "--init-size"]),
        ("solid.nii.gz --init circle --init-centre 1,2", &["3D", "X,Y,Z"]),
        ("flat.nii.gz --connectivity 26", &["--connectivity is 26", "4 or 8"]),
        ("solid.nii.gz --connectivity 4", &["6, 18 or 26"]),
        ("tiny.nii.gz --regions 5", &["5 regions are too many", "4"]),
        ("flat.nii.gz --regions 1", &["--regions is 1"]),
        ("flat.nii.gz --regions 3 --force edge", &["--force edge"]),
        ("flat.nii.gz --regions 3 --smooth 2", &["--smooth is for two regions"]),
        ("flat.nii.gz --force mean-curvature", &["--iterations N"]),
        (
            "flat.nii.gz --force geodesic-regions --classes 9",
            &["9 components", "2 different values"],
        ),
        ("flat.nii.gz --force geodesic-regions --object-classes 3", &["class 3", "--classes"]),
        ("flat.nii.gz --force edge --curvature 2", &["--curvature is for"]),
        ("flat.nii.gz --iterations 0", &["--iterations", "auto"]),
        ("flat.nii.gz --sigma 5000", &["flat.nii.gz", "at most 10.3 points"]),
        ("flat.nii.gz --smallest-island 3 --largest-component", &["leave one of them out"]),
        ("flat.nii.gz --label-names none.csv", &["none.csv"]),
        ("flat.nii.gz --object sideways", &["sideways", "brighter"]),
        ("flat.nii.gz --volume 3", &["flat.nii.gz"]),
    ] {
        let run = place.line(&format!("segment {line} -o new/out")).expect(2);
        let lines = run.err.lines().filter(|l| l.contains("error:")).count();
        assert_eq!(lines, 1, "{line}: {}", run.err);
        run.says(parts);
        assert_eq!(place.names(), before, "{line}");
    }
    place.line("segment flat.nii.gz").expect(2).says(&["-o DIR"]);
    place.line("segment -o out").expect(2).says(&["IMAGE"]);
    // No input is overwritten.
    fs::create_dir(place.path("out")).unwrap();
    fs::copy(place.path("flat.nii.gz"), place.path("out/labels.nii.gz")).unwrap();
    let run = place.line("segment out/labels.nii.gz -o out").expect(2);
    run.says(&["both an input and an output"]);
    assert_eq!(crate::common::names(&place.path("out")), ["labels.nii.gz"]);
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = Place::new();
    let image = Volume::from_fn(oblique(), |x, _, _| x as f32);
    place.image("solid.nii.gz", &image);
    place.image("flat.nii.gz", &Volume::from_fn(grid([9, 8, 1], 1.0), |x, _, _| x as f32));
    let before = place.names();
    for (line, parts) in [
        ("solid.nii.gz", &["labels.nii.gz", "surface.gii", "report.html", "24 x 30 x 16"][..]),
        ("solid.nii.gz --regions 3", &["surface_1.gii", "surface_2.gii"]),
        ("flat.nii.gz", &["outline.vtk", "result.json"]),
        ("flat.nii.gz --init mask --initial-mask flat.nii.gz", &["initial_mask"]),
    ] {
        let run = place.line(&format!("segment {line} -o out --dry-run")).expect(0);
        for part in parts.iter().chain(&["would read", "would write", "of memory"]) {
            assert!(run.out.contains(part), "{line}: {part}: {}", run.out);
        }
        assert_eq!(place.names(), before);
    }
    place.line("segment none.nii.gz -o out --dry-run").expect(2).says(&["none.nii.gz"]);
}

#[test]
fn the_help_explains_forces_starts_and_files() {
    let help = Place::new().line("segment --help").expect(0).out;
    let flowing = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in [
        "Force:",
        "Start:",
        "Evolution:",
        "Tidying:",
        "Which image:",
        "Output:",
        "[default: chan-vese]",
        "[default: dense]",
        "what they are for",
        "labels.nii.gz",
        "[default: auto]",
        "--no-surface",
        "--config",
        "Exit codes",
    ] {
        assert!(flowing.contains(word), "{word} is not in\n{help}");
    }
}
