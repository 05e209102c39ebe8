//! Images as the program renders them: the time of the kernel, and of a call including the wait for its result.

use super::scene::{Camera, Poses, Sizes};
use super::sweep::us;
use super::{Bench, Sheet, Times};
use serde::Serialize;
use std::time::Instant;
use voxalign_compute::Memory;
use voxalign_compute::bench::rays::{Manner, Samples, Shot};
use voxalign_compute::cpu::Cpu;
use voxalign_compute::ops::Raycast;
use voxalign_compute::ops::raycast::{Along, Filtering};
use voxalign_compute::select::AnyRayVolume;
use voxalign_image::{Affine, Vector3};
use voxalign_jobs::{Result, check};

/// Images of one kind.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Call {
    pub(super) what: String,
    pub(super) pixels: usize,
    pub(super) filtering: &'static str,
    /// The kernel alone; none on the CPU.
    pub(super) kernel: Option<Times>,
    /// Wall clock until the image is on the device.
    pub(super) call: Times,
    /// Of a ray on average: the samples between source and detector, inside, and taken.
    pub(super) samples: [f64; 3],
}

/// The name of a filtering.
pub(super) fn name(filtering: Filtering) -> &'static str {
    match filtering {
        Filtering::Exact => "exact",
        Filtering::Texture => "texture",
    }
}

/// The ways to interpolate that differ on a device.
pub(super) fn filterings(bench: &Bench<'_>) -> &'static [Filtering] {
    if bench.is_gpu() { &[Filtering::Texture, Filtering::Exact] } else { &[Filtering::Exact] }
}

/// Samples of a ray on average.
pub(super) fn of_a_ray(samples: Samples, rays: usize) -> [f64; 3] {
    [samples.planes, samples.inside, samples.taken].map(|n| n as f64 / rays as f64)
}

/// The number of pixels that counts as few.
const FEW: usize = 1024;

/// The whole region and a few random pixels through the smaller volume.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Call>> {
    check(bench.host)?;
    let (plan, camera) = (bench.plan, Camera::region(bench.plan)?);
    let scene = Sizes::Spine.scene(plan.coarser)?;
    let (volume, cpu) = (scene.on(bench.device)?, Cpu::new(Some(bench.threads))?);
    let counted = scene.on_cpu(&cpu)?;
    let mut poses = Poses::new(7);
    let random = poses.take(plan.repeat);
    let few = FEW.min(plan.region[0] * plan.region[1]);
    let mut calls = Vec::new();
    let straight = vec![Affine::identity(); plan.repeat];
    let aside = vec![Affine::translation(Vector3::new(1e4, 0.0, 0.0)); plan.repeat];
    for (what, poses_of, drawn) in [
        ("all pixels, pose along the axes", &straight, None),
        ("all pixels, random poses", &random, None),
        ("random pixels, random poses", &random, Some(few)),
        ("one pixel outside the volume: launch overhead", &aside, Some(1)),
    ] {
        let mut shot = |pose: &Affine| -> Result<Shot> {
            let pixels = drawn.map_or_else(|| camera.all(), |n| camera.drawn(n, poses.seed()));
            Ok((camera.view(&scene.grid, pose)?, pixels))
        };
        let shots = poses_of.iter().map(&mut shot).collect::<Result<Vec<_>>>()?;
        let pixels = shots.first().map_or(1, |(_, pixels)| pixels.len());
        let seen = shots.first().map_or_else(|| camera.all(), |(_, pixels)| *pixels);
        // Some poses stand for all of them.
        let some = &poses_of[..poses_of.len().min(10)];
        let samples = scene.samples(&cpu, &counted, &camera, some, &seen)?;
        for &filtering in filterings(bench) {
            let manner = Manner::usual(camera.step, filtering);
            let kernel = match bench.is_gpu() {
                true => Some(bench.times(&volume, &manner, &shots)?),
                false => None,
            };
            calls.push(Call {
                what: what.to_owned(),
                pixels,
                filtering: name(filtering),
                kernel,
                call: call(bench, &volume, &manner, &shots)?,
                samples: of_a_ray(samples, some.len() * pixels),
            });
        }
    }
    Ok(calls)
}

/// By the clock, one call after the other.
fn call(
    bench: &Bench<'_>,
    volume: &AnyRayVolume,
    manner: &Manner,
    shots: &[Shot],
) -> Result<Times> {
    let (device, how) = (bench.device, manner.traversal());
    let mut out = device.alloc(shots.first().map_or(0, |(_, pixels)| pixels.len()))?;
    let mut seconds = Vec::new();
    // The first call may compile.
    for (view, pixels) in shots.iter().take(1).chain(shots) {
        check(bench.host)?;
        let start = Instant::now();
        device.project(volume, &[*view], pixels, how, Along::Integral, &mut out)?;
        device.synchronize()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(Times::of(seconds.split_off(1)))
}

/// As a table.
pub(super) fn sheet(calls: &[Call]) -> Option<Sheet> {
    calls.first()?;
    let mut sheet = Sheet::new(
        format!("Images as the program renders them, {} volume", Sizes::Spine.name()),
        [
            "images",
            "pixels",
            "values",
            "kernel us",
            "median us",
            "call us",
            "median us",
            "samples per ray",
            "inside",
            "taken",
        ],
    );
    for c in calls {
        let kernel = |time: fn(&Times) -> f64| {
            c.kernel.as_ref().map_or_else(|| "-".to_owned(), |t| us(time(t)))
        };
        let [planes, inside, taken] = c.samples.map(|n| format!("{n:.0}"));
        sheet.row([
            c.what.clone(),
            c.pixels.to_string(),
            c.filtering.to_owned(),
            kernel(|t| t.mean),
            kernel(|t| t.median),
            us(c.call.mean),
            us(c.call.median),
            planes,
            inside,
            taken,
        ]);
    }
    Some(sheet)
}
