//! Deformation models: one file or folder for each.
//!
//! A model brings one or many *subjects* to where [attachments](crate::attachment) pull them, step by step. A pair is one subject and images
//! that stay; an atlas has many subjects and a template that is averaged anew between their steps (Algorithm
//! 5 of Ha 2011). What a subject keeps from one step to the next is its *state*; what a step needs for itself
//! is the model's, and all subjects of a device share it (section 2.3.9).
//!
//! | model | what flows |
//! |---|---|
//! | [`greedy`] | the moving image |
//! | [`symmetric`] | both, to a middle |
//! | [`lddmm`] | the moving image, along a path of velocities that is optimised as a whole |
//! | [`elastic`] | a body of finite elements, with mass and stiffness; who has such a body brings it to [`run_with`](crate::diffeo::PreparedPair::run_with) |
//!
//! [`DeformModel`] is the list of those that need nothing but images. Fields are displacements in voxels of the grid
//! at hand.

mod cohort;
pub mod elastic;
mod forces;
pub mod greedy;
mod guard;
mod held;
mod kinds;
pub mod lddmm;
pub mod mend;
mod mover;
mod points;
mod pull;
pub mod solver;
pub mod symmetric;
mod template;

use crate::attachment::Attachments;
use crate::attachment::images::{DeviceImage, both, weights_at};
use crate::error::Result;
use crate::multiscale::{Course, Motion, Scale};
use crate::similarity::PendingEnergies;
use voxalign_compute::{Device, Memory};
use voxalign_image::{Affine, Grid};

pub use cohort::{Buffers, CohortModel, Lent, Shift, UseCohortModel};
pub use greedy::{Greedy, GreedyModel};
pub use kinds::{DeformModel, Kind, Matching, Multiscale, with_cohort_model, with_model};
pub use lddmm::{Lddmm, LddmmModel, PathRecord};
pub use mover::{Flow, StepRule};
pub use pull::{Carried, Counts, FixedImage, Pull, Sources};
pub use symmetric::{Symmetric, SymmetricModel};
pub use template::TemplatePoints;

/// The result of a model for a pair, with what it has beside fields.
pub struct Found<D: Device, E = ()> {
    /// The displacement on the grid that was [asked for](Model::conclude), before the affine map, and one that takes it back, or is near
    /// that; voxels.
    pub fields: [D::Buffer<f32>; 2],
    /// Whether they are consistent as they are.
    pub settled: bool,
    /// Voxels that were smoothed, summed over rounds.
    pub mended: usize,
    /// The path, of a model that has one.
    pub path: Option<PathRecord>,
    /// What else the model found: see [`Model::Extra`].
    pub extra: E,
}

/// Work with an affine map and a displacement before it.
pub type Borrower<'w, D> = dyn FnMut(&Affine, &<D as Memory>::Buffer<f32>) -> Result<()> + 'w;

/// A model of deformation: how one state moves. That of several subjects is a [`CohortModel`].
///
/// A state is whatever the model keeps on the device: nothing here asks for fields of the grid. What needs the displacement of
/// the grid is [lent](Self::lend) one.
pub trait Model<D: Device>: Send {
    /// The state of a subject.
    type State: Send;

    /// Results beside fields, such as a deformed mesh, for the caller of
    /// [`run_with`](crate::diffeo::PreparedPair::run_with); `()` for none.
    type Extra: Send;

    /// The grid on which a pair of images meets, given the affine map between them: that of the fixed image, unless
    /// the model says otherwise.
    ///
    /// # Errors
    /// Images that have no such grid.
    fn samples(fixed: &Grid, moving: &Grid, affine: &Affine) -> Result<Grid>
    where
        Self: Sized,
    {
        let _ = (moving, affine);
        Ok(fixed.clone())
    }

    /// The volume of the object on the grid where a pair of images meets, mm³, given that in the fixed and in the
    /// moving image and the affine map between them: that in the fixed one, unless the model says otherwise.
    fn volume(volumes: [f64; 2], affine: &Affine) -> f64
    where
        Self: Sized,
    {
        let _ = affine;
        volumes[0]
    }

    /// The worlds whose points it carries to the other one, so that these pull at them: 1 for those of the fixed one, 2 for both.
    fn sides(&self) -> usize {
        1
    }

    /// The only subject: what a step leaves for the next one can stay in the model. `channels` is the number
    /// of its images.
    ///
    /// # Errors
    /// Memory that does not suffice; a map that the model cannot start from.
    fn begin(&mut self, device: &D, affine: &Affine, channels: usize) -> Result<Self::State>;

    /// Goes to a scale, of which `grid` is the grid.
    fn to_scale(&mut self, scale: &Scale, grid: &Grid);

