//! Atlases from files to files.

use crate::common::{Place, grid, head, names, regions};
use std::fs;
use voxalign_image::{Affine, AffineParameters, Vector3};
use voxalign_io::image::read_volume;
use voxalign_io::transform::{Geometry, read};

/// Four heads in different places and sizes, with labels: `0.nii.gz` to `3.nii.gz`.
fn heads(place: &Place) {
    let grid = grid([36, 40, 34], 5.0);
    for i in 0..4 {
        let t = f64::from(i) - 1.5;
        let way = AffineParameters {
            rotation: Vector3::new(0.02 * t, 0.0, 0.05 * t),
            translation: Vector3::new(3.0 * t, -2.0 * t, 4.0),
            scale: Vector3::new(1.0 + 0.03 * t, 1.0, 1.0 - 0.02 * t),
            ..AffineParameters::identity(grid.centre())
        };
        let to_head = way.to_affine();
        place.image(&format!("{i}.nii.gz"), &head(&grid, &to_head));
        place.labels(&format!("l{i}.nii.gz"), &regions(&grid, &to_head));
    }
}

const SHORT: &str = "--schedule 2x6,1x3 --device cpu";

#[test]
fn from_files_to_files_in_any_order() {
    let place = Place::new();
    heads(&place);
    let list = "path,labels,age\n0.nii.gz,l0.nii.gz,60\n1.nii.gz,l1.nii.gz,65\n\
                2.nii.gz,l2.nii.gz,70\n3.nii.gz,l3.nii.gz,75\n";
    place.write("list.csv", list);
    place.line(&format!("atlas --list list.csv -o a {SHORT}")).expect(0);
    let of_atlas = [
        "atlas.nii.gz",
        "atlas_affine.nii.gz",
        "entropy.nii.gz",
        "labels.nii.gz",
        "log_jacobian.nii.gz",
        "report.html",
        "result.json",
        "subjects",
        "variance.nii.gz",
    ];
    assert_eq!(names(&place.path("a")), of_atlas);
    let of_subject =
        ["affine.tfm", "inverse_warp.nii.gz", "jacobian.nii.gz", "warp.nii.gz", "warped.nii.gz"];
    for i in 0..4 {
        assert_eq!(names(&place.path(&format!("a/subjects/{i}"))), of_subject);
    }
    let text = fs::read_to_string(place.path("a/result.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let figure = |name: &str| record["figures"][name].as_f64().unwrap();
    let overlap = ["label_overlap_before", "label_overlap_after"].map(figure);
    println!("overlap {overlap:?}");
    assert!(overlap[1] > 0.8, "{overlap:?}");
    assert_eq!(record["subjects"].as_array().unwrap().len(), 4);
    assert_eq!(record["verdict"]["good"], true);
    // The affine maps have no mean way: it is that of no subject.
    let centre = read_volume(place.path("a/atlas.nii.gz")).unwrap().grid().centre();
    let mut mean = Vector3::zeros();
    for i in 0..4 {
        let path = place.path(&format!("a/subjects/{i}/affine.tfm"));
        let affine = read(&path, &Geometry::default()).unwrap().to_affine().unwrap();
        mean += (affine.apply(centre) - centre) / 4.0;
    }
    assert!(mean.norm() < 1.0, "{mean}");

    // Other names, another order, other threads: the same bits.
    place
        .line(&format!("atlas 3.nii.gz 1.nii.gz 0.nii.gz 2.nii.gz -o b {SHORT} --threads 1"))
        .expect(0);
    for name in ["atlas.nii.gz", "variance.nii.gz", "subjects/2/warp.nii.gz"] {
        let [a, b] = ["a", "b"].map(|f| fs::read(place.path(&format!("{f}/{name}"))).unwrap());
        assert!(a == b, "{name} differs");
    }

    // A subject is carried to the atlas by what is written for it.
    place
        .line(
            "apply -i 1.nii.gz -r a/atlas.nii.gz -t a/subjects/1/warp.nii.gz \
             -t a/subjects/1/affine.tfm -o w.nii.gz",
        )
        .expect(0);
    let carried = read_volume(place.path("w.nii.gz")).unwrap();
    let warped = read_volume(place.path("a/subjects/1/warped.nii.gz")).unwrap();
    let top = carried.data().iter().fold(0f32, |a, &b| a.max(b));
    let scale = warped.data().iter().fold(0f32, |a, &b| a.max(b)) / top;
    let pairs = carried.data().iter().zip(warped.data());
    let off: f32 = pairs.map(|(a, b)| (a * scale - b).abs()).sum::<f32>();
    assert!(off / (carried.data().len() as f32) < 0.01, "{off}");
}

#[test]
fn no_files_for_subjects_and_images_that_are_aligned() {
    let place = Place::new();
    heads(&place);
    let line = format!("atlas 0.nii.gz 1.nii.gz -o a --align none --no-subjects {SHORT}");
    place.line(&line).expect(0);
    assert!(!place.path("a/subjects").exists());
    // What an older atlas left for its subjects is not part of this one; what is not of an atlas stays.
    let whole = format!("atlas 1.nii.gz 2.nii.gz 3.nii.gz -o a --align none {SHORT}");
    place.line(&whole).expect(0);
    assert_eq!(names(&place.path("a/subjects")), ["1", "2", "3"]);
    place.write("a/subjects/3/notes.txt", "mine");
    place.line(&line.replace("--no-subjects", "")).expect(0);
    assert_eq!(names(&place.path("a/subjects")), ["0", "1", "3"]);
    assert_eq!(names(&place.path("a/subjects/3")), ["notes.txt"]);
    place.line(&line).expect(0);
    assert_eq!(names(&place.path("a/subjects")), ["3"]);
    let atlas = read_volume(place.path("a/atlas.nii.gz")).unwrap();
    let image = read_volume(place.path("0.nii.gz")).unwrap();
    assert!(atlas.grid().approx_eq(image.grid(), 1e-4));
}

#[test]
fn bad_input_leaves_nothing() {
    let place = Place::new();
    heads(&place);
    place.image("flat.nii", &head(&grid([30, 30, 1], 5.0), &Affine::identity()));
    place.write("list.csv", "path,weight\n0.nii.gz,1\n1.nii.gz,-1\n");
    place.write("text.nii", "no image");
    for (line, said) in [
        ("atlas 0.nii.gz -o a", "at least two images"),
        ("atlas 0.nii.gz flat.nii -o a", "all 2D or all 3D"),
        ("atlas 0.nii.gz none.nii.gz -o a", "none.nii.gz"),
        ("atlas 0.nii.gz text.nii -o a", "text.nii"),
        ("atlas --list list.csv -o a", "line 3: the weight -1 is not above 0"),
        ("atlas 0.nii.gz 1.nii.gz -o a --align none --rounds 3", "--rounds"),
        ("atlas 0.nii.gz 1.nii.gz -o a --schedule 4", "is not a scale"),
        ("atlas 0.nii.gz 1.nii.gz -o a --spacing 0", "above 0"),
        ("atlas 0.nii.gz 1.nii.gz -o a --model lddmm --solver gaussian", "--solver"),
    ] {
        place.line(&format!("{line} --device cpu")).expect(2).says(&[said]);
        assert!(!place.path("a").exists(), "{line}");
    }
}
