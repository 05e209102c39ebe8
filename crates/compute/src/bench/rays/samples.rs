//! The number of samples of rays.

use crate::cpu::{Cpu, CpuRayVolume};
use crate::error::Result;
use crate::ops::raycast::{Pixels, RayFrame, RayView, Traversable, Traversal, check_project};

/// Samples of rays, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Samples {
    /// The planes of samples between source and detector.
    pub planes: u64,
    /// Those of their places that are inside a volume.
    pub inside: u64,
    /// Those at which a value is taken: the others are passed as there is nothing about them.
    pub taken: u64,
}

/// The samples that rays take at planes `step` mm apart where each ray goes by itself, as on a GPU without sharing.
///
/// # Errors
/// As [`project`](crate::ops::Raycast::project).
pub fn samples(
    cpu: &Cpu,
    volume: &CpuRayVolume,
    views: &[RayView],
    pixels: &Pixels,
    step: f64,
) -> Result<Samples> {
    let (dims, how) = (volume.dims(), Traversal::trilinear(step));
    let frames = check_project(dims, views, pixels, how, views.len() * pixels.len())?;
    let tasks = pixels.len().div_ceil(TASK);
    let of_task = |task: usize| {
        let (frame, first) = (&frames[task / tasks], task % tasks * TASK);
        let mut sums = [0; 2];
        for number in first..pixels.len().min(first + TASK) {
            let [u, v] = pixels.at(number).map(|x| x as f32);
            // Places count from a voxel before the first.
            let place = frame.place_of(u, v).map(|p| p + 1.0);
            let found = volume.count(place, frame.step_of(u, v), frame.range);
            sums = [sums[0] + found[0], sums[1] + found[1]];
        }
        sums
    };
    let all = cpu.collect(tasks * frames.len(), of_task);
    let planes = |view: &RayFrame| (view.range[1] - view.range[0]).max(-1.0) as u64 + 1;
    Ok(Samples {
        planes: frames.iter().map(planes).sum::<u64>() * pixels.len() as u64,
        inside: all.iter().map(|sums| sums[0]).sum(),
        taken: all.iter().map(|sums| sums[1]).sum(),
    })
}

/// The rays of a task.
const TASK: usize = 512;
