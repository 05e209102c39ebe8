//! One update of a displacement field: from forces to a velocity, and a step along it.

use super::forces::Forces;
use super::held::{Largest, PointState, Way};
use super::points::{by_smallest, reaches};
use super::pull::Sources;
use super::solver::{Solver, SolverKind};
use crate::error::Result;
use crate::similarity::{Images, PendingEnergies};
use voxalign_compute::ops::filter::GaussianMethod;
use voxalign_compute::ops::flow::{Limit, Step};
use voxalign_compute::ops::points::Bounds;
use voxalign_compute::{Device, DeviceBuffer, Dims};
use voxalign_image::Grid;
use voxalign_options::{Choice, Parameters};

/// How steps are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Choice)]
pub enum StepRule {
    /// The largest displacement of each iteration equals the step.
    #[default]
    Largest,
    /// As largest, but halved when the energy rises.
    Adaptive,
}

/// The steps of models in which displacements flow.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Flow {
    /// Largest displacement of an iteration, voxels at the current scale; where both images move, of each of them
    #[parameter(
        default = 0.5,
        unit = "VOX",
        above = 0.0,
        most = 2.0,
        what = "number of voxels",
        heading = "Schedule"
    )]
    pub step: f64,
    /// How the step is controlled
    #[parameter(default = StepRule::Largest, heading = "Schedule")]
    pub step_rule: StepRule,
    /// Standard deviation of the Gaussian that smooths the total displacement after each iteration, voxels at the current
    /// scale, and where both images of a pair move 1.2 times that of each of them; 0 for none. It makes the deformation elastic instead of fluid
    #[parameter(
        default = 0.7,
        unit = "VOX",
        least = 0.0,
        most = 20.0,
        remedy = "give a number of voxels from 0 (none) to 20",
        says = "0.7; for anatomies of shapes alone 0",
        heading = "Smoothness"
    )]
    pub total_sigma: f64,
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

/// The state that a [`Mover`] keeps for a registration while it serves another one.
pub(super) struct Kept<D: Device> {
    /// The last velocity.
    pub(super) velocity: D::Buffer<f32>,
    /// The step of the next advance, smallest voxels.
    pub(super) step: f64,
    /// The energy of the last step.
    pub(super) last_energy: f64,
}

/// The state of a registration, whose length comes first, followed by that of points.
///
/// # Errors
/// What failed on the device.
pub(super) fn numbers<D: Device>(
    kept: Option<&Kept<D>>,
    points: &mut PointState<D>,
) -> Result<Vec<f64>> {
    let kept: Vec<f64> = kept.map_or(Vec::new(), |k| vec![k.step, k.last_energy]);
    Ok([vec![kept.len() as f64], kept, points.numbers()?].concat())
}

/// What these [numbers] are of, with room for buffers.
///
/// # Errors
/// Memory that runs out.
pub(super) fn set_numbers<D: Device>(
    device: &D,
    dims: Dims,
    numbers: &[f64],
    kept: &mut Option<Kept<D>>,
    points: &mut PointState<D>,
) -> Result<()> {
    let (count, rest) = numbers.split_first().map_or((0, numbers), |(n, rest)| (*n as usize, rest));
    let (of_kept, of_points) = rest.split_at(count.min(rest.len()));
    *points = PointState::from_numbers(device, of_points)?;
    *kept = match of_kept {
        &[step, last_energy] => {
            let velocity = device.alloc(3 * dims.iter().product::<usize>())?;
            Some(Kept { velocity, step, last_energy })
        }
        _ => None,
    };
    Ok(())
}

/// Whether such a step needs what the last one of the same subject left.
pub(super) fn has_memory(flow: &Flow, solver: &SolverKind) -> bool {
    solver.starts_from_last() || flow.step_rule == StepRule::Adaptive
}

/// The step of points, that of both images of a pair together, as a fraction of the largest step where images act as well: less than all of it, so that the
/// largest velocity, which sets the step, stays that of the images, except where both act at one place.
const BESIDE: f64 = 0.5;

