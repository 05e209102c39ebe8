//! The measurements, one figure after the other.

use std::time::Instant;

use super::{Axis, Effort, Exploration, Figure, Pair, Point, Sorting};
use crate::device::Device;
use crate::error::{ComputeError, Result};
use crate::ops::histogram::{
    Binning, JointMethod, JointScheme, LayoutOptions, MovingView, ParzenBins, Scheme,
    SchemeSettings, Schemes, Terms, Window,
};

/// Blocks, threads, bins and workload of the figures that do not go over them, as in the paper.
const BLOCKS: usize = 1024;
const THREADS: usize = 256;
const BINS: usize = 256;
const WORKLOAD: usize = 2048;
/// Bins of joint histograms where the figure does not go over them.
const JOINT_BINS: usize = 64;
/// A first run longer than this is not repeated, seconds.
const LONG: f64 = 0.3;

struct Explorer<'a, D: Device + Schemes> {
    device: &'a D,
    pair: &'a Pair,
    fixed: D::Buffer<f32>,
    moving: D::Buffer<f32>,
    range: (f32, f32),
    effort: Effort,
    /// Asked before every measurement; an error ends the exploration.
    check: &'a mut dyn FnMut() -> Result<()>,
}

/// Measures a pair on a device. `check` is asked before every measurement, and ends it all with
/// an error.
///
/// # Errors
/// What the device reports, unless it is that a combination does not fit; what `check` returns.
pub fn explore<D: Device + Schemes>(
    device: &D,
    pair: &Pair,
    effort: Effort,
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<Exploration> {
    let span = |values: &[f32]| {
        let ends = values.iter().filter(|v| v.is_finite());
        let (low, high) = ends.fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
        if high > low { (low, high) } else { (0.0, 1.0) }
    };
    let mut explorer = Explorer {
        device,
        pair,
        fixed: device.upload(&pair.fixed)?,
        moving: device.upload(&pair.moving)?,
        range: span(&pair.moving),
        effort,
        check,
    };
    let (low, high) = span(&pair.fixed);
    explorer.run(&|bins| Binning { low, high, bins })
}

impl Effort {
    /// Powers of two from `low` to `high`.
    fn powers(self, low: usize, high: usize) -> Vec<usize> {
        let (step, high) = (if self.quick { 4 } else { 2 }, high.min(self.most).max(low));
        std::iter::successors(Some(low), |&n| Some(n * step)).take_while(|&n| n <= high).collect()
    }

    /// Blocks and threads of the figures that do not go over them.
    fn usual(self) -> (Option<usize>, Option<usize>) {
        (Some(BLOCKS.min(self.most)), Some(THREADS.min(self.most)))
    }
}

impl<D: Device + Schemes> Explorer<'_, D> {
    fn run(&mut self, binning: &dyn Fn(usize) -> Binning) -> Result<Exploration> {
        let effort = self.effort;
        let (blocks, threads) = effort.usual();
        let samples_of = |e: &Self, bins: usize, workload: usize| {
            let options = LayoutOptions { binning: binning(bins), workload, keep_values: false };
            e.device.group_samples(&e.fixed, e.pair.fixed_dims, None, &options)
        };
        let usual = samples_of(self, BINS, WORKLOAD)?;
        let mut missing = Vec::new();
        let mut schemes = Vec::new();
        for scheme in Scheme::ALL {
            let probe = self.sums(scheme, SchemeSettings::default(), &usual);
            match probe {
                Err(ComputeError::Unsupported { remedy, .. }) if remedy.contains("GPU") => {
                    missing.push(scheme.name());
                }
                _ => schemes.push(scheme),
            }
        }
        let usual_joint = samples_of(self, JOINT_BINS, WORKLOAD)?;
        let mut joints = Vec::new();
        for scheme in JointScheme::ALL {
            let settings = SchemeSettings::default();
            match self.joint(scheme, settings, &usual_joint, JOINT_BINS) {
                Err(ComputeError::Unsupported { remedy, .. }) if remedy.contains("GPU") => {
                    missing.push(scheme.name());
                }
                _ => joints.push(scheme),
            }
        }
        let free = |s: &Scheme| !matches!(s, Scheme::ConflictFree | Scheme::Direct);
        let mut figures = Vec::new();
        for (axis, title, places) in [
            (
                Axis::Blocks,
                "Correlation ratio over blocks (figures 6 to 8)",
                effort.powers(64, 2048),
            ),
            (
                Axis::Threads,
                "Correlation ratio over threads per block (figures 9 to 11)",
                effort.powers(32, 1024),
            ),
        ] {
            let mut points = Vec::new();
            for &scheme in &schemes {
                if !free(&scheme) {
                    // It sets its blocks and threads itself: one point.
                    points.push(self.point(scheme, (None, None), BINS, WORKLOAD, &usual)?);
                    continue;
                }
                for &n in &places {
                    let set = match axis {
                        Axis::Blocks => (Some(n), threads),
                        _ => (blocks, Some(n)),
                    };
                    points.push(self.point(scheme, set, BINS, WORKLOAD, &usual)?);
                }
            }
            if schemes.iter().any(free) {
                figures.push(Figure { title: title.into(), axis, points });
            }
        }
        let mut points = Vec::new();
        for bins in effort.powers(8, 4096) {
            let samples = samples_of(self, bins, WORKLOAD)?;
            for &scheme in &schemes {
                let set = if free(&scheme) { (blocks, threads) } else { (None, None) };
                points.push(self.point(scheme, set, bins, WORKLOAD, &samples)?);
            }
        }
        let title = "Correlation ratio over bins (figures 12 to 14)".into();
        figures.push(Figure { title, axis: Axis::Bins, points });
        let mut points = Vec::new();
        for workload in effort.powers(256, 16384) {
            let samples = samples_of(self, BINS, workload)?;
            let scheme = Scheme::ConflictFree;
            points.push(self.point(scheme, (None, None), BINS, workload, &samples)?);
        }
        let title = "Conflict-free scheme over the workload limit (figure 17)".into();
        figures.push(Figure { title, axis: Axis::Workload, points });
        for (axis, title, places) in [
            (Axis::Blocks, "Joint histograms over blocks", effort.powers(64, 2048)),
            (Axis::Threads, "Joint histograms over threads per block", effort.powers(32, 1024)),
        ] {
            let mut points = Vec::new();
            for &scheme in &joints {
                if scheme == JointScheme::Default {
                    points.push(self.joint_point(
                        scheme,
                        (None, None),
                        JOINT_BINS,
                        &usual_joint,
                    )?);
                    continue;
                }
                for &n in &places {
                    let set = match axis {
                        Axis::Blocks => (Some(n), threads),
                        _ => (blocks, Some(n)),
                    };
                    points.push(self.joint_point(scheme, set, JOINT_BINS, &usual_joint)?);
                }
            }
            if joints.len() > 1 {
                figures.push(Figure { title: title.into(), axis, points });
            }
        }
        let mut points = Vec::new();
        for bins in effort.powers(8, 512) {
            let samples = samples_of(self, bins, WORKLOAD)?;
            for &scheme in &joints {
                let set = match scheme {
                    JointScheme::Default => (None, None),
                    _ => (blocks, threads),
                };
                points.push(self.joint_point(scheme, set, bins, &samples)?);
            }
        }
        let title = "Joint histograms over bins of both images".into();
        figures.push(Figure { title, axis: Axis::Bins, points });
        let sorting = self.sorting(binning)?;
        Ok(Exploration { figures, sorting, missing })
    }

    fn view(&self) -> MovingView<'_, D> {
        let dims = self.pair.moving_dims;
        MovingView { values: &self.moving, mask: None, dims, border: [0.0; 3] }
    }

    fn sums(&self, scheme: Scheme, set: SchemeSettings, samples: &D::Samples) -> Result<()> {
        let maps = [self.pair.map];
        let view = self.view();
        self.device.binned_sums_with(Terms::Ratio, scheme, &set, samples, &view, &maps).map(|_| ())
    }

    fn joint(
        &self,
        scheme: JointScheme,
        settings: SchemeSettings,
        samples: &D::Samples,
        bins: usize,
    ) -> Result<()> {
        let (low, high) = self.range;
        let columns = ParzenBins { low, high, count: bins + 2 * ParzenBins::MARGIN };
        let method = JointMethod { scheme, window: Window::Cubic, settings };
        let (view, maps) = (self.view(), [self.pair.map]);
        self.device.joint_histogram_with(&method, samples, &view, &columns, &maps).map(|_| ())
    }

    /// Median device seconds, or why it does not fit.
    fn time(
        &mut self,
        mut f: impl FnMut(&Self) -> Result<()>,
    ) -> Result<(Option<f64>, Option<String>)> {
        (self.check)()?;
        // The first run compiles and warms up.
        let first = self.device.seconds(&mut || f(self));
        match first {
            Err(
                e @ (ComputeError::Unsupported { .. }
                | ComputeError::OutOfMemory { .. }
                | ComputeError::Argument { .. }),
            ) => return Ok((None, Some(e.to_string()))),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
        let mut times = Vec::new();
        while times.len() < self.effort.runs {
            times.push(self.device.seconds(&mut || f(self))?);
            if times.iter().sum::<f64>() > LONG {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        Ok((times.get(times.len() / 2).copied(), None))
    }

    fn point(
        &mut self,
        scheme: Scheme,
        (blocks, threads): (Option<usize>, Option<usize>),
        bins: usize,
        workload: usize,
        samples: &D::Samples,
    ) -> Result<Point> {
        let set = SchemeSettings { blocks, threads };
        let (seconds, why_not) = self.time(|e| e.sums(scheme, set, samples))?;
        Ok(Point { scheme: scheme.name(), blocks, threads, bins, workload, seconds, why_not })
    }

    fn joint_point(
        &mut self,
        scheme: JointScheme,
        (blocks, threads): (Option<usize>, Option<usize>),
        bins: usize,
        samples: &D::Samples,
    ) -> Result<Point> {
        let set = SchemeSettings { blocks, threads };
        let (seconds, why_not) = self.time(|e| e.joint(scheme, set, samples, bins))?;
        let workload = WORKLOAD;
        Ok(Point { scheme: scheme.name(), blocks, threads, bins, workload, seconds, why_not })
    }

    /// Grouping at the four stages: the image at an eighth, a quarter, half and all of its
    /// resolution.
    fn sorting(&mut self, binning: &dyn Fn(usize) -> Binning) -> Result<Vec<Sorting>> {
        let [nx, ny, nz] = self.pair.fixed_dims;
        let mut rows = Vec::new();
        for (i, (step, bins)) in [(8, 64), (4, 128), (2, 256), (1, 256)].into_iter().enumerate() {
            (self.check)()?;
            let dims = [nx, ny, nz].map(|d| d.div_ceil(step));
            let mut values = Vec::with_capacity(dims.iter().product());
            for z in (0..nz).step_by(step) {
                for y in (0..ny).step_by(step) {
                    let row = (z * ny + y) * nx;
                    values.extend((0..nx).step_by(step).map(|x| self.pair.fixed[row + x]));
                }
            }
            let options =
                LayoutOptions { binning: binning(bins), workload: WORKLOAD, keep_values: false };
            let device = self.device;
            let start = Instant::now();
            let image = device.upload(&values)?;
            let samples = device.group_samples(&image, dims, None, &options)?;
            device.synchronize()?;
            let overall = start.elapsed().as_secs_f64();
            drop(samples);
            let (kernel, _) =
                self.time(|e| e.device.group_samples(&image, dims, None, &options).map(|_| ()))?;
            let kernel = kernel.unwrap_or(f64::NAN);
            rows.push(Sorting { stage: i + 1, voxels: values.len(), kernel, overall });
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;

    #[test]
    fn the_cpu_shows_what_it_has() {
        let device = Cpu::new(Some(1)).unwrap();
        let pair = Pair::synthetic([20, 18, 9]);
        let mut asked = 0;
        let mut check = || {
            asked += 1;
            Ok(())
        };
        let effort = Effort { runs: 1, ..Effort::QUICK };
        let found = explore(&device, &pair, effort, &mut check).unwrap();
        assert!(found.missing.contains(&"fixed_point") && found.missing.contains(&"shams_warp"));
        assert_eq!(found.figures.len(), 3);
        for figure in &found.figures {
            assert!(!figure.places().is_empty() && !figure.schemes().is_empty());
            assert!(figure.points.iter().all(|p| p.seconds.is_some()), "{figure:?}");
        }
        assert_eq!(found.sorting.len(), 4);
        assert_eq!(found.sorting[3].voxels, 20 * 18 * 9);
        assert!(asked > 10);
        let mut stop = || Err(ComputeError::argument("patience", "none", "some"));
        assert!(explore(&device, &pair, effort, &mut stop).is_err());
    }

    /// Small numbers of blocks and threads: emulated ones take their time.
    #[test]
    fn the_gpu_shows_all_schemes() {
        let Some(device) = crate::cuda::tests::emulated() else { return };
        let pair = Pair::synthetic([12, 10, 5]);
        let effort = Effort { runs: 1, most: 64, ..Effort::QUICK };
        let found = explore(&device, &pair, effort, &mut || Ok(())).unwrap();
        assert!(found.missing.is_empty(), "{:?}", found.missing);
        assert_eq!(found.figures.len(), 7);
        for figure in &found.figures {
            let times = figure.points.iter().filter(|p| p.seconds.is_some()).count();
            assert!(2 * times > figure.points.len(), "{figure:?}");
            let unfit = figure.points.iter().filter(|p| p.seconds.is_none());
            assert!(unfit.into_iter().all(|p| p.why_not.is_some()));
        }
    }
}
