//! Segmentations: every force and start, the files, the same bits, real images.

use crate::common::{Place, grid};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, LabelMap, Matrix3, Vector3, Volume};
use voxalign_io::image::{read_labels, read_volume};
use voxalign_io::mesh::{ReadOptions, read};

/// A number between -1 and 1 for each voxel, the same every time.
fn noise(voxel: usize) -> f32 {
    let mut z = (voxel as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z >> 40) as f32 / (1u64 << 23) as f32) - 1.0
}

/// An oblique, flipped grid of 1.5 x 1 x 2 mm.
pub(crate) fn oblique() -> Grid {
    let (s, c) = 0.3f64.sin_cos();
    let turn = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0);
    let matrix = turn * Matrix3::from_diagonal(&Vector3::new(-1.5, 1.0, 2.0));
    Grid::new([24, 30, 16], Affine::new(matrix, Vector3::new(12.0, -30.0, 5.0))).unwrap()
}

/// A ball of 9 mm, of 100 in 20 with noise: the image, and what is inside.
fn ball(grid: &Grid) -> (Volume<f32>, Vec<bool>) {
    let centre = grid.centre();
    let [nx, ny, _] = grid.dims();
    let inside = |x: usize, y: usize, z: usize| {
        let at = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        (at - centre).norm() <= 9.0
    };
    let image = Volume::from_fn(grid.clone(), |x, y, z| {
        let value = if inside(x, y, z) { 100.0 } else { 20.0 };
        value + 15.0 * noise(x + nx * (y + ny * z))
    });
    let all = Volume::from_fn(grid.clone(), inside);
    (image, all.into_parts().1)
}

/// A place with `ball.nii.gz`, in an oblique grid, and `disc.nii.gz`, of one plane.
fn place() -> (Place, [Vec<bool>; 2]) {
    let place = Place::new();
    let (image, inside) = ball(&oblique());
    place.image("ball.nii.gz", &image);
    let (flat, disc) = ball(&grid([48, 44, 1], 0.7));
    place.image("disc.nii.gz", &flat);
    (place, [inside, disc])
}

