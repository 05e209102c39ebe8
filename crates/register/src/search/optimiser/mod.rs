//! Ask-and-tell optimisers, one file each: they propose the next point and are told its cost, so that many
//! searches can be evaluated together: on a GPU one launch serves all of them.
//!
//! ```
//! use voxalign_register::Choice;
//! use voxalign_register::search::{OptimiserKind, Steps};
//!
//! let steps = Steps {
//!     first: 1.0,
//!     longest: 10.0,
//!     tolerance: 1e-6,
//!     improvement: 1e-12,
//!     evaluations: 100,
//! };
//! for kind in OptimiserKind::ALL {
//!     let mut search = kind.start(&[4.0, -3.0], steps);
//!     while let Some([x, y]) = search.ask().map(|p| [p[0], p[1]]) {
//!         let value = (x - 1.0).powi(2) + 10.0 * (y - x).powi(2);
//!         search.tell(value, &[2.0 * (x - 1.0) - 20.0 * (y - x), 20.0 * (y - x)]);
//!     }
//!     let (best, value) = search.best();
//!     assert!((best[0] - 1.0).abs() < 1e-3 && (best[1] - 1.0).abs() < 1e-3 && value < 1e-6);
//! }
//! ```

mod annealing;
mod bfgs;
mod cma_es;
mod gradient;
mod levenberg_marquardt;
mod monte_carlo;
mod nelder_mead;
mod powell;

use voxalign_options::{Choice, Parameters};

pub use crate::random::SEED;
pub use annealing::Annealing;
pub use bfgs::Bfgs;
pub use cma_es::CmaEs;
pub use gradient::Gradient;
pub use levenberg_marquardt::LevenbergMarquardt;
pub use monte_carlo::MonteCarlo;
pub use nelder_mead::NelderMead;
pub use powell::Powell;

/// When to stop and how far to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steps {
    /// Length of the first step, in the units of the parameters.
    pub first: f64,
    /// Longest step.
    pub longest: f64,
    /// A step shorter than this ends the search.
    pub tolerance: f64,
    /// An improvement smaller than this, twice in a row, ends the search.
    pub improvement: f64,
    /// Most evaluations with a gradient. A search without gradients may make as many for each parameter.
    pub evaluations: usize,
}

/// A search for the minimum of a function.
pub trait Optimiser: Send {
    /// The next point to evaluate, or `None` when the search is over.
    fn ask(&self) -> Option<&[f64]>;

    /// Tells the value and the gradient at the point asked for; the gradient is not looked at where the
    /// kind [needs none](OptimiserKind::needs_gradient).
    fn tell(&mut self, cost: f64, gradient: &[f64]);

    /// The best point so far and its value; infinite before the first one is told.
    fn best(&self) -> (&[f64], f64);

    /// Evaluations told so far.
    fn evaluations(&self) -> usize;
}

/// What a kind of optimiser implements.
trait Kind: Parameters + Copy {
    /// A search from a point.
    fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser>;

    /// Whether it looks at gradients.
    fn needs_gradient(self) -> bool {
        false
    }
}

/// How the minimum of the cost is found.
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "optimiser", each = each_optimiser)]
pub enum OptimiserKind {
    /// Quasi-Newton method with exact derivatives.
    Bfgs(Bfgs),
    /// Powell's conjugate directions, without derivatives.
    Powell(Powell),
    /// Downhill simplex, without derivatives.
    NelderMead(NelderMead),
    /// Gradient descent with exact derivatives.
    Gradient(Gradient),
    /// Damped Newton steps with exact derivatives.
    LevenbergMarquardt(LevenbergMarquardt),
    /// Covariance matrix adaptation, without derivatives.
    CmaEs(CmaEs),
    /// Simulated annealing, without derivatives.
    Annealing(Annealing),
    /// Sequential Monte Carlo, without derivatives.
    MonteCarlo(MonteCarlo),
}

impl Default for OptimiserKind {
    fn default() -> Self {
        Self::BFGS
    }
}

impl OptimiserKind {
    /// A search from a point.
    #[must_use]
    pub fn start(self, at: &[f64], steps: Steps) -> Box<dyn Optimiser> {
        each_optimiser!(self, kind => kind.start(at, steps))
    }

