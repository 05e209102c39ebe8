//! The stages of a search, from its start to its verdict.

use super::held::{self, Held};
use super::options::{AffineOptions, Init, Rescue, Search};
use super::plan::{Plan, Until};
use super::problem::Problem;
use super::result::AffineResult;
use super::verdict::{Findings, judge};
use super::walk::{ELSEWHERE, Starts, Walk};
use crate::error::Result;
use crate::metric::level::of_sums;
use crate::progress::Progress;
use crate::search::pose::Pose;
use crate::search::stage::{Stage, begin};
use crate::search::{Objective, StageRecord};
use crate::similarity::{Ncc, Similarity};
use std::sync::Arc;
use voxalign_compute::Device;

/// The stage at which a search by default looks at how intensities go together: those before compare alignments.
const SEARCHED: usize = 2;

/// The least [linearity](crate::evidence::Relation::linearity) of intensities that lie on a line, and the least part of
/// the variance that the line explains. By cross-correlation lungs in CT (0.973 and up, 0.74) end 1.3 mm nearer to
/// their landmarks than by mutual information, brains (0.944 to 1, 0.40) by either where they are, kinds of MR (below
/// 0.83) and lungs in MR (up to 0.96, 0.19) farther.
const LINEAR: f64 = 0.965;
const LINE: f64 = 0.3;

/// Bins that no stage goes below: with fewer, kinds of tissue share them.
const FEWEST_BINS: usize = 32;

/// The similarity of a stage: the stages have a quarter, a half, and all of the bins (64, 128, 256, 256 in
/// section 4.3 of Li et al. 2015).
fn similarity_of_stage(similarity: Similarity, stages_to_go: usize) -> Similarity {
    let Some(full) = similarity.bins() else { return similarity };
    similarity.with_bins((full >> stages_to_go.saturating_sub(1).min(2)).max(full.min(FEWEST_BINS)))
}

/// A length without needless digits.
fn display(v: f64) -> String {
    let text = format!("{v:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Walks the stages of a search.
pub(super) fn search<D: Device>(
    device: &D,
    mut problem: Problem<D>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    let (model, largest, levels) = (problem.model, problem.largest, problem.levels.clone());
    let start_map = problem.start(&options.init)?;
    let mut of_start = problem.remarks_on(&options.init)?;
    let headers = problem.start_unseen(&Init::Header)?;
    let starts = Starts {
        start: model.pose_of(&start_map),
        headers: model.pose_of(&headers),
        others: [Init::Header, Init::Centre]
            .iter()
            .map(|init| Ok(model.pose_of(&problem.start_unseen(init)?)))
            .collect::<Result<_>>()?,
        moments: problem.moments.clone(),
    };
    let searches = options.search.moves();
    let plan = Plan {
        search: options.search,
        range: options.search.range(),
        axes: matches!(options.init, Init::Moments) && !model.flat,
        largest,
        flat: model.flat,
        elsewhere: ELSEWHERE * model.radius,
        count: levels.len(),
    };
    let mut walk = Walk::new(&model, &plan, &starts);
    let mut stages = Vec::with_capacity(plan.count);
    let (mut cost_before, mut cost_start) = (f64::INFINITY, f64::INFINITY);
    let mut cost_after = f64::INFINITY;
    let mut sampled_overlap = 0.0;
    let (mut similarity, mut relation) = (options.first_similarity(), None);
    for (index, &spacing) in levels.iter().enumerate() {
        let (count, name) = (plan.count, format!("{} mm", display(spacing)));
        let mut stage = Stage::new(&model, options.optimiser, progress);
        begin(progress, &name, index, count);
        if options.similarity.is_none() && index == SEARCHED {
            relation = problem.seen.relation(&model.affine(&walk.best().pose));
            if relation.is_some_and(|r| r.line >= LINE && r.linearity() >= LINEAR) {
                similarity = Ncc::default().into();
            }
        }
        let of_stage = similarity_of_stage(similarity, count - 1 - index);
        let Some((level, record)) = problem.next(device, of_stage, options)? else { break };
        let held = Held::new(&level, held::weight(index), &start_map);
        let entered = walk.candidates.len();
        stage.part("start", 0.0, 0.0);
        let at_start = stage.costs(&held, &[starts.start], |e| e.cost)?[0].cost;
        for round in plan.rounds(index, spacing) {
            walk.round(&mut stage, &held, spacing, &round)?;
        }
        if searches && index == 1.min(count - 1) {
            walk.mirror(&mut stage, &held, spacing)?;
        }
        if index + 1 == count {
            cost_start = at_start;
            cost_before = level.evaluate(&[headers], false)?[0].cost;
            // Without the prior.
            let of = |pose: &Pose| level.evaluate(&[model.affine(pose)], false);
            for (pose, cost) in [(starts.start, cost_start), (starts.headers, cost_before)] {
                // The result is never worse than the start and the headers.
                if searches && cost < of(&walk.best().pose)?[0].cost {
                    let steps = Until::Step(0.005).steps(spacing);
                    let refined = stage.refine(&held, &[pose], largest, steps)?;
                    walk.compete(refined);
                }
            }
            let found = &of(&walk.best().pose)?[0];
            (cost_after, sampled_overlap) = (found.cost, found.overlap);
        }
        stages.push(stage.end(StageRecord {
            name,
            dof: walk.take_opened(),
            candidates: [entered, walk.candidates.len()],
            cost_start: at_start,
            cost_end: if index + 1 == count { cost_after } else { walk.best().cost },
            ..record
        }));
    }

    let best = walk.best();
    let transform = model.affine(&best.pose);
    let overlap = problem.overlap(&transform);
    let mut evidence = problem.seen.evidence(&transform, &headers);
    if let Some(mirrored) = &walk.mirrored {
        evidence.mirrored =
            evidence.mirrored.or_more(problem.seen.measures(&model.affine(mirrored)));
    }
    let unmasked = problem.seen.unmasked(&transform, &headers);
    let mut verdict = judge(&Findings {
        evidence,
        unmasked,
        cost_before,
        cost_start,
        cost_after,
        sampled_overlap,
        field_overlap: overlap,
        transform,
        model,
        searched: searches,
        rescues: searches && options.rescue == Rescue::On,
        compared: match options.search {
            Search::Full(full) if full.range().is_full(model.flat) => None,
            Search::Full(_) => Some("only rotations within the given search angles were tried"),
            Search::Local => Some("only alignments near the start were tried (local search)"),
            Search::None => Some("no other alignment was tried (no search)"),
        },
        corners: problem.fixed_grid.corners(),
    });
    verdict.remarks.append(&mut of_start);
    // Under the numbers of the fixed image, the moving one is seen in another way.
    let own_scale = !of_sums(&options.first_similarity())?.one_scale;
    let seen = own_scale.then(|| Arc::new(problem.seen));

    Ok(AffineResult {
        transform,
        start: start_map,
        cost_before,
        cost_start,
        cost_after,
        dof: model.parameters(largest),
        bins: options.first_similarity().bins(),
        border: problem.border,
        levels,
        scheme: similarity.takes_scheme().then(|| options.scheme.unwrap_or_default()),
        overlap,
        evidence,
        unmasked,
        similarity,
        relation,
        flat: model.flat,
        attempts: Vec::new(),
        stages,
        seen,
        verdict,
    })
}