fn record(place: &Place, folder: &str) -> Value {
    let path = place.path(&format!("{folder}/result.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn labels(place: &Place, folder: &str) -> LabelMap {
    read_labels(place.path(&format!("{folder}/labels.nii.gz"))).unwrap()
}

/// The overlap of what has a label and what is inside.
fn dice(labels: &LabelMap, inside: &[bool]) -> f64 {
    let both = labels.data().iter().zip(inside).filter(|(l, i)| **l == 1 && **i).count();
    let all =
        labels.data().iter().filter(|l| **l == 1).count() + inside.iter().filter(|i| **i).count();
    2.0 * both as f64 / all as f64
}

#[test]
fn a_ball_is_found_where_it_is() {
    let (place, [inside, _]) = place();
    let run = place.line("segment ball.nii.gz -o out").expect(0);
    for part in ["verdict: good", "volume, ml", "background", "at rest", "bound 64"] {
        assert!(run.out.contains(part), "{part}: {}", run.out);
    }
    let files = [
        "evolution.png",
        "labels.nii.gz",
        "labels.seg.nrrd",
        "labels.txt",
        "report.html",
        "result.json",
        "surface.gii",
    ];
    assert_eq!(crate::common::names(&place.path("out")), files);
    let found = labels(&place, "out");
    assert!(dice(&found, &inside) > 0.99, "{}", dice(&found, &inside));
    // The geometry is that of the image, whose grid is oblique.
    let image = read_volume(place.path("ball.nii.gz")).unwrap();
    assert!(found.grid().approx_eq(image.grid(), 1e-4));
    let (mesh, _) = read(place.path("out/surface.gii"), &ReadOptions::default()).unwrap();
    let far = mesh.vertices().iter().map(|v| ((v - image.grid().centre()).norm() - 9.0).abs());
    assert!(far.fold(0.0, f64::max) < 2.5);
    // Our own program reads what it wrote.
    for file in ["out/labels.nii.gz", "out/surface.gii"] {
        let info = place.line(&format!("info {file} --json")).expect(0);
        assert!(info.out.contains("24") || info.out.contains("triangles"), "{}", info.out);
    }

    let said = record(&place, "out");
    let region = &said["regions"][1];
    let voxels = found.data().iter().filter(|l| **l == 1).count();
    assert_eq!(region["voxels"], voxels);
    let volume = voxels as f64 * 3.0;
    assert!((region["volume_mm3"].as_f64().unwrap() / volume - 1.0).abs() < 1e-6);
    assert!((region["mean"].as_f64().unwrap() - 100.0).abs() < 3.0);
    assert_eq!((&region["at_border"], &region["parts"]), (&false.into(), &1.into()));
    assert_eq!((&said["start"]["bound"], &said["ending"]), (&64.into(), &"steady".into()));
    let steps = said["iterations"].as_u64().unwrap() as usize;
    assert!((2..64).contains(&steps), "{steps}");
    for list in ["size", "inner", "outer", "energy", "inwards", "outwards"] {
        assert_eq!(said["history"][list].as_array().unwrap().len(), steps + 1, "{list}");
    }
    assert!(region["evidence"]["edge"].as_f64().unwrap() > 2.0, "{region}");
    assert!(said["agreement"].as_f64().unwrap() > 0.98);
    let parameters = &said["parameters"];
    for (name, value) in [
        ("force", Value::from("chan-vese")),
        ("curvature", 1.0.into()),
        ("object", "brighter".into()),
        ("init", "dense".into()),
        ("init_size", 4.0.into()),
        ("connectivity", 6.into()),
        ("sigma", 3.0.into()),
        ("iterations", "auto".into()),
    ] {
        match (parameters[name].as_f64(), value.as_f64()) {
            // Spacings are of single precision in the file.
            (Some(found), Some(value)) => assert!((found - value).abs() < 1e-6, "{name}: {found}"),
            _ => assert_eq!(parameters[name], value, "{name}: {parameters}"),
        }
    }
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    for part in ["fig-evolution", "fig-course", "fig-3d", "fig-sections", "ball.nii.gz", "Otsu"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_flat_image_has_areas_and_outlines() {
    let (place, [_, disc]) = place();
    let run = place.line("segment disc.nii.gz -o out --connectivity 4").expect(0);
    assert!(run.out.contains("area, mm²"), "{}", run.out);
    let files = [
        "evolution.png",
        "labels.nii.gz",
        "labels.seg.nrrd",
        "labels.txt",
        "outline.vtk",
        "report.html",
        "result.json",
    ];
    assert_eq!(crate::common::names(&place.path("out")), files);
    let found = labels(&place, "out");
    assert!(dice(&found, &disc) > 0.98 && found.grid().is_2d());
    let said = record(&place, "out");
    let area = std::f64::consts::PI * 81.0;
    assert!((said["regions"][1]["area_mm2"].as_f64().unwrap() / area - 1.0).abs() < 0.02);
    assert_eq!(said["start"]["bound"], 64);
    // Without surfaces and report, over the older result: those go.
    place.line("segment disc.nii.gz -o out --no-surface --no-report -q").expect(0);
    assert_eq!(
        crate::common::names(&place.path("out")),
        ["evolution.png", "labels.nii.gz", "labels.seg.nrrd", "labels.txt", "result.json"]
    );
}

/// Every force finds the ball, from where it can.
#[test]
fn every_force_has_its_use() {
    let (place, [inside, disc]) = place();
    let image = read_volume(place.path("disc.nii.gz")).unwrap();
    place.image("speed.nii.gz", &image.map(|v| v - 60.0));
    let square = |x: usize, y: usize, _: usize| {
        f32::from(u8::from((14..34).contains(&x) && (12..32).contains(&y)))
    };
    place.image("square.nii.gz", &Volume::from_fn(image.grid().clone(), square));
    for (image, line, truth, least) in [
        ("ball", "--force geodesic-regions --no-report", &inside, 0.98),
        (
            "disc",
            "--force geodesic-regions --classes 2 --object-classes 2 --curvature 0.5",
            &disc,
            0.98,
        ),
        (
            "disc",
            "--force edge --pressure 0.4 --init circle --init-size 6 --edge-sigma 1 --iterations 200",
            &disc,
            0.93,
        ),
        (
            "disc",
            "--force edge --pressure -0.4 --init box --init-size 26 --edge-sigma 1 --iterations 200",
            &disc,
            0.93,
        ),
        ("disc", "--force speed --speed speed.nii.gz", &disc, 0.97),
        ("disc", "--force chan-vese --curvature 0 --init circle --init-size 8", &disc, 0.98),
        (
            "disc",
            "--force mean-curvature --iterations 2 --init mask --initial-mask square.nii.gz",
            &disc,
            0.7,
        ),
    ] {
        let run = place.line(&format!("segment {image}.nii.gz -o out {line}"));
        assert!(run.code < 2, "{line}: {}", run.err);
        let found = dice(&labels(&place, "out"), truth);
        println!(
            "{line}: Dice {found:.4}, {}",
            run.out.lines().find(|l| l.starts_with("verdict")).unwrap()
        );
        assert!(found > least, "{line}: {found}\n{}", run.out);
        // A front that shrinks stops a pixel inside of the edge, which the verdict sees.
        let verdict =
            if line.contains("--pressure -0.4") { "verdict: bad" } else { "verdict: good" };
        assert!(run.out.contains(verdict), "{line}\n{}", run.out);
    }
}

/// Every start, and what the record says of it.
#[test]
fn every_start_is_one() {
    let (place, [_, disc]) = place();
    let mask = |x: usize, _: usize, _: usize| f32::from(u8::from(x < 30));
    let grid = read_volume(place.path("disc.nii.gz")).unwrap().grid().clone();
    place.image("left.nii.gz", &Volume::from_fn(grid, mask));
    for (line, kind, bound) in [
        ("--init dense --init-size 6", "dense", Some(36)),
        ("--init-shape ball --init-size 5 --init-spacing 9", "dense", None),
        ("--init-shape box --init-size 3", "dense", None),
        ("--init circle --init-centre 0,0 --init-size 10", "circle", None),
        ("--init box --init-size 9", "box", None),
        ("--init mask --initial-mask left.nii.gz", "mask", None),
        ("--connectivity 8 --init-size 4", "dense", None),
        ("--prior-mask left.nii.gz", "dense", None),
        ("--smooth 2 --smooth-every 3 --sigma 2.1", "dense", Some(64)),
    ] {
        let run = place.line(&format!("segment disc.nii.gz -o out {line} --no-surface"));
        assert!(run.code < 2, "{line}: {}", run.err);
        let said = record(&place, "out");
        assert_eq!(said["start"]["kind"], kind, "{line}");
        let found = said["start"]["bound"].as_u64().unwrap();
        assert!(bound.is_none_or(|b| b == found), "{line}: {found}");
        assert!(said["iterations"].as_u64().unwrap() <= said["limit"].as_u64().unwrap());
        let found = dice(&labels(&place, "out"), &disc);
        // Smoothing alone makes a disc smaller.
        let least = if line.contains("--smooth") { 0.94 } else { 0.97 };
        assert!(found > least, "{line}: {found}\n{}", run.out);
        let dense = kind == "dense";
        assert_eq!(said["agreement"].is_number(), dense, "{line}");
    }
    let darker = place.line("segment disc.nii.gz -o out --object darker").expect(0);
    assert!(darker.out.contains("reaches the border"), "{}", darker.out);
    let outside: Vec<bool> = disc.iter().map(|d| !d).collect();
    assert!(dice(&labels(&place, "out"), &outside) > 0.97);
}

/// Several regions at once, by their means and by their classes.
#[test]
fn several_regions_are_ordered_by_their_means() {
    let place = Place::new();
    let grid = grid([60, 60, 1], 1.0);
    let truth = |x: usize| (x / 20 + 2) % 3;
    let image = Volume::from_fn(grid, |x, y, _| 50.0 * truth(x) as f32 + 8.0 * noise(x + 60 * y));
    place.image("stripes.nii.gz", &image);
    place.write("names.csv", "number,name\n1,middle\n2,bright\n");
    for force in ["chan-vese", "geodesic-regions"] {
        let line = format!(
            "segment stripes.nii.gz -o out --regions 3 --force {force} --label-names names.csv"
        );
        let run = place.line(&line).expect(0);
        assert!(run.out.contains("2 bright"), "{}", run.out);
        let files = [
            "evolution.png",
            "labels.nii.gz",
            "labels.seg.nrrd",
            "labels.txt",
            "outline_1.vtk",
            "outline_2.vtk",
            "report.html",
            "result.json",
        ];
        assert_eq!(crate::common::names(&place.path("out")), files);
        let found = labels(&place, "out");
        let wrong = (0..3600).filter(|p| found.data()[*p] != truth(p % 60) as i32).count();
        assert!(wrong < 36, "{force}: {wrong}");
        let said = record(&place, "out");
        let means: Vec<f64> = said["regions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r["mean"].as_f64().unwrap())
            .collect();
        assert!(means.windows(2).all(|w| w[0] < w[1]), "{means:?}");
        assert_eq!(said["regions"][1]["name"], "middle");
        assert_eq!(said["classes"].is_array(), force == "geodesic-regions");
    }
}

#[test]
fn results_are_tidied() {
    let place = Place::new();
    // A ring with a speck within and one outside.
    let ring = |x: usize, y: usize| {
        let far = ((x as f64 - 20.0).powi(2) + (y as f64 - 18.0).powi(2)).sqrt();
        (7.0..13.0).contains(&far)
            || (x.abs_diff(20) < 2 && y.abs_diff(18) < 2)
            || (x > 37 && y > 33)
    };
    let image =
        Volume::from_fn(grid([41, 37, 1], 2.0), |x, y, _| if ring(x, y) { 9.0 } else { 1.0 });
    place.image("ring.nii.gz", &image);
    let tidied = |options: &str| {
        let line =
            format!("segment ring.nii.gz -o out --curvature 0 --no-report --no-surface {options}");
        let run = place.line(&line);
        assert!(run.code < 2, "{}", run.err);
        record(&place, "out")
    };
    let plain = tidied("");
    assert_eq!((&plain["tidied"], &plain["regions"][1]["parts"]), (&Value::Null, &3.into()));
    let small = tidied("--smallest-island 40");
    assert_eq!(
        (&small["tidied"]["parts_removed"], &small["regions"][1]["parts"]),
        (&2.into(), &1.into())
    );
    let filled = tidied("--fill-holes --largest-component");
    assert!(filled["tidied"]["voxels_filled"].as_u64().unwrap() > 100, "{filled}");
    assert_eq!(filled["regions"][1]["parts"], 1);
}

/// The same voxels for any number of threads, and by a configuration file.
#[test]
fn results_have_the_same_bits() {
    let (place, _) = place();
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    for (line, image) in [
        ("--smooth 1", "ball"),
        ("--force geodesic-regions", "disc"),
        ("--regions 3", "disc"),
        ("--preset bone --bone-threshold 60", "ball"),
    ] {
        for threads in [1, 2] {
            let line = format!("segment {image}.nii.gz -o {threads} {line} --threads {threads} -q");
            assert!(place.line(&line).code < 2);
        }
        assert!(bytes("1/labels.nii.gz") == bytes("2/labels.nii.gz"), "{line}");
        for part in ["regions", "history", "parameters", "verdict"] {
            assert_eq!(record(&place, "1")[part], record(&place, "2")[part], "{line}");
        }
        fs::remove_dir_all(place.path("1")).unwrap();
        fs::remove_dir_all(place.path("2")).unwrap();
    }
    place.write(
        "job.toml",
        "image = 'disc.nii.gz'\nforce = 'geodesic-regions'\nobject-classes = [1]\nreport = false\n",
    );
    let json = place.line("segment --config job.toml -o a --json").expect(0).json();
    assert_eq!(json, record(&place, "a"));
    assert_eq!(json["inputs"][1]["role"], "config");
    place.line("segment disc.nii.gz --force geodesic-regions --object-classes 1 -o b -q").expect(0);
    assert!(bytes("a/labels.nii.gz") == bytes("b/labels.nii.gz"));
    assert_eq!(json["parameters"], record(&place, "b")["parameters"]);
    // The file in docs names every option, and gives the defaults.
    let text = include_str!("../../../../docs/segment.toml");
    place.write("all.toml", text);
    for name in ["c", "d"] {
        let config = if name == "d" { "--config all.toml" } else { "" };
        place.line(&format!("segment disc.nii.gz -o {name} -q {config}")).expect(0);
    }
    assert!(bytes("c/labels.nii.gz") == bytes("d/labels.nii.gz"));
    assert_eq!(record(&place, "c")["parameters"], record(&place, "d")["parameters"]);
}

/// Noise has no regions, which the verdict says.
#[test]
fn what_cannot_be_told_apart_is_bad() {
    let place = Place::new();
    let image = Volume::from_fn(grid([40, 36, 1], 1.0), |x, y, _| noise(x + 40 * y));
    place.image("noise.nii.gz", &image);
    let run = place.line("segment noise.nii.gz -o out").expect(1);
    assert!(run.out.contains("verdict: bad") && run.out.contains("try: "), "{}", run.out);
    // A front that vanishes is told in words, and has no surface.
    let line = "segment noise.nii.gz -o gone --force mean-curvature --iterations 500 --init circle --init-size 20";
    let run = place.line(line).expect(1);
    assert!(run.out.contains("the front vanished after"), "{}", run.out);
    assert_eq!(
        crate::common::names(&place.path("gone")),
        [
            "evolution.png",
            "labels.nii.gz",
            "labels.seg.nrrd",
            "labels.txt",
            "report.html",
            "result.json"
        ]
    );
    assert_eq!(record(&place, "gone")["regions"][1]["voxels"], 0);
}

/// The folder of real images, where it is there.
fn real() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("VOXALIGN_TEST_DATA").map_or_else(beside, PathBuf::from);
    let found = folder.join("atlas2d_oasis_trt20_slices").is_dir();
    if !found {
        assert!(std::env::var_os("VOXALIGN_REQUIRE_DATA").is_none(), "no {}", folder.display());
    }
    found.then_some(folder)
}

/// White matter of the template, in a part of it: as its maps of tissues have it.
#[test]
fn white_matter_of_a_template() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let place = Place::new();
    let crop = |image: &Volume<f32>| {
        let of = |x: usize, y: usize, z: usize| *image.get(30 + x, 40 + y, 40 + z).unwrap();
        Volume::from_fn(grid([40, 40, 20], 2.0), of)
    };
    let [image, tissues] = ["icbm152_t1.nii.gz", "icbm152_tissues.nii.gz"]
        .map(|name| crop(&read_volume(root.join(name)).unwrap()));
    place.image("t1.nii.gz", &image);
    let white: Vec<bool> = tissues.data().iter().map(|t| *t == 3.0).collect();
    for (line, least) in [
        ("--force geodesic-regions --classes 3 --object-classes 3 --sigma 4", 0.85),
        ("--object brighter --sigma 4", 0.7),
    ] {
        let run = place.line(&format!("segment t1.nii.gz -o out {line}"));
        assert!(run.code < 2, "{}", run.err);
        let found = dice(&labels(&place, "out"), &white);
        println!("{line}: Dice {found:.4}\n{}", run.out);
        assert!(found > least, "{line}: {found}\n{}", run.out);
    }
}

/// Slices of real brains in four regions.
#[test]
fn slices_of_real_brains() {
    let Some(folder) = real() else {
        println!("skipped: no real images");
        return;
    };
    let place = Place::new();
    let slice = folder.join("atlas2d_oasis_trt20_slices/OASIS-TRT-20-1_slice118.nii.gz");
    let slice = slice.display().to_string();
    let run = place.run(&["segment", &slice, "-o", "out", "--regions", "4"]);
    assert!(run.code < 2, "{}", run.err);
    println!("{}", run.out);
    let said = record(&place, "out");
    assert_eq!(said["regions"].as_array().unwrap().len(), 4);
    assert!(said["iterations"].as_u64().unwrap() < 200, "{said}");
    let voxels = said["regions"].as_array().unwrap().iter().map(|r| r["voxels"].as_u64().unwrap());
    assert!(voxels.min().unwrap() > 100);
    let of = read_volume(&slice).unwrap();
    assert!(labels(&place, "out").grid().approx_eq(of.grid(), 1e-3));
}

/// A line of `segment`, with its record; without the files that nobody looks at here.
fn preset(place: &Place, line: &str) -> (u8, Value) {
    let run = place.line(&format!("segment {line} -o out --no-surface --no-report"));
    assert!(run.code < 2, "{line}: {}", run.err);
    println!("{line}\n{}", run.out);
    (run.code as u8, record(place, "out"))
}

/// White matter of the template by its preset, with zeros around the brain or a mask of it; of other images the verdict is bad.
#[test]
fn white_matter_by_its_preset() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    let place = Place::new();
    let [image, tissues] = ["icbm152_t1.nii.gz", "icbm152_tissues.nii.gz"]
        .map(|name| read_volume(root.join(name)).unwrap());
    let made = |of: &dyn Fn(usize, f32) -> f32| {
        let values = image.data().iter().zip(tissues.data()).enumerate();
        let of = |(p, (v, t)): (usize, (&f32, &f32))| if *t > 0.0 { of(p, *v) } else { 0.0 };
        Volume::new(image.grid().clone(), values.map(of).collect()).unwrap()
    };
    let most = image.data().iter().copied().fold(0.0, f32::max);
    place.image("whole.nii.gz", &image);
    place.image("brain.nii.gz", &made(&|_, v| v));
    place.image("mask.nii.gz", &made(&|_, _| 1.0));
    place.image("all.nii.gz", &Volume::filled(image.grid().clone(), 1.0));
    place.image("inverted.nii.gz", &made(&|_, v| most * 1.05 - v));
    place.image(
        "noise.nii.gz",
        &made(&|p, _| 1000.0 + 300.0 * (noise(p) + noise(p + 1) * noise(p + 7))),
    );
    let white: Vec<bool> = tissues.data().iter().map(|t| *t == 3.0).collect();
    let (code, said) = preset(&place, "brain.nii.gz --preset white-matter");
    let found = labels(&place, "out");
    assert!(dice(&found, &white) > 0.85, "{}", dice(&found, &white));
    assert_eq!(code, 0, "{said}");
    assert_eq!(said["classes"].as_array().unwrap().len(), 4);
    assert_eq!(
        (&said["force"], &said["parameters"]["preset"]),
        (&said["preset"]["name"], &said["force"])
    );
    assert_eq!(said["regions"][1]["name"], "white matter");
    let (code, by_mask) =
        preset(&place, "whole.nii.gz --preset white-matter --prior-mask mask.nii.gz");
    assert_eq!((code, &by_mask["regions"][1]["voxels"]), (0, &said["regions"][1]["voxels"]));
    // What is tidied or smoothed is of the same brain, and its connection was measured before.
    let (code, tidied) =
        preset(&place, "brain.nii.gz --preset white-matter --largest-component --smooth 2");
    let found = labels(&place, "out");
    assert_eq!((code, &tidied["regions"][1]["parts"]), (0, &Value::from(1)));
    // A front that repeats does so after whole rounds of five iterations and a smoothing.
    assert_eq!(tidied["ending"], "repeating");
    assert_eq!(tidied["period"].as_u64().unwrap() % 5, 0, "{tidied}");
    assert!(tidied["preset"]["largest"].as_f64().unwrap() < 1.0, "{tidied}");
    assert!(found.data().iter().zip(tissues.data()).all(|(l, t)| *l == 0 || *t > 0.0));
    for wrong in ["inverted", "noise"] {
        let (code, said) = preset(&place, &format!("{wrong}.nii.gz --preset white-matter"));
        assert_eq!(code, 1, "{said}");
    }
    let (code, said) = preset(&place, "brain.nii.gz --preset bone --bone-threshold 200");
    assert!(code == 1 && said["verdict"].to_string().contains("darkest hundredth"), "{said}");
    for (line, part) in [
        ("whole.nii.gz --preset bone --force edge", "--force: --preset bone has"),
        ("brain.nii.gz --preset white-matter --bone-threshold 200", "--bone-threshold is for"),
        ("brain.nii.gz --preset white-matter-head --connectivity 6", "slice by slice; give 4 or 8"),
        ("mask.nii.gz --preset white-matter", "different values"),
        (
            "brain.nii.gz --preset white-matter --prior-mask all.nii.gz",
            "voxels are 0 or less in the image",
        ),
    ] {
        let run = place.line(&format!("segment {line} -o none"));
        assert_eq!(run.code, 2, "{line}: {}", run.out);
        assert!(run.err.contains(part), "{line}: {}", run.err);
        assert!(!place.path("none").exists());
    }
}

/// Bone of a real CT with noise; white matter of a real brain and of a whole head, whatever its orientation.
#[test]
fn presets_of_real_images() {
    let Some(folder) = real() else {
        println!("skipped: no real images");
        return;
    };
    let place = Place::new();
    let brains = folder.join("brains_oasis_miccai2012");
    // Every second voxel of a brain.
    let half = |name: &str| {
        let image = read_volume(brains.join(name)).unwrap();
        let grid = image.grid();
        let dims = grid.dims().map(|n| n / 2);
        let world = grid.to_world();
        let thin = Grid::new(dims, Affine::new(world.matrix * 2.0, world.offset)).unwrap();
        Volume::from_fn(thin, |x, y, z| *image.get(2 * x, 2 * y, 2 * z).unwrap())
    };
    place.image("brain.nii.gz", &half("1001_SS.nii.gz"));
    let white: Vec<bool> = half("1001_tissues.nii.gz").data().iter().map(|t| *t == 3.0).collect();
    let (code, said) = preset(&place, "brain.nii.gz --preset white-matter");
    assert!(dice(&labels(&place, "out"), &white) > 0.9);
    assert_eq!(code, 0, "{said}");
    // A head, and the same with its axes in another order and one of them reversed.
    let head = read_volume(brains.join("1000_fullhead_2mm.nii.gz")).unwrap();
    place.image("head.nii.gz", &head);
    let [nx, ny, nz] = head.dims();
    let turn = Matrix3::new(0.0, 1.0, 0.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0);
    let world = head.grid().to_world();
    let last = head.grid().index_to_world(Vector3::new(0.0, 0.0, nz as f64 - 1.0));
    let turned = Grid::new([nz, nx, ny], Affine::new(world.matrix * turn, last)).unwrap();
    let of = |x: usize, y: usize, z: usize| *head.get(y, z, nz - 1 - x).unwrap();
    place.image("turned.nii.gz", &Volume::from_fn(turned, of));
    let voxels = ["head", "turned"].map(|name| {
        let (code, said) = preset(&place, &format!("{name}.nii.gz --preset white-matter-head"));
        assert_eq!(code, 0, "{said}");
        let volume = said["regions"][1]["volume_ml"].as_f64().unwrap();
        assert!((400.0..600.0).contains(&volume) && said["regions"][1]["parts"] == 1, "{volume}");
        said["regions"][1]["voxels"].as_u64().unwrap()
    });
    assert_eq!(voxels[0], voxels[1]);
    // Slices of a head CT, with noise and without: against the threshold of the one without.
    let ct = read_volume(folder.join("ct_head_invesalius/cranium_ct.nii.gz")).unwrap();
    let [nx, ny, nz] = ct.dims();
    let part = Grid::new([nx, ny, nz / 3], *ct.grid().to_world()).unwrap();
    let of = |x, y, z| *ct.get(x, y, z + nz / 3).unwrap();
    let clean = Volume::from_fn(part, of);
    let noisy = |p: usize, v: f32| v + 100.0 * 1.73 * noise(p);
    let values = clean.data().iter().enumerate().map(|(p, v)| noisy(p, *v));
    place.image("ct.nii.gz", &Volume::new(clean.grid().clone(), values.collect()).unwrap());
    let bone: Vec<bool> = clean.data().iter().map(|v| *v > 300.0).collect();
    let (code, said) = preset(&place, "ct.nii.gz --preset bone");
    assert_eq!(code, 0, "{said}");
    let found = dice(&labels(&place, "out"), &bone);
    assert!(found > 0.95, "{found}");
    let noise = said["preset"]["noise"].as_f64().unwrap();
    assert!((90.0..125.0).contains(&noise), "{noise}");
    let (code, _) = preset(&place, "head.nii.gz --preset bone");
    assert_eq!(code, 1);
}
