//! Images that no device has: chunks of the fixed block and what they meet of the moving image pass through its memory.

use super::met::met;
use super::{JointSums, Plan, Strategy, upload_table};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use voxalign_compute::Device;
use voxalign_compute::comm::{CommError, Communicator, Result};
use voxalign_compute::ops::joint::{
    Block, Brick, FixedPart, FixedPointMap, JointRule, Pixel, Pixels,
};

/// Where blocks come from that pass through a device: memory of the host, or files.
pub trait Supply<P>: Send + Sync {
    /// The bins of a block of the fixed image, x fastest.
    ///
    /// # Errors
    /// What cannot be read.
    fn fixed(&self, block: &Block) -> Result<Vec<u8>>;

    /// The pixels of a block of the moving image, x fastest.
    ///
    /// # Errors
    /// What cannot be read.
    fn moving(&self, block: &Block) -> Result<Vec<P>>;
}

/// Nothing stays on the device: every evaluation brings the images to it, chunk by chunk.
pub struct Streamed<'a, D: Device, P: Pixel> {
    device: D,
    plan: Plan,
    supply: Box<dyn Supply<P> + 'a>,
    /// Bytes of the device for a chunk with what it meets.
    room: u64,
}

/// Chunks on the device or on their way to it.
const AT_ONCE: u64 = 3;

/// The most bytes of a chunk: larger ones are not faster, and the host has as many beside them.
const MOST: u64 = 1 << 28;

/// The memory of a device that chunks take, bytes, of so much that they may take; and as much of the host's, but for one of the three.
#[must_use]
pub fn streamed_memory(most: u64) -> u64 {
    AT_ONCE * (most / AT_ONCE).min(MOST)
}

/// The smallest chunk that is cut further where it has no room.
const SMALLEST: usize = 1 << 10;

/// What chunks take at least, bytes: the smallest ones, with four times as many moving pixels of 16 bits.
pub(crate) const LEAST_MEMORY: u64 = AT_ONCE * 9 * SMALLEST as u64;

impl<'a, D: Device, P: Pixel> Streamed<'a, D, P> {
    /// For a plan of [`StrategyKind::Streamed`](super::StrategyKind::Streamed), with so much memory of the device, bytes.
    #[must_use]
    pub fn new(device: D, plan: Plan, supply: Box<dyn Supply<P> + 'a>, memory: u64) -> Self {
        Self { device, plan, supply, room: streamed_memory(memory) / AT_ONCE }
    }

    /// The chunks of the own block with what each meets of the moving image; those that meet nothing are left out.
    fn chunks(&self, map: &FixedPointMap) -> Vec<[Block; 2]> {
        let dims = self.plan.moving_blocks.dims();
        let bytes =
            |fixed: &Block, moving: &Block| (fixed.len() + moving.len() * size_of::<P>()) as u64;
        let (mut open, mut done) = (vec![self.plan.fixed], Vec::new());
        while let Some(chunk) = open.pop() {
            let met = met(&chunk, map, dims);
            if chunk.is_empty() || met.is_empty() {
                continue;
            }
            if bytes(&chunk, &met) <= self.room || chunk.len() <= SMALLEST {
                done.push([chunk, met]);
            } else {
                open.extend(halves(&chunk).into_iter().rev());
            }
        }
        done
    }

    /// Counts the chunks while the next ones are read.
    fn own(&self, rule: &JointRule, table: Option<&[i32]>) -> Result<Vec<i64>> {
        let device = &self.device;
        let table = upload_table(device, table)?;
        let mut out = device.alloc(rule.numbers(table.is_some()))?;
        let chunks = self.chunks(&rule.map);
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(0);
            let chunks = &chunks;
            let read = move || self.read(chunks, &sender);
            std::thread::Builder::new().spawn_scoped(scope, read).map_err(|e| {
                let what = format!("a thread that reads images could not be started: {e}");
                CommError::Unavailable(what)
            })?;
            self.count(&receiver, chunks, rule, table.as_ref(), &mut out)
        })?;
        Ok(device.into_host(out)?)
    }

    /// Reads chunks until nobody wants them.
    fn read(&self, chunks: &[[Block; 2]], to: &SyncSender<Result<(Vec<u8>, Vec<P>)>>) {
        for [fixed, moving] in chunks {
            let bins = self.supply.fixed(fixed);
            let both = bins.and_then(|bins| Ok((bins, self.supply.moving(moving)?)));
            if to.send(both).is_err() {
                return;
            }
        }
    }

    fn count(
        &self,
        from: &Receiver<Result<(Vec<u8>, Vec<P>)>>,
        chunks: &[[Block; 2]],
        rule: &JointRule,
        table: Option<&D::Buffer<i32>>,
        out: &mut D::Buffer<i64>,
    ) -> Result<()> {
        let (device, dims) = (&self.device, self.plan.moving_blocks.dims());
        for [block, moving] in chunks {
            let gone = |_| CommError::Unavailable("the thread that reads images has ended".into());
            let (bins, pixels) = from.recv().map_err(gone)??;
            let (bins, pixels) = (device.upload_vec(bins)?, device.upload_vec(pixels)?);
            let brick = Brick::new(*moving, dims, Pixels::on_device::<P>(&pixels));
            let fixed = FixedPart { block: *block, bins: &bins, part: *block };
            device.joint_add(rule, &fixed, &[brick], table, out)?;
            // The buffers are free before the next ones come.
            device.synchronize()?;
        }
        Ok(())
    }
}

impl<D: Device, P: Pixel> Strategy for Streamed<'_, D, P> {
    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        JointSums::over(ranks, ranks.agree(self.own(rule, table))?, [0; 2])
    }
}

/// The two halves of a block along its longest axis.
fn halves(block: &Block) -> [Block; 2] {
    let axis = (0..3).rev().max_by_key(|&a| block.dims[a]).unwrap_or(0);
    let [mut first, mut second] = [*block; 2];
    first.dims[axis] = block.dims[axis] / 2;
    second.origin[axis] += first.dims[axis];
    second.dims[axis] -= first.dims[axis];
    [first, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_the_whole() {
        let block = Block { origin: [3, 4, 5], dims: [7, 9, 1] };
        let [a, b] = halves(&block);
        assert_eq!((a.origin, a.dims), ([3, 4, 5], [7, 4, 1]));
        assert_eq!((b.origin, b.dims), ([3, 8, 5], [7, 5, 1]));
    }
}
