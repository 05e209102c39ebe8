//! Filtering all lines of a volume along an axis.
//!
//! Lines are filtered sixteen at a time: sample `i` of all sixteen is one [`Lanes`], so that a
//! recursion along the line is vector arithmetic across lines, for every axis alike. Lines along
//! x are sixteen rows, transposed; lines along y and z are runs of x, copied in panels so that
//! memory is read and written in long pieces.

use super::panels::{self, Panel};
use super::simd::{LANES, Lanes, kernel};
use super::{Cpu, Simd};
use crate::Dims;

/// Columns of a panel, in groups of [`LANES`].
const PANEL: usize = 4;

/// A filter of lines.
pub(crate) trait LineFilter: Sync {
    /// Filters the sixteen lines in place. `scratch` holds anything, and is grown as needed.
    fn run(&self, simd: Simd, lines: &mut [Lanes], scratch: &mut Vec<Lanes>);
}

/// Filters `src`, or else `out` in place, along x, y and z, by those filters that are there. Both
/// have one image or more of the sizes `dims`, one after the other. Without filters this is a copy.
pub(crate) fn filter_axes<F: LineFilter>(
    cpu: &Cpu,
    src: Option<&[f32]>,
    dims: Dims,
    filters: [Option<F>; 3],
    out: &mut [f32],
) {
    let [fx, fy, fz] = &filters;
    let [nx, ny, nz] = dims;
    let slice = nx * ny;
    let slices = out.len() / slice;
    // Whole slices are tasks where there are enough: x and y are then filtered while the slice
    // is in the cache. How the work is split does not change the result.
    if (fx.is_some() || fy.is_some()) && slices >= 2 * cpu.threads() {
        cpu.chunks_mut(out, slice, |z, out| {
            let mut work = Work::default();
            let src = src.map(|s| &s[z * slice..][..slice]);
            match (fx, src) {
                (Some(f), _) => filter_rows(cpu.simd(), src, nx, f, out, &mut work),
                (None, Some(src)) => out.copy_from_slice(src),
                (None, None) => {}
            }
            if let Some(f) = fy {
                panels::each(out, [nx, ny, PANEL * LANES], |panel| {
                    filter_panel(cpu.simd(), ny, f, &mut work, panel);
                });
            }
        });
    } else {
        match (fx, src) {
            (Some(f), _) => {
                let rows = (ny * slices).div_ceil(4 * cpu.threads()).next_multiple_of(LANES);
                cpu.chunks_mut(out, rows * nx, |i, out| {
                    let src = src.map(|s| &s[i * rows * nx..][..out.len()]);
                    filter_rows(cpu.simd(), src, nx, f, out, &mut Work::default());
                });
            }
            (None, Some(src)) => cpu.copy_slice(src, out),
            (None, None) => {}
        }
        if let Some(f) = fy {
            for slice in out.chunks_mut(slice) {
                filter_columns(cpu, nx, ny, f, slice);
            }
        }
    }
    if let Some(f) = fz {
        for image in out.chunks_mut(slice * nz) {
            filter_columns(cpu, slice, nz, f, image);
        }
    }
}

/// Memory that a thread works in.
#[derive(Default)]
struct Work {
    lines: Vec<Lanes>,
    scratch: Vec<Lanes>,
}

/// Filters rows of `nx` samples; from `src`, or else in place.
fn filter_rows<F: LineFilter>(
    simd: Simd,
    src: Option<&[f32]>,
    nx: usize,
    filter: &F,
    out: &mut [f32],
    work: &mut Work,
) {
    work.lines.resize(nx, [0.0; LANES]);
    for (i, rows) in out.chunks_mut(LANES * nx).enumerate() {
        let from = src.map_or(&*rows, |s| &s[i * LANES * nx..][..rows.len()]);
        load_rows(simd, from, nx, &mut work.lines);
        filter.run(simd, &mut work.lines, &mut work.scratch);
        store_rows(simd, &work.lines, nx, rows);
    }
}

kernel! {
    /// Transposes up to sixteen rows into lines; the lanes beyond the rows keep what they had.
    fn load_rows<V>(v, rows: &[f32], nx: usize, lines: &mut [Lanes]) {
        let mut done = 0;
        if rows.len() == LANES * nx {
            let (blocks, _) = lines.as_chunks_mut::<LANES>();
            for (block, lines) in blocks.iter_mut().enumerate() {
                let mut square = [v.splat(0.0); LANES];
                for (lane, row) in square.iter_mut().zip(rows.chunks_exact(nx)) {
                    *lane = v.load(&row.as_chunks().0[block]);
                }
                let square = v.transpose(square);
                for (line, value) in lines.iter_mut().zip(square) {
                    v.store(value, line);
                }
            }
            done = blocks.len() * LANES;
        }
        for (lane, row) in rows.chunks_exact(nx).enumerate() {
            for (line, &value) in lines[done..].iter_mut().zip(&row[done..]) {
                line[lane] = value;
            }
        }
    }
}

kernel! {
    /// Transposes lines back into up to sixteen rows.
    fn store_rows<V>(v, lines: &[Lanes], nx: usize, rows: &mut [f32]) {
        let mut done = 0;
        if rows.len() == LANES * nx {
            let (blocks, _) = lines.as_chunks::<LANES>();
            for (block, lines) in blocks.iter().enumerate() {
                let mut square = [v.splat(0.0); LANES];
                for (value, line) in square.iter_mut().zip(lines) {
                    *value = v.load(line);
                }
                let square = v.transpose(square);
                for (value, row) in square.into_iter().zip(rows.chunks_exact_mut(nx)) {
                    v.store(value, &mut row.as_chunks_mut().0[block]);
                }
            }
            done = blocks.len() * LANES;
        }
        for (lane, row) in rows.chunks_exact_mut(nx).enumerate() {
            for (value, line) in row[done..].iter_mut().zip(&lines[done..]) {
                *value = line[lane];
            }
        }
    }
}

/// Filters the columns of `n` rows of `width` samples, on all threads.
fn filter_columns<F: LineFilter>(cpu: &Cpu, width: usize, n: usize, filter: &F, data: &mut [f32]) {
    let simd = cpu.simd();
    let shape = [width, n, PANEL * LANES];
    panels::for_each(cpu, data, shape, Work::default, |work, panel| {
        filter_panel(simd, n, filter, work, panel);
    });
}

/// Filters the columns of a panel of `n` rows.
fn filter_panel<F: LineFilter>(
    simd: Simd,
    n: usize,
    filter: &F,
    work: &mut Work,
    mut panel: Panel<'_, f32>,
) {
    work.lines.resize(PANEL * n, [0.0; LANES]);
    for i in 0..n {
        for (group, values) in panel.row(i).chunks(LANES).enumerate() {
            let lanes = &mut work.lines[group * n + i];
            match values.try_into() {
                Ok(all) => *lanes = all,
                Err(_) => lanes[..values.len()].copy_from_slice(values),
            }
        }
    }
    for lines in work.lines.chunks_mut(n).take(panel.columns().div_ceil(LANES)) {
        filter.run(simd, lines, &mut work.scratch);
    }
    for i in 0..n {
        for (group, values) in panel.row(i).chunks_mut(LANES).enumerate() {
            let lanes = &work.lines[group * n + i];
            values.copy_from_slice(&lanes[..values.len()]);
        }
    }
}
