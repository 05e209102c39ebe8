//! Images, label maps and points through transforms.

use crate::common::{Place, grid, head, regions};
use voxalign_image::{Affine, Displacement, Grid, Transform, Vector3, VectorField, Volume};
use voxalign_io::image::{read_info, read_labels, read_volume};
use voxalign_io::transform::{Geometry, write};

fn save(place: &Place, name: &str, transform: &Transform) {
    write(place.path(name), transform, &Geometry::default()).unwrap();
}

fn shift(x: f64, y: f64, z: f64) -> Transform {
    Transform::Affine(Affine::translation(Vector3::new(x, y, z)))
}

/// Largest difference away from the border of the grid.
fn difference(a: &Volume<f32>, b: &Volume<f32>) -> f32 {
    let [nx, ny, nz] = a.dims();
    let mut largest = 0f32;
    for z in 4..nz - 4 {
        for y in 4..ny - 4 {
            for x in 4..nx - 4 {
                largest = largest.max((a.get(x, y, z).unwrap() - b.get(x, y, z).unwrap()).abs());
            }
        }
    }
    largest
}

/// Points of a CSV file.
fn points(place: &Place, name: &str) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(place.path(name)).unwrap();
    let rows = text.lines().skip(1);
    rows.map(|l| l.split(',').take(3).map(|v| v.parse().unwrap()).collect()).collect()
}

