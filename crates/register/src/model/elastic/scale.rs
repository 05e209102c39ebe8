//! What is made for a scale: where samples are, what they are compared with, and what steps need.

use super::body::{BodyLevel, DeviceMesh, Places};
use super::coupling::{Coupled, Pulling};
use super::force::NodalForces;
use super::motion::Mover;
use super::options::{Coupling, Sampling};
use super::rest::VoxelMotion;
use super::swing::Lagging;
use super::{BORDER, Elastic};
use crate::attachment::images::{Moved, both, seen};
use crate::error::Result;
use crate::model::{Pull, Sources};
use crate::similarity::{Images, PendingEnergies};
use voxalign_compute::ops::elementwise::{constant, x};
use voxalign_compute::ops::reduce::Reduction;
use voxalign_compute::ops::resample::{Interpolation, grid_map};
use voxalign_compute::{Device, DeviceBuffer};
use voxalign_elasticity::{Body, State};
use voxalign_image::{Affine, Grid, Matrix3};

/// What is made for a scale.
pub(super) struct OnScale<D: Device> {
    /// The number of the mesh.
    pub(super) level: usize,
    pub(super) mesh: DeviceMesh<D>,
    pub(super) places: Places<D>,
    /// Where the body was when it came to the scale.
    pub(super) first: State,
    /// Made at the first step.
    pub(super) work: Option<Work<D>>,
}

impl<D: Device> OnScale<D> {
    /// The state of the body.
    pub(super) fn state(&self, device: &D) -> Result<State> {
        match &self.work {
            Some(work) => work.mover.state(device),
            None => Ok(self.first.clone()),
        }
    }
}

/// Room for steps, and what they need of the fixed images.
pub(super) struct Work<D: Device> {
    pub(super) mover: Mover<D>,
    pub(super) nodal: NodalForces<D>,
    /// How forces change on the way, and the curvature of the energy in each moving image, where it is known.
    pub(super) lag: Lag,
    /// What motions are measured by.
    pub(super) voxel: VoxelMotion,
    pub(super) curvatures: Vec<Option<f64>>,
    pub(super) warped: Vec<D::Buffer<f32>>,
    /// The derivatives of the energy in the values of the warped images, and in the displacements of samples, 1/mm.
    pub(super) derivatives: Vec<Vec<D::Buffer<f32>>>,
    pub(super) force: D::Buffer<f32>,
    /// Where samples are not all voxels: the fixed images there, the weights of samples, and the volume that counts, mm³.
    pub(super) lattice: Option<OnLattice<D>>,
}

/// What is known of forces that change on the way.
pub(super) enum Lag {
    /// Steps count on it.
    Coupled(Coupled),
    /// Steps take them as they are at the beginning.
    Lagging(Lagging),
}

impl Lag {
    /// As the options say, for samples that are `voxel` apart, mm; and the blocks that steps count on.
    ///
    /// # Errors
    /// Memory that runs out.
    pub(super) fn new(
        options: &Elastic,
        body: &Body,
        coupled: Coupled,
        voxel: f64,
    ) -> Result<(Self, Option<Vec<Matrix3<f64>>>)> {
        let blocks = coupled.blocks()?;
        Ok(match options.coupling {
            Coupling::Implicit => (Self::Coupled(coupled), Some(blocks)),
            Coupling::Explicit => {
                (Self::Lagging(Lagging::new(options, body, &blocks, voxel)?), None)
            }
        })
    }
}

/// Samples on a lattice.
pub(super) struct OnLattice<D: Device> {
    pub(super) fixed: Vec<D::Buffer<f32>>,
    pub(super) weights: Option<D::Buffer<f32>>,
    pub(super) volume: f64,
}

