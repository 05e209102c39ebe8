//! Atlases of anatomies: surfaces and landmarks beside images and classes, or alone.

use crate::anatomy::{ellipsoid, write};
use crate::common::{Place, grid, head, names, regions};
use std::fs;
use voxalign_image::{Affine, AffineParameters, PointSet, Vector3};
use voxalign_io::mesh::{self, ReadOptions};
use voxalign_io::points;
use voxalign_register::compare::compare_meshes;

const COUNT: usize = 3;

/// From the world of a subject to that of the head.
fn to_head(subject: usize) -> Affine {
    let t = subject as f64 - 1.0;
    let centre = grid([36, 40, 34], 5.0).centre();
    AffineParameters {
        rotation: Vector3::new(0.02 * t, 0.0, 0.05 * t),
        translation: Vector3::new(3.0 * t, -2.0 * t, 4.0 * t),
        scale: Vector3::new(1.0 + 0.05 * t, 1.0 - 0.03 * t, 1.0),
        ..AffineParameters::identity(centre)
    }
    .to_affine()
}

const AT: [f64; 3] = [-20.0, 10.0, 5.0];

fn marks() -> Vec<Vector3<f64>> {
    [[-20.0, 10.0, 5.0], [20.0, -20.0, -15.0], [-30.0, -30.0, 15.0], [10.0, 35.0, -25.0]]
        .map(Vector3::from)
        .into()
}

/// Heads with labels, a surface of other triangles each, and landmarks: `0.nii.gz`, `l0.nii.gz`, `s0.vtk`, `m0.csv`, ...
fn subjects(place: &Place) {
    let grid = grid([36, 40, 34], 5.0);
    for i in 0..COUNT {
        let way = to_head(i);
        let back = way.inverse().unwrap();
        place.image(&format!("{i}.nii.gz"), &head(&grid, &way));
        place.labels(&format!("l{i}.nii.gz"), &regions(&grid, &way));
        let surface = ellipsoid(AT, [24.0, 30.0, 20.0], 10 + i).map(|p| back.apply(*p)).unwrap();
        write(place, &format!("s{i}.vtk"), &surface);
        let own = PointSet::new(marks().into_iter().map(|p| back.apply(p)).collect());
        let ras = points::WriteOptions::default();
        points::write(place.path(&format!("m{i}.csv")), &own, &ras).unwrap();
    }
}

/// The files of anatomies with these tables, in which `#` is the number of the subject.
fn anatomies(place: &Place, tables: &str) {
    for i in 0..COUNT {
        place.write(&format!("{i}.toml"), &tables.replace('#', &i.to_string()));
    }
}

const IMAGE: &str = "[[image]]\nname = 't1'\nimage = '#.nii.gz'\n";
const CLASSES: &str = "[[probability]]\nname = 'one'\nlabels = 'l#.nii.gz'\nlabel = 1\nsigma = 4\n\
                       [[probability]]\nname = 'two'\nlabels = 'l#.nii.gz'\nlabel = 2\nsigma = 4\n";
const SURFACE: &str = "[[surface]]\nname = 'inner'\nmesh = 's#.vtk'\nwidth = 12\n";
const REGION: &str =
    "[[surface]]\nname = 'region'\nlabels = 'l#.nii.gz'\nlabel = 1\nsmoothing = 10\nwidth = 20\n";
const MARKS: &str = "[[landmarks]]\nname = 'marks'\npoints = 'm#.csv'\n";
const SHORT: &str = "--align rigid --schedule 2x30,1x15 --device cpu";

