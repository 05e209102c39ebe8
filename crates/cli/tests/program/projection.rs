//! X-ray images of a CT, and its pose by them, from files to files.

use crate::common::{Place, grid, names};
use std::fs;
use voxalign_image::{Affine, LabelMap, Transform, Vector3, Volume};
use voxalign_io::transform::{Geometry, read as read_transform};
use voxalign_io::xray;

/// A head of ellipsoids in Hounsfield units, 4 mm voxels, unlike from any two sides.
pub(crate) fn ct() -> Volume<f32> {
    let grid = grid([44, 52, 40], 4.0);
    let centre = grid.centre();
    Volume::from_fn(grid.clone(), |x, y, z| {
        let p = grid.index_to_world(Vector3::new(x as f64, y as f64, z as f64)) - centre;
        let inside = |c: [f64; 3], r: [f64; 3]| {
            let d = Vector3::from_fn(|a, _| (p[a] - c[a]) / r[a]).norm();
            1.0 / (1.0 + ((d - 1.0) * r[0] / 2.0).exp())
        };
        let skull = inside([0.0; 3], [64.0, 80.0, 62.0]) - inside([0.0; 3], [56.0, 72.0, 54.0]);
        let head = inside([0.0; 3], [70.0, 86.0, 68.0]);
        let jaw = inside([4.0, 50.0, -40.0], [24.0, 12.0, 10.0]);
        let ear = inside([50.0, -10.0, -12.0], [8.0, 14.0, 9.0]);
        // Teeth and the like: small, dense and everywhere.
        let places = [
            [30., 40., 30.],
            [-25., 50., -20.],
            [-40., -30., 25.],
            [20., -55., -30.],
            [0., 10., 50.],
        ];
        let dense: f64 = places.iter().map(|&c| inside(c, [7.0; 3])).sum();
        (-1000.0 + 1040.0 * head + 900.0 * skull + 800.0 * (jaw + ear) + 1500.0 * dense) as f32
    })
}

pub(crate) fn place() -> Place {
    let place = Place::new();
    place.image("ct.nii.gz", &ct());
    place
}

const VIEWS: &str = "--view ap,lateral --size 96,80";

pub(crate) fn json(place: &Place, name: &str) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(place.path(name)).unwrap()).unwrap()
}

#[test]
fn images_of_all_formats_have_the_same_values() {
    let place = place();
    let line = format!("drr ct.nii.gz -o a {VIEWS} --format png,tiff,nifti,dicom --device cpu");
    let run = place.line(&line).expect(0);
    assert!(run.out.contains("lateral") && run.out.contains("attenuation"), "{}", run.out);
    let mut files: Vec<String> = ["ap", "lateral"]
        .iter()
        .flat_map(|v| ["dcm", "nii.gz", "png", "tif"].map(|e| format!("{v}.{e}")))
        .chain(["report.html", "result.json", "views.toml"].map(str::to_owned))
        .collect();
    files.sort();
    assert_eq!(names(&place.path("a")), files);
    for view in ["ap", "lateral"] {
        let image = |e: &str| xray::read(place.path(&format!("a/{view}.{e}"))).unwrap();
        let exact = image("nii.gz").values;
        let most = exact.iter().copied().fold(0.0f32, f32::max);
        assert!(most > 2.0 && image("tif").values == exact, "{most}");
        for coarse in ["png", "dcm"] {
            let found = image(coarse).values;
            let off = found.iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off <= most / 65535.0, "{coarse}: {off}");
        }
    }
    let record = json(&place, "a/result.json");
    assert_eq!(record["images"].as_array().unwrap().len(), 2);
    assert_eq!(record["parameters"]["units"], "hu");
    assert_eq!(record["inputs"][0]["role"], "ct");
    assert_eq!(fs::read_to_string(place.path("a/report.html")).unwrap().matches("<img").count(), 2);

    // The views as they were written, with one thread: the same bits.
    let line = "drr ct.nii.gz -o b --geometry a/views.toml --format nifti --threads 1 --device cpu";
    place.line(line).expect(0);
    for name in ["ap.nii.gz", "lateral.nii.gz"] {
        let of = |folder: &str| fs::read(place.path(&format!("{folder}/{name}"))).unwrap();
        assert!(of("a") == of("b"), "{name}");
    }
}

