//! Matrices stored row by row, split among threads into disjoint panels of a few adjacent columns, so that
//! memory is accessed in long runs.

use std::marker::PhantomData;

use super::Cpu;

/// Slices of rows of `width` elements, cut into panels of `columns` columns.
struct Panels<'a, T> {
    start: *mut T,
    width: usize,
    rows: usize,
    columns: usize,
    count: usize,
    data: PhantomData<&'a mut [T]>,
}

// SAFETY: the pointer stands for an exclusive slice, which may be sent and shared; panels are disjoint.
unsafe impl<T: Send> Send for Panels<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Panels<'_, T> {}

/// Some columns of a slice.
pub(super) struct Panel<'p, T> {
    /// The first of the columns in the first row, and their number.
    start: *mut T,
    used: usize,
    width: usize,
    rows: usize,
    data: PhantomData<&'p mut [T]>,
}

impl<T> Panel<'_, T> {
    /// Its columns: the number asked for, or fewer at the end of the rows.
    pub(super) fn columns(&self) -> usize {
        self.used
    }

    /// Its elements in row `i`.
    pub(super) fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row {i} of {}", self.rows);
        // SAFETY: row i < rows and its columns are inside the data, nobody else has this panel, and the slice lives
        // as long as it is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(i * self.width), self.used) }
    }
}

/// Hands every panel of `columns` columns to `f`, one after the other. `data` has slices of `rows` rows of `width`
/// elements.
pub(super) fn each<T>(
    data: &mut [T],
    [width, rows, columns]: [usize; 3],
    mut f: impl FnMut(Panel<'_, T>),
) {
    let all = Panels::new(data, [width, rows, columns]);
    for number in 0..all.count {
        f(all.panel(number));
    }
}

/// Hands every panel of `columns` columns to `f`, on all threads, with memory to work in that `work` makes. `data`
/// has slices of `rows` rows of `width` elements.
pub(super) fn for_each<T: Send, W>(
    cpu: &Cpu,
    data: &mut [T],
    [width, rows, columns]: [usize; 3],
    work: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, Panel<'_, T>) + Sync,
) {
    let all = Panels::new(data, [width, rows, columns]);
    // A few panels a task, so that the memory they work in is not made anew for each.
    let per_task = all.count.div_ceil(8 * cpu.threads()).max(1);
    cpu.tasks(all.count.div_ceil(per_task), |task| {
        let mut work = work();
        for number in (task * per_task..all.count).take(per_task) {
            f(&mut work, all.panel(number));
        }
    });
}

impl<'a, T> Panels<'a, T> {
    fn new(data: &'a mut [T], [width, rows, columns]: [usize; 3]) -> Self {
        let slice = width * rows;
        assert!(columns > 0 && slice > 0 && data.len().is_multiple_of(slice), "panels");
        let count = data.len() / slice * width.div_ceil(columns);
        Self { start: data.as_mut_ptr(), width, rows, columns, count, data: PhantomData }
    }

    /// One of the `count` panels, each of which is taken once.
    fn panel(&self, number: usize) -> Panel<'_, T> {
        assert!(number < self.count, "panel {number} of {}", self.count);
        let each = self.width.div_ceil(self.columns);
        let (slice, first) = (number / each, number % each * self.columns);
        Panel {
            // SAFETY: the slice is one of those that there are, and the column one of its first row.
            start: unsafe { self.start.add(slice * self.rows * self.width + first) },
            used: self.columns.min(self.width - first),
            width: self.width,
            rows: self.rows,
            data: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_panel() {
        for threads in [1, 3] {
            let cpu = Cpu::new(Some(threads)).unwrap();
            for (width, rows, slices, columns) in
                [(1, 1, 1, 4), (9, 5, 3, 4), (8, 2, 7, 8), (3, 4, 0, 2)]
            {
                let mut data = vec![0_u32; width * rows * slices];
                for_each(
                    &cpu,
                    &mut data,
                    [width, rows, columns],
                    || 0,
                    |seen, mut panel| {
                        *seen += panel.columns();
                        for i in 0..rows {
                            panel.row(i).iter_mut().for_each(|v| *v += 1 + i as u32);
                        }
                    },
                );
                let right = |(at, v): (usize, &u32)| *v == 1 + (at / width % rows) as u32;
                assert!(data.iter().enumerate().all(right), "{data:?}");
            }
        }
    }
}
