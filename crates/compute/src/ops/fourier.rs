//! Real Fourier transforms of scalar volumes, of any size.

use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{Result, check_len, voxels};

/// Real transforms in three dimensions, and in fewer where sizes are 1.
///
/// The spectrum of a grid of sizes `[nx, ny, nz]` has the frequencies `[nx/2 + 1, ny, nz]`, x
/// fastest; the others follow from `X[-k] = conj(X[k])`. Frequency `k` of an axis of `n` stands for
/// `k` cycles along the axis, or for `k - n` where that is nearer to zero. A number is complex: its
/// real and its imaginary part are neighbours in a buffer of [`spectrum_len`] floats.
#[forwarded]
pub trait Fourier: Memory {
    /// The spectrum of an image: `X[k] = Σ_i x[i] exp(-2π√-1 Σ_a k_a i_a / n_a)`, not normalised.
    /// Of several images, one after the other in `src`, the spectra, one after the other.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a library that is missing.
    fn forward(
        &self,
        src: &Self::Buffer<f32>,
        dims: Dims,
        spectrum: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The image of a spectrum, the inverse of [`forward`](Self::forward): normalised by
    /// `1 / (nx ny nz)`. Of several spectra, one after the other, the images. The spectrum is used as
    /// working memory: what it holds afterwards is not to be relied on.
    ///
    /// The spectrum must be that of a real image. Along x the imaginary parts of frequency 0 and, of
    /// an even size, of frequency `nx/2` have no meaning once y and z are transformed, and are not
    /// used.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a library that is missing.
    fn inverse(
        &self,
        spectrum: &mut Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The same times `nx ny nz`: the plain sum over frequencies, for spectra that have been normalised
    /// with what else they were multiplied by.
    ///
    /// # Errors
    /// As [`inverse`](Self::inverse).
    fn inverse_sum(
        &self,
        spectrum: &mut Self::Buffer<f32>,
        dims: Dims,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// Multiplies every frequency of a spectrum by a real factor: `X[k] *= factors[k]`, with a
    /// factor for each of the `[nx/2 + 1, ny, nz]` frequencies. Of several spectra, one after the other, each.
    ///
    /// # Errors
    /// Wrong lengths or sizes.
    fn scale_spectrum(
        &self,
        spectrum: &mut Self::Buffer<f32>,
        dims: Dims,
        factors: &Self::Buffer<f32>,
    ) -> Result<()>;

    /// The sine transform of each of one or more images, one after the other, in place:
    /// `X[k] = Σ_i x[i] Πₐ √(2 / (nₐ+1)) sin(π (iₐ+1)(kₐ+1) / (nₐ+1))` over the axes of more than one
    /// voxel (DST-I), which is its own inverse. It diagonalises differences with zeros beyond the border.
    ///
    /// # Errors
    /// A length that is not a multiple of the voxels; wrong sizes; a library that is missing.
    fn sine(&self, data: &mut Self::Buffer<f32>, dims: Dims) -> Result<()>;
}

/// The floats of the spectrum of a grid: `2 (nx/2 + 1) ny nz`.
///
/// # Errors
/// Sizes that make no grid.
pub fn spectrum_len(dims: Dims) -> Result<usize> {
    voxels("dims", dims)?;
    Ok(2 * (dims[0] / 2 + 1) * dims[1] * dims[2])
}

/// Checks the lengths of one or more images and of their spectra; returns the voxels of an image, and the number of
/// images.
///
/// # Errors
/// Wrong lengths or sizes.
pub fn check_transform(
    dims: Dims,
    image: (&'static str, usize),
    spectrum: usize,
) -> Result<(usize, usize)> {
    let (n, images) = check_images(dims, image)?;
    check_len("spectrum", images * spectrum_len(dims)?, spectrum)?;
    Ok((n, images))
}

/// Checks the length of one or more images, one after the other; returns the voxels of an image, and the number of
/// images.
///
/// # Errors
/// Wrong lengths or sizes.
pub fn check_images(dims: Dims, (what, len): (&'static str, usize)) -> Result<(usize, usize)> {
    let n = voxels("dims", dims)?;
    let images = len.div_ceil(n).max(1);
    check_len(what, images * n, len)?;
    Ok((n, images))
}

/// Checks the lengths of one or more spectra and their factors; the number of frequencies of each.
///
/// # Errors
/// Wrong lengths or sizes.
pub fn check_factors(dims: Dims, spectrum: usize, factors: usize) -> Result<usize> {
    let len = spectrum_len(dims)?;
    check_len("spectrum", spectrum.div_ceil(len).max(1) * len, spectrum)?;
    check_len("factors", len / 2, factors)?;
    Ok(len / 2)
}
