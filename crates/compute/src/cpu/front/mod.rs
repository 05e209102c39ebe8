//! Updates of fronts on the CPU: a thread has whole rows of tiles.

mod bent;
mod patch;
mod pointwise;
mod rows;
mod signs;
mod sums;

use rayon::prelude::*;

use super::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Front;
use crate::ops::front::{
    Layout, Log, Measured, Planned, Rule, SLOT, Slot, Step, TOTALS, Tiles, Totals, check_begin,
    check_plan, check_signs, check_step, has_ended,
};
use patch::{Field, Scratch, advance};
use rows::Region;

/// Words of a task of whole rows, roughly: so many that what is kept of them stays in the nearest cache.
const TASK: usize = 1024;

/// Plans of fewer tiles are for one thread.
const FEW: usize = 48;

/// The rows of tiles that are next to each other in memory: all that have points of the same rows in the plane, or of the same slices in a volume.
#[derive(Clone, Copy)]
struct Bands {
    layout: Layout,
    /// Words of a band, and its tiles.
    words: usize,
    tiles: usize,
    /// Rows of tiles in it.
    rows: usize,
}

impl Bands {
    fn new(layout: &Layout) -> Self {
        let ([_, ny, _], [tx, ty, _]) = (layout.dims(), layout.grid());
        let a_row = layout.row_words();
        let (words, rows) = match layout.is_2d() {
            true => (layout.tile()[1] * a_row, 1),
            false => (layout.tile()[2] * a_row * ny, ty),
        };
        Self { layout: *layout, words, tiles: rows * tx, rows }
    }

    /// The rows along y and z of a row of tiles of a band.
    fn region(&self, band: usize, row: usize) -> [std::ops::Range<usize>; 2] {
        let ([_, ny, nz], [_, tall, deep]) = (self.layout.dims(), self.layout.tile());
        let (y, z) = if self.layout.is_2d() { (band, 0) } else { (row, band) };
        let of = |at: usize, size: usize, n: usize| at * size..((at + 1) * size).min(n);
        [of(y, tall, ny), of(z, deep, nz)]
    }

    /// The places along x of those of some tiles of a band that are in a row of it.
    fn of_row<'a>(
        &self,
        tiles: &'a [u32],
        band: usize,
        row: usize,
    ) -> impl Iterator<Item = usize> + Clone + 'a {
        let across = self.layout.grid()[0];
        let first = band * self.tiles + row * across;
        let all = tiles.iter().map(|t| *t as usize);
        all.filter(move |t| (first..first + across).contains(t)).map(move |t| t - first)
    }

    /// The tiles of a band among those of a plan, in rising order.
    fn planned<'a>(&self, plan: &'a [u32], band: usize) -> &'a [u32] {
        let (low, high) = (band * self.tiles, (band + 1) * self.tiles);
        let from = plan.partition_point(|t| (*t as usize) < low);
        let to = plan.partition_point(|t| (*t as usize) < high).max(from);
        &plan[from..to]
    }
}

/// The words of a row of tiles that have some of them, as ranges; `tiles` are their places along x.
fn runs(tiles: impl Iterator<Item = usize>, a_word: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for word in tiles.map(|t| t / a_word) {
        match runs.last_mut() {
            Some(run) if word < run.end => {}
            Some(run) if word == run.end => run.end += 1,
            _ => runs.push(word..word + 1),
        }
    }
    runs
}

/// The slot of an iteration in a log.
fn slot_of(log: &[i64], slots: usize, step: usize) -> Slot {
    let at = Log::place(slots, step);
    Slot::of(&log[at..at + SLOT])
}

fn write_slot(log: &mut [i64], slots: usize, step: usize, slot: &Slot) {
    let at = Log::place(slots, step);
    log[at..at + SLOT].copy_from_slice(&slot.numbers());
}

/// Whether an iteration has nothing to do; clears the slot of the next.
fn begins(layout: &Layout, step: Step, slots: usize, totals: &[i64], log: &mut [i64]) -> bool {
    let before = match step.number {
        0 => Slot::default(),
        number => slot_of(log, slots, number - 1),
    };
    write_slot(log, slots, step.number + 1, &Slot::default());
    !has_ended(step, &before, Totals::of(totals).size, layout.points())
}

/// Adds what an iteration has counted to its slot and to the totals.
fn conclude(log: &mut [i64], totals: &mut [i64], slots: usize, step: Step, counted: &Slot) {
    let mut slot = slot_of(log, slots, step.number);
    slot.add(counted);
    write_slot(log, slots, step.number, &slot);
    totals.copy_from_slice(&Totals::of(totals).after(counted).numbers());
}

