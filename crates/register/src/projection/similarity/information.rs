//! Mutual information from joint histograms with Parzen windows along the simulated image.

use voxalign_options::Parameters;

/// Bins beyond those of values that a window reaches at either end.
const MARGIN: usize = 2;

/// Joint histograms of an X-ray image and a simulated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Parameters)]
pub struct JointHistogram {
    /// Histogram bins
    #[parameter(default = 32, unit = "N", least = 4, most = 256, what = "number")]
    pub bins: usize,
}

/// The joint entropy of images that are constant, at most.
const FLAT: f64 = 1e-12;

/// The cubic B-spline at a distance, and its derivative.
fn window(t: f64) -> (f64, f64) {
    let a = t.abs();
    if a < 1.0 {
        (2.0 / 3.0 - a * a + 0.5 * a * a * a, t * (1.5 * a - 2.0))
    } else if a < 2.0 {
        ((2.0 - a).powi(3) / 6.0, -0.5 * (2.0 - a) * (2.0 - a) * t.signum())
    } else {
        (0.0, 0.0)
    }
}

/// The bin of each value of the X-ray image, the nearest between its smallest and its largest.
fn rows(values: &[f32], bins: usize) -> Vec<usize> {
    let finite = || values.iter().copied();
    let (low, high) =
        (finite().fold(f32::INFINITY, f32::min), finite().fold(f32::NEG_INFINITY, f32::max));
    let scale =
        if high > low { (bins - 1) as f64 / (f64::from(high) - f64::from(low)) } else { 0.0 };
    let bin = |v: &f32| ((f64::from(*v) - f64::from(low)) * scale).round() as usize;
    values.iter().map(|v| bin(v).min(bins - 1)).collect()
}

/// `p log p`.
fn plogp(p: f64) -> f64 {
    if p > 0.0 { p * p.ln() } else { 0.0 }
}

/// `−I(x, i)`, or where `normalised` `−(H(x) + H(i)) / H(x, i)`, of the values of an X-ray image and simulated ones that are expected to have
/// `most` at most: the costs of volumes, [`mutual_information`](crate::similarity::mutual_information) and
/// [`normalised_mutual_information`](crate::similarity::normalised_mutual_information), of a histogram with windows.
pub(super) fn cost(
    values: &[f32],
    most: f64,
    image: &[f32],
    derivative: Option<&mut [f32]>,
    (normalised, JointHistogram { bins }): (bool, JointHistogram),
) -> f64 {
    let rows = rows(values, bins);
    let wide = bins + 2 * MARGIN;
    let scale = if most > 0.0 { (bins - 1) as f64 / most } else { 0.0 };
    // A place among bins, and whether it moves with the value.
    let place = |i: f32| {
        let at = f64::from(i) * scale;
        // What is not a number counts as 0.
        let limited = at.max(0.0).min((bins - 1) as f64);
        (limited + MARGIN as f64, limited == at)
    };
    let mut joint = vec![0.0f64; bins * wide];
    for (&row, &i) in rows.iter().zip(image) {
        let (at, _) = place(i);
        let first = at.floor() as usize - 1;
        for bin in first..first + 4 {
            joint[row * wide + bin] += window(at - bin as f64).0;
        }
    }
    let n = rows.len().max(1) as f64;
    joint.iter_mut().for_each(|p| *p /= n);
    let of_rows: Vec<f64> = joint.chunks(wide).map(|row| row.iter().sum()).collect();
    let of_columns: Vec<f64> =
        (0..wide).map(|c| (0..bins).map(|r| joint[r * wide + c]).sum()).collect();
    let entropy = |p: &[f64]| -p.iter().map(|&p| plogp(p)).sum::<f64>();
    let (h_x, h_i, h) = (entropy(&of_rows), entropy(&of_columns), entropy(&joint));
    let log = |p: f64| if p > 0.0 { p.ln() } else { 0.0 };
    if let Some(derivative) = derivative {
        // What a unit in a bin changes; constants cancel, as the windows of a value always sum up to 1.
        let mut table = vec![0.0f64; bins * wide];
        for (r, row) in table.chunks_mut(wide).enumerate() {
            for (c, t) in row.iter_mut().enumerate() {
                let (d_column, d_joint) = (-log(of_columns[c]), -log(joint[r * wide + c]));
                *t = if !normalised {
                    d_joint - d_column
                } else if h > FLAT {
                    -(d_column - (h_x + h_i) / h * d_joint) / h
                } else {
                    0.0
                };
            }
        }
        for ((s, &row), &i) in derivative.iter_mut().zip(&rows).zip(image) {
            let (at, moves) = place(i);
            let first = at.floor() as usize - 1;
            let mut sum = 0.0;
            for bin in first..first + 4 {
                sum += table[row * wide + bin] * window(at - bin as f64).1;
            }
            *s = if moves { (sum * scale / n) as f32 } else { 0.0 };
        }
    }
    if !normalised {
        h - h_x - h_i
    } else if h > FLAT {
        -(h_x + h_i) / h
    } else {
        -1.0
    }
}
