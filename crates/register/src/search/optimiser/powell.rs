//! Powell's method of conjugate directions (1964), in the form of Press et al. (Numerical Recipes, section
//! 10.7): line searches along a set of directions, of which the one with the largest decrease is replaced by
//! the overall displacement where that promises a further decrease and keeps the directions independent.

use super::{Kind, Optimiser, Steps};
use voxalign_options::Parameters;

/// The golden section: the position of a new point in the larger part.
const GOLDEN: f64 = 0.381_966_011_250_105;
/// Most trials of a line search.
const MOST_TRIALS: usize = 30;

/// The shortest first step of a descent that ends another search, as a fraction of that search's first step.
const NEAR: f64 = 0.01;

/// A point on the search line: its position and its cost.
type Point = (f64, f64);

/// The purpose of the point that is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Start,
    /// On the line along the direction of this number.
    Along(usize),
    /// As far again as all lines of the round went.
    Further,
    /// On the line along the way of the round.
    Way,
    Done,
}

/// Powell's method.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Powell {
    /// Relative tolerance of a line search
    #[parameter(default = 0.1, unit = "PART", above = 0.0, most = 1.0)]
    pub line_accuracy: f64,
}

impl Kind for Powell {
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        Box::new(Search::new(at, steps, self))
    }
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    steps: Steps,
    of: Powell,
    directions: Vec<Vec<f64>>,
    /// The current point and its cost.
    at: (Vec<f64>, f64),
    /// Where the round of line searches began.
    begin: (Vec<f64>, f64),
    /// The direction of the round that gained most, and what.
    most: (usize, f64),
    stage: Stage,
    /// The direction that is searched.
    line: Vec<f64>,
    search: Line,
    trial: Vec<f64>,
    evaluations: usize,
}

/// A search along a line, in lengths: a bracket is found first, then made smaller.
#[derive(Debug, Clone)]
struct Line {
    /// The best point, 0 at first, and its neighbours on either side once they are known.
    best: Point,
    left: Option<Point>,
    right: Option<Point>,
    step: f64,
    trials: usize,
    asked: f64,
}

impl Line {
    fn new(cost: f64, step: f64) -> Self {
        Self { best: (0.0, cost), left: None, right: None, step, trials: 0, asked: step }
    }

    /// Takes the cost of the point asked for; whether there is another one to ask for.
    fn tell(&mut self, cost: f64, steps: &Steps, accuracy: f64) -> bool {
        self.trials += 1;
        let point = (self.asked, cost);
        let ahead = point.0 > self.best.0;
        if cost < self.best.1 {
            *(if ahead { &mut self.left } else { &mut self.right }) = Some(self.best);
            self.best = point;
        } else {
            *(if ahead { &mut self.right } else { &mut self.left }) = Some(point);
        }
        if self.trials >= MOST_TRIALS {
            return false;
        }
        match (self.left, self.right) {
            (None, _) | (_, None) => {
                // Downhill, further at each trial.
                let forward = self.right.is_none();
                if self.trials > 1 {
                    self.step *= 1.0 + GOLDEN;
                }
                let step = self.step.min(steps.longest);
                self.asked = self.best.0 + if forward { step } else { -step };
                self.asked.abs() <= steps.longest
            }
            (Some(left), Some(right)) => {
                let width = (right.0 - self.best.0).max(self.best.0 - left.0);
                if width < (0.5 * steps.tolerance).max(accuracy * self.best.0.abs()) {
                    return false;
                }
                self.asked = self.inside(left, right, 0.1 * steps.tolerance);
                true
            }
        }
    }

    /// The lowest point of the parabola through the bracket, or a golden section where it is of no use.
    fn inside(&self, (a, fa): Point, (c, fc): Point, least: f64) -> f64 {
        let (b, fb) = self.best;
        let (p, q) = ((b - a) * (fb - fc), (b - c) * (fb - fa));
        let guess = b - 0.5 * ((b - a) * p - (b - c) * q) / (p - q);
        let least = least.max(1e-3 * (c - a));
        let fits = guess.is_finite() && guess > a + least && guess < c - least;
        // Two in a row that creep leave most of the bracket as it is.
        if fits && (guess - b).abs() > least && !self.trials.is_multiple_of(3) {
            return guess;
        }
        if c - b > b - a { b + GOLDEN * (c - b) } else { b - GOLDEN * (b - a) }
    }
}

