//! The `joint` family on the CPU: a row at a time, each task with a table of its own.

mod lanes;
mod messages;
mod rows;

use super::{Cpu, CpuBuffer, Simd};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::host::zeroed;
use crate::ops::joint::{
    Brick, FixedPart, Joint, JointRule, Messages, NUMBERS, Sending, Window, WindowTable, add_split,
    check_bricks, check_fixed, check_messages, check_rule, window_tables,
};
use lanes::{Corners, Samples, Source};
use rows::{Left, Row, Rows};

/// What is added, and the table of its window.
pub(super) struct Pass<'a> {
    rule: JointRule,
    simd: Simd,
    wide: bool,
    /// Slopes are summed where there is one.
    table: Option<&'a [i32]>,
    window: WindowTable,
}

impl<'a> Pass<'a> {
    fn new(cpu: &Cpu, rule: &JointRule, wide: bool, table: Option<&'a [i32]>) -> Self {
        let (weights, derivatives) = window_tables();
        let window = if table.is_some() { derivatives } else { weights };
        Self { rule: *rule, simd: cpu.simd(), wide, table, window }
    }
}

/// What a task has added so far.
pub(super) struct Tally<'a> {
    pass: &'a Pass<'a>,
    counts: Vec<u32>,
    sums: [i64; NUMBERS],
    out: Vec<i64>,
    since: u32,
    samples: i64,
    elsewhere: i64,
}

impl<'a> Tally<'a> {
    fn new(pass: &'a Pass<'a>) -> Result<Self> {
        let slopes = pass.table.is_some();
        Ok(Self {
            pass,
            counts: zeroed(if slopes { 0 } else { pass.rule.entries() })?,
            sums: [0; NUMBERS],
            out: zeroed(pass.rule.numbers(slopes))?,
            since: 0,
            samples: 0,
            elsewhere: 0,
        })
    }

    /// Makes room for samples before counters of 32 bits could overflow; how many there is room for, at least one.
    fn room(&mut self, wanted: usize) -> usize {
        let most = self.pass.rule.at_once(self.pass.table.is_some());
        if self.since == most {
            self.flush();
        }
        let room = (most - self.since).min(u32::try_from(wanted).unwrap_or(u32::MAX));
        self.since += room;
        room as usize
    }

    fn flush(&mut self) {
        self.since = 0;
        if self.pass.table.is_some() {
            for (out, sum) in self.out.chunks_exact_mut(2).zip(&mut self.sums) {
                add_split(out, *sum);
                *sum = 0;
            }
        } else {
            for (out, count) in self.out.iter_mut().zip(&mut self.counts) {
                *out += i64::from(*count);
                *count = 0;
            }
        }
    }

    fn end(mut self) -> Vec<i64> {
        self.flush();
        let last = self.out.len() - crate::ops::joint::TALLIES;
        self.out[last] = self.samples;
        self.out[last + 1] = self.elsewhere;
        self.out
    }

    /// Adds the samples at some pixels of a row, the first of which has the exact coordinates `start`.
    fn add_row(
        &mut self,
        source: &Source<'_>,
        start: [i64; 3],
        step: [i64; 3],
        bins: &[u8],
    ) -> i64 {
        let (mut done, mut counted) = (0, 0);
        while done < bins.len() {
            let room = self.room(bins.len() - done);
            let first = [0, 1, 2].map(|a| start[a] + step[a] * done as i64);
            counted += i64::from(self.add_piece(source, first, step, &bins[done..done + room]));
            done += room;
        }
        self.samples += counted;
        counted
    }

    fn add_piece(
        &mut self,
        source: &Source<'_>,
        start: [i64; 3],
        step: [i64; 3],
        bins: &[u8],
    ) -> u32 {
        let Pass { rule, simd, wide, table, window } = self.pass;
        let flat = rule.axes() == 2;
        if let Some(table) = table {
            let add = match (wide, flat) {
                (false, true) => lanes::slope_row::<false, 2>,
                (false, false) => lanes::slope_row::<false, 3>,
                (true, true) => lanes::slope_row::<true, 2>,
                (true, false) => lanes::slope_row::<true, 3>,
            };
            return add(*simd, rule, source, start, step, bins, window, table, &mut self.sums);
        }
        let add = match (wide, flat, rule.window) {
            (false, true, Window::Plain) => lanes::count_row::<false, 2, false>,
            (false, true, Window::Cubic) => lanes::count_row::<false, 2, true>,
            (false, false, Window::Plain) => lanes::count_row::<false, 3, false>,
            (false, false, Window::Cubic) => lanes::count_row::<false, 3, true>,
            (true, true, Window::Plain) => lanes::count_row::<true, 2, false>,
            (true, true, Window::Cubic) => lanes::count_row::<true, 2, true>,
            (true, false, Window::Plain) => lanes::count_row::<true, 3, false>,
            (true, false, Window::Cubic) => lanes::count_row::<true, 3, true>,
        };
        add(*simd, rule, source, start, step, bins, window, &mut self.counts)
    }

