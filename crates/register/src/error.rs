//! The errors of this crate.

use crate::compare::{CompareError, same_grid};
use std::fmt::{self, Display, Formatter};
use thiserror::Error;
use voxalign_compute::comm::CommError;
use voxalign_compute::error::ComputeError;
use voxalign_elasticity::ElasticityError;
use voxalign_image::memory::OutOfMemory;
use voxalign_image::{Grid, ImageError, ImageView};
use voxalign_options::OptionError;

/// The role of an image in a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The image that stays.
    Fixed,
    /// The image that is aligned with it.
    Moving,
    /// The mask of the fixed image.
    FixedMask,
    /// The mask of the moving image.
    MovingMask,
    /// The weights of the voxels of the fixed image.
    FixedWeight,
    /// The fixed image of a further channel.
    FixedChannel,
    /// An image of a population.
    Subject,
    /// The CT that X-ray images are simulated of.
    Ct,
    /// An X-ray image.
    Xray,
}

impl Role {
    /// The mask that goes with an image.
    pub(crate) fn mask(self) -> Self {
        if self == Self::Moving { Self::MovingMask } else { Self::FixedMask }
    }
}

impl Display for Role {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed => "fixed",
            Self::Moving => "moving",
            Self::FixedMask => "fixed mask",
            Self::MovingMask => "moving mask",
            Self::FixedWeight => "fixed weight",
            Self::FixedChannel => "fixed image of a further channel",
            Self::Subject => "subject's",
            Self::Ct => "CT",
            Self::Xray => "X-ray",
        })
    }
}

/// Errors of registrations.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Geometry that cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// An operator failed.
    #[error(transparent)]
    Compute(#[from] ComputeError),
    /// Ranks cannot go on together.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Images or label maps cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// An elastic body cannot be made, or cannot move.
    #[error(transparent)]
    Elasticity(#[from] ElasticityError),
    /// An option has a value that cannot be used.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// An image holds one value everywhere (inside its mask).
    #[error(
        "the {role} image is constant ({value} everywhere{within}), so there is nothing to align; check that it \
         is the right image"
    )]
    Constant {
        /// Which image.
        role: Role,
        /// The value.
        value: f32,
        /// ` inside its mask` where there is one, else nothing.
        within: &'static str,
    },
    /// An image holds values that are not numbers.
    #[error(
        "the {role} image has {count} voxel{} NaN or infinite",
        if *.count == 1 { " that is" } else { "s that are" }
    )]
    NotFinite {
        /// Which image.
        role: Role,
        /// The number of voxels.
        count: usize,
    },
    /// A mask or weight selects nothing.
    #[error("the {role} selects no voxel; at least some of its values must be above 0")]
    EmptyMask {
        /// Which mask.
        role: Role,
    },
    /// Masks of both images, or a mask and the fields of view, share nothing.
    #[error(
        "the masks of the two images have no voxel in common where the deformation starts; check the masks \
         (voxels above 0 count) and the affine part"
    )]
    NothingCounts,
    /// X-ray images that show nothing of the CT.
    #[error(
        "no view sees the CT anywhere in the search range; check the geometry of the views and the start of the search"
    )]
    NothingSeen,
    /// Two images that must share a grid do not.
    #[error("the {role} is not on the grid of its image: the {role} has {mask}, the image {image}")]
    MaskGrid {
        /// Which mask.
        role: Role,
        /// A description of its grid.
        mask: String,
        /// A description of the image's grid.
        image: String,
    },
    /// Blocks of an image that cannot be read, in the words of what reads them.
    #[error("{0}")]
    Unreadable(Box<dyn std::error::Error + Send + Sync>),
    /// One image is flat, the other has depth.
    #[error(
        "the fixed image is {fixed}D and the moving image is {moving}D; both must be 2D or both 3D"
    )]
    Dimensions {
        /// 2 or 3.
        fixed: usize,
        /// 2 or 3.
        moving: usize,
    },
    /// The two images do not overlap where the search starts.
    #[error("the images do not overlap at the start ({start})")]
    NoOverlap {
        /// A description of the start.
        start: String,
    },
    /// The images are too small for a registration.
    #[error(
        "the {role} image has only {samples} voxel{} that count{}; registration needs at least \
         {needed}",
        if *.samples == 1 { "" } else { "s" },
        if *.samples == 1 { "s" } else { "" }
    )]
    TooFew {
        /// Which image.
        role: Role,
        /// Voxels.
        samples: usize,
        /// Voxels needed.
        needed: usize,
    },
    /// The image is one voxel thick along another axis than the last.
    #[error(
        "the {role} image of {dims:?} voxels is one voxel thick along {axis}; a 2D image must have \
         z as its flat axis: reorder its axes first"
    )]
    FlatAxis {
        /// Which image.
        role: Role,
        /// `x` or `y`.
        axis: char,
        /// Sizes along x, y, z.
        dims: [usize; 3],
    },
    /// A slice that cannot be used; `what` goes on after its number.
    #[error("slice {} of {of}{what}; {remedy}", number + 1)]
    Slice {
        /// Which one, from 0.
        number: usize,
        /// How many there are.
        of: usize,
        /// What is wrong with it.
        what: String,
        /// What helps.
        remedy: String,
    },
    /// The energy became infinite or not a number.
    #[error(
        "the energy is no longer a finite number after iteration {iteration} at scale 1/{factor}: \
         the deformation diverged"
    )]
    Diverged {
        /// Factor of the scale.
        factor: usize,
        /// Iterations made at it.
        iteration: usize,
    },
    /// The run was stopped by the caller.
    #[error("the registration was stopped before it finished")]
    Stopped,
}

impl From<OutOfMemory> for RegisterError {
    fn from(refused: OutOfMemory) -> Self {
        Self::Image(refused.into())
    }
}

impl RegisterError {
    /// An option with a value that it cannot have.
    pub fn option(name: &'static str, value: impl ToString, remedy: impl Into<String>) -> Self {
        Self::Option(OptionError::value(name, value, remedy))
    }

    /// Whether the cause is images that cannot be registered: with the same images and options the error is the
    /// same on every machine, at any time.
    #[must_use]
    pub fn is_of_images(&self) -> bool {
        let apart =
            matches!(self, Self::NoOverlap { .. } | Self::NothingCounts | Self::Dimensions { .. });
        apart || self.role().is_some()
    }

    /// The image that it is about, where it is about one.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        match self {
            Self::Constant { role, .. }
            | Self::NotFinite { role, .. }
            | Self::EmptyMask { role }
            | Self::MaskGrid { role, .. }
            | Self::TooFew { role, .. }
            | Self::FlatAxis { role, .. } => Some(*role),
            _ => None,
        }
    }
}

/// Result with [`RegisterError`].
pub type Result<T, E = RegisterError> = std::result::Result<T, E>;

/// Checks that a mask, or another image that goes with one on `grid`, is on that grid.
pub(crate) fn check_grid(role: Role, mask: ImageView<'_>, grid: &Grid) -> Result<()> {
    same_grid(mask.grid(), grid).map_err(|_| RegisterError::MaskGrid {
        role,
        mask: mask.grid().to_string(),
        image: grid.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_voxel_is_no_plural() {
        let said =
            |samples| RegisterError::TooFew { role: Role::Fixed, samples, needed: 16 }.to_string();
        assert!(said(1).contains("only 1 voxel that counts;"), "{}", said(1));
        assert!(said(2).contains("only 2 voxels that count;"), "{}", said(2));
    }
}
