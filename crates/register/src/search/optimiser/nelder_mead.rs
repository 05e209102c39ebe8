//! The simplex method of Nelder and Mead (1965), with the steps of Lagarias et al. (1998): reflection 1,
//! expansion 2, contraction 1/2, shrinkage 1/2.

use super::{Kind, Optimiser, Steps};
use voxalign_options::Parameters;

/// The purpose of the point that is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The corner of this number, of the first simplex or one that shrank.
    Corner(usize),
    Reflection,
    /// Further out than a reflection that was the best, of this cost.
    Expansion(f64),
    /// Between the centre and the worse of the worst corner and its reflection, of this cost.
    Contraction(f64),
    Done,
}

/// The downhill simplex method.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct NelderMead {
    /// Edge length of the initial simplex, in multiples of the initial step
    #[parameter(default = 1.0, above = 0.0, most = 100.0)]
    pub simplex: f64,
}

impl Kind for NelderMead {
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        Box::new(Search::new(at, steps, self))
    }
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    steps: Steps,
    /// The edge of the first simplex.
    edge: f64,
    /// Corners with their costs; sorted, best first, unless costs are being found.
    corners: Vec<(Vec<f64>, f64)>,
    /// The mean of all corners but the worst.
    centre: Vec<f64>,
    reflected: Vec<f64>,
    trial: Vec<f64>,
    stage: Stage,
    evaluations: usize,
    best: (Vec<f64>, f64),
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: NelderMead) -> Self {
        let n = start.len();
        let edge = of.simplex * steps.first;
        let corner = |i: usize| {
            let mut at = start.to_vec();
            if let Some(v) = i.checked_sub(1).and_then(|a| at.get_mut(a)) {
                *v += edge;
            }
            (at, f64::INFINITY)
        };
        Self {
            steps,
            edge,
            corners: (0..=n).map(corner).collect(),
            centre: vec![0.0; n],
            reflected: vec![0.0; n],
            trial: start.to_vec(),
            stage: if n == 0 { Stage::Done } else { Stage::Corner(0) },
            evaluations: 0,
            best: (start.to_vec(), f64::INFINITY),
        }
    }

    /// A point on the line from the worst corner through the centre.
    fn beyond(&self, factor: f64) -> Vec<f64> {
        let worst = &self.corners[self.corners.len() - 1].0;
        self.centre.iter().zip(worst).map(|(c, w)| c + factor * (c - w)).collect()
    }

    fn next(&mut self) {
        self.corners.sort_by(|a, b| a.1.total_cmp(&b.1));
        let n = self.corners.len() - 1;
        let first = &self.corners[0].0;
        let apart = |c: &(Vec<f64>, f64)| {
            c.0.iter().zip(first).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
        };
        let size = self.corners.iter().map(apart).fold(0.0, f64::max);
        let (low, high) = (self.corners[0].1, self.corners[n].1);
        let flat = high - low < self.steps.improvement;
        let small = size < self.steps.tolerance;
        // Where all corners cost the same in spite of their distance, a smaller simplex says the same.
        if small || !low.is_finite() || (flat && (size < self.edge || high == low)) {
            self.stage = Stage::Done;
            return;
        }
        for (a, c) in self.centre.iter_mut().enumerate() {
            *c = self.corners[..n].iter().map(|c| c.0[a]).sum::<f64>() / n as f64;
        }
        self.reflected = self.beyond(1.0);
        self.trial.clone_from(&self.reflected);
        self.stage = Stage::Reflection;
    }

    fn take(&mut self, at: Vec<f64>, cost: f64) {
        if let Some(worst) = self.corners.last_mut() {
            *worst = (at, cost);
        }
        self.next();
    }

    /// All corners come nearer to the best.
    fn shrink(&mut self) {
        let first = self.corners[0].0.clone();
        for (at, _) in &mut self.corners[1..] {
            at.iter_mut().zip(&first).for_each(|(v, f)| *v = f + 0.5 * (*v - f));
        }
        self.trial.clone_from(&self.corners[1].0);
        self.stage = Stage::Corner(1);
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        (self.stage != Stage::Done).then_some(&*self.trial)
    }

    fn tell(&mut self, cost: f64, _: &[f64]) {
        if self.stage == Stage::Done {
            return;
        }
        self.evaluations += 1;
        let cost = if cost.is_nan() { f64::INFINITY } else { cost };
        let trial = self.trial.clone();
        if cost < self.best.1 {
            self.best = (trial.clone(), cost);
        }
        let n = self.corners.len() - 1;
        let (low, second, high) = (self.corners[0].1, self.corners[n - 1].1, self.corners[n].1);
        match self.stage {
            Stage::Corner(i) => {
                self.corners[i].1 = cost;
                if i < n {
                    self.trial.clone_from(&self.corners[i + 1].0);
                    self.stage = Stage::Corner(i + 1);
                } else {
                    self.next();
                }
            }
            Stage::Reflection if cost < low => {
                self.trial = self.beyond(2.0);
                self.stage = Stage::Expansion(cost);
            }
            Stage::Reflection if cost < second => self.take(trial, cost),
            Stage::Reflection => {
                self.trial = self.beyond(if cost < high { 0.5 } else { -0.5 });
                self.stage = Stage::Contraction(cost.min(high));
            }
            Stage::Expansion(reflected) if cost < reflected => self.take(trial, cost),
            Stage::Expansion(reflected) => self.take(self.reflected.clone(), reflected),
            Stage::Contraction(worse) if cost < worse => self.take(trial, cost),
            Stage::Contraction(_) => self.shrink(),
            Stage::Done => {}
        }
        if self.evaluations >= self.steps.evaluations * n.max(1) {
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
