//! The costs as functions of sums, and their derivatives in these sums.
//!
//! All costs are minimised. Each function returns the cost and its derivative in every sum it was
//! given; the chain rule with the derivatives of the sums gives the derivative in the map.

use crate::choice::choices;
use serde::{Deserialize, Serialize};

/// The similarity, as a cost that is minimised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Cost {
    /// Correlation ratio: 1 - eta(moving | fixed), not symmetric in the images. Serves images of one
    /// kind and of different kinds.
    #[default]
    Cr,
    /// Mutual information: -MI in nats.
    Mi,
    /// Normalised mutual information: -(H(F) + H(M)) / H(F, M).
    Nmi,
    /// Normalised cross correlation: 1 - NCC.
    Ncc,
    /// Mean squared difference divided by the fixed image's variance: for intensities on one scale.
    Ssd,
}

choices! { Cost:
    Cr "cr" "Correlation ratio: same or different modalities",
    Mi "mi" "Mutual information: different modalities",
    Nmi "nmi" "Normalised mutual information: different modalities",
    Ncc "ncc" "Normalised cross correlation: same modality",
    Ssd "ssd" "Mean squared difference: same modality and same intensity scale",
}

/// The sums over an overlap that a cost is a function of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostSums {
    /// Of the moving values and their squares in each bin of the fixed image.
    Ratio,
    /// Of both images' values, squares and products: no histogram.
    Moments,
    /// Of the pairs of bins of both images.
    Joint,
}

impl Cost {
    /// The sums that it is a function of; what a cost can be told, and what it costs, depends on them.
    #[must_use]
    pub fn sums(self) -> CostSums {
        match self {
            Cost::Cr => CostSums::Ratio,
            Cost::Ncc | Cost::Ssd => CostSums::Moments,
            Cost::Mi | Cost::Nmi => CostSums::Joint,
        }
    }

    /// Histogram bins at full resolution where none are given; 1 for a cost without histogram.
    #[must_use]
    pub fn default_bins(self) -> usize {
        match self.sums() {
            CostSums::Ratio => 256,
            CostSums::Joint => 64,
            CostSums::Moments => 1,
        }
    }

    /// The most bins that can be asked for.
    #[must_use]
    pub fn most_bins(self) -> usize {
        if self.sums() == CostSums::Joint { 512 } else { 4096 }
    }

    /// The cost above which the images tell too little of each other. Matching pairs of heads, brains
    /// and lungs end well below it, also across modalities; different parts of the body above it. Few
    /// `samples` in many `bins` agree by chance, by about `bins / n` in the correlation ratio and
    /// `(bins - 1)^2 / 2 n` in the mutual information (Miller 1955). Where the samples are `masked`, the
    /// background, which matches easily, takes no part, and matching pairs end higher.
    #[must_use]
    pub fn limit(self, samples: usize, bins: usize, masked: bool) -> f64 {
        let (n, bins) = (samples.max(1) as f64, bins as f64);
        let chance = (bins - 1.0) * (bins - 1.0) / (2.0 * n);
        let of = |whole: f64, within: f64| if masked { within } else { whole };
        match self {
            Cost::Cr => of(0.55, 0.85) - bins / n,
            Cost::Mi => of(-0.15, -0.06) - chance,
            // In units of the joint entropy, which is at most that of all samples apart.
            Cost::Nmi => of(-1.09, -1.03) - chance / n.ln().max(1.0),
            Cost::Ncc => 0.5,
            Cost::Ssd => 1.2,
        }
    }
}

/// A cost and its derivative in every sum.
#[derive(Debug, Clone, PartialEq)]
pub struct CostAndSlopes {
    /// The cost.
    pub cost: f64,
    /// Its derivative in each of the sums.
    pub slopes: Vec<f64>,
}

/// Variance of the moving image below which it counts as constant. (Images are normalised to a
/// variance of 1 before.)
const FLAT: f64 = 1e-9;

/// Correlation ratio: `1 - eta = (sum_i N_i var_i) / (N var)`, with the sums `N_i`, `S1_i`, `S2_i`
/// of every bin (eqs. 2 to 4 of Li et al. 2015). Between 0 (the fixed image tells the moving one)
/// and 1 (it tells nothing); 1 where the overlap is empty or the moving image constant in it.
#[must_use]
pub fn correlation_ratio(sums: &[f64]) -> CostAndSlopes {
    let (mut n, mut s1, mut s2) = (0.0, 0.0, 0.0);
    let mut within = 0.0;
    for bin in sums.chunks_exact(3) {
        n += bin[0];
        s1 += bin[1];
        s2 += bin[2];
        if bin[0] > 0.0 {
            within += bin[2] - bin[1] * bin[1] / bin[0];
        }
    }
    let total = if n > 0.0 { s2 - s1 * s1 / n } else { 0.0 };
    if total <= FLAT * n || n <= 0.0 {
        return CostAndSlopes { cost: 1.0, slopes: vec![0.0; sums.len()] };
    }
    let cost = within / total;
    let mean = s1 / n;
    let mut slopes = Vec::with_capacity(sums.len());
    for bin in sums.chunks_exact(3) {
        let m = if bin[0] > 0.0 { bin[1] / bin[0] } else { 0.0 };
        slopes.push((m * m - cost * mean * mean) / total);
        slopes.push(-2.0 * (m - cost * mean) / total);
        slopes.push((1.0 - cost) / total);
    }
    CostAndSlopes { cost, slopes }
}

