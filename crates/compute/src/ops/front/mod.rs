//! Updates of level-set fronts: a set of points as bits, its tiles that can change, and one iteration of a fast level set.
//!
//! A front is that between a set `S` and the other points of an image; what is beyond the border does not exist. With the points `P` at which a force is above
//! 0 and those at which it is below, `N`, an iteration (Y. Shi and W. Karl, IEEE Transactions on Image Processing 17, 2008; all of a
//! scan goes by the set that there was when it began) is
//!
//! ```text
//! S1 = S ∪ (outer(S) ∩ P)
//! S2 = S1 \ (S ∩ inner(S1) ∩ N)
//! ```
//!
//! where `outer` are the points outside with a neighbour inside, and `inner` those inside with a neighbour outside.
//!
//! # Sets
//!
//! A set has one bit a point: rows along x of [`Layout::row_words`] words, y before z, bit `i` of word `w` of a row being x = 64 `w` + `i`.
//! Bits beyond a row are 0. [`Layout::pack`] and [`Layout::unpack`] convert. Signs are two such sets, `P` and then `N`, in one buffer.
//!
//! # Tiles
//!
//! An image is cut into tiles of 16 × 16 points, or 8 × 8 × 8 in a volume, x fastest. An iteration of tiles goes over a plan, the list
//! of those that can change (G. Tornai, *Design and optimization of medical image processing algorithms on many-core architectures*, PhD
//! thesis, Pázmány Péter Catholic University 2014, section 3.8.2). It reads one buffer of the set and writes another, and the two take turns: a tile is planned
//! whenever it changed in the iteration before, so that those that are not have the same in both.
//!
//! How many tiles there are in a plan stays on the device, and so does what the iterations count: the [`log`](crate::ops::front::Slot) has a slot for each, and the host
//! reads many at once. Where an iteration has nothing to do any more, because the one before switched nothing, because the set is empty or has
//! all points, or because it repeats itself, its plan is empty, and so are those after it.
//!
//! ```
//! use voxalign_compute::ops::Front;
//! use voxalign_compute::ops::front::{Layout, Log, Rule, Step, TOTALS};
//! use voxalign_compute::{Memory, cpu::Cpu};
//!
//! // A line of 40 points, of which the force draws in those below 30.
//! let cpu = Cpu::new(None)?;
//! let layout = Layout::new([40, 1, 1], 1)?;
//! let speed: Vec<f32> = (0..40).map(|x| if x < 30 { 1.0 } else { -1.0 }).collect();
//! let start: Vec<bool> = (0..40).map(|x| x == 20).collect();
//!
//! let speed = cpu.upload(&speed)?;
//! let rule = Rule { speed: Some(&speed), ..Rule::NONE };
//! let mut set = cpu.upload_vec(layout.pack(&start)?)?;
//! let mut next = cpu.alloc(layout.words())?;
//! let mut signs = cpu.alloc(2 * layout.words())?;
//! let mut tiles = cpu.alloc(2 * layout.tiles())?;
//! let mut totals = cpu.alloc(TOTALS)?;
//! let mut log = cpu.alloc(Log::len_of(32))?;
//!
//! cpu.front_begin(&layout, &set, None, &mut tiles, &mut totals, &mut log)?;
//! cpu.front_signs(&layout, &rule, &set, &totals, None, &mut signs)?;
//! for number in 0..22 {
//!     let step = Step { number, ends_on_repeats: true };
//!     cpu.front_step_all(&layout, step, &set, &signs, None, &mut next, &mut totals, &mut log)?;
//!     std::mem::swap(&mut set, &mut next);
//! }
//! // It came to rest after 20 iterations.
//! let numbers = cpu.into_host(log)?;
//! let log = Log::new(&numbers)?;
//! assert_eq!((log.slot(0).inwards, log.slot(15).inwards, log.slot(20).inwards), (2, 1, 0));
//! assert_eq!((log.slot(20).tiles, log.slot(21).tiles), (3, 0));
//! let found = layout.unpack(&cpu.into_host(set)?)?;
//! assert!((0..40).all(|x| found[x] == (x < 30)));
//! # Ok::<(), voxalign_compute::ComputeError>(())
//! ```

mod gaussian;
mod layout;
mod log;
mod rule;

use voxalign_compute_macros::forwarded;

use crate::device::{DeviceBuffer, Memory};
use crate::error::{ComputeError, Result, check_len};

pub(crate) use gaussian::{Axis, BYTE, Extent, check_radius, radius_of};
pub use gaussian::{Gaussian, MOST_RADIUS_2D, MOST_RADIUS_3D, Window};
pub use layout::Layout;
pub(crate) use log::has_ended;
pub use log::{LEAST_SLOTS, Log, SLOT, Slot, TOTALS, Totals};
pub use rule::{Measured, Object, Rule, TwoMeans, Units, means};

/// An iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its number, from 0 on.
    pub number: usize,
    /// Whether iterations end where a set is what it was two iterations before, from the third on. The force must then depend on nothing but the set.
    pub ends_on_repeats: bool,
}

