//! The schemes for binned sums that need no grouping.

use std::sync::LazyLock;

use super::ungrouped::{Target, Ungrouped, blocks, fit, maps_at_once};
use crate::AffineMap;
use crate::cuda::{Arg, Cuda, CudaBuffer, Plain, Program, Shape};
use crate::device::Memory;
use crate::error::{ComputeError, Result};
use crate::ops::histogram::{Scheme, SchemeSettings, Terms};

static RATIO: LazyLock<Program> =
    LazyLock::new(|| Program::new("schemes", include_str!("../kernels/schemes.cu")));
static MOMENTS: LazyLock<Program> = LazyLock::new(|| RATIO.with(&[("TERMS", 6)]));

/// Threads a block, where the caller does not choose.
const THREADS: usize = 256;
/// Bits of the largest summand in fixed point. Rounding is a part in 2^27 of it; the lower word of
/// a counter overflows at every 64th of the largest summands at most.
const FIXED_BITS: i32 = 26;

/// `Scales` of the kernels.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Scales<const N: usize>([f32; N]);

// SAFETY: numbers without padding.
unsafe impl<const N: usize> Plain for Scales<N> {}

/// A power of two that brings `most` to at most 2^[`FIXED_BITS`].
fn scale(most: f64) -> f64 {
    let exponent = if most > 0.0 { most.log2().ceil() as i32 } else { 0 };
    2f64.powi((FIXED_BITS - exponent).clamp(-120, 120))
}

/// A launch of one scheme for some maps.
struct Launch<'a> {
    cuda: &'a Cuda,
    program: &'static Program,
    shape: Shape,
    maps: usize,
    args: Vec<Arg>,
    entries: usize,
    bins: usize,
}

impl Launch<'_> {
    /// Runs the scheme's kernel with its output, and more parameters before it.
    ///
    /// # Safety
    /// The parameters must be the kernel's, and the output must have room for what it writes.
    unsafe fn run(&self, kernel: &str, more: &[Arg], out: Arg) -> Result<()> {
        let mut args = self.args.clone();
        args.push((self.bins as u32).into());
        args.extend_from_slice(more);
        args.push(out);
        // SAFETY: the caller's.
        unsafe { self.cuda.launch(self.program, kernel, self.shape, &args) }
    }

    /// A scheme whose blocks or threads meet in counters of global memory.
    fn meeting<T: crate::Element>(&self, kernel: &str, more: &[Arg]) -> Result<Vec<T>> {
        let mut totals: CudaBuffer<T> = self.cuda.alloc(self.maps * self.entries)?;
        // SAFETY: the scheme's kernel, with counters for every map.
        unsafe { self.run(kernel, more, (&mut totals).into())? };
        self.cuda.download(&totals)
    }

    /// A scheme whose blocks leave their histograms.
    fn merged(&self, kernel: &str) -> Result<Vec<f64>> {
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
            self.run(kernel, &[], (&mut parts).into())?;
            let args = [
                (&parts).into(),
                (&mut totals).into(),
                (self.entries as u32).into(),
                (blocks as u32).into(),
            ];
            self.cuda.launch(self.program, "merge_blocks", shape, &args)?;
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
            self.run("global_merge", &[], (&mut shadows).into())?;
            let args = [(&shadows).into(), (&mut totals).into(), (threads as u64).into()];
            self.cuda.launch(self.program, "merge_threads", shape, &args)?;
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
                Terms::Ratio => &RATIO,
                Terms::Moments => &MOMENTS,
            },
            shape: Shape {
                grid: [blocks as u32, some.len() as u32, 1],
                ..Shape::blocks(1, threads as u32).with_shared(shared)
            },
            maps: some.len(),
            args: samples.args(target, &of_maps),
            entries,
            bins,
        };
        let totals: Vec<f64> = match scheme {
            Scheme::GlobalAtomic => {
                launch.meeting::<f32>("global_atomic", &[])?.into_iter().map(f64::from).collect()
            }
            Scheme::GlobalMerge => launch.of_threads()?,
            Scheme::SharedAtomic => launch.meeting("shared_atomic", &[])?,
            Scheme::SharedMerge => launch.merged("shared_merge")?,
            Scheme::SharedWarp => launch.merged("shared_warp")?,
            Scheme::WarpAggregated => launch.merged("warp_aggregated")?,
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
    let of_kernel = match terms {
        Terms::Ratio => Arg::of(Scales::<3>(std::array::from_fn(|k| scales[k] as f32))),
        Terms::Moments => Arg::of(Scales::<6>(std::array::from_fn(|k| scales[k] as f32))),
    };
    let totals = launch.meeting::<i64>("fixed_point", &[of_kernel])?;
    Ok(totals.iter().zip(scales.iter().cycle()).map(|(&t, s)| t as f64 / s).collect())
}
