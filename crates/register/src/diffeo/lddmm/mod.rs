//! Large deformation diffeomorphic metric mapping (Beg et al. 2005; section 2.2.1.2 of Ha 2011).
//!
//! The moving image is `I0` at time 0, the fixed one `I1` at time 1. Velocities `v_j` on the fixed
//! grid, constant over `T` time steps each, minimise
//! `E = Σ_j ⟨L v_j, v_j⟩ / (N T) + S(I0 ∘ φ₁₀, I1) / σ²`, with any similarity `S` and `N` voxels. With the flows
//! `φ_{j+1,0} = φ_{j,0} ∘ (id − v_j/T)` and `φ_{j,1} = φ_{j+1,1} ∘ (id + v_j/T)` and the slope
//! `s = ∂S/∂(I0 ∘ φ₁₀)`, the gradient of `E` at time `j` is
//! `2 v_j − (N / σ²) L⁻¹ (|Dφ_{j,1}| (s ∘ φ_{j,1}) ∇(I0 ∘ φ_{j,0}))`; the force of `v_j` is taken at the end
//! of its time step, where the images are that it moved.
//!
//! One iteration goes forward in time with `φ_{j,0}`, keeps the images, and goes backward with
//! `φ_{j,1}`, where it updates the velocities at once.

mod storage;

use super::channel::{
    Buffers, ChannelSimilarity, DeviceImage, Moved, both, coarser, factors_for, seen, weights_at,
};
use super::greedy::finest;
use super::moving_mask::MovingMask;
use super::multiscale::{Deformation, Iteration, Scale};
use super::options::DeformOptions;
use super::solver::{self, Solver};
use crate::error::Result;
use crate::similarity::Images;
use serde::{Deserialize, Serialize};
pub use storage::Storage;
use storage::{Kept, checkpoint_distance};
use voxalign_compute::ops::elastic::ElasticOperator;
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::flow::Step;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::{Interpolation, grid_map};
use voxalign_compute::{Device, DeviceBuffer, Dims, IDENTITY};
use voxalign_image::{Affine, Grid};

/// The velocities over time, and images that flow along them.
pub struct Path<D: Device> {
    device: D,
    fixed: Vec<DeviceImage<D>>,
    moving: Vec<DeviceImage<D>>,
    mask: Option<DeviceImage<D>>,
    affine: Affine,
    grid: Grid,
    finest: f64,
    /// The length of voxels at the scale at hand, mm, roughly.
    target: f64,
    time_steps: usize,
    storage: Storage,
    at_scale: Vec<DeviceImage<D>>,
    weights: Option<D::Buffer<f32>>,
    moving_mask: Option<MovingMask<D>>,
    moved: Vec<Moved<D>>,
    dims: Dims,
    /// Spacing along each axis in units of the smallest, in which velocities are.
    spacing: [f64; 3],
    velocities: Vec<Kept<D>>,
}

fn relative_spacing(grid: &Grid) -> [f64; 3] {
    let smallest = finest(grid);
    grid.spacing().map(|h| h / smallest)
}

impl<D: Device> Path<D> {
    /// Images, where they start, and the number of time steps; everything is kept, in single precision.
    #[must_use]
    pub fn new(
        device: D,
        fixed: Vec<DeviceImage<D>>,
        moving: Vec<DeviceImage<D>>,
        mask: Option<DeviceImage<D>>,
        grid: Grid,
        affine: Affine,
        time_steps: usize,
    ) -> Self {
        let finest = finest(&grid);
        Self {
            device,
            fixed,
            moving,
            mask,
            affine,
            grid,
            finest,
            target: finest,
            time_steps,
            storage: Storage::default(),
            at_scale: Vec::new(),
            weights: None,
            moving_mask: None,
            moved: Vec::new(),
            dims: [0; 3],
            spacing: [1.0; 3],
            velocities: Vec::new(),
        }
    }

    /// The same with another way of keeping velocities and images, before the first scale.
    #[must_use]
    pub fn with_storage(self, storage: Storage) -> Self {
        Self { storage, ..self }
    }

    /// The same with a mask of the moving images, before the first scale.
    #[must_use]
    pub fn with_moving_mask(self, moving_mask: Option<MovingMask<D>>) -> Self {
        Self { moving_mask, ..self }
    }

    /// Exchanges the moving images for the next scale; without any it keeps those of the scale at hand.
    pub fn set_moving(&mut self, images: Vec<DeviceImage<D>>) {
        self.moving = images;
    }