/// The integral through the middle of a box of water is what it is.
#[test]
fn attenuation_follows_the_energy() {
    let place = Place::new();
    let water = Volume::from_fn(grid([40, 40, 40], 4.0), |x, y, z| {
        let inside = [x, y, z].iter().all(|i| (10..30).contains(i));
        if inside { 0.0f32 } else { -1000.0 }
    });
    place.image("ct.nii.gz", &water);
    for (options, expected) in [
        ("--energy 60", 80.0 * 0.02059),
        ("--energy 100", 80.0 * 0.01707),
        ("--water 0.02", 1.6),
        ("--water 0.02 --rays siddon", 1.6),
        ("--water 0.02 --rays joseph", 1.6),
        ("--water 0.02 --rays texture", 1.6),
        ("--water 0.02 --values intensity", (-1.6f64).exp()),
        ("--water 0.02 --projection maximum", 0.02),
    ] {
        let size = "--size 33,33 --pixel 1 --format nifti --no-report --device cpu";
        place.line(&format!("drr ct.nii.gz -o a {size} {options}")).expect(0);
        let image = xray::read(place.path("a/ap.nii.gz")).unwrap();
        let found = f64::from(image.values[16 * 33 + 16]);
        assert!((found - expected).abs() < 2e-3 * expected.max(1.0), "{options}: {found}");
    }
}

#[test]
fn sequences_labels_and_plans() {
    let place = place();
    let labels: LabelMap = ct().map(|v| i32::from(*v > 300.0) + 2 * i32::from(*v > 600.0));
    place.labels("l.nii.gz", &labels);
    place.write("poses.csv", "rotation_z,translation_x\n0,0\n5,-2\n10,4.5\n");
    let line = "drr ct.nii.gz -o a --view lateral --size 40,30 --poses poses.csv --format nifti \
                --labels l.nii.gz --only 1,3 --device cpu";
    let plan = place.line(&format!("{line} --dry-run --json")).expect(0);
    let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap();
    assert!(!place.path("a").exists());
    place.line(line).expect(0);
    let mut planned: Vec<String> = plan["writes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    planned.sort();
    assert_eq!(names(&place.path("a")), planned);
    let values =
        |i: usize| xray::read(place.path(&format!("a/lateral_{i:04}.nii.gz"))).unwrap().values;
    assert!(values(0) != values(1) && values(1) != values(2));
    // Less than with all that is in the way.
    place
        .line("drr ct.nii.gz -o b --view lateral --size 40,30 --format nifti --device cpu")
        .expect(0);
    let all = xray::read(place.path("b/lateral.nii.gz")).unwrap().values;
    assert!(all.iter().zip(values(0)).all(|(all, some)| some <= all + 1e-6));
}

/// Where points around the middle of the CT are found, against where they are: the largest distance, mm.
fn off(place: &Place, folder: &str, truth: &Affine) -> f64 {
    let found =
        read_transform(place.path(&format!("{folder}/ct_to_room.tfm")), &Geometry::default());
    let found = found.unwrap().to_affine().unwrap();
    let centre = ct().grid().centre();
    found.largest_distance(truth, &ct().grid().corners().map(|c| centre + (c - centre) * 0.4))
}

#[test]
fn poses_are_found_again() {
    let place = place();
    let moved = "--rotation 5,-4,7 --translation 6,-5,8";
    let line = format!(
        "drr ct.nii.gz -o x {VIEWS} {moved} --photons 1e5 --format png,nifti,dicom --device cpu"
    );
    place.line(&line).expect(0);
    let record = json(&place, "x/result.json");
    let pose = record["images"][0]["pose"].as_array().unwrap();
    let rows: Vec<Vec<f64>> = pose
        .iter()
        .map(|r| r.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect())
        .collect();
    let rows = [0, 1, 2].map(|r| [0, 1, 2, 3].map(|c| rows[r][c]));
    let truth = Affine::from_rows(rows).inverse().unwrap();

    let line = "pose ct.nii.gz x/ap.nii.gz x/lateral.nii.gz --geometry x/views.toml --device cpu";
    let run = place.line(&format!("{line} -o a")).expect(0);
    assert!(run.out.contains("verdict: good"), "{}", run.out);
    let error = off(&place, "a", &truth);
    println!("{error} mm");
    assert!(error < 0.3, "{error}");
    let files = [
        "affine.tfm",
        "ct_to_room.tfm",
        "drr_ap.nii.gz",
        "drr_lateral.nii.gz",
        "report.html",
        "result.json",
    ];
    assert_eq!(names(&place.path("a")), files);
    // Both transforms are each other's inverse, and the simulated images are those of the pose.
    let read = |name: &str| read_transform(place.path(name), &Geometry::default()).unwrap();
    let (pose, back) = (read("a/affine.tfm"), read("a/ct_to_room.tfm"));
    let both = pose
        .inverse_consistency(&Transform::Affine(back.to_affine().unwrap()), &ct().grid().corners());
    assert!(both.largest < 1e-6);
    let record = json(&place, "a/result.json");
    assert_eq!(record["views"].as_array().unwrap().len(), 2);
    assert_eq!(record["landscape"].as_array().unwrap().len(), 6);
    assert!(record["cost_after"].as_f64() < record["cost_before"].as_f64());
    let page = fs::read_to_string(place.path("a/report.html")).unwrap();
    assert!(page.contains("<img") && page.contains("otation"), "{}", page.len());

    // One thread: the same bits.
    place.line(&format!("{line} -o b --threads 1 --no-report")).expect(0);
    for name in ["affine.tfm", "drr_ap.nii.gz"] {
        let of = |folder: &str| fs::read(place.path(&format!("{folder}/{name}"))).unwrap();
        assert!(of("a") == of("b"), "{name}");
    }
    // The folder as it is.
    place
        .line("pose ct.nii.gz x --device cpu --no-report -o f --starts 1 --init a/affine.tfm")
        .expect(0);
    assert!(off(&place, "f", &truth) < 0.3, "{}", off(&place, "f", &truth));
    // Other files of the same images, fewer pixels, from the pose on.
    let line =
        "pose ct.nii.gz x/ap.png x/lateral.dcm --geometry x/views.toml --device cpu --no-report";
    let few = "--sampling 0.2 --starts 1 --init a/affine.tfm";
    place.line(&format!("{line} {few} -o c")).expect(0);
    assert!(off(&place, "c", &truth) < 0.5, "{}", off(&place, "c", &truth));
}

/// The numbers of a record under two keys, and a matrix.
fn six(of: &serde_json::Value) -> Vec<f64> {
    let all = ["translation_mm", "rotation_degrees", "centre_mm"].map(|key| of[key].clone());
    let lists: Vec<Vec<f64>> =
        all.into_iter().map(|v| serde_json::from_value(v).unwrap()).collect();
    lists.concat()
}

pub(crate) fn near(a: &[f64], b: &[f64], most: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= most)
}

