//! Tests of whether the images fit better mirrored or swapped.

use super::level::{Compared, Level, Suspect};
use super::options::PoseRange;
use super::search::{Search, look, steps};
use crate::error::Result;
use crate::search::pose::{Freedom, Pose};
use crate::search::stage::Stage;
use voxalign_compute::Device;

/// Poses that are tried around the start and around the result, those that are refined at each scale, and the
/// largest number of suspicions.
const LOOKED: [usize; 2] = [64, 16];
const REFINED: [usize; 3] = [4, 2, 1];
const MOST: usize = 6;

/// The possible mix-ups of this many views.
fn suspects(views: usize) -> Vec<Suspect> {
    let mut all: Vec<_> = (0..views).map(Suspect::Mirrored).collect();
    if views > 1 {
        all.push(Suspect::AllMirrored);
        all.extend((1..views).map(|view| Suspect::Exchanged(view - 1, view)));
    }
    all.truncate(MOST);
    all
}

impl<D: Device> Search<'_, '_, D> {
    /// The images that fit better than the given ones, and the gain as a fraction of the cost; none where none do.
    pub(super) fn suspect(
        &mut self,
        levels: &[Level<'_, D>],
        best: &Pose,
    ) -> Result<Option<(Suspect, f64)>> {
        let Some(last) = levels.last() else { return Ok(None) };
        let options = self.options;
        let seed = options.seed.wrapping_add(4000);
        let (range, start) = (options.range.radians(), self.model.pose_of(&self.start));
        let near = PoseRange::default().radians();
        let mut poses = self.around(start, range, LOOKED[0], seed);
        poses.extend(self.around(*best, near, LOOKED[1], seed.wrapping_add(1)));
        let compared = Compared { anew: false, ..Compared::by(options, seed) };
        let at = self.model.affine(best);
        let (model, objective) = (self.model, last.objective(compared, &at)?);
        let mut stage = Stage::new(&model, options.optimiser, self.progress);
        let how = steps(last.size, false);
        let own = stage.refine(&objective, &[*best], Freedom::Rigid, how)?[0].cost;
        let mut found: Option<(Suspect, f64)> = None;
        for suspect in suspects(last.count()) {
            let mut now = poses.clone();
            let mut cost = f64::INFINITY;
            for (level, &kept) in levels.iter().zip(&REFINED) {
                let Some(other) = level.suspected(suspect)? else { break };
                let objective = other.objective(compared, &at)?;
                let looked = look(&mut stage, &objective, &now)?;
                let kept = self.distinct(looked, level.size, kept);
                let kept: Vec<Pose> = kept.iter().map(|c| c.pose).collect();
                let how = steps(level.size, false);
                let refined = stage.refine(&objective, &kept, Freedom::Rigid, how)?;
                cost = refined.iter().map(|c| c.cost).fold(f64::INFINITY, f64::min);
                now = refined.iter().map(|c| c.pose).collect();
            }
            let from = options.similarity.origin();
            let size = (cost - from).abs().max((own - from).abs());
            let better = if cost.is_finite() && size > 0.0 { (own - cost) / size } else { 0.0 };
            if better > found.map_or(0.0, |f| f.1) {
                found = Some((suspect, better));
            }
        }
        self.evaluations += stage.evaluations;
        Ok(found)
    }
}
