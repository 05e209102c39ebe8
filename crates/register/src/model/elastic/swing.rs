//! Whether steps whose forces are those of their beginning make a body swing, and how long they may be.

use super::Elastic;
use crate::error::{RegisterError, Result};
use crate::multiscale::Motion;
use std::collections::VecDeque;
use voxalign_elasticity::{Body, ElasticityError, Newmark};
use voxalign_image::{Matrix3, Vector3};

/// A swing is looked for in twice as many steps.
const STEPS: usize = 8;

/// Where a body swings it gets no farther than this part of its way,
const NET: f64 = 0.25;

/// and the later half of that is no shorter than this part of the earlier one.
const LASTS: f64 = 0.8;

/// What moves less than this in a step, in voxels, is at rest, not swinging.
const LEAST: f64 = 0.02;

/// Where a body was after its last steps.
#[derive(Debug, Default)]
struct Swing {
    /// Displacements, mm, the last one at the end.
    places: VecDeque<Vec<Vector3<f64>>>,
    /// The norm of the increments between them.
    ways: VecDeque<f64>,
}

impl Swing {
    /// Looks at the displacements after a step, mm, for voxels of this size; whether the body swings.
    fn look(&mut self, displacements: Vec<Vector3<f64>>, voxel: f64) -> bool {
        let apart = |a: &[Vector3<f64>], b: &[Vector3<f64>]| {
            a.iter().zip(b).map(|(a, b)| (a - b).norm_squared()).sum::<f64>().sqrt()
        };
        let farthest = |a: &[Vector3<f64>], b: &[Vector3<f64>]| {
            a.iter().zip(b).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max)
        };
        let mut moves = false;
        if let Some(last) = self.places.back() {
            self.ways.push_back(apart(last, &displacements));
            moves = farthest(last, &displacements) >= LEAST * voxel;
        }
        self.places.push_back(displacements);
        if self.ways.len() <= 2 * STEPS {
            return false;
        }
        self.places.pop_front();
        self.ways.pop_front();
        let sum = |range: std::ops::Range<usize>| self.ways.range(range).sum::<f64>();
        let [early, late] = [sum(0..STEPS), sum(STEPS..2 * STEPS)];
        let ends = self.places.front().zip(self.places.back());
        let net = ends.map_or(0.0, |(first, last)| apart(first, last));
        moves && net <= NET * (early + late) && late >= LASTS * early
    }
}

/// Steps whose forces lag.
pub(super) struct Lagging {
    swing: Swing,
    /// The size of a voxel, mm.
    voxel: f64,
    step_s: f64,
    /// The longest step that does not make the body swing, s.
    serving_s: f64,
}

impl Lagging {
    /// Of a body, with forces that fall by a block for each vertex, mN/mm.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn new(
        options: &Elastic,
        body: &Body,
        blocks: &[Matrix3<f64>],
        voxel: f64,
    ) -> Result<Self> {
        let (method, usual) = (options.newmark(), options.damping.is_none());
        let serving_s = serving(&method, usual, &body.lumped_mass()?, blocks);
        Ok(Self { swing: Swing::default(), voxel, step_s: method.step_s, serving_s })
    }

    /// What a step did, unless the body swings, or tetrahedra invert as it does.
    ///
    /// # Errors
    /// [`RegisterError::Option`] that says so, and how long steps may be; those of the step.
    pub(super) fn checked(
        &mut self,
        made: Result<Motion>,
        displacements: impl FnOnce() -> Result<Vec<Vector3<f64>>>,
    ) -> Result<Motion> {
        match made {
            Ok(motion) if !self.swing.look(displacements()?, self.voxel) => Ok(motion),
            Ok(_) | Err(RegisterError::Elasticity(ElasticityError::Inverts { .. })) => {
                Err(swings(self.step_s, self.serving_s))
            }
            Err(other) => Err(other),
        }
    }
}

/// Whether steps are stable for a mass of 1 kg under a force that falls by `change`, mN/mm, and lags a step: the
/// displacement, velocity and acceleration of one step are those of the last one times a matrix without an eigenvalue beyond 1.
fn stable(method: &Newmark, change: f64) -> bool {
    let [a0, a1, a2, a3, a4, a5] = method.constants();
    let (h, c) = (method.step_s, method.mass_damping);
    let effective = a0 + a1 * c;
    // The increment, and what follows from it.
    let d = Vector3::new(-change, a2 + c * a4, a3 + c * a5) / effective;
    let acceleration = d * a0 - Vector3::new(0.0, a2, a3);
    let velocity =
        acceleration * (h * method.gamma) + Vector3::new(0.0, 1.0, h * (1.0 - method.gamma));
    let displacement = d + Vector3::x();
    let rows = [displacement, velocity, acceleration].map(|row| row.transpose());
    // In units of the step all numbers are of the same size.
    let units = Matrix3::from_diagonal(&Vector3::new(1.0, h, h * h));
    let back = Matrix3::from_diagonal(&Vector3::new(1.0, 1.0 / h, 1.0 / (h * h)));
    let steps = units * Matrix3::from_rows(&rows) * back;
    steps.complex_eigenvalues().iter().all(|value| value.norm() <= 1.0 + 1e-9)
}

