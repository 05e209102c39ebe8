//! The examples of the library have the bits of the program, and its verdicts.

use crate::common::Place;
use std::fs;
use std::path::Path;
use voxalign::options::{AffineMethod, from_toml};
use voxalign_io::image::read_volume;
use voxalign_io::transform::{Geometry, read};

#[path = "../../../voxalign/examples/affine.rs"]
mod affine;
#[path = "../../../voxalign/examples/anatomy.rs"]
mod anatomy;
#[path = "../../../voxalign/examples/atlas.rs"]
mod atlas;
#[path = "../../../voxalign/examples/carry.rs"]
mod carry;
#[path = "../../../voxalign/examples/deform.rs"]
mod deform;
#[path = "../../../voxalign/examples/drr.rs"]
mod drr;
#[path = "../../../voxalign/examples/elastic.rs"]
mod elastic;
#[path = "../../../voxalign/examples/memory.rs"]
mod memory;
#[path = "../../../voxalign/examples/memory_mesh.rs"]
mod memory_mesh;
#[path = "../../../voxalign/examples/memory_pose.rs"]
mod memory_pose;
#[path = "../../../voxalign/examples/pose.rs"]
mod pose;
#[path = "../../../voxalign/examples/regress.rs"]
mod regress;
#[path = "../../../voxalign/examples/segment.rs"]
mod segment;
#[path = "../../../voxalign/examples/stack.rs"]
mod stack;
#[path = "../../../voxalign/examples/surface.rs"]
mod surface;

fn text(place: &Place, name: &str) -> String {
    place.path(name).display().to_string()
}

/// The same files with the same bytes but for the times in reports and records, whose figures are the same; gives
/// whether the verdict is good.
#[track_caller]
fn same(a: &Path, b: &Path) -> bool {
    let of = |folder: &Path| crate::common::names(folder);
    assert_eq!(of(a), of(b));
    for name in of(a).iter().filter(|n| !n.ends_with(".html") && *n != "result.json") {
        let (a, b) = (a.join(name), b.join(name));
        if a.is_dir() {
            same(&a, &b);
        } else {
            assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{name} differs");
        }
    }
    let record = |folder: &Path| -> Option<serde_json::Value> {
        serde_json::from_str(&fs::read_to_string(folder.join("result.json")).ok()?).ok()
    };
    let (Some(a), Some(b)) = (record(a), record(b)) else { return true };
    for part in ["figures", "parameters", "curves", "stable_from"] {
        assert_eq!(a[part], b[part], "{part}");
    }
    assert_eq!(a["verdict"]["good"], b["verdict"]["good"]);
    a["verdict"]["good"] == true
}

#[test]
fn points_and_meshes() {
    let place = Place::new();
    crate::meshes::ball(&place, "ball.vtk");
    crate::meshes::transforms(&place);
    place.write("p.csv", "x,y,z,name\n1,2,3,a\n");
    let chain = ["warp.nii.gz", "t.tfm"].map(|name| text(&place, name));
    for (input, output, count) in [("ball.vtk", "a.ply", 134), ("p.csv", "a.csv", 1)] {
        let (from, to) = (text(&place, input), text(&place, output));
        assert_eq!(carry::to_fixed(&from, &to, &chain).unwrap(), count);
        let other = format!("by_{output}");
        place.line(&format!("apply -i {input} -t warp.nii.gz -t t.tfm -o {other}")).expect(0);
        let read = |name: &str| fs::read(place.path(name)).unwrap();
        assert!(read(output) == read(&other), "{input}");
    }

    // In memory.
    let mesh = |name: &str| voxalign_io::mesh::read(place.path(name), &Default::default()).unwrap();
    let chain = chain.iter().map(|path| read(path, &Geometry::default()).unwrap()).collect();
    let carried = memory_mesh::to_fixed(&mesh("ball.vtk").0, chain).unwrap();
    for (a, b) in carried.vertices().iter().zip(mesh("a.ply").0.vertices()) {
        assert!((a - b).norm() < 1e-4, "{a} {b}");
    }
}

