//! The volumes and views of the measurements.

use super::plan::Plan;
use clap::ValueEnum;
use voxalign_compute::cpu::{Cpu, CpuRayVolume};
use voxalign_compute::ops::Raycast;
use voxalign_compute::ops::raycast::{Pixels, RayView};
use voxalign_compute::select::{AnyDevice, AnyRayVolume};
use voxalign_compute::{Memory, bench::rays};
use voxalign_image::memory::{amount, host};
use voxalign_image::{
    Affine, AffineParameters, CArm, Gantry, Grid, Matrix3, Vector3, Volume, XrayGeometry,
};
use voxalign_jobs::{Error, Result};
use voxalign_options::text;
use voxalign_population::atlas::SplitMix64;
use voxalign_register::projection::phantom::Phantom;

/// A volume of Tornai 2014.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sizes {
    /// 512x512x72 voxels of 0.521, 0.521 and 1.25 mm
    Spine,
    /// 512x512x825 voxels of 0.566, 0.566 and 0.4 mm
    Long,
}

impl Sizes {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Spine => "spine",
            Self::Long => "long",
        }
    }

    fn of(self) -> ([usize; 3], [f64; 3]) {
        match self {
            Self::Spine => ([512, 512, 72], [0.521, 0.521, 1.25]),
            Self::Long => ([512, 512, 825], [0.566, 0.566, 0.4]),
        }
    }

    pub(super) fn scene(self, coarser: usize) -> Result<Scene> {
        let (dims, spacing) = self.of();
        Scene::new(dims, spacing, coarser)
    }
}

/// A trunk in voxels about the origin of the world.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) grid: Grid,
}

impl Scene {
    /// Of this many voxels of a size, or of fewer that are `coarser`.
    pub(super) fn new(dims: [usize; 3], spacing: [f64; 3], coarser: usize) -> Result<Self> {
        let dims = dims.map(|n| n.div_ceil(coarser));
        let spacing = spacing.map(|s| s * coarser as f64);
        let matrix = Matrix3::from_diagonal(&Vector3::from(spacing));
        let first = [0, 1, 2].map(|a| -spacing[a] * (dims[a] as f64 - 1.0) / 2.0);
        Ok(Self { grid: Grid::new(dims, Affine::new(matrix, Vector3::from(first)))? })
    }

    /// Its sizes and those of its voxels.
    pub(super) fn words(&self) -> String {
        let [x, y, z] = self.grid.spacing();
        format!("{} voxels of {x:.3} x {y:.3} x {z:.3} mm", super::Size(self.grid.dims()))
    }

    fn values(&self) -> Result<Volume<f32>> {
        Ok(Phantom::body().volume(&self.grid)?)
    }

    /// On a device.
    pub(super) fn on(&self, device: &AnyDevice) -> Result<AnyRayVolume> {
        self.check_memory(device)?;
        let (_, data) = self.values()?.into_parts();
        let values = device.upload_vec(data)?;
        Ok(device.ray_volume(&values, self.grid.dims())?)
    }

    /// In the memory of the host.
    pub(super) fn on_cpu(&self, cpu: &Cpu) -> Result<CpuRayVolume> {
        self.check_memory(&AnyDevice::Cpu(cpu.clone()))?;
        let (_, data) = self.values()?.into_parts();
        Ok(cpu.ray_volume(&cpu.upload_vec(data)?, self.grid.dims())?)
    }

    /// Said before anything is made.
    fn check_memory(&self, device: &AnyDevice) -> Result<()> {
        let bytes = 4 * self.grid.len() as u64;
        // Values, with a border, and for texture units; those of the host are those of the CPU.
        let (of_device, of_host) = match device {
            AnyDevice::Cpu(_) => (2 * bytes, 2 * bytes),
            AnyDevice::Cuda(_) => (3 * bytes, bytes),
        };
        for (place, needed, free) in [
            (device.name(), of_device, device.memory().free),
            ("the host".to_owned(), of_host, host().free),
        ] {
            if let Some(free) = free.filter(|free| needed > *free) {
                return Err(Error::Memory(text!(
                    "a volume of {} needs {} of memory, and {place} has {} free; give `volumes = spine`, \
                     or `coarser = 2` for voxels twice as long",
                    super::Size(self.grid.dims()),
                    amount(needed),
                    amount(free),
                )));
            }
        }
        Ok(())
    }

    /// The number of samples that the rays of these views take.
    pub(super) fn samples(
        &self,
        cpu: &Cpu,
        volume: &CpuRayVolume,
        camera: &Camera,
        poses: &[Affine],
        pixels: &Pixels,
    ) -> Result<rays::Samples> {
        let views = poses.iter().map(|pose| camera.view(&self.grid, pose));
        let views = views.collect::<Result<Vec<_>>>()?;
        Ok(rays::samples(cpu, volume, &views, pixels, camera.step)?)
    }
}

/// Source, detector, the region of its pixels that is looked at, and the distance of the samples.
#[derive(Debug, Clone)]
pub(super) struct Camera {
    geometry: XrayGeometry,
    first: [usize; 2],
    dims: [usize; 2],
    /// mm.
    pub(super) step: f64,
}

