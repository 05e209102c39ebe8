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
    let half = |x: usize, _: usize, _: usize| if x < 4 { 1.0 } else { 0.0 };
    place.image("flat.nii.gz", &Volume::from_fn(grid([9, 8, 1], 1.0), half));
    place.labels("flatter.nii.gz", &Volume::filled(grid([9, 8, 1], 1.0), 1));
    place.labels("empty.nii.gz", &Volume::filled(grid([5, 5, 5], 1.0), 0));
    place.image("nan.nii.gz", &Volume::filled(grid([4, 4, 4], 1.0), f32::NAN));
    // So far away that places are no numbers.
    let header = "ObjectType = Image\nNDims = 3\nDimSize = 4 4 4\nElementType = MET_UCHAR\n\
                  ElementSpacing = 1 1 1\nOffset = 0 1e308 0\nBinaryData = True\nElementDataFile = LOCAL\n";
    let voxels = (0..64).map(|i| if matches!(i, 21 | 22) { '\u{1}' } else { '\0' });
    place.write("far.mha", &voxels.fold(header.to_owned(), |text, v| text + &v.to_string()));
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
        ("far.mha --label 1 -o a.gii", &["far.mha", "not finite"]),
        ("far.mha --each -o out", &["far.mha", "not finite"]),
        ("flat.nii.gz --level 0.5 -o a.gii", &["2D image", "a.gii", ".vtk"]),
        ("flatter.nii.gz --label 1 -o a.vtk --keep 0.5", &["2D image", "--keep"]),
        ("labels.nii.gz --each --label 3,7 -o out", &["no label 7", "there are 3, 4"]),
        ("labels.nii.gz --each --level 3 -o out", &["--each is for labels"]),
        ("labels.nii.gz --each -o labels.nii.gz", &["labels.nii.gz", "is a file"]),
        ("labels.nii.gz --each --format tck -o out", &["--format", "'tck'"]),
        ("labels.nii.gz --each --space lps -o out", &["--space", "--format"]),
        ("labels.nii.gz --each --label-names none.csv -o out", &["none.csv"]),
        ("labels.nii.gz --each", &["-o DIR"]),
        ("labels.nii.gz --label 3 --format vtk -o a.vtk", &["--format is for --each"]),
        ("empty.nii.gz --each -o out", &["no label but 0"]),
        ("labels.nii.gz --label 4 --sigma 40 -o a.gii", &["nothing is left", "--sigma"]),
        ("labels.nii.gz -o a.gii", &["--label", "--level"]),
        ("labels.nii.gz --label 3 --level 1 -o a.gii", &["both --label and --level"]),
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

#[test]
fn each_label_gets_a_mesh_in_a_folder_with_one_record() {
    let (place, [large, small]) = place();
    place.write("names.csv", "number,name\n3,Large ball/left\n4,Small\n9,None\n");
    let how = "--each --label-names names.csv --report --keep 0.5";
    let run = place.line(&format!("surface labels.nii.gz -o out {how}")).expect(0);
    assert!(
        run.out.contains("verdict: good") && run.out.contains("Large ball/left"),
        "{}",
        run.out
    );
    let files = ["label_3_Large_ball_left.gii", "label_4_Small.gii"];
    let folder = crate::common::names(&place.path("out"));
    assert_eq!(folder, [files[0], files[1], "report.html", "result.json"]);
    let said: Value =
        serde_json::from_str(&fs::read_to_string(place.path("out/result.json")).unwrap()).unwrap();
    for (i, (file, centre, radius)) in
        [(files[0], large, 9.0f64), (files[1], small, 5.0)].into_iter().enumerate()
    {
        let found = mesh(&place, &format!("out/{file}"));
        let of = Figures::of(&found).unwrap();
        assert!(of.is_closed_manifold());
        let ball = 4.0 / 3.0 * std::f64::consts::PI * radius.powi(3);
        assert!((of.volume_mm3.unwrap() / ball - 1.0).abs() < 0.1);
        let [low, high] = found.bounds().unwrap();
        assert!(((low + high) / 2.0 - centre).norm() < 1.0);
        let one = &said["surfaces"][i];
        assert_eq!((&one["label"], &one["file"]), (&(i + 3).into(), &file.into()));
        assert_eq!(one["surface"]["triangles"], found.faces().len());
        // The bits of the command for one.
        let single = format!("surface labels.nii.gz --label {} -o one.gii --keep 0.5 -q", i + 3);
        place.line(&single).expect(0);
        let bytes = |name: &str| fs::read(place.path(name)).unwrap();
        assert!(bytes("one.gii") == bytes(&format!("out/{file}")));
    }
    assert_eq!(said["parameters"]["label"], serde_json::json!([3, 4]));
    assert_eq!(said["outputs"].as_array().unwrap().len(), 4);
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    for part in
        ["Surfaces of 2 labels of labels.nii.gz", "fig-3d", "fig-sections", "Large ball/left"]
    {
        assert!(page.contains(part), "{part}");
    }
    // Of some, in another format, over the older result, whose report goes; a dry run says the same.
    let line = "surface labels.nii.gz --each --label 4 --format surf.gii -o out";
    let plan = place.line(&format!("{line} --dry-run")).expect(0);
    assert!(plan.out.contains("label_4.surf.gii") && !plan.out.contains("label_3"), "{}", plan.out);
    let json = place.line(&format!("{line} --json")).expect(0).json();
    assert_eq!(json["surfaces"].as_array().unwrap().len(), 1);
    let folder = crate::common::names(&place.path("out"));
    assert_eq!(folder, [files[0], "label_4.surf.gii", files[1], "result.json"]);
    // A bad one makes all bad, and is named.
    let bad = place.line("surface labels.nii.gz --each --sigma 2 -o soft").expect(1);
    assert!(
        bad.out.contains("label's volume (none allowed)") && bad.out.contains(": 4"),
        "{}",
        bad.out
    );
    // An input in the folder is not overwritten.
    fs::copy(place.path("labels.nii.gz"), place.path("out/label_3.gii")).unwrap();
    let before = place.names();
    let run = place.line("surface out/label_3.gii --each -o out").expect(2);
    assert_eq!(run.err.lines().filter(|l| l.contains("error:")).count(), 1);
    assert_eq!(place.names(), before);
}

