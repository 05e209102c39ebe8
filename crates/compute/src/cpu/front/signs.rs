//! Signs of forces on the CPU.

use super::super::Cpu;
use super::bent::{Bend, Scratch};
use super::sums;
use crate::ops::front::{Layout, Rule, Totals};

/// Words of a task that goes over all points.
const TASK: usize = 512;

/// The most rows of a tile.
pub(super) const ROWS: usize = 64;

/// A rule, on the host.
pub(super) struct Force<'a> {
    pub(super) layout: Layout,
    speed: Option<&'a [f32]>,
    /// An image, the weights of its two means, and these.
    means: Option<(&'a [f32], [f64; 2], [f64; 2])>,
    pub(super) bend: Option<Bend<'a>>,
}

impl<'a> Force<'a> {
    pub(super) fn new(layout: &Layout, rule: &Rule<'a, Cpu>, totals: &Totals) -> Self {
        let means = rule
            .means
            .as_ref()
            .map(|m| (m.image.as_slice(), m.weights, m.means(totals, layout.points())));
        let bend = match rule.is_pointwise() {
            true => None,
            false => rule.window.as_ref().map(|window| {
                Bend::new(layout, window, rule.curvature, rule.edges.map(|b| b.as_slice()))
            }),
        };
        Self { layout: *layout, speed: rule.speed.map(|s| s.as_slice()), means, bend }
    }

    /// The speed at a point that depends on neither the curvature nor the normal.
    #[inline]
    fn speed(&self, point: usize) -> f64 {
        if let Some(speed) = self.speed {
            return f64::from(speed[point]);
        }
        let Some((image, weights, means)) = self.means else { return 0.0 };
        sums::speed_of(f64::from(image[point]), weights, means)
    }
}

/// The signs of all points of a force that has no curvature.
pub(super) fn everywhere(cpu: &Cpu, force: &Force<'_>, signs: [&mut [u64]; 2]) {
    let (a_row, nx) = (force.layout.row_words(), force.layout.dims()[0]);
    let rows = TASK.div_ceil(a_row);
    cpu.chunks_mut_of(signs, rows * a_row, |task, [inside, outside]| {
        let both = inside.chunks_exact_mut(a_row).zip(outside.chunks_exact_mut(a_row));
        for (row, (inside, outside)) in both.enumerate() {
            let first = (task * rows + row) * nx;
            match (force.speed, force.means) {
                (Some(speed), _) => {
                    sums::signs_of_row(cpu.simd(), &speed[first..first + nx], inside, outside);
                }
                (None, Some((image, weights, means))) => {
                    let image = &image[first..first + nx];
                    sums::signs_of_means(cpu.simd(), image, weights, means, inside, outside);
                }
                (None, None) => {
                    inside.fill(0);
                    outside.fill(0);
                }
            }
        }
    });
}

/// A tile: where it begins, how many points it has along each axis, and its front.
pub(super) struct Tile {
    pub(super) origin: [usize; 3],
    pub(super) sides: [usize; 3],
    /// For each row, y before z, the points of the front outside and inside.
    pub(super) front: [[u32; 2]; ROWS],
    pub(super) any: bool,
}