    /// Brings a subject to the scale that the model went to, with its images there.
    ///
    /// # Errors
    /// Memory that runs out.
    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut Self::State,
    ) -> Result<()>;

    /// What voxels of the grid count wherever the subject goes at this scale: those that the fixed images
    /// and the `mask` of their grid (at full resolution) let count, and where the moving images show
    /// something. `target` is the length of voxels, mm.
    ///
    /// # Errors
    /// Memory that runs out.
    fn counts(
        &self,
        device: &D,
        fixed: &[FixedImage<'_, D>],
        mask: Option<&DeviceImage<D>>,
        target: f64,
        state: &Self::State,
    ) -> Result<Option<D::Buffer<f32>>> {
        let _ = fixed;
        let mask = weights_at(device, mask, target)?;
        both(device, mask, self.shown(device, state)?)
    }

    /// Where the moving images [show](crate::attachment::images::seen) something.
    ///
    /// # Errors
    /// Memory that runs out.
    fn shown(&self, device: &D, state: &Self::State) -> Result<Option<D::Buffer<f32>>>;

    /// Lends the displacement of the grid that leads to the moving images, with the affine map after it.
    ///
    /// # Errors
    /// Memory that runs out; what the work returns.
    fn lend(&self, device: &D, state: &Self::State, work: &mut Borrower<'_, D>) -> Result<()>;

    /// Makes one step of a subject to where it is pulled; all steps of a scale are given the same attachments. The
    /// energy before the step.
    ///
    /// # Errors
    /// What fails on the device; an attachment of channels that there are not.
    fn step(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        state: &mut Self::State,
    ) -> Result<PendingEnergies>;

    /// Is told the [parts](crate::similarity::Energies::parts) of the energy before the last step of a subject, once they are known.
    fn told(&mut self, state: &mut Self::State, parts: &[f64]) {
        let _ = (state, parts);
    }

    /// Is told the energy before the last step of the [only subject](Self::begin), once it is known: where the step was astray, the subject
    /// can go back to where it was before.
    ///
    /// # Errors
    /// What fails on the device.
    fn review(&mut self, device: &D, state: &mut Self::State, energy: f64) -> Result<()> {
        let _ = (device, state, energy);
        Ok(())
    }

    /// Whether a subject is at rest, so that a scale is over, of a model that knows better than the energies of the scale
    /// say; `None`, as usual, leaves that to [`Convergence`](crate::multiscale::Convergence). Asked after each step of the
    /// [only subject](Self::begin).
    fn at_rest(&self, state: &Self::State, course: &Course) -> Option<bool> {
        let _ = (state, course);
        None
    }

    /// How a subject moved in its last step, of a model with mass and elasticity.
    fn motion(&self, state: &Self::State) -> Option<Motion> {
        let _ = state;
        None
    }

    /// The number of steps of the only subject with which a scale should end that are shorter than those before.
    fn settling(&self, state: &Self::State) -> usize {
        let _ = state;
        0
    }

    /// Is told that those begin.
    fn settle(&mut self, state: &mut Self::State) {
        let _ = state;
    }

    /// The steps of the only subject at a scale are over.
    ///
    /// # Errors
    /// What fails on the device.
    fn end_scale(&mut self, device: &D, state: &mut Self::State) -> Result<()> {
        let _ = (device, state);
        Ok(())
    }

    /// The energy of the step that the only subject was put back to after the last one, where that raised it.
    fn put_back(&self, _: &Self::State) -> Option<f64> {
        None
    }

    /// The relative residual of the last solution, where there is an operator to solve for.
    ///
    /// # Errors
    /// What fails on the device.
    fn residual(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }

    /// The grid of the fields of its result for a grid of the fixed image, of which no part was left out. Another one covers the same field
    /// of view.
    ///
    /// # Errors
    /// More voxels than can be addressed.
    fn fields_on(fixed: &Grid) -> Result<Grid>
    where
        Self: Sized,
    {
        Ok(fixed.clone())
    }

    /// The result for the [only subject](Self::begin), with fields on a grid, the [one for them](Self::fields_on), once it is at the
    /// finest scale.
    ///
    /// # Errors
    /// Memory that runs out.
    fn conclude(self, device: &D, grid: &Grid, state: Self::State) -> Result<Found<D, Self::Extra>>
    where
        Self: Sized;
}

/// Work with a model of some kind.
pub trait UseModel<D: Device> {
    /// The result.
    type Out;

    /// Does it; `make` makes models on a grid.
    fn with<M: Model<D>>(self, make: impl Fn(&Grid) -> M + Sync) -> Self::Out;
}
