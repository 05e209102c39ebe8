//! Curvature and normals of fronts on the CPU.

use super::super::Cpu;
use super::signs::Tile;
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

    /// Sums along x and y about the front of a tile.
    pub(super) fn prepare(&self, layout: &Layout, set: &[u64], tile: &Tile, scratch: &mut Scratch) {
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
                let points = clamped(row, nx, tile.origin[0] as isize - rx as isize, wide + 2 * rx);
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
            let [out, out_x, out_y] = &mut scratch.slices;
            for (j, &needed) in needed.iter().enumerate() {
                let mut left = needed;
                while left != 0 {
                    let i = left.trailing_zeros() as usize;
                    let at = i + wide * (j + tall * k);
                    let (mut sum, mut sum_x, mut sum_y) = (0.0f32, 0.0f32, 0.0f32);
                    for (m, weight) in wy.iter().enumerate() {
                        sum += weight * row_means[wide * (j + m) + i];
                    }
                    if with_flow {
                        for (m, (weight, moment)) in wy.iter().zip(my).enumerate() {
                            sum_x += weight * row_moments[wide * (j + m) + i];
                            sum_y += moment * row_means[wide * (j + m) + i];
                        }
                    }
                    (out[at], out_x[at], out_y[at]) = (sum, sum_x, sum_y);
                    left &= left - 1;
                }
            }
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
        let [wz, mz] = self.weights(2);
        let at = |m: usize| i + wide * (j + tall * (k + m));
        let [means, means_x, means_y] = &scratch.slices;
        let mut side = 0.0f32;
        for (m, weight) in wz.iter().enumerate() {
            side += weight * means[at(m)];
        }
        let dims = layout.dims();
        let point = place[0] + dims[0] * (place[1] + dims[1] * place[2]);
        let Some(edges) = self.edges else {
            return speed - self.weight * (f64::from(side) * self.factor);
        };
        let mut gradient = [0.0f32; 3];
        for (m, (weight, moment)) in wz.iter().zip(mz).enumerate() {
            gradient[0] += weight * means_x[at(m)];
            gradient[1] += weight * means_y[at(m)];
            gradient[2] += moment * means[at(m)];
        }
        let weight = self.weight * f64::from(edges[point]);
        let mut value = speed - weight * (f64::from(side) * self.factor);
        let [x, y, z] = gradient.map(f64::from);
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
