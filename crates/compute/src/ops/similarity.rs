//! Similarities of two images on one grid, and their derivative in the values of the moving one.
//!
//! An energy `E` is minimised; its *derivative* is the image `∂E / ∂m[i]`, exact for the sums as they are
//! computed. With weights a voxel (for local correlation: the window around it) counts `w[i]`, finite and
//! not negative; without, 1. Operators that sum the weights up refuse others; those that do not, as that
//! would hold up the device, count a weight that is negative or not finite as 0.

use voxalign_compute_macros::forwarded;

use super::Reduce;
use super::histogram::{Binning, ParzenBins, check_joint, check_weights};
use super::reduce::Reduction;
use crate::Dims;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len, voxels};

/// The most voxels of images whose joint histogram is counted: entries have 64 bits, of which a voxel takes
/// up to 31.
pub const MAX_PAIR_VOXELS: usize = 1 << 33;

/// The most entries of a joint histogram.
pub const MAX_PAIR_ENTRIES: usize = 1 << 24;

/// The lengths of the buffers of a similarity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// Of the fixed image.
    pub fixed: usize,
    /// Of the moving image.
    pub moving: usize,
    /// Of the weights, where there are any.
    pub weights: Option<usize>,
    /// Of the derivative, where there is one.
    pub derivative: Option<usize>,
}

impl Lengths {
    /// Those of buffers.
    pub fn of<B: DeviceBuffer<f32>>(
        fixed: &B,
        moving: &B,
        weights: Option<&B>,
        derivative: Option<&B>,
    ) -> Self {
        Self {
            fixed: fixed.len(),
            moving: moving.len(),
            weights: weights.map(DeviceBuffer::len),
            derivative: derivative.map(DeviceBuffer::len),
        }
    }

    /// Checks that all of them are `n`.
    ///
    /// # Errors
    /// If one of them is not.
    pub fn check(&self, n: usize) -> Result<()> {
        check_len("fixed image", n, self.fixed)?;
        check_len("moving image", n, self.moving)?;
        self.weights.map_or(Ok(()), |found| check_len("weights", n, found))?;
        self.derivative.map_or(Ok(()), |found| check_len("derivative", n, found))
    }
}

/// Checks the arguments of [`Similarity::local_correlation`] but the weights' values; the number of
/// voxels.
///
/// # Errors
/// As [`Similarity::local_correlation`].
pub fn check_local_correlation(
    lengths: Lengths,
    dims: Dims,
    noise: f64,
    energy: usize,
) -> Result<usize> {
    let n = voxels("sizes", dims)?;
    lengths.check(n)?;
    check_len("energy", 1, energy)?;
    // As the windows have it: in single precision.
    if !(noise as f32 > 0.0 && (noise as f32).is_finite()) {
        return Err(ComputeError::argument("noise", noise, "a variance above zero"));
    }
    Ok(n)
}

/// The sum of the weights of the `n` voxels of [`Similarity::local_correlation`].
///
/// # Errors
/// Weights that [cannot be](check_weights), or whose sum is not above zero.
pub(crate) fn total_weight<D: Reduce>(
    device: &D,
    weights: Option<&D::Buffer<f32>>,
    n: usize,
) -> Result<f64> {
    let Some(weights) = weights else { return Ok(n as f64) };
    let total = summary(device, weights)?.total;
    if total > 0.0 {
        Ok(total)
    } else {
        Err(ComputeError::argument("sum of the weights", total, "above zero"))
    }
}

/// The largest weight of [`Similarity::pair_histogram`].
///
/// # Errors
/// Weights that [cannot be](check_weights).
pub(crate) fn largest_weight<D: Reduce>(
    device: &D,
    weights: Option<&D::Buffer<f32>>,
) -> Result<f64> {
    let Some(weights) = weights else { return Ok(1.0) };
    if weights.is_empty() { Ok(0.0) } else { Ok(summary(device, weights)?.most) }
}

/// The sum of weights, and the largest.
struct Summary {
    total: f64,
    most: f64,
}

/// Weights are summed up and checked in one pass, whose numbers the operators need anyway.
fn summary<D: Reduce>(device: &D, weights: &D::Buffer<f32>) -> Result<Summary> {
    let what =
        [Reduction::Sum(0), Reduction::Min(0), Reduction::Max(0), Reduction::CountNonFinite(0)];
    match device.reduce(&[weights], &what)?[..] {
        [total, least, most, odd] => {
            check_weights("weights", least, odd as u64)?;
            Ok(Summary { total, most })
        }
        _ => Ok(Summary { total: 0.0, most: 0.0 }),
    }
}

