//! The registration: start, stages, verdict.

use super::held::{self, Held};
use super::input::{DeviceInput, Source};
use super::options::{AffineInput, AffineOptions, Init, Rescue, Search};
use super::plan::Plan;
use super::problem::Problem;
use super::rescue::rescued;
use super::result::AffineResult;
use super::stage::{Stage, Until, display};
use super::verdict::{Findings, judge};
use super::walk::{ELSEWHERE, Starts, Walk};
use crate::error::{RegisterError, Result};
use crate::metric::level::of_sums;
use crate::progress::{Event, Progress};
use crate::search::Objective;
use crate::search::pose::Pose;
use crate::similarity::{Ncc, Similarity};
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::Device;
use voxalign_options::{Choice, Parameters};

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

pub(super) fn option(option: &'static str, value: impl ToString, remedy: &str) -> RegisterError {
    RegisterError::option(option, value, remedy)
}

pub(super) fn check(options: &AffineOptions) -> Result<()> {
    let similarity = options.first_similarity();
    of_sums(&similarity)?;
    similarity.check()?;
    options.check()?;
    options.search.check()?;
    Ok(())
}

/// Registers the moving image to the fixed image by an affine map.
///
/// The result maps fixed world to moving world (RAS+ mm). It has the same bits for any number of
/// threads, and at every run on a GPU. Outside of the moving image nothing counts. Method: see the
/// [module](crate::linear).
///
/// # Errors
/// [`Option`](crate::RegisterError::Option) for options out of range; an error that names the image
/// for images that are constant, not finite, too small (fewer than 16 voxels that count), flat along
/// another axis than the last, or of different dimension, and for masks that are empty or on another
/// grid than their image; [`NoOverlap`](crate::RegisterError::NoOverlap) at the start;
/// [`Compute`](crate::RegisterError::Compute) when memory runs out;
/// [`Stopped`](crate::RegisterError::Stopped) when the listener asks for it.
pub fn register_affine<D: Device>(
    device: &D,
    input: &AffineInput<'_>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    check(options)?;
    let source = || Ok(Source::Own(Box::new(DeviceInput::upload(device, input)?)));
    registered(device, &source, options, progress)
}

/// As [`register_affine`], of images that are on the device already.
///
/// # Errors
/// As [`register_affine`], and buffers that do not have the length of their grids.
pub fn register_affine_on_device<D: Device>(
    device: &D,
    input: &DeviceInput<D>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    check(options)?;
    registered(device, &|| Ok(Source::Lent(input)), options, progress)
}

/// Registers, and tries other ways where the result is bad.
pub(super) fn registered<'a, D: Device + 'a>(
    device: &D,
    source: &dyn Fn() -> Result<Source<'a, D>>,
    options: &AffineOptions,
    progress: &dyn Progress,
) -> Result<AffineResult> {
    let problem = Problem::new(device, source()?, options)?;
    let found = search(device, problem, options, progress)?;
    if found.verdict.good || options.rescue == Rescue::Off || !options.search.moves() {
        return Ok(found);
    }
    rescued(device, source, options, progress, found)
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
        let (began, name) = (Instant::now(), format!("{} mm", display(spacing)));
        let (count, counts, value) = (plan.count, "evaluations", "cost");
        progress.event(&Event::StageStart {
            index,
            count,
            name: &name,
            counts,
            value,
            share: 1.0 / count as f64,
        });
        if options.similarity.is_none() && index == SEARCHED {
            relation = problem.seen.relation(&model.affine(&walk.best().pose));
            if relation.is_some_and(|r| r.line >= LINE && r.linearity() >= LINEAR) {
                similarity = Ncc::default().into();
            }
        }
        let of_stage = similarity_of_stage(similarity, count - 1 - index);
        let Some((level, about)) = problem.next(device, of_stage, options)? else { break };
        let held = Held::new(&level, held::weight(index), &start_map);
        let mut stage = Stage::new(&held, options.optimiser, &model, spacing, progress);
        let entered = walk.candidates.len();
        stage.part("start", 0.0, 0.0);
        let at_start = stage.costs(&[starts.start])?[0].cost;
        for round in plan.rounds(index, spacing) {
            walk.round(&mut stage, &round)?;
        }
        if searches && index == 1.min(count - 1) {
            walk.mirror(&mut stage)?;
        }
        if index + 1 == count {
            cost_start = at_start;
            cost_before = level.evaluate(&[headers], false)?[0].cost;
            // Without the prior.
            let of = |pose: &Pose| level.evaluate(&[model.affine(pose)], false);
            for (pose, cost) in [(starts.start, cost_start), (starts.headers, cost_before)] {
                // The result is never worse than the start and the headers.
                if searches && cost < of(&walk.best().pose)?[0].cost {
                    let refined = stage.refine(&[pose], largest, Until::Step(0.005))?;
                    walk.compete(refined);
                }
            }
            let found = &of(&walk.best().pose)?[0];
            (cost_after, sampled_overlap) = (found.cost, found.overlap);
        }
        let numbers = [entered, walk.candidates.len()];
        let best = if index + 1 == count { cost_after } else { walk.best().cost };
        let opened = walk.take_opened();
        let seconds = began.elapsed().as_secs_f64();
        stages.push(stage.record(about, opened, numbers, at_start, best, seconds));
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
