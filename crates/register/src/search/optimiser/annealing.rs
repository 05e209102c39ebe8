//! Simulated annealing (Kirkpatrick et al. 1983) in the manner of Corana et al. (1987): normally distributed
//! steps along one axis after the other, with a width for each axis that adapts to the acceptance rate.
//!
//! The temperature falls geometrically over half of the evaluations. The others are for a descent by Powell's
//! method from the best point: chance finds the valley, but not its bottom.

use super::{Kind, Optimiser, Steps, powell};
use crate::random::{Random, SEED};
use voxalign_options::Parameters;

/// Points near the start at which the cost is looked at, for each parameter.
const PROBES: usize = 4;
/// By what a width grows where a step is taken.
const GROWTH: f64 = 1.5;
/// The part of steps that is taken where a width stays as it is.
const TAKEN: f64 = 0.44;

/// The purpose of the point that is asked for.
#[derive(Debug, Clone)]
enum Stage {
    Start,
    /// Near the start, the spread of costs.
    Probe,
    /// A step along the axis of this number.
    Step(usize),
    /// One of the descent at the end.
    Descent(Box<powell::Search>),
    Done,
}

/// Simulated annealing.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Annealing {
    /// Initial temperature, in units of the mean cost difference between the start and points near it
    #[parameter(default = 2.0, above = 0.0)]
    pub temperature: f64,
    /// Final temperature, as a fraction of the initial one
    #[parameter(default = 1e-2, unit = "PART", above = 0.0, below = 1.0)]
    pub cooling: f64,
}

impl Kind for Annealing {
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        Box::new(Search::new(at, steps, self))
    }
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    steps: Steps,
    of: Annealing,
    random: Random,
    /// The current point and its cost.
    at: (Vec<f64>, f64),
    /// Widths of the steps along the axes.
    widths: Vec<f64>,
    temperature: f64,
    /// By what the temperature falls at each step.
    cooling: f64,
    /// Sum and number of the costs' differences from the start.
    differences: (f64, usize),
    trial: Vec<f64>,
    stage: Stage,
    best: (Vec<f64>, f64),
    evaluations: usize,
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: Annealing) -> Self {
        let at = (start.to_vec(), f64::INFINITY);
        Self {
            steps,
            of,
            random: Random::new(SEED),
            best: at.clone(),
            at,
            widths: vec![steps.first; start.len()],
            temperature: 0.0,
            cooling: 1.0,
            differences: (0.0, 0),
            trial: start.to_vec(),
            stage: if start.is_empty() { Stage::Done } else { Stage::Start },
            evaluations: 0,
        }
    }

    /// Evaluations before the descent.
    fn half(&self) -> usize {
        self.steps.evaluations * self.widths.len() / 2
    }

    fn probe(&mut self) {
        let count = self.differences.1;
        if count < (PROBES * self.widths.len()).min(self.half() / 4) {
            self.ask_along(count % self.widths.len(), Stage::Probe);
        } else {
            self.heat();
        }
    }

    /// Asks for a point along an axis.
    fn ask_along(&mut self, axis: usize, stage: Stage) {
        let step = self.widths[axis] * self.random.normal();
        let longest = self.steps.longest;
        self.trial.clone_from(&self.at.0);
        self.trial[axis] += step.min(longest).max(-longest);
        self.stage = stage;
    }

    /// Begins at the temperature at which costs differ.
    fn heat(&mut self) {
        let (sum, count) = self.differences;
        let left = self.half().saturating_sub(self.evaluations);
        if sum > 0.0 && left > 0 {
            self.temperature = self.of.temperature * sum / count as f64;
            self.cooling = self.of.cooling.powf(1.0 / left as f64);
            self.ask_along(0, Stage::Step(0));
        } else {
            self.descend();
        }
    }

    fn end_step(&mut self, axis: usize, cost: f64) {
        let chance = ((self.at.1 - cost) / self.temperature).exp();
        let width = &mut self.widths[axis];
        if self.random.uniform() < chance {
            self.at.0.clone_from(&self.trial);
            self.at.1 = cost;
            *width = (*width * GROWTH).min(self.steps.longest);
        } else {
            *width *= GROWTH.powf(-TAKEN / (1.0 - TAKEN));
        }
        self.temperature *= self.cooling;
        if self.evaluations < self.half() && self.widest() >= self.steps.tolerance {
            let next = (axis + 1) % self.widths.len();
            self.ask_along(next, Stage::Step(next));
        } else {
            self.descend();
        }
    }

    fn widest(&self) -> f64 {
        self.widths.iter().copied().fold(0.0, f64::max)
    }

    fn descend(&mut self) {
        let (at, told) = (&self.best.0, self.evaluations);
        self.stage =
            Stage::Descent(Box::new(powell::Search::ending(at, self.widest(), told, self.steps)));
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        match &self.stage {
            Stage::Done => None,
            Stage::Descent(search) => search.ask(),
            _ => Some(&self.trial),
        }
    }

    fn tell(&mut self, cost: f64, _: &[f64]) {
        let Some(at) = self.ask() else { return };
        let cost = if cost.is_nan() { f64::INFINITY } else { cost };
        if cost < self.best.1 {
            self.best = (at.to_vec(), cost);
        }
        self.evaluations += 1;
        match &mut self.stage {
            Stage::Start if cost.is_finite() => {
                self.at.1 = cost;
                self.probe();
            }
            Stage::Start => self.stage = Stage::Done,
            Stage::Probe => {
                let difference = (cost - self.at.1).abs();
                self.differences.0 += if difference.is_finite() { difference } else { 0.0 };
                self.differences.1 += 1;
                self.probe();
            }
            &mut Stage::Step(axis) => self.end_step(axis, cost),
            Stage::Descent(search) => search.tell(cost, &[]),
            Stage::Done => {}
        }
        if self.evaluations >= self.steps.evaluations * self.widths.len() {
            self.stage = Stage::Done;
        }
    }

    fn best(&self) -> (&[f64], f64) {
        (&self.best.0, self.best.1)
    }

    fn evaluations(&self) -> usize {
        self.evaluations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_follow_the_cost() {
        let steps = Steps {
            first: 1.0,
            longest: 10.0,
            tolerance: 1e-9,
            improvement: 0.0,
            evaluations: 200,
        };
        let mut search = Search::new(&[1.0, 1.0], steps, Annealing::USUAL);
        while !matches!(search.stage, Stage::Descent(_)) {
            let cost = search.ask().map(|x| 100.0 * x[0] * x[0] + x[1] * x[1]).unwrap();
            search.tell(cost, &[]);
        }
        assert!(search.evaluations() <= 200, "{}", search.evaluations());
        assert!(search.widths[0] < 0.5 * search.widths[1], "{:?}", search.widths);
    }
}