/// An inverse reads the matrix of FSL with the geometry the other way round, and gives what the
/// same transform in ITK's form gives. The grids differ in size, spacing and handedness.
#[test]
fn an_inverse_of_an_fsl_matrix() {
    let place = Place::new();
    let fixed = Grid::new(
        [30, 26, 22],
        Affine::from_rows([[-2.0, 0., 0., 30.], [0., 2.0, 0., -25.], [0., 0., 2.0, -20.]]),
    )
    .unwrap();
    let moving = Grid::axis_aligned([40, 36, 28], [1.5, 1.6, 1.8]).unwrap();
    let image =
        |g: &Grid| Volume::from_fn(g.clone(), |x, y, z| ((x * 7 + y * 3 + z * 5) % 97) as f32);
    let options = voxalign_io::image::WriteOptions::default();
    for (name, grid) in [("f.nii.gz", &fixed), ("m.nii.gz", &moving)] {
        voxalign_io::image::write_volume(place.path(name), &image(grid), &options).unwrap();
    }
    let t = Transform::Affine(Affine::from_rows([
        [1.0, 0.1, 0.0, 25.0],
        [-0.1, 1.1, 0.0, 27.0],
        [0.0, 0.05, 0.9, 21.0],
    ]));
    save(&place, "t.tfm", &t);
    let geometry = Geometry { fixed: Some(&fixed), moving: Some(&moving) };
    write(place.path("t.fsl.mat"), &t, &geometry).unwrap();
    for file in ["t.tfm", "t.fsl.mat"] {
        place
            .line(&format!("apply -i m.nii.gz -r f.nii.gz -t {file} -o there-{file}.nii"))
            .expect(0);
        place
            .line(&format!("apply -i f.nii.gz -r m.nii.gz -t inverse:{file} -o back-{file}.nii"))
            .expect(0);
    }
    for way in ["there", "back"] {
        let read = |f: &str| read_volume(place.path(&format!("{way}-{f}.nii"))).unwrap();
        let (itk, fsl) = (read("t.tfm"), read("t.fsl.mat"));
        assert!(itk.data().iter().any(|&v| v > 0.0));
        let largest =
            itk.data().iter().zip(fsl.data()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(largest < 0.05, "{way}: {largest}");
    }
}

#[test]
fn a_fixed_point_goes_through_the_first_transform_first() {
    let place = Place::new();
    save(&place, "shift.tfm", &shift(10.0, 0.0, 0.0));
    let double = Affine::new(voxalign_image::Matrix3::identity() * 2.0, Vector3::zeros());
    save(&place, "double.tfm", &Transform::Affine(double));
    place.write("p.csv", "x,y,z,name\n1,2,3,nose\n");
    let carried = |transforms: &str| {
        let line = format!("apply -i p.csv {transforms} -o q.csv --points-from fixed");
        place.line(&line).expect(0);
        points(&place, "q.csv")[0].clone()
    };
    assert_eq!(carried("-t shift.tfm -t double.tfm"), [22.0, 4.0, 6.0]);
    assert_eq!(carried("-t double.tfm -t shift.tfm"), [12.0, 4.0, 6.0]);
    assert_eq!(carried("-t inverse:double.tfm -t shift.tfm"), [10.5, 1.0, 1.5]);
    assert_eq!(carried("-t [double.tfm,1] -t [shift.tfm,0]"), [10.5, 1.0, 1.5]);
    let text = std::fs::read_to_string(place.path("q.csv")).unwrap();
    assert!(text.contains("nose"), "{text}");
}

#[test]
fn points_of_the_moving_image_go_through_the_inverse() {
    let place = Place::new();
    save(&place, "shift.tfm", &shift(10.0, 20.0, 30.0));
    place.write("p.csv", "x,y,z\n1,2,3\n");
    let run = place.line("apply -i p.csv -t shift.tfm -o q.csv").expect(0);
    assert!(run.out.contains("from the moving to the fixed image"), "{}", run.out);
    assert_eq!(points(&place, "q.csv"), [[-9.0, -18.0, -27.0]]);
    // In LPS the same shift has other signs.
    place.line("apply -i p.csv -t shift.tfm -o q.csv --point-convention lps").expect(0);
    assert_eq!(points(&place, "q.csv"), [[11.0, 22.0, -27.0]]);
    // What the resampled image shows at q is what the moving image shows at p.
    place.line("apply -i q.csv -t shift.tfm -o r.csv --points-from fixed --point-convention lps");
    assert_eq!(points(&place, "r.csv"), [[1.0, 2.0, 3.0]]);
}

#[test]
fn an_image_comes_onto_the_reference() {
    let place = Place::new();
    let made = place.pair();
    save(&place, "t.tfm", &Transform::Affine(made));
    place.line("apply -i moving.nii.gz -r fixed.nii.gz -t t.tfm -o w.nii.gz").expect(0);
    let fixed = read_volume(place.path("fixed.nii.gz")).unwrap();
    let warped = read_volume(place.path("w.nii.gz")).unwrap();
    assert!(warped.grid().approx_eq(fixed.grid(), 1e-3));
    let linear = difference(&fixed, &warped);
    assert!(linear < 18.0, "{linear}");
    place
        .line("apply -i moving.nii.gz -r fixed.nii.gz -t t.tfm -o c.nii.gz --interpolation cubic")
        .expect(0);
    let cubic = difference(&fixed, &read_volume(place.path("c.nii.gz")).unwrap());
    assert!(cubic < linear, "{cubic} {linear}");
    // There and back.
    place.line("apply -i w.nii.gz -r moving.nii.gz -t inverse:t.tfm -o b.nii.gz").expect(0);
    let back = read_volume(place.path("b.nii.gz")).unwrap();
    let moving = read_volume(place.path("moving.nii.gz")).unwrap();
    assert!(difference(&moving, &back) < 30.0, "{}", difference(&moving, &back));
}

#[test]
fn chains_interpolate_once() {
    let place = Place::new();
    let image = head(&grid([32, 32, 32], 4.0), &Affine::identity());
    place.image("a.nii.gz", &image);
    save(&place, "half.tfm", &shift(2.0, 2.0, 2.0));
    save(&place, "back.tfm", &shift(-2.0, -2.0, -2.0));
    place.line("apply -i a.nii.gz -r a.nii.gz -t half.tfm -t back.tfm -o b.nii.gz").expect(0);
    let same = read_volume(place.path("b.nii.gz")).unwrap();
    assert!(difference(&image, &same) < 1e-3, "{}", difference(&image, &same));
}

fn wave(grid: Grid) -> Transform {
    Transform::Displacement(Displacement::new(VectorField::from_world_fn(grid, |w| {
        Vector3::new((w[1] / 20.0).sin(), (w[2] / 25.0).cos(), (w[0] / 30.0).sin()) * 4.0
    })))
}

#[test]
fn displacement_fields_in_chains() {
    let place = Place::new();
    let made = place.pair();
    let fixed = read_volume(place.path("fixed.nii.gz")).unwrap();
    let field = wave(fixed.grid().clone());
    save(&place, "warp.nii.gz", &field);
    save(&place, "a.tfm", &Transform::Affine(made));
    place
        .line("apply -i moving.nii.gz -r fixed.nii.gz -t warp.nii.gz -t a.tfm -o w.nii.gz")
        .expect(0);
    // The moving image shows the head at the inverse of `made`, so what is seen is the head at
    // the displaced position.
    let expected = Volume::from_fn(fixed.grid().clone(), |x, y, z| {
        let world = fixed.grid().index_to_world(Vector3::new(x as f64, y as f64, z as f64));
        let there = Affine::translation(field.apply(world));
        let one = Grid::axis_aligned([1; 3], [1.0; 3]).unwrap();
        head(&one, &there).data()[0]
    });
    let warped = read_volume(place.path("w.nii.gz")).unwrap();
    assert!(difference(&expected, &warped) < 18.0, "{}", difference(&expected, &warped));

    // The composition in one file does the same.
    place
        .line("compose -t warp.nii.gz -t a.tfm -o both.nii.gz --fixed-geometry fixed.nii.gz")
        .expect(0);
    place.line("apply -i moving.nii.gz -r fixed.nii.gz -t both.nii.gz -o v.nii.gz").expect(0);
    let once = read_volume(place.path("v.nii.gz")).unwrap();
    assert!(difference(&once, &warped) < 0.05, "{}", difference(&once, &warped));
}

#[test]
fn labels_stay_labels() {
    let place = Place::new();
    let made = place.pair();
    save(&place, "t.tfm", &Transform::Affine(made));
    for rule in ["label", "nearest"] {
        let line = format!(
            "apply -i moving_labels.nii.gz -r fixed.nii.gz -t t.tfm -o l.nii.gz --interpolation {rule}"
        );
        place.line(&line).expect(0);
        let info = read_info(place.path("l.nii.gz")).unwrap();
        assert!(info.data_type.is_integer(), "{:?}", info.data_type);
        let found = read_labels(place.path("l.nii.gz")).unwrap();
        let expected = regions(found.grid(), &Affine::identity());
        let agree = found.data().iter().zip(expected.data()).filter(|(a, b)| a == b).count();
        assert!(agree * 100 > found.data().len() * 97, "{rule}: {agree}");
        assert!(found.data().iter().all(|l| (0..=5).contains(l)));
    }
}

#[test]
fn labels_that_are_mixed_are_told() {
    let place = Place::new();
    place.pair();
    save(&place, "t.tfm", &shift(1.0, 2.0, 0.5));
    let apply = "apply -r fixed.nii.gz -t t.tfm -o mixed.nii.gz -i";
    let run = place.line(&format!("{apply} moving_labels.nii.gz")).expect(0);
    run.says(&["moving_labels.nii.gz", "looks like a label map", "--interpolation label"]);
    for other in ["moving_labels.nii.gz --interpolation label", "moving_labels.nii.gz --quiet"] {
        let run = place.line(&format!("{apply} {other}")).expect(0);
        assert!(!run.err.contains("label map"), "{}", run.err);
    }
    // Regions of a voxel or two, as thin tissues in thick slices: few values tell them.
    let thin = Volume::from_fn(grid([20, 20, 20], 4.0), |x, y, z| ((x / 2 + y + z) % 4) as f32);
    place.image("thin.nii", &thin);
    let run = place.line(&format!("{apply} thin.nii")).expect(0);
    run.says(&["thin.nii", "looks like a label map"]);
    // A scan of whole numbers, and one of fractions.
    let mut state = 1u32;
    let scan = Volume::from_fn(grid([20, 20, 20], 4.0), |_, _, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 26) as f32
    });
    place.image("scan.nii", &scan);
    for other in ["scan.nii", "moving.nii.gz"] {
        let run = place.line(&format!("{apply} {other}")).expect(0);
        assert!(!run.err.contains("label map"), "{}", run.err);
    }
    place.line(&format!("{apply} moving_labels.nii.gz --quiet")).expect(0);
    let run = place.line("compare fixed_labels.nii.gz mixed.nii.gz --labels").expect(2);
    run.says(&["mixed.nii.gz", "not a whole number", "--interpolation label"]);
}

