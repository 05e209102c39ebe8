//! Sums over all pairs of points on the CPU: sixteen targets at once, one source after the other.

use super::simd::kernel;
use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Pairwise;
use crate::ops::pairwise::{KernelShape, REACH, RadialKernel, Sizes, TILE, check};
use voxalign_image::memory;

/// The targets that are summed together.
const LANES: usize = 16;
/// The targets of a task.
const TASK: usize = 4 * LANES;

/// Sources as they are read: scaled places, then weights.
struct Sources {
    numbers: Vec<f32>,
    /// Those of each tile.
    bounds: Vec<Bounds>,
}

/// Added to a number below 2^22 it makes its last bits the nearest whole number.
const ROUND: f32 = 1.5 * (1u32 << 23) as f32;

/// 2^x for x from −126 to 0, to 3 in the last place, by a polynomial of the least relative error; below, nothing.
#[inline(always)]
fn power_of_two(x: f32) -> f32 {
    let shifted = x + ROUND;
    let r = x - (shifted - ROUND);
    let sum = 1.330_06e-3 * r + 9.669_692e-3;
    let sum = (sum * r + 5.550_558_5e-2) * r + 2.402_228_3e-1;
    let sum = (sum * r + std::f32::consts::LN_2) * r + 1.0;
    let power = sum * f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
    if x < -126.0 { 0.0 } else { power }
}

/// Bounds of points, from the least to the most along each axis; what is not finite is everywhere.
#[derive(Debug, Clone, Copy)]
struct Bounds([[f32; 3]; 2]);

impl Bounds {
    const NONE: Self = Self([[f32::INFINITY; 3], [f32::NEG_INFINITY; 3]]);

    fn include(&mut self, at: [f32; 3], is_finite: bool) {
        let [low, high] = &mut self.0;
        for a in 0..3 {
            low[a] = if is_finite { low[a].min(at[a]) } else { f32::NEG_INFINITY };
            high[a] = if is_finite { high[a].max(at[a]) } else { f32::INFINITY };
        }
    }

    /// Whether a Gaussian of any pair of their points is nothing.
    fn is_far(&self, other: &Self) -> bool {
        let [[low, high], [other_low, other_high]] = [self.0, other.0];
        let gap = |a: usize| (other_low[a] - high[a]).max(low[a] - other_high[a]).max(0.0);
        let [x, y, z] = [gap(0), gap(1), gap(2)];
        x * x + y * y + z * z > REACH
    }
}

kernel! {
    /// The sums of one group of targets: `C` components, then the three derivatives where moments are given.
    fn group<V, const C: usize, const GAUSSIAN: bool, const DERIVATIVES: bool>(
        v,
        targets: &[[f32; LANES]; 3],
        bounds: &Bounds,
        moments: &[[f32; LANES]; 6],
        sources: &Sources,
        sums: &mut [[f64; LANES]; 9],
    ) {
        let _ = v;
        let each = 3 + C;
        for (tile, of_tile) in sources.numbers.chunks(TILE * each).zip(&sources.bounds) {
            if GAUSSIAN && bounds.is_far(of_tile) {
                continue;
            }
            let mut part = [[0f32; LANES]; 9];
            for source in tile.chunks_exact(each) {
                let (mut d, mut r) = ([[0f32; LANES]; 3], [0f32; LANES]);
                for a in 0..3 {
                    for l in 0..LANES {
                        d[a][l] = targets[a][l] - source[a];
                        r[l] += d[a][l] * d[a][l];
                    }
                }
                let mut k = [0f32; LANES];
                for l in 0..LANES {
                    k[l] = if GAUSSIAN { power_of_two(-r[l]) } else { 1.0 / (1.0 + r[l]) };
                }
                let mut dot = [0f32; LANES];
                for c in 0..C {
                    let weight = source[3 + c];
                    for l in 0..LANES {
                        part[c][l] += k[l] * weight;
                        if DERIVATIVES {
                            dot[l] += weight * moments[c][l];
                        }
                    }
                }
                if DERIVATIVES {
                    for l in 0..LANES {
                        dot[l] *= if GAUSSIAN { k[l] } else { k[l] * k[l] };
                    }
                    for a in 0..3 {
                        for l in 0..LANES {
                            part[C + a][l] += dot[l] * d[a][l];
                        }
                    }
                }
            }
            for (sums, part) in sums.iter_mut().zip(&part) {
                for l in 0..LANES {
                    sums[l] += f64::from(part[l]);
                }
            }
        }
    }
}

type Group = fn(
    super::Simd,
    &[[f32; LANES]; 3],
    &Bounds,
    &[[f32; LANES]; 6],
    &Sources,
    &mut [[f64; LANES]; 9],
);

fn group_of(components: usize, shape: KernelShape, derivatives: bool) -> Group {
    match (components, shape, derivatives) {
        (1, KernelShape::Gaussian, false) => group::<1, true, false>,
        (1, KernelShape::Gaussian, true) => group::<1, true, true>,
        (1, KernelShape::Cauchy, false) => group::<1, false, false>,
        (1, KernelShape::Cauchy, true) => group::<1, false, true>,
        (3, KernelShape::Gaussian, false) => group::<3, true, false>,
        (3, KernelShape::Gaussian, true) => group::<3, true, true>,
        (3, KernelShape::Cauchy, false) => group::<3, false, false>,
        (3, KernelShape::Cauchy, true) => group::<3, false, true>,
        // Without derivatives the compiler makes no vectors of the loops over six components, which takes ten times as long:
        // derivatives of moments that are zero are found and left out.
        (_, KernelShape::Gaussian, _) => group::<6, true, true>,
        (_, KernelShape::Cauchy, _) => group::<6, false, true>,
    }
}

