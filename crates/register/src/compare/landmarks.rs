//! Distances between corresponding points.

use super::CompareError;
use serde::Serialize;
use voxalign_image::{PointSet, memory};

/// Distances between corresponding points, mm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LandmarkScores {
    /// Number of pairs.
    pub count: usize,
    /// Mean distance.
    pub mean: f64,
    /// Median distance.
    pub median: f64,
    /// 95th percentile, between neighbouring distances by linear interpolation.
    pub p95: f64,
    /// Largest distance.
    pub max: f64,
    /// Every distance, in the order of the points.
    pub distances: Vec<f64>,
}

/// Compares two point sets; the point of one index belongs to the point of the same index.
///
/// # Errors
/// [`CompareError::PointCounts`]; [`CompareError::Points`] without points or with one that is not
/// a number.
pub fn compare_landmarks(a: &PointSet, b: &PointSet) -> Result<LandmarkScores, CompareError> {
    if a.len() != b.len() {
        return Err(CompareError::PointCounts { first: a.len(), second: b.len() });
    }
    if a.is_empty() {
        return Err(CompareError::Points { why: "both lists are empty".into() });
    }
    let apart = a.points().iter().zip(b.points()).map(|(p, q)| (p - q).norm());
    let distances: Vec<f64> = memory::collected(apart)?;
    if let Some(i) = distances.iter().position(|d| !d.is_finite()) {
        let why = format!("point {} has a coordinate that is not a number", i + 1);
        return Err(CompareError::Points { why });
    }
    let mut sorted = memory::copied(&distances)?;
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let quantile = |part: f64| {
        let at = part * last as f64;
        let low = (at.floor() as usize).min(last);
        let high = (low + 1).min(last);
        sorted[low] + (at - low as f64) * (sorted[high] - sorted[low])
    };
    Ok(LandmarkScores {
        count: distances.len(),
        mean: distances.iter().sum::<f64>() / distances.len() as f64,
        median: quantile(0.5),
        p95: quantile(0.95),
        max: sorted[last],
        distances,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use voxalign_image::Vector3;

    #[test]
    fn distances_by_hand() {
        let a = PointSet::new(vec![Vector3::zeros(); 5]);
        let b = PointSet::new((0..5).map(|i| Vector3::new(0.0, 0.0, f64::from(i))).collect());
        let s = compare_landmarks(&a, &b).unwrap();
        assert_eq!((s.count, s.mean, s.median, s.max), (5, 2.0, 2.0, 4.0));
        assert!((s.p95 - 3.8).abs() < 1e-12);
        assert_eq!(s.distances, vec![0.0, 1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn sets_that_do_not_belong_together() {
        let one = PointSet::new(vec![Vector3::zeros()]);
        let none = PointSet::default();
        let nan = PointSet::new(vec![Vector3::new(f64::NAN, 0.0, 0.0)]);
        assert!(matches!(compare_landmarks(&one, &none), Err(CompareError::PointCounts { .. })));
        assert!(matches!(compare_landmarks(&none, &none), Err(CompareError::Points { .. })));
        assert!(matches!(compare_landmarks(&one, &nan), Err(CompareError::Points { .. })));
    }
}
