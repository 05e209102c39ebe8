//! The options of an elastic registration.

use crate::similarity::Similarity;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use voxalign_elasticity::Newmark;
use voxalign_options::{Choice, Parameters, text_value};

/// How forces at samples become forces on vertices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum Force {
    /// The derivative of the energy of the images in each vertex.
    #[default]
    Consistent,
    /// Those that the shape functions bring closest to the forces at samples, by least squares.
    LeastSquares,
    /// The force where each vertex is.
    Nodes,
}

/// How steps see that forces of images change on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum Coupling {
    /// Each step counts on how fast they fall, so that it may be long.
    #[default]
    Implicit,
    /// They are those where a step begins; one that is too long for them makes the body swing.
    Explicit,
}

/// How the displacements of a step are solved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum StepSolver {
    /// Direct for small meshes on the CPU, else chebyshev.
    #[default]
    Auto,
    /// By a sparse Cholesky factor, on the host in double precision.
    Direct,
    /// By conjugate gradients, on the device.
    Cg,
    /// By Chebyshev's iteration, on the device, or by conjugate gradients where it needed many iterations.
    Chebyshev,
    /// By the inverse of the matrix, on the device: for small meshes.
    Inverse,
}

/// The weights of the new acceleration in the displacement and in the velocity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NewmarkWeights {
    /// That in the displacement.
    pub beta: f64,
    /// That in the velocity.
    pub gamma: f64,
}

impl Display for NewmarkWeights {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.beta, self.gamma)
    }
}

impl FromStr for NewmarkWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
        let Some([beta, gamma]) = numbers.as_deref() else {
            return Err(format!("'{text}' is not two numbers, such as 0.25,0.5"));
        };
        let weights = Self { beta: *beta, gamma: *gamma };
        let newmark = Newmark { beta: *beta, gamma: *gamma, ..Newmark::with_step(1.0) };
        newmark.check().map_err(|e| e.to_string())?;
        Ok(weights)
    }
}

text_value!(NewmarkWeights, "BETA,GAMMA");

/// Where the images pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sampling {
    /// At every voxel of the scale.
    #[default]
    All,
    /// At so many points along each axis of the fixed image, or at every voxel of an axis that has fewer.
    Lattice([usize; 3]),
}

impl Display for Sampling {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Lattice([n, m, k]) => write!(f, "{n}x{m}x{k}"),
        }
    }
}

impl FromStr for Sampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let counts = text.split('x').map(|n| n.trim().parse().ok().filter(|&n| n >= 2));
        match counts.collect::<Option<Vec<usize>>>().as_deref() {
            Some(&[n, m, k]) => Ok(Self::Lattice([n, m, k])),
            _ => Err(format!(
                "'{text}' is neither all nor three numbers of at least 2, such as 20x20x15"
            )),
        }
    }
}

text_value!(Sampling, "all|NxMxK");

/// What a body is made of.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Tissue {
    /// Young's modulus
    #[parameter(
        default = 1000.0,
        unit = "PA",
        above = 0.0,
        remedy = "give a number above 0, in Pa",
        heading = "Body"
    )]
    pub young: f64,
    /// Poisson's ratio: near 0.5 for what keeps its volume
    #[parameter(
        default = 0.4,
        above = -1.0,
        below = 0.5,
        remedy = "give a number above -1 and below 0.5, such as 0.4",
        heading = "Body"
    )]
    pub poisson: f64,
    /// Density
    #[parameter(
        default = 1000.0,
        unit = "KG/M3",
        above = 0.0,
        remedy = "give a number above 0, in kg/m³",
        heading = "Body"
    )]
    pub density: f64,
}

