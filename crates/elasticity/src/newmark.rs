//! The motion of a body in time by the method of N. M. Newmark (1959).
//!
//! `M a + C v + K u = f` holds at the end of each step, with the lumped mass `M`, the stiffness `K`, and the damping of Rayleigh
//! `C = a_M M + a_K K`. The increment `d = u' - u` is the unknown, so that a body in equilibrium stays exactly where it is:
//!
//! `(K + a0 M + a1 C) d = f' - K u + M (a2 v + a3 a) + C (a4 v + a5 a)`,
//! `a' = a0 d - a2 v - a3 a`, `v' = v + h (1 - gamma) a + h gamma a'`,
//!
//! `a0 = 1 / (beta h²)`, `a1 = gamma / (beta h)`, `a2 = 1 / (beta h)`, `a3 = 1 / (2 beta) - 1`, `a4 = gamma / beta - 1`,
//! `a5 = h/2 (gamma / beta - 2)`, for a time step `h`. Forces that change with the increment, `f' = f - G d`, put `G` beside the stiffness.

use crate::assembly::{Body, Fixed};
use crate::cut::{Cut, Next};
use crate::error::{ElasticityError, Result};
use crate::factor::Factor;
use crate::sparse::{Sparse, dot};
use crate::strain::LeastRatio;
use nalgebra::Matrix3;
use std::sync::Arc;
use voxalign_image::{Vector3, memory};

/// The time step, the numbers of the method, and the damping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Newmark {
    /// Time step, s.
    pub step_s: f64,
    /// Weight of the new acceleration in the displacement: 1/4 for the mean of the accelerations of the old and the new time.
    pub beta: f64,
    /// Weight of the new acceleration in the velocity; above 1/2 it damps.
    pub gamma: f64,
    /// Damping in proportion to the mass, 1/s: it slows coarse motions.
    pub mass_damping: f64,
    /// Damping in proportion to the stiffness, s: it slows fine motions.
    pub stiffness_damping: f64,
}

impl Newmark {
    /// With a time step, s, the mean acceleration (1/4, 1/2), and a damping in proportion to the mass of 4 over the step.
    #[must_use]
    pub fn with_step(step_s: f64) -> Self {
        Self { step_s, beta: 0.25, gamma: 0.5, mass_damping: 4.0 / step_s, stiffness_damping: 0.0 }
    }

    /// Checks that steps without forces are stable, however long they are.
    ///
    /// # Errors
    /// [`ElasticityError::Newmark`] for a `gamma` below 1/2 or a `beta` below `(1/2 + gamma)² / 4`, [`ElasticityError::Motion`] for a step
    /// that is not above 0, or a damping below 0.
    pub fn check(&self) -> Result<()> {
        let Self { step_s, beta, gamma, mass_damping, stiffness_damping } = *self;
        let wrong = |what, value, remedy| Err(ElasticityError::Motion { what, value, remedy });
        if !(step_s > 0.0 && step_s.is_finite()) {
            return wrong("time step", step_s, "give a number above 0, in s");
        }
        for (what, value) in
            [("mass damping", mass_damping), ("stiffness damping", stiffness_damping)]
        {
            if !(value >= 0.0 && value.is_finite()) {
                return wrong(what, value, "give 0 or a number above it");
            }
        }
        // Numbers that people write, such as 0.3025 and 0.6, are those of the limit up to rounding.
        let limit = (0.5 + gamma).powi(2) / 4.0 - 1e-12;
        let stable = gamma >= 0.5 && beta >= limit && beta.is_finite();
        if stable { Ok(()) } else { Err(ElasticityError::Newmark { beta, gamma }) }
    }