impl Search {
    /// A search from a point.
    pub(super) fn new(start: &[f64], steps: Steps, of: Powell) -> Self {
        let n = start.len();
        let axis = |a: usize| (0..n).map(|i| f64::from(u8::from(i == a))).collect();
        let at = (start.to_vec(), f64::INFINITY);
        Self {
            steps,
            of,
            directions: (0..n).map(axis).collect(),
            begin: at.clone(),
            at,
            most: (0, 0.0),
            stage: if n == 0 { Stage::Done } else { Stage::Start },
            line: vec![0.0; n],
            search: Line::new(f64::INFINITY, steps.first),
            trial: start.to_vec(),
            evaluations: 0,
        }
    }

    /// A descent that ends another search: from its best point with a step in proportion to where that has come to,
    /// and with the evaluations that are left.
    pub(super) fn ending(best: &[f64], width: f64, evaluations: usize, steps: Steps) -> Self {
        let n = best.len().max(1);
        let steps = Steps {
            first: width.max(NEAR * steps.first).min(steps.first),
            evaluations: (steps.evaluations * n).saturating_sub(evaluations) / n,
            ..steps
        };
        Self::new(best, steps, Powell::USUAL)
    }

    fn point(&self, length: f64) -> Vec<f64> {
        self.at.0.iter().zip(&self.line).map(|(x, d)| x + length * d).collect()
    }

    fn begin_line(&mut self, stage: Stage, line: Vec<f64>) {
        (self.stage, self.line) = (stage, line);
        self.search = Line::new(self.at.1, self.steps.first);
        self.trial = self.point(self.search.asked);
    }

    fn begin_round(&mut self) {
        self.begin.clone_from(&self.at);
        self.most = (0, 0.0);
        self.begin_line(Stage::Along(0), self.directions[0].clone());
    }

    /// Goes to the best point of a line; what that gains.
    fn end_line(&mut self) -> f64 {
        let gain = self.at.1 - self.search.best.1;
        if gain > 0.0 {
            self.at = (self.point(self.search.best.0), self.search.best.1);
        }
        gain
    }

    fn end_direction(&mut self, place: usize) {
        let gain = self.end_line();
        if gain > self.most.1 {
            self.most = (place, gain);
        }
        if let Some(direction) = self.directions.get(place + 1) {
            self.begin_line(Stage::Along(place + 1), direction.clone());
            return;
        }
        let (at, begin) = (&self.at.0, &self.begin.0);
        let way = at.iter().zip(begin).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
        if way < self.steps.tolerance || self.begin.1 - self.at.1 <= self.steps.improvement {
            self.stage = Stage::Done;
            return;
        }
        self.trial = at.iter().zip(begin).map(|(a, b)| 2.0 * a - b).collect();
        self.stage = Stage::Further;
    }

    /// Looks whether the way of the round pays, by the cost of going as far again.
    fn look_further(&mut self, further: f64) {
        let (before, now, (place, most)) = (self.begin.1, self.at.1, self.most);
        let bend = 2.0 * (before - 2.0 * now + further) * (before - now - most).powi(2);
        if further < before && bend < most * (before - further).powi(2) {
            let way: Vec<f64> = self.at.0.iter().zip(&self.begin.0).map(|(a, b)| a - b).collect();
            let length = way.iter().map(|w| w * w).sum::<f64>().sqrt();
            let way: Vec<f64> = way.iter().map(|w| w / length).collect();
            self.directions.remove(place);
            self.directions.push(way.clone());
            self.begin_line(Stage::Way, way);
        } else {
            self.begin_round();
        }
    }
}

impl Optimiser for Search {
    fn ask(&self) -> Option<&[f64]> {
        (self.stage != Stage::Done).then_some(&*self.trial)
    }

    fn tell(&mut self, cost: f64, _: &[f64]) {
        self.evaluations += usize::from(self.stage != Stage::Done);
        let cost = if cost.is_nan() { f64::INFINITY } else { cost };
        match self.stage {
            Stage::Start if cost.is_finite() => {
                self.at.1 = cost;
                self.begin_round();
            }
            Stage::Start => self.stage = Stage::Done,
            Stage::Along(_) | Stage::Way
                if self.search.tell(cost, &self.steps, self.of.line_accuracy) =>
            {
                self.trial = self.point(self.search.asked);
            }
            Stage::Along(place) => self.end_direction(place),
            Stage::Way => {
                self.end_line();
                self.begin_round();
            }
            Stage::Further => self.look_further(cost),
            Stage::Done => {}
        }
        if self.evaluations >= self.steps.evaluations * self.directions.len() {
            if matches!(self.stage, Stage::Along(_) | Stage::Way) {
                self.end_line();
            }
            self.stage = Stage::Done;
        }
    }

    fn best(&self) -> (&[f64], f64) {
        (&self.at.0, self.at.1)
    }

    fn evaluations(&self) -> usize {
        self.evaluations
    }
}
