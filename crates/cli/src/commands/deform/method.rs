//! The options that say how is registered.

use crate::args::{choice, number};
use crate::failure::Failure;
use clap::Args;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use voxalign_compute::ops::elastic::Boundary;
use voxalign_register::Choice;
use voxalign_register::diffeo::multiscale::{Convergence, Scale};
use voxalign_register::diffeo::solver::{SolverKind, SolverOptions};
use voxalign_register::diffeo::{DeformModel, DeformOptions, DeformSimilarity, StepRule};

/// Where the deformation starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AffineChoice {
    /// An affine registration comes first.
    #[default]
    Auto,
    /// The headers as they are.
    None,
    File(PathBuf),
}

impl FromStr for AffineChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(AffineChoice::Auto),
            "none" => Ok(AffineChoice::None),
            _ if !Path::new(text).exists() => {
                Err("neither auto or none, nor a transform file that is there".into())
            }
            _ => Ok(AffineChoice::File(text.into())),
        }
    }
}

impl AffineChoice {
    /// The file, where it is one.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self {
            AffineChoice::File(path) => Some(path),
            _ => None,
        }
    }

    /// The name, or the file.
    pub(super) fn name(&self) -> String {
        match self {
            AffineChoice::Auto => "auto".into(),
            AffineChoice::None => "none".into(),
            AffineChoice::File(path) => path.display().to_string(),
        }
    }
}

/// A pair of images with a similarity of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Channel {
    pub(super) fixed: PathBuf,
    pub(super) moving: PathBuf,
    pub(super) similarity: DeformSimilarity,
    pub(super) weight: f64,
}

impl Channel {
    /// Channels from the words of all `--channel` options, four each.
    pub(super) fn all(words: &[String]) -> Result<Vec<Self>, Failure> {
        words.chunks(4).map(Self::new).collect()
    }

    fn new(words: &[String]) -> Result<Self, Failure> {
        let bad = |what: String| {
            let known: Vec<_> = DeformSimilarity::ALL.iter().map(|s| s.name()).collect();
            Failure::input(format!(
                "--channel: {what}; give a fixed image, a moving one, a similarity ({}) and a weight, \
                 such as `t2a.nii.gz t2b.nii.gz lncc 0.5`",
                known.join(", ")
            ))
        };
        let [fixed, moving, similarity, weight] = words else {
            return Err(bad(format!("{} values", words.len())));
        };
        let similarity = DeformSimilarity::named(similarity)
            .ok_or_else(|| bad(format!("'{similarity}' is no similarity")))?;
        let weight = number(weight)
            .ok()
            .filter(|w| *w > 0.0)
            .ok_or_else(|| bad(format!("'{weight}' is no weight above 0")))?;
        let (fixed, moving) = (fixed.into(), moving.into());
        Ok(Self { fixed, moving, similarity, weight })
    }
}

/// Scales and their iterations, coarse to fine.
#[derive(Debug, Clone, PartialEq)]
struct Schedule(Vec<Scale>);

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
                    "'{part}' is no scale: give FACTORxITERATIONS with a factor from 1 to 64 and \
                     at least 1 iteration, such as 4x100,2x100,1x50"
                )
            })
        });
        let scales = scales.collect::<Result<Vec<_>, _>>()?;
        if scales.windows(2).any(|w| w[1].factor > w[0].factor) {
            return Err("scales go from coarse to fine, such as 4x100,2x100,1x50".into());
        }
        Ok(Self(scales))
    }
}

