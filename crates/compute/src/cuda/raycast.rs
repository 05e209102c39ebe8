//! Rays through volumes on the GPU.

use super::gpu::Texture;
use super::{Cuda, CudaBuffer, Shape, Target};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::raycast::{
    Along, Filtering, Pixels, RayFrame, RayView, Traversable, Traversal, ViewSlopes, adjoint_units,
    bricks, check_backproject, check_pick, check_project, check_ray_volume, check_slopes,
    check_weights, leaps,
};
use crate::ops::reduce::Reduction;
use crate::ops::{Accumulate, Raycast, Reduce};

kernels! { pub(crate) RAYCAST = "raycast/raycast.cu";
    fn padded[256](values: &[f32], volume: Volume, out: &mut [f32]);
    fn occupied[256](values: &[f32], volume: Volume, occupied: &mut [u32]);
    fn integrals_exact[512](
        values: &[f32], leaps: &[f32], volume: Volume, frames: &[f32],
        pixels: PixelSet, count: u32, share: u32, first_view: u32, out: &mut [f32],
    );
    fn integrals_quick[512](
        values: &[f32], leaps: &[f32], volume: Volume, frames: &[f32],
        pixels: PixelSet, count: u32, share: u32, first_view: u32, out: &mut [f32],
    );
    fn maxima_exact[512](
        values: &[f32], leaps: &[f32], volume: Volume, frames: &[f32],
        pixels: PixelSet, count: u32, share: u32, first_view: u32, out: &mut [f32],
    );
    fn maxima_quick[512](
        values: &[f32], leaps: &[f32], volume: Volume, frames: &[f32],
        pixels: PixelSet, count: u32, share: u32, first_view: u32, out: &mut [f32],
    );
    fn integrals_with_slopes[256](
        values: &[f32], leaps: &[f32], volume: Volume, frames: &[f32], pixels: PixelSet,
        count: u32, share: u32, first_view: u32, out: &mut [f32], slopes: &mut [f32],
    );
    fn slope_sums[256](
        weights: &[f32], slopes: &[f32], pixels: PixelSet, count: u32, each: u32, sums: &mut [f64],
    );
    fn picked[256](image: &[f32], columns: u64, pixels: PixelSet, count: u32, out: &mut [f32]);
}

kernels! { WALKS = "raycast/adjoint.cu";
    fn walked[256](
        values: &[f32], volume: Volume, frames: &[f32], pixels: PixelSet, count: u32,
        kind: u32, maximum: u32, first_view: u32, out: &mut [f32],
    );
    fn spread[256](
        weights: &[f32], volume: Volume, frames: &[f32], pixels: PixelSet, count: u32,
        kind: u32, units: f64, first_view: u32, sums: &mut [i64],
    );
}

pub(super) const DECLARATIONS: &[&super::declare::Declaration] =
    &[&RAYCAST::DECLARATION, &WALKS::DECLARATION];

plain! {
    /// A volume: what texture units know it by, its sizes without the border, and those of the map of bricks.
    pub(crate) struct Volume as "RayVolume" {
        texture: u64,
        dims: [u32; 3],
        bricks: [u32; 3],
    }
}

plain! {
    /// Which pixels have rays.
    pub(crate) struct PixelSet as "RayPixels" {
        seed: u64,
        first: [u32; 2],
        dims: [u32; 2],
        tile: [u32; 2],
        tiles: u32,
        drawn: u32,
    }
}

impl From<&Pixels> for PixelSet {
    fn from(p: &Pixels) -> Self {
        let pair = |v: [usize; 2]| v.map(|x| x as u32);
        Self {
            seed: p.drawn.map_or(0, |d| d.seed),
            first: pair(p.first),
            dims: pair(p.dims),
            tile: pair(p.tile),
            tiles: p.tiles() as u32,
            drawn: u32::from(p.drawn.is_some()),
        }
    }
}

/// A volume for rays in the memory of a GPU.
#[derive(Debug)]
pub struct CudaRayVolume {
    dims: Dims,
    /// With a border of zeros, a voxel wide.
    values: CudaBuffer<f32>,
    /// How far rays may leap, for each brick.
    leaps: CudaBuffer<f32>,
    /// The same as the values; none where the device has none.
    texture: Option<Texture>,
}

impl Traversable for CudaRayVolume {
    fn dims(&self) -> Dims {
        self.dims
    }
}

