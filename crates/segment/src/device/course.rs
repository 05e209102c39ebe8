//! Iterations of a set on a device, several at once.

use voxalign_compute::Device;
use voxalign_compute::ops::front::{
    Layout, Log, Measured, Planned, Rule, Slot, Step, TOTALS, Tiles, Totals, Window,
};
use voxalign_image::memory;

use super::Form;
use crate::error::Result;
use crate::evolution::Ending;
use crate::front::Switched;

/// Iterations that are asked for before the host looks at what they did: first, and later.
const FIRST: usize = 8;
const LATER: usize = 16;

/// The slots of the log: those of the iterations that are asked for at once, of the one before and of the one after.
const SLOTS: usize = LATER + 2;

/// Who is called with the set.
pub(super) struct Watch<'a> {
    /// After so many iterations, at least 1.
    pub(super) every: usize,
    /// With the number of iterations and the set.
    pub(super) call: &'a mut dyn FnMut(usize, &[bool]) -> Result<()>,
}

/// What moves a front, on the device.
pub(super) struct Law<'a, D: Device> {
    pub(super) rule: Rule<'a, D>,
    pub(super) measured: Option<Measured<'a, D>>,
    pub(super) form: Form,
}

/// What there was before an iteration.
pub(super) struct Seen {
    pub(super) totals: Totals,
    pub(super) inner: i64,
    pub(super) outer: i64,
    /// What the iteration did, where it was made.
    pub(super) switched: Option<Switched>,
}

/// Some iterations under one law.
pub(super) struct Phase {
    pub(super) seen: Vec<Seen>,
    /// How many were made.
    pub(super) made: usize,
    pub(super) ending: Option<Ending>,
}

/// A set on a device, and what its iterations need.
pub(super) struct Course<'a, D: Device> {
    device: &'a D,
    layout: Layout,
    /// The set is in one of them, and iterations take turns.
    sets: [D::Buffer<u64>; 2],
    current: usize,
    /// Signs of the front, and those that never change, once they are there.
    signs: D::Buffer<u64>,
    fixed: Option<D::Buffer<u64>>,
    plan: D::Buffer<u32>,
    tiles: D::Buffer<u32>,
    totals: D::Buffer<i64>,
    log: D::Buffer<i64>,
}

impl<'a, D: Device> Course<'a, D> {
    pub(super) fn new(device: &'a D, layout: Layout, start: &[bool]) -> Result<Self> {
        Ok(Self {
            device,
            layout,
            sets: [device.upload_vec(layout.pack(start)?)?, device.alloc(layout.words())?],
            current: 0,
            signs: device.alloc(2 * layout.words())?,
            fixed: None,
            plan: device.alloc(layout.tiles())?,
            tiles: device.alloc(2 * layout.tiles())?,
            totals: device.alloc(TOTALS)?,
            log: device.alloc(Log::len_of(SLOTS))?,
        })
    }

    /// The words of the set.
    pub(super) fn words(&self) -> Result<Vec<u64>> {
        Ok(self.device.download(&self.sets[self.current])?)
    }

    /// Whether each point is inside.
    pub(super) fn set(&self) -> Result<Vec<bool>> {
        Ok(self.layout.unpack(&self.words()?)?)
    }

    /// Iterations by curvature alone, at most so many; how many there were.
    pub(super) fn smooth(&mut self, window: Window<'_, D>, most: usize) -> Result<usize> {
        let rule = Rule { curvature: 1.0, window: Some(window), ..Rule::NONE };
        let law = Law { rule, measured: None, form: Form::Tiles };
        Ok(self.phase(&law, most, false, false, 0, None)?.made)
    }