    /// The matrix of a step, `K + a0 M + a1 C + G`, of a stiffness, the lumped mass of each vertex, kg, and a block `G` for each vertex,
    /// mN/mm, where there are some; fixed vertices have rows of the identity.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn effective(
        &self,
        stiffness: &Sparse<Matrix3<f64>>,
        mass: &[f64],
        coupling: Option<&[Matrix3<f64>]>,
        fixed: &Fixed,
    ) -> Result<Sparse<Matrix3<f64>>> {
        let [a0, a1, ..] = self.constants();
        let inertia = a0 + a1 * self.mass_damping;
        let factor = 1.0 + a1 * self.stiffness_damping;
        let mut effective = stiffness.combined(factor, |i| inertia * mass[i])?;
        effective.fix(fixed.mask());
        match coupling {
            Some(blocks) => effective.with_blocks(blocks, fixed.mask()),
            None => Ok(effective),
        }
    }

    /// `a0` to `a5` of the equations of this module.
    #[must_use]
    pub fn constants(&self) -> [f64; 6] {
        let Self { step_s: h, beta, gamma, .. } = *self;
        [
            1.0 / (beta * h * h),
            gamma / (beta * h),
            1.0 / (beta * h),
            1.0 / (2.0 * beta) - 1.0,
            gamma / beta - 1.0,
            h / 2.0 * (gamma / beta - 2.0),
        ]
    }
}

/// Where a body is, and how it moves: a vector for each vertex.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State {
    /// Displacements, mm.
    pub displacements: Vec<Vector3<f64>>,
    /// Velocities, mm/s.
    pub velocities: Vec<Vector3<f64>>,
    /// Accelerations, mm/s².
    pub accelerations: Vec<Vector3<f64>>,
}

/// What a step did.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The tetrahedron that lost most of its volume since rest.
    pub least: LeastRatio,
    /// By how much it was shortened so that no tetrahedron inverts.
    pub cut: Cut,
}

/// A body that moves, with the factor of its steps.
#[derive(Debug)]
pub struct Motion {
    body: Arc<Body>,
    fixed: Fixed,
    method: Newmark,
    constants: [f64; 6],
    stiffness: Sparse<Matrix3<f64>>,
    mass: Vec<f64>,
    factor: Factor,
}

impl Motion {
    /// The motion of a body whose fixed vertices stay where they are at rest.
    ///
    /// # Errors
    /// Those of [`Newmark::check`] and [`Factor::new`].
    pub fn new(body: Arc<Body>, fixed: Fixed, method: Newmark) -> Result<Self> {
        Self::with_coupling(body, fixed, method, None)
    }

    /// The same under forces that change with the displacement: within a step by minus a symmetric positive semi-definite block for each
    /// vertex, mN/mm, times its increment. Forces that are given where a step begins, and fall on the way, do not let the body swing then.
    ///
    /// # Errors
    /// As [`Motion::new`].
    pub fn with_coupling(
        body: Arc<Body>,
        fixed: Fixed,
        method: Newmark,
        coupling: Option<&[Matrix3<f64>]>,
    ) -> Result<Self> {
        method.check()?;
        let (stiffness, mass) = (body.stiffness()?, body.lumped_mass()?);
        let constants = method.constants();
        let effective = method.effective(&stiffness, &mass, coupling, &fixed)?;
        let factor = Factor::new(effective)?;
        Ok(Self { body, fixed, method, constants, stiffness, mass, factor })
    }

    /// Counts on another change of the forces from now on, as [`Motion::with_coupling`].
    ///
    /// # Errors
    /// Those of [`Factor::new`]; the motion is then as it was.
    pub fn recouple(&mut self, coupling: &[Matrix3<f64>]) -> Result<()> {
        let Self { method, stiffness, mass, fixed, .. } = self;
        let effective = method.effective(stiffness, mass, Some(coupling), fixed)?;
        self.factor = Factor::new(effective)?;
        Ok(())
    }

    /// The state with these displacements, mm, and velocities, mm/s, in which the equation of motion holds for forces, mN. Those of fixed
    /// vertices are made 0.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    ///
    /// # Panics
    /// Where there is not one of each for each vertex.
    pub fn start(
        &self,
        mut displacements: Vec<Vector3<f64>>,
        mut velocities: Vec<Vector3<f64>>,
        forces: &[Vector3<f64>],
    ) -> Result<State> {
        self.fixed.clear(&mut displacements);
        self.fixed.clear(&mut velocities);
        let accelerations = self.balanced(&displacements, &velocities, forces)?;
        Ok(State { displacements, velocities, accelerations })
    }