    /// The velocities in single precision and the moving images at the scale at hand: what the path
    /// consists of. Nothing of it is in [half precision](Storage::Half) for [full storage](Storage::Full).
    pub fn buffers(&mut self) -> Buffers<'_, D> {
        Buffers {
            changing: self.velocities.iter_mut().filter_map(Kept::single).collect(),
            fixed: self.moved.iter_mut().map(|m| &mut m.image.values).collect(),
        }
    }

    /// Lets go what the moving images are compared with.
    pub fn clear_references(&mut self) {
        self.at_scale.clear();
        self.weights = None;
    }

    /// Exchanges what the moving images are compared with, at the scale at hand: images on its grid.
    /// A path that is made without fixed images needs them at every scale.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn set_references<'a>(
        &mut self,
        references: impl Iterator<Item = &'a D::Buffer<f32>>,
    ) -> Result<()> {
        let grid = coarser(&self.grid, factors_for(&self.grid, self.target))?;
        for (c, reference) in references.enumerate() {
            if let Some(image) = self.at_scale.get_mut(c) {
                self.device.copy(reference, &mut image.values)?;
                continue;
            }
            let mut values = self.device.alloc::<f32>(grid.len())?;
            self.device.copy(reference, &mut values)?;
            let grid = grid.clone();
            self.at_scale.push(DeviceImage { grid, values, outside: 0.0, open: false });
        }
        Ok(())
    }

    /// Exchanges what voxels of the grid of the scale at hand count, after the flow.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn set_weights(&mut self, weights: Option<&D::Buffer<f32>>) -> Result<()> {
        self.weights = match weights {
            Some(weights) => {
                let mut copy = self.device.alloc::<f32>(weights.len())?;
                self.device.copy(weights, &mut copy)?;
                Some(copy)
            }
            None => None,
        };
        Ok(())
    }

    /// The displacement of `φ₁₀` at the scale at hand, voxels of its grid.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn displacement(&self) -> Result<D::Buffer<f32>> {
        self.flow(false)
    }

    /// The sizes of the grid at the scale at hand.
    #[must_use]
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The moving images at the scale at hand.
    #[must_use]
    pub fn moved(&self) -> &[Moved<D>] {
        &self.moved
    }

    /// How velocities and images are kept.
    #[must_use]
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// A step of time: forward or backward along a velocity.
    fn step(&self, sign: f64) -> Step<'static, D> {
        let scale = self.spacing.map(|h| sign / (h * self.time_steps as f64));
        Step { scale, limit: None }
    }

    /// The displacements of `φ₁₀`, which carries fixed points to the moving image, and of its inverse
    /// `φ₀₁`, voxels of the full grid.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn into_fields(mut self) -> Result<(Dims, [D::Buffer<f32>; 2])> {
        self.moved.clear();
        self.at_scale.clear();
        Ok((self.dims, [self.flow(false)?, self.flow(true)?]))
    }

    /// The displacement of `φ₁₀`, or backward of `φ₀₁`, voxels of the grid of the scale.
    fn flow(&self, backward: bool) -> Result<D::Buffer<f32>> {
        let (device, len) = (&self.device, 3 * self.dims.iter().product::<usize>());
        let mut room = self.room(len)?;
        let mut spare = device.alloc::<f32>(len)?;
        let mut field = device.alloc::<f32>(len)?;
        let step = self.step(if backward { 1.0 } else { -1.0 });
        for k in 0..self.time_steps {
            let j = if backward { self.time_steps - 1 - k } else { k };
            let v = self.velocities[j].view(device, &mut room)?;
            device.advance(&field, v, &step, self.dims, &mut spare)?;
            std::mem::swap(&mut field, &mut spare);
        }
        Ok(field)
    }

    /// What a velocity needs to be looked at: nothing, where it is kept in single precision.
    fn room(&self, len: usize) -> Result<D::Buffer<f32>> {
        let len = if self.storage == Storage::Full { 0 } else { len };
        Ok(self.device.alloc(len)?)
    }
}

