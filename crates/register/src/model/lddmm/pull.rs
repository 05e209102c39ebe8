//! Data terms at the end of a path, and their gradient in the velocities along it.

use super::Work;
use super::path::Path;
use crate::attachment::images::{Moved, seen};
use crate::error::Result;
use crate::model::points::{between, by_smallest, diagonal, lattice};
use crate::model::pull::Pull;
use crate::similarity::{Images, PendingEnergies};
use voxalign_compute::ops::elementwise::{constant, param, x};
use voxalign_compute::ops::points::Carriage;
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, DeviceBuffer, IDENTITY};
use voxalign_image::{Affine, Grid, Index, Vector3, World};

impl<D: Device> Work<D> {
    /// Evaluates what pulls, with the flow of the whole path in `field`: the energies, and the forces at the points of each
    /// attachment that has some. The derivatives of images are kept for [`push`](Self::push).
    pub(super) fn pulled(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        path: &Path<D>,
        grid: &Grid,
        (affine, moved): (&Affine, &[Moved<D>]),
        alone: bool,
    ) -> Result<(PendingEnergies, Vec<Trajectories<D>>)> {
        let Pull { mut sources, fixed, counts, .. } = pull;
        let (dims, steps, share) = (path.dims, path.time_steps, sources.share);
        let Self { every, images, derivatives, channels, velocity, field, forces, .. } = self;
        let to_moving = grid.to_world().then(affine);
        let mut ways = Vec::new();
        for attachment in sources.all() {
            let Some([places, others]) = attachment.needs().places else { continue };
            let mut at = device.alloc::<f32>(places.at().len())?;
            let map = between(grid.to_index(), places.origin(), &Vector3::zeros());
            device.map_points(&map, places.at(), &mut at)?;
            let way = Trajectories::new(device, path, velocity, at)?;
            ways.push(way.ending(device, &to_moving, others.origin())?);
        }
        let now = if alone { seen(device, moved, 0, field, dims)? } else { None };
        // The last segment ends with the image that all of the flow has moved.
        let last = (steps - 1) % *every;
        channels.clear();
        let energies = counts.under(device, field, dims, now, |weights| {
            let pairs = fixed.iter().zip(&*images);
            let images: Vec<_> = pairs
                .map(|(fixed, moved)| {
                    let (reference, moved, reference_moves) = (fixed.values, &moved[last], false);
                    Images { reference, moved, weights, dims, reference_moves }
                })
                .collect();
            let ends =
                ways.iter_mut().map(|(_, End { there, covectors, .. })| vec![(&*there, covectors)]);
            sources.evaluate(device, &images, ends, &mut forces.derivatives, |of, room| {
                for (channel, derivative) in of.zip(&mut room[0]) {
                    if derivatives.len() == channels.len() {
                        derivatives.push(device.alloc(dims.iter().product())?);
                    }
                    std::mem::swap(derivative, &mut derivatives[channels.len()]);
                    channels.push(channel);
                }
                Ok(())
            })
        })?;
        let forced =
            |(way, end): (Trajectories<D>, End<D>)| way.forced(device, path, velocity, &end, share);
        Ok((energies, ways.into_iter().map(forced).collect::<Result<_>>()?))
    }

    /// The force of images of a time step, at whose end the images of the segment with the number `image` are and from where
    /// `field` flows to the end of the path.
    pub(super) fn push(&mut self, device: &D, image: usize) -> Result<()> {
        let Self { derivatives, channels, jacobian, field, forces, images, .. } = self;
        let (dims, linear) = (forces.dims, Interpolation::Linear);
        forces.begin();
        // What an attachment had room for has been kept.
        let mut room = std::mem::take(&mut forces.derivatives[0]);
        if let Some(moved) = room.first_mut() {
            device.jacobian_determinant(field, dims, jacobian)?;
            for (derivative, &channel) in derivatives.iter().zip(&*channels) {
                device.warp_field(derivative, dims, &IDENTITY, field, dims, linear, 0.0, moved)?;
                device.eval_in_place(&(x(0) * x(1)), moved, &[jacobian], &[], None)?;
                forces.push(device, 0, moved, &images[channel][image])?;
            }
        }
        forces.derivatives[0] = room;
        forces.end(device)
    }

