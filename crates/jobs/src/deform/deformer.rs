//! What deforms one image to another after the affine part.

use voxalign_compute::select::AnyDevice;
use voxalign_image::Affine;
use voxalign_register::Result;
use voxalign_register::diffeo::{
    DeformInput, DeformResult, ElasticSetting, Greedy, Matching, check_start, register_deformable,
    register_elastic,
};
use voxalign_register::model::elastic::ElasticResult;
use voxalign_register::progress::Progress;

/// What deforms one image to another, once the affine part is known.
pub(crate) trait Deformer {
    /// What it finds beside fields.
    type Extra;

    /// Whether it can start from an affine map.
    fn check_start(&self, start: &Affine) -> Result<()>;

    /// What the similarity is multiplied by in the energy that is shown.
    fn similarity_weight(&self) -> f64;

    /// Whether its fields have several voxels in a thick slice.
    fn divides_slices(&self) -> bool;

    /// Deforms the moving image to the fixed one.
    fn deform(
        &self,
        device: &AnyDevice,
        input: &DeformInput<'_>,
        progress: &dyn Progress,
    ) -> Result<(DeformResult, Self::Extra)>;
}

impl Deformer for Matching {
    type Extra = ();

    fn check_start(&self, start: &Affine) -> Result<()> {
        check_start(start, self.model)
    }

    fn similarity_weight(&self) -> f64 {
        self.model.similarity_weight()
    }

    fn divides_slices(&self) -> bool {
        self.model.meets_half_way()
    }

    fn deform(
        &self,
        device: &AnyDevice,
        input: &DeformInput<'_>,
        progress: &dyn Progress,
    ) -> Result<(DeformResult, ())> {
        Ok((register_deformable(device, input, self, progress)?, ()))
    }
}

/// A body in the fixed world, which images move.
impl Deformer for ElasticSetting {
    type Extra = ElasticResult;

    fn check_start(&self, start: &Affine) -> Result<()> {
        // As for a model that asks nothing more of it than all do.
        check_start(start, Greedy::USUAL.into())
    }

    fn similarity_weight(&self) -> f64 {
        1.0
    }

    fn divides_slices(&self) -> bool {
        false
    }

    fn deform(
        &self,
        device: &AnyDevice,
        input: &DeformInput<'_>,
        progress: &dyn Progress,
    ) -> Result<(DeformResult, ElasticResult)> {
        register_elastic(device, input, self, progress)
    }
}