    /// A body at rest where its mesh is, under forces, mN.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    ///
    /// # Panics
    /// Where there is not one force for each vertex.
    pub fn at_rest(&self, forces: &[Vector3<f64>]) -> Result<State> {
        let zeros = memory::filled(self.mass.len(), Vector3::zeros())?;
        self.start(zeros.clone(), zeros, forces)
    }

    /// One step under forces at its end, mN. Where it would leave many tetrahedra with less than [`LEAST_RATIO`] of their volume at rest,
    /// it is halved until it does not: displacements go that part of the way, velocities are that part of what they would be, and
    /// accelerations follow from the equation of motion. Where it would leave few so, the vertices of these alone are
    /// [held](Cut).
    ///
    /// [`LEAST_RATIO`]: crate::cut::LEAST_RATIO
    ///
    /// # Errors
    /// [`ElasticityError::Inverts`] where that is not enough; the state is then as it was. The errors of [`Factor::solve`].
    ///
    /// # Panics
    /// Where there is not one force for each vertex.
    pub fn step(&self, state: &mut State, forces: &[Vector3<f64>]) -> Result<Step> {
        self.step_within(state, forces, f64::INFINITY)
    }

    /// The same, of which only such a part is made, as where it is halved, that no vertex moves farther than `most`, mm.
    ///
    /// # Errors
    /// As [`Motion::step`].
    ///
    /// # Panics
    /// As [`Motion::step`].
    pub fn step_within(
        &self,
        state: &mut State,
        forces: &[Vector3<f64>],
        most: f64,
    ) -> Result<Step> {
        let (tetrahedra, vertices) = (self.body.mesh().tetrahedra(), self.mass.len());
        let mut cut = Cut::default();
        let mut increments = self.increments(state, forces, &cut)?;
        loop {
            let farthest = increments.iter().map(|d| d.norm()).fold(0.0, f64::max);
            let within = if farthest > most { most / farthest } else { 1.0 };
            let part = within * cut.part();
            let way = state.displacements.iter().zip(&increments).enumerate();
            let way = way.map(|(i, (u, d))| u + d * (part * cut.own(i)));
            let displacements = memory::collected(way)?;
            let ratios = self.body.volume_ratios(&displacements)?;
            match cut.look(tetrahedra, &ratios, vertices)? {
                Next::Shorter => {}
                Next::Again => increments = self.increments(state, forces, &cut)?,
                Next::Serves => {
                    self.finish(state, displacements, &increments, part, forces)?;
                    let rates = state.velocities.iter_mut().zip(&mut state.accelerations);
                    for (_, (v, a)) in rates.enumerate().filter(|(i, _)| cut.holds(*i)) {
                        (*v, *a) = (Vector3::zeros(), Vector3::zeros());
                    }
                    return Ok(Step { least: LeastRatio::of(&ratios), cut });
                }
            }
        }
    }

    /// The kinetic energy, µJ.
    #[must_use]
    pub fn kinetic_energy(&self, state: &State) -> f64 {
        let of = |(v, m): (&Vector3<f64>, &f64)| m * v.norm_squared();
        0.5 * state.velocities.iter().zip(&self.mass).map(of).sum::<f64>()
    }

