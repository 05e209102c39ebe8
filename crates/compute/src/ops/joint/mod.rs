//! Joint histograms of images that no single device has to hold, in whole numbers, and the sums that their derivative
//! in an affine map is made of.
//!
//! Everything here is an integer, and sums of integers are the same in any order: every backend gives the same bits, and
//! so does any way to cut images into blocks and to share them among devices and ranks. Coordinates in fixed point are
//! as fine in the last of 2²⁰ pixels as in the first, where single precision has steps of 1/128 pixel at 65,536.
//!
//! # The rules
//!
//! **Coordinates.** A [`FixedPointMap`] brings a fixed pixel to an exact coordinate of 32 fractional bits, which is rounded
//! to the coordinate `q` of the sample, of 8 fractional bits: to nearest, ties up.
//!
//! **Samples.** A fixed pixel takes part if its bin is not [`NO_SAMPLE`] and `0 ≤ q_a ≤ 256 (n_a − 1)` along each axis of the
//! moving image, whose sizes are `n`: both ends are included, and along an axis of one pixel only `q = 0` takes part.
//!
//! **Interpolation.** Linear, in the cell `m_a = min(⌊q_a / 256⌋, max(n_a − 2, 0))` with the weight `w_a = q_a − 256 m_a`, from 0 to 256,
//! of its upper pixel and `256 − w_a` of its lower one. The sum over the four or eight corners is exact: it has 8 fractional bits for each
//! axis, two where the moving image has one plane and else three. No texture units: theirs have other weights.
//!
//! **Bins.** Those of the fixed image are [`FixedBins`], made once; that of the interpolated value is its place among
//! [`MovingBins`], `p`. With [`Window::Plain`] the sample adds 1 to the entry of its fixed bin `b` in the column `⌊p / 256⌋`. With [`Window::Cubic`]
//! it adds the weight `k` of the [table](window_tables) at `p mod 256` to the column `⌊p / 256⌋ + k`, for `k` from 0 to 3: 4096 in all.
//!
//! **Slopes.** With a table `L` of a number for each entry of the histogram, held within ±[`MOST_SLOPE`], each sample has
//! `s = ⌊(Σ_k dw_k L_{b, m+k} + 2¹¹) / 2¹²⌋` with the derivatives `dw` of the window; 0 if its value, cut as for its place, was outside of the range. Let `D_d`
//! be the difference of the two faces of its cell across axis `d`, each interpolated along the other axes, which has 8 fractional bits for
//! each of those; 0 along an axis of one pixel. Then `h_d = ⌊(s D_d + 2^(k−1)) / 2^k⌋` with `k = 8 (axes − 1)` for pixels of 8 bits and 8 more for
//! 16 bits. As `|s| < 1.5·2²² + 1` and `|D_d| < 2^(8+k)`, `|h_d| < 2³¹`. Summed are `h_d` and `h_d q_e`: [`JointSlopes`].
//!
//! # Overflow
//!
//! Counters of 32 bits are added to those of 64 bits after at most 2²⁰ samples, each of which adds at most 2731 to an entry. Of a product `h_d q_e` the sums over the
//! lower 14 bits of `q_e` and over the upper 14 are kept apart: each term is below 2⁴⁵, and after at most 2¹⁸ samples they are split into
//! two numbers of 32 bits that are added to sums of 64 bits, which 2³¹ such pieces do not fill.

mod bins;
mod blocks;
mod lent;
mod map;
mod messages;
mod slopes;
mod walk;

use voxalign_compute_macros::forwarded;

use crate::Dims;
use crate::device::Memory;
use crate::error::{ComputeError, Result, check_len};

pub use bins::{
    FixedBins, MOST_BINS, MovingBins, NO_SAMPLE, PLACE_BITS, Pixel, WINDOW_SUM, Window,
    WindowTable, window_tables,
};
pub use blocks::{Block, BlockRule, Decomposition, Halo, cells};
pub use lent::{Brick, FixedPart, Lend, Pixels};
pub(crate) use map::CUT;
pub use map::{COORDINATE_BITS, FixedPointMap, MAP_BITS, MOST_PIXELS, PIXEL};
pub(crate) use messages::check_messages;
pub use messages::{Collect, MessageLayout, Messages, Outbox, Sending};
pub use slopes::JointSlopes;
pub(crate) use slopes::{LOW_BITS, NUMBERS, add_split, moment};
pub use walk::{PixelsPerThread, Walk};

