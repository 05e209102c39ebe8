//! A volume that an elastic body brings to slices, from files to files.

use crate::common::{Place, names};
use crate::deform::record;
use crate::elastic::FILES;
use crate::elastic_stream::{far, image, noise, pushed, value};
use voxalign_image::{Affine, Grid, Matrix3, Transform, Vector3, Volume};
use voxalign_io::image::read_volume;
use voxalign_io::transform::{Geometry, read, write};

/// Options of runs that are short.
const FAST: &str = "--schedule 2x60,1x30 --mesh-spacing 16 --device cpu";

/// How large the push is.
const AMOUNT: f64 = 1.0;

/// A slice through a point with its two axes, of pixels of 3 and 4 mm.
fn plane(centre: Vector3<f64>, [a, b]: [Vector3<f64>; 2]) -> Grid {
    let normal = a.cross(&b);
    let matrix = Matrix3::from_columns(&[3.0 * a, 4.0 * b, normal]);
    let middle = Vector3::new(15.5, 12.5, 0.0);
    Grid::new([32, 26, 1], Affine::new(matrix, centre - matrix * middle)).unwrap()
}

/// Three slices through the body, the last one oblique.
fn planes() -> [Grid; 3] {
    let [x, y, z] = [Vector3::x(), Vector3::y(), Vector3::z()];
    let (sin, cos) = 0.2f64.sin_cos();
    let centre = Vector3::new(2.0, -3.0, 1.0);
    [plane(centre, [x, y]), plane(centre, [x, z]), plane(centre, [y * cos + x * sin, z])]
}

/// A slice of what a world shows.
fn shown(grid: &Grid, of: impl Fn(Vector3<f64>) -> f32 + Sync) -> Volume<f32> {
    let at = |i: [usize; 3]| grid.index_to_world(Vector3::from(i.map(|v| v as f64)));
    Volume::from_fn(grid.clone(), |i, j, k| of(at([i, j, k])))
}

/// `moving.nii.gz` and `s1.nii.gz` to `s3.nii.gz`, which show it pushed, in a world from which `map` leads to that of the volume.
fn place(map: &Affine) -> Place {
    let place = Place::new();
    place_of(map, &place);
    place
}

fn place_of(map: &Affine, place: &Place) {
    place.image("moving.nii.gz", &image(|p| value(p) + noise(p, 1)));
    let back = map.inverse().unwrap();
    for (number, grid) in (1..).zip(planes()) {
        let grid = grid.moved(&back).unwrap();
        let of = |p: Vector3<f64>| {
            let p = map.apply(p);
            value(pushed(p, AMOUNT)) + noise(p, number + 1)
        };
        place.image(&format!("s{number}.nii.gz"), &shown(&grid, of));
    }
}

fn command(options: &str) -> String {
    let slices = "--slice s2.nii.gz --slice s3.nii.gz";
    format!("elastic s1.nii.gz moving.nii.gz {slices} -o out {FAST} {options}")
}

