//! The kinds of deformation model with their parameters, and the parameters that all of them share.

use super::greedy::Greedy;
use super::lddmm::Lddmm;
use super::solver::SolverKind;
use super::symmetric::Symmetric;
use super::{CohortModel, Model, UseCohortModel, UseModel};
use crate::error::Result;
use crate::multiscale::{Convergence, Scale, Schedule};
use crate::similarity::Similarity;
use voxalign_compute::Device;
use voxalign_compute::cpu::Cpu;
use voxalign_image::{Affine, Grid};
use voxalign_options::{Choice, OptionError, Parameters};

/// What a kind of model implements.
pub trait Kind: Parameters + Copy {
    /// Its state and steps on a device.
    type Model<D: Device>: Model<D>;

    /// The model on a grid.
    fn model<D: Device>(self, matching: &Matching, grid: &Grid) -> Self::Model<D>;

    /// Does some work with the model of several subjects; none where it registers pairs only.
    fn with_cohort<D: Device, U: UseCohortModel<D>>(
        self,
        matching: &Matching,
        work: U,
    ) -> Option<U::Out> {
        let _ = (matching, work);
        None
    }

    /// Bytes of host memory for each voxel of the fixed image that a registration of a pair needs at most, measured with 1 to
    /// 17 million voxels.
    fn bytes_per_voxel(self) -> u64;

    /// What the energy of attachments is multiplied by in the total energy.
    fn similarity_weight(self) -> f64 {
        1.0
    }

    /// The solver that is usual with it.
    fn usual_solver(self) -> SolverKind {
        SolverKind::GAUSSIAN
    }

    /// Refuses a solver that it cannot take.
    ///
    /// # Errors
    /// Says which it can.
    fn check_solver(self, solver: &SolverKind) -> Result<(), OptionError> {
        let _ = solver;
        Ok(())
    }

    /// Refuses an affine map that it cannot start from.
    ///
    /// # Errors
    /// Says why.
    fn check_start(self, affine: &Affine) -> Result<()> {
        let _ = affine;
        Ok(())
    }

    /// Whether it is computed on a grid between both images, not on that of the fixed one.
    fn meets_half_way(self) -> bool {
        false
    }
}

/// Deformation model.
#[derive(Debug, Clone, Copy, PartialEq, Choice)]
#[choice(option = "model", heading = "Method", each = each_model)]
pub enum DeformModel {
    /// The moving image is deformed towards the fixed one.
    Greedy(Greedy),
    /// Both are deformed to a midpoint; exchanging the images inverts the result.
    Symmetric(Symmetric),
    /// Large deformation diffeomorphic metric mapping (LDDMM): a geodesic path.
    Lddmm(Lddmm),
}

impl Default for DeformModel {
    fn default() -> Self {
        Self::GREEDY
    }
}

impl DeformModel {
    /// Bytes of host memory for each voxel of the fixed image that a registration of a pair needs at most.
    #[must_use]
    pub fn bytes_per_voxel(self) -> u64 {
        each_model!(self, kind => kind.bytes_per_voxel())
    }

    /// What the energy of attachments is multiplied by in the total energy.
    #[must_use]
    pub fn similarity_weight(self) -> f64 {
        each_model!(self, kind => kind.similarity_weight())
    }

    /// The solver that is usual with it.
    #[must_use]
    pub fn usual_solver(self) -> SolverKind {
        each_model!(self, kind => kind.usual_solver())
    }

    /// Whether it can take a solver.
    #[must_use]
    pub fn takes(self, solver: &SolverKind) -> bool {
        each_model!(self, kind => kind.check_solver(solver)).is_ok()
    }

    /// Refuses an affine map that it cannot start from.
    ///
    /// # Errors
    /// Says why.
    pub fn check_start(self, affine: &Affine) -> Result<()> {
        each_model!(self, kind => kind.check_start(affine))
    }

    /// Whether it is computed on a grid between both images, not on that of the fixed one.
    #[must_use]
    pub fn meets_half_way(self) -> bool {
        each_model!(self, kind => kind.meets_half_way())
    }

    /// Refuses to serve several subjects, where it registers pairs only.
    ///
    /// # Errors
    /// Says which models can.
    pub fn check_cohort(self) -> Result<(), OptionError> {
        with_cohort_model::<Cpu, _>(&Matching::of(self), NoWork)
    }
}

/// Work that does nothing.
struct NoWork;

impl<D: Device> UseCohortModel<D> for NoWork {
    type Out = ();

    fn with<M: CohortModel<D>>(self, _: impl Fn(&Grid) -> M + Sync) {}
}

/// Does some work with the model of a matching; it is compiled for each.
pub fn with_model<D: Device, U: UseModel<D>>(matching: &Matching, work: U) -> U::Out {
    each_model!(matching.model, kind => work.with(|grid| kind.model(matching, grid)))
}

