//! Resampling unevenly spaced slices to even spacing by linear interpolation.

/// Where an interpolated slice lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Between {
    /// The slice below it; the next one is that above.
    pub(super) below: usize,
    /// How far it is from that one to the next, 0 to 1.
    pub(super) part: f64,
}

/// Even places are as near to those of slices as this, in steps, where nothing is interpolated.
const SAME: f64 = 1e-3;
/// Most slices that are made of one.
const MOST: f64 = 64.0;

/// The step of an even grid over slices at such heights, which grow, and where its slices lie; nothing where
/// the slices are even already.
pub(super) fn even(heights: &[f64], oddities: &mut Vec<String>) -> (f64, Option<Vec<Between>>) {
    let n = heights.len();
    let (first, last) = (heights[0], heights[n - 1]);
    let mut between: Vec<f64> = heights.windows(2).map(|w| w[1] - w[0]).collect();
    between.sort_by(f64::total_cmp);
    let usual = between[(n - 2) / 2];
    let wanted = ((last - first) / usual).round().clamp(1.0, MOST * n as f64);
    let count = wanted as usize + 1;
    let step = (last - first) / wanted;
    let mut below = 0;
    let mut moved = 0.0f64;
    let found: Vec<Between> = (0..count)
        .map(|k| {
            let at = if k + 1 == count { last } else { first + step * k as f64 };
            while below + 2 < n && heights[below + 1] <= at {
                below += 1;
            }
            let part = (at - heights[below]) / (heights[below + 1] - heights[below]);
            let part = part.clamp(0.0, 1.0);
            moved = moved.max(part.min(1.0 - part));
            Between { below, part }
        })
        .collect();
    if count == n && moved < SAME {
        return (step, None);
    }
    oddities.push(format!(
        "{n} slices {:.3} to {:.3} mm apart are interpolated to {count}, {step:.4} mm apart",
        between[0],
        between[n - 2]
    ));
    (step, Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_between_those_that_there_are() {
        let mut said = Vec::new();
        let (step, found) = even(&[0.0, 2.0, 4.0, 10.0], &mut said);
        let found = found.unwrap();
        assert_eq!((step, found.len(), said.len()), (2.0, 6, 1));
        let at = |b: &Between| {
            [0.0, 2.0, 4.0, 10.0][b.below] * (1.0 - b.part)
                + [0.0, 2.0, 4.0, 10.0][b.below + 1] * b.part
        };
        for (k, b) in found.iter().enumerate() {
            assert!((at(b) - 2.0 * k as f64).abs() < 1e-12, "{b:?}");
        }
        assert_eq!(even(&[1.0, 4.0, 7.0], &mut said), (3.0, None));
    }
}
