//! The method of Levenberg (1944) and Marquardt (1963): Newton steps whose curvature is damped by a multiple of
//! its diagonal, which falls where steps achieve the predicted reduction and rises where they do not.
//!
//! As costs and gradients are all that is told, the curvature is found from differences of exact gradients along
//! the axes, an evaluation for each parameter, and made symmetric. While steps gain about what it promises it is
//! kept, so that most of them take a single evaluation. The damping is raised until it is positive definite.

use super::{Kind, Optimiser, Steps};
use nalgebra::{DMatrix, DVector};
use voxalign_options::Parameters;

/// The bounds of the damping, and by what it rises and falls.
const LEAST: f64 = 1e-12;
const MOST: f64 = 1e12;
const RISE: f64 = 4.0;
const FALL: f64 = 0.1;
/// The least diagonal, as a part of its largest element.
const DIAGONAL: f64 = 1e-3;
/// The largest deviation of a gain from its prediction, as a fraction of it, with which the curvature is kept.
const CLOSE: f64 = 0.25;
/// The width of finite differences, as a fraction of the last step.
const WIDTH: f64 = 0.1;

/// The purpose of the point that is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Start,
    /// A little way along the axis of this number.
    Axis(usize),
    Step,
    Done,
}

/// The method of Levenberg and Marquardt.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct LevenbergMarquardt {
    /// Initial damping, as a fraction of the diagonal of the approximate Hessian
    #[parameter(default = 1e-3, unit = "PART", least = LEAST, most = MOST, remedy = "give a number from 1e-12 to 1e12")]
    pub damping: f64,
}

