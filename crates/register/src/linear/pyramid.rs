//! The images at the scales of a registration.

use super::input::{DeviceInput, FixedSide, Sides, Source};
use super::options::AffineInput;
use super::prepared::Prepared;
use super::scales::{Finest, Scaled};
use crate::error::{Result, Role};
use crate::evidence::Seen;
use crate::similarity::OfSums;
use voxalign_compute::Device;
use voxalign_image::Grid;

/// Standard deviation of the smoothing that goes with a sample spacing, as a part of it: a full
/// width at half maximum of one spacing.
const SIGMA_OF_SPACING: f64 = 0.425;

/// The fixed image of a pyramid: made for it, or kept from one registration to the next.
enum Fixed<'a, D: Device> {
    Own(Box<Finest<D>>),
    Kept(&'a Prepared<D>),
}

impl<D: Device> Fixed<'_, D> {
    fn finest(&self) -> &Finest<D> {
        match self {
            Self::Own(finest) => finest,
            Self::Kept(prepared) => prepared.finest(),
        }
    }

    fn at(&self, device: &D, levels: &[f64], sigma: f64) -> Result<Vec<Scaled<D>>> {
        match self {
            Self::Own(finest) => finest.at(device, levels, sigma),
            Self::Kept(prepared) => prepared.at(device, levels, sigma),
        }
    }
}

/// Two images at all scales.
pub(super) struct Pyramid<D: Device> {
    /// Coarse to fine.
    pub(super) levels: Vec<(Scaled<D>, Scaled<D>)>,
    /// The images as evidence looks at them.
    pub(super) seen: Seen,
}

/// Both images at all levels (given coarse to fine), coarse to fine.
///
/// A similarity says whether the moving image is normalised by the fixed one's numbers, and whether the
/// fixed one is smoothed.
pub(super) fn build<D: Device>(
    device: &D,
    source: Source<'_, D>,
    levels: &[f64],
    similarity: OfSums,
) -> Result<Pyramid<D>> {
    let (fixed, moving) = finest(device, source, similarity.one_scale)?;
    let fixed_sigma = if similarity.smooths_fixed { SIGMA_OF_SPACING } else { 0.0 };
    let seen = seen_by(device, &fixed, &moving)?;
    let fixed_levels = fixed.at(device, levels, fixed_sigma)?;
    drop(fixed);
    let moving = moving.at(device, levels, SIGMA_OF_SPACING)?;
    Ok(Pyramid { levels: fixed_levels.into_iter().zip(moving).collect(), seen })
}

/// Both images on one scale: that of the fixed image, or each on its own.
fn finest<'a, D: Device>(
    device: &D,
    source: Source<'a, D>,
    one_scale: bool,
) -> Result<(Fixed<'a, D>, Finest<D>)> {
    let [fixed_grid, moving_grid] = source.grids().map(Grid::clone);
    let Sides { fixed, moving: (moving, mask) } = source.sides(device)?;
    let fixed = match fixed {
        FixedSide::Read(values, weight) => Fixed::Own(Box::new(Finest::new(
            device,
            (Role::Fixed, fixed_grid),
            values,
            weight,
            None,
        )?)),
        FixedSide::Prepared(prepared) => Fixed::Kept(prepared),
    };
    let given = one_scale.then_some(fixed.finest().normal);
    let moving = Finest::new(device, (Role::Moving, moving_grid), moving, mask, given)?;
    Ok((fixed, moving))
}

/// Two images as evidence looks at them, with their masks and, where there are some, without.
fn seen_by<D: Device>(device: &D, fixed: &Fixed<'_, D>, moving: &Finest<D>) -> Result<Seen> {
    let finest = fixed.finest();
    let at = [Seen::spacing(&finest.image.grid, &moving.image.grid)];
    let seen = Seen::new(
        read_back(device, fixed.at(device, &at, SIGMA_OF_SPACING)?)?,
        read_back(device, moving.at(device, &at, SIGMA_OF_SPACING)?)?,
    );
    if finest.image.weight.is_none() && moving.image.weight.is_none() {
        return Ok(seen);
    }
    let whole = |image: &Finest<D>| {
        read_back(device, image.unweighted().at(device, &at, SIGMA_OF_SPACING)?)
    };
    Ok(seen.beside(Seen::new(whole(finest)?, whole(moving)?)))
}

/// Two images as evidence looks at them, without a registration.
///
/// # Errors
/// Images that are constant or not finite, masks on other grids, memory that runs out.
pub fn see<D: Device>(device: &D, input: &AffineInput<'_>) -> Result<Seen> {
    let source = Source::Own(Box::new(DeviceInput::upload(device, input)?));
    let (fixed, moving) = finest(device, source, false)?;
    seen_by(device, &fixed, &moving)
}

/// The only scale of an image, on the host.
fn read_back<D: Device>(
    device: &D,
    mut scales: Vec<Scaled<D>>,
) -> Result<(Grid, Vec<f32>, Option<Vec<f32>>)> {
    let image = scales.remove(0);
    let weight = image.weight.as_ref().map(|w| device.download(w)).transpose()?;
    Ok((image.grid, device.download(&image.values)?, weight))
}
