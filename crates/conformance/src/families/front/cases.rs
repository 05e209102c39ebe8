//! Sets and images, and what an iteration should make of them.

use voxalign_compute::ops::front::{
    Layout, Log, Measured, Planned, Rule, Slot, Step, TOTALS, Tiles, Totals, Units,
};
use voxalign_compute::{Device, Dims};

use crate::support::{Random, len, offset};

/// Sizes that are odd, tiny, of whole tiles and words, and one more.
pub(crate) const SIZES: [Dims; 14] = [
    [1, 1, 1],
    [2, 1, 1],
    [1, 1, 3],
    [17, 1, 1],
    [16, 16, 1],
    [33, 21, 1],
    [64, 17, 1],
    [130, 35, 1],
    [3, 2, 2],
    [8, 8, 8],
    [1, 19, 18],
    [5, 1, 35],
    [37, 23, 11],
    [70, 9, 6],
];

const SLOTS: usize = 5;

pub(crate) fn axes(dims: Dims) -> std::ops::RangeInclusive<usize> {
    1..=if dims[2] == 1 { 2 } else { 3 }
}

/// The points that differ from one by at most 1 along each axis, and along at most so many.
pub(crate) fn neighbours(layout: &Layout, point: usize) -> Vec<usize> {
    let dims = layout.dims();
    let at = [point % dims[0], point / dims[0] % dims[1], point / (dims[0] * dims[1])];
    let mut found = Vec::new();
    for step in 0..27usize {
        let by = [step % 3, step / 3 % 3, step / 9];
        let differ = by.iter().filter(|b| **b != 1).count();
        let to = [0, 1, 2].map(|a| (at[a] + by[a]).wrapping_sub(1));
        if (1..=layout.axes()).contains(&differ) && (0..3).all(|a| to[a] < dims[a]) {
            found.push(offset(dims, to));
        }
    }
    found
}

fn touches(layout: &Layout, set: &[bool], point: usize, inside: bool) -> bool {
    neighbours(layout, point).into_iter().any(|n| set[n] == inside)
}

/// The points of the front inside and outside.
pub(super) fn front(layout: &Layout, set: &[bool]) -> [Vec<bool>; 2] {
    let of = |inside: bool| {
        (0..set.len()).map(|p| set[p] == inside && touches(layout, set, p, !inside)).collect()
    };
    [of(true), of(false)]
}

/// One iteration.
pub(super) fn advanced(layout: &Layout, set: &[bool], signs: &[Vec<bool>; 2]) -> Vec<bool> {
    let [_, outer] = front(layout, set);
    let grown: Vec<bool> = (0..set.len()).map(|p| set[p] || (outer[p] && signs[0][p])).collect();
    let [inner, _] = front(layout, &grown);
    (0..set.len()).map(|p| grown[p] && !(set[p] && inner[p] && signs[1][p])).collect()
}

pub(super) fn count(set: &[bool]) -> i64 {
    set.iter().filter(|s| **s).count() as i64
}

fn differing(a: &[bool], b: &[bool]) -> i64 {
    a.iter().zip(b).filter(|(a, b)| a != b).count() as i64
}

/// Buffers of a front.
pub(super) struct State<D: Device> {
    pub(super) layout: Layout,
    pub(super) set: D::Buffer<u64>,
    pub(super) next: D::Buffer<u64>,
    pub(super) signs: D::Buffer<u64>,
    pub(super) plan: D::Buffer<u32>,
    pub(super) tiles: D::Buffer<u32>,
    pub(super) totals: D::Buffer<i64>,
    pub(super) log: D::Buffer<i64>,
}

impl<D: Device> State<D> {
    pub(super) fn new(device: &D, layout: &Layout, set: &[bool]) -> Self {
        Self {
            layout: *layout,
            set: device.upload_vec(layout.pack(set).unwrap()).unwrap(),
            next: device.alloc(layout.words()).unwrap(),
            signs: device.alloc(2 * layout.words()).unwrap(),
            plan: device.alloc(layout.tiles()).unwrap(),
            tiles: device.alloc(2 * layout.tiles()).unwrap(),
            totals: device.alloc(TOTALS).unwrap(),
            log: device.alloc(Log::len_of(SLOTS)).unwrap(),
        }
    }

    pub(super) fn begin(&mut self, device: &D, measured: Option<Measured<'_, D>>) {
        let Self { layout, set, tiles, totals, log, .. } = self;
        device.front_begin(layout, set, measured, tiles, totals, log).unwrap();
    }

    pub(super) fn give_signs(&mut self, device: &D, signs: &[Vec<bool>; 2]) {
        let both: Vec<u64> = signs.iter().flat_map(|s| self.layout.pack(s).unwrap()).collect();
        self.signs = device.upload_vec(both).unwrap();
    }

