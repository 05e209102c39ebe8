//! Things in X-ray images that the CT does not show: metal, markers, burnt-in text. They are detected by the
//! values of the image, whatever their [relation](super::relation) to those of the simulated one; a nonlinear
//! relation is linearised.

use super::level::{Level, Shown};
use super::options::{Metal, PoseOptions};
use super::relation::{Curve, FEWEST, Relation, Response, correlation, quantile};
use super::search::Search;
use crate::error::{RegisterError, Result};
use crate::projection::objective::View;
use voxalign_compute::Device;
use voxalign_image::{Affine, memory};
use voxalign_options::{Text, text};

/// The largest fraction of the pixels of a view that is left out: where more differ, it is the pose that is
/// doubtful, not the image.
const MOST: f64 = 0.25;
/// The allowed shift or blur of the simulated image, pixels.
const REACH: usize = 2;
/// The least correlation of the remaining pixels with their prediction: below it the pose is wrong.
const ALIKE: f64 = 0.9;
/// Differences that change slowly over the image are none: they are medians around places so far apart, of pixels so far on either side.
const APART: usize = 8;
const AROUND: usize = 8;
/// Strong contrast: the range of simulated values close to a pixel that this fraction of the pixels stays below.
const STRONG: f64 = 0.95;
/// How far pixels are beyond all simulated values close to them, as fractions of strong contrast and in standard
/// deviations of the residuals elsewhere: pixels that surely are not of the CT, and those around them that belong
/// to them.
const BEYOND: f64 = 1.0;
const DEVIATIONS: f64 = 8.0;
const BELONGS: [f64; 2] = [0.25, 4.0];
/// Pixels that a thing has at least: a single one is noise.
const SMALLEST: usize = 3;

/// Deviations of a view from anything that a simulated image can be.
#[derive(Default)]
struct Other {
    /// Pixels with things that the CT does not show; none where there are none, or more than can be told from a
    /// wrong pose.
    things: Option<Vec<bool>>,
    /// The map from its values to simulated ones; none where it is not needed.
    curve: Option<Curve>,
}

/// Deviations within the region of a view that counts.
fn other(shown: &Shown, options: &PoseOptions) -> Result<Other> {
    let Shown { dims, taken, simulated, without } = shown;
    let n = taken.len();
    let counts = |i: usize| without.as_ref().is_none_or(|without| !without[i]);
    let seen = memory::collected((0..n).filter(|&i| simulated[i] > 0.0 && counts(i)))?;
    if seen.len() < FEWEST {
        return Ok(Other::default());
    }
    let relation = Relation::new(taken, simulated, &seen)?;
    let expected = relation.of(simulated)?;
    let off: Vec<f32> = memory::collected((0..n).map(|i| taken[i] - expected[i]))?;
    let slow = slow(*dims, &off)?;
    let high = extreme(*dims, &expected, f32::max)?;
    let low = extreme(*dims, &expected, f32::min)?;
    let left = seen.iter().map(|&i| (off[i] - slow[i]).abs());
    let deviation = 1.4826 * quantile(memory::collected(left)?, 0.5);
    let contrast = quantile(memory::collected(seen.iter().map(|&i| high[i] - low[i]))?, STRONG);
    let beyond = |i: usize| {
        let value = taken[i] - slow[i];
        if !counts(i) {
            return 0.0;
        }
        f64::from((value - high[i]).max(low[i] - value))
    };
    let surely = (BEYOND * contrast).max(DEVIATIONS * deviation);
    let belongs = (BELONGS[0] * contrast).max(BELONGS[1] * deviation);
    if surely.is_nan() || surely <= 0.0 {
        return Ok(Other::default());
    }
    let beyond: Vec<f64> = memory::collected((0..n).map(beyond))?;
    let things = things(*dims, &beyond, [surely, belongs])?;
    let count = things.iter().filter(|v| **v).count();
    let rest = seen.iter().copied().filter(|&i| !things[i]);
    let pairs = rest.clone().map(|i| [taken[i] - slow[i], expected[i]]);
    if count as f64 > MOST * n as f64 || correlation(pairs) < ALIKE {
        return Ok(Other::default());
    }
    let straighten = options.response == Response::Straighten;
    let curve = straighten.then(|| relation.straightening(taken, simulated, rest)).flatten();
    let things = (count > 0 && options.metal == Metal::Mask).then_some(things);
    Ok(Other { things, curve })
}

