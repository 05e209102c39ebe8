//! The families of images, each on grids as large as it takes.

use super::*;
use crate::ops::elementwise::x;
use crate::ops::filter::GaussianMethod;
use crate::ops::fourier::spectrum_len;
use crate::ops::histogram::{Binning, ParzenBins};
use crate::ops::resample::{Interpolation, LabelInterpolation};
use crate::ops::{Accumulate, Filter, Fourier, Histogram, Resample, Similarity, Stencil};
use rayon::prelude::*;

/// Rounding of sums and of single precision.
pub(super) const ROUNDING: f64 = 1e-5;

pub(super) fn run(cuda: &Cuda, grids: &Grids) {
    memory(cuda, grids);
    reduce(cuda, grids);
    elementwise(cuda, grids);
    accumulate(cuda, grids);
    filter(cuda, grids);
    stencil(cuda, grids);
    fourier(cuda, grids);
    similarity(cuda, grids);
    maps(cuda, grids);
    counts(cuda, grids);
    fields::elastic(cuda, grids);
    fields::flow(cuda, grids);
    resample(cuda, grids);
    joint::run(cuda, grids);
}

/// Copies from, to and on the device, byte by byte.
fn memory(cuda: &Cuda, grids: &Grids) {
    let byte = |i: usize| (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0];
    let mut data = crate::host::zeroed::<u8>(grids.bytes).unwrap();
    data.par_iter_mut().enumerate().for_each(|(i, b)| *b = byte(i));
    let buffer = cuda.upload(&data).unwrap();
    let mut copy = cuda.alloc::<u8>(grids.bytes).unwrap();
    cuda.copy(&buffer, &mut copy).unwrap();
    drop(buffer);
    data.fill(0);
    cuda.download_into(&copy, &mut data).unwrap();
    let wrong = data.par_iter().enumerate().find_any(|(i, b)| **b != byte(*i));
    assert!(wrong.is_none(), "memory: byte {wrong:?}");
    let mut piece = [0; 100];
    let first = grids.bytes - piece.len();
    cuda.read(&copy, first, &mut piece).unwrap();
    assert!(piece.iter().enumerate().all(|(i, b)| *b == byte(first + i)));
}

/// Sums and extremes of numbers that are known.
fn reduce(cuda: &Cuda, grids: &Grids) {
    let n = len(grids.scalar);
    let mut image = cuda.alloc::<f32>(n).unwrap();
    cuda.eval_in_place(&(x(0) + 1.0), &mut image, &[], &[], None).unwrap();
    for (at, value) in [(n - 1, -5.0f32), (n / 2, 7.0), (n - n / 8, f32::INFINITY)] {
        cuda.write(&[value], &mut image, at).unwrap();
        let what = [Reduction::Min(0), Reduction::Max(0), Reduction::MaxAbs(0)];
        let found = cuda.reduce(&[&image], &what).unwrap();
        let (low, high) = (f64::from(value.min(1.0)), f64::from(value.max(1.0)));
        assert_eq!(found, [low, high, high.max(-low)], "element {at}");
        let odd = cuda.reduce(&[&image], &[Reduction::CountNonFinite(0)]).unwrap();
        assert_eq!(odd[0], f64::from(u32::from(value.is_infinite())));
        cuda.write(&[1.0f32], &mut image, at).unwrap();
    }
    let what = [
        Reduction::Sum(0),
        Reduction::SumAbs(0),
        Reduction::SumSquares(0),
        Reduction::Dot(0, 0),
        Reduction::SumSquaredDifference(0, 0),
    ];
    let expected = n as f64;
    assert_eq!(
        cuda.reduce(&[&image], &what).unwrap(),
        [expected, expected, expected, expected, 0.0]
    );
}

fn elementwise(cuda: &Cuda, grids: &Grids) {
    same_everywhere(cuda, grids.scalar, "elementwise", 0.0, |scene| {
        let (a, b) = (scene.image(1, 1, 1.0)?, scene.image(1, 2, 1.0)?);
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.eval(&(x(0) * x(1) * 3.0 - x(0)), &[&a, &b], &[], None, &mut out)?;
        scene.cuda.eval_in_place(&(x(0) + x(1).abs()), &mut out, &[&b], &[], None)?;
        Ok(Made::of(out, 1))
    });
}