#[test]
fn points_that_are_no_list_are_told() {
    let place = Place::new();
    save(&place, "t.tfm", &shift(1.0, 2.0, 3.0));
    place.write("p.txt", "1 2 3\n");
    place.write("p.csv", "x;y;z\n1;2;3\n");
    let apply = "apply -t t.tfm -o q.csv -i";
    place.line(&format!("{apply} p.txt")).expect(2).says(&["'p.txt'", "'point'", "x,y,z"]);
    place.line(&format!("{apply} p.csv")).expect(2).says(&["semicolons", "comma-separated"]);
    place.line("compare --points p.txt p.txt").expect(2).says(&["'p.txt'", "elastix", "x,y,z"]);
}

#[test]
fn outside_and_types() {
    let place = Place::new();
    place.pair();
    save(&place, "far.tfm", &shift(80.0, 0.0, 0.0));
    let apply = "apply -i moving.nii.gz -r fixed.nii.gz -t far.tfm -o w.nii.gz";
    place.line(&format!("{apply} --outside -1000")).expect(0);
    let w = read_volume(place.path("w.nii.gz")).unwrap();
    assert!(w.data().iter().any(|&v| v == -1000.0));
    place.line(&format!("{apply} --outside nan")).expect(0);
    let w = read_volume(place.path("w.nii.gz")).unwrap();
    assert!(w.data().iter().any(|v| v.is_nan()));
    place.line(&format!("{apply} --data-type i16 --outside -7")).expect(0);
    let info = read_info(place.path("w.nii.gz")).unwrap();
    assert_eq!(info.data_type.name(), "i16");
    place.line(&format!("{apply} --outside nan --data-type u8")).expect(2).says(&["f32"]);
    place.line(&format!("{apply} --data-type f16")).expect(2).says(&["u8, i8"]);
}

