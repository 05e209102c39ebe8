//! Updates of fronts on the GPU.

use std::sync::LazyLock;

use super::declare::{In, Out};
use super::{Cuda, CudaBuffer, Shape};
use crate::device::DeviceBuffer;
use crate::error::Result;
use crate::ops::Front;
use crate::ops::front::{
    Extent, Layout, Log, Measured, Object, Planned, Rule, Step, Tiles, Units, check_begin,
    check_plan, check_signs, check_step,
};

plain! {
    /// Sizes along the axes, words of a row, tiles along the axes, and all of them.
    struct FrontShape {
        dims: [u32; 3],
        row: u32,
        grid: [u32; 3],
        tiles: u32,
    }
}

plain! {
    /// What values are summed in.
    struct FrontUnits {
        offset: f64,
        scale: f64,
        squares: f64,
    }
}

plain! {
    /// Places of slots in the log; all points; the number of the iteration, and whether they end where they repeat.
    struct FrontSlots {
        before: u64,
        here: u64,
        after: u64,
        points: u64,
        number: u32,
        repeats: u32,
    }
}

plain! {
    /// Two means.
    struct FrontMeans {
        some: u32,
        fixed: u32,
        object: u32,
        padding: u32,
        points: u64,
        weights: [f64; 2],
        means: [f64; 2],
        units: FrontUnits,
    }
}

plain! {
    /// A curvature and a flow.
    struct FrontBend {
        weight: f64,
        factor: f64,
        least: f64,
        spacing: [f64; 3],
        radius: [u32; 3],
        flows: u32,
        chunks: u32,
        moments: u32,
        of_y: u32,
        of_z: u32,
    }
}

cells! {
    /// Rows of tiles: 16 or 8 points.
    FrontCell = "Cell";
}

kernels! { FRONT = "front/front.cu";
    fn front_begin[256](
        shape: FrontShape, set: &[u32], values: &[f32], units: FrontUnits, totals: &mut [u64], log: &mut [u64],
    );
    fn front_plan[256](
        shape: FrontShape, slots: FrontSlots, with_fronts: u32, tiles: &[u32], totals: &[u64], plan: &mut [u32],
        log: &mut [u64],
    );
    fn front_look[32](shape: FrontShape, slots: FrontSlots, totals: &[u64], log: &mut [u64]);
    fn front_step[256](
        shape: FrontShape, set: &[FrontCell], signs: &[FrontCell], values: &[f32], units: FrontUnits,
        slot: u64, stamp: u32, plan: &[u32], next: &mut [FrontCell], tiles: &mut [u32], totals: &mut [u64], log: &mut [u64],
    );
    fn front_step_all[256](
        shape: FrontShape, set: &[u32], signs: &[u32], values: &[f32], units: FrontUnits, slot: u64,
        next: &mut [u32], totals: &mut [u64], log: &mut [u64],
    );
}

kernels! { SIGNS = "front/signs.cu";
    fn front_signs_all[256](
        shape: FrontShape, values: &[f32], rule: FrontMeans, totals: &[i64], signs: &mut [u32],
    );
    fn front_signs[256](
        shape: FrontShape, set: &[FrontCell], values: &[f32], rule: FrontMeans, totals: &[i64], slot: u64, plan: &[u32],
        log: &[u64], signs: &mut [FrontCell],
    );
    fn front_signs_bent[256](
        shape: FrontShape, set: &[FrontCell], words: &[u64], values: &[f32], rule: FrontMeans, edges: &[f32],
        bend: FrontBend, tables: &[f32], totals: &[i64], slot: u64, plan: &[u32], log: &[u64],
        signs: &mut [FrontCell],
    );
}

/// What programs are made with: whether there is a volume, and the axes of neighbours.
const KINDS: [(usize, usize); 5] = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)];

