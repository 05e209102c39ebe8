//! Competing poses: the best poses elsewhere, and the margin over them.

use super::level::{Compared, Level};
use super::options::{PoseRange, Range};
use super::search::{Search, look, steps};
use crate::error::Result;
use crate::projection::rotations::evenly;
use crate::search::pose::{Freedom, Pose};
use crate::search::refine::Candidate;
use crate::search::stage::Stage;
use voxalign_compute::Device;
use voxalign_image::Rotation3;

/// The poses around a result that are looked at, and those of them that are refined at each scale.
const PROBES: usize = 128;
const PROBED: [usize; 3] = [8, 3, 2];
/// Rotations among all that are tried, in addition to half turns, and the number of them that are refined at each
/// scale.
const TURNED: usize = 160;
const TURNS: [usize; 3] = [5, 3, 1];
/// The least distance of another place in the images, in pixels at the place of the CT.
const ELSEWHERE: f64 = 1.5;

impl<D: Device> Search<'_, '_, D> {
    /// Compares the best pose with the best one that is another place, and not the same one less exactly.
    pub(super) fn rivals(&mut self, best: &Candidate, all: &[Candidate], size: f64) -> Result<f64> {
        let mut rival = f64::INFINITY;
        for other in all {
            if other.cost < rival && self.seen_apart(&best.pose, &other.pose)? > ELSEWHERE * size {
                rival = other.cost;
            }
        }
        if rival.is_finite() {
            // Informations are below 0.
            let from = self.options.similarity.origin();
            let size = (rival - from).abs().max((best.cost - from).abs());
            let lead = if size > 0.0 { (rival - best.cost) / size } else { 0.0 };
            self.lead = Some(self.lead.map_or(lead, |least| least.min(lead)));
        }
        Ok(rival)
    }

    /// Looks for poses around the result, from coarse to fine scales, that explain the images equally well: those
    /// that a search started elsewhere, with few poses or within a small range, has missed. Where all of them lead
    /// back to the result, its lead is 1; where none was tried at another place, there is none.
    pub(super) fn elsewhere(&mut self, levels: &[Level<'_, D>], best: &Pose) -> Result<()> {
        let options = self.options;
        let floor = PoseRange::default().radians();
        let range = Range {
            translation: options.range.radians().translation.max(floor.translation),
            rotation: options.range.radians().rotation.max(floor.rotation),
        };
        let (model, seed) = (self.model, options.seed.wrapping_add(3000));
        let mut poses = self.around(*best, range, PROBES, seed);
        let mut reach = 0.0;
        for pose in &poses[1..] {
            reach = self.seen_apart(best, pose)?.max(reach);
        }
        let mut were_elsewhere = false;
        for (level, &kept) in levels.iter().zip(&PROBED) {
            let compared = Compared { anew: false, ..Compared::by(options, seed) };
            let objective = level.objective(compared, &model.affine(best))?;
            let mut stage = Stage::new(&model, options.optimiser, self.progress);
            let looked = look(&mut stage, &objective, &poses)?;
            let far = |c: &Candidate| self.distance(best, &c.pose) > level.size;
            let far: Vec<_> = looked.into_iter().filter(far).collect();
            poses = vec![*best];
            poses.extend(self.distinct(far, level.size, kept).iter().map(|c| c.pose));
            were_elsewhere |= poses.len() > 1 && reach > ELSEWHERE * level.size;
            let steps = steps(level.size, false);
            let found = stage.refine(&objective, &poses, Freedom::Rigid, steps)?;
            self.evaluations += stage.evaluations;
            self.rivals(&found[0], &found[1..], level.size)?;
            poses = found[1..].iter().map(|c| c.pose).collect();
            if poses.is_empty() {
                break;
            }
        }
        if were_elsewhere {
            self.lead.get_or_insert(1.0);
        } else {
            self.lead = None;
        }
        Ok(())
    }

    /// The lead over the best pose of any other rotation, half turns about the axes of inertia among them, at the last of some scales:
    /// below 0 where one explains the images better than the result. None where all lead back to the result.
    pub(super) fn turned(&mut self, levels: &[Level<'_, D>], best: &Pose) -> Result<Option<f64>> {
        let options = self.options;
        let seed = options.seed.wrapping_add(5000);
        let (model, compared) = (self.model, Compared::by(options, seed));
        let compared = Compared { anew: false, ..compared };
        let here = model.affine(best);
        // About the middle of the CT, where the result has it.
        let place = here.inverse()?.apply(self.ct.middle);
        let about = |rotation| {
            let offset = self.ct.middle - rotation * place;
            model.pose_of(&voxalign_image::Affine::new(rotation, offset))
        };
        let axes = self.ct.axes();
        let halves = (0..3).map(|i| {
            let half = Rotation3::new(axes.column(i) * std::f64::consts::PI);
            about(half.matrix() * here.matrix)
        });
        let halves: Vec<Pose> = halves.collect();
        let mut poses: Vec<Pose> = evenly(TURNED).map(about).collect();
        let (mut lead, mut first) = (None, true);
        let mut stage = Stage::new(&model, options.optimiser, self.progress);
        for (level, &kept) in levels.iter().zip(&TURNS) {
            let objective = level.objective(compared, &here)?;
            let looked = look(&mut stage, &objective, &poses)?;
            let far = |c: &Candidate| self.distance(best, &c.pose) > level.size;
            let far: Vec<_> = looked.into_iter().filter(far).collect();
            let mut from = vec![*best];
            from.extend(self.distinct(far, level.size, kept).iter().map(|c| c.pose));
            if first {
                from.extend(&halves);
            }
            first = false;
            let steps = steps(level.size, false);
            let found = stage.refine(&objective, &from, Freedom::Rigid, steps)?;
            lead = None;
            poses = Vec::new();
            for other in &found[1..] {
                if self.seen_apart(&found[0].pose, &other.pose)? > ELSEWHERE * level.size {
                    poses.push(other.pose);
                    let size = other.cost.abs().max(found[0].cost.abs());
                    let by = if size > 0.0 { (other.cost - found[0].cost) / size } else { 0.0 };
                    lead = Some(lead.map_or(by, |least: f64| least.min(by)));
                }
            }
            if poses.is_empty() {
                break;
            }
        }
        self.evaluations += stage.evaluations;
        Ok(lead)
    }
}
