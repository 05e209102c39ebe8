//! HDF5 transforms of ITK. What `data/h5/make.py` made is compared with where SimpleITK 2.5 carries points.

use crate::common;
use std::io::Read;
use std::path::Path;
use voxalign_image::{Affine, Displacement, Grid, Transform, Vector3, VectorField};
use voxalign_io::transform::{self, Geometry, read, read_with_planar, write};

type Known = (&'static str, [[f64; 3]; 3]);

/// Points in RAS mm.
const POINTS: [[f64; 3]; 3] = [[0.0, 0.0, 0.0], [11.0, -22.0, 33.0], [2.47, 10.78, -12.82]];

/// Where SimpleITK carries the points, as `make.py` prints it.
const KNOWN: [Known; 5] = [
    ("itk_affine", [[-2.1, 2.95, 3.2], [7.8, -20.7, 45.0], [1.695, 12.799, -13.262]]),
    (
        "itk_composite",
        [
            [-7.764888085, 0.943618425, 4.826144566],
            [8.904982965, -11.996778021, 49.179348119],
            [-7.29902011, 9.107683575, -14.615291052],
        ],
    ),
    (
        "itk_composite_2d",
        [
            [0.013893323, 2.752412768, 0.0],
            [9.520277769, -17.267866378, 33.0],
            [1.947593793, 11.304242257, -12.82],
        ],
    ),
    (
        "itk_many",
        [
            [-336.31869577, -205.591309342, -77.750659946],
            [-341.49996098, -246.262321142, -81.359439518],
            [-330.211709674, -190.416473565, -82.119959657],
        ],
    ),
    ("itk_identity", [[0.0, 0.0, 0.0], [11.0, -22.0, 33.0], [2.47, 10.78, -12.82]]),
];

/// The transform of `itk_composite`, stored in other ways.
const OTHERS: [&str; 8] = [
    "old",
    "old_misspelled",
    "old_float_packed",
    "old_chunks",
    "new_packed",
    "new_array",
    "new_array_packed",
    "new_early",
];

fn unpacked(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/h5");
    let packed = std::fs::read(folder.join(format!("{name}.h5.gz"))).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

fn from_bytes(name: &str) -> Result<Transform, String> {
    let bytes = unpacked(name);
    transform::read_from_bytes(format!("{name}.h5"), &bytes, &Geometry::default())
        .map_err(|e| e.to_string())
}

fn distance(a: &Transform, b: &Transform) -> f64 {
    let apart = |p: &[f64; 3]| (a.apply((*p).into()) - b.apply((*p).into())).norm();
    POINTS.iter().map(apart).fold(0.0, f64::max)
}

fn none() -> Geometry<'static> {
    Geometry::default()
}

#[test]
fn what_simpleitk_writes() {
    let folder = tempfile::tempdir().unwrap();
    for (name, known) in KNOWN {
        let t = from_bytes(name).unwrap();
        let planar = name.ends_with("2d");
        // A plane lies at z = 0.
        let place = |p: [f64; 3]| Vector3::new(p[0], p[1], if planar { 0.0 } else { p[2] });
        for (point, known) in POINTS.iter().zip(known) {
            let apart = (t.apply(place(*point)) - place(known)).norm();
            assert!(apart < 1e-6, "{name}: {apart}");
        }
        // The same from a file, and after it was written here.
        let path = folder.path().join(format!("{name}.h5"));
        std::fs::write(&path, unpacked(name)).unwrap();
        assert_eq!(read_with_planar(&path, &none()).unwrap(), (t.clone(), planar));
        write(&path, &t, &none()).unwrap();
        let (back, still) = read_with_planar(&path, &none()).unwrap();
        assert!(distance(&back, &t) < 1e-9, "{name}");
        // An affine map of the plane alone would be written as one of space.
        assert_eq!(still, planar, "{name}");
    }
    let Transform::Composite(parts) = from_bytes("itk_composite").unwrap() else { panic!() };
    // The last in the file is the first to be applied.
    assert!(matches!(
        parts[..],
        [Transform::Rigid(_), Transform::Displacement(_), Transform::Affine(_)]
    ));
}

#[test]
fn other_ways_of_hdf5() {
    let t = from_bytes("itk_composite").unwrap();
    for name in OTHERS {
        let other = from_bytes(name).unwrap();
        let exact = !(name.contains("float") || name == "new_array_packed");
        assert!(distance(&t, &other) < if exact { 1e-12 } else { 1e-5 }, "{name}");
    }
    for (name, parts) in [
        ("itk_spline", ["BSplineTransform_double_3_3_2", "not supported"]),
        ("new_shuffled", ["transform 1: ", "the filter 2"]),
    ] {
        let error = from_bytes(name).unwrap_err();
        assert!(parts.iter().all(|p| error.contains(p)), "{error}");
    }
}

#[test]
fn a_composite_of_ants() {
    let Some(folder) = common::real_files("io_robustness/nitransforms_transforms") else { return };
    let t = read(folder.join("affine-antsComposite.h5"), &none()).unwrap();
    // By SimpleITK.
    let known: [[f64; 3]; 3] = [
        [0.81459025, 18.077925472, 18.471859867],
        [13.305618661, -5.249787694, 43.416894028],
        [1.84083744, 29.601281769, 8.939264447],
    ];
    for (point, known) in POINTS.iter().zip(known) {
        let apart = (t.apply((*point).into()) - Vector3::from(known)).norm();
        assert!(apart < 1e-8, "{apart}");
    }
}

fn field(grid: &Grid) -> Transform {
    let wave = |p: Vector3<f64>| p.map(|v| (v / 9.0).sin() * 2.0);
    let flat = grid.is_2d();
    let field = VectorField::from_world_fn(grid.clone(), |p| {
        let v = wave(p + Vector3::new(1.0, 2.0, 3.0));
        Vector3::new(v[0], v[1], if flat { 0.0 } else { v[2] })
    });
    Transform::Displacement(Displacement::new(field))
}

/// Oblique, and left-handed where it is mirrored.
fn oblique(mirror: f64) -> Grid {
    Grid::new(
        [7, 6, 5],
        Affine::from_rows([
            [8.0 * mirror, -3.0, 0.0, -20.0],
            [4.5, 4.0, 0.0, -30.0],
            [0.0, 0.0, 6.5, -15.0],
        ]),
    )
    .unwrap()
}

#[test]
fn fields_and_composites_within_composites_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let affine = Transform::Affine(Affine::from_rows([
        [1.1, 0.1, 0.0, 4.0],
        [0.0, 0.9, 0.1, 5.0],
        [0.2, 0.0, 1.2, 6.0],
    ]));
    for mirror in [1.0, -1.0] {
        let grid = oblique(mirror);
        let one = field(&grid);
        write(&path, &one, &none()).unwrap();
        let Transform::Displacement(back) = read(&path, &none()).unwrap() else { panic!() };
        let Transform::Displacement(was) = &one else { panic!() };
        assert_eq!(back.field().data(), was.field().data());
        assert!(back.field().grid().approx_eq(&grid, 1e-12));
        let nested = Transform::Composite(vec![
            affine.clone(),
            Transform::Composite(vec![one.clone(), Transform::Composite(vec![affine.clone()])]),
            one.clone(),
        ]);
        write(&path, &nested, &none()).unwrap();
        let back = read(&path, &none()).unwrap();
        assert!(distance(&back, &nested) < 1e-9);
        let Transform::Composite(parts) = back else { panic!() };
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[0], affine);
    }
    write(&path, &Transform::Composite(Vec::new()), &none()).unwrap();
    assert_eq!(read(&path, &none()).unwrap(), Transform::identity());
}

