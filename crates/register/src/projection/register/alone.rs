//! Poses from single views: where they contradict each other, the geometry or the images are wrong.

use super::certainty;
use super::level::{Compared, Level};
use super::options::{PoseRange, PoseSearch};
use super::search::Search;
use crate::error::{RegisterError, Result};
use crate::search::Steps;
use crate::search::pose::{Freedom, Model, Pose};
use crate::search::stage::Stage;
use nalgebra::Matrix6;
use voxalign_compute::Device;
use voxalign_image::{Affine, Vector3};

impl<D: Device> Search<'_, '_, D> {
    /// The distance of the pose that each view alone leads to from the result, in the image of that view: the root
    /// mean square over the body, mm at the place of the CT; none for a single view. Each takes at most this many
    /// evaluations.
    pub(super) fn alone(
        &mut self,
        level: &Level<'_, D>,
        (model, best): (&Model, &Pose),
        (compared, evaluations): (Compared, usize),
    ) -> Result<Vec<f64>> {
        let count = level.count();
        if count < 2 {
            return Ok(Vec::new());
        }
        let here = model.affine(best);
        let mut all = Vec::with_capacity(count);
        for view in 0..count {
            let one = level.alone(view)?;
            let objective = one.objective(compared, &here)?;
            let steps = Steps {
                first: 0.25 * level.size,
                longest: 4.0 * level.size,
                tolerance: 5e-3 * level.size,
                improvement: 1e-8,
                evaluations,
            };
            let mut stage = Stage::new(model, self.options.optimiser, self.progress);
            let found = stage.refine(&objective, &[*best], Freedom::Rigid, steps)?;
            // A part of what all views take.
            self.evaluations += stage.evaluations.div_ceil(count);
            all.push(self.seen_each(&here, &model.affine(&found[0].pose))?[view]);
        }
        Ok(all)
    }

    /// The standard deviation of the image of the body in each view, mm at the place of the CT: the root mean square over it, by the
    /// covariance of the six numbers.
    pub(super) fn in_plane(
        &self,
        covariance: Option<&[[f64; 6]; 6]>,
        (model, best): (&Model, &Pose),
        centre: Vector3<f64>,
    ) -> Result<Vec<f64>> {
        let here = model.affine(best);
        let count = self.views.len();
        let Some(numbers) = covariance else { return Ok(vec![f64::INFINITY; count]) };
        let Some(back) = certainty::numbers(model, best, centre).try_inverse() else {
            return Ok(vec![f64::INFINITY; count]);
        };
        let found = (back * Matrix6::from(*numbers) * back.transpose()).symmetric_eigen();
        let mut squares = vec![0.0; count];
        for (i, &variance) in found.eigenvalues.iter().enumerate() {
            // Far along what images do not tell a step is no derivative.
            let way = found.eigenvectors.column(i) * STEP;
            let there = model.affine(&model.moved(best, Freedom::Rigid, way.as_slice()));
            for (sum, apart) in squares.iter_mut().zip(self.seen_each(&here, &there)?) {
                *sum += variance.max(0.0) * (apart / STEP).powi(2);
            }
        }
        Ok(squares.into_iter().map(f64::sqrt).collect())
    }

    /// The distance of the result from the start as a fraction of the search range; none where all rotations were
    /// searched, or the start alone.
    pub(super) fn beyond(&self, found: &Affine) -> Result<Option<f64>> {
        let options = self.options;
        if options.search == PoseSearch::Full || options.starts == 1 {
            return Ok(None);
        }
        let place = |map: &Affine| Ok::<_, RegisterError>(map.inverse()?.apply(self.ct.middle));
        let mut moved = place(found)? - place(&self.start)?;
        if let [view] = self.views {
            // A single view does not tell the depth.
            moved -= view.geometry.normal() * moved.dot(&view.geometry.normal());
        }
        let turn = self.start.matrix.transpose() * found.matrix;
        let angle = ((turn.trace() - 1.0) / 2.0).clamp(-1.0, 1.0).acos();
        let most = |range: f64, least: f64| 3f64.sqrt() * range.max(least);
        let near = PoseRange::default().radians();
        let parts = [
            moved.norm() / most(options.range.radians().translation, 0.25 * near.translation),
            angle / most(options.range.radians().rotation, 0.25 * near.rotation),
        ];
        Ok(Some(parts[0].max(parts[1])))
    }
}

/// A step that shifts images, mm.
const STEP: f64 = 0.01;
