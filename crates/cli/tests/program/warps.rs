//! Displacement fields in every command.

use crate::common::{Place, grid, head, motion};
use voxalign_image::{Affine, Displacement, Grid, Transform, Vector3, VectorField};
use voxalign_io::image::{read_info, read_labels, read_volume};
use voxalign_io::points::{self, ReadOptions};
use voxalign_io::transform::{Geometry, read, write};

/// A smooth displacement that leaves the border where it is.
fn bend(w: Vector3<f64>) -> Vector3<f64> {
    let fade = (1.0 - (w.norm() / 78.0).powi(2)).max(0.0);
    Vector3::new((w[1] / 25.0).sin(), (w[2] / 30.0).cos(), (w[0] / 35.0).sin()) * 5.0 * fade
}

fn warp(grid: &Grid) -> Transform {
    Transform::Displacement(Displacement::new(VectorField::from_world_fn(grid.clone(), bend)))
}

/// A place with the images of a pair, a warp, an affine and some points of the fixed image.
fn place() -> Place {
    let place = Place::new();
    place.pair();
    let geometry = Geometry::default();
    write(place.path("warp.nii.gz"), &warp(&grid([40, 44, 40], 4.0)), &geometry).unwrap();
    write(place.path("t.mat"), &Transform::Affine(motion()), &geometry).unwrap();
    place.write("fixed.csv", "x,y,z,name\n10,-20,15,a\n-30,5,-8,b\n0,0,0,c\n500,0,0,d\n");
    place
}

fn points(place: &Place, name: &str) -> Vec<Vector3<f64>> {
    points::read(place.path(name), &ReadOptions::default()).unwrap().0.points().to_vec()
}

fn largest(a: &[Vector3<f64>], b: &[Vector3<f64>]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
}

#[test]
fn points_go_there_and_back_exactly() {
    let place = place();
    let chain = "-t warp.nii.gz -t t.mat";
    place.line(&format!("apply -i fixed.csv {chain} -o moving.csv --points-from fixed")).expect(0);
    place.line(&format!("apply -i moving.csv {chain} -o back.csv")).expect(0);
    let (fixed, moving) = (points(&place, "fixed.csv"), points(&place, "moving.csv"));
    let field = read(place.path("warp.nii.gz"), &Geometry::default()).unwrap();
    let expected: Vec<_> = fixed.iter().map(|p| motion().apply(field.apply(*p))).collect();
    assert!(largest(&moving, &expected) < 1e-4);
    // Outside of the grid the field moves nothing.
    assert!((moving[3] - motion().apply(fixed[3])).norm() < 1e-4);
    assert!(largest(&points(&place, "back.csv"), &fixed) < 1e-3);
    // The inverse of a chain, link by link.
    place
        .line("apply -i moving.csv -t inverse:t.mat -t inverse:warp.nii.gz -o again.csv --points-from fixed")
        .expect(0);
    assert!(largest(&points(&place, "again.csv"), &fixed) < 1e-3);
}

#[test]
fn a_given_inverse_is_used() {
    let place = place();
    let shift = Affine::translation(Vector3::new(0.0, 0.0, 2.0));
    write(place.path("shift.mat"), &Transform::Affine(shift), &Geometry::default()).unwrap();
    place.line("convert shift.mat known.nii.gz --fixed-geometry fixed.nii.gz").expect(0);
    let known = "--inverse-warp known.nii.gz";
    place.line(&format!("apply -i fixed.csv -t warp.nii.gz {known} -o q.csv")).expect(0);
    let expected: Vec<_> =
        points(&place, "fixed.csv").iter().take(3).map(|p| shift.apply(*p)).collect();
    assert!(largest(&points(&place, "q.csv")[..3], &expected) < 1e-5);
    // For an image it stands in for the inverse of the link.
    let apply = "apply -i moving.nii.gz -r fixed.nii.gz";
    place.line(&format!("{apply} -t inverse:warp.nii.gz {known} -o a.nii.gz")).expect(0);
    place.line(&format!("{apply} -t known.nii.gz -o b.nii.gz")).expect(0);
    assert_eq!(
        read_volume(place.path("a.nii.gz")).unwrap(),
        read_volume(place.path("b.nii.gz")).unwrap()
    );
    for (line, says) in [
        (format!("{apply} -t warp.nii.gz {known} -o c.nii.gz"), "does not have exactly one"),
        (format!("{apply} -t inverse:t.mat {known} -o c.nii.gz"), "does not have exactly one"),
        (
            format!("{apply} -t inverse:warp.nii.gz --inverse-warp t.mat -o c.nii.gz"),
            "not a displacement field",
        ),
    ] {
        place.line(&line).expect(2).says(&[says, "--inverse-warp"]);
    }
    assert!(!place.path("c.nii.gz").exists());
}