    /// Whether it looks at gradients.
    #[must_use]
    pub fn needs_gradient(self) -> bool {
        each_optimiser!(self, kind => kind.needs_gradient())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;
    use std::f64::consts::TAU;

    const STEPS: Steps =
        Steps { first: 0.5, longest: 5.0, tolerance: 1e-9, improvement: 1e-14, evaluations: 400 };

    fn run(
        kind: OptimiserKind,
        start: &[f64],
        f: impl Fn(&[f64]) -> (f64, Vec<f64>),
    ) -> Box<dyn Optimiser> {
        run_with(kind, start, STEPS, f)
    }

    fn run_with(
        kind: OptimiserKind,
        start: &[f64],
        steps: Steps,
        mut f: impl FnMut(&[f64]) -> (f64, Vec<f64>),
    ) -> Box<dyn Optimiser> {
        let mut search = kind.start(start, steps);
        while let Some(x) = search.ask() {
            let (value, gradient) = f(x);
            search.tell(value, &gradient);
        }
        search
    }

    #[test]
    fn rosenbrock() {
        for &kind in OptimiserKind::ALL {
            let search = run(kind, &[-1.2, 1.0], |x| {
                let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
                (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * x[0] * b, 200.0 * b])
            });
            let (x, f) = search.best();
            let name = kind.name();
            println!("{name}: {} evaluations, {x:?}, {f:e}", search.evaluations());
            assert!((x[0] - 1.0).abs() < 1e-4 && (x[1] - 1.0).abs() < 1e-4, "{name}: {x:?} {f}");
        }
    }

    #[test]
    fn a_badly_scaled_bowl() {
        let scales = [1.0, 30.0, 900.0, 4.0, 0.1];
        for &kind in OptimiserKind::ALL {
            let search = run(kind, &[1.0; 5], |x| {
                let f = x.iter().zip(scales).map(|(v, s)| s * v * v).sum();
                (f, x.iter().zip(scales).map(|(v, s)| 2.0 * s * v).collect())
            });
            assert!(search.best().1 < 1e-8, "{}: {:?}", kind.name(), search.best());
        }
    }

    #[test]
    fn what_was_gained_before_a_jump_is_kept() {
        for &kind in OptimiserKind::ALL {
            let search = run(kind, &[0.0], |x| (if x[0] < 0.99 { -x[0] } else { 5.0 }, vec![-1.0]));
            assert!(search.best().1 < -0.9, "{}: {:?}", kind.name(), search.best());
        }
    }

    #[test]
    fn never_worse_than_the_start_and_always_ends() {
        for &kind in OptimiserKind::ALL {
            let name = kind.name();
            // A gradient that lies: where it is followed, no descent is to be had.
            let search =
                run(kind, &[1.0, 2.0], |x| (x[0] * x[0] + x[1] * x[1], vec![-x[0], -x[1]]));
            assert!(search.best().1 <= 5.0, "{name}");
            let search = run(kind, &[1.0], |_| (f64::NAN, vec![f64::NAN]));
            assert_eq!(search.best().0, &[1.0], "{name}");
            assert!(kind.start(&[], STEPS).ask().is_none(), "{name}");
            let flat = run(kind, &[3.0], |_| (1.0, vec![0.0]));
            assert_eq!((flat.best().0, flat.best().1), (&[3.0][..], 1.0), "{name}");
            let most = STEPS.evaluations * 3;
            let endless = run(kind, &[0.0; 3], |x| (-x[0], vec![-1.0, 0.0, 0.0]));
            assert!(endless.evaluations() <= most, "{name}: {}", endless.evaluations());
        }
    }

    /// A bowl of ripples that are no deeper along the axes than elsewhere.
    fn ripples(x: &[f64]) -> (f64, Vec<f64>) {
        let turned = [0.8 * x[0] + 0.6 * x[1], 0.8 * x[1] - 0.6 * x[0]];
        let cost = turned.iter().map(|v| v * v + 1.0 - (TAU * v).cos()).sum();
        let derivative = turned.map(|v| 2.0 * v + TAU * (TAU * v).sin());
        (
            cost,
            vec![
                0.8 * derivative[0] - 0.6 * derivative[1],
                0.6 * derivative[0] + 0.8 * derivative[1],
            ],
        )
    }

    #[test]
    fn chance_leaves_local_minima() {
        let starts: Vec<[f64; 2]> = (0..12)
            .map(|i| TAU * f64::from(i) / 12.0)
            .map(|angle| [2.5 * angle.cos(), 2.5 * angle.sin()])
            .collect();
        let found = |kind| {
            let steps = Steps { first: 1.0, ..STEPS };
            starts.iter().filter(|s| run_with(kind, *s, steps, ripples).best().1 < 1e-8).count()
        };
        let free = found(OptimiserKind::BFGS);
        assert!(free <= 2, "{free}");
        for kind in [OptimiserKind::CMA_ES, OptimiserKind::ANNEALING, OptimiserKind::MONTE_CARLO] {
            let free = found(kind);
            println!("{}: {free} of {}", kind.name(), starts.len());
            assert!(free >= 8, "{}: {free}", kind.name());
        }
    }

