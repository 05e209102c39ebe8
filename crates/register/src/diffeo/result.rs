//! The result of a deformable registration.

use super::clip::IndexBox;
use crate::measures::FieldMeasures;
use crate::model::PathRecord;
use crate::multiscale::ScaleRecord;
use crate::verdict::Verdict;
use voxalign_image::{Affine, Displacement, Transform, VectorField, Volume};

/// The result of a deformable registration.
///
/// The fixed point `x` goes to the moving point `A(x + u(x))`, the moving point `y` back to
/// `p + w(p)` with `p = A⁻¹ y`, RAS+ mm. Both fields are on the grid of the fixed image, but for those of the symmetric model where slices
/// are thick: there they have several voxels along each (the same field of view, with each slice divided). As
/// [transforms](Self::transform) they are interpolated linearly, and zero outside of their grid.
#[derive(Debug, Clone, PartialEq)]
pub struct DeformResult {
    /// The displacement `u`, mm.
    pub forward: VectorField,
    /// The displacement `w` that takes it back, mm, on the same grid.
    pub inverse: VectorField,
    /// The affine map `A` that the deformation started from, fixed world to moving world.
    pub affine: Affine,
    /// The determinant of the Jacobian of `x + u(x)` on the same grid.
    pub jacobian: Volume<f32>,
    /// Numbers of the fields.
    pub measures: FieldMeasures,
    /// The scales, coarse to fine.
    pub scales: Vec<ScaleRecord>,
    /// The path, of an LDDMM registration.
    pub path: Option<PathRecord>,
    /// The values that the foregrounds of the fixed and of the moving image of the first channel are above; none of an image
    /// that is constant.
    pub foreground: [Option<f32>; 2],
    /// The part of the fixed grid that was registered.
    pub clipped: IndexBox,
    /// Voxels that were smoothed at the end, near extreme changes of volume and where the inverse missed too far, summed over rounds.
    pub mended: usize,
    /// The verdict.
    pub verdict: Verdict,
}

impl DeformResult {
    /// Fixed world to moving world.
    #[must_use]
    pub fn transform(&self) -> Transform {
        let warp = Transform::Displacement(Displacement::new(self.forward.clone()));
        Transform::Composite(vec![warp, Transform::Affine(self.affine)])
    }

    /// Moving world to fixed world.
    ///
    /// # Errors
    /// An affine map without an inverse.
    pub fn inverse_transform(&self) -> crate::Result<Transform> {
        let warp = Transform::Displacement(Displacement::new(self.inverse.clone()));
        Ok(Transform::Composite(vec![Transform::Affine(self.affine.inverse()?), warp]))
    }
}
