//! `invert`, `compose`, and transforms in `convert` and `info`.

use crate::common::{Place, grid, motion};
use voxalign_image::{Affine, Displacement, Transform, Vector3, VectorField};
use voxalign_io::transform::{Geometry, read, write};

const GEOMETRY: &str = "--fixed-geometry fixed.nii.gz --moving-geometry moving.nii.gz";

fn saved(place: &Place, name: &str, affine: Affine) {
    write(place.path(name), &Transform::Affine(affine), &Geometry::default()).unwrap();
}

fn loaded(place: &Place, name: &str) -> Affine {
    read(place.path(name), &Geometry::default()).unwrap().to_affine().unwrap()
}

fn distance(a: &Affine, b: &Affine) -> f64 {
    let points = [
        Vector3::new(80.0, -60.0, 70.0),
        Vector3::new(-80.0, 60.0, 0.0),
        Vector3::new(0.0, 0.0, -90.0),
        Vector3::zeros(),
    ];
    a.largest_distance(b, &points)
}

#[test]
fn an_inverse_undoes() {
    let place = Place::new();
    saved(&place, "t.tfm", motion());
    place.line("invert -t t.tfm -o i.mat").expect(0);
    let whole = motion().then(&loaded(&place, "i.mat"));
    assert!(distance(&whole, &Affine::identity()) < 1e-3);
    place.line("compose -t t.tfm -t i.mat -o same.txt").expect(0);
    assert!(distance(&loaded(&place, "same.txt"), &Affine::identity()) < 1e-3);
}

#[test]
fn composition_has_the_order_of_apply() {
    let place = Place::new();
    let other = Affine::translation(Vector3::new(10.0, 0.0, -4.0));
    saved(&place, "a.tfm", motion());
    saved(&place, "b.tfm", other);
    place.line("compose -t a.tfm -t b.tfm -o ab.tfm").expect(0);
    assert!(distance(&loaded(&place, "ab.tfm"), &motion().then(&other)) < 1e-6);
    place.line("compose -t inverse:b.tfm -t a.tfm -o c.tfm").expect(0);
    let expected = other.inverse().unwrap().then(&motion());
    assert!(distance(&loaded(&place, "c.tfm"), &expected) < 1e-6);
}

#[test]
fn every_format_holds_the_same_affine() {
    let place = Place::new();
    place.pair();
    saved(&place, "t.tfm", motion());
    for name in ["t.txt", "t.mat", "t.fsl", "t.fsl.mat"] {
        place.line(&format!("convert t.tfm {name} {GEOMETRY}")).expect(0);
        place.line(&format!("convert {name} back.tfm {GEOMETRY}")).expect(0);
        let off = distance(&loaded(&place, "back.tfm"), &motion());
        assert!(off < 1e-3, "{name}: {off}");
    }
    // The inverse of an FSL matrix is between the images the other way round.
    place.line(&format!("invert -t t.fsl.mat -o i.fsl.mat {GEOMETRY}")).expect(0);
    place
        .line(
            "convert i.fsl.mat i.tfm --fixed-geometry moving.nii.gz --moving-geometry fixed.nii.gz",
        )
        .expect(0);
    let whole = motion().then(&loaded(&place, "i.tfm"));
    assert!(distance(&whole, &Affine::identity()) < 1e-3);
}

#[test]
fn fields() {
    let place = Place::new();
    place.pair();
    let field = VectorField::from_world_fn(grid([40, 44, 40], 4.0), |w| {
        Vector3::new((w[1] / 30.0).sin(), (w[2] / 35.0).cos(), (w[0] / 40.0).sin()) * 3.0
    });
    let field = Transform::Displacement(Displacement::new(field));
    write(place.path("warp.nii.gz"), &field, &Geometry::default()).unwrap();
    place.line("invert -t warp.nii.gz -o inverse.nii.gz").expect(0);
    let inverse = read(place.path("inverse.nii.gz"), &Geometry::default()).unwrap();
    let points: Vec<_> = (0..50).map(|i| Vector3::repeat(f64::from(i) - 25.0)).collect();
    let consistency = field.inverse_consistency(&inverse, &points);
    assert!(consistency.largest < 0.1, "{consistency:?}");

    let info = place.line("info warp.nii.gz --json").expect(0).json();
    assert_eq!(info["model"], "displacement field");
    assert!(info["largest_displacement_mm"].as_f64().unwrap() > 3.0);

    // A field and an affine make a field, which needs a format that can hold it and a grid: that of
    // the field where none is given.
    saved(&place, "t.tfm", motion());
    let compose = "compose -t warp.nii.gz -t t.tfm";
    place.line(&format!("{compose} -o both.tfm")).expect(2).says(&["both.tfm"]);
    let run = place.line(&format!("{compose} -o own.nii.gz")).expect(0);
    run.says(&["on the grid of the first displacement field", "--fixed-geometry"]);
    let line = format!("{compose} -o both.nii.gz --fixed-geometry warp.nii.gz");
    assert!(place.line(&line).expect(0).err.is_empty());
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(bytes("own.nii.gz") == bytes("both.nii.gz"));
    let quiet = place.line(&format!("{compose} -o own.nii.gz --quiet")).expect(0);
    assert!(quiet.err.is_empty(), "{}", quiet.err);
    place.line(&format!("{compose} -o both.nii.gz --fixed-geometry fixed.nii.gz")).expect(0);
    let both = read(place.path("both.nii.gz"), &Geometry::default()).unwrap();
    let p = Vector3::new(10.0, -20.0, 15.0);
    assert!((both.apply(p) - motion().apply(field.apply(p))).norm() < 0.1);
    // An affine as a field.
    place.line("convert t.tfm t.nii.gz --fixed-geometry fixed.nii.gz").expect(0);
    let as_field = read(place.path("t.nii.gz"), &Geometry::default()).unwrap();
    assert!((as_field.apply(p) - motion().apply(p)).norm() < 1e-3);
}

