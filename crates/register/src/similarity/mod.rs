//! Similarities of two images, one file for each kind (mutual information and its normalised form share one).
//!
//! A similarity is a number that is minimised. Of few parameters, such as those of an affine map, it is a
//! [function of sums](OfSums) over the overlap, which comes with its derivative in these sums. Of
//! deformations it is an energy of two images on one grid with its derivative in every voxel
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
//! assert!(similarity.set("radius", "3")? && !similarity.set("bins", "32")?);
//! let written = serde_json::to_string(&similarity).unwrap();
//! assert_eq!(written, r#"{"name":"lncc","radius":3}"#);
//! assert_eq!(serde_json::from_str::<Similarity>(&written).unwrap(), similarity);
//! let ignored = r#"{"name":"ssd","radius":3}"#;
//! assert!(serde_json::from_str::<Similarity>(ignored).is_err());
//! # Ok::<(), voxalign_options::OptionError>(())
//! ```

mod cr;
mod energy;
mod information;
mod joint;
mod lncc;
mod mapped;
mod mind;
mod mutual_information;
mod ncc;
mod ssd;
mod sums;

use crate::error::{RegisterError, Result};
use serde::{Deserialize, Serialize};
use voxalign_compute::{Device, Dims};
use voxalign_options::{Choice, Parameters};

pub use cr::{Cr, correlation_ratio};
pub use energy::{Energies, PendingEnergies, PendingEnergy};
pub use information::entropies;
pub use lncc::Lncc;
pub use mapped::Mapped;
pub use mind::Mind;
pub use mutual_information::{Mi, Nmi, mutual_information, normalised_mutual_information};
pub use ncc::{Ncc, cross_correlation};
pub use ssd::{Ssd, squared_difference};
pub use sums::{CostAndDerivatives, Formula, OVERLAP_WANTED, OfSums, overlap_term};

/// Two images on one grid, calibrated to 0 to 1.
pub struct Images<'a, D: Device> {
    /// The one that the other is compared with.
    pub reference: &'a D::Buffer<f32>,
    /// The one in whose values derivatives are.
    pub moved: &'a D::Buffer<f32>,
    /// The weights of voxels.
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

/// The variance of calibrated intensities that counts as noise.
const NOISE: f64 = 1e-4;

/// What a kind of similarity implements.
pub trait Kind: Parameters {
    /// As a function of sums over an overlap, where it is one: for affine maps.
    fn of_sums(&self) -> Option<OfSums> {
        None
    }

    /// Whether it has an [energy](Self::energy): for deformations.
    fn has_energy(&self) -> bool {
        false
    }

    /// The second derivative of its energy in the value of a voxel of the moved image, times the number of voxels, where that is the
    /// same everywhere.
    fn curvature(&self) -> Option<f64> {
        None
    }

    /// Whether voxels that have left an image at a step, where this ends within the body, are left out at once where both images move (where
    /// one does, they always are), rather than when the next scale begins. What is beyond such an image is not known. A histogram
    /// takes it for background that goes well with anything dark, so that what is at the border is pulled out, faster and faster. Local
    /// correlation holds it there.
    fn leaves_out_what_left(&self) -> bool {
        true
    }

    /// The pressure, kPa, that its energy is multiplied by to move an [elastic body](crate::model::elastic) where nothing is said: one by which
    /// tissue of 1 kPa follows the edges of images between 0 and 1, and holds what is between them.
    fn pressure(&self) -> f64 {
        1.0
    }

    /// The images that it keeps in memory at most beside those that it is given: on a GPU, where these are more than on a CPU.
    fn temporaries(&self) -> u64 {
        // Windows and their sums, or shares of voxels in bins.
        6
    }

    /// The energy of two images; writes its derivative in every value of `moved`. Waits for nothing that it
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
        derivative: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy>
    where
        Self: Sized,
    {
        let _ = (device, images, derivative);
        Err(RegisterError::option(
            "similarity",
            std::any::type_name::<Self>().rsplit(':').next().unwrap_or_default().to_lowercase(),
            "it has no derivative in every voxel; it is for affine registration",
        ))
    }