/// From the source to the isocentre and to the detector, mm.
const DISTANCES: [f64; 2] = [1000.0, 1536.0];
const BATCH_DISTANCES: [f64; 2] = [850.0, 1020.0];
/// Planes of samples from source to detector in a batch.
const BATCH_PLANES: f64 = 500.0;

/// A source in front of a patient on the back, distances as above.
fn geometry([isocentre, detector]: [f64; 2], pixel: f64, dims: [usize; 2]) -> Result<XrayGeometry> {
    let arm = CArm {
        source_to_isocentre: isocentre,
        source_to_detector: detector,
        isocentre: Vector3::zeros(),
        primary: 0.0,
        secondary: 0.0,
        pixel_size: [pixel; 2],
        dims,
        centre: None,
    };
    Ok(Gantry { arm, angle: Gantry::AP }.geometry()?)
}

impl Camera {
    /// A detector of 300 mm and 750 pixels, with a region about its middle; samples a voxel of [`Sizes::Spine`] apart.
    pub(super) fn region(plan: &Plan) -> Result<Self> {
        let (size, dims) = (750, plan.region);
        let first = dims.map(|n| (size - n) / 2);
        let step = 0.521 * plan.coarser as f64;
        Ok(Self { geometry: geometry(DISTANCES, 0.4, [size; 2])?, first, dims, step })
    }

    /// The detector of a batch, of 400 mm.
    pub(super) fn batch(plan: &Plan) -> Result<Self> {
        let n = plan.frame;
        let geometry = geometry(BATCH_DISTANCES, 400.0 / n as f64, [n; 2])?;
        let step = BATCH_DISTANCES[1] / BATCH_PLANES;
        Ok(Self { geometry, first: [0; 2], dims: [n; 2], step })
    }

    /// All pixels of the region.
    pub(super) fn all(&self) -> Pixels {
        Pixels::region(self.first, self.dims)
    }

    /// This many random ones; all of them in order for the total number.
    pub(super) fn drawn(&self, count: usize, seed: u64) -> Pixels {
        Pixels::drawn(self.first, self.dims, [1, 1], count, seed)
    }

    /// The view of a volume that a pose has moved.
    pub(super) fn view(&self, grid: &Grid, pose: &Affine) -> Result<RayView> {
        let places =
            |v: &XrayGeometry| [v.source(), v.origin(), v.column(), v.row()].map(<[f64; 3]>::from);
        let in_volume = self.geometry.mapped(&pose.inverse()?);
        // From the world of the volume to its voxels.
        let to_index = Affine::from_rows(grid.to_index().rows());
        Ok(RayView { places: places(&in_volume.mapped(&to_index)), world: places(&self.geometry) })
    }
}

/// Random poses: rotated by up to 15 degrees about each axis and translated by up to 20 mm along each, uniformly
/// distributed.
#[derive(Debug)]
pub(super) struct Poses(SplitMix64);

impl Poses {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// The next one.
    pub(super) fn draw(&mut self) -> Affine {
        let mut vector = |most: f64| {
            let unit = [0; 3].map(|_| (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64);
            Vector3::from(unit.map(|u| most * (2.0 * u - 1.0)))
        };
        let (rotation, translation) = (vector(15f64.to_radians()), vector(20.0));
        let centre = Vector3::zeros();
        let identity = AffineParameters::identity(centre);
        AffineParameters { rotation, translation, ..identity }.to_affine()
    }

    /// This many of them.
    pub(super) fn take(&mut self, count: usize) -> Vec<Affine> {
        (0..count).map(|_| self.draw()).collect()
    }

    /// A seed for pixels.
    pub(super) fn seed(&mut self) -> u64 {
        self.0.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is 10 mm above the middle of a volume is seen there, moved by the pose.
    #[test]
    fn poses_move_what_is_seen() {
        let scene = Scene::new([64, 60, 40], [2.0, 2.0, 3.0], 1).unwrap();
        let camera = Camera::region(&Plan::default()).unwrap();
        assert_eq!(camera.first, [175, 262]);
        let pose = Affine::translation(Vector3::new(0.0, 0.0, 10.0));
        for (pose, row) in [(Affine::identity(), 374.5), (pose, 374.5 - 15.36 / 0.4)] {
            let view = camera.view(&scene.grid, &pose).unwrap();
            let [source, origin, columns, rows] = view.places;
            // The ray of the pixel through the middle of the volume.
            let at = |u: f64, v: f64, a: usize| origin[a] + u * columns[a] + v * rows[a];
            for a in 0..3 {
                let place = source[a] + (at(374.5, row, a) - source[a]) * (1000.0 / 1536.0);
                let middle = [31.5, 29.5, 19.5][a];
                assert!((place - middle).abs() < 1e-9, "{a}: {place} {middle}");
            }
            assert!((view.depth() - 1536.0).abs() < 1e-9);
        }
        let mut poses = Poses::new(3);
        for pose in poses.take(50) {
            let moved = pose.apply(Vector3::zeros());
            assert!(moved.iter().all(|x| x.abs() <= 20.0) && moved.norm() > 0.1);
        }
    }
}