impl<D: Device> Deformation for Path<D> {
    fn to_scale(&mut self, scale: &Scale) -> Result<()> {
        let device = self.device.clone();
        let target = self.finest * scale.factor as f64;
        self.target = target;
        let grid = coarser(&self.grid, factors_for(&self.grid, target))?;
        self.at_scale.clear();
        self.moved.clear();
        for image in &self.fixed {
            self.at_scale.push(image.at(&device, target)?);
        }
        for image in &self.moving {
            let image = image.at(&device, target)?;
            // The images on the grid are made for all times, and kept by what makes steps.
            self.moved.push(Moved::without_values(&device, image, &grid, &self.affine)?);
        }
        let (from, to) = (self.dims, grid.dims());
        let (old, new) = (self.spacing, relative_spacing(&grid));
        let (before, len) = (from.iter().product::<usize>(), 3 * grid.len());
        let mut velocities = Vec::with_capacity(self.time_steps);
        if from == [0; 3] {
            for _ in 0..self.time_steps {
                velocities.push(Kept::zero(&device, len, self.storage)?);
            }
        } else if from == to {
            velocities = std::mem::take(&mut self.velocities);
        } else {
            let (coarse, fine) = (device.alloc::<f32>(3 * before)?, device.alloc::<f32>(len)?);
            let mut v = self.room(3 * before)?;
            let mut voxels = device.alloc::<f32>(3 * before)?;
            let mut onto = device.alloc::<f32>(len)?;
            for kept in self.velocities.drain(..) {
                let v = kept.view(&device, &mut v)?;
                // Of no displacement at all, an advance is a scaling of each component.
                let step = Step { scale: old.map(|h| 1.0 / h), limit: None };
                device.advance(&coarse, v, &step, from, &mut voxels)?;
                device.resample_field(&voxels, from, &grid_map(from, to), to, &mut onto)?;
                let mut scaled = device.alloc::<f32>(len)?;
                device.advance(&fine, &onto, &Step { scale: new, limit: None }, to, &mut scaled)?;
                let mut kept = match self.storage {
                    Storage::Full => Kept::Single(device.alloc(0)?),
                    _ => Kept::zero(&device, len, self.storage)?,
                };
                kept.set(&device, scaled)?;
                velocities.push(kept);
            }
        }
        self.velocities = velocities;
        self.dims = to;
        self.spacing = new;
        let mask = weights_at(&device, self.mask.as_ref(), target)?;
        let seen = match self.moved.iter().any(|m| m.image.open) {
            true => seen(&device, &self.moved, &self.flow(false)?, to)?,
            false => None,
        };
        self.weights = both(&device, mask, seen)?;
        if let Some(mut mask) = self.moving_mask.take() {
            let (field, weights) = (self.flow(false)?, self.weights.as_ref());
            mask.to_scale(&device, &grid, &self.affine, target, &field, weights)?;
            self.moving_mask = Some(mask);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.dims != self.grid.dims() {
            self.to_scale(&Scale { factor: 1, iterations: 0 })?;
        }
        Ok(())
    }
}

/// Parts of the energy at an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PathEnergy {
    /// `Σ_j ⟨L v_j, v_j⟩ / (N T)`.
    pub path: f64,
    /// `Σ_j √(⟨L v_j, v_j⟩ / N) / T`: the length of the path.
    pub length: f64,
    /// The similarity `S`.
    pub similarity: f64,
}

/// Buffers of an iteration at a scale.
struct Work<D: Device> {
    solver: Box<dyn Solver<D>>,
    operator: ElasticOperator,
    velocity: D::Buffer<f32>,
    field: D::Buffer<f32>,
    spare: D::Buffer<f32>,
    force: D::Buffer<f32>,
    solution: D::Buffer<f32>,
    slopes: Vec<D::Buffer<f32>>,
    moved_slope: D::Buffer<f32>,
    jacobian: D::Buffer<f32>,
    norms: D::Buffer<f64>,
    /// Images of times within a segment, a channel after the other.
    images: Vec<Vec<D::Buffer<f32>>>,
    /// Displacements at the beginning of segments.
    checkpoints: Vec<D::Buffer<f32>>,
}

/// What descent keeps of a path from one step to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// The factor of the gradient; none before it is set by the first gradient of a scale.
    pub rate: Option<f64>,
    /// The energy before the last step.
    pub last_energy: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate: None, last_energy: f64::INFINITY }
    }
}

/// One step of gradient descent in all velocities.
pub struct Lddmm<D: Device> {
    options: DeformOptions,
    metrics: Vec<ChannelSimilarity>,
    work: Option<Work<D>>,
    pace: Pace,
    history: Vec<PathEnergy>,
    residual: Option<f64>,
}

impl<D: Device> Lddmm<D> {
    /// With a metric for each channel.
    #[must_use]
    pub fn new(options: DeformOptions, metrics: Vec<ChannelSimilarity>) -> Self {
        Self {
            options,
            metrics,
            work: None,
            pace: Pace::default(),
            history: Vec::new(),
            residual: None,
        }
    }

