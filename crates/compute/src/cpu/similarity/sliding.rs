//! Sums over windows that slide along an axis, with a few additions per row and no subtractions, so that
//! rounding errors stay those of the window itself. The order of summation depends only on the position of the
//! window on its axis, not on where the sliding started.
//!
//! What is summed are rows of some planes (of images, say), of which only some groups may be other than zero: those
//! that are [`Lit`], the same in all planes. The others are zero wherever they are kept, and left out.

use crate::cpu::lit::{self, Lit};
use crate::cpu::simd::{LANES, Lanes, Vectors};

/// Windows of at most this many rows are added row by row. Wider ones are split where a block as long as the window
/// begins: the sums from a row to the end of its block, and from the start of a block to a row, are available.
const MOST_DIRECT: usize = 9;

/// Zeros in memory that begin at a cache line.
pub(super) struct Room {
    data: Vec<f32>,
    first: usize,
    groups: usize,
}

impl Room {
    pub(super) fn new(groups: usize) -> Self {
        let data = vec![0f32; (groups + 1) * LANES];
        let first = data.as_ptr().align_offset(64).min(LANES);
        Self { data, first, groups }
    }

    #[inline(always)]
    pub(super) fn numbers(&mut self) -> &mut [f32] {
        &mut self.data[self.first..][..self.groups * LANES]
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[Lanes] {
        self.data[self.first..][..self.groups * LANES].as_chunks().0
    }

    #[inline(always)]
    pub(super) fn all_mut(&mut self) -> &mut [Lanes] {
        self.numbers().as_chunks_mut().0
    }
}

/// The sum of `K` rows, from the first to the last.
#[inline(always)]
fn sum_of<V: Vectors, const K: usize>(v: V, rows: &[&[Lanes]], out: &mut [Lanes]) {
    let mut of = [&rows[0][..out.len()]; K];
    for k in 1..K {
        of[k] = &rows[k][..out.len()];
    }
    for (i, out) in out.iter_mut().enumerate() {
        let mut sum = v.load(&of[0][i]);
        for row in &of[1..] {
            sum = v.add(sum, v.load(&row[i]));
        }
        v.store(sum, out);
    }
}

/// The sum of at most [`MOST_DIRECT`] rows, from the first to the last.
#[inline(always)]
fn sum_rows<V: Vectors>(v: V, rows: &[&[Lanes]], out: &mut [Lanes]) {
    match rows.len() {
        1 => sum_of::<V, 1>(v, rows, out),
        2 => sum_of::<V, 2>(v, rows, out),
        3 => sum_of::<V, 3>(v, rows, out),
        4 => sum_of::<V, 4>(v, rows, out),
        5 => sum_of::<V, 5>(v, rows, out),
        6 => sum_of::<V, 6>(v, rows, out),
        7 => sum_of::<V, 7>(v, rows, out),
        8 => sum_of::<V, 8>(v, rows, out),
        _ => sum_of::<V, 9>(v, rows, out),
    }
}

/// `rows[to] += rows[from]`, of `n` groups.
#[inline(always)]
fn add_within<V: Vectors>(v: V, rows: &mut [Lanes], to: usize, from: usize, n: usize) {
    for i in 0..n {
        let sum = v.add(v.load(&rows[to + i]), v.load(&rows[from + i]));
        v.store(sum, &mut rows[to + i]);
    }
}

/// The groups of each plane of a row that are lit.
#[inline(always)]
fn parts(lit: Lit, planes: usize, groups: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let used = if lit.0 < lit.1 { planes } else { 0 };
    (0..used).map(move |plane| plane * groups + lit.0..plane * groups + lit.1)
}

/// Makes a row that is zero but where it was lit ready for what is lit next.
fn darken(row: &mut [Lanes], planes: usize, was: Lit, next: Lit) {
    if was == next {
        return;
    }
    let groups = row.len() / planes;
    for part in parts(was, planes, groups) {
        row[part].fill([0.0; LANES]);
    }
}

/// The last positions along an axis, as many as a window has; a position has some rows.
pub(super) struct Slide {
    /// Places of the axis.
    length: usize,
    radius: usize,
    /// The first place that is given.
    first: usize,
    /// Rows of a place, planes of a row, and groups of sixteen numbers of all planes.
    rows: usize,
    planes: usize,
    groups: usize,
    ring: Room,
    /// The lit groups of each row of the ring; not used for wide windows.
    lit: Vec<Lit>,
    /// For wide windows the sums from the begin of the block to the last place. All groups count then.
    before: Option<Room>,
}

impl Slide {
    /// For windows of `radius` along an axis of `length` positions, of which those from `first` on are given. A row
    /// has this many planes, each of this many groups.
    pub(super) fn new(
        length: usize,
        radius: usize,
        first: usize,
        rows: usize,
        (planes, groups): (usize, usize),
    ) -> Self {
        let width = (2 * radius + 1).min(length);
        let groups = planes * groups;
        Self {
            length,
            radius,
            first,
            rows,
            planes,
            groups,
            ring: Room::new(width * rows * groups),
            lit: vec![lit::NOTHING; width * rows],
            before: is_wide(radius, length).then(|| Room::new(rows * groups)),
        }
    }