/// Checks the arguments of [`Similarity::pair_histogram`] and [`Similarity::pair_derivatives`]; the number
/// of entries.
///
/// # Errors
/// As these.
pub fn check_pair(
    lengths: Lengths,
    rows: &Binning,
    columns: &ParzenBins,
    table: Option<usize>,
) -> Result<usize> {
    lengths.check(lengths.fixed)?;
    if lengths.fixed > MAX_PAIR_VOXELS {
        let expected = "at most 2^33; count them in pieces";
        return Err(ComputeError::argument("number of voxels", lengths.fixed, expected));
    }
    if rows.bins == 0 || rows.bins > 1 << 20 {
        return Err(ComputeError::argument("bins", rows.bins, "between 1 and 1048576"));
    }
    if !(rows.low.is_finite() && rows.high.is_finite()) {
        let found = format!("{} to {}", rows.low, rows.high);
        return Err(ComputeError::argument("range of the bins", found, "finite"));
    }
    let entries = check_joint(rows.bins, columns)?;
    table.map_or(Ok(()), |found| check_len("table", entries, found))?;
    Ok(entries)
}

/// Checks the arguments of [`Similarity::map_values`].
///
/// # Errors
/// As there.
pub fn check_map(
    [values, mapped, derivative]: [usize; 3],
    columns: &ParzenBins,
    table: usize,
) -> Result<()> {
    check_len("mapped values", values, mapped)?;
    check_len("derivative", values, derivative)?;
    check_len("table", check_joint(1, columns)?, table)
}

/// The neighbourhoods of [`Similarity::self_similarity`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contexts {
    /// The radius of patches, voxels.
    pub radius: usize,
    /// The distance from a voxel to the six patches that are compared, voxels.
    pub distance: usize,
    /// The variance of intensities that is nothing but noise.
    pub noise: f64,
}

/// The largest radius of patches and distance between them.
pub const MOST_CONTEXT: usize = 16;

/// What counts as no difference of two contexts, whose entries are between 0 and 1: larger ones count by their size, smaller ones by their square.
pub const NO_DIFFERENCE: f32 = 0.01;

/// The steps from a voxel to its neighbours: the axis, and whether towards higher indices.
pub(crate) const NEIGHBOURS: [(usize, bool); 6] =
    [(0, true), (0, false), (1, true), (1, false), (2, true), (2, false)];

/// The pairs of [`NEIGHBOURS`] that are compared: all along axes of more than one voxel that are not opposite each other; 12 of a
/// volume and 4 of a flat image.
pub(crate) fn compared(dims: Dims) -> Vec<[usize; 2]> {
    let is_there = |n: usize| dims[NEIGHBOURS[n].0] > 1;
    let pairs = (0..6).flat_map(|a| (a + 1..6).map(move |b| [a, b]));
    pairs.filter(|&[a, b]| a / 2 != b / 2 && is_there(a) && is_there(b)).collect()
}

impl Contexts {
    /// The radius along each axis, and the distance.
    pub(crate) fn along(&self, dims: Dims) -> [[usize; 3]; 2] {
        [self.radius, self.distance].map(|r| dims.map(|n| if n > 1 { r } else { 0 }))
    }

    /// The noise of the voxels of a patch.
    pub(crate) fn noise_of_patch(&self, dims: Dims) -> f32 {
        let [radius, _] = self.along(dims);
        let voxels: usize = radius.iter().map(|r| 2 * r + 1).product();
        (self.noise * voxels as f64) as f32
    }
}

/// Checks the arguments of [`Similarity::self_similarity`] but the weights' values; the number of voxels.
///
/// # Errors
/// As [`Similarity::self_similarity`].
pub fn check_self_similarity(
    lengths: Lengths,
    dims: Dims,
    contexts: &Contexts,
    energy: usize,
) -> Result<usize> {
    let n = check_local_correlation(lengths, dims, contexts.noise, energy)?;
    let Contexts { radius, distance, .. } = *contexts;
    if radius > MOST_CONTEXT {
        return Err(ComputeError::argument("radius of patches", radius, "at most 16"));
    }
    if !(1..=MOST_CONTEXT).contains(&distance) {
        return Err(ComputeError::argument("distance of patches", distance, "from 1 to 16"));
    }
    Ok(n)
}

