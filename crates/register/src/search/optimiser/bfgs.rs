//! The method of Broyden, Fletcher, Goldfarb and Shanno with a line search for the weak Wolfe
//! conditions (Nocedal and Wright, Numerical Optimization, chapters 3 and 6).
//!
//! The paper's framework uses Powell's method, which needs no derivatives. Here the exact
//! derivative costs about as much as one more evaluation, so that a quasi-Newton method reaches the
//! minimum in some ten evaluations instead of hundreds.

use super::{Kind, Optimiser, Steps};
use nalgebra::{DMatrix, DVector};
use voxalign_options::Parameters;

/// The method of Broyden, Fletcher, Goldfarb and Shanno.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Bfgs {
    /// Constant of the Wolfe curvature condition: fraction of the initial slope that may remain at the end of a line
    /// search
    #[parameter(default = 0.9, unit = "PART", above = ARMIJO, below = 1.0)]
    pub wolfe: f64,
}

impl Kind for Bfgs {
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
    of: Bfgs,
    /// Best point so far, its value and gradient.
    x: DVector<f64>,
    f: f64,
    g: DVector<f64>,
    inverse: DMatrix<f64>,
    scaled: bool,
    direction: DVector<f64>,
    derivative: f64,
    step: f64,
    /// Bracket of the line search: the best step known to be too short, and one known to be too
    /// long with its value.
    short: f64,
    long: Option<f64>,
    /// The point asked for.
    trial: DVector<f64>,
    /// The best trial of this line search that is low enough, with its value and gradient.
    fallback: Option<(DVector<f64>, f64, DVector<f64>)>,
    trials: usize,
    evaluations: usize,
    small: usize,
    started: bool,
    done: bool,
}

const ARMIJO: f64 = 1e-4;
const MOST_TRIALS: usize = 10;

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: Bfgs) -> Self {
        let n = start.len();
        let x = DVector::from_column_slice(start);
        Self {
            steps,
            of,
            trial: x.clone(),
            fallback: None,
            x,
            f: f64::INFINITY,
            g: DVector::zeros(n),
            inverse: DMatrix::identity(n, n),
            scaled: false,
            direction: DVector::zeros(n),
            derivative: 0.0,
            step: 0.0,
            short: 0.0,
            long: None,
            trials: 0,
            evaluations: 0,
            small: 0,
            started: false,
            done: n == 0,
        }
    }

    fn begin_line_search(&mut self) {
        self.direction = -(&self.inverse * &self.g);
        self.derivative = self.direction.dot(&self.g);
        if self.derivative >= 0.0 || !self.derivative.is_finite() {
            self.inverse.fill_with_identity();
            self.scaled = false;
            self.direction = -&self.g;
            self.derivative = self.direction.dot(&self.g);
        }
        let length = self.direction.norm();
        if length <= 0.0 || !length.is_finite() {
            self.done = true;
            return;
        }
        let limit = self.steps.longest / length;
        self.step = if self.scaled { 1f64.min(limit) } else { self.steps.first / length };
        self.short = 0.0;
        self.long = None;
        self.fallback = None;
        self.trials = 0;
        self.trial = &self.x + &self.direction * self.step;
    }

    fn line_search(&mut self, f: f64, g: DVector<f64>) {
        self.trials += 1;
        let length = self.direction.norm();
        let derivative_here = g.dot(&self.direction);
        let enough = f.is_finite() && f <= self.f + ARMIJO * self.step * self.derivative;
        let flat = derivative_here >= self.of.wolfe * self.derivative;
        let at_limit = self.step * length >= self.steps.longest * 0.999;
        if enough && (flat || at_limit || self.trials >= MOST_TRIALS) {
            self.accept(f, g);
            return;
        }
        if enough {
            // Still going down steeply: go on, remembering this point as the one to beat.
            if self.fallback.as_ref().is_none_or(|(_, best, _)| f < *best) {
                self.fallback = Some((self.trial.clone(), f, g));
            }
            self.short = self.step;
            let next = match self.long {
                Some(long) => 0.5 * (self.step + long),
                None => self.step * 3.0,
            };
            self.step = next.min(self.steps.longest / length);
        } else {
            let old = self.step;
            self.long = Some(old);
            let width = old - self.short;
            // The parabola through the value and derivative at the start and the value here.
            let bend = f - self.f - self.derivative * old;
            let guess = if self.short == 0.0 && f.is_finite() && bend > 0.0 {
                -self.derivative * old * old / (2.0 * bend)
            } else {
                self.short + 0.5 * width
            };
            self.step = guess.clamp(self.short + 0.1 * width, self.short + 0.6 * width);
            let too_short = (old - self.short) * length < self.steps.tolerance;
            if too_short || self.trials >= MOST_TRIALS {
                if self.fall_back() {
                    self.begin_line_search();
                } else {
                    self.done = true;
                }
                return;
            }
        }
        self.trial = &self.x + &self.direction * self.step;
    }

    /// Takes the best trial of a line search that did not end well; false where there is none.
    fn fall_back(&mut self) -> bool {
        match self.fallback.take() {
            Some((x, f, g)) if f < self.f => {
                self.x = x;
                self.f = f;
                self.g = g;
                self.inverse.fill_with_identity();
                self.scaled = false;
                true
            }
            _ => false,
        }
    }

    fn accept(&mut self, f: f64, g: DVector<f64>) {
        let s = &self.trial - &self.x;
        let y = &g - &self.g;
        let sy = s.dot(&y);
        let gain = self.f - f;
        self.x = self.trial.clone();
        self.f = f;
        self.g = g;
        if sy > 1e-12 * s.norm() * y.norm() && sy > 0.0 {
            if !self.scaled {
                self.inverse.fill_with_identity();
                self.inverse *= sy / y.dot(&y);
                self.scaled = true;
            }
            let hy = &self.inverse * &y;
            let factor = (1.0 + y.dot(&hy) / sy) / sy;
            self.inverse += (&s * s.transpose()) * factor;
            self.inverse -= (&hy * s.transpose() + &s * hy.transpose()) / sy;
        }
        if gain < self.steps.improvement {
            self.small += 1;
        } else {
            self.small = 0;
        }
        if s.norm() < self.steps.tolerance || self.small >= 2 {
            self.done = true;
            return;
        }
        self.begin_line_search();
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        (!self.done).then(|| self.trial.as_slice())
    }

    fn best(&self) -> (&[f64], f64) {
        (self.x.as_slice(), self.f)
    }

    fn evaluations(&self) -> usize {
        self.evaluations
    }

    fn tell(&mut self, f: f64, gradient: &[f64]) {
        if self.done {
            return;
        }
        self.evaluations += 1;
        let g = DVector::from_column_slice(gradient);
        if !self.started {
            self.started = true;
            self.f = f;
            self.g = g;
            if !f.is_finite() {
                self.done = true;
            } else {
                self.begin_line_search();
            }
        } else {
            self.line_search(f, g);
        }
        if self.evaluations >= self.steps.evaluations {
            self.fall_back();
            self.done = true;
        }
    }
}
