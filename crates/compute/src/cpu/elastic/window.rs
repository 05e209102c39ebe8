//! The working set of a thread: copies of slices with a border.

use crate::Dims;
use crate::cpu::simd::LANES;
use crate::ops::elastic::Boundary;

/// A grid and what is beyond it.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    pub(super) dims: Dims,
    pub(super) boundary: Boundary,
}

impl Grid {
    /// The place `at − before` along an axis; none beyond a border of zeros.
    #[inline(always)]
    pub(super) fn place(&self, axis: usize, at: usize, before: usize) -> Option<usize> {
        let n = self.dims[axis];
        match self.boundary {
            Boundary::Zero => at.checked_sub(before).filter(|&i| i < n),
            Boundary::Periodic => Some((at + before * (n - 1)) % n),
        }
    }

    /// Sets the border of a row of the window.
    #[inline(always)]
    pub(super) fn close(&self, row: &mut [f32]) {
        let nx = self.dims[0];
        [row[0], row[nx + 1]] = match self.boundary {
            Boundary::Zero => [0.0; 2],
            Boundary::Periodic => [row[nx], row[1]],
        };
    }
}

/// Three slices with a border, of which the current one replaces the oldest.
pub(super) struct Window {
    pitch: usize,
    rows: usize,
    data: Vec<f32>,
}

impl Window {
    /// The distance of rows: a border at each side, and whole vectors.
    pub(super) fn pitch(nx: usize) -> usize {
        nx.next_multiple_of(LANES) + LANES
    }

    pub(super) fn new(nx: usize, rows: usize) -> Self {
        let pitch = Self::pitch(nx);
        Self { pitch, rows, data: vec![0.0; 3 * pitch * rows] }
    }

    /// A row of slice `z`, from its border on.
    #[inline(always)]
    pub(super) fn row(&self, z: usize, row: usize) -> &[f32] {
        &self.data[(z % 3 * self.rows + row) * self.pitch..][..self.pitch]
    }

    #[inline(always)]
    pub(super) fn row_mut(&mut self, z: usize, row: usize) -> &mut [f32] {
        &mut self.data[(z % 3 * self.rows + row) * self.pitch..][..self.pitch]
    }

    /// Takes slice `z` of the window from slice `from` of a field; row 0 is row `y − halo`.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        z: usize,
        grid: Grid,
        field: &[f32],
        from: Option<usize>,
        (y, halo): (usize, usize),
    ) {
        let [nx, ny, _] = grid.dims;
        for j in 0..self.rows {
            let row = self.row_mut(z, j);
            match from.zip(grid.place(1, y + j, halo)) {
                Some((z, y)) => {
                    row[1..=nx].copy_from_slice(&field[(z * ny + y) * nx..][..nx]);
                    grid.close(row);
                }
                None => row.fill(0.0),
            }
        }
    }
}

/// The rows around one: itself, before and after it along y, and along z.
#[inline(always)]
pub(super) fn around(window: &Window, z: usize, row: usize) -> [&[f32]; 5] {
    [
        window.row(z, row),
        window.row(z, row - 1),
        window.row(z, row + 1),
        window.row(z - 1, row),
        window.row(z + 1, row),
    ]
}

/// The four rows whose differences are those of component `other` across its axis and axis `own`.
#[inline(always)]
pub(super) fn across(
    window: &Window,
    own: usize,
    other: usize,
    z: usize,
    row: usize,
) -> [&[f32]; 4] {
    match own + other {
        1 => {
            let (front, back) = (window.row(z, row + 1), window.row(z, row - 1));
            [&front[2..], front, &back[2..], back]
        }
        2 => {
            let (above, below) = (window.row(z + 1, row), window.row(z - 1, row));
            [&above[2..], above, &below[2..], below]
        }
        _ => [
            &window.row(z + 1, row + 1)[1..],
            &window.row(z + 1, row - 1)[1..],
            &window.row(z - 1, row + 1)[1..],
            &window.row(z - 1, row - 1)[1..],
        ],
    }
}
