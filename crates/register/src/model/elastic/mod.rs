//! An elastic body that images push.
//!
//! A mesh of linear tetrahedra lies in the fixed image. At every sample the images pull as their similarity says, these forces
//! become forces on the vertices, and the body moves under them by the method of Newmark, with mass, damping and stiffness: where it comes to rest, its
//! strain balances the images. After M. H. Mousazadeh, "Fast 3D deformable image registration on a GPU computing platform" (thesis, McMaster
//! University, 2011); the equations of motion are those of [`voxalign_elasticity::newmark`].
//!
//! An energy of images is a mean over the voxels that count; times their volume and a [pressure](Elastic::pressure) it is an
//! energy in µJ (kPa mm³), whose derivative in a displacement in mm is a force in mN.

mod body;
mod coupling;
mod force;
mod motion;
mod options;
mod outside;
mod rest;
mod scale;
pub(crate) mod slices;
mod solvers;
mod swing;
#[cfg(test)]
mod tests;

use super::{Borrower, FixedImage, Found, Model, Pull};
use crate::attachment::images::{DeviceImage, Moved, both, seen, weights_at};
use crate::error::Result;
use crate::multiscale::{Course, Motion as MotionRecord, Scale};
use crate::similarity::{Images, PendingEnergies};
use body::{DeviceMesh, Places, brought, planes, vectors};
use coupling::{At, Coupled, Pulling};
use scale::{Lag, OnScale, Work, forces, within};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::resample::grid_map;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::{Body, Fixed, State};
use voxalign_image::{Affine, Grid};

pub use body::{BodyLevel, ElasticBody};
pub use options::{Coupling, Elastic, Force, NewmarkWeights, Sampling, StepSolver, Tissue};
pub use outside::FALL_OFF_MM;
use rest::at_rest;
pub use rest::ended_at_rest;

/// How far a vertex goes in a step at most that counts on forces ahead, in largest voxels of the scale.
const FARTHEST: f64 = 1.0;

/// Voxels at the border of a moving image that tissue reaches in which nothing counts: a body that is free moves out of it, and what has left is
/// unknown. Weights are made once a scale, before it moves.
const BORDER: usize = 1;

/// The time of the parts of all steps, s.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct StepTimes {
    /// The moving images at the displaced samples.
    pub interpolation: f64,
    /// The similarity and its derivative in the values of the moving images.
    pub similarity: f64,
    /// Forces at samples, and on the vertices.
    pub forces: f64,
    /// The motion of the vertices.
    pub motion: f64,
    /// The displacement of the samples.
    pub displacement: f64,
}

impl StepTimes {
    /// All parts with their names.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f64); 5] {
        [
            ("interpolation", self.interpolation),
            ("similarity", self.similarity),
            ("forces", self.forces),
            ("motion", self.motion),
            ("displacement", self.displacement),
        ]
    }
}

/// Vertices that were held back where tetrahedra would have inverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// The steps in which some were.
    pub steps: usize,
    /// How many were in the last step.
    pub vertices: usize,
}

impl Held {
    /// Counts a step.
    fn count(&mut self, step: &MotionRecord) {
        self.steps += usize::from(step.held > 0);
        self.vertices = step.held;
    }
}

/// The body at the end of a registration.
#[derive(Debug, Clone)]
pub struct ElasticResult {
    /// The body at rest.
    pub body: Arc<Body>,
    /// The vertices that were held.
    pub fixed: Fixed,
    /// Where its vertices are, and how they move: mm from rest, in the fixed world, mm/s and mm/s².
    pub state: State,
    /// How often a step was halved so that no tetrahedron inverts.
    pub cuts: usize,
    /// In how many steps vertices were held back so that none inverts, and how many in the last one.
    pub held: Held,
    /// The time that steps took.
    pub times: StepTimes,
    /// The time until the first step, of locating samples and preparing solutions, s.
    pub setup_seconds: f64,
}

