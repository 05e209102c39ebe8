//! The `histogram` family on the CPU.

mod counts;
mod joint;
mod sampler;
mod sums;

/// Shared by the histograms of pairs and those of samples.
pub(super) mod windows {
    pub(in crate::cpu) use super::joint::{Columns, derivatives, place, weights};
}

use crate::cpu::{Cpu, CpuBuffer};
use crate::device::Memory;
use crate::error::{Result, check_len};
use crate::host::zeroed;
use crate::ops::histogram::{
    Histogram, JointScheme, LayoutOptions, MovingView, ParzenBins, SampleLayout, SampleSet, Scheme,
    SumsAndGradient, Terms, ValueCounts, check_joint, check_moving, check_tables, check_terms,
    unsupported_scheme,
};
#[cfg(feature = "baselines")]
use crate::ops::histogram::{JointMethod, Schemes, unsupported_joint};
use crate::{AffineMap, Dims};
use sampler::{Moving, PerMap};
use voxalign_image::memory::collected;

/// Chunks that a set of samples is cut into: fixed, so that sums do not depend on the threads.
const CHUNKS: usize = 64;
/// Chunks whose tables are held at once.
const AT_ONCE: usize = 32;
/// Maps that share one pass over the samples.
const GROUP: usize = 4;
/// From this many maps on, the maps rather than the chunks are shared among the threads.
const MANY_MAPS: usize = 4;

/// The samples of a fixed image, in the memory of the CPU.
#[derive(Debug, Clone)]
pub struct CpuSamples {
    layout: SampleLayout,
    /// Ranges of runs with about equally many samples.
    chunks: Vec<std::ops::Range<usize>>,
}

impl CpuSamples {
    /// The grouped samples.
    #[must_use]
    pub fn layout(&self) -> &SampleLayout {
        &self.layout
    }

    fn new(layout: SampleLayout) -> Self {
        let target = layout.len.div_ceil(CHUNKS).max(4096);
        let mut chunks = Vec::new();
        let mut first = 0;
        let mut filled = 0;
        for (i, run) in layout.runs.iter().enumerate() {
            filled += run.len as usize;
            if filled >= target {
                chunks.push(first..i + 1);
                first = i + 1;
                filled = 0;
            }
        }
        if first < layout.runs.len() {
            chunks.push(first..layout.runs.len());
        }
        Self { layout, chunks }
    }
}

impl SampleSet for CpuSamples {
    fn len(&self) -> usize {
        self.layout.len()
    }

    fn bins(&self) -> usize {
        self.layout.bins()
    }

    fn total_weight(&self) -> f64 {
        self.layout.total_weight()
    }
}

impl Cpu {
    /// The binned sums of every map, followed by their derivatives (`bins x terms x 12`) where
    /// `gradient` is set.
    fn binned(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &CpuSamples,
        moving: &MovingView<'_, Cpu>,
        maps: &[AffineMap],
        gradient: bool,
    ) -> Result<Vec<Vec<f64>>> {
        check_moving(moving, maps)?;
        if !scheme.on_cpu() {
            return Err(unsupported_scheme(&self.name(), scheme));
        }
        check_terms(terms, samples.layout.values.is_some())?;
        let moving = Moving::new(moving);
        let maps: Vec<_> = maps.iter().map(|m| PerMap::new(m, &moving)).collect();
        let size = samples.layout.bins * terms.count();
        let zero = || zeroed::<f64>(size * if gradient { 13 } else { 1 });
        let (simd, layout) = (self.simd(), &samples.layout);
        self.map_chunks(
            maps.len(),
            samples.chunks.len(),
            |m, c| {
                let mut out = zero()?;
                let (runs, map) = (&layout.runs[samples.chunks[c].clone()], &maps[m]);
                match scheme {
                    Scheme::Direct => {
                        sums::direct(terms, layout, runs, &moving, map, gradient, &mut out);
                    }
                    _ => {
                        sums::chunk(simd, terms, layout, runs, &moving, map, gradient, &mut out);
                    }
                }
                Ok(out)
            },
            zero,
            |total, part| total.iter_mut().zip(&part).for_each(|(t, p)| *t += p),
        )
    }

    /// `f(map, chunk)` for all maps and chunks, folded over the chunks of a map in their order.
    fn map_chunks<R: Send>(
        &self,
        maps: usize,
        chunks: usize,
        f: impl Fn(usize, usize) -> Result<R> + Send + Sync,
        zero: impl Fn() -> Result<R> + Send + Sync,
        add: impl Fn(&mut R, R) + Send + Sync,
    ) -> Result<Vec<R>> {
        if maps >= MANY_MAPS {
            // One pass over the samples for several maps: a chunk is still in the cache when the
            // next map takes it.
            let groups = maps.div_ceil(GROUP);
            let of_groups = self.try_collect(groups, |g| {
                let members = g * GROUP..maps.min((g + 1) * GROUP);
                let mut totals = members.clone().map(|_| zero()).collect::<Result<Vec<R>>>()?;
                for c in 0..chunks {
                    for (m, total) in members.clone().zip(&mut totals) {
                        add(total, f(m, c)?);
                    }
                }
                Ok(totals)
            })?;
            Ok(of_groups.into_iter().flatten().collect())
        } else {
            (0..maps)
                .map(|m| {
                    let mut total = zero()?;
                    // Some chunks at a time: their tables may be large.
                    for first in (0..chunks).step_by(AT_ONCE) {
                        let count = AT_ONCE.min(chunks - first);
                        for part in self.collect(count, |c| f(m, first + c)) {
                            add(&mut total, part?);
                        }
                    }
                    Ok(total)
                })
                .collect()
        }
    }
}