#[test]
fn fsl_matrices_take_the_geometry_of_the_images() {
    let place = Place::new();
    let made = Transform::Affine(place.pair());
    save(&place, "t.tfm", &made);
    let geometry = "--fixed-geometry fixed.nii.gz --moving-geometry moving.nii.gz";
    place.line(&format!("convert t.tfm t.fsl.mat {geometry}")).expect(0);
    let images = "-i moving.nii.gz -r fixed.nii.gz";
    place.line(&format!("apply {images} -t t.tfm -o a.nii.gz")).expect(0);
    place.line(&format!("apply {images} -t t.fsl.mat -o b.nii.gz")).expect(0);
    let [a, b] = ["a.nii.gz", "b.nii.gz"].map(|n| read_volume(place.path(n)).unwrap());
    assert!(difference(&a, &b) < 0.01, "{}", difference(&a, &b));
    // In a chain nothing is assumed.
    place
        .line(&format!("apply {images} -t t.fsl.mat -t t.tfm -o c.nii.gz"))
        .expect(2)
        .says(&["t.fsl.mat", "--fixed-geometry"]);
    place
        .line(&format!("apply {images} -t t.fsl.mat -t t.fsl.mat -o c.nii.gz {geometry}"))
        .expect(2)
        .says(&["voxalign convert"]);
    assert!(!place.path("c.nii.gz").exists());
}

