//! Curvature and normals of fronts on the CPU.

use super::super::{Cpu, Simd};
use super::signs::Tile;
use crate::cpu::simd::kernel;
use crate::ops::front::{BYTE, Extent, Layout, Window};

/// What a force has of the shape of a front.
pub(super) struct Bend<'a> {
    radius: [usize; 3],
    spacing: [f64; 3],
    extent: Extent,
    tables: &'a [f32],
    /// The weight of the curvature, and b.
    weight: f64,
    edges: Option<&'a [f32]>,
    /// What κ is of the mean side.
    factor: f64,
    /// The length of a gradient that is one.
    least: f64,
}

/// Means about a tile.
#[derive(Default)]
pub(super) struct Scratch {
    /// Means along x of the rows of a slice, and those times the distance.
    rows: [Vec<f32>; 2],
    /// The means along x and y of all slices, those times the distance along x, and along y.
    slices: [Vec<f32>; 3],
    /// The means at each place of the tile, and those times the distances along x, y, z.
    sums: [Vec<f32>; 4],
}

/// Points of a row from a place on, which may be beyond its ends: there the ends continue.
fn clamped(row: &[u64], nx: usize, start: isize, len: usize) -> u128 {
    let (from, to) = (start.max(0) as usize, (start + len as isize).clamp(0, nx as isize) as usize);
    let (word, bit) = (from / 64, from % 64);
    let at = |i: usize| u128::from(row.get(word + i).copied().unwrap_or(0));
    let mut points = (at(0) | at(1) << 64) >> bit;
    if bit > 0 {
        points |= at(2) << (128 - bit);
    }
    let count = to - from;
    points &= (1u128 << count) - 1;
    let before = (from as isize - start) as usize;
    let mut all = points << before;
    if points & 1 == 1 {
        all |= (1u128 << before) - 1;
    }
    if points >> (count - 1) & 1 == 1 {
        all |= ((1u128 << len) - 1) & !((1u128 << (before + count)) - 1);
    }
    all
}

/// Places that are added up at once: of many, and the width of a tile in a volume.
const MANY: usize = 64;
const FEW: usize = 8;

/// For `N` places from one on the sum of weights times what is there and at every further `stride`, added in their order.
#[inline(always)]
fn summed<const N: usize>(weights: &[f32], from: &[f32], stride: usize) -> [f32; N] {
    let mut sums = [0.0f32; N];
    for (m, weight) in weights.iter().enumerate() {
        let row = from[stride * m..].first_chunk::<N>();
        for (sum, value) in sums.iter_mut().zip(row.unwrap_or(&[0.0; N])) {
            *sum += weight * value;
        }
    }
    sums
}

kernel! {
    /// The same for all places of the output, a multiple of [`FEW`].
    fn weighted<V>(v, weights: &[f32], from: &[f32], stride: usize, out: &mut [f32]) {
        let _ = v;
        let mut start = 0;
        let mut parts = out.chunks_exact_mut(MANY);
        for part in &mut parts {
            part.copy_from_slice(&summed::<MANY>(weights, &from[start..], stride));
            start += MANY;
        }
        for part in parts.into_remainder().chunks_exact_mut(FEW) {
            part.copy_from_slice(&summed::<FEW>(weights, &from[start..], stride));
            start += FEW;
        }
    }
}

impl<'a> Bend<'a> {
    pub(super) fn new(window: &Window<'a, Cpu>, weight: f64, edges: Option<&'a [f32]>) -> Self {
        Self {
            radius: window.radius,
            spacing: window.spacing,
            extent: Extent::of(window.radius),
            tables: window.tables.as_slice(),
            weight,
            edges,
            factor: window.factor(),
            least: window.least(),
        }
    }

    /// Sums of tables for the windows of a row.
    fn along_x(&self, tables: &[f32], bits: u64) -> f32 {
        let mut sum = 0.0;
        for k in 0..self.extent.chunks {
            sum += tables[BYTE * k + (bits >> (8 * k) & 255) as usize];
        }
        sum
    }

    /// Weights along an axis, and those times the distance.
    fn weights(&self, axis: usize) -> [&'a [f32]; 2] {
        let (start, count) = (self.extent.starts[axis], 2 * self.radius[axis] + 1);
        let tables = self.tables;
        [&tables[start..start + count], &tables[start + count..start + 2 * count]]
    }

