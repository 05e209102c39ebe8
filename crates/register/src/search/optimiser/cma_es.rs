//! Covariance matrix adaptation (Hansen and Ostermeier 2001), with the parameters of Hansen's tutorial (2016):
//! points are drawn from a normal distribution whose mean, covariance and step size follow the better half of
//! them (without negative weights for the worse half).
//!
//! Where half of the evaluations are made before the distribution has become narrow, the others are for a descent
//! by Powell's method from the best point.

use super::{Kind, Optimiser, Steps, powell};
use crate::random::{Random, SEED};
use nalgebra::{DMatrix, DVector, SymmetricEigen};
use voxalign_options::Parameters;

/// The shortest axis of the distribution, as a fraction of the longest.
const THINNEST: f64 = 1e-7;
/// Most sweeps of an eigendecomposition.
const SWEEPS: usize = 1000;

/// The purpose of the point that is asked for.
#[derive(Debug, Clone)]
enum Stage {
    Start,
    /// That of this number in the generation.
    Draw(usize),
    /// One of the descent at the end.
    Descent(Box<powell::Search>),
    Done,
}

/// The parameters of the method, from the number of those of the search.
#[derive(Debug, Clone)]
struct Strategy {
    /// Points of a generation.
    points: usize,
    /// Weights of the better half, best first; their sum is 1.
    weights: Vec<f64>,
    /// The effective number of points, the inverse of the sum of squared weights.
    effective: f64,
    /// Learning rates of the width's path, the covariance's path, the covariance from its path, and from the points.
    width_path: f64,
    path: f64,
    one: f64,
    many: f64,
    /// Damping of the width.
    damping: f64,
    /// The mean length of a vector of normal numbers.
    length: f64,
}

impl Strategy {
    fn new(n: usize, population: Option<usize>) -> Self {
        let n = n as f64;
        let points = population.unwrap_or(4 + (3.0 * n.ln()) as usize);
        let half = (points as f64 + 1.0) / 2.0;
        let raw: Vec<f64> = (1..=points / 2).map(|i| half.ln() - (i as f64).ln()).collect();
        let sum: f64 = raw.iter().sum();
        let weights: Vec<f64> = raw.iter().map(|w| w / sum).collect();
        let effective = 1.0 / weights.iter().map(|w| w * w).sum::<f64>();
        let width_path = (effective + 2.0) / (n + effective + 5.0);
        let one = 2.0 / ((n + 1.3).powi(2) + effective);
        let many = 2.0 * (effective - 2.0 + 1.0 / effective) / ((n + 2.0).powi(2) + effective);
        Self {
            points,
            weights,
            effective,
            width_path,
            path: (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n),
            one,
            many: many.min(1.0 - one),
            damping: 1.0
                + 2.0 * (((effective - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0)
                + width_path,
            length: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
        }
    }
}

/// Covariance matrix adaptation.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct CmaEs {
    /// Population size: points per generation
    #[parameter(
        unit = "COUNT",
        least = 4,
        most = 10_000,
        says = "4 + 3 ln n for n parameters: 9 for 6, 11 for 12"
    )]
    pub population: Option<usize>,
}