/// An elastic body as a model.
pub struct ElasticModel<D: Device> {
    options: Elastic,
    /// By which the energy of images is multiplied, kPa.
    pressure: f64,
    body: Arc<ElasticBody>,
    /// Where it starts; at rest without.
    start: Option<State>,
    /// Whether the parts of a step are timed, for which each has to end before the next begins.
    timed: bool,
    grid: Grid,
    factor: usize,
    /// The relative residual of the last solution, where it is not exact.
    residual: Option<f64>,
    device: std::marker::PhantomData<D>,
}

/// A body on its way.
pub struct ElasticState<D: Device> {
    affine: Affine,
    /// The moving images at the scale.
    moved: Vec<Moved<D>>,
    /// The displacement of the samples, voxels of their grid.
    field: D::Buffer<f32>,
    on: Option<OnScale<D>>,
    last: Option<MotionRecord>,
    cuts: usize,
    held: Held,
    times: StepTimes,
    setup_seconds: f64,
}

impl<D: Device> ElasticModel<D> {
    /// Of a body in the fixed world, on a grid, under images whose energy is multiplied by a [pressure](Elastic::pressure), kPa.
    #[must_use]
    pub fn new(options: Elastic, pressure: f64, body: Arc<ElasticBody>, grid: &Grid) -> Self {
        let (start, timed, device) = (None, false, std::marker::PhantomData);
        let (grid, factor, residual) = (grid.clone(), 1, None);
        Self { options, pressure, body, start, timed, grid, factor, residual, device }
    }

    /// The same with a body that already moves: a vector for each vertex of the finest mesh.
    #[must_use]
    pub fn with_start(self, state: Option<State>) -> Self {
        Self { start: state, ..self }
    }

    /// The same with times of the parts of a step.
    #[must_use]
    pub fn timed(self, timed: bool) -> Self {
        Self { timed, ..self }
    }

    /// The grid whose voxels are the samples at the scale.
    fn sampled(&self) -> Result<Grid> {
        match self.options.samples {
            Sampling::All => Ok(self.grid.clone()),
            Sampling::Lattice(counts) => {
                let all = self.grid.dims();
                let dims = [0, 1, 2].map(|a| counts[a].min(all[a]));
                let map = Affine::from_rows(grid_map(all, dims));
                Ok(Grid::new(dims, map.then(self.grid.to_world()))?)
            }
        }
    }

    /// Whether samples are voxels of the grid.
    fn takes_all(&self) -> bool {
        matches!(self.options.samples, Sampling::All)
    }

    /// Ends a part of a step, whose time is that since `clock`.
    fn lap(&self, device: &D, clock: &mut Instant, part: &mut f64) -> Result<()> {
        if self.timed {
            device.synchronize()?;
            *part += clock.elapsed().as_secs_f64();
            *clock = Instant::now();
        }
        Ok(())
    }
}

/// A step before the state has come to a scale.
fn not_refined() -> crate::RegisterError {
    crate::RegisterError::option("schedule", "none", "give at least one scale")
}

impl<D: Device> Model<D> for ElasticModel<D> {
    type State = ElasticState<D>;
    type Extra = ElasticResult;

    fn begin(&mut self, device: &D, affine: &Affine, _: usize) -> Result<ElasticState<D>> {
        Ok(ElasticState {
            affine: *affine,
            moved: Vec::new(),
            field: device.alloc(0)?,
            on: None,
            last: None,
            cuts: 0,
            held: Held::default(),
            times: StepTimes::default(),
            setup_seconds: 0.0,
        })
    }