#[test]
fn a_volume_is_brought_to_three_slices() {
    let place = place(&Affine::identity());
    place.line(&command("")).expect(0);
    let mut files: Vec<String> = FILES.map(str::to_owned).to_vec();
    files.extend((1..=3).map(|n| format!("warped_slice_{n}.nii.gz")));
    files.sort();
    assert_eq!(names(&place.path("out")), files);

    let warp = read(place.path("out/warp.nii.gz"), &Geometry::default()).unwrap();
    let truth = |p: Vector3<f64>| pushed(p, AMOUNT);
    let [before, after] = [far(None, truth), far(Some(&warp), truth)];
    println!("{before:.2} mm before, {after:.2} after");
    assert!(before > 2.0 && after < 0.4 * before, "{before} {after}");
    // The inverse leads back.
    let inverse = read(place.path("out/inverse_warp.nii.gz"), &Geometry::default()).unwrap();
    for p in [Vector3::new(4.0, 2.0, -6.0), Vector3::new(-10.0, 8.0, 3.0)] {
        assert!((inverse.apply(warp.apply(p)) - p).norm() < 0.3, "{p}");
    }

    let found = record(&place, "out");
    let slices = found["elastic"]["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 3);
    for (slice, file) in slices.iter().zip(["s1.nii.gz", "s2.nii.gz", "s3.nii.gz"]) {
        assert_eq!(slice["file"], file);
        let [before, after] = [0, 1].map(|k| slice["local"][k].as_f64().unwrap());
        assert!(after > before && after > slice["elsewhere"].as_f64().unwrap() + 0.45, "{slice}");
    }
    assert_eq!(found["parameters"]["slice"].as_array().unwrap().len(), 2);
    assert_eq!(found["parameters"]["affine"], "none");
    let checks = found["verdict"]["checks"].as_array().unwrap();
    let of_slices = "agreement of the worst slice with the volume, beyond that by chance";
    assert!(checks.iter().any(|c| c["name"] == of_slices), "{checks:?}");

    // What the volume shows at a slice looks like the slice.
    let image = |name: &str| read_volume(place.path(name)).unwrap();
    let (slice, warped) = (image("s2.nii.gz"), image("out/warped_slice_2.nii.gz"));
    assert!(slice.grid().approx_eq(warped.grid(), 1e-3));
    // In the body it is nearer to what the slice would show without noise than the volume at rest is, though it has noise.
    let at_rest = shown(slice.grid(), value);
    let truth = shown(slice.grid(), |p| value(pushed(p, AMOUNT)));
    let body = shown(slice.grid(), |p| f32::from(p.norm() < 40.0));
    let apart = [&at_rest, &warped].map(|volume| {
        let both = truth.data().iter().zip(volume.data()).zip(body.data());
        both.map(|((a, b), inside)| f64::from(inside * (a - b).powi(2))).sum::<f64>().sqrt()
    });
    println!("{apart:?} apart");
    assert!(apart[1] < 0.6 * apart[0], "{apart:?}");

    // Pictures of slices that are not there any more go.
    place.line(&format!("elastic s1.nii.gz moving.nii.gz -o out {FAST} --no-report"));
    let left = names(&place.path("out"));
    assert!(left.contains(&"warped_slice_1.nii.gz".to_owned()), "{left:?}");
    assert!(!left.iter().any(|name| name == "warped_slice_2.nii.gz"), "{left:?}");
}

/// The world of the slices may be another one than that of the volume.
#[test]
fn a_transform_leads_from_the_slices_to_the_volume() {
    let (sin, cos) = 0.5f64.sin_cos();
    let turn = Matrix3::new(cos, -sin, 0.0, sin, cos, 0.0, 0.0, 0.0, 1.0);
    let map: Affine = Affine::new(turn, Vector3::new(30.0, -12.0, 50.0));
    let place = place(&map);
    write(place.path("map.tfm"), &Transform::Affine(map), &Geometry::default()).unwrap();
    place.line(&command("--affine map.tfm")).expect(0);
    let html = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(html.contains("fig-slices") && html.contains("s3.nii.gz"));
    let warp = read(place.path("out/warp.nii.gz"), &Geometry::default()).unwrap();
    let affine = read(place.path("out/affine.tfm"), &Geometry::default()).unwrap();
    // Of a point of the volume's world: to the slices, and by both transforms back. The same comes of slices in that world.
    let back = map.inverse().unwrap();
    let whole = |p: Vector3<f64>| affine.apply(warp.apply(back.apply(p)));
    place_of(&Affine::identity(), &place);
    place.line(&command("--no-report")).expect(0);
    let there = read(place.path("out/warp.nii.gz"), &Geometry::default()).unwrap();
    for p in [[0.0, 0.0, 0.0], [8.0, -6.0, 4.0], [-9.0, 5.0, 3.0], [5.0, 10.0, -8.0]] {
        let p = Vector3::from(p);
        assert!((there.apply(p) - p).norm() > 2.0);
        let apart = (whole(p) - there.apply(p)).norm();
        // Noise is another one.
        assert!(apart < 0.5, "{p} {apart}");
    }
}

/// Slices of something else are not called good.
#[test]
fn slices_of_another_place_are_bad() {
    let place = place(&Affine::identity());
    for (number, grid) in (1..).zip(planes()) {
        let turned = |p: Vector3<f64>| value(Vector3::new(p.y + 14.0, p.z, p.x - 9.0));
        let of = |p: Vector3<f64>| turned(p) + noise(p, number + 1);
        place.image(&format!("s{number}.nii.gz"), &shown(&grid, of));
    }
    let run = place.line(&command("--no-report")).expect(1);
    assert!(run.out.contains("verdict: bad") || run.err.contains("verdict: bad"), "{}", run.out);
}

#[test]
fn what_cannot_be_is_refused() {
    let place = place(&Affine::identity());
    place.image("volume.nii.gz", &image(value));
    let away = Affine::translation(Vector3::new(0.0, 0.0, 900.0));
    let up = Vector3::new(0.0, 0.0, 900.0);
    place.image("away.nii.gz", &shown(&planes()[0].moved(&away).unwrap(), |p| value(p - up)));
    place.image("holes.nii.gz", &shown(&planes()[1], |_| f32::NAN));
    place.image("even.nii.gz", &shown(&planes()[1], |_| 7.0));
    let before = place.names();
    let line = "elastic s1.nii.gz moving.nii.gz -o new/out --no-report";
    for (options, parts) in [
        ("--slice volume.nii.gz", &["volume.nii.gz", "26 x 28 x 24", "dimension of 1"][..]),
        ("--slice none.nii.gz", &["--slice", "none.nii.gz"]),
        ("--slice away.nii.gz", &["away.nii.gz", "no pixel in the mesh"]),
        ("--slice holes.nii.gz", &["holes.nii.gz", "NaN"]),
        ("--slice even.nii.gz", &["even.nii.gz", "7 everywhere"]),
        ("--affine auto", &["--affine auto", "slices"]),
        ("--affine auto --init moments", &["slices"]),
        ("--histogram-match", &["--histogram-match", "slices"]),
        ("--similarity lncc", &["lncc", "slices"]),
        ("--samples 8x8x8", &["--samples", "8x8x8"]),
        ("--force nodes", &["--force", "nodes"]),
        ("--stream s2.nii.gz", &["--stream"]),
        ("--fixed-labels s1.nii.gz --moving-labels moving.nii.gz", &["labels"]),
    ] {
        place.line(&format!("{line} {options}")).expect(2).says(parts);
        assert_eq!(place.names(), before, "{options}: something is left");
    }
    // What would be written over a slice that is read.
    let over = place.path("new/out");
    std::fs::create_dir_all(&over).unwrap();
    for (name, line) in [
        (
            "warped_slice_2.nii.gz",
            "elastic s1.nii.gz moving.nii.gz -o new/out --slice new/out/NAME",
        ),
        ("warped_slice_1.nii.gz", "elastic new/out/NAME moving.nii.gz -o new/out"),
    ] {
        std::fs::copy(place.path("s2.nii.gz"), over.join(name)).unwrap();
        place.line(&line.replace("NAME", name)).expect(2).says(&[name]);
        assert_eq!(names(&over), [name]);
        std::fs::remove_file(over.join(name)).unwrap();
    }
    std::fs::remove_dir_all(place.path("new")).unwrap();
    // A slice is no volume that is moved.
    place.line("elastic s1.nii.gz s2.nii.gz -o new/out --slice s3.nii.gz").expect(2);
    assert_eq!(place.names(), before);
}
