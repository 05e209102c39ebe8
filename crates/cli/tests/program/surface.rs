//! Surfaces of labels and images.

use crate::common::{Place, grid};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use voxalign::surfaces::Figures;
use voxalign_image::{Affine, Grid, LabelMap, Matrix3, Mesh, Vector3, Volume};
use voxalign_io::mesh::{ReadOptions, read};

/// An oblique, flipped grid of 1.5 x 1 x 2 mm.
fn oblique() -> Grid {
    let (s, c) = 0.3f64.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
    let matrix = turn * Matrix3::from_diagonal(&Vector3::new(-1.5, 1.0, 2.0));
    Grid::new([30, 40, 20], Affine::new(matrix, Vector3::new(12.0, -30.0, 5.0))).unwrap()
}

/// Two balls, of 9 and 5 mm, labelled 3 and 4; where they are, and the map.
fn balls() -> (LabelMap, [Vector3<f64>; 2]) {
    let grid = oblique();
    let centres = [[17.0, 13.0, 9.0], [8.0, 30.0, 9.0]].map(Vector3::from);
    let centres = centres.map(|index| grid.index_to_world(index));
    let labels = Volume::from_fn(grid.clone(), |x, y, z| {
        let at = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        let [a, b] = centres.map(|c| (at - c).norm());
        if a <= 9.0 {
            3
        } else if b <= 5.0 {
            4
        } else {
            0
        }
    });
    (labels, centres)
}

fn place() -> (Place, [Vector3<f64>; 2]) {
    let place = Place::new();
    let (labels, centres) = balls();
    place.labels("labels.nii.gz", &labels);
    let values = labels.map(|&l| (l as f32) * 100.0 - 50.0);
    place.image("image.nii.gz", &values);
    (place, centres)
}

fn mesh(place: &Place, name: &str) -> Mesh {
    read(place.path(name), &ReadOptions::default()).unwrap().0
}

fn record(place: &Place, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path(&format!("{name}.json"))).unwrap()).unwrap()
}

#[test]
fn a_label_becomes_a_closed_surface_at_its_place() {
    let (place, [large, small]) = place();
    let run = place.line("surface labels.nii.gz --label 3 -o a.gii").expect(0);
    assert!(run.out.contains("verdict: good") && run.out.contains("volume, mm³"), "{}", run.out);
    let found = mesh(&place, "a.gii");
    let figures = Figures::of(&found).unwrap();
    assert!(figures.is_closed_manifold() && figures.genus == Some(0));
    let ball = 4.0 / 3.0 * std::f64::consts::PI * 9f64.powi(3);
    assert!((figures.volume_mm3.unwrap() / ball - 1.0).abs() < 0.05);
    let far = found.vertices().iter().map(|v| ((v - large).norm() - 9.0).abs());
    assert!(far.fold(0.0, f64::max) < 1.5);
    let said = record(&place, "a.gii");
    assert_eq!(said["surface"]["triangles"], found.faces().len());
    assert_eq!(said["surface"]["boundary_edges"], 0);
    assert_eq!(said["parameters"]["smoothing"], 15);
    assert_eq!(said["verdict"]["good"], true);
    assert_eq!(said["inputs"][0]["role"], "labels");
    assert!(said["distance"]["hausdorff"].as_f64().unwrap() > 0.0);

    // Both together; a name by its list; the other one alone by `--config`.
    place.line("surface labels.nii.gz --label 3,4 -o both.vtp -q").expect(0);
    assert_eq!(Figures::of(&mesh(&place, "both.vtp")).unwrap().components, 2);
    place.line("surface labels.nii.gz --label 3,4 --largest-component -o one.vtp -q").expect(0);
    assert_eq!(Figures::of(&mesh(&place, "one.vtp")).unwrap().components, 1);
    assert_eq!(record(&place, "one.vtp")["object"]["parts"], 2);
    place.write("job.toml", "label = 4\nimage = 'labels.nii.gz'\nsmoothing = 0\n");
    let json = place.line("surface --config job.toml -o small.ply --json").expect(0).json();
    assert_eq!(json["parameters"]["label"][0], 4);
    assert_eq!(json, record(&place, "small.ply"));
    let [low, high] = mesh(&place, "small.ply").bounds().unwrap();
    assert!(((low + high) / 2.0 - small).norm() < 1.0);
}

