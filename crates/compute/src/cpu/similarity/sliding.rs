//! Sums over windows that slide along an axis, by a few additions a row and none subtracted, so that
//! errors stay those of the window itself. A sum is formed in an order that depends on the place of
//! the window on its axis only, not on where the sliding began.

use crate::cpu::simd::{LANES, Lanes, Vectors};

/// Windows of at most this many rows are added row by row. Wider ones are cut in two where a block of
/// as many rows as the window begins: the sum from a row to the end of its block, and that from the
/// begin of a block to a row, are at hand.
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

/// The last places along an axis, as many as a window has; a place has some rows.
pub(super) struct Slide {
    /// Places of the axis.
    length: usize,
    radius: usize,
    /// The first place that is given.
    first: usize,
    /// Rows of a place, and groups of sixteen numbers of a row.
    rows: usize,
    groups: usize,
    ring: Room,
    /// For wide windows the sums from the begin of the block to the last place.
    before: Option<Room>,
}

impl Slide {
    /// For windows of `radius` along an axis of `length` places, of which those from `first` on are
    /// given.
    pub(super) fn new(
        length: usize,
        radius: usize,
        first: usize,
        rows: usize,
        groups: usize,
    ) -> Self {
        let width = 2 * radius + 1;
        let wide = width.min(length) > MOST_DIRECT;
        Self {
            length,
            radius,
            first,
            rows,
            groups,
            ring: Room::new(width.min(length) * rows * groups),
            before: wide.then(|| Room::new(rows * groups)),
        }
    }

    /// Bytes of a row at all places of a window.
    pub(super) fn bytes(length: usize, radius: usize, groups: usize) -> usize {
        (2 * radius + 1).min(length) * groups * size_of::<Lanes>()
    }

    /// The last place of the window about a place: its sum can be had once this one has been given.
    pub(super) fn last(&self, centre: usize) -> usize {
        (centre + self.radius).min(self.length - 1)
    }

    #[inline(always)]
    fn start(&self, at: usize, row: usize) -> usize {
        (at % (2 * self.radius + 1) * self.rows + row) * self.groups
    }

    /// Where row `row` of place `at` belongs.
    #[inline(always)]
    pub(super) fn slot(&mut self, at: usize, row: usize) -> &mut [Lanes] {
        let (start, groups) = (self.start(at, row), self.groups);
        &mut self.ring.all_mut()[start..start + groups]
    }

    /// Says that row `row` of place `at` is in its slot. Places are given in their order.
    #[inline(always)]
    pub(super) fn given<V: Vectors>(&mut self, v: V, at: usize, row: usize) {
        let width = 2 * self.radius + 1;
        let here = self.start(at, row);
        let groups = self.groups;
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

    /// The sum of row `row` over the window about `centre`. The last place of the window is the last
    /// that has been given.
    #[inline(always)]
    pub(super) fn sum<V: Vectors>(&self, v: V, centre: usize, row: usize, out: &mut [Lanes]) {
        let (low, high) = (centre.saturating_sub(self.radius), self.last(centre));
        let (ring, groups) = (self.ring.all(), self.groups);
        let at = |place: usize| &ring[self.start(place, row)..][..groups];
        let Some(before) = &self.before else {
            let mut rows = [at(low); MOST_DIRECT];
            for (place, of) in (low..=high).zip(&mut rows) {
                *of = at(place);
            }
            sum_rows(v, &rows[..=high - low], out);
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

/// Rows with room for windows along them: zeros come before, between and after the rows.
pub(super) struct Line {
    radius: usize,
    /// Groups of zeros before the first row.
    lead: usize,
    groups: usize,
    room: Room,
}

impl Line {
    /// For `groups` groups, in which each row is followed by at least `radius` zeros.
    pub(super) fn new(radius: usize, groups: usize) -> Self {
        let lead = radius.div_ceil(LANES);
        Self { radius, lead, groups, room: Room::new(groups + 2 * lead + 1) }
    }

    /// The rows, to be written.
    #[inline(always)]
    pub(super) fn rows(&mut self) -> &mut [Lanes] {
        &mut self.room.all_mut()[self.lead..][..self.groups]
    }

    /// The sums over the windows about each number. The rows are lost.
    #[inline(always)]
    pub(super) fn sum<V: Vectors>(&mut self, v: V, out: &mut [Lanes]) {
        let width = 2 * self.radius + 1;
        let first = self.lead * LANES - self.radius;
        let numbers = self.room.numbers();
        if width <= MOST_DIRECT {
            let mut rows = [&numbers.as_chunks().0[..0]; MOST_DIRECT];
            for (d, row) in rows.iter_mut().enumerate().take(width) {
                *row = numbers[first + d..].as_chunks().0;
            }
            sum_rows(v, &rows[..width], out);
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
        let value = |i: usize| ((i * i * 7 + 3 * i) % 23) as f32;
        for length in [1usize, 2, 5, 9, 10, 23, 64, 100] {
            for radius in [0usize, 1, 2, 4, 5, 7, 20, 30].map(|r| r.min(length - 1)) {
                for first in [0, length / 3] {
                    let mut slide = Slide::new(length, radius, first, 1, 1);
                    let mut centre = if first == 0 { 0 } else { first + radius };
                    for at in first..length {
                        slide.slot(at, 0)[0] = [value(at); LANES];
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
                let mut line = Line::new(radius, 2 * groups);
                for _ in 0..2 {
                    let rows = line.rows().as_flattened_mut();
                    rows.fill(0.0);
                    for i in 0..length {
                        rows[i] = value(i);
                        rows[groups * LANES + i] = value(i + 5);
                    }
                    let mut out = vec![[0.0; LANES]; 2 * groups];
                    line.sum(Portable, &mut out);
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
