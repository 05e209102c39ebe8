//! Joint histograms of two images, derivatives of functions of them, and splines of values.

use voxalign_compute::ops::histogram::{Binning, ParzenBins};
use voxalign_compute::{Device, Dims};

use super::{images, single, upload, weights};
use crate::support::{Random, Results, SIZES, assert_close, indices, len};

pub(crate) const ROWS: [Binning; 3] = [
    Binning { low: 200.0, high: 400.0, bins: 32 },
    Binning { low: 290.0, high: 310.0, bins: 7 },
    Binning { low: 300.0, high: 300.0, bins: 3 },
];

pub(crate) const COLUMNS: [ParzenBins; 2] = [
    ParzenBins { low: -7.0, high: -1.0, count: 36 },
    ParzenBins { low: -3.0, high: -2.5, count: 6 },
];

/// The place of a value among the columns, and whether it is within the range.
fn place(columns: &ParzenBins, value: f64) -> (f64, bool) {
    let margin = ParzenBins::MARGIN as f64;
    let last = columns.count as f64 - 1.0 - margin;
    let u = (value - f64::from(columns.low)) * f64::from(columns.per_value()) + margin;
    (u.clamp(margin, last), (margin..=last).contains(&u))
}

/// The cubic B-spline and its derivative.
fn spline(x: f64) -> (f64, f64) {
    let (a, sign) = (x.abs(), x.signum());
    if a < 1.0 {
        (2.0 / 3.0 - a * a + a * a * a / 2.0, sign * (1.5 * a * a - 2.0 * a))
    } else if a < 2.0 {
        ((2.0 - a).powi(3) / 6.0, -sign * (2.0 - a).powi(2) / 2.0)
    } else {
        (0.0, 0.0)
    }
}

fn expected_histogram(
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    rows: &Binning,
    columns: &ParzenBins,
) -> Vec<f64> {
    let mut sums = vec![0.0; rows.bins * columns.count];
    for i in 0..f.len() {
        let (row, (u, _)) = (rows.bin(f[i] as f32), place(columns, m[i]));
        for (k, sum) in sums[row * columns.count..][..columns.count].iter_mut().enumerate() {
            *sum += w.map_or(1.0, |w| w[i]) * spline(u - k as f64).0;
        }
    }
    sums
}

fn expected_derivatives(
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    rows: &Binning,
    columns: &ParzenBins,
    table: &[f64],
) -> Vec<f64> {
    let derivative = |i: usize| {
        let (row, (u, within)) = (rows.bin(f[i] as f32), place(columns, m[i]));
        let row = &table[row * columns.count..][..columns.count];
        let sum: f64 = row.iter().enumerate().map(|(k, t)| t * spline(u - k as f64).1).sum();
        let held = if within { w.map_or(1.0, |w| w[i]) } else { 0.0 };
        held * sum * f64::from(columns.per_value())
    };
    (0..f.len()).map(derivative).collect()
}

pub(crate) fn found_histogram<D: Device>(
    device: &D,
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    rows: &Binning,
    columns: &ParzenBins,
) -> Vec<f64> {
    let [f, m] = [f, m].map(|image| upload(device, image));
    let w = w.map(|w| upload(device, w));
    device.pair_histogram(&f, &m, w.as_ref(), rows, columns).unwrap()
}

pub(crate) fn found_derivatives<D: Device>(
    device: &D,
    [f, m]: [&[f64]; 2],
    w: Option<&[f64]>,
    rows: &Binning,
    columns: &ParzenBins,
    table: &[f64],
) -> Vec<f32> {
    let mut derivative = device.alloc(f.len()).unwrap();
    let [f, m] = [f, m].map(|image| upload(device, image));
    let w = w.map(|w| upload(device, w));
    device.pair_derivatives(&f, &m, w.as_ref(), rows, columns, table, &mut derivative).unwrap();
    device.into_host(derivative).unwrap()
}

pub(crate) fn table(rows: &Binning, columns: &ParzenBins) -> Vec<f64> {
    let mut random = Random::new(73);
    (0..rows.bins * columns.count).map(|_| random.between(-2.0, 1.0)).collect()
}

