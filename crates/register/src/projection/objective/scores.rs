//! What each part of an image says of a pose: of these, a deviation is made that knows that neighbours err together.

use super::{Drawn, XrayObjective};
use crate::error::Result;
use crate::projection::similarity::Reference;
use crate::projection::view::ray_view;
use nalgebra::{Matrix6, Vector6};
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{self, Pixels};
use voxalign_image::{Affine, memory};

/// Columns and rows of a cell, pixels.
pub(crate) const CELL: usize = 4;

/// The derivative of the cost in six parameters, of each cell of a view.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    /// Columns and rows of cells.
    dims: [usize; 2],
    cells: Vec<Vector6<f64>>,
}

impl Scores {
    /// The sum of the squares `ψ ψᵀ` over blocks of `side x side` cells that say something, and their number.
    pub(crate) fn squares(&self, side: usize) -> (Matrix6<f64>, usize) {
        let (mut sum, mut count) = (Matrix6::zeros(), 0);
        let [w, h] = self.dims;
        for y in (0..h).step_by(side) {
            for x in (0..w).step_by(side) {
                let mut block = Vector6::zeros();
                for j in y..(y + side).min(h) {
                    for i in x..(x + side).min(w) {
                        block += self.cells[j * w + i];
                    }
                }
                count += usize::from(block != Vector6::zeros());
                sum += block * block.transpose();
            }
        }
        (sum, count)
    }
}

/// Pixels in patches that are compared within: a patch says what it says as a whole, as what its pixels say for themselves cancels out.
struct Patches {
    /// Pixels of a patch.
    length: usize,
    tile: [usize; 2],
    /// The numbers of pixels, patch after patch.
    places: Vec<usize>,
    /// Whether they are all patches of a region that is one tile.
    split: bool,
}

impl Patches {
    fn new(pixels: &Pixels, tile: [usize; 2]) -> Result<Self> {
        let [w, h] = pixels.dims;
        let split = pixels.drawn.is_none() && tile == [2, 2] && w > 1 && h > 1;
        if !split {
            let places = memory::collected(0..pixels.len())?;
            // The whole of a region is no patch.
            let length = if pixels.drawn.is_some() { tile[0] * tile[1] } else { 1 };
            return Ok(Self { length, tile, places, split });
        }
        let patch = |i: usize| {
            let at = i / (w - 1) * w + i % (w - 1);
            [at, at + 1, at + w, at + w + 1]
        };
        let places = memory::collected((0..(w - 1) * (h - 1)).flat_map(patch))?;
        Ok(Self { length: 4, tile, places, split })
    }

    /// What an image of so many patches is.
    fn pixels(&self) -> Pixels {
        let drawn = Some(raycast::Drawn { count: self.places.len() / self.length, seed: 0 });
        Pixels { first: [0, 0], dims: self.tile, tile: self.tile, drawn }
    }

    /// The values there.
    fn of(&self, values: &[f32]) -> Result<Vec<f32>> {
        Ok(memory::collected(self.places.iter().map(|&place| values[place]))?)
    }
}

impl<D: Device> XrayObjective<'_, D> {
    /// The scores of all views at a pose; `ends` are poses on either side along each of six parameters, `by` away. Their sums are the
    /// derivative of the cost.
    pub(crate) fn scores(
        &self,
        map: &Affine,
        ends: &[[Affine; 2]; 6],
        by: f64,
    ) -> Result<Vec<Scores>> {
        let part = 1.0 / self.views.len() as f64;
        let mut all = Vec::with_capacity(self.views.len());
        for view in &self.views {
            let Drawn { pixels, reference } = &view.drawn;
            let image = |map| self.images(&[ray_view(&view.geometry, map, &self.ct.grid)], pixels);
            let patches = Patches::new(pixels, self.similarity.tile())?;
            let patched = match patches.split {
                true => Some(Reference::new(
                    patches.of(reference.values())?,
                    &patches.pixels(),
                    view.most,
                )),
                false => None,
            };
            let mut weights = memory::zeroed::<f32>(patches.places.len())?;
            let here = patches.of(&image(map)?)?;
            let reference = patched.as_ref().unwrap_or(reference);
            let _ = self.similarity.cost(reference, &here, Some(&mut weights));
            let (first, dims) = view.counted;
            let cells = dims.map(|n| n.div_ceil(CELL));
            let mut found = memory::filled(cells[0] * cells[1], Vector6::zeros())?;
            for (axis, [before, after]) in ends.iter().enumerate() {
                let (before, after) = (image(before)?, image(after)?);
                for (i, (&weight, &place)) in weights.iter().zip(&patches.places).enumerate() {
                    let [x, y] = pixels.at(patches.places[i - i % patches.length]);
                    let cell = (y - first[1]) / CELL * cells[0] + (x - first[0]) / CELL;
                    let slope = f64::from(after[place]) - f64::from(before[place]);
                    found[cell][axis] += part * f64::from(weight) * slope / (2.0 * by);
                }
            }
            all.push(Scores { dims: cells, cells: found });
        }
        Ok(all)
    }
}
