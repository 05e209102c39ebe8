//! Preparation of the input: images are checked and brought to one scale on the device.

use crate::error::{RegisterError, Result, Role};
use crate::metric::range::{masked, robust_range_within};
use voxalign_compute::ops::elementwise::{Expr, param, select, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::{Device, DeviceBuffer};

/// Fewest samples of an image that a registration can work with.
const FEWEST: usize = 16;
/// Quantiles whose lower one is the background of an image.
const BACKGROUND: (f64, f64) = (0.01, 0.99);

/// The values of an image, which may be changed where they are the registration's own.
pub(super) enum Values<'a, D: Device> {
    Own(D::Buffer<f32>),
    Lent(&'a D::Buffer<f32>),
}

impl<D: Device> Values<'_, D> {
    pub(super) fn get(&self) -> &D::Buffer<f32> {
        match self {
            Self::Own(values) => values,
            Self::Lent(values) => values,
        }
    }

    /// An expression of each value, in place where that may be.
    pub(super) fn map(self, device: &D, expr: &Expr, params: &[f32]) -> Result<D::Buffer<f32>> {
        Ok(match self {
            Self::Own(mut values) => {
                device.eval_in_place(expr, &mut values, &[], params, None)?;
                values
            }
            Self::Lent(values) => {
                let mut out = device.alloc::<f32>(values.len())?;
                device.eval(expr, &[values], params, None, &mut out)?;
                out
            }
        })
    }
}

/// Mean and standard deviation of an image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Normal {
    mean: f64,
    deviation: f64,
}

/// An image with mean 0 and deviation 1.
pub(super) struct Normalised<D: Device> {
    pub(super) values: D::Buffer<f32>,
    /// The value that counts as background.
    pub(super) background: f32,
}

/// The numbers that sum up the voxels of an image that count.
struct Summary {
    count: usize,
    normal: Normal,
    min: f32,
    max: f32,
}

/// Sums up the values, all finite, whose weight (if given) is above 0. `all` sums up all of them.
fn summary<D: Device>(
    device: &D,
    values: &D::Buffer<f32>,
    weight: Option<&D::Buffer<f32>>,
    all: &[f64; 4],
) -> Result<Summary> {
    let selected;
    let (count, [sum, squares, min, max]) = match weight {
        None => {
            selected = None;
            (values.len(), *all)
        }
        Some(w) => {
            let within = masked(device, values, w, f32::NAN)?;
            let what = [Reduction::CountNonFinite(0), Reduction::Min(0), Reduction::Max(0)];
            let found = device.reduce(&[&within], &what)?;
            drop(within);
            let inside = masked(device, values, w, 0.0)?;
            let sums = device.reduce(&[&inside], &[Reduction::Sum(0), Reduction::SumSquares(0)])?;
            selected = Some(inside);
            (values.len() - found[0] as usize, [sums[0], sums[1], found[1], found[2]])
        }
    };
    let n = count.max(1) as f64;
    let mut mean = sum / n;
    let mut variance = (squares / n - mean * mean).max(0.0);
    if min < max && variance < 1e-6 * mean * mean {
        // The difference of two large numbers: again, about the mean.
        let about = mean as f32;
        let mut off = device.alloc::<f32>(values.len())?;
        let from = selected.as_ref().unwrap_or(values);
        device.eval(&(x(0) - param(0)), &[from], &[about], None, &mut off)?;
        if let Some(w) = weight {
            let inside = masked(device, &off, w, 0.0)?;
            off = inside;
        }
        let sums = device.reduce(&[&off], &[Reduction::Sum(0), Reduction::SumSquares(0)])?;
        let shift = sums[0] / n;
        mean = f64::from(about) + shift;
        variance = (sums[1] / n - shift * shift).max(0.0);
    }
    let normal = Normal { mean, deviation: variance.sqrt() };
    Ok(Summary { count, normal, min: min as f32, max: max as f32 })
}

