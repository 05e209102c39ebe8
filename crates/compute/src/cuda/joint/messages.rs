//! Messages of joint histograms on a GPU.

use std::sync::LazyLock;

use super::{
    COUNTING, Cuda, CudaBuffer, JointBins, JointBrick, JointMap, JointPart, PixelCell, SUMMING,
    Shape, WAVES, coordinates, macros, number, own_pixels,
};
use crate::cuda::declare::{In, Out};
use crate::device::{DeviceBuffer, Memory};
use crate::error::Result;
use crate::ops::joint::{
    Brick, Collect, FixedPart, JointRule, MessageLayout, Messages, Sending, check_bricks,
    check_fixed, check_messages, check_rule,
};

plain! {
    /// How the moving image is cut, what is here, and how messages lie in memory.
    struct JointOwners {
        each: [u32; 3],
        more: [u32; 3],
        parts: [u32; 3],
        here_low: [u32; 3],
        here_high: [u32; 3],
        own: u32,
        ranks: u32,
        most: u32,
        room: u32,
        structures: u32,
    }
}

plain! {
    /// A list of messages: its address where another GPU has it, and else 0; the first of them, how many there is room for, how many they are,
    /// and whether they are structures.
    struct JointList {
        far: u64,
        first: u64,
        room: u64,
        n: u64,
        structures: u64,
    }
}

kernels! { MESSAGES = "joint/messages.cu";
    fn joint_clear[256](numbers: &mut [u32], first: u64, n: u64);
    fn joint_send[256](
        map: JointMap, bins: JointBins, part: JointPart, fixed: &[u8], owners: JointOwners, words: &mut [u32],
        bytes: &mut [u8], counts: &mut [u32],
    );
    fn joint_fill_slots[256](
        map: JointMap, bins: JointBins, part: JointPart, fixed: &[u8], owners: JointOwners, slots: &mut [u32],
        counts: &mut [u32],
    );
    fn joint_compact[256](
        owners: JointOwners, total: u64, slots: &mut [u32], counts: &[u32], words: &mut [u32], bytes: &mut [u8],
    );
    fn joint_receive_counts[512](
        bins: JointBins, brick: JointBrick, own: &[PixelCell], list: JointList, words: &[u32], bytes: &[u8],
        most: u32, copies: u32, out: &mut [u64],
    );
    fn joint_receive_slopes[256](
        bins: JointBins, brick: JointBrick, own: &[PixelCell], list: JointList, words: &[u32], bytes: &[u8],
        most: u32, slopes: &[i32], out: &mut [u64],
    );
}

/// The pixels of a side of what a block of threads looks at together.
const BOX: usize = 32;

static PROGRAMS: LazyLock<Vec<MESSAGES>> =
    LazyLock::new(|| (0..8).map(|number| MESSAGES.with(&macros(number))).collect());

impl JointOwners {
    fn new(rule: &JointRule, sending: &Sending) -> Self {
        let (dims, parts) = (sending.owners.dims(), sending.owners.parts());
        let [here_low, here_high] = coordinates(rule, &sending.here);
        Self {
            each: [0, 1, 2].map(|a| (dims[a] / parts[a]) as u32),
            more: [0, 1, 2].map(|a| (dims[a] % parts[a]) as u32),
            parts: parts.map(|n| n as u32),
            here_low,
            here_high,
            own: sending.own as u32,
            ranks: sending.owners.ranks() as u32,
            most: sending.most as u32,
            room: sending.room() as u32,
            structures: u32::from(sending.layout == MessageLayout::Structures),
        }
    }
}

impl Cuda {
    fn clear(&self, numbers: &mut CudaBuffer<u32>, first: usize) -> Result<()> {
        let n = numbers.len() - first;
        if n == 0 {
            return Ok(());
        }
        let shape = Shape::covering(n, 256);
        // SAFETY: `n` numbers follow the first.
        unsafe { PROGRAMS[0].joint_clear(self, shape, numbers, first as u64, n as u64) }
    }