    /// The energy of the strain, µJ.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn strain_energy(&self, state: &State) -> Result<f64> {
        let forces = self.stiffness.product(&state.displacements)?;
        Ok(0.5 * dot(&state.displacements, &forces))
    }

    /// The norm of the force out of balance, `f - K u`, of vertices that are not fixed and were not held in the last step, mN.
    ///
    /// # Errors
    /// [`ElasticityError::OutOfMemory`].
    pub fn imbalance(&self, state: &State, forces: &[Vector3<f64>], cut: &Cut) -> Result<f64> {
        let elastic = self.stiffness.product(&state.displacements)?;
        let of = |(i, (f, k)): (usize, (&Vector3<f64>, Vector3<f64>))| match cut.holds(i) {
            true => Vector3::zeros(),
            false => f - k,
        };
        let mut left = memory::collected(forces.iter().zip(elastic).enumerate().map(of))?;
        self.fixed.clear(&mut left);
        Ok(dot(&left, &left).sqrt())
    }

    /// The increments of the displacements of a whole step.
    fn increments(
        &self,
        state: &State,
        forces: &[Vector3<f64>],
        cut: &Cut,
    ) -> Result<Vec<Vector3<f64>>> {
        let [_, _, a2, a3, a4, a5] = self.constants;
        let Newmark { mass_damping, stiffness_damping, .. } = self.method;
        let moving = || state.velocities.iter().zip(&state.accelerations);
        let damped = memory::collected(moving().map(|(v, a)| v * a4 + a * a5))?;
        let through = damped.iter().zip(&state.displacements);
        let through = memory::collected(through.map(|(w, u)| w * stiffness_damping - u))?;
        let elastic = self.stiffness.product(&through)?;
        let inertial = moving().zip(&damped).zip(&self.mass);
        let inertial = inertial.map(|(((v, a), w), m)| (v * a2 + a * a3 + w * mass_damping) * *m);
        let right = forces.iter().zip(elastic).zip(inertial).map(|((f, k), m)| f + k + m);
        let mut right = memory::collected(right)?;
        self.fixed.clear(&mut right);
        for (_, right) in right.iter_mut().enumerate().filter(|(i, _)| cut.holds(*i)) {
            *right = Vector3::zeros();
        }
        self.factor.solve(&right)
    }

    /// Puts in the displacements and what follows from them.
    fn finish(
        &self,
        state: &mut State,
        displacements: Vec<Vector3<f64>>,
        increments: &[Vector3<f64>],
        part: f64,
        forces: &[Vector3<f64>],
    ) -> Result<()> {
        let [a0, _, a2, a3, ..] = self.constants;
        let Newmark { step_s, gamma, .. } = self.method;
        let (before, after) = (step_s * (1.0 - gamma), step_s * gamma);
        let moving = state.velocities.iter().zip(&state.accelerations).zip(increments);
        let made = memory::collected(moving.map(|((v, a), d)| {
            let new = d * a0 - v * a2 - a * a3;
            (v + a * before + new * after, new)
        }))?;
        if part == 1.0 {
            state.displacements = displacements;
            let places = state.velocities.iter_mut().zip(&mut state.accelerations).zip(made);
            places
                .for_each(|((v, a), (velocity, acceleration))| (*v, *a) = (velocity, acceleration));
            return Ok(());
        }
        let velocities = memory::collected(made.iter().map(|(v, _)| v * part))?;
        let accelerations = self.balanced(&displacements, &velocities, forces)?;
        *state = State { displacements, velocities, accelerations };
        Ok(())
    }

    /// The accelerations of the equation of motion.
    fn balanced(
        &self,
        displacements: &[Vector3<f64>],
        velocities: &[Vector3<f64>],
        forces: &[Vector3<f64>],
    ) -> Result<Vec<Vector3<f64>>> {
        let Newmark { mass_damping, stiffness_damping, .. } = self.method;
        let through = displacements.iter().zip(velocities).map(|(u, v)| u + v * stiffness_damping);
        let elastic = self.stiffness.product(&memory::collected(through)?)?;
        let left = forces.iter().zip(elastic).map(|(f, k)| f - k);
        let all = left.zip(velocities).zip(&self.mass);
        let mut accelerations =
            memory::collected(all.map(|((f, v), m)| f / *m - v * mass_damping))?;
        self.fixed.clear(&mut accelerations);
        Ok(accelerations)
    }
}
