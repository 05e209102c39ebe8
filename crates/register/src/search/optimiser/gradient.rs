//! Gradient descent with the steps of Barzilai and Borwein (1988) and the non-monotone line search of Raydan
//! (1997): the cost falls over several steps, not at each. A single short step therefore is not a sign of a
//! minimum; several in a row end the search.

use super::{Kind, Optimiser, Steps};
use nalgebra::DVector;
use voxalign_options::Parameters;

const ARMIJO: f64 = 1e-4;
/// The shorter of the two steps is taken if it is shorter than this fraction of the longer one.
const SHORTER: f64 = 0.8;
/// This many steps in a row below the tolerance end the search.
const SHORT: usize = 5;
/// A step along which the gradient did not grow is followed by one so much longer.
const EXPANSION: f64 = 2.0;

/// Gradient descent.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Gradient {
    /// Number of previous costs whose maximum bounds the next one (non-monotone line search); 1 for monotone descent
    #[parameter(default = 10, unit = "COUNT", least = 1, most = 1000)]
    pub history: usize,
}

impl Kind for Gradient {
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
    of: Gradient,
    /// The current point, its cost and gradient.
    x: DVector<f64>,
    f: f64,
    g: DVector<f64>,
    /// Costs of the last points.
    recent: Vec<f64>,
    /// The factor of the gradient.
    factor: f64,
    /// The point asked for.
    trial: DVector<f64>,
    best: (DVector<f64>, f64),
    evaluations: usize,
    /// Steps in a row that were short, and that gained little.
    short: usize,
    small: usize,
    done: bool,
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: Gradient) -> Self {
        let x = DVector::from_column_slice(start);
        Self {
            steps,
            of,
            f: f64::INFINITY,
            g: DVector::zeros(start.len()),
            recent: Vec::with_capacity(of.history),
            factor: 0.0,
            trial: x.clone(),
            best: (x.clone(), f64::INFINITY),
            x,
            evaluations: 0,
            short: 0,
            small: 0,
            done: start.is_empty(),
        }
    }

    /// Goes on from a point with a step of this length.
    fn descend(&mut self, f: f64, g: DVector<f64>, length: f64) {
        if self.recent.len() == self.of.history {
            self.recent.remove(0);
        }
        self.recent.push(f);
        self.x.copy_from(&self.trial);
        let norm = g.norm();
        (self.f, self.g) = (f, g);
        if norm > 0.0 && norm.is_finite() {
            self.factor = length.min(self.steps.longest) / norm;
            self.ask_next();
        } else {
            self.done = true;
        }
    }

    fn ask_next(&mut self) {
        self.trial = &self.x - &self.g * self.factor;
    }

    fn accept(&mut self, f: f64, g: DVector<f64>) {
        let (s, y) = (&self.trial - &self.x, &g - &self.g);
        let (ss, sy, yy) = (s.dot(&s), s.dot(&y), y.dot(&y));
        let length = ss.sqrt();
        self.short = if length < self.steps.tolerance { self.short + 1 } else { 0 };
        let little = (self.f - f).abs() < self.steps.improvement;
        self.small = if little { self.small + 1 } else { 0 };
        if self.short >= SHORT || self.small >= 2 {
            self.done = true;
            return;
        }
        let next = if sy > 0.0 {
            let (long, short) = (ss / sy, sy / yy);
            (if short < SHORTER * long { short } else { long }) * g.norm()
        } else {
            EXPANSION * length
        };
        self.descend(f, g, next);
    }

    /// A shorter step, from the parabola through the value and derivative at its start and the value at its end.
    fn shorten(&mut self, f: f64) {
        let square = self.g.norm_squared();
        let bend = f - self.f + square * self.factor;
        let guess = 0.5 * square * self.factor / bend;
        let part = if guess.is_finite() { guess.clamp(0.1, 0.5) } else { 0.5 };
        self.factor *= part;
        self.done = self.factor * square.sqrt() < self.steps.tolerance;
        self.ask_next();
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        (!self.done).then(|| self.trial.as_slice())
    }

    fn tell(&mut self, f: f64, gradient: &[f64]) {
        if self.done {
            return;
        }
        self.evaluations += 1;
        if f < self.best.1 {
            self.best.0.copy_from(&self.trial);
            self.best.1 = f;
        }
        let g = DVector::from_column_slice(gradient);
        let highest = self.recent.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if self.recent.is_empty() {
            if f.is_finite() {
                self.descend(f, g, self.steps.first);
            } else {
                self.done = true;
            }
        } else if f <= highest - ARMIJO * self.factor * self.g.norm_squared() {
            self.accept(f, g);
        } else {
            self.shorten(f);
        }
        self.done |= self.evaluations >= self.steps.evaluations;
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
    fn the_cost_may_rise_for_a_while_but_the_best_stays() {
        let steps =
            Steps { first: 0.5, longest: 5.0, tolerance: 1e-9, improvement: 0.0, evaluations: 400 };
        let scales = [1.0, 100.0];
        let mut search = Search::new(&[1.0, 1.0], steps, Gradient::USUAL);
        let (mut rises, mut before) = (0, f64::INFINITY);
        while let Some(x) = search.ask() {
            let cost = x.iter().zip(scales).map(|(v, s)| s * v * v).sum();
            let gradient: Vec<f64> = x.iter().zip(scales).map(|(v, s)| 2.0 * s * v).collect();
            search.tell(cost, &gradient);
            rises += usize::from(search.f > before);
            before = search.f;
            assert!(search.best().1 <= search.f);
        }
        assert!(rises > 0 && search.best().1 < 1e-12, "{rises} {:?}", search.best());
    }
}
