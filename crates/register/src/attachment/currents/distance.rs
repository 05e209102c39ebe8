//! The distance of two shapes as currents or varifolds, and what moving one of them changes.
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

use super::particle_mesh::{MeshGrid, ParticleMesh, narrowest};
use super::shape::{Elements, Shape};
use crate::error::{RegisterError, Result};
use voxalign_compute::ops::elementwise::x;
use voxalign_compute::ops::pairwise::RadialKernel;
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::simplices::{Element, Incidence, incidence};
use voxalign_compute::{Device, DeviceBuffer, Memory};
use voxalign_image::{Vector3, memory};

/// How sums over all pairs of elements are made.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Summation {
    /// Pair by pair where that is less work than a grid of the [`narrowest`] spacings a width, else on that grid.
    #[default]
    Automatic,
    /// Pair by pair.
    Exact,
    /// On a grid of this spacing, mm. The width of the kernel must be [`narrowest`] spacings at least.
    Grid(f64),
}

/// Pairs that take as long as a voxel of the grid.
const PAIRS_A_VOXEL: f64 = 100.0;

/// How far points may go before a grid is made anew, of the extent of both shapes.
const ROOM: f64 = 0.2;

/// The elements of a shape on a device.
struct OnDevice<D: Device> {
    /// Centres, and vertices where these are they: relative to the origin, mm.
    centres: D::Buffer<f32>,
    moments: D::Buffer<f32>,
}

/// How the vertices of a shape make elements.
struct Topology<D: Device> {
    kind: Element,
    corners: D::Buffer<u32>,
    starts: D::Buffer<u32>,
    lists: D::Buffer<u32>,
}

/// A grid with the masses of what stays.
struct OnGrid<D: Device> {
    mesh: ParticleMesh<D>,
    target: D::Buffer<f32>,
    masses: D::Buffer<f32>,
}

/// The distance of a shape that moves from one that stays.
pub struct ShapeDistance<D: Device> {
    kernel: RadialKernel,
    /// The spacing of the grid; none where pairs are summed.
    spacing: Option<f64>,
    shape: Shape,
    target: Shape,
    topology: Option<Topology<D>>,
    /// From where coordinates on the device count, mm.
    origin: Vector3<f64>,
    fixed: OnDevice<D>,
    /// `⟨B, B⟩`, where pairs are summed.
    norm: f64,
    grid: Option<OnGrid<D>>,
}

/// Where a shape is, and what moving it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Distance {
    /// The squared distance; of surfaces in mm⁴, of curves in mm², of points without unit.
    pub squared: f64,
    /// Its derivative in every vertex, by mm.
    pub covectors: Vec<Vector3<f64>>,
}

/// Vertices relative to an origin, all x, then all y, then all z.
fn relative(vertices: &[Vector3<f64>], origin: &Vector3<f64>) -> Result<Vec<f32>> {
    let mut list = memory::room(3 * vertices.len())?;
    for a in 0..3 {
        list.extend(vertices.iter().map(|v| (v[a] - origin[a]) as f32));
    }
    Ok(list)
}

impl<D: Device> Topology<D> {
    fn new(device: &D, shape: &Shape) -> Result<Option<Self>> {
        let Elements::Simplices(kind, corners) = shape.elements() else { return Ok(None) };
        let [starts, lists] = incidence(shape.vertices().len(), corners)?;
        let (starts, lists) = (device.upload(&starts)?, device.upload(&lists)?);
        Ok(Some(Self { kind: *kind, corners: device.upload(corners)?, starts, lists }))
    }
}

/// The elements of a shape, and its vertices where they are more than centres.
type Placed<D> = (OnDevice<D>, Option<<D as Memory>::Buffer<f32>>);

/// The elements of a shape with its vertices at some places.
fn on_device<D: Device>(
    device: &D,
    shape: &Shape,
    topology: Option<&Topology<D>>,
    vertices: D::Buffer<f32>,
) -> Result<Placed<D>> {
    let (n, components) = (shape.len(), shape.components());
    match (topology, shape.elements()) {
        (Some(topology), _) => {
            let (mut centres, mut moments) = (device.alloc(3 * n)?, device.alloc(components * n)?);
            let corners = &topology.corners;
            device.measures(topology.kind, &vertices, corners, &mut centres, &mut moments)?;
            Ok((OnDevice { centres, moments }, Some(vertices)))
        }
        (None, Elements::Points(masses)) => {
            Ok((OnDevice { centres: vertices, moments: device.upload(masses)? }, None))
        }
        (None, Elements::Simplices(..)) => Err(RegisterError::Option {
            option: "shape",
            value: "elements without corners".to_owned(),
            remedy: "give points, curves or surfaces".to_owned(),
        }),
    }
}