/// How an elastic body is moved by images.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Elastic {
    /// How forces at samples become forces on the vertices of the mesh
    #[parameter(default = Force::Consistent, heading = "Motion")]
    pub force: Force,
    /// Pressure by which the energy of the images is multiplied: the larger, the more they deform the body
    #[parameter(
        default = None,
        unit = "KPA",
        above = 0.0,
        remedy = "give a number above 0, in kPa",
        says = "ssd: 12; lncc: 0.5; mi and nmi: 0.05; others: 1",
        heading = "Motion"
    )]
    pub force_scale: Option<f64>,
    /// How steps see that the forces of images change on the way
    #[parameter(default = Coupling::Implicit, heading = "Motion")]
    pub coupling: Coupling,
    /// Where the images pull: at all voxels, or at this many points along the axes of the fixed image
    #[parameter(default = Sampling::All, heading = "Motion")]
    pub samples: Sampling,
    /// Time step
    #[parameter(
        default = 0.05,
        unit = "S",
        above = 0.0,
        remedy = "give a number above 0, in s",
        heading = "Motion"
    )]
    pub time_step: f64,
    /// Weights of the new acceleration in Newmark's method; a gamma above 1/2 damps fast motions
    #[parameter(default = NewmarkWeights { beta: 0.3025, gamma: 0.6 }, heading = "Motion")]
    pub newmark: NewmarkWeights,
    /// Damping in proportion to the mass
    #[parameter(
        default = None,
        unit = "1/S",
        least = 0.0,
        remedy = "give 0 or a number above it, in 1/s",
        says = "4 over the time step",
        heading = "Motion"
    )]
    pub damping: Option<f64>,
    /// Damping in proportion to the stiffness
    #[parameter(
        default = 0.0,
        unit = "S",
        least = 0.0,
        remedy = "give 0 or a number above it, in s",
        heading = "Motion"
    )]
    pub stiffness_damping: f64,
    /// A scale ends once the body would go less than this part of a voxel farther, and the unbalanced force has fallen to this part of its largest value; 0 for never
    #[parameter(
        default = 0.1,
        unit = "PART",
        least = 0.0,
        below = 1.0,
        remedy = "give a fraction from 0 (never) to below 1, such as 0.1",
        heading = "Motion"
    )]
    pub tolerance: f64,
    /// How the displacements of a step are solved for
    #[parameter(default = StepSolver::Auto, heading = "Motion")]
    pub step_solver: StepSolver,
}

impl Elastic {
    /// Whether forces are those of the energy.
    pub(super) fn is_consistent(&self) -> bool {
        self.force == Force::Consistent
    }

    /// The pressure, kPa, by which the energy of images that are compared so is multiplied: what was given, or what is
    /// [usual](Similarity::pressure).
    #[must_use]
    pub fn pressure(&self, similarity: &Similarity) -> f64 {
        self.force_scale.unwrap_or_else(|| similarity.pressure())
    }

    /// The numbers of the motion.
    #[must_use]
    pub fn newmark(&self) -> Newmark {
        Newmark {
            step_s: self.time_step,
            beta: self.newmark.beta,
            gamma: self.newmark.gamma,
            mass_damping: self.damping.unwrap_or(4.0 / self.time_step),
            stiffness_damping: self.stiffness_damping,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        assert_eq!("all".parse(), Ok(Sampling::All));
        assert_eq!("20x30x15".parse(), Ok(Sampling::Lattice([20, 30, 15])));
        for bad in ["", "20x30", "1x2x3", "20x30x15x2", "some"] {
            assert!(bad.parse::<Sampling>().is_err(), "{bad}");
        }
        assert_eq!("0.25,0.5".parse(), Ok(NewmarkWeights { beta: 0.25, gamma: 0.5 }));
        for bad in ["", "0.25", "0.25,0.4", "0.1,0.5", "a,b", "0.25,0.5,1", "inf,0.5"] {
            assert!(bad.parse::<NewmarkWeights>().is_err(), "{bad}");
        }
    }

    /// What the help says of the usual pressures is what they are.
    #[test]
    fn usual_pressures_are_those_that_are_said() {
        let all = Elastic::USUAL.parameters();
        let said = all.iter().find(|p| p.name == "force_scale").unwrap().default.clone();
        let pressures: Vec<(Vec<&str>, f64)> = said
            .split("; ")
            .map(|part| part.split_once(": ").unwrap())
            .map(|(names, value)| (names.split(" and ").collect(), value.parse().unwrap()))
            .collect();
        let of = |name: &str| pressures.iter().find(|(names, _)| names.contains(&name));
        for similarity in Similarity::ALL.iter().filter(|s| s.has_energy()) {
            let expected = of(similarity.name()).or(of("others")).unwrap().1;
            assert_eq!(Elastic::USUAL.pressure(similarity), expected, "{}", similarity.name());
            let given = Elastic { force_scale: Some(7.0), ..Elastic::USUAL };
            assert_eq!(given.pressure(similarity), 7.0);
        }
        assert_eq!(pressures.len(), 4, "{said}");
    }
}
