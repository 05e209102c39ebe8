//! The driver of all multi-resolution registrations.
//!
//! A registration is three parts that know little of each other (Ha 2011, section B.3.4): a
//! [`Deformation`] holds images and fields, the [`Scale`]s say how coarse and how long, an
//! [`Iteration`] makes one step. [`run`] puts them together; greedy, symmetric and LDDMM
//! registration all go through it.

use crate::error::{RegisterError, Result};
use crate::numbers::null_is_nan;
use crate::progress::{Event, Progress};
use crate::similarity::Energies;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Instant;
use voxalign_options::text_value;

/// One scale of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scale {
    /// The ratio of voxel lengths to those of the finest grid.
    pub factor: usize,
    /// The most iterations.
    pub iterations: usize,
}

/// Scales and their iterations, coarse to fine, such as `4x100,2x100,1x50`: factors of 1 to 64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(pub Vec<Scale>);

impl Schedule {
    /// Of factors and iterations.
    #[must_use]
    pub fn of(scales: &[(usize, usize)]) -> Self {
        Self(scales.iter().map(|&(factor, iterations)| Scale { factor, iterations }).collect())
    }

    /// Three scales.
    #[must_use]
    pub fn usual() -> Self {
        Self::of(&[(4, 100), (2, 100), (1, 50)])
    }
}

impl Display for Schedule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(|s| format!("{}x{}", s.factor, s.iterations)).collect();
        f.write_str(&all.join(","))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scale = |part: &str| {
            let (factor, iterations) = part.trim().split_once('x')?;
            let factor = factor.parse().ok().filter(|f| (1..=64).contains(f))?;
            let iterations = iterations.parse().ok().filter(|&i| i > 0)?;
            Some(Scale { factor, iterations })
        };
        let scales = text.split(',').map(|part| {
            scale(part).ok_or_else(|| {
                format!(
                    "'{part}' is not a scale: give FACTORxITERATIONS with a factor from 1 to 64 \
                     and at least 1 iteration, such as 4x100,2x100,1x50"
                )
            })
        });
        let scales = Self(scales.collect::<Result<Vec<_>, _>>()?);
        if scales.0.windows(2).any(|w| w[1].factor > w[0].factor) {
            return Err("give scales from coarse to fine, such as 4x100,2x100,1x50".into());
        }
        Ok(scales)
    }
}

text_value!(Schedule, "FxN,...");

/// When a scale ends before its iterations are used up; by default once the energy has fallen by less
/// than a hundredth over 10 iterations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Convergence {
    /// Iterations that are looked at together, at least 1.
    pub window: usize,
    /// The scale ends once the energy falls by less than this part of its fall so far on this
    /// scale over a window; 0 for never.
    pub threshold: f64,
}

impl Default for Convergence {
    fn default() -> Self {
        Self { window: 10, threshold: 0.01 }
    }
}

impl Convergence {
    /// Whether the energies, one per iteration, show that the scale has converged.
    #[must_use]
    pub fn reached(&self, energies: &[f64]) -> bool {
        let n = energies.len();
        if self.threshold <= 0.0 || self.window == 0 || n / 2 < self.window {
            return false;
        }
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let last = mean(&energies[n - self.window..]);
        let before = mean(&energies[n - 2 * self.window..n - self.window]);
        before - last < self.threshold * (energies[0] - last).max(0.0)
    }

    /// The same of a scale whose energy may have [parts](Energies::parts): each of them has to be done, as a large one would hide that
    /// another still falls.
    #[must_use]
    pub fn reached_by(&self, energies: &[f64], parts: &[Vec<f64>]) -> bool {
        match parts {
            [] => self.reached(energies),
            parts => parts.iter().all(|part| self.reached(part)),
        }
    }
}

/// What deforms: images and fields at the current scale.
pub trait Deformation {
    /// The error type.
    type Error: From<RegisterError>;

    /// Brings images and fields to a scale; at the first call the fields are zero.
    ///
    /// # Errors
    /// Memory that runs out.
    fn to_scale(&mut self, scale: &Scale) -> Result<(), Self::Error>;

    /// Called once after the last scale.
    ///
    /// # Errors
    /// Memory that runs out.
    fn finish(&mut self) -> Result<(), Self::Error>;
}

/// One step of a registration.
pub trait Iteration<F: Deformation> {
    /// Called after the deformation has come to a scale.
    ///
    /// # Errors
    /// Memory that runs out, constants that cannot be.
    fn to_scale(&mut self, deformation: &F, scale: &Scale) -> Result<(), F::Error>;

    /// Makes a step, and gives the energies before it.
    ///
    /// # Errors
    /// What fails on the device.
    fn iterate(&mut self, deformation: &mut F) -> Result<Energies, F::Error>;