/// A plane's field stays one of two dimensions where ITK can have it so, at z = 0; the map is the same
/// in any case.
#[test]
fn planes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let turn =
        Affine::from_rows([[0.9, -0.2, 0.0, 3.5], [0.1, 1.1, 0.0, -7.0], [0.0, 0.0, 1.0, 0.0]]);
    let tilt =
        Affine::from_rows([[1.0, 0.0, 0.1, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]);
    let plane = Grid::axis_aligned([9, 8, 1], [5.0, 6.0, 1.0]).unwrap();
    let lifted = plane.moved(&Affine::translation(Vector3::new(0.0, 0.0, 40.0))).unwrap();
    for (transform, expected) in [
        (field(&plane), true),
        (Transform::Composite(vec![field(&plane), turn.into()]), true),
        (Transform::Composite(vec![field(&plane), tilt.into()]), false),
        (field(&lifted), true),
        (Transform::Composite(vec![field(&lifted), turn.into()]), false),
        (turn.into(), false),
    ] {
        write(&path, &transform, &none()).unwrap();
        let (back, planar) = read_with_planar(&path, &none()).unwrap();
        for p in [[10.0, 20.0, 0.0], [10.0, 20.0, 40.0], [31.0, -2.0, 7.0]] {
            let p = Vector3::from(p);
            assert!((back.apply(p) - transform.apply(p)).norm() < 1e-9);
        }
        assert_eq!(planar, expected, "{transform:?}");
    }
    assert!(transform::write_itk_2d(&path, &turn.into()).unwrap());
    assert_eq!(read_with_planar(&path, &none()).unwrap(), (turn.into(), true));
}

#[test]
fn the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.h5", "b.hdf5"].map(|name| folder.path().join(name));
    let t = Transform::Composite(vec![field(&oblique(1.0)), Transform::identity()]);
    for path in [&a, &b] {
        write(path, &t, &none()).unwrap();
    }
    assert_eq!(std::fs::read(&a).unwrap(), std::fs::read(&b).unwrap());
    let error = write(folder.path().join("none/a.h5"), &t, &none()).unwrap_err().to_string();
    assert!(error.contains("create the folder first"), "{error}");
}