/// The largest or the smallest value of all pixels close to each.
fn extreme([w, h]: [usize; 2], values: &[f32], of: impl Fn(f32, f32) -> f32) -> Result<Vec<f32>> {
    let along = |values: &[f32], step: usize, count: usize, at: usize, i: usize| {
        let near = at.saturating_sub(REACH)..(at + REACH + 1).min(count);
        near.map(|j| values[i + j * step - at * step]).fold(values[i], &of)
    };
    let rows = memory::collected((0..w * h).map(|i| along(values, 1, w, i % w, i)))?;
    Ok(memory::collected((0..w * h).map(|i| along(&rows, w, h, i / w, i)))?)
}

/// The slowly varying part of an image: medians around points of a coarse grid, linear in between.
fn slow([w, h]: [usize; 2], values: &[f32]) -> Result<Vec<f32>> {
    let places = |n: usize| n.div_ceil(APART).max(1);
    let [columns, rows] = [places(w), places(h)];
    // In the middle of its square.
    let middle = |place: usize, n: usize| (place * APART + APART / 2).min(n - 1);
    let mut coarse = Vec::with_capacity(columns * rows);
    for row in 0..rows {
        for column in 0..columns {
            let (x, y) = (middle(column, w), middle(row, h));
            let lines = y.saturating_sub(AROUND)..(y + AROUND + 1).min(h);
            let part = x.saturating_sub(AROUND)..(x + AROUND + 1).min(w);
            let near = lines.flat_map(|y| &values[y * w + part.start..y * w + part.end]);
            coarse.push(quantile(near.copied().collect(), 0.5));
        }
    }
    let between = |at: usize, count: usize| {
        let place = (at as f64 - (APART / 2) as f64) / APART as f64;
        let place = place.clamp(0.0, (count - 1) as f64);
        let first = (place as usize).min(count.max(2) - 2);
        (first, (first + 1).min(count - 1), place - first as f64)
    };
    let one = |i: usize| {
        let (a, b, u) = between(i % w, columns);
        let (c, d, v) = between(i / w, rows);
        let row = |r: usize| coarse[r * columns + a] * (1.0 - u) + coarse[r * columns + b] * u;
        (row(c) * (1.0 - v) + row(d) * v) as f32
    };
    Ok(memory::collected((0..w * h).map(one))?)
}

/// Connected pixels some of which surely are what is looked for, with the pixels next to them.
fn things([w, h]: [usize; 2], beyond: &[f64], [surely, belongs]: [f64; 2]) -> Result<Vec<bool>> {
    let near = |i: usize| {
        let (x, y) = (i % w, i / w);
        let lines = y.saturating_sub(1)..(y + 2).min(h);
        let part = x.saturating_sub(1)..(x + 2).min(w);
        lines.flat_map(move |y| part.clone().map(move |x| y * w + x))
    };
    let mut visited = memory::filled(w * h, false)?;
    let mut out = memory::filled(w * h, false)?;
    for first in 0..w * h {
        if visited[first] || beyond[first] <= surely {
            continue;
        }
        visited[first] = true;
        let mut thing = vec![first];
        let mut next = 0;
        while next < thing.len() {
            for place in near(thing[next]) {
                if !visited[place] && beyond[place] > belongs {
                    visited[place] = true;
                    memory::push(&mut thing, place)?;
                }
            }
            next += 1;
        }
        if thing.len() >= SMALLEST {
            thing.iter().flat_map(|&i| near(i)).for_each(|place| out[place] = true);
        }
    }
    Ok(out)
}

