//! Options of deformable registration shared by pairs and populations.

use super::refuse;
use crate::error::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use voxalign_options::{Choice, Chosen, Given, Parameters, UseOf, text};
use voxalign_register::diffeo::{DeformModel, Matching, Multiscale, check_similarity};
use voxalign_register::model::solver::SolverKind;
use voxalign_register::similarity::Similarity;

/// The similarities of deformations.
#[derive(Debug)]
pub struct OfDeformations;

impl UseOf<Similarity> for OfDeformations {
    const AUTO: &'static str = "By the images: lncc where within tissue bright is bright in both, mapped where it is not. Populations and anatomies take lncc";

    fn serves(kind: &Similarity) -> bool {
        kind.has_energy()
    }

    fn usual() -> Option<Similarity> {
        Some(Similarity::LNCC)
    }
}

/// The models.
#[derive(Debug)]
pub struct Models;

impl UseOf<DeformModel> for Models {
    fn default_in_words() -> Option<String> {
        let (usual, other) = (DeformModel::SYMMETRIC.name(), DeformModel::default().name());
        Some(format!(
            "{usual}; for populations, anatomies and transforms without a half-way {other}"
        ))
    }

    fn usual() -> Option<DeformModel> {
        Some(DeformModel::default())
    }
}

/// The solvers.
#[derive(Debug)]
pub struct Solvers;

impl UseOf<SolverKind> for Solvers {
    /// That of the usual model, and those of the models that have others.
    fn default_in_words() -> Option<String> {
        let usual = DeformModel::default().usual_solver().name();
        let others = DeformModel::ALL.iter().map(|m| (m.name(), m.usual_solver().name()));
        let others = others.filter(|(_, solver)| *solver != usual);
        let and = |words, (model, solver)| format!("{words}, and {solver} for {model}");
        Some(others.fold(usual.to_owned(), and))
    }
}

/// How one image is deformed to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct MatchingOptions {
    /// Deformation model.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub model: Chosen<DeformModel, Models>,
    /// How images are compared.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub similarity: Chosen<Similarity, OfDeformations>,
    /// How forces become velocities.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub solver: Chosen<SolverKind, Solvers>,
    /// How coarse and how long.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub multiscale: Given<Multiscale>,
}

impl MatchingOptions {
    /// The similarity, with the parameters that were given to it; where none is chosen, the one for images of one kind.
    ///
    /// # Errors
    /// A value that none may have.
    pub fn similarity(&self) -> Result<Similarity> {
        let mut similarity = self.named().unwrap_or(Similarity::LNCC);
        self.similarity.tell(&mut similarity)?;
        Ok(similarity)
    }

    /// The similarity that is asked for, also by a parameter that it alone has; none where the images are to
    /// decide.
    pub(crate) fn named(&self) -> Option<Similarity> {
        let of_parameter = || {
            let suited = [Similarity::LNCC, Similarity::MAPPED];
            suited.into_iter().find(|s| s.parameters().iter().any(|p| self.similarity.has(p.name)))
        };
        self.similarity.kind().or_else(of_parameter)
    }

    /// What a deformation takes; what would be ignored is refused.
    ///
    /// `usual` has what is usual for a model, or for none that was chosen, and `others` are similarities in use beside this one.
    ///
    /// # Errors
    /// Names an option that has no meaning, or a value that none may have.
    pub fn matching(
        &self,
        usual: impl FnOnce(Option<DeformModel>) -> Matching,
        others: &[Similarity],
    ) -> Result<Matching> {
        let usual = usual(self.model.kind());
        let used: Vec<_> = others.iter().copied().chain([self.similarity()?]).collect();
        self.similarity.check_used(&used)?;
        for mut similarity in used {
            self.similarity.tell(&mut similarity)?;
            check_similarity(&similarity)?;
        }
        let multiscale = self.multiscale.over(usual.multiscale)?;
        let off = multiscale.convergence == 0.0 && self.multiscale.has("convergence");
        let window = self.multiscale.has("convergence_window");
        refuse(off && window, "convergence_window", text!("a `convergence` above 0"))?;
        let (model, solver) = (self.model.over(usual.model)?, self.solver.over(usual.solver)?);
        let matching = Matching { model, solver, multiscale };
        matching.check()?;
        Ok(matching)
    }
}

/// All parameters of a matching that have an effect, also those left at their default; `similarities`
/// are those in use.
pub(crate) fn recorded(matching: &Matching, similarities: &[Similarity]) -> Map<String, Value> {
    let Matching { model, solver, multiscale } = matching;
    let mut all = model.as_json();
    all.insert("model".to_owned(), json!(model.name()));
    let mut of_solver = solver.as_json();
    if let SolverKind::Hybrid(hybrid) = solver {
        of_solver.insert("solver_iterations".to_owned(), json!(hybrid.most_iterations()));
    }
    of_solver.insert("kind".to_owned(), json!(solver.name()));
    all.insert("solver".to_owned(), Value::Object(of_solver));
    all.extend(multiscale.as_json());
    similarities.iter().for_each(|similarity| all.extend(similarity.as_json()));
    all
}
