//! Information measures of joint histograms: entropies, and functions of them with their derivatives.

use super::CostAndDerivatives;

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

/// A function of the three entropies, given with its derivatives in them.
pub(super) fn information(
    joint: &[f64],
    columns: usize,
    f: impl FnOnce([f64; 3]) -> (f64, [f64; 3]),
) -> CostAndDerivatives {
    let (rows, cols, n) = marginals(joint, columns);
    if n <= 0.0 {
        return CostAndDerivatives { cost: f([0.0; 3]).0, derivatives: vec![0.0; joint.len()] };
    }
    // Most of the work are the logarithms: each is taken once.
    let logs = [logarithms(&rows), logarithms(&cols), logarithms(joint)];
    let h = [entropy(&rows, &logs[0], n), entropy(&cols, &logs[1], n), entropy(joint, &logs[2], n)];
    let (cost, [df, dm, dj]) = f(h);
    // d H / d h_ab = -(ln p + H) / n for each of the three distributions. An empty entry has no
    // derivative; the windows make its neighbours' count.
    let ln_n = n.ln();
    let derivative =
        |v: f64, log: f64, h: f64, d: f64| if v > 0.0 { d * (ln_n - log - h) / n } else { 0.0 };
    let [mut of_rows, mut of_cols, mut derivatives] = logs;
    let each = |masses: &[f64], logs: &mut [f64], h: f64, d: f64| {
        logs.iter_mut().zip(masses).for_each(|(l, &v)| *l = derivative(v, *l, h, d));
    };
    each(&rows, &mut of_rows, h[0], df);
    each(&cols, &mut of_cols, h[1], dm);
    each(joint, &mut derivatives, h[2], dj);
    for (row, r) in derivatives.chunks_exact_mut(columns).zip(&of_rows) {
        row.iter_mut().zip(&of_cols).for_each(|(s, c)| *s += r + c);
    }
    CostAndDerivatives { cost, derivatives }
}
