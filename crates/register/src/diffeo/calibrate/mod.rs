//! Intensity calibration: linear scaling of one image, and histogram matching of one image to another.
//!
//! Everything is there for values on the host and for values on a device, with the same arithmetic.

mod samples;

use crate::error::{RegisterError, Result, Role};
use crate::metric::range::{robust_range, robust_range_on};
use samples::{Host, OnDevice, Samples};
use serde::{Deserialize, Serialize};
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_image::memory;

/// Quantiles of all values that separate the background from the foreground.
const RANGE: (f64, f64) = (0.01, 0.99);
/// The foreground threshold: height above the background as a fraction of that range.
const FOREGROUND: f64 = 0.1;
/// Quantiles of the values that histograms are matched between.
const ENDS: (f64, f64) = (0.001, 0.999);

/// The quantile of the foreground that becomes 1 where nothing else is asked for.
pub const TOP: f64 = 0.995;

/// The value that counts as background and the one from which the foreground begins, of the finite
/// values: the 1st percentile, and a tenth of the way from there to the 99th; `None` where all
/// values are the same or none is finite.
///
/// Air in tomograms and the zeros around an extracted brain are the darkest part of an image; what
/// noise they have stays below a tenth of the range.
#[must_use]
pub fn foreground_threshold(values: &[f32]) -> Option<(f32, f32)> {
    threshold(robust_range(values, RANGE.0, RANGE.1))
}

/// As [`foreground_threshold`], of values on a device.
///
/// # Errors
/// Memory that runs out.
pub fn foreground_threshold_on<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
) -> Result<Option<(f32, f32)>> {
    Ok(threshold(robust_range_on(device, values, None, RANGE.0, RANGE.1)?))
}

fn threshold(range: Option<(f32, f32)>) -> Option<(f32, f32)> {
    let (low, high) = range?;
    let above = (f64::from(low) + FOREGROUND * (f64::from(high) - f64::from(low))) as f32;
    (low < high && above > low).then_some((low, above))
}

/// The linear map of intensities that scales an image from 0 (its background) to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The value that becomes 0; all below it too.
    pub background: f32,
    /// The value that becomes 1; all above it too.
    pub top: f32,
}

impl Calibration {
    /// The calibration of an image: `background` is the 1st percentile of all values, `top` the
    /// quantile `top` (such as [`TOP`]) of the values whose mask is above 0, or without a mask of
    /// the foreground (see [`foreground_threshold`]). Values that are not finite do not count.
    ///
    /// # Errors
    /// A `role` (`fixed` or `moving`) image that is constant, a mask that selects no finite value, a
    /// quantile that is not above 0 and at most 1, a mask of another length than the values.
    pub fn new(role: Role, values: &[f32], mask: Option<&[f32]>, top: f64) -> Result<Self> {
        check_top(top)?;
        let (background, above) = foreground_threshold(values)
            .ok_or_else(|| constant(role, values.first().copied().unwrap_or(0.0), false))?;
        let counted: Vec<f32> = match mask {
            None => memory::collected(values.iter().copied().filter(|v| *v > above))?,
            Some(mask) => memory::collected(Host::new(values, Some(mask))?.finite())?,
        };
        Self::between(role, background, robust_range(&counted, 0.0, top), mask.is_some())
    }

    /// As [`Calibration::new`], of values on a device.
    ///
    /// # Errors
    /// As [`Calibration::new`], and memory that runs out.
    pub fn on<D: Device>(
        device: &D,
        role: Role,
        values: &D::Buffer<f32>,
        mask: Option<&D::Buffer<f32>>,
        top: f64,
    ) -> Result<Self> {
        check_top(top)?;
        let (background, above) = match foreground_threshold_on(device, values)? {
            Some(found) => found,
            None => {
                let one = robust_range_on(device, values, None, 0.0, 1.0)?;
                return Err(constant(role, one.map_or(0.0, |r| r.0), false));
            }
        };
        let range = match mask {
            Some(_) => robust_range_on(device, values, mask, 0.0, top)?,
            None => {
                let mut foreground = device.alloc::<f32>(values.len())?;
                device.eval(&x(0).gt(param(0)), &[values], &[above], None, &mut foreground)?;
                robust_range_on(device, values, Some(&foreground), 0.0, top)?
            }
        };
        Self::between(role, background, range, mask.is_some())
    }

    fn between(
        role: Role,
        background: f32,
        counted: Option<(f32, f32)>,
        masked: bool,
    ) -> Result<Self> {
        let Some((_, top)) = counted else {
            return Err(RegisterError::EmptyMask { role: role.mask() });
        };
        let span = top - background;
        if top > background && span.is_finite() && (1.0 / span).is_finite() {
            Ok(Self { background, top })
        } else {
            Err(constant(role, top, masked))
        }
    }

