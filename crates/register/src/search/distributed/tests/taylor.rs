//! The derivative in the map against differences of the same cost in `f64`.

use super::*;
use voxalign_compute::ops::joint::{FixedBins, JointSlopes, MovingBins, NO_SAMPLE};
use voxalign_compute::{AffineMap, IDENTITY};

const FIXED: Dims = [52, 44, 1];
const MOVING: Dims = [60, 50, 1];
const BINS: usize = 16;

/// Smooth images, the moving one with values that use the range of its pixels.
fn images<P: Pixel + TryFrom<u32>>(deep: usize) -> (Pair<P>, FixedBins, MovingBins) {
    let most = f64::from((1u32 << P::BITS) - 1);
    let value = |x: f64, y: f64, z: f64| {
        0.5 + 0.2 * (0.11 * x + 0.05 * z).sin() + 0.18 * (0.13 * y - 0.03 * x + 0.2 * z).cos()
    };
    let (mut fixed, mut moving) = (FIXED, MOVING);
    (fixed[2], moving[2]) = (deep, if deep > 1 { deep + 2 } else { 1 });
    let low = (0.05 * most) as u16;
    let bins = FixedBins::new(low, (0.95 * most) as u16, BINS).unwrap();
    let moving_bins = MovingBins::new(low, (0.95 * most) as u16, BINS).unwrap();
    let at = |i: usize, dims: Dims| {
        [i % dims[0], i / dims[0] % dims[1], i / (dims[0] * dims[1])].map(|v| v as f64)
    };
    let of = |v: f64| P::try_from((most * v) as u32).unwrap_or_default();
    let count = |dims: Dims| dims.iter().product::<usize>();
    let fixed_bins = (0..count(fixed)).map(|i| {
        let [x, y, z] = at(i, fixed);
        // A margin, so that no sample leaves the image.
        let inside = (9.0..43.0).contains(&x) && (9.0..35.0).contains(&y);
        if inside { bins.bin(of(0.9 * value(x + 3.0, y + 2.0, z))) } else { NO_SAMPLE }
    });
    let pixels = (0..count(moving)).map(|i| {
        let [x, y, z] = at(i, moving);
        of(value(x, y, z))
    });
    let pair =
        Pair { fixed, bins: fixed_bins.collect(), count: BINS, moving, pixels: pixels.collect() };
    (pair, bins, moving_bins)
}

/// Mutual information with its sign turned, and its derivative in each entry where that is wanted, of counts.
fn cost(counts: &[f64], columns: usize) -> (f64, Vec<f64>) {
    let total: f64 = counts.iter().sum();
    let rows: Vec<f64> =
        counts.chunks(columns).map(|row| row.iter().sum::<f64>() / total).collect();
    let of_column = |m: usize| counts.iter().skip(m).step_by(columns).sum::<f64>() / total;
    let column: Vec<f64> = (0..columns).map(of_column).collect();
    let logs: Vec<f64> = (0..counts.len())
        .map(|i| match counts[i] / total {
            p if p > 0.0 => (p / (rows[i / columns] * column[i % columns])).ln(),
            // Nothing is there: the entry is as good as one with next to nothing.
            _ => -20.0,
        })
        .collect();
    let value = -counts.iter().zip(&logs).map(|(n, l)| n / total * l).sum::<f64>();
    (value, logs.iter().map(|l| -l / total).collect())
}

