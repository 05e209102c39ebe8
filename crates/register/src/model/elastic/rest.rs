//! When an elastic body has come to rest.

use super::Elastic;
use super::coupling::Coupled;
use crate::error::Result;
use crate::multiscale::{Course, Motion, ScaleRecord};
use voxalign_elasticity::Body;

/// How many steps in a row have to be at rest: a body that swings turns in one.
const STEPS: usize = 3;

/// The way that is left is looked at as if it were at most this many times that of a step.
const LONGEST: f64 = 50.0;

/// The energy is flat where its least value of so many steps is below that of as many before them by no more than this part of it.
const WINDOW: usize = 4;
const FLAT: f64 = 1e-3;

/// What a motion is measured by, at a scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct VoxelMotion {
    /// The norm of the forces of images that are a voxel off, mN.
    force: f64,
    /// The kinetic energy of a body that goes a voxel in a step, µJ.
    kinetic: f64,
}

impl VoxelMotion {
    /// Of a body whose forces change as these, for samples that are `voxel` apart, mm.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn new(
        options: &Elastic,
        body: &Body,
        coupled: &Coupled,
        voxel: f64,
    ) -> Result<Self> {
        let mass: f64 = body.lumped_mass()?.iter().sum();
        let velocity = voxel / options.time_step;
        Ok(Self { force: coupled.voxel_force, kinetic: 0.5 * mass * velocity * velocity })
    }

    /// Notes it beside what a step did.
    pub(super) fn note(&self, motion: &mut Motion) {
        (motion.voxel_force, motion.voxel_kinetic) = (self.force, self.kinetic);
    }
}

/// The way that a body would still go if each of its steps were shorter than the last one by as much as in the last two, in voxels: the root
/// of its mean square by mass.
fn way(motions: &[Motion]) -> f64 {
    let [.., before, _, last] = motions else { return f64::INFINITY };
    let step = (last.kinetic_energy / last.voxel_kinetic).sqrt();
    if step == 0.0 {
        return 0.0;
    }
    let shrinks = (last.kinetic_energy / before.kinetic_energy).powf(0.25);
    // Also where it does not shrink, and where it was at rest before.
    let times = shrinks / (1.0 - shrinks);
    step * if times >= 0.0 { times.min(LONGEST) } else { LONGEST }
}

/// Whether energies have stopped falling.
fn flat(energies: &[f64]) -> bool {
    let Some(start) = energies.len().checked_sub(2 * WINDOW) else { return false };
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let (before, now) = energies[start..].split_at(WINDOW);
    least(before) - least(now) <= FLAT * least(now).abs()
}

/// Whether a body has come to rest in the last steps of a scale: the way that is left is a small part of a voxel, or steps are and the energy of
/// images is flat, as where a body trembles because gradients jump between voxels; and the force out of balance is a
/// small part of the largest of the run, or of that of images a voxel off, as for a body that starts near its rest.
///
/// The similarity is flat where an oscillation turns, and the kinetic energy is 0 there too, but forces are as far out of balance as they
/// get; where the body swings through its equilibrium these are balanced, and the kinetic energy is largest. So neither ends a scale alone. Nor
/// does the velocity: what little forces move goes a long way slowly.
pub(super) fn at_rest(course: &Course, tolerance: f64) -> bool {
    let n = course.motion.len();
    if n < STEPS {
        return false;
    }
    let all = || course.records.iter().flat_map(|r| &r.motion).chain(&course.motion);
    let unbalanced = all().map(|m| m.unbalanced_force).fold(0.0, f64::max);
    (n + 1 - STEPS..=n).all(|n| {
        let (motions, energies) =
            (&course.motion[..n], &course.energies[..n.min(course.energies.len())]);
        let last = &motions[n - 1];
        let step = (last.kinetic_energy / last.voxel_kinetic).sqrt();
        (way(motions) <= tolerance || step <= tolerance && flat(energies))
            && last.unbalanced_force <= unbalanced.max(last.voxel_force) * tolerance
    })
}

