//! The design space of binned sums and joint histograms: times over blocks, threads, bins and
//! workload, as figures 6 to 14 and 17 and tables 7 to 9 of Li et al. (2015) show them.

mod explorer;

use crate::{AffineMap, Dims};

pub use explorer::explore;

/// The images that are measured on, and the map from one to the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Values of the fixed image, x fastest.
    pub fixed: Vec<f32>,
    /// Its sizes.
    pub fixed_dims: Dims,
    /// Values of the moving image.
    pub moving: Vec<f32>,
    /// Its sizes.
    pub moving_dims: Dims,
    /// Fixed index to moving index.
    pub map: AffineMap,
}

impl Pair {
    /// Two synthetic heads of `dims`, one slightly rotated.
    #[must_use]
    pub fn synthetic(dims: Dims) -> Self {
        let image = head(dims);
        Self {
            fixed: image.clone(),
            fixed_dims: dims,
            moving: image,
            moving_dims: dims,
            map: turn(dims),
        }
    }
}

/// An image that is like a head: much background, an ellipsoid of some tissues, noise.
fn head(size: [usize; 3]) -> Vec<f32> {
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
fn turn(size: [usize; 3]) -> AffineMap {
    let (c, s) = (0.1f64.cos(), 0.1f64.sin());
    let (x, y) = (size[0] as f64 / 2.0, size[1] as f64 / 2.0);
    [
        [c, -s, 0.0, x - c * x + s * y + 0.3],
        [s, c, 0.0, y - s * x - c * y + 0.3],
        [0.0, 0.0, 1.0, 0.0],
    ]
}

/// The variable on the axis of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Blocks a map.
    Blocks,
    /// Threads a block.
    Threads,
    /// Bins of the fixed image; for joint histograms of both.
    Bins,
    /// The workload limit, samples per run of the conflict-free scheme.
    Workload,
}

impl Axis {
    /// The name of the axis.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Axis::Blocks => "blocks",
            Axis::Threads => "threads",
            Axis::Bins => "bins",
            Axis::Workload => "workload",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The name of the scheme.
    pub scheme: &'static str,
    /// Blocks a map; none where the scheme sets them itself.
    pub blocks: Option<usize>,
    /// Threads a block; none where the scheme sets them itself.
    pub threads: Option<usize>,
    /// Bins.
    pub bins: usize,
    /// Workload limit.
    pub workload: usize,
    /// Median device seconds of one evaluation; none where it does not fit.
    pub seconds: Option<f64>,
    /// Why it does not fit.
    pub why_not: Option<String>,
}

impl Point {
    /// Where it is on an axis; none where the scheme has no such parameter.
    #[must_use]
    pub fn at(&self, axis: Axis) -> Option<usize> {
        match axis {
            Axis::Blocks => self.blocks,
            Axis::Threads => self.threads,
            Axis::Bins => Some(self.bins),
            Axis::Workload => Some(self.workload),
        }
    }
}

/// Measurements along one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The content of a figure, with its number in the paper.
    pub title: String,
    /// Along what.
    pub axis: Axis,
    /// The measurements.
    pub points: Vec<Point>,
}

impl Figure {
    /// The schemes in the order in which they were measured.
    #[must_use]
    pub fn schemes(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        self.points.iter().for_each(|p| {
            if !names.contains(&p.scheme) {
                names.push(p.scheme);
            }
        });
        names
    }

    /// The places on the axis that any scheme was measured at.
    #[must_use]
    pub fn places(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self.points.iter().filter_map(|p| p.at(self.axis)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// The cost of grouping the samples at one stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sorting {
    /// The stage, from 1.
    pub stage: usize,
    /// Voxels of its fixed image.
    pub voxels: usize,
    /// Seconds of the device for the grouping alone.
    pub kernel: f64,
    /// Seconds until samples are there, with the transfer of the image to the device.
    pub overall: f64,
}

/// All measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Exploration {
    /// The figures.
    pub figures: Vec<Figure>,
    /// The overhead of grouping.
    pub sorting: Vec<Sorting>,
    /// Schemes that the device has not.
    pub missing: Vec<&'static str>,
}

/// The extent of the measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Only every other place on an axis.
    pub quick: bool,
    /// Runs of a measurement.
    pub runs: usize,
    /// The most blocks, threads, bins and workload, but for the first place on each axis.
    pub most: usize,
}

impl Effort {
    /// About a minute on a GPU of a data centre.
    pub const FULL: Self = Self { quick: false, runs: 7, most: usize::MAX };
    /// Some seconds.
    pub const QUICK: Self = Self { quick: true, runs: 3, most: usize::MAX };
}
