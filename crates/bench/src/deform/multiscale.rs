//! The gain from multiple scales: when they reach the energy of the finest scale alone.

use super::pair::{Images, Seen};
use super::{Table, Wanted};
use serde::Serialize;
use voxalign_compute::select::AnyDevice;
use voxalign_jobs::Result;
use voxalign_register::Choice;
use voxalign_register::diffeo::{Matching, Multiscale};
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;

/// Iterations of the finest scale alone.
const ALONE: usize = 200;

/// The finest scale alone against all of them.
#[derive(Debug, Serialize)]
pub(super) struct ScalesWorth {
    pub(super) model: &'static str,
    pub(super) similarity: &'static str,
    /// The energy before the last iteration of the finest scale alone.
    pub(super) energy: f64,
    pub(super) alone_seconds: f64,
    /// Iterations at each scale until the energy is as low on the finest; empty where it never is.
    pub(super) iterations: Vec<usize>,
    pub(super) seconds: Option<f64>,
}

/// Every model with the local correlation.
pub(super) fn measure(
    device: &AnyDevice,
    images: &Images,
    wanted: &Wanted<'_>,
) -> Result<Vec<ScalesWorth>> {
    let mut found = Vec::new();
    for &model in &wanted.models {
        let similarity = Similarity::LNCC;
        let usual = Matching::of(model);
        let finest = Schedule::of(&[(1, ALONE)]);
        let coarse = usual.multiscale.scales().iter().copied().filter(|s| s.factor > 1);
        let schedule = Schedule(coarse.chain(finest.0.iter().copied()).collect());
        let never = Multiscale { schedule: finest, convergence: 0.0, ..Multiscale::default() };
        let alone = Matching { multiscale: never, ..usual.clone() };
        let multiscale = Multiscale { schedule, ..usual.multiscale };
        let together = Matching { multiscale, ..usual };

        let one = images.steps(device, similarity, (&alone, true), wanted.host)?.seen();
        let all = images.steps(device, similarity, (&together, true), wanted.host)?.seen();
        let Some((energy, alone_seconds)) =
            one.steps.last().map(|s| s.energy).zip(one.seconds(one.steps.len()))
        else {
            continue;
        };
        let last = together.multiscale.scales().len() - 1;
        let reached = all.steps.iter().position(|s| s.scale == last && s.energy <= energy);
        let count = reached.unwrap_or(0);
        let at_scale = |k: usize| all.steps[..count].iter().filter(|s| s.scale == k).count();
        found.push(ScalesWorth {
            model: model.name(),
            similarity: similarity.name(),
            energy,
            alone_seconds,
            iterations: reached.map_or_else(Vec::new, |_| (0..=last).map(at_scale).collect()),
            seconds: reached.and_then(|_| all.seconds(count)),
        });
    }
    Ok(found)
}

impl Seen {
    /// Seconds from the start until `count` steps were over.
    fn seconds(&self, count: usize) -> Option<f64> {
        let end = self.steps.get(count.checked_sub(1)?)?.end;
        Some(end.duration_since(self.start?).as_secs_f64())
    }
}

/// The comparison as a table.
pub(super) fn table(found: &[ScalesWorth]) -> Option<Table> {
    if found.is_empty() {
        return None;
    }
    let mut table = Table::new([
        "until the energy of the finest scale alone",
        "energy",
        "alone s",
        "scales s",
        "iterations",
        "times sooner",
    ]);
    for f in found {
        let iterations: Vec<_> = f.iterations.iter().map(usize::to_string).collect();
        let or_never = |v: Option<f64>, digits: usize| {
            v.map_or_else(|| "never".to_owned(), |v| format!("{v:.digits$}"))
        };
        table.row([
            format!("{}, {}", f.model, f.similarity),
            format!("{:.5}", f.energy),
            format!("{:.3}", f.alone_seconds),
            or_never(f.seconds, 3),
            iterations.join("+"),
            or_never(f.seconds.map(|s| f.alone_seconds / s), 1),
        ]);
    }
    Some(table)
}
