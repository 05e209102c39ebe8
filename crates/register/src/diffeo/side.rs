//! An image that flows, and what moves it.

use super::channel::{ChannelSimilarity, DeviceImage, Moved, seen};
use super::options::{DeformOptions, StepRule};
use super::solver::{self, Solver};
use crate::error::Result;
use crate::similarity::{Images, PendingEnergy};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::{Limit, Step};
use voxalign_compute::ops::resample::grid_map;
use voxalign_compute::{Device, Dims};
use voxalign_image::{Affine, Grid};

/// Images that flow together, one a channel: the displacement of a grid, and the images under it.
pub struct Side<D: Device> {
    /// The images at full resolution.
    images: Vec<DeviceImage<D>>,
    /// From the world of the grid to that of the images.
    affine: Affine,
    /// The images at the scale, warped onto the grid.
    pub moved: Vec<Moved<D>>,
    /// Sizes of the grid.
    pub dims: Dims,
    /// The displacement, voxels of the grid.
    pub field: D::Buffer<f32>,
    spare: D::Buffer<f32>,
}

impl<D: Device> Side<D> {
    /// Images that `affine` reaches from the world of the grid.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn new(device: &D, images: Vec<DeviceImage<D>>, affine: Affine) -> Result<Self> {
        let (field, spare) = (device.alloc(0)?, device.alloc(0)?);
        Ok(Self { images, affine, moved: Vec::new(), dims: [0; 3], field, spare })
    }

    /// From the world of the grid to that of the images.
    #[must_use]
    pub fn affine(&self) -> &Affine {
        &self.affine
    }

    /// Exchanges the images for the next scale; without any it keeps those of the scale at hand.
    pub fn set_images(&mut self, images: Vec<DeviceImage<D>>) {
        self.images = images;
    }

    /// Brings images and displacement to a grid whose voxels are about `target` mm long; the first
    /// time the displacement is zero. Gives what all images [show](seen) of the grid.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn to_grid(
        &mut self,
        device: &D,
        grid: &Grid,
        target: f64,
    ) -> Result<Option<D::Buffer<f32>>> {
        self.moved.clear();
        for image in &self.images {
            let image = image.at(device, target)?;
            self.moved.push(Moved::new(device, image, grid, &self.affine)?);
        }
        let (from, to) = (self.dims, grid.dims());
        self.spare = device.alloc(0)?;
        let mut field = device.alloc::<f32>(3 * grid.len())?;
        if from != [0; 3] {
            device.resample_field(&self.field, from, &grid_map(from, to), to, &mut field)?;
        }
        let shown = seen(device, &self.moved, &field, to)?;
        self.field = field;
        self.spare = device.alloc::<f32>(3 * grid.len())?;
        self.dims = to;
        Ok(shown)
    }

    /// Lets go what every step fills anew.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn clear_scratch(&mut self, device: &D) -> Result<()> {
        self.spare = device.alloc(0)?;
        self.moved.iter_mut().try_for_each(|m| {
            m.values = device.alloc(0)?;
            Ok(())
        })
    }

    /// Makes room for what [`clear_scratch`](Self::clear_scratch) let go.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn make_scratch(&mut self, device: &D) -> Result<()> {
        let n = self.dims.iter().product::<usize>();
        self.spare = device.alloc(3 * n)?;
        self.moved.iter_mut().try_for_each(|m| {
            m.values = device.alloc(n)?;
            Ok(())
        })
    }

    /// Warps the images from where they are, with one interpolation.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn warp(&mut self, device: &D) -> Result<()> {
        self.moved.iter_mut().try_for_each(|m| m.warp(device, &self.field, self.dims))
    }

    /// `φ ← φ ∘ (id + s v)`, and smooths the displacement where that is asked for.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn advance(
        &mut self,
        device: &D,
        velocity: &D::Buffer<f32>,
        step: &Step<'_, D>,
        total_sigma: f64,
    ) -> Result<()> {
        device.advance(&self.field, velocity, step, self.dims, &mut self.spare)?;
        smooth_into(device, &mut self.spare, self.dims, total_sigma, &mut self.field)
    }

    /// The displacement as it is, with the sizes of its grid; the images are let go.
    #[must_use]
    pub fn into_field(self) -> (Dims, D::Buffer<f32>) {
        (self.dims, self.field)
    }
}

