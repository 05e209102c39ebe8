//! One iteration at full resolution.

use super::pair::Images;
use super::{SolverKind, Table, Wanted};
use serde::Serialize;
use voxalign_compute::ops::elastic::Boundary;
use voxalign_compute::select::AnyDevice;
use voxalign_jobs::Result;
use voxalign_register::Choice;
use voxalign_register::diffeo::{DeformModel, Matching, Multiscale};
use voxalign_register::multiscale::Schedule;
use voxalign_register::similarity::Similarity;

/// Steps that are not counted: the first of the hybrid solver is exact, and kernels are compiled.
const WARM: usize = 4;
/// Steps that are counted.
const COUNTED: usize = 9;

/// The time of an iteration.
#[derive(Debug, Serialize)]
pub(super) struct IterationTime {
    pub(super) model: &'static str,
    pub(super) solver: String,
    pub(super) similarity: &'static str,
    pub(super) milliseconds: f64,
}

/// Every model and solver with the local correlation and with the squared difference.
pub(super) fn measure(
    device: &AnyDevice,
    images: &Images,
    wanted: &Wanted<'_>,
) -> Result<Vec<IterationTime>> {
    let mut times = Vec::new();
    for &model in &wanted.models {
        for similarity in [Similarity::LNCC, Similarity::SSD] {
            // Sines take longer than waves that go on around the border.
            let periodic = wanted.solvers.iter().filter(|s| matches!(s, SolverKind::Fft(_)));
            let all = wanted.solvers.iter().map(|s| (*s, Boundary::Zero));
            for (solver, boundary) in all.chain(periodic.map(|s| (*s, Boundary::Periodic))) {
                if !model.takes(&solver) {
                    continue;
                }
                let mut options = options(model, solver);
                options.solver.set("boundary", boundary.name())?;
                let seen = images.steps(device, similarity, (&options, false), wanted.host)?.seen();
                let ends: Vec<_> = seen.steps.iter().map(|s| s.end).collect();
                let mut seconds: Vec<_> = ends
                    .windows(2)
                    .skip(WARM - 1)
                    .map(|w| w[1].duration_since(w[0]).as_secs_f64())
                    .collect();
                seconds.sort_by(f64::total_cmp);
                times.push(IterationTime {
                    model: model.name(),
                    solver: match boundary {
                        Boundary::Zero => solver.name().to_owned(),
                        Boundary::Periodic => format!("{}, periodic", solver.name()),
                    },
                    similarity: similarity.name(),
                    milliseconds: seconds.get(seconds.len() / 2).map_or(f64::NAN, |s| s * 1e3),
                });
            }
        }
    }
    Ok(times)
}

fn options(model: DeformModel, solver: SolverKind) -> Matching {
    let multiscale = Multiscale {
        schedule: Schedule::of(&[(1, WARM + COUNTED + 1)]),
        convergence: 0.0,
        ..Multiscale::default()
    };
    Matching { solver, multiscale, ..Matching::of(model) }
}

/// The times as a table.
pub(super) fn table(times: &[IterationTime]) -> Option<Table> {
    if times.is_empty() {
        return None;
    }
    let mut table = Table::new(["one iteration, full resolution", "solver", "similarity", "ms"]);
    for t in times {
        let ms = format!("{:.3}", t.milliseconds);
        table.row([t.model, &t.solver, t.similarity, &ms]);
    }
    Some(table)
}
