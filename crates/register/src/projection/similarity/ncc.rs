//! Correlation, of images and of their gradients.

use super::norms::moments;
use super::{Reference, Tiles};

/// A correlation: 1 where an image is the other but for a factor above 0 and an offset; 0 where one is constant. With the
/// numbers that make its derivative: `∂ρ/∂iₖ = a (xₖ − x̄) − b (iₖ − ī)`.
struct Correlation {
    value: f64,
    means: [f64; 2],
    factors: [f64; 2],
}

fn correlation(reference: &[f32], image: &[f32]) -> Correlation {
    let ((mean_x, var_x), (mean_i, var_i)) = (moments(reference), moments(image));
    let n = reference.len().max(1) as f64;
    let means = [mean_x, mean_i];
    let pairs = reference.iter().zip(image);
    let both: f64 =
        pairs.map(|(&x, &i)| (f64::from(x) - mean_x) * (f64::from(i) - mean_i)).sum::<f64>() / n;
    let size = (var_x * var_i).sqrt();
    // An image that is constant but for rounding is constant.
    let floor = 1e-12 * (mean_i * mean_i).max(f64::MIN_POSITIVE);
    if size.is_nan() || size <= 0.0 || var_i <= floor {
        return Correlation { value: 0.0, means, factors: [0.0; 2] };
    }
    let value = both / size;
    Correlation { value, means, factors: [1.0 / (n * size), value / (n * var_i)] }
}

impl Correlation {
    fn slope(&self, x: f32, i: f32) -> f64 {
        let [a, b] = self.factors;
        a * (f64::from(x) - self.means[0]) - b * (f64::from(i) - self.means[1])
    }
}

/// `1 − ρ`.
pub(super) fn cost(reference: &[f32], image: &[f32], slope: Option<&mut [f32]>) -> f64 {
    let all = correlation(reference, image);
    if let Some(slope) = slope {
        for ((s, &x), &i) in slope.iter_mut().zip(reference).zip(image) {
            *s = -all.slope(x, i) as f32;
        }
    }
    1.0 - all.value
}

/// Differences along columns and rows between the four pixels around each corner of a tile.
fn gradients(values: &[f32], tiles: Tiles) -> [Vec<f32>; 2] {
    let Tiles { width, height } = tiles;
    let mut out = [Vec::new(), Vec::new()];
    for tile in values.chunks_exact(width * height) {
        for (upper, lower) in
            tile.chunks_exact(width).zip(tile.chunks_exact(width).skip(1).take(height - 1))
        {
            for (u, l) in upper.windows(2).zip(lower.windows(2)) {
                out[0].push(0.5 * ((u[1] - u[0]) + (l[1] - l[0])));
                out[1].push(0.5 * ((l[0] - u[0]) + (l[1] - u[1])));
            }
        }
    }
    out
}

/// The adjoint of [`gradients`].
fn from_gradients(slopes: [&[f64]; 2], tiles: Tiles, out: &mut [f32]) {
    let Tiles { width, height } = tiles;
    let mut all = slopes[0].iter().zip(slopes[1]);
    let mut sums = vec![0.0f64; width * height];
    for tile in out.chunks_exact_mut(width * height) {
        sums.fill(0.0);
        for row in 0..height - 1 {
            for column in 0..width - 1 {
                let Some((&x, &y)) = all.next() else { return };
                let at = row * width + column;
                sums[at] -= 0.5 * (x + y);
                sums[at + 1] += 0.5 * (x - y);
                sums[at + width] += 0.5 * (y - x);
                sums[at + width + 1] += 0.5 * (x + y);
            }
        }
        for (out, sum) in tile.iter_mut().zip(&sums) {
            *out = *sum as f32;
        }
    }
}

/// `1 − (ρ of the differences along columns + ρ of those along rows) / 2`.
pub(super) fn of_gradients(reference: &Reference, image: &[f32], slope: Option<&mut [f32]>) -> f64 {
    let tiles = reference.tiles;
    if tiles.width < 2 || tiles.height < 2 {
        if let Some(slope) = slope {
            slope.fill(0.0);
        }
        return 1.0;
    }
    let (of_x, of_i) = (gradients(&reference.values, tiles), gradients(image, tiles));
    let both = [0, 1].map(|a| correlation(&of_x[a], &of_i[a]));
    if let Some(slope) = slope {
        let slopes = [0, 1].map(|a| {
            let pairs = of_x[a].iter().zip(&of_i[a]);
            pairs.map(|(&x, &i)| -0.5 * both[a].slope(x, i)).collect::<Vec<f64>>()
        });
        from_gradients([&slopes[0], &slopes[1]], tiles, slope);
    }
    1.0 - 0.5 * (both[0].value + both[1].value)
}