fn record(place: &Place, folder: &str) -> serde_json::Value {
    let text = fs::read_to_string(place.path(&format!("{folder}/result.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Of every subject the mean distances of a shape and of landmarks, before and after.
fn fares(record: &serde_json::Value) -> Vec<[f64; 4]> {
    let of = |s: &serde_json::Value| {
        let (shape, marks) = (&s["anatomy"]["shapes"][0], &s["anatomy"]["landmarks"][0]);
        let number = |v: &serde_json::Value| v.as_f64().unwrap_or(f64::NAN);
        [
            number(&shape["before"]["mean"]),
            number(&shape["after"]["mean"]),
            number(&marks["mean_before_mm"]),
            number(&marks["mean_after_mm"]),
        ]
    };
    record["subjects"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_template_with_surfaces_and_landmarks() {
    let place = Place::new();
    subjects(&place);
    anatomies(&place, &[IMAGE, CLASSES, SURFACE, REGION, MARKS].concat());
    let done = place.line(&format!("atlas 0.toml 1.toml 2.toml -o a {SHORT}"));
    done.expect(0);
    assert_eq!(names(&place.path("a/shapes")), ["inner.surf.gii", "marks.csv", "region.surf.gii"]);
    for i in 0..COUNT {
        let own = names(&place.path(&format!("a/subjects/{i}/shapes")));
        assert_eq!(own, ["inner.surf.gii", "marks.csv", "region.surf.gii"]);
        let channels = names(&place.path(&format!("a/subjects/{i}")));
        assert!(channels.contains(&"warped3.nii.gz".to_owned()), "{channels:?}");
    }
    let made = record(&place, "a");
    assert_eq!(made["verdict"]["good"], true);
    let kinds: Vec<_> = made["geometry"].as_array().unwrap().iter().map(|g| &g["kind"]).collect();
    assert_eq!(kinds, ["surface", "surface", "landmarks"]);
    assert!(made["geometry"][0]["variation_mm"].as_f64().unwrap() > 0.1);
    assert_eq!(made["parameters"]["anatomy"][2]["channel"], 1);
    for [before, after, marks_before, marks_after] in fares(&made) {
        println!(
            "surface {before:.2} -> {after:.2} mm, landmarks {marks_before:.2} -> {marks_after:.2}"
        );
        assert!(after < 0.7 && marks_after < marks_before.max(1.0));
    }
    let inputs = made["inputs"].as_array().unwrap();
    let roles: Vec<_> = inputs.iter().filter_map(|i| i["role"].as_str()).collect();
    for role in ["anatomy", "channel", "probability", "shape", "landmarks"] {
        assert!(roles.contains(&role), "{roles:?}");
    }
    // The template's surface lies where its subjects are carried to.
    let read = |name: &str| mesh::read(place.path(name), &ReadOptions::default()).unwrap().0;
    let template = read("a/shapes/inner.surf.gii");
    assert_eq!(template.data()[0].name, "variation_mm");
    let warps = "-t a/subjects/1/warp.nii.gz -t a/subjects/1/affine.tfm";
    place.line(&format!("apply -i s1.vtk {warps} -o back.vtk")).expect(0);
    let apart = compare_meshes(&template, &read("back.vtk")).unwrap().mean;
    println!("the surface of a subject is {apart:.2} mm from that of the template");
    assert!(apart < 0.8, "{apart}");
    let page = fs::read_to_string(place.path("a/report.html")).unwrap();
    for part in ["fig-3d", "fig-sections", "id=\"geometry\"", "variation over the subjects"] {
        assert!(page.contains(part), "{part}");
    }
    // In another order, from a list, in one process or streamed, the same bits.
    place.write("list.csv", "path,age\n2.toml,1\n0.toml,2\n1.toml,3\n");
    place
        .line(&format!("atlas --list list.csv -o b {SHORT} --device-memory 1 --no-report"))
        .expect(0);
    for name in ["atlas.nii.gz", "shapes/inner.surf.gii", "subjects/1/shapes/inner.surf.gii"] {
        let bytes = |folder: &str| fs::read(place.path(&format!("{folder}/{name}"))).unwrap();
        assert!(bytes("a") == bytes("b"), "{name}");
    }
}

#[test]
fn surfaces_alone_make_an_atlas() {
    let place = Place::new();
    subjects(&place);
    anatomies(&place, SURFACE);
    // An ellipsoid is like itself turned round, so that it is taken as it lies.
    let options = SHORT.replace("rigid", "none");
    place.line(&format!("atlas 0.toml 1.toml 2.toml -o a {options} --spacing 4")).expect(0);
    let fares = fares(&record(&place, "a"));
    println!("{fares:?}");
    // That of which the template has the triangles lies on it before.
    let sums = fares.iter().fold([0.0; 2], |s, f| [s[0] + f[0], s[1] + f[1]]);
    assert!(sums[1] < sums[0] && fares.iter().all(|f| f[1] < 0.5));
    let read = |name: &str| mesh::read(place.path(name), &ReadOptions::default()).unwrap().0;
    let template = read("a/shapes/inner.surf.gii");
    let bounds = |m: &voxalign_image::Mesh| m.bounds().map(|[low, high]| high - low).unwrap();
    let mean = (0..COUNT).map(|i| bounds(&read(&format!("s{i}.vtk")))).sum::<Vector3<f64>>() / 3.0;
    assert!((bounds(&template) - mean).norm() < 3.0, "{} {}", bounds(&template), mean);
    assert!(compare_meshes(&template, &template).unwrap().mean < 1e-6);
}

#[test]
fn what_cannot_be_is_refused() {
    let place = Place::new();
    subjects(&place);
    anatomies(&place, &[IMAGE, SURFACE].concat());
    let refused = |line: &str, said: &[&str]| {
        let done = place.line(&format!("atlas {line} -o a --device cpu"));
        assert_eq!(done.code, 2, "{line}: {}", done.err);
        for part in said {
            assert!(done.err.contains(part), "{line}: {}", done.err);
        }
        assert!(!place.path("a").exists(), "{line}");
    };
    refused("0.toml 1.nii.gz", &["1.nii.gz", "only anatomy files or only images"]);
    refused("0.toml 1.toml --similarity ssd", &["--similarity", "files of the anatomies"]);
    refused("0.toml 1.toml --exclude unreadable", &["unreadable"]);
    refused("0.toml 1.toml --stability 2..2", &["--stability"]);
    refused("0.toml none.toml", &["none.toml", "cannot read"]);
    place.write("list.csv", "path,age\n0.toml,1\n1.toml,2\n");
    refused("--list list.csv --regress age --at 1 --bandwidth 1", &["--regress"]);
    place.write("list.csv", "path,channel2\n0.toml,1.nii.gz\n1.toml,2.nii.gz\n");
    refused("--list list.csv", &["several channels"]);
    place.write("1.toml", &IMAGE.replace('#', "1"));
    refused("0.toml 1.toml", &["'inner'", "0.toml", "1.toml"]);
    place.write("1.toml", &[IMAGE, SURFACE].concat().replace('#', "1").replace("12", "10"));
    refused("0.toml 1.toml", &["width"]);
    place.write("1.toml", &[IMAGE, SURFACE].concat().replace('#', "1").replace("s1", "s9"));
    refused("0.toml 1.toml", &["s9.vtk"]);
    let far = ellipsoid([500.0, 0.0, 0.0], [9.0; 3], 9);
    write(&place, "far.vtk", &far);
    place.write("1.toml", &[IMAGE, SURFACE].concat().replace("s#", "far").replace('#', "1"));
    refused("0.toml 1.toml", &["1.toml", "100 % of its points lie outside of its image"]);
    anatomies(&place, &[IMAGE, MARKS].concat());
    let few = PointSet::new(marks()[..2].to_vec());
    points::write(place.path("m1.csv"), &few, &points::WriteOptions::default()).unwrap();
    refused("0.toml 1.toml", &["'marks'", "4 points", "2"]);
}
