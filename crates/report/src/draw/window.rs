//! Intensity windows: the intensities that are drawn black and white.

/// The intensities that are drawn black and white.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Window {
    pub(crate) low: f32,
    pub(crate) high: f32,
}

/// The window of soft tissue in CT, HU.
const SOFT: Window = Window { low: -160.0, high: 240.0 };
/// A window in which the vessels of lungs are visible as well as soft tissue, HU.
const LUNG: Window = Window { low: -1000.0, high: 300.0 };

impl Window {
    /// From the 0.5th percentile of all values to the 99.5th of those above it.
    pub(crate) fn robust(values: &[f32]) -> Self {
        let mut finite: Vec<f32> = values.iter().copied().filter(|v| v.is_finite()).collect();
        let Some(low) = quantile(&mut finite, 0.005) else {
            return Self { low: 0.0, high: 1.0 };
        };
        finite.retain(|&v| v > low);
        let high =
            quantile(&mut finite, 0.995).filter(|&h| h > low).unwrap_or(low + low.abs().max(1.0));
        let high = if (high - low).is_finite() { high } else { low };
        Self { low, high }
    }

    /// The robust window, but for CT that of soft tissue, or a wider one where there is much lung; and a
    /// description of it, for CT.
    pub(crate) fn shown(values: &[f32]) -> (Self, Option<&'static str>) {
        let robust = Self::robust(values);
        if !robust.is_ct(values) {
            return (robust, None);
        }
        // Lung is -950 to -500 HU; skin, padding and fat give much less of such values.
        if part(values, -950.0, -500.0) > 0.1 {
            (LUNG, Some("CT, lung and soft tissue"))
        } else {
            (SOFT, Some("CT, soft tissue"))
        }
    }

    /// Whether values look like Hounsfield units: air at about -1000 (or what scanners put around
    /// the picture, down to about -3000), tissue at about 0, nothing far above bone and metal.
    fn is_ct(&self, values: &[f32]) -> bool {
        let range = (-3100.0..-900.0).contains(&self.low) && (100.0..4100.0).contains(&self.high);
        range && part(values, -200.0, 300.0) > 0.02
    }

    /// 0 at the low and 1 at the high end, kept within; 0 for what is not a number.
    pub(crate) fn unit(&self, value: f32) -> f32 {
        let range = self.range();
        if value.is_nan() || range <= 0.0 {
            return 0.0;
        }
        ((value - self.low) / range).clamp(0.0, 1.0)
    }

    /// Its width.
    pub(crate) fn range(&self) -> f32 {
        self.high - self.low
    }
}

/// The fraction of the values between two limits.
fn part(values: &[f32], low: f32, high: f32) -> f64 {
    let within = values.iter().filter(|v| (low..high).contains(*v)).count();
    within as f64 / values.len().max(1) as f64
}

/// A quantile of the values; none without values.
pub(crate) fn quantile(values: &mut [f32], part: f64) -> Option<f32> {
    let last = values.len().checked_sub(1)?;
    let at = (part * last as f64).round() as usize;
    Some(*values.select_nth_unstable_by(at, f32::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_on_to_odd_images() {
        let flat = Window::robust(&[3.0; 100]);
        assert_eq!((flat.unit(3.0), flat.unit(2.0)), (0.0, 0.0));
        assert!(flat.range() > 0.0);
        let none = Window::robust(&[f32::NAN, f32::INFINITY]);
        assert_eq!((none.low, none.high), (0.0, 1.0));
        let sparse: Vec<f32> = (0..10_000).map(|i| if i == 7 { 5.0 } else { 0.0 }).collect();
        assert_eq!(Window::robust(&sparse), Window { low: 0.0, high: 5.0 });
        let huge = Window::robust(&[f32::MIN, f32::MAX]);
        assert!(huge.unit(1.0).is_finite());
    }

    /// This many values of each kind.
    fn values(kinds: &[(usize, f32)]) -> Vec<f32> {
        kinds.iter().flat_map(|&(n, v)| (0..n).map(move |i| v + (i % 9) as f32)).collect()
    }

    #[test]
    fn ct_is_told_by_its_values() {
        let head = values(&[(600, -1000.0), (300, 30.0), (100, 1200.0)]);
        assert_eq!(Window::shown(&head), (SOFT, Some("CT, soft tissue")));
        let padded = values(&[(200, -3024.0), (400, -1000.0), (300, 30.0), (100, 1200.0)]);
        assert_eq!(Window::shown(&padded).0, SOFT);
        let chest = values(&[(400, -1000.0), (250, -850.0), (300, 30.0), (50, 900.0)]);
        assert_eq!(Window::shown(&chest), (LUNG, Some("CT, lung and soft tissue")));
        // A phase image, MR, MR with ringing, a map of displacements.
        for other in [
            values(&[(500, -4096.0), (200, 0.0), (500, 4000.0)]),
            values(&[(600, 0.0), (400, 900.0)]),
            values(&[(20, -950.0), (500, 2000.0), (500, 9000.0)]),
            values(&[(500, -1000.0), (500, 1000.0)]),
        ] {
            assert_eq!(Window::shown(&other), (Window::robust(&other), None));
        }
    }
}
