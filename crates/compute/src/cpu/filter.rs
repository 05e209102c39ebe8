//! Gaussian and box filters on the CPU.

use super::lines::{LANES, Lanes, LineFilter, filter_axes};
use super::simd::kernel;
use super::{Cpu, CpuBuffer, Simd};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::{Result, check_len, voxels};
use crate::ops::Filter;
use crate::ops::filter::{Method, RECURSIVE_FROM, Recursion, SIGMA_NONE, check_sigma, fir_weights};

impl Filter for Cpu {
    fn gaussian(
        &self,
        src: &CpuBuffer<f32>,
        dims: Dims,
        sigma: [f64; 3],
        method: Method,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let n = voxels("dims", dims)?;
        check_len("source", n, src.len())?;
        check_len("output", n, out.len())?;
        check_sigma(sigma)?;
        let filters = [0, 1, 2].map(|a| {
            (dims[a] > 1 && sigma[a] >= SIGMA_NONE).then(|| Gaussian::new(sigma[a], method))
        });
        filter_axes(self, Some(src.as_slice()), dims, filters, out.as_mut_slice());
        Ok(())
    }

    fn box_mean(
        &self,
        src: &CpuBuffer<f32>,
        dims: Dims,
        radius: [usize; 3],
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let n = voxels("dims", dims)?;
        check_len("source", n, src.len())?;
        check_len("output", n, out.len())?;
        let filters =
            [0, 1, 2].map(|a| (dims[a] > 1 && radius[a] > 0).then_some(BoxMean(radius[a])));
        filter_axes(self, Some(src.as_slice()), dims, filters, out.as_mut_slice());
        Ok(())
    }
}

/// A Gaussian of one axis.
enum Gaussian {
    Recursive(Recursion),
    /// From the centre to one side.
    Fir(Vec<f32>),
}

impl Gaussian {
    fn new(sigma: f64, method: Method) -> Self {
        match method {
            Method::Recursive if sigma >= RECURSIVE_FROM => {
                Self::Recursive(Recursion::gaussian(sigma))
            }
            _ => Self::Fir(fir_weights(sigma).iter().map(|&w| w as f32).collect()),
        }
    }
}

impl LineFilter for Gaussian {
    fn run(&self, simd: Simd, lines: &mut [Lanes], scratch: &mut Vec<Lanes>) {
        match self {
            Self::Recursive(r) => {
                scratch.resize(scratch.len().max(lines.len()), [0.0; LANES]);
                recursive(simd, lines, &mut scratch[..lines.len()], r);
            }
            Self::Fir(weights) => fir(simd, lines, scratch, weights),
        }
    }
}

/// The running state of a recursion over some of the lanes.
const PART: usize = 8;
type Part = [f64; PART];

#[inline(always)]
fn part(lanes: &Lanes, start: usize) -> Part {
    std::array::from_fn(|l| f64::from(lanes[start + l]))
}

kernel! {
    /// Both parts of the recursion, in `f64`; the causal one is kept in `causal`.
    fn recursive(lines: &mut [Lanes], causal: &mut [Lanes], r: &Recursion) {
        let steady = r.steady();
        let (Some(first), Some(last)) = (lines.first().copied(), lines.last().copied()) else {
            return;
        };
        for start in (0..LANES).step_by(PART) {
            let [a0, a1, a2, a3] = r.forward;
            let [d1, d2, d3, d4] = r.feedback;
            let mut x = [part(&first, start); 3];
            let mut y = [part(&first, start).map(|v| v * steady[0]); 4];
            for (out, line) in causal.iter_mut().zip(lines.iter()) {
                let now = part(line, start);
                let new: Part = std::array::from_fn(|l| {
                    let input = (a0 * now[l] + a1 * x[0][l]) + (a2 * x[1][l] + a3 * x[2][l]);
                    let older = (input - d4 * y[3][l]) - (d3 * y[2][l] + d2 * y[1][l]);
                    older - d1 * y[0][l]
                });
                for l in 0..PART {
                    out[start + l] = new[l] as f32;
                }
                x = [now, x[0], x[1]];
                y = [new, y[0], y[1], y[2]];
            }
            let [b1, b2, b3, b4] = r.backward;
            let mut x = [part(&last, start); 4];
            let mut y = [part(&last, start).map(|v| v * steady[1]); 4];
            for (line, causal) in lines.iter_mut().zip(causal.iter()).rev() {
                let now = part(line, start);
                let new: Part = std::array::from_fn(|l| {
                    let input = (b1 * x[0][l] + b2 * x[1][l]) + (b3 * x[2][l] + b4 * x[3][l]);
                    let older = (input - d4 * y[3][l]) - (d3 * y[2][l] + d2 * y[1][l]);
                    older - d1 * y[0][l]
                });
                for l in 0..PART {
                    line[start + l] = (f64::from(causal[start + l]) + new[l]) as f32;
                }
                x = [now, x[0], x[1], x[2]];
                y = [new, y[0], y[1], y[2]];
            }
        }
    }
}

kernel! {
    /// A symmetric weighted mean over neighbours; `padded` gets the lines with repeated ends.
    fn fir(lines: &mut [Lanes], padded: &mut Vec<Lanes>, weights: &[f32]) {
        let (Some(first), Some(last)) = (lines.first().copied(), lines.last().copied()) else {
            return;
        };
        let radius = weights.len() - 1;
        padded.clear();
        padded.resize(radius, first);
        padded.extend_from_slice(lines);
        padded.resize(lines.len() + 2 * radius, last);
        for (line, window) in lines.iter_mut().zip(padded.windows(2 * radius + 1)) {
            let mut sum = window[radius].map(|v| v * weights[0]);
            for k in (1..=radius).rev() {
                let (before, after, w) = (&window[radius - k], &window[radius + k], weights[k]);
                for l in 0..LANES {
                    sum[l] += w * (before[l] + after[l]);
                }
            }
            *line = sum;
        }
    }
}

/// The mean over a window of this radius, cut at the ends of the line.
struct BoxMean(usize);

impl LineFilter for BoxMean {
    fn run(&self, simd: Simd, lines: &mut [Lanes], scratch: &mut Vec<Lanes>) {
        scratch.clear();
        scratch.extend_from_slice(lines);
        box_mean(simd, lines, scratch, self.0);
    }
}

kernel! {
    /// Running means of `from` over windows of `radius` to each side.
    fn box_mean(lines: &mut [Lanes], from: &[Lanes], radius: usize) {
        let n = lines.len();
        let mut sum = [0f64; LANES];
        for line in &from[..radius.min(n)] {
            for l in 0..LANES {
                sum[l] += f64::from(line[l]);
            }
        }
        for (i, line) in lines.iter_mut().enumerate() {
            if let Some(new) = i.checked_add(radius).and_then(|j| from.get(j)) {
                for l in 0..LANES {
                    sum[l] += f64::from(new[l]);
                }
            }
            let first = i.saturating_sub(radius);
            let count = radius.saturating_add(i + 1).min(n) - first;
            let scale = 1.0 / count as f64;
            for l in 0..LANES {
                line[l] = (sum[l] * scale) as f32;
            }
            if i >= radius {
                let old = &from[i - radius];
                for l in 0..LANES {
                    sum[l] -= f64::from(old[l]);
                }
            }
        }
    }
}
