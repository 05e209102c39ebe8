//! The choice of the scheme for binned sums, by a short measurement on the GPU at hand.
//!
//! Only schemes are candidates whose sums have the same bits at every run. The conflict-free
//! scheme is the incumbent: another takes its place only if it is clearly faster, so that the
//! choice, and with it the last digits of a result, does not hang on a few microseconds. The choice
//! is kept beside the compiled kernels; a file that is damaged, or that belongs to another GPU,
//! driver, compiler or version of the program, counts as none.

use std::time::{Duration, Instant};

use crate::AffineMap;
use crate::cuda::cache::KernelCache;
use crate::cuda::{Cuda, compiler};
use crate::device::Memory;
use crate::error::Result;
use crate::ops::Histogram;
use crate::ops::histogram::{Binning, LayoutOptions, MovingView, Scheme, SchemeSettings, Terms};

/// The part of the incumbent's time that another scheme has to stay below.
const CLEARLY: f64 = 0.75;
/// When no further candidate is begun.
const BUDGET: Duration = Duration::from_millis(150);
/// Sizes of the image that is measured on: a head at 2 mm.
const SIZE: usize = 128;
/// Its bins: those of the finest level.
const BINS: usize = 256;

/// The scheme for binned sums that is best on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuned {
    /// The scheme.
    pub scheme: Scheme,
    /// Its blocks and threads.
    pub settings: SchemeSettings,
    /// Where the choice comes from.
    pub source: TunedBy,
}

/// Where a choice comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunedBy {
    /// The device is not tuned.
    Default,
    /// An earlier measurement, kept on disk.
    Cache,
    /// A measurement, which took so long.
    Measured(Duration),
}

impl std::fmt::Display for Tuned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.scheme.name())?;
        if let Some(threads) = self.settings.threads {
            write!(f, ", {threads} threads a block")?;
        }
        match self.source {
            TunedBy::Default => f.write_str(" (not measured)"),
            TunedBy::Cache => f.write_str(" (measured earlier on this GPU)"),
            TunedBy::Measured(time) => write!(f, " (measured in {:.2} s)", time.as_secs_f64()),
        }
    }
}

/// The incumbent.
const DEFAULT: Tuned = Tuned {
    scheme: Scheme::ConflictFree,
    settings: SchemeSettings { blocks: None, threads: None },
    source: TunedBy::Default,
};

impl Cuda {
    /// The scheme for binned sums that is best on this GPU: measured once, in a fraction of a
    /// second beside the compilation of the kernels, and kept on disk. The host in place of a GPU
    /// has the default.
    #[must_use]
    pub fn tuned(&self) -> Tuned {
        if let Some(tuned) = self.0.tuned.get() {
            return *tuned;
        }
        // Measured outside of the cell: what is measured uses threads, and one of them may ask for
        // the choice as well. The first that is there is kept.
        let found = self.choose();
        *self.0.tuned.get_or_init(|| found)
    }

    fn choose(&self) -> Tuned {
        let Some(key) = key(self) else { return DEFAULT };
        let cache = KernelCache::new();
        if let Some(found) = cache.load(&key).and_then(|text| parse(&text)) {
            return found;
        }
        let start = Instant::now();
        // What cannot be measured does not stop the work: it goes on with the default.
        let Ok(found) = measure(self) else { return DEFAULT };
        cache.store(&key, written(&found).as_bytes());
        Tuned { source: TunedBy::Measured(start.elapsed()), ..found }
    }

    /// The choice, if it was made before; choosing is not this function's work.
    pub(super) fn tuned_settings(&self, scheme: Scheme) -> SchemeSettings {
        let known = self.0.tuned.get().filter(|t| t.scheme == scheme);
        known.map_or_else(SchemeSettings::default, |t| t.settings)
    }
}

/// What the choice depends on.
fn key(cuda: &Cuda) -> Option<String> {
    let (info, nvrtc) = (cuda.info()?, compiler().ok()?);
    let version = env!("CARGO_PKG_VERSION");
    Some(format!(
        "histogram scheme 1\n{}\n{:?}\n{}\n{:?}\n{nvrtc:?}\n{version}",
        info.name, info.capability, info.multiprocessors, info.driver
    ))
}

fn written(tuned: &Tuned) -> String {
    format!("{} {}", tuned.scheme.name(), tuned.settings.threads.unwrap_or(0))
}

