//! Large deformation diffeomorphic metric mapping (Beg et al. 2005; section 2.2.1.2 of Ha 2011).
//!
//! The moving image is `I0` at time 0, the fixed one `I1` at time 1. Velocities `v_j` on the fixed
//! grid, constant over `T` time steps each, minimise
//! `E = Σ_j ⟨L v_j, v_j⟩ / (N T) + S(I0 ∘ φ₁₀, I1) / σ²`, with any similarity `S` and `N` voxels. With the flows
//! `φ_{j+1,0} = φ_{j,0} ∘ (id − v_j/T)` and `φ_{j,1} = φ_{j+1,1} ∘ (id + v_j/T)` and the derivative
//! `s = ∂S/∂(I0 ∘ φ₁₀)`, the gradient of `E` at time `j` is
//! `2 v_j − (N / σ²) L⁻¹ (|Dφ_{j,1}| (s ∘ φ_{j,1}) ∇(I0 ∘ φ_{j,0}))`; the force of `v_j` is taken at the end
//! of its time step, where the images are that it moved.
//!
//! `S` may have points as well: those of the fixed world, at time 1, go `z_j = z_{j+1} − v_j(z_{j+1})/T` to time 0. With
//! the covector `λ₀ = ∂S/∂z₀` and `λ_{j+1} = (1 − Dv_j(z_{j+1})/T)ᵀ λ_j` the force of `v_j` is `λ_j` at `z_{j+1}`,
//! which is the exact gradient of what these steps do.
//!
//! One iteration goes forward in time with `φ_{j,0}`, keeps the images, and goes backward with
//! `φ_{j,1}`, where it updates the velocities at once.

mod path;
mod pull;
mod storage;

use super::forces::Forces;
use super::kinds::{Kind, Matching};
use super::points::lattice;
use super::solver::{Solver, SolverKind};
use super::{Borrower, Buffers, CohortModel, Found, Lent, Model, Pull, UseCohortModel};
use crate::attachment::Attachment;
use crate::attachment::images::{DeviceImage, Moved, seen};
use crate::error::Result;
use crate::multiscale::Scale;
use crate::similarity::{PendingEnergies, PendingEnergy};
use path::Path;
use pull::Trajectories;
use serde::{Deserialize, Serialize};
use storage::checkpoint_distance;
use voxalign_compute::Device;
use voxalign_compute::ops::elastic::ElasticOperator;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_image::{Affine, Grid};
use voxalign_options::{Choice, OptionError, Parameters};

pub use storage::Storage;

/// Parts of the energy at an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathEnergy {
    /// `Σ_j ⟨L v_j, v_j⟩ / (N T)`.
    pub path: f64,
    /// `Σ_j √(⟨L v_j, v_j⟩ / N) / T`: the length of the path.
    pub length: f64,
    /// The similarity `S`: the energy of all attachments.
    pub similarity: f64,
}

/// The path of a registration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathRecord {
    /// How velocities and images over time were kept.
    pub storage: Storage,
    /// The parts of the energy before every iteration, over all scales.
    pub energies: Vec<PathEnergy>,
}

/// Buffers of an iteration at a scale.
struct Work<D: Device> {
    solver: Box<dyn Solver<D>>,
    operator: ElasticOperator,
    velocity: D::Buffer<f32>,
    field: D::Buffer<f32>,
    spare: D::Buffer<f32>,
    forces: Forces<D>,
    solution: D::Buffer<f32>,
    /// Those of all attachments, one for each of their `channels`.
    derivatives: Vec<D::Buffer<f32>>,
    channels: Vec<usize>,
    jacobian: D::Buffer<f32>,
    norms: D::Buffer<f64>,
    /// The time steps of a segment.
    every: usize,
    /// Images of times within a segment, a channel after the other.
    images: Vec<Vec<D::Buffer<f32>>>,
    /// Displacements at the beginning of segments.
    checkpoints: Vec<D::Buffer<f32>>,
}

/// The weights of the energies of points in the gradient of velocities.
struct Stiff<D: Device> {
    /// How stiff they are, once for each component of the velocity: see [`Work::stiffness`].
    along: D::Buffer<f32>,
}

/// The state of descent along a path from one step to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The factor of the gradient; none before it is set by the first gradient of a scale.
    pub rate: Option<f64>,
    /// The energy before the last step.
    pub last_energy: f64,
    /// Whether the last steps of the scale are made, which become no longer.
    pub settles: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate: None, last_energy: f64::INFINITY, settles: false }
    }
}

