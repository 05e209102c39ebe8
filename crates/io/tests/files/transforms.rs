//! Transforms of other programs.

use crate::common;
use nalgebra::{Matrix3, Rotation3};
use std::path::{Path, PathBuf};
use voxalign_image::{Affine, Grid, Transform, Vector3};
use voxalign_io::transform::{self, Geometry, TransformFormat, read, write, write_as};

type Known = (&'static str, [[f64; 3]; 3]);

/// Points in RAS mm.
const POINTS: [[f64; 3]; 3] = [[0.0, 0.0, 0.0], [11.0, -22.0, 33.0], [2.47, 10.78, -12.82]];

/// Files that SimpleITK 2.5 wrote, and where it carries the points (turned to RAS).
const KNOWN: [Known; 10] = [
    (
        "affine.mat",
        [[-0.797, -7.046, -11.526], [15.9065, -33.842, 24.1756], [-2.215964, 6.671701, -24.299759]],
    ),
    (
        "affine.tfm",
        [[-0.797, -7.046, -11.526], [15.9065, -33.842, 24.1756], [-2.215964, 6.671701, -24.299759]],
    ),
    (
        "euler.tfm",
        [
            [7.787409245, -4.010702676, 1.178677717],
            [33.346675857, 9.851593801, 30.308741683],
            [0.064027031, -3.779732451, -13.886438278],
        ],
    ),
    (
        "euler_zyx.tfm",
        [
            [9.386548114, -0.906656135, 0.241012907],
            [33.932131574, 16.470949408, 28.339645582],
            [1.082067598, -1.79138509, -14.487006581],
        ],
    ),
    ("versor.txt", [[-3.0, -18.4, 35.8], [8.0, 7.12, 66.16], [-0.53, -27.6888, 21.8616]]),
    (
        "similarity.mat",
        [
            [26.853689706, 0.4, 1.884563235],
            [33.717689706, -11.142470662, 53.677582794],
            [29.174885364, 12.435132822, -16.397282997],
        ],
    ),
    (
        "similarity_2d.tfm",
        [
            [15.745885865, 3.603466377, 0.0],
            [47.366360316, -10.032720608, 33.0],
            [8.668176812, 17.37416943, -12.82],
        ],
    ),
    (
        "euler_2d.mat",
        [
            [7.532775618, 7.145333127, 0.0],
            [30.118828797, -2.594800434, 33.0],
            [2.477269152, 16.981549593, -12.82],
        ],
    ),
    (
        "composite.tfm",
        [
            [17.207716553, 5.375151593, -20.489608253],
            [25.280959835, 38.531086764, 35.647241493],
            [9.203112585, 2.365788926, -44.765588695],
        ],
    ),
    (
        "field.nii.gz",
        [
            [-0.646096065, 0.559253767, 0.052828101],
            [11.0, -22.0, 33.0],
            [2.560380418, 9.591077674, -13.959133571],
        ],
    ),
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn largest(t: &Transform, images: &[[f64; 3]; 3]) -> f64 {
    let pairs = POINTS.iter().zip(images);
    pairs.map(|(&p, &q)| (t.apply(p.into()) - Vector3::from(q)).norm()).fold(0.0, f64::max)
}

#[test]
fn itk_files_move_points_as_itk_does() {
    let folder = tempfile::tempdir().unwrap();
    for (name, images) in KNOWN {
        let t = read(data(name), &Geometry::default()).unwrap();
        let tolerance = if name.contains("field") { 1e-4 } else { 1e-8 };
        assert!(largest(&t, &images) < tolerance, "{name}: {}", largest(&t, &images));
        let again: &[&str] =
            if name.contains("field") { &["a.nii.gz", "a.nii"] } else { &["a.tfm", "a.mat"] };
        for other in again {
            let path = folder.path().join(other);
            write(&path, &t, &Geometry::default()).unwrap();
            let back = read(&path, &Geometry::default()).unwrap();
            assert!(largest(&back, &images) < tolerance, "{name} as {other}");
        }
    }
}

/// Where the fields that SimpleITK wrote carry the points.
const FIELD: [[f64; 3]; 3] = [
    [-1.288842175, -1.21227238, 1.37154763],
    [11.0, -22.0, 33.0],
    [1.99656255, 12.154848788, -12.317666298],
];
const FIELD_2D: [[f64; 3]; 3] = [
    [0.407699707, -1.167474239, 0.0],
    [10.394323613, -22.517868914, 33.0],
    [4.433103929, 11.889929249, -12.82],
];

#[test]
fn fields_of_every_format_move_points_as_itk_does() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "field.mha",
        "field_double.mhd",
        "field_itk.nrrd",
        "field_double.nrrd",
        "field_double.nii.gz",
    ] {
        let t = read(data(name), &Geometry::default()).unwrap();
        assert!(largest(&t, &FIELD) < 1e-4, "{name}: {}", largest(&t, &FIELD));
        let path = folder.path().join("a.nii.gz");
        write(&path, &t, &Geometry::default()).unwrap();
        let back = read(&path, &Geometry::default()).unwrap();
        assert!(largest(&back, &FIELD) < 1e-4, "{name} as NIfTI");
    }
    for name in ["field_2d.mha", "field_2d.nrrd", "field_2d.nii.gz"] {
        let t = read(data(name), &Geometry::default()).unwrap();
        // The third coordinate is outside of the plane for all points but the first.
        let points = POINTS.map(|p| Vector3::new(p[0], p[1], 0.0));
        for (p, q) in points.iter().zip(FIELD_2D) {
            let q = Vector3::new(q[0], q[1], 0.0);
            assert!((t.apply(*p) - q).norm() < 1e-4, "{name}: {p} to {}", t.apply(*p));
        }
        // A plane stays one of two dimensions, which is what ITK needs.
        let path = folder.path().join("a.nii");
        write(&path, &t, &Geometry::default()).unwrap();
        let info = voxalign_io::image::read_info(&path).unwrap();
        assert_eq!(info.dims, [6, 5, 1, 1, 2]);
        let back = read(&path, &Geometry::default()).unwrap();
        assert!((back.apply(points[0]) - t.apply(points[0])).norm() < 1e-4, "{name}");
    }
}