    /// [`joint_send`](crate::ops::Joint::joint_send), to lists with their lengths.
    pub(super) fn send(
        &self,
        rule: &JointRule,
        fixed: &FixedPart<'_, Self>,
        sending: &Sending,
        [words, counts, scratch]: [&mut CudaBuffer<u32>; 3],
    ) -> Result<()> {
        check_rule(rule, None, rule.numbers(false))?;
        check_fixed(fixed)?;
        let total = fixed.part.len();
        sending.check(rule, total, [words.len(), counts.len(), scratch.len()])?;
        self.clear(counts, 0)?;
        if total == 0 {
            return Ok(());
        }
        let program = &PROGRAMS[number(rule, false)];
        let (map, bins) = (JointMap::new(rule), JointBins::new(rule, false));
        let (part, owners) = (JointPart::new(fixed), JointOwners::new(rule, sending));
        let most = 4 * WAVES * self.multiprocessors();
        let [x, y, z] = fixed.part.dims;
        let boxes = x.div_ceil(BOX) * y.div_ceil(BOX) * z;
        let shape = Shape::blocks(total.div_ceil(256).min(most), 256);
        let of_boxes = Shape::blocks(boxes.min(most), 256);
        let (out, bytes) = (Out::<u32>::cast(words), Out::<u8>::cast(words));
        // SAFETY: pixels of the part are read in its block; there is room for a message of every pixel in the list of every rank, or in
        // the slots and in the one list of all.
        unsafe {
            match sending.collect {
                Collect::Atomic => program.joint_send(
                    self, of_boxes, map, bins, part, fixed.bins, owners, out, bytes, counts,
                ),
                Collect::Compacted => {
                    self.clear(scratch, sending.most * (1 + sending.axes))?;
                    program.joint_fill_slots(
                        self,
                        shape,
                        map,
                        bins,
                        part,
                        fixed.bins,
                        owners,
                        &mut *scratch,
                        &mut *counts,
                    )?;
                    program.joint_compact(
                        self,
                        shape,
                        owners,
                        total as u64,
                        scratch,
                        &*counts,
                        out,
                        bytes,
                    )
                }
            }
        }
    }

    /// [`joint_receive`](crate::ops::Joint::joint_receive).
    pub(super) fn receive(
        &self,
        rule: &JointRule,
        messages: &Messages<'_, Self>,
        brick: &Brick<'_, Self>,
        table: Option<&CudaBuffer<i32>>,
        out: &mut CudaBuffer<i64>,
    ) -> Result<()> {
        check_rule(rule, table.map(DeviceBuffer::len), out.len())?;
        let wide = check_bricks(rule, std::slice::from_ref(brick))?;
        check_messages(rule, messages)?;
        let Messages { words, count, .. } = *messages;
        // What is here is read as a buffer, in the order of its uses.
        let is_here = words.is_of(self);
        let far = if is_here { 0 } else { words.reached_by(self)? };
        if count == 0 {
            return Ok(());
        }
        let program = &PROGRAMS[number(rule, wide)];
        let (bins, own) = (JointBins::new(rule, wide), own_pixels(Some(brick)));
        let there = self.brick(rule, brick)?;
        let list = JointList {
            far,
            first: messages.first as u64,
            room: messages.room as u64,
            n: count as u64,
            structures: u64::from(messages.layout == MessageLayout::Structures),
        };
        let (words, bytes) = match is_here {
            true => (In::from(words), In::<u8>::cast(words)),
            false => (In::none(), In::none()),
        };
        let most = rule.at_once(table.is_some());
        let threads = if table.is_some() { SUMMING } else { COUNTING };
        let blocks = count.div_ceil(threads).min(WAVES * self.multiprocessors());
        let shape = Shape::blocks(blocks, threads as u32);
        let out = Out::<u64>::cast(out);
        // SAFETY: `n` messages are read, whose words are there; those of cells that the brick has not are left out.
        unsafe {
            match table {
                Some(table) => program.joint_receive_slopes(
                    self, shape, bins, there, own, list, words, bytes, most, table, out,
                ),
                None => {
                    let copies = self.tables(rule);
                    let shape = shape.with_shared(copies * rule.entries() * size_of::<u32>());
                    program.joint_receive_counts(
                        self,
                        shape,
                        bins,
                        there,
                        own,
                        list,
                        words,
                        bytes,
                        most,
                        copies as u32,
                        out,
                    )
                }
            }
        }?;
        // The stream does not know who reads memory of the host or of another GPU.
        if is_here && brick.pixels.is_on_device() { Ok(()) } else { self.synchronize() }
    }
}
