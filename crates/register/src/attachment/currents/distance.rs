//! The squared distance between two shapes as currents or varifolds, and its derivative in the moving one.
//!
//! An element `i` of a shape is a Dirac mass with the moment `α_i` at its centre `c_i`. Two shapes have the inner
//! product `⟨A, B⟩ = Σ_ij k(c_i, c_j) α_i · β_j`, and the squared distance `|A − B|² = ⟨A, A⟩ − 2 ⟨A, B⟩ + ⟨B, B⟩`
//! (L. K. Ha, 2011, equations 3.7 and 3.8). With `γ(x) = Σ_j k(x, c_j) α_j − Σ_j k(x, c_j) β_j` its derivative is
//! `2 γ(c_i)` in the moment and `2 ∇(γ · α_i)(c_i)` in the centre, and that in a vertex `x_r` of a triangle
//!
//! `Σ_{f ∋ x_r} (∂η(f)/∂x_r)ᵀ 2 γ(c_f) + ⅔ ∇(γ · η_f)(c_f)`.
//!
//! That is equation (3.11) with a factor of two in its first term too: the sums over both indices of (3.7) give it there
//! as well as in the second.

mod elements;
mod sums;

use super::particle_mesh::{MeshGrid, ParticleMesh};
use super::shape::Shape;
use crate::error::{RegisterError, Result};
use crate::similarity::PendingEnergy;
use elements::{Placed, Topology, check_alike, relative};
use std::sync::Arc;
use sums::{check_width, longest, roomy, union};
use voxalign_compute::ops::elementwise::{param, x};
use voxalign_compute::ops::pairwise::RadialKernel;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::simplices::Incidence;
use voxalign_compute::{Arriving, Device, DeviceBuffer};
use voxalign_image::Vector3;

pub use sums::{Summation, Sums, TooLarge, decide, too_large};

/// How near the ends of its room a shape may come, of this room, before a grid is made anew: where it is comes to the host
/// a step late, and it may go on meanwhile.
const AHEAD: f64 = 0.5;

/// Sums for every element of the moving shape.
struct Found<D: Device> {
    by_moment: D::Buffer<f32>,
    by_centre: D::Buffer<f32>,
}

/// A grid with the masses of the fixed shape.
struct OnGrid<D: Device> {
    mesh: ParticleMesh<D>,
    target: D::Buffer<f32>,
    masses: D::Buffer<f32>,
    /// How far a shape may move before it leaves its grid, mm.
    room: f64,
}

/// The distance of a shape that moves from one that stays. Its buffers stay on the device from one step to the next.
pub struct ShapeDistance<D: Device> {
    kernel: RadialKernel,
    sums: Sums,
    shape: Arc<Shape>,
    topology: Option<Topology<D>>,
    /// From where coordinates on the device count, mm.
    origin: Vector3<f64>,
    /// Centres of the moving elements, where these are not its vertices; in voxels after they were put on a grid.
    centres: D::Buffer<f32>,
    points: Option<D::Buffer<f32>>,
    moments: D::Buffer<f32>,
    found: Found<D>,
    /// The contribution of the target, pair by pair.
    by_target: Option<Found<D>>,
    target: Placed<D>,
    /// `⟨B, B⟩`
    norm: f64,
    energies: [D::Buffer<f64>; 2],
    grid: Option<OnGrid<D>>,
    bounds: D::Buffer<f64>,
    /// Where the shape was at the last step.
    last: Option<Arriving>,
    /// The method of the sums at first, and `⟨B, B⟩` then.
    first: (Sums, f64),
    /// Whether the grid is another one than that at first.
    is_other: bool,
}

/// Where a shape is, and what moving it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Distance {
    /// The squared distance; of surfaces in mm⁴, of curves in mm², of points without unit.
    pub squared: f64,
    /// Its derivative in every vertex, by mm.
    pub covectors: Vec<Vector3<f64>>,
}