impl CudaRayVolume {
    fn parameter(&self) -> Volume {
        volume(self.dims, self.texture.as_ref().map_or(0, Texture::object))
    }
}

fn volume(dims: Dims, texture: u64) -> Volume {
    Volume { texture, dims: dims.map(|n| n as u32), bricks: bricks(dims).map(|n| n as u32) }
}

/// How rays are put into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RayShape {
    /// Threads of a block.
    pub(crate) block: u32,
    /// How many threads go along a ray, as a power of two.
    pub(crate) share: u32,
}

/// What a launch of rays through interpolated values is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RayLaunch<'a> {
    pub(crate) kernels: &'a RAYCAST,
    pub(crate) rays: RayShape,
    /// Whether a texture unit interpolates.
    pub(crate) quick: bool,
    pub(crate) along: Along,
}

impl RayShape {
    /// For so many rays that are side by side in all views: few of them are shared by the threads that would have none.
    pub(crate) fn of(rays: usize, region: bool, multiprocessors: usize, slopes: bool) -> Self {
        // Threads that a multiprocessor has use for, from measurements (`voxalign bench drr`).
        let wanted = multiprocessors * if slopes { 512 } else { 1024 };
        let mut share = 0;
        while share < 5 && rays << (share + 1) <= wanted {
            share += 1;
        }
        let block = if region && share == 0 { 128 } else { 64 };
        Self { block, share }
    }

    /// The launch of views with these pixels.
    pub(crate) fn shape(self, pixels: &Pixels, views: usize) -> Shape {
        let threads = self.block.max(1 << self.share);
        let across = threads >> self.share;
        let (width, height, columns, rows) = match pixels.drawn {
            Some(_) => (across, 1, pixels.len(), 1),
            None => {
                // As square as it can be with a power of two along rows.
                let powers = (0..=across.trailing_zeros()).map(|p| 1u32 << p);
                let width = powers.filter(|w| w * w <= 2 * across).max().unwrap_or(1);
                (width, across / width, pixels.tile[0], pixels.tile[1])
            }
        };
        let blocks = |n: usize, size: u32| n.div_ceil(size as usize) as u32;
        Shape {
            grid: [blocks(columns, width), blocks(rows, height), views as u32],
            block: [width << self.share, height, 1],
            shared: 0,
        }
    }
}

/// The most views of a launch.
const VIEWS: usize = 32768;
/// The rays that a block sums.
const EACH: usize = 2048;

impl Cuda {
    pub(crate) fn frames(&self, frames: &[RayFrame]) -> Result<CudaBuffer<f32>> {
        let numbers: Vec<f32> = frames.iter().flat_map(RayFrame::numbers).collect();
        self.upload(&numbers)
    }

    /// Calls a launch with the numbers of its first and its last view.
    fn by_views(views: usize, mut launch: impl FnMut(u32, usize) -> Result<()>) -> Result<()> {
        let each = |first: usize| launch(first as u32, VIEWS.min(views - first));
        (0..views).step_by(VIEWS).try_for_each(each)
    }

    /// The images of so many views from the first of these on, of frames that are on the device; `out` has room for all frames.
    pub(crate) fn project_views(
        &self,
        launch: RayLaunch<'_>,
        volume: &CudaRayVolume,
        frames: &CudaBuffer<f32>,
        (first, views): (u32, usize),
        pixels: &Pixels,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let RayLaunch { kernels, rays, quick, along } = launch;
        let (set, share, count) = (PixelSet::from(pixels), rays.share, pixels.len() as u32);
        let quick = quick && (volume.texture.is_some() || self.is_emulated());
        let shape = rays.shape(pixels, views);
        let (values, leaps, parameter) = (&volume.values, &volume.leaps, volume.parameter());
        macro_rules! launch {
            ($kernel:ident) => {
                // SAFETY: values and leaps have the lengths that the sizes ask for, there are frames for all views, and
                // the output has a number for each pixel of each, which was checked.
                unsafe {
                    kernels.$kernel(
                        self, shape, values, leaps, parameter, frames, set, count, share, first, out,
                    )
                }
            };
        }
        match (along, quick) {
            (Along::Integral, false) => launch!(integrals_exact),
            (Along::Integral, true) => launch!(integrals_quick),
            (Along::Maximum, false) => launch!(maxima_exact),
            (Along::Maximum, true) => launch!(maxima_quick),
        }
    }
}

/// The number of a kind of traversal, and the blocks that go one ray a thread.
fn kind(traversal: Traversal) -> u32 {
    match traversal {
        Traversal::Trilinear { .. } => 0,
        Traversal::Siddon => 1,
        Traversal::Joseph => 2,
    }
}

