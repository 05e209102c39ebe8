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
    /// Largest displacement of an iteration, voxels at the current scale
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
    /// scale; 0 for none. It makes the deformation elastic instead of fluid
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

/// The state of the sides, whose count comes first, followed by that of points.
///
/// # Errors
/// What failed on the device.
pub(super) fn numbers<'k, D: Device + 'k>(
    kept: impl Iterator<Item = &'k Kept<D>>,
    points: &mut PointState<D>,
) -> Result<Vec<f64>> {
    let kept: Vec<f64> = kept.flat_map(|k| [k.step, k.last_energy]).collect();
    Ok([vec![kept.len() as f64], kept, points.numbers()?].concat())
}

/// What these [numbers] are of, with room for buffers.
///
/// # Errors
/// Memory that runs out.
pub(super) fn set_numbers<'k, D: Device + 'k>(
    device: &D,
    dims: Dims,
    numbers: &[f64],
    sides: impl IntoIterator<Item = &'k mut Option<Kept<D>>>,
    points: &mut PointState<D>,
) -> Result<()> {
    let (count, rest) = numbers.split_first().map_or((0, numbers), |(n, rest)| (*n as usize, rest));
    let (kept, of_points) = rest.split_at(count.min(rest.len()));
    *points = PointState::from_numbers(device, of_points)?;
    let mut pairs = kept.chunks_exact(2);
    for side in sides {
        *side = match pairs.next() {
            Some(&[step, last_energy]) => {
                let velocity = device.alloc(3 * dims.iter().product::<usize>())?;
                Some(Kept { velocity, step, last_energy })
            }
            _ => None,
        };
    }
    Ok(())
}

/// Whether such a step needs what the last one of the same subject left.
pub(super) fn has_memory(flow: &Flow, solver: &SolverKind) -> bool {
    solver.starts_from_last() || flow.step_rule == StepRule::Adaptive
}

/// The step of points as a fraction of the largest step where images act as well: less than all of it, so that the
/// largest velocity, which sets the step, stays that of the images, except where both act at one place.
const BESIDE: f64 = 0.5;

/// The factor of the largest step that points alone may make, where several act at one place.
const TOGETHER: f64 = 2.0;

/// Moves displacements along the velocities that solvers make of [`Forces`], on one side or on both.
pub(super) struct Mover<D: Device> {
    forces: Forces<D>,
    sides: Vec<Stepper<D>>,
    /// The length of the next step as a fraction of the usual one. The variance of the Gaussian that smooths the total displacement is
    /// in proportion to it.
    pub(super) fraction: f64,
}

/// Makes a velocity of the force on one side, and steps along it.
struct Stepper<D: Device> {
    solver: Box<dyn Solver<D>>,
    velocity: D::Buffer<f32>,
    /// Where a displacement is moved to; none where the force makes room.
    spare: Option<D::Buffer<f32>>,
    norms: D::Buffer<f64>,
    /// The step of the next advance, smallest voxels.
    step: f64,
    /// Whether the current velocity is that of points alone, a unit of which is a voxel.
    of_points: bool,
    last_energy: f64,
}

impl<D: Device> Mover<D> {
    /// For some sides on a grid, with the largest step of the first advance, smallest voxels. Forces outlive a step, and
    /// the [residual](Self::residual) is known after it, where there is room for that.
    ///
    /// # Errors
    /// Constants that cannot be, memory that runs out.
    pub(super) fn new(
        device: &D,
        grid: &Grid,
        solver: &SolverKind,
        step: f64,
        (sides, keeps_force): (usize, bool),
    ) -> Result<Self> {
        let forces = Forces::new(device, grid, sides)?;
        let stepper = |_| {
            Ok(Stepper {
                solver: solver.build(device, forces.dims, forces.spacing)?,
                velocity: device.alloc(3 * grid.len())?,
                spare: if keeps_force { Some(device.alloc(3 * grid.len())?) } else { None },
                norms: device.alloc(3)?,
                step,
                of_points: false,
                last_energy: f64::INFINITY,
            })
        };
        let sides = (0..sides).map(stepper).collect::<Result<_>>()?;
        Ok(Self { forces, sides, fraction: 1.0 })
    }