fn parse(text: &[u8]) -> Option<Tuned> {
    let (scheme, threads) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let threads: usize = threads.parse().ok()?;
    let scheme: Scheme = scheme.parse().ok()?;
    let good = scheme.reproducible() && threads <= 1024 && threads.is_multiple_of(32);
    let settings = SchemeSettings { blocks: None, threads: (threads > 0).then_some(threads) };
    good.then_some(Tuned { scheme, settings, source: TunedBy::Cache })
}

/// An image that is like a head: much background, an ellipsoid of some tissues, noise.
pub(crate) fn head(size: [usize; 3]) -> Vec<f32> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut data = Vec::with_capacity(size.iter().product());
    for z in 0..size[2] {
        for y in 0..size[1] {
            for x in 0..size[0] {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let noise = (state >> 40) as f32 / (1u64 << 24) as f32;
                let part = |i: usize, n: usize| (i as f32 + 0.5) / n as f32 - 0.5;
                let p = [part(x, size[0]), part(y, size[1]), part(z, size[2])];
                let r = (p[0] / 0.36).powi(2) + (p[1] / 0.42).powi(2) + (p[2] / 0.4).powi(2);
                let folds = (p[0] * 61.0).sin() * (p[1] * 53.0).cos() + (p[2] * 47.0).sin();
                data.push(match r {
                    r if r > 1.0 => 12.0 * noise,
                    r if r > 0.85 => 180.0 + 40.0 * noise,
                    r if r > 0.75 => 30.0 + 20.0 * noise,
                    _ => 110.0 + 30.0 * folds + 15.0 * noise,
                });
            }
        }
    }
    data
}

/// A small turn about the middle of an image, so that its rows cross those of the other.
pub(crate) fn turn(size: [usize; 3]) -> AffineMap {
    let (c, s) = (0.1f64.cos(), 0.1f64.sin());
    let (x, y) = (size[0] as f64 / 2.0, size[1] as f64 / 2.0);
    [
        [c, -s, 0.0, x - c * x + s * y + 0.3],
        [s, c, 0.0, y - s * x - c * y + 0.3],
        [0.0, 0.0, 1.0, 0.0],
    ]
}

fn measure(cuda: &Cuda) -> Result<Tuned> {
    let dims = [SIZE; 3];
    let image = cuda.upload(&head(dims))?;
    let binning = Binning { low: 0.0, high: 220.0, bins: BINS };
    let options = LayoutOptions { binning, workload: 2048, keep_values: false };
    let samples = cuda.group_samples(&image, dims, None, &options)?;
    let view = MovingView { values: &image, mask: None, dims, border: [2.0; 3] };
    let maps = [turn(dims)];
    let time = |scheme, settings: &SchemeSettings| -> Result<f64> {
        let mut once = || {
            cuda.binned_sums_with(Terms::Ratio, scheme, settings, &samples, &view, &maps)
                .map(|_| ())
        };
        // The first call compiles.
        once()?;
        let mut least = f64::INFINITY;
        for _ in 0..5 {
            least = least.min(cuda.seconds(&mut once)?);
        }
        Ok(least)
    };
    let mut best = DEFAULT;
    let mut limit = time(best.scheme, &best.settings)? * CLEARLY;
    let start = Instant::now();
    for (scheme, threads) in [
        (Scheme::FixedPoint, 1024),
        (Scheme::FixedPoint, 512),
        (Scheme::FixedPoint, 256),
        (Scheme::WarpAggregated, 256),
    ] {
        let settings = SchemeSettings { blocks: None, threads: Some(threads) };
        let found = time(scheme, &settings)?;
        if found < limit {
            // Among the settings of one scheme the fastest will do.
            limit = found;
            best = Tuned { scheme, settings, source: TunedBy::Cache };
        }
        if start.elapsed() > BUDGET {
            break;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_back_and_damage_is_none() {
        for (scheme, threads) in [(Scheme::FixedPoint, Some(512)), (Scheme::ConflictFree, None)] {
            let settings = SchemeSettings { blocks: None, threads };
            let tuned = Tuned { scheme, settings, source: TunedBy::Cache };
            assert_eq!(parse(written(&tuned).as_bytes()), Some(tuned));
        }
        // Sums that differ from run to run are never the default.
        for bad in ["", "fixed_point", "fixed_point x", "shared_atomic 256", "fixed_point 33"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn the_choice_can_be_measured() {
        let Some(cuda) = crate::cuda::tests::emulated() else { return };
        assert_eq!(cuda.tuned(), DEFAULT);
        assert!(DEFAULT.to_string().contains("conflict_free"));
        assert_eq!(cuda.tuned_settings(Scheme::FixedPoint), SchemeSettings::default());
        assert!(head([8, 7, 6]).iter().all(|v| v.is_finite()));
    }
}