impl<D: Device> ShapeDistance<D> {
    /// Of a shape that will move from one that stays. Coordinates on the device count from `origin`, mm: single precision
    /// is best near it.
    ///
    /// # Errors
    /// Shapes that are not made of the same; a kernel whose width is not above 0, or too narrow for the grid that is asked
    /// for; memory.
    pub fn new(
        device: &D,
        shape: Arc<Shape>,
        target: Arc<Shape>,
        origin: Vector3<f64>,
        kernel: RadialKernel,
        sums: Sums,
    ) -> Result<Self> {
        check_alike(&shape, &target)?;
        check_width(&kernel)?;
        let (n, components) = (shape.len(), shape.components());
        let topology = Topology::new(device, &shape)?;
        let target = Placed::new(device, &target, &origin)?;
        let moments = match shape.masses() {
            Some(masses) => device.upload(masses)?,
            None => device.alloc(components * n)?,
        };
        let points = if sums.is_exact() { None } else { Some(device.alloc(3 * n)?) };
        let mut distance = Self {
            kernel,
            sums,
            topology,
            origin,
            centres: device.alloc(if shape.masses().is_some() { 0 } else { 3 * n })?,
            points,
            moments,
            found: Found {
                by_moment: device.alloc(components * n)?,
                by_centre: device.alloc(3 * n)?,
            },
            by_target: None,
            target,
            norm: f64::NAN,
            energies: [device.alloc(1)?, device.alloc(1)?],
            grid: None,
            bounds: device.alloc(7)?,
            last: None,
            first: (sums, f64::NAN),
            is_other: false,
            shape,
        };
        match sums {
            Sums::Exact => distance.norm = distance.exact_norm(device)?,
            Sums::Grid { spacing } => {
                let mut grid = distance.first_grid(device, spacing)?;
                let convolved = grid.mesh.convolve(device, &grid.target)?;
                distance.norm = dot(device, &grid.target, convolved)?;
                distance.grid = Some(grid);
            }
        }
        distance.first.1 = distance.norm;
        Ok(distance)
    }

    /// The grid before anything has moved.
    fn first_grid(&self, device: &D, spacing: f64) -> Result<OnGrid<D>> {
        let here = Shape::bounds(self.shape.vertices());
        let here = here.map(|end| [0, 1, 2].map(|a| end[a] - self.origin[a]));
        self.grid_around(device, &here, spacing)
    }

    /// Forgets all steps before, so that the next one has the bits of one of a distance that was just made.
    ///
    /// # Errors
    /// Memory.
    pub fn forget(&mut self, device: &D) -> Result<()> {
        self.last = None;
        if std::mem::take(&mut self.is_other) {
            (self.sums, self.norm) = self.first;
            if let Sums::Grid { spacing } = self.sums {
                self.grid = None;
                self.grid = Some(self.first_grid(device, spacing)?);
            }
        }
        Ok(())
    }

    /// [`decide`]
    ///
    /// # Errors
    /// As there.
    pub fn decide(
        summation: Summation,
        kernel: &RadialKernel,
        shapes: [&Shape; 2],
    ) -> Result<Sums> {
        decide(summation, kernel, shapes)
    }

