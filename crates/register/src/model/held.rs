//! State of points that is kept from one step of a scale to the next.

use super::points::{Held, between, lattice};
use super::pull::Sources;
use crate::error::Result;
use voxalign_compute::{Arriving, Device, Dims};
use voxalign_image::{Affine, Index, Vector3, World};

/// How points of one world get to the other one.
pub(super) struct Way<'a, D: Device> {
    /// From the world that they come from to voxels of the grid.
    pub(super) to_grid: Affine<World, Index>,
    /// The displacement of the grid that leads to the world they come from, where that moves.
    pub(super) from: Option<&'a D::Buffer<f32>>,
    /// The one that leads to the other world, voxels, and the map from voxels to there after it.
    pub(super) field: &'a D::Buffer<f32>,
    pub(super) to_world: Affine<Index, World>,
}

/// The state of points from one step of a scale to the next.
pub(super) struct PointState<D: Device> {
    /// Of each attachment of points, the points of each side that is carried.
    pub(super) held: Vec<Vec<Held<D>>>,
    /// The largest of the last velocity; none before the first step of a scale.
    pub(super) last: Option<Largest>,
    /// The factor by which points move farther than stiffness alone allows.
    pub(super) trust: Trust,
}

/// The largest length of a velocity, on its way to the host or here.
pub(super) enum Largest {
    Arriving(Arriving),
    Known(f64),
}

impl Largest {
    pub(super) fn wait(self) -> Result<f64> {
        match self {
            Self::Arriving(norms) => Ok(norms.wait()?.first().copied().unwrap_or_default()),
            Self::Known(known) => Ok(known),
        }
    }
}

/// How far points may move beyond the step that their stiffness suggests, which suits shapes that overlap and is
/// far too stiff where they are far apart. Longer steps while they reduce the energy, shorter ones after they
/// raised it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trust {
    factor: f64,
    last_energy: f64,
}

impl Default for Trust {
    fn default() -> Self {
        Self { factor: 1.0, last_energy: f64::INFINITY }
    }
}

impl Trust {
    /// The largest factor.
    const MOST: f64 = 64.0;

    /// The divisor of the stiffness.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// Is told the energies of all attachments of points before the last step.
    fn told(&mut self, points: &[f64]) {
        let energy = points.iter().sum();
        let change = if energy < self.last_energy { 1.25 } else { 0.5 };
        self.factor = (change * self.factor).clamp(1.0, Self::MOST);
        self.last_energy = energy;
    }
}

impl<D: Device> PointState<D> {
    /// Is told the parts of the energy before the last step, of which those of points are the last.
    pub(super) fn told(&mut self, parts: &[f64]) {
        if let Some(points) = parts.len().checked_sub(self.held.len()).and_then(|n| parts.get(n..))
            && !points.is_empty()
        {
            self.trust.told(points);
        }
    }

    /// The places of points have changed, so that the next step looks at them anew.
    pub(super) fn moved(&mut self) {
        self.held.clear();
    }

    /// Brings the points of all attachments to where forces act on them. Where none were held, at the first step of a scale
    /// and after they have [moved](Self::moved), the stiffness of each side of each attachment that is held now.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn hold(
        &mut self,
        device: &D,
        sources: &mut Sources<'_, D>,
        ways: &[Way<'_, D>],
        dims: Dims,
    ) -> Result<Vec<Vec<f32>>> {
        let mut stiffness = Vec::new();
        if self.held.is_empty() {
            for attachment in sources.all() {
                let Some(places) = attachment.needs().places else { continue };
                let mut all = Vec::new();
                for (side, way) in ways.iter().enumerate().take(2) {
                    let [from, to] = [places[side], places[1 - side]];
                    let to_grid = between(&way.to_grid, from.origin(), &Vector3::zeros());
                    let map = between(&way.to_world, &Vector3::zeros(), to.origin());
                    all.push(Held::new(device, from.at(), &to_grid, map)?);
                    stiffness.push(from.stiffness().to_vec());
                }
                self.held.push(all);
            }
        }
        for held in &mut self.held {
            for (held, way) in held.iter_mut().zip(ways) {
                if let Some(field) = way.from {
                    held.follow(device, field, lattice(dims))?;
                }
            }
        }
        Ok(stiffness)
    }

    /// All that is on the device, always in the same order; what a subject has there between two steps.
    pub(super) fn buffers(&mut self) -> impl Iterator<Item = &mut D::Buffer<f32>> {
        self.held.iter_mut().flatten().flat_map(Held::buffers)
    }

    /// The rest of the state, including which [buffers](Self::buffers) there are; nothing before the first step of
    /// a scale. Waits for the last step.
    ///
    /// # Errors
    /// What failed on the device.
    pub(super) fn numbers(&mut self) -> Result<Vec<f64>> {
        if self.held.is_empty() && self.last.is_none() {
            return Ok(Vec::new());
        }
        let last = self.last.take().map(Largest::wait).transpose()?;
        self.last = last.map(Largest::Known);
        let count = f64::from(u8::from(last.is_some()));
        let mut all = vec![self.trust.factor, self.trust.last_energy, count];
        all.extend(last);
        for sides in &self.held {
            all.push(sides.len() as f64);
            all.extend(sides.iter().flat_map(Held::numbers));
        }
        Ok(all)
    }

    /// What these [numbers](Self::numbers) are of, with room for its buffers; none where they are of nothing.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn from_numbers(device: &D, numbers: &[f64]) -> Result<Self> {
        let mut state = Self::default();
        let mut rest = numbers.iter().copied();
        let (Some(factor), Some(last_energy)) = (rest.next(), rest.next()) else {
            return Ok(state);
        };
        state.trust = Trust { factor, last_energy };
        let count = rest.next().unwrap_or_default() as usize;
        state.last = rest.by_ref().take(count).last().map(Largest::Known);
        while let Some(sides) = rest.next() {
            let sides = (0..sides as usize).map(|_| Held::from_numbers(device, &mut rest));
            state.held.push(sides.collect::<Result<_>>()?);
        }
        Ok(state)
    }
}

impl<D: Device> Default for PointState<D> {
    fn default() -> Self {
        Self { held: Vec::new(), last: None, trust: Trust::default() }
    }
}