/// The largest number of a table of slopes, in size; what is beyond is held there.
pub const MOST_SLOPE: i32 = 1 << 22;
/// Numbers after those of a histogram or of slopes: the samples, and how many of them were not in the first brick.
pub const TALLIES: usize = 2;

/// What is counted how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JointRule {
    /// From fixed pixels to the moving image.
    pub map: FixedPointMap,
    /// The sizes of the whole moving image.
    pub moving: Dims,
    /// The number of fixed bins.
    pub fixed_bins: usize,
    /// The moving bins.
    pub moving_bins: MovingBins,
    /// The window over them.
    pub window: Window,
    /// How a GPU shares pixels among its threads; bits do not depend on it.
    pub pixels_per_thread: PixelsPerThread,
    /// The most samples between two additions of counters of 32 bits to those of 64 bits; what is not safe is reduced. Bits do
    /// not depend on it.
    pub most_at_once: u32,
}

impl JointRule {
    /// The most samples between two additions that are safe for counts, and for slopes.
    pub const SAFE: [u32; 2] = [1 << 20, 1 << 18];

    /// Counts, with the usual options of a GPU.
    #[must_use]
    pub fn new(
        map: FixedPointMap,
        moving: Dims,
        fixed_bins: usize,
        moving_bins: MovingBins,
        window: Window,
    ) -> Self {
        let (pixels_per_thread, most_at_once) = (PixelsPerThread::default(), Self::SAFE[0]);
        Self { map, moving, fixed_bins, moving_bins, window, pixels_per_thread, most_at_once }
    }

    /// The same under another map.
    #[must_use]
    pub fn under(self, map: FixedPointMap) -> Self {
        Self { map, ..self }
    }

    /// The columns of the histogram: the moving bins, and three more with a cubic window.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.moving_bins.columns(self.window)
    }

    /// The entries of the histogram, `fixed bins x columns`, the columns of a bin one after the other.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.fixed_bins * self.columns()
    }

    /// The numbers that [`Joint::joint_add`] adds to: the entries and [`TALLIES`], or those of slopes.
    #[must_use]
    pub fn numbers(&self, with_slopes: bool) -> usize {
        TALLIES + if with_slopes { 2 * NUMBERS } else { self.entries() }
    }

    /// The axes that are interpolated along: 2 where the moving image has one plane.
    #[must_use]
    pub fn axes(&self) -> usize {
        if self.moving[2] == 1 { 2 } else { 3 }
    }

    /// The samples between two additions.
    pub(crate) fn at_once(&self, with_slopes: bool) -> u32 {
        self.most_at_once.clamp(1, Self::SAFE[usize::from(with_slopes)])
    }

    /// The bits that a product of slopes and differences loses.
    pub(crate) fn slope_cut(&self, wide: bool) -> u32 {
        8 * (self.axes() as u32 - 1) + if wide { 8 } else { 0 }
    }

    /// The coordinates of samples in some cells: from and to, with the fractional bits of the map and half of the last bit that is kept added. Nothing is within those of no cells.
    pub(crate) fn limits(&self, of: &Block) -> [[i64; 2]; 3] {
        if of.is_empty() {
            return [[0; 2]; 3];
        }
        let all = cells(self.moving);
        [0, 1, 2].map(|a| {
            let end = match of.end(a) {
                end if end >= all[a] => PIXEL * (self.moving[a] as i64 - 1) + 1,
                end => PIXEL * end as i64,
            };
            [(PIXEL * of.origin[a] as i64) << CUT, end << CUT]
        })
    }
}