    /// How sums are made. A shape that goes so far that no grid holds both is summed pair by pair from then on.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// The grid that sums are made on.
    #[must_use]
    pub fn grid(&self) -> Option<&MeshGrid> {
        self.grid.as_ref().map(|g| g.mesh.grid())
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &RadialKernel {
        &self.kernel
    }

    /// The squared norm of the shape that stays, its distance from nothing.
    ///
    /// # Errors
    /// None now: it was found with the shapes.
    pub fn target_norm(&mut self, device: &D) -> Result<f64> {
        let _ = device;
        Ok(self.norm)
    }

    /// The squared distance with the vertices of the moving shape at these places, mm from the origin, times a factor, and to
    /// `covectors` its derivative in every vertex, by mm, times the same. It waits for nothing but, on a grid, for
    /// where the shape was at the step before: so the first step waits for the shape, and one that goes by more
    /// than a tenth of the extent of both within a step, out of its grid, is summed wrongly at that step.
    ///
    /// # Errors
    /// Another number of vertices; on a grid, some that were not finite at the step before; memory.
    pub fn evaluate(
        &mut self,
        device: &D,
        vertices: &D::Buffer<f32>,
        factor: f64,
        covectors: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        let count = self.shape.vertices().len();
        if vertices.len() != 3 * count || covectors.len() != 3 * count {
            return Err(self.wrong(format!("{} vertices", vertices.len() / 3)));
        }
        let mut lost = None;
        if let Sums::Grid { spacing } = self.sums {
            device.point_bounds(vertices, &mut self.bounds)?;
            let (bounds, ahead) = match self.last.take() {
                Some(last) => (last.wait()?, AHEAD),
                None => (device.arriving(&self.bounds)?.wait()?, 0.0),
            };
            self.last = Some(device.arriving(&self.bounds)?);
            self.hold(device, &bounds, ahead, spacing)?;
            if self.topology.is_none() {
                // Points that are no place have no mass on a grid: that must not pass for a small energy.
                let off = PendingEnergy::arriving(device.arriving(&self.bounds)?, 1.0);
                lost = Some(off.times(f64::MAX));
            }
        }
        let mut energy = self.pull(device, vertices, factor, covectors)?;
        lost.into_iter().for_each(|off| energy.add(off));
        Ok(energy)
    }

    /// The squared distance with the vertices at these places, mm, and what moving them changes; waits for both.
    ///
    /// # Errors
    /// Another number of vertices; one that is not finite; memory.
    pub fn evaluate_at(&mut self, device: &D, vertices: &[Vector3<f64>]) -> Result<Distance> {
        let count = self.shape.vertices().len();
        if vertices.len() != count || vertices.iter().any(|v| !v.iter().all(|x| x.is_finite())) {
            return Err(self.wrong(format!("{} vertices", vertices.len())));
        }
        let at = device.upload_vec(relative(vertices, &self.origin)?)?;
        let mut covectors = device.alloc(3 * count)?;
        // Every place is a new one.
        self.last = None;
        let squared = self.evaluate(device, &at, 1.0, &mut covectors)?.wait()?;
        self.last = None;
        let list = device.into_host(covectors)?;
        let covector = |i: usize| Vector3::from_fn(|a, _| f64::from(list[a * count + i]));
        Ok(Distance { squared, covectors: (0..count).map(covector).collect() })
    }

    fn wrong(&self, value: String) -> RegisterError {
        RegisterError::option(
            "shape",
            value,
            format!("give {} finite positions, mm", self.shape.vertices().len()),
        )
    }

    /// Energy and derivative, once there is a grid where one is needed.
    fn pull(
        &mut self,
        device: &D,
        vertices: &D::Buffer<f32>,
        factor: f64,
        covectors: &mut D::Buffer<f32>,
    ) -> Result<PendingEnergy> {
        if let Some(Topology { kind, corners, .. }) = &self.topology {
            let (centres, moments) = (&mut self.centres, &mut self.moments);
            device.measures(*kind, vertices, corners, centres, moments)?;
        }
        let energy = match self.sums {
            Sums::Exact => self.exactly(device, vertices, factor)?,
            Sums::Grid { spacing } => self.on_grid(device, vertices, factor, spacing)?,
        };
        let Found { by_moment, by_centre } = &self.found;
        match &self.topology {
            None => device.copy(by_centre, covectors)?,
            Some(Topology { kind, corners, starts, lists }) => {
                let incidence = Incidence { starts, corners: lists };
                device.measure_covectors(
                    *kind, vertices, corners, &incidence, by_centre, by_moment, covectors,
                )?;
            }
        }
        Ok(energy)
    }

    /// Pair by pair.
    fn exactly(
        &mut self,
        device: &D,
        vertices: &D::Buffer<f32>,
        factor: f64,
    ) -> Result<PendingEnergy> {
        let (n, components) = (self.shape.len(), self.shape.components());
        let at = if self.topology.is_some() { &self.centres } else { vertices };
        let (moments, kernel) = (&self.moments, &self.kernel);
        let Found { by_moment, by_centre } = &mut self.found;
        device
            .pair_sums_with_derivatives(kernel, at, moments, at, moments, by_moment, by_centre)?;
        let by_target = match &mut self.by_target {
            Some(found) => found,
            none => none.insert(Found {
                by_moment: device.alloc(components * n)?,
                by_centre: device.alloc(3 * n)?,
            }),
        };
        let (sums, derivatives) = (&mut by_target.by_moment, &mut by_target.by_centre);
        let (to, masses) = (&self.target.centres, &self.target.moments);
        device.pair_sums_with_derivatives(kernel, at, moments, to, masses, sums, derivatives)?;
        let [own, both] = &mut self.energies;
        device.reduce_into(&[moments, by_moment], &[Reduction::Dot(0, 1)], own)?;
        device.reduce_into(&[moments, sums], &[Reduction::Dot(0, 1)], both)?;
        let mut energy = PendingEnergy::arriving(device.arriving(own)?, 1.0).times(factor);
        let both = PendingEnergy::arriving(device.arriving(both)?, 1.0);
        energy.add(both.times(-2.0 * factor));
        energy.add(PendingEnergy::known(factor * self.norm));
        let (difference, twice) = ((x(0) - x(1)) * param(0), [(2.0 * factor) as f32]);
        device.eval_in_place(&difference, by_moment, &[sums], &twice, None)?;
        device.eval_in_place(&difference, by_centre, &[derivatives], &twice, None)?;
        Ok(energy)
    }

    /// `⟨B, B⟩`, pair by pair.
    fn exact_norm(&self, device: &D) -> Result<f64> {
        let Placed { centres, moments, .. } = &self.target;
        let mut sums = device.alloc(moments.len())?;
        device.pair_sums(&self.kernel, centres, centres, moments, &mut sums)?;
        dot(device, moments, &sums)
    }

    /// A grid around what moves, which is within these bounds, and what stays.
    fn grid_around(&self, device: &D, here: &[[f64; 3]; 2], spacing: f64) -> Result<OnGrid<D>> {
        let both = union(here, &self.target.bounds);
        let grid = MeshGrid::around(roomy(&both), &self.kernel, spacing)?;
        let components = self.shape.components();
        let mesh = ParticleMesh::new(device, grid, &self.kernel, components)?;
        let (mut target, masses) = (mesh.room(device)?, mesh.room(device)?);
        let mut points = device.alloc(self.target.centres.len())?;
        in_voxels(device, &self.target.centres, spacing, &mut points)?;
        mesh.splat(device, &points, &self.target.moments, &mut target)?;
        Ok(OnGrid { mesh, target, masses, room: sums::ROOM * longest(&both) })
    }

    /// Makes a grid anew where there is none that holds the shape and leaves it some of its room.
    fn hold(&mut self, device: &D, bounds: &[f64], ahead: f64, spacing: f64) -> Result<()> {
        let &[off, ref ends @ ..] = bounds else { return Ok(()) };
        if off > 0.0 || ends.len() != 6 {
            return Err(self.wrong(format!("{off} vertices that are not finite")));
        }
        let here = [[ends[0], ends[1], ends[2]], [ends[3], ends[4], ends[5]]];
        if let Some(OnGrid { mesh, room, .. }) = &self.grid {
            let left = ahead * room;
            let farther = [here[0].map(|v| v - left), here[1].map(|v| v + left)];
            if mesh.grid().holds(&farther) {
                return Ok(());
            }
        }
        (self.grid, self.is_other) = (None, true);
        let both = roomy(&union(&here, &self.target.bounds));
        if MeshGrid::around(both, &self.kernel, spacing).is_err() {
            // Too far apart for any grid.
            self.sums = Sums::Exact;
            self.norm = self.exact_norm(device)?;
            return Ok(());
        }
        self.grid = Some(self.grid_around(device, &here, spacing)?);
        Ok(())
    }

    /// On the grid.
    fn on_grid(
        &mut self,
        device: &D,
        vertices: &D::Buffer<f32>,
        factor: f64,
        spacing: f64,
    ) -> Result<PendingEnergy> {
        let (Some(OnGrid { mesh, target, masses, .. }), Some(points)) =
            (&mut self.grid, &mut self.points)
        else {
            return Err(RegisterError::option(
                "shape",
                "a distance without its grid",
                "make it anew",
            ));
        };
        let at = if self.topology.is_some() { &self.centres } else { vertices };
        in_voxels(device, at, spacing, points)?;
        let (moments, [energy, _]) = (&self.moments, &mut self.energies);
        let Found { by_moment, by_centre } = &mut self.found;
        mesh.splat(device, points, moments, masses)?;
        device.eval_in_place(&(x(0) - x(1)), masses, &[target], &[], None)?;
        let convolved = mesh.convolve(device, masses)?;
        device.reduce_into(&[masses, convolved], &[Reduction::Dot(0, 1)], energy)?;
        let pending = PendingEnergy::arriving(device.arriving(energy)?, 1.0).times(factor);
        mesh.gather(device, points, moments, by_moment, by_centre)?;
        let (times, twice) = (x(0) * param(0), 2.0 * factor);
        device.eval_in_place(&times, by_moment, &[], &[twice as f32], None)?;
        device.eval_in_place(&times, by_centre, &[], &[(twice / spacing) as f32], None)?;
        Ok(pending)
    }
}

/// Places in voxels: the grid is a torus, so that it does not matter where it begins.
fn in_voxels<D: Device>(
    device: &D,
    centres: &D::Buffer<f32>,
    spacing: f64,
    points: &mut D::Buffer<f32>,
) -> Result<()> {
    let per_mm = [(1.0 / spacing) as f32];
    Ok(device.eval(&(x(0) * param(0)), &[centres], &per_mm, None, points)?)
}

fn dot<D: Device>(device: &D, a: &D::Buffer<f32>, b: &D::Buffer<f32>) -> Result<f64> {
    Ok(device.reduce(&[a, b], &[Reduction::Dot(0, 1)])?.first().copied().unwrap_or(f64::NAN))
}
