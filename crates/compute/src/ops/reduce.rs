//! Reductions of whole buffers to numbers, several of them in one pass.

use voxalign_compute_macros::forwarded;

use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len};

/// A number made of the elements of one or two inputs, which are named by their place in the list
/// of inputs. Products, differences and sums are in `f64`.
///
/// Sums of elements that are not numbers are not numbers. Minima and maxima leave such elements
/// out; [`CountNonFinite`](Self::CountNonFinite) tells of them. Of no elements at all, sums and counts are
/// zero, minima are +∞ and maxima −∞ (of the absolute values: 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    /// Σ a
    Sum(usize),
    /// Σ a²
    SumSquares(usize),
    /// Σ |a|
    SumAbs(usize),
    /// Σ a b
    Dot(usize, usize),
    /// Σ (a − b)²
    SumSquaredDifference(usize, usize),
    /// The smallest element that is a number.
    Min(usize),
    /// The largest element that is a number.
    Max(usize),
    /// The largest absolute value of the elements that are numbers.
    MaxAbs(usize),
    /// The number of elements that are infinite or NaN.
    CountNonFinite(usize),
}

impl Reduction {
    /// The inputs that are reduced; twice the same where there is only one.
    pub fn inputs(self) -> [usize; 2] {
        match self {
            Self::Dot(a, b) | Self::SumSquaredDifference(a, b) => [a, b],
            Self::Sum(a)
            | Self::SumSquares(a)
            | Self::SumAbs(a)
            | Self::Min(a)
            | Self::Max(a)
            | Self::MaxAbs(a)
            | Self::CountNonFinite(a) => [a, a],
        }
    }
}

/// Reductions over whole buffers.
///
/// The elements are summed in `f64` over fixed pieces, which are put together in a fixed order: the
/// result has the same bits however many threads there are.
#[forwarded]
pub trait Reduce: Memory {
    /// The numbers `what` of `inputs`, all of one length, in one pass over them.
    ///
    /// # Errors
    /// Inputs of different lengths; a reduction of an input that is not there.
    fn reduce(&self, inputs: &[&Self::Buffer<f32>], what: &[Reduction]) -> Result<Vec<f64>>;

    /// As [`reduce`](Self::reduce), with the result in a buffer of the device, of as many
    /// elements as there are numbers.
    ///
    /// # Errors
    /// As [`reduce`](Self::reduce).
    fn reduce_into(
        &self,
        inputs: &[&Self::Buffer<f32>],
        what: &[Reduction],
        out: &mut Self::Buffer<f64>,
    ) -> Result<()>;
}

/// Checks the inputs of a reduction, given their lengths, and gives their common length.
///
/// # Errors
/// As [`Reduce::reduce`].
pub fn check(lengths: &[usize], what: &[Reduction]) -> Result<usize> {
    let n = lengths.first().copied().unwrap_or(0);
    for &len in lengths {
        check_len("inputs of a reduction", n, len)?;
    }
    match what.iter().flat_map(|r| r.inputs()).find(|&i| i >= lengths.len()) {
        None => Ok(n),
        Some(i) => Err(ComputeError::argument("input of a reduction", i, "one of the inputs")),
    }
}
