//! Blocks give what the whole image gives.

use super::*;
use crate::apply;
use crate::options::Interpolation as Choice;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use voxalign_compute::cpu::Cpu;
use voxalign_image::Matrix3;
use voxalign_io::pyramid::{PixelsMut, PyramidInfo, PyramidOptions, PyramidToWrite, open};
use voxalign_register::Silent;

/// A pyramid, and the largest region that was read of it.
#[derive(Debug)]
struct Counted {
    inner: Box<dyn PyramidSource>,
    largest: AtomicUsize,
    reads: AtomicUsize,
}

impl PyramidSource for Counted {
    fn info(&self) -> &PyramidInfo {
        self.inner.info()
    }

    fn read(&self, level: usize, region: &Region, out: PixelsMut<'_>) -> voxalign_io::Result<()> {
        self.largest.fetch_max(region.len(), Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read(level, region, out)
    }
}

fn lps(dims: [usize; 3], spacing: f64) -> Grid {
    let axes = Matrix3::from_diagonal(&Vector3::new(-spacing, -spacing, spacing));
    Grid::new(dims, Affine::new(axes, Vector3::zeros())).unwrap()
}

/// Waves with grain on them, from 0 to 255.
fn value(x: usize, y: usize, z: usize) -> u16 {
    let wave = (x as f64 / 7.0).sin() * (y as f64 / 11.0).cos() * (1.0 + z as f64 / 5.0).sin();
    (127.0 + 100.0 * wave) as u16 + ((x * 31 + y * 17 + z * 7) % 23) as u16
}

fn written(path: &Path, grid: &Grid, kind: DataType, tile: [usize; 3]) -> Arc<Counted> {
    let what = PyramidToWrite { tile: Some(tile), ..PyramidToWrite::new(grid.clone(), kind) };
    let writer = PyramidWriter::create(path, &what).unwrap();
    let image = Volume::from_fn(grid.clone(), |x, y, z| f32::from(value(x, y, z)));
    let factor = if kind == DataType::U8 { 1.0 } else { 200.0 };
    let shift = if kind == DataType::I16 { 20_000.0 } else { 0.0 };
    let values = image.data().iter().map(|v| v * factor - shift).collect();
    writer.write(&Region::whole(grid.dims()), stored(&[values], kind).unwrap().view()).unwrap();
    writer.finish().unwrap();
    counted(path)
}

fn counted(path: &Path) -> Arc<Counted> {
    let inner = open(path, &PyramidOptions::default()).unwrap();
    Arc::new(Counted { inner, largest: AtomicUsize::new(0), reads: AtomicUsize::new(0) })
}

/// The finest level, as stored.
fn whole(source: &dyn PyramidSource) -> Volume<f32> {
    let grid = source.levels()[0].grid.clone();
    let offset = source.info().offset as f32;
    let values = match source.block(0, &Region::whole(grid.dims())).unwrap() {
        Pixels::U8(pixels) => pixels.into_iter().map(f32::from).collect::<Vec<_>>(),
        Pixels::U16(pixels) => pixels.into_iter().map(f32::from).collect(),
    };
    Volume::new(grid, values.into_iter().map(|v| v - offset).collect()).unwrap()
}

struct Case<'a> {
    grid: &'a Grid,
    transform: &'a Transform,
    rule: Choice,
    limits: Limits,
    tile: [usize; 3],
    ranks: usize,
}

/// Warps a pyramid into another one, by several processes one after the other.
fn warped(source: &Arc<Counted>, path: &Path, case: &Case<'_>) -> (Arc<Counted>, bool) {
    let cpu = Cpu::new(Some(2)).unwrap();
    let kind = source.info().data_type;
    let what =
        PyramidToWrite { tile: Some(case.tile), ..PyramidToWrite::new(case.grid.clone(), kind) };
    let writer = PyramidWriter::create(path, &what).unwrap();
    let sources: [Arc<dyn PyramidSource>; 1] = [source.clone()];
    let warp = Warp {
        device: &cpu,
        sources: &sources,
        grid: case.grid,
        transform: case.transform,
        interpolation: case.rule.of_image().unwrap(),
        outside: 3.0,
        limits: case.limits,
    };
    let share = |rank| warp.write(&writer, kind, (rank, case.ranks), &Silent).unwrap().met;
    let met = (0..case.ranks).rev().map(share).fold(false, |a, b| a | b);
    writer.finish().unwrap();
    let (volume, once) = warp.volume(&Silent).unwrap();
    let found = counted(path);
    // Of a whole image nothing is rounded yet.
    let rounded = stored(&[volume.data().to_vec()], kind).unwrap();
    let same = match (&rounded, &found.block(0, &Region::whole(case.grid.dims())).unwrap()) {
        (Pixels::U8(a), Pixels::U8(b)) => apart(a, b),
        (Pixels::U16(a), Pixels::U16(b)) => apart(a, b),
        _ => panic!("another type"),
    };
    assert!(same < 0.01, "{same}");
    assert_eq!(once.met, met);
    (found, met)
}