impl Tile {
    fn new(layout: &Layout, set: &[u64], number: usize) -> Self {
        let ([tx, ty, _], size, dims) = (layout.grid(), layout.tile(), layout.dims());
        let at = [number % tx, number / tx % ty, number / (tx * ty)];
        let origin = [0, 1, 2].map(|a| at[a] * size[a]);
        let sides = [0, 1, 2].map(|a| size[a].min(dims[a] - origin[a]));
        let mut tile = Self { origin, sides, front: [[0; 2]; ROWS], any: false };
        let (beside_z, tall) = (usize::from(!layout.is_2d()), size[1] + 2);
        // The points of rows with one beside each end, which is bit 0 and the last: inside and outside.
        let mut windows = [[0u32; 2]; 100];
        let low = u32::from(origin[0] == 0);
        let valid = ((1u32 << (sides[0] + 2)) - 1) & !low;
        let valid = match origin[0] + sides[0] < dims[0] {
            true => valid,
            false => valid & !(1 << (sides[0] + 1)),
        };
        for k in 0..sides[2] + 2 * beside_z {
            for j in 0..sides[1] + 2 {
                let y = (origin[1] + j).checked_sub(1).filter(|y| *y < dims[1]);
                let z = (origin[2] + k).checked_sub(beside_z).filter(|z| *z < dims[2]);
                if let (Some(y), Some(z)) = (y, z) {
                    let inside = window(layout, set, y + dims[1] * z, origin[0], sides[0]) & valid;
                    windows[j + tall * k] = [inside, valid & !inside];
                }
            }
        }
        let deep = if layout.is_2d() { 0..=0 } else { -1..=1isize };
        for k in 0..sides[2] {
            for j in 0..sides[1] {
                let row = j + 1 + tall * (k + beside_z);
                let here = windows[row];
                let (mut wide, mut narrow) = ([0u32; 2], [0u32; 2]);
                for dz in deep.clone() {
                    for dy in -1..=1isize {
                        let taken = dy.unsigned_abs() + dz.unsigned_abs();
                        if taken <= layout.axes() {
                            let near = windows[row.wrapping_add_signed(dy + tall as isize * dz)];
                            let to = if taken < layout.axes() { &mut wide } else { &mut narrow };
                            to[0] |= near[0];
                            to[1] |= near[1];
                        }
                    }
                }
                let around = [0, 1].map(|s| wide[s] | wide[s] << 1 | wide[s] >> 1 | narrow[s]);
                let points = (1u32 << sides[0]) - 1;
                let front = [here[1] & around[0], here[0] & around[1]].map(|f| f >> 1 & points);
                tile.front[j + size[1] * k] = front;
                tile.any |= front != [0; 2];
            }
        }
        tile
    }
}

/// Points of a row from an x on, with one beside them on each side, where there are such.
fn window(layout: &Layout, set: &[u64], row: usize, x: usize, width: usize) -> u32 {
    let a_row = layout.row_words();
    let row = &set[row * a_row..][..a_row];
    let (word, bit) = (x / 64, x % 64);
    let here = row[word];
    let before = match bit {
        0 => {
            if word > 0 {
                row[word - 1] >> 63
            } else {
                0
            }
        }
        _ => here >> (bit - 1) & 1,
    };
    let after = match bit + width {
        64.. => row.get(word + 1).map_or(0, |w| w & 1),
        end => here >> end & 1,
    };
    let points = here >> bit & ((1u64 << width) - 1);
    (before | points << 1 | after << (width + 1)) as u32
}

/// The signs at the front in the tiles of a band, whose first word is `offset`.
pub(super) fn of_band(
    force: &Force<'_>,
    set: &[u64],
    tiles: &[u32],
    offset: usize,
    [inside, outside]: [&mut [u64]; 2],
    scratch: &mut Scratch,
) {
    let layout = &force.layout;
    let ([nx, ny, _], size, a_row) = (layout.dims(), layout.tile(), layout.row_words());
    for &number in tiles {
        let tile = Tile::new(layout, set, number as usize);
        if let Some(bend) = &force.bend
            && tile.any
        {
            bend.prepare(layout, set, &tile, scratch);
        }
        let [x, y, z] = tile.origin;
        for k in 0..tile.sides[2] {
            for j in 0..tile.sides[1] {
                let row = y + j + ny * (z + k);
                let mut found = [0u64; 2];
                for (side, found) in found.iter_mut().enumerate() {
                    let mut points = tile.front[j + size[1] * k][side];
                    while points != 0 {
                        let i = points.trailing_zeros() as usize;
                        let point = x + i + nx * row;
                        let mut value = force.speed(point);
                        if let Some(bend) = &force.bend {
                            value = bend.added(
                                layout,
                                value,
                                [x + i, y + j, z + k],
                                [i, j, k],
                                scratch,
                            );
                        }
                        let moves = if side == 0 { value > 0.0 } else { value < 0.0 };
                        *found |= u64::from(moves) << i;
                        points &= points - 1;
                    }
                }
                let (at, bit) = (row * a_row + x / 64 - offset, x % 64);
                let field = ((1u64 << size[0]) - 1) << bit;
                inside[at] = inside[at] & !field | found[0] << bit;
                outside[at] = outside[at] & !field | found[1] << bit;
            }
        }
    }
}