/// Smooths a displacement by a Gaussian, or hands it over as it is where the Gaussian has no width.
fn smooth_into<D: Device>(
    device: &D,
    from: &mut D::Buffer<f32>,
    dims: Dims,
    sigma: f64,
    to: &mut D::Buffer<f32>,
) -> Result<()> {
    if sigma > 0.0 {
        Ok(device.gaussian(from, dims, [sigma; 3], GaussianMethod::Narrow, to)?)
    } else {
        std::mem::swap(from, to);
        Ok(())
    }
}

/// What a [`Mover`] keeps for a registration while it serves another one.
pub struct Kept<D: Device> {
    /// The last velocity.
    pub velocity: D::Buffer<f32>,
    /// The step of the next advance, smallest voxels.
    pub step: f64,
    /// The energy of the last step.
    pub last_energy: f64,
}

/// Makes velocities of one side from its similarity to references.
pub struct Mover<D: Device> {
    solver: Box<dyn Solver<D>>,
    /// Spacing of the grid along each axis in units of the smallest.
    spacing: [f64; 3],
    dims: Dims,
    slope: D::Buffer<f32>,
    force: D::Buffer<f32>,
    velocity: D::Buffer<f32>,
    norms: D::Buffer<f64>,
    /// The step of the next advance, smallest voxels.
    step: f64,
    last_energy: f64,
}

impl<D: Device> Mover<D> {
    /// For a grid.
    ///
    /// # Errors
    /// Constants that cannot be, memory that runs out.
    pub fn new(device: &D, grid: &Grid, options: &DeformOptions) -> Result<Self> {
        let dims = grid.dims();
        let used = |a: &usize| dims[*a] > 1;
        let lengths = grid.spacing();
        let smallest = (0..3).filter(used).map(|a| lengths[a]).fold(f64::MAX, f64::min);
        let spacing = lengths.map(|h| if smallest < f64::MAX { h / smallest } else { 1.0 });
        let n = grid.len();
        Ok(Self {
            solver: solver::build(device, dims, spacing, &options.solver)?,
            spacing,
            dims,
            slope: device.alloc(n)?,
            force: device.alloc(3 * n)?,
            velocity: device.alloc(3 * n)?,
            norms: device.alloc(3)?,
            step: options.step,
            last_energy: f64::INFINITY,
        })
    }