/// Exact joint histograms of blocks of images.
///
/// Numbers are *added* to what `out` holds; it has to be zero at the beginning. Its sums over any devices and ranks are those of whole images.
#[forwarded]
pub trait Joint: Memory {
    /// Adds the samples at the pixels of `fixed.part` whose cell is in one of the bricks, each from the first brick that has
    /// it. Without `table` the joint histogram: `out` has [`JointRule::numbers`], the entries, then the number of samples, and of those of later
    /// bricks. With a `table` of slopes, `fixed bins x columns`, it adds what [`JointSlopes`] are made of.
    ///
    /// # Errors
    /// Wrong lengths; blocks that do not fit each other or the images; a table without a cubic window; pixels of two kinds; on a GPU bricks in
    /// memory of the host that it cannot reach.
    fn joint_add(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        bricks: &[Brick<'_, Self>],
        table: Option<&Self::Buffer<i32>>,
        out: &mut Self::Buffer<i64>,
    ) -> Result<()>;

    /// Writes the samples at the pixels of `fixed.part` whose cell belongs to another rank as messages: to the list of that rank in
    /// `words`, as [`Sending`] says, with the numbers of all ranks' messages in `counts`. `scratch` has [`Sending::scratch`] numbers.
    ///
    /// # Errors
    /// Wrong lengths; blocks that do not fit.
    fn joint_send(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        sending: &Sending,
        words: &mut Self::Buffer<u32>,
        counts: &mut Self::Buffer<u32>,
        scratch: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// Adds the samples of messages, all in the cells of the brick, as [`joint_add`](Self::joint_add) does. A message whose cell is not in the brick
    /// adds nothing. The messages may be in the memory of another device of this kind, which has to be done with them, and whose owner may not change
    /// them meanwhile.
    ///
    /// # Errors
    /// As [`joint_add`](Self::joint_add); messages in memory that this device does not reach, which it says also of a list of no messages.
    fn joint_receive(
        &self,
        rule: &JointRule,
        messages: &Messages<'_, Self>,
        brick: &Brick<'_, Self>,
        table: Option<&Self::Buffer<i32>>,
        out: &mut Self::Buffer<i64>,
    ) -> Result<()>;
}

/// Checks a rule, and that a table and an output fit it.
pub(crate) fn check_rule(rule: &JointRule, table: Option<usize>, out: usize) -> Result<()> {
    map::check_dims("the size of the moving image", rule.moving)?;
    if !(1..=MOST_BINS).contains(&rule.fixed_bins) {
        let (what, found) = ("the number of fixed bins", rule.fixed_bins);
        return Err(ComputeError::argument(what, found, "between 1 and 128"));
    }
    if let Some(len) = table {
        check_len("table of slopes", rule.entries(), len)?;
        if rule.window == Window::Plain {
            let what = "the window of a histogram with slopes";
            return Err(ComputeError::argument(what, "plain", "cubic"));
        }
    }
    check_len("joint histogram", rule.numbers(table.is_some()), out)
}

/// Checks a fixed block and the part of it.
pub(crate) fn check_fixed<D: Memory>(fixed: &FixedPart<'_, D>) -> Result<()> {
    use crate::device::DeviceBuffer;
    check_len("bins of the fixed block", fixed.block.len(), fixed.bins.len())?;
    let ends = (0..3).all(|a| fixed.block.end(a) <= MOST_PIXELS);
    if !ends || !fixed.block.encloses(&fixed.part) {
        let value = format!("{:?} of {:?}", fixed.part, fixed.block);
        let expected = "within the block, and that within 2^20 pixels along each axis";
        return Err(ComputeError::argument("the part of a fixed block", value, expected));
    }
    Ok(())
}

/// Checks bricks; whether their pixels have 16 bits.
pub(crate) fn check_bricks<D: Memory>(rule: &JointRule, bricks: &[Brick<'_, D>]) -> Result<bool> {
    let whole = Block::whole(rule.moving);
    let mut wide = None;
    for brick in bricks {
        check_len("pixels of a moving block", brick.stored.len(), brick.pixels.len()?)?;
        // The lower and the upper pixels of its cells.
        let upper = [0, 1, 2].map(|a| usize::from(rule.moving[a] > 1));
        let needed = Block {
            origin: brick.cells.origin,
            dims: [0, 1, 2].map(|a| brick.cells.dims[a].saturating_add(upper[a])),
        };
        let rows = brick.stored.dims[1] as u64 * brick.stored.dims[2] as u64;
        let fits = brick.cells.is_empty() || brick.stored.encloses(&needed);
        if !whole.encloses(&brick.stored) || !fits || rows > u64::from(u32::MAX) {
            return Err(ComputeError::argument(
                "a moving block",
                format!("{:?} for the cells {:?}", brick.stored, brick.cells),
                "within the image, with the pixels of its cells, and at most 2^32 rows",
            ));
        }
        if *wide.get_or_insert(brick.pixels.is_wide()) != brick.pixels.is_wide() {
            let what = "the pixels of moving blocks";
            return Err(ComputeError::argument(what, "of 8 and of 16 bits", "all of one kind"));
        }
    }
    Ok(wide.unwrap_or(false))
}