fn accumulate(cuda: &Cuda, grids: &Grids) {
    same_everywhere(cuda, grids.scalar, "accumulate", 0.0, |scene| {
        let image = scene.image(1, 3, 1.0)?;
        let mut sums = scene.cuda.alloc::<i64>(scene.n())?;
        for factor in [1e9, 2e9] {
            scene.cuda.add_fixed(&image, factor, &mut sums)?;
        }
        drop(image);
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.fixed_to_float(&sums, 1e-9, &mut out)?;
        Ok(Made::of(out, 1))
    });
}

fn filter(cuda: &Cuda, grids: &Grids) {
    for (name, method, sigma) in [
        ("recursive Gaussian", GaussianMethod::Recursive, 1.2),
        ("narrow Gaussian", GaussianMethod::Recursive, 0.8),
        ("FIR Gaussian", GaussianMethod::Fir, 1.0),
    ] {
        same_everywhere(cuda, grids.scalar, name, ROUNDING, |scene| {
            let image = scene.image(1, 4, 1.0)?;
            let mut out = scene.cuda.alloc(scene.n())?;
            scene.cuda.gaussian(&image, scene.dims, [sigma; 3], method, &mut out)?;
            Ok(Made::of(out, 1))
        });
    }
    same_everywhere(cuda, grids.field, "Gaussian of fields", ROUNDING, |scene| {
        let image = scene.image(3, 4, 1.0)?;
        let mut out = scene.cuda.alloc(3 * scene.n())?;
        let method = GaussianMethod::Recursive;
        scene.cuda.gaussian(&image, scene.dims, [1.1; 3], method, &mut out)?;
        Ok(Made::of(out, 3))
    });
    same_everywhere(cuda, grids.scalar, "box means", ROUNDING, |scene| {
        let image = scene.image(1, 5, 1.0)?;
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.box_mean(&image, scene.dims, [2, 3, 1], &mut out)?;
        // Running sums leave something of their rounding.
        scene.cuda.eval_in_place(
            &crate::ops::elementwise::select(x(0).abs().gt(1e-6), x(0), 0.0),
            &mut out,
            &[],
            &[],
            None,
        )?;
        Ok(Made::of(out, 1))
    });
    same_everywhere(cuda, grids.scalar, "B-spline coefficients", ROUNDING, |scene| {
        let mut image = scene.image(1, 6, 1.0)?;
        scene.cuda.bspline_prefilter(&mut image, scene.dims)?;
        Ok(Made::of(image, 1))
    });
}

fn stencil(cuda: &Cuda, grids: &Grids) {
    let spacing = [1.0, 0.5, 2.0];
    same_everywhere(cuda, grids.scalar, "gradient", ROUNDING, |scene| {
        let image = scene.image(1, 7, 1.0)?;
        let mut out = scene.cuda.alloc(3 * scene.n())?;
        scene.cuda.gradient(&image, scene.dims, spacing, &mut out)?;
        Ok(Made::of(out, 3))
    });
    same_everywhere(cuda, grids.scalar, "Laplacian", ROUNDING, |scene| {
        let image = scene.image(1, 8, 1.0)?;
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.laplacian(&image, scene.dims, spacing, &mut out)?;
        Ok(Made::of(out, 1))
    });
    same_everywhere(cuda, grids.field, "divergence", ROUNDING, |scene| {
        let field = scene.image(3, 9, 1.0)?;
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.divergence(&field, scene.dims, spacing, &mut out)?;
        Ok(Made::of(out, 1))
    });
    same_everywhere(cuda, grids.field, "Jacobian determinant", ROUNDING, |scene| {
        let field = scene.image(3, 10, 0.3)?;
        let mut out = scene.cuda.alloc(scene.n())?;
        scene.cuda.jacobian_determinant(&field, scene.dims, &mut out)?;
        scene.cuda.eval_in_place(&(x(0) - 1.0), &mut out, &[], &[], None)?;
        Ok(Made::of(out, 1))
    });
}