impl Sources {
    fn new(places: &[f32], weights: &[f32], sizes: &Sizes, scale: f64) -> Result<Self> {
        let (n, each) = (sizes.sources, 3 + sizes.components);
        let mut numbers = memory::room(n * each)?;
        for j in 0..n {
            numbers.extend((0..3).map(|a| (f64::from(places[a * n + j]) * scale) as f32));
            numbers.extend((0..sizes.components).map(|c| weights[c * n + j]));
        }
        let mut bounds = memory::room(n.div_ceil(TILE))?;
        bounds.extend(numbers.chunks(TILE * each).map(|tile| {
            let mut of_tile = Bounds::NONE;
            for source in tile.chunks_exact(each) {
                let is_finite = source.iter().all(|v| v.is_finite());
                of_tile.include([source[0], source[1], source[2]], is_finite);
            }
            of_tile
        }));
        Ok(Self { numbers, bounds })
    }
}

/// A group of values of targets from one on; zeros after the last.
fn lanes<const N: usize>(values: &[f32], n: usize, first: usize, scale: f64) -> [[f32; LANES]; N] {
    let mut lanes = [[0.0; LANES]; N];
    for (lanes, values) in lanes.iter_mut().zip(values.chunks_exact(n.max(1))) {
        for (lane, &value) in lanes.iter_mut().zip(&values[first..]) {
            *lane = (f64::from(value) * scale) as f32;
        }
    }
    lanes
}

impl Cpu {
    #[allow(clippy::too_many_arguments)]
    fn pairs(
        &self,
        kernel: &RadialKernel,
        sizes: Sizes,
        targets: &[f32],
        moments: Option<&[f32]>,
        sources: &Sources,
        out: &mut [f32],
        derivatives: Option<&mut [f32]>,
    ) {
        let (n, components) = (sizes.targets, sizes.components);
        let group = group_of(components, kernel.shape, moments.is_some());
        let factor = kernel.derivative_factor();
        let found = self.collect(n.div_ceil(TASK), |task| {
            let mut found = [[[0f64; LANES]; 9]; TASK / LANES];
            for (g, sums) in found.iter_mut().enumerate() {
                let first = task * TASK + g * LANES;
                if first < n {
                    let at = lanes::<3>(targets, n, first, kernel.scale());
                    let moments = lanes::<6>(moments.unwrap_or_default(), n, first, 1.0);
                    let mut bounds = Bounds::NONE;
                    for l in 0..LANES.min(n - first) {
                        let of = |lanes: &[f32; LANES]| lanes[l].is_finite();
                        let is_finite = at.iter().all(of) && moments.iter().all(of);
                        bounds.include([at[0][l], at[1][l], at[2][l]], is_finite);
                    }
                    group(self.simd(), &at, &bounds, &moments, sources, sums);
                }
            }
            found
        });
        let mut derivatives = derivatives;
        for (g, sums) in found.iter().flatten().enumerate() {
            for l in 0..LANES.min(n.saturating_sub(g * LANES)) {
                let i = g * LANES + l;
                for c in 0..components {
                    out[c * n + i] = sums[c][l] as f32;
                }
                if let Some(derivatives) = &mut derivatives {
                    for a in 0..3 {
                        derivatives[a * n + i] = (factor * sums[components + a][l]) as f32;
                    }
                }
            }
        }
    }
}

impl Pairwise for Cpu {
    fn pair_sums(
        &self,
        kernel: &RadialKernel,
        targets: &CpuBuffer<f32>,
        sources: &CpuBuffer<f32>,
        weights: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [targets.len(), sources.len(), weights.len(), out.len()];
        let sizes = check(kernel, lengths, None)?;
        let sources = Sources::new(sources.as_slice(), weights.as_slice(), &sizes, kernel.scale())?;
        self.pairs(kernel, sizes, targets.as_slice(), None, &sources, out.as_mut_slice(), None);
        Ok(())
    }

    fn pair_sums_with_derivatives(
        &self,
        kernel: &RadialKernel,
        targets: &CpuBuffer<f32>,
        moments: &CpuBuffer<f32>,
        sources: &CpuBuffer<f32>,
        weights: &CpuBuffer<f32>,
        out: &mut CpuBuffer<f32>,
        derivatives: &mut CpuBuffer<f32>,
    ) -> Result<()> {
        let lengths = [targets.len(), sources.len(), weights.len(), out.len()];
        let sizes = check(kernel, lengths, Some([moments.len(), derivatives.len()]))?;
        let sources = Sources::new(sources.as_slice(), weights.as_slice(), &sizes, kernel.scale())?;
        let (moments, derivatives) = (Some(moments.as_slice()), Some(derivatives.as_mut_slice()));
        self.pairs(
            kernel,
            sizes,
            targets.as_slice(),
            moments,
            &sources,
            out.as_mut_slice(),
            derivatives,
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_exact_to_their_last_places() {
        let mut worst = 0.0f64;
        for i in 0..200_000 {
            let x = -126.0 * (i as f32 / 200_000.0);
            let exact = f64::from(x).exp2();
            worst = worst.max(((f64::from(power_of_two(x)) - exact) / exact).abs());
        }
        assert!(worst < 3e-7, "{worst:e}");
        assert!(power_of_two(0.0) == 1.0 && power_of_two(-126.0) > 1.1e-38);
        assert!(power_of_two(-126.001) == 0.0 && power_of_two(f32::NEG_INFINITY) == 0.0);
        assert!(power_of_two(f32::NAN).is_nan());
    }
}
