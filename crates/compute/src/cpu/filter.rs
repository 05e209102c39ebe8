//! Gaussian and box filters on the CPU.

use super::lines::{LineFilter, filter_axes};
use super::simd::{LANES, Lanes, Vectors, kernel};
use super::window::Windows;
use super::{Cpu, CpuBuffer, Simd};
use crate::Dims;
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Filter;
use crate::ops::filter::{
    GaussianMethod, Recursion, SIGMA_NONE, check_gaussian, check_images, window,
};

impl Filter for Cpu {
    fn gaussian(
        &self,
        src: &CpuBuffer<f32>,
        dims: Dims,
        sigma: [f64; 3],
        method: GaussianMethod,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        check_gaussian(dims, src.len(), sigma, method, out.len())?;
        let filters = gaussians(dims, sigma, method);
        if let Some(windows) = windows(&filters) {
            windows.filter(self, src.as_slice(), dims, out.as_mut_slice());
            return Ok(());
        }
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
        check_images(dims, src.len(), out.len())?;
        let filters =
            [0, 1, 2].map(|a| (dims[a] > 1 && radius[a] > 0).then_some(BoxMean(radius[a])));
        filter_axes(self, Some(src.as_slice()), dims, filters, out.as_mut_slice());
        Ok(())
    }
}

/// The Gaussians of those axes that have one.
fn gaussians(dims: Dims, sigma: [f64; 3], method: GaussianMethod) -> [Option<Gaussian>; 3] {
    [0, 1, 2]
        .map(|a| (dims[a] > 1 && sigma[a] >= SIGMA_NONE).then(|| Gaussian::new(sigma[a], method)))
}

/// The windows of all axes, where those that are filtered have small ones.
fn windows(filters: &[Option<Gaussian>; 3]) -> Option<Windows> {
    let weights = |filter: &Option<Gaussian>| match filter {
        None => Some(vec![1.0]),
        Some(Gaussian::Fir(weights)) => Some(weights.clone()),
        Some(Gaussian::Recursive(_)) => None,
    };
    let [x, y, z] = filters;
    Windows::new([weights(x)?, weights(y)?, weights(z)?])
}

/// A Gaussian of one axis.
enum Gaussian {
    Recursive(Recursion),
    /// From the centre to one side.
    Fir(Vec<f32>),
}