/// The joint histogram in `f64`, without any rounding of coordinates, weights or bins.
fn smooth<P: Pixel>(pair: &Pair<P>, bins: &MovingBins, map: &AffineMap) -> Vec<f64> {
    let columns = bins.columns(Window::Cubic);
    let mut counts = vec![0.0; pair.count * columns];
    let [nx, ny, _] = pair.fixed;
    let [mx, my, mz] = pair.moving;
    for (i, &bin) in pair.bins.iter().enumerate().filter(|(_, b)| **b != NO_SAMPLE) {
        let at = [i % nx, i / nx % ny, i / (nx * ny)].map(|v| v as f64);
        let c = [0, 1, 2].map(|r| (0..3).map(|a| map[r][a] * at[a]).sum::<f64>() + map[r][3]);
        let cell = [0, 1, 2].map(|a| (c[a].floor() as usize).min(pair.moving[a].saturating_sub(2)));
        let mut value = 0.0;
        for k in 0..8 {
            let corner = [0, 1, 2].map(|a| (cell[a] + (k >> a & 1)).min([mx, my, mz][a] - 1));
            let weight = |a: usize| {
                let w = c[a] - cell[a] as f64;
                if k >> a & 1 == 1 { w } else { 1.0 - w }
            };
            let pixel: u32 = pair.pixels[corner[0] + mx * (corner[1] + my * corner[2])].into();
            value += weight(0) * weight(1) * weight(2) * f64::from(pixel);
        }
        let place = (value - f64::from(bins.range().0)) * bins.per_value();
        let (m, t) = (place.floor(), place.fract());
        let s = 1.0 - t;
        let weights = [
            s.powi(3) / 6.0,
            2.0 / 3.0 - t * t + t.powi(3) / 2.0,
            2.0 / 3.0 - s * s + s.powi(3) / 2.0,
            t.powi(3) / 6.0,
        ];
        for (k, w) in weights.into_iter().enumerate() {
            counts[usize::from(bin) * columns + m as usize + k] += w;
        }
    }
    counts
}

fn check_derivative<P: Pixel + TryFrom<u32>>(deep: usize) {
    let (pair, _, bins) = images::<P>(deep);
    let mut map = IDENTITY;
    (map[0][0], map[0][1], map[0][3]) = (0.97, 0.061, 4.313);
    (map[1][0], map[1][1], map[1][3]) = (-0.083, 1.04, 3.171);
    if deep > 1 {
        (map[2][0], map[2][1], map[2][3]) = (0.011, -0.013, 1.077);
        (map[0][2], map[1][2]) = (0.17, -0.12);
    }
    let rule =
        JointRule::new(FixedPointMap::new(&map).unwrap(), pair.moving, BINS, bins, Window::Cubic);
    let found = all(3, |ranks| {
        let kind = StrategyKind::List(Margin::Pixels(1));
        let blocks = BlockRule::Balanced;
        let strategy = strategy(kind, ListOptions::default(), &pair, &ranks, blocks).unwrap();
        let counts = strategy.sums(&ranks, &rule, None).unwrap();
        let counts: Vec<f64> = counts.counts().iter().map(|&n| n as f64).collect();
        let (value, slopes) = cost(&counts, rule.columns());
        let total: f64 = counts.iter().sum();
        let scale = f64::from(1u32 << 16) * total;
        let table: Vec<i32> = slopes.iter().map(|s| (s * scale).round() as i32).collect();
        let slopes = strategy.sums(&ranks, &rule, Some(&table)).unwrap().slopes().unwrap();
        let unit = JointSlopes::unit(&rule, P::BITS == 16) / scale;
        (value, in_map(&slopes, &rule.map, pair.moving, unit).unwrap())
    });
    let at = |map: &AffineMap| cost(&smooth(&pair, &bins, map), rule.columns()).0;
    let (value, gradient) = found[0];
    let (off, size): (f64, f64) = (value - at(&map), value);
    assert!(off.abs() < size.abs() * 2e-3, "{value} {}", at(&map));
    let largest = |a: usize| (0..3).map(|d| gradient[4 * d + a].abs()).fold(0.0, f64::max);
    for d in 0..if deep > 1 { 3 } else { 2 } {
        for a in 0..4 {
            if a == 2 && deep == 1 {
                continue;
            }
            let step = if a == 3 { 2e-3 } else { 4e-5 };
            let moved = |by: f64| {
                let mut map = map;
                map[d][a] += by;
                at(&map)
            };
            let expected = (moved(step) - moved(-step)) / (2.0 * step);
            let off: f64 = (gradient[4 * d + a] - expected).abs();
            assert!(off < largest(a) * 0.02, "{d} {a}: {} not {expected}", gradient[4 * d + a]);
        }
    }
    assert!(found.iter().all(|f| *f == found[0]));
}

#[test]
fn the_derivative_is_that_of_the_cost() {
    check_derivative::<u8>(1);
    check_derivative::<u16>(1);
}

#[test]
fn the_derivative_is_that_of_the_cost_of_volumes() {
    check_derivative::<u8>(5);
    check_derivative::<u16>(5);
}
