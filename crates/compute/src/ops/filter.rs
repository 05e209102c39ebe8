//! Filters: Gaussian smoothing and box means, separable, over scalar volumes and the components of
//! vector fields.

use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len, voxels};

/// How a Gaussian is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GaussianMethod {
    /// A recursive filter: the cost does not depend on the width. The impulse response is the sum
    /// of two damped oscillations to each side, fitted to the Gaussian (R. Deriche, "Recursively
    /// implementing the Gaussian and its derivatives", INRIA RR-1893, 1993, fourth order); it is
    /// within 5e-4 of the peak of the Gaussian everywhere, and its variance is 0.5 % below
    /// sigma². The state at the borders is that of the replicated edge, exactly. An axis with
    /// sigma below [`RECURSIVE_FROM`] is filtered as [`Fir`](Self::Fir), which is faster there on the
    /// CPU and nearer to the Gaussian.
    #[default]
    Recursive,
    /// The sampled Gaussian, cut at [`NARROW_WIDTHS`] sigma and normalised to a sum of one, where that is
    /// a window of at most [`NARROW_RADIUS`] voxels to each side: as near to the Gaussian as
    /// [`Recursive`](Self::Recursive), which it is where the window is wider, and faster. A GPU filters
    /// vector fields by it in one pass over memory.
    Narrow,
    /// The sampled Gaussian, cut at [`FIR_WIDTHS`] sigma and normalised to a sum of one.
    Fir,
}

/// The smallest sigma, in voxels, for which [`GaussianMethod::Recursive`] is recursive; the same on all
/// devices, so that their pyramids agree.
pub const RECURSIVE_FROM: f64 = 1.0;

/// Where the sampled Gaussian is cut, in sigmas.
pub const FIR_WIDTHS: f64 = 5.0;

/// Where it is cut with [`GaussianMethod::Narrow`], in sigmas: beyond, the weights are below 5e-4 of that
/// of the centre.
pub const NARROW_WIDTHS: f64 = 3.9;

/// The largest radius of a window of [`GaussianMethod::Narrow`], voxels.
pub const NARROW_RADIUS: usize = 6;

/// Sigmas below this, in voxels, leave an axis as it is: the neighbours would weigh less than
/// the precision of the numbers.
pub const SIGMA_NONE: f64 = 0.15;

