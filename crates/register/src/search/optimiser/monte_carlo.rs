//! Sequential Monte Carlo (Del Moral et al. 2006): particles are weighted by their costs at a temperature that
//! falls as fast as the effective sample size allows, resampled by their weights, and moved by steps that scale
//! with their spread.
//!
//! They have half of the evaluations. The others are for a descent by Powell's method from the best point:
//! chance finds the valley, but not its bottom.

use super::{Kind, Optimiser, Steps, powell};
use crate::random::{Random, SEED};
use voxalign_options::Parameters;

/// How often all particles move, where this is not given and their number allows it.
const ROUNDS: usize = 16;
/// The fewest particles then.
const FEWEST: usize = 8;
/// Halvings of the interval in which a temperature is looked for.
const HALVINGS: usize = 50;
/// The part of moves that is taken where their width stays in proportion to the spread.
const TAKEN: f64 = 0.25;
/// The fraction of the particles, counted with repetition, that must have moved before the temperature falls.
const MOVED: f64 = 0.4;
/// The spread of a distribution to the best width of moves over it, times the root of the number of parameters
/// (Gelman, Roberts and Gilks 1996).
const WIDTH: f64 = 2.38;

/// The purpose of the point that is asked for.
#[derive(Debug, Clone)]
enum Stage {
    Start,
    /// The particle of this number, drawn around the start.
    Draw(usize),
    /// The particle of this number, moved.
    Move(usize),
    /// One of the descent at the end.
    Descent(Box<powell::Search>),
    Done,
}

/// Sequential Monte Carlo.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct MonteCarlo {
    /// Number of particles
    #[parameter(
        unit = "COUNT",
        least = 2,
        most = 100_000,
        says = "8 to 22: 1/32 of the maximum number of evaluations, at least 8"
    )]
    pub particles: Option<usize>,
    /// Effective sample size to which each temperature step may reduce the particles, as a fraction of their number
    #[parameter(default = 0.5, unit = "PART", above = 0.0, below = 1.0)]
    pub sample_size: f64,
}