/// Checks an image and normalises its values to mean 0 and standard deviation 1 by `normal`, which is computed from
/// the image itself if `None`. Returns the values and their scale.
pub(super) fn normalised<D: Device>(
    device: &D,
    role: Role,
    image: Values<'_, D>,
    weight: Option<&D::Buffer<f32>>,
    normal: Option<Normal>,
) -> Result<(Normalised<D>, Normal)> {
    let all = device.reduce(
        &[image.get()],
        &[
            Reduction::CountNonFinite(0),
            Reduction::Sum(0),
            Reduction::SumSquares(0),
            Reduction::Min(0),
            Reduction::Max(0),
        ],
    )?;
    if all[0] > 0.0 {
        return Err(RegisterError::NotFinite { role, count: all[0] as usize });
    }
    let all = [all[1], all[2], all[3], all[4]];
    let seen = summary(device, image.get(), weight, &all)?;
    if seen.count < FEWEST {
        return Err(RegisterError::TooFew { role, samples: seen.count, needed: FEWEST });
    }
    let own = seen.normal;
    let smallest = 1e-6 * own.mean.abs().max(f64::from(f32::MIN_POSITIVE));
    if seen.min >= seen.max || own.deviation <= smallest {
        let within = if weight.is_some() { " inside its mask" } else { "" };
        return Err(RegisterError::Constant { role, value: own.mean as f32, within });
    }
    let normal = normal.unwrap_or(own);
    let (mean, deviation) = (normal.mean as f32, normal.deviation as f32);
    let scaled = (x(0) - param(0)) / param(1);
    let values = image.map(device, &scaled, &[mean, deviation])?;
    // The smallest and the largest value go the same way as all others.
    let ends = [all[2], all[3]].map(|v| (v as f32 - mean) / deviation);
    let (low, high) = BACKGROUND;
    let range = robust_range_within(device, &values, None, (ends[0], ends[1]), low, high)?;
    Ok((Normalised { values, background: range.0 }, normal))
}

/// 1 where a mask is above 0, 0 elsewhere.
fn inside<D: Device>(device: &D, mask: &D::Buffer<f32>) -> Result<D::Buffer<f32>> {
    let mut out = device.alloc::<f32>(mask.len())?;
    device.eval(&x(0).gt(0.0), &[mask], &[], None, &mut out)?;
    Ok(out)
}

fn largest<D: Device>(device: &D, values: &D::Buffer<f32>) -> Result<f32> {
    Ok(device.reduce(&[values], &[Reduction::Max(0)])?.first().map_or(0.0, |&v| v as f32))
}

/// The weights of the fixed image, mask and weight together: at most 1, as only their proportions
/// count.
pub(super) fn fixed_weight<D: Device>(
    device: &D,
    [mask, weight]: [Option<&D::Buffer<f32>>; 2],
) -> Result<Option<D::Buffer<f32>>> {
    if let Some(weight) = weight {
        let what = [Reduction::CountNonFinite(0), Reduction::Min(0), Reduction::Max(0)];
        let found = device.reduce(&[weight], &what)?;
        let bad = match found[..] {
            [_, min, _] if min < 0.0 => Some(min),
            [n, _, max] if n > 0.0 && max == f64::INFINITY => Some(max),
            [n, ..] if n > 0.0 => Some(f64::NAN),
            _ => None,
        };
        if let Some(v) = bad {
            return Err(RegisterError::option(
                "fixed_weight",
                format!("a weight of {v}"),
                "give finite weights of 0 or more",
            ));
        }
    }
    let weight = match (mask, weight) {
        (None, None) => return Ok(None),
        (Some(mask), None) => inside(device, mask)?,
        (mask, Some(weight)) => {
            let mut out = device.alloc::<f32>(weight.len())?;
            match mask {
                None => device.copy(weight, &mut out)?,
                Some(mask) => {
                    let both = select(x(0).gt(0.0), x(1), 0.0);
                    device.eval(&both, &[mask, weight], &[], None, &mut out)?;
                }
            }
            let most = largest(device, &out)?;
            if most > 0.0 {
                device.eval_in_place(&(x(0) / param(0)), &mut out, &[], &[most], None)?;
            }
            out
        }
    };
    if largest(device, &weight)? <= 0.0 {
        return Err(RegisterError::EmptyMask { role: Role::FixedMask });
    }
    Ok(Some(weight))
}

/// The moving mask: 1 where it is above 0, 0 elsewhere.
pub(super) fn moving_mask<D: Device>(
    device: &D,
    mask: Option<&D::Buffer<f32>>,
) -> Result<Option<D::Buffer<f32>>> {
    let Some(mask) = mask else { return Ok(None) };
    let inside = inside(device, mask)?;
    if largest(device, &inside)? <= 0.0 {
        return Err(RegisterError::EmptyMask { role: Role::MovingMask });
    }
    Ok(Some(inside))
}
