//! Rays through volumes on the GPU.

mod launch;
mod volume;

use super::declare::{In, Out};
use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::raycast::{
    Along, Filtering, Pixels, RayFrame, RayView, Traversal, ViewDerivatives, adjoint_units,
    check_backproject, check_derivatives, check_pick, check_project, check_weights,
};
use crate::ops::reduce::Reduction;
use crate::ops::{Accumulate, Raycast, Reduce};
use launch::{ALONE, by_views};
use volume::parameter;
use voxalign_image::memory;

pub(crate) use launch::RayShape;
pub use volume::CudaRayVolume;

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
    fn integrals_with_derivatives[256](
        values: &[f32], leaps: &[f32], volume: Volume, frames: &[f32], pixels: PixelSet,
        count: u32, share: u32, first_view: u32, out: &mut [f32], derivatives: &mut [f32],
    );
    fn derivative_sums[256](
        weights: &[f32], derivatives: &[f32], pixels: PixelSet, count: u32, each: u32, sums: &mut [f64],
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

impl PixelSet {
    /// This many rows of a region, from a given one on.
    fn rows(self, first: u32, count: u32) -> Self {
        let [x, y] = self.first;
        let [columns, _] = self.tile;
        Self { first: [x, y + first], dims: [columns, count], tile: [columns, count], ..self }
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

/// The parameters of a launch of rays through interpolated values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RayLaunch<'a> {
    pub(crate) kernels: &'a RAYCAST,
    pub(crate) rays: RayShape,
    /// Whether a texture unit interpolates.
    pub(crate) quick: bool,
    pub(crate) along: Along,
}

/// The rays that a block sums.
const EACH: usize = 2048;
/// The sums of a block.
const SUMS: usize = 18;

impl Cuda {
    pub(crate) fn frames(&self, frames: &[RayFrame]) -> Result<CudaBuffer<f32>> {
        let mut numbers = memory::room(frames.len() * RayFrame::NUMBERS)?;
        numbers.extend(frames.iter().flat_map(RayFrame::numbers));
        self.upload(&numbers)
    }

    /// The images of this many views from the first of these on, of frames that are on the device; `out` has room
    /// for all frames.
    pub(crate) fn project_views(
        &self,
        launch: RayLaunch<'_>,
        volume: &CudaRayVolume,
        frames: &CudaBuffer<f32>,
        views: (usize, usize),
        pixels: &Pixels,
        out: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let RayLaunch { kernels, rays, quick, along } = launch;
        let (share, count) = (rays.share, pixels.len() as u32);
        let texture = if quick { self.texture(volume)? } else { None };
        let (values, leaps) = (&volume.values, &volume.leaps);
        let parameter = parameter(volume.dims, texture.unwrap_or(0));
        for part in rays.parts(pixels, views) {
            let (shape, set, first) = (part.shape, part.pixels, part.first_view);
            let out = Out::from_element(&mut *out, part.first_pixel);
            macro_rules! launch {
                ($kernel:ident) => {
                    // SAFETY: values and leaps have the lengths that the sizes ask for, there are frames for all views, and
                    // the output has a number for each pixel of each, which was checked: beyond its first pixel a part
                    // has as many fewer.
                    unsafe {
                        kernels.$kernel(
                            self, shape, values, leaps, parameter, frames, set, count, share,
                            first, out,
                        )
                    }
                };
            }
            match (along, texture.is_some()) {
                (Along::Integral, false) => launch!(integrals_exact),
                (Along::Integral, true) => launch!(integrals_quick),
                (Along::Maximum, false) => launch!(maxima_exact),
                (Along::Maximum, true) => launch!(maxima_quick),
            }?;
        }
        Ok(())
    }
}

/// The number of a kind of traversal.
fn kind(traversal: Traversal) -> u32 {
    match traversal {
        Traversal::Trilinear { .. } => 0,
        Traversal::Siddon => 1,
        Traversal::Joseph => 2,
    }
}

impl Raycast for Cuda {
    type RayVolume = CudaRayVolume;

    fn ray_volume(&self, values: &CudaBuffer<f32>, dims: Dims) -> Result<CudaRayVolume> {
        self.padded_volume(values, dims)
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
            let views = (0, frames.len());
            return self.project_views(launch, volume, &on_device, views, pixels, out);
        }
        let (parameter, count) = (parameter(volume.dims, 0), pixels.len() as u32);
        let maximum = u32::from(along == Along::Maximum);
        for part in ALONE.parts(pixels, (0, frames.len())) {
            // SAFETY: as for the other kernels.
            unsafe {
                WALKS.walked(
                    self,
                    part.shape,
                    &volume.values,
                    parameter,
                    &on_device,
                    part.pixels,
                    count,
                    kind(traversal),
                    maximum,
                    part.first_view,
                    Out::from_element(&mut *out, part.first_pixel),
                )?;
            }
        }
        Ok(())
    }

    fn project_with_derivatives(
        &self,
        volume: &CudaRayVolume,
        views: &[RayView],
        pixels: &Pixels,
        step: f64,
        out: &mut CudaBuffer<f32>,
        derivatives: &mut CudaBuffer<f32>,
    ) -> Result<()> {
        let traversal = Traversal::Trilinear { step, filtering: Filtering::Exact };
        let frames = check_project(volume.dims, views, pixels, traversal, out.len())?;
        check_derivatives(views.len(), pixels, derivatives.len())?;
        let on_device = self.frames(&frames)?;
        let (parameter, count) = (parameter(volume.dims, 0), pixels.len() as u32);
        let region = pixels.drawn.is_none();
        let rays = pixels.len() * views.len();
        let rays = RayShape::of(rays, region, self.multiprocessors(), true);
        for part in rays.parts(pixels, (0, frames.len())) {
            // SAFETY: as for `project_views`; there are six derivatives for each pixel of each view, in planes of all pixels.
            unsafe {
                RAYCAST.integrals_with_derivatives(
                    self,
                    part.shape,
                    &volume.values,
                    &volume.leaps,
                    parameter,
                    &on_device,
                    part.pixels,
                    count,
                    rays.share,
                    part.first_view,
                    Out::from_element(&mut *out, part.first_pixel),
                    Out::from_element(&mut *derivatives, part.first_pixel),
                )?;
            }
        }
        Ok(())
    }

    fn view_derivatives(
        &self,
        views: usize,
        pixels: &Pixels,
        weights: &CudaBuffer<f32>,
        derivatives: &CudaBuffer<f32>,
    ) -> Result<Vec<ViewDerivatives>> {
        check_weights(weights.len(), views, pixels)?;
        check_derivatives(views, pixels, derivatives.len())?;
        if views == 0 {
            return Ok(Vec::new());
        }
        let n = pixels.len();
        let (set, parts) = (PixelSet::from(pixels), n.div_ceil(EACH));
        // No more than there are rays.
        let threads = (n.min(EACH) as u32).next_multiple_of(32).min(256);
        let mut sums = self.alloc_unset::<f64>(views * parts * SUMS)?;
        for (first, views) in by_views(0, views) {
            let grid = [parts as u32, views as u32, 1];
            let shape = Shape { grid, block: [threads, 1, 1], shared: 0 };
            // SAFETY: weights and derivatives have the lengths that were checked, and each block its sums.
            unsafe {
                RAYCAST.derivative_sums(
                    self,
                    shape,
                    In::from_element(weights, first * n),
                    In::from_element(derivatives, 6 * first * n),
                    set,
                    n as u32,
                    EACH as u32,
                    Out::from_element(&mut sums, first * parts * SUMS),
                )?;
            }
        }
        let sums = self.into_host(sums)?;
        let together = |parts: &[f64]| {
            let mut all: ViewDerivatives = [[0.0; 3]; 6];
            for part in parts.chunks(SUMS) {
                for (all, part) in all.iter_mut().flatten().zip(part) {
                    *all += part;
                }
            }
            all
        };
        Ok(memory::collected(sums.chunks(parts * SUMS).map(together))?)
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
        let (parameter, n) = (parameter(dims, 0), pixels.len());
        for part in ALONE.parts(pixels, (0, frames.len())) {
            // SAFETY: the sums have the sizes of the volume; the rest as above.
            unsafe {
                WALKS.spread(
                    self,
                    part.shape,
                    In::from_element(weights, part.first_pixel),
                    parameter,
                    &on_device,
                    part.pixels,
                    n as u32,
                    kind(traversal),
                    units,
                    part.first_view,
                    &mut sums,
                )?;
            }
        }
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
