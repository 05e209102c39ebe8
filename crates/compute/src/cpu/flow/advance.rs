//! A small step of a displacement field along a velocity.

use super::cells::{Along, Grid, along, corners, load_some, places, store_some};
use crate::Dims;
use crate::cpu::Cpu;
use crate::cpu::resample::sample::Linear;
use crate::cpu::resample::warp::{Field, components, task_rows};
use crate::cpu::simd::{LANES, Vectors, kernel};

/// The bits of all lanes.
const ALL: u32 = (1 << LANES) - 1;

/// `out = s + field(id + s)` with `s = scale velocity`. All lengths have been checked.
pub(super) fn advance(
    cpu: &Cpu,
    field: &[f32],
    velocity: &[f32],
    scale: [f32; 3],
    dims: Dims,
    out: &mut [f32],
) {
    if let [x, y, z] = *field {
        // Everywhere there is the displacement of the only voxel.
        for ((out, u), (v, scale)) in out.iter_mut().zip([x, y, z]).zip(velocity.iter().zip(scale))
        {
            *out = scale * v + u;
        }
        return;
    }
    let grid = Grid::new(dims);
    let (field, velocity) = (components(field), components(velocity));
    let rows = task_rows(grid.dims);
    cpu.chunks_mut_3(out, rows * grid.dims[0], |task, out| {
        advance_rows(cpu.simd(), field, velocity, scale, &grid, task * rows, out);
    });
}

/// The neighbours of sixteen voxels of a row that are displaced by less than a voxel.
struct Neighbours<'a, V: Vectors> {
    step: &'a [Along<V>; 3],
    /// The first voxel, and the steps to the next row and slice.
    start: usize,
    strides: [usize; 2],
    /// Whether all positions are beyond their row, and beyond their slice; or all are before.
    up: [bool; 2],
}

impl<V: Vectors> Neighbours<'_, V> {
    /// Whether all neighbours of the voxels from `start` on, of a field of `n` voxels, are numbers of
    /// the field, be they of another row.
    #[inline(always)]
    fn are_inside(grid: &Grid, start: usize, n: usize) -> bool {
        let reach = (grid.strides[1] + grid.strides[2] + 1) as usize;
        start >= reach && start + LANES + reach <= n
    }

    /// The values; `Y` and `Z` state whether there are neighbours on both sides along y and z.
    #[inline(always)]
    fn sample<const Y: bool, const Z: bool>(&self, v: V, from: &[f32]) -> V::F {
        let step = &self.step[2];
        let here = self.plane::<Y>(v, from, self.start);
        let (back, front) = (self.start - self.strides[1], self.start + self.strides[1]);
        let difference = if Z {
            let before = v.sub(here, self.plane::<Y>(v, from, back));
            v.select(step.up, v.sub(self.plane::<Y>(v, from, front), here), before)
        } else {
            let beyond = self.plane::<Y>(v, from, if self.up[1] { front } else { back });
            v.select(step.up, v.sub(beyond, here), v.sub(here, beyond))
        };
        v.add(here, v.mul(step.rest, difference))
    }

    /// The values in a slice.
    #[inline(always)]
    fn plane<const Y: bool>(&self, v: V, from: &[f32], at: usize) -> V::F {
        let step = &self.step[1];
        let here = self.line(v, from, at);
        let (back, front) = (at - self.strides[0], at + self.strides[0]);
        let difference = if Y {
            let before = v.sub(here, self.line(v, from, back));
            v.select(step.up, v.sub(self.line(v, from, front), here), before)
        } else {
            let beyond = self.line(v, from, if self.up[0] { front } else { back });
            v.select(step.up, v.sub(beyond, here), v.sub(here, beyond))
        };
        v.add(here, v.mul(step.rest, difference))
    }

    /// The values in a row.
    #[inline(always)]
    fn line(&self, v: V, from: &[f32], at: usize) -> V::F {
        let step = &self.step[0];
        let here = load_at(v, from, at);
        let before = v.sub(here, load_at(v, from, at - 1));
        let after = v.sub(load_at(v, from, at + 1), here);
        v.add(here, v.mul(step.rest, v.select(step.up, after, before)))
    }
}