    /// Finds the velocity that makes the images of a side more similar to the references; the energy, which
    /// is waited for by itself: the device has work meanwhile.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn start<'a>(
        &mut self,
        device: &D,
        references: impl Iterator<Item = &'a D::Buffer<f32>>,
        moved: impl Iterator<Item = &'a D::Buffer<f32>>,
        metrics: &[ChannelSimilarity],
        weights: Option<&D::Buffer<f32>>,
    ) -> Result<PendingEnergy> {
        let mut energy = PendingEnergy::default();
        for (c, ((reference, moved), metric)) in references.zip(moved).zip(metrics).enumerate() {
            let (dims, reference_moves) = (self.dims, false);
            let images = Images { reference, moved, weights, dims, reference_moves };
            energy.add(metric.start(device, images, &mut self.slope)?);
            self.push(device, moved, c)?;
        }
        self.solve(device)?;
        Ok(energy)
    }

    /// As [`start`](Self::start) for two sides of which each is the other's reference; the mean of their
    /// energies.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn start_both<'a>(
        movers: &mut [Self; 2],
        device: &D,
        moved: [impl Iterator<Item = &'a D::Buffer<f32>>; 2],
        metrics: &[ChannelSimilarity],
        weights: Option<&D::Buffer<f32>>,
    ) -> Result<PendingEnergy> {
        let ([first, second], [first_moved, second_moved]) = (movers, moved);
        let mut energy = PendingEnergy::default();
        let (dims, reference_moves) = (first.dims, true);
        for (c, (pair, metric)) in first_moved.zip(second_moved).zip(metrics).enumerate() {
            let (moved, reference) = pair;
            let images = Images { reference, moved, weights, dims, reference_moves };
            let slopes = [&mut first.slope, &mut second.slope];
            energy.add(metric.start_both(device, images, slopes)?);
            first.push(device, moved, c)?;
            second.push(device, reference, c)?;
        }
        first.solve(device)?;
        second.solve(device)?;
        Ok(energy)
    }

    /// The force of the slope at hand, that of a channel.
    fn push(&mut self, device: &D, moved: &D::Buffer<f32>, channel: usize) -> Result<()> {
        let (spacing, force) = (self.spacing, &mut self.force);
        Ok(device.force(&self.slope, moved, self.dims, spacing, channel > 0, force)?)
    }

    /// The velocity of the force at hand, and its norms.
    fn solve(&mut self, device: &D) -> Result<()> {
        self.solver.solve(&self.force, &mut self.velocity)?;
        Ok(device.field_norms(&self.velocity, [1.0; 3], &mut self.norms)?)
    }

    /// Moves a side along the last velocity.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn advance(
        &mut self,
        device: &D,
        side: &mut Side<D>,
        options: &DeformOptions,
    ) -> Result<()> {
        side.advance(device, &self.velocity, &self.next_step(), options.total_sigma)
    }

    /// As [`advance`](Self::advance), for a displacement by itself. Its second buffer is that of the
    /// force, which is lost.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn carry(
        &mut self,
        device: &D,
        field: &mut D::Buffer<f32>,
        total_sigma: f64,
    ) -> Result<()> {
        let mut spare = std::mem::replace(&mut self.force, device.alloc(0)?);
        let moved = device.advance(field, &self.velocity, &self.next_step(), self.dims, &mut spare);
        if moved.is_ok() {
            smooth_into(device, &mut spare, self.dims, total_sigma, field)?;
        }
        self.force = spare;
        Ok(moved?)
    }

    /// The step along the last velocity: against the force, in voxels along each axis.
    fn next_step(&self) -> Step<'_, D> {
        let limit = Limit { largest: &self.norms, index: 0, step: self.step };
        Step { scale: self.spacing.map(|h| -1.0 / h), limit: Some(limit) }
    }

    /// Exchanges what is kept from one step of a registration to the next: the velocity, from which
    /// solvers start, and the step. None stands for a registration that begins: of the velocity a new
    /// one is made then.
    ///
    /// # Errors
    /// Memory that runs out.
    pub fn exchange(&mut self, device: &D, other: &mut Option<Kept<D>>, first: f64) -> Result<()> {
        match other {
            Some(kept) => {
                std::mem::swap(&mut self.velocity, &mut kept.velocity);
                std::mem::swap(&mut self.step, &mut kept.step);
                std::mem::swap(&mut self.last_energy, &mut kept.last_energy);
                self.solver.start_from_last();
            }
            None => {
                let velocity = device.alloc(3 * self.dims.iter().product::<usize>())?;
                let velocity = std::mem::replace(&mut self.velocity, velocity);
                let (step, last_energy) = (self.step, self.last_energy);
                *other = Some(Kept { velocity, step, last_energy });
                (self.step, self.last_energy) = (first, f64::INFINITY);
                self.solver.restart();
            }
        }
        Ok(())
    }

    /// Adapts the step to the energy at hand.
    pub fn adapt(&mut self, energy: f64, rule: StepRule) {
        if rule == StepRule::Adaptive && energy > self.last_energy {
            self.step *= 0.5;
        }
        self.last_energy = energy;
    }

    /// The relative residual of the last solution.
    ///
    /// # Errors
    /// What fails on the device.
    pub fn residual(&mut self) -> Result<Option<f64>> {
        self.solver.residual(&self.force, &self.velocity)
    }
}
