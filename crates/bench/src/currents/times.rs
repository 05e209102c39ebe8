//! Times of a distance with its derivative, pair by pair and on a grid, over the number of faces (figure 3.5).

use super::errors::name;
use super::shapes::folded;
use serde::Serialize;
use std::sync::Arc;
use voxalign_compute::Memory;
use voxalign_compute::ops::pairwise::{KernelShape, RadialKernel};
use voxalign_compute::select::AnyDevice;
use voxalign_image::Vector3;
use voxalign_jobs::Result;
use voxalign_register::attachment::currents::{Shape, ShapeDistance, Summation, decide, usual};

/// Times of a step, seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TimePoint {
    pub(super) kernel: &'static str,
    pub(super) width: f64,
    /// Of the shape that moves, and of that which stays.
    pub(super) faces: [usize; 2],
    /// With itself, and with the other.
    pub(super) pairs: f64,
    /// Pair by pair.
    pub(super) exact_seconds: Option<f64>,
    /// The same where the kernel is as wide as the shape, so that no pair is passed by.
    pub(super) all_pairs_seconds: Option<f64>,
    /// On a grid.
    pub(super) grid_seconds: f64,
    pub(super) grid: [usize; 3],
    /// To make the grid, with what it needs once.
    pub(super) start_seconds: f64,
    /// The relative error of the squared distance on the grid.
    pub(super) off: Option<f64>,
}

/// Times of a pair of these sizes.
pub(super) fn measure(
    device: &AnyDevice,
    faces: [usize; 2],
    kernel: RadialKernel,
    repeat: usize,
    most_pairs: f64,
) -> Result<TimePoint> {
    let shapes = [Arc::new(folded(faces[0], 0.0)?), Arc::new(folded(faces[1], 0.7)?)];
    let [a, b] = [shapes[0].len(), shapes[1].len()];
    let pairs = a as f64 * (a + b) as f64;
    let grid = Summation::Grid(kernel.width / usual(kernel.shape));
    let begin = std::time::Instant::now();
    let mut distance = between(device, &shapes, kernel, grid)?;
    let start_seconds = begin.elapsed().as_secs_f64();
    let (grid_seconds, on_grid) = step(device, &mut distance, &shapes[0], repeat)?;
    let dims = distance.grid().map_or([0; 3], |g| g.dims);
    drop(distance);
    let (mut exact_seconds, mut all_pairs_seconds, mut off) = (None, None, None);
    if pairs <= most_pairs {
        let mut distance = between(device, &shapes, kernel, Summation::Exact)?;
        let (seconds, exact) = step(device, &mut distance, &shapes[0], repeat)?;
        (exact_seconds, off) = (Some(seconds), Some((on_grid - exact).abs() / exact));
        let wide = RadialKernel { width: 60.0, ..kernel };
        let mut distance = between(device, &shapes, wide, Summation::Exact)?;
        all_pairs_seconds = Some(step(device, &mut distance, &shapes[0], repeat)?.0);
    }
    Ok(TimePoint {
        kernel: name(kernel.shape),
        width: kernel.width,
        faces: [a, b],
        pairs,
        exact_seconds,
        all_pairs_seconds,
        grid_seconds,
        grid: dims,
        start_seconds,
        off,
    })
}

fn between(
    device: &AnyDevice,
    shapes: &[Arc<Shape>; 2],
    kernel: RadialKernel,
    summation: Summation,
) -> Result<ShapeDistance<AnyDevice>> {
    let [a, b] = shapes;
    let sums = decide(summation, &kernel, [a, b])?;
    let origin = Vector3::zeros();
    Ok(ShapeDistance::new(device, Arc::clone(a), Arc::clone(b), origin, kernel, sums)?)
}

/// The time of a step, the median, and its squared distance.
fn step(
    device: &AnyDevice,
    distance: &mut ShapeDistance<AnyDevice>,
    shape: &Shape,
    repeat: usize,
) -> Result<(f64, f64)> {
    let list: Vec<f32> =
        (0..3).flat_map(|a| shape.vertices().iter().map(move |v| v[a] as f32)).collect();
    let (vertices, mut covectors) = (device.upload(&list)?, device.alloc(list.len())?);
    let mut seconds = Vec::new();
    // What happens once, such as compiling kernels, does not count.
    let squared = distance.evaluate(device, &vertices, 1.0, &mut covectors)?.wait()?;
    for _ in 0..repeat.max(1) {
        let mut failed = None;
        let time = device.seconds(&mut || {
            failed = distance.evaluate(device, &vertices, 1.0, &mut covectors).err();
            Ok(())
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        seconds.push(time);
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[seconds.len() / 2], squared))
}

/// Which kernel is meant by a name.
pub(super) fn kernel(is_cauchy: bool, width: f64) -> RadialKernel {
    let shape = if is_cauchy { KernelShape::Cauchy } else { KernelShape::Gaussian };
    RadialKernel { shape, width }
}