/// There and back; and frequencies by the definition.
fn fourier(cuda: &Cuda, grids: &Grids) {
    let dims = grids.scalar;
    let scene = Scene::large(cuda, dims);
    let image = scene.image(1, 11, 1.0).unwrap();
    let mut spectrum = cuda.alloc(spectrum_len(dims).unwrap()).unwrap();
    match cuda.forward(&image, dims, &mut spectrum) {
        Err(ComputeError::Unavailable { reason, .. }) => {
            return eprintln!("Fourier transforms left out: {reason}");
        }
        done => done.unwrap(),
    }
    let width = dims[0] / 2 + 1;
    let values = mark(11);
    for k in [
        [0, 0, 0],
        [3, 5, 7],
        [width - 1, dims[1] / 2, dims[2] / 2],
        [width - 2, dims[1] - 1, dims[2] - 2],
    ] {
        let (mut expected, mut size) = ([0.0; 2], 0.0);
        for place in &scene.places {
            for (i, &v) in values.iter().enumerate() {
                let at = [i % MARK[0], i / MARK[0] % MARK[1], i / (MARK[0] * MARK[1])];
                // Whole turns are taken off before it is rounded.
                let turns: f64 = (0..3)
                    .map(|a| ((k[a] * (place[a] + at[a])) % dims[a]) as f64 / dims[a] as f64)
                    .sum();
                let (sin, cos) = (-std::f64::consts::TAU * turns).sin_cos();
                expected[0] += f64::from(v) * cos;
                expected[1] += f64::from(v) * sin;
                size += f64::from(v * v);
            }
        }
        let mut found = [0f32; 2];
        cuda.read(&spectrum, 2 * ((k[2] * dims[1] + k[1]) * width + k[0]), &mut found).unwrap();
        for (f, e) in found.iter().zip(expected) {
            assert!(
                (f64::from(*f) - e).abs() < 1e-4 * size.sqrt(),
                "frequency {k:?}: {f}, not {e}"
            );
        }
    }
    drop((image, spectrum));
    same_everywhere(cuda, dims, "Fourier transforms", ROUNDING, |scene| {
        let mut image = scene.image(1, 12, 1.0)?;
        let mut spectrum = scene.cuda.alloc(spectrum_len(scene.dims)?)?;
        scene.cuda.forward(&image, scene.dims, &mut spectrum)?;
        scene.cuda.inverse(&mut spectrum, scene.dims, &mut image)?;
        Ok(Made::of(image, 1))
    });
    same_everywhere(cuda, grids.field, "factors of a spectrum", ROUNDING, |scene| {
        // The spectrum as an image whose rows are two numbers longer.
        let [nx, ny, nz] = scene.dims;
        let of = Scene {
            cuda: scene.cuda,
            dims: [2 * (nx / 2 + 1), ny, nz],
            places: scene.places.clone(),
        };
        let mut spectrum = of.image(1, 13, 1.0)?;
        let mut factors = scene.cuda.alloc(of.n() / 2)?;
        scene.cuda.eval_in_place(&(x(0) + 0.75), &mut factors, &[], &[], None)?;
        scene.cuda.scale_spectrum(&mut spectrum, scene.dims, &factors)?;
        // Back to the grid: only what is around marks.
        let mut out = scene.cuda.alloc(scene.n())?;
        for &place in &scene.places {
            let [width, rows, slices] = MARK.map(|m| m + 2 * AROUND);
            let mut row_of_numbers = vec![0f32; width];
            for row in 0..rows * slices {
                let at = [
                    row_of(place[0], 0),
                    row_of(place[1], row % rows),
                    row_of(place[2], row / rows),
                ];
                scene.cuda.read(&spectrum, of.at(0, at), &mut row_of_numbers)?;
                scene.cuda.write(&row_of_numbers, &mut out, scene.at(0, at))?;
            }
        }
        Ok(Made::of(out, 1))
    });
    same_everywhere(cuda, grids.field, "sine transforms", 1e-4, |scene| {
        let mut image = scene.image(1, 14, 1.0)?;
        scene.cuda.sine(&mut image, scene.dims)?;
        scene.cuda.sine(&mut image, scene.dims)?;
        Ok(Made::of(image, 1))
    });
}