/// Separable filters.
///
/// A buffer holds one image of the `dims` or several, one after the other, each of which is filtered
/// by itself: a vector field is three. Its length is a multiple of the number of voxels.
#[forwarded]
pub trait Filter: Memory {
    /// Smooths by a Gaussian: `out = G_x * G_y * G_z * src`, where `G_a` has the standard deviation
    /// `sigma[a]` in voxels, and beyond the border the nearest voxel is repeated. The weights
    /// sum to one: a constant stays as it is, to rounding.
    ///
    /// An axis of size 1, or with a sigma below [`SIGMA_NONE`], is left as it is. `src` and `out`
    /// have the same length. With [`GaussianMethod::Recursive`] a value that is not finite spreads along the
    /// whole of its lines.
    ///
    /// # Errors
    /// Wrong lengths or sizes; a sigma that is negative or not finite, or above [`MOST_FIR`] with
    /// [`GaussianMethod::Fir`].
    fn gaussian(
        &self,
        src: &Self::Buffer<f32>,
        dims: Dims,
        sigma: [f64; 3],
        method: GaussianMethod,
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;

    /// The mean over the box of `2 radius[a] + 1` voxels along each axis `a`, of those of them
    /// that are inside the grid: near the border the box is smaller, and the mean is over fewer.
    /// The cost does not depend on the radius; the sums are accumulated in `f64`.
    ///
    /// `src` and `out` have the same length. A value that is not finite spreads to the end of its lines.
    ///
    /// # Errors
    /// Wrong lengths or sizes.
    fn box_mean(
        &self,
        src: &Self::Buffer<f32>,
        dims: Dims,
        radius: [usize; 3],
        out: &mut Self::Buffer<f32>,
    ) -> Result<()>;
}

/// Checks the lengths of a buffer with images of the sizes `dims`, and of that for the result.
///
/// # Errors
/// Sizes that make no grid, or lengths that are not those of one image or more.
pub fn check_images(dims: Dims, src: usize, out: usize) -> Result<()> {
    let n = voxels("dims", dims)?;
    // What is missing to the next whole image, or all of one.
    check_len("source", src.next_multiple_of(n).max(n), src)?;
    check_len("output", src, out)
}

/// The largest sigma of [`GaussianMethod::Fir`], voxels: all weights are held at once.
pub const MOST_FIR: f64 = 65536.0;

/// Checks the arguments of [`Filter::gaussian`].
///
/// # Errors
/// As there.
pub fn check_gaussian(
    dims: Dims,
    src: usize,
    sigma: [f64; 3],
    method: GaussianMethod,
    out: usize,
) -> Result<()> {
    check_images(dims, src, out)?;
    if let Some(s) = sigma.iter().find(|s| !(s.is_finite() && **s >= 0.0)) {
        return Err(ComputeError::argument("sigma", s, "finite and not negative"));
    }
    match sigma.iter().find(|s| method == GaussianMethod::Fir && **s > MOST_FIR) {
        None => Ok(()),
        Some(s) => {
            Err(ComputeError::argument("sigma", s, "at most 65536 where it is not recursive"))
        }
    }
}

/// The weights of the filter window of an axis, from the centre to one side; none where it is filtered recursively.
/// Every device uses these, so that all compute the same sums.
pub fn window(sigma: f64, method: GaussianMethod) -> Option<Vec<f64>> {
    match method {
        GaussianMethod::Fir => Some(fir_weights(sigma)),
        GaussianMethod::Narrow if is_narrow(sigma) => Some(narrow_weights(sigma)),
        GaussianMethod::Recursive if sigma < RECURSIVE_FROM => Some(fir_weights(sigma)),
        GaussianMethod::Narrow | GaussianMethod::Recursive => None,
    }
}

/// Whether a window of [`GaussianMethod::Narrow`] has at most [`NARROW_RADIUS`] voxels to each side.
pub fn is_narrow(sigma: f64) -> bool {
    sigma * NARROW_WIDTHS < (NARROW_RADIUS + 1) as f64
}

/// The weights of the sampled Gaussian of standard deviation `sigma` voxels, from the centre to
/// one side: `w[0] + 2 (w[1] + …) = 1`.
pub fn fir_weights(sigma: f64) -> Vec<f64> {
    sampled_weights(sigma, (FIR_WIDTHS * sigma).ceil() as usize)
}

/// The same without weights below 5e-4 of that of the centre.
pub fn narrow_weights(sigma: f64) -> Vec<f64> {
    sampled_weights(sigma, (NARROW_WIDTHS * sigma).floor() as usize)
}

fn sampled_weights(sigma: f64, radius: usize) -> Vec<f64> {
    let mut w: Vec<f64> = (0..=radius).map(|i| (-0.5 * (i as f64 / sigma).powi(2)).exp()).collect();
    let sum = w[0] + 2.0 * w[1..].iter().sum::<f64>();
    w.iter_mut().for_each(|x| *x /= sum);
    w
}

/// A recursive Gaussian of one axis, in its parallel form: the sum of
/// `y⁺[i] = Σ_{k=0..3} forward[k] x[i−k] − Σ_{k=1..4} feedback[k−1] y⁺[i−k]` and
/// `y⁻[i] = Σ_{k=1..4} backward[k−1] x[i+k] − Σ_{k=1..4} feedback[k−1] y⁻[i+k]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recursion {
    /// The weights of the input in the causal part.
    pub forward: [f64; 4],
    /// The weights of the input in the anticausal part.
    pub backward: [f64; 4],
    /// The weights of the output in both.
    pub feedback: [f64; 4],
}

