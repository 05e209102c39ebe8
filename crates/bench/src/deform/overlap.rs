//! Label overlap for every model, similarity and solver.

use super::pair::{Images, Watch};
use super::{Table, Wanted};
use crate::Host;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;
use voxalign_compute::ops::resample::LabelInterpolation;
use voxalign_compute::select::AnyDevice;
use voxalign_image::LabelMap;
use voxalign_jobs::Level;
use voxalign_jobs::files;
use voxalign_jobs::{Error, Result};
use voxalign_register::Choice;
use voxalign_register::compare::{OverlapRule, compare_labels};
use voxalign_register::diffeo::Matching;
use voxalign_register::resample::labels_onto;

/// Label maps and which labels count.
pub(super) struct Labels {
    fixed: LabelMap,
    moving: LabelMap,
    rule: OverlapRule,
}

impl Labels {
    pub(super) fn read(
        host: &dyn Host,
        fixed: &Path,
        moving: &Path,
        smallest_label: Option<i32>,
        min_voxels: usize,
    ) -> Result<Self> {
        let (fixed, moving) = (files::labels(fixed, host)?, files::labels(moving, host)?);
        let enough = |map: &LabelMap| {
            let mut counts = BTreeMap::<i32, usize>::new();
            for &label in map.data() {
                *counts.entry(label).or_default() += 1;
            }
            counts.retain(|&label, &mut n| {
                label != 0 && n > min_voxels && smallest_label.is_none_or(|least| label >= least)
            });
            counts.into_keys().collect::<BTreeSet<_>>()
        };
        let only = enough(&fixed).intersection(&enough(&moving)).copied().collect::<BTreeSet<_>>();
        if only.is_empty() {
            return Err(Error::input(
                "--labels: the two maps have no label in common that counts; check that they use \
                 the same numbers, and check --smallest-label and --min-voxels",
            ));
        }
        Ok(Self { rule: OverlapRule { only: Some(only), ..OverlapRule::default() }, fixed, moving })
    }
}

/// The result of a registration.
#[derive(Debug, Serialize)]
pub(super) struct Overlap {
    pub(super) model: &'static str,
    pub(super) similarity: &'static str,
    pub(super) solver: &'static str,
    pub(super) mean_dice: Option<f64>,
    pub(super) counted: usize,
    pub(super) seconds: f64,
    pub(super) folded: u64,
    pub(super) smallest_jacobian: f64,
    /// Mean and largest inverse-consistency error, mm.
    pub(super) consistency: Option<(f64, f64)>,
    pub(super) verdict_good: bool,
}

impl Overlap {
    /// The line printed as soon as a result is known.
    fn line(&self) -> String {
        let dice = self.mean_dice.map_or_else(|| "-".to_owned(), |d| format!("{d:.4}"));
        let Self { model, similarity, solver, seconds, .. } = self;
        format!("{model} {similarity} {solver}: Dice {dice}, {seconds:.2} s")
    }
}

/// Registers with everything that is wanted.
pub(super) fn measure(
    device: &AnyDevice,
    images: &Images,
    labels: &Labels,
    wanted: &Wanted<'_>,
) -> Result<Vec<Overlap>> {
    let mut found = Vec::new();
    for &model in &wanted.models {
        for &similarity in &wanted.similarities {
            for &solver in &wanted.solvers {
                if !model.takes(&solver) {
                    continue;
                }
                let mut options = Matching::of(model);
                options.solver = solver;
                let start = Instant::now();
                let result = images.register(
                    device,
                    similarity,
                    (&options, true),
                    &Watch::new(wanted.host),
                )?;
                let seconds = start.elapsed().as_secs_f64();
                let warped = labels_onto(
                    device,
                    &labels.moving,
                    labels.fixed.grid(),
                    &result.transform(),
                    LabelInterpolation::Nearest,
                    0,
                )?;
                let scores = compare_labels(&labels.fixed, &warped, None, &labels.rule)?;
                let m = &result.measures;
                let overlap = Overlap {
                    model: model.name(),
                    similarity: similarity.name(),
                    solver: solver.name(),
                    mean_dice: scores.mean_dice,
                    counted: scores.counted,
                    seconds,
                    folded: m.folded,
                    smallest_jacobian: m.smallest_jacobian,
                    consistency: m
                        .mean_inverse_error()
                        .zip(m.inverse_consistency.map(|c| c.largest)),
                    verdict_good: result.verdict.good,
                };
                wanted.host.tell(Level::Verbose, &overlap.line().into());
                found.push(overlap);
            }
        }
    }
    Ok(found)
}

/// The overlaps as a table.
pub(super) fn table(found: &[Overlap]) -> Option<Table> {
    let first = found.first()?;
    let mut table = Table::new([
        "model".to_owned(),
        "similarity".to_owned(),
        "solver".to_owned(),
        format!("mean Dice of {} labels", first.counted),
        "s".to_owned(),
        "folded".to_owned(),
        "least Jacobian".to_owned(),
        "inverse error, mean mm".to_owned(),
        "largest".to_owned(),
        "verdict".to_owned(),
    ]);
    let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
    for o in found {
        table.row([
            o.model.to_owned(),
            o.similarity.to_owned(),
            o.solver.to_owned(),
            number(o.mean_dice),
            format!("{:.2}", o.seconds),
            o.folded.to_string(),
            format!("{:.3}", o.smallest_jacobian),
            number(o.consistency.map(|c| c.0)),
            number(o.consistency.map(|c| c.1)),
            (if o.verdict_good { "good" } else { "bad" }).to_owned(),
        ]);
    }
    Some(table)
}
