//! From the end of a search to its result: uncertainty and verdict.

use super::certainty::Found;
use super::geometry::Frame;
use super::level::{Compared, Level};
use super::options::NUMBERS;
use super::search::{Change, Search, model};
use super::verdict::{Asked, Evidence};
use super::{PoseResult, RefinedView, certainty, geometry, landscape, rigid, verdict};
use crate::error::Result;
use crate::projection::objective::View;
use crate::projection::similarity::XraySimilarity;
use crate::search::Objective;
use crate::search::pose::Model;
use crate::search::refine::Candidate;
use crate::verdict::Verdict;
use voxalign_compute::Device;

/// The fraction of the pixels used for the cost along parameters.
const LANDSCAPE: f64 = 0.05;
/// Evaluations of a refinement by each view alone.
const ALONE: usize = 40;

impl<D: Device> Search<'_, '_, D> {
    /// The result, how certain it is, and the verdict.
    pub(super) fn finish(
        mut self,
        [level, usual]: [&Level<'_, D>; 2],
        best: Candidate,
        asked: Asked,
    ) -> Result<PoseResult> {
        let found = self.model.affine(&best.pose);
        let transform = rigid(&found, found.inverse()?.apply(self.ct.middle));
        // Axes of the room as the CT lies in it now.
        let model = model(self.ct, &transform)?;
        let pose = model.pose_of(&transform);
        let options = self.options;
        let centre = options.centre.unwrap_or_else(|| self.ct.ct.grid().centre());
        let compared = Compared { anew: false, ..Compared::by(options, options.seed) };
        let objective = level.objective(compared, &transform)?;
        let gradients =
            Compared { similarity: XraySimilarity::GradientNcc, part: None, ..compared };
        let (ends, by_view, correlations, evidence, uncertainty, geometry) =
            self.part("uncertainty", |all| {
                let ends = objective.evaluate(&[all.start, transform], false)?;
                let by_view = objective.by_view(&transform)?;
                let shown = level.around_ct(&transform)?;
                let shown = shown.objective(gradients, &transform)?.by_view(&transform)?;
                let correlations: Vec<f64> = shown.iter().map(|c| 1.0 - c).collect();
                // Of the ends, the costs and the correlations of each view, and the part around the CT.
                all.evaluations += 5;
                let told = asked.thorough && all.views.len() >= geometry::VIEWS;
                let frames = if told { all.frames()? } else { Vec::new() };
                let place = (&model, &pose);
                let found = certainty::find(all, level, &objective, place, centre, &frames)?;
                let Found { uncertainty, misfits, geometries } = found;
                let outlines = usual.outlines(&transform)?;
                let alone = match asked.thorough {
                    true => all.alone(level, place, (compared, ALONE))?,
                    false => Vec::new(),
                };
                let sure = all.in_plane(uncertainty.by_blocks.as_ref(), place, centre)?;
                let beyond = all.beyond(&transform)?;
                let size = usual.size;
                let evidence = Evidence { outlines, alone, sure, beyond, misfits, size };
                let refined = all.geometries(&frames, &geometries);
                // Those of outlines.
                all.evaluations += 1;
                Ok((ends, by_view, correlations, evidence, uncertainty, refined))
            })?;
        let mut along = Vec::new();
        if options.landscape {
            let part = options.sampling.unwrap_or(LANDSCAPE).min(LANDSCAPE);
            let rough = Compared { part: Some(part), ..compared };
            let rough = level.objective(rough, &transform)?;
            let reach = 16.0 * level.size;
            // Rotations are about the same centre as those of the result.
            let axes = Model { centre: transform.inverse()?.apply(centre), ..model };
            let pose = axes.pose_of(&transform);
            along = self.part("cost along parameters", |all| {
                landscape::find(all, &rough, &axes, &pose, reach)
            })?;
        }
        let mut result = PoseResult {
            transform,
            start: self.start,
            centre,
            costs: [ends[0].cost, ends[1].cost],
            by_view,
            correlations,
            evidence,
            middle: self.ct.middle,
            geometry,
            uncertainty,
            landscape: along,
            stages: self.stages,
            without: vec![None; self.views.len()],
            left_out: vec![0.0; self.views.len()],
            straightened: vec![false; self.views.len()],
            iterations: self.iterations,
            renders: self.evaluations * self.views.len(),
            verdict: Verdict::new(Vec::new(), Vec::new()),
        };
        result.verdict =
            verdict::judge(&result, ends[1].overlap, (self.lead, self.looked), level.size, asked);
        Ok(result)
    }
    /// The geometries that were refined, with the variances of their numbers.
    fn geometries(&self, frames: &[Frame], variances: &[Vec<f64>]) -> Vec<RefinedView> {
        let refine = self.options.refine;
        let Some((_, changes)) = &self.refined else { return Vec::new() };
        let one = |(i, (view, change)): (usize, (&View<'_>, &Change))| {
            let mut variance = [f64::INFINITY; NUMBERS];
            let places = refine.iter().flat_map(|r| r.numbers());
            for (place, found) in places.zip(variances.get(i).into_iter().flatten()) {
                variance[*place] = *found;
            }
            frames.get(i).map(|frame| frame.refined(view.geometry, *change, refine, variance))
        };
        self.views.iter().zip(changes).enumerate().filter_map(one).collect()
    }
}
