//! The `joint` family on a GPU: tables of counters in shared memory, samples from the first brick that has them.

pub(in crate::cuda) mod messages;

use std::sync::LazyLock;

use super::{Cuda, CudaBuffer, Shape};
use crate::Dims;
use crate::cuda::declare::{In, Out};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::joint::{
    Block, Brick, CUT, FixedPart, Joint, JointRule, Messages, NUMBERS, Sending, Walk, Window,
    check_bricks, check_fixed, check_rule,
};

plain! {
    /// The map, with the rows of its matrix one after the other.
    struct JointMap {
        matrix: [i64; 9],
        offset: [i64; 3],
    }
}

plain! {
    /// Moving values and their bins.
    struct JointBins {
        moving: [u32; 3],
        low: u32,
        high: u32,
        cut: u32,
        factor: u32,
        last: u32,
        columns: u32,
        entries: u32,
        slope_cut: u32,
    }
}

plain! {
    /// A fixed block, and a part of it: where that begins in the block and in the image, and its sizes.
    struct JointPart {
        block: [u32; 3],
        shift: [u32; 3],
        origin: [u32; 3],
        dims: [u32; 3],
    }
}

plain! {
    /// A block of moving pixels: their address, the distances of rows and planes, the first pixel, and the coordinates that it
    /// answers for.
    struct JointBrick {
        pixels: u64,
        row: u64,
        plane: u64,
        origin: [u32; 3],
        low: [u32; 3],
        high: [u32; 3],
        padding: u32,
    }
}

plain! {
    /// How threads share the pixels of a tile: what exact coordinates change by from a pixel of a thread to its next along x, the lanes of a warp and the warps of a block along x, the pixels of a tile, from a thread to the
    /// next, from a pixel of a thread to its next, and the pixels of a thread.
    struct JointWalk {
        step: [i64; 3],
        tiles: u64,
        across: u32,
        down: u32,
        lanes: u32,
        warps: u32,
        tile: [u32; 2],
        apart: [u32; 2],
        next: [u32; 2],
        sides: [u32; 2],
    }
}

cells! {
    /// A [`JointBrick`], in words of 64 bits.
    BrickCell = "JointBrick";
    /// Pixels of 8 or 16 bits.
    PixelCell = "Pixel";
}

kernels! { JOINT = "joint/joint.cu";
    fn joint_count[512](
        map: JointMap, bins: JointBins, part: JointPart, fixed: &[u8], first: JointBrick,
        all: &[BrickCell], count: u32, own: &[PixelCell], walk: JointWalk, most: u32, copies: u32, out: &mut [u64],
    );
    fn joint_slopes[256](
        map: JointMap, bins: JointBins, part: JointPart, fixed: &[u8], first: JointBrick,
        all: &[BrickCell], count: u32, own: &[PixelCell], walk: JointWalk, most: u32, slopes: &[i32], out: &mut [u64],
    );
}

/// Threads of a block that counts, and of one that sums slopes, whose samples have to fit in 64 bits.
const COUNTING: usize = 512;
const SUMMING: usize = 256;
/// Shared memory of tables of a block, of which several run on a multiprocessor; a table may take more.
const USUAL: usize = 64 << 10;
/// The most tables of a block.
const MOST_TABLES: usize = 8;
/// Shared memory that kernels take beside their tables.
const BESIDE: usize = 8 << 10;
/// Blocks for each multiprocessor, of which two, three or four run at once: none of these leaves some without work at the end.
const WAVES: usize = 12;

/// The programs by the bits of pixels, axes and window.
static PROGRAMS: LazyLock<Vec<JOINT>> =
    LazyLock::new(|| (0..8).map(|number| JOINT.with(&macros(number))).collect());

