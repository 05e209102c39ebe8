//! Outlier detection among subjects.

use voxalign_register::limits::ATLAS;

/// Which of the correlations with the template are far below the others: by more than six times the median distance
/// from the median (about four standard deviations), and more than 0.02. None among fewer than four.
#[must_use]
pub fn outlying(correlations: &[f64]) -> Vec<bool> {
    if correlations.len() < ATLAS.fewest {
        return vec![false; correlations.len()];
    }
    let middle = median(correlations.to_vec());
    let spread = median(correlations.iter().map(|c| (c - middle).abs()).collect());
    correlations
        .iter()
        .map(|c| c.is_nan() || middle - c > (ATLAS.unlike * spread).max(ATLAS.unlike_least))
        .collect()
}

/// Values as fractions of the median of the others; NaN where there are fewer than two of these.
#[must_use]
pub(super) fn beside_others(values: &[f64]) -> Vec<f64> {
    let one = |i: usize| {
        let rest = values.iter().enumerate().filter(|(j, v)| *j != i && v.is_finite());
        let rest: Vec<f64> = rest.map(|(_, v)| *v).collect();
        // What is not a number is nothing.
        let own = if values[i].is_nan() { 0.0 } else { values[i] };
        if rest.len() > 1 { own / median(rest) } else { f64::NAN }
    };
    (0..values.len()).map(one).collect()
}

/// The median; no number where there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 {
        return f64::NAN;
    }
    if n.is_multiple_of(2) { 0.5 * (values[n / 2 - 1] + values[n / 2]) } else { values[n / 2] }
}

/// Which subjects the alignment has lost, given the correlation of each with the template: not only [unlike the
/// others](outlying), but in another place. None among fewer than three.
#[must_use]
pub(super) fn lost(correlations: &[f64]) -> Vec<bool> {
    let mut known: Vec<f64> = correlations.iter().copied().filter(|c| c.is_finite()).collect();
    known.sort_by(f64::total_cmp);
    let median = known.get(known.len() / 2).copied().unwrap_or_default();
    let tells = correlations.len() > 2 && median > 0.0;
    correlations.iter().map(|c| tells && !c.is_nan() && *c < ATLAS.lost * median).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_by_those_of_others() {
        assert_eq!(beside_others(&[2.0, 1.0, 2.0, 0.5]), [2.0, 0.5, 2.0, 0.25]);
        assert_eq!(beside_others(&[1.5, f64::NAN, 3.0, 3.0]), [0.5, 0.0, 4.0 / 3.0, 4.0 / 3.0]);
        assert!(beside_others(&[1.0, 3.0]).iter().all(|v| v.is_nan()));
    }

    #[test]
    fn one_that_does_not_belong_is_told() {
        let like = [0.96, 0.965, 0.955, 0.97, 0.95];
        assert_eq!(outlying(&like), [false; 5]);
        let mut with = like.to_vec();
        with.push(0.6);
        assert_eq!(outlying(&with), [false, false, false, false, false, true]);
        with[2] = f64::NAN;
        assert!(outlying(&with)[2]);
        assert_eq!(outlying(&[0.9, 0.1]), [false, false]);
        assert_eq!(lost(&[0.96, 0.2, 0.97, 0.6]), [false, true, false, false]);
        assert_eq!(
            (lost(&[0.9, 0.1]), lost(&[0.1, -0.2, 0.9])),
            (vec![false; 2], vec![false, true, false])
        );
        // All the same but for rounding.
        assert_eq!(outlying(&[0.9, 0.9, 0.9, 0.8999]), [false; 4]);
    }
}
