//! What a deformable registration leaves in `result.json`.

use super::job::{Ask, Job};
use crate::machine::Machine;
use crate::options::recorded;
use crate::remedy::Speaker;
use crate::run::{self, Run};
use serde_json::json;
use std::path::Path;
use voxalign_image::Vector3;
use voxalign_options::{Choice, Parameters};
use voxalign_register::diffeo::DeformResult;
use voxalign_register::linear::AffineResult;
use voxalign_report::{DeformationRecord, RunRecord, TransformRecord};

/// The record but for verdict, figures, outputs and times.
pub(super) fn record(
    (parameters, run): (serde_json::Value, &Run<'_>),
    result: &DeformResult,
    affine: Option<&AffineResult>,
    machine: &Machine,
) -> RunRecord {
    RunRecord {
        parameters,
        transform: TransformRecord::new(&result.affine, result.jacobian.grid().centre()),
        stages: affine.map_or_else(Vec::new, |a| a.stages.clone()),
        deformation: Some(DeformationRecord {
            measures: result.measures,
            scales: result.scales.clone(),
            path: result.path.clone(),
            clipped: result.clipped,
            mended: result.mended,
            affine_verdict: affine.map(|a| run.caller.worded(a.verdict.clone(), Speaker::Affine)),
            evidence: None,
        }),
        ..run.record(machine, Vec::new())
    }
}

/// The record of a registration that ended with its affine part, but for verdict, figures, outputs and
/// times; `middle` is that of the fixed image, mm.
pub(super) fn of_affine_part(
    (parameters, run): (serde_json::Value, &Run<'_>),
    affine: &AffineResult,
    middle: Vector3<f64>,
    machine: &Machine,
) -> RunRecord {
    RunRecord {
        parameters,
        transform: TransformRecord::new(&affine.transform, middle),
        stages: affine.stages.clone(),
        ..run.record(machine, Vec::new())
    }
}

/// All parameters that have an effect, also those left at their default.
pub(super) fn parameters(job: &Job, ask: &Ask, outside: f32) -> serde_json::Value {
    let path = |p: &Path| p.display().to_string();
    let first = (&job.paths.fixed, &job.paths.moving, ask.similarity, 1.0);
    let further = ask.channels.iter().map(|c| (&c.fixed, &c.moving, c.similarity, c.weight));
    let channels: Vec<_> = std::iter::once(first).chain(further).collect();
    let mut all = json!({
        "affine": job.start().to_string(),
        "channels": channels.iter().map(|(fixed, moving, similarity, weight)| json!({
            "fixed": path(fixed),
            "moving": path(moving),
            "similarity": similarity.name(),
            "weight": weight,
        })).collect::<Vec<_>>(),
        "outside": run::outside(outside),
        "interpolation": job.written.interpolation().name(),
    });
    if let Some(given) = all.as_object_mut() {
        given.extend(job.init.as_ref().map(|init| ("init".to_owned(), json!(init.to_string()))));
        given.extend(ask.preparation.as_json());
        let way = serde_json::to_value(&job.way).unwrap_or_default();
        let said = way.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        given.extend(said.map(|(name, value)| (name.clone(), value.clone())));
        if let Some([fixed, moving]) = job.landmarks.files() {
            given.insert("landmarks".to_owned(), json!([path(fixed), path(moving)]));
            given.insert("landmark_weight".to_owned(), json!(job.weight()));
        }
        let convention = job.landmarks.point_convention;
        given.extend(convention.map(|c| ("point_convention".to_owned(), json!(c.name()))));
    }
    let similarities: Vec<_> = channels.iter().map(|c| c.2).collect();
    if let Some(all) = all.as_object_mut() {
        all.extend(recorded(&ask.matching, &similarities));
        all.extend(job.paths.which.parameters());
    }
    all
}
