//! Simulated X-ray images of a volume.

use super::view::ray_view;
use crate::error::Result;
use voxalign_compute::Device;
use voxalign_compute::ops::raycast::{Along, Pixels, RayView, Traversal};
use voxalign_image::{Affine, Grid, Volume, XrayGeometry};

/// A volume of attenuations on a device, of which X-ray images are made.
///
/// ```
/// use voxalign_compute::cpu::Cpu;
/// use voxalign_compute::ops::raycast::{Along, Traversal};
/// use voxalign_image::{Affine, CArm, Grid, Vector3, Volume};
/// use voxalign_register::projection::Simulator;
///
/// // A cube of water, 80 mm wide, seen from the front.
/// let grid = Grid::axis_aligned([40, 40, 40], [2.0; 3])?;
/// let centre = grid.centre();
/// let water = Volume::from_fn(grid, |_, _, _| 0.02f32);
/// let view = CArm {
///     source_to_isocentre: 800.0,
///     source_to_detector: 1200.0,
///     isocentre: centre,
///     primary: 0.0,
///     secondary: 0.0,
///     pixel_size: [1.0, 1.0],
///     dims: [31, 31],
///     centre: None,
/// };
/// let device = Cpu::new(None)?;
/// let simulator = Simulator::new(&device, &water)?;
/// let traversal = Traversal::trilinear(1.0);
/// let image = simulator.image(&view.geometry()?, &Affine::identity(), traversal, Along::Integral)?;
/// assert!((image[15 * 31 + 15] - 80.0 * 0.02).abs() < 0.02);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulator<'a, D: Device> {
    pub(super) device: &'a D,
    pub(super) volume: D::RayVolume,
    pub(super) grid: Grid,
}

impl<'a, D: Device> Simulator<'a, D> {
    /// Of a volume of attenuations, 1/mm.
    ///
    /// # Errors
    /// A volume that is too large; too little memory.
    pub fn new(device: &'a D, volume: &Volume<f32>) -> Result<Self> {
        let grid = volume.grid().clone();
        let values = device.upload(volume.data())?;
        Ok(Self { device, volume: device.ray_volume(&values, grid.dims())?, grid })
    }

    /// The grid of the volume.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// The image of a view, row by row, where `pose` maps the room to the world of the volume.
    ///
    /// # Errors
    /// A view or a step that cannot be; what fails on the device.
    pub fn image(
        &self,
        view: &XrayGeometry,
        pose: &Affine,
        traversal: Traversal,
        along: Along,
    ) -> Result<Vec<f32>> {
        let pixels = Pixels::region([0, 0], view.dims());
        self.images(&[ray_view(view, pose, &self.grid)], &pixels, traversal, along)
    }

    /// The images of several views at the same pixels, one after the other.
    ///
    /// # Errors
    /// As [`image`](Self::image).
    pub fn images(
        &self,
        rays: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        along: Along,
    ) -> Result<Vec<f32>> {
        let mut out = self.device.alloc(rays.len() * pixels.len())?;
        self.device.project(&self.volume, rays, pixels, traversal, along, &mut out)?;
        Ok(self.device.into_host(out)?)
    }
}