impl Kind for CmaEs {
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        Box::new(Search::new(at, steps, self))
    }
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    steps: Steps,
    strategy: Strategy,
    random: Random,
    mean: DVector<f64>,
    width: f64,
    covariance: DMatrix<f64>,
    /// Axes of the covariance, unit columns, and the standard deviations along them.
    axes: DMatrix<f64>,
    deviations: DVector<f64>,
    width_path: DVector<f64>,
    path: DVector<f64>,
    generations: i32,
    /// The steps of this generation from the mean, in widths, and the costs told of them.
    drawn: Vec<(DVector<f64>, f64)>,
    trial: DVector<f64>,
    stage: Stage,
    best: (Vec<f64>, f64),
    evaluations: usize,
    /// Generations in a row in which all points cost the same.
    even: usize,
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: CmaEs) -> Self {
        let n = start.len();
        let mean = DVector::from_column_slice(start);
        Self {
            steps,
            strategy: Strategy::new(n.max(1), of.population),
            random: Random::new(SEED),
            width: steps.first,
            covariance: DMatrix::identity(n, n),
            axes: DMatrix::identity(n, n),
            deviations: DVector::repeat(n, 1.0),
            width_path: DVector::zeros(n),
            path: DVector::zeros(n),
            generations: 0,
            drawn: Vec::new(),
            trial: mean.clone(),
            stage: if n == 0 { Stage::Done } else { Stage::Start },
            best: (start.to_vec(), f64::INFINITY),
            mean,
            evaluations: 0,
            even: 0,
        }
    }

    fn draw(&mut self) {
        let n = self.mean.len();
        self.drawn.clear();
        for _ in 0..self.strategy.points {
            let along = DVector::from_fn(n, |i, _| self.deviations[i] * self.random.normal());
            let mut step = &self.axes * along;
            let length = self.width * step.norm();
            if length > self.steps.longest {
                step *= self.steps.longest / length;
            }
            self.drawn.push((step, f64::INFINITY));
        }
        self.ask_drawn(0);
    }

    fn ask_drawn(&mut self, place: usize) {
        self.trial = &self.mean + &self.drawn[place].0 * self.width;
        self.stage = Stage::Draw(place);
    }

    fn end_draw(&mut self, place: usize, cost: f64) {
        self.drawn[place].1 = cost;
        if place + 1 < self.drawn.len() {
            self.ask_drawn(place + 1);
        } else {
            self.adapt();
        }
    }

    /// Lets the distribution follow the points of a generation.
    fn adapt(&mut self) {
        self.drawn.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (low, high) = (self.drawn[0].1, self.drawn[self.drawn.len() - 1].1);
        if !low.is_finite() {
            // Nothing to learn but that this is too far.
            self.width *= 0.5;
        } else {
            self.learn();
        }
        self.even = if high - low <= self.steps.improvement { self.even + 1 } else { 0 };
        let reach = self.width * self.deviations.max();
        if self.even >= 2 || reach < self.steps.tolerance {
            self.stage = Stage::Done;
        } else if 2 * self.evaluations >= self.steps.evaluations * self.mean.len() {
            let (at, told) = (&self.best.0, self.evaluations);
            self.stage =
                Stage::Descent(Box::new(powell::Search::ending(at, reach, told, self.steps)));
        } else {
            self.width *= (self.steps.longest / reach).min(1.0);
            self.draw();
        }
    }

    fn learn(&mut self) {
        let s = &self.strategy;
        let mut step = DVector::zeros(self.mean.len());
        for ((y, _), w) in self.drawn.iter().zip(&s.weights) {
            step.axpy(*w, y, 1.0);
        }
        self.mean.axpy(self.width, &step, 1.0);
        self.generations += 1;

        let whitened = self.axes.tr_mul(&step).component_div(&self.deviations);
        let keep = (s.width_path * (2.0 - s.width_path) * s.effective).sqrt();
        self.width_path.gemv(keep, &self.axes, &whitened, 1.0 - s.width_path);
        let along = self.width_path.norm();
        // While the width has yet to grow, the covariance does not follow its path.
        let age = 1.0 - (1.0 - s.width_path).powi(2 * self.generations);
        let narrow = along / age.sqrt() >= (1.4 + 2.0 / (self.mean.len() as f64 + 1.0)) * s.length;
        let keep = (s.path * (2.0 - s.path) * s.effective).sqrt();
        self.path.axpy(if narrow { 0.0 } else { keep }, &step, 1.0 - s.path);

        let lost = if narrow { s.one * s.path * (2.0 - s.path) } else { 0.0 };
        let old = 1.0 - s.one - s.many + lost;
        self.covariance.ger(s.one, &self.path, &self.path, old);
        for ((y, _), w) in self.drawn.iter().zip(&s.weights) {
            self.covariance.ger(s.many * w, y, y, 1.0);
        }
        self.width *= ((along / s.length - 1.0) * s.width_path / s.damping).min(1.0).exp();
        self.find_axes();
    }

    fn find_axes(&mut self) {
        let covariance = self.covariance.clone();
        let found = SymmetricEigen::try_new(covariance, f64::EPSILON, SWEEPS)
            .map(|e| (e.eigenvalues.max().sqrt(), e))
            .filter(|(largest, _)| largest.is_finite() && *largest > 0.0);
        if let Some((largest, e)) = found {
            self.deviations = e.eigenvalues.map(|v| v.max(0.0).sqrt().max(THINNEST * largest));
            self.axes = e.eigenvectors;
        } else {
            self.covariance.fill_with_identity();
            self.axes.fill_with_identity();
            self.deviations.fill(1.0);
        }
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        match &self.stage {
            Stage::Done => None,
            Stage::Descent(search) => search.ask(),
            _ => Some(self.trial.as_slice()),
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
            Stage::Start if cost.is_finite() => self.draw(),
            Stage::Start => self.stage = Stage::Done,
            &mut Stage::Draw(place) => self.end_draw(place, cost),
            Stage::Descent(search) => search.tell(cost, &[]),
            Stage::Done => {}
        }
        if self.evaluations >= self.steps.evaluations * self.mean.len() {
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
    fn the_distribution_takes_the_shape_of_the_bowl() {
        let steps = Steps {
            first: 1.0,
            longest: 10.0,
            tolerance: 1e-9,
            improvement: 0.0,
            evaluations: 800,
        };
        let mut search = Search::new(&[1.0, 1.0], steps, CmaEs::USUAL);
        // A valley along (4, 3), ten times as long as it is wide.
        while matches!(search.stage, Stage::Start | Stage::Draw(_)) {
            let x = search.ask().unwrap();
            let (along, across) = (0.8 * x[0] + 0.6 * x[1], 0.8 * x[1] - 0.6 * x[0]);
            search.tell(along * along + 100.0 * across * across, &[]);
        }
        let ratio = search.deviations.max() / search.deviations.min();
        let axis = search.axes.column(search.deviations.imax());
        assert!((axis[0] * 0.8 + axis[1] * 0.6).abs() > 0.98, "{axis}");
        assert!((5.0..20.0).contains(&ratio), "{ratio}");
        assert!(search.best().1 < 1e-12 && search.evaluations() < 1600);
    }

    #[test]
    fn parameters_of_the_tutorial() {
        let found = Strategy::new(10, None);
        assert_eq!((found.points, found.weights.len()), (10, 5));
        assert!((found.weights.iter().sum::<f64>() - 1.0).abs() < 1e-15);
        assert!((found.effective - 3.167).abs() < 1e-3, "{}", found.effective);
        assert!((found.length - 3.0847).abs() < 1e-3, "{}", found.length);
    }
}
