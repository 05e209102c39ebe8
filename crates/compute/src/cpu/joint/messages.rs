//! Messages on the CPU: lists are made task by task, and their order is that of the pixels.

use super::lanes::{Corners, LANES, Samples, Source};
use super::rows::{Left, Row, Rows, everywhere, within};
use super::{Pass, Tally};
use crate::comm::balance::share;
use crate::cpu::{Cpu, CpuBuffer};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::joint::{
    Block, CUT, FixedPart, JointRule, MessageLayout, Messages, NO_SAMPLE, Sending, check_fixed,
    check_rule,
};
use voxalign_image::memory;

/// The messages that a task has for a rank: bins, then all coordinates along each axis.
#[derive(Default)]
struct List {
    bins: Vec<u8>,
    q: [Vec<u32>; 3],
}

pub(super) fn send(
    cpu: &Cpu,
    rule: &JointRule,
    fixed: &FixedPart<'_, Cpu>,
    sending: &Sending,
    words: &mut CpuBuffer<u32>,
    counts: &mut CpuBuffer<u32>,
    scratch: &mut CpuBuffer<u32>,
) -> Result<()> {
    check_rule(rule, None, rule.numbers(false))?;
    check_fixed(fixed)?;
    sending.check(rule, fixed.part.len(), [words.len(), counts.len(), scratch.len()])?;
    let ranks = sending.owners.ranks();
    let limits = |cells: &Block| rule.limits(cells);
    let here = [limits(&sending.here), limits(&sending.owners.cells(sending.own))];
    let of_ranks: Vec<_> = (0..ranks).map(|r| limits(&sending.owners.cells(r))).collect();
    let all = everywhere(rule);
    let rows = Rows::new(fixed.part, cpu.threads());
    let bins = fixed.bins.as_slice();
    let lists = cpu.try_collect(rows.tasks, |task| {
        let mut lists: Vec<List> = (0..ranks).map(|_| List::default()).collect();
        let (mut left, mut result) = (Left::default(), Ok(()));
        rows.each(task, |pixel, len| {
            let row = Row::new(&rule.map, pixel);
            let at = fixed.block.place(pixel);
            let inside = within(row.start, row.step, len, &all);
            left.begin(len);
            left.take(&(0..inside.start), |_| ());
            left.take(&(inside.end..len), |_| ());
            for limits in &here {
                left.take(&within(row.start, row.step, len, limits), |_| ());
            }
            for (list, limits) in lists.iter_mut().zip(&of_ranks) {
                if left.is_empty() {
                    break;
                }
                left.take(&within(row.start, row.step, len, limits), |piece| {
                    let start = row.at(piece.start);
                    let bins = &bins[at + piece.start..at + piece.end];
                    if result.is_ok() {
                        result = list.add(start, row.step, bins, sending.axes);
                    }
                });
            }
        });
        result.map(|()| lists)
    })?;
    write(sending, &lists, words.as_mut_slice(), counts.as_mut_slice());
    Ok(())
}

impl List {
    fn add(&mut self, start: [i64; 3], step: [i64; 3], bins: &[u8], axes: usize) -> Result<()> {
        let added = bins.iter().filter(|&&b| b != NO_SAMPLE).count();
        memory::ask::<u8, _>(added, || self.bins.try_reserve(added).ok())?;
        for q in self.q.iter_mut().take(axes) {
            memory::ask::<u32, _>(added, || q.try_reserve(added).ok())?;
        }
        for (k, &bin) in bins.iter().enumerate().filter(|&(_, &b)| b != NO_SAMPLE) {
            self.bins.push(bin);
            for a in 0..axes {
                self.q[a].push(((start[a] + step[a] * k as i64) >> CUT) as u32);
            }
        }
        Ok(())
    }
}

/// Writes the lists of all tasks as a device does.
fn write(sending: &Sending, tasks: &[Vec<List>], words: &mut [u32], counts: &mut [u32]) {
    for (rank, count) in counts.iter_mut().enumerate() {
        *count = tasks.iter().map(|lists| lists[rank].bins.len() as u32).sum();
    }
    let (room, axes) = (sending.room(), sending.axes);
    for (rank, start) in sending.starts(counts).into_iter().enumerate() {
        let mut at = start;
        for list in tasks.iter().map(|lists| &lists[rank]) {
            let count = list.bins.len();
            match sending.layout {
                MessageLayout::Structures => {
                    let out = words[(1 + axes) * at..].chunks_exact_mut(1 + axes);
                    for (i, message) in out.take(count).enumerate() {
                        message[0] = u32::from(list.bins[i]);
                        (0..axes).for_each(|a| message[1 + a] = list.q[a][i]);
                    }
                }
                MessageLayout::Arrays => {
                    for (i, &bin) in (at..).zip(&list.bins) {
                        let shift = 8 * (i % 4);
                        words[i / 4] = words[i / 4] & !(0xff << shift) | u32::from(bin) << shift;
                    }
                    for a in 0..axes {
                        let first = room.div_ceil(4) + a * room + at;
                        words[first..first + count].copy_from_slice(&list.q[a]);
                    }
                }
            }
            at += count;
        }
    }
}

/// What the messages of a list add, task by task.
pub(super) fn receive(
    cpu: &Cpu,
    pass: &Pass<'_>,
    messages: &Messages<'_, Cpu>,
    source: &Source<'_>,
) -> Result<Vec<Vec<i64>>> {
    let (axes, count) = (pass.rule.axes(), messages.count);
    let most = (count >> 14).max(1);
    let tasks = if cpu.threads() == 1 { 1 } else { (8 * cpu.threads()).min(most) };
    cpu.try_collect(tasks, |task| {
        let mut tally = Tally::new(pass)?;
        let (mut samples, mut corners) = (Samples::NONE, Corners::NONE);
        let range = share(count, tasks, task);
        let mut first = range.start;
        while first < range.end {
            let room = tally.room(LANES.min(range.end - first));
            samples.of_messages(messages, first..first + room, axes);
            samples.keep_within(source);
            tally.add_samples(source, &samples, &mut corners);
            first += room;
        }
        Ok(tally.end())
    })
}

impl Samples {
    fn of_messages(
        &mut self,
        messages: &Messages<'_, Cpu>,
        range: std::ops::Range<usize>,
        axes: usize,
    ) {
        self.len = range.len();
        let (words, room) = (messages.words.as_slice(), messages.room);
        for (l, i) in range.enumerate() {
            let i = messages.first + i;
            match messages.layout {
                MessageLayout::Structures => {
                    let message = &words[(1 + axes) * i..(1 + axes) * (i + 1)];
                    self.bins[l] = u8::try_from(message[0]).unwrap_or(NO_SAMPLE);
                    (0..axes).for_each(|a| self.q[a][l] = message[1 + a]);
                }
                MessageLayout::Arrays => {
                    self.bins[l] = (words[i / 4] >> (8 * (i % 4))) as u8;
                    for a in 0..axes {
                        self.q[a][l] = words[room.div_ceil(4) + a * room + i];
                    }
                }
            }
        }
    }

    /// Makes no samples of what is not in the cells of a block: messages come from elsewhere.
    fn keep_within(&mut self, source: &Source<'_>) {
        for l in 0..self.len {
            let within = |a: usize| {
                let c = i64::from(self.q[a][l]) << CUT;
                source.limits[a][0] <= c && c < source.limits[a][1]
            };
            if !(0..3).all(within) {
                self.bins[l] = NO_SAMPLE;
                for a in 0..3 {
                    self.q[a][l] = (source.limits[a][0] >> CUT) as u32;
                }
            }
        }
    }
}