#[test]
fn vectors_that_are_no_displacements() {
    let folder = tempfile::tempdir().unwrap();
    let header = |channels: usize, dims: &str, n: usize| {
        format!(
            "ObjectType = Image\nNDims = {n}\nBinaryData = True\nBinaryDataByteOrderMSB = False\n\
             CompressedData = False\nElementSpacing = {}\nDimSize = {dims}\n\
             ElementNumberOfChannels = {channels}\nElementType = MET_FLOAT\n\
             ElementDataFile = LOCAL\n",
            "1 ".repeat(n)
        )
    };
    let path = folder.path().join("a.mha");
    for (channels, dims, n) in
        [(1, "2 2 2", 3), (2, "2 2 2", 3), (4, "2 2 2", 3), (3, "2 2 2 2", 4)]
    {
        let mut bytes = header(channels, dims, n).into_bytes();
        bytes.extend(vec![0; channels * 16 * 4]);
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path, &Geometry::default()).unwrap_err().to_string();
        assert!(error.contains("field"), "{channels} {dims}: {error}");
    }
    // What is not a number is found.
    let mut bytes = header(3, "2 2 2", 3).into_bytes();
    let mut values = [0.0f32; 24];
    values[3 * 5 + 1] = f32::NAN;
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    let error = read(&path, &Geometry::default()).unwrap_err().to_string();
    assert!(error.contains("component 1 of voxel 5"), "{error}");
}

/// NIfTI says that vectors of the intent "displacement" are in its own world.
#[test]
fn displacements_of_nifti_are_ras() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.nii");
    let t = Transform::Affine(Affine::translation(Vector3::new(1.0, 2.0, 3.0)));
    let grid = Grid::axis_aligned([4, 4, 4], [2.0; 3]).unwrap();
    write(&path, &t, &Geometry { fixed: Some(&grid), moving: None }).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[68..70], 1007i16.to_le_bytes());
    bytes[68..70].copy_from_slice(&1006i16.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let back = read(&path, &Geometry::default()).unwrap();
    let p = Vector3::new(2.0, 2.0, 2.0);
    assert!((back.apply(p) - Vector3::new(1.0, 0.0, 5.0)).norm() < 1e-5, "{}", back.apply(p));
}