/// A geodesic path of deformations, whose length an elastic operator gives.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Lddmm {
    /// Largest displacement of the first iteration at a scale, voxels of it
    #[parameter(
        default = 0.5,
        unit = "VOX",
        above = 0.0,
        most = 2.0,
        what = "number of voxels",
        heading = "Schedule"
    )]
    pub step: f64,
    /// Number of time steps of the velocity
    #[parameter(default = 10, least = 1, most = 1000, heading = "Smoothness")]
    pub time_steps: usize,
    /// The similarity has the weight 1 / sigma^2 relative to the length of the path
    #[parameter(
        default = 0.1,
        unit = "SIGMA",
        above = 0.0,
        remedy = "give a number above 0, such as 0.1",
        heading = "Smoothness"
    )]
    pub lddmm_sigma: f64,
    /// How the path over time is stored; half precision changes the last digits of the result
    #[parameter(default = Storage::Full)]
    pub path_storage: Storage,
}

impl Kind for Lddmm {
    type Model<D: Device> = LddmmModel<D>;

    fn model<D: Device>(self, matching: &Matching, grid: &Grid) -> LddmmModel<D> {
        LddmmModel::new(self, matching, grid)
    }

    fn with_cohort<D: Device, U: UseCohortModel<D>>(
        self,
        matching: &Matching,
        work: U,
    ) -> Option<U::Out> {
        Some(work.with(|grid| self.model(matching, grid)))
    }

    fn bytes_per_voxel(self) -> u64 {
        64 + self.path_storage.bytes(1, self.time_steps as u64, 1)
    }

    fn similarity_weight(self) -> f64 {
        1.0 / (self.lddmm_sigma * self.lddmm_sigma)
    }

    /// A path has the length that an elastic operator gives it, so that a Gaussian cannot take its place.
    fn usual_solver(self) -> SolverKind {
        SolverKind::FFT
    }

    fn check_solver(self, solver: &SolverKind) -> Result<(), OptionError> {
        if solver.operator().is_some() {
            return Ok(());
        }
        let remedy =
            "it defines no norm of the velocity for LDDMM to minimise; use fft, sor, cg or hybrid";
        Err(OptionError::value("solver", solver.name(), remedy))
    }
}

/// Steps of gradient descent in the velocities of paths. The subjects share what a step needs; where there
/// are several, solvers start from nothing at each step.
pub struct LddmmModel<D: Device> {
    options: Lddmm,
    solver: SolverKind,
    /// The factor of the finest scale.
    finest: u64,
    grid: Grid,
    /// Whether there is one subject only.
    alone: bool,
    /// Made at the first step of a scale.
    work: Option<Work<D>>,
    /// The parts of the energy before every step so far, over all scales, of one subject.
    history: Vec<PathEnergy>,
}

/// A subject with its path.
pub struct LddmmState<D: Device> {
    affine: Affine,
    /// The images at the scale.
    moved: Vec<Moved<D>>,
    path: Path<D>,
    pace: Pace,
    /// Looked at in the first step of a scale, where points pull.
    stiff: Option<Stiff<D>>,
}

impl<D: Device> LddmmModel<D> {
    /// On a grid.
    #[must_use]
    pub fn new(options: Lddmm, matching: &Matching, grid: &Grid) -> Self {
        let finest = matching.multiscale.scales().last().map_or(1, |s| s.factor as u64);
        let (solver, grid, history) = (matching.solver, grid.clone(), Vec::new());
        Self { options, solver, finest, grid, alone: false, work: None, history }
    }
}

impl<D: Device> Work<D> {
    /// Adds the forces at points to that of a time step.
    fn add_points(
        &mut self,
        device: &D,
        path: &Path<D>,
        j: usize,
        ways: &[Trajectories<D>],
    ) -> Result<()> {
        for way in ways {
            // Where points are is from the last time step on.
            if let (Some(forces), Some(at)) = (way.forces.get(j), way.at.iter().rev().nth(j)) {
                device.add_splat(forces, at, lattice(path.dims), &mut self.forces.sum)?;
            }
        }
        Ok(())
    }

    /// Goes from time `from` to time `to` with `field` as the displacement of `φ_{from,0}`; keeps
    /// the images of the times after `from`.
    fn forward(
        &mut self,
        device: &D,
        path: &Path<D>,
        moved: &[Moved<D>],
        from: usize,
        to: usize,
    ) -> Result<()> {
        for j in from..to {
            let velocity = path.velocities[j].view(device, &mut self.velocity)?;
            device.advance(&self.field, velocity, &path.step(-1.0), path.dims, &mut self.spare)?;
            std::mem::swap(&mut self.field, &mut self.spare);
            for (c, moved) in moved.iter().enumerate() {
                moved.warp_to(device, &self.field, path.dims, &mut self.images[c][j - from])?;
            }
        }
        Ok(())
    }
}