    /// The calibrated value, 0 to 1; 0 for what is not a number.
    #[must_use]
    pub fn apply(&self, value: f32) -> f32 {
        let unit = (value - self.background) * self.factor();
        if unit > 0.0 { unit.min(1.0) } else { 0.0 }
    }

    /// The value that calibration maps to `unit`; clipped values are not recovered.
    #[must_use]
    pub fn undo(&self, unit: f32) -> f32 {
        self.background + unit * (self.top - self.background)
    }

    /// [`Calibration::apply`] to all values on a device, in place.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn apply_on<D: Device>(&self, device: &D, values: &mut D::Buffer<f32>) -> Result<()> {
        let unit = ((x(0) - param(0)) * param(1)).clamp(0.0, 1.0);
        Ok(device.eval_in_place(&unit, values, &[], &[self.background, self.factor()], None)?)
    }

    fn factor(&self) -> f32 {
        1.0 / (self.top - self.background)
    }
}

fn check_top(top: f64) -> Result<()> {
    if top > 0.0 && top <= 1.0 {
        return Ok(());
    }
    Err(RegisterError::option(
        "the quantile of the foreground that maps to 1",
        top,
        "give a number above 0 and up to 1",
    ))
}

fn constant(role: Role, value: f32, masked: bool) -> RegisterError {
    RegisterError::Constant { role, value, within: if masked { " inside its mask" } else { "" } }
}

/// How a histogram is matched to another (L. Nyúl, J. Udupa, X. Zhang, "New variants of a method of
/// MRI scale standardization", IEEE TMI 19(2), 2000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramMatch {
    /// Levels of the histograms, 2 to 65536; by default 1024.
    pub levels: usize,
    /// Quantiles that are matched between the ends, 1 to 255; by default 15.
    pub points: usize,
    /// Whether only values above the mean of each image are matched quantile by quantile: what
    /// lies below, mostly background of different extent, is scaled as one piece. Exact where the
    /// images differ by a linear map, or nearly; for others, masks without background and `false` are
    /// better. By default so.
    pub above_mean: bool,
}

impl Default for HistogramMatch {
    fn default() -> Self {
        Self { levels: 1024, points: 15, above_mean: true }
    }
}

impl HistogramMatch {
    fn check(&self) -> Result<()> {
        let bad =
            |option, value: usize, remedy: &str| Err(RegisterError::option(option, value, remedy));
        match (self.levels, self.points) {
            (2..=65_536, 1..=255) => Ok(()),
            (2..=65_536, n) => bad("the number of match points", n, "give a number from 1 to 255"),
            (n, _) => bad("the number of histogram levels", n, "give a number from 2 to 65536"),
        }
    }
}

/// A monotone map of intensities, linear between knots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntensityMap {
    /// Where the pieces begin and end, value and mapped value; values grow strictly, mapped values
    /// do not fall. There are at least two.
    knots: Vec<(f32, f32)>,
    /// How mapped values grow beyond the first and the last knot.
    beyond: f32,
}

/// The map that gives the moving values the histogram of the fixed ones: equal quantiles are mapped
/// onto each other, linearly between. Only finite values whose mask (if given) is above 0 count.
///
/// The ends are the quantiles 0.001 and 0.999 instead of the extremes, so that single wild values do
/// not set the scale; beyond them, values are scaled as the ranges between the ends. Where many
/// moving values are equal, they go to the lowest of the fixed values that they match.
///
/// # Errors
/// Images that are constant, masks that select no finite value or are of another length than the
/// values, numbers of levels or points that [`HistogramMatch`] does not allow.
pub fn match_histogram(
    moving: &[f32],
    moving_mask: Option<&[f32]>,
    fixed: &[f32],
    fixed_mask: Option<&[f32]>,
    how: &HistogramMatch,
) -> Result<IntensityMap> {
    how.check()?;
    let moving = quantiles(Role::Moving, &Host::new(moving, moving_mask)?, how)?;
    let fixed = quantiles(Role::Fixed, &Host::new(fixed, fixed_mask)?, how)?;
    Ok(IntensityMap::through(&moving, &fixed))
}