/// An image whose values are summed, on the host.
fn values<'a>(
    measured: Option<&Measured<'a, Cpu>>,
) -> Option<(&'a [f32], crate::ops::front::Units)> {
    measured.map(|m| (m.values.as_slice(), m.units))
}

impl Front for Cpu {
    fn front_begin(
        &self,
        layout: &Layout,
        set: &CpuBuffer<u64>,
        measured: Option<Measured<'_, Self>>,
        tiles: &mut CpuBuffer<u32>,
        totals: &mut CpuBuffer<i64>,
        log: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        let lengths = [tiles.len(), totals.len(), log.len()];
        check_begin(layout, set.len(), measured.as_ref(), lengths)?;
        let (a_row, nx) = (layout.row_words(), layout.dims()[0]);
        let rows = TASK.div_ceil(a_row);
        let (set, measured) = (set.as_slice(), values(measured.as_ref()));
        let parts = self.collect(layout.words().div_ceil(rows * a_row), |task| {
            let mut totals = Totals::default();
            let set = set.chunks(rows * a_row).nth(task).unwrap_or_default();
            totals.size = set.iter().map(|w| i64::from(w.count_ones())).sum();
            let Some((values, units)) = &measured else { return totals };
            let values = values.chunks(rows * nx).nth(task).unwrap_or_default();
            for (set, values) in set.chunks_exact(a_row).zip(values.chunks_exact(nx)) {
                sums::add_row(self.simd(), set, values, units, &mut totals);
            }
            totals
        });
        let mut sums = [0i64; TOTALS];
        for part in parts {
            for (sum, v) in sums.iter_mut().zip(part.numbers()) {
                *sum = sum.wrapping_add(v);
            }
        }
        tiles.as_mut_slice().fill(0);
        totals.as_mut_slice().copy_from_slice(&sums);
        let log = log.as_mut_slice();
        log.fill(0);
        log[..TOTALS].copy_from_slice(&sums);
        Ok(())
    }

    fn front_plan(
        &self,
        layout: &Layout,
        step: Step,
        planned: Planned,
        tiles: &CpuBuffer<u32>,
        totals: &CpuBuffer<i64>,
        plan: &mut CpuBuffer<u32>,
        log: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        let lengths = [tiles.len(), totals.len(), plan.len(), log.len()];
        let slots = check_plan(layout, step, lengths)?;
        let (plan, log) = (plan.as_mut_slice(), log.as_mut_slice());
        let (changed, front) = tiles.as_slice().split_at(layout.tiles());
        let mut count = 0;
        if begins(layout, step, slots, totals.as_slice(), log) {
            let [tx, ty, tz] = layout.grid();
            let mut hit = vec![false; tx + 2];
            for z in 0..tz {
                for y in 0..ty {
                    let first = tx * (y + ty * z);
                    if step.number == 0 {
                        for (plan, tile) in plan[first..first + tx].iter_mut().zip(first..) {
                            *plan = tile as u32;
                        }
                        count += tx;
                        continue;
                    }
                    hit.fill(false);
                    for k in z.saturating_sub(1)..(z + 2).min(tz) {
                        for j in y.saturating_sub(1)..(y + 2).min(ty) {
                            let row = &changed[tx * (j + ty * k)..][..tx];
                            for (hit, changed) in hit[1..].iter_mut().zip(row) {
                                *hit |= *changed as usize == step.number;
                            }
                        }
                    }
                    let front = &front[first..first + tx];
                    for x in 0..tx {
                        let is_planned = hit[x]
                            | hit[x + 1]
                            | hit[x + 2]
                            | (planned == Planned::Fronts && front[x] != 0);
                        plan[count] = (first + x) as u32;
                        count += usize::from(is_planned);
                    }
                }
            }
        }
        let slot = Slot { tiles: count as i64, ..Slot::default() };
        write_slot(log, slots, step.number, &slot);
        Ok(())
    }