#[test]
fn pairs() {
    let place = Place::new();
    place.pair();
    let [fixed, moving] = ["fixed.nii.gz", "moving.nii.gz"].map(|name| text(&place, name));
    // One device for both: the environment names it for programs that name none.
    let cpu = |line: &str| place.line(&format!("{line} --device cpu"));
    let good = affine::register(&fixed, &moving, &text(&place, "a")).unwrap();
    cpu("affine fixed.nii.gz moving.nii.gz -o b").expect(i32::from(!good));
    assert_eq!(same(&place.path("a"), &place.path("b")), good);

    let more = "schedule = '2x6'\nsolver = 'fft'\nreport = false\n";
    let good = deform::register(&fixed, &moving, &text(&place, "c"), more).unwrap();
    let line =
        format!("deform {fixed} {moving} -o d --model symmetric --schedule 2x6 --solver fft");
    cpu(&format!("{line} --no-report")).expect(i32::from(!good));
    assert_eq!(same(&place.path("c"), &place.path("d")), good);

    let more = "schedule = '2x6'\nmesh_spacing = 30\nreport = false\n";
    let good = elastic::register(&fixed, &moving, &text(&place, "e"), more).unwrap();
    let line =
        format!("elastic {fixed} {moving} -o f --young 2000 --schedule 2x6 --mesh-spacing 30");
    cpu(&format!("{line} --no-report")).expect(i32::from(!good));
    assert_eq!(same(&place.path("e"), &place.path("f")), good);

    // In memory.
    let volumes = [&fixed, &moving].map(|path| std::sync::Arc::new(read_volume(path).unwrap()));
    let [first, second] = volumes;
    let options = AffineMethod::default().usual(false).unwrap();
    let (map, warped) = memory::align(&first, &second, &options).unwrap();
    let written = read(place.path("b/affine.tfm"), &Geometry::default()).unwrap();
    let rows = |affine: &voxalign::Affine| affine.rows().as_flattened().to_vec();
    let (written, found) = (rows(&written.to_affine().unwrap()), rows(&map));
    let off = written.iter().zip(&found).map(|(a, b)| (a - b).abs());
    assert!(off.fold(0.0, f64::max) < 1e-9);
    assert_eq!(warped.data(), read_volume(place.path("b/warped.nii.gz")).unwrap().data());
}

#[test]
fn anatomies() {
    let place = Place::new();
    crate::deform::small(&place);
    crate::anatomy::surfaces(&place);
    crate::anatomy::anatomies(&place, &["classes", "surfaces"]);
    let more = "schedule = '4x6'\nsolver = 'fft'\nreport = false\n";
    let [a, b] = ["a.toml", "b.toml"].map(|name| text(&place, name));
    let good = anatomy::register(&a, &b, &text(&place, "c"), more).unwrap();
    let line = format!("anatomy {a} {b} -o d --schedule 4x6 --solver fft --no-report --device cpu");
    place.line(&line).expect(i32::from(!good));
    assert_eq!(same(&place.path("c"), &place.path("d")), good);
}

#[test]
fn x_rays() {
    let place = Place::new();
    place.image("ct.nii.gz", &crate::projection::ct());
    let ct = text(&place, "ct.nii.gz");
    let most = drr::simulate(&ct, &text(&place, "a")).unwrap();
    assert!(most.len() == 2 && most.iter().all(|&m| m > 1.0), "{most:?}");
    place.line("drr ct.nii.gz --view ap,lateral --device cpu -o b").expect(0);
    same(&place.path("a"), &place.path("b"));

    let images = ["a/ap.png", "a/lateral.png"].map(|name| text(&place, name));
    let good = pose::find(&ct, &text(&place, "a/views.toml"), &images, &text(&place, "c")).unwrap();
    let line = "pose ct.nii.gz a/ap.png a/lateral.png --geometry a/views.toml --device cpu -o d";
    place.line(line).expect(i32::from(!good));
    assert_eq!(same(&place.path("c"), &place.path("d")), good);

    let machine = voxalign::Machine::start(Default::default(), voxalign::Auto::Cpu).unwrap();
    let (found, off) = memory_pose::example(&machine.device, 4.0).unwrap();
    assert!(found.verdict.good && off < 0.5, "{off} mm: {}", found.verdict.summary());
}

#[test]
fn many_images() {
    let place = Place::new();
    place.pair();
    let images = ["fixed.nii.gz", "moving.nii.gz"].map(|name| text(&place, name));
    let good = atlas::build(&images, &text(&place, "a"), 8.0, Some("2x3")).unwrap();
    let line = "atlas fixed.nii.gz moving.nii.gz --spacing 8 --schedule 2x3 --device cpu -o b";
    place.line(line).expect(i32::from(!good));
    assert_eq!(same(&place.path("a"), &place.path("b")), good);

    let both = [images[0].clone(), images[0].clone()];
    stack::mean(&both, &text(&place, "a.nii.gz")).unwrap();
    place.line("stack mean fixed.nii.gz fixed.nii.gz -o b.nii.gz").expect(0);
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(bytes("a.nii.gz") == bytes("b.nii.gz"));
}

