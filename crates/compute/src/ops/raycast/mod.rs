//! Ray casting through a volume: line integrals and maxima for X-ray images (digitally reconstructed
//! radiographs, DRR), their derivative in the pose, and the adjoint.
//!
//! A pixel `(u, v)` of a [view](RayView) is the segment `x(t) = s + t d(u, v)` from the source to the centre of the pixel,
//! `d = o − s + u c + v r` and `0 < t ≤ 1`, all in voxels of the volume. Outside of its voxels a volume is 0.
//!
//! | [`Traversal`] | the integral |
//! |---|---|
//! | `Trilinear` | values interpolated linearly at `t = j Δt`, `j = 1, 2, ...`: planes parallel to the detector, `step` mm apart and counted from the source, times the distance of two on the ray. The samples stay where they are when the volume moves, so the image is a continuous, piecewise smooth function of the pose |
//! | `Siddon` | exact, of values that are constant in each voxel, a box about its centre (Siddon 1985) |
//! | `Joseph` | values interpolated linearly within the planes of voxels across the axis along which the ray goes farthest (Joseph 1982) |
//!
//! Interpolation goes to 0 within a voxel beyond the outermost centres, so that all kinds give a voxel the same mass.
//!
//! The box of a voxel has its lower faces and not its upper ones, `i − ½ ≤ x < i + ½` along every axis: a ray within the face of two
//! boxes sees the one with the higher number, one within the lower outer face of the volume sees the first voxels, and one within
//! the upper outer face nothing, as if zeros followed. The same holds for derivatives, of cells between the centres of
//! voxels: where a sample is on a face of its cell, the derivative is that of the cell after it. `Joseph` takes the first axis where a
//! ray goes as far along several.
//!
//! Lengths are mm of the world in which the view was given, whatever the map to voxels does.
//!
//! Of the images `A x` of a volume `x`, which are linear in it, [`backproject`](Raycast::backproject) is the adjoint `Aᵀ w`.
//!
//! Rays of a warp or a vector go side by side, and pass what is 0 without looking at every sample: a volume has a
//! coarse map of how far away the next value is (cf. Tornai 2014, section 2.5). That changes no bit.

mod gaps;
mod pixels;
mod view;

pub use gaps::{BRICK, OCCUPIED, bricks, leaps, occupied_by};
pub use pixels::{Drawn, Pixels};
use voxalign_compute_macros::forwarded;

use view::corners;
pub use view::{RayFrame, RayView, ViewDerivatives};

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len, voxels};
use voxalign_image::memory;

/// The most voxels of a volume with a border of one: places in it have 31 bits.
pub const MAX_RAY_VOXELS: usize = (1 << 31) - 1;

/// The most views of a call: they have numbers of 32 bits.
const MOST_VIEWS: usize = 1 << 31;

/// How a ray goes through voxels; see the [module](self).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Traversal {
    /// Linear interpolation at equal steps.
    Trilinear {
        /// The distance of the planes of samples, mm: at most half of that from source to detector. Thinner objects
        /// may fall between two of them and are then missed.
        step: f64,
        /// How exactly values are interpolated.
        filtering: Filtering,
    },
    /// Exact lengths within voxels.
    Siddon,
    /// Linear interpolation within planes of voxels.
    Joseph,
}

/// How exactly values are interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Filtering {
    /// In single precision.
    #[default]
    Exact,
    /// By texture units, where a device has them for volumes of that size: much faster, with weights of 8 bits, as if places were
    /// rounded to 1/256 of a voxel. They read a copy of the volume, as large as it is, which is made when it is first needed and kept
    /// with the volume.
    Texture,
}

/// The reduction of the values along a ray.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// Their integral, in units of the values times mm.
    Integral,
    /// The largest, and at least 0.
    Maximum,
}

/// A volume in the memory of a device, made ready for rays.
pub trait Traversable: Send + Sync {
    /// Its sizes.
    fn dims(&self) -> Dims;
}

/// Rays through a volume. See the [module](self) for the mathematics.
///
/// Where there are several views, all of them have the same pixels, and results are in the order of the views, in each in the
/// order of the [pixels](Pixels).
#[forwarded]
pub trait Raycast: Memory {
    /// A volume that is ready for rays.
    type RayVolume: Traversable;