    fn to_scale(&mut self, scale: &Scale, grid: &Grid) {
        (self.factor, self.grid) = (scale.factor, grid.clone());
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut ElasticState<D>,
    ) -> Result<()> {
        let began = Instant::now();
        let grid = self.sampled()?;
        state.last = None;
        state.moved = Moved::all(images, &grid, &state.affine);
        let (number, level) = self.body.at(self.factor);
        let (kept, before) = match state.on.take() {
            Some(on) => {
                let now = on.state(device)?;
                ((on.level == number).then_some(on.mesh), Some((on.level, now)))
            }
            None => (None, None),
        };
        let first = brought(&self.body, self.start.as_ref(), before, number)?;
        let mesh = match kept {
            Some(mesh) => mesh,
            None => DeviceMesh::new(device, level)?,
        };
        let places = Places::new(device, &mesh, &grid)?;
        state.field = device.alloc(3 * grid.len())?;
        let displacements = device.upload(&planes(&first.displacements))?;
        let placed = places.placed(&mesh);
        device.field(&placed, &displacements, &places.units(), &mut state.field)?;
        let (level, work) = (number, None);
        state.on = Some(OnScale { level, mesh, places, first, work });
        device.synchronize()?;
        state.setup_seconds += began.elapsed().as_secs_f64();
        Ok(())
    }