pub(crate) fn histogram<D: Device>(device: &D) {
    for dims in SIZES {
        let [f, m] = images(dims);
        let weights: Vec<f64> = weights(dims).iter().map(|w| 100.0 * w).collect();
        let weights = single(&weights);
        for (rows, columns) in ROWS.iter().flat_map(|r| COLUMNS.iter().map(move |c| (r, c))) {
            for w in [None, Some(&weights[..])] {
                let expected = expected_histogram([&f, &m], w, rows, columns);
                let found = found_histogram(device, [&f, &m], w, rows, columns);
                assert_eq!(found.len(), expected.len());
                let unit = if w.is_some() { 5e-3 } else { 4e-5 };
                for (i, (&f, &e)) in found.iter().zip(&expected).enumerate() {
                    let close = (f - e).abs() < unit * e.sqrt().max(1.0) + 1e-4 * e;
                    assert!(close, "{dims:?} {rows:?} {columns:?}: entry {i} is {f}, not {e}");
                }
            }
        }
    }
    // Entries that are too many for the memory of a block, and no voxels at all.
    let dims = [37, 23, 11];
    let [f, m] = images(dims);
    let rows = Binning { low: 200.0, high: 400.0, bins: 500 };
    let columns = ParzenBins { low: -7.0, high: -1.0, count: 300 };
    let expected = expected_histogram([&f, &m], None, &rows, &columns);
    let found = found_histogram(device, [&f, &m], None, &rows, &columns);
    assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-3));
    let none = found_histogram(device, [&[], &[]], None, &ROWS[1], &COLUMNS[1]);
    assert!(none.len() == 42 && none.iter().all(|&v| v == 0.0));
    let zeros = vec![0.0; len(dims)];
    let none = found_histogram(device, [&f, &m], Some(&zeros), &ROWS[1], &COLUMNS[1]);
    assert!(none.iter().all(|&v| v == 0.0));
}

pub(crate) fn derivatives<D: Device>(device: &D) {
    for dims in SIZES {
        let [f, m] = images(dims);
        let weights = weights(dims);
        for (rows, columns) in ROWS.iter().flat_map(|r| COLUMNS.iter().map(move |c| (r, c))) {
            let table = table(rows, columns);
            for w in [None, Some(&weights[..])] {
                let expected = expected_derivatives([&f, &m], w, rows, columns, &table);
                let found = found_derivatives(device, [&f, &m], w, rows, columns, &table);
                let name = format!("{dims:?} {rows:?} {columns:?} {}", w.is_some());
                assert_close(&name, &found, &expected, 3e-5 * f64::from(columns.per_value()));
            }
        }
    }
    let dims = [37, 23, 11];
    let [f, m] = images(dims);
    let rows = Binning { low: 200.0, high: 400.0, bins: 500 };
    let columns = ParzenBins { low: -7.0, high: -1.0, count: 300 };
    let table = table(&rows, &columns);
    let expected = expected_derivatives([&f, &m], None, &rows, &columns, &table);
    let found = found_derivatives(device, [&f, &m], None, &rows, &columns, &table);
    assert_close("large table", &found, &expected, 5e-3);
}

fn found_map<D: Device>(
    device: &D,
    values: &[f64],
    columns: &ParzenBins,
    table: &[f64],
) -> [Vec<f32>; 2] {
    let [mut mapped, mut derivative] = [0, 1].map(|_| device.alloc(values.len()).unwrap());
    let values = upload(device, values);
    device.map_values(&values, columns, table, &mut mapped, &mut derivative).unwrap();
    [mapped, derivative].map(|b| device.into_host(b).unwrap())
}

/// Splines of values, and their derivatives, against the four windows that reach a value.
pub(crate) fn maps<D: Device>(device: &D) {
    let large = ParzenBins { low: -7.0, high: -1.0, count: 30_000 };
    for (dims, columns) in SIZES.iter().flat_map(|&d| COLUMNS.iter().map(move |c| (d, c))) {
        check_map(device, dims, columns);
    }
    check_map(device, [37, 23, 11], &large);
    // Values beyond the ends have the values of the ends.
    let columns = ParzenBins { low: 0.0, high: 10.0, count: 15 };
    let table: Vec<f64> = (0..15).map(|k| f64::from(k - 2)).collect();
    let [mapped, derivative] =
        found_map(device, &[-1e30, 1e30, -0.001, 10.001, 5.0], &columns, &table);
    let close = |found: f32, expected: f32| (found - expected).abs() < 1e-5;
    let expected = [0.0, 10.0, 0.0, 10.0, 5.0];
    assert!(mapped.iter().zip(expected).all(|(&f, e)| close(f, e)), "{mapped:?}");
    assert!(derivative[..4] == [0.0; 4] && close(derivative[4], 1.0), "{derivative:?}");
}

