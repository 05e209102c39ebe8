//! The design space of rays through interpolated values on a GPU: times over the optimisation rules and the
//! block sizes of Tornai 2014 (sections 2.3.2 to 2.5), and the number of samples of rays.

mod samples;

use crate::Dims;
use crate::cuda::Cuda;
use crate::cuda::raycast::{RAYCAST, RayLaunch, RayShape};
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::Raycast;
use crate::ops::raycast::{
    Along, Filtering, Pixels, RayFrame, RayView, Traversable, Traversal, check_project,
};
use crate::select::{AnyBuffer, AnyDevice, AnyRayVolume};
use std::sync::LazyLock;

pub use samples::{Samples, samples};

/// Which of the rules of Tornai 2014, section 2.3.2, a kernel keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// 1: selections in place of branches where a ray is cut to the volume.
    pub select: bool,
    /// 2: values from the texture unit, not interpolated from plain memory.
    pub texture: bool,
    /// 3: divisions that are fast, not rounded to nearest.
    pub fast: bool,
    /// 4: one inverse where the same number divides several times.
    pub inverse: bool,
}

impl Rules {
    /// All of them.
    pub const ALL: Self = Self { select: true, texture: true, fast: true, inverse: true };

    fn number(self) -> usize {
        let bits = [self.select, self.texture, self.fast, self.inverse];
        bits.iter().enumerate().map(|(i, &bit)| usize::from(bit) << i).sum()
    }
}

/// The kernels of all rules, by their number; they are compiled where they are launched.
static KERNELS: LazyLock<Vec<RAYCAST>> = LazyLock::new(|| {
    let of = |number: i64| {
        let names = ["RULE_SELECT", "RULE_TEXTURE", "RULE_FAST", "RULE_INVERSE"];
        let value = |(i, name)| (name, number >> i & 1);
        let macros: Vec<(&str, i64)> = names.into_iter().enumerate().map(value).collect();
        // Those of the operators are not compiled again.
        if number == 15 { RAYCAST.clone() } else { RAYCAST.with(&macros) }
    };
    (0..16).map(of).collect()
});

/// How rays are put into blocks of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// As operators do it.
    Usual,
    /// One thread per ray, with this many in a block.
    Of(usize),
}

/// How images are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Manner {
    /// The rules that the kernel keeps; the second one decides whether the texture unit is used.
    pub rules: Rules,
    /// The blocks.
    pub blocks: Blocks,
    /// The distance of the planes of samples, mm.
    pub step: f64,
    /// How exactly values are interpolated.
    pub filtering: Filtering,
}

/// An image: where from, and which of its pixels.
pub type Shot = (RayView, Pixels);

/// The measurements.
#[derive(Debug)]
pub struct Timed {
    /// Seconds of the device for each image: on a GPU of the kernel alone.
    pub seconds: Vec<f64>,
    /// The images, one after the other.
    pub images: AnyBuffer<f32>,
}

/// The threads of a block and of a ray with [`Blocks::Usual`]; none on the CPU.
#[must_use]
pub fn usual(device: &AnyDevice, pixels: &Pixels) -> Option<[usize; 2]> {
    let AnyDevice::Cuda(cuda) = device else { return None };
    let rays = usual_shape(cuda, pixels);
    Some([rays.block as usize, 1 << rays.share])
}

fn usual_shape(cuda: &Cuda, pixels: &Pixels) -> RayShape {
    RayShape::of(pixels.len(), pixels.drawn.is_none(), cuda.multiprocessors(), false)
}

/// Makes images one after the other, each by itself; all have as many pixels.
///
/// # Errors
/// As [`Raycast::project`]; images of different sizes; blocks or rules that the device has not.
pub fn timed(
    device: &AnyDevice,
    volume: &AnyRayVolume,
    manner: &Manner,
    shots: &[Shot],
) -> Result<Timed> {
    let pixels = shots.first().map_or(0, |(_, pixels)| pixels.len());
    if shots.iter().any(|(_, p)| p.len() != pixels) {
        let found = "of different numbers of pixels";
        return Err(ComputeError::argument("images", found, "of the same number each"));
    }
    if shots.is_empty() {
        return Ok(Timed { seconds: Vec::new(), images: device.alloc(0)? });
    }
    let n = pixels.saturating_mul(shots.len());
    match (device, volume) {
        (AnyDevice::Cuda(cuda), AnyRayVolume::Cuda(volume)) => {
            let mut images = cuda.alloc::<f32>(n)?;
            let frames = frames(volume.dims(), manner, shots)?;
            let frames = cuda.frames(&frames)?;
            let quick = manner.filtering == Filtering::Texture;
            let kernels = &KERNELS[manner.rules.number()];
            let seconds = cuda.laps(shots.len(), &mut |i| {
                let pixels = &shots[i].1;
                let rays = match manner.blocks {
                    Blocks::Usual => usual_shape(cuda, pixels),
                    Blocks::Of(threads) => RayShape { block: threads as u32, share: 0 },
                };
                let launch = RayLaunch { kernels, rays, quick, along: Along::Integral };
                cuda.project_views(launch, volume, &frames, (i, 1), pixels, &mut images)
            })?;
            Ok(Timed { seconds, images: AnyBuffer::Cuda(images) })
        }
        _ if manner.rules != Rules::ALL || manner.blocks != Blocks::Usual => {
            Err(ComputeError::Unsupported {
                device: device.name(),
                what: "rules and blocks of threads".into(),
                remedy: "measure them on a GPU",
            })
        }
        _ => on_its_own(device, volume, manner, shots, n),
    }
}

/// By the operators.
fn on_its_own(
    device: &AnyDevice,
    volume: &AnyRayVolume,
    manner: &Manner,
    shots: &[Shot],
    n: usize,
) -> Result<Timed> {
    let (how, along) = (manner.traversal(), Along::Integral);
    let (mut seconds, mut images) = (Vec::new(), Vec::with_capacity(n));
    for (view, pixels) in shots {
        let mut out = device.alloc(pixels.len())?;
        let mut project =
            || device.project(volume, std::slice::from_ref(view), pixels, how, along, &mut out);
        seconds.push(device.seconds(&mut project)?);
        images.extend(device.into_host(out)?);
    }
    Ok(Timed { seconds, images: device.upload_vec(images)? })
}

impl Manner {
    /// As operators do it.
    #[must_use]
    pub fn usual(step: f64, filtering: Filtering) -> Self {
        Self { rules: Rules::ALL, blocks: Blocks::Usual, step, filtering }
    }

    /// How operators are asked for it.
    #[must_use]
    pub fn traversal(&self) -> Traversal {
        Traversal::Trilinear { step: self.step, filtering: self.filtering }
    }
}

fn frames(dims: Dims, manner: &Manner, shots: &[Shot]) -> Result<Vec<RayFrame>> {
    let mut frames = Vec::with_capacity(shots.len());
    for (view, pixels) in shots {
        let of_one = check_project(dims, &[*view], pixels, manner.traversal(), pixels.len())?;
        frames.extend(of_one);
    }
    Ok(frames)
}

#[cfg(test)]
mod tests;