    /// How stiff the energies of points are along their ways: what forces as large as their second derivatives make of the velocity, the
    /// largest of all time steps in every voxel, smallest voxels of the grid.
    pub(super) fn stiffness(
        &mut self,
        device: &D,
        path: &Path<D>,
        grid: &Grid,
        (ways, stiffness): (&[Trajectories<D>], &[Vec<f32>]),
        share: f64,
    ) -> Result<D::Buffer<f32>> {
        let (dims, smallest) = (path.dims, self.forces.smallest);
        let mut most = device.alloc::<f32>(3 * grid.len())?;
        device.eval_in_place(&constant(0.0), &mut most, &[], &[], None)?;
        let factor = (share * smallest * smallest) as f32;
        let scaled = |each: &Vec<f32>| {
            let each: Vec<f32> = each.iter().map(|h| h * factor).collect();
            device.upload_vec(each.repeat(3))
        };
        let values = stiffness.iter().map(scaled).collect::<voxalign_compute::Result<Vec<_>>>()?;
        for j in 0..path.time_steps {
            let force = &mut self.forces.sum;
            device.eval_in_place(&constant(0.0), force, &[], &[], None)?;
            for (way, values) in ways.iter().zip(&values) {
                device.add_splat(values, &way.at[j], lattice(dims), force)?;
            }
            self.solver.restart();
            device.eval_in_place(&constant(0.0), &mut self.solution, &[], &[], None)?;
            self.solver.solve(force, &mut self.solution)?;
            let larger = x(0).max(x(1)).max(param(0));
            device.eval_in_place(&larger, &mut most, &[&self.solution], &[0.0], None)?;
        }
        self.solver.restart();
        device.eval_in_place(&constant(0.0), &mut self.solution, &[], &[], None)?;
        Ok(most)
    }
}

/// The ways of points along a path, backward in time.
pub(super) struct Trajectories<D: Device> {
    /// Of each time step, the last one first, where points are at its end, voxels.
    pub(super) at: Vec<D::Buffer<f32>>,
    /// Of each time step, the last one last, the forces there by the smallest voxel.
    pub(super) forces: Vec<D::Buffer<f32>>,
    /// Where they are at time 0.
    ends: D::Buffer<f32>,
}

/// Where points are at the end of their ways.
pub(super) struct End<D: Device> {
    /// In the moving world, mm from an origin.
    there: D::Buffer<f32>,
    covectors: D::Buffer<f32>,
    /// From voxels of the grid to there.
    map: voxalign_compute::AffineMap,
}

impl<D: Device> Trajectories<D> {
    /// Of points at the end of the path, voxels of its grid; `room` is for velocities.
    pub(super) fn new(
        device: &D,
        path: &Path<D>,
        room: &mut D::Buffer<f32>,
        ends: D::Buffer<f32>,
    ) -> Result<Self> {
        let mut ways = Self { at: Vec::new(), forces: Vec::new(), ends };
        for kept in path.velocities.iter().rev() {
            let mut before = device.alloc::<f32>(ways.ends.len())?;
            let carriage = back(path, kept.view(device, room)?);
            device.carry_points(&carriage, &ways.ends, &mut before)?;
            ways.at.push(std::mem::replace(&mut ways.ends, before));
        }
        Ok(ways)
    }

    /// With where they end in the moving world, relative to an origin of it.
    fn ending(
        self,
        device: &D,
        to_moving: &Affine<Index, World>,
        origin: &Vector3<f64>,
    ) -> Result<(Self, End<D>)> {
        let map = between(to_moving, &Vector3::zeros(), origin);
        let len = self.ends.len();
        let [mut there, covectors] = [device.alloc::<f32>(len)?, device.alloc::<f32>(len)?];
        device.map_points(&map, &self.ends, &mut there)?;
        Ok((self, End { there, covectors, map }))
    }

    /// With the forces that the covectors at their end make of each time step, times a factor: see the head of the model.
    fn forced(
        mut self,
        device: &D,
        path: &Path<D>,
        room: &mut D::Buffer<f32>,
        end: &End<D>,
        factor: f64,
    ) -> Result<Self> {
        let len = self.ends.len();
        let mut covectors = device.alloc::<f32>(len)?;
        device.map_covectors(&end.map, &end.covectors, &mut covectors)?;
        self.push(device, path, room, covectors, factor)?;
        Ok(self)
    }

