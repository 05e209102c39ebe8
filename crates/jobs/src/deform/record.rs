//! Records of deformable registrations in `result.json`.

use crate::machine::Machine;
use crate::remedy::Speaker;
use crate::run::Run;
use voxalign_image::Vector3;
use voxalign_register::diffeo::DeformResult;
use voxalign_register::linear::AffineResult;
use voxalign_report::{DeformationRecord, RunRecord, TransformRecord};

/// The record but for verdict, figures, outputs and times.
pub(crate) fn record(
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
            affine_verdict: affine.map(|a| {
                run.caller
                    .worded(a.verdict.clone(), Speaker::affine(result.jacobian.grid().is_2d()))
            }),
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