/// Does some work with the model of a matching that is to serve several subjects; it is compiled for each.
///
/// # Errors
/// A model that registers pairs only.
pub fn with_cohort_model<D: Device, U: UseCohortModel<D>>(
    matching: &Matching,
    work: U,
) -> Result<U::Out, OptionError> {
    let found = each_model!(matching.model, kind => kind.with_cohort(matching, work));
    found.ok_or_else(|| pairs_only(matching.model.name()))
}

fn pairs_only(name: &'static str) -> OptionError {
    let serves = |model: &&DeformModel| {
        let matching = Matching::of(**model);
        each_model!(matching.model, kind => kind.with_cohort::<Cpu, _>(&matching, NoWork)).is_some()
    };
    let others: Vec<_> = DeformModel::ALL.iter().filter(serves).map(|m| m.name()).collect();
    let remedy = format!("it registers pairs only; use {}", others.join(" or "));
    OptionError::value("model", name, remedy)
}

/// How coarse and how long.
#[derive(Debug, Clone, PartialEq, Parameters)]
#[parameters(made_at_run_time)]
pub struct Multiscale {
    /// Scales and their maximum numbers of iterations, coarse to fine: `2x100` is at most 100 iterations at twice the
    /// voxel size
    #[parameter(default = Schedule::usual(), heading = "Schedule",
        says = "4x100,2x100,1x50; for an atlas 4x50,2x50,1x25")]
    pub schedule: Schedule,
    /// A scale ends once the energy has decreased over a window of iterations by less than this fraction of its decrease
    /// at this scale so far; 0 for never
    #[parameter(
        default = 0.01,
        unit = "PART",
        least = 0.0,
        most = 0.999,
        heading = "Schedule",
        remedy = "give a fraction from 0 (never) to 0.999, such as 0.01",
        says = "0.01; for an atlas 0"
    )]
    pub convergence: f64,
    /// Number of iterations in that window
    #[parameter(
        default = 10,
        least = 1,
        remedy = "give at least 1 iteration",
        heading = "Schedule"
    )]
    pub convergence_window: usize,
}

impl Multiscale {
    /// When a scale ends early.
    #[must_use]
    pub fn rule(&self) -> Convergence {
        Convergence { window: self.convergence_window, threshold: self.convergence }
    }

    /// The scales.
    #[must_use]
    pub fn scales(&self) -> &[Scale] {
        &self.schedule.0
    }
}

/// The standard deviation of the Gaussian that smooths velocities between two kinds of image, voxels.
const BETWEEN_KINDS: f64 = 3.0;

/// How one image is deformed to another: by what model, with what solver, how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Matching {
    /// Deformation model.
    pub model: DeformModel,
    /// From forces to velocities.
    pub solver: SolverKind,
    /// Scales and iterations.
    pub multiscale: Multiscale,
}

impl Default for Matching {
    fn default() -> Self {
        Self::of(DeformModel::default())
    }
}

impl Matching {
    /// The defaults of a model.
    #[must_use]
    pub fn of(model: DeformModel) -> Self {
        Self { model, solver: model.usual_solver(), multiscale: Multiscale::default() }
    }

    /// What is usual for a model and a pair of images that are compared by a similarity: between two kinds of image smoother velocities,
    /// which follow what only one of them shows less.
    #[must_use]
    pub fn suiting(model: DeformModel, similarity: &Similarity) -> Self {
        let two_kinds = matches!(
            similarity,
            Similarity::Mapped(_) | Similarity::Mind(_) | Similarity::Mi(_) | Similarity::Nmi(_)
        );
        let mut matching = Self::of(model);
        if let (true, SolverKind::Gaussian(gaussian)) = (two_kinds, &mut matching.solver) {
            gaussian.sigma = BETWEEN_KINDS;
        }
        matching
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`RegisterError::Option`](crate::RegisterError::Option) for a value that cannot be used, with what can.
    pub fn check(&self) -> Result<()> {
        self.multiscale.check()?;
        self.model.check()?;
        each_model!(self.model, kind => kind.check_solver(&self.solver))?;
        Ok(self.solver.check_all()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that registers pairs only.
    #[derive(Debug, Clone, Copy, Parameters)]
    struct OfPairs {}

    impl Kind for OfPairs {
        type Model<D: Device> = <Greedy as Kind>::Model<D>;

        fn model<D: Device>(self, matching: &Matching, grid: &Grid) -> Self::Model<D> {
            Greedy::USUAL.model(matching, grid)
        }

        fn bytes_per_voxel(self) -> u64 {
            Greedy::USUAL.bytes_per_voxel()
        }
    }

    #[test]
    fn models_of_pairs_only_are_refused_for_cohorts() {
        let of_pairs = OfPairs::USUAL.with_cohort::<Cpu, _>(&Matching::default(), NoWork);
        assert!(of_pairs.is_none());
        let said = pairs_only("of-pairs").to_string();
        assert!(said.starts_with("`model` is of-pairs; it registers pairs only; use "), "{said}");
        for model in DeformModel::ALL {
            assert_eq!(model.check_cohort().is_ok(), said.contains(model.name()), "{said}");
        }
    }
}