/// The method of a deformable registration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DeformMethodArgs {
    /// How images are deformed [default: greedy]
    #[arg(long, value_parser = choice::<DeformModel>(), help_heading = "Method")]
    model: Option<DeformModel>,
    /// Similarity of FIXED and MOVING [default: lncc]
    #[arg(long, value_parser = choice::<DeformSimilarity>(), help_heading = "Method")]
    similarity: Option<DeformSimilarity>,
    /// A further pair of images with its similarity and the weight of it (that of FIXED and MOVING
    /// is 1); the fixed image is on the grid of FIXED. Can be given several times
    #[arg(long, num_args = 4, value_names = ["FIXED", "MOVING", "SIM", "WEIGHT"],
          allow_negative_numbers = true, action = clap::ArgAction::Append,
          help_heading = "Method")]
    channel: Vec<String>,
    /// Radius of the windows of lncc, voxels of the scale [default: 2]
    #[arg(long, value_name = "VOX", help_heading = "Method")]
    radius: Option<usize>,
    /// Histogram bins of mi and nmi [default: 64]
    #[arg(long, value_name = "N", help_heading = "Method")]
    bins: Option<usize>,
    /// Match the histogram of each moving image to that of its fixed one first
    #[arg(long, help_heading = "Method")]
    histogram_match: bool,
    /// Compute on the whole fixed grid, not only where the images are more than background;
    /// symmetric does so anyway
    #[arg(long, help_heading = "Method")]
    no_clip: bool,

    /// What makes velocities of forces: the elastic operator `-alpha Laplacian - beta grad div +
    /// gamma`, inverted, or a Gaussian [default: gaussian, and fft for lddmm]
    #[arg(long, value_parser = choice::<SolverKind>(), help_heading = "Smoothness")]
    solver: Option<SolverKind>,
    /// Standard deviation of the Gaussian, voxels of the scale [default: 1.732]
    #[arg(long, value_name = "VOX", allow_negative_numbers = true, help_heading = "Smoothness")]
    sigma: Option<f64>,
    /// Weight of the Laplacian [default: 0.01]
    #[arg(long, value_name = "A", allow_negative_numbers = true, help_heading = "Smoothness")]
    alpha: Option<f64>,
    /// Weight of the gradient of the divergence [default: 0]
    #[arg(long, value_name = "B", allow_negative_numbers = true, help_heading = "Smoothness")]
    beta: Option<f64>,
    /// Weight of the velocity itself [default: 0.001]
    #[arg(long, value_name = "C", allow_negative_numbers = true, help_heading = "Smoothness")]
    gamma: Option<f64>,
    /// What the operator has beyond the border of the grid [default: periodic with fft, else zero]
    #[arg(long, value_parser = choice::<Boundary>(), help_heading = "Smoothness")]
    boundary: Option<Boundary>,
    /// Most iterations of sor, cg and hybrid for a velocity [default: 200, and 2 (cg: 4) for those of
    /// hybrid that start from the last solution]
    #[arg(long, value_name = "N", help_heading = "Smoothness")]
    solver_iterations: Option<usize>,
    /// Relative residual at which sor and cg stop [default: 0.001]
    #[arg(long, value_name = "R", allow_negative_numbers = true, help_heading = "Smoothness")]
    solver_tolerance: Option<f64>,
    /// Standard deviation of the Gaussian over the whole displacement after each iteration, voxels
    /// of the scale; 0 for none; greedy and symmetric [default: 0.7]
    #[arg(long, value_name = "VOX", allow_negative_numbers = true, help_heading = "Smoothness")]
    total_sigma: Option<f64>,
    /// Time steps of the velocity, lddmm [default: 10]
    #[arg(long, value_name = "N", help_heading = "Smoothness")]
    time_steps: Option<usize>,
    /// The similarity counts 1 / sigma^2 against the length of the path, lddmm [default: 0.1]
    #[arg(long, value_name = "SIGMA", allow_negative_numbers = true, help_heading = "Smoothness")]
    lddmm_sigma: Option<f64>,

    /// Scales and their most iterations, coarse to fine: `2x100` is at most 100 iterations with
    /// voxels twice as long [default: 4x100,2x100,1x50]
    #[arg(long, value_name = "FxN,...", help_heading = "Schedule")]
    schedule: Option<Schedule>,
    /// The largest displacement of an iteration, voxels of the scale; with lddmm, of the first one
    /// of a scale [default: 0.5]
    #[arg(long, value_name = "VOX", allow_negative_numbers = true, help_heading = "Schedule")]
    step: Option<f64>,
    /// How steps are limited; greedy and symmetric [default: largest]
    #[arg(long, value_parser = choice::<StepRule>(), help_heading = "Schedule")]
    step_rule: Option<StepRule>,
    /// A scale ends once the energy falls over a window by less than this part of its fall so far
    /// on this scale; 0 for never [default: 0.01]
    #[arg(long, value_name = "PART", allow_negative_numbers = true, help_heading = "Schedule")]
    convergence: Option<f64>,
    /// Iterations of that window [default: 10]
    #[arg(long, value_name = "N", help_heading = "Schedule")]
    convergence_window: Option<usize>,
}

