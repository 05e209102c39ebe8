//! Fused elementwise operations on several buffers: one pass over memory however many inputs.

use voxalign_compute_macros::forwarded;

use crate::device::Memory;
use crate::error::Result;

pub use super::expression::{Binary, Expr, Node, Unary, constant, param, scalar, select, x};

/// The largest depth of an expression.
pub const MAX_DEPTH: usize = 1000;

/// Evaluation of expressions at each element.
#[forwarded]
pub trait Elementwise: Memory {
    /// `out[k] = expr` with `x(i) = inputs[i][k]`, `param(i) = params[i]` and
    /// `scalar(i) = scalars[i]`, for all elements `k`. The inputs and `out` have one length.
    ///
    /// # Errors
    /// Buffers of different lengths; an input, parameter or scalar that is not there; an expression
    /// deeper than [`MAX_DEPTH`].
    fn eval(
        &self,
        expr: &Expr,
        inputs: &[&Self::Buffer<f32>],
        params: &[f32],
        scalars: Option<&Self::Buffer<f64>>,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// As [`eval`](Self::eval) with the result in place of an input: `x(0)` is `io`, and `x(i + 1)`
    /// is `inputs[i]`.
    ///
    /// # Errors
    /// As [`eval`](Self::eval).
    fn eval_in_place(
        &self,
        expr: &Expr,
        io: &mut Self::Buffer<f32>,
        inputs: &[&Self::Buffer<f32>],
        params: &[f32],
        scalars: Option<&Self::Buffer<f64>>,
    ) -> Result<()>;
}