/// The most iterations from a start.
pub const MOST_STEPS: usize = u32::MAX as usize - 1;

/// Which tiles are planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// Those that changed in the iteration before, and all that touch one: where signs never change.
    Changes,
    /// Those, and all that have points of the front: where signs change.
    Fronts,
}

/// The tiles of a plan.
#[derive(Debug)]
#[forwarded]
pub struct Tiles<'a, D: Memory> {
    /// Their numbers.
    pub plan: &'a D::Buffer<u32>,
    /// The log, whose slot says how many they are.
    pub log: &'a D::Buffer<i64>,
    /// The number of the iteration.
    pub step: usize,
}

/// Updates of fronts; see the [module](self).
///
/// Buffers: `set` and `next` have [`Layout::words`] words, `signs` twice as many, `plan` a number for each tile, `tiles` two for each tile (when it
/// changed last, and its points of the front), `totals` [`TOTALS`] numbers, `log` [`Log::len_of`] so many as there are slots. What they hold is what
/// these operators have written: they are made of zeros and given to [`front_begin`](Self::front_begin).
///
/// An iteration of tiles is [`front_plan`](Self::front_plan), [`front_signs`](Self::front_signs) unless they are static, and
/// [`front_step`](Self::front_step); one of all points is [`front_step_all`](Self::front_step_all) alone.
///
/// Everything that is counted is a whole number, and every sign is that of one order of operations, so that all devices give the same bits. The order of a plan
/// may differ.
///
/// # Errors
/// All operators: wrong lengths; an iteration beyond [`MOST_STEPS`].
#[forwarded]
pub trait Front: Memory {
    /// Before the first iteration: the totals of a set are counted and written to the head of the log as well, its slots are cleared, and so is what is known of the tiles.
    /// Without measured values their sums are 0.
    ///
    /// # Errors
    /// As said at [`Front`].
    fn front_begin(
        &self,
        layout: &Layout,
        set: &Self::Buffer<u64>,
        measured: Option<Measured<'_, Self>>,
        tiles: &mut Self::Buffer<u32>,
        totals: &mut Self::Buffer<i64>,
        log: &mut Self::Buffer<i64>,
    ) -> Result<()>;

    /// The tiles of an iteration: all in the first one, none where there is [nothing to do](self#tiles), and otherwise those that `planned` says. Writes their number to
    /// the slot of the iteration, and clears that of the next.
    ///
    /// # Errors
    /// As said at [`Front`].
    #[allow(clippy::too_many_arguments)]
    fn front_plan(
        &self,
        layout: &Layout,
        step: Step,
        planned: Planned,
        tiles: &Self::Buffer<u32>,
        totals: &Self::Buffer<i64>,
        plan: &mut Self::Buffer<u32>,
        log: &mut Self::Buffer<i64>,
    ) -> Result<()>;

    /// Where the force of a rule is above 0, and where below. In the tiles of a plan: at the points of the front, P outside and N inside, and
    /// nowhere else in these tiles; other tiles stay as they are. Without a plan: at all points, for rules without curvature.
    ///
    /// # Errors
    /// As said at [`Front`]; a speed and means in one rule; a curvature without a window or without a plan; edges without curvature; a weight that
    /// is not a number.
    fn front_signs(
        &self,
        layout: &Layout,
        rule: &Rule<'_, Self>,
        set: &Self::Buffer<u64>,
        totals: &Self::Buffer<i64>,
        tiles: Option<Tiles<'_, Self>>,
        signs: &mut Self::Buffer<u64>,
    ) -> Result<()>;

    /// An iteration of the tiles of a plan: writes them to `next`, and what changed to the totals and the slot of the iteration.
    ///
    /// # Errors
    /// As said at [`Front`].
    #[allow(clippy::too_many_arguments)]
    fn front_step(
        &self,
        layout: &Layout,
        step: Step,
        set: &Self::Buffer<u64>,
        signs: &Self::Buffer<u64>,
        measured: Option<Measured<'_, Self>>,
        plan: &Self::Buffer<u32>,
        next: &mut Self::Buffer<u64>,
        tiles: &mut Self::Buffer<u32>,
        totals: &mut Self::Buffer<i64>,
        log: &mut Self::Buffer<i64>,
    ) -> Result<()>;

    /// An iteration of all points, 64 a word, without a plan: the whole of `next` is written, unless there is [nothing to do](self#tiles). In the slot of the iteration the
    /// tiles are all or none, and the points of the front those of the set that it began with. The slot of the next is cleared.
    ///
    /// # Errors
    /// As said at [`Front`].
    #[allow(clippy::too_many_arguments)]
    fn front_step_all(
        &self,
        layout: &Layout,
        step: Step,
        set: &Self::Buffer<u64>,
        signs: &Self::Buffer<u64>,
        measured: Option<Measured<'_, Self>>,
        next: &mut Self::Buffer<u64>,
        totals: &mut Self::Buffer<i64>,
        log: &mut Self::Buffer<i64>,
    ) -> Result<()>;
}