/// Whether the last of these scales ended with a body at rest.
#[must_use]
pub fn ended_at_rest(scales: &[ScaleRecord], tolerance: f64) -> bool {
    let Some((last, before)) = scales.split_last() else { return false };
    let (motion, energies) = (last.motion.clone(), last.energies.clone());
    let course = Course { records: before.to_vec(), motion, energies, ..Course::default() };
    at_rest(&course, tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(of: impl Fn(f64) -> (f64, f64), steps: usize) -> Course {
        let motion = (0..steps).map(|i| {
            let (velocity, force) = of(i as f64);
            Motion {
                kinetic_energy: velocity * velocity,
                strain_energy: 0.0,
                unbalanced_force: force.abs(),
                voxel_force: 0.0,
                voxel_kinetic: 1.0,
                least_jacobian: 1.0,
                cuts: 0,
                held: 0,
            }
        });
        Course { motion: motion.collect(), ..Course::default() }
    }

    /// A swing is not at rest where it turns, nor where it passes its equilibrium, until it is damped.
    #[test]
    fn a_swing_is_not_at_rest() {
        let swing = |damping: f64| {
            move |t: f64| {
                let part = (-damping * t).exp();
                (part * (0.3 * t).sin(), part * (0.3 * t).cos())
            }
        };
        for steps in 1..200 {
            assert!(!at_rest(&course(swing(0.0), steps), 0.02), "{steps}");
        }
        let ends = (1..400).find(|&n| at_rest(&course(swing(0.05), n), 0.02)).unwrap();
        // exp(-0.05 t) is 0.02 at 78.
        assert!((60..110).contains(&ends), "{ends}");
        assert!(!at_rest(&course(swing(0.05), 400), 0.0));
        // The same motion where a voxel means more ends earlier.
        let far = |n: usize| {
            let mut course = course(swing(0.05), n);
            course.motion.iter_mut().for_each(|m| (m.voxel_kinetic, m.voxel_force) = (100.0, 10.0));
            course
        };
        let soon = (1..400).find(|&n| at_rest(&far(n), 0.02)).unwrap();
        // exp(-0.05 t) is 0.2 at 32.
        assert!((25..50).contains(&soon), "{soon}");
    }

    /// What goes slower by a little in each step still has a long way to go.
    #[test]
    fn the_way_that_is_left_counts() {
        let slow = |t: f64| (0.03 * 0.97f64.powf(t), 0.001 * 0.97f64.powf(t));
        let ends = (1..400).find(|&n| {
            // Forces fall to nothing at once.
            let mut all = course(slow, n);
            all.motion[0].unbalanced_force = 1.0;
            at_rest(&all, 0.02)
        });
        // After n steps 0.97^n is left; three of them have to see it below 0.02.
        let left = (1..).find(|&n| 0.97f64.powi(n) <= 0.02).unwrap() as usize;
        assert_eq!(ends, Some(left + 2));
        // What does not slow down at all is not at rest, but what hardly moves is.
        assert!(!at_rest(&course(|_| (0.001, 0.0), 50), 0.02));
        assert!(at_rest(&course(|_| (0.000_3, 0.0), 50), 0.02));
    }

    /// What trembles where the energy is flat is at rest, but not while this still falls.
    #[test]
    fn trembling_is_rest_where_the_energy_is_flat() {
        let trembles = |falls: f64| {
            let mut all = course(|_| (0.015, 0.001), 40);
            all.motion[0].unbalanced_force = 1.0;
            let noise = [0.0, 2e-4, 5e-4, 1e-4];
            all.energies =
                (0..40).map(|i| -1.0 - falls * f64::from(i) + noise[i as usize % 4]).collect();
            all
        };
        assert!(at_rest(&trembles(0.0), 0.02) && !at_rest(&trembles(0.0), 0.01));
        assert!(!at_rest(&trembles(0.001), 0.02));
    }
}