#[test]
fn labels_of_two_dimensions_have_outlines() {
    let place = Place::new();
    let flat = grid([64, 60, 1], 0.5);
    let centre = flat.centre();
    let disc = Volume::from_fn(flat.clone(), |x, y, _| {
        let at = flat.index_to_world(Vector3::new(x as f64, y as f64, 0.0));
        let far = (at - centre).norm();
        i32::from(far <= 10.0) + i32::from(far <= 5.0)
    });
    place.labels("disc.nii.gz", &disc);
    place.image("disc_image.nii.gz", &disc.map(|&l| l as f32));
    // A ring, and a disc within it.
    let run = place.line("surface disc.nii.gz --label 1 -o ring.vtk --report").expect(0);
    assert!(run.out.contains("length, mm") && run.out.contains("1 of them a hole"), "{}", run.out);
    let pi = std::f64::consts::PI;
    let said = record(&place, "ring.vtk");
    let value = |part: &str, key: &str| said[part][key].as_f64().unwrap();
    assert!((value("surface", "length_mm") / (30.0 * pi) - 1.0).abs() < 0.03, "{said}");
    assert!((value("surface", "area_mm2") / (75.0 * pi) - 1.0).abs() < 0.03, "{said}");
    assert!((value("object", "area_mm2") / (75.0 * pi) - 1.0).abs() < 0.03, "{said}");
    assert_eq!(
        (&said["surface"]["components"], &said["surface"]["cavities"]),
        (&2.into(), &1.into())
    );
    let page = fs::read_to_string(place.path("ring.vtk.html")).unwrap();
    for part in ["fig-3d", "fig-sections", "Length, mm"] {
        assert!(page.contains(part), "{part}");
    }
    // The lines go round with the inside on their left.
    let found = mesh(&place, "ring.vtk");
    let area = |line: &[u32]| -> f64 {
        let at = |i: u32| found.vertices()[i as usize] - centre;
        line.windows(2).map(|s| at(s[0])[0] * at(s[1])[1] - at(s[0])[1] * at(s[1])[0]).sum::<f64>()
            / 2.0
    };
    let areas: Vec<f64> = found.lines().map(area).collect();
    assert!(areas.len() == 2 && areas[0] > 250.0 && areas[1] < -60.0, "{areas:?}");
    // Filled, of both labels, of an image, smoothed, and of each.
    place.line("surface disc.nii.gz --label 1 --fill-holes -o full.vtp -q").expect(0);
    assert_eq!(record(&place, "full.vtp")["surface"]["components"], 1);
    place.line("surface disc_image.nii.gz --level 1.5 --sigma 0.5 -o soft.ply -q").expect(0);
    let inner = record(&place, "soft.ply")["surface"]["length_mm"].as_f64().unwrap();
    assert!((inner / (10.0 * pi) - 1.0).abs() < 0.04, "{inner}");
    let run = place.line("surface disc.nii.gz --each -o out --report").expect(0);
    assert!(run.out.contains("length, mm"), "{}", run.out);
    let files = ["label_1.vtk", "label_2.vtk", "report.html", "result.json"];
    assert_eq!(crate::common::names(&place.path("out")), files);
    place
        .line("surface disc.nii.gz --each --format stl -o stl")
        .expect(2)
        .says(&["label_1.stl", "lines"]);
    assert!(!place.path("stl").exists());
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