fn similarity(cuda: &Cuda, grids: &Grids) {
    for (name, dims, windows) in [
        ("local correlation, small windows", grids.scalar, [2, 2, 2]),
        ("local correlation, large windows", grids.field, [5, 2, 1]),
    ] {
        same_everywhere(cuda, dims, name, 1e-3, |scene| {
            let (fixed, moving) = (scene.image(1, 15, 10.0)?, scene.image(1, 16, 10.0)?);
            let (mut derivative, mut energy) = (scene.cuda.alloc(scene.n())?, scene.cuda.alloc(1)?);
            let (dims, derivative_to) = (scene.dims, &mut derivative);
            scene.cuda.local_correlation(
                &fixed,
                &moving,
                None,
                dims,
                windows,
                1.0,
                derivative_to,
                &mut energy,
            )?;
            drop((fixed, moving));
            // Means over the grid become sums, of which each mark has one.
            let n = scene.n() as f32;
            scene.cuda.eval_in_place(&(x(0) * n), &mut derivative, &[], &[], None)?;
            let energy = scene.cuda.download(&energy)?[0] * scene.n() as f64;
            let each = energy / scene.places.len() as f64;
            assert!((-1e3..-1.0).contains(&each), "{name}: {each}");
            Ok(Made { is_local: false, ..Made::of(derivative, 1) })
        });
    }
    let (rows, columns) = (
        Binning { low: -1.0, high: 1.0, bins: 16 },
        ParzenBins { low: -1.0, high: 1.0, count: 20 },
    );
    let histogram = |scene: &Scene<'_>| {
        let (fixed, moving) = (scene.image(1, 17, 1.0).unwrap(), scene.image(1, 18, 1.0).unwrap());
        cuda.pair_histogram(&fixed, &moving, None, &rows, &columns).unwrap()
    };
    let (small, large) = (Scene::small(cuda), Scene::large(cuda, grids.scalar));
    let (of_small, of_large) = (histogram(&small), histogram(&large));
    let total: f64 = of_large.iter().sum();
    assert!((total / large.n() as f64 - 1.0).abs() < 1e-5, "{total}");
    // The row of zeros has the background; all others are of marks alone.
    let background = rows.bin(0.0) * columns.count..(rows.bin(0.0) + 1) * columns.count;
    for (i, (s, l)) in of_small.iter().zip(&of_large).enumerate() {
        let expected = s * large.places.len() as f64;
        let same = background.contains(&i) || (l - expected).abs() < 1e-3;
        assert!(same, "entry {i} of a joint histogram: {l}, not {expected}");
    }
    let table: Vec<f64> = (0..16 * 20).map(|i| (f64::from(i) * 0.37).sin()).collect();
    same_everywhere(cuda, grids.scalar, "derivatives of a joint histogram", ROUNDING, |scene| {
        let (fixed, moving) = (scene.image(1, 17, 1.0)?, scene.image(1, 18, 1.0)?);
        let mut derivative = scene.cuda.alloc(scene.n())?;
        scene.cuda.pair_derivatives(
            &fixed,
            &moving,
            None,
            &rows,
            &columns,
            &table,
            &mut derivative,
        )?;
        Ok(Made { is_local: false, ..Made::of(derivative, 1) })
    });
}

/// Splines of values.
fn maps(cuda: &Cuda, grids: &Grids) {
    let columns = ParzenBins { low: -0.5, high: 0.5, count: 20 };
    let table: Vec<f64> = (0..20).map(|i| (f64::from(i) * 0.37).sin()).collect();
    for which in 0..2 {
        same_everywhere(cuda, grids.scalar, "splines of values", ROUNDING, |scene| {
            let values = scene.image(1, 18, 1.0)?;
            let [mut mapped, mut derivative] =
                [scene.cuda.alloc(scene.n())?, scene.cuda.alloc(scene.n())?];
            scene.cuda.map_values(&values, &columns, &table, &mut mapped, &mut derivative)?;
            let made = if which == 0 { mapped } else { derivative };
            Ok(Made { is_local: false, ..Made::of(made, 1) })
        });
    }
}

