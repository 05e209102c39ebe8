//! Signs of forces on the CPU.

use super::super::{Cpu, Simd};
use super::Bands;
use super::bent::{self, Bend};
use super::pointwise::{self, Rows, Speed};
use super::rows::Region;
use crate::ops::front::{Layout, Rule, Totals};

/// Words of a task that goes over all points.
const TASK: usize = 512;

/// The most rows of a tile.
pub(super) const ROWS: usize = 64;

/// A rule, on the host.
pub(super) struct Force<'a> {
    layout: Layout,
    speed: Speed<'a>,
    bend: Option<Bend<'a>>,
}

/// What signs are made in.
#[derive(Default)]
pub(super) struct Scratch {
    rows: Rows,
    bent: bent::Scratch,
    of: Vec<u64>,
}

impl<'a> Force<'a> {
    pub(super) fn new(layout: &Layout, rule: &Rule<'a, Cpu>, totals: &Totals) -> Self {
        let speed = match (rule.speed, &rule.means) {
            (Some(values), _) => Speed::Field(values.as_slice()),
            (None, Some(m)) => {
                let (weights, means) = (m.weights, m.means(totals, layout.points()));
                Speed::TwoMeans { image: m.image.as_slice(), weights, means }
            }
            (None, None) => Speed::None,
        };
        let bend = match rule.is_pointwise() {
            true => None,
            false => rule
                .window
                .as_ref()
                .map(|window| Bend::new(window, rule.curvature, rule.edges.map(|b| b.as_slice()))),
        };
        Self { layout: *layout, speed, bend }
    }
}

/// The signs of all points of a force that has no curvature.
pub(super) fn everywhere(cpu: &Cpu, force: &Force<'_>, signs: [&mut [u64]; 2]) {
    let layout = &force.layout;
    let rows = TASK.div_ceil(layout.row_words());
    cpu.chunks_mut_of(signs, rows * layout.row_words(), |task, [inside, outside]| {
        let first = task * rows;
        pointwise::everywhere(cpu.simd(), layout, &force.speed, first, inside, outside);
    });
}

/// The signs at the front in some tiles of a band.
#[allow(clippy::too_many_arguments)]
pub(super) fn of_band(
    cpu: &Cpu,
    force: &Force<'_>,
    set: &[u64],
    bands: &Bands,
    band: usize,
    tiles: &[u32],
    [inside, outside]: [&mut [u64]; 2],
    scratch: &mut Scratch,
) {
    let first = band * bands.words;
    if let Some(bend) = &force.bend {
        let signs = [inside, outside];
        return of_tiles(cpu.simd(), force, bend, set, tiles, first, signs, &mut scratch.bent);
    }
    let layout = &force.layout;
    let a_word = 64 / layout.tile()[0];
    let bits = 64 / a_word;
    for row in 0..bands.rows {
        let [y, z] = bands.region(band, row);
        let places = bands.of_row(tiles, band, row);
        for words in super::runs(places.clone(), a_word) {
            scratch.of.clear();
            scratch.of.resize(words.len(), 0);
            for x in places.clone().filter(|x| words.contains(&(x / a_word))) {
                let field = u64::MAX >> (64 - bits) << (bits * (x % a_word));
                scratch.of[x / a_word - words.start] |= field;
            }
            let region = Region { y: y.clone(), z: z.clone(), words };
            let (speed, of, rows) = (&force.speed, &scratch.of, &mut scratch.rows);
            let simd = cpu.simd();
            pointwise::at_front(
                simd, layout, speed, set, &region, of, rows, first, inside, outside,
            );
        }
    }
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

/// The signs at the front in some tiles, for a force with curvature; the first word of the output is `offset`.
#[allow(clippy::too_many_arguments)]
fn of_tiles(
    simd: Simd,
    force: &Force<'_>,
    bend: &Bend<'_>,
    set: &[u64],
    tiles: &[u32],
    offset: usize,
    [inside, outside]: [&mut [u64]; 2],
    scratch: &mut bent::Scratch,
) {
    let layout = &force.layout;
    let ([nx, ny, _], size, a_row) = (layout.dims(), layout.tile(), layout.row_words());
    for &number in tiles {
        let tile = Tile::new(layout, set, number as usize);
        if tile.any {
            bend.prepare(simd, layout, set, &tile, scratch);
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
                        let speed = force.speed.at(x + i + nx * row);
                        let (place, within) = ([x + i, y + j, z + k], [i, j, k]);
                        let value = bend.added(layout, speed, place, within, scratch);
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
