//! What a deformable registration leaves in `result.json`.

use super::job::Job;
use crate::device::Machine;
use crate::registration;
use crate::remedy::{Speaker, worded};
use serde_json::json;
use std::path::Path;
use voxalign_image::Vector3;
use voxalign_register::Choice;
use voxalign_register::diffeo::DeformResult;
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
            affine_verdict: affine.map(|a| worded(a.verdict.clone(), Speaker::Affine)),
        }),
        ..registration::record("voxalign deform", machine, inputs)
    }
}

/// The record of a registration that ended with its affine part, but for verdict, figures, outputs and
/// times; `middle` is that of the fixed image, mm.
pub(super) fn of_affine_part(
    job: &Job<'_>,
    affine: &AffineResult,
    middle: Vector3<f64>,
    outside: f32,
    machine: &Machine,
    inputs: Vec<InputRecord>,
) -> RunRecord {
    RunRecord {
        parameters: parameters(job, outside),
        transform: TransformRecord::new(&affine.transform, middle),
        stages: affine.stages.clone(),
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
    let mut all = json!({
        "affine": job.affine.name(),
        "channels": channels.iter().map(|(fixed, moving, similarity, weight)| json!({
            "fixed": path(fixed),
            "moving": path(moving),
            "similarity": similarity.name(),
            "weight": weight,
        })).collect::<Vec<_>>(),
        "histogram_match": options.histogram_match,
        "clip": options.clip,
        "outside": registration::outside(outside),
        "interpolation": registration::name_of(job.run.output_options.interpolation()),
    });
    let similarities: Vec<_> = channels.iter().map(|c| c.2).collect();
    if let (Some(all), Some(of_matching)) = (
        all.as_object_mut(),
        registration::matching_parameters(options, &similarities).as_object_mut(),
    ) {
        all.append(of_matching);
    }
    all
}
