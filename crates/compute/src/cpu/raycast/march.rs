//! Ray marching: sixteen rays side by side, at equal steps through interpolated values.

use super::CpuRayVolume;
use crate::cpu::simd::{LANES, Lanes, Vectors, kernel};
use crate::ops::raycast::{BRICK, RayFrame};

/// The use of the samples.
pub(super) const INTEGRAL: usize = 0;
pub(super) const MAXIMUM: usize = 1;
pub(super) const DERIVATIVES: usize = 2;

/// The number of samples between lookups in the map of empty space.
pub(super) const LOOK: usize = 8;

/// Rays: places at `k = 0`, counted from a voxel before the first, and steps, voxels.
#[derive(Clone, Copy)]
struct Rays<V: Vectors> {
    place: [V::F; 3],
    step: [V::F; 3],
    /// The last place along each axis: within a voxel of the last one.
    end: [V::F; 3],
    last_cell: [V::I; 3],
    zero: V::F,
    strides: [V::I; 2],
}

/// The voxels below places within the volume or on its border, and what is left.
struct Cell<V: Vectors> {
    base: [V::I; 3],
    part: [V::F; 3],
}

impl<V: Vectors> Rays<V> {
    /// The places at `k`, unlimited.
    #[inline(always)]
    fn places(&self, v: V, k: f32) -> [V::F; 3] {
        let k = v.splat(k);
        [
            v.add(self.place[0], v.mul(k, self.step[0])),
            v.add(self.place[1], v.mul(k, self.step[1])),
            v.add(self.place[2], v.mul(k, self.step[2])),
        ]
    }

    #[inline(always)]
    fn limited(&self, v: V, at: [V::F; 3]) -> [V::F; 3] {
        [
            v.min(v.max(at[0], self.zero), self.end[0]),
            v.min(v.max(at[1], self.zero), self.end[1]),
            v.min(v.max(at[2], self.zero), self.end[2]),
        ]
    }

    #[inline(always)]
    fn cell(&self, v: V, at: [V::F; 3]) -> Cell<V> {
        let base = [
            v.min_int(v.to_int(at[0]), self.last_cell[0]),
            v.min_int(v.to_int(at[1]), self.last_cell[1]),
            v.min_int(v.to_int(at[2]), self.last_cell[2]),
        ];
        let part = [
            v.sub(at[0], v.to_float(base[0])),
            v.sub(at[1], v.to_float(base[1])),
            v.sub(at[2], v.to_float(base[2])),
        ];
        Cell { base, part }
    }

    #[inline(always)]
    fn index(&self, v: V, base: [V::I; 3]) -> V::I {
        let rows =
            v.add_int(v.mul_int(base[1], self.strides[0]), v.mul_int(base[2], self.strides[1]));
        v.add_int(base[0], rows)
    }
}

#[inline(always)]
fn mix<V: Vectors>(v: V, part: V::F, [a, b]: [V::F; 2]) -> V::F {
    v.add(a, v.mul(part, v.sub(b, a)))
}

/// The first and the last whole `k` at which any of the rays is inside.
#[inline(always)]
fn inside<V: Vectors>(v: V, rays: &Rays<V>, range: [f32; 2]) -> [f32; 2] {
    let (mut enter, mut exit) = (v.splat(range[0]), v.splat(range[1]));
    let (never, ever) = (v.splat(f32::NEG_INFINITY), v.splat(f32::INFINITY));
    for a in 0..3 {
        let (place, step) = (rays.place[a], rays.step[a]);
        let inverse = v.div(v.splat(1.0), step);
        let low = v.mul(v.sub(rays.zero, place), inverse);
        let high = v.mul(v.sub(rays.end[a], place), inverse);
        // A place that stays is inside from the first border on and before the last.
        let stays = v.eq(step, rays.zero);
        let is_inside = v.and(v.le(rays.zero, place), v.lt(place, rays.end[a]));
        let (first, last) = (v.select(is_inside, never, ever), v.select(is_inside, ever, never));
        enter = v.max(v.select(stays, first, v.min(low, high)), enter);
        exit = v.min(v.select(stays, last, v.max(low, high)), exit);
    }
    let hits = v.le(enter, exit);
    let (mut first, mut last) = ([0.0; LANES], [0.0; LANES]);
    v.store(v.select(hits, enter, v.splat(f32::INFINITY)), &mut first);
    v.store(v.select(hits, exit, v.splat(f32::NEG_INFINITY)), &mut last);
    let first = first.into_iter().fold(f32::INFINITY, f32::min);
    let last = last.into_iter().fold(f32::NEG_INFINITY, f32::max);
    // Rounded places may be a hair inside where these are a hair outside.
    [(first - 0.01).ceil().max(range[0]), (last + 0.01).floor().min(range[1])]
}