impl Histogram for Cpu {
    type Samples = CpuSamples;

    fn group_samples(
        &self,
        values: &CpuBuffer<f32>,
        dims: Dims,
        weights: Option<&CpuBuffer<f32>>,
        options: &LayoutOptions,
    ) -> Result<CpuSamples> {
        let weights = weights.map(CpuBuffer::as_slice);
        let values = values.as_slice();
        // Tiles in any order on all threads; put together in their order.
        let layout = SampleLayout::with(values, dims, weights, options, &|n, tile| {
            self.try_collect(n, tile)
        })?;
        Ok(CpuSamples::new(layout))
    }

    fn value_counts(
        &self,
        values: &CpuBuffer<f32>,
        weights: Option<&CpuBuffer<f32>>,
        low: f32,
        high: f32,
        bins: usize,
    ) -> Result<ValueCounts> {
        counts::value_counts(self, values, weights, low, high, bins)
    }

    fn binned_sums(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &CpuSamples,
        moving: &MovingView<'_, Cpu>,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        self.binned(terms, scheme, samples, moving, maps, false)
    }

    fn binned_gradient(
        &self,
        terms: Terms,
        scheme: Scheme,
        samples: &CpuSamples,
        moving: &MovingView<'_, Cpu>,
        maps: &[AffineMap],
        derivatives: &(dyn Fn(usize, &[f64]) -> Vec<f64> + Sync),
    ) -> Result<Vec<SumsAndGradient>> {
        let mut all = self.binned(terms, scheme, samples, moving, maps, true)?;
        let size = samples.layout.bins * terms.count();
        // One pass gave the derivative of every sum; here they are put together.
        let gradients = self.try_collect(all.len(), |m| {
            let (sums, by_map) = all[m].split_at(size);
            let derivatives = derivatives(m, sums);
            check_len("derivatives", size, derivatives.len())?;
            let mut total = [0.0; 12];
            for (derivative, row) in derivatives.iter().zip(by_map.chunks_exact(12)) {
                for (t, v) in total.iter_mut().zip(row) {
                    *t += derivative * v;
                }
            }
            Ok(total)
        })?;
        all.iter_mut().for_each(|sums| sums.truncate(size));
        Ok(all.into_iter().zip(gradients).collect())
    }

    fn joint_histogram(
        &self,
        scheme: JointScheme,
        samples: &CpuSamples,
        moving: &MovingView<'_, Cpu>,
        columns: &ParzenBins,
        maps: &[AffineMap],
    ) -> Result<Vec<Vec<f64>>> {
        match scheme {
            JointScheme::Default => {}
            #[cfg(feature = "baselines")]
            _ => {
                let method = JointMethod { scheme, ..JointMethod::default() };
                return Err(unsupported_joint(&self.name(), &method));
            }
        }
        check_moving(moving, maps)?;
        let entries = check_joint(samples.layout.bins, columns)?;
        let moving = Moving::new(moving);
        let maps: Vec<_> = maps.iter().map(|m| PerMap::new(m, &moving)).collect();
        let zero = || zeroed::<f64>(entries);
        self.map_chunks(
            maps.len(),
            samples.chunks.len(),
            |m, c| {
                let mut out = zero()?;
                let runs = &samples.layout.runs[samples.chunks[c].clone()];
                joint::histogram(
                    self.simd(),
                    &samples.layout,
                    runs,
                    &moving,
                    &maps[m],
                    columns,
                    &mut out,
                );
                Ok(out)
            },
            zero,
            |total, part| total.iter_mut().zip(&part).for_each(|(t, p)| *t += p),
        )
    }

    fn joint_gradient(
        &self,
        samples: &CpuSamples,
        moving: &MovingView<'_, Cpu>,
        columns: &ParzenBins,
        maps: &[AffineMap],
        tables: &[Vec<f64>],
    ) -> Result<Vec<[f64; 12]>> {
        check_moving(moving, maps)?;
        check_joint(samples.layout.bins, columns)?;
        check_tables(samples.layout.bins, columns, maps, tables)?;
        let moving = Moving::new(moving);
        let maps: Vec<_> = maps.iter().map(|m| PerMap::new(m, &moving)).collect();
        let table = |t: &Vec<f64>| Ok(collected(t.iter().map(|&v| v as f32))?);
        let tables = tables.iter().map(table).collect::<Result<Vec<Vec<f32>>>>()?;
        self.map_chunks(
            maps.len(),
            samples.chunks.len(),
            |m, c| {
                let mut out = [0.0; 12];
                let runs = &samples.layout.runs[samples.chunks[c].clone()];
                joint::gradient(
                    self.simd(),
                    &samples.layout,
                    runs,
                    &moving,
                    &maps[m],
                    columns,
                    &tables[m],
                    &mut out,
                );
                Ok(out)
            },
            || Ok([0.0; 12]),
            |total, part| total.iter_mut().zip(&part).for_each(|(t, p)| *t += p),
        )
    }
}

#[cfg(feature = "baselines")]
impl Schemes for Cpu {}