#[test]
fn all_formats_hold_the_same_surface_and_threads_the_same_bits() {
    let (place, _) = place();
    let mut first: Option<Mesh> = None;
    for name in ["a.gii", "a.vtk", "b.vtp", "a.stl", "a.ply", "lh.white"] {
        place.line(&format!("surface labels.nii.gz --label 3 -o {name} -q")).expect(0);
        let found = mesh(&place, name);
        let of = |m: &Mesh| Figures::of(m).unwrap();
        let wanted = of(first.get_or_insert_with(|| found.clone()));
        let found = of(&found);
        assert_eq!((found.vertices, found.euler), (wanted.vertices, wanted.euler), "{name}");
        assert!((found.area_mm2 / wanted.area_mm2 - 1.0).abs() < 1e-5, "{name}");
    }
    let mut bytes = None;
    for threads in [1, 3] {
        let how = "--sigma 1 --smoothing 5 --keep 0.4";
        let line = format!("surface labels.nii.gz --label 3 {how} -o c.vtp --threads {threads} -q");
        place.line(&line).expect(0);
        let now = fs::read(place.path("c.vtp")).unwrap();
        assert_eq!(*bytes.get_or_insert_with(|| now.clone()), now);
    }
    // A space that the file states is the same place.
    place.line("surface labels.nii.gz --label 3 -o lps.ply --space lps -q").expect(0);
    let [a, b] = ["a.ply", "lps.ply"].map(|name| mesh(&place, name));
    assert_eq!(a, b);
}

#[test]
fn levels_smoothing_and_fewer_triangles() {
    let (place, _) = place();
    place.line("surface image.nii.gz --level 249 -o high.vtp -q").expect(0);
    place.line("surface image.nii.gz --level 0 -o all.vtp -q").expect(0);
    let parts = |name: &str| Figures::of(&mesh(&place, name)).unwrap().components;
    assert_eq!((parts("high.vtp"), parts("all.vtp")), (2, 2));
    let below = place.line("surface image.nii.gz --level 0 --below -o air.vtp").expect(0);
    assert!(below.out.contains("reaches the border"), "{}", below.out);
    // The air around: its border, and a cavity for each ball.
    let air = record(&place, "air.vtp");
    assert_eq!(
        (&air["surface"]["cavities"], &air["object"]["at_border"]),
        (&2.into(), &true.into())
    );
    place.line("surface image.nii.gz --level 0 --below --fill-holes -o box.vtp -q").expect(0);
    let filled = record(&place, "box.vtp");
    assert_eq!(filled["surface"]["components"], 1);
    assert!(filled["object"]["filled_voxels"].as_u64().unwrap() > 100);

    place.line("surface labels.nii.gz --label 3 --triangles 300 -o few.vtp --report -q").expect(0);
    let few = record(&place, "few.vtp");
    assert!(few["surface"]["triangles"].as_u64().unwrap() <= 300, "{few}");
    assert_eq!(few["verdict"]["good"], true, "{few}");
    let page = fs::read_to_string(place.path("few.vtp.html")).unwrap();
    for part in ["few.vtp of labels.nii.gz, label 3", "fig-3d", "Verdict: Good", "class=\"ramp\""] {
        assert!(page.contains(part), "{part}");
    }
    // What it costs is judged.
    let run = place.line("surface labels.nii.gz --label 4 --sigma 2 -o soft.vtp").expect(1);
    assert!(run.out.contains("verdict: bad") && run.out.contains("--sigma"), "{}", run.out);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (place, _) = place();
    let before = place.names();
    let run = place.line("surface labels.nii.gz --label 3 -o a.gii --report --dry-run").expect(0);
    for part in ["would read", "labels", "a.gii", "a.gii.json", "a.gii.html", "of memory"] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    assert_eq!(place.names(), before);
}

