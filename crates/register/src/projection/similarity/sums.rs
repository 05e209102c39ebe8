//! Sums in double precision, in a fixed order that suits SIMD.

/// Numbers that are summed up side by side.
const LANES: usize = 8;

/// The lanes of a sum, added up.
fn total(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// The sum of `f` over the values.
pub(super) fn sum(values: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &v) in lanes.iter_mut().zip(block) {
            *lane += f(f64::from(v));
        }
    }
    for (lane, &v) in lanes.iter_mut().zip(rest) {
        *lane += f(f64::from(v));
    }
    total(lanes)
}

/// The sums of both results of `f` over pairs of values.
pub(super) fn sums(a: &[f32], b: &[f32], f: impl Fn(f64, f64) -> [f64; 2]) -> [f64; 2] {
    let mut lanes = [[0.0; LANES]; 2];
    let mut add = |lane: usize, a: f32, b: f32| {
        let [x, y] = f(f64::from(a), f64::from(b));
        lanes[0][lane] += x;
        lanes[1][lane] += y;
    };
    let ((blocks_a, rest_a), (blocks_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in blocks_a.iter().zip(blocks_b) {
        for lane in 0..LANES {
            add(lane, a[lane], b[lane]);
        }
    }
    for (lane, (&a, &b)) in rest_a.iter().zip(rest_b).enumerate() {
        add(lane, a, b);
    }
    lanes.map(total)
}

/// The mean and the variance of values.
pub(super) fn moments(values: &[f32]) -> (f64, f64) {
    let n = values.len().max(1) as f64;
    let mean = sum(values, |v| v) / n;
    (mean, sum(values, |v| (v - mean) * (v - mean)) / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_count_once() {
        for n in [0, 1, 7, 8, 9, 37] {
            let values: Vec<f32> = (0..n).map(|i| (i * i % 13) as f32 - 4.0).collect();
            let others: Vec<f32> = values.iter().map(|v| 2.0 * v + 1.0).collect();
            let plain: f64 = values.iter().map(|&v| f64::from(v)).sum();
            assert_eq!(sum(&values, |v| v), plain);
            let [both, second] = sums(&values, &others, |a, b| [a * b, b]);
            let pairs = values.iter().zip(&others);
            assert_eq!(both, pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>());
            assert_eq!(second, 2.0 * plain + n as f64);
        }
        let (mean, variance) = moments(&[1.0, 2.0, 3.0, 6.0]);
        assert_eq!((mean, variance), (3.0, 3.5));
    }
}
