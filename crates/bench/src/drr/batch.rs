//! Images of many poses at once, with and without derivatives.

use super::calls::{filterings, name, of_a_ray};
use super::scene::{Camera, Poses, Scene};
use super::{Bench, Sheet, Times};
use serde::Serialize;
use std::time::Instant;
use voxalign_compute::Memory;
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::Raycast;
use voxalign_compute::ops::raycast::{Along, RayView, Traversal};
use voxalign_jobs::{Result, check};

/// Frames of one kind.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Batch {
    pub(super) what: String,
    /// Frames of a batch.
    pub(super) frames: usize,
    /// Wall clock of a batch, until the frames are on the device.
    pub(super) times: Times,
    /// Frames a second, by the median.
    pub(super) frames_a_second: f64,
}

/// The most batches of a measurement.
const RUNS: usize = 20;

/// All kinds, and the samples of a ray on average: between source and detector, inside, and taken.
pub(super) fn measure(bench: &Bench<'_>) -> Result<(Vec<Batch>, [f64; 3])> {
    check(bench.host)?;
    let (plan, device) = (bench.plan, bench.device);
    let camera = Camera::batch(plan)?;
    let scene = scene(plan.coarser)?;
    let volume = scene.on(device)?;
    let runs = plan.repeat.clamp(1, RUNS);
    let pixels = camera.all();
    let mut poses = Poses::new(11);
    let all = (0..runs).map(|_| poses.take(plan.poses)).collect::<Vec<_>>();
    let views = all.iter().map(|poses| {
        poses.iter().map(|pose| camera.view(&scene.grid, pose)).collect::<Result<Vec<_>>>()
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    let rays = plan.poses * pixels.len();
    let mut batches = Vec::new();
    let mut out = device.alloc::<f32>(rays)?;
    for &filtering in filterings(bench) {
        let how = Traversal::Trilinear { step: camera.step, filtering };
        let times = timed(bench, &views, |views| {
            device.project(&volume, views, &pixels, how, Along::Integral, &mut out)?;
            Ok(())
        })?;
        batches.push(Batch::new(format!("frames, {}", name(filtering)), plan.poses, times));
    }
    let mut derivatives = device.alloc::<f32>(6 * rays)?;
    let step = camera.step;
    let times = timed(bench, &views, |views| {
        device.project_with_derivatives(
            &volume,
            views,
            &pixels,
            step,
            &mut out,
            &mut derivatives,
        )?;
        Ok(())
    })?;
    batches.push(Batch::new("frames with derivatives, exact".into(), plan.poses, times));
    let weights = device.upload_vec(vec![1f32; rays])?;
    let times = timed(bench, &views, |views| {
        device.project_with_derivatives(
            &volume,
            views,
            &pixels,
            step,
            &mut out,
            &mut derivatives,
        )?;
        device.view_derivatives(views.len(), &pixels, &weights, &derivatives)?;
        Ok(())
    })?;
    batches.push(Batch::new(
        "frames with the derivative with respect to their views".into(),
        plan.poses,
        times,
    ));
    drop((volume, out, derivatives, weights));

    let cpu = Cpu::new(Some(bench.threads))?;
    let counted = scene.on_cpu(&cpu)?;
    let first = all.first().map_or(&[][..], Vec::as_slice);
    let samples = scene.samples(&cpu, &counted, &camera, first, &pixels)?;
    Ok((batches, of_a_ray(samples, rays)))
}

/// The volume of a batch.
pub(super) fn scene(coarser: usize) -> Result<Scene> {
    Scene::new([512, 512, 133], [0.703, 0.703, 2.5], coarser)
}

impl Batch {
    fn new(what: String, frames: usize, times: Times) -> Self {
        let frames_a_second = frames as f64 / (times.median * 1e-6);
        Self { what, frames, times, frames_a_second }
    }
}

/// By the clock; the first batch may compile.
fn timed(
    bench: &Bench<'_>,
    views: &[Vec<RayView>],
    mut f: impl FnMut(&[RayView]) -> Result<()>,
) -> Result<Times> {
    let mut seconds = Vec::new();
    for views in views.iter().take(1).chain(views) {
        check(bench.host)?;
        let start = Instant::now();
        f(views)?;
        bench.device.synchronize()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(Times::of(seconds.split_off(1)))
}

/// As a table.
pub(super) fn sheet(batches: &[Batch], samples: [f64; 3], words: &str) -> Option<Sheet> {
    let first = batches.first()?;
    let [planes, inside, taken] = samples.map(|n| format!("{n:.1}"));
    let mut sheet = Sheet::new(
        format!(
            "{} frames at once through {words}; of {planes} samples per ray {inside} are inside and {taken} are taken",
            first.frames
        ),
        ["what", "mean ms per batch", "median ms", "frames/s"],
    );
    for b in batches {
        let milliseconds = |us: f64| format!("{:.3}", us * 1e-3);
        sheet.row([
            b.what.clone(),
            milliseconds(b.times.mean),
            milliseconds(b.times.median),
            format!("{:.0}", b.frames_a_second),
        ]);
    }
    Some(sheet)
}