    /// As [`energy`](Self::energy) of two images of which each is the other's reference: the derivative in the
    /// values of `moved`, that in those of the `reference`, and the mean of both energies.
    ///
    /// # Errors
    /// As there.
    fn energy_of_both<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        derivatives: [&mut D::Buffer<f32>; 2],
    ) -> Result<PendingEnergy>
    where
        Self: Sized,
    {
        let [of_moved, of_reference] = derivatives;
        let energy = self.energy(device, images, of_moved)?;
        Ok(energy.mean(self.energy(device, images.exchanged(), of_reference)?))
    }
}

/// Similarity measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Choice)]
#[serde(tag = "name", rename_all = "lowercase")]
#[choice(option = "similarity", heading = "Method", each = each_similarity)]
pub enum Similarity {
    /// Correlation ratio: same or different modalities.
    Cr(Cr),
    /// Mutual information: different modalities.
    Mi(Mi),
    /// Normalised mutual information: different modalities.
    Nmi(Nmi),
    /// Normalised cross correlation: same modality.
    Ncc(Ncc),
    /// Local normalised cross correlation.
    Lncc(Lncc),
    /// Neighbourhood descriptors, and local correlation of mapped intensities: different modalities.
    Mapped(Mapped),
    /// Modality-independent neighbourhood descriptors: different modalities.
    Mind(Mind),
    /// Mean squared difference: same modality and same intensity scale.
    Ssd(Ssd),
}

impl Similarity {
    /// [`Kind::energy`].
    ///
    /// # Errors
    /// As there.
    pub fn energy<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        gradient: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        each_similarity!(self, kind => kind.energy(device, images, gradient))
    }

    /// [`Kind::energy_of_both`].
    ///
    /// # Errors
    /// As there.
    pub fn energy_of_both<D: Device>(
        &self,
        device: &D,
        images: Images<'_, D>,
        gradients: [&mut D::Buffer<f32>; 2],
    ) -> Result<PendingEnergy> {
        each_similarity!(self, kind => kind.energy_of_both(device, images, gradients))
    }

    /// As a function of sums over an overlap, where it is one: for affine maps.
    #[must_use]
    pub fn of_sums(&self) -> Option<OfSums> {
        each_similarity!(self, kind => kind.of_sums())
    }

    /// Whether its sums are made by bins of the fixed image, in one of several
    /// [ways](voxalign_compute::ops::histogram::Scheme).
    #[must_use]
    pub fn takes_scheme(&self) -> bool {
        let of_sums = self.of_sums();
        of_sums.is_some_and(|s| !matches!(s.formula, Formula::Joint(_)))
    }

    /// Whether it has an energy with a derivative in every voxel: for deformations.
    #[must_use]
    pub fn has_energy(&self) -> bool {
        each_similarity!(self, kind => kind.has_energy())
    }

    /// [`Kind::leaves_out_what_left`].
    #[must_use]
    pub fn leaves_out_what_left(&self) -> bool {
        each_similarity!(self, kind => kind.leaves_out_what_left())
    }

    /// [`Kind::curvature`].
    #[must_use]
    pub fn curvature(&self) -> Option<f64> {
        each_similarity!(self, kind => kind.curvature())
    }

    /// [`Kind::temporaries`].
    #[must_use]
    pub fn temporaries(&self) -> u64 {
        each_similarity!(self, kind => kind.temporaries())
    }

    /// [`Kind::pressure`], kPa.
    #[must_use]
    pub fn pressure(&self) -> f64 {
        each_similarity!(self, kind => kind.pressure())
    }

    /// The same with this many bins, where it has a histogram.
    #[must_use]
    pub fn with_bins(mut self, bins: usize) -> Self {
        match &mut self {
            Self::Cr(Cr { bins: own })
            | Self::Mi(Mi { bins: own })
            | Self::Nmi(Nmi { bins: own }) => *own = bins,
            _ => {}
        }
        self
    }

    /// The bins of its histogram, where it has one.
    #[must_use]
    pub fn bins(&self) -> Option<usize> {
        match *self {
            Self::Cr(Cr { bins }) | Self::Mi(Mi { bins }) | Self::Nmi(Nmi { bins }) => Some(bins),
            _ => None,
        }
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
            for parameter in similarity.parameters() {
                let (mut other, name) = (*similarity, parameter.name);
                assert!(other.set(name, "0").unwrap() && other.get(name).unwrap() == "0");
                let said = other.check().unwrap_err().to_string();
                assert!(said.contains(name) && said.contains("from"), "{said}");
                assert!(other.set(name, &parameter.default).unwrap() && other == *similarity);
            }
        }
    }
}
