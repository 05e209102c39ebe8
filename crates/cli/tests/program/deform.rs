//! A deformable registration from files to files.

use crate::common::{Place, names};
use serde_json::Value;
use std::fs;
use voxalign_image::{LabelMap, Vector3, Volume};
use voxalign_io::image::{WriteOptions, read_info, read_labels, read_volume, write_volume};
use voxalign_io::transform::{Geometry, read};

/// What is written where nothing is said.
pub(crate) const FILES: [&str; 7] = [
    "affine.fsl.mat",
    "affine.tfm",
    "inverse_warp.nii.gz",
    "report.html",
    "result.json",
    "warp.nii.gz",
    "warped.nii.gz",
];

pub(crate) const ALL_FILES: [&str; 10] = [
    "affine.fsl.mat",
    "affine.tfm",
    "composite.nii.gz",
    "inverse_composite.nii.gz",
    "inverse_warp.nii.gz",
    "jacobian.nii.gz",
    "report.html",
    "result.json",
    "warp.nii.gz",
    "warped.nii.gz",
];

/// A schedule that is short.
pub(crate) const FAST: &str = "--schedule 4x20,2x5";

pub(crate) fn record(place: &Place, folder: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(folder).join("result.json")).unwrap()).unwrap()
}

/// The shipped template and brain, on which the tests register.
pub(crate) fn shipped(place: &Place) {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/");
    for (from, to) in [
        ("icbm152_t1.nii.gz", "fixed.nii.gz"),
        ("colin27_brain.nii.gz", "moving.nii.gz"),
        ("icbm152_tissues.nii.gz", "fixed_labels.nii.gz"),
        ("colin27_tissues.nii.gz", "moving_labels.nii.gz"),
    ] {
        fs::copy(format!("{data}{from}"), place.path(to)).unwrap();
    }
}

/// A bend that the pair is apart by, on top of an affine motion.
fn bent(p: Vector3<f64>) -> Vector3<f64> {
    p + Vector3::new((p[1] / 25.0).sin(), (p[2] / 22.0).cos(), (p[0] / 24.0).sin()) * 3.0
}

/// A small pair, `a.nii.gz` and `b.nii.gz`, with label maps `la.nii.gz` and `lb.nii.gz`.
pub(crate) fn small(place: &Place) {
    let grids = [crate::common::grid([40, 44, 38], 4.0), crate::common::grid([42, 40, 40], 4.0)];
    let image = |grid: &voxalign_image::Grid, bend: bool| {
        Volume::from_fn(grid.clone(), |x, y, z| {
            let world = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            crate::common::value(if bend { bent(world) } else { world })
        })
    };
    let labels = |grid: &voxalign_image::Grid, bend: bool| -> LabelMap {
        Volume::from_fn(grid.clone(), |x, y, z| {
            let world = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64));
            crate::common::region(if bend { bent(world) } else { world })
        })
    };
    place.image("a.nii.gz", &image(&grids[0], false));
    place.image("b.nii.gz", &image(&grids[1], true));
    place.labels("la.nii.gz", &labels(&grids[0], false));
    place.labels("lb.nii.gz", &labels(&grids[1], true));
}

/// Largest difference of two images, as a part of the range of the first.
pub(crate) fn apart(place: &Place, a: &str, b: &str) -> f32 {
    let [a, b] = [a, b].map(|n| read_volume(place.path(n)).unwrap());
    assert_eq!(a.dims(), b.dims());
    let values = a.data().iter();
    let (low, high) = values.fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
    let pairs = a.data().iter().zip(b.data());
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max) / (high - low)
}