const ALONE: RayShape = RayShape { block: 128, share: 0 };

impl Raycast for Cuda {
    type RayVolume = CudaRayVolume;

    fn ray_volume(&self, values: &CudaBuffer<f32>, dims: Dims) -> Result<CudaRayVolume> {
        let n = check_ray_volume(values.len(), dims)?;
        let padded_dims = dims.map(|n| n + 2);
        let padded: usize = padded_dims.iter().product();
        let bricks = bricks(dims);
        let mut with_border = self.alloc_unset(padded)?;
        let mut occupied = self.alloc::<u32>(bricks.iter().product())?;
        let parameter = volume(dims, 0);
        // SAFETY: `n` values are read, as many as were checked; the border makes `padded` of them; every voxel has its
        // cells within the bricks.
        unsafe {
            let shape = Shape::covering(padded, 256);
            RAYCAST.padded(self, shape, values, parameter, &mut with_border)?;
            let shape = Shape::covering(n, 256);
            RAYCAST.occupied(self, shape, values, parameter, &mut occupied)?;
        }
        let leaps = self.upload(&leaps(&self.into_host(occupied)?, bricks)?)?;
        let texture = match &self.0.target {
            Target::Gpu(gpu) => {
                // Nobody else is to use it before it is copied.
                let read = with_border.changed_by();
                // SAFETY: the buffer has the sizes.
                self.using(std::iter::once(read), || unsafe {
                    gpu.texture(read.address, padded_dims)
                })?
            }
            Target::Emulated(_) => None,
        };
        Ok(CudaRayVolume { dims, values: with_border, leaps, texture })
    }

    fn project(
        &self,
        volume: &CudaRayVolume,
        views: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        along: Along,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let frames = check_project(volume.dims, views, pixels, traversal, out.len())?;
        let on_device = self.frames(&frames)?;
        if let Traversal::Trilinear { filtering, .. } = traversal {
            let (n, region) = (pixels.len() * views.len(), pixels.drawn.is_none());
            let rays = RayShape::of(n, region, self.multiprocessors(), false);
            let quick = filtering == Filtering::Texture;
            let launch = RayLaunch { kernels: &RAYCAST, rays, quick, along };
            return Self::by_views(frames.len(), |first, views| {
                self.project_views(launch, volume, &on_device, (first, views), pixels, out)
            });
        }
        let (set, count) = (PixelSet::from(pixels), pixels.len() as u32);
        let maximum = u32::from(along == Along::Maximum);
        Self::by_views(frames.len(), |first, views| {
            let (shape, parameter) = (ALONE.shape(pixels, views), volume.parameter());
            // SAFETY: as for the other kernels.
            unsafe {
                WALKS.walked(
                    self,
                    shape,
                    &volume.values,
                    parameter,
                    &on_device,
                    set,
                    count,
                    kind(traversal),
                    maximum,
                    first,
                    &mut *out,
                )
            }
        })
    }

    fn project_with_slopes(
        &self,
        volume: &CudaRayVolume,
        views: &[RayView],
        pixels: &Pixels,
        step: f64,
        out: &mut CudaBuffer<f32>,
        slopes: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let traversal = Traversal::Trilinear { step, filtering: Filtering::Exact };
        let frames = check_project(volume.dims, views, pixels, traversal, out.len())?;
        check_slopes(views.len(), pixels, slopes.len())?;
        let on_device = self.frames(&frames)?;
        let (set, count) = (PixelSet::from(pixels), pixels.len() as u32);
        let region = pixels.drawn.is_none();
        let rays = pixels.len() * views.len();
        let rays = RayShape::of(rays, region, self.multiprocessors(), true);
        Self::by_views(frames.len(), |first, views| {
            let (shape, parameter) = (rays.shape(pixels, views), volume.parameter());
            // SAFETY: as for `project_by`; there are six slopes for each pixel of each view.
            unsafe {
                RAYCAST.integrals_with_slopes(
                    self,
                    shape,
                    &volume.values,
                    &volume.leaps,
                    parameter,
                    &on_device,
                    set,
                    count,
                    rays.share,
                    first,
                    &mut *out,
                    &mut *slopes,
                )
            }
        })
    }

