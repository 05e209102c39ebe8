//! What keeps a flow from running away.
//!
//! A step along the force lowers the energy only as far as the force is its derivative. Where images of two kinds show
//! little, the smoothing of velocities and displacements, the domain of a histogram that goes stale and the noise lead
//! displacements astray: the energy rises a little with each of many iterations, and nothing brings it back. So the displacements
//! of the lowest energy of a scale are kept. Once the energy has risen above that by [`RISE`] of its fall, they are put back, and shorter
//! steps are made from there; every lower energy lengthens them again.
//!
//! The last steps of a scale are shorter as well, and of these and all others the displacements with the lowest energy that were kept are its
//! result: else it would end anywhere within the ripple of whole steps.
//!
//! Shorter steps smooth less, in proportion: else what remained after many of them would be what the smoothing of the total
//! displacement leaves, not what the images ask for.

use crate::error::Result;
use crate::similarity::PendingEnergies;
use voxalign_compute::{Device, DeviceBuffer};

/// The rise of the energy above the lowest at which displacements are put back, as a fraction of its fall at the scale. Less than
/// this is the ripple of steps of a fixed length around a minimum.
const RISE: f64 = 0.02;

/// The factor of steps after each of these and for the last ones of a scale, and after each lower energy that was kept, up to the whole step.
const LESS: f64 = 0.5;
const GROWTH: f64 = 1.2;

/// The number of the last, shorter steps of a scale.
const SETTLING: usize = 5;

/// Displacements are kept after so many steps at the earliest, as a copy and the wait for the energy take time.
const EVERY: usize = 5;

/// Keeps the displacements of the lowest energy of the only subject at a scale.
pub(super) struct Guard<D: Device> {
    /// Copies of them, one a side; none before the first step.
    kept: Vec<D::Buffer<f32>>,
    /// Their energy.
    least: f64,
    /// The energy at the beginning of the scale, and before the last step.
    first: f64,
    last: f64,
    /// The number of steps since displacements were kept or put back.
    since: usize,
    /// The length of steps as a fraction of the usual one, and the most that it may be.
    factor: f64,
    most: f64,
    /// Whether displacements were put back after the last step.
    is_back: bool,
}

impl<D: Device> Default for Guard<D> {
    fn default() -> Self {
        let (least, first, last) = (f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY);
        let (kept, since, is_back) = (Vec::new(), 0, false);
        Self { kept, least, first, last, since, factor: 1.0, most: 1.0, is_back }
    }
}

impl<D: Device> Guard<D> {
    /// The length of the next step as a fraction of the usual one.
    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    /// The energy of the displacements that were put back after the last step.
    pub(super) fn put_back(&self) -> Option<f64> {
        self.is_back.then_some(self.least)
    }

    /// Looks at displacements, one a side, before the step from them: where it is time, waits for their energy, and keeps
    /// them if that is the lowest so far.
    ///
    /// # Errors
    /// Memory that runs out; what failed on the device.
    pub(super) fn look<'f>(
        &mut self,
        device: &D,
        fields: impl IntoIterator<Item = &'f D::Buffer<f32>>,
        energies: PendingEnergies,
    ) -> Result<PendingEnergies>
    where
        D: 'f,
    {
        let begins = self.kept.is_empty();
        self.since += 1;
        self.is_back = false;
        if !begins && self.since < EVERY {
            return Ok(energies);
        }
        let (energies, total) = energies.known()?;
        if begins {
            self.first = total;
        } else if total < self.least {
            self.factor = (self.factor * GROWTH).min(self.most);
        }
        if begins || total < self.least {
            (self.least, self.since) = (total, 0);
            for (side, field) in fields.into_iter().enumerate() {
                if begins {
                    self.kept.push(device.alloc(field.len())?);
                }
                device.copy(field, &mut self.kept[side])?;
            }
        }
        Ok(energies)
    }

    /// Is told the energy before the last step once it is known: where that was too high, puts back what was kept.
    ///
    /// # Errors
    /// What failed on the device.
    pub(super) fn review<'f>(
        &mut self,
        device: &D,
        fields: impl IntoIterator<Item = &'f mut D::Buffer<f32>>,
        energy: f64,
    ) -> Result<()>
    where
        D: 'f,
    {
        self.last = energy;
        let most = self.least + RISE * (self.first - self.least);
        if !self.kept.is_empty() && energy > most {
            self.restore(device, fields)?;
            (self.since, self.factor) = (0, self.factor * LESS);
        }
        Ok(())
    }

    /// The number of steps with which a scale should end that are shorter than those before.
    pub(super) fn settling(&self) -> usize {
        if self.kept.is_empty() { 0 } else { SETTLING }
    }

    /// Those begin.
    pub(super) fn settle(&mut self) {
        self.most = LESS;
        self.factor = self.factor.min(self.most);
    }

    /// At the end of a scale, puts back what was kept where the energy was higher before the last step.
    ///
    /// # Errors
    /// What failed on the device.
    pub(super) fn end<'f>(
        &mut self,
        device: &D,
        fields: impl IntoIterator<Item = &'f mut D::Buffer<f32>>,
    ) -> Result<()>
    where
        D: 'f,
    {
        if !self.is_back && self.last > self.least { self.restore(device, fields) } else { Ok(()) }
    }

    fn restore<'f>(
        &mut self,
        device: &D,
        fields: impl IntoIterator<Item = &'f mut D::Buffer<f32>>,
    ) -> Result<()>
    where
        D: 'f,
    {
        for (kept, field) in self.kept.iter().zip(fields) {
            device.copy(kept, field)?;
        }
        self.is_back = true;
        Ok(())
    }
}