#[test]
fn info_tells_the_parts() {
    let place = Place::new();
    place.pair();
    saved(&place, "t.tfm", Affine::translation(Vector3::new(1.5, -2.0, 3.0)));
    let info = place.line("info t.tfm").expect(0);
    for part in ["affine", "translation mm", "1.5  -2  3", "rotation degrees", "odd", "none"] {
        assert!(info.out.contains(part), "{part} is not in\n{}", info.out);
    }
    let json = place.line("info t.tfm --json").expect(0).json();
    assert_eq!(json["translation_mm"], serde_json::json!([1.5, -2.0, 3.0]));
    let mirror = Affine::new(
        voxalign_image::Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.0)),
        Vector3::zeros(),
    );
    saved(&place, "m.tfm", mirror);
    assert!(place.line("info m.tfm").expect(0).out.contains("mirrors"));
}

/// A composite is told part by part, with the folds of its fields.
#[test]
fn info_tells_the_parts_of_a_composite() {
    let place = Place::new();
    // Along x the field goes back by more than a voxel at the middle.
    let grid = grid([12, 10, 8], 2.0);
    let mut field = VectorField::zeros(grid);
    for i in 0..field.grid().len() {
        let sign = if i % 12 < 6 { 3.0 } else { -3.0 };
        field.set(i, Vector3::new(sign, 0.0, 0.0));
    }
    let parts =
        vec![Transform::Displacement(Displacement::new(field)), Transform::Affine(motion())];
    let whole = Transform::Composite(parts);
    write(place.path("a.h5"), &whole, &Geometry::default()).unwrap();
    let said = place.line("info a.h5 --json").expect(0).json();
    let parts = said["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0]["model"], "displacement field");
    let folded = parts[0]["folded_voxels"].as_u64().unwrap();
    assert!(folded > 0 && said["folded_voxels"] == folded, "{said}");
    assert_eq!(parts[1]["model"], "affine");
    let run = place.line("info a.h5").expect(0);
    assert!(
        run.out.contains("part 2 of 2") && run.out.contains("rotation total degrees"),
        "{}",
        run.out
    );
}

/// FreeSurfer's transform, from the moving to the fixed image, is read as any other.
#[test]
fn freesurfer_transforms_are_read() {
    let place = Place::new();
    let volume = "valid = 0\n";
    let rows = "1 0 0 5\n0 1 0 -3\n0 0 1 7\n0 0 0 1\n";
    place.write(
        "a.lta",
        &format!("type = 1\nnxforms = 1\nmean = 0 0 0\nsigma = 1\n1 4 4\n{rows}src volume info\n{volume}dst volume info\n{volume}"),
    );
    place.line("convert a.lta a.tfm").expect(0);
    let back = Affine::translation(Vector3::new(-5.0, 3.0, -7.0));
    assert!(distance(&loaded(&place, "a.tfm"), &back) < 1e-12);
    place.line("invert -t a.lta -o b.lta").expect(2).says(&["b.lta", ".tfm"]);
}

#[test]
fn bad_transforms() {
    let place = Place::new();
    place.pair();
    saved(&place, "t.tfm", motion());
    place.write("bad.tfm", "nothing");
    place.line("invert -t bad.tfm -o i.tfm").expect(2).says(&["bad.tfm"]);
    place.line("invert -t none.tfm -o i.tfm").expect(2).says(&["none.tfm", "check the path"]);
    place.line("invert -t t.tfm -o i.xyz").expect(2).says(&["i.xyz", ".tfm"]);
    place.line("convert t.tfm t.fsl").expect(2).says(&["image is needed"]);
    place.line(&format!("convert t.tfm t.fsl.mat {GEOMETRY}")).expect(0);
    place.line("info t.fsl.mat").expect(2).says(&["--fixed-geometry"]);
    place.line("convert t.tfm t.csv").expect(2).says(&["transforms to transforms"]);
    place.line("convert t.tfm i.tfm --data-type u8").expect(2).says(&["--data-type is for images"]);
    // A NIfTI file that is no field is no transform.
    place.line("invert -t fixed.nii.gz -o i.tfm").expect(2).says(&["fixed.nii.gz"]);
    for name in ["i.tfm", "i.xyz", "t.fsl", "t.csv"] {
        assert!(!place.path(name).exists(), "{name} is left");
    }
}

/// A matrix that squeezes space flat: `info` calls it odd, nothing inverts it.
#[test]
fn singular_matrices_are_odd_and_have_no_inverse() {
    let place = Place::new();
    place.pair();
    let flat = |z: f64| {
        let scale = Vector3::new(1.0, 1.0, z);
        Affine::new(voxalign_image::Matrix3::from_diagonal(&scale), Vector3::zeros())
    };
    for z in [0.0, 1e-12, 1e-8] {
        saved(&place, "flat.tfm", flat(z));
        let info = place.line("info flat.tfm").expect(0);
        assert!(info.out.contains("the matrix is singular"), "{z}: {}", info.out);
        let json = place.line("info flat.tfm --json").expect(0).json();
        assert_eq!(json["odd"].as_array().unwrap().len(), 1, "{z}");
        for line in [
            "invert -t flat.tfm -o i.tfm",
            "compose -t inverse:flat.tfm -o i.tfm",
            "apply -i fixed.nii.gz -r moving.nii.gz -t inverse:flat.tfm -o i.nii.gz",
        ] {
            place.line(line).expect(2).says(&["flat.tfm", "singular", "no inverse"]);
        }
        assert!(!place.path("i.tfm").exists() && !place.path("i.nii.gz").exists());
        let line = "apply -i moving.nii.gz -r fixed.nii.gz -t flat.tfm -o w.nii.gz";
        let run = place.line(line).says(&["warning", "flat.tfm", "singular"]);
        assert!(run.code < 2);
    }
    // What is merely extreme is told, and can be inverted.
    saved(&place, "thin.tfm", flat(0.01));
    let info = place.line("info thin.tfm").expect(0);
    assert!(info.out.contains("scaled by 0.01"), "{}", info.out);
    place.line("invert -t thin.tfm -o i.tfm").expect(0);
    saved(&place, "usual.tfm", motion());
    let json = place.line("info usual.tfm --json").expect(0).json();
    assert_eq!(json["odd"], serde_json::json!([]));
}

/// A transform of the plane does nothing along z: it is refused for images that have depth.
#[test]
fn transforms_of_the_plane_are_for_images_of_the_plane() {
    let place = Place::new();
    place.pair();
    let flat = voxalign_image::Volume::from_fn(grid([40, 44, 1], 4.0), |x, y, _| (x + y) as f32);
    let options = voxalign_io::image::WriteOptions {
        dimensions: 2,
        ..voxalign_io::image::WriteOptions::default()
    };
    voxalign_io::image::write_volume(place.path("flat.nii.gz"), &flat, &options).unwrap();
    place.write(
        "plane.tfm",
        "#Insight Transform File V1.0\n#Transform 0\nTransform: AffineTransform_double_2_2\n\
         Parameters: 1 0 0 1 4 0\nFixedParameters: 0 0\n",
    );
    place.line("compose -t plane.tfm -o plane.nii.gz --fixed-geometry flat.nii.gz").expect(0);
    saved(&place, "t.tfm", motion());
    for t in ["plane.tfm", "plane.nii.gz", "inverse:plane.tfm"] {
        let said = [t.trim_start_matches("inverse:"), "2D transform", "3 dimensions"];
        for line in [
            format!("apply -i moving.nii.gz -r fixed.nii.gz -t {t} -o w.nii.gz"),
            format!("apply -i moving.nii.gz -r fixed.nii.gz -t t.tfm -t {t} -o w.nii.gz"),
            format!("compose -t {t} -o w.nii.gz --fixed-geometry fixed.nii.gz"),
        ] {
            place.line(&line).expect(2).says(&said);
        }
        place.line(&format!("apply -i flat.nii.gz -r flat.nii.gz -t {t} -o f.nii.gz")).expect(0);
    }
    let said = ["plane.tfm", "2D transform"];
    place.line("affine fixed.nii.gz moving.nii.gz -o out --init plane.tfm").expect(2).says(&said);
    place.line("deform fixed.nii.gz moving.nii.gz -o out --affine plane.tfm").expect(2).says(&said);
    assert!(!place.path("w.nii.gz").exists() && !place.path("out").exists());
}