#[test]
fn a_composite_with_a_field_is_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let field = read(data("field.nii.gz"), &Geometry::default()).unwrap();
    let affine = read(data("affine.mat"), &Geometry::default()).unwrap();
    let Transform::Displacement(d) = &field else { panic!("{field:?}") };
    let grid = d.field().grid().clone();
    let both = Transform::Composite(vec![affine, field]);
    let text = write(folder.path().join("a.tfm"), &both, &Geometry::default()).unwrap_err();
    assert!(text.to_string().contains(".nii.gz"), "{text}");
    assert!(write(folder.path().join("a.mat"), &both, &Geometry::default()).is_err());
    let path = folder.path().join("a.nii.gz");
    assert!(write(&path, &both, &Geometry::default()).is_err());
    let geometry = Geometry { fixed: Some(&grid), moving: None };
    write(&path, &both, &geometry).unwrap();
    let back = read(&path, &geometry).unwrap();
    let p = grid.index_to_world(Vector3::new(2.0, 1.0, 1.0));
    assert!((back.apply(p) - both.apply(p)).norm() < 1e-4);
}

#[test]
fn formats_by_name_and_content() {
    let folder = tempfile::tempdir().unwrap();
    let grid = Grid::axis_aligned([20, 20, 20], [2.0; 3]).unwrap();
    let geometry = Geometry { fixed: Some(&grid), moving: Some(&grid) };
    let t = Transform::Affine(Affine::translation(Vector3::new(1.0, 2.0, 3.0)));
    let format = |name: &str| TransformFormat::from_path(name).unwrap();
    assert_eq!(format("a.fsl.mat"), TransformFormat::Fsl);
    assert_eq!(format("a0GenericAffine.mat"), TransformFormat::ItkMatlab);
    // A matrix of FSL keeps its usual name when it is asked for.
    let path = folder.path().join("flirt.mat");
    write_as(&path, &t, &geometry, TransformFormat::Fsl).unwrap();
    let back = read(&path, &geometry).unwrap();
    assert!((back.apply(Vector3::zeros()) - t.apply(Vector3::zeros())).norm() < 1e-9);
    assert!(read(&path, &Geometry::default()).unwrap_err().to_string().contains("needed"));
    let error = write(folder.path().join("a.lta"), &t, &geometry).unwrap_err().to_string();
    assert!(error.contains("a.lta") && error.contains(".tfm") && error.contains(".h5"), "{error}");
    assert_eq!(format("a.h5"), TransformFormat::ItkHdf5);
    assert_eq!(format("A.HDF5"), TransformFormat::ItkHdf5);
    // A name says nothing of a file that is read.
    let path = folder.path().join("a.txt");
    write_as(&path, &t, &geometry, TransformFormat::ItkHdf5).unwrap();
    assert_eq!(read(&path, &geometry).unwrap(), t);
}

const NITRANSFORMS: &str = "io_robustness/nitransforms_transforms";

/// The grids of the moving (source) and fixed (destination) image by a FreeSurfer LTA file.
fn lta_grids(path: &Path) -> [Grid; 2] {
    let text = std::fs::read_to_string(path).unwrap();
    let row = |key: &str, which: usize| -> Vec<f64> {
        let line = text.lines().filter(|l| l.starts_with(key)).nth(which).unwrap();
        let values = line.split_once('=').unwrap().1;
        values.split_whitespace().map(|v| v.parse().unwrap()).collect()
    };
    [0, 1].map(|i| {
        let size = Vector3::from_vec(row("volume", i));
        let spacing = row("voxelsize", i);
        let axes = ["xras", "yras", "zras"].map(|k| Vector3::from_vec(row(k, i)));
        let m = Matrix3::from_columns(&[0, 1, 2].map(|a| axes[a] * spacing[a]));
        let offset = Vector3::from_vec(row("cras", i)) - m * size / 2.0;
        let dims = [size[0] as usize, size[1] as usize, size[2] as usize];
        Grid::new(dims, Affine::new(m, offset)).unwrap()
    })
}

