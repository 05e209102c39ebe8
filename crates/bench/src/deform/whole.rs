//! Whole registrations with the default options of each model.

use super::pair::{Images, Watch};
use super::{Table, Wanted};
use crate::Host;
use serde::Serialize;
use std::time::Instant;
use voxalign_compute::select::AnyDevice;
use voxalign_jobs::{Error, Result};
use voxalign_register::Choice;
use voxalign_register::diffeo::{Matching, Multiscale};
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;

/// The time of a registration.
#[derive(Debug, Serialize)]
pub(super) struct WholeTime {
    pub(super) what: String,
    /// Iterations at each scale.
    pub(super) iterations: Vec<usize>,
    /// Everything, seconds: the first time, and again.
    pub(super) cold: f64,
    pub(super) warm: f64,
    /// The share of the scales when warm.
    pub(super) scales: f64,
    pub(super) verdict_good: bool,
}

/// Every model, and those with a path in time at full resolution alone.
pub(super) fn measure(
    device: &AnyDevice,
    images: &Images,
    wanted: &Wanted<'_>,
) -> Result<Vec<WholeTime>> {
    let mut times = Vec::new();
    for &model in &wanted.models {
        let options = Matching::of(model);
        times.push(time(
            (device, wanted.host),
            images,
            format!("{}, default schedule", model.name()),
            (&options, true),
        )?);
        if let Some(steps) = model.get("time_steps") {
            let schedule = Schedule::of(&[(1, 50)]);
            let full = Multiscale { schedule, convergence: 0.0, ..options.multiscale };
            let options = Matching { multiscale: full, ..options };
            let what = format!("{}, {steps} time steps, full resolution alone", model.name());
            times.push(time((device, wanted.host), images, what, (&options, false))?);
        }
    }
    Ok(times)
}

fn time(
    (device, host): (&AnyDevice, &dyn Host),
    images: &Images,
    what: String,
    options: (&Matching, bool),
) -> Result<WholeTime> {
    let once = || {
        let start = Instant::now();
        let similarity = Similarity::LNCC;
        let result = images.register(device, similarity, options, &Watch::new(host))?;
        Ok::<_, Error>((start.elapsed().as_secs_f64(), result))
    };
    let (cold, _) = once()?;
    let (warm, result) = once()?;
    Ok(WholeTime {
        what,
        iterations: result.scales.iter().map(|s| s.energies.len()).collect(),
        cold,
        warm,
        scales: result.scales.iter().map(|s| s.seconds).sum(),
        verdict_good: result.verdict.good,
    })
}

/// The times as a table.
pub(super) fn table(times: &[WholeTime]) -> Option<Table> {
    if times.is_empty() {
        return None;
    }
    let mut table =
        Table::new(["registration, lncc", "iterations", "cold s", "warm s", "scales s", "verdict"]);
    for t in times {
        let iterations: Vec<_> = t.iterations.iter().map(usize::to_string).collect();
        table.row([
            t.what.clone(),
            iterations.join("+"),
            format!("{:.3}", t.cold),
            format!("{:.3}", t.warm),
            format!("{:.3}", t.scales),
            (if t.verdict_good { "good" } else { "bad" }).to_owned(),
        ]);
    }
    Some(table)
}