#[test]
fn numbers_of_a_pose_mean_the_same_everywhere() {
    let place = place();
    // Also about another point than the middle of the grid.
    for (folder, centre) in [("m", ""), ("c", "--centre 20,-60,35")] {
        let moved = format!("--rotation 5,-4,7 --translation 6,-5,8 {centre}");
        let line =
            format!("drr ct.nii.gz -o {folder}x {VIEWS} {moved} --format nifti --device cpu");
        let run = place.line(&line).expect(0);
        assert!(run.out.contains("about this point of it"), "{}", run.out);
        let drawn = six(&json(&place, &format!("{folder}x/result.json"))["images"][0]);
        assert_eq!(drawn[..6], [6.0, -5.0, 8.0, 5.0, -4.0, 7.0]);
        let line = format!(
            "pose ct.nii.gz {folder}x/ap.nii.gz {folder}x/lateral.nii.gz --geometry {folder}x/views.toml \
             -o {folder}a {centre} --device cpu --no-report"
        );
        let run = place.line(&line).expect(0);
        assert!(run.out.contains("about this point of it"), "{}", run.out);
        let record = json(&place, &format!("{folder}a/result.json"));
        let found = six(&record);
        assert!(near(&found, &drawn, 0.1), "{found:?}");
        // What was found is drawn as its file and as its numbers say it.
        let line = format!("drr ct.nii.gz -o {folder}b --pose {folder}a/affine.tfm {centre}");
        place.line(&format!("{line} --size 32,32 --format nifti --device cpu")).expect(0);
        let of_file = &json(&place, &format!("{folder}b/result.json"))["images"][0];
        assert!(near(&six(of_file), &found, 1e-6), "{of_file}");
        let n: Vec<String> = found.iter().map(ToString::to_string).collect();
        let numbers =
            format!("--translation {} --rotation {}", n[..3].join(","), n[3..6].join(","));
        let line = format!("drr ct.nii.gz -o {folder}n {numbers} {centre}");
        place.line(&format!("{line} --size 32,32 --format nifti --device cpu")).expect(0);
        let of_numbers = &json(&place, &format!("{folder}n/result.json"))["images"][0];
        let rows = |v: &serde_json::Value| -> Vec<f64> {
            serde_json::from_value::<Vec<Vec<f64>>>(v.clone()).unwrap().concat()
        };
        assert!(near(&rows(&of_numbers["pose"]), &rows(&record["pose"]), 1e-6), "{of_numbers}");
        // A search from there starts there.
        let numbers = numbers.replace("--", "--init-");
        let line = format!("pose ct.nii.gz --geometry {folder}x/views.toml {numbers} {centre}");
        let line = format!("{line} {folder}x/ap.nii.gz {folder}x/lateral.nii.gz -o {folder}s");
        place.line(&format!("{line} --starts 1 --levels 4 --device cpu --no-report"));
        let start = &json(&place, &format!("{folder}s/result.json"))["start"];
        assert!(near(&rows(start), &rows(&record["pose"]), 1e-6), "{start}");
    }
    let csv = "rotation_x,centre_x\n1,2\n";
    place.write("odd.csv", csv);
    place.line("drr ct.nii.gz -o d --poses odd.csv").expect(2).says(&["odd.csv", "centre_y"]);
    let line = "pose ct.nii.gz mx/ap.nii.gz -o d --init a.tfm --init-rotation 1,2,3";
    place.line(line).expect(2).says(&["--init-rotation", "--init"]);
}