#[test]
fn a_pair_is_registered_and_its_files_go_together() {
    let place = Place::new();
    shipped(&place);
    let run = place.line(&format!(
        "deform fixed.nii.gz moving.nii.gz -o new/out {FAST} --fixed-labels fixed_labels.nii.gz \
         --moving-labels moving_labels.nii.gz --outputs all"
    ));
    let run = run.expect(0);
    for part in [
        "before (affine)",
        "mean Dice of",
        "20 of 20",
        "smallest Jacobian",
        "inverse consistency",
        "in the object",
        "affine registration",
        "verdict: good",
    ] {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    assert!(run.err.contains("stage 2 of 2: 1/2"), "{}", run.err);
    let out = place.path("new/out");
    assert_eq!(names(&out), ALL_FILES);
    let record = record(&place, "new/out");
    assert_eq!(record["program"], "voxalign deform");
    assert_eq!(record["verdict"]["good"], true);
    assert_eq!(record["inputs"].as_array().unwrap().len(), 4);
    assert_eq!(record["outputs"].as_array().unwrap().len(), 10);
    assert_eq!(record["parameters"]["affine"], "auto");
    assert_eq!(record["parameters"]["solver"]["kind"], "gaussian");
    let deformation = &record["deformation"];
    assert_eq!(deformation["scales"].as_array().unwrap().len(), 2);
    assert_eq!(deformation["scales"][0]["energies"].as_array().unwrap().len(), 20);
    assert_eq!(deformation["measures"]["folded"], 0);
    // Within the object first: there volumes change, in the background they do not.
    let (grid, object) = (&deformation["measures"], &deformation["measures"]["object"]);
    let of = |of: &Value, name: &str| of[name].as_f64().unwrap();
    assert!(of(object, "log_jacobian_sd") > 1.2 * of(grid, "log_jacobian_sd"), "{grid}");
    let error = |of: &Value| of["inverse_consistency"]["mean"].as_f64().unwrap();
    assert!(error(object) > 1.5 * error(grid), "{grid}");
    assert!(object["folded"] == 0 && object["voxels"].as_u64().unwrap() > 100_000, "{object}");
    assert_eq!(deformation["affine_verdict"]["good"], true);
    let figure = |name: &str| record["figures"][name].as_f64().unwrap();
    assert!(figure("label_overlap_after") > figure("label_overlap_before") + 0.01);
    assert!(figure("ncc_after") > figure("ncc_before"));
    let html = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(html.contains("fig-energy") && html.contains("<svg"), "the report is no page");
    assert!(html.contains("In the object") && html.contains("Whole grid"));
    // Iterations are counted alike: as many as there are energies, in the order of the scales.
    let stages = html
        .split("<table class=\"stages\">")
        .nth(1)
        .and_then(|t| t.split("</table>").next())
        .unwrap();
    for scale in deformation["scales"].as_array().unwrap() {
        let count = scale["energies"].as_array().unwrap().len();
        let allowed = &scale["allowed"];
        assert!(run.out.contains(&format!("{count} of {allowed}")), "{}", run.out);
        assert!(stages.contains(&format!(">{count}<")), "{stages}");
    }

    // The files give what the registration did, as a chain and as one field, images and labels.
    place.line(
        "apply -i moving.nii.gz -r fixed.nii.gz -t new/out/warp.nii.gz -t new/out/affine.tfm \
         -o chain.nii.gz",
    );
    assert!(apart(&place, "new/out/warped.nii.gz", "chain.nii.gz") < 1e-3);
    place.line("apply -i moving.nii.gz -r fixed.nii.gz -t new/out/composite.nii.gz -o one.nii.gz");
    assert!(apart(&place, "new/out/warped.nii.gz", "one.nii.gz") < 1e-3);
    place.line(
        "apply -i moving_labels.nii.gz -r fixed.nii.gz -t new/out/warp.nii.gz -t \
         new/out/affine.tfm --interpolation label -o labels.nii.gz",
    );
    let [fixed, warped] =
        ["fixed_labels.nii.gz", "labels.nii.gz"].map(|n| read_labels(place.path(n)).unwrap());
    let same = fixed.data().iter().zip(warped.data()).filter(|(a, b)| a == b).count();
    assert!(same as f64 > 0.85 * fixed.data().len() as f64, "{same}");
    // The other way: ANTs' order, and one field on the moving grid.
    place.line(
        "apply -i fixed.nii.gz -r moving.nii.gz -t inverse:new/out/affine.tfm -t \
         new/out/inverse_warp.nii.gz -o back.nii.gz",
    );
    place.line(
        "apply -i fixed.nii.gz -r moving.nii.gz -t new/out/inverse_composite.nii.gz -o back1.nii.gz",
    );
    assert!(apart(&place, "back.nii.gz", "back1.nii.gz") < 1e-3);

    // Points there and back: exactly by the chain, nearly by the fields.
    place.write("p.csv", "x,y,z\n10,-20,15\n-30,-10,40\n25,10,5\n");
    let chain = "-t new/out/warp.nii.gz -t new/out/affine.tfm";
    place.line(&format!("apply -i p.csv {chain} --points-from fixed -o q.csv")).expect(0);
    place.line(&format!("apply -i q.csv {chain} -o r.csv")).expect(0);
    let line = "apply -i q.csv -t new/out/inverse_composite.nii.gz --points-from fixed -o s.csv";
    place.line(line).expect(0);
    let points = |name: &str| -> Vec<f64> {
        let text = fs::read_to_string(place.path(name)).unwrap();
        text.lines()
            .skip(1)
            .flat_map(|l| l.split(',').map(|v| v.parse().unwrap()).collect::<Vec<f64>>())
            .collect()
    };
    let far = |name: &str| {
        points("p.csv").iter().zip(points(name)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    assert!(
        far("q.csv") > 0.5 && far("r.csv") < 0.01 && far("s.csv") < 0.1,
        "{} {}",
        far("r.csv"),
        far("s.csv")
    );
}

#[test]
fn every_model_and_solver_runs_and_is_recorded() {
    let place = Place::new();
    small(&place);
    for (options, model, kind) in [
        ("--model symmetric --total-sigma 0 --step 0.4", "symmetric", "gaussian"),
        ("--model lddmm --time-steps 4 --similarity ssd", "lddmm", "fft"),
        ("--solver hybrid --alpha 0.02 --step-rule adaptive", "symmetric", "hybrid"),
        ("--solver cg --solver-iterations 20 --solver-tolerance 0.01", "symmetric", "cg"),
        (
            "--similarity nmi --bins 32 --no-clip --histogram-match --model greedy",
            "greedy",
            "gaussian",
        ),
    ] {
        let line = format!(
            "deform a.nii.gz b.nii.gz -o out --affine none --schedule 2x15,1x5 --convergence 0 \
             {options} --fixed-labels la.nii.gz --moving-labels lb.nii.gz"
        );
        let run = place.line(&line);
        assert!(run.code == 0 || run.code == 1, "{options}: {}{}", run.out, run.err);
        assert_eq!(names(&place.path("out")), FILES);
        let record = record(&place, "out");
        assert_eq!(record["parameters"]["model"], model);
        assert_eq!(record["parameters"]["solver"]["kind"], kind);
        assert_eq!(record["parameters"]["affine"], "none");
        assert_eq!(record["stages"].as_array().unwrap().len(), 0);
        assert_eq!(record["deformation"]["path"].is_null(), model != "lddmm");
        let figure = |name: &str| record["figures"][name].as_f64().unwrap();
        assert!(
            figure("label_overlap_after") > figure("label_overlap_before"),
            "{options}: {} to {}",
            figure("label_overlap_before"),
            figure("label_overlap_after")
        );
    }
}

#[test]
fn options_come_from_a_file_and_from_the_command_line() {
    let place = Place::new();
    small(&place);
    place.line("affine a.nii.gz b.nii.gz -o lin --no-report --quiet").expect(0);
    place.write(
        "job.toml",
        "fixed = 'a.nii.gz'\nmoving = 'b.nii.gz'\naffine = 'lin/affine.fsl.mat'\n\
         schedule = ['4x9', '2x3']\nsigma = 2\nradius = 3\nreport = false\noutside = -5\n\
         channel = [['la.nii.gz', 'lb.nii.gz', 'ssd', 0.5], ['a.nii.gz', 'b.nii.gz', 'mi', 0.1]]\n\
         fixed-mask = 'la.nii.gz'\nno-clip = true\n",
    );
    let run = place.line("deform --config job.toml -o out --sigma 2.5 --total-sigma 0.5 --quiet");
    assert!(run.code < 2, "{}", run.err);
    let mut six = FILES.to_vec();
    six.retain(|n| *n != "report.html");
    assert_eq!(names(&place.path("out")), six);
    let record = record(&place, "out");
    let parameters = &record["parameters"];
    assert_eq!(parameters["solver"]["sigma"], 2.5);
    assert_eq!(parameters["total_sigma"], 0.5);
    assert_eq!(parameters["radius"], 3);
    assert_eq!(parameters["clip"], false);
    assert_eq!(parameters["outside"], -5.0);
    assert_eq!(parameters["affine"], "lin/affine.fsl.mat");
    assert!(parameters["schedule"].as_str().unwrap().contains("x9"), "{parameters}");
    let channels = parameters["channels"].as_array().unwrap();
    assert_eq!(channels.len(), 3);
    assert_eq!((&channels[2]["similarity"], &channels[2]["weight"]), (&"mi".into(), &0.1.into()));
    let roles: Vec<_> =
        record["inputs"].as_array().unwrap().iter().map(|i| i["role"].clone()).collect();
    assert_eq!(roles.len(), 9, "{roles:?}");
    assert_eq!(roles[..3], ["fixed", "moving", "fixed_mask"]);
    assert_eq!(roles[7..], ["affine", "config"]);
    // The affine part is the one that was given.
    let none = Geometry::default();
    let at = |name: &str| read(place.path(name), &none).unwrap().to_affine().unwrap();
    let far = at("lin/affine.tfm").largest_distance(&at("out/affine.tfm"), &[Vector3::repeat(50.)]);
    assert!(far < 1e-3, "{far}");
}

#[test]
fn only_the_outputs_that_were_asked_for_are_written() {
    let place = Place::new();
    small(&place);
    let line = "deform a.nii.gz b.nii.gz -o out --affine none --schedule 4x3 --quiet";
    assert!(place.line(&format!("{line} --outputs all")).code < 2);
    assert_eq!(names(&place.path("out")), ALL_FILES);
    assert!(place.line(line).code < 2);
    assert_eq!(names(&place.path("out")), FILES);
    // The older ones of the others go, as they belong to another result.
    assert!(place.line(&format!("{line} --outputs warped,inverse-warp")).code < 2);
    let written = ["inverse_warp.nii.gz", "report.html", "result.json", "warped.nii.gz"];
    assert_eq!(names(&place.path("out")), written);
    let listed = |record: &Value| -> Vec<String> {
        let outputs = record["outputs"].as_array().unwrap().iter();
        let file = |o: &Value| o["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let mut names: Vec<_> = outputs.map(file).collect();
        names.sort();
        names
    };
    assert_eq!(listed(&record(&place, "out")), written);
    let html = fs::read_to_string(place.path("out/report.html")).unwrap();
    let files = html.split("<h3>Written</h3>").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(files.matches("<code class=\"path\">").count(), 4, "{files}");
    assert!(!files.contains("composite"), "{files}");
    place.write("job.toml", "outputs = ['affine', 'jacobian']\nreport = false\n");
    assert!(place.line(&format!("{line} --config job.toml")).code < 2);
    let written = ["affine.fsl.mat", "affine.tfm", "jacobian.nii.gz", "result.json"];
    assert_eq!(names(&place.path("out")), written);
    assert_eq!(listed(&record(&place, "out")), written);
    let bad = place.line(&format!("{line} --outputs warp,jacobi")).expect(2);
    bad.says(&["--outputs", "'jacobi' is not an output", "inverse_composite"]);
    let affine = "affine a.nii.gz b.nii.gz -o lin --no-report --quiet --outputs";
    assert!(place.line(&format!("{affine} affine")).code < 2);
    assert_eq!(names(&place.path("lin")), ["affine.fsl.mat", "affine.tfm", "result.json"]);
    place
        .line(&format!("{affine} warp"))
        .expect(2)
        .says(&["'warp' is not an output", "affine, warped"]);
}

/// What a lesion leaves out of the moving image is recorded, and said.
#[test]
fn a_moving_mask_drives_nothing_outside_of_it() {
    let place = Place::new();
    small(&place);
    let moving = read_volume(place.path("b.nii.gz")).unwrap();
    let lesion = |x: usize, y: usize, z: usize| {
        (22..28).contains(&x) && (14..20).contains(&y) && (18..24).contains(&z)
    };
    let flag = |b: bool| f32::from(u8::from(b));
    place.image(
        "mask.nii.gz",
        &Volume::from_fn(moving.grid().clone(), |x, y, z| flag(!lesion(x, y, z))),
    );
    place.image("none.nii.gz", &Volume::filled(moving.grid().clone(), 0.0));
    let line = "deform a.nii.gz b.nii.gz -o out --schedule 2x10 --moving-mask";
    let run = place.line(&format!("{line} mask.nii.gz"));
    assert!(run.code < 2, "{}", run.err);
    assert!(run.out.contains("only voxels inside the moving mask drove"), "{}", run.out);
    let record = record(&place, "out");
    let inputs = record["inputs"].as_array().unwrap();
    assert!(inputs.iter().any(|i| i["role"] == "moving_mask"), "{inputs:?}");
    let html = fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(html.contains("inside the mask of the moving image counted"));
    let said = ["'none.nii.gz'", "moving mask", "selects no voxel"];
    place.line(&format!("{line} none.nii.gz")).expect(2).says(&said);
    place.line(&format!("{line} none.nii.gz --affine none")).expect(2).says(&said);
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let place = Place::new();
    small(&place);
    let mut first = None;
    for threads in ["1", "3"] {
        let line = format!(
            "deform a.nii.gz b.nii.gz -o out{threads} --threads {threads} --affine none {FAST} \
             --no-report --quiet --outputs all"
        );
        let run = place.line(&line);
        assert!(run.out.is_empty(), "{}", run.out);
        let bytes = ["warp.nii.gz", "inverse_composite.nii.gz", "warped.nii.gz", "jacobian.nii.gz"]
            .map(|n| fs::read(place.path(&format!("out{threads}")).join(n)).unwrap());
        assert!(first.get_or_insert(bytes.clone()) == &bytes, "the files differ");
    }
}

/// Where intensities rise together they are images of one kind; where what is bright in one is dark in the other they are of two, and are compared,
/// deformed and smoothed as such, unless an option says otherwise.
#[test]
fn the_images_decide_how_they_are_compared() {
    let place = Place::new();
    small(&place);
    let image = read_volume(place.path("b.nii.gz")).unwrap();
    let top = image.data().iter().fold(0f32, |m, &v| m.max(v));
    place.image("c.nii.gz", &image.map(|&v| if v < 0.2 * top { v } else { 1.2 * top - v }));
    let found = |moving: &str, options: &str| {
        let line =
            format!("deform a.nii.gz {moving} -o out --schedule 8x2 --no-report --quiet {options}");
        let run = place.line(&line);
        let of = record(&place, "out");
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let remarks = of["verdict"]["remarks"].to_string();
        let misled = moving == "c.nii.gz" && ["--radius 3", "--similarity ssd"].contains(&options);
        assert_eq!(remarks.contains("which suits images of one kind"), misled, "{remarks}");
        let of = &of["parameters"];
        let sigma = of["solver"]["sigma"].as_f64().unwrap();
        let chosen = of["similarity_chosen"].is_object();
        (text(&of["channels"][0]["similarity"]), text(&of["model"]), sigma, chosen, run.err)
    };
    let is = |found: &(String, String, f64, bool, String), of: (&str, &str, f64, bool)| {
        assert_eq!((&*found.0, &*found.1, found.2, found.3), of, "{}", found.4);
    };
    is(&found("b.nii.gz", ""), ("lncc", "symmetric", 1.732, true));
    is(&found("c.nii.gz", "--similarity auto"), ("mapped", "symmetric", 3.0, true));
    is(&found("c.nii.gz", "--model greedy --sigma 2"), ("mapped", "greedy", 2.0, true));
    is(&found("c.nii.gz", "--radius 3"), ("lncc", "symmetric", 1.732, false));
    is(&found("b.nii.gz", "--patch-radius 2"), ("mapped", "symmetric", 3.0, false));
    is(&found("c.nii.gz", "--similarity ssd"), ("ssd", "symmetric", 1.732, false));
    is(&found("c.nii.gz", "--similarity nmi"), ("nmi", "symmetric", 3.0, false));
    place.write("how.toml", "similarity = \"auto\"\n");
    is(&found("c.nii.gz", "--config how.toml"), ("mapped", "symmetric", 3.0, true));
    // There is no half-way map to half a turn.
    place.write(
        "turn.tfm",
        "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_3_3\n\
         Parameters: -1 0 0 0 -1 0 0 0 1 0 0 0\nFixedParameters: 0 0 0\n",
    );
    let turned = found("b.nii.gz", "--affine turn.tfm");
    assert_eq!(turned.1, "greedy", "{}", turned.4);
    place
        .line("deform a.nii.gz b.nii.gz -o out --affine turn.tfm --model symmetric --no-report")
        .expect(2)
        .says(&["half-way", "greedy"]);
    place.line("deform a.nii.gz b.nii.gz -o out --radius 3 --patch-radius 2").expect(2);
}

#[test]
fn a_2d_pair() {
    let place = Place::new();
    let flat = crate::common::grid([80, 84, 1], 2.0);
    let at = |x: usize, y: usize| flat.index_to_world(Vector3::new(x as f64, y as f64, 0.0));
    let bend =
        |p: Vector3<f64>| p + Vector3::new((p[1] / 20.0).sin(), (p[0] / 20.0).cos(), 0.) * 3.0;
    let image = |bend: &dyn Fn(Vector3<f64>) -> Vector3<f64>| {
        Volume::from_fn(flat.clone(), |x, y, _| crate::common::value(bend(at(x, y))))
    };
    let options = WriteOptions { dimensions: 2, ..WriteOptions::default() };
    write_volume(place.path("a.nii.gz"), &image(&|p| p), &options).unwrap();
    write_volume(place.path("b.nii.gz"), &image(&bend), &options).unwrap();
    let line =
        "deform a.nii.gz b.nii.gz -o out --schedule 2x40,1x20 --similarity ssd --outputs all";
    place.line(line).expect(0);
    assert_eq!(names(&place.path("out")), ALL_FILES);
    let record = record(&place, "out");
    let figure = |name: &str| record["figures"][name].as_f64().unwrap();
    assert!(figure("rms_after") < 0.5 * figure("rms_before"));
    for name in ["warped.nii.gz", "jacobian.nii.gz"] {
        assert_eq!(read_info(place.path("out").join(name)).unwrap().dimensions, 2);
    }
    // Fields of a plane have two components.
    for name in
        ["warp.nii.gz", "inverse_warp.nii.gz", "composite.nii.gz", "inverse_composite.nii.gz"]
    {
        let info = read_info(place.path("out").join(name)).unwrap();
        assert_eq!(info.dims.last(), Some(&2), "{name} {:?}", info.dims);
    }
    place.line("apply -i b.nii.gz -r a.nii.gz -t out/warp.nii.gz -t out/affine.tfm -o w.nii.gz");
    assert!(apart(&place, "out/warped.nii.gz", "w.nii.gz") < 1e-3);
}

#[test]
fn options_that_would_be_ignored_or_cannot_be_are_errors() {
    let place = Place::new();
    small(&place);
    let before = place.names();
    for (options, said) in [
        ("--affine nowhere.tfm", &["auto", "file"][..]),
        ("--affine la.nii.gz", &["--affine"]),
        ("--model xx", &["greedy", "symmetric", "lddmm"]),
        ("--dof 6", &["--dof", "affine registration that comes first", "--affine auto"]),
        ("--affine auto --dof 5", &["dof", "6, 7, 9 or 12"]),
        ("--affine auto --search none --rescue on", &["--rescue", "--search"]),
        ("--moving-mask m.nii", &["--moving-mask", "m.nii"]),
        (
            "--moving-mask a.nii.gz",
            &["'a.nii.gz'", "moving mask", "not on the grid", "voxalign apply"],
        ),
        ("-q -v", &["--quiet", "--verbose"]),
        ("--report --no-report", &["--report", "--no-report"]),
        ("--threads 0", &["--threads", "1 to 1024"]),
        ("--model lddmm --solver gaussian", &["--solver", "gaussian", "LDDMM", "fft"]),
        ("--model lddmm --total-sigma 1", &["--total-sigma", "greedy"]),
        ("--model lddmm --step-rule adaptive", &["--step-rule"]),
        ("--model lddmm --sigma 2", &["--sigma", "gaussian"]),
        ("--time-steps 5", &["--time-steps", "lddmm"]),
        ("--lddmm-sigma 5", &["--lddmm-sigma", "lddmm"]),
        ("--model lddmm --time-steps 0", &["--time-steps"]),
        ("--model lddmm --lddmm-sigma 0", &["--lddmm-sigma"]),
        ("--alpha 1", &["--alpha", "--solver fft"]),
        ("--beta 1", &["--beta", "--solver fft"]),
        ("--gamma 1", &["--gamma", "--solver fft"]),
        ("--boundary zero", &["--boundary", "--solver fft"]),
        ("--solver fft --sigma 2", &["--sigma"]),
        ("--solver fft --solver-iterations 2", &["--solver-iterations", "hybrid"]),
        ("--solver gaussian --solver-tolerance 0.1", &["--solver-tolerance"]),
        ("--solver hybrid --solver-tolerance 0.1", &["--solver-tolerance", "sor and cg"]),
        ("--solver sor --solver-tolerance 2", &["--solver-tolerance"]),
        ("--solver sor --solver-iterations 0", &["--solver-iterations"]),
        ("--solver fft --gamma 0 --boundary periodic", &["--gamma"]),
        ("--solver fft --alpha -1", &["--alpha"]),
        ("--sigma 0", &["--sigma"]),
        ("--total-sigma 21", &["--total-sigma", "20"]),
        ("--total-sigma -1", &["--total-sigma"]),
        ("--similarity ssd --radius 2", &["--radius", "lncc"]),
        ("--radius 0", &["--radius", "20"]),
        ("--bins 32", &["--bins", "mi"]),
        ("--similarity mi --bins 4", &["--bins", "512"]),
        ("--schedule 1x10,2x10", &["coarse to fine"]),
        ("--schedule 4x0", &["4x100,2x100,1x50"]),
        ("--step 3", &["--step", "2"]),
        ("--step 0", &["--step"]),
        ("--convergence 1", &["--convergence"]),
        ("--convergence 0 --convergence-window 5", &["--convergence-window"]),
        ("--convergence-window 0", &["--convergence-window"]),
        ("--channel a.nii.gz b.nii.gz xx 1", &["--channel", "lncc"]),
        ("--channel a.nii.gz b.nii.gz ssd 0", &["--channel", "weight"]),
        ("--channel a.nii.gz b.nii.gz ssd", &["--channel"]),
        (
            "--channel b.nii.gz b.nii.gz ssd 1",
            &[
                "--channel",
                "'b.nii.gz'",
                "another grid",
                "'a.nii.gz'",
                "voxalign apply -i b.nii.gz",
            ],
        ),
        ("--fixed-mask b.nii.gz", &["fixed mask"]),
        ("--fixed-labels la.nii.gz", &["--moving-labels"]),
        ("--fixed-labels lb.nii.gz --moving-labels lb.nii.gz", &["--fixed-labels"]),
        ("--interpolation label", &["--interpolation label", "linear"]),
        ("--device gpu", &["cuda"]),
    ] {
        let affine = if options.contains("--affine") { "" } else { "--affine none" };
        let line = format!("deform a.nii.gz b.nii.gz -o out --schedule 4x1 {affine} {options}");
        place.line(&line).expect(2).says(said);
        assert_eq!(place.names(), before, "{options}");
    }
    place.line("deform a.nii.gz -o out").expect(2).says(&["MOVING"]);
    place.line("deform a.nii.gz b.nii.gz").expect(2).says(&["-o DIR"]);
    place.write("bad.toml", "channel = ['a.nii.gz', 'b.nii.gz']\n");
    let line = "deform a.nii.gz b.nii.gz -o out --config bad.toml";
    place.line(line).expect(2).says(&["bad.toml", "give a list of a fixed image"]);
    place.write("bad.toml", "alfa = 1\n");
    place.line(line).expect(2).says(&["did you mean 'alpha'"]);
    // An input is never overwritten.
    fs::create_dir(place.path("out")).unwrap();
    fs::copy(place.path("b.nii.gz"), place.path("out/warped.nii.gz")).unwrap();
    place
        .line("deform a.nii.gz out/warped.nii.gz -o out")
        .expect(2)
        .says(&["an input and an output"]);
}

/// The file in docs/ names every option, and gives the defaults: with it and without it the result
/// is the same.
#[test]
fn the_documented_configuration_is_complete_and_the_default() {
    let text = include_str!("../../../../docs/deform.toml");
    let place = Place::new();
    small(&place);
    let help = place.line("deform --help").expect(0).out;
    let options = help.lines().filter_map(|l| {
        let rest = l.trim_start().strip_prefix("-o, ").unwrap_or(l.trim_start());
        let rest = rest.strip_prefix("-q, ").or(rest.strip_prefix("-v, ")).unwrap_or(rest);
        rest.strip_prefix("--")?.split([' ', ',']).next()
    });
    for option in options.filter(|o| !["config", "help", "version"].contains(o)) {
        assert!(text.contains(&format!("{option} = ")), "{option} is not in docs/deform.toml");
    }
    place.write("defaults.toml", text);
    place.line("deform a.nii.gz b.nii.gz -o a --no-report");
    place.line("deform a.nii.gz b.nii.gz -o b --config defaults.toml");
    assert_eq!(record(&place, "a")["parameters"], record(&place, "b")["parameters"]);
    assert_eq!(names(&place.path("b")), FILES);
    let bytes = |folder: &str| fs::read(place.path(folder).join("warp.nii.gz")).unwrap();
    assert!(bytes("a") == bytes("b"));
}
