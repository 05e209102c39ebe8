//! The record of a registration by an elastic body, beyond that of a deformation.

use serde::{Deserialize, Serialize};
use voxalign_register::diffeo::SliceEvidence;

/// The body, how it moved, and what it went through.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ElasticRecord {
    /// Vertices of the mesh.
    pub vertices: usize,
    /// Its tetrahedra.
    pub tetrahedra: usize,
    /// Its volume at rest, mm³.
    pub volume_mm3: f64,
    /// The edges of cells, where it was made of some, mm.
    pub spacing_mm: Option<f64>,
    /// Its file, where it was read.
    pub file: Option<String>,
    /// Vertices that were held.
    pub held: usize,
    /// What it is made of.
    pub materials: Vec<MaterialRecord>,
    /// The pressure that a difference of 1 between the images stands for, kPa.
    pub force_scale_kpa: f64,
    /// The time step, s.
    pub time_step_s: f64,
    /// The weights beta and gamma of Newmark's method.
    pub newmark: [f64; 2],
    /// Damping in proportion to the mass, 1/s.
    pub mass_damping_per_s: f64,
    /// Damping in proportion to the stiffness, s.
    pub stiffness_damping_s: f64,
    /// How the displacements of a step were solved for: `direct`, `cg`, `inverse`, or `chebyshev`, in place of which there are conjugate
    /// gradients where it would take too many iterations.
    pub solver: String,
    /// Iterations of all scales.
    pub iterations: usize,
    /// How often a step was halved.
    pub cuts: usize,
    /// The smallest volume of a tetrahedron over that at rest.
    pub least_volume_ratio: f64,
    /// The tetrahedron that has it, counted from 0.
    pub least_volume_tetrahedron: usize,
    /// The largest norm of strain.
    pub largest_strain: f64,
    /// The largest equivalent stress of von Mises, kPa.
    pub largest_von_mises_kpa: f64,
    /// Whether it came to rest at the finest scale.
    pub at_rest: bool,
    /// The time until the first steps, of locating samples and preparing solutions, s.
    pub setup_seconds: f64,
    /// The time of the parts of all steps.
    pub step_parts: Vec<StepPartRecord>,
    /// Where slices are the fixed images, each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceRecord>,
}

/// A slice that a volume was brought to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceRecord {
    /// Its file.
    pub file: String,
    /// What it and the volume have in common.
    #[serde(flatten)]
    pub evidence: SliceEvidence,
}

/// A material, of a label or of all of a body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MaterialRecord {
    /// The label; none where there is one material for all.
    pub label: Option<i32>,
    /// Young's modulus, kPa.
    pub young_kpa: f64,
    /// Poisson's ratio.
    pub poisson: f64,
    /// Density, kg/m³.
    pub density_kg_m3: f64,
    /// The tetrahedra that are of it.
    pub tetrahedra: usize,
}

/// The time of a part of steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StepPartRecord {
    /// Its name.
    pub name: String,
    /// In all iterations, s.
    pub seconds: f64,
    /// In one, s.
    pub seconds_per_iteration: f64,
}