    fn counts(
        &self,
        device: &D,
        _: &[FixedImage<'_, D>],
        mask: Option<&DeviceImage<D>>,
        target: f64,
        state: &ElasticState<D>,
    ) -> Result<Option<D::Buffer<f32>>> {
        let mask = weights_at(device, mask, target)?;
        match &state.on {
            // Those of the samples of a lattice are made at the first step.
            Some(on) if self.takes_all() => {
                within(device, both(device, mask, self.shown(device, state)?)?, &on.places)
            }
            _ => Ok(mask),
        }
    }

    fn shown(&self, device: &D, state: &ElasticState<D>) -> Result<Option<D::Buffer<f32>>> {
        match &state.on {
            Some(on) => seen(device, &state.moved, BORDER, &state.field, on.places.grid.dims()),
            None => Ok(None),
        }
    }

    fn lend(&self, _: &D, state: &ElasticState<D>, work: &mut Borrower<'_, D>) -> Result<()> {
        work(&state.affine, &state.field)
    }

    fn step(
        &mut self,
        device: &D,
        mut pull: Pull<'_, D>,
        state: &mut ElasticState<D>,
    ) -> Result<PendingEnergies> {
        let mut clock = Instant::now();
        let ElasticState { affine, moved, field, on, times, setup_seconds, .. } = &mut *state;
        let Some(on) = on else { return Err(not_refined()) };
        let level = &self.body.levels()[on.level];
        if on.work.is_none() {
            let images = (&moved[..], &*affine, &*field);
            let (options, pressure, grid) = (&self.options, self.pressure, &self.grid);
            let work =
                Work::new(device, (options, pressure), (level, on), images, &mut pull, grid)?;
            on.work = Some(work);
            *setup_seconds += clock.elapsed().as_secs_f64();
            clock = Instant::now();
        }
        let OnScale { mesh, places, work: Some(work), .. } = on else {
            return Err(not_refined());
        };
        let Work { mover, nodal, lag, voxel, curvatures, warped, derivatives, force, lattice } =
            work;
        let (coupled, lagging) = match lag {
            Lag::Coupled(coupled) => (Some(coupled), None),
            Lag::Lagging(lagging) => (None, Some(lagging)),
        };
        let dims = places.grid.dims();
        for (moved, out) in moved.iter().zip(warped.iter_mut()) {
            moved.warp_to(device, field, dims, out)?;
        }
        self.lap(device, &mut clock, &mut times.interpolation)?;
        let Pull { mut sources, fixed, counts, .. } = pull;
        let given = counts.given;
        let volume = lattice.as_ref().map_or(sources.counted_volume, |lattice| lattice.volume);
        let mut images = |weights: Option<&D::Buffer<f32>>| {
            let reference = |i: usize| match &*lattice {
                Some(lattice) => &lattice.fixed[i],
                None => fixed[i].values,
            };
            let images: Vec<_> = warped
                .iter()
                .enumerate()
                .map(|(i, moved)| {
                    let (reference, reference_moves) = (reference(i), false);
                    Images { reference, moved, weights, dims, reference_moves }
                })
                .collect();
            forces(device, &mut sources, &images, (moved, affine), field, derivatives, force)
        };
        let energies = match &*lattice {
            Some(lattice) => images(lattice.weights.as_ref())?,
            None => counts.under(device, field, dims, None, images)?,
        };
        self.lap(device, &mut clock, &mut times.similarity)?;
        let (sample, pressure) = (places.grid.voxel_volume(), self.pressure);
        nodal.gather(device, mesh, places, force, (volume, sample), pressure)?;
        self.lap(device, &mut clock, &mut times.forces)?;
        if let Some(coupled) = coupled {
            let weights = lattice.as_ref().map_or(given, |lattice| lattice.weights.as_ref());
            let consistent = self.options.is_consistent();
            let images = Pulling { moved, affine, field, warped, weights, curvatures, consistent };
            let pattern = level.body.pattern();
            let now = || Coupled::new(device, (mesh, places), &images, self.pressure, pattern);
            let at = match coupled.learns() {
                true => Some(At::of(device, mover.displacements(), &nodal.forces)?),
                false => None,
            };
            if let Some(blocks) = coupled.look(at, now)? {
                mover.recouple(device, level, &blocks)?;
            }
        }
        // What images say beyond a voxel is not known.
        let most = match self.options.coupling {
            Coupling::Implicit => FARTHEST * places.grid.spacing().into_iter().fold(0.0, f64::max),
            Coupling::Explicit => f64::INFINITY,
        };
        let made = mover.step(device, &mesh.mesh(), &nodal.forces, most);
        let mut motion = match lagging {
            Some(lagging) => {
                lagging.checked(made, || Ok(vectors(&device.download(mover.displacements())?)))?
            }
            None => made?,
        };
        voxel.note(&mut motion);
        self.lap(device, &mut clock, &mut times.motion)?;
        device.field(&places.placed(mesh), mover.displacements(), &places.units(), field)?;
        self.lap(device, &mut clock, &mut times.displacement)?;
        self.residual = mover.residual();
        state.cuts += motion.cuts;
        state.held.count(&motion);
        state.last = Some(motion);
        Ok(energies)
    }

    fn at_rest(&self, _: &ElasticState<D>, course: &Course) -> Option<bool> {
        Some(at_rest(course, self.options.tolerance))
    }

    fn motion(&self, state: &ElasticState<D>) -> Option<MotionRecord> {
        state.last
    }

    fn residual(&mut self) -> Result<Option<f64>> {
        Ok(self.residual)
    }

    fn conclude(
        self,
        device: &D,
        fixed: &Grid,
        state: ElasticState<D>,
    ) -> Result<Found<D, ElasticResult>> {
        let ElasticState { field, on, cuts, held, times, setup_seconds, moved, .. } = state;
        drop(moved);
        let Some(on) = on else { return Err(not_refined()) };
        let body_state = on.state(device)?;
        let (mut field, places) = match on.places.grid == *fixed {
            true => (field, on.places),
            false => {
                let places = Places::new(device, &on.mesh, fixed)?;
                let displacements = device.upload(&planes(&body_state.displacements))?;
                let mut out = device.alloc(3 * fixed.len())?;
                let placed = places.placed(&on.mesh);
                device.field(&placed, &displacements, &places.units(), &mut out)?;
                (out, places)
            }
        };
        if places.inside.is_some() {
            outside::extend(device, (&on.mesh, &places), &mut field)?;
        }
        let mut inverse = device.alloc::<f32>(field.len())?;
        device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
        let level = &self.body.levels()[on.level];
        let (body, fixed) = (Arc::clone(&level.body), level.fixed.clone());
        let state = body_state;
        let extra = ElasticResult { body, fixed, state, cuts, held, times, setup_seconds };
        Ok(Found { fields: [field, inverse], settled: false, mended: 0, path: None, extra })
    }
}
