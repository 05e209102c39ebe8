//! Normalised cross correlation, of images and of their gradients.

use super::sums::{moments, sum, sums};
use super::{Known, Reference, Tiles};

/// A correlation: 1 where an image is the other but for a factor above 0 and an offset; 0 where one is constant. With the
/// numbers that make its derivative: `∂ρ/∂iₖ = a (xₖ − x̄) − b (iₖ − ī)`.
struct Correlation {
    value: f64,
    means: [f64; 2],
    factors: [f64; 2],
}

/// Of values whose mean and variance are known, and an image.
fn correlation(reference: &[f32], (mean_x, var_x): (f64, f64), image: &[f32]) -> Correlation {
    let n = reference.len().max(1) as f64;
    let mean_i = sum(image, |i| i) / n;
    let [both, squares] = sums(reference, image, |x, i| {
        let i = i - mean_i;
        [(x - mean_x) * i, i * i]
    });
    let (var_i, means) = (squares / n, [mean_x, mean_i]);
    let size = (var_x * var_i).sqrt();
    // An image that is constant but for rounding is constant.
    let floor = 1e-12 * (mean_i * mean_i).max(f64::MIN_POSITIVE);
    if size.is_nan() || size <= 0.0 || var_i <= floor {
        return Correlation { value: 0.0, means, factors: [0.0; 2] };
    }
    let value = both / n / size;
    Correlation { value, means, factors: [1.0 / (n * size), value / (n * var_i)] }
}

impl Correlation {
    fn derivative(&self, x: f32, i: f32) -> f64 {
        let [a, b] = self.factors;
        a * (f64::from(x) - self.means[0]) - b * (f64::from(i) - self.means[1])
    }
}

/// `1 − ρ`.
pub(super) fn cost(reference: &[f32], image: &[f32], derivative: Option<&mut [f32]>) -> f64 {
    let all = correlation(reference, moments(reference), image);
    if let Some(derivative) = derivative {
        for ((s, &x), &i) in derivative.iter_mut().zip(reference).zip(image) {
            *s = -all.derivative(x, i) as f32;
        }
    }
    1.0 - all.value
}

/// Differences along columns and rows between four pixels, the upper and the lower two.
fn differences([a, b]: [f32; 2], [c, d]: [f32; 2]) -> [f32; 2] {
    [0.5 * ((b - a) + (d - c)), 0.5 * ((c - a) + (d - b))]
}

/// Whether each corner of a tile counts: where all four pixels around it do.
fn corners(counts: &[bool], tiles: Tiles) -> Vec<bool> {
    let Tiles { width, height } = tiles;
    let mut out = Vec::new();
    for tile in counts.chunks_exact(width * height) {
        for rows in tile.windows(2 * width).step_by(width) {
            let (upper, lower) = rows.split_at(width);
            let pairs = upper.windows(2).zip(lower.windows(2));
            out.extend(pairs.map(|(u, l)| u[0] && u[1] && l[0] && l[1]));
        }
    }
    out
}

/// The values of corners that count.
fn of_corners(values: &mut Vec<f32>, counts: &[bool]) {
    let mut each = counts.iter();
    values.retain(|_| each.next().is_some_and(|counts| *counts));
}

/// Differences along columns and rows between the four pixels around each corner of a tile.
fn gradients(values: &[f32], tiles: Tiles) -> [Vec<f32>; 2] {
    let Tiles { width, height } = tiles;
    let count = values.len() / (width * height) * (width - 1) * (height - 1);
    let mut out = [Vec::with_capacity(count), Vec::with_capacity(count)];
    let mut add = |upper, lower| {
        let [x, y] = differences(upper, lower);
        out[0].push(x);
        out[1].push(y);
    };
    if [width, height] == [2, 2] {
        for &[a, b, c, d] in values.as_chunks::<4>().0 {
            add([a, b], [c, d]);
        }
        return out;
    }
    for tile in values.chunks_exact(width * height) {
        for rows in tile.windows(2 * width).step_by(width) {
            let (upper, lower) = rows.split_at(width);
            for (u, l) in upper.windows(2).zip(lower.windows(2)) {
                add([u[0], u[1]], [l[0], l[1]]);
            }
        }
    }
    out
}

/// The derivatives in four pixels, given those in their [`differences`].
fn from_differences(x: f64, y: f64) -> [f64; 4] {
    [-0.5 * (x + y), 0.5 * (x - y), 0.5 * (y - x), 0.5 * (x + y)]
}

/// The adjoint of [`gradients`], of derivatives in the differences.
fn from_gradients(derivatives: impl Iterator<Item = (f64, f64)>, tiles: Tiles, out: &mut [f32]) {
    let Tiles { width, height } = tiles;
    if [width, height] == [2, 2] {
        for (out, (x, y)) in out.as_chunks_mut::<4>().0.iter_mut().zip(derivatives) {
            *out = from_differences(x, y).map(|v| v as f32);
        }
        return;
    }
    let mut derivatives = derivatives;
    let mut sums = vec![0.0f64; width * height];
    for tile in out.chunks_exact_mut(width * height) {
        sums.fill(0.0);
        for row in 0..height - 1 {
            for column in 0..width - 1 {
                let Some((x, y)) = derivatives.next() else { return };
                let at = row * width + column;
                let places = [at, at + 1, at + width, at + width + 1];
                for (place, v) in places.into_iter().zip(from_differences(x, y)) {
                    sums[place] += v;
                }
            }
        }
        for (out, sum) in tile.iter_mut().zip(&sums) {
            *out = *sum as f32;
        }
    }
}

/// `1 − (ρ of the differences along columns + ρ of those along rows) / 2`.
pub(super) fn of_gradients(
    reference: &Reference,
    image: &[f32],
    derivative: Option<&mut [f32]>,
) -> f64 {
    let tiles = reference.tiles;
    if tiles.width < 2 || tiles.height < 2 {
        if let Some(derivative) = derivative {
            derivative.fill(0.0);
        }
        return 1.0;
    }
    let counts = reference.counted.as_ref().map(|counted| corners(&counted.each, tiles));
    let known = reference.gradients.get_or_init(|| {
        gradients(&reference.values, tiles).map(|mut values| {
            if let Some(counts) = &counts {
                of_corners(&mut values, counts);
            }
            let (mean, variance) = moments(&values);
            Known { values, mean, variance }
        })
    });
    let mut of_i = gradients(image, tiles);
    if let Some(counts) = &counts {
        of_i.iter_mut().for_each(|values| of_corners(values, counts));
    }
    let both = [0, 1].map(|a| {
        let Known { values, mean, variance } = &known[a];
        correlation(values, (*mean, *variance), &of_i[a])
    });
    if let Some(derivative) = derivative {
        let along = |a: usize| {
            let pairs = known[a].values.iter().zip(&of_i[a]);
            let of = &both[a];
            pairs.map(move |(&x, &i)| -0.5 * of.derivative(x, i))
        };
        let mut derivatives = along(0).zip(along(1));
        match &counts {
            None => from_gradients(derivatives, tiles, derivative),
            Some(counts) => {
                let each = |counts: &bool| match counts {
                    true => derivatives.next().unwrap_or_default(),
                    false => (0.0, 0.0),
                };
                from_gradients(counts.iter().map(each), tiles, derivative);
            }
        }
    }
    1.0 - 0.5 * (both[0].value + both[1].value)
}