#[test]
fn every_similarity_and_optimiser_finds_a_pose_nearby() {
    let place = place();
    let moved = "--rotation 1,-1,2 --translation 2,-1,2";
    place
        .line(&format!("drr ct.nii.gz -o x {VIEWS} {moved} --format nifti --device cpu"))
        .expect(0);
    let record = json(&place, "x/result.json");
    let row = |r: usize| [0, 1, 2, 3].map(|c| record["images"][0]["pose"][r][c].as_f64().unwrap());
    let truth = Affine::from_rows([row(0), row(1), row(2)]).inverse().unwrap();
    let line = "pose ct.nii.gz x/ap.nii.gz x/lateral.nii.gz --geometry x/views.toml --device cpu --no-report \
                --starts 2 --range 4,4 --levels 8,4 --restarts 0";
    let kinds =
        ["ncc", "gradient-ncc", "mi", "nmi", "ssd", "l1", "pattern-intensity", "kullback-leibler"];
    let methods = [
        "bfgs",
        "gradient",
        "powell",
        "nelder-mead",
        "cma-es",
        "levenberg-marquardt",
        "annealing",
        "monte-carlo",
    ];
    let all = kinds.map(|k| format!("--similarity {k}")).into_iter();
    for (number, options) in all.chain(methods.map(|m| format!("--optimiser {m}"))).enumerate() {
        // A folder of its own: what fails leaves none.
        let folder = format!("a{number}");
        let run = place.line(&format!("{line} {options} -o {folder}"));
        println!("{}", run.out.lines().find(|l| l.contains("verdict")).unwrap_or_default());
        let error = off(&place, &folder, &truth);
        println!("{options}: {error:.3} mm");
        assert!(error < 2.0, "{options}: {error}");
    }
}