/// Mean squared difference, `sum w (x - y)^2 / sum w`, from the moments
/// `1, x, y, x^2, y^2, x y`. In units of the fixed image's variance, as images are normalised.
#[must_use]
pub fn squared_difference(m: &[f64]) -> CostAndSlopes {
    let n = m[0];
    if n <= 0.0 {
        return CostAndSlopes { cost: 4.0, slopes: vec![0.0; 6] };
    }
    let cost = (m[3] + m[4] - 2.0 * m[5]) / n;
    CostAndSlopes { cost, slopes: vec![-cost / n, 0.0, 0.0, 1.0 / n, 1.0 / n, -2.0 / n] }
}

/// Normalised cross correlation: `1 - cov(x, y) / sqrt(var x var y)`, between 0 and 2, from the
/// moments `1, x, y, x^2, y^2, x y`; 1 where one of the images is constant in the overlap.
#[must_use]
pub fn cross_correlation(m: &[f64]) -> CostAndSlopes {
    let n = m[0];
    let flat = CostAndSlopes { cost: 1.0, slopes: vec![0.0; 6] };
    if n <= 0.0 {
        return flat;
    }
    let (mx, my) = (m[1] / n, m[2] / n);
    let vx = m[3] - m[1] * mx;
    let vy = m[4] - m[2] * my;
    let c = m[5] - m[1] * my;
    if vx <= FLAT * n || vy <= FLAT * n {
        return flat;
    }
    let root = (vx * vy).sqrt();
    let r = c / root;
    // d r = dc / root - r / 2 (dvx / vx + dvy / vy)
    let (a, b) = (r / (2.0 * vx), r / (2.0 * vy));
    let slopes = vec![
        -(mx * my / root - a * mx * mx - b * my * my),
        -(-my / root + 2.0 * a * mx),
        -(-mx / root + 2.0 * b * my),
        a,
        b,
        -1.0 / root,
    ];
    CostAndSlopes { cost: 1.0 - r, slopes }
}

/// Entropies of a joint histogram with `columns` columns: of the rows, the columns and jointly,
/// in nats.
#[must_use]
pub fn entropies(joint: &[f64], columns: usize) -> [f64; 3] {
    let (rows, cols, n) = marginals(joint, columns);
    if n <= 0.0 {
        return [0.0; 3];
    }
    [rows.as_slice(), &cols, joint].map(|p| entropy(p, &logarithms(p), n))
}

/// The logarithms of masses; 0 of none.
fn logarithms(masses: &[f64]) -> Vec<f64> {
    masses.iter().map(|&v| if v > 0.0 { v.ln() } else { 0.0 }).collect()
}

/// The entropy of masses that sum to `n`: `-sum p ln p = ln n - (sum v ln v) / n`.
fn entropy(masses: &[f64], logarithms: &[f64], n: f64) -> f64 {
    n.ln() - masses.iter().zip(logarithms).map(|(v, l)| v * l).sum::<f64>() / n
}

fn marginals(joint: &[f64], columns: usize) -> (Vec<f64>, Vec<f64>, f64) {
    let mut rows = Vec::with_capacity(joint.len() / columns.max(1));
    let mut cols = vec![0.0; columns];
    for row in joint.chunks_exact(columns) {
        rows.push(row.iter().sum());
        for (c, v) in cols.iter_mut().zip(row) {
            *c += v;
        }
    }
    let n = rows.iter().sum();
    (rows, cols, n)
}

/// Mutual information, `-(H(F) + H(M) - H(F, M))` in nats, from a joint histogram.
#[must_use]
pub fn mutual_information(joint: &[f64], columns: usize) -> CostAndSlopes {
    information(joint, columns, |[hf, hm, hj]| (-(hf + hm - hj), [-1.0, -1.0, 1.0]))
}

/// Normalised mutual information (Studholme et al. 1999), `-(H(F) + H(M)) / H(F, M)`, between -2
/// and -1, from a joint histogram.
#[must_use]
pub fn normalised_mutual_information(joint: &[f64], columns: usize) -> CostAndSlopes {
    information(joint, columns, |[hf, hm, hj]| {
        if hj <= 1e-12 {
            return (-1.0, [0.0; 3]);
        }
        let nmi = (hf + hm) / hj;
        (-nmi, [-1.0 / hj, -1.0 / hj, nmi / hj])
    })
}