    /// Sums about the front of a tile.
    pub(super) fn prepare(
        &self,
        simd: Simd,
        layout: &Layout,
        set: &[u64],
        tile: &Tile,
        scratch: &mut Scratch,
    ) {
        let ([nx, ny, nz], size, a_row) = (layout.dims(), layout.tile(), layout.row_words());
        let [rx, ry, rz] = self.radius;
        let (wide, tall) = (size[0], size[1]);
        let [wy, my] = self.weights(1);
        // Places in the tile, of any slice, that are of the front.
        let mut needed = [0u32; 16];
        for k in 0..tile.sides[2] {
            for (needed, front) in
                needed.iter_mut().zip(&tile.front[tall * k..]).take(tile.sides[1])
            {
                *needed |= front[0] | front[1];
            }
        }
        let columns = needed.iter().fold(0, |all, n| all | n);
        let first = needed.iter().position(|n| *n != 0).unwrap_or(0);
        let last = needed.iter().rposition(|n| *n != 0).unwrap_or(0);
        let deep = tile.sides[2] + 2 * rz;
        for rows in &mut scratch.rows {
            rows.resize(wide * (tall + 2 * ry), 0.0);
        }
        for slices in &mut scratch.slices {
            slices.resize(wide * tall * deep, 0.0);
        }
        let (means, moments) = self.tables[..self.extent.starts[1]].split_at(self.extent.starts[0]);
        let mask = u64::MAX >> (63 - 2 * rx);
        let place = |at: usize, by: usize, radius: usize, n: usize| {
            (at + by).saturating_sub(radius).min(n - 1)
        };
        let with_flow = self.edges.is_some();
        for k in 0..deep {
            let z = place(tile.origin[2], k, rz, nz);
            let [row_means, row_moments] = &mut scratch.rows;
            for j in first..last + 2 * ry + 1 {
                let y = place(tile.origin[1], j, ry, ny);
                let row = &set[(y + ny * z) * a_row..][..a_row];
                let len = wide + 2 * rx;
                let points = clamped(row, nx, tile.origin[0] as isize - rx as isize, len);
                // All on one side: the same at all places.
                if points == 0 || points == u128::MAX >> (128 - len) {
                    let bits = points as u64 & mask;
                    row_means[wide * j..][..wide].fill(self.along_x(means, bits));
                    if with_flow {
                        row_moments[wide * j..][..wide].fill(self.along_x(moments, bits));
                    }
                    continue;
                }
                let mut left = columns;
                while left != 0 {
                    let i = left.trailing_zeros() as usize;
                    let bits = (points >> i) as u64 & mask;
                    row_means[wide * j + i] = self.along_x(means, bits);
                    if with_flow {
                        row_moments[wide * j + i] = self.along_x(moments, bits);
                    }
                    left &= left - 1;
                }
            }
            let rows = wide * first..wide * (last + 2 * ry + 1);
            let out = wide * (first + tall * k)..wide * (last + 1 + tall * k);
            let [to, to_x, to_y] = scratch.slices.each_mut().map(|s| &mut s[out.clone()]);
            weighted(simd, wy, &row_means[rows.clone()], wide, to);
            if with_flow {
                weighted(simd, wy, &row_moments[rows.clone()], wide, to_x);
                weighted(simd, my, &row_means[rows], wide, to_y);
            }
        }
        let slice = wide * tall;
        let [means, means_x, means_y] = &scratch.slices;
        let [side, x, y, z] = scratch.sums.each_mut();
        for sums in [&mut *side, &mut *x, &mut *y, &mut *z] {
            sums.resize(slice * tile.sides[2], 0.0);
        }
        let [wz, mz] = self.weights(2);
        weighted(simd, wz, means, slice, side);
        if with_flow {
            weighted(simd, wz, means_x, slice, x);
            weighted(simd, wz, means_y, slice, y);
            weighted(simd, mz, means, slice, z);
        }
    }

    /// A force with its curvature and its flow, at a place that is in the tile that was prepared.
    pub(super) fn added(
        &self,
        layout: &Layout,
        speed: f64,
        place: [usize; 3],
        [i, j, k]: [usize; 3],
        scratch: &Scratch,
    ) -> f64 {
        let [wide, tall, _] = layout.tile();
        let at = i + wide * (j + tall * k);
        let [side, x, y, z] = &scratch.sums;
        let side = side[at];
        let dims = layout.dims();
        let point = place[0] + dims[0] * (place[1] + dims[1] * place[2]);
        let Some(edges) = self.edges else {
            return speed - self.weight * (f64::from(side) * self.factor);
        };
        let weight = self.weight * f64::from(edges[point]);
        let mut value = speed - weight * (f64::from(side) * self.factor);
        let [x, y, z] = [x, y, z].map(|sums| f64::from(sums[at]));
        let length = (x * x + y * y + z * z).sqrt();
        if length > self.least {
            let strides = [1, dims[0], dims[0] * dims[1]];
            let mut flow = 0.0;
            for (axis, component) in [x, y, z].into_iter().enumerate() {
                let after =
                    if place[axis] + 1 < dims[axis] { point + strides[axis] } else { point };
                let before = if place[axis] > 0 { point - strides[axis] } else { point };
                let slope = (f64::from(edges[after]) - f64::from(edges[before]))
                    / (2.0 * self.spacing[axis]);
                flow += -self.weight * slope * (component / length);
            }
            value += flow;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::clamped;

    /// Every bit is that of the nearest point of the row.
    #[test]
    fn rows_continue_beyond_their_ends() {
        for nx in [1, 3, 40, 64, 65, 130, 200] {
            let is_inside = |x: usize| x * x % 5 < 2;
            let mut row = vec![0u64; usize::div_ceil(nx, 64)];
            (0..nx).filter(|x| is_inside(*x)).for_each(|x| row[x / 64] |= 1 << (x % 64));
            for tile in (0..nx).step_by(16) {
                for radius in [0, 1, 9, 31] {
                    let (start, len) = (tile as isize - radius, 16 + 2 * radius as usize);
                    let found = clamped(&row, nx, start, len);
                    for i in 0..len {
                        let x = (start + i as isize).clamp(0, nx as isize - 1) as usize;
                        assert_eq!(found >> i & 1 == 1, is_inside(x), "{nx} {tile} {radius} {i}");
                    }
                }
            }
        }
    }
}
