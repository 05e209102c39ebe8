//! Measurements of sparse matrices: one of the neighbours on a grid of a row a hundred voxels, and a small dense one.

use super::{Bench, room};
use crate::device::Device;
use crate::error::{Result, voxels};
use crate::ops::sparse::{Csr, Entries};

/// The entries of a row: about those of a node among tetrahedra.
const ENTRIES: usize = 15;

/// The rows of a dense matrix at most.
const MOST_DENSE: usize = 4803;

pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>) -> Result<()> {
    let (device, n) = (bench.device, voxels("dims", bench.dims)?);
    let rows = (n / 100).max(ENTRIES);
    let side = (rows as f64).cbrt().ceil() as usize;
    let entries = ENTRIES * rows;
    let mut columns: Vec<u32> = room(entries)?;
    for row in 0..rows {
        // The row itself, and what is near it along each axis.
        columns.extend((0..ENTRIES).map(|k| {
            let step = [1, side, side * side][k % 3] * (k / 3 + 1);
            let at = if k == 0 { row } else { row + step + rows - side * (k % 2) };
            (at % rows) as u32
        }));
    }
    let mut starts: Vec<u32> = room(rows + 1)?;
    starts.extend((0..=rows).map(|row| (ENTRIES * row) as u32));
    let (starts, columns) = (device.upload_vec(starts)?, device.upload_vec(columns)?);
    let (x, mut out) = (device.alloc::<f32>(3 * rows)?, device.alloc::<f32>(3 * rows)?);
    for kind in [Entries::Numbers, Entries::Blocks] {
        let values = device.alloc::<f32>(kind.numbers() * entries)?;
        let matrix =
            Csr { entries: kind, width: rows, rows: &starts, columns: &columns, values: &values };
        let numbers = kind.numbers();
        let bytes = 4 * (1 + numbers) * entries + 28 * rows;
        bench.measure("sparse", format!("product, {kind:?}"), bytes, || {
            device.product(&matrix, &x, &mut out)
        })?;
        let bytes = 4 * (1 + numbers) * entries + 52 * rows;
        bench.measure("sparse", format!("Chebyshev, {kind:?}"), bytes, || {
            device.chebyshev(&matrix, &x, &x, &x, [1.2, 0.4], &mut out)
        })?;
        let mut diagonal = device.alloc::<f32>(numbers * rows)?;
        bench.measure("sparse", format!("diagonal, {kind:?}"), 8 * (numbers + 1) * rows, || {
            device.inverse_diagonal(&matrix, &mut diagonal)
        })?;
        bench.measure("sparse", format!("Jacobi, {kind:?}"), (4 * numbers + 24) * rows, || {
            device.diagonal_product(kind, &diagonal, &x, &mut out)
        })?;
        let mut filled = device.alloc::<f32>(numbers * rows)?;
        let bytes = 4 * (1 + numbers) * entries + 4 * (numbers + 1) * rows;
        bench.measure("sparse", format!("refill, {kind:?}"), bytes, || {
            device.refill(kind, &values, &starts, &columns, &mut filled)
        })?;
    }
    let size = MOST_DENSE.min((n as f64).sqrt() as usize);
    let dense = device.alloc::<f32>(size * size)?;
    let (x, mut out) = (device.alloc::<f32>(size)?, device.alloc::<f32>(size)?);
    bench.measure("sparse", "dense product", 4 * size * (size + 2), || {
        device.dense_product(&dense, size, &x, &mut out)
    })
}