/// The longest time step, s, with which forces that fall by a block for each vertex, mN/mm, do not make a body with these masses of
/// vertices, kg, swing; `usual` tells whether the damping is 4 over the step.
fn serving(method: &Newmark, usual: bool, mass: &[f64], blocks: &[Matrix3<f64>]) -> f64 {
    let of = |(block, mass): (&Matrix3<f64>, &f64)| block.symmetric_eigenvalues().max() / mass;
    let most = blocks.iter().zip(mass).map(of).fold(0.0, f64::max);
    let with = |step_s: f64| {
        let mass_damping = if usual { 4.0 / step_s } else { method.mass_damping };
        stable(&Newmark { step_s, mass_damping, ..*method }, most)
    };
    let [mut low, mut high] = [1e-6 * method.step_s, method.step_s];
    if with(high) {
        // What swings does so for another reason than was counted on.
        return 0.5 * high;
    }
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        *(if with(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// What is said where a body swings.
fn swings(step_s: f64, serving_s: f64) -> RegisterError {
    // Two digits, and no longer.
    let unit = 10f64.powf(serving_s.log10().floor() - 1.0);
    let serving = (serving_s / unit).floor() * unit;
    let remedy = format!(
        "the forces of the images make the body swing, as they lag a step; give {serving:.1e} or less, or coupling = implicit"
    );
    RegisterError::option("time-step", format!("{step_s} s with coupling = explicit"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of one mass that a force draws back, which lags a step.
    fn amplitudes(method: &Newmark, change: f64) -> Vec<f64> {
        let [a0, a1, a2, a3, a4, a5] = method.constants();
        let (mut u, mut v, mut a) = (1.0f64, 0.0, 0.0);
        let c = method.mass_damping;
        let effective = a0 + a1 * c;
        (0..4000)
            .map(|_| {
                let force = -change * u;
                let d = (force + a2 * v + a3 * a + c * (a4 * v + a5 * a)) / effective;
                let next = a0 * d - a2 * v - a3 * a;
                v += method.step_s * ((1.0 - method.gamma) * a + method.gamma * next);
                (u, a) = (u + d, next);
                u.abs()
            })
            .collect()
    }

    #[test]
    fn the_longest_step_is_where_amplitudes_begin_to_grow() {
        for (beta, gamma) in [(0.25, 0.5), (0.3025, 0.6)] {
            let method = Newmark { beta, gamma, ..Newmark::with_step(0.05) };
            let (mass, blocks) = ([0.002], [Matrix3::from_diagonal(&Vector3::new(3e2, 9e2, 1e2))]);
            let step_s = serving(&method, true, &mass, &blocks);
            assert!(step_s > 1e-5 && step_s < 0.05, "{step_s}");
            for (times, grows) in [(0.98, false), (1.02, true)] {
                let step_s = times * step_s;
                let of = Newmark { step_s, mass_damping: 4.0 / step_s, ..method };
                let all = amplitudes(&of, 9e2 / 0.002);
                let late = all[3900..].iter().fold(0.0, |a: f64, b| a.max(*b));
                assert_eq!(late > 1.0, grows, "{beta} {times} {late}");
            }
        }
    }

    #[test]
    fn what_goes_back_and_forth_swings_and_what_dies_away_does_not() {
        let look = |factor: f64| {
            let mut swing = Swing::default();
            let at = |i: i32| vec![Vector3::new(factor.powi(i), 0.0, 0.0)];
            (0..40).find(|&i| swing.look(at(i), 1.0))
        };
        assert_eq!((look(-1.0), look(-1.01)), (Some(17), Some(17)));
        assert_eq!((look(-0.9), look(0.9), look(1.1)), (None, None, None));
        // A circle in many steps is a swing as well, and one that is small is rest.
        let circle = |radius: f64| {
            let mut swing = Swing::default();
            let at = |i: i32| {
                let (sin, cos) = (0.8 * f64::from(i)).sin_cos();
                vec![Vector3::new(radius * cos, radius * sin, 0.0)]
            };
            (0..40).find(|&i| swing.look(at(i), 1.0))
        };
        assert_eq!((circle(1.0), circle(0.01)), (Some(17), None));
        let error = swings(0.05, 0.001_234).to_string();
        assert!(error.contains("0.05 s") && error.contains("1.2e-3 or less"), "{error}");
    }
}