    /// Makes one step of one of several paths on grids of one size, of which `pace` is the one at hand.
    /// The solver has no solution to start from. The energy before the step.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn step(&mut self, path: &mut Path<D>, pace: &mut Pace) -> Result<f64> {
        std::mem::swap(&mut self.pace, pace);
        if let Some(work) = &mut self.work {
            work.solver.restart();
            path.device.eval_in_place(&(x(0) * param(0)), &mut work.solution, &[], &[0.0], None)?;
        }
        let energy = self.iterate(path);
        std::mem::swap(&mut self.pace, pace);
        self.history.clear();
        energy
    }

    /// The parts of the energy before every iteration so far, over all scales.
    #[must_use]
    pub fn history(&self) -> &[PathEnergy] {
        &self.history
    }
}

impl<D: Device> Work<D> {
    /// Goes from time `from` to time `to` with `field` as the displacement of `φ_{from,0}`; keeps
    /// the images of the times after `from`.
    fn forward(&mut self, path: &Path<D>, from: usize, to: usize) -> Result<()> {
        let device = path.device.clone();
        for j in from..to {
            let velocity = path.velocities[j].view(&device, &mut self.velocity)?;
            let step = path.step(-1.0);
            device.advance(&self.field, velocity, &step, path.dims, &mut self.spare)?;
            std::mem::swap(&mut self.field, &mut self.spare);
            for (c, moved) in path.moved.iter().enumerate() {
                moved.warp_to(&device, &self.field, path.dims, &mut self.images[c][j - from])?;
            }
        }
        Ok(())
    }
}

impl<D: Device> Iteration<Path<D>> for Lddmm<D> {
    fn to_scale(&mut self, path: &Path<D>, _: &Scale) -> Result<()> {
        self.work = None;
        self.pace = Pace::default();
        let (device, dims) = (&path.device, path.dims);
        let n = dims.iter().product::<usize>();
        let every = match path.storage {
            Storage::Checkpoints => {
                checkpoint_distance(path.time_steps as u64, self.metrics.len() as u64) as usize
            }
            _ => path.time_steps,
        };
        let images = |_| (0..every).map(|_| Ok(device.alloc(n)?)).collect::<Result<Vec<_>>>();
        let segments = path.time_steps.div_ceil(every);
        let vectors = || device.alloc::<f32>(3 * n);
        self.work = Some(Work {
            solver: solver::build(device, dims, path.spacing, &self.options.solver)?,
            operator: self.options.solver.operator(path.spacing),
            velocity: path.room(3 * n)?,
            field: vectors()?,
            spare: vectors()?,
            force: vectors()?,
            solution: vectors()?,
            slopes: self.metrics.iter().map(|_| Ok(device.alloc(n)?)).collect::<Result<_>>()?,
            moved_slope: device.alloc(n)?,
            jacobian: device.alloc(n)?,
            norms: device.alloc(3)?,
            images: (0..self.metrics.len()).map(images).collect::<Result<_>>()?,
            checkpoints: (1..segments).map(|_| Ok(vectors()?)).collect::<Result<_>>()?,
        });
        Ok(())
    }