#[test]
fn images_and_labels_are_pulled_through_chains() {
    let place = place();
    let chain = "-t warp.nii.gz -t t.mat";
    let both = |name: &str, t: &str| {
        let image = format!("apply -i moving.nii.gz -r fixed.nii.gz {t} -o {name}.nii.gz");
        place.line(&image).expect(0);
        read_volume(place.path(&format!("{name}.nii.gz"))).unwrap()
    };
    let warped = both("warped", chain);
    // The fixed head, bent.
    let g = grid([40, 44, 40], 4.0);
    let field = warp(&g);
    let mut worst: f64 = 0.0;
    let unbent = head(&g, &Affine::identity());
    for (x, y, z) in [(20, 22, 20), (12, 25, 18), (25, 15, 26), (18, 30, 14)] {
        let index = Vector3::new(x as f64, y as f64, z as f64);
        let p = g.world_to_index(field.apply(g.index_to_world(index)));
        let [a, b, c] = [p[0].round() as usize, p[1].round() as usize, p[2].round() as usize];
        let near: Vec<f32> = (0..27)
            .filter_map(|k| unbent.get(a + k % 3 - 1, b + k / 3 % 3 - 1, c + k / 9 - 1))
            .copied()
            .collect();
        let (low, high) = near.iter().fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        let v = *warped.get(x, y, z).unwrap();
        worst = worst.max(f64::from((low - v).max(v - high)));
    }
    assert!(worst < 3.0, "{worst}");
    // One field made of the chain gives nearly the same image.
    place.line(&format!("compose {chain} -o both.nii.gz --fixed-geometry fixed.nii.gz")).expect(0);
    let composed = both("composed", "-t both.nii.gz");
    let apart = warped.data().iter().zip(composed.data()).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f32::max) < 0.01);
    // Labels.
    let apply = "apply -i moving_labels.nii.gz -r fixed.nii.gz --interpolation label";
    place.line(&format!("{apply} {chain} -o labels.nii.gz")).expect(0);
    let labels = read_labels(place.path("labels.nii.gz")).unwrap();
    assert!((1..=5).all(|l| labels.data().contains(&l)));
}

#[test]
fn the_same_bits_with_any_number_of_threads() {
    let place = place();
    for n in [1, 2, 5] {
        let apply = "apply -i moving.nii.gz -r fixed.nii.gz -t t.mat -t inverse:warp.nii.gz";
        place.line(&format!("{apply} -o a{n}.nii --threads {n}")).expect(0);
        place.line(&format!("invert -t warp.nii.gz -o i{n}.nii --threads {n}")).expect(0);
        for name in ["a", "i"] {
            let [one, other] = [1, n].map(|n| std::fs::read(place.path(&format!("{name}{n}.nii"))));
            assert!(one.unwrap() == other.unwrap(), "{name} with {n} threads");
        }
    }
}

#[test]
fn invert_says_how_exact_it_is() {
    let place = place();
    let run = place.line("invert -t warp.nii.gz -o inverse.nii.gz").expect(0);
    assert!(run.out.contains("residual at the voxels") && run.out.contains("round-trip error"));
    let quiet = place.line("invert -t warp.nii.gz -o inverse.nii.gz --quiet").expect(0);
    assert_eq!(quiet.out, "");
    assert_eq!(place.line("invert -t t.mat -o i.mat").expect(0).out, "");
    // There and back, with the files.
    place
        .line(
            "compose -t warp.nii.gz -t inverse.nii.gz -o none.nii.gz --fixed-geometry fixed.nii.gz",
        )
        .expect(0);
    write(place.path("id.tfm"), &Transform::identity(), &Geometry::default()).unwrap();
    let scores = place.line("compare --transforms none.nii.gz id.tfm --json").expect(0).json();
    assert!(scores["transforms"]["max"].as_f64().unwrap() < 0.1, "{scores}");
    // A field that folds all over is told by the way there and back.
    let g = grid([20, 20, 20], 4.0);
    let folded = VectorField::from_world_fn(g, |w| Vector3::new(-3.0 * w[0], w[1], 0.0));
    let folded = Transform::Displacement(Displacement::new(folded));
    write(place.path("folded.nii.gz"), &folded, &Geometry::default()).unwrap();
    place.line("invert -t folded.nii.gz -o no.nii.gz").expect(1).says(&["folded.nii.gz", "folds"]);
    place.line("invert -t folded.nii.gz -o no.nii.gz --quiet").expect(1);
    let info = place.line("info folded.nii.gz --json").expect(0).json();
    assert_eq!(info["folded_voxels"], 8000);
    assert!((info["smallest_jacobian_determinant"].as_f64().unwrap() + 4.0).abs() < 1e-3);
}

#[test]
fn info_tells_about_a_field() {
    let place = place();
    let run = place.line("info warp.nii.gz").expect(0);
    for part in
        ["displacement field", "NIfTI-1", "40  44  40  1  3", "folded voxels", "determinant"]
    {
        assert!(run.out.contains(part), "{part} is not in\n{}", run.out);
    }
    let info = place.line("info warp.nii.gz --json").expect(0).json();
    let number = |name: &str| info[name].as_f64().unwrap();
    assert_eq!(info["folded_voxels"], 0);
    assert!(number("smallest_jacobian_determinant") > 0.5);
    assert!(number("largest_displacement_mm") > 5.0 && number("largest_displacement_mm") < 8.0);
    assert!(number("largest_displacement_at_border_mm") < 1e-6);
    assert!(info["smallest_components_mm"][0].as_f64().unwrap() < -3.0);
}

