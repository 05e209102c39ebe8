//! Schemes for binned sums without grouping.

use std::sync::LazyLock;

use super::ungrouped::{Looking, Target, Ungrouped, blocks, fit, maps_at_once};
use crate::AffineMap;
use crate::cuda::declare::Out;
use crate::cuda::{Cuda, CudaBuffer, Shape};
use crate::device::{Element, Memory};
use crate::error::{ComputeError, Result};
use crate::ops::histogram::{Scheme, SchemeSettings, Terms};

kernels! { SCHEMES = "histogram/baselines/sums.cu";
    fn global_atomic[1024](looking: Looking, bins: u32, totals: &mut [f32]);
    fn global_merge[1024](looking: Looking, bins: u32, shadows: &mut [f32]);
    fn merge_threads[256](shadows: &[f32], totals: &mut [f64], threads: u64);
    fn shared_atomic[1024](looking: Looking, bins: u32, totals: &mut [f64]);
    fn shared_merge[1024](looking: Looking, bins: u32, parts: &mut [f32]);
    fn shared_warp[1024](looking: Looking, bins: u32, parts: &mut [f32]);
    fn warp_aggregated[1024](looking: Looking, bins: u32, parts: &mut [f32]);
    fn merge_blocks[1024](parts: &[f32], totals: &mut [f64], entries: u32, count: u32);
    fn fixed_point[1024](looking: Looking, bins: u32, scales: Scales, totals: &mut [u64]);
}

/// The kernels for three terms are [`SCHEMES`] themselves.
static MOMENTS: LazyLock<SCHEMES> = LazyLock::new(|| SCHEMES.with(&[("TERMS", 6)]));

/// A kernel of one of the schemes.
type OfScheme<T> = unsafe fn(&SCHEMES, &Cuda, Shape, Looking, u32, Out<T>) -> Result<()>;

/// Threads a block, where the caller does not choose.
const THREADS: usize = 256;
/// Bits of the largest summand in fixed point. Rounding is a part in 2^27 of it; the lower word of
/// a counter overflows at every 64th of the largest summands at most.
const FIXED_BITS: i32 = 26;

plain! {
    /// The number of counter units per unit of each term; the kernels for three terms use three.
    struct Scales {
        v: [f32; 6],
    }
}

/// A power of two that scales `most` to at most 2^[`FIXED_BITS`].
fn scale(most: f64) -> f64 {
    let exponent = if most > 0.0 { most.log2().ceil() as i32 } else { 0 };
    2f64.powi((FIXED_BITS - exponent).clamp(-120, 120))
}

/// A launch of one scheme for some maps.
struct Launch<'a> {
    cuda: &'a Cuda,
    program: &'static SCHEMES,
    shape: Shape,
    maps: usize,
    looking: Looking,
    entries: usize,
    bins: usize,
}

impl Launch<'_> {
    /// Runs the scheme's kernel with its output.
    ///
    /// # Safety
    /// The output must have room for what the kernel writes.
    unsafe fn run<T>(&self, kernel: OfScheme<T>, out: Out<T>) -> Result<()> {
        let (looking, bins) = (self.looking.clone(), self.bins as u32);
        // SAFETY: the caller's.
        unsafe { kernel(self.program, self.cuda, self.shape, looking, bins, out) }
    }

    /// A scheme whose blocks or threads meet in counters of global memory.
    fn meeting<T: Element>(&self, kernel: OfScheme<T>) -> Result<Vec<T>> {
        let mut totals: CudaBuffer<T> = self.cuda.alloc(self.maps * self.entries)?;
        // SAFETY: counters for every map.
        unsafe { self.run(kernel, (&mut totals).into())? };
        self.cuda.download(&totals)
    }

    /// The same in fixed point.
    fn fixed_point(&self, scales: Scales) -> Result<Vec<i64>> {
        let mut totals: CudaBuffer<i64> = self.cuda.alloc(self.maps * self.entries)?;
        let (looking, bins) = (self.looking.clone(), self.bins as u32);
        let out = Out::cast(&mut totals);
        // SAFETY: counters for every map.
        unsafe { self.program.fixed_point(self.cuda, self.shape, looking, bins, scales, out)? };
        self.cuda.download(&totals)
    }

    /// A scheme whose blocks leave their histograms.
    fn merged(&self, kernel: OfScheme<f32>) -> Result<Vec<f64>> {
        let blocks = self.shape.grid[0] as usize;
        let mut parts = self.cuda.alloc_unset::<f32>(self.maps * blocks * self.entries)?;
        let mut totals = self.cuda.alloc_unset::<f64>(self.maps * self.entries)?;
        let shape = Shape {
            grid: [self.entries.div_ceil(32) as u32, self.maps as u32, 1],
            ..Shape::blocks(1, 1024)
        };
        // SAFETY: every block of the scheme's kernel writes all entries of its histogram; the
        // merging kernel reads them and writes every total.
        unsafe {
            self.run(kernel, (&mut parts).into())?;
            let (entries, count) = (self.entries as u32, blocks as u32);
            self.program.merge_blocks(self.cuda, shape, &parts, &mut totals, entries, count)?;
        }
        self.cuda.download(&totals)
    }

    /// A histogram for every thread.
    fn of_threads(&self) -> Result<Vec<f64>> {
        let threads = self.shape.grid[0] as usize * self.shape.block[0] as usize;
        let mut shadows = self.cuda.alloc::<f32>(self.maps * threads * self.entries)?;
        let mut totals = self.cuda.alloc_unset::<f64>(self.maps * self.entries)?;
        let shape =
            Shape { grid: [self.entries as u32, self.maps as u32, 1], ..Shape::blocks(1, 256) };
        // SAFETY: every thread of the scheme's kernel has the entries of its histogram; the merging
        // kernel reads them and writes every total.
        unsafe {
            self.run(SCHEMES::global_merge, (&mut shadows).into())?;
            let threads = threads as u64;
            self.program.merge_threads(self.cuda, shape, &shadows, &mut totals, threads)?;
        }
        self.cuda.download(&totals)
    }
}