    /// Whether the scale is over, of a deformation that knows better than its energies say; `None`, as usual, leaves that to
    /// [`Convergence`]. Asked after each iteration before another one is made, also after the last one that a run which
    /// [goes on](resume) had made: it has to follow from what is kept then.
    fn at_rest(&self, deformation: &F, course: &Course) -> Option<bool> {
        let _ = (deformation, course);
        None
    }

    /// How the deformation moved in the last iteration, of one that has mass and elasticity.
    fn motion(&self, deformation: &F) -> Option<Motion> {
        let _ = deformation;
        None
    }

    /// The number of iterations with which a scale should end that are other than those before.
    fn settling(&self, deformation: &F) -> usize {
        let _ = deformation;
        0
    }

    /// Is told that those begin.
    fn settle(&mut self, deformation: &mut F) {
        let _ = deformation;
    }

    /// The energy of an earlier iteration, where the last one raised it and the deformation was put back to where it was then.
    fn put_back(&self, deformation: &F) -> Option<f64> {
        let _ = deformation;
        None
    }

    /// Called when the iterations of a scale are over, before [`put_back`](Self::put_back) is asked; what is worth a remark.
    ///
    /// # Errors
    /// What fails on the device.
    fn end_scale(&mut self, deformation: &mut F) -> Result<Option<f64>, F::Error> {
        let _ = deformation;
        Ok(None)
    }
}

/// The motion of an elastic body with mass in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Motion {
    /// The kinetic energy, µJ.
    #[serde(deserialize_with = "null_is_nan")]
    pub kinetic_energy: f64,
    /// The strain energy, µJ.
    #[serde(deserialize_with = "null_is_nan")]
    pub strain_energy: f64,
    /// The norm of the unbalanced force, mN.
    #[serde(deserialize_with = "null_is_nan")]
    pub unbalanced_force: f64,
    /// The norm of the forces of images that are a voxel off, mN.
    #[serde(default, deserialize_with = "null_is_nan")]
    pub voxel_force: f64,
    /// The kinetic energy of a body that goes a voxel in a step, µJ.
    #[serde(default, deserialize_with = "null_is_nan")]
    pub voxel_kinetic: f64,
    /// The smallest Jacobian: of an element's volume to that at rest.
    #[serde(deserialize_with = "null_is_nan")]
    pub least_jacobian: f64,
    /// The number of times that the step was halved.
    pub cuts: usize,
    /// The number of vertices that went a shorter way than the others, so that no element inverts.
    #[serde(default)]
    pub held: usize,
}

/// The record of a scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScaleRecord {
    /// The ratio of voxel lengths to those of the finest grid.
    pub factor: usize,
    /// The most iterations allowed.
    pub allowed: usize,
    /// The energy before each iteration made.
    #[serde(deserialize_with = "null_is_nan")]
    pub energies: Vec<f64>,
    /// Where points pull: the same of each [part](Energies::parts).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Vec<f64>>,
    /// How the deformation [moved](Iteration::motion) in each iteration, of one that says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub motion: Vec<Motion>,
    /// The relative residual of the solver at the end of the scale, where there is one.
    pub residual: Option<f64>,
    /// Wall time, seconds.
    pub seconds: f64,
}

/// The progress of a run: all state of the driver, with which [`resume`] continues a stopped run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Course {
    /// The scales that are over.
    pub records: Vec<ScaleRecord>,
    /// The energy before each iteration of the scale that is not.
    pub energies: Vec<f64>,
    /// The same of each [part](Energies::parts), where there are some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Vec<f64>>,
    /// How the deformation [moved](Iteration::motion) in each iteration of that scale, of one that says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub motion: Vec<Motion>,
    /// The number of iterations after which that scale ends, once it [settles](Iteration::settle).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// Wall time of that scale so far, seconds.
    pub seconds: f64,
}

/// Looks at a run while nothing is under way: after each iteration and each scale.
pub trait Keeper<F: Deformation, I> {
    /// A point from which the run can resume.
    ///
    /// # Errors
    /// What ends the run.
    fn look(
        &mut self,
        deformation: &mut F,
        iteration: &mut I,
        course: &Course,
    ) -> Result<(), F::Error>;
}

/// Nothing is kept.
impl<F: Deformation, I> Keeper<F, I> for () {
    fn look(&mut self, _: &mut F, _: &mut I, _: &Course) -> Result<(), F::Error> {
        Ok(())
    }
}

/// Runs all scales.
///
/// # Errors
/// What fails on the device; a stop asked for by the listener; an energy that is not a number.
pub fn run<F: Deformation, I: Iteration<F>>(
    deformation: &mut F,
    iteration: &mut I,
    scales: &[Scale],
    convergence: &Convergence,
    progress: &dyn Progress,
) -> Result<Vec<ScaleRecord>, F::Error> {
    resume(deformation, iteration, scales, convergence, progress, Course::default(), &mut ())
}