impl Kind for MonteCarlo {
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        Box::new(Search::new(at, steps, self))
    }
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    steps: Steps,
    of: MonteCarlo,
    random: Random,
    /// Particles with their costs.
    particles: Vec<(Vec<f64>, f64)>,
    /// The inverse of the temperature.
    coldness: f64,
    /// The spread of the particles along the axes, and the width of moves in proportion to it.
    spread: Vec<f64>,
    width: f64,
    /// Moves that were taken in this round, and since the particles were drawn.
    taken: usize,
    moved: usize,
    /// Rounds in a row in which all particles cost the same.
    even: usize,
    trial: Vec<f64>,
    stage: Stage,
    best: (Vec<f64>, f64),
    evaluations: usize,
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: MonteCarlo) -> Self {
        let n = start.len();
        let usual = (steps.evaluations * n / 2 / ROUNDS).max(FEWEST);
        let count = of.particles.unwrap_or(usual);
        let at = (start.to_vec(), f64::INFINITY);
        Self {
            steps,
            of,
            random: Random::new(SEED),
            particles: vec![at.clone(); count],
            coldness: 0.0,
            spread: vec![steps.first; n],
            width: 1.0,
            taken: 0,
            moved: count,
            even: 0,
            trial: start.to_vec(),
            stage: if n == 0 { Stage::Done } else { Stage::Start },
            best: at,
            evaluations: 0,
        }
    }

    /// Asks for a point near a particle.
    fn ask_near(&mut self, place: usize, stage: Stage) {
        let (random, width) = (&mut self.random, self.width);
        let step: Vec<f64> = self.spread.iter().map(|s| width * s * random.normal()).collect();
        let length = step.iter().map(|v| v * v).sum::<f64>().sqrt();
        let part = if length > self.steps.longest { self.steps.longest / length } else { 1.0 };
        let at = &self.particles[place].0;
        self.trial = at.iter().zip(&step).map(|(x, v)| x + part * v).collect();
        self.stage = stage;
    }

    /// Makes the particles colder and draws them anew where enough have moved, and moves them all.
    fn begin_round(&mut self) {
        let costs = self.particles.iter().map(|p| p.1).filter(|c| c.is_finite());
        let (low, high) = costs
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), c| (low.min(c), high.max(c)));
        self.even = if high - low <= self.steps.improvement { self.even + 1 } else { 0 };
        let half = self.steps.evaluations * self.spread.len() / 2;
        if self.even >= 2 || self.evaluations + self.particles.len() > half {
            return self.descend();
        }
        if self.moved as f64 >= MOVED * self.particles.len() as f64 {
            self.cool(low, high - low);
            self.measure_spread();
            self.moved = 0;
        }
        if self.spread.iter().all(|s| s * self.width < self.steps.tolerance) {
            return self.descend();
        }
        self.taken = 0;
        self.ask_near(0, Stage::Move(0));
    }

    /// Lowers the temperature until the effective sample size falls to the wanted fraction, and resamples the
    /// particles by their weights.
    fn cool(&mut self, low: f64, range: f64) {
        let weights = |colder: f64| -> Vec<f64> {
            let weight = |cost: f64| {
                if cost.is_finite() { (colder * (low - cost)).exp() } else { 0.0 }
            };
            self.particles.iter().map(|p| weight(p.1)).collect()
        };
        let count = self.particles.len() as f64;
        let (mut least, mut most) = (0.0, if range > 0.0 { 1e3 / range } else { 0.0 });
        for _ in 0..HALVINGS {
            let middle = 0.5 * (least + most);
            let (sum, squares) =
                weights(middle).iter().fold((0.0, 0.0), |(s, q), w| (s + w, q + w * w));
            if sum * sum > self.of.sample_size * count * squares {
                least = middle
            } else {
                most = middle
            }
        }
        let weights = weights(least);
        self.coldness += least;
        self.resample(&weights);
    }

    /// Draws as many particles as there are by their weights: one number for all (Kitagawa 1996).
    fn resample(&mut self, weights: &[f64]) {
        let step = weights.iter().sum::<f64>() / weights.len() as f64;
        let first = step * self.random.uniform();
        let (mut place, mut sum) = (0, weights[0]);
        let drawn = (0..weights.len()).map(|i| {
            while sum <= first + step * i as f64 && place + 1 < weights.len() {
                place += 1;
                sum += weights[place];
            }
            self.particles[place].clone()
        });
        self.particles = drawn.collect();
    }

    fn measure_spread(&mut self) {
        let count = self.particles.len() as f64;
        for (axis, spread) in self.spread.iter_mut().enumerate() {
            let values = || self.particles.iter().map(|p| p.0[axis]);
            let mean = values().sum::<f64>() / count;
            *spread = (values().map(|v| (v - mean) * (v - mean)).sum::<f64>() / count).sqrt();
        }
    }

    /// The widest moves, in proportion to the spread.
    fn widest(&self) -> f64 {
        WIDTH / (self.spread.len() as f64).sqrt()
    }

    fn end_draw(&mut self, place: usize, cost: f64) {
        self.particles[place] = (self.trial.clone(), cost);
        if place + 1 < self.particles.len() {
            // Around the start, which is the first particle.
            self.ask_near(0, Stage::Draw(place + 1));
        } else {
            self.width = self.widest();
            self.begin_round();
        }
    }

    fn end_move(&mut self, place: usize, cost: f64) {
        let chance = (self.coldness * (self.particles[place].1 - cost)).exp();
        if self.random.uniform() < chance {
            self.particles[place] = (self.trial.clone(), cost);
            self.taken += 1;
            self.moved += 1;
        }
        if place + 1 < self.particles.len() {
            return self.ask_near(place + 1, Stage::Move(place + 1));
        }
        let part = self.taken as f64 / self.particles.len() as f64;
        self.width = (self.width * (part - TAKEN).exp()).min(self.widest());
        self.begin_round();
    }

    fn descend(&mut self) {
        let spread = self.spread.iter().copied().fold(0.0, f64::max);
        let (at, told) = (&self.best.0, self.evaluations);
        self.stage = Stage::Descent(Box::new(powell::Search::ending(at, spread, told, self.steps)));
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
            Stage::Start if cost.is_finite() => self.end_draw(0, cost),
            Stage::Start => self.stage = Stage::Done,
            &mut Stage::Draw(place) => self.end_draw(place, cost),
            &mut Stage::Move(place) => self.end_move(place, cost),
            Stage::Descent(search) => search.tell(cost, &[]),
            Stage::Done => {}
        }
        if self.evaluations >= self.steps.evaluations * self.spread.len() {
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

    const STEPS: Steps =
        Steps { first: 1.0, longest: 10.0, tolerance: 1e-9, improvement: 0.0, evaluations: 400 };

    #[test]
    fn particles_are_drawn_by_their_weights() {
        let mut search =
            Search::new(&[0.0], Steps { evaluations: 320, ..STEPS }, MonteCarlo::USUAL);
        assert_eq!(search.particles.len(), 10);
        for (i, particle) in search.particles.iter_mut().enumerate() {
            particle.0[0] = i as f64;
        }
        let weights = [0.0, 0.5, 0.0, 0.3, 0.0, 0.0, 0.0, 0.125, 0.075, 0.0];
        search.resample(&weights);
        for (i, weight) in weights.iter().enumerate() {
            let count = search.particles.iter().filter(|p| p.0[0] == i as f64).count() as f64;
            assert!((count - 10.0 * weight).abs() < 1.0, "{i}: {count}");
        }
    }

    #[test]
    fn particles_get_colder_and_closer() {
        let mut search = Search::new(&[2.0, 1.0], STEPS, MonteCarlo::USUAL);
        let mut coldness = 0.0;
        while !matches!(search.stage, Stage::Descent(_)) {
            let cost = search.ask().map(|x| x[0] * x[0] + x[1] * x[1]).unwrap();
            search.tell(cost, &[]);
            assert!(search.coldness >= coldness);
            coldness = search.coldness;
        }
        assert!(coldness > 100.0, "{coldness}");
        assert!(search.spread.iter().all(|s| *s < 0.1), "{:?}", search.spread);
        assert!(search.evaluations() <= 400, "{}", search.evaluations());
    }
}