/// The sums of every map; the arguments were checked.
#[allow(clippy::too_many_arguments)]
pub(super) fn sums(
    cuda: &Cuda,
    terms: Terms,
    scheme: Scheme,
    settings: &SchemeSettings,
    samples: &Ungrouped,
    bins: usize,
    target: &Target<'_>,
    maps: &[AffineMap],
) -> Result<Vec<Vec<f64>>> {
    let entries = bins * terms.count();
    let threads = settings.threads.unwrap_or(THREADS);
    let what = || format!("the scheme {} with {bins} bins and {threads} threads", scheme.name());
    let shadow = entries * size_of::<f32>();
    let (per_warp, fixed) = match scheme {
        Scheme::SharedAtomic | Scheme::SharedMerge => (0, shadow),
        Scheme::FixedPoint => (0, 2 * shadow),
        Scheme::SharedWarp | Scheme::WarpAggregated => (shadow, 0),
        _ => (0, 0),
    };
    let shared = fit(cuda, &what, threads, per_warp, fixed)?;
    let blocks = blocks(cuda, settings.blocks, threads, samples.count(), maps.len())?;
    let scratch = match scheme {
        Scheme::GlobalMerge => blocks * threads * shadow,
        Scheme::SharedMerge | Scheme::SharedWarp | Scheme::WarpAggregated => blocks * shadow,
        _ => shadow,
    };
    let what = || {
        format!(
            "the scheme {} with {bins} bins, {blocks} blocks and {threads} threads",
            scheme.name()
        )
    };
    let at_once = maps_at_once(cuda, &what, scratch)?;
    let mut out = Vec::with_capacity(maps.len());
    for some in maps.chunks(at_once) {
        let of_maps = target.maps(cuda, some)?;
        let launch = Launch {
            cuda,
            program: match terms {
                Terms::Ratio => &SCHEMES,
                Terms::Moments => &MOMENTS,
            },
            shape: Shape {
                grid: [blocks as u32, some.len() as u32, 1],
                ..Shape::blocks(1, threads as u32).with_shared(shared)
            },
            maps: some.len(),
            looking: samples.looking(target, &of_maps),
            entries,
            bins,
        };
        let totals: Vec<f64> = match scheme {
            Scheme::GlobalAtomic => {
                launch.meeting::<f32>(SCHEMES::global_atomic)?.into_iter().map(f64::from).collect()
            }
            Scheme::GlobalMerge => launch.of_threads()?,
            Scheme::SharedAtomic => launch.meeting(SCHEMES::shared_atomic)?,
            Scheme::SharedMerge => launch.merged(SCHEMES::shared_merge)?,
            Scheme::SharedWarp => launch.merged(SCHEMES::shared_warp)?,
            Scheme::WarpAggregated => launch.merged(SCHEMES::warp_aggregated)?,
            Scheme::FixedPoint => fixed_point(&launch, terms, samples, target)?,
            Scheme::ConflictFree | Scheme::Direct => {
                return Err(ComputeError::argument(
                    "scheme",
                    scheme.name(),
                    "one without grouping",
                ));
            }
        };
        out.extend(totals.chunks_exact(entries).map(<[f64]>::to_vec));
    }
    Ok(out)
}

fn fixed_point(
    launch: &Launch<'_>,
    terms: Terms,
    samples: &Ungrouped,
    target: &Target<'_>,
) -> Result<Vec<f64>> {
    let (w, x) = samples.largest(launch.cuda)?;
    let (w, x, y) = (f64::from(w), f64::from(x), f64::from(target.largest(launch.cuda)?));
    let most = match terms {
        Terms::Ratio => vec![w, w * y, w * y * y],
        Terms::Moments => vec![w, w * x, w * y, w * x * x, w * y * y, w * x * y],
    };
    let scales: Vec<f64> = most.into_iter().map(scale).collect();
    let v = std::array::from_fn(|k| scales.get(k).map_or(0.0, |&s| s as f32));
    let totals = launch.fixed_point(Scales { v })?;
    Ok(totals.iter().zip(scales.iter().cycle()).map(|(&t, s)| t as f64 / s).collect())
}
