//! The registration: start, stages, verdict.

use super::input::{DeviceInput, Source};
use super::options::{AffineInput, AffineOptions, Init, Search};
use super::plan::Plan;
use super::problem::Problem;
use super::result::AffineResult;
use super::stage::{Stage, Until, display};
use super::verdict::{Findings, judge};
use super::walk::{ELSEWHERE, Starts, Walk};
use crate::error::{RegisterError, Result};
use crate::metric::level::of_sums;
use crate::progress::{Event, Progress};
use crate::search::Objective;
use crate::similarity::Similarity;
use std::time::Instant;
use voxalign_compute::Device;

/// The similarity of a stage: the stages have a quarter, a half, and all of the bins (64, 128, 256, 256 in
/// section 4.3 of Li et al. 2015).
fn similarity_of_stage(mut similarity: Similarity, stages_to_go: usize) -> Similarity {
    if let Some(full) = similarity.get("bins") {
        let bins = (full >> stages_to_go.saturating_sub(1).min(2)).max(full.min(16));
        similarity.set("bins", bins);
    }
    similarity
}

pub(super) fn option(option: &'static str, value: impl ToString, remedy: &str) -> RegisterError {
    RegisterError::Option { option, value: value.to_string(), remedy: remedy.to_owned() }
}

fn check(options: &AffineOptions) -> Result<()> {
    of_sums(&options.similarity)?;
    options.similarity.check()?;
    if !(options.apodise >= 0.0 && options.apodise.is_finite()) {
        return Err(option("apodise", options.apodise, "give a length in mm, 0 or more"));
    }
    if let Some(levels) = &options.levels {
        let good = |l: &&f64| l.is_finite() && **l > 0.0;
        if levels.is_empty() || levels.iter().filter(good).count() != levels.len() {
            return Err(option("levels", format!("{levels:?}"), "give lengths in mm above 0"));
        }
    }
    let r = &options.range;
    let pi = std::f64::consts::PI + 1e-9;
    if r.angles.iter().any(|[a, b]| !(a <= b && *a >= -pi && *b <= pi)) {
        let degrees = r.angles.map(|a| a.map(f64::to_degrees));
        let remedy = "give ranges within -180 to 180 degrees, the smaller angle first";
        return Err(option("search angles", format!("{degrees:?}"), remedy));
    }
    for step in [r.coarse, r.fine] {
        let degrees = step.to_degrees();
        if !(degrees >= 4.999 && step <= pi) {
            return Err(option("search steps", degrees, "give steps from 5 to 180 degrees"));
        }
    }
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
    let input = Box::new(DeviceInput::upload(device, input)?);
    let problem = Problem::new(device, Source::Own(input), options)?;
    search(device, problem, options, progress)
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
    let problem = Problem::new(device, Source::Lent(input), options)?;
    search(device, problem, options, progress)
}

/// Walks the stages of a search.
fn search<D: Device>(
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
        moments: problem.moments.clone(),
    };
    let searches = options.search != Search::None;
    let plan = Plan {
        search: options.search,
        range: options.range,
        axes: matches!(options.init, Init::Moments) && !model.flat,
        largest,
        elsewhere: ELSEWHERE * model.radius,
        count: levels.len(),
    };
    let mut walk = Walk::new(&model, &plan, &starts);
    let mut stages = Vec::with_capacity(plan.count);
    let (mut cost_before, mut cost_start) = (f64::INFINITY, f64::INFINITY);
    let mut sampled_overlap = 0.0;
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
        let similarity = similarity_of_stage(options.similarity, count - 1 - index);
        let Some((level, about)) = problem.next(device, similarity, options)? else { break };
        let mut stage = Stage::new(&level, options.optimiser, &model, spacing, progress);
        let entered = walk.candidates.len();
        stage.part("start", 0.0, 0.0);
        let at_start = stage.costs(&[starts.start])?[0].cost;
        for round in plan.rounds(index, spacing) {
            walk.round(&mut stage, &round)?;
        }
        if index + 1 == count {
            cost_start = at_start;
            cost_before = level.evaluate(&[headers], false)?[0].cost;
            for (pose, cost) in [(starts.start, cost_start), (starts.headers, cost_before)] {
                // The result is never worse than the start and the headers.
                if searches && cost < walk.best().cost {
                    let refined = stage.refine(&[pose], largest, Until::Step(0.005))?;
                    walk.compete(refined);
                }
            }
            sampled_overlap = level.evaluate(&[model.affine(&walk.best().pose)], false)?[0].overlap;
        }
        let numbers = [entered, walk.candidates.len()];
        let (opened, best) = (walk.take_opened(), walk.best().cost);
        let seconds = began.elapsed().as_secs_f64();
        stages.push(stage.record(about, opened, numbers, at_start, best, seconds));
    }

    let best = walk.best();
    let transform = model.affine(&best.pose);
    let overlap = problem.overlap(&transform);
    let bins = stages.last().map_or(1, |s| s.bins);
    let mut verdict = judge(&Findings {
        similarity: options.similarity,
        of_sums: of_sums(&options.similarity)?,
        cost_before,
        cost_start,
        cost_after: best.cost,
        sampled_overlap,
        field_overlap: overlap,
        transform,
        model,
        rival: (options.search == Search::Full).then(|| walk.lead()).flatten(),
        searched: searches,
        masked: problem.masked,
        compared: match options.search {
            Search::Full if options.range.is_full(model.flat) => None,
            Search::Full => Some("only rotations within the given search angles were tried"),
            Search::Local => Some("only alignments near the start were tried (local search)"),
            Search::None => Some("no other alignment was tried (no search)"),
        },
        samples: stages.last().map_or(0, |s| s.samples),
        bins,
        corners: problem.fixed_grid.corners(),
    });
    verdict.remarks.append(&mut of_start);
    Ok(AffineResult {
        transform,
        start: start_map,
        cost_before,
        cost_start,
        cost_after: best.cost,
        dof: model.parameters(largest),
        bins: options.similarity.get("bins").map(|_| bins),
        levels,
        scheme: options.similarity.takes_scheme().then(|| options.scheme.unwrap_or_default()),
        overlap,
        stages,
        verdict,
    })
}
