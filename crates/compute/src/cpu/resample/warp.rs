//! Warping of scalar images.

use super::flat::Flat;
use super::position::{BLOCK, Frame, Geometry};
use super::sample::{CUBIC, LINEAR, Linear, NEAREST, sample};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::simd::{LANES, Vectors, kernel};

/// The voxels of a task, roughly.
const TASK: usize = 1 << 14;

/// The number of whole rows of a task.
pub(in crate::cpu) fn task_rows(out_dims: Dims) -> usize {
    TASK.div_ceil(out_dims[0])
}

/// A displacement field over the output: its x, y and z components.
pub(in crate::cpu) type Field<'a> = [&'a [f32]; 3];

/// The components of a field.
pub(in crate::cpu) fn components(field: &[f32]) -> Field<'_> {
    let n = field.len() / 3;
    [&field[..n], &field[n..2 * n], &field[2 * n..]]
}

/// The rows of the output that a task makes.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Rows {
    /// The number of the first row, counted over all slices.
    pub(in crate::cpu) first: usize,
    /// The sizes of the whole output.
    pub(in crate::cpu) dims: Dims,
}

impl Rows {
    /// y and z of a row of the task.
    pub(in crate::cpu) fn at(&self, row: usize) -> (usize, usize) {
        let row = self.first + row;
        (row % self.dims[1], row / self.dims[1])
    }
}

/// Warps `src` by the map and the field, if there is one. All lengths have been checked.
#[allow(clippy::too_many_arguments)]
pub(super) fn warp(
    cpu: &Cpu,
    src: &[f32],
    geometry: &Geometry,
    field: Option<Field<'_>>,
    dims: Dims,
    kind: u8,
    outside: f32,
    out: &mut [f32],
) {
    // A cell needs two voxels along x.
    let twice;
    let src = if let [only] = src {
        twice = [*only; 2];
        &twice[..]
    } else {
        src
    };
    // Where there are enough slices, a task is some of them.
    let slices = (dims[2] / (4 * cpu.threads())).clamp(1, TILE);
    let rows = if slices > 1 { slices * dims[1] } else { task_rows(dims).min(dims[1]) };
    let simd = cpu.simd();
    let flat = match (field, kind) {
        (Some(_), LINEAR) => Flat::of(cpu, src, geometry),
        _ => None,
    };
    let flat = flat.as_ref();
    cpu.chunks_mut(out, rows * dims[0], |task, out| {
        let rows = Rows { first: task * rows, dims };
        match (field, kind) {
            (None, NEAREST) => affine::<NEAREST>(simd, src, geometry, rows, outside, out),
            (None, LINEAR) => affine::<LINEAR>(simd, src, geometry, rows, outside, out),
            (None, _) => affine::<CUBIC>(simd, src, geometry, rows, outside, out),
            (Some(f), NEAREST) => {
                by_field::<NEAREST>(simd, src, geometry, None, f, rows, outside, out);
            }
            (Some(f), LINEAR) => {
                by_field::<LINEAR>(simd, src, geometry, flat, f, rows, outside, out);
            }
            (Some(f), _) => by_field::<CUBIC>(simd, src, geometry, None, f, rows, outside, out),
        }
    });
}

/// The rows of a tile along y, and the slices of a task along z: neighbours share most of the
/// cells of the source, whichever way the map turns.
const TILE: usize = 8;

/// The voxels of a row that are made before going on to the next row of the tile.
const PIECE: usize = 4 * LANES;

/// A part of a row of the output that is inside the source.
struct Part {
    frame: Frame,
    /// Where the part is in the output of the task.
    start: usize,
    len: usize,
}

kernel! {
    fn affine<V, const KIND: u8>(
        v,
        src: &[f32],
        geometry: &Geometry,
        rows: Rows,
        outside: f32,
        out: &mut [f32],
    ) {
        let [nx, ny, _] = rows.dims;
        // Whole slices, or some rows of one slice.
        let count = out.len() / nx;
        let (height, slices) = if count > ny { (ny, count / ny) } else { (count, 1) };
        let mut lines = Vec::with_capacity(TILE * slices);
        let mut parts: Vec<Part> = Vec::with_capacity(TILE * slices);
        for first_row in (0..height).step_by(TILE) {
            lines.clear();
            for slice in 0..slices {
                for i in first_row..height.min(first_row + TILE) {
                    let i = slice * ny + i;
                    let (y, z) = rows.at(i);
                    let row = geometry.row(y, z);
                    let inside = geometry.inside(&row, nx);
                    let out = &mut out[i * nx..][..nx];
                    out[..inside.start].fill(outside);
                    out[inside.end..].fill(outside);
                    lines.push((row, i * nx, inside));
                }
            }
            for first in (0..nx).step_by(BLOCK) {
                parts.clear();
                for (row, start, inside) in &lines {
                    let x = inside.start.max(first);
                    let len = inside.end.min(first + BLOCK).saturating_sub(x);
                    if len > 0 {
                        let frame = geometry.frame_inside(row, x, len);
                        parts.push(Part { frame, start: start + x, len });
                    }
                }
                for piece in (0..BLOCK.min(nx)).step_by(PIECE) {
                    for part in &parts {
                        let len = part.len.saturating_sub(piece).min(PIECE);
                        let out = &mut out[part.start + part.len.min(piece)..][..len];
                        affine_piece::<V, KIND>(v, src, geometry, &part.frame, piece, out);
                    }
                }
            }
        }
    }
}

