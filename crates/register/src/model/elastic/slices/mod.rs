//! An elastic body that slices push: a volume is the moving image, and a few slices in the world are what it is compared with.
//!
//! The body is at rest where the volume is, which an affine map has brought into the world of the slices; its vertices `X_i` move to
//! `X_i + U_i` there, and a point `P` of the body at rest to `x = P + U(P)`. A pixel at `x` shows the tissue that has come there. It is looked
//! for in the tetrahedra where they are by now, anew at each step: with its barycentric weights, `x = Σ w_i (X_i + U_i)`, that tissue is at
//! `P = Σ w_i X_i`, and the volume is interpolated there. What is in no tetrahedron does not count.
//!
//! The energy depends on `U` through `P(x)`. As `x` stays, `0 = F dP + Σ w_i dU_i` with the deformation gradient `F = ∂x/∂P`, which is constant in a
//! tetrahedron, so that with the derivative `g` of the energy in `P` the force on a vertex is
//!
//! `−∂E/∂U_i = + w_i F⁻ᵀ g`.
//!
//! In the model [of two volumes](super) `P` moves and `x` does not matter: there is neither the sign nor `F`.
//!
//! The energy of images is a mean over pixels. Each stands for its area times one thickness: half that of the cells of the mesh, or less where
//! the pixels that are in the body where a scale begins fill its volume with less. So a [pressure](Elastic::pressure) gives about the forces on
//! the vertices near a slice that it gives them with two volumes; with more of it tetrahedra beside a slice would collapse before those
//! away from it move.
//!
//! Pixels that show what is nowhere near pull tissue together until a tetrahedron would be inverted, however short the step. A scale ends
//! there, and what was found up to then is the result, which says so.

mod coupling;
mod force;
mod located;
mod samples;
#[cfg(test)]
mod tests;

