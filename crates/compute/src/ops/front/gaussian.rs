//! The Gaussian that curvature and normals of fronts are from.

use voxalign_compute_macros::forwarded;

use super::Layout;
use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

/// How many standard deviations a Gaussian reaches.
const REACH: f64 = 3.0;

/// The most points that a Gaussian reaches from its middle in the plane.
pub const MOST_RADIUS_2D: usize = 31;

/// The most points that a Gaussian reaches from its middle in a volume.
pub const MOST_RADIUS_3D: usize = 15;

/// The values of eight bits.
pub(crate) const BYTE: usize = 256;

/// A Gaussian on the device, cut at three standard deviations, of sum 1.
///
/// Around a point it has the mean of what is -1 inside and 1 outside, and of that times the distance along each axis; beyond a border the side of the border continues.
/// The mean is κ σ / √(2π) for a front through the point, to the first order (B. Merriman, J. Bence and S. Osher 1992), and the other three are
/// a multiple of the gradient of the smoothed side, whose direction is the normal.
///
/// Means along x are sums of tables, one of 256 numbers for each eight points: what these are for every combination of sides. They, those along y and
/// those along z are added in rising order, in single precision.
#[derive(Debug)]
pub struct Gaussian<D: Memory> {
    sigma: f64,
    spacing: [f64; 3],
    radius: [usize; 3],
    tables: D::Buffer<f32>,
}

/// A [`Gaussian`] that is lent.
#[derive(Debug)]
#[forwarded]
pub struct Window<'a, D: Memory> {
    /// The standard deviation, in the unit of the spacing.
    pub sigma: f64,
    /// Distances of the points along x, y, z.
    pub spacing: [f64; 3],
    /// The points that it reaches along each axis.
    pub radius: [usize; 3],
    /// Tables of the means along x and of those times the distance; weights along y, those times the distance, and the same along z.
    pub tables: &'a D::Buffer<f32>,
}

impl<D: Memory> Gaussian<D> {
    /// A standard deviation, in the unit of the spacing of the points.
    ///
    /// # Errors
    /// A standard deviation or a spacing that is not above 0; one that reaches more than [`MOST_RADIUS_2D`] points in the plane, or [`MOST_RADIUS_3D`] in a volume;
    /// what the device refuses.
    pub fn new(device: &D, layout: &Layout, sigma: f64, spacing: [f64; 3]) -> Result<Self> {
        let axes = Axis::of(layout, sigma, spacing)?;
        let radius = radius_of(&axes);
        let mut tables: Vec<f32> = Vec::new();
        let [x, y, z] = &axes;
        for weights in [&x.weights, &x.moments] {
            for chunk in weights.chunks(8) {
                tables.extend((0..BYTE).map(|byte| {
                    let side = |bit: usize| if byte >> bit & 1 == 1 { -1.0 } else { 1.0 };
                    chunk.iter().enumerate().map(|(bit, w)| w * side(bit)).sum::<f64>() as f32
                }));
            }
        }
        for weights in [&y.weights, &y.moments, &z.weights, &z.moments] {
            tables.extend(weights.iter().map(|w| *w as f32));
        }
        Ok(Self { sigma, spacing, radius, tables: device.upload_vec(tables)? })
    }

    /// The same, to be used by a rule.
    #[must_use]
    pub fn window(&self) -> Window<'_, D> {
        let Self { sigma, spacing, radius, tables } = self;
        Window { sigma: *sigma, spacing: *spacing, radius: *radius, tables }
    }
}

/// The numbers of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Tables along x.
    pub(crate) chunks: usize,
    /// Where the tables of moments begin, those of y and those of z.
    pub(crate) starts: [usize; 3],
    /// All of them.
    pub(crate) len: usize,
}

impl Extent {
    pub(crate) fn of([x, y, z]: [usize; 3]) -> Self {
        let chunks = (2 * x + 1).div_ceil(8);
        let (of_y, of_z) = (2 * (2 * y + 1), 2 * (2 * z + 1));
        let at_y = 2 * chunks * BYTE;
        Self { chunks, starts: [chunks * BYTE, at_y, at_y + of_y], len: at_y + of_y + of_z }
    }
}