    /// Finds the velocities that what pulls asks for, of `images` on the grid and of points, which go the `ways` from each
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
            let norms = self.sides.iter().map(|side| device.arriving(&side.norms));
            points.last = norms.map(|n| Ok(Largest::Arriving(n?))).collect::<Result<_>>()?;
        }
        Ok(energies)
    }

    /// Determines how far forces at points reach.
    fn reach(&mut self, device: &D, points: &mut PointState<D>, stiff: &[Vec<f32>]) -> Result<()> {
        let Forces { dims, smallest, sides: forces, .. } = &mut self.forces;
        let (Some(side), Some(force)) = (self.sides.first_mut(), forces.first_mut()) else {
            return Ok(());
        };
        let Stepper { solver, velocity, .. } = side;
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

    /// How the forces of points are held back on each side: where images pull, to the pace of these.
    fn bounds(
        &mut self,
        device: &D,
        share: f64,
        has_images: bool,
        points: &mut PointState<D>,
    ) -> Result<Vec<Bounds>> {
        let mut last: Vec<f64> = Vec::new();
        if has_images && points.last.is_empty() {
            self.solve(device)?;
            for side in &self.sides {
                last.push(device.download(&side.norms)?.first().copied().unwrap_or_default());
            }
        }
        for largest in points.last.drain(..) {
            last.push(largest.wait()?);
        }
        let stiffness = self.sides.len() as f64 / points.trust.factor();
        let factors = by_smallest(self.forces.dims, self.forces.spacing, 1.0);
        let fraction = self.fraction;
        let bounds = |(s, side): (usize, &mut Stepper<D>)| {
            let step = fraction * side.step;
            let pace = last.get(s).filter(|l| has_images && **l > 0.0).map(|l| step / l);
            side.of_points = pace.is_none();
            let step = step * if side.of_points { 1.0 } else { BESIDE };
            Bounds { factors, step, pace, share, stiffness }
        };
        Ok(self.sides.iter_mut().enumerate().map(bounds).collect())
    }

    /// The velocities of the current forces, and their norms.
    fn solve(&mut self, device: &D) -> Result<()> {
        for (side, force) in self.sides.iter_mut().zip(&self.forces.sides) {
            side.solver.solve(force, &mut side.velocity)?;
            device.field_norms(&side.velocity, [1.0; 3], &mut side.norms)?;
        }
        Ok(())
    }

    /// Moves the displacement of each side along its last velocity, `φ ← φ ∘ (id + s v)`, and smooths it where that is asked
    /// for.
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
        let total_sigma = total_sigma * fraction.sqrt();
        let Forces { dims, spacing, sides: forces, .. } = &mut self.forces;
        for ((side, force), field) in self.sides.iter_mut().zip(forces).zip(fields) {
            // Against the force, in voxels along each axis.
            let (step, most) = match side.of_points {
                false => (fraction * side.step, f64::INFINITY),
                true => (fraction * TOGETHER * side.step, 1.0),
            };
            let limit = Limit { largest: &side.norms, index: 0, step, most };
            let step = Step { scale: spacing.map(|h| -1.0 / h), limit: Some(limit) };
            let spare = side.spare.as_mut().unwrap_or(force);
            device.advance(field, &side.velocity, &step, *dims, spare)?;
            smooth_into(device, spare, *dims, total_sigma, field)?;
        }
        Ok(())
    }

    /// Exchanges the state of each side between steps of a registration: the velocity, from which solvers start,
    /// and the step. `None` means a registration that begins: a new velocity is made then.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn exchange<'k>(
        &mut self,
        device: &D,
        others: impl IntoIterator<Item = &'k mut Option<Kept<D>>>,
        first: f64,
    ) -> Result<()>
    where
        D: 'k,
    {
        for (side, other) in self.sides.iter_mut().zip(others) {
            match other {
                Some(kept) => {
                    std::mem::swap(&mut side.velocity, &mut kept.velocity);
                    std::mem::swap(&mut side.step, &mut kept.step);
                    std::mem::swap(&mut side.last_energy, &mut kept.last_energy);
                    side.solver.start_from_last();
                }
                None => {
                    let velocity = device.alloc(side.velocity.len())?;
                    let velocity = std::mem::replace(&mut side.velocity, velocity);
                    let (step, last_energy) = (side.step, side.last_energy);
                    *other = Some(Kept { velocity, step, last_energy });
                    (side.step, side.last_energy) = (first, f64::INFINITY);
                    side.solver.restart();
                }
            }
        }
        Ok(())
    }

    /// Adapts the step of the sides of a subject to the current energy, which is known then.
    ///
    /// # Errors
    /// What failed on the device.
    pub(super) fn adapt(&mut self, energies: PendingEnergies) -> Result<PendingEnergies> {
        let (energies, total) = energies.known()?;
        for side in &mut self.sides {
            if total > side.last_energy {
                side.step *= 0.5;
            }
            side.last_energy = total;
        }
        Ok(energies)
    }

    /// The largest relative residual of the last solutions.
    ///
    /// # Errors
    /// What fails on the device.
    pub(super) fn residual(&mut self) -> Result<Option<f64>> {
        let mut largest: Option<f64> = None;
        for (side, force) in self.sides.iter_mut().zip(&self.forces.sides) {
            if let Some(residual) = side.solver.residual(force, &side.velocity)? {
                largest = Some(largest.map_or(residual, |l| l.max(residual)));
            }
        }
        Ok(largest)
    }
}