#[test]
fn bad_input_is_one_error_and_leaves_nothing() {
    let (place, _) = place();
    place.image("flat.nii.gz", &Volume::filled(grid([9, 8, 1], 1.0), 1.0));
    place.image("nan.nii.gz", &Volume::filled(grid([4, 4, 4], 1.0), f32::NAN));
    let before = place.names();
    for (line, parts) in [
        (
            "labels.nii.gz --label 7 -o a.gii",
            &["no label 7", "there are 3, 4", "labels.nii.gz"][..],
        ),
        ("image.nii.gz --label 3 -o a.gii", &["image.nii.gz"]),
        ("image.nii.gz --level 500 -o a.gii", &["-50 to 350", "--level", "500"]),
        ("image.nii.gz --level -60 -o a.gii", &["all of the image", "--level"]),
        ("image.nii.gz --level -60 --below -o a.gii", &["-50 to 350", "at most"]),
        ("nan.nii.gz --level 0 -o a.gii", &["no finite value"]),
        ("flat.nii.gz --level 0.5 -o a.gii", &["two dimensions", "flat.nii.gz"]),
        ("labels.nii.gz --label 4 --sigma 40 -o a.gii", &["nothing is left", "--sigma"]),
        ("labels.nii.gz -o a.gii", &["--label", "--level"]),
        ("labels.nii.gz --label 3 --level 1 -o a.gii", &["cannot be used with"]),
        ("labels.nii.gz --label 3 -o a.nii.gz", &["a.nii.gz", "mesh"]),
        ("labels.nii.gz --label 3 -o a.tck", &["streamlines"]),
        ("labels.nii.gz --label 3 -o none/a.gii", &["none", "create it"]),
        ("labels.nii.gz --label 3 --space lps -o a.gii", &["--space", "GIFTI"]),
        ("labels.nii.gz --label 3 --keep 0 -o a.gii", &["--keep"]),
        ("missing.nii.gz --label 3 -o a.gii", &["missing.nii.gz"]),
        ("labels.nii.gz --label 3", &["-o MESH"]),
    ] {
        let run = place.line(&format!("surface {line}")).expect(2);
        let lines = run.err.lines().filter(|l| l.contains("error:")).count();
        assert_eq!(lines, 1, "{line}: {}", run.err);
        run.says(parts);
        assert_eq!(place.names(), before, "{line}");
    }
    // An input is never overwritten, by the record neither.
    place.write("b.gii.json", "x");
    place.write("job.toml", "label = 3\n");
    fs::copy(place.path("labels.nii.gz"), place.path("c.gii")).unwrap();
    place.line("surface c.gii --label 3 -o c.gii").expect(2);
    fs::copy(place.path("job.toml"), place.path("d.gii.json")).unwrap();
    let run = place.line("surface labels.nii.gz --config d.gii.json -o d.gii").expect(2);
    run.says(&["both an input and an output"]);
    assert!(!place.path("d.gii").exists());
}

/// The file in docs/ names every option, and gives the defaults.
#[test]
fn the_documented_configuration_is_complete_and_the_default() {
    let (place, _) = place();
    let text = include_str!("../../../../docs/surface.toml");
    let help = place.line("surface --help").expect(0).out;
    let options = help.lines().filter_map(|l| {
        let line = l.trim_start();
        let short = ["-o, ", "-q, ", "-v, "].iter().find_map(|s| line.strip_prefix(s));
        short.unwrap_or(line).strip_prefix("--")?.split([' ', ',']).next()
    });
    for option in options.filter(|o| !["config", "help", "version"].contains(o)) {
        assert!(text.contains(&format!("{option} = ")), "{option} is not in docs/surface.toml");
    }
    place.write("all.toml", text);
    place.line("surface labels.nii.gz --label 3 -o a.vtp -q").expect(0);
    place.line("surface labels.nii.gz --label 3 -o b.vtp --config all.toml").expect(0);
    assert_eq!(record(&place, "a.vtp")["parameters"], record(&place, "b.vtp")["parameters"]);
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(bytes("a.vtp") == bytes("b.vtp"));
}

/// The folder of real images, where it is there.
fn real() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("VOXALIGN_TEST_DATA").map_or_else(beside, PathBuf::from);
    let found = folder.join("brains_oasis_miccai2012").is_dir();
    if !found {
        assert!(std::env::var_os("VOXALIGN_REQUIRE_DATA").is_none(), "no {}", folder.display());
    }
    found.then_some(folder)
}

#[test]
fn structures_of_real_brains() {
    let Some(folder) = real() else {
        println!("skipped: no real images");
        return;
    };
    let place = Place::new();
    let labels = folder.join("brains_oasis_miccai2012/1000_glm.nii.gz").display().to_string();
    for (label, name) in [("48", "hippocampus_L"), ("52", "latventricle_L"), ("60", "thalamus_L")] {
        let out = format!("{name}.gii");
        place.run(&["surface", &labels, "--label", label, "-o", &out, "-q"]).expect(0);
        let found = mesh(&place, &out);
        assert!(Figures::of(&found).unwrap().is_closed_manifold(), "{name}");
        // The same structure, by marching cubes of smoothed labels.
        let other = folder.join(format!("meshes_derived_oasis/1000_{name}.surf.gii"));
        let (other, _) = read(other, &ReadOptions::default()).unwrap();
        let scores = voxalign::register::compare::compare_meshes(&found, &other).unwrap();
        assert!(scores.mean < 0.3 && scores.p95 < 0.8, "{name}: {scores:?}");
    }
}