impl<D: Device> LddmmModel<D> {
    fn make_work(&mut self, device: &D, path: &Path<D>, channels: usize) -> Result<()> {
        if self.work.is_some() {
            return Ok(());
        }
        let steps = path.time_steps;
        let n = path.dims.iter().product::<usize>();
        let every = match path.storage {
            Storage::Checkpoints => checkpoint_distance(steps as u64, channels as u64) as usize,
            _ => steps,
        };
        let images = |_| (0..every).map(|_| Ok(device.alloc(n)?)).collect::<Result<Vec<_>>>();
        let segments = steps.div_ceil(every);
        let vectors = || device.alloc::<f32>(3 * n);
        self.options.check_solver(&self.solver)?;
        let operator = self.solver.operator().copied().unwrap_or_default();
        self.work = Some(Work {
            solver: self.solver.build(device, path.dims, path.spacing)?,
            operator: operator.on(path.spacing),
            velocity: path.room(device, 3 * n)?,
            field: vectors()?,
            spare: vectors()?,
            forces: Forces::new(device, &self.grid, 1)?,
            solution: vectors()?,
            derivatives: Vec::new(),
            channels: Vec::new(),
            jacobian: device.alloc(n)?,
            norms: device.alloc(3)?,
            every,
            images: (0..channels).map(images).collect::<Result<_>>()?,
            checkpoints: (1..segments).map(|_| Ok(vectors()?)).collect::<Result<_>>()?,
        });
        Ok(())
    }