    /// Makes a volume ready for rays, with a copy of its values: four bytes for each voxel and each of a border one voxel wide, and
    /// meanwhile eight for each brick of [`BRICK`]³ voxels, of which four are kept. [`Filtering::Texture`] takes more when it is
    /// first asked for.
    ///
    /// # Errors
    /// Wrong lengths or sizes; more voxels than [`MAX_RAY_VOXELS`]; too little memory.
    fn ray_volume(&self, values: &Self::Buffer<f32>, dims: Dims) -> Result<Self::RayVolume>;

    /// The integral, or the maximum, along each ray: `out` has `views x pixels`.
    ///
    /// # Errors
    /// Wrong lengths; pixels or a step that cannot be; a view that cannot be; for [`Filtering::Texture`]
    /// [`ComputeError::TextureMemory`] where a device has texture units, and no memory for their copy of the volume.
    fn project(
        &self,
        volume: &Self::RayVolume,
        views: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        along: Along,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// As [`project`](Self::project) of integrals by `Trilinear`, with what the derivatives of each in the view are made of:
    /// `derivatives` has `views x 6 x pixels`. With the samples of a ray at `p + k q`, see [`RayFrame`], and `h` mm apart these are the components of `h Σ ∇f`
    /// and of `h Σ k ∇f`, `∇f` being the gradient of the interpolated values in voxels.
    ///
    /// # Errors
    /// As [`project`](Self::project).
    fn project_with_derivatives(
        &self,
        volume: &Self::RayVolume,
        views: &[RayView],
        pixels: &Pixels,
        step: f64,
        out: &mut Self::Buffer<f32>,
        derivatives: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The derivative of a function of images in their views: `weights` is its derivative in the pixels,
    /// `derivatives` the result of [`project_with_derivatives`](Self::project_with_derivatives) for `views` views.
    /// Sums are computed in `f64`.
    ///
    /// # Errors
    /// Wrong lengths; pixels that cannot be.
    fn view_derivatives(
        &self,
        views: usize,
        pixels: &Pixels,
        weights: &Self::Buffer<f32>,
        derivatives: &Self::Buffer<f32>,
    ) -> Result<Vec<ViewDerivatives>>;

    /// The adjoint of [`project`](Self::project) of integrals: a volume of the sizes `dims` with the derivative of
    /// `Σ weights · image` in each voxel. Sums are computed in fixed point, so that they do not depend on the order
    /// of rays: this takes eight bytes of temporary memory per voxel.
    ///
    /// # Errors
    /// As [`project`](Self::project); weights that are not finite.
    fn backproject(
        &self,
        weights: &Self::Buffer<f32>,
        views: &[RayView],
        pixels: &Pixels,
        traversal: Traversal,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The values of an image at these pixels: of X-rays where images are projected at drawn ones. `size` is that of
    /// the image: columns, rows.
    ///
    /// # Errors
    /// Wrong lengths; pixels beyond the image.
    fn pick(
        &self,
        image: &Self::Buffer<f32>,
        size: [usize; 2],
        pixels: &Pixels,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// Checks the arguments of [`Raycast::ray_volume`].
///
/// # Errors
/// As there.
pub fn check_ray_volume(values: usize, dims: Dims) -> Result<usize> {
    let n = voxels("sizes", dims)?;
    check_len("values", n, values)?;
    // With a border of a voxel.
    let padded = dims.iter().fold(1usize, |all, &d| all.saturating_mul(d + 2));
    if padded > MAX_RAY_VOXELS || dims.iter().any(|&d| d > 1 << 20) {
        return Err(ComputeError::argument(
            "number of voxels for rays",
            n,
            "below 2^31 with a border of one, and at most 2^20 along an axis",
        ));
    }
    Ok(n)
}

/// Checks the arguments of [`Raycast::project`] and gives what the kernels take of each view.
///
/// # Errors
/// As there.
pub fn check_project(
    dims: Dims,
    views: &[RayView],
    pixels: &Pixels,
    traversal: Traversal,
    out: usize,
) -> Result<Vec<RayFrame>> {
    pixels.check()?;
    check_len("output", rays(views.len(), pixels)?, out)?;
    frames(dims, views, traversal)
}

fn frames(dims: Dims, views: &[RayView], traversal: Traversal) -> Result<Vec<RayFrame>> {
    let mut frames = memory::room(views.len())?;
    for view in views {
        frames.push(view.frame(dims, traversal)?);
    }
    Ok(frames)
}

impl Traversal {
    /// Samples at planes this many mm apart, in single precision.
    #[must_use]
    pub fn trilinear(step: f64) -> Self {
        Self::Trilinear { step, filtering: Filtering::Exact }
    }
}

/// Checks the lengths of derivatives.
///
/// # Errors
/// Another length than `views x 6 x pixels`.
pub fn check_derivatives(views: usize, pixels: &Pixels, derivatives: usize) -> Result<()> {
    check_len("derivatives", rays(views, pixels)?.saturating_mul(6), derivatives)
}

/// Checks the arguments of [`Raycast::pick`].
///
/// # Errors
/// As there.
pub fn check_pick(image: usize, size: [usize; 2], pixels: &Pixels, out: usize) -> Result<()> {
    pixels.check()?;
    check_len("image", voxels("size of the image", [size[0], size[1], 1])?, image)?;
    if (0..2).any(|a| pixels.first[a] + pixels.dims[a] > size[a]) {
        let region = format!("{:?} from {:?} on", pixels.dims, pixels.first);
        return Err(ComputeError::argument("region of pixels", region, "within the image"));
    }
    check_len("output", pixels.len(), out)
}

/// Checks the arguments of [`Raycast::backproject`] but the weights' values, by the lengths of the weights and of the output; gives what the
/// kernels take of each view.
///
/// # Errors
/// As there.
pub fn check_backproject(
    dims: Dims,
    views: &[RayView],
    pixels: &Pixels,
    traversal: Traversal,
    (weights, out): (usize, usize),
) -> Result<Vec<RayFrame>> {
    check_len("output", check_ray_volume(voxels("sizes", dims)?, dims)?, out)?;
    check_weights(weights, views.len(), pixels)?;
    frames(dims, views, traversal)
}

/// The units that 1 has in the fixed point of [`Raycast::backproject`], a power of two, so that the sum of no voxel leaves 63 bits; `most`
/// is the largest magnitude of a weight.
pub fn adjoint_units(most: f32, frames: &[RayFrame], pixels: &Pixels) -> f64 {
    let mut largest = 0.0f64;
    let at = |place: [usize; 2]| [0, 1].map(|a| (pixels.first[a] + place[a]) as f32);
    let (low, high) = (at([0, 0]), at(pixels.dims.map(|n| n - 1)));
    for frame in frames {
        // Lengths are convex over the detector: the longest is that of a corner.
        let lengths = corners(low, high).map(|[u, v]| f64::from(frame.length_of(u, v)));
        let longest = lengths.into_iter().fold(0.0, f64::max);
        let fastest = frame.fastest_at_least(low, high).max(1e-12);
        // A ray is within the reach of a voxel for two voxels along its fastest axis, and a sample more; the length of all of that.
        largest = largest.max(longest * (2.0 / fastest + 1.0));
    }
    // Twice, for what is rounded.
    let bound = 2.0 * largest * f64::from(most) * (frames.len() * pixels.len()) as f64;
    if bound > 0.0 { (62.0 - bound.log2().ceil()).clamp(-1000.0, 1000.0).exp2() } else { 1.0 }
}

/// The number of rays.
fn rays(views: usize, pixels: &Pixels) -> Result<usize> {
    let all = views.checked_mul(pixels.len()).filter(|&n| n <= 1 << 34 && views <= MOST_VIEWS);
    all.ok_or_else(|| {
        ComputeError::argument("number of views", views, "at most 2^31, with at most 2^34 rays")
    })
}

/// Checks the length of weights.
///
/// # Errors
/// Another length than `views x pixels`; pixels that cannot be.
pub fn check_weights(weights: usize, views: usize, pixels: &Pixels) -> Result<()> {
    pixels.check()?;
    check_len("weights", rays(views, pixels)?, weights)
}