impl Recursion {
    /// The recursion of a Gaussian of standard deviation `sigma` voxels.
    pub fn gaussian(sigma: f64) -> Self {
        let [(n, d), (m, e)] = terms(sigma);
        let feedback =
            [d[0] + e[0], d[1] + d[0] * e[0] + e[1], d[0] * e[1] + d[1] * e[0], d[1] * e[1]];
        let mut forward = [
            n[0] + m[0],
            n[1] + n[0] * e[0] + m[1] + m[0] * d[0],
            n[1] * e[0] + n[0] * e[1] + m[1] * d[0] + m[0] * d[1],
            n[1] * e[1] + m[1] * d[1],
        ];
        // The anticausal part is the mirror image without the centre.
        let mut backward = [
            forward[1] - feedback[0] * forward[0],
            forward[2] - feedback[1] * forward[0],
            forward[3] - feedback[2] * forward[0],
            -feedback[3] * forward[0],
        ];
        let gain = (forward.iter().sum::<f64>() + backward.iter().sum::<f64>())
            / (1.0 + feedback.iter().sum::<f64>());
        forward.iter_mut().chain(&mut backward).for_each(|x| *x /= gain);
        Self { forward, backward, feedback }
    }

    /// The outputs of the causal and the anticausal part for an input that is one everywhere.
    pub fn steady(&self) -> [f64; 2] {
        let below = 1.0 + self.feedback.iter().sum::<f64>();
        [self.forward.iter().sum::<f64>() / below, self.backward.iter().sum::<f64>() / below]
    }
}

/// The two terms of the recursive Gaussian of standard deviation `sigma` voxels, not normalised:
/// `(n0 + n1 z⁻¹) / (1 + d1 z⁻¹ + d2 z⁻²)` as `([n0, n1], [d1, d2])`.
fn terms(sigma: f64) -> [([f64; 2], [f64; 2]); 2] {
    // exp(-x²/2) is near Σ (a cos ωx + b sin ωx) exp(-λx) for x >= 0 (Deriche 1993): a, b, λ, ω.
    const FIT: [[f64; 4]; 2] = [[1.680, 3.735, 1.783, 0.6318], [-0.6803, -0.2598, 1.723, 1.997]];
    FIT.map(|[a, b, lambda, omega]| {
        let (r, angle) = ((-lambda / sigma).exp(), omega / sigma);
        let (sin, cos) = angle.sin_cos();
        ([a, r * (b * sin - a * cos)], [-2.0 * r * cos, r * r])
    })
}

/// One of the two terms of a [`Recursion`], as a section of second order:
/// `w⁺[i] = x[i] − feedback[0] w⁺[i−1] − feedback[1] w⁺[i−2]` gives
/// `forward[0] w⁺[i] + forward[1] w⁺[i−1]`, and likewise to the other side, of `w⁻`,
/// `backward[0] w⁻[i+1] + backward[1] w⁻[i+2]`. The sum of both terms is the recursion. Its state
/// may be carried over many samples at once: its errors grow little.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Section {
    /// The weights of the last two values in the next.
    pub feedback: [f64; 2],
    /// The weights in the causal output.
    pub forward: [f64; 2],
    /// The weights in the anticausal output.
    pub backward: [f64; 2],
}

impl Section {
    /// The two sections of a Gaussian of standard deviation `sigma` voxels.
    pub fn gaussian(sigma: f64) -> [Self; 2] {
        let mut sections = terms(sigma).map(|(n, d)| Self {
            feedback: d,
            forward: n,
            // The mirror image without the centre.
            backward: [n[1] - d[0] * n[0], -d[1] * n[0]],
        });
        let gain: f64 = sections
            .iter()
            .map(|s| s.forward.iter().chain(&s.backward).sum::<f64>() * s.steady())
            .sum();
        for s in &mut sections {
            s.forward.iter_mut().chain(&mut s.backward).for_each(|x| *x /= gain);
        }
        sections
    }

    /// The value for an input that is one everywhere.
    pub fn steady(&self) -> f64 {
        1.0 / (1.0 + self.feedback[0] + self.feedback[1])
    }

