//! Energies that may still be being computed on the device.

use crate::error::Result;
use voxalign_compute::Arriving;

/// An energy that the device may still be working on.
#[derive(Debug, Default)]
pub struct PendingEnergy {
    terms: Vec<Term>,
}

/// The contribution to an energy: `weight · value / divisor`, for the mean of the values. It does not depend on the
/// order of two.
#[derive(Debug)]
struct Term {
    values: Vec<Pending>,
    divisor: f64,
    weight: f64,
}

#[derive(Debug)]
enum Pending {
    Known(f64),
    Arriving(Arriving),
}

impl PendingEnergy {
    /// One that is known.
    #[must_use]
    pub fn known(value: f64) -> Self {
        Self::of(Pending::Known(value), 1.0)
    }

    /// One that is on its way, to be divided by a number.
    #[must_use]
    pub fn arriving(value: Arriving, divisor: f64) -> Self {
        Self::of(Pending::Arriving(value), divisor)
    }

    fn of(value: Pending, divisor: f64) -> Self {
        Self { terms: vec![Term { values: vec![value], divisor, weight: 1.0 }] }
    }

    /// The same times a factor.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        self.terms.iter_mut().for_each(|term| term.weight *= factor);
        self
    }

    /// Adds another one.
    pub fn add(&mut self, other: Self) {
        self.terms.extend(other.terms);
    }

    /// The mean of this one and another one of the same terms.
    #[must_use]
    pub fn mean(mut self, other: Self) -> Self {
        for (term, other) in self.terms.iter_mut().zip(other.terms) {
            term.values.extend(other.values);
        }
        self
    }

    /// The energy, once the device has it; work submitted to the device afterwards is not waited for.
    ///
    /// # Errors
    /// What failed on the device.
    pub fn wait(self) -> Result<f64> {
        let mut energy = 0.0;
        for term in self.terms {
            let (mut sum, count) = (0.0, term.values.len() as f64);
            for value in term.values {
                sum += match value {
                    Pending::Known(value) => value,
                    Pending::Arriving(value) => value.wait()?.first().copied().unwrap_or(f64::NAN),
                };
            }
            energy += term.weight * (sum / count / term.divisor);
        }
        Ok(energy)
    }
}

/// The energies of a step that a device may still be working on.
#[derive(Debug, Default)]
pub struct PendingEnergies {
    /// Of all images, with what else does not come from points.
    pub images: PendingEnergy,
    /// Whether there are images that pull.
    pub has_images: bool,
    /// Of each attachment of points, in their order, as they count in the total energy.
    pub points: Vec<PendingEnergy>,
}

impl PendingEnergies {
    /// Those of images and of each attachment of points, once the device has them.
    ///
    /// # Errors
    /// What failed on the device.
    pub(crate) fn values(self) -> Result<(f64, Vec<f64>)> {
        let points = self.points.into_iter().map(PendingEnergy::wait).collect::<Result<_>>()?;
        Ok((self.images.wait()?, points))
    }

    /// The same once they are known, with their sum.
    ///
    /// # Errors
    /// What failed on the device.
    pub fn known(self) -> Result<(Self, f64)> {
        let has_images = self.has_images;
        let (images, points) = self.values()?;
        let total = images + points.iter().sum::<f64>();
        let points = points.into_iter().map(PendingEnergy::known).collect();
        Ok((Self { images: PendingEnergy::known(images), has_images, points }, total))
    }

    /// The energies, once the device has them.
    ///
    /// # Errors
    /// What failed on the device.
    pub fn wait(self) -> Result<Energies> {
        let has_images = self.has_images;
        let (images, points) = self.values()?;
        let total = images + points.iter().sum::<f64>();
        let mut parts = Vec::new();
        if !points.is_empty() {
            parts.extend(Some(images).filter(|_| has_images));
            parts.extend(points);
        }
        Ok(Energies { total, parts })
    }
}

/// The energies of a step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Energies {
    /// Their sum.
    pub total: f64,
    /// Where points pull, the parts that each have to come to rest: that of all images, where some pull, and that of each
    /// attachment of points.
    pub parts: Vec<f64>,
}

impl From<f64> for Energies {
    fn from(total: f64) -> Self {
        Self { total, parts: Vec::new() }
    }
}