/// A function of the three entropies, given with its derivatives in them.
fn information(
    joint: &[f64],
    columns: usize,
    f: impl FnOnce([f64; 3]) -> (f64, [f64; 3]),
) -> CostAndSlopes {
    let (rows, cols, n) = marginals(joint, columns);
    if n <= 0.0 {
        return CostAndSlopes { cost: f([0.0; 3]).0, slopes: vec![0.0; joint.len()] };
    }
    // Most of the work are the logarithms: each is taken once.
    let logs = [logarithms(&rows), logarithms(&cols), logarithms(joint)];
    let h = [entropy(&rows, &logs[0], n), entropy(&cols, &logs[1], n), entropy(joint, &logs[2], n)];
    let (cost, [df, dm, dj]) = f(h);
    // d H / d h_ab = -(ln p + H) / n for each of the three distributions. An empty entry has no
    // derivative; the windows make its neighbours' count.
    let ln_n = n.ln();
    let slope =
        |v: f64, log: f64, h: f64, d: f64| if v > 0.0 { d * (ln_n - log - h) / n } else { 0.0 };
    let [mut of_rows, mut of_cols, mut slopes] = logs;
    let each = |masses: &[f64], logs: &mut [f64], h: f64, d: f64| {
        logs.iter_mut().zip(masses).for_each(|(l, &v)| *l = slope(v, *l, h, d));
    };
    each(&rows, &mut of_rows, h[0], df);
    each(&cols, &mut of_cols, h[1], dm);
    each(joint, &mut slopes, h[2], dj);
    for (row, r) in slopes.chunks_exact_mut(columns).zip(&of_rows) {
        row.iter_mut().zip(&of_cols).for_each(|(s, c)| *s += r + c);
    }
    CostAndSlopes { cost, slopes }
}

/// Overlap, as a part of the smaller image, below which an alignment is made costlier.
pub const OVERLAP_WANTED: f64 = 0.5;

/// What is added to a cost for a small overlap, and its derivative: `(1 - f / wanted)^2` below the
/// wanted overlap. It keeps the search from sliding the images off each other, where few samples
/// agree by chance; it is zero, and so is its derivative, at and above the wanted overlap.
#[must_use]
pub fn overlap_term(fraction: f64) -> (f64, f64) {
    let lack = 1.0 - fraction / OVERLAP_WANTED;
    if lack > 0.0 { (lack * lack, -2.0 * lack / OVERLAP_WANTED) } else { (0.0, 0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taylor(f: impl Fn(&[f64]) -> CostAndSlopes, at: &[f64]) {
        let base = f(at);
        assert_eq!(base.slopes.len(), at.len());
        for i in 0..at.len() {
            let h = 1e-5 * at[i].abs().max(1e-2);
            let mut up = at.to_vec();
            up[i] += h;
            let mut down = at.to_vec();
            down[i] -= h;
            let slope = (f(&up).cost - f(&down).cost) / (2.0 * h);
            let error = (slope - base.slopes[i]).abs();
            assert!(error < 1e-6 * (1.0 + slope.abs()), "{i}: {slope} {}", base.slopes[i]);
        }
    }

    #[test]
    fn slopes_are_derivatives() {
        taylor(correlation_ratio, &[10., 3., 12., 20., -8., 30., 5., 4., 6., 0.5, 0.1, 0.3]);
        let m = [30.0, 4.0, -3.0, 40.0, 35.0, 20.0];
        taylor(squared_difference, &m);
        taylor(cross_correlation, &m);
        let joint = [4.0, 1.0, 0.5, 2.0, 8.0, 1.0, 0.3, 2.0, 5.0, 1.0, 1.5, 2.5];
        taylor(|j| mutual_information(j, 4), &joint);
        taylor(|j| normalised_mutual_information(j, 4), &joint);
    }

    #[test]
    fn extremes() {
        // y is a function of the bin: the ratio is 0. The same mean in every bin: 1.
        let exact = correlation_ratio(&[2.0, 2.0, 2.0, 3.0, 6.0, 12.0]);
        assert!(exact.cost.abs() < 1e-12);
        let none = correlation_ratio(&[2.0, 0.0, 2.0, 4.0, 0.0, 9.0]);
        assert!((none.cost - 1.0).abs() < 1e-12);
        assert_eq!(correlation_ratio(&[0.0; 6]).cost, 1.0);
        assert_eq!(correlation_ratio(&[5.0, 5.0, 5.0]).cost, 1.0);
        let same = [3.0, 6.0, 6.0, 14.0, 14.0, 14.0];
        assert!(squared_difference(&same).cost.abs() < 1e-12);
        assert!(cross_correlation(&same).cost.abs() < 1e-12);
        let identity = [1.0, 0.0, 0.0, 1.0];
        assert!((mutual_information(&identity, 2).cost + 2f64.ln()).abs() < 1e-12);
        assert!((normalised_mutual_information(&identity, 2).cost + 2.0).abs() < 1e-12);
        assert!((normalised_mutual_information(&[1.0; 4], 2).cost + 1.0).abs() < 1e-12);
        assert_eq!(mutual_information(&[0.0; 4], 2).cost, 0.0);
    }

    #[test]
    fn overlap_term_is_smooth() {
        assert_eq!(overlap_term(0.8), (0.0, 0.0));
        assert_eq!(overlap_term(0.0).0, 1.0);
        let h = 1e-6;
        let slope = (overlap_term(0.2 + h).0 - overlap_term(0.2 - h).0) / (2.0 * h);
        assert!((slope - overlap_term(0.2).1).abs() < 1e-6);
    }
}