    /// Goes forward in time, looks what pulls there, and goes back, where velocities change behind the flow. The
    /// energy before that.
    fn descend(
        &mut self,
        device: &D,
        mut pull: Pull<'_, D>,
        state: &mut LddmmState<D>,
    ) -> Result<PendingEnergies> {
        self.make_work(device, &state.path, state.moved.len())?;
        let LddmmState { affine, moved, path, pace, stiff } = state;
        let Some(work) = &mut self.work else { return Ok(PendingEnergies::default()) };
        if !self.alone {
            // The last solution is another subject's.
            work.solver.restart();
            device.eval_in_place(&(x(0) * param(0)), &mut work.solution, &[], &[0.0], None)?;
        }
        let (dims, steps) = (path.dims, path.time_steps);
        let n = dims.iter().product::<usize>() as f64;
        let every = work.every;
        let segments = steps.div_ceil(every);

        // Forward in time.
        let mut energy = PathEnergy { path: 0.0, length: 0.0, similarity: 0.0 };
        device.eval_in_place(&(x(0) * param(0)), &mut work.field, &[], &[0.0], None)?;
        for s in 0..segments {
            if s > 0 {
                device.copy(&work.field, &mut work.checkpoints[s - 1])?;
            }
            work.forward(device, path, moved, s * every, steps.min((s + 1) * every))?;
        }
        for j in 0..steps {
            let velocity = path.velocities[j].view(device, &mut work.velocity)?;
            device.elastic_product(&work.operator, velocity, dims, &mut work.spare)?;
            let norm = device.reduce(&[velocity, &work.spare], &[Reduction::Dot(0, 1)])?[0] / n;
            energy.path += norm / steps as f64;
            energy.length += norm.max(0.0).sqrt() / steps as f64;
        }
        let share = pull.sources.share;
        let stiffness: Vec<Vec<f32>> = match stiff {
            Some(_) => Vec::new(),
            None => {
                let of = |a: &mut Box<dyn Attachment<D>>| {
                    a.needs().places.map(|places| places[0].stiffness().to_vec())
                };
                pull.sources.all().filter_map(of).collect()
            }
        };
        let (energies, ways) =
            work.pulled(device, pull, path, &self.grid, (affine, moved), self.alone)?;
        if stiff.is_none() && !ways.is_empty() {
            let of = (&*ways, &*stiffness);
            let along = work.stiffness(device, path, &self.grid, of, share)?;
            *stiff = Some(Stiff { along });
        }
        let has_images = energies.has_images;
        let (images, points) = energies.values()?;
        energy.similarity = images + points.iter().sum::<f64>();
        let weight = self.options.similarity_weight();
        let total = energy.path + weight * energy.similarity;
        if self.alone {
            self.history.push(energy);
        }
        // Longer steps while they pay, shorter ones where they led uphill.
        let change = match total > pace.last_energy {
            true => SHORTER,
            false if pace.settles => 1.0,
            false => 1.1,
        };
        pace.rate = pace.rate.map(|r| (change * r).min(MOST));
        pace.last_energy = total;

        // Backward in time, where velocities change behind the flow.
        device.eval_in_place(&(x(0) * param(0)), &mut work.field, &[], &[0.0], None)?;
        for s in (0..segments).rev() {
            let (first, last) = (s * every, steps.min((s + 1) * every));
            if segments > 1 {
                // The images of this segment once more; the force holds the flow meanwhile.
                device.copy(&work.field, &mut work.forces.sum)?;
                if s == 0 {
                    let zero = &mut work.field;
                    device.eval_in_place(&(x(0) * param(0)), zero, &[], &[0.0], None)?;
                } else {
                    device.copy(&work.checkpoints[s - 1], &mut work.field)?;
                }
                work.forward(device, path, moved, first, last)?;
                device.copy(&work.forces.sum, &mut work.field)?;
            }
            for j in (first..last).rev() {
                work.push(device, j - first)?;
                // gradient = 2 v − (N / σ²) u
                let factor = (n * weight) as f32;
                // The rate is that of the images, where there are some: points are held back instead.
                let of_images = pace.rate.is_none() && !ways.is_empty();
                if !of_images {
                    work.add_points(device, path, j, &ways)?;
                }
                let velocity = path.velocities[j].view(device, &mut work.velocity)?;
                work.solver.solve(&work.forces.sum, &mut work.solution)?;
                let rate = match pace.rate {
                    Some(rate) => rate,
                    None if !has_images && of_images => MOST,
                    None => {
                        // The first gradient of the scale sets the rate: its largest step is given.
                        let gradient = x(0) * 2.0 - x(1) * param(0);
                        let inputs = [velocity, &work.solution];
                        device.eval(&gradient, &inputs, &[factor], None, &mut work.spare)?;
                        device.field_norms(&work.spare, [1.0; 3], &mut work.norms)?;
                        let largest = device.download(&work.norms)?[0];
                        let rate = if largest > 0.0 { self.options.step / largest } else { 0.0 };
                        rate.min(MOST)
                    }
                };
                pace.rate = Some(rate);
                if of_images {
                    work.add_points(device, path, j, &ways)?;
                    work.solver.solve(&work.forces.sum, &mut work.solution)?;
                }
                let velocity = path.velocities[j].view(device, &mut work.velocity)?;
                let step = path.step(1.0);
                device.advance(&work.field, velocity, &step, dims, &mut work.spare)?;
                std::mem::swap(&mut work.field, &mut work.spare);
                let change = (x(0) * 2.0 - x(1) * param(0)) * param(1);
                let (room, solution) = (&mut work.velocity, &work.solution);
                let by = [factor, rate as f32];
                path.velocities[j].change(device, room, |v| {
                    let (update, mut inputs) = match &*stiff {
                        None => (x(0) - change, vec![solution]),
                        // Nowhere beyond the place where the energy of points is least.
                        Some(_) => {
                            (x(0) - change / (x(2) * param(0) * param(1) + 1.0), vec![solution])
                        }
                    };
                    inputs.extend(stiff.as_ref().map(|s| &s.along));
                    Ok(device.eval_in_place(&update, v, &inputs, &by, None)?)
                })?;
            }
        }
        let images = PendingEnergy::known(energy.path + weight * images);
        let points = points.into_iter().map(|p| PendingEnergy::known(weight * p)).collect();
        Ok(PendingEnergies { images, has_images, points })
    }
}

/// The factor of steps after one that led uphill, and of the last ones of a scale, of which nobody looks where they lead.
const SHORTER: f64 = 0.5;

/// The number of those.
const SETTLING: usize = 2;

/// The largest rate: more would turn the velocity around.
const MOST: f64 = 0.5;

impl<D: Device> Model<D> for LddmmModel<D> {
    type State = LddmmState<D>;
    type Extra = ();

    fn begin(&mut self, device: &D, affine: &Affine, channels: usize) -> Result<LddmmState<D>> {
        let (storage, steps) = (self.options.path_storage, self.options.time_steps);
        let coarse = |n: &usize| (*n as u64).div_ceil(self.finest);
        let voxels = self.grid.dims().iter().map(coarse).product();
        storage.check(voxels, steps as u64, channels as u64, device.memory().free)?;
        self.alone = true;
        let (affine, path) = (*affine, Path::new(steps, storage));
        Ok(LddmmState { affine, moved: Vec::new(), path, pace: Pace::default(), stiff: None })
    }

    fn to_scale(&mut self, _: &Scale, grid: &Grid) {
        self.grid = grid.clone();
        self.work = None;
    }

