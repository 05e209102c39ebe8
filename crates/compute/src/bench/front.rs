//! Measurements of fronts: dense circles, or balls, of a step of 32 points, drawn in two halves of the image by a speed.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::front::{
    Gaussian, Layout, Log, Measured, Object, Planned, Rule, Step, TOTALS, Tiles, TwoMeans, Units,
};

/// The distance of circles, and their radius.
const APART: usize = 32;
const RADIUS: usize = 8;

/// Iterations that are measured together, so that a front moves.
const ITERATIONS: usize = 16;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, dims) = (bench.device, bench.dims);
    let n = voxels("dims", dims)?;
    let layout = Layout::new(dims, 1)?;
    let image = bench.image()?;
    let mut start: Vec<bool> = room(n)?;
    start.extend((0..n).map(|p| {
        let at = [p % dims[0], p / dims[0] % dims[1], p / (dims[0] * dims[1])];
        let of = |a: usize| match dims[a] {
            1 => 0,
            _ => (at[a] % APART).abs_diff(APART / 2).pow(2),
        };
        of(0) + of(1) + of(2) <= RADIUS * RADIUS
    }));
    let start = device.upload_vec(layout.pack(&start)?)?;
    let units = Units::between(-200.0, 200.0, n);
    let measured = || Some(Measured { values: &image, units });
    let mut sets = [device.alloc::<u64>(layout.words())?, device.alloc(layout.words())?];
    let mut signs = device.alloc::<u64>(2 * layout.words())?;
    let mut plan = device.alloc::<u32>(layout.tiles())?;
    let mut tiles = device.alloc::<u32>(2 * layout.tiles())?;
    let mut totals = device.alloc::<i64>(TOTALS)?;
    let mut log = device.alloc::<i64>(Log::len_of(ITERATIONS + 2))?;
    let first = Step { number: 0, ends_on_repeats: true };
    let set = 8 * layout.words();

    bench.measure("front", "totals", set + 4 * n, || {
        device.front_begin(&layout, &start, measured(), &mut tiles, &mut totals, &mut log)
    })?;
    let speed = Rule { speed: Some(&image), ..Rule::NONE };
    bench.measure("front", "signs everywhere", 4 * n + 2 * set, || {
        device.front_signs(&layout, &speed, &start, &totals, None, &mut signs)
    })?;
    // What is planned first are all tiles.
    bench.measure("front", "plan of all tiles", 12 * layout.tiles(), || {
        device.front_begin(&layout, &start, None, &mut tiles, &mut totals, &mut log)?;
        device.front_plan(&layout, first, Planned::Changes, &tiles, &totals, &mut plan, &mut log)
    })?;
    bench.measure("front", "step of all tiles", 5 * set, || {
        let (next, log) = (&mut sets[1], &mut log);
        let (tiles, totals) = (&mut tiles, &mut totals);
        device.front_step(&layout, first, &start, &signs, None, &plan, next, tiles, totals, log)
    })?;
    bench.measure("front", "step of all points", 5 * set, || {
        let (next, log) = (&mut sets[1], &mut log);
        device.front_begin(&layout, &start, None, &mut tiles, &mut totals, log)?;
        device.front_step_all(&layout, first, &start, &signs, None, next, &mut totals, log)
    })?;
    let object = Object::Brighter;
    let means = TwoMeans { image: &image, weights: [1.0; 2], fixed: None, object, units };
    let gaussian = Gaussian::new(device, &layout, 3.0, [1.0; 3])?;
    let window = Some(gaussian.window());
    let means = Rule { means: Some(means), ..Rule::NONE };
    let bent = Rule { curvature: 100.0, window, ..means };
    device.front_begin(&layout, &start, measured(), &mut tiles, &mut totals, &mut log)?;
    device.front_plan(&layout, first, Planned::Fronts, &tiles, &totals, &mut plan, &mut log)?;
    for (rule, name) in [(&means, "signs of two means"), (&bent, "signs with curvature")] {
        bench.measure("front", name, 4 * n + 3 * set, || {
            let planned = Tiles { plan: &plan, log: &log, step: 0 };
            device.front_signs(&layout, rule, &start, &totals, Some(planned), &mut signs)
        })?;
    }
    // Whole evolutions, each from the start on.
    for (rule, by_tiles, name) in [
        (&speed, false, "16 iterations of all points"),
        (&speed, true, "16 iterations of tiles"),
        (&means, true, "16 iterations of tiles, two means"),
    ] {
        bench.measure("front", name, ITERATIONS * 3 * set, || {
            let measured = if rule.is_static() { None } else { measured() };
            device.copy(&start, &mut sets[0])?;
            device.front_begin(&layout, &sets[0], measured, &mut tiles, &mut totals, &mut log)?;
            if rule.is_static() {
                device.front_signs(&layout, rule, &sets[0], &totals, None, &mut signs)?;
            }
            for number in 0..ITERATIONS {
                let step = Step { number, ends_on_repeats: true };
                let [a, b] = &mut sets;
                let (set, next) = if number % 2 == 0 { (&*a, b) } else { (&*b, a) };
                if !by_tiles {
                    let (totals, log) = (&mut totals, &mut log);
                    device.front_step_all(&layout, step, set, &signs, None, next, totals, log)?;
                    continue;
                }
                let by = if rule.is_static() { Planned::Changes } else { Planned::Fronts };
                device.front_plan(&layout, step, by, &tiles, &totals, &mut plan, &mut log)?;
                if !rule.is_static() {
                    let planned = Tiles { plan: &plan, log: &log, step: number };
                    device.front_signs(&layout, rule, set, &totals, Some(planned), &mut signs)?;
                }
                let (tiles, totals, log) = (&mut tiles, &mut totals, &mut log);
                device.front_step(
                    &layout, step, set, &signs, measured, &plan, next, tiles, totals, log,
                )?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