/// The voxels of a part of a row from `first` on.
#[inline(always)]
fn affine_piece<V: Vectors, const KIND: u8>(
    v: V,
    src: &[f32],
    geometry: &Geometry,
    frame: &Frame,
    first: usize,
    out: &mut [f32],
) {
    let mut first = first;
    let (groups, rest) = out.as_chunks_mut::<LANES>();
    for group in groups {
        let p = frame.along(v, first);
        v.store(sample::<V, KIND, false>(v, src, geometry, frame, p), group);
        first += LANES;
    }
    if !rest.is_empty() {
        let mut group = [0.0; LANES];
        let p = frame.along(v, first);
        v.store(sample::<V, KIND, false>(v, src, geometry, frame, p), &mut group);
        rest.copy_from_slice(&group[..rest.len()]);
    }
}

/// Sixteen displacements from voxel `at` on; beyond `count` of them they are zero.
#[inline(always)]
pub(in crate::cpu) fn displacement<V: Vectors>(
    v: V,
    field: &Field<'_>,
    at: usize,
    count: usize,
) -> [V::F; 3] {
    let mut u = [v.splat(0.0); 3];
    for a in 0..3 {
        let from = &field[a][at..at + count];
        u[a] = match from.first_chunk::<LANES>() {
            Some(all) => v.load(all),
            None => {
                let mut some = [0.0; LANES];
                some[..count].copy_from_slice(from);
                v.load(&some)
            }
        };
    }
    u
}

/// Positions moved by the linear part of the map of a displacement.
#[inline(always)]
pub(in crate::cpu) fn moved<V: Vectors>(
    v: V,
    linear: &[[f32; 3]; 3],
    p: [V::F; 3],
    u: [V::F; 3],
) -> [V::F; 3] {
    let mut q = p;
    for a in 0..3 {
        q[a] = v.add(p[a], row(v, &linear[a], u));
    }
    q
}

/// The product of a row of a matrix and vectors.
#[inline(always)]
pub(in crate::cpu) fn row<V: Vectors>(v: V, m: &[f32; 3], u: [V::F; 3]) -> V::F {
    let xy = v.add(v.mul(v.splat(m[0]), u[0]), v.mul(v.splat(m[1]), u[1]));
    v.add(xy, v.mul(v.splat(m[2]), u[2]))
}

kernel! {
    fn by_field<V, const KIND: u8>(
        v,
        src: &[f32],
        geometry: &Geometry,
        flat: Option<&Flat>,
        field: Field<'_>,
        rows: Rows,
        outside: f32,
        out: &mut [f32],
    ) {
        let nx = rows.dims[0];
        let (fill, linear) = (v.splat(outside), geometry.linear());
        for (i, out) in out.chunks_mut(nx).enumerate() {
            let (y, z) = rows.at(i);
            let row = geometry.row(y, z);
            for (b, block) in out.chunks_mut(BLOCK).enumerate() {
                let frame = geometry.frame_near(&row, b * BLOCK);
                for (g, group) in block.chunks_mut(LANES).enumerate() {
                    let at = (rows.first + i) * nx + b * BLOCK + g * LANES;
                    let u = displacement(v, &field, at, group.len());
                    let p = moved(v, &linear, frame.along(v, g * LANES), u);
                    let value = if KIND == LINEAR && let Some(flat) = flat {
                        let cells = frame.cells::<V, true>(v, p, &geometry.strides);
                        match flat.values(v, &frame, &cells) {
                            Some(values) => values,
                            None => Linear::new(v, &cells).sample(v, src, &geometry.strides),
                        }
                    } else {
                        sample::<V, KIND, true>(v, src, geometry, &frame, p)
                    };
                    let value = v.select(frame.inside(v, p), value, fill);
                    match <&mut [f32; LANES]>::try_from(&mut *group) {
                        Ok(all) => v.store(value, all),
                        Err(_) => {
                            let mut some = [0.0; LANES];
                            v.store(value, &mut some);
                            group.copy_from_slice(&some[..group.len()]);
                        }
                    }
                }
            }
        }
    }
}