/// The part of values that differ, none by more than one.
fn apart<T: Copy + Into<i64>>(a: &[T], b: &[T]) -> f64 {
    let off = |(a, b): (&T, &T)| ((*a).into() - (*b).into()).abs();
    assert_eq!(a.len(), b.len());
    let far = a.iter().zip(b).map(off).max().unwrap();
    assert!(far <= 1, "{far}");
    a.iter().zip(b).filter(|&pair| off(pair) > 0).count() as f64 / a.len() as f64
}

fn turned(degrees: f64, scale: f64, centre: Vector3<f64>) -> Transform {
    let (s, c) = degrees.to_radians().sin_cos();
    let matrix = Matrix3::new(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0 / scale) * scale;
    Transform::Affine(Affine::about(matrix, centre, Vector3::new(0.012, -0.02, 0.0)))
}

#[test]
fn blocks_are_those_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (moving, grid) = (lps([301, 233, 1], 0.001), lps([260, 251, 1], 0.0012));
    let transform = turned(17.0, 1.1, moving.centre());
    let cpu = Cpu::new(Some(2)).unwrap();
    for (name, kind, tile, differ) in [
        ("a.ome.zarr", DataType::U8, [32, 32, 1], 1e-4),
        ("b.tif", DataType::U8, [64, 16, 1], 1e-4),
        ("c.zarr", DataType::U16, [32, 16, 1], 0.01),
        ("d.tif", DataType::I16, [32, 32, 1], 0.01),
    ] {
        let source = written(&folder.path().join(name), &moving, kind, tile);
        let image = whole(&*source);
        for rule in [Choice::Nearest, Choice::Linear, Choice::Cubic] {
            let limits = Limits { result: 5000, moving: 9000 };
            let case = Case { grid: &grid, transform: &transform, rule, limits, tile, ranks: 1 };
            source.largest.store(0, Ordering::Relaxed);
            let (found, met) = warped(&source, &folder.path().join(format!("to-{name}")), &case);
            assert!(met);
            let largest = source.largest.load(Ordering::Relaxed);
            assert!(largest <= 9000 && largest > 1000, "{largest}");
            let expected = apply::image(&cpu, &image, &grid, &transform, rule, Some(3.0)).unwrap();
            let (low, high) = kind.range().unwrap();
            let rounded = expected
                .data()
                .iter()
                .map(|v| f64::from(*v).round_ties_even().clamp(low, high) as i64);
            let rounded: Vec<i64> = rounded.collect();
            let found: Vec<i64> = whole(&*found).data().iter().map(|&v| v as i64).collect();
            // Halves of pixels fall to either side.
            if rule == Choice::Nearest {
                let off = rounded.iter().zip(&found).filter(|(a, b)| a != b).count();
                assert!(off * 10_000 < rounded.len(), "{name}: {off}");
            } else {
                let part = apart(&rounded, &found);
                assert!(part < differ, "{name} {rule:?}: {part}");
            }
            let seen = found.iter().filter(|&&v| v != 3).count();
            assert!(seen > found.len() / 2 && seen < found.len() - 100, "{seen}");
        }
    }
}

#[test]
fn the_identity_changes_no_pixel() {
    let folder = tempfile::tempdir().unwrap();
    for (name, dims, kind, tile) in [
        ("a.zarr", [301, 233, 1], DataType::U16, [32, 32, 1]),
        ("b.tif", [301, 233, 1], DataType::I16, [64, 16, 1]),
        ("c.zarr", [61, 43, 37], DataType::U8, [16, 16, 8]),
        ("d.zarr", [1, 100, 1], DataType::U8, [16, 16, 1]),
    ] {
        let grid = lps(dims, 0.0005);
        let source = written(&folder.path().join(name), &grid, kind, tile);
        let transform = Transform::identity();
        for rule in [Choice::Nearest, Choice::Linear] {
            let limits = Limits { result: 5000, moving: 20_000 };
            let case = Case { grid: &grid, transform: &transform, rule, limits, tile, ranks: 1 };
            let (found, met) = warped(&source, &folder.path().join(format!("to-{name}")), &case);
            assert!(met);
            for level in 0..found.levels().len() {
                let all = Region::whole(found.levels()[level].dims());
                assert!(found.block(level, &all).unwrap() == source.block(level, &all).unwrap());
            }
        }
    }
}

