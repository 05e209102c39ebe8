//! Similarities: how alike two images are, one file a kind.
//!
//! A similarity is a number that is minimised. Of few parameters, such as those of an affine map, it is a
//! [function of sums](OfSums) over the overlap, which comes with its derivative in these sums. Of
//! deformations it is an energy of two images on one grid with its slope in every voxel
//! ([`Kind::energy`]). A kind gives one or both; names, parameters and formulas are the same in both.
//!
//! A [`Similarity`] carries its own parameters:
//!
//! ```
//! use voxalign_register::similarity::{Lncc, Similarity};
//! use voxalign_register::Choice;
//!
//! let mut similarity = Similarity::named("lncc").unwrap();
//! assert_eq!(similarity, Similarity::Lncc(Lncc::default()));
//! assert!(similarity.set("radius", 3) && !similarity.set("bins", 32));
//! let written = serde_json::to_string(&similarity).unwrap();
//! assert_eq!(written, r#"{"name":"lncc","radius":3}"#);
//! assert_eq!(serde_json::from_str::<Similarity>(&written).unwrap(), similarity);
//! let ignored = r#"{"name":"ssd","radius":3}"#;
//! assert!(serde_json::from_str::<Similarity>(ignored).is_err());
//! ```

mod cr;
mod energy;
mod information;
mod joint;
mod lncc;
mod mi;
mod ncc;
mod nmi;
mod ssd;
mod sums;

use crate::choice::Choice;
use crate::error::{RegisterError, Result};
use serde::{Deserialize, Serialize};
use voxalign_compute::{Device, Dims};

pub use cr::{Cr, correlation_ratio};
pub use energy::{Energies, PendingEnergies, PendingEnergy};
pub use information::entropies;
pub use lncc::Lncc;
pub use mi::{Mi, mutual_information};
pub use ncc::{Ncc, cross_correlation};
pub use nmi::{Nmi, normalised_mutual_information};
pub use ssd::{Ssd, squared_difference};
pub use sums::{CostAndSlopes, Formula, OVERLAP_WANTED, OfSums, overlap_term};

/// A number that a similarity can be told.
#[derive(Debug)]
pub struct Parameter<'a> {
    /// Its name at the command line and in records.
    pub name: &'static str,
    /// Its value.
    pub value: &'a mut usize,
    /// The values that it may have.
    pub range: std::ops::RangeInclusive<usize>,
    /// What is counted, as in `give a number of bins from 4 to 512`.
    pub what: &'static str,
}

/// Two images on one grid, calibrated to 0 to 1.
pub struct Images<'a, D: Device> {
    /// The one that the other is compared with.
    pub reference: &'a D::Buffer<f32>,
    /// The one in whose values slopes are.
    pub moved: &'a D::Buffer<f32>,
    /// What voxels count.
    pub weights: Option<&'a D::Buffer<f32>>,
    /// Sizes of the grid; along an axis of size 1 windows have no width.
    pub dims: Dims,
    /// Whether the reference is warped from iteration to iteration as well. Then joint histograms have
    /// continuous windows along both axes: values that jump from bin to bin would let the force jump.
    pub reference_moves: bool,
}

impl<D: Device> Clone for Images<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for Images<'_, D> {}

impl<D: Device> Images<'_, D> {
    /// The same with the images exchanged.
    #[must_use]
    pub fn exchanged(self) -> Self {
        Self { reference: self.moved, moved: self.reference, ..self }
    }
}

/// What a kind of similarity is.
pub trait Kind {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What it is, in one line.
    fn summary(&self) -> &'static str;

    /// The numbers that it can be told.
    fn parameters(&mut self) -> Vec<Parameter<'_>> {
        Vec::new()
    }

    /// As a function of sums over an overlap, where it is one: for affine maps.
    fn of_sums(&self) -> Option<OfSums> {
        None
    }

    /// Whether it has an [energy](Self::energy): for deformations.
    fn has_energy(&self) -> bool {
        false
    }

    /// The energy of two images; writes its slope in every value of `moved`. Waits for nothing that it
    /// need not wait for.
    ///
    /// # Errors
    /// Wrong lengths; weights that are negative, or zero everywhere, where the similarity refuses them
    /// (for [`Ssd`] these make an energy that is not a number); what fails on the device; a similarity that
    /// has no energy.
    fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        slope: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy>
    where
        Self: Sized,
    {
        let _ = (device, images, slope);
        Err(RegisterError::Option {
            option: "similarity",
            value: self.name().to_owned(),
            remedy: "it has no slope in every voxel; it is for affine registration".to_owned(),
        })
    }

    /// As [`energy`](Self::energy) of two images of which each is the other's reference: the slope in the
    /// values of `moved`, that in those of the `reference`, and the mean of both energies.
    ///
    /// # Errors
    /// As there.
    fn energy_of_both<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        slopes: [&mut D::Buffer<f32>; 2],
    ) -> Result<PendingEnergy>
    where
        Self: Sized,
    {
        let [of_moved, of_reference] = slopes;
        let energy = self.energy(device, images, of_moved)?;
        Ok(energy.mean(self.energy(device, images.exchanged(), of_reference)?))
    }
}