/// The factor of the standard deviation by which each of the two displacements of a pair is smoothed. With 1 each is as smooth as a single one; with the root of 2 their
/// difference is, which changes twice as much in a step. Between these noise leads less astray, and hardly any detail is lost.
const BOTH: f64 = 1.2;

/// The factor of the largest step that points alone may make, where several act at one place.
const TOGETHER: f64 = 2.0;

/// Moves displacements along the velocity that a solver makes of [`Forces`]: of two sides the one along it and the other against it, as
/// what pulls the one pushes the other where the images nearly agree. Two velocities would let both sides go the same way as well, which brings
/// nothing together.
pub(super) struct Mover<D: Device> {
    forces: Forces<D>,
    solver: Box<dyn Solver<D>>,
    /// Whether both images of a pair move. Both sides of one of several subjects move as one side does.
    both: bool,
    velocity: D::Buffer<f32>,
    /// Where a displacement is moved to; none where the force makes room.
    spare: Option<D::Buffer<f32>>,
    norms: D::Buffer<f64>,
    /// The step of the next advance, smallest voxels.
    step: f64,
    /// The length of the next step as a fraction of the usual one. The variance of the Gaussian that smooths the total displacement is
    /// in proportion to it.
    pub(super) fraction: f64,
    /// Whether the current velocity is that of points alone, a unit of which is a voxel.
    of_points: bool,
    last_energy: f64,
}

impl<D: Device> Mover<D> {
    /// For some sides of an only subject, or of one of several, on a grid, with the largest step of the first advance, smallest voxels. Forces of
    /// an only subject outlive a step, and the [residual](Self::residual) is known after it.
    ///
    /// # Errors
    /// Constants that cannot be, memory that runs out.
    pub(super) fn new(
        device: &D,
        grid: &Grid,
        solver: &SolverKind,
        step: f64,
        (sides, alone): (usize, bool),
    ) -> Result<Self> {
        let forces = Forces::new(device, grid, sides)?;
        Ok(Self {
            solver: solver.build(device, forces.dims, forces.spacing)?,
            velocity: device.alloc(3 * grid.len())?,
            spare: if alone { Some(device.alloc(3 * grid.len())?) } else { None },
            norms: device.alloc(3)?,
            step,
            fraction: 1.0,
            of_points: false,
            last_energy: f64::INFINITY,
            both: sides == 2 && alone,
            forces,
        })
    }