#[test]
fn options_that_would_be_ignored_are_errors() {
    let place = Place::new();
    place.pair();
    save(&place, "t.tfm", &shift(1.0, 0.0, 0.0));
    place.write("p.csv", "x,y,z\n1,2,3\n");
    let points = "apply -i p.csv -t t.tfm -o q.csv";
    place.line(&format!("{points} -r fixed.nii.gz")).expect(2).says(&["--reference"]);
    place.line(&format!("{points} --interpolation cubic")).expect(2).says(&["--interpolation"]);
    let image = "apply -i moving.nii.gz -r fixed.nii.gz -t t.tfm";
    place
        .line(&format!("{image} -o w.nii.gz --points-from fixed"))
        .expect(2)
        .says(&["--points-from"]);
    place.line(&format!("{image} -o w.csv")).expect(2).says(&["different kinds"]);
    place.line(&format!("{image} -o none/w.nii.gz")).expect(2).says(&["create it first"]);
    place.line("apply -i moving.nii.gz -t t.tfm -o w.nii.gz").expect(2).says(&["REFERENCE"]);
    place
        .line(&format!("{image} -t none.tfm -o w.nii.gz"))
        .expect(2)
        .says(&["none.tfm", "check the path"]);
    for name in ["w.nii.gz", "w.csv", "q.csv"] {
        assert!(!place.path(name).exists(), "{name} is left");
    }
}

#[test]
fn without_a_transform_the_headers_count() {
    let place = Place::new();
    place.pair();
    place.line("apply -i moving.nii.gz -r fixed.nii.gz -o w.nii.gz").expect(0);
    save(&place, "identity.tfm", &shift(0.0, 0.0, 0.0));
    place.line("apply -i moving.nii.gz -r fixed.nii.gz -t identity.tfm -o v.nii.gz").expect(0);
    let [w, v] = ["w.nii.gz", "v.nii.gz"].map(|n| read_volume(place.path(n)).unwrap());
    assert_eq!(w, v);
    std::fs::write(place.path("p.csv"), "x,y,z\n1,2,3\n").unwrap();
    place.line("apply -i p.csv -o q.csv").expect(2).says(&["-t FILE"]);
}

/// A result that is nothing but outside is written, said, and not a good end.
#[test]
fn a_grid_that_the_image_does_not_meet_is_told() {
    let place = Place::new();
    place.pair();
    save(&place, "far.tfm", &shift(900.0, 0.0, 0.0));
    save(&place, "near.tfm", &shift(150.0, 0.0, 0.0));
    let said = ["warning", "'moving.nii.gz'", "'fixed.nii.gz'", "outside everywhere", "inverse:"];
    for rest in
        ["-o w.nii.gz", "-o w.nii.gz --outside -7 --quiet", "-o w.nii.gz --interpolation cubic"]
    {
        let line = format!("apply -i moving.nii.gz -r fixed.nii.gz -t far.tfm {rest}");
        place.line(&line).expect(1).says(&said);
        let outside = if rest.contains("-7") { -7.0 } else { 0.0 };
        assert!(read_volume(place.path("w.nii.gz")).unwrap().data().iter().all(|v| *v == outside));
    }
    let line = "apply -i moving_labels.nii.gz -r fixed.nii.gz -t far.tfm -o l.nii.gz \
                --interpolation label";
    place.line(line).expect(1).says(&["outside everywhere"]);
    // A corner that is met is enough.
    place.line("apply -i moving.nii.gz -r fixed.nii.gz -t near.tfm -o w.nii.gz").expect(0);
}