fn check_measured<D: Memory>(layout: &Layout, measured: Option<&Measured<'_, D>>) -> Result<()> {
    let Some(measured) = measured else { return Ok(()) };
    check_len("measured values", layout.points(), measured.values.len())?;
    check_units(&measured.units)
}

pub(crate) fn check_units(units: &Units) -> Result<()> {
    for value in [units.scale, units.squares] {
        if !(value.is_normal() && value > 0.0) {
            return Err(ComputeError::argument("units of a value", value, "above 0"));
        }
    }
    check_number("value that counts as zero", units.offset)
}

fn check_number(what: &'static str, value: f64) -> Result<()> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(ComputeError::argument(what, value, "a finite number")),
    }
}

fn check_number_of(step: usize) -> Result<u32> {
    match u32::try_from(step) {
        Ok(number) if step <= MOST_STEPS => Ok(number),
        _ => Err(ComputeError::argument("iteration", step, "below 2^32 - 1")),
    }
}

/// Checks the arguments of [`Front::front_begin`], with the lengths of its buffers.
pub(crate) fn check_begin<D: Memory>(
    layout: &Layout,
    set: usize,
    measured: Option<&Measured<'_, D>>,
    [tiles, totals, log]: [usize; 3],
) -> Result<()> {
    check_len("set", layout.words(), set)?;
    check_measured(layout, measured)?;
    check_len("tiles", 2 * layout.tiles(), tiles)?;
    check_len("totals", TOTALS, totals)?;
    Log::slots(log).map(|_| ())
}

/// Checks the arguments of [`Front::front_plan`], with the lengths of its buffers; the slots of the log.
pub(crate) fn check_plan(
    layout: &Layout,
    step: Step,
    [tiles, totals, plan, log]: [usize; 4],
) -> Result<usize> {
    check_number_of(step.number)?;
    check_len("tiles", 2 * layout.tiles(), tiles)?;
    check_len("totals", TOTALS, totals)?;
    check_len("plan", layout.tiles(), plan)?;
    Log::slots(log)
}

/// Checks the arguments of [`Front::front_signs`], with the lengths of its buffers; the slots of the log where there is a plan.
pub(crate) fn check_signs<D: Memory>(
    layout: &Layout,
    rule: &Rule<'_, D>,
    [set, totals, signs]: [usize; 3],
    tiles: Option<&Tiles<'_, D>>,
) -> Result<Option<usize>> {
    check_len("set", layout.words(), set)?;
    check_len("totals", TOTALS, totals)?;
    check_len("signs", 2 * layout.words(), signs)?;
    check_number("weight of the curvature", rule.curvature)?;
    if let Some(speed) = rule.speed {
        check_len("speed", layout.points(), speed.len())?;
    }
    if let Some(means) = &rule.means {
        if rule.speed.is_some() {
            return Err(ComputeError::argument("a speed", "given beside two means", "one of both"));
        }
        check_len("image of two means", layout.points(), means.image.len())?;
        check_units(&means.units)?;
        for value in means.weights.into_iter().chain(means.fixed.into_iter().flatten()) {
            check_number("weight or value of a mean", value)?;
        }
    }
    if let Some(edges) = rule.edges {
        check_len("edges", layout.points(), edges.len())?;
    }
    match &rule.window {
        Some(window) => window.check(layout).map(|_| ())?,
        None if !rule.is_pointwise() => {
            return Err(ComputeError::argument("window of a curvature", "missing", "a Gaussian"));
        }
        None => {}
    }
    if rule.is_pointwise() && rule.edges.is_some() {
        let what = "weight of the curvature beside edges";
        return Err(ComputeError::argument(what, 0, "other than 0"));
    }
    let Some(tiles) = tiles else {
        return match rule.is_pointwise() {
            true => Ok(None),
            false => Err(ComputeError::argument("plan of a curvature", "missing", "there")),
        };
    };
    check_number_of(tiles.step)?;
    check_len("plan", layout.tiles(), tiles.plan.len())?;
    Log::slots(tiles.log.len()).map(Some)
}

/// Checks the arguments of [`Front::front_step`] or [`Front::front_step_all`], with the lengths of the buffers that they share, and of the plan and the tiles where there is a plan;
/// the slots of the log.
pub(crate) fn check_step<D: Memory>(
    layout: &Layout,
    step: Step,
    measured: Option<&Measured<'_, D>>,
    [set, signs, next, totals, log]: [usize; 5],
    planned: Option<[usize; 2]>,
) -> Result<usize> {
    check_number_of(step.number)?;
    check_len("set", layout.words(), set)?;
    check_len("signs", 2 * layout.words(), signs)?;
    check_measured(layout, measured)?;
    check_len("next set", layout.words(), next)?;
    check_len("totals", TOTALS, totals)?;
    if let Some([plan, tiles]) = planned {
        check_len("plan", layout.tiles(), plan)?;
        check_len("tiles", 2 * layout.tiles(), tiles)?;
    }
    Log::slots(log)
}
