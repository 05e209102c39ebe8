//! Rendering on the CPU.

use super::scene::{Camera, Poses, Scene, Sizes};
use super::sweep::us;
use super::{Bench, Sheet, Times};
use serde::Serialize;
use voxalign_compute::Memory;
use voxalign_compute::cpu::{Cpu, CpuRayVolume};
use voxalign_compute::ops::Raycast;
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_image::Affine;
use voxalign_jobs::{Result, check};

/// The CPU, with a number of threads.
#[derive(Debug, Clone, Serialize)]
pub(super) struct OnCpu {
    pub(super) what: &'static str,
    pub(super) threads: usize,
    pub(super) times: Times,
}

/// The whole region through the smaller volume on the CPU, with all threads and with one, and samples 1 mm apart.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<OnCpu>> {
    let (plan, camera) = (bench.plan, Camera::region(bench.plan)?);
    let scene = Sizes::Spine.scene(plan.coarser)?;
    let volume = scene.on_cpu(&Cpu::new(Some(bench.threads))?)?;
    let runs = plan.repeat.min(CPU_RUNS);
    let random = Poses::new(7).take(runs);
    let mut found = Vec::new();
    let mut counts = vec![bench.threads, 1];
    counts.dedup();
    for threads in counts {
        let cpu = Cpu::new(Some(threads))?;
        for (what, poses) in
            [("pose along the axes", &vec![Affine::identity(); runs]), ("random poses", &random)]
        {
            found.push(OnCpu {
                what,
                threads,
                times: once(bench, &cpu, &volume, &scene, &camera, poses)?,
            });
        }
    }
    Ok(found)
}

/// The most images of the CPU.
const CPU_RUNS: usize = 20;

fn once(
    bench: &Bench<'_>,
    cpu: &Cpu,
    volume: &CpuRayVolume,
    scene: &Scene,
    camera: &Camera,
    poses: &[Affine],
) -> Result<Times> {
    let (pixels, how) = (camera.all(), Traversal::trilinear(1.0));
    let mut out = cpu.alloc(pixels.len())?;
    let mut seconds = Vec::new();
    for pose in poses.iter().take(1).chain(poses) {
        check(bench.host)?;
        let view = camera.view(&scene.grid, pose)?;
        let mut project = || cpu.project(volume, &[view], &pixels, how, Along::Integral, &mut out);
        seconds.push(cpu.seconds(&mut project)?);
    }
    Ok(Times::of(seconds.split_off(1)))
}

/// As a table.
pub(super) fn sheet(found: &[OnCpu], pixels: usize) -> Option<Sheet> {
    found.first()?;
    let mut sheet = Sheet::new(
        format!("The CPU, all {pixels} pixels, samples 1 mm apart, {} volume", Sizes::Spine.name()),
        ["images", "threads", "mean us", "median us"],
    );
    for f in found {
        let cells = [f.what.to_owned(), f.threads.to_string()];
        sheet.row(cells.into_iter().chain([us(f.times.mean), us(f.times.median)]));
    }
    Some(sheet)
}