    fn front_signs(
        &self,
        layout: &Layout,
        rule: &Rule<'_, Self>,
        set: &CpuBuffer<u64>,
        totals: &CpuBuffer<i64>,
        tiles: Option<Tiles<'_, Self>>,
        signs: &mut CpuBuffer<u64>,
    ) -> Result<()> {
        let lengths = [set.len(), totals.len(), signs.len()];
        let slots = check_signs(layout, rule, lengths, tiles.as_ref())?;
        let force = signs::Force::new(layout, rule, &Totals::of(totals.as_slice()));
        let (inside, outside) = signs.as_mut_slice().split_at_mut(layout.words());
        let (Some(slots), Some(tiles)) = (slots, tiles) else {
            signs::everywhere(self, &force, [inside, outside]);
            return Ok(());
        };
        let count = slot_of(tiles.log.as_slice(), slots, tiles.step).tiles;
        let plan = tiles.plan.as_slice();
        let plan = &plan[..plan.len().min(usize::try_from(count).unwrap_or(0))];
        let bands = Bands::new(layout);
        let set = set.as_slice();
        let work = |(band, signs): (usize, [&mut [u64]; 2]), scratch: &mut signs::Scratch| {
            let tiles = bands.planned(plan, band);
            if !tiles.is_empty() {
                signs::of_band(self, &force, set, &bands, band, tiles, signs, scratch);
            }
        };
        if self.threads() == 1 || plan.len() < FEW {
            let both = inside.chunks_mut(bands.words).zip(outside.chunks_mut(bands.words));
            let mut scratch = signs::Scratch::default();
            both.enumerate().for_each(|(band, (p, n))| work((band, [p, n]), &mut scratch));
        } else {
            self.install(|| {
                let outside = outside.par_chunks_mut(bands.words);
                let both = inside.par_chunks_mut(bands.words).zip(outside).enumerate();
                both.for_each_init(signs::Scratch::default, |scratch, (band, (p, n))| {
                    work((band, [p, n]), scratch);
                });
            });
        }
        Ok(())
    }

    fn front_step(
        &self,
        layout: &Layout,
        step: Step,
        set: &CpuBuffer<u64>,
        signs: &CpuBuffer<u64>,
        measured: Option<Measured<'_, Self>>,
        plan: &CpuBuffer<u32>,
        next: &mut CpuBuffer<u64>,
        tiles: &mut CpuBuffer<u32>,
        totals: &mut CpuBuffer<i64>,
        log: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        let lengths = [set.len(), signs.len(), next.len(), totals.len(), log.len()];
        let planned = Some([plan.len(), tiles.len()]);
        let slots = check_step(layout, step, measured.as_ref(), lengths, planned)?;
        let log = log.as_mut_slice();
        let count = slot_of(log, slots, step.number).tiles;
        let plan = plan.as_slice();
        let plan = &plan[..plan.len().min(usize::try_from(count).unwrap_or(0))];
        let (p, n) = signs.as_slice().split_at(layout.words());
        let field = Field {
            layout: *layout,
            set: set.as_slice(),
            signs: [p, n],
            measured: values(measured.as_ref()),
        };
        let bands = Bands::new(layout);
        let (changed, front) = tiles.as_mut_slice().split_at_mut(layout.tiles());
        let stamp = step.number as u32 + 1;
        let work = |scratch: &mut Scratch,
                    (band, next, state): (usize, &mut [u64], [&mut [u32]; 2])| {
            let tiles = bands.planned(plan, band);
            if tiles.is_empty() {
                Slot::default()
            } else {
                self.band(&field, &bands, band, tiles, stamp, scratch, next, state)
            }
        };
        let counted = if self.threads() == 1 || plan.len() < FEW {
            let state = changed.chunks_mut(bands.tiles).zip(front.chunks_mut(bands.tiles));
            let mut scratch = Scratch::default();
            let all = next.as_mut_slice().chunks_mut(bands.words).zip(state).enumerate();
            all.fold(Slot::default(), |mut slot, (band, (next, (changed, front)))| {
                slot.add(&work(&mut scratch, (band, next, [changed, front])));
                slot
            })
        } else {
            self.install(|| {
                let front = front.par_chunks_mut(bands.tiles);
                let state = changed.par_chunks_mut(bands.tiles).zip(front);
                let all = next.as_mut_slice().par_chunks_mut(bands.words).zip(state).enumerate();
                let each =
                    all.map_init(Scratch::default, |scratch, (band, (next, (changed, front)))| {
                        work(scratch, (band, next, [changed, front]))
                    });
                each.reduce(Slot::default, |mut a, b| {
                    a.add(&b);
                    a
                })
            })
        };
        conclude(log, totals.as_mut_slice(), slots, step, &counted);
        Ok(())
    }