/// Similarities of images on one grid.
#[forwarded]
pub trait Similarity: Memory {
    /// Local normalised cross correlation, `E = −Σ_i w_i c_i / Σ_i w_i` with
    /// `c = A² / (B C)` over the window `|j − i|_a ≤ radius[a]`, cut at the border, of `N` voxels:
    /// `A = Σ (f − f̄)(m − m̄)`, `B = Σ (f − f̄)² + N noise`, `C = Σ (m − m̄)² + N noise`. `noise` is a
    /// variance that is nothing but noise, so that flat windows count little. The cost does not depend
    /// on the radius. `energy` gets one number, `derivative` one for each voxel.
    ///
    /// `c` is the squared correlation of B. Avants et al. ("Symmetric diffeomorphic image registration
    /// with cross-correlation", Medical Image Analysis 12(1), 2008); their derivative leaves out that a
    /// voxel is in the windows of its neighbours, this one is exact. A GPU takes temporaries of three
    /// images, and of six for a radius above 4.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a noise that is not above zero; weights that are negative or not finite,
    /// or none of which is above zero.
    #[allow(clippy::too_many_arguments)]
    fn local_correlation(
        &self,
        fixed: &Self::Buffer<f32>,
        moving: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        dims: Dims,
        radius: [usize; 3],
        noise: f64,
        derivative: &mut Self::Buffer<f32>,
        energy: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// As [`local_correlation`](Self::local_correlation), with the derivatives in both images, for less than two
    /// calls. Exchanging the images exchanges the derivatives and keeps the energy, to the last bit. A GPU takes
    /// temporaries of five images, and of six for a radius above 4.
    ///
    /// # Errors
    /// As [`local_correlation`](Self::local_correlation).
    #[allow(clippy::too_many_arguments)]
    fn local_correlation_of_both(
        &self,
        first: &Self::Buffer<f32>,
        second: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        dims: Dims,
        radius: [usize; 3],
        noise: f64,
        first_derivative: &mut Self::Buffer<f32>,
        second_derivative: &mut Self::Buffer<f32>,
        energy: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// The mean difference of the self-similarity contexts of two images, which compare an image with itself alone, so that images of
    /// different kinds can be compared by them.
    ///
    /// Of the voxels `d` before and behind a voxel along each axis, every two that are not opposite each other, `a` and `b`, make an
    /// entry `k` of its context: 12 of a volume, 4 of an image that is flat. With `D_k = Σ (I(p + a) − I(p + b))²`, over the `p` of
    /// the window of the radius about the voxel where both are in the image, and `V` the mean of all `D_k` plus the noise of a
    /// whole window, the entry is `exp(−(D_k − min D) / V)`. The energy is `E = Σ_i w_i e_i / Σ_i w_i`, where
    /// `e_i` is the mean over `k` of `√(δ² + ε²) − ε`, `δ` the difference of the images' entries, and `ε` [`NO_DIFFERENCE`]. `energy` gets one
    /// number, `derivative` one for each voxel, which is exact where one `D_k` is the smallest. An image of fewer than two
    /// axes has no contexts: the energy is 0.
    ///
    /// The entries are those of M. Heinrich et al., "Towards realtime multimodal fusion for image-guided interventions using
    /// self-similarities", MICCAI 2013. A GPU takes temporaries of 24 images.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a radius above [`MOST_CONTEXT`], a distance that is zero or above that; a noise that is not above zero; weights
    /// that are negative or not finite, or none of which is above zero.
    #[allow(clippy::too_many_arguments)]
    fn self_similarity(
        &self,
        fixed: &Self::Buffer<f32>,
        moving: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        dims: Dims,
        contexts: &Contexts,
        derivative: &mut Self::Buffer<f32>,
        energy: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// As [`self_similarity`](Self::self_similarity), with the derivatives in both images; to the last bit what two calls give,
    /// for less on a CPU.
    ///
    /// # Errors
    /// As [`self_similarity`](Self::self_similarity).
    #[allow(clippy::too_many_arguments)]
    fn self_similarity_of_both(
        &self,
        first: &Self::Buffer<f32>,
        second: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        dims: Dims,
        contexts: &Contexts,
        first_derivative: &mut Self::Buffer<f32>,
        second_derivative: &mut Self::Buffer<f32>,
        energy: &mut Self::Buffer<f64>,
    ) -> Result<()>;

    /// The joint histogram of two images: rows are the bins of `fixed`, columns cubic B-spline
    /// windows over `moving`, as in [`Histogram::joint_histogram`](super::Histogram::joint_histogram).
    /// `bins x columns` sums of weights, bin slowest. (The estimate of D. Mattes et al., "PET-CT image
    /// registration in the chest using free-form deformations", IEEE TMI 22(1), 2003.)
    ///
    /// # Errors
    /// Wrong lengths; more than [`MAX_PAIR_VOXELS`]; bins or columns that cannot be; weights that are negative or not finite.
    fn pair_histogram(
        &self,
        fixed: &Self::Buffer<f32>,
        moving: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
    ) -> Result<Vec<f64>>;

    /// The derivative of a function of the joint histogram whose derivative in each entry is `table`
    /// (`bins x columns`): `derivative[i] = w_i Σ_k table[bin(f_i)][k] b_k′(m_i)`; zero where `m_i` is held at
    /// the ends of the range, and where `w_i` is a weight that the histogram refuses.
    ///
    /// # Errors
    /// As [`pair_histogram`](Self::pair_histogram), but for the values of the weights; a table of another
    /// size.
    #[allow(clippy::too_many_arguments)]
    fn pair_derivatives(
        &self,
        fixed: &Self::Buffer<f32>,
        moving: &Self::Buffer<f32>,
        weights: Option<&Self::Buffer<f32>>,
        rows: &Binning,
        columns: &ParzenBins,
        table: &[f64],
        derivative: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// A cubic B-spline of the values of an image, and its derivative: `mapped[i] = Σ_k table[k] b_k(v_i)` with the windows of
    /// [`pair_histogram`](Self::pair_histogram), and `derivative[i] = Σ_k table[k] b_k′(v_i)`, zero where `v_i` is held at the ends of
    /// the range.
    ///
    /// # Errors
    /// Wrong lengths, columns that cannot be.
    fn map_values(
        &self,
        values: &Self::Buffer<f32>,
        columns: &ParzenBins,
        table: &[f64],
        mapped: &mut Self::Buffer<f32>,
        derivative: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}
