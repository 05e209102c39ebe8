//! One iteration of some rows and words of a set, 64 points at a time.

use super::rows::{About, BESIDE, Block, Near, ROWS, Region, load, room};
use super::sums::change;
use crate::cpu::simd::kernel;
use crate::ops::front::{Layout, Slot, Units};

/// What an iteration goes by.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) layout: Layout,
    pub(super) set: &'a [u64],
    /// P and N.
    pub(super) signs: [&'a [u64]; 2],
    pub(super) measured: Option<(&'a [f32], Units)>,
}

/// Rows of words in which a region is made, with those beside it.
#[derive(Default)]
pub(super) struct Scratch {
    /// The set, what is outside, and that after points have come in.
    rows: [Vec<u64>; 3],
    /// Rows by themselves: unions of rows, P, and what is looked at afterwards.
    line: [Vec<u64>; 5],
    /// For each word of the region whether points of it changed.
    pub(super) changed: Vec<u64>,
    /// For each tile of the region its points inside and outside of the front.
    pub(super) front: [Vec<u32>; 2],
    /// The same while they are counted, as fields of words.
    fields: [Vec<u64>; 2],
}

/// How many points there are in every 8 of a word.
#[inline(always)]
fn bytes(word: u64) -> u64 {
    let word = word - (word >> 1 & 0x5555_5555_5555_5555);
    let word = (word & 0x3333_3333_3333_3333) + (word >> 2 & 0x3333_3333_3333_3333);
    (word + (word >> 4)) & 0x0f0f_0f0f_0f0f_0f0f
}

/// How many points there are in every 16 of a word, of those in every 8.
#[inline(always)]
fn pairs(bytes: u64) -> u64 {
    (bytes & 0x00ff_00ff_00ff_00ff) + (bytes >> 8 & 0x00ff_00ff_00ff_00ff)
}

kernel! {
    /// Makes the next set of a region, in `next`, whose first row has the number `first`; what it counts. With `tiled` it notes what of every tile changed and is of the front.
    pub(super) fn advance<V>(
        v, field: &Field<'_>, region: &Region, scratch: &mut Scratch, tiled: bool, first: usize, next: &mut [u64],
    ) -> Slot {
        let _ = v;
        let layout = &field.layout;
        let a_row = layout.row_words();
        let block = Block::new(layout, region);
        let Block { stride, beside_z, tall, deep, .. } = block;
        let count = region.words.len();
        let near = Near::new(layout, tall);
        let Scratch { rows, line, changed, front, fields } = scratch;
        let [set, out, out1] = rows.each_mut().map(|r| room(r, stride * tall * deep));
        let [wide, narrow, wide1, narrow1, signs] = line.each_mut().map(|r| room(r, stride));
        block.load(field.set, set, out);
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
                let out1 = &mut out1[at.clone()];
                let Some(number) = block.row(y, z) else {
                    out1.fill(0);
                    continue;
                };
                load(field.signs[0], number, &region.words, a_row, signs);
                let about = About::new(&near, set, stride, row, [&mut *wide, &mut *narrow]);
                let out = &out[at];
                out1[0] = 0;
                out1[stride - 1] = 0;
                if !is_inner(y, z) {
                    for i in 1..stride - 1 {
                        out1[i] = out[i] & !(about.word(i) & signs[i]);
                    }
                    continue;
                }
                let mut outer = 0;
                for i in 1..stride - 1 {
                    let of_front = about.word(i) & out[i];
                    out1[i] = out[i] & !(of_front & signs[i]);
                    signs[i] = of_front;
                    outer += u64::from(of_front.count_ones());
                }
                // The words beside the region are of others.
                outer -= u64::from(signs[1].count_ones() + signs[stride - BESIDE].count_ones());
                slot.outer += outer as i64;
                if tiled {
                    for (field, word) in fields[1].iter_mut().zip(&signs[BESIDE..stride - BESIDE]) {
                        let counted = bytes(*word);
                        *field += if a_word == 4 { pairs(counted) } else { counted };
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
                let Some(number) = block.row(y, z) else { continue };
                let before = About::new(&near, out, stride, row, [&mut *wide, &mut *narrow]);
                let after = About::new(&near, out1, stride, row, [&mut *wide1, &mut *narrow1]);
                let (set, out, out1) = (&set[at.clone()], &out[at.clone()], &out1[at]);
                let from = number * a_row + region.words.start;
                let gone = &field.signs[1][from..from + count];
                let next = &mut next[from - first * a_row..][..count];
                let differs = &mut signs[BESIDE..BESIDE + count];
                let (mut inner, mut any, mut other) = (0u64, 0u64, 0u64);
                for i in 0..count {
                    let k = i + BESIDE;
                    let was = set[k];
                    let inside = (was | (out[k] & !out1[k])) & !(was & after.word(k) & gone[i]);
                    inner += u64::from((was & before.word(k)).count_ones());
                    differs[i] = inside ^ next[i];
                    other |= differs[i];
                    any |= inside ^ was;
                    next[i] = inside;
                }
                slot.inner += inner as i64;
                if other != 0 {
                    let different = differs.iter().map(|w| u64::from(w.count_ones())).sum::<u64>();
                    slot.different += different as i64;
                }
                if tiled {
                    for (i, field) in fields[0].iter_mut().enumerate() {
                        let counted = bytes(set[i + BESIDE] & before.word(i + BESIDE));
                        *field += if a_word == 4 { pairs(counted) } else { counted };
                    }
                }
                if any == 0 {
                    continue;
                }
                let set = &set[BESIDE..BESIDE + count];
                let (mut inwards, mut outwards) = (0u64, 0u64);
                for (next, set) in next.iter().zip(set) {
                    inwards += u64::from((next & !set).count_ones());
                    outwards += u64::from((set & !next).count_ones());
                }
                slot.inwards += inwards as i64;
                slot.outwards += outwards as i64;
                if tiled {
                    for ((changed, next), set) in changed.iter_mut().zip(&*next).zip(set) {
                        *changed |= next ^ set;
                    }
                }
                if let Some((values, units)) = &field.measured {
                    let values = &values[number * layout.dims()[0]..][..layout.dims()[0]];
                    for (i, (next, set)) in next.iter().zip(set).enumerate() {
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
