//! Scores: the derivatives of the cost by image cell, and the covariance estimated from them, in which
//! neighbouring cells are correlated.

use super::{Drawn, XrayObjective};
use crate::error::Result;
use crate::projection::similarity::Reference;
use crate::projection::view::ray_view;
use nalgebra::{DMatrix, DVector};
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{self, Pixels};
use voxalign_image::{Affine, XrayGeometry, memory};

/// Columns and rows of a cell, pixels.
pub(crate) const CELL: usize = 4;

/// The places of a view and the maps on either side of those of a result along a parameter; none where it changes nothing in the view.
pub(crate) type Ends = Option<[(XrayGeometry, Affine); 2]>;

/// The derivative of the cost in parameters, of each cell of a view.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    /// Columns and rows of cells.
    dims: [usize; 2],
    /// Numbers of a cell.
    parameters: usize,
    cells: Vec<f64>,
    /// The metric: the curvature of the cost up to a factor, from the effect of the parameters on the image,
    /// without the terms beyond a parabola (Gauss and Newton).
    pub(crate) metric: DMatrix<f64>,
}

/// Patches from which the metric is computed.
const TELLING: usize = 1 << 15;

impl Scores {
    /// The derivative of the cost.
    pub(crate) fn derivatives(&self) -> DVector<f64> {
        let mut sum = DVector::zeros(self.parameters);
        for cell in self.cells.chunks(self.parameters.max(1)) {
            sum.iter_mut().zip(cell).for_each(|(sum, v)| *sum += v);
        }
        sum
    }

    /// The sum of the squares `ψ ψᵀ` over blocks of `side x side` cells with contributions, and their number.
    pub(crate) fn squares(&self, side: usize) -> (DMatrix<f64>, usize) {
        let n = self.parameters;
        let (mut sum, mut count) = (DMatrix::zeros(n, n), 0);
        let [w, h] = self.dims;
        for y in (0..h).step_by(side) {
            for x in (0..w).step_by(side) {
                let mut block = DVector::zeros(n);
                for j in y..(y + side).min(h) {
                    for i in x..(x + side).min(w) {
                        let cell = &self.cells[(j * w + i) * n..][..n];
                        block.iter_mut().zip(cell).for_each(|(sum, v)| *sum += v);
                    }
                }
                if block.iter().any(|v| *v != 0.0) {
                    count += 1;
                    sum.ger(1.0, &block, &block, 1.0);
                }
            }
        }
        (sum, count)
    }
}

/// Pixels in patches that are compared within: the contribution of a patch counts as a whole, as those of its
/// single pixels cancel.
struct Patches {
    /// Pixels of a patch.
    length: usize,
    tile: [usize; 2],
    /// The numbers of pixels, patch after patch.
    places: Vec<usize>,
    /// Whether they are all patches of a region that is one tile.
    split: bool,
    /// Whether each patch counts, where some do not.
    counted: Option<Vec<bool>>,
}

impl Patches {
    fn new(pixels: &Pixels, tile: [usize; 2], reference: &Reference) -> Result<Self> {
        let mut all = Self::all(pixels, tile)?;
        if !reference.counts_all() {
            let counts = |patch: &[usize]| patch.iter().all(|&place| reference.counts(place));
            let each = all.places.chunks_exact(all.length).map(counts);
            all.counted = Some(memory::collected(each)?);
        }
        Ok(all)
    }

    /// Of all pixels.
    fn all(pixels: &Pixels, tile: [usize; 2]) -> Result<Self> {
        let [w, h] = pixels.dims;
        let split = pixels.drawn.is_none() && tile == [2, 2] && w > 1 && h > 1;
        if !split {
            let places = memory::collected(0..pixels.len())?;
            // The whole of a region is no patch.
            let length = if pixels.drawn.is_some() { tile[0] * tile[1] } else { 1 };
            return Ok(Self { length, tile, places, split, counted: None });
        }
        let patch = |i: usize| {
            let at = i / (w - 1) * w + i % (w - 1);
            [at, at + 1, at + w, at + w + 1]
        };
        let places = memory::collected((0..(w - 1) * (h - 1)).flat_map(patch))?;
        Ok(Self { length: 4, tile, places, split, counted: None })
    }

    /// An image of this many patches.
    fn pixels(&self) -> Pixels {
        let drawn = Some(raycast::Drawn { count: self.places.len() / self.length, seed: 0 });
        Pixels { first: [0, 0], dims: self.tile, tile: self.tile, drawn }
    }

    /// The features of some patches of an image: the differences along columns and along rows within patches of
    /// four, else the values.
    fn features(&self, values: &[f32]) -> Vec<f64> {
        let patches = self.places.len() / self.length;
        let some = (0..patches).step_by(patches.div_ceil(TELLING).max(1));
        let some = some.filter(|&patch| self.counts(patch));
        if self.tile != [2, 2] || self.length != 4 {
            let at = |patch: usize| &self.places[patch * self.length..][..self.length];
            return some.flat_map(at).map(|&place| f64::from(values[place])).collect();
        }
        let both = some.map(|patch| {
            let [a, b, c, d] =
                std::array::from_fn(|i| f64::from(values[self.places[4 * patch + i]]));
            [b - a + d - c, c - a + d - b]
        });
        let (mut across, down): (Vec<f64>, Vec<f64>) = both.map(|[x, y]| (x, y)).unzip();
        across.extend(down);
        across
    }

