//! Many local searches evaluated side by side.

use super::objective::{Evaluation, Objective};
use super::optimiser::{OptimiserKind, Steps};
use super::pose::{Freedom, Model, Pose};
use crate::error::Result;
use voxalign_image::Affine;

/// A pose with its cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) pose: Pose,
    pub(crate) cost: f64,
}

/// The costs of poses, without derivatives; `cost` is that of an evaluation. `told` is called after each batch with
/// the fraction of the poses that are done; an error from it ends the evaluation.
pub(crate) fn costs(
    objective: &dyn Objective,
    model: &Model,
    poses: &[Pose],
    cost: fn(&Evaluation) -> f64,
    told: &mut dyn FnMut(&[Evaluation], f64) -> Result<()>,
) -> Result<Vec<Candidate>> {
    let mut all = Vec::with_capacity(poses.len());
    for batch in poses.chunks(objective.batch()) {
        let maps: Vec<Affine> = batch.iter().map(|p| model.affine(p)).collect();
        let found = objective.evaluate(&maps, false)?;
        all.extend(batch.iter().zip(&found).map(|(&pose, e)| Candidate { pose, cost: cost(e) }));
        told(&found, all.len() as f64 / poses.len() as f64)?;
    }
    Ok(all)
}

/// Refines poses side by side: every round evaluates one point of each search together. `told` is called after each
/// batch with the fraction of the searches that are over; an error from it ends them.
#[allow(clippy::too_many_arguments)]
pub(crate) fn refine(
    objective: &dyn Objective,
    model: &Model,
    kind: OptimiserKind,
    poses: &[Pose],
    freedom: Freedom,
    steps: Steps,
    told: &mut dyn FnMut(&[Evaluation], f64) -> Result<()>,
) -> Result<Vec<Candidate>> {
    let zeros = vec![0.0; model.parameters(freedom)];
    let gradient = kind.needs_gradient();
    let mut searches: Vec<_> = poses.iter().map(|_| kind.start(&zeros, steps)).collect();
    loop {
        let asked: Vec<(usize, Vec<f64>)> = searches
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.ask().map(|q| (i, q.to_vec())))
            .collect();
        if asked.is_empty() {
            break;
        }
        for batch in asked.chunks(objective.batch()) {
            let maps: Vec<Affine> = batch
                .iter()
                .map(|(i, q)| model.affine(&model.moved(&poses[*i], freedom, q)))
                .collect();
            let costs = objective.evaluate(&maps, gradient)?;
            told(&costs, 1.0 - asked.len() as f64 / searches.len() as f64)?;
            for ((i, q), e) in batch.iter().zip(&costs) {
                let g = match &e.gradient {
                    Some(rows) => model.gradient(&poses[*i], freedom, q, rows),
                    None => Vec::new(),
                };
                searches[*i].tell(e.cost, &g);
            }
        }
    }
    Ok(poses
        .iter()
        .zip(&searches)
        .map(|(pose, s)| {
            let (q, cost) = s.best();
            Candidate { pose: model.moved(pose, freedom, q), cost }
        })
        .collect())
}