impl<D: Device> ShapeDistance<D> {
    /// Of a shape that will move from one that stays.
    ///
    /// # Errors
    /// Shapes that are not made of the same; a kernel whose width is not above 0, or too narrow for the grid that is asked
    /// for; memory.
    pub fn new(
        device: &D,
        shape: Shape,
        target: Shape,
        kernel: RadialKernel,
        summation: Summation,
    ) -> Result<Self> {
        if !shape.is_like(&target) {
            return Err(RegisterError::Option {
                option: "shape",
                value: "a pair of which one is made of other elements".to_owned(),
                remedy: "compare surfaces with surfaces, curves with curves, points with points"
                    .to_owned(),
            });
        }
        let bounds = Shape::bounds(target.vertices());
        let origin = Vector3::from_fn(|a, _| 0.5 * (bounds[0][a] + bounds[1][a]));
        let topology = Topology::new(device, &shape)?;
        let of_target = Topology::new(device, &target)?;
        let vertices = device.upload_vec(relative(target.vertices(), &origin)?)?;
        let (fixed, _) = on_device(device, &target, of_target.as_ref(), vertices)?;
        let (norm, grid, spacing) = (0.0, None, None);
        let mut distance =
            Self { kernel, spacing, shape, target, topology, origin, fixed, norm, grid };
        distance.spacing = distance.spacing_for(summation);
        if distance.is_exact() {
            let (fixed, target) = (&distance.fixed, &distance.target);
            let mut sums = device.alloc(target.components() * target.len())?;
            let (at, moments) = (&fixed.centres, &fixed.moments);
            device.pair_sums(&kernel, at, at, moments, &mut sums)?;
            distance.norm = dot(device, moments, &sums)?;
        }
        Ok(distance)
    }

    /// The spacing of the grid that sums are made on; none where they are made pair by pair.
    fn spacing_for(&self, summation: Summation) -> Option<f64> {
        match summation {
            Summation::Exact => None,
            Summation::Grid(spacing) => Some(spacing),
            Summation::Automatic => {
                let spacing = self.kernel.width / narrowest(self.kernel.shape);
                let bounds = self.bounds(self.shape.vertices());
                let grid = MeshGrid::around(bounds, &self.kernel, spacing);
                let (moving, fixed) = (self.shape.len() as f64, self.target.len() as f64);
                let pairs = moving * (moving + fixed);
                let is_less = |grid: MeshGrid| pairs > PAIRS_A_VOXEL * grid.voxels() as f64;
                grid.is_ok_and(is_less).then_some(spacing)
            }
        }
    }