fn macros((deep, axes): (usize, usize)) -> [(&'static str, i64); 2] {
    [("DEEP", deep as i64), ("AXES", axes as i64)]
}

static STEPS: LazyLock<[FRONT; 5]> = LazyLock::new(|| KINDS.map(|kind| FRONT.with(&macros(kind))));
static FORCES: LazyLock<[SIGNS; 5]> = LazyLock::new(|| KINDS.map(|kind| SIGNS.with(&macros(kind))));

/// The number of the program of a layout.
fn number(layout: &Layout) -> usize {
    let kind = (usize::from(!layout.is_2d()), layout.axes());
    KINDS.iter().position(|k| *k == kind).unwrap_or_default()
}

/// Blocks for each multiprocessor: as many as run at once.
const AT_ONCE: usize = 8;

impl FrontShape {
    fn new(layout: &Layout) -> Self {
        Self {
            dims: layout.dims().map(|n| n as u32),
            row: layout.row_words() as u32,
            grid: layout.grid().map(|n| n as u32),
            tiles: layout.tiles() as u32,
        }
    }
}

impl FrontUnits {
    const ONE: Self = Self { offset: 0.0, scale: 1.0, squares: 1.0 };

    fn new(units: &Units) -> Self {
        Self { offset: units.offset, scale: units.scale, squares: units.squares }
    }
}

impl FrontSlots {
    fn new(layout: &Layout, step: Step, slots: usize) -> Self {
        let at = |number: usize| Log::place(slots, number) as u64;
        Self {
            // Before the first there is none, and what is there is not looked at.
            before: at(step.number + slots - 1),
            here: at(step.number),
            after: at(step.number + 1),
            points: layout.points() as u64,
            number: step.number as u32,
            repeats: u32::from(step.ends_on_repeats),
        }
    }
}

impl FrontMeans {
    fn new(layout: &Layout, rule: &Rule<'_, Cuda>) -> Self {
        let Some(means) = &rule.means else {
            return Self {
                some: 0,
                fixed: 0,
                object: 0,
                padding: 0,
                points: 0,
                weights: [0.0; 2],
                means: [0.0; 2],
                units: FrontUnits::ONE,
            };
        };
        Self {
            some: 1,
            fixed: u32::from(means.fixed.is_some()),
            object: match means.object {
                Object::AsStarted => 0,
                Object::Brighter => 1,
                Object::Darker => 2,
            },
            padding: 0,
            points: layout.points() as u64,
            weights: means.weights,
            means: means.fixed.unwrap_or_default(),
            units: FrontUnits::new(&means.units),
        }
    }
}

/// An image whose values are summed, as kernels take it.
fn measured_as(measured: Option<&Measured<'_, Cuda>>) -> (In<f32>, FrontUnits) {
    match measured {
        Some(measured) => (In::from(measured.values), FrontUnits::new(&measured.units)),
        None => (In::none(), FrontUnits::ONE),
    }
}

impl Cuda {
    /// Blocks of 256 threads for so many warps' work, no more than run at once.
    fn front_blocks(&self, warps: usize) -> Shape {
        Shape::blocks(warps.div_ceil(8).min(AT_ONCE * self.multiprocessors()), 256)
    }
}

impl Front for Cuda {
    fn front_begin(
        &self,
        layout: &Layout,
        set: &CudaBuffer<u64>,
        measured: Option<Measured<'_, Self>>,
        tiles: &mut CudaBuffer<u32>,
        totals: &mut CudaBuffer<i64>,
        log: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let lengths = [tiles.len(), totals.len(), log.len()];
        check_begin(layout, set.len(), measured.as_ref(), lengths)?;
        self.zero(tiles)?;
        self.zero(totals)?;
        self.zero(log)?;
        let (values, units) = measured_as(measured.as_ref());
        let program = &STEPS[number(layout)];
        let shape = self.front_blocks(2 * layout.words());
        let (totals, log) = (Out::<u64>::cast(totals), Out::<u64>::cast(log));
        let set = In::<u32>::cast(set);
        // SAFETY: words of the set and values of its points are read.
        unsafe {
            program.front_begin(
                self,
                shape,
                FrontShape::new(layout),
                set,
                values,
                units,
                totals,
                log,
            )
        }
    }

    fn front_plan(
        &self,
        layout: &Layout,
        step: Step,
        planned: Planned,
        tiles: &CudaBuffer<u32>,
        totals: &CudaBuffer<i64>,
        plan: &mut CudaBuffer<u32>,
        log: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let lengths = [tiles.len(), totals.len(), plan.len(), log.len()];
        let slots = FrontSlots::new(layout, step, check_plan(layout, step, lengths)?);
        let program = &STEPS[number(layout)];
        let shape = Shape::covering(layout.tiles(), 256);
        let (totals, log) = (In::<u64>::cast(totals), Out::<u64>::cast(log));
        let fronts = u32::from(planned == Planned::Fronts);
        // SAFETY: tiles below their number are looked at, and a plan has no more of them; slots are in the log.
        unsafe {
            program.front_plan(
                self,
                shape,
                FrontShape::new(layout),
                slots,
                fronts,
                tiles,
                totals,
                plan,
                log,
            )
        }
    }

    fn front_signs(
        &self,
        layout: &Layout,
        rule: &Rule<'_, Self>,
        set: &CudaBuffer<u64>,
        totals: &CudaBuffer<i64>,
        tiles: Option<Tiles<'_, Self>>,
        signs: &mut CudaBuffer<u64>,
    ) -> Result<()> {
        let lengths = [set.len(), totals.len(), signs.len()];
        let slots = check_signs(layout, rule, lengths, tiles.as_ref())?;
        let program = &FORCES[number(layout)];
        let (shape, means) = (FrontShape::new(layout), FrontMeans::new(layout, rule));
        let values = match (rule.speed, &rule.means) {
            (Some(speed), _) => In::from(speed),
            (None, Some(means)) => In::from(means.image),
            (None, None) => In::none(),
        };
        let (Some(slots), Some(tiles)) = (slots, tiles) else {
            let signs = Out::<u32>::cast(signs);
            let blocks = self.front_blocks(2 * layout.words());
            // SAFETY: values of points are read, and words of both sets are written.
            return unsafe {
                program.front_signs_all(self, blocks, shape, values, means, totals, signs)
            };
        };
        let slot = Log::place(slots, tiles.step) as u64;
        let signs = Out::<FrontCell>::cast(signs);
        let (cells, log) = (In::<FrontCell>::cast(set), In::<u64>::cast(tiles.log));
        let window = rule.window.as_ref().filter(|_| !rule.is_pointwise());
        let Some(window) = window else {
            let blocks = self.front_blocks(layout.tiles());
            // SAFETY: tiles of the plan are read and written, where they are tiles.
            return unsafe {
                program.front_signs(
                    self, blocks, shape, cells, values, means, totals, slot, tiles.plan, log, signs,
                )
            };
        };
        let extent = Extent::of(window.radius);
        let bend = FrontBend {
            weight: rule.curvature,
            factor: window.factor(),
            least: window.least(),
            spacing: window.spacing,
            radius: window.radius.map(|r| r as u32),
            flows: u32::from(rule.edges.is_some()),
            chunks: extent.chunks as u32,
            moments: extent.starts[0] as u32,
            of_y: extent.starts[1] as u32,
            of_z: extent.starts[2] as u32,
        };
        let [wide, tall, deep] = layout.tile();
        let [_, ry, rz] = window.radius;
        let shared = 2 * wide * (tall + 2 * ry) + 3 * wide * tall * (deep + 2 * rz);
        let blocks = layout.tiles().min(AT_ONCE * self.multiprocessors());
        let blocks = Shape::blocks(blocks, 256).with_shared(shared * size_of::<f32>());
        let edges = In::from(rule.edges);
        // SAFETY: as above; shared memory is as much as the window of the largest Gaussian takes.
        unsafe {
            program.front_signs_bent(
                self,
                blocks,
                shape,
                cells,
                set,
                values,
                means,
                edges,
                bend,
                window.tables,
                totals,
                slot,
                tiles.plan,
                log,
                signs,
            )
        }
    }

    fn front_step(
        &self,
        layout: &Layout,
        step: Step,
        set: &CudaBuffer<u64>,
        signs: &CudaBuffer<u64>,
        measured: Option<Measured<'_, Self>>,
        plan: &CudaBuffer<u32>,
        next: &mut CudaBuffer<u64>,
        tiles: &mut CudaBuffer<u32>,
        totals: &mut CudaBuffer<i64>,
        log: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let lengths = [set.len(), signs.len(), next.len(), totals.len(), log.len()];
        let planned = Some([plan.len(), tiles.len()]);
        let slots = check_step(layout, step, measured.as_ref(), lengths, planned)?;
        let (values, units) = measured_as(measured.as_ref());
        let program = &STEPS[number(layout)];
        let blocks = self.front_blocks(layout.tiles());
        let slot = Log::place(slots, step.number) as u64;
        let (set, signs) = (In::<FrontCell>::cast(set), In::<FrontCell>::cast(signs));
        let next = Out::<FrontCell>::cast(next);
        let (totals, log) = (Out::<u64>::cast(totals), Out::<u64>::cast(log));
        let stamp = step.number as u32 + 1;
        // SAFETY: tiles of the plan are read and written, where they are tiles.
        unsafe {
            program.front_step(
                self,
                blocks,
                FrontShape::new(layout),
                set,
                signs,
                values,
                units,
                slot,
                stamp,
                plan,
                next,
                tiles,
                totals,
                log,
            )
        }
    }

    fn front_step_all(
        &self,
        layout: &Layout,
        step: Step,
        set: &CudaBuffer<u64>,
        signs: &CudaBuffer<u64>,
        measured: Option<Measured<'_, Self>>,
        next: &mut CudaBuffer<u64>,
        totals: &mut CudaBuffer<i64>,
        log: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        let lengths = [set.len(), signs.len(), next.len(), totals.len(), log.len()];
        let slots = check_step(layout, step, measured.as_ref(), lengths, None)?;
        let slots = FrontSlots::new(layout, step, slots);
        let (values, units) = measured_as(measured.as_ref());
        let program = &STEPS[number(layout)];
        let shape = FrontShape::new(layout);
        let (set, signs) = (In::<u32>::cast(set), In::<u32>::cast(signs));
        let next = Out::<u32>::cast(next);
        let (totals, log) = (Out::<u64>::cast(totals), Out::<u64>::cast(log));
        let blocks = self.front_blocks(layout.words().div_ceil(16));
        // SAFETY: slots are in the log.
        unsafe {
            program.front_look(
                self,
                Shape::blocks(1, 32),
                shape,
                slots,
                totals.read(),
                log.clone(),
            )?;
        }
        // SAFETY: words of all sets are read and written.
        unsafe {
            program.front_step_all(
                self, blocks, shape, set, signs, values, units, slots.here, next, totals, log,
            )
        }
    }
}
