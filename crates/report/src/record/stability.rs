//! The record of a random permutation test of atlases.

use super::GridRecord;
use serde::Serialize;
use voxalign_population::atlas::Spread;

record! {
    /// All that is worth keeping of a random permutation test: what its `result.json` holds. Entropies
    /// are in bits.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    StabilityRecord {
        /// The seed of the draws.
        pub seed: u64,
        /// The grid of all atlases.
        pub grid: GridRecord,
        /// The names of the subjects, in the order of sums.
        pub subjects: Vec<String>,
        /// The sizes, ascending.
        pub sizes: Vec<SizeRecord>,
        /// The fraction of the last mean entropy by which means of a stable atlas differ at most.
        pub stable_part: f64,
        /// The number of subjects from which on atlases are stable, where there is one.
        pub stable_from: Option<usize>,
    }
}

/// The cohorts of one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeRecord {
    /// The number of subjects of each.
    pub size: usize,
    /// Whether these are all cohorts of this size that there are.
    pub all: bool,
    /// The entropies of the means after affine alignment alone.
    pub affine: Spread,
    /// The entropies of the atlases.
    pub atlas: Spread,
    /// The gradient energies of the means after affine alignment alone, 1/mm².
    pub gradient_affine: Spread,
    /// The gradient energies of the atlases, 1/mm².
    pub gradient_atlas: Spread,
    /// The cohorts.
    pub cohorts: Vec<CohortRecord>,
}

/// One cohort.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CohortRecord {
    /// The numbers of its subjects in the record, from 0.
    pub members: Vec<usize>,
    /// The entropy of their mean after affine alignment alone.
    pub entropy_affine: f64,
    /// The entropy of their atlas.
    pub entropy_atlas: f64,
    /// The gradient energy of that mean, 1/mm².
    pub gradient_energy_affine: f64,
    /// The gradient energy of their atlas, 1/mm².
    pub gradient_energy_atlas: f64,
    /// Whether the atlas can be used.
    pub good: bool,
}