/// One transform, written by nitransforms for images stored in four ways, as FSL and as ITK.
#[test]
fn fsl_and_itk_agree_for_every_storage_order() {
    let Some(folder) = common::real_files(NITRANSFORMS) else { return };
    // The rotations about x by 0.9, y and z by 0.001, in the order of the file's own program.
    let turn = |a: Vector3<f64>| Rotation3::from_scaled_axis(a);
    let r = turn(Vector3::x() * 0.9) * turn(Vector3::y() * 0.001) * turn(Vector3::z() * 0.001);
    let known = Affine::new(*r.matrix(), Vector3::new(4.0, 2.0, -1.0));
    for code in ["RAS", "LAS", "LPS", "oblique"] {
        let [moving, fixed] = lta_grids(&folder.join(format!("affine-{code}.fs.lta")));
        assert!(code == "oblique" || fixed.orientation() == code);
        let geometry = Geometry { fixed: Some(&fixed), moving: Some(&moving) };
        for (name, tolerance) in [("fsl", 5e-3), ("itk.tfm", 2e-3)] {
            let path = folder.join(format!("affine-{code}.{name}"));
            let t = read(&path, &geometry).unwrap().to_affine().unwrap();
            let distance = t.largest_distance(&known, &fixed.corners());
            println!("{code} {name}: {distance:.5} mm");
            assert!(distance < tolerance, "{code} {name}: {distance} mm");
        }
    }
}

/// Transforms between images of different size, spacing and storage order, which FreeSurfer
/// converted to FSL and to ITK.
#[test]
fn fsl_and_itk_agree_between_different_images() {
    let Some(folder) = common::real_files(NITRANSFORMS) else { return };
    for name in [
        "from-fsnative_to-bold_mode-image",
        "from-fsnative_to-scanner_mode-image",
        "from-scanner_to-bold_mode-image",
        "from-scanner_to-fsnative_mode-image",
    ] {
        let [moving, fixed] = lta_grids(&folder.join(format!("{name}.lta")));
        let geometry = Geometry { fixed: Some(&fixed), moving: Some(&moving) };
        let load = |e: &str| {
            let path = folder.join(format!("{name}.{e}"));
            read(path, &geometry).unwrap().to_affine().unwrap()
        };
        let distance = load("fsl").largest_distance(&load("tfm"), &fixed.corners());
        println!("{name}: {distance:.5} mm");
        assert!(distance < 0.01, "{name}: {distance} mm");
        let distance = load("lta").largest_distance(&load("tfm"), &fixed.corners());
        println!("{name}, FreeSurfer's: {distance:.5} mm");
        assert!(distance < 0.01, "{name}, FreeSurfer's: {distance} mm");
    }
}

#[test]
fn lists_without_a_composite_are_errors() {
    let Some(folder) = common::real_files(NITRANSFORMS) else { return };
    for name in ["hmc-itk.tfm", "itktflist.tfm"] {
        let error = read(folder.join(name), &Geometry::default()).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

/// A map in the plane as a transform of two dimensions, which is read as the same map.
#[test]
fn transforms_of_two_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tfm");
    let mut rows = [[0.9, -0.2, 0.0, 3.5], [0.1, 1.1, 0.0, -7.0], [0.0, 0.0, 1.0, 0.0]];
    let map = Transform::Affine(Affine::from_rows(rows));
    assert!(transform::write_itk_2d(&path, &map).unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("Parameters: 0.9 -0.2 0.1 1.1 -3.5 7.0\n"), "{text}");
    assert_eq!(read(&path, &Geometry::default()).unwrap(), map);
    std::fs::remove_file(&path).unwrap();
    for (row, column) in [(0, 2), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3)] {
        let kept = rows[row][column];
        rows[row][column] += 1e-5;
        let map = Transform::Affine(Affine::from_rows(rows));
        assert!(!transform::write_itk_2d(&path, &map).unwrap() && !path.exists());
        rows[row][column] = kept;
    }
}
