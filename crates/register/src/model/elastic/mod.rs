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
#[cfg(test)]
mod tests;

use super::{Borrower, FixedImage, Found, Model, Pull, Sources};
use crate::attachment::images::{DeviceImage, Moved, both, seen, weights_at};
use crate::error::Result;
use crate::multiscale::{Course, Motion as MotionRecord, Scale};
use crate::similarity::{Images, PendingEnergies};
use body::{DeviceMesh, Places, carried, planes, vectors};
use coupling::{At, Coupling as Coupled};
use force::NodalForces;
use motion::Mover;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::ops::elementwise::{constant, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::{Interpolation, grid_map};
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::{Body, Fixed, State};
use voxalign_image::{Affine, Grid, Vector3, memory};

pub use body::{BodyLevel, ElasticBody};
pub use options::{Coupling, Elastic, Force, NewmarkWeights, Sampling, StepSolver, Tissue};
pub use outside::FALL_OFF_MM;
pub use rest::at_rest;

/// How far a vertex goes in a step at most that counts on forces ahead, in largest voxels of the scale.
const FARTHEST: f64 = 1.0;

/// Steps after which it is looked anew how fast forces change.
const LOOK_EVERY: usize = 10;

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
    times: StepTimes,
    setup_seconds: f64,
}

/// What is made for a scale.
struct OnScale<D: Device> {
    /// The number of the mesh.
    level: usize,
    mesh: DeviceMesh<D>,
    places: Places<D>,
    /// Where the body was when it came to the scale, and the displacements of its vertices on the device, mm.
    first: State,
    displacements: D::Buffer<f32>,
    /// Made at the first step.
    work: Option<Work<D>>,
}

impl<D: Device> OnScale<D> {
    /// The displacements of the vertices, mm.
    fn displacements(&self) -> &D::Buffer<f32> {
        self.work.as_ref().map_or(&self.displacements, |work| work.mover.displacements())
    }

    /// The state of the body.
    fn state(&self, device: &D) -> Result<State> {
        match &self.work {
            Some(work) => work.mover.state(device),
            None => Ok(self.first.clone()),
        }
    }
}

/// Room for steps, and what they need of the fixed images.
struct Work<D: Device> {
    mover: Mover<D>,
    nodal: NodalForces<D>,
    /// How forces change, where steps count on that, and where they were known last.
    coupling: Option<Coupled>,
    last: Option<At>,
    /// Steps made.
    steps: usize,
    warped: Vec<D::Buffer<f32>>,
    /// The derivatives of the energy in the values of the warped images, and in the displacements of samples, 1/mm.
    derivatives: Vec<Vec<D::Buffer<f32>>>,
    force: D::Buffer<f32>,
    /// Where samples are not all voxels: the fixed images there, the weights of samples, and the volume that counts, mm³.
    lattice: Option<OnLattice<D>>,
}

struct OnLattice<D: Device> {
    fixed: Vec<D::Buffer<f32>>,
    weights: Option<D::Buffer<f32>>,
    volume: f64,
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

    fn work(&self, device: &D, pull: &mut Pull<'_, D>, state: &ElasticState<D>) -> Result<Work<D>> {
        let Some(on) = &state.on else { return Err(not_refined()) };
        let n = on.places.grid.len();
        let level = &self.body.levels()[on.level];
        let lattice = match self.takes_all() {
            true => None,
            false => Some(self.on_lattice(device, pull, state, on)?),
        };
        let mut warped = Vec::with_capacity(state.moved.len());
        for moved in &state.moved {
            let mut out = device.alloc(n)?;
            moved.warp_to(device, &state.field, on.places.grid.dims(), &mut out)?;
            warped.push(out);
        }
        let coupling = match self.options.coupling {
            Coupling::Explicit => None,
            Coupling::Implicit => {
                let images = (&state.moved[..], &state.affine, &state.field);
                let at = (on.level, &on.mesh, &on.places);
                Some(self.coupled(device, pull, images, at, &warped, lattice.as_ref())?)
            }
        };
        let blocks = coupling.as_ref().map(Coupled::blocks).transpose()?;
        let first = on.first.clone();
        Ok(Work {
            mover: Mover::new(device, level, &self.options, first, blocks.as_deref())?,
            nodal: NodalForces::new(device, self.options.force, &level.body, &on.mesh, &on.places)?,
            coupling,
            last: None,
            steps: 0,
            warped,
            derivatives: vec![Vec::new()],
            force: device.alloc(3 * n)?,
            lattice,
        })
    }