use super::body::{BodyLevel, DeviceMesh, Places, brought, carried, planes, vectors};
use super::coupling::{At, Coupled};
use super::motion::Mover;
use super::outside::extend;
use super::rest::VoxelMotion;
use super::scale::Lag;
use super::{
    Coupling, Elastic, ElasticBody, ElasticResult, FARTHEST, Force, Held, StepTimes, at_rest,
};
use crate::attachment::images::DeviceImage;
use crate::error::{RegisterError, Result};
use crate::multiscale::{Course, Deformation, Iteration, Motion, Scale};
use crate::similarity::{Energies, Images, PendingEnergy, Similarity};
use force::NodalForces;
use located::Located;
use samples::Pixels;
use std::sync::Arc;
use std::time::Instant;
use voxalign_compute::ops::elementwise::{constant, param, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::sparse::{Csr, Entries};
use voxalign_compute::ops::splat::{Beyond, Lattice};
use voxalign_compute::ops::tetrahedra::OUTSIDE;
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::{ElasticityError, State};
use voxalign_image::{Affine, Grid, Vector3, memory};

pub(crate) use located::inside;
pub(crate) use samples::{SliceImages, points};

/// The thickness that pixels stand for at most, in edges of cubes of six tetrahedra each.
const THICKNESS: f64 = 0.5;

/// The part of what a pixel shows of the moving image that has to be inside of its mask and its grid to count.
const WHOLE: f64 = 0.99;

/// A body among slices, on its way.
pub(crate) struct SliceBody<D: Device> {
    device: D,
    images: SliceImages<D>,
    /// From the world of the slices to that of the moving image.
    affine: Affine,
    similarity: Similarity,
    options: Elastic,
    pressure: f64,
    body: Arc<ElasticBody>,
    start: Option<State>,
    timed: bool,
    on: Option<(OnScale<D>, Going<D>)>,
    last: Option<Motion>,
    residual: Option<f64>,
    cuts: usize,
    held: Held,
    /// Whether the last step of this scale, and that of any, would have inverted a tetrahedron and was not made.
    stopped: [bool; 2],
    times: StepTimes,
    setup_seconds: f64,
}

/// What is made for a scale.
pub(super) struct OnScale<D: Device> {
    /// The number of the mesh.
    level: usize,
    mesh: DeviceMesh<D>,
    pixels: Pixels<D>,
    located: Located<D>,
    /// The nodes at rest, voxels of the moving image.
    rest: D::Buffer<f32>,
    /// 1 for each tetrahedron, and 0 for what is in none.
    held: D::Buffer<f32>,
    /// Where rows start of a matrix with a row for each pixel, whose only entry is at its tetrahedron.
    rows: D::Buffer<u32>,
    moving: DeviceImage<D>,
    /// What of it counts, and from which value on.
    shown: Option<(DeviceImage<D>, f32)>,
    /// The volume that a pixel of weight 1 stands for, and that of all that counted where the scale began, mm³.
    unit: f64,
    volume: f64,
    room: Room<D>,
    nodal: NodalForces<D>,
    /// Where the body was when it came to the scale.
    first: State,
}

/// A body that goes its way at a scale, and how forces change.
struct Going<D: Device> {
    mover: Mover<D>,
    lag: Lag,
    /// What motions are measured by.
    pixel: VoxelMotion,
}

/// Room for a step, by pixels.
struct Room<D: Device> {
    /// Where they are in the moving image, voxels.
    positions: D::Buffer<f32>,
    /// What they show of it.
    warped: D::Buffer<f32>,
    weights: D::Buffer<f32>,
    derivative: D::Buffer<f32>,
    covectors: D::Buffer<f32>,
}

impl<D: Device> Room<D> {
    fn new(device: &D, count: usize) -> Result<Self> {
        Ok(Self {
            positions: device.alloc(3 * count)?,
            warped: device.alloc(count)?,
            weights: device.alloc(count)?,
            derivative: device.alloc(count)?,
            covectors: device.alloc(3 * count)?,
        })
    }
}

impl<D: Device> OnScale<D> {
    fn lattice(&self) -> Lattice {
        Lattice::linear(self.moving.grid.dims(), Beyond::Nothing)
    }

    /// What pixels show and which count, where they were located.
    fn look(&mut self, device: &D) -> Result<()> {
        let lattice = self.lattice();
        let placed = self.located.placed(&self.mesh);
        let Room { positions, warped, weights, .. } = &mut self.room;
        device.to_samples(&placed, &self.rest, positions)?;
        // What is in no tetrahedron has a column beyond the last one, which is taken for that.
        let inside = Csr {
            entries: Entries::Numbers,
            width: self.held.len(),
            rows: &self.rows,
            columns: self.located.elements(),
            values: &self.pixels.weights,
        };
        device.product(&inside, &self.held, weights)?;
        if let Some((image, level)) = &self.shown {
            device.gather(&image.values, lattice, positions, None, warped)?;
            let counts = x(0) * x(1).gt(param(0));
            device.eval_in_place(&counts, weights, &[&*warped], &[*level], None)?;
        }
        Ok(device.gather(&self.moving.values, lattice, positions, None, warped)?)
    }

    /// The energy, and its derivative in the value of every pixel of the moving image.
    fn compare(&mut self, device: &D, similarity: &Similarity) -> Result<PendingEnergy> {
        let Room { warped, weights, derivative, .. } = &mut self.room;
        let images = Images {
            reference: &self.pixels.values,
            moved: warped,
            weights: Some(weights),
            dims: [self.pixels.values.len(), 1, 1],
            reference_moves: false,
        };
        similarity.energy(device, images, derivative)
    }

    /// `F⁻ᵀ g` for each pixel: with the derivative of an energy in its value, that in where it is at rest, by mm, carried to the body where it is.
    fn covectors(
        &self,
        device: &D,
        derivative: &D::Buffer<f32>,
        out: &mut D::Buffer<f32>,
    ) -> Result<()> {
        let n = self.located.count();
        let (mut values, mut gradients) = (device.alloc(n)?, device.alloc(3 * n)?);
        device.gather_with_gradients(
            &self.moving.values,
            self.lattice(),
            &self.room.positions,
            None,
            derivative,
            &mut values,
            &mut gradients,
        )?;
        // By voxels of the moving image, in which the nodes at rest are.
        let placed = self.located.placed(&self.mesh);
        Ok(device.sample_covectors(&placed, &self.rest, &gradients, out)?)
    }

    /// Makes the forces on the vertices of the derivatives.
    fn push(&mut self, device: &D, pressure: f64) -> Result<()> {
        let mut covectors = std::mem::replace(&mut self.room.covectors, device.alloc(0)?);
        self.covectors(device, &self.room.derivative, &mut covectors)?;
        self.room.covectors = covectors;
        let scale = pressure * self.volume;
        let Self { nodal, mesh, located, room, .. } = self;
        nodal.gather(device, mesh, located, &room.covectors, scale)
    }
}

impl<D: Device> SliceBody<D> {
    /// A body in the world of the slices, from which `affine` leads to that of the moving image. The energy of the images is multiplied by a
    /// pressure, kPa. Where it starts is given for its finest mesh; at rest without.
    ///
    /// # Errors
    /// Forces at vertices alone.
    pub(crate) fn new(
        device: &D,
        images: SliceImages<D>,
        (affine, similarity): (Affine, Similarity),
        options: Elastic,
        body: Arc<ElasticBody>,
        start: Option<State>,
    ) -> Result<Self> {
        if options.force == Force::Nodes {
            return Err(force::no_nodes());
        }
        let pressure = options.pressure(&similarity);
        Ok(Self {
            device: device.clone(),
            images,
            affine,
            similarity,
            options,
            pressure,
            body,
            start,
            timed: false,
            on: None,
            last: None,
            residual: None,
            cuts: 0,
            held: Held::default(),
            stopped: [false; 2],
            times: StepTimes::default(),
            setup_seconds: 0.0,
        })
    }

    /// The same with times of the parts of a step.
    pub(crate) fn timed(self, timed: bool) -> Self {
        Self { timed, ..self }
    }

    fn scale(&self, factor: usize) -> Result<OnScale<D>> {
        let device = &self.device;
        let (number, level) = self.body.at(factor);
        let before = match &self.on {
            Some((on, going)) => Some((on.level, going.mover.state(device)?)),
            None => None,
        };
        let first = brought(&self.body, self.start.as_ref(), before, number)?;
        let mesh = DeviceMesh::new(device, level)?;
        let target = self.images.target(factor);
        let pixels = Pixels::new(device, &self.images, target)?;
        let displacements = device.upload(&planes(&first.displacements))?;
        let points = pixels.points(device, &mesh.to_mesh)?;
        let located = Located::new(device, &mesh, level.body.mesh(), points, &displacements)?;
        let moving = self.images.moving.at(device, target)?;
        let shown = match &self.images.shown {
            Some(image) => {
                let image = image.at(device, target)?;
                let most = device.reduce(&[&image.values], &[Reduction::Max(0)])?[0];
                Some((image, (WHOLE * most.min(1.0)) as f32))
            }
            None => None,
        };
        let to_voxels = self.affine.then(moving.grid.to_index());
        let vertices = level.body.mesh().vertices().iter();
        let rest = memory::collected(vertices.map(|v| to_voxels.apply(*v)))?;
        let room = Room::new(device, located.count())?;
        let areas = pixels.unlike()?;
        let mut held = memory::filled(mesh.elements + 1, 1.0f32)?;
        held[mesh.elements] = 0.0;
        let mut on = OnScale {
            level: number,
            nodal: NodalForces::new(device, self.options.force, &level.body, &mesh, areas)?,
            rest: device.upload(&planes(&rest))?,
            held: device.upload_vec(held)?,
            rows: device.upload_vec(memory::collected(0..=located.count() as u32)?)?,
            mesh,
            pixels,
            located,
            moving,
            shown,
            unit: 0.0,
            volume: 0.0,
            room,
            first,
        };
        on.look(device)?;
        self.measure(&mut on, level)?;
        Ok(on)
    }

    fn going(&self, on: &OnScale<D>) -> Result<Going<D>> {
        let level = &self.body.levels()[on.level];
        let coupled = self.coupled(on, level)?;
        let (options, spacing) = (&self.options, on.pixels.spacing);
        let pixel = VoxelMotion::new(options, &level.body, &coupled, spacing)?;
        let (lag, blocks) = Lag::new(options, &level.body, coupled, spacing)?;
        let first = on.first.clone();
        let mover = Mover::new(&self.device, level, options, first, blocks.as_deref())?;
        Ok(Going { mover, lag, pixel })
    }

    fn coupled(&self, on: &OnScale<D>, level: &BodyLevel) -> Result<Coupled> {
        let images = (&on.room.warped, &on.room.weights);
        let whole = self.options.is_consistent();
        let (curvature, pattern) = (self.similarity.curvature(), level.body.pattern());
        coupling::coupled(&self.device, on, images, (curvature, whole), self.pressure, pattern)
    }

    /// What pixels stand for; refuses slices of which none counts.
    fn measure(&self, on: &mut OnScale<D>, level: &BodyLevel) -> Result<()> {
        let elements = self.device.download(on.located.elements())?;
        let weights = self.device.download(&on.room.weights)?;
        let given = self.device.download(&on.pixels.weights)?;
        let (mut area, mut counted) = (0.0, 0.0);
        for (number, range) in on.pixels.ranges().enumerate() {
            let refuse = |what: &str, remedy: &str| Err(on.pixels.refused(number, what, remedy));
            let inside = elements[range.clone()].iter().filter(|&&e| e != OUTSIDE).count();
            let sum = |of: &[f32]| of.iter().map(|w| f64::from(*w)).sum::<f64>();
            if sum(&given[range.clone()]) <= 0.0 {
                return refuse(
                    "has no pixel with a weight above 0",
                    "give it others, or leave it out",
                );
            }
            if inside == 0 {
                let what = format!("has no pixel in the mesh, which is at rest {}", extent(level));
                let remedy = "check where the slice is, the affine map, and the mesh: all are in mm in the world of the slices, with x to the right, y to \
                              the front and z upwards (RAS)";
                return refuse(&what, remedy);
            }
            let own = sum(&weights[range]);
            if own <= 0.0 {
                let what = "has no pixel that counts where the moving image shows something";
                let remedy = "check where it is, its weights, the mask of the moving image and the affine map; or leave it out";
                return refuse(what, remedy);
            }
            area += inside as f64 * on.pixels.areas[number];
            counted += own;
        }
        let mesh = level.body.mesh();
        let volume = mesh.volume().abs();
        let cells = mesh.tetrahedra().len().max(1) as f64 / 6.0;
        let slab = THICKNESS * (volume / cells).cbrt() * on.pixels.largest;
        on.unit = (volume / area).min(slab);
        on.volume = on.unit * counted;
        Ok(())
    }

    /// Ends a part of a step, whose time is that since `clock`.
    fn lap(&self, clock: &mut Instant) -> Result<f64> {
        if !self.timed {
            return Ok(0.0);
        }
        self.device.synchronize()?;
        let seconds = clock.elapsed().as_secs_f64();
        *clock = Instant::now();
        Ok(seconds)
    }

    /// One step; the energy before it.
    fn step(&mut self) -> Result<f64> {
        let Some((mut on, mut going)) = self.on.take() else { return Err(super::not_refined()) };
        let energy = self.step_on(&mut on, &mut going);
        self.on = Some((on, going));
        energy
    }

    fn step_on(&mut self, on: &mut OnScale<D>, going: &mut Going<D>) -> Result<f64> {
        let Going { mover, lag, pixel } = going;
        let device = self.device.clone();
        let level = &self.body.levels()[on.level];
        let (mut clock, mut times) = (Instant::now(), self.times);
        on.located.update(&device, &on.mesh, mover.displacements())?;
        times.displacement += self.lap(&mut clock)?;
        on.look(&device)?;
        times.interpolation += self.lap(&mut clock)?;
        let energy = on.compare(&device, &self.similarity)?;
        times.similarity += self.lap(&mut clock)?;
        on.push(&device, self.pressure)?;
        times.forces += self.lap(&mut clock)?;
        if let Lag::Coupled(coupled) = lag {
            let at = match coupled.learns() {
                true => Some(At::of(&device, mover.displacements(), &on.nodal.forces)?),
                false => None,
            };
            if let Some(blocks) = coupled.look(at, || self.coupled(on, level))? {
                mover.recouple(&device, level, &blocks)?;
            }
        }
        let most = match self.options.coupling {
            Coupling::Implicit => FARTHEST * on.pixels.spacing,
            Coupling::Explicit => f64::INFINITY,
        };
        let mut made = mover.step(&device, &on.mesh.mesh(), &on.nodal.forces, most);
        if let Lag::Lagging(lagging) = lag {
            let after = || Ok(vectors(&device.download(mover.displacements())?));
            made = Ok(lagging.checked(made, after)?);
        }
        let mut motion = match made {
            Err(RegisterError::Elasticity(ElasticityError::Inverts {
                ratio, halvings, ..
            })) => {
                self.stopped = [true; 2];
                self.last.unwrap_or_else(|| unmoved(ratio, halvings as usize))
            }
            made => made?,
        };
        pixel.note(&mut motion);
        times.motion += self.lap(&mut clock)?;
        self.residual = mover.residual();
        self.cuts += motion.cuts;
        self.held.count(&motion);
        (self.last, self.times) = (Some(motion), times);
        energy.wait()
    }

    /// Whether a scale ended as a step, however short, would have inverted a tetrahedron.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped[1]
    }

    /// The displacement on a grid in the world of the slices, voxels of it: of the body at rest, and how it falls off around it; and the body.
    ///
    /// # Errors
    /// Memory that runs out; no scale.
    pub(crate) fn conclude(self, grid: &Grid) -> Result<(D::Buffer<f32>, ElasticResult)> {
        let Self { device, body, on, cuts, held, times, setup_seconds, .. } = self;
        let Some((on, going)) = on else { return Err(super::not_refined()) };
        let state = going.mover.state(&device)?;
        let (number, level) = (on.level, body.finest());
        drop((on, going));
        let state = match number {
            0 => state,
            _ => carried(&body.levels()[number], &state, level)?,
        };
        let mesh = DeviceMesh::new(&device, level)?;
        let places = Places::new(&device, &mesh, grid)?;
        let displacements = device.upload(&planes(&state.displacements))?;
        let mut field = device.alloc(3 * grid.len())?;
        device.field(&places.placed(&mesh), &displacements, &places.units(), &mut field)?;
        if places.inside.is_some() {
            extend(&device, (&mesh, &places), &mut field)?;
        }
        let (body, fixed) = (Arc::clone(&level.body), level.fixed.clone());
        Ok((field, ElasticResult { body, fixed, state, cuts, held, times, setup_seconds }))
    }
}

