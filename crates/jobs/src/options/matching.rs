//! The options that say how one image is deformed to another, of pairs and of populations.

#[cfg(feature = "clap")]
use super::choice::{choice, choice_of};
use super::refuse;
use super::text::{as_text, by_name};
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_compute::ops::elastic::Boundary;
use voxalign_register::Choice;
use voxalign_register::diffeo::{DeformModel, DeformOptions, StepRule, check_similarity};
use voxalign_register::model::solver::{SolverKind, SolverOptions};
use voxalign_register::multiscale::{Convergence, Scale};
use voxalign_register::similarity::Similarity;

/// Scales and their iterations, coarse to fine.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule(pub Vec<Scale>);

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
        let scales = scales.collect::<Result<Vec<_>, _>>()?;
        if scales.windows(2).any(|w| w[1].factor > w[0].factor) {
            return Err("give scales from coarse to fine, such as 4x100,2x100,1x50".into());
        }
        Ok(Self(scales))
    }
}

/// How one image is deformed to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct Matching {
    /// Deformation model [default: greedy]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<DeformModel>(), help_heading = "Method"))]
    #[serde(with = "by_name")]
    pub model: Option<DeformModel>,
    /// Similarity measure [default: lncc]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice_of(Similarity::has_energy), help_heading = "Method"))]
    #[serde(with = "by_name")]
    pub similarity: Option<Similarity>,
    /// Radius of the windows of lncc, voxels at the current scale [default: 2]
    #[cfg_attr(feature = "clap", arg(long, value_name = "VOX", help_heading = "Method"))]
    pub radius: Option<usize>,
    /// Histogram bins of mi and nmi [default: 64]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Method"))]
    pub bins: Option<usize>,

    /// How forces are smoothed into velocities: by inverting the elastic operator `-alpha Laplacian
    /// - beta grad div + gamma`, or by a Gaussian [default: gaussian, and fft for lddmm]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<SolverKind>(), help_heading = "Smoothness"))]
    #[serde(with = "by_name")]
    pub solver: Option<SolverKind>,
    /// Standard deviation of the Gaussian, voxels at the current scale [default: 1.732]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "VOX", allow_negative_numbers = true, help_heading = "Smoothness")
    )]
    pub sigma: Option<f64>,
    /// Weight of the Laplacian [default: 0.01]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "A", allow_negative_numbers = true, help_heading = "Smoothness")
    )]
    pub alpha: Option<f64>,
    /// Weight of the gradient of the divergence [default: 0]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "B", allow_negative_numbers = true, help_heading = "Smoothness")
    )]
    pub beta: Option<f64>,
    /// Weight of the velocity itself [default: 0.001]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "C", allow_negative_numbers = true, help_heading = "Smoothness")
    )]
    pub gamma: Option<f64>,
    /// Boundary condition of the operator [default: periodic with fft, else zero]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<Boundary>(), help_heading = "Smoothness"))]
    #[serde(with = "by_name")]
    pub boundary: Option<Boundary>,
    /// Maximum number of iterations of sor, cg and hybrid per velocity [default: 200; 2 (cg: 4) for
    /// those of hybrid that start from the last solution]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Smoothness"))]
    pub solver_iterations: Option<usize>,
    /// Relative residual at which sor and cg stop [default: 0.001]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "R", allow_negative_numbers = true, help_heading = "Smoothness")
    )]
    pub solver_tolerance: Option<f64>,
    /// Standard deviation of the Gaussian that smooths the total displacement after each iteration,
    /// voxels at the current scale; 0 for none; for greedy and symmetric [default: 0.7; for
    /// anatomies of shapes alone 0]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "VOX", allow_negative_numbers = true, help_heading = "Smoothness")
    )]
    pub total_sigma: Option<f64>,
    /// Number of time steps of the velocity; for lddmm [default: 10]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Smoothness"))]
    pub time_steps: Option<usize>,
    /// The similarity has the weight 1 / sigma^2 relative to the length of the path; for lddmm
    /// [default: 0.1]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "SIGMA",
            allow_negative_numbers = true,
            help_heading = "Smoothness"
        )
    )]
    pub lddmm_sigma: Option<f64>,

    /// Scales and their maximum numbers of iterations, coarse to fine: `2x100` is at most 100
    /// iterations with voxels twice as long [default: 4x100,2x100,1x50; for an atlas
    /// 4x50,2x50,1x25]
    #[cfg_attr(feature = "clap", arg(long, value_name = "FxN,...", help_heading = "Schedule"))]
    #[serde(with = "as_text")]
    pub schedule: Option<Schedule>,
    /// Largest displacement of an iteration, voxels at the current scale; with lddmm, of the first
    /// iteration at a scale [default: 0.5]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "VOX", allow_negative_numbers = true, help_heading = "Schedule")
    )]
    pub step: Option<f64>,
    /// How the step is controlled; for greedy and symmetric [default: largest]
    #[cfg_attr(feature = "clap", arg(long, value_parser = choice::<StepRule>(), help_heading = "Schedule"))]
    #[serde(with = "by_name")]
    pub step_rule: Option<StepRule>,
    /// A scale ends once the energy has decreased over a window of iterations by less than this
    /// fraction of its decrease at this scale so far; 0 for never [default: 0.01; for an atlas 0]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "PART", allow_negative_numbers = true, help_heading = "Schedule")
    )]
    pub convergence: Option<f64>,
    /// Number of iterations in that window [default: 10]
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", help_heading = "Schedule"))]
    pub convergence_window: Option<usize>,
}