/// How often a search is made again by what was found.
pub(super) const ROUNDS: usize = 2;
/// The largest difference when found again, as a fraction.
const SAME: f64 = 0.1;

/// The changes to a view before it is compared.
#[derive(Debug, Clone, Default)]
pub(super) struct Adapted {
    /// Pixels that are left out, where some are.
    pub(super) without: Option<Vec<bool>>,
    /// The values of an image that had others.
    pub(super) image: Option<Vec<f32>>,
}

impl Adapted {
    /// Whether it differs from what was found before.
    pub(super) fn differs(&self, before: &Self) -> bool {
        let without = match (&before.without, &self.without) {
            (None, None) => false,
            (Some(a), Some(b)) => {
                let other = a.iter().zip(b).filter(|(a, b)| a != b).count();
                other as f64 > SAME * a.iter().filter(|a| **a).count() as f64
            }
            _ => true,
        };
        without || self.image.is_some() != before.image.is_some()
    }

    /// A view of which that is compared.
    pub(super) fn view<'a>(&'a self, view: &View<'a>) -> View<'a> {
        let image = self.image.as_deref().unwrap_or(view.image);
        View { image, without: self.without.as_deref().or(view.without), ..*view }
    }

    /// Whether anything is.
    pub(super) fn is_other(&self) -> bool {
        self.without.is_some() || self.image.is_some()
    }

    /// The fraction of the pixels of a view that are left out, in addition to those that did not count anyway.
    pub(super) fn left_out(&self, view: &View<'_>) -> f64 {
        let (Some(without), Ok((_, [w, h]))) = (&self.without, view.counted()) else { return 0.0 };
        let given = |i: usize| view.without.is_some_and(|given| given[i]);
        let count = (0..without.len()).filter(|&i| without[i] && !given(i)).count();
        count as f64 / (w * h) as f64
    }

    /// The remarks on a view, numbered from 0.
    pub(super) fn remarks(&self, number: usize, view: &View<'_>) -> Vec<Text> {
        let mut all = Vec::new();
        if self.without.is_some() {
            all.push(text!(
                "view {} shows things that the CT does not, such as metal, markers or text: {:.1} % of its \
                 pixels were left out (`metal = keep` keeps them all)",
                number + 1,
                100.0 * self.left_out(view)
            ));
        }
        if self.image.is_some() {
            all.push(text!(
                "the values of view {} are not attenuations but a nonlinear function of them, such as their \
                 roots or intensities: they were linearised against the simulated image; check `pixels` \
                 (`response = keep` leaves them as they are)",
                number + 1
            ));
        }
        all
    }
}

impl<D: Device> Search<'_, '_, D> {
    /// The parts of each view to compare, given a pose found at a pixel size that the CT is prepared for.
    pub(super) fn adapted(
        &self,
        views: &[View<'_>],
        size: f64,
        at: &Affine,
    ) -> Result<Vec<Adapted>> {
        // The level as it was searched may lack pixels and have other values.
        let level = Level::new(self.ct.at(size)?, views, size, self.model.centre)?;
        let shown = level.simulated(at)?;
        let one = |(number, (view, shown)): (usize, (&View<'_>, &Shown))| {
            let Other { things, curve } = other(shown, self.options)?;
            let whole = |part: Vec<bool>| {
                let mut whole = level.whole(number, shown.dims, &part, view.geometry.dims())?;
                if let Some(given) = view.without {
                    whole.iter_mut().zip(given).for_each(|(whole, given)| *whole |= given);
                }
                Ok::<_, RegisterError>(whole)
            };
            let straight =
                |curve: Curve| memory::collected(view.image.iter().map(|&v| curve.of(v)));
            Ok(Adapted {
                without: things.map(whole).transpose()?,
                image: curve.map(straight).transpose()?,
            })
        };
        views.iter().zip(&shown).enumerate().map(one).collect()
    }
}