/// Of a first step that was not made.
fn unmoved(least_jacobian: f64, cuts: usize) -> Motion {
    let (kinetic_energy, strain_energy, unbalanced_force) = (0.0, f64::NAN, f64::NAN);
    let (voxel_force, voxel_kinetic, held) = (0.0, 0.0, 0);
    Motion {
        kinetic_energy,
        strain_energy,
        unbalanced_force,
        voxel_force,
        voxel_kinetic,
        least_jacobian,
        cuts,
        held,
    }
}

/// The bounds of a mesh in words.
fn extent(level: &BodyLevel) -> String {
    let [low, high] = level.body.mesh().bounds().unwrap_or([Vector3::zeros(); 2]);
    let text = |v: Vector3<f64>| format!("({:.1}, {:.1}, {:.1})", v.x, v.y, v.z);
    format!("from {} to {} mm", text(low), text(high))
}

impl<D: Device> Deformation for SliceBody<D> {
    type Error = RegisterError;

    fn to_scale(&mut self, scale: &Scale) -> Result<()> {
        let began = Instant::now();
        let on = self.scale(scale.factor)?;
        // The scale before goes before the matrices of this one are made.
        self.on = None;
        let going = self.going(&on)?;
        (self.on, self.last, self.stopped[0]) = (Some((on, going)), None, false);
        self.device.synchronize()?;
        self.setup_seconds += began.elapsed().as_secs_f64();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// One step of a body.
pub(crate) struct SliceStep;

impl<D: Device> Iteration<SliceBody<D>> for SliceStep {
    fn to_scale(&mut self, _: &SliceBody<D>, _: &Scale) -> Result<()> {
        Ok(())
    }

    fn iterate(&mut self, body: &mut SliceBody<D>) -> Result<Energies> {
        Ok(body.step()?.into())
    }

    fn at_rest(&self, body: &SliceBody<D>, course: &Course) -> Option<bool> {
        Some(body.stopped[0] || at_rest(course, body.options.tolerance))
    }

    fn motion(&self, body: &SliceBody<D>) -> Option<Motion> {
        body.last
    }

    fn end_scale(&mut self, body: &mut SliceBody<D>) -> Result<Option<f64>> {
        Ok(body.residual)
    }
}

/// 1 on all of a grid.
///
/// # Errors
/// Memory that runs out.
pub(crate) fn everywhere<D: Device>(device: &D, grid: &Grid) -> Result<DeviceImage<D>> {
    let mut values = device.alloc(grid.len())?;
    device.eval_in_place(&constant(1.0), &mut values, &[], &[], None)?;
    Ok(DeviceImage { grid: grid.clone(), values, outside: 0.0, open: false })
}
