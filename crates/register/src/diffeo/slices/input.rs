//! The images of a registration of slices with a volume.

use super::super::input::Intensities;
use super::super::register::{check_affine, check_similarity};
use crate::error::{RegisterError, Result, Role, check_grid};
use crate::similarity::Similarity;
use rayon::prelude::*;
use voxalign_image::{Affine, ImageView};
use voxalign_options::Choice;

/// A slice with its place in the fixed world.
#[derive(Debug, Clone, Copy)]
pub struct SliceInput<'a> {
    /// The slice: exactly one dimension of its grid, whichever, is 1. The spacing along that is not looked at.
    pub image: ImageView<'a>,
    /// How much its pixels count, on its grid: from 0, not at all, to 1. What is beyond that counts as the nearer of these. All count without.
    pub weights: Option<ImageView<'a>>,
}

impl<'a> SliceInput<'a> {
    /// A slice of which all pixels count.
    #[must_use]
    pub fn new(image: impl Into<ImageView<'a>>) -> Self {
        Self { image: image.into(), weights: None }
    }

    /// The same with weights.
    #[must_use]
    pub fn weighted(self, weights: impl Into<ImageView<'a>>) -> Self {
        Self { weights: Some(weights.into()), ..self }
    }
}

/// Slices, and the volume that is brought to them.
#[derive(Debug, Clone)]
pub struct SlicesInput<'a> {
    /// The slices, at least one. Their intensities mean the same in all of them: they are calibrated, and compared with the volume, together.
    pub slices: Vec<SliceInput<'a>>,
    /// The volume that is moved.
    pub moving: ImageView<'a>,
    /// Voxels of the volume that count (above 0), on its grid.
    pub moving_mask: Option<ImageView<'a>>,
    /// How they are compared, by a similarity with an [energy](Similarity::has_energy) that does not look at neighbouring voxels.
    pub similarity: Similarity,
    /// Preprocessing of intensities.
    pub intensities: Intensities,
    /// From the world of the slices to that of the volume, as it is at rest; usually rigid.
    pub affine: Affine,
}

impl<'a> SlicesInput<'a> {
    /// Slices and a volume in one world, all of which counts.
    #[must_use]
    pub fn new(
        slices: Vec<SliceInput<'a>>,
        moving: impl Into<ImageView<'a>>,
        similarity: Similarity,
    ) -> Self {
        let (moving, intensities, moving_mask) = (moving.into(), Intensities::default(), None);
        Self { slices, moving, moving_mask, similarity, intensities, affine: Affine::identity() }
    }

    /// Refuses what cannot be registered. Slices are counted from 1 in what is said.
    ///
    /// # Errors
    /// [`RegisterError::Option`] for no slices; [`RegisterError::Slice`] for one whose grid has another number of dimensions of 1 than one, one with values that are not numbers or,
    /// where intensities are calibrated, with one value everywhere, and weights that do not fit their slice; [`RegisterError::Option`] for a moving image that is not a volume, and a
    /// similarity or an affine map that does not serve; [`RegisterError::MaskGrid`] for a mask that does not fit the volume.
    pub fn check(&self) -> Result<()> {
        if self.slices.is_empty() {
            let remedy = "give at least one image that is one pixel thick";
            return Err(RegisterError::option("slice", "none", remedy));
        }
        if matches!(self.similarity, Similarity::Lncc(_)) {
            let remedy = "it compares neighbouring voxels, which slices do not have across; give ssd, mi or nmi";
            return Err(RegisterError::option("similarity", self.similarity.name(), remedy));
        }
        check_similarity(&self.similarity)?;
        check_affine(&self.affine)?;
        let dims = self.moving.dims();
        if dims.contains(&1) {
            let remedy = "it has to be a volume; the slices are the fixed images";
            return Err(RegisterError::option("moving", sizes(dims), remedy));
        }
        if let Some(mask) = self.moving_mask {
            check_grid(Role::MovingMask, mask, self.moving.grid())?;
        }
        (0..self.slices.len()).try_for_each(|number| self.check_slice(number))
    }

    fn check_slice(&self, number: usize) -> Result<()> {
        let SliceInput { image, weights } = self.slices[number];
        let refuse = |what: String, remedy: &str| {
            let (of, what) = (self.slices.len(), format!(" {what}"));
            Err(RegisterError::Slice { number, of, what, remedy: remedy.to_owned() })
        };
        let flat = image.dims().iter().filter(|&&n| n == 1).count();
        if flat != 1 {
            let remedy = "exactly one dimension has to be 1; cut other images into slices";
            return refuse(format!("of {}", sizes(image.dims())), remedy);
        }
        let bad = image.data().par_iter().filter(|v| !v.is_finite()).count();
        if bad > 0 {
            let remedy = "fill them in, or give it weights and numbers there";
            return refuse(format!("with {bad} values that are NaN or infinite"), remedy);
        }
        let first = image.data()[0];
        let constant = image.data().par_iter().all(|v| *v == first);
        if constant && self.intensities == Intensities::Calibrated {
            let remedy = "there is nothing to align in it; leave it out";
            return refuse(format!("that is {first} everywhere"), remedy);
        }
        let Some(weights) = weights else { return Ok(()) };
        if check_grid(Role::FixedWeight, weights, image.grid()).is_err() {
            let what = format!("of {} with weights on {}", image.grid(), weights.grid());
            return refuse(what, "give weights on the grid of their slice");
        }
        let bad = weights.data().par_iter().filter(|v| !v.is_finite()).count();
        if bad > 0 {
            let what = format!("with {bad} weights that are NaN or infinite");
            return refuse(what, "give numbers from 0 to 1");
        }
        Ok(())
    }
}

fn sizes([nx, ny, nz]: [usize; 3]) -> String {
    format!("{nx} x {ny} x {nz} voxels")
}