    /// Whether sums are made pair by pair.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.spacing.is_none()
    }

    /// The bounds of both shapes, with some room, relative to the origin.
    fn bounds(&self, vertices: &[Vector3<f64>]) -> [[f64; 3]; 2] {
        let [moving, fixed] = [vertices, self.target.vertices()].map(Shape::bounds);
        let low = |a: usize| moving[0][a].min(fixed[0][a]);
        let high = |a: usize| moving[1][a].max(fixed[1][a]);
        let longest = (0..3).map(|a| high(a) - low(a)).fold(0.0, f64::max);
        [
            [0, 1, 2].map(|a| low(a) - ROOM * longest - self.origin[a]),
            [0, 1, 2].map(|a| high(a) + ROOM * longest - self.origin[a]),
        ]
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &RadialKernel {
        &self.kernel
    }

    /// The distance with the vertices of the moving shape at these places, mm, and what moving them changes.
    ///
    /// # Errors
    /// Another number of vertices; one that is not finite; a grid that grows too large; memory.
    pub fn evaluate(&mut self, device: &D, vertices: &[Vector3<f64>]) -> Result<Distance> {
        if vertices.len() != self.shape.vertices().len()
            || vertices.iter().any(|v| !v.iter().all(|x| x.is_finite()))
        {
            return Err(RegisterError::Option {
                option: "shape",
                value: format!("{} vertices", vertices.len()),
                remedy: format!("give {} places, mm", self.shape.vertices().len()),
            });
        }
        let at = device.upload_vec(relative(vertices, &self.origin)?)?;
        let (moving, at) = on_device(device, &self.shape, self.topology.as_ref(), at)?;
        let n = self.shape.len();
        let mut by_moment = device.alloc(self.shape.components() * n)?;
        let mut by_centre = device.alloc(3 * n)?;
        let squared = match self.spacing {
            None => self.exactly(device, &moving, &mut by_moment, &mut by_centre)?,
            Some(spacing) => {
                self.make_grid(device, vertices, spacing)?;
                self.on_grid(device, &moving, &mut by_moment, &mut by_centre)?
            }
        };
        let covectors = match (&self.topology, at) {
            (Some(topology), Some(at)) => {
                let mut out = device.alloc(3 * vertices.len())?;
                let Topology { kind, corners, starts, lists } = topology;
                let incidence = Incidence { starts, corners: lists };
                device.measure_covectors(
                    *kind, &at, corners, &incidence, &by_centre, &by_moment, &mut out,
                )?;
                out
            }
            _ => by_centre,
        };
        let list = device.into_host(covectors)?;
        let count = vertices.len();
        let covector = |i: usize| Vector3::from_fn(|a, _| f64::from(list[a * count + i]));
        Ok(Distance { squared, covectors: (0..count).map(covector).collect() })
    }

    /// The squared norm of the shape that stays, its distance from nothing.
    ///
    /// # Errors
    /// A grid that grows too large; memory.
    pub fn target_norm(&mut self, device: &D) -> Result<f64> {
        let Some(spacing) = self.spacing else { return Ok(self.norm) };
        let vertices = self.shape.vertices().to_vec();
        self.make_grid(device, &vertices, spacing)?;
        let Some(OnGrid { mesh, target, .. }) = &mut self.grid else { return Ok(f64::NAN) };
        let convolved = mesh.convolve(device, target)?;
        dot(device, target, convolved)
    }

    /// Pair by pair.
    fn exactly(
        &self,
        device: &D,
        moving: &OnDevice<D>,
        by_moment: &mut D::Buffer<f32>,
        by_centre: &mut D::Buffer<f32>,
    ) -> Result<f64> {
        let (n, components) = (self.shape.len(), self.shape.components());
        let (at, moments) = (&moving.centres, &moving.moments);
        let (mut sums, mut slopes) = (device.alloc(components * n)?, device.alloc(3 * n)?);
        device.pair_sums_with_slopes(
            &self.kernel,
            at,
            moments,
            at,
            moments,
            by_moment,
            by_centre,
        )?;
        let own = dot(device, moments, by_moment)?;
        let (to, masses) = (&self.fixed.centres, &self.fixed.moments);
        device.pair_sums_with_slopes(
            &self.kernel,
            at,
            moments,
            to,
            masses,
            &mut sums,
            &mut slopes,
        )?;
        let both = dot(device, moments, &sums)?;
        let difference = (x(0) - x(1)) * 2.0;
        device.eval_in_place(&difference, by_moment, &[&sums], &[], None)?;
        device.eval_in_place(&difference, by_centre, &[&slopes], &[], None)?;
        Ok(own - 2.0 * both + self.norm)
    }

    /// Makes a grid where there is none that holds the shape.
    fn make_grid(&mut self, device: &D, vertices: &[Vector3<f64>], spacing: f64) -> Result<()> {
        let mut here = Shape::bounds(vertices);
        for bound in &mut here {
            for (a, b) in bound.iter_mut().enumerate() {
                *b -= self.origin[a];
            }
        }
        if self.grid.as_ref().is_some_and(|g| g.mesh.grid().holds(&here)) {
            return Ok(());
        }
        self.grid = None;
        let grid = MeshGrid::around(self.bounds(vertices), &self.kernel, spacing)?;
        let components = self.shape.components();
        let mesh = ParticleMesh::new(device, grid, &self.kernel, components)?;
        let (mut target, masses) = (mesh.room(device)?, mesh.room(device)?);
        let points = in_voxels(device, &self.fixed.centres, spacing)?;
        mesh.splat(device, &points, &self.fixed.moments, &mut target)?;
        self.grid = Some(OnGrid { mesh, target, masses });
        Ok(())
    }

    /// On the grid.
    fn on_grid(
        &mut self,
        device: &D,
        moving: &OnDevice<D>,
        by_moment: &mut D::Buffer<f32>,
        by_centre: &mut D::Buffer<f32>,
    ) -> Result<f64> {
        let Some(OnGrid { mesh, target, masses }) = &mut self.grid else { return Ok(f64::NAN) };
        let spacing = mesh.grid().spacing;
        let points = in_voxels(device, &moving.centres, spacing)?;
        mesh.splat(device, &points, &moving.moments, masses)?;
        device.eval_in_place(&(x(0) - x(1)), masses, &[target], &[], None)?;
        let squared = dot(device, masses, mesh.convolve(device, masses)?)?;
        mesh.gather(device, &points, &moving.moments, by_moment, by_centre)?;
        device.eval_in_place(&(x(0) * 2.0), by_moment, &[], &[], None)?;
        device.eval_in_place(&(x(0) * (2.0 / spacing) as f32), by_centre, &[], &[], None)?;
        Ok(squared)
    }
}

/// Places in voxels: the grid is a torus, so that it does not matter where it begins.
fn in_voxels<D: Device>(
    device: &D,
    centres: &D::Buffer<f32>,
    spacing: f64,
) -> Result<D::Buffer<f32>> {
    let mut points = device.alloc(centres.len())?;
    device.eval(&(x(0) * (1.0 / spacing) as f32), &[centres], &[], None, &mut points)?;
    Ok(points)
}

fn dot<D: Device>(device: &D, a: &D::Buffer<f32>, b: &D::Buffer<f32>) -> Result<f64> {
    Ok(device.reduce(&[a, b], &[Reduction::Dot(0, 1)])?.first().copied().unwrap_or(f64::NAN))
}