/// Makes the enumeration of the kinds, in the order in which they are listed.
macro_rules! similarities {
    ($($Kind:ident $USUAL:ident),+ $(,)?) => {
        /// A similarity with its parameters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(tag = "name", rename_all = "lowercase")]
        #[allow(missing_docs)] // The kinds say what they are.
        pub enum Similarity {
            $($Kind($Kind)),+
        }

        $(impl From<$Kind> for Similarity {
            fn from(kind: $Kind) -> Self {
                Self::$Kind(kind)
            }
        })+

        impl Choice for Similarity {
            /// The kinds with their usual parameters.
            const ALL: &'static [Self] = &[$(Self::$USUAL),+];

            fn name(self) -> &'static str {
                self.kind().name()
            }

            fn summary(self) -> &'static str {
                self.kind().summary()
            }
        }

        impl Similarity {
            $(
                /// With the usual parameters.
                pub const $USUAL: Self = Self::$Kind($Kind::USUAL);
            )+

            fn kind(&self) -> &dyn Kind {
                match self {
                    $(Self::$Kind(kind) => kind),+
                }
            }

            fn kind_mut(&mut self) -> &mut dyn Kind {
                match self {
                    $(Self::$Kind(kind) => kind),+
                }
            }

            /// [`Kind::energy`].
            ///
            /// # Errors
            /// As there.
            pub fn energy<D: Device>(
                &self,
                device: &D,
                images: Images<'_, D>,
                slope: &mut D::Buffer<f32>,
            ) -> Result<PendingEnergy> {
                match self {
                    $(Self::$Kind(kind) => kind.energy(device, images, slope)),+
                }
            }

            /// [`Kind::energy_of_both`].
            ///
            /// # Errors
            /// As there.
            pub fn energy_of_both<D: Device>(
                &self,
                device: &D,
                images: Images<'_, D>,
                slopes: [&mut D::Buffer<f32>; 2],
            ) -> Result<PendingEnergy> {
                match self {
                    $(Self::$Kind(kind) => kind.energy_of_both(device, images, slopes)),+
                }
            }
        }
    };
}

similarities! { Cr CR, Mi MI, Nmi NMI, Ncc NCC, Lncc LNCC, Ssd SSD }

impl Similarity {
    /// As a function of sums over an overlap, where it is one: for affine maps.
    #[must_use]
    pub fn of_sums(&self) -> Option<OfSums> {
        self.kind().of_sums()
    }

    /// Whether its sums are made by bins of the fixed image, in one of several
    /// [ways](voxalign_compute::ops::histogram::Scheme).
    #[must_use]
    pub fn takes_scheme(&self) -> bool {
        let of_sums = self.of_sums();
        of_sums.is_some_and(|s| !matches!(s.formula, Formula::Joint(_)))
    }

    /// Whether it has an energy with a slope in every voxel: for deformations.
    #[must_use]
    pub fn has_energy(&self) -> bool {
        self.kind().has_energy()
    }

    /// The names and values of its parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(&'static str, usize)> {
        let mut copy = *self;
        copy.kind_mut().parameters().iter().map(|p| (p.name, *p.value)).collect()
    }

    /// The value of a parameter, if it has that one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<usize> {
        self.parameters().into_iter().find(|p| p.0 == name).map(|p| p.1)
    }

    /// Sets a parameter; whether it has one of that name.
    pub fn set(&mut self, name: &str, value: usize) -> bool {
        let mut all = self.kind_mut().parameters();
        let found = all.iter_mut().find(|p| p.name == name);
        found.map(|p| *p.value = value).is_some()
    }

    /// Checks the values of all parameters.
    ///
    /// # Errors
    /// [`RegisterError::Option`] for one out of its range, with what can be given.
    pub fn check(&self) -> Result<()> {
        let mut copy = *self;
        for p in copy.kind_mut().parameters() {
            if !p.range.contains(p.value) {
                let (low, high) = (p.range.start(), p.range.end());
                return Err(RegisterError::Option {
                    option: p.name,
                    value: p.value.to_string(),
                    remedy: format!("give a {} from {low} to {high}", p.what),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_serves_something_and_its_usual_parameters_are_good() {
        for similarity in Similarity::ALL {
            assert!(similarity.of_sums().is_some() || similarity.has_energy(), "{similarity:?}");
            similarity.check().unwrap();
            for (name, value) in similarity.parameters() {
                let mut other = *similarity;
                assert!(other.set(name, 0) && other.get(name) == Some(0));
                let said = other.check().unwrap_err().to_string();
                assert!(said.contains(name) && said.contains("from"), "{said}");
                assert!(other.set(name, value) && other == *similarity);
            }
        }
    }
}