    /// Carries covectors at time 0, by voxels, to the end of each time step, and keeps what force they are there.
    fn push(
        &mut self,
        device: &D,
        path: &Path<D>,
        room: &mut D::Buffer<f32>,
        mut covectors: D::Buffer<f32>,
        factor: f64,
    ) -> Result<()> {
        let len = covectors.len();
        let by = diagonal(by_smallest(path.dims, path.spacing, factor));
        let mut next = device.alloc::<f32>(len)?;
        for (j, (kept, at)) in path.velocities.iter().zip(self.at.iter().rev()).enumerate() {
            let mut force = device.alloc::<f32>(len)?;
            device.map_points(&by, &covectors, &mut force)?;
            self.forces.push(force);
            if j + 1 < path.time_steps {
                let carriage = back(path, kept.view(device, room)?);
                device.pull_back(&carriage, at, &covectors, &mut next)?;
                std::mem::swap(&mut covectors, &mut next);
            }
        }
        Ok(())
    }
}

/// The map of points over a time step, backward in time.
fn back<'a, D: Device>(path: &Path<D>, velocity: &'a D::Buffer<f32>) -> Carriage<'a, D> {
    let (lattice, scale) = (lattice(path.dims), path.step(-1.0).scale);
    Carriage { field: velocity, lattice, scale, map: IDENTITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lddmm::Storage;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;
    use voxalign_compute::ops::Splat;

    const STEPS: usize = 4;

    fn grid() -> Grid {
        Grid::axis_aligned([12, 10, 9], [1.0, 1.5, 2.0]).unwrap()
    }

    /// Velocities with a part of others.
    fn velocities(j: usize, part: f64) -> Vec<f32> {
        let n = grid().len();
        let at = |i: usize, phase: f64| ((i + 7 * j) as f64 * 0.13 + phase).sin();
        (0..3 * n).map(|i| (1.2 * at(i, 0.0) + part * at(3 * i, 1.0)) as f32).collect()
    }

    fn path(device: &Cpu, part: f64) -> Path<Cpu> {
        let mut path = Path::new(STEPS, Storage::Full);
        path.go_to(device, &grid()).unwrap();
        for (j, kept) in path.velocities.iter_mut().enumerate() {
            kept.set(device, device.upload(&velocities(j, part)).unwrap()).unwrap();
        }
        path
    }

    /// All x, then all y, then all z of a list.
    fn listed(of: impl Fn(usize) -> Vector3<f64>) -> Vec<f32> {
        (0..3).flat_map(|a| (0..9).map(move |i| (a, i))).map(|(a, i)| of(i)[a] as f32).collect()
    }

    fn ways(device: &Cpu, path: &Path<Cpu>) -> Trajectories<Cpu> {
        let at = |i: usize| Vector3::new(2.3 + 0.7 * i as f64, 8.1 - 0.6 * i as f64, 4.4);
        let mut room = path.room(device, 3 * grid().len()).unwrap();
        let at = device.upload(&listed(at)).unwrap();
        Trajectories::new(device, path, &mut room, at).unwrap()
    }

    fn covector(i: usize) -> Vector3<f64> {
        Vector3::new(1.0, 0.3 * i as f64, -0.7)
    }

    #[test]
    fn forces_are_the_gradient_in_the_velocities() {
        let device = Cpu::new(Some(2)).unwrap();
        let energy = |part: f64| -> f64 {
            let ends = device.into_host(ways(&device, &path(&device, part)).ends).unwrap();
            let products = ends.iter().zip(listed(covector));
            products.map(|(p, c)| f64::from(*p) * f64::from(c)).sum()
        };
        let h = 1e-2;
        let expected = (energy(h) - energy(-h)) / (2.0 * h);
        let path = path(&device, 0.0);
        let mut ways = ways(&device, &path);
        let mut room = path.room(&device, 3 * grid().len()).unwrap();
        let covectors = device.upload(&listed(covector)).unwrap();
        ways.push(&device, &path, &mut room, covectors, 1.0).unwrap();
        let mut found = 0.0;
        for j in 0..STEPS {
            let mut force = device.alloc(3 * grid().len()).unwrap();
            let (forces, at) = (&ways.forces[j], &ways.at[STEPS - 1 - j]);
            device.add_splat(forces, at, lattice(path.dims), &mut force).unwrap();
            let force = device.into_host(force).unwrap();
            let along = velocities(j, 1.0).into_iter().zip(velocities(j, 0.0));
            let dot = along.zip(force).map(|((a, b), f)| f64::from(a - b) * f64::from(f));
            // A velocity goes back in time.
            found -= dot.sum::<f64>() / STEPS as f64;
        }
        assert!((found - expected).abs() < 3e-3 * expected.abs(), "{found} is not {expected}");
        assert!(expected.abs() > 0.1);
    }
}