#[test]
fn transforms_are_compared() {
    let place = place();
    let shift = Affine::translation(Vector3::new(0.0, 3.0, 4.0));
    write(place.path("a.tfm"), &Transform::identity(), &Geometry::default()).unwrap();
    write(place.path("b.tfm"), &Transform::Affine(shift), &Geometry::default()).unwrap();
    let compare = |words: &str| place.line(&format!("compare --transforms {words}"));
    compare("a.tfm b.tfm").expect(2).says(&["--mask", "--fixed-geometry"]);
    let json =
        |words: &str| compare(&format!("{words} --json")).expect(0).json()["transforms"].clone();
    let all = json("a.tfm b.tfm --fixed-geometry fixed.nii.gz");
    assert!((all["mean"].as_f64().unwrap() - 5.0).abs() < 1e-9);
    assert_eq!(all["voxels"], 40 * 44 * 40);
    let masked = json("a.tfm b.tfm --mask fixed_labels.nii.gz");
    assert!(masked["voxels"].as_u64().unwrap() < 40 * 44 * 40);
    let field = json("warp.nii.gz a.tfm");
    assert!(field["max"].as_f64().unwrap() > 5.0 && field["voxels"] == 40 * 44 * 40);
    assert_eq!(json("warp.nii.gz warp.nii.gz")["max"], 0.0);
    assert!(json("warp.nii.gz inverse:warp.nii.gz")["max"].as_f64().unwrap() > 5.0);
    let run = compare("warp.nii.gz a.tfm").expect(0);
    assert!(run.out.contains("95th percentile") && run.out.contains("largest at"));
    place
        .line("compare fixed.nii.gz fixed.nii.gz --fixed-geometry fixed.nii.gz")
        .expect(2)
        .says(&["--transforms"]);
}

#[test]
fn fields_of_two_dimensions() {
    let place = Place::new();
    let g = Grid::axis_aligned([60, 50, 1], [2.0, 2.0, 1.0]).unwrap();
    let field = VectorField::from_world_fn(g.clone(), |w| {
        Vector3::new((w[1] / 15.0).sin() * 2.0, (w[0] / 20.0).cos() * 2.0, 0.0)
    });
    let field = Transform::Displacement(Displacement::new(field));
    write(place.path("warp.nii.gz"), &field, &Geometry::default()).unwrap();
    assert_eq!(read_info(place.path("warp.nii.gz")).unwrap().dims, [60, 50, 1, 1, 2]);
    place.image("i.nii.gz", &head(&g, &Affine::translation(Vector3::new(-60.0, -50.0, 0.0))));
    place.line("invert -t warp.nii.gz -o inverse.nii.gz").expect(0);
    place
        .line("apply -i i.nii.gz -r i.nii.gz -t warp.nii.gz -t inverse.nii.gz -o same.nii.gz")
        .expect(0);
    let [a, b] = ["i.nii.gz", "same.nii.gz"].map(|n| read_volume(place.path(n)).unwrap());
    // Away from the border, which the field moves.
    for (x, y) in [(20, 20), (30, 25), (40, 30)] {
        let d = a.get(x, y, 0).unwrap() - b.get(x, y, 0).unwrap();
        assert!(d.abs() < 1.0, "{d} at {x} {y}");
    }
    assert_eq!(place.line("info warp.nii.gz --json").expect(0).json()["folded_voxels"], 0);
}

#[test]
fn containers_of_itk_hold_fields_and_matrices() {
    let place = place();
    place.line("compose -t warp.nii.gz -t t.mat -o both.h5").expect(0);
    let [warp, affine, both] = ["warp.nii.gz", "t.mat", "both.h5"]
        .map(|name| read(place.path(name), &Geometry::default()).unwrap());
    for p in [[10.0, -20.0, 15.0], [-30.0, 5.0, -8.0], [500.0, 0.0, 0.0]].map(Vector3::from) {
        assert!((both.apply(p) - affine.apply(warp.apply(p))).norm() < 1e-6);
    }
    let apply = "apply -i fixed.csv --points-from fixed";
    place.line(&format!("{apply} -t warp.nii.gz -t t.mat -o p.csv")).expect(0);
    place.line(&format!("{apply} -t both.h5 -o q.csv")).expect(0);
    for (p, q) in points(&place, "p.csv").iter().zip(points(&place, "q.csv")) {
        assert!((p - q).norm() < 1e-5, "{p} {q}");
    }
    place.line("convert warp.nii.gz warp.h5").expect(0);
    let info = place.line("info warp.h5 --json").expect(0).json();
    assert_eq!(info["model"], "displacement field");
    assert_eq!(info["folded_voxels"], 0);
    std::fs::write(place.path("c.h5"), b"\x89HDF\r\n\x1a\n").unwrap();
    place.line("apply -i fixed.csv -t c.h5 -o r.csv").expect(2).says(&["c.h5", "ends early"]);
}
