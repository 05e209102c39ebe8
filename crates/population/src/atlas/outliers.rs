//! Subjects that are unlike the others.

use voxalign_register::limits::ATLAS;

/// Fewer subjects have none that can be told to be unlike the others.
pub(super) const FEWEST: usize = 4;

/// Which of the correlations with the template are far below the others: by more than six times the
/// median distance from the median (about four standard deviations), and more than 0.02. Of fewer than
/// four none can be told.
#[must_use]
pub fn outlying(correlations: &[f64]) -> Vec<bool> {
    if correlations.len() < FEWEST {
        return vec![false; correlations.len()];
    }
    let middle = median(correlations.to_vec());
    let spread = median(correlations.iter().map(|c| (c - middle).abs()).collect());
    correlations
        .iter()
        .map(|c| c.is_nan() || middle - c > (ATLAS.unlike * spread).max(ATLAS.unlike_least))
        .collect()
}

/// Which values are below a part of the median of the others. Of fewer than three nobody can tell.
#[must_use]
pub(super) fn below(part: f64, values: &[f64]) -> Vec<bool> {
    let told = |i: usize| {
        let rest = values.iter().enumerate().filter(|(j, v)| *j != i && v.is_finite());
        let rest: Vec<f64> = rest.map(|(_, v)| *v).collect();
        // What is no number is below all.
        rest.len() > 1 && (values[i].is_nan() || values[i] < part * median(rest))
    };
    (0..values.len()).map(told).collect()
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

/// Which of some subjects the alignment has lost, given how each correlates with the template: not only
/// [unlike the others](outlying), but elsewhere than they are. Of fewer than three nobody can tell.
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
    fn one_that_tells_nothing_of_the_others_is_told() {
        let below = |values: &[f64]| super::below(0.7, values);
        assert_eq!(below(&[1.1, 0.9, 1.0, 0.4]), [false, false, false, true]);
        assert_eq!(below(&[1.1, 0.3, 1.0]), [false, true, false]);
        assert_eq!(below(&[1.1, f64::NAN, 1.0]), [false, true, false]);
        assert_eq!(below(&[1.1, 0.3]), [false; 2]);
        assert_eq!(below(&[0.9, 0.9, 1.3, 1.2]), [false; 4]);
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
