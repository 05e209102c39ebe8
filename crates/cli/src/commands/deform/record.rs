//! What a deformable registration leaves in `result.json`.

use super::job::Job;
use crate::device::Machine;
use crate::registration;
use serde_json::json;
use std::path::Path;
use voxalign_register::Choice;
use voxalign_register::diffeo::solver::{SolverKind, SolverOptions};
use voxalign_register::diffeo::{DeformModel, DeformResult, DeformSimilarity};
use voxalign_register::linear::AffineResult;
use voxalign_report::{DeformationRecord, InputRecord, RunRecord, TransformRecord};

/// The record but for verdict, figures, outputs and times.
pub(super) fn record(
    job: &Job<'_>,
    result: &DeformResult,
    affine: Option<&AffineResult>,
    outside: f32,
    machine: &Machine,
    inputs: Vec<InputRecord>,
) -> RunRecord {
    RunRecord {
        parameters: parameters(job, outside),
        transform: TransformRecord::new(&result.affine, result.jacobian.grid().centre()),
        stages: affine.map_or_else(Vec::new, |a| a.stages.clone()),
        deformation: Some(DeformationRecord {
            measures: result.measures,
            scales: result.scales.clone(),
            path: result.path.clone(),
            clipped: result.clipped,
            mended: result.mended,
            affine_verdict: affine.map(|a| a.verdict.clone()),
        }),
        ..registration::record("voxalign deform", machine, inputs)
    }
}

/// All parameters that have an effect, also those left at their default.
fn parameters(job: &Job<'_>, outside: f32) -> serde_json::Value {
    let options = &job.options;
    let path = |p: &Path| p.display().to_string();
    let first = (&job.paths.pair.fixed, &job.paths.pair.moving, job.similarity, 1.0);
    let further = job.paths.channels.iter().map(|c| (&c.fixed, &c.moving, c.similarity, c.weight));
    let channels: Vec<_> = std::iter::once(first).chain(further).collect();
    let has = |wanted: &[DeformSimilarity]| channels.iter().any(|c| wanted.contains(&c.2));
    let mut all = json!({
        "affine": job.affine.name(),
        "model": options.model.name(),
        "channels": channels.iter().map(|(fixed, moving, similarity, weight)| json!({
            "fixed": path(fixed),
            "moving": path(moving),
            "similarity": similarity.name(),
            "weight": weight,
        })).collect::<Vec<_>>(),
        "solver": solver(&options.solver),
        "schedule": options.schedule,
        "step": options.step,
        "convergence": options.convergence,
        "histogram_match": options.histogram_match,
        "clip": options.clip,
        "outside": outside,
        "interpolation": registration::name_of(job.run.output_options.interpolation()),
    });
    let mut put = |name: &str, value: serde_json::Value| {
        if let Some(all) = all.as_object_mut() {
            all.insert(name.to_owned(), value);
        }
    };
    if has(&[DeformSimilarity::Lncc]) {
        put("radius", json!(options.radius));
    }
    if has(&[DeformSimilarity::Mi, DeformSimilarity::Nmi]) {
        put("bins", json!(options.bins));
    }
    if options.model == DeformModel::Lddmm {
        put("time_steps", json!(options.time_steps));
        put("lddmm_sigma", json!(options.sigma));
    } else {
        put("total_sigma", json!(options.total_sigma));
        put("step_rule", json!(options.step_rule));
    }
    all
}

fn solver(options: &SolverOptions) -> serde_json::Value {
    let name = options.kind.name();
    if options.kind == SolverKind::Gaussian {
        return json!({ "kind": name, "sigma": options.sigma });
    }
    let mut all = json!({
        "kind": name,
        "alpha": options.alpha,
        "beta": options.beta,
        "gamma": options.gamma,
        "boundary": options.boundary.name(),
    });
    if let (Some(all), false) = (all.as_object_mut(), options.kind == SolverKind::Fft) {
        all.insert("iterations".to_owned(), json!(options.iterations));
        all.insert("tolerance".to_owned(), json!(options.tolerance));
    }
    all
}