/// Sixteen numbers, which are there.
#[inline(always)]
fn load_at<V: Vectors>(v: V, from: &[f32], at: usize) -> V::F {
    match from[at..].first_chunk::<LANES>() {
        Some(all) => v.load(all),
        None => v.splat(0.0),
    }
}

kernel! {
    fn advance_rows<V>(
        v,
        field: Field<'_>,
        velocity: Field<'_>,
        scale: [f32; 3],
        grid: &Grid,
        first: usize,
        out: [&mut [f32]; 3],
    ) {
        let [nx, ny, nz] = grid.dims;
        let n = field[0].len();
        let mut out = out;
        for i in 0..out[0].len() / nx {
            let [y, z] = grid.row(first + i);
            let (y_at, z_at) = (v.splat(y as f32), v.splat(z as f32));
            for group in (0..nx).step_by(LANES) {
                // The last group of a row is a whole one, too, where the row is long enough.
                let x = group.min(nx.saturating_sub(LANES));
                let count = LANES.min(nx);
                let start = (first + i) * nx + x;
                let mut s = [v.splat(0.0); 3];
                for a in 0..3 {
                    s[a] = v.mul(load_some(v, &velocity[a][start..], count), v.splat(scale[a]));
                }
                // Where nothing moves, which is most of the background, the field stays as it is.
                let zero = v.splat(0.0);
                let still = v.and(v.and(v.eq(s[0], zero), v.eq(s[1], zero)), v.eq(s[2], zero));
                if v.bits(still) == ALL {
                    for (a, out) in out.iter_mut().enumerate() {
                        let here = load_some(v, &field[a][start..], count);
                        store_some(v, v.add(s[a], here), &mut out[i * nx + x..], count);
                    }
                    continue;
                }
                let step = [
                    along(v, places(v, x), nx, s[grid.axes[0]]),
                    along(v, y_at, ny, s[grid.axes[1]]),
                    along(v, z_at, nz, s[grid.axes[2]]),
                ];
                let mut none = v.eq(step[0].whole, v.splat(0.0));
                none = v.and(none, v.eq(step[1].whole, v.splat(0.0)));
                none = v.and(none, v.eq(step[2].whole, v.splat(0.0)));
                // Neighbours are read as rows: none of them is beyond the field, but perhaps the
                // numbers before and after the row.
                let rows = v.bits(none) == ALL && count == LANES;
                let value = if rows && Neighbours::<V>::are_inside(grid, start, n) {
                    let (y_up, z_up) = (v.bits(step[1].up), v.bits(step[2].up));
                    let rows = Neighbours {
                        step: &step,
                        start,
                        strides: [grid.strides[1] as usize, grid.strides[2] as usize],
                        up: [y_up != 0, z_up != 0],
                    };
                    let mixed = |up: u32| up != 0 && up != ALL;
                    let mut value = s;
                    match (mixed(y_up), mixed(z_up)) {
                        (false, false) => {
                            for a in 0..3 {
                                value[a] = rows.sample::<false, false>(v, field[a]);
                            }
                        }
                        (true, false) => {
                            for a in 0..3 {
                                value[a] = rows.sample::<true, false>(v, field[a]);
                            }
                        }
                        (false, true) => {
                            for a in 0..3 {
                                value[a] = rows.sample::<false, true>(v, field[a]);
                            }
                        }
                        (true, true) => {
                            for a in 0..3 {
                                value[a] = rows.sample::<true, true>(v, field[a]);
                            }
                        }
                    }
                    value
                } else {
                    let index = corners(v, start, &step, &grid.strides);
                    let lower = [step[0].up, step[1].up, step[2].up];
                    let distance = [step[0].rest, step[1].rest, step[2].rest];
                    let linear = Linear::of(index, lower, distance);
                    let mut value = s;
                    for a in 0..3 {
                        value[a] = linear.sample(v, field[a], &grid.strides);
                    }
                    value
                };
                for (a, out) in out.iter_mut().enumerate() {
                    store_some(v, v.add(s[a], value[a]), &mut out[i * nx + x..], count);
                }
            }
        }
    }
}