impl Matching {
    /// The model.
    #[must_use]
    pub fn model(&self) -> DeformModel {
        self.model.unwrap_or_default()
    }

    /// Tells a similarity the parameters that were given, as far as it has them.
    pub fn tell(&self, similarity: &mut Similarity) {
        for (name, value) in [("radius", self.radius), ("bins", self.bins)] {
            if let Some(value) = value {
                similarity.set(name, value);
            }
        }
    }

    /// The similarity.
    #[must_use]
    pub fn similarity(&self) -> Similarity {
        let mut similarity = self.similarity.unwrap_or(Similarity::LNCC);
        self.tell(&mut similarity);
        similarity
    }

    /// What a deformation takes; what would be ignored is refused.
    ///
    /// `default` has what is usual for a model, and `others` are similarities in use beside this one.
    ///
    /// # Errors
    /// Names an option that has no meaning, or a value that none may have.
    pub fn options(
        &self,
        default: impl FnOnce(DeformModel) -> DeformOptions,
        others: &[Similarity],
    ) -> Result<DeformOptions> {
        let model = self.model();
        let default = default(model);
        self.check_model(model)?;
        let used = || others.iter().copied().chain([self.similarity()]);
        let has = |name: &str| used().any(|s| s.get(name).is_some());
        refuse(self.radius.is_some() && !has("radius"), "radius", "the similarity lncc")?;
        refuse(self.bins.is_some() && !has("bins"), "bins", "the similarities mi and nmi")?;
        for mut similarity in used() {
            self.tell(&mut similarity);
            check_similarity(&similarity)?;
        }
        let off = self.convergence == Some(0.0) && self.convergence_window.is_some();
        refuse(off, "convergence_window", "a `convergence` above 0")?;
        let convergence = Convergence {
            window: self.convergence_window.unwrap_or(default.convergence.window),
            threshold: self.convergence.unwrap_or(default.convergence.threshold),
        };
        let options = DeformOptions {
            model,
            solver: self.solver(default.solver)?,
            total_sigma: self.total_sigma.unwrap_or(default.total_sigma),
            schedule: self.schedule.as_ref().map_or(default.schedule, |s| s.0.clone()),
            step: self.step.unwrap_or(default.step),
            step_rule: self.step_rule.unwrap_or(default.step_rule),
            convergence,
            time_steps: self.time_steps.unwrap_or(default.time_steps),
            sigma: self.lddmm_sigma.unwrap_or(default.sigma),
            storage: default.storage,
            histogram_match: default.histogram_match,
            clip: default.clip,
        };
        options.check()?;
        Ok(options)
    }

