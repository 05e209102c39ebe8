//! Registration of two images with an elastic body.

use super::input::DeformInput;
use super::prepared::{Parts, PreparedPair};
use super::result::DeformResult;
use crate::error::{RegisterError, Result};
use crate::model::Multiscale;
use crate::model::elastic::{
    Elastic, ElasticBody, ElasticModel, ElasticResult, Sampling, StepSolver,
};
use crate::progress::Progress;
use crate::similarity::Similarity;
use std::sync::Arc;
use voxalign_compute::Device;
use voxalign_elasticity::State;
use voxalign_image::{Grid, TetraMesh};
use voxalign_options::Parameters;

/// A body that images move, how it moves, and from where.
#[derive(Debug, Clone)]
pub struct ElasticSetting {
    /// The body, in the fixed world.
    pub body: Arc<ElasticBody>,
    /// How images move it.
    pub elastic: Elastic,
    /// Scales and iterations; of the rule by which a scale ends early nothing is used, but
    /// [`tolerance`](Elastic::tolerance).
    pub multiscale: Multiscale,
    /// Where the body starts and how it moves there, a vector for each vertex of its finest mesh; at rest without.
    pub start: Option<State>,
    /// Whether the parts of steps are timed. They have to wait for each other then, which on a GPU takes a little longer.
    pub timed: bool,
}

impl ElasticSetting {
    /// Usual motion of a body from rest.
    #[must_use]
    pub fn new(body: impl Into<Arc<ElasticBody>>) -> Self {
        let (elastic, multiscale) = (Elastic::USUAL, Multiscale::default());
        Self { body: body.into(), elastic, multiscale, start: None, timed: false }
    }

    /// Refuses what this body cannot do with these images.
    ///
    /// # Errors
    /// [`RegisterError::Option`] that names it, [`RegisterError::Elasticity`] for numbers of Newmark's method that are not stable.
    pub fn check(&self, input: &DeformInput<'_>) -> Result<()> {
        self.check_body()?;
        let is_local = |s: &Similarity| matches!(s, Similarity::Lncc(_));
        let sampled = self.elastic.samples != Sampling::All;
        let refuse = |option: &'static str, value: &str, remedy: &str| {
            Err(RegisterError::option(option, value, remedy))
        };
        if sampled && input.channels.iter().any(|c| is_local(&c.similarity)) {
            let remedy = "lncc compares neighbouring voxels; give all, or another similarity";
            return refuse("samples", &self.elastic.samples.to_string(), remedy);
        }
        if sampled && input.moving_mask.is_some() {
            let remedy = "a moving mask needs all voxels; give all, or a fixed mask";
            return refuse("samples", &self.elastic.samples.to_string(), remedy);
        }
        if input.landmarks.is_some() {
            return refuse("landmarks", "given", "an elastic body is moved by images alone");
        }
        if !input.shapes.is_empty() {
            return refuse("shapes", "given", "an elastic body is moved by images alone");
        }
        let Some(channel) = input.channels.first() else { return Ok(()) };
        for level in self.body.levels() {
            meets(level.body.mesh(), channel.fixed.grid())?;
        }
        Ok(())
    }

    /// Refuses a body, its motion or its start, whatever the images.
    ///
    /// # Errors
    /// [`RegisterError::Option`] for a start that is not of this mesh, and for options that cannot be.
    pub fn check_body(&self) -> Result<()> {
        self.elastic.newmark().check()?;
        self.multiscale.check()?;
        let vertices = self.body.finest().body.mesh().vertices().len();
        if let Some(state) = &self.start {
            let counts =
                [&state.displacements, &state.velocities, &state.accelerations].map(Vec::len);
            if counts.iter().any(|&n| n != vertices) {
                let value = format!("{} vectors", counts[0]);
                let remedy =
                    format!("the mesh has {vertices} vertices; give the state of this mesh");
                return Err(RegisterError::option("start", value, remedy));
            }
        }
        Ok(())
    }

    /// The same with a solver that suits a GPU, where none was asked for.
    #[must_use]
    pub fn on_gpu(mut self) -> Self {
        if self.elastic.step_solver == StepSolver::Auto {
            self.elastic.step_solver = StepSolver::Chebyshev;
        }
        self
    }
}

/// Refuses a mesh that is outside of an image.
fn meets(mesh: &TetraMesh, grid: &Grid) -> Result<()> {
    let Some([low, high]) = mesh.bounds() else { return Ok(()) };
    let corners = grid.corners();
    let apart = (0..3).any(|a| {
        let of = corners.iter().map(|c| c[a]);
        let [first, last] = [of.clone().fold(f64::MAX, f64::min), of.fold(f64::MIN, f64::max)];
        high[a] < first || low[a] > last
    });
    if !apart {
        return Ok(());
    }
    let text = |v: &voxalign_image::Vector3<f64>| format!("({:.1}, {:.1}, {:.1})", v.x, v.y, v.z);
    Err(RegisterError::option(
        "mesh",
        format!("from {} to {} mm, outside of the fixed image", text(&low), text(&high)),
        format!(
            "the fixed image is around {}; vertices are in mm in the world of the fixed image, with x to the right, y to the \
             front and z upwards (RAS)",
            text(&grid.centre())
        ),
    ))
}

/// Registers two images with an elastic body.
///
/// # Errors
/// Those of [`ElasticSetting::check`] and of [`register_deformable`](super::register_deformable);
/// [`RegisterError::Elasticity`] for a step after which a tetrahedron would be inverted, however short it is, and for a solution whose
/// residual is too large.
pub fn register_elastic<D: Device>(
    device: &D,
    input: &DeformInput<'_>,
    setting: &ElasticSetting,
    progress: &dyn Progress,
) -> Result<(DeformResult, ElasticResult)> {
    setting.check(input)?;
    let pair = PreparedPair::new(device, input, Parts::Whole)?;
    let ElasticSetting { body, elastic, multiscale, start, timed } = setting;
    let pressure = input.channels.first().map_or(1.0, |c| elastic.pressure(&c.similarity));
    let make = |grid: &Grid| {
        let model = ElasticModel::new(*elastic, pressure, Arc::clone(body), grid);
        model.with_start(start.clone()).timed(*timed)
    };
    pair.run_with(multiscale, progress, make)
}