    fn view_slopes(
        &self,
        views: usize,
        pixels: &Pixels,
        weights: &CudaBuffer<f32>,
        slopes: &CudaBuffer<f32>,
    ) -> Result<Vec<ViewSlopes>> {
        check_weights(weights.len(), views, pixels)?;
        check_slopes(views, pixels, slopes.len())?;
        if views > u16::MAX as usize {
            return Err(ComputeError::argument("number of views", views, "at most 65535"));
        }
        if views == 0 {
            return Ok(Vec::new());
        }
        let n = pixels.len();
        let parts = n.div_ceil(EACH);
        let mut sums = self.alloc_unset::<f64>(views * parts * 18)?;
        let shape = Shape { grid: [parts as u32, views as u32, 1], block: [256, 1, 1], shared: 0 };
        // SAFETY: weights and slopes have the lengths that were checked, and each block its 18 sums.
        unsafe {
            let (set, count) = (PixelSet::from(pixels), n as u32);
            RAYCAST.slope_sums(self, shape, weights, slopes, set, count, EACH as u32, &mut sums)?;
        }
        let sums = self.into_host(sums)?;
        let together = |parts: &[f64]| {
            let mut all: ViewSlopes = [[0.0; 3]; 6];
            for part in parts.chunks(18) {
                for (all, part) in all.iter_mut().flatten().zip(part) {
                    *all += part;
                }
            }
            all
        };
        Ok(sums.chunks(parts * 18).map(together).collect())
    }

    fn backproject(
        &self,
        weights: &CudaBuffer<f32>,
        views: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        dims: Dims,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let frames = check_backproject(dims, views, pixels, traversal, (weights.len(), out.len()))?;
        let mut sums = self.alloc::<i64>(out.len())?;
        if frames.is_empty() {
            return self.fixed_to_float(&sums, 1.0, out);
        }
        let of = [Reduction::MaxAbs(0), Reduction::CountNonFinite(0)];
        let found = self.reduce(&[weights], &of)?;
        if found[1] > 0.0 {
            return Err(ComputeError::argument("weights", "not finite", "finite numbers"));
        }
        let units = adjoint_units(found[0] as f32, &frames, pixels);
        let on_device = self.frames(&frames)?;
        let (set, count) = (PixelSet::from(pixels), pixels.len() as u32);
        Self::by_views(frames.len(), |first, views| {
            let shape = ALONE.shape(pixels, views);
            // SAFETY: the sums have the sizes of the volume; the rest as above.
            unsafe {
                WALKS.spread(
                    self,
                    shape,
                    weights,
                    volume(dims, 0),
                    &on_device,
                    set,
                    count,
                    kind(traversal),
                    units,
                    first,
                    &mut sums,
                )
            }
        })?;
        self.fixed_to_float(&sums, 1.0 / units, out)
    }

    fn pick(
        &self,
        image: &CudaBuffer<f32>,
        size: [usize; 2],
        pixels: &Pixels,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        check_pick(image.len(), size, pixels, out.len())?;
        let (n, set) = (pixels.len(), PixelSet::from(pixels));
        // SAFETY: the pixels are within the image, and there is a number for each.
        unsafe {
            RAYCAST.picked(self, Shape::covering(n, 256), image, size[0] as u64, set, n as u32, out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the threads of a block, every ray has its threads, which are next to each other, and no block is larger.
    #[test]
    fn blocks_of_any_size_cover_all_rays() {
        let region = Pixels::region([3, 1], [23, 9]);
        let drawn = Pixels::drawn([0, 0], [23, 9], [1, 1], 100, 1);
        for block in (1..=512).filter(|b| b % 2 == 0 || b % 7 == 0) {
            for share in 0..6 {
                let shape = RayShape { block, share }.shape(&region, 5);
                let [width, height, _] = shape.block;
                assert!(width % (1 << share) == 0 && width * height <= block.max(1 << share));
                assert!(share > 0 || width * height == block, "{block}: {width} x {height}");
                let rays = [width >> share, height];
                assert!(shape.grid[0] * rays[0] >= 23 && shape.grid[1] * rays[1] >= 9);
                assert_eq!(shape.grid[2], 5);
                let shape = RayShape { block, share }.shape(&drawn, 1);
                assert!(shape.grid[0] * (shape.block[0] >> share) >= 100 && shape.block[1] == 1);
            }
        }
        let sides = |block| RayShape { block, share: 0 }.shape(&region, 1).block;
        assert_eq!((sides(12), sides(128), sides(160)), ([4, 3, 1], [16, 8, 1], [16, 10, 1]));
    }
}
