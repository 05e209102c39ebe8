//! The options of a deformable registration.

use super::DeformModel;
use super::lddmm::Storage;
use super::solver::{SolverKind, SolverOptions};
use crate::choice::choices;
use crate::error::{RegisterError, Result};
use crate::multiscale::{Convergence, Scale};
use serde::{Deserialize, Serialize};

/// How steps are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum StepRule {
    /// The largest displacement of each iteration equals the step.
    #[default]
    Largest,
    /// As largest, but halved when the energy rises.
    Adaptive,
}

choices! { StepRule:
    Largest "largest" "The largest displacement of each iteration equals the step",
    Adaptive "adaptive" "As largest, but halved when the energy rises",
}

/// What a deformable registration can be told. [`DeformOptions::of`] has the defaults of a model,
/// [`DeformOptions::check`] the ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct DeformOptions {
    /// How images are deformed.
    pub model: DeformModel,
    /// From forces to velocities.
    pub solver: SolverOptions,
    /// Standard deviation of the Gaussian over the whole displacement after each iteration, voxels
    /// of the scale, 0 (none) to 20. It makes the deformation elastic instead of fluid; greedy and
    /// symmetric models only.
    pub total_sigma: f64,
    /// Scales, coarse to fine, at least one; factors of 1 to 64.
    pub schedule: Vec<Scale>,
    /// The largest displacement of an iteration, voxels of the scale, above 0 and at most 2 (greedy
    /// and symmetric).
    pub step: f64,
    /// How the step is adapted.
    pub step_rule: StepRule,
    /// When a scale ends early.
    pub convergence: Convergence,
    /// Time steps of the velocity, 1 to 1000 (LDDMM).
    pub time_steps: usize,
    /// The similarity counts `1 / sigma^2` against the energy of the path, above 0 (LDDMM): `σ` of
    /// [`lddmm`](super::lddmm).
    pub sigma: f64,
    /// What is kept of the path (LDDMM).
    pub storage: Storage,
    /// Whether the moving image's histogram is matched to that of the fixed one first.
    pub histogram_match: bool,
    /// Whether only the common bounding box of the images' foregrounds is computed on.
    pub clip: bool,
}

impl Default for DeformOptions {
    fn default() -> Self {
        let scale = |factor, iterations| Scale { factor, iterations };
        Self {
            model: DeformModel::default(),
            solver: SolverOptions::of(SolverKind::Gaussian),
            total_sigma: 0.7,
            schedule: vec![scale(4, 100), scale(2, 100), scale(1, 50)],
            step: 0.5,
            step_rule: StepRule::default(),
            convergence: Convergence::default(),
            time_steps: 10,
            sigma: 0.1,
            storage: Storage::default(),
            histogram_match: false,
            clip: true,
        }
    }
}

impl DeformOptions {
    /// What is usual for a model. A path has the length that an elastic operator gives it, so that
    /// LDDMM cannot take a Gaussian in its place.
    #[must_use]
    pub fn of(model: DeformModel) -> Self {
        let mut options = Self { model, ..Self::default() };
        match model {
            DeformModel::Symmetric => options.clip = false,
            DeformModel::Lddmm => options.solver = SolverOptions::of(SolverKind::Fft),
            _ => {}
        }
        options
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`RegisterError::Option`] for a value that cannot be used, with what can.
    pub fn check(&self) -> Result<()> {
        let wrong = |option, value: String, remedy: &str| {
            Err(RegisterError::Option { option, value, remedy: remedy.into() })
        };
        if self.schedule.is_empty() {
            let remedy = "give at least one scale, such as 4x100,2x100,1x50";
            return wrong("schedule", "empty".into(), remedy);
        }
        if let Some(s) = self.schedule.iter().find(|s| !(1..=64).contains(&s.factor)) {
            let value = format!("a list with the factor {}", s.factor);
            return wrong("schedule", value, "factors range from 1 to 64");
        }
        if self.schedule.windows(2).any(|s| s[0].factor < s[1].factor) {
            let order = "give the largest factor first, as in 4x100,2x100,1x50";
            return wrong("schedule", "not coarse to fine".into(), order);
        }
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        for (option, value, fits, remedy) in [
            (
                "step",
                self.step,
                self.step > 0.0 && self.step <= 2.0,
                "give a number of voxels above 0 and up to 2",
            ),
            (
                "total sigma",
                self.total_sigma,
                within(self.total_sigma, 0.0, 20.0),
                "give a number of voxels from 0 (none) to 20",
            ),
            (
                "convergence",
                self.convergence.threshold,
                within(self.convergence.threshold, 0.0, 0.999),
                "give a fraction from 0 (never) to 0.999, such as 0.01",
            ),
            (
                "lddmm sigma",
                self.sigma,
                self.sigma > 0.0 && self.sigma.is_finite(),
                "give a number above 0, such as 0.1",
            ),
        ] {
            if !fits {
                return wrong(option, value.to_string(), remedy);
            }
        }
        for (option, value, low, high, remedy) in [
            ("time steps", self.time_steps, 1, 1000, "give a number from 1 to 1000"),
            (
                "convergence window",
                self.convergence.window,
                1,
                usize::MAX,
                "give at least 1 iteration",
            ),
        ] {
            if !(low..=high).contains(&value) {
                return wrong(option, value.to_string(), remedy);
            }
        }
        if self.model == DeformModel::Lddmm && self.solver.kind == SolverKind::Gaussian {
            let remedy = "it defines no norm of the velocity, which LDDMM minimises; use fft, sor, \
                          cg or hybrid";
            return wrong("solver", "gaussian".into(), remedy);
        }
        self.solver.check()
    }
}
