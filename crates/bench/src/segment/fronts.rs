//! Fronts on a device whose data is there, and the time of their iterations.

use std::time::Instant;
use voxalign_compute::ops::front::{
    Layout, Log, Measured, Object, Planned, Rule, Step, TOTALS, Tiles, TwoMeans, Units,
};
use voxalign_compute::{Device, Result};

/// Iterations that are asked for before the host looks at what they did.
const TOGETHER: usize = 8;

/// The slots of the log.
const SLOTS: usize = TOGETHER + 2;

/// The iterations after which a front is given up.
const MOST: usize = 100_000;

/// What moves a front.
#[derive(Debug, Clone, Copy)]
pub(super) enum Law<'a> {
    /// Two regions of one intensity each, the brighter the object, without curvature (equation 3.15).
    ChanVese(&'a [f32]),
    /// A force that does not change.
    Static(&'a [f32]),
}

impl Law<'_> {
    fn values(&self) -> &[f32] {
        match self {
            Self::ChanVese(values) | Self::Static(values) => values,
        }
    }
}

/// What an iteration goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The tiles that can change.
    Tiles,
    /// All points, 64 a word.
    Words,
}

/// What was measured, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    /// Iterations that switched points.
    pub(super) iterations: usize,
    /// From the start on the device to where the front stays, with all waits of the host.
    pub(super) whole: f64,
    /// All plans, each by itself, in device time.
    pub(super) planner: f64,
    /// All signs and steps, likewise.
    pub(super) evolution: f64,
}

/// A front on a device.
pub(super) struct Fronts<'a, D: Device> {
    device: &'a D,
    layout: Layout,
    start: Vec<u64>,
    values: D::Buffer<f32>,
    law: Law<'a>,
    units: Units,
    form: Form,
    sets: [D::Buffer<u64>; 2],
    signs: D::Buffer<u64>,
    plan: D::Buffer<u32>,
    tiles: D::Buffer<u32>,
    totals: D::Buffer<i64>,
    log: D::Buffer<i64>,
}

impl<'a, D: Device> Fronts<'a, D> {
    pub(super) fn new(
        device: &'a D,
        layout: Layout,
        start: &[bool],
        law: Law<'a>,
        form: Form,
    ) -> Result<Self> {
        let start = layout.pack(start)?;
        let values = law.values();
        let ends = values
            .iter()
            .fold([f32::INFINITY, f32::NEG_INFINITY], |[low, high], &v| [low.min(v), high.max(v)]);
        Ok(Self {
            device,
            layout,
            values: device.upload(values)?,
            law,
            units: Units::between(f64::from(ends[0]), f64::from(ends[1]), values.len()),
            form,
            sets: [device.upload(&start)?, device.alloc(layout.words())?],
            start,
            signs: device.alloc(2 * layout.words())?,
            plan: device.alloc(layout.tiles())?,
            tiles: device.alloc(2 * layout.tiles())?,
            totals: device.alloc(TOTALS)?,
            log: device.alloc(Log::len_of(SLOTS))?,
        })
    }

    /// The set again as it was at the start.
    fn restart(&mut self) -> Result<()> {
        self.sets[0] = self.device.upload(&self.start)?;
        self.device.synchronize()
    }

    /// The least whole time of some runs after one that does not count, and the parts of a run whose parts are timed one by one.
    pub(super) fn times(&mut self, runs: usize) -> Result<Times> {
        let mut times = Times { whole: f64::INFINITY, ..Times::default() };
        for run in 0..=runs {
            self.restart()?;
            let began = Instant::now();
            let iterations = self.run(None)?;
            let seconds = began.elapsed().as_secs_f64();
            if run > 0 {
                times.whole = times.whole.min(seconds);
            }
            times.iterations = iterations;
        }
        if self.form == Form::Tiles {
            self.restart()?;
            self.run(Some(&mut times))?;
        }
        Ok(times)
    }

    /// Whether each point is inside, after a run.
    pub(super) fn set(&self, iterations: usize) -> Result<Vec<bool>> {
        self.layout.unpack(&self.device.download(&self.sets[iterations % 2])?)
    }

    /// Iterations to where nothing is switched; how many switched something.
    fn run(&mut self, mut times: Option<&mut Times>) -> Result<usize> {
        let Self {
            device,
            layout,
            values,
            law,
            units,
            form,
            sets,
            signs,
            plan,
            tiles,
            totals,
            log,
            ..
        } = self;
        let values = &*values;
        let units = *units;
        let (rule, measured, is_static) = match law {
            Law::Static(_) => (Rule { speed: Some(values), ..Rule::NONE }, None, true),
            Law::ChanVese(_) => {
                let means = TwoMeans {
                    image: values,
                    weights: [1.0; 2],
                    fixed: None,
                    object: Object::Brighter,
                    units,
                };
                let rule = Rule { means: Some(means), ..Rule::NONE };
                (rule, Some(Measured { values, units }), false)
            }
        };
        let planned = if is_static { Planned::Changes } else { Planned::Fronts };
        device.front_begin(layout, &sets[0], measured, tiles, totals, log)?;
        if is_static {
            device.front_signs(layout, &rule, &sets[0], totals, None, signs)?;
        }
        let mut numbers = vec![0; Log::len_of(SLOTS)];
        let (mut made, mut number) = (0, 0);
        while number < MOST {
            for number in number..number + TOGETHER {
                let [a, b] = &mut *sets;
                let (set, next) = if number % 2 == 0 { (&*a, b) } else { (&*b, a) };
                let step = Step { number, ends_on_repeats: false };
                let by_tiles = *form == Form::Tiles;
                let mut planner =
                    || device.front_plan(layout, step, planned, tiles, totals, plan, log);
                match (&mut times, by_tiles) {
                    (Some(times), true) => times.planner += device.seconds(&mut planner)?,
                    (None, true) => planner()?,
                    (_, false) => {}
                }
                let mut evolution = || {
                    if !is_static {
                        let of = by_tiles.then_some(Tiles { plan, log, step: number });
                        device.front_signs(layout, &rule, set, totals, of, signs)?;
                    }
                    match by_tiles {
                        true => device.front_step(
                            layout, step, set, signs, measured, plan, next, tiles, totals, log,
                        ),
                        false => device
                            .front_step_all(layout, step, set, signs, measured, next, totals, log),
                    }
                };
                match &mut times {
                    Some(times) => times.evolution += device.seconds(&mut evolution)?,
                    None => evolution()?,
                }
            }
            device.download_into(log, &mut numbers)?;
            let counted = Log::new(&numbers)?;
            for number in number..number + TOGETHER {
                let slot = counted.slot(number);
                if slot.inwards + slot.outwards == 0 {
                    return Ok(made);
                }
                made += 1;
            }
            number += TOGETHER;
        }
        Ok(made)
    }
}
