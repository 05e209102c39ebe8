//! Records of affine registrations in `result.json`.

use super::Job;
use crate::machine::Machine;
use crate::remedy::Speaker;
use crate::run::{self, Run};
use serde_json::json;
use voxalign_image::Grid;
use voxalign_register::Choice;
use voxalign_register::linear::{AffineOptions, AffineResult, Init};
use voxalign_register::search::optimiser::SEED;
use voxalign_report::{Figure, Figures, RunRecord, TransformRecord, When};

/// The record but for transform, figures, outputs and times; `flat` where images are of two dimensions.
pub(super) fn record(
    job: &Job,
    run: &Run<'_>,
    machine: &Machine,
    options: &AffineOptions,
    (result, flat): (&AffineResult, bool),
    outside: f32,
) -> RunRecord {
    RunRecord {
        parameters: parameters(job, options, result, outside),
        stages: result.stages.clone(),
        evidence: Some(result.evidence),
        unmasked: result.unmasked,
        attempts: result.attempts.clone(),
        verdict: run.caller.worded(result.verdict.clone(), Speaker::affine(flat)),
        ..run.record(machine, Vec::new())
    }
}

/// The transform in words, about the middle of the fixed image.
pub(super) fn transform(result: &AffineResult, fixed: &Grid) -> TransformRecord {
    TransformRecord::new(&result.transform, fixed.centre())
}

/// The named numbers of the record, but for the scores.
pub(super) fn figures(result: &AffineResult) -> Figures {
    let mut figures = Figures::default();
    figures.set_at(Figure::Cost, When::Before, result.cost_before);
    figures.set(Figure::CostStart, result.cost_start);
    figures.set_at(Figure::Cost, When::After, result.cost_after);
    figures.set(Figure::Overlap, result.overlap);
    if let Some(relation) = result.relation {
        figures.set(Figure::Linearity, relation.linearity());
        figures.set(Figure::ExplainedByLine, relation.line);
    }
    figures
}

/// All parameters that have an effect, as they were used, also those left at their default.
fn parameters(
    job: &Job,
    options: &AffineOptions,
    result: &AffineResult,
    outside: f32,
) -> serde_json::Value {
    let init = match (&options.init, &job.method.init) {
        (_, Some(choice)) => choice.to_string(),
        (Init::Header, _) => "header".into(),
        (Init::Centre, _) => "centre".into(),
        (Init::Moments, _) => "moments".into(),
        (Init::Identity, _) => "identity".into(),
        (Init::Given(_), _) => "given".into(),
        (Init::Landmarks(_), _) => "landmarks".into(),
    };
    // Without the noise of the way to radians and back.
    let degrees = |r: f64| (r.to_degrees() * 1e9).round() / 1e9;
    let mut all = json!({
        "dof": result.dof,
        "cost": options.first_similarity().name(),
        "cost_of_finest": result.similarity.name(),
        "rescue": options.rescue.name(),
        "init": init,
        "search": options.search.name(),
        "optimiser": options.optimiser.name(),
        "optimiser_seed": format!("{SEED:#x}"),
        "search_angles_degrees": options.search.range().angles.map(|r| r.map(degrees)),
        "search_steps_degrees": [degrees(options.search.range().coarse), degrees(options.search.range().fine)],
        "levels_mm": result.levels,
        "apodise_mm": result.border,
        "interpolation": job.written.interpolation().name(),
        "outside": run::outside(outside),
    });
    if let Some(all) = all.as_object_mut() {
        all.extend(job.paths.which.parameters());
        if let (Init::Landmarks(_), Some(given)) = (&options.init, job.method.point_convention) {
            all.insert("point_convention".to_owned(), json!(given.name()));
        }
        all.extend(options.optimiser.as_json());
        all.extend(result.bins.map(|bins| ("bins".to_owned(), json!(bins))));
        all.extend(result.scheme.map(|scheme| ("scheme".to_owned(), json!(scheme.name()))));
    }
    all
}