    /// Adds samples, at most as many as there is [`room`](Self::room) for.
    fn add_samples(&mut self, source: &Source<'_>, samples: &Samples, corners: &mut Corners) {
        let Pass { rule, simd, wide, table, window } = self.pass;
        let flat = rule.axes() == 2;
        let counted = if let Some(table) = table {
            let add = match (wide, flat) {
                (false, true) => lanes::slope_samples::<false, 2>,
                (false, false) => lanes::slope_samples::<false, 3>,
                (true, true) => lanes::slope_samples::<true, 2>,
                (true, false) => lanes::slope_samples::<true, 3>,
            };
            add(*simd, rule, source, samples, corners, window, table, &mut self.sums)
        } else {
            let add = match (wide, flat, rule.window) {
                (false, true, Window::Plain) => lanes::count_samples::<false, 2, false>,
                (false, true, Window::Cubic) => lanes::count_samples::<false, 2, true>,
                (false, false, Window::Plain) => lanes::count_samples::<false, 3, false>,
                (false, false, Window::Cubic) => lanes::count_samples::<false, 3, true>,
                (true, true, Window::Plain) => lanes::count_samples::<true, 2, false>,
                (true, true, Window::Cubic) => lanes::count_samples::<true, 2, true>,
                (true, false, Window::Plain) => lanes::count_samples::<true, 3, false>,
                (true, false, Window::Cubic) => lanes::count_samples::<true, 3, true>,
            };
            add(*simd, rule, source, samples, corners, window, &mut self.counts)
        };
        self.samples += i64::from(counted);
    }
}

/// Adds what tasks have found.
fn add_all(found: Vec<Vec<i64>>, out: &mut [i64]) {
    for part in found {
        out.iter_mut().zip(&part).for_each(|(out, part)| *out += part);
    }
}

/// A table of slopes, within what is allowed.
fn held_within(table: Option<&CpuBuffer<i32>>) -> Result<Option<Vec<i32>>> {
    let most = crate::ops::joint::MOST_SLOPE;
    let Some(table) = table.map(CpuBuffer::as_slice) else { return Ok(None) };
    let mut held = zeroed(table.len())?;
    held.iter_mut().zip(table).for_each(|(held, &slope)| *held = slope.clamp(-most, most));
    Ok(Some(held))
}

/// The pixels of a brick.
fn source<'a>(rule: &JointRule, brick: &Brick<'a, Cpu>) -> Source<'a> {
    let pixels = &brick.pixels;
    let bytes = pixels.bytes.map(CpuBuffer::as_slice).or(pixels.host_bytes.map(|b| &**b));
    let words = pixels.words.map(CpuBuffer::as_slice).or(pixels.host_words.map(|b| &**b));
    let (bytes, words) = (bytes.unwrap_or_default(), words.unwrap_or_default());
    Source::new(rule, &brick.stored, &brick.cells, bytes, words)
}

impl Joint for Cpu {
    fn joint_add(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        bricks: &[Brick<'_, Self>],
        table: Option<&CpuBuffer<i32>>,
        out: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        check_rule(rule, table.map(DeviceBuffer::len), out.len())?;
        check_fixed(fixed)?;
        let wide = check_bricks(rule, bricks)?;
        let table = held_within(table)?;
        let pass = Pass::new(self, rule, wide, table.as_deref());
        let sources: Vec<_> = bricks.iter().map(|brick| source(rule, brick)).collect();
        let rows = Rows::new(fixed.part, self.threads());
        let bins = fixed.bins.as_slice();
        let found = self.try_collect(rows.tasks, |task| {
            let (mut tally, mut left) = (Tally::new(&pass)?, Left::default());
            rows.each(task, |pixel, len| {
                let row = Row::new(&rule.map, pixel);
                let at = fixed.block.place(pixel);
                let bins = &bins[at..at + len];
                rows::of_sources(&row, len, &sources, &mut left, |i, piece| {
                    let start = row.at(piece.start);
                    let counted = tally.add_row(&sources[i], start, row.step, &bins[piece]);
                    tally.elsewhere += if i == 0 { 0 } else { counted };
                });
            });
            Ok(tally.end())
        })?;
        add_all(found, out.as_mut_slice());
        Ok(())
    }

    fn joint_send(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        sending: &Sending,
        words: &mut CpuBuffer<u32>,
        counts: &mut CpuBuffer<u32>,
        scratch: &mut CpuBuffer<u32>,
    ) -> Result<()> {
        messages::send(self, rule, fixed, sending, words, counts, scratch)
    }

    fn joint_receive(
        &self,
        rule: &JointRule,
        messages: &Messages<'_, Self>,
        brick: &Brick<'_, Self>,
        table: Option<&CpuBuffer<i32>>,
        out: &mut CpuBuffer<i64>,
    ) -> Result<()> {
        check_rule(rule, table.map(DeviceBuffer::len), out.len())?;
        let wide = check_bricks(rule, std::slice::from_ref(brick))?;
        check_messages(rule, messages)?;
        if brick.cells.is_empty() {
            return Ok(());
        }
        let table = held_within(table)?;
        let pass = Pass::new(self, rule, wide, table.as_deref());
        let source = source(rule, brick);
        let found = messages::receive(self, &pass, messages, &source)?;
        add_all(found, out.as_mut_slice());
        Ok(())
    }
}