/// What a program is made with.
fn macros(number: usize) -> [(&'static str, i64); 3] {
    let bit = |k: usize| (number >> k & 1) as i64;
    [("WIDE", bit(0)), ("AXES", 2 + bit(1)), ("CUBIC", bit(2))]
}

/// The number of the program for a rule.
fn number(rule: &JointRule, wide: bool) -> usize {
    let bits = [wide, rule.axes() == 3, rule.window == Window::Cubic];
    bits.into_iter().enumerate().map(|(k, bit)| usize::from(bit) << k).sum()
}

impl JointBrick {
    /// The same in memory, as kernels read it.
    fn words(&self) -> [u64; 8] {
        let pair = |a: u32, b: u32| u64::from(a) | u64::from(b) << 32;
        let (o, l, h) = (self.origin, self.low, self.high);
        let rest = [pair(o[0], o[1]), pair(o[2], l[0]), pair(l[1], l[2]), pair(h[0], h[1])];
        let [a, b, c, d] = rest;
        [self.pixels, self.row, self.plane, a, b, c, d, pair(h[2], self.padding)]
    }
}

impl JointMap {
    fn new(rule: &JointRule) -> Self {
        let m = &rule.map.matrix;
        Self { matrix: std::array::from_fn(|k| m[k / 3][k % 3]), offset: rule.map.offset }
    }
}

impl JointWalk {
    /// That of blocks of so many warps in a part of these sizes.
    fn new(rule: &JointRule, part: Dims, warps: usize) -> Self {
        let walk = rule.pixels_per_thread.walk(&rule.map);
        let tile = walk.tile(warps);
        let (across, down) = (part[0].div_ceil(tile[0]), part[1].div_ceil(tile[1]));
        let of = |pair: [usize; 2]| pair.map(|n| n as u32);
        let next = walk.between_pixels(warps)[0] as i64;
        Self {
            step: [0, 1, 2].map(|r| next * rule.map.matrix[r][0]),
            tiles: (across * down * part[2]) as u64,
            across: across as u32,
            down: down as u32,
            lanes: walk.lanes[0] as u32,
            warps: (walk.threads(warps)[0] / walk.lanes[0]) as u32,
            tile: of(tile),
            apart: of(walk.between_threads()),
            next: of(walk.between_pixels(warps)),
            sides: of(walk.sides),
        }
    }
}

impl JointBins {
    fn new(rule: &JointRule, wide: bool) -> Self {
        let bins = &rule.moving_bins;
        let (low, high) = bins.range();
        Self {
            moving: rule.moving.map(|n| n as u32),
            low: u32::from(low) << bins.bits(),
            high: u32::from(high) << bins.bits(),
            cut: bins.cut(rule.axes() as u32),
            factor: bins.factor(),
            last: bins.last(),
            columns: rule.columns() as u32,
            entries: rule.entries() as u32,
            slope_cut: rule.slope_cut(wide),
        }
    }
}

impl JointPart {
    fn new<D: Memory>(fixed: &FixedPart<'_, D>) -> Self {
        let of = |f: &dyn Fn(usize) -> usize| [0, 1, 2].map(|a| f(a) as u32);
        Self {
            block: of(&|a| fixed.block.dims[a]),
            shift: of(&|a| fixed.part.origin[a] - fixed.block.origin[a]),
            origin: of(&|a| fixed.part.origin[a]),
            dims: of(&|a| fixed.part.dims[a]),
        }
    }
}

/// The coordinates of samples in some cells: from and to, with 8 fractional bits.
fn coordinates(rule: &JointRule, cells: &Block) -> [[u32; 3]; 2] {
    let limits = rule.limits(cells);
    [0, 1].map(|end| [0, 1, 2].map(|a| (limits[a][end] >> CUT) as u32))
}

impl Cuda {
    /// A brick as kernels take it.
    fn brick(&self, rule: &JointRule, brick: &Brick<'_, Self>) -> Result<JointBrick> {
        let pixels = &brick.pixels;
        let address = match (pixels.bytes, pixels.words, pixels.host_bytes, pixels.host_words) {
            (Some(bytes), ..) => bytes.reached_by(self)?,
            (_, Some(words), ..) => words.reached_by(self)?,
            (_, _, Some(bytes), _) => self.host_address(bytes)?,
            (.., Some(words)) => self.host_address(words)?,
            _ => 0,
        };
        let row = brick.stored.dims[0] as u64;
        let [low, high] = coordinates(rule, &brick.cells);
        Ok(JointBrick {
            pixels: address,
            row,
            plane: row * brick.stored.dims[1] as u64,
            origin: brick.stored.origin.map(|o| o as u32),
            low,
            high,
            padding: 0,
        })
    }

    /// Tables of a block in shared memory; none where not even one fits.
    fn tables(&self, rule: &JointRule) -> usize {
        let each = rule.entries() * size_of::<u32>();
        let room = self.shared_memory().saturating_sub(BESIDE);
        if each > room { 0 } else { (USUAL.min(room) / each).clamp(1, MOST_TABLES) }
    }
}

/// The pixels of the first brick, where they are in a buffer of a device.
fn own_pixels(brick: Option<&Brick<'_, Cuda>>) -> In<PixelCell> {
    let Some(pixels) = brick.map(|brick| &brick.pixels) else { return In::none() };
    match (pixels.bytes, pixels.words) {
        (Some(bytes), _) => In::cast(bytes),
        (_, Some(words)) => In::cast(words),
        _ => In::none(),
    }
}

impl Joint for Cuda {
    fn joint_add(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        bricks: &[Brick<'_, Self>],
        table: Option<&CudaBuffer<i32>>,
        out: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        check_rule(rule, table.map(DeviceBuffer::len), out.len())?;
        check_fixed(fixed)?;
        let wide = check_bricks(rule, bricks)?;
        if fixed.part.is_empty() || bricks.is_empty() {
            return Ok(());
        }
        let program = &PROGRAMS[number(rule, wide)];
        let all = bricks.iter().map(|brick| self.brick(rule, brick)).collect::<Result<Vec<_>>>()?;
        let first = all[0];
        // The first passes by value.
        let list = match all.len() {
            1 => None,
            _ => Some(self.upload_vec(all.iter().flat_map(JointBrick::words).collect())?),
        };
        let threads = if table.is_some() { SUMMING } else { COUNTING };
        let walk = JointWalk::new(rule, fixed.part.dims, threads / Walk::LANES);
        let tiles = walk.tiles as usize;
        let shape = Shape::blocks(tiles.min(WAVES * self.multiprocessors()), threads as u32);
        let (map, bins, part) =
            (JointMap::new(rule), JointBins::new(rule, wide), JointPart::new(fixed));
        let (count, own) = (bricks.len() as u32, own_pixels(bricks.first()));
        let is_one_of_ours = bricks.len() == 1 && bricks[0].pixels.is_on_device();
        let most = rule.at_once(table.is_some());
        let all = list.as_ref().map_or_else(In::none, In::<BrickCell>::cast);
        let out = Out::<u64>::cast(out);
        // SAFETY: pixels of the part are read in the block, which encloses it, those of samples in bricks that have the pixels of their
        // cells; entries are below the number of them.
        unsafe {
            match table {
                Some(table) => program.joint_slopes(
                    self, shape, map, bins, part, fixed.bins, first, all, count, own, walk, most,
                    table, out,
                ),
                None => {
                    let copies = self.tables(rule);
                    let shape = shape.with_shared(copies * rule.entries() * size_of::<u32>());
                    program.joint_count(
                        self,
                        shape,
                        map,
                        bins,
                        part,
                        fixed.bins,
                        first,
                        all,
                        count,
                        own,
                        walk,
                        most,
                        copies as u32,
                        out,
                    )
                }
            }?;
        }
        // Of what is read by its address, only the first brick is known to the stream.
        if is_one_of_ours { Ok(()) } else { self.synchronize() }
    }

    fn joint_send(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        sending: &Sending,
        words: &mut CudaBuffer<u32>,
        counts: &mut CudaBuffer<u32>,
        scratch: &mut CudaBuffer<u32>,
    ) -> Result<()> {
        self.send(rule, fixed, sending, [words, counts, scratch])
    }

    fn joint_receive(
        &self,
        rule: &JointRule,
        messages: &Messages<'_, Self>,
        brick: &Brick<'_, Self>,
        table: Option<&CudaBuffer<i32>>,
        out: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        self.receive(rule, messages, brick, table, out)
    }
}

// The sums of a tile fit in numbers of 64 bits, and its counts in those of 32 bits.
const _: () = {
    assert!(32 * 32 * COUNTING <= JointRule::SAFE[0] as usize);
    assert!(32 * 32 * SUMMING <= JointRule::SAFE[1] as usize);
    assert!(NUMBERS == 21);
    assert!(COUNTING == Walk::WARPS * Walk::LANES);
};
