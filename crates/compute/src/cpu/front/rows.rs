//! Rows of words about those that are made, 64 points a word.

use std::ops::Range;

use crate::ops::front::Layout;

/// Words beside those of a row: one on each side that is looked at, and one beyond it that is 0.
pub(super) const BESIDE: usize = 2;

/// Rows beside those that change, on each side: what is there decides what the next rows are.
pub(super) const ROWS: usize = 2;

/// Rows and words of a set.
#[derive(Clone)]
pub(super) struct Region {
    pub(super) y: Range<usize>,
    pub(super) z: Range<usize>,
    pub(super) words: Range<usize>,
}

/// The rows of a region and those about it, in memory of their own.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    layout: &'a Layout,
    region: &'a Region,
    /// The words of a row.
    pub(super) stride: usize,
    /// Slices beside the region, on each side.
    pub(super) beside_z: usize,
    /// Rows along y and z.
    pub(super) tall: usize,
    pub(super) deep: usize,
}

impl<'a> Block<'a> {
    #[inline(always)]
    pub(super) fn new(layout: &'a Layout, region: &'a Region) -> Self {
        let beside_z = if layout.is_2d() { 0 } else { ROWS };
        Self {
            layout,
            region,
            stride: region.words.len() + 2 * BESIDE,
            beside_z,
            tall: region.y.len() + 2 * ROWS,
            deep: region.z.len() + 2 * beside_z,
        }
    }

    /// The row of the image that a row is; none beyond the border.
    #[inline(always)]
    pub(super) fn row(&self, y: usize, z: usize) -> Option<usize> {
        let [_, ny, nz] = self.layout.dims();
        let y = (self.region.y.start + y).checked_sub(ROWS)?;
        let z = (self.region.z.start + z).checked_sub(self.beside_z)?;
        (y < ny && z < nz).then_some(y + ny * z)
    }

    /// Rows of a set, and what of them is outside; beyond the border there is neither.
    #[inline(always)]
    pub(super) fn load(&self, from: &[u64], set: &mut [u64], out: &mut [u64]) {
        let Self { layout, region, stride, .. } = *self;
        let a_row = layout.row_words();
        for z in 0..self.deep {
            for y in 0..self.tall {
                let at = (y + self.tall * z) * stride;
                let (set, out) = (&mut set[at..at + stride], &mut out[at..at + stride]);
                let Some(row) = self.row(y, z) else {
                    set.fill(0);
                    out.fill(0);
                    continue;
                };
                load(from, row, &region.words, a_row, set);
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
    }
}

/// Which rows are neighbours: those whose points count with what is beside them along x, and those whose points count alone.
pub(super) struct Near {
    wide: Vec<isize>,
    narrow: Vec<isize>,
}

impl Near {
    pub(super) fn new(layout: &Layout, tall: usize) -> Self {
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

/// Rows about one of them at distances of a list, as the union of two: rows themselves where there are no more, or that of all in `out`.
#[inline(always)]
fn unions<'a>(
    rows: &'a [u64],
    stride: usize,
    row: usize,
    at: &[isize],
    out: &'a mut [u64],
) -> [&'a [u64]; 2] {
    let of = |by: isize| &rows[row.wrapping_add_signed(by) * stride..][..stride];
    match *at {
        [] => {
            out.fill(0);
            [out, out]
        }
        [a] => [of(a), of(a)],
        [a, b] => [of(a), of(b)],
        [a, b, ref rest @ ..] => {
            for ((out, a), b) in out.iter_mut().zip(of(a)).zip(of(b)) {
                *out = a | b;
            }
            for &by in rest {
                for (out, a) in out.iter_mut().zip(of(by)) {
                    *out |= a;
                }
            }
            [out, out]
        }
    }
}

/// The rows about one of them, as [`unions`] gives them: those that count with what is beside their points, which are one, and the others, which are two.
pub(super) struct About<'a> {
    wide: &'a [u64],
    narrow: [&'a [u64]; 2],
}

impl<'a> About<'a> {
    #[inline(always)]
    pub(super) fn new(
        near: &Near,
        rows: &'a [u64],
        stride: usize,
        row: usize,
        [wide, narrow]: [&'a mut [u64]; 2],
    ) -> Self {
        // Those of a list of two are never wide: there are one, three, five or nine.
        let [wide, _] = unions(rows, stride, row, &near.wide, wide);
        Self { wide, narrow: unions(rows, stride, row, &near.narrow, narrow) }
    }

    /// The points of a word that have a neighbour in these rows, or are in them.
    #[inline(always)]
    pub(super) fn word(&self, i: usize) -> u64 {
        let beside = spread(self.wide[i - 1], self.wide[i], self.wide[i + 1]);
        beside | self.narrow[0][i] | self.narrow[1][i]
    }
}

/// A word with what is beside its points.
#[inline(always)]
fn spread(before: u64, word: u64, after: u64) -> u64 {
    word | word << 1 | before >> 63 | word >> 1 | after << 63
}

/// Words of a row of a set, with one on each side where there is one.
#[inline(always)]
pub(super) fn load(set: &[u64], row: usize, words: &Range<usize>, a_row: usize, out: &mut [u64]) {
    let (from, to) = (words.start.saturating_sub(1), (words.end + 1).min(a_row));
    let first = from + BESIDE - words.start;
    let last = first + to - from;
    out[..first].fill(0);
    out[first..last].copy_from_slice(&set[row * a_row..][from..to]);
    out[last..].fill(0);
}

/// A slice of a number of words, whatever they hold.
pub(super) fn room(of: &mut Vec<u64>, len: usize) -> &mut [u64] {
    if of.len() < len {
        of.resize(len, 0);
    }
    &mut of[..len]
}