    fn iterate(&mut self, path: &mut Path<D>) -> Result<f64> {
        let Some(work) = &mut self.work else { return Ok(f64::NAN) };
        let device = path.device.clone();
        let (dims, steps) = (path.dims, path.time_steps);
        let n = dims.iter().product::<usize>() as f64;
        let every = work.images.first().map_or(1, Vec::len).max(1);
        let segments = steps.div_ceil(every);

        // Forward in time.
        let mut energy = PathEnergy { path: 0.0, length: 0.0, similarity: 0.0 };
        device.eval_in_place(&(x(0) * param(0)), &mut work.field, &[], &[0.0], None)?;
        for s in 0..segments {
            if s > 0 {
                device.copy(&work.field, &mut work.checkpoints[s - 1])?;
            }
            work.forward(path, s * every, steps.min((s + 1) * every))?;
        }
        for j in 0..steps {
            let velocity = path.velocities[j].view(&device, &mut work.velocity)?;
            device.elastic_product(&work.operator, velocity, dims, &mut work.spare)?;
            let norm = device.reduce(&[velocity, &work.spare], &[Reduction::Dot(0, 1)])?[0] / n;
            energy.path += norm / steps as f64;
            energy.length += norm.max(0.0).sqrt() / steps as f64;
        }
        let weights = match &path.moving_mask {
            Some(mask) => &mask.weights(&device, &work.field, dims, path.weights.as_ref())?,
            None => &path.weights,
        };
        for (c, metric) in self.metrics.iter().enumerate() {
            // The last segment ends with the image that all of the flow has moved.
            let moved = &work.images[c][(steps - 1) % every];
            let (reference, weights) = (&path.at_scale[c].values, weights.as_ref());
            let images = Images { reference, moved, weights, dims, reference_moves: false };
            energy.similarity += metric.start(&device, images, &mut work.slopes[c])?.wait()?;
        }
        let weight = 1.0 / (self.options.sigma * self.options.sigma);
        let total = energy.path + weight * energy.similarity;
        self.history.push(energy);
        // Longer steps while they pay, shorter ones where they led uphill.
        let change = if total > self.pace.last_energy { 0.5 } else { 1.1 };
        self.pace.rate = self.pace.rate.map(|r| (change * r).min(0.5));
        self.pace.last_energy = total;

        // Backward in time, where velocities change behind the flow.
        device.eval_in_place(&(x(0) * param(0)), &mut work.field, &[], &[0.0], None)?;
        for s in (0..segments).rev() {
            let (first, last) = (s * every, steps.min((s + 1) * every));
            if segments > 1 {
                // The images of this segment once more; `force` holds the flow meanwhile.
                device.copy(&work.field, &mut work.force)?;
                if s == 0 {
                    let zero = &mut work.field;
                    device.eval_in_place(&(x(0) * param(0)), zero, &[], &[0.0], None)?;
                } else {
                    device.copy(&work.checkpoints[s - 1], &mut work.field)?;
                }
                work.forward(path, first, last)?;
                device.copy(&work.force, &mut work.field)?;
            }
            for j in (first..last).rev() {
                let velocity = path.velocities[j].view(&device, &mut work.velocity)?;
                device.jacobian_determinant(&work.field, dims, &mut work.jacobian)?;
                for c in 0..self.metrics.len() {
                    device.warp_field(
                        &work.slopes[c],
                        dims,
                        &IDENTITY,
                        &work.field,
                        dims,
                        Interpolation::Linear,
                        0.0,
                        &mut work.moved_slope,
                    )?;
                    let (slope, jacobian) = (&mut work.moved_slope, &work.jacobian);
                    device.eval_in_place(&(x(0) * x(1)), slope, &[jacobian], &[], None)?;
                    let (image, force) = (&work.images[c][j - first], &mut work.force);
                    device.force(&work.moved_slope, image, dims, path.spacing, c > 0, force)?;
                }
                work.solver.solve(&work.force, &mut work.solution)?;
                // gradient = 2 v − (N / σ²) u
                let factor = (n * weight) as f32;
                let rate = match self.pace.rate {
                    Some(rate) => rate,
                    None => {
                        // The first gradient of the scale sets the rate: its largest step is given.
                        let gradient = x(0) * 2.0 - x(1) * param(0);
                        let inputs = [velocity, &work.solution];
                        device.eval(&gradient, &inputs, &[factor], None, &mut work.spare)?;
                        device.field_norms(&work.spare, [1.0; 3], &mut work.norms)?;
                        let largest = device.download(&work.norms)?[0];
                        let rate = if largest > 0.0 { self.options.step / largest } else { 0.0 };
                        // More than half would turn the velocity around.
                        let rate = rate.min(0.5);
                        self.pace.rate = Some(rate);
                        rate
                    }
                };
                let step = path.step(1.0);
                device.advance(&work.field, velocity, &step, dims, &mut work.spare)?;
                std::mem::swap(&mut work.field, &mut work.spare);
                let update = x(0) - (x(0) * 2.0 - x(1) * param(0)) * param(1);
                let (room, solution) = (&mut work.velocity, &work.solution);
                path.velocities[j].change(&device, room, |v| {
                    let by = [factor, rate as f32];
                    Ok(device.eval_in_place(&update, v, &[solution], &by, None)?)
                })?;
            }
        }
        Ok(total)
    }

    fn end_scale(&mut self, _: &mut Path<D>) -> Result<Option<f64>> {
        if let Some(work) = &mut self.work {
            self.residual = work.solver.residual(&work.force, &work.solution)?;
        }
        Ok(self.residual)
    }
}

#[cfg(test)]
mod tests;