impl Gaussian {
    fn new(sigma: f64, method: GaussianMethod) -> Self {
        match window(sigma, method) {
            Some(weights) => Self::Fir(weights.iter().map(|&w| w as f32).collect()),
            None => Self::Recursive(Recursion::gaussian(sigma)),
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

kernel! {
    /// Both parts of the recursion, in `f64`; the causal one is kept in `causal`.
    fn recursive<V>(v, lines: &mut [Lanes], causal: &mut [Lanes], r: &Recursion) {
        let (Some(first), Some(last)) = (lines.first(), lines.last()) else {
            return;
        };
        let (first, last) = (v.widen(v.load(first)), v.widen(v.load(last)));
        let steady = r.steady();
        let (a, b, d) = (
            [0, 1, 2, 3].map(|k| v.splat_wide(r.forward[k])),
            [0, 1, 2, 3].map(|k| v.splat_wide(r.backward[k])),
            [0, 1, 2, 3].map(|k| v.splat_wide(r.feedback[k])),
        );
        // The newest first. The sums are arranged for a short way from the newest output on.
        let mut x = [first; 3];
        let mut y = [v.mul_wide(first, v.splat_wide(steady[0])); 4];
        for (out, line) in causal.iter_mut().zip(lines.iter()) {
            let now = v.widen(v.load(line));
            let recent = v.add_wide(v.mul_wide(a[0], now), v.mul_wide(a[1], x[0]));
            let older = v.add_wide(v.mul_wide(a[2], x[1]), v.mul_wide(a[3], x[2]));
            let input = v.sub_wide(v.add_wide(recent, older), v.mul_wide(d[3], y[3]));
            let output = v.add_wide(v.mul_wide(d[2], y[2]), v.mul_wide(d[1], y[1]));
            let new = v.sub_wide(v.sub_wide(input, output), v.mul_wide(d[0], y[0]));
            v.store(v.narrow(new), out);
            x = [now, x[0], x[1]];
            y = [new, y[0], y[1], y[2]];
        }
        let mut x = [last; 4];
        let mut y = [v.mul_wide(last, v.splat_wide(steady[1])); 4];
        for (line, causal) in lines.iter_mut().zip(causal.iter()).rev() {
            let now = v.widen(v.load(line));
            let recent = v.add_wide(v.mul_wide(b[0], x[0]), v.mul_wide(b[1], x[1]));
            let older = v.add_wide(v.mul_wide(b[2], x[2]), v.mul_wide(b[3], x[3]));
            let input = v.sub_wide(v.add_wide(recent, older), v.mul_wide(d[3], y[3]));
            let output = v.add_wide(v.mul_wide(d[2], y[2]), v.mul_wide(d[1], y[1]));
            let new = v.sub_wide(v.sub_wide(input, output), v.mul_wide(d[0], y[0]));
            v.store(v.add(v.load(causal), v.narrow(new)), line);
            x = [now, x[0], x[1], x[2]];
            y = [new, y[0], y[1], y[2]];
        }
    }
}

kernel! {
    /// A symmetric weighted mean over neighbours; `padded` gets the lines with repeated ends.
    fn fir<V>(v, lines: &mut [Lanes], padded: &mut Vec<Lanes>, weights: &[f32]) {
        let (Some(first), Some(last)) = (lines.first().copied(), lines.last().copied()) else {
            return;
        };
        let radius = weights.len() - 1;
        padded.clear();
        padded.resize(radius, first);
        padded.extend_from_slice(lines);
        padded.resize(lines.len() + 2 * radius, last);
        // Several sums at once, so that none waits for the one before it.
        let (groups, rest) = lines.as_chunks_mut::<AT_ONCE>();
        let done = groups.len() * AT_ONCE;
        for (i, group) in groups.iter_mut().enumerate() {
            let window = &padded[i * AT_ONCE..][..2 * radius + AT_ONCE];
            let sums = weighted::<V, AT_ONCE>(v, window, weights);
            for (sum, line) in sums.into_iter().zip(group) {
                v.store(sum, line);
            }
        }
        for (line, window) in rest.iter_mut().zip(padded[done..].windows(2 * radius + 1)) {
            v.store(weighted::<V, 1>(v, window, weights)[0], line);
        }
    }
}

/// Sums of a symmetric filter that are made at once.
const AT_ONCE: usize = 4;

/// `N` weighted sums, of the first voxels of the window that have all neighbours on.
#[inline(always)]
fn weighted<V: Vectors, const N: usize>(v: V, window: &[Lanes], weights: &[f32]) -> [V::F; N] {
    let radius = weights.len() - 1;
    let centre = v.splat(weights[0]);
    let mut sums = [centre; N];
    for (sum, at) in sums.iter_mut().zip(&window[radius..]) {
        *sum = v.mul(centre, v.load(at));
    }
    for (k, &weight) in weights.iter().enumerate().skip(1) {
        let weight = v.splat(weight);
        let (before, after) = (&window[radius - k..][..N], &window[radius + k..][..N]);
        for ((sum, before), after) in sums.iter_mut().zip(before).zip(after) {
            *sum = v.add(*sum, v.mul(weight, v.add(v.load(before), v.load(after))));
        }
    }
    sums
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
    fn box_mean<V>(v, lines: &mut [Lanes], from: &[Lanes], radius: usize) {
        let n = lines.len();
        let mut sum = v.splat_wide(0.0);
        for line in &from[..radius.min(n)] {
            sum = v.add_wide(sum, v.widen(v.load(line)));
        }
        for (i, line) in lines.iter_mut().enumerate() {
            if let Some(new) = i.checked_add(radius).and_then(|j| from.get(j)) {
                sum = v.add_wide(sum, v.widen(v.load(new)));
            }
            let count = radius.saturating_add(i + 1).min(n) - i.saturating_sub(radius);
            v.store(v.narrow(v.mul_wide(sum, v.splat_wide(1.0 / count as f64))), line);
            if i >= radius {
                sum = v.sub_wide(sum, v.widen(v.load(&from[i - radius])));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One pass over memory and one for each axis give the same bits.
    #[test]
    fn windows_are_those_of_lines() {
        let sigmas = [[0.7; 3], [1.7, 0.0, 0.9], [0.0, 1.2, 0.0], [0.3, 0.5, 1.75]];
        for dims in [[1, 1, 1], [16, 5, 1], [33, 40, 9], [18, 3, 70], [70, 130, 4]] {
            let n: usize = dims.iter().product();
            let whole: Vec<f32> = (0..3 * n).map(|i| ((i * 7919) % 1013) as f32 - 400.0).collect();
            // Zeros but for a corner, as velocities have them.
            let is_lit = |i: usize| i % dims[0] < 5 && i / dims[0] % dims[1] > dims[1] / 2;
            let corner = (0..3 * n).map(|i| if is_lit(i) { whole[i] } else { 0.0 }).collect();
            for (image, sigma) in [&whole, &corner].into_iter().flat_map(|i| sigmas.map(|s| (i, s)))
            {
                let filters = || gaussians(dims, sigma, GaussianMethod::Narrow);
                let one = Cpu::new(Some(1)).unwrap();
                let mut expected = vec![0.0; 3 * n];
                filter_axes(&one, Some(image), dims, filters(), &mut expected);
                for threads in [1, 3] {
                    let cpu = Cpu::new(Some(threads)).unwrap();
                    let mut found = vec![1.0; 3 * n];
                    let windows = windows(&filters()).unwrap();
                    windows.filter(&cpu, image, dims, &mut found);
                    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
                    assert!(expected.iter().zip(&found).all(same), "{dims:?}, {sigma:?}");
                }
            }
        }
    }
}