impl<D: Memory> Window<'_, D> {
    /// What the curvature is of the mean side.
    pub(crate) fn factor(&self) -> f64 {
        std::f64::consts::TAU.sqrt() / self.sigma
    }

    /// The length below which the direction of the moments is that of rounding.
    pub(crate) fn least(&self) -> f64 {
        1e-6 * self.sigma
    }

    /// Checks that it is one of a layout.
    pub(crate) fn check(&self, layout: &Layout) -> Result<Extent> {
        for length in self.spacing.into_iter().chain([self.sigma]) {
            if !(length.is_finite() && length > 0.0) {
                return Err(ComputeError::argument("lengths of a window", length, "above 0"));
            }
        }
        check_radius("radius of a window", layout, self.radius)?;
        let extent = Extent::of(self.radius);
        check_len("tables of a window", extent.len, self.tables.len())?;
        Ok(extent)
    }
}

/// Weights along an axis, and the same times the distance.
pub(crate) struct Axis {
    pub(crate) weights: Vec<f64>,
    moments: Vec<f64>,
}

/// Checks that a Gaussian of a layout can reach so far along each axis.
pub(crate) fn check_radius(what: &'static str, layout: &Layout, radius: [usize; 3]) -> Result<()> {
    let most = if layout.is_2d() { MOST_RADIUS_2D } else { MOST_RADIUS_3D };
    for (axis, radius) in radius.into_iter().enumerate() {
        if radius > most || (layout.dims()[axis] == 1 && radius > 0) {
            let expected = "that of a Gaussian of this layout";
            return Err(ComputeError::argument(what, radius, expected));
        }
    }
    Ok(())
}

/// The points that weights reach along each axis.
pub(crate) fn radius_of(axes: &[Axis; 3]) -> [usize; 3] {
    [0, 1, 2].map(|a| axes[a].radius())
}

impl Axis {
    /// Those of a Gaussian on a layout, along its axes.
    pub(crate) fn of(layout: &Layout, sigma: f64, spacing: [f64; 3]) -> Result<[Self; 3]> {
        let is_length = |v: f64| v.is_finite() && v > 0.0;
        if !is_length(sigma) {
            return Err(ComputeError::argument("standard deviation", sigma, "above 0"));
        }
        let (most, expected) = match layout.is_2d() {
            true => (MOST_RADIUS_2D, "at most 10.3 points in the plane"),
            false => (MOST_RADIUS_3D, "at most 5 points in a volume"),
        };
        let mut axes = [Axis::point(), Axis::point(), Axis::point()];
        for (axis, found) in axes.iter_mut().enumerate() {
            if !is_length(spacing[axis]) {
                return Err(ComputeError::argument("spacing", spacing[axis], "above 0"));
            }
            if layout.dims()[axis] > 1 {
                let points = sigma / spacing[axis];
                if (REACH * points).ceil() > most as f64 {
                    let what = "standard deviation in points";
                    return Err(ComputeError::argument(what, points, expected));
                }
                *found = Axis::new(points, spacing[axis]);
            }
        }
        Ok(axes)
    }

    /// Of an axis without extent.
    fn point() -> Self {
        Self { weights: vec![1.0], moments: vec![0.0] }
    }

    fn new(points: f64, spacing: f64) -> Self {
        let radius = (REACH * points).ceil() as isize;
        let exponent = |i: isize| -0.5 * (i as f64 / points).powi(2);
        let all: Vec<f64> = (-radius..=radius).map(|i| exponent(i).exp()).collect();
        let sum: f64 = all.iter().sum();
        let weights: Vec<f64> = all.into_iter().map(|w| w / sum).collect();
        let distances = (-radius..=radius).map(|i| i as f64 * spacing);
        let moments = weights.iter().zip(distances).map(|(w, d)| w * d).collect();
        Self { weights, moments }
    }

    fn radius(&self) -> usize {
        self.weights.len() / 2
    }
}