    /// Bytes of a row at all places of a window.
    pub(super) fn bytes(length: usize, radius: usize, groups: usize) -> usize {
        (2 * radius + 1).min(length) * groups * size_of::<Lanes>()
    }

    /// The last position of the window about a position: its sum is available once this one has been given.
    pub(super) fn last(&self, centre: usize) -> usize {
        (centre + self.radius).min(self.length - 1)
    }

    #[inline(always)]
    fn number(&self, at: usize, row: usize) -> usize {
        at % (2 * self.radius + 1) * self.rows + row
    }

    /// Where row `row` of place `at` belongs, in which `lit` is to be written; all else in it is zero.
    #[inline(always)]
    pub(super) fn slot(&mut self, at: usize, row: usize, lit: Lit) -> &mut [Lanes] {
        let (number, groups) = (self.number(at, row), self.groups);
        let slot = &mut self.ring.all_mut()[number * groups..(number + 1) * groups];
        // Wide windows leave sums in their slots.
        if self.before.is_some() {
            if lit != (0, groups / self.planes) {
                slot.fill([0.0; LANES]);
            }
        } else {
            darken(slot, self.planes, std::mem::replace(&mut self.lit[number], lit), lit);
        }
        slot
    }

    /// Says that row `row` of place `at` is in its slot. Places are given in their order.
    #[inline(always)]
    pub(super) fn given<V: Vectors>(&mut self, v: V, at: usize, row: usize) {
        let width = 2 * self.radius + 1;
        let groups = self.groups;
        let here = self.number(at, row) * groups;
        let begin = (at - at % width).max(self.first);
        let step = self.rows * groups;
        let Some(before) = &mut self.before else { return };
        let sums = &mut before.all_mut()[row * groups..(row + 1) * groups];
        let new = &self.ring.all()[here..here + groups];
        if at == begin {
            sums.copy_from_slice(new);
        } else {
            for (sum, new) in sums.iter_mut().zip(new) {
                v.store(v.add(v.load(sum), v.load(new)), sum);
            }
        }
        // At the end of a block the sums from each of its rows to the end take their places.
        if at % width == width - 1 || at == self.length - 1 {
            let ring = self.ring.all_mut();
            let mut to = here;
            for _ in begin..at {
                to -= step;
                add_within(v, ring, to, to + step, groups);
            }
        }
    }

    /// The lit groups of row `row` in the window about `centre`.
    #[inline(always)]
    pub(super) fn lit(&self, centre: usize, row: usize) -> Lit {
        if self.before.is_some() {
            return (0, self.groups / self.planes);
        }
        let window = centre.saturating_sub(self.radius)..=self.last(centre);
        window.map(|at| self.lit[self.number(at, row)]).fold(lit::NOTHING, lit::joined)
    }

    /// The sum of row `row` over the window about `centre`, where that is [lit](Self::lit). The last place of
    /// the window is the last that has been given.
    #[inline(always)]
    pub(super) fn sum<V: Vectors>(&self, v: V, centre: usize, row: usize, out: &mut [Lanes]) {
        let (low, high) = (centre.saturating_sub(self.radius), self.last(centre));
        let (ring, groups) = (self.ring.all(), self.groups);
        let at = |place: usize| &ring[self.number(place, row) * groups..][..groups];
        let Some(before) = &self.before else {
            for part in parts(self.lit(centre, row), self.planes, groups / self.planes) {
                let mut rows = [&ring[..0]; MOST_DIRECT];
                for (place, of) in (low..=high).zip(&mut rows) {
                    *of = &at(place)[part.clone()];
                }
                sum_rows(v, &rows[..=high - low], &mut out[part]);
            }
            return;
        };
        let width = 2 * self.radius + 1;
        let before = &before.all()[row * groups..(row + 1) * groups];
        if low / width < high / width {
            sum_rows(v, &[at(low), before], out);
        } else if low % width == 0 {
            sum_rows(v, &[before], out);
        } else {
            sum_rows(v, &[at(low)], out);
        }
    }
}

fn is_wide(radius: usize, length: usize) -> bool {
    (2 * radius + 1).min(length) > MOST_DIRECT
}

/// Rows with room for windows along them: zeros come before, between and after the rows.
pub(super) struct Line {
    radius: usize,
    planes: usize,
    /// Groups of zeros before the first row.
    lead: usize,
    groups: usize,
    room: Room,
    lit: Lit,
}

impl Line {
    /// For planes of this many groups, each followed by at least `radius` zeros.
    pub(super) fn new(radius: usize, (planes, groups): (usize, usize)) -> Self {
        let (lead, groups) = (radius.div_ceil(LANES), planes * groups);
        let room = Room::new(groups + 2 * lead + 1);
        Self { radius, planes, lead, groups, room, lit: lit::NOTHING }
    }