    /// Iterations under a law, at most so many, to where the front ends. With `is_last` one more is looked at that is not made, and at which a front
    /// ends at the latest. `done` were made before, for who watches.
    pub(super) fn phase(
        &mut self,
        law: &Law<'_, D>,
        most: usize,
        is_last: bool,
        repeats: bool,
        done: usize,
        mut watch: Option<&mut Watch<'_>>,
    ) -> Result<Phase> {
        let (device, layout, points) = (self.device, self.layout, self.layout.points() as i64);
        let Self { sets, current, tiles, totals, log, .. } = &mut *self;
        device.front_begin(&layout, &sets[*current], law.measured, tiles, totals, log)?;
        if law.rule.is_static() && self.fixed.is_none() {
            let mut signs = device.alloc(2 * layout.words())?;
            let set = &self.sets[self.current];
            device.front_signs(&layout, &law.rule, set, &self.totals, None, &mut signs)?;
            self.fixed = Some(signs);
        }
        let first = self.current;
        let end = most.saturating_add(usize::from(is_last));
        let mut phase = Phase { seen: Vec::new(), made: 0, ending: None };
        let (mut now, mut before) = (Totals::default(), Slot::default());
        let (mut inner, mut outer) = (0, 0);
        let mut numbers = vec![0; Log::len_of(SLOTS)];
        let mut number = 0;
        while number < end && phase.ending.is_none() {
            let mut count = (if number == 0 { FIRST } else { LATER }).min(end - number);
            if let Some(watch) = &mut watch {
                let since = (done + number) % watch.every;
                if since == 0 {
                    (watch.call)(done + number, &self.set()?)?;
                }
                count = count.min(watch.every - since);
            }
            for step in number..number + count {
                self.iterate(law, Step { number: step, ends_on_repeats: repeats })?;
            }
            device.download_into(&self.log, &mut numbers)?;
            let log = Log::new(&numbers)?;
            if number == 0 {
                now = log.start();
            }
            for step in number..number + count {
                if repeats && step >= 3 && before.different == 0 {
                    phase.ending = Some(Ending::Repeating { period: 2 });
                } else if now.size == 0 || now.size == points {
                    let nothing = Seen { totals: now, inner: 0, outer: 0, switched: None };
                    memory::push(&mut phase.seen, nothing)?;
                    let is_empty = now.size == 0;
                    phase.ending = Some(if is_empty { Ending::Vanished } else { Ending::Filled });
                }
                if phase.ending.is_some() {
                    break;
                }
                let slot = log.slot(step);
                match law.form {
                    Form::Tiles => (inner, outer) = (inner + slot.inner, outer + slot.outer),
                    Form::Words => (inner, outer) = (slot.inner, slot.outer),
                }
                let of = |n: i64| usize::try_from(n).unwrap_or(0);
                let did = Switched { inwards: of(slot.inwards), outwards: of(slot.outwards) };
                if did == Switched::default() {
                    phase.ending = Some(Ending::Steady);
                } else if step == most {
                    phase.ending = Some(Ending::Limit);
                }
                let switched = phase.ending.is_none().then_some(did);
                memory::push(&mut phase.seen, Seen { totals: now, inner, outer, switched })?;
                if phase.ending.is_some() {
                    break;
                }
                phase.made += 1;
                now = now.after(&slot);
                before = slot;
            }
            number += count;
            self.current = (first + number) % 2;
        }
        self.current = (first + phase.made) % 2;
        Ok(phase)
    }

    /// Asks for an iteration, which reads the one set and writes the other.
    fn iterate(&mut self, law: &Law<'_, D>, step: Step) -> Result<()> {
        let (device, layout) = (self.device, &self.layout);
        let Self { sets: [a, b], signs, fixed, plan, tiles, totals, log, .. } = self;
        let (set, next) = if self.current == 0 { (&*a, b) } else { (&*b, a) };
        let fixed = fixed.as_ref().filter(|_| law.rule.is_static());
        if law.form == Form::Tiles {
            let by = if fixed.is_some() { Planned::Changes } else { Planned::Fronts };
            device.front_plan(layout, step, by, tiles, totals, plan, log)?;
        }
        let signs = match fixed {
            Some(signs) => signs,
            None => {
                let planned = Tiles { plan, log, step: step.number };
                let planned = (law.form == Form::Tiles).then_some(planned);
                device.front_signs(layout, &law.rule, set, totals, planned, signs)?;
                signs
            }
        };
        let measured = law.measured;
        match law.form {
            Form::Tiles => device
                .front_step(layout, step, set, signs, measured, plan, next, tiles, totals, log)?,
            Form::Words => {
                device.front_step_all(layout, step, set, signs, measured, next, totals, log)?;
            }
        }
        self.current = 1 - self.current;
        Ok(())
    }
}