/// The fraction of the work of all scales for one of them, where each makes all of its iterations.
fn share(scales: &[Scale], index: usize) -> f64 {
    let work = |s: &Scale| s.iterations as f64 / (s.factor as f64).powi(3);
    work(&scales[index]) / scales.iter().map(work).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Whether a scale is over before its iterations are used up.
fn is_over<F: Deformation, I: Iteration<F>>(
    deformation: &F,
    iteration: &I,
    convergence: &Convergence,
    course: &Course,
) -> bool {
    let at_rest = match course.energies.is_empty() {
        true => None,
        false => iteration.at_rest(deformation, course),
    };
    at_rest.unwrap_or_else(|| convergence.reached_by(&course.energies, &course.parts))
}

/// A scale [settles](Iteration::settling) in at most one of so many of the iterations that are allowed.
const SETTLING: usize = 4;

/// Whether another iteration is made. Scales of which the energy has come to rest, or the iterations are nearly used up, settle first.
fn goes_on<F: Deformation, I: Iteration<F>>(
    deformation: &mut F,
    iteration: &mut I,
    scale: &Scale,
    convergence: &Convergence,
    course: &mut Course,
) -> bool {
    let made = course.energies.len();
    if let Some(end) = course.end {
        return made < end;
    }
    if made >= scale.iterations {
        return false;
    }
    let is_over = is_over(deformation, iteration, convergence, course);
    let left = iteration.settling(deformation).min(scale.iterations / SETTLING);
    let is_near = is_over || made + left >= scale.iterations;
    if is_near && left > 0 && made > 0 {
        iteration.settle(deformation);
        course.end = Some(scale.iterations.min(made + left));
        return true;
    }
    !is_over
}

/// Runs what is left of all scales. Unless the course is at its beginning, deformation and iteration are
/// as they were when [`Keeper::look`] saw it.
///
/// # Errors
/// As [`run`]; what the keeper returns.
pub fn resume<F: Deformation, I: Iteration<F>>(
    deformation: &mut F,
    iteration: &mut I,
    scales: &[Scale],
    convergence: &Convergence,
    progress: &dyn Progress,
    mut course: Course,
    keeper: &mut dyn Keeper<F, I>,
) -> Result<Vec<ScaleRecord>, F::Error> {
    for (index, scale) in scales.iter().enumerate().skip(course.records.len()) {
        let (began, before) = (Instant::now(), course.seconds);
        let name = format!("1/{}", scale.factor);
        progress.event(&Event::StageStart {
            index,
            count: scales.len(),
            name: &name,
            counts: "iterations",
            value: "energy",
            share: share(scales, index),
        });
        if course.energies.is_empty() {
            deformation.to_scale(scale)?;
            iteration.to_scale(deformation, scale)?;
        }
        while goes_on(deformation, iteration, scale, convergence, &mut course) {
            if progress.stop() {
                return Err(RegisterError::Stopped.into());
            }
            let i = course.energies.len();
            let Energies { total: energy, parts } = iteration.iterate(deformation)?;
            if !energy.is_finite() {
                return Err(RegisterError::Diverged { factor: scale.factor, iteration: i }.into());
            }
            course.energies.push(energy);
            course.parts.resize_with(parts.len(), Vec::new);
            course.parts.iter_mut().zip(parts).for_each(|(list, part)| list.push(part));
            course.motion.extend(iteration.motion(deformation));
            course.seconds = before + began.elapsed().as_secs_f64();
            progress.event(&Event::Step {
                done: (i + 1) as f64 / scale.iterations as f64,
                evaluations: i + 1,
                best: energy,
                what: "",
            });
            keeper.look(deformation, iteration, &course)?;
        }
        let residual = iteration.end_scale(deformation)?;
        // The scale ends with the energy of the deformation that it ends with.
        let least = iteration.put_back(deformation);
        if let Some(at) = course.energies.iter().position(|e| Some(*e) == least) {
            for list in std::iter::once(&mut course.energies).chain(&mut course.parts) {
                if let Some(&value) = list.get(at)
                    && let Some(last) = list.last_mut()
                {
                    *last = value;
                }
            }
        }
        let seconds = before + began.elapsed().as_secs_f64();
        let energies = std::mem::take(&mut course.energies);
        let parts = std::mem::take(&mut course.parts);
        let motion = std::mem::take(&mut course.motion);
        (course.seconds, course.end) = (0.0, None);
        progress.event(&Event::StageEnd {
            name: &name,
            evaluations: energies.len(),
            start: energies.first().copied().unwrap_or(f64::NAN),
            best: energies.last().copied().unwrap_or(f64::NAN),
            seconds,
        });
        let (factor, allowed) = (scale.factor, scale.iterations);
        course.records.push(ScaleRecord {
            factor,
            allowed,
            energies,
            parts,
            motion,
            residual,
            seconds,
        });
        keeper.look(deformation, iteration, &course)?;
    }
    deformation.finish()?;
    Ok(course.records)
}

#[cfg(test)]
mod tests;