    /// The rows, in which `lit` is to be written; all else is zero.
    #[inline(always)]
    pub(super) fn rows(&mut self, lit: Lit) -> &mut [Lanes] {
        let wide = self.is_wide();
        let rows = &mut self.room.all_mut()[self.lead..][..self.groups];
        if wide {
            // They are lost by each sum.
            rows.fill([0.0; LANES]);
        } else {
            darken(rows, self.planes, std::mem::replace(&mut self.lit, lit), lit);
        }
        rows
    }

    fn is_wide(&self) -> bool {
        2 * self.radius + 1 > MOST_DIRECT
    }

    /// The lit groups of the [sums](Self::sum), in rows whose lit groups are `lit`.
    #[inline(always)]
    pub(super) fn lit(&self, lit: Lit) -> Lit {
        let groups = self.groups / self.planes;
        match lit.0 < lit.1 {
            _ if self.is_wide() => (0, groups),
            true => (lit.0.saturating_sub(self.lead), groups.min(lit.1 + self.lead)),
            false => lit,
        }
    }

    /// The sums over the windows about each number, where these are `lit`. The rows are lost.
    #[inline(always)]
    pub(super) fn sum<V: Vectors>(&mut self, v: V, lit: Lit, out: &mut [Lanes]) {
        let width = 2 * self.radius + 1;
        let first = self.lead * LANES - self.radius;
        let numbers = self.room.numbers();
        if width <= MOST_DIRECT {
            for part in parts(lit, self.planes, self.groups / self.planes) {
                let mut rows = [&numbers.as_chunks().0[..0]; MOST_DIRECT];
                for (d, row) in rows.iter_mut().enumerate().take(width) {
                    *row = numbers[first + d + part.start * LANES..].as_chunks().0;
                }
                sum_rows(v, &rows[..width], &mut out[part]);
            }
            return;
        }
        // Sums of 1, 2, 4, ... numbers in turn, of which the window takes those of its binary digits.
        let (all, before) = (numbers.len(), self.lead * LANES);
        numbers[..before].fill(0.0);
        numbers[all - before - LANES..].fill(0.0);
        let (mut step, mut place, mut added) = (1, first, false);
        loop {
            if width & step != 0 {
                let of = numbers[place..].as_chunks().0;
                if added {
                    for (out, of) in out.iter_mut().zip(of) {
                        v.store(v.add(v.load(out), v.load(of)), out);
                    }
                } else {
                    out.copy_from_slice(&of[..out.len()]);
                }
                (place, added) = (place + step, true);
            }
            if 2 * step > width {
                return;
            }
            for at in (0..=all - LANES - step).step_by(LANES) {
                let Some(with) = numbers[at + step..].first_chunk() else { return };
                let with = v.load(with);
                let Some(sum) = numbers[at..].first_chunk_mut() else { return };
                v.store(v.add(v.load(sum), with), sum);
            }
            step *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Portable;

    #[test]
    fn sums_are_those_of_the_windows_wherever_the_sliding_begins() {
        let value = |i: usize| if i % 3 == 1 { 0.0 } else { ((i * i * 7 + 3 * i) % 23) as f32 };
        for length in [1usize, 2, 5, 9, 10, 23, 64, 100] {
            for radius in [0usize, 1, 2, 4, 5, 7, 20, 30].map(|r| r.min(length - 1)) {
                for first in [0, length / 3] {
                    let mut slide = Slide::new(length, radius, first, 1, (1, 1));
                    let mut centre = if first == 0 { 0 } else { first + radius };
                    for at in first..length {
                        // Every third place is dark.
                        let lit = if value(at) != 0.0 { (0, 1) } else { lit::NOTHING };
                        let slot = slide.slot(at, 0, lit);
                        if lit.0 < lit.1 {
                            slot[0] = [value(at); LANES];
                        }
                        slide.given(Portable, at, 0);
                        while centre < length && slide.last(centre) <= at {
                            let mut out = [[0.0; LANES]];
                            slide.sum(Portable, centre, 0, &mut out);
                            let window = centre.saturating_sub(radius)..=slide.last(centre);
                            let expected: f32 = window.map(value).sum();
                            assert_eq!(out[0][3], expected, "{length} {radius} {first} {centre}");
                            centre += 1;
                        }
                    }
                    assert!(centre >= length);
                }
                let groups = (length + radius).div_ceil(LANES);
                let mut line = Line::new(radius, (2, groups));
                for _ in 0..2 {
                    let rows = line.rows((0, groups)).as_flattened_mut();
                    rows.fill(0.0);
                    for i in 0..length {
                        rows[i] = value(i);
                        rows[groups * LANES + i] = value(i + 5);
                    }
                    let mut out = vec![[0.0; LANES]; 2 * groups];
                    line.sum(Portable, line.lit((0, groups)), &mut out);
                    let out = out.as_flattened();
                    for i in 0..length {
                        let window = i.saturating_sub(radius)..=(i + radius).min(length - 1);
                        let expected: f32 = window.clone().map(value).sum();
                        assert_eq!(out[i], expected, "{length} {radius} {i}");
                        let expected: f32 = window.map(|i| value(i + 5)).sum();
                        assert_eq!(out[groups * LANES + i], expected);
                    }
                }
            }
        }
    }
}
