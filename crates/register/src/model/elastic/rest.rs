//! When an elastic body has come to rest.

use crate::multiscale::{Course, Motion};

/// How many steps in a row have to be at rest: a body that swings turns in one.
const STEPS: usize = 3;

/// Whether a body has come to rest in the last steps of a scale: its kinetic energy and the force out of balance have both fallen to a small
/// part of the largest of the run, or of what they would be for images that are a voxel off, as for a body that starts near its rest.
///
/// The similarity is flat where an oscillation turns, and the kinetic energy is 0 there too, but forces are as far out of balance as they
/// get; where the body swings through its equilibrium these are balanced, and the kinetic energy is largest. So neither ends a scale alone.
#[must_use]
pub fn at_rest(course: &Course, tolerance: f64) -> bool {
    let n = course.motion.len();
    if n < STEPS {
        return false;
    }
    let all = || course.records.iter().flat_map(|r| &r.motion).chain(&course.motion);
    let largest = |of: fn(&Motion) -> f64| all().map(of).fold(0.0, f64::max);
    let (kinetic, unbalanced) = (largest(|m| m.kinetic_energy), largest(|m| m.unbalanced_force));
    // Energies are as the squares of velocities.
    let small = |m: &Motion| {
        m.kinetic_energy <= kinetic.max(m.voxel_energy) * tolerance * tolerance
            && m.unbalanced_force <= unbalanced.max(m.voxel_force) * tolerance
    };
    course.motion[n - STEPS..].iter().all(small)
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
                voxel_energy: 0.0,
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
            course.motion.iter_mut().for_each(|m| (m.voxel_energy, m.voxel_force) = (100.0, 10.0));
            course
        };
        let soon = (1..400).find(|&n| at_rest(&far(n), 0.02)).unwrap();
        // exp(-0.05 t) is 0.2 at 32.
        assert!((25..50).contains(&soon), "{soon}");
    }
}