kernel! {
    /// The rays of sixteen pixels: sums or maxima, and with `DERIVATIVES` the sums of gradients after them.
    pub(super) fn march<V, const KIND: usize>(
        v, volume: &CpuRayVolume, frame: &RayFrame, columns: &Lanes, rows: &Lanes,
        out: &mut [Lanes; 7],
    ) {
        let (columns, rows) = (v.load(columns), v.load(rows));
        let zero = v.splat(0.0);
        let [sx, sy, _] = volume.padded();
        let mut rays = Rays::<V> {
            place: [zero; 3],
            step: [zero; 3],
            end: [zero; 3],
            last_cell: [v.splat_int(0); 3],
            zero,
            strides: [v.splat_int(sx as i32), v.splat_int((sx * sy) as i32)],
        };
        let mut rate = zero;
        for a in 0..3 {
            let along = v.mul(columns, v.splat(frame.place[1][a]));
            let place = v.add(v.splat(frame.place[0][a]), along);
            let place = v.add(place, v.mul(rows, v.splat(frame.place[2][a])));
            rays.place[a] = v.add(place, v.splat(1.0));
            let along = v.mul(columns, v.splat(frame.step[1][a]));
            let step = v.add(v.splat(frame.step[0][a]), along);
            rays.step[a] = v.add(step, v.mul(rows, v.splat(frame.step[2][a])));
            rays.end[a] = v.splat((volume.dims[a] + 1) as f32);
            rays.last_cell[a] = v.splat_int(volume.dims[a] as i32);
            rate = v.max(rate, v.abs(rays.step[a]));
        }
        let mut rates: Lanes = [0.0; LANES];
        v.store(rate, &mut rates);
        let rate = rates.into_iter().fold(1e-6, f32::max);
        let [first, last] = inside(v, &rays, frame.range);
        let (values, leaps) = (volume.values.as_slice(), volume.leaps.as_slice());
        let [bx, by, _] = volume.bricks;
        let (bx, bxy) = (v.splat_int(bx as i32), v.splat_int((bx * by) as i32));
        let offsets = [0, sx, sx * sy, sx * sy + sx];
        let mut sum = zero;
        let (mut at, mut along) = ([zero; 3], [zero; 3]);
        let mut k = first;
        while k <= last {
            let here = rays.limited(v, rays.places(v, k));
            let brick = |a: V::F| v.shift_right::<{ BRICK.trailing_zeros() }>(v.to_int(a));
            let place = v.add_int(
                brick(here[0]),
                v.add_int(v.mul_int(brick(here[1]), bx), v.mul_int(brick(here[2]), bxy)),
            );
            let leap = v.gather(leaps, place);
            if v.bits(v.lt(leap, zero)) == 0 {
                let mut lanes: Lanes = [0.0; LANES];
                v.store(leap, &mut lanes);
                let least = lanes.into_iter().fold(f32::INFINITY, f32::min);
                // A little less than it may be, as places are rounded.
                k += (least / rate * 0.999).floor() + 1.0;
                continue;
            }
            for _ in 0..LOOK {
                if k > last {
                    break;
                }
                let free = rays.places(v, k);
                let cell = rays.cell(v, rays.limited(v, free));
                let cells = v.gather_cells(values, rays.index(v, cell.base), offsets);
                let [fx, fy, fz] = cell.part;
                let along_x = [
                    [mix(v, fx, cells[0]), mix(v, fx, cells[1])],
                    [mix(v, fx, cells[2]), mix(v, fx, cells[3])],
                ];
                let along_y = [mix(v, fy, along_x[0]), mix(v, fy, along_x[1])];
                let value = mix(v, fz, along_y);
                sum = if KIND == MAXIMUM { v.max(value, sum) } else { v.add(sum, value) };
                if KIND == DERIVATIVES {
                    let d = [
                        v.sub(cells[0][1], cells[0][0]),
                        v.sub(cells[1][1], cells[1][0]),
                        v.sub(cells[2][1], cells[2][0]),
                        v.sub(cells[3][1], cells[3][0]),
                    ];
                    let dx = mix(v, fz, [mix(v, fy, [d[0], d[1]]), mix(v, fy, [d[2], d[3]])]);
                    let dy = mix(v, fz, [
                        v.sub(along_x[0][1], along_x[0][0]),
                        v.sub(along_x[1][1], along_x[1][0]),
                    ]);
                    let dz = v.sub(along_y[1], along_y[0]);
                    // Nothing changes outside, nor on the last border.
                    let on_axis = |a: usize| v.and(v.le(zero, free[a]), v.lt(free[a], rays.end[a]));
                    let is_inside = v.and(on_axis(0), v.and(on_axis(1), on_axis(2)));
                    let times = v.splat(k);
                    let gradient = [dx, dy, dz];
                    for a in 0..3 {
                        let g = v.select(is_inside, gradient[a], zero);
                        at[a] = v.add(at[a], g);
                        along[a] = v.add(along[a], v.mul(times, g));
                    }
                }
                k += 1.0;
            }
        }
        if KIND == MAXIMUM {
            v.store(sum, &mut out[0]);
            return;
        }
        let s = frame.squares;
        let u_part = v.add(v.splat(s[1]), v.add(v.mul(columns, v.splat(s[3])), v.mul(rows, v.splat(s[4]))));
        let v_part = v.add(v.splat(s[2]), v.mul(rows, v.splat(s[5])));
        let square = v.add(v.splat(s[0]), v.add(v.mul(columns, u_part), v.mul(rows, v_part)));
        let length = v.sqrt(v.max(square, zero));
        v.store(v.mul(sum, length), &mut out[0]);
        if KIND == DERIVATIVES {
            for a in 0..3 {
                v.store(v.mul(at[a], length), &mut out[1 + a]);
                v.store(v.mul(along[a], length), &mut out[4 + a]);
            }
        }
    }
}

kernel! {
    /// Sums of products of weights and derivatives: alone, times the columns, times the rows of their pixels.
    pub(super) fn products<V>(
        v, weights: &[Lanes], derivatives: &[Lanes], columns: &[Lanes], rows: &[Lanes],
    ) -> [f64; 3] {
        let mut sums = [v.splat_wide(0.0); 3];
        let pixels = columns.iter().zip(rows);
        for ((weight, derivative), (column, row)) in weights.iter().zip(derivatives).zip(pixels) {
            let product = v.mul_wide(v.widen(v.load(weight)), v.widen(v.load(derivative)));
            sums[0] = v.add_wide(sums[0], product);
            sums[1] = v.add_wide(sums[1], v.mul_wide(product, v.widen(v.load(column))));
            sums[2] = v.add_wide(sums[2], v.mul_wide(product, v.widen(v.load(row))));
        }
        let mut out = [0.0; 3];
        for (out, sum) in out.iter_mut().zip(sums) {
            let mut lanes = [0f64; LANES];
            v.store_wide(sum, &mut lanes);
            *out = lanes.into_iter().sum();
        }
        out
    }
}