    /// The matrix, by rows, that carries the last two values, newest first, over `samples` samples
    /// of zero.
    pub fn power(&self, samples: u32) -> [f64; 4] {
        let product = |a: [f64; 4], b: [f64; 4]| {
            [
                a[0] * b[0] + a[1] * b[2],
                a[0] * b[1] + a[1] * b[3],
                a[2] * b[0] + a[3] * b[2],
                a[2] * b[1] + a[3] * b[3],
            ]
        };
        let one = [-self.feedback[0], -self.feedback[1], 1.0, 0.0];
        (0..samples).fold([1.0, 0.0, 0.0, 1.0], |all, _| product(one, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impulse_response_is_near_the_gaussian() {
        for sigma in [0.7, 1.0, 1.7, 3.0, 10.0, 40.0, 150.0] {
            let r = Recursion::gaussian(sigma);
            let n = (16.0 * sigma) as usize + 8;
            let mut h: Vec<f64> = Vec::new();
            for i in 0..n {
                let mut v = if i < 4 { r.forward[i] } else { 0.0 };
                for k in 1..=4.min(i) {
                    v -= r.feedback[k - 1] * h[i - k];
                }
                h.push(v);
            }
            let sum = h[0] + 2.0 * h[1..].iter().sum::<f64>();
            assert!((sum - 1.0).abs() < 1e-9, "sigma {sigma}: sum {sum}");
            let g: Vec<f64> = (0..n).map(|i| (-0.5 * (i as f64 / sigma).powi(2)).exp()).collect();
            let area = g[0] + 2.0 * g[1..].iter().sum::<f64>();
            let error = (0..n).map(|i| (h[i] * area - g[i]).abs()).fold(0.0, f64::max);
            assert!(error < 5e-4, "sigma {sigma}: error {error}");
        }
    }

    #[test]
    fn fir_weights_sum_to_one() {
        for sigma in [0.15, 0.4, 1.0, 7.3] {
            for w in [fir_weights(sigma), narrow_weights(sigma)] {
                assert!((w[0] + 2.0 * w[1..].iter().sum::<f64>() - 1.0).abs() < 1e-12);
                assert!(w.windows(2).all(|p| p[1] < p[0]));
            }
            let (all, narrow) = (fir_weights(sigma), narrow_weights(sigma));
            assert!(all[narrow.len()..].iter().all(|&w| w < 5e-4 * all[0]));
        }
    }

    #[test]
    fn sections_are_the_recursion() {
        for sigma in [0.7, 2.0, 11.0, 60.0] {
            let (r, sections) = (Recursion::gaussian(sigma), Section::gaussian(sigma));
            let n = 200;
            let (mut y, mut z) = (vec![0.0; n], vec![0.0; n]);
            let mut w = [vec![0.0; n], vec![0.0; n]];
            for i in 0..n {
                let back = |v: &[f64], k: usize| if k <= i { v[i - k] } else { 0.0 };
                for (w, s) in w.iter_mut().zip(&sections) {
                    let x = if i == 0 { 1.0 } else { 0.0 };
                    w[i] = x - s.feedback[0] * back(w, 1) - s.feedback[1] * back(w, 2);
                    z[i] += s.forward[0] * w[i] + s.forward[1] * back(w, 1);
                    let power = s.power(i as u32);
                    assert!((power[0] - w[i]).abs() < 1e-10 * n as f64);
                }
                y[i] = if i < 4 { r.forward[i] } else { 0.0 };
                for k in 1..=4 {
                    y[i] -= r.feedback[k - 1] * back(&y, k);
                }
                assert!((y[i] - z[i]).abs() < 1e-9, "sigma {sigma}, sample {i}");
            }
            // The anticausal part is the causal one without the centre.
            for i in 1..n {
                let of = |(w, s): (&Vec<f64>, &Section)| {
                    s.backward[0] * w[i - 1] + s.backward[1] * if i > 1 { w[i - 2] } else { 0.0 }
                };
                let mirrored: f64 = w.iter().zip(&sections).map(of).sum();
                assert!((mirrored - y[i]).abs() < 1e-9, "sigma {sigma}, sample {i}");
            }
        }
    }
}
