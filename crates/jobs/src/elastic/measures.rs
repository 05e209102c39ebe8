//! What a body went through: strain, stress and volume, and whether it came to rest.

use crate::error::Result;
use voxalign_elasticity::LeastRatio;
use voxalign_image::memory;
use voxalign_options::text;
use voxalign_register::limits::ELASTIC;
use voxalign_register::model::elastic::{Elastic, ElasticResult, Held, ended_at_rest};
use voxalign_register::multiscale::ScaleRecord;
use voxalign_register::{Check, Remedy, Verdict};

/// What a body went through.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// The strain of each tetrahedron from rest: xx, yy, zz, yz, zx, xy, with engineering shears.
    pub strains: Vec<[f64; 6]>,
    /// The equivalent stress of von Mises of each, kPa.
    pub von_mises: Vec<f64>,
    /// The volume of each over that at rest.
    pub ratios: Vec<f64>,
    /// The one that lost most of its volume.
    pub least: LeastRatio,
    /// The largest norm of strain: the root of the sum of the squares of all nine components.
    pub largest_strain: f64,
    /// The largest equivalent stress, kPa.
    pub largest_von_mises: f64,
    /// Whether it came to rest at the last scale.
    pub at_rest: bool,
    /// How often a step was halved.
    pub cuts: usize,
    /// Where vertices were held back.
    pub held: Held,
}

/// The norm of a strain: the root of the sum of the squares of all nine components of the tensor.
pub(super) fn norm(strain: &[f64; 6]) -> f64 {
    let [x, y, z, yz, zx, xy] = *strain;
    (x * x + y * y + z * z + 0.5 * (yz * yz + zx * zx + xy * xy)).sqrt()
}

/// The largest value; not a number where one is not.
fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
}

impl Measures {
    /// Of a body at the end of these scales; a body is at rest by the tolerance with which it moved, or the usual one where that is 0.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn of(body: &ElasticResult, scales: &[ScaleRecord], tolerance: f64) -> Result<Self> {
        let displacements = &body.state.displacements;
        let (of, least) = (&body.body, body.body.least_ratio(displacements)?);
        let (strains, von_mises) = (of.strains(displacements)?, of.von_mises(displacements)?);
        let tolerance = if tolerance > 0.0 { tolerance } else { Elastic::USUAL.tolerance };
        let at_rest = ended_at_rest(scales, tolerance);
        Ok(Self {
            largest_strain: largest(strains.iter().map(norm)),
            largest_von_mises: largest(von_mises.iter().copied()),
            ratios: of.volume_ratios(displacements)?,
            strains,
            von_mises,
            least,
            at_rest,
            cuts: body.cuts,
            held: body.held,
        })
    }

    /// The norm of the strain of each tetrahedron.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn norms(&self) -> Result<Vec<f32>> {
        Ok(memory::collected(self.strains.iter().map(|s| norm(s) as f32))?)
    }

    /// A verdict with what is said of the body.
    #[must_use]
    pub fn judged(&self, verdict: Verdict) -> Verdict {
        let name = "smallest volume of a tetrahedron over that at rest";
        let volume = Check::at_least(name, self.least.ratio, ELASTIC.volume).or(Remedy::Smoother);
        let mut verdict = verdict.with(Some(volume));
        if !self.at_rest {
            verdict.remarks.push(text!(
                "the body did not come to rest: give more iterations in `schedule`, or look at its course in the report"
            ));
        }
        if self.largest_strain > ELASTIC.strain {
            verdict.remarks.push(text!(
                "the strain is up to {:.2}, and linear elasticity is for small ones (up to about 0.1): there stress means little",
                self.largest_strain
            ));
        }
        if self.cuts > 0 {
            verdict.remarks.push(text!(
                "steps were halved {} times, where they would have inverted a tetrahedron; a smaller `time_step` or \
                 `force_scale` makes that rarer",
                self.cuts
            ));
        }
        if self.held.steps > 0 {
            verdict.remarks.push(text!(
                "in {} steps, vertices of tetrahedra that would have inverted were held back, {} of them in the last one: look at the \
                 volume ratio in the mesh there; a larger spacing of the mesh, a smaller `force_scale` or a stiffer material \
                 makes that rarer",
                self.held.steps,
                self.held.vertices
            ));
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures() -> Measures {
        Measures {
            strains: vec![[0.0; 6]],
            von_mises: vec![0.0],
            ratios: vec![1.0],
            least: LeastRatio { ratio: 0.8, tetrahedron: 3 },
            largest_strain: 0.2,
            largest_von_mises: 1.0,
            at_rest: true,
            cuts: 0,
            held: Held::default(),
        }
    }

    /// Against the nine components of the tensor.
    #[test]
    fn the_norm_is_that_of_the_tensor() {
        let s = [0.1, -0.2, 0.3, 0.4, -0.5, 0.6];
        let tensor = [
            [s[0], s[5] / 2.0, s[4] / 2.0],
            [s[5] / 2.0, s[1], s[3] / 2.0],
            [s[4] / 2.0, s[3] / 2.0, s[2]],
        ];
        let sum: f64 = tensor.iter().flatten().map(|v| v * v).sum();
        assert!((norm(&s) - sum.sqrt()).abs() < 1e-15);
        assert!(largest([0.5, f64::NAN, 0.7].into_iter()).is_nan());
    }

    #[test]
    fn a_crushed_tetrahedron_is_bad_and_the_rest_is_remarked_on() {
        let of = |m: &Measures| m.judged(Verdict::new(Vec::new(), Vec::new()));
        let good = of(&measures());
        assert!(good.good && good.remarks.is_empty() && good.checks.len() == 1);
        for ratio in [0.09, -0.1, f64::NAN] {
            let least = LeastRatio { ratio, tetrahedron: 0 };
            let bad = of(&Measures { least, ..measures() });
            assert!(!bad.good && bad.checks[0].remedy_code == Some(Remedy::Smoother), "{ratio}");
        }
        let held = Held { steps: 3, vertices: 8 };
        let odd = Measures { at_rest: false, largest_strain: 0.6, cuts: 2, held, ..measures() };
        let said = of(&odd);
        let remarks: Vec<_> = said.remarks.iter().map(ToString::to_string).collect();
        assert!(said.good && remarks.len() == 4, "{remarks:?}");
        assert!(remarks[0].contains("did not come to rest") && remarks[1].contains("0.60"));
        assert!(remarks[2].contains("halved 2 times"));
        assert!(remarks[3].contains("in 3 steps") && remarks[3].contains("8 of them"));
    }
}