/// Counts of values.
fn counts(cuda: &Cuda, grids: &Grids) {
    let scene = Scene::large(cuda, grids.scalar);
    let image = scene.image(1, 19, 1.0).unwrap();
    let found = cuda.value_counts(&image, None, -0.5, 0.5, 4).unwrap();
    let mut expected = [0u64; 6];
    for v in mark(19) {
        let place = ((f64::from(v) + 0.5) * 4.0).floor();
        expected[(place + 1.0).clamp(0.0, 5.0) as usize] += scene.places.len() as u64;
    }
    let zeros = (scene.n() - scene.places.len() * len(MARK)) as u64;
    expected[3] += zeros;
    assert_eq!((found.below, found.above), (expected[0], expected[5]));
    assert_eq!(found.counts, expected[1..5]);
}

/// Small sources on large grids.
fn resample(cuda: &Cuda, grids: &Grids) {
    let small = Scene::small(cuda);
    let (source, field) = (small.image(1, 70, 1.0).unwrap(), small.image(3, 71, 1.0).unwrap());
    let labels: Vec<i32> =
        cuda.download(&source).unwrap().iter().map(|v| (9.0 * v) as i32).collect();
    let of_labels = cuda.upload(&labels).unwrap();
    let expected = small.around(&source, 0, PLACE).unwrap();
    // Brings a mark of the large grid to that of the source.
    let map = |place: Dims| {
        let mut map = [[0.0; 4]; 3];
        for a in 0..3 {
            (map[a][a], map[a][3]) = (1.0, PLACE[a] as f64 - place[a] as f64);
        }
        map
    };
    let total = squares(cuda, &source).unwrap()[0];
    let large = Scene::large(cuda, grids.scalar);
    let mut out = cuda.alloc::<f32>(large.n()).unwrap();
    for &place in &large.places {
        for kind in [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic] {
            cuda.warp_affine(&source, SMALL, &map(place), large.dims, kind, 0.0, &mut out).unwrap();
            let found = large.around(&out, 0, place).unwrap();
            let error = found.iter().zip(&expected).map(|(f, e)| (f - e).abs()).fold(0.0, f32::max);
            assert!(error < 1e-5, "{kind:?} at {place:?}: {error}");
            let squares = squares(cuda, &out).unwrap()[0];
            assert!((squares / total - 1.0).abs() < 1e-5, "{kind:?} at {place:?}: {squares}");
        }
    }
    drop(out);
    let mut chosen = cuda.alloc::<i32>(large.n()).unwrap();
    for &place in &large.places {
        let rule = LabelInterpolation::Majority;
        cuda.warp_labels(&of_labels, SMALL, &map(place), None, large.dims, rule, 0, &mut chosen)
            .unwrap();
        for z in 0..MARK[2] {
            let mut row = [0; MARK[0]];
            cuda.read(&chosen, large.at(0, [place[0], place[1], place[2] + z]), &mut row).unwrap();
            let first = small.at(0, [PLACE[0], PLACE[1], PLACE[2] + z]);
            assert_eq!(row, labels[first..first + MARK[0]], "labels at {place:?}");
        }
    }
    drop(chosen);
    // By fields of more than 2^32 elements.
    let large = Scene::large(cuda, grids.field);
    let moved = cuda.alloc::<f32>(3 * large.n()).unwrap();
    let mut out = cuda.alloc::<f32>(large.n()).unwrap();
    for &place in &large.places {
        let kind = Interpolation::Linear;
        cuda.warp_field(&source, SMALL, &map(place), &moved, large.dims, kind, 0.0, &mut out)
            .unwrap();
        assert_eq!(large.around(&out, 0, place).unwrap(), expected, "by a field at {place:?}");
    }
    drop(out);
    let mut out = cuda.alloc::<f32>(3 * large.n()).unwrap();
    for &place in &large.places {
        let map = map(place);
        for composed in [true, false] {
            if composed {
                cuda.compose_fields(&field, SMALL, &map, &moved, large.dims, &mut out).unwrap();
            } else {
                cuda.resample_field(&field, SMALL, &map, large.dims, &mut out).unwrap();
            }
            for component in 0..3 {
                let expected = small.around(&field, component, PLACE).unwrap();
                let found = large.around(&out, component, place).unwrap();
                assert_eq!(found, expected, "composed: {composed}, at {place:?}");
            }
        }
    }
}
