//! One iteration of some rows and words of a set, 64 points at a time.

use std::ops::Range;

use crate::cpu::simd::kernel;
use crate::ops::front::{Layout, Slot, Units};

/// Words beside those of a row: one on each side that is looked at, and one beyond it that is 0.
const BESIDE: usize = 2;

/// Rows beside those that change, on each side: what is there decides what the next rows are.
const ROWS: usize = 2;

/// What an iteration goes by.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) layout: Layout,
    pub(super) set: &'a [u64],
    /// P and N.
    pub(super) signs: [&'a [u64]; 2],
    pub(super) measured: Option<(&'a [f32], Units)>,
}

/// Rows and words of a set.
#[derive(Clone)]
pub(super) struct Region {
    pub(super) y: Range<usize>,
    pub(super) z: Range<usize>,
    pub(super) words: Range<usize>,
}

/// Rows of words in which a region is made, with those beside it.
#[derive(Default)]
pub(super) struct Scratch {
    /// The set, what is outside, and both after points have come in.
    rows: [Vec<u64>; 4],
    /// Rows by themselves: unions of rows, P and N, and what is of the front.
    line: [Vec<u64>; 6],
    /// For each word of the region whether points of it changed.
    pub(super) changed: Vec<u64>,
    /// For each tile of the region its points inside and outside of the front.
    pub(super) front: [Vec<u32>; 2],
    /// The same while they are counted, as fields of words.
    fields: [Vec<u64>; 2],
}

/// Which rows are neighbours: those whose points count with what is beside them along x, and those whose points count alone.
struct Near {
    wide: Vec<isize>,
    narrow: Vec<isize>,
}

impl Near {
    fn new(layout: &Layout, tall: usize) -> Self {
        let deep = if layout.is_2d() { 0..=0 } else { -1..=1isize };
        let mut near = Self { wide: Vec::new(), narrow: Vec::new() };
        for z in deep {
            for y in -1..=1isize {
                // Neighbours differ along so many axes at most, of which this row takes some.
                let taken = y.unsigned_abs() + z.unsigned_abs();
                let list = match taken.cmp(&layout.axes()) {
                    std::cmp::Ordering::Less => &mut near.wide,
                    std::cmp::Ordering::Equal => &mut near.narrow,
                    std::cmp::Ordering::Greater => continue,
                };
                list.push(z * tall as isize + y);
            }
        }
        near
    }
}

/// The union of some rows of a list, at distances from one of them.
#[inline(always)]
fn union(rows: &[u64], stride: usize, row: usize, at: &[isize], out: &mut [u64]) {
    let of = |by: isize| &rows[row.wrapping_add_signed(by) * stride..][..stride];
    match *at {
        [] => out.fill(0),
        [a] => out.copy_from_slice(of(a)),
        [a, b, ref rest @ ..] => {
            for ((out, a), b) in out.iter_mut().zip(of(a)).zip(of(b)) {
                *out = a | b;
            }
            for &by in rest {
                for (out, a) in out.iter_mut().zip(of(by)) {
                    *out |= a;
                }
            }
        }
    }
}

/// A word with what is beside its points.
#[inline(always)]
fn spread(before: u64, word: u64, after: u64) -> u64 {
    word | word << 1 | before >> 63 | word >> 1 | after << 63
}

/// Words of a row of a set, with one on each side where there is one.
#[inline(always)]
fn load(set: &[u64], row: usize, words: &Range<usize>, a_row: usize, out: &mut [u64]) {
    let (from, to) = (words.start.saturating_sub(1), (words.end + 1).min(a_row));
    out.fill(0);
    let first = from + BESIDE - words.start;
    out[first..first + to - from].copy_from_slice(&set[row * a_row..][from..to]);
}

/// How many points there are in every 8 of a word.
#[inline(always)]
fn bytes(word: u64) -> u64 {
    let word = word - (word >> 1 & 0x5555_5555_5555_5555);
    let word = (word & 0x3333_3333_3333_3333) + (word >> 2 & 0x3333_3333_3333_3333);
    word + (word >> 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// How many points there are in every 16 of a word, of those in every 8.
#[inline(always)]
fn pairs(bytes: u64) -> u64 {
    (bytes & 0x00ff_00ff_00ff_00ff) + (bytes >> 8 & 0x00ff_00ff_00ff_00ff)
}

/// A slice of a number of words, whatever they hold.
fn room(of: &mut Vec<u64>, len: usize) -> &mut [u64] {
    if of.len() < len {
        of.resize(len, 0);
    }
    &mut of[..len]
}

kernel! {
    /// Makes the next set of a region, in `next`, whose first row has the number `first`; what it counts. With `tiled` it notes what of every tile changed and is of the front.
    pub(super) fn advance<V>(
        v, field: &Field<'_>, region: &Region, scratch: &mut Scratch, tiled: bool, first: usize, next: &mut [u64],
    ) -> Slot {
        let _ = v;
        let layout = &field.layout;
        let [_, ny, nz] = layout.dims();
        let a_row = layout.row_words();
        let count = region.words.len();
        let stride = count + 2 * BESIDE;
        let beside_z = if layout.is_2d() { 0 } else { ROWS };
        let tall = region.y.len() + 2 * ROWS;
        let deep = region.z.len() + 2 * beside_z;
        let near = Near::new(layout, tall);
        let Scratch { rows, line, changed, front, fields } = scratch;
        let [set, out, set1, out1] = rows.each_mut().map(|r| room(r, stride * tall * deep));
        let [wide, narrow, wide0, narrow0, signs, old] = line.each_mut().map(|r| room(r, stride));
        // The row of the image that a row here is.
        let number = |y: usize, z: usize| {
            let (y, z) = ((region.y.start + y).checked_sub(ROWS)?, (region.z.start + z).checked_sub(beside_z)?);
            (y < ny && z < nz).then_some(y + ny * z)
        };
        for z in 0..deep {
            for y in 0..tall {
                let at = (y + tall * z) * stride;
                let (set, out) = (&mut set[at..at + stride], &mut out[at..at + stride]);
                let Some(row) = number(y, z) else {
                    set.fill(0);
                    out.fill(0);
                    continue;
                };
                load(field.set, row, &region.words, a_row, set);
                for (out, set) in out.iter_mut().zip(&*set) {
                    *out = !set;
                }
                // What is beyond the row does not exist.
                out[0] = 0;
                out[stride - 1] = 0;
                if region.words.start == 0 {
                    out[1] = 0;
                }
                if region.words.end == a_row {
                    out[stride - 2] = 0;
                    out[stride - 3] &= layout.last();
                } else if region.words.end + 1 == a_row {
                    out[stride - 2] &= layout.last();
                }
            }
        }
        let mut slot = Slot::default();
        let beside_one = beside_z / 2;
        let is_inner = |y: usize, z: usize| {
            (ROWS..tall - ROWS).contains(&y) && (beside_z..deep - beside_z).contains(&z)
        };
        let tile = layout.tile();
        let a_word = 64 / tile[0];
        if tiled {
            changed.clear();
            changed.resize(count, 0);
            for front in front.iter_mut() {
                front.clear();
                front.resize(count * a_word, 0);
            }
            for fields in fields.iter_mut() {
                fields.clear();
                fields.resize(count, 0);
            }
        }
        // Points come in.
        for z in beside_one..deep - beside_one {
            for y in 1..tall - 1 {
                let row = y + tall * z;
                let at = row * stride..(row + 1) * stride;
                let (set1, out1) = (&mut set1[at.clone()], &mut out1[at.clone()]);
                let Some(number) = number(y, z) else {
                    set1.fill(0);
                    out1.fill(0);
                    continue;
                };
                union(set, stride, row, &near.wide, wide);
                union(set, stride, row, &near.narrow, narrow);
                load(field.signs[0], number, &region.words, a_row, signs);
                let (set, out) = (&set[at.clone()], &out[at]);
                set1[0] = 0;
                out1[0] = 0;
                set1[stride - 1] = 0;
                out1[stride - 1] = 0;
                for i in 1..stride - 1 {
                    let around = spread(wide[i - 1], wide[i], wide[i + 1]) | narrow[i];
                    let inside = set[i] | (around & signs[i] & out[i]);
                    set1[i] = inside;
                    out1[i] = out[i] & !inside;
                    old[i] = around & out[i];
                }
                if is_inner(y, z) {
                    let outer = &old[BESIDE..stride - BESIDE];
                    slot.outer += outer.iter().map(|w| i64::from(w.count_ones())).sum::<i64>();
                    if tiled {
                        for (field, word) in fields[1].iter_mut().zip(outer) {
                            let counted = bytes(*word);
                            *field += if a_word == 4 { pairs(counted) } else { counted };
                        }
                    }
                }
            }
            if tiled && !layout.is_2d() {
                gathered(&mut fields[1], &mut front[1], a_word);
            }
        }
        // Points go out.
        for z in beside_z..deep - beside_z {
            for y in ROWS..tall - ROWS {
                let row = y + tall * z;
                let at = row * stride..(row + 1) * stride;
                let Some(number) = number(y, z) else { continue };
                union(out1, stride, row, &near.wide, wide);
                union(out1, stride, row, &near.narrow, narrow);
                union(out, stride, row, &near.wide, wide0);
                union(out, stride, row, &near.narrow, narrow0);
                let (set, set1) = (&set[at.clone()], &set1[at]);
                let from = number * a_row + region.words.start;
                let signs = &field.signs[1][from..from + count];
                let next = &mut next[from - first * a_row..][..count];
                let (mut inner, mut inwards, mut outwards, mut different) = (0u64, 0u64, 0u64, 0u64);
                let mut any = 0;
                for (i, (next, sign)) in next.iter_mut().zip(signs).enumerate() {
                    let k = i + BESIDE;
                    let around = spread(wide[k - 1], wide[k], wide[k + 1]) | narrow[k];
                    let inside = set1[k] & !(set[k] & around & sign);
                    let before = spread(wide0[k - 1], wide0[k], wide0[k + 1]) | narrow0[k];
                    let of_front = set[k] & before;
                    any |= inside ^ set[k];
                    inner += u64::from(of_front.count_ones());
                    inwards += u64::from((inside & !set[k]).count_ones());
                    outwards += u64::from((set[k] & !inside).count_ones());
                    different += u64::from((inside ^ *next).count_ones());
                    old[k] = of_front;
                    *next = inside;
                }
                slot.inner += inner as i64;
                slot.inwards += inwards as i64;
                slot.outwards += outwards as i64;
                slot.different += different as i64;
                if tiled {
                    for (i, word) in old[BESIDE..stride - BESIDE].iter().enumerate() {
                        let counted = bytes(*word);
                        fields[0][i] += if a_word == 4 { pairs(counted) } else { counted };
                        changed[i] |= next[i] ^ set[i + BESIDE];
                    }
                }
                if any != 0 && let Some((values, units)) = &field.measured {
                    let values = &values[number * layout.dims()[0]..][..layout.dims()[0]];
                    let before = &set[BESIDE..];
                    for (i, (next, set)) in next.iter().zip(before).enumerate() {
                        let x = 64 * (region.words.start + i);
                        let moved = change(values, units, x, next & !set, set & !next);
                        slot.sum = slot.sum.wrapping_add(moved[0]);
                        slot.squares = slot.squares.wrapping_add(moved[1]);
                    }
                }
            }
            if tiled && !layout.is_2d() {
                gathered(&mut fields[0], &mut front[0], a_word);
            }
        }
        if tiled && layout.is_2d() {
            for side in 0..2 {
                gathered(&mut fields[side], &mut front[side], a_word);
            }
        }
        slot
    }
}

/// Adds fields of words to the counts of tiles, and clears them.
fn gathered(fields: &mut [u64], counts: &mut [u32], a_word: usize) {
    let bits = 64 / a_word;
    for (field, counts) in fields.iter_mut().zip(counts.chunks_exact_mut(a_word)) {
        if *field != 0 {
            for (k, count) in counts.iter_mut().enumerate() {
                *count += (*field >> (bits * k)) as u32 & ((1u32 << bits) - 1);
            }
            *field = 0;
        }
    }
}

/// What the values of points, from an x on, that come in and go out add to the sums.
fn change(values: &[f32], units: &Units, x: usize, inwards: u64, outwards: u64) -> [i64; 2] {
    let mut sums = [0i64; 2];
    for (mut points, sign) in [(inwards, 1), (outwards, -1)] {
        while points != 0 {
            let place = x + points.trailing_zeros() as usize;
            // Bits beyond a row are no points.
            let value = values.get(place).map_or([0; 2], |v| units.of(*v));
            for (sum, v) in sums.iter_mut().zip(value) {
                *sum = sum.wrapping_add(sign * v);
            }
            points &= points - 1;
        }
    }
    sums
}