    pub(super) fn plan(&mut self, device: &D, step: Step, planned: Planned) {
        let Self { layout, plan, tiles, totals, log, .. } = self;
        device.front_plan(layout, step, planned, tiles, totals, plan, log).unwrap();
    }

    pub(super) fn find_signs(&mut self, device: &D, rule: &Rule<'_, D>, step: Option<usize>) {
        let Self { layout, set, signs, plan, totals, log, .. } = self;
        let tiles = step.map(|step| Tiles { plan, log, step });
        device.front_signs(layout, rule, set, totals, tiles, signs).unwrap();
    }

    pub(super) fn step(&mut self, device: &D, step: Step, measured: Option<Measured<'_, D>>) {
        let Self { layout, set, next, signs, plan, tiles, totals, log } = self;
        let planned =
            device.front_step(layout, step, set, signs, measured, plan, next, tiles, totals, log);
        planned.unwrap();
        std::mem::swap(&mut self.set, &mut self.next);
    }

    pub(super) fn step_all(&mut self, device: &D, step: Step, measured: Option<Measured<'_, D>>) {
        let Self { layout, set, next, signs, totals, log, .. } = self;
        device.front_step_all(layout, step, set, signs, measured, next, totals, log).unwrap();
        std::mem::swap(&mut self.set, &mut self.next);
    }

    pub(super) fn set(&self, device: &D) -> Vec<bool> {
        self.layout.unpack(&device.download(&self.set).unwrap()).unwrap()
    }

    pub(super) fn signs(&self, device: &D) -> [Vec<bool>; 2] {
        let both = device.download(&self.signs).unwrap();
        let (p, n) = both.split_at(self.layout.words());
        [p, n].map(|s| self.layout.unpack(s).unwrap())
    }

    pub(super) fn slot(&self, device: &D, step: usize) -> Slot {
        Log::new(&device.download(&self.log).unwrap()).unwrap().slot(step)
    }

    pub(super) fn totals(&self, device: &D) -> Totals {
        Totals::of(&device.download(&self.totals).unwrap())
    }

    /// The tiles of a plan in rising order.
    pub(super) fn planned(&self, device: &D, step: usize) -> Vec<u32> {
        let count = self.slot(device, step).tiles as usize;
        let mut plan = device.download(&self.plan).unwrap()[..count].to_vec();
        plan.sort_unstable();
        plan
    }
}

/// A set, signs that do not change, and values.
pub(super) struct Case {
    pub(super) set: Vec<bool>,
    pub(super) signs: [Vec<bool>; 2],
    pub(super) values: Vec<f32>,
}

impl Case {
    /// Noise, or few points in an image of some large regions.
    pub(super) fn new(dims: Dims, seed: u64) -> Self {
        let (mut random, n) = (Random::new(seed), len(dims));
        let sparse = seed % 2 == 1;
        let density = if sparse { 0.03 } else { 0.5 };
        let set = (0..n).map(|_| random.unit() < density).collect();
        let sign: Vec<f64> = (0..n)
            .map(|p| {
                let noise = random.between(-1.0, 1.0);
                let (x, y) = ((p % dims[0]) as f64, (p / dims[0]) as f64);
                let region = (0.21 * x).sin() + (0.17 * y).cos();
                match sparse {
                    true if region.abs() < 0.05 => 0.0,
                    true => region + 0.1 * noise,
                    false if noise.abs() < 0.2 => 0.0,
                    false => noise,
                }
            })
            .collect();
        let signs =
            [sign.iter().map(|s| *s > 0.0).collect(), sign.iter().map(|s| *s < 0.0).collect()];
        Self { set, signs, values: random.image(dims) }
    }

    pub(super) fn units(&self) -> Units {
        Units::between(-50.0, 200.0, self.values.len())
    }

    /// The values in units that are in a set, and their squares.
    pub(super) fn sums(&self, set: &[bool]) -> [i64; 2] {
        let inside = self.values.iter().zip(set).filter(|(_, s)| **s);
        inside.fold([0; 2], |sums, (v, _)| {
            let value = self.units().of(*v);
            [sums[0] + value[0], sums[1] + value[1]]
        })
    }
}

/// What an iteration should have counted, without its tiles and with all points of the front.
pub(super) fn expected_slot(case: &Case, layout: &Layout, sets: [&[bool]; 3]) -> Slot {
    let [before, set, next] = sets;
    let [inner, outer] = front(layout, set);
    let (now, then) = (case.sums(set), case.sums(next));
    Slot {
        tiles: 0,
        inner: count(&inner),
        outer: count(&outer),
        inwards: set.iter().zip(next).filter(|(s, n)| !**s && **n).count() as i64,
        outwards: set.iter().zip(next).filter(|(s, n)| **s && !**n).count() as i64,
        different: differing(before, next),
        sum: then[0] - now[0],
        squares: then[1] - now[1],
    }
}