fn content(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut all, mut next) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(path) = next.pop() {
        if path.is_dir() {
            next.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = fs::read(&path).unwrap();
            all.push((path.strip_prefix(folder).unwrap().to_owned(), bytes));
        }
    }
    all.sort();
    all
}

#[test]
fn volumes_and_fields_by_any_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let (moving, grid) = (lps([61, 43, 37], 0.5), lps([50, 47, 40], 0.55));
    let source = written(&folder.path().join("a.zarr"), &moving, DataType::U8, [16, 16, 16]);
    let image = whole(&*source);
    let coarse = Grid::new(
        [9, 9, 9],
        Affine::new(Matrix3::from_diagonal(&Vector3::new(-3.2, -3.2, 2.4)), Vector3::zeros()),
    )
    .unwrap();
    let field = VectorField::from_world_fn(coarse, |w| {
        Vector3::new((w[1] / 5.0).sin(), 0.7 * (w[2] / 4.0).cos(), (w[0] / 7.0).sin())
    });
    let field = Transform::Displacement(Displacement::new(field));
    let affine = turned(9.0, 0.95, moving.centre());
    let cpu = Cpu::new(Some(2)).unwrap();
    for (number, transform) in [
        affine.clone(),
        field.clone(),
        Transform::Composite(vec![field.clone(), affine.clone()]),
        Transform::Composite(vec![affine, field]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut first = None;
        for ranks in 1..=3 {
            let path = folder.path().join(format!("to{number}-{ranks}")).join("r.zarr");
            fs::create_dir(path.parent().unwrap()).unwrap();
            let case = Case {
                grid: &grid,
                transform: &transform,
                rule: Choice::Linear,
                limits: Limits { result: 8192, moving: 20_000 },
                tile: [16, 16, 8],
                ranks,
            };
            let (found, met) = warped(&source, &path, &case);
            assert!(met);
            let bytes = content(&path);
            assert!(*first.get_or_insert_with(|| bytes.clone()) == bytes, "{ranks}");
            let expected =
                apply::image(&cpu, &image, &grid, &transform, Choice::Linear, Some(3.0)).unwrap();
            let rounded: Vec<i64> =
                expected.data().iter().map(|v| v.round_ties_even() as i64).collect();
            let found: Vec<i64> = whole(&*found).data().iter().map(|&v| v as i64).collect();
            let part = apart(&rounded, &found);
            assert!(part < 1e-4, "{number}: {part}");
        }
    }
}

#[test]
fn strong_reductions_read_little_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let moving = lps([1500, 1200, 1], 0.001);
    let source = written(&folder.path().join("a.zarr"), &moving, DataType::U8, [128, 128, 1]);
    let grid = lps([96, 80, 1], 0.016);
    let transform = Transform::identity();
    let limits = Limits { result: 1 << 14, moving: 30_000 };
    let tile = [32, 32, 1];
    let case =
        Case { grid: &grid, transform: &transform, rule: Choice::Linear, limits, tile, ranks: 1 };
    let (found, _) = warped(&source, &folder.path().join("b.zarr"), &case);
    let largest = source.largest.load(Ordering::Relaxed);
    assert!(largest <= 30_000, "{largest}");
    let (image, found) = (whole(&*source), whole(&*found));
    let mut seen = 0;
    for (x, y) in [(0, 0), (40, 33), (93, 74), (5, 70)] {
        assert_eq!(found.get(x, y, 0), image.get(16 * x, 16 * y, 0));
        seen += 1;
    }
    assert_eq!(seen, 4);
    // Past the image nothing is read.
    source.reads.store(0, Ordering::Relaxed);
    let far = Transform::Affine(Affine::translation(Vector3::new(50.0, 0.0, 0.0)));
    let case = Case { transform: &far, ..case };
    let (found, met) = warped(&source, &folder.path().join("c.zarr"), &case);
    assert!(!met && whole(&*found).data().iter().all(|&v| v == 3.0));
    assert_eq!(source.reads.load(Ordering::Relaxed), 0);
}

#[test]
fn the_background_is_that_of_an_image_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let grid = lps([100, 70, 1], 0.001);
    for (kind, name) in [(DataType::I16, "a.zarr"), (DataType::U16, "b.zarr")] {
        let source = written(&folder.path().join(name), &grid, kind, [32, 32, 1]);
        let expected = crate::files::background(&whole(&*source));
        let limits = Limits { result: 2000, moving: 2000 };
        assert_eq!(background(&*source, limits, &Silent).unwrap(), expected);
        assert_eq!(expected < 0.0, kind == DataType::I16);
    }
}
