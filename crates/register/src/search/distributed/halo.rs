//! The moving block with a halo on the device, and the whole moving image in the memory of the host (section 4.1 of the paper).

use super::{Held, JointSums, Strategy, with_bricks};
use std::sync::Arc;
use voxalign_compute::comm::{Communicator, Result};
use voxalign_compute::error::check_len;
use voxalign_compute::ops::joint::{Block, Brick, JointRule, Pixel, Pixels};
use voxalign_compute::{Device, HostBuffer};

/// The moving block with a halo on the device, and the rest in the memory of the host.
pub struct Halo<D: Device, P: Pixel> {
    held: Held<D, P>,
    whole: Arc<HostBuffer<P>>,
}

impl<D: Device, P: Pixel> Halo<D, P> {
    /// With what a plan of [`StrategyKind::Halo`](super::StrategyKind::Halo) names, and the whole moving image in memory that the device
    /// reaches ([`host_alloc`](voxalign_compute::Transfer::host_alloc)). Ranks that are threads of one process can share one.
    ///
    /// # Errors
    /// If there are not as many pixels.
    pub fn new(held: Held<D, P>, whole: Arc<HostBuffer<P>>) -> Result<Self> {
        let all = Block::whole(held.plan.moving_blocks.dims());
        check_len("pixels of the whole moving image", all.len(), whole.len())?;
        Ok(Self { held, whole })
    }
}

impl<D: Device, P: Pixel> Strategy for Halo<D, P> {
    fn sums(
        &self,
        ranks: &Communicator,
        rule: &JointRule,
        table: Option<&[i32]>,
    ) -> Result<JointSums> {
        let dims = self.held.plan.moving_blocks.dims();
        let rest = Brick::new(Block::whole(dims), dims, Pixels::on_host(&self.whole));
        with_bricks(ranks, &self.held, rule, table, &[self.held.own(), rest])
    }
}
