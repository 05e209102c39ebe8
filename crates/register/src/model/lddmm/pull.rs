//! What pulls at the end of a path, and the forces of that on the velocities before.

use super::Work;
use super::path::Path;
use crate::attachment::{Gradient, Maps};
use crate::error::Result;
use crate::model::points::{Splat, sample};
use crate::model::pull::{Pull, of_channels};
use crate::similarity::{Images, PendingEnergy};
use voxalign_compute::ops::elementwise::{constant, x};
use voxalign_compute::ops::resample::Interpolation;
use voxalign_compute::{Device, IDENTITY};
use voxalign_image::{Affine, Grid, Matrix3, Vector3};

/// What pulls at the end of a path.
pub(super) struct Pulled {
    pub(super) energy: PendingEnergy,
    /// For each time step the forces at points.
    pub(super) splats: Vec<Splat>,
}

impl<D: Device> Work<D> {
    /// Evaluates what pulls, with the flow of the whole path in `field`; the slopes of images are kept for
    /// [`push`](Self::push).
    pub(super) fn pulled(
        &mut self,
        device: &D,
        pull: Pull<'_, D>,
        path: &Path<D>,
        grid: &Grid,
        affine: &Affine,
    ) -> Result<Pulled> {
        let Pull { attachments, fixed, counts, .. } = pull;
        let (dims, steps) = (path.dims, path.time_steps);
        let n = dims.iter().product();
        let splats = (0..steps).map(|_| Splat::new(dims, path.spacing)).collect();
        let mut pulled = Pulled { energy: PendingEnergy::default(), splats };
        let Self { every, images, slopes, channels, velocity, field, .. } = self;
        // The last segment ends with the image that all of the flow has moved.
        let last = (steps - 1) % *every;
        channels.clear();
        counts.under(device, field, dims, |weights| {
            let pairs = fixed.iter().zip(&*images);
            let images: Vec<_> = pairs
                .map(|(fixed, moved)| {
                    let (reference, moved, reference_moves) = (fixed.values, &moved[last], false);
                    Images { reference, moved, weights, dims, reference_moves }
                })
                .collect();
            for attachment in attachments {
                let needs = attachment.needs();
                let images = of_channels(&images, &needs.channels)?;
                let first = channels.len();
                channels.extend(needs.channels.clone());
                while slopes.len() < channels.len() {
                    slopes.push(device.alloc(n)?);
                }
                let at = needs.fixed_points.iter().map(|&p| grid.world_to_index(p)).collect();
                let ways = Trajectories::new(device, path, velocity, at)?;
                let to_moving = grid.to_world().then(affine);
                let to: Vec<_> = ways.ends.iter().map(|&p| to_moving.apply(p)).collect();
                let mut covectors = vec![Vector3::zeros(); to.len()];
                let at = Maps { images, fixed_points: &to, moving_points: &[] };
                let mut out = Gradient {
                    slopes: &mut slopes[first..channels.len()],
                    reference_slopes: &mut [],
                    fixed_covectors: &mut covectors,
                    moving_covectors: &mut [],
                };
                pulled.energy.add(attachment.evaluate(device, &at, &mut out)?);
                let back = to_moving.matrix.transpose();
                ways.push(covectors.iter().map(|c| back * c).collect(), &mut pulled.splats);
            }
            Ok(())
        })?;
        Ok(pulled)
    }

    /// The force of a time step, at whose end the images of the segment with the number `image` are and from where
    /// `field` flows to the end of the path.
    pub(super) fn push(
        &mut self,
        device: &D,
        path: &Path<D>,
        image: usize,
        splat: Option<Splat>,
    ) -> Result<()> {
        let (dims, spacing) = (path.dims, path.spacing);
        let Self { slopes, channels, moved_slope, jacobian, field, force, images, .. } = self;
        if channels.is_empty() {
            device.eval_in_place(&constant(0.0), force, &[], &[], None)?;
        } else {
            device.jacobian_determinant(field, dims, jacobian)?;
        }
        let linear = Interpolation::Linear;
        for (i, (slope, &channel)) in slopes.iter().zip(&*channels).enumerate() {
            device.warp_field(slope, dims, &IDENTITY, field, dims, linear, 0.0, moved_slope)?;
            device.eval_in_place(&(x(0) * x(1)), moved_slope, &[jacobian], &[], None)?;
            device.force(moved_slope, &images[channel][image], dims, spacing, i > 0, force)?;
        }
        splat.map_or(Ok(()), |splat| splat.onto(device, force))
    }
}