    /// Options that a model does not look at.
    fn check_model(&self, model: DeformModel) -> Result<()> {
        if model == DeformModel::Lddmm {
            let flows = "`model = greedy` and symmetric";
            refuse(self.total_sigma.is_some(), "total_sigma", flows)?;
            refuse(self.step_rule.is_some(), "step_rule", flows)?;
        } else {
            refuse(self.time_steps.is_some(), "time_steps", "`model = lddmm`")?;
            refuse(self.lddmm_sigma.is_some(), "lddmm_sigma", "`model = lddmm`")?;
        }
        Ok(())
    }

    fn solver(&self, usual: SolverOptions) -> Result<SolverOptions> {
        let kind = self.solver.unwrap_or(usual.kind);
        let default = if kind == usual.kind { usual } else { SolverOptions::of(kind) };
        if kind == SolverKind::Gaussian {
            for (given, option) in [
                (self.alpha.is_some(), "alpha"),
                (self.beta.is_some(), "beta"),
                (self.gamma.is_some(), "gamma"),
                (self.boundary.is_some(), "boundary"),
            ] {
                refuse(given, option, "`solver = fft`, sor, cg and hybrid, not gaussian")?;
            }
        } else {
            refuse(self.sigma.is_some(), "sigma", "`solver = gaussian`")?;
        }
        let counts = matches!(kind, SolverKind::Sor | SolverKind::Cg | SolverKind::Hybrid);
        let iterative = "`solver = sor`, cg and hybrid";
        refuse(self.solver_iterations.is_some() && !counts, "solver_iterations", iterative)?;
        let stops = matches!(kind, SolverKind::Sor | SolverKind::Cg);
        let until = "`solver = sor` and cg";
        refuse(self.solver_tolerance.is_some() && !stops, "solver_tolerance", until)?;
        Ok(SolverOptions {
            kind,
            alpha: self.alpha.unwrap_or(default.alpha),
            beta: self.beta.unwrap_or(default.beta),
            gamma: self.gamma.unwrap_or(default.gamma),
            boundary: self.boundary.unwrap_or(default.boundary),
            sigma: self.sigma.unwrap_or(default.sigma),
            iterations: self.solver_iterations.or(default.iterations),
            tolerance: self.solver_tolerance.unwrap_or(default.tolerance),
        })
    }
}

/// All parameters of a matching that have an effect, also those left at their default; `similarities`
/// are those in use.
pub(crate) fn matching_parameters(
    options: &DeformOptions,
    similarities: &[Similarity],
) -> serde_json::Value {
    let mut all = json!({
        "model": options.model.name(),
        "solver": solver(&options.solver),
        "schedule": options.schedule,
        "step": options.step,
        "convergence": options.convergence,
    });
    let mut put = |name: &str, value: serde_json::Value| {
        if let Some(all) = all.as_object_mut() {
            all.insert(name.to_owned(), value);
        }
    };
    for (name, value) in similarities.iter().flat_map(Similarity::parameters) {
        put(name, json!(value));
    }
    if options.model == DeformModel::Lddmm {
        put("time_steps", json!(options.time_steps));
        put("lddmm_sigma", json!(options.sigma));
    } else {
        put("total_sigma", json!(options.total_sigma));
        put("step_rule", json!(options.step_rule));
    }
    all
}

fn solver(options: &SolverOptions) -> serde_json::Value {
    let name = options.kind.name();
    if options.kind == SolverKind::Gaussian {
        return json!({ "kind": name, "sigma": options.sigma });
    }
    let mut all = json!({
        "kind": name,
        "alpha": options.alpha,
        "beta": options.beta,
        "gamma": options.gamma,
        "boundary": options.boundary.name(),
    });
    if let (Some(all), false) = (all.as_object_mut(), options.kind == SolverKind::Fft) {
        all.insert("iterations".to_owned(), json!(options.most_iterations()));
        all.insert("tolerance".to_owned(), json!(options.tolerance));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        let scale = |factor, iterations| Scale { factor, iterations };
        assert_eq!("4x20, 2x5".parse(), Ok(Schedule(vec![scale(4, 20), scale(2, 5)])));
        for bad in ["", "4", "4x", "x3", "0x3", "65x3", "4x0", "1x5,2x5", "4x20,"] {
            assert!(bad.parse::<Schedule>().is_err(), "{bad}");
        }
    }
}