    /// How the forces of all images change where they are now.
    fn coupled(
        &self,
        device: &D,
        pull: &mut Pull<'_, D>,
        (moved, affine, field): (&[Moved<D>], &Affine, &D::Buffer<f32>),
        (level, mesh, places): (usize, &DeviceMesh<D>, &Places<D>),
        warped: &[D::Buffer<f32>],
        lattice: Option<&OnLattice<D>>,
    ) -> Result<Coupled> {
        let mut curvatures: Vec<Option<f64>> = vec![Some(0.0); warped.len()];
        for attachment in pull.sources.all() {
            let curvature = attachment.curvature();
            for channel in attachment.needs().channels {
                if let Some(of) = curvatures.get_mut(channel) {
                    *of = of.zip(curvature).map(|(a, b)| a + b);
                }
            }
        }
        let weights = match lattice {
            Some(lattice) => lattice.weights.as_ref(),
            None => pull.counts.given,
        };
        // A sample stands for a voxel, of those that count.
        let unit = self.pressure * places.grid.voxel_volume();
        let pattern = self.body.levels()[level].body.pattern();
        let (at, images) = ((mesh, places), (moved, affine));
        Coupled::new(device, at, images, field, warped, weights, &curvatures, unit, pattern)
    }

    fn on_lattice(
        &self,
        device: &D,
        pull: &Pull<'_, D>,
        state: &ElasticState<D>,
        on: &OnScale<D>,
    ) -> Result<OnLattice<D>> {
        let grid = &on.places.grid;
        let (from, dims, linear) = (self.grid.dims(), grid.dims(), Interpolation::Linear);
        let map = grid_map(from, dims);
        let at = |values: &D::Buffer<f32>, outside: f32| {
            let mut out = device.alloc(grid.len())?;
            device.warp_affine(values, from, &map, dims, linear, outside, &mut out)?;
            Ok::<_, crate::RegisterError>(out)
        };
        let fixed = pull.fixed.iter().map(|f| at(f.values, f.outside)).collect::<Result<_>>()?;
        let given = pull.counts.given.map(|weights| at(weights, 0.0)).transpose()?;
        let shown = seen(device, &state.moved, &state.field, dims)?;
        let weights = within(device, both(device, given, shown)?, &on.places)?;
        let counted = match &weights {
            Some(weights) => device.reduce(&[weights], &[Reduction::Sum(0)])?[0],
            None => grid.len() as f64,
        };
        Ok(OnLattice { fixed, weights, volume: counted * grid.voxel_volume() })
    }
}

/// Weights that are 0 outside of the mesh.
fn within<D: Device>(
    device: &D,
    weights: Option<D::Buffer<f32>>,
    places: &Places<D>,
) -> Result<Option<D::Buffer<f32>>> {
    let Some(inside) = &places.inside else { return Ok(weights) };
    let mut own = device.alloc(inside.len())?;
    device.copy(inside, &mut own)?;
    both(device, weights, Some(own))
}

/// A step before the state has come to a scale.
fn not_refined() -> crate::RegisterError {
    crate::RegisterError::option("schedule", "none", "give at least one scale")
}