#[test]
fn bad_input_leaves_nothing() {
    let place = place();
    place.line(&format!("drr ct.nii.gz -o x {VIEWS} --format nifti,png --device cpu")).expect(0);
    place.image("mr.nii.gz", &ct().map(|v| v + 1000.0));
    place.image("nan.nii.gz", &ct().map(|v| if *v > 0.0 { f32::NAN } else { *v }));
    place.image("void.nii.gz", &ct().map(|_| -1000.0f32));
    let view = "[[view]]\nname = 'a'\nsize = [96, 80]\nsource_to_isocentre = 800.0\n";
    place.write("missing.toml", view);
    let arm = "isocentre = [0.0, 0.0, 0.0]\nprimary = 0.0\nsecondary = 0.0\npixel = 1.0\n";
    place.write("behind.toml", &format!("{view}source_to_detector = -900.0\n{arm}"));
    place.write(
        "near.toml",
        &format!("{view}source_to_detector = 900.0\n{arm}").replace("800.0", "20.0"),
    );
    place.write(
        "other.toml",
        &format!("{view}source_to_detector = 900.0\n{arm}").replace("96", "95"),
    );
    place.write(
        "away.toml",
        &format!("{view}source_to_detector = 900.0\n{arm}").replace("[0.0, 0.0", "[9000.0, 0.0"),
    );
    place.write("poses.csv", "rotation_z,shift\n0,0\n");
    for (line, said) in [
        ("drr none.nii.gz", vec!["none.nii.gz"]),
        ("drr mr.nii.gz", vec!["mr.nii.gz", "--units", "hu-plus-1024"]),
        ("drr nan.nii.gz", vec!["nan.nii.gz", "NaN"]),
        ("drr void.nii.gz", vec!["void.nii.gz", "absorbs"]),
        (
            "drr ct.nii.gz --geometry missing.toml",
            vec!["missing.toml", "'primary'", "'source_to_isocentre'"],
        ),
        ("drr ct.nii.gz --geometry behind.toml", vec!["behind.toml", "behind the source"]),
        ("drr ct.nii.gz --geometry near.toml", vec!["within the CT", "'a'"]),
        ("drr ct.nii.gz --geometry away.toml", vec!["sees nothing", "--isocentre"]),
        ("drr ct.nii.gz --geometry x/views.toml --pixel 2", vec!["--pixel", "--geometry"]),
        ("drr ct.nii.gz --view ap --gantry 3", vec!["--view", "--gantry"]),
        ("drr ct.nii.gz --secondary 3", vec!["--primary"]),
        ("drr ct.nii.gz --region 0,0,0,9", vec!["--region"]),
        ("drr ct.nii.gz --region 500,0,100,9", vec!["region"]),
        ("drr ct.nii.gz --energy 5", vec!["--energy"]),
        ("drr ct.nii.gz --energy 50 --water 0.02", vec!["--water"]),
        ("drr ct.nii.gz --only 3", vec!["--labels"]),
        ("drr ct.nii.gz --step 0", vec!["--step"]),
        ("drr ct.nii.gz --rays siddon --step 1", vec!["--step", "--rays"]),
        ("drr ct.nii.gz --projection maximum --photons 9", vec!["--photons"]),
        ("drr ct.nii.gz --pose a.tfm --rotation 1,2,3", vec!["--pose"]),
        ("drr ct.nii.gz --poses poses.csv", vec!["poses.csv", "shift"]),
        ("drr ct.nii.gz --rotation 1,2", vec!["--rotation", "3 numbers"]),
        ("pose ct.nii.gz x/ap.png", vec!["x/ap.png", "--geometry"]),
        ("pose ct.nii.gz", vec!["X-ray images"]),
        ("pose ct.nii.gz x/ap.png --geometry x/views.toml", vec!["1 X-ray", "2 views"]),
        ("pose ct.nii.gz x/ap.png --geometry other.toml", vec!["95", "96"]),
        ("pose ct.nii.gz x/ap.png --geometry missing.toml", vec!["missing.toml"]),
        ("pose ct.nii.gz x/ap.png --geometry near.toml", vec!["within the CT"]),
        ("pose mr.nii.gz x/ap.png --geometry away.toml", vec!["--units"]),
        ("pose ct.nii.gz x/ap.png --geometry away.toml --region 0,0,0,3", vec!["--region"]),
        ("pose ct.nii.gz x/ap.png --geometry away.toml --region 90,0,9,3", vec!["region"]),
        ("pose ct.nii.gz x/ap.png --geometry away.toml --sampling 2", vec!["--sampling"]),
        ("pose ct.nii.gz x/ap.png --geometry away.toml --starts 0", vec!["--starts"]),
        ("pose ct.nii.gz x/ap.png --geometry away.toml --levels 2,4", vec!["--levels"]),
        ("pose ct.nii.gz x/ap.png --geometry away.toml --similarity x", vec!["--similarity"]),
        (
            "pose ct.nii.gz x/ap.png --geometry away.toml",
            vec!["the CT is outside the view where the search starts"],
        ),
    ] {
        let run = place.line(&format!("{line} -o a --device cpu")).expect(2);
        run.says(&said);
        assert!(!place.path("a").exists(), "{line}");
    }
    // An input is never overwritten: also not by an image, nor one that a view names.
    place.image("x/lateral.nii.gz", &ct());
    place
        .line("drr x/lateral.nii.gz --view lateral -o x --device cpu")
        .expect(2)
        .says(&["never overwritten"]);
    fs::copy(place.path("x/ap.png"), place.path("y.png")).unwrap();
    place
        .line("drr ct.nii.gz -o z --view ap --size 96,80 --format nifti --no-report --device cpu")
        .expect(0);
    fs::rename(place.path("z/ap.nii.gz"), place.path("z/drr_ap.nii.gz")).unwrap();
    let table = fs::read_to_string(place.path("z/views.toml")).unwrap();
    place.write("z/named.toml", &table.replace("ap.nii.gz", "drr_ap.nii.gz"));
    for line in [
        "pose ct.nii.gz --geometry z/named.toml -o z --device cpu",
        "pose ct.nii.gz --geometry z/named.toml -o z --device cpu --dry-run",
        "drr x/lateral.nii.gz --view lateral -o x --device cpu --dry-run",
    ] {
        place.line(line).expect(2).says(&["never overwritten"]);
    }
    let line = "drr ct.nii.gz --geometry x/views.toml -o x --device cpu";
    place.line(line).expect(2).says(&["views.toml", "never overwritten"]);
}
