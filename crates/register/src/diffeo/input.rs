//! The images of a deformable registration.

use crate::attachment::Landmarks;
use crate::attachment::currents::{Shape, ShapeOptions};
use crate::similarity::Similarity;
use std::sync::Arc;
use voxalign_image::{Affine, ImageView};
use voxalign_options::Parameters;

/// Preprocessing of the intensities of a pair before they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Intensities {
    /// Each image is [calibrated](super::calibrate): its background becomes 0, its brightest tissue 1.
    #[default]
    Calibrated,
    /// They are compared as they are: of probabilities, whose numbers mean the same in both images. Beyond the moving image
    /// is 0, and images may be constant.
    AsTheyAre,
}

/// A pair of images that take part with a similarity of their own.
#[derive(Debug, Clone, Copy)]
pub struct ChannelInput<'a> {
    /// The image that stays. All fixed images of a registration are on one grid.
    pub fixed: ImageView<'a>,
    /// The image that is moved.
    pub moving: ImageView<'a>,
    /// How they are compared, by a similarity with an [energy](Similarity::has_energy).
    pub similarity: Similarity,
    /// The factor of its energy, above 0; 0 where the pair only defines where the images are, and other channels,
    /// [landmarks](DeformInput::landmarks) or [shapes](DeformInput::shapes) drive the deformation.
    pub weight: f64,
    /// Preprocessing of intensities.
    pub intensities: Intensities,
}

impl<'a> ChannelInput<'a> {
    /// A pair of images with a similarity, of which the energy counts as it is.
    #[must_use]
    pub fn new(
        fixed: impl Into<ImageView<'a>>,
        moving: impl Into<ImageView<'a>>,
        similarity: Similarity,
    ) -> Self {
        let (fixed, moving, intensities) = (fixed.into(), moving.into(), Intensities::default());
        Self { fixed, moving, similarity, weight: 1.0, intensities }
    }
}

/// A pair of shapes that pull at each other, without correspondence of their points.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapeInput {
    /// The one that stays, in the fixed world, mm.
    pub fixed: Arc<Shape>,
    /// The shape that it is matched to, in the moving world, mm, with the same kind of elements.
    pub moving: Arc<Shape>,
    /// How they are compared.
    pub options: ShapeOptions,
}

/// Preprocessing of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Parameters)]
pub struct Preparation {
    /// Match the histogram of each moving image to that of its fixed one first
    #[parameter(default = false, heading = "Method")]
    pub histogram_match: bool,
    /// Compute on all of both images, not only around the part of the body that both show
    #[parameter(default = true, heading = "Method")]
    pub clip: bool,
}

/// The images of a deformable registration, and what else pulls.
#[derive(Debug, Clone)]
pub struct DeformInput<'a> {
    /// Pairs of images, at least one.
    pub channels: Vec<ChannelInput<'a>>,
    /// Voxels of the fixed image that count (above 0), on its grid.
    pub fixed_mask: Option<ImageView<'a>>,
    /// Voxels of the moving image that count (above 0), on the grid of the first moving image; what
    /// is outside, such as a lesion, drives nothing, and is carried along by what is around it.
    pub moving_mask: Option<ImageView<'a>>,
    /// Corresponding points that pull as well.
    pub landmarks: Option<Landmarks>,
    /// Surfaces, curves and points without correspondence that pull as well.
    pub shapes: Vec<ShapeInput>,
    /// Where the deformation starts: fixed world to moving world.
    pub affine: Affine,
    /// Preprocessing of the images.
    pub preparation: Preparation,
}

impl<'a> DeformInput<'a> {
    /// One pair of images of which all voxels count, from an affine map on.
    #[must_use]
    pub fn new(
        fixed: impl Into<ImageView<'a>>,
        moving: impl Into<ImageView<'a>>,
        similarity: Similarity,
        affine: Affine,
    ) -> Self {
        let channels = vec![ChannelInput::new(fixed, moving, similarity)];
        let (landmarks, shapes, preparation) = (None, Vec::new(), Preparation::default());
        let (fixed_mask, moving_mask) = (None, None);
        Self { channels, fixed_mask, moving_mask, landmarks, shapes, affine, preparation }
    }
}