/// A body at rest.
fn still(level: &BodyLevel) -> Result<State> {
    let zeros = || memory::filled(level.body.mesh().vertices().len(), Vector3::zeros());
    let (displacements, velocities, accelerations) = (zeros()?, zeros()?, zeros()?);
    Ok(State { displacements, velocities, accelerations })
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
        let (mesh, first) = match state.on.take() {
            Some(on) => {
                let first = on.state(device)?;
                match on.level == number {
                    true => (on.mesh, first),
                    false => {
                        let from = &self.body.levels()[on.level];
                        (DeviceMesh::new(device, level)?, carried(from, &first, level)?)
                    }
                }
            }
            None => {
                let first = match &self.start {
                    Some(start) => carried(self.body.finest(), start, level)?,
                    None => still(level)?,
                };
                (DeviceMesh::new(device, level)?, first)
            }
        };
        let places = Places::new(device, &mesh, &grid)?;
        state.field = device.alloc(3 * grid.len())?;
        let displacements = device.upload(&planes(&first.displacements))?;
        let placed = places.placed(&mesh);
        device.field(&placed, &displacements, &places.units(), &mut state.field)?;
        let (level, work) = (number, None);
        state.on = Some(OnScale { level, mesh, places, first, displacements, work });
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
            Some(on) => seen(device, &state.moved, &state.field, on.places.grid.dims()),
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
        if state.on.as_ref().is_some_and(|on| on.work.is_none()) {
            let work = self.work(device, &mut pull, state)?;
            if let Some(on) = &mut state.on {
                on.work = Some(work);
            }
            state.setup_seconds += clock.elapsed().as_secs_f64();
            clock = Instant::now();
        }
        let ElasticState { affine, moved, field, on, times, .. } = &mut *state;
        let Some(OnScale { level, mesh, places, work: Some(work), .. }) = on else {
            return Err(not_refined());
        };
        let Work { mover, nodal, coupling, last, steps, warped, derivatives, force, lattice } =
            work;
        let dims = places.grid.dims();
        for (moved, out) in moved.iter().zip(warped.iter_mut()) {
            moved.warp_to(device, field, dims, out)?;
        }
        self.lap(device, &mut clock, &mut times.interpolation)?;
        *steps += 1;
        let mut changed = false;
        if let Some(coupling) = coupling.as_mut().filter(|_| steps.is_multiple_of(LOOK_EVERY)) {
            let (images, at) = ((&moved[..], &*affine, &*field), (*level, &*mesh, &*places));
            let now = self.coupled(device, &mut pull, images, at, warped, lattice.as_ref())?;
            changed = coupling.take(now);
        }
        let Pull { mut sources, fixed, counts, .. } = pull;
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
            None => counts.under(device, field, dims, images)?,
        };
        self.lap(device, &mut clock, &mut times.similarity)?;
        let (sample, pressure) = (places.grid.voxel_volume(), self.pressure);
        nodal.gather(device, mesh, places, force, (volume, sample), pressure)?;
        self.lap(device, &mut clock, &mut times.forces)?;
        if let Some(coupling) = coupling {
            let (body, forces) = (mover.state(device)?, vectors(&device.download(&nodal.forces)?));
            let at = At { displacements: body.displacements.clone(), forces };
            changed |= last.as_ref().is_some_and(|last| coupling.learn(last, &at));
            if changed {
                let (level, blocks) = (&self.body.levels()[*level], coupling.blocks()?);
                *mover = Mover::new(device, level, &self.options, body, Some(&blocks))?;
            }
            *last = Some(at);
        }
        // What images say beyond a voxel is not known.
        let most = match self.options.coupling {
            Coupling::Implicit => FARTHEST * places.grid.spacing().into_iter().fold(0.0, f64::max),
            Coupling::Explicit => f64::INFINITY,
        };
        let motion = mover.step(device, &mesh.mesh(), &nodal.forces, most)?;
        self.lap(device, &mut clock, &mut times.motion)?;
        device.field(&places.placed(mesh), mover.displacements(), &places.units(), field)?;
        self.lap(device, &mut clock, &mut times.displacement)?;
        self.residual = mover.residual();
        state.cuts += motion.cuts;
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
        let ElasticState { field, on, cuts, times, setup_seconds, moved, .. } = state;
        drop(moved);
        let Some(on) = on else { return Err(not_refined()) };
        let body_state = on.state(device)?;
        let (mut field, places) = match on.places.grid == *fixed {
            true => (field, on.places),
            false => {
                let places = Places::new(device, &on.mesh, fixed)?;
                let mut out = device.alloc(3 * fixed.len())?;
                let placed = places.placed(&on.mesh);
                device.field(&placed, on.displacements(), &places.units(), &mut out)?;
                (out, places)
            }
        };
        if let Some(inside) = &places.inside {
            outside::extend(device, fixed, inside, &mut field)?;
        }
        let mut inverse = device.alloc::<f32>(field.len())?;
        device.eval(&(-x(0)), &[&field], &[], None, &mut inverse)?;
        let level = &self.body.levels()[on.level];
        let (body, fixed) = (Arc::clone(&level.body), level.fixed.clone());
        let state = body_state;
        let extra = ElasticResult { body, fixed, state, cuts, times, setup_seconds };
        Ok(Found { fields: [field, inverse], settled: false, mended: 0, path: None, extra })
    }
}

/// Makes the derivative of the energy of images in the displacement of every sample, 1/mm.
fn forces<D: Device>(
    device: &D,
    sources: &mut Sources<'_, D>,
    images: &[Images<'_, D>],
    (moved, affine): (&[Moved<D>], &Affine),
    field: &D::Buffer<f32>,
    derivatives: &mut [Vec<D::Buffer<f32>>],
    force: &mut D::Buffer<f32>,
) -> Result<PendingEnergies> {
    let mut first = true;
    let none = std::iter::empty();
    let energies = sources.evaluate(device, images, none, derivatives, |channels, room| {
        for (moved, (image, derivative)) in
            moved[channels.clone()].iter().zip(images[channels].iter().zip(&room[0]))
        {
            let from = &moved.image;
            let m = affine.then(from.grid.to_index()).matrix;
            let units = [0, 1, 2].map(|r| [0, 1, 2].map(|c| m[(r, c)]));
            let own = |out: &mut D::Buffer<f32>| {
                let (values, dims) = (&from.values, from.grid.dims());
                device
                    .force_at(derivative, values, dims, &moved.map, field, image.dims, &units, out)
            };
            if std::mem::take(&mut first) {
                own(force)?;
            } else {
                let mut more = device.alloc(force.len())?;
                own(&mut more)?;
                device.eval_in_place(&(x(0) + x(1)), force, &[&more], &[], None)?;
            }
        }
        Ok(())
    })?;
    if first {
        device.eval_in_place(&constant(0.0), force, &[], &[], None)?;
    }
    Ok(energies)
}