impl Kind for LevenbergMarquardt {
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        Box::new(Search::new(at, steps, self))
    }

    fn needs_gradient(self) -> bool {
        true
    }
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    steps: Steps,
    /// The current point, its cost and gradient.
    x: DVector<f64>,
    f: f64,
    g: DVector<f64>,
    curvature: DMatrix<f64>,
    /// Whether the curvature was computed at the current point.
    fresh: bool,
    damping: f64,
    /// The longest step now.
    longest: f64,
    /// The length of the step asked for or taken last, and its gain by the curvature.
    length: f64,
    promised: f64,
    trial: DVector<f64>,
    stage: Stage,
    best: (DVector<f64>, f64),
    evaluations: usize,
    small: usize,
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: LevenbergMarquardt) -> Self {
        let n = start.len();
        let x = DVector::from_column_slice(start);
        Self {
            steps,
            f: f64::INFINITY,
            g: DVector::zeros(n),
            curvature: DMatrix::zeros(n, n),
            fresh: false,
            damping: of.damping,
            longest: steps.first,
            length: steps.first,
            promised: 0.0,
            trial: x.clone(),
            stage: if n == 0 { Stage::Done } else { Stage::Start },
            best: (x.clone(), f64::INFINITY),
            x,
            evaluations: 0,
            small: 0,
        }
    }

    /// The distance along an axis over which gradients are compared.
    fn width(&self) -> f64 {
        (WIDTH * self.length).max(self.steps.tolerance).min(WIDTH * self.steps.first)
    }

    fn measure(&mut self, axis: usize) {
        self.trial.copy_from(&self.x);
        self.trial[axis] += self.width();
        self.stage = Stage::Axis(axis);
    }

    fn measured(&mut self, axis: usize, g: &DVector<f64>) {
        // The width as it is after rounding.
        let column = (g - &self.g) / (self.trial[axis] - self.x[axis]);
        if column.iter().all(|v| v.is_finite()) {
            self.curvature.set_column(axis, &column);
        } else {
            self.curvature.column_mut(axis).fill(0.0);
        }
        if axis + 1 < self.x.len() {
            self.measure(axis + 1);
            return;
        }
        self.curvature = (&self.curvature + self.curvature.transpose()) * 0.5;
        self.fresh = true;
        self.step();
    }

    /// Asks for the damped Newton step, with as much damping as it takes to descend and not to go too far.
    fn step(&mut self) {
        let norm = self.g.norm();
        let mut diagonal = self.curvature.diagonal().abs();
        let largest = diagonal.max();
        // Without any curvature the step follows the gradient.
        let least = if largest > 0.0 { DIAGONAL * largest } else { norm / self.steps.first };
        diagonal.apply(|d| *d = d.max(least));
        self.damping = self.damping.max(LEAST);
        while self.damping <= MOST && norm > 0.0 {
            let mut damped = self.curvature.clone();
            for (i, d) in diagonal.iter().enumerate() {
                damped[(i, i)] += self.damping * d;
            }
            if let Some(factors) = damped.cholesky() {
                let way = -factors.solve(&self.g);
                let length = way.norm();
                if length <= self.longest {
                    let bend = way.dot(&(&self.curvature * &way));
                    self.promised = -self.g.dot(&way) - 0.5 * bend;
                    self.length = length;
                    self.trial = &self.x + way;
                    self.stage = Stage::Step;
                    return;
                }
            }
            self.damping *= RISE;
        }
        self.stage = Stage::Done;
    }

    fn stepped(&mut self, f: f64, g: DVector<f64>) {
        let gain = self.f - f;
        let ratio = gain / self.promised;
        let short = self.length < self.steps.tolerance;
        if !(gain > 0.0 && g.iter().all(|v| v.is_finite())) {
            if self.fresh && (short || self.promised < self.steps.improvement) {
                self.stage = Stage::Done;
            } else if self.fresh {
                self.damping *= RISE;
                self.step();
            } else {
                self.measure(0);
            }
            return;
        }
        self.x.copy_from(&self.trial);
        (self.f, self.g) = (f, g);
        self.longest = self.steps.longest;
        self.small = if gain < self.steps.improvement { self.small + 1 } else { 0 };
        if short || self.small >= 2 {
            self.stage = Stage::Done;
            return;
        }
        if ratio > 1.0 - CLOSE {
            self.damping *= FALL;
        } else if ratio < CLOSE {
            self.damping *= RISE;
        }
        self.fresh = false;
        if (ratio - 1.0).abs() < CLOSE {
            self.step();
        } else {
            self.measure(0);
        }
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        (self.stage != Stage::Done).then(|| self.trial.as_slice())
    }

    fn tell(&mut self, f: f64, gradient: &[f64]) {
        if self.stage == Stage::Done {
            return;
        }
        self.evaluations += 1;
        if f < self.best.1 {
            self.best.0.copy_from(&self.trial);
            self.best.1 = f;
        }
        let g = DVector::from_column_slice(gradient);
        match self.stage {
            Stage::Start if f.is_finite() && g.norm().is_finite() => {
                (self.f, self.g) = (f, g);
                self.measure(0);
            }
            Stage::Start => self.stage = Stage::Done,
            Stage::Axis(axis) => self.measured(axis, &g),
            Stage::Step => self.stepped(f, g),
            Stage::Done => {}
        }
        if self.evaluations >= self.steps.evaluations {
            self.stage = Stage::Done;
        }
    }

    fn best(&self) -> (&[f64], f64) {
        (self.best.0.as_slice(), self.best.1)
    }

    fn evaluations(&self) -> usize {
        self.evaluations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curvature_of_a_bowl_is_found_once() {
        let steps =
            Steps { first: 0.5, longest: 5.0, tolerance: 1e-6, improvement: 0.0, evaluations: 99 };
        let scales = [1.0, 30.0, 900.0, 4.0, 0.1];
        let mut search = Search::new(&[1.0; 5], steps, LevenbergMarquardt::USUAL);
        let mut measured = 0;
        while let Some(x) = search.ask() {
            let cost = x.iter().zip(scales).map(|(v, s)| s * v * v).sum();
            let gradient: Vec<f64> = x.iter().zip(scales).map(|(v, s)| 2.0 * s * v).collect();
            measured += usize::from(matches!(search.stage, Stage::Axis(_)));
            search.tell(cost, &gradient);
        }
        assert_eq!(measured, 5);
        let found = search.curvature.diagonal();
        assert!(found.iter().zip(scales).all(|(f, s)| (f - 2.0 * s).abs() < 1e-6 * s), "{found}");
        assert!(search.best().1 < 1e-12, "{:?}", search.best());
    }

    #[test]
    fn a_saddle_is_left() {
        let steps =
            Steps { first: 0.5, longest: 5.0, tolerance: 1e-9, improvement: 0.0, evaluations: 99 };
        // The curvature at the start is negative along the second axis.
        let mut search = Search::new(&[1.0, 0.01], steps, LevenbergMarquardt::USUAL);
        while let Some(&[x, y]) = search.ask() {
            let cost = x * x - y * y + 0.25 * y.powi(4);
            search.tell(cost, &[2.0 * x, -2.0 * y + y.powi(3)]);
        }
        let (at, cost) = search.best();
        assert!((at[1].abs() - 2f64.sqrt()).abs() < 1e-6 && (cost + 1.0).abs() < 1e-9, "{at:?}");
    }
}