    #[test]
    fn curvature_saves_steps() {
        let scales = [1.0, 20.0, 300.0, 3e3, 1e4];
        let bowl = |x: &[f64]| {
            let f = x.iter().zip(scales).map(|(v, s)| s * v * v).sum();
            (f, x.iter().zip(scales).map(|(v, s)| 2.0 * s * v).collect())
        };
        let told = [OptimiserKind::LEVENBERG_MARQUARDT, OptimiserKind::GRADIENT].map(|kind| {
            let search = run(kind, &[3.0, 1.0, -1.0, 2.0, 0.5], bowl);
            assert!(search.best().1 < 1e-8, "{}: {:?}", kind.name(), search.best());
            search.evaluations()
        });
        assert!(2 * told[0] < told[1], "{told:?}");
    }

    #[test]
    fn the_best_point_told_and_the_same_bits_at_every_run() {
        for &kind in OptimiserKind::ALL {
            let runs = [(); 2].map(|()| {
                let (mut search, mut lowest) = (kind.start(&[1.5, -2.0], STEPS), f64::INFINITY);
                let mut asked = Vec::new();
                while let Some(x) = search.ask() {
                    assert_eq!(search.ask(), Some(x));
                    asked.extend(x.iter().map(|v| v.to_bits()));
                    let (cost, gradient) = ripples(x);
                    lowest = lowest.min(cost);
                    search.tell(cost, &gradient);
                }
                assert_eq!(search.best().1, lowest, "{}", kind.name());
                assert_eq!(ripples(search.best().0).0, lowest, "{}", kind.name());
                asked
            });
            assert!(runs[0] == runs[1], "{}", kind.name());
        }
    }

    #[test]
    fn few_evaluations() {
        for &kind in OptimiserKind::ALL {
            for (n, evaluations) in [(1, 1), (1, 2), (2, 1), (3, 5), (12, 3), (12, 10)] {
                let start = vec![1.0; n];
                let search = run_with(kind, &start, Steps { evaluations, ..STEPS }, |x| {
                    (x.iter().map(|v| v * v).sum(), x.iter().map(|v| 2.0 * v).collect())
                });
                let most = evaluations * if kind.needs_gradient() { 1 } else { n };
                let (name, told) = (kind.name(), search.evaluations());
                assert!(told <= most && search.best().1 <= n as f64, "{name}: {told} of {most}");
            }
        }
    }

    #[test]
    fn every_parameter_counts_and_its_usual_value_is_what_it_was() {
        let usual: Vec<_> = OptimiserKind::ALL
            .iter()
            .flat_map(|kind| kind.parameters())
            .map(|p| (p.name, p.default))
            .collect();
        let was = [
            ("wolfe", "0.9"),
            ("line_accuracy", "0.1"),
            ("simplex", "1"),
            ("history", "10"),
            ("damping", "0.001"),
            ("population", "4 + 3 ln n for n parameters: 9 for 6, 11 for 12"),
            ("temperature", "2"),
            ("cooling", "0.01"),
            ("particles", "8 to 22: 1/32 of the maximum number of evaluations, at least 8"),
            ("sample_size", "0.5"),
        ];
        assert_eq!(usual, was.map(|(name, value)| (name, value.to_owned())));
        // What is asked for, in a valley that is bent and in one that is straight, where costs may rise for a while.
        let asked = |kind: OptimiserKind| {
            let mut asked = Vec::new();
            for bend in [1.0, 0.0] {
                run_with(kind, &[-1.2, 1.0], Steps { evaluations: 60, ..STEPS }, |x| {
                    asked.extend(x.iter().map(|v| v.to_bits()));
                    let (a, b) = (1.0 - x[0], x[1] - bend * x[0] * x[0]);
                    (a * a + 100.0 * b * b, vec![-2.0 * a - 400.0 * bend * x[0] * b, 200.0 * b])
                });
            }
            asked
        };
        for &kind in OptimiserKind::ALL {
            kind.check().unwrap();
            for parameter in kind.parameters() {
                let other = match parameter.name {
                    "wolfe" | "line_accuracy" | "cooling" => "0.3",
                    "simplex" | "temperature" => "4",
                    "history" => "1",
                    "damping" => "10",
                    "sample_size" => "0.9",
                    _ => "12",
                };
                let mut told = kind;
                assert!(told.set(parameter.name, other).unwrap());
                told.check().unwrap();
                assert!(asked(told) != asked(kind), "{}", parameter.name);
            }
        }
        // Numbers of points that follow from the number of parameters, given as such.
        for (kind, name, usual) in [
            (OptimiserKind::CMA_ES, "population", "6"),
            (OptimiserKind::MONTE_CARLO, "particles", "8"),
        ] {
            let mut told = kind;
            assert!(told.set(name, usual).unwrap());
            assert!(asked(told) == asked(kind), "{name}");
        }
    }
}