/// The ways of points along a path, backward in time.
struct Trajectories {
    /// Of each time step, the last one first, where points are at its end, voxels.
    at: Vec<Vec<Vector3<f64>>>,
    /// How where they are at its beginning follows from that.
    slopes: Vec<Vec<Matrix3<f64>>>,
    /// Where they are at time 0.
    ends: Vec<Vector3<f64>>,
}

impl Trajectories {
    /// Of points at the end of the path, voxels of its grid; `room` is for velocities.
    fn new<D: Device>(
        device: &D,
        path: &Path<D>,
        room: &mut D::Buffer<f32>,
        ends: Vec<Vector3<f64>>,
    ) -> Result<Self> {
        let mut ways = Self { at: Vec::new(), slopes: Vec::new(), ends };
        if ways.ends.is_empty() {
            return Ok(ways);
        }
        let back = Matrix3::from_diagonal(&Vector3::from(path.step(-1.0).scale));
        for kept in path.velocities.iter().rev() {
            let velocity = kept.view(device, room)?;
            let samples = sample(device, velocity, path.dims, &ways.ends)?;
            let slope = samples.iter().map(|s| Matrix3::identity() + back * s.derivative);
            ways.slopes.push(slope.collect());
            let before = ways.ends.iter().zip(&samples).map(|(p, s)| p + back * s.value);
            let before = before.collect();
            ways.at.push(std::mem::replace(&mut ways.ends, before));
        }
        Ok(ways)
    }

    /// Adds the forces of covectors at time 0, by voxels, to those of each time step.
    fn push(self, mut covectors: Vec<Vector3<f64>>, splats: &mut [Splat]) {
        let steps = self.at.iter().zip(&self.slopes).rev();
        for ((at, slopes), splat) in steps.zip(splats) {
            splat.add(at.iter().copied().zip(covectors.iter().copied()), 1.0);
            for (covector, slope) in covectors.iter_mut().zip(slopes) {
                *covector = slope.transpose() * *covector;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lddmm::Storage;
    use voxalign_compute::Memory;
    use voxalign_compute::cpu::Cpu;

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

    fn ways(device: &Cpu, path: &Path<Cpu>) -> Trajectories {
        let at = |i: usize| Vector3::new(2.3 + 0.7 * i as f64, 8.1 - 0.6 * i as f64, 4.4);
        let mut room = path.room(device, 3 * grid().len()).unwrap();
        Trajectories::new(device, path, &mut room, (0..9).map(at).collect()).unwrap()
    }

    fn covector(i: usize) -> Vector3<f64> {
        Vector3::new(1.0, 0.3 * i as f64, -0.7)
    }

    #[test]
    fn forces_are_the_gradient_in_the_velocities() {
        let device = Cpu::new(Some(2)).unwrap();
        let energy = |part: f64| -> f64 {
            let ends = ways(&device, &path(&device, part)).ends;
            ends.iter().enumerate().map(|(i, p)| covector(i).dot(p)).sum()
        };
        let h = 1e-3;
        let expected = (energy(h) - energy(-h)) / (2.0 * h);
        let path = path(&device, 0.0);
        let mut splats: Vec<_> = (0..STEPS).map(|_| Splat::new(path.dims, path.spacing)).collect();
        ways(&device, &path).push((0..9).map(covector).collect(), &mut splats);
        let mut found = 0.0;
        for (j, splat) in splats.into_iter().enumerate() {
            let mut force = device.alloc(3 * grid().len()).unwrap();
            splat.onto(&device, &mut force).unwrap();
            let force = device.into_host(force).unwrap();
            let along = velocities(j, 1.0).into_iter().zip(velocities(j, 0.0));
            let dot = along.zip(force).map(|((a, b), f)| f64::from(a - b) * f64::from(f));
            // A velocity goes back in time.
            found -= dot.sum::<f64>() / STEPS as f64;
        }
        assert!((found - expected).abs() < 1e-3 * expected.abs(), "{found} is not {expected}");
        assert!(expected.abs() > 0.1);
    }
}