impl<D: Device> Work<D> {
    /// Before the first step of a scale, of which `grid` is the grid. Images are those that pull, with the affine map and the displacement of
    /// the samples that lead to the moving ones.
    pub(super) fn new(
        device: &D,
        (options, pressure): (&Elastic, f64),
        (level, on): (&BodyLevel, &OnScale<D>),
        (moved, affine, field): (&[Moved<D>], &Affine, &D::Buffer<f32>),
        pull: &mut Pull<'_, D>,
        grid: &Grid,
    ) -> Result<Self> {
        let OnScale { mesh, places, .. } = on;
        let n = places.grid.len();
        let lattice = match options.samples {
            Sampling::All => None,
            Sampling::Lattice(_) => {
                Some(OnLattice::new(device, grid, places, (moved, field), pull)?)
            }
        };
        let mut warped = Vec::with_capacity(moved.len());
        for moved in moved {
            let mut out = device.alloc(n)?;
            moved.warp_to(device, field, places.grid.dims(), &mut out)?;
            warped.push(out);
        }
        let curvatures = curvatures(&mut pull.sources, moved.len());
        let weights = match &lattice {
            Some(lattice) => lattice.weights.as_ref(),
            None => pull.counts.given,
        };
        let of_images = Pulling {
            moved,
            affine,
            field,
            warped: &warped,
            weights,
            curvatures: &curvatures,
            consistent: options.is_consistent(),
        };
        let pattern = level.body.pattern();
        let coupled = Coupled::new(device, (mesh, places), &of_images, pressure, pattern)?;
        let spacing = places.grid.voxel_volume().cbrt();
        let voxel = VoxelMotion::new(options, &level.body, &coupled, spacing)?;
        let (lag, counted) = Lag::new(options, &level.body, coupled, spacing)?;
        Ok(Self {
            mover: Mover::new(device, level, options, on.first.clone(), counted.as_deref())?,
            nodal: NodalForces::new(device, options.force, &level.body, mesh, places)?,
            lag,
            voxel,
            curvatures,
            warped,
            derivatives: vec![Vec::new()],
            force: device.alloc(3 * n)?,
            lattice,
        })
    }
}

impl<D: Device> OnLattice<D> {
    fn new(
        device: &D,
        from: &Grid,
        places: &Places<D>,
        (moved, field): (&[Moved<D>], &D::Buffer<f32>),
        pull: &Pull<'_, D>,
    ) -> Result<Self> {
        let grid = &places.grid;
        let (from, dims, linear) = (from.dims(), grid.dims(), Interpolation::Linear);
        let map = grid_map(from, dims);
        let at = |values: &D::Buffer<f32>, outside: f32| {
            let mut out = device.alloc(grid.len())?;
            device.warp_affine(values, from, &map, dims, linear, outside, &mut out)?;
            Ok::<_, crate::RegisterError>(out)
        };
        let fixed = pull.fixed.iter().map(|f| at(f.values, f.outside)).collect::<Result<_>>()?;
        let given = pull.counts.given.map(|weights| at(weights, 0.0)).transpose()?;
        let shown = seen(device, moved, BORDER, field, dims)?;
        let weights = within(device, both(device, given, shown)?, places)?;
        let counted = match &weights {
            Some(weights) => device.reduce(&[weights], &[Reduction::Sum(0)])?[0],
            None => grid.len() as f64,
        };
        Ok(Self { fixed, weights, volume: counted * grid.voxel_volume() })
    }
}

/// The curvature of the energy of all attachments in each of so many images, where it is known.
fn curvatures<D: Device>(sources: &mut Sources<'_, D>, images: usize) -> Vec<Option<f64>> {
    let mut all: Vec<Option<f64>> = vec![Some(0.0); images];
    for attachment in sources.all() {
        let curvature = attachment.curvature();
        for channel in attachment.needs().channels {
            if let Some(of) = all.get_mut(channel) {
                *of = of.zip(curvature).map(|(a, b)| a + b);
            }
        }
    }
    all
}

/// Weights that are 0 outside of the mesh.
pub(super) fn within<D: Device>(
    device: &D,
    weights: Option<D::Buffer<f32>>,
    places: &Places<D>,
) -> Result<Option<D::Buffer<f32>>> {
    let Some(inside) = &places.inside else { return Ok(weights) };
    let mut own = device.alloc(inside.len())?;
    device.copy(inside, &mut own)?;
    both(device, weights, Some(own))
}

/// Makes the derivative of the energy of images in the displacement of every sample, 1/mm.
pub(super) fn forces<D: Device>(
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