    /// Whether a patch counts.
    fn counts(&self, patch: usize) -> bool {
        self.counted.as_ref().is_none_or(|counted| counted[patch])
    }

    /// The number of kinds of features.
    fn kinds(&self) -> usize {
        if self.tile == [2, 2] && self.length == 4 { 2 } else { 1 }
    }

    /// The values there.
    fn of(&self, values: &[f32]) -> Result<Vec<f32>> {
        Ok(memory::collected(self.places.iter().map(|&place| values[place]))?)
    }
}

impl<D: Device> XrayObjective<'_, D> {
    /// The scores of a view at a pose; `ends` are on either side of it along each parameter, `by` away. The sums over all views are the
    /// derivative of the cost.
    pub(crate) fn scores(
        &self,
        view: usize,
        map: &Affine,
        ends: &[Ends],
        by: f64,
    ) -> Result<Scores> {
        let (part, n) = (1.0 / self.views.len() as f64, ends.len());
        let view = &self.views[view];
        let Drawn { pixels, reference } = &view.drawn;
        let image = |(geometry, map): &(XrayGeometry, Affine)| {
            self.images(&[ray_view(geometry, map, &self.ct.grid)], pixels)
        };
        let patches = Patches::new(pixels, self.similarity.tile(), reference)?;
        let patched = match patches.split {
            true => {
                let values = patches.of(reference.values())?;
                let patched = Reference::new(values, &patches.pixels(), view.most);
                let all = reference.counts_all();
                let counts = patches.places.iter().map(|&place| reference.counts(place));
                Some(if all { patched } else { patched.counting(memory::collected(counts)?) })
            }
            false => None,
        };
        let mut weights = memory::zeroed::<f32>(patches.places.len())?;
        let image_here = image(&(view.geometry, *map))?;
        let features = patches.features(&image_here);
        let here = patches.of(&image_here)?;
        let mut moves = Vec::with_capacity(n);
        let reference = patched.as_ref().unwrap_or(reference);
        let _ = self.similarity.cost(reference, &here, Some(&mut weights));
        let (first, dims) = view.counted;
        let cells = dims.map(|n| n.div_ceil(CELL));
        let mut found = memory::zeroed::<f64>(cells[0] * cells[1] * n)?;
        for (axis, ends) in ends.iter().enumerate() {
            let Some([before, after]) = ends else {
                moves.push(None);
                continue;
            };
            let (before, after) = (image(before)?, image(after)?);
            let both = patches.features(&after).into_iter().zip(patches.features(&before));
            moves.push(Some(both.map(|(a, b)| (a - b) / (2.0 * by)).collect()));
            for (i, (&weight, &place)) in weights.iter().zip(&patches.places).enumerate() {
                let [x, y] = pixels.at(patches.places[i - i % patches.length]);
                let cell = (y - first[1]) / CELL * cells[0] + (x - first[0]) / CELL;
                let derivative = f64::from(after[place]) - f64::from(before[place]);
                found[cell * n + axis] += part * f64::from(weight) * derivative / (2.0 * by);
            }
        }
        let metric = metric(&features, moves, patches.kinds()) * part;
        Ok(Scores { dims: cells, parameters: n, cells: found, metric })
    }
}

/// The products of the parameters' effects on features, of this many kinds one after the other, each compared by a
/// correlation: without changes of overall scale or brightness.
fn metric(features: &[f64], mut moves: Vec<Option<Vec<f64>>>, kinds: usize) -> DMatrix<f64> {
    let n = moves.len();
    let length = (features.len() / kinds).max(1);
    for (kind, here) in features.chunks(length).enumerate() {
        let mean = here.iter().sum::<f64>() / length as f64;
        let size = here.iter().map(|v| (v - mean).powi(2)).sum::<f64>().sqrt();
        for all in moves.iter_mut().flatten() {
            let part = &mut all[kind * length..][..here.len()];
            let middle = part.iter().sum::<f64>() / length as f64;
            let along = part.iter().zip(here).map(|(m, v)| (m - middle) * (v - mean)).sum::<f64>();
            for (m, v) in part.iter_mut().zip(here) {
                let left = *m - middle - along * (v - mean) / (size * size);
                *m = if size > 0.0 { left / size } else { 0.0 };
            }
        }
    }
    let product = |i: usize, j: usize| match (&moves[i], &moves[j]) {
        (Some(a), Some(b)) => a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / kinds as f64,
        _ => 0.0,
    };
    DMatrix::from_fn(n, n, product)
}