    /// Finds the velocity that what pulls asks for, of `images` on the grid and of points, which go the `ways` from each
    /// side to the other. One side is the moving one. The energies are waited for by themselves: the device has work
    /// meanwhile.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn start(
        &mut self,
        device: &D,
        sources: &mut Sources<'_, D>,
        images: &[Images<'_, D>],
        ways: &[Way<'_, D>],
        points: &mut PointState<D>,
    ) -> Result<PendingEnergies> {
        let stiffness = points.hold(device, sources, ways, self.forces.dims)?;
        if !stiffness.is_empty() {
            self.reach(device, points, &stiffness)?;
        }
        let energies = self.forces.pull(device, sources, images, ways, points)?;
        if !points.held.is_empty() {
            let bounds = self.bounds(device, sources.share, energies.has_images, points)?;
            self.forces.push_points(device, ways, points, &bounds)?;
        }
        self.solve(device)?;
        if !points.held.is_empty() {
            points.last = Some(Largest::Arriving(device.arriving(&self.norms)?));
        }
        Ok(energies)
    }

    /// Determines how far forces at points reach.
    fn reach(&mut self, device: &D, points: &mut PointState<D>, stiff: &[Vec<f32>]) -> Result<()> {
        let Self { forces, solver, velocity, .. } = self;
        let Forces { dims, smallest, sum: force, .. } = forces;
        let held = points.held.iter_mut().flatten();
        let points = held.zip(stiff.iter().map(Vec::as_slice)).collect();
        reaches(device, *dims, *smallest, points, [force, velocity], |force, velocity| {
            solver.restart();
            solver.solve(force, velocity)?;
            Ok(())
        })?;
        solver.restart();
        Ok(())
    }

    /// How the forces of points are held back: where images pull, to the pace of these.
    fn bounds(
        &mut self,
        device: &D,
        share: f64,
        has_images: bool,
        points: &mut PointState<D>,
    ) -> Result<Bounds> {
        let last = match points.last.take() {
            Some(largest) => Some(largest.wait()?),
            None if has_images => {
                // Of the images alone, so far.
                self.solve(device)?;
                device.download(&self.norms)?.first().copied()
            }
            None => None,
        };
        let stiffness = self.forces.sides as f64 / points.trust.factor();
        let factors = by_smallest(self.forces.dims, self.forces.spacing, 1.0);
        let step = self.fraction * self.step;
        let pace = last.filter(|l| has_images && *l > 0.0).map(|l| step / l);
        self.of_points = pace.is_none();
        let beside = if self.both { 0.5 * BESIDE } else { BESIDE };
        let step = step * if self.of_points { 1.0 } else { beside };
        Ok(Bounds { factors, step, pace, share, stiffness })
    }

    /// The velocity of the current force, and its norms.
    fn solve(&mut self, device: &D) -> Result<()> {
        self.solver.solve(&self.forces.sum, &mut self.velocity)?;
        Ok(device.field_norms(&self.velocity, [1.0; 3], &mut self.norms)?)
    }

    /// Moves the displacement of the first side along the last velocity, `φ ← φ ∘ (id + s v)`, and that of the second against it, and smooths them where
    /// that is asked for.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn carry<'f>(
        &mut self,
        device: &D,
        fields: impl IntoIterator<Item = &'f mut D::Buffer<f32>>,
        total_sigma: f64,
    ) -> Result<()>
    where
        D: 'f,
    {
        let fraction = self.fraction;
        let of_sides = if self.both { BOTH } else { 1.0 };
        let total_sigma = total_sigma * of_sides * fraction.sqrt();
        // In voxels along each axis.
        let (step, most) = match self.of_points {
            false => (fraction * self.step, f64::INFINITY),
            true => (fraction * TOGETHER * self.step, 1.0),
        };
        let Forces { dims, spacing, sum, .. } = &mut self.forces;
        let spare = self.spare.as_mut().unwrap_or(sum);
        // The first side goes against the force.
        for (field, sign) in fields.into_iter().zip([-1.0, 1.0]) {
            let limit = Limit { largest: &self.norms, index: 0, step, most };
            let step = Step { scale: spacing.map(|h| sign / h), limit: Some(limit) };
            device.advance(field, &self.velocity, &step, *dims, spare)?;
            smooth_into(device, spare, *dims, total_sigma, field)?;
        }
        Ok(())
    }

    /// Exchanges the state between steps of a registration: the velocity, from which solvers start,
    /// and the step. `None` means a registration that begins: a new velocity is made then.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn exchange(
        &mut self,
        device: &D,
        other: &mut Option<Kept<D>>,
        first: f64,
    ) -> Result<()> {
        match other {
            Some(kept) => {
                std::mem::swap(&mut self.velocity, &mut kept.velocity);
                std::mem::swap(&mut self.step, &mut kept.step);
                std::mem::swap(&mut self.last_energy, &mut kept.last_energy);
                self.solver.start_from_last();
            }
            None => {
                let velocity = device.alloc(self.velocity.len())?;
                let velocity = std::mem::replace(&mut self.velocity, velocity);
                let (step, last_energy) = (self.step, self.last_energy);
                *other = Some(Kept { velocity, step, last_energy });
                (self.step, self.last_energy) = (first, f64::INFINITY);
                self.solver.restart();
            }
        }
        Ok(())
    }

    /// Adapts the step of a subject to the current energy, which is known then.
    ///
    /// # Errors
    /// What failed on the device.
    pub(super) fn adapt(&mut self, energies: PendingEnergies) -> Result<PendingEnergies> {
        let (energies, total) = energies.known()?;
        if total > self.last_energy {
            self.step *= 0.5;
        }
        self.last_energy = total;
        Ok(energies)
    }

    /// The relative residual of the last solution.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn residual(&mut self) -> Result<Option<f64>> {
        self.solver.residual(&self.forces.sum, &self.velocity)
    }
}