/// As [`match_histogram`], of values on a device.
///
/// # Errors
/// As [`match_histogram`], and memory that runs out.
pub fn match_histogram_on<D: Device>(
    device: &D,
    moving: &D::Buffer<f32>,
    moving_mask: Option<&D::Buffer<f32>>,
    fixed: &D::Buffer<f32>,
    fixed_mask: Option<&D::Buffer<f32>>,
    how: &HistogramMatch,
) -> Result<IntensityMap> {
    how.check()?;
    let samples = |values, weights| OnDevice { device, values, weights };
    let moving = quantiles(Role::Moving, &samples(moving, moving_mask), how)?;
    let fixed = quantiles(Role::Fixed, &samples(fixed, fixed_mask), how)?;
    Ok(IntensityMap::through(&moving, &fixed))
}

/// The values that are matched: both ends, the threshold if there is one, and the quantiles between.
fn quantiles(role: Role, samples: &impl Samples, how: &HistogramMatch) -> Result<Vec<f32>> {
    let Some((low, high)) = samples.range(ENDS.0, ENDS.1)? else {
        return Err(RegisterError::EmptyMask { role: role.mask() });
    };
    let threshold = if how.above_mean { samples.mean(low, high)? } else { low };
    let span = f64::from(high) - f64::from(threshold);
    if low >= high || span <= 0.0 {
        return Err(constant(role, high, samples.masked()));
    }
    let mut counts = samples.counts(threshold, high, how.levels)?;
    if let Some(last) = counts.counts.last_mut() {
        *last += counts.above;
    }
    let total: u64 = counts.counts.iter().sum();
    let width = span / how.levels as f64;
    let mut out = Vec::with_capacity(how.points + 3);
    if how.above_mean {
        out.push(low);
    }
    out.push(threshold);
    let (mut bin, mut below) = (0, 0u64);
    for point in 1..=how.points {
        let wanted = total as f64 * point as f64 / (how.points + 1) as f64;
        while bin + 1 < how.levels && (below + counts.counts[bin]) as f64 <= wanted {
            below += counts.counts[bin];
            bin += 1;
        }
        let part = (wanted - below as f64) / counts.counts[bin].max(1) as f64;
        let value = f64::from(threshold) + width * (bin as f64 + part.clamp(0.0, 1.0));
        out.push((value as f32).clamp(threshold, high));
    }
    out.push(high);
    Ok(out)
}

impl IntensityMap {
    /// Through pairs of matched values, both of which do not fall, with different ends.
    fn through(moving: &[f32], fixed: &[f32]) -> Self {
        let mut knots: Vec<(f32, f32)> = Vec::with_capacity(moving.len());
        for (&m, &f) in moving.iter().zip(fixed) {
            if knots.last().is_none_or(|last| m > last.0) {
                knots.push((m, f));
            }
        }
        let derivative = match (knots.first(), knots.last()) {
            (Some(a), Some(b)) if b.0 > a.0 => (b.1 - a.1) / (b.0 - a.0),
            _ => 1.0,
        };
        Self { knots, beyond: derivative }
    }

    /// Where the pieces begin and end: value and mapped value.
    #[must_use]
    pub fn knots(&self) -> &[(f32, f32)] {
        &self.knots
    }

    /// The mapped value; what is not a number stays that.
    #[must_use]
    pub fn apply(&self, value: f32) -> f32 {
        if value.is_nan() {
            return value;
        }
        let Some((&first, &last)) = self.knots.first().zip(self.knots.last()) else {
            return value;
        };
        if value <= first.0 {
            return first.1 + self.beyond * (value - first.0);
        }
        if value >= last.0 {
            return last.1 + self.beyond * (value - last.0);
        }
        let at = self.knots.partition_point(|k| k.0 <= value);
        let (a, b) = (self.knots[at - 1], self.knots[at]);
        a.1 + (b.1 - a.1) / (b.0 - a.0) * (value - a.0)
    }

    /// [`IntensityMap::apply`] to all values on a device, in place; equal but for rounding. Values
    /// must be finite.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn apply_on<D: Device>(&self, device: &D, values: &mut D::Buffer<f32>) -> Result<()> {
        let Some((&first, &last)) = self.knots.first().zip(self.knots.last()) else {
            return Ok(());
        };
        // The sum of all pieces, of which each stays constant outside of its own values.
        let mut params = vec![first.1, self.beyond, first.0, last.0];
        let mut sum = param(0)
            + param(1) * (x(0) - param(2)).min(0.0)
            + param(1) * (x(0) - param(3)).max(0.0);
        for pair in self.knots.windows(2) {
            let (a, b) = (pair[0], pair[1]);
            let at = params.len();
            params.extend([a.0, b.0 - a.0, (b.1 - a.1) / (b.0 - a.0)]);
            sum = sum + param(at + 2) * (x(0) - param(at)).clamp(0.0, param(at + 1));
        }
        Ok(device.eval_in_place(&sum, values, &[], &params, None)?)
    }
}

#[cfg(test)]
mod tests;