fn check_map<D: Device>(device: &D, dims: Dims, columns: &ParzenBins) {
    let [_, values] = images(dims);
    let table = table(&Binning { low: 0.0, high: 1.0, bins: 1 }, columns);
    let expected = |i: usize| {
        let (u, within) = place(columns, values[i]);
        let first = u as usize - 1;
        let near = table.iter().enumerate().skip(first).take(4);
        let [mut value, mut derivative] = [0.0; 2];
        for (k, t) in near {
            let (of_value, of_derivative) = spline(u - k as f64);
            value += t * of_value;
            derivative += t * of_derivative;
        }
        [value, if within { derivative * f64::from(columns.per_value()) } else { 0.0 }]
    };
    let [mapped, derivative] = found_map(device, &values, columns, &table);
    let (mut of_value, mut of_derivative) = (Vec::new(), Vec::new());
    for i in 0..values.len() {
        let [value, derivative] = expected(i);
        of_value.push(value);
        of_derivative.push(derivative);
    }
    let off = 3e-5 * f64::from(columns.per_value()).max(1.0);
    assert_close(&format!("map {dims:?} {columns:?}"), &mapped, &of_value, off);
    let name = format!("derivative of a map {dims:?} {columns:?}");
    assert_close(&name, &derivative, &of_derivative, off * f64::from(columns.per_value()).max(1.0));
}

/// A function of the histogram and its derivative: that of a table is the sum of the entries times it.
pub(crate) fn histogram_derivative<D: Device>(device: &D) {
    let dims = [37, 23, 11];
    let [f, m] = images(dims);
    let weights = weights(dims);
    let (rows, columns) = (&ROWS[0], &ParzenBins { low: -9.0, high: 1.0, count: 30 });
    let table = table(rows, columns);
    let direction: Vec<f64> = indices(dims).map(|[x, y, _]| (0.1 * (x + y) as f64).cos()).collect();
    let h = 2f64.powi(-6);
    let of = |h: f64| -> f64 {
        let m: Vec<f64> = m.iter().zip(&direction).map(|(m, v)| m + h * v).collect();
        let sums = found_histogram(device, [&f, &m], Some(&weights), rows, columns);
        sums.iter().zip(&table).map(|(s, t)| s * t).sum()
    };
    let derivative = found_derivatives(device, [&f, &m], Some(&weights), rows, columns, &table);
    let dot: f64 = derivative.iter().zip(&direction).map(|(&s, v)| f64::from(s) * v).sum();
    let difference = (of(h) - of(-h)) / (2.0 * h);
    assert!((difference - dot).abs() < 2e-3 * dot.abs(), "{difference} instead of {dot}");
}

/// Values beyond the columns are held at their ends, where the derivative is zero.
pub(crate) fn outside_the_range<D: Device>(device: &D) {
    let columns = ParzenBins { low: 0.0, high: 10.0, count: 15 };
    let rows = Binning { low: 0.0, high: 2.0, bins: 2 };
    let (f, m) = ([0.0, 1.5, -7.0, 1e9, 0.5], [-1e30, 1e30, -0.001, 10.001, 5.0]);
    let sums = found_histogram(device, [&f, &m], None, &rows, &columns);
    let expected = expected_histogram([&f, &m], None, &rows, &columns);
    assert!(sums.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 4e-5), "{sums:?}");
    let table: Vec<f64> = (0..30).map(f64::from).collect();
    let derivative = found_derivatives(device, [&f, &m], None, &rows, &columns, &table);
    assert_eq!(derivative[..4], [0.0; 4]);
    assert!((derivative[4] - 1.0).abs() < 1e-5, "{derivative:?}");
}

pub(crate) fn bits_of_pairs<D: Device>(device: &D) -> Results {
    let mut results = Results::new();
    for dims in [[37, 23, 11], [90, 81, 50]] {
        let [f, m] = images(dims);
        let weights = weights(dims);
        for columns in &COLUMNS {
            let table = table(&Binning { low: 0.0, high: 1.0, bins: 1 }, columns);
            let [mapped, derivatives] = found_map(device, &m, columns, &table);
            results.push((format!("map {dims:?} {columns:?}"), mapped));
            results.push((format!("derivatives of the map {dims:?} {columns:?}"), derivatives));
        }
        for (rows, columns) in ROWS.iter().flat_map(|r| COLUMNS.iter().map(move |c| (r, c))) {
            for w in [None, Some(&weights[..])] {
                let name = format!("{dims:?} {rows:?} {columns:?} {}", w.is_some());
                let sums = found_histogram(device, [&f, &m], w, rows, columns);
                let bits = sums.iter().map(|s| s.to_bits());
                let halves = bits.flat_map(|b| [b as u32, (b >> 32) as u32]).map(f32::from_bits);
                results.push((format!("histogram {name}"), halves.collect()));
                let table = table(rows, columns);
                let derivatives = found_derivatives(device, [&f, &m], w, rows, columns, &table);
                results.push((format!("derivatives {name}"), derivatives));
            }
        }
    }
    results
}