    fn refine(
        &mut self,
        device: &D,
        images: Vec<DeviceImage<D>>,
        state: &mut LddmmState<D>,
    ) -> Result<()> {
        // The images on the grid are made for all times, and kept by what makes steps.
        state.moved = Moved::all(images, &self.grid, &state.affine);
        state.path.go_to(device, &self.grid)?;
        (state.pace, state.stiff) = (Pace::default(), None);
        Ok(())
    }

    fn shown(&self, device: &D, state: &LddmmState<D>) -> Result<Option<D::Buffer<f32>>> {
        if state.moved.iter().all(|m| !m.image.open) {
            return Ok(None);
        }
        let path = &state.path;
        seen(device, &state.moved, 0, &path.flow(device, false)?, path.dims)
    }

    fn lend(&self, device: &D, state: &LddmmState<D>, work: &mut Borrower<'_, D>) -> Result<()> {
        work(&state.affine, &state.path.flow(device, false)?)
    }

    fn step(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        state: &mut LddmmState<D>,
    ) -> Result<PendingEnergies> {
        self.descend(device, pull, state)
    }

    fn settling(&self, _: &LddmmState<D>) -> usize {
        SETTLING
    }

    fn settle(&mut self, LddmmState { pace, .. }: &mut LddmmState<D>) {
        pace.settles = true;
        pace.rate = pace.rate.map(|rate| SHORTER * rate);
    }

    fn residual(&mut self) -> Result<Option<f64>> {
        match &mut self.work {
            Some(work) => work.solver.residual(&work.forces.sum, &work.solution),
            None => Ok(None),
        }
    }

    fn conclude(self, device: &D, _: &Grid, state: LddmmState<D>) -> Result<Found<D>> {
        let Self { history, work, .. } = self;
        let LddmmState { path, moved, .. } = state;
        // What steps needed makes room for the flows.
        drop((work, moved));
        let record = PathRecord { storage: path.storage, energies: history };
        let fields = [path.flow(device, false)?, path.flow(device, true)?];
        Ok(Found { fields, settled: false, mended: 0, path: Some(record), extra: () })
    }
}

impl<D: Device> CohortModel<D> for LddmmModel<D> {
    fn changing_lengths(&self, grid: &Grid) -> Vec<usize> {
        vec![3 * grid.len(); self.options.time_steps]
    }

    fn bytes_shared(&self, template: u64, channels: u64) -> u64 {
        let steps = self.options.time_steps as u64;
        let velocities = 12 * template * steps;
        Storage::Full.bytes(template, steps, channels) - velocities
    }

    fn begin_among(&mut self, _: &D, affine: &Affine) -> Result<LddmmState<D>> {
        // What does not fit leaves the device as it is, so that memory does not change a result.
        let path = Path::new(self.options.time_steps, Storage::Full);
        let affine = *affine;
        Ok(LddmmState { affine, moved: Vec::new(), path, pace: Pace::default(), stiff: None })
    }

    /// The velocities in single precision and the moving images: nothing is in half precision of one subject
    /// of several.
    fn buffers<'s>(&self, state: &'s mut LddmmState<D>) -> Buffers<'s, D> {
        let LddmmState { path, stiff, .. } = state;
        let velocities = path.velocities.iter_mut().filter_map(|v| v.single());
        Buffers {
            changing: velocities.chain(stiff.iter_mut().map(|s| &mut s.along)).collect(),
            fixed: state.moved.iter_mut().map(|m| &mut m.image.values).collect(),
        }
    }

    fn numbers(&self, state: &mut LddmmState<D>) -> Result<Vec<f64>> {
        let Pace { rate, last_energy, .. } = state.pace;
        let stiff = f64::from(u8::from(state.stiff.is_some()));
        Ok([stiff, last_energy].into_iter().chain(rate).collect())
    }

    fn set_numbers(&self, device: &D, state: &mut LddmmState<D>, numbers: &[f64]) -> Result<()> {
        if let &[stiff, last_energy, ref rate @ ..] = numbers {
            state.pace = Pace { rate: rate.first().copied(), last_energy, settles: false };
            let along = || device.alloc(3 * state.path.dims.iter().product::<usize>());
            state.stiff = if stiff > 0.0 { Some(Stiff { along: along()? }) } else { None };
        }
        Ok(())
    }

    fn points_moved(&mut self, state: &mut LddmmState<D>) {
        state.stiff = None;
    }

    fn lend_displacement(
        &mut self,
        device: &D,
        state: &mut LddmmState<D>,
        work: &mut Lent<'_, D>,
    ) -> Result<()> {
        work(&state.path.flow(device, false)?, &state.moved)
    }
}

#[cfg(test)]
mod tests;