    fn front_step_all(
        &self,
        layout: &Layout,
        step: Step,
        set: &CpuBuffer<u64>,
        signs: &CpuBuffer<u64>,
        measured: Option<Measured<'_, Self>>,
        next: &mut CpuBuffer<u64>,
        totals: &mut CpuBuffer<i64>,
        log: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        let lengths = [set.len(), signs.len(), next.len(), totals.len(), log.len()];
        let slots = check_step(layout, step, measured.as_ref(), lengths, None)?;
        let log = log.as_mut_slice();
        let mut counted = Slot::default();
        if begins(layout, step, slots, totals.as_slice(), log) {
            let (p, n) = signs.as_slice().split_at(layout.words());
            let field = Field {
                layout: *layout,
                set: set.as_slice(),
                signs: [p, n],
                measured: values(measured.as_ref()),
            };
            counted = self.all(&field, next.as_mut_slice());
            counted.tiles = layout.tiles() as i64;
        }
        write_slot(log, slots, step.number, &Slot::default());
        conclude(log, totals.as_mut_slice(), slots, step, &counted);
        Ok(())
    }
}

impl Cpu {
    /// The planned tiles of a band. Words of which one has a tile that is planned are made as a whole: the other tiles of them become what they are.
    #[allow(clippy::too_many_arguments)]
    fn band(
        &self,
        field: &Field<'_>,
        bands: &Bands,
        band: usize,
        tiles: &[u32],
        stamp: u32,
        scratch: &mut Scratch,
        next: &mut [u64],
        [changed, front]: [&mut [u32]; 2],
    ) -> Slot {
        let layout = &field.layout;
        let (tx, ny) = (layout.grid()[0], layout.dims()[1]);
        let a_word = 64 / layout.tile()[0];
        let bits = 64 / a_word;
        let mut slot = Slot::default();
        for row in 0..bands.rows {
            let [y, z] = bands.region(band, row);
            let places = bands.of_row(tiles, band, row);
            for words in runs(places, a_word) {
                let region = Region { y: y.clone(), z: z.clone(), words };
                let first = if layout.is_2d() { y.start } else { z.start * ny };
                let counted = advance(self.simd(), field, &region, scratch, true, first, next);
                slot.inwards += counted.inwards;
                slot.outwards += counted.outwards;
                slot.different += counted.different;
                slot.sum = slot.sum.wrapping_add(counted.sum);
                slot.squares = slot.squares.wrapping_add(counted.squares);
                for (i, moved) in scratch.changed.iter().enumerate() {
                    for k in 0..a_word {
                        let x = (region.words.start + i) * a_word + k;
                        if x >= tx {
                            break;
                        }
                        let at = row * tx + x;
                        if moved >> (bits * k) & (u64::MAX >> (64 - bits)) != 0 {
                            changed[at] = stamp;
                        }
                        let [inner, outer] = [0, 1].map(|s| scratch.front[s][i * a_word + k]);
                        let before = std::mem::replace(&mut front[at], inner | outer << 16);
                        slot.inner += i64::from(inner) - i64::from(before & 0xffff);
                        slot.outer += i64::from(outer) - i64::from(before >> 16);
                    }
                }
            }
        }
        slot
    }

    /// All points.
    fn all(&self, field: &Field<'_>, next: &mut [u64]) -> Slot {
        let layout = &field.layout;
        let [_, ny, nz] = layout.dims();
        let a_row = layout.row_words();
        // Whole rows in the plane, whole slices in a volume.
        let rows = (TASK / a_row).clamp(8, 64);
        let a_task = if layout.is_2d() { rows } else { 8 * ny };
        let work = |scratch: &mut Scratch, (task, next): (usize, &mut [u64])| {
            let first = task * a_task;
            let count = next.len() / a_row;
            let mut slot = Slot::default();
            let mut part = |y: std::ops::Range<usize>, z: std::ops::Range<usize>| {
                let region = Region { y, z, words: 0..a_row };
                slot.add(&advance(self.simd(), field, &region, scratch, false, first, next));
            };
            if layout.is_2d() {
                part(first..first + count, 0..1);
            } else {
                let z = first / ny..((first + count) / ny).min(nz);
                for y in (0..ny).step_by(rows) {
                    part(y..(y + rows).min(ny), z.clone());
                }
            }
            slot
        };
        let tasks = next.len().div_ceil(a_task * a_row);
        if self.threads() == 1 || tasks == 1 {
            let mut scratch = Scratch::default();
            let all = next.chunks_mut(a_task * a_row).enumerate();
            return all.fold(Slot::default(), |mut slot, task| {
                slot.add(&work(&mut scratch, task));
                slot
            });
        }
        self.install(|| {
            let all = next.par_chunks_mut(a_task * a_row).enumerate();
            all.map_init(Scratch::default, work).reduce(Slot::default, |mut a, b| {
                a.add(&b);
                a
            })
        })
    }
}
