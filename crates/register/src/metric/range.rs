//! Robust ranges of intensities.

/// The range of the finite values between two quantiles (0 to 1), by two passes of a histogram, or
/// `None` where there is no finite value. Where the quantiles meet, the full range.
#[must_use]
pub fn robust_range(values: &[f32], low: f64, high: f64) -> Option<(f32, f32)> {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (mut min, mut max) = (f32::MAX, f32::MIN);
    for v in finite() {
        min = min.min(v);
        max = max.max(v);
    }
    if min > max {
        return None;
    }
    let (full_min, full_max) = (min, max);
    // A few extreme values can leave everything else in one bin: look again at that part.
    for _ in 0..16 {
        const BINS: usize = 2048;
        let span = f64::from(max) - f64::from(min);
        if span <= 0.0 {
            break;
        }
        let mut counts = [0usize; BINS];
        let (mut below, mut total) = (0usize, 0usize);
        let scale = BINS as f64 / span;
        for v in finite() {
            total += 1;
            if v < min {
                below += 1;
            } else if v <= max {
                let bin = ((f64::from(v) - f64::from(min)) * scale) as usize;
                counts[bin.min(BINS - 1)] += 1;
            }
        }
        let find = |quantile: f64| {
            let wanted = (quantile * total as f64) as usize;
            let mut sum = below;
            for (i, &c) in counts.iter().enumerate() {
                sum += c;
                if sum > wanted {
                    return i;
                }
            }
            BINS - 1
        };
        let (a, b) = (find(low), find(high));
        let width = span / BINS as f64;
        let new_min = (f64::from(min) + a as f64 * width) as f32;
        let new_max = (f64::from(min) + (b + 1) as f64 * width) as f32;
        let narrow = b - a < BINS / 8;
        (min, max) = (new_min.max(full_min), new_max.min(full_max));
        if !narrow {
            break;
        }
    }
    if max > min { Some((min, max)) } else { Some((full_min, full_max)) }
}

/// Mean and standard deviation in double precision, of the finite values.
#[must_use]
pub fn mean_and_deviation(values: &[f32]) -> (f64, f64) {
    let (mut n, mut s1) = (0usize, 0.0);
    for v in values.iter().filter(|v| v.is_finite()) {
        n += 1;
        s1 += f64::from(*v);
    }
    if n == 0 {
        return (0.0, 0.0);
    }
    let mean = s1 / n as f64;
    let s2: f64 =
        values.iter().filter(|v| v.is_finite()).map(|&v| (f64::from(v) - mean).powi(2)).sum();
    (mean, (s2 / n as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_count() {
        let mut v: Vec<f32> = (0..100_000).map(|i| (i % 1000) as f32).collect();
        v[7] = 1e30;
        v[8] = -1e30;
        v[9] = f32::NAN;
        let (a, b) = robust_range(&v, 0.01, 0.99).unwrap();
        assert!((a - 10.0).abs() < 5.0 && (b - 990.0).abs() < 5.0, "{a} {b}");
        assert_eq!(robust_range(&[f32::NAN], 0.0, 1.0), None);
        assert_eq!(robust_range(&[3.0; 5], 0.1, 0.9), Some((3.0, 3.0)));
        let mostly_zero: Vec<f32> = (0..1000).map(|i| if i < 995 { 0.0 } else { 1.0 }).collect();
        assert_eq!(robust_range(&mostly_zero, 0.01, 0.99), Some((0.0, 1.0)));
    }
}