/// An option that would be ignored.
fn refuse(given: bool, option: &str, is_for: &str) -> Result<(), Failure> {
    if given {
        return Err(Failure::input(format!("{option} is for {is_for}; leave it out")));
    }
    Ok(())
}

impl DeformMethodArgs {
    /// The words of all channels.
    pub(super) fn channels(&self) -> &[String] {
        &self.channel
    }

    /// The similarity of the first pair.
    pub(super) fn similarity(&self) -> DeformSimilarity {
        self.similarity.unwrap_or_default()
    }

    /// The library's options; what would be ignored is refused.
    pub(super) fn options(&self, channels: &[Channel]) -> Result<DeformOptions, Failure> {
        let model = self.model.unwrap_or_default();
        let default = DeformOptions::of(model);
        self.check_model(model)?;
        let mut used = channels.iter().map(|c| c.similarity).chain([self.similarity()]);
        let uses = |wanted: &[DeformSimilarity]| used.clone().any(|s| wanted.contains(&s));
        let lncc = uses(&[DeformSimilarity::Lncc]);
        refuse(self.radius.is_some() && !lncc, "--radius", "the similarity lncc")?;
        let histogram = used.any(|s| matches!(s, DeformSimilarity::Mi | DeformSimilarity::Nmi));
        refuse(self.bins.is_some() && !histogram, "--bins", "the similarities mi and nmi")?;
        let off = self.convergence == Some(0.0) && self.convergence_window.is_some();
        refuse(off, "--convergence-window", "a --convergence above 0")?;
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
            radius: self.radius.unwrap_or(default.radius),
            bins: self.bins.unwrap_or(default.bins),
            time_steps: self.time_steps.unwrap_or(default.time_steps),
            sigma: self.lddmm_sigma.unwrap_or(default.sigma),
            histogram_match: self.histogram_match,
            clip: !self.no_clip && default.clip,
        };
        options.check()?;
        Ok(options)
    }

    /// Options that a model does not look at.
    fn check_model(&self, model: DeformModel) -> Result<(), Failure> {
        if model == DeformModel::Lddmm {
            let flows = "--model greedy and symmetric";
            refuse(self.total_sigma.is_some(), "--total-sigma", flows)?;
            refuse(self.step_rule.is_some(), "--step-rule", flows)?;
        } else {
            refuse(self.time_steps.is_some(), "--time-steps", "--model lddmm")?;
            refuse(self.lddmm_sigma.is_some(), "--lddmm-sigma", "--model lddmm")?;
        }
        if model == DeformModel::Symmetric {
            refuse(self.no_clip, "--no-clip", "--model greedy and lddmm")?;
        }
        Ok(())
    }

    fn solver(&self, usual: SolverOptions) -> Result<SolverOptions, Failure> {
        let kind = self.solver.unwrap_or(usual.kind);
        let default = if kind == usual.kind { usual } else { SolverOptions::of(kind) };
        if kind == SolverKind::Gaussian {
            for (given, option) in [
                (self.alpha.is_some(), "--alpha"),
                (self.beta.is_some(), "--beta"),
                (self.gamma.is_some(), "--gamma"),
                (self.boundary.is_some(), "--boundary"),
            ] {
                refuse(given, option, "--solver fft, sor, cg and hybrid, not gaussian")?;
            }
        } else {
            refuse(self.sigma.is_some(), "--sigma", "--solver gaussian")?;
        }
        let counts = matches!(kind, SolverKind::Sor | SolverKind::Cg | SolverKind::Hybrid);
        let iterative = "--solver sor, cg and hybrid";
        refuse(self.solver_iterations.is_some() && !counts, "--solver-iterations", iterative)?;
        let stops = matches!(kind, SolverKind::Sor | SolverKind::Cg);
        let until = "--solver sor and cg";
        refuse(self.solver_tolerance.is_some() && !stops, "--solver-tolerance", until)?;
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

    #[test]
    fn channels() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let found = Channel::all(&words("a b mi 0.5 c d ssd 2")).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].similarity, found[1].weight), (DeformSimilarity::Ssd, 2.0));
        for bad in ["a b mi", "a b xx 1", "a b mi 0", "a b mi -1", "a b mi nan"] {
            assert!(Channel::all(&words(bad)).is_err(), "{bad}");
        }
    }
}
