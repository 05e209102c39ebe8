//! Which pixels of a row are samples in which block: intervals, found by division.

use std::ops::Range;

use super::lanes::Source;
use crate::ops::joint::{Block, FixedPointMap, JointRule};

/// The pixels of a row, from the first on, whose exact coordinates `start + k step` are within limits along every axis: one interval, as coordinates
/// are linear.
pub(super) fn within(
    start: [i64; 3],
    step: [i64; 3],
    len: usize,
    limits: &[[i64; 2]; 3],
) -> Range<usize> {
    let (mut first, mut end) = (0i64, len as i64);
    for a in 0..3 {
        let [low, high] = [limits[a][0] - start[a], limits[a][1] - start[a]];
        let m = step[a];
        match m {
            // `low <= m k < high`
            1.. => {
                first = first.max(ceil(low, m));
                end = end.min(ceil(high, m));
            }
            0 if low <= 0 && 0 < high => {}
            0 => return 0..0,
            _ => {
                first = first.max((-high).div_euclid(-m) + 1);
                end = end.min((-low).div_euclid(-m) + 1);
            }
        }
    }
    if first < end { first as usize..end as usize } else { 0..0 }
}

/// `⌈a / b⌉` for `b` above 0.
fn ceil(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}

/// A row of fixed pixels.
pub(super) struct Row {
    pub(super) start: [i64; 3],
    pub(super) step: [i64; 3],
}

impl Row {
    pub(super) fn new(map: &FixedPointMap, pixel: [usize; 3]) -> Self {
        Self {
            start: [0, 1, 2].map(|r| map.rounded_up(pixel, r)),
            step: [0, 1, 2].map(|r| map.matrix[r][0]),
        }
    }

    /// The exact coordinates of a pixel of it.
    pub(super) fn at(&self, k: usize) -> [i64; 3] {
        [0, 1, 2].map(|a| self.start[a] + self.step[a] * k as i64)
    }
}

/// The pieces of a row that are in no block yet.
#[derive(Default)]
pub(super) struct Left(Vec<Range<usize>>);

impl Left {
    pub(super) fn begin(&mut self, len: usize) {
        self.0.clear();
        self.0.push(0..len);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an interval away, and tells what of it was left.
    pub(super) fn take(&mut self, interval: &Range<usize>, mut taken: impl FnMut(Range<usize>)) {
        if interval.is_empty() {
            return;
        }
        let pieces = self.0.len();
        for i in (0..pieces).rev() {
            let piece = self.0[i].clone();
            let common = piece.start.max(interval.start)..piece.end.min(interval.end);
            if common.is_empty() {
                continue;
            }
            self.0.swap_remove(i);
            let around = [piece.start..common.start, common.end..piece.end];
            self.0.extend(around.into_iter().filter(|r| !r.is_empty()));
            taken(common);
        }
    }
}

/// Pixels of a row that are looked at before the next row is: in a turned image as many rows are read, whose lines of memory stay near for the next.
const STRIP: usize = 512;

/// The rows of a part of the fixed image, cut into tasks of neighbours.
pub(super) struct Rows {
    part: Block,
    pub(super) tasks: usize,
}

impl Rows {
    pub(super) fn new(part: Block, threads: usize) -> Self {
        let rows = if part.is_empty() { 0 } else { part.dims[1] * part.dims[2] };
        // Tables are made for each task: not for few pixels.
        let most = (part.len() >> 14).max(1);
        let tasks = if threads == 1 { 1 } else { 8 * threads };
        Self { part, tasks: rows.min(tasks).min(most) }
    }

    /// Calls `work` with the first pixel and the number of pixels of pieces of the rows of a task.
    pub(super) fn each(&self, task: usize, mut work: impl FnMut([usize; 3], usize)) {
        let rows = self.part.dims[1] * self.part.dims[2];
        let [x, y, z] = self.part.origin;
        for strip in (0..self.part.dims[0]).step_by(STRIP) {
            let len = STRIP.min(self.part.dims[0] - strip);
            for row in crate::comm::balance::share(rows, self.tasks, task) {
                let pixel = [x + strip, y + row % self.part.dims[1], z + row / self.part.dims[1]];
                work(pixel, len);
            }
        }
    }
}

/// The samples of a row in each source, the first that has them.
pub(super) fn of_sources<'s>(
    row: &Row,
    len: usize,
    sources: &'s [Source<'s>],
    left: &mut Left,
    mut found: impl FnMut(usize, Range<usize>),
) {
    left.begin(len);
    for (i, source) in sources.iter().enumerate() {
        let interval = within(row.start, row.step, len, &source.limits);
        left.take(&interval, |piece| found(i, piece));
        if left.is_empty() {
            break;
        }
    }
}

/// The coordinates of the samples of all cells of the moving image, as limits.
pub(super) fn everywhere(rule: &JointRule) -> [[i64; 2]; 3] {
    rule.limits(&Block::whole(crate::ops::joint::cells(rule.moving)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn intervals_are_those_of_a_loop(
            start in [-300i64..300, -300i64..300, -20i64..20],
            step in [-40i64..40, -9i64..9, -1i64..2],
            limits in [(-200i64..200, 0i64..300), (-200i64..200, 0i64..300), (-20i64..20, 0i64..40)],
            len in 0usize..60,
        ) {
            let limits = limits.map(|(low, more)| [low, low + more]);
            let inside = |k: &usize| (0..3).all(|a| {
                let c = start[a] + step[a] * *k as i64;
                limits[a][0] <= c && c < limits[a][1]
            });
            let expected: Vec<usize> = (0..len).filter(inside).collect();
            let found: Vec<usize> = within(start, step, len, &limits).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn what_is_left_is_told_once(intervals in proptest::collection::vec((0usize..40, 0usize..20), 0..8)) {
            let mut left = Left::default();
            left.begin(50);
            let mut count = [0; 50];
            for (start, len) in &intervals {
                left.take(&(*start..(*start + *len).min(50)), |piece| piece.for_each(|i| count[i] += 1));
            }
            for (i, &count) in count.iter().enumerate() {
                let covered = intervals.iter().any(|(s, l)| (*s..*s + *l).contains(&i));
                prop_assert_eq!(count, usize::from(covered));
                let is_left = left.0.iter().any(|r| r.contains(&i));
                prop_assert_eq!(is_left, !covered);
            }
        }
    }
}