#[test]
fn surfaces() {
    let place = Place::new();
    place.pair();
    let labels = text(&place, "fixed_labels.nii.gz");
    let (good, volume) = surface::make(&labels, 1, &text(&place, "a.gii")).unwrap();
    assert!(volume > 0.0);
    let line = "surface fixed_labels.nii.gz --label 1 --triangles 2000 --device cpu -o b.gii";
    place.line(line).expect(i32::from(!good));
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(bytes("a.gii") == bytes("b.gii"));

    // In memory.
    use voxalign::surface::{Job, Voxels, make};
    let machine = voxalign::Machine::start(Default::default(), voxalign::Auto::Cpu).unwrap();
    let map = voxalign_io::image::read_labels(&labels).unwrap();
    let job: Job =
        from_toml(&format!("image = '{labels}'\noutput = 'c.gii'\nlabel = [1]\ntriangles = 2000"))
            .unwrap();
    let of = |voxels| make(&machine.device, voxels, &job.options, &voxalign::Silent);
    let (mesh, found) = of(Voxels::Labels(&map)).unwrap();
    let (written, _) = voxalign_io::mesh::read(place.path("a.gii"), &Default::default()).unwrap();
    assert!(mesh.faces() == written.faces());
    assert_eq!(found.verdict.good, good);
    let image = read_volume(&labels).unwrap();
    let said = of(Voxels::Image(&image)).unwrap_err().to_string();
    assert!(said.contains("give a `level`"), "{said}");
}

#[test]
fn segmentations() {
    let place = Place::new();
    place.pair();
    let image = text(&place, "fixed.nii.gz");
    let (good, volume) = segment::file(&image, &text(&place, "a")).unwrap();
    assert!(volume > 0.0);
    let line = "segment fixed.nii.gz --force geodesic-regions --classes 4 --object-classes 3,4 --smallest-island 100 -o b";
    place.line(line).expect(i32::from(!good));
    assert_eq!(same(&place.path("a"), &place.path("b")), good);
    let labels = voxalign_io::image::read_labels(place.path("a/labels.nii.gz")).unwrap();
    let found = segment::labels(&read_volume(&image).unwrap()).unwrap();
    assert!(found == labels.data());
}

#[test]
fn along_a_covariate() {
    let place = Place::new();
    place.pair();
    place.write("list.csv", "path,age\nfixed.nii.gz,60\nmoving.nii.gz,70\n");
    let how = "align = 'none'\nspacing = 8\nschedule = '2x2'";
    for (name, more, typed) in [
        (
            "a",
            "regress = 'age'\nat = [62, 68]\nbandwidth = 5",
            "--regress age --at 62,68 --bandwidth 5",
        ),
        ("s", "stability = '2'\ncohorts = 1", "--stability 2 --cohorts 1"),
    ] {
        let list = text(&place, "list.csv");
        let options = format!("list = '{list}'\noutput = '{}'\n{how}\n{more}", text(&place, name));
        let good = regress::run(&options).unwrap();
        let line = "atlas --list list.csv --align none --spacing 8 --schedule 2x2 --device cpu";
        place.line(&format!("{line} {typed} -o {name}2")).expect(i32::from(!good));
        assert_eq!(same(&place.path(name), &place.path(&format!("{name}2"))), good);
    }
}

/// What would be ignored cannot be said in a file for the library either.
#[test]
fn unknown_options_are_refused() {
    type Job = voxalign::deform::Job;
    let files = "fixed = 'a'\nmoving = 'b'\noutput = 'c'\n";
    let said = |more: &str| from_toml::<Job>(&format!("{files}{more}")).unwrap_err().to_string();
    assert!(said("apodise = 6").contains("no option `apodise`"), "{}", said("apodise = 6"));
    assert!(said("model = 'best'").contains("'best' is not one of greedy, symmetric, lddmm"));
    assert!(said("schedule = '4'").contains("'4' is not a scale"));
    let job: Job = from_toml(&format!("{files}bins = 12\nsimilarity = 'ssd'")).unwrap();
    let said = voxalign::Job::check(&job, &voxalign::Caller::default(), &voxalign::Silent)
        .unwrap_err()
        .to_string();
    assert!(said.contains("`bins` is for `similarity = mi` and nmi"), "{said}");
    // What is read is written, and read back.
    let job: Job = from_toml(&format!(
        "{files}channel = ['e', 'f', 'mi', 0.5]\nclip = false\ntotal-sigma = 0.5\nschedule = '4x3,2x1'\noutside = 'nan'"
    ))
    .unwrap();
    let data = serde_json::to_value(&job).unwrap();
    assert_eq!(data["clip"], false);
    assert_eq!(voxalign::options::from_json::<Job>(data).unwrap().method, job.method);
}
